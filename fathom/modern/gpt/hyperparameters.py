"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.options import hyperparameter
from fathom.shared.language.hyperparameters import AttentionHyperparameters

_GPT2: dict[str, object] = {
    "context": 1024,
    "vocabulary": 50_257,
    "tokens": "bpe",
    "learning_rate": 6e-4,
    "beta_2": 0.95,
    "warmup": 2000,
    "decay_steps": 600_000,
    "prompt_tokens": 512,
    "new_tokens": 128,
}

# The values of "size"; explicitly given options take precedence.
SIZES: dict[str, dict[str, object]] = {
    "characters": {},  # nanoGPT's setting for a CPU
    # Radford et al. 2019, table 2; the heads are those of the released networks
    "gpt2": {**_GPT2, "layers": 12, "heads": 12, "width": 768},
    "gpt2-medium": {**_GPT2, "layers": 24, "heads": 16, "width": 1024},
    "gpt2-large": {**_GPT2, "layers": 36, "heads": 20, "width": 1280},
    "gpt2-xl": {**_GPT2, "layers": 48, "heads": 25, "width": 1600},
    # Brown et al. 2020, table 2.1, but with dense attention in every block
    "gpt3-175b": {
        **_GPT2,
        "layers": 96,
        "heads": 96,
        "width": 12_288,
        "context": 2048,
        "learning_rate": 6e-5,
    },
}


@dataclass(frozen=True)
class GPTHyperparameters(AttentionHyperparameters):
    """nanoGPT's setting for a CPU; the papers' networks are other values of ``size``."""

    SIZES = SIZES

    size: str = hyperparameter(
        "characters", "defaults of most others: nanoGPT's for a CPU, or the papers'", choices=SIZES
    )
