"""``fathom atlas``: machines side by side, as one page that needs nothing else."""

import itertools
import math
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from statistics import geometric_mean, median_low

import pandas as pd

from fathom.measure.frames import device_kind
from fathom.measure.report import overview, page, picture, selection, style
from fathom.options import MODES
from fathom.results.atlas import Bundle, Measured
from fathom.system.words import counted

_SAME_LOSS = 1e-2  # relative; machines round differently, and some first steps amplify it
_MODES = {"train": "Training", "infer": "Inference"}


def site(bundles: Sequence[Bundle]) -> str:
    """Returns the page as HTML, without references to other files or hosts."""
    names = _names(bundles)
    frame = _frame(bundles, names)
    links = [("machines", "the machines"), *((mode, _MODES[mode].lower()) for mode in MODES)]
    parts = [
        page.paragraph(
            f"{counted(len(bundles), 'machine')}. Each measured itself by "
            "fathom characterize, and fathom submit checked it: complete, undisturbed, with the "
            "published counts. Click a heading to sort by it."
        ),
        page.contents({"Contents": [*links, ("reproduce", "make a row again")]}),
        page.heading("machines", "The machines", 2),
        page.table(pd.DataFrame(map(_machine, bundles, names)), "machines"),
        *itertools.chain(*(_of_mode(frame, mode) for mode in MODES)),
        page.heading("losses", "The same networks", 2),
        page.paragraph(_losses(frame)),
        page.heading("reproduce", "Make a row again", 2),
        page.paragraph(
            "Each row by the command that measured it, in an environment as its machine's above."
        ),
        page.table(frame[["machine", "workload", "mode", "command"]], "commands"),
    ]
    return page.page("Fathom: an atlas of machines", parts)


def _names(bundles: Sequence[Bundle]) -> list[str]:
    """Returns a different name for each machine."""
    names = [bundle.name for bundle in bundles]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})"
        for i, name in enumerate(names)
    ]


def _machine(bundle: Bundle, name: str) -> dict[str, object]:
    has = bundle.environment
    switches = " ".join(f"{key}={value}" for key, value in has.switches.items())
    return {
        "machine": name,
        "instruction sets": " ".join(has.cpu_flags),
        "cores": has.cores_available,
        "memory (GiB)": has.memory_bytes / 2**30,
        "matrix product (GFLOP/s)": max(bundle.gemm_flops_per_second.values()) / 1e9,
        "triad (GB/s)": max(bundle.triad_bytes_per_second.values(), default=math.nan) / 1e9,
        "software": f"TensorFlow {has.tensorflow}, Python {has.python}, {has.platform}",
        "Fathom": f"{has.fathom}, source {has.source}, commit {(has.git_commit or 'none')[:12]}",
        "switches": switches or "none",
    }


def _frame(bundles: Sequence[Bundle], names: Sequence[str]) -> pd.DataFrame:
    """Returns one row per workload, mode, device and machine."""
    rows = [
        _row(row, bundle, name)
        for bundle, name in zip(bundles, names, strict=True)
        for row in bundle.rows
    ]
    order = {name: i for i, name in enumerate(selection.order())}
    return pd.DataFrame(rows).sort_values(
        "workload", key=lambda each: each.map(order).fillna(len(order)), kind="stable"
    )


def _row(row: Measured, bundle: Bundle, name: str) -> dict[str, object]:
    peak = bundle.gemm_flops_per_second.get(str(row.threads))
    return {
        "machine": name,
        "workload": row.workload,
        "mode": row.mode,
        "device": device_kind(row.device),
        "precision": row.precision,
        "batch": row.batch_size,
        "settings": _settings(row.command),
        "threads": row.threads,
        "step (ms)": 1e3 * geometric_mean(row.step_seconds),
        "from": math.nan if row.low is None else 1e3 * row.low,
        "to": math.nan if row.high is None else 1e3 * row.high,
        "processes": len(row.step_seconds),
        "examples/s": row.examples_per_second,
        "GFLOP/s": row.flops_per_second / 1e9,
        "rate over peak": row.flops_per_second / peak
        if peak and row.device.startswith("/cpu")
        else math.nan,
        "heaviest op types": ", ".join(
            f"{kind} {share:.0%}" for kind, share in [*row.op_shares.items()][:3]
        ),
        "shares": row.op_shares,
        "data": row.data,
        "seed": row.seed,
        "first loss": math.nan if row.first_loss is None else row.first_loss,
        "command": row.command,
    }


def _settings(command: str) -> str:
    """Returns the hyperparameters that a command sets."""
    words = shlex.split(command)
    return " ".join(word.removeprefix("--set=") for word in words if word.startswith("--set="))


def _of_mode(frame: pd.DataFrame, mode: str) -> Iterator[str]:
    """Yields the part of training or inference."""
    rows = frame[frame["mode"] == mode]
    yield page.heading(mode, _MODES[mode], 2)
    if rows.empty:
        yield page.paragraph("No machine measured it.")
        return
    machines = list(dict.fromkeys(rows.machine))
    relative = _relative(rows, machines)
    if len(relative):
        yield page.paragraph(
            f"Examples a second over those of {machines[0]}, the first machine, on the same kind "
            "of device, at the same batch, precision and settings."
        )
        yield picture.drawn(_bars(relative), f"relative-{mode}", "Relative rates by workload.")[1]
        yield page.table(relative.reset_index(), "relative rates")
    hidden = ["mode", "shares", "data", "seed", "first loss", "command"]
    hidden += [] if mode == "train" else ["heaviest op types"]
    yield page.table(rows.drop(columns=hidden), f"{_MODES[mode].lower()} by machine")
    if mode == "train":
        yield page.paragraph("Op types above 1 % of the time in ops, by machine:")
        profiled = rows[rows.shares.map(bool)]
        groups = profiled.groupby("workload", sort=False)
        yield from (_profiles(name, each) for name, each in groups)


def _relative(rows: pd.DataFrame, machines: Sequence[str]) -> pd.DataFrame:
    """Returns rates over the first machine's, [workloads by kind of device, machines].

    A case that no other machine measured is left out.
    """
    cases = ["workload", "precision", "batch", "settings"]
    on_cpu = rows.device == "cpu"
    named = rows.assign(workload=rows.workload.where(on_cpu, rows.workload + ", GPU"))
    rates = named.pivot_table("examples/s", cases, "machine", sort=False)[machines]
    relative = rates.div(rates[machines[0]], axis=0).dropna(thresh=2)
    return relative.reset_index(cases[1:], drop=True)


def _bars(relative: pd.DataFrame) -> style.Plot:
    with style.single(0.6 + 0.12 * relative.size) as (figure, panel):
        colours = itertools.cycle(style.PALETTE[1:])
        series = {name: (relative[name].to_numpy(), next(colours)) for name in map(str, relative)}
        style.bars(panel, [*map(str, relative.index)], series)
        panel.axvline(1, color=style.BLACK, linewidth=0.8)
        panel.set_xlabel("rate over the first machine's")
        style.legend_above(figure, 1)
        return figure


def _profiles(workload: str, rows: pd.DataFrame) -> str:
    """Returns a bar of op types for each machine, in the colours of their classes."""
    bars = "".join(
        f'<tr><th scope="row">{escape(row["machine"])}</th><td style="width: 70%">'
        f"{overview.bar(row['shares'])}{escape(row['heaviest op types'])}</td></tr>"
        for row in rows.to_dict("records")
    )
    return f"<table><caption>{escape(workload)}</caption><tbody>{bars}</tbody></table>"


def _losses(frame: pd.DataFrame) -> str:
    """Returns whether machines computed the same first losses, in words."""
    trained = frame.dropna(subset="first loss")
    alike = ["workload", "precision", "batch", "settings", "data", "seed"]
    cases = trained.groupby(alike, sort=False)
    others = []
    compared = set()
    for case, rows in cases:
        if rows.machine.nunique() < 2:
            continue
        compared.add(case[0])
        middle = median_low(rows["first loss"])  # of two, one: both are near to their mean
        far = rows[(rows["first loss"] / middle - 1).abs() > _SAME_LOSS]
        others += [f"{case[0]} on {each}" for each in far.machine]
    if not compared:
        return "No two machines trained the same workload from the same seed."
    if others:
        far = ", ".join(others)
        return f"The first loss differs from the other machines' by more than 1 %: {far}."
    return (
        f"The first loss follows from the seed. In {counted(len(compared), 'workload')} "
        "that several machines trained it is the same within 1 %."
    )
