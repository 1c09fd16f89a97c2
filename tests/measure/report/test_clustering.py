import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import scipy.cluster.hierarchy
import scipy.spatial.distance
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fathom.measure.report import published
from fathom.measure.report.clustering import cluster, cosine_distance, linkage


def euclidean(a, b):
    return float(np.linalg.norm(a - b))


def test_the_cosine_distance_is_0_along_and_1_across():
    assert cosine_distance(np.array([1.0, 2.0]), np.array([2.0, 4.0])) == pytest.approx(0)
    assert cosine_distance(np.array([1.0, 0.0]), np.array([0.0, 3.0])) == 1
    between = cosine_distance(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    assert between == pytest.approx(1 - 0.5**0.5)


def test_the_cosine_distance_to_nothing_does_not_exist():
    assert np.isnan(cosine_distance(np.array([1.0]), np.array([0.0])))


def test_the_two_closest_merge_and_their_centroid_replaces_them():
    merges = cluster(np.array([[0.0], [1.0], [10.0], [5.0]]), euclidean)
    assert [merge.members for merge in merges] == [(0, 1), (0, 1, 3), (0, 1, 2, 3)]
    assert [merge.distance for merge in merges] == [1, 4.5, 8]  # 5 - 0.5, 10 - (0 + 1 + 5) / 3
    assert (merges[1].first, merges[1].second) == (3, 4)


def test_one_vector_has_nothing_to_merge_with():
    assert cluster(np.array([[1.0, 2.0]])) == []


@settings(deadline=None, max_examples=40)
@given(
    arrays.arrays(
        np.float64, st.tuples(st.integers(2, 8), st.integers(1, 4)), elements=st.floats(0, 100)
    )
)
def test_with_euclidean_distance_it_is_scipys_centroid_linkage(vectors):
    distances = scipy.spatial.distance.pdist(vectors)
    gaps = np.diff(np.sort(distances))
    assume(distances.min() > 1e-3 and (len(gaps) == 0 or gaps.min() > 1e-3))  # no ties
    theirs = scipy.cluster.hierarchy.linkage(vectors, "centroid")
    assume(len(theirs) < 2 or np.abs(np.diff(np.sort(theirs[:, 2]))).min() > 1e-3)
    ours = cluster(vectors, euclidean)
    assert [(m.first, m.second) for m in ours] == [tuple(sorted(row[:2])) for row in theirs]
    np.testing.assert_allclose([m.distance for m in ours], theirs[:, 2], atol=1e-6)


def test_the_papers_rows_of_length_1_merge_in_scipys_order():
    vectors = published.breakdown().to_numpy()
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    ours = cluster(vectors)
    theirs = scipy.cluster.hierarchy.linkage(vectors, "centroid")
    assert [(m.first, m.second) for m in ours] == [tuple(sorted(row[:2])) for row in theirs]
    # Between vectors of length 1 the cosine distance is half the squared Euclidean distance.
    assert ours[0].distance == pytest.approx(theirs[0, 2] ** 2 / 2)


def test_scipy_is_told_of_each_merge_and_its_size():
    merges = linkage(cluster(np.array([[0.0], [1.0], [10.0]]), euclidean))
    np.testing.assert_array_equal(merges, [[0, 1, 1, 2], [2, 3, 9.5, 3]])
