"""PyTorch baseline of speech: Deep Speech, timed in the same way as Fathom's network.

The network of Hannun et al. 2014, as in ``fathom/speech/model.py``, with PyTorch's usual modules:
dense layers over all frames, the recurrence step by step, ``ctc_loss``, Nesterov momentum. Needs
only PyTorch. Inputs are random tensors, the same in every step.

    python benchmarks/pytorch_speech.py --mode train --batch-size 16 --frames 300
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

from pytorch_networks import gemm_gflops  # first: it sets up the allocator
from timing import record_of

import torch  # isort: skip
from torch import Tensor, nn  # isort: skip
from torch.nn import functional as F  # isort: skip # noqa: N812

INPUTS, OUTPUTS, PHONES, CLIP = 19 * 26, 62, 40, 20.0


class DeepSpeech(nn.Module):
    """Three dense layers, a bidirectional recurrent one whose directions are summed, and two more.

    Args:
        units: of each hidden layer.
        dropout: rate after the feed-forward layers.
    """

    def __init__(self, units: int, dropout: float = 0.05) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.Linear(n, units) for n in (INPUTS, units, units))
        self.recurrent_input = nn.Linear(units, units)
        self.forward_kernel, self.backward_kernel = (
            nn.Parameter(torch.randn(units, units) / units**0.5) for _ in range(2)
        )
        self.after, self.logits = nn.Linear(units, units), nn.Linear(units, OUTPUTS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Maps windows [frames, batch, 494] to logits [frames, batch, 62]."""
        for layer in self.before:
            x = self.dropout(F.hardtanh(layer(x), 0.0, CLIP))
        inputs = self.recurrent_input(x).unbind(0)
        forward = through_time(inputs, self.forward_kernel)
        backward = through_time(inputs[::-1], self.backward_kernel).flip(0)
        x = self.dropout(F.hardtanh(self.after(forward + backward), 0.0, CLIP))
        return self.logits(x)


def through_time(inputs: tuple[Tensor, ...], kernel: Tensor) -> Tensor:
    """Returns the states of one direction, [frames, batch, units]."""
    state, states = torch.zeros_like(inputs[0]), []
    for frame in inputs:
        state = F.hardtanh(torch.addmm(frame, state, kernel), 0.0, CLIP)
        states.append(state)
    return torch.stack(states)


def make_step(args: argparse.Namespace) -> tuple[Callable[[], object], int]:
    """Returns a function that runs one step, and the number of the network's parameters."""
    torch.manual_seed(0)
    model = DeepSpeech(args.units).train(args.mode == "train")
    count = sum(parameter.numel() for parameter in model.parameters())
    inputs = torch.randn(args.frames, args.batch_size, INPUTS)
    phones = torch.randint(OUTPUTS - 1, (args.batch_size, PHONES))
    frames, counts = (torch.full((args.batch_size,), n) for n in (args.frames, PHONES))

    def loss() -> Tensor:
        probabilities = model(inputs).log_softmax(2)
        total = F.ctc_loss(probabilities, phones, frames, counts, OUTPUTS - 1, reduction="sum")
        return total / args.batch_size

    if args.mode == "infer":
        infer = torch.compile(model) if args.compile else model
        return torch.inference_mode()(lambda: infer(inputs)), count
    loss = torch.compile(loss) if args.compile else loss
    optimizer = torch.optim.SGD(model.parameters(), 1e-5, 0.99, nesterov=True, fused=True)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        optimizer.step()

    return train, count


def main() -> None:
    """Measures the network and prints one line of results."""
    parser = argparse.ArgumentParser(description="Time Deep Speech, written in PyTorch.")
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--units", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5, help="steps timed (default: 5)")
    parser.add_argument("--warmup", type=int, default=1, help="steps before (default: 1)")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    step, parameters = make_step(args)
    peak = gemm_gflops()
    record = record_of(step, args.steps, args.warmup)
    peak = max(peak, gemm_gflops())
    median = statistics.median(record["step_seconds"])
    processor = statistics.median(record["processor_seconds"])
    macs = args.units * (INPUTS + 6 * args.units + OUTPUTS) * args.frames * args.batch_size
    achieved = 2 * macs * (3 if args.mode == "train" else 1) / median / 1e9
    print(
        f"speech {args.mode}, batch {args.batch_size}, {args.frames} frames, "
        f"{args.threads} thread(s): {1e3 * median:,.0f} ms a step, "
        f"{1e3 * processor:,.0f} ms of processor time; {achieved:.1f} of {peak:.1f} GFLOP/s = "
        f"{achieved / peak:.2f}; {parameters:,} parameters"
    )
    if args.json:
        rates = {"achieved_gflops": achieved, "fraction": achieved / peak, "gemm_gflops": peak}
        record |= rates | {"median_s": median}
        args.json.write_text(json.dumps(record | {"torch": torch.__version__}, indent=2) + "\n")


if __name__ == "__main__":
    main()
