"""PyTorch baseline of diffusion, timed in the same way as Fathom's network.

The diffusion transformer, written from the paper with PyTorch's usual modules: ``LayerNorm``
without weights, ``scaled_dot_product_attention``, ``AdamW``. Inference samples images by DDIM, with
classifier-free guidance. Needs only PyTorch, not Fathom. Images are random, the same in each step.

    python benchmarks/pytorch_diffusion.py --mode train
    python benchmarks/pytorch_diffusion.py --mode infer --compile
"""

import argparse

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

TIMES, FREQUENCIES, LOST = 1000, 256, 0.1
SHARES = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES, dtype=torch.float64), 0).float()


def modulated(norm: nn.LayerNorm, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Normalises [batch, tokens, width], then scales and shifts each image's tokens."""
    return norm(x) * (1 + scale) + shift


class Block(nn.Module):
    """Attention and perceptron with adaLN-Zero."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.modulation = nn.Linear(width, 6 * width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Returns the next [batch, tokens, width]."""
        first, second = self.modulation(condition)[:, None].chunk(2, -1)
        (shift, scale, gate), rest = first.chunk(3, -1), second.chunk(3, -1)
        parts = self.qkv(modulated(self.norm, x, shift, scale)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + gate * self.projection(y)
        hidden = F.gelu(self.expand(modulated(self.norm, x, *rest[:2])), approximate="tanh")
        return x + rest[2] * self.contract(hidden)


class DiT(nn.Module):
    """The noise in images of a time and a class."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        width, patch = args.width, args.patch
        self.patch, self.count, self.classes = patch, args.side // patch, args.classes
        self.patches = nn.Linear(patch**2 * args.channels, width)
        self.time = nn.Linear(FREQUENCIES, width)
        self.condition = nn.Linear(width, width)
        self.table = nn.Embedding(args.classes + 1, width)
        self.blocks = nn.ModuleList(Block(width, args.heads) for _ in range(args.layers))
        self.norm = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.modulation = nn.Linear(width, 2 * width)
        self.pixels = nn.Linear(width, patch**2 * args.channels)
        for layer in (self.pixels, self.modulation, *(block.modulation for block in self.blocks)):
            nn.init.zeros_(layer.weight)
        self.register_buffer("places", torch.randn(self.count**2, width))
        self.register_buffer("rates", 1e4 ** (-torch.arange(128) / 128))

    def forward(self, images: Tensor, times: Tensor, classes: Tensor) -> Tensor:
        """Returns [batch, side, side, channels] of the same."""
        n, p = self.count, self.patch
        x = images.unflatten(1, (n, p)).unflatten(3, (n, p)).transpose(2, 3)
        x = self.patches(x.reshape(len(images), n * n, -1)) + self.places
        angles = times[:, None] * self.rates
        waves = torch.cat([angles.cos(), angles.sin()], 1)
        condition = self.condition(F.silu(self.time(waves)))
        condition = F.silu(condition + self.table(classes))
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulation(condition)[:, None].chunk(2, -1)
        x = self.pixels(modulated(self.norm, x, shift, scale))
        return x.view(-1, n, n, p, p, images.shape[-1]).transpose(2, 3).reshape(images.shape)


def make_training(args: argparse.Namespace, model: DiT, images: Tensor, classes: Tensor) -> Step:
    """Returns a function that runs one training step."""

    def mean_square(images: Tensor, classes: Tensor) -> Tensor:
        times, noise = torch.randint(TIMES, classes.shape), torch.randn_like(images)
        share = SHARES[times].view(-1, 1, 1, 1)
        given = torch.where(torch.rand(classes.shape) < LOST, args.classes, classes)
        noisy = share.sqrt() * images + (1 - share).sqrt() * noise
        return F.mse_loss(model(noisy, times, given), noise)

    loss = pytorch_program.compiled(args, mean_square)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0, fused=True)
    return pytorch_program.training(lambda: loss(images, classes), optimizer)


def make_sampling(args: argparse.Namespace, model: DiT, noise: Tensor, classes: Tensor) -> Step:
    """Returns a function that samples images from noise."""
    network = pytorch_program.compiled(args, model)
    both = torch.cat([classes, torch.full_like(classes, args.classes)])
    times = range(0, TIMES, TIMES // args.sampling_steps)[::-1]

    def sample() -> Tensor:
        x = noise
        for time, then in zip(times, [*times[1:], None], strict=True):
            found = network(torch.cat([x, x]), torch.full(both.shape, time), both)
            given, unknown = found.chunk(2)
            found = unknown + args.guidance * (given - unknown)
            share, after = SHARES[time], 1.0 if then is None else SHARES[then]
            image = ((x - (1 - share) ** 0.5 * found) / share**0.5).clamp(-1, 1)
            found = (x - share**0.5 * image) / (1 - share) ** 0.5
            x = after**0.5 * image + (1 - after) ** 0.5 * found
        return x

    return pytorch_program.inference(sample)


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one step."""
    images = torch.randn(args.batch_size, args.side, args.side, args.channels)
    classes = torch.randint(args.classes, [args.batch_size])
    make = make_training if args.mode == "train" else make_sampling
    return make(args, DiT(args), images, classes)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"side": 28, "channels": 1, "classes": 10, "patch": 4}
    sizes |= {"layers": 4, "width": 128, "heads": 4}
    pytorch_program.main(
        __doc__, make_step, batch_size=64, **sizes, sampling_steps=50, guidance=2.0
    )
