"""``python -m fathom``: the commands about all workloads."""

import importlib.metadata
import re
import runpy
import sys

import pytest
from commands import SMALL, refusal, run

from fathom import workloads
from fathom.__main__ import main
from fathom.cli.run import run_workload


def test_list_shows_all_with_their_counts_and_names_those_that_cannot_be_used(capsys, install):
    install("fathom-broken", {"broken": "broken_module:Broken", "vgg": "broken_module:VGG"})
    assert run(main, ["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines}
    assert set(workloads.names()) - {"broken"} < set(rows)
    assert "cannot be used: No module named 'broken_module'" in rows["broken:"]
    assert "takes a name that is Fathom's own" in rows["vgg:"]
    assert "815,824" in rows["autoenc"]
    assert "724,406,816" in rows["alexnet"]


def test_run_is_another_word_for_the_module(capsys):
    assert run(main, ["run", "autoenc", *SMALL, "--steps=1"]) == 0
    assert "step 1/1" in capsys.readouterr().out


@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_starts_alike(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["python", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module(f"fathom.{name}", run_name="__main__")
    assert capsys.readouterr().out.startswith(f"usage: fathom.{name} ")
    kind = workloads.load(name)
    assert getattr(importlib.import_module(f"fathom.{name}"), kind.__name__) is kind


def test_no_help_shows_a_value_as_python_writes_it(capsys):
    for command in ("scale", "formats", "describe", "run"):
        assert run(main, [command, "--help"]) == 0
        assert not re.search(r"default: [\[('{]", " ".join(capsys.readouterr().out.split()))


def test_without_a_command_the_help_is_printed(capsys):
    assert run(main, []) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("usage: fathom ")
    assert "characterize" in printed


def test_the_version_is_the_packages(capsys):
    try:
        version = importlib.metadata.version("fathom-workloads")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed"
    for command in (lambda: main(["--version"]), lambda: run_workload("alexnet", ["--version"])):
        assert run(command) == 0
        printed = capsys.readouterr().out
        assert printed.startswith("fathom-workloads")
        assert version in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "alexnot"], "did you mean alexnet?"),
        (["lst"], "invalid choice"),
        (["run"], "required"),
        (["export", "autoenc", "--to=json", "--workers=--"], "--workers is --: give a value"),
    ],
)
def test_a_mistake_is_answered_by_one_line(arguments, message, capsys):
    assert message in refusal(capsys, run(main, arguments))
