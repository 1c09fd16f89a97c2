import numpy as np
import pytest
import tensorflow as tf

from fathom import Autoenc, AutoencFwd, FathomError
from fathom.autoenc.mnist import draw_digits, write_idx
from fathom.autoenc.model import (
    Outputs,
    Reparameterization,
    kl_divergence,
    negative_elbo,
    reconstruction_error,
)
from fathom.core.layers import PRNGKey
from fathom.core.training.optimizers import Adagrad, Adam

SMALL = {"batch_size": 20, "hidden_units": 30, "latents": 4}


@pytest.fixture(scope="module")
def trained():
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    model.run(n_steps=400)
    return model


@pytest.mark.slow
def test_several_models_are_evaluated_without_a_warning_of_many_tracings(capfd):
    for seed in range(6):
        model = Autoenc(
            "/cpu:0", {"batch_size": 500, "hidden_units": 4, "latents": 2, "seed": seed}
        )
        model.setup()
        model.evaluate()
    assert "retracing" not in capfd.readouterr().err


def test_xla_evaluates_with_the_same_random_numbers():
    found = []
    for xla in (False, True):
        model = AutoencFwd("cpu", {"seed": 3, "hidden_units": 8, "latents": 4, "xla": xla})
        model.setup()
        found.append(model.evaluate()["negative_elbo"])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_the_divergence_is_that_of_two_gaussians_by_numerical_integration():
    mean, log_variance = 0.7, -0.4
    z = np.linspace(-12, 12, 200_001)
    q = np.exp(-0.5 * (z - mean) ** 2 / np.exp(log_variance)) / np.sqrt(
        2 * np.pi * np.exp(log_variance)
    )
    p = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    expected = np.trapezoid(q * np.log(q / p), z)
    computed = kl_divergence(tf.constant([[mean]]), tf.constant([[log_variance]]))
    np.testing.assert_allclose(computed, [expected], rtol=1e-5)


def test_the_reconstruction_error_is_minus_the_bernoulli_log_likelihood():
    x, logits = np.array([[1.0, 0.0, 0.25]]), np.array([[0.3, -2.0, 1.5]])
    p = 1 / (1 + np.exp(-logits))
    expected = -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum(1)
    np.testing.assert_allclose(reconstruction_error(x, logits), expected)


def test_the_bound_is_the_sum_of_both_terms_for_each_image():
    rng = np.random.default_rng(0)
    outputs = Outputs(*(tf.constant(rng.normal(size=(3, n)), tf.float32) for n in (784, 4, 4)))
    x = tf.constant(rng.random((3, 784)), tf.float32)
    expected = reconstruction_error(x, outputs.logits) + kl_divergence(*outputs[1:])
    np.testing.assert_allclose(negative_elbo(x, outputs), expected)


def test_latents_are_drawn_with_the_encoders_mean_and_deviation():
    layer = Reparameterization(PRNGKey(0, tf.Variable(0, dtype=tf.int64)))
    mean, log_variance = tf.fill([20_000, 2], 3.0), tf.fill([20_000, 2], np.log(4.0))
    z = layer(mean, tf.cast(log_variance, tf.float32)).numpy()
    assert z.mean() == pytest.approx(3, abs=0.05)
    assert z.std() == pytest.approx(2, abs=0.05)


def test_sampling_is_part_of_inference_as_fathom_has_it():
    model = AutoencFwd("/cpu:0", SMALL)
    model.setup()
    types = {operation.type for operation in model.model().get_operations()}
    assert "StatelessRandomNormalV2" in types


def test_weights_start_as_the_paper_says():
    model = Autoenc("/cpu:0")
    model.build()
    for variable in model.network.trainable_variables:
        values = variable.numpy()
        if variable.path.endswith("kernel"):
            assert values.std() == pytest.approx(0.01, rel=0.05)
        else:
            assert not values.any()


def test_the_prior_decays_the_weights_of_the_decoder_alone():
    model = Autoenc("/cpu:0", {**SMALL, "prior_decay": 0.5})
    model.build()
    decayed = [v.path for v in model.network.trainable_variables if model.optimizer._decayed(v)]
    assert decayed == ["decoder_hidden/kernel", "decoder_logits/kernel"]


def test_an_epoch_shows_every_image_once():
    model = Autoenc("/cpu:0", {**SMALL, "binarize": False, "steps_per_call": 10})
    model.setup()
    blocks = model.training_batches(0)
    shown = np.concatenate([next(blocks)[0] for _ in range(model.steps_per_epoch // 10)])
    shown = shown.reshape(-1, 784)
    images = model.mnist.train_images.reshape(-1, 784) / np.float32(255)
    assert sorted(map(bytes, shown)) == sorted(map(bytes, images))


def test_blocks_of_steps_give_the_losses_of_single_steps(tmp_path):
    def losses(n_steps, setup_options=None, **options):
        model = Autoenc("/cpu:0", SMALL | options)
        model.setup(setup_options)
        return model.run(n_steps=n_steps).steps.loss

    single = losses(17, steps_per_call=1)
    assert losses(17, steps_per_call=5) == single
    begun = losses(8, {"checkpoint_dir": str(tmp_path)}, steps_per_call=5)
    resumed = losses(9, {"checkpoint_dir": str(tmp_path), "resume": True}, steps_per_call=5)
    assert begun + resumed == single


def test_a_runstep_that_cannot_be_called_is_refused():
    with pytest.raises(FathomError, match=r"runstep must be a function of \(step, batch\), not 5"):
        Autoenc("/cpu:0", SMALL).run(runstep=5, n_steps=1)


def test_a_learning_rate_changes_in_proportion_to_the_one_before_if_that_is_known():
    model = Autoenc("/cpu:0", SMALL)
    model.build()
    model.learning_rate.assign(0.5)
    model.change_learning_rate(0.25, 0.125)
    assert model.learning_rate.numpy() == 0.25
    for unknown in (None, "fast", 0, float("nan"), float("inf"), []):  # of a damaged file
        model.change_learning_rate(unknown, 0.125)
        assert model.learning_rate.numpy() == 0.125
        model.learning_rate.assign(0.5)


def test_no_call_runs_steps_of_the_warm_up_and_steps_that_count():
    model = Autoenc("/cpu:0", SMALL | {"steps_per_call": 5})
    model.setup()
    ran = []

    def runstep(step, block):
        losses = step(*block)
        ran.append(int(np.count_nonzero(losses)))
        return losses

    assert len(model.run(runstep, n_steps=9, warmup=2).steps.counted) == 7
    assert ran == [2, 3, 4]


def test_inference_gives_the_outputs_of_single_steps():
    single = AutoencFwd("/cpu:0", {**SMALL, "steps_per_call": 1})
    together = AutoencFwd("/cpu:0", {**SMALL, "steps_per_call": 5})
    outputs = {}
    for model in (single, together):
        model.setup()
        kept = outputs[model] = []
        model.run(lambda step, batch, kept=kept: kept.append(step(*batch)), 5, warmup=0)
    stacked = tf.nest.map_structure(lambda *steps: tf.stack(steps), *outputs[single])
    for ours, theirs in zip(outputs[together][0], stacked, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_pixels_are_sampled_each_time_with_their_grey_value_as_probability():
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    grey = tf.fill([1000, 784], tf.constant(51, tf.uint8))
    first, second = (
        model.prepare((grey,), tf.constant([0, i], tf.int64))[0].numpy() for i in range(2)
    )
    assert set(np.unique(first)) == {0.0, 1.0}
    assert first.mean() == pytest.approx(51 / 255, abs=0.005)
    assert (first != second).any()


def test_the_evaluation_meets_every_test_image_and_is_repeatable(trained):
    metrics = trained.evaluate()
    assert metrics["examples"] == len(trained.mnist.test_images)
    assert metrics["negative_elbo"] == pytest.approx(
        metrics["reconstruction"] + metrics["kl_divergence"], rel=1e-5
    )
    assert trained.evaluate() == metrics


def test_four_hundred_steps_learn_the_synthetic_digits(trained):
    untrained = Autoenc("/cpu:0", SMALL)
    untrained.setup()
    assert trained.evaluate()["negative_elbo"] < 0.5 * untrained.evaluate()["negative_elbo"]


def test_adagrad_the_papers_rule_learns_the_synthetic_digits_too(trained):
    model = Autoenc("/cpu:0", {**SMALL, "optimizer": "adagrad", "learning_rate": 0.01})
    model.setup()
    assert type(model.optimizer) is Adagrad
    before = model.evaluate()["negative_elbo"]
    model.run(n_steps=400)
    after = model.evaluate()["negative_elbo"]
    assert after < 0.5 * before
    assert after == pytest.approx(trained.evaluate()["negative_elbo"], rel=0.1)


def test_the_rule_is_fathoms_unless_another_is_chosen():
    model = Autoenc("/cpu:0", SMALL)
    model.build()
    assert type(model.optimizer) is Adam


def test_pictures_of_reconstructions_and_samples_are_written(trained, tmp_path):
    paths = trained.save_pictures(tmp_path)
    assert [path.name for path in paths] == [
        "autoenc-reconstructions.png",
        "autoenc-samples.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


@pytest.mark.parametrize("count", [1, 10, 29])
def test_pictures_can_be_made_of_a_test_set_of_few_images(tmp_path, count):
    rng = np.random.default_rng(0)
    for half, size in (("train", 40), ("t10k", count)):
        labels = np.arange(size, dtype=np.uint8) % 10
        write_idx(tmp_path / f"{half}-images-idx3-ubyte", draw_digits(labels, rng))
        write_idx(tmp_path / f"{half}-labels-idx1-ubyte", labels)
    model = Autoenc("/cpu:0", {**SMALL, "data_dir": str(tmp_path)})
    model.setup()
    assert model.evaluate()["examples"] == count
    assert all(path.exists() for path in model.save_pictures(tmp_path))


def test_with_xla_the_latents_that_are_drawn_are_the_same():
    noise = PRNGKey(3, tf.Variable(8, dtype=tf.int64))
    layer = Reparameterization(noise)
    mean, log_variance = tf.fill([9, 5], 0.5), tf.fill([9, 5], -1.0)
    drawn = tf.function(layer, jit_compile=True, autograph=False)(mean, log_variance)
    np.testing.assert_allclose(drawn, layer(mean, log_variance), atol=1e-5)


def test_a_step_on_real_digits_lowers_the_bound(real_data):
    model = Autoenc("/cpu:0", {**SMALL, "data_dir": str(real_data / "mnist")})
    model.setup()
    losses = model.run(n_steps=300).steps.loss
    assert np.mean(losses[-20:]) < 0.5 * losses[0]
