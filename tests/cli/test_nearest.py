"""``fathom nearest``: a network among the workloads."""

import json

import pytest
from commands import fathom, refusal

from fathom import FathomError, workloads
from fathom.results.nearest import Nearest

SUITE = ("autoenc", "gcn", "memnet")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(workloads, "names", lambda: list(SUITE))


def nearest(*arguments):
    return fathom("nearest", *arguments)


def test_a_workload_is_nearest_to_itself(tmp_path, capsys):
    written, drawn = tmp_path / "n.json", tmp_path / "n.svg"
    assert nearest("autoenc", "--infer", "--json", written, "--svg", drawn) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "autoenc is nearest to autoenc (distance 0.00) and memnet (distance 0." in out
    found = Nearest.read(written)
    assert {each.workload for each in found.archetypes} == set(SUITE)
    assert (found.mode, found.archetypes[0].batch_size) == ("infer", 100)
    assert "autoenc (yours)" in drawn.read_text()


def test_a_description_is_compared_in_its_own_mode_and_printed(tmp_path, capsys):
    written = tmp_path / "d.json"
    assert fathom("describe", "memnet", "--train", "--json", written) == 0
    capsys.readouterr()
    assert nearest(written, "--json", "-") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["mode"] == "train"
    assert json.loads(printed.out)["archetypes"][0]["workload"] == "memnet"
    assert "memnet is nearest to memnet" in printed.err


def test_a_workload_that_cannot_be_described_is_named(monkeypatch, capsys):
    load = workloads.load

    def only_gcn(name, forward_only=False):
        if name == "gcn":
            return load(name, forward_only)
        raise FathomError("it is not here")

    monkeypatch.setattr(workloads, "load", only_gcn)
    assert nearest("gcn", "--infer") == 0
    assert "autoenc is left out: it is not here" in capsys.readouterr().out


def test_without_any_workload_there_is_an_error(monkeypatch, tmp_path, capsys):
    written = tmp_path / "d.json"
    assert fathom("describe", "gcn", "--infer", "--json", written) == 0
    monkeypatch.setattr(workloads, "names", list)
    assert "no workload can be described" in refusal(capsys, nearest(written))
