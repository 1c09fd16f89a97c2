"""The language models Llama 2 and 3: Touvron et al. 2023, Grattafiori et al. 2024.

"Llama 2: Open Foundation and Fine-Tuned Chat Models", and "The Llama 3 Herd of Models".
"""

from fathom.modern.llama.descriptor import DESCRIPTOR
from fathom.modern.llama.hyperparameters import LlamaHyperparameters
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


class LlamaFwd(Generator, Llama):
    """Continues prompts."""
