"""PyTorch baseline of seq2seq, timed in the same way as Fathom's network.

Written from the papers with PyTorch's usual modules: ``nn.LSTM`` encodes, ``nn.LSTMCell`` decodes,
and gradients of embeddings are sparse. Needs only PyTorch, not Fathom. Words are random, the same
in every step.

    python benchmarks/pytorch_seq2seq.py --mode train --source 20 --target 25
"""

import argparse

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Translator(nn.Module):
    """An LSTM encoder, and an LSTM decoder with additive attention and input feeding."""

    def __init__(self, vocabulary: int, units: int, layers: int, samples: int) -> None:
        super().__init__()
        self.samples = samples
        self.source_embedding = nn.Embedding(vocabulary, units, sparse=True)
        self.encoder = nn.LSTM(units, units, layers)
        self.target_embedding = nn.Embedding(vocabulary, units, sparse=True)
        inputs = [2 * units] + [units] * (layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(size, units) for size in inputs)
        self.query = nn.Linear(units, units, bias=False)
        self.key = nn.Linear(units, units, bias=False)
        self.score = nn.Linear(units, 1, bias=False)
        self.combination = nn.Linear(2 * units, units, bias=False)
        self.softmax = nn.Embedding(vocabulary, units, sparse=True)
        self.softmax_bias = nn.Parameter(torch.zeros(vocabulary))

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, list, Tensor]:
        """Encodes vectors [batch, source, units]: states, keys, layers' states, a first output."""
        states, (hidden, memory) = self.encoder(source.transpose(0, 1))
        states = states.transpose(0, 1).contiguous()
        first = list(zip(hidden.unbind(), memory.unbind(), strict=True))
        return states, self.key(states), first, torch.zeros_like(hidden[0])

    def step(
        self, word: Tensor, output: Tensor, layers: list, states: Tensor, keys: Tensor
    ) -> tuple[Tensor, list]:
        """Takes one step of the decoder."""
        read, new = torch.cat([word, output], 1), []
        for cell, state in zip(self.cells, layers, strict=True):
            new.append(cell(read, state))
            read = new[-1][0]
        scores = self.score(torch.tanh(keys + self.query(read)[:, None]))
        context = torch.bmm(torch.softmax(scores, 1).transpose(1, 2), states)[:, 0]
        return torch.tanh(self.combination(torch.cat([context, read], 1))), new

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the outputs after each of the target's vectors: [batch, target, units]."""
        states, keys, layers, output = self.encode(source)
        outputs = []
        for word in target.unbind(1):
            output, layers = self.step(word, output, layers, states, keys)
            outputs.append(output)
        return torch.stack(outputs, 1)

    def loss(self, source: Tensor, target: Tensor, words: Tensor) -> Tensor:
        """Returns the mean cross entropy of a softmax over the words and a sample."""
        words = words.flatten()
        drawn = torch.randint(self.softmax.num_embeddings, [self.samples])
        return self.sampled_loss(
            self.source_embedding(source.flip(1)),
            self.target_embedding(target),
            (words, self.softmax(words)),
            (drawn, self.softmax(drawn)),
        )

    def sampled_loss(
        self,
        source: Tensor,
        target: Tensor,
        words: tuple[Tensor, Tensor],
        drawn: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Returns the loss, given all vectors that are looked up."""
        outputs = self(source, target).flatten(0, 1)
        right = (outputs * words[1]).sum(1) + self.softmax_bias[words[0]]
        others = outputs @ drawn[1].T + self.softmax_bias[drawn[0]]
        others = others.masked_fill(words[0][:, None] == drawn[0], -1e9)
        return (torch.logsumexp(torch.cat([right[:, None], others], 1), 1) - right).mean()

    def next(
        self, words: Tensor, output: Tensor, layers: list, states: Tensor, keys: Tensor
    ) -> tuple[Tensor, Tensor, list]:
        """Returns the most probable words after others, [batch], and the decoder's state."""
        output, layers = self.step(self.target_embedding(words), output, layers, states, keys)
        logits = F.linear(output, self.softmax.weight, self.softmax_bias)
        return logits.argmax(1), output, layers

    def greedy(self, source: Tensor, longest: int) -> Tensor:
        """Translates by the most probable words: [batch, longest]."""
        states, keys, layers, output = self.encode(self.source_embedding(source.flip(1)))
        words = torch.ones(len(source), dtype=torch.long)
        translation = []
        for _ in range(longest):
            words, output, layers = self.next(words, output, layers, states, keys)
            translation.append(words)
        return torch.stack(translation, 1)


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one training step or decodes one batch."""
    model = Translator(args.vocabulary, args.units, args.layers, args.samples)
    source = torch.randint(4, args.vocabulary, [args.batch_size, args.source])
    target = torch.randint(4, args.vocabulary, [args.batch_size, args.target])
    # torch.compile has no sparse gradients: the look-ups stay outside
    model.sampled_loss = pytorch_program.compiled(args, model.sampled_loss)
    model.next = pytorch_program.compiled(args, model.next)
    if args.mode == "infer":
        return pytorch_program.inference(model.greedy, source, args.target)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, 0.5)

    def train() -> None:
        optimizer.zero_grad()
        model.loss(source, target, target).backward()
        norms = [
            p.grad.coalesce().values().norm() if p.grad.is_sparse else p.grad.norm()
            for p in parameters
        ]
        scale = torch.clamp(5 / torch.stack(norms).norm(), max=1.0)
        for parameter in parameters:
            parameter.grad.mul_(scale)
        optimizer.step()

    return train


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"vocabulary": 40_000, "units": 256, "layers": 3, "samples": 512}
    pytorch_program.main(__doc__, make_step, batch_size=64, source=20, target=25, **sizes)
