"""An HTTP server of one workload: limits, errors in one line, and the end."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from fathom.errors import FathomError, require

if TYPE_CHECKING:
    from aiohttp import web

Body = TypeVar("Body", bound=BaseModel)
Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


@dataclass(frozen=True)
class Limits:
    """What the server takes."""

    body: int  # bytes of a request
    queue: int  # requests that wait
    seconds: float  # of a request, also after a signal to end


def aiohttp() -> ModuleType:
    """Imports aiohttp with its server, which is an extra.

    Raises:
        FathomError: it is not installed.
    """
    require("serving over HTTP", "serve", "aiohttp")
    import aiohttp.web

    return aiohttp


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket of an address, on which nothing listens yet.

    Args:
        host: name or address.
        port: 0: any that is free.

    Raises:
        FathomError: the address cannot be used.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host
        reason = getattr(error, "strerror", error)
        raise FathomError(f"cannot listen on {host}, port {port}: {reason}") from error
    return bound


class RefusedError(Exception):
    """A request that is not served."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Application:
    """Serves handlers until a signal; those that run then may finish, new requests get 503.

    Args:
        limits: of requests.
        error: makes the JSON of an error from its message and status.
    """

    def __init__(self, limits: Limits, error: Callable[[str, int], dict[str, Any]]) -> None:
        self.limits = limits
        self._error, self._running, self._ends = error, 0, False
        self._idle = asyncio.Event()
        self._web = aiohttp().web

        @self._web.middleware
        async def within(request: "web.Request", handler: Handler) -> "web.StreamResponse":
            return await self._within(request, handler)

        self.web = self._web.Application(client_max_size=limits.body, middlewares=[within])
        self.add("GET", "/v2/health/ready", self.ready)

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Adds a handler; HEAD is answered as GET."""
        for each in ("GET", "HEAD") if method == "GET" else (method,):
            self.web.router.add_route(each, path, handler)

    async def read(self, request: "web.Request", kind: type[Body]) -> Body:
        """Returns a request's JSON.

        Raises:
            RefusedError: it is no JSON, or not of this form.
            TimeoutError: it does not come in time.
        """
        text = await asyncio.wait_for(request.read(), self.limits.seconds)
        try:
            return kind.model_validate_json(text)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            names = ".".join(map(str, errors[0]["loc"]))
            texts = dict.fromkeys(
                each["msg"] for each in errors if each["loc"][:1] == errors[0]["loc"][:1]
            )
            raise RefusedError(400, f"{names}: {'; or '.join(texts)}".removeprefix(": ")) from None

    def reply(self, content: dict[str, Any]) -> "web.Response":
        """Returns a response of JSON."""
        return self._web.json_response(content)

    async def ready(self, request: "web.Request") -> "web.StreamResponse":
        """Answers that requests are served."""
        return self.reply({"ready": True})

    async def _within(self, request: "web.Request", handler: Handler) -> "web.StreamResponse":
        """Runs a handler within the limits; what it raises becomes one line of JSON."""
        if self._ends:
            return self._refused(503, "the server is ending")
        self._running += 1
        try:
            return await handler(request)
        except RefusedError as refusal:
            return self._refused(refusal.status, str(refusal))
        except FathomError as error:
            return self._refused(400, str(error))
        except asyncio.TimeoutError:
            return self._refused(504, f"not answered within {self.limits.seconds:g} s")
        except self._web.HTTPException as error:
            if error.status == 413:
                limit = f"the body has more than {self.limits.body:,} bytes"
                return self._refused(413, limit)
            return self._refused(error.status, f"{request.method} {request.path}: {error.reason}")
        except ConnectionError:  # raised, aiohttp would log it with a traceback
            return self._refused(499, "the client has gone")
        except Exception as error:
            return self._refused(500, f"{type(error).__name__}: {error}")
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _refused(self, status: int, message: str) -> "web.Response":
        line = " ".join(message.split())
        return self._web.json_response(self._error(line, status), status=status)

    async def run(self, bound: socket.socket, ready: Callable[[], None]) -> None:
        """Serves until SIGINT or SIGTERM; a second one ends at once.

        Args:
            bound: as ``bind`` returns it.
            ready: called when requests are answered.
        """
        runner = self._web.AppRunner(
            self.web, handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        await runner.setup()
        signals, loop = asyncio.Queue[int](), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, signals.put_nowait, number)
        try:
            try:
                await self._web.SockSite(runner, bound).start()
            except OSError as error:  # such as another server that has begun to listen
                raise FathomError(f"cannot listen: {error.strerror}") from error
            ready()
            await signals.get()
            await self.drain(signals)
        finally:
            await runner.cleanup()

    async def drain(self, signals: "asyncio.Queue[int]") -> None:
        """Refuses new requests, and waits for those that run, the limit or a signal."""
        self._ends = True
        if not self._running:
            return
        self._idle.clear()
        waits = {asyncio.ensure_future(each) for each in (self._idle.wait(), signals.get())}
        await asyncio.wait(waits, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
