"""PyTorch baseline of transformer, timed in the same way as Fathom's network.

``torch.nn.Transformer``, with one matrix for both embeddings and the softmax. Inference reads given
target words, or decodes greedily with a cache of keys and values, which ``torch.nn.Transformer``
lacks: the decoder's layers are applied by their weights. Needs only PyTorch, not Fathom. Words are
random, the same in every step.

    python benchmarks/pytorch_transformer.py --mode train --length 20
"""

import argparse
import math

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Translator(nn.Module):
    """The transformer of Vaswani et al. 2017, post-norm."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.width, self.heads = args.width, args.heads
        self.embedding = nn.Embedding(args.vocabulary, args.width)
        options = {"dropout": args.dropout, "batch_first": True}
        sizes = (args.width, args.heads, args.hidden_units)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, **options), args.layers, enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(*sizes, **options), args.layers
        )
        self.dropout = nn.Dropout(args.dropout)
        self.register_buffer("places", torch.randn(1, 512, args.width))

    def embed(self, words: Tensor, first: int = 0) -> Tensor:
        """Embeds words [batch, time]."""
        places = self.places[:, first : first + words.shape[1]]
        return self.dropout(self.embedding(words) * math.sqrt(self.width) + places)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the logits of the words after each of the target's, [batch * time, words]."""
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        encoded = self.encoder(self.embed(source))
        states = self.decoder(self.embed(target), encoded, tgt_mask=future, tgt_is_causal=True)
        return states.flatten(0, 1) @ self.embedding.weight.T

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the cross-entropy with label smoothing."""
        return F.cross_entropy(self.logits(source, target), target.flatten(), label_smoothing=0.1)

    def most_probable(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the most probable words after each of the target's, [batch * time]."""
        return self.logits(source, target).argmax(1)

    def split(self, x: Tensor) -> Tensor:
        """Returns [batch, time, width] as [batch, heads, time, width / heads]."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def attend(
        self, layer: nn.MultiheadAttention, x: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """Attends with the queries of x to given keys and values."""
        queries = self.split(F.linear(x, *self.part(layer, 0, 1)))
        found = F.scaled_dot_product_attention(queries, keys, values)
        return layer.out_proj(found.transpose(1, 2).flatten(2))

    def part(self, layer: nn.MultiheadAttention, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Returns weights and biases of some of queries, keys and values."""
        rows = slice(first * self.width, last * self.width)
        return layer.in_proj_weight[rows], layer.in_proj_bias[rows]

    def keys_and_values(self, layer: nn.MultiheadAttention, x: Tensor) -> list[Tensor]:
        """Returns keys and values of x."""
        return [self.split(y) for y in F.linear(x, *self.part(layer, 1, 3)).chunk(2, 2)]

    def greedy(self, source: Tensor, longest: int) -> Tensor:
        """Translates by the most probable words: [batch, longest]."""
        encoded = self.encoder(self.embed(source))
        layers = self.decoder.layers
        across = [self.keys_and_values(layer.multihead_attn, encoded) for layer in layers]
        size = (len(source), self.heads, longest, self.width // self.heads)
        caches = [[torch.zeros(size), torch.zeros(size)] for _ in layers]
        words, translated = torch.ones(len(source), 1, dtype=torch.long), []
        for position in range(longest):
            words = self.next(words, position, caches, across)
            translated.append(words)
        return torch.cat(translated, 1)

    def next(self, words: Tensor, position: int, caches: list, across: list) -> Tensor:
        """Returns the most probable words after those at a position, [batch, 1]."""
        x = self.embed(words, position)
        for layer, cache, memory in zip(self.decoder.layers, caches, across, strict=True):
            new = self.keys_and_values(layer.self_attn, x)
            for kept, one in zip(cache, new, strict=True):
                kept[:, :, position : position + 1] = one
            seen = [kept[:, :, : position + 1] for kept in cache]
            x = layer.norm1(x + self.attend(layer.self_attn, x, *seen))
            x = layer.norm2(x + self.attend(layer.multihead_attn, x, *memory))
            x = layer.norm3(x + layer.linear2(F.relu(layer.linear1(x))))
        return (x[:, 0] @ self.embedding.weight.T).argmax(1, keepdim=True)


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one training step or decodes one batch."""
    model = Translator(args)
    shape = [args.batch_size, args.length]
    source, target = (torch.randint(4, args.vocabulary, shape) for _ in range(2))
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16")
    if args.mode == "infer":
        model.eval()
        if args.compile:
            model.next = torch.compile(model.next, dynamic=True)
        if args.words:
            return pytorch_program.inference(autocast(model.greedy), source, args.words)
        read = pytorch_program.compiled(args, model.most_probable)
        return pytorch_program.inference(autocast(read), source, target)
    loss = autocast(pytorch_program.compiled(args, model.loss))
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), fused=True)
    return pytorch_program.training(lambda: loss(source, target), optimizer)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"vocabulary": 8_000, "width": 128, "heads": 4, "hidden_units": 256, "layers": 4}
    sizes |= {"batch_size": 256, "length": 16, "words": 0}
    precisions = ("float32", "bfloat16")
    pytorch_program.main(__doc__, make_step, **sizes, precision=precisions, dropout=0.3)
