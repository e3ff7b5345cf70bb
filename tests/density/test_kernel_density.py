"""Densities with features of kernels: fits, penalties, files and everything that reads a fit."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent.density import explanation
from maxent.features import Kernel, bind
from maxent.species import Sample
from maxent.species.judging.importance import gain_shares, importance, jackknife
from maxent.species.judging.responses import responses
from tools import needs


@pytest.fixture(scope="module")
def table():
    """Cells with a curved response to warmth, one to soil, and records."""
    rng = np.random.default_rng(3)
    n = 400
    X = pd.DataFrame(
        {
            "warm": rng.normal(10, 4, n),
            "rain": rng.gamma(3, 100, n),
            "soil": rng.choice(["clay", "loam", "sand"], n),
            "x": rng.uniform(0, 9, n),
            "y": rng.uniform(0, 5, n),
        }
    )
    eta = -((X.warm - 12) ** 2) / 12 + (X.soil == "loam") + 0.3 * X.x
    p = np.exp(eta)
    return X, rng.multinomial(80, p / p.sum()).astype(float)


def fitted(table, columns=("warm", "rain", "soil"), features="k", **settings):
    X, y = table
    return mx.MaxentDensity(features, verbose=0, **settings).fit(X[list(columns)], y)


def test_the_penalty_of_a_kernel_is_its_norm(table):
    """Named potentials give it Quadratic(1 / m), and l1 to the features beside it."""
    X, _ = table
    model = fitted(table)
    own = fitted(table, features=[Kernel()], potential=mx.Quadratic(1 / 80))
    assert model.gap_ <= model.tol
    np.testing.assert_allclose(
        model.predict(X[["warm", "rain", "soil"]], "log"),
        own.predict(X[["warm", "rain", "soil"]], "log"),
        atol=1e-3,
    )
    np.testing.assert_allclose(model.beta_, 1 / np.sqrt(80))
    for potential in ("quadratic", "elastic", "smooth-box", "laplace", "ball"):
        same = fitted(table, potential=potential)
        np.testing.assert_allclose(same.gain_, model.gain_, atol=2 * model.tol)
    both = fitted(table, features="lqk")
    assert both.gap_ <= both.tol
    assert both.gain_ >= model.gain_ - 1e-6  # more features, each at its price
    kinds = both.density_.kinds
    assert (kinds == "k").sum() == (model.density_.kinds == "k").sum()
    np.testing.assert_allclose(both.beta_[kinds == "k"], 1 / np.sqrt(80))


def test_the_optimum_is_that_of_the_exact_kernel(table):
    """With all places as landmarks: log p of the Gaussian process at its mode, solved densely."""
    from scipy.optimize import minimize

    X, y = table
    X, y = X[["warm", "rain", "soil"]].iloc[:120], y[:120]
    model = mx.MaxentDensity("k", tol=1e-10, verbose=0).fit(X, y)
    cells = model.density_.schema.read(X)
    phi = mx.Kernel().fit(cells, model.density_.schema, np.arange(120))[0]
    ready = phi._ready(cells)
    K = phi._similar(ready, ready) + 1e-10 * np.eye(120)
    L, mu, m = np.linalg.cholesky(K), y / y.sum(), y.sum()

    def loss(v):
        f = L @ v
        top = f.max()
        p = np.exp(f - top)
        value = top + np.log(p.sum()) - mu @ f + v @ v / (2 * m)
        return value, L.T @ (p / p.sum() - mu) + v / m

    best = minimize(
        loss,
        np.zeros(120),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
    )
    f = L @ best.x
    np.testing.assert_allclose(model.predict(X), np.exp(f) / np.exp(f).sum(), rtol=2e-3)


@pytest.mark.parametrize("spatial", [0.0, 0.3])
def test_saved_and_loaded(table, tmp_path, spatial):
    X, _ = table
    model = fitted(table, X.columns, [Kernel(spatial=spatial, landmarks=60), mx.Linear()])
    mx.save(model.density_, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    for output in ("raw", "cloglog", "cumulative"):
        np.testing.assert_array_equal(again.predict(X, output), model.density_.predict(X, output))
    np.testing.assert_array_equal(again.explain(X[:5]).shares, model.density_.explain(X[:5]).shares)
    assert "pickle" not in (tmp_path / "model.json").read_text()
    assert abs(model.predict(X).sum() - 1) < 1e-10
    assert again.operators[0].residual_max == model.density_.operators[0].residual_max


def test_values_beyond_the_fit_are_clamped(table):
    X, _ = table
    X = X[["warm", "rain", "soil"]]
    density = fitted(table).density_
    far = X[:4].assign(warm=[-500.0, 900.0, 12.0, 12.0], rain=[300.0, 300.0, -1e6, 1e7])
    ends = far.assign(
        warm=far.warm.clip(X.warm.min(), X.warm.max()),
        rain=far.rain.clip(X.rain.min(), X.rain.max()),
    )
    np.testing.assert_allclose(density.predict(far, "log"), density.predict(ends, "log"))
    free = density.predict(far, "log", clamp=False)
    assert np.isfinite(free).all()
    assert np.abs(free - density.predict(ends, "log")).min() > 1e-3


def shapley(game, size):
    """The mean over all orders of what each player adds."""
    shares = 0
    for order in permutations(range(size)):
        members, row = frozenset(), [None] * size
        for player in order:
            row[player] = game(members | {player}) - game(members)
            members = members | {player}
        shares = shares + np.array(row)
    return shares.T / len(list(permutations(range(size))))


def test_explanations_are_shapley_values_of_the_whole_exponent(table):
    """Of all terms at once, though each is taken by itself."""
    X, _ = table
    density = fitted(table, X.columns, [Kernel(spatial=0.3, landmarks=50)]).density_
    names, place, cells = density.schema.names, density.mean_place, density.schema.read(X[:3])
    shares = place.shares[0]

    def game(members):
        total = 0.0
        for level, share in enumerate(shares):
            values, codes = cells.values.copy(), cells.codes.copy()
            for v, name in enumerate(density.schema.continuous):
                if names.index(name) not in members:
                    values[v] = place.values[v]
            if names.index("soil") not in members:
                codes[0] = level
            total = total + share * density.scorer.scores(type(cells)(values, codes))
        return total

    told = density.explain(X[:3])
    np.testing.assert_allclose(told.exponent, density.scores(X[:3]), atol=1e-10)
    np.testing.assert_allclose(told.shares, shapley(game, 5), atol=1e-9)


def test_many_variables_are_explained_by_some_orders(table, monkeypatch):
    X, _ = table
    density = fitted(table, X.columns).density_
    exact = density.explain(X[:20])
    monkeypatch.setattr(explanation, "_MOST_VARIABLES", 2)
    some = density.explain(X[:20])
    np.testing.assert_allclose(some.exponent, exact.exponent, atol=1e-10)
    np.testing.assert_allclose(some.shares, exact.shares, atol=0.1 * np.abs(exact.shares).max())
    assert (some.shares != exact.shares).any()


def test_profiles_are_the_terms_of_one_variable(table):
    alone = fitted(table, features=[Kernel(joint=0.0)]).density_
    curve = alone.profile("warm", 30)
    assert curve.complete
    X, _ = table
    moved = pd.concat([X[["warm", "rain", "soil"]].iloc[:1]] * 30).assign(warm=curve.x)
    score = alone.scores(moved)
    np.testing.assert_allclose(curve.y - curve.y[0], score - score[0], atol=1e-9)
    assert not fitted(table).density_.profile("warm").complete
    assert len(alone.profile("soil").x) == 3


def test_contributions_permutations_and_refits(table):
    X, y = table
    sample = Sample(X[["warm", "rain", "soil"]], y)
    model = fitted(table)
    shares = gain_shares(model, sample)
    np.testing.assert_allclose(shares.sum(), model.unregularized_gain_, atol=1e-5)
    told = importance(model, sample, repeats=3)
    np.testing.assert_allclose(told.contribution.sum(), 100)
    assert told.permutation.argmax() == told.contribution.argmax() == 0
    recipe = model.recipe()
    scores = jackknife(recipe, sample, n_jobs=1, verbose=0).scores["train_gain"]
    assert scores["only"].argmax() == 0
    assert scores["without"].argmin() == 0
    assert scores["all"] >= scores["without"].max() - 1e-4
    curves = responses(recipe, model, sample, bootstrap=2, n=20, n_jobs=1, verbose=0)
    assert len(curves) == 6


def test_a_kernel_of_fewer_variables_is_that_of_these_alone(table):
    """Refits without a variable: the same landmarks, the other terms."""
    X, y = table
    X = X[["warm", "rain", "soil"]]
    task = mx.MaxentDensity("lk", verbose=0).recipe().task(X, y)
    rest, index = task.without("rain")
    assert index[0] == 0
    assert (index[-5:] == -1).all()
    cells = task.points.cells
    moved = cells.values.copy()
    moved[1] = moved[1, ::-1]
    other = type(cells)(moved, cells.codes)
    w = np.ones(rest.features.n_features)
    np.testing.assert_allclose(bind(rest.operators, other).scores(w), rest.features.scores(w))
    (phi,) = [o for o in rest.operators if o.kinds()[0] == "k"]
    assert phi.names()[0] == "kernel 1"
    assert not phi.uses_columns(["rain"]).any()
    assert phi.uses_columns(["warm", "soil"]).all()
    alone = task.only("soil")
    assert alone.features.n_features <= 3
    assert alone.fit().density.certificate.gain < task.fit().density.certificate.gain


def test_the_loss_is_bounded_for_features_of_any_range(table):
    model = fitted(table)
    bound = model.density_.bound()
    assert np.isfinite(bound.value) if hasattr(bound, "value") else "at most" in str(bound)
    low, high = model.density_.operators[0].ranges()
    assert (high > low).all()


def test_box_of_ones_own_makes_weights_zero(table):
    """A Potential is taken as it is, and sampled Gram matrices know features of both signs."""
    X, _ = table
    model = fitted(table, potential=mx.Box(0.02))
    assert model.gap_ <= model.tol
    assert 0 < len(model.coef_) < model.n_features_ / 4
    assert abs(model.predict(X[["warm", "rain", "soil"]]).sum() - 1) < 1e-10


def test_paths_cross_validation_and_other_entropies(table):
    X, y = table
    X = X[["warm", "rain", "soil"]]
    path = mx.MaxentDensity("k", verbose=0).path(X, y, multipliers=[10.0, 1.0, 0.1])
    gains = [model.gain_ for model in path]
    assert gains == sorted(gains)
    np.testing.assert_allclose(gains[1], fitted(table).gain_, atol=1e-6)
    chosen = mx.MaxentDensityCV(("k",), multipliers=(0.3, 30.0), cv=3, verbose=0).fit(X, y)
    assert chosen.gap_ <= 1e-7
    sparse = fitted(table, entropy=mx.Tsallis(2.0), multiplier=0.05)
    assert sparse.gap_ <= sparse.tol
    assert (sparse.predict(X) == 0).any()


def test_the_posterior_of_a_kernel_is_that_of_a_gaussian_process(table):
    """Sigma = (m Cov_q(phi) + c I)^-1: the multiplier is the precision of the prior."""
    from maxent.density.posterior import Posterior

    X, _ = table
    X = X[["warm", "rain", "soil"]]
    for c in (1.0, 4.0):
        density = fitted(table, multiplier=c).density_
        F = bind(density.operators, density.schema.read(X)).columns()
        q = density.predict(X)
        precision = 80 * ((F.T * q) @ F - np.outer(q @ F, q @ F)) + c * np.eye(F.shape[1])
        found = Posterior.from_density(density, X).covariance
        np.testing.assert_allclose(found, np.linalg.inv(precision), atol=1e-8)


def test_two_kernels_need_two_names(table):
    kernels = [Kernel(landmarks=20), Kernel(landmarks=30, family="gaussian")]
    with pytest.raises(ValueError, match="two kernels are called 'kernel': give one another name"):
        fitted(table, features=kernels)
    both = fitted(table, features=[kernels[0], Kernel(landmarks=30, name="smooth")])
    assert len(both.coef_) == len(both.density_.weights)
    assert {"kernel 1", "smooth 1"} <= both.coef_.keys()


def test_means_of_densities_keep_their_kernels(table):
    from maxent.density import Points
    from maxent.density.pool import log_pool

    X, y = table
    X = X[["warm", "rain", "soil"]]
    members = [fitted(table).density_, fitted(table, features="lck").density_]
    pooled = log_pool(members, [0.25, 0.75], Points.from_table(X, y),
                      [member.certificate for member in members])  # fmt: skip
    logs = 0.25 * members[0].predict(X, "log") + 0.75 * members[1].predict(X, "log")
    np.testing.assert_allclose(pooled.predict(X), np.exp(logs) / np.exp(logs).sum(), rtol=1e-9)
    assert len(pooled.coef) == pooled.weights.size
    assert np.isfinite(pooled.explain(X[:2]).shares).all()


def test_tables_in_blocks_are_refused_in_words(table):
    da = needs("dask.array")
    X, y = table
    values = da.from_array(X[["warm", "rain"]].to_numpy(), chunks=(100, 2))
    with pytest.raises(TypeError, match=r"Kernel is fitted to all cells at once.*--background"):
        mx.MaxentDensity("k", verbose=0).fit(values, da.from_array(y, chunks=100))


def test_lambdas_files_have_no_line_for_it(table, tmp_path):
    from maxent.density.lambdas import write_lambdas

    with pytest.raises(ValueError, match="no line for the features of KernelFeatures"):
        write_lambdas(fitted(table, ("warm", "rain")), tmp_path / "x.lambdas")
