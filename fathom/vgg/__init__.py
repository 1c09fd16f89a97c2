"""VGG-19 on ImageNet (Simonyan and Zisserman 2014)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"model": ["VGG", "VGGFwd"]}
)
