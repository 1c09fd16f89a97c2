"""``fathom profile``: shows where the time of one workload's steps goes."""

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fathom import workloads
from fathom.cli.command import refuse
from fathom.cli.parser import init_options
from fathom.cli.terminal import import_tensorflow
from fathom.errors import FathomError
from fathom.options import unknown_option
from fathom.system.files import named_path
from fathom.system.folders import claim_folder
from fathom.system.words import counted

if TYPE_CHECKING:
    from fathom.results.profile import Profile


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    known = [*workloads.names(), *workloads.refused()]
    stored = None if args.workload in known else named_path(args.workload)
    if stored and not stored.is_dir():
        raise unknown_option("workload or folder", args.workload, workloads.names())
    if stored:
        shown = {"workload", "against", "out", "command"}
        refuse(args, sorted(args.given - shown), "has no effect on a profile that exists: omit it")
        if args.out and not args.against:
            raise FathomError(f"--out has no effect: the profile is in {stored} already")
    out: Path | None = args.out
    if out and args.against and out.resolve() == args.against.resolve():
        raise FathomError("--out would replace the profile that --against names: give another")
    if out:
        claim_folder(out, "profile")  # before time is spent on measuring
    import_tensorflow()
    from fathom.measure.profile import diff, files, view

    profile = diff.read(stored, traced=bool(args.against)) if stored else None
    workload = profile.workload if profile else args.workload
    other = diff.read(args.against, workload) if args.against else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = stored or out or Path(temporary)
        if profile:
            view.show(profile, screen)
        else:
            profile = _profile(args, folder, screen)
        if other:
            by_type = diff.op_types(profile, other)
            by_op = diff.ops(folder / files.TRACE, args.against / files.TRACE)
            diff.show(profile, other, by_type, by_op, screen)
            if out:
                diff.write(profile, other, by_type, by_op, out)
                screen.print(
                    f"written to {out}: op_types_against.csv, ops_against.csv; against.html sorts "
                    "them"
                )


def _profile(args: argparse.Namespace, folder: Path, screen: Console) -> "Profile":
    """Profiles a workload, shows the profile, and writes it with ``--out``; returns it."""
    from fathom.hardware.description.attribution import scoped_gradients
    from fathom.measure.profile import files, view
    from fathom.measure.profile.gpu import Sessions
    from fathom.measure.profile.profiling import profile_model, single_steps, step_seconds
    from fathom.results.profile import Roofs
    from fathom.system import rates

    model_class = workloads.load(args.workload, forward_only=args.infer)
    options = init_options(args, model_class)
    compiled = model_class(args.device, options).xla == model_class.default_xla == "step"
    traced = options | single_steps(model_class) | ({"xla": False} if compiled else {})
    model = model_class(args.device, traced)
    screen.print(f"{model.name}: {model.title}; data: {model.source}")
    sessions = Sessions(model.device)
    with scoped_gradients(), sessions.on_gpu():
        model.setup()
    screen.print(f"profiling {counted(args.steps, 'step')} on {model.device}")
    profile, place = profile_model(
        model, args.steps, folder, run_steps=args.life, sessions=sessions
    )
    if compiled:
        model.teardown()
        seconds = step_seconds(model_class(args.device, options), args.steps)
        profile = profile.model_copy(update={"compiled_step_seconds": seconds})
    if not args.raw and not model.device.on_gpu:  # a characterization measures them itself
        roofs = Roofs(
            flops_per_second=rates.gemm_ceiling(model.device, profile.precision).rate,
            bytes_per_second=rates.triad_ceiling().rate,
        )
        profile = profile.model_copy(update={"roofs": roofs})
    view.show(profile, screen)
    if args.out and args.raw:
        profile.write(folder / files.PROFILE)
    elif args.out:
        files.write(profile, place, folder)
        screen.print(
            f"written to {folder}: profile.json, ops.csv, layers.csv; trace.json.gz opens in "
            f"ui.perfetto.dev, {files.TRACE} in TensorBoard (--logdir {folder})"
        )
    return profile
