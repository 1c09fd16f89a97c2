"""The machine and the software that a result comes from."""

import contextlib
import functools
import hashlib
import os
import platform
import re
import resource
import shlex
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import keras
import numpy as np
import psutil
import tensorflow as tf

from fathom.system.device import Device, gpu_number
from fathom.system.processor import available_cores, choice, processor
from fathom.system.threads import inter_op_threads_in_use, intra_op_threads_in_use

_THAT_COMPUTE = ("keras", "numpy", "scipy", "sentencepiece", "soundfile")
_SWITCHES = (
    *("TF_ENABLE_ONEDNN_OPTS", "OMP_NUM_THREADS", "XLA_FLAGS", "TF_XLA_FLAGS"),
    *("TF_SET_ONEDNN_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA", "NVIDIA_TF32_OVERRIDE"),
    "TF_DETERMINISTIC_OPS",
)


def describe(device: Device, threads: int, precision: str, xla: str) -> dict[str, object]:
    """Returns the environment of a run as plain data; docs/results.md lists the fields."""
    cpu = processor()
    build = tf.sysconfig.get_build_info()
    on_gpu = device.on_gpu
    return {
        "cpu_model": cpu.name,
        "cpu_generation": cpu.generation or None,
        "cpu_flags": list(cpu.flags),
        "cores_available": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "onednn": choice().onednn,
        "switches": {name: os.environ[name] for name in _SWITCHES if name in os.environ},
        "gpu": _gpu() if on_gpu else None,
        "gpu_number": gpu_number() if on_gpu else None,
        "gpus_visible": len(tf.config.get_visible_devices("GPU")),
        "device": device.name,
        "threads": threads,
        "intra_op_threads": intra_op_threads_in_use(),
        "inter_op_threads": inter_op_threads_in_use(),
        "precision": precision,
        "xla": xla,
        "git_commit": git_commit(),
        "fathom": version("fathom-workloads"),
        "source": source(),
        "command": shlex.join(sys.orig_argv),
    }


def software(module: str) -> dict[str, str]:
    """Returns versions of what computes, and a digest of the source, committed or not.

    Args:
        module: loaded, of a workload's code: its package has a part in the digest.
    """
    own = sys.modules[module.partition(".")[0]]
    paths: set[Path] = set()
    if file := own.__file__:
        paths |= set(Path(file).parent.rglob("*.py")) if hasattr(own, "__path__") else {Path(file)}
    versions = {"Python": platform.python_version(), "TensorFlow": tf.__version__}
    versions |= {name: version(name) for name in _THAT_COMPUTE}
    return {"source": source(frozenset(paths)), **versions}


@functools.cache
def source(others: frozenset[Path] = frozenset()) -> str:
    """Returns a digest of Fathom's Python files and of others, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(others | set(Path(__file__).parents[1].rglob("*.py"))):
        digest.update(f"{path.name} ".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def peak_memory(device: Device) -> dict[str, int | None]:
    """Returns the process's peak resident bytes and, on a GPU, the peak of its allocations."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(OSError):  # as Linux begins that with the peak of the process before
        if found := re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text()):
            kilobytes = int(found[1])
    resident = kilobytes if sys.platform == "darwin" else kilobytes * 1024
    memory_of = tf.config.experimental.get_memory_info
    allocated = memory_of(device.name)["peak"] if device.on_gpu else None
    return {"peak_resident_bytes": resident, "peak_gpu_bytes": allocated}


def cpu_use() -> tuple[float, int, int]:
    """Returns this process's CPU seconds of all threads, involuntary switches and minor faults."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_nivcsw, usage.ru_minflt


def frequency_mhz() -> float | None:
    """Returns the frequency of the fastest core in MHz; None if the system does not tell it.

    Cores without work may be slower than the one that ran the steps. Virtual machines often give a
    constant.
    """
    try:
        return max((core.current for core in psutil.cpu_freq(percpu=True)), default=0.0) or None
    except (AttributeError, NotImplementedError, OSError):
        return None


def steal_seconds() -> float | None:
    """Returns the time that the host took from all cores of this virtual machine since its start.

    None if the system does not tell it.
    """
    try:
        return getattr(psutil.cpu_times(), "steal", None)
    except (NotImplementedError, OSError):
        return None


def process_age() -> float:
    """Returns the seconds since this process started."""
    return time.time() - psutil.Process().create_time()


def _gpu() -> str:
    """Returns the name of the GPU that the process sees."""
    visible = tf.config.get_visible_devices("GPU")[0]
    return tf.config.experimental.get_device_details(visible).get("device_name", visible.name)


def git_commit() -> str | None:
    """Returns the commit of Fathom's checkout; None for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
