"""Child processes that do not outlive their parent."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

_POLL_INTERVAL_S = 1.0
_GUARD_INTERVAL_S = 60.0
_LONGEST_IDLE_S = 3600.0  # without any processor time: it hangs
_PR_SET_PDEATHSIG = 1  # of Linux's <sys/prctl.h>
# Kills the shell's process group when its standard input ends, that is, when its parent does.
_END_WITH_PIPE = "exec 3<&0 </dev/null; { read -r _ <&3; kill -9 0; } &"
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


def run_python(
    arguments: Sequence[str], log: Path, watch: Callable[[str], object] | None = None
) -> str | None:
    """Runs Python in a child process until it ends; an exception such as an interrupt kills it.

    So does an hour in which neither it nor its children compute anything.

    Args:
        arguments: of ``python``.
        log: file for the process's output.
        watch: called each second with the last line of output.

    Returns:
        A one-line error; None after exit code 0.
    """
    command = [sys.executable, "-u", *arguments]  # unbuffered: an error is the log's last line
    ended, hung = threading.Event(), threading.Event()
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent,
        ) as process,
    ):
        try:
            # A thread, as to wait with a limit is to look often, which may disturb a measurement.
            threading.Thread(target=_guard, args=(process, ended, hung), daemon=True).start()
            while watch and process.poll() is None:
                watch(_last_line(log))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_INTERVAL_S)
            process.wait()
        finally:
            ended.set()
            process.kill()
    if hung.is_set():
        return f"stopped: it computed nothing for {_LONGEST_IDLE_S / 60:.0f} minutes"
    return failure(process.returncode, log)


def run_shell(command: str, log: Path, limit_s: float) -> str | None:
    """Runs a shell command until it ends; an interrupt or the limit kills it and its children.

    So does the end of this process. It sleeps meanwhile, so that it does not disturb what the
    command measures.

    Args:
        command: for ``/bin/sh``.
        log: file for its output.
        limit_s: longest time in seconds.

    Returns:
        A one-line error; None after exit code 0.

    Raises:
        TimeoutError: the limit was reached.
    """
    expired = threading.Event()
    with (
        log.open("wb") as file,
        subprocess.Popen(
            f"{_END_WITH_PIPE} ({command}\n)",
            shell=True,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},  # as in ``run_python``
            start_new_session=True,  # a process group, to kill the shell's children too
        ) as process,
    ):

        def stop() -> None:
            expired.set()
            _kill_group(process.pid)

        timer = threading.Timer(limit_s, stop)
        try:
            timer.start()
            process.wait()
        finally:
            timer.cancel()
            _kill_group(process.pid)
    if expired.is_set():
        raise TimeoutError
    return failure(process.returncode, log)


def _guard(
    process: "subprocess.Popen[bytes]", ended: threading.Event, hung: threading.Event
) -> None:
    """Kills a process that hangs, and says so by ``hung``; returns once it has ``ended``."""
    computed, since = 0.0, time.monotonic()
    while not ended.wait(_GUARD_INTERVAL_S):
        if (now := _processor_time(process.pid)) != computed:  # less: a child has ended
            computed, since = now, time.monotonic()
        elif time.monotonic() - since > _LONGEST_IDLE_S:
            hung.set()
            process.kill()
            return


def _processor_time(pid: int) -> float:
    """Returns the processor seconds of a process and its children; 0 once it has ended."""
    total = 0.0
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            total += sum(each.cpu_times()[:2])
    return total


def failure(code: int, log: Path) -> str | None:
    """Returns a one-line error for a process's exit code; None for 0."""
    if code < 0:
        return f"killed by signal {-code} ({signal.strsignal(-code)})"
    return f"exit code {code}: {_last_line(log) or 'it printed nothing'}" if code else None


def kill_children() -> None:
    """Kills all child processes, so that threads waiting for them end."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # all of them have ended
        os.killpg(group, signal.SIGKILL)


def _last_line(log: Path) -> str:
    """Returns the last line of output; empty if there is none."""
    return (log.read_text(errors="replace").strip().splitlines() or [""])[-1]


def end_with_parent() -> None:
    """Makes Linux kill this process when its parent ends; does nothing on other systems.

    Called in the child, between fork and exec.
    """
    if _LIBRARY is not None:
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
