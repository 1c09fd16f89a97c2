"""A server with dynamic batching: a batch starts when the engine is free, with what waits."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fathom.errors import FathomError
from fathom.measure.serving.engine import Engine, shapes_of

_LONGEST_STOP = 60.0  # seconds for the batch that runs when the server stops


@dataclass(frozen=True)
class Query:
    """One sample to infer.

    Attributes:
        number: of the sample.
        id: of the query, as the load generator names it.
        issued: when, by ``time.perf_counter``.
    """

    number: int
    id: int
    issued: float = field(default_factory=time.perf_counter)


class Server:
    """Answers queries in batches of samples of equal shapes, the longest waiting first.

    It never delays a batch in the hope of more queries.

    Args:
        engine: runs the batches.
        answer: called with the ids of each batch's queries.

    Attributes:
        batches: number of batches by size.
        first_tokens: seconds from each query to its first token, if the engine generates tokens.
        decodes: seconds from the first to the last token of each.
        failure: the exception that ended the engine's work; queries are then answered unserved, so
            that no client waits.
    """

    def __init__(self, engine: Engine, answer: Callable[[Sequence[int]], None]) -> None:
        self.batches: Counter[int] = Counter()
        self.first_tokens: list[float] = []
        self.decodes: list[float] = []
        self.failure: BaseException | None = None
        self._engine, self._answer = engine, answer
        self._waiting: deque[Query] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name="server", daemon=True)
        self._thread.start()

    def issue(self, queries: Sequence[Query]) -> None:
        """Adds queries to those that wait."""
        with self._changed:
            self._waiting.extend(queries)
            self._changed.notify()

    def stop(self) -> None:
        """Ends the server's thread.

        Raises:
            FathomError: a batch failed, or does not end.
        """
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(_LONGEST_STOP)
        if self.failure:
            raise FathomError(f"the inference failed: {self.failure}") from self.failure
        if self._thread.is_alive():
            raise FathomError(f"a batch of the server ran for more than {_LONGEST_STOP:.0f} s")

    def _serve(self) -> None:
        while batch := self._next_batch():
            try:
                if self.failure is None:
                    first = self._engine.run([query.number for query in batch])
                    self.batches[len(batch)] += 1
                    if first is not None:
                        self.first_tokens += [first - query.issued for query in batch]
                        self.decodes += [time.perf_counter() - first] * len(batch)
            except Exception as failure:  # of the model: reported by stop()
                self.failure = failure
            self._answer([query.id for query in batch])

    def _next_batch(self) -> list[Query]:
        """Waits for queries; returns the next batch, empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            if not self._waiting:
                return []
            samples = self._engine.samples
            shapes = shapes_of(samples[self._waiting[0].number])
            batch: list[Query] = []
            others: list[Query] = []
            while self._waiting and len(batch) < self._engine.limit:
                query = self._waiting.popleft()
                fits = shapes_of(samples[query.number]) == shapes
                (batch if fits else others).append(query)
            self._waiting.extendleft(reversed(others))
            return batch
