"""The mixture of experts against its formulas in NumPy, and its routing."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import perturbed, softmax, swiglu
from safetensors.numpy import save_file

from fathom.core import ragged
from fathom.core.ragged import _Parts
from fathom.core.training import replicas
from fathom.errors import FathomError
from fathom.modern.moe import routing
from fathom.modern.moe.layers import Experts
from fathom.modern.moe.model import MoE, MoEFwd

SMALL = {
    **{"layers": 2, "heads": 4, "kv_heads": 2, "width": 16, "hidden_units": 24, "context": 12},
    **{"batch_size": 3, "experts": 4},
}


def make(kind=MoE, compiled=False, **options):
    model = kind("/cpu:0", {**SMALL, **options})
    model.setup() if compiled else model.build()
    return perturbed(model)


def mixed(x, scores, layer, count):
    """Returns the sum of experts of one token after the other, [tokens, width]."""
    result = np.zeros_like(x)
    for i, row in enumerate(scores):
        best = np.argsort(-row, kind="stable")[:count]
        weights = softmax(row[best]) if count > 1 else softmax(row)[best]
        for weight, number in zip(weights, best, strict=True):
            kernel, projection = layer.kernels[number].numpy(), layer.projections[number].numpy()
            result[i] += weight * swiglu(x[i], kernel, projection)
    return result


@pytest.mark.parametrize(("count", "xla"), [(1, False), (2, False), (2, True), (4, False)])
def test_a_layer_is_the_weighted_sum_of_the_chosen_experts(count, xla):
    model = make(experts_per_token=count, xla=xla, layers=1)
    layer = model.network.get_layer("block1_experts")
    rng = np.random.default_rng(1)
    x, scores = rng.normal(size=(3, 12, 16)), rng.normal(size=(3, 12, 4))
    scores[..., 3] -= 9  # few tokens, or none, for one of the experts
    given = [tf.constant(each, tf.float32) for each in (x, scores)]
    found = tf.function(layer, jit_compile=xla)(*given).numpy()
    expected = mixed(x.reshape(-1, 16), scores.reshape(-1, 4), layer, count)
    np.testing.assert_allclose(found.reshape(-1, 16), expected, rtol=1e-4, atol=1e-4)


def test_no_expert_computes_rows_that_are_not_its_own(monkeypatch):
    layer = make(layers=1).network.get_layer("block1_experts")
    products, matmul = [], tf.matmul
    monkeypatch.setattr(
        tf,
        "matmul",
        lambda a, b, **options: products.append(tf.shape(a)) or matmul(a, b, **options),
    )
    chosen = np.array([[0, 1], [0, 2], [2, 0], [0, 2], [2, 0]])
    scores = np.full((1, 5, 4), -9.0, np.float32)
    np.put_along_axis(scores, chosen[None], [2, 1], -1)

    @tf.function(autograph=False)
    def rows_of_products(x):
        groups = routing.group(routing.choose(scores[0], 2)[1], 4, None)
        rows = routing.gather(x, groups)
        kernels = [tf.convert_to_tensor(kernel) for kernel in layer.kernels]
        _Parts(groups.sizes, rows).products(rows, kernels, transposed=False)
        return [shape[0] for shape in products]

    assert [int(rows) for rows in rows_of_products(tf.ones([5, 16]))] == [5, 1, 4, 0]


class Worker:
    """One of several threads that exchange rows through a list of what each has sent."""

    def __init__(self, index, sent, barrier):
        self.index, self.num_replicas_in_sync = index, len(sent)
        self._sent, self._barrier = sent, barrier

    def exchange(self, rows, counts):
        parts = tf.split(rows, tf.reduce_sum(counts, 1))
        self._sent[self.index] = list(zip(parts, tf.unstack(counts), strict=True))
        self._barrier.wait(60)
        found = [each[self.index] for each in self._sent]
        self._barrier.wait(60)  # all have read it
        return tf.concat([each[0] for each in found], 0), tf.stack([each[1] for each in found])


@pytest.mark.parametrize("capacity", [0.0, 0.9])
def test_divided_experts_compute_the_rows_of_all_workers(capacity, monkeypatch):
    layer = make(layers=1, capacity_factor=capacity).network.get_layer("block1_experts")
    rng = np.random.default_rng(2)
    given = [
        (tf.constant(x, tf.float32), tf.constant(scores, tf.float32))
        for x, scores in ((rng.normal(size=(3, 12, 16)), rng.normal(size=(3, 12, 4))) for _ in "ab")
    ]
    expected = [layer(*each, training=True).numpy() for each in given]
    sizes = {0: [], 1: []}
    product = ragged.product

    def counted(rows, counts, *rest):
        sizes[replicas.number()].append(counts.numpy())
        return product(rows, counts, *rest)

    monkeypatch.setattr(ragged, "product", counted)
    monkeypatch.setattr(layer, "_divided", True)
    sent, barrier = [None, None], threading.Barrier(2)

    def compute(index):
        with replicas.scope_of(Worker(index, sent, barrier), in_step=True):
            return layer(*given[index], training=True).numpy()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(compute, range(2)))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for index, own in ((0, slice(0, 2)), (1, slice(2, 4))):
        for counts in sizes[index]:
            assert counts[own].min() > 0
            assert counts.sum() == counts[own].sum()
    total = sum(counts[0].sum() for counts in sizes.values())
    assert total == 2 * 36 * 2 if not capacity else 0 < total < 2 * 36 * 2


def test_rows_beyond_an_experts_capacity_are_dropped_and_counted():
    model = make(capacity_factor=0.5, layers=1)
    layer = model.network.get_layer("block1_experts")
    x = np.random.default_rng(2).normal(size=(1, 8, 16)).astype(np.float32)
    scores = np.zeros((1, 8, 4), np.float32)
    scores[..., 0], scores[..., 2] = 9, 8  # all 16 rows go to two experts, each with room for two
    found = layer(x, tf.constant(scores), training=True).numpy()[0]
    kept = mixed(x[0], scores[0], layer, 2)
    np.testing.assert_allclose(found[:2], kept[:2], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found[2:], 0)
    whole = layer(x, tf.constant(scores)).numpy()[0]  # inference drops nothing
    np.testing.assert_allclose(whole, kept, rtol=1e-4, atol=1e-4)

    tokens = tf.zeros([1, 8], tf.int32)
    outputs = tf.zeros([1, 8, 27]), tf.constant(scores)[:, :, None]
    model.build_loss(tokens, tokens, outputs)
    assert float(model._dropped) == 12 / 16


class Crowded:
    """Sums with those of a second worker, all of whose rows go to the other two experts."""

    index, num_replicas_in_sync = 0, 2

    def sums(self, values):
        shares, dropped = values
        return [shares + tf.constant([[0.0, 1, 0, 1]]), dropped + 0.5]


def test_rows_that_workers_drop_are_counted_by_worker():
    model = make(capacity_factor=1.0, layers=1)
    scores = np.zeros((1, 8, 1, 4), np.float32)
    scores[..., 0], scores[..., 2] = 9, 8  # half of the rows are beyond their experts' capacity
    tokens = tf.zeros([1, 8], tf.int32)
    with replicas.scope_of(Crowded(), in_step=True):
        model.build_loss(tokens, tokens, (tf.zeros([1, 8, 27]), tf.constant(scores)))
    np.testing.assert_array_equal(model._loads, [[0.5] * 4])  # even, taken together
    assert float(model._dropped) == 0.5


def test_first_choices_come_before_second_ones_in_an_experts_capacity():
    chosen = tf.constant([[0, 1], [0, 1], [1, 0], [1, 0]])
    groups = routing.group(chosen, 2, tf.constant(2))
    assert groups.sizes.numpy().tolist() == [2, 2]
    assert groups.order.numpy().tolist()[:4] == [0, 1, 2, 3]  # rows 4 to 7 are second choices
    np.testing.assert_array_equal(tf.gather(groups.order, groups.places), range(8))


def test_a_capacity_is_at_most_all_rows():
    assert int(routing.capacity(tf.constant(4096), 8, 1.25)) == 640
    assert int(routing.capacity(tf.constant(4096), 8, 1e7)) == 4096


def test_the_balance_is_that_of_the_papers_equation():
    model = make(balance=0.5)
    tokens, following = next(model.training_batches(0))
    logits, routers = (each.numpy() for each in model.network(tokens))
    expected = 0.0
    for layer in range(2):
        scores = routers[:, :, layer].reshape(-1, 4)
        chosen = np.argsort(-scores, -1)[:, :2]
        shares = np.array([(chosen == number).sum() for number in range(4)]) / len(scores)
        expected += 4 * shares @ softmax(scores).mean(0)
    entropy = -np.log(np.take_along_axis(softmax(logits), following.numpy()[..., None], -1)).mean()
    loss = model.build_loss(tokens, following, (logits, tf.constant(routers)))
    assert float(loss) == pytest.approx(entropy + 0.5 * expected, rel=1e-5)
    even = tf.zeros([1, 8, 1, 4])
    assert float(routing.imbalance(even, tf.fill([1, 4], 0.5))) == pytest.approx(2)


@pytest.mark.slow
def test_mixtral_is_described_with_its_parameters_and_those_of_a_token():
    model = MoE("cpu", {"size": "mixtral-8x7b"})
    described, given = model.describe(), model.hyperparameters  # nothing is allocated
    width, time = given.width, given.context
    one = 3 * width * given.hidden_units
    idle = given.layers * (given.experts - given.experts_per_token) * one
    assert described.parameters == 46_702_792_704
    assert described.parameters - idle == 12_879_925_248
    shared = width * given.kv_heads // given.heads
    block = width * (2 * width + 2 * shared + 2 * time) + given.experts_per_token * one
    block += width * given.experts
    assert described.macs == 3 * time * (given.layers * block + width * given.vocabulary)


def test_a_token_reads_the_weights_of_its_own_experts_alone():
    model = MoEFwd("cpu", {**SMALL, "batch_size": 1, "experts_per_token": 1, "phase": "decode"})
    rows = [row for row in model.describe().operations if row.type == "RaggedMatMul"]
    assert {row.bounds["M"] for row in rows} == {1}
    expand = 4 * 16 * 2 * 24
    assert {row.weight_bytes / row.repeats for row in rows} == {expand, expand / 2}


def test_loads_are_noted_during_training(monkeypatch):
    monkeypatch.setattr("fathom.modern.moe.model._NOTED_EVERY", 2)
    model = make(compiled=True, capacity_factor=1.0)
    model.run(n_steps=4)
    loads = {name: points for name, points in model.history.items() if name.endswith("_load")}
    assert len(loads) == 2 * 4
    for block in (1, 2):
        own = [points for name, points in loads.items() if name.startswith(f"block{block}_")]
        for step in range(2):
            assert np.mean([points[step][1] for points in own]) == pytest.approx(1, rel=1e-5)
    assert 0 < model.history["dropped_rows"][0][1] < 1


@pytest.mark.slow
def test_steps_that_are_skipped_have_no_loads(monkeypatch):
    monkeypatch.setattr("fathom.modern.moe.model._NOTED_EVERY", 2)
    model = make(compiled=True, capacity_factor=1.0)
    model.run(n_steps=4, runstep=lambda step, batch: None)
    assert not model.history


@pytest.mark.slow
def test_loads_after_resuming_are_means_of_the_steps_since(tmp_path, monkeypatch):
    monkeypatch.setattr("fathom.modern.moe.model._NOTED_EVERY", 4)
    for steps in (3, 1):
        model = MoE("cpu", SMALL)
        model.setup({"checkpoint_dir": str(tmp_path), "resume": True})
        model.run(n_steps=steps)
    loads = [points[0][1] for name, points in model.history.items() if name.startswith("block1_")]
    assert np.mean(loads) == pytest.approx(1, rel=1e-5)


def test_a_network_starts_from_weights_by_mixtrals_names(tmp_path):
    model, tensors = make(layers=1), {}
    for each in model.published():
        parts = np.split(
            each.variable.numpy(), [16, 24] if len(each.names) == 3 else len(each.names), -1
        )
        for name, part in zip(each.names, parts, strict=True):
            tensors[name] = np.ascontiguousarray(part.T if each.transposed else part)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(model.published_settings()))
    assert tensors["model.layers.0.block_sparse_moe.experts.3.w2.weight"].shape == (16, 24)
    other = MoE("cpu", {**SMALL, "layers": 1, "weights": str(tmp_path)})
    other.build()
    for ours, theirs in zip(other.network.variables, model.network.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    few = MoE("cpu", {**SMALL, "layers": 1, "experts": 3, "weights": str(tmp_path)})
    with pytest.raises(FathomError, match="has num_local_experts 4 where this network has 3"):
        few.build()


def test_experts_are_saved_with_their_arguments():
    layer = make(layers=1).network.get_layer("block1_experts")
    again = Experts.from_config(layer.get_config())
    assert again.macs == layer.macs
    assert len(again.kernels) == len(layer.kernels)
