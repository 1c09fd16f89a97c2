"""What language models share: texts, their vocabularies, decoders, and the generation of text."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"text": ["TinyShakespeare"]}
)
