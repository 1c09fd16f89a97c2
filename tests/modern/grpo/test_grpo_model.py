"""The policy, its rollouts, and the training that goes on after a checkpoint."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import softmax

from fathom.errors import FathomError
from fathom.modern.grpo import objective
from fathom.modern.grpo.model import GRPO, GRPOFwd
from fathom.modern.grpo.objective import NONE

SMALL = {
    "batch_size": 8,
    "group": 4,
    "supervised_steps": 2,
    "layers": 1,
    "heads": 2,
    "kv_heads": 1,
    "width": 16,
    "hidden_units": 24,
    "warmup": 0,
    "learning_rate": 0.01,
    "xla": False,
}


@pytest.fixture
def small_digits_pay(monkeypatch):
    """Rewards answers whose first token is + or a digit below 5, which a new policy finds."""
    monkeypatch.setattr(
        objective, "rewards", lambda answers, right: tf.cast(answers[:, 0] < 7, tf.float32)
    )


def make(**options):
    model = GRPO("/cpu:0", {**SMALL, **options})
    model.setup()
    return model


def losses(model, n_steps):
    return model.run(n_steps=n_steps).steps.loss


def batch_after(model, n_steps):
    """Returns the batch of the step after some."""
    model.run(n_steps=n_steps)
    return [tensor.numpy() for tensor in next(model.training_batches(n_steps))]


def test_a_right_answer_is_learned_by_its_cross_entropy():
    model = make()
    batch = next(model.training_batches(0))
    tokens, following, sampled = (tensor.numpy() for tensor in batch[:3])
    assert not sampled.any()
    logits = model.network(tokens).numpy()
    expected = []
    for row, labels, probabilities in zip(tokens, following, softmax(logits), strict=True):
        places = np.flatnonzero(labels != NONE)
        assert row[places + 1].tolist() == labels[places].tolist()
        text = model.vocabulary.decode(row)
        assert model.vocabulary.decode(labels[places]) == text[6 : text.index("\n") + 1]
        assert int(text[:2]) + int(text[3:5]) == int(text[6:])
        expected.append(np.mean([-np.log(probabilities[i, labels[i]]) for i in places]))
    loss = model.build_loss(batch[0], batch[1:], tf.constant(logits))
    assert float(loss) == pytest.approx(np.mean(expected), rel=1e-5)


def test_a_rollout_has_groups_of_answers_and_their_log_probabilities(small_digits_pay):
    model = make()
    tokens, following, sampled, advantages, old, reference = batch_after(model, 4)
    assert sampled.all()
    for first in (0, 4):
        assert (tokens[first : first + 4, :6] == tokens[first, :6]).all()
        assert advantages[first : first + 4].sum() == pytest.approx(0, abs=1e-5)
    assert (tokens[0, :6] != tokens[4, :6]).any()
    logits = model.network(tokens).numpy()
    found = objective.log_probabilities(following, logits)
    np.testing.assert_allclose(old, found, rtol=1e-5, atol=1e-6)
    assert np.abs(old - reference).max() > 1e-4
    assert (old[following == NONE] == 0).all()


def test_the_reference_is_the_policy_before_the_first_update(small_digits_pay):
    model = make()
    model.run(n_steps=2)
    weights = model.network.get_weights()
    model.run(n_steps=3)
    for kept, before, now in zip(
        model.reference.get_weights(), weights, model.network.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(kept, before)
        assert np.any(kept != now)


@pytest.mark.parametrize(
    "draft", [{}, pytest.param({"layers": 2, "draft_layers": 1}, marks=pytest.mark.slow)]
)
def test_answers_are_sampled_from_the_cache_by_the_probabilities_of_whole_sequences(draft):
    model = make(batch_size=4000, group=4000, **draft)
    model.run(n_steps=0)
    for variable in model.network.trainable_variables:  # far from a uniform distribution
        variable.assign(10 * variable)
    sums = next(model.training_batches(0))[0]
    tokens = model._roll_out(sums[:1])[0].numpy()
    logits = model.network(tokens[:1]).numpy()[0, 5]
    drawn = np.bincount(tokens[:, 6], minlength=13) / len(tokens)
    np.testing.assert_allclose(drawn, softmax(logits), atol=0.03)
    greedy = model.evaluation_outputs(sums[:5]).numpy()
    whole = np.concatenate([sums[:5, :6], greedy], 1)
    np.testing.assert_array_equal(model.network(whole).numpy().argmax(-1)[:, 5:9], greedy)


def test_rewards_rise_and_are_noted(small_digits_pay):
    model = make(batch_size=64, group=8, learning_rate=0.003)
    model.run(n_steps=60)
    rewards = [value for _, value in model.history["reward"]]
    assert [step for step, _ in model.history["reward"]] == list(range(2, 60))
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.2
    assert set(model.history) == {"reward", "length", "divergence"}
    assert model.history["divergence"][0][1] == pytest.approx(0, abs=1e-6)
    assert model.history["divergence"][-1][1] > 0


@pytest.mark.parametrize("updates", [1, 3])
@pytest.mark.slow
def test_a_training_resumed_between_updates_repeats_the_losses(updates, small_digits_pay, tmp_path):
    options = {"updates": updates, "xla": True}  # without, sums of three differ by their order
    whole = losses(make(**options), 9)
    folder = str(tmp_path)
    begun = make(**options)
    begun.setup({"checkpoint_dir": folder})
    first = losses(begun, 4)
    resumed = make(**options)
    resumed.setup({"checkpoint_dir": folder, "resume": True})
    assert first + losses(resumed, 5) == whole
    assert len(set(whole)) == 9


@pytest.mark.slow
def test_changed_settings_of_a_resumed_training_hold_from_its_first_step(tmp_path):
    folder = {"checkpoint_dir": str(tmp_path)}
    first = GRPO("/cpu:0", SMALL | {"supervised_steps": 9})
    first.setup(folder)
    first.run(n_steps=3)
    resumed = GRPO("/cpu:0", SMALL | {"learning_rate": 0.04, "supervised_steps": 2})
    resumed.setup(folder | {"resume": True})
    assert float(resumed.learning_rate) == pytest.approx(0.04)
    next(resumed.training_batches(3))
    for mine, policy in zip(
        resumed.reference.get_weights(), resumed.network.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(mine, policy)


@pytest.mark.slow
def test_updates_that_begin_within_a_block_have_answers(tmp_path):
    folder = {"checkpoint_dir": str(tmp_path)}
    first = GRPO("/cpu:0", SMALL | {"supervised_steps": 9, "updates": 2})
    first.setup(folder)
    first.run(n_steps=3)
    resumed = GRPO("/cpu:0", SMALL | {"supervised_steps": 2, "updates": 2})
    resumed.setup(folder | {"resume": True})
    one, other, third = itertools.islice(resumed.training_batches(3), 3)
    assert one[2].numpy().all()
    assert np.any(one[0] != other[0])
    assert np.all(other[0] == third[0])


@pytest.mark.slow
def test_answers_are_used_for_as_many_updates(small_digits_pay):
    model = make(updates=3)
    model.run(n_steps=2)
    seen = []
    model.run(runstep=lambda step, batch: (seen.append(batch[0]), step(*batch))[1], n_steps=7)
    same = [bool(np.all(a == b)) for a, b in itertools.pairwise(seen)]
    assert same == [True, True, False, True, True, False]


def test_the_result_has_the_sections(small_digits_pay):
    model = make()
    result = model.run(n_steps=4)
    sections = result.sections.model_dump()
    for name in ("rollout", "reward", "log_probabilities", "supervised", "update"):
        assert sections[name] > 0


@pytest.mark.slow
def test_an_evaluation_counts_the_exact_answers():
    model = make()
    metrics = model.evaluate()
    assert metrics["examples"] == len(model._validation)
    assert 1 <= metrics["length"] <= 4
    tokens = model._validation[:3]
    answers = tokens[:, 6:].numpy()
    answers[1, 0] += 1
    found = model.build_evaluation(tokens, (), tf.constant(answers))
    assert found["accuracy"].numpy().tolist() == [1, 0, 1]


@pytest.mark.slow
def test_the_twin_gives_the_answers_that_the_evaluation_counts(tmp_path):
    model = make()
    model.setup({"checkpoint_dir": str(tmp_path)})
    model.run(n_steps=3)
    twin = GRPOFwd("/cpu:0", SMALL)
    twin.setup({"checkpoint_dir": str(tmp_path)})
    (questions,) = next(twin.inference_batches())
    np.testing.assert_array_equal(
        twin.compiled.step.call(questions), model.evaluation_outputs(questions)
    )
    assert twin.evaluate() == model.evaluate()


@pytest.mark.slow
def test_pictures_have_answers_and_curves(tmp_path):
    model = make()
    model.run(n_steps=4)
    names = [path.name for path in model.save_pictures(tmp_path)]
    assert names == ["grpo-answers.txt", "grpo-training.png"]
    assert "prompt: " in (tmp_path / names[0]).read_text()


def test_a_batch_of_broken_groups_is_refused():
    with pytest.raises(FathomError, match="batch_size 6 is not a multiple of group 4"):
        make(batch_size=6)


def test_a_training_refuses_a_temperature_which_it_would_not_use():
    with pytest.raises(FathomError, match="temperature has no effect in training"):
        make(temperature=0.5, top_k=3)


@pytest.mark.slow
def test_sums_of_other_lengths_say_what_they_need(tmp_path):
    (tmp_path / "training.txt").write_text("1+1=2\n" * 9)
    (tmp_path / "held-out.txt").write_text("1+2=3\n" * 9)
    options = "--set prompt_tokens=4 --set new_tokens=2 --set context=6"
    with pytest.raises(FathomError, match=f"need {options}$"):
        make(data_dir=str(tmp_path))
    model = make(data_dir=str(tmp_path), prompt_tokens=4, new_tokens=2, context=6)
    assert len(losses(model, 3)) == 3


@pytest.mark.slow
def test_the_papers_size_has_the_papers_parameters():
    description = GRPO("/cpu:0", {"size": "7b"}).describe()
    assert description.parameters == 6_910_365_696  # of DeepSeek LLM 7B
