"""Which archetypes a network's work is near to, as ``fathom nearest`` writes it."""

from typing import Annotated, Literal

from pydantic import Field

from fathom.options import Mode
from fathom.results.base import SCHEMA, Document, PositiveCount, Record, Share

Work = Annotated[
    dict[str, Share],
    Field(
        description="share of its work by kind, class of shape and FLOPs per byte: of an operation "
        "the mean of its shares of the floating-point operations and of the bytes"
    ),
]


class Archetype(Record, frozen=True):
    """A workload at its default size."""

    workload: str = Field(description="its name")
    batch_size: PositiveCount = Field(description="examples per step")
    distance: Share = Field(description="cosine distance of its work to the network's")
    work: Work


class Nearest(Document, frozen=True):
    """A network among the archetypes."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    network: str = Field(description="its name, or that of a workload")
    mode: Mode = Field(description="`train` or `infer`, of the network and of the archetypes")
    batch_size: PositiveCount = Field(description="examples per step of the network")
    work: Work
    archetypes: tuple[Archetype, ...] = Field(min_length=1, description="the nearest first")
