"""The deep learning recommendation model on Criteo's clicks (Naumov et al. 2019)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.dlrm", submod_attrs={"criteo": ["Criteo"], "model": ["DLRM", "DLRMFwd"]}
)
