"""What the programs in other libraries share: their options, how they are timed, their record.

Imports none of the libraries, so that a program can prepare its process before it does.
"""

import argparse
import ctypes
import functools
import json
import math
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import FEWEST_STEPS, record_of

Step = Callable[[], object]
Forms = Callable[[argparse.Namespace], dict[str, Any]]  # ways to compute a step, by name

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


def command_line(documentation: str | None, **own: Any) -> argparse.ArgumentParser:
    """Returns the options of a program.

    Args:
        documentation: the program's, whose first line describes it.
        own: defaults of its own options; of an option with choices all of them, the default first.
    """
    parser = argparse.ArgumentParser(description=(documentation or "").partition("\n")[0])
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    for name, value in {**own, "threads": 1, "steps": 20, "warmup": 3}.items():
        choices = value if isinstance(value, tuple) else None
        default = choices[0] if choices else value
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            **{"type": type(default), "choices": choices, "default": default},
            help=f"default: {default}",
        )
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="after them no step begins; default: never"
    )
    parser.add_argument("--json", type=Path, help="write the record to this file")
    return parser


def measure(
    args: argparse.Namespace, library: str, make_step: Callable[..., Step], forms: Forms | None
) -> None:
    """Times the forms of a step, prints a line about the fastest and writes its record.

    Args:
        args: of ``command_line``.
        library: its name and version.
        make_step: builds a step of the options and, where there are several, of its form.
        forms: returns the forms; they are built one after the other and share the time.
    """
    if args.steps < FEWEST_STEPS or min(args.warmup, args.threads) < 1:
        raise SystemExit("give at least 2 steps, and at least 1 thread and 1 step of warm-up")
    builds = {"one form": functools.partial(make_step, args)}
    if forms:
        found = forms(args).items()
        builds = {name: functools.partial(make_step, args, form) for name, form in found}
    seconds = args.seconds / len(builds)
    records = {
        name: record_of(build(), args.steps, args.warmup, seconds) for name, build in builds.items()
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
