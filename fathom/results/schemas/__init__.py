"""What the result files hold: a JSON Schema of each, beside this module, and the check by them.

docs/results.md and docs/characterization.md say what the fields mean. A schema requires what some
reader of the file relies on, and allows fields that it does not know.
"""

import functools
import importlib.resources
import json
import re
from collections.abc import Iterable
from typing import Any

import jsonschema
import referencing

from fathom.errors import FathomError

_NAMES = ("result", "profile", "machine", "run")
_STEP_LISTS = ("seconds", "input_wait", "loss", "work", "first_of_shape", "call")
_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}
_TOO_LARGE = 1e100  # no measurement, and its square is still a number
_LONGEST = 60  # characters of a wrong value that a message shows


def check(document: Any, name: str, source: str, at: str = "") -> None:
    """Checks a document by its schema.

    Args:
        document: plain data, as read from a JSON file.
        name: of the schema: ``result``, ``profile``, ``machine`` or ``run``.
        source: the file that it comes from, for the message.
        at: the field of the file in which the document stands; empty where it is all of the file.

    Raises:
        FathomError: a field is missing or of another type, or its value is not allowed.
    """
    error = next(_validator(name).iter_errors(document), None)
    if error is not None:
        raise damaged(source, _complaint(error, [at] if at else []))


def check_result(document: Any, source: str, at: str = "") -> None:
    """Checks a result by its schema, and that the lists of its steps are of one length.

    Args:
        document: plain data, as read from a JSON file.
        source: the file that it comes from, for the message.
        at: the field of the file in which the result stands; empty where it is all of the file.

    Raises:
        FathomError: it is no such result.
    """
    check(document, "result", source, at)
    steps = document["steps"]
    if len({len(steps[name]) for name in _STEP_LISTS if name in steps}) > 1:
        raise damaged(source, f"the lists of {_field([at, 'steps'])} differ in length")


def damaged(source: str, complaint: str) -> FathomError:
    """Returns the error of a file that is not what Fathom wrote."""
    return FathomError(f"{source} is damaged ({complaint}): delete it and measure again")


@functools.cache
def _validator(name: str) -> jsonschema.protocols.Validator:
    """Returns what checks a document by a schema."""
    types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number}
    )
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=types)
    return validator(_schemas()[name], registry=_registry())


@functools.cache
def _schemas() -> dict[str, Any]:
    folder = importlib.resources.files(__package__)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in _NAMES}


@functools.cache
def _registry() -> referencing.Registry:
    """Returns the schemas by the names that they have for each other."""
    resources = [
        (schema["$id"], referencing.Resource.from_contents(schema))
        for schema in _schemas().values()
    ]
    return referencing.Registry().with_resources(resources)


def _is_integer(_: Any, value: Any) -> bool:
    """Whether it is a whole number that NumPy can hold; 1.0 is none."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_number(_: Any, value: Any) -> bool:
    """Whether it is a number to reckon with; Python's JSON also reads NaN and Infinity."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < _TOO_LARGE


def _complaint(error: jsonschema.ValidationError, before: list[str]) -> str:
    """Says which field is wrong, and what is."""
    path, limit = [*before, *error.absolute_path], error.validator_value
    if error.validator == "required":
        missing = next(name for name in limit if name not in error.instance)
        return f"{_field([*path, missing])} is missing"
    if "propertyNames" in error.absolute_schema_path:
        return f"{_field(path)} has a field {_shown(error.instance)}"
    if error.validator == "minItems":
        return f"{_field(path)} is empty"
    return f"{_field(path)} is {_shown(error.instance)}, not {_wanted(error.validator, limit)}"


def _wanted(keyword: str, limit: Any) -> str:
    """Says in words what a keyword of a schema asks of a value."""
    if keyword == "type":
        return " or ".join(_TYPES[name] for name in ([limit] if isinstance(limit, str) else limit))
    if keyword == "enum":
        return f"one of {', '.join(map(str, limit))}"
    if keyword == "pattern":
        return f"of the form {limit}"
    return f"{limit} or more" if keyword == "minimum" else f"above {limit}"


def _field(path: Iterable[str | int]) -> str:
    """Returns where a field stands, such as ``ops[3].phase``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part:
            text += f".{part}" if re.fullmatch(r"[\w%]+", part) else f".{_shown(part)}"
    return text.lstrip(".") or "all of it"


def _shown(value: Any) -> str:
    """Returns a value in one line of JSON, cut short."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
