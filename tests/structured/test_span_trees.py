"""Projective and constituency trees: every oracle against enumeration, known counts, bad input."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from maxent.rows.arrays import Ragged
from maxent.structured import Arborescence, ConstituencyTree, ProjectiveTree
from maxent.structured.trees.projective import is_projective
from maxent.testing import check_domain

SINGLE, MULTI = ProjectiveTree(), ProjectiveTree(root="multi")
# (domain, row size)
SMALL = [
    (SINGLE, 16),
    (SINGLE, 25),
    (MULTI, 16),
    (ConstituencyTree(), 25),
    (ConstituencyTree(2), 18),
    (ConstituencyTree(3), 12),
]
over_small = pytest.mark.parametrize(("trees", "size"), SMALL, ids=repr)


@over_small
def test_oracles(trees, size: int) -> None:
    check_domain(trees, size, random_state=1)


def _catalan(n: int) -> int:
    return math.comb(2 * n, n) // (n + 1)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 40])
def test_numbers_of_trees(n: int) -> None:
    """Of m words C(3 m, m) / (2 m + 1) projective trees, C(3 m - 2, m - 1) / m from one root."""
    multi = math.comb(3 * n, n) // (2 * n + 1)
    single = math.comb(3 * n - 2, n - 1) // n
    binary = _catalan(n - 1)
    size = (n + 1) ** 2
    for trees, entries, count in (
        (MULTI, size, multi),
        (SINGLE, size, single),
        (ConstituencyTree(), n * n, binary),
        (ConstituencyTree(3), 3 * n * n, binary * 3 ** (2 * n - 1)),
    ):
        log_partition, _ = trees.softmax(np.zeros(entries))
        assert log_partition == pytest.approx(math.log(count), abs=1e-12, rel=1e-13)
        if n <= 4 and entries < 100 and count < 2000:
            vertices = trees.vertices(entries)
            assert len(np.unique(vertices, axis=0)) == len(vertices) == count
            assert trees.entropy(np.zeros(entries)) == pytest.approx(math.log(count))


def test_projective_trees_are_those_without_crossings() -> None:
    """Those of all trees where what lies between head and dependent descends from the head."""

    def descends(heads, node, head):
        while node != head and node:
            node = heads[node - 1]
        return node == head

    for root in ("single", "multi"):
        kept = []
        for heads in Arborescence(root=root).decode(Arborescence(root=root).vertices(25)):
            pairs = [(head, node) for node, head in enumerate(heads.tolist(), start=1)]
            right = all(
                descends(heads, between, head)
                for head, node in pairs
                for between in range(min(head, node) + 1, max(head, node))
            )
            assert is_projective(heads) == right
            kept += [heads] if right else []
        vertices = ProjectiveTree(root=root).vertices(25)
        np.testing.assert_array_equal(vertices, Arborescence(root=root).encode(np.array(kept)))


def _rows(rng, trees, size: int, scale: float, forbidden: float) -> np.ndarray:
    """Random scores with entries forbidden at random, one tree at least left to each row."""
    vertices = trees.vertices(size)
    theta = rng.normal(size=(6, size)) * scale
    kept = vertices[rng.integers(len(vertices), size=len(theta))] > 0
    theta[(rng.random(theta.shape) < forbidden) & ~kept] = -np.inf
    return theta


def _enumerated(vertices: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    allowed = vertices[~(vertices[:, np.isneginf(row)] > 0).any(axis=1)]
    return allowed, allowed @ np.where(np.isneginf(row), 0.0, row)


@over_small
@pytest.mark.parametrize("scale", [1e-300, 1.0, 300.0, 1e4, 1e300])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_every_oracle_at_every_scale(trees, size: int, scale: float, forbidden: float) -> None:
    rng, vertices = np.random.default_rng(0), trees.vertices(size)
    theta = _rows(rng, trees, size, scale, forbidden)
    v = rng.normal(size=theta.shape)
    best = np.asarray(trees.argmax(theta))
    log_partition, mean = trees.softmax(theta)
    derivative = trees.softmax_jvp(theta, mean, v)
    values, batches = trees.kbest(theta, 7)
    entropy = trees.entropy(theta)
    tolerance = 1e-14 * max(10, min(scale, 1e6))
    for i, row in enumerate(theta):
        allowed, scores = _enumerated(vertices, row)
        assert any((best[i] == vertex).all() for vertex in allowed)
        assert row[best[i] > 0].sum() == pytest.approx(scores.max(), rel=1e-12)
        assert log_partition[i] == pytest.approx(special.logsumexp(scores), rel=1e-12)
        law = special.softmax(scores)
        np.testing.assert_allclose(mean[i], law @ allowed, atol=tolerance)
        covariance = (law * (allowed @ v[i])) @ allowed - mean[i] * (mean[i] @ v[i])
        np.testing.assert_allclose(derivative[i], covariance, atol=10 * tolerance)
        assert entropy[i] == pytest.approx(special.entr(law).sum(), rel=1e-9, abs=1e-12)
        order = np.sort(scores)[::-1][:7]
        np.testing.assert_allclose(values[i, : len(order)], order, rtol=1e-12)
        found = np.array([batch[i] for batch in batches])
        assert len(np.unique(found[: len(order)], axis=0)) == len(order)
        assert all((allowed == tree).all(axis=1).any() for tree in found[: len(order)])
        assert (values[i, len(order) :] == -np.inf).all()
        assert not found[len(order) :].any()


@over_small
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_divergences(trees, size: int, scale: float) -> None:
    rng, vertices = np.random.default_rng(2), trees.vertices(size)
    theta, other = (_rows(rng, trees, size, scale, 0.0) for _ in range(2))
    kl, cross = trees.kl(theta, other), trees.cross_entropy(theta, other)
    for i in range(len(theta)):
        log_p = special.log_softmax(vertices @ theta[i])
        log_q = special.log_softmax(vertices @ other[i])
        expected = (np.exp(log_p) * (log_p - log_q)).sum()
        assert kl[i] == pytest.approx(expected, rel=1e-10)
        assert cross[i] == pytest.approx(-(np.exp(log_p) * log_q).sum(), rel=1e-10)
    np.testing.assert_allclose(trees.kl(theta, theta + 0.0), 0.0, atol=1e-14)
    forbidden = other.copy()
    forbidden[vertices[0] * np.ones((6, 1)) > 0] = -np.inf
    with np.errstate(invalid="ignore"):
        left = [len(_enumerated(vertices, row)[0]) for row in forbidden]
    if min(left) > 0:
        np.testing.assert_array_equal(trees.kl(theta, forbidden), np.inf)


def test_a_small_divergence_keeps_its_digits() -> None:
    """Where <theta - other, p> and the log-partitions are a million times larger than it."""
    rng = np.random.default_rng(0)
    theta, moved = 1e3 * np.ones(49), 1e-6 * rng.normal(size=49)
    vertices = SINGLE.vertices(49)
    along = vertices @ moved
    assert SINGLE.kl(theta, theta + moved) == pytest.approx(along.var() / 2, rel=1e-4)


@pytest.mark.parametrize("trees", [SINGLE, MULTI, ConstituencyTree(), ConstituencyTree(2)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
def test_derivatives_of_projections(trees, scale: float) -> None:
    rng, size, h = np.random.default_rng(5), 49 if trees is not SINGLE else 64, 1e-7
    size = 98 if trees == ConstituencyTree(2) else size
    theta, v = scale * rng.normal(size=(3, size)), rng.normal(size=(3, size))
    slope = (trees.project(theta + h * v) - trees.project(theta - h * v)) / (2 * h)
    found = trees.project_jvp(theta, trees.project(theta), v)
    np.testing.assert_allclose(found, slope, atol=1e-5)
    single = trees.project_jvp(*(x.astype(np.float32) for x in (theta, trees.project(theta), v)))
    assert single.dtype == np.float32


@pytest.mark.parametrize("trees", [SINGLE, ConstituencyTree(4)], ids=repr)
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_plain_sums_and_logarithms_agree(trees, scale: float) -> None:
    """The two ways to compute, on rows of 30 nodes: a bonus for one arc sends it to logarithms."""
    labels = getattr(trees, "labels", 1)
    theta = np.random.default_rng(1).normal(size=(30, 30, labels)) * scale
    log_partition, p = trees.softmax(theta.ravel())
    # 1e4 off every cell of one dependent or one first word changes no probability where all trees
    # have as many of them; scores that far apart are beyond plain numbers
    moved = theta.copy()
    if labels == 1:
        moved[:, 7] -= 1e4
        moved[:, 20] += 1e4
    else:
        moved[7, 7] -= 1e4
        moved[20, 20] += 1e4
    again, q = trees.softmax(moved.ravel())
    assert again == pytest.approx(log_partition, rel=1e-11)
    np.testing.assert_allclose(q, p, atol=1e-9)
    v = np.random.default_rng(2).normal(size=theta.size)
    np.testing.assert_allclose(
        trees.softmax_jvp(moved.ravel(), q, v), trees.softmax_jvp(theta.ravel(), p, v), atol=1e-8
    )


def test_ragged_rows_are_those_of_single_rows() -> None:
    rng = np.random.default_rng(0)
    for trees, labels in ((SINGLE, 1), (ConstituencyTree(2), 2)):
        batch = Ragged.from_rows([rng.normal(size=labels * n * n) for n in (4, 1, 11, 2, 4)])
        log_partition, mean = trees.softmax(batch)
        values, best = trees.kbest(batch, 2)
        tangent = trees.softmax_jvp(batch, mean, batch)
        drawn = trees.sample(batch, 3, random_state=0)
        nearest = trees.project(batch)
        slope = trees.project_jvp(batch, nearest, batch)
        for i, row in enumerate(batch.rows()):
            value, p = trees.softmax(row)
            assert log_partition[i] == pytest.approx(float(value), rel=1e-14)
            np.testing.assert_allclose(mean.rows()[i], p, atol=1e-14)
            np.testing.assert_array_equal(trees.argmax(batch).rows()[i], trees.argmax(row))
            np.testing.assert_array_equal(best[0].rows()[i], trees.argmax(row))
            assert values[i, 0] == pytest.approx(float(row @ trees.argmax(row)))
            np.testing.assert_allclose(
                tangent.rows()[i], trees.softmax_jvp(row, p, row), atol=1e-13
            )
            np.testing.assert_allclose(nearest.rows()[i], trees.project(row), atol=1e-12)
            expected = trees.project_jvp(row, trees.project(row), row)
            np.testing.assert_allclose(slope.rows()[i], expected, atol=1e-9)
            assert all(trees.contains(sample.rows()[i]) for sample in drawn)


def test_supports_of_projections() -> None:
    rng = np.random.default_rng(3)
    for trees, size in ((SINGLE, 100), (ConstituencyTree(2), 98)):
        theta = rng.normal(size=(2, size))
        p, supports = trees.project_support(theta)
        np.testing.assert_allclose(p, trees.project(theta), atol=1e-12)
        for row, support in zip(p, supports, strict=True):
            mixed = support.vertices.toarray()
            np.testing.assert_allclose(support.weights @ mixed, row, atol=1e-12)
            assert trees.contains(mixed).all()
            assert support.weights.sum() == pytest.approx(1)
        gap = ((theta - p) * (trees.argmax(theta - p) - p)).sum(axis=1)
        assert (gap <= 1e-11).all()


@pytest.mark.parametrize(("trees", "size"), [SMALL[0], SMALL[4]], ids=repr)
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_samples_follow_the_law(trees, size: int, scale: float) -> None:
    """Also where scores far apart, the same in all trees, need logarithms."""
    theta = np.random.default_rng(0).normal(size=size)
    theta[-2] = -np.inf
    n, labels = trees.nodes(size), getattr(trees, "labels", 1)
    moved = theta.reshape(n, n, labels).copy()
    if scale > 1 and labels == 1:
        moved += scale * np.arange(n)[None, :, None]
    elif scale > 1:
        moved[np.arange(n), np.arange(n)] += scale * np.arange(n)[:, None]
    drawn = np.array(trees.sample(moved.ravel(), 4000, random_state=1))
    allowed, scores = _enumerated(trees.vertices(size), theta)
    law = special.softmax(scores)
    counts = np.array([(drawn == vertex).all(axis=1).sum() for vertex in allowed])
    assert counts.sum() == 4000
    # cells of 10 expected draws and more; the rest in one
    common = 4000 * law >= 10
    seen, expected = (
        np.append(x[common], x[~common].sum()) for x in (counts.astype(float), 4000 * law)
    )
    assert ((seen - expected) ** 2 / np.maximum(expected, 1)).sum() < 3 * len(seen)
    np.testing.assert_array_equal(drawn, trees.sample(moved.ravel(), 4000, random_state=1))


def test_many_best_trees() -> None:
    """All trees in order, and more than there are."""
    theta = np.random.default_rng(0).normal(size=25)
    for trees in (SINGLE, ConstituencyTree()):
        scores = np.sort(trees.vertices(25) @ theta)[::-1]
        values, batches = trees.kbest(theta, len(scores) + 3)
        np.testing.assert_allclose(values[: len(scores)], scores, rtol=1e-12)
        assert (values[len(scores) :] == -np.inf).all()
        assert len(np.unique(np.array(batches)[: len(scores)], axis=0)) == len(scores)


def test_entries_that_are_no_cells_are_not_read() -> None:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(5, 5))
    other = theta.copy()
    other[:, 0] = 1e5
    np.fill_diagonal(other, [7.0, -np.inf, 1e9, -3.0, 0.0])
    below = theta.copy()
    below[np.tril_indices(5, -1)] = 1e7
    for trees, changed in ((SINGLE, other), (ConstituencyTree(), below)):
        for oracle in (trees.argmax, trees.project, lambda x, d=trees: d.softmax(x)[1]):
            np.testing.assert_array_equal(oracle(changed.ravel()), oracle(theta.ravel()))


def test_encode_and_decode() -> None:
    heads = np.array([[2, 0, 2], [0, 1, 2]])
    np.testing.assert_array_equal(SINGLE.decode(SINGLE.encode(heads)), heads)
    trees = ConstituencyTree(3)
    spans = [[(0, 0, 2), (0, 1, 1), (1, 1, 0)], [(0, 0, 1)]]
    assert trees.decode(trees.encode(spans)) == spans
    for vertices in (trees.vertices(27)[::7], SINGLE.vertices(25)):
        domain = trees if vertices.shape[1] == 27 else SINGLE
        decoded = domain.decode(vertices)
        encoded = domain.encode(np.array(decoded) if domain is SINGLE else decoded)
        np.testing.assert_array_equal(encoded, vertices)


def test_spans_by_brute_force() -> None:
    """Sets of spans that nest and split in two, found without any recursion."""
    n, spans = 4, list(itertools.combinations_with_replacement(range(4), 2))
    longer = [(a, b) for a, b in spans if 1 <= b - a < n - 1]
    count = 0
    for chosen in itertools.combinations(longer, n - 2):
        count += all(
            b < c or d < a or (a <= c and d <= b) or (c <= a and b <= d)
            for (a, b), (c, d) in itertools.combinations(chosen, 2)
        )
    assert len(ConstituencyTree().vertices(16)) == count == _catalan(3)


BAD = [
    (lambda: ProjectiveTree(0), "ProjectiveTree needs an integer n >= 1 or None, got 0"),
    (lambda: ProjectiveTree(root="both"), '"single" or "multi", got \'both\''),
    (lambda: SINGLE.argmax(np.zeros(10)), "size 10 .* 9 for n=3 and 16 for n=4"),
    (lambda: ProjectiveTree(3).softmax(np.zeros(16)), "n=4 nodes, .* needs 9 entries"),
    (lambda: SINGLE.encode([[3, 0, 2, 2]]), "arcs 3 -> 1 and 0 -> 2 cross; use Arborescence"),
    (lambda: SINGLE.encode([[1, 0]]), "cycle"),
    (lambda: SINGLE.encode([[0, 0]]), 'root="multi"'),
    (lambda: SINGLE.softmax([0.0, np.nan, 0.0, 0.0]), "NaN"),
    (lambda: SINGLE.kbest(np.zeros(9), 0), "k >= 1"),
    (lambda: SINGLE.kl(np.zeros((2, 9)), np.zeros((1, 9))), "as many rows of the same sizes"),
    (lambda: ConstituencyTree(0), "integer labels >= 1, got 0"),
    (lambda: ConstituencyTree(2, 0), "integer n >= 1, got 0"),
    (lambda: ConstituencyTree(2).argmax(np.zeros(9)), "size 9 .* 8 for n=2 and 18 for n=3"),
    (lambda: ConstituencyTree(2, 3).argmax(np.zeros(8)), "n=2 words, .* needs 18 entries"),
    (lambda: ConstituencyTree().encode([[(0, 1, 0), (0, 0, 0)]]), "no binary tree"),
    (
        lambda: ConstituencyTree().encode(
            [[(0, 2, 0), (0, 1, 0), (1, 2, 0), (0, 0, 0), (2, 2, 0)]]
        ),
        "no binary tree",
    ),
    (lambda: ConstituencyTree(2).encode([[(0, 0, 2)]]), "from 0 to 1, got 2"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("oracle", ["argmax", "softmax", "project", "kbest", "sample", "entropy"])
def test_a_row_without_a_tree_is_named(oracle: str) -> None:
    more = (2,) if oracle == "kbest" else ()
    arcs = np.zeros((3, 3, 3))
    arcs[1, :, 2] = -np.inf
    spans = np.zeros((3, 3, 3))
    spans[1, 0, 2] = -np.inf
    for trees, theta in ((SINGLE, arcs), (MULTI, arcs), (ConstituencyTree(), spans)):
        with pytest.raises(ValueError, match="row 1 has no tree"):
            getattr(trees, oracle)(theta.reshape(3, 9), *more)
