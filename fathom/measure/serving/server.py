"""A server with dynamic batching: a batch starts when the engine is free, with what waits."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from fathom.errors import FathomError
from fathom.measure.serving.engine import Engine, shapes_of

_LONGEST_STOP = 60.0  # seconds for the step that runs when the server stops


class _Cancellable(Protocol):
    cancelled: bool


Waiting = TypeVar("Waiting", bound=_Cancellable)


@dataclass(eq=False)
class Query:
    """One sample to infer, and what became of it; times are of ``time.perf_counter``."""

    sample: Any  # what is to be inferred: a tuple of arrays, or a ``Prompt``
    id: int = 0  # of the query, as the load generator names it
    issued: float = field(default_factory=time.perf_counter)  # when it was sent
    first: float | None = None  # when its first token was there; None: there is none
    answered: float | None = None  # when it was answered; None: it is not
    tokens: int = 0  # that were generated
    outputs: list[Any] = field(default_factory=list)  # arrays, or the tokens; none from an endpoint
    error: BaseException | None = None  # why it failed
    cancelled: bool = False  # set it to leave the query out of the next batch


Answer = Callable[[Sequence[Query]], None]
"""Called with queries at their first token, if they generate any, and when they are answered."""


class Target(Protocol):
    """What answers queries: a server in this process, or an endpoint somewhere."""

    batches: Counter[int]  # number of batches by size, as far as they are known

    def issue(self, queries: Sequence[Query]) -> None:
        """Takes queries; each is answered later, also if it fails."""

    def stop(self) -> None:
        """Ends, after all queries.

        Raises:
            FathomError: the network failed, or the end takes too long.
        """


class Worker(Generic[Waiting]):
    """A thread that answers what waits: what servers have in common.

    A subclass calls ``__init__`` last, which starts the thread.
    """

    def __init__(self) -> None:
        self.failure: BaseException | None = None  # the first exception of the network
        self._waiting: deque[Waiting] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name="server", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """What is neither begun yet nor cancelled."""
        with self._changed:
            return sum(not each.cancelled for each in self._waiting)

    def stop(self) -> None:
        """Ends the thread, after all that waits.

        Raises:
            FathomError: the network failed, or does not end.
        """
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(_LONGEST_STOP)
        if self.failure:
            raise FathomError(f"the inference failed: {self.failure}") from self.failure
        if self._thread.is_alive():
            raise FathomError(f"the server did not end within {_LONGEST_STOP:.0f} s")

    def _add(self, new: Sequence[Waiting]) -> None:
        with self._changed:
            self._waiting.extend(new)
            self._changed.notify()

    def _serve(self) -> None:
        """Answers until ``_stopped``, and nothing waits."""
        raise NotImplementedError


class Server(Worker[Query]):
    """Answers queries in batches of samples of equal shapes, the longest waiting first.

    It never delays a batch in the hope of more queries. If a batch fails, each of its queries is
    tried alone, so that one that the network cannot take spoils no other.
    """

    def __init__(self, engine: Engine, answer: Answer) -> None:
        self.batches: Counter[int] = Counter()  # number of batches by size
        self._engine, self._answer = engine, answer
        super().__init__()

    def issue(self, queries: Sequence[Query]) -> None:
        """Adds queries to those that wait."""
        self._add(queries)

    def _serve(self) -> None:
        while batch := self._next_batch():
            self._run([query for query in batch if not query.cancelled])
            now = time.perf_counter()
            for query in batch:
                query.answered = now
            self._answer(batch)

    def _run(self, batch: Sequence[Query]) -> None:
        if not batch:
            return
        try:
            outputs = self._engine.run([query.sample for query in batch])
        except Exception as failure:  # of the model: reported by stop()
            self.failure = self.failure or failure
            if len(batch) > 1:
                for query in batch:
                    self._run([query])
            else:
                batch[0].error = failure
            return
        self.batches[len(batch)] += 1
        for i, query in enumerate(batch):
            query.outputs = [output[i] for output in outputs]

    def _next_batch(self) -> list[Query]:
        """Waits for queries; returns the next batch, empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            if not self._waiting:
                return []
            shapes = shapes_of(self._waiting[0].sample)
            batch: list[Query] = []
            others: list[Query] = []
            while self._waiting and len(batch) < self._engine.limit:
                query = self._waiting.popleft()
                (batch if shapes_of(query.sample) == shapes else others).append(query)
            self._waiting.extendleft(reversed(others))
            return batch
