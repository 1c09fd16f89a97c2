"""``fathom int8``: an exported network in int8, against float32: metric and rate."""

import argparse
import dataclasses
import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from fathom.cli.command import build_model
from fathom.cli.terminal import import_tensorflow, new_table
from fathom.errors import FathomError

if TYPE_CHECKING:
    from fathom.model.built import Built
    from fathom.nn import NeuralNetworkModel

_CALIBRATION = 10  # batches of inference
_ROUNDS = 5  # in which the variants run in turn


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    import_tensorflow()
    from fathom.model import calibration
    from fathom.numbers import int8

    int8.require_engine()
    if not args.network.is_file():
        problem = "is not a file" if args.network.exists() else "does not exist"
        raise FathomError(
            f"{args.network} {problem}: name the network.onnx that fathom export {args.workload} "
            "--to onnx writes"
        )
    plain = _set_up(args)
    if args.evaluate:
        plain.require_test_data()
    with tempfile.TemporaryDirectory() as folder:
        quantized = Path(folder) / "int8.onnx"
        batches = itertools.islice(calibration.batches(plain), _CALIBRATION)
        inputs = ([tensor.numpy() for tensor in batch] for batch in batches)
        left = int8.quantize(args.network, inputs, quantized)
        if args.evaluate:
            _require_batches(plain, args.network)
        models = {
            "TensorFlow, float32": plain,
            "ONNX Runtime, float32": _set_up(args, args.network),
            "ONNX Runtime, int8": _set_up(args, quantized),
        }
        _compare(models, args, screen)
        for model in models.values():
            model.teardown()
    kept = ", ".join(f"{number} {kind}" for kind, number in sorted(left.items()))
    screen.print(f"in float32 also in the int8 network: {kept or 'nothing'}")


def _set_up(args: argparse.Namespace, file: Path | None = None) -> "NeuralNetworkModel":
    """Sets up the workload, with its network computed by ONNX Runtime if there is a file of it."""
    from fathom.numbers import int8

    if file:  # XLA compiles no step that calls an engine
        args = argparse.Namespace(**vars(args) | {"xla": False})
    model = build_model(args, forward_only=True)

    def serve(built: "Built") -> "Built":
        if file is None:
            return built
        network = int8.network_of(int8.session(file, model.threads), built.network)
        return dataclasses.replace(built, network=network)

    model.setup({"checkpoint_dir": args.checkpoint_dir}, instrument=serve)
    return model


def _require_batches(model: "NeuralNetworkModel", network: Path) -> None:
    """Raises FathomError if a batch of the test data is not of the file's size, if it has one."""
    import keras

    from fathom.numbers import int8

    size = int8.batch_of(network)
    for batch in model.evaluation_batches() if size else ():
        if (found := len(keras.tree.flatten(batch)[0])) != size:
            raise FathomError(
                f"{network} takes {size} examples, and a batch of the test data has {found}: "
                "export it without --batch-size, or omit --evaluate"
            )


def _compare(
    models: "dict[str, NeuralNetworkModel]", args: argparse.Namespace, screen: Console
) -> None:
    """Runs the models in turn, evaluates them, and prints a line for each."""
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(_ROUNDS):
        for name, model in models.items():
            result = model.run(n_steps=args.steps + 1, warmup=1)
            seconds[name] += list(result.steps.counted)
    metrics = {name: model.evaluate() if args.evaluate else {} for name, model in models.items()}
    columns = list(metrics["ONNX Runtime, int8"])
    numbers = ["ms per step", "rate", *columns]
    table = new_table(["network", *numbers], numbers)
    first = float(np.median(seconds["TensorFlow, float32"]))
    for name, times in seconds.items():
        median = float(np.median(times))
        shown = [f"{metrics[name][column]:.5g}" for column in columns]
        table.add_row(name, f"{1e3 * median:,.1f}", f"{first / median:.2f} x", *shown)
    screen.print(table)
