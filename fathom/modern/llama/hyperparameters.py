"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.errors import FathomError
from fathom.options import hyperparameter
from fathom.shared.language.hyperparameters import LanguageHyperparameters

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
class LlamaHyperparameters(LanguageHyperparameters):
    """A size that two cores train; the papers' are ``size=7b`` (Llama 2), 8b, 70b, 405b (3)."""

    SIZES = SIZES

    size: str = hyperparameter("characters", "defaults of most others", choices=SIZES)
    batch_size: int = hyperparameter(
        16, "per step; prompts in inference", unit="sequences", source="ours", minimum=1
    )
    layers: int = hyperparameter(6, "blocks", source="ours; Llama 3 8B: 32", minimum=1)
    heads: int = hyperparameter(4, "of queries", source="ours; Llama 3 8B: 32", minimum=1)
    kv_heads: int = hyperparameter(
        2, "of keys and values, shared by queries", source="ours; Llama 3 8B: 8", minimum=1
    )
    width: int = hyperparameter(
        128, "of a token's vector", source="ours; Llama 3 8B: 4,096", minimum=1
    )
    hidden_units: int = hyperparameter(
        344, "of a feed-forward layer", source="8/3 of the width; Llama 3 8B: 14,336", minimum=1
    )
    context: int = hyperparameter(
        128, "of a sequence", unit="tokens", source="ours; Llama 3: 8,192", minimum=4
    )
    dropout: float = hyperparameter(
        0.0, "of what sublayers return", source="the papers have none", below=1
    )
    rope_base: float = hyperparameter(
        5e5, "of the rotary positions' wavelengths", source="Llama 3; Llama 2: 10,000", minimum=1
    )
    learning_rate: float = hyperparameter(3e-3, "of the optimizer, the highest", source="ours")
    beta_2: float = hyperparameter(0.95, "of adam and adamw", source="section 2.2", below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads % self.kv_heads:
            raise FathomError(
                f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}: each key and "
                "value has as many queries"
            )
        if self.width // self.heads % 2:
            raise FathomError(
                f"the {self.width // self.heads} values of a head (width/heads) are an odd number: "
                "rotary positions rotate pairs"
            )
