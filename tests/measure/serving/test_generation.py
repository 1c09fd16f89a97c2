"""Continuous batching with a cache in blocks: the same tokens as alone, in bounded memory."""

import threading
import time
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from fathom import FathomError
from fathom.autoenc import AutoencFwd
from fathom.measure.serving.decoding import DecodingEngine, Prompt
from fathom.measure.serving.generation import GenerationServer, Request, _choose
from fathom.measure.serving.paged import BLOCK
from fathom.modern.gpt.model import GPTFwd
from fathom.modern.llama.model import LlamaFwd

SIZES = {"layers": 2, "heads": 2, "width": 16, "context": 80, "batch_size": 4, "xla": False}
NETWORKS = {
    "gpt": (GPTFwd, {}),
    "llama": (LlamaFwd, {"heads": 4, "kv_heads": 2, "hidden_units": 24}),
}
PROMPT, NEW = 40, 40


@pytest.fixture(scope="module", params=["gpt", pytest.param("llama", marks=pytest.mark.slow)])
def model(request):
    network, sizes = NETWORKS[request.param]
    model = network("/cpu:0", {**SIZES, **sizes, "prompt_tokens": PROMPT, "new_tokens": NEW})
    model.setup()
    rng = np.random.default_rng(0)
    for variable in model.network.variables:  # the most probable tokens differ from place to place
        variable.assign(variable + rng.normal(0, 0.3, variable.shape))
    yield model
    model.teardown()


@pytest.fixture(scope="module")
def engine(model):
    return DecodingEngine(
        model, limit=3, cache_bytes=12 * BLOCK * model.token_decoder().token_bytes
    )


@pytest.fixture(scope="module")
def expected(model):
    """Gives prompts, and what inference in whole batches continues them with."""
    prompts = next(iter(model.inference_batches()))[0].numpy()
    return prompts, model.infer(tf.constant(prompts)).numpy()


def collect(engine, requests, batching="continuous", started=None):
    """Returns the tokens of each request, given as (prompt, new tokens, options)."""
    found = [[] for _ in requests]
    server = GenerationServer(engine, batching)
    for i, (tokens, new, options) in enumerate(requests):

        def emit(token, last, i=i):
            found[i].append(token)
            if started and not i:
                started(server, len(found[0]))

        server.submit(Request(Prompt(tokens, new), emit, **options))
    server.stop()
    return found, server


@pytest.mark.parametrize("batching", ["continuous", pytest.param("static", marks=pytest.mark.slow)])
def test_tokens_are_those_of_inference_in_whole_batches(engine, expected, batching):
    prompts, tokens = expected
    # Of different lengths: the prefix of a prompt and its first new tokens is a prompt too.
    whole = np.concatenate([prompts, tokens], 1)
    cut = [(40, 40), (41, 7), (60, 20), (43, 2), (40, 17), (79, 1), (50, 30)]
    requests = [(whole[i % 4, :length], new, {}) for i, (length, new) in enumerate(cut)]
    found, server = collect(engine, requests, batching)
    for i, (length, new) in enumerate(cut):
        assert found[i] == whole[i % 4, length : length + new].tolist()
    assert len(engine.pool.free) == engine.pool.blocks
    assert max(server.batches) <= engine.limit


def test_a_request_joins_those_that_run_unless_batches_are_static(engine, expected):
    prompts, _ = expected
    for batching, joins in (("continuous", True), ("static", False)):
        order = []

        def start(server, count, order=order):
            order.append("long")
            if count == 1:  # the second arrives while the first runs

                def emit(token, last):
                    order.append("short")

                server.submit(Request(Prompt(prompts[1], 2), emit))

        collect(engine, [(prompts[0], 20, {})], batching, start)
        assert (order.index("short") < 19) == joins
        assert order.count("long") == 20


def test_the_blocks_bound_the_memory(engine, expected):
    prompts, _ = expected
    assert engine.pool.blocks == 12
    # Each needs five blocks of 16 for its 79 tokens: two at once, where three sequences may run.
    found, server = collect(engine, [(prompts[0], 40, {})] * 4)
    assert set(server.batches) == {2}
    assert len({tuple(each) for each in found}) == 1


def test_long_prompts_are_read_in_parts(model, expected, monkeypatch):
    prompts, tokens = expected
    monkeypatch.setattr("fathom.measure.serving.decoding.CHUNK", 16)
    monkeypatch.setattr("fathom.measure.serving.generation.CHUNK", 16)
    engine, read = DecodingEngine(model, limit=2), []
    original = engine.read
    monkeypatch.setattr(
        engine, "read", lambda cached, part: (read.append(len(part)), original(cached, part))[1]
    )
    found, _ = collect(engine, [(prompts[0], 5, {})])
    assert read == [16, 16, 8]
    assert found[0] == tokens[0, :5].tolist()


def test_a_choice_at_random_depends_on_its_own_seed_alone(engine, expected):
    prompts, _ = expected
    options = {"temperature": 1.5, "seed": 3}
    alone, _ = collect(engine, [(prompts[0], 20, options)])
    beside, _ = collect(
        engine, [(prompts[1], 30, {}), (prompts[0], 20, options), (prompts[0], 20, {"seed": 3})]
    )
    assert alone[0] == beside[1] != beside[2]
    other, _ = collect(engine, [(prompts[0], 20, options | {"seed": 4})])
    assert other != alone
    best, _ = collect(engine, [(prompts[0], 20, options | {"top_k": 1})])
    assert best[0] == beside[2]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{}, {"top_p": 0.9}, {"top_k": 3}])
def test_the_least_temperature_chooses_the_most_probable_token(options):
    request = Request(Prompt(np.zeros(1, np.int32), 1), print, temperature=1e-308, **options)
    logits = np.array([-30.0, 3.0, 7.0, 6.9], np.float32)
    assert _choose(logits, request, np.random.default_rng(0)) == 2


def test_a_cancelled_request_ends_and_frees_its_blocks(engine, expected):
    requests, ended = [], threading.Event()
    server = GenerationServer(engine)

    def emit(token, last):
        requests[0].cancelled = True
        if last:
            requests.append(token)
            ended.set()

    requests.append(Request(Prompt(expected[0][0], 40), emit))
    server.submit(requests[0])
    assert ended.wait(60)
    server.stop()
    assert requests[1] is None
    assert sum(server.batches.values()) < 39
    assert len(engine.pool.free) == engine.pool.blocks


def test_cancelled_requests_do_not_wait(engine, expected, monkeypatch):
    release, step = threading.Event(), engine.step
    monkeypatch.setattr(engine, "step", lambda *given: (release.wait(30), step(*given))[1])
    server = GenerationServer(engine)
    prompt = Prompt(expected[0][0], 3)
    requests = [Request(prompt, lambda *_: None) for _ in range(engine.limit + 3)]
    server.submit(*requests)
    while not server._running:
        time.sleep(0.01)
    before = server.waiting
    requests[-1].cancelled = True
    after = server.waiting
    release.set()
    server.stop()
    assert after == before - 1 > 0


def test_a_failing_network_ends_all_requests(model, expected, monkeypatch):
    engine = DecodingEngine(model, limit=2)

    def fail(*_):
        raise ValueError("no memory")

    monkeypatch.setattr(engine, "step", fail)
    server, ends = GenerationServer(engine), []
    for _ in range(3):
        server.submit(Request(Prompt(expected[0][0], 3), partial(lambda *each: ends.append(each))))
    with pytest.raises(FathomError, match="the inference failed: no memory"):
        server.stop()
    assert ends.count((None, True)) == 3


def test_what_does_not_fit_is_refused(model, engine):
    server = GenerationServer(engine)
    for length, new in ((0, 1), (80, 1), (1, 0)):
        with pytest.raises(FathomError, match="do not fit"):
            server.submit(Request(Prompt(np.zeros(length, np.int32), new), lambda *_: None))
    server.stop()
    with pytest.raises(FathomError, match=r"cannot hold one sequence of 80 tokens: give it"):
        DecodingEngine(model, limit=2, cache_bytes=100)
    with pytest.raises(FathomError, match=r"the cache would take .* give a smaller --cache or"):
        DecodingEngine(model, limit=2, cache_bytes=2**60)
    other = AutoencFwd("/cpu:0", {"hidden_units": 8, "latents": 2})
    other.setup()
    with pytest.raises(FathomError, match="does not generate text token by token"):
        DecodingEngine(other, limit=2)
