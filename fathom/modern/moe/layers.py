"""The layers in the place of Llama's feed-forward: a router, and experts of which it chooses."""

from dataclasses import dataclass

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core import ragged
from fathom.core.layers import LayerOptions, Random
from fathom.core.training import replicas
from fathom.modern.moe import routing
from fathom.shared.language.decoder import Parts
from fathom.shared.language.layers import TokenLayer, swiglu, weight
from fathom.shared.language.rotary import Logits, Sizes
from fathom.shared.language.weights import Published


class Router(Logits):
    """The logits of a token's experts, in float32 (Fedus et al. 2021, section 2.4)."""

    def __init__(
        self, experts: int, width: int, time: int, random: Random, **options: Unpack[LayerOptions]
    ) -> None:
        options["dtype"] = "float32"
        super().__init__(experts, width, time, random, **options)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns float32 [batch, time, experts] of [batch, time, width]."""
        return super().call(tf.cast(x, tf.float32))


class Experts(TokenLayer):
    """SwiGLU networks, each of which computes the tokens that the router sends it, and no others.

    Args:
        sizes: of the network; ``hidden_units`` are an expert's.
        experts: number of them.
        count: that compute a token.
        capacity_factor: the most rows of an expert in training, over an equal part; 0: no limit.
        divided: each replica computes a part of the experts, for the tokens of all.
        random: of the initial weights.
    """

    def __init__(
        self,
        sizes: Sizes,
        experts: int,
        count: int,
        capacity_factor: float,
        divided: bool,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._sizes = sizes = Sizes(*sizes)  # a list, where the layer is loaded
        self._experts, self._count, self._capacity_factor = experts, count, capacity_factor
        self._divided = divided
        width, units, stddev = sizes.width, sizes.hidden_units, sizes.output_stddev
        self.kernels, self.projections = [], []
        for i in range(experts):
            self.kernels.append(weight(self, f"kernel{i}", (width, 2 * units), random))
            self.projections.append(weight(self, f"projection{i}", (units, width), random, stddev))
        self.macs = self.macs_of(sizes.time, sizes.time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for some tokens, each by its own experts alone."""
        return 3 * tokens * self._count * self._sizes.hidden_units * self._sizes.width

    def call(self, x: tf.Tensor, logits: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the weighted sums of the experts' results.

        Args:
            x: [batch, time, width].
            logits: float32 [batch, time, experts], of the router.
            training: an expert computes as many rows as its capacity.
        """
        tokens = tf.reshape(x, [-1, self._sizes.width])
        weights, chosen = routing.choose(tf.reshape(logits, [-1, self._experts]), self._count)
        most = None
        if training and self._capacity_factor:
            most = routing.capacity(tf.size(chosen), self._experts, self._capacity_factor)
        groups = routing.group(chosen, self._experts, most)
        rows = routing.gather(tokens, groups)
        if self._divided and replicas.count() > 1:
            exchange = ragged.Exchange(rows, groups.sizes)
            rows = exchange.back(self._compute(exchange.rows, exchange.sizes))
        else:
            rows = self._compute(rows, groups.sizes)
        found = routing.scatter(rows, groups, tf.shape(tokens)[0])
        weighted = found * tf.cast(tf.transpose(weights), x.dtype)[:, :, None]
        return tf.reshape(tf.reduce_sum(weighted, 0), [-1, *x.shape[1:]])

    def _compute(self, rows: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        """Returns what the experts make of their rows, [rows, width]."""
        hidden = swiglu(self._product(rows, sizes, self.kernels))
        return self._product(hidden, sizes, self.projections)

    def _product(
        self, rows: tf.Tensor, sizes: tf.Tensor, matrices: list[keras.Variable]
    ) -> tf.Tensor:
        values = [tf.convert_to_tensor(matrix) for matrix in matrices]
        return ragged.product(rows, sizes, values)


@keras.saving.register_keras_serializable("fathom.modern.moe.layers")
@dataclass(frozen=True)
class SparseFeedForward(Parts):
    """Each token is computed by the experts that its router chooses."""

    router: Router
    experts: Experts

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width] of the same."""
        return self.experts(x, self.router(x))

    def published(self, prefix: str) -> list[Published]:
        """Returns what its weights are in the files of ``MixtralForCausalLM``."""
        prefix = f"{prefix}.block_sparse_moe"
        found = [Published(self.router.kernel, (f"{prefix}.gate.weight",), transposed=True)]
        for i in range(len(self.experts.kernels)):
            w1, w2, w3 = (f"{prefix}.experts.{i}.w{number}.weight" for number in (1, 2, 3))
            found += [
                Published(self.experts.kernels[i], (w1, w3), transposed=True),
                Published(self.experts.projections[i], (w2,), transposed=True),
            ]
        return found
