"""Models without a penalty whose optimum is at infinity say so."""

import warnings

import numpy as np
import pytest

import maxent as mx
from maxent.core.solvers.recession import recession_direction, unseen_direction
from maxent.core.tilt import equal_gap

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
    rng, bounds, excess = np.random.default_rng(1), [], []
    for size in (1.0, 1e-1, 1e-2, 1e-3, 1e-4):
        step = size * rng.normal(size=best.w.size) / 10
        state = problem.state(best.w + step)
        bounds.append(equal_gap(state, 50))
        excess.append(state.dual - best.objective)
        assert excess[-1] <= bounds[-1] * (1 + 1e-6) + 1e-15
    assert np.isfinite(bounds[1:]).all()
    assert bounds[-1] <= 1.02 * excess[-1]  # half the squared Newton decrement, nearly exact
    assert np.isinf(equal_gap(problem.state(best.w + 100 * step / size), 50))


def test_the_bound_on_the_way_to_infinity():
    """None is given while the loss falls, and none below what rounding hides at the end."""
    X, y = _overlapping(count=12)
    problem = _problem(X, y)
    direction = recession_direction(problem)
    assert direction is not None
    for tol in (1e-2, 1e-4, 1e-6, 1e-9, 1e-12):
        state = problem.state(problem.run(mx.LBFGS(tol=tol)).w)
        far = problem.run(mx.LBFGS(tol=1e-13), w0=state.w + 100 * direction)
        rounding = 1e-14 * (1 + abs(state.dual))  # of the difference
        assert state.dual - far.objective <= equal_gap(state, 50) + rounding


@pytest.mark.parametrize("count", [30, 100])
def test_unseen_features_are_a_direction(count):
    """A label that no sequence with the second feature has."""
    rng = np.random.default_rng(count)
    X = [np.column_stack([np.ones(3), rng.random(3) < 0.3]) for _ in range(count)]
    y = [np.where(x[:, 1] > 0, 1, rng.integers(0, 3, 3)) for x in X]
    problem = _problem(X, y, states=3)
    w = unseen_direction(problem)
    assert w is not None
    np.testing.assert_array_equal(np.flatnonzero(w), np.flatnonzero(problem.target == 0))
    values = [problem.dual(c * w) for c in (0.0, 1.0, 10.0, 100.0)]
    assert (np.diff(values) < 0).all()
    signs = _problem([np.array([[1.0, 0], [-1.0, 0]])] * 4, [[0, 0], [1, 1], [0, 1], [1, 0]])
    signs.target[1] = 1.0  # of the first label alone: a mean of 0 of a feature that occurs
    assert signs.target[0] == 0
    assert unseen_direction(signs) is None


def test_large_problems_with_unseen_features_are_told_and_have_a_gap(monkeypatch):
    monkeypatch.setattr("maxent.learn.structured.chain_rows._FEW", 0)
    rng = np.random.default_rng(0)
    X = [np.column_stack([np.ones(3), rng.random(3) < 0.3]) for _ in range(30)]
    y = [np.where(x[:, 1] > 0, 1, rng.integers(0, 3, 3)) for x in X]
    with pytest.warns(mx.SeparableWarning, match=r"\d of 15 weights are of attributes"):
        model = mx.CRF(tol=1e-2).fit(X, y)
    with pytest.warns(mx.SeparableWarning):
        later = mx.CRF(tol=1e-6).fit(X, y)
    assert model.loss_ - later.loss_ <= model.gap_ <= model.loss_


def test_separable_labels_have_their_loss_for_a_gap():
    with pytest.warns(mx.SeparableWarning, match="the training labels are separable"):
        model = mx.CRF().fit([[["a"]], [["b"]], [["a"], ["b"]]], [[0], [1], [0, 1]])
    assert model.gap_ == pytest.approx(model.loss_)


def test_a_field_without_a_penalty_has_a_gap():
    X, y = _overlapping()
    model = mx.CRF(tol=1e-6).fit(X, y)
    best = mx.CRF(tol=1e-12).fit(X, y)
    assert model.loss_ - best.loss_ <= model.gap_ < 1e-6
