"""Arborescences: every oracle against enumeration, exact sums at every scale, what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from maxent.rows.arrays import Ragged
from maxent.structured import Arborescence
from maxent.testing import check_domain

ROOTS = ["single", "multi"]


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_oracles(root: str, n: int) -> None:
    check_domain(Arborescence(root=root), n * n, random_state=1)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_number_of_trees(n: int) -> None:
    """n^(n-2) trees (Cayley); with one dependent of the root, n - 1 of them times (n-1)^(n-3)."""
    assert len(Arborescence(root="multi").vertices(n * n)) == n ** (n - 2)
    assert len(Arborescence().vertices(n * n)) == (n - 1) ** (n - 2)
    log_partition, _ = Arborescence().softmax(np.zeros(n * n))
    assert log_partition == pytest.approx((n - 2) * math.log(n - 1))


def _rows(rng, trees: Arborescence, n: int, scale: float, forbidden: float) -> np.ndarray:
    """Random scores with arcs forbidden at random, one tree at least left to each row."""
    vertices = trees.vertices(n * n)
    theta = rng.normal(size=(12, n * n)) * scale
    kept = vertices[rng.integers(len(vertices), size=len(theta))] > 0
    theta[(rng.random(theta.shape) < forbidden) & ~kept] = -np.inf
    return theta


def _enumerated(trees: Arborescence, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The trees that use no forbidden arc, and their scores."""
    vertices = trees.vertices(row.size)
    allowed = vertices[~(vertices[:, np.isneginf(row)] > 0).any(axis=1)]
    return allowed, allowed @ np.where(np.isneginf(row), 0.0, row)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("scale", [1e-300, 1.0, 10.0, 300.0, 1e4, 1e300])
@pytest.mark.parametrize("forbidden", [0.0, 0.5])
def test_every_oracle_at_every_scale(root: str, scale: float, forbidden: float) -> None:
    trees, rng = Arborescence(root=root), np.random.default_rng(0)
    for n in (3, 5):
        theta = _rows(rng, trees, n, scale, forbidden)
        v = rng.normal(size=theta.shape)
        best = np.asarray(trees.argmax(theta))
        log_partition, mean = trees.softmax(theta)
        derivative = trees.softmax_jvp(theta, mean, v)
        values, batches = trees.kbest(theta, 6)
        tolerance = 1e-14 * max(10, min(scale, 1e6))
        for i, row in enumerate(theta):
            allowed, scores = _enumerated(trees, row)
            assert any((best[i] == vertex).all() for vertex in allowed)
            assert row[best[i] > 0].sum() == pytest.approx(scores.max(), rel=1e-12)
            assert log_partition[i] == pytest.approx(special.logsumexp(scores), rel=1e-13)
            law = special.softmax(scores)
            np.testing.assert_allclose(mean[i], law @ allowed, atol=tolerance)
            covariance = (law * (allowed @ v[i])) @ allowed - mean[i] * (mean[i] @ v[i])
            np.testing.assert_allclose(derivative[i], covariance, atol=10 * tolerance)
            order = np.sort(scores)[::-1][:6]
            np.testing.assert_allclose(values[i, : len(order)], order, rtol=1e-12)
            found = np.array([batch[i] for batch in batches])
            assert len(np.unique(found[: len(order)], axis=0)) == len(order)
            assert (values[i, len(order) :] == -np.inf).all()
            assert not found[len(order) :].any()


def _exact_multi(theta: np.ndarray) -> tuple[Fraction, list[list[Fraction]]]:
    """Z and marginals of a root with any number of dependents in rational arithmetic."""
    n = len(theta)
    weight = [[Fraction(math.exp(x)) for x in row] for row in theta.tolist()]
    laplacian = [
        [
            sum(weight[h][d] for h in range(n) if h != d) if h == d else -weight[h][d]
            for d in range(1, n)
        ]
        for h in range(1, n)
    ]
    size = n - 1
    table = [
        [*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(laplacian)
    ]
    determinant = Fraction(1)
    for k in range(size):
        pivot = table[k][k]
        determinant *= pivot
        table[k] = [x / pivot for x in table[k]]
        for i in range(size):
            if i != k:
                factor = table[i][k]
                table[i] = [x - factor * y for x, y in zip(table[i], table[k], strict=True)]
    inverse = [row[size:] for row in table]
    mean = [[Fraction(0)] * n for _ in range(n)]
    for d in range(1, n):
        for h in range(n):
            if h != d:
                across = inverse[d - 1][h - 1] if h else Fraction(0)
                mean[h][d] = weight[h][d] * (inverse[d - 1][d - 1] - across)
    return determinant, mean


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_sums_are_exact_to_rounding(scale: float) -> None:
    """Relative accuracy of every marginal, the tiny ones included, against rational numbers."""
    theta = np.random.default_rng(3).normal(size=(9, 9)) * scale
    determinant, mean = _exact_multi(theta)
    log_partition, p = Arborescence(9, "multi").softmax(theta.ravel())
    exact = math.log(determinant.numerator) - math.log(determinant.denominator)
    assert log_partition == pytest.approx(exact, rel=1e-14)
    expected = np.array([[float(x) for x in row] for row in mean])
    np.testing.assert_allclose(p.reshape(9, 9), expected, rtol=1e-12)


@pytest.mark.parametrize("root", ROOTS)
def test_plain_weights_and_logarithms_agree(root: str) -> None:
    """The two ways to compute, on one graph of 40 nodes."""
    from maxent.structured.trees.kernels import matrix_tree

    n = 40
    m = n - 1
    theta = np.random.default_rng(0).normal(size=(n, n)) * 10
    v = np.random.default_rng(1).normal(size=(n, n))
    trees, single = Arborescence(root=root), root == "single"
    log_partition, p = trees.softmax(theta.ravel())
    derivative = trees.softmax_jvp(theta.ravel(), p, v.ravel()).reshape(n, n)
    weight, slope = np.empty((m, m + 2)), np.zeros((m, m + 2))
    taken = matrix_tree.read_weights(theta, single, weight)
    slope[:, :m] = v[1:, 1:].T
    slope[:, m + single] = v[0, 1:]
    mean, d_mean = np.zeros((n, n)), np.empty((m, m + 1))
    steps = matrix_tree.step_numbers(m)
    value = matrix_tree.log_pass(weight, slope, steps, single, m, mean, d_mean)
    assert log_partition == pytest.approx(value + taken, rel=1e-14)
    np.testing.assert_allclose(p.reshape(n, n), mean, rtol=1e-10)
    np.testing.assert_allclose(derivative[1:, 1:], d_mean[:, :m].T, atol=1e-12)
    np.testing.assert_allclose(derivative[0, 1:], d_mean[:, m], atol=1e-12)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("scale", [10.0, 1e4])
def test_float32_is_finite_and_right(root: str, scale: float) -> None:
    trees = Arborescence(root=root)
    theta = (np.random.default_rng(0).normal(size=(20, 1600)) * scale).astype(np.float32)
    log_partition, p = trees.softmax(theta)
    again, exact = trees.softmax(theta.astype(np.float64))
    assert p.dtype == np.float32
    np.testing.assert_array_equal(log_partition, again)
    np.testing.assert_array_equal(p, exact.astype(np.float32))
    assert trees.contains(exact).all()
    if scale > 1e3:  # a few trees hold all of the mass
        scores, batches = trees.kbest(theta.astype(np.float64), 4)
        law = special.softmax(scores, axis=1)
        np.testing.assert_allclose(exact, np.einsum("bk,kbi->bi", law, batches), atol=1e-9)
        np.testing.assert_allclose(log_partition, special.logsumexp(scores, axis=1), rtol=1e-13)


def test_cycles_that_beat_the_root_by_far() -> None:
    """Two nodes that love each other: plain weights of the root underflow, logarithms do not."""
    for love in (100.0, 400.0, 1000.0, 1e6):
        theta = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, love], [0.0, love, 0.0]])
        log_partition, p = Arborescence(3, "multi").softmax(theta.ravel())
        share = special.expit(1.0)
        assert log_partition == pytest.approx(love + math.log(1 + math.e), rel=1e-14)
        np.testing.assert_allclose(p.reshape(3, 3)[0, 1:], [1 - share, share], rtol=1e-9)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 3.0, 30.0, 1e4])
@pytest.mark.parametrize("n", [12, 40])
def test_projections_are_certified(root: str, scale: float, n: int) -> None:
    """In the polytope, with no vertex in the direction of what is left: dense and sparse points."""
    theta = np.random.default_rng(n).normal(size=(3, n * n)) * scale
    trees = Arborescence(n, root)
    p = trees.project(theta)
    assert trees.contains(p).all()
    gap = ((theta - p) * (trees.argmax(theta - p) - p)).sum(axis=1)
    assert (gap <= 1e-13 * scale * n + 1e-13).all() or (scale == 1e4 and (gap <= 1e-8).all())


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("forbidden", [0.0, 0.5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_projections_are_those_of_the_active_set(root: str, forbidden: float, scale: float) -> None:
    """Cuts and multipliers find the point that mixtures of trees find."""
    trees = Arborescence(5, root)
    theta = _rows(np.random.default_rng(2), trees, 5, scale, forbidden)
    p, _ = trees.project_support(theta)
    np.testing.assert_allclose(trees.project(theta), p, atol=1e-11)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("preference", [0.0, 1.0])
def test_derivatives_of_projections(root: str, preference: float) -> None:
    """Where all nodes prefer the same heads a point has few trees, but many cuts."""
    n, rng = 30, np.random.default_rng(4)
    scores = preference * rng.normal(size=(4, n, 1)) + 0.05 * rng.normal(size=(4, n, n))
    theta, v = scores.reshape(4, -1), rng.normal(size=(4, n * n))
    trees, h = Arborescence(n, root), 1e-7
    slope = (trees.project(theta + h * v) - trees.project(theta - h * v)) / (2 * h)
    np.testing.assert_allclose(trees.project_jvp(theta, trees.project(theta), v), slope, atol=1e-5)


def test_the_active_set_ends_on_dense_points() -> None:
    """Where vertices come and go with weights of rounding it used to run in circles."""
    rng, n = np.random.default_rng(0), 20
    theta = (0.09 * rng.normal(size=(n, 1)) + 0.012 * rng.normal(size=(n, n))).reshape(1, -1)
    p, _ = Arborescence().project_support(theta)
    np.testing.assert_allclose(Arborescence().project(theta), p, atol=1e-11)


@pytest.mark.parametrize("root", ROOTS)
def test_cycles_are_cut(root: str) -> None:
    """Three nodes in a ring that each prefer one another: the nearest point has to be cut."""
    theta = np.full((4, 4), -5.0)
    for i, j in ((1, 2), (2, 3), (3, 1)):
        theta[i, j] = 5.0
    p = Arborescence(4, root).project(theta.ravel()).reshape(4, 4)
    np.testing.assert_allclose(p[0, 1:], 1 / 3, atol=1e-12)
    np.testing.assert_allclose(p[[1, 2, 3], [2, 3, 1]], 2 / 3, atol=1e-12)


def test_ragged_rows_are_those_of_single_rows() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=n * n) for n in (4, 1, 7, 2, 4)]
    trees = Arborescence()
    batch = Ragged.from_rows(rows)
    log_partition, mean = trees.softmax(batch)
    _, best = trees.kbest(batch, 2)
    tangent = trees.softmax_jvp(batch, mean, batch)
    negentropy = trees.negentropy(mean)
    drawn = trees.sample(batch, 3, random_state=0)
    for i, row in enumerate(rows):
        value, p = trees.softmax(row)
        assert log_partition[i] == value
        np.testing.assert_array_equal(mean.rows()[i], p)
        np.testing.assert_array_equal(trees.argmax(batch).rows()[i], trees.argmax(row))
        np.testing.assert_array_equal(best[0].rows()[i], trees.argmax(row))
        np.testing.assert_array_equal(tangent.rows()[i], trees.softmax_jvp(row, p, row))
        assert negentropy[i] == pytest.approx(row @ p - value, abs=1e-9)
        assert all(trees.contains(sample.rows()[i]) for sample in drawn)
    assert trees.contains(mean).all()


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_samples_follow_the_law(root: str, scale: float) -> None:
    trees = Arborescence(root=root)
    theta = np.random.default_rng(0).normal(size=16)
    theta[[2, 7]] = -np.inf
    # a shift of each column by 1e4 times its number changes no probability
    moved = theta + np.where(scale > 1, scale, 0) * np.tile(np.arange(4), 4)
    drawn = np.array(trees.sample(moved, 4000, random_state=1))
    allowed, scores = _enumerated(trees, theta)
    law = special.softmax(scores)
    counts = np.array([(drawn == vertex).all(axis=1).sum() for vertex in allowed])
    assert counts.sum() == 4000
    assert ((counts - 4000 * law) ** 2 / (4000 * law)).sum() < 3 * len(law)
    np.testing.assert_array_equal(drawn, trees.sample(moved, 4000, random_state=1))


def test_samples_where_plain_weights_underflow() -> None:
    """Cycles far better than any way out: a walk would never end (Wilson), elimination does not."""
    love = 2000.0
    theta = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, love], [0.0, love, 0.0]]).ravel()
    for root in ROOTS:
        trees = Arborescence(root=root)
        drawn = np.array(trees.sample(theta, 2000, random_state=0))
        np.testing.assert_allclose(drawn.mean(0), trees.softmax(theta)[1], atol=0.04)


def test_negentropy_on_faces_and_outside() -> None:
    trees = Arborescence(root="multi")
    vertices = trees.vertices(16)
    np.testing.assert_array_equal(trees.negentropy(vertices), 0.0)
    assert trees.negentropy(vertices[:2].mean(0)) == pytest.approx(-math.log(2), abs=1e-9)
    assert trees.negentropy(vertices.mean(0)) == pytest.approx(-math.log(16), abs=1e-9)
    assert trees.negentropy(1.5 * vertices[0]) == math.inf


def test_cuts_are_part_of_the_polytope() -> None:
    """Columns that sum to 1 are not enough: here a cycle is cut off from the root."""
    p = np.zeros((4, 4))
    p[0, 1] = p[3, 2] = p[2, 3] = 1
    assert not Arborescence().contains(p.ravel())
    p[0, 2], p[3, 2] = 0.5, 0.5
    assert not Arborescence(root="multi").contains(p.ravel())
    p[0, 2] = p[0, 3] = p[3, 2] = p[2, 3] = 0.5
    assert Arborescence(root="multi").contains(p.ravel())
    assert not Arborescence(root="single").contains(p.ravel())
    p[0, 0] = 0.1
    assert not Arborescence(root="multi").contains(p.ravel())


def test_entries_that_are_no_arcs_are_not_read() -> None:
    trees, rng = Arborescence(5), np.random.default_rng(0)
    theta = rng.normal(size=(5, 5))
    other = theta.copy()
    other[:, 0] = 1e5
    np.fill_diagonal(other, [7.0, -np.inf, 1e9, -3.0, 0.0])
    for oracle in (trees.argmax, trees.project, lambda x: trees.softmax(x)[1]):
        np.testing.assert_array_equal(oracle(other.ravel()), oracle(theta.ravel()))
    assert trees.softmax(other.ravel())[0] == trees.softmax(theta.ravel())[0]


def test_encode_and_decode() -> None:
    trees = Arborescence()
    heads = np.array([[2, 0, 2], [0, 1, 2]])
    np.testing.assert_array_equal(trees.decode(trees.encode(heads)), heads)
    ragged = trees.encode([[0], [2, 0, 2], []])
    assert [row.tolist() for row in trees.decode(ragged)] == [[0], [2, 0, 2], []]


def test_no_rows() -> None:
    trees = Arborescence(4)
    empty = np.empty((0, 16))
    log_partition, mean = trees.softmax(empty)
    assert log_partition.shape == (0,)
    assert mean.shape == trees.argmax(empty).shape == trees.project(empty).shape == (0, 16)
    assert trees.kbest(empty, 2)[0].shape == (0, 2)
    assert trees.sample(empty, 2, 0)[1].shape == (0, 16)


BAD = [
    (lambda: Arborescence(0), "n >= 1 or None, got 0"),
    (lambda: Arborescence(2.5), "n >= 1 or None, got 2.5"),
    (lambda: Arborescence(3, root="both"), '"single" or "multi", got \'both\''),
    (lambda: Arborescence().argmax(np.zeros(10)), "size 10 .* 9 for n=3 and 16 for n=4"),
    (lambda: Arborescence(3).softmax(np.zeros(16)), "n=4 nodes, .* needs 9 entries"),
    (lambda: Arborescence().argmax(Ragged.from_rows([np.zeros(4), np.zeros(5)])), "size 5"),
    (lambda: Arborescence().softmax([0.0, np.nan, 0.0, 0.0]), "NaN"),
    (lambda: Arborescence().softmax([0.0, np.inf, 0.0, 0.0]), r"\+inf"),
    (lambda: Arborescence().encode([[1, 0]]), "cycle"),
    (lambda: Arborescence().encode([[0, 0]]), 'root="multi"'),
    (lambda: Arborescence().encode([[0, 4]]), "from 0 to 4"),
    (lambda: Arborescence().encode([[0.5]]), "integers"),
    (lambda: Arborescence().encode(np.zeros(3, int)), "2-D array"),
    (lambda: Arborescence().kbest(np.zeros(9), 0), "k >= 1"),
    (lambda: Arborescence().sample(np.zeros(9), 0), "n >= 1"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("oracle", ["argmax", "softmax", "project", "kbest", "sample"])
def test_a_row_without_a_tree_is_named(root: str, oracle: str) -> None:
    trees = Arborescence(root=root)
    theta = np.zeros((3, 3, 3))
    theta[1, :, 2] = -np.inf
    more = (2,) if oracle == "kbest" else ()
    with pytest.raises(ValueError, match="row 1 has no tree"):
        getattr(trees, oracle)(theta.reshape(3, 9), *more)


@pytest.mark.parametrize("oracle", ["argmax", "softmax"])
def test_two_nodes_that_only_the_root_reaches(oracle: str) -> None:
    """A tree from a root with several dependents, none from a single one."""
    theta = np.zeros((3, 3))
    theta[1:, 1:] = -np.inf
    getattr(Arborescence(root="multi"), oracle)(theta.ravel())
    with pytest.raises(ValueError, match=r"row 0 has no tree.*one dependent of the root"):
        getattr(Arborescence(), oracle)(theta.ravel())


def test_long_sentences_are_projected_exactly():
    """Heads nearby preferred, as in sentences: cuts by the dozen, found from nodes known safe."""
    n = 100
    rng = np.random.default_rng(0)
    place = np.arange(n)
    near = -np.abs(place[:, None] - place) / 5 + 0.3 * rng.normal(size=(n, n))
    trees = Arborescence()
    for scale in (0.3, 2.0):
        theta = scale * near.reshape(1, -1)
        p = trees.project(theta)
        slope = theta - p
        assert ((trees.argmax(slope) - p) * slope).sum() < 1e-10
        assert trees.contains(p).all()
        assert np.count_nonzero(p) > n
