"""What every format is: words about it, and a function that writes it."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.errors import FathomError, cause
from fathom.hardware.accelerators.plan import Plan
from fathom.results.description import Description
from fathom.system.processor import any_processor

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel  # imports TensorFlow


@dataclass(frozen=True)
class Exported:
    """The files of an export, by name, and what the format cannot express."""

    files: dict[str, str]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A format of another tool for the work of a step."""

    about: str  # what it is, in a line
    # Makes the files of a description; raises FathomError if it can express nothing.
    export: Callable[[Description], Exported]
    has_densities: bool = False  # it can hold the shares of zeros


@dataclass(frozen=True)
class ExportOptions:
    """What the user chose about the export of a network."""

    batch: int | None = None  # examples; None: any number, where format and network take any
    length: int | None = None  # of each example, as ``describe`` of the model has it; None: any
    profile: Path | None = None  # folder of ``fathom profile --out``, for formats with times
    # Train together, for formats with collectives; the model has one worker's part of the batch.
    workers: int = 1
    stepwise: bool = False  # the parts that an application calls for each word, without the loop
    parallelism: Plan | None = None  # how nodes share the step, likewise; None: as ``workers``
    rank: int | None = None  # the one node of these to write; None: all
    target: str | None = None  # the machine of a program; None: the format's first


@dataclass(frozen=True)
class NetworkFormat:
    """A format of another tool for the network itself."""

    about: str  # what it is, in a line
    # Writes a model that is built into a folder; returns what the format cannot express.
    save_network: "Callable[[NeuralNetworkModel, Path, ExportOptions], tuple[str, ...]]"
    trains: bool = False  # it can hold a training step; otherwise the model is a forward-only one
    has_collectives: bool = False  # it can hold a step of several workers
    has_steps: bool = False  # it can hold the parts that infer word by word
    has_times: bool = False  # it can hold measured times
    targets: tuple[str, ...] = ()  # the machines that it can be for; the first is the default
    xla: bool | None = None  # the option with which the model must have been built; None: any
    has_weights: bool = True  # the files hold the weights
    packages: tuple[str, ...] = ()  # modules of the extra ``exports`` that it needs

    def save(
        self, model: "NeuralNetworkModel", folder: Path, options: ExportOptions
    ) -> tuple[str, ...]:
        """Writes a built model into a folder, for any processor; returns what is left out.

        The folder may be a new one.

        Raises:
            FathomError: the format cannot express the network, or a file cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with any_processor():
                return self.save_network(model, folder, options)
        except OSError as error:
            raise FathomError(f"cannot write {folder}: {cause(error)}") from error


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns TensorFlow's and HDF5's errors of writing into the errors of files."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, RuntimeError) as error:
        raise FathomError(f"cannot write {folder}: {cause(error)}") from error


def write(exported: Exported, folder: Path) -> None:
    """Writes all files of an export into a folder that exists."""
    for name, text in exported.files.items():
        (folder / name).write_text(text)
