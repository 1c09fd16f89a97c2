"""Files that earlier versions wrote are read; fields that they lack have the stated defaults.

``older/`` is a characterization by the version of 2026-11-22 (commit 17928dc), with its paths and
the kernel's version shortened: ``python -m fathom characterize --quick --workloads autoenc --modes
train --devices cpu --threads 1 --repeats 2 --warmup-runs 0 --steps 10``.
"""

import json
from pathlib import Path
from unittest import mock

import pytest

from fathom.errors import FathomError
from fathom.measure.atlas.bundle import submit
from fathom.measure.report import compare, report
from fathom.measure.runs.folder import Folder
from fathom.results.characterization import Machine, Run
from fathom.results.records import RunResult

OLDER = Path(__file__).parent / "older"


def runs():
    return {path.stem: Run.read(path) for path in sorted((OLDER / "runs").iterdir())}


def test_what_older_files_lack_has_its_default():
    machine = Machine.read(OLDER / "machine.json")
    assert machine.gemm_probes == machine.triad_bytes_per_second == {}
    assert machine.environment.fathom is machine.environment.source is None
    for run in runs().values():
        record = run.result or run.profile
        assert record.environment.microbatches == 1
        assert run.first_cpu_share is None
    profile = runs()["autoenc-train-cpu0-profile-threads1"].profile
    assert profile.roofs is profile.timeline is None
    assert profile.op_work == ()


@pytest.mark.slow
def test_an_older_folder_is_reported(tmp_path):
    report.write(Folder.read(OLDER), tmp_path)
    written = json.loads((tmp_path / "report.json").read_text())
    assert "autoenc" in json.dumps(written)


def test_an_older_folder_is_compared():
    compare.compare_folders([OLDER, OLDER], screen := mock.Mock())
    assert screen.print.called


def test_an_older_folder_is_not_for_the_atlas_and_the_reason_is_one_line():
    with pytest.raises(FathomError, match="cannot be submitted") as error:
        submit(OLDER)
    assert "\n" not in str(error.value)


def test_a_newer_schema_is_refused_and_says_what_to_do():
    document = runs()["autoenc-train-cpu0-timing"].result.to_plain() | {"schema": 2}
    with pytest.raises(FathomError) as error:
        RunResult.parse(json.dumps(document), "result.json")
    assert str(error.value) == (
        "result.json is of a newer schema (schema is 2, not 1): "
        "update Fathom, or use the version of Fathom that wrote it"
    )
