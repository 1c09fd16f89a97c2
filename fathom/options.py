"""What can be chosen for a run, by name, in Python and on the command line."""

import contextlib
import dataclasses
import difflib
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from fathom.errors import FathomError

Options = TypeVar("Options")

PRECISIONS = ("float32", "bfloat16", "float16")
CHECKPOINT_EVERY = 100  # steps; one more checkpoint is written at the end
_LARGEST = 2**31 - 1  # whole number: sizes are int32 in TensorFlow's shapes


@dataclass(frozen=True)
class Hyperparameters:
    """The choices that define a workload; each workload's subclass adds its paper's.

    Raises:
        FathomError: a value is out of range.
    """

    batch_size: int  # examples a step

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise FathomError(f"{field.name} must be a finite number, not {value}")
            if isinstance(value, (int, float)) and value < 0:
                raise FathomError(f"{field.name} must not be negative, not {value}")
        self.require_at_least(1, "batch_size")

    def require_at_least(self, minimum: float, *names: str) -> None:
        """Raises FathomError where one of the named fields is below ``minimum``."""
        for name in names:
            if getattr(self, name) < minimum:
                raise FathomError(f"{name} must be at least {minimum}, not {getattr(self, name)}")

    def require_below(self, limit: float, *names: str) -> None:
        """Raises FathomError where one of the named fields is not less than ``limit``."""
        for name in names:
            if getattr(self, name) >= limit:
                raise FathomError(f"{name} must be less than {limit}, not {getattr(self, name)}")

    def require_one_of(self, name: str, choices: Iterable[Any]) -> None:
        """Raises FathomError where the named field is none of ``choices``."""
        if getattr(self, name) not in choices:
            known = ", ".join(map(str, choices))
            raise FathomError(f"{name} must be one of {known}, not {getattr(self, name)}")


@dataclass(frozen=True)
class Execution:
    """How a network is executed; the same for every workload.

    Raises:
        FathomError: a value is out of range.
    """

    seed: int = 0  # fixes initialisation, data order, augmentation, noise and synthetic data
    data_dir: str | None = None  # the data set's folder; None: see fathom.data.find
    precision: str = "float32"  # of the computation; parameters stay float32
    xla: bool | None = None  # compile the step, or nothing; None: the workload's measured choice
    threads: int | None = None  # intra-op threads; None: one a core

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise FathomError(
                f"precision must be one of {', '.join(PRECISIONS)}, not {self.precision}"
            )
        if self.threads is not None and self.threads < 1:
            raise FathomError(f"threads must be at least 1, not {self.threads}")
        if not 0 <= self.seed <= _LARGEST:
            raise FathomError(f"seed must be from 0 to {_LARGEST}, not {self.seed}")


@dataclass(frozen=True)
class Setup:
    """What ``setup`` can be told.

    Raises:
        FathomError: a value is out of range, or there is no folder for the checkpoints.
    """

    checkpoint_dir: str | None = None  # where checkpoints are kept; None: none are written
    checkpoint_every: int | None = None  # steps between checkpoints; None: CHECKPOINT_EVERY
    resume: bool = False  # continue from the newest checkpoint, if there is one

    def __post_init__(self) -> None:
        if self.checkpoint_dir is None:
            if self.resume:
                raise FathomError("--resume needs --checkpoint-dir, the folder to resume from")
            if self.checkpoint_every is not None:
                raise FathomError("--checkpoint-every needs --checkpoint-dir, a folder to write to")
        elif not self.checkpoint_dir:
            raise FathomError("--checkpoint-dir is empty: name a folder, such as . for this one")
        if self.checkpoint_every is not None and self.checkpoint_every < 1:
            raise FathomError(f"checkpoint_every must be at least 1, not {self.checkpoint_every}")


def parse_device(name: str) -> tuple[str, int]:
    """Returns kind (``cpu`` or ``gpu``) and number of a device: ``gpu:1``, ``/cpu:0`` and so on.

    Raises:
        FathomError: not a device name.
    """
    match = re.fullmatch(r"/?(?:device:)?(cpu|gpu)(?::(\d+))?", name.lower())
    if match is None:
        raise FathomError(f"unknown device {name!r}: use cpu, gpu or gpu:N")
    return match[1], int(match[2] or 0)


def field_names(*option_types: type) -> list[str]:
    """Returns the names of all fields of the dataclasses, in their order."""
    return [field.name for kind in option_types for field in dataclasses.fields(kind)]


def unknown_option(kind: str, name: str, known: Iterable[str]) -> FathomError:
    """Returns the error for a name that is none of ``known``, with the nearest suggested."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1)
    suggestion = f"did you mean {near[0]}? " if near else ""
    return FathomError(f"unknown {kind} {name!r}: {suggestion}Known are {', '.join(known)}")


def build(option_type: type[Options], values: Mapping[str, Any]) -> Options:
    """Builds a dataclass from values by name, text values converted to the fields' types.

    Raises:
        FathomError: an unknown name, or a value of another type.
    """
    hints = get_type_hints(option_type)
    for name in values:
        if name not in hints:
            raise unknown_option("option", name, field_names(option_type))
    return option_type(**{name: _convert(name, values[name], hints[name]) for name in values})


def sort(values: Mapping[str, Any], *option_types: type) -> list[dict[str, Any]]:
    """Splits values by name into those of each dataclass.

    Raises:
        FathomError: a name is a field of none of them.
    """
    for name in values:
        if name not in field_names(*option_types):
            raise unknown_option("option", name, field_names(*option_types))
    return [
        {name: value for name, value in values.items() if name in field_names(kind)}
        for kind in option_types
    ]


def _convert(name: str, value: Any, hint: Any) -> Any:
    """Returns ``value`` as the hinted type (bool, int, float or str, perhaps ``| None``)."""
    kinds = getattr(hint, "__args__", (hint,))
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    if kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind is str and value is not None:
        return str(value)
    if kind in (int, float) and isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = kind(value)
    accepted = {bool: bool, int: numbers.Integral, float: numbers.Real}[kind]  # NumPy's, too
    if not isinstance(value, accepted) or isinstance(value, bool) != (kind is bool):
        expected = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise FathomError(f"{name} must be {expected}, not {value!r}")
    if kind is int and value > _LARGEST:
        raise FathomError(f"{name} must be at most {_LARGEST}, not {value}")
    return kind(value)
