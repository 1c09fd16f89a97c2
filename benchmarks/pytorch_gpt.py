"""PyTorch baseline of gpt, timed in the same way as Fathom's network.

GPT-2's network as nanoGPT has it, written from the paper with PyTorch's usual modules:
``scaled_dot_product_attention``, ``AdamW``, clipping by the global norm. Decoding has a key-value
cache, which nanoGPT lacks. Needs only PyTorch, not Fathom. Tokens are random, the same in every
step.

    python benchmarks/pytorch_gpt.py --mode train
    python benchmarks/pytorch_gpt.py --mode infer --compile
"""

import argparse
from typing import Any

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

Cache = list[tuple[Tensor, Tensor]]
PHASES = ("both", "prefill", "decode")


class Block(nn.Module):
    """Attention and perceptron, each after a normalisation and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None, position: int = 0
    ) -> Tensor:
        """Returns the next [batch, time, width]; writes keys and values into the cache."""
        batch, time, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, 2)
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        if cache is not None:
            cache[0][:, :, position : position + time] = k
            cache[1][:, :, position : position + time] = v
        if position:
            k, v = (each[:, :, : position + time] for each in cache)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not position)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, time, width))
        hidden = F.gelu(self.expand(self.norm2(x)), approximate="tanh")
        return x + self.contract(hidden)


class Decoder(nn.Module):
    """A language model of ``embed``, ``blocks``, ``norm`` and the matrix ``head`` of the logits."""

    def draw(self) -> None:
        """Draws the initial matrices."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens: Tensor, cache: Cache | None = None, position: int = 0) -> Tensor:
        """Returns what tokens are predicted from, [batch, time, width]."""
        x = self.embed(tokens, position)
        for i, block in enumerate(self.blocks):
            x = block(x, cache[i] if cache else None, position)
        return self.norm(x)

    def loss(self, tokens: Tensor, following: Tensor) -> Tensor:
        """Returns the mean cross entropy."""
        logits = F.linear(self(tokens), self.head)
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())

    def next(self, tokens: Tensor, cache: Cache, position: int) -> Tensor:
        """Returns the most probable tokens after the last ones, [batch, 1]."""
        last = self(tokens, cache, position)[:, -1]
        return F.linear(last, self.head).argmax(1, keepdim=True)


class GPT(Decoder):
    """The network; its output matrix is that of its embedding."""

    def __init__(self, words: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), self.tokens.weight
        self.draw()

    def embed(self, tokens: Tensor, position: int) -> Tensor:
        """Returns the sum of tokens' and positions' vectors."""
        return self.tokens(tokens) + self.positions(
            torch.arange(position, position + tokens.shape[1])
        )


def make_training(args: argparse.Namespace, model: Decoder) -> Step:
    """Returns a function that runs one training step."""
    tokens = torch.randint(args.vocabulary, [2, args.batch_size, args.context])
    loss = pytorch_program.compiled(args, model.loss)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, 1e-3, (0.9, 0.99), fused=True)
    return pytorch_program.training(lambda: loss(*tokens), optimizer, clip=1.0)


def phase_of(args: argparse.Namespace, prefill: Step, decode: Step) -> Step:
    """Returns a function that runs the chosen phases, after a prefill."""

    def both() -> None:
        prefill()
        decode()

    inference = torch.inference_mode()
    inference(prefill)()
    return inference({"both": both, "prefill": prefill, "decode": decode}[args.phase])


def make_generation(args: argparse.Namespace, model: Decoder, kv_heads: int) -> Step:
    """Returns a function that runs the chosen phases, from a cache of some heads."""
    prompts = torch.randint(args.vocabulary, [args.batch_size, args.prompt])
    shape = args.batch_size, kv_heads, args.prompt + args.new - 1, args.width // args.heads
    step = torch.compile(model.next, dynamic=True) if args.compile else model.next
    state: list[Any] = []

    def prefill() -> None:
        cache = [(torch.zeros(shape), torch.zeros(shape)) for _ in model.blocks]
        state[:] = model.next(prompts, cache, 0), cache

    def decode() -> None:
        tokens, cache = state
        for position in range(args.prompt, args.prompt + args.new - 1):
            tokens = step(tokens, cache, position)

    return phase_of(args, prefill, decode)


def step_of(args: argparse.Namespace, model: Decoder, kv_heads: int) -> Step:
    """Returns a function that runs one step of a model."""
    if args.mode == "train":
        return make_training(args, model)
    return make_generation(args, model, kv_heads)


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one step."""
    model = GPT(args.vocabulary, args.context, args.width, args.heads, args.layers)
    return step_of(args, model, args.heads)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"context": 64, "vocabulary": 65, "width": 128, "heads": 4, "layers": 4}
    pytorch_program.main(
        __doc__, make_step, batch_size=12, prompt=32, new=32, **sizes, phase=PHASES
    )
