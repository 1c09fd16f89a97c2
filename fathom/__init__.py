"""Fathom: eight reference deep-learning workloads on TensorFlow 2.

The classes are imported when they are first named: ``from fathom import AlexNet``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "alexnet": ["AlexNet", "AlexNetFwd"],
        "autoenc": ["Autoenc", "AutoencFwd"],
        "deepq": ["DeepQ", "DeepQFwd"],
        "errors": ["FathomError"],
        "memnet": ["MemNet", "MemNetFwd"],
        "nn": ["NeuralNetworkModel"],
        "residual": ["Residual", "ResidualFwd"],
        "seq2seq": ["Seq2Seq", "Seq2SeqFwd"],
        "speech": ["Speech", "SpeechFwd"],
        "vgg": ["VGG", "VGGFwd"],
    },
)
