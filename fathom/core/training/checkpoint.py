"""Checkpoints: written atomically, the newest few kept, mismatches refused."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import tensorflow as tf

from fathom.errors import FathomError, cause
from fathom.system.files import atomic_write, exists, read_file, require_regular
from fathom.system.lock import lock_folder

Change: TypeAlias = tuple[Any, Any]  # of a setting: old and new value
Settings: TypeAlias = dict[str, object]

_KEPT = 3
_DESCRIPTION = "fathom.json"
_STATE = "checkpoint"  # for tf.train.latest_checkpoint; never read here
_GLOB_CHARACTERS = set("*?[]\\")
_LEFTOVERS = ("ckpt-*_temp", "ckpt-*.tempstate*", f".{_DESCRIPTION}.*.tmp", f".{_STATE}.*.tmp")


@dataclass
class Restored:
    """The outcome of restoring a checkpoint.

    Attributes:
        changes: settings changed since it was written, by name: old and new value; an old one that
            is not known is None.
        notes: messages for the user: the checkpoint, damaged newer ones, changed settings.
    """

    changes: dict[str, Change]
    notes: list[str] = field(default_factory=list)


class Checkpoints:
    """The checkpoints of one training run, in one folder.

    Call ``begin`` before training.

    Args:
        directory: of the checkpoints.
        workload: name of the workload; checkpoints of another workload are refused.
        settings: the options of the run, stored with each checkpoint to report changes on resuming.
        variables: to save, by name.
        formats: names of those that belong to the precision, which keep their values where a
            checkpoint of another one is restored.
    """

    def __init__(
        self,
        directory: Path,
        workload: str,
        settings: Settings,
        variables: dict[str, tf.Variable],
        formats: Collection[str] = (),
    ) -> None:
        self._directory = directory.absolute()
        self._workload, self._settings = workload, settings
        self._variables, self._formats = variables, formats
        self._checkpoint = tf.train.Checkpoint(variables=variables)
        self._latest = max(self._steps(), default=None)
        self._described: dict[int, Settings] = {}  # settings of the checkpoints, by step

    @property
    def latest(self) -> Path | None:
        """Path of the newest checkpoint, without file extensions; None if there is none.

        After restoring or writing a checkpoint, it is that one.
        """
        return None if self._latest is None else self._prefix(self._latest)

    def begin(self, resume: bool, writes: bool) -> Restored:
        """Opens the folder and restores the newest checkpoint, if there is one to continue from.

        Args:
            resume: continue a training; one that has not begun starts from scratch.
            writes: checkpoints will be written; otherwise there must be one to read.

        Returns:
            what was restored; afterwards ``latest`` is None if nothing was.

        Raises:
            FathomError: the folder cannot be used, or its checkpoints are not of this training.
        """
        if writes:
            self.open_for_writing()
        if not writes or (resume and self._latest is not None):
            return self.restore()
        if self._latest is not None:
            raise FathomError(
                f"{self._directory} already holds checkpoints: continue with --resume, or use "
                "another --checkpoint-dir"
            )
        if resume:
            return Restored({}, [f"nothing to resume in {self._directory}: starting from scratch"])
        return Restored({})

    def open_for_writing(self) -> None:
        """Creates and locks the folder, tests writing, and removes leftovers of killed runs.

        Raises:
            FathomError: it cannot be created or written, or another process uses it.
        """
        try:
            str(self._directory).encode()
            self._directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._directory, prefix=".fathom."):
                self._lock = lock_folder(self._directory)
            for path in (self._directory / _DESCRIPTION, self._directory / _STATE):
                if exists(path):
                    require_regular(path)
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
        """Writes a checkpoint after ``step`` steps.

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
            self._describe({**self._described, step: self._settings}, [*self._steps(), step])
            self._write(step)
            self._latest = step
            self._remove_older(step)
            self._describe(self._described, self._steps())
        except (tf.errors.OpError, OSError) as error:
            shutil.rmtree(self._directory / f"ckpt-{step}_temp", ignore_errors=True)
            raise FathomError(
                f"cannot write a checkpoint in {self._directory}: {cause(error)}{kept}"
            ) from error

    def restore(self) -> Restored:
        """Restores the newest intact checkpoint.

        Raises:
            FathomError: there is none, or it belongs to another workload or network.
        """
        if self._latest is None:
            raise FathomError(f"nothing to restore: {self._directory} holds no checkpoint")
        steps = self._steps()  # before the description, which a training may be writing
        self._described = self._read_description(steps)
        damaged: dict[str, str] = {}
        for step in reversed(steps):
            restored = Restored(_changes(self._described[step], self._settings))
            changed = [
                f"{name} {'unknown' if old is None else old} -> {new}"
                for name, (old, new) in restored.changes.items()
            ]
            kept = self._formats if "precision" in restored.changes else ()
            variables = {name: v for name, v in self._variables.items() if name not in kept}
            try:
                self._read(step, variables, ", ".join(changed))
            except tf.errors.ResourceExhaustedError:  # not the checkpoint's fault
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

    def _prefix(self, step: int) -> Path:
        return self._directory / f"ckpt-{step}"

    def _write(self, step: int) -> None:
        """Writes the files of a checkpoint in a folder of their own, and moves them out of it."""
        name = self._prefix(step).name
        folder = self._directory / f"{name}_temp"
        folder.mkdir()
        self._checkpoint.write(str(folder / name))
        for path in sorted(folder.glob(f"{name}.*")):  # last the index, which makes it a checkpoint
            path.replace(self._directory / path.name)
        shutil.rmtree(folder)

    def _steps(self) -> list[int]:
        """Returns the steps of the checkpoints in the folder, in order."""
        numbers = [path.stem[5:] for path in self._directory.glob("ckpt-*.index")]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _remove_leftovers(self) -> None:
        for path in [path for pattern in _LEFTOVERS for path in self._directory.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in self._directory.glob("ckpt-*.data-*-of-*"):
            if not path.with_suffix(".index").exists():  # the index is written last
                path.unlink()

    def _remove_older(self, newest: int) -> None:
        """Keeps the newest few, and lists them in TensorFlow's checkpoint state file.

        Damaged checkpoints of later steps do not count: otherwise a run resumed before them would
        remove its own.
        """
        steps = [step for step in self._steps() if step <= newest]
        lines = [f'model_checkpoint_path: "ckpt-{newest}"']
        lines += [f'all_model_checkpoint_paths: "ckpt-{step}"' for step in steps[-_KEPT:]]
        with atomic_write(self._directory / _STATE) as temporary:
            temporary.write_text("\n".join(lines) + "\n")
        for step in steps[:-_KEPT]:
            self._prefix(step).with_suffix(".index").unlink()  # first: invalidates the rest
            for path in self._directory.glob(f"ckpt-{step}.data-*"):
                path.unlink()

    def _describe(self, described: Mapping[int, Settings], steps: Collection[int]) -> None:
        """Writes the description, with the settings of the checkpoints after ``steps``."""
        self._described = {step: described[step] for step in sorted(described) if step in steps}
        description = {"workload": self._workload, "steps": self._described}
        with atomic_write(self._directory / _DESCRIPTION) as temporary:
            temporary.write_text(json.dumps(description, indent=1) + "\n")

    def _read_description(self, steps: Collection[int]) -> dict[int, Settings]:
        """Returns the settings with which checkpoints were written, by step.

        Earlier versions wrote only those of the newest, which then are taken for all.

        Raises:
            FathomError: it cannot be read, or is of another workload.
        """
        path = self._directory / _DESCRIPTION
        try:
            saved = json.loads(read_file(path))
            by_step, otherwise = saved.get("steps", {}), saved.get("settings", {})
            described = {step: by_step.get(str(step), otherwise) for step in steps}
            if not all(isinstance(settings, dict) for settings in described.values()):
                raise ValueError("it has no settings")
        except (FathomError, ValueError, AttributeError, RecursionError) as error:
            raise FathomError(
                f"{path} cannot be read: {error}; are these Fathom's checkpoints?"
            ) from error
        if saved.get("workload") != self._workload:
            raise FathomError(
                f"{self._directory} holds checkpoints of {saved.get('workload')}, not of "
                f"{self._workload}; use another --checkpoint-dir"
            )
        return described

    def _read(self, step: int, variables: Mapping[str, tf.Variable], changed: str) -> None:
        """Loads the values of a checkpoint into variables.

        Raises:
            FathomError: its variables are not those of the network.
            tf.errors.OpError, ValueError, RuntimeError, IndexError: it is damaged.
        """
        for path in self._directory.glob(f"ckpt-{step}.*"):
            if not path.is_file():  # TensorFlow would wait for a pipe
                raise ValueError(f"{path.name} is not a regular file")
        with _without_glob_characters(self._directory) as directory:
            reader = tf.train.load_checkpoint(str(directory / f"ckpt-{step}"))
            self._check_shapes(variables, reader.get_variable_to_shape_map(), step, changed)
            for name, variable in variables.items():
                variable.assign(reader.get_tensor(_key(name)))

    def _check_shapes(
        self,
        variables: Mapping[str, tf.Variable],
        shapes: dict[str, list[int]],
        step: int,
        changed: str,
    ) -> None:
        """Raises FathomError if the checkpoint's variables are not those of the network."""
        why = f"; changed since then: {changed}" if changed else ""
        for name, variable in variables.items():
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


def _changes(before: Settings, now: Settings) -> dict[str, Change]:
    return {k: (before.get(k), now[k]) for k in now if before.get(k) != now[k]}


def _key(name: str) -> str:
    """Returns the key of a variable in the files of ``tf.train.Checkpoint``."""
    return f"variables/{name.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"


@contextlib.contextmanager
def _without_glob_characters(directory: Path) -> Iterator[Path]:
    """Yields the directory, or a link to it if TensorFlow would expand its name as a pattern."""
    if not _GLOB_CHARACTERS.intersection(str(directory)):
        yield directory
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "checkpoints"
        link.symlink_to(directory, target_is_directory=True)
        yield link
