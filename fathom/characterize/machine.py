"""What is known of a machine before the runs: ``python -m fathom.characterize.machine``.

A process of its own, because TensorFlow's thread pools are of one size in a process, and because
the data sets should be there before the first run is timed.
"""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from fathom import workloads
from fathom.errors import FathomError
from fathom.terminal import Parser, import_tensorflow, run_command

_GEMM_SIZE = 2048
_GEMM_PRODUCTS = 6  # the best of them counts


def main() -> None:
    """Measures the machine with one number of threads, and makes synthetic data sets."""
    parser = Parser(prog="fathom.characterize.machine")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--workloads", default="", help="prepare the data sets of these")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    run_command("fathom.characterize.machine", lambda: _measure(chosen))


def _measure(chosen: Any) -> None:
    import_tensorflow()
    from fathom import device, environment
    from fathom.data import locate

    threads = device.set_threads(chosen.threads)
    for name in filter(None, chosen.workloads.split(",")):
        with contextlib.suppress(FathomError):  # each run of the workload will say what is wrong
            locate(workloads.load(name).dataset, None, 0)
    best = _gemm_rate(chosen.precision)
    document = {
        "environment": environment.describe("/cpu:0", threads, chosen.precision, "off"),
        "gpus": _gpus(),
        "gemm_flops_per_second": best,
    }
    chosen.out.write_text(json.dumps(document))


def _gemm_rate(precision: str) -> float:
    """Returns the best rate of a large matrix product of TensorFlow's on the CPU, in FLOP/s."""
    import tensorflow as tf

    with tf.device("/cpu:0"):
        shape = [_GEMM_SIZE, _GEMM_SIZE]
        a, b = (tf.cast(tf.random.stateless_uniform(shape, [0, i]), precision) for i in (1, 2))
        product = tf.function(lambda: tf.matmul(a, b))
        times = []
        for _ in range(_GEMM_PRODUCTS):
            start = time.perf_counter()
            product()
            times.append(time.perf_counter() - start)
    return 2 * _GEMM_SIZE**3 / min(times)


def _gpus() -> int:
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU"))


if __name__ == "__main__":
    main()
