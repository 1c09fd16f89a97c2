import os

import pytest
import tensorflow as tf

from fathom.system import cgroups, inspection
from fathom.system.inspection import inspect


def lines():
    return {line.name: line for line in inspect()}


def test_every_part_of_the_machine_has_a_line():
    found = lines()
    assert list(found) == [
        *("processor", "instruction sets", "cores", "load", "memory", "allocator"),
        *("oneDNN", "XLA", "threads", "GPU", "versions", "data", "cache"),
    ]
    assert all(line.found for line in found.values())
    assert tf.__version__ in found["versions"].found


def test_what_costs_speed_has_a_hint(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    limit_cores(monkeypatch, tmp_path, outer="50000 100000", inner="400000 100000")
    monkeypatch.setattr(inspection, "_LITTLE_SPACE", float("inf"))
    hints = {name: line.hint for name, line in lines().items() if line.hint}
    assert "AVX2" in hints["instruction sets"]
    assert "not a folder" in hints["data"]
    assert "other processes" in hints["load"]
    assert "0.5 of them: --threads 1" in hints["cores"]
    assert "little space" in hints["cache"]
    if not tf.config.get_visible_devices("GPU"):
        assert "CUDA_VISIBLE_DEVICES=-1" in hints["GPU"]


def test_the_data_folder_is_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path))
    assert lines()["data"].found == f"{tmp_path}: empty"
    (tmp_path / "mnist").mkdir()
    assert lines()["data"].found == f"{tmp_path}: mnist"


def test_a_quota_without_limit_is_none(monkeypatch, tmp_path):
    limit_cores(monkeypatch, tmp_path, outer=None, inner="max 100000")
    assert inspection._quota() is None


def limit_cores(monkeypatch, root, outer, inner):
    """Puts this process into a control group within another, each with a quota."""
    (root / "job" / "step").mkdir(parents=True)
    for group, quota in (("job", outer), ("job/step", inner)):
        if quota:
            (root / group / "cpu.max").write_text(f"{quota}\n")
    (root / "cgroup").write_text("0::/job/step\n")
    monkeypatch.setattr(cgroups, "_PROCESS", root / "cgroup")
    monkeypatch.setattr(inspection, "_CGROUPS", root)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_data_folder_that_cannot_be_read_is_a_hint(monkeypatch, tmp_path):
    tmp_path.chmod(0)
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path))
    assert "cannot be read" in lines()["data"].hint


def test_a_file_that_another_process_removes_takes_no_space(tmp_path):
    assert inspection._size(tmp_path / "gone") == 0
