"""The language models Llama 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.llama", submod_attrs={"model": ["Llama", "LlamaFwd"]}
)
