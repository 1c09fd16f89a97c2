"""PyTorch baseline of grpo, timed in the same way as Fathom's policy.

Llama's network of ``pytorch_llama.py``. A training step is one update by sampled answers: the
clipped ratio of each token's probability times the answer's advantage, less the estimated
divergence from the reference, AdamW, clipping by the global norm; the probabilities by the policy
that has sampled and by the reference are held. Inference is a rollout: prefill and decoding from
the cache. Needs only PyTorch, not Fathom.

    python benchmarks/pytorch_grpo.py --mode train
    python benchmarks/pytorch_grpo.py --mode infer --compile
"""

import argparse

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from pytorch_gpt import PHASES, step_of
from pytorch_llama import Llama
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

CLIP, PENALTY = 0.2, 0.04


class Policy(Llama):
    """The network, with random advantages and log-probabilities of others' tokens."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        shape = args.batch_size, args.context
        self.advantages = torch.randn(args.batch_size, 1)
        self.old, self.reference = (-torch.rand(shape) for _ in range(2))
        self.counted = torch.zeros(shape)
        self.counted[:, args.prompt - 1 : -1] = 1

    def loss(self, tokens: Tensor, following: Tensor) -> Tensor:
        """Returns the objective with its sign changed."""
        logits = F.linear(self(tokens), self.head)
        entropy = F.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none")
        new = -entropy.view_as(self.old)
        ratio, difference = (new - self.old).exp(), self.reference - new
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        gain = torch.minimum(ratio * self.advantages, clipped * self.advantages)
        values = gain - PENALTY * (difference.exp() - difference - 1)
        return -((values * self.counted).sum(1) / self.counted.sum(1)).mean()


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one step."""
    return step_of(args, Policy(args), args.kv_heads)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"context": 10, "vocabulary": 13, "width": 64, "heads": 4, "kv_heads": 2}
    sizes |= {"hidden_units": 172, "layers": 2, "rope_base": 10_000}
    pytorch_program.main(__doc__, make_step, batch_size=128, prompt=6, new=4, **sizes, phase=PHASES)
