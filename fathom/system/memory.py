"""Checks of free memory before large allocations."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import psutil

from fathom.errors import FathomError
from fathom.system import cgroups

_TENSORFLOW_ADDRESSES = 2560 * 2**20  # bytes: with less it crashes on start
_CGROUPS = (  # version 2, then version 1: controllers, folder, files of limit and usage
    ("", Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    ("memory", Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def require_free_memory(needed: int, what: str, remedy: str) -> None:
    """Refuses an allocation that exceeds free memory, for which the system would kill the process.

    Args:
        needed: bytes.
        what: to be allocated, for the message.
        remedy: for the message.

    Raises:
        FathomError: less memory is free.
    """
    free, where = min(_limits())
    if needed > free:
        raise FathomError(
            f"{what} would take {needed:,} bytes ({needed / 2**30:.1f} GiB), and "
            f"{max(0, free) / 2**30:.1f} GiB are free{where}: {remedy}"
        )


def require_address_space() -> None:
    """Refuses an address-space limit under which TensorFlow crashes instead of raising an error.

    Raises:
        FathomError: the limit is too low.
    """
    limit = address_space()
    if limit is not None and limit < _TENSORFLOW_ADDRESSES:
        raise FathomError(
            f"the address-space limit (ulimit -v) is {limit / 2**30:.1f} GiB, and TensorFlow alone "
            f"needs {_TENSORFLOW_ADDRESSES / 2**30:.1f} GiB: raise the limit"
        )


def address_space() -> int | None:
    """Returns the limit of the process's addresses (``ulimit -v``), in bytes; None if unlimited."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def free_memory() -> int:
    """Returns the bytes that this process can still allocate."""
    return max(0, min(_limits())[0])


def _limits() -> Iterator[tuple[int, str]]:
    """Yields the free bytes under each limit, and the limit's name for a message."""
    yield psutil.virtual_memory().available + psutil.swap_memory().free, ""
    limit = address_space()
    if limit is not None:
        used = psutil.Process().memory_info().vms
        yield limit - used, " under the address-space limit (ulimit -v)"
    for free in _free_in_cgroups():
        yield free, " in the control group (a container's or a job's memory limit)"


def _free_in_cgroups() -> Iterator[int]:
    """Yields the free bytes under the limits of the process's control group and its ancestors."""
    for controller, root, limit, used in _CGROUPS:
        for group in cgroups.groups(controller, root):
            with contextlib.suppress(OSError, ValueError):  # no such file; "max" means no limit
                yield int((group / limit).read_text()) - _unreclaimable(group, used)


def _unreclaimable(group: Path, used: str) -> int:
    """Returns the bytes used by a control group, without its reclaimable file cache."""
    statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    cached = statistics.get("total_inactive_file", statistics["inactive_file"])  # v1: with children
    return int((group / used).read_text()) - int(cached)
