import json
import os
import signal
import threading
import time

import pytest

from fathom.memnet import tasks
from fathom.system.processes import run_python

OPTIONS = ["hops=1", "embedding=4", "epochs=1", "restarts=1", "linear_start=false"]


def run(*arguments):
    with pytest.raises(SystemExit) as done:
        tasks.main([str(argument) for argument in arguments])
    return done.value.code


@pytest.mark.slow
def test_a_task_that_fails_is_named_and_those_that_are_done_are_not_run_again(
    stories, tmp_path, capfd
):
    arguments = ["--out", tmp_path, "--data-dir", stories, "--workers", 2]
    arguments += [f"--set={option}" for option in OPTIONS]
    assert run(*arguments, "--tasks", 3, 1) == 2
    out, err = capfd.readouterr()
    assert len(err.splitlines()) == 1
    assert "task 3: " in err
    assert "has no task 3" in err
    assert "task 1: done" in out

    document = json.loads((tmp_path / "task-1" / "result.json").read_text())
    assert document["hyperparameters"]["task"] == 1
    error = document["metrics"]["error_percent"]
    document["metrics"]["error_percent"] = other = 98.7
    (tmp_path / "task-6").mkdir()
    (tmp_path / "task-6" / "result.json").write_text(json.dumps(document))
    assert run(*arguments, "--tasks", 1, 6) == 0
    shown = capfd.readouterr().out
    for percent in (error, other, (error + other) / 2, 0.1, 7.9, 4.0):
        assert f"{percent:.1f}" in shown
    assert "test error %" in shown
    assert "task 1:" not in shown  # it was not run again


def test_results_of_other_options_are_refused(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tasks, "_run_task", lambda *_: "stopped")
    asked = ["--out", tmp_path / "out", "--tasks", 1]
    results = {}
    monkeypatch.setattr(tasks, "_read", lambda folder, task: results.get(task))
    for options, message in (
        *(((), "stopped"), (("--seed=1",), "stopped")),  # nothing has a result yet
        (("--seed=2",), "are of another --seed"),
    ):
        assert run(*asked, *options) == 2
        assert message in capfd.readouterr().err
        if options:
            results[3] = "some"


def test_a_damaged_note_of_the_options_is_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tasks, "_run_task", lambda *_: "stopped")
    asked = ["--out", tmp_path / "out", "--tasks", 1]
    assert run(*asked) == 2
    monkeypatch.setattr(tasks, "_read", lambda folder, task: "some")
    for damaged in ("{", "[1]", "3"):
        (tmp_path / "out" / "asked.json").write_text(damaged)
        capfd.readouterr()
        assert run(*asked) == 2
        assert "asked.json cannot be read" in capfd.readouterr().err


def test_the_published_mean_is_13_8():
    assert sum(tasks.PUBLISHED) / 20 == pytest.approx(13.8, abs=0.05)


def test_too_few_workers_are_refused(tmp_path, capfd):
    assert run("--out", tmp_path, "--workers", 0) == 2
    assert "--workers must be at least 1" in capfd.readouterr().err


def test_an_interruption_ends_the_tasks_that_are_running(tmp_path, monkeypatch, capfd):
    code = "import time; print('asleep', flush=True); time.sleep(600)"
    ended = []

    def sleep(command, log):
        ended.append(run_python(["-c", code], log))

    def interrupt():
        while len([log for log in tmp_path.glob("*/log") if log.read_text()]) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(tasks, "run_python", sleep)
    threading.Thread(target=interrupt).start()
    assert run("--out", tmp_path, "--workers", 2) == 143
    assert ended == ["killed by signal 9 (Killed)"] * 2
    assert capfd.readouterr().err == "fathom.memnet.tasks: interrupted\n"
