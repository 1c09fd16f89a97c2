"""Counts what AlexNet's convolutions move on Eyeriss, and holds it against the chip's measurements.

AccelForge counts the accesses of a mapping, HWComponents its energy. They have their own
environment, and HWComponents wants CACTI built where the one in its wheel does not start:

    python3.12 -m venv ~/accelforge && ~/accelforge/bin/pip install accelforge==1.0.467
    python -m fathom export alexnet --infer --batch-size 4 --to timeloop --out alexnet-layers
    ~/accelforge/bin/python benchmarks/published_eyeriss.py alexnet-layers

The mapping is row stationary: rows of filters and of results are spread over the array, and a
processing element keeps a row of each. The figures are those of Chen et al., "Eyeriss: An
Energy-Efficient Reconfigurable Accelerator for Deep Convolutional Neural Networks", IEEE Journal of
Solid-State Circuits 52(1), 2017, AlexNet's table, four images.
"""

import argparse
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Published:
    """A row of the publication's table, and the mapping that it states.

    Attributes:
        power: of the chip, mW.
        seconds: from the first access to the last, ms.
        processing: without loading and unloading, ms.
        active: processing elements that work.
        zeros: share of the input.
        buffer, dram: MB read and written; values in DRAM are run-length encoded.
        stored: filters whose sums the buffer keeps, for images and columns of results.
        images: that it keeps sums of.
        columns: of processing elements in a set; more than the array has are folded.
        filters, channels: in a processing element.
        sets: of processing elements, for other channels, and for other filters.
    """

    power: float
    seconds: float
    processing: float
    active: int
    zeros: float
    buffer: float
    dram: float
    stored: int
    images: int
    columns: int
    filters: int
    channels: int
    sets: tuple[int, int]


PUBLISHED = {
    "conv1": Published(332, 20.9, 16.5, 154, 0.0001, 18.5, 5.0, 96, 1, 7, 16, 1, (1, 2)),
    "conv2": Published(288, 41.9, 39.2, 135, 0.387, 77.6, 4.0, 64, 1, 27, 16, 2, (1, 1)),
    # Four channels in an element instead of three, in one set instead of two, would make the
    # sums' accesses 1.5 times as many; with conv4's mapping they are the published ones.
    "conv3": Published(266, 23.6, 21.8, 156, 0.725, 50.2, 3.0, 64, 4, 13, 16, 3, (2, 2)),
    "conv4": Published(235, 18.4, 16.0, 156, 0.793, 37.4, 2.1, 64, 4, 13, 16, 3, (2, 2)),
    "conv5": Published(236, 10.5, 10.0, 156, 0.776, 24.9, 1.3, 64, 4, 13, 16, 3, (2, 2)),
}
WIDTH, HEIGHT = 14, 12  # processing elements
CLOCK = 200e6
VALUE = 2  # bytes
ENCODED = 64 / 3 / 16  # of a value that is not zero: three and their runs take 64 bits

ARCHITECTURE = f"""
arch:
  extra_attributes_for_all_component_models: {{tech_node: 65e-9}}
  nodes:
  - !Memory {{name: DRAM, component_class: LPDDR4, size: inf, tensors: {{keep: All}}}}
  - !Memory
    name: Buffer
    component_class: SmartBufferSRAM
    size: 108 * 1024 * 8
    extra_attributes_for_component_model: {{n_banks: 27}}
    actions: [{{name: read, bits_per_action: 64}}, {{name: write, bits_per_action: 64}}]
    tensors: {{keep: input | output}}
  - !Container
    name: Element
    spatial: [{{name: width, fanout: {WIDTH}}}, {{name: height, fanout: {HEIGHT}}}]
  - !Memory
    name: Inputs
    component_class: SmartBufferSRAM
    size: 12 * 16
    tensors: {{keep: input}}
  - !Memory
    name: Filters
    component_class: SmartBufferSRAM
    size: 224 * 16
    tensors: {{keep: weight}}
  - !Memory
    name: Sums
    component_class: SmartBufferSRAM
    size: 24 * 16
    tensors: {{keep: output}}
  - !Compute
    name: MAC
    component_class: IntMAC
    total_latency: sum(a.n_calls for a in actions) / {CLOCK}
    extra_attributes_for_component_model: {{multiplier_width: 16, adder_width: 16}}
"""


def workload(size: dict[str, int]) -> str:
    """Returns a group of a convolution as an einsum."""
    rows, columns = (f"{size['Hstride']} * p + r", f"{size['Wstride']} * q + s")
    bounds = "".join(f"\n    - 0 <= {name.lower()} < {size[name]}" for name in "NMCPQRS")
    return f"""
workload:
  bits_per_value: {{All: {8 * VALUE}}}
  einsums:
  - einsum: "O[n, m, p, q] = I[n, c, H: {rows}, W: {columns}] * F[m, c, r, s]"
    renames: {{output: O, input: I, weight: F}}
    iteration_space_shape:{bounds}
"""


def mapping(row: Published) -> str:
    """Returns the loops of the mapping, from the outermost to the innermost."""
    channels, filters = (row.sets[0] * row.channels, row.sets[1] * row.filters)
    strip = min(row.columns, WIDTH)  # a set that is wider is folded, one part above the other
    side = "width" if row.sets[1] * strip <= WIDTH else "height"
    nodes = [
        "Storage {tensors: [I, F, O], component: DRAM}",
        *_loops("Temporal", m=row.stored, n=row.images, p=row.columns),
        "Storage {tensors: [O], component: Buffer}",
        *_loops("Temporal", c=channels),
        "Storage {tensors: [I], component: Buffer}",
        *_loops("Temporal", m=filters),
        *_spread("height", p=strip, r=1, c=row.channels),
        *_spread("width", p=1),
        *_spread(side, m=row.filters),
        "Storage {tensors: [F], component: Filters}",
        *_loops("Temporal", n=1),
        "Storage {tensors: [I], component: Inputs}",
        *_loops("Temporal", q=1),
        "Storage {tensors: [O], component: Sums}",
        *_loops("Temporal", s=1, c=1, m=1),
        "Compute {einsum: O, component: MAC}",
    ]
    return "\n".join(["mapping:", "  nodes:", *(f"  - !{node}" for node in nodes), ""])


def _loops(kind: str, more: str = "", **tiles: int) -> list[str]:
    return [
        f"{kind} {{rank_variable: {name}, tile_shape: {tile}{more}}}"
        for name, tile in tiles.items()
    ]


def _spread(side: str, **tiles: int) -> list[str]:
    return _loops("Spatial", f", name: {side}, component: Element", **tiles)


def evaluated(size: dict[str, int], row: Published, scratch: Path) -> Any:
    """Returns AccelForge's result for a group of a convolution."""
    import accelforge

    texts = {"arch": ARCHITECTURE, "workload": workload(size), "mapping": mapping(row)}
    files = [scratch / f"{name}.yaml" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    return accelforge.Spec.from_yaml(*files).evaluate_mapping()


def moved(result: Any, memory: str, bits: int) -> dict[tuple[str, str], float]:
    """Returns the MB that a memory moves, by tensor and action."""
    counts = result.actions(per_component=True, per_tensor=True)
    return {
        (tensor, action): count * bits / 8e6
        for (component, tensor, action), count in counts.items()
        if component == memory
    }


def counted(result: Any, size: dict[str, int], row: Published, after: Published) -> dict[str, Any]:
    """Returns what a group of a convolution takes, as in the publication's table."""
    buffer, dram = moved(result, "Buffer", 64), moved(result, "DRAM", 1)
    # A row of the input reaches all elements of a diagonal at once; AccelForge counts each.
    strip = min(row.columns, WIDTH)
    received = ((strip - 1) * size["Hstride"] + size["R"]) / (strip * size["R"])
    kept = {"I": 1 - row.zeros, "O": 1 - after.zeros, "F": 1 / ENCODED}
    energy, seconds = result.energy(per_component=True), result.latency(per_component=True)["MAC"]
    return {
        "active": result.n_computes() / seconds / CLOCK,
        "processing": seconds * 1e3,
        "buffer": sum(buffer.values()) - (1 - received) * buffer["I", "read"],
        "dram": sum(dram.values()),
        "encoded": sum(mb * min(1, ENCODED * kept[name]) for (name, _), mb in dram.items()),
        "chip": sum(each for memory, each in energy.items() if memory != "DRAM") * 1e3,
    }


def layers(folder: Path) -> dict[str, tuple[dict[str, int], int]]:
    """Returns the sizes of a group of each convolution, and the number of groups."""
    found = {}
    for line in (folder / "problems.csv").read_text().splitlines()[1:]:
        file, operation, _, groups = line.split(",")
        name = re.search(r"conv\d", operation)
        if name:
            instance = (folder / file).read_text().split("instance:")[1]
            size = {key: int(value) for key, value in re.findall(r"(\w+): (\d+)", instance)}
            found[name[0]] = size, int(groups)
    return found


def main() -> None:
    """Prints a row of each layer: what is counted, beside what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", type=Path, help="folder of the export")
    found = layers(parser.parse_args().layers)
    rows = list(PUBLISHED.values())
    print("counted / measured (ratio)")
    print("| layer | active | processing, ms | buffer, MB | DRAM, MB | encoded, MB | chip, mJ |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for (name, row), after in zip(PUBLISHED.items(), [*rows[1:], rows[-1]], strict=True):
            size, groups = found[name]
            each = counted(evaluated(size, row, Path(scratch)), size, row, after)
            cells = (
                against(each["active"], row.active, digits=0),
                against(groups * each["processing"], row.processing),
                against(groups * each["buffer"], row.buffer),
                f"{groups * each['dram']:.1f}",
                against(groups * each["encoded"], row.dram),
                against(groups * each["chip"], row.power * row.processing / 1e3),
            )
            print(f"| {name} | {' | '.join(cells)} |")


def against(found: float, measured: float, digits: int = 1) -> str:
    """Returns both and their ratio."""
    return f"{found:.{digits}f} / {measured:.{digits}f} ({found / measured:.2f})"


if __name__ == "__main__":
    main()
