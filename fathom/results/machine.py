"""What ``fathom machine`` found: one JSON document, described field by field in docs/machine.md."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fathom.results.base import SCHEMA, Document, Record, absent
from fathom.results.records import Environment


class Finding(Record):
    """One line about the machine."""

    name: str = Field(description="what it is about, such as `processor` or `oneDNN`")
    found: str = Field(description="what was found, or chosen")
    hint: str | None = absent("what costs speed or space, with the remedy; `null`: nothing")


class Inspection(Document):
    """What was found on a machine, and chosen for it."""

    indent: ClassVar[int | None] = 1

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    environment: Environment = Field(description="as in docs/results.md")
    findings: list[Finding] = Field(description="the lines, in order")
