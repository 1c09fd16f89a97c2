"""Generation of text: the choice of tokens, and the loop that decodes them one at a time."""

from collections.abc import Callable

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.layers import LayerOptions, PRNGKey
from fathom.modern.gpt.layers import Cache
from fathom.training.randomness import uniform

# Maps tokens int32 [batch], the caches and the tokens' position to logits float [batch, vocabulary]
# of the tokens after them, and the caches with these tokens.
Step = Callable[[tf.Tensor, list[Cache], tf.Tensor], tuple[tf.Tensor, list[Cache]]]


class Choice(keras.layers.Layer):
    """Chooses a token by its logits: the most probable one, or at random.

    Args:
        temperature: divisor of the logits; 0: the most probable token.
        top_k: choose among the most probable; 0: among all.
        noise: PRNG key of the choice.
    """

    def __init__(
        self, temperature: float, top_k: int, noise: PRNGKey, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(autocast=False, **options)
        self._temperature, self._top_k, self._noise = temperature, top_k, noise

    def call(self, logits: tf.Tensor, position: tf.Tensor | int) -> tf.Tensor:
        """Returns tokens int32 [batch] for logits [batch, vocabulary].

        Args:
            logits: of the tokens at ``position``.
            position: int32 scalar; each has random numbers of its own.
        """
        scores = tf.cast(logits, tf.float32)
        if self._temperature:
            scores /= self._temperature
            if 0 < self._top_k < scores.shape[1]:
                least = tf.math.top_k(scores, self._top_k).values[:, -1:]
                scores = tf.where(scores < least, -1e9, scores)
            key = self._noise.tensor() + tf.stack([tf.cast(position, tf.int64), 0])
            # The largest sum with Gumbel noise is a draw from the softmax (Maddison et al. 2014).
            scores -= tf.math.log(-tf.math.log(uniform(tf.shape(scores), key)))
        return tf.argmax(scores, 1, tf.int32)


class Decoding(keras.layers.Layer):
    """Decodes tokens one at a time, each from those before it by their cached keys and values.

    Args:
        step: of the network; its layers are not this layer's own.
        choice: of the next token.
        prompt: tokens of the prompt.
        new: tokens after it, of which the prefill gives the first.
    """

    def __init__(
        self, step: Step, choice: Choice, prompt: int, new: int, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(autocast=False, **options)
        self._step, self._choose = step, lambda logits, position: choice(logits, position=position)
        self._prompt, self._new = prompt, new

    def call(self, first: tf.Tensor, *caches: tf.Tensor) -> tf.Tensor:
        """Returns the new tokens, int32 [batch, new].

        Args:
            first: int32 [batch], the first of them.
            caches: keys and values of each block in turn, [batch, heads, prompt + new - 1, size].
        """

        def decode(
            i: tf.Tensor, last: tf.Tensor, caches: list[Cache], tokens: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, list[Cache], tf.TensorArray]:
            position = self._prompt - 1 + i
            logits, caches = self._step(last, caches, position)
            chosen = self._choose(logits, position + 1)
            return i + 1, chosen, caches, tokens.write(i, chosen)

        pairs = list(zip(caches[::2], caches[1::2], strict=True))
        tokens = tf.TensorArray(tf.int32, self._new, element_shape=first.shape).write(0, first)
        *_, tokens = tf.while_loop(lambda i, *_: i < self._new, decode, (1, first, pairs, tokens))
        return tf.transpose(tokens.stack())
