"""The result of a test of time to quality, described field by field in docs/quality.md."""

from typing import Annotated, Literal

from pydantic import Field

from fathom.results.base import SCHEMA, Count, Document, NotNegative, Number, PositiveCount, Record
from fathom.results.records import Environment


class Point(Record):
    """The metric after an epoch."""

    epoch: Count = Field(description="epochs trained")
    steps: Count = Field(description="training steps")
    seconds: NotNegative = Field(
        description="time of the steps and of waiting for their input; the first call of the "
        "step, in which TensorFlow compiles, counts as a median one"
    )
    value: Number = Field(description="the metric")


class Training(Record):
    """One training until the target or the limit."""

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
    curve: list[Point] = Field(description="the metric before training and after each epoch")


class Quality(Document):
    """Trainings with several batch sizes until a metric reaches a target."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    workload: str = Field(description="name of the workload")
    metric: str = Field(description="name of the metric, of the test data")
    target: Number = Field(description="its value to reach")
    higher_is_better: bool = Field(description="the untrained network is below the target")
    most_epochs: PositiveCount = Field(description="limit of each training")
    seed: Count = Field(description="of all trainings")
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="what else decides the metric: hyperparameters (a rate before `scale_rate`), "
        "options of the run, precision, data; empty in older files",
    )
    environment: Environment = Field(description="the machine and the software")
    trainings: list[Training] = Field(description="by batch size and number of replicas")
