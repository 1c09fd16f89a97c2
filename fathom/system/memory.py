"""Refuses what does not fit into memory, before it is allocated."""

import psutil

from fathom.errors import FathomError


def require_free_memory(needed: int, what: str, remedy: str) -> None:
    """Refuses what would not fit into memory, where the machine would end the process.

    Args:
        needed: bytes.
        what: what would take them, for the message.
        remedy: what the user can do.

    Raises:
        FathomError: the machine has less free.
    """
    free = psutil.virtual_memory().available
    if needed > free:
        raise FathomError(
            f"{what} would take {needed:,} bytes ({needed / 2**30:.1f} GiB), and "
            f"{free / 2**30:.1f} GiB are free: {remedy}"
        )
