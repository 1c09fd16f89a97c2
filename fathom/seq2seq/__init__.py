"""Attention sequence-to-sequence translation (Sutskever et al. 2014, Bahdanau et al. 2015)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"model": ["Seq2Seq", "Seq2SeqFwd"]}
)
