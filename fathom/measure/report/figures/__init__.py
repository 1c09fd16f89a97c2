"""The figures of the report: one per module, found automatically.

What their functions take, unless they say otherwise: ``ops`` are one or several equal profiles per
workload, from ``frames.profile_ops``; ``profiles`` are such profiles' runs and ``runs`` completed
timings, from ``Folder.runs_frame``; ``shares`` have one row per workload, one column per op type.
"""

import importlib
import pkgutil

from fathom.measure.report.figure import Figure


def find_all() -> list[Figure]:
    """Returns the figures of all modules of this package, in the order of the report."""
    modules = (
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    )
    return sorted((module.FIGURE for module in modules), key=lambda figure: figure.order)
