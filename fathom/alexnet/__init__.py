"""AlexNet on ImageNet (Krizhevsky, Sutskever and Hinton 2012)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"model": ["AlexNet", "AlexNetFwd"]}
)
