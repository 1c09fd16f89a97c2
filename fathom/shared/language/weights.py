"""Weights that others have trained: folders of safetensors, as Hugging Face's models have them."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from fathom.errors import FathomError, cause


@dataclass(frozen=True)
class Published:
    """What a weight is in a published file.

    Attributes:
        variable: of the network.
        names: tensors that are side by side in it, without the prefix ``transformer.`` that
            published files of one network have or lack.
        transposed: they are [outputs, inputs], where the variable is [inputs, outputs].
    """

    variable: keras.Variable
    names: tuple[str, ...]
    transposed: bool = False


def load(folder: Path, weights: Iterable[Published]) -> None:
    """Assigns published tensors to the weights of a network; all of a network's, or none.

    Args:
        folder: with one or more files ``*.safetensors``.
        weights: of the network.

    Raises:
        FathomError: safetensors is not installed, a file is damaged, or a tensor is missing or has
            another shape.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise FathomError("weights need safetensors: pip install safetensors") from error
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FathomError(f"{folder} has no weights: expected files *.safetensors")
    places: dict[str, tuple[Any, str]] = {}
    try:
        with contextlib.ExitStack() as stack:
            for path in files:
                file = stack.enter_context(safe_open(path, framework="tf"))
                for name in file.keys():  # noqa: SIM118 - it is no dictionary
                    places[name.removeprefix("transformer.")] = file, name
            for each in weights:
                if missing := [name for name in each.names if name not in places]:
                    raise FathomError(
                        f"{folder} has no tensor {missing[0]}: is it of this network?"
                    )
                parts = []
                for file, name in (places[name] for name in each.names):
                    tensor = file.get_tensor(name)
                    parts.append(tf.transpose(tensor) if each.transposed else tensor)
                _assign(each, parts, folder)
    except (OSError, SafetensorError) as error:
        raise FathomError(f"the weights in {folder} cannot be read: {cause(error)}") from error


def _assign(weight: Published, parts: list[tf.Tensor], folder: Path) -> None:
    variable = weight.variable
    columns = sum(part.shape[-1] for part in parts)
    if {part.shape[:-1] for part in parts} != {variable.shape[:-1]} or columns != variable.shape[
        -1
    ]:
        found = ", ".join(str(tuple(part.shape)) for part in parts)
        raise FathomError(
            f"{folder}: {', '.join(weight.names)} with shape {found} cannot be {variable.path} "
            f"with shape {tuple(variable.shape)}: choose the hyperparameters of that network"
        )
    variable.assign(tf.cast(tf.concat(parts, -1), variable.dtype))
