"""Energy is that of the counters between start and stop, and its absence has a reason."""

import sys
import types

import pytest

from fathom.system import energy


def zone(folder, name, microjoules, limit=1_000_000):
    folder.mkdir(parents=True)
    for file, value in (("name", name), ("energy_uj", microjoules), ("max_energy_range_uj", limit)):
        (folder / file).write_text(f"{value}\n")
    return folder / "energy_uj"


@pytest.fixture
def powercap(tmp_path):
    """A tree of two sockets, one with memory and one with a part that must not count twice."""
    (tmp_path / "intel-rapl").mkdir()  # the driver's own folder, as on a real machine
    return {
        "0": zone(tmp_path / "intel-rapl:0", "package-0", 900_000),
        "0:0": zone(tmp_path / "intel-rapl:0:0", "dram", 0),
        "0:1": zone(tmp_path / "intel-rapl:0:1", "core", 0),
        "1": zone(tmp_path / "intel-rapl:1", "package-1", 0),
        "2": zone(tmp_path / "intel-rapl:2", "psys", 0),
    }


def count(files, **values):
    for name, value in values.items():
        files[name.replace("_", ":").removeprefix("z")].write_text(f"{value}\n")


def test_sockets_and_memory_are_summed_over_intervals_and_wraps(powercap, tmp_path):
    meter = energy.meter(None, tmp_path)
    assert meter.unread == {}
    meter.start()
    count(powercap, z0=100_000, z0_0=30_000, z0_1=999, z1=500_000, z2=999)  # z0 wrapped
    meter.stop()
    count(powercap, z1=600_000)  # not measured
    meter.start()
    count(powercap, z1=700_000)
    meter.stop()
    assert meter.joules == pytest.approx({"cpu": 0.2 + 0.5 + 0.1, "dram": 0.03})
    meter.reset()
    assert meter.joules == {"cpu": 0.0, "dram": 0.0}


def test_a_machine_without_counters_says_why(tmp_path):
    absent = tmp_path / "powercap"
    assert energy.meter(None, absent).unread == {"cpu": f"no RAPL: {absent} is absent"}
    absent.mkdir()
    assert energy.meter(None, absent).unread == {"cpu": f"no RAPL: {absent} has no socket"}


def test_a_forbidden_counter_is_named(powercap, tmp_path, monkeypatch):
    def forbidden(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    readable = type(powercap["0"]).read_text
    monkeypatch.setattr(
        type(powercap["0"]),
        "read_text",
        lambda path: forbidden(path) if path.name == "energy_uj" else readable(path),
    )
    meter = energy.meter(None, tmp_path)
    assert meter.unread == {"cpu": f"no permission to read {powercap['0']}"}
    assert meter.joules == {}


def test_a_counter_that_fails_ends_the_measurement_and_not_the_run(powercap, tmp_path):
    meter = energy.meter(None, tmp_path)
    meter.start()
    powercap["1"].unlink()
    meter.stop()
    assert meter.joules == {}
    assert "failed during the run" in meter.unread["cpu"]
    meter.start()
    meter.stop()


def test_a_gpu_needs_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zeus.device.gpu", None)
    assert "extra [energy] not installed" in energy.meter(0, tmp_path).unread["gpu"]


def test_the_gpu_of_the_run_is_read_in_millijoules(powercap, tmp_path, monkeypatch):
    class ZeusBaseError(Exception):
        pass

    counted = {0: iter([0] * 3), 1: iter([0, 0, 1000])}
    gpus = types.SimpleNamespace(get_total_energy_consumption=lambda number: next(counted[number]))
    device = types.SimpleNamespace(get_gpus=lambda: gpus)
    for name, module in (
        ("zeus", types.ModuleType("zeus")),
        ("zeus.device", types.ModuleType("zeus.device")),
        ("zeus.device.gpu", device),
        ("zeus.exception", types.SimpleNamespace(ZeusBaseError=ZeusBaseError)),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    meter = energy.meter(1, tmp_path)
    assert meter.unread == {}
    meter.start()
    meter.stop()
    assert meter.joules["gpu"] == 1.0


def test_zeus_without_a_gpu_gives_the_reason(tmp_path):
    pytest.importorskip("zeus", reason="zeus is not installed")
    reason = energy.meter(0, tmp_path).unread.get("gpu")
    assert reason is None or reason.startswith("no counter of the GPU: ")
