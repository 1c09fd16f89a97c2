"""``fathom sparsity``: zeros of a workload's tensors by layer, and pruning."""

import argparse
from collections.abc import Callable
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
    take = observed(model, args.checkpoint_dir)
    if args.density:
        model.require_test_data()
    table = _run(model, take, args.steps)
    last = table[table.steps == table.steps.max()]
    show_frame(last.drop(columns=["steps"]), screen, f"zeros up to step {table.steps.max():,}")
    screen.print(_total(last, model.cost()))
    write_csv(table, args.csv, screen)
    if args.density:
        show_frame(pruned(model, args.density), screen, "metrics after pruning")
    model.teardown()


def observed(model: "NeuralNetworkModel", checkpoint_dir: str | None) -> Callable[[], pd.DataFrame]:
    """Sets up a model that counts zeros in its steps; returns what returns them so far."""
    from fathom.numbers.sparsity import Observation, savings

    observations: list[Observation] = []

    def observe(built: "Built") -> "Built":
        observations.append(Observation(built.network, model.is_weight_matrix))
        return built

    model.setup({"checkpoint_dir": checkpoint_dir}, instrument=observe)
    return lambda: savings(model.network, model.cost(), observations[-1].take())


def _run(
    model: "NeuralNetworkModel", take: Callable[[], pd.DataFrame], n_steps: int
) -> pd.DataFrame:
    """Runs the steps in a few periods; returns the zeros of each, with the steps at its end."""
    done, tables = 0, []
    for period in range(1, min(_PERIODS, n_steps) + 1):
        steps = n_steps * period // min(_PERIODS, n_steps) - done
        model.run(n_steps=steps, warmup=0)
        done += steps
        tables.append(take().assign(steps=done))
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
