"""The device of a run, its threads and its speed."""

import contextlib
import time
from collections.abc import Iterator

import keras
import tensorflow as tf

from fathom.errors import FathomError
from fathom.options import parse_device, precision_traits
from fathom.system.processor import (
    available_cores,
    operations_at_once,
    threads_of_an_operation,
)

_GEMM_SIZE = 2048
_GEMM_PRODUCTS = 6  # timed; the fastest is used
_TRIAD_VALUES = 2**26  # float32, in each array: 256 MiB, larger than caches
_TRIADS = 8  # timed; the fastest is used
_TF32_CAPABILITY = (8, 0)  # least compute capability of a GPU with TF32: Ampere

_chosen: dict[str, int] = {}  # the threads of the run: TensorFlow keeps its pools for the process


def select_device(name: str | None) -> str:
    """Returns TensorFlow's name of a device, and hides the other GPUs from this process.

    TensorFlow numbers the visible GPUs, so that the name of any GPU of the machine is ``/gpu:0``;
    ``gpu_number`` has its number among all of them.

    Args:
        name: ``cpu``, ``gpu``, ``gpu:N``, or TensorFlow's ``/cpu:0``; None for the first GPU if
            available, otherwise the CPU.

    Raises:
        FathomError: not a device name, no such device on this machine, or TensorFlow already runs
            with another GPU.
    """
    gpus = len(tf.config.list_physical_devices("GPU"))
    kind, index = parse_device(name if name is not None else "gpu" if gpus else "cpu")
    if kind == "gpu" and index >= gpus:
        found = f"{gpus} GPU{'s' if gpus > 1 else ''}" if gpus else "no GPU"
        raise FathomError(
            f"device {name} is not available: TensorFlow sees {found} on this machine; use "
            "--device cpu or install fathom-workloads[gpu]"
        )
    if kind == "cpu" and index > 0:
        raise FathomError(f"device {name} is not available: the CPU is one device, cpu")
    if kind == "gpu":
        _show_only(index)
    return f"/{kind}:0"


def _show_only(index: int) -> None:
    """Makes one GPU of the machine the only one that this process sees."""
    try:
        tf.config.set_visible_devices(tf.config.list_physical_devices("GPU")[index], "GPU")
    except RuntimeError:
        raise FathomError(
            f"device gpu:{index} comes too late: TensorFlow already runs in this process and sees "
            "other GPUs; choose it for the first model, or start a fresh process"
        ) from None


def gpu_number() -> int:
    """Returns the number of the first visible GPU among all GPUs of the machine."""
    visible = tf.config.get_visible_devices("GPU")
    return tf.config.list_physical_devices("GPU").index(visible[0])


def select_precision(precision: str, device: str) -> None:
    """Makes float32 products on GPUs exact, or rounds their factors to TF32, for the whole process.

    TensorFlow's default is TF32 wherever a GPU has it.

    Raises:
        FathomError: the device does not have TF32, or fixed point.
    """
    traits = precision_traits(precision)
    tf32 = traits.tf32
    if traits.fixed and device != "/cpu:0":
        raise FathomError(f"precision {precision} is simulated on the CPU only: use --device cpu")
    if tf32 and device == "/cpu:0":
        raise FathomError("precision tf32 is for GPUs only: use --device gpu or another precision")
    if tf32:
        gpu = tf.config.get_visible_devices("GPU")[parse_device(device)[1]]
        details = tf.config.experimental.get_device_details(gpu)
        capability = details.get("compute_capability") or (0, 0)
        if capability < _TF32_CAPABILITY:
            raise FathomError(
                "precision tf32 needs a GPU of compute capability 8.0 or more; "
                f"{details.get('device_name', gpu.name)} has {'.'.join(map(str, capability))}"
            )
    tf.config.experimental.enable_tensor_float_32_execution(tf32)


def set_inter_op_threads(threads: int | None, chosen: int | None = None) -> int:
    """Sets how many operations TensorFlow runs at once; returns the number in use.

    Args:
        threads: of the run; None for one per core.
        chosen: the number; None for two, or one on one thread.

    Raises:
        FathomError: TensorFlow already runs with another number.
    """
    wanted = operations_at_once(threads, chosen)
    try:
        tf.config.threading.set_inter_op_parallelism_threads(wanted)
    except RuntimeError:
        _refuse_other_threads("inter_op_threads", chosen, inter_op_threads_in_use())
        return operations_at_once(inter_op_threads_in_use(), chosen)
    return wanted


def set_threads(threads: int | None, shares: int = 1) -> int:
    """Sets the threads of the run and returns their number in use.

    Args:
        threads: None for one per core.
        shares: as of ``threads_of_an_operation``.

    Raises:
        FathomError: TensorFlow already runs with another number of threads.
    """
    wanted = threads or available_cores()
    try:
        tf.config.threading.set_intra_op_parallelism_threads(
            threads_of_an_operation(wanted, shares)
        )
    except RuntimeError:
        _refuse_other_threads("threads", threads, threads_in_use())
        return threads_in_use()
    _chosen["threads"] = wanted
    return wanted


def threads_in_use() -> int:
    """Returns the threads of the run, as chosen here or by TensorFlow: for one operation."""
    return _chosen.get("threads") or intra_op_threads_in_use()


def intra_op_threads_in_use() -> int:
    """Returns the number of threads for one operation."""
    return tf.config.threading.get_intra_op_parallelism_threads() or available_cores()


def inter_op_threads_in_use() -> int:
    """Returns the number of operations that run at once; TensorFlow's default is one per core."""
    return tf.config.threading.get_inter_op_parallelism_threads() or available_cores()


def _refuse_other_threads(option: str, wanted: int | None, current: int) -> None:
    if wanted is not None and wanted != current:
        raise FathomError(
            f"{option}={wanted} comes too late: TensorFlow already runs with {current} in this "
            "process; set it for the first model, or start a fresh process"
        ) from None


def gemm_rate(device: str, precision: str) -> float:
    """Returns the best rate of TensorFlow's large matrix product on a device, in FLOP/s."""
    with tf.device(device):
        shape = [_GEMM_SIZE, _GEMM_SIZE]
        dtype = keras.DTypePolicy(precision_traits(precision).policy).compute_dtype
        a, b = (tf.cast(tf.random.stateless_uniform(shape, [0, i]), dtype) for i in (1, 2))
        product = tf.function(lambda: tf.matmul(a, b))
        times = []
        for _ in range(_GEMM_PRODUCTS):
            start = time.perf_counter()
            product()
            if device != "/cpu:0":
                tf.test.experimental.sync_devices()
            times.append(time.perf_counter() - start)
    return 2 * _GEMM_SIZE**3 / min(times)


def triad_rate() -> float:
    """Returns the best rate of the CPU's memory in STREAM's triad, a = b + s c, in bytes/s.

    As in STREAM (McCalpin 1995), two arrays are read and one is written, and the read of a cache
    line before it is written does not count.
    """
    with tf.device("/cpu:0"):
        b, c = (tf.random.stateless_uniform([_TRIAD_VALUES], [0, i]) for i in (1, 2))
        triad = tf.function(lambda: b + 3.0 * c, jit_compile=True)  # one loop, without a product
        times = []
        for _ in range(_TRIADS):
            start = time.perf_counter()
            triad()
            times.append(time.perf_counter() - start)
    return 3 * _TRIAD_VALUES * tf.float32.size / min(times)


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Makes Keras layers built in the block compute in ``precision``, with float32 weights."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision_traits(precision).policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
