"""The table of the eight workloads, in the papers' order."""

import importlib
import importlib.util

from fathom.errors import FathomError

CLASSES = {
    "seq2seq": "Seq2Seq",
    "memnet": "MemNet",
    "speech": "Speech",
    "autoenc": "Autoenc",
    "residual": "Residual",
    "vgg": "VGG",
    "alexnet": "AlexNet",
    "deepq": "DeepQ",
}


def exists(name: str) -> bool:
    """Says whether the workload is part of this version."""
    return importlib.util.find_spec(f"fathom.{name}") is not None


def existing() -> list[str]:
    """Returns the names of the workloads that are part of this version."""
    return [name for name in CLASSES if exists(name)]


def load(name: str, forward_only: bool = False) -> type:
    """Imports and returns a workload's class, or its forward-only twin.

    Raises:
        FathomError: there is no such workload.
    """
    if name not in CLASSES or not exists(name):
        raise FathomError(f"there is no workload {name!r}: choose from {', '.join(existing())}")
    return getattr(importlib.import_module(f"fathom.{name}"), CLASSES[name] + "Fwd" * forward_only)
