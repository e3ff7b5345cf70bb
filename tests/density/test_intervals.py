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


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    truth = np.array([1.5, 0.0, 0.0, -2.0])  # of both variables and their squares
    held, samples = [], 60
    for seed in range(samples):
        X, y = records(seed, n=200)
        theta = np.column_stack([X, X**2]) @ truth
        log_pi = theta - np.logaddexp.reduce(theta)
        density = MaxentDensity("lq", intervals="laplace").fit(X, y).density_
        ends = [density.intervals(X, level, "log") for level in (0.5, 0.9)]
        held.append([((low <= log_pi) & (log_pi <= high)).mean() for low, high in ends])
    half, most = np.mean(held, axis=0)
    # cells of a sample come and go together: the deviation of these means is about 0.03 and 0.02
    assert 0.38 < half < 0.62
    assert 0.82 < most < 0.96


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


# -- several kinds of records ----------------------------------------------------------------------


def sources(seed: int = 0, weight: float = 1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (700, 2))
    rate = np.exp(0.3 + X[:, 0] - X[:, 1] ** 2)
    return X, [
        mx.Source("presences", X[:300], rng.poisson(0.4 * rate[:300]), weight=weight),
        mx.Source(
            "survey", X[300:500], rng.random(200) < -np.expm1(-0.7 * rate[300:500]), area=0.7
        ),
        mx.Source("counts", X[500:], rng.poisson(2 * rate[500:]), area=2.0),
    ]


def log_likelihood(given, F, w, scale):
    """Of all sources, written out; the squares of weights where they are asked for."""
    total, start = [], 0
    for source in given:
        theta = F[start : start + source.n_rows] @ w
        start += source.n_rows
        if source.kind == "presences":
            total.append(source.y @ theta - source.y.sum() * np.logaddexp.reduce(theta))
            continue
        mean = source.area * np.exp(theta + scale)
        if source.kind == "counts":
            total.append((source.y * np.log(mean) - mean).sum())
        else:
            total.append(np.where(source.y > 0, np.log(-np.expm1(-mean)), -mean).sum())
    return np.array(total)


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_laplace_of_an_intensity_is_that_of_its_likelihood(weight):
    X, given = sources(weight=weight)
    model = mx.IntegratedDensity("lq", intervals="laplace", tol=1e-12).fit(given)
    density, b = model.density_, model.log_scale_
    F = bind(density.operators, density.schema.read(X)).columns()
    at = np.append(density.weights, b)
    v = np.array([source.weight for source in given])

    def hessian(times):
        def loss(x):
            return -times @ log_likelihood(given, F, x[:-1], x[-1])

        return slope(lambda x: slope(loss, x, 1e-4), at, 1e-4)

    m = sum(source.n_records for source in given)
    prior = np.diag(np.append((m * density.beta) ** 2 / 2, 1e-6 * m))
    K = np.linalg.inv(hessian(v) + prior)
    covariance = K @ (hessian(v**2) + prior) @ K
    g = np.column_stack([F, np.ones(len(X))])
    sd = np.sqrt(np.einsum("ij,jk,ik->i", g, covariance, g))
    X, sd = X[:300], sd[:300]  # the others are held in the ranges of the presences' rows
    low, high = model.intensity_.intervals(X, 0.9)
    np.testing.assert_allclose(np.log(high / low), 2 * norm.ppf(0.95) * sd, rtol=1e-3)
    np.testing.assert_allclose(np.sqrt(low * high), model.predict(X), rtol=1e-9)
    found = model.intensity_.intervals(X, 0.9, "probability", area=0.7)
    np.testing.assert_allclose(found, -np.expm1(-0.7 * np.array([low, high])), rtol=1e-9)
    counts = model.intensity_.intervals(X, 0.9, "count", area=3.0)
    np.testing.assert_allclose(counts, 3 * np.array([low, high]), rtol=1e-9)


def test_the_sum_of_an_intensity_has_the_deviation_of_its_log():
    X, given = sources(2)
    task = mx.IntegratedDensity("lq", tol=1e-10).task(given)
    solution = task.solve()
    intensity = task.intensity(solution)
    X = X[:300]
    size = np.linspace(0.5, 2, len(X))

    def deviation(fit):
        density, known = fit.density, fit.density.uncertainty
        cells = density.schema.read(X)
        halves = [np.arange(150), np.arange(150, 300)]
        parts = [
            known.sums(density, cells.take(half), size[half], fit.log_scale, True)
            for half in halves
        ]
        return known.deviation_of_sum(sum(parts))

    laplace = task.with_laplace(intensity, solution.w)
    density, known = laplace.density, laplace.density.uncertainty
    F = bind(density.operators, density.schema.read(X)).columns()

    def log_sum(at):
        return np.array([np.log(size @ np.exp(F @ at[:-1] + at[-1]))])

    g = slope(log_sum, np.append(density.weights, laplace.log_scale))[0]
    whole = np.block([[known.covariance, known.scale[:-1, None]], [known.scale]])
    assert deviation(laplace) == pytest.approx(np.sqrt(g @ whole @ g), rel=1e-6)
    refits = task.with_refits(intensity, solution.w, n=40, seed=4)
    assert deviation(refits) == pytest.approx(deviation(laplace), rel=0.35)


def test_presences_alone_have_the_intervals_of_their_density():
    X, y = records(8)
    model = mx.IntegratedDensity("lq", intervals="laplace").fit([mx.Source("presences", X, y)])
    alone = MaxentDensity("lq", intervals="laplace").fit(X, y).density_
    for output in ("raw", "cloglog"):
        expected = alone.intervals(X, 0.9, output)
        found = model.intensity_.intervals(X, 0.9, output)
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    np.testing.assert_array_equal(
        model.intensity_.intervals(X), model.intensity_.intervals(X, output="raw")
    )


def test_refits_of_several_sources(tmp_path):
    X, given = sources(1)
    task = mx.IntegratedDensity("lq", tol=1e-9).task(given)
    solution = task.solve()
    intensity = task.intensity(solution)
    blocks = [(s.X[:, 0] > 0) + 2 * (s.X[:, 1] > 0) for s in given]
    for drawn in (None, blocks):
        one, two = (
            task.with_refits(intensity, solution.w, n=16, seed=2, blocks=drawn, n_jobs=jobs)
            for jobs in (1, 2)
        )
        first, second = one.density.uncertainty, two.density.uncertainty
        np.testing.assert_array_equal(first.weights, second.weights)
        np.testing.assert_array_equal(first.log_scale, second.log_scale)
        assert first.blocks == (0 if drawn is None else 4)
    laplace = task.with_laplace(intensity, solution.w)
    one = task.with_refits(intensity, solution.w, n=100, seed=3)
    wide, expected = (np.diff(np.log(fit.intervals(X)), axis=0)[0] for fit in (one, laplace))
    assert 0.8 < np.median(wide / expected) < 1.3
    mx.save(one, tmp_path / "intensity.json")
    again = mx.load(tmp_path / "intensity.json")
    np.testing.assert_array_equal(again.intervals(X), one.intervals(X))


def test_several_visits_are_drawn_as_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 1))
    visits = rng.integers(1, 4, 150)
    found = rng.binomial(visits, -np.expm1(-np.exp(X[:, 0])))
    survey = mx.Source("survey", X, found, visits=visits)
    task = mx.IntegratedDensity("l").task([survey])
    rows = np.sort(rng.integers(150, size=150))
    drawn = task._of_rows([(survey.take(rows), rows)])
    plain = mx.IntegratedDensity("l").task([survey.take(rows)])
    np.testing.assert_array_equal(drawn.points.cells.values, plain.points.cells.values)
    np.testing.assert_array_equal(drawn.points.counts, plain.points.counts)
