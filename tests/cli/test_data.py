"""``python -m fathom data`` as a user meets it."""

import json

import pytest
from commands import SMALL, refusal, run

from fathom.__main__ import main
from fathom.cli.run import run_workload
from fathom.shared.translation.multi30k import Multi30k
from fathom.shared.translation.wmt import Wmt

SEQ2SEQ = [
    *("--device=cpu", "--steps=1", "--batch-size=2", "--set=units=4", "--set=layers=1"),
    *("--set=source_vocabulary=50", "--set=target_vocabulary=50", "--set=buckets=40-50"),
]


def test_data_sets_are_listed_synthesized_and_verified(capsys, tmp_path):
    assert run(main, ["data", "list"]) == 0
    out = capsys.readouterr().out
    assert "CC BY-SA 3.0" in out
    assert "gpt, published weights: https://huggingface.co/openai-community/gpt2" in out
    folder = tmp_path / "mnist"
    assert run(main, ["data", "synthesize", "mnist", "--data-dir", str(folder)]) == 0
    assert len(list(folder.iterdir())) == 4
    assert run(run_workload, "autoenc", [*SMALL, "--steps=1", f"--data-dir={folder}"]) == 0
    capsys.readouterr()
    error = refusal(capsys, run(main, ["data", "verify", "mnist", "--data-dir", str(folder)]))
    assert "are not MNIST's" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "mnist"], "no mnist to verify"),
        (["fetch", "imagenet"], "is not downloaded by this command"),
        (["fetch", "minst"], "did you mean mnist?"),
        (["synthesize", "mnist"], "needs --data-dir"),
        (["synthesize", "mnist", "--data-dir", "."], "must be a folder of its own"),
        (["synthesize", "mnist", "--data-dir", "no", "--seed", "-1"], "--seed must not be"),
        (["convert", "imagenet", "--to=tfrecord", "--out=x", "--shards=0"], "--shards must be"),
        ([], "required"),
    ],
)
def test_a_mistake_is_answered_by_one_line(arguments, message, capsys):
    assert message in refusal(capsys, run(main, ["data", *arguments]))


@pytest.fixture
def read_only_home(tmp_path, monkeypatch):
    """Has a cache that cannot be made, whoever runs the tests."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "file" / "cache"))


@pytest.mark.parametrize("command", [["list"], ["data", "list"]])
def test_listing_writes_nothing(command, read_only_home, capsys):
    assert run(main, command) == 0
    assert "babi" in capsys.readouterr().out


def text(folder, dataset):
    folder.mkdir(parents=True)
    dataset.synthesize(folder, 0, train_size=50, test_size=5)
    return folder


@pytest.mark.parametrize(
    ("dataset", "arguments", "name"),
    [
        pytest.param(Wmt, [], "wmt", marks=pytest.mark.slow),
        pytest.param(Multi30k, [], "multi30k", marks=pytest.mark.slow),
        (Multi30k, ["--dataset=multi30k"], "multi30k"),
    ],
)
def test_a_workload_with_several_data_sets_says_which_it_read(
    dataset, arguments, name, tmp_path, capsys
):
    folder, result = text(tmp_path / "text", dataset), tmp_path / "result.json"
    arguments = [*SEQ2SEQ, *arguments, f"--data-dir={folder}", f"--json={result}"]
    assert run(run_workload, "seq2seq", arguments) == 0
    assert json.loads(result.read_text())["data"]["name"] == name
    assert f"data: {dataset.title}, {folder}" in capsys.readouterr().out


def test_a_data_set_that_the_workload_does_not_have_is_refused(capsys):
    error = refusal(capsys, run(run_workload, "seq2seq", [*SEQ2SEQ, "--dataset=mnist"]))
    assert "unknown data set 'mnist': Known are wmt, multi30k" in error


def test_verifying_takes_a_language_and_a_sample_or_all(tmp_path, capsys):
    folder = text(tmp_path / "text", Multi30k)
    verify = ["data", "verify", "multi30k", f"--data-dir={folder}"]
    assert run(main, verify) == 0
    assert "60 sentence pairs of en and de can be read (up to" in capsys.readouterr().out
    assert run(main, [*verify, "--all"]) == 0
    assert "60 sentence pairs of en and de can be read\n" in capsys.readouterr().out
    error = refusal(capsys, run(main, [*verify, "--set", "target_language=fr"]))
    assert "no training text of en and fr" in error
    assert "unknown option 'target'" in refusal(capsys, run(main, [*verify, "--set", "target=fr"]))


def test_a_form_that_a_data_set_cannot_be_converted_to_is_refused(tmp_path, capsys):
    arguments = ["data", "convert", "imagenet", "--to", "zip", f"--out={tmp_path / 'out'}"]
    assert run(main, arguments) == 2
    assert capsys.readouterr().err == (
        "fathom: error: imagenet cannot be converted to zip: known is tfrecord\n"
    )
