"""Translation: parallel texts, batches, searches, scores, and what two workloads share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"multi30k": ["Multi30k"], "wmt": ["Wmt"]}
)
