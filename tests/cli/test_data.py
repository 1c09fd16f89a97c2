"""``python -m fathom data`` as a user meets it."""

import pytest
from commands import SMALL, run

from fathom.__main__ import main
from fathom.cli.run import run_workload


def test_data_sets_are_listed_synthesized_and_verified(capsys, tmp_path):
    assert run(main, ["data", "list"]) == 0
    assert "CC BY-SA 3.0" in capsys.readouterr().out
    folder = tmp_path / "mnist"
    assert run(main, ["data", "synthesize", "mnist", "--data-dir", str(folder)]) == 0
    assert len(list(folder.iterdir())) == 4
    assert run(run_workload, "autoenc", [*SMALL, "--steps=1", f"--data-dir={folder}"]) == 0
    capsys.readouterr()
    assert run(main, ["data", "verify", "mnist", "--data-dir", str(folder)]) == 2
    assert "train-images-idx3-ubyte.gz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "mnist"], "no mnist to verify"),
        (["fetch", "imagenet"], "licensed"),
        (["fetch", "minst"], "did you mean mnist?"),
        (["synthesize", "mnist"], "needs --data-dir"),
        (["synthesize", "mnist", "--data-dir", "."], "already there"),
        (["synthesize", "mnist", "--data-dir", "no", "--seed", "-1"], "--seed must not be"),
        (["convert", "imagenet", "--to=tfrecord", "--out=x", "--shards=0"], "--shards must be"),
        ([], "required"),
    ],
)
def test_a_mistake_is_answered_by_one_line(arguments, message, capsys):
    assert run(main, ["data", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
