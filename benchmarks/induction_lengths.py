"""Tells how well a mamba that was trained on induction heads does on longer sequences.

python -m fathom run mamba --train --dataset induction --set size=induction ... \
        --checkpoint-dir FOLDER
python benchmarks/induction_lengths.py FOLDER
"""

import tempfile
from pathlib import Path

import numpy as np

from fathom.cli.parser import Parser
from fathom.cli.terminal import import_tensorflow, run_command

COUNT = 2000  # sequences of each length, of which a tenth is evaluated


def main() -> None:
    """Reads the command line and evaluates."""
    parser = Parser(description="Evaluates a trained mamba on longer induction heads.")
    parser.add_argument("checkpoints", type=Path, help="folder of the training's checkpoints")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[256, 1024, 4096, 16_384], help="in tokens"
    )
    args = parser.parse_args()
    run_command("induction_lengths", lambda: evaluate(args.checkpoints, args.lengths))


def evaluate(checkpoints: Path, lengths: list[int]) -> None:
    """Prints the share of right answers for each length."""
    import_tensorflow()
    from fathom.modern.mamba import Mamba, induction

    for length in lengths:
        rng = np.random.default_rng(length)  # others than in the training
        with tempfile.TemporaryDirectory() as folder:
            induction.write(Path(folder), COUNT, length, rng)
            model = Mamba(
                "/cpu:0",
                {
                    "size": "induction",
                    "dataset": "induction",
                    "data_dir": folder,
                    "context": length,
                    "batch_size": 1,
                },
            )
            model.setup({"checkpoint_dir": str(checkpoints), "resume": True})
            found = model.evaluate()
            model.teardown()
        print(f"{length} tokens: {found['accuracy']:.2%} of {COUNT // 10}", flush=True)


if __name__ == "__main__":
    main()
