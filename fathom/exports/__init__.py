"""A workload in the formats of other tools: each module is a format, its ``FORMAT``."""

import importlib
import pkgutil
from typing import cast

from fathom.exports.format import Exported, ExportOptions, Format, NetworkFormat
from fathom.options import unknown_option

__all__ = ["ExportOptions", "Exported", "Format", "NetworkFormat", "find", "names"]

_SHARED = ("format", "kernels", "llvm", "products", "ranks", "traced")  # no formats


def names() -> list[str]:
    """Returns the names of the formats."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in modules if name not in _SHARED)


def find(name: str) -> Format | NetworkFormat:
    """Returns a format.

    Raises:
        FathomError: there is none of this name.
    """
    if name not in names():
        raise unknown_option("format", name, names())
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return cast(Format | NetworkFormat, module.FORMAT)
