"""Generation of text: the choice of tokens, and the loop that decodes them one at a time."""

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, PRNGKey
from fathom.model.workload import Part
from fathom.shared.attention import Cache, named, unnamed
from fathom.shared.language.decoder import Decoder
from fathom.shared.language.hyperparameters import (
    LanguageHyperparameters,
    RotaryHyperparameters,
)
from fathom.shared.language.speculation import Speculation


class Choice(Layer):
    """Chooses a token by its logits: the most probable one, or at random.

    Args:
        temperature: divisor of the logits; 0: the most probable token.
        top_k: choose among the most probable; 0: among all.
        top_p: choose among the fewest that have this probability together (Holtzman et al. 2020,
            "The Curious Case of Neural Text Degeneration"); 1: among all.
        noise: PRNG key of the choice.
    """

    def __init__(
        self,
        temperature: float,
        top_k: int,
        top_p: float,
        noise: PRNGKey,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(autocast=False, **options)
        self._temperature, self._noise = temperature, noise
        self._top_k, self._top_p = top_k, top_p

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
                scores = tf.where(scores < least, scores.dtype.min, scores)
            if self._top_p < 1:
                nucleus = _nucleus(scores, self._top_p)
                scores = tf.where(scores < nucleus, scores.dtype.min, scores)
            # The largest sum with Gumbel noise is a draw from the softmax (Maddison et al. 2014).
            drawn = self._noise.uniform(tf.shape(scores), stream=position)
            scores -= tf.math.log(-tf.math.log(drawn))
        return tf.argmax(scores, 1, tf.int32)


def _nucleus(scores: tf.Tensor, share: float) -> tf.Tensor:
    """Returns the lowest score [batch, 1] of the fewest tokens that have a share together."""
    ordered = tf.sort(scores, direction="DESCENDING")
    before = tf.cumsum(tf.nn.softmax(ordered), 1, exclusive=True)  # of the more probable
    return tf.reduce_min(tf.where(before < share, ordered, scores.dtype.max), 1, keepdims=True)


class Decoding(Layer):
    """Decodes tokens one at a time, each from those before it by their cached keys and values.

    Args:
        network: its layers are not this layer's own.
        choice: of the next token.
        prompt: tokens of the prompt.
        new: tokens after it, of which the prefill gives the first.
    """

    tokens_per_pass: float | None = None  # one, always

    def __init__(
        self,
        network: Decoder,
        choice: Choice,
        prompt: int,
        new: int,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(autocast=False, **options)
        self._network, self._choice, self._prompt, self._new = network, choice, prompt, new

    def call(self, first: tf.Tensor, *caches: tf.Tensor) -> tf.Tensor:
        """Returns the new tokens, int32 [batch, new].

        Args:
            first: int32 [batch], the first of them.
            caches: keys and values of each block in turn, [batch, heads, prompt + new - 1, size].
        """
        places = tf.range(self._new)

        def decode(
            i: tf.Tensor, last: tf.Tensor, caches: list[Cache], tokens: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, list[Cache], tf.Tensor]:
            position = self._prompt - 1 + i
            logits, caches = self._network.decode_token(last, caches, position)
            chosen = self._choice(logits, position=position + 1)
            return i + 1, chosen, caches, tf.where(places == i, chosen[:, None], tokens)

        pairs = list(zip(caches[::2], caches[1::2], strict=True))
        tokens = tf.where(places == 0, first[:, None], 0)
        *_, tokens = tf.while_loop(lambda i, *_: i < self._new, decode, (1, first, pairs, tokens))
        return tokens


def phases(
    network: Decoder,
    hyperparameters: LanguageHyperparameters,
    prompts: keras.KerasTensor,
    noise: PRNGKey,
) -> tuple[keras.Model, Decoding | Speculation]:
    """Builds what reads prompts, and what decodes the tokens after them.

    The first returns the first token after each prompt, int32 [batch], and the blocks' keys and
    values with room for the new tokens; the second takes these.

    Args:
        network: of both.
        hyperparameters: the numbers of tokens, and how they are chosen.
        prompts: int32 [batch, prompt].
        noise: PRNG key of the choice of tokens.
    """
    among = hyperparameters.top_k, hyperparameters.top_p
    choice = Choice(hyperparameters.temperature, *among, noise, name="choice")
    prompt, new = hyperparameters.prompt_tokens, hyperparameters.new_tokens
    decoding: Decoding | Speculation = Decoding(network, choice, prompt, new, name="decode")
    room = new - 1
    if isinstance(hyperparameters, RotaryHyperparameters) and hyperparameters.draft_layers:
        draft = hyperparameters.draft_layers, hyperparameters.draft_tokens
        decoding = Speculation(network, prompt, new, *draft, name="decode")
        room += hyperparameters.draft_tokens
    logits, caches = _prefill(network, prompts, room)
    first = choice(logits, position=prompt)
    padded = keras.tree.flatten(caches)
    return keras.Model(prompts, [first, *padded], name="prefill"), decoding


def parts(network: Decoder, hyperparameters: LanguageHyperparameters) -> dict[str, Part]:
    """Returns the prefill, and the step of decoding that an application repeats.

    Both give the ``logits`` of the next token, [batch, vocabulary], by which the application
    chooses it. What they pass on, each [batch, ...]: the ``position`` of that token, int32, and the
    blocks' ``keys_1``, ``values_1`` and so on, with room for the new tokens; or what the network
    keeps in their place.

    Args:
        network: of both.
        hyperparameters: the numbers of tokens.
    """
    kinds = network.kept

    def prefill(prompts: tf.Tensor) -> dict[str, tf.Tensor]:
        logits, caches = _prefill(network, prompts, hyperparameters.new_tokens - 1)
        position = tf.fill([tf.shape(prompts)[0]], hyperparameters.prompt_tokens)
        return {"logits": logits, "position": position, **named(caches, kinds=kinds)}

    first = Part(
        prefill, [tf.TensorSpec([None, hyperparameters.prompt_tokens], tf.int32, "prompts")]
    )
    carried = [spec for spec in first.outputs() if spec.name != "logits"]

    def step(tokens: tf.Tensor, *values: tf.Tensor) -> dict[str, tf.Tensor]:
        given = {spec.name: value for spec, value in zip(carried, values, strict=True)}
        position = given["position"]  # the same of all
        logits, caches = network.decode_token(tokens, unnamed(given, kinds=kinds), position[0])
        new = {"position": position + 1, **named(caches, kinds=kinds)}
        return {"logits": logits, **{f"new_{name}": value for name, value in new.items()}}

    tokens = tf.TensorSpec([None], tf.int32, "tokens")
    return {"prefill": first, "step": Part(step, [tokens, *carried])}


def _prefill(network: Decoder, prompts: tf.Tensor, room: int) -> tuple[tf.Tensor, list[Cache]]:
    """Returns the logits after prompts, and the blocks' caches with room for more tokens."""
    x, caches = network(prompts)
    return network.logits(x[:, -1:])[:, 0], network.with_room(caches, room)
