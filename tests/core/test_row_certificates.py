"""The certificate with a factor for each sequence: l1 penalties over many rare attributes."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent.core.nearby import mixed_with_a_vertex, within_limits
from maxent.core.problem import State
from maxent.core.row_factors import largest, shrunk
from maxent.core.tilt import curvature_sizes, tilted
from maxent.rows.arrays import row_dot, take_row
from maxent.tagging import PairChainMap

K = 3


def _words(count=60, seed=0):
    """Sequences of words by Zipf's law, most of them rare."""
    rng = np.random.default_rng(seed)
    words = [np.minimum(rng.zipf(1.3, rng.integers(3, 9)), 200) for _ in range(count)]
    labels = [np.where(rng.random(x.size) < 0.85, x % K, rng.integers(0, K, x.size)) for x in words]
    return words, labels


def _field(pairs, potential):
    words, labels = _words()
    X = [np.eye(201)[x] for x in words]
    lengths = np.array([len(x) for x in X])
    features = mx.ChainMap(X, K)
    if pairs:
        features = PairChainMap.seen(np.concatenate(X), lengths, K, np.concatenate(labels))
    chain = mx.Chain(K)
    observed = chain.encode(labels, tied=True)
    weights = np.linspace(0.5, 1.5, len(X)) / len(X)
    shannon = mx.Shannon(domain=chain)
    return mx.Problem(shannon, features, potential, observed=observed, weights=weights)


@pytest.mark.parametrize("pairs", [True, False], ids=["seen pairs", "all pairs"])
def test_a_factor_per_sequence_is_a_tighter_bound(pairs):
    problem = _field(pairs, mx.Box(0.005))
    best = problem.run(mx.OWLQN(tol=1e-7)).objective
    ratios = []
    for steps in (10, 20, 40):
        state = problem.state(problem.run(mx.OWLQN(tol=0.0, max_iter=steps)).w)
        assert state.dual - best <= state.row_gap + 1e-7
        ratios.append(state.row_gap / state.gap)
    assert min(ratios) < 0.2
    assert max(ratios) <= 1


@pytest.mark.parametrize("pairs", [True, False], ids=["seen pairs", "all pairs"])
def test_tilted_predictions_are_as_tight_as_the_optimum_is_near(pairs):
    """Second order in what is missed, where factors of rows are of first order."""
    problem = _field(pairs, mx.Box(0.005))
    best = problem.run(mx.OWLQN(tol=1e-7)).objective
    for steps in (20, 60):
        state = problem.state(problem.run(mx.OWLQN(tol=0.0, max_iter=steps)).w)
        assert state.dual - best <= state.tilted_gap(12) + 1e-7
    assert state.tilted_gap(60) < 1.1 * (state.dual - best) + 1e-7 < 0.01 * state.row_gap


@pytest.mark.parametrize("pairs", [True, False], ids=["seen pairs", "all pairs"])
def test_predictions_nearby_are_tight_long_before_the_optimum(pairs):
    problem = _field(pairs, mx.Box(0.005))
    best = problem.run(mx.OWLQN(tol=1e-7)).objective
    ratios = []
    for steps in (5, 10, 20, 40):
        state = problem.state(problem.run(mx.OWLQN(tol=0.0, max_iter=steps)).w)
        gaps = [state.nearby_gap(most) for most in (1, 10, 40)]
        assert state.dual - best <= min(gaps) + 1e-7
        ratios.append(min(gaps) / state.row_gap)
    assert max(ratios) < 0.8
    assert min(ratios) < 0.35


def test_what_predictions_nearby_say_is_a_gap():
    """The same number from the distributions themselves, written out path by path."""
    problem = _field(True, mx.Box(0.02))
    state = problem.state(problem.run(mx.OWLQN(tol=0.0, max_iter=12)).w)
    limit = np.full(state.w.size, 0.02)
    near = within_limits(state, limit, curvature_sizes(state), 200)
    assert (np.abs(near.gradient) <= limit).all()  # so that no row needs a factor
    assert not np.array_equal(near.w, state.w)
    p = near.p
    cost = problem.total(row_dot(near.theta - state.theta, p) - near.conjugate + state.conjugate)
    by_hand = cost + 0.02 * np.abs(state.w).sum() + near.gradient @ state.w
    np.testing.assert_allclose(state.nearby_gap(200), by_hand, rtol=1e-9)
    primal = problem.total(row_dot(near.theta, p) - near.conjugate)  # Omega(p) of a Gibbs p
    np.testing.assert_allclose(by_hand, primal + state.dual, rtol=1e-9)


def test_mixtures_with_the_observed_rows_are_exact():
    rng = np.random.default_rng(0)
    for s in (0.0, 1e-9, 0.3, 0.999, 1.0):
        p = rng.dirichlet(np.ones(6), 20)
        q = s * p + (1 - s) * np.eye(6)[0]
        exact = special.rel_entr(q, p).sum(axis=1)
        loss = -np.log(p[:, 0])
        found = mixed_with_a_vertex(np.full(20, s), loss)
        np.testing.assert_allclose(found, exact, atol=1e-14)
        assert (found <= (1 - s) * loss + 1e-15).all()
    assert mixed_with_a_vertex(np.array([0.0, 1.0]), np.array([800.0, 800.0])).tolist() == [800, 0]


def test_lower_bounds_are_kept(monkeypatch):
    """A gap bounds the minimum from below, and after a dear one no later one says less."""
    bounds, tightened = [], State.tightened

    def watched(state, *settings):
        found = tightened(state, *settings)
        bounds.append(found.dual - found.gap)
        return found

    monkeypatch.setattr(State, "tightened", watched)
    problem = _field(True, mx.Box(0.005))
    solution = problem.run(mx.OWLQN(tol=0.0, max_iter=100))
    below = [record["objective"] - record["gap"] for record in solution.history]
    first = next(i for i, bound in enumerate(below) if bound in bounds)
    assert min(below[first:]) >= bounds[0] - 1e-9  # rounding upwards is all that may be lost
    assert below[-1] >= max(bounds) - 1e-9
    assert problem.run(mx.OWLQN(tol=1e-7)).objective >= max(bounds) - 1e-7
    plain = problem.state(solution.w)
    assert solution.gap < 0.2 * plain.gap


def test_dear_gaps_wait_until_the_objective_has_settled(monkeypatch):
    looked = []
    tightened = State.tightened

    def watched(state, *settings):
        looked.append(state.dual)
        return tightened(state, *settings)

    monkeypatch.setattr(State, "tightened", watched)
    problem = _field(True, mx.Box(0.005))
    tol = 1e-5
    solution = problem.run(mx.OWLQN(tol=tol))
    objectives = [record["objective"] for record in solution.history]
    where = [objectives.index(dual) for dual in looked]
    assert where[0] >= 32
    assert all(objectives[k - 8] - objectives[k] <= tol for k in where[:-1])
    assert all(later >= 2 * earlier for earlier, later in pairwise(where[:-1]))


def test_tilted_rows_have_the_moments_and_the_cost_they_say():
    problem = _field(False, mx.Box(0.005))
    state = problem.state(problem.run(mx.OWLQN(tol=0.0, max_iter=40)).w)
    q = tilted(state, *problem.potential.elastic(state.w.size), 12)
    assert problem.entropy.domain.contains(q.p).all()
    np.testing.assert_allclose(problem.moments(q.p) - problem.target, q.residual, atol=1e-12)
    for i in range(3):
        row, theta = take_row(q.p, i), take_row(state.theta, i)
        exact = problem.entropy.value(row) + state.conjugate[i] - row_dot(theta, row)
        assert -1e-8 <= exact[0] <= q.cost[i] + 1e-8


def test_moments_of_single_sequences_add_up():
    for pairs in (True, False):
        problem = _field(pairs, mx.Box(0.005))
        p = problem.state(np.linspace(-1, 1, problem.features.n_features)).p
        index = np.arange(0, problem.features.n_features, 3)
        rows = problem.features.row_moments(p, index)
        np.testing.assert_allclose(
            rows.sum(axis=0), problem.features.moments(p)[index], rtol=0, atol=1e-12
        )
        one = problem.features.take(np.array([4])).moments(
            mx.Chain(K).encode([np.zeros(problem.features.lengths[4], int)], tied=True)
        )
        zeros = [np.zeros(n, int) for n in problem.features.lengths]
        all_zeros = problem.features.row_moments(mx.Chain(K).encode(zeros, tied=True), index)
        np.testing.assert_allclose(all_zeros.toarray()[4], one[index], rtol=0, atol=1e-12)


def test_solvers_stop_on_it():
    problem = _field(True, mx.Box(0.005))
    ahead = problem.run(mx.OWLQN(tol=0.0, max_iter=32))
    tol = 1.1 * ahead.gap
    seen = []
    solution = mx.OWLQN(tol=tol).solve(problem, callback=lambda k, state: seen.append(state.gap))
    assert solution.status is mx.Status.CONVERGED
    assert solution.n_iter == 32
    assert solution.gap == solution.history[-1]["gap"] == ahead.gap
    assert min(seen) > 2 * tol  # one factor for all sequences is not there yet
    best = problem.run(mx.OWLQN(tol=1e-7)).objective
    assert solution.objective - best <= solution.gap


def test_it_is_for_l1_and_for_maps_that_know_their_rows():
    ball = _field(True, mx.Ball(0.1))
    assert np.isinf(ball.state(np.zeros(ball.features.n_features)).row_gap)
    samples = mx.Problem(
        mx.Shannon(), mx.SampleMap(np.eye(4), 2), mx.Box(0.1), observed=np.array([0, 1, 0, 1])
    )
    assert np.isinf(samples.state(np.ones(8)).row_gap)


def test_without_limits_no_marginal_is_written_out():
    problem = _field(True, mx.Quadratic(0.1))
    state = problem.state(problem.run(mx.LBFGS(tol=0.0, max_iter=3)).w)
    tightened = state.tightened()
    assert tightened.gap == state.gap
    assert "image" not in vars(state) | vars(tightened)


def test_factors_of_rows():
    """Rows 0 and 1 push the first feature beyond 1, row 2 has no part in it."""
    from scipy import sparse

    R = sparse.csr_array([[1.0, 0.0], [1.0, -0.5], [0.0, 1.0], [-0.5, 0.0]])
    limit = np.array([1.0, 1.0])
    s = shrunk(R, limit, np.ones(4))
    np.testing.assert_allclose(s, [0.75, 0.75, 1.0, 1.0], atol=1e-11)
    best = largest(R, limit, np.array([1.0, 2.0, 1.0, 1.0]))
    np.testing.assert_allclose(best, [0.5, 1.0, 1.0, 1.0], atol=1e-6)
    assert (np.abs(R.T @ best) <= limit).all()
