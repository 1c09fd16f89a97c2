"""The output of ``fathom profile``."""

from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from fathom.hardware.description import ops
from fathom.measure import frames
from fathom.measure.profile import conclusions, tables
from fathom.results.profile import PHASES, Profile
from fathom.system.words import counted

_SHOWN_SHARE = 0.99  # of the op time: the rest has one row
_MOST_ROWS = 20
_ROUNDING = 1e-3  # of op times: the sum of many small ones


def show(profile: Profile, screen: Console) -> None:
    """Prints a profile: step times, op types, layers, phases and the time outside ops."""
    frame = frames.profile_ops(profile)
    op_types = tables.op_types(frame)
    _show_steps(profile, frame, screen)
    screen.print(_op_table(op_types))
    screen.print(_layer_table(tables.layers(frame)))
    if _split(op_types)[0].dominated.any():
        cost = 1e6 * (profile.tracing_seconds_per_op or 0.0)
        screen.print(f"* shorter than the cost of tracing an op, {cost:.2f} us: do not rely on it")
    unknown = op_types.type[op_types["class"] == ""]
    if len(unknown):
        screen.print(f"op types without a class: {', '.join(unknown)}")
    for sentence in conclusions.sentences(profile):
        screen.print(sentence)


def _show_steps(profile: Profile, frame: pd.DataFrame, screen: Console) -> None:
    kind = "training" if profile.mode == "train" else "inference"
    count = profile.environment.microbatches
    divided = f" in {count} microbatches" if count > 1 else ""
    screen.print(
        f"{profile.workload} {kind}: batch {profile.batch_size}{divided}, {profile.precision}, "
        f"{profile.device}, {_threads(profile)}; {counted(profile.steps, 'step')}"
    )
    profiled = f"{_ms(profile.step_seconds.mean())} ms with"
    if len(profile.unprofiled_step_seconds):
        plain = f"{_ms(profile.unprofiled_step_seconds.mean())} ms without the profiler"
        screen.print(f"step: mean {plain}, {profiled} it; {_overhead(profile)}")
    else:  # an older file
        screen.print(f"step: mean {profiled} the profiler")
    if profile.disturbed:
        screen.print(
            f"other processes took the processor: the steps had it {profile.cpu_share:.0%} of "
            "their time: profile again"
        )
    if len(profile.compiled_step_seconds):
        screen.print(
            "this is the step op by op; whole batches compiled by XLA take: mean "
            f"{_ms(profile.compiled_step_seconds.mean())} ms"
        )
    phases = frame.groupby("phase").seconds.sum() / profile.steps
    total, outside = phases.sum(), profile.outside_seconds.mean()
    shares = [f"{phase} {phases[phase] / total:.1%}" for phase in PHASES if phase in phases]
    screen.print(f"with it: ops {_ms(total)} ms: {', '.join(shares)}")
    at_once = total + outside - profile.step_seconds.mean()
    overlap = f"; ops ran at once for {_ms(at_once)} ms" if at_once > _ROUNDING * total else ""
    screen.print(
        f"outside ops: {_ms(outside)} ms, {profile.outside_share:.1%} of the step{overlap}"
    )
    if profile.life:
        windows = counted(len(set(profile.life.windows)), "window")
        traced = counted(len(profile.life.numbers), "step")
        screen.print(f"{windows}, {traced}, over {counted(profile.life.run_steps, 'step')}")
    whole = profile.gpu and profile.gpu.process
    steps = counted(profile.steps, "step")
    for when, used in ((steps, profile.gpu), ("from the set-up on", whole)):
        if used:
            calls = used.api_seconds
            api = "not recorded" if calls is None else f"{_ms(calls)} ms"
            screen.print(
                f"GPU, {when}: kernels {_ms(used.kernel_seconds)} ms, copies "
                f"{_ms(used.memcpy_seconds)} ms, API calls {api}"
            )


def _overhead(profile: Profile) -> str:
    """Returns the profiler's overhead in words."""
    added, pairs = frames.overhead(profile), len(profile.traced_step_seconds)
    if not added.known:
        return f"the profiler's overhead {added.value:+.1%}"
    limits = f"95 % interval {added.low:+.1%} to {added.high:+.1%}, {pairs} pairs of steps"
    if added.high < 0:
        return f"the profiler's overhead is too small to be measured ({limits})"
    return f"the profiler's overhead {added.value:+.1%}, {limits}"


def _threads(profile: Profile) -> str:
    """Returns the thread pools in words: a run's own choice differs from a profile's."""
    if profile.threads == 1:
        return "1 thread"
    at_once = profile.environment.inter_op_threads
    together = "one operation at a time" if at_once == 1 else f"{at_once} operations at once"
    return f"{profile.threads} threads, {together}"


def _op_table(rows: pd.DataFrame) -> Table:
    """Returns the op types in decreasing order of time, the last percent in one row."""
    numbers = ["ms/step", "share", "total", "calls/step"]
    table = new_table("op types", ["type", "class", *numbers, "kernels"], numbers)
    shown, rest = _split(rows)
    for row in shown.rename(columns={"class": "letter"}).itertuples():
        table.add_row(
            f"{row.type}{' *' * row.dominated}",
            f"{row.letter} {ops.CLASSES[row.letter]}" if row.letter else "-",
            _ms(row.seconds),
            f"{row.share:.1%}",
            f"{row.cumulative_share:.1%}",
            f"{row.count:,.0f}",
            row.kernels.replace(" ", ", "),
        )
    if len(rest):
        sums = rest[["seconds", "share", "count"]].sum()
        share, count = f"{sums['share']:.1%}", f"{sums['count']:,.0f}"
        table.add_row(f"{len(rest)} others", "", _ms(sums.seconds), share, "100.0%", count, "")
    return table


def _layer_table(rows: pd.DataFrame) -> Table:
    """Returns the layers in decreasing order of time, the last percent in one row."""
    phases = [phase for phase in PHASES if rows[phase].any()]
    numbers = [*(f"{phase} ms" for phase in phases), "share"]
    table = new_table("layers", ["layer", *numbers], numbers)
    shown, rest = _split(rows)
    for row in shown.to_dict("records"):
        table.add_row(row["layer"], *(_ms(row[p]) for p in phases), f"{row['share']:.1%}")
    if len(rest):
        times = map(_ms, rest[phases].sum())
        table.add_row(f"{len(rest)} others", *times, f"{rest.share.sum():.1%}")
    return table


def new_table(title: str, names: Iterable[str], numbers: Collection[str]) -> Table:
    """Returns an empty table, in which the columns of ``numbers`` are aligned on the right."""
    table = Table(box=None, header_style="bold", title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="right" if name in numbers else "left")
    return table


def _split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Splits sorted rows into those shown individually and the others."""
    enough = int(np.searchsorted(rows.share.cumsum(), _SHOWN_SHARE)) + 1
    shown = min(enough, _MOST_ROWS, len(rows))
    return rows[:shown], rows[shown:]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.3f}"
