import os

import pytest
from commands import run

from fathom import workloads
from fathom.__main__ import main
from fathom.cli import listing
from fathom.imagenet.ilsvrc import ImageNet
from fathom.speech.timit import Timit

SUITE = workloads.select("eight,modern")

UNDESCRIBED = """
from fathom import MemNet

class Pool(MemNet):
    name = "pool"
    title = "network without a descriptor"

class PoolFwd(Pool):
    forward_only = True
"""


def test_the_list_has_every_workload_with_its_descriptors_counts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    assert run(main, ["list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    by_name = {row[0]: row for row in rows}
    for name in SUITE:
        described = workloads.descriptor(name)
        assert {f"{described.parameters:,}", f"{described.macs:,}"} <= set(by_name[name])
    assert "with synthetic data" in " ".join(rows[-1])


@pytest.mark.parametrize("command", [["list"], ["data", "list"]])
def test_a_data_folder_that_cannot_be_read_is_named_in_its_row(
    command, tmp_path, capsys, monkeypatch
):
    (tmp_path / "d" / "mnist").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path.name != "mnist" and access(path, mode)
    )
    monkeypatch.setenv("FATHOM_DATA_DIR", "d")
    assert run(main, command) == 0
    rows = capsys.readouterr().out.splitlines()
    (row,) = [row for row in rows if row.split()[:1] in (["autoenc"], ["mnist"])]
    assert "d/mnist cannot" in row
    assert any("imagenet" in row and row.split()[-1] == "synthetic" for row in rows)


def test_a_workload_without_a_descriptor_is_built_to_be_counted(install, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    install("pond", {"pool": "pond_pool:Pool"}, pond_pool=UNDESCRIBED)
    assert run(main, ["list"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "without a descr" in line]
    assert "5,520" in row


@pytest.mark.parametrize("name", SUITE)
def test_a_descriptor_has_the_names_of_the_registration_and_of_the_data_sets(name):
    described, model = workloads.descriptor(name), workloads.load(name)
    assert described.name == model.name == name
    assert list(described.datasets) == [dataset.name for dataset in model.datasets]


def test_a_data_set_that_stands_in_where_tensorflow_is_missing_is_found_by_its_name():
    for dataset in (ImageNet, Timit):
        stand_in = listing._dataset(dataset.name, "tensorflow_that_is_missing:Set")
        for attribute in ("name", "nested", "files"):
            assert getattr(stand_in, attribute) == getattr(dataset, attribute)
        assert stand_in.packaged() == dataset.packaged()
