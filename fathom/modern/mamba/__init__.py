"""The selective state-space model Mamba (Gu and Dao 2023)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.mamba", submod_attrs={"model": ["Mamba", "MambaFwd"]}
)
