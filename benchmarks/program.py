"""What the programs in other libraries share: their options, how they are timed, their record.

Imports none of the libraries, so that a program can prepare its process before it does.
"""

import argparse
import ctypes
import json
import math
import platform
import statistics
from collections.abc import Callable
from pathlib import Path

from timing import FEWEST_STEPS, record_of

Step = Callable[[], object]
Forms = dict[str, Callable[[], Step]]  # ways to compute the same step, by name, each to be built

CANNOT = 3  # exit code of a program that cannot run what it is asked for


def keep_memory() -> None:
    """Lets glibc keep freed blocks: giving them back costs a page fault a page in every step.

    Must run before the library is imported.
    """
    if platform.system() != "Linux":
        return
    mallopt = ctypes.CDLL(None).mallopt
    m_trim_threshold, m_mmap_max, m_arena_max = -1, -4, -8  # glibc's <malloc.h>
    mallopt(m_trim_threshold, -1)  # never shrink the heap
    mallopt(m_mmap_max, 0)  # large blocks from the heap too
    mallopt(m_arena_max, 1)


def command_line(documentation: str | None, **sizes: int) -> argparse.ArgumentParser:
    """Returns the options of a program.

    Args:
        documentation: the program's, whose first line describes it.
        sizes: defaults of its options that are whole numbers.
    """
    parser = argparse.ArgumentParser(description=(documentation or "").partition("\n")[0])
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    numbers = {**sizes, "threads": 1, "steps": 20, "warmup": 3}
    for name, default in numbers.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=default, help=f"default: {default}")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="after them no step begins; default: never"
    )
    parser.add_argument("--json", type=Path, help="write the record to this file")
    return parser


def measure(args: argparse.Namespace, forms: Forms, library: str) -> None:
    """Times the forms of a step, prints a line about the fastest and writes its record.

    Args:
        args: of ``command_line``.
        forms: built one after the other; each shares the time that there is.
        library: its name and version.
    """
    if args.steps < FEWEST_STEPS or min(args.warmup, args.threads) < 1:
        raise SystemExit("give at least 2 steps, and at least 1 thread and 1 step of warm-up")
    seconds = args.seconds / len(forms)
    records = {
        name: record_of(build(), args.steps, args.warmup, seconds) for name, build in forms.items()
    }
    medians = {name: statistics.median(each["step_seconds"]) for name, each in records.items()}
    form = min(medians, key=medians.__getitem__)
    best, options = records[form], vars(args) | {"json": None}
    processor = statistics.median(best["processor_seconds"])
    words = [f"{name} {value}" for name, value in options.items() if value is not None]
    print(
        f"{library}, {', '.join([*words, form])}: {1e3 * medians[form]:,.3f} ms a step, "
        f"{1e3 * processor:,.3f} ms of processor time"
    )
    if args.json:
        best |= {"form": form, "form_seconds": medians, "library": library}
        args.json.write_text(json.dumps(best, indent=2) + "\n")
