"""Kills trainings at random times, resumes them, and compares them with an uninterrupted one.

A training is started with ``--resume``, killed during a step or while writing a checkpoint, and
restarted, alternating between relative and absolute folders; after a few kills it may finish. The
contents of its last checkpoint (network, optimizer, counters, state of the workload) must then be
bit-identical to those of the uninterrupted training. With ``--workers`` the training is one of
several workers, of which one is killed: all must end soon, with a line that names it. Without
``--workload`` it is each workload in turn, at the size of the conformance suite.

    python benchmarks/kill_and_resume.py --kills 9 --steps 60
    python benchmarks/kill_and_resume.py --workload autoenc --kills 20 --steps 400
    python benchmarks/kill_and_resume.py --workload autoenc --workers 2 --kills 20 --steps 400
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from fathom import workloads

_KILLS_A_TRAINING = 4
_LIMIT_S = 600  # of one training
_END_S = 30  # in which all workers end after one was killed


def main() -> None:
    """Makes the trials of the command line and exits with 1 when one differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", help="(default: all, small)")
    parser.add_argument("--kills", type=int, default=20, help="of a workload (default: 20)")
    parser.add_argument("--steps", type=int, default=400, help="of a training (default: 400)")
    parser.add_argument("--every", type=int, default=3, help="steps between checkpoints")
    parser.add_argument("--signal", choices=("KILL", "TERM", "INT"), default="KILL")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--workers", type=int, help="of a distributed training (default: none)")
    parser.add_argument("--collectives", help="of its workers (default: TensorFlow's)")
    args = parser.parse_args()
    if args.workload:
        _try(args)
        return
    for name in workloads.names():
        small = [f"{option}={value}" for option, value in workloads.descriptor(name).small.items()]
        _try(argparse.Namespace(**(vars(args) | {"workload": name, "set": small + args.set})))


def _try(args: argparse.Namespace) -> None:
    """Kills trainings of one workload; exits with 1 when one differed."""
    moments = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        seconds = _train(args, "alone", root)
        expected = _state(root / "alone", args.steps)
        kills = trainings = 0
        while kills < args.kills:
            name = f"trial-{trainings}"
            directory = name if trainings % 2 else str(root / name)
            left = min(_KILLS_A_TRAINING, args.kills - kills)
            while _train(args, directory, root, moments.uniform(0, 0.8 * seconds)) is None:
                kills, left = kills + 1, left - 1
                if not left:
                    _train(args, directory, root)
                    break
            trainings += 1
            if _state(root / name, args.steps) != expected:
                sys.exit(f"{args.workload}: {directory} differs from the uninterrupted training")
            print(f"{args.workload}: {kills} kills, {trainings} trainings equal", flush=True)


def _train(
    args: argparse.Namespace, directory: str, root: Path, kill_after: float | None = None
) -> float | None:
    """Trains, resuming what is in the folder.

    Returns:
        the seconds from the first step's announcement to the end; None where it was killed.
    """
    start = ["run"]
    if args.workers:
        start = ["launch", f"--workers={args.workers}", "--out=logs", "--"]
    command = [sys.executable, "-m", "fathom", *start, args.workload, f"--steps={args.steps}"]
    command += ["--threads=1"] if args.workers else []
    command += [f"--collectives={args.collectives}"] if args.collectives else []
    command += ["--resume", f"--checkpoint-dir={directory}", f"--checkpoint-every={args.every}"]
    command += [f"--set={assignment}" for assignment in args.set]
    command += [f"--batch-size={args.batch_size}"] if args.batch_size else []
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": root}
    with subprocess.Popen(command, **options) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("running "):
                break
        started = time.perf_counter()
        try:
            lines.append(process.communicate(timeout=kill_after or _LIMIT_S)[0])
        except subprocess.TimeoutExpired:
            if args.workers:
                _kill_worker(process, int(1e6 * kill_after) % args.workers, args.signal)
            else:
                process.send_signal(signal.Signals[f"SIG{args.signal}"])
                process.communicate(timeout=_LIMIT_S)
            return None
        if process.returncode:
            sys.exit(f"exit code {process.returncode}: {''.join(lines)}")
        return time.perf_counter() - started


def _kill_worker(launch: subprocess.Popen, index: int, name: str) -> None:
    """Kills one worker; exits with 1 if not all end in time with one line that names it."""
    workers = psutil.Process(launch.pid).children()  # in the order of their numbers
    workers[index].send_signal(signal.Signals[f"SIG{name}"])
    started = time.perf_counter()
    last = launch.communicate(timeout=_END_S)[0].strip().splitlines()[-1]
    left = [worker.pid for worker in workers if worker.is_running()]
    if launch.returncode != 2 or f"worker {index} failed" not in last or left:
        sys.exit(f"no clean end: exit code {launch.returncode}, {last}, still running: {left}")
    print(f"worker {index} killed: all ended in {time.perf_counter() - started:.1f} s", flush=True)


def _state(directory: Path, step: int) -> dict[str, bytes]:
    """Returns the bytes of everything that a checkpoint holds, by name."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(directory / f"ckpt-{step}"))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("variables/")]
    return {name: np.asarray(reader.get_tensor(name)).tobytes() for name in names}


if __name__ == "__main__":
    main()
