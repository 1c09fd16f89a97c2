"""``fathom export`` writes whole folders, and replaces none unasked."""

import importlib.util
import json
import resource
from unittest import mock

import keras
import pytest
import tensorflow as tf
from commands import fail, fathom, refusal

from fathom import exports

SMALL = ("export", "autoenc", "--batch-size=3", "--set=hidden_units=7", "--infer")


def test_the_formats_are_listed(capsys):
    assert fathom("export", "--to", "list") == 0
    assert "scale-sim: topology files of SCALE-Sim 3" in capsys.readouterr().out


def test_an_export_is_a_new_folder_unless_it_is_to_replace_one(tmp_path, capsys):
    out = tmp_path / "out"
    assert fathom(*SMALL, "--to", "scale-sim", "--out", out) == 0
    assert "not expressed: " in capsys.readouterr().out
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    assert before.keys() == {".fathom", "products.csv", "repetitions.csv"}
    assert "exists" in refusal(capsys, fathom(*SMALL, "--to", "scale-sim", "--out", out))
    (out / "products.csv").write_text("changed")
    assert fathom(*SMALL, "--to", "scale-sim", "--out", out, "--force") == 0
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    (out / "mine").write_text("kept")
    error = refusal(capsys, fathom(*SMALL, "--to", "scale-sim", "--out", out, "--force"))
    assert "holds mine, which Fathom did not write" in error
    assert (out / "mine").read_text() == "kept"


def test_an_export_that_fails_keeps_the_folder_that_it_was_to_replace(tmp_path, capsys):
    out = tmp_path / "out"
    assert fathom(*SMALL, "--to", "json", "--out", out) == 0
    with mock.patch("fathom.cli.export.write", fail):
        assert fathom(*SMALL, "--to", "json", "--out", out, "--force") == 2
    assert "it cannot be done" in capsys.readouterr().err
    assert (out / "description.json").exists()
    assert list(tmp_path.iterdir()) == [out]


def test_mistakes_are_named_in_one_line(tmp_path, capsys):
    for arguments, message in (
        ((*SMALL, "--to", "scale"), "did you mean scale-sim?"),
        (("export", "--to", "json"), "name the workload"),
        ((*SMALL, "--to", "keras", "--precision=fixed16"), "omit --precision fixed16"),
        ((*SMALL, "--to", "json", "--out", tmp_path / "a" / "b" / "c"), ""),
    ):
        code = fathom(*arguments)
        assert code == (2 if message else 0)
        assert message in capsys.readouterr().err


def test_bfloat16_is_not_exported_as_another_type(tmp_path, capsys):
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    command = (*SMALL, "--to", "onnx", "--precision=bfloat16", f"--out={tmp_path / 'out'}")
    assert fathom(*command) == 2
    assert "onnx holds no bfloat16" in capsys.readouterr().err


def test_a_network_is_exported_with_the_weights_of_a_checkpoint(tmp_path, capsys):
    network = [f"--set={name}" for name in ("hidden_units=7", "latents=2", "batch_size=5")]
    checkpoints = tmp_path / "checkpoints"
    trained = ["run", "autoenc", "--train", "--steps=2", f"--checkpoint-dir={checkpoints}"]
    assert fathom(*trained, *network) == 0
    exported = ["export", "autoenc", *network, "--to=keras"]
    capsys.readouterr()
    for out, options in (("initial", []), ("trained", [f"--checkpoint-dir={checkpoints}"])):
        assert fathom(*exported, f"--out={tmp_path / out}", *options) == 0
    assert "ckpt-2" in capsys.readouterr().out
    first, second = (
        keras.saving.load_model(tmp_path / out / "network.keras").get_weights()
        for out in ("initial", "trained")
    )
    saved = tf.train.load_checkpoint(str(checkpoints / "ckpt-2"))
    name = "variables/encoder_hidden-kernel/.ATTRIBUTES/VARIABLE_VALUE"
    assert (second[0] == saved.get_tensor(name)).all()
    assert (first[0] != second[0]).any()


def test_a_format_of_networks_says_what_it_cannot_do(tmp_path, capsys):
    out = tmp_path / "out"
    network = ("export", "autoenc", "--set=hidden_units=7", "--out", out)
    for arguments, message in (
        ((*network, "--to", "keras", "--train"), "keras holds no training step"),
        ((*network, "--to", "chakra", "--checkpoint-dir", "x"), "chakra holds no weights"),
        ((*network, "--to", "json", "--checkpoint-dir", "x"), "json holds no weights"),
        ((*network, "--to", "json", "--workers=2"), "json holds no collectives"),
        ((*network, "--to", "chakra", "--workers=3"), "cannot be divided among 3 workers"),
        ((*network, "--to", "keras", "--stepwise"), "keras holds whole networks"),
    ):
        assert message in refusal(capsys, fathom(*arguments))
    with mock.patch.object(importlib.util, "find_spec", return_value=None):
        assert fathom(*network, "--to", "onnx") == 2
    assert "tf2onnx and onnx: pip install 'fathom-workloads[exports]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", exports.names())
def test_a_full_disk_leaves_nothing_behind(to, tmp_path, capsys):
    """The limit of a file's size fails the same calls as a disk without room."""
    for package in getattr(exports.find(to), "packages", ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        code = fathom(*SMALL, "--to", to, "--out", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    error = capsys.readouterr().err
    assert code == 2, error
    assert "cannot write" in error
    assert "large" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_training_step_is_exported_with_the_weights_of_its_checkpoint(
    tmp_path, capsys, monkeypatch
):
    saved = []
    program = type(exports.find("program"))
    monkeypatch.setattr(program, "save", lambda _, model, *__: saved.append(model.steps_done) or [])
    step = ("autoenc", "--train", "--set=hidden_units=7", "--batch-size=3")
    place = f"--checkpoint-dir={tmp_path / 'trained'}"
    export = ("export", *step, "--to=program", f"--out={tmp_path / 'out'}")
    assert "holds no checkpoint" in refusal(capsys, fathom(*export, place))
    assert not any(tmp_path.iterdir())
    assert fathom("run", *step, "--steps=2", "--quiet", place) == 0
    assert fathom(*export, place) == 0
    assert saved == [2]


def test_an_export_takes_the_data_that_its_network_was_trained_on(tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    (text / "input.txt").write_text("abcdefgh\n" * 1000)
    sizes = ("layers=1", "width=16", "heads=2", "context=8", "batch_size=2")
    sets = [f"--set={size}" for size in sizes]
    out = tmp_path / "out"
    export = ("export", "gpt", "--infer", "--to=json", f"--data-dir={text}", f"--out={out}")
    assert fathom(*export, *sets) == 0
    description = json.loads((out / "description.json").read_text())
    words = [row for row in description["operations"] if row["kind"] == "matrix product"]
    assert any(row["bounds"]["N"] == 9 for row in words)
