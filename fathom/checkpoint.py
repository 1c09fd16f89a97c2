"""Checkpoints: written whole, the newest few kept, refused where they do not fit."""

import json
import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from fathom.data.files import whole_file
from fathom.errors import FathomError, cause

_KEPT = 3
_DESCRIPTION = "fathom.json"


class Checkpoints:
    """The checkpoints of one training, in one folder.

    Args:
        directory: where they are kept; made when it is not there.
        workload: name of the workload, which a checkpoint of another is refused by.
        hyperparameters: kept beside the checkpoints, to say what differs on resuming.
        variables: what is saved, by name.

    Raises:
        FathomError: the folder cannot be made, or holds checkpoints of another workload.
    """

    def __init__(
        self,
        directory: Path,
        workload: str,
        hyperparameters: dict[str, Any],
        variables: dict[str, tf.Variable],
    ) -> None:
        self._directory = directory
        self._description = {"workload": workload, "hyperparameters": hyperparameters}
        self._variables = variables
        try:
            directory.mkdir(parents=True, exist_ok=True)
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
            with whole_file(self._directory / _DESCRIPTION) as temporary:
                temporary.write_text(json.dumps(self._description, indent=1) + "\n")
            self._manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            shutil.rmtree(self._directory / f"ckpt-{step}_temp", ignore_errors=True)
            raise FathomError(
                f"cannot write a checkpoint in {self._directory}: {cause(error)}{kept}"
            ) from error

    def restore(self) -> list[str]:
        """Restores the newest checkpoint.

        Returns:
            what differs between the checkpoint's hyperparameters and these, a line each.

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
        self._check_shapes()
        try:
            status = self._manager.checkpoint.restore(self.latest)
            status.assert_existing_objects_matched().expect_partial()
        except (tf.errors.OpError, ValueError, AssertionError) as error:
            raise FathomError(f"checkpoint {self.latest} is damaged: {cause(error)}") from error
        before, now = saved.get("hyperparameters", {}), self._description["hyperparameters"]
        return [f"{k} {before[k]} -> {now[k]}" for k in now if k in before and before[k] != now[k]]

    def refuse_other_training(self) -> None:
        """Raises FathomError where the folder already holds checkpoints, so that none is lost."""
        if self.latest is not None:
            raise FathomError(
                f"{self._directory} already holds checkpoints: continue with --resume, or use "
                "another --checkpoint-dir"
            )

    def _read_description(self) -> dict[str, Any]:
        try:
            return json.loads((self._directory / _DESCRIPTION).read_text())
        except (OSError, ValueError) as error:
            raise FathomError(
                f"{self._directory / _DESCRIPTION} cannot be read: {error}; are these "
                "Fathom's checkpoints?"
            ) from error

    def _check_shapes(self) -> None:
        """Raises FathomError where the checkpoint holds other variables than the network."""
        try:
            reader = tf.train.load_checkpoint(self.latest)
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise FathomError(f"checkpoint {self.latest} is damaged: {cause(error)}") from error
        shapes = reader.get_variable_to_shape_map()
        for name, variable in self._variables.items():
            key = f"variables/{name.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"
            if key not in shapes:
                raise FathomError(f"checkpoint {self.latest} has no {name}: it is of another shape")
            if list(variable.shape) != shapes[key]:
                raise FathomError(
                    f"checkpoint {self.latest} has {name} of shape {shapes[key]}, the network "
                    f"{list(variable.shape)}: use the hyperparameters that it was trained with"
                )
