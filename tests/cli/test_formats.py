import json

import pytest
from commands import SMALL, fail, refusal, run

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
    error = refusal(capsys, formats(path, "--steps=10", "--formats=float32"))
    assert "is of another experiment, which differs in steps" in error


@pytest.mark.slow
def test_inference_gives_the_error_of_each_layer(tmp_path):
    path = tmp_path / "infer.json"
    assert formats(path, "--infer", "--formats=float32,fixed16,fixed8") == 0
    plain, fine, coarse = json.loads(path.read_text())["runs"]
    tensors = [each["fixed_point"]["tensors"] for each in (fine, coarse)]
    first, second = ([tensor["layer"] for tensor in each] for each in tensors)
    assert first == second  # also those that Keras has named
    assert plain["errors"] == {}
    assert all(0 <= error < 1 for error in coarse["errors"].values())
    assert any(coarse["errors"].values())


@pytest.mark.slow
def test_runs_of_another_checkpoint_or_of_other_data_are_not_taken_for_these(tmp_path, capsys):
    path, folder = tmp_path / "infer.json", tmp_path / "checkpoints"
    trained = ["run", "autoenc", *SMALL, "--steps=1", f"--checkpoint-dir={folder}"]
    assert run(main, trained) == 0
    infer = ["--infer", "--formats=float32"]
    assert formats(path, *infer, f"--checkpoint-dir={folder}") == 0
    assert formats(path, *infer, f"--checkpoint-dir={folder}", "--formats=fixed8") == 0
    assert rows(path) == [("float32", 0), ("fixed8", 0)]
    assert run(main, [*trained, "--steps=2", "--resume"]) == 0
    capsys.readouterr()
    error = refusal(capsys, formats(path, *infer, f"--checkpoint-dir={folder}"))
    assert "differs in checkpoint: name a new file" in error
    data = tmp_path / "mnist"
    assert run(main, ["data", "synthesize", "mnist", f"--data-dir={data}", "--seed=3"]) == 0
    error = refusal(capsys, formats(path, *infer, f"--data-dir={data}"))
    assert "differs in checkpoint, data: name a new file" in error


def test_without_the_checkpoint_no_file_is_left(tmp_path, capsys):
    error = refusal(
        capsys, formats(tmp_path / "infer.json", "--infer", f"--checkpoint-dir={tmp_path}/none")
    )
    assert "no checkpoint" in error
    assert not list(tmp_path.iterdir())


def test_another_failure_than_a_divergence_is_no_result(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(NeuralNetworkModel, "evaluate", fail)
    error = refusal(capsys, formats(tmp_path / "train.json", "--steps=1", "--formats=float32"))
    assert "it cannot be done" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("formats_", "message"),
    [
        ("fixed1", "from 2 to 64 bits, not 1"),
        ("float32,fixed:65.3", "from 2 to 64 bits, not 65"),
        ("fixed:16.17", "more than its 16 bits"),
        ("real", "precision must be one of"),
        ("float32,tf32", "precision tf32 is for GPUs only"),
        ("fixed\uff11\uff16", "precision must be one of"),
    ],
)
def test_a_format_that_does_not_exist_is_refused(formats_, message, tmp_path, capsys):
    assert message in refusal(capsys, formats(tmp_path / "file.json", f"--formats={formats_}"))
