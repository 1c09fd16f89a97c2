"""The commands as a user meets them: what they print, what they leave, how they exit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fathom import batch, cli, device, workloads
from fathom.__main__ import main
from fathom.cli import run_workload

SMALL = ["--set=hidden_units=8", "--set=latents=2", "--batch-size=10", "--device=cpu"]


def run(command, *arguments):
    """Runs a command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as stop:
        command(*arguments)
    return stop.value.code


def test_list_shows_all_eight_with_their_counts(capsys):
    assert run(main, ["list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(workloads.CLASSES) < set(rows)
    assert "815,824" in rows["autoenc"]
    assert "724,406,816" in rows["alexnet"]


def test_a_run_says_what_it_does_and_where_its_results_are(capsys, tmp_path):
    result = tmp_path / "result.json"
    arguments = [*SMALL, "--steps=5", "--evaluate", f"--json={result}"]
    assert run(run_workload, "autoenc", arguments) == 0
    printed = capsys.readouterr().out
    assert "synthetic: use --data-dir" in printed
    assert "step 5/5" in printed
    assert "negative_elbo: " in printed
    assert f"result: {result}" in printed
    assert f"picture: {tmp_path / 'autoenc-samples.png'}" in printed


def test_a_run_of_long_steps_says_before_the_first_how_long_they_are(capsys, tmp_path, monkeypatch):
    result = tmp_path / "result.json"
    arguments = [*SMALL, "--steps=1", f"--json={result}"]
    assert run(run_workload, "autoenc", arguments) == 0
    assert "running 1 steps\n" in capsys.readouterr().out
    flops = 10 * json.loads(result.read_text())["cost"]["training_flops_per_example"]
    monkeypatch.setattr(cli, "_FLOPS_TO_TIME", flops)
    monkeypatch.setattr(device, "gemm_rate", lambda *_: flops / 60)
    assert run(run_workload, "autoenc", arguments) == 0
    assert "running 1 steps, each about 60 s or more; --batch-size" in capsys.readouterr().out


def test_a_printed_number_is_one_of_the_result(capsys, tmp_path):
    result = tmp_path / "result.json"
    run(run_workload, "autoenc", [*SMALL, "--steps=20", f"--json={result}"])
    document = json.loads(result.read_text())
    printed = capsys.readouterr().out
    assert f"median {1e3 * document['steps']['median']:,.2f} ms" in printed
    assert f"{document['steps']['loss'][-1]:.5g} at last" in printed
    assert f"{document['cost']['parameters']:,} parameters" in printed


def test_an_evaluation_that_fails_does_not_lose_the_run(capsys, tmp_path, monkeypatch):
    from fathom import Autoenc, FathomError

    def fail(self):
        raise FathomError("no test data")

    monkeypatch.setattr(Autoenc, "evaluate", fail)
    result = tmp_path / "result.json"
    arguments = [*SMALL, "--steps=3", "--evaluate", f"--json={result}"]
    assert run(run_workload, "autoenc", arguments) == 2
    assert len(json.loads(result.read_text())["steps"]["loss"]) == 3


def test_quiet_prints_nothing(capfd):
    assert run(run_workload, "autoenc", [*SMALL, "--steps=2", "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


def test_epochs_count_passes_over_the_data(capsys, tmp_path):
    result = tmp_path / "result.json"
    run(run_workload, "autoenc", [*SMALL, "--batch-size=500", "--epochs=2", f"--json={result}"])
    assert len(json.loads(result.read_text())["steps"]["loss"]) == 2 * (2000 // 500)


def test_a_finished_training_has_nothing_left_to_resume(capsys, tmp_path):
    arguments = [*SMALL, "--steps=3", f"--checkpoint-dir={tmp_path}"]
    assert run(run_workload, "autoenc", arguments) == 0
    assert run(run_workload, "autoenc", [*arguments, "--resume"]) == 0
    printed = capsys.readouterr().out
    assert "after step 3" in printed
    assert "no steps were left to run" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps=1", "--epochs=1"], "exclude each other"),
        (["--infer", "--epochs=1"], "--steps with --infer"),
        (["--warmup=-1"], "--warmup must not be negative"),
        (["--steps=2", "--warmup=3"], "warm-up not more than the steps"),
        (["--set", "rate"], "NAME=VALUE"),
        (["--json=no/such/folder/result.json"], "a folder that exists"),
        (["--train", "--infer"], "not allowed with"),
        (["--precision=float8"], "invalid choice"),
        (["--step=3"], "unrecognized arguments"),
        (["--checkpoint-every=0", "--checkpoint-dir=x"], "checkpoint_every must be at least 1"),
    ],
)
def test_a_mistake_is_answered_by_one_line_and_exit_code_2(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run(run_workload, "autoenc", [*SMALL, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_hyperparameters_are_listed(capsys):
    assert run(run_workload, "autoenc", ["--set", "help"]) == 0
    assert "latents=20" in capsys.readouterr().out.splitlines()


def test_run_is_another_word_for_the_module(capsys):
    assert run(main, ["run", "autoenc", *SMALL, "--steps=1"]) == 0
    assert "step 1/1" in capsys.readouterr().out


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
        (["data", "verify", "mnist"], "no mnist to verify"),
        (["data", "fetch", "imagenet"], "licensed"),
        (["data", "fetch", "minst"], "did you mean mnist?"),
        (["data", "synthesize", "mnist"], "needs --data-dir"),
        (["data", "synthesize", "mnist", "--data-dir", "."], "already there"),
        (["run", "alexnot"], "invalid choice"),
        ([], "required"),
    ],
)
def test_a_mistake_in_a_command_is_answered_by_one_line(arguments, message, capsys):
    assert run(main, arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_batch_runs_every_workload_and_the_rest_when_one_fails(capsys, tmp_path, monkeypatch):
    broken = tmp_path / "data" / "mnist"
    broken.mkdir(parents=True)
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path / "data"))
    out = tmp_path / "out"
    arguments = ["--workloads=autoenc,alexnet", "--steps=1", "--batch-size=2", "--device=cpu"]
    assert run(batch.main, [*arguments, f"--out={out}"]) == 1
    printed = capsys.readouterr().out
    assert "autoenc --train failed: exit code 2: fathom.autoenc: error: " in printed
    rows = [line.split()[:2] for line in printed.splitlines()]
    assert ["alexnet", "train"] in rows
    assert ["alexnet", "infer"] in rows
    assert sorted(path.name for path in out.iterdir()) == [
        "alexnet-infer.json",
        "alexnet-infer.log",
        "alexnet-train.json",
        "alexnet-train.log",
        "autoenc-infer.log",
        "autoenc-train.log",
    ]


def test_the_batch_refuses_an_unknown_workload(capsys):
    assert run(batch.main, ["--workloads=alexnot"]) == 2
    assert "did you mean alexnet?" in capsys.readouterr().err


def test_runtest_runs_in_the_active_environment(tmp_path):
    script = Path(__file__).parent.parent / "runtest.sh"
    environment = {
        **os.environ,
        "VIRTUAL_ENV": sys.prefix,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [script, "--workloads=autoenc", "--steps=2", f"--out={tmp_path}"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "autoenc-infer.json").read_text())["mode"] == "infer"
