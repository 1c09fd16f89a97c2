"""The mixture of experts: Fedus et al. 2021 and Jiang et al. 2024.

"Switch Transformers: Scaling to Trillion Parameter Models with Simple and Efficient Sparsity", and
"Mixtral of Experts". Llama's network, but for the experts in the place of its feed-forward layers.
"""

from pathlib import Path
from typing import cast

import keras
import tensorflow as tf

from fathom import nn
from fathom.core.training import replicas
from fathom.errors import FathomError
from fathom.modern.moe import routing
from fathom.modern.moe.descriptor import DESCRIPTOR
from fathom.modern.moe.hyperparameters import MoEHyperparameters, MoEOptions
from fathom.modern.moe.layers import Experts, Router, SparseFeedForward
from fathom.shared.language.model import Generator
from fathom.shared.language.rotary import Sizes
from fathom.shared.language.rotary_decoder import RotaryModel

_NOTED_EVERY = 50  # steps, of which loads are the means


class MoE(RotaryModel):
    """Predicts each token of a sequence from those before it."""

    descriptor = DESCRIPTOR
    model_type = "mixtral"
    Hyperparameters = MoEHyperparameters
    hyperparameters: MoEHyperparameters
    RunOptions = MoEOptions
    run_options: MoEOptions
    indivisible = "the balance of experts is that of a whole batch"
    default_xla = "off"  # groups of rows have no static size: docs/workloads/moe.md

    def build_feed_forward(self, name: str, sizes: Sizes) -> SparseFeedForward:
        """Returns a router and its experts."""
        hyperparameters, new = self.hyperparameters, self.new_random
        experts = hyperparameters.experts
        counts = experts, hyperparameters.experts_per_token, hyperparameters.capacity_factor
        return SparseFeedForward(
            Router(experts, sizes.width, sizes.time, new(), name=f"{name}_router"),
            Experts(sizes, *counts, self.run_options.divide_experts, new(), name=f"{name}_experts"),
        )

    def load_data(self) -> None:
        """Reads the text.

        Raises:
            FathomError: as ``LanguageModel``, or the experts cannot be divided among workers.
        """
        super().load_data()
        if not self.run_options.divide_experts:
            return
        if self.strategy is None or self.execution.collectives != "gloo":
            raise FathomError(
                "divide_experts needs workers that exchange rows: python -m fathom launch -n N -- "
                "moe --train --collectives gloo"
            )
        experts, workers = self.hyperparameters.experts, self.strategy.num_replicas_in_sync
        if experts % workers:
            raise FathomError(f"{experts} experts cannot be divided among {workers} workers")

    def published_settings(self) -> dict[str, object]:
        """Returns what ``MixtralConfig`` says of a network that is this one."""
        return super().published_settings() | {
            "num_local_experts": self.hyperparameters.experts,
            "num_experts_per_tok": self.hyperparameters.experts_per_token,
            "sliding_window": None,
        }

    def build_state(self) -> None:
        """Creates the sums of the experts' loads."""
        shape = self.hyperparameters.layers, self.hyperparameters.experts
        with self.placement():
            self._loads = tf.Variable(tf.zeros(shape), trainable=False, name="loads")
            self._dropped = tf.Variable(0.0, trainable=False, name="dropped")
            self._counted = tf.Variable(0.0, trainable=False, name="counted")

    def restore_state(self) -> None:
        """Forgets the loads of a calibration's steps; refuses as ``LanguageModel``."""
        super().restore_state()
        for sums in (self._loads, self._dropped, self._counted):
            sums.assign(tf.zeros_like(sums))

    def build_inference(self, tokens: keras.KerasTensor) -> nn.Nest:
        """Returns the logits of the tokens that follow, and those of the routers.

        float32 [batch, context, vocabulary] and [batch, context, layers, experts].
        """
        logits = super().build_inference(tokens)
        layers = [cast(SparseFeedForward, block.feed_forward) for block in self.decoder.blocks]
        return logits, keras.ops.stack([each.router.output for each in layers], axis=2)

    def evaluation_outputs(self, inputs: nn.Nest) -> tf.Tensor:
        """Returns the logits of the tokens that follow."""
        return self.network(inputs, training=False)[0]

    def build_loss(self, tokens: tf.Tensor, following: tf.Tensor, outputs: nn.Nest) -> tf.Tensor:
        """Returns the mean cross-entropy of a token, in nats, and the load-balancing loss."""
        logits, routers = outputs
        given = self.hyperparameters
        count, factor = given.experts_per_token, given.capacity_factor
        own = routing.loads(routers, count)
        dropped = routing.beyond(own, tf.size(tokens), count, factor) if factor else tf.zeros([])
        shares, dropped = (each / replicas.count() for each in replicas.total([own, dropped]))
        for sums, value in ((self._loads, shares), (self._dropped, dropped), (self._counted, 1)):
            replicas.add(sums, value)
        balance = given.balance * routing.imbalance(routers, shares)
        return super().build_loss(tokens, following, logits) + balance

    def end_step(self, number: int) -> None:
        """Sets the learning rate of the next step, and notes the loads of the last steps.

        A load of 1 is an equal part of the rows.
        """
        super().end_step(number)
        count = float(self._counted.numpy())  # fewer steps after resuming
        if (number + 1) % _NOTED_EVERY or not count:
            return
        hyperparameters = self.hyperparameters
        equal = count * hyperparameters.experts_per_token / hyperparameters.experts
        loads = self._loads.numpy() / equal
        for block, row in enumerate(loads, 1):
            for expert, load in enumerate(row):
                self.note(f"block{block}_expert{expert}_load", float(load))
        if hyperparameters.capacity_factor:
            self.note("dropped_rows", float(self._dropped.numpy()) / count)
        for sums in (self._loads, self._dropped, self._counted):
            sums.assign(tf.zeros_like(sums))

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes text that the network continues, and the loads of its experts over training."""
        from fathom.modern.moe import pictures  # Matplotlib is slow to import

        written = super().save_pictures(directory)
        if "block1_expert0_load" in self.history:
            written.append(
                pictures.save_loads(directory, self.history, self.hyperparameters.layers)
            )
        return written


class MoEFwd(Generator, MoE):
    """Continues prompts."""

    @property
    def divides_inference(self) -> bool:
        """True, as operations for each expert are many and small, but where passes are counted."""
        return not self.hyperparameters.draft_layers

    @property
    def divides_decoding(self) -> bool:
        """True likewise."""
        return self.divides_inference
