"""``fathom launch``: starts the workers of a distributed training on this machine."""

import argparse
import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from fathom import workloads
from fathom.cli.command import Commands, add_command, refuse
from fathom.cli.parser import add_options, number
from fathom.errors import FathomError
from fathom.system.folders import claim_folder
from fathom.system.processes import end_with_parent, failure

_POLL_S = 0.2
_LONGEST_END = 30.0  # seconds that the others have after the first has ended
_FIRST_PORT = 20000  # on hosts, where free ports are not known


def add_commands(commands: Commands) -> None:
    """Adds the command to the subparsers of ``python -m fathom``."""
    parser = add_command(commands, "launch", "cli.launch", "train on several workers")
    add = parser.add_argument
    text = "number of workers, each a process"
    add("-n", "--workers", type=number(int, minimum=1), required=True, metavar="N", help=text)
    text = "print the commands that start the workers on these machines, in turn"
    add("--hosts", metavar="A,B", help=text)
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
    if any(argument.split("=")[0] == "--strategy" for argument in given):
        raise FathomError("fathom launch sets --strategy multi-worker: omit --strategy")
    command = ["-m", "fathom", what, *given, "--strategy", "multi-worker"]
    if args.hosts:
        refuse(args, ["out"], "has no effect with --hosts, which starts nothing: omit it")
        hosts = args.hosts.split(",")
        _print_commands([hosts[i % len(hosts)] for i in range(args.workers)], command, screen)
        return
    with _free_ports(args.workers) as ports:
        addresses = [f"localhost:{port}" for port in ports]
    out = claim_folder(args.out, "launch")
    logs = [out / f"worker-{index}.log" for index in range(args.workers)]
    screen.print(f"{args.workers} workers on this machine; logs: {out}/worker-*.log")
    with contextlib.ExitStack() as ending:
        processes = []
        for index, log in enumerate(logs):
            file = ending.enter_context(log.open("wb"))
            processes.append(_start(command, addresses, index, file.fileno()))
            ending.callback(processes[-1].wait, _LONGEST_END)
            ending.callback(processes[-1].kill)  # called before the wait
        failed = _wait(processes, logs[0], screen)
    if failed is not None:
        reason = failure(processes[failed].returncode, logs[failed])
        raise FathomError(f"worker {failed} failed: {reason}; all ended; see {logs[failed]}")


def _config(addresses: Sequence[str], index: int) -> str:
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": task})


def _print_commands(hosts: Sequence[str], command: Sequence[str], screen: Console) -> None:
    addresses = [f"{host}:{_FIRST_PORT + index}" for index, host in enumerate(hosts)]
    for index, host in enumerate(hosts):
        config = f"TF_CONFIG={_config(addresses, index)}"
        there = shlex.join(["env", config, "python", *command])
        screen.print(shlex.join(["ssh", host, there]), soft_wrap=True)


@contextlib.contextmanager
def _free_ports(count: int) -> Iterator[list[int]]:
    """Yields ports that are free now, held until the block ends."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        yield [each.getsockname()[1] for each in sockets]


def _start(
    command: Sequence[str], addresses: Sequence[str], index: int, log: int
) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-u", *command],
        env={**os.environ, "TF_CONFIG": _config(addresses, index)},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=end_with_parent,
    )


def _wait(processes: Sequence[subprocess.Popen], log: Path, screen: Console) -> int | None:
    """Shows the chief's output until all workers end, or one fails.

    Returns:
        the number of the first worker that failed; None if none did.
    """
    with log.open(errors="replace") as output:
        deadline = float("inf")
        while True:
            codes = [process.poll() for process in processes]
            screen.print(output.read(), end="", markup=False, highlight=False)
            failed = {index: code for index, code in enumerate(codes) if code}
            if failed:  # one that was killed, by a negative code, before those that lost it
                return min(failed, key=lambda index: failed[index])
            if all(code == 0 for code in codes):
                return None
            if any(code == 0 for code in codes):
                deadline = min(deadline, time.monotonic() + _LONGEST_END)
            if time.monotonic() > deadline:
                return codes.index(None)
            time.sleep(_POLL_S)
