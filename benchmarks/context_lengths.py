"""Decoding over the length of the context: llama's cache grows with it, mamba's state does not.

Decodes the last tokens of contexts of several lengths, one sequence, one thread, both workloads in
turn, and takes the best of the rounds.

    python benchmarks/context_lengths.py --out FOLDER
"""

import argparse
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fathom import workloads
from fathom.cli.terminal import import_tensorflow
from fathom.measure.report import style

WORKLOADS = ("llama", "mamba")
NEW = 32  # tokens that are decoded


def main() -> None:
    """Prints the table, and draws it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 2048, 4096])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="existing folder for the picture")
    args = parser.parse_args()
    import_tensorflow()
    rows = []
    for context in args.lengths:
        models = {name: prepared(name, context) for name in WORKLOADS}
        runs = [
            (name, model.run(n_steps=3, warmup=1).generation)
            for _ in range(args.rounds)
            for name, model in models.items()
        ]
        for name in WORKLOADS:
            found = [each for other, each in runs if other == name]
            seconds = min(each.seconds_per_output_token for each in found)
            rows.append((name, context, 1e3 * seconds, found[0].cache_bytes))
    table = pd.DataFrame(rows, columns=["workload", "context", "ms per token", "bytes kept"])
    print(table.to_string(index=False, float_format="{:.3g}".format))
    if args.out:
        draw(table, args.out / "context-lengths.png")


def prepared(name: str, context: int) -> object:
    """Returns a workload that decodes the last tokens of a context."""
    options = {"batch_size": 1, "threads": 1, "phase": "decode", "context": context}
    options |= {"prompt_tokens": context - NEW, "new_tokens": NEW}
    model = workloads.load(name, forward_only=True)("cpu", options)
    model.setup()
    return model


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draws both columns over the length of the context."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for panel, column in zip(figure.subplots(1, 2), table.columns[2:], strict=True):
        for name, rows in table.groupby("workload", sort=False):
            panel.plot(rows.context, rows[column], marker="o", label=name)
        for axis, base in (("x", 2), ("y", 10)):
            style.scale_by_logarithm(panel, axis, base)
        panel.set(xlabel="context (tokens)", title=column)
        panel.legend()
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
