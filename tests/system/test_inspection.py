import os

import tensorflow as tf

from fathom.system import inspection
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
    quota = tmp_path / "cpu.max"
    quota.write_text("50000 100000\n")
    monkeypatch.setattr(inspection, "_QUOTA", quota)
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
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(inspection, "_QUOTA", quota)
    assert inspection._quota() is None
    quota.write_text("max 100000\n")
    assert inspection._quota() is None
