"""Models without a penalty whose optimum is at infinity say so."""

import warnings

import numpy as np
import pytest

import maxent as mx
from maxent.estimators._chain_rows import chain_reach
from maxent.solvers.recession import recession_direction
from maxent.solvers.self_concordant import unpenalised_gap

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


def _overlapping(seed=0, count=40):
    rng = np.random.default_rng(seed)
    X = [np.round(rng.normal(size=(rng.integers(1, 4), 2)), 1) for _ in range(count)]
    return X, [rng.integers(0, 2, len(x)) for x in X]


def test_the_bound_without_a_penalty_holds_and_closes():
    """The loss is above its minimum by at most the bound, at points near and less near."""
    X, y = _overlapping()
    problem = _problem(X, y)
    best = problem.run(mx.LBFGS(tol=1e-12))
    reach, rng = chain_reach(problem.features), np.random.default_rng(1)
    bounds = []
    for size in (1e-1, 1e-2, 1e-3, 1e-4):
        step = size * rng.normal(size=best.w.size) / reach
        state = problem.state(best.w + step)
        bounds.append(unpenalised_gap(state, reach))
        assert state.dual - best.objective <= bounds[-1] * (1 + 1e-6) + 1e-15
    assert np.isfinite(bounds[1:]).all()
    excess = state.dual - best.objective
    assert bounds[-1] <= 1.2 * excess  # half the squared Newton decrement, nearly exact
    assert np.isinf(unpenalised_gap(problem.state(best.w + 5.0 * step / size), reach))


def test_an_optimum_at_infinity_has_no_bound():
    """One curvature is lost in rounding there, where the gradient has long been 0."""
    X, y = _overlapping(count=12)
    problem = _problem(X, y)
    assert recession_direction(problem) is not None
    state = problem.state(problem.run(mx.LBFGS(tol=1e-12)).w)
    assert np.isinf(unpenalised_gap(state, chain_reach(problem.features)))


def test_a_field_without_a_penalty_has_a_gap():
    X, y = _overlapping()
    model = mx.CRF(tol=1e-6).fit(X, y)
    best = mx.CRF(tol=1e-12).fit(X, y)
    assert model.loss_ - best.loss_ <= model.gap_ < 1e-6
    chain = mx.Chain(2)
    paths = [np.ones(len(x), int) for x in X]
    one = mx.ChainMap(X, 2)
    apart = one.row_moments(
        chain.encode(paths, tied=True) - chain.encode(y, tied=True), np.arange(8)
    )
    assert np.linalg.norm(apart.toarray(), axis=1).max() <= chain_reach(one)
