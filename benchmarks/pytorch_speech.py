"""PyTorch baseline of speech: Deep Speech, timed in the same way as Fathom's network.

The network of Hannun et al. 2014, as in ``fathom/speech/model.py``, with PyTorch's usual modules:
dense layers over all frames, the recurrence step by step, ``ctc_loss``, Nesterov momentum. Needs
only PyTorch. Inputs are random tensors, the same in every step.

    python benchmarks/pytorch_speech.py --mode train --batch-size 16 --frames 300
"""

import argparse

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

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


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one step."""
    model = DeepSpeech(args.units).train(args.mode == "train")
    inputs = torch.randn(args.frames, args.batch_size, INPUTS)
    phones = torch.randint(OUTPUTS - 1, (args.batch_size, PHONES))
    frames, counts = (torch.full((args.batch_size,), n) for n in (args.frames, PHONES))

    def loss() -> Tensor:
        probabilities = model(inputs).log_softmax(2)
        total = F.ctc_loss(probabilities, phones, frames, counts, OUTPUTS - 1, reduction="sum")
        return total / args.batch_size

    if args.mode == "infer":
        return pytorch_program.inference(pytorch_program.compiled(args, model), inputs)
    optimizer = torch.optim.SGD(model.parameters(), 1e-5, 0.99, nesterov=True, fused=True)
    return pytorch_program.training(pytorch_program.compiled(args, loss), optimizer, clip=100.0)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    pytorch_program.main(__doc__, make_step, batch_size=16, frames=300, units=2048)
