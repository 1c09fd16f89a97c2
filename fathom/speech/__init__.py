"""Deep Speech on TIMIT (Hannun et al. 2014)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"model": ["Speech", "SpeechFwd"], "timit": ["Timit"]}
)
