"""The language model against its formulas in NumPy, its phases, training and samples."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import gelu, perturbed, softmax, weights_of

from fathom.core.training.schedules import warmed_cosine
from fathom.errors import FathomError
from fathom.modern.gpt.layers import LayerNormalization
from fathom.modern.gpt.model import GPT, GPTFwd
from fathom.system.precision import computing_in

SMALL = {"layers": 2, "heads": 2, "width": 16, "context": 12, "batch_size": 3, "xla": False}


def make(kind=GPT, **options):
    model = kind("/cpu:0", {**SMALL, **options})
    model.setup()
    return perturbed(model)


@pytest.fixture(scope="module")
def model():
    """Gives a small model, set up."""
    return make()


def normalized(x, w):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w["scale"] + w["offset"]


def attended(x, w, heads):
    size = x.shape[1] // heads
    q, k, v = np.split(x @ w["kernel"] + w["bias"], 3, 1)
    parts = []
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        scores = q[:, part] @ k[:, part].T / np.sqrt(size)
        scores[np.triu_indices(len(x), 1)] = -np.inf
        parts.append(softmax(scores) @ v[:, part])
    return np.concatenate(parts, 1) @ w["projection"] + w["projection_bias"]


def perceived(x, w):
    return gelu(x @ w["kernel"] + w["bias"]) @ w["projection"] + w["projection_bias"]


def logits_of(network, tokens, layers=2, heads=2):
    """Returns the logits of one sequence, computed in NumPy in float64."""
    w = weights_of(network)
    x = w["embedding"]["tokens"][tokens] + w["embedding"]["positions"][: len(tokens)]
    for i in range(1, layers + 1):
        x = x + attended(normalized(x, w[f"block{i}_norm1"]), w[f"block{i}_attention"], heads)
        x = x + perceived(normalized(x, w[f"block{i}_norm2"]), w[f"block{i}_mlp"])
    return normalized(x, w["norm"]) @ w["embedding"]["tokens"].T


def test_the_network_is_that_of_the_paper(model):
    tokens = next(model.training_batches(0))[0]
    logits = model.network(tokens).numpy()
    for i in range(3):
        expected = logits_of(model.network, tokens[i].numpy())
        np.testing.assert_allclose(logits[i], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_gpt_2_small_has_its_parameters():
    model = GPT("/cpu:0", {"size": "gpt2", "batch_size": 1})
    model.build()
    assert model.cost().parameters == 124_439_808
    width, time, words = 768, 1024, 50_257
    blocks = 12 * (12 * width**2 * time + 2 * time**2 * width)
    assert model.cost().forward_macs == blocks + time * width * words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "parameters"), [("gpt2-xl", 1_557_611_200), ("gpt3-175b", 174_604_259_328)]
)
def test_large_networks_are_described_with_their_parameters(size, parameters):
    model = GPT("/cpu:0", {"size": size, "batch_size": 1})
    hyperparameters, described = model.hyperparameters, model.describe()
    width, time = hyperparameters.width, hyperparameters.context
    forward = hyperparameters.layers * (12 * width**2 * time + 2 * time**2 * width)
    forward += time * width * 50_257
    assert described.parameters == parameters
    assert described.macs == 3 * forward


@pytest.mark.slow
def test_initial_weights_are_normal_and_smaller_where_residuals_add_up():
    model = GPT("/cpu:0", {"width": 64, "layers": 8, "xla": False})
    model.setup()
    for variable in model.network.variables:
        if len(variable.shape) == 2:
            expected = 0.02 / 4 if variable.path.endswith("/projection") else 0.02
            assert np.std(variable) == pytest.approx(expected, rel=0.05), variable.path
    loss = model.run(n_steps=1).steps.loss[0]
    assert loss == pytest.approx(np.log(len(model.vocabulary)), rel=0.02)


def test_logits_from_the_cache_equal_those_of_the_whole_sequence():
    model = make(GPTFwd)
    prompts = next(model.inference_batches())[0]
    first, *caches = model._prefilling(prompts)
    pairs = list(zip(caches[::2], caches[1::2], strict=True))
    tokens, sequence = first, prompts[0].numpy().tolist()
    for _ in range(3):
        position = len(sequence)
        sequence.append(int(tokens[0]))
        logits, pairs = model.decoder.decode_token(tokens, pairs, tf.constant(position))
        expected = logits_of(model.network, sequence)[-1]
        np.testing.assert_allclose(logits[0], expected, rtol=1e-4, atol=1e-4)
        tokens = tf.argmax(logits, 1, tf.int32)


@pytest.mark.slow
def test_the_phases_can_run_alone():
    both = make(GPTFwd)
    generated = both.compiled.step.call(*next(both.inference_batches()))
    outputs = {}
    for phase in ("prefill", "decode"):
        model = make(GPTFwd, phase=phase)
        result = model.run(
            runstep=lambda step, batch: outputs.setdefault(phase, step(*batch)),  # noqa: B023
            n_steps=1,
        )
        speed = result.generation
        assert (speed.prefill_tokens_per_second is None) == (phase == "decode")
        assert (speed.decode_tokens_per_second is None) == (phase == "prefill")
        types = [operation.type for operation in model.model().get_operations()]
        assert ("While" in types or "StatelessWhile" in types) == (phase == "decode")
    np.testing.assert_array_equal(outputs["prefill"][0], generated[:, 0])
    np.testing.assert_array_equal(outputs["decode"], generated)


def test_runs_of_decode_alone_trace_its_prefill_once(monkeypatch):
    traced = []
    prefill = GPTFwd._prefill
    monkeypatch.setattr(GPTFwd, "_prefill", lambda *each: traced.append(1) or prefill(*each))
    model = make(GPTFwd, phase="decode")
    for _ in range(2):
        model.run(n_steps=1)
    assert len(traced) == 1


def test_a_result_reports_the_phases_apart():
    model = make(GPTFwd)
    result = model.run(n_steps=3)
    speed = result.generation
    assert (speed.sequences, speed.prompt_tokens, speed.new_tokens) == (3, 6, 6)
    # Keys and values of 2 blocks for 11 tokens of 16 float32 values, of each of 3 sequences.
    assert speed.cache_bytes == 2 * 2 * 11 * 16 * 4 * 3
    step = speed.seconds_to_first_token + 5 * speed.seconds_per_output_token
    assert 0 < step <= 1.5 * max(result.steps.seconds)
    assert make().run(n_steps=1).generation is None


@pytest.mark.slow
def test_the_choice_at_random_is_of_the_most_probable_and_follows_the_seed():
    def generate(**options):
        model = make(GPTFwd, **options)
        batch = next(model.inference_batches())
        return model.compiled.step.call(*batch).numpy().tolist()

    warm = {"temperature": 1.0, "seed": 5}
    sampled, greedy = generate(**warm), generate(seed=5)
    assert generate(**warm) == sampled != greedy
    assert generate(**warm, top_k=1) == greedy


def test_weights_decay_apart_from_the_gradient_and_biases_do_not():
    model = make(weight_decay=0.5, warmup=0)
    plain = make(weight_decay=0.0, warmup=0)
    batch = next(model.training_batches(0))
    before = [variable.numpy() for variable in plain.network.trainable_variables]
    model.compiled.step.call(*batch)
    plain.compiled.step.call(*batch)
    for with_decay, without, old in zip(
        model.network.trainable_variables, plain.network.trainable_variables, before, strict=True
    ):
        decay = 1e-3 * 0.5 * old if len(old.shape) == 2 else 0 * old
        np.testing.assert_allclose(without.numpy() - with_decay, decay, atol=1e-6)


def test_the_rate_rises_and_falls():
    rates = [warmed_cosine(step, 1.0, 100, 2000) for step in (0, 99, 100, 1050, 2000, 9999)]
    assert rates == pytest.approx([1 / 101, 100 / 101, 1, 0.55, 0.1, 0.1])
    model = make(warmup=4, decay_steps=10, learning_rate=0.01)
    model.run(n_steps=3)
    assert float(model.learning_rate) == pytest.approx(0.008)


@pytest.mark.slow
def test_a_checkpoint_of_another_vocabulary_is_refused(tmp_path):
    texts = {}
    for name, letters in (("a", "abcdef"), ("b", "uvwxyz")):
        texts[name] = tmp_path / name
        texts[name].mkdir()
        (texts[name] / "input.txt").write_text(letters * 100)
    saved = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    model = GPT("/cpu:0", {**SMALL, "data_dir": str(texts["a"])})
    model.setup(saved)
    model.run(n_steps=1)
    for kind in (GPT, GPTFwd):
        other = kind("/cpu:0", {**SMALL, "data_dir": str(texts["b"])})
        with pytest.raises(FathomError, match=r"vocabulary.*other tokens"):
            other.setup({**saved, "resume": True})
    same = GPTFwd("/cpu:0", {**SMALL, "data_dir": str(texts["a"])})
    same.setup(saved)


@pytest.mark.slow
def test_samples_are_written(tmp_path):
    model = make()
    (path,) = model.save_pictures(tmp_path)
    assert path.name == "gpt-samples.txt"
    assert path.read_text().count("--- prompt:") == 3


@pytest.mark.slow
def test_evaluation_covers_the_validation_text(model):
    metrics = model.evaluate()
    validation = model.vocabulary.encode(model.text.validation)
    assert metrics["examples"] == (len(validation) - 1) // 12
    whole = model.metrics_of([(validation[None, :12], validation[None, 1:13])])
    expected = logits_of(model.network, validation[:12])
    losses = -np.log(softmax(expected))[np.arange(12), validation[1:13]]
    assert whole["loss"] == pytest.approx(losses.mean(), rel=1e-4)
    assert dataclasses.asdict(model.hyperparameters)["prompt_tokens"] == 6


@pytest.mark.slow
def test_dropout_changes_training_alone():
    model = make(dropout=0.5)
    tokens = next(model.training_batches(0))[0]
    np.testing.assert_array_equal(model.network(tokens), make().network(tokens))
    assert not np.allclose(model.network(tokens, training=True), model.network(tokens), atol=0.1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_network_in_16_bits_normalises_in_float32(precision):
    values = np.random.default_rng(0).normal(3, 2, (2, 3, 8))
    with computing_in(precision):
        inputs = keras.Input((3, 8), dtype=precision)
        network = keras.Model(inputs, LayerNormalization(8)(inputs))
    given = tf.cast(values, precision)
    normal = network(given)
    assert normal.dtype == precision
    wide = tf.cast(given, tf.float32).numpy()
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(tf.cast(normal, tf.float32), expected, rtol=0.01, atol=0.01)


def test_samples_have_random_numbers_of_their_own_in_each_part(tmp_path):
    model = make(temperature=1.0, prompt_tokens=4, new_tokens=4)
    for variable in model.network.trainable_variables:
        variable.assign(tf.zeros_like(variable))  # what follows is all chance
    before = int(model.noise_step)
    text = model.save_pictures(tmp_path)[0].read_text()
    assert int(model.noise_step) == before
    continued = text.replace("\n", "")
    parts = {continued[i : i + 4] for i in range(40, 120, 4)}
    assert len(parts) > 5
