"""Metric against the numbers of the computation: runs a workload in several fixed-point formats.

    python benchmarks/number_formats.py memnet --infer --checkpoint-dir DIR --out infer.csv
    python benchmarks/number_formats.py memnet --steps 1680 --set restarts=1 --out train.csv

Each row of the CSV is a run: its variant, the metrics, the mean loss of the last twenty steps, the
median step in seconds, and by kind of tensor the shares of values that saturated and that became
zero. A variant is a precision, followed by settings with a plus, as in
``fixed:16.10+rounding=stochastic``.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from fathom import workloads
from fathom.cli.parser import MODEL_OPTIONS, add_mode, add_options, add_workload, init_options
from fathom.errors import FathomError
from fathom.options import QUANTIZED
from fathom.results.records import FixedPointRecord

_VARIANTS = "float32,fixed32,fixed16,fixed:16.10,fixed12,fixed8"


def main() -> None:
    """Runs each variant that the CSV does not have yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_workload(parser)
    add_mode(parser)
    add_options(parser, "steps", default=1)
    add_options(parser, *(o for o in MODEL_OPTIONS if o not in ("precision", "rounding")))
    add_options(parser, "checkpoint-dir")
    parser.add_argument("--variants", default=_VARIANTS, metavar="A,B", help="default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    chosen = parser.parse_args()
    rows = pd.read_csv(chosen.out).to_dict("records") if chosen.out.exists() else []
    for variant in chosen.variants.split(","):
        if variant not in {row["variant"] for row in rows}:
            rows.append({"variant": variant, **_run(chosen, variant)})
            pd.DataFrame(rows).to_csv(chosen.out, index=False)
            print(rows[-1], flush=True)


def _run(chosen: argparse.Namespace, variant: str) -> dict[str, object]:
    """Returns the results of one variant; of a training that diverged, those until then."""
    precision, *settings = variant.split("+")
    model_class = workloads.load(chosen.workload, forward_only=chosen.infer)
    options = init_options(chosen, model_class.Hyperparameters) | {"precision": precision}
    options |= dict(setting.split("=") for setting in settings)
    model = model_class("/cpu:0", options)
    model.setup({"checkpoint_dir": chosen.checkpoint_dir} if chosen.infer else None)
    ended, metrics = "complete", {}
    try:
        model.run(n_steps=chosen.steps)
        metrics = model.evaluate()
    except FathomError as error:
        ended = str(error)
    result = model.record()
    losses = [loss for loss in result.steps.loss if loss is not None]
    return {
        **metrics,
        "loss": float(np.mean(losses[-20:])) if losses else None,
        "seconds": result.steps.median if len(result.steps.counted) else None,
        **(_shares(result.fixed_point) if result.fixed_point else {}),
        "ended": ended,
    }


def _shares(record: FixedPointRecord) -> dict[str, float]:
    """Returns the shares of all tensors of each kind, weighted by their values."""
    shares = {}
    for kind in QUANTIZED:
        tensors = [row for row in record.tensors if row.kind == kind and row.values]
        for name in ("saturated", "zeroed") if tensors else ():
            parts = [(getattr(row, name) or 0.0) * row.values for row in tensors]
            shares[f"{kind} {name}"] = sum(parts) / sum(row.values for row in tensors)
    return shares


if __name__ == "__main__":
    main()
