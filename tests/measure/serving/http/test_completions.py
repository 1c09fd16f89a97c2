"""OpenAI's completions over HTTP: text, streams, limits, and requests that cannot be answered."""

import asyncio
import json
import threading
import time

import numpy as np
import pytest

from fathom.measure.serving import scenarios
from fathom.measure.serving.decoding import DecodingEngine
from fathom.measure.serving.generation import GenerationServer
from fathom.measure.serving.http.application import Limits
from fathom.modern.gpt.model import GPTFwd
from fathom.results.serving import Bounds

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from aiohttp.test_utils import TestClient, TestServer

from fathom.measure.serving.http.completions import Completions, _Writer

SIZES = {"layers": 1, "heads": 2, "width": 8, "context": 24, "batch_size": 2, "xla": False}
LIMITS = Limits(body=2000, queue=2, seconds=30.0)


@pytest.fixture(scope="module")
def model():
    model = GPTFwd("/cpu:0", {**SIZES, "prompt_tokens": 12, "new_tokens": 12})
    model.setup()
    rng = np.random.default_rng(0)
    for variable in model.network.variables:
        variable.assign(variable + rng.normal(0, 0.3, variable.shape))
    yield model
    model.teardown()


@pytest.fixture(scope="module")
def engine(model):
    return DecodingEngine(model, limit=2)


def ask(model, engine, scenario, limits=LIMITS):
    """Runs a coroutine function of a client and the server; returns what it returns."""

    async def run():
        server = GenerationServer(engine)
        application = Completions("gpt", model.token_decoder(), server, limits).application
        async with TestClient(TestServer(application.web)) as client:
            found = await asyncio.wait_for(scenario(client, application), 60)
        server.stop()
        assert len(engine.pool.free) == engine.pool.blocks
        return found

    return asyncio.run(run())


def expected(model):
    """Returns a prompt, and the text that inference in whole batches continues it with."""
    prompts = next(iter(model.inference_batches()))[0]
    decode = model.token_decoder().decode
    return decode(prompts[0].numpy()), decode(model.infer(prompts)[0].numpy())


def test_the_text_is_that_of_inference_whole_and_as_a_stream(model, engine):
    prompt, text = expected(model)
    body = {"model": "gpt", "prompt": prompt, "max_tokens": 12, "temperature": 0}

    async def scenario(client, application):
        whole = await (await client.post("/v1/completions", json=body)).json()
        tokens = model.token_decoder().encode(prompt).tolist()
        most_probable = {"temperature": 1, "top_k": 1}
        other = await client.post(
            "/v1/completions", json=body | {"prompt": tokens, **most_probable}
        )
        options = {"stream": True, "stream_options": {"include_usage": True}}
        reply = await client.post("/v1/completions", json=body | options)
        assert reply.headers["Content-Type"] == "text/event-stream"
        return whole, await other.json(), (await reply.text()).split("\n\n")

    whole, other, lines = ask(model, engine, scenario)
    assert whole["choices"][0]["text"] == other["choices"][0]["text"] == text
    assert lines[-2:] == ["data: [DONE]", ""]
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    assert "".join(event["choices"][0]["text"] for event in events[:-1]) == text
    assert [event["choices"][0]["finish_reason"] for event in events[:-1]] == [None] * 11 + [
        "length"
    ]
    assert events[-1]["usage"] == whole["usage"]
    assert whole["usage"] == {"prompt_tokens": 12, "completion_tokens": 12, "total_tokens": 24}


BAD = {
    b"no json": 400,
    b"": 400,
    b"[]": 400,
    b"[" * 1900: 400,
    b'{"prompt": "\xff"}': 400,
    b'{"prompt": 5}': 400,
    b'{"prompt": [[1]]}': 400,
    b'{"prompt": [true]}': 400,
    b'{"prompt": [-1]}': 400,
    b'{"prompt": [1000]}': 400,
    b'{"prompt": [99999999999999999999]}': 400,
    b'{"prompt": ""}': 400,
    b'{"prompt": "~~"}': 400,
    b'{"prompt": "the", "max_tokens": 0}': 400,
    b'{"prompt": "the", "max_tokens": 22}': 400,
    b'{"prompt": "the", "max_tokens": "5"}': 400,
    b'{"prompt": "the", "temperature": NaN}': 400,
    b'{"prompt": "the", "n": 2}': 400,
    b'{"prompt": "the", "min_p": 0.5}': 400,
    b'{"prompt": "the", "top_k": 0}': 400,
    b'{"prompt": "the", "stop": "."}': 400,
    b'{"prompt": "the", "model": "other"}': 404,
    b'{"prompt": "' + b"a" * 3000 + b'"}': 413,
}


def test_bad_requests_get_one_line_and_do_no_harm(model, engine):
    async def scenario(client, application):
        for body, status in BAD.items():
            reply = await client.post("/v1/completions", data=body)
            content = await reply.json()
            assert (reply.status, content["error"]["code"]) == (status, status), body
            assert "\n" not in content["error"]["message"]
            assert "Traceback" not in content["error"]["message"]
        assert (await client.get("/v1/nothing")).status == 404
        good = await client.post("/v1/completions", json={"prompt": "the", "max_tokens": 2})
        return good.status

    assert ask(model, engine, scenario) == 200


def held(engine, monkeypatch):
    """Makes the engine's steps wait until an event that is returned."""
    event, step = threading.Event(), engine.step
    monkeypatch.setattr(engine, "step", lambda *given: (event.wait(30), step(*given))[1])
    return event


BODY = {"prompt": "the", "max_tokens": 3}


def test_a_full_queue_and_slow_requests_are_refused(model, engine, monkeypatch):
    event = held(engine, monkeypatch)

    async def scenario(client, application):
        server, slow = server_of(application), []
        for waiting in (0, 1, 2):  # one runs
            slow.append(asyncio.create_task(client.post("/v1/completions", json=BODY)))
            while not server._running or server.waiting != waiting:
                await asyncio.sleep(0.01)
        full = await client.post("/v1/completions", json=BODY)
        late = [(await each).status for each in slow]
        event.set()
        return full.status, late

    limits = Limits(body=2000, queue=2, seconds=1.0)
    assert ask(model, engine, scenario, limits) == (429, [504] * 3)


def server_of(application):
    """Returns the server that an application's handlers use."""
    routes = [route for route in application.web.router.routes() if route.method == "POST"]
    return routes[0].handler.__self__._server


def test_at_the_end_what_runs_is_finished_and_new_requests_get_503(model, engine, monkeypatch):
    event = held(engine, monkeypatch)

    async def scenario(client, application):
        running = asyncio.create_task(client.post("/v1/completions", json=BODY))
        while not application._running:
            await asyncio.sleep(0.01)
        end = asyncio.create_task(application.drain(asyncio.Queue()))
        await asyncio.sleep(0)
        new = await client.post("/v1/completions", json=BODY)
        assert not end.done()
        event.set()
        await end
        return new.status, (await running).status

    assert ask(model, engine, scenario) == (503, 200)


def test_a_client_that_goes_away_frees_its_blocks(model, engine, monkeypatch):
    event = held(engine, monkeypatch)

    async def scenario(client, application):
        running = asyncio.create_task(
            client.post("/v1/completions", json=BODY | {"max_tokens": 20, "stream": True})
        )
        reply = await running
        reply.close()
        while application._running:
            event.set()
            await asyncio.sleep(0.01)

    ask(model, engine, scenario)  # which looks at the blocks


async def ended(application, seconds=5.0):
    """Waits until no handler runs; returns whether none does."""
    end = time.monotonic() + seconds
    while application._running and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return not application._running


SHORT = Limits(body=2000, queue=2, seconds=1.0)


def test_a_body_that_does_not_come_is_refused(model, engine):
    async def scenario(client, application):
        reader, writer = await asyncio.open_connection(client.host, client.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        return line

    assert ask(model, engine, scenario, SHORT).split()[1] == b"504"


def test_a_client_that_reads_no_more_is_cut_off(model, engine, monkeypatch):
    # More than the buffers of a connection hold.
    monkeypatch.setattr(_Writer, "event", lambda *_: {"text": "a" * 10_000_000})

    async def scenario(client, application):
        reader, writer = await asyncio.open_connection(client.host, client.port)
        body = json.dumps(BODY | {"max_tokens": 12, "stream": True}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await reader.readline()
        free = await ended(application)
        writer.close()
        return free

    assert ask(model, engine, scenario, SHORT)


def test_a_stream_that_is_late_ends_with_a_message(model, engine, monkeypatch):
    event = held(engine, monkeypatch)

    async def scenario(client, application):
        reply = await client.post("/v1/completions", json=BODY | {"stream": True})
        text = await reply.text()
        event.set()
        return reply.status, text.split("\n\n")

    status, lines = ask(model, engine, scenario, SHORT)
    assert status == 200
    assert "not answered within 1 s" in lines[-3]
    assert lines[-2:] == ["data: [DONE]", ""]


@pytest.mark.slow
def test_a_load_test_drives_the_endpoint(model, engine, tmp_path):
    """The same command tests any such endpoint."""
    plan = scenarios.Plan("server", 0.2, 50.0, Bounds(first_token=5.0, output_token=5.0), BURSTS)

    async def scenario(client, application):
        url = str(client.make_url("/"))

        def test():
            ((name, service),) = scenarios.services(model, [], None, None, url)
            assert name == "unknown"
            return scenarios.measure(model, service, plan, tmp_path, lambda _: None)

        return await asyncio.to_thread(test)

    result = ask(model, engine, scenario, Limits(2000, 100, 30.0)).result
    assert result.valid
    assert result.queries == 20
    assert result.tokens_per_second > result.samples_per_second


class BURSTS:
    """Twenty queries, two at a time."""

    name = "pairs"

    @staticmethod
    def schedule(rate, duration, seed):
        return np.repeat(np.arange(10) / rate, 2)
