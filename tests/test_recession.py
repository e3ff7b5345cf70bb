"""Models without a penalty whose optimum is at infinity say so."""

import warnings

import numpy as np
import pytest

import maxent as mx
from maxent.solvers._recession import recession_direction

# "a" has two labels, so that no weights are best for all; "b" has one, whose weight grows for ever
X = [[["a"]], [["a"]], [["a"], ["a"]], [["b"]]]
PARTLY = [[0], [1], [0, 1], [1]]


def _problem(X, y, states=2):
    chain = mx.Chain(states)
    observed = chain.encode([np.array(path) for path in y], tied=True)
    features = mx.ChainMap([np.array(x, dtype=float) for x in X], states)
    return mx.Problem(mx.Shannon(domain=chain), features, mx.Equality(), observed=observed)


def test_labels_that_are_partly_separable_are_told():
    with pytest.warns(mx.SeparableWarning, match=r"labels of [12] of 4 sequences are separable"):
        mx.CRF().fit(X, PARTLY)


def test_labels_that_overlap_have_an_optimum():
    overlap = [[["a"]], [["a"]], [["a"], ["a"]], [["a"], ["a"]], [["a"], ["a"]], [["a"], ["a"]]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.CRF(tol=1e-8).fit(overlap, [[0], [1], [0, 0], [0, 1], [1, 0], [1, 1]])


@pytest.mark.parametrize("seed", range(6))
def test_a_direction_lowers_the_loss_for_ever(seed):
    """Against the listed labels: no margin is negative, some are positive, or no w has such."""
    from scipy import optimize

    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    X = [np.round(rng.normal(size=(rng.integers(1, 4), 2))) for _ in range(count)]
    y = [rng.integers(0, 2, len(x)) for x in X]
    problem = _problem(X, y)
    chain, margins = mx.Chain(2), []
    for i, path in enumerate(y):
        one = problem.features.take(np.array([i]))
        right = one.moments(chain.encode(path[None], tied=True))
        vertices = chain.vertices(chain.size(len(path)))
        margins += [right - one.moments(chain.tie(v[None])) for v in vertices]
    margins = np.array(margins)
    best = optimize.linprog(-margins.sum(axis=0), -margins, np.zeros(len(margins)), bounds=(-1, 1))
    w = recession_direction(problem)
    assert (w is None) == (best.fun > -1e-7)
    if w is not None:
        assert (margins @ w).min() > -1e-7
        assert (margins @ w).max() > 1e-3
        values = [problem.dual(c * w) for c in (0.0, 1.0, 10.0, 100.0)]
        assert (np.diff(values) < 0).all()
