"""Many densities over the same cells: the map, the solver, and their certificate."""

from __future__ import annotations

import numpy as np
import pytest

import maxent as mx
from maxent.core.maps import JointMap
from tools import needs

CELLS, FEATURES, ROWS = 40, 6, 5
_RNG = np.random.default_rng(5)
X = _RNG.standard_normal((CELLS, FEATURES))
COUNTS = _RNG.multinomial(30, np.full(CELLS, 1 / CELLS), size=ROWS)
WEIGHTS = np.array([1.0, 2.0, 3.0, 0.5, 3.5]) / 10
ROOT = _RNG.standard_normal((ROWS, ROWS))
ALIKE = 0.5 * np.eye(ROWS) + 0.1 * ROOT @ ROOT.T
BASE = _RNG.random(CELLS) + 0.1


def problem(potential, dtype=np.float64, entropy=None, exact=False):
    features = JointMap(X.astype(dtype), ROWS, exact)
    observed = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    entropy = mx.Shannon() if entropy is None else entropy
    return mx.Problem(entropy, features, potential, observed=observed, weights=WEIGHTS)


@pytest.mark.parametrize("entropy", [mx.Shannon(), mx.Relative(mx.Shannon(), BASE)])
def test_the_sums_of_a_joint_map_are_those_of_its_scores(entropy):
    posed = problem(mx.Quadratic(0.1), entropy=entropy)
    w = _RNG.standard_normal(FEATURES * ROWS)
    theta = posed.features.scores(w)
    assert np.allclose(theta, (X @ w.reshape(FEATURES, ROWS)).T)
    values, p = entropy.conjugate(theta)
    sums = posed.features.conjugate_and_moments(entropy, w, WEIGHTS)
    assert sums is not None
    assert np.allclose(sums[0], values, rtol=1e-13)
    assert np.allclose(sums[1], posed.features.moments(WEIGHTS[:, None] * p), rtol=1e-12)
    # and the moments are the adjoint of the scores
    q = _RNG.random((ROWS, CELLS))
    assert np.vdot(q, theta) == pytest.approx(float(posed.features.moments(q) @ w), rel=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch):
    from maxent.core import maps

    w = _RNG.standard_normal(FEATURES * ROWS)
    whole = problem(mx.Quadratic(0.1)).state(w)
    monkeypatch.setattr(maps, "_JOINT_ENTRIES", 2 * CELLS)
    parts = problem(mx.Quadratic(0.1)).state(w)
    assert parts.dual == pytest.approx(whole.dual, rel=1e-14)
    assert np.allclose(parts.gradient, whole.gradient, rtol=1e-12, atol=1e-15)


def test_other_entropies_have_no_short_way_but_the_same_problem():
    tsallis = problem(mx.Coupled(ALIKE, mx.Quadratic(0.1)), entropy=mx.Tsallis(1.5))
    assert mx.JointNewton.missing(tsallis) is not None
    assert tsallis.solve("lbfgs", tol=1e-8, verbose=0).gap <= 1e-8


POTENTIALS = {
    "coupled": mx.Coupled(ALIKE, mx.Quadratic(0.05)),
    "spiked": mx.Coupled(mx.Spiked.from_factor(0.5, ROOT[:2]), mx.Quadratic(0.05)),
    "identity": mx.Coupled(np.eye(ROWS), mx.Quadratic(0.05)),
    "quadratic": mx.Quadratic(0.05),
}


@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("entropy", [mx.Shannon(), mx.Relative(mx.Shannon(), BASE)], ids=repr)
def test_newton_agrees_with_lbfgs_and_both_are_certified(name, entropy):
    posed = problem(POTENTIALS[name], entropy=entropy)
    newton = posed.solve(tol=1e-12, verbose=0)
    other = posed.solve("lbfgs", tol=1e-12, verbose=0)
    assert newton.gap <= 1e-12
    assert other.gap <= 1e-12
    assert np.allclose(newton.w, other.w, atol=1e-5)
    assert newton.n_iter < 12
    # the gap bounds what is left: a worse point is further above
    w = newton.w + 0.01
    assert posed.dual(w) - newton.objective <= posed.gap(w)


def test_the_solution_is_that_of_cvxpy():
    cp = needs("cvxpy")
    posed = problem(mx.Coupled(ALIKE, mx.Quadratic(0.05)))
    W = cp.Variable((FEATURES, ROWS))
    p = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    losses = [cp.log_sum_exp(X @ W[:, s]) - p[s] @ X @ W[:, s] for s in range(ROWS)]
    root = np.linalg.cholesky(np.linalg.inv(ALIKE))
    objective = sum(a * loss for a, loss in zip(WEIGHTS, losses, strict=True))
    program = cp.Problem(cp.Minimize(objective + 0.025 * cp.sum_squares(W @ root)))
    program.solve(solver="CLARABEL")
    mine = posed.solve(tol=1e-11, verbose=0)
    assert mine.objective == pytest.approx(program.value, abs=1e-7)
    assert np.allclose(mine.w.reshape(FEATURES, ROWS), W.value, atol=1e-3)


def test_a_nuclear_norm_is_solved_and_certified_too():
    posed = problem(mx.Spectral(ROWS, 0.1, 0.01))
    solution = posed.solve("fista", tol=1e-9, verbose=0)
    assert solution.gap <= 1e-9
    bare = problem(mx.Spectral(ROWS, 0.1))
    assert bare.solve("fista", tol=1e-6, verbose=0).gap <= 1e-6
    singular = np.linalg.svd(solution.w.reshape(FEATURES, ROWS), compute_uv=False)
    assert (singular < 1e-9).sum() > 0  # some directions are left out altogether


def test_float32_products_give_a_gap_that_holds_in_float64():
    posed = problem(mx.Coupled(ALIKE, mx.Quadratic(0.05)), np.float32)
    solution = posed.solve(tol=1e-9, verbose=0)
    exact = problem(mx.Coupled(ALIKE, mx.Quadratic(0.05)), np.float32, exact=True)
    assert exact.features.products == np.float64
    assert exact.gap(solution.w) < 2e-9
    best = exact.solve(tol=1e-13, verbose=0)
    assert exact.dual(solution.w) - best.objective <= exact.gap(solution.w) + 1e-15


def test_little_memory_samples_cells_and_ends_at_the_same_weights():
    posed = problem(mx.Coupled(ALIKE, mx.Quadratic(0.05)))
    little = mx.JointNewton(1e-10, memory=8 * ROWS * 25, verbose=0).solve(posed)
    assert np.allclose(little.w, posed.solve(tol=1e-10, verbose=0).w, atol=1e-4)


def test_a_row_without_weight_stays_at_its_base():
    weights = np.array([0.5, 0.0, 0.2, 0.2, 0.1])
    target = np.zeros((FEATURES, ROWS))
    target[:, weights > 0] = (X.T @ (COUNTS / 30).T * weights)[:, weights > 0]
    posed = mx.Problem(
        mx.Shannon(),
        JointMap(X, ROWS),
        mx.Coupled(np.eye(ROWS), mx.Quadratic(0.05)),
        target=target.ravel(),
        weights=weights,
    )
    w = posed.solve(tol=1e-10, verbose=0).w.reshape(FEATURES, ROWS)
    assert np.abs(w[:, 1]).max() < 1e-12
    assert np.abs(w[:, 0]).max() > 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JointMap(X, 0), "n_rows must be an integer >= 1"),
        (lambda: JointMap(X[:0], 2), "non-empty matrix"),
        (lambda: mx.JointNewton(accuracy=1.0), "accuracy must lie between 0 and 1"),
        (lambda: mx.JointNewton(cg_iter=0), "cg_iter"),
        (lambda: mx.JointNewton(memory=0), "memory"),
        (
            lambda: problem(mx.Box(0.1)).solve(mx.JointNewton()),
            "Coupled with a scalar Quadratic, not Box",
        ),
        (
            lambda: mx.Problem(mx.Shannon(), X, mx.Quadratic(1.0), observed=np.ones(40) / 40).solve(
                "joint-newton"
            ),
            "rows of a JointMap",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
