"""A server that generates text, with continuous or static batching."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fathom.errors import FathomError
from fathom.measure.serving.decoding import CHUNK, Cached, DecodingEngine, Prompt
from fathom.measure.serving.server import Answer, Query, Worker
from fathom.results.serving import Batching


@dataclass(eq=False)
class Request:
    """A prompt to continue.

    Attributes:
        prompt: the tokens.
        emit: called by the server's thread with each token, and whether it is the last; with None,
            at the end, if the inference failed or the request was cancelled.
        temperature: divisor of the logits; 0: the most probable token.
        top_k: choose among the most probable; 0: among all.
        top_p: choose among the fewest that have this probability together; 1: among all.
        seed: of the choice, which does not depend on the other requests.
        cancelled: set it to end the request.
    """

    prompt: Prompt
    emit: Callable[[int | None, bool], None]
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    cancelled: bool = False


@dataclass(eq=False)
class _Running:
    request: Request
    cached: Cached
    rng: np.random.Generator
    last: int = 0  # the newest token
    written: int = 0  # new tokens

    @property
    def unread(self) -> np.ndarray:
        """What is left of the prompt."""
        return self.request.prompt.tokens[self.cached.length :]

    @property
    def decodes(self) -> bool:
        """Whether the prompt is read."""
        return self.cached.length >= len(self.request.prompt.tokens)


class GenerationServer(Worker[Request]):
    """Continues prompts token by token, many sequences at once, in the order of their arrival.

    With continuous batching (Yu et al. 2022, "Orca") a request joins the others before any step, as
    soon as it is among the most sequences at once and the cache has blocks for its prompt and all
    its new tokens: no running sequence ever waits for memory. Long prompts are read in parts,
    between the steps of the others (Agrawal et al. 2024, "Sarathi-Serve"). With static batching a
    batch runs to its end, without those that ended before, and then the next begins.

    Attributes:
        batches: number of decoding steps by sequences.
    """

    def __init__(self, engine: DecodingEngine, batching: Batching = "continuous") -> None:
        self.batches: Counter[int] = Counter()
        self._engine, self._static = engine, batching == "static"
        self._running: list[_Running] = []
        super().__init__()

    def submit(self, *requests: Request) -> None:
        """Adds requests to those that wait.

        Raises:
            FathomError: a prompt is empty, or with its new tokens longer than the context.
        """
        for prompt in (request.prompt for request in requests):
            length, context = len(prompt.tokens), self._engine.decoder.context
            if not length or prompt.new_tokens < 1 or length + prompt.new_tokens > context:
                raise FathomError(
                    f"a prompt of {length} tokens and {prompt.new_tokens} new ones do not fit: at "
                    f"least one of each, and {context} together"
                )
        self._add(requests)

    def _serve(self) -> None:
        while self._admit():
            try:
                self._read_prompts()
                self._decode()
            except Exception as failure:  # of the model: reported by stop()
                self.failure = self.failure or failure
                for running in list(self._running):
                    self._end(running, None)

    def _admit(self) -> bool:
        """Waits for requests and takes those for which there is room; False: there are no more."""
        with self._changed:
            if not self._running:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
            for running in [each for each in self._running if each.request.cancelled]:
                self._end(running, None)
            full = self._static and bool(self._running)
            while self._waiting and not full and len(self._running) < self._engine.limit:
                request = self._waiting[0]
                if request.cancelled:
                    request.emit(None, True)
                else:
                    prompt = request.prompt
                    # The last token is not read, and needs no place.
                    table = self._engine.pool.take(len(prompt.tokens) + prompt.new_tokens - 1)
                    if table is None:
                        break
                    rng = np.random.default_rng(request.seed)
                    self._running.append(_Running(request, Cached(table), rng))
                self._waiting.popleft()
            return bool(self._running or self._waiting or not self._stopped)

    def _read_prompts(self) -> None:
        """Reads prompts: of continuous batching, at most ``CHUNK`` tokens before the next step."""
        left = CHUNK
        for running in list(self._running):
            while not running.decodes and (left > 0 or self._static):
                part = running.unread[: CHUNK if self._static else left]
                logits = self._engine.read(running.cached, part)
                left -= len(part)
                if not len(running.unread):
                    self._write(running, logits)

    def _decode(self) -> None:
        decoding = [each for each in self._running if each.decodes]
        if not decoding:
            return
        tokens = [each.last for each in decoding]
        logits = self._engine.step([each.cached for each in decoding], tokens)
        self.batches[len(decoding)] += 1
        for running, row in zip(decoding, logits, strict=True):
            self._write(running, row)

    def _write(self, running: _Running, logits: np.ndarray) -> None:
        """Chooses a sequence's next token."""
        request = running.request
        running.last = _choose(logits, request, running.rng)
        running.written += 1
        if running.written == request.prompt.new_tokens:
            self._end(running, running.last)
        else:
            request.emit(running.last, False)

    def _end(self, running: _Running, token: int | None) -> None:
        self._running.remove(running)
        self._engine.pool.give_back(running.cached.table)
        running.request.emit(token, True)


def _choose(logits: np.ndarray, request: Request, rng: np.random.Generator) -> int:
    """Returns the most probable token, or one at random by its probability."""
    if not request.temperature:
        return int(logits.argmax())
    scores = logits.astype(np.float64)
    with np.errstate(over="ignore"):  # to a probability of 0
        scores = (scores - scores.max()) / request.temperature  # the largest is always 0
    if 0 < request.top_k < len(scores):
        scores[scores < np.partition(scores, -request.top_k)[-request.top_k]] = -np.inf
    if request.top_p < 1:
        ordered = np.sort(scores)[::-1]
        shares = np.exp(ordered - ordered[0])
        before = np.cumsum(shares) - shares  # of the more probable
        scores[scores < ordered[before < request.top_p * shares.sum()].min()] = -np.inf
    return int((scores + rng.gumbel(size=len(scores))).argmax())  # as in Maddison et al. 2014


class Generating:
    """A target whose queries are prompts.

    Attributes:
        batches: number of decoding steps by sequences.
    """

    def __init__(self, engine: DecodingEngine, batching: Batching, answer: Answer) -> None:
        self._server, self._answer = GenerationServer(engine, batching), answer
        self.batches = self._server.batches

    def issue(self, queries: Sequence[Query]) -> None:
        """Takes queries; their outputs are the tokens."""
        note = self._note
        self._server.submit(*(Request(each.sample, partial(note, each)) for each in queries))

    def stop(self) -> None:
        """Ends the server, as ``GenerationServer.stop``."""
        self._server.stop()

    def _note(self, query: Query, token: int | None, last: bool) -> None:
        now = time.perf_counter()
        if token is not None:
            query.outputs.append(token)
            query.tokens += 1
        if query.first is None:
            query.first = now
            self._answer([query])
        if last:
            query.answered, query.error = now, self._server.failure if token is None else None
            self._answer([query])
