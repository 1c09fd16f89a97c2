"""Peak memory of the runs, and the working set of each layer: an analysis of our own."""

import pandas as pd

from fathom.measure.report import programs, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.figures.cost import layer_bytes
from fathom.measure.runs.folder import Folder

_MIB = 2**20
_SHOWN = 6  # layers per workload
_PHASES = {"forward": style.BLUE, "backward": style.ORANGE, "optimizer": style.GREEN}
_PEAK, _GPU_PEAK = "peak of the process (MiB)", "peak on the GPU (MiB)"


def working_sets(layers: pd.DataFrame) -> pd.DataFrame:
    """Returns the bytes that each layer itself needs in each phase of a training step.

    Args:
        layers: from ``Folder.layers``, one training profile per workload.

    Returns:
        one row per layer, in MiB: its weights; its output for a batch; the working set of the
        forward pass (both), of the backward pass (both and their gradients) and of the optimizer
        (weights and gradients).
    """
    weights, output = (each / _MIB for each in layer_bytes(layers))
    sets = (weights + output, 2 * (weights + output), 2 * weights)
    return pd.DataFrame(
        {
            "workload": layers.workload,
            "layer": layers.layer,
            "kind": layers.kind,
            "weights (MiB)": weights,
            "output (MiB)": output,
            **{f"{phase} (MiB)": each for phase, each in zip(_PHASES, sets, strict=True)},
        }
    ).reset_index(drop=True)


def peaks(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the peak memory of each workload, mode and device; of equal runs the largest.

    The program is given where batches are divided or programs differ between a workload's rows.
    """
    measured = runs.dropna(subset="peak_resident_bytes")
    groups = measured.assign(program=programs.of(measured)).groupby(
        ["workload", "mode", "on", "batch_size"], sort=False
    )
    bytes_ = groups[["peak_resident_bytes", "peak_gpu_bytes"]].max().astype(float) / _MIB
    table = bytes_.join(groups[programs.PROGRAM].agg(programs.joined)).reset_index()
    names = {"on": "device", "batch_size": "batch size", "peak_resident_bytes": _PEAK}
    table = table.rename(columns=names | {"peak_gpu_bytes": _GPU_PEAK})
    return programs.drop_if_uniform(table, ["workload"])


def summary(peak: pd.DataFrame) -> str:
    """Summarizes the peaks in a sentence."""
    most = peak.iloc[peak[_PEAK].argmax()]
    return (
        f"The most memory that a process took is {most[_PEAK] / 1024:.2f} GiB ({most.workload}, "
        f"{most['mode']}, {most.device}, batch {most['batch size']})."
    )


def draw(peak: pd.DataFrame, sets: pd.DataFrame) -> style.Plot:
    """Draws the peaks, and the layers with the largest working sets of each workload."""
    names = list(sets.workload.unique())
    titles = [_PEAK, *names]
    with style.panels(titles, columns=2, width=4.6, height=2.7) as (figure, (first, *others)):
        _draw_peaks(first, peak)
        for name, panel in zip(names, others, strict=True):
            mine = sets[sets.workload == name]
            _draw_layers(panel, mine.nlargest(_SHOWN, "backward (MiB)"))
        style.legend_above(figure, columns=3)
    return figure


def _draw_peaks(panel: style.Panel, peak: pd.DataFrame) -> None:
    cases = (peak.workload + peak.device.map({"gpu": ", GPU"}).fillna("")).rename("case")
    largest = peak.groupby([cases, "mode"], sort=False)[_PEAK].max().unstack()
    largest = largest.reindex(cases.unique())
    modes = (("train", "training", style.GREY), ("infer", "inference", style.SKY))
    series = {
        label: (largest[mode].to_numpy(), color) for mode, label, color in modes if mode in largest
    }
    style.bars(panel, list(largest.index), series)
    panel.set_xlabel("MiB")


def _draw_layers(panel: style.Panel, sets: pd.DataFrame) -> None:
    series = {phase: (sets[f"{phase} (MiB)"].to_numpy(), color) for phase, color in _PHASES.items()}
    style.bars(panel, [style.shortened(name, 24) for name in sets.layer], series)
    panel.set_xlabel("working set (MiB)")


def _analyse(folder: Folder) -> Findings:
    peak = peaks(selection.timings(folder, "modes"))
    wanted, unknown = selection.timing_runs(folder, "modes"), "its peak was not recorded"
    gaps = selection.gaps(wanted, peak.workload.unique(), unknown)
    profiles, layers = selection.profiles(folder).drop_duplicates("workload"), folder.layers()
    sets = working_sets(selection.in_order(layers[layers.run.isin(profiles.run)]))
    if peak.empty:
        return Findings(tables={"layers": sets} if len(sets) else {}, gaps=gaps)
    return Findings(summary(peak), draw(peak, sets), peak, {"layers": sets}, gaps)


FIGURE = Figure(
    id="memory",
    order=22,
    title="Peak memory and working sets",
    meaning="Peak resident memory of the process, with Python, TensorFlow and the data; on a GPU "
    "also the peak of TensorFlow's allocations. By layer, computed from the architecture and the "
    "batch rather than measured: forward pass, the layer's weights and output; backward pass, both "
    "and their gradients; optimizer, weights and gradients, without its state. Inputs and "
    "temporary buffers are left out, so that these are lower bounds.",
    analyse=_analyse,
)
