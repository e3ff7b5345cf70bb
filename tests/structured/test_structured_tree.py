"""Trees: every oracle by enumeration, agreement with chains, best assignments, draws, bad input."""

import numpy as np
import pytest

import maxent as mx
from maxent.structured import Chain, Tree
from maxent.structured.trees.rows import TreeRows
from maxent.testing import check_domain

STAR = Tree([(0, 1), (0, 2), (3, 0)], (2, 3, 1, 2))
CASES = [
    Tree([], 3),
    Tree([(1, 0)], (2, 3)),
    STAR,
    Tree([(0, 1), (2, 3)], 2),  # two trees
    Tree([(2, 1), (1, 0), (1, 3)], 2),
]


@pytest.mark.parametrize("tree", CASES, ids=str)
def test_oracles(tree):
    check_domain(tree, tree.size)


def test_a_path_of_nodes_is_a_chain():
    rng = np.random.default_rng(0)
    chain, tree = Chain(3), Tree([(0, 1), (1, 2), (2, 3)], 3)
    theta = rng.normal(size=(4, chain.size(4))) * 3
    for x, y in zip(chain.softmax(theta), tree.softmax(theta), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)
    np.testing.assert_allclose(chain.project(theta), tree.project(theta), atol=1e-11)
    np.testing.assert_allclose(chain.kbest(theta, 6)[0], tree.kbest(theta, 6)[0], atol=1e-12)


@pytest.mark.parametrize("tree", CASES, ids=str)
def test_best_assignments_by_enumeration(tree):
    theta = np.random.default_rng(1).normal(size=(5, tree.size))
    theta[0, 0] = -np.inf
    vertices = tree.vertices(tree.size)
    values, batches = tree.kbest(theta, 7)
    for i, row in enumerate(theta):
        with np.errstate(invalid="ignore"):
            scores = np.where(vertices > 0, vertices * row, 0).sum(axis=1)
        finite = np.sort(scores[np.isfinite(scores)])[::-1][:7]
        np.testing.assert_allclose(values[i, : len(finite)], finite, atol=1e-12)
        assert (values[i, len(finite) :] == -np.inf).all()
        found = np.array([batch[i] for batch in batches])
        assert len(np.unique(found[: len(finite)], axis=0)) == len(finite)
        for vertex, score in zip(found[: len(finite)], finite, strict=True):
            assert vertex[vertex > 0] @ row[vertex > 0] == pytest.approx(score)
        assert not found[len(finite) :].any()


def test_draws_have_the_frequencies_of_the_marginals():
    theta = np.random.default_rng(2).normal(size=(2, STAR.size))
    draws = STAR.sample(theta, 4000, random_state=0)
    p = STAR.softmax(theta)[1]
    np.testing.assert_allclose(np.mean(draws, axis=0), p, atol=0.04)
    np.testing.assert_array_equal(STAR.sample(theta, 1, random_state=3)[0],
                                  STAR.sample(theta, 1, random_state=3)[0])  # fmt: skip


def test_float32_with_scores_of_1e4():
    theta = (1e4 * np.random.default_rng(0).normal(size=(3, STAR.size))).astype(np.float32)
    value, p = STAR.softmax(theta)
    assert np.isfinite(value).all()
    assert p.dtype == np.float32
    np.testing.assert_allclose(p, STAR.softmax(theta.astype(float))[1], atol=1e-6)


def test_encode_and_decode():
    labels = np.array([[1, 2, 0, 1], [0, 0, 0, 0]])
    np.testing.assert_array_equal(STAR.decode(STAR.encode(labels)), labels)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tree([(0, 1), (1, 2), (2, 0)], 2), "no forest: the edge between 1 and 2"),
        (lambda: Tree([(0, 1), (1, 0)], 2), "closes a cycle"),
        (lambda: Tree([(0, 0)], 2), "two different nodes"),
        (lambda: Tree([(0, 4)], (2, 2)), r"0 .. 1, got \(0, 4\)"),
        (lambda: Tree([(0, 1)], (2, 0)), "at least one state"),
        (lambda: STAR.argmax(np.zeros((1, 5))), "has rows of"),
        (lambda: STAR.scores([[0.0]], []), "one vector per node"),
        (lambda: STAR.encode([[0, 3, 0, 0]]), "states are integers"),
        (lambda: STAR.encode([[0, 0]]), r"shape \(rows, 4\)"),
        (lambda: Tree([], 2).softmax([-np.inf, -np.inf]), "-inf everywhere"),
        (
            lambda: Tree([(0, 1)], 1).softmax([0.0, 0.0, -np.inf]),
            "row 0 has no assignment",
        ),
        (lambda: Tree([(0, 1)], 1).kbest([0.0, 0.0, -np.inf], 2), "row 0 has no assignment"),
        (lambda: STAR.softmax(np.full(STAR.size, np.nan)), "NaN"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_no_rows():
    assert STAR.softmax(np.empty((0, STAR.size)))[1].shape == (0, STAR.size)


def test_saved_and_loaded(tmp_path):
    mx.save(STAR, tmp_path / "tree.json")
    assert mx.load(tmp_path / "tree.json") == STAR


def test_a_tree_for_every_row():
    rows = TreeRows((STAR, Tree([(1, 0)], (2, 3)), STAR))
    rng = np.random.default_rng(2)
    theta = mx.Ragged.from_rows([rng.normal(size=tree.size) for tree in rows.trees])
    for tree, score, best in zip(rows.trees, theta.rows(), rows.argmax(theta).rows(), strict=True):
        np.testing.assert_array_equal(best, tree.argmax(score))
    assert rows.contains(rows.argmax(theta)).all()
    assert rows.contains(theta).sum() == 0
    assert len(rows.vertices(rows.trees[1].size)) == 6
    with pytest.raises(ValueError, match="2 trees have rows of"):
        rows.vertices(STAR.size)
    with pytest.raises(ValueError, match="3 trees, got 1 rows"):
        rows.argmax(mx.Ragged.from_rows([theta.rows()[0]]))
    with pytest.raises(TypeError, match="a Tree for every row"):
        TreeRows(())
