"""The processor, and what is chosen for speed on it before TensorFlow is imported.

``import fathom`` chooses, unless the user has: whether TensorFlow uses oneDNN's kernels cannot be
changed once TensorFlow is imported. Nothing here imports TensorFlow.
"""

import contextlib
import ctypes
import functools
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
_FLAGS = (  # instruction sets that affect speed, of x86-64 and of Arm
    *("sse4_1", "sse4_2", "avx", "avx2", "fma", "avx_vnni"),
    *("avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)
_TENSORFLOWS_CHOICE = {  # TensorFlow 2.21 takes oneDNN's kernels by itself where one of these is
    *("avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"),
}
_MALLOC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_")  # glibc's own, which a user may have set

_any: ContextVar[bool] = ContextVar("any_processor", default=False)


@dataclass(frozen=True)
class Processor:
    """A processor."""

    name: str  # as it calls itself; generations may share it
    architecture: str  # ``x86_64``, ``aarch64``, ``arm64``, ...
    generation: str = ""  # family and model of an x86 processor, if known
    flags: tuple[str, ...] = ()  # instruction sets that affect speed, as Linux names them

    def __str__(self) -> str:
        return f"{self.name} ({self.generation})" if self.generation else self.name


@functools.cache
def processor() -> Processor:
    """Returns the processor of this machine."""
    architecture = platform.machine()
    name = platform.processor() or architecture
    if sys.platform == "darwin":
        return Processor(_sysctl("machdep.cpu.brand_string") or name, architecture)
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return _read(lines, name, architecture)


def _read(lines: list[str], name: str, architecture: str) -> Processor:
    """Returns the processor that the lines of Linux's ``/proc/cpuinfo`` tell of."""
    pairs = (line.partition(":") for line in lines)
    values = {key.strip(): value.strip() for key, _, value in pairs}
    family, model = values.get("cpu family"), values.get("model")
    flags = (values.get("flags") or values.get("Features") or "").split()
    return Processor(
        name=values.get("model name", name),
        architecture=architecture,
        generation=f"family {family}, model {model}" if family and model else "",
        flags=tuple(flag for flag in _FLAGS if flag in flags),
    )


def _sysctl(name: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5)
        return answer.stdout.strip()
    return ""


def available_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Choice:
    """Whether TensorFlow uses oneDNN's kernels in this process, and who chose."""

    onednn: bool | None  # None where it may have none: on Arm, and on other systems than Linux
    chosen_by: str  # ``user`` (the environment), ``fathom`` or ``tensorflow`` (its default)
    too_late: bool = False  # TensorFlow was imported before Fathom, with the worse choice


@functools.cache
def choice() -> Choice:
    """Chooses oneDNN's kernels if the user has not chosen and TensorFlow is not imported yet.

    The first call, which ``import fathom`` makes, decides.

    TensorFlow takes them by itself only on processors with instructions for neural networks; they
    are as fast or faster on all x86 processors (docs/performance.md). Where TensorFlow was imported
    first with the worse choice, one line is logged.
    """
    here = processor()
    given = os.environ.get(ONEDNN)
    if given is not None:
        return Choice(given.lower() in ("1", "true"), "user")
    if sys.platform != "linux" or here.architecture != "x86_64":
        return Choice(None, "tensorflow")
    usual = bool(_TENSORFLOWS_CHOICE.intersection(here.flags))
    if "tensorflow" not in sys.modules:
        os.environ[ONEDNN] = "1"
        return Choice(True, "fathom")
    if not usual:
        logging.getLogger("fathom").warning(
            "TensorFlow was imported before Fathom and leaves oneDNN's faster kernels off: import "
            "fathom first, or set %s=1",
            ONEDNN,
        )
    return Choice(usual, "tensorflow", too_late=not usual)


@contextlib.contextmanager
def any_processor() -> Iterator[None]:
    """Makes what is traced in the block the network as its paper has it, for any processor."""
    token = _any.set(True)
    try:
        yield
    finally:
        _any.reset(token)


def traces_for_any_processor() -> bool:
    """Says whether what is being traced is for any processor, and not for this run."""
    return _any.get()


def trains_groups(dtype: str) -> bool:
    """Says whether what is being traced may have convolutions with groups, of a dtype.

    On a CPU only oneDNN's gradients know groups, in float32 and, with AVX-512, in bfloat16.
    """
    known = choice().onednn is True and (dtype == "float32" or "avx512f" in processor().flags)
    return dtype != "float16" and (traces_for_any_processor() or known)


def keeps_freed_memory() -> bool:
    """Says whether ``keep_freed_memory`` changes the allocator: glibc's, unless the user has."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return platform.libc_ver()[0] == "glibc" and not (
        any(name in os.environ for name in _MALLOC)
        or any(f"glibc.malloc.{name}" in tunables for name in ("trim_threshold", "mmap_max"))
    )


def keep_freed_memory() -> None:
    """Configures glibc's allocator to keep large freed blocks instead of returning them.

    Each step frees and allocates its activations. If they were returned to the kernel, each of
    their pages would fault again (measured in docs/performance.md). Other C libraries are not
    changed, nor is what the user set in the environment.
    """
    if not keeps_freed_memory():
        return
    trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
    _set_malloc(trim_threshold, -1)  # never
    _set_malloc(mmap_max, 0)  # never serve a block by mmap


def share_freed_memory() -> None:
    """Lets all threads of this process allocate from one of glibc's arenas, before they start.

    A message between workers is allocated and freed by different threads. With an arena for each
    thread, glibc's default, sums of gradients are slower (measured in docs/distribution.md).
    """
    _set_malloc(-8, 1)  # M_ARENA_MAX of malloc.h


def _set_malloc(parameter: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(parameter, value)


def operations_at_once(threads: int | None, wanted: int | None) -> int:
    """Returns how many operations run at once: as wanted, else two, or one on one thread.

    Args:
        threads: of the run; None: one per core.
        wanted: by the user; None: the default.
    """
    return wanted or min(2, threads or available_cores())
