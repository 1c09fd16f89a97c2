"""One row a workload: what the conformance suite holds each of them to."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fathom import options, workloads
from fathom.errors import FathomError

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel


@dataclass(frozen=True, eq=False)
class Descriptor:
    """What is expected of a workload.

    Attributes:
        name: the workload.
        parameters: trainable values at the paper's size.
        macs: multiply-accumulates of one example's forward pass at the paper's size.
        inputs: name of each input to (shape without batch, dtype), at the paper's size.
        labels: the same of the labels.
        outputs: shapes without batch of the outputs.
        small: options that make a step quick.
        size: one of them whose change makes a checkpoint unfit.
        soon: options that change no size but let the first step come soon.
        overfit: further options with which 30 steps overfit one batch.
        work: of a quick step, in units of the batch size times the cost of an example.
        macs_tolerance: how far those of a described step may be from the counted, relatively.
        few_layers: constants of the model's module that make a deep network a shallow one.
    """

    name: str
    parameters: int
    macs: int
    inputs: Mapping[str, tuple[tuple, str]]
    labels: Mapping[str, tuple[tuple, str]]
    outputs: tuple[tuple, ...]
    small: Mapping[str, object]
    size: str
    soon: Mapping[str, object] = field(default_factory=dict)
    overfit: Mapping[str, object] = field(default_factory=dict)
    work: float = 1
    macs_tolerance: float = 0
    few_layers: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def model(self, forward_only: bool = False, **options: object) -> "NeuralNetworkModel":
        """Returns the quick variant of the model, not yet set up."""
        return self.model_class(forward_only)("/cpu:0", {**self.small, **options})

    def model_class(self, forward_only: bool = False) -> "type[NeuralNetworkModel]":
        """Returns the workload's class or its forward-only twin."""
        return workloads.load(self.name, forward_only)

    def has_option(self, name: str) -> bool:
        """Says whether a hyperparameter of this name can be chosen."""
        return name in options.field_names(self.model_class().Hyperparameters)

    def arguments(self) -> list[str]:
        """Returns the command line that makes a step quick."""
        return [f"--set={name}={value}" for name, value in self.small.items()]


EIGHT = (
    Descriptor(
        name="autoenc",
        parameters=815_824,
        macs=814_000,
        inputs={"x": ((784,), "float32")},
        labels={},
        outputs=((784,), (20,), (20,)),
        small={"batch_size": 20, "hidden_units": 50, "latents": 5, "steps_per_call": 1},
        size="hidden_units",
        overfit={"learning_rate": 0.01},
    ),
    Descriptor(
        name="alexnet",
        parameters=60_965_224,
        macs=724_406_816,
        inputs={"images": ((227, 227, 3), "float32")},
        labels={"labels": ((), "int32")},
        outputs=((1000,),),
        small={
            "batch_size": 4,
            "image_size": 67,
            "smallest_side": 76,
            "largest_side": 76,
            "evaluation_side": 76,
            "hidden_units": 64,
            "classes": 10,
        },
        size="hidden_units",
        overfit={"initial_stddev": 0.04, "dropout": 0.0, "learning_rate": 0.001, "batch_size": 1},
    ),
    Descriptor(
        name="vgg",
        parameters=143_667_240,
        macs=19_632_062_464,
        inputs={"images": ((224, 224, 3), "float32")},
        labels={"labels": ((), "int32")},
        outputs=((1000,),),
        small={
            "batch_size": 4,
            "image_size": 32,
            "smallest_side": 36,
            "largest_side": 40,
            "evaluation_side": 36,
            "base_filters": 8,
            "hidden_units": 64,
            "classes": 10,
        },
        size="hidden_units",
        overfit={
            "dropout": 0.0,
            "batch_size": 1,  # 19 layers without batch normalisation take longer for more
            "base_filters": 16,
            "learning_rate": 0.005,
            "momentum": 0.8,
        },
        few_layers={"CONFIGURATION_E": ((1, 1), (2, 1), (4, 1), (8, 1), (8, 1))},
    ),
    Descriptor(
        name="residual",
        parameters=21_797_672,
        macs=3_663_761_408,
        inputs={"images": ((224, 224, 3), "float32")},
        labels={"labels": ((), "int32")},
        outputs=((1000,),),
        small={
            "batch_size": 4,
            "image_size": 64,
            "smallest_side": 72,
            "largest_side": 80,
            "evaluation_side": 72,
            "base_filters": 4,
            "classes": 10,
            "learning_rate": 1e-4,  # so that rounding does not decide what the first steps do
        },
        size="base_filters",
        overfit={"learning_rate": 0.01},
        few_layers={"BLOCKS": (1, 1, 1, 1)},
    ),
    Descriptor(
        name="deepq",
        parameters=1_687_206,
        macs=9_346_048,
        inputs={"state": ((84, 84, 4), "uint8")},
        labels={
            "action": ((), "int32"),
            "reward": ((), "float32"),
            "next_state": ((84, 84, 4), "uint8"),
            "terminal": ((), "bool"),
        },
        outputs=((6,),),
        small={
            "batch_size": 4,
            "network": 2013,
            "replay_size": 200,
            "learning_starts": 100,
            "initial_exploration": 1.0,  # so that the hook sees learning steps alone
            "final_exploration": 1.0,
            "target_update": 2,
            "evaluation_episodes": 1,
            "save_replay": True,
        },
        size="replay_size",
        soon={"learning_starts": 1000},
        overfit={"target_update": 10_000, "learning_rate": 0.001},
    ),
    Descriptor(
        name="seq2seq",
        parameters=34_436_416,
        macs=87_097_600,
        inputs={"source": ((None,), "int32"), "target": ((None,), "int32")},
        labels={"words": ((None,), "int32")},
        outputs=((None, 256),),
        small={
            "batch_size": 20,
            "units": 16,
            "layers": 2,
            "source_vocabulary": 80,
            "target_vocabulary": 80,
            "samples": 20,
            "buckets": "8-9 16-18",
            "initial_range": 0.5,  # with so few units the gradients of 0.08 are next to nothing
        },
        macs_tolerance=0.05,  # the true word's score is a sum of elementwise products
        size="units",
        overfit={"samples": 0, "optimizer": "adam", "learning_rate": 0.02},
    ),
    Descriptor(
        name="speech",
        parameters=26_314_814,
        macs=3_945_676_800,
        inputs={"features": ((None, 26), "float32"), "lengths": ((), "int32")},
        labels={"phones": ((None,), "int32"), "phone_counts": ((), "int32")},
        outputs=((None, 62),),
        small={
            "batch_size": 4,
            "units": 16,
            "learning_rate": 1e-6,  # so that rounding does not decide what the first steps do
        },
        macs_tolerance=0.05,  # the gradient of the product with a state of zeros is left out
        size="units",
        overfit={"dropout": 0.0, "learning_rate": 3e-4},
    ),
    Descriptor(
        name="memnet",
        parameters=5_520,  # with the 19 words of the synthetic task 1
        macs=6_380,
        inputs={"story": ((50, 6), "int32"), "question": ((6,), "int32")},
        labels={"answer": ((), "int32")},
        outputs=((19,),),
        small={
            "batch_size": 20,
            "hops": 1,
            "embedding": 8,
            "memory": 10,
            "epoch_per_call": False,
        },
        size="embedding",
        overfit={"learning_rate": 0.05, "linear_start": False, "random_noise": 0.0},
    ),
)


def descriptor(name: str) -> Descriptor:
    """Returns a workload's descriptor; a registered one has it in its package's ``descriptor``.

    Raises:
        FathomError: there is no such workload, or it has no ``DESCRIPTOR``.
    """
    if name in workloads.CLASSES:
        return next(each for each in EIGHT if each.name == name)
    package = workloads.load(name).__module__.rpartition(".")[0]
    try:
        return importlib.import_module(f"{package}.descriptor").DESCRIPTOR
    except (ImportError, AttributeError) as error:
        raise FathomError(f"{package}.descriptor defines no DESCRIPTOR: {error}") from error


def small_options(name: str) -> Mapping[str, object]:
    """Returns the options that make a workload's step quick."""
    return descriptor(name).small
