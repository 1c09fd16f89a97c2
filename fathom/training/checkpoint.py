"""Checkpoints: written whole, the newest few kept, refused where they do not fit."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from fathom.errors import FathomError, cause
from fathom.system.files import atomic_write
from fathom.system.lock import lock_folder

_KEPT = 3
_DESCRIPTION = "fathom.json"
_STATE = "checkpoint"  # names the newest for tf.train.latest_checkpoint; never read here
_GLOB_CHARACTERS = set("*?[]\\")
_LEFTOVERS = ("ckpt-*_temp", "ckpt-*.tempstate*", f".{_DESCRIPTION}.*.tmp", f".{_STATE}.*.tmp")


@dataclass
class Restored:
    """What was restored.

    Attributes:
        changes: the settings that have changed since it was written, by name: before and now.
        notes: lines for the user: which checkpoint it was, damaged newer ones, changed settings.
    """

    changes: dict[str, tuple[Any, Any]]
    notes: list[str] = field(default_factory=list)


class Checkpoints:
    """The checkpoints of one training, in one folder.

    Reading needs nothing more; before anything is written, ``open_for_writing`` must be called.

    Args:
        directory: where they are kept.
        workload: name of the workload; checkpoints of another workload are refused.
        settings: the options of the training, kept beside the checkpoints, to say what differs on
            resuming.
        variables: what is saved, by name.
    """

    def __init__(
        self,
        directory: Path,
        workload: str,
        settings: dict[str, Any],
        variables: dict[str, tf.Variable],
    ) -> None:
        self._directory = directory.absolute()
        self._description: dict[str, Any] = {"workload": workload, "settings": settings}
        self._variables = variables
        self._checkpoint = tf.train.Checkpoint(variables=variables)
        self._latest = max(self._steps(), default=None)

    @property
    def latest(self) -> Path | None:
        """Path of the newest checkpoint, without its file endings; None where there is none.

        Once a checkpoint was restored or written, it is that one.
        """
        return None if self._latest is None else self._prefix(self._latest)

    def open_for_writing(self) -> None:
        """Makes the folder, locks it, tries to write, and removes what killed runs left.

        Raises:
            FathomError: it cannot be made or written, or another process is writing to it.
        """
        try:
            str(self._directory).encode()
            self._directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._directory, prefix=".fathom."):
                self._lock = lock_folder(self._directory)
            self._remove_leftovers()
        except UnicodeEncodeError as error:
            raise FathomError(
                f"the name {str(self._directory)!r} is not UTF-8: use another --checkpoint-dir"
            ) from error
        except OSError as error:
            raise FathomError(
                f"cannot write checkpoints in {self._directory}: {error.strerror or error}; use "
                "another --checkpoint-dir"
            ) from error

    def save(self, step: int) -> None:
        """Writes a checkpoint of the state after ``step`` steps.

        Raises:
            FathomError: a value is not finite, or the files cannot be written; older checkpoints
                are kept.
        """
        kept = f"; the last good checkpoint is {self.latest}" if self.latest else ""
        for name, variable in self._variables.items():
            if variable.dtype.is_floating and not tf.reduce_all(tf.math.is_finite(variable)):
                raise FathomError(
                    f"{name} is no longer finite after step {step}: the training has diverged; "
                    f"lower the learning rate{kept}"
                )
        try:
            with atomic_write(self._directory / _DESCRIPTION) as temporary:
                temporary.write_text(json.dumps(self._description, indent=1) + "\n")
            self._checkpoint.write(str(self._prefix(step)))
            self._latest = step
            self._remove_older(step)
        except (tf.errors.OpError, OSError) as error:
            shutil.rmtree(self._directory / f"ckpt-{step}_temp", ignore_errors=True)
            raise FathomError(
                f"cannot write a checkpoint in {self._directory}: {cause(error)}{kept}"
            ) from error

    def restore(self) -> Restored:
        """Restores the newest checkpoint that is not damaged.

        Raises:
            FathomError: there is none, or it is of another workload or shape.
        """
        if self._latest is None:
            raise FathomError(f"nothing to restore: {self._directory} holds no checkpoint")
        restored = Restored(self._changes())
        changed = _described(restored.changes)
        damaged: dict[str, str] = {}
        for step in sorted(self._steps(), reverse=True):
            try:
                self._read(step, ", ".join(changed))
            except tf.errors.ResourceExhaustedError:  # no fault of the checkpoint
                raise
            except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
                damaged[f"ckpt-{step}"] = cause(error)
                continue
            self._latest = step
            restored.notes += [
                f"{name} is damaged ({reason}): continuing from ckpt-{step}"
                for name, reason in damaged.items()
            ]
            restored.notes.append(f"restored {self.latest}, after step {step:,}")
            restored.notes += [f"changed since then: {change}" for change in changed]
            return restored
        reasons = "; ".join(f"{name}: {reason}" for name, reason in damaged.items())
        raise FathomError(
            f"all checkpoints in {self._directory} are damaged ({reasons}): to start from the "
            "beginning, use another --checkpoint-dir"
        )

    def refuse_other_training(self) -> None:
        """Raises FathomError where the folder already holds checkpoints, so that none is lost."""
        if self._latest is not None:
            raise FathomError(
                f"{self._directory} already holds checkpoints: continue with --resume, or use "
                "another --checkpoint-dir"
            )

    def _prefix(self, step: int) -> Path:
        return self._directory / f"ckpt-{step}"

    def _steps(self) -> list[int]:
        """Returns after which steps the checkpoints in the folder were written, in order."""
        numbers = [path.stem[5:] for path in self._directory.glob("ckpt-*.index")]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _remove_leftovers(self) -> None:
        for path in [path for pattern in _LEFTOVERS for path in self._directory.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in self._directory.glob("ckpt-*.data-*-of-*"):
            if not path.with_suffix(".index").exists():  # the index is written last
                path.unlink()

    def _remove_older(self, newest: int) -> None:
        """Keeps the newest few, and names them in the file that TensorFlow looks into.

        Damaged checkpoints of later steps do not count: a training that was resumed before them
        would otherwise remove its own.
        """
        steps = [step for step in self._steps() if step <= newest]
        lines = [f'model_checkpoint_path: "ckpt-{newest}"']
        lines += [f'all_model_checkpoint_paths: "ckpt-{step}"' for step in steps[-_KEPT:]]
        with atomic_write(self._directory / _STATE) as temporary:
            temporary.write_text("\n".join(lines) + "\n")
        for step in steps[:-_KEPT]:
            self._prefix(step).with_suffix(".index").unlink()  # first: without it there is none
            for path in self._directory.glob(f"ckpt-{step}.data-*"):
                path.unlink()

    def _changes(self) -> dict[str, tuple[Any, Any]]:
        """Returns the settings that have changed since the checkpoints were written.

        Raises:
            FathomError: the checkpoints are of another workload, or their description is damaged.
        """
        path, workload = self._directory / _DESCRIPTION, self._description["workload"]
        try:
            saved = json.loads(path.read_text())
            before = saved.get("settings", {})
            if not isinstance(before, dict):
                raise ValueError("it has no settings")
        except (OSError, ValueError, AttributeError) as error:
            raise FathomError(
                f"{path} cannot be read: {error}; are these Fathom's checkpoints?"
            ) from error
        if saved.get("workload") != workload:
            raise FathomError(
                f"{self._directory} holds checkpoints of {saved.get('workload')}, not of "
                f"{workload}; use another --checkpoint-dir"
            )
        now = self._description["settings"]
        return {k: (before[k], now[k]) for k in now if k in before and before[k] != now[k]}

    def _read(self, step: int, changed: str) -> None:
        """Assigns the values of a checkpoint to the variables.

        Raises:
            FathomError: it holds other variables than the network.
            tf.errors.OpError, ValueError, RuntimeError, IndexError: it is damaged.
        """
        with _without_glob_characters(self._directory) as directory:
            reader = tf.train.load_checkpoint(str(directory / f"ckpt-{step}"))
            self._check_shapes(reader.get_variable_to_shape_map(), step, changed)
            for name, variable in self._variables.items():
                variable.assign(reader.get_tensor(_key(name)))

    def _check_shapes(self, shapes: dict[str, list[int]], step: int, changed: str) -> None:
        """Raises FathomError where the checkpoint holds other variables than the network."""
        why = f"; changed since then: {changed}" if changed else ""
        for name, variable in self._variables.items():
            shape = shapes.get(_key(name))
            if shape is None:
                raise FathomError(
                    f"checkpoint {self._prefix(step)} has no {name}: it is of another network{why}"
                )
            if list(variable.shape) != shape:
                raise FathomError(
                    f"checkpoint {self._prefix(step)} has {name} of shape {shape}, the network "
                    f"{list(variable.shape)}: use the settings that it was trained with{why}"
                )


def _described(changes: dict[str, tuple[Any, Any]]) -> list[str]:
    """Returns each changed setting in words."""
    return [f"{name} {before} -> {now}" for name, (before, now) in changes.items()]


def _key(name: str) -> str:
    """Returns what ``tf.train.Checkpoint`` calls a variable in its files."""
    return f"variables/{name.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"


@contextlib.contextmanager
def _without_glob_characters(directory: Path) -> Iterator[Path]:
    """Yields a path that TensorFlow can read: it takes ``run[1]`` for a pattern, a link is none."""
    if not _GLOB_CHARACTERS.intersection(str(directory)):
        yield directory
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "checkpoints"
        link.symlink_to(directory, target_is_directory=True)
        yield link
