import numpy as np
import pytest
import tensorflow as tf

from fathom import MemNet, MemNetFwd
from fathom.core.training.optimizers import Adam, GradientDescent
from fathom.memnet.model import MemNetHyperparameters
from fathom.memnet.restarts import RestartSchedule

MODEL = {
    "batch_size": 10,
    "embedding": 6,
    "hops": 1,
    "memory": 12,
    "xla": False,
    "epochs": 2,
    "linear_start_epochs": 2,
    "halve_every": 1,
    "restarts": 3,
}  # an epoch has 5 steps, a training 20


class Schedule:
    """RestartSchedule of one weight, whose losses are dictated."""

    def __init__(self, **options):
        self.trainings = RestartSchedule(MemNetHyperparameters(**options), seed=0)
        self.weight = tf.Variable([0.0])
        self.trainings.watch([self.weight])
        self.optimizer = GradientDescent(MemNetHyperparameters(**options).learning_rate)
        self.notes = []

    def end_epoch(self, validation_loss=None, training_loss=None):
        self.trainings.end_epoch(
            self.optimizer,
            lambda: validation_loss,
            lambda: training_loss,
            lambda *note: self.notes.append(note),
        )
        return bool(self.trainings.linear), round(float(self.optimizer.learning_rate), 6)


def test_the_softmax_comes_back_when_the_validation_loss_stops_falling():
    schedule = Schedule(linear_start_patience=2)
    losses = (3.0, 2.0, 2.5, 1.0, 1.5, 1.0)
    phases = [schedule.end_epoch(validation_loss=loss) for loss in losses]
    assert phases == [(True, 0.005)] * 5 + [(False, 0.005)]
    assert schedule.notes == [("validation_loss", loss) for loss in losses]


def test_the_linear_start_ends_after_its_last_epoch_at_the_latest():
    schedule = Schedule(linear_start_epochs=3)
    phases = [schedule.end_epoch(validation_loss=loss)[0] for loss in (3.0, 2.0, 1.0)]
    assert phases == [True, True, False]


def test_the_rate_is_halved_every_25_epochs_with_softmax():
    schedule = Schedule(linear_start_patience=1)
    assert schedule.end_epoch(validation_loss=3.0) == (True, 0.005)
    assert schedule.end_epoch(validation_loss=4.0) == (False, 0.005)
    rates = [schedule.end_epoch()[1] for _ in range(99)]
    expected = [0.005] * 24 + [0.0025] * 25 + [0.00125] * 25 + [0.000625] * 25
    assert rates == pytest.approx(expected, abs=1e-6)  # the schedule rounds to six digits


def test_without_a_linear_start_a_training_has_its_hundred_epochs():
    schedule = Schedule(linear_start=False, restarts=2, learning_rate=0.01)
    assert schedule.trainings.epochs_each == 100
    rates = [schedule.end_epoch(training_loss=1.0)[1] for _ in range(100)]
    assert rates[0] == 0.01
    assert rates[23:26] == [0.01, 0.005, 0.005]
    assert rates[98:] == [0.00125, 0.01]  # the next training has begun


def run_trainings(losses, **options):
    schedule = Schedule(linear_start=False, epochs=1, restarts=len(losses), **options)
    weights = []
    for i, loss in enumerate(losses):
        weights.append(schedule.weight.numpy()[0])
        schedule.weight.assign([10.0 + i])
        schedule.end_epoch(training_loss=loss)
    return schedule, weights


def test_the_weights_of_the_lowest_training_loss_are_kept():
    schedule, begun = run_trainings([2.0, 1.0, 3.0])
    assert schedule.weight.numpy() == [11.0]
    assert len(set(begun)) == 3  # each training began with other weights
    schedule.end_epoch(training_loss=0.0)  # all trainings are done
    assert schedule.weight.numpy() == [11.0]


def test_the_best_weights_are_lent_between_trainings():
    schedule = Schedule(linear_start=False, epochs=1, restarts=3)
    schedule.weight.assign([10.0])
    with schedule.trainings.best_weights():
        assert schedule.weight.numpy() == [10.0]  # none is best before a training has ended
    schedule.end_epoch(training_loss=1.0)
    begun = schedule.weight.numpy()
    with schedule.trainings.best_weights():
        assert schedule.weight.numpy() == [10.0]
    np.testing.assert_array_equal(schedule.weight.numpy(), begun)


@pytest.fixture(scope="module")
def uninterrupted(stories):
    model = MemNet("/cpu:0", {**MODEL, "data_dir": stories})
    model.setup()
    losses = model.run().steps.loss
    return model, losses


def test_a_run_without_a_number_of_steps_has_all_trainings(uninterrupted):
    model, losses = uninterrupted
    assert len(losses) == 3 * 4 * 5
    assert len(model.history["training_loss"]) == 3
    steps = [step for step, _ in model.history["training_loss"]]
    assert steps == [20, 40, 60]


def test_the_kept_network_has_the_lowest_training_loss(uninterrupted):
    model, _ = uninterrupted
    lowest = min(loss for _, loss in model.history["training_loss"])
    assert model.mean_loss(model.babi.train) == pytest.approx(lowest, rel=1e-6)


@pytest.mark.parametrize(
    "stop", [*(pytest.param(each, marks=pytest.mark.slow) for each in (8, 20)), 33]
)
def test_a_run_resumed_among_the_trainings_repeats_the_rest(stories, uninterrupted, tmp_path, stop):
    reference, losses = uninterrupted
    options = {**MODEL, "data_dir": stories}
    begun = MemNet("/cpu:0", options)
    begun.setup({"checkpoint_dir": str(tmp_path)})
    first = begun.run(n_steps=stop).steps.loss
    resumed = MemNet("/cpu:0", options)
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    assert first + resumed.run(n_steps=60 - stop).steps.loss == losses
    for ours, theirs in zip(resumed.network.variables, reference.network.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_a_run_resumed_with_other_batches_goes_on_in_the_schedule(stories, tmp_path):
    options = {**MODEL, "data_dir": stories}
    begun = MemNet("/cpu:0", options)
    begun.setup({"checkpoint_dir": str(tmp_path)})
    begun.run(n_steps=15)  # three of the four epochs of the first training
    resumed = MemNet("/cpu:0", options | {"batch_size": 50})
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    assert resumed.steps_per_epoch == 1
    resumed.run(n_steps=9)
    assert len(resumed.history["training_loss"]) == 3  # all trainings have ended


def test_inference_and_evaluation_between_trainings_use_the_best_weights(stories, tmp_path):
    options = {**MODEL, "data_dir": stories}
    trained = MemNet("/cpu:0", options)
    trained.setup({"checkpoint_dir": str(tmp_path)})
    trained.run(n_steps=27)
    inferring = MemNetFwd("/cpu:0", options)
    inferring.setup({"checkpoint_dir": str(tmp_path)})
    assert inferring.mean_loss(inferring.babi.train) == pytest.approx(
        trained.history["training_loss"][0][1], rel=1e-6
    )
    given = inferring.answer(inferring.babi.test)[0]
    error = 100 * (given != inferring.babi.test.answer).mean()
    assert trained.evaluate()["error_percent"] == pytest.approx(error, rel=1e-5)


def test_the_optimizer_begins_anew_with_each_training():
    schedule = Schedule(linear_start=False, epochs=1, restarts=2)
    schedule.optimizer = Adam(0.1)
    schedule.optimizer.build([schedule.weight])
    schedule.optimizer.apply([tf.constant([1.0])], [schedule.weight])
    schedule.end_epoch(training_loss=1.0)
    assert not any(np.any(slot) for (slot,) in schedule.optimizer.slots.values())
