"""Measures what ``fathom predict`` needs of this machine: operations alone, and whole steps."""

import functools
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from fathom import workloads
from fathom.errors import FathomError
from fathom.hardware.accelerators.prediction import Rates
from fathom.measure.runs.folder import Folder
from fathom.results.calibration import Calibration, ProductTime, StepTime, TransferTime
from fathom.results.characterization import Run
from fathom.results.description import StepPhase
from fathom.results.records import RunResult

_SECONDS = 0.02  # that an operation is repeated for, at least
_FEWEST = 5  # repetitions
_MOST_MACS = 2**31  # of an operation
_ROWS, _COLUMNS = (1, 8, 64, 512, 4096), (16, 128, 1024, 8192)
_BATCHES = ((16, 64), (256, 32))  # products at once, and their sizes
_IMAGES, _FILTERS, _IMAGES_AT_ONCE = (7, 14, 28, 56, 112), (1, 3, 7), (1, 8)
_CHANNELS = ((4, 64), (32, 32), (64, 64), (128, 128), (256, 256), (512, 512))
_SIZES = [2**n for n in range(10, 28)]  # bytes
_CHAIN = 500  # small operations
_SMALL, _AT_ONCE = 2**14, 50  # values of an operation, of which so many are timed at once
_LEAST_SHARE = 0.02  # of a call's time, that the operation itself takes at least


def measure(threads: int, precision: str) -> Calibration:
    """Measures operations alone, on the threads that TensorFlow has been given.

    Args:
        threads: their number.
        precision: of the computation: ``float32``.
    """
    # Grappler would remove operations whose results nobody reads.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        return Calibration(
            threads=threads,
            precision=precision,
            products=(*_matrix_products(), *_convolutions()),
            transfers=tuple(_transfers()),
            dispatch_seconds=_chain_seconds(_CHAIN) / _CHAIN,
            call_seconds=_chain_seconds(1),
        )
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def taken(folder: Folder, threads: int, precision: str) -> tuple[list[RunResult], str]:
    """Returns the timings of a characterization that count, and in words why others do not.

    Raises:
        FathomError: none counts.
    """
    timings = [run for run in folder.runs if run.kind == "timing" and run.repeat >= 0]
    reasons = [_obstacle(run, threads, precision) for run in timings]
    pairs = zip(timings, reasons, strict=True)
    results = [run.result for run, reason in pairs if run.result and not reason]
    others = Counter(reason for reason in reasons if reason).items()
    words = "; ".join(f"{count} {reason}" for reason, count in others)
    if not results:
        raise FathomError(
            f"no timing of {folder.path} counts on {threads} thread(s): {words or 'it has none'}; "
            "--threads must be that of the runs"
        )
    text = f"{len(results)} of the folder's {len(timings)} timings are taken"
    return results, f"{text}; the others: {words}" if words else text


def steps(results: Sequence[RunResult], rates: Rates) -> Iterator[StepTime]:
    """Yields the measured steps of results, the median of equal runs."""
    for _, equal in itertools.groupby(sorted(results, key=_setting), key=_setting):
        first, *others = equal
        options = {**first.hyperparameters.model_dump(), **first.options.model_dump()}
        model = workloads.load(first.workload, first.mode == "infer")("/cpu:0", options)
        yield StepTime(
            workload=first.workload,
            mode=first.mode,
            batch_size=first.hyperparameters.batch_size,
            xla=first.environment.xla,
            seconds=statistics.median(each.steps.median for each in (first, *others)),
            ideal=rates.ideal(model.describe(), first.environment.xla, model.steps_per_call),
        )


def _transfers() -> Iterator[TransferTime]:
    for size in _SIZES:
        seconds = _alone(tf.nn.relu, tf.random.normal([size // 4]))
        yield TransferTime(size_bytes=2 * size, seconds=seconds)


def _matrix_products() -> Iterator[ProductTime]:
    shapes = [(1, *shape) for shape in itertools.product(_ROWS, _COLUMNS, _COLUMNS)]
    shapes += [(groups, size, size, size) for groups, size in _BATCHES]
    for groups, m, n, k in shapes:
        if groups * m * n * k > _MOST_MACS:
            continue
        a, b = tf.random.normal([groups, m, k]), tf.random.normal([groups, k, n])
        seconds = _alone(tf.matmul, *((a[0], b[0]) if groups == 1 else (a, b)))
        yield ProductTime(
            kind="matrix product", phase="forward", groups=groups, M=m, N=n, K=k, seconds=seconds
        )


def _convolutions() -> Iterator[ProductTime]:
    for image, size, (channels, filters), count in itertools.product(
        _IMAGES, _FILTERS, _CHANNELS, _IMAGES_AT_ONCE
    ):
        m, k = count * image**2, channels * size**2
        if m * filters * k > _MOST_MACS or size > image:
            continue
        x = tf.random.normal([count, image, image, channels])
        w = tf.random.normal([size, size, channels, filters])
        y = tf.random.normal([count, image, image, filters])
        for phase, operation in _PHASES.items():
            seconds = _alone(operation, x, w, y)
            yield ProductTime(
                kind="convolution", phase=phase, groups=1, M=m, N=filters, K=k, seconds=seconds
            )


_SAME = {"strides": [1] * 4, "padding": "SAME"}
_PHASES: dict[StepPhase, Callable[..., tf.Tensor]] = {
    # Of x [n, h, w, c], w [r, s, c, m] and the gradient of the result, y [n, h, w, m].
    "forward": lambda x, w, y: tf.raw_ops.Conv2D(input=x, filter=w, **_SAME),
    "input gradient": lambda x, w, y: tf.raw_ops.Conv2DBackpropInput(
        input_sizes=x.shape, filter=w, out_backprop=y, **_SAME
    ),
    "weight gradient": lambda x, w, y: tf.raw_ops.Conv2DBackpropFilter(
        input=x, filter_sizes=w.shape, out_backprop=y, **_SAME
    ),
}


@functools.cache
def _chain_seconds(length: int) -> float:
    """Returns the seconds of a graph of operations that compute almost nothing."""

    @tf.function(autograph=False)
    def chain(value: tf.Tensor) -> tf.Tensor:
        for _ in range(length):
            value = tf.tanh(value)
        return value

    return _seconds(chain, tf.ones([]))


def _alone(operation: Callable[..., tf.Tensor], *tensors: tf.Tensor) -> float:
    """Returns the seconds of an operation: of several in a graph, without the call of the graph."""
    times = _AT_ONCE if tf.size(tensors[0]) < _SMALL else 1

    @tf.function(autograph=False)
    def graph() -> tf.Tensor:
        last: list[tf.Tensor] = []
        for _ in range(times):  # one after the other, so that TensorFlow keeps all
            with tf.control_dependencies(last):
                last = [operation(*tensors)]
        with tf.control_dependencies(last):
            return tf.constant(0.0)

    whole = _seconds(graph)
    return max(whole - _chain_seconds(1), _LEAST_SHARE * whole) / times


def _seconds(operation: Callable[..., object], *arguments: object) -> float:
    """Returns the least seconds of an operation, which other processes disturbed least."""
    operation(*arguments), operation(*arguments)
    times: list[float] = []
    while len(times) < _FEWEST or sum(times) < _SECONDS:
        start = time.perf_counter()
        operation(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def _obstacle(run: Run, threads: int, precision: str) -> str:
    """Returns why a timing does not count; "" if it does."""
    if not run.result:
        return "failed"
    environment = run.result.environment
    reasons = {
        "on a GPU": environment.gpu,
        "of several workers": run.result.distribution,
        f"on {environment.threads} thread(s)": environment.threads != threads,
        f"in {environment.precision}": environment.precision != precision,
        "disturbed by other processes": run.disturbed,
        "without a step after the warm-up": not run.result.steps.measurements,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _setting(result: RunResult) -> str:
    """Returns what equal runs have in common."""
    options = f"{result.hyperparameters} {result.options}"
    return f"{result.workload} {result.mode} {options} {result.environment.xla}"
