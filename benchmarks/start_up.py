"""Processor time from a process's start to the end of its first training step, by part.

    python benchmarks/start_up.py --workload autoenc --rounds 5

Every round is a new process, with synthetic data, on one thread. Python's byte code must be in its
cache: the first round is left out. Use a single core (``taskset -c 0``): what is loaded ahead is
waited for, so that it has a part of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

HELD_CALLS = 9
SETUP = {
    "load_data": "data",
    "build": "building the network",
    "compile": "tracing its step",
}
QUIET, PAUSE = 0.002, 0.1  # seconds of the processor, of the clock


def measure(name: str, assignments: list[str]) -> dict[str, float]:
    """Returns the processor seconds of each part, of this process."""
    marks = [("Python", time.process_time())]

    def mark(part: str) -> None:
        marks.append((part, time.process_time()))

    from fathom.cli.terminal import import_tensorflow

    import_tensorflow()
    mark("import of TensorFlow, Keras and NumPy")
    from fathom import workloads

    kind = workloads.load(name)
    mark("import of the workload, with Pydantic")
    model = kind("/cpu:0", {"threads": 1, **dict(each.split("=", 1) for each in assignments)})

    def marked(function: Callable[[], None], part: str) -> Callable[[], None]:
        def call() -> None:
            function()
            mark(part)

        return call

    for method, part in SETUP.items():
        setattr(model, method, marked(getattr(model, method), part))
    model.setup()

    def first_call(step: Callable[..., object], batch: tuple) -> object:
        mark("input pipeline, to the first batch or block")
        settle()
        mark("batches or blocks loaded ahead")
        loss = step(*batch)
        mark("first call")
        held = []
        for _ in range(HELD_CALLS):
            started = time.process_time()
            step(*batch)
            held.append(time.process_time() - started)
        marks.append(("a later call", marks[-1][1] + statistics.median(held)))
        return loss

    model.run(first_call, n_steps=model.steps_per_call, warmup=0)
    ends = [0.0, *(end for _, end in marks)]
    return {part: end - start for (part, end), start in zip(marks, ends, strict=False)}


def settle() -> None:
    """Waits until the other threads of the process are idle."""
    before = -1.0
    while time.process_time() - before > QUIET:
        before = time.process_time()
        time.sleep(PAUSE)


def table(rounds: list[dict[str, float]]) -> str:
    """Returns the medians of the rounds, and what is left without imports."""
    medians = {part: statistics.median(each[part] for each in rounds) for part in rounds[0]}
    first, later = medians.pop("first call"), medians.pop("a later call")
    medians["first call, without a later call's time"] = first - later
    rest = sum(v for part, v in medians.items() if not part.startswith(("Python", "import")))
    rows = medians | {"all": sum(medians.values()), "all but Python and imports": rest}
    lines = (f"| {part} | {seconds:.3f} |" for part, seconds in rows.items())
    return "\n".join(["| part | processor s |", "|---|---|", *lines])


def main() -> None:
    """Measures in new processes, one after the other, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workload", default="autoenc")
    parser.add_argument("--set", nargs="+", metavar="NAME=VALUE", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--once", action="store_true", help="measure this process; print JSON")
    args = parser.parse_args()
    if args.once:
        print(json.dumps(measure(args.workload, args.set)))
        return
    command = [sys.executable, __file__, *sys.argv[1:], "--once"]
    environment = {**os.environ, "FATHOM_DATA_DIR": ""}
    rounds = []
    for _ in range(args.rounds + 1):
        printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        rounds.append(json.loads(printed.stdout))
    print(table(rounds[1:]))


if __name__ == "__main__":
    main()
