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
    """A format of another tool for the work of a step.

    Attributes:
        about: what it is, in a line.
        export: makes the files of a description; raises FathomError if it can express nothing.
        has_densities: it can hold the shares of zeros.
    """

    about: str
    export: Callable[[Description], Exported]
    has_densities: bool = False


@dataclass(frozen=True)
class ExportOptions:
    """What the user chose about the export of a network.

    Attributes:
        batch: examples; None: any number, where the format and the network take any.
        length: of each example, as in ``NeuralNetworkModel.describe``; None as before.
        profile: folder of ``fathom profile --out``, for formats with times.
        workers: that train together, for formats with collectives; the model has the part of the
            batch that one of them computes.
        stepwise: the parts of the network that an application calls for each word, not the loop
            over the words.
        parallelism: how nodes share the step, for formats with collectives; None: as
            ``workers``.
        rank: the one node of these to write; None: all.
        target: the machine of a program; None: the format's first.
    """

    batch: int | None = None
    length: int | None = None
    profile: Path | None = None
    workers: int = 1
    stepwise: bool = False
    parallelism: Plan | None = None
    rank: int | None = None
    target: str | None = None


@dataclass(frozen=True)
class NetworkFormat:
    """A format of another tool for the network itself.

    Attributes:
        about: what it is, in a line.
        save_network: writes a model that is built into a folder; returns what the format cannot
            express.
        trains: it can hold a training step; otherwise the model is a forward-only one.
        has_collectives: it can hold a step of several workers.
        has_steps: it can hold the parts that infer word by word.
        has_times: it can hold measured times.
        targets: the machines that it can be for; the first is the default.
        xla: the option ``xla`` with which the model must have been built; None: any.
        has_weights: the files hold the weights.
        packages: modules of the extra ``exports`` that it needs.
    """

    about: str
    save_network: "Callable[[NeuralNetworkModel, Path, ExportOptions], tuple[str, ...]]"
    trains: bool = False
    has_collectives: bool = False
    has_steps: bool = False
    has_times: bool = False
    targets: tuple[str, ...] = ()
    xla: bool | None = None
    has_weights: bool = True
    packages: tuple[str, ...] = ()

    def save(
        self, model: "NeuralNetworkModel", folder: Path, options: ExportOptions
    ) -> tuple[str, ...]:
        """Writes a model that is built into a folder, for any processor.

        Returns:
            what the format cannot express.

        Raises:
            FathomError: the format cannot express the network, or a file cannot be written.
        """
        with any_processor():
            return self.save_network(model, folder, options)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns TensorFlow's and HDF5's errors of writing into the errors of files."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, RuntimeError) as error:
        raise FathomError(f"cannot write {folder}: {cause(error)}") from error


def sorted_out(description: Description, *kinds: str) -> tuple[str, ...]:
    """Returns a line for each kind of operation that is not among these, with their number."""
    rows = [row for row in description.operations if row.kind not in kinds]
    counts = {row.kind: sum(other.kind == row.kind for other in rows) for row in rows}
    return tuple(f"operations of kind {kind}: {count:,}" for kind, count in counts.items())


def write(exported: Exported, folder: Path) -> None:
    """Writes all files of an export into a folder that exists."""
    for name, text in exported.files.items():
        (folder / name).write_text(text)
