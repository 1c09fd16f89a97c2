"""CUDA's libraries, as NVIDIA's Python packages install them. Nothing here imports TensorFlow."""

import contextlib
import ctypes
import importlib.util
from pathlib import Path

_SOLVER = "cusolver/lib/libcusolver.so.11"


def load_solver() -> None:
    """Loads cuSOLVER if it is installed as a Python package.

    TensorFlow 2.21 searches these packages for all of CUDA's libraries but this one, and uses no
    GPU where one is missing. It takes a library that is loaded already.
    """
    packages = importlib.util.find_spec("nvidia")
    for folder in (packages and packages.submodule_search_locations) or ():
        library = Path(folder, _SOLVER)
        if library.exists():
            with contextlib.suppress(OSError):  # TensorFlow says that it finds no GPU
                ctypes.CDLL(str(library))
