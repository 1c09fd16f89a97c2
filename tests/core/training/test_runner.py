import contextlib
import itertools

import numpy as np
import pytest
import tensorflow as tf

from fathom import FathomError
from fathom.core.training import runner as runner_module
from fathom.core.training.compilation import CompiledStep
from fathom.core.training.runner import Loop, Progress, Runner, default_runstep
from fathom.errors import DivergedError
from fathom.results.records import Processor
from fathom.results.steps import Steps
from fathom.system.device import CPU
from fathom.system.energy import Counter, Meter


class Hooks:
    """Notes what the runner tells it."""

    def __init__(self, first=0):
        self.calls = []
        self.counter = tf.Variable(first)

    @property
    def steps_done(self):
        return int(self.counter.numpy())

    def work(self, batch):
        return 2.0

    def examples(self, batch):
        return 1.0

    def end_step(self, number):
        self.calls.append(("step", number))

    def end_epoch(self, epoch):
        self.calls.append(("epoch", epoch))

    def save_state(self):
        self.calls.append("save_state")


class Checkpoints:
    """Notes after which steps it was to save."""

    latest = "somewhere/ckpt-2"

    def __init__(self):
        self.saved = []

    def save(self, step):
        self.saved.append(step)


def compiled(steps_per_call=1, counter=None):
    """A step whose loss is the sum of its batch, which counts its steps."""

    def loss(batch):
        if counter is not None:
            counter.assign_add(1)
        return tf.reduce_sum(batch)

    signature = [tf.TensorSpec((2,), tf.float32)]
    return CompiledStep(loss, [signature], steps_per_call, xla=False)


def runner(hooks, checkpoints=None, steps_per_call=1, trains=True):
    loop = Loop(
        trains=trains,
        device=CPU,
        batch_size=2,
        steps_per_call=steps_per_call,
        steps_per_epoch=4,
        checkpoint_every=3,
        remedy="lower the learning rate",
    )
    step = compiled(steps_per_call, hooks.counter)
    return Runner(step, loop, hooks, checkpoints, saved_at=0)


def batches(first=0, steps_per_call=1):
    """Yields batches whose loss is the number of the step, or blocks of them."""
    number = first - first % steps_per_call
    while True:
        block = np.arange(number, number + steps_per_call, dtype=np.float32)[:, None] / [[2, 2]]
        yield (tf.constant(block if steps_per_call > 1 else block[0], tf.float32),)
        number += steps_per_call


def run(a_runner, batches, n_steps, first=0, warmup=0, runstep=default_runstep, **options):
    """Runs some steps; returns their record."""
    steps = Steps(first=first, warmup=warmup)
    given = {"processor": Processor(), "progress": Progress(), **options}
    a_runner.run(batches, n_steps, steps, runstep=runstep, **given)
    return steps


def test_steps_are_recorded_and_followed_up_in_order():
    hooks, checkpoints = Hooks(), Checkpoints()
    steps = run(runner(hooks, checkpoints), batches(), 5, warmup=2)
    assert steps.loss == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert steps.work == [2.0] * 5
    assert checkpoints.saved == [3, 5]
    expected = [("step", 0), ("step", 1), ("step", 2), "save_state", ("step", 3), ("epoch", 0)]
    assert hooks.calls == [*expected, ("step", 4), "save_state"]


@pytest.mark.parametrize("first", [0, 3, 7])
def test_blocks_give_the_losses_of_single_steps(first):
    hooks = Hooks(first)
    steps = run(runner(hooks, steps_per_call=5), batches(first, 5), 9, first, warmup=1)
    assert steps.loss == [float(i) for i in range(first, first + 9)]
    assert [number for kind, number in hooks.calls if kind == "epoch"] == [
        i // 4 for i in range(first, first + 9) if i % 4 == 3
    ]


def test_xla_on_a_gpu_reaches_the_variable_of_a_block():
    step = compiled(steps_per_call=5)
    (span,) = step.call.graph.variables
    assert span.dtype == tf.int64


def test_a_call_never_crosses_the_warm_up_an_epoch_or_a_checkpoint():
    five_at_once = runner(Hooks(), Checkpoints(), steps_per_call=5)
    steps = run(five_at_once, batches(0, 5), 10, warmup=2)
    assert sorted(set(steps.call)) == [0, 2, 3, 4, 5, 6, 8, 9]


def test_the_cpu_time_of_the_steps_is_added_up_without_that_of_their_input(monkeypatch):
    used = iter([(10.0, 3, 7), (11.0, 4, 7), (20.0, 9, 9), (22.5, 9, 12)])
    monkeypatch.setattr(runner_module, "cpu_use", lambda: next(used))
    processor = Processor()
    steps = run(runner(Hooks()), batches(), 2, processor=processor)
    assert (processor.cpu_seconds, processor.involuntary_switches) == (3.5, 1)
    assert processor.minor_faults == 3
    assert processor.wall_seconds == sum(steps.seconds)


def test_inference_has_no_losses_epochs_or_checkpoints():
    hooks = Hooks()
    assert run(runner(hooks, trains=False), batches(), 6).loss == [None] * 6
    assert hooks.calls == []


def test_one_loss_for_a_block_is_refused():
    with pytest.raises(FathomError, match="runstep returned 1 losses for a call of 5 steps"):
        run(
            *(runner(Hooks(), steps_per_call=5), batches(0, 5), 5),
            runstep=lambda step, batch: float(tf.reduce_mean(step(*batch))),
        )


def test_a_loss_that_is_not_finite_ends_the_run_and_names_the_last_checkpoint():
    values = iter([(tf.constant([1.0, 1.0]),), (tf.constant([float("inf"), 0.0]),)])
    with pytest.raises(DivergedError, match=r"loss of step 1 is inf.*somewhere/ckpt-2"):
        run(runner(Hooks(), Checkpoints()), values, 3)


def test_progress_receives_each_call():
    messages = []

    class Told(Progress):
        @contextlib.contextmanager
        def running(self, first, n_steps, batch_size):
            messages.append((first, n_steps, batch_size))
            yield

        def step(self, number, loss, seconds):
            messages.append((number, loss))

    run(runner(Hooks()), batches(6), 2, first=6, progress=Told())
    assert messages == [(6, 2, 2), (6, 6.0), (7, 7.0)]


def test_steps_that_runstep_skips_are_not_followed_up():
    hooks, checkpoints, calls = Hooks(), Checkpoints(), itertools.count()
    steps = run(
        *(runner(hooks, checkpoints), batches(), 9),
        runstep=lambda step, batch: step(*batch) if next(calls) % 2 else None,
    )
    assert steps.loss[:4] == [None, 1.0, None, 3.0]
    steps_that_ran = [("step", 0), ("step", 1), ("step", 2), "save_state", ("step", 3)]
    assert hooks.calls == [*steps_that_ran, ("epoch", 0), "save_state"]
    assert checkpoints.saved == [3, 4]


def test_a_step_after_which_runstep_is_interrupted_is_followed_up_by_the_next_run():
    hooks, calls = Hooks(), itertools.count(1)
    training = runner(hooks)

    def interrupted(step, batch):
        loss = step(*batch)
        if next(calls) == 4:
            raise KeyboardInterrupt
        return loss

    with pytest.raises(KeyboardInterrupt):
        run(training, batches(), 6, runstep=interrupted)
    assert hooks.calls == [("step", 0), ("step", 1), ("step", 2)]
    run(training, batches(4), 1, first=4)
    assert hooks.calls[3:] == [("step", 3), ("epoch", 0), ("step", 4)]


def test_steps_after_an_earlier_state_was_restored_are_followed_up():
    hooks = Hooks()
    training = runner(hooks)
    run(training, batches(), 3)
    hooks.counter.assign(1)
    hooks.calls.clear()
    run(training, batches(1), 2, first=1)
    assert hooks.calls == [("step", 1), ("step", 2)]


@pytest.mark.parametrize("value", ["text", {"loss": 1.0}, object()])
def test_what_is_no_loss_is_refused(value):
    with pytest.raises(FathomError, match=r"runstep returned .* for a call of 1 steps: return"):
        run(runner(Hooks()), batches(), 1, runstep=lambda step, batch: value)


def test_steps_that_runstep_repeats_are_followed_up():
    hooks, checkpoints = Hooks(), Checkpoints()
    run(
        *(runner(hooks, checkpoints), batches(), 3),
        runstep=lambda step, batch: [step(*batch) for _ in range(2)][-1],
    )
    steps = [("step", number) for number in range(6)]
    expected = [*steps[:4], ("epoch", 0), "save_state", *steps[4:], "save_state"]
    assert hooks.calls == expected
    assert checkpoints.saved == [4, 6]


def test_the_energy_of_the_warm_up_and_of_the_input_does_not_count():
    counted = itertools.count()  # a joule more at each reading
    meter = Meter([Counter("cpu", lambda: float(next(counted)))])
    run(runner(Hooks()), batches(), 5, warmup=2, meter=meter)
    assert meter.joules == {"cpu": 3.0}
