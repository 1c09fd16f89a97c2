import numpy as np
import pytest
import tensorflow as tf

from fathom import MemNet, MemNetFwd
from fathom.errors import FathomError
from fathom.memnet.layers import (
    SentenceEmbedding,
    StoryEmbedding,
    TemporalEncoding,
    position_weights,
)

SMALL = {"batch_size": 10, "embedding": 6, "memory": 12, "xla": False}


def small_model(stories, **options):
    return MemNet("/cpu:0", {**SMALL, "data_dir": stories, **options})


def weights(model):
    return {v.path.removesuffix("/matrix"): v.numpy() for v in model.network.trainable_variables}


def embed(matrix, sentences):
    """Returns sum_j l_j * A x_ij, word for word."""
    d, words = matrix.shape[1], sentences.shape[-1]
    embedded = np.zeros((*sentences.shape[:-1], d))
    for place in np.ndindex(sentences.shape):
        j, word = place[-1] + 1, sentences[place]
        for k in range(1, d + 1):
            l_kj = 2 * ((1 - j / words) - (k / d) * (1 - 2 * j / words))
            if word:
                embedded[(*place[:-1], k - 1)] += l_kj * matrix[word - 1, k - 1]
    return embedded


def remember(story, matrix, temporal):
    """Returns the memory vectors; those of empty memories are zero."""
    memories = embed(matrix, story)
    for b, i in np.ndindex(story.shape[:2]):
        if story[b, i].any():
            memories[b, i] += temporal[i]
    return memories


def softmax(match):
    exponentials = np.exp(match - match.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


def adjacent(story, question, w, hops, attend):
    names = ["A1", *(f"C{k + 1}" for k in range(hops))]
    vectors = [remember(story, w[name], w[f"T_{name}"]) for name in names]
    u = embed(w["A1"], question)
    for k in range(hops):
        p = attend(np.einsum("bd,bid->bi", u, vectors[k]))
        u = u + np.einsum("bi,bid->bd", p, vectors[k + 1])
    return u @ w[names[-1]].T


def layer_wise(story, question, w, hops, attend):
    memory, output = (remember(story, w[name], w[f"T_{name}"]) for name in "AC")
    u = embed(w["B"], question)
    for _ in range(hops):
        p = attend(np.einsum("bd,bid->bi", u, memory))
        u = u @ w["H/kernel"] + np.einsum("bi,bid->bd", p, output)
    return u @ w["W/kernel"]


@pytest.mark.parametrize("reference", [adjacent, layer_wise])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("hops", [1, 3])
def test_the_network_computes_the_papers_equations(stories, reference, linear, hops):
    tying = reference.__name__.replace("_", "-")
    model = small_model(stories, tying=tying, hops=hops, linear_start=linear, initial_stddev=0.3)
    model.build()
    test = model.babi.test
    story, question = test.story[:5], test.question[:5]
    attend = (lambda match: match) if linear else softmax
    expected = reference(story, question, weights(model), hops, attend)
    logits = model.network([story, question], training=False)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_embedded_stories_that_do_not_fit_into_memory_are_refused(stories):
    with pytest.raises(FathomError, match=r"embedded stories would take .* a smaller memory"):
        small_model(stories, embedding=2**31 - 1).load_data()


def test_position_weights_are_those_of_the_formula():
    # J = 4 words, d = 2: l_kj = 2 ((1 - j/4) - (k/2) (1 - j/2))
    expected = [[1.0, 0.5], [1.0, 1.0], [1.0, 1.5], [1.0, 2.0]]
    np.testing.assert_allclose(position_weights(4, 2), expected)


@pytest.mark.parametrize("d", [6, 20])
def test_parameters_are_counted_by_their_formulas(stories, d):
    for hops in (1, 3):
        model = small_model(stories, hops=hops, embedding=d)
        model.build()
        words = len(model.babi.vocabulary) - 1
        assert model.cost().parameters == (hops + 1) * (words + 12) * d
        assert model.cost().forward_macs == hops * 2 * 12 * d + words * d

        model = small_model(stories, hops=hops, embedding=d, tying="layer-wise")
        model.build()
        assert model.cost().parameters == 2 * (words + 12) * d + 2 * words * d + d * d
        assert model.cost().forward_macs == hops * (2 * 12 * d + d * d) + words * d


def test_without_the_encodings_words_are_a_bag_and_memories_have_no_order(stories):
    model = small_model(
        stories, position_encoding=False, temporal_encoding=False, linear_start=False
    )
    model.build()
    assert {v.path for v in model.network.trainable_variables} == {
        f"{name}/matrix" for name in ("A1", "C1", "C2", "C3")
    }
    story, question = model.babi.test.story[:4], model.babi.test.question[:4]
    logits = model.network([story, question])
    turned = model.network([story[:, ::-1, ::-1], question[:, ::-1]])
    np.testing.assert_allclose(logits, turned, rtol=1e-5, atol=1e-6)


def test_weights_start_as_the_paper_says():
    model = MemNet("/cpu:0", {"embedding": 100})
    model.build()
    for variable in model.network.trainable_variables:
        assert variable.numpy().std() == pytest.approx(0.1, rel=0.1)
        assert variable.numpy().mean() == pytest.approx(0, abs=0.01)


def test_the_gradients_of_the_embeddings_are_those_of_their_definition():
    rng = np.random.default_rng(0)
    indices = tf.constant(rng.integers(0, 9, (4, 3, 5)), tf.int32)
    upstream = [tf.constant(rng.normal(size=(4, 3, 6)), tf.float32) for _ in range(2)]
    embeddings = [SentenceEmbedding(position_weights(5, 6), 9, "normal") for _ in range(2)]
    matrices = [embedding.matrix.value for embedding in embeddings]
    with tf.GradientTape(persistent=True) as tape:
        together = StoryEmbedding(embeddings)(indices)
        ours = tf.add_n([tf.reduce_sum(g * m) for g, m in zip(upstream, together, strict=True)])
        rows = [tf.gather(tf.pad(matrix, [[1, 0], [0, 0]]), indices) for matrix in matrices]
        plain = [tf.reduce_sum(r * position_weights(5, 6), -2) for r in rows]
        theirs = tf.add_n([tf.reduce_sum(g * m) for g, m in zip(upstream, plain, strict=True)])
    for embedding, memories, expected in zip(embeddings, together, plain, strict=True):
        np.testing.assert_allclose(memories, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(embedding(indices), expected, rtol=1e-5, atol=1e-6)
    for matrix in matrices:
        expected = tf.convert_to_tensor(tape.gradient(theirs, matrix))
        np.testing.assert_allclose(tape.gradient(ours, matrix), expected, rtol=1e-4, atol=1e-5)


def test_the_null_word_and_empty_memories_are_zero_before_and_after_steps(stories):
    model = small_model(stories)
    model.setup()
    nothing = tf.zeros([1, 12, 6], tf.int32)
    for _ in range(2):
        embedded = model.network.get_layer("story_embedding")(nothing)
        for name, memories in zip(("A1", "C1", "C2", "C3"), embedded, strict=True):
            assert not memories.numpy().any()
            encoding = model.network.get_layer(f"T_{name}")
            for training in (False, True):
                gaps = tf.zeros([1, 12], tf.int32)
                assert not encoding(memories, nothing, gaps, training=training).numpy().any()
        model.run(n_steps=5)


def test_a_sentence_in_time_has_its_row_of_the_matrix_added():
    layer = TemporalEncoding("normal")
    story = tf.constant([[[1, 0], [0, 0], [2, 3]]])
    memories = layer(tf.ones([1, 3, 4]), story, tf.ones([1, 3], tf.int32)).numpy()[0]
    rows = layer.matrix.numpy()
    np.testing.assert_allclose(memories[[0, 2]], 1 + rows[[0, 2]])
    np.testing.assert_array_equal(memories[1], 1)


def test_in_training_gaps_move_a_sentence_in_time_at_most_to_the_last_row():
    layer = TemporalEncoding("normal")
    story, gaps = tf.ones([1, 4, 2], tf.int32), tf.constant([[0, 1, 1, 2]])
    upstream = tf.constant(np.random.default_rng(0).normal(size=(1, 4, 3)), tf.float32)
    with tf.GradientTape() as tape:
        memories = layer(tf.zeros([1, 4, 3]), story, gaps, training=True)
        loss = tf.reduce_sum(upstream * memories)
    np.testing.assert_array_equal(memories[0], layer.matrix.numpy()[[0, 2, 3, 3]])
    expected = [upstream[0, 0], np.zeros(3), upstream[0, 1], upstream[0, 2] + upstream[0, 3]]
    np.testing.assert_allclose(tape.gradient(loss, layer.matrix.value), expected, rtol=1e-6)


def test_noise_is_added_in_training_and_differs_from_step_to_step(stories):
    model = small_model(stories, random_noise=0.5, linear_start=False)
    model.build()
    inputs = [model.babi.train.story[:10], model.babi.train.question[:10]]

    def losses(training):
        answers = tf.constant(model.babi.train.answer[:10])
        outputs = model.network(inputs, training=training)
        model.noise_step.assign_add(1)
        return float(model.build_loss((), answers, outputs))

    assert losses(training=False) == losses(training=False)
    assert losses(training=True) != losses(training=True)


def test_the_gradient_of_each_matrix_is_clipped_by_itself(stories):
    model = small_model(stories, clip_norm=1e-4, learning_rate=100.0, linear_start=False)
    model.setup()
    before = weights(model)
    model.run(n_steps=1)
    after = weights(model)
    for name, old in before.items():
        assert np.linalg.norm(after[name] - old) == pytest.approx(0.01, rel=1e-3), name


@pytest.mark.parametrize(
    ("chosen", "rate"),
    [
        ({}, 0.005),
        ({"linear_start": "false"}, 0.01),
        ({"linear_start": False, "learning_rate": 0.005}, 0.005),
        ({"learning_rate": 0.01}, 0.01),
    ],
)
def test_the_learning_rate_is_that_of_section_4_2_with_and_without_linear_start(chosen, rate):
    assert MemNet("/cpu:0", chosen).hyperparameters.learning_rate == rate


def test_the_loss_is_summed_over_the_batch(stories):
    model = small_model(stories)
    model.build()
    logits = tf.zeros([10, len(model.babi.vocabulary) - 1])
    loss = float(model.build_loss((), tf.ones([10], tf.int32), logits))
    assert loss == pytest.approx(10 * np.log(len(model.babi.vocabulary) - 1), rel=1e-5)


def test_an_epoch_shows_every_question_once(stories):
    model = small_model(stories, batch_size=9)
    model.load_data()
    story, question, answer = next(model.training_batches(0))
    assert story.shape == (6, 9, 12, 6)
    seen = {tuple(s[s.any(1)].ravel()) for s in story.numpy().reshape(-1, 12, 6)}
    assert seen == {tuple(s[s.any(1)].ravel()) for s in model.babi.train.story}
    ours = np.column_stack([question.numpy().reshape(-1, 6), answer.numpy().ravel()])
    theirs = np.column_stack([model.babi.train.question, model.babi.train.answer])
    assert sorted(map(tuple, ours)) == sorted(map(tuple, theirs))


def test_batches_are_the_same_one_by_one_and_an_epoch_at_a_time(stories):
    singly = small_model(stories, steps_per_call=1)
    together = small_model(stories)
    singly.load_data()
    together.load_data()
    epochs = together.training_batches(5)
    blocks = [next(epochs), next(epochs)]
    batches = singly.training_batches(7)
    for block, i in [(blocks[0], 2), (blocks[0], 3), (blocks[0], 4), (blocks[1], 0)]:
        for ours, theirs in zip(next(batches), block, strict=True):
            np.testing.assert_array_equal(ours, theirs[i])


@pytest.mark.slow
def test_an_epoch_in_one_call_gives_the_losses_of_single_steps(stories):
    def losses(**options):
        model = small_model(stories, **options)
        model.setup()
        return model.run(n_steps=13).steps.loss

    single = losses(steps_per_call=1)
    np.testing.assert_allclose(losses(), single, rtol=1e-5)
    np.testing.assert_allclose(losses(xla=True), single, rtol=1e-3)


def test_inference_gives_the_answers_of_an_epoch_of_batches_in_one_call(stories):
    options = {**SMALL, "data_dir": stories}
    single = MemNetFwd("/cpu:0", {**options, "steps_per_call": 1})
    together = MemNetFwd("/cpu:0", options)
    outputs = {}
    for name, model in (("single", single), ("together", together)):
        model.setup()
        kept = outputs[name] = []
        model.run(lambda step, batch, kept=kept: kept.append(step(*batch)), 5, warmup=0)
    assert outputs["together"][0].shape[:2] == (5, 10)
    np.testing.assert_allclose(outputs["together"][0], outputs["single"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("xla", [False, True], ids=["op by op", "XLA"])
def test_inference_runs_no_more_steps_than_asked_for(stories, xla):
    model = MemNetFwd("/cpu:0", {**SMALL, "data_dir": stories, "xla": xla})
    model.setup()
    kept = []
    model.run(lambda step, batch: kept.append(step(*batch)), 2, warmup=0)
    ran = np.abs(kept[0]).max((1, 2)) > 0
    assert ran.tolist() == [True, True, False, False, False]


@pytest.mark.slow
def test_twenty_epochs_learn_the_synthetic_task():
    model = MemNet("/cpu:0", {"linear_start": False, "embedding": 12})
    model.setup()
    untrained = model.evaluate()
    losses = model.run(n_steps=560).steps.loss
    assert np.mean(losses[-28:]) < 0.4 * np.mean(losses[:28])
    trained = model.evaluate()
    assert trained["error_percent"] < 0.6 * untrained["error_percent"]
    assert trained["examples"] == 1_000
    assert model.evaluate() == trained


def test_tasks_together_are_evaluated_one_by_one(stories):
    model = small_model(stories, task=0)
    model.setup()
    metrics = model.evaluate()
    errors = [metrics[f"error_percent_task_{task}"] for task in (1, 2, 6, 15, 20)]
    assert np.mean(errors) == pytest.approx(metrics["error_percent"], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": 21}, "task must be one of 0, 1, 2"),
        ({"task": 3}, "has no task 3"),
        ({"tying": "loose"}, "tying must be one of adjacent, layer-wise"),
        ({"hops": 0}, "hops must be at least 1"),
        ({"memory": 0}, "memory must be at least 1"),
        ({"random_noise": 10}, "random_noise must be at most 1, not 10"),
    ],
)
def test_an_unusable_choice_is_named(stories, options, message):
    with pytest.raises(FathomError, match=message):
        small_model(stories, **options).setup()


def test_answers_are_written_as_text_and_as_a_picture(stories, tmp_path):
    model = small_model(stories, precision="bfloat16")
    model.setup()
    model.run(n_steps=5)
    assert model.answer(model.babi.test)[1].dtype == np.float32
    text, picture = model.save_pictures(tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = text.read_text().split("\n\n")
    assert len(shown) == 4
    for answer in shown:
        assert answer.startswith("where is")
        assert "hop 1 hop 2 hop 3" in answer
        assert "answer: " in answer


def test_the_attention_of_each_hop_is_a_distribution_over_the_memory(stories):
    model = small_model(stories, linear_start=False)
    model.setup()
    words, attention = model.answer(model.babi.test)
    assert attention.shape == (30, 12, 3)
    np.testing.assert_allclose(attention.sum(1), 1, rtol=1e-5)
    assert words.min() >= 1
