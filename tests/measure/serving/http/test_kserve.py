"""KServe's v2 inference over HTTP, and requests that cannot be answered."""

import asyncio
import json

import numpy as np
import pytest

from fathom import FathomError
from fathom.autoenc import AutoencFwd
from fathom.measure.serving import endpoint, scenarios
from fathom.measure.serving.arrivals import Gamma
from fathom.measure.serving.engine import Engine
from fathom.measure.serving.http.application import Application, Limits
from fathom.measure.serving.server import Query, Server
from fathom.results.serving import Bounds

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fathom.measure.serving.http.kserve import KServe

PATH = "/v2/models/autoenc/infer"
LIMITS = Limits(body=100_000, queue=5, seconds=30.0)


@pytest.fixture(scope="module")
def model():
    model = AutoencFwd("/cpu:0", {"hidden_units": 8, "latents": 2, "batch_size": 4})
    model.setup()
    yield model
    model.teardown()


@pytest.fixture(scope="module")
def engine(model):
    return Engine(model, samples=6, limit=4)


def ask(engine, scenario, limits=LIMITS):
    """Runs a coroutine function of a client; returns what it returns."""

    async def run():
        kserve = KServe("autoenc", ["x"], engine, limits)
        async with TestClient(TestServer(kserve.application.web)) as client:
            found = await asyncio.wait_for(scenario(client), 60)
        kserve.server.stop()
        return found

    return asyncio.run(run())


def request(values, **changes):
    """Returns a request for some examples."""
    tensor = {"name": "x", "shape": list(values.shape), "datatype": "FP32", "data": values.tolist()}
    return {"inputs": [tensor | changes]}


def test_the_outputs_are_those_of_the_network(engine, monkeypatch):
    answers = engine.run(engine.samples[:1])
    # The real one draws latents at random.
    monkeypatch.setattr(
        engine, "run", lambda samples: [np.stack([2 * each[0] for each in samples])]
    )
    images = np.stack([sample[0] for sample in engine.samples[:3]])

    async def scenario(client):
        described = await (await client.get("/v2/models/autoenc")).json()
        ready = [await f("/v2/health/ready") for f in (client.get, client.head)]
        nested = await client.post(PATH, json=request(images) | {"id": "7"})
        named = {"outputs": [{"name": "output_0"}]}
        flat = await client.post(PATH, json=request(images, data=images.ravel().tolist()) | named)
        return described, [each.status for each in ready], await nested.json(), await flat.json()

    described, ready, nested, flat = ask(engine, scenario)
    assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 784]}]
    found = [(each["name"], each["datatype"], each["shape"]) for each in described["outputs"]]
    sizes = [output.shape[1:] for output in answers]
    assert found == [(f"output_{i}", "FP32", [-1, *size]) for i, size in enumerate(sizes)]
    assert ready == [200, 200]
    assert nested["id"] == "7"
    for (output,) in (nested["outputs"], flat["outputs"]):
        given = np.array(output["data"]).reshape(output["shape"])
        np.testing.assert_array_equal(given, 2 * images)


ONE = np.zeros((1, 784))


def test_bad_requests_get_one_line_and_do_no_harm(engine):
    bad = [
        ("[" * 5000, 400),
        ("no json", 400),
        ({}, 400),
        ({"inputs": []}, 400),
        ({"inputs": "x"}, 400),
        (request(ONE, name="y"), 400),
        ({"inputs": request(ONE)["inputs"] * 2}, 400),
        (request(ONE, datatype="INT32"), 400),
        (request(ONE, shape=[2, 784]), 400),
        (request(ONE, shape=[784]), 400),
        (request(ONE, shape=[1] * 70 + [784]), 400),
        (request(ONE, shape=[1, -784]), 400),
        (request(ONE, shape=[10**30, 784]), 400),
        (request(ONE, shape=[0, 784], data=[]), 400),
        (request(ONE[:, :3]), 400),
        (request(ONE, data=["a"] * 784), 400),
        (request(ONE, data=[None] * 784), 400),
        (request(ONE, data=[1e300] * 784), 400),
        (json.dumps(request(ONE)).replace("0.0", "NaN"), 400),
        (request(ONE, data=[[1], [1, 2]]), 400),
        (request(ONE) | {"outputs": [{"name": "y"}]}, 400),
        (request(np.zeros((6, 784))), 413),
        ("x" * 200_000, 413),
    ]

    async def scenario(client):
        for body, status in bad:
            given = {"data": body} if isinstance(body, str) else {"json": body}
            reply = await client.post(PATH, **given)
            message = (await reply.json())["error"]
            assert reply.status == status, (str(body)[:99], message)
            assert "\n" not in message
            assert "Traceback" not in message
        assert (await client.post("/v2/models/vgg/infer", json={})).status == 404
        return (await client.post(PATH, json=request(ONE))).status

    assert ask(engine, scenario) == 200


def test_a_full_queue_is_refused(engine, monkeypatch):
    monkeypatch.setattr(Server, "waiting", 5)

    async def scenario(client):
        return (await client.post(PATH, json=request(ONE))).status

    assert ask(engine, scenario) == 429


def test_a_value_that_the_network_refuses_spoils_no_other(engine, monkeypatch):
    from tensorflow.errors import InvalidArgumentError

    run = engine.run

    def refuse(samples):
        if any(sample[0].max() > 8 for sample in samples):
            raise InvalidArgumentError(None, None, "9 is not in [0, 8)\nmore")
        return run(samples)

    monkeypatch.setattr(engine, "run", refuse)

    found = []

    async def scenario(client):
        bodies = [request(ONE), request(ONE + 9), request(ONE)]
        replies = await asyncio.gather(*(client.post(PATH, json=body) for body in bodies))
        found.extend([(reply.status, (await reply.json()).get("error")) for reply in replies])

    with pytest.raises(FathomError, match="the inference failed"):  # the server's end tells it
        ask(engine, scenario)
    assert found == [(200, None), (400, "the network refuses it: 9 is not in [0, 8)"), (200, None)]


def test_a_client_that_has_gone_leaves_no_traceback(engine, monkeypatch, caplog):
    async def gone(*_):
        raise ConnectionResetError

    monkeypatch.setattr(Application, "ready", gone)

    async def scenario(client):
        return (await client.get("/v2/health/ready")).status

    assert ask(engine, scenario) == 499
    assert not caplog.records


def test_a_load_test_drives_the_endpoint(model, engine, tmp_path):
    plan = scenarios.Plan("server", 0.1, 2000.0, Bounds(latency=20.0), Gamma(3.0))

    async def scenario(client):
        def test():
            url = str(client.make_url("/"))
            ((_, service),) = scenarios.services(model, [], None, None, url)
            return scenarios.measure(model, service, plan, tmp_path, lambda _: None)

        return await asyncio.to_thread(test)

    result = ask(engine, scenario, Limits(100_000, 1000, 30.0)).result
    assert result.valid
    assert result.queries == 662


def test_queries_wait_for_one_of_a_limited_number_of_connections(monkeypatch):
    monkeypatch.setattr(endpoint, "_MOST_CONNECTIONS", 2, raising=False)
    monkeypatch.setattr(endpoint, "_CONNECT", 0.5)  # seconds: the last queries wait longer
    running, seen = [], []

    async def answer(request):
        running.append(request)
        seen.append(len(running))
        await asyncio.sleep(0.3)
        running.remove(request)
        return web.json_response({})

    async def scenario():
        application = web.Application()
        application.router.add_post("/infer", answer)
        async with TestServer(application) as server:
            there = endpoint.Address(str(server.make_url("/infer")), "autoenc", None)
            target = endpoint.Endpoint(there, lambda _: None)
            target.issue(sent := [Query((), number) for number in range(6)])
            await asyncio.to_thread(target.stop)
        return sent

    assert [query.error for query in asyncio.run(scenario())] == [None] * 6
    assert max(seen) == 2
