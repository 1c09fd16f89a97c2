"""Recounts the figures of a report from its folder, by code that shares nothing with Fathom's."""

import csv

import pytest
import recounting_folder
from recount import profiles, runs
from recount.records import Records

from fathom.measure import Folder
from fathom.measure.report import picture, report


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """Where a folder with a report, but no pictures, is."""
    path = recounting_folder.write(tmp_path_factory.mktemp("recounted"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "drawn", lambda plot, name, title: (b"<svg/>", "<svg></svg>"))
        patch.setattr(picture, "rendered", lambda plot, form: b"")
        report.write(Folder.read(path), path / "report")
    return path


RECOUNTED = {  # by file, the columns that identify a row
    "figures/runs.csv": (runs.runs, "workload", "mode", "cores", "repeat", "batch size"),
    "tables/runs_cases.csv": (runs.runs_cases, "workload", "mode", "cores", "batch size"),
    "figures/f1.csv": (profiles.f1, "workload", "op type", "run", "step"),
    "tables/f1_op_types.csv": (profiles.f1_op_types, "workload", "op type"),
    "tables/f1_whole_run_op_types.csv": (profiles.f1_whole_run_op_types, "workload", "op type"),
    "figures/f2.csv": (profiles.f2, "workload", "rank"),
    "tables/f2_workloads.csv": (profiles.f2_workloads, "workload"),
    "figures/f3.csv": (profiles.f3, "workload", ""),
    "figures/f4.csv": (profiles.f4, "merge"),
    "figures/f5.csv": (runs.f5, "workload", "mode", "device"),
    "figures/f6.csv": (profiles.f6, "workload", "op type", "threads"),
    "tables/f6_changes.csv": (profiles.f6_changes, "workload", "op type"),
    "figures/v_a.csv": (profiles.v_a, "workload"),
    "figures/m_sections.csv": (runs.m_sections, "workload", ""),
    "figures/m_eff.csv": (runs.m_eff, "workload", "cores"),
    "figures/m_var.csv": (runs.m_var, "workload", "run"),
    "tables/m_var_spread.csv": (runs.m_var_spread, "workload"),
    "figures/m_batch.csv": (runs.m_batch, "workload", "batch size"),
    "tables/m_batch_knees.csv": (runs.m_batch_knees, "workload"),
    "figures/roofline.csv": (profiles.roofline, "workload", "type", "layer", "phase"),
    "figures/memory.csv": (runs.memory, "workload", "mode"),
    "tables/memory_layers.csv": (runs.memory_layers, "workload", "layer"),
    "figures/cost.csv": (runs.cost, "workload", "mode"),
    "figures/formats.csv": (runs.formats, "workload", "format"),
    "tables/formats_errors.csv": (runs.formats_errors, "format", "layer"),
    "figures/m_gpu.csv": (profiles.m_gpu, "workload"),
}


def compare(path, file):
    """Compares a table of a report with its recount; returns the number of equal values."""
    recount, *key = RECOUNTED[file]
    with (path / "report" / file).open() as rows:
        written = {tuple(row[name] for name in key): row for row in csv.DictReader(rows)}
    expected = {tuple(str(row[name]) for name in key): row for row in recount(Records(path))}
    if file == "figures/m_gpu.csv":  # which also has the paper's, of workloads not measured
        written = {each: row for each, row in written.items() if each in expected}
    assert written.keys() == expected.keys()
    values = 0
    for each, row in expected.items():
        for name, value in row.items():
            text = written[each][name]
            if isinstance(value, str):
                assert text == value, (each, name)
            elif value is None:
                assert text == "", (each, name)
            else:
                known = pytest.approx(value, rel=1e-5, abs=1e-12)
                assert float(text) == known, (each, name)
            values += 1
    return values


@pytest.mark.parametrize("file", RECOUNTED)
def test_a_recount_gives_the_same_figures(measured, file):
    assert compare(measured, file) > 5
