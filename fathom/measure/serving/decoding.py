"""A decoder's steps for batches of sequences at different positions, with a cache in blocks."""

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.measure.serving.paged import BLOCK, BlockPool, GatheredLayer, blocks_of, padded
from fathom.nn import NeuralNetworkModel
from fathom.system.memory import require_free_memory

CHUNK = 128  # tokens of prompts that are read between two steps of the others
_FEWEST = 8  # tokens, of the shortest part of a prompt that a step is compiled for
_FEWEST_BLOCKS = 4


@dataclass(frozen=True)
class Prompt:
    """What is to be continued."""

    tokens: np.ndarray  # int32 [tokens], at least one
    new_tokens: int  # the most to generate


@dataclass(eq=False)
class Cached:
    """A sequence in the cache."""

    table: np.ndarray  # its blocks
    length: int = 0  # tokens whose keys and values are in them


class DecodingEngine:
    """Runs a decoder's steps, each padded to the next compiled size.

    Sizes are powers of two of the sequences, and of four of the prompts' tokens and of the blocks.

    Args:
        model: forward-only, after ``setup``.
        limit: the most sequences at once.
        cache_bytes: bound of the blocks' memory; None: room for ``limit`` sequences of the whole
            context.

    Attributes:
        decoder: the model's.
        limit: as above.
        pool: the blocks.

    Raises:
        FathomError: the model generates no text token by token, or the bound is below one sequence
            or does not fit into memory.
    """

    def __init__(
        self, model: NeuralNetworkModel, limit: int, cache_bytes: int | None = None
    ) -> None:
        decoder = model.token_decoder()
        if decoder is None:
            raise FathomError(f"{model.name} does not generate text token by token")
        self.decoder, self.limit, self._device = decoder, limit, model.device
        longest = blocks_of(decoder.context)
        self.block_bytes = BLOCK * decoder.token_bytes
        blocks = limit * longest if cache_bytes is None else cache_bytes // self.block_bytes
        if blocks < longest:
            raise FathomError(
                f"a cache of {blocks} blocks cannot hold one sequence of {decoder.context} tokens: "
                f"give it {longest * self.block_bytes / 2**20:.3g} MiB or more"
            )
        if not self._device.on_gpu:
            remedy = "give a smaller --cache or --batch-size"
            require_free_memory(blocks * self.block_bytes, "the cache", remedy)
        self._batches = _sizes(1, limit, 2)
        self._times = _sizes(_FEWEST, min(CHUNK, decoder.context), 4)
        self._blocks = _sizes(_FEWEST_BLOCKS, longest, 4)
        self._steps: dict[tuple[int, int, int], Callable[..., tf.Tensor]] = {}
        with self._device.placement():
            self.pool = BlockPool(decoder, blocks)
            self._forward = tf.function(
                self._traced_forward, autograph=False, jit_compile=model.xla == "step"
            )

    def warm_up(self) -> None:
        """Compiles and runs all sizes: padding alone, twice, since TensorFlow then optimizes."""
        decodes = itertools.product(self._batches, [1], self._blocks)
        prefills = itertools.product([1], self._times, self._blocks)
        for (batch, time, blocks), _ in itertools.product((*decodes, *prefills), range(2)):
            zeros = np.zeros(batch, np.int32)
            table = np.zeros((batch, blocks), np.int32)
            self._call(np.zeros((batch, time), np.int32), zeros, zeros, table)

    def read(self, sequence: Cached, tokens: np.ndarray) -> np.ndarray:
        """Reads a part of a prompt, at most ``CHUNK`` tokens; returns logits [vocabulary] after it.

        Raises:
            FathomError: the device fails.
        """
        padded_tokens = np.zeros((1, _next(self._times, len(tokens))), np.int32)
        padded_tokens[0, : len(tokens)] = tokens
        return self._run([sequence], padded_tokens, len(tokens))[0]

    def step(self, sequences: Sequence[Cached], tokens: Sequence[int]) -> np.ndarray:
        """Adds a token to each sequence; returns logits [sequences, vocabulary] after them."""
        batch = np.zeros((_next(self._batches, len(sequences)), 1), np.int32)
        batch[: len(tokens), 0] = tokens
        return self._run(sequences, batch, 1)

    def _run(self, sequences: Sequence[Cached], tokens: np.ndarray, count: int) -> np.ndarray:
        """Returns the logits after ``count`` new tokens of each sequence."""
        rows = len(tokens)
        positions, counts = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        positions[: len(sequences)] = [each.length for each in sequences]
        counts[: len(sequences)] = count
        blocks = _next(self._blocks, blocks_of(int(positions.max()) + count))
        tables = padded([each.table for each in sequences], rows, blocks)
        logits = self._call(tokens, positions, counts, tables)
        for each in sequences:
            each.length += count
        return logits[: len(sequences)]

    def _call(self, *arrays: np.ndarray) -> np.ndarray:
        tokens, *_, tables = arrays
        key = (*tokens.shape, tables.shape[1])
        with self._device.placement():
            if key not in self._steps:
                specs = [tf.TensorSpec(array.shape, tf.int32) for array in arrays]
                function = tf.function(self._traced_step, autograph=False)
                self._steps[key] = function.get_concrete_function(*specs)
            return self._steps[key](*map(tf.constant, arrays)).numpy()

    def _traced_step(
        self, tokens: tf.Tensor, positions: tf.Tensor, counts: tf.Tensor, tables: tf.Tensor
    ) -> tf.Tensor:
        # The blocks are gathered and written outside of what XLA compiles: it would copy the pool.
        old = tf.nest.flatten(self.pool.gather(tables))
        last = tf.maximum(counts - 1, 0)
        logits, new = self._forward(tokens, positions, last, *old)
        pairs = list(zip(new[::2], new[1::2], strict=True))
        self.pool.scatter(pairs, tables, positions, counts)
        return logits

    def _traced_forward(
        self, tokens: tf.Tensor, positions: tf.Tensor, last: tf.Tensor, *old: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        layers = [GatheredLayer(*pair) for pair in zip(old[::2], old[1::2], strict=True)]
        logits = self.decoder.forward(tokens, positions, last, layers)
        return logits, tf.nest.flatten([layer.new for layer in layers])


def _sizes(first: int, limit: int, factor: int) -> list[int]:
    """Returns powers of a factor times ``first`` below the limit, and the limit."""
    sizes = []
    while first < limit:
        sizes.append(first)
        first *= factor
    return [*sizes, limit]


def _next(sizes: Sequence[int], wanted: int) -> int:
    return sizes[bisect.bisect_left(sizes, wanted)]
