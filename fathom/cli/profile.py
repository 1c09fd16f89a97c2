"""``fathom profile``: shows where the time of one workload's steps goes."""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from fathom import workloads
from fathom.cli.parser import init_options
from fathom.cli.terminal import import_tensorflow
from fathom.errors import FathomError


def run(chosen: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments.

    Raises:
        FathomError: an invalid option, unusable data, or a folder that cannot be written.
    """
    out = _output(chosen.out) if chosen.out else None
    import_tensorflow()
    from fathom.characterize.profile import files, view
    from fathom.characterize.profile.profiling import profile_model, single_steps, step_seconds
    from fathom.description.attribution import scoped_gradients

    model_class = workloads.load(chosen.workload, forward_only=chosen.infer)
    options = init_options(chosen, model_class.Hyperparameters)
    compiled = model_class.default_xla == "step"
    model = single_steps(model_class)(
        chosen.device, options | {"xla": False} if compiled else options
    )
    screen.print(f"{model.name}: {model.title}; data: {model.source}")
    with scoped_gradients():
        model.setup()
    screen.print(f"profiling {chosen.steps} steps on {model.device}")
    with tempfile.TemporaryDirectory() as temporary:
        trace = (out or Path(temporary)) / files.TRACE
        profile, place = profile_model(model, chosen.steps, trace.parent)
        if compiled:
            model.teardown()
            seconds = step_seconds(model_class(chosen.device, options), chosen.steps)
            profile = profile.model_copy(update={"compiled_step_seconds": seconds})
        view.show(profile, screen)
        if out and chosen.raw:
            profile.write(out / files.PROFILE)
        elif out:
            files.write(profile, place, out)
            screen.print(
                f"written to {out}: profile.json, ops.csv, layers.csv; trace.json.gz opens in "
                f"ui.perfetto.dev, {files.TRACE} in TensorBoard (--logdir {out})"
            )


def _output(out: Path) -> Path:
    """Creates the output folder, before time is spent on measuring."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FathomError(f"cannot make {out}: {error.strerror}") from error
    return out
