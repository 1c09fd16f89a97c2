import contextlib
import ctypes
import gc
import importlib.metadata
import os
import signal
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from registration import entries_of, write_metadata

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # the tests are the same on a machine with a GPU

# Most of the time in which XLA compiles goes to machine code that is fast, which no test needs.
FLAGS = "--xla_backend_optimization_level=0", os.environ.get("XLA_FLAGS", "")  # the last one counts
os.environ["XLA_FLAGS"] = " ".join(FLAGS).strip()

REAL_DATA = os.environ.get("FATHOM_DATA_DIR")


def pytest_addoption(parser):
    parser.addoption("--part", default="1/1", help="run a part of the tests, such as 2/4")


@pytest.hookimpl(trylast=True)  # of what the marks leave
def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.getoption("part").split("/"))
    first, end = (len(items) * each // parts for each in (part - 1, part))
    config.hook.pytest_deselected(items=items[:first] + items[end:])
    items[:] = items[first:end]


def pytest_configure(config):
    """Chooses the thread pools, registers our workloads, and lets programs be interrupted.

    A shell ignores interrupts for what it runs in the background, and so would what tests start.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run_one_operation_at_once()
    _register_own_workloads(config)


def _run_one_operation_at_once():
    """Chooses a profile's thread pools for all models of this process, before any test computes."""
    import fathom  # noqa: F401, I001 - chooses the processor's kernels before TensorFlow is imported
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.zeros([])  # TensorFlow runs now, so that the choice holds
    gc.freeze()  # what was imported stays, and need not be scanned each time


def _register_own_workloads(config):
    """Registers the project's own workloads, where it is on the path but not installed."""
    try:
        importlib.metadata.distribution("fathom-workloads")
    except importlib.metadata.PackageNotFoundError:
        folder = tempfile.TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        project = Path(__file__).parents[1] / "pyproject.toml"
        write_metadata(Path(folder.name), "fathom-workloads", entries_of(project))
        sys.path.append(folder.name)
        path = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        os.environ["PYTHONPATH"] = os.pathsep.join([*path, folder.name])


@pytest.fixture(scope="session", autouse=True)
def _own_data(tmp_path_factory):
    """Makes synthetic data the default, in a cache of the tests' own."""
    os.environ.pop("FATHOM_DATA_DIR", None)
    os.environ["FATHOM_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", autouse=True)
def _collected():
    """Frees what a module's tests leave; what stays then need not be scanned again."""
    yield
    _give_memory_back()
    gc.freeze()


@pytest.fixture(autouse=True)
def _bounded():
    """Frees what a test leaves, if the process has grown by a gigabyte since this was last done."""
    yield
    if psutil.Process().memory_info().rss > _resident[0] + 2**30:
        _give_memory_back()


_resident = [0]  # bytes, when memory was last given back


def _give_memory_back():
    """Frees the models that tests leave, which are cycles: some have a gigabyte of weights.

    A run keeps freed memory in the process (``processor.keep_freed_memory``); tests give it back.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)
    _resident[0] = psutil.Process().memory_info().rss


@pytest.fixture(scope="session")
def real_data():
    """Gives the folder with the real data sets; the test is skipped without it."""
    if REAL_DATA is None:
        pytest.skip("FATHOM_DATA_DIR is not set: no real data")
    return Path(REAL_DATA).resolve()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Gives a function that puts a package, its modules and its workloads on the path."""
    from fathom import workloads
    from fathom.measure.report import selection

    caches = (workloads._registered, selection.order)

    def put(package, entries, folder=None, **modules):
        place = tmp_path / f"{package}-installed"
        write_metadata(place, package, entries)
        for name, text in modules.items():
            (place / f"{name}.py").write_text(text)
        for each in filter(None, (place, folder)):
            monkeypatch.syspath_prepend(each)
        for cache in caches:
            cache.cache_clear()

    yield put
    monkeypatch.undo()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    for cache in caches:
        cache.cache_clear()
