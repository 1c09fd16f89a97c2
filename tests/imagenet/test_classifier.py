import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom import AlexNet, AlexNetFwd, FathomError, workloads
from fathom.imagenet.classifier import classes_before

SMALL = workloads.descriptor("alexnet").small


def ready(model_class=AlexNet, **options):
    model = model_class("/cpu:0", {**SMALL, **options})
    model.setup()
    return model


@pytest.fixture(scope="module")
def model():
    return ready(views=10, batch_size=16)


def test_ten_views_are_averaged_as_probabilities(model):
    views = tf.random.stateless_normal([2, 10, 67, 67, 3], [0, 1])
    probabilities = tf.exp(model.evaluation_outputs(views))
    apart = tf.nn.softmax(model.network(tf.reshape(views, [20, 67, 67, 3])))
    expected = tf.reduce_mean(tf.reshape(apart, [2, 10, 10]), 1)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-4)


def test_the_evaluation_goes_once_through_the_validation_images(model):
    metrics = model.evaluate()
    assert metrics["examples"] == model.images.validation.size == 120
    assert set(metrics) == {"top1_error", "top5_error", "cross_entropy", "examples"}
    assert 0 <= metrics["top5_error"] <= metrics["top1_error"] <= 1


def test_errors_count_the_labels_outside_the_best_one_and_five(model):
    log_probabilities = tf.math.log(tf.nn.softmax(tf.range(10, dtype=tf.float32)[None] * [[1.0]]))
    log_probabilities = tf.tile(log_probabilities, [3, 1])
    metrics = model.build_evaluation(None, tf.constant([9, 5, 4]), log_probabilities)
    assert metrics["top1_error"].numpy().tolist() == [0, 1, 1]
    assert metrics["top5_error"].numpy().tolist() == [0, 0, 1]
    np.testing.assert_allclose(metrics["cross_entropy"][0], -log_probabilities[0, 9])


def test_a_label_that_ties_with_a_class_before_it_is_not_the_best_one(model):
    scores = tf.constant([[0, 0, 7, 0, 7, 0, 0, 0, 0, 0]] * 3, tf.float32)
    metrics = model.build_evaluation(None, tf.constant([2, 4, 5]), scores)
    assert metrics["top1_error"].numpy().tolist() == [0, 1, 1]
    assert metrics["top5_error"].numpy().tolist() == [0, 0, 1]  # 2, 4, 0, 1 and 3 come first


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_as_many_classes_come_before_the_label_as_in_the_order_of_top_k(data):
    levels = st.sampled_from([-np.inf, -1.0, 0.0, 0.5])
    row = st.lists(levels, min_size=7, max_size=7)
    scores = tf.constant(data.draw(st.lists(row, min_size=3, max_size=3)), tf.float32)
    labels = data.draw(st.lists(st.integers(0, 6), min_size=3, max_size=3))
    order = tf.math.top_k(scores, 7).indices.numpy().tolist()
    expected = [classes.index(label) for classes, label in zip(order, labels, strict=True)]
    assert classes_before(tf.constant(labels), scores).numpy().tolist() == expected


def test_a_score_that_is_not_a_number_makes_the_label_wrong(model):
    scores = tf.fill([1, 10], np.float32("nan"))
    metrics = model.build_evaluation(None, tf.constant([0]), scores)
    assert (metrics["top1_error"], metrics["top5_error"]) == (1, 1)


def test_inference_runs_over_the_validation_images_in_turn():
    forward = ready(AlexNetFwd)
    (first,), (second,) = (next(forward.inference_batches()) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_the_rate_falls_when_the_validation_error_has_stopped_falling_and_both_are_noted(
    monkeypatch,
):
    model = ready(patience=2)
    monkeypatch.setattr("fathom.imagenet.classifier._STEPS_BETWEEN_CHECKS", 1)
    errors = [0.9, 0.8, 0.8, 0.8, 0.7]
    coming = iter(errors)
    monkeypatch.setattr(model, "validation_error", lambda: next(coming))
    for epoch in range(5):
        model.end_epoch(epoch)
    noted = {name: [value for _, value in curve] for name, curve in model.history.items()}
    assert set(noted) == {"validation_top1_error", "learning_rate"}
    assert noted["validation_top1_error"] == errors
    np.testing.assert_allclose(noted["learning_rate"], [0.01, 0.01, 0.01, 0.001, 0.001])


@pytest.mark.slow
def test_the_schedule_looks_at_one_view_of_the_validation_images_whatever_is_evaluated_on(
    monkeypatch,
):
    monkeypatch.setattr("fathom.imagenet.classifier._STEPS_BETWEEN_CHECKS", 1)
    plain = ready(batch_size=100)
    other = ready(batch_size=100, evaluate_on="train", views=10)
    assert other.evaluate()["examples"] == other.images.train.size
    for model in (plain, other):
        model.end_epoch(0)
    assert other.history["validation_top1_error"] == plain.history["validation_top1_error"]
    assert plain.history["validation_top1_error"][0][1] == plain.evaluate()["top1_error"]


@pytest.mark.slow
def test_the_noted_validation_errors_are_part_of_the_result(monkeypatch):
    monkeypatch.setattr("fathom.imagenet.classifier._STEPS_BETWEEN_CHECKS", 1)
    model = ready(batch_size=300)
    document = model.run(n_steps=2).to_plain()
    assert [step for step, _ in document["metrics"]["history"]["validation_top1_error"]] == [2]


@pytest.mark.slow
def test_the_schedule_is_part_of_a_checkpoint(tmp_path):
    model = ready()
    model.setup({"checkpoint_dir": str(tmp_path)})
    model._plateau.update(0.25)
    model.run(n_steps=1)
    resumed = AlexNet("/cpu:0", SMALL)
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    assert resumed._plateau.best.numpy() == 0.25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 5}, "10 classes, the network 5 outputs"),
        ({"views": 3}, "views must be one of 1, 10"),
        ({"evaluate_on": "holdout"}, "evaluate_on must be one of validation, train"),
        ({"image_size": 40}, "image_size must be at least 67"),
        ({"evaluation_side": 60}, "evaluation_side must be at least 67"),
        ({"largest_side": 70}, "largest_side must be at least 76"),
    ],
)
def test_choices_that_do_not_fit_are_named(options, message):
    with pytest.raises(FathomError, match=message):
        ready(**options)


def test_data_without_validation_images_says_how_to_evaluate(model, tmp_path):
    (tmp_path / "train").symlink_to(model.source.directory / "train")
    alone = ready(data_dir=str(tmp_path))
    with pytest.raises(FathomError, match="evaluate_on=train"):
        alone.evaluate()
    on_train = ready(data_dir=str(tmp_path), evaluate_on="train", batch_size=100)
    assert on_train.evaluate()["examples"] == 600


@pytest.mark.slow
def test_a_damaged_image_is_skipped_and_named_in_the_result(model, tmp_path, capfd):
    import shutil

    folder = tmp_path / "imagenet"
    shutil.copytree(model.source.directory / "train", folder / "train")
    victim = sorted((folder / "train").rglob("*.JPEG"))[0]
    victim.write_bytes(victim.read_bytes()[:100])
    damaged = ready(data_dir=str(folder), batch_size=300)
    result = damaged.run(n_steps=2, runstep=lambda step, _: None)  # reads, computes nothing
    assert list(result.data.skipped) == [str(victim.relative_to(folder))]
    assert victim.name in capfd.readouterr().err
    with pytest.raises(FathomError, match=victim.name):
        ready(data_dir=str(folder), batch_size=300, strict=True).run(n_steps=2)


def test_validation_images_without_ground_truth_can_be_trained_beside_and_not_evaluated(tmp_path):
    encoded = tf.io.encode_jpeg(tf.zeros([80, 80, 3], tf.uint8)).numpy()
    for name in ("train/n01440764/x.JPEG", "val/ILSVRC2012_val_00000001.JPEG"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(encoded)
    model = AlexNet("/cpu:0", {**SMALL, "batch_size": 1, "data_dir": str(tmp_path)})
    model.load_data()
    assert len(next(model.training_batches(0))[1]) == 1
    with pytest.raises(FathomError, match=r"its ground truth is missing: put .*LOC_val_solution"):
        model.evaluation_batches()
