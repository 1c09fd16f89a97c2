"""OpenAI's completions of text, whole or as a stream of server-sent events."""

import asyncio
import json
import time
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fathom.measure.serving.decoding import Prompt
from fathom.measure.serving.generation import GenerationServer, Request
from fathom.measure.serving.http.application import Application, Limits, RefusedError, aiohttp
from fathom.model.decoder import TokenDecoder

if TYPE_CHECKING:
    from aiohttp import web

_UNFINISHED = "\ufffd"  # bytes that are no whole character yet
_LAST = 1.0  # seconds in which a stream that is late ends with a message
_Zero = Annotated[float, Field(ge=0, le=0)]


class _StreamOptions(BaseModel):
    include_usage: bool = False


class Completion(BaseModel):
    """A request; what would change the text and is not supported is refused, or is neutral."""

    model_config = ConfigDict(strict=True, extra="forbid")

    model: str | None = None
    prompt: str | list[int]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: Literal[1] | None = None
    best_of: Literal[1] | None = None
    echo: Literal[False] | None = None
    logprobs: None = None
    stop: None = None
    user: str | None = None  # no effect
    ignore_eos: bool | None = None  # no effect: no token ends a text
    suffix: None = None
    logit_bias: None = None
    presence_penalty: _Zero | None = None
    frequency_penalty: _Zero | None = None


def error(message: str, status: int) -> dict[str, Any]:
    """Returns an error in OpenAI's form."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


class Completions:
    """The handlers of completions.

    Attributes:
        application: serves them.
    """

    def __init__(
        self, name: str, decoder: TokenDecoder, server: GenerationServer, limits: Limits
    ) -> None:
        self._name, self._decoder, self._server = name, decoder, server
        self._limits, self._created = limits, int(time.time())
        self.application = Application(limits, error)
        self.application.add("GET", "/v1/models", self._models)
        self.application.add("POST", "/v1/completions", self._complete)

    async def _models(self, request: "web.Request") -> "web.StreamResponse":
        model = {"object": "model", "created": self._created, "owned_by": "fathom"}
        listed = {"id": self._name, **model, "max_model_len": self._decoder.context}
        return self.application.reply({"object": "list", "data": [listed]})

    async def _complete(self, request: "web.Request") -> "web.StreamResponse":
        """Answers with the continuation of a prompt."""
        end = time.monotonic() + self._limits.seconds
        asked = await self.application.read(request, Completion)
        if asked.model not in (None, self._name):
            raise RefusedError(404, f"there is no model {asked.model!r}, but {self._name!r}")
        if self._server.waiting >= self._limits.queue:
            raise RefusedError(
                429, f"{self._server.waiting} requests wait already: try again later"
            )
        prompt, found = self._prompt(asked), _Tokens()
        job = Request(
            prompt,
            found.put,
            temperature=1.0 if asked.temperature is None else asked.temperature,
            top_k=asked.top_k or 0,
            top_p=asked.top_p or 1.0,
            seed=uuid.uuid4().int >> 65 if asked.seed is None else asked.seed,
        )
        self._server.submit(job)
        writer = _Writer(self._name, self._decoder, len(prompt.tokens))
        try:
            if asked.stream:
                usage = asked.stream_options is not None and asked.stream_options.include_usage
                return await self._stream(request, found, writer, end, usage)
            while not found.ended:
                writer.add(await found.get(end), found.ended)
            return self.application.reply(writer.event(writer.text) | {"usage": writer.usage()})
        finally:
            job.cancelled = True  # no effect if it is complete

    def _prompt(self, asked: Completion) -> Prompt:
        """Returns the prompt; a text that is too long is refused by the server."""
        if isinstance(asked.prompt, str):
            try:
                tokens = self._decoder.encode(asked.prompt)
            except UnicodeError:
                raise RefusedError(400, "prompt: not valid Unicode") from None
        else:
            words = self._decoder.words
            if not all(0 <= token < words for token in asked.prompt):
                raise RefusedError(400, f"prompt: a token is a number from 0 to {words - 1}")
            tokens = np.array(asked.prompt, np.int32)
        return Prompt(tokens, 16 if asked.max_tokens is None else asked.max_tokens)

    async def _stream(
        self, request: "web.Request", found: "_Tokens", writer: "_Writer", end: float, usage: bool
    ) -> "web.StreamResponse":
        web = aiohttp().web
        first = await found.get(end)  # until then, a failure has a status of its own
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        await response.prepare(request)

        async def write() -> None:
            try:
                piece = writer.add(first, found.ended)
                while True:
                    await _send(response, writer.event(piece, found.ended))
                    if found.ended:
                        break
                    piece = writer.add(await found.get(end), found.ended)
                if usage:
                    await _send(response, writer.event() | {"usage": writer.usage()})
            except (RefusedError, asyncio.TimeoutError) as failure:  # too late for a status
                message = str(failure) or f"not answered within {self._limits.seconds:g} s"
                await _send(response, error(message, 504))
            await response.write_eof(b"data: [DONE]\n\n")

        try:
            await asyncio.wait_for(write(), end + _LAST - time.monotonic())
        except asyncio.TimeoutError:  # the client does not read
            if request.transport is not None:
                request.transport.abort()  # close() would wait for it
        return response


async def _send(response: "web.StreamResponse", event: dict[str, Any]) -> None:
    await response.write(f"data: {json.dumps(event)}\n\n".encode())


class _Tokens:
    """Tokens that the server's thread gives and a handler takes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[int | None, bool]] = asyncio.Queue()
        self.ended = False

    def put(self, token: int | None, last: bool) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (token, last))

    async def get(self, end: float) -> int:
        """Returns the next token; raises TimeoutError if there is none until ``end``."""
        token, self.ended = await asyncio.wait_for(self._queue.get(), end - time.monotonic())
        if token is None:
            raise RefusedError(500, "the network failed")
        return token


class _Writer:
    """The text of a completion, after a prompt of a number of tokens."""

    def __init__(self, model: str, decoder: TokenDecoder, prompt: int) -> None:
        self._head: dict[str, Any] = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }
        self._decoder, self._prompt, self._tokens = decoder, prompt, list[int]()
        self.text = ""

    def add(self, token: int, last: bool) -> str:
        """Adds a token; returns what text there is more, without a part of a character."""
        self._tokens.append(token)
        whole = self._decoder.decode(np.array(self._tokens))
        whole = whole if last else whole.rstrip(_UNFINISHED)
        piece, self.text = whole[len(self.text) :], whole
        return piece

    def event(self, piece: str | None = None, last: bool = True) -> dict[str, Any]:
        """Returns a piece of text as OpenAI does; None: no choice."""
        reason = "length" if last else None
        choice = {"index": 0, "text": piece, "logprobs": None, "finish_reason": reason}
        return {**self._head, "choices": [] if piece is None else [choice]}

    def usage(self) -> dict[str, int]:
        """Returns the numbers of tokens."""
        new = len(self._tokens)
        return {
            "prompt_tokens": self._prompt,
            "completion_tokens": new,
            "total_tokens": self._prompt + new,
        }
