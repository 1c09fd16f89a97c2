"""What ``fathom calibrate`` measures of a machine: rates by kind and shape, and steps."""

from typing import Literal

from pydantic import Field

from fathom.options import Mode
from fathom.results.base import NotNegative, Positive, PositiveCount, PrecisionName, Record
from fathom.results.description import StepPhase
from fathom.results.records import Compiled


class ProductTime(Record, frozen=True):
    """The time of a convolution or a matrix product, as that of ``groups`` products M x K x N."""

    kind: Literal["convolution", "matrix product"] = Field(description="as of an operation")
    phase: StepPhase = Field(description="of a convolution; `forward` of matrix products")
    groups: PositiveCount = Field(description="products of the same shape, or groups of channels")
    M: PositiveCount = Field(description="rows: of a convolution the positions of all images")
    N: PositiveCount = Field(description="columns: of a convolution the filters of a group")
    K: PositiveCount = Field(description="summands: of a convolution the values under a filter")
    seconds: Positive = Field(description="the shortest, without the cost of calling it")


class TransferTime(Record, frozen=True):
    """The time of an elementwise operation by the bytes that it reads and writes."""

    size_bytes: PositiveCount = Field(description="read and written")
    seconds: Positive = Field(description="the shortest, without the cost of calling it")


class Ideal(Record, frozen=True):
    """A step, as its operations would take if each ran alone at the measured rates."""

    product_seconds: NotNegative = Field(description="of convolutions and products")
    transfer_seconds: NotNegative = Field(description="of all other operations")
    dispatch_seconds: NotNegative = Field(
        description="of starting each of the operations; 0 where XLA compiles them into one"
    )
    call_seconds: NotNegative = Field(description="of calling the graph")


class StepTime(Record, frozen=True):
    """A measured step of a workload, and the same step from the description."""

    workload: str = Field(description="its name")
    mode: Mode = Field(description="`train` or `infer`")
    batch_size: PositiveCount = Field(description="examples per step")
    xla: Compiled = Field(description="what XLA compiled: `step`, `layers` or `off`")
    seconds: Positive = Field(description="median of the measured steps")
    ideal: Ideal = Field(description="the same from the description and the rates")


class Calibration(Record, frozen=True):
    """Measured rates of one machine, by which ``fathom predict`` predicts steps."""

    threads: PositiveCount = Field(description="of everything measured")
    precision: PrecisionName = Field(description="of everything measured")
    products: tuple[ProductTime, ...] = Field(min_length=1, description="over a grid of shapes")
    transfers: tuple[TransferTime, ...] = Field(min_length=1, description="by ascending size")
    dispatch_seconds: Positive = Field(description="of an operation that computes almost nothing")
    call_seconds: Positive = Field(description="of calling a graph that computes almost nothing")
    steps: tuple[StepTime, ...] = Field(default=(), description="of workloads, for corrections")
