"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.errors import FathomError
from fathom.options import hyperparameter, option
from fathom.shared.language.hyperparameters import LanguageOptions, RotaryHyperparameters

# The values of "size"; explicitly given options take precedence.
SIZES: dict[str, dict[str, object]] = {
    "characters": {},
    "mixtral-8x7b": {  # Jiang et al. 2024, table 1
        "batch_size": 1,
        "tokens": "bpe",
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "kv_heads": 8,
        "hidden_units": 14_336,
        "context": 32_768,
        "vocabulary": 32_000,
        "experts": 8,
        "experts_per_token": 2,
        "rope_base": 1e6,
        "learning_rate": 3e-4,  # that of Llama 2; the paper does not say
        "warmup": 2000,
        "decay_steps": 500_000,
        "prompt_tokens": 1024,
        "new_tokens": 128,
    },
}


@dataclass(frozen=True)
class MoEHyperparameters(RotaryHyperparameters):
    """A size that two cores train, with llama's work for a token; ``size=mixtral-8x7b``."""

    SIZES = SIZES

    size: str = hyperparameter("characters", "defaults of most others", choices=SIZES)
    hidden_units: int = hyperparameter(
        172, "of an expert", source="half of llama's; Mixtral: 14,336", minimum=1
    )
    experts: int = hyperparameter(8, "of a layer", source="Mixtral, table 1", minimum=1)
    experts_per_token: int = hyperparameter(
        2, "that compute a token", source="Mixtral, table 1; Switch: 1", minimum=1
    )
    capacity_factor: float = hyperparameter(
        0.0,
        "most rows of an expert in training, over an equal part; further ones are dropped; 0: none",
        source="Mixtral; Switch: 1.0 to 2.0",
    )
    balance: float = hyperparameter(
        0.01, "factor of the load-balancing loss", source="Switch, section 2.2"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts_per_token > self.experts:
            raise FathomError(
                f"experts_per_token {self.experts_per_token} is more than experts {self.experts}"
            )


@dataclass(frozen=True)
class MoEOptions(LanguageOptions):
    """Those of language models, and where experts are computed."""

    divide_experts: bool = option(
        False, "among the workers of --collectives gloo, which send each other rows (all-to-all)"
    )
