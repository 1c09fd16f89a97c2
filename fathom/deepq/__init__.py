"""Deep Q-learning on Atari games (Mnih et al. 2013, 2015)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"atari": ["Atari"], "model": ["DeepQ", "DeepQFwd"]}
)
