"""The folder of a characterization: what ``characterize`` writes and the analyses read.

docs/characterization.md lists the fields of its files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fathom.characterize.plan import Planned
from fathom.characterize.profiles import Profile
from fathom.data.files import whole_file
from fathom.errors import FathomError

SCHEMA = 1
KINDS = ("timing", "profile")
PURPOSES = ("modes", "profile", "threads", "cores", "repeats", "warmup")
_RESULT_SECTIONS = ("hyperparameters", "environment", "sections", "steps", "throughput", "cost")
_SAME_ON_ONE_MACHINE = ("cpu_model", "platform", "tensorflow")


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
        with whole_file(folder / "runs" / f"{self.id}.json") as temporary:
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
        for run in runs:
            if run.environment is not None:
                refuse_other_machine(machine, run.environment, f"{path}/runs/{run.id}.json")
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
        FathomError: it cannot be read or is of another schema.
    """
    if not (path / "machine.json").exists():
        return None
    machine = _read_json(path / "machine.json")
    if not all(isinstance(machine.get(k), dict) for k in ("environment", "gemm_flops_per_second")):
        raise FathomError(f"{path / 'machine.json'} is damaged: delete it and measure again")
    return machine


def read_runs(path: Path) -> dict[str, Run]:
    """Returns the runs of a folder by id.

    Raises:
        FathomError: a file cannot be read, or is of another schema.
    """
    return {file.stem: _read_run(file) for file in sorted((path / "runs").glob("[!.]*.json"))}


def refuse_other_machine(
    machine: Mapping[str, Any], environment: Mapping[str, Any], source: str
) -> None:
    """Raises FathomError where an environment is not that of the folder's machine."""
    ours = machine["environment"]
    for name in _SAME_ON_ONE_MACHINE:
        if environment.get(name) != ours.get(name):
            raise FathomError(
                f"{source} is from another machine than machine.json ({name}: "
                f"{environment.get(name)!r}, not {ours.get(name)!r}): keep one folder a machine"
            )
    if environment.get("cores_available", 0) > ours.get("cores_available", 0):
        raise FathomError(
            f"{source} is from another machine than machine.json "
            f"({environment['cores_available']} cores, not {ours.get('cores_available')}): keep one"
            " folder a machine"
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise FathomError(f"{path} is damaged ({error}): delete it and measure again") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FathomError(f"{path} is of another schema than {SCHEMA}: measure into a new folder")
    return document


def _read_run(path: Path) -> Run:
    document = _read_json(path)
    try:
        plain = {field.name: document[field.name] for field in fields(Run)}
        plain |= {"purpose": tuple(plain["purpose"]), "argv": tuple(plain["argv"])}
        if plain["profile"] is not None:
            plain["profile"] = Profile.from_plain(plain["profile"], str(path))
        run = Run(**plain)
        complete = {
            "failed": run.reason is not None,
            "done": (run.result if run.kind == "timing" else run.profile) is not None,
        }[run.status]
        if run.result is not None and not all(
            isinstance(run.result[section], dict) for section in _RESULT_SECTIONS
        ):
            raise ValueError("its result is not one of docs/results.md")
        described = run.environment is None or isinstance(run.environment, dict)
        if not (complete and described and run.id == path.stem and run.kind in KINDS):
            raise ValueError("its fields contradict each other")
    except (KeyError, TypeError, ValueError) as error:
        raise FathomError(f"{path} is damaged ({error!r}): delete it and measure again") from error
    return run
