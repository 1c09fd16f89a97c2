"""The language models Llama 2 and 3: Touvron et al. 2023, Grattafiori et al. 2024.

"Llama 2: Open Foundation and Fine-Tuned Chat Models", and "The Llama 3 Herd of Models".
"""

from fathom.modern.llama.descriptor import DESCRIPTOR
from fathom.modern.llama.hyperparameters import LlamaHyperparameters
from fathom.modern.llama.layers import EPSILON
from fathom.modern.llama.network import Network
from fathom.shared.language.model import Generator, LanguageModel
from fathom.shared.language.weights import Published


class Llama(LanguageModel):
    """Predicts each token of a sequence from those before it."""

    descriptor = DESCRIPTOR
    Hyperparameters = LlamaHyperparameters
    hyperparameters: LlamaHyperparameters
    decoder: Network

    def build_decoder(self, words: int) -> Network:
        """Returns the network.

        Args:
            words: different tokens.
        """
        return Network.of(self.hyperparameters, words, self.new_random)

    def published(self) -> list[Published]:
        """Returns what the network's weights are in the files of ``LlamaForCausalLM``."""
        return self.decoder.published()

    def published_settings(self) -> dict[str, object]:
        """Returns what ``LlamaConfig`` says of a network that is this one."""
        return {
            "model_type": "llama",
            "num_attention_heads": self.hyperparameters.heads,
            "num_key_value_heads": self.hyperparameters.kv_heads,
            "hidden_act": "silu",
            "rms_norm_eps": EPSILON,
            "rope_theta": self.hyperparameters.rope_base,
            "rope_type": "default",  # Llama 3.1 lengthens the waves
            "rope_scaling": None,
        }


class LlamaFwd(Generator, Llama):
    """Continues prompts."""
