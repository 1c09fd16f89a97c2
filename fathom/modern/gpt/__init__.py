"""The language model GPT-2 (Radford et al. 2019)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.gpt", submod_attrs={"model": ["GPT", "GPTFwd"]}
)
