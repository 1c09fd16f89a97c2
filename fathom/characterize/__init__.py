"""Measures runs and analyses them: where a step's time goes.

``analyses`` has functions from profiles and runs to results, ``figures`` functions from results to
matplotlib figures; docs/characterization.md explains both.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "measure.folder": ["Folder"],
    },
)
