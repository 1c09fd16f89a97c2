import importlib
import subprocess
from pathlib import Path

import psutil
import tensorflow as tf

import fathom
from fathom.system import environment
from fathom.system.device import CPU


def test_the_commit_of_a_checkout_is_recorded_and_none_of_an_installed_package():
    root = Path(fathom.__file__).resolve().parents[1]
    recorded = environment.describe(CPU, 1, "float32", "off")["git_commit"]
    if (root / ".git").exists():
        head = ["git", "-C", str(root), "rev-parse", "HEAD"]
        assert recorded == subprocess.run(head, capture_output=True, text=True).stdout.strip()
    else:
        assert recorded is None


def test_what_the_system_does_not_tell_of_its_processor_is_none(monkeypatch):
    assert environment.frequency_mhz() is None or environment.frequency_mhz() > 0
    assert environment.steal_seconds() is None or environment.steal_seconds() >= 0
    monkeypatch.delattr(psutil, "cpu_freq")
    monkeypatch.setattr(psutil, "cpu_times", lambda: object())
    assert environment.frequency_mhz() is None
    assert environment.steal_seconds() is None


def test_a_change_of_a_workloads_code_changes_the_digest_of_the_source(tmp_path, monkeypatch):
    package = tmp_path / "another_workload"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(package.name)
    before = environment.software(f"{package.name}.model")
    assert environment.software(f"{package.name}.model") == before
    (package / "model.py").write_text("WIDTH = 3\n")
    after = environment.software(f"{package.name}.model")
    assert after["source"] != before["source"] != environment.software("fathom")["source"]
    assert before["TensorFlow"] == after["TensorFlow"] == tf.__version__
