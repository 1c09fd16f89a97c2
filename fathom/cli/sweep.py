"""``--sweep``: the step of every combination of the values that some hyperparameters take."""

import argparse
import itertools
import math
from collections.abc import Callable, Mapping

import pandas as pd
from rich.console import Console

from fathom.cli.command import refuse
from fathom.cli.terminal import show_frame
from fathom.errors import FathomError
from fathom.hardware import networks
from fathom.results.description import Description

Row = Mapping[str, object]
_MOST = 200  # steps of a sweep
_OWN = ("length", "batch_size")  # have options of their own


def values(text: str) -> tuple[str, list[int]]:
    """Parses ``NAME=1,8,64``, or ``NAME=128:32768:x4`` for 128, 512, ... up to 32,768."""
    name, _, listed = text.partition("=")
    first, *rest = listed.split(":")
    try:
        if not rest:
            found = [int(each) for each in listed.split(",")]
        else:
            last, factor = int(rest[0]), int(rest[1].removeprefix("x"))
            found = [int(first)]
            if factor < 2 or last < found[0]:
                raise ValueError
            while 0 < found[-1] * factor <= last:
                found.append(found[-1] * factor)
        if not name or min(found) < 1 or len(set(found)) < len(found) or len(rest) not in (0, 2):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(
            "must be as batch_size=1,8,64 or context=128:32768:x4, of different whole "
            f"numbers from 1; not {text}"
        ) from None
    return name, found


def table(
    args: argparse.Namespace,
    screen: Console,
    describe: Callable[[argparse.Namespace], Description],
    row_of: Callable[[Description], Row],
) -> pd.DataFrame:
    """Prints and returns one row for each combination, the last option's values fastest.

    Raises:
        FathomError: an option has no effect, is swept twice or set beside, or has a wrong value.
    """
    refuse(args, ("json", "description"), "is of one step: omit it or --sweep")
    names = [name for name, _ in args.sweep]
    refuse(args, [name for name in names if name in _OWN], "is swept: omit it")
    if twice := sorted(set(names) & {each.partition("=")[0] for each in args.set}):
        raise FathomError(f"--set {twice[0]} has no effect: --sweep names its values")
    if twice := sorted(set(names) & set(dict(args.dim))):
        raise FathomError(f"--dim {twice[0]} has no effect: --sweep names its values")
    steps = math.prod(len(each) for _, each in args.sweep)
    if len(set(names)) < len(names):
        raise FathomError("--sweep names one hyperparameter twice")
    if steps > _MOST:
        raise FathomError(f"--sweep asks for {steps:,} steps, more than {_MOST}")
    rows = []
    for number, each in enumerate(itertools.product(*(each for _, each in args.sweep)), 1):
        setting = dict(zip(names, each, strict=True))
        words = ", ".join(f"{name} {value:,}" for name, value in setting.items())
        screen.print(f"{number} of {steps}: {words}")
        rows.append(setting | dict(row_of(describe(_with(args, setting)))))
    found = pd.DataFrame(rows)
    show_frame(found, screen)
    return found


def work(description: Description) -> Row:
    """Returns the sums of a step, in the units of ``fathom describe``."""
    from fathom.hardware.description.memory import peak_bytes

    return {
        "operations": len(description.operations),
        "GMACs": description.macs / 1e9,
        "GFLOPs": description.total_flops / 1e9,
        "MB moved": description.traffic_bytes / 1e6,
        "MB held": (peak_bytes(description) or 0) / 1e6,
        "FLOPs per byte": description.total_flops / max(1, description.traffic_bytes),
    }


def _with(args: argparse.Namespace, setting: Mapping[str, int]) -> argparse.Namespace:
    """Returns the options of a step, or of a network in a file, whose open sizes are swept."""
    if networks.is_file(args.workload):
        return argparse.Namespace(**{**vars(args), "dim": [*args.dim, *setting.items()]})
    own = {name: value for name, value in setting.items() if name in _OWN}
    others = [f"{name}={value}" for name, value in setting.items() if name not in own]
    return argparse.Namespace(**{**vars(args), **own, "set": [*args.set, *others]})
