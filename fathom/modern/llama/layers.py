"""The feed-forward layer of Llama; the others are in ``fathom.shared.language.rotary``."""

import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import LayerOptions, Random
from fathom.shared.language.layers import TokenLayer, linear, swiglu, weight
from fathom.shared.language.weights import Published


class FeedForward(TokenLayer):
    """SwiGLU: W2 (silu(W1 x) * W3 x) (Shazeer 2020); W1 and W3 are side by side in one matrix.

    Args:
        width: of a token's vector.
        hidden_units: in between.
        time: positions of a sequence, for the count of work.
        output_stddev: of the last matrix' weights.
        random: of the initial weights.
    """

    def __init__(
        self,
        width: int,
        hidden_units: int,
        time: int,
        output_stddev: float,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._width, self._hidden_units, self._time = width, hidden_units, time
        self._output_stddev, self._random = output_stddev, random
        self.kernel = weight(self, "kernel", (width, 2 * hidden_units), random)
        self.projection = weight(self, "projection", (hidden_units, width), random, output_stddev)
        self.macs = self.macs_of(time, time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for some tokens."""
        hidden_units, width = self.projection.shape
        return 3 * tokens * hidden_units * width

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width] of the same."""
        return linear(swiglu(linear(x, self.kernel)), self.projection)

    def published(self, prefix: str) -> list[Published]:
        """Returns what its weights are in the files of ``LlamaForCausalLM``."""
        gate, up, down = (f"{prefix}.mlp.{name}_proj.weight" for name in ("gate", "up", "down"))
        return [
            Published(self.kernel, (gate, up), transposed=True),
            Published(self.projection, (down,), transposed=True),
        ]
