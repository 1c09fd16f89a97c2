"""Where a processor's issue slots go, as ``perf stat`` counts them (Yasin, ISPASS 2014)."""

import re
from pathlib import Path

import pandas as pd

from fathom.errors import FathomError
from fathom.system.files import read_file

KINDS = {
    "retiring": "useful work",
    "bad_speculation": "wrong guesses",
    "frontend_bound": "waiting for instructions",
    "backend_bound": "waiting for data or units",
}
"""The four kinds of the first level, by perf's names of the metrics, after ``tma_`` on Intel."""


def read(path: Path) -> pd.DataFrame:
    """Returns the shares of the slots from what ``perf stat -x, -o FILE`` wrote.

    The metrics are perf's ``TopdownL1`` on Intel and ``PipelineL1`` on AMD: the last two fields of
    a line are a metric's value and its unit and name. Of a processor with cores of two kinds, the
    lines without a value are of cores that did not run.

    Returns:
        ``kind`` and ``share``, from 0 to 1.

    Raises:
        FathomError: the file cannot be read, or has not the four kinds.
    """
    found: dict[str, float] = {}
    for line in read_file(path).decode(errors="replace").splitlines():
        metric = re.search(r"([\d.]+),%\s+(?:tma_)?(\w+)$", line.rstrip(","))
        if metric and metric[2] in KINDS:
            found.setdefault(metric[2], float(metric[1]) / 100)
    if found.keys() != KINDS.keys():
        missing = ", ".join(sorted(KINDS.keys() - found.keys()))
        raise FathomError(f"{path} has no {missing}: perf stat -M TopdownL1 -x, -o FILE ...")
    return pd.DataFrame({"kind": KINDS.values(), "share": [found[name] for name in KINDS]})
