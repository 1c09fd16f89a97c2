"""A description of the work of one step, independent of any machine."""

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, computed_field, model_validator
from typing_extensions import Self

from fathom.options import Mode
from fathom.results.base import (
    SCHEMA,
    AnyPrecisionName,
    Count,
    Document,
    PositiveCount,
    Record,
    Share,
)

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal[
    "convolution",
    "matrix product",
    "recurrent product",
    "look-up",
    "sparse product",
    "reduction",
    "elementwise",
    "data movement",
]
StepPhase = Literal["forward", "input gradient", "weight gradient", "update", "other"]

PRODUCTS: tuple[Kind, ...] = (
    "convolution",
    "matrix product",
    "recurrent product",
    "sparse product",
)
"""The kinds whose work is counted in multiply-accumulates."""

_PRODUCT = ("batch", "M", "N", "K")
_SIZES: dict[Kind, tuple[str, ...]] = {  # bounds of at least 1 that models of machines need
    "convolution": (
        *("N", "M", "C", "R", "S", "P", "Q", "groups"),
        *("stride_h", "stride_w", "dilation_h", "dilation_w"),
    ),
    "matrix product": _PRODUCT,
    "recurrent product": _PRODUCT,
}


class Operation(Record, frozen=True):
    """One operation of a step. Work and bytes are those of all its executions in the step."""

    name: str = Field(description="name in the traced graph; operations of loops under the loop's")
    type: str = Field(description="TensorFlow's op type")
    layer: str = Field(description="the network's layer, or a role, as in a profile")
    phase: StepPhase = Field(
        description="`forward`, `input gradient`, `weight gradient`, `update` or `other`"
    )
    kind: Kind = Field(description="kind of computation; `recurrent product`: one inside a loop")
    dtype: str = Field(
        description="type of the result's elements; `fixed16` and so on where they are packed"
    )
    bounds: dict[str, Count] = Field(
        description="the loop bounds that define it: of a convolution N M C R S P Q, `stride_h`, "
        "`stride_w`, the paddings, `dilation_h`, `dilation_w` and `groups`; of a product `batch` M "
        "N K; of a look-up `indices` and `width`; of a sparse product M N K and `nonzeros`; of the "
        "others `elements`, and `width`, the last axis, where a reduction keeps it"
    )
    repeats: PositiveCount = Field(
        description="executions per step: the iterations of the enclosing loops; 1 outside loops"
    )
    macs: Count = Field(description="multiply-accumulates")
    flops: Count = Field(
        description="floating-point operations other than multiply-accumulates: one for each "
        "element of an elementwise operation's result and of a reduction's input"
    )
    input_bytes: Count = Field(description="bytes read, without weights")
    weight_bytes: Count = Field(description="bytes of weights read, once for each execution")
    output_bytes: Count = Field(description="bytes written")
    producers: tuple[str, ...] = Field(
        default=(),
        description="names of the operations whose results it reads, through views, lists, loops "
        "and calls; empty in older files",
    )
    small_reads: tuple[str, ...] = Field(
        default=(),
        description="those of the producers of which it reads less than a sixteenth of the "
        "results, such as the statistics of a normalization",
    )
    result_bytes: Count = Field(
        default=0,
        description="memory that its results take until the last operation has read them; of all "
        "iterations if a list keeps each",
    )
    footprint_bytes: Count = Field(
        default=0,
        description="memory of all its inputs, weights and results, whole, while it runs once",
    )

    densities: dict[str, Share] = Field(
        default={},
        description="of a product, shares of its factors that are not zero: of `input`, `weights` "
        "or `gradient`; empty where they were not measured",
    )

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        sizes = {name: self.bounds.get(name, 0) for name in _SIZES.get(self.kind, ())}
        for name, size in sizes.items():
            if not size:
                raise ValueError(f"the bound {name} of a {self.kind} is missing or 0")
        if any(sizes.get(name, 0) % sizes.get("groups", 1) for name in ("C", "M")):
            raise ValueError("the bounds C and M are not multiples of the groups")
        return self

    @property
    def total_flops(self) -> int:
        """All floating-point operations, two for each multiply-accumulate."""
        return 2 * self.macs + self.flops

    def without_zeros(self) -> Self:
        """Returns the work that skips every product with a zero, and reads no weights of zero.

        The zeros of the two factors are taken as independent.
        """
        macs = round(self.macs * math.prod(self.densities.values()))
        weights = round(self.weight_bytes * self.densities.get("weights", 1.0))
        update = {"macs": macs, "weight_bytes": weights, "densities": {}}
        return self.model_copy(update=update)

    @property
    def traffic_bytes(self) -> int:
        """Bytes read and written, weights as often as they are read."""
        return self.input_bytes + self.weight_bytes + self.output_bytes

    @property
    def working_set_bytes(self) -> int:
        """Distinct bytes: weights count once."""
        return self.input_bytes + self.weight_bytes // self.repeats + self.output_bytes


class Description(Document, frozen=True):
    """The operations of one step, in the order of the traced graph; see docs/accelerators.md."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    workload: str = Field(description="name of the workload")
    mode: Mode = Field(description="`train` or `infer`")
    batch_size: PositiveCount = Field(description="examples per step")
    precision: AnyPrecisionName = Field(description="of the computation")
    inputs: dict[str, tuple[PositiveCount, ...]] = Field(
        description="shapes of the step's inputs and labels, by name"
    )
    parameters: Count = Field(description="number of trainable values")
    held_bytes: Count | None = Field(
        default=None,
        description="memory of the variables, with the optimizer's state, of constants and of the "
        "batch, which are held for the whole step; `null` in older files",
    )
    operations: tuple[Operation, ...] = Field(
        description="those that compute or move data; views, shapes and constants are left out"
    )
    without_rule: tuple[str, ...] = Field(
        default=(),
        description="types of operations of another's network whose work is not known: their bytes "
        "are counted, their arithmetic is not",
    )

    @model_validator(mode="after")
    def _check_work(self) -> Self:
        if not self.total_flops + sum(row.working_set_bytes for row in self.operations):
            raise ValueError("the operations compute and move nothing")
        if self.total_flops + self.traffic_bytes >= 2**63:
            raise ValueError("the operations and bytes of the step are 2^63 or more")
        return self

    @computed_field(description="multiply-accumulates of the step")
    @property
    def macs(self) -> int:
        """Multiply-accumulates of the step."""
        return sum(operation.macs for operation in self.operations)

    @computed_field(description="floating-point operations of the step, two for each MAC")
    @property
    def total_flops(self) -> int:
        """All floating-point operations of the step."""
        return sum(operation.total_flops for operation in self.operations)

    @computed_field(description="bytes read and written by all operations, without any reuse")
    @property
    def traffic_bytes(self) -> int:
        """Bytes read and written by all operations, as if none reused another's data."""
        return sum(operation.traffic_bytes for operation in self.operations)

    def share_without_rule(self, op_type: str) -> float:
        """Returns the share of the bytes that operations of a type move."""
        moved = sum(row.traffic_bytes for row in self.operations if row.type == op_type)
        return moved / max(1, self.traffic_bytes)

    def frame(self) -> "pd.DataFrame":
        """Returns one row per operation; bounds and densities are columns, empty without one."""
        import pandas as pd  # slow to import, and runs do without

        rows = self.operations
        plain = pd.DataFrame([row.model_dump(exclude={"bounds", "densities"}) for row in rows])
        bounds = pd.DataFrame([row.bounds for row in rows]).astype("Int64")
        densities = pd.DataFrame([row.densities for row in rows]).add_prefix("density of ")
        return plain.join([bounds, densities])
