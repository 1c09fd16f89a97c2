"""The threads of TensorFlow, which keeps its pools for the whole process."""

import tensorflow as tf

from fathom.errors import FathomError
from fathom.system.processor import available_cores, operations_at_once

_in_use: dict[str, int] = {}  # the threads of the run


def set_inter_op_threads(threads: int | None, inter_op_threads: int | None = None) -> int:
    """Sets how many operations TensorFlow runs at once; returns the number in use.

    Args:
        threads: of the run; None for one per core.
        inter_op_threads: their number; None for two, or one on one thread.

    Raises:
        FathomError: TensorFlow already runs with another number.
    """
    wanted = operations_at_once(threads, inter_op_threads)
    try:
        tf.config.threading.set_inter_op_parallelism_threads(wanted)
    except RuntimeError:
        _refuse_other_threads("threads", threads, threads_in_use())
        _refuse_other_threads("inter_op_threads", inter_op_threads, inter_op_threads_in_use())
        return operations_at_once(inter_op_threads_in_use(), inter_op_threads)
    return wanted


def set_threads(threads: int | None, shares: int = 1) -> int:
    """Sets the threads of the run and returns their number in use.

    Args:
        threads: None for one per core.
        shares: into which they are divided; 1: an operation may use all. Small operations gain
            nothing from a second thread, as waking it takes as long as they do: each of those that
            run at once has a share (docs/performance.md).

    Raises:
        FathomError: TensorFlow already runs with another number of threads.
    """
    wanted = threads or available_cores()
    try:
        tf.config.threading.set_intra_op_parallelism_threads(max(1, wanted // shares))
    except RuntimeError:
        _refuse_other_threads("threads", threads, threads_in_use())
        return threads_in_use()
    _in_use["threads"] = wanted
    return wanted


def require_threads(threads: int) -> None:
    """Raises FathomError unless the run has them: before TensorFlow runs, a later model counts."""
    if threads != (current := threads_in_use()):
        raise FathomError(
            f"threads={threads} were this model's, and a later one has set {current} for the whole "
            "process: give all models the same, or each a process"
        )


def threads_in_use() -> int:
    """Returns the threads of the run, as chosen here or by TensorFlow: for one operation."""
    return _in_use.get("threads") or intra_op_threads_in_use()


def intra_op_threads_in_use() -> int:
    """Returns the number of threads for one operation."""
    return tf.config.threading.get_intra_op_parallelism_threads() or available_cores()


def inter_op_threads_in_use() -> int:
    """Returns the number of operations that run at once; TensorFlow's default is one per core."""
    return tf.config.threading.get_inter_op_parallelism_threads() or available_cores()


def _refuse_other_threads(option: str, wanted: int | None, current: int) -> None:
    if wanted is not None and wanted != current:
        raise FathomError(
            f"{option}={wanted} cannot be set any more: TensorFlow already runs with {current} in "
            "this process; set it for the first model, or start a fresh process"
        ) from None
