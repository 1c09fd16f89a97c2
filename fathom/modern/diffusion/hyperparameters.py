"""The hyperparameters of the workload."""

from dataclasses import dataclass

from fathom.core.training import optimizers
from fathom.errors import FathomError
from fathom.options import Hyperparameters, RunOptions, hyperparameter, option

# Peebles and Xie 2022, table 1 and section 4: latents of ImageNet at 256 x 256.
_PAPER: dict[str, object] = {
    "batch_size": 256,
    "side": 32,
    "channels": 4,
    "classes": 1000,
    "patch": 2,
    "learned_variance": True,
    "learning_rate": 1e-4,
    "average": 0.9999,
}
SIZES: dict[str, dict[str, object]] = {
    "mnist": {},
    "s": {**_PAPER, "layers": 12, "width": 384, "heads": 6},
    "b": {**_PAPER, "layers": 12, "width": 768, "heads": 12},
    "l": {**_PAPER, "layers": 24, "width": 1024, "heads": 16},
    "xl": {**_PAPER, "layers": 28, "width": 1152, "heads": 16},
}


@dataclass(frozen=True)
class DiffusionHyperparameters(Hyperparameters):
    """A size that two cores train; the paper's DiT-S/2 to DiT-XL/2 are ``size=s``, b, l, xl."""

    SIZES = SIZES

    size: str = hyperparameter("mnist", "defaults of most others", choices=SIZES)
    batch_size: int = hyperparameter(64, "per step", unit="images", minimum=1)
    side: int = hyperparameter(28, "of an image", unit="pixels", minimum=1)
    channels: int = hyperparameter(1, "of an image", minimum=1)
    classes: int = hyperparameter(10, "of images", minimum=1)
    patch: int = hyperparameter(4, "side of what is one token", unit="pixels", minimum=1)
    layers: int = hyperparameter(4, "blocks", minimum=1)
    width: int = hyperparameter(128, "of a token's vector", minimum=1)
    heads: int = hyperparameter(4, "of attention", minimum=1)
    learned_variance: bool = hyperparameter(
        False, "twice the output channels, as the published DiT has; the half is not trained"
    )
    class_dropout: float = hyperparameter(
        0.1, "share of images without their class in training", source="DiT's code", below=1
    )
    optimizer: str = optimizers.choice("adamw", source="DiT, section 4")
    learning_rate: float = hyperparameter(1e-3, "of the optimizer", source="ours; DiT: 1e-4")
    decay_steps: int = hyperparameter(
        0,
        "until the rate is a tenth, by a cosine; 0: it stays",
        unit="steps",
        source="DiT keeps it",
    )
    average: float = hyperparameter(
        0.999, "decay of the weights' moving average", source="ours; DiT: 0.9999", below=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.side % self.patch:
            raise FathomError(f"side {self.side} is not a multiple of patch {self.patch}")
        if self.width % self.heads:
            raise FathomError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.width % 4:
            raise FathomError(f"width {self.width} is not a multiple of 4, as positions need")


@dataclass(frozen=True)
class DiffusionOptions(RunOptions):
    """How images are sampled."""

    sampler: str = option(
        "ddim", "ddim (Song et al. 2021) or ddpm (Ho et al. 2020)", choices=("ddim", "ddpm")
    )
    sampling_steps: int = option(
        0, "0: 50 of ddim, 1,000 of ddpm", unit="passes of the network", maximum=1000
    )
    guidance: float = option(
        2.0, "scale of classifier-free guidance, of two passes a step; 1: none, of one"
    )

    @property
    def steps(self) -> int:
        """Number of steps from noise to an image."""
        return self.sampling_steps or {"ddim": 50, "ddpm": 1000}[self.sampler]
