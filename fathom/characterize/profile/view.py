"""What ``fathom profile`` prints."""

import numpy as np
from rich.console import Console
from rich.table import Table

from fathom.characterize.profile import ops, tables
from fathom.results.profile import PHASES, Profile

_SHOWN_SHARE = 0.99  # of the op time: what is left has one row
_MOST_ROWS = 20


def show(profile: Profile, screen: Console) -> None:
    """Prints a profile: step times, op types, layers, phases and the time outside ops."""
    _show_steps(profile, screen)
    screen.print(_op_table(profile))
    screen.print(_layer_table(profile))
    unknown = [row.type for row in tables.op_rows(profile) if not row.op_class]
    if unknown:
        screen.print(f"op types without a class: {', '.join(unknown)}")


def _show_steps(profile: Profile, screen: Console) -> None:
    kind = "training" if profile.mode == "train" else "inference"
    threads = f"{profile.threads} thread{'s' if profile.threads > 1 else ''}"
    screen.print(
        f"{profile.workload} {kind}: batch {profile.batch_size}, {profile.precision}, "
        f"{profile.device}, {threads}; {profile.steps} steps"
    )
    screen.print(
        f"step: median {_ms(np.median(profile.unprofiled_step_seconds))} ms; with the profiler "
        f"{_ms(np.median(profile.step_seconds))} ms ({profile.overhead:+.1%})"
    )
    if len(profile.compiled_step_seconds):
        screen.print(
            "this is the step op by op; a run has it compiled by XLA: median "
            f"{_ms(np.median(profile.compiled_step_seconds))} ms"
        )
    phases = {phase: time for (phase,), time in profile.seconds_by("phase").items()}
    total = sum(phases.values())
    shares = [f"{phase} {phases[phase] / total:.1%}" for phase in PHASES if phase in phases]
    screen.print(f"op time: {_ms(total)} ms a step: {', '.join(shares)}")
    screen.print(f"outside ops: {profile.outside_share:.1%} of the step")
    if profile.gpu:
        screen.print(
            f"GPU, {profile.steps} steps: kernels {_ms(profile.gpu.kernel_seconds)} ms, copies "
            f"{_ms(profile.gpu.memcpy_seconds)} ms, API calls {_ms(profile.gpu.api_seconds)} ms"
        )


def _op_table(profile: Profile) -> Table:
    """Returns the op types, the heaviest first, those of the last percent in one row."""
    table = Table(box=None, header_style="bold", title="op types", title_justify="left")
    table.add_column("type")
    table.add_column("class")
    for title in ("ms/step", "share", "total", "calls/step"):
        table.add_column(title, justify="right")
    table.add_column("kernels")
    rows = tables.op_rows(profile)
    shown = _rows_to_show([row.share for row in rows])
    for row in rows[:shown]:
        table.add_row(
            row.type,
            f"{row.op_class} {ops.CLASSES[row.op_class]}" if row.op_class else "-",
            _ms(row.seconds),
            f"{row.share:.1%}",
            f"{row.cumulative_share:.1%}",
            f"{row.count:,.0f}",
            ", ".join(row.kernels),
        )
    if rest := rows[shown:]:
        seconds, share = sum(row.seconds for row in rest), sum(row.share for row in rest)
        count = sum(row.count for row in rest)
        table.add_row(
            f"{len(rest)} others", "", _ms(seconds), f"{share:.1%}", "100.0%", f"{count:,.0f}", ""
        )
    return table


def _layer_table(profile: Profile) -> Table:
    """Returns the layers, the heaviest first, those of the last percent in one row."""
    table = Table(box=None, header_style="bold", title="layers", title_justify="left")
    table.add_column("layer")
    rows = tables.layer_rows(profile)
    phases = [phase for phase in PHASES if any(row.seconds[phase] for row in rows)]
    for title in (*(f"{phase} ms" for phase in phases), "share"):
        table.add_column(title, justify="right")
    shown = _rows_to_show([row.share for row in rows])
    for row in rows[:shown]:
        table.add_row(row.layer, *(_ms(row.seconds[p]) for p in phases), f"{row.share:.1%}")
    if rest := rows[shown:]:
        seconds = [sum(row.seconds[phase] for row in rest) for phase in phases]
        share = sum(row.share for row in rest)
        table.add_row(f"{len(rest)} others", *map(_ms, seconds), f"{share:.1%}")
    return table


def _rows_to_show(shares: list[float]) -> int:
    """Returns how many of the rows, sorted, make up what is shown one by one."""
    enough = int(np.searchsorted(np.cumsum(shares), _SHOWN_SHARE)) + 1
    return min(enough, _MOST_ROWS, len(shares))


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.3f}"
