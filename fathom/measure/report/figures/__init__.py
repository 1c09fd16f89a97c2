"""The figures of the report: one per module, found automatically."""

import importlib
import pkgutil

from fathom.measure.report.figure import Figure


def find_all() -> list[Figure]:
    """Returns the figures of all modules of this package, in the order of the report."""
    modules = (
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    )
    return sorted((module.FIGURE for module in modules), key=lambda figure: figure.order)
