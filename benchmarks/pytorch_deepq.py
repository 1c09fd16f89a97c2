"""PyTorch baseline of deepq's steps, timed in the same way as Fathom's.

A learning step on a minibatch of transitions, or the Q-values of states: Mnih et al. 2015, or with
``--year 2013`` the network of that paper. deepq_loop.py times the whole loop. Needs only PyTorch.
Transitions are random, the same in every step.

    python benchmarks/pytorch_deepq.py --mode train --compile
"""

import argparse
import functools
import itertools

import pytorch_program  # first: it sets up the allocator
from program import Forms, Step

import torch  # isort: skip
from torch import Tensor, nn  # isort: skip
from torch.nn import functional as F  # isort: skip # noqa: N812

FRAMES, SIDE, DISCOUNT = 4, 84, 0.99
NETWORKS = {  # channels, kernels and strides of the convolutions; units of the dense layers
    2013: ((FRAMES, 16, 32), ((8, 4), (4, 2)), (32 * 9 * 9, 256)),
    2015: ((FRAMES, 32, 64, 64), ((8, 4), (4, 2), (3, 1)), (64 * 7 * 7, 512)),
}


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
        infer = torch.compile(online) if args.compile else online
        return torch.inference_mode()(lambda: infer(states))

    def loss() -> Tensor:
        with torch.no_grad():
            y = reward + DISCOUNT * target(following).amax(1) * ~ends
        return F.smooth_l1_loss(online(states).gather(1, action)[:, 0], y, reduction="sum")

    loss = torch.compile(loss) if args.compile else loss
    optimizer = torch.optim.RMSprop(online.parameters(), 2.5e-4, 0.95, 0.01, centered=True)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return train


def forms(args: argparse.Namespace) -> Forms:
    """Returns the step in each memory layout."""
    layouts = {
        "channels_last": torch.channels_last,
        "channels_first": torch.contiguous_format,
    }
    return {name: functools.partial(make_step, args, layout) for name, layout in layouts.items()}


def main() -> None:
    """Times the step."""
    parser = pytorch_program.command_line(__doc__, batch_size=32, actions=6)
    parser.add_argument("--year", type=int, choices=NETWORKS, default=2015, help="default: 2015")
    pytorch_program.run(parser, forms)


if __name__ == "__main__":
    main()
