"""The graph convolutional network against its definition, and its early stopping."""

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

from fathom.measure.profile.work import op_work
from fathom.modern.gcn import pictures
from fathom.modern.gcn.layers import SparseMatrix, normalized_adjacency, normalized_rows
from fathom.modern.gcn.model import GCN, GCNFwd


@pytest.fixture(scope="module")
def graph():
    """Gives the synthetic graph, read once."""
    model = GCNFwd("/cpu:0")
    model.load_data()
    return model.graph


def build(graph, **options):
    model = GCN("/cpu:0", {"hidden_units": 4, **options})
    model.graph = graph
    model.build()
    return model


def dense(graph):
    """A' by the formulas of section 2, and the normalised features."""
    adjacency = np.eye(len(graph.classes))
    for i, j in graph.edges:
        adjacency[i, j] = adjacency[j, i] = 1
    root = adjacency.sum(1) ** -0.5
    features = graph.features.toarray()
    return root[:, None] * adjacency * root, features / features.sum(1, keepdims=True)


def test_the_constants_are_those_of_the_paper(graph):
    adjacency, features = dense(graph)
    ours = normalized_adjacency(graph.edges, len(graph.classes))
    assert ours.dtype == np.float32
    assert ours.nnz == 2 * len(graph.edges) + len(graph.classes)
    np.testing.assert_allclose(ours.toarray(), adjacency, rtol=1e-5)
    np.testing.assert_allclose(normalized_rows(graph.features).toarray(), features, rtol=1e-5)


@pytest.mark.parametrize("xla", [False, True])
def test_the_network_is_equation_9(xla, graph):
    model = build(graph, xla=xla)
    adjacency, features = dense(graph)
    w0, w1 = (variable.numpy() for variable in model.network.trainable_variables)
    expected = adjacency @ (np.maximum(adjacency @ (features @ w0), 0) @ w1)
    nodes = np.array([5, 0, 2_707, 5], np.int32)
    call = tf.function(lambda x: model.network(x), jit_compile=xla, autograph=False)
    np.testing.assert_allclose(call(nodes), expected[nodes], rtol=1e-4, atol=1e-6)


def test_xla_and_the_sparse_kernel_compute_the_same_product():
    rng = np.random.default_rng(0)
    lengths = np.array([0, 1, 2, 3, 8, 16, 17, 40, 300])  # of the last, pieces of pieces
    mask = rng.permuted(np.arange(320) < lengths[:, None], axis=1)
    matrix = scipy.sparse.csr_array(np.where(mask, rng.normal(size=mask.shape), 0), dtype="f4")
    x = tf.constant(rng.normal(size=(320, 5)), tf.float32)
    for values in (None, tf.constant(rng.normal(size=matrix.nnz), tf.float32)):
        expected = matrix if values is None else matrix.copy()
        if values is not None:
            expected.data = values.numpy()
        for compiled in (False, True):
            product = tf.function(SparseMatrix(matrix).product, jit_compile=compiled)
            found = product(x, values)
            np.testing.assert_allclose(found, expected @ x.numpy(), rtol=1e-4, atol=1e-5)


def test_inference_lists_three_sparse_products_whatever_computes_them():
    model = GCNFwd("/cpu:0")
    model.build()
    assert model.xla == "step"
    kinds = [row.kind for row in model.describe().operations]
    assert kinds.count("sparse product") == 3


def test_dropout_takes_non_zero_features_and_hidden_values(graph):
    layer = build(graph, dropout=0.25, hidden_units=64).network.get_layer("W0")
    layer.kernel.assign(tf.ones(layer.kernel.shape))
    kept = layer(tf.constant([0]), training=True).numpy()[:, 0]  # each a share of the row
    assert kept.mean() == pytest.approx(1, abs=0.01)  # scaled by 1 / (1 - rate)
    assert 0.05 < kept.std() < 0.2
    np.testing.assert_allclose(layer(tf.constant([0])).numpy(), 1, rtol=1e-5)


def test_only_the_first_matrix_decays(graph):
    model = build(graph)
    assert [
        variable.path
        for variable in model.network.trainable_variables
        if model.optimizer._decayed(variable)
    ] == ["W0/kernel"]


def test_cora_without_biases_has_as_many_parameters_as_published(graph):
    assert build(graph, hidden_units=16).cost().parameters == 23_040


def test_weights_stay_where_the_validation_loss_stops_falling(graph):
    model = build(graph, patience=2)
    losses = iter([3.0, 2.0, 1.0, 0.9, 1.5])
    model.metrics_of = lambda batches: {"cross_entropy": next(losses)}
    rates = []
    for epoch in range(5):
        model.end_epoch(epoch)
        rates.append(float(model.learning_rate))
    assert rates == pytest.approx([0.01] * 4 + [0])  # 1.5 is above the mean of 1.0 and 0.9
    losses = [value for _, value in model.history["validation_loss"]]  # with a little L2
    assert losses == pytest.approx([3.0, 2.0, 1.0, 0.9, 1.5], abs=0.01)


def test_learning_goes_on_where_larger_batches_begin_at_a_later_epoch(graph):
    model = build(graph, patience=2)
    model.metrics_of = lambda batches: {"cross_entropy": 3.0}
    model.end_epoch(9)
    assert float(model.learning_rate) == pytest.approx(0.01)


def test_it_learns_the_synthetic_communities():
    model = GCN("/cpu:0")
    model.setup()
    model.run(n_steps=60)
    assert model.evaluate()["accuracy"] > 0.8


def test_a_picture_is_drawn_of_a_single_hidden_unit(graph, tmp_path):
    assert build(graph, hidden_units=1).save_pictures(tmp_path)[0].stat().st_size > 1000


def test_a_picture_is_drawn_in_float16(graph, tmp_path):
    hidden = np.random.default_rng(0).normal(size=(len(graph.test), 4)).astype(np.float16)
    assert pictures.save(tmp_path, hidden, graph).stat().st_size > 1000


def test_real_cora_is_read(real_data):
    model = GCN("/cpu:0", {"data_dir": str(real_data / "cora")})
    model.load_data()
    assert model.dataset.verify(model.source.directory, None, True) == (
        "2,708 nodes, 5,278 edges, 1,433 features, 7 classes, split 140 / 500 / 1000"
    )


def test_the_work_of_a_profiled_step_is_that_of_its_description():
    model = GCN("/cpu:0")
    model.setup()
    described = sum(row.total_flops for row in model.describe().operations)
    per_unit = sum(each.flops for each in op_work(model, model.work()))
    assert model.work() > 1
    assert per_unit * model.work() == pytest.approx(described, rel=1e-4)  # whole numbers
