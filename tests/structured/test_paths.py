"""Paths of acyclic graphs: every oracle by enumeration, order of arcs, entropy, bad input."""

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent.structured import Lattice
from maxent.testing import check_domain

ARCS = [(0, 1), (0, 2), (1, 2), (2, 3), (1, 3), (0, 1), (0, 3)]
CASES = [
    Lattice([(0, 1)]),
    Lattice(ARCS),
    Lattice([(0, 2), (2, 5), (0, 5), (2, 4), (1, 3)]),  # node 4 leads nowhere, 1 is not reached
]


@pytest.mark.parametrize("lattice", CASES, ids=str)
def test_oracles(lattice):
    check_domain(lattice, lattice.size)


def test_paths_of_a_lattice_are_the_routes_of_its_arcs():
    vertices = Lattice(ARCS).vertices(len(ARCS))
    found = {tuple(np.flatnonzero(v).tolist()) for v in vertices}
    assert found == {(6,), (0, 4), (4, 5), (1, 3), (0, 2, 3), (2, 3, 5)}


def test_a_grid_of_steps_has_the_alignments_of_its_cells():
    """Two domains, written independently, with one polytope of scores: cells against steps."""
    n, m = 3, 4
    cell = np.arange(n * m).reshape(n, m) + 1
    steps = [(0, 1, 0)]  # into the first cell, then (from, to, entry of the cell entered)
    for i in range(n):
        for j in range(m):
            for a, b in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):
                if a < n and b < m:
                    steps.append((int(cell[i, j]), int(cell[a, b]), a * m + b))
    tail, head, entry = np.array(steps).T
    theta = np.random.default_rng(0).normal(size=n * m)
    value, p = Lattice(list(zip(tail.tolist(), head.tolist(), strict=True))).softmax(theta[entry])
    expected, cells = mx.Alignment(n, m).softmax(theta)
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(np.bincount(entry, p), cells, atol=1e-13)


def test_best_draws_and_entropy_agree_with_the_list_of_paths():
    lattice, rng = Lattice(ARCS), np.random.default_rng(1)
    theta = rng.normal(size=(3, len(ARCS)))
    vertices = lattice.vertices(len(ARCS))
    scores, batches = lattice.kbest(theta, 8)
    for i, row in enumerate(theta):
        order = np.argsort(-(vertices @ row))
        np.testing.assert_allclose(scores[i, :6], (vertices @ row)[order], rtol=1e-13)
        np.testing.assert_array_equal([batch[i] for batch in batches[:6]], vertices[order])
        assert (scores[i, 6:] == -np.inf).all()
        assert not batches[7][i].any()
    drawn = np.mean(lattice.sample(theta, 4000, random_state=0), axis=0)
    _, p = lattice.softmax(theta)
    np.testing.assert_allclose(drawn, p, atol=0.03)
    chance = special.softmax(theta @ vertices.T, axis=1)
    expected = -special.entr(chance).sum(axis=1)
    np.testing.assert_allclose(lattice.negentropy(p), expected, atol=1e-13)
    apart = mx.FenchelYoungLoss(mx.Shannon(domain=lattice))
    q = lattice.softmax(rng.normal(size=theta.shape))
    other = special.softmax(np.log(chance), axis=1)
    np.testing.assert_allclose(apart.value(theta, p), 0, atol=1e-13)
    # the loss is the divergence of the distributions with these means
    shifted = theta + 0.3 * rng.normal(size=theta.shape)
    near = special.softmax(shifted @ vertices.T, axis=1)
    np.testing.assert_allclose(
        apart.value(shifted, p), special.rel_entr(other, near).sum(axis=1), atol=1e-12
    )
    assert lattice.contains(q[1]).all()


def test_a_projection_starts_from_known_paths():
    lattice = Lattice(ARCS)
    theta = 0.3 * np.random.default_rng(2).normal(size=(4, len(ARCS)))
    p, supports = lattice.project_support(theta)
    again, warm = lattice.project_support(theta + 1e-3, start=supports)
    np.testing.assert_allclose(again, lattice.project(theta + 1e-3), atol=1e-12)
    assert all(len(s.weights) > 1 for s in warm)
    np.testing.assert_allclose(p, [s.point() for s in supports], atol=1e-15)


@pytest.mark.parametrize(
    ("arcs", "match"),
    [
        ([(0, 1, 2)], "pairs"),
        ([(1, 0)], "higher number"),
        ([(0, 1), (2, 3)], "no path leads"),
        ([(0.5, 1)], "pairs"),
    ],
)
def test_bad_arcs_are_refused(arcs, match):
    with pytest.raises(ValueError, match=match):
        Lattice(arcs)


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match="rows of that size, got 3"):
        Lattice(ARCS).argmax(np.zeros(3))
    theta = np.zeros((2, len(ARCS)))
    theta[1, [0, 1, 5, 6]] = -np.inf
    for oracle in (
        Lattice(ARCS).argmax,
        Lattice(ARCS).softmax,
        Lattice(ARCS).project,
        Lattice(ARCS).sample,
        lambda x: Lattice(ARCS).kbest(x, 2),
    ):
        with pytest.raises(ValueError, match="row 1 has no path"):
            oracle(theta)
