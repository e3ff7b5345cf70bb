"""Chains: tied transitions, forbidden ones, best paths, draws, supports of projections."""

import itertools

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent.rows.arrays import Tied, row_dot
from maxent.structured import Chain

K = 3


@pytest.fixture(scope="module")
def scores():
    """The same scores with one block of transitions for all, and with one per position."""
    rng = np.random.default_rng(0)
    chain = Chain(K)
    nodes = [rng.normal(size=(n, K)) for n in (1, 2, 5, 3)]
    block = rng.normal(size=(K, K))
    tied = chain.scores(nodes, block)
    written_out = chain.scores(nodes, [np.tile(block, (len(x) - 1, 1, 1)) for x in nodes])
    return chain, tied, written_out


def _paths(length):
    return list(itertools.product(range(K), repeat=length))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_tied_and_written_out_transitions_agree(scores, dtype, scale):
    chain, tied, written_out = scores
    tied, written_out = (scale * tied).astype(dtype), (scale * written_out).astype(dtype)
    assert isinstance(tied, Tied)
    assert tied.tied.shape == (1, K * K)
    log_partition, p = chain.softmax(tied)
    expected, q = chain.softmax(written_out)
    assert p.dtype == dtype
    np.testing.assert_allclose(log_partition, expected, rtol=1e-6 if dtype == np.float32 else 1e-13)
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    for x, y in zip(p.rows(), chain.tie(q).rows(), strict=True):
        np.testing.assert_allclose(x, y, atol=tolerance)
    best = chain.argmax(tied)
    np.testing.assert_allclose(
        row_dot(tied, best), row_dot(written_out, chain.argmax(written_out)), rtol=1e-6
    )
    np.testing.assert_allclose(row_dot(tied, p), row_dot(written_out, q), rtol=1e-5, atol=1e-5)


def test_derivative_with_tied_transitions(scores):
    chain, tied, _ = scores
    rng = np.random.default_rng(1)
    v = Tied(tied.own * 0 + mx.Ragged(rng.normal(size=tied.own.values.size), tied.own.offsets),
             rng.normal(size=(1, K * K)))  # fmt: skip
    h = 1e-6
    after, before = chain.softmax(tied + h * v)[1], chain.softmax(tied - h * v)[1]
    slope = (after - before) * (0.5 / h)
    jvp = chain.softmax_jvp(tied, chain.softmax(tied)[1], v)
    for x, y in zip(jvp.rows(), slope.rows(), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-8)


def test_derivative_where_products_of_weights_underflow():
    chain = Chain(2)
    nodes = np.array([[[0.0, -800.0], [-900.0, 0.0], [0.0, -1.0]]])
    theta = chain.scores(nodes, [[0.0, -700.0], [0.0, 0.0]])
    v = chain.scores(np.ones((1, 3, 2)) * [[[1.0, 0.0]]], np.zeros((2, 2)))
    jvp = chain.softmax_jvp(theta, chain.softmax(theta)[1], v)
    paths = np.array(list(itertools.product(range(2), repeat=3)))
    vertices = np.array(chain.encode(paths, tied=True).rows())
    probability = special.softmax(vertices @ theta.rows()[0])
    mean = probability @ vertices
    gain = vertices @ v.rows()[0]
    expected = (probability * (gain - probability @ gain)) @ vertices
    assert mean.shape == expected.shape
    np.testing.assert_allclose(jvp.rows()[0], expected, atol=1e-12)


def test_no_block_per_position_is_written_where_transitions_are_shared():
    import tracemalloc

    chain, length, states = Chain(40), 400, 40
    theta = Chain(40).scores(np.zeros((4, length, states)), np.zeros((states, states)))
    chain.softmax(theta)
    tracemalloc.start()
    p = chain.softmax(theta)[1]
    chain.softmax_jvp(theta, p, theta)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * length * states**2  # one sequence alone would take 5 MB


@pytest.mark.parametrize("forbidden", [(), ((0, 1), (2, 2))])
def test_best_paths_by_enumeration(scores, forbidden):
    _, tied, written_out = scores
    chain = Chain(K, forbidden)
    values, batches = chain.kbest(tied, 4)
    values_out, batches_out = chain.kbest(written_out, 4)
    np.testing.assert_allclose(values, values_out, atol=1e-12)
    for i, row in enumerate(written_out.rows()):
        vertices = chain.vertices(row.size)
        expected = np.sort(vertices @ row)[::-1][:4]
        found = values[i][: len(expected)]
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert (values[i][len(expected) :] == -np.inf).all()
        for rank in range(len(expected)):
            vertex = batches_out[rank].rows()[i]
            assert vertex @ row == pytest.approx(expected[rank])
            assert (vertices == vertex).all(axis=1).any()
            np.testing.assert_array_equal(
                chain.tie(batches_out[rank]).rows()[i], batches[rank].rows()[i]
            )
        for rank in range(len(expected), 4):
            assert not batches[rank].rows()[i].any()


def test_draws_have_the_frequencies_of_the_marginals(scores):
    chain, tied, written_out = scores
    p = chain.softmax(tied)[1]
    draws = chain.sample(tied, 4000, random_state=0)
    mean = sum(draws[1:], draws[0]) * (1 / len(draws))
    for x, y in zip(mean.rows(), p.rows(), strict=True):
        assert np.abs(x - y).max() < 0.1
        np.testing.assert_allclose(x, y, atol=5 * np.sqrt(len(y)) / np.sqrt(len(draws)))
    again = chain.sample(written_out, 3, random_state=0)
    assert all(chain.contains(batch).all() for batch in again)
    for batch, same in zip(again, chain.sample(tied, 3, random_state=0), strict=True):
        for x, y in zip(chain.tie(batch).rows(), same.rows(), strict=True):
            np.testing.assert_array_equal(x, y)


def test_start_and_end_scores():
    chain = Chain(2)
    theta = chain.scores(np.zeros((1, 3, 2)), np.zeros((2, 2)), start=[0.0, 2.0], end=[1.0, 0.0])
    assert next(path.tolist() for path in chain.decode(chain.argmax(theta)))[::2] == [1, 0]


def test_forbidden_transitions():
    chain = Chain(3, forbidden=((0, 1), (1, 2)))
    size = chain.size(4)
    theta = np.random.default_rng(0).normal(size=(5, size))
    vertices = chain.vertices(size)
    np.testing.assert_allclose(
        chain.softmax(theta)[0], special.logsumexp(theta @ vertices.T, axis=1), atol=1e-12
    )
    assert chain.contains(chain.project(theta)).all()
    assert chain.contains(vertices).all()
    free = Chain(3).encode(np.array([[0, 1, 1, 1]]))
    assert not chain.contains(free).any()
    with pytest.raises(ValueError, match=r"forbidden transition \(0, 1\)"):
        chain.encode(np.array([[2, 0, 1, 0]]))
    with pytest.raises(ValueError, match="pairs"):
        Chain(3, forbidden=((0, 5),))
    with pytest.raises(ValueError, match="row 0 has no path"):
        Chain(1, forbidden=((0, 0),)).argmax(np.zeros((1, 3)))


def test_supports_mix_to_the_projection_and_start_the_next_one(scores):
    _, _, theta = scores
    chain = Chain(K)
    p, supports = chain.project_support(theta)
    for point, support in zip(p.rows(), supports, strict=True):
        assert support.weights.min() > 0
        assert support.weights.sum() == pytest.approx(1)
        np.testing.assert_allclose(support.point(), point, atol=1e-12)
        vertices = support.vertices.toarray()
        assert np.isin(vertices, (0, 1)).all()
    moved = theta + 0.01
    near, _ = chain.project_support(moved, supports)
    for x, y in zip(near.rows(), chain.project(moved).rows(), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-11)
    with pytest.raises(ValueError, match="4 rows need as many starts"):
        chain.project_support(theta, supports[:2])


@pytest.mark.parametrize(
    ("nodes", "transitions", "message"),
    [
        (np.zeros((2, 3, 2)), np.zeros((2, 2)), r"sequence 0 needs .*\(positions, 3\)"),
        (np.zeros((2, 3, 3)), np.zeros((2, 2)), r"shape \(3, 3\), \(2, 3, 3\)"),
        (np.zeros((2, 3, 3)), np.zeros((2, 1, 3, 3)), "sequence 0 has 3 positions"),
        (np.zeros((2, 3, 3)), np.zeros((1, 2, 3, 3)), "2 sequences, but transitions of 1"),
    ],
)
def test_lengths_that_disagree_are_refused(nodes, transitions, message):
    with pytest.raises(ValueError, match=message):
        Chain(3).scores(nodes, transitions)


def test_tied_rows_have_no_projection(scores):
    chain, tied, _ = scores
    with pytest.raises(TypeError, match="tied=False"):
        chain.project(tied)
    with pytest.raises(TypeError, match="tied=False"):
        mx.SquaredNorm(domain=chain).conjugate(tied)
    with pytest.raises(TypeError, match="knows no tied blocks"):
        mx.KSubset(2).argmax(tied)


def test_negentropy_of_sums_of_transitions(scores):
    chain, tied, _ = scores
    log_partition, p = chain.softmax(tied)
    np.testing.assert_allclose(chain.negentropy(p), row_dot(tied, p) - log_partition, atol=1e-6)
    paths = chain.encode([np.array([0]), np.array([1, 2])], tied=True)
    np.testing.assert_array_equal(chain.negentropy(paths), 0)


def test_no_rows():
    chain = Chain(2)
    log_partition, p = chain.softmax(np.empty((0, 8)))
    assert log_partition.shape == (0,)
    assert p.shape == (0, 8)
    assert chain.argmax(np.empty((0, 8))).shape == (0, 8)
