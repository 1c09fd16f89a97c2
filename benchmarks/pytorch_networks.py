"""PyTorch baselines of four networks, timed in the same way as Fathom's.

Written from the papers, with each framework's usual tuning: the better of two memory layouts, fused
optimizers, an allocator that keeps its memory. Needs only PyTorch, not Fathom, so it can run in a
separate environment. Inputs are random tensors, the same in every step.

    python benchmarks/pytorch_networks.py --workload alexnet --mode train --batch-size 32
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class ResponseNorm(nn.Module):
    """Local response normalization (Krizhevsky et al. 2012, section 3.3): n=5, k=2, alpha=1e-4."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes [batch, channels, height, width] across channels."""
        squares = F.pad(x * x, (0, 0, 0, 0, 2, 2))
        channels = x.shape[1]
        window = (squares[:, i : i + channels] for i in range(1, 5))
        sums = sum(window, start=squares[:, :channels])
        root = torch.rsqrt(2 + 1e-4 * sums)
        return x * (root * torch.sqrt(root))  # to the power of -3/4


def alexnet() -> nn.Module:
    """Builds the two-tower network of Krizhevsky et al. 2012 for 227 x 227 images."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, stride=4),
        nn.ReLU(inplace=True),
        ResponseNorm(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2),
        nn.ReLU(inplace=True),
        ResponseNorm(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 384, 3, padding=1, groups=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1, groups=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2),
        *classifier(256 * 6 * 6),
    )


def vgg() -> nn.Module:
    """Builds configuration E of Simonyan & Zisserman 2014 (VGG-19)."""
    layers: list[nn.Module] = []
    channels = 3
    for filters, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *classifier(512 * 7 * 7))


def classifier(features: int) -> list[nn.Module]:
    """Returns the three dense layers that AlexNet and VGG end with."""
    return [
        nn.Flatten(),
        nn.Linear(features, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(4096, 1000),
    ]


class Block(nn.Module):
    """The basic block of He et al. 2015: two 3 x 3 convolutions, and a shortcut around them."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut: nn.Module = nn.Identity()
        if channels != filters:
            projection = nn.Conv2d(channels, filters, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(filters))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [batch, channels, h, w] to [batch, filters, h / stride, w / stride]."""
        hidden = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(hidden)) + self.shortcut(x), inplace=True)


def residual() -> nn.Module:
    """Builds ResNet-34 with projection shortcuts (He et al. 2015, option B)."""
    layers = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels = 64
    for filters, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(depth):
            stride = 2 if i == 0 and filters != 64 else 1
            layers.append(Block(channels, filters, stride))
            channels = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Autoencoder(nn.Module):
    """The variational autoencoder of Kingma & Welling 2013: 784 - 500 - 20 - 500 - 784."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 500), nn.Tanh())
        self.mean, self.log_variance = nn.Linear(500, 20), nn.Linear(500, 20)
        self.decoder = nn.Sequential(nn.Linear(20, 500), nn.Tanh(), nn.Linear(500, 784))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Maps pixels [batch, 784] to logits [batch, 784], mean and log-variance [batch, 20]."""
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(latent), mean, log_variance


def negative_elbo(outputs: tuple[Tensor, Tensor, Tensor], pixels: Tensor) -> Tensor:
    """Returns the mean over images of the negative evidence lower bound, in nats."""
    logits, mean, log_variance = outputs
    reconstruction = F.binary_cross_entropy_with_logits(logits, pixels, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean**2 - torch.exp(log_variance))
    return (reconstruction + divergence) / len(pixels)


@dataclass(frozen=True)
class Workload:
    """A network and how it is trained.

    Attributes:
        build: makes the network.
        input_shape: of one example.
        parameters: how many trainable parameters it must have.
        weight_decay: L2 coefficient of momentum descent; None means Adam.
    """

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    parameters: int
    weight_decay: float | None


WORKLOADS = {
    "alexnet": Workload(alexnet, (3, 227, 227), 60_965_224, 5e-4),
    "vgg": Workload(vgg, (3, 224, 224), 143_667_240, 5e-4),
    "residual": Workload(residual, (3, 224, 224), 21_797_672, 1e-4),
    "autoenc": Workload(Autoencoder, (784,), 815_824, None),
}


def make_step(args: argparse.Namespace, layout: str) -> Step:
    """Returns a function that runs one training step or one inference."""
    workload = WORKLOADS[args.workload]
    model = workload.build().train(args.mode == "train")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if parameters != workload.parameters:
        sys.exit(f"the network has {parameters:,} parameters instead of {workload.parameters:,}")
    inputs = torch.rand(args.batch_size, *workload.input_shape)
    if layout == "channels_last":
        model, inputs = (x.to(memory_format=torch.channels_last) for x in (model, inputs))
    labels = torch.randint(1000, [args.batch_size])

    def loss() -> Tensor:
        outputs = model(inputs)
        if isinstance(outputs, tuple):
            return negative_elbo(outputs, inputs)
        return F.cross_entropy(outputs, labels)

    if args.mode == "infer":
        return pytorch_program.inference(pytorch_program.compiled(args, model), inputs)
    if workload.weight_decay is None:
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
    else:
        optimizer = torch.optim.SGD(
            model.parameters(), 1e-4, 0.9, weight_decay=workload.weight_decay, fused=True
        )
    return pytorch_program.training(pytorch_program.compiled(args, loss), optimizer)


def forms(args: argparse.Namespace) -> dict[str, str]:
    """Returns the memory layouts."""
    shape = WORKLOADS[args.workload].input_shape
    layouts = ("channels_last", "channels_first") if len(shape) > 1 else ("flat",)
    return {layout: layout for layout in layouts}


if __name__ == "__main__":
    pytorch_program.main(__doc__, make_step, forms, batch_size=32, workload=tuple(WORKLOADS))
