"""The classes of validation images in a single folder, from one of three sources."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fathom.errors import FathomError
from fathom.imagenet.tree import read_lines, read_wnids

SYNSET_LABELS = "imagenet_2012_validation_synset_labels.txt"
KAGGLE_SOLUTION = "LOC_val_solution.csv"
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
META = "meta.mat"

_SOLUTION = re.compile(r"ILSVRC2012_val_(\d{8}),(n\d{8})\b.*")


def find_file(places: Iterable[Path], name: str) -> Path | None:
    """Returns the file of this name in the first folder that has it."""
    return next((place / name for place in places if (place / name).is_file()), None)


def read(places: Iterable[Path]) -> tuple[Path, dict[int, str]] | None:
    """Reads the ground truth: a list of WordNet ids, Kaggle's table, or the devkit's two files.

    Returns:
        The file, and the WordNet id of each image by its number; None if there is no such file.

    Raises:
        FathomError: a file is malformed.
    """
    places = list(places)
    if labels := find_file(places, SYNSET_LABELS):
        return labels, dict(enumerate(read_wnids(labels), 1))
    if solution := find_file(places, KAGGLE_SOLUTION):
        return solution, _read_solution(solution)
    truth, meta = find_file(places, GROUND_TRUTH), find_file(places, META)
    if truth and meta:
        return truth, _read_ground_truth(truth, _read_meta(meta), meta)
    return None


def _read_solution(path: Path) -> dict[int, str]:
    """Reads lines of an image's name and, after a comma, its class and bounding boxes."""
    wnids = {}
    for number, line in enumerate(read_lines(path)[1:], 2):
        match = _SOLUTION.fullmatch(line.strip())
        if not match:
            raise FathomError(f"{path} line {number}: expected an image and its WordNet id")
        wnids[int(match[1])] = match[2]
    return wnids


def _read_ground_truth(path: Path, wnid_of: dict[int, str], meta: Path) -> dict[int, str]:
    """Reads the devkit's list of ILSVRC2012_IDs, one per image."""
    wnids = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip().isdecimal() or int(line) not in wnid_of:
            raise FathomError(f"{path} line {number}: {line.strip()!r} is not a class of {meta}")
        wnids[number] = wnid_of[int(line)]
    return wnids


def _read_meta(path: Path) -> dict[int, str]:
    """Reads the devkit's table of classes: the WordNet id of each ILSVRC2012_ID from 1 to 1000."""
    import scipy.io  # slow to import, and only the devkit needs it

    try:
        synsets = np.atleast_1d(scipy.io.loadmat(path, squeeze_me=True)["synsets"])
        table = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    except OSError:
        raise
    except Exception as error:  # SciPy's reader fails on a damaged file in a dozen ways
        raise FathomError(f"{path} is not the devkit's {META}: {error}") from error
    return {number: wnid for number, wnid in table.items() if number <= 1000}
