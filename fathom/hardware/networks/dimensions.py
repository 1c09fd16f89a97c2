"""Sizes that a network leaves open, which the user gives by name."""

from collections.abc import Mapping, Sequence

from fathom.errors import FathomError

_BATCH = "batch"  # the first axis of every input that has no other name


class Dimensions:
    """Looks up open sizes by name, and notes those that are missing.

    An axis is known by the file's own name for it, by ``INPUT.AXIS``, as ``x.1``, or, the first
    axis, by ``batch``. None may be smaller than ``least``.
    """

    def __init__(self, given: Mapping[str, int], least: int = 1) -> None:
        self._given, self._least = dict(given), least
        self._open: list[str] = []
        self._missing: list[str] = []
        self._symbols: set[str] = set()
        self._filled: list[str] = []  # the file's names of axes that have the batch's size

    def shape(
        self, name: str, sizes: Sequence[int | None], symbols: Sequence[str] = ()
    ) -> tuple[int, ...]:
        """Returns the shape of an input; a missing size is 1 until ``check``.

        Args:
            name: of the input.
            sizes: of its axes; None where they are open.
            symbols: the file's names for its axes; empty where there is none.
        """
        own = [*symbols, *[""] * (len(sizes) - len(symbols))]
        return tuple(
            self._size(own[axis], f"{name}.{axis}", axis) if size is None else size
            for axis, size in enumerate(sizes)
        )

    def _size(self, symbol: str, plain: str, axis: int) -> int:
        names = [symbol or plain, plain] + [_BATCH] * (axis == 0)
        self._open += names
        self._symbols.add(symbol)
        for name in names:
            if name in self._given:
                self._filled += [symbol] * (name == _BATCH)
                return self._given[name]
        wanted = symbol or (_BATCH if axis == 0 else plain)
        if wanted not in self._missing:
            self._missing.append(wanted)
        return 1

    def check(self) -> None:
        """Raises FathomError if a size is missing, too small, or given where none is open."""
        if _BATCH in self._symbols:  # an axis of another name is not the batch
            self._missing += sorted({*self._filled} - {"", _BATCH, *self._missing})
        if self._missing:
            options = " ".join(f"--dim {name}=N" for name in self._missing)
            raise FathomError(f"the network leaves sizes open: give {options}")
        for name, size in self._given.items():
            if name not in self._open:
                known = ", ".join(dict.fromkeys(self._open)) or "none"
                raise FathomError(f"--dim {name} has no effect; the open sizes are: {known}")
            if size < self._least:
                raise FathomError(f"--dim {name} must be at least {self._least}, not {size}")
