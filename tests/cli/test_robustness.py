"""Commands under closed streams, full disks, narrow terminals, odd names and low limits."""

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from commands import SMALL, refusal, run
from registration import write_metadata
from rich.table import Table

from fathom import FathomError
from fathom.__main__ import main
from fathom.cli.run import run_workload
from fathom.cli.terminal import Screen
from fathom.results.records import RunResult
from fathom.system import memory
from fathom.testing.descriptors import descriptor

AUTOENC = [sys.executable, "-m", "fathom.autoenc", *SMALL, "--steps=2"]


def autoenc(*arguments):
    """Runs autoenc in this process."""
    run_workload("autoenc", [*SMALL, "--steps=2", *arguments])


def shell(command, **options):
    """Runs a line of shell with $AUTOENC in it, with Python's own buffers; returns the process."""
    buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-c", command.replace("$AUTOENC", " ".join(AUTOENC))],
        capture_output=True,
        text=True,
        timeout=120,
        **{"env": buffered, **options},
    )


@pytest.mark.slow
def test_standard_output_can_be_closed(tmp_path):
    done = shell(f"$AUTOENC --json {tmp_path}/result.json >&- 2>&- <&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "result.json").read_text())["ended"] == "complete"


def test_an_error_with_closed_streams_keeps_its_exit_code():
    assert shell("$AUTOENC --steps=-1 >&- 2>&-").returncode == 2
    assert shell("$AUTOENC --no-such-option >&- 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("option", ["--steps=-1", "--no-such-option"])
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(option):
    assert shell(f"$AUTOENC {option} 2>/dev/full").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_help_that_cannot_be_printed_is_an_error():
    done = shell("$AUTOENC --help >/dev/full")
    line = "fathom.autoenc: error: cannot print: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


@pytest.mark.slow
def test_a_reader_that_stops_reading_does_not_lose_the_result(tmp_path):
    done = shell(f"set -o pipefail; $AUTOENC --json {tmp_path}/result.json | head -1")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("\n") == 1
    assert json.loads((tmp_path / "result.json").read_text())["ended"] == "complete"


@pytest.mark.slow
def test_a_run_without_other_output_ends_when_nobody_reads_it(tmp_path):
    done = shell("set -o pipefail; $AUTOENC --steps=100000000 | head -1")
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
def test_the_result_can_go_to_standard_output_alone(tmp_path):
    done = shell("$AUTOENC --json -", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["workload"] == "autoenc"
    assert "memory: peak" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_cannot_be_written_does_not_lose_the_summary(capsys, tmp_path, monkeypatch):
    def fail(self, path):
        raise FathomError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(RunResult, "write", fail)
    monkeypatch.chdir(tmp_path)
    assert run(autoenc, "--json=result.json", "--evaluate") == 2
    printed = capsys.readouterr()
    assert "step: " in printed.out
    assert "negative_elbo: " in printed.out
    assert printed.err == (
        "fathom.autoenc: error: cannot write result.json: No space left on device\n"
    )


def test_another_backend_of_keras_is_refused_before_it_is_imported():
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    done = subprocess.run(AUTOENC, env=environment, capture_output=True, timeout=120)
    assert done.returncode == 2
    expected = b"fathom.autoenc: error: Keras computes with jax: set KERAS_BACKEND=tensorflow\n"
    assert done.stderr == expected


@pytest.mark.slow
@pytest.mark.parametrize(("locale", "name"), [("C", "é.json"), ("C.UTF-8", "\udcff.json")])
def test_a_result_can_have_any_name(locale, name, tmp_path):
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = tmp_path / name
    command = [*AUTOENC, f"--json={result}"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(result.read_text())["ended"] == "complete"


@pytest.mark.parametrize("option", ["--data-dir", "--checkpoint-dir"])
def test_the_home_of_an_unknown_user_is_answered_by_one_line(option, capsys):
    error = refusal(capsys, run(autoenc, f"{option}=~nouser/x.json"))
    assert "~nouser/x.json: the home folder is not known" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "synthesize", "mnist", "--data-dir=~nouser/x"],
        ["data", "convert", "imagenet", "--to=tfrecord", "--out=~nouser/x"],
        ["profile", "autoenc", "--out=~nouser/x"],
        ["characterize", "--out=~nouser/x"],
        ["report", ".", "--out=~nouser/x"],
    ],
)
def test_a_command_makes_no_folder_for_an_unknown_user(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "~nouser/x: the home folder is not known" in refusal(capsys, run(main, arguments))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["profile", "autoenc", "--out=/proc/x"],
        ["launch", "-n=2", "--out=/proc/x", "--", "autoenc"],
    ],
)
def test_a_folder_that_cannot_be_made_is_named_in_one_line(arguments, capsys):
    line = "fathom: error: cannot make /proc/x: No such file or directory\n"
    assert refusal(capsys, run(main, arguments)) == line


@pytest.mark.parametrize(
    ("name", "problem"), [("", "is not a file"), ("none.onnx", "does not exist")]
)
def test_a_network_that_is_no_file_is_named_as_what_it_is(
    name, problem, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr("fathom.numbers.int8.require_engine", lambda: None)
    error = refusal(capsys, run(main, ["int8", "autoenc", f"--network={tmp_path / name}"]))
    assert f"{tmp_path / name} {problem}: name the network.onnx that fathom export" in error


def test_too_many_threads_of_a_characterization_are_refused(capsys):
    error = refusal(capsys, run(main, ["characterize", "--threads=1,20000"]))
    assert "must be whole numbers from 1 to 1024" in error


def test_a_checkpoint_folder_must_have_a_name_in_utf_8(capsys, tmp_path):
    assert "not valid UTF-8" in refusal(capsys, run(autoenc, f"--checkpoint-dir={tmp_path}/\udcff"))


@pytest.mark.slow
def test_a_dumb_terminal_shows_plain_lines():
    shown, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "dumb"}
    with os.fdopen(terminal, "w") as stdout, os.fdopen(shown, "rb") as reader:
        done = subprocess.run(AUTOENC, env=environment, stdout=stdout, timeout=120)
        assert done.returncode == 0
        assert b"step 2/2" in os.read(reader.fileno(), 10_000)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_narrow_terminal_shows_every_figure_whole(width):
    table = Table(box=None)
    cells = [f"{number:,}.25" for number in range(111_111, 1_000_000, 111_111)]
    for number in range(len(cells)):
        table.add_column(f"title {number}", justify="right")
    table.add_row(*cells)
    screen = Screen(width=width, file=io.StringIO(), soft_wrap=True)
    screen.print(table)
    assert [word for word in screen.file.getvalue().split() if "," in word] == cells


def test_too_many_threads_are_refused(capsys):
    error = refusal(capsys, run(autoenc, "--threads=1000000000"))
    assert "threads must be at most 1024, not 1000000000" in error


def test_steps_that_do_not_fit_into_memory_are_refused_with_the_remedy(capsys, monkeypatch):
    monkeypatch.setattr(memory, "_limits", lambda: iter([(20 * 2**30, "")]))
    assert refusal(capsys, run(autoenc, "--infer", "--batch-size=100000")) == (
        "fathom.autoenc: error: a call of 20 steps of autoenc at batch size 100,000 would take "
        "25,433,600,000 bytes (23.7 GiB), and 20.0 GiB are free: use a smaller --batch-size, or "
        "--set steps_per_call=1\n"
    )


@pytest.mark.slow
def test_damaged_metadata_of_another_package_stop_no_run(tmp_path):
    write_metadata(tmp_path, "damaged", {})
    (tmp_path / "damaged-0.1.dist-info" / "entry_points.txt").write_text("[scripts]\nnothing\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = shell("$AUTOENC", env=os.environ | {"PYTHONPATH": path})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_working_folder_that_is_gone_is_answered_by_one_line(tmp_path):
    done = shell("mkdir gone; cd gone; rmdir ../gone; $AUTOENC --json=x.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fathom.autoenc: error: the working folder is gone: change to another\n"


def test_a_limit_of_the_address_space_that_tensorflow_crashes_under_is_refused():
    done = shell("ulimit -v 2000000; $AUTOENC")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the address-space limit (ulimit -v) is 1.9 GiB" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload",
    ["alexnet", *(pytest.param(name, marks=pytest.mark.slow) for name in ("vgg", "residual"))],
)
def test_threads_can_be_set_where_the_synthetic_data_is_yet_to_be_made(workload, tmp_path):
    environment = {**os.environ, "FATHOM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", f"fathom.{workload}", *descriptor(workload).arguments()]
    command += ["--infer", "--steps=0", "--threads=1", "--device=cpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert ", 1 thread\n" in done.stdout
