"""The base of all result files: number types, reading, writing and error messages."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic_core import ErrorDetails
from typing_extensions import Self

from fathom.errors import FathomError
from fathom.options import DEVICE_KINDS, FIXED_PATTERN, PRECISIONS
from fathom.system.files import atomic_write, named_path, read_file

_LONGEST = 60  # characters of an invalid value in a message
_NANOSECOND_DIGITS = 9

# No measurement exceeds 1e100, whose square is still finite, nor has a larger inverse; NumPy
# integers have 64 bits.
Number = Annotated[float, Field(gt=-1e100, lt=1e100)]
NotNegative = Annotated[float, Field(ge=0, lt=1e100)]
Positive = Annotated[float, Field(gt=1e-100, lt=1e100)]
Share = Annotated[float, Field(ge=0, le=1)]
Integer = Annotated[int, Field(gt=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
PositiveCount = Annotated[int, Field(ge=1, lt=2**63)]
_OF_WORKLOADS = "|".join([*PRECISIONS, FIXED_PATTERN])
_OF_FILES = "float64|float8|float6|float4"  # in which networks of others compute, too
PrecisionName = Annotated[str, Field(pattern=f"^({_OF_WORKLOADS})$")]
AnyPrecisionName = Annotated[str, Field(pattern=f"^({_OF_WORKLOADS}|{_OF_FILES})$")]
DeviceName = Annotated[str, Field(pattern=f"^/({'|'.join(DEVICE_KINDS)}):[0-9]+$")]
SCHEMA = Field(alias="schema", description="version of this description")


def absent(description: str) -> Any:
    """Declares a field that is None where a result does not have it."""
    return Field(default=None, description=description)


def _rounded(numbers: np.ndarray) -> list[float]:
    return [round(float(number), _NANOSECOND_DIGITS) for number in numbers]


def _array(items: Any) -> GetPydanticSchema:
    """Declares a float64 array that is a list of this type in the file."""
    rounded = PlainSerializer(_rounded, return_type=items)
    as_list = BeforeValidator(lambda x: x.tolist() if isinstance(x, np.ndarray) else x)
    as_array = AfterValidator(lambda values: np.array(values, np.float64))
    listed: Any = Annotated[items, as_list, as_array, rounded]
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(listed))


_Nonempty = Annotated[list[Positive], Field(min_length=1)]
SecondsArray = Annotated[np.ndarray, _array(list[NotNegative])]
PositiveArray = Annotated[np.ndarray, _array(list[Positive])]
NonemptyPositiveArray = Annotated[np.ndarray, _array(_Nonempty)]


class Record(
    BaseModel,
    strict=True,
    defer_build=True,  # of validators, until a record is created
    allow_inf_nan=False,
    populate_by_name=True,
    json_schema_serialization_defaults_required=True,
):
    """A part of a result file. Values are not converted, and unknown fields are ignored."""

    def to_plain(self) -> dict[str, Any]:
        """Returns the fields by their names in the file, as plain data for strict JSON."""
        return {name: _json_safe(value) for name, value in self.model_dump(by_alias=True).items()}


class OpenRecord(Record, extra="allow"):
    """A part to which workloads add their own fields; None is not written."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Returns a field that a workload added."""

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in handler(self).items() if value is not None}


class Document(Record):
    """A whole result file; a subclass's first field is its schema version."""

    indent: ClassVar[int | None] = None  # of the file
    remedy: ClassVar[str] = "delete it and measure again"  # of a damaged file

    def to_json(self) -> str:
        """Returns the text of the file."""
        return json.dumps(self.to_plain(), indent=self.indent) + "\n"

    def write(self, path: str | Path) -> None:
        """Writes the document atomically.

        Raises:
            FathomError: the file cannot be written.
        """
        with atomic_write(named_path(path)) as temporary:
            temporary.write_text(self.to_json())

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Reads a file.

        Raises:
            FathomError: it cannot be read, is damaged, or has another schema version.
        """
        return cls.parse(read_file(named_path(path)), str(path))

    @classmethod
    def parse(cls, text: str | bytes, source: str) -> Self:
        """Parses JSON; ``source`` names its origin in messages.

        Raises:
            FathomError: it is damaged, or has another schema version.
        """
        try:
            document = cls.model_validate_json(text)
        except ValidationError as error:
            raise _refusal(source, error.errors(include_url=False), cls.remedy) from error
        if "schema_version" not in document.model_fields_set:
            raise damaged(source, "schema is missing", cls.remedy)
        return document


def damaged(source: str, complaint: str, remedy: str = Document.remedy) -> FathomError:
    """Returns the error for a damaged file."""
    return FathomError(f"{source} is damaged ({complaint}): {remedy}")


def shown(value: object) -> str:
    """Returns a value as one line of JSON, truncated."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _refusal(source: str, errors: list[ErrorDetails], remedy: str) -> FathomError:
    """Returns the error for an invalid file; a wrong schema version takes precedence."""
    for error in errors:
        if error["loc"][-1:] == ("schema",) and error["type"] == "literal_error":
            where, found, known = _field(error["loc"]), error["input"], error["ctx"]["expected"]
            newer = isinstance(found, int) and found > int(known)
            return FathomError(
                f"{source} is of {'a newer' if newer else 'another'} schema "
                f"({where} is {shown(found)}, not {known}): "
                + ("update Fathom" if newer else "measure again")
                + ", or use the version of Fathom that wrote it"
            )
    return damaged(source, _complaint(errors[0]), remedy)


def _complaint(error: ErrorDetails) -> str:
    """Returns which field is invalid and why."""
    where, found = _field(error["loc"]), shown(error["input"])
    kind, limits = error["type"], error.get("ctx", {})
    if kind == "missing":
        return f"{where} is missing"
    if kind == "too_short":
        return f"{where} is empty"
    if kind == "extra_forbidden":
        return f"{where} is no field"
    if kind == "json_invalid":
        return str(limits["error"])
    if kind == "value_error":
        return f"{where}: {limits['error']}" if error["loc"] else str(limits["error"])
    if error["loc"][-1:] == ("[key]",):
        return f"{_field(error['loc'][:-2])} has a field {found}"
    return f"{where} is {found}, not {_wanted(kind, limits)}"


def _wanted(kind: str, limits: Mapping[str, object]) -> str:
    """Returns the expected value for a kind of pydantic error, in words."""
    words = {
        "bool_type": "true or false",
        "dict_type": "an object",
        "finite_number": "a number",
        "float_type": "a number",
        "greater_than": "above {gt:g}",
        "greater_than_equal": "{ge:g} or more",
        "int_parsing_size": "a number of 64 bits",
        "int_type": "a whole number",
        "less_than": "below {lt:g}",
        "less_than_equal": "{le:g} or less",
        "list_type": "a list",
        "literal_error": "{expected}",
        "model_type": "an object",
        "string_pattern_mismatch": "of the form {pattern}",
        "string_type": "a text",
        "tuple_type": "a list",
    }
    return words.get(kind, kind).format(**limits)


def _field(path: Iterable[str | int]) -> str:
    """Returns the path of a field, such as ``ops[3].phase``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if re.fullmatch(r"[\w%]+", part) else f".{shown(part)}"
    return text.lstrip(".") or "all of it"


def _json_safe(value: object) -> object:
    """Replaces NaN and infinities, which JSON cannot represent, by null; converts NumPy numbers."""
    if isinstance(value, dict):
        return {key: _json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_safe(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
