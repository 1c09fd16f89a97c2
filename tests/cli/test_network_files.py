"""Commands that take a network's file instead of a workload."""

import numpy as np
import pandas as pd
import pytest
from commands import fathom, refusal

from fathom.results.description import Description

onnx = pytest.importorskip("onnx")


@pytest.fixture
def network(tmp_path):
    helper = onnx.helper
    node = helper.make_node("Conv", ["x", "w"], ["c"], name="first/Conv")
    det = helper.make_node("Det", ["c"], ["y"], name="last/Det")
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ("batch", 3, 8, 8))
    weight = onnx.numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), "w")
    graph = helper.make_graph([node, det], "g", [value], [onnx.ValueInfoProto(name="y")], [weight])
    file = tmp_path / "net.onnx"
    opsets = [helper.make_opsetid("", 22)]
    file.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return file


def test_describe_says_what_has_no_rule(network, tmp_path, capsys):
    file = tmp_path / "net.json"
    assert fathom("describe", network, "--dim", "batch=2", "--json", file) == 0
    assert "no rule for Det: " in capsys.readouterr().out
    description = Description.read(file)
    assert description.macs == 2 * 4 * 36 * 27
    assert description.workload == "net"


def test_the_commands_that_take_a_workload_take_a_file_or_its_description(network, tmp_path):
    written, table = tmp_path / "net.json", tmp_path / "t.csv"
    size = ("--dim", "batch=2")
    assert fathom("describe", network, *size, "--json", written) == 0
    for source in ((network, *size), (written,)):
        machine = ("--machine", "h100", "--csv", table)
        assert fathom("roofline", *source, *machine) == 0
        assert pd.read_csv(table).flops.sum() == 2 * 2 * 4 * 36 * 27
        assert fathom("scale", *source, *machine, "--nodes", "1,2") == 0
        assert fathom("explore", *source, "--machine", "virtex7-485t") == 0
        out = tmp_path / "out"
        assert fathom("export", *source, "--to", "scale-sim", "--out", out, "--force") == 0
        assert "first" in (out / "convolutions.csv").read_text()


def test_an_open_size_may_be_0(network, capsys):
    message = refusal(capsys, fathom("describe", network, "--dim", "batch=0"))
    assert "the operations compute and move nothing" in message  # and no complaint of its form


def test_a_sweep_is_over_open_sizes(network, tmp_path):
    table = tmp_path / "t.csv"
    assert fathom("describe", network, "--sweep", "batch=1,8", "--csv", table) == 0
    assert pd.read_csv(table).batch.tolist() == [1, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "leaves sizes open: give --dim batch=N"),
        (("--dim", "batch=2", "--batch-size", "2"), "--batch-size is of a workload: omit it"),
        (("--dim", "batch=2", "--dim", "time=3"), "--dim time has no effect"),
        (("--dim", "batch"), "must be NAME=N"),
        (("--dim", "batch=2", "--precision", "bfloat16"), "--precision is of a workload"),
        (("--dim", "batch=2", "--sweep", "batch=1,2"), "--dim batch has no effect: --sweep"),
    ],
)
def test_mistakes_are_named_in_one_line(network, options, message, capsys):
    assert message in refusal(capsys, fathom("describe", network, *options))


def test_workloads_take_no_sizes_and_files_no_formats_of_networks(network, tmp_path, capsys):
    for arguments, message in (
        (("describe", "autoenc", "--dim", "batch=2"), "--dim is of a network's file: a work"),
        (("export", network, "--to=keras", "--out", tmp_path / "out"), "keras is of a workload's"),
        (("describe", tmp_path / "none.onnx"), "none.onnx does not exist"),
    ):
        assert message in refusal(capsys, fathom(*arguments))


def test_small_numbers_are_shown_and_a_file_of_layers_needs_no_workload(network, capsys):
    assert fathom("describe", network, "--dim", "batch=2") == 0
    assert "7.78e-06 GMACs" in capsys.readouterr().out
    layers = ("--layers", "net.csv", "--machine", "virtex7-485t")
    error = refusal(capsys, fathom("explore", "alexnet", *layers))
    assert "net.csv is a file of layers: omit alexnet" in error


@pytest.mark.parametrize("end", ["", "/"])
def test_a_saved_model_is_named_with_and_without_a_stroke(tmp_path, monkeypatch, capsys, end):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    error = refusal(capsys, fathom("describe", f"saved{end}"))
    assert "saved_model.pb is damaged or no SavedModel" in error
    assert "missing does not exist" in refusal(capsys, fathom("describe", "missing/"))
