"""ResNet-34 on ImageNet (He, Zhang, Ren and Sun 2015)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"model": ["Residual", "ResidualFwd"]}
)
