"""PyTorch baseline of gpt, timed in the same way as Fathom's network.

GPT-2's network as nanoGPT has it, written from the paper with PyTorch's usual modules:
``scaled_dot_product_attention``, ``AdamW``, clipping by the global norm. Decoding has a key-value
cache, which nanoGPT lacks. Needs only PyTorch, not Fathom. Tokens are random, the same in every
step.

    python benchmarks/pytorch_gpt.py --mode train
    python benchmarks/pytorch_gpt.py --mode infer --compile
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytorch_networks import keep_memory
from timing import record_of

keep_memory()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

Cache = list[tuple[Tensor, Tensor]]


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


class GPT(nn.Module):
    """The network; its output matrix is that of its embedding."""

    def __init__(self, words: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens: Tensor, cache: Cache | None = None, position: int = 0) -> Tensor:
        """Returns what tokens are predicted from, [batch, time, width]."""
        places = torch.arange(position, position + tokens.shape[1])
        x = self.tokens(tokens) + self.positions(places)
        for i, block in enumerate(self.blocks):
            x = block(x, cache[i] if cache else None, position)
        return self.norm(x)

    def loss(self, tokens: Tensor, following: Tensor) -> Tensor:
        """Returns the mean cross entropy."""
        logits = F.linear(self(tokens), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())

    def next(self, tokens: Tensor, cache: Cache, position: int) -> Tensor:
        """Returns the most probable tokens after the last ones, [batch, 1]."""
        last = self(tokens, cache, position)[:, -1]
        return F.linear(last, self.tokens.weight).argmax(1, keepdim=True)


def make_training(args: argparse.Namespace, model: GPT) -> Callable[[], object]:
    """Returns a function that runs one training step."""
    tokens = torch.randint(args.vocabulary, [2, args.batch_size, args.context])
    loss = torch.compile(model.loss) if args.compile else model.loss
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, 1e-3, (0.9, 0.99), fused=True)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(*tokens).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return train


def time_generation(args: argparse.Namespace, model: GPT) -> dict[str, list[float]]:
    """Returns the times of a step of the chosen phases."""
    prompts = torch.randint(args.vocabulary, [args.batch_size, args.prompt])
    shape = args.batch_size, args.heads, args.prompt + args.new - 1, args.width // args.heads
    step = torch.compile(model.next, dynamic=True) if args.compile else model.next
    state: list[Any] = []

    def prefill() -> None:
        cache = [(torch.zeros(shape), torch.zeros(shape)) for _ in model.blocks]
        state[:] = model.next(prompts, cache, 0), cache

    def decode() -> None:
        tokens, cache = state
        for position in range(args.prompt, args.prompt + args.new - 1):
            tokens = step(tokens, cache, position)

    def both() -> None:
        prefill()
        decode()

    with torch.inference_mode():
        prefill()
        phase = {"both": both, "prefill": prefill, "decode": decode}[args.phase]
        return record_of(phase, args.steps, args.warmup)


def main() -> None:
    """Times the network and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--phase", choices=("both", "prefill", "decode"), default="both")
    for name, default in (
        *(("batch-size", 12), ("context", 64), ("vocabulary", 65), ("width", 128)),
        *(("heads", 4), ("layers", 4), ("prompt", 32), ("new", 32)),
        *(("threads", 1), ("steps", 20), ("warmup", 5)),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = GPT(args.vocabulary, args.context, args.width, args.heads, args.layers)
    if args.mode == "train":
        record = record_of(make_training(args, model), args.steps, args.warmup)
    else:
        record = time_generation(args, model)
    median = statistics.median(record["step_seconds"])
    print(
        f"gpt {args.mode}, {'compiled' if args.compile else 'eager'}, batch {args.batch_size}, "
        f"{args.threads} thread(s): {1e3 * median:.2f} ms a step, "
        f"{1e3 * statistics.median(record['processor_seconds']):.2f} ms of processor time"
    )
    if args.json:
        args.json.write_text(
            json.dumps(record | {"median_s": median, "torch": torch.__version__}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
