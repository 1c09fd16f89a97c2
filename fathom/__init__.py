"""Fathom: eight reference deep-learning workloads on TensorFlow 2.

The classes are imported when they are first named: ``from fathom import AlexNet``.
"""

import lazy_loader

from fathom import workloads
from fathom.system import processor

processor.choice()  # before TensorFlow is imported

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "errors": ["FathomError"],
        "nn": ["NeuralNetworkModel"],
        **{module: [name, f"{name}Fwd"] for module, name in workloads.CLASSES.items()},
    },
)
