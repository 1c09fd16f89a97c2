"""The hash encoding against the paper's equations, and what its updates touch."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from fathom.modern.ngp.layers import HashEncoding, resolutions
from fathom.modern.ngp.model import NGP
from fathom.modern.ngp.optimizer import LazyAdam

PRIMES = (1, 2_654_435_761, 805_459_861)


@pytest.fixture(scope="module")
def model():
    """Gives a small model, set up."""
    model = NGP("/cpu:0", {"log2_table": 8, "batch_size": 50, "xla": False})
    model.setup()
    return model


def encoded(position, sizes, entries, tables):
    """Returns the features of one position, by equations 2 to 4 in integers of any size."""
    features = []
    for n, table in zip(sizes, tables, strict=True):
        cell = [min(int(x * n), n - 1) for x in position]
        mixed = np.zeros(table.shape[1])
        for corner in itertools.product((0, 1), repeat=len(position)):
            place = [c + step for c, step in zip(cell, corner, strict=True)]
            if (n + 1) ** len(position) <= entries:
                row = sum(p * (n + 1) ** axis for axis, p in enumerate(place))
            else:
                row = 0
                for p, prime in zip(place, PRIMES, strict=False):
                    row ^= p * prime
                row %= entries
            parts = [x * n - c for x, c in zip(position, cell, strict=True)]
            weight = np.prod([p if s else 1 - p for p, s in zip(parts, corner, strict=True)])
            mixed += weight * table[row]
        features += list(mixed)
    return features


@pytest.mark.parametrize("axes", [2, 3])
def test_the_encoding_is_that_of_the_paper(axes):
    sizes = resolutions(6, 4, 100)
    layer = HashEncoding(sizes, 2**9, 2, seeds=list(range(6)))
    rng = np.random.default_rng(0)
    positions = np.concatenate([rng.random((20, axes)), np.zeros((1, axes)), np.ones((1, axes))])
    positions = positions.astype(np.float32)
    layer(positions)
    tables = [rng.normal(size=table.shape) for table in layer.tables]
    for variable, table in zip(layer.tables, tables, strict=True):
        variable.assign(table)
    assert 0 < sum(len(table) < 2**9 for table in tables) < 6
    expected = [encoded([float(x) for x in each], sizes, 2**9, tables) for each in positions]
    np.testing.assert_allclose(layer(positions), expected, atol=2e-4)


def test_resolutions_grow_to_the_finest():
    assert resolutions(16, 16, 512)[::5] == [16, 50, 161, 512]
    assert [resolutions(16, 16, n)[-1] for n in range(16, 3_000)] == list(range(16, 3_000))
    assert resolutions(1, 16, 512) == [16]


def test_the_network_is_that_of_the_paper(model):
    positions = np.random.default_rng(0).random((5, 2), np.float32)
    x = model.network.get_layer("encoding")(positions).numpy()
    for name in ("hidden1", "hidden2"):
        x = np.maximum(x @ model.network.get_layer(name).kernel.numpy(), 0)
    x = x @ model.network.get_layer("colour").kernel.numpy()
    np.testing.assert_allclose(model.network(positions), x, rtol=1e-4, atol=1e-9)


def test_the_tables_begin_near_zero():
    model = NGP("/cpu:0", {})
    model.build()
    tables = [table.numpy() for table in model.network.get_layer("encoding").tables]
    assert all(0.9e-4 < np.abs(table).max() <= 1e-4 for table in tables)
    assert np.concatenate(tables).shape == (234_692, 2)
    assert np.any(tables[-1] != tables[-2])


def test_values_without_gradient_keep_their_moments():
    table = tf.Variable(tf.ones([4, 2]))
    adam = LazyAdam(0.1, beta_1=0.9, beta_2=0.99, epsilon=1e-15)
    adam.build([table])
    for rows, values in (([0, 1, 0], [[1, 0], [2, 2], [1, 3]]), ([2, 1], [[1, 1], [0, 4]])):
        adam.apply([tf.IndexedSlices(tf.constant(values, tf.float32), rows, [4, 2])], [table])
    mean = np.array([[0.2, 0.3], [0.2, 0.58], [0.1, 0.1], [0, 0]])
    square = np.array([[0.04, 0.09], [0.04, 0.1996], [0.01, 0.01], [0, 0]])
    np.testing.assert_allclose(adam.slots["mean"][0], mean, rtol=1e-5)
    np.testing.assert_allclose(adam.slots["square"][0], square, rtol=1e-5)
    rates = [0.1 * (1 - 0.99**t) ** 0.5 / (1 - 0.9**t) for t in (1, 2)]
    moved = np.array([[1, 1], [1, 1], [0, 0], [0, 0]]) * rates[0]  # the first moves are of one size
    moved += np.array([[0, 0], [0, 0.58 / 0.1996**0.5], [1, 1], [0, 0]]) * rates[1]
    np.testing.assert_allclose(1 - table, moved, rtol=1e-4, atol=1e-6)


def test_a_step_touches_only_the_entries_that_were_read(model):
    encoding = model.network.get_layer("encoding")
    before = [table.numpy() for table in encoding.tables]
    seen = []
    model.run(
        runstep=lambda step, batch: (seen.append(batch[0]), step(*batch))[1], n_steps=1, warmup=0
    )
    sizes = encoding.get_config()["resolutions"]
    for cells, table, old in zip(sizes, encoding.tables, before, strict=True):
        entries, weights = encoding.corners(seen[0], cells)
        read = set(entries.numpy()[weights.numpy() > 0].tolist())
        changed = set(np.flatnonzero((table.numpy() != old).any(axis=1)))
        assert changed <= read
        assert len(changed) > 0.9 * len(read)


def test_positions_follow_the_seed_and_the_step(model):
    batches = model.training_batches(0)
    first, second = next(batches)[0].numpy(), next(batches)[0].numpy()
    assert np.any(first != second)
    np.testing.assert_array_equal(next(model.training_batches(1))[0], second)
    assert first.min() >= 0
    assert first.max() < 1


def test_evaluation_reads_every_pixel_once_and_gives_the_signal_to_noise_ratio(model):
    batches = list(model.evaluation_batches())
    colours = np.concatenate([colours for _, colours in batches]).reshape(model.pixels.shape)
    np.testing.assert_allclose(colours, model.pixels / 255, atol=1e-6)
    error = np.mean((model.render() - model.pixels / 255) ** 2)
    assert model.evaluate()["psnr"] == pytest.approx(-10 * np.log10(error), rel=1e-4)
    assert model.total_metrics({"squared_error": 0.5}, 50)["psnr"] == pytest.approx(20)


@pytest.mark.slow
def test_pictures_have_the_first_and_the_tenth_step(tmp_path):
    model = NGP("/cpu:0", {"log2_table": 8, "batch_size": 50, "xla": False})
    model.setup()
    model.run(n_steps=10)
    assert {step: each.shape for step, each in model._small.items()} == {
        1: (128, 128, 3),
        10: (128, 128, 3),
    }
    assert [path.name for path in model.save_pictures(tmp_path)] == ["ngp-image.png"]
