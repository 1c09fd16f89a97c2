"""Denoising diffusion with transformers (Ho et al. 2020, Peebles and Xie 2022)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.diffusion", submod_attrs={"model": ["Diffusion", "DiffusionFwd"]}
)
