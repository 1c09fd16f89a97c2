"""Energy counters of the machine: RAPL through Linux's powercap, and a GPU's through NVML.

They count for the whole processor and the whole GPU, other processes included. Powercap's files are
a stable interface of the kernel and are read directly: Zeus, which reads them too, starts a process
for each that executes the user's script again, in the middle of what is being measured. Zeus (the
extra ``[energy]``) reads GPUs.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_POWERCAP = Path("/sys/class/powercap")
_ZONES = {"package": "cpu", "dram": "dram"}  # others are parts of a package, or a sum of all


@dataclass(frozen=True)
class Counter:
    """A counter of energy."""

    name: str  # ``cpu`` (a socket), ``dram`` (its memory) or ``gpu``
    read: Callable[[], float]  # returns the joules so far; raises OSError
    wraps_at: float = math.inf  # joules at which it starts again from zero, after some minutes


class Meter:
    """Sums what counters count between ``start`` and ``stop``.

    Args:
        counters: several of one name are added.
        unread: the reason for each counter that is missing, by name; those that fail join them.
    """

    def __init__(self, counters: Iterable[Counter] = (), unread: dict[str, str] | None = None):
        self._counters = list(counters)
        self._before: list[float] = []
        self.unread = dict(unread or {})
        self.reset()

    def reset(self) -> None:
        """Sets the sums, by name, to zero."""
        self.joules = dict.fromkeys((counter.name for counter in self._counters), 0.0)

    def start(self) -> None:
        """Begins an interval, of less than a counter's range (minutes)."""
        self._before = self._read()

    def stop(self) -> None:
        """Ends the interval and adds it."""
        before, after = self._before, self._read()
        for counter, first, last in zip(self._counters, before, after, strict=False):
            self.joules[counter.name] += (last - first) % counter.wraps_at

    def _read(self) -> list[float]:
        """Returns all counters; gives up all of them if one fails, as the sums are then wrong."""
        try:
            return [counter.read() for counter in self._counters]
        except (OSError, ValueError) as error:
            self.unread |= dict.fromkeys(self.joules, f"failed during the run: {error}")
            self._counters = []
            self.reset()
            return []


def meter(gpu: int | None, powercap: Path = _POWERCAP) -> Meter:
    """Returns a meter of all that can be read on this machine.

    Args:
        gpu: number of the GPU that counts as well, as ``device.gpu_number``; None: none does.
        powercap: folder of the operating system.
    """
    counters, unread = [], {}
    finders = {"cpu": lambda: _zones(powercap)}
    if gpu is not None:
        finders["gpu"] = lambda: _gpu(gpu)
    for name, find in finders.items():
        try:
            counters += find()
        except PermissionError as error:
            unread[name] = f"no permission to read {error.filename}"
        except (OSError, ValueError) as error:
            unread[name] = str(error)
    return Meter(counters, unread)


def _zones(powercap: Path) -> list[Counter]:
    """Returns the counters of the sockets and their memory; OSError if none can be read."""
    if not powercap.is_dir():
        raise OSError(f"no RAPL: {powercap} is absent")
    found = []
    for folder in sorted(powercap.glob("intel-rapl:*")):  # AMD's have this name too
        name = _ZONES.get((folder / "name").read_text().partition("-")[0].strip())
        if name:
            range_j = float((folder / "max_energy_range_uj").read_text()) / 1e6
            found.append(Counter(name, _microjoules(folder / "energy_uj"), range_j))
            found[-1].read()  # may be forbidden
    if not found:
        raise OSError(f"no RAPL: {powercap} has no socket")
    return found


def _microjoules(file: Path) -> Callable[[], float]:
    return lambda: int(file.read_text()) / 1e6


def _gpu(number: int) -> list[Counter]:
    """Returns the counter of a GPU; OSError without Zeus or a counter."""
    try:
        from zeus.device.gpu import get_gpus
        from zeus.exception import ZeusBaseError
    except ImportError:
        raise OSError(
            "extra [energy] not installed: pip install fathom-workloads[energy]"
        ) from None

    def read() -> float:
        try:
            return get_gpus().get_total_energy_consumption(number) / 1e3
        except (ZeusBaseError, IndexError, ValueError) as error:
            raise OSError(f"no counter of the GPU: {' '.join(str(error).split())}") from error

    read()
    return [Counter("gpu", read)]
