"""Counts the cache lines that the look-ups of ngp touch, level by level.

Of a batch of random positions, as training reads them, and of as many pixels in order, as rendering
does: the lines of a position's four look-ups, and the share of the batch's look-ups whose line no
look-up before has touched.

    python benchmarks/ngp_locality.py
"""

import numpy as np

from fathom.cli.parser import Parser
from fathom.cli.terminal import import_tensorflow, run_command

LINE = 64  # bytes


def main() -> None:
    """Reads the command line and counts."""
    parser = Parser(description="Counts the cache lines that ngp's look-ups touch, by level.")
    parser.add_argument("--set", nargs="+", metavar="NAME=VALUE", default=[], help="as of run")
    args = parser.parse_args()
    run_command("ngp_locality", lambda: count(dict(pair.split("=", 1) for pair in args.set)))


def count(options: dict[str, str]) -> None:
    """Prints the table."""
    import_tensorflow()
    from fathom.modern.ngp.model import NGP

    model = NGP("cpu", options)
    model.load_data()
    model.build()
    encoding = model.network.get_layer("encoding")
    batches = next(model.training_batches(0))[0], next(model.inference_batches())[0]
    print(
        "level, resolution, entries, KiB, kind, then for random positions and for pixels in order:"
    )
    print("lines a position, look-ups of a line not touched before")
    for level, cells in enumerate(encoding.get_config()["resolutions"]):
        entries, features = encoding.tables[level].shape
        kind = "dense" if entries == (cells + 1) ** 2 else "hashed"
        kibibytes = entries * features * 4 / 1024
        words = [str(level), str(cells), f"{entries:,}", f"{kibibytes:.1f}", kind]
        for positions in batches:
            found = encoding.corners(positions, cells)[0].numpy().T  # [position, corner]
            each = found * features * 4 // LINE
            ordered = np.sort(each, axis=1)
            words.append(f"{1 + (np.diff(ordered, axis=1) != 0).sum(axis=1).mean():.2f}")
            words.append(f"{len(np.unique(each)) / each.size:.2%}")
        print("| " + " | ".join(words) + " |")


if __name__ == "__main__":
    main()
