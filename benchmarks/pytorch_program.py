"""What the programs in PyTorch share. Sets the allocator up, so that it comes before PyTorch."""

import argparse
from collections.abc import Callable

import program

program.keep_memory()

import torch  # noqa: E402


def command_line(documentation: str | None, **sizes: int) -> argparse.ArgumentParser:
    """Returns the options of a program; see ``program.command_line``."""
    parser = program.command_line(documentation, **sizes)
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    return parser


def run(
    parser: argparse.ArgumentParser, forms: Callable[[argparse.Namespace], program.Forms]
) -> None:
    """Times the forms of a step that the command line asks for."""
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    program.measure(args, forms(args), f"PyTorch {torch.__version__}")
