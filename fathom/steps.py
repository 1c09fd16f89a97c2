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
    """

    first: int
    warmup: int
    seconds: list[float] = field(default_factory=list)
    input_wait: list[float] = field(default_factory=list)
    loss: list[float | None] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    first_of_shape: list[bool] = field(default_factory=list)

    def add(
        self,
        seconds: float,
        input_wait: float,
        loss: float | None,
        work: float = 1.0,
        first_of_shape: bool = False,
    ) -> None:
        """Records one step."""
        self.seconds.append(seconds)
        self.input_wait.append(input_wait)
        self.loss.append(loss)
        self.work.append(work)
        self.first_of_shape.append(first_of_shape)

    @property
    def counted(self) -> np.ndarray:
        """Times of the steps that the statistics are of, float64, in seconds."""
        return np.array(self.seconds)[self._numbers]

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
        """Returns the record and its statistics as plain data."""
        names = ("median", "quantiles", "spread", "work_per_second")
        statistics: dict[str, Any] = dict.fromkeys(names)
        if len(self.counted):
            quantiles = np.quantile(self.counted, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
            statistics = {
                "median": quantiles[2],
                "quantiles": dict(zip(("5%", "25%", "50%", "75%", "95%"), quantiles, strict=True)),
                "spread": (quantiles[3] - quantiles[1]) / quantiles[2] if quantiles[2] else None,
                "work_per_second": self.work_per_second,
            }
        return {**dataclasses.asdict(self), **statistics}


def counted_steps(warmup: int, first_of_shape: Sequence[bool]) -> np.ndarray:
    """Returns the numbers of the steps that a run's statistics are of, int64.

    Those after the warm-up but for the first of each shape, unless that would leave none.
    """
    after = np.arange(len(first_of_shape)) >= warmup
    counted = after & ~np.array(first_of_shape, bool)
    return np.flatnonzero(counted if counted.any() else after)
