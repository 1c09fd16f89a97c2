"""The papers' analyses: functions from profiles and runs to results; each has its table."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "clustering": [
            "Merge",
            "Similarity",
            "cluster",
            "cosine_distance",
            "published_similarity",
            "similarity",
        ],
        "comparison": ["Comparison", "Ratio", "ShareChange", "compare"],
        "cost": ["Utilization", "LayerWork", "Work", "efforts", "layer_work", "layer_work_table"],
        "gpu": ["GpuUse", "gpu_use"],
        "model": ["LayerTimes", "Layers", "layers"],
        "op_types": ["Breakdown", "Difference", "Differences", "breakdown", "differences"],
        "operations": [
            "Curve",
            "Dominance",
            "OpSeries",
            "FrameworkOverhead",
            "Stationarity",
            "dominance",
            "outside",
            "seconds_by_type",
            "shares",
            "stationarity",
        ],
        "runs": ["Modes", "Repeats", "SectionTimes", "Spread", "modes", "sections", "spread"],
        "scaling": [
            "CoreScaling",
            "Efficiency",
            "Parallelism",
            "ThreadScaling",
            "efficiency",
            "parallelism",
        ],
        "table": ["Table"],
    },
)
