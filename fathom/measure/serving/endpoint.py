"""A target behind a URL: OpenAI's completions of text, or KServe's v2 inference of tensors."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fathom.errors import FathomError
from fathom.measure.serving.http.application import aiohttp
from fathom.measure.serving.http.tensors import tensor
from fathom.measure.serving.server import Answer, Query
from fathom.model.decoder import TokenDecoder

_LONGEST = 300.0  # seconds of a query
_CONNECT = 10.0  # seconds
_LONGEST_STOP = 10.0  # seconds
_MOST_CONNECTIONS = 512  # below the usual limit of open files
_REASON = 200  # characters of an error's body


@dataclass(frozen=True)
class Address:
    """Where queries go."""

    url: str  # of the inference
    model: str  # its name there
    decoder: TokenDecoder | None  # turns prompts into text; None: queries are tensors
    inputs: tuple[str, ...] = ()  # names of the tensors


def find(url: str, workload: str, decoder: TokenDecoder | None) -> Address:
    """Asks an endpoint for its model: the first of those that write text, or the workload.

    Raises:
        FathomError: the extra is not installed, or no such endpoint answers.
    """
    base = url.rstrip("/").removesuffix("/v1").removesuffix("/v2")
    path = "/v1/models" if decoder else f"/v2/models/{workload}"
    try:
        found = asyncio.run(_get(base + path))
        if decoder:
            return Address(f"{base}/v1/completions", str(found["data"][0]["id"]), decoder)
        names = tuple(str(each["name"]) for each in found["inputs"])
        return Address(f"{base}{path}/infer", workload, None, names)
    except (aiohttp().ClientError, OSError, ValueError, asyncio.TimeoutError) as error:
        raise FathomError(f"{base + path} does not answer: {error or 'in time'}") from error
    except (KeyError, IndexError, TypeError) as error:
        raise FathomError(f"{base + path} names no model") from error


async def _get(url: str) -> Any:
    limit = aiohttp().ClientTimeout(total=_CONNECT)
    async with aiohttp().ClientSession(timeout=limit) as session, session.get(url) as reply:
        reply.raise_for_status()
        return await reply.json(content_type=None)


class Endpoint:
    """Sends queries at once, each on a connection of its own; beyond a number of these they wait.

    Args:
        address: where they go.
        answer: called at a query's first token, if it has any, and when it is answered.

    Attributes:
        batches: none are known.
    """

    def __init__(self, address: Address, answer: Answer) -> None:
        self.batches: Counter[int] = Counter()
        self._address, self._answer = address, answer
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self._run()), name="endpoint", daemon=True
        )
        self._thread.start()
        self._ready.wait(_CONNECT)

    def issue(self, queries: Sequence[Query]) -> None:
        """Sends queries."""
        for query in queries:
            self._loop.call_soon_threadsafe(self._begin, query)

    def stop(self) -> None:
        """Ends the connections.

        Raises:
            FathomError: they do not end.
        """
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(_LONGEST_STOP)
        if self._thread.is_alive():
            raise FathomError(f"the connections did not end within {_LONGEST_STOP:.0f} s")

    async def _run(self) -> None:
        library, self._tasks = aiohttp(), set[asyncio.Task[None]]()
        async with library.ClientSession(
            timeout=library.ClientTimeout(total=_LONGEST, sock_connect=_CONNECT),
            connector=library.TCPConnector(limit=_MOST_CONNECTIONS),
        ) as self._session:
            self._ready.set()
            await self._stopped.wait()
            await asyncio.gather(*self._tasks)

    def _begin(self, query: Query) -> None:
        task = self._loop.create_task(self._send(query))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, query: Query) -> None:
        texts = self._address.decoder is not None
        try:
            async with self._session.post(self._address.url, json=self._body(query)) as reply:
                if reply.status != 200:
                    text = " ".join((await reply.text())[:_REASON].split())
                    raise FathomError(f"{self._address.url} answers {reply.status}: {text}")
                await (self._follow(query, reply.content) if texts else reply.read())
        except Exception as error:  # of the network or of the other side: the run tells
            query.error = error if str(error) else FathomError("no answer in time")
        now = time.perf_counter()
        if texts and query.first is None:
            query.first = now
            self._answer([query])
        query.answered = now
        self._answer([query])

    def _body(self, query: Query) -> dict[str, Any]:
        address = self._address
        if address.decoder is None:
            arrays = zip(address.inputs, query.sample, strict=True)
            return {"inputs": [tensor(name, np.asarray(each)[None]) for name, each in arrays]}
        return {
            "model": address.model,
            "prompt": address.decoder.decode(query.sample.tokens),
            "max_tokens": query.sample.new_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def _follow(self, query: Query, lines: AsyncIterator[bytes]) -> None:
        """Notes the tokens of a stream of server-sent events: those counted, or its pieces."""
        counted = 0
        async for line in lines:
            data = line.removeprefix(b"data:").strip()
            if not line.startswith(b"data:") or data == b"[DONE]":
                continue
            event = json.loads(data)
            if "error" in event:
                raise FathomError(f"{self._address.url} says {event['error']}")
            counted = (event.get("usage") or {}).get("completion_tokens", counted)
            if event.get("choices"):
                query.tokens += 1
                if query.first is None:
                    query.first = time.perf_counter()
                    self._answer([query])
        query.tokens = counted or query.tokens
        if not query.tokens:
            raise FathomError(f"{self._address.url} wrote nothing")
