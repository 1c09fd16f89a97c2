"""The table of a workload's hyperparameters: ``python -m fathom.<workload> --set help``."""

import dataclasses
from typing import get_type_hints

from rich.table import Table

from fathom.options import Hyperparameters


def table(kind: type[Hyperparameters]) -> Table:
    """Returns a row for each hyperparameter: default, allowed values, unit, meaning, source."""
    shown = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("name", "default", "allowed", "unit", "meaning", "source"):
        shown.add_column(title, overflow="fold")
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
        shown.add_row(
            field.name,
            default.lower() if isinstance(field.default, bool) else default,
            field.metadata["allowed"].describe(hints[field.name]),
            *(field.metadata[part] for part in ("unit", "about", "source")),
        )
    return shown
