"""``fathom launch``: starts the workers of a distributed training on this machine."""

import argparse
import contextlib
import itertools
import json
import os
import queue
import secrets
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from fathom import workloads
from fathom.cli.command import Commands, add_command, refuse
from fathom.cli.parser import USER_ERROR, add_options, number
from fathom.errors import FathomError
from fathom.system.folders import claim_folder
from fathom.system.lock import lock_folder
from fathom.system.processes import end_with_parent, failure
from fathom.system.words import counted

_POLL_S = 0.2
_LONGEST_END = 30.0  # seconds that the others have after the first worker has ended
_LONGEST_CAUSE = 10.0  # seconds that a worker has to end after another one has lost it
_LOST = "was lost"  # in the last line of a worker that has lost another, as in cli.run
_LONGEST_STOP = 600.0  # seconds for the step and the checkpoint of workers that are to stop
_PORTS = range(20000, 30000)  # on hosts, where free ports are not known; not given to clients
_SECRET = "FATHOM_LAUNCH_SECRET"  # as in core.training.rendezvous, without TensorFlow
_GPUS = "CUDA_VISIBLE_DEVICES"
_FOLDERS = ("FATHOM_DATA_DIR", "FATHOM_CACHE_DIR")


def add_commands(commands: Commands) -> None:
    """Adds the command to the subparsers of ``python -m fathom``."""
    parser = add_command(commands, "launch", "cli.launch", "train on several workers")
    add = parser.add_argument
    text = "number of workers, each a process, with a GPU of its own where there are any"
    add("-n", "--workers", type=number(int, minimum=1), required=True, metavar="N", help=text)
    text = "print the commands that start the workers on these machines, as many on each"
    add("--hosts", metavar="A,B", help=text)
    text = "after a failure, start all again from the last checkpoint, at most N times; default: 0"
    add("--max-restarts", type=number(int, minimum=0), default=0, metavar="N", help=text)
    add_options(parser, "out", default=Path("launch"), help="folder of the logs; default: launch")
    text = "after --: the workload and its options, as after fathom run; or quality, and its own"
    add("arguments", nargs="+", metavar="WORKLOAD ...", help=text)


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    if args.arguments[0] == "profile":
        raise FathomError(
            "profile is of one device; the result of a distributed training (--json) has the share "
            "of the step in sums, and the waiting of each worker"
        )
    what = "quality" if args.arguments[0] == "quality" else "run"
    given = args.arguments[1:] if what == "quality" else args.arguments
    workloads.checked_name(given[0] if given else "")
    named = {argument.split("=")[0] for argument in given}
    if "--strategy" in named:
        raise FathomError("fathom launch sets --strategy multi-worker: omit --strategy")
    if "--json" in named and {"-", "--json=-"} & {*given}:
        raise FathomError("--json - would be among the workers' lines: name a file")
    if args.max_restarts and what == "quality":
        raise FathomError("--max-restarts has no effect: quality keeps finished trainings alone")
    if args.max_restarts and "--checkpoint-dir" not in named:
        raise FathomError("--max-restarts continues from a checkpoint: give --checkpoint-dir")
    command = ["-m", "fathom", what, *given, "--strategy", "multi-worker"]
    if args.hosts:
        without = "has no effect with --hosts, which starts nothing: omit it"
        refuse(args, ["out", "max_restarts"], without)
        _print_commands(_placed(args.hosts.split(","), args.workers), command, screen)
        return
    out = claim_folder(args.out, "launch")
    _lock = lock_folder(out)  # until all have ended
    logs = [out / f"worker-{index}.log" for index in range(args.workers)]
    for log in logs:
        log.write_bytes(b"")
    screen.print(f"{counted(args.workers, 'worker')} on this machine; logs: {out}/worker-*.log")
    left = args.max_restarts
    while failed := _train(command, logs, screen):
        index, code = failed
        reason = f"worker {index} failed: {failure(code, logs[index])}"
        if not left or (code == USER_ERROR and _LOST not in reason):
            raise FathomError(f"{reason}; all ended; see {logs[index]}")
        left -= 1
        screen.print(f"{reason}; starting all again")
        command += [] if "--resume" in command else ["--resume"]


def _train(command: Sequence[str], logs: Sequence[Path], screen: Console) -> tuple[int, int] | None:
    """Starts the workers and waits for all; returns the first that failed, and its exit code.

    A failure after the first worker's end without one is only printed.

    Ctrl-C and SIGTERM let the workers end their step and write a checkpoint, as after fathom run; a
    second one ends all at once.
    """
    addresses, secret, gpus = _free_addresses(len(logs)), secrets.token_hex(), _gpus(len(logs))
    with contextlib.ExitStack() as ending:
        processes = []
        for index, log in enumerate(logs):
            file = ending.enter_context(log.open("ab"))
            environment = _environment(addresses, index, gpus[index], secret)
            processes.append(_start(command, environment, file.fileno()))
            ending.callback(processes[-1].wait, _LONGEST_END)
            ending.callback(processes[-1].kill)  # called before the wait
        output = ending.enter_context(logs[0].open(errors="replace"))
        output.seek(0, os.SEEK_END)

        def show() -> None:
            screen.print(output.read(), end="", markup=False, highlight=False)

        try:
            failed = _wait(processes, logs, show)
        except KeyboardInterrupt:
            _stop(processes, show)
            raise
    if failed is None:
        return None
    code = processes[failed].returncode
    if processes[0].returncode:
        return failed, code
    # The first worker has written the result, which a training from the last step would replace.
    late = f"worker {failed} failed: {failure(code, logs[failed])}; see {logs[failed]}"
    screen.print(f"warning: the training is complete, but {late}")
    return None


def _wait(
    processes: Sequence[subprocess.Popen], logs: Sequence[Path], show: Callable[[], None]
) -> int | None:
    """Shows the first worker's output; returns the first that failed or does not end, if any.

    A worker that has lost another may end before it: then the other one counts. The first worker
    ends last, as it evaluates and writes for all; the others have some time then.
    """
    ended: queue.Queue[int] = queue.Queue()  # in the order of their ends

    def report(index: int) -> None:
        processes[index].wait()
        ended.put(index)

    for index in range(len(processes)):
        threading.Thread(target=report, args=(index,), daemon=True).start()
    running, deadline, loser = set(range(len(processes))), float("inf"), None
    while running:
        show()
        with contextlib.suppress(queue.Empty):
            running.remove(index := ended.get(timeout=_POLL_S))
            error = failure(processes[index].returncode, logs[index])
            if error and _LOST not in error:
                return index
            if error and loser is None:
                loser, deadline = index, time.monotonic() + _LONGEST_CAUSE
            elif index == 0:
                deadline = time.monotonic() + _LONGEST_END
        if time.monotonic() > deadline:
            return min(running) if loser is None else loser
    show()
    return loser


def _stop(processes: Sequence[subprocess.Popen], show: Callable[[], None]) -> None:
    """Asks all workers to stop, and shows what the first one says until they have."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _LONGEST_STOP
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        show()
        time.sleep(_POLL_S)
    show()


def _environment(
    addresses: Sequence[str], index: int, gpu: str | None, secret: str
) -> dict[str, str]:
    """Returns what tells a worker its place among all."""
    task = {"type": "worker", "index": index}
    cluster = {"cluster": {"worker": list(addresses)}, "task": task}
    own = {} if gpu is None else {_GPUS: gpu}
    return {"TF_CONFIG": json.dumps(cluster), _SECRET: secret, **own}


def _gpus(workers: int) -> list[str | None]:
    """Returns the GPU of each worker of this machine, by its number among them.

    CUDA ignores numbers of GPUs that are not there, and all that follows a -1.
    """
    visible = os.environ.get(_GPUS)
    if visible is None:
        return [str(number) for number in range(workers)]
    names = itertools.takewhile(lambda name: name.strip() != "-1", visible.split(","))
    found = [name for name in names if name.strip()]
    if found and len(found) < workers:
        raise FathomError(
            f"{_GPUS} has {len(found)} GPUs for {workers} workers: start fewer, or set it to '' to "
            "train on the CPU"
        )
    return list(found[:workers]) or [visible] * workers


def _placed(hosts: Sequence[str], workers: int) -> list[tuple[str, int]]:
    """Returns the host of each worker, and its number among those of the host."""
    each, left = divmod(workers, len(hosts))
    if left or not all(hosts):
        raise FathomError(
            f"{workers} workers cannot be divided among {len(hosts)} hosts: each has as many"
        )
    return [(host, number) for host in hosts for number in range(each)]


def _print_commands(
    places: Sequence[tuple[str, int]], command: Sequence[str], screen: Console
) -> None:
    """Prints the commands that start workers from this folder, with this environment's data."""
    base, secret = secrets.choice(_PORTS[: -len(places)]), secrets.token_hex()
    addresses = [f"{host}:{base + index}" for index, (host, _) in enumerate(places)]
    folders = {name: os.environ[name] for name in _FOLDERS if name in os.environ}
    for index, (host, gpu) in enumerate(places):
        variables = folders | _environment(addresses, index, str(gpu), secret)
        assigned = [f"{name}={value}" for name, value in variables.items()]
        there = shlex.join(["env", "-C", str(Path.cwd()), *assigned, sys.executable, *command])
        screen.print(shlex.join(["ssh", host, there]), soft_wrap=True)


def _free_addresses(count: int) -> list[str]:
    """Returns addresses of this machine whose ports are free now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def _start(command: Sequence[str], variables: Mapping[str, str], log: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-u", *command],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=end_with_parent,
        start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on once
    )
