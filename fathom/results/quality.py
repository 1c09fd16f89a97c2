"""The result of a test of time to quality, described field by field in docs/quality.md."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator
from typing_extensions import Self

from fathom.results.base import SCHEMA, Count, Document, NotNegative, Number, PositiveCount, Record
from fathom.results.records import Environment


class Point(Record):
    """The metric after an epoch."""

    epoch: Count = Field(description="epochs trained")
    steps: Count = Field(description="training steps")
    seconds: NotNegative = Field(
        description="time of the steps and of waiting for their input; the first step of each "
        "shape, in which TensorFlow compiles, counts as a median one"
    )
    value: Number = Field(description="the metric")


class Crossing(NamedTuple):
    """Where the metric meets a target, between two evaluations."""

    epochs: float
    steps: float
    seconds: float


class Training(Record):
    """One training until the target or the limit."""

    seed: Count | None = Field(
        default=None, description="of this training; `null` in older files, where it is the file's"
    )
    batch_size: PositiveCount = Field(description="examples per step")
    replicas: PositiveCount = Field(
        default=1, description="devices or workers that shared each batch; 1 in older files"
    )
    learning_rate: NotNegative | None = Field(
        description="initial rate; `null` if the workload has none"
    )
    reached: bool = Field(description="whether the metric reached the target")
    failure: str = Field(
        description="why the training ended early, such as a loss of NaN; or empty"
    )
    evaluation_seconds: NotNegative = Field(
        default=0.0,
        description="time of all evaluations, which the curve leaves out; 0 in older files",
    )
    curve: list[Point] = Field(description="the metric before training and after each epoch")

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuses a curve on which the target has no place."""
        ends = self.curve[-1 - self.reached :]
        if len({point.value for point in ends}) <= self.reached:
            raise ValueError("its curve has no points, or reaches the target by no change")
        return self

    def crossing(self, target: float) -> Crossing:
        """Returns where a line through the last two points meets the target.

        The last point itself where the target was not reached.
        """
        last = self.curve[-1]
        if not self.reached:
            return Crossing(last.epoch, last.steps, last.seconds)
        before = self.curve[-2]
        share = (target - before.value) / (last.value - before.value)
        ends = ((point.epoch, point.steps, point.seconds) for point in (before, last))
        return Crossing(*(start + share * (end - start) for start, end in zip(*ends, strict=True)))


class Quality(Document):
    """Trainings with several batch sizes until a metric reaches a target."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    workload: str = Field(description="name of the workload")
    metric: str = Field(description="name of the metric, of the test data")
    target: Number = Field(description="its value to reach")
    higher_is_better: bool = Field(description="the untrained network is below the target")
    most_epochs: PositiveCount = Field(description="limit of each training")
    seed: Count = Field(description="of the first training of each batch size")
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="what else decides the metric: hyperparameters (a rate before `scale_rate`), "
        "options of the run, precision, data; empty in older files",
    )
    environment: Environment = Field(description="the machine and the software")
    trainings: list[Training] = Field(description="by batch size and number of replicas")
