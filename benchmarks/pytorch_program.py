"""What the programs in PyTorch share. Sets the allocator up, so that it comes before PyTorch."""

import argparse
from collections.abc import Callable
from typing import Any

import program

program.keep_memory()

import torch  # noqa: E402


def main(
    documentation: str | None,
    make_step: Callable[..., program.Step],
    forms: program.Forms | None = None,
    **own: Any,
) -> None:
    """Times the forms of a step that the command line asks for; see ``program``."""
    parser = program.command_line(documentation, **own)
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    program.measure(args, f"PyTorch {torch.__version__}", make_step, forms)


def compiled(args: argparse.Namespace, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, by torch.compile if the command line asks for it."""
    return torch.compile(function) if args.compile else function


def inference(function: Callable[..., Any], *arguments: Any) -> program.Step:
    """Returns a function that computes another of the same arguments each time."""
    return torch.inference_mode()(lambda: function(*arguments))


def training(
    loss: Callable[[], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    clip: float | None = None,
) -> program.Step:
    """Returns a function that runs one training step.

    Args:
        loss: of the held batch.
        optimizer: of the parameters.
        clip: limit of the gradients' global norm.
    """
    parameters = [each for group in optimizer.param_groups for each in group["params"]]

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()

    return step
