"""Draws the training curve of a run from its result file.

python benchmarks/curve.py result.json curve.png
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.cli.parser import Parser
from fathom.cli.terminal import import_tensorflow, run_command
from fathom.errors import FathomError
from fathom.system.files import atomic_write


def main() -> None:
    """Reads the command line and draws."""
    parser = Parser(description="Draws the training curve of a run from its result file.")
    parser.add_argument("result", type=Path, help="what --json wrote")
    parser.add_argument("picture", type=Path, help="the PNG file to write")
    args = parser.parse_args()
    run_command("curve", lambda: draw(args.result, args.picture))


def draw(result: Path, picture: Path) -> None:
    """Draws each step's loss and its running mean.

    Raises:
        FathomError: no result of a training, or the picture cannot be written.
    """
    import_tensorflow()
    from fathom.results.records import RunResult

    record = RunResult.read(result)
    steps = record.steps
    loss = np.array([np.nan if value is None else value for value in steps.loss])
    if len(loss) < 2 or np.isnan(loss).all():
        raise FathomError(f"{result} has no losses of a training to draw")
    number = steps.first + 1 + np.arange(len(loss))
    window = max(1, len(loss) // 50)
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(number, loss, color="0.75", linewidth=0.8, label="each step")
    mean = np.convolve(loss, np.ones(window) / window, "valid")
    axes.plot(number[window - 1 :], mean, color="C0", label=f"mean of {window} steps")
    low, high = 1.1 * np.nanquantile(loss, (0.01, 0.99))
    axes.set_ylim(min(0, low), max(0, high))
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    synthetic = "synthetic " * (record.data.kind == "synthetic")
    axes.set_title(f"{record.workload} on {synthetic}{record.data.name}")
    axes.legend()
    with atomic_write(picture) as temporary:
        figure.savefig(temporary, format="png", dpi=100)


if __name__ == "__main__":
    main()
