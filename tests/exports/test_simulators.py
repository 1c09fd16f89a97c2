"""The formats of simulators have the description's work, read by the tools where they are."""

import csv
import io
import math
import shutil
import subprocess

import pytest
import yaml

from fathom import exports
from fathom.exports import maestro
from tests.hardware.accelerators import steps


def convolution(name, phase="forward", dilation=1):
    """Groups, two examples, a stride, and a kernel that is not square."""
    sizes = {"N": 2, "M": 6, "C": 4, "R": 3, "S": 2, "P": 5, "Q": 3, "groups": 2}
    sizes |= {"stride_h": 2, "stride_w": 2, "dilation_h": dilation, "dilation_w": dilation}
    return steps.operation(
        name=name, phase=phase, kind="convolution", bounds=sizes, macs=2 * 6 * 2 * 3 * 2 * 5 * 3
    )


def product(kind, batch, repeats):
    sizes = {"batch": batch, "M": 7, "N": 5, "K": 3}
    return steps.operation(
        name=kind, kind=kind, bounds=sizes, macs=batch * repeats * 105, repeats=repeats
    )


@pytest.fixture(scope="module")
def description():
    operations = (
        convolution("conv"),
        convolution("dilated/conv", dilation=2),
        *(convolution(f"{phase} x", phase) for phase in ("weight gradient", "input gradient")),
        product("matrix product", batch=4, repeats=1),
        product("recurrent product", batch=1, repeats=6),
        steps.operation(kind="sparse product", bounds={"M": 1, "N": 1, "K": 1}, macs=1),
    )
    return steps.description(*operations, precision="bfloat16")


def times(files):
    return [int(row["times"]) for row in csv.DictReader(io.StringIO(files["repetitions.csv"]))]


def macs(description):
    """Returns those of the operations that simulators take."""
    return sum(op.macs for op in description.operations if op.kind != "sparse product")


def layers_of_zigzag(files):
    return yaml.safe_load(files["workload.yaml"])


def test_the_layers_of_zigzag_have_all_macs(description):
    exported = exports.find("zigzag").export(description)
    layers = layers_of_zigzag(exported.files)
    each = zip(layers, times(exported.files), strict=True)
    assert sum(count * math.prod(layer["loop_sizes"]) for layer, count in each) == macs(description)
    assert [layer["id"] for layer in layers] == list(range(6))
    assert layers[1]["dimension_relations"] == ["ix=2*ox+2*fx", "iy=2*oy+2*fy"]
    assert layers[0]["operand_precision"] == {"I": 16, "W": 16, "O": 16, "O_final": 16}
    assert "operations of kind sparse product: 1" in exported.left_out


@pytest.mark.parametrize("name", ["maestro", "scale-sim", "timeloop", "zigzag"])
def test_a_name_with_a_comma_stays_in_its_column(description, name):
    first, *_ = description.operations
    named = first.model_copy(update={"name": "a,b"})
    files = exports.find(name).export(description.model_copy(update={"operations": (named,)})).files
    (listed,) = (
        text for file, text in files.items() if file in ("repetitions.csv", "problems.csv")
    )
    for row in csv.DictReader(io.StringIO(listed)):
        assert int(row["times"]) >= 1
        assert row.get("operation", "a,b") == "a,b"


def test_zigzag_evaluates_each_layer(description, tmp_path):
    api = pytest.importorskip("zigzag.api", reason="zigzag-dse is not installed")
    files = exports.find("zigzag").export(description).files
    layers = layers_of_zigzag(files)
    for name, content in (
        ("workload", layers),
        ("accelerator", accelerator(16)),
        ("mapping", [mapping(layer) for layer in layers] + [mapping(layers[0], "default")]),
    ):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    *_, evaluated = api.get_hardware_performance_zigzag(
        *(str(tmp_path / f"{name}.yaml") for name in ("workload", "accelerator", "mapping")),
        dump_folder=str(tmp_path / "out"),
        pickle_filename=str(tmp_path / "out.pickle"),
        loma_show_progress_bar=False,
    )
    found = {each.layer.id: each.layer.total_mac_count for each in evaluations(evaluated)}
    assert sorted(found) == list(range(6))
    counts = enumerate(times(files))
    assert sum(count * found[number] for number, count in counts) == macs(description)


def accelerator(bits):
    """The TPU-like accelerator that comes with ZigZag, with wider words and a larger memory."""
    from pathlib import Path

    import zigzag

    folder = Path(zigzag.__file__).parent / "inputs/hardware"
    machine = yaml.safe_load((folder / "tpu_like.yaml").read_text())
    for memory in machine["memories"].values():
        memory["size"] *= bits // 8
        for port in memory["ports"]:
            port["bandwidth_min"] *= bits // 8
            port["bandwidth_max"] *= bits // 8
    return machine


def mapping(layer, name=""):
    """A fixed order of the loops, so that ZigZag need not search."""
    sizes = dict(zip(layer["loop_dims"], layer["loop_sizes"], strict=True))
    loops = ((name, sizes.get(name, 1)) for name in ("FX", "FY", "OX", "OY", "D", "B", "G"))
    return {
        "name": name or f"Layer{layer['id']}",
        "spatial_mapping": {"D1": [f"K, {sizes['K']}"], "D2": [f"C, {sizes['C']}"]},
        "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"},
        "temporal_ordering": [[name, size] for name, size in loops if size > 1],
    }


def evaluations(nested):
    for each in nested:
        if hasattr(each, "layer"):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from evaluations(each)


def test_the_layers_of_maestro_have_all_macs(description):
    exported = exports.find("maestro").export(description)
    text = exported.files["network.m"]
    found = 0
    for layer, count in zip(text.split("Layer L")[1:], times(exported.files), strict=True):
        sizes = dict(each.split(": ") for each in inside(layer, "Dimensions").split(", "))
        found += count * _macs(inside(layer, "Stride"), {k: int(v) for k, v in sizes.items()})
    assert found == macs(description)
    assert text.count("Type: CONV") == 1  # a dilated one is a product


def inside(layer, name):
    return layer.partition(f"{name} {{ ")[2].partition(" }")[0]


def _macs(stride, sizes):
    if "C" not in sizes:
        return math.prod(sizes.values())
    assert stride == "X: 2, Y: 2"
    rows, columns = ((sizes[a] - sizes[k]) // 2 + 1 for a, k in (("Y", "R"), ("X", "S")))
    return math.prod((rows, columns, *(sizes[name] for name in "KCRS")))


def test_the_dataflow_of_maestro_can_be_replaced(description):
    network = maestro.network(description, convolution="Mine K;", product="Yours M;")
    text = network.files["network.m"]
    assert (text.count("Mine K;"), text.count("Yours M;")) == (1, 5)


def test_maestro_itself_counts_the_same(description, tmp_path):
    if shutil.which("maestro") is None:
        pytest.skip("maestro is not on the path")
    files = exports.find("maestro").export(description).files
    (tmp_path / "network.m").write_text(files["network.m"])
    limits = {"num_pes": 64, "l1_size_cstr": 10**6, "l2_size_cstr": 10**9, "noc_bw_cstr": 64}
    hardware = "".join(f"{name}: {value}\n" for name, value in limits.items())
    (tmp_path / "hardware.m").write_text(hardware + "offchip_bw_cstr: 64\n")
    options = {"print_res": "false", "print_res_csv_file": "true", "print_log_file": "false"}
    subprocess.run(
        ["maestro", "--HW_file=hardware.m", "--Mapping_file=network.m"]
        + [f"--{name}={value}" for name, value in options.items()],
        **{"cwd": tmp_path, "check": True, "capture_output": True, "timeout": 60},
    )
    rows = csv.DictReader(
        (tmp_path / "network.csv").read_text().splitlines(), skipinitialspace=True
    )
    counts = zip(rows, times(files), strict=True)
    assert sum(count * int(row["Num MACs"]) for row, count in counts) == macs(description)
