"""Permutahedra: projections against enumeration and other solvers, soft ranks and soft sorting."""

import numpy as np
import pytest
from scipy import stats

import maxent as mx
from maxent.core.domains.active_set import project_by_argmax
from maxent.structured.ranking import isotonic
from maxent.testing import check_domain

RANKS = np.arange(6.0, 0.0, -1.0)
WEIGHTS = [[1], [2, 2], [1, 0, 0], [3, 0, -2, -2], [0, 0, 0], [5, 4, 3, 2, 1], [2, 2, 0.5, 0, 0]]


def rows(n=8, size=6, scale=3.0, seed=0):
    return np.random.default_rng(seed).normal(size=(n, size)) * scale


# --- the domain -----------------------------------------------------------------------------


@pytest.mark.parametrize("w", WEIGHTS, ids=str)
def test_oracles(w):
    check_domain(mx.Permutahedron(w), len(w))


@pytest.mark.parametrize("w", WEIGHTS[2:], ids=str)
def test_projection_agrees_with_the_active_set(w):
    domain, theta = mx.Permutahedron(w), rows(size=len(w))
    theta[:2] = np.round(theta[:2])
    nearest = project_by_argmax(domain._argmax, theta)
    np.testing.assert_allclose(domain.project(theta), nearest, atol=1e-11)


@pytest.mark.parametrize("size", [1, 31, 33, 700, 2500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sorting_of_every_size(size, dtype):
    """Insertion and digits of 8 and 11 bits give numpy's stable order, ties and -0 included."""
    theta = rows(4, size).astype(dtype)
    theta[0] = np.round(theta[0])
    theta[1] = 1e-30
    expected = np.empty_like(theta)
    order = np.argsort(-theta, axis=1, kind="stable")
    np.put_along_axis(expected, order, np.arange(size, 0.0, -1.0)[None].repeat(4, 0), axis=1)
    np.testing.assert_array_equal(isotonic.argmax_map(theta, np.arange(size, 0.0, -1.0)), expected)


def test_known_permutahedra():
    theta = rows()
    simplex = mx.Permutahedron([1, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(simplex.project(theta), mx.Simplex().project(theta), atol=1e-12)
    softmax = mx.Simplex().softmax(theta)[1]
    np.testing.assert_allclose(simplex.project_kl(theta), softmax, rtol=1e-12)
    subsets = mx.Permutahedron([1, 1, 0, 0, 0, 0])
    np.testing.assert_allclose(subsets.project(theta), mx.KSubset(2).project(theta), atol=1e-12)


@pytest.mark.parametrize("w", [RANKS, [2, 2, 0.5, 0, 0], [1, 0, 0]], ids=str)
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_kl_projection_is_optimal(w, scale):
    """<theta - log p, v - p> <= 0 for every vertex, and the derivative by differences."""
    domain = mx.Permutahedron(w)
    theta = rows(size=domain.size, scale=scale)
    p = domain.project_kl(theta)
    assert domain.contains(p).all()
    assert (p > 0).all()
    steepest = (theta - np.log(p)) @ domain.vertices(domain.size).T
    here = np.sum((theta - np.log(p)) * p, axis=1)
    assert (steepest.max(axis=1) - here).max() < 1e-12 * (1 + np.abs(theta).max())
    v, h = rows(size=domain.size, seed=1), 1e-6
    slope = (domain.project_kl(theta + h * v) - domain.project_kl(theta - h * v)) / (2 * h)
    np.testing.assert_allclose(domain.project_kl_jvp(theta, p, v), slope, atol=1e-7)
    single = domain.project_kl(theta.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, p, rtol=1e-4)


def test_forbidden_entries_take_the_zeros():
    domain = mx.Permutahedron([2, 1, 0, 0])
    theta = np.array([[1.0, -np.inf, 0.9, 0.8], [-np.inf, 0.0, 9.0, -np.inf]])
    for p in (domain.argmax(theta), domain.project(theta), domain.project_kl(theta)):
        assert domain.contains(p).all()
        assert (p[np.isneginf(theta)] == 0).all()
    np.testing.assert_array_equal(domain.project(theta)[1], [0, 1, 2, 0])
    part = mx.Permutahedron([2, 1, 0]).project(theta[0, [0, 2, 3]])
    np.testing.assert_allclose(domain.project(theta)[0], [part[0], 0, part[1], part[2]])
    jvp = domain.project_jvp(theta, domain.project(theta), np.ones_like(theta))
    np.testing.assert_allclose(jvp, 0, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e4, 1e30])
def test_extreme_scales(dtype, scale):
    domain, theta = mx.Permutahedron(RANKS), rows(scale=scale).astype(dtype)
    for p in (domain.project(theta), domain.project_kl(theta)):
        assert p.dtype == dtype
        assert domain.contains(p).all()
        if scale > 1:
            np.testing.assert_array_equal(p, domain.argmax(theta))
        else:
            np.testing.assert_allclose(p, RANKS.mean(), rtol=1e-6)
    far = theta + dtype(1e6) * np.sign(dtype(scale - 1))
    assert domain.contains(domain.project(far)).all()


def test_tied_scores_of_equal_weight_are_pinned():
    """Both chosen for certain: moving their scores changes nothing, so the derivative is 0."""
    domain, theta = mx.Permutahedron([1, 1, 0]), np.array([[5.0, 5.0, 0.0]])
    v = np.array([[1.0, -1.0, 0.0]])
    np.testing.assert_array_equal(domain.project_jvp(theta, domain.project(theta), v), 0)


def test_large_rows_are_exact_in_float32():
    size = 10_000
    theta, ranks = rows(3, size, 1.0).astype(np.float32), np.arange(size, 0.0, -1.0)
    domain = mx.Permutahedron(ranks)
    for p in (domain.project(theta), domain.project_kl(theta)):
        np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), ranks.sum(), rtol=1e-8)
    exact = domain.project(theta.astype(np.float64))
    np.testing.assert_allclose(domain.project(theta), exact, rtol=1e-7)


def test_no_entry_leaves_the_range_of_the_weights():
    w = np.array([4.5, 4.4, 2.4, 2.1])
    scores = [[-0.4, -2.4, -1.0, -0.8], [-0.1, 1.3, 1.5, 1.9], [0.2, -1.6, 0.4, -0.4]]
    p = mx.Permutahedron(w).project(np.array(scores))
    assert p.min() == 2.1
    assert p.max() <= 4.5
    np.testing.assert_allclose(p.sum(axis=1), w.sum(), rtol=1e-15)


def test_losses():
    """Zero from where the ranking is right, with the margin of Prop. 8 for the squared norm."""
    domain = mx.Permutahedron([3, 2, 1])
    y = np.array([2.0, 1.0, 3.0])
    perceptron = mx.FenchelYoungLoss(mx.Zero(domain=domain))
    assert perceptron.value(y, y) == 0
    assert perceptron.value([2.0, 2.5, 3.0], y) == pytest.approx(0.5)
    squared = mx.SquaredNorm(domain=domain)
    assert squared.margin == 1
    assert mx.FenchelYoungLoss(squared).value(y, y) == pytest.approx(0, abs=1e-15)
    assert mx.FenchelYoungLoss(squared).value(0.9 * y, y) > 1e-3


@pytest.mark.parametrize(
    ("item", "low", "high"), [(0, 1.0, 3.0), (1, -np.inf, 2.0), (2, 2.0, np.inf)]
)
def test_figure_7_the_loss_is_0_while_the_ranking_is_right(item, low, high):
    """theta = y but for one score, without a regularizer."""
    domain, y = mx.Permutahedron([3, 2, 1]), np.array([2.0, 1.0, 3.0])
    grid = np.linspace(-2, 6, 81)
    theta, right = np.tile(y, (81, 1)), np.tile(y, (81, 1))
    theta[:, item] = grid
    found = mx.FenchelYoungLoss(mx.Zero(domain=domain)).value(theta, right)
    within = (grid >= low - 1e-9) & (grid <= high + 1e-9)
    np.testing.assert_array_equal(found < 1e-9, within)
    assert found[~within].min() > 0.05


def test_saved_and_loaded(tmp_path):
    domain = mx.Permutahedron([3, 2, 0.5])
    mx.save(mx.SquaredNorm(domain=domain), tmp_path / "entropy.json")
    again = mx.load(tmp_path / "entropy.json").domain
    np.testing.assert_array_equal(again.w, domain.w)
    with pytest.raises(ValueError, match="read-only"):
        again.w[0] = 9


# --- soft ranks, soft sorting ---------------------------------------------------------------

SOFT = [
    mx.soft_rank,
    mx.soft_sort,
    lambda x, *a, **k: mx.soft_topk(x, 2, *a, **k),
    lambda x, *a, **k: mx.soft_partial_rank(x, 3, *a, **k),
]
NAMES = ["soft_rank", "soft_sort", "soft_topk", "soft_partial_rank"]


def test_strength_0_is_the_hard_operation():
    theta = rows()
    theta[0, :3] = 1.5  # ties share their ranks
    np.testing.assert_allclose(mx.soft_rank(theta, 0), stats.rankdata(theta, axis=1))
    backwards = mx.soft_rank(theta, 0, descending=True)
    np.testing.assert_allclose(backwards, stats.rankdata(-theta, axis=1))
    np.testing.assert_array_equal(mx.soft_sort(theta, 0), np.sort(theta, axis=1))
    falling = mx.soft_sort(theta, 0, descending=True)
    np.testing.assert_array_equal(falling, np.sort(theta, axis=1)[:, ::-1])
    points = np.maximum(3 + 1 - stats.rankdata(-theta[1:], axis=1), 0)
    np.testing.assert_array_equal(mx.soft_partial_rank(theta[1:], 3, 0), points)
    np.testing.assert_array_equal(mx.soft_topk(theta[1:], 3, 0), points > 0)


@pytest.mark.parametrize("soft", SOFT, ids=NAMES)
@pytest.mark.parametrize("regularization", ["l2", "kl"])
def test_the_limit_of_small_strengths_is_hard(soft, regularization):
    theta = rows()
    theta[0, :2] = 1.5
    np.testing.assert_allclose(soft(theta, 1e-6, regularization), soft(theta, 0), atol=1e-9)
    assert np.isfinite(soft(theta, 5e-324, regularization)).all()


@pytest.mark.parametrize("soft", SOFT, ids=NAMES)
@pytest.mark.parametrize("regularization", ["l2", "kl"])
def test_default_strength_has_no_unit(soft, regularization):
    theta = rows()
    usual = soft(theta, None, regularization)
    for unit in (1e-200, 1e-3, 1e200):
        other = soft(unit * theta + (unit if unit < 1 else 0), None, regularization)
        if soft is mx.soft_sort:
            other = (other - (unit if unit < 1 else 0)) / unit
        np.testing.assert_allclose(other, usual, rtol=1e-9, atol=1e-12)
    constant = soft(np.full((1, 6), 7.0), None, regularization)
    np.testing.assert_allclose(constant, constant[:, :1].repeat(6, 1))
    single = soft(theta.astype(np.float32), None, regularization)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, usual, atol=1e-4)


@pytest.mark.parametrize("regularization", ["l2", "kl"])
@pytest.mark.parametrize("strength", [0.01, 0.7, 30.0])
def test_soft_sort_is_a_projection(regularization, strength):
    """Of the ranks over the strength onto the permutahedron of the scores (or exponentials)."""
    theta = rows(5, 6, 1.0)
    places = np.arange(6.0, 0.0, -1.0) / strength
    found = mx.soft_sort(theta, strength, regularization, descending=True)
    for row, p in zip(-np.sort(-theta, axis=1), found, strict=True):
        if regularization == "l2":
            np.testing.assert_allclose(p, mx.Permutahedron(row).project(places), atol=1e-10)
        else:
            expected = mx.Permutahedron(np.exp(row)).project_kl(places)
            np.testing.assert_allclose(p, np.log(expected), atol=1e-9)


@pytest.mark.parametrize("soft", SOFT, ids=NAMES)
def test_any_axis(soft):
    cube = rows(24, 5, 1.0).reshape(2, 3, 4, 5)
    along = np.moveaxis(soft(np.moveaxis(cube, 1, -1), 0.5), -1, 1)
    np.testing.assert_array_equal(soft(cube, 0.5, axis=1), along)
    assert soft(np.zeros((0, 4))).shape == (0, 4)
    assert soft(np.zeros((4, 3, 0)), axis=0).shape == (4, 3, 0)


def test_soft_rank_keeps_its_sum_and_order():
    theta = rows(4, 300, 1.0)
    for regularization in ("l2", "kl"):
        ranks = mx.soft_rank(theta, regularization=regularization)
        np.testing.assert_allclose(ranks.sum(axis=1), 300 * 301 / 2)
        order = np.argsort(theta, axis=1)
        assert (np.diff(np.take_along_axis(ranks, order, axis=1), axis=1) >= 0).all()


# --- bad input ------------------------------------------------------------------------------

BAD = [
    (lambda: mx.Permutahedron([1, 2, 3]), r"must not increase, and w\[1\] = 2 is over w\[0\] = 1"),
    (lambda: mx.Permutahedron([]), "one weight or more"),
    (lambda: mx.Permutahedron([[1.0]]), "one weight or more"),
    (lambda: mx.Permutahedron([np.nan]), "finite"),
    (lambda: mx.Permutahedron([2, 1]).project([1.0, 2.0, 3.0]), "rows of 2 entries, got 3"),
    (lambda: mx.Permutahedron([2, 1]).project([1.0, np.nan]), "NaN"),
    (lambda: mx.Permutahedron([2, 1]).argmax([1.0, -np.inf]), "row 0 has 1 .* ends with 0 zeros"),
    (lambda: mx.Permutahedron([1, 0, -1]).project([1.0, -np.inf, 2.0]), "ends with 0 zeros"),
    (lambda: mx.Permutahedron([1, -1]).project_kl([1.0, 2.0]), "not negative"),
    (lambda: mx.Permutahedron([2, 1]).require(np.array([[3.0, 1.0]]), "point"), "sums to 4, not"),
    (lambda: mx.Permutahedron([2, 1]).require(np.array([[3.0, 0.0]]), "point"), "1 largest .* 3"),
    (lambda: mx.soft_rank([1.0, 2.0], -1), "strength must be a number >= 0"),
    (lambda: mx.soft_rank([1.0, 2.0], True), "strength must be a number >= 0"),
    (lambda: mx.soft_sort([1.0, 2.0], regularization="l1"), '"l2" or "kl", got \'l1\''),
    (lambda: mx.soft_rank([1.0, -np.inf]), "must be finite, got -inf"),
    (lambda: mx.soft_sort([1.0, -np.inf]), "must be finite, got -inf"),
    (lambda: mx.soft_rank([1.0, np.nan]), "NaN"),
    (lambda: mx.soft_rank(1.0), "at least one axis"),
    (lambda: mx.soft_rank([1.0, 2.0], axis=1), r"axis 1 of scores of shape \(2,\)"),
    (lambda: mx.soft_topk([1.0, 2.0], 3), "k from 1 to 2, got 3"),
    (lambda: mx.soft_topk([1.0, -np.inf, -np.inf], 2), "ends with 1 zeros"),
    (lambda: mx.soft_partial_rank([1.0, 2.0], 0.5), "k from 1 to 2, got 0.5"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_entropy_of_the_distribution_over_permutations():
    with pytest.raises(TypeError, match="log-partition"):
        mx.Shannon(domain=mx.Permutahedron([2, 1]))


@pytest.mark.parametrize(
    "w", [[3, 2, 1], [2, 2, 0.5, 0, 0], [1, 0.5, -1, -1], [0, 0, 0], [2.5]], ids=str
)
def test_the_k_best_points_by_enumeration(w):
    domain, theta = mx.Permutahedron(w), rows(size=len(w))
    theta[0] = np.round(theta[0])
    theta[1] = 0
    vertices = domain.vertices(len(w))
    count = len(vertices)
    scores, batches = domain.kbest(theta, count + 2)
    np.testing.assert_allclose(scores[:, :count], -np.sort(-(theta @ vertices.T)), atol=1e-12)
    assert (scores[:, count:] == -np.inf).all()
    for i in range(len(theta)):
        listed = np.array([batch[i] for batch in batches])
        assert len(np.unique(listed[:count], axis=0)) == count  # equal weights give one point
        np.testing.assert_allclose(listed[:count] @ theta[i], scores[i, :count], atol=1e-12)
        assert not listed[count:].any()
    few, _ = domain.kbest(theta, 2)
    np.testing.assert_array_equal(few, scores[:, :2])


def test_the_best_points_give_forbidden_scores_nothing():
    domain, theta = mx.Permutahedron([2, 1, 0, 0]), [0.5, -np.inf, 2.0, 1.0]
    scores, batches = domain.kbest(theta, 7)
    part = mx.Permutahedron([2, 1, 0]).kbest([0.5, 2.0, 1.0], 7)
    np.testing.assert_array_equal(scores, part[0])
    np.testing.assert_array_equal(np.delete(batches, 1, axis=1), part[1])
    with pytest.raises(ValueError, match="ends with 1 zeros"):
        mx.Permutahedron([2, 1, 0]).kbest([1.0, -np.inf, -np.inf], 2)
    with pytest.raises(ValueError, match="k >= 1"):
        domain.kbest(theta, 0)


def test_the_best_of_many_rankings():
    """The first ones exchange neighbours, the nearest first, then two pairs or the next one."""
    theta = np.random.default_rng(2).normal(size=500)
    domain = mx.Permutahedron(np.arange(500.0, 0, -1))
    scores, batches = domain.kbest(theta, 60)
    gaps = np.sort(-np.diff(-np.sort(-theta)))
    third = min(gaps[2], gaps[0] + gaps[1])
    np.testing.assert_allclose(scores[0] - scores[1:4], [*gaps[:2], third], atol=1e-9)
    assert (np.diff(scores) <= 0).all()
    assert len(np.unique(batches, axis=0)) == 60
    ties = domain.kbest(np.zeros(500), 60)[1]
    assert len(np.unique(ties, axis=0)) == 60
