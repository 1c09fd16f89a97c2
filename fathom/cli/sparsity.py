"""``fathom sparsity``: zeros of a workload's tensors by layer, and pruning."""

import argparse
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console

from fathom.cli.command import build_model, refuse, write_csv
from fathom.cli.terminal import show_frame

if TYPE_CHECKING:
    from fathom.model.built import Built
    from fathom.nn import NeuralNetworkModel
    from fathom.results.cost import Cost

_PERIODS = 5  # of the run, at most: zeros change over training


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    if not args.infer:
        refuse(args, ["checkpoint_dir"], "is for --infer: a training starts from scratch")
    model = build_model(args, args.infer)
    table = _run(model, args)
    last = table[table.steps == table.steps.max()]
    show_frame(last.drop(columns=["steps"]), screen, f"zeros up to step {table.steps.max():,}")
    screen.print(_total(last, model.cost()))
    write_csv(table, args.csv, screen)
    if args.density:
        show_frame(pruned(model, args.density), screen, "metrics after pruning")
    model.teardown()


def _run(model: "NeuralNetworkModel", args: argparse.Namespace) -> pd.DataFrame:
    """Runs the steps in a few periods; returns the zeros of each, with the steps at its end."""
    from fathom.numbers.sparsity import Observation, savings

    observations: list[Observation] = []

    def observe(built: "Built") -> "Built":
        observations.append(Observation(built.network, model.is_weight_matrix))
        return built

    model.setup({"checkpoint_dir": args.checkpoint_dir}, instrument=observe)
    if args.density:
        model.require_test_data()
    done, tables, periods = 0, [], min(_PERIODS, args.steps)
    for period in range(1, periods + 1):
        steps = args.steps * period // periods - done
        model.run(n_steps=steps, warmup=0)
        done += steps
        found = savings(model.network, model.cost(), observations[-1].take())
        tables.append(found.assign(steps=done))
    return pd.concat(tables, ignore_index=True)


def pruned(model: "NeuralNetworkModel", densities: list[float]) -> pd.DataFrame:
    """Returns the metrics of the test data after pruning to each density, the first unpruned.

    Raises:
        FathomError: there are no test data.
    """
    from fathom.core.training.values import restored
    from fathom.numbers.sparsity import prune

    variables = list(filter(model.is_weight_matrix, model.network.trainable_variables))
    rows = []
    with model.evaluated_weights():
        for density in [1.0, *densities]:
            with restored([variable.value for variable in variables]):
                prune(variables, density)
                rows.append({"density": density, **model.evaluate()})
    return pd.DataFrame(rows)


def _total(last: pd.DataFrame, cost: "Cost") -> str:
    """Returns the saved work of the whole network, in words."""
    training = last.layer.map({each.name: each.training_macs for each in cost.layers})
    saved = [
        f"{(macs * last[f'saved {part}']).sum() / macs.sum():.1%} of {words}"
        for part, macs, words in (
            ("forward", last.macs, "a forward pass"),
            ("in training", training, "a step"),
        )
        if last[f"saved {part}"].notna().all()
    ]
    return f"a perfect skipper of zeros would save {', '.join(saved)} (multiply-accumulates)"
