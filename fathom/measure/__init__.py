"""Measures runs and analyses them: where a step's time goes.

``Folder`` gives measurements as pandas frames; ``report.figures`` has one module per analysis.
docs/profiling.md and docs/characterization.md explain them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"runs.folder": ["Folder"]}
)
