"""The papers' figures: functions from the result of an analysis to a matplotlib figure."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "clustering": ["similarity"],
        "model": ["efforts", "layers"],
        "op_types": ["breakdown"],
        "operations": ["dominance", "outside", "stationarity"],
        "runs": ["gpu_use", "modes", "sections", "spread"],
        "scaling": ["efficiency", "parallelism"],
    },
)
