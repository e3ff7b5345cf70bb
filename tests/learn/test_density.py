"""MaxentDensity: exactness, presets, outputs, weights and priors, odd input, saving."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxent as mx
from maxent.core import bounds
from maxent.features import Categorical, Hinge, Interaction, Linear, Square, Threshold
from tools import needs


def density(*args, **settings):
    return mx.MaxentDensity(*args, **{"verbose": 0, **settings})


def small(n=120, seed=0):
    """Cells with ties, and counts that lean to one side."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(size=n), rng.integers(0, 6, n), rng.uniform(-1, 2, n).round(1)]
    ).astype(float)
    y = rng.poisson(0.25 * np.exp(0.8 * X[:, 0] - 0.5 * X[:, 2] ** 2))
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = small()
    return density("lqph", multiplier=0.5, tol=1e-10).fit(X, y), X, y


def weights_of(model, problem, operators):
    """The full weight vector, from the names of the features."""
    names = [name for o in operators for name in o.names()]
    assert len(set(names)) == len(names) == problem.features.n_features
    coef = model.coef_
    assert set(coef) <= set(names)
    return np.array([coef.get(name, 0.0) for name in names])


def exponent(model, X, y, **fit):
    """<w, f> at the cells of the fit, from names and columns alone."""
    posed = model.task(X, y, fit.get("sample_weight"), fit.get("prior")).posed
    w = weights_of(model, posed.problem, posed.operators)
    return posed.problem.features.columns() @ w


# -- exactness ---------------------------------------------------------------------------------


def by_hand(name, beta, w):
    """The penalty V*(-w), potential by potential."""
    if name == "box":
        return beta @ np.abs(w)
    if name == "quadratic":
        return beta**2 @ w**2 / 2
    if name == "elastic":
        return (beta / 2) @ np.abs(w) + (beta**2 / 2) @ w**2 / 2
    if name == "ball":
        return np.linalg.norm(beta) * np.linalg.norm(w)
    if name == "smooth-box":
        return (0.1 * beta) @ (np.logaddexp(w / 0.1, -w / 0.1) - np.log(2))
    s = np.sqrt(beta**2 * w**2 + 1)
    return np.sum(s - 1 - np.log((s + 1) / 2))


@pytest.mark.parametrize("name", ["box", "quadratic", "elastic", "ball", "smooth-box", "laplace"])
@pytest.mark.parametrize("multiplier", [1.0, 0.3])
def test_every_potential_is_solved_to_its_certificate(name, multiplier):
    X, y = small()
    model = density([Linear(), Square(), Hinge(4)], name, multiplier=multiplier, tol=1e-10)
    model.fit(X, y)
    assert 0 <= model.gap_ <= 1e-10
    assert model.gain_ > 0.05
    posed = model.task(X, y).posed
    F, mu, beta = posed.problem.features.columns(), posed.problem.target, posed.beta
    np.testing.assert_allclose(mu, y @ F / y.sum(), atol=1e-12)

    def objective(w):
        penalty = multiplier * by_hand(name, beta, w)
        return special.logsumexp(F @ w) - np.log(len(F)) - mu @ w + penalty

    w = weights_of(model, posed.problem, posed.operators)
    assert abs(objective(w) + model.gain_) < 1e-10
    if name in ("quadratic", "smooth-box", "laplace"):
        slope = {
            "quadratic": lambda w: beta**2 * w,
            "smooth-box": lambda w: beta * np.tanh(w / 0.1),
            "laplace": lambda w: beta**2 * w / (1 + np.sqrt(beta**2 * w**2 + 1)),
        }[name]

        def gradient(w):
            return special.softmax(F @ w) @ F - mu + multiplier * slope(w)

        start, options = np.zeros_like(w), {"gtol": 1e-9, "maxiter": 10_000}
        found = optimize.minimize(objective, start, jac=gradient, options=options)
        assert abs(found.fun + model.gain_) < 1e-8
        return
    cp = needs("cvxpy")
    v = cp.Variable(beta.size)
    penalty = {
        "box": lambda: beta @ cp.abs(v),
        "elastic": lambda: (beta / 2) @ cp.abs(v) + (beta**2 / 2) @ cp.square(v) / 2,
        "ball": lambda: np.linalg.norm(beta) * cp.norm(v, 2),
    }[name]()
    loss = cp.log_sum_exp(F @ v) - np.log(len(F)) - mu @ v + multiplier * penalty
    tight = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-9)
    cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL, **tight)
    assert abs(objective(v.value) + model.gain_) < 1e-8


def test_equality_matches_every_moment():
    X, y = small()
    model = density("lq", "equality").fit(X, y)
    posed = model.task(X, y).posed
    F = posed.problem.features.columns()
    np.testing.assert_allclose(model.predict(X) @ F, y @ F / y.sum(), atol=1e-6)
    assert model.gap_ == np.inf
    assert model.optimality_ <= model.tol


def test_potentials_of_the_user_are_taken_as_they_are():
    X, y = small()
    model = density("l", mx.Box(0.02), multiplier=2.0, tol=1e-10).fit(X, y)
    scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    problem = mx.Problem(mx.Shannon(), scaled, mx.Box(0.04), observed=y / y.sum())
    solution = problem.solve(tol=1e-11)
    np.testing.assert_allclose(model.predict(X), solution.p, atol=1e-6)
    assert abs(model.gain_ + solution.objective - np.log(len(X))) < 1e-9


@pytest.mark.parametrize("solver", ["summet", "plummet"])
def test_iterative_scaling_agrees(solver):
    X, y = small(60)
    best = density("l").fit(X, y).gain_
    other = density("l", solver=solver, tol=1e-5).fit(X, y)
    assert best > 0.02
    assert abs(other.gain_ - best) < 1e-4


def test_the_gap_bounds_the_distance_to_the_optimum():
    X, y = small()
    best = density("lqh", tol=1e-12, solver=mx.ProxNewton()).fit(X, y).predict(X)
    rough = density("lqh", tol=1e-2).fit(X, y)
    p = rough.predict(X)
    assert rough.gap_ > 1e-8
    divergence = special.rel_entr(best, p).sum()
    assert 0 < divergence <= rough.gap_ == rough.guarantees_["kl"]
    assert np.abs(best - p).sum() <= rough.guarantees_["l1"]


# -- presets -----------------------------------------------------------------------------------


def interpolate(m, knots, values):
    if m <= knots[0]:
        return values[0]
    for (a, va), (b, vb) in zip(
        list(zip(knots, values, strict=True))[:-1],
        list(zip(knots, values, strict=True))[1:],
        strict=True,
    ):
        if m <= b:
            return va + (vb - va) * (m - a) / (b - a)
    return values[-1]


def table_beta(kind, kinds, m):
    if kind in "lqp":
        if "p" in kinds:
            return interpolate(m, [0, 10, 17, 30, 100], [2.6, 1.6, 0.9, 0.55, 0.05])
        if "q" in kinds:
            return interpolate(m, [0, 10, 17, 30, 100], [1.3, 0.8, 0.5, 0.25, 0.05])
        return interpolate(m, [10, 30, 100], [1.0, 0.2, 0.05])
    if kind == "t":
        return interpolate(m, [0, 100], [2.0, 1.0])
    return 0.5 if kind == "h" else interpolate(m, [0, 10, 17], [0.65, 0.5, 0.25])


def slow_beta(preset, kind, kinds, values, m):
    """The rules of the two programs, for one feature with these values at the presences."""
    sd = np.std(values, ddof=1) if m > 1 else 0.0
    beta = table_beta(kind, kinds, m)
    if preset == "maxnet":
        found = max(0.001, beta * sd / np.sqrt(m))
        if kind == "h":
            found = max(found, 0.5 * max(sd, 1 / np.sqrt(m)) / np.sqrt(m))
        if kind == "t" and values.min() == values.max():
            found = max(found, 1.0)
        return found
    sd = 0.5 if m == 1 else min(sd, 0.5)
    if kind == "h":
        sd = max(sd, min(1 / np.sqrt(m), 0.5))
    if kind == "c" and values.min() == 1 and m > 1:
        return 1 / (2 * m)
    return max(0.001, beta * sd / np.sqrt(m))


@pytest.mark.parametrize("preset", ["maxent", "maxnet", None])
@pytest.mark.parametrize("count", [1, 7, 25, 90])
@pytest.mark.parametrize("letters", ["l", "lq", "lqphtc", "htc"])
def test_regularization_is_that_of_the_tables(preset, count, letters):
    rng = np.random.default_rng(count)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.uniform(size=120)})
    soil = rng.choice(["bog", "fen", "heath"], 120)
    soil[: count if count < 10 else 0] = "fen"  # a level with every presence
    X["soil"] = soil
    y = np.arange(120) < count
    model = density(letters, preset=preset)
    with warnings.catch_warnings():
        if preset is None and "c" not in letters:
            warnings.filterwarnings("ignore", message="categorical columns soil are not used")
        posed = model.task(X, y).posed
    kinds = np.concatenate([o.kinds() for o in posed.operators])
    at_presences = posed.problem.features.columns()[y]
    expected = [
        slow_beta(preset, kind, set(kinds), values, count)
        for kind, values in zip(kinds, at_presences.T, strict=True)
    ]
    np.testing.assert_allclose(posed.beta, expected, rtol=1e-6, atol=1e-8)
    if preset != "maxnet":  # levels without presences and constant thresholds are off
        binary = np.isin(kinds, ["t", "c"])
        assert (at_presences[:, binary].max(axis=0) == 1).all()
        assert (at_presences[:, kinds == "t"].min(axis=0) == 0).all()


def test_presets_merge_presences_with_equal_cells():
    X, y = small()
    y = np.minimum(y, 1)
    background = np.concatenate([X[y == 0], X[y == 1][:5]])  # five are background too
    both = np.concatenate([background, X[y == 1], X[y == 1][:2]])  # two were seen twice
    labels = np.repeat([0, 1], [len(background), y.sum() + 2])
    merged = density("lq", preset="maxent", tol=1e-10).fit(both, labels)
    once = np.concatenate([X[y == 0], X[y == 1]])
    counts = np.concatenate([np.zeros((y == 0).sum()), np.full(y.sum(), 1.0)])
    counts[(y == 0).sum() :][:2] += 1
    expected = density("lq", tol=1e-10).fit(once, counts)
    assert merged.n_points_ == len(X) < len(both)
    assert merged.n_presences_ == y.sum() + 2
    assert abs(merged.gain_ - expected.gain_) < 1e-8
    np.testing.assert_allclose(merged.predict(X), expected.predict(X), atol=1e-6)
    separate = density("lq", tol=1e-10).fit(both, labels)
    assert separate.n_points_ == len(both)
    assert abs(separate.gain_ - expected.gain_) > 1e-4


@pytest.mark.parametrize("what", ["sample_weight", "prior"])
def test_no_presence_is_merged_into_a_cell_that_does_not_count(what):
    X, y = small()
    y = np.minimum(y, 1)
    X = np.concatenate([X, X[y == 1][:1]])  # a background cell equal to a presence ...
    y = np.append(y, 0)
    off = np.ones(len(X))
    off[-1] = 0  # ... without mass
    model = density("lq", preset="maxent", tol=1e-9).fit(X, y, **{what: off})
    expected = density("lq", preset="maxent", tol=1e-9).fit(X[:-1], y[:-1])
    assert model.n_presences_ == y.sum()
    assert abs(model.gain_ - expected.gain_) < 1e-8


def test_auto_features_follow_the_number_of_presences():
    X = np.random.default_rng(0).normal(size=(300, 2))
    for count, letters in (
        (9, "l"),
        (10, "lq"),
        (14, "lq"),
        (15, "lqh"),
        (79, "lqh"),
        (80, "lqph"),
    ):
        posed = density().task(X, np.arange(300) < count).posed
        kinds = {k for o in posed.operators for k in o.kinds()}
        assert kinds == set(letters), count


# -- weights and priors ------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["l", "lqph", "t"])
def test_sample_weight_is_repetition(features):
    X, y = small(80)
    times = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = density(features, tol=1e-11).fit(X, y, sample_weight=times)
    repeated = density(features, tol=1e-11).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.n_points_ == repeated.n_points_ == times.sum()
    assert weighted.n_presences_ == repeated.n_presences_ == times @ y
    assert weighted.n_features_ == repeated.n_features_
    assert abs(weighted.gain_ - repeated.gain_) < 1e-10
    for output in ("raw", "cloglog", "logistic", "log", "cumulative"):
        np.testing.assert_allclose(
            weighted.predict(X, output), repeated.predict(X, output), rtol=1e-4, atol=1e-6
        )
    assert abs(times @ weighted.predict(X) - 1) < 1e-12


@pytest.mark.parametrize("preset", ["maxent", "maxnet"])
def test_sample_weight_is_repetition_under_a_preset(preset):
    X, y = small(80)
    y = np.minimum(y, 1)
    times = np.where(y > 0, 3, 2)
    weighted = density("lq", preset=preset, tol=1e-10).fit(X, y, sample_weight=times)
    repeated = density("lq", preset=preset, tol=1e-10).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    assert weighted.n_points_ == repeated.n_points_
    assert abs(weighted.gain_ - repeated.gain_) < 1e-8


def test_a_scale_of_the_weights_changes_the_number_of_presences():
    X, y = small()
    one, two = density("lq").fit(X, y), density("lq").fit(X, y, np.full(len(y), 2.0))
    assert two.n_presences_ == 2 * one.n_presences_
    assert two.gain_ > one.gain_


def test_counts_are_presences():
    X, y = small()
    assert y.max() > 1
    model = density("lq", tol=1e-10).fit(X, y)
    assert model.n_presences_ == y.sum()
    F = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    residual = np.abs((model.predict(X) - y / y.sum()) @ F)
    posed = model.task(X, y).posed
    names = [n for o in posed.operators for n in o.names()]
    beta = posed.beta[[names.index(f"x{j}") for j in range(3)]]
    assert (residual <= beta + 1e-6).all()
    assert residual.max() > 1e-3


def test_a_constant_prior_changes_nothing():
    X, y = small()
    plain = density("lqh", tol=1e-10).fit(X, y)
    for prior in (np.full(len(X), 7.0), 7.0):
        model = density("lqh", tol=1e-10).fit(X, y, prior=prior)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-7)
        assert abs(model.gain_ - plain.gain_) < 1e-9
        assert str(model.bound()) == str(plain.bound())


def test_a_prior_is_the_default_density_and_predictions_leave_it_out():
    X, y = small()
    bias = np.random.default_rng(0).uniform(0.1, 3, len(X))
    model = density("l", mx.Box(0.02), tol=1e-11).fit(X, y, prior=bias)
    F = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    q = bias / bias.sum()
    problem = mx.Problem(mx.Shifted(mx.Shannon(), np.log(q)), F, mx.Box(0.02), observed=y / y.sum())
    solution = problem.solve(tol=1e-11)
    coef = np.array([model.coef_.get(f"x{j}", 0.0) for j in range(3)])
    np.testing.assert_allclose(coef, solution.w, atol=1e-4)
    assert abs(model.gain_ + solution.objective) < 1e-9
    raw = np.exp(F @ coef)
    np.testing.assert_allclose(model.predict(X), raw / raw.sum(), rtol=1e-9)


def test_cells_with_prior_0_are_dropped():
    X, y = small()
    out = (y == 0) & (np.arange(len(y)) % 3 == 0)
    model = density("lqph", tol=1e-10).fit(X, y, prior=np.where(out, 0.0, 1.0))
    fewer = density("lqph", tol=1e-10).fit(X[~out], y[~out])
    assert model.n_points_ == (~out).sum()
    assert model.n_features_ == fewer.n_features_
    assert abs(model.gain_ - fewer.gain_) < 1e-9
    np.testing.assert_allclose(model.predict(X), fewer.predict(X), atol=1e-7)


def test_weights_and_priors_that_cannot_be():
    X, y = small()
    for name in ("sample_weight", "prior"):
        for value in (-np.ones(len(y)), np.full(len(y), np.nan), np.full(len(y), np.inf)):
            with pytest.raises(ValueError, match=f"{name} must be finite and non-negative"):
                density().fit(X, y, **{name: value})
        with pytest.raises(
            ValueError, match=rf"{name} must have one entry per row, shape \(120,\)"
        ):
            density().fit(X, y, **{name: np.ones(3)})
    with pytest.raises(ValueError, match="all sample weights are zero"):
        density().fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match=rf"{(y > 0).sum()} presences lie where the prior is 0"):
        density().fit(X, y, prior=np.where(y > 0, 0.0, 1.0))


# -- outputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_outputs_are_their_formulas(weighted):
    X, y = small()
    mass = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    prior = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    model = density("lqph", multiplier=0.5, prevalence=0.3)
    model.fit(X, y, sample_weight=mass, prior=prior)
    theta = exponent(model, X, y, sample_weight=mass, prior=prior)
    raw = np.exp(theta) / (mass @ np.exp(theta))
    assert abs(model.log_partition_ - np.log(mass @ np.exp(theta))) < 1e-9
    entropy = -sum(m * r * np.log(r) for m, r in zip(mass, raw, strict=True))
    assert abs(model.entropy_ - entropy) < 1e-9
    np.testing.assert_allclose(model.predict(X), raw, rtol=1e-9)
    assert abs(mass @ model.predict(X) - 1) < 1e-12
    np.testing.assert_allclose(model.predict(X, "log"), np.log(raw), atol=1e-9)
    v = raw * np.exp(entropy)
    np.testing.assert_allclose(model.predict(X, "cloglog"), 1 - np.exp(-v), rtol=1e-9)
    np.testing.assert_allclose(
        model.predict(X, "logistic"), 0.3 * v / (1 - 0.3 + 0.3 * v), rtol=1e-9
    )
    below = [100 * sum(mass[raw <= r * (1 + 1e-9)] * raw[raw <= r * (1 + 1e-9)]) for r in raw]
    found = model.predict(X, "cumulative")
    np.testing.assert_allclose(found, below, atol=1e-7)
    assert abs(found.max() - 100) < 1e-9
    assert found.min() > 0


def test_cumulative_is_monotone_and_within_0_and_100_anywhere():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 2))  # more cells than the stored table has entries
    y = rng.uniform(size=30_000) < 0.01 * np.exp(X[:, 0])
    model = density("lq").fit(X, y)
    raw, found = model.predict(X), model.predict(X, "cumulative")
    order = np.argsort(raw)
    assert (np.diff(found[order]) >= 0).all()
    exact = 100 * np.cumsum(raw[order])
    np.testing.assert_allclose(found[order], exact, atol=0.03)
    far = model.predict(10 * rng.normal(size=(500, 2)), "cumulative", clamp=False)
    assert far.min() == 0
    assert far.max() == 100


def test_unknown_outputs_and_prevalence():
    X, y = small()
    model = density("l").fit(X, y)
    with pytest.raises(
        ValueError, match=r"one of raw, logistic, cloglog, cumulative, log, got 'p'"
    ):
        model.predict(X, "p")
    with pytest.raises(ValueError, match="prevalence must be between 0 and 1, got 1"):
        model.set_params(prevalence=1.0).predict(X, "logistic")


def test_scores(fitted):
    model, X, y = fitted
    log_density = np.log(model.predict(X))
    np.testing.assert_allclose(model.score_samples(X), log_density, atol=1e-12)
    loss = -(y @ log_density) / y.sum()
    assert abs(model.log_loss(X, y) - loss) < 1e-12
    assert abs(model.score(X, y) + loss) < 1e-12
    assert abs(model.score(X) - log_density.mean()) < 1e-12
    weight = np.random.default_rng(0).uniform(size=len(y))
    expected = (y * weight) @ log_density / (y @ weight)
    assert abs(model.score(X, y, weight) - expected) < 1e-12
    assert abs(model.log_loss(X.tolist(), y.tolist()) - loss) < 1e-12
    for bad in (np.zeros(len(y)), -y, y[:-1]):
        with pytest.raises(ValueError, match=r"one count per row|one entry per row"):
            model.log_loss(X, bad)


def test_gains(fitted):
    model, X, y = fitted
    posed = model.task(X, y).posed
    w = weights_of(model, posed.problem, posed.operators)
    assert abs(model.gain_ + posed.problem.dual(w)) < 1e-12
    penalty = 0.5 * posed.beta @ np.abs(w)
    assert abs(model.unregularized_gain_ - model.gain_ - penalty) < 1e-12
    assert abs(np.log(len(X)) - model.log_loss(X, y) - model.unregularized_gain_) < 1e-10
    used = np.flatnonzero(w)
    np.testing.assert_allclose(model.beta_, 0.5 * posed.beta[used])
    assert 0 < len(model.coef_) < model.n_features_
    assert model.n_features_ == posed.beta.size
    assert model.n_iter_ == len(model.history_) - 1
    assert model.status_ is mx.Status.CONVERGED


def test_unfitted_models_say_so():
    X, _ = small()
    for call in (
        lambda m: m.predict(X),
        lambda m: m.score(X),
        lambda m: m.coef_,
        lambda m: m.summary(),
        lambda m: m.bound(),
        lambda m: m.profile(0),
    ):
        with pytest.raises((NotFittedError, AttributeError)):
            call(density())


# -- clamping ----------------------------------------------------------------------------------


def test_variables_are_held_within_their_ranges():
    X, y = small()
    model = density("lqh", multiplier=0.3).fit(X, y)
    assert model.coef_
    far = X + np.array([50.0, -80.0, 30.0])
    edge = np.clip(far, X.min(axis=0), X.max(axis=0))
    np.testing.assert_array_equal(model.predict(far), model.predict(edge))
    np.testing.assert_array_equal(model.predict(X), model.predict(X, clamp=False))
    assert not np.allclose(model.predict(far, clamp=False), model.predict(far), rtol=0.1)


def test_without_clamping_the_exponent_goes_on():
    X, y = small()
    model = density("l", multiplier=0.3).fit(X, y)
    slope = np.array([model.coef_.get(f"x{j}", 0.0) for j in range(3)]) / np.ptp(X, axis=0)
    step = np.array([[4.0, 7.0, -3.0]])
    change = model.predict(X[:1] + step, "log", clamp=False) - model.predict(X[:1], "log")
    np.testing.assert_allclose(change, step @ slope, atol=1e-9)
    assert abs(change[0]) > 0.1


def test_features_are_held_within_their_ranges():
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 3, size=100)
    X = np.column_stack([x, 4 - x + 0.1 * rng.normal(size=100)])  # never both large
    y = X.prod(axis=1) > 3.3
    model = density([Interaction()], multiplier=0.1).fit(X, y)
    product = X.prod(axis=1)
    weight = model.coef_["x0*x1"]
    top = np.array([[X[:, 0].max(), X[:, 1].max()]])  # each within its range, the product not
    share = (top.prod() - product.min()) / np.ptp(product)
    assert share > 1.3
    base = model.predict(X[:1], "log") - weight * (product[0] - product.min()) / np.ptp(product)
    np.testing.assert_allclose(model.predict(top, "log"), base + weight, atol=1e-9)
    np.testing.assert_allclose(
        model.predict(top, "log", clamp=False), base + weight * share, atol=1e-9
    )


# -- profiles ----------------------------------------------------------------------------------


def test_profiles_add_up_to_the_exponent():
    X, y = small()
    frame = pd.DataFrame(X, columns=["rain", "temp", "slope"])
    frame["soil"] = np.where(X[:, 0] + X[:, 1] > 2, "bog", np.where(X[:, 2] > 0, "fen", "heath"))
    model = density("lqhtc", multiplier=0.3).fit(frame, y)
    total = np.zeros(len(frame))
    for name in frame:
        profile = model.profile(name, n=20_001)
        assert profile.complete
        assert profile.variable == name
        if name == "soil":
            assert profile.x.tolist() == ["bog", "fen", "heath"]
            assert [model.coef_.get(f"soil={k}", 0.0) for k in profile.x] == profile.y.tolist()
            total += frame[name].map(dict(zip(profile.x, profile.y, strict=True))).to_numpy()
        elif not any(n.startswith(f"({name}>") for n in model.coef_):
            total += np.interp(frame[name], profile.x, profile.y)
        else:  # steps: take the nearest grid point on the same side
            total += profile.y[np.abs(profile.x[:, None] - frame[name].to_numpy()).argmin(axis=0)]
    difference = model.predict(frame, "log") - total
    assert np.ptp(total) > 1
    assert np.ptp(difference) < 0.02


def test_profiles_of_curves_are_exact_at_any_value():
    X, y = small()
    model = density("lqh", multiplier=0.3).fit(X, y)
    lowest = model.predict(X.min(axis=0)[None], "log")[0]
    for j in range(3):
        profile = model.profile(j, n=33)
        rows = np.tile(X.min(axis=0), (33, 1))
        rows[:, j] = profile.x
        np.testing.assert_allclose(
            model.predict(rows, "log") - lowest, profile.y - profile.y[0], atol=1e-9
        )
        assert (profile.x[0], profile.x[-1]) == (X[:, j].min(), X[:, j].max())


def test_a_profile_says_that_products_are_left_out():
    X, y = small()
    model = density([Interaction(), Linear()], multiplier=0.01).fit(X, y)
    pairs = [name for name in model.coef_ if "*" in name]
    used = {part for name in pairs for part in name.split("*")}
    assert pairs
    for name in ("x0", "x1", "x2"):
        assert model.profile(name).complete == (name not in used)
    with pytest.raises(ValueError, match="no variable 'rain'; the model has x0, x1, x2"):
        model.profile("rain")


# -- path --------------------------------------------------------------------------------------


@pytest.mark.parametrize("potential", ["box", "elastic", "ball"])
def test_the_path_starts_at_zero_and_gains(potential):
    X, y = small()
    model = density("lqh" if potential == "box" else "lq", potential, tol=1e-9)
    path = model.path(X, y, n_multipliers=8)
    assert len(path) == 8
    assert path[0].coef_ == {}
    np.testing.assert_allclose(path[0].predict(X), 1 / len(X))
    multipliers = [m.multiplier for m in path]
    np.testing.assert_allclose(np.diff(np.log(multipliers)), np.log(0.01) / 7)
    gains = [m.gain_ for m in path]
    assert (np.diff(gains) >= -1e-9).all()
    assert gains[-1] > gains[1] > 0
    assert path[1].coef_
    for warm in path[1::3]:
        cold = density(model.features, potential, multiplier=warm.multiplier, tol=1e-9).fit(X, y)
        assert abs(warm.gain_ - cold.gain_) < 1e-8
        assert warm.gap_ <= 1e-9
        np.testing.assert_allclose(warm.predict(X), cold.predict(X), atol=1e-4)
    assert not hasattr(model, "gain_")


def test_a_path_of_given_multipliers():
    X, y = small()
    path = density("l", multiplier=100.0).path(X, y, multipliers=[0.5, 4.0, 1.0])
    assert [m.multiplier for m in path] == [4.0, 1.0, 0.5]
    for model in path:
        single = density("l", multiplier=model.multiplier).fit(X, y)
        np.testing.assert_allclose(model.beta_, single.beta_)
        assert abs(model.gain_ - single.gain_) < 1e-6
    with pytest.raises(ValueError, match="multiplier must be a positive number, got 0"):
        density("l").path(X, y, multipliers=[1.0, 0.0])


def test_models_of_a_path_know_the_names_of_their_columns():
    frame, y = mixed_frame()
    for model in density("lqc").path(frame, y, multipliers=[1.0, 0.1]):
        assert abs(model.predict(frame).sum() - 1) < 1e-9  # and no warning about names
        assert model.feature_names_in_.tolist() == list(frame.columns)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[frame.columns[::-1]])


# -- other entropies ---------------------------------------------------------------------------

SPARSE = [mx.Tsallis(1.5), mx.Tsallis(2.0), mx.SquaredNorm()]


@pytest.mark.parametrize("entropy", SPARSE, ids=repr)
@pytest.mark.parametrize("biased", [False, True])
def test_sparse_densities(entropy, biased):
    X, y = small()
    prior = np.random.default_rng(3).uniform(0.5, 2, len(y)) if biased else None
    weight = np.random.default_rng(4).integers(1, 3, len(y)) if biased else None
    model = density("lqph", entropy=entropy, multiplier=0.1)
    model.fit(X, y, sample_weight=weight, prior=prior)
    assert model.gap_ <= model.tol
    posed = model.task(X, y, weight, prior).posed
    p = posed.problem.solve(tol=1e-9, verbose=0).p
    q = posed.problem.entropy.q0
    mass = np.ones(len(y)) if weight is None else weight
    expected = p / q
    expected /= mass @ expected
    found = model.predict(X)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert abs(mass @ found - 1) < 1e-12
    assert (found == 0).sum() >= 3
    assert np.isneginf(model.predict(X, "log")[found == 0]).all()
    for output in ("cloglog", "logistic", "cumulative"):
        values = model.predict(X, output)
        assert (values[found == 0] == 0).all()
        assert (np.diff(values[np.argsort(found)]) >= 0).all()
    np.testing.assert_array_equal(model.predict(X[::-1][:7]), found[::-1][:7])
    with pytest.raises(ValueError, match="the bound is for the log loss"):
        model.bound()
    assert "duality gap" in model.summary()


@pytest.mark.parametrize("entropy", [*SPARSE, "shannon"], ids=repr)
def test_the_default_density_has_no_gain(entropy):
    X, y = small()
    model = density("l", entropy=entropy, multiplier=1e6).fit(X, y)
    assert model.coef_ == {}
    assert abs(model.gain_) < 1e-12
    np.testing.assert_allclose(model.predict(X), 1 / len(X))


@pytest.mark.parametrize(
    "entropy",
    [
        *(mx.SquaredNorm(2), mx.SquaredNorm(1.5), mx.Tsallis(1.0), mx.Tsallis(3.0)),
        *(mx.NormEntropy(2.0), mx.NormEntropy(1.5), mx.Renyi(0.5), mx.Renyi(1.0)),
    ],
    ids=repr,
)
def test_predictions_of_every_entropy_are_the_training_density(entropy):
    X, y = small()
    model = density("lq", entropy=entropy, tol=1e-8).fit(X, y)
    assert model.gap_ <= 1e-8
    p = density("lq", entropy=entropy).problem(X, y).solve(tol=1e-8, verbose=0).p
    np.testing.assert_allclose(model.predict(X), p, atol=1e-4)
    assert model.predict(X).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "entropy", [mx.NormEntropy(2.0), mx.NormEntropy(4.0), mx.SquaredNorm(1.5)], ids=repr
)
@pytest.mark.parametrize("presence", [3, 4])
def test_predictions_where_one_score_has_all_the_mass(entropy, presence):
    """The line through the supported scores is not there: its slope needs a formula."""
    X, y = np.arange(5.0)[:, None], np.arange(5) == presence
    model = density("lq", "equality", entropy=entropy).fit(X, y)
    p = model.problem(X, y).solve(tol=1e-10, verbose=0).p
    np.testing.assert_allclose(p, y, atol=1e-5)
    np.testing.assert_allclose(model.predict(X), p, atol=1e-5)


@pytest.mark.parametrize("entropy", [mx.NormEntropy(np.inf), mx.Renyi(2.0)], ids=repr)
def test_entropies_with_several_densities_for_the_same_scores_are_refused(entropy):
    X, y = np.arange(5.0)[:, None], np.arange(5) == 4
    with pytest.raises(ValueError, match="several densities for the same scores"):
        density("l", entropy=entropy).fit(X, y)
    with pytest.raises(ValueError, match="several densities for the same scores"):
        mx.StructMaxent([mx.Monomials(1)], entropy=entropy, verbose=0).fit(X, 5 * y)


def test_tsallis_of_order_1_is_shannon():
    X, y = small()
    expected = density("lq").fit(X, y).predict(X)
    np.testing.assert_allclose(
        density("lq", entropy=mx.Tsallis(1.0)).fit(X, y).predict(X), expected, atol=1e-5
    )


# -- saving ------------------------------------------------------------------------------------


def mixed_frame():
    X, y = small()
    frame = pd.DataFrame(X, columns=["rain", "temp", "slope"])
    frame["soil"] = np.random.default_rng(0).choice(["bog", "fen", "heath"], len(X))
    frame["code"] = np.random.default_rng(1).integers(3, 6, len(X))
    return frame, y


def saved_models():
    X, y = small()
    frame, _ = mixed_frame()
    yield density("lqph", multiplier=0.5).fit(X, y), X
    yield density("lqphtc", categorical=["code"], multiplier=0.3).fit(frame, y), frame
    yield density("lq", entropy=mx.Tsallis(1.5), multiplier=0.1).fit(X, y), X
    yield (
        density([Hinge(7), Threshold()], mx.ElasticNet(0.01, 0.01), solver=mx.FISTA()).fit(X, y),
        X,
    )
    yield (
        density("lq", preset="maxnet", missing="drop").fit(X, y, prior=np.arange(1, len(y) + 1)),
        X,
    )


@pytest.mark.parametrize("number", range(5))
def test_saving_and_loading(tmp_path, number):
    model, X = list(saved_models())[number]
    mx.save(model, tmp_path / "model.json")
    loaded = mx.load(tmp_path / "model.json")
    for copy in (loaded, pickle.loads(pickle.dumps(model))):
        assert type(copy) is mx.MaxentDensity
        for output in ("raw", "logistic", "cloglog", "cumulative", "log"):
            np.testing.assert_array_equal(copy.predict(X, output), model.predict(X, output))
        far = X.assign(rain=3 * X["rain"]) if isinstance(X, pd.DataFrame) else 3 * X
        np.testing.assert_array_equal(copy.predict(far), model.predict(far))
        assert copy.coef_ == model.coef_
        assert repr(copy) == repr(model)
        assert copy.summary() == model.summary()
        assert copy.status_ is model.status_
        assert copy.guarantees_ == model.guarantees_
    assert not hasattr(clone(loaded), "gain_")
    name = X.columns[0] if isinstance(X, pd.DataFrame) else 0
    np.testing.assert_array_equal(loaded.profile(name).y, model.profile(name).y)
    if isinstance(X, pd.DataFrame):
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(X[X.columns[::-1]])


def test_clone_and_parameters():
    model = density("lq", "elastic", entropy=mx.Tsallis(1.5), multiplier=2.0, categorical=("a",))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert repr(copy) == repr(model)
    assert copy.set_params(multiplier=3.0).multiplier == 3.0


def test_fitting_twice_forgets_the_first_fit():
    X, y = small()
    frame, _ = mixed_frame()
    twice = density("lqhc").fit(frame.drop(columns="code"), y).fit(X, y)
    once = density("lqhc").fit(X, y)
    np.testing.assert_array_equal(twice.predict(X), once.predict(X))
    assert twice.coef_ == once.coef_
    assert not hasattr(twice, "feature_names_in_")


@parametrize_with_checks([mx.MaxentDensity(verbose=0)])
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constant columns|.*not used")
        check(estimator)


# -- guarantees --------------------------------------------------------------------------------


def test_the_bound_is_its_formula(fitted):
    model, X, y = fitted
    bound = model.bound(delta=0.1)
    m = y.sum()
    # 3 variables with monotone features, 3 squares and 3 products
    beta = np.sqrt(np.log(2 * (3 + 6) / 0.1) / (2 * m))
    weights = np.abs(list(model.coef_.values()))
    assert abs(bound.deviation - beta * weights.sum()) < 1e-10
    assert abs(bound.sample_loss - model.log_loss(X, y)) < 1e-10
    assert bound.n_cells == len(X)
    assert model.bound(0.01).bound > bound.bound
    assert str(bound) == str(model.bound(0.1))


def test_the_bound_under_a_prior_is_relative_to_it():
    X, y = small()
    bias = np.random.default_rng(0).uniform(0.1, 3, len(X))
    model = density("l").fit(X, y, prior=bias)
    q = bias / bias.sum()
    p = q * np.exp(exponent(model, X, y, prior=bias))
    p /= p.sum()
    bound = model.bound()
    assert bound.n_cells is None
    assert abs(bound.sample_loss + (y @ np.log(p / q)) / y.sum()) < 1e-9


def test_the_bound_covers_a_known_truth():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 2))
    truth = np.exp(2 * X[:, 0] - X[:, 1])
    truth /= truth.sum()
    failures, excess = 0, []
    for _ in range(40):
        y = rng.multinomial(60, truth)
        model = density("lq", multiplier=0.1).fit(X, y)
        loss = -truth @ model.score_samples(X)
        bound = model.bound(delta=0.05)
        failures += loss > bound.bound
        excess.append(loss - bound.sample_loss)
    assert failures <= 4
    assert max(excess) > 0.05  # the sample loss alone is no bound


@pytest.mark.parametrize(("columns", "m"), [(200, 50), (150, 40)])
def test_the_bound_pays_for_columns_that_were_not_chosen(columns, m):
    """A uniform truth: what a strong penalty lets in is what chance favours most."""
    rng = np.random.default_rng(0)
    X = np.array([rng.permutation(np.arange(600) % 2) for _ in range(columns)]).T.astype(float)
    failures = 0
    for _ in range(40):
        y = np.bincount(rng.integers(600, size=m), minlength=600)
        path = density("l").task(X, y).path()
        chosen = next(model for _, model in path if model.coef)
        failures += -np.mean(chosen.predict(X, "log")) > chosen.bound(0.05).bound + 1e-9
        beta = bounds.dkw_beta(columns, m, 0.05)
        weights = np.abs(list(chosen.coef.values())).sum()
        assert chosen.bound(0.05).deviation == pytest.approx(beta * weights)
    assert failures <= 2


@pytest.mark.parametrize("features", ["c", [Categorical()]])
def test_the_bound_counts_levels_without_presences(features):
    X = np.repeat(np.arange(30), 4)[:, None]
    y = np.where(np.arange(120) % 4 == 0, X[:, 0] < 5, 0)
    model = density(features, categorical=[0]).fit(X, y)
    assert model.n_features_ == 5
    weights = np.abs(list(model.coef_.values())).sum()
    assert model.bound().deviation == pytest.approx(bounds.hoeffding_beta(30, 5, 0.05) * weights)


def test_summary_says_what_was_fitted(fitted):
    model, X, y = fitted
    text = model.summary()
    lines = text.split("\n")
    assert lines[0] == (
        f"{y.sum()} presences, {len(X)} points, {len(model.coef_)} of {model.n_features_} "
        "features in use"
    )
    assert lines[1] == (
        f"regularized gain {model.gain_:.4f}, unregularized {model.unregularized_gain_:.4f}"
    )
    assert lines[2] == f"converged after {model.n_iter_} iterations, duality gap {model.gap_:.1e}"
    assert lines[3] == str(model.bound())
    assert "95 %" in lines[3]


# -- legal but odd -----------------------------------------------------------------------------


def usable(model, X):
    """A model that predicts, with its certificate."""
    p = model.predict(X)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    assert model.gap_ <= model.tol
    assert model.status_ is mx.Status.CONVERGED
    model.summary()
    for output in ("cloglog", "logistic", "cumulative"):
        values = model.predict(X, output)
        assert np.isfinite(values).all()
    return p


@pytest.mark.parametrize("preset", [None, "maxent", "maxnet"])
@pytest.mark.parametrize("features", ["auto", "l", "lq", "lqph", "h", "lt"])
def test_one_presence(preset, features):
    X, _ = small()
    y = np.arange(len(X)) == 5
    model = density(features, preset=preset).fit(X, y)
    usable(model, X)
    assert model.n_presences_ == 1


def test_one_presence_and_thresholds_alone():
    """The jar's rule leaves out thresholds with every presence on one side: here all of them."""
    X, _ = small()
    y = np.arange(len(X)) == 5
    usable(density("t", preset="maxnet").fit(X, y), X)
    with pytest.raises(ValueError, match="no feature of 't'"):
        density("t").fit(X, y)


@pytest.mark.parametrize("features", ["lqph", "t"])
def test_few_cells_and_many_features(features):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 40))
    model = density(features).fit(X, np.arange(12) < 3)
    p = usable(model, X)
    assert model.n_features_ > 100
    assert abs(p.sum() - 1) < 1e-9


def test_two_cells():
    model = density("lqht", multiplier=0.01).fit([[0.0], [1.0]], [0, 1])
    usable(model, np.array([[0.0], [1.0]]))


def test_constant_columns_are_left_out_with_a_warning():
    X, y = small()
    more = np.column_stack([X, np.full(len(X), 3.0), np.zeros(len(X))])
    with pytest.warns(UserWarning, match="constant columns are not used: x3, x4"):
        model = density("lqph", tol=1e-10).fit(more, y)
    plain = density("lqph", tol=1e-10).fit(X, y)
    assert model.n_features_ == plain.n_features_
    np.testing.assert_allclose(usable(model, more), plain.predict(X), atol=1e-7)


@pytest.mark.parametrize("features", ["lqph", "t", "lqpht"])
def test_two_valued_columns(features):
    X, y = small()
    X[:, 1] = X[:, 1] > 2
    X[:, 2] = np.where(X[:, 2] > 0, 1.0, -1.0)
    usable(density(features, multiplier=0.5).fit(X, y), X)


def test_duplicate_columns_change_nothing():
    X, y = small()
    double = np.column_stack([X, X[:, 0]])
    plain = density("lqh", tol=1e-10).fit(X, y)
    model = density("lqh", tol=1e-10).fit(double, y)
    assert abs(model.gain_ - plain.gain_) < 1e-8
    np.testing.assert_allclose(usable(model, double), plain.predict(X), atol=1e-6)


def test_small_integers_are_as_good_as_floats():
    rng = np.random.default_rng(0)
    X = rng.integers(-30_000, 30_000, size=(150, 3)).astype(np.int16)
    y = rng.uniform(size=150) < special.expit(X[:, 0] / 10_000 - 1)
    for features in ("lqph", "lqpht"):
        small_model = density(features, tol=1e-10).fit(X, y)
        model = density(features, tol=1e-10).fit(X.astype(np.float64), y)
        assert abs(model.gain_ - small_model.gain_) < 1e-8
        np.testing.assert_allclose(small_model.predict(X), model.predict(X), atol=1e-7)
        np.testing.assert_allclose(
            small_model.predict(X.astype(np.float64)), small_model.predict(X)
        )


@pytest.mark.parametrize("shift", [1e6, -1e8])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_and_offsets_do_not_matter(shift, scale):
    X, y = small()
    plain = density("lh", tol=1e-9).fit(X, y)
    other = density("lh", tol=1e-9).fit(scale * (X + shift), y)
    assert abs(other.gain_ - plain.gain_) < 1e-6
    usable(density("lqph").fit(scale * (X + shift), y), scale * (X + shift))


def test_presences_apart_from_the_background():
    """Separable: the weights stay finite under the penalty."""
    X = np.concatenate([np.zeros((50, 1)), np.full((10, 1), 1e3)]) + np.arange(60)[:, None]
    usable(density("lqht").fit(X, np.arange(60) >= 50), X)


def test_large_counts_and_tiny_weights():
    X, y = small()
    usable(density("lq").fit(X, 1_000_000 * y), X)
    for size in (1e-3, 1e-2, 1e3):
        usable(density("lq").fit(X, y, np.full(len(y), size)), X)


def test_forms_of_the_input():
    X, y = small()
    expected = density("lqh").fit(X, y).predict(X)
    frame = pd.DataFrame(X)
    for form in (X.tolist(), np.asfortranarray(X), frame.rename(columns=str)):
        np.testing.assert_allclose(density("lqh").fit(form, y).predict(form), expected, rtol=1e-6)
    for counts in (y.tolist(), pd.Series(y), y.astype(np.uint8), y.astype(float)):
        np.testing.assert_allclose(density("lqh").fit(X, counts).predict(X), expected, rtol=1e-6)
    np.testing.assert_array_equal(
        density("lqh").fit(X, y > 0).predict(X),
        density("lqh").fit(X, np.minimum(y, 1)).predict(X),
    )


def test_all_rows_with_different_counts_are_legal():
    X, y = small()
    usable(density("lq").fit(X, y + 1), X)


def test_missing_rows_are_dropped():
    X, y = small()
    holes = X.copy()
    holes[[3, 40, 77], [0, 1, 2]] = np.nan
    whole = np.isfinite(holes).all(axis=1)
    model = density("lqph", missing="drop", tol=1e-10).fit(holes, y)
    fewer = density("lqph", tol=1e-10).fit(X[whole], y[whole])
    assert model.n_points_ == whole.sum() == len(X) - 3
    assert model.gain_ == fewer.gain_
    for output in ("raw", "log", "cloglog", "logistic", "cumulative"):
        found = model.predict(holes, output)
        assert np.isnan(found[~whole]).all()
        np.testing.assert_array_equal(found[whole], fewer.predict(X[whole], output))
    with pytest.raises(ValueError, match=r"(NaN|infinity): 1 rows, in x0.*missing=\"drop\""):
        fewer.predict(holes[:5])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_values_are_an_error_otherwise(bad):
    X, y = small()
    X[7, 1] = bad
    with pytest.raises(ValueError, match=r"(NaN|infinity): 1 rows, in x1\. Drop them"):
        density("lq").fit(X, y)


def test_missing_categories():
    frame, y = mixed_frame()
    frame.loc[4, "soil"] = None
    with pytest.raises(ValueError, match="soil"):
        density("lc").fit(frame, y)
    model = density("lc", missing="drop").fit(frame, y)
    assert model.n_points_ == len(frame) - 1
    found = model.predict(frame)
    assert np.isnan(found[4])
    assert np.isfinite(np.delete(found, 4)).all()


def test_levels_that_were_not_there():
    frame, y = mixed_frame()
    model = density("lc", multiplier=0.01).fit(frame, y)
    assert any(name.startswith("soil=") for name in model.coef_)
    new = frame.assign(soil="lake")
    with pytest.warns(UserWarning, match="soil: levels 'lake' were not there at the fit"):
        found = model.predict(new, "log")
    coef = frame["soil"].map(lambda level: model.coef_.get(f"soil={level}", 0.0))
    np.testing.assert_allclose(found, model.predict(frame, "log") - coef, atol=1e-9)


def test_categories_that_are_not_asked_for():
    frame, y = mixed_frame()
    with pytest.warns(UserWarning, match="categorical columns soil are not used; add c to"):
        density("lq").fit(frame, y)
    model = density("lq", preset="maxnet", multiplier=0.01).fit(frame, y)
    assert any("soil" in name for name in model.coef_)


def test_pandas_categories_of_numbers_are_categories():
    frame, y = mixed_frame()
    by_type = density("lc", multiplier=0.1).fit(frame.astype({"code": "category"}), y)
    by_name = density("lc", multiplier=0.1, categorical=["code"]).fit(frame, y)
    assert by_type.schema_ == by_name.schema_
    assert by_type.coef_ == by_name.coef_


def test_levels_without_presences_have_no_effect_unless_maxnet():
    X = np.array(["a", "b", "c"])[np.arange(60) % 3][:, None].astype(object)
    y = (np.arange(60) % 3 == 0) & (np.arange(60) < 30) | (np.arange(60) == 1)
    usable(density("c").fit(X, y), X)
    assert "x0=c" not in density("c", multiplier=0.01).fit(X, y).coef_
    assert "x0=c" in density("c", multiplier=0.01, preset="maxnet").fit(X, y).coef_


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(120), "y holds no presence: at least one row needs y > 0"),
        (np.ones(120), "every row has y = 1, so there is nothing to tell presences from"),
        (np.full(120, 2), "every row has y = 2"),
        (np.r_[-1.0, np.ones(119)], "cannot be negative: got -1"),
        (np.r_[0.5, np.zeros(119)], "expected integers, got 0.5; weights go into sample_weight"),
        (np.r_[np.nan, np.zeros(119)], "y contains NaN"),
        (np.ones(7), r"shape \(120,\), got \(7,\): inconsistent"),
        (np.ones((120, 2)), r"shape \(120,\), got \(120, 2\)"),
        (None, "requires y to be passed"),
        (np.array(["yes"] * 120), "could not convert string|dtype"),
    ],
)
def test_bad_counts(y, message):
    X, _ = small()
    with pytest.raises(ValueError, match=message):
        density().fit(X, y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 3)), "0 sample"),
        (np.empty((120, 0)), "0 feature"),
        (np.ones(120), "Expected 2D array, got 1D"),
        (np.ones((120, 2, 2)), "Found array with dim 3"),
        (np.ones((1, 3)), "one sample"),
        (pd.DataFrame(), "X is empty: 0 rows, 0 columns"),
        (np.full((120, 2), 1 + 1j), "Complex"),
    ],
)
def test_bad_tables(X, message):
    with pytest.raises(ValueError, match=message):
        density("l").fit(X, np.arange(len(X)) == 0 if len(X) != 120 else np.arange(120) < 9)


def test_nothing_varies():
    told = "no feature of 'lq' varies over the 20 cells: x0, x1 are constant"
    with pytest.raises(ValueError, match=told):
        density("lq").fit(np.ones((20, 2)), np.arange(20) < 5)
    X, y = small()
    with pytest.raises(ValueError, match="no feature of 'c' varies"):
        density("c").fit(X, y)


def test_tables_that_differ_from_the_fit():
    X, y = small()
    model = density("l").fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but MaxentDensity is expecting 3"):
        model.predict(X[:, :2])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = density("l").fit(frame, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))


def test_all_rows_missing():
    X, y = small()
    with pytest.raises(ValueError, match="no row is left after dropping missing values"):
        density("l", missing="drop").fit(np.full_like(X, np.nan), y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "jar"}, 'preset must be None, "maxent" or "maxnet", got \'jar\''),
        ({"potential": "l1"}, "potential must be a Potential or one of box, quadratic.*got 'l1'"),
        ({"features": "lx"}, 'features must be "auto", letters from "lqpthck"'),
        ({"features": ""}, 'features must be "auto", letters from "lqpthck"'),
        ({"features": []}, "features must be letters or a list of feature classes"),
        ({"features": ["l", "q"]}, "features must be letters or a list of feature classes"),
        ({"features": [Linear]}, "features must be letters or a list of feature classes"),
        ({"entropy": "tsallis"}, "entropy must be \"shannon\" or an Entropy, got 'tsallis'"),
        ({"multiplier": 0}, "multiplier must be a positive number, got 0"),
        ({"multiplier": -1.0}, "multiplier must be a positive number"),
        ({"multiplier": "2"}, "multiplier must be a positive number, got '2'"),
        ({"multiplier": np.nan}, "multiplier must be a positive number"),
        ({"multiplier": np.inf}, "multiplier must be a positive number"),
        ({"solver": "newton"}, "unknown solver 'newton'"),
        ({"missing": "ignore"}, 'missing must be "error" or "drop", got \'ignore\''),
        ({"tol": -1.0}, "tol must be >= 0"),
        ({"categorical": ["soil"]}, "categorical column 'soil' is not in X"),
        ({"potential": mx.Box([0.1, 0.2])}, "2|features"),
    ],
)
def test_bad_settings(settings, message):
    X, y = small()
    with pytest.raises((ValueError, TypeError), match=message):
        density(**{"features": "l", **settings}).fit(X, y)


def test_entropies_without_a_density_are_refused_before_the_fit(monkeypatch):
    X, y = small()

    def refuse(*args, **settings):
        raise AssertionError("solved before the entropy was looked at")

    monkeypatch.setattr(mx.Problem, "solve", refuse)
    with pytest.raises(ValueError, match="a density needs an entropy"):
        density("l", entropy=mx.FermiDirac()).fit(X, y)


def test_feature_classes_as_a_list():
    X, y = small()
    letters = density("lq", tol=1e-10).fit(X, y)
    listed = density([Square(), Linear()], tol=1e-10).fit(X, y)
    assert abs(letters.gain_ - listed.gain_) < 1e-9
    alone = density(Hinge(5)).fit(X, y)
    assert alone.n_features_ == 3 * 8
    frame, y = mixed_frame()
    assert set(density([Categorical()], multiplier=0.01).fit(frame, y).coef_) <= {
        "soil=bog", "soil=fen", "soil=heath",
    }  # fmt: skip


def test_regularization_by_the_paper_and_by_a_function():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.uniform(size=300)])
    y = (np.arange(300) % 10 == 0).astype(int)
    scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    beta = scaled[y > 0].std(axis=0, ddof=1) / np.sqrt(30)
    problem = mx.MaxentDensity("l", regularization="practical", multiplier=0.1).problem(X, y)
    np.testing.assert_allclose(problem.potential.elastic(2)[0], 0.1 * beta, rtol=1e-9)
    seen = {}

    def rule(kinds, mean, sd, m):
        seen.update(kinds=kinds.tolist(), mean=mean, sd=sd, m=m)
        return np.full(kinds.size, 0.05)

    model = mx.MaxentDensity("lq", regularization=rule).fit(X, y)
    assert (seen["kinds"], seen["m"]) == (["l", "q", "l", "q"], 30)
    np.testing.assert_allclose(seen["mean"][[0, 2]], scaled[y > 0].mean(axis=0))
    assert set(model.beta_.tolist()) <= {0.05}
    for wrong in (lambda *_: np.ones(3), lambda kinds, *_: np.full(kinds.size, -1.0)):
        with pytest.raises(ValueError, match=r"regularization must give .* 4 features"):
            mx.MaxentDensity("lq", regularization=wrong).fit(X, y)
    with pytest.raises(ValueError, match='None, "practical" or a function'):
        mx.MaxentDensity("lq", regularization="strong").fit(X, y)


def test_the_ball_by_its_own_search():
    X, y = small()
    for multiplier in (1.0, 3.0):
        found = density("lq", "ball", solver="ball-search", multiplier=multiplier).fit(X, y)
        usual = density("lq", "ball", multiplier=multiplier).fit(X, y)
        assert abs(found.gain_ - usual.gain_) < 1e-6
    path = density("lq", "ball", solver="ball-search").path(X, y, multipliers=[2.0, 0.5])
    assert path[0].gain_ < path[1].gain_
