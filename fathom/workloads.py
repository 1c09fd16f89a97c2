"""The table of the eight workloads, in the papers' order."""

import importlib
from typing import TYPE_CHECKING

from fathom.options import unknown_option

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

CLASSES = {
    "seq2seq": "Seq2Seq",
    "memnet": "MemNet",
    "speech": "Speech",
    "autoenc": "Autoenc",
    "residual": "Residual",
    "vgg": "VGG",
    "alexnet": "AlexNet",
    "deepq": "DeepQ",
}


def load(name: str, forward_only: bool = False) -> type["NeuralNetworkModel"]:
    """Imports and returns a workload's class, or its forward-only twin.

    Raises:
        FathomError: there is no such workload.
    """
    if name not in CLASSES:
        raise unknown_option("workload", name, CLASSES)
    return getattr(importlib.import_module(f"fathom.{name}"), CLASSES[name] + "Fwd" * forward_only)
