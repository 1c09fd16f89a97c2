"""Times of whole runs and of their steps: Fathom's Figure 5, Minsky's Table 2 and Figure 4."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fathom.characterize.report import published
from fathom.characterize.report.analyses.table import Table
from fathom.results.characterization import Run

CASES = (("train", "cpu"), ("infer", "cpu"), ("train", "gpu"), ("infer", "gpu"))
SECTIONS = ("init", "setup", "run", "main", "wall")
# Those of a result that make up main; deepq's others are parts of its run.
_OUR_SECTIONS = ("init", "load", "setup", "run", "evaluate")


def device_kind(device: str) -> str:
    """Returns ``cpu`` or ``gpu`` of a TensorFlow device."""
    return "gpu" if "gpu" in device.lower() else "cpu"


@dataclass(frozen=True)
class Modes:
    """Figure 5: training and inference, on the CPU and on the GPU.

    Attributes:
        workloads: names.
        seconds: median time of a step, of a batch of the stated cost where batches vary in length,
            float64 [workloads, 4] in the order of ``CASES``; NaN where it was not measured.
        batch_sizes: examples a step of the same, int64 [workloads, 4]; 0 where not measured.
    """

    workloads: tuple[str, ...]
    seconds: np.ndarray
    batch_sizes: np.ndarray

    @property
    def normalised(self) -> np.ndarray:
        """Step time over that of training on the CPU, float64 [workloads, 4]."""
        return self.seconds / self.seconds[:, :1]

    @property
    def on_gpu(self) -> bool:
        """Whether any run was on a GPU."""
        return bool(np.isfinite(self.seconds[:, 2:]).any())

    def missing(self) -> list[tuple[str, str]]:
        """Returns the workloads and modes that were not measured on the CPU."""
        return [
            (self.workloads[i], CASES[j][0]) for i, j in np.argwhere(np.isnan(self.seconds[:, :2]))
        ]

    def table(self) -> Table:
        """Returns one row a workload and case: what the figure is drawn from."""
        return Table.of(
            {
                "workload": workload,
                "mode": mode,
                "device": device,
                "batch size": int(self.batch_sizes[i, j]) or None,
                "median step (s)": float(self.seconds[i, j]),
                "over CPU training": float(self.normalised[i, j]),
            }
            for i, workload in enumerate(self.workloads)
            for j, (mode, device) in enumerate(CASES)
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        ratios = 1 / self.normalised[:, 1]
        known = [
            f"{name} {ratio:.1f}"
            for name, ratio in zip(self.workloads, ratios, strict=True)
            if not np.isnan(ratio)
        ]
        return (
            f"On the CPU a training step takes this many times an inference step: "
            f"{', '.join(known) or 'not measured'}."
        )


def modes(runs: Iterable[Run]) -> Modes:
    """Sorts the step times of timing runs into the four cases; of equal runs the first counts."""
    of_case: dict[str, dict[tuple[str, str], Run]] = {}
    for run in runs:
        if run.result.steps.measurements:
            cases = of_case.setdefault(run.workload, {})
            cases.setdefault((run.mode, device_kind(run.device)), run)
    shape = (len(of_case), len(CASES))
    seconds, batch_sizes = np.full(shape, np.nan), np.zeros(shape, np.int64)
    for i, cases in enumerate(of_case.values()):
        for j, case in enumerate(CASES):
            if case in cases:
                result = cases[case].result
                seconds[i, j] = 1 / result.steps.work_per_second
                batch_sizes[i, j] = result.hyperparameters.batch_size
    return Modes(tuple(of_case), seconds, batch_sizes)


@dataclass(frozen=True)
class SectionTimes:
    """Table 2 of the Minsky paper: sections of training runs over the CPU-only wall time.

    ``init`` is construction and the loading of the data, ``main`` everything but the start of the
    interpreter and of the framework, ``wall`` measured from outside the process.

    Attributes:
        rows: (workload, ``cpu`` or ``gpu``).
        shares: float64 [rows, 5] in the order of ``SECTIONS``.
        wall_seconds: float64 [rows].
        paper: the paper's shares likewise; NaN where it has none.
    """

    rows: tuple[tuple[str, str], ...]
    shares: np.ndarray
    wall_seconds: np.ndarray
    paper: np.ndarray

    def table(self) -> Table:
        """Returns one row a workload and device, ours and the paper's after each other."""
        rows = []
        for i, (workload, device) in enumerate(self.rows):
            ours = (*self.shares[i].tolist(), float(self.wall_seconds[i]))
            rows.append((workload, device, "measured", *ours))
            if not np.isnan(self.paper[i]).any():
                rows.append((workload, device, "paper", *self.paper[i].tolist(), None))
        return Table(("workload", "device", "", *SECTIONS, "wall (s)"), tuple(rows))

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        starts = [
            f"{workload} {1 - share[SECTIONS.index('main')]:.0%}"
            for (workload, device), share in zip(self.rows, self.shares, strict=True)
            if device == "cpu"
        ]
        return (
            "Share of the wall time before and after main, mostly the start of Python and "
            f"TensorFlow, on the CPU: {', '.join(starts)}."
        )


def sections(runs: Iterable[Run]) -> SectionTimes:
    """Puts training runs' sections over the wall time of the same workload on the CPU.

    Args:
        runs: timing runs that are done; of equal ones the first counts, those of a workload without
            a training run on the CPU are left out.
    """
    training: dict[tuple[str, str], Run] = {}
    for run in runs:
        if run.mode == "train":
            training.setdefault((run.workload, device_kind(run.device)), run)
    rows = sorted(
        (row for row in training if (row[0], "cpu") in training),
        key=lambda row: (list(training).index((row[0], "cpu")), row[1]),
    )
    paper_table = published.sections()
    shares, paper = [], []
    for workload, device in rows:
        seconds = _section_seconds(training[workload, device])
        shares.append([s / training[workload, "cpu"].wall_s for s in seconds.values()])
        theirs = paper_table.get((workload, "cpu" if device == "cpu" else "cpu+gpu"), {})
        paper.append([theirs.get(name, np.nan) for name in SECTIONS])
    return SectionTimes(
        rows=tuple(rows),
        shares=np.array(shares).reshape(-1, len(SECTIONS)),
        wall_seconds=np.array([training[row].wall_s for row in rows]),
        paper=np.array(paper).reshape(-1, len(SECTIONS)),
    )


def _section_seconds(run: Run) -> dict[str, float]:
    """Returns the seconds of the Minsky paper's sections, in the order of ``SECTIONS``."""
    ours = run.result.sections
    inside = {name: getattr(ours, name) or 0.0 for name in _OUR_SECTIONS}
    return {
        "init": inside["init"] + inside["load"],
        "setup": inside["setup"],
        "run": inside["run"],
        "main": sum(inside.values()),
        "wall": run.wall_s,
    }


@dataclass(frozen=True)
class Repeats:
    """The wall times of equal runs.

    Attributes:
        workload, mode, device: what ran; the device is ``cpu`` or ``gpu``.
        wall_seconds: float64 [runs], measured from outside.
        normalised: the same over the mean on the CPU, float64 [runs]; NaN without one.
    """

    workload: str
    mode: str
    device: str
    wall_seconds: np.ndarray
    normalised: np.ndarray

    @property
    def variation(self) -> float:
        """Coefficient of variation: standard deviation over mean."""
        return float(self.wall_seconds.std(ddof=1) / self.wall_seconds.mean())


@dataclass(frozen=True)
class Spread:
    """Figure 4 of the Minsky paper: the spread of whole runs, warm-up runs left out."""

    repeats: tuple[Repeats, ...]

    def table(self) -> Table:
        """Returns one row a workload, mode and device."""
        return Table.of(
            {
                "workload": each.workload,
                "mode": each.mode,
                "device": each.device,
                "runs": len(each.wall_seconds),
                "mean (s)": float(each.wall_seconds.mean()),
                "median (s)": float(np.median(each.wall_seconds)),
                "least (s)": float(each.wall_seconds.min()),
                "most (s)": float(each.wall_seconds.max()),
                "variation": each.variation,
            }
            for each in self.repeats
        )

    def runs_table(self) -> Table:
        """Returns one row a run: what the figure is drawn from."""
        return Table.of(
            {
                "workload": each.workload,
                "mode": each.mode,
                "device": each.device,
                "run": number + 1,
                "wall (s)": float(seconds),
                "over the CPU's mean": float(each.normalised[number]),
            }
            for each in self.repeats
            for number, seconds in enumerate(each.wall_seconds)
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        most = max(self.repeats, key=lambda each: each.variation)
        return (
            f"The coefficient of variation of whole runs is at most {most.variation:.1%} "
            f"({most.workload}, {most.mode}, {most.device})."
        )


def spread(runs: Iterable[Run]) -> Spread:
    """Collects the wall times of equal runs.

    Args:
        runs: timing runs that are done, without warm-up runs; what ran once is left out.
    """
    walls: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        walls.setdefault((run.workload, run.mode, device_kind(run.device)), []).append(run.wall_s)
    repeats = []
    for (workload, mode, device), seconds in walls.items():
        if len(seconds) > 1:
            on_cpu = np.mean(walls.get((workload, mode, "cpu"), [np.nan]))
            seconds = np.array(seconds)
            repeats.append(Repeats(workload, mode, device, seconds, seconds / on_cpu))
    return Spread(tuple(repeats))
