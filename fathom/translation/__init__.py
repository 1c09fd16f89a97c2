"""Parallel texts, searches for translations and their scores, shared by two workloads."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"multi30k": ["Multi30k"], "wmt": ["Wmt"]}
)
