"""Layers on square systolic arrays: SCALE-Sim's cycles beside those of the project's own models.

    python benchmarks/systolic_arrays.py residual.json --side 32 --out residual-32.csv

The description is of ``fathom describe --infer --json``. Every distinct layer of it is simulated
once by SCALE-Sim 3.0 (``scalesim`` on PyPI; it needs NumPy below 2.4), output-stationary, with
words of a byte and a memory that never stalls it. Layers that the file OUT has already are not
simulated again, so that an interrupted run continues. Simulations take minutes; with
``--array-only`` the memory is not simulated, which takes seconds to minutes for the same cycles.
"""

import argparse
import contextlib
import csv
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fathom import exports
from fathom.hardware.accelerators import roofline, tiling
from fathom.hardware.accelerators.machine import Array, Machine
from fathom.results.description import Description

_ON_CHIP_KB = 1024  # for inputs, for weights and for outputs
_CLOCK_HZ = 1e9
_CONFIGURATION = """\
[general]
run_name = run
[architecture_presets]
ArrayHeight = {side}
ArrayWidth = {side}
IfmapSramSzkB = {memory}
FilterSramSzkB = {memory}
OfmapSramSzkB = {memory}
IfmapOffset = 0
FilterOffset = 100000000
OfmapOffset = 200000000
Dataflow = os
ReadRequestBuffer = 512
WriteRequestBuffer = 512
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


def main() -> None:
    """Simulates the layers that OUT lacks, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("description", type=Path)
    parser.add_argument("--side", type=int, required=True, help="rows and columns of the array")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--array-only", action="store_true", help="without the memory")
    args = parser.parse_args()
    description = Description.read(args.description)
    table = models(description, args.side)
    done = pd.read_csv(args.out, dtype={"shape": str}) if args.out.exists() else pd.DataFrame()
    simulated = dict(zip(done["shape"], done["simulated"], strict=True)) if len(done) else {}
    for shape in table.sort_values("macs")["shape"].unique():
        if np.isnan(simulated.get(shape, np.nan)):
            simulated[shape] = simulate(shape, args.side, args.array_only)
        table["simulated"] = table["shape"].map(simulated)
        table.to_csv(args.out, index=False)
        print(f"{shape}: {simulated[shape]:,.0f} cycles", flush=True)
    print(summary(table, args.side).to_string())


def summary(table: pd.DataFrame, side: int) -> pd.DataFrame:
    """Returns cycles and utilization of similar layers: of one stage, products of one shape.

    Cycles are those of all executions in the step, utilization the share of all multipliers.
    """
    stage = table["layer"].str.partition("_")[0]
    product = table["shape"].str.count(" ") == 2
    key = stage.where(~product, stage + " " + table["shape"])
    columns = ["macs", "simulated", "roofline", "own", "square"]
    sums = table[columns].mul(table["times"], axis=0).groupby(key, sort=False).sum()
    sums.loc["all"] = sums.sum()
    used = {f"{name} %": 100 * sums["macs"] / (sums[name] * side**2) for name in columns[1:]}
    return sums.round().assign(**used).round(1)


def models(description: Description, side: int) -> pd.DataFrame:
    """Returns what the models predict for each row of SCALE-Sim's topology, for one execution.

    Columns: layer; shape (the row); times; macs; roofline, own and square, in cycles: of the
    roofline, of the best tiling, and of a tiling with as many inputs and outputs as the array has
    rows and columns.
    """
    machine = _machine(side)
    bounds = roofline.table(description, machine, "int8").set_index("name").seconds
    layers, _ = tiling.convolutions(description)
    named = [op for op in description.operations if op.phase == "forward" and op.kind in _KINDS]
    found = {}
    for op, layer in zip(named, layers, strict=True):
        designs = tiling.designs(layer, machine)
        square = tiling.designs(layer, machine, np.array([[side, side]]))
        found[op.name] = {
            "layer": layer.name,
            "times": layer.times,
            "macs": layer.macs,
            "roofline": bounds[op.name] * _CLOCK_HZ / layer.times,
            "own": designs.seconds.min() * _CLOCK_HZ,
            "square": square.seconds.min() * _CLOCK_HZ,
        }
    return pd.DataFrame([{"shape": shape, **found[name]} for name, shape in _rows(description)])


_KINDS = ("convolution", "matrix product", "recurrent product")


def _rows(description: Description) -> list[tuple[str, str]]:
    """Returns the name of the operation and the sizes of each row of the topologies."""
    files = exports.find("scale-sim").export(description).files
    rows = []
    for name in ("convolutions.csv", "products.csv"):
        text = csv.reader(io.StringIO(files.get(name, "")), skipinitialspace=True)
        rows += [(row[0].rpartition("_")[0], " ".join(row[1:-1])) for row in list(text)[1:]]
    return rows


def simulate(shape: str, side: int, array_only: bool = False) -> float:
    """Returns SCALE-Sim's cycles for a row of a topology."""
    from scalesim.scale_sim import scalesim

    sizes = shape.split()
    columns = "Layer, M, N, K," if len(sizes) == 3 else ", ".join(["Layer", *"hwrscfs"]) + ","
    with tempfile.TemporaryDirectory() as folder:
        files = {
            "run.cfg": _CONFIGURATION.format(side=side, memory=_ON_CHIP_KB),
            "topology.csv": f"{columns}\nlayer, {', '.join(sizes)},\n",
            "layout.csv": "",
        }
        paths = {name: Path(folder) / name for name in files}
        for name, text in files.items():
            paths[name].write_text(text)
        with contextlib.redirect_stdout(io.StringIO()):
            run = scalesim(
                save_disk_space=True,
                verbose=False,
                config=str(paths["run.cfg"]),
                topology=str(paths["topology.csv"]),
                layout=str(paths["layout.csv"]),
                input_type_gemm=len(sizes) == 3,
            )
            if array_only:
                return _array_cycles(run)
            run.run_scale(top_path=folder)
        return float(run.runner.single_layer_sim_object_list[0].total_cycles)


def _array_cycles(run: Any) -> float:
    """Returns the cycles of SCALE-Sim's array, whose demands have a line for each."""
    from scalesim.single_layer_sim import single_layer_sim

    layer = single_layer_sim()
    layer.set_params(
        config_obj=run.config, topology_obj=run.topo, layout_obj=run.layout, verbose=False
    )
    operands = layer.op_mat_obj
    layer.compute_system.set_params(
        config_obj=run.config,
        ifmap_op_mat=operands.get_ifmap_matrix()[1],
        filter_op_mat=operands.get_filter_matrix()[1],
        ofmap_op_mat=operands.get_ofmap_matrix()[1],
    )
    layer.compute_system.create_ofmap_demand_mat()
    return float(len(layer.compute_system.ofmap_demand_matrix) - 1)  # the last one's number


def _machine(side: int) -> Machine:
    """Returns the same array for our models: a word for each of its rows and cycle from memory."""
    fields = {
        "flops": {"int8": 2 * side**2 * _CLOCK_HZ},
        "bandwidth": side * _CLOCK_HZ,
        "on_chip_bytes": 3 * 1024 * _ON_CHIP_KB,
        "array": Array(
            elements=side**2, clock_hz=_CLOCK_HZ, pipeline_depth=2 * side - 2, word_bytes=1
        ),
    }
    sources = dict.fromkeys(fields, "chosen")
    return Machine(title=f"{side} x {side} array", **fields, sources=sources)


if __name__ == "__main__":
    main()
