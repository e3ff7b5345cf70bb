"""Intervals of densities: against Hessians by finite differences, refits, and formulas of GLMs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import maxent as mx
from maxent import MaxentDensity, Tsallis
from maxent.density import Recipe
from maxent.features import bind


def records(seed: int = 0, n: int = 60, cells: int = 400):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (cells, 2))
    weight = np.exp(1.5 * X[:, 0] - 2 * X[:, 1] ** 2)
    return X, rng.multinomial(n, weight / weight.sum())


def exponent(F, w, output):
    """log q, or eta = log q + H(q), over the cells."""
    theta = F @ w
    log_q = theta - np.logaddexp.reduce(theta)
    return log_q if output == "log" else log_q - np.exp(log_q) @ log_q


def slope(function, w, step=1e-5):
    """The Jacobian of a function of the weights, by differences."""
    moved = [(function(w + e) - function(w - e)) / (2 * step) for e in step * np.eye(len(w))]
    return np.array(moved).T


@pytest.mark.parametrize("potential", ["box", "quadratic", "elastic", "equality"])
@pytest.mark.parametrize("output", ["log", "cloglog"])
def test_laplace_is_the_delta_method_with_a_hessian_by_differences(potential, output):
    X, y = records()
    model = MaxentDensity("lq", potential, intervals="laplace", multiplier=0.5, tol=1e-12)
    density = model.fit(X, y).density_
    F = bind(density.operators, density.schema.read(X)).columns()
    w, n = density.weights, y.sum()

    def loss(w):
        theta = F @ w
        return n * (np.logaddexp.reduce(theta) - (y / n) @ theta)

    hessian = slope(lambda w: slope(loss, w, 1e-4), w, 1e-4)
    c = 0.5
    beta = density.beta / c
    l1 = {"box": c * beta, "elastic": c * beta / 2}.get(potential, 0 * beta)
    l2 = {"quadratic": c * beta**2, "elastic": c * beta**2 / 2}.get(potential, 0 * beta)
    covariance = np.linalg.inv(hessian + np.diag(n * l2 + (n * l1) ** 2 / 2))
    g = slope(lambda w: exponent(F, w, output), w)
    reach = norm.ppf(0.975) * np.sqrt(np.einsum("ij,jk,ik->i", g, covariance, g))
    value = exponent(F, w, output)
    low, high = density.intervals(X, 0.95, output)
    expected = [value - reach, value + reach]
    if output == "cloglog":
        expected = [1 - np.exp(-np.exp(x)) for x in expected]
    np.testing.assert_allclose([low, high], expected, rtol=2e-4, atol=1e-5)


def test_without_penalty_the_deviation_is_that_of_a_poisson_regression():
    X, y = records(1, n=300)
    density = MaxentDensity("l", "equality", intervals="laplace").fit(X, y).density_
    # a Poisson regression with an intercept, by Newton's method: the same slopes and deviations
    A = np.column_stack([np.ones(len(X)), X])
    w = np.zeros(3)
    for _ in range(50):
        mean = np.exp(A @ w)
        w += np.linalg.solve((A.T * mean) @ A, A.T @ (y - mean))
    covariance = np.linalg.inv((A.T * np.exp(A @ w)) @ A)
    low, high = density.intervals(X, 0.9, "log")
    theta = X @ w[1:]
    np.testing.assert_allclose((low + high) / 2, theta - np.logaddexp.reduce(theta), atol=1e-5)
    g = X - (np.exp(theta) / np.exp(theta).sum()) @ X
    sd = np.sqrt(np.einsum("ij,jk,ik->i", g, covariance[1:, 1:], g))
    np.testing.assert_allclose(high - low, 2 * norm.ppf(0.95) * sd, rtol=1e-5)


def test_effort_in_the_fit_is_not_in_what_intervals_are_of():
    X, y = records(2)
    effort = np.exp(X[:, 1])
    task = Recipe("lq").task(X, y, prior=effort)
    density = task.with_laplace(task.fit().density)
    F = bind(density.operators, density.schema.read(X)).columns()
    g = slope(lambda w: exponent(F, w, "cloglog"), density.weights)
    theta = F @ density.weights
    q = effort * np.exp(theta)
    q /= q.sum()
    centred = F - q @ F
    n = y.sum()
    precision = n * (centred.T * q) @ centred + np.diag((n * density.beta) ** 2 / 2)
    sd = np.sqrt(np.einsum("ij,jk,ik->i", g, np.linalg.inv(precision), g))
    found = density.uncertainty.deviation(density, density.schema.read(X), "cloglog")
    np.testing.assert_allclose(found, sd, rtol=1e-5)


def test_outputs_are_monotone_and_hold_the_fit():
    X, y = records(3)
    for method in ("laplace", "bootstrap"):
        density = MaxentDensity(intervals=method).fit(X, y).density_
        narrow, wide = (density.intervals(X, level, "cloglog") for level in (0.5, 0.99))
        assert (wide.lower <= narrow.lower).all()
        assert (narrow.upper <= wide.upper).all()
        for output in ("raw", "log", "cloglog", "logistic"):
            low, high = density.intervals(X, 0.99, output)
            inside = (low <= density.predict(X, output)) & (density.predict(X, output) <= high)
            assert inside.all()
        raw, log = (density.intervals(X, 0.9, output) for output in ("raw", "log"))
        np.testing.assert_allclose(np.log(raw), log, rtol=1e-12)


def test_rows_with_missing_values_and_saved_models(tmp_path):
    X, y = records(4)
    for method in ("laplace", "bootstrap"):
        density = MaxentDensity("lqh", intervals=method).fit(X, y).density_
        mx.save(density, tmp_path / "density.json")
        again = mx.load(tmp_path / "density.json")
        some = X[:5].copy()
        some[2, 1] = np.nan
        with pytest.raises(ValueError, match=r"missing|NaN|nan"):
            again.intervals(some)
        found = again.intervals(some, missing="drop")
        assert np.isnan([found.lower[2], found.upper[2]]).all()
        kept = [0, 1, 3, 4]
        np.testing.assert_array_equal(found.upper[kept], density.intervals(X[kept]).upper)


def test_the_bootstrap_is_refits_and_the_same_for_any_number_of_threads():
    X, y = records(5)
    task = Recipe("lq").task(X, y)
    fit = task.fit()
    blocks = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)
    for drawn in (None, blocks):
        one, two = (
            task.with_refits(fit.density, fit.w, n=8, blocks=drawn, seed=3, n_jobs=jobs)
            for jobs in (1, 2)
        )
        np.testing.assert_array_equal(one.uncertainty.weights, two.uncertainty.weights)
        assert one.uncertainty.blocks == (0 if drawn is None else 4)
    counts = task.resampled(8, 3)
    exact = [task.with_counts(c).fit().density.predict(X, "cloglog") for c in counts]
    found = task.with_refits(fit.density, fit.w, n=8, seed=3)
    cells = found.schema.read(X)
    refits = found.uncertainty.logs(found, cells, "cloglog", True)
    np.testing.assert_allclose(1 - np.exp(-np.exp(refits.T)), exact, atol=0.01)  # gaps of 1e-5
    low, high = (np.log(-np.log1p(-end)) for end in found.intervals(X, 0.5, "cloglog"))
    fitted = np.log(-np.log1p(-found.predict(X, "cloglog")))
    np.testing.assert_allclose((low + high) / 2, fitted, atol=1e-8)
    np.testing.assert_allclose(high - low, 2 * norm.ppf(0.75) * refits.std(axis=1, ddof=1))
    drawn = found.uncertainty.exponents(found, cells, 8, 0, True)
    np.testing.assert_allclose(drawn.mean(axis=1), fitted, atol=1e-8)
    np.testing.assert_allclose(drawn.std(axis=1), refits.std(axis=1))


def test_maps_drawn_by_laplace_have_its_deviation():
    X, y = records(6, n=200)
    density = MaxentDensity("lq", intervals="laplace").fit(X, y).density_
    cells = density.schema.read(X)
    exponents = density.uncertainty.exponents(density, cells, 4000, 0, True)
    expected = density.uncertainty.deviation(density, cells, "cloglog")
    np.testing.assert_allclose(exponents.std(axis=1), expected, rtol=0.06)


def test_what_cannot_be_had_is_refused():
    X, y = records(7)
    plain = MaxentDensity("l").fit(X, y).density_
    with pytest.raises(ValueError, match=r'fitted without intervals.*intervals="laplace"'):
        plain.intervals(X)
    with pytest.raises(ValueError, match="intervals must be one of none, laplace, bootstrap"):
        MaxentDensity("l", intervals="wald").fit(X, y)
    for method in ("laplace", "bootstrap"):
        with pytest.raises(ValueError, match="Shannon"):
            MaxentDensity("l", entropy=Tsallis(1.5), intervals=method).fit(X, y)
    with pytest.raises(ValueError, match=r"sum of .* over the features"):
        MaxentDensity("l", "ball", intervals="laplace").fit(X, y)
    density = MaxentDensity("l", intervals="laplace").fit(X, y).density_
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        density.intervals(X, 90)
    with pytest.raises(ValueError, match="intervals are known of raw, log, cloglog, logistic"):
        density.intervals(X, output="cumulative")
    task = Recipe("l").task(X, y)
    unknown = replace(plain, beta=plain.beta * np.nan)
    with pytest.raises(ValueError, match="mean of densities"):
        task.with_laplace(unknown)
    with pytest.raises(ValueError, match="2 refits or more"):
        task.with_refits(plain, n=1)
    with pytest.raises(ValueError, match="one block"):
        task.with_refits(plain, n=5, blocks=np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"shape \(400,\)"):
        task.with_refits(plain, n=5, blocks=np.zeros(3))
