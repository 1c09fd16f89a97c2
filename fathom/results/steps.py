"""The steps of a run and their statistics."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field, ModelWrapValidatorHandler, computed_field, model_validator
from typing_extensions import Self

from fathom.results.base import Count, NotNegative, Number, Record, shown

_QUANTILES = {"5%": 0.05, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95}
_LISTS = ("seconds", "input_wait", "loss", "work", "first_of_shape", "call", "examples")


class Steps(Record):
    """Every step of a run, in order.

    The statistics are computed from the lists; a file whose statistics do not match its lists is
    refused.
    """

    first: Count = Field(
        description="number of the first step, counting from 0 at the start of training: not 0 "
        "in a resumed run"
    )
    warmup: Count = Field(description="number of initial steps that the statistics leave out")
    seconds: list[NotNegative] = Field(
        default_factory=list,
        description="time of each step in seconds, including warm-up, excluding input; on a GPU "
        "until the device is idle",
    )
    input_wait: list[NotNegative] = Field(
        default_factory=list, description="time that each step waited for its batch, in seconds"
    )
    loss: list[Number | None] = Field(
        default_factory=list,
        description="loss of each training step, before its update; `null` for an inference "
        "step or one skipped by the hook",
    )
    work: list[NotNegative] = Field(
        default_factory=list,
        description="work of each step's batch relative to `batch_size` examples of the cost "
        "stated under `cost`: 1 unless batches vary in length",
    )
    first_of_shape: list[bool] = Field(
        default_factory=list,
        description="whether the step was the first with one of several batch shapes (seq2seq's "
        "buckets), in which TensorFlow optimises its graph; the statistics leave it out too",
    )
    call: list[Count] = Field(
        default_factory=list,
        description="index in these lists of the first step of the call of the compiled step "
        "that ran this step: steps of one call were timed together and share its time equally",
    )

    examples: list[NotNegative] = Field(
        default_factory=list,
        description="examples of each step's batch relative to `batch_size`: 1 unless batches of "
        "short examples have more of them (transformer)",
    )

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Adds lists missing from older files; refuses inconsistent lists and statistics."""
        steps = validate(data)
        if isinstance(data, Steps):
            return steps
        n = len(steps.seconds)
        steps.work = steps.work or [1.0] * n
        steps.first_of_shape = steps.first_of_shape or [False] * n
        steps.call = steps.call or list(range(n))
        steps.examples = steps.examples or [1.0] * n
        if {len(getattr(steps, name)) for name in _LISTS} != {n}:
            raise ValueError("its lists differ in length")
        if steps.measurements and not (steps.median > 0 and 0 < steps.work_per_second < math.inf):
            raise ValueError("its counted steps took no time or did no work")
        skipped = {loss is None for loss in steps.loss} == {True, False}  # once counted like others
        for name in cls.model_computed_fields:
            if name in data and not skipped and not _close(data[name], getattr(steps, name)):
                raise ValueError(f"its {name} is {shown(data[name])}, not what its steps give")
        return steps

    def add_call(
        self,
        losses: Sequence[float | None],
        seconds: float,
        input_wait: float,
        work: float,
        first_of_shape: bool,
        examples: float = 1.0,
    ) -> None:
        """Records the steps of one call, one per loss, which share its time equally.

        ``seconds`` are of the whole call, input excluded, ``input_wait`` those spent waiting for
        its batches; ``work`` and ``examples`` are those of each step.
        """
        call, count = len(self.call), len(losses)
        self.seconds.extend([seconds / count] * count)
        self.input_wait.extend([input_wait / count] * count)
        self.loss.extend(losses)
        self.work.extend([work] * count)
        self.first_of_shape.extend([first_of_shape] * count)
        self.examples.extend([examples] * count)
        self.call.extend([call] * count)

    def drop_unfinished(self) -> None:
        """Drops a call that was only partly recorded because of an interruption."""
        for values in (getattr(self, name) for name in _LISTS):
            del values[len(self.call) :]  # ``add_call`` extends this one last

    @property
    def last_seconds(self) -> float:
        """Seconds that ``batch_size`` examples took of the last step."""
        return self.seconds[-1] / self.examples[-1]

    @property
    def counted(self) -> np.ndarray:
        """Times of the steps in the statistics, float64, in seconds."""
        return np.array(self.seconds)[self.numbers]

    @property
    def measurements(self) -> int:
        """Number of independent timings of the counted steps: one per call."""
        return len({self.call[i] for i in self.numbers})

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the steps in the statistics, int64.

        Those after the warm-up except the first of each shape, unless none would be left; of a
        training, those that ``runstep`` did not skip.
        """
        ran = np.array([loss is not None for loss in self.loss], bool)
        after = (np.arange(len(ran)) >= self.warmup) & (ran | (not ran.any()))
        counted = after & ~np.array(self.first_of_shape, bool)
        return np.flatnonzero(counted if counted.any() else after)

    @computed_field(
        return_type=float | None,
        description="median time of the counted steps, in seconds: those after the warm-up that "
        "ran, except the first of each shape (unless none is left); `null` if there are none",
    )
    @property
    def median(self) -> float:
        """Median time of the counted steps, in seconds; NaN if there are none."""
        return float(np.median(self.counted)) if len(self.counted) else float("nan")

    @computed_field(
        description="5, 25, 50, 75 and 95 % quantiles of their times, in seconds; `null` if all "
        "of them ran in one call"
    )
    @property
    def quantiles(self) -> dict[str, float] | None:
        """Quantiles of the counted times in seconds, by name; None for a single measurement."""
        if self.measurements < 2:
            return None
        values = np.quantile(self.counted, list(_QUANTILES.values())).tolist()
        return dict(zip(_QUANTILES, values, strict=True))

    @computed_field(description="interquartile range over median; `null` likewise")
    @property
    def spread(self) -> float | None:
        """Interquartile range of the counted times over their median; None likewise."""
        quantiles = self.quantiles
        if quantiles is None or not quantiles["50%"]:
            return None
        return (quantiles["75%"] - quantiles["25%"]) / quantiles["50%"]

    @computed_field(
        return_type=float | None,
        description="median rate of the same steps, in batches of the stated cost per second",
    )
    @property
    def work_per_second(self) -> float:
        """Median rate of the counted steps, in batches of the stated cost per second; or NaN."""
        with np.errstate(divide="ignore"):
            rates = np.array(self.work)[self.numbers] / self.counted
        return float(np.median(rates)) if len(rates) else float("nan")

    @property
    def work_varies(self) -> bool:
        """Whether the counted steps differ in their work."""
        return len(np.unique(np.array(self.work)[self.numbers])) > 1

    def examples_per_second(self, batch_size: int) -> float:
        """Returns the examples per second at the median time of an example; NaN if none."""
        examples = batch_size * np.array(self.examples)[self.numbers]
        return 1 / float(np.median(self.counted / examples)) if len(examples) else float("nan")

    def examples_per_second_with_input(self, batch_size: int) -> float:
        """Returns the examples of the counted steps over their time and the wait; NaN if none."""
        waits, examples = (np.array(v)[self.numbers] for v in (self.input_wait, self.examples))
        seconds = (self.counted + waits).sum()
        return batch_size * float(examples.sum() / seconds) if len(waits) else float("nan")


def _close(written: Any, computed: Any) -> bool:
    """Returns whether a statistic in a file matches the computed one; None matches NaN."""
    if isinstance(computed, dict):
        same_names = isinstance(written, dict) and written.keys() == computed.keys()
        return same_names and all(_close(written[name], computed[name]) for name in computed)
    if computed is None or math.isnan(computed):
        return written is None
    is_number = isinstance(written, (int, float)) and not isinstance(written, bool)
    return is_number and math.isclose(written, computed, rel_tol=1e-6, abs_tol=1e-9)
