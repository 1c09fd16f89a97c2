"""PyTorch baseline of deepq's steps, timed in the same way as Fathom's.

A learning step on a minibatch of transitions, or the Q-values of states: Mnih et al. 2015, or with
``--year 2013`` the network of that paper. deepq_loop.py times the whole loop. Needs only PyTorch.
Transitions are random, the same in every step.

    python benchmarks/pytorch_deepq.py --mode train --compile
"""

import argparse
import itertools

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

FRAMES, SIDE, DISCOUNT = 4, 84, 0.99
NETWORKS = {  # channels, kernels and strides of the convolutions; units of the dense layers
    2013: ((FRAMES, 16, 32), ((8, 4), (4, 2)), (32 * 9 * 9, 256)),
    2015: ((FRAMES, 32, 64, 64), ((8, 4), (4, 2), (3, 1)), (64 * 7 * 7, 512)),
}
LAYOUTS = {"channels_last": torch.channels_last, "channels_first": torch.contiguous_format}


class QNetwork(nn.Module):
    """Q(s, a) of all actions."""

    def __init__(self, year: int, actions: int) -> None:
        super().__init__()
        channels, windows, units = NETWORKS[year]
        layers: list[nn.Module] = []
        for sizes, window in zip(itertools.pairwise(channels), windows, strict=True):
            layers += [nn.Conv2d(*sizes, *window), nn.ReLU()]
        layers += [nn.Flatten(), nn.Linear(*units), nn.ReLU(), nn.Linear(units[1], actions)]
        self.layers = nn.Sequential(*layers)

    def forward(self, state: Tensor) -> Tensor:
        """Maps uint8 [batch, 4, 84, 84] to [batch, actions]."""
        return self.layers(state.float().div(255))


def make_step(args: argparse.Namespace, layout: torch.memory_format) -> Step:
    """Returns a function that runs one learning step, or computes Q-values."""
    online, target = (QNetwork(args.year, args.actions).to(memory_format=layout) for _ in range(2))
    size = (args.batch_size, FRAMES, SIDE, SIDE)
    states, following = (
        torch.randint(256, size, dtype=torch.uint8).contiguous(memory_format=layout)
        for _ in range(2)
    )
    action = torch.randint(args.actions, (args.batch_size, 1))
    reward = torch.randint(-1, 2, (args.batch_size,)).float()
    ends = torch.rand(args.batch_size) < 0.01
    if args.mode == "infer":
        return pytorch_program.inference(pytorch_program.compiled(args, online), states)

    def loss() -> Tensor:
        with torch.no_grad():
            y = reward + DISCOUNT * target(following).amax(1) * ~ends
        return F.smooth_l1_loss(online(states).gather(1, action)[:, 0], y, reduction="sum")

    optimizer = torch.optim.RMSprop(online.parameters(), 2.5e-4, 0.95, 0.01, centered=True)
    return pytorch_program.training(pytorch_program.compiled(args, loss), optimizer)


if __name__ == "__main__":
    pytorch_program.main(
        __doc__, make_step, lambda args: LAYOUTS, batch_size=32, actions=6, year=(2015, 2013)
    )
