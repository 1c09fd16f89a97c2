"""The designs are those of Zhang et al. (FPGA 2015), and every one is legal."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from fathom import FathomError
from fathom.__main__ import main
from fathom.hardware.accelerators import machine, tiling, topology
from fathom.hardware.accelerators.tiling import Convolution
from fathom.results.description import Description
from tests.hardware.accelerators.steps import CONVOLUTION, description, operation

FPGA = machine.load("virtex7-485t")
ALEXNET = [  # one tower
    Convolution(f"conv{i}", inputs, outputs, size, size, kernel, kernel, stride)
    for i, (inputs, outputs, size, kernel, stride) in enumerate(
        (
            (3, 48, 55, 11, 4),
            (48, 128, 27, 5, 1),
            (256, 192, 13, 3, 1),
            (192, 192, 13, 3, 1),
            (192, 128, 13, 3, 1),
        ),
        start=1,
    )
]


@pytest.fixture(scope="module")
def found():
    return tiling.explore(ALEXNET, FPGA).set_index(["design", "layer"])


def test_the_best_design_of_each_layer_takes_the_published_cycles(found):
    published = [366_025, 237_185, 160_264, 120_198, 80_132]
    assert found.loc["own"].cycles.tolist() == pytest.approx(published, rel=1e-3)


def test_the_best_common_design_is_the_published_one(found):
    common = found.loc["common"]
    assert (common.tm.max(), common.tn.max()) == (64, 7)
    assert common.cycles.sum() == pytest.approx(1_008_246, rel=1e-3)
    assert common.cycles.sum() / found.loc["own"].cycles.sum() == pytest.approx(1.05, abs=0.01)
    flops = 2 * sum(layer.macs for layer in ALEXNET)
    assert flops / common.seconds.sum() == pytest.approx(66e9, rel=0.01)


def test_a_design_is_counted_as_by_walking_through_its_tiles():
    layer, (tm, tn, tr, tc) = Convolution("l", 5, 7, 6, 9, 3, 3, 2), (3, 2, 4, 5)
    reads = writes = rounds = 0
    for row in range(0, layer.rows, tr):
        for column in range(0, layer.columns, tc):
            for _ in range(0, layer.outputs, tm):
                for _ in range(0, layer.inputs, tn):
                    height, width = 2 * tr + 3 - 2, 2 * tc + 3 - 2
                    reads += tn * height * width + tm * tn * 9
                    rounds += row == column == 0
                writes += tm * tr * tc
    words, traffic = tiling._words(layer, *(np.array([each]) for each in (tm, tn, tr, tc)))
    assert traffic[0] == reads + writes
    assert words[0] == 2 * (tn * height * width + tm * tn * 9 + tm * tr * tc)
    cycles = tiling.cycles(layer, np.array([tm]), np.array([tn]), FPGA.array)
    assert cycles[0] == rounds * (6 * 9 * 9 + FPGA.array.pipeline_depth)


def test_a_tile_reads_the_window_of_both_strides_and_dilations():
    bounds = CONVOLUTION | {"stride_h": 2, "stride_w": 3, "dilation_h": 4, "dilation_w": 5}
    (layer,), _ = tiling.convolutions(description(operation(kind="convolution", bounds=bounds)))
    assert (layer.stride, layer.stride_columns) == (2, 3)
    words, _ = tiling._words(layer, *(np.array([each]) for each in (1, 1, 6, 7)))
    height, width = 2 * 5 + 2 * 4 + 1, 3 * 6 + 2 * 5 + 1
    assert words[0] == 2 * (height * width + 9 + 6 * 7)


def test_all_designs_are_legal_and_the_best_has_the_highest_attainable_rate():
    small = FPGA.model_copy(update={"on_chip_bytes": 50_000.0, "bandwidth": 1e8})
    designs = tiling.designs(ALEXNET[2], small)
    assert (designs.tm * designs.tn <= small.array.elements).all()
    assert (designs.on_chip_bytes <= 50_000).all()
    best = tiling.explore([ALEXNET[2]], small).iloc[0]
    assert best.seconds == designs.seconds.min()
    assert best.seconds > best.cycles / small.array.clock_hz  # the memory is the limit


def test_a_layer_that_comes_twice_counts_twice():
    layer = ALEXNET[1]
    twice = [layer, dataclasses.replace(layer, name="again", times=3)]
    found = tiling.explore(twice, FPGA)
    assert found[found.design == "own"].times.tolist() == [1, 3]
    assert found.groupby("design").cycles.nunique().tolist() == [1, 1]


def test_the_best_of_all_unrollings_are_among_those_of_use():
    small = FPGA.model_copy(update={"on_chip_bytes": 100_000.0, "bandwidth": 1e9})
    layers = [Convolution("l", 13, 29, 5, 7, 3, 3), Convolution("m", 22, 10, 4, 4)]
    every = np.array([(m, n) for m in range(1, 30) for n in range(1, 23) if m * n <= 100])
    array = small.array.model_copy(update={"elements": 100})
    small = small.model_copy(update={"array": array})
    found = tiling.explore(layers, small).set_index(["design", "layer"])
    totals = 0
    for layer in layers:
        best = tiling._best_first(tiling.designs(layer, small, every)).groupby("pair").first()
        own = tiling._best_first(best).iloc[0]
        columns = ["tm", "tn", "cycles", "traffic_bytes"]
        assert found.loc["own", layer.name][columns].tolist() == own[columns].tolist()
        totals += best[["seconds", "traffic_bytes"]]
    common = tiling._best_first(totals).iloc[0]
    assert found.loc["common"].seconds.sum() == common.seconds
    assert found.loc["common"].traffic_bytes.sum() == common.traffic_bytes


def test_a_large_array_is_explored_and_too_many_tilings_are_refused():
    array = FPGA.array.model_copy(update={"elements": 2**31 - 1})
    large = FPGA.model_copy(update={"array": array, "on_chip_bytes": 1e12})
    first = tiling.explore(ALEXNET, large).iloc[0]
    assert (first.tm, first.tn) == (48, 3)
    for layer in (Convolution("l", 10**7, 10**7, 1, 1), Convolution("l", 1, 1, 2**60, 1)):
        with pytest.raises(FathomError, match="has more than 10,000,000 tilings"):
            tiling.explore([layer], large)


def test_tile_sizes_are_the_smallest_for_each_number_of_tiles():
    sizes = tiling._tile_sizes(13)
    assert sizes.tolist() == [1, 2, 3, 4, 5, 7, 13]
    assert {math.ceil(13 / size) for size in sizes} == {math.ceil(13 / n) for n in range(1, 14)}


def test_machines_that_cannot_be_explored_are_refused():
    with pytest.raises(FathomError, match=r"H100 .* has no array"):
        tiling.explore(ALEXNET, machine.load("h100"))
    with pytest.raises(FathomError, match="no tiling of conv"):
        tiling.explore(ALEXNET, FPGA.model_copy(update={"on_chip_bytes": 1.0}))
    with pytest.raises(FathomError, match="no convolution and no product"):
        tiling.explore([], FPGA)


@pytest.fixture
def step(tmp_path):
    """A file that describes a product and its gradient."""
    phases = ("forward", "weight gradient")
    operations = [operation(name=each, layer="fc", phase=each, macs=24) for each in phases]
    description(*operations, workload="memnet").write(tmp_path / "step.json")
    return tmp_path / "step.json"


def test_the_command_names_what_it_leaves_out(step, capsys):
    other = step.with_name("other.json")
    Description.read(step).model_copy(update={"workload": "a\nb"}).write(other)
    with pytest.raises(SystemExit, match="2"):
        main(f"explore memnet --machine virtex7-485t --description {other}".split())
    assert capsys.readouterr().err.endswith("other.json describes a b, not memnet\n")
    with pytest.raises(SystemExit) as end:
        main(f"explore memnet --machine virtex7-485t --description {step}".split())
    assert end.value.code == 0
    left = "left out, with 24 MACs: 1 of kind matrix product (weight gradient)"
    assert left in " ".join(capsys.readouterr().out.split())


def test_the_papers_layers_come_from_a_file_and_give_its_design(capsys):
    file = Path(__file__).parents[3] / "examples" / "fpga15-alexnet.csv"
    assert topology.read(file) == ALEXNET
    with pytest.raises(SystemExit) as stop:
        main(["explore", "--layers", str(file), "--machine", "virtex7-485t"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert "common (Tm 64, Tn 7)" in printed
    assert "237,185" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with the columns Layer name, IFMAP Height"),
        ("{header}", "has no layers"),
        ("{header}a, 5, 5, 3, 3, 1, 1,\n", "line 2: the sizes must be whole numbers from 1 to"),
        ("{header}a, 5, 5, 3, 3, 1, -1, 1\n", "line 2: the sizes must be whole numbers from 1 to"),
        ("{header}a, 5, 2, 3, 3, 1, 1, 1\n", "line 2: the filter is larger than the input"),
        ("\n{header}\na, 5, 2, 3, 3, 1, 1, 1\n", "line 4: the filter is larger than the input"),
    ],
)
def test_a_damaged_table_of_layers_is_refused(text, message, tmp_path):
    file = tmp_path / "layers.csv"
    file.write_text(text.format(header=", ".join(topology.COLUMNS) + ",\n"))
    with pytest.raises(FathomError, match=message):
        topology.read(file)


def test_layers_of_a_workload_are_chosen_by_name(step, capsys):
    command = f"explore memnet --machine virtex7-485t --description {step} --layers"
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "fc"])
    assert end.value.code == 0
    assert "fc" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command.split(), "fd"])
    assert "unknown layer 'fd': Known are fc" in capsys.readouterr().err
