"""The language model GPT-2: Radford et al. 2019.

"Language Models are Unsupervised Multitask Learners". What the paper leaves open is taken from its
predecessor, Radford et al. 2018, and from nanoGPT.
"""

from fathom.modern.gpt.descriptor import DESCRIPTOR
from fathom.modern.gpt.hyperparameters import GPTHyperparameters
from fathom.modern.gpt.network import Network
from fathom.shared.language.model import Generator, LanguageModel


class GPT(LanguageModel):
    """Predicts each token of a sequence from those before it."""

    descriptor = DESCRIPTOR
    Hyperparameters = GPTHyperparameters
    hyperparameters: GPTHyperparameters

    @property
    def divides_batches(self) -> bool:
        """Whether training is fastest in microbatches: not where gradients take long to add."""
        return self.hyperparameters.size == "characters"

    def build_decoder(self, words: int) -> Network:
        """Returns the network.

        Args:
            words: different tokens.
        """
        return Network.of(self.hyperparameters, words, self.new_random)


class GPTFwd(Generator, GPT):
    """Continues prompts."""
