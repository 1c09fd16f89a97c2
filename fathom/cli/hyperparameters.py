"""The tables of a workload's options: ``python -m fathom.<workload> --set help``."""

import dataclasses
from typing import TYPE_CHECKING, get_type_hints

from rich.table import Table

from fathom.options import Allowed, Hyperparameters, RunOptions

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel


def tables(model_class: "type[NeuralNetworkModel]") -> list[Table]:
    """Returns the table of a workload's hyperparameters, and of its options of a run if any."""
    shown = [_table("hyperparameter", model_class.Hyperparameters)]
    if dataclasses.fields(model_class.RunOptions):
        shown.append(_table("option of a run", model_class.RunOptions))
    return shown


def _table(kind: str, options: type[Hyperparameters | RunOptions]) -> Table:
    """Returns a row for each option: default, allowed values, unit, meaning, source."""
    shown = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for title in (kind, "default", "allowed", "unit", "meaning", "source"):
        shown.add_column(title, overflow="fold")
    hints = get_type_hints(options)
    for field in dataclasses.fields(options):
        default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
        shown.add_row(
            field.name,
            default.lower() if isinstance(field.default, bool) else default,
            field.metadata.get("allowed", Allowed()).describe(hints[field.name]),
            *(field.metadata.get(part, "") for part in ("unit", "about", "source")),
        )
    return shown
