"""Runs two variants in turn, each run in a new process: ``fathom compare --interleave``.

A variant is a shell command that ends with a run of Fathom, such as ``TF_ENABLE_ONEDNN_OPTS=0
python -m fathom.autoenc --train`` or ``cd ../other && python -m fathom.autoenc --train``.
"""

import itertools
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from rich.console import Console

from fathom.errors import FathomError
from fathom.measure.report.pairs import FEWEST_PAIRS, Ratio, ratio
from fathom.results.records import RunResult
from fathom.system.files import atomic_write
from fathom.system.processes import run_shell

RUNS = "runs.csv"


@dataclass(frozen=True)
class VariantRun:
    """One run of a variant."""

    variant: str  # ``A`` or ``B``
    pair: int  # its number, from 1
    result: RunResult  # as the run wrote it
    wall_s: float  # seconds from the start to the end of the process


@dataclass
class Interleaving:
    """Two variants measured in turn, A B B A ..., so that neither profits from a slow change."""

    commands: Mapping[str, str]  # of ``A`` and ``B``
    out: Path  # folder for all results, logs and the table of the runs, written as it goes
    runs: list[VariantRun] = field(default_factory=list)  # those done so far

    def measure(self, width: float, budget_s: float, screen: Console) -> None:
        """Measures pairs until the interval of the ratio is narrow or the time is over.

        Args:
            width: of the interval, relative to the ratio.
            budget_s: no run lasts beyond this time, in seconds; no pair begins that would.
            screen: for a line per run.

        Raises:
            FathomError: a variant failed, the variants are not of one workload and mode, or the
                budget ended before the first pair.
        """
        end = time.monotonic() + budget_s
        for pair in itertools.count(1):
            left = end - time.monotonic()
            if pair > 1 and left < self.pair_seconds:
                screen.print("the time budget is used up")
                return
            for variant in "AB" if pair % 2 else "BA":
                label = f"pair {pair}, {variant}"
                try:
                    with screen.status(label, refresh_per_second=1):  # a fast one would disturb
                        run = self._run(variant, pair, end - time.monotonic())
                except TimeoutError:
                    self._refuse_small_budget(variant, budget_s)
                    screen.print(f"{label}: stopped, the time budget is used up")
                    return
                self._keep(run)
                seconds = f"{1e3 * run.result.steps.median:,.3f} ms in {run.wall_s:.1f} s"
                screen.print(f"{label}: {seconds}{self._state(width)}")
            found = self.ratio()
            if found and found.is_narrow(width):
                return

    def seconds(self, variant: str) -> list[float]:
        """Returns the median step time of a variant's run in each complete pair, in seconds."""
        pairs = len(self.runs) // 2
        medians = {run.pair: run.result.steps.median for run in self.runs if run.variant == variant}
        return [medians[pair] for pair in range(1, pairs + 1)]

    def ratio(self) -> Ratio | None:
        """Returns the ratio from the complete pairs; None if there are none."""
        return ratio(self.seconds("A"), self.seconds("B")) if len(self.runs) >= 2 else None

    @property
    def pair_seconds(self) -> float:
        """Mean time of a pair, in seconds."""
        return 2 * sum(run.wall_s for run in self.runs) / len(self.runs)

    def _run(self, variant: str, pair: int, limit_s: float) -> VariantRun:
        """Makes one run; raises FathomError if it is of no use, TimeoutError if it did not end."""
        name = f"{pair:03}-{variant}"
        file = self.out.absolute() / f"{name}.json"  # a variant may change its folder
        file.unlink(missing_ok=True)  # of a comparison that failed at once
        command = f"{self.commands[variant]} --json {shlex.quote(str(file))}"
        started = time.monotonic()
        failure = run_shell(command, self.out / f"{name}.log", limit_s)
        wall_s = time.monotonic() - started
        if failure:
            raise FathomError(f"{variant} failed: {failure}")
        if not file.exists():
            raise FathomError(
                f"{variant} wrote no result: a variant ends with a run of Fathom, as python -m "
                "fathom.autoenc --train"
            )
        result = RunResult.read(file)
        if not result.steps.measurements:
            raise FathomError(f"{variant} measured no steps: give it more --steps")
        for other in self.runs:
            if (result.workload, result.mode) != (other.result.workload, other.result.mode):
                raise FathomError(
                    f"{variant} is {result.workload} {result.mode}, {other.variant} "
                    f"{other.result.workload} {other.result.mode}: compare variants of one "
                    "workload and mode"
                )
        return VariantRun(variant, pair, result, wall_s)

    def _refuse_small_budget(self, variant: str, budget_s: float) -> None:
        """Raises FathomError if there is no complete pair yet."""
        if len(self.runs) >= 2:
            return
        took = f"{self.runs[0].variant} took {self.runs[0].wall_s:.1f} s, " if self.runs else ""
        raise FathomError(
            f"the budget of {budget_s / 60:g} min is too small for one pair: {took}{variant} had "
            "not ended; give a larger --budget or the variants fewer --steps"
        )

    def _keep(self, run: VariantRun) -> None:
        """Adds a run, and writes the table of the runs again."""
        self.runs.append(run)
        table = pd.DataFrame(
            {
                "pair": each.pair,
                "variant": each.variant,
                "median_s": each.result.steps.median,
                "cpu_share": each.result.cpu_share,
                "involuntary_switches": each.result.processor.involuntary_switches,
                "wall_s": each.wall_s,
                "file": f"{each.pair:03}-{each.variant}.json",
                "command": self.commands[each.variant],
            }
            for each in self.runs
        )
        with atomic_write(self.out / RUNS) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")

    def _state(self, width: float) -> str:
        """Returns the ratio so far and the estimated time left; empty within a pair."""
        found = self.ratio()
        if found is None or len(self.runs) % 2:
            return ""
        known = found.pairs >= FEWEST_PAIRS
        interval = f" (95 %: {found.low:.3f} to {found.high:.3f})" if known else ""
        left = max(found.pairs_needed(width) - found.pairs, 0)
        minutes = left * self.pair_seconds / 60
        least = "" if known else "at least "
        return f"; B/A {found.value:.3f}{interval}; pairs left: {least}{left}, {minutes:.0f} min"
