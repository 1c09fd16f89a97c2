"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.core.training import optimizers
from fathom.errors import FathomError
from fathom.modern.transformer import lengths
from fathom.options import hyperparameter
from fathom.shared.translation.hyperparameters import TranslationHyperparameters
from fathom.shared.translation.symbols import SPECIAL_SYMBOLS

# The values of "size"; explicitly given options take precedence. The sizes of Vaswani et al. are
# those of table 3, with batches of a GPU's share of the 25,000 tokens. The highest rate is that of
# equation 3, (width * warmup_steps) ** -0.5.
SIZES: dict[str, dict[str, object]] = {
    "tiny": {},
    "base": {
        "layers": 6,
        "width": 512,
        "heads": 8,
        "hidden_units": 2048,
        "dropout": 0.1,
        "vocabulary": 37_000,
        "learning_rate": (512 * 4_000) ** -0.5,
        "warmup_steps": 4_000,
    },
}
SIZES["big"] = SIZES["base"] | {
    "width": 1024,
    "heads": 16,
    "hidden_units": 4096,
    "dropout": 0.3,
    "learning_rate": (1024 * 4_000) ** -0.5,
}


@dataclass(frozen=True)
class TransformerHyperparameters(TranslationHyperparameters):
    """The size that suits Multi30k, from Wu et al. 2021; the paper's own is ``size=base``."""

    SIZES = SIZES

    batch_size: int = hyperparameter(
        64,
        "of the largest length; of a shorter one as many tokens",
        unit="sentence pairs",
        minimum=1,
    )
    size: str = hyperparameter(
        "tiny", "defaults of most others: Wu et al. 2021's or table 3's", choices=SIZES
    )
    layers: int = hyperparameter(
        4, "of the encoder, and of the decoder", source="Wu et al. 2021", minimum=1
    )
    width: int = hyperparameter(128, "of each layer's output", source="Wu et al. 2021", minimum=2)
    heads: int = hyperparameter(4, "of each attention", source="Wu et al. 2021", minimum=1)
    hidden_units: int = hyperparameter(
        256, "of the feed-forward networks", source="Wu et al. 2021", minimum=1
    )
    dropout: float = hyperparameter(
        0.3, "of sublayers' outputs and of embeddings", source="Wu et al. 2021", below=1
    )
    vocabulary: int = hyperparameter(
        8_000,
        "of both languages, including special symbols",
        unit="subwords",
        minimum=len(SPECIAL_SYMBOLS) + 1,
    )
    optimizer: str = optimizers.choice("adam", source="section 5.3")
    learning_rate: float = hyperparameter(
        0.005, "the highest, at the end of the warm-up", source="Wu et al. 2021"
    )
    warmup_steps: int = hyperparameter(
        2_000, "in which the rate rises", source="Wu et al. 2021", minimum=1
    )
    label_smoothing: float = hyperparameter(
        0.1, "probability spread over all subwords", source="section 5.4", below=1
    )
    lengths: str = hyperparameter(
        "12 16 20 24 32 64",
        "that pairs are padded to, with the end of the sentence",
        unit="subwords",
    )
    average: int = hyperparameter(
        5,
        "whose last weights are averaged for translations",
        unit="epochs",
        source="section 6.1: 5 checkpoints",
        minimum=1,
    )
    beam_size: int = hyperparameter(
        4, "in free decoding; 1: greedy", unit="hypotheses", source="section 6.1", minimum=1
    )
    length_penalty: float = hyperparameter(
        0.6, "exponent in the beam search's score", source="section 6.1"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths.parse(self.lengths)
        if self.width % self.heads:
            raise FathomError(f"width {self.width} is not a multiple of the {self.heads} heads")
        usual = self.defaults(self.size)["length_penalty"]
        if self.beam_size == 1 and self.length_penalty != usual:
            raise FathomError("length_penalty has no effect with beam_size=1: omit it")
