"""Fathom: eight reference deep-learning workloads on TensorFlow 2.

The classes are imported when they are first named: ``from fathom import AlexNet``.
"""

import importlib

from fathom import workloads
from fathom.system import cuda, processor

processor.choice()  # before TensorFlow is imported
cuda.load_solver()  # before TensorFlow looks for GPUs

# So that python -m fathom.gpt runs as python -m fathom.alexnet does; imports say fathom.modern.
__path__.append(f"{__path__[0]}/modern")

_OTHERS = {
    "FathomError": "fathom.errors",
    "NeuralNetworkModel": "fathom.nn",
    "describe": "fathom.hardware.networks.tensorflow",
}


def __getattr__(name: str) -> object:
    module = _OTHERS.get(name) or (name[:1].isupper() and workloads.classes().get(name))
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_OTHERS, *workloads.classes()])
