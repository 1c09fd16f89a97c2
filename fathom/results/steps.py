"""The steps of a run: what was recorded of each, and their statistics."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Steps:
    """Every step of a run, in order; times in seconds.

    Attributes:
        first: number of the first step, counted from 0 since the training began.
        warmup: how many of the steps are left out of the statistics.
        seconds: time in the step, input excluded.
        input_wait: time spent waiting for the step's batch.
        loss: the loss in training; None for an inference step or one that the hook skipped.
        work: the step's work over that of a batch of examples of the stated cost.
        first_of_shape: whether the step was the first of one of several shapes of batch:
            TensorFlow optimises its graph in it, and the statistics leave it out too.
        call: where in these lists the call of the compiled step began that the step was part of:
            steps of one call were timed together and share its time. Default: each its own call.
    """

    first: int
    warmup: int
    seconds: list[float] = field(default_factory=list)
    input_wait: list[float] = field(default_factory=list)
    loss: list[float | None] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    first_of_shape: list[bool] = field(default_factory=list)
    call: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.call = self.call or list(range(len(self.seconds)))

    def add_call(
        self,
        losses: Sequence[float | None],
        seconds: float,
        input_wait: float,
        work: float,
        first_of_shape: bool,
    ) -> None:
        """Records the steps of one call, which share its times equally.

        Args:
            losses: one a step.
            seconds, input_wait: of the whole call.
            work: of each step.
            first_of_shape: see above.
        """
        call, count = len(self.call), len(losses)
        self.seconds += [seconds / count] * count
        self.input_wait += [input_wait / count] * count
        self.loss += losses
        self.work += [work] * count
        self.first_of_shape += [first_of_shape] * count
        self.call += [call] * count

    def drop_unfinished(self) -> None:
        """Drops the call that an interruption left half recorded."""
        for values in (self.seconds, self.input_wait, self.loss, self.work, self.first_of_shape):
            del values[len(self.call) :]  # ``add_call`` extends this one last

    @property
    def counted(self) -> np.ndarray:
        """Times of the steps that the statistics are of, float64, in seconds."""
        return np.array(self.seconds)[self._numbers]

    @property
    def measurements(self) -> int:
        """How many times the counted steps come from: the calls that were timed."""
        return len({self.call[i] for i in self._numbers})

    @property
    def _numbers(self) -> np.ndarray:
        return counted_steps(self.warmup, self.first_of_shape)

    @property
    def median(self) -> float:
        """Median time of the counted steps, in seconds; NaN when there are none."""
        return float(np.median(self.counted)) if len(self.counted) else float("nan")

    @property
    def work_per_second(self) -> float:
        """Median rate of the counted steps, in batches of the stated cost a second; or NaN."""
        rates = np.array(self.work)[self._numbers] / self.counted
        return float(np.median(rates)) if len(rates) else float("nan")

    @property
    def mean_with_input(self) -> float:
        """Mean time of a counted step and the wait for its batch, in seconds; NaN without any."""
        waits = np.array(self.input_wait)[self._numbers]
        return float((self.counted + waits).mean()) if len(waits) else float("nan")

    def to_plain(self) -> dict[str, Any]:
        """Returns the record and its statistics as plain data; one measurement has no spread."""
        names = ("median", "quantiles", "spread", "work_per_second")
        statistics: dict[str, Any] = dict.fromkeys(names)
        if self.measurements:
            statistics |= {"median": self.median, "work_per_second": self.work_per_second}
        if self.measurements > 1:
            quantiles = np.quantile(self.counted, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
            statistics |= {
                "quantiles": dict(zip(("5%", "25%", "50%", "75%", "95%"), quantiles, strict=True)),
                "spread": (quantiles[3] - quantiles[1]) / quantiles[2] if quantiles[2] else None,
            }
        return {**dataclasses.asdict(self), **statistics}


def counted_steps(warmup: int, first_of_shape: Sequence[bool]) -> np.ndarray:
    """Returns the numbers of the steps that a run's statistics are of, int64.

    Those after the warm-up but for the first of each shape, unless that would leave none.
    """
    after = np.arange(len(first_of_shape)) >= warmup
    counted = after & ~np.array(first_of_shape, bool)
    return np.flatnonzero(counted if counted.any() else after)
