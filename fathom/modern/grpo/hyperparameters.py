"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.options import hyperparameter
from fathom.shared.language.hyperparameters import RotaryHyperparameters

# The values of "size"; explicitly given options take precedence.
SIZES: dict[str, dict[str, object]] = {
    "sums": {},
    "7b": {  # DeepSeekMath 7B, section 4.2; the network is DeepSeek LLM 7B's (Bi et al. 2024)
        "batch_size": 1024,
        "group": 64,
        "layers": 30,
        "width": 4096,
        "heads": 32,
        "kv_heads": 32,
        "hidden_units": 11_008,
        "vocabulary": 102_400,
        "rope_base": 1e4,
        "context": 2048,
        "prompt_tokens": 1024,
        "new_tokens": 1024,
        "supervised_steps": 0,
        "learning_rate": 1e-6,
        "warmup": 0,
        "decay_steps": 1_000_000,
    },
}


@dataclass(frozen=True)
class GRPOHyperparameters(RotaryHyperparameters):
    """A policy that one core trains; the paper's is ``size=7b``."""

    SIZES = SIZES

    size: str = hyperparameter("sums", "defaults of most others", choices=SIZES)
    batch_size: int = hyperparameter(
        128,
        "per update, of whole groups; questions in inference",
        unit="answers",
        source="ours; section 4.2: 1,024",
        minimum=1,
    )
    group: int = hyperparameter(
        8, "sampled to a question, G", unit="answers", source="ours; section 4.2: 64", minimum=2
    )
    updates: int = hyperparameter(
        1, "by the same sampled answers, mu", unit="steps", source="section 4.2", minimum=1
    )
    clip: float = hyperparameter(
        0.2,
        "most that a ratio of probabilities differs from 1, epsilon",
        source="Schulman et al. 2017",
        above=0,
        below=1,
    )
    penalty: float = hyperparameter(
        0.04, "factor of the divergence from the reference, beta", source="section 4.2"
    )
    supervised_steps: int = hyperparameter(
        300, "on right answers, before sampled ones", unit="steps", source="ours"
    )
    layers: int = hyperparameter(2, "blocks", source="ours; DeepSeekMath: 30", minimum=1)
    width: int = hyperparameter(
        64, "of a token's vector", source="ours; DeepSeekMath: 4,096", minimum=1
    )
    hidden_units: int = hyperparameter(
        172, "of a feed-forward layer", source="8/3 of the width", minimum=1
    )
    tokens: str = hyperparameter("characters", "what a token is", choices=("characters",))
    context: int = hyperparameter(
        10, "of a question and its answer", unit="tokens", source="the sums", minimum=4
    )
    prompt_tokens: int = hyperparameter(
        6, "of each question", unit="tokens", source="the sums", minimum=1
    )
    new_tokens: int = hyperparameter(
        4, "of an answer and its end, at most", unit="tokens", source="the sums", minimum=2
    )
    supervised_rate: float = hyperparameter(
        1e-3, "the highest learning rate of these steps", source="ours"
    )
    decay_steps: int = hyperparameter(
        10_000,
        "of updates by sampled answers until their rate is a tenth, by a cosine",
        unit="steps",
        source="ours",
        minimum=1,
    )
    learning_rate: float = hyperparameter(
        1.5e-4, "of the updates by sampled answers, the highest", source="ours; section 4.2: 1e-6"
    )
