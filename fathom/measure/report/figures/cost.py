"""Work and traffic counted from the architecture, and utilization: our own analysis."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import programs, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import listed, ratio
from fathom.measure.runs.folder import Folder
from fathom.options import precision_traits
from fathom.results.characterization import UNDISTURBED, Machine
from fathom.system.words import counted


def utilization(runs: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Relates the work of each workload and mode to its time.

    Args:
        runs: completed timings, from ``Folder.runs_frame``.
        machine: whose large matrix product is the peak; runs in another precision than that or on
            a GPU have none.

    Returns:
        one row per workload, mode and device: parameters; multiply-accumulates of the forward pass
        per example; floating-point operations per example in this mode; achieved rate at the median
        step, the geometric mean of equal runs; peak; their ratio (utilization), and ``from`` and
        ``to``, the limits of its 95 % interval between runs, missing if the peak was not measured;
        program, where batches are divided or programs differ between a workload's rows.
    """
    counted = runs.dropna(subset="flops_per_second")
    cases = ["workload", "mode", "device"]
    rates = {
        case: ratio(each.flops_per_second.to_numpy(float), np.ones(len(each)))
        for case, each in counted.groupby(cases, sort=False)
    }
    first = counted.drop_duplicates(cases)
    same = (first.precision == machine.environment.precision) & (first.on == "cpu")
    peak = first.threads.astype(str).map(machine.gemm_flops_per_second).astype(float).where(same)
    table = pd.DataFrame(
        {
            "workload": first.workload,
            "mode": first["mode"],
            "device": first.device,
            "batch size": first.batch_size,
            "parameters": first.parameters,
            "forward MACs/example": first.forward_macs,
            "FLOPs/example": first.flops,
            "achieved (FLOP/s)": [rate.value for rate in rates.values()],
            "peak (FLOP/s)": peak,
            "achieved/peak": [rate.value for rate in rates.values()] / peak,
            "from": [rate.low for rate in rates.values()] / peak,
            "to": [rate.high for rate in rates.values()] / peak,
            programs.PROGRAM: programs.of(first),
        }
    ).reset_index(drop=True)
    return programs.drop_if_uniform(table, ["workload"])


def layer_bytes(layers: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Returns the bytes of each layer's trainable values, and of its output for a whole batch.

    The trainable values stay float32 in mixed precision.
    """
    value_bytes = layers.precision.map(lambda name: precision_traits(name).value_bytes)
    return 4 * layers.parameters, value_bytes * layers.activations * layers.examples


def layer_work(layers: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Relates each layer's counted work and traffic to its time, for training profiles.

    Args:
        layers: from ``Folder.layers``, one profile per workload.
        ops: the op times of one or several equal profiles, from ``Folder.ops``.

    Returns:
        one row per layer: bytes of its trainable values, and of its output for a whole batch
        (scaled by work if batches differ in length); multiply-accumulates of the forward pass per
        example; floating-point operations of a training step, forward and backward; mean time of
        its ops per step, 0 if there are none; achieved rate.
    """
    keys = ["workload", "layer"]
    seconds = ops.groupby(keys).seconds.sum().div(tables.steps(ops), level=0)
    time = seconds.reindex(pd.MultiIndex.from_frame(layers[keys]), fill_value=0.0).to_numpy()
    backward = np.where(layers.reads_input, 1, 2)
    flops = 2 * layers.examples * layers.macs * (layers.forward_passes + backward)
    weight_bytes, output_bytes = layer_bytes(layers)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(time > 0, flops.round() / time, np.nan)
    return pd.DataFrame(
        {
            "workload": layers.workload,
            "layer": layers.layer,
            "kind": layers.kind,
            "parameters (bytes)": weight_bytes,
            "activations (bytes/step)": output_bytes.round().astype(int),
            "forward MACs/example": layers.macs,
            "FLOPs/step": flops.round().astype(int),
            "time per step (s)": time,
            "achieved (FLOP/s)": rate,
        }
    )


def summary(table: pd.DataFrame) -> str:
    """Summarizes the utilization in a sentence."""
    known = table[table["mode"] == "train"].set_index("workload")[["achieved/peak", "from", "to"]]
    training = listed(known, ".2f")
    return (
        "Achieved FLOP/s of training over those of a large matrix product on the same threads: "
        f"{training or 'not measured'}."
    )


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws achieved FLOP/s over those of a large matrix product, training and inference."""
    names = list(table.workload.unique())
    with style.single(1.3 + 0.4 * len(names)) as (figure, axes):
        axes.axvline(1, color=style.GREY, linewidth=0.8, linestyle="--")
        for j, (mode, color) in enumerate((("train", style.BLUE), ("infer", style.SKY))):
            mine = table[(table["mode"] == mode) & table["achieved/peak"].notna()]
            bars = axes.barh(
                [names.index(workload) + 0.4 * j - 0.2 for workload in mine.workload],
                mine["achieved/peak"],
                height=0.38,
                color=color,
                hatch=style.HATCHES[j],
                edgecolor="white",
                label="training" if mode == "train" else "inference",
            )
            axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
        style.name_rows(axes, names)
        axes.set_xlim(0, max(1.15, 1.1 * axes.get_xlim()[1]))
        axes.set_xlabel("achieved FLOP/s over those of a large matrix product")
        style.legend_above(figure, columns=2)
    return figure


def _analyse(folder: Folder) -> Findings:
    timings = selection.processes(folder)
    table = utilization(timings, folder.machine)
    wanted = selection.timing_runs(folder, "modes")
    gaps = selection.gaps(wanted, table.workload.unique(), selection.UNCOUNTED)
    profiles, layers = selection.training_profiles(folder), folder.layers()
    first = profiles.drop_duplicates("workload").run
    layers = selection.in_order(layers[layers.run.isin(first)])
    ops = selection.ops_of(folder, profiles)
    others = {"layers": layer_work(layers, ops)} if len(layers) else {}
    if table.empty:
        return Findings(tables=others, gaps=gaps)
    gaps += _disturbed_peaks(folder.machine, timings[timings.on == "cpu"].threads.unique())
    caveats = selection.caveats(timings[(timings["mode"] == "train") & (timings.on == "cpu")])
    return Findings(f"{summary(table)}{caveats}", draw(table), table, others, gaps)


def _disturbed_peaks(machine: Machine, threads: Iterable[int]) -> list[str]:
    """Returns a sentence for each number of threads on which the peak is no limit."""
    shares = {number: machine.gemm_cpu_share.get(str(number), 1.0) for number in threads}
    return [
        f"a peak that is a limit, {counted(number, 'thread')}: other processes left "
        f"{share:.0%} of the processor to its probe"
        for number, share in shares.items()
        if share < UNDISTURBED
    ]


FIGURE = Figure(
    id="cost",
    order=21,
    title="Work and traffic",
    meaning="MACs of convolutions and matrix products in the forward pass per example, counted "
    "from the architecture; FLOPs are twice the MACs, including the backward pass in training. "
    "Achieved FLOP/s at the median step, over those of a 2048 x 2048 x 2048 matrix product on as "
    "many threads. By layer: bytes of parameters, and of the output for a batch, and the rate in "
    "the profile.",
    analyse=_analyse,
)
