"""How CUDA's libraries are found, with another library in the place of cuSOLVER."""

import _ctypes
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

LOADED = """
import sys
import fathom
print("libcusolver.so.11" in open("/proc/self/maps").read(), "tensorflow" in sys.modules)
"""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it reads Linux's /proc"),
    pytest.mark.skipif(find_spec("nvidia") is not None, reason="NVIDIA's packages are installed"),
]


def loaded(folder):
    """Returns whether ``import fathom`` loads what lies in the folder, and TensorFlow."""
    command = [sys.executable, "-c", LOADED]
    path = os.pathsep.join([str(folder), *sys.path[1:], str(Path(__file__).parents[2])])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "nvidia" / "cusolver" / "lib" / "libcusolver.so.11"
    path.parent.mkdir(parents=True)
    return path


def test_cusolver_is_loaded_where_its_package_is_installed(tmp_path, library):
    shutil.copy(_ctypes.__file__, library)
    assert loaded(tmp_path) == ["True", "False"]


def test_what_cannot_be_loaded_is_left_to_tensorflow(tmp_path, library):
    library.write_bytes(b"no library")
    assert loaded(tmp_path) == ["False", "False"]


def test_without_the_package_nothing_is_loaded(tmp_path):
    assert loaded(tmp_path) == ["False", "False"]
