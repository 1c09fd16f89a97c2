"""Child processes that do not outlive their parent."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of Linux's <sys/prctl.h>
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """Has Linux kill this process when its parent ends, however that ends; elsewhere it lives on.

    To be called in the child, as ``preexec_fn`` of ``subprocess``.
    """
    if _LIBRARY is not None:
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
