"""KServe's v2 inference protocol (Open Inference Protocol), in JSON."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fathom.errors import FathomError
from fathom.measure.serving.engine import Engine, Sample, shapes_of
from fathom.measure.serving.http.application import Application, Limits, RefusedError
from fathom.measure.serving.http.tensors import Tensor, array, datatype, tensor
from fathom.measure.serving.server import Query, Server

if TYPE_CHECKING:
    from aiohttp import web


class Output(BaseModel):
    """An output that a request asks for."""

    name: str


class Inference(BaseModel):
    """A request; its examples are the rows of its tensors."""

    model_config = ConfigDict(strict=True)

    id: str | None = None
    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[Output] = []  # none: all


def error(message: str, status: int) -> dict[str, Any]:
    """Returns an error in KServe's form."""
    return {"error": message}


class KServe:
    """The handlers of inference.

    Attributes:
        application: serves them.
        server: forms the batches.
    """

    def __init__(self, name: str, inputs: Sequence[str], engine: Engine, limits: Limits) -> None:
        self._name, self._inputs, self._engine = name, inputs, engine
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._futures: dict[Query, asyncio.Future[None]] = {}
        self.server = Server(engine, self._answer)
        self.application = Application(limits, error)
        for path in ("/v2/health/live", f"/v2/models/{name}/ready"):
            self.application.add("GET", path, self.application.ready)
        self.application.add("GET", f"/v2/models/{name}", self._metadata)
        self.application.add("POST", f"/v2/models/{name}/infer", self._infer)

    async def _metadata(self, request: "web.Request") -> "web.StreamResponse":
        """Describes the tensors; sizes that differ from sample to sample are -1."""
        examples = zip(*self._engine.shapes.values(), strict=True)
        inputs = [
            _described(name, arrays[0].dtype, [array.shape for array in arrays])
            for name, arrays in zip(self._inputs, examples, strict=True)
        ]
        outputs = [
            _described(f"output_{i}", *output) for i, output in enumerate(self._engine.outputs)
        ]
        names = {"name": self._name, "versions": [], "platform": "tensorflow"}
        return self.application.reply({**names, "inputs": inputs, "outputs": outputs})

    async def _infer(self, request: "web.Request") -> "web.StreamResponse":
        """Answers with the outputs of the examples."""
        end = time.monotonic() + self._limits.seconds
        asked = await self.application.read(request, Inference)
        samples = self._samples(asked)
        known = [f"output_{i}" for i in range(len(self._engine.outputs))]
        if unknown := {each.name for each in asked.outputs}.difference(known):
            raise FathomError(f"outputs: {min(unknown)} is none of {', '.join(known)}")
        if len(samples) > self._limits.queue:
            raise RefusedError(413, f"{len(samples)} examples: at most {self._limits.queue}")
        if self.server.waiting + len(samples) > self._limits.queue:
            waiting = f"{len(samples)} examples, and {self.server.waiting} wait"
            raise RefusedError(429, f"{waiting}: at most {self._limits.queue} together")
        queries = [Query(sample) for sample in samples]
        futures = [self._futures.setdefault(q, self._loop.create_future()) for q in queries]
        self.server.issue(queries)
        try:
            await asyncio.wait_for(asyncio.gather(*futures), end - time.monotonic())
        finally:
            for query in queries:
                query.cancelled = True  # no effect if it is answered
                self._futures.pop(query, None)
        for query in queries:
            if query.error:
                raise RefusedError(*_reason(query.error))
        columns = zip(*(query.outputs for query in queries), strict=True)
        stacked = {f"output_{i}": np.stack(rows) for i, rows in enumerate(columns)}
        wanted = [each.name for each in asked.outputs] or stacked
        outputs = [tensor(name, stacked[name]) for name in wanted]
        named = {"id": asked.id} if asked.id else {}
        return self.application.reply({"model_name": self._name, **named, "outputs": outputs})

    def _samples(self, asked: Inference) -> list[Sample]:
        given = {each.name: each for each in asked.inputs}
        if sorted(given) != sorted(self._inputs) or len(given) != len(asked.inputs):
            raise FathomError(f"inputs: give {', '.join(self._inputs)}, each once")
        dtypes = [each.dtype for each in self._engine.samples[0]]
        pairs = zip(self._inputs, dtypes, strict=True)
        arrays = [array(given[name], dtype) for name, dtype in pairs]
        rows = {each.shape[0] if each.ndim else 0 for each in arrays}
        if len(rows) > 1 or 0 in rows:
            raise FathomError("inputs: all have the same number of examples first, at least one")
        samples: list[Sample] = list(zip(*arrays, strict=True))
        if shapes_of(samples[0]) not in self._engine.shapes:
            known = "; or ".join(map(_text, self._engine.shapes))
            raise FathomError(f"inputs: an example has the shape {known}")
        return samples

    def _answer(self, queries: Sequence[Query]) -> None:
        self._loop.call_soon_threadsafe(self._resolve, queries)

    def _resolve(self, queries: Sequence[Query]) -> None:
        for query in queries:
            future = self._futures.pop(query, None)
            if future and not future.done():
                future.set_result(None)


def _described(
    name: str, dtype: np.dtype, shapes: Sequence[tuple[int | None, ...]]
) -> dict[str, Any]:
    sizes = [each[0] if len(set(each)) == 1 else None for each in zip(*shapes, strict=True)]
    shape = [-1, *(-1 if size is None else size for size in sizes)]
    return {"name": name, "datatype": datatype(dtype), "shape": shape}


def _text(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


def _reason(failure: BaseException) -> tuple[int, str]:
    """Returns the status and the message of a batch that failed: 400 if of its values."""
    from tensorflow.errors import InvalidArgumentError

    wrong = isinstance(failure, InvalidArgumentError)
    return (400 if wrong else 500), f"the network refuses it: {str(failure).splitlines()[0]}"
