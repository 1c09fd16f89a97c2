"""The transformer for translation (Vaswani et al. 2017)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.transformer", submod_attrs={"model": ["Transformer", "TransformerFwd"]}
)
