"""Four of today's workloads, registered by entry points as those of any other package."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "dlrm.model": ["DLRM", "DLRMFwd"],
        "gcn.model": ["GCN", "GCNFwd"],
        "transformer.model": ["Transformer", "TransformerFwd"],
    },
)
