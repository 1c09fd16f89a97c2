"""Group relative policy optimisation of a language model (Shao et al. 2024)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.grpo", submod_attrs={"model": ["GRPO", "GRPOFwd"]}
)
