"""The corners of every domain: one node, one entry, no row at all, nothing left to choose."""

import numpy as np
import pytest

import maxent as mx
from maxent.core.domains import StructuredDomain, SumProductDomain
from maxent.testing import check_domain

INF = float("inf")

# (domain, row size): a single entry, or a single node
SMALLEST = [
    (mx.Simplex(), 1),
    (mx.Cube(), 1),
    (mx.KSubset(1), 1),
    (mx.KSubset(3), 3),
    (mx.Product(mx.Simplex(), 2), 2),
    (mx.ScaledDomain(mx.Simplex(), 0.3), 1),
    (mx.Chain(1), 1),
    (mx.Chain(3), 3),
    (mx.Tree([], (2,)), 2),
    (mx.Tree([], (1, 1)), 2),
    (mx.Tree([(0, 1)], (2, 1)), 5),  # a node with nothing to choose
    (mx.Alignment(1, 1), 1),
    (mx.Alignment(1, 4), 4),
    (mx.Alignment(4, 1), 4),
    (mx.Arborescence(), 1),
    (mx.Arborescence(root="multi"), 1),
    (mx.Arborescence(2), 4),
    (mx.Arborescence(2, root="multi"), 4),
    (mx.ProjectiveTree(), 1),
    (mx.ProjectiveTree(2, root="multi"), 4),
    (mx.ConstituencyTree(), 1),
    (mx.ConstituencyTree(3), 3),
    (mx.ConstituencyTree(1, 2), 4),
    (mx.Permutahedron([3.0]), 1),
    (mx.Permutahedron([0.0, 0.0]), 2),
    (mx.Birkhoff(), 1),
    (mx.Transport([2.0], [2.0]), 1),
    (mx.Transport([1.0], [0.25, 0.75]), 2),
]
over_smallest = pytest.mark.parametrize(("domain", "size"), SMALLEST, ids=repr)


@over_smallest
def test_oracles(domain, size):
    check_domain(domain, size)


@over_smallest
def test_no_rows(domain, size):
    none = np.empty((0, size))
    assert np.shape(domain.argmax(none)) == (0, size)
    assert np.shape(domain.project(none)) == (0, size)
    assert domain.contains(none).shape == (0,)
    if domain.has_project_kl:
        assert np.shape(domain.project_kl(none)) == (0, size)
    if isinstance(domain, SumProductDomain):
        log_partition, mean = domain.softmax(none)
        assert log_partition.shape == (0,)
        assert np.shape(mean) == (0, size)
    if isinstance(domain, StructuredDomain):
        assert np.shape(domain.kbest(none, 2)[0]) == (0, 2)
        assert np.shape(domain.sample(none, 1, 0)[0]) == (0, size)


@pytest.mark.parametrize(
    ("domain", "size"),
    [
        (mx.Arborescence(), 1),
        (mx.Arborescence(1, root="multi"), 1),
        (mx.ProjectiveTree(), 1),
        (mx.Cube(), 1),
        (mx.Cube(), 3),
        (mx.Product(mx.Cube(), 2), 4),
        (mx.ScaledDomain(mx.Cube(), 2.0), 2),
        (mx.Permutahedron([0.0, 0.0]), 2),
    ],
    ids=repr,
)
def test_where_nothing_is_a_structure_everything_may_be_forbidden(domain, size):
    forbidden = np.full((2, size), -INF)
    nothing = np.zeros((2, size))
    np.testing.assert_array_equal(domain.argmax(forbidden), nothing)
    np.testing.assert_array_equal(domain.project(forbidden), nothing)
    if isinstance(domain, SumProductDomain):
        log_partition, mean = domain.softmax(forbidden)
        np.testing.assert_array_equal(log_partition, [0, 0])
        np.testing.assert_array_equal(mean, nothing)
        np.testing.assert_array_equal(mx.Shannon(domain=domain).conjugate(forbidden)[1], nothing)
    if isinstance(domain, StructuredDomain):
        scores, (best, second) = domain.kbest(forbidden, 2)
        np.testing.assert_array_equal(scores, [[0, -INF]] * 2)
        np.testing.assert_array_equal(best, nothing)
        np.testing.assert_array_equal(second, nothing)
        np.testing.assert_array_equal(domain.sample(forbidden, 3, 0)[2], nothing)


@pytest.mark.parametrize(
    ("domain", "size"),
    [
        (mx.Simplex(), 2),
        (mx.Chain(1), 1),
        (mx.Alignment(1, 1), 1),
        (mx.Arborescence(), 4),
        (mx.Arborescence(root="multi"), 4),
        (mx.ProjectiveTree(), 4),
        (mx.ConstituencyTree(2), 2),
        (mx.Birkhoff(), 1),
        (mx.KSubset(1), 1),
        (mx.Permutahedron([1.0]), 1),
    ],
    ids=repr,
)
def test_where_a_structure_needs_an_entry_one_must_be_left(domain, size):
    for oracle in (domain.argmax, domain.project):
        with pytest.raises(ValueError, match="-inf everywhere"):
            oracle(np.full(size, -INF))


def test_a_root_alone_beside_larger_trees():
    theta = mx.Ragged.from_rows([[-INF], [0.0, 1.0, 0.0, 0.0]])
    trees = mx.Arborescence(root="multi")
    alone, pair = trees.argmax(theta).rows()
    np.testing.assert_array_equal(alone, [0])
    np.testing.assert_array_equal(pair, [0, 1, 0, 0])
    assert [heads.tolist() for heads in trees.decode(trees.argmax(theta))] == [[], [0]]
