"""End-to-end memory networks on bAbI (Sukhbaatar, Szlam, Weston and Fergus 2015)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"babi": ["Babi"], "model": ["MemNet", "MemNetFwd"]}
)
