"""Checkpoints: written whole, the newest few kept, refused where they do not fit."""

import json
import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from fathom.errors import FathomError, cause
from fathom.system.files import atomic_write

_KEPT = 3
_DESCRIPTION = "fathom.json"


class Checkpoints:
    """The checkpoints of one training, in one folder.

    Args:
        directory: where they are kept; made when it is not there.
        workload: name of the workload, which a checkpoint of another is refused by.
        settings: what the training was told, kept beside the checkpoints, to say what differs on
            resuming.
        variables: what is saved, by name.

    Raises:
        FathomError: the folder cannot be made, or holds checkpoints of another workload.
    """

    def __init__(
        self,
        directory: Path,
        workload: str,
        settings: dict[str, Any],
        variables: dict[str, tf.Variable],
    ) -> None:
        self._directory = directory
        self._description = {"workload": workload, "settings": settings}
        self._variables = variables
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._find_newest()
        except OSError as error:
            raise FathomError(f"cannot make {directory}: {error.strerror}") from error
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(variables=variables), str(directory), max_to_keep=_KEPT
        )

    @property
    def latest(self) -> str | None:
        """Path of the newest checkpoint, without its file endings; None where there is none."""
        return self._manager.latest_checkpoint

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
            self._manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            shutil.rmtree(self._directory / f"ckpt-{step}_temp", ignore_errors=True)
            raise FathomError(
                f"cannot write a checkpoint in {self._directory}: {cause(error)}{kept}"
            ) from error

    def restore(self) -> dict[str, tuple[Any, Any]]:
        """Restores the newest checkpoint.

        Returns:
            the settings that have changed since it was written, by name: before and now.

        Raises:
            FathomError: there is none, it is damaged, or of another workload or shape.
        """
        if self.latest is None:
            raise FathomError(f"nothing to resume: {self._directory} holds no checkpoint")
        saved = self._read_description()
        if saved.get("workload") != self._description["workload"]:
            raise FathomError(
                f"{self._directory} holds checkpoints of {saved.get('workload')}, not of "
                f"{self._description['workload']}; use another --checkpoint-dir"
            )
        before, now = saved.get("settings", {}), self._description["settings"]
        changes = {k: (before[k], now[k]) for k in now if k in before and before[k] != now[k]}
        self._check_shapes(", ".join(described(changes)))
        try:
            status = self._manager.checkpoint.restore(self.latest)
            status.assert_existing_objects_matched().expect_partial()
        except (tf.errors.OpError, ValueError, AssertionError, IndexError) as error:
            raise self._damaged(error) from error
        return changes

    def refuse_other_training(self) -> None:
        """Raises FathomError where the folder already holds checkpoints, so that none is lost."""
        if self.latest is not None:
            raise FathomError(
                f"{self._directory} already holds checkpoints: continue with --resume, or use "
                "another --checkpoint-dir"
            )

    def _find_newest(self) -> None:
        """Has the file ``checkpoint`` name the newest, where it is lost, damaged or out of date."""
        kept = self._kept()
        try:
            state = tf.train.get_checkpoint_state(str(self._directory))
            known = state is not None and Path(state.model_checkpoint_path).name in kept
        except ValueError:
            known = False
        if known:
            return
        (self._directory / "checkpoint").unlink(missing_ok=True)
        if kept:
            tf.compat.v1.train.update_checkpoint_state(str(self._directory), kept[-1], kept)

    def _kept(self) -> list[str]:
        """Returns the names of the checkpoints in the folder, the newest last."""
        names = [path.stem for path in self._directory.glob("ckpt-*.index")]
        steps = sorted(int(name[5:]) for name in names if name[5:].isdecimal())
        return [f"ckpt-{step}" for step in steps]

    def _damaged(self, error: Exception) -> FathomError:
        older = self._kept()[:-1]
        advice = f"; delete {Path(self.latest).name}.* to go on from {older[-1]}" if older else ""
        return FathomError(f"checkpoint {self.latest} is damaged: {cause(error)}{advice}")

    def _read_description(self) -> dict[str, Any]:
        try:
            description = json.loads((self._directory / _DESCRIPTION).read_text())
            if not isinstance(description.get("settings", {}), dict):
                raise ValueError("it has no settings")
            return description
        except (OSError, ValueError, AttributeError) as error:
            raise FathomError(
                f"{self._directory / _DESCRIPTION} cannot be read: {error}; are these "
                "Fathom's checkpoints?"
            ) from error

    def _check_shapes(self, changed: str) -> None:
        """Raises FathomError where the checkpoint holds other variables than the network."""
        why = f"; changed since then: {changed}" if changed else ""
        try:
            reader = tf.train.load_checkpoint(self.latest)
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise self._damaged(error) from error
        shapes = reader.get_variable_to_shape_map()
        for name, variable in self._variables.items():
            key = f"variables/{name.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"
            if key not in shapes:
                raise FathomError(
                    f"checkpoint {self.latest} has no {name}: it is of another network{why}"
                )
            if list(variable.shape) != shapes[key]:
                raise FathomError(
                    f"checkpoint {self.latest} has {name} of shape {shapes[key]}, the network "
                    f"{list(variable.shape)}: use the settings that it was trained with{why}"
                )


def described(changes: dict[str, tuple[Any, Any]]) -> list[str]:
    """Returns each changed setting in words."""
    return [f"{name} {before} -> {now}" for name, (before, now) in changes.items()]
