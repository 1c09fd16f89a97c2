"""The loop of every run: calls and times the step, checks losses, saves checkpoints."""

import contextlib
import math
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import tensorflow as tf

from fathom.core.training.checkpoint import Checkpoints
from fathom.core.training.compilation import Batch, CompiledStep, Nest, Step
from fathom.errors import DivergedError, FathomError
from fathom.results.records import Processor
from fathom.results.steps import Steps
from fathom.system.device import Device
from fathom.system.energy import Meter
from fathom.system.environment import cpu_use
from fathom.system.signals import held_back

RunStep = Callable[[Step, Batch], Nest]


def default_runstep(step: Step, batch: Batch) -> Nest:
    """Runs one step: the default of the ``runstep`` hook."""
    return step(*batch)


class Progress:
    """Receives a run's progress; this base class ignores it."""

    @contextlib.contextmanager
    def running(self, first: int, n_steps: int, batch_size: int) -> Iterator[None]:
        """Wraps the steps ``first`` to ``first + n_steps - 1``."""
        yield

    def preparing(self, what: str, done: int, total: int) -> None:
        """Called between steps during long work, such as filling a replay memory."""

    def step(self, number: int, loss: float | None, seconds: float) -> None:
        """Called after each call of the step.

        Args:
            number: of its last step.
            loss: of that step.
            seconds: that ``batch_size`` examples take of it.
        """


class Hooks(Protocol):
    """The hooks of a workload that a runner calls, as ``Workload`` documents them."""

    @property
    def steps_done(self) -> int:
        """Training steps that ran, without those that ``runstep`` skipped."""

    def work(self, *batch: tf.Tensor) -> float:
        """Returns a batch's work over that of a batch of the stated cost."""

    def examples(self, *batch: tf.Tensor) -> float:
        """Returns a batch's number of examples over the batch size."""

    def end_step(self, number: int) -> None:
        """Called after each training step that ran."""

    def end_epoch(self, epoch: int) -> None:
        """Called after the last step of each epoch."""

    def save_state(self) -> None:
        """Called before a checkpoint is written."""


@dataclass(frozen=True)
class Loop:
    """The constants of a loop, known after a model's setup.

    Attributes:
        trains: training steps; otherwise inference, without losses, epochs or checkpoints.
        device: computes the steps, which are timed to their end.
        batch_size: examples per step.
        steps_per_call: steps per call of the compiled step.
        steps_per_epoch: training steps per epoch.
        checkpoint_every: training steps between checkpoints, of the first worker; None: there are
            none.
        remedy: what to try where the training diverges.
    """

    trains: bool
    device: Device
    batch_size: int
    steps_per_call: int
    steps_per_epoch: int
    checkpoint_every: int | None
    remedy: str


class Runner:
    """Runs a compiled step over batches.

    Args:
        step: the step.
        loop: the constants of the loop.
        hooks: the workload.
        checkpoints: None: write none, as another worker than the first.
        saved_at: training step of the newest checkpoint; 0 if there is none.
        stop: returns whether the run ends here, of whether this process was asked to: the workers
            of a training end at the same step.

    Attributes:
        saved_at: as above, kept up to date.
    """

    def __init__(
        self,
        step: CompiledStep,
        loop: Loop,
        hooks: Hooks,
        checkpoints: Checkpoints | None,
        saved_at: int,
        stop: Callable[[bool], bool] = bool,
    ) -> None:
        self._step, self._loop, self._hooks, self._stop = step, loop, hooks, stop
        self._checkpoints, self.saved_at = checkpoints, saved_at
        self._unsaved = False  # a step has begun since the last checkpoint
        self._followed = hooks.steps_done  # whose hooks were called

    def run(
        self,
        batches: Iterator[Batch],
        n_steps: int,
        steps: Steps,
        processor: Processor,
        runstep: RunStep,
        progress: Progress,
        meter: Meter | None = None,
    ) -> None:
        """Runs ``n_steps`` steps, with separate calls for the warm-up.

        If checkpoints are written, the first SIGINT or SIGTERM ends the run after the current call;
        a checkpoint is written, and then the signal is delivered.

        Args:
            batches: from step ``steps.first`` on; blocks of batches if a call runs several steps.
            n_steps: number of steps.
            steps: records each step.
            processor: sums the CPU time of all steps.
            runstep: called with (step, batch) for each call.
            progress: receives each call.
            meter: sums the energy of the steps after the warm-up.

        Raises:
            DivergedError: a loss is not finite.
            FathomError: ``runstep`` did not return losses, or a checkpoint cannot be written.
        """
        number, batch, meter = steps.first, None, meter or Meter()
        end, stopped = number + n_steps, False
        with held_back(lambda: self._unsaved) as stops:
            if self._loop.trains:
                self._follow_up()  # a step after which an earlier run was interrupted
            with progress.running(number, n_steps, self._loop.batch_size):
                while number < end and not (stopped := self._stop(bool(stops))):
                    warm = number >= steps.first + steps.warmup
                    if number == steps.first + steps.warmup:
                        meter.reset()
                    count = self._steps_in_call(number, end if warm else steps.first + steps.warmup)
                    batch = self._call(
                        number, count, batches, batch, steps, processor, runstep, meter
                    )
                    number += count
                    if self._loop.trains:
                        self._follow_up()
                    progress.step(number - 1, steps.loss[-1], steps.last_seconds)
            self._save()
        if stopped and not stops:  # another worker was asked to
            raise KeyboardInterrupt

    def _steps_in_call(self, number: int, stop: int) -> int:
        """Returns the length of the next call, which ends at an epoch's end or a checkpoint."""
        periods = [self._loop.steps_per_call, self._loop.checkpoint_every]
        if self._loop.trains:
            periods.append(self._loop.steps_per_epoch)
        return min(stop - number, *(each - number % each for each in periods if each))

    def _call(
        self,
        number: int,
        count: int,
        batches: Iterator[Batch],
        batch: Batch | None,
        steps: Steps,
        processor: Processor,
        runstep: RunStep,
        meter: Meter,
    ) -> Batch:
        """Runs, times and records one call of ``count`` steps; returns its batch or block.

        The next call continues an unfinished block.
        """
        begin = number % self._loop.steps_per_call
        before_input = time.perf_counter()
        if batch is None:
            self._step.check(batch := next(batches))
        elif begin == 0:
            batch = next(batches)
        if self._loop.steps_per_call > 1:
            self._step.choose(begin, begin + count)
        first_of_shape = bool(self._step.unseen_shapes) and self._step.note_shape(batch)
        meter.start()
        used_before = cpu_use()
        before_step = time.perf_counter()
        self._unsaved = self._loop.checkpoint_every is not None
        value = runstep(self._step.call, batch)
        self._loop.device.synchronize()
        losses = self._losses(value, begin, count)
        seconds, wait = time.perf_counter() - before_step, before_step - before_input
        processor.add(used_before, cpu_use(), seconds)
        meter.stop()
        work, examples = self._hooks.work(*batch), self._hooks.examples(*batch)
        steps.add_call(losses, seconds, wait, work, first_of_shape, examples)
        for i, loss in enumerate(losses):
            if loss is not None and not math.isfinite(loss):
                self._stop_diverged(number + i, loss)
        return batch

    def _losses(self, value: Nest, begin: int, count: int) -> list[float | None]:
        """Returns the losses of a call's steps from the result of ``runstep``; None: no loss."""
        if not self._loop.trains or value is None:
            return [None] * count
        losses = np.reshape(value, -1)
        numeric = losses.dtype.kind not in "OSU"  # objects and text
        if len(losses) != self._loop.steps_per_call or not numeric:
            found = f"{len(losses)} losses" if numeric else f"{value!r:.60}"
            raise FathomError(
                f"runstep returned {found} for a call of {self._loop.steps_per_call} steps: return "
                "what step(*batch) returns, or None"
            )
        return losses[begin : begin + count].tolist()

    def _follow_up(self) -> None:
        """Calls hooks and saves checkpoints for the steps that ran.

        ``runstep`` may have skipped the call's steps, or repeated them.
        """
        done, every = self._hooks.steps_done, self._loop.checkpoint_every
        self._followed = before = min(self._followed, done)  # it may have been restored
        for i in range(before, done):
            self._followed = i + 1
            self._hooks.end_step(i)
            if (i + 1) % self._loop.steps_per_epoch == 0:
                self._hooks.end_epoch(i // self._loop.steps_per_epoch)
        if every and before // every != done // every:
            self._save()

    def _save(self) -> None:
        steps_done = self._hooks.steps_done
        if self._loop.checkpoint_every is None or self.saved_at == steps_done:
            return
        if self._checkpoints:
            self._hooks.save_state()
            self._checkpoints.save(steps_done)
        self.saved_at, self._unsaved = steps_done, False

    def _stop_diverged(self, number: int, loss: float) -> None:
        saved = f"ckpt-{self.saved_at}" if self.saved_at else None  # by the first of all workers
        good = self._checkpoints.latest if self._checkpoints else saved
        kept = f"the last good checkpoint is {good}" if good else "no checkpoint was written"
        raise DivergedError(
            f"the loss of step {number} is {loss}: the training has diverged; {kept}; "
            f"{self._loop.remedy}"
        )


def check_length(n_steps: int, warmup: int | None) -> tuple[int, int]:
    """Returns the numbers of steps and of warm-up steps, by default a fifth and at most five.

    Raises:
        FathomError: a number is not an integer of Python or NumPy, or out of range.
    """
    n_steps = _as_int("n_steps", n_steps)
    warmup = min(5, (n_steps + 3) // 5) if warmup is None else _as_int("warmup", warmup)
    if n_steps < 0 or not 0 <= warmup <= n_steps:
        raise FathomError(
            f"cannot run {n_steps} steps, {warmup} of them warm-up: steps must not be negative "
            "and warm-up not more than the steps"
        )
    return n_steps, warmup


def _as_int(name: str, number: int) -> int:
    try:
        return operator.index(number)
    except TypeError:
        raise FathomError(f"{name} must be a whole number, not {number!r}") from None
