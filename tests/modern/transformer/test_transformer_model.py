"""The transformer against its definition, PyTorch's layers, and decoding without a cache."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import perturbed, softmax

from fathom.errors import FathomError
from fathom.modern.transformer.embedding import sinusoids
from fathom.modern.transformer.formulas import dropped, smoothed_cross_entropy
from fathom.modern.transformer.model import Transformer, TransformerFwd
from fathom.shared.translation.symbols import EOS, GO, PAD

SMALL = {
    "batch_size": 10,
    "layers": 2,
    "width": 16,
    "heads": 4,
    "hidden_units": 24,
    "vocabulary": 100,
    "lengths": "24",
    "dropout": 0.0,
    "beam_size": 1,
    "xla": False,
}


def model_of(forward_only=False, **options):
    return (TransformerFwd if forward_only else Transformer)("/cpu:0", {**SMALL, **options})


def built(**options):
    """A built network with weights of which none is as initialised, and a batch."""
    model = model_of(**options)
    model.build()
    perturbed(model, 0.1)
    rng = np.random.default_rng(0)
    source = rng.integers(4, 100, (3, 7)).astype(np.int32)
    target = rng.integers(4, 100, (3, 6)).astype(np.int32)
    source[1, 4:] = PAD
    target[:, 0] = GO
    return model, source, target


def weights_of(model):
    return {variable.path: variable.numpy() for variable in model.network.variables}


# ---------------------------------------------------------------- the network in NumPy


def attention(x, memory, hidden, weights, path, heads=4):
    """Section 3.2.2, a head at a time; ``hidden`` [.., queries, keys] are not attended to."""
    width = x.shape[-1]
    queries, keys, values = np.split(weights[f"{path}/projections/kernel"], 3, 1)
    size, found = width // heads, []
    for i in range(0, width, size):
        q, k, v = x @ queries[:, i : i + size], memory @ keys[:, i : i + size], None
        v = memory @ values[:, i : i + size]
        scores = np.where(hidden, -np.inf, q @ np.swapaxes(k, 1, 2) / np.sqrt(size))
        found.append(softmax(scores) @ v)
    return np.concatenate(found, -1) @ weights[f"{path}/output/kernel"]


def normalized(x, weights, path):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{path}/scale"] + weights[f"{path}/offset"]


def feed_forward(x, w, path):
    hidden = np.maximum(x @ w[f"{path}/first/kernel"] + w[f"{path}/first/bias"], 0)
    return hidden @ w[f"{path}/second/kernel"] + w[f"{path}/second/bias"]


def embedded(words, weights):
    width = weights["embedding/matrix"].shape[1]
    position, i = np.indices((words.shape[1], width))
    angles = position / 10000 ** (i // 2 * 2 / width)
    places = np.where(i % 2, np.cos(angles), np.sin(angles))
    return weights["embedding/matrix"][words] * np.sqrt(width) + places


def states_of(source, target, w):
    """The decoder's outputs by the formulas of section 3."""
    padding, future = (source == PAD)[:, None], ~np.tri(target.shape[1], dtype=bool)
    x = embedded(source, w)
    for layer in ("encoder_1", "encoder_2"):
        x = normalized(
            x + attention(x, x, padding, w, f"{layer}/attention"), w, f"{layer}/attended"
        )
        x = normalized(x + feed_forward(x, w, f"{layer}/feed_forward"), w, f"{layer}/fed_forward")
    y = embedded(target, w)
    for layer in ("decoder_1", "decoder_2"):
        y = normalized(y + attention(y, y, future, w, f"{layer}/attention"), w, f"{layer}/attended")
        found = attention(y, x, padding, w, f"{layer}/source_attention")
        y = normalized(y + found, w, f"{layer}/source_attended")
        y = normalized(y + feed_forward(y, w, f"{layer}/feed_forward"), w, f"{layer}/fed_forward")
    return y


def test_the_network_is_that_of_the_papers_formulas():
    model, source, target = built()
    expected = states_of(source, target, weights_of(model))
    ours = model.network((source, target), training=False)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_positions_are_sines_and_cosines():
    places = sinusoids(tf.constant([0, 3]), 6).numpy()
    np.testing.assert_allclose(places[0], [0, 1, 0, 1, 0, 1])
    rates = [3, 3 / 10000 ** (2 / 6), 3 / 10000 ** (4 / 6)]
    np.testing.assert_allclose(places[1], np.stack([np.sin(rates), np.cos(rates)], 1).ravel(), 1e-6)


# ---------------------------------------------------------------- PyTorch's layers


def give(linear, kernel, bias=None):
    linear.weight.copy_(linear.weight.new_tensor(kernel.T))
    if bias is not None:
        linear.bias.copy_(linear.bias.new_tensor(bias))


def pytorch_stacks(torch, w):
    """``torch.nn.Transformer`` without its last normalizations, with our weights."""
    nn = torch.nn
    options = {"dropout": 0.0, "batch_first": True}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 4, 24, **options), 2, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 24, **options), 2)
    network = nn.Transformer(
        16, 4, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    attentions = {"self_attn": "attention", "multihead_attn": "source_attention"}
    norms = {"encoder": ("attended", "fed_forward")}
    norms["decoder"] = ("attended", "source_attended", "fed_forward")
    with torch.no_grad():
        for name, stack in (("encoder", encoder), ("decoder", decoder)):
            for i, layer in enumerate(stack.layers):
                path = f"{name}_{i + 1}"
                for theirs, ours in attentions.items():
                    if hasattr(layer, theirs):
                        part = getattr(layer, theirs)
                        kernel = w[f"{path}/{ours}/projections/kernel"]
                        part.in_proj_weight.copy_(part.in_proj_weight.new_tensor(kernel.T))
                        part.in_proj_bias.zero_()
                        give(part.out_proj, w[f"{path}/{ours}/output/kernel"])
                        part.out_proj.bias.zero_()
                for theirs, ours in (("linear1", "first"), ("linear2", "second")):
                    at = f"{path}/feed_forward/{ours}"
                    give(getattr(layer, theirs), w[f"{at}/kernel"], w[f"{at}/bias"])
                for number, ours in enumerate(norms[name], 1):
                    norm = getattr(layer, f"norm{number}")
                    norm.weight.copy_(norm.weight.new_tensor(w[f"{path}/{ours}/scale"]))
                    norm.bias.copy_(norm.bias.new_tensor(w[f"{path}/{ours}/offset"]))
    return network.eval()


def test_the_stacks_and_their_gradients_are_those_of_pytorchs_transformer():
    torch = pytest.importorskip("torch")
    model, source, target = built()
    w = weights_of(model)
    theirs = pytorch_stacks(torch, w)
    embeddings = [torch.tensor(embedded(s, w), dtype=torch.float32) for s in (source, target)]
    padding = torch.tensor(source == PAD)
    future = torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1]).isinf()
    expected = theirs(
        *embeddings,
        tgt_mask=future,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    upstream = np.random.default_rng(1).normal(size=expected.shape).astype(np.float32)
    (expected * torch.tensor(upstream)).sum().backward()

    with tf.GradientTape() as tape:
        ours = model.network((source, target), training=False)
        loss = tf.reduce_sum(ours * upstream)
    np.testing.assert_allclose(ours, expected.detach(), atol=1e-5)
    paths = [variable.path for variable in model.network.trainable_variables]
    found = dict(zip(paths, tape.gradient(loss, model.network.trainable_variables), strict=True))
    for name, stack in (("encoder", theirs.encoder), ("decoder", theirs.decoder)):
        for i, layer in enumerate(stack.layers):
            path = f"{name}_{i + 1}"
            pairs = {
                f"{path}/attention/projections/kernel": layer.self_attn.in_proj_weight.grad.T,
                f"{path}/attention/output/kernel": layer.self_attn.out_proj.weight.grad.T,
                f"{path}/feed_forward/first/kernel": layer.linear1.weight.grad.T,
                f"{path}/feed_forward/second/bias": layer.linear2.bias.grad,
                f"{path}/attended/scale": layer.norm1.weight.grad,
            }
            if name == "decoder":
                across = layer.multihead_attn
                pairs[f"{path}/source_attention/projections/kernel"] = across.in_proj_weight.grad.T
            for ours_at, gradient in pairs.items():
                np.testing.assert_allclose(found[ours_at], gradient, atol=1e-4, err_msg=ours_at)


# ---------------------------------------------------------------- loss and dropout


def test_the_loss_and_its_gradients_are_those_of_the_whole_softmax():
    rng = np.random.default_rng(0)
    states, matrix = (tf.constant(rng.normal(size=(n, 8)), tf.float32) for n in (50, 30))
    words = tf.constant(rng.integers(0, 30, 50), tf.int32)
    each = tf.constant(rng.random(50), tf.float32)
    results = []
    for smooth in (True, False):
        with tf.GradientTape() as tape:
            tape.watch([states, matrix])
            if smooth:
                entropies = smoothed_cross_entropy(states, matrix, words, 0.1)
            else:
                labels = 0.9 * tf.one_hot(words, 30) + 0.1 / 30
                logits = tf.matmul(states, matrix, transpose_b=True)
                entropies = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
            total = tf.reduce_sum(entropies * each)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(total, [states, matrix])]
        results.append([entropies, *gradients])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_loss_of_an_improbable_word_is_right_in_16_bits(precision):
    states, matrix = tf.constant([[20.0]]), tf.constant([[0.0], [1.0]])
    loss = smoothed_cross_entropy(tf.cast(states, precision), matrix, tf.constant([0]), 0.0)
    assert float(loss[0]) == pytest.approx(20, rel=1e-3)


def test_padding_has_no_part_in_the_loss():
    model, source, target = built()
    words = np.concatenate([target[:, 1:], np.full((3, 1), EOS, np.int32)], 1)
    words[0, 3:] = PAD
    outputs = model.network((source, target), training=False)
    loss = model.build_loss(None, words, outputs)
    again = model.build_loss(None, words, tf.where((words == PAD)[..., None], 9.0, outputs))
    assert loss.numpy() == again.numpy()


def test_dropout_keeps_its_share_and_the_mean():
    x = tf.ones([333, 111])
    y = dropped(x, 0.3, tf.constant([1, 2], tf.int64)).numpy()
    assert np.mean(y == 0) == pytest.approx(0.3, abs=0.01)
    assert y.max() == pytest.approx(1 / 0.7)
    other = dropped(x, 0.3, tf.constant([1, 3], tf.int64)).numpy()
    assert np.mean((y == 0) == (other == 0)) == pytest.approx(0.58, abs=0.01)
    assert np.mean(dropped(x, 0.999999, tf.constant([1, 2], tf.int64)) == 0) > 0.99


def test_the_rate_rises_and_falls_as_in_the_paper():
    model = model_of(learning_rate=0.5, warmup_steps=4)
    rates = [model.scheduled_rate(step) for step in (0, 1, 3, 15)]
    assert rates == pytest.approx([0.125, 0.25, 0.5, 0.25])
    for size, width in (("base", 512), ("big", 1024)):
        rate = Transformer("/cpu:0", {"size": size}).hyperparameters.learning_rate
        assert rate == pytest.approx(width**-0.5 * 4000**-0.5)


# ---------------------------------------------------------------- size and cost


@pytest.mark.parametrize(("size", "parameters"), [("tiny", 2_342_912), ("base", 63_045_632)])
def test_parameters_are_those_of_the_formula(size, parameters):
    hyperparameters = Transformer("/cpu:0", {"size": size}).hyperparameters
    d, f, n, v = (
        hyperparameters.width,
        hyperparameters.hidden_units,
        hyperparameters.layers,
        hyperparameters.vocabulary,
    )
    feed_forward = 2 * d * f + f + d
    encoder = 4 * d**2 + feed_forward + 2 * 2 * d
    decoder = 2 * 4 * d**2 + feed_forward + 3 * 2 * d
    assert v * d + n * (encoder + decoder) == parameters
    if size == "tiny":
        model = Transformer("/cpu:0", {"size": size})
        model.build()
        assert model.cost().parameters == parameters


@pytest.mark.slow
def test_the_cost_of_attention_grows_as_the_square_of_the_length():
    costs = []
    for length in (16, 32, 64):
        model = model_of(lengths=str(length))
        model.build()
        costs.append(model.cost().forward_macs)
    linear = costs[1] - 2 * costs[0]  # what the square adds from 16 to 32: 2 * 16^2 a product
    assert costs[2] - 2 * costs[1] == 4 * linear
    assert linear == 2 * 16**2 * (2 * 16) * 2 * 3  # two products, two layers, three attentions


# ---------------------------------------------------------------- decoding


def most_probable_without_cache(model, source, steps):
    """Greedy words, the whole network computed anew for each."""
    words = np.full((len(source), 1), GO, np.int32)
    ended = np.zeros(len(source), bool)
    for _ in range(steps):
        states = model.network((source, words), training=False)[:, -1]
        translated = np.argmax(model._embedding.logits_to_say(states), 1).astype(np.int32)
        translated = np.where(ended, PAD, translated)
        ended |= (translated == EOS) | (translated == PAD)
        words = np.concatenate([words, translated[:, None]], 1)
    return words[:, 1:]


def test_greedy_decoding_with_the_cache_equals_decoding_without():
    model, source, _ = built()
    ours = model.translate(tf.constant(source)).numpy()
    assert ours.shape == (3, 14)
    assert len({tuple(row) for row in ours}) == 3
    np.testing.assert_array_equal(ours, most_probable_without_cache(model, source, 14))


@pytest.mark.slow
def test_a_beam_of_four_equals_one_without_cache():
    model, source, _ = built(beam_size=4)
    found = model.translate(tf.constant(source[:1])).numpy()[0]
    assert found.tolist() == beam_without_cache(model, source[:1], 4, 14)


def beam_without_cache(model, source, size, steps):
    """The best of ``size`` hypotheses, as lists of words, extended one word at a time."""
    alive, ended = [([], 0.0)], []
    for length in range(1, steps + 1):
        extended = []
        for words, score in alive:
            read = np.array([[GO, *words]], np.int32)
            states = model.network((source, read), training=False)[:, -1]
            gained = tf.nn.log_softmax(model._embedding.logits_to_say(states))[0].numpy()
            extended += [([*words, i], score + gained[i]) for i in np.argsort(-gained)[: 2 * size]]
        extended = sorted(extended, key=lambda each: -each[1])[: 2 * size]
        penalty = ((5 + length) / 6) ** 0.6
        ended += [(words, score / penalty) for words, score in extended if words[-1] == EOS]
        alive = [each for each in extended if each[0][-1] != EOS][:size]
    best, _ = max(ended, key=lambda each: each[1]) if ended else alive[0]
    return best + [PAD] * (steps - len(best))


@pytest.mark.slow
def test_a_network_overfitted_to_a_batch_translates_it():
    options = {"width": 32, "hidden_units": 64, "learning_rate": 0.01, "warmup_steps": 20}
    model = model_of(**options, label_smoothing=0.0, batch_size=4)
    model.setup()
    batch = next(model.training_batches(0))
    model.run(runstep=lambda step, _: step(*batch), n_steps=120)
    translated = model.translate(batch.source).numpy()
    np.testing.assert_array_equal(translated[:, :24], batch.words)
    assert not translated[:, 24:].any()


@pytest.mark.slow
def test_the_forward_only_twin_translates_as_the_trained_network(tmp_path):
    trained = model_of()
    trained.setup({"checkpoint_dir": str(tmp_path)})
    trained.run(n_steps=2)
    model = model_of(forward_only=True)
    model.setup({"checkpoint_dir": str(tmp_path)})
    (source,) = next(model.inference_batches())
    translated = []
    model.run(runstep=lambda step, batch: translated.append(step(*batch)), n_steps=1)
    np.testing.assert_array_equal(translated[0], trained.translate(source))
    metrics = model.evaluate()
    assert metrics["examples"] == 200
    assert 0 <= metrics["bleu"] <= 100
    translations, picture = model.save_pictures(tmp_path)
    assert translations.read_text(encoding="utf-8").count("translation: ") == 200
    assert picture.stat().st_size > 1000


@pytest.mark.slow
def test_the_result_has_the_speed_of_encoder_and_decoder_unless_it_reads_the_target():
    model = model_of(forward_only=True, beam_size=2, lengths="16 24")
    model.setup()
    result = model.run(n_steps=3)
    speed = result.generation
    assert 10 <= speed.sequences <= 15  # of 24 and of 16 subwords
    assert 1 <= speed.new_tokens <= 48
    # Of 240 subwords, and twice as many for each of 2 hypotheses: 2 layers' keys and values.
    assert speed.cache_bytes == 240 * (1 + 2 * 2) * 2 * 2 * 16 * 4
    both = speed.seconds_to_first_token + (speed.new_tokens - 1) * speed.seconds_per_output_token
    assert 0 < both <= 1.5 * max(result.steps.seconds)
    forced = model_of(forward_only=True, decoding="teacher-forced")
    forced.setup()
    assert forced.run(n_steps=1).generation is None


def test_the_pictured_attention_is_the_mean_of_all_heads_to_the_words_of_the_source(monkeypatch):
    model, source, target = built()
    found = model.decoder.alignment(*model.encoder(source, training=False), target).numpy()
    computed = []
    formula = softmax
    monkeypatch.setitem(globals(), "softmax", lambda x: computed.append(formula(x)) or computed[-1])
    states_of(source, target, weights_of(model))
    to_source = [weights for weights in computed if weights.shape[1:] == (6, 7)]
    assert len(to_source) == 2 * 4  # layers, heads
    np.testing.assert_allclose(found, np.mean(to_source, 0), atol=1e-5)
    assert not found[1, :, 4:].any()  # padding


# ---------------------------------------------------------------- training and its state


def test_translations_are_by_the_mean_of_the_last_epochs_weights():
    model = model_of(average=2)
    model.build()
    variable = model.network.variables[0]
    model._validation = ()
    for epoch, value in ((0, 1.0), (1, 3.0), (9, 5.0)):  # after a resume with larger batches
        variable.assign(tf.fill(variable.shape, value))
        model.end_epoch(epoch)
    variable.assign(tf.fill(variable.shape, 9.0))
    with model._mean.applied():
        assert np.unique(variable.numpy()).tolist() == [4.0]
    assert np.unique(variable.numpy()).tolist() == [9.0]


@pytest.mark.slow
def test_inference_loads_the_mean_of_a_checkpoint(tmp_path):
    model = model_of()
    model.setup({"checkpoint_dir": str(tmp_path)})
    model.run(n_steps=1)
    model._mean.keep()
    kept = weights_of(model)
    model.run(n_steps=1)
    twin = model_of(forward_only=True)
    twin.setup({"checkpoint_dir": str(tmp_path)})
    for path, found in weights_of(twin).items():
        np.testing.assert_array_equal(found, kept[path])


@pytest.mark.slow
def test_a_checkpoint_brings_its_vocabulary(tmp_path):
    model = model_of()
    model.setup({"checkpoint_dir": str(tmp_path)})
    model.run(n_steps=1)
    other = model_of(forward_only=True, seed=7)  # another synthetic text
    other.load_data()
    assert other.subwords.model != model.subwords.model
    other = model_of(forward_only=True, seed=7)
    other.setup({"checkpoint_dir": str(tmp_path)})
    assert other.subwords.model == model.subwords.model
    translated = other.subwords.sentence(other.test.target.ids[: other.test.target.lengths[0]])
    assert translated == other.test_pairs[0][1].strip()
    assert any("the vocabulary is the checkpoint's" in note for note in other.notes)


@pytest.mark.slow
def test_a_vocabulary_of_another_size_than_the_checkpoints_is_refused(tmp_path):
    model = model_of()
    model.setup({"checkpoint_dir": str(tmp_path)})
    model.run(n_steps=1)
    with pytest.raises(FathomError, match="shape") as error:
        model_of(forward_only=True, vocabulary=90).setup({"checkpoint_dir": str(tmp_path)})
    assert "\n" not in str(error.value)


def test_pairs_that_do_not_fit_are_counted_and_reported():
    model = model_of(lengths="20")
    model.load_data()
    unfit = model.describe_data()["unfit"]
    assert unfit["left out: training pairs longer than the largest length"] > 0
    assert unfit["cut: test pairs longer than the largest length"] > 0
    assert len(model.notes) == 2


def test_the_length_of_a_description_can_be_chosen():
    model = model_of(lengths="12 24")
    model.build()
    assert model.signature_of_length(9)[0].shape == (20, 12)
    with pytest.raises(FathomError, match="of 25 words: the largest has 24"):
        model.signature_of_length(25)


@pytest.mark.parametrize("forward_only", [False, True])
def test_all_sentences_of_a_batch_are_counted(forward_only):
    model = model_of(forward_only=forward_only, lengths="16 24")
    model.setup()
    batches = model.inference_batches() if forward_only else model.training_batches(0)
    sizes = set()
    for batch in itertools.islice(batches, 30):
        sizes.add(len(batch[0]))
        assert model.examples(*batch) * model.hyperparameters.batch_size == len(batch[0])
    assert len(sizes) > 1
