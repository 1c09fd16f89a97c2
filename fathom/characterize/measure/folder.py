"""The folder of a characterization: what ``characterize`` writes and the analyses read.

docs/characterization.md lists the fields of its files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fathom.characterize.measure.plan import Planned
from fathom.characterize.profile.profiles import Profile
from fathom.errors import FathomError
from fathom.results import schemas
from fathom.system.files import atomic_write

SCHEMA = 1
_RESULT_SCHEMA = 1  # of docs/results.md
_SAME_IN_ONE_FOLDER = (
    *("cpu_model", "cpu_flags", "memory_bytes", "platform"),
    *("tensorflow", "keras", "numpy", "git_commit"),
)


@dataclass(frozen=True)
class Run(Planned):
    """One run of one workload in a process of its own, done or failed.

    Attributes:
        status, reason: ``done``; or ``failed`` and why.
        wall_s: seconds from the start to the end of the process, measured from outside.
        result: the result document of docs/results.md, of a timing run that is done.
        profile: of a profile run that is done.
    """

    status: str
    reason: str | None
    wall_s: float
    result: Mapping[str, Any] | None
    profile: Profile | None

    @property
    def environment(self) -> Mapping[str, Any] | None:
        """The environment that the run saw; None where it failed."""
        if self.result is not None:
            return self.result["environment"]
        return self.profile.environment if self.profile else None

    def to_plain(self) -> dict[str, Any]:
        """Returns the run as plain data."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"schema": SCHEMA, **plain, "profile": self.profile and self.profile.to_plain()}

    def write(self, folder: Path) -> None:
        """Writes ``runs/<id>.json``, whole or not at all.

        Raises:
            FathomError: the file cannot be written.
        """
        with atomic_write(folder / "runs" / f"{self.id}.json") as temporary:
            temporary.write_text(json.dumps(self.to_plain()) + "\n")


@dataclass(frozen=True)
class Folder:
    """All runs of one machine.

    Attributes:
        path: the folder.
        machine: ``environment`` as in docs/results.md, and ``gemm_flops_per_second``, the rate of a
            large matrix product by the number of threads, as a text.
        runs: in the order of their ids.
    """

    path: Path
    machine: Mapping[str, Any]
    runs: tuple[Run, ...]

    @classmethod
    def read(cls, path: Path) -> "Folder":
        """Reads a folder.

        Raises:
            FathomError: it is empty, half written, of another schema version, or of two machines.
        """
        machine = read_machine(path)
        if machine is None:
            raise FathomError(f"{path} holds no characterization: there is no machine.json in it")
        runs = tuple(read_runs(path).values())
        if not runs:
            raise FathomError(f"{path} holds no runs yet: run fathom characterize --out {path}")
        _check_same_machine(machine, {f"{path}/runs/{run.id}.json": run for run in runs})
        return cls(path, machine, runs)

    def select(self, purpose: str) -> list[Run]:
        """Returns the runs of one set that are done."""
        return [run for run in self.runs if purpose in run.purpose and run.status == "done"]

    @property
    def failed(self) -> list[Run]:
        """The runs that failed, each with its reason."""
        return [run for run in self.runs if run.status == "failed"]


def read_machine(path: Path) -> dict[str, Any] | None:
    """Returns ``machine.json``; None where there is none.

    Raises:
        FathomError: it cannot be read, is damaged or of another schema.
    """
    if not (path / "machine.json").exists():
        return None
    machine = _read_json(path / "machine.json")
    schemas.check(machine, "machine", str(path / "machine.json"))
    return machine


def read_runs(path: Path) -> dict[str, Run]:
    """Returns the runs of a folder by id.

    Raises:
        FathomError: a file cannot be read, is damaged or of another schema.
    """
    return {file.stem: _read_run(file) for file in sorted((path / "runs").glob("[!.]*.json"))}


def refuse_other_machine(
    machine: Mapping[str, Any], environment: Mapping[str, Any], source: str
) -> None:
    """Raises FathomError where an environment is not that of the folder's machine and software."""
    ours = machine["environment"]
    differs = [name for name in _SAME_IN_ONE_FOLDER if environment.get(name) != ours.get(name)]
    if environment.get("cores_available", 0) > ours.get("cores_available", 0):
        differs.append("cores_available")
    for name in differs:
        raise _other_machine(source, name, environment.get(name), ours.get(name))


def _check_same_machine(machine: Mapping[str, Any], runs: Mapping[str, Run]) -> None:
    """Raises FathomError where runs, by their files, are not all of this machine and its cores."""
    gpus: dict[str, str | None] = {}
    for source, run in runs.items():
        if run.environment is None:
            continue
        refuse_other_machine(machine, run.environment, source)
        gpu, available = run.environment.get("gpu"), run.environment.get("cores_available", 0)
        if gpus.setdefault(run.device, gpu) != gpu:
            raise _other_machine(source, run.device, gpu, gpus[run.device])
        if available < run.cores:
            raise FathomError(
                f"{source} had {available} of the {run.cores} cores that it was to have: delete it "
                "and measure again"
            )


def _other_machine(source: str, name: str, theirs: Any, ours: Any) -> FathomError:
    return FathomError(
        f"{source} is from another machine or version than the rest ({name}: {theirs!r}, not "
        f"{ours!r}): keep one folder for each"
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise schemas.damaged(str(path), str(error)) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FathomError(f"{path} is of another schema than {SCHEMA}: measure into a new folder")
    return document


def _read_run(path: Path) -> Run:
    document = _read_json(path)
    schemas.check(document, "run", str(path))
    plain = {field.name: document[field.name] for field in fields(Run)}
    plain |= {"purpose": tuple(plain["purpose"]), "argv": tuple(plain["argv"])}
    if plain["result"] is not None:
        _check_result(plain["result"], path)
    if plain["profile"] is not None:
        plain["profile"] = Profile.from_plain(plain["profile"], str(path), "profile")
    run = Run(**plain)
    contradiction = _contradiction(run, path.stem)
    if contradiction:
        raise schemas.damaged(str(path), contradiction)
    return run


def _check_result(result: dict[str, Any], path: Path) -> None:
    if result.get("schema") != _RESULT_SCHEMA:
        raise FathomError(
            f"{path} holds no result of schema {_RESULT_SCHEMA}: delete it and measure again"
        )
    schemas.check_result(result, str(path), "result")


def _contradiction(run: Run, name: str) -> str | None:
    """Returns which fields of a run contradict each other or the file's name; None: none do."""
    if run.id != name:
        return f"its id is {run.id!r}"
    if run.status == "failed":
        complete = run.reason is not None and run.result is None and run.profile is None
        return None if complete else "a failed run has a reason, no result and no profile"
    if run.kind == "timing":
        complete = run.result is not None and run.profile is None
    else:
        complete = run.profile is not None and run.result is None
    if not complete:
        return f"a {run.kind} that is done has no result or profile, or that of the other kind"
    made_by = run.result or vars(run.profile)
    for field in ("workload", "mode"):
        if made_by[field] != getattr(run, field):
            return f"{field} is {getattr(run, field)!r}, but what it holds is of {made_by[field]!r}"
    return None
