"""The decoder: attention with input feeding, and the softmax over words."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import LayerOptions, PRNGKey, Random
from fathom.seq2seq.buckets import Bucket, bucket_of_source
from fathom.seq2seq.layers import lstm_cell, uniform
from fathom.seq2seq.recurrence import Multiply, product, read, recur, steps_of
from fathom.shared.translation.decoding import FreeDecoder, Step
from fathom.shared.translation.symbols import GO, PAD


class Annotations(NamedTuple):
    """The encoder's top states, Bahdanau's h_j, which the decoder attends to."""

    states: tf.Tensor  # [batch, source, units]
    keys: tf.Tensor  # [batch, source, units], U_a h_j, the same for every step
    padding: tf.Tensor  # [batch, source], 0 for words, a large negative number for padding


class State(NamedTuple):
    """The decoder's state between steps."""

    output: tf.Tensor  # [batch, units], from which the next word is predicted
    hidden: tuple[tf.Tensor, ...]  # of each layer, [batch, units]
    memory: tuple[tf.Tensor, ...]  # of each layer, [batch, units]


class Weights(NamedTuple):
    """The decoder's weights, cast to the dtype of the computation."""

    kernels: dict[str, tf.Tensor]  # of layer_1, ...; W_a of the query, W_c of the combination
    biases: dict[str, tf.Tensor]  # of the layers
    score: tf.Tensor | None  # v_a


class Decoder(FreeDecoder):
    """The decoder: an LSTM stack with attention and input feeding, and the softmax over words.

    A step reads the previous word and the previous output (input feeding: Luong et al. 2015,
    section 3.3), attends to the encoder's states by Bahdanau's additive score, e_j = v_a . tanh(W_a
    s + U_a h_j), and computes its output from the top state s and the context c: tanh(W_c [c; s]).
    Without attention the output is the top state.

    Args:
        vocabulary: number of target words.
        units: per layer.
        depth: number of layers.
        attention: attend to the encoder's states.
        dropout: probability of dropping a value between layers in training; 0: none.
        beam_size: hypotheses in free decoding; 1: greedy.
        largest: absolute value of the initial weights.
        random: of them.
        noise: PRNG key of the dropout.
        sizes: the buckets, by which a source's length limits the number of decoded words.
    """

    def __init__(
        self,
        vocabulary: int,
        units: int,
        depth: int,
        attention: bool,
        dropout: float,
        beam_size: int,
        largest: float,
        random: Random,
        noise: PRNGKey,
        sizes: Sequence[Bucket],
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(beam_size, **options)
        self.autocast = False
        self._vocabulary, self._units, self._depth = vocabulary, units, depth
        self._attention, self._dropout = attention, dropout
        self._largest, self._random, self._noise = largest, random, noise
        self._sizes = tuple(Bucket(*size) for size in sizes)

    def build(self, *shapes: tuple[int | None, ...]) -> None:
        """Creates the weights."""
        units, gates = self._units, 4 * self._units
        self.embedding = self._weight("embedding", self._vocabulary, units)
        self.word_kernel = self._weight("word_kernel", units, gates)
        below = [units * self._attention] + [units] * (self._depth - 1)
        self.kernels = [
            self._weight(f"kernel_{i}", size + units, gates) for i, size in enumerate(below, 1)
        ]
        self.biases = [self._weight(f"bias_{i}", gates) for i in range(1, self._depth + 1)]
        if self._attention:
            self.query = self._weight("attention_query", units, units)
            self.key = self._weight("attention_key", units, units)
            self.score = self._weight("attention_score", units)
            self.combination = self._weight("combination", 2 * units, units)
        self.softmax = self._weight("softmax", self._vocabulary, units)
        self.softmax_bias = self._weight("softmax_bias", self._vocabulary, autocast=False)

    def _weight(self, name: str, *shape: int, autocast: bool = True) -> keras.Variable:
        initializer = uniform(self._largest, self._random)
        return self.add_weight(shape, initializer=initializer, name=name, autocast=autocast)

    def compute_output_spec(
        self,
        source: tf.Tensor,
        states: tf.Tensor,
        hidden: tf.Tensor,
        memory: tf.Tensor,
        target: tf.Tensor | None = None,
        training: bool = False,
        most_probable: bool = False,
    ) -> keras.KerasTensor:
        """Returns the shape that ``call`` returns."""
        if target is None or most_probable:
            return keras.KerasTensor((source.shape[0], None), "int32")
        return keras.KerasTensor((*target.shape, self._units), self.compute_dtype)

    def call(
        self,
        source: tf.Tensor,
        states: tf.Tensor,
        hidden: list[tf.Tensor],
        memory: list[tf.Tensor],
        target: tf.Tensor | None = None,
        training: bool = False,
        most_probable: bool = False,
    ) -> tf.Tensor:
        """Predicts the word after each given one (teacher forcing), or decodes freely.

        Args:
            source: int32 [batch, source], the source words, reversed.
            states: [source, batch, units], the encoder's top states.
            hidden: the encoder's last state in each layer, [batch, units].
            memory: the encoder's last memory in each layer, [batch, units].
            target: int32 [batch, target], ``<go>`` and the previous words; None: decode freely.
            training: apply dropout.
            most_probable: return the most probable word after each given one.

        Returns:
            what the words are predicted from, [batch, target, units], or the most probable words,
            int32 [batch, target]; or the decoded words, int32 [batch, longest], padded after
            ``<eos>``.
        """
        weights = self._read()
        state, annotations = self.start(source, states, hidden, memory)
        if target is not None:
            outputs = self._predict(target, state, annotations, weights, training)
            return self._most_probable(outputs) if most_probable else outputs
        if self._beam_size > 1:
            state, annotations = tf.nest.map_structure(
                lambda tensor: None if tensor is None else tf.repeat(tensor, self._beam_size, 0),
                (state, annotations),  # None without attention
            )
        longest = bucket_of_source(source.shape[1], self._sizes).target
        return self.search(self._stepper(weights, annotations), state, longest)

    def start(
        self,
        source: tf.Tensor,
        states: tf.Tensor,
        hidden: Sequence[tf.Tensor],
        memory: Sequence[tf.Tensor],
    ) -> tuple[State, Annotations | None]:
        """Returns the state before the first word, and what is attended to; args as in ``call``."""
        annotations = self._annotate(source, states) if self._attention else None
        return State(tf.zeros_like(hidden[0]), tuple(hidden), tuple(memory)), annotations

    def step(
        self, words: tf.Tensor, state: State, annotations: Annotations | None
    ) -> tuple[tf.Tensor, State]:
        """Takes one step of free decoding.

        Args:
            words: int32 [batch], the last words, at first ``<go>``.
            state: that of the last step, at first of ``start``.
            annotations: of ``start``.

        Returns:
            the next word's logits, float32 [batch, vocabulary], and the new state.
        """
        return self._stepper(self._read(), annotations)(words, state)

    def logits(self, outputs: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the softmax's logits of outputs [n, units], float32 [n, vocabulary].

        Args:
            outputs: of ``call``, flattened.
            bias: float32 [vocabulary], replaces the softmax's own.
        """
        weights = tf.cast(self.softmax.value, outputs.dtype)
        products = tf.cast(tf.matmul(outputs, weights, transpose_b=True), tf.float32)
        return products + (self.softmax_bias.value if bias is None else bias)

    def alignment(
        self,
        source: tf.Tensor,
        states: tf.Tensor,
        hidden: list[tf.Tensor],
        memory: list[tf.Tensor],
        target: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the attention to source words, [batch, target, source]; args as in ``call``."""
        weights = self._read()
        state, annotations = self.start(source, states, hidden, memory)
        assert annotations is not None
        rows = []
        for gates in tf.unstack(self._word_gates(self._embed(tf.transpose(target)), weights)):
            multiply = _multiplication(weights, annotations, gates)
            state = self._step(multiply, state, None, annotations, weights.score)
            rows.append(_attend(state.hidden[-1], multiply, annotations, weights.score)[1])
        return tf.stack(rows, 1)[:, :, ::-1]  # in the order of the sentence

    def cache_values(self, source: int) -> int:
        """Returns the values kept for a sentence: what each hypothesis attends to, and its state.

        Args:
            source: words of the source.
        """
        attended = 2 * source * self._attention  # states and their keys
        return self._beam_size * self._units * (attended + 2 * self._depth + 1)

    def macs_of(self, lengths: tuple[int, int], predicted: int, hypotheses: int = 1) -> int:
        """Returns the multiply-accumulates of a sentence pair.

        Args:
            lengths: of the source and of the target sentence.
            predicted: number of words in the softmax.
            hypotheses: of the target sentence, decoded together.
        """
        source, target = lengths
        units = self._units
        step = 4 * units * units + sum(math.prod(kernel.shape) for kernel in self.kernels)
        keys = 0
        if self._attention:
            step += 3 * units * units + 2 * source * units  # query, combination; scores, context
            keys = source * units * units
        return keys + hypotheses * target * (step + predicted * units)

    # ---------------------------------------------------------------- internals

    def _read(self) -> Weights:
        """Reads the weights once, before the loop that uses them."""
        dtype, layers = self.compute_dtype, range(1, self._depth + 1)
        kernels = {f"layer_{i}": read(self.kernels[i - 1], dtype) for i in layers}
        biases = {f"layer_{i}": read(self.biases[i - 1], dtype) for i in layers}
        if not self._attention:
            return Weights(kernels, biases, None)
        kernels["query"] = read(self.query, dtype)
        kernels["combination"] = read(self.combination, dtype)
        return Weights(kernels, biases, read(self.score, dtype))

    def _annotate(self, source: tf.Tensor, states: tf.Tensor) -> Annotations:
        states = tf.transpose(states, (1, 0, 2))
        keys = tf.tensordot(states, tf.cast(self.key, states.dtype), 1)
        return Annotations(states, keys, tf.where(source == PAD, -3e4, 0.0))

    def _embed(self, words: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.gather(self.embedding.value, words), self.compute_dtype)

    def _word_gates(self, embedded: tf.Tensor, weights: Weights) -> tf.Tensor:
        """Returns the words' part of the first layer's gates, as one product for all words."""
        kernel = tf.cast(self.word_kernel, self.compute_dtype)
        return tf.tensordot(embedded, kernel, 1) + weights.biases["layer_1"]

    def _step(
        self,
        multiply: Multiply,
        state: State,
        masks: list[tf.Tensor] | None,
        annotations: Annotations | None = None,
        score: tf.Tensor | None = None,
    ) -> State:
        """Takes one step for each sentence of the batch."""
        hidden: list[tf.Tensor] = []
        memory: list[tf.Tensor] = []
        for i in range(self._depth):
            if i == 0:
                below = [state.output] if self._attention else []
            else:
                below = [hidden[-1] if masks is None else hidden[-1] * masks[i - 1]]
            gates = multiply(f"layer_{i + 1}", tf.concat([*below, state.hidden[i]], 1))
            new_hidden, new_memory = lstm_cell(gates, state.memory[i])
            hidden.append(new_hidden)
            memory.append(new_memory)
        output = hidden[-1]
        if annotations is not None:
            context, _ = _attend(output, multiply, annotations, score)
            output = tf.tanh(multiply("combination", tf.concat([context, output], 1)))
        return State(output, tuple(hidden), tuple(memory))

    def _predict(
        self,
        target: tf.Tensor,
        state: State,
        annotations: Annotations | None,
        weights: Weights,
        training: bool,
    ) -> tf.Tensor:
        """Runs over given words; returns [batch, target, units]."""
        drops = training and self._dropout > 0
        embedded = self._embed(tf.transpose(target))
        steps = target.shape[1] or tf.shape(target)[1]
        if drops:
            embedded = embedded * self._mask(tf.shape(embedded), 0)
            between = [tf.shape(embedded)] * (self._depth - 1)
            masks = [steps_of(self._mask(shape, i)) for i, shape in enumerate(between, 1)]
        kernels = _kernels(weights, annotations)
        added = {
            name: tf.broadcast_to(
                weights.biases.get(name, tf.zeros([], embedded.dtype)),
                (steps, tf.shape(embedded)[1], kernel.shape[-1]),
            )
            for name, kernel in kernels.items()
        }
        added["layer_1"] = self._word_gates(embedded, weights)

        def step(multiply: Multiply, time: tf.Tensor, state: State, attended: tuple) -> State:
            dropped = [mask.read(time) for mask in masks] if drops else None
            return self._step(multiply, state, dropped, *attended)

        attended = (annotations, weights.score) if self._attention else ()
        outputs, _ = recur(step, kernels, added, state, attended)
        if drops:
            outputs = outputs * self._mask(tf.shape(outputs), self._depth)
        return tf.transpose(outputs, (1, 0, 2))

    def _mask(self, shape: tf.Tensor, number: int) -> tf.Tensor:
        """Returns a dropout mask of zeros and 1 / (1 - dropout)."""
        kept = self._noise.uniform(shape, axis=1, stream=number) >= self._dropout
        return tf.cast(kept, self.compute_dtype) / (1 - self._dropout)

    def _stepper(self, weights: Weights, annotations: Annotations | None) -> Step:
        """Returns one step of free decoding; what all steps share is computed once."""
        bias = self._bias_of_words()

        def step(words: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
            gates = self._word_gates(self._embed(words), weights)
            multiply = _multiplication(weights, annotations, gates)
            state = self._step(multiply, state, None, annotations, weights.score)
            return self.logits(state.output, bias), state

        return step

    def _bias_of_words(self) -> tf.Tensor:
        """Returns the softmax's bias, by which neither padding nor ``<go>`` is ever chosen."""
        return tf.tensor_scatter_nd_update(self.softmax_bias, [[PAD], [GO]], [-1e9, -1e9])

    def _most_probable(self, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the most probable words, int32 [batch, target], of outputs [batch, target, n]."""
        logits = self.logits(tf.reshape(outputs, [-1, self._units]), self._bias_of_words())
        return tf.reshape(tf.argmax(logits, 1, tf.int32), tf.shape(outputs)[:2])


def _kernels(weights: Weights, annotations: Annotations | None) -> dict[str, tf.Tensor]:
    """Returns what a step multiplies by: kernels, and annotations [batch, source, units]."""
    return weights.kernels | ({"states": annotations.states} if annotations else {})


def _multiplication(
    weights: Weights, annotations: Annotations | None, word_gates: tf.Tensor
) -> Multiply:
    """Returns the multiplication of a single step, given the words' part of its gates."""
    kernels = _kernels(weights, annotations)
    added = weights.biases | {"layer_1": word_gates}

    def multiply(name: str, x: tf.Tensor) -> tf.Tensor:
        result = product(x, kernels[name])
        return result + added[name] if name in added else result

    return multiply


def _attend(
    query: tf.Tensor, multiply: Multiply, annotations: Annotations, score: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the context [batch, units] and the attention [batch, source]."""
    hidden = tf.tanh(annotations.keys + multiply("query", query)[:, None])
    rows = tf.reshape(hidden, (-1, hidden.shape[-1]))  # one product, not one for each sentence
    scores = tf.reshape(tf.linalg.matvec(rows, score), tf.shape(hidden)[:2])
    scores = tf.cast(scores, tf.float32) + annotations.padding
    attention = tf.cast(tf.nn.softmax(scores), query.dtype)
    return multiply("states", attention), attention
