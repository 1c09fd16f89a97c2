"""Convolutions of a network that need not be a workload: SCALE-Sim's table of layers."""

import csv
import io
from pathlib import Path

from fathom.errors import FathomError
from fathom.hardware.accelerators.tiling import Convolution
from fathom.system.files import read_file

COLUMNS = (
    *("Layer name", "IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width"),
    *("Channels", "Num Filter", "Strides"),
)
_LARGEST = 2**20  # of a size: numbers of cycles stay exact


def read(path: Path) -> list[Convolution]:
    """Returns the layers of a CSV file; height and width of an input include its padding.

    Raises:
        FathomError: the file cannot be read, or is no such table.
    """
    try:
        lines = csv.reader(io.StringIO(read_file(path).decode()), skipinitialspace=True)
        rows = [(lines.line_num, [cell.strip() for cell in line]) for line in lines if any(line)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FathomError(f"{path} is no CSV file: {error}") from error
    if not rows or tuple(rows[0][1][: len(COLUMNS)]) != COLUMNS:
        raise FathomError(f"{path} does not begin with the columns {', '.join(COLUMNS)}")
    if len(rows) == 1:
        raise FathomError(f"{path} has no layers")
    return [_layer(path, number, row) for number, row in rows[1:]]


def _layer(path: Path, number: int, row: list[str]) -> Convolution:
    name, *texts = row[: len(COLUMNS)]
    sizes = [int(text) if text.isdecimal() and len(text) < 9 else 0 for text in texts]
    if len(sizes) < len(COLUMNS) - 1 or not all(1 <= size <= _LARGEST for size in sizes):
        raise FathomError(
            f"{path}, line {number}: the sizes must be whole numbers from 1 to {_LARGEST}"
        )
    height, width, kernel_rows, kernel_columns, inputs, outputs, stride = sizes
    if kernel_rows > height or kernel_columns > width:
        raise FathomError(f"{path}, line {number}: the filter is larger than the input")
    rows, columns = (
        (size - kernel) // stride + 1
        for size, kernel in ((height, kernel_rows), (width, kernel_columns))
    )
    return Convolution(name, inputs, outputs, rows, columns, kernel_rows, kernel_columns, stride)
