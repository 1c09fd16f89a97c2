"""The recommendation model against its definition, and what its updates touch."""

import numpy as np
import pytest
import tensorflow as tf

from fathom.modern.dlrm.layers import Interaction
from fathom.modern.dlrm.model import DLRM, area_under_curve, hottest_share, rows_of


@pytest.fixture(scope="module")
def model():
    """Gives a small model, set up."""
    model = DLRM("/cpu:0", {"rows": 50, "batch_size": 20})
    model.setup()
    return model


def relu(x, layer):
    return np.maximum(x @ layer.kernel.numpy() + layer.bias.numpy(), 0)


def test_the_network_is_that_of_the_paper(model):
    rng = np.random.default_rng(0)
    numbers = rng.random((3, 13), np.float32)
    rows = rng.integers(50, size=(3, 26), dtype=np.int32)
    layer = model.network.get_layer
    x = numbers
    for name in ("bottom1", "bottom2", "bottom3", "bottom4"):
        x = relu(x, layer(name))
    tables = layer("tables").tables.numpy().reshape(26, 50, 16)
    vectors = [x, *(tables[i, rows[:, i]] for i in range(26))]
    pairs = [np.sum(vectors[i] * vectors[j], 1) for i in range(27) for j in range(i)]
    x = np.concatenate([x, np.stack(pairs, 1)], 1)
    assert x.shape == (3, 367)
    x = relu(relu(x, layer("top1")), layer("top2"))
    expected = (x @ layer("top3").kernel.numpy() + layer("top3").bias.numpy())[:, 0]
    np.testing.assert_allclose(model.network((numbers, rows)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [50, 1_000])
def test_parameters_follow_the_formula(rows):
    model = DLRM("/cpu:0", {"rows": rows})
    model.build()
    sizes = [(13, 512), (512, 256), (256, 64), (64, 16), (367, 512), (512, 256), (256, 1)]
    assert model.cost().parameters == 26 * rows * 16 + sum(a * b + b for a, b in sizes)


def test_a_step_touches_only_the_rows_that_were_looked_up(model):
    tables = model.network.get_layer("tables").tables
    before = tables.numpy().reshape(26, 50, 16)
    seen = []
    model.run(
        runstep=lambda step, batch: (seen.append(batch[1].numpy()), step(*batch))[1], n_steps=1
    )
    changed = (tables.numpy().reshape(26, 50, 16) != before).any(axis=2)
    for i in range(26):
        assert set(np.flatnonzero(changed[i])) == set(seen[0][:, i])


def test_the_gradient_of_the_tables_is_sparse(model):
    types = {operation.type for operation in model.model().get_operations()}
    assert "ResourceScatterAdd" in types or "ResourceScatterSub" in types


def test_initial_values_are_within_the_published_limits():
    model = DLRM("/cpu:0", {"rows": 400})
    model.build()
    values = model.network.get_layer("tables").tables.numpy()
    assert 0.9 / 20 < np.abs(values).max() <= 1 / 20
    first = model.network.get_layer("top1")
    assert first.kernel.numpy().std() == pytest.approx((2 / (367 + 512)) ** 0.5, rel=0.02)
    assert first.bias.numpy().std() == pytest.approx(512**-0.5, rel=0.1)


def test_the_interaction_has_each_pair_once():
    x = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    expected = [x[0, i] @ x[0, j] for i in range(4) for j in range(i)]
    np.testing.assert_array_equal(Interaction()(tf.constant(x))[0], expected)


def test_categories_are_taken_modulo_the_rows_and_empty_ones_have_their_own():
    rows = rows_of(np.array([[-1, 0, 48, 49, 2**32 - 1]]), 50)
    assert rows.tolist() == [[0, 1, 49, 1, 1 + (2**32 - 1) % 49]]


def test_the_area_under_the_curve_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    scores, clicked = rng.integers(5, size=40), rng.integers(2, size=40)
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[clicked == 1] for b in scores[clicked == 0]]
    assert area_under_curve(scores, clicked) == pytest.approx(np.mean(pairs))
    assert area_under_curve(scores, np.zeros(40, int)) == 0.5


def test_the_share_of_the_hottest_rows_is_counted():
    rows = np.array([[0, 7], [0, 8], [0, 8], [3, 9]])
    assert hottest_share(rows, size=100) == pytest.approx((3 + 2) / 8)


@pytest.mark.slow
def test_the_area_comes_near_the_best_possible():
    model = DLRM("/cpu:0", {"rows": 1_000})
    model.setup()
    model.run(n_steps=150)
    metrics = model.evaluate()
    assert 0.7 < metrics["auc"] < metrics["best_auc"] < 0.85
