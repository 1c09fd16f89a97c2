"""``fathom list --criteria``: the tables of the Fathom paper for the suite and for plug-ins."""

from pathlib import Path

import pytest
from commands import run

from fathom import workloads
from fathom.__main__ import main
from fathom.model.descriptor import DOMAINS, STYLES, TASKS

PLUGIN = """
from fathom import MemNet, MemNetFwd
from fathom.model.descriptor import Criteria

class Pool(MemNet):
    name = "pool"
    criteria = Criteria(2031, ("attention",), 77, "reinforcement", "graphs", "Pond", "Ripples.")

class PoolFwd(MemNetFwd):
    name = "pool"

class Bare(MemNet):
    name, criteria = "bare", None

class BareFwd(MemNetFwd):
    name = "bare"
"""


SUITE = {name: workloads.descriptor(name).criteria for name in workloads.select("eight,modern")}


def test_every_workload_of_the_suite_has_its_criteria():
    for criteria in SUITE.values():
        assert criteria.styles
        assert set(criteria.styles) <= set(STYLES)
        assert criteria.task in TASKS
        assert criteria.domain in DOMAINS


def test_the_eight_are_as_the_paper_prints_them():
    rows = {name: (each.year, each.layers, each.task) for name, each in SUITE.items()}
    assert rows["residual"] == (2015, 34, "supervised")
    assert rows["alexnet"] == (2012, 5, "supervised")
    assert rows["autoenc"] == (2014, 3, "unsupervised")
    assert rows["deepq"] == (2013, 5, "reinforcement")


def test_a_plugin_brings_its_own_and_one_without_is_named(tmp_path, install, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "250")
    (tmp_path / "fathom_pond.py").write_text(PLUGIN)
    install("pond", {"pool": "fathom_pond:Pool", "bare": "fathom_pond:Bare"}, tmp_path)
    assert run(main, ["list", "--criteria"]) == 0
    printed = capsys.readouterr().out
    for text in ("2031", "attention", "77", "reinforcement", "Pond", "Ripples."):
        assert text in printed
    assert "bare: it has no criteria" in printed


@pytest.mark.parametrize("name", SUITE)
def test_the_page_has_the_same_rows(name):
    page = (Path(__file__).parents[2] / "docs" / "criteria.md").read_text()
    each = SUITE[name]
    cells = (name, each.year, ", ".join(each.styles), each.layers, each.task, each.dataset)
    assert f"| {' | '.join(map(str, cells))} | {each.legacy} |" in page
