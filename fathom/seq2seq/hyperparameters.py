"""The choices that define the workload."""

from dataclasses import dataclass
from typing import Any

from fathom.errors import FathomError
from fathom.options import Hyperparameters
from fathom.seq2seq import buckets
from fathom.seq2seq.vocabulary import SPECIAL_SYMBOLS

OPTIMIZERS = ("sgd", "adam")

# What "size" stands for; options given beside it come first.
SIZES: dict[str, dict[str, Any]] = {
    "fathom": {},
    "sutskever": {
        "layers": 4,
        "units": 1000,
        "source_vocabulary": 160_000,
        "target_vocabulary": 80_000,
        "attention": False,
    },
}


@dataclass(frozen=True)
class Seq2SeqHyperparameters(Hyperparameters):
    """The size of Fathom's workload; Sutskever's own is ``size=sutskever``."""

    batch_size: int = 64  # sentence pairs
    size: str = "fathom"  # the defaults of the next five: fathom or sutskever
    layers: int = 3  # LSTM layers of the encoder, and of the decoder
    units: int = 256  # of each layer, and length of the word vectors
    source_vocabulary: int = 40_000  # words, the special symbols included
    target_vocabulary: int = 40_000  # words, the special symbols included
    attention: bool = True  # Bahdanau's, with input feeding
    buckets: str = "5-10 10-15 20-25 40-50"  # words of the source, of the target with its <eos>
    samples: int = 512  # words of the sampled softmax in training; 0: the whole softmax
    optimizer: str = "sgd"  # sgd (section 3.4) or adam
    learning_rate: float = 0.5  # Fathom's; 0.7 in section 3.4
    learning_rate_decay: float = 0.99  # factor where an epoch has not lowered the validation loss
    # Of all gradients together. Section 3.4's 5 is of a sentence's gradient; here it is a word's,
    # smaller by as many times as a sentence has words.
    clip_norm: float = 5.0
    initial_range: float = 0.08  # weights and biases are uniform in +- this; section 3.4
    dropout: float = 0.0  # between layers, as Zaremba et al. 2014; none in the papers
    beam_size: int = 1  # hypotheses in decoding; 1: greedy
    source_language: str = "en"  # the ending of the files
    target_language: str = "de"  # the ending of the files; fr for the papers' task
    lowercase: bool = False  # make all letters small

    def __post_init__(self) -> None:
        super().__post_init__()
        buckets.parse(self.buckets)
        self.require_one_of("size", SIZES)
        self.require_one_of("optimizer", OPTIMIZERS)
        self.require_at_least(1, "layers", "units", "beam_size")
        for name in ("source_vocabulary", "target_vocabulary"):
            if getattr(self, name) <= len(SPECIAL_SYMBOLS):
                raise FathomError(
                    f"{name} {getattr(self, name)} has no room for words beside the special "
                    f"symbols {', '.join(SPECIAL_SYMBOLS)}: use at least {len(SPECIAL_SYMBOLS) + 1}"
                )
        self.require_below(1, "dropout")
        if not 0 < self.learning_rate_decay <= 1:
            raise FathomError(
                f"learning_rate_decay must be more than 0 and at most 1, not "
                f"{self.learning_rate_decay}"
            )
