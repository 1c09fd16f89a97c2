"""One row times matrices, the work of decoding one sequence, in several forms beside the triad.

The matrices are larger together than caches: each product reads its matrix from memory once. The
best of all rounds is printed, which other processes disturb least.

    python benchmarks/row_products.py
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from fathom.system.processor import keep_freed_memory  # before TensorFlow, whose kernels it chooses
from fathom.system.rates import triad_ceiling

import tensorflow as tf  # isort: skip

BLOCK = 32  # columns of a block: eight rows of it, which XLA reads side by side, are 1 KiB


def blocks(matrix: np.ndarray) -> np.ndarray:
    """Returns a matrix cut into blocks of columns, each stored as one piece."""
    return matrix.reshape(len(matrix), -1, BLOCK).transpose(1, 0, 2)


def of_blocks(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Returns the product of [1, inputs] and blocks of columns."""
    return tf.reshape(tf.matmul(tf.tile(x[None], [w.shape[0], 1, 1]), w), [1, -1])


def of_rows(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Returns the product of [1, inputs] and a transposed matrix."""
    return tf.matmul(x, w, transpose_b=True)


Layout = Callable[[np.ndarray], np.ndarray]
FORMS: dict[str, tuple[Callable[[tf.Tensor, tf.Tensor], tf.Tensor], Layout, bool]] = {
    # name: product of [1, inputs] and a matrix, how the matrix is stored, XLA compiles it
    "XLA, product": (tf.matmul, np.asarray, True),
    "XLA, transposed": (of_rows, np.transpose, True),
    "XLA, blocks of 32 columns": (of_blocks, blocks, True),
    "XLA, sum of rows": (lambda x, w: tf.reduce_sum(x[0][:, None] * w, 0, True), np.asarray, True),
    "XLA, sums in rows": (lambda x, w: tf.reduce_sum(x * w, 1)[None], np.transpose, True),
    "XLA, two equal rows": (lambda x, w: tf.matmul(tf.tile(x, [2, 1]), w)[:1], np.asarray, True),
    "TensorFlow, product": (tf.matmul, np.asarray, False),
    "TensorFlow, transposed": (of_rows, np.transpose, False),
}


def main() -> None:
    """Measures and prints the rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=768)
    parser.add_argument("--outputs", type=int, default=4096)
    parser.add_argument("--matrices", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keep_freed_memory()
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal((1, args.inputs), np.float32))
    shape = args.matrices, args.inputs, args.outputs
    matrices = rng.standard_normal(shape, np.float32)

    def chain(product: Callable, layout: Layout, compiled: bool) -> Callable:
        weights = [tf.Variable(layout(matrix)) for matrix in matrices]

        def run(x: tf.Tensor) -> tf.Tensor:
            for matrix in weights:  # each product waits for the one before it, as in a network
                x += 1e-6 * tf.reduce_mean(product(x, matrix.read_value()))
            return x

        return tf.function(run, autograph=False, jit_compile=compiled)

    forms = {name: chain(*form) for name, form in FORMS.items()}
    read, rates = 4 * np.prod(shape), []
    seconds: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(args.rounds):
        rates.append(triad_ceiling().rate)
        for name, form in forms.items():
            form(x)
            begun = time.perf_counter()
            form(x).numpy()
            seconds[name].append(time.perf_counter() - begun)
    best = max(rates)
    print(f"triad: {best / 1e9:.1f} GB/s")
    for name, each in seconds.items():
        print(f"{name}: {read / min(each) / 1e9:.1f} GB/s, {read / min(each) / best:.0%}")


if __name__ == "__main__":
    main()
