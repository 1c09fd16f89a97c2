"""The ImageNet data set, its input pipeline, and the base of its three classifiers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "classifier": ["Classifier", "ClassifierHyperparameters"],
        "ilsvrc": ["ImageNet"],
    },
)
