"""The language models Llama 2 and 3: Touvron et al. 2023, Grattafiori et al. 2024.

"Llama 2: Open Foundation and Fine-Tuned Chat Models", and "The Llama 3 Herd of Models".
"""

from fathom.modern.llama.descriptor import DESCRIPTOR
from fathom.modern.llama.hyperparameters import LlamaHyperparameters
from fathom.shared.language.model import Generator
from fathom.shared.language.rotary_decoder import RotaryModel


class Llama(RotaryModel):
    """Predicts each token of a sequence from those before it."""

    descriptor = DESCRIPTOR
    model_type = "llama"
    divides_batches = True
    Hyperparameters = LlamaHyperparameters
    hyperparameters: LlamaHyperparameters


class LlamaFwd(Generator, Llama):
    """Continues prompts."""
