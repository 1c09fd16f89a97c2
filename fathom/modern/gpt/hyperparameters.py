"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.options import hyperparameter
from fathom.shared.language.hyperparameters import LanguageHyperparameters

# The values of "size"; explicitly given options take precedence.
SIZES: dict[str, dict[str, object]] = {
    "characters": {},  # nanoGPT's setting for a CPU
    "gpt2": {
        "layers": 12,
        "heads": 12,
        "width": 768,
        "context": 1024,
        "vocabulary": 50_257,
        "tokens": "bpe",
        "learning_rate": 6e-4,
        "beta_2": 0.95,
        "warmup": 2000,
        "decay_steps": 600_000,
        "prompt_tokens": 512,
        "new_tokens": 128,
    },
}


@dataclass(frozen=True)
class GPTHyperparameters(LanguageHyperparameters):
    """nanoGPT's setting for a CPU; GPT-2's small network is ``size=gpt2``."""

    SIZES = SIZES

    size: str = hyperparameter(
        "characters", "defaults of most others: nanoGPT's for a CPU, or GPT-2 small", choices=SIZES
    )
