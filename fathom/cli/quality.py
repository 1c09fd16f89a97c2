"""``fathom quality``: trainings with several batch sizes until a metric reaches a target."""

import argparse
import itertools
import statistics
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fathom import options, workloads
from fathom.cli.command import Commands, add_command
from fathom.cli.parser import (
    MODEL_OPTIONS,
    add_options,
    batch_sizes,
    checked,
    init_options,
    number,
    result_file,
)
from fathom.cli.terminal import figures, import_tensorflow, new_table
from fathom.errors import FathomError
from fathom.results.quality import Crossing, Quality, Training
from fathom.system.files import exists
from fathom.system.words import counted

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel
    from fathom.results.records import Environment


def add_commands(commands: Commands) -> None:
    """Adds the command to the subparsers of ``python -m fathom``."""
    parser = add_command(
        commands, "quality", "cli.quality", "measure the time until a metric reaches a target"
    )
    add = parser.add_argument
    parser.add_workload()
    text = "metric of --evaluate and its value to reach, as accuracy=0.8"
    add("--target", required=True, type=checked(_target), metavar="METRIC=VALUE", help=text)
    text = "batch sizes to train with"
    kind = checked(batch_sizes)
    add("--batches", required=True, type=kind, metavar="32,64,...", help=text)
    text = "scale the learning rate with the batch size, from the workload's own"
    add("--scale-rate", action="store_true", help=text)
    text = "end each training after N epochs; default: 20"
    add("--epochs", type=number(int, minimum=1), default=20, metavar="N", help=text)
    text = "trainings of each batch size, with as many seeds from --seed on; default: 1"
    add("--seeds", type=number(int, minimum=1), default=1, metavar="N", help=text)
    shared = [name for name in MODEL_OPTIONS if name != "batch-size"]
    add_options(parser, *shared, "xla", "strategy", "replicas", "collectives", "reduce-dtype")
    text = "parts of a batch that a CPU computes at once, or auto; default: 1, for all batch sizes"
    add_options(parser, "microbatches", default=1, help=text)
    text = "file of the result; trainings that it has are not repeated; default: WORKLOAD-quality"
    add_options(parser, "json", help=text + ".json")


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    path = args.json = result_file(args.json or Path(f"{args.workload}-quality.json"))
    if any(assignment.startswith("batch_size=") for assignment in args.set):
        raise FathomError("--set batch_size has no effect: --batches names the batch sizes")
    import_tensorflow()
    from fathom.core.training import strategies

    replicas, settings = _replicas(args), _settings(args)
    done = _read(path, args, settings)
    before = done.trainings if done else []
    found = {(each.batch_size, each.replicas, _seed(each, args.seed)) for each in before}
    for size, seed in itertools.product(args.batches, range(args.seed, args.seed + args.seeds)):
        if (size, replicas, seed) not in found:
            done, is_chief = _train(args, size, seed, done, settings, screen)
            if is_chief:
                done.write(path)
    strategies.end()
    if done:
        _show(done, args.batches, screen)
    screen.print(f"written: {path}")


def _replicas(args: argparse.Namespace) -> int:
    """Returns the number of replicas, before there is a model."""
    from fathom.core.training import strategies

    if args.strategy == "multi-worker":
        return len(strategies.cluster().workers)
    if args.strategy == "mirrored" and args.replicas is None:
        raise FathomError("--strategy mirrored needs --replicas here")
    return args.replicas or 1


def _settings(args: argparse.Namespace) -> dict[str, str]:
    """Returns what decides the metric besides the batch size and the seed, by name."""
    from fathom.core.data.dataset import choose, find

    model_class = workloads.load(args.workload)
    others = {"batch_size", *options.field_names(options.Execution)}
    others -= {"precision", *options.FIXED_POINT_OPTIONS}
    built = _options(args, model_class)
    values = {k: v for each in built for k, v in vars(each).items() if k not in others}
    dataset = choose(model_class.datasets, args.dataset, args.data_dir)
    digest = find(dataset, args.data_dir, args.seed).fingerprint()
    values |= {"data": f"{dataset.name}, {digest}", "scale_rate": args.scale_rate}
    for name in ("collectives", "reduce_dtype"):  # whose defaults older files do not name
        if getattr(args, name) != getattr(options.Execution, name):
            values[name] = getattr(args, name)
    return {name: str(value) for name, value in values.items()}


def _train(
    args: argparse.Namespace,
    size: int,
    seed: int,
    done: Quality | None,
    settings: dict[str, str],
    screen: Console,
) -> tuple[Quality, bool]:
    """Trains; returns the result with this training, and whether this process writes it."""
    from fathom.measure.runs.quality import train_until

    model_class = workloads.load(args.workload)
    values = init_options(args, model_class) | {"batch_size": size, "seed": seed}
    if args.scale_rate:
        values["learning_rate"] = size * _rate_of_an_example(args, model_class)
    model = model_class(args.device, values)
    screen.quiet = not model.is_chief
    machine = model.machine()
    if done and model.is_chief:  # whose machine the file states
        _refuse_other_times(args, done.environment, machine)
    model.setup()
    if not model.steps_per_epoch:
        raise FathomError(f"the data have fewer than {size} examples: use smaller --batches")
    steps = counted(model.steps_per_epoch, "step")
    screen.print(f"{model.name}, batch size {size}, seed {seed}: {steps} per epoch")
    metric, target = args.target

    def report(epoch: int, value: float) -> None:
        screen.print(f"epoch {epoch}: {metric} {value:.5g}")

    known = done.higher_is_better if done else None
    training, higher = train_until(model, metric, target, args.epochs, report, known)
    model.teardown()
    now = _read(args.json, args, settings)  # another command may have written it meanwhile
    before = now.trainings if now else []
    result = Quality(
        workload=model.name,
        metric=metric,
        target=target,
        higher_is_better=higher,
        most_epochs=args.epochs,
        seed=args.seed,
        settings=settings,
        environment=machine,
        trainings=sorted(
            [*before, training], key=lambda each: (each.batch_size, each.replicas, each.seed or 0)
        ),
    )
    return result, model.is_chief


def _options(args: argparse.Namespace, model_class: "type[NeuralNetworkModel]") -> list[Any]:
    """Returns the hyperparameters, with the workload's own batch size, and the other options."""
    kinds: list[type] = [model_class.Hyperparameters, model_class.RunOptions, options.Execution]
    first, *others = options.sort(init_options(args, model_class), *kinds)
    return [model_class.build_hyperparameters(first), *map(options.build, kinds[1:], others)]


def _rate_of_an_example(args: argparse.Namespace, model_class: "type[NeuralNetworkModel]") -> float:
    """Returns the learning rate over the workload's own batch size (Goyal et al. 2017)."""
    hyperparameters = _options(args, model_class)[0]
    if not hasattr(hyperparameters, "learning_rate"):
        raise FathomError(f"{model_class.name} has no learning_rate to scale")
    return hyperparameters.learning_rate / hyperparameters.batch_size


def _read(path: Path, args: argparse.Namespace, settings: dict[str, str]) -> Quality | None:
    """Returns an earlier result, which must be of the same question."""
    if not exists(path):
        return None
    done = Quality.read(path)
    names = ("workload", "metric", "target", "epochs", "seed")
    asked = dict(zip(names, (args.workload, *args.target, args.epochs, args.seed), strict=True))
    values = (done.workload, done.metric, done.target, done.most_epochs, done.seed)
    found = dict(zip(names, values, strict=True)) | done.settings
    _refuse_another(path, asked | settings, found)
    return done


def _refuse_other_times(
    args: argparse.Namespace, done: "Environment", machine: "Environment"
) -> None:
    """Raises FathomError if the seconds of a result are not those of this machine and program."""
    names = ["cpu_model", "threads", "inter_op_threads", "device", "tensorflow"]
    if args.microbatches != "auto":  # which decides by the batch size
        names += ["xla", "microbatches"]
    values = [{name: getattr(each, name) for name in names} for each in (machine, done)]
    _refuse_another(args.json, *values)


def _refuse_another(path: Path, asked: Mapping[str, object], found: Mapping[str, object]) -> None:
    """Raises FathomError if what is asked for differs from what a file has."""
    if others := sorted(name for name in {*asked, *found} if asked.get(name) != found.get(name)):
        raise FathomError(
            f"{path} is of another experiment, which differs in {', '.join(others)}: name a new "
            "file by --json"
        )


def _target(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"must be METRIC=VALUE, not {text}")
    target = options.convert(value, float)
    options.Allowed(above=-1e100, below=1e100).check(target)  # as a result can hold it
    return name, target


def _seed(training: Training, first: int) -> int:
    return first if training.seed is None else training.seed


def _show(result: Quality, sizes: list[int], screen: Console) -> None:
    """Prints epochs, steps, examples and time to the target by batch size, and by seed."""
    numbers = ["batch size", "replicas", "seed", "learning rate", "epochs", "steps", "examples"]
    numbers += ["seconds", "evaluations", result.metric]
    table = new_table([*numbers, ""], numbers)
    shown = [each for each in result.trainings if each.batch_size in sizes]
    for training in shown:
        table.add_row(*_row(training, result))
    screen.print(table)
    screen.print("epochs, steps and seconds: interpolated to where the metric meets the target")
    for (size, replicas), equal in itertools.groupby(shown, attrgetter("batch_size", "replicas")):
        seeds = list(equal)
        if len(seeds) > 1:
            reached = [each.crossing(result.target) for each in seeds if each.reached]
            text = f"batch size {size:,}, {counted(replicas, 'replica')}"
            found = f"{len(reached)} of {len(seeds)} seeds reached the target{_spread(reached)}"
            screen.print(f"{text}: {found}")


def _spread(reached: list[Crossing]) -> str:
    """Returns the median and the range of epochs and seconds, in words."""
    if not reached:
        return ""
    words = []
    for name in ("epochs", "seconds"):
        values = [getattr(each, name) for each in reached]
        median, least, most = map(figures, (statistics.median(values), min(values), max(values)))
        words.append(f"{name} {median} ({least} to {most})")
    return f": median {words[0]}, {words[1]}"


def _row(training: Training, result: Quality) -> list[str]:
    last, crossing = training.curve[-1], training.crossing(result.target)
    rate = training.learning_rate
    return [
        f"{training.batch_size:,}",
        f"{training.replicas}",
        f"{_seed(training, result.seed)}",
        "" if rate is None else f"{rate:.4g}",
        figures(crossing.epochs),
        f"{crossing.steps:,.0f}",
        f"{crossing.steps * training.batch_size:,.0f}",
        figures(crossing.seconds),
        f"{figures(training.evaluation_seconds)} s",
        f"{last.value:.5g}",
        "reached" if training.reached else training.failure or "not reached",
    ]
