"""The sections of a report: each analysis of a folder, with its figure, tables and gaps."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import analyses, figures, selection
from fathom.characterize.report.analyses import Table
from fathom.results.characterization import Run
from fathom.results.profile import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAR = 0.1  # cosine distance to the paper's row from which the report says op by op why


@dataclass(frozen=True)
class Section:
    """One analysis, as the report shows it.

    Attributes:
        id: of the analysis; ``texts.TEXTS`` has its words.
        summary: a sentence of what was found; ``""`` where nothing could be analysed.
        figure: None where there is nothing to draw.
        data: what the figure is drawn from.
        tables: other tables, by a name for their file.
        gaps: what is missing and why, a sentence each.
    """

    id: str
    summary: str = ""
    figure: "Figure | None" = None
    data: Table | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()


def analyse(folder: Folder) -> list[Section]:
    """Returns every analysis of a folder, in the order of the report."""
    return [analysis(folder) for analysis in _ANALYSES]


def _stationarity(folder: Folder) -> Section:
    profiles, gaps = _profiles(folder)
    result = analyses.stationarity(profiles)
    if not result.series:
        return Section("F1", gaps=gaps)
    figure = figures.stationarity(result)
    tables = {"op_types": result.table()}
    return Section("F1", result.summary(), figure, result.steps_table(), tables, gaps)


def _dominance(folder: Folder) -> Section:
    profiles, gaps = _profiles(folder)
    result = analyses.dominance(profiles)
    if not result.curves:
        return Section("F2", gaps=gaps)
    figure = figures.dominance(result)
    return Section(
        "F2", result.summary(), figure, result.ranks_table(), {"workloads": result.table()}, gaps
    )


def _breakdown(folder: Folder) -> Section:
    profiles, gaps = _profiles(folder)
    if not profiles:
        return Section("F3", gaps=gaps)
    result = analyses.breakdown(profiles)
    tables = {"classes": result.classes_table()}
    for profile, distance in zip(profiles, result.distances, strict=True):
        if distance > FAR:
            tables[f"differences_{profile.workload}"] = analyses.differences(profile).table()
    figure = figures.breakdown(result)
    summary = f"{result.summary()}{_other_batches(folder)}{_uncompiled(profiles)}"
    return Section("F3", summary, figure, result.table(), tables, gaps)


def _similarity(folder: Folder) -> Section:
    profiles, gaps = _profiles(folder)
    if len(profiles) < 2:
        return Section("F4", gaps=(*gaps, "it takes two workloads"))
    result = analyses.similarity(profiles)
    published = analyses.published_similarity()
    figure = figures.similarity(result, published)
    tables = {
        "distances": result.distances_table(),
        "paper_merges": published.table(),
        "paper_distances": published.distances_table(),
    }
    return Section("F4", result.summary(), figure, result.table(), tables, gaps)


def _modes(folder: Folder) -> Section:
    result = analyses.modes(selection.timing_runs(folder, "modes"))
    gaps = selection.gaps(folder, result.workloads, _of("modes"))
    failed = {(run.workload, run.mode) for run in folder.failed}
    gaps += [
        f"{workload} {mode} on the CPU: not measured"
        for workload, mode in result.missing()
        if (workload, mode) not in failed
    ]
    if not result.on_gpu:
        gaps.append("GPU: no runs on one in this folder")
    if not result.workloads:
        return Section("F5", gaps=tuple(gaps))
    return Section("F5", result.summary(), figures.modes(result), result.table(), gaps=tuple(gaps))


def _parallelism(folder: Folder) -> Section:
    result = analyses.parallelism(selection.thread_profiles(folder))
    there = [each.workload for each in result.workloads]
    one = "profiled with one number of threads alone"
    gaps = tuple(selection.gaps(folder, there, selection.is_profile, one))
    if not there:
        return Section("F6", gaps=(*gaps, "it takes profiles with two numbers of threads"))
    figure = figures.parallelism(result)
    return Section("F6", result.summary(), figure, result.table(), gaps=gaps)


def _outside(folder: Folder) -> Section:
    profiles, gaps = _profiles(folder)
    if not profiles:
        return Section("V-A", gaps=gaps)
    result = analyses.outside(profiles)
    figure = figures.outside(result)
    summary = f"{result.summary()}{_uncompiled(profiles)}"
    return Section("V-A", summary, figure, result.table(), gaps=gaps)


def _sections(folder: Folder) -> Section:
    result = analyses.sections(selection.timing_runs(folder, "modes"))
    there = [workload for workload, _ in result.rows]
    gaps = tuple(selection.gaps(folder, there, _of("modes")))
    if not there:
        return Section("M-sections", gaps=gaps)
    figure = figures.sections(result)
    return Section("M-sections", result.summary(), figure, result.table(), gaps=gaps)


def _efficiency(folder: Folder) -> Section:
    result = analyses.efficiency(selection.timing_runs(folder, "cores"))
    there = [each.workload for each in result.workloads]
    one = "not timed on one core and on more"
    gaps = tuple(selection.gaps(folder, there, _of("cores"), one))
    if not there:
        return Section("M-eff", gaps=(*gaps, "it takes runs on one core and on more"))
    figure = figures.efficiency(result)
    return Section("M-eff", result.summary(), figure, result.table(), gaps=gaps)


def _spread(folder: Folder) -> Section:
    result = analyses.spread(selection.timing_runs(folder, "repeats"))
    there = [each.workload for each in result.repeats]
    gaps = tuple(selection.gaps(folder, there, _of("repeats"), "trained once alone"))
    if not there:
        return Section("M-var", gaps=(*gaps, "it takes two equal runs"))
    figure = figures.spread(result)
    return Section(
        "M-var", result.summary(), figure, result.runs_table(), {"spread": result.table()}, gaps
    )


def _gpu(folder: Folder) -> Section:
    result = analyses.gpu_use(selection.training_profiles(folder, "gpu"))
    gaps = ["no profile was taken on a GPU"]
    if result.measured:
        gaps = selection.gaps(folder, result.measured, selection.is_gpu_profile)
    figure = figures.gpu_use(result)
    return Section("M-gpu", result.summary(), figure, result.table(), gaps=tuple(gaps))


def _layers(folder: Folder) -> Section:
    profiles, gaps = _profiles(folder)
    result = analyses.layers(profiles)
    if not result.workloads:
        return Section("layers", gaps=gaps)
    figure = figures.layers(result)
    return Section(
        "layers", result.summary(), figure, result.table(), {"phases": result.phases_table()}, gaps
    )


def _cost(folder: Folder) -> Section:
    result = analyses.efforts(selection.timing_runs(folder, "modes"), folder.machine)
    there = [work.workload for work in result.works]
    gaps = tuple(selection.gaps(folder, there, _of("modes")))
    works = [work for p in selection.training_profiles(folder) for work in analyses.layer_work(p)]
    tables = {"layers": analyses.layer_work_table(works)} if works else {}
    if not there:
        return Section("cost", tables=tables, gaps=gaps)
    figure = figures.efforts(result)
    return Section("cost", result.summary(), figure, result.table(), tables, gaps)


_ANALYSES: tuple[Callable[[Folder], Section], ...] = (
    *(_stationarity, _dominance, _breakdown, _similarity, _modes, _parallelism, _outside),
    *(_sections, _efficiency, _spread, _gpu, _layers, _cost),
)


def _profiles(folder: Folder) -> tuple[list[Profile], tuple[str, ...]]:
    """Returns the training profiles on the CPU and which of the eight workloads have none."""
    profiles = selection.training_profiles(folder)
    there = [profile.workload for profile in profiles]
    no_time = "profiled, but its ops took no time"
    return profiles, tuple(selection.gaps(folder, there, selection.is_profile, no_time))


def _other_batches(folder: Folder) -> str:
    """Says which profiles are of another batch size than the workload's own."""
    other = {
        run.workload: run.batch_size
        for run in folder.runs
        if selection.is_profile(run) and run.batch_size is not None
    }
    sizes = ", ".join(f"{workload} {size}" for workload, size in other.items())
    return f" Not the workload's own batch size, on which shares depend: {sizes}." if other else ""


def _uncompiled(profiles: Iterable[Profile]) -> str:
    """Says which profiles are of another step than the workload runs by itself."""
    return "".join(
        f" {profile.workload} runs a step that XLA compiles whole: "
        f"{1e3 * np.median(profile.compiled_step_seconds):.2f} ms; the profile is of its ops one "
        f"by one, {1e3 * np.median(profile.unprofiled_step_seconds):.2f} ms."
        for profile in profiles
        if len(profile.compiled_step_seconds)
    )


def _of(purpose: str) -> Callable[[Run], bool]:
    return lambda run: run.kind == "timing" and purpose in run.purpose
