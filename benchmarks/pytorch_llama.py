"""PyTorch baseline of llama, timed in the same way as Fathom's network.

Llama's network, written from the papers with PyTorch's usual modules: ``RMSNorm``,
``scaled_dot_product_attention`` with groups of queries, ``AdamW``, clipping by the global norm.
Cosines and sines of all positions are computed once. Needs only PyTorch, not Fathom. Tokens are
random, the same in every step.

    python benchmarks/pytorch_llama.py --mode train
    python benchmarks/pytorch_llama.py --mode infer --compile
"""

import argparse

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from pytorch_gpt import PHASES, Decoder, step_of
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates pairs of values i and i + d/2 of [batch, heads, time, d]."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class Block(nn.Module):
    """Attention and SwiGLU, each after a normalisation and added to its input."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        width, size = args.width, args.width // args.heads
        self.heads, self.groups = args.heads, args.kv_heads
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.qkv = nn.Linear(width, (self.heads + 2 * self.groups) * size, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.expand = nn.Linear(width, 2 * args.hidden_units, bias=False)
        self.contract = nn.Linear(args.hidden_units, width, bias=False)
        frequencies = args.rope_base ** (-torch.arange(0, size, 2) / size)
        angles = (torch.arange(args.context)[:, None] * frequencies).repeat(1, 2)
        self.cosine, self.sine = angles.cos(), angles.sin()

    def forward(
        self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None, position: int = 0
    ) -> Tensor:
        """Returns the next [batch, time, width]; writes keys and values into the cache."""
        (batch, time, width), end = x.shape, position + x.shape[1]
        parts = self.qkv(self.norm1(x)).view(batch, time, -1, width // self.heads).transpose(1, 2)
        q, k, v = parts.split([self.heads, self.groups, self.groups], 1)
        q, k = (rotate(each, self.cosine[position:end], self.sine[position:end]) for each in (q, k))
        if cache is not None:
            cache[0][:, :, position:end] = k
            cache[1][:, :, position:end] = v
        if position:
            k, v = (each[:, :, :end] for each in cache)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not position, enable_gqa=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.feed_forward(self.norm2(x))

    def feed_forward(self, x: Tensor) -> Tensor:
        """Maps normalised [batch, time, width]."""
        gates, values = self.expand(x).chunk(2, -1)
        return self.contract(F.silu(gates) * values)


class Llama(Decoder):
    """The network; its output matrix is its own."""

    Block = Block

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(self.Block(args) for _ in range(args.layers))
        self.norm = nn.RMSNorm(args.width, 1e-5)
        self.head = nn.Parameter(torch.empty(args.vocabulary, args.width))
        self.draw()

    def embed(self, tokens: Tensor, position: int) -> Tensor:
        """Returns the vectors of tokens."""
        return self.tokens(tokens)


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one step."""
    return step_of(args, Llama(args), args.kv_heads)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"context": 128, "vocabulary": 65, "width": 128, "heads": 4, "kv_heads": 2}
    sizes |= {"hidden_units": 344, "layers": 6, "rope_base": 500_000}
    pytorch_program.main(
        __doc__, make_step, batch_size=16, prompt=64, new=64, **sizes, phase=PHASES
    )
