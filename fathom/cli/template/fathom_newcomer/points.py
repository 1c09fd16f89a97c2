"""Points of the plane on three spirals, as lines ``x,y,class``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fathom.core.data import DataSet
from fathom.errors import FathomError
from fathom.system.files import open_file

CLASSES = 3


@dataclass(frozen=True, eq=False)
class Points(DataSet):
    """The points in memory."""

    name = "newcomer_points"
    title = "points on three spirals"
    licence = "CC0"
    home_page = "none: they are synthetic"
    layout = "points.csv and test.csv, a point a line: x,y,class"

    train_points: np.ndarray  # float32 [n, 2]
    train_classes: np.ndarray  # int32 [n], each from 0 to 2
    test_points: np.ndarray  # float32 [n, 2]
    test_classes: np.ndarray  # int32 [n], each from 0 to 2

    @classmethod
    def load(cls, directory: Path) -> "Points":
        """Reads both files.

        Raises:
            FathomError: a file is missing, unreadable or malformed; the message names it.
        """
        return cls(*_read(directory / "points.csv"), *_read(directory / "test.csv"))

    @classmethod
    def verify(cls, directory: Path, options: Any, everything: bool) -> str:
        """Reads all points."""
        points = cls.load(directory)
        return f"{len(points.train_points)} points and {len(points.test_points)} to test"

    @classmethod
    def synthesize(
        cls, directory: Path, seed: int, train_size: int = 2_000, test_size: int = 500
    ) -> None:
        """Draws points on three spirals, with a little noise."""
        rng = np.random.default_rng(seed)
        for name, size in (("points.csv", train_size), ("test.csv", test_size)):
            classes = rng.integers(CLASSES, size=size)
            radius = rng.uniform(0.1, 1, size)
            angle = 4 * radius + 2 * np.pi * classes / CLASSES + rng.normal(0, 0.1, size)
            rows = np.stack([radius * np.cos(angle), radius * np.sin(angle), classes], axis=1)
            np.savetxt(directory / name, rows, fmt=["%.4f", "%.4f", "%d"], delimiter=",")


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points of a file, float32 [n, 2], and their classes, int32 [n]."""
    with open_file(path) as file:
        if not file.peek(1):
            raise FathomError(f"{path} is empty")
        try:
            rows = np.loadtxt(file, delimiter=",", ndmin=2)
        except ValueError as error:
            raise FathomError(f"{path} is malformed: {str(error).splitlines()[0]}") from error
    if rows.shape[1] != 3:
        raise FathomError(f"{path} has {rows.shape[1]} columns, expected 3: {Points.layout}")
    if not np.isfinite(rows).all() or not np.isin(rows[:, 2], range(CLASSES)).all():
        raise FathomError(f"{path} has a value that is not finite, or a class that is not 0 to 2")
    return rows[:, :2].astype(np.float32), rows[:, 2].astype(np.int32)
