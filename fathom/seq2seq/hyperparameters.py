"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.core.training import optimizers
from fathom.options import hyperparameter
from fathom.seq2seq import buckets
from fathom.shared.translation.hyperparameters import TranslationHyperparameters
from fathom.shared.translation.symbols import SPECIAL_SYMBOLS

_LEAST = len(SPECIAL_SYMBOLS) + 1  # words of a vocabulary

# The values of "size"; explicitly given options take precedence.
SIZES: dict[str, dict[str, object]] = {
    "fathom": {},
    "sutskever": {
        "batch_size": 128,
        "layers": 4,
        "units": 1000,
        "source_vocabulary": 160_000,
        "target_vocabulary": 80_000,
        "attention": False,
        "samples": 0,
        "learning_rate": 0.7,
    },
}


@dataclass(frozen=True)
class Seq2SeqHyperparameters(TranslationHyperparameters):
    """The size of Fathom's workload; Sutskever's network and batch are ``size=sutskever``."""

    SIZES = SIZES

    batch_size: int = hyperparameter(
        64, "per step", unit="sentence pairs", source="Fathom", minimum=1
    )
    size: str = hyperparameter(
        "fathom", "defaults of network, batch, samples and rate: or section 3.4's", choices=SIZES
    )
    layers: int = hyperparameter(
        3, "LSTM layers of the encoder, and of the decoder", source="Fathom", minimum=1
    )
    units: int = hyperparameter(256, "of each layer and word vector", source="Fathom", minimum=1)
    source_vocabulary: int = hyperparameter(
        40_000, "including special symbols", unit="words", source="Fathom", minimum=_LEAST
    )
    target_vocabulary: int = hyperparameter(
        40_000, "including special symbols", unit="words", source="Fathom", minimum=_LEAST
    )
    attention: bool = hyperparameter(True, "with input feeding", source="Bahdanau et al. 2015")
    buckets: str = hyperparameter(
        "5-10 10-15 20-25 40-50",
        "lengths of the source and of the target with its <eos>",
        unit="words",
    )
    samples: int = hyperparameter(
        512,
        "of the sampled softmax in training; 0: full softmax",
        unit="words",
        maximum=1_000_000,
    )
    optimizer: str = optimizers.choice("sgd", source="section 3.4")
    learning_rate: float = hyperparameter(
        0.5, "of the optimizer", source="Fathom; section 3.4: 0.7"
    )
    learning_rate_decay: float = hyperparameter(
        0.99, "factor after an epoch without a lower validation loss", above=0, maximum=1
    )
    # Section 3.4 clips the gradient per sentence at 5; here it is per word, and so much smaller.
    clip_norm: float = hyperparameter(5.0, "of the global gradient", source="section 3.4", above=0)
    initial_range: float = hyperparameter(
        0.08, "weights and biases are uniform within +- this", source="section 3.4"
    )
    dropout: float = hyperparameter(
        0.0, "between layers, as Zaremba et al. 2014", source="ours", below=1
    )
    beam_size: int = hyperparameter(1, "in free decoding; 1: greedy", unit="hypotheses", minimum=1)
    lowercase: bool = hyperparameter(False, "lowercase the text")

    def __post_init__(self) -> None:
        super().__post_init__()
        buckets.parse(self.buckets)
