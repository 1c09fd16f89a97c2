"""The graph convolutional network on Cora (Kipf and Welling 2017)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "fathom.modern.gcn", submod_attrs={"cora": ["Cora", "PowerLaw"], "model": ["GCN", "GCNFwd"]}
)
