"""PyTorch baselines of four networks, timed in the same way as Fathom's.

Written from the papers, with each framework's usual tuning: the better of two memory layouts, fused
optimizers, an allocator that keeps its memory. Needs only PyTorch, not Fathom, so it can run in a
separate environment. Inputs are random tensors, the same in every step.

    python benchmarks/pytorch_networks.py --workload alexnet --mode train --batch-size 32
"""

import argparse
import ctypes
import json
import platform
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from timing import record_of, timed


def keep_memory() -> None:
    """Lets glibc keep freed blocks: giving them back costs a page fault a page in every step.

    Must run before PyTorch is imported.
    """
    if platform.system() != "Linux":
        return
    mallopt = ctypes.CDLL(None).mallopt
    m_trim_threshold, m_mmap_max, m_arena_max = -1, -4, -8  # glibc's <malloc.h>
    mallopt(m_trim_threshold, -1)  # never shrink the heap
    mallopt(m_mmap_max, 0)  # large blocks from the heap too
    mallopt(m_arena_max, 1)


keep_memory()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

GEMM_SIZE = 2048
TRAINING_COST = 3  # a training step counts as three forward passes: forward, and two products back


class ResponseNorm(nn.Module):
    """Local response normalization (Krizhevsky et al. 2012, section 3.3): n=5, k=2, alpha=1e-4."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes [batch, channels, height, width] across channels."""
        squares = F.pad(x * x, (0, 0, 0, 0, 2, 2))
        channels = x.shape[1]
        window = (squares[:, i : i + channels] for i in range(1, 5))
        sums = sum(window, start=squares[:, :channels])
        root = torch.rsqrt(2 + 1e-4 * sums)
        return x * (root * torch.sqrt(root))  # to the power of -3/4


def alexnet() -> nn.Module:
    """Builds the two-tower network of Krizhevsky et al. 2012 for 227 x 227 images."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, stride=4),
        nn.ReLU(inplace=True),
        ResponseNorm(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2),
        nn.ReLU(inplace=True),
        ResponseNorm(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 384, 3, padding=1, groups=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1, groups=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2),
        *classifier(256 * 6 * 6),
    )


def vgg() -> nn.Module:
    """Builds configuration E of Simonyan & Zisserman 2014 (VGG-19)."""
    layers: list[nn.Module] = []
    channels = 3
    for filters, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *classifier(512 * 7 * 7))


def classifier(features: int) -> list[nn.Module]:
    """Returns the three dense layers that AlexNet and VGG end with."""
    return [
        nn.Flatten(),
        nn.Linear(features, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(4096, 1000),
    ]


class Block(nn.Module):
    """The basic block of He et al. 2015: two 3 x 3 convolutions, and a shortcut around them."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut: nn.Module = nn.Identity()
        if channels != filters:
            projection = nn.Conv2d(channels, filters, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(filters))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [batch, channels, h, w] to [batch, filters, h / stride, w / stride]."""
        hidden = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(hidden)) + self.shortcut(x), inplace=True)


def residual() -> nn.Module:
    """Builds ResNet-34 with projection shortcuts (He et al. 2015, option B)."""
    layers = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels = 64
    for filters, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(depth):
            stride = 2 if i == 0 and filters != 64 else 1
            layers.append(Block(channels, filters, stride))
            channels = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Autoencoder(nn.Module):
    """The variational autoencoder of Kingma & Welling 2013: 784 - 500 - 20 - 500 - 784."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 500), nn.Tanh())
        self.mean, self.log_variance = nn.Linear(500, 20), nn.Linear(500, 20)
        self.decoder = nn.Sequential(nn.Linear(20, 500), nn.Tanh(), nn.Linear(500, 784))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Maps pixels [batch, 784] to logits [batch, 784], mean and log-variance [batch, 20]."""
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(latent), mean, log_variance


def negative_elbo(outputs: tuple[Tensor, Tensor, Tensor], pixels: Tensor) -> Tensor:
    """Returns the mean over images of the negative evidence lower bound, in nats."""
    logits, mean, log_variance = outputs
    reconstruction = F.binary_cross_entropy_with_logits(logits, pixels, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean**2 - torch.exp(log_variance))
    return (reconstruction + divergence) / len(pixels)


@dataclass(frozen=True)
class Workload:
    """A network and how it is trained.

    Attributes:
        build: makes the network.
        input_shape: of one example.
        parameters: how many trainable parameters it must have.
        macs: multiply-accumulates of one example's forward pass.
        weight_decay: L2 coefficient of momentum descent; None means Adam.
    """

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    parameters: int
    macs: int
    weight_decay: float | None


WORKLOADS = {
    "alexnet": Workload(alexnet, (3, 227, 227), 60_965_224, 724_406_816, 5e-4),
    "vgg": Workload(vgg, (3, 224, 224), 143_667_240, 19_632_062_464, 5e-4),
    "residual": Workload(residual, (3, 224, 224), 21_797_672, 3_663_761_408, 1e-4),
    "autoenc": Workload(Autoencoder, (784,), 815_824, 814_000, None),
}


def make_step(
    workload: Workload, mode: str, batch_size: int, layout: str, compiled: bool
) -> Callable[[], object]:
    """Returns a function that runs one training step or one inference."""
    torch.manual_seed(0)
    model = workload.build().train(mode == "train")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if parameters != workload.parameters:
        sys.exit(f"the network has {parameters:,} parameters instead of {workload.parameters:,}")
    inputs = torch.rand(batch_size, *workload.input_shape)
    if layout == "channels_last":
        model, inputs = (x.to(memory_format=torch.channels_last) for x in (model, inputs))
    labels = torch.randint(1000, [batch_size])

    def loss() -> Tensor:
        outputs = model(inputs)
        if isinstance(outputs, tuple):
            return negative_elbo(outputs, inputs)
        return F.cross_entropy(outputs, labels)

    if mode == "infer":
        infer = torch.compile(model) if compiled else model
        return torch.inference_mode()(lambda: infer(inputs))
    loss = torch.compile(loss) if compiled else loss
    if workload.weight_decay is None:
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
    else:
        optimizer = torch.optim.SGD(
            model.parameters(), 1e-4, 0.9, weight_decay=workload.weight_decay, fused=True
        )

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return train


def gemm_gflops() -> float:
    """Returns the best rate of a large float32 matrix product, in GFLOP/s."""
    a, b = torch.rand(GEMM_SIZE, GEMM_SIZE), torch.rand(GEMM_SIZE, GEMM_SIZE)
    product = torch.empty(GEMM_SIZE, GEMM_SIZE)
    best = min(timed(lambda: torch.mm(a, b, out=product))[0] for _ in range(6))
    return 2 * GEMM_SIZE**3 / best / 1e9


def best_layout(args: argparse.Namespace, workload: Workload) -> str:
    """Times a step in each memory layout, and returns the faster layout's name."""
    if len(workload.input_shape) == 1:
        return "flat"
    times = {}
    for layout in ("channels_last", "channels_first"):
        step = make_step(workload, args.mode, args.batch_size, layout, args.compile)
        step()
        times[layout] = min(timed(step)[1] for _ in range(2))
    return min(times, key=times.__getitem__)


def measure(args: argparse.Namespace) -> dict[str, object]:
    """Runs the benchmark and returns its record."""
    torch.set_num_threads(args.threads)
    workload = WORKLOADS[args.workload]
    layout = best_layout(args, workload)
    step = make_step(workload, args.mode, args.batch_size, layout, args.compile)
    peaks = [gemm_gflops()]
    record = record_of(step, args.steps, args.warmup)
    peaks.append(gemm_gflops())
    median = statistics.median(record["step_seconds"])
    quartiles = statistics.quantiles(record["step_seconds"], n=4, method="inclusive")
    cost = TRAINING_COST if args.mode == "train" else 1
    achieved = 2 * workload.macs * args.batch_size * cost / median / 1e9
    return record | {
        "workload": args.workload,
        "mode": args.mode,
        "batch_size": args.batch_size,
        "threads": args.threads,
        "compiled": args.compile,
        "layout": layout,
        "parameters": workload.parameters,
        "median_ms": 1e3 * median,
        "iqr_ms": 1e3 * (quartiles[2] - quartiles[0]),
        "gemm_gflops": max(peaks),
        "achieved_gflops": achieved,
        "fraction": achieved / max(peaks),
        "torch": torch.__version__,
    }


def main() -> None:
    """Measures one network and prints one line of results."""
    parser = argparse.ArgumentParser(description="Time Fathom's networks, written in PyTorch.")
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10, help="steps timed (default: 10)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before (default: 2)")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    args = parser.parse_args()
    if min(args.batch_size, args.threads, args.warmup) < 1 or args.steps < 2:
        parser.error("batch size, threads and warm-up must be at least 1, steps at least 2")
    record = measure(args)
    print(
        "{workload} {mode}, batch {batch_size}, {threads} thread(s), {layout}: "
        "{median_ms:.2f} ms a step (IQR {iqr_ms:.2f}), {achieved_gflops:.1f} of "
        "{gemm_gflops:.1f} GFLOP/s = {fraction:.2f}; {parameters:,} parameters".format(**record)
    )
    if args.json:
        args.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
