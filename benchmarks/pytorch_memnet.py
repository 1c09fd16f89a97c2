"""PyTorch baseline of memnet, timed in the same way as Fathom's memory network.

The network of Sukhbaatar et al. 2015 with adjacent tying, as in ``fathom/memnet/model.py``, in two
forms: one embedding lookup per matrix, or a single lookup in all matrices concatenated. Both are
timed, and the faster one counts. Needs only PyTorch. Stories are random words, the same in every
step.

    python benchmarks/pytorch_memnet.py --mode train --compile
"""

import argparse
import functools
import itertools

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

DIMENSIONS, RATE, CLIP = 20, 0.01, 40.0
FORMS = {"a lookup a matrix": False, "one lookup for all matrices": True}


class MemoryNetwork(nn.Module):
    """Embedded sentences, hops of attention over them, an answer.

    Args:
        vocabulary: words, the null word included.
        memory: sentences of a story.
        words: of a sentence.
        hops: K.
        together: look words up in all matrices at once.
    """

    def __init__(self, vocabulary: int, memory: int, words: int, hops: int, together: bool) -> None:
        super().__init__()

        def normal(rows: int) -> nn.Parameter:
            return nn.Parameter(0.1 * torch.randn(rows, DIMENSIONS))

        self.matrices = nn.ParameterList(normal(vocabulary) for _ in range(hops + 1))
        self.times = nn.ParameterList(normal(memory) for _ in range(hops + 1))
        with torch.no_grad():
            for matrix in self.matrices:
                matrix[0] = 0  # the null word; with padding_idx its gradient is zero
        j = torch.arange(1, words + 1)[:, None] / words
        k = torch.arange(1, DIMENSIONS + 1)[None, :] / DIMENSIONS
        self.register_buffer("position_weights", 2 * ((1 - j) - k * (1 - 2 * j)))
        self._together = together

    def forward(self, story: Tensor, question: Tensor) -> Tensor:
        """Maps [batch, memory, words] and [batch, words] to logits [batch, vocabulary]."""
        memories = self._remember(story)
        u = self._embed(question, self.matrices[0], self.position_weights)
        for memory, output in itertools.pairwise(memories):
            p = torch.softmax((memory @ u[..., None])[..., 0], -1)
            u = u + (p[:, None] @ output)[:, 0]
        return u @ self.matrices[-1].T

    def _remember(self, story: Tensor) -> list[Tensor]:
        is_filled = (story > 0).any(-1, keepdim=True).float()
        if self._together:
            weights = self.position_weights.repeat(1, len(self.matrices))
            embedded = self._embed(story, torch.cat(list(self.matrices), 1), weights)
            in_time = embedded + is_filled * torch.cat(list(self.times), 1)
            return list(in_time.split(DIMENSIONS, 2))
        pairs = zip(self.matrices, self.times, strict=True)
        return [self._embed(story, m, self.position_weights) + is_filled * t for m, t in pairs]

    def _embed(self, sentences: Tensor, matrix: Tensor, weights: Tensor) -> Tensor:
        return (F.embedding(sentences, matrix, padding_idx=0) * weights).sum(-2)


def make_step(args: argparse.Namespace, together: bool) -> Step:
    """Returns a function that runs one step on random stories."""
    size = (args.batch_size, args.memory, args.words)
    story = torch.randint(1, args.vocabulary, size)
    question = torch.randint(1, args.vocabulary, (args.batch_size, args.words))
    answer = torch.randint(1, args.vocabulary, (args.batch_size,))
    network = MemoryNetwork(args.vocabulary, args.memory, args.words, args.hops, together)
    compiled = functools.partial(pytorch_program.compiled, args)
    if args.mode == "infer":
        return pytorch_program.inference(compiled(network), story, question)
    parameters = list(network.parameters())
    loss = compiled(lambda s, q, a: F.cross_entropy(network(s, q), a, reduction="sum"))

    def clip_and_descend(gradients: list[Tensor]) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(RATE * torch.clamp(CLIP / gradient.norm(), max=1.0) * gradient)

    update = torch.no_grad()(compiled(clip_and_descend))

    def step() -> None:
        loss(story, question, answer).backward()
        update([parameter.grad for parameter in parameters])
        for parameter in parameters:
            parameter.grad = None

    return step


if __name__ == "__main__":
    sizes = {"batch_size": 32, "vocabulary": 40, "memory": 50, "words": 7, "hops": 3}
    pytorch_program.main(__doc__, make_step, lambda args: FORMS, **sizes)
