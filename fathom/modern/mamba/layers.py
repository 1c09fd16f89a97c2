"""The mixer of Mamba: for whole sequences, and for tokens that follow others."""

import math

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import LayerOptions, Random
from fathom.modern.mamba.scan import selective_scan
from fathom.shared.attention import Cache
from fathom.shared.language.layers import TokenLayer, linear
from fathom.shared.language.weights import Published

STATES, TAPS, EXPANSION = 16, 4, 2  # N, of the convolution, and E (section 3.4, appendix E.2)
_SHORTEST, _LONGEST = 1e-3, 1e-1  # initial step sizes (section 3.6)


def rank_of(width: int) -> int:
    """Returns the rank of the step sizes' projection."""
    return math.ceil(width / 16)


class Mixer(TokenLayer):
    """A causal convolution and a selective scan, beside a gate (Gu and Dao 2023, section 3.4).

    The scan is in float32 whatever the precision, as in the published code.

    Args:
        width: of a token's vector.
        time: positions of a sequence, for the count of work.
        output_limit: of the last matrix' initial weights.
        chunks: of a sequence that are scanned side by side.
        random: of the initial weights.
    """

    def __init__(
        self,
        width: int,
        time: int,
        output_limit: float,
        chunks: int,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(autocast=False, **options)  # of the states
        self._chunks, self._random = chunks, random
        inner, rank = EXPANSION * width, rank_of(width)
        self.kernel = self._uniform("kernel", (width, 2 * inner), width**-0.5)
        self.taps = self._uniform("taps", (TAPS, 1, inner), TAPS**-0.5)
        self.taps_bias = self._uniform("taps_bias", (inner,), TAPS**-0.5)
        self.selection = self._uniform("selection", (inner, rank + 2 * STATES), inner**-0.5)
        self.steps = self._uniform("steps", (rank, inner), rank**-0.5)
        self.steps_bias = self._wide("steps_bias", (inner,), _initial_steps(random.new_seed()))
        self.log_rates = self._wide("log_rates", (STATES, inner), _initial_rates)
        self.skip = self._wide("skip", (inner,), "ones")
        self.projection = self._uniform("projection", (inner, width), output_limit)
        self.macs = self.macs_of(time, time)

    def _uniform(self, name: str, shape: tuple[int, ...], limit: float) -> keras.Variable:
        """Adds weights of a uniform distribution, as the published code has them of PyTorch."""
        seed = self._random.new_seed()
        initializer = keras.initializers.RandomUniform(-limit, limit, seed)
        return self.add_weight(shape, initializer=initializer, name=name)

    def _wide(self, name: str, shape: tuple[int, ...], initializer: object) -> keras.Variable:
        """Adds weights that are read in float32."""
        return self.add_weight(shape, initializer=initializer, name=name, autocast=False)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates of the matrix products for some tokens."""
        matrices = (self.kernel, self.selection, self.steps, self.projection)
        return tokens * sum(math.prod(matrix.shape) for matrix in matrices)

    def call(
        self, x: tf.Tensor, cache: Cache | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Mixes tokens with those before them.

        Args:
            x: [batch, time, width].
            cache: the states after the tokens before, float32 [batch, 16, E], and the
                convolution's last inputs, [batch, 3, E]; None: there are none.

        Returns:
            [batch, time, width], and the cache after these tokens.
        """
        values, gate = tf.split(linear(x, self.kernel), 2, -1)
        if cache is None:
            begin = tf.zeros([tf.shape(x)[0], STATES, values.shape[2]])
            inputs = tf.pad(values, ((0, 0), (TAPS - 1, 0), (0, 0)))
        else:
            begin, earlier = cache
            inputs = tf.concat([earlier, values], 1)
        values = tf.nn.silu(self._convolve(inputs))
        rank = self.steps.shape[0]
        steps, b, c = tf.split(linear(values, self.selection), [rank, STATES, STATES], -1)
        wide, steps, b, c = (
            tf.cast(each, tf.float32) for each in (values, linear(steps, self.steps), b, c)
        )
        steps = tf.nn.softplus(steps + self.steps_bias.value)
        rates = -tf.exp(tf.convert_to_tensor(self.log_rates.value))
        y, states = selective_scan(steps, steps * wide, b, c, rates, begin, self._chunks)
        y = tf.cast(y + wide * self.skip.value, values.dtype)
        mixed = linear(y * tf.nn.silu(gate), self.projection)
        return mixed, states, inputs[:, -(TAPS - 1) :]

    def _convolve(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, E], each value of the last four of its own channel."""
        time, taps = inputs.shape[1] - (TAPS - 1), tf.cast(self.taps, inputs.dtype)
        shifted = (inputs[:, i : i + time] * taps[i] for i in range(TAPS))
        return tf.add_n(list(shifted)) + tf.cast(self.taps_bias, inputs.dtype)

    def published(self, prefix: str) -> list[Published]:
        """Returns what its weights are in the files of ``MambaForCausalLM``."""
        names = {
            "in_proj.weight": self.kernel,
            "conv1d.weight": self.taps,
            "x_proj.weight": self.selection,
            "dt_proj.weight": self.steps,
            "A_log": self.log_rates,
            "out_proj.weight": self.projection,
        }
        vectors = {"conv1d.bias": self.taps_bias, "dt_proj.bias": self.steps_bias, "D": self.skip}
        return [
            *(Published(v, (f"{prefix}.{n}",), transposed=True) for n, v in names.items()),
            *(Published(v, (f"{prefix}.{n}",)) for n, v in vectors.items()),
        ]


def _initial_rates(shape: tuple[int, ...], dtype: str) -> tf.Tensor:
    """Returns log(n) for the n-th state, from 1 (S4D-Real, section 3.6)."""
    rates = tf.math.log(tf.range(1, shape[0] + 1, dtype=dtype))
    return tf.broadcast_to(rates[:, None], shape)


def _initial_steps(seed: int) -> object:
    """Returns what gives biases whose softplus is log-uniform."""

    def initializer(shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        drawn = keras.random.uniform(shape, math.log(_SHORTEST), math.log(_LONGEST), dtype, seed)
        return tf.math.log(tf.math.expm1(tf.exp(drawn)))  # the inverse of softplus

    return initializer
