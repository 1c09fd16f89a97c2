"""Compares a bare program with TensorFlow's kernels: instructions, bytes and time of a step.

    python benchmarks/bare_programs.py --workload memnet --mode train

The same step twice, with one thread: as a program for x86_64_v3, and by ``model.run`` without XLA.
Instructions and misses are counted by Callgrind after a step that warms its caches up; Valgrind
has no AVX-512, so that TensorFlow's kernels are those of AVX2. They are timed in turn, without
Valgrind, with the same limit.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

CACHE = 2**20  # bytes of the last cache that Callgrind simulates
LINE = 64
_LIMIT_S = 3600
_MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""


def main() -> None:
    """Prints one line for each side, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", required=True)
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--steps", type=int, default=50, help="timed in a round; default: 50")
    parser.add_argument("--rounds", type=int, default=5, help="of both in turn; default: 5")
    parser.add_argument("--as", choices=("timed", "counted"), dest="side", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        tensorflow_steps(args)
        return
    with tempfile.TemporaryDirectory() as scratch:
        program = exported(args, Path(scratch, "program"))
        times: dict[str, list[float]] = {"program": [], "TensorFlow": []}
        for _ in range(args.rounds):
            times["program"].append(program_time(program, args))
            times["TensorFlow"].append(tensorflow_time(args))
        counts = {
            "program": program_counts(program, Path(scratch)),
            "TensorFlow": tensorflow_counts(Path(scratch)),
        }
    report(args, times, counts)


def report(
    args: argparse.Namespace, times: dict[str, list[float]], counts: dict[str, dict[str, int]]
) -> None:
    """Prints the figures."""
    figures = {}
    print(f"{args.workload} {args.mode}, a step with one thread:")
    for side, found in counts.items():
        row = {
            "instructions": found["Ir"],
            "loads and stores": found["Dr"] + found["Dw"],
            f"bytes from beyond {CACHE // 2**20} MiB": LINE * (found["DLmr"] + found["DLmw"]),
            "ms": 1e3 * median(times[side]),
        }
        figures[side] = row
        spread = f" ({1e3 * min(times[side]):.4g} to {1e3 * max(times[side]):.4g})"
        print(f"{side}: " + ", ".join(f"{v:,.4g} {k}" for k, v in row.items()) + spread)
    ratios = [(k, v / figures["TensorFlow"][k]) for k, v in figures["program"].items()]
    print("program over TensorFlow: " + ", ".join(f"{k} {ratio:.2f}" for k, ratio in ratios))


def output(command: list[str], folder: Path | None = None, **environment: str) -> str:
    """Returns what a command printed, both ways."""
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "CUDA_VISIBLE_DEVICES": "", **environment}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout + done.stderr


def exported(args: argparse.Namespace, folder: Path) -> Path:
    """Writes the program; returns its folder."""
    command = [sys.executable, "-m", "fathom", "export", args.workload, f"--{args.mode}"]
    command += [f"--set={each}" for each in [*args.set, *one_at_a_time(args)]]
    output([*command, "--to", "program", "--target", "x86_64_v3", "--out", str(folder)])
    return folder


def one_at_a_time(args: argparse.Namespace) -> list[str]:
    """Returns the option by which each call is one step, where there is one."""
    from fathom.testing.descriptors import descriptor

    has = descriptor(args.workload).has_option("steps_per_call")
    return ["steps_per_call=1"] * (has and args.mode == "train")


def marked(folder: Path, kind: str) -> None:
    """Builds the program with marks of a kind."""
    output(["sh", str(folder / "build.sh")], ROI=kind)


def program_time(folder: Path, args: argparse.Namespace) -> float:
    """Returns the median seconds of a program's steps, without the first."""
    marked(folder, "TIME")
    printed = output([f"./{args.workload}", "--steps", str(args.steps + 1)], folder)
    return median([float(each) for each in re.findall(r"step \d+: (\S+) s\n", printed)][1:])


def program_counts(folder: Path, scratch: Path) -> dict[str, int]:
    """Returns Callgrind's counts of a program's second step."""
    marked(folder, "VALGRIND")
    found = []
    name = next(each for each in folder.iterdir() if os.access(each, os.X_OK) and each.is_file())
    for steps in ("1", "2"):
        valgrind = callgrind(scratch / f"program-{steps}", "--collect-atstart=no")
        output([*valgrind, f"./{name.name}", "--steps", steps], folder)
        found.append(totals(scratch / f"program-{steps}"))
    first, both = found
    return {event: both[event] - first[event] for event in both}


def tensorflow_time(args: argparse.Namespace) -> float:
    """Returns the median seconds of TensorFlow's steps."""
    return float(
        output([sys.executable, *sys.argv, "--as", "timed"]).split("median ")[1].split()[0]
    )


def tensorflow_counts(scratch: Path) -> dict[str, int]:
    """Returns Callgrind's counts of one of TensorFlow's steps."""
    library = scratch / "marks.so"
    (scratch / "marks.c").write_text(_MARKS)
    output(["gcc", "-shared", "-fPIC", "-o", str(library), str(scratch / "marks.c")])
    valgrind = callgrind(scratch / "tensorflow", "--instr-atstart=no")
    output([*valgrind, sys.executable, *sys.argv, "--as", "counted"], FATHOM_MARKS=str(library))
    return totals(scratch / "tensorflow.1")  # .1: what was dumped at the mark


def callgrind(out: Path, *options: str) -> list[str]:
    """Returns the command before a program's."""
    caches = ["--cache-sim=yes", f"--LL={CACHE},16,{LINE}"]
    return ["valgrind", "--tool=callgrind", *caches, *options, f"--callgrind-out-file={out}"]


def totals(file: Path) -> dict[str, int]:
    """Returns the counts of a file of Callgrind, by event."""
    text = file.read_text()
    events = re.search(r"^events: (.*)$", text, re.M)
    counts = re.search(r"^(?:totals|summary): (.*)$", text, re.M)
    if not events or not counts:
        sys.exit(f"{file} has no totals")
    numbers = [int(each) for each in counts[1].split()]
    names = events[1].split()
    return dict(zip(names, numbers + [0] * (len(names) - len(numbers)), strict=True))


def tensorflow_steps(args: argparse.Namespace) -> None:
    """Runs TensorFlow's steps in this process, timed or between Callgrind's marks."""
    import ctypes
    import time

    from fathom import workloads

    options: dict[str, Any] = {"threads": 1, "xla": False}
    options |= dict(each.split("=", 1) for each in [*args.set, *one_at_a_time(args)])
    model = workloads.load(args.workload, args.mode == "infer")("cpu", options)
    model.setup()
    model.load_data()
    seconds = []
    marks = ctypes.CDLL(os.environ["FATHOM_MARKS"]) if args.side == "counted" else None

    def runstep(step: Any, batch: Any) -> Any:
        if marks and len(seconds) == 2:
            marks.begin()
        if marks and len(seconds) == 3:
            marks.zero()
        begin = time.perf_counter()
        result = step(*batch)
        seconds.append(time.perf_counter() - begin)
        if marks and len(seconds) == 4:
            marks.end()
        return result

    model.run(runstep=runstep, n_steps=4 if marks else args.steps + 5)
    model.teardown()
    print("median", median(seconds[5 if not marks else 0 :]))


if __name__ == "__main__":
    main()
