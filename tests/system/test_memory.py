import resource
from types import SimpleNamespace

import pytest

from fathom import FathomError
from fathom.system import cgroups, memory

GIB = 2**30


def test_the_least_of_what_is_free_counts(monkeypatch):
    limits = [(8 * GIB, ""), (2 * GIB, " in the job"), (4 * GIB, "")]
    monkeypatch.setattr(memory, "_limits", lambda: iter(limits))
    memory.require_free_memory(2 * GIB, "it", "take less")
    with pytest.raises(FathomError) as refusal:
        memory.require_free_memory(3 * GIB, "it", "take less")
    assert str(refusal.value) == (
        "it would take 3,221,225,472 bytes (3.0 GiB), and 2.0 GiB are free in the job: take less"
    )


def test_a_limit_of_the_address_space_counts(monkeypatch):
    process = SimpleNamespace(memory_info=lambda: SimpleNamespace(vms=3 * GIB))
    monkeypatch.setattr(memory.psutil, "Process", lambda: process)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (5 * GIB, 5 * GIB))
    assert 2 * GIB in [free for free, _ in memory._limits()]
    memory.require_address_space()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (GIB, GIB))
    with pytest.raises(FathomError, match=r"ulimit -v\) is 1.0 GiB, and TensorFlow alone needs"):
        memory.require_address_space()


@pytest.mark.parametrize(
    ("line", "limit", "use", "cached"),
    [
        ("0::/job/step", "memory.max", "memory.current", "inactive_file 300\n"),
        (
            *("4:cpu,memory:/job/step", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            "inactive_file 0\ntotal_inactive_file 300\n",  # the step's is no file of the job's own
        ),
    ],
)
def test_limits_of_control_groups_count_without_the_file_cache(
    line, limit, use, cached, tmp_path, monkeypatch
):
    def write(group, **files):
        group.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (group / {"limit": limit, "use": use, "stat": "memory.stat"}[name]).write_text(text)

    root = tmp_path / "root"
    write(root / "job" / "step", limit="max", use="100", stat="anon 5\ninactive_file 3\n")
    write(root / "job", limit="1000", use="700", stat=f"anon 5\n{cached}")
    monkeypatch.setattr(memory, "_CGROUPS", [(name, root, limit, use) for name in ("", "memory")])
    (tmp_path / "cgroup").write_text(f"{line}\n")
    monkeypatch.setattr(cgroups, "_PROCESS", tmp_path / "cgroup")
    assert list(memory._free_in_cgroups()) == [600]


def test_a_system_without_control_groups_has_no_limits_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_PROCESS", tmp_path / "none")
    assert list(memory._free_in_cgroups()) == []
