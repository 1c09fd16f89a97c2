"""The results directory that ``characterize`` writes and the analyses read."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fathom.errors import FathomError
from fathom.measure import frames
from fathom.results.base import damaged
from fathom.results.characterization import Machine, Run
from fathom.results.records import Environment
from fathom.system.files import exists, list_folder

_SAME_IN_ONE_FOLDER = (
    *("cpu_model", "cpu_generation", "cpu_flags", "memory_bytes", "platform", "onednn", "switches"),
    *("tensorflow", "keras", "numpy"),
)


@dataclass(frozen=True)
class Folder:
    """All runs of one machine.

    Attributes:
        path: the folder.
        machine: its description and speed.
        runs: sorted by id.
    """

    path: Path
    machine: Machine
    runs: tuple[Run, ...]

    @classmethod
    def read(cls, path: Path) -> "Folder":
        """Reads a folder.

        Raises:
            FathomError: it is empty, incomplete, of another schema version, or of two machines.
        """
        machine = read_machine(path)
        if machine is None:
            raise FathomError(f"{path} holds no characterization: machine.json is missing")
        runs = tuple(read_runs(path).values())
        if not runs:
            raise FathomError(f"{path} holds no runs yet: run fathom characterize --out {path}")
        _check_same_machine(machine, {f"{path}/runs/{run.id}.json": run for run in runs})
        return cls(path, machine, runs)

    def select(self, purpose: str) -> list[Run]:
        """Returns the completed runs of one set."""
        return [run for run in self.runs if purpose in run.purpose and run.status == "done"]

    def ops(self) -> pd.DataFrame:
        """Returns one row per op type, layer, phase, device and step of the profiles."""
        return self._ops.copy()

    def steps(self) -> pd.DataFrame:
        """Returns one row per step of the timing runs."""
        timed = [frames.result_steps(run.result, run.id) for run in self.runs if run.result]
        return frames.joined(timed, frames.STEP_COLUMNS)

    def layers(self) -> pd.DataFrame:
        """Returns one row per layer of the profiled networks."""
        return frames.layers(self.runs)

    def work(self) -> pd.DataFrame:
        """Returns one row per op type, layer and phase of the profiles, with its work."""
        work = [frames.profile_work(run.profile, run.id) for run in self.runs if run.profile]
        return frames.joined(work, frames.WORK_COLUMNS)

    def life(self) -> pd.DataFrame:
        """Returns one row per op type and step of the profiles' windows over whole runs."""
        followed = [run for run in self.runs if run.profile and run.profile.life]
        life = [frames.life_ops(run.profile, run.id) for run in followed if run.profile]
        return frames.joined(life, frames.LIFE_COLUMNS)

    def api_calls(self) -> pd.DataFrame:
        """Returns one row per function of a GPU's driver or runtime and profile."""
        return frames.api_calls(self.runs)

    def runs_frame(self) -> pd.DataFrame:
        """Returns one row per run, including failed ones."""
        return self._runs.copy()

    @functools.cached_property
    def _ops(self) -> pd.DataFrame:
        ops = [frames.profile_ops(run.profile, run.id) for run in self.runs if run.profile]
        return frames.joined(ops, frames.OP_COLUMNS)

    @functools.cached_property
    def _runs(self) -> pd.DataFrame:
        return frames.runs(self.runs)


def read_machine(path: Path) -> Machine | None:
    """Returns ``machine.json``; None if there is none.

    Raises:
        FathomError: it cannot be read, is damaged or of another schema.
    """
    file = path / "machine.json"
    return Machine.read(file) if exists(file) else None


def read_runs(path: Path) -> dict[str, Run]:
    """Returns the runs of a folder by id.

    Raises:
        FathomError: a file cannot be read, is damaged or of another schema.
    """
    folder = path / "runs"
    files = list_folder(folder) if exists(folder) else []
    return {file.stem: _read_run(file) for file in files if file.match("[!.]*.json")}


def write_run(run: Run, path: Path) -> None:
    """Writes ``runs/<id>.json`` of a folder atomically.

    Raises:
        FathomError: the file cannot be written.
    """
    run.write(path / "runs" / f"{run.id}.json")


def refuse_other_machine(ours: Environment, theirs: Environment, source: str) -> None:
    """Raises FathomError if an environment is not of the folder's machine and software."""
    differs = [n for n in _SAME_IN_ONE_FOLDER if getattr(theirs, n) != getattr(ours, n)]
    if theirs.cores_available > ours.cores_available:
        differs.append("cores_available")
    known = ours.source is not None and theirs.source is not None
    if not (known and theirs.source == ours.source):
        if theirs.git_commit != ours.git_commit:
            differs.append("git_commit")
        elif known and ours.git_commit is None:  # installed: no commit tells versions apart
            differs.append("source")
    for name in differs:
        raise _other_machine(source, name, getattr(theirs, name), getattr(ours, name))


def _check_same_machine(machine: Machine, runs: Mapping[str, Run]) -> None:
    """Raises FathomError if any run is of another machine or number of cores."""
    gpus: dict[str, str | None] = {}
    for source, run in runs.items():
        environment = run.environment
        if environment is None:
            continue
        refuse_other_machine(machine.environment, environment, source)
        if gpus.setdefault(run.device, environment.gpu) != environment.gpu:
            raise _other_machine(source, run.device, environment.gpu, gpus[run.device])
        if environment.cores_available < run.cores:
            raise FathomError(
                f"{source} had {environment.cores_available} of the {run.cores} cores that it was "
                "to have: delete it and measure again"
            )


def _other_machine(source: str, name: str, theirs: object, ours: object) -> FathomError:
    return FathomError(
        f"{source} is from another machine or version than the rest ({name}: {theirs!r}, not "
        f"{ours!r}): keep one folder for each"
    )


def _read_run(path: Path) -> Run:
    run = Run.read(path)
    if run.id != path.stem:
        raise damaged(str(path), f"its id is {run.id!r}")
    return run
