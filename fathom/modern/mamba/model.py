"""The selective state-space model Mamba: Gu and Dao 2023.

"Mamba: Linear-Time Sequence Modeling with Selective State Spaces". Training scans sequences,
inference keeps a state of constant size.
"""

import keras
import tensorflow as tf

from fathom.core.data.pipeline import Tensors
from fathom.core.layers import Dropout
from fathom.core.training.optimizers import Variable
from fathom.errors import FathomError
from fathom.model.decoder import TokenDecoder
from fathom.modern.mamba.descriptor import DESCRIPTOR
from fathom.modern.mamba.hyperparameters import MambaHyperparameters, MambaOptions
from fathom.modern.mamba.layers import EXPANSION, STATES, TAPS, Mixer, rank_of
from fathom.modern.mamba.network import Block, Network
from fathom.shared.language.layers import TiedLogits
from fathom.shared.language.model import Generator, LanguageModel
from fathom.shared.language.rotary import EPSILON, Embedding, RMSNorm

_NONE = -1  # in the place of a token that nothing has to predict


class Mamba(LanguageModel):
    """Predicts each token of a sequence from those before it, or an answer at its end."""

    descriptor = DESCRIPTOR
    Hyperparameters = MambaHyperparameters
    hyperparameters: MambaHyperparameters
    RunOptions = MambaOptions
    run_options: MambaOptions
    decoder: Network

    def load_data(self) -> None:
        """Reads the text, or the sequences with answers.

        Raises:
            FathomError: as ``LanguageModel``, or sequences have another length than the context, or
                tokens of several letters.
        """
        super().load_data()
        length, context = self.text.sequence - 1, self.hyperparameters.context
        if self._answers and length != context:
            raise FathomError(
                f"the sequences of {self.source.directory} have {length} tokens: use "
                f"--set context={length}, or --set size=induction"
            )
        if self._answers and len(self._training) != len(self.text.training):
            raise FathomError(
                f"the sequences of {self.source.directory} are of single letters: use --set "
                "tokens=characters"
            )

    @property
    def _answers(self) -> bool:
        """Whether the last token alone has to be predicted."""
        return self.text.sequence > 1

    def _windows(self, tokens: tf.Tensor, starts: tf.Tensor) -> Tensors:
        """Returns sequences, and what follows each token as far as it counts."""
        given, following = super()._windows(tokens, starts)
        if self._answers:
            following = tf.concat([tf.fill(given[:, 1:].shape, _NONE), following[:, -1:]], 1)
        return given, following

    def build_decoder(self, words: int) -> Network:
        """Returns the network.

        Args:
            words: rows of the embedding.
        """
        hyperparameters, new = self.hyperparameters, self.new_random
        width, layers, time = hyperparameters.width, hyperparameters.layers, hyperparameters.context
        embedding = Embedding(words, width, new(), name="embedding")
        limit, chunks = (EXPANSION * width * layers) ** -0.5, self.run_options.chunks
        blocks = []
        for name in (f"block{number}" for number in range(1, layers + 1)):
            mixer = Mixer(width, time, limit, chunks, new(), name=f"{name}_mixer")
            dropout = Dropout(hyperparameters.dropout, new().new_noise(), name=f"{name}_dropout")
            norm = RMSNorm(width, name=f"{name}_norm")
            blocks.append(Block(norm, mixer, dropout, keras.layers.Add(name=f"{name}_sum")))
        logits = TiedLogits(embedding, time, name="logits")
        return Network(embedding, blocks, RMSNorm(width, name="norm"), logits)

    def build_loss(self, tokens: tf.Tensor, following: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy of a token that counts, in nats."""
        return tf.reduce_mean(_mean_entropy(following, logits))

    def is_weight_matrix(self, variable: Variable) -> bool:
        """Says whether a variable is one that decays: not the logarithms of the rates."""
        is_rate = variable.path.endswith("/log_rates")
        return super().is_weight_matrix(variable) and not is_rate

    def build_evaluation(
        self, tokens: tf.Tensor, following: tf.Tensor, logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each sequence's mean cross-entropy, and whether its last token is predicted."""
        chosen = tf.argmax(logits[:, -1], 1, tf.int32)
        right = tf.cast(chosen == following[:, -1], tf.float32)
        return {"loss": _mean_entropy(following, logits), "right": right}

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns the loss and the perplexity, and the accuracy where there are answers."""
        right = {"accuracy": sums["right"] / examples} if self._answers else {}
        return super().total_metrics(sums, examples) | right

    def published_settings(self) -> dict[str, object]:
        """Returns what ``MambaConfig`` says of a network that is this one."""
        return {
            "model_type": "mamba",
            "num_hidden_layers": self.hyperparameters.layers,
            "state_size": STATES,
            "conv_kernel": TAPS,
            "time_step_rank": rank_of(self.hyperparameters.width),
            "layer_norm_epsilon": EPSILON,
            "use_bias": False,
            "use_conv_bias": True,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
        }


class MambaFwd(Generator, Mamba):
    """Continues prompts."""

    def token_decoder(self) -> TokenDecoder | None:
        """Returns None: servers keep keys and values of tokens, and here are none."""
        return None


def _mean_entropy(following: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross-entropy of the tokens that count, in nats, [batch]."""
    counts = tf.cast(following != _NONE, tf.float32)
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.nn.relu(following), logits)
    return tf.reduce_sum(entropy * counts, 1) / tf.reduce_sum(counts, 1)
