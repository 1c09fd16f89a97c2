"""The commands as a user meets them: what they print, what they leave, how they exit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from fathom import Autoenc, FathomError, workloads
from fathom.__main__ import main
from fathom.cli import run as run_module
from fathom.cli import suite
from fathom.cli.run import run_workload
from fathom.system import device

SMALL = ["--set=hidden_units=8", "--set=latents=2", "--batch-size=10", "--device=cpu"]
SINGLY = "--set=steps_per_call=1"


def run(command, *arguments):
    """Runs a command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as stop:
        command(*arguments)
    return stop.value.code


def fail(*_):
    raise FathomError("it cannot be done")


def after_step_3(monkeypatch, action):
    """Does something each time that the training's fourth step has ended."""
    monkeypatch.setattr(Autoenc, "end_step", lambda self, number: number == 3 and action())


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
    assert f"written: {tmp_path / 'autoenc-samples.png'}" in printed
    assert json.loads(result.read_text())["ended"] == "complete"


def test_a_run_of_long_steps_says_before_the_first_how_long_they_are(capsys, tmp_path, monkeypatch):
    result = tmp_path / "result.json"
    arguments = [*SMALL, "--steps=1", f"--json={result}"]
    assert run(run_workload, "autoenc", arguments) == 0
    assert "running 1 steps\n" in capsys.readouterr().out
    flops = 10 * json.loads(result.read_text())["cost"]["training_flops_per_example"]
    monkeypatch.setattr(run_module, "_FLOPS_TO_TIME", flops)
    monkeypatch.setattr(device, "gemm_rate", lambda *_: flops / 60)
    assert run(run_workload, "autoenc", arguments) == 0
    assert "running 1 steps, each about 60 s or more; --batch-size" in capsys.readouterr().out


def test_a_printed_number_is_one_of_the_result(capsys, tmp_path):
    result = tmp_path / "result.json"
    run(run_workload, "autoenc", [*SMALL, "--steps=60", f"--json={result}"])
    document = json.loads(result.read_text())
    printed = capsys.readouterr().out
    assert f"median {1e3 * document['steps']['median']:,.2f} ms" in printed
    assert f"{document['steps']['loss'][-1]:.5g} at last" in printed
    assert f"{document['cost']['parameters']:,} parameters" in printed


def test_steps_of_a_single_call_are_said_to_be_one_measurement(capsys):
    assert run(run_workload, "autoenc", [*SMALL, "--steps=20"]) == 0
    printed = capsys.readouterr().out
    assert " ms, one measurement (4 warm-up steps left out)" in printed
    assert "spread" not in printed


def test_an_evaluation_that_fails_does_not_lose_the_run(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(Autoenc, "evaluate", fail)
    result = tmp_path / "result.json"
    arguments = [*SMALL, "--steps=3", "--evaluate", f"--json={result}"]
    assert run(run_workload, "autoenc", arguments) == 2
    document = json.loads(result.read_text())
    assert len(document["steps"]["loss"]) == 3
    assert document["ended"] == "it cannot be done"


def test_a_picture_that_fails_does_not_lose_the_metrics(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(Autoenc, "save_pictures", fail)
    result = tmp_path / "result.json"
    arguments = [*SMALL, "--steps=3", "--evaluate", f"--json={result}"]
    assert run(run_workload, "autoenc", arguments) == 2
    document = json.loads(result.read_text())
    assert "negative_elbo" in document["metrics"]
    assert document["ended"] == "it cannot be done"


def test_that_there_is_no_test_data_is_found_out_before_the_training(capsys, monkeypatch):
    monkeypatch.setattr(Autoenc, "evaluation_batches", lambda self: iter(()))
    assert run(run_workload, "autoenc", [*SMALL, "--steps=3", "--evaluate"]) == 2
    printed = capsys.readouterr()
    assert "no test data to evaluate on" in printed.err
    assert "running" not in printed.out


def test_an_untrained_network_is_said_to_be_one_where_it_is_evaluated(capsys, tmp_path):
    arguments = [*SMALL, "--steps=1", f"--json={tmp_path}/x", f"--checkpoint-dir={tmp_path}"]
    assert run(run_workload, "autoenc", [*arguments, "--evaluate"]) == 0
    assert run(run_workload, "autoenc", [*arguments, "--infer", "--evaluate"]) == 0
    assert "the network is untrained" not in capsys.readouterr().out
    assert run(run_workload, "autoenc", [*arguments[:-1], "--infer", "--evaluate"]) == 0
    assert "the network is untrained" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_in_one_line_and_what_was_done_is_saved(
    number, code, capsys, tmp_path, monkeypatch
):
    after_step_3(monkeypatch, lambda: signal.raise_signal(number))
    result = tmp_path / "result.json"
    arguments = [*SMALL, SINGLY, "--steps=9", f"--json={result}"]
    arguments.append(f"--checkpoint-dir={tmp_path / 'checkpoints'}")
    assert run(run_workload, "autoenc", arguments) == code
    assert capsys.readouterr().err == (
        "fathom.autoenc: interrupted; --resume continues from step 4\n"
    )
    document = json.loads(result.read_text())
    assert len(document["steps"]["loss"]) == 4
    assert document["sections"]["run"] > 0
    assert document["ended"] == "interrupted"
    assert run(run_workload, "autoenc", [*arguments, "--resume"]) == 0
    resumed = json.loads(result.read_text())["steps"]
    assert run(run_workload, "autoenc", arguments[:-1]) == code  # nothing to save, nothing held
    monkeypatch.undo()
    assert run(run_workload, "autoenc", arguments[:-1]) == 0
    whole = json.loads(result.read_text())["steps"]
    assert document["steps"]["loss"] + resumed["loss"] == whole["loss"]


def test_a_second_signal_ends_a_run_at_once(capsys, tmp_path, monkeypatch):
    def insist():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    after_step_3(monkeypatch, insist)
    arguments = [*SMALL, SINGLY, "--steps=9", "--checkpoint-every=2"]
    arguments.append(f"--checkpoint-dir={tmp_path}")
    assert run(run_workload, "autoenc", arguments) == 130
    assert capsys.readouterr().err == (
        "fathom.autoenc: interrupted; --resume continues from step 2\n"
    )


def test_a_signal_before_the_first_step_ends_a_run_at_once(capsys, tmp_path, monkeypatch):
    def stop(*_):
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the signal was held back")

    monkeypatch.setattr(Autoenc, "training_batches", lambda *_: map(stop, [0]))
    arguments = [*SMALL, "--steps=9", f"--checkpoint-dir={tmp_path}"]
    assert run(run_workload, "autoenc", arguments) == 143
    assert capsys.readouterr().err.endswith("interrupted; no checkpoint was written yet\n")


def test_a_signal_that_tensorflow_makes_another_error_of_is_still_an_interruption(
    capsys, monkeypatch
):
    def stop():
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as stopped:
            raise TypeError from stopped

    after_step_3(monkeypatch, stop)
    assert run(run_workload, "autoenc", [*SMALL, SINGLY, "--steps=9"]) == 143
    assert capsys.readouterr().err == "fathom.autoenc: interrupted\n"


def test_a_run_that_ends_in_an_error_is_recorded_as_far_as_it_came(capsys, tmp_path, monkeypatch):
    after_step_3(monkeypatch, fail)
    result = tmp_path / "result.json"
    arguments = [*SMALL, SINGLY, "--steps=9", f"--json={result}"]
    assert run(run_workload, "autoenc", arguments) == 2
    document = json.loads(result.read_text())
    assert len(document["steps"]["seconds"]) == 4
    assert document["ended"] == "it cannot be done"


def test_of_a_run_that_ends_before_its_first_step_nothing_is_written(capsys, tmp_path):
    arguments = [*SMALL, "--batch-size=5000", f"--json={tmp_path / 'result.json'}"]
    assert run(run_workload, "autoenc", arguments) == 2
    assert list(tmp_path.iterdir()) == []


def test_memory_that_is_not_there_is_answered_by_one_line(capsys, monkeypatch):
    def exhaust(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\n[[Op]]")

    monkeypatch.setattr(Autoenc, "build_inputs", exhaust)
    assert run(run_workload, "autoenc", SMALL) == 2
    assert capsys.readouterr().err == (
        "fathom.autoenc: error: not enough memory (OOM when allocating tensor): use a smaller "
        "--batch-size, or smaller hyperparameters\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_under_standard_output_does_not_end_a_training(capsys, tmp_path, monkeypatch):
    result = tmp_path / "result.json"
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(run_workload, "autoenc", [*SMALL, "--steps=3", f"--json={result}"]) == 1
    assert capsys.readouterr().err == (
        "fathom.autoenc: error: cannot print: No space left on device\n"
    )
    assert json.loads(result.read_text())["ended"] == "complete"


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


def test_resuming_starts_from_the_beginning_where_there_is_nothing_to_resume(capsys, tmp_path):
    arguments = [*SMALL, "--steps=3", f"--checkpoint-dir={tmp_path / 'run'}", "--resume"]
    assert run(run_workload, "autoenc", arguments) == 0
    printed = capsys.readouterr().out
    assert f"nothing to resume in {tmp_path / 'run'}: starting from the beginning\n" in printed
    assert "step 3/3" in printed


def test_a_damaged_checkpoint_is_said_to_be_passed_over(capsys, tmp_path):
    arguments = [*SMALL, SINGLY, "--checkpoint-every=2", f"--checkpoint-dir={tmp_path}"]
    assert run(run_workload, "autoenc", [*arguments, "--steps=4"]) == 0
    (tmp_path / "ckpt-4.data-00000-of-00001").write_bytes(b"")
    assert run(run_workload, "autoenc", [*arguments, "--steps=5", "--resume"]) == 0
    printed = capsys.readouterr().out
    assert "ckpt-4 is damaged (" in printed
    assert "): continuing from ckpt-2\n" in printed
    assert "step 5/5" in printed


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
        (["--checkpoint-every=5"], "--checkpoint-every needs --checkpoint-dir"),
        (["--checkpoint-dir="], "--checkpoint-dir is empty"),
        (["--checkpoint-dir=~nouser/x"], "the home folder is not known"),
        (["--checkpoint-dir=/proc/x"], "cannot write checkpoints in /proc/x"),
        (["--infer", "--checkpoint-dir=x"], "x holds no checkpoint"),
        (["--set=seed=5"], "seed is no hyperparameter: use --seed"),
        (["--set=data_dir=x"], "data_dir is no hyperparameter: use --data-dir"),
        (["--set=sed=5"], "steps_per_call\n"),  # the last of the known, without the options
        (["--batch-size=99999999999999999999"], "batch_size must be at most 2147483647"),
        (["--set=latents=99999999999999999999"], "latents must be at most 2147483647"),
        ([f"--json={300 * 'a'}"], "File name too long"),
        (["--json=."], "is a folder"),
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
        (["data", "synthesize", "mnist", "--data-dir", "no", "--seed", "-1"], "seed must be"),
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
    assert run(suite.main, [*arguments, f"--out={out}"]) == 1
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


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--workloads=alexnot", "did you mean alexnet?"),
        ("--batch-size=0", "--batch-size must be at least 1, not 0"),
        ("--device=foo", "unknown device 'foo'"),
    ],
)
def test_the_batch_refuses_a_mistake_before_any_run(
    argument, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run(suite.main, [argument]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", ["exit code 2: no data", None])
def test_the_batch_keeps_an_older_result_until_the_new_run_has_succeeded(
    failure, tmp_path, monkeypatch
):
    def execute(command, *_):
        Path(command[-1].removeprefix("--json=")).write_text('{"ended": "now"}')
        return failure

    monkeypatch.setattr(suite, "_execute", execute)
    document = tmp_path / "autoenc-train.json"
    document.write_text('{"ended": "before"}')
    shown = suite._run_one("autoenc", "train", None, tmp_path, None)
    assert shown == failure or shown == {"ended": "now"}
    assert json.loads(document.read_text())["ended"] == ("before" if failure else "now")
    assert list(tmp_path.iterdir()) == [document]


def test_an_interrupted_batch_leaves_no_run_behind(capsys, tmp_path, monkeypatch):
    started = []

    def start(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    def interrupt(log):
        raise KeyboardInterrupt

    popen = subprocess.Popen
    monkeypatch.setattr(suite.subprocess, "Popen", start)
    monkeypatch.setattr(suite, "_last_line", interrupt)
    arguments = ["--workloads=autoenc", "--device=cpu", f"--out={tmp_path}"]
    assert run(suite.main, arguments) == 130
    assert [process.wait() for process in started] == [-signal.SIGKILL]


def test_the_batch_shows_no_spread_of_one_measurement(capsys, tmp_path):
    arguments = ["--workloads=autoenc", "--steps=1", "--batch-size=2", "--device=cpu"]
    assert run(suite.main, [*arguments, f"--out={tmp_path}"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("autoenc")]
    assert len(rows) == 2
    assert not any("%" in row for row in rows)


def test_runtest_runs_in_the_active_environment(tmp_path):
    script = Path(__file__).parents[2] / "runtest.sh"
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
