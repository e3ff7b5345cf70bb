"""Several sources in one fit: limit cases, certificates, scale, weights, agreement, bad input."""

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.linear_model import PoissonRegressor

import maxent as mx
from maxent import Source, SourcesTask
from maxent.density import Recipe
from maxent.density.sources import agreement, held_out_weights
from tools import needs

rng = np.random.default_rng(7)
N = 600
X = rng.normal(size=(N, 2))
LOG = 0.8 * X[:, 0] - 0.5 * X[:, 1] - 1.0
AREA = rng.uniform(0.5, 2.0, N)
RECORDS = rng.poisson(0.3 * np.exp(LOG))
FOUND = (rng.random(N) < -np.expm1(-AREA * np.exp(LOG))).astype(float)
COUNTS = rng.poisson(AREA * np.exp(LOG)).astype(float)
FEW = slice(0, 150)


def presences(**more):
    return Source("presences", X, RECORDS, **more)


def survey(**more):
    return Source("survey", X[FEW], FOUND[FEW], **{"area": AREA[FEW], **more})


def counts(**more):
    return Source("counts", X[FEW], COUNTS[FEW], **{"area": AREA[FEW], **more})


def linear(potential="box", **more):
    return Recipe("l", potential, **{"tol": 1e-10, **more})


# -- limit cases -------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["lq", "lqh", "k"])
def test_presences_alone_are_a_density(features):
    density = mx.MaxentDensity(features, tol=1e-10).fit(X, RECORDS, prior=AREA).density_
    fit = SourcesTask.of([presences(area=AREA)], Recipe(features, tol=1e-10)).fit()
    assert fit.log_scale is None
    np.testing.assert_allclose(fit.predict(X), density.predict(X), rtol=1e-6)
    np.testing.assert_allclose(fit.predict(X, "cloglog"), density.predict(X, "cloglog"), rtol=1e-6)
    assert fit.density.certificate.gap <= 1e-10


def scaled(sources=None):
    """The linear features, which are scaled to [0, 1], and a column of ones."""
    rows = X[FEW]
    low, high = rows.min(axis=0), rows.max(axis=0)
    return np.column_stack([(rows - low) / (high - low), np.ones(len(rows))])


def likelihoods(kind, v, size=2.0):
    """Minus the log likelihood of each row by scipy's distributions."""
    eta = scaled() @ v
    mean = AREA[FEW] * np.exp(eta)
    if kind == "survey":
        return -stats.bernoulli.logpmf(FOUND[FEW], -np.expm1(-mean))
    if kind == "counts":
        return -stats.poisson.logpmf(COUNTS[FEW], mean)
    return -stats.nbinom.logpmf(COUNTS[FEW], size, size / (size + mean))


@pytest.mark.parametrize("kind", ["survey", "counts", "overdispersed"])
def test_one_source_is_the_penalised_regression(kind):
    source = {"survey": survey(), "counts": counts(), "overdispersed": counts(size=2.0)}[kind]
    fit = SourcesTask.of([source], linear(mx.Quadratic(0.05))).fit()

    def objective(v):
        return likelihoods(kind, v).sum() / source.n_records + 0.025 * v[:2] @ v[:2]

    found = optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(fit.density.weights, found.x[:2], atol=2e-5)
    assert fit.log_scale == pytest.approx(found.x[2], abs=2e-5)
    start = likelihoods(kind, np.array([*fit.density.weights, fit.log_scale]))
    perfect = fit.sources[0].deviance / 2 - start.sum()
    other = np.array([0.3, -0.2, 0.1])  # the deviance is twice minus the log likelihood, shifted
    theta = scaled() @ other
    assert source.deviance(source.entries(), theta) / 2 - likelihoods(
        kind, other
    ).sum() == pytest.approx(perfect, rel=1e-9)


def test_counts_alone_are_scikit_learns_poisson_regression():
    strength, source = 0.05, counts(area=1.0)
    fit = SourcesTask.of([source], linear(mx.Quadratic(strength))).fit()
    # theirs is a mean over rows, with alpha/2 ||w||^2
    model = PoissonRegressor(alpha=strength * source.n_records / source.n_rows, tol=1e-10)
    model.fit(scaled()[:, :2], COUNTS[FEW])
    np.testing.assert_allclose(fit.density.weights, model.coef_, atol=1e-5)
    np.testing.assert_allclose(
        fit.predict(X[FEW], "count"), model.predict(scaled()[:, :2]), rtol=1e-5
    )


def test_an_l1_penalty_is_the_convex_programme():
    cvxpy = needs("cvxpy")
    fit = SourcesTask.of([presences(), counts()], linear(mx.Box(0.02))).fit()
    both = np.vstack([X, X[FEW]])
    low, high = both.min(axis=0), both.max(axis=0)
    cells, rows = ((x - low) / (high - low) for x in (X, X[FEW]))
    w, b = cvxpy.Variable(2), cvxpy.Variable()
    eta, m = rows @ w + b, RECORDS.sum() + (COUNTS[FEW] > 0).sum()
    loss = RECORDS.sum() * cvxpy.log_sum_exp(cells @ w) - (RECORDS @ cells) @ w
    loss += AREA[FEW] @ cvxpy.exp(eta) - COUNTS[FEW] @ eta
    cvxpy.Problem(cvxpy.Minimize(loss / m + 0.02 * cvxpy.norm1(w))).solve(solver="CLARABEL")
    np.testing.assert_allclose(fit.density.weights, w.value, atol=1e-4)
    assert fit.log_scale == pytest.approx(float(b.value), abs=1e-4)


def test_overdispersion_of_infinite_size_is_poisson():
    few, many = (
        SourcesTask.of([counts(size=size)], linear()).fit().density.weights
        for size in (1e7, np.inf)
    )
    np.testing.assert_allclose(few, many, atol=1e-5)


def test_visits_are_the_rows_of_each_visit():
    visits = rng.integers(1, 4, 150)
    finds = rng.binomial(visits, -np.expm1(-np.exp(LOG[FEW])))
    rows = np.repeat(np.arange(150), visits)
    each = np.concatenate([np.arange(v) < y for v, y in zip(visits, finds, strict=True)])
    one = SourcesTask.of([Source("survey", X[FEW], finds, visits=visits)], linear()).fit()
    many = SourcesTask.of([Source("survey", X[rows], each)], linear()).fit()
    np.testing.assert_allclose(one.density.weights, many.density.weights, atol=1e-6)
    assert one.log_scale == pytest.approx(many.log_scale, abs=1e-6)
    assert one.sources[0].deviance == pytest.approx(many.sources[0].deviance, rel=1e-6)


# -- certificates ------------------------------------------------------------------------------

ALL = [presences(), survey(), counts(name="c"), counts(size=3.0, name="nb")]


@pytest.mark.parametrize(
    "potential", ["box", "quadratic", "elastic", "smooth-box", "laplace", "ball"]
)
def test_every_potential_has_a_gap(potential):
    certificate = SourcesTask.of(ALL, Recipe("lq", potential, tol=1e-7)).fit().density.certificate
    assert certificate.status is mx.Status.CONVERGED
    assert certificate.gap <= 1e-7


def test_the_gap_is_primal_plus_dual():
    problem = SourcesTask.of(ALL, Recipe("lq", "quadratic")).problem
    w = 0.1 * np.random.default_rng(0).normal(size=problem.features.n_features)
    state = problem.state(w)
    assert state.gap == pytest.approx(problem.primal(state.p) + problem.dual(w), rel=1e-9)
    best = problem.solve(tol=1e-12)
    assert problem.dual(w) - best.objective <= state.gap
    assert problem.primal(best.p) == pytest.approx(-best.objective, rel=1e-9)


def test_the_pulled_gap_bounds_the_objective_from_the_first_step():
    problem = SourcesTask.of(ALL, Recipe("lqh")).problem
    best = problem.solve(tol=1e-10)
    start = problem.origin()
    assert np.isfinite(start.gap)
    assert start.dual - best.objective <= start.gap


def test_gradients_are_differences():
    problem = SourcesTask.of(ALL, Recipe("lq", "quadratic")).problem
    draw = np.random.default_rng(1)
    w, v = (0.3 * draw.normal(size=problem.features.n_features) for _ in range(2))
    slope = (problem.smooth(w + 1e-5 * v)[0] - problem.smooth(w - 1e-5 * v)[0]) / 2e-5
    assert problem.smooth(w)[1] @ v == pytest.approx(slope, rel=1e-7)
    bend = (problem.smooth(w + 1e-5 * v)[1] - problem.smooth(w - 1e-5 * v)[1]) / 2e-5
    evaluation = problem.state(w).evaluation
    np.testing.assert_allclose(evaluation.hessian_product(v), bend, atol=1e-7)
    np.testing.assert_allclose(evaluation.hessian() @ v, bend, atol=1e-7)


def test_several_sources_of_presences_agree_with_one_of_counts():
    # two thinnings of one process: each has a scale of its own, as counts with own_scale have
    one, two = (
        Source("presences", X, RECORDS * (rng.random(N) < p), name=f"{p}") for p in (0.7, 0.5)
    )
    fit = SourcesTask.of([one, two], linear("quadratic", tol=1e-9)).fit()
    seen = [Source("counts", X, s.y, own_scale=True, name=s.name) for s in (one, two)]
    m = one.n_records + two.n_records
    task = SourcesTask.of(seen, linear(mx.Quadratic(1.0), tol=1e-9))
    beta = SourcesTask.of([one, two], linear("quadratic")).posed.beta
    assert m == one.y.sum() + two.y.sum()
    records = task.n_records / m  # counts above 1 are one record
    other = SourcesTask.of(seen, linear(mx.Quadratic(beta**2 / records), tol=1e-9)).fit()
    np.testing.assert_allclose(fit.density.weights, other.density.weights, atol=1e-4)
    assert other.log_scale is None


# -- scale and effort --------------------------------------------------------------------------


def test_the_scale_is_known_with_areas_and_not_without():
    assert not SourcesTask.of([presences()], linear()).is_absolute
    assert not SourcesTask.of([survey(own_scale=True)], linear()).is_absolute
    fit = SourcesTask.of([presences(), survey(), counts()], linear()).fit()
    assert fit.is_absolute
    assert np.log(fit.predict(X)).mean() == pytest.approx(LOG.mean(), abs=0.15)
    half = fit.predict(X, "probability", area=0.5)
    np.testing.assert_allclose(half, -np.expm1(-0.5 * fit.predict(X)))
    np.testing.assert_allclose(fit.predict(X, "count", area=AREA), AREA * fit.predict(X))


def test_other_units_of_area_change_the_scale_alone():
    one = SourcesTask.of([presences(), survey()], linear()).fit()
    metres = SourcesTask.of([presences(), survey(area=1e6 * AREA[FEW])], linear()).fit()
    np.testing.assert_allclose(one.density.weights, metres.density.weights, atol=1e-6)
    assert one.log_scale - metres.log_scale == pytest.approx(np.log(1e6), abs=1e-5)


def test_effort_takes_the_bias_of_records_out():
    road = rng.normal(size=N)
    table = np.column_stack([X, road])
    thinned = rng.poisson(2 * np.exp(LOG + 1.0 * road))
    seen = Source("survey", table[FEW], FOUND[FEW], area=AREA[FEW])
    plain = SourcesTask.of([Source("presences", table, thinned), seen], linear()).fit()
    told = Source("presences", table, thinned, effort={"road": road})
    fit = SourcesTask.of([told, seen], linear()).fit()
    assert abs(fit.density.coef.get("x2", 0.0)) < 0.5 * abs(plain.density.coef["x2"])
    assert fit.sources[0].effort["road"] == pytest.approx(1.0, abs=0.25)
    assert fit.deviance(told) == pytest.approx(fit.sources[0].deviance, rel=1e-6)
    assert fit.deviance(seen) == pytest.approx(fit.sources[1].deviance, rel=1e-6)


def test_a_source_is_no_model(tmp_path):
    source = mx.Source("counts", [[0.0], [1.0]], [0, 3])
    with pytest.raises(TypeError, match="holds a table of data; save the intensity"):
        mx.save(source, tmp_path / "source.json")


def test_the_gain_of_presences_alone_is_that_of_their_density():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(np.exp(X[:, 0] - 1))
    told = mx.IntegratedDensity("lq").fit([mx.Source("presences", X, y)]).density_.certificate
    expected = mx.MaxentDensity("lq").fit(X, y).density_.certificate
    assert told.unregularized_gain == pytest.approx(expected.unregularized_gain, abs=1e-4)
    both = mx.IntegratedDensity("lq").fit(
        [mx.Source("presences", X, y), mx.Source("counts", X, 1000 * y)]
    )
    logs = both.density_.predict(X, "log")
    gain = y @ logs / y.sum() + np.log(len(X))
    assert both.density_.certificate.unregularized_gain == pytest.approx(gain, abs=1e-9)


def test_a_source_with_a_scale_of_its_own_leaves_the_others_theirs():
    half = counts(own_scale=True, name="half")  # sees an unknown share
    fit = SourcesTask.of([survey(), half], linear()).fit()
    less = Source("counts", X[FEW], COUNTS[FEW], area=2 * AREA[FEW], own_scale=True, name="half")
    other = SourcesTask.of([survey(), less], linear()).fit()
    assert fit.log_scale == pytest.approx(other.log_scale, abs=1e-6)
    assert fit.sources[1].offset - other.sources[1].offset == pytest.approx(np.log(2), abs=1e-5)
    assert fit.deviance(half) == pytest.approx(fit.sources[1].deviance, rel=1e-9)
    assert fit.deviance(survey()) == pytest.approx(fit.sources[0].deviance, rel=1e-9)


def test_a_constant_effort_is_left_out():
    flat = presences(effort={"road": np.full(N, 3.0)})
    with pytest.warns(UserWarning, match="effort road is constant and left out"):
        fit = SourcesTask.of([flat], linear()).fit()
    plain = SourcesTask.of([presences()], linear()).fit()
    np.testing.assert_array_equal(fit.density.weights, plain.density.weights)


def test_a_deviation_takes_up_what_a_source_says_against_the_others():
    wrong = rng.poisson(0.3 * np.exp(LOG - 1.6 * X[:, 0]))  # records fall where the species rises
    fits = [
        SourcesTask.of([Source("presences", X, wrong, deviation=d), survey()], recipe).fit()
        for recipe in [linear("quadratic", tol=1e-8)]
        for d in (0.0, 1e-9, 1e4)
    ]
    none, little, free = (fit.density.weights for fit in fits)
    alone = SourcesTask.of([survey()], Recipe("l", mx.Quadratic(1e-4))).fit().density.weights
    np.testing.assert_allclose(none, little, atol=1e-3)
    assert abs(free[0] - alone[0]) < 0.5 < abs(none[0] - alone[0])
    told = fits[2].deviation(X, "presences")
    assert np.polyfit(X[:, 0], told, 1)[0] == pytest.approx(-1.6, abs=0.4)
    assert not fits[2].deviation(X, "survey").any()
    new = Source("presences", X, wrong)
    assert fits[2].deviance(new) == pytest.approx(fits[2].sources[0].deviance, rel=1e-9)
    with pytest.raises(ValueError, match="no source is called 'birds'"):
        fits[2].deviation(X, "birds")


def test_features_of_some_cells_are_columns_with_zeros():
    task = SourcesTask.of(
        [presences(deviation=1.0), survey(deviation=0.5)], Recipe("lqh", "quadratic")
    )
    problem, draw = task.problem, np.random.default_rng(0)
    features = problem.features
    matrix, w = features.columns(), draw.normal(size=features.n_features)
    p = draw.random(features.n_cells)
    np.testing.assert_allclose(features.scores(w), matrix @ w, atol=1e-10)
    np.testing.assert_allclose(features.moments(p), matrix.T @ p, atol=1e-10)
    np.testing.assert_allclose(features.squares(p), (matrix**2).T @ p, atol=1e-10)
    np.testing.assert_allclose(features.gram(p, None), matrix.T @ (p[:, None] * matrix), atol=1e-8)
    cells = np.array([3, 4, 4, 599, 600, 700])
    part = mx.OperatorMap([bound.take(cells) for bound in features.parts], cells.size)
    np.testing.assert_allclose(part.columns(), matrix[cells], atol=1e-12)
    some = np.arange(0, features.n_features, 3)
    np.testing.assert_allclose(features.restrict(some).columns(), matrix[:, some], atol=1e-12)


# -- weights and agreement ---------------------------------------------------------------------


def test_a_weight_multiplies_the_likelihood():
    twice = SourcesTask.of([survey(weight=2.0)], linear(mx.Quadratic(0.1)))
    half = SourcesTask.of([survey()], linear(mx.Quadratic(0.05)))
    np.testing.assert_allclose(twice.fit().density.weights, half.fit().density.weights, atol=1e-5)


def test_a_wrong_source_is_found_and_gets_little_weight():
    wrong = Source("presences", -X, RECORDS)
    right = agreement([presences(), survey()], linear())
    other = agreement([wrong, survey()], linear())
    assert right.p_value > 0.05
    assert other.p_value < 1e-6
    assert right.statistic > -1e-6
    choice = held_out_weights(SourcesTask.of([wrong, survey()], linear(tol=1e-7)), "survey")
    assert choice.weight <= 0.03
    assert held_out_weights(SourcesTask.of([presences(), survey()], linear()), "survey").weight == 1
    model = mx.IntegratedDensity("l", weights="held-out").fit([wrong, survey()])
    assert [s.weight for s in model.sources_ if s.kind == "presences"] in ([], [0.03])


def test_parts_of_a_task_are_tasks_of_parts():
    task = SourcesTask.of([presences(), survey()], linear())
    rows = np.arange(150) % 2 == 0
    part = task.among([None, rows])
    direct = SourcesTask.of([survey().take(np.flatnonzero(rows))], linear())
    assert part.n_records == direct.n_records
    assert part.sources[0].n_rows == 75
    assert part.fit().is_absolute


def test_files_keep_the_intensity(tmp_path):
    model = mx.IntegratedDensity("lq").fit([presences(), survey(effort={"rain": X[FEW, 0] ** 2})])
    for thing in (model, model.intensity_):
        mx.save(thing, tmp_path / "model.maxent")
        again = mx.load(tmp_path / "model.maxent")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.summary() == model.summary()


# -- bad input ---------------------------------------------------------------------------------

Z = np.arange(6.0)[:, None]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Source("sightings", Z, Z[:, 0]), "kind must be one of presences, survey, counts"),
        (lambda: Source("counts", Z, [0, -2, 0, 0, 1, 1]), "cannot be negative, got -2 in row 1"),
        (lambda: Source("counts", Z, [0, 1, 2.5, 0, 0, 0]), "must be integers, got 2.5 in row 2"),
        (
            lambda: Source("counts", Z, [0, 1, np.nan, 0, 0, 0]),
            "y is missing or infinite in 1 rows",
        ),
        (lambda: Source("survey", Z, [0, 1, 2, 0, 0, 0]), 'individuals are kind="counts"'),
        (
            lambda: Source("survey", Z, [0, 1, 1, 0, 0, 0], area=0),
            "area must be > 0, got 0 in row 0",
        ),
        (
            lambda: Source("survey", Z, [0, 1, 1, 0, 0, 0], area=[1, 1, 1, 1, np.nan, 1]),
            "area is missing or infinite in 1 rows, the first row 4",
        ),
        (
            lambda: Source("survey", Z, [0, 1, 1, 0]),
            r"y needs one number per row of X, shape \(6,\)",
        ),
        (
            lambda: Source("survey", Z, [0, 1, 1, 0, 0, 0], area=[1, 2]),
            "area needs one number per row",
        ),
        (lambda: Source("survey", Z[:, 0], Z[:, 0]), "X must be a table"),
        (lambda: Source("survey", Z, ["a"] * 6), "y must be numbers"),
        (lambda: Source("survey", Z, None), "has no y: give a number for each row"),
        (
            lambda: Source("survey", Z, np.ones(6), effort=np.ones((5, 2))),
            "effort needs a row for each",
        ),
        (
            lambda: Source("survey", Z, np.ones(6), effort={"road": [1, 2, 3, 4, 5, np.inf]}),
            "effort 'road' is missing or infinite",
        ),
        (lambda: Source("survey", Z, np.ones(6), visits=0), "visits must be integers >= 1"),
        (lambda: Source("counts", Z, np.ones(6), visits=2), "visits are for surveys"),
        (lambda: Source("counts", Z, np.ones(6), size=0), "size must be > 0"),
        (lambda: Source("survey", Z, np.ones(6), size=2), "size is for counts"),
        (lambda: Source("survey", Z, np.ones(6), deviation=-1), "deviation must be 0"),
        (lambda: Source("survey", Z, np.ones(6), weight=0), "weight must be a positive number"),
        (lambda: Source("presences", Z, np.zeros(6)), "has no presence"),
        (lambda: Source("presences", Z, np.ones(6)), "has no background"),
        (lambda: Source("presences", Z, Z[:, 0], own_scale=True), "presences never know the scale"),
    ],
)
def test_bad_sources_say_what_is_wrong(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(("y", "words"), [(0.0, "nothing anywhere"), (1.0, "at every visit")])
def test_a_survey_without_contrast_tells_no_scale(y, words):
    flat = Source("survey", X[FEW], np.full(150, y))
    with pytest.raises(ValueError, match=f"{words}, and no other source"):
        SourcesTask.of([flat], linear())
    with pytest.warns(UserWarning, match="is left out, and tells no scale"):
        fit = SourcesTask.of([presences(), flat], linear()).fit()
    assert not fit.is_absolute
    with pytest.raises(ValueError, match="needs the absolute scale"):
        fit.predict(X, "probability")
    # beside a survey with contrast it says what it says
    assert SourcesTask.of([counts(), flat], linear()).fit().is_absolute


def test_sources_need_common_columns():
    import pandas as pd

    table = pd.DataFrame(X, columns=["rain", "heat"])
    other = pd.DataFrame(X[FEW], columns=["rain", "slope"])
    with pytest.raises(ValueError, match=r"alone has \['heat'\], 'survey' alone has \['slope'\]"):
        SourcesTask.of([Source("presences", table, RECORDS), Source("survey", other, FOUND[FEW])])
    with pytest.raises(ValueError, match="'presences' has 2, 'survey' has 1"):
        SourcesTask.of([presences(), Source("survey", X[FEW, :1], FOUND[FEW])])
    with pytest.raises(ValueError, match="no common columns"):
        SourcesTask.of([Source("presences", table, RECORDS), survey()])
    with pytest.raises(ValueError, match="different names"):
        SourcesTask.of([survey(), survey()])
    with pytest.raises(TypeError, match="expected a list of Source"):
        SourcesTask.of([X])


def test_columns_are_read_by_name_and_levels_are_of_all_sources():
    import pandas as pd

    soil = np.where(X[:, 0] > 0, "clay", "sand")
    table = pd.DataFrame({"rain": X[:, 1], "soil": soil})
    sites = pd.DataFrame({"soil": "rock", "rain": X[FEW, 1]})
    fit = mx.IntegratedDensity("lc", "quadratic").fit(
        [Source("presences", table, RECORDS), Source("survey", sites, FOUND[FEW], area=AREA[FEW])]
    )
    assert fit.density_.schema.levels == (("clay", "rock", "sand"),)
    assert fit.predict(table[["soil", "rain"]]).shape == (N,)


def test_rows_with_missing_predictors():
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        mx.IntegratedDensity("l").fit([Source("presences", broken, RECORDS)])
    kept = mx.IntegratedDensity("l", missing="drop").fit([Source("presences", broken, RECORDS)])
    rows = np.delete(np.arange(N), 3)
    without = mx.IntegratedDensity("l").fit([presences().take(rows)])
    assert kept.coef_ == without.coef_


def test_settings_that_make_no_sense_here():
    with pytest.raises(ValueError, match="Shannon's entropy"):
        SourcesTask.of([presences()], Recipe(entropy=mx.Tsallis(1.5)))
    with pytest.raises(ValueError, match="weights must be one of"):
        mx.IntegratedDensity(weights="guess").fit([presences()])
    with pytest.raises(ValueError, match="needs a survey or counts"):
        mx.IntegratedDensity(weights="held-out").fit([presences(), presences(name="b")])
    with pytest.raises(ValueError, match="area must be a number > 0"):
        mx.IntegratedDensity("l").fit([survey()]).predict(X, "count", area=-1)


def test_what_dask_says_of_rows_in_memory_is_computed():
    arrays = needs("dask.array")
    found, areas = (arrays.from_array(x[FEW], chunks=40) for x in (FOUND, AREA))
    source = Source("survey", X[FEW], found, area=areas)
    assert not source.in_blocks
    assert np.array_equal(source.y, FOUND[FEW])
    assert np.array_equal(source.area, AREA[FEW])
