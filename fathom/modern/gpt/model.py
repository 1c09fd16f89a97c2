"""The language model GPT-2: Radford et al. 2019.

"Language Models are Unsupervised Multitask Learners". What the paper leaves open is taken from its
predecessor, Radford et al. 2018, and from nanoGPT.
"""

from fathom.modern.gpt.descriptor import DESCRIPTOR
from fathom.modern.gpt.hyperparameters import GPTHyperparameters
from fathom.modern.gpt.network import Network
from fathom.shared.language.model import Generator, LanguageModel
from fathom.shared.language.weights import Published


class GPT(LanguageModel):
    """Predicts each token of a sequence from those before it."""

    descriptor = DESCRIPTOR
    Hyperparameters = GPTHyperparameters
    hyperparameters: GPTHyperparameters
    decoder: Network

    @property
    def divides_batches(self) -> bool:
        """Whether training is fastest in microbatches: not where gradients take long to add."""
        return self.hyperparameters.size == "characters"

    def build_decoder(self, words: int) -> Network:
        """Returns the network.

        Args:
            words: number of different tokens.
        """
        return Network.of(self.hyperparameters, words, self.new_random)

    def published(self) -> list[Published]:
        """Returns what the network's weights are in the files of ``GPT2LMHeadModel``."""
        return self.decoder.published()

    def published_settings(self) -> dict[str, object]:
        """Returns what ``GPT2Config`` says of a network that is this one."""
        return {
            "model_type": "gpt2",
            "n_head": self.hyperparameters.heads,
            "layer_norm_epsilon": 1e-5,
            "activation_function": "gelu_new",
            "scale_attn_by_inverse_layer_idx": False,
        }


class GPTFwd(Generator, GPT):
    """Continues prompts."""
