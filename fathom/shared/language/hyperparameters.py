"""The hyperparameters that language models have in common."""

from dataclasses import dataclass

from fathom.core.training import optimizers
from fathom.errors import FathomError
from fathom.options import Hyperparameters, RunOptions, hyperparameter, option
from fathom.shared.language.vocabulary import BYTES, KINDS
from fathom.system.words import counted

PHASES = ("both", "prefill", "decode")


@dataclass(frozen=True)
class LanguageHyperparameters(Hyperparameters):
    """nanoGPT's setting for a CPU, unless a subclass says otherwise."""

    batch_size: int = hyperparameter(
        12, "per step; prompts in inference", unit="sequences", source="nanoGPT", minimum=1
    )
    layers: int = hyperparameter(4, "blocks", source="nanoGPT; GPT-2: 12", minimum=1)
    width: int = hyperparameter(128, "of a token's vector", source="nanoGPT; GPT-2: 768", minimum=1)
    context: int = hyperparameter(
        64, "of a sequence", unit="tokens", source="nanoGPT; GPT-2: 1,024", minimum=4
    )
    dropout: float = hyperparameter(
        0.0, "of embeddings, attention and sublayers", source="nanoGPT", below=1
    )
    tokens: str = hyperparameter("characters", "what a token is", choices=KINDS)
    vocabulary: int = hyperparameter(
        0, "rows of the embedding; 0: as many as tokens=... needs", source="GPT-2: 50,257"
    )
    optimizer: str = optimizers.choice("adamw", source="nanoGPT")
    learning_rate: float = hyperparameter(1e-3, "of the optimizer, the highest", source="nanoGPT")
    beta_1: float = hyperparameter(0.9, "of adam and adamw", source="nanoGPT", below=1)
    beta_2: float = hyperparameter(
        0.99, "of adam and adamw", source="nanoGPT; 0.95 for GPT-2", below=1
    )
    weight_decay: float = hyperparameter(
        0.1, "of matrices alone; of adamw decoupled", source="nanoGPT"
    )
    warmup: int = hyperparameter(100, "linear, of the rate", unit="steps", source="nanoGPT")
    decay_steps: int = hyperparameter(
        2000, "until the rate is a tenth, by a cosine", unit="steps", source="nanoGPT", minimum=1
    )
    clip_norm: float = hyperparameter(1.0, "of the global gradient", source="nanoGPT", above=0)
    prompt_tokens: int = hyperparameter(0, "of each prompt; 0: half of the context")
    new_tokens: int = hyperparameter(0, "after each prompt; 0: the rest of the context")
    temperature: float = hyperparameter(0.0, "of the choice of tokens; 0: the most probable")
    top_k: int = hyperparameter(0, "choose among as many; 0: among all", unit="tokens")
    top_p: float = hyperparameter(
        1.0,
        "choose among the fewest tokens of this probability together",
        source="all tokens; Holtzman et al. 2020 have 0.95",
        above=0,
        maximum=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature and (self.top_k or self.top_p < 1):
            raise FathomError("top_k and top_p are for a temperature above 0: give one")
        new = self.new_tokens or 2
        if self.prompt_tokens + new > self.context:
            raise FathomError(
                f"a prompt of {self.prompt_tokens} tokens and {counted(new, 'new one')} "
                f"are more than the context of {self.context}: lower prompt_tokens or new_tokens"
            )
        if self.tokens == "bpe" and self.vocabulary <= BYTES:
            raise FathomError(
                f"tokens=bpe needs a vocabulary of more than {BYTES} tokens, such as "
                "--set vocabulary=1024"
            )
        if self.vocabulary and self.tokens == "bytes" and self.vocabulary < BYTES:
            raise FathomError(f"tokens=bytes needs a vocabulary of {BYTES} or 0")


@dataclass(frozen=True)
class AttentionHyperparameters(LanguageHyperparameters):
    """Those of networks with attention."""

    heads: int = hyperparameter(4, "of attention", source="nanoGPT; GPT-2: 12", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise FathomError(f"width {self.width} is not a multiple of heads {self.heads}")


@dataclass(frozen=True)
class RotaryHyperparameters(AttentionHyperparameters):
    """Those of decoders with rotary positions: a size that two cores train."""

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
    draft_layers: int = hyperparameter(
        0,
        "first blocks, which draft tokens that all blocks check; 0: no draft",
        source="Zhang et al. 2023",
    )
    draft_tokens: int = hyperparameter(
        4,
        "drafted before each check",
        unit="tokens",
        source="Leviathan et al. 2023",
        needs="draft_layers",
        minimum=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads % self.kv_heads:
            raise FathomError(
                f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}: each key and "
                "value has as many queries"
            )
        if self.draft_layers >= self.layers:
            raise FathomError(
                f"draft_layers {self.draft_layers} is not below layers {self.layers}: a draft is a "
                "part of the network"
            )
        if self.draft_layers and self.temperature:
            raise FathomError(
                "draft_layers is for the most probable tokens: omit temperature or draft_layers"
            )
        if self.width // self.heads % 2:
            raise FathomError(
                f"the {self.width // self.heads} values of a head (width/heads) are an odd number: "
                "rotary positions rotate pairs"
            )


@dataclass(frozen=True)
class LanguageOptions(RunOptions):
    """What a run starts from, and how the forward-only twin is run."""

    phase: str = option(
        "both",
        "forward-only: what a step runs; decode: from a cache",
        choices=PHASES,
        trains=False,
    )
    weights: str = option("", "folder of safetensors to start from, as Hugging Face has them")
