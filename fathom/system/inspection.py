"""Inspects the machine: what it has, what was chosen for it, and what costs speed."""

import contextlib
import os
import platform
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import psutil
import tensorflow as tf

from fathom.errors import cause
from fathom.system import cgroups
from fathom.system.environment import frequency_mhz, git_commit
from fathom.system.files import cache_directory, user_path
from fathom.system.memory import free_memory
from fathom.system.processor import (
    ONEDNN,
    available_cores,
    choice,
    keeps_freed_memory,
    operations_at_once,
    processor,
)

_BUSY = 0.5  # cores that others use, on average over a minute, above which timings suffer
_LITTLE_SPACE = 5e9  # bytes
_CGROUPS = Path("/sys/fs/cgroup")  # version 2
_DRIVER = Path("/proc/driver/nvidia/version")


class Line(NamedTuple):
    """What was found about one part of the machine, and what costs speed there."""

    name: str
    found: str
    hint: str | None = None


def inspect() -> list[Line]:
    """Returns a line for each part of the machine."""
    parts: tuple[Callable[[], Line], ...] = (
        *(_processor, _instruction_sets, _cores, _load, _memory, _allocator),
        *(_onednn, _xla, _threads, _gpu, _versions, _data, _cache),
    )
    return [part() for part in parts]


def _processor() -> Line:
    here, clock = processor(), frequency_mhz()
    return Line("processor", f"{here}, {here.architecture}" + (f", {clock:,.0f} MHz" * bool(clock)))


def _instruction_sets() -> Line:
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA")
    hint = f"ONEDNN_MAX_CPU_ISA={limit} keeps oneDNN from using all of them" if limit else None
    return Line("instruction sets", " ".join(processor().flags) or "not known", hint)


def _cores() -> Line:
    usable, all_cores, quota = available_cores(), os.cpu_count() or 1, _quota()
    hint = None
    if quota is not None and quota < usable:
        hint = f"the control group may use {quota:g} of them: --threads {max(1, int(quota))}"
    return Line("cores", f"{usable} of {all_cores}", hint)


def _quota() -> float | None:
    """Returns how many cores' time a container may use; None: no limit is known."""
    limits = []
    for group in cgroups.groups("", _CGROUPS):
        with contextlib.suppress(OSError, ValueError):  # no such file; "max" means no limit
            limit, period = (group / "cpu.max").read_text().split()
            limits.append(int(limit) / int(period))
    return min(limits, default=None)


def _load() -> Line:
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return Line("load", "not known")
    hint = "other processes are running: their share varies, and timings with it"
    return Line("load", f"{load:.1f} processes in the last minute", hint if load > _BUSY else None)


def _memory() -> Line:
    total, free = psutil.virtual_memory().total, free_memory()
    return Line("memory", f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} free")


def _allocator() -> Line:
    library, version = platform.libc_ver()
    preloaded = os.environ.get("LD_PRELOAD")
    name = f"{library} {version}".strip() or "not glibc"
    kept = "a run keeps freed memory" if keeps_freed_memory() else "freed memory is given back"
    return Line("allocator", f"{name}, {kept}" + f", LD_PRELOAD={preloaded}" * bool(preloaded))


def _onednn() -> Line:
    here = choice()
    if here.onednn is None:
        return Line("oneDNN", "TensorFlow's own choice on this system")
    who = {"user": f"{ONEDNN} is set", "fathom": "chosen by Fathom", "tensorflow": "by default"}
    found = f"{'on' if here.onednn else 'off'}, {who[here.chosen_by]}"
    hint = None if here.onednn else f"its kernels are faster: unset {ONEDNN}"
    if here.too_late:
        hint = f"its kernels are faster: import fathom before tensorflow, or set {ONEDNN}=1"
    return Line("oneDNN", found, hint)


def _xla() -> Line:
    flags = " ".join(f"{n}={os.environ[n]}" for n in ("XLA_FLAGS", "TF_XLA_FLAGS") if os.getenv(n))
    devices = [device.device_type for device in tf.config.list_logical_devices()]
    compiles = "compiles for the CPU" + " and the GPU" * ("GPU" in devices)
    return Line("XLA", f"{compiles}, {flags}" if flags else compiles)


def _threads() -> Line:
    at_once = operations_at_once(None, None)
    found = f"{available_cores()} by default, {at_once} operation{'s' * (at_once > 1)} at once"
    limit = os.environ.get("OMP_NUM_THREADS")
    return Line("threads", found + (f", OMP_NUM_THREADS={limit}" if limit else ""))


def _gpu() -> Line:
    gpus = tf.config.get_visible_devices("GPU")
    if gpus:
        details = (tf.config.experimental.get_device_details(gpu) for gpu in gpus)
        return Line("GPU", ", ".join(each.get("device_name", "unnamed") for each in details))
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden in ("", "-1"):
        return Line("GPU", "none", f"CUDA_VISIBLE_DEVICES={hidden} hides all")
    if not tf.sysconfig.get_build_info().get("is_cuda_build"):
        return Line("GPU", "none: this TensorFlow is built without CUDA")
    if not _DRIVER.exists():
        return Line("GPU", "none: there is no NVIDIA driver")
    hint = "TensorFlow does not find CUDA's libraries: pip install 'fathom-workloads[gpu]'"
    return Line("GPU", "none that TensorFlow sees", hint)


def _versions() -> Line:
    commit = git_commit()
    found = [
        f"Fathom {metadata.version('fathom-workloads')}" + (f" ({commit[:7]})" if commit else ""),
        f"TensorFlow {tf.__version__}",
        f"Keras {keras.__version__}",
        f"NumPy {np.__version__}",
        f"Python {platform.python_version()}",
        platform.platform(),
    ]
    return Line("versions", ", ".join(found))


def _data() -> Line:
    given = os.environ.get("FATHOM_DATA_DIR")
    if not given:
        return Line("data", "FATHOM_DATA_DIR is not set: fetched or synthetic data")
    folder = user_path(given)
    if not folder.is_dir():
        return Line("data", str(folder), "FATHOM_DATA_DIR is not a folder: correct or unset it")
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        return Line("data", str(folder), f"FATHOM_DATA_DIR cannot be read: {cause(error)}")
    return Line("data", f"{folder}: {', '.join(names) or 'empty'}")


def _cache() -> Line:
    folder = cache_directory()
    used = sum(map(_size, folder.rglob("*")))
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    hint = "little space is left for data and checkpoints" if free < _LITTLE_SPACE else None
    return Line("cache", f"{folder}, {used / 1e9:.1f} GB; {free / 1e9:.0f} GB free", hint)


def _size(path: Path) -> int:
    """Returns a file's bytes; 0: a folder, or a file that another process has just removed."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
