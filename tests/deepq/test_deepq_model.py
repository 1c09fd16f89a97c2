"""Deep Q-learning: the update rule, the loop of acting and learning, evaluation, checkpoints."""

import itertools
import json
import math

import numpy as np
import pytest
import tensorflow as tf
from corridor import ROOMS, CorridorDeepQ, corridor, draw
from PIL import Image

from fathom import DeepQ, DeepQFwd, FathomError
from fathom.core.training.runner import Progress
from fathom.model import calibration

SMALL = {
    "network": 2013,
    "batch_size": 4,
    "replay_size": 200,
    "learning_starts": 60,
    "target_update": 3,
    "final_exploration_frame": 1,  # act greedily at once
    "evaluation_episodes": 1,
}


def pong(**options):
    return DeepQ("/cpu:0", {**SMALL, **options})


def losses(model, n_steps):
    return model.run(n_steps=n_steps).steps.loss


@pytest.fixture(scope="module")
def built():
    model = corridor()
    model.setup()
    return model


def states():
    """Returns the corridor's rooms as the network sees them on the way to the right."""
    state = np.zeros((ROOMS - 1, 84, 84, 4), np.uint8)
    for room in range(1, ROOMS):
        for back in range(room):
            state[room - 1, ..., 3 - back] = draw(room - back)
    return state


@pytest.mark.parametrize(
    ("game", "network", "parameters"),
    [("breakout", 2015, 1_686_180), ("pong", 2015, 1_687_206), ("breakout", 2013, 677_172)],
)
def test_the_networks_have_the_papers_number_of_parameters(game, network, parameters):
    model = DeepQ("/cpu:0", {"game": game, "network": network})
    model.build()
    assert model.cost().parameters == parameters


@pytest.mark.parametrize(
    ("network", "training_macs", "layer_macs"),
    [
        (
            2015,
            34_107_392,
            [
                20 * 20 * 32 * (8 * 8 * 4),
                9 * 9 * 64 * (4 * 4 * 32),
                7 * 7 * 64 * (3 * 3 * 64),
                7 * 7 * 64 * 512,
                512 * 6,
            ],
        ),
        (
            2013,
            10_229_760,
            [20 * 20 * 16 * (8 * 8 * 4), 9 * 9 * 32 * (4 * 4 * 16), 9 * 9 * 32 * 256, 256 * 6],
        ),
    ],
)
def test_training_runs_the_target_network_too_and_needs_no_gradient_of_the_frames(
    network, training_macs, layer_macs
):
    model = DeepQ("/cpu:0", {"network": network})
    model.build()
    assert model.cost().forward_macs == sum(layer_macs)
    assert model.cost().training_macs == 4 * sum(layer_macs) - layer_macs[0] == training_macs


def test_weights_and_biases_begin_uniform_within_the_root_of_the_fan_in():
    model = DeepQ("/cpu:0")
    model.build()
    for layer in model.network.layers:
        for variable in layer.trainable_variables:
            limit = 1 / math.sqrt(np.prod(layer.kernel.shape[:-1]))
            assert 0.7 * limit < np.abs(variable.numpy()).max() <= limit


def test_epsilon_falls_linearly_once_learning_starts():
    hyperparameters = DeepQ("/cpu:0").hyperparameters
    assert hyperparameters.epsilon(0) == hyperparameters.epsilon(50_000) == 1
    assert hyperparameters.epsilon(550_000) == pytest.approx(0.55)
    assert hyperparameters.epsilon(1_050_000) == pytest.approx(0.1)
    assert hyperparameters.epsilon(9_000_000) == pytest.approx(0.1)


def labels(reward, terminal):
    count = len(reward)
    return (
        tf.zeros(count, tf.int32),
        tf.constant(reward, tf.float32),
        tf.constant(states()[:count]),
        tf.constant(terminal),
    )


def test_the_target_is_the_reward_and_the_discounted_best_value_of_the_target_network(built):
    best = built._target_network(states()).numpy().max(1)
    q_values = tf.constant(np.stack([0.99 * best + [0.1, 0.6, 0.0], np.full(3, 9)], 1), tf.float32)
    loss = built.build_loss(None, labels([0, 0.5, 0], [False] * 3), q_values)
    assert float(loss) == pytest.approx(0.5 * (0.1**2 + 0.1**2), rel=1e-4)


def test_nothing_is_expected_after_a_terminal_state(built):
    q_values = tf.constant([[0.25, 9], [-0.5, 9], [1.0, 9]])
    loss = built.build_loss(None, labels([0.25, -1, 1], [True] * 3), q_values)
    assert float(loss) == pytest.approx(0.5 * 0.5**2)


def test_the_error_of_each_transition_is_clipped_and_the_minibatch_summed(built):
    q_values = tf.Variable([[3.0, 9], [-4.0, 9], [0.75, 9]])
    with tf.GradientTape() as tape:
        loss = built.build_loss(None, labels([1, 1, 1], [True] * 3), q_values)
    assert float(loss) == (2 - 0.5) + (5 - 0.5) + 0.5 * 0.25**2
    np.testing.assert_allclose(tape.gradient(loss, q_values), [[1, 0], [-1, 0], [-0.25, 0]])


def test_the_target_network_changes_only_when_it_is_due():
    model = corridor(target_update=3)
    model.setup()
    for step in range(1, 8):
        before = model._target_network.get_weights()
        model.run(n_steps=1)
        changed = [
            np.any(a != b) for a, b in zip(before, model._target_network.get_weights(), strict=True)
        ]
        assert all(changed) if step % 3 == 0 else not any(changed)
        if step % 3 == 0:
            for ours, theirs in zip(
                model._target_network.get_weights(), model.network.get_weights(), strict=True
            ):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_the_optimal_policy_of_a_small_game_is_found():
    model = corridor()
    model.setup()
    result = model.run(n_steps=300)
    q_values = model.network(states()).numpy()
    assert np.all(q_values.argmax(1) == 1)
    np.testing.assert_allclose(q_values[:, 1], [0.99**2, 0.99, 1], atol=0.2)
    metrics = model.evaluate()
    assert (metrics["mean_score"], metrics["min_score"], metrics["episodes"]) == (1, 1, 3)
    assert {score for _, score in result.metrics.history["score"]} == {-1, 1}


def test_the_hook_sees_acting_and_learning_steps_apart_and_may_skip_both():
    model = corridor(initial_exploration=0.0, final_exploration=0.0)
    model.setup()
    acting, learning = [], []

    def runstep(step, batch):
        (acting if len(batch) == 1 else learning).append([tensor.shape[0] for tensor in batch])
        return None

    result = model.run(runstep=runstep, n_steps=3)
    assert acting == [[1]] * (100 + 3 * 2)  # to fill the memory, and two actions a step
    assert learning == [[16] * 5] * 3
    assert result.steps.loss == [None] * 3


def test_progress_shows_how_the_replay_memory_fills(monkeypatch):
    messages = []
    monkeypatch.setattr(Progress, "preparing", lambda self, *facts: messages.append(facts))
    model = pong()
    model.setup()
    model.run(n_steps=1)
    assert messages == [("filling the replay memory", done, 60) for done in range(60)]


def test_emulator_acting_sampling_and_learning_are_timed_apart():
    model = corridor()
    model.setup()
    result = model.run(n_steps=20)
    parts = [getattr(result.sections, n) for n in ("emulator", "acting", "sampling", "learning")]
    assert min(parts) > 0
    assert sum(parts) < result.sections.run
    assert result.sections.learning == pytest.approx(sum(result.steps.seconds))
    again = model.run(n_steps=1).sections  # of this run alone
    assert again.emulator + again.acting + again.sampling + again.learning < again.run
    assert again.learning == pytest.approx(sum(model.steps.seconds))


def test_a_resumed_run_acts_and_learns_as_the_uninterrupted_one(tmp_path):
    options = {"save_replay": True, "sticky_actions": 0.25, "game": "breakout"}
    uninterrupted = pong(**options)
    uninterrupted.setup()
    expected = losses(uninterrupted, 12)
    first = pong(**options)
    first.setup({"checkpoint_dir": str(tmp_path)})
    begun = losses(first, 5)
    resumed = pong(**options)
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    assert begun + losses(resumed, 7) == expected
    np.testing.assert_array_equal(resumed.agent.memory.frames, uninterrupted.agent.memory.frames)


def test_without_a_saved_replay_a_resumed_run_plays_on_until_learning_may_start(tmp_path):
    first = corridor()
    first.setup({"checkpoint_dir": str(tmp_path)})
    first.run(n_steps=5)
    resumed = corridor()
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    agent = resumed.agent
    assert (agent.actions_taken, len(agent.memory)) == (110, 0)
    np.testing.assert_array_equal(agent.player.state, first.agent.player.state)
    resumed.run(n_steps=1)
    assert (agent.actions_taken, len(agent.memory)) == (212, 102)


@pytest.mark.slow
def test_several_games_are_played_at_once_and_repeat_with_the_seed():
    def run(**options):
        model = pong(environments=3, **options)
        model.setup()
        result = losses(model, 3)
        assert len(model.agent.memory) == 60 + 3 * 6  # four actions are rounded up to six
        return result

    assert run() == run()
    assert run() != run(seed=1)


@pytest.mark.parametrize("save_replay", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_restarted_games_are_new_episodes_in_the_memory(save_replay, tmp_path):
    options = {"environments": 2, "save_replay": save_replay}
    first = pong(**options)
    first.setup({"checkpoint_dir": str(tmp_path)})
    first.run(n_steps=2)
    resumed = pong(**options)
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    kept = first.agent.memory.terminals.copy()
    if save_replay:
        kept[:, first.agent.memory.added - 1] = True
    else:
        kept[:] = False
    np.testing.assert_array_equal(resumed.agent.memory.terminals, kept)
    assert not resumed.agent.player.state[..., :-1].any()
    resumed.run(n_steps=1)


def test_a_forward_only_run_plays_a_batch_of_games():
    model = DeepQFwd("/cpu:0", {**SMALL, "evaluation_epsilon": 0.0})
    model.setup()
    batches, q_values = [], []

    def runstep(step, batch):
        batches.append(batch[0].numpy())
        q_values.append(step(*batch).numpy())
        return q_values[-1]

    model.run(runstep=runstep, n_steps=40)
    np.testing.assert_allclose(q_values[-1], model.network(batches[-1]).numpy(), atol=1e-5)
    for before, after in itertools.pairwise(batches):
        np.testing.assert_array_equal(before[..., 1:], after[..., :-1])
    assert np.any(batches[-1][0] != batches[-1][1])  # their no-op starts differ


def test_the_forward_only_twin_evaluates_as_the_trained_model(tmp_path):
    class CorridorFwd(CorridorDeepQ):
        forward_only = True

    trained = corridor()
    trained.setup({"checkpoint_dir": str(tmp_path)})
    trained.run(n_steps=10)
    forward = CorridorFwd("/cpu:0", trained.hyperparameters.__dict__)
    forward.setup({"checkpoint_dir": str(tmp_path)})
    assert forward.evaluate() == trained.evaluate()


def test_an_evaluation_tells_each_score_and_draws_what_was_learned(tmp_path):
    model = corridor()
    model.setup()
    result = model.run(n_steps=30)
    model.evaluate()
    assert len(model.describe_data()["scores"]) == 3
    model.note("mean_q", 0.5)
    recording, curve = model.save_pictures(tmp_path)
    with Image.open(recording) as image:
        assert image.format == "GIF"
    with Image.open(curve) as image:
        assert image.size == (800, 600)
    json.dumps(result.to_plain())


def test_the_mean_q_value_is_noted_after_each_epoch(monkeypatch):
    monkeypatch.setattr(CorridorDeepQ, "steps_per_epoch", 2)
    model = corridor()
    model.setup()
    model.run(n_steps=5)
    assert [step for step, _ in model.history["mean_q"]] == [2, 4]
    assert np.all(np.isfinite([value for _, value in model.history["mean_q"]]))


def test_an_environment_that_fails_ends_the_run_and_keeps_the_last_checkpoint(tmp_path):
    model = corridor()
    model.setup({"checkpoint_dir": str(tmp_path), "checkpoint_every": 2})
    model.run(n_steps=2)

    def fail(actions):
        raise RuntimeError("the console\nis on fire")

    model.agent.player.environment.step = fail
    with pytest.raises(
        FathomError, match="in the middle of an episode: RuntimeError: the console is on fire"
    ):
        model.run(n_steps=1)
    assert tf.train.latest_checkpoint(tmp_path).endswith("ckpt-2")


@pytest.mark.parametrize(
    ("game", "environments", "message"),
    [
        ("breakout", 1, r"of shape \[256, 6\], the network \[256, 4\]"),
        ("qbert", 1, "of the game pong, not qbert"),
        ("qbert", 2, "of the game pong, not qbert"),
    ],
)
def test_a_checkpoint_of_another_game_is_refused(game, environments, message, tmp_path):
    model = pong(environments=environments)
    model.setup({"checkpoint_dir": str(tmp_path)})
    model.run(n_steps=1)
    options = {"checkpoint_dir": str(tmp_path)}
    with pytest.raises(FathomError, match=message):
        pong(game=game, environments=environments).setup({**options, "resume": True})
    with pytest.raises(FathomError, match=message):
        DeepQFwd("/cpu:0", {**SMALL, "game": game}).setup(options)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"initial_exploration": 1.5}, "initial_exploration must be at most 1"),
        ({"final_exploration": -0.1}, "final_exploration must not be negative"),
        ({"evaluation_epsilon": 2.0}, "evaluation_epsilon must be at most 1"),
        ({"sticky_actions": 1.1}, "sticky_actions must be at most 1"),
        ({"network": 2014}, "network must be one of 2013, 2015"),
        ({"update_frequency": 0}, "update_frequency must be at least 1"),
        ({"target_update": 0}, "target_update must be at least 1"),
        ({"environments": 0}, "environments must be at least 1"),
        ({"min_squared_gradient": 0.0}, "min_squared_gradient must be more than 0"),
        ({"learning_starts": 300}, "learning_starts must be from 5 to replay_size 200, not 300"),
        ({"learning_starts": 4}, "learning_starts must be from 5"),
        ({"replay_size": 3}, "larger than the data: the replay memory holds 3 frames"),
        ({"replay_size": 2 * 10**9}, r"14,120,000,000,000 bytes .*smaller replay_size"),
        ({"game": "pnog"}, "unknown game 'pnog': did you mean pong"),
        ({"game": "combat"}, "combat cannot be played"),
    ],
    ids=str,
)
def test_an_option_that_cannot_work_is_refused_in_one_line(option, message):
    with pytest.raises(FathomError, match=message) as error:
        pong(**option).setup()
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_fixed_point_needs_no_folder_for_checkpoints(monkeypatch):
    monkeypatch.setattr(calibration, "STEPS", 1)
    model = corridor(precision="fixed16")
    model.setup()
    fractions = {tensor.fraction for tensor in model.built.simulation.record().tensors}
    assert len(fractions) > 1  # each tensor's own
    assert not model.agent.memory.added  # what is played to choose formats is forgotten
    model.run(n_steps=1)
    chosen = model.hyperparameters
    assert model.agent.actions_taken == chosen.learning_starts + chosen.update_frequency


@pytest.mark.parametrize(("environments", "actions"), [(1, 4), (3, 6), (8, 8)])
def test_frames_are_those_of_all_games(environments, actions):
    chosen = DeepQ.Hyperparameters(environments=environments, learning_starts=1000)
    assert chosen.frames_after(np.array([5])) == (1000 + 5 * actions) * 4
