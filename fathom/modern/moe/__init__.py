"""The mixture of experts Mixtral (Fedus et al. 2021, Jiang et al. 2024)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.moe", submod_attrs={"model": ["MoE", "MoEFwd"]}
)
