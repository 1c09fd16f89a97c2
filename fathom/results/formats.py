"""One workload in several number formats, described field by field in docs/numbers.md."""

from typing import Annotated, Literal

from pydantic import Field

from fathom.options import Mode
from fathom.results.base import SCHEMA, Count, Document, NotNegative, Number, PrecisionName, Record
from fathom.results.records import Environment, FixedPointRecord, UsedHyperparameters, UsedOptions


class FormatRun(Record):
    """A run in one number format."""

    precision: PrecisionName = Field(description="the format")
    seed: Count = Field(description="of the run")
    metrics: dict[str, Number | None] = Field(
        description="of the evaluation; empty if the training diverged"
    )
    loss: Number | None = Field(
        description="mean of the last 20 training steps' losses; `null` in inference"
    )
    fixed_point: FixedPointRecord | None = Field(
        description="formats and counts by tensor, as in a result; `null` in floating point"
    )
    errors: dict[str, NotNegative] = Field(
        description="in inference: root mean square of the difference between the layer's output "
        "and that in float32, over the root mean square in float32, of one batch, by layer"
    )
    ended: str = Field(description="`complete`, or the error that ended the run")


class Formats(Document):
    """A workload's runs in several number formats."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    workload: str = Field(description="name of the workload")
    mode: Mode = Field(description="`train` or `infer`")
    steps: Count = Field(description="training steps of each run; 0 in inference")
    hyperparameters: UsedHyperparameters = Field(description="as used")
    options: UsedOptions = Field(
        default_factory=UsedOptions, description="of the run, with its data and checkpoint"
    )
    environment: Environment = Field(description="machine and software of the first run")
    runs: list[FormatRun] = Field(description="in the order of measurement")
