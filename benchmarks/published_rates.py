"""Holds the model of machines against published rates of named GPUs; nothing is tuned to them.

    python benchmarks/published_rates.py

A first token is a prefill. A throughput is that of prompts which all begin and end together, as
the source's benchmark ran them: their new tokens over the time of a prefill and of the decoding.
Kernels of attention are fused, as the source's are. The roofline is the least time; the prediction
is that of ``scale`` with one node, with the ``utilization`` of the machine's file, which is from
trainings on many GPUs. Descriptions are of one prompt, traced without weights, and grown.

Sources: NVIDIA, TensorRT-LLM, docs/source/performance.md at commit 138f96d (throughputs of version
0.6.1, first tokens of 0.5; Llama 2 7B on one A100 in float16 and one H100 in float8) and
docs/source/blogs/H200launch.md at commit 1555478 (version 0.5, Llama 2 70B on one H200 in float8).
NVIDIA, DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5/README.md at commit
291f0d0 (training on one A100 of 80 GB, containers of 21.03, 256 images a step). ResNet-50 is that
of Keras, whose strides are in other convolutions (3.86 instead of 4.09 G multiply-accumulates), and
elementwise operations are fused with what they follow.
"""

import argparse
import functools
import statistics
from typing import NamedTuple

import keras
import pandas as pd
import tensorflow as tf

from fathom import workloads
from fathom.hardware.accelerators import machine as machines
from fathom.hardware.accelerators import scaling
from fathom.hardware.accelerators.machine import Machine
from fathom.hardware.accelerators.plan import Plan
from fathom.hardware.networks.tensorflow import describe
from fathom.results.description import Description

VOCABULARY = 32_000  # of Llama 2
_LONGEST = 4096


class Row(NamedTuple):
    """A published rate of a GPU.

    Attributes:
        gpu: name of the machine.
        precision: type of number.
        size: of Llama.
        batch: prompts.
        given, new: tokens of each prompt, and after it.
        published: new tokens per second, or seconds to the first one where ``new`` is 1.
    """

    gpu: str
    precision: str
    size: str
    batch: int
    given: int
    new: int
    published: float


ROWS = (
    Row("a100", "float16", "7b", 1, 128, 1, 0.016),
    Row("a100", "float16", "7b", 1, 2048, 1, 0.133),
    Row("a100", "float16", "7b", 384, 128, 128, 5_586),
    Row("a100", "float16", "7b", 60, 128, 2048, 1_928),
    Row("a100", "float16", "7b", 52, 2048, 128, 591),
    Row("h100", "float8", "7b", 1, 128, 1, 0.007),
    Row("h100", "float8", "7b", 1, 2048, 1, 0.036),
    Row("h100", "float8", "7b", 768, 128, 128, 19_694),
    Row("h100", "float8", "7b", 112, 128, 2048, 6_818),
    Row("h100", "float8", "7b", 80, 2048, 128, 2_244),
    Row("h100", "float8", "7b", 48, 2048, 2048, 2_740),
    Row("h200", "float8", "70b", 512, 128, 128, 3_014),
    Row("h200", "float8", "70b", 64, 2048, 128, 341),
    Row("h200", "float8", "70b", 32, 2048, 128, 303),
)

TRAININGS = {"tf32": 938, "float16": 2_470}  # images per second of ResNet-50 on one A100
IMAGES = 256  # in a step


def main() -> None:
    """Prints each rate, published and predicted."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(trainings().to_string(index=False))
    found = table()
    print(found.to_string(index=False))
    print(f"median ratio: {statistics.median(found.ratio):.2f}")


def table() -> pd.DataFrame:
    """Returns a line for each row; ratios are of rates, predicted over published."""
    lines = []
    for row in ROWS:
        machine = machines.load(row.gpu)
        whole = machine.model_copy(update={"utilization": 1.0})
        roof, predicted = (_figure(row, seconds(row, each)) for each in (whole, machine))
        first = row.new == 1
        lines.append(
            {
                "GPU": row.gpu,
                "numbers": row.precision,
                "network": f"Llama 2 {row.size}",
                "prompts x tokens + new": f"{row.batch} x {row.given} + {row.new}",
                "unit": "ms" if first else "tokens/s",
                "published": row.published * (1e3 if first else 1),
                "roofline": roof,
                "predicted": predicted,
                "ratio": round(_ratio(row, predicted), 2),
            }
        )
    return pd.DataFrame(lines)


def trainings() -> pd.DataFrame:
    """Returns a line for each published rate of training ResNet-50."""
    step = scaling.grown(resnet50(), IMAGES)
    machine = machines.load("a100")
    whole = machine.model_copy(update={"utilization": 1.0})
    lines = []
    for precision, published in TRAININGS.items():
        roof, predicted = (
            IMAGES
            / scaling.scale(step, each, Plan(), precision=precision, fusion="elementwise").seconds
            for each in (whole, machine)
        )
        line = {"GPU": "a100", "numbers": precision, "published": published}
        line |= {"roofline": round(roof), "predicted": round(predicted)}
        lines.append(line | {"ratio": round(predicted / published, 2)})
    return pd.DataFrame(lines)


def resnet50() -> Description:
    """Returns the gradients of an image; nothing is computed."""
    model = keras.applications.ResNet50(weights=None)
    weights = [each.value for each in model.trainable_variables]

    def gradients(images: tf.Tensor, classes: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            found = model(images, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(classes, found))
        return tape.gradient(loss, weights)

    inputs = [tf.TensorSpec((1, 224, 224, 3)), tf.TensorSpec((1,), tf.int32)]
    return describe(gradients, inputs, name="ResNet-50")


def seconds(row: Row, machine: Machine) -> float:
    """Returns the time of a row's prefill and of its decoding."""
    steps = [described(row.size, "prefill", row.given, 2)]
    steps += [described(row.size, "decode", row.given, row.new)] if row.new > 1 else []
    return sum(
        scaling.scale(
            scaling.grown(step, row.batch),
            *(machine, Plan()),
            precision=row.precision,
            fusion="attention",
        ).seconds
        for step in steps
    )


@functools.cache
def described(size: str, phase: str, given: int, new: int) -> Description:
    """Returns a step of inference with one prompt."""
    settings = {"size": size, "phase": phase, "prompt_tokens": given, "new_tokens": new}
    settings |= {"context": _LONGEST, "vocabulary": VOCABULARY, "batch_size": 1}
    return workloads.load("llama", True)("cpu", settings).describe()


def _figure(row: Row, time: float) -> float:
    """Returns a time in the published unit, rounded."""
    return round(1e3 * time, 1) if row.new == 1 else round(row.batch * row.new / time)


def _ratio(row: Row, predicted: float) -> float:
    return 1e3 * row.published / predicted if row.new == 1 else predicted / row.published


if __name__ == "__main__":
    main()
