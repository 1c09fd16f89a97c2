"""The workloads: the suite's eight, and those that installed packages register.

A package registers a workload by an entry point that names its class; the forward-only twin is
beside it, with ``Fwd`` at the end of its name:

    [project.entry-points."fathom.workloads"]
    perceptron = "fathom_perceptron.model:Perceptron"

Metadata tells the names; nothing of a package is imported before its workload is asked for.
"""

import functools
import importlib
import re
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from fathom import options
from fathom.errors import FathomError, cause

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

GROUP = "fathom.workloads"  # of the entry points
MODERN = "fathom.modern."  # the package of the workloads that this project registers itself

CLASSES = {  # the eight, in the papers' order
    "seq2seq": "Seq2Seq",
    "memnet": "MemNet",
    "speech": "Speech",
    "autoenc": "Autoenc",
    "residual": "Residual",
    "vgg": "VGG",
    "alexnet": "AlexNet",
    "deepq": "DeepQ",
}
_SETS = ("eight", "modern", "all")


@functools.cache
def _registered() -> tuple[dict[str, EntryPoint], dict[str, str]]:
    """Returns the plug-ins by name, and the reason for each name that is refused."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        found.setdefault(entry.name, []).append(entry)
    refused = {}
    for name, entries in found.items():
        if name in CLASSES or name in _SETS:
            refused[name] = f"{_origins(entries)} takes a name that is Fathom's own"
        elif not is_name(name):
            refused[name] = f"{_origins(entries)} has a name that is not of a-z, 0-9 and _"
        elif len(entries) > 1:
            refused[name] = f"{_origins(entries)} have the same name: uninstall all but one"
    return {name: each[0] for name, each in found.items() if name not in refused}, refused


def _origins(entries: list[EntryPoint]) -> str:
    """Returns the registrations and their packages, in words."""
    return " and ".join(
        f"{each.value} of {each.dist.name if each.dist else 'an unnamed package'}"
        for each in entries
    )


def is_name(text: str) -> bool:
    """Returns whether a text can be a workload's name."""
    return re.fullmatch("[a-z][a-z0-9_]*", text) is not None and text not in _SETS


def names() -> list[str]:
    """Returns the eight, then the registered workloads by name."""
    return [*CLASSES, *_registered()[0]]


def refused() -> dict[str, str]:
    """Returns the reason for each registered name that cannot be used."""
    return _registered()[1]


def checked_name(name: str) -> str:
    """Returns the name of a workload, without importing it.

    Raises:
        FathomError: there is no such workload, or several.
    """
    if name in names():
        return name
    if name in refused():
        raise FathomError(f"{name} is refused: {refused()[name]}")
    raise options.unknown_option("workload", name, names())


def select(text: str) -> list[str]:
    """Returns the workloads of a comma-separated list of names, ``eight``, ``modern`` and ``all``.

    Raises:
        FathomError: there is no such workload, or several.
    """
    modern = [name for name, each in _registered()[0].items() if each.value.startswith(MODERN)]
    sets = {"eight": list(CLASSES), "modern": modern, "all": names()}
    chosen: list[str] = []
    for part in text.split(","):
        chosen += sets[part] if part in sets else [checked_name(part)]
    if not chosen:
        raise FathomError("no modern workload is registered: pip install fathom-workloads")
    return list(dict.fromkeys(chosen))


def load(name: str, forward_only: bool = False) -> type["NeuralNetworkModel"]:
    """Imports and returns a workload's class, or its forward-only twin.

    Raises:
        FathomError: there is no such workload, or what is registered under its name is none.
    """
    checked_name(name)
    if name in CLASSES:
        module = importlib.import_module(f"fathom.{name}")
        return getattr(module, CLASSES[name] + "Fwd" * forward_only)
    entry = _registered()[0][name]
    twin = EntryPoint(name, f"{entry.value}Fwd", GROUP)
    try:
        kind, forward = entry.load(), twin.load()
        _check(kind, name)
        _check(forward, name, forward_only=True)
    except (Exception, SystemExit) as error:  # whatever a package may raise where it is imported
        raise FathomError(
            f"{_origins([entry])} cannot be used: {cause(error) or type(error).__name__}"
        ) from error
    return forward if forward_only else kind


def _check(kind: type, name: str, forward_only: bool = False) -> None:
    """Raises FathomError if a registered object is no workload of this name."""
    from fathom.nn import NeuralNetworkModel

    if not isinstance(kind, type) or not issubclass(kind, NeuralNetworkModel):
        raise FathomError(f"{kind!r} is not a subclass of fathom.nn.NeuralNetworkModel")
    lacks = sorted(kind.__abstractmethods__)
    lacks += [part for part in ("title", "datasets", "Hyperparameters") if not hasattr(kind, part)]
    if lacks:
        raise FathomError(f"{kind.__name__} does not define {', '.join(lacks)}")
    if getattr(kind, "name", None) != name:
        raise FathomError(f"the name of {kind.__name__} is not {name}")
    chosen = kind.Hyperparameters
    if not isinstance(chosen, type) or not issubclass(chosen, options.Hyperparameters):
        raise FathomError(
            f"{kind.__name__}.Hyperparameters is not a fathom.options.Hyperparameters"
        )
    if forward_only and not kind.forward_only:
        raise FathomError(f"{kind.__name__} does not set forward_only")
