import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from fathom.system import processes

SLEEP = ["-c", "import time; print('asleep', flush=True); time.sleep(600)"]


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("print('fine')", None),
        ("import sys; print('one'); sys.exit('no such data')", "exit code 1: no such data"),
        ("import sys; print('said'); sys.exit(3)", "exit code 3: said"),
        ("raise SystemExit(3)", "exit code 3: it printed nothing"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9 (Killed)"),
    ],
)
def test_a_failure_is_one_line_with_exit_code_and_what_was_printed_last(code, failure, tmp_path):
    assert processes.run_python(["-c", code], tmp_path / "log") == failure


def test_all_that_is_printed_is_in_the_log_and_nothing_is_read(tmp_path):
    code = "import sys; print('out'); print('err', file=sys.stderr); print(sys.stdin.read() == '')"
    assert processes.run_python(["-c", code], tmp_path / "log") is None
    assert (tmp_path / "log").read_text() == "out\nerr\nTrue\n"


def test_who_watches_sees_the_last_line_and_an_interruption_kills_the_process(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(processes, "_POLL_INTERVAL_S", 0.02)
    children = []

    def watch(line):
        if line == "asleep":
            children.extend(psutil.Process().children())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        processes.run_python(SLEEP, tmp_path / "log", watch)
    assert children
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("child", ["", "import subprocess; subprocess.run(['sleep', '5'])"])
def test_a_process_that_hangs_is_stopped(tmp_path, monkeypatch, child):
    monkeypatch.setattr(processes, "_GUARD_INTERVAL_S", 0.02)
    monkeypatch.setattr(processes, "_LONGEST_IDLE_S", 1.0)
    failure = processes.run_python(["-c", child or SLEEP[1]], tmp_path / "log")
    assert failure == "stopped: it computed nothing for 0 minutes"


def test_a_process_whose_child_computes_does_not_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_GUARD_INTERVAL_S", 0.02)
    monkeypatch.setattr(processes, "_LONGEST_IDLE_S", 0.5)
    busy = "import time; end = time.time() + 2\nwhile time.time() < end: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    assert processes.run_python(["-c", code], tmp_path / "log") is None


def test_children_are_killed_for_the_thread_that_waits_for_them(tmp_path):
    ended = []
    log = tmp_path / "log"
    thread = threading.Thread(target=lambda: ended.append(processes.run_python(SLEEP, log)))
    thread.start()
    while not (log.exists() and log.read_text()):
        assert thread.is_alive()
    processes.kill_children()
    thread.join(60)
    assert ended == [f"killed by signal 9 ({signal.strsignal(9)})"]


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("cd / && echo fine", None),
        ("echo one; echo no such data >&2; exit 1", "exit code 1: no such data"),
        ("exit 3", "exit code 3: it printed nothing"),
        ("kill -9 $$", "killed by signal 9 (Killed)"),
    ],
)
def test_a_shell_command_fails_in_one_line(command, failure, tmp_path):
    assert processes.run_shell(command, tmp_path / "log", 60) == failure


def test_at_its_limit_a_shell_command_is_killed_with_its_children(tmp_path):
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        processes.run_shell("sleep 600 & echo $!; wait", tmp_path / "log", 0.3)
    assert 0.3 <= time.monotonic() - started < 60
    assert ended(int((tmp_path / "log").read_text()))


def test_an_interruption_kills_a_shell_command_with_its_children(tmp_path, monkeypatch):
    def interrupted(process):
        while not (tmp_path / "log").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        processes.run_shell("sleep 600 & echo $!; wait", tmp_path / "log", 60)
    assert ended(int((tmp_path / "log").read_text()))


def test_a_shell_command_and_its_children_end_with_the_parent_however_that_ends(tmp_path):
    log = tmp_path / "log"
    code = (
        "import pathlib; from fathom.system.processes import run_shell;"
        f"run_shell('sleep 600 & echo $!; wait', pathlib.Path({str(log)!r}), 600)"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        while not (log.exists() and log.read_text()):
            assert parent.poll() is None
            time.sleep(0.01)
        parent.kill()
    assert ended(int(log.read_text()))


def test_a_shell_command_reads_nothing(tmp_path):
    assert processes.run_shell("read line || echo nothing", tmp_path / "log", 60) is None
    assert (tmp_path / "log").read_text() == "nothing\n"


def ended(pid):
    """Waits for the end of a process that is not our child; returns whether it came."""
    for _ in range(1000):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_process_ends_with_its_parent_however_that_ends(tmp_path):
    log = tmp_path / "log"
    code = (
        "import os, pathlib, threading; from fathom.system.processes import run_python;"
        f"log = pathlib.Path({str(log)!r});"
        "stop = lambda line: line == 'asleep' and os.kill(os.getpid(), 9);"
        f"run_python({SLEEP!r}, log, stop)"
    )
    before = set(psutil.pids())
    outcome = processes.run_python(["-c", code], tmp_path / "parent")
    assert outcome == "killed by signal 9 (Killed)"
    left = [pid for pid in set(psutil.pids()) - before if _sleeps(pid)]
    psutil.wait_procs([psutil.Process(pid) for pid in left], 60)
    assert not any(_sleeps(pid) for pid in left)


def _sleeps(pid):
    try:
        return "time.sleep(600)" in " ".join(psutil.Process(pid).cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
