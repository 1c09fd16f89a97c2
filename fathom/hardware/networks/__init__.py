"""Describes anyone's network from its file; nothing of it is run, and no weight is allocated."""

import importlib
from collections.abc import Mapping
from pathlib import Path

from fathom.errors import FathomError, require
from fathom.results.description import Description
from fathom.system.files import exists

_FORMATS = {  # module and function that read it, by the end of the name
    ".onnx": ("onnx", "read"),
    ".keras": ("tensorflow", "read_keras"),
    ".mlir": ("stablehlo", "read"),
    "": ("tensorflow", "read_saved_model"),
}


def is_file(text: str) -> bool:
    """Returns whether a text names a file or folder, by a slash or its end, and no workload."""
    suffix = Path(text).suffix
    return "/" in text or (bool(suffix) and suffix in (*_FORMATS, ".json"))


def needs_tensorflow(path: Path) -> bool:
    """Returns whether reading a file imports TensorFlow."""
    return path.suffix == ".keras" or path.is_dir()


def read(path: Path, dimensions: Mapping[str, int]) -> Description:
    """Returns the work of a network's inference, or a description that was written before.

    Args:
        path: of the file.
        dimensions: the sizes that the network leaves open, by name; see docs/networks.md.

    Raises:
        FathomError: the file cannot be read, is damaged or of another format, it asks to run code,
            a size is missing or depends on the data, or a package is missing.
    """
    if not exists(path):
        raise FathomError(f"{path} does not exist")
    if path.suffix == ".json":
        if dimensions:
            raise FathomError("--dim has no effect on a description, whose sizes are fixed")
        return Description.read(path)
    suffix = "" if path.is_dir() else path.suffix
    if suffix not in _FORMATS or (not suffix and not path.is_dir()):
        known = ", ".join(filter(None, _FORMATS))
        raise FathomError(f"{path} is none of {known}, .json and the folder of a SavedModel")
    module, function = _FORMATS[suffix]
    if module == "onnx":
        require(str(path), "exports", "onnx")
    reader = importlib.import_module(f"fathom.hardware.networks.{module}")
    description: Description = getattr(reader, function)(path, dimensions)
    return description
