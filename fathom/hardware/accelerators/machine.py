"""Descriptions of machines: one JSON file each, every number with its source."""

import math
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fathom.errors import FathomError
from fathom.options import unknown_option
from fathom.results.base import SCHEMA, Document, NotNegative, Positive, Record, absent
from fathom.results.calibration import Calibration

_FOLDER = resources.files(__package__) / "machines"


class Array(Record, frozen=True):
    """A spatial array of multipliers, whose tiles ``tiling`` explores."""

    elements: int = Field(
        ge=1, lt=2**31, description="processing elements: multiply-accumulates a cycle"
    )
    clock_hz: Positive = Field(description="clock frequency")
    pipeline_depth: int = Field(
        ge=0, lt=2**31, description="cycles until the first result of a tile"
    )
    word_bytes: int = Field(ge=1, lt=2**10, description="bytes of a value on chip and in memory")


class Link(Record, frozen=True):
    """A level of the network between machines of one kind, as between the GPUs of a server."""

    name: str = Field(description="such as `NVLink`")
    devices: int | None = Field(
        default=None, ge=2, lt=2**31, description="machines that it joins; `null`: any number"
    )
    bandwidth: Positive = Field(description="of a machine, in bytes per second and direction")
    latency: NotNegative = Field(default=0.0, description="of a message, in seconds")


class Level(Record, frozen=True):
    """A level of the memory on the chip, as a cache, all of its units together."""

    name: str = Field(description="such as `L2`")
    size_bytes: Positive = Field(description="of all units")
    bandwidth: Positive | None = absent(
        "at which it is read, in bytes per second; `null`: not stated"
    )


class Machine(Document, frozen=True, extra="forbid"):
    """A machine, or one node of several.

    Only rates and bandwidth are needed for a roofline; a model that needs another field refuses a
    machine without it.
    """

    indent = 2
    remedy = "correct it as in docs/accelerators.md"

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    title: str = Field(description="full name")
    flops: dict[str, Positive] = Field(
        min_length=1, description="peak FLOP/s by type of number, such as `float32`"
    )
    bandwidth: Positive = Field(description="of the memory, in bytes per second")
    memory_bytes: Positive | None = absent("size of that memory")
    on_chip_bytes: Positive | None = absent("memory on the chip")
    levels: tuple[Level, ...] = Field(
        default=(), description="of that memory, from the innermost, the slowest last"
    )
    area_mm2: Positive | None = absent("area of the die, in mm^2")
    power_w: Positive | None = absent("power under load, in watts")
    idle_share: NotNegative = Field(
        default=1.0, le=1, description="share of the power that is drawn while waiting"
    )
    links: tuple[Link, ...] = Field(
        default=(), description="levels of the network to other nodes, from the innermost"
    )
    link_power_w: NotNegative = Field(
        default=0.0, description="further power of a node that is one of several, in watts"
    )
    utilization: Positive = Field(
        default=1.0, le=1, description="share of the peak that convolutions and products reach"
    )
    array: Array | None = absent("of accelerators whose tiles are chosen")
    calibration: Calibration | None = absent(
        "measured rates by kind and shape, for `fathom predict`"
    )
    sources: dict[str, str] = Field(description="where each of the other fields is from")

    @model_validator(mode="after")
    def _check(self) -> Self:
        sizes = [link.devices or math.inf for link in self.links]
        if sizes != sorted(set(sizes)):
            raise ValueError("each of the links must join more devices than the one before")
        rates = [level.bandwidth for level in self.levels if level.bandwidth]
        if sorted(rates, reverse=True) != rates:
            raise ValueError("each of the levels must be slower than the one before")
        bounds = ["memory", "compute", *(level.name for level in self.levels)]
        if len(set(bounds)) < len(bounds):
            raise ValueError("each of the levels must have a name of its own")
        fields = type(self).model_fields
        given = {name for name in fields if getattr(self, name) != fields[name].default}
        given -= {"schema_version", "title", "sources"}
        if missing := sorted(given - self.sources.keys()):
            raise ValueError(f"{missing[0]} has no source")
        return self

    def peak(self, precision: str) -> float:
        """Returns the peak FLOP/s for a type of number.

        Raises:
            FathomError: the machine has no rate for it.
        """
        if precision not in self.flops:
            rates = ", ".join(self.flops)
            raise FathomError(f"{self.title} has no rate for {precision}; it has {rates}")
        return self.flops[precision]

    def ridge(self, precision: str) -> float:
        """Returns the FLOPs per byte above which the computation is the limit."""
        return self.peak(precision) / self.bandwidth

    def require(self, *fields: str) -> None:
        """Raises FathomError if the machine lacks one of the fields."""
        for field in fields:
            if not getattr(self, field):
                raise FathomError(f"the description of {self.title} has no {field}")


def names() -> list[str]:
    """Returns the names of the machines that come with the suite."""
    return sorted(Path(file.name).stem for file in _FOLDER.iterdir() if file.name.endswith(".json"))


def load(name: str) -> Machine:
    """Returns the machine of a name, or of a file.

    Raises:
        FathomError: there is none, or the file is damaged.
    """
    if name in names():
        return Machine.parse((_FOLDER / f"{name}.json").read_bytes(), name)
    if name.endswith(".json") or "/" in name:
        return Machine.read(Path(name))
    raise unknown_option("machine", name, names())
