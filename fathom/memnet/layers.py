"""The layers of an end-to-end memory network. Section numbers are those of the paper."""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions


def position_weights(words: int, dimensions: int) -> np.ndarray:
    """Returns l of the position encoding, float32 [words, dimensions] (section 4.1).

    l_kj = 2 ((1 - j/J) - (k/d) (1 - 2j/J)), with word j of J and dimension k of d counted from 1.
    The 2 is not in the paper: as in the authors' published code, it makes the mean weight 1, as for
    a bag of words. Without it some tasks are not learned.
    """
    j = np.arange(1, words + 1)[:, None] / words
    k = np.arange(1, dimensions + 1)[None, :] / dimensions
    return (2 * ((1 - j) - k * (1 - 2 * j))).astype(np.float32)


class SentenceEmbedding(Layer):
    """An embedding matrix: m_i = sum_j l_j * A x_ij, elementwise (section 4.1).

    The null word has no row in the matrix: its embedding stays zero.

    Args:
        position_weights: l, float32 [words, d]; all 1 for a bag of words.
        vocabulary: number of words, including the null word.
        initializer: of the matrix, [vocabulary - 1, d].
    """

    def __init__(
        self,
        position_weights: np.ndarray,
        vocabulary: int,
        initializer: keras.initializers.Initializer,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._position_weights = position_weights
        shape = (vocabulary - 1, position_weights.shape[1])
        self.matrix = self.add_weight(shape=shape, initializer=initializer, name="matrix")

    def rows(self) -> tf.Tensor:
        """Returns the matrix with zeros for the null word as row 0, [vocabulary, d]."""
        return tf.pad(tf.convert_to_tensor(self.matrix), [[1, 0], [0, 0]])

    def call(self, sentences: tf.Tensor) -> tf.Tensor:
        """Embeds sentences int32 [..., words]; returns [..., d]."""
        return _weighted_sums_of_rows([self.rows()], sentences, self._position_weights)[0]


class StoryEmbedding(Layer):
    """Embeds a story with several matrices at once, which is faster than one after another."""

    def __init__(
        self, embeddings: Sequence[SentenceEmbedding], **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._embeddings = list(embeddings)

    def build(self, story_shape: tuple) -> None:
        """Does nothing: each matrix already has its weights."""
        for embedding in self._embeddings:
            embedding.build(story_shape)

    def call(self, story: tf.Tensor) -> list[tf.Tensor]:
        """Embeds story int32 [batch, memories, words]; returns [batch, memories, d] for each."""
        rows = [tf.cast(e.rows(), self.compute_dtype) for e in self._embeddings]
        return _weighted_sums_of_rows(rows, story, self._embeddings[0]._position_weights)


def _weighted_sums_of_rows(
    matrices: Sequence[tf.Tensor], indices: tf.Tensor, weights: np.ndarray
) -> list[tf.Tensor]:
    """Returns sum_j weights[j] * matrix[indices[..., j]], [..., d], for each matrix [rows, d].

    The gradient sums the rows of all matrices together, by word position. TensorFlow's own writes
    each word's gradient first, which takes most of a training step.
    """
    count, (rows, dimensions) = len(matrices), matrices[0].shape

    @tf.custom_gradient
    def weighted_sums(*matrices: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], Callable]:
        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            flat = [tf.reshape(tf.cast(u, tf.float32), [-1, dimensions]) for u in upstream]
            side_by_side = tf.concat(flat, 1)
            sums = [
                np.tile(row, count)
                * tf.math.unsorted_segment_sum(
                    side_by_side, tf.reshape(indices[..., j], [-1]), rows
                )
                for j, row in enumerate(weights)
            ]
            return tf.split(tf.cast(tf.add_n(sums), matrices[0].dtype), count, 1)

        scale = tf.cast(weights, matrices[0].dtype)
        return tuple(tf.reduce_sum(tf.gather(m, indices) * scale, -2) for m in matrices), gradient

    return list(weighted_sums(*matrices))


class TemporalEncoding(Layer):
    """Adds T_A(t), row t of a matrix, to the memory of time t (section 4.1).

    Times count from the newest sentence; random noise leaves gaps in them. Sentences that gaps
    would move beyond the last row have the last row, as in the authors' code. An empty memory
    stays zero.

    Args:
        initializer: of the matrix, [memories, d].
    """

    def __init__(
        self, initializer: keras.initializers.Initializer, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._initializer = initializer

    def build(self, memories_shape: tuple, *_: tuple) -> None:
        """Creates the matrix for memories [batch, memories, d]."""
        self.matrix = self.add_weight(
            shape=memories_shape[1:], initializer=self._initializer, name="matrix"
        )

    def call(
        self, memories: tf.Tensor, story: tf.Tensor, gaps: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Adds T_A to memories.

        Args:
            memories: [batch, memories, d].
            story: int32 [batch, memories, words].
            gaps: int32 [batch, memories], in front of each sentence; only read in training.
            training: there may be gaps.
        """
        is_filled = tf.cast(tf.reduce_any(story > 0, -1, keepdims=True), memories.dtype)
        rows = tf.convert_to_tensor(self.matrix)
        if training:
            count, dimensions = rows.shape
            times = tf.minimum(tf.range(count) + gaps, count - 1)
            once = np.ones((1, dimensions), np.float32)
            (rows,) = _weighted_sums_of_rows([rows], times[..., None], once)
        return memories + is_filled * rows


class Attention(Layer):
    """p = Softmax(u^T m) (section 2.1, equation 1).

    Args:
        linear: bool variable, or its value; if true, the softmax is left out (linear start,
            section 5).
    """

    def __init__(self, linear: tf.Variable | bool, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._linear = linear

    def build(self, u_shape: tuple, memories_shape: tuple) -> None:
        """Counts the multiply-accumulates of u [batch, d] with memories [batch, memories, d]."""
        self.macs = memories_shape[1] * memories_shape[2]

    def call(self, u: tf.Tensor, memories: tf.Tensor) -> tf.Tensor:
        """Returns the attention weights [batch, memories] for the internal state u."""
        match = tf.linalg.matvec(memories, u)
        return tf.where(self._linear, match, tf.nn.softmax(match))


class Response(Layer):
    """o = sum_i p_i c_i (section 2.1, equation 2)."""

    def build(self, p_shape: tuple, outputs_shape: tuple) -> None:
        """Counts the multiply-accumulates of p [batch, memories] with c [batch, memories, d]."""
        self.macs = outputs_shape[1] * outputs_shape[2]

    def call(self, p: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns o [batch, d]."""
        return tf.linalg.matvec(outputs, p, transpose_a=True)


class TiedAnswer(Layer):
    """W u with W^T = C^K, the matrix of an embedding (section 2.2, adjacent tying)."""

    def __init__(self, embedding: SentenceEmbedding, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._embedding = embedding

    def build(self, u_shape: tuple) -> None:
        """Counts the multiply-accumulates of u [batch, d] with the matrix."""
        self.macs = self._embedding.matrix.shape[0] * self._embedding.matrix.shape[1]

    def call(self, u: tf.Tensor) -> tf.Tensor:
        """Returns the logits of all words except the null word, [batch, vocabulary - 1]."""
        return tf.matmul(u, tf.convert_to_tensor(self._embedding.matrix), transpose_b=True)
