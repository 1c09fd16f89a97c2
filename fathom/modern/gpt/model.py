"""The language model GPT-2: Radford et al. 2019.

"Language Models are Unsupervised Multitask Learners". What the paper leaves open is taken from its
predecessor, Radford et al. 2018, and from nanoGPT.
"""

import math

import keras

from fathom.core.layers import Dropout
from fathom.modern.gpt.descriptor import DESCRIPTOR
from fathom.modern.gpt.hyperparameters import GPTHyperparameters
from fathom.modern.gpt.layers import Attention, Embedding, LayerNormalization, Perceptron
from fathom.modern.gpt.network import Block, Network
from fathom.shared.language.layers import STDDEV, TiedLogits
from fathom.shared.language.model import Generator, LanguageModel


class GPT(LanguageModel):
    """Predicts each token of a sequence from those before it."""

    descriptor = DESCRIPTOR
    Hyperparameters = GPTHyperparameters
    hyperparameters: GPTHyperparameters
    decoder: Network
    divides_batches = True

    def build_decoder(self, words: int) -> Network:
        """Returns the network.

        Args:
            words: number of different tokens.
        """
        hyperparameters, new = self.hyperparameters, self.new_random
        time, width = hyperparameters.context, hyperparameters.width
        embedding = Embedding(words, time, width, new(), name="embedding")
        dropout = Dropout(hyperparameters.dropout, new().new_noise(), name="embedding_dropout")
        blocks = [self._block(number) for number in range(1, hyperparameters.layers + 1)]
        norm = LayerNormalization(width, name="norm")
        return Network(embedding, blocks, norm, TiedLogits(embedding, time, name="logits"), dropout)

    def _block(self, number: int) -> Block:
        hyperparameters, new, name = self.hyperparameters, self.new_random, f"block{number}"
        width, time, rate = hyperparameters.width, hyperparameters.context, hyperparameters.dropout
        residual, heads = STDDEV / math.sqrt(2 * hyperparameters.layers), hyperparameters.heads
        return Block(
            LayerNormalization(width, name=f"{name}_norm1"),
            Attention(width, heads, time, rate, residual, new(), name=f"{name}_attention"),
            Dropout(rate, new().new_noise(), name=f"{name}_dropout1"),
            keras.layers.Add(name=f"{name}_sum1"),
            LayerNormalization(width, name=f"{name}_norm2"),
            Perceptron(width, time, residual, new(), name=f"{name}_mlp"),
            Dropout(rate, new().new_noise(), name=f"{name}_dropout2"),
            keras.layers.Add(name=f"{name}_sum2"),
        )

    def published_settings(self) -> dict[str, object]:
        """Returns what ``GPT2Config`` says of a network that is this one."""
        return {
            "model_type": "gpt2",
            "n_layer": self.hyperparameters.layers,
            "n_head": self.hyperparameters.heads,
            "layer_norm_epsilon": 1e-5,
            "activation_function": "gelu_new",
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "tie_word_embeddings": True,
        }


class GPTFwd(Generator, GPT):
    """Continues prompts."""
