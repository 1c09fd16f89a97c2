"""Scaled dot-product attention with several heads, and its cache of keys and values.

Vaswani et al. 2017, "Attention Is All You Need", section 3.2. What differs between networks -
projections, normalization, masks - is theirs.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import tensorflow as tf

from fathom.model.decoder import LayerCache

Cache = tuple[tf.Tensor, tf.Tensor]  # keys and values, [batch, heads, length, d]


def split_heads(x: tf.Tensor, heads: int) -> tf.Tensor:
    """Returns [batch, time, width] as [batch, heads, time, width / heads]."""
    batch, time = (x.shape[i] or tf.shape(x)[i] for i in (0, 1))
    return tf.transpose(tf.reshape(x, [batch, time, heads, x.shape[-1] // heads]), (0, 2, 1, 3))


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """Returns [batch, heads, time, size] as [batch, time, heads * size]."""
    batch, time = (x.shape[i] or tf.shape(x)[i] for i in (0, 2))
    return tf.reshape(tf.transpose(x, (0, 2, 1, 3)), [batch, time, x.shape[1] * x.shape[3]])


def attention_weights(
    queries: tf.Tensor, keys: tf.Tensor, mask: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns softmax(Q K' / sqrt(d)), [batch, heads, queries, keys]; the softmax is in float32.

    Args:
        queries: [batch, heads, queries, d].
        keys: [batch, heads, keys, d].
        mask: bool, broadcast to the result: True where a query may attend to a key. Each query has
            at least one such key.
    """
    scores = tf.matmul(queries * (1 / math.sqrt(queries.shape[-1])), keys, transpose_b=True)
    scores = tf.cast(scores, tf.float32)
    if mask is not None:
        scores = tf.where(mask, scores, -1e9)  # exp() of it is 0; the gradient stays finite
    return tf.cast(tf.nn.softmax(scores), queries.dtype)


def causal_mask(queries: tf.Tensor | int, keys: tf.Tensor | int) -> tf.Tensor:
    """Returns bool [queries, keys]: a position attends to itself and those before it.

    The last query stands at the last key, so that queries after cached keys are masked too.
    """
    return tf.range(queries)[:, None] + (keys - queries) >= tf.range(keys)


def write(cache: tf.Tensor, new: tf.Tensor, position: tf.Tensor | int) -> tf.Tensor:
    """Returns a cache of keys or values with those of new tokens written at a position.

    Args:
        cache: [batch, heads, length, d].
        new: [batch, heads, tokens, d].
        position: of the first of them; ``position + tokens <= length``.
    """
    batch, heads, tokens = (new.shape[i] or tf.shape(new)[i] for i in range(3))
    axes = tf.meshgrid(tf.range(batch), tf.range(heads), position + tf.range(tokens), indexing="ij")
    # In place where nothing else reads the old cache, as in a loop: concatenation would copy it.
    return tf.tensor_scatter_nd_update(cache, tf.stack(axes, -1), new)


def of_each_row(position: tf.Tensor | int) -> TypeGuard[tf.Tensor]:
    """Returns whether a position is [batch], one of each sequence, and no scalar."""
    return not isinstance(position, int) and position.shape.rank == 1


def places(time: int, position: tf.Tensor | int) -> tf.Tensor:
    """Returns the places of tokens from a position on, int32 [time]; [batch, time] for [batch]."""
    return tf.range(time) + (position[:, None] if of_each_row(position) else position)


def extend(
    cache: Cache | LayerCache, keys: tf.Tensor, values: tf.Tensor, position: tf.Tensor | int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Adds the keys and values of new tokens to a cache.

    Args:
        cache: with room for them.
        keys: [batch, heads, tokens, d].
        values: the same.
        position: of the first of them: int32 scalar, or [batch] in a ``LayerCache``.

    Returns:
        all keys and values, [batch, heads, length, d], and bool, broadcast to [batch, heads,
        tokens, length]: True for a token's own position and those before it.
    """
    if not isinstance(cache, tuple):
        return cache.extend(keys, values, position)
    time = keys.shape[2]
    keys, values = (write(*each, position) for each in zip(cache, (keys, values), strict=True))
    return keys, values, tf.range(keys.shape[2]) <= places(time, position)[:, None]


def named(
    caches: Sequence[Cache], prefix: str = "", kinds: tuple[str, str] = ("keys", "values")
) -> dict[str, tf.Tensor]:
    """Returns the caches of layers by name: ``keys_1``, ``values_1`` and so on after a prefix."""
    return {
        f"{prefix}{kind}_{i}": tensor
        for i, cache in enumerate(caches, 1)
        for kind, tensor in zip(kinds, cache, strict=True)
    }


def unnamed(
    tensors: Mapping[str, tf.Tensor],
    prefix: str = "",
    kinds: tuple[str, str] = ("keys", "values"),
) -> list[Cache]:
    """Returns the caches that are in ``tensors`` under the names of ``named``."""
    first, second = (f"{prefix}{kind}_" for kind in kinds)
    layers = sum(name.startswith(first) for name in tensors)
    return [(tensors[f"{first}{i}"], tensors[f"{second}{i}"]) for i in range(1, layers + 1)]
