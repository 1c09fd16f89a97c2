"""Packages of other kinds than pip's ask for what pip's does, and the wheel has all its files."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "examples/packages"
LIMIT_S = 300


def required(lines):
    """The names and limits of requirements, as a set of texts without spaces and extras."""
    return {re.sub(r"\s|\[.*?\]", "", line) for line in lines}


def test_the_recipe_for_conda_has_the_requirements_of_the_package():
    recipe = yaml.safe_load((PACKAGES / "recipe.yaml").read_text())
    ours = [line for line in metadata.requires("fathom-workloads") if "extra ==" not in line]
    theirs = required(recipe["requirements"]["run"])
    assert {line for line in theirs if not line.startswith("python>")} == {
        # metadata sorts the limits otherwise: tensorflow<2.22,>=2.20
        next(t for t in theirs if sorted(re.split("[,<>=]+", t)) == sorted(re.split("[,<>=]+", o)))
        for o in required(ours)
    }
    assert recipe["package"]["version"] == metadata.version("fathom-workloads")


@pytest.mark.parametrize("name", ["Dockerfile", "fathom.def"])
def test_an_image_installs_the_checkout_and_runs_a_workload(name):
    text = (PACKAGES / name).read_text()
    assert "pip install --no-cache-dir /source" in text
    assert "python:3.12-slim" in text
    assert re.search(r"python.*-m.*fathom.*run", text)
    assert "Not built here" in text


def test_the_nightly_comparison_uses_options_that_exist():
    from fathom.__main__ import _parser

    jobs = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())["jobs"]
    (script,) = [s["run"] for s in jobs["compare"]["steps"] if s.get("name") == "Compare"]
    command = re.search(r"-m fathom (compare .*?) \| tee", script.replace("\\\n", ""), re.S)[1]
    words = re.findall(r'"[^"]*"|\S+', command)
    args = _parser().parse_args([word.strip('"') for word in words])
    assert args.interleave
    assert len(args.others) == 1


def test_the_installed_package_has_all_files_and_runs(tmp_path):
    tracked = subprocess.run(
        ["git", "ls-files", "fathom"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    installed = {str(path) for path in metadata.files("fathom-workloads") or []}
    if not tracked or "fathom/__init__.py" not in installed:
        pytest.skip("needs a checkout, and the package installed from its wheel, as .ci/run does")
    assert set(tracked) - installed == set()
    shown = subprocess.run(
        [sys.executable, "-m", "fathom", "explore", "autoenc", "--machine", "virtex7-485t"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    ).stdout
    assert "Virtex" in shown
