"""Commands that compute nothing start without TensorFlow, whose import takes seconds."""

import subprocess
import sys

import pytest
import synthetic_folder

PROGRAM = """
import argparse, contextlib, importlib, io, pkgutil, sys

import fathom.cli
from fathom import workloads
from fathom.__main__ import _parser, main
from fathom.cli import suite
from fathom.cli.run import run_workload


def check(name, command, arguments):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            command(arguments)
    except SystemExit as end:
        assert not end.code, (name, said.getvalue())
    loaded = {"tensorflow", "keras"} & set(sys.modules)
    assert not loaded, f"{name} {' '.join(arguments)} imports {loaded}"


def paths(parser):
    yield []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from ([name, *rest] for rest in paths(below))


helps = [[*path, "--help"] for path in paths(_parser())]
assert len(helps) > 10
for arguments in helps:
    check("fathom", main, arguments)
for name in workloads.EIGHT:
    check(name, lambda arguments: run_workload(name, arguments), ["--help"])
check("runtest.sh", suite.main, ["--help"])
for module in ("results.records", "results.profile", "results.characterization", "measure"):
    importlib.import_module(f"fathom.{module}")
check("fathom", main, ["list"])
assert "scipy" not in sys.modules, "fathom list imports scipy"
check("fathom", main, ["list", "--criteria"])
folder, out = sys.argv[1:]
check("fathom", main, ["compare", folder, folder])
check("fathom", main, ["report", folder, "--out", out])
names = {module.name for module in pkgutil.iter_modules(fathom.cli.__path__)}
for name in names - {"progress"}:  # which a run imports after TensorFlow
    importlib.import_module(f"fathom.cli.{name}")
    assert "tensorflow" not in sys.modules, name
"""


@pytest.fixture
def folder(tmp_path):
    """Results of one workload that was timed twice and profiled."""
    runs = [synthetic_folder.run(repeat=i) for i in range(2)]
    runs.append(synthetic_folder.run(profile=synthetic_folder.paper_profile("autoenc")))
    return synthetic_folder.write(tmp_path / "folder", runs)


@pytest.mark.slow
def test_help_list_compare_and_report_do_without_tensorflow(folder, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(folder), str(tmp_path / "report")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "report" / "report.html").exists()
