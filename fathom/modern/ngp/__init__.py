"""An image in a multiresolution hash encoding (Mueller et al. 2022)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.ngp", submod_attrs={"images": ["Images"], "model": ["NGP", "NGPFwd"]}
)
