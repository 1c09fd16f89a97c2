"""Selection of a folder's runs for analyses, and reasons for missing workloads."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from fathom import workloads
from fathom.measure.report import published
from fathom.measure.runs.folder import Folder
from fathom.system.words import counted

UNCOUNTED = "no step was counted"  # of a timing that was done


@functools.cache
def order() -> tuple[str, ...]:
    """Returns the workloads in the order of the papers' figures, then the registered ones."""
    return tuple(dict.fromkeys([*published.breakdown().index, *workloads.names()]))


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Stably sorts rows by workload in that order, unknown ones last."""
    place = {name: i for i, name in enumerate(dict.fromkeys([*order(), *frame.workload]))}
    return frame.sort_values("workload", key=lambda names: names.map(place), kind="stable")


def profile_runs(folder: Folder, on: str = "cpu") -> pd.DataFrame:
    """Returns the profiles of training on a CPU or a GPU, failed ones too."""
    runs = folder.runs_frame()
    return runs[(runs.kind == "profile") & (runs["mode"] == "train") & (runs.on == on)]


def timing_runs(folder: Folder, purpose: str) -> pd.DataFrame:
    """Returns the timings of one set in docs/characterization.md, failed ones too."""
    runs = folder.runs_frame()
    return runs[(runs.kind == "timing") & runs.purpose.map(lambda each: purpose in each)]


def profiles(folder: Folder, on: str = "cpu") -> pd.DataFrame:
    """Returns the training profiles, those with the fewest threads first."""
    runs = profile_runs(folder, on)
    there = runs[runs.op_s > 0]  # no shares without op time
    return in_order(there.sort_values("threads", kind="stable"))


def timings(folder: Folder, purpose: str) -> pd.DataFrame:
    """Returns the completed timing runs of one set."""
    runs = timing_runs(folder, purpose)
    return in_order(runs[runs.status == "done"])


def ops_of(folder: Folder, runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the op times of some runs, in order."""
    ops = folder.ops()
    place = {run: i for i, run in enumerate(runs.run)}
    there = ops[ops.run.isin(place)]
    return there.sort_values("run", key=lambda names: names.map(place), kind="stable")


def training_profiles(folder: Folder) -> pd.DataFrame:
    """Returns each workload's training profiles on the CPU with the fewest threads."""
    runs = profiles(folder)
    return runs[runs.threads == runs.groupby("workload").threads.transform("min")]


def processes(folder: Folder) -> pd.DataFrame:
    """Returns the completed timings with default threads and all cores, all processes."""
    sets = [timings(folder, purpose) for purpose in ("modes", "repeats")]
    return in_order(pd.concat(sets).drop_duplicates("run"))


def step_seconds(runs: pd.DataFrame) -> pd.Series:
    """Returns the median step of each timing, in seconds.

    Where a workload's batches vary in length it is that of a batch of the stated cost.
    """
    varies = runs.work_varies.eq(True).groupby(runs.workload).transform("any")
    return runs.median_s.astype(float).mask(varies, 1 / runs.work_per_second.astype(float))


def count(runs: pd.DataFrame) -> str:
    """Returns the number of runs, and of those that other processes disturbed."""
    disturbed = int(runs.disturbed.eq(True).sum())
    return f"{len(runs)} ({disturbed} disturbed)" if disturbed else f"{len(runs)}"


def caveats(runs: pd.DataFrame, *case: str) -> str:
    """Returns sentences on the workloads with a single run and on those with disturbed runs.

    The columns of ``case`` separate equal runs of a workload.
    """
    numbers = runs.groupby(["workload", *case], sort=False, dropna=False).size()
    single = numbers[numbers == 1].index.get_level_values("workload").unique()
    disturbed = runs.workload[runs.disturbed.eq(True)].unique()
    text = ""
    if len(single):
        everywhere = len(single) == runs.workload.nunique()
        text = f" One run, no interval{'' if everywhere else ': ' + ', '.join(single)}."
    if len(disturbed):
        text += f" Disturbed by other processes: {', '.join(disturbed)}."
    return text


def training_ops(folder: Folder) -> tuple[pd.DataFrame, list[str]]:
    """Returns the op times of ``training_profiles``, and sentences on missing data."""
    runs = training_profiles(folder)
    no_time = "profiled, but its ops took no time"
    missing = gaps(profile_runs(folder), runs.workload, no_time)
    return ops_of(folder, runs), missing


def uncompiled(folder: Folder) -> str:
    """Returns a note on workloads whose default step, unlike the profiled one, is compiled."""
    runs = training_profiles(folder).groupby("workload", sort=False)
    runs = runs[["compiled_s", "unprofiled_s"]].median().dropna(subset="compiled_s").reset_index()
    return "".join(
        f" {run.workload} runs a step that XLA compiles whole: {1e3 * run.compiled_s:.2f} ms; the "
        f"profile is of its ops one by one, {1e3 * run.unprofiled_s:.2f} ms."
        for run in runs.itertuples()
    )


def gaps(wanted: pd.DataFrame, there: Iterable[str], too_few: str) -> list[str]:
    """Returns what an analysis lacks, with reasons: failed, insufficient or missing runs.

    Args:
        wanted: the runs for the analysis, including failed ones.
        there: the workloads in the analysis.
        too_few: the reason for workloads with insufficient runs.
    """
    failed = wanted[wanted.status == "failed"]
    measured = set(wanted.workload[wanted.status == "done"])
    asked, explained = {*workloads.EIGHT, *measured}, {*there, *failed.workload}
    known = [*order(), *sorted(measured - {*order()})]  # some may not be installed here
    missing = [name for name in known if name in asked - explained]
    sentences = [f"{_case(run)}: failed ({run.reason})" for run in failed.itertuples()]
    for names, reason in (
        ([name for name in missing if name in measured], too_few),
        ([name for name in missing if name not in measured], "not measured"),
    ):
        sentences += [f"{', '.join(names)}: {reason}"] if names else []
    return list(dict.fromkeys(sentences))


def names_apart(
    cases: Sequence[tuple[str, ...]], settings: Sequence[Mapping[str, object]]
) -> list[str]:
    """Returns the workload, the first of each case, with what differs in settings of its case.

    Settings of older files are empty, and not known to differ.
    """
    each = list(zip(cases, settings, strict=True))
    names = []
    for case, own in each:
        equal = [others for other, others in each if other == case and others]
        differ = [name for name in own if any(o.get(name) != own[name] for o in equal)]
        names.append(", ".join([case[0], *(f"{name} {own[name]}" for name in differ)]))
    return names


def _case(run: Any) -> str:
    threads = ""
    if not pd.isna(run.threads):
        threads = f", {counted(run.threads, 'thread')}"
    return f"{run.workload} {run.mode}{threads}"
