"""How much the machine itself changed while two folders were measured.

The runs of a folder follow each other, so that a change of the machine from one folder to the next
looks like a difference between their programs, however alike the runs within a folder are.
"""

import math
from collections.abc import Sequence

import pandas as pd

from fathom.results.characterization import Machine

_OF_PROBES = ("cpu_model", "cpu_flags", "memory_bytes", "platform", "tensorflow", "precision")


def between(first: Machine, second: Machine) -> float:
    """Returns the change of speed that the probes of two folders show, as a logarithm.

    It is the largest ratio of two matrix products on equal threads. If processor or software
    differ, so do the probes with them: then it is the larger of the changes within the folders. The
    memory's bandwidth does not count: it varies by a quarter where no step takes longer.
    """
    ours, theirs = ([getattr(each.environment, n) for n in _OF_PROBES] for each in (first, second))
    groups = ((first, second),) if ours == theirs else ((first,), (second,))
    return max(_spread(group) for group in groups)


def _spread(machines: Sequence[Machine]) -> float:
    """Returns the logarithm of the largest ratio of equal probes."""
    rates: dict[str, list[float]] = {}
    for machine in machines:
        for threads, rate in machine.gemm_flops_per_second.items():
            probes = machine.gemm_probes.get(threads) or (rate,)
            rates.setdefault(threads, []).extend(probes)
    return max((math.log(max(each) / min(each)) for each in rates.values()), default=0.0)


def lost(runs: pd.DataFrame) -> float:
    """Returns the logarithm of time over CPU time of the most disturbed run; 0 if none was."""
    shares = runs.cpu_share[runs.disturbed.eq(True)].astype(float)
    return float(-math.log(shares.min())) if len(shares) else 0.0
