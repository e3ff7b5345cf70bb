"""Alignments: every oracle by enumeration, bands, ragged pairs, extreme scores, bad input."""

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent.structured import Alignment
from maxent.testing import check_domain

CASES = [
    (Alignment(1, 1), 1),
    (Alignment(1, 4), 4),
    (Alignment(3, 3), 9),
    (Alignment(2, 4, band=0), 8),
    (Alignment(4, 3, band=1), 12),
]


@pytest.mark.parametrize(("domain", "size"), CASES, ids=str)
def test_oracles(domain, size):
    check_domain(domain, size)


def test_number_of_alignments_is_delannoys():
    assert [len(Alignment(n, n).vertices(n * n)) for n in (1, 2, 3, 4)] == [1, 3, 13, 63]


def _dtw(cost):
    """Dynamic time warping, cell by cell."""
    n, m = cost.shape
    best = np.full((n + 1, m + 1), np.inf)
    best[0, 0] = 0
    for i in range(n):
        for j in range(m):
            best[i + 1, j + 1] = cost[i, j] + min(best[i, j], best[i, j + 1], best[i + 1, j])
    return best[n, m]


def test_argmax_is_dynamic_time_warping():
    rng = np.random.default_rng(0)
    cost = rng.random((5, 30, 20))
    path = Alignment(30, 20).argmax(-cost.reshape(5, -1))
    np.testing.assert_allclose(np.sum(cost.reshape(5, -1) * path, axis=1), [_dtw(c) for c in cost])


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_softmax_at_any_scale(scale, sign):
    """Scores in logarithms, one cell after another, are the reference."""
    rng = np.random.default_rng(1)
    theta = sign * scale * rng.random((12, 9))
    forward = np.full((13, 10), -np.inf)
    forward[0, 0] = 0
    for i in range(12):
        for j in range(9):
            before = [forward[i, j], forward[i, j + 1], forward[i + 1, j]]
            forward[i + 1, j + 1] = theta[i, j] + special.logsumexp(before)
    value, p = Alignment(12, 9).softmax(theta.ravel())
    assert value == pytest.approx(forward[12, 9], rel=1e-12)
    assert p.min() >= 0
    assert p[0] == pytest.approx(1)
    assert p[-1] == pytest.approx(1)
    assert p.reshape(12, 9).sum(axis=0).min() >= 1 - 1e-12
    h = 1e-5
    v = rng.normal(size=theta.size)
    after, before = (Alignment(12, 9).softmax(theta.ravel() + s * h * v)[0] for s in (1, -1))
    if scale < 1e3:  # beyond, differences lose their digits
        assert p @ v == pytest.approx((after - before) / (2 * h), rel=1e-5, abs=1e-6)


def test_float32_with_scores_of_1e4():
    theta = (1e4 * np.random.default_rng(0).normal(size=(2, 35))).astype(np.float32)
    value, p = Alignment(5, 7).softmax(theta)
    assert p.dtype == np.float32
    np.testing.assert_allclose(value, Alignment(5, 7).softmax(theta.astype(float))[0], rtol=1e-6)


def test_ragged_pairs_agree_with_each_alone():
    rng = np.random.default_rng(0)
    shapes = [(3, 5), (1, 2), (4, 4)]
    rows = [rng.normal(size=n * m) for n, m in shapes]
    batch = Alignment(*zip(*shapes, strict=True))
    theta = mx.Ragged.from_rows(rows)
    value, p = batch.softmax(theta)
    for i, (row, (n, m)) in enumerate(zip(rows, shapes, strict=True)):
        alone = Alignment(n, m)
        assert value[i] == pytest.approx(alone.softmax(row)[0])
        np.testing.assert_allclose(p.rows()[i], alone.softmax(row)[1])
        np.testing.assert_allclose(batch.project(theta).rows()[i], alone.project(row), atol=1e-12)
    assert batch.contains(batch.argmax(theta)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Alignment(0, 2), "at least 1"),
        (lambda: Alignment(2, (3, 4)), "two tuples"),
        (lambda: Alignment((2, 2), (3,)), "two tuples"),
        (lambda: Alignment(2, 2, band=-1), "band is an integer"),
        (lambda: Alignment(2, 3).argmax(np.zeros((1, 5))), "row 0 aligns 2 with 3 .* 6 scores"),
        (lambda: Alignment((2,), (3,)).argmax(np.zeros((2, 6))), "given for 1 rows"),
        (lambda: Alignment(2, 2).softmax([0.0, -np.inf, -np.inf, -np.inf]), "no alignment"),
        (lambda: Alignment(2, 2).softmax([0.0, np.nan, 0.0, 0.0]), "NaN"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_no_rows():
    assert Alignment(2, 2).softmax(np.empty((0, 4)))[1].shape == (0, 4)


@pytest.mark.parametrize("scale", [0.3, 3.0, 100.0, 1e6])
def test_no_chance_of_a_pair_exceeds_one(scale):
    """Forward times backward weights came to 1.0000000000000002, which no picture takes."""
    theta = scale * np.random.default_rng(0).normal(size=(30, 11 * 14))
    alignments = Alignment(11, 14)
    for p in (alignments.softmax(theta)[1], alignments.project(theta[:4])):
        assert ((p >= 0) & (p <= 1)).all()
        assert (p[:, [0, -1]] == 1).all()


def test_almost_certain_cells_are_no_path():
    """Ones that would make a path beside a cell that is almost 1: not a vertex, so not 0."""
    p = np.array([1.0, 1.0, 1 - 4e-10, 0.0, 0.0, 1.0])
    assert Alignment(2, 3).negentropy(p) == pytest.approx(4e-10 * np.log(4e-10), rel=0.1)


@pytest.mark.parametrize("scale", [1.0, 300.0])  # sums that no plain number holds
def test_draws_follow_the_law_inside_the_band_and_for_each_size(scale):
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (1, 1), (2, 5), (4, 3)]
    domain = Alignment(*zip(*shapes, strict=True), band=1)
    theta = mx.Ragged.from_rows([scale * rng.normal(size=n * m) for n, m in shapes])
    drawn = domain.sample(theta, 2000, random_state=1)
    for again, first in zip(domain.sample(theta, 2000, 1), drawn, strict=True):
        np.testing.assert_array_equal(again.values, first.values)
    mean = np.mean([x.values for x in drawn], axis=0)
    p = domain.softmax(theta)[1].values
    assert (np.abs(mean - p) <= 6 * np.sqrt(p * (1 - p) / 2000) + 1e-3).all()
    assert all(domain.contains(x).all() for x in drawn[:50])
    single = domain.sample(theta.astype(np.float32), 1, 0)[0]
    assert single.values.dtype == np.float32
    with pytest.raises(ValueError, match="row 0 has no alignment"):
        Alignment(2, 2).sample([0.0, 0.0, 0.0, -np.inf])
    with pytest.raises(ValueError, match="n >= 1"):
        Alignment(2, 2).sample(np.zeros(4), 0)


def test_draws_are_alike_one_by_one_and_in_a_batch():
    theta = np.random.default_rng(3).normal(size=(40, 400))
    batch = np.array(Alignment(20, 20).sample(theta, 30, 5))  # shared out among threads
    lengths = tuple([20] * 40)
    cut = Alignment(lengths, lengths).sample(mx.Ragged.from_rows(list(theta)), 30, 5)
    np.testing.assert_array_equal(batch.reshape(30, -1), [x.values for x in cut])


def test_the_best_of_long_alignments_beside_a_lattice():
    n, m = 12, 9
    theta = np.random.default_rng(2).normal(size=n * m)
    arcs, entries = [], []
    for i in range(n):
        for j in range(m):
            for a, b in ((1, 1), (1, 0), (0, 1)):
                if i + a < n and j + b < m:
                    arcs.append((i * m + j, (i + a) * m + j + b))
                    entries.append((i + a) * m + j + b)
    right = mx.Lattice(arcs).kbest(theta[entries], 50)[0] + theta[0]
    scores, batches = Alignment(n, m).kbest(theta, 50)
    np.testing.assert_allclose(scores, right, atol=1e-12)
    assert len(np.unique(batches, axis=0)) == 50
    assert Alignment(n, m).contains(batches).all()
