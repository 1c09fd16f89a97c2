"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.options import hyperparameter, option
from fathom.shared.language.hyperparameters import LanguageHyperparameters, LanguageOptions

_PILE: dict[str, object] = {  # vocabulary and context of section E.2; all else is ours
    "batch_size": 1,
    "tokens": "bpe",
    "vocabulary": 50_280,
    "context": 2048,
    "warmup": 2000,
    "decay_steps": 100_000,
    "prompt_tokens": 1024,
    "new_tokens": 128,
}

# The values of "size"; explicitly given options take precedence.
SIZES: dict[str, dict[str, object]] = {
    "characters": {},
    "induction": {  # appendix E.1, for --dataset induction
        "layers": 2,
        "width": 64,
        "context": 256,
        "batch_size": 8,
        "learning_rate": 1e-3,
        "beta_2": 0.999,
        "weight_decay": 0.0,
        "decay_steps": 200_000,
    },
    # Table 12, with five times the rates of GPT-3; two blocks in the place of one of a transformer
    "130m": {**_PILE, "layers": 24, "width": 768, "learning_rate": 3e-3},
    "370m": {**_PILE, "layers": 48, "width": 1024, "learning_rate": 1.5e-3},
    "790m": {**_PILE, "layers": 48, "width": 1536, "learning_rate": 1.25e-3},
    "1.4b": {**_PILE, "layers": 48, "width": 2048, "learning_rate": 1e-3},
    "2.8b": {**_PILE, "layers": 64, "width": 2560, "learning_rate": 8e-4},
}


@dataclass(frozen=True)
class MambaHyperparameters(LanguageHyperparameters):
    """A size that two cores train, with llama's parameters; the papers' are ``size=130m``..."""

    SIZES = SIZES

    size: str = hyperparameter("characters", "defaults of most others", choices=SIZES)
    batch_size: int = hyperparameter(
        16, "per step; prompts in inference", unit="sequences", source="ours", minimum=1
    )
    layers: int = hyperparameter(8, "blocks", source="ours; 130M: 24", minimum=1)
    width: int = hyperparameter(128, "of a token's vector", source="ours; 130M: 768", minimum=1)
    context: int = hyperparameter(
        128, "of a sequence", unit="tokens", source="ours; 130M: 2,048", minimum=4
    )
    dropout: float = hyperparameter(
        0.0, "of what mixers return", source="the paper has none", below=1
    )
    learning_rate: float = hyperparameter(3e-3, "of the optimizer, the highest", source="ours")
    beta_2: float = hyperparameter(0.95, "of adam and adamw", source="appendix E.2", below=1)


@dataclass(frozen=True)
class MambaOptions(LanguageOptions):
    """Those of language models, and how the scan runs."""

    chunks: int = option(
        1, "of a sequence, which training and prefill scan side by side", minimum=1
    )
