"""The ImageNet data set, its input pipeline, and what its three classifiers share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "classifier": ["Classifier", "ClassifierHyperparameters"],
        "ilsvrc": ["ImageNet"],
    },
)
