"""SparseMAP on trees of flat scores: cuts find what mixtures of very many trees would be."""

import itertools

import numpy as np
import pytest

from maxent.rows.arrays import Ragged
from maxent.structured import Arborescence
from maxent.structured.trees import arborescence
from tools import needs

ROOTS = ["single", "multi"]


def flat(n: int, rows: int = 1, preference: float = 0.2, seed: int = 0) -> np.ndarray:
    """Scores as an untrained parser has them: some words are better heads for all others."""
    rng = np.random.default_rng([n, seed])
    heads = preference * rng.normal(size=(rows, n, 1))
    return (heads + 0.07 * rng.normal(size=(rows, n, n))).reshape(rows, -1)


def gaps(trees: Arborescence, theta: np.ndarray, p: np.ndarray) -> np.ndarray:
    """max_v <theta - p, v - p> over the trees v, by ``argmax``."""
    vertices = np.asarray(trees.argmax(theta - p))
    used = (vertices > 0) | (p > 0)
    return (np.where(used, theta - p, 0.0) * (vertices - p)).sum(axis=1)


def cuts(n: int) -> list[np.ndarray]:
    """Whether an arc leads into the set, for all sets of two or more nodes without the root."""
    found = []
    for size in range(2, n):
        for nodes in itertools.combinations(range(1, n), size):
            inside = np.isin(np.arange(n), nodes)
            found.append(np.outer(~inside, inside).ravel())
    return found


@pytest.fixture
def counted(monkeypatch):
    """How many best trees are asked for."""
    calls = []
    plain = Arborescence._argmax

    def argmax(self, theta):
        calls.append(len(theta))
        return plain(self, theta)

    monkeypatch.setattr(Arborescence, "_argmax", argmax)
    return calls


@pytest.fixture
def active_sets(monkeypatch):
    """What the active sets return, call by call: the supports, None for those that grew."""
    returned = []
    plain = arborescence.small_supports_by_argmax

    def supports(*arguments):
        returned.append(plain(*arguments))
        return returned[-1]

    monkeypatch.setattr(arborescence, "small_supports_by_argmax", supports)
    return returned


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("n", range(4, 13))
def test_the_active_set_finds_the_same(root: str, n: int, active_sets) -> None:
    trees = Arborescence(n, root)
    theta = np.concatenate([flat(n, 4, preference) for preference in (0.0, 0.2, 1.0)])
    found = trees.project(theta)
    assert not active_sets
    p, _ = trees.project_support(theta)
    np.testing.assert_allclose(found, p, atol=1e-9)


def near(n: int, weight: float, seed: int = 0) -> np.ndarray:
    """Scores that fall with the distance of two words: cycles within cycles."""
    places, rng = np.arange(n), np.random.default_rng([n, seed])
    return (-weight * np.abs(places[:, None] - places) + rng.normal(size=(n, n))).reshape(1, -1)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_few_trees_take_over_where_cuts_become_many(root: str, weight: float, active_sets) -> None:
    trees, theta = Arborescence(120, root), near(120, weight)
    found = trees.project(theta)
    assert [len(supports) for supports in active_sets] == [1]
    assert active_sets[0][0] is not None  # settled within its limit
    assert trees.contains(found).all()
    assert gaps(trees, theta, found) < 1e-9  # so no point of the domain is nearer


def test_steps_that_go_too_far_are_taken_back() -> None:
    n, rng = 100, np.random.default_rng(0)
    heads = [int(np.clip(i + rng.choice([-3, -2, -1, 1, 2]), 1, n - 1)) for i in range(1, n)]
    theta = 1.5 * rng.normal(size=(n, n))
    theta[heads, np.arange(1, n)] += 5.0
    found, settled = np.zeros(n * n), np.zeros(1, bool)
    trees = Arborescence(n)
    trees._by_cuts(theta.reshape(1, -1), 0.0, settled, found)
    assert settled.all()  # multipliers went to and fro between two points
    assert gaps(trees, theta.reshape(1, -1), found[None]) < 1e-9


@pytest.mark.parametrize("root", ROOTS)
def test_cuts_settle_where_preferences_and_noise_have_one_scale(root: str, active_sets) -> None:
    trees = Arborescence(150, root)
    rng = np.random.default_rng(1)
    theta = (rng.normal(size=(2, 150, 1)) + rng.normal(size=(2, 150, 150))).reshape(2, -1)
    theta[1].reshape(150, 150)[0, 5:] -= 100.0  # hardly any node may be below the root
    trees.project(theta[:1])
    assert not active_sets
    p = trees.project(theta)
    assert trees.contains(p).all()
    assert gaps(trees, theta, p).max() < 1e-10


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
@pytest.mark.parametrize("n", [4, 5])
def test_enumerated_trees_and_inequalities(root: str, forbidden: float, n: int) -> None:
    """No enumerated tree leads on, and CVXPY finds the point from Edmonds' inequalities."""
    cp = needs("cvxpy")
    trees, rng = Arborescence(n, root), np.random.default_rng(n)
    vertices = trees.vertices(n * n)
    for theta in flat(n, 3, 0.5):
        kept = vertices[rng.integers(len(vertices))] > 0
        theta[(rng.random(n * n) < forbidden) & ~kept] = -np.inf
        p = trees.project(theta)
        barred = np.isneginf(theta)
        assert not p[barred].any()
        slope = np.where(barred, 0.0, theta) - p
        allowed = vertices[~(vertices[:, barred] > 0).any(axis=1)]
        assert (allowed @ slope).max() - p @ slope <= 1e-13
        x = cp.Variable(n * n, nonneg=True)
        table = cp.reshape(x, (n, n), order="C")
        no_arc = np.eye(n, dtype=bool)
        no_arc[:, 0] = True
        rules = [cp.sum(table, axis=0)[1:] == 1, x[barred | no_arc.ravel()] == 0]
        rules += [x[cut] @ np.ones(cut.sum()) >= 1 for cut in cuts(n)]
        if root == "single":
            rules.append(cp.sum(table[0]) == 1)
        distance = cp.sum_squares(x - np.where(barred, 0.0, theta))
        cp.Problem(cp.Minimize(distance), rules).solve(solver="CLARABEL")
        np.testing.assert_allclose(p, x.value, atol=1e-5)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("preference", [0.0, 0.2])
def test_long_sentences_take_few_steps(root: str, preference: float, counted) -> None:
    """120 nodes: the active set would ask for a best tree thousands of times."""
    n = 120
    trees, theta = Arborescence(n, root), flat(120, 1, preference)
    p = trees.project(theta)
    assert len(counted) == 2  # whether a tree is the nearest point itself
    assert trees.contains(p, 1e-12).all()
    assert gaps(trees, theta, p).max() <= 1e-12
    assert np.count_nonzero(p) > 8 * n


@pytest.mark.parametrize("root", ROOTS)
def test_forbidden_arcs(root: str) -> None:
    n, rng = 40, np.random.default_rng(0)
    trees, theta = Arborescence(n, root), flat(40, 3)
    kept = np.asarray(trees.argmax(rng.normal(size=theta.shape))) > 0
    theta[(rng.random(theta.shape) < 0.6) & ~kept] = -np.inf
    p = trees.project(theta)
    assert not p[np.isneginf(theta)].any()
    assert trees.contains(p, 1e-12).all()
    assert gaps(trees, theta, p).max() <= 1e-12


def test_peaked_scores_are_left_to_the_active_set(active_sets) -> None:
    n = 40
    theta = 10 * np.random.default_rng(1).normal(size=n * n)
    p = Arborescence(n).project(theta)
    ((support,),) = active_sets
    assert 1 < len(support.weights) < n
    np.testing.assert_array_equal(p, support.point())


@pytest.mark.parametrize("root", ROOTS)
def test_an_active_set_that_grows_too_large(root: str, active_sets, monkeypatch) -> None:
    """Cuts take over, and where these do not settle, an active set of any size."""
    n = 30
    trees, theta = Arborescence(n, root), flat(30)
    expected = trees.project(theta)
    monkeypatch.setattr(arborescence, "_SPARSE", float(n))
    np.testing.assert_array_equal(trees.project(theta), expected)
    assert active_sets == [[None]]
    monkeypatch.setattr(Arborescence, "_by_cuts", lambda *arguments: None)
    np.testing.assert_allclose(trees.project(theta), expected, atol=1e-9)
    assert len(active_sets[-1][0].weights) > arborescence._PER_NODE * n


def test_rows_of_every_length_and_type() -> None:
    """Flat, peaked and single trees in one batch; float32 is the float64 answer, rounded."""
    trees = Arborescence()
    rows = [flat(50)[0], 10 * flat(30, 1, 1.0)[0], np.zeros(1), flat(7)[0], 100 * flat(40)[0]]
    batch = trees.project(Ragged.from_rows(rows))
    for row, p in zip(rows, batch.rows(), strict=True):
        np.testing.assert_array_equal(p, trees.project(row))
        narrow = row.astype(np.float32)
        found = trees.project(narrow)
        assert found.dtype == np.float32
        assert trees.contains(found)
        np.testing.assert_array_equal(
            found, trees.project(narrow.astype(np.float64)).astype(np.float32)
        )


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("n", [5, 7])
def test_derivatives_on_the_enumerated_face(root: str, n: int) -> None:
    """v less its part along the zeros, the columns and every cut of a sum of 1."""
    trees, rng = Arborescence(n, root), np.random.default_rng(n)
    columns = [np.outer(np.ones(n), np.arange(n) == j).ravel() for j in range(1, n)]
    for preference in (0.0, 0.5, 2.0):
        theta = 3 * flat(n, 20, preference)
        v = rng.normal(size=theta.shape)
        p = trees.project(theta)
        found = trees.project_jvp(theta, p, v)
        for x, along, tangent in zip(p, v, found, strict=True):
            tight = [cut for cut in cuts(n) if abs(x[cut].sum() - 1) < 1e-9]
            normal = np.array([*columns, *tight], float)[:, x > 0]
            expected = np.zeros(n * n)
            kept = along[x > 0]
            expected[x > 0] = kept - np.linalg.pinv(normal, rcond=1e-10) @ (normal @ kept)
            np.testing.assert_allclose(tangent, expected, atol=1e-10)


@pytest.mark.parametrize("root", ROOTS)
def test_derivatives_of_long_sentences(root: str, counted) -> None:
    n, h = 100, 1e-6
    trees, theta = Arborescence(n, root), flat(100)
    v = np.random.default_rng(1).normal(size=theta.shape)
    slope = (trees.project(theta + h * v) - trees.project(theta - h * v)) / (2 * h)
    p = trees.project(theta)
    counted.clear()
    np.testing.assert_allclose(trees.project_jvp(theta, p, v), slope, atol=1e-6)
    assert not counted
