"""Measured zeros in a description: the table of ``fathom sparsity --csv``."""

import csv
import io
from pathlib import Path
from typing import TypeAlias

from fathom.errors import FathomError
from fathom.results.description import PRODUCTS, Description, Operation, StepPhase
from fathom.system.files import read_file

Zeros: TypeAlias = dict[str, dict[str, float]]  # shares by layer and tensor

_TENSORS = ("input", "weights", "gradient")
_FACTORS: dict[StepPhase, tuple[str, str]] = {
    "forward": ("input", "weights"),
    "weight gradient": ("input", "gradient"),
    "input gradient": ("gradient", "weights"),
}


def read(path: Path) -> Zeros:
    """Returns the zeros of each layer's tensors, as far as counted, at the end of a run.

    Raises:
        FathomError: the file cannot be read, or is no such table.
    """
    try:
        rows = [*csv.DictReader(io.StringIO(read_file(path).decode()))]
        last = max((int(row["steps"]) for row in rows), default=0)
        found = {
            row["layer"]: {name: float(row[name]) for name in _TENSORS if row[name]}
            for row in rows
            if int(row["steps"]) == last
        }
    except (UnicodeDecodeError, csv.Error, KeyError, ValueError, TypeError) as error:
        raise FathomError(f"{path} is no table of fathom sparsity --csv: {error}") from error
    for layer, shares in found.items():
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise FathomError(f"{path}: {name} of {layer} is {share}, not from 0 to 1")
    return found


def measured(description: Description, zeros: Zeros) -> Description:
    """Returns a description with the densities of the factors of its products.

    Raises:
        FathomError: no product is of one of the layers.
    """
    rows = tuple(
        row.model_copy(update={"densities": _densities(row, zeros[row.layer])})
        if row.kind in PRODUCTS and row.layer in zeros
        else row
        for row in description.operations
    )
    if not any(row.densities for row in rows):
        raise FathomError(f"the table of zeros has no layer of {description.workload}")
    return description.model_copy(update={"operations": rows})


def _densities(row: Operation, zeros: dict[str, float]) -> dict[str, float]:
    factors = _FACTORS.get(row.phase, ())
    return {name: 1 - zeros[name] for name in factors if name in zeros}
