"""Holds the model of scaling against published tables, after one calibration for each machine.

    python benchmarks/published_scaling.py

One number is fitted for each table, the share of the peak that products reach, so that the rates'
geometric mean is the published one; it is printed. Published rates count 96 B s l h^2 (1 + s / 6h +
V / 16lh) operations for Megatron-LM, what is computed again included, and 6 for each parameter and
token for Llama 3. Descriptions are of one example, traced without weights, and grown.

Sources: Narayanan et al. 2021 (arXiv 2104.04473), table 1 (the networks' shapes were compared with
AWS's training examples, the last row's 52 % and 502 PFLOP/s with the abstract; the other rates are
cited from general knowledge); Grattafiori et al. 2024 (arXiv 2407.21783), table 4; Goyal et al.
2017 (arXiv 1706.02677): a P100 takes 120 ms, eight share 50 Gbit/s; about 90 % from 8 to 256.
"""

import argparse
import math
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from fathom import workloads
from fathom.hardware.accelerators import machine as machines
from fathom.hardware.accelerators import plan as plans
from fathom.hardware.accelerators import scaling
from fathom.hardware.accelerators.fusion import Fusion
from fathom.hardware.accelerators.machine import Link, Machine
from fathom.results.description import Description

MEGATRON = (  # heads, width, layers, tensor, pipeline, GPUs, batch, TFLOP/s of a GPU
    (24, 2304, 24, 1, 1, 32, 512, 137),
    (32, 3072, 30, 2, 1, 64, 512, 138),
    (32, 4096, 36, 4, 1, 128, 512, 142),
    (48, 6144, 40, 8, 1, 256, 1024, 135),
    (64, 8192, 48, 8, 2, 512, 1536, 138),
    (80, 10240, 60, 8, 4, 1024, 1792, 140),
    (96, 12288, 80, 8, 8, 1536, 2304, 148),
    (128, 16384, 96, 8, 16, 1920, 2160, 155),
    (128, 20480, 105, 8, 35, 2520, 2520, 163),
    (160, 25600, 128, 8, 64, 3072, 3072, 163),
)
WORDS, LENGTH = 51_200, 2048
LLAMA = ((64, 32, 430), (128, 16, 400))  # parts of the batch, examples of each, TFLOP/s of a GPU
SHORTEST, LONGEST = 0.2, 1.0  # shares of the peak


class Row(NamedTuple):
    """A row of a published table: the step in the published rate is found by ``flops``."""

    name: str
    step: Description
    plan: plans.Plan
    fusion: Fusion
    flops: float  # of the step, as the publication counts
    published: float  # FLOP/s of a node


def main() -> None:
    """Prints each row's rate, published and predicted."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    a100, h100 = machines.load("a100"), machines.load("h100")
    for title, machine, rows in (
        ("Megatron-LM, A100", a100, list(megatron())),
        ("Llama 3 405B, H100", h100, list(llama())),
    ):
        share = fitted(machine, rows)
        print(f"{title}: products reach {share:.1%} of the peak")
        print(table(machine, rows, share).to_string(index=False))
    goyal()


def megatron() -> Iterator[Row]:
    """Yields table 1 of Narayanan et al.: full recomputation, parts of one example."""
    for heads, width, layers, tensor, pipeline, gpus, batch, rate in MEGATRON:
        settings = {"width": width, "heads": heads, "layers": layers, "size": "gpt2"}
        settings |= {"context": LENGTH, "vocabulary": WORDS}
        step = described("gpt", settings)
        data = gpus // (tensor * pipeline)
        plan = plans.Plan(*(data, tensor, pipeline), recompute=True, microbatches=batch // data)
        inner = 1 + LENGTH / (6 * width) + WORDS / (16 * layers * width)
        flops = 96 * batch * LENGTH * layers * width**2 * inner
        name = f"{step.parameters / 1e9:,.1f} G, {gpus} GPUs"
        yield Row(name, scaling.grown(step, batch), plan, "elementwise", flops, rate * 1e12)


def llama() -> Iterator[Row]:
    """Yields the rows of table 4 of Grattafiori et al. with sequences of 8,192."""
    step = described("llama", {"size": "405b", "context": 8192})
    for data, examples, rate in LLAMA:
        plan = plans.Plan(
            *(data, 8, 16), sharded=2, sequence=True, microbatches=examples, interleaved=4
        )
        batch = data * examples
        flops = 6 * step.parameters * batch * 8192
        grown = scaling.grown(step, batch)
        yield Row(f"{plan.nodes:,} GPUs", grown, plan, "attention", flops, rate * 1e12)


def goyal() -> None:
    """Prints the efficiency of Goyal et al. from 8 to 256 GPUs, from their own figures alone.

    The time of a P100 is theirs; the model adds the sums of ResNet-50's 25.6 million gradients.
    """
    ethernet = Link(name="Ethernet", bandwidth=50e9 / 8 / 8, latency=50e-6)
    p100 = machines.load("p100")
    servers = p100.model_copy(update={"links": (p100.links[0], ethernet)})
    from fathom.hardware.accelerators import network

    seconds = {}
    for nodes in (8, 256):
        sums = network.all_reduce(4 * 25.6e6, network.group(servers, nodes)).seconds
        seconds[nodes] = [scaling.step_seconds(0.12, sums, share * 0.12) for share in (0, 0.67)]
    print("Goyal et al., ResNet-50, 8 to 256 P100: published efficiency about 90 %")
    for i, what in enumerate(("nothing hidden", "hidden behind the gradients")):
        print(f"  {what}: {seconds[8][i] / seconds[256][i]:.1%}")


def described(name: str, settings: dict[str, object]) -> Description:
    """Returns the training step of a workload with one example."""
    options = {"batch_size": 1, **settings}
    model = workloads.load(name, False)("cpu", options)
    return model.describe()


def fitted(machine: Machine, rows: list[Row]) -> float:
    """Returns the share of the peak with which the rates' geometric mean is the published one.

    The time of a step is a line over one over that share, as long as products are bound by it.
    """
    lines = []
    for row in rows:
        full, half = (scaled(machine, row, share).seconds for share in (1.0, 0.5))
        lines.append((2 * full - half, half - full, row.flops / row.plan.nodes / row.published))
    low, high = SHORTEST, LONGEST
    for _ in range(30):
        share = (low + high) / 2
        errors = [math.log(target / (rest + part / share)) for rest, part, target in lines]
        low, high = (low, share) if sum(errors) > 0 else (share, high)
    return share


def scaled(machine: Machine, row: Row, share: float) -> scaling.Scaled:
    """Returns a row's step, where products reach a share of the peak."""
    calibrated = machine.model_copy(update={"utilization": share})
    return scaling.scale(row.step, calibrated, row.plan, 0.0, "bfloat16", row.fusion)


def table(machine: Machine, rows: list[Row], share: float) -> pd.DataFrame:
    """Returns the rates in TFLOP/s, and what a node holds."""
    found = []
    for row in rows:
        step = scaled(machine, row, share)
        rate = row.flops / row.plan.nodes / step.seconds
        found.append(
            {
                "network": row.name,
                "published": round(row.published / 1e12),
                "predicted": round(rate / 1e12),
                "ratio": round(rate / row.published, 3),
                "communication": f"{step.communication_seconds / step.seconds:.1%}",
                "bubble": f"{step.bubble_seconds / step.seconds:.1%}",
                "GB a node": round((step.memory_bytes or 0) / 1e9, 1),
            }
        )
    return pd.DataFrame(found)


if __name__ == "__main__":
    main()
