"""The workloads that installed packages register, this project's own among them.

A package registers a workload by an entry point that names its class. The forward-only twin is
beside the class, with ``Fwd`` at the end of its name, and the module ``descriptor`` beside the
class's:

    [project.entry-points."fathom.workloads"]
    perceptron = "fathom_perceptron.model:Perceptron"

Metadata tells the names; nothing of a package is imported before its workload is asked for.
"""

import functools
import importlib
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distributions
from typing import TYPE_CHECKING

from fathom import options
from fathom.errors import FathomError, cause

if TYPE_CHECKING:
    from fathom.model.descriptor import Descriptor
    from fathom.nn import NeuralNetworkModel

GROUP = "fathom.workloads"  # of the entry points
EIGHT = (  # of the Fathom paper, in the order of its Table II
    *("seq2seq", "memnet", "speech", "autoenc"),
    *("residual", "vgg", "alexnet", "deepq"),
)
_OWN = "fathom."  # the modules of the workloads that this project registers
_MODERN = "fathom.modern."
_SETS = ("eight", "modern", "all")


@functools.cache
def _registered() -> tuple[dict[str, EntryPoint], dict[str, str]]:
    """Returns the workloads by name, and the reason for each name that is refused."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(_entries(), key=lambda entry: (entry.name, entry.value)):
        found.setdefault(entry.name, []).append(entry)
    accepted, refused = {}, {}
    for name, entries in found.items():
        own = [entry for entry in entries if entry.value.startswith(_OWN)]
        others = [entry for entry in entries if entry not in own]
        if (own and others) or name in _SETS:
            refused[name] = f"{_origins(others)} takes a name that is Fathom's own"
        elif not is_name(name):
            refused[name] = f"{_origins(entries)} has a name that is not of a-z, 0-9 and _"
        elif len(others) > 1:
            refused[name] = f"{_origins(others)} have the same name: uninstall all but one"
        if own or name not in refused:
            accepted[name] = (own or others)[0]
    return accepted, refused


def _entries() -> Iterator[EntryPoint]:
    """Yields the registrations of all packages; of two installations of one package the first."""
    seen: set[str] = set()
    for package in distributions():
        try:
            entries = package.entry_points.select(group=GROUP)
            hidden = not entries or package.name in seen
        except Exception:  # damaged metadata: of another package, most likely
            continue
        if not hidden:
            seen.add(package.name)
            yield from entries


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
    """Returns the eight, then the others by name.

    Raises:
        FathomError: this project is not installed, and so registers none.
    """
    registered = _registered()[0]
    if not registered:
        raise FathomError("no workload is registered: pip install fathom-workloads")
    eight = [name for name in EIGHT if name in registered]
    return [*eight, *(name for name in registered if name not in EIGHT)]


def refused() -> dict[str, str]:
    """Returns the reason for each registration that cannot be used, by name."""
    return _registered()[1]


def classes() -> dict[str, str]:
    """Returns the module of each class of this project's workloads, and of their twins."""
    own = [entry for entry in _registered()[0].values() if entry.value.startswith(_OWN)]
    return {f"{each.attr}{twin}": each.module for each in own for twin in ("", "Fwd")}


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
    modern = [name for name, each in _registered()[0].items() if each.value.startswith(_MODERN)]
    sets = {"eight": list(EIGHT), "modern": modern, "all": names()}
    chosen: list[str] = []
    for part in text.split(","):
        chosen += sets[part] if part in sets else [checked_name(part)]
    return list(dict.fromkeys(chosen))


def descriptor(name: str) -> "Descriptor":
    """Returns a workload's descriptor, without importing its model.

    Raises:
        FathomError: there is no such workload, or its package has no ``DESCRIPTOR``.
    """
    entry = _registered()[0][checked_name(name)]
    module = f"{entry.value.partition(':')[0].rpartition('.')[0]}.descriptor"
    try:
        return importlib.import_module(module).DESCRIPTOR
    except (Exception, SystemExit) as error:  # whatever a package may raise where it is imported
        raise FathomError(f"{module} defines no DESCRIPTOR: {cause(error)}") from error


def load(name: str, forward_only: bool = False) -> type["NeuralNetworkModel"]:
    """Imports and returns a workload's class, or its forward-only twin.

    Raises:
        FathomError: there is no such workload, or what is registered under its name is none.
    """
    entry = _registered()[0][checked_name(name)]
    twin = EntryPoint(name, f"{entry.value}Fwd", GROUP)
    try:
        kind, forward = entry.load(), twin.load()
        _check(kind, name)
        _check(forward, name, forward_only=True)
    except (Exception, SystemExit) as error:  # whatever a package may raise where it is imported
        if entry.value.startswith(_OWN):
            raise
        raise FathomError(f"{_origins([entry])} cannot be used: {cause(error)}") from error
    return forward if forward_only else kind


def _check(kind: type, name: str, forward_only: bool = False) -> None:
    """Raises FathomError if a registered object is no workload of this name."""
    from fathom.core.data import DataSet
    from fathom.nn import NeuralNetworkModel

    if not isinstance(kind, type) or not issubclass(kind, NeuralNetworkModel):
        raise FathomError(f"{kind!r} is not a subclass of fathom.nn.NeuralNetworkModel")
    _require(kind, "title", "datasets", "Hyperparameters")
    if getattr(kind, "name", None) != name:
        raise FathomError(f"the name of {kind.__name__} is not {name}")
    datasets = kind.datasets
    if not datasets or not all(
        isinstance(each, type) and issubclass(each, DataSet) for each in datasets
    ):
        raise FathomError(
            f"{kind.__name__}.datasets does not list classes of fathom.core.data.DataSet"
        )
    for each in datasets:
        _require(each, "name", "title", "licence", "home_page", "layout")
    hyperparameters = kind.Hyperparameters
    if not isinstance(hyperparameters, type) or not issubclass(
        hyperparameters, options.Hyperparameters
    ):
        raise FathomError(
            f"{kind.__name__}.Hyperparameters is not a fathom.options.Hyperparameters"
        )
    _require(hyperparameters, "batch_size")
    if forward_only and not kind.forward_only:
        raise FathomError(f"{kind.__name__} does not set forward_only")


def _require(kind: type, *attributes: str) -> None:
    """Raises FathomError if a class lacks attributes or abstract methods."""
    lacks = sorted(getattr(kind, "__abstractmethods__", ()))
    lacks += [each for each in attributes if not hasattr(kind, each)]
    if lacks:
        raise FathomError(f"{kind.__name__} does not define {', '.join(lacks)}")
