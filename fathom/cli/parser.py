"""The parser of all command lines, and the options shared by several commands."""

import argparse
import contextlib
import importlib.metadata
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fathom import options, workloads
from fathom.errors import FathomError
from fathom.options import MAX_THREADS, Execution
from fathom.system import device
from fathom.system.files import exists, named_path
from fathom.system.folders import own_folder

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

USER_ERROR = 2  # exit code
STANDARD_OUTPUT = Path("-")  # where a file to write is named

Converted = TypeVar("Converted")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and whose options are never abbreviated."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def add_workload(self, **changes: Any) -> None:
        """Adds the name of one workload."""
        name = checked(workloads.checked_name)
        text = "its name; fathom list shows all"
        self.add_argument("workload", **{"type": name, "help": text, **changes})

    def add_mode(self) -> None:
        """Adds the choice between training and inference."""
        mode = self.add_mutually_exclusive_group()
        mode.add_argument("--train", action="store_true", help="train the network, the default")
        mode.add_argument("--infer", action="store_true", help="run the network forward only")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses empty arguments, and two dashes as a value, of which argparse makes a list."""
        given = sys.argv[1:] if args is None else list(args)
        for before, text in itertools.pairwise(["", *given]):
            if not text or re.fullmatch("--[^=]+=", text):
                option = text[:-1] or (before if before.startswith("-") else "an argument")
                self.error(f"{option} is empty: give a value")
            if re.fullmatch("--[^=]+=--", text):
                self.error(f"{text[:-3]} is --: give a value")
        return super().parse_known_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        """Prints the message in one line and exits with code 2."""
        message = message.removeprefix("argument ").replace(": must ", " must ", 1)
        self.exit(USER_ERROR, f"{self.prog}: error: {message}; --help lists the options\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        with contextlib.suppress(OSError):  # Python 3.10's fails where the file is full or closed
            super()._print_message(message, file)


def checked(convert: Callable[[str], Converted]) -> Callable[[str], Converted]:
    """Wraps ``convert`` as an argparse type whose error messages are shown."""

    def checked_type(text: str) -> Converted:
        try:
            return convert(text)
        except (FathomError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked_type


def number(
    kind: object, minimum: float = 0, above: float | None = None, maximum: float | None = None
) -> Callable[[str], Any]:
    """Returns the argparse type of a number, as in ``convert``, with limits as in ``Allowed``."""
    allowed = options.Allowed(minimum, above, maximum)

    def convert_number(text: str) -> Any:
        value = options.convert(text, kind)
        allowed.check(value)
        return value

    return checked(convert_number)


def numbers(text: str, most: int = MAX_THREADS) -> list[int]:
    """Parses a comma-separated list of counts, as of threads; returns them sorted, each once."""
    texts = text.split(",")
    if not all(each.isdecimal() and 1 <= int(each) <= most for each in texts):
        raise ValueError(f"must be whole numbers from 1 to {most}, as 1,2,4; not {text}")
    return sorted(set(map(int, texts)))


def batch_sizes(text: str) -> list[int]:
    """Parses a comma-separated list of different batch sizes; returns them sorted."""
    texts = text.split(",")
    sizes = sorted({int(each) for each in texts if each.isdecimal() and 1 <= int(each) < 2**31})
    if len(sizes) != len(texts):
        raise ValueError(
            f"must be different batch sizes of at least 1, as 1,8,64; not {text or 'nothing'}"
        )
    return sizes


def names(kind: str, known: Iterable[str]) -> Callable[[str], list[str]]:
    """Returns the argparse type of a comma-separated list of known names."""

    def convert_names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise options.unknown_option(kind, name, known)
        return list(dict.fromkeys(text.split(",")))

    return checked(convert_names)


def require_writable(path: Path) -> None:
    """Creates and deletes a file next to another, with a name as long as the temporary one.

    Raises:
        FathomError: it cannot be created, or ``path`` is a folder.
    """
    if exists(path) and not path.is_file():
        if path.is_dir():
            raise FathomError(f"{path} is a folder: name a file")
        return  # a pipe or device, which is not replaced
    target = Path(os.path.realpath(path))  # of a link, as ``atomic_write`` has it
    try:
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"
        ):
            pass
    except OSError as error:
        raise FathomError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that exists and "
            "can be written"
        ) from error


def result_file(path: Path) -> Path:
    """Returns the file of a result that grows from run to run, which must be writable.

    Raises:
        FathomError: it is standard output, or as ``require_writable``.
    """
    if path == STANDARD_OUTPUT:
        raise FathomError("--json takes a file")
    require_writable(path)
    return path


@checked
def input_path(text: str) -> Path:
    """Is the argparse type of a file or folder to read."""
    return named_path(text)


@checked
def output_file(text: str) -> Path:
    """Is the argparse type of a file to write, tried before time is spent on its content."""
    path = named_path(text)
    if path == STANDARD_OUTPUT:
        raise FathomError("must be a file, not standard output")
    require_writable(path)
    return path


def _json_file(text: str) -> Path:
    """Is the argparse type of a file to write, as ``output_file``, or of standard output."""
    return STANDARD_OUTPUT if text == "-" else output_file(text)


def _device(text: str) -> str:
    device.parse(text)
    return text


def _precision(text: str) -> str:
    options.precision_traits(text)
    return text


def _version() -> str:
    try:
        return f"fathom-workloads {importlib.metadata.version('fathom-workloads')}"
    except importlib.metadata.PackageNotFoundError:
        return "fathom-workloads, not installed"


def _value(metavar: str, about: str = "", kind: Any = None, default: Any = None) -> dict[str, Any]:
    """Returns the argparse arguments of an option that takes a value."""
    return {"metavar": metavar, "help": about, "type": kind, "default": default}


_COUNT = number(int, minimum=1)
_THREADS = number(int, minimum=1, maximum=MAX_THREADS)
_OPTIONS: dict[str, dict[str, Any]] = {
    "version": {"action": "version", "version": _version(), "help": "print the version"},
    "workloads": _value(
        "A,B", "names, eight, modern or all; default: eight", checked(workloads.select)
    ),
    "modes": _value("A,B", "train, infer or both; default: both", names("mode", options.MODES)),
    "steps": _value("N", kind=_COUNT),
    "batch-size": _value("B", "examples per step; default: the paper's", _COUNT),
    "device": _value(
        "D",
        "cpu, gpu or gpu:N, the only GPU that the process sees; default: a GPU if any",
        checked(_device),
    ),
    "threads": _value("N", "threads of the run; default: one per core", _THREADS),
    "inter-op-threads": _value(
        "N",
        "inter-op threads, the operations at once; default: two, or one on one thread",
        _THREADS,
    ),
    "microbatches": _value(
        "N",
        "parts of a batch that a CPU computes at once, or auto; 1: whole batches; "
        "default: auto, as many as operations run at once where the workload is faster so",
        number(options.Microbatches, minimum=1),
    ),
    "precision": _value(
        "P",
        f"{', '.join(options.PRECISIONS)}, fixed16, fixed:BITS.FRACTION; tf32 is for "
        "GPUs; default: %(default)s",
        checked(_precision),
        Execution.precision,
    ),
    "quantize": _value(
        "A,B", f"what a fixed-point precision rounds; default: {','.join(options.QUANTIZED)}"
    ),
    "rounding": {"choices": options.ROUNDINGS, "help": "of fixed-point numbers; default: nearest"},
    "overflow": {"choices": options.OVERFLOWS, "help": "of fixed-point numbers; default: saturate"},
    "strategy": {
        "choices": list(options.STRATEGIES),
        "default": Execution.strategy,
        "help": "of distributed training: one process with several devices (mirrored), or one of "
        "several workers; default: %(default)s",
    },
    "replicas": _value("N", "devices of --strategy mirrored; default: all GPUs", _THREADS),
    "collectives": {
        "choices": list(options.COLLECTIVES),
        "default": Execution.collectives,
        "help": "what sums the gradients of --strategy multi-worker; default: %(default)s",
    },
    "reduce-dtype": {
        "choices": list(options.REDUCE_DTYPES),
        "default": Execution.reduce_dtype,
        "help": "type in which --collectives gloo sends and sums gradients; default: %(default)s",
    },
    "xla": {
        "action": argparse.BooleanOptionalAction,
        "help": "compile the whole step with XLA, or nothing; default: the workload's fastest",
    },
    "dataset": _value("NAME", "data set, for workloads with several"),
    "data-dir": _value("DIR", "the data set; default: $FATHOM_DATA_DIR, or synthetic"),
    "seed": _value("S", "random seed; default: %(default)s", number(int), Execution.seed),
    "set": {
        **_value("NAME=VALUE", "set an option; fathom run WORKLOAD --set help lists them"),
        **{"action": "append", "default": []},
    },
    "checkpoint-dir": _value("DIR", "folder of the checkpoints"),
    "checkpoint-every": _value(
        "N", f"steps between checkpoints; default: {options.CHECKPOINT_EVERY}", _COUNT
    ),
    "json": _value("FILE", "write the result as JSON; - prints it", _json_file),
    "out": _value("DIR", kind=checked(own_folder)),
}
"""The argparse arguments of each shared option by name; a command can override them."""


MODEL_OPTIONS = (
    *("batch-size", "device", "threads", "inter-op-threads"),
    *("precision", "quantize", "rounding", "overflow"),
    *("dataset", "data-dir", "seed", "set"),
)
"""The options of all commands that build a model in their own process."""


def add_options(parser: argparse._ActionsContainer, *shared: str, **changes: Any) -> None:
    """Adds shared options, named without dashes, to a command or to a group of its options.

    ``changes``, such as ``default`` or ``help``, replace what is declared of them.
    """
    for name in shared:
        parser.add_argument(f"--{name}", **{**_OPTIONS[name], **changes})


def init_options(
    args: argparse.Namespace, model_class: "type[NeuralNetworkModel]"
) -> dict[str, object]:
    """Returns a model's options: each ``--set``, the batch size, and those of ``Execution``.

    Raises:
        FathomError: a ``--set`` is not an assignment, or not of such an option; or the batch size
            is given twice.
    """
    execution = options.field_names(Execution)
    values: dict[str, object] = {}
    for assignment in args.set:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise FathomError(
                f"--set takes NAME=VALUE, not {assignment!r}; fathom run WORKLOAD --set help lists "
                "the hyperparameters"
            )
        if name in execution:
            raise FathomError(f"{name} is not for --set: use --{name.replace('_', '-')}")
        values[name] = value
    options.sort(values, model_class.Hyperparameters, model_class.RunOptions)  # refuses others
    if "batch_size" in values and getattr(args, "batch_size", None) is not None:
        raise FathomError("--batch-size and --set batch_size exclude each other: give one of them")
    given = {name: getattr(args, name, None) for name in ("batch_size", *execution)}
    return values | {name: value for name, value in given.items() if value is not None}
