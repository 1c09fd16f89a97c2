"""The table of a result: the CSV that a figure is drawn from, and the same on the report's page."""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NOTHING = 1e-12  # rounding errors of what is zero


@dataclass(frozen=True)
class Table:
    """Rows under named columns; a value that does not exist is NaN or None.

    Attributes:
        columns: names, with the unit in parentheses where there is one.
        rows: one tuple a row, as long as ``columns``.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> "Table":
        """Makes a table of records that have the same columns in the same order."""
        records = list(records)
        columns = tuple(records[0]) if records else ()
        return cls(columns, tuple(tuple(record.values()) for record in records))

    def to_csv(self) -> str:
        """Returns the table as comma-separated text; what does not exist is left empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_plain(value) for value in row] for row in self.rows)
        return text.getvalue()


def shown(value: Any) -> str:
    """Returns a cell as a person reads it: three digits or more, a dash for what is not there."""
    if _missing(value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        value = value if abs(value) > _NOTHING else 0.0
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(value: Any) -> Any:
    if _missing(value):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
