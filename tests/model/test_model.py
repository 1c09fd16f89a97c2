"""What a model keeps, and for how long."""

import keras
import pytest
import tensorflow as tf

from fathom import Autoenc, FathomError, Residual
from fathom.core.training.optimizers import GradientDescent
from fathom.results.records import RunResult

SMALL = {"hidden_units": 8, "latents": 2, "batch_size": 20}


@pytest.fixture
def model():
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    yield model
    model.teardown()


def test_an_evaluation_that_fails_disturbs_no_training_step(model):
    def damaged():
        yield next(iter(model.evaluation_batches()))
        raise FathomError("damaged")

    with pytest.raises(FathomError, match="damaged"):
        model.metrics_of(damaged())
    assert int(model.noise_step) == 0


def test_another_training_begins_without_the_curves_and_notes_of_the_one_before(model):
    model.note("loss", 1.0)
    model.notes.append("left out: two")
    model.setup()
    assert (model.history, model.notes) == ({}, [])


def test_the_same_data_under_another_name_is_no_change(model, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(model.source.directory)
    for folder in (model.source.directory, link):
        again = Autoenc("/cpu:0", SMALL | {"data_dir": str(folder)})
        again.setup({"checkpoint_dir": str(tmp_path), "resume": True})
        again.run(n_steps=1)
        again.teardown()
    assert [note for note in again.notes if "restored" in note or "changed" in note] == [
        f"restored {tmp_path / 'ckpt-1'}, after step 1"
    ]


def test_what_a_script_sets_before_the_setup_stays(tmp_path):
    model = Autoenc("/cpu:0", SMALL)
    model.build_train = lambda: GradientDescent(0.5)
    for _ in range(2):
        model.setup()
        assert isinstance(model.optimizer, GradientDescent)
        model.own = 3
        model.teardown()
        assert not hasattr(model, "own")


@pytest.mark.parametrize(
    ("method", "hook", "message"),
    [
        (
            "build_loss",
            lambda: tf.ones(2),
            r"the loss of autoenc has shape \[2\]: expected a scalar",
        ),
        (
            "build_train",
            lambda: None,
            "build_train of autoenc returns NoneType: expected a .*Optimizer",
        ),
        (
            "build_evaluation",
            lambda: {"m": tf.ones([])},
            r"metric m of autoenc has shape \[\]: expected a value",
        ),
        ("build_loss", lambda: None, "the loss of autoenc is None: expected a scalar"),
        ("build_loss", lambda: 1.0, r"the loss of autoenc is 1\.0: expected a scalar"),
        ("build_evaluation", lambda: {"m": [1.0]}, r"metric m of autoenc is \[1.0\]: expected"),
        (
            "build_evaluation",
            lambda: {"examples": tf.ones(2)},
            "build_evaluation of autoenc must return a dict.*without one named examples",
        ),
        ("state", lambda: [tf.Variable(1.0)], "state of autoenc must return a dict.*Variable"),
        ("state", lambda: {"seen": 3}, "state of autoenc must return a dict.*{'seen': 3}"),
        ("build_evaluation", dict, "build_evaluation of autoenc must return a dict.*not {}"),
        (
            "build_evaluation",
            lambda: {"m": tf.ones(1), "n": tf.ones(2)},
            "metrics m, n of autoenc have unlike lengths",
        ),
    ],
)
def test_a_mistake_in_a_hook_is_named(method, hook, message):
    model = Autoenc("/cpu:0", SMALL)
    setattr(model, method, lambda *_: hook())
    with pytest.raises(FathomError, match=message):
        (model.setup(), model.evaluate())


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (lambda images: tf.cast(images, tf.float64), r"float64 \[784\]"),
        (lambda images: images[:, :700], r"float32 \[700\]"),
    ],
)
def test_batches_unlike_the_declared_inputs_are_named(model, change, shown):
    model.prepare = lambda batch, seed: (change(tf.cast(batch[0], tf.float32)),)
    message = rf"a batch has examples of {shown}: build_inputs .* declare float32 \[784\]"
    with pytest.raises(FathomError, match=message):
        model.run(n_steps=1)


def test_there_is_no_record_before_a_run(tmp_path):
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    with pytest.raises(FathomError, match=r"autoenc model has not run: call run\(\) first"):
        model.record()
    model.run(n_steps=1).write(str(tmp_path / "result.json"))
    assert RunResult.read(str(tmp_path / "result.json")).workload == "autoenc"


def test_test_data_are_required_of_a_model_that_is_set_up():
    with pytest.raises(FathomError, match=r"not compiled: call setup\(\) first"):
        Autoenc("/cpu:0", SMALL).require_test_data()


def test_keras_own_settings_change_no_model(monkeypatch):
    monkeypatch.setattr("keras.src.backend.config._IMAGE_DATA_FORMAT", "channels_first")
    model = Residual("/cpu:0", {"batch_size": 1, "image_size": 32})
    model.build()
    assert keras.config.image_data_format() == "channels_first"
    assert model.outputs.shape == (None, 1000)


def test_keras_own_numbers_change_no_model(monkeypatch):
    monkeypatch.setattr("keras.src.backend.config._FLOATX", "float64")
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    assert model.run(n_steps=1).ended == "complete"
    assert keras.config.floatx() == "float64"


def test_a_record_says_how_the_run_ended(model):
    def failing(step, batch):
        raise ValueError("no luck")

    assert model.run(n_steps=1).ended == "complete"
    with pytest.raises(ValueError, match="no luck"):
        model.run(failing, n_steps=1)
    assert "no luck" in model.record().ended
    assert model.run(n_steps=1).ended == "complete"


@pytest.mark.slow
def test_a_training_goes_on_in_float16_and_back(tmp_path):
    for precision in ("float32", "float16", "float32", "float16"):
        model = Autoenc("/cpu:0", SMALL | {"precision": precision})
        model.setup({"checkpoint_dir": str(tmp_path), "resume": True})
        model.run(n_steps=2)
    assert model.steps_done == 8


def test_another_backend_of_keras_is_refused(monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(FathomError, match="Keras computes with jax: set KERAS_BACKEND=tensorflow"):
        Autoenc("/cpu:0", SMALL)
