"""Serving a model over HTTP until a signal ends it."""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from fathom.errors import FathomError
from fathom.measure.serving.decoding import DecodingEngine
from fathom.measure.serving.engine import Engine
from fathom.measure.serving.generation import GenerationServer
from fathom.measure.serving.http.application import Application, Limits
from fathom.measure.serving.http.completions import Completions
from fathom.measure.serving.http.kserve import KServe
from fathom.measure.serving.server import Server

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

_SAMPLES = 256  # whose shapes are served


def serve(
    model: "NeuralNetworkModel",
    bound: socket.socket,
    limits: Limits,
    cache_bytes: int | None,
    ready: Callable[[str], None],
) -> None:
    """Serves completions of a model that writes text, and KServe's inference of others.

    Args:
        model: forward-only, after ``setup``; its batch size is the limit of the batches.
        bound: as ``application.bind`` returns it.
        limits: of requests.
        cache_bytes: bound of the cached keys and values; None: room for full batches.
        ready: called with the URL of the inference once it answers.

    Raises:
        FathomError: the cache is too small.
    """
    limit, decoder = model.hyperparameters.batch_size, model.token_decoder()
    if decoder:
        decoding = DecodingEngine(model, limit, cache_bytes)
        decoding.warm_up()
        path = "/v1/completions"
    else:
        engine = Engine(model, _SAMPLES, limit)
        engine.warm_up()
        path = f"/v2/models/{model.name}/infer"

    def start() -> tuple[Application, GenerationServer | Server]:
        if decoder:
            server = GenerationServer(decoding)
            return Completions(model.name, decoder, server, limits).application, server
        kserve = KServe(model.name, [spec.name for spec in model.signatures()[-1]], engine, limits)
        return kserve.application, kserve.server

    async def run() -> None:
        application, server = start()
        host, port = bound.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        try:
            await application.run(bound, lambda: ready(f"http://{shown}:{port}{path}"))
        finally:
            await asyncio.to_thread(_stop, server)

    asyncio.run(run())


def _stop(server: GenerationServer | Server) -> None:
    """Ends a server whose failures its clients have been told."""
    try:
        server.stop()
    except FathomError:
        if not server.failure:
            raise
