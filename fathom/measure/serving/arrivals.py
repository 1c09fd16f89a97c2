"""When queries arrive, and how long they are: drawn in bursts, or replayed from public traces.

Traces: the LLM inference traces of Azure (CSV with TIMESTAMP, ContextTokens, GeneratedTokens; Patel
et al. 2024, "Splitwise") and of Mooncake (JSON lines with timestamp in milliseconds, input_length,
output_length; Qin et al. 2025).
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fathom.errors import FathomError
from fathom.measure.serving.decoding import Prompt
from fathom.system.files import read_file

FEWEST = 662
"""Queries that a drawn run has at least: as many as LoadGen needs for the 99th percentile."""
FEWEST_NEW = 2
"""Generated tokens of a query, so that there is a time from one to the next."""


@dataclass(frozen=True)
class Gamma:
    """Independent intervals of a gamma distribution; a burst is many short ones."""

    variation: float  # coefficient of variation of the intervals; 1: a Poisson process

    @property
    def name(self) -> str:
        """The distribution and its parameter."""
        return f"gamma, coefficient of variation {self.variation:g}"

    def schedule(self, rate: float | None, duration: float, seed: int) -> np.ndarray:
        """Returns the times of arrivals in order, in seconds, with the rate; the first is 0.

        Args:
            rate: queries per second; None, as recorded, is for a trace.
            duration: in seconds; it has ``FEWEST`` arrivals where the rate has fewer.
            seed: of what is drawn.

        Raises:
            FathomError: there is no rate.
        """
        if rate is None:
            raise FathomError("intervals that are drawn need a rate")
        count, shape = max(FEWEST, round(rate * duration)), self.variation**-2
        times = np.cumsum(np.random.default_rng(seed).gamma(shape, size=count - 1))
        return np.concatenate([[0.0], times * ((count - 1) / (rate * times[-1]))])


@dataclass(frozen=True)
class Trace:
    """Recorded arrivals."""

    name: str  # of the file
    times: np.ndarray  # seconds from the first arrival, in order
    prompt_tokens: np.ndarray  # of each query
    new_tokens: np.ndarray  # generated for each

    def schedule(self, rate: float | None, duration: float, seed: int) -> np.ndarray:
        """Returns the first arrivals: those within the duration, or as many as the rate has in it.

        The latter are stretched or compressed to the rate.

        Raises:
            FathomError: they are all at one time.
        """
        within = (
            int(rate * duration) + 1 if rate else np.searchsorted(self.times, duration, "right")
        )
        times = self.times[:within]
        if not times[-1]:
            raise FathomError(
                f"{self.name} has no two arrivals at different times in {duration:g} s: give more"
            )
        return times * ((len(times) - 1) / (rate * times[-1]) if rate else 1)

    def prompts(
        self, texts: Sequence[np.ndarray], prompt_tokens: int, new_tokens: int
    ) -> list[Prompt]:
        """Returns a prompt for each query, with lengths in proportion to the recorded ones.

        Args:
            texts: tokens, of which the prompts are made.
            prompt_tokens: of the longest prompt.
            new_tokens: the most that are generated.

        Raises:
            FathomError: they are too few.
        """
        _require_several(new_tokens)
        lengths = np.ceil(self.prompt_tokens * prompt_tokens / self.prompt_tokens.max())
        new = np.ceil(self.new_tokens * new_tokens / self.new_tokens.max())
        lengths, new = lengths.clip(1).astype(int), new.clip(FEWEST_NEW).astype(int)
        together = np.concatenate(texts)
        starts = np.arange(len(self.times)) * prompt_tokens
        return [
            Prompt(together.take(np.arange(start, start + length), mode="wrap"), int(count))
            for start, length, count in zip(starts, lengths, new, strict=True)
        ]


Arrivals: TypeAlias = Gamma | Trace


def uniform(texts: Sequence[np.ndarray], new_tokens: int, seed: int) -> list[Prompt]:
    """Returns a prompt for each text: 1 token to all, continued by 2 to ``new_tokens`` tokens.

    Raises:
        FathomError: they are too few.
    """
    _require_several(new_tokens)
    rng = np.random.default_rng(seed)
    return [
        Prompt(
            text[: rng.integers(1, len(text) + 1)], int(rng.integers(FEWEST_NEW, new_tokens + 1))
        )
        for text in texts
    ]


def _require_several(new_tokens: int) -> None:
    if new_tokens < FEWEST_NEW:
        raise FathomError(f"load tests need new_tokens of at least {FEWEST_NEW}, not {new_tokens}")


def read_trace(path: Path) -> Trace:
    """Reads a trace: Azure's from a file .csv, Mooncake's from .jsonl.

    Raises:
        FathomError: the file is no such trace.
    """
    if path.suffix not in _READERS:
        raise FathomError(f"{path} is no trace: name Azure's .csv or Mooncake's .jsonl")
    try:
        rows = _READERS[path.suffix](read_file(path).decode())
    except KeyError as error:
        raise FathomError(f"{path} has a query without {error}") from error
    except (ValueError, TypeError, OverflowError, RecursionError, csv.Error) as error:
        raise FathomError(f"{path} is no trace of Azure's or Mooncake's form: {error}") from error
    times, prompts, new = np.array(sorted(rows)).reshape(-1, 3).T
    if not (np.isfinite([times, prompts, new]).all() and len(times) > 1 and times[-1] > times[0]):
        raise FathomError(f"{path} has no two arrivals at different times")
    if prompts.min() < 0 or new.min() < 0 or not prompts.max() or not new.max():
        raise FathomError(f"{path} has no numbers of tokens, or some below 0")
    return Trace(path.name, times - times[0], prompts, new)


def _azure(text: str) -> list[tuple[float, float, float]]:
    start = datetime(2000, 1, 1)
    return [
        (
            # A digit more than Python 3.10 reads, and a time zone in some of the traces.
            (
                datetime.fromisoformat(row["TIMESTAMP"].partition("+")[0][:26].rstrip("Z")) - start
            ).total_seconds(),
            float(row["ContextTokens"]),
            float(row["GeneratedTokens"]),
        )
        for row in csv.DictReader(io.StringIO(text), restval="")
    ]


def _mooncake(text: str) -> list[tuple[float, float, float]]:
    rows = (json.loads(line) for line in text.splitlines() if line.strip())
    return [
        (float(row["timestamp"]) / 1e3, float(row["input_length"]), float(row["output_length"]))
        for row in rows
    ]


_READERS = {".csv": _azure, ".jsonl": _mooncake}
