"""Weights that others have trained: folders of safetensors, as Hugging Face's models have them."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from fathom.errors import WRONG_JSON, FathomError, cause
from fathom.system.files import read_file, require_regular

_BASES = {"llama": 1e4, "mixtral": 1e6}  # what configurations without rope_theta mean


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


def load(folder: Path, weights: Iterable[Published], settings: Mapping[str, object]) -> None:
    """Assigns published tensors to the weights of a network.

    Args:
        folder: with ``config.json`` and one or more files ``*.safetensors``.
        weights: of the network.
        settings: what the configuration must say where it says anything: shapes do not tell heads.

    Raises:
        FathomError: safetensors is not installed, a file is missing or damaged, the configuration
            is that of another network, or a tensor is missing or has another shape.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise FathomError(
            "weights need safetensors: pip install 'fathom-workloads[weights]'"
        ) from error
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FathomError(f"{folder} has no weights: expected files *.safetensors")
    _check_configuration(folder / "config.json", settings)
    places: dict[str, tuple[Any, str]] = {}
    try:
        with contextlib.ExitStack() as stack:
            for path in files:
                require_regular(path)
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


def _check_configuration(path: Path, settings: Mapping[str, object]) -> None:
    try:
        found = json.loads(read_file(path))
        base = _BASES.get(found.get("model_type"), _BASES["llama"])
        found = {"rope_theta": base} | found | (found.get("rope_parameters") or {})
    except WRONG_JSON as error:
        raise FathomError(f"{path} is no network's configuration: {cause(error)}") from error
    for name, value in settings.items():
        if name in found and found[name] != value:
            raise FathomError(
                f"{path} has {name} {found[name]!r} where this network has {value!r}: choose the "
                "hyperparameters of that network"
            )


def _assign(weight: Published, parts: list[tf.Tensor], folder: Path) -> None:
    variable = weight.variable
    rows = {part.shape[:-1] for part in parts}
    columns = sum(sum(part.shape[-1:]) for part in parts)  # a scalar has none
    if rows != {variable.shape[:-1]} or columns != variable.shape[-1]:
        found = ", ".join(str(tuple(part.shape)) for part in parts)
        raise FathomError(
            f"{folder}: {', '.join(weight.names)} with shape {found} cannot be {variable.path} "
            f"with shape {tuple(variable.shape)}: choose the hyperparameters of that network"
        )
    variable.assign(tf.cast(tf.concat(parts, -1), variable.dtype))
