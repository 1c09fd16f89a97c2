"""``python -m fathom.<workload>`` as a user meets it: what it prints and leaves, how it exits."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf
from commands import SMALL, fail, refusal, run
from rich.console import Console

from fathom import Autoenc
from fathom.cli import run as run_module
from fathom.cli.progress import Bar, Lines
from fathom.cli.run import run_workload
from fathom.results.records import RunResult
from fathom.system import rates

SINGLY = "--set=steps_per_call=1"


def after_step_3(monkeypatch, action):
    """Does something each time that the training's fourth step has ended."""
    monkeypatch.setattr(Autoenc, "end_step", lambda self, number: number == 3 and action())


def recorded(folder, code, *arguments):
    """Runs autoenc; returns the result that it has written into a folder."""
    result = folder / "result.json"
    assert run(run_workload, "autoenc", [*SMALL, *arguments, f"--json={result}"]) == code
    return json.loads(result.read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A training with its evaluation: folder of result and checkpoints, and what was printed."""
    folder = tmp_path_factory.mktemp("finished")
    arguments = [*SMALL, "--steps=60", "--evaluate", f"--json={folder / 'result.json'}"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = run(run_workload, "autoenc", [*arguments, f"--checkpoint-dir={folder}"])
    assert code == 0
    return folder, printed.getvalue()


def test_a_run_says_what_it_does_and_where_its_results_are(finished):
    folder, printed = finished
    result = folder / "result.json"
    assert "synthetic: use --data-dir" in printed
    assert "step 60/60" in printed
    assert "negative_elbo: " in printed
    assert f"result: {result}" in printed
    assert f"written: {folder / 'autoenc-samples.png'}" in printed
    assert json.loads(result.read_text())["ended"] == "complete"


def test_a_printed_number_is_one_of_the_result(finished):
    folder, printed = finished
    document = json.loads((folder / "result.json").read_text())
    assert f"median {1e3 * document['steps']['median']:,.2f} ms" in printed
    assert f"{document['steps']['loss'][-1]:.5g} at the last" in printed
    assert f"{document['cost']['parameters']:,} parameters" in printed


@pytest.mark.parametrize(("wanted", "shown"), [("5", True), ("1", False), ("auto", False)])
def test_a_run_says_at_start_and_end_and_in_its_result_how_its_batches_are_divided(
    capsys, tmp_path, wanted, shown
):
    document = recorded(tmp_path, 0, "--steps=2", f"--microbatches={wanted}")
    printed = capsys.readouterr().out
    assert ("batch 10 in 5 microbatches, float32" in printed) == shown
    assert ("\n2 steps of 5 microbatches in " in printed) == shown
    assert document["environment"]["microbatches"] == (5 if shown else 1)


def test_evaluating_an_untrained_network_is_reported(finished, capsys, tmp_path):
    folder, printed = finished
    assert "the network is untrained" not in printed
    arguments = [*SMALL, "--infer", "--evaluate", "--steps=1", f"--json={tmp_path}/x"]
    assert run(run_workload, "autoenc", [*arguments, f"--checkpoint-dir={folder}"]) == 0
    assert "the network is untrained" not in capsys.readouterr().out
    assert run(run_workload, "autoenc", arguments) == 0
    assert "the network is untrained" in capsys.readouterr().out


def test_a_finished_training_has_nothing_left_to_resume(finished, capsys):
    folder, _ = finished
    result = folder / "result.json"
    before = result.read_text()
    arguments = [*SMALL, "--steps=60", f"--checkpoint-dir={folder}", "--resume"]
    assert run(run_workload, "autoenc", [*arguments, f"--json={result}"]) == 0
    printed = capsys.readouterr().out
    assert "after step 60" in printed
    assert f"result: {result} is kept, since no steps were left to run" in printed
    assert result.read_text() == before


def test_fewer_steps_than_the_warm_up_may_be_left_to_resume(finished, capsys, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    arguments = [*SMALL, SINGLY, f"--checkpoint-dir={folder}", "--resume", "--warmup=5"]
    for steps, printed in ((60, "no steps were left to run"), (62, "(1 warm-up steps left out)")):
        assert run(run_workload, "autoenc", [*arguments, f"--steps={steps}"]) == 0
        assert printed in capsys.readouterr().out


def test_a_folder_called_pictures_is_in_nobodys_way(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    assert run(run_workload, "autoenc", [*SMALL, "--steps=1", "--evaluate"]) == 0
    assert list(tmp_path.glob("autoenc-*.png"))


def test_a_result_that_goes_into_a_pipe_is_written_once(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipe = tmp_path / "other" / "pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        arguments = [*SMALL, "--steps=1", "--evaluate", f"--json={pipe}"]
        assert run(run_workload, "autoenc", arguments) == 0
        assert json.loads(reader.communicate(timeout=60)[0])["metrics"]["examples"] == 500
    assert list(tmp_path.glob("autoenc-*.png"))


def test_a_run_of_long_steps_says_before_the_first_how_long_they_are(capsys, tmp_path, monkeypatch):
    document = recorded(tmp_path, 0, "--steps=1")
    assert "running 1 step\n" in capsys.readouterr().out
    flops = 10 * document["cost"]["training_flops_per_example"]
    monkeypatch.setattr(run_module, "_MIN_FLOPS_TO_ESTIMATE", flops)
    monkeypatch.setattr(rates, "gemm_ceiling", lambda *_: rates.Ceiling(flops / 60, 1))
    recorded(tmp_path, 0, "--steps=1")
    assert "running 1 step, each about 60 s or more; --batch-size" in capsys.readouterr().out


def test_steps_of_a_single_call_are_reported_as_one_measurement(capsys):
    assert run(run_workload, "autoenc", [*SMALL, "--steps=20"]) == 0
    printed = capsys.readouterr().out
    assert " ms, one measurement (4 warm-up steps left out)" in printed
    assert "spread" not in printed


@pytest.mark.parametrize("share", [0.5, 0.97])
def test_a_run_that_other_processes_disturbed_says_so(capsys, monkeypatch, share):
    monkeypatch.setattr(RunResult, "cpu_share", share)
    assert run(run_workload, "autoenc", [*SMALL, "--steps=2"]) == 0
    sentence = "other processes took the processor: the steps had it 50% of their time, with "
    assert (sentence in capsys.readouterr().out) == (share == 0.5)


def test_an_evaluation_that_fails_does_not_lose_the_run(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(Autoenc, "evaluate", fail)
    document = recorded(tmp_path, 2, "--steps=3", "--evaluate")
    assert len(document["steps"]["loss"]) == 3
    assert document["ended"] == "it cannot be done"


def test_a_picture_that_fails_does_not_lose_the_metrics(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(Autoenc, "save_pictures", fail)
    document = recorded(tmp_path, 2, "--steps=3", "--evaluate")
    assert "negative_elbo" in document["metrics"]
    assert document["ended"] == "it cannot be done"


def test_that_there_is_no_test_data_is_found_out_before_the_training(capsys, monkeypatch):
    monkeypatch.setattr(Autoenc, "evaluation_batches", lambda self: iter(()))
    assert run(run_workload, "autoenc", [*SMALL, "--steps=3", "--evaluate"]) == 2
    printed = capsys.readouterr()
    assert "no test data to evaluate on" in printed.err
    assert "running" not in printed.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_in_one_line_and_what_was_done_is_saved(
    number, code, capsys, tmp_path, monkeypatch
):
    after_step_3(monkeypatch, lambda: signal.raise_signal(number))
    checkpoints = f"--checkpoint-dir={tmp_path / 'checkpoints'}"
    document = recorded(tmp_path, code, SINGLY, "--steps=9", checkpoints)
    assert capsys.readouterr().err == (
        "fathom.autoenc: interrupted; --resume continues from step 4; "
        f"result so far: {tmp_path / 'result.json'}\n"
    )
    assert len(document["steps"]["loss"]) == 4
    assert document["sections"]["run"] > 0
    assert document["ended"] == "interrupted"
    resumed = recorded(tmp_path, 0, SINGLY, "--steps=9", checkpoints, "--resume")["steps"]
    recorded(tmp_path, code, SINGLY, "--steps=9")  # nothing to save, nothing held
    monkeypatch.undo()
    whole = recorded(tmp_path, 0, SINGLY, "--steps=9")["steps"]
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
    document = recorded(tmp_path, 2, SINGLY, "--steps=9")
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
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        document = recorded(tmp_path, 1, "--steps=3")
    assert capsys.readouterr().err == (
        "fathom.autoenc: error: cannot print: No space left on device\n"
    )
    assert document["ended"] == "complete"


def test_quiet_prints_nothing(capfd):
    assert run(run_workload, "autoenc", [*SMALL, "--steps=2", "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


def test_epochs_count_passes_over_the_data(capsys, tmp_path):
    document = recorded(tmp_path, 0, "--batch-size=500", "--epochs=2")
    assert len(document["steps"]["loss"]) == 2 * (2000 // 500)


@pytest.mark.parametrize(("width", "kind"), [(79, Lines), (80, Bar)])
def test_a_terminal_too_narrow_for_a_bar_gets_lines(width, kind):
    screen = Console(file=io.StringIO(), force_terminal=True, width=width)
    args, model = SimpleNamespace(quiet=False), SimpleNamespace(example="images")
    assert type(run_module._progress(args, model, screen)) is kind


def test_resuming_starts_from_the_beginning_where_there_is_nothing_to_resume(capsys, tmp_path):
    arguments = [*SMALL, "--steps=3", f"--checkpoint-dir={tmp_path / 'run'}", "--resume"]
    assert run(run_workload, "autoenc", arguments) == 0
    printed = capsys.readouterr().out
    assert f"nothing to resume in {tmp_path / 'run'}: starting from scratch\n" in printed
    assert "step 3/3" in printed


def test_skipping_a_damaged_checkpoint_is_reported(capsys, tmp_path):
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
        (["--steps=2", "--warmup=3"], "--warmup 3 leaves no step to measure"),
        (["--steps=2", "--warmup=2"], "--warmup 2 leaves no step to measure"),
        (["--epochs=1", "--warmup=200"], "--warmup 200 leaves no step to measure: the run has 200"),
        (["--warmup=5000"], "--warmup 5000 leaves no step to measure: the run has "),
        (["--infer", "--resume", "--checkpoint-dir=x"], "omit --resume"),
        (["--infer", "--checkpoint-every=2", "--checkpoint-dir=x"], "omit --checkpoint-every"),
        (["--rounding=nearest"], "rounding has no effect in float32: omit it, or choose a fixed"),
        (["--threads=1", "--inter-op-threads=2"], "inter_op_threads=2 exceeds threads=1"),
        (["--set=batch_size=4"], "--batch-size and --set batch_size exclude each other"),
        (["--set", "rate"], "NAME=VALUE"),
        (["--json=no/such/folder/result.json"], "a folder that exists"),
        (["--train", "--infer"], "not allowed with"),
        (["--precision=float8"], "precision must be one of float32, "),
        (["--device=foo"], "unknown device 'foo'"),
        (["--microbatches=0"], "--microbatches must be at least 1, not 0"),
        (["--microbatches=some"], "--microbatches must be a whole number or auto, not 'some'"),
        (["--microbatches=3"], "batch of 10 cannot be divided into 3 microbatches"),
        (["--microbatches=2", "--infer"], "2 microbatches: this inference computes whole batches"),
        (["--microbatches=2", "--xla"], "2 microbatches: --xla would compute them in turn"),
        (["--threads=0"], "--threads must be at least 1, not 0"),
        (["--seed=-1"], "--seed must not be negative, not -1"),
        (["--steps=many"], "--steps must be a whole number, not 'many'"),
        (["--step=3"], "unrecognized arguments"),
        (["--checkpoint-every=0", "--checkpoint-dir=x"], "--checkpoint-every must be at least 1"),
        (["--set=seed=5"], "seed is not for --set: use --seed"),
        (["--set=data_dir=x"], "data_dir is not for --set: use --data-dir"),
        (["--set=sed=5"], "steps_per_call\n"),  # the last of the hyperparameters
        (["--batch-size=99999999999999999999"], "--batch-size must be at most 2147483647"),
        (["--checkpoint-every=5"], "--checkpoint-every needs --checkpoint-dir"),
        (["--checkpoint-dir="], "--checkpoint-dir is empty"),
        (["--checkpoint-dir=~nouser/x"], "the home folder is not known"),
        (["--checkpoint-dir=/proc/x"], "cannot write checkpoints in /proc/x"),
        (["--infer", "--checkpoint-dir=x"], "x holds no checkpoint"),
        (["--set=latents=99999999999999999999"], "latents must be at most 2147483647"),
        ([f"--json={300 * 'a'}"], "File name too long"),
        (["--json=."], "is a folder"),
    ],
)
def test_a_mistake_is_answered_by_one_line_and_exit_code_2(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, run(run_workload, "autoenc", [*SMALL, *arguments]))
    assert list(tmp_path.iterdir()) == []
