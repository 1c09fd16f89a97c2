"""Every format has the description's work, is deterministic and says what it leaves out."""

import csv
import io
import math

import pytest

from fathom import FathomError, exports, workloads
from fathom.results.description import Description

DESCRIBED = [("alexnet", False), ("seq2seq", True), ("memnet", False)]


@pytest.fixture(scope="module", params=DESCRIBED, ids=lambda each: each[0])
def description(request):
    name, forward_only = request.param
    model = workloads.load(name, forward_only)("/cpu:0", workloads.descriptor(name).small)
    model.build()
    return model.describe()


OF_THE_WORK = [name for name in exports.names() if isinstance(exports.find(name), exports.Format)]


@pytest.mark.parametrize("name", OF_THE_WORK)
def test_an_export_is_deterministic(description, name):
    first, second = (exports.find(name).export(description) for _ in range(2))
    assert first == second
    assert exports.find(name).about


def test_the_topologies_of_scale_sim_have_all_macs(description, tmp_path):
    files = exports.find("scale-sim").export(description).files
    times = dict(csv.reader(io.StringIO(files["repetitions.csv"])))
    macs = 0
    for row in rows_of(files.get("convolutions.csv", "")):
        name, (height, width, r, s, channels, filters, stride) = row[0], map(int, row[1:-1])
        rows, columns = (
            math.ceil((size - k + stride) / stride) for size, k in ((height, r), (width, s))
        )
        macs += int(times[name]) * rows * columns * r * s * channels * filters
    for row in rows_of(files["products.csv"]):
        macs += int(times[row[0]]) * math.prod(map(int, row[1:-1]))
    assert macs == description.macs


def test_scale_sim_itself_counts_the_same(description, tmp_path):
    topology = pytest.importorskip("scalesim.topology_utils", reason="scalesim is not installed")
    files = exports.find("scale-sim").export(description).files
    times = dict(csv.reader(io.StringIO(files["repetitions.csv"])))
    macs = 0
    for name in files.keys() - {"repetitions.csv"}:
        (tmp_path / name).write_text(files[name])
        read = topology.topologies()
        read.load_arrays(str(tmp_path / name), mnk_inputs=name == "products.csv")
        read.topo_calc_hyperparams()
        for layer, (*_, layer_macs, _) in zip(
            read.topo_arrays, read.layers_calculated_hyperparams, strict=True
        ):
            macs += int(times[layer[0]]) * layer_macs
    assert macs == description.macs


def test_the_problems_of_timeloop_have_all_macs(description):
    files = exports.find("timeloop").export(description).files
    macs = 0
    for file, *_, times in list(csv.reader(io.StringIO(files["problems.csv"])))[1:]:
        instance = files[file].split("instance:")[1]
        sizes = dict(line.strip().split(": ") for line in instance.strip().splitlines())
        macs += int(times) * math.prod(int(sizes[name]) for name in "NMCRSPQ")
    assert macs == description.macs


def test_what_a_format_cannot_express_is_counted(description):
    left_out = exports.find("scale-sim").export(description).left_out
    assert any(line.startswith("operations of kind elementwise: ") for line in left_out)


def test_a_step_without_products_and_an_unknown_format_are_refused(description):
    empty = description.model_copy(update={"operations": ()})
    for name in ("scale-sim", "timeloop"):
        with pytest.raises(FathomError, match="no convolution and no product"):
            exports.find(name).export(empty)
    with pytest.raises(FathomError, match=r"unknown format 'scalesim'.*scale-sim"):
        exports.find("scalesim")


def test_json_can_be_read_again(description):
    text = exports.find("json").export(description).files["description.json"]
    assert Description.parse(text, "export").macs == description.macs


def rows_of(text):
    return list(csv.reader(io.StringIO(text), skipinitialspace=True))[1:]
