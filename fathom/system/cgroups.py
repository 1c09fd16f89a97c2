"""The control groups of Linux: the limits of a container or of a job."""

from collections.abc import Iterator
from pathlib import Path

_PROCESS = Path("/proc/self/cgroup")


def groups(controller: str, root: Path) -> Iterator[Path]:
    """Yields the folders of this process's control group and of its ancestors, innermost first.

    Args:
        controller: of version 1, such as ``memory``; "" is version 2, which has all in one tree.
        root: where the tree is mounted.
    """
    lines = _PROCESS.read_text().splitlines() if _PROCESS.exists() else []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controller in controllers.split(","):
            group = root / path.strip("/")
            while group.is_relative_to(root):
                yield group
                group = group.parent
