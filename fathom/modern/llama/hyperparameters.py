"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.options import hyperparameter
from fathom.shared.language.hyperparameters import RotaryHyperparameters

# The values of "size"; explicitly given options take precedence.
_LARGE: dict[str, object] = {
    "batch_size": 1,
    "tokens": "bpe",
    "beta_2": 0.95,
    "warmup": 2000,
    "prompt_tokens": 1024,
    "new_tokens": 128,
}
_LLAMA_2 = {**_LARGE, "context": 4096, "vocabulary": 32_000, "rope_base": 1e4}
_LLAMA_3 = {
    **_LARGE,
    "context": 8192,
    "vocabulary": 128_256,
    "kv_heads": 8,
    "warmup": 8000,
    "decay_steps": 1_200_000,
}
SIZES: dict[str, dict[str, object]] = {
    "characters": {},
    "7b": {  # Llama 2: Touvron et al. 2023, section 2.2
        **_LLAMA_2,
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "kv_heads": 32,
        "hidden_units": 11_008,
        "learning_rate": 3e-4,
        "decay_steps": 500_000,
    },
    "8b": {  # Llama 3: Grattafiori et al. 2024, table 3
        **_LLAMA_3,
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "hidden_units": 14_336,
        "learning_rate": 3e-4,
    },
    "70b": {
        **_LLAMA_3,
        "layers": 80,
        "width": 8192,
        "heads": 64,
        "hidden_units": 28_672,
        "learning_rate": 1.5e-4,
    },
    "405b": {
        **_LLAMA_3,
        "layers": 126,
        "width": 16_384,
        "heads": 128,
        "hidden_units": 53_248,
        "learning_rate": 8e-5,
    },
}


@dataclass(frozen=True)
class LlamaHyperparameters(RotaryHyperparameters):
    """A size that two cores train; the papers' are ``size=7b`` (Llama 2), 8b, 70b, 405b (3)."""

    SIZES = SIZES

    size: str = hyperparameter("characters", "defaults of most others", choices=SIZES)
