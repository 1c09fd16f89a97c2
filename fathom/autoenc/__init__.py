"""The variational autoencoder on MNIST (Kingma and Welling 2013)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"mnist": ["Mnist"], "model": ["Autoenc", "AutoencFwd"]}
)
