"""``./runtest.sh``: all workloads, each in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refusal, run
from rich.console import Console

from fathom.cli import suite
from fathom.cli.run import _print_summary, run_workload
from fathom.results.records import RunResult
from fathom.system import processes


def run_here(arguments, log, watch):
    """Does in this process, which has TensorFlow already, what ``run_python`` does in another."""
    assert arguments[:3] == ["-m", "fathom", "run"]
    with log.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        code = run(run_workload, arguments[3], arguments[4:])
    return processes.failure(code, log)


def test_the_batch_runs_every_workload_and_the_rest_when_one_fails(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "run_python", run_here)
    broken = tmp_path / "data" / "babi"
    broken.mkdir(parents=True)
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path / "data"))
    out = tmp_path / "out"
    arguments = ["--workloads=memnet,autoenc", "--steps=1", "--batch-size=2", "--device=cpu"]
    assert run(suite.main, [*arguments, f"--out={out}"]) == 1
    printed = capsys.readouterr().out
    assert "memnet --train failed: exit code 2: fathom.memnet: error: " in printed
    rows = [line.split()[:2] for line in printed.splitlines()]
    assert ["autoenc", "train"] in rows
    assert ["autoenc", "infer"] in rows
    assert sorted(path.name for path in out.iterdir()) == [
        ".fathom",
        "autoenc-infer.json",
        "autoenc-infer.log",
        "autoenc-train.json",
        "autoenc-train.log",
        "memnet-infer.log",
        "memnet-train.log",
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
    assert message in refusal(capsys, run(suite.main, [argument]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", ["exit code 2: no data", None])
def test_the_batch_keeps_an_older_result_until_the_new_run_has_succeeded(
    failure, tmp_path, monkeypatch
):
    def execute(command, *_):
        Path(command[-1].removeprefix("--json=")).write_text('{"ended": "now"}')
        return failure

    monkeypatch.setattr(suite, "_execute", execute)
    monkeypatch.setattr(RunResult, "read", lambda path: json.loads(path.read_text()))
    document = tmp_path / "autoenc-train.json"
    document.write_text('{"ended": "before"}')
    shown = suite._run_one("autoenc", "train", None, tmp_path, None)
    assert shown == failure or shown == {"ended": "now"}
    assert json.loads(document.read_text())["ended"] == ("before" if failure else "now")
    assert list(tmp_path.iterdir()) == [document]


def test_a_run_is_a_process_of_its_own_whose_result_is_kept_and_shown(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(suite, "MODES", ("infer",))
    arguments = ["--workloads=autoenc", "--steps=1", "--batch-size=2", "--device=cpu"]
    assert run(suite.main, [*arguments, f"--out={tmp_path}"]) == 0
    assert json.loads((tmp_path / "autoenc-infer.json").read_text())["mode"] == "infer"
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("autoenc"))
    assert "%" not in row  # of one measurement there is no spread


def test_on_a_gpu_its_memory_is_shown(capsys, tmp_path, monkeypatch):
    document = tmp_path / "cpu.json"
    arguments = ["--steps=1", "--batch-size=2", "--device=cpu"]
    assert run(run_workload, "autoenc", [*arguments, f"--json={document}"]) == 0
    on_cpu = RunResult.read(document)
    memory = on_cpu.memory.model_copy(update={"peak_gpu_bytes": 3 * 2**30})
    on_gpu = on_cpu.model_copy(update={"memory": memory})
    monkeypatch.setattr(suite, "_run_one", lambda *_: on_gpu)
    assert run(suite.main, ["--workloads=autoenc", f"--out={tmp_path / 'out'}"]) == 0
    (row, _) = (
        line for line in capsys.readouterr().out.splitlines() if line.startswith("autoenc  ")
    )
    assert row.split()[-1] == "3.00"
    _print_summary(on_gpu, Console())
    assert "GiB, of the GPU 3.00 GiB" in capsys.readouterr().out


def test_an_interrupted_batch_has_said_where_its_results_are(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "_run_one", lambda *_: signal.raise_signal(signal.SIGINT))
    assert run(suite.main, [f"--out={tmp_path / 'out'}"]) == 130
    assert f"results and logs: {tmp_path / 'out'}\n" in capsys.readouterr().out


def test_runtest_runs_in_the_active_environment():
    script = Path(__file__).parents[2] / "runtest.sh"
    environment = {
        **os.environ,
        "VIRTUAL_ENV": sys.prefix,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run([script, "--version"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fathom-workloads")
