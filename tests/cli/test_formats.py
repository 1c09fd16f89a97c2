import json

import pytest
from commands import SMALL, fail, run

from fathom.__main__ import main
from fathom.nn import NeuralNetworkModel

_SMALL = [each for each in SMALL if not each.startswith("--device")]


def formats(path, *arguments):
    return run(main, ["formats", "autoenc", *_SMALL, f"--json={path}", *arguments])


def rows(path):
    return [(each["precision"], each["seed"]) for each in json.loads(path.read_text())["runs"]]


@pytest.mark.slow
def test_a_training_in_several_formats_is_added_to_its_file(tmp_path, capsys):
    path = tmp_path / "train.json"
    assert formats(path, "--steps=20", "--formats=float32,fixed:16.4") == 0
    assert formats(path, "--steps=20", "--formats=float32,fixed:16.4", "--seed=1") == 0
    assert formats(path, "--steps=20", "--formats=float32", "--seed=1") == 0
    assert rows(path) == [("float32", 0), ("fixed:16.4", 0), ("float32", 1), ("fixed:16.4", 1)]
    assert "updates to 0" in capsys.readouterr().out
    coarse = json.loads(path.read_text())["runs"][1]
    assert coarse["fixed_point"]["bits"] == 16
    assert "negative_elbo" in coarse["metrics"]
    assert formats(path, "--steps=10", "--formats=float32") == 2
    assert "is of another steps" in capsys.readouterr().err


def test_inference_gives_the_error_of_each_layer(tmp_path):
    path = tmp_path / "infer.json"
    assert formats(path, "--infer", "--formats=float32,fixed8") == 0
    plain, coarse = json.loads(path.read_text())["runs"]
    assert plain["errors"] == {}
    assert all(0 <= error < 1 for error in coarse["errors"].values())
    assert any(coarse["errors"].values())


def test_without_the_checkpoint_no_file_is_left(tmp_path, capsys):
    assert formats(tmp_path / "infer.json", "--infer", f"--checkpoint-dir={tmp_path}/none") == 2
    assert "no checkpoint" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_another_failure_than_a_divergence_is_no_result(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(NeuralNetworkModel, "evaluate", fail)
    assert formats(tmp_path / "train.json", "--steps=1", "--formats=float32") == 2
    assert "it cannot be done" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("formats_", "message"),
    [
        ("fixed1", "from 2 to 64 bits, not 1"),
        ("float32,fixed:65.3", "from 2 to 64 bits, not 65"),
        ("fixed:16.17", "more than its 16 bits"),
        ("real", "precision must be one of"),
    ],
)
def test_a_format_that_does_not_exist_is_refused(formats_, message, tmp_path, capsys):
    assert formats(tmp_path / "file.json", f"--formats={formats_}") == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
