"""Which experts compute a token: the router's choice, its balance, and the order of the rows."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from fathom.core import ragged


class Groups(NamedTuple):
    """Rows in the order of their experts; each token has as many rows as experts.

    Attributes:
        order: int32 [rows]: which row of all comes where; the first choices of all tokens are the
            first rows, then their second ones. Rows that are dropped come last.
        places: int32 [rows]: where each row has come.
        sizes: int32 [experts]: rows of each.
    """

    order: tf.Tensor
    places: tf.Tensor
    sizes: tf.Tensor


def choose(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the weights of a token's experts, float32 [..., count], and these, int32.

    The weights are the softmax over those chosen (Jiang et al. 2024, section 2.1); of a single one
    its probability among all, without which the router would not learn (Fedus et al. 2021, eq. 2).

    Args:
        logits: float32 [..., experts].
        count: experts of a token.
    """
    found = tf.math.top_k(logits, count)
    if count == 1:
        return tf.reduce_max(tf.nn.softmax(logits), -1, keepdims=True), found.indices
    return tf.nn.softmax(found.values), found.indices


def capacity(rows: tf.Tensor | int, experts: int, factor: float) -> tf.Tensor:
    """Returns the most rows of an expert, int32 (Fedus et al. 2021, eq. 3)."""
    rows = tf.cast(rows, tf.float32)
    return tf.cast(tf.minimum(tf.math.ceil(rows / experts * factor), rows), tf.int32)


def group(chosen: tf.Tensor, experts: int, most: tf.Tensor | None) -> Groups:
    """Sorts rows by expert.

    Args:
        chosen: int32 [tokens, experts of a token].
        experts: of the layer.
        most: rows of an expert, of which first choices come first; None: no row is dropped.
    """
    of_rows = tf.reshape(tf.transpose(chosen), [-1])
    is_of = tf.cast(of_rows[:, None] == tf.range(experts), tf.int32)
    if most is not None:
        number = tf.gather(tf.cumsum(is_of), of_rows, batch_dims=1)  # in its expert, from 1
        of_rows = tf.where(number > most, experts, of_rows)
        is_of = tf.where((number <= most)[:, None], is_of, 0)
    order = tf.argsort(of_rows, stable=True)
    return Groups(order, tf.math.invert_permutation(order), tf.reduce_sum(is_of, 0))


def gather(x: tf.Tensor, groups: Groups) -> tf.Tensor:
    """Returns the rows [rows, width] of tokens [tokens, width]; its gradient gathers, too."""

    @tf.custom_gradient
    def gathered(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            of_choices = tf.reshape(
                tf.gather(upstream, groups.places), [-1, tf.shape(x)[0], x.shape[1]]
            )
            return tf.reduce_sum(of_choices, 0)

        return tf.gather(x, groups.order % tf.shape(x)[0]), gradient

    return gathered(x)


def scatter(rows: tf.Tensor, groups: Groups, tokens: tf.Tensor) -> tf.Tensor:
    """Returns rows [experts of a token, tokens, width] in the tokens' order."""
    found = ragged.permuted(rows, groups.places, groups.order)
    return tf.reshape(found, [-1, tokens, rows.shape[1]])


def loads(logits: tf.Tensor, count: int) -> tf.Tensor:
    """Returns the share of the tokens that each expert computes, float32 [layers, experts].

    Those of a replica's tokens; a layer's add up to ``count``.

    Args:
        logits: of the routers, float32 [batch, time, layers, experts].
        count: experts of a token.
    """
    chosen = tf.one_hot(choose(logits, count)[1], logits.shape[-1])  # [..., count, experts]
    return tf.reduce_mean(tf.reduce_sum(chosen, 3), [0, 1])


def beyond(shares: tf.Tensor, tokens: tf.Tensor, count: int, factor: float) -> tf.Tensor:
    """Returns the share of the rows that are beyond their experts' capacities, float32.

    Args:
        shares: of the experts in the tokens, from ``loads``.
        tokens: how many there are.
        count: experts of a token.
        factor: as of ``capacity``.
    """
    layers, experts = shares.shape
    most = capacity(tokens * count, experts, factor)
    dropped = tf.nn.relu(shares - tf.cast(most, tf.float32) / tf.cast(tokens, tf.float32))
    return tf.reduce_sum(dropped) / (count * layers)


def imbalance(logits: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
    """Returns the load-balancing loss, summed over layers (Fedus et al. 2021, eq. 4).

    It is least, ``count`` in each layer, where all experts have equal loads and probabilities.

    Args:
        logits: as of ``loads``.
        shares: from it, of all replicas.
    """
    probabilities = tf.reduce_mean(tf.nn.softmax(logits), [0, 1])
    return logits.shape[-1] * tf.reduce_sum(shares * probabilities)
