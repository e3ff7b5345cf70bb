"""Fenchel-Young estimators: peers, optima by other means, weights, kernels, odd input, saving."""

import pickle
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxent as mx
from maxent.core.solvers.newton_cg import NewtonCG
from maxent.learn.linear.two_classes import one_output
from tools import needs

QUIET = {"verbose": 0}


def classifier(*args, **settings):
    return mx.FenchelYoungClassifier(*args, **{"tol": 1e-10, **QUIET, **settings})


def regressor(*args, **settings):
    return mx.FenchelYoungRegressor(*args, **{"tol": 1e-10, **QUIET, **settings})


def multilabel(*args, **settings):
    return mx.FenchelYoungMultilabel(*args, **{"tol": 1e-10, **QUIET, **settings})


@contextmanager
def counted_products():
    """The vectors that Newton's method multiplies by the Hessian."""
    seen, step = [], NewtonCG._step

    def counted(self, model, gradient):
        def product(v):
            seen.append(v)
            return model.product(v)

        return step(self, model._replace(product=product), gradient)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NewtonCG, "_step", counted)
        yield seen


def samples(classes=3, n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    W = rng.normal(size=(d, classes))
    return X, np.argmax(X @ W + rng.gumbel(size=(n, classes)), axis=1)


def proportions(labels=4, n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = rng.dirichlet(np.full(labels, 0.3), size=n)
    Y[Y < 0.05] = 0
    return X, Y / Y.sum(axis=1, keepdims=True)


def indicators(labels=4, n=80, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, labels)) + rng.logistic(size=(n, labels)) > 0).astype(int)


# -- peers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("balanced", [None, "balanced"])
def test_shannon_and_a_quadratic_are_logistic_regression(classes, intercept, balanced):
    X, y = samples(classes)
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    peer = LogisticRegression(
        C=1.0, fit_intercept=intercept, class_weight=balanced, tol=1e-12, max_iter=10_000
    ).fit(X, y, weight)
    total = weight.sum()  # "balanced" keeps the sum
    model = classifier("shannon", potential=1 / total, fit_intercept=intercept)
    model.set_params(class_weight=balanced, tol=1e-14 if not intercept else 1e-11)
    model.fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-5)
    assert model.gap_ < 1e-8


def test_class_weights_by_name_and_number():
    X, y = samples()
    given = classifier(class_weight={0: 2.0, 1: 1.0, 2: 3.0}).fit(X, y)
    weight = np.array([2.0, 1.0, 3.0])[y]
    np.testing.assert_allclose(given.coef_, classifier().fit(X, y, weight).coef_, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_are_repetitions(alpha, classes):
    X, y = samples(classes)
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    weighted = classifier(alpha=alpha).fit(X, y, weight)
    repeated = classifier(alpha=alpha).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    np.testing.assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-9)
    scaled = classifier(alpha=alpha).fit(X, y, 17.0 * weight)
    np.testing.assert_allclose(weighted.coef_, scaled.coef_, atol=1e-8)


def test_zero_and_the_cost_are_crammer_and_singers_hinge():
    X, y = samples(n=80)
    C = 0.5
    peer = LinearSVC(
        multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-10, max_iter=200_000
    ).fit(X, y)
    model = classifier(
        mx.Zero(), potential=1 / (C * len(y)), cost=1 - np.eye(3), fit_intercept=False, tol=1e-8
    ).fit(X, y)
    assert model.gap_ <= 1e-8
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-3)
    ranked = np.sort(model.decision_function(X), axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-2
    np.testing.assert_array_equal(model.predict(X)[clear], peer.predict(X)[clear])


def test_one_vs_all_is_a_logistic_regression_a_label():
    X, Y = indicators()
    model = multilabel(potential=1 / len(X)).fit(X, Y)
    for j in range(Y.shape[1]):
        peer = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(X, Y[:, j])
        np.testing.assert_allclose(model.coef_[j], peer.coef_[0], atol=1e-5)
        np.testing.assert_allclose(model.intercept_[j], peer.intercept_[0], atol=1e-5)
        np.testing.assert_allclose(
            model.predict_proba(X)[:, j], peer.predict_proba(X)[:, 1], atol=1e-5
        )
        np.testing.assert_array_equal(model.predict(X)[:, j], peer.predict(X))


# -- optima by other means -----------------------------------------------------------------------


def by_bfgs(objective, size):
    found = optimize.minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B",
                              options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 20_000,
                                       "maxfun": 100_000, "maxcor": 50})  # fmt: skip
    return found.fun


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_optimum_is_scipys(alpha, intercept):
    X, Y = proportions()
    n, d, k = *X.shape, Y.shape[1]
    loss = mx.FenchelYoungLoss(mx.Tsallis(alpha))
    strength = 0.01

    def objective(w):
        W, b = w[: d * k].reshape(d, k), w[d * k :] if intercept else 0.0
        values, slope = loss.value_and_gradient(X @ W + b, Y)
        gradient = (X.T @ slope / n + strength * W).ravel()
        if intercept:
            gradient = np.concatenate([gradient, slope.mean(axis=0)])
        return values.mean() + strength / 2 * np.sum(W**2), gradient

    model = regressor(alpha=alpha, potential=strength, fit_intercept=intercept).fit(X, Y)
    best = by_bfgs(objective, d * k + (k if intercept else 0))
    assert model.objective_ == pytest.approx(best, abs=1e-8)
    assert model.objective_ - best <= model.gap_ + 1e-12
    assert model.gap_ < 1e-7


def test_sparsemax_with_an_elastic_net_is_cvxpys():
    cp = needs("cvxpy")
    X, y = samples(n=40)
    n, d, k = *X.shape, 3
    Y = np.eye(k)[y]
    W, b = cp.Variable((d, k)), cp.Variable(k)
    theta = X @ W + np.ones((n, 1)) @ cp.reshape(b, (1, k), order="C")
    P, tau = cp.Variable((n, k), nonneg=True), cp.Variable((n, 1))
    # Omega*(theta) = min_tau tau + sum [theta - tau]_+^2 / 2 on the simplex
    conjugate = cp.sum(tau) + cp.sum_squares(P) / 2
    above = [theta - tau @ np.ones((1, k)) <= P]
    loss = (conjugate - cp.sum(cp.multiply(theta, Y)) + n / 2) / n
    penalty = 0.02 * cp.sum(cp.abs(W)) + 0.05 / 2 * cp.sum_squares(W)
    best = cp.Problem(cp.Minimize(loss + penalty), above).solve(solver="CLARABEL")
    model = classifier(mx.SquaredNorm(), potential=mx.ElasticNet(0.02, 0.05)).fit(X, y)
    assert model.objective_ == pytest.approx(best, abs=1e-6)
    np.testing.assert_allclose(model.coef_, W.value.T, atol=1e-4)
    same = classifier(alpha=2, potential=mx.ElasticNet(0.02, 0.05)).fit(X, y)
    np.testing.assert_allclose(same.coef_, model.coef_, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("entropy", ["shannon", "tsallis"])
def test_costs_raise_the_scores_in_training_only(classes, entropy):
    X, y = samples(classes)
    rng = np.random.default_rng(3)
    cost = rng.uniform(0, 2, size=(classes, classes)) * (1 - np.eye(classes))
    model = classifier(entropy, potential=0.05, cost=cost, fit_intercept=False).fit(X, y)
    inner = mx.FenchelYoungLoss(mx.Shannon() if entropy == "shannon" else mx.Tsallis(1.5))
    d = X.shape[1]

    def objective(w):
        theta = X @ w.reshape(d, -1)
        theta = np.hstack([np.zeros_like(theta), theta]) if classes == 2 else theta
        values, slope = inner.value_and_gradient(theta + cost[y], y)
        slope = slope[:, 1:] if classes == 2 else slope
        gradient = X.T @ slope / len(y) + 0.05 * w.reshape(d, -1)
        return values.mean() + 0.05 / 2 * w @ w, gradient.ravel()

    best = by_bfgs(objective, d * (1 if classes == 2 else classes))
    assert model.objective_ == pytest.approx(best, abs=1e-8)
    theta = model.decision_function(X)
    theta = np.column_stack([np.zeros(len(y)), theta]) if classes == 2 else theta
    np.testing.assert_array_equal(model.predict_proba(X), inner.predict(theta))


ONE_OUTPUT = [
    (mx.Shannon(), mx.FermiDirac),
    (mx.Tsallis(1.0), mx.FermiDirac),
    (mx.Tsallis(2.0), mx.BinaryGini),
    (mx.Tsallis(1.5), mx.OneVsAll),
    (mx.SquaredNorm(1.5), mx.OneVsAll),
    (mx.Relative(mx.Shannon(), [0.2, 0.8]), mx.OneVsAll),
    (mx.Shifted(mx.Tsallis(1.5), [0.3, -0.2]), mx.Shifted),
    (mx.Zero(), mx.Zero),
]


@pytest.mark.parametrize(("entropy", "kind"), ONE_OUTPUT, ids=lambda x: repr(x))
def test_one_output_is_two_classes(entropy, kind):
    one = one_output(entropy)
    assert isinstance(one, kind)
    s = np.linspace(-3, 3, 21)[:, None]
    values, p = entropy.conjugate(np.hstack([np.zeros_like(s), s]))
    single, q = one.conjugate(s)
    np.testing.assert_allclose(q[:, 0], p[:, 1], atol=1e-9)
    gap = values + entropy.value(p) - s[:, 0] * p[:, 1]  # constants cancel in the loss
    np.testing.assert_allclose(single + one.value(q) - s[:, 0] * q[:, 0], gap, atol=1e-9)
    y = np.ones((21, 1))
    both = np.hstack([1 - y, y])
    np.testing.assert_allclose(single + one.value(y), values + entropy.value(both), atol=1e-9)
    if one.has_curvature:
        diagonal, spike = one.curvature(s, q)
        assert spike is None
        np.testing.assert_allclose(diagonal, one.hvp(s, q, np.ones_like(s)), atol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_many_columns_of_two_classes_take_few_newton_steps(alpha):
    rng = np.random.default_rng(0)
    X = sparse.random(300, 500, density=0.05, format="csr", random_state=0)
    y = (X @ rng.normal(size=500) + 0.3 * rng.logistic(size=300) > 0).astype(int)
    model = classifier(alpha=alpha, potential=1e-3, tol=1e-6)
    with counted_products() as products:
        model.fit(X, y)
    assert model.gap_ <= 1e-6
    assert len(products) < 80


def test_the_cost_of_a_class_wins_samples_for_it():
    X, y = samples(n=300)
    plain = classifier().fit(X, y)
    cost = np.zeros((3, 3))
    cost[2, :2] = 5.0  # to miss a 2 is dear
    dear = classifier(cost=cost).fit(X, y)
    assert np.sum(dear.predict(X) == 2) > np.sum(plain.predict(X) == 2)


# -- certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "potential",
    [mx.Quadratic(0.01), mx.Box(0.02), mx.LaplacePrior(0.1), mx.SmoothBox(0.02, 0.01)],
)
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_gap_with_an_intercept_is_finite_and_certifies(potential, alpha, classes):
    X, y = samples(classes)
    fine = classifier(alpha=alpha, potential=potential, tol=1e-9).fit(X, y)
    assert fine.gap_ < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.ConvergenceWarning)
        rough = classifier(alpha=alpha, potential=potential, solver="fista", max_iter=3).fit(X, y)
    assert rough.objective_ - fine.objective_ <= rough.gap_ < np.inf
    assert rough.gap_ > fine.gap_


@pytest.mark.parametrize(("intercept", "share"), [(True, 1.8), (False, 0.8)])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_table_in_float32_is_not_written_out_in_float64(intercept, share, classes):
    import tracemalloc

    rng = np.random.default_rng(5)
    X = rng.normal(size=(20_000, 400)).astype(np.float32)
    y = np.argmax(X[:, :classes] + rng.normal(size=(20_000, classes)), axis=1)
    model = mx.FenchelYoungClassifier(fit_intercept=intercept)
    model.fit(X[:500], y[:500])  # what is imported and compiled once does not count
    peaks = []
    for work in (lambda: model.fit(X, y), lambda: model.predict_proba(X)):
        tracemalloc.start()
        work()
        peaks.append(tracemalloc.get_traced_memory()[1] / X.nbytes)
        tracemalloc.stop()
    assert peaks[0] < share
    assert peaks[1] < 0.3


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("solver", ["newton-cg", "lbfgs", "fista"])
def test_float32_gives_the_answer_of_float64(solver, shift):
    rng = np.random.default_rng(6)
    X = (rng.normal(size=(300, 40)) + shift).astype(np.float32)
    y = np.argmax(X[:, :3] - shift + rng.normal(size=(300, 3)), axis=1)
    for intercept in (True, False) if not shift else (True,):
        settings = {"potential": 0.01, "fit_intercept": intercept, "solver": solver}
        single = classifier(tol=1e-9, **settings).fit(X, y)
        double = classifier(tol=1e-9, **settings).fit(X.astype(np.float64), y)
        assert single.coef_.dtype == np.float64
        np.testing.assert_allclose(single.coef_, double.coef_, atol=2e-5)
        np.testing.assert_allclose(
            single.predict_proba(X), double.predict_proba(X.astype(np.float64)), atol=1e-4
        )


def test_class_weights_of_labels_are_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_sample_weight

    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    Y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(80, 3)) > 0.5).astype(int)
    for given in ("balanced", [{0: 1.0, 1: 4.0}, {0: 2.0, 1: 1.0}, {0: 1.0, 1: 1.0}]):
        model = multilabel(class_weight=given).fit(X, Y)
        other = multilabel().fit(X, Y, sample_weight=compute_sample_weight(given, Y))
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-5)
    never = np.hstack([Y, np.zeros((80, 1), dtype=int)])
    assert multilabel(class_weight="balanced").fit(X, never).gap_ <= 1e-6
    for wrong in ("even", 3.0, [{0: 1.0, 1: 2.0}], [{2: 1.0}] * 3, [{1: -1.0}] * 3):
        with pytest.raises(ValueError, match="class_weight"):
            multilabel(class_weight=wrong).fit(X, Y)


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "newton-cg", "fista"])
@pytest.mark.parametrize("kind", ["one-vs-all", "sparse", "cube", "cone"])
def test_a_fit_that_meets_its_tolerance_is_silent(kind, solver):
    """Also where it fits exactly and the gap, tiny as it is, is above the objective."""
    rng = np.random.default_rng(1)
    for strength in (1e-7, 1e-3):
        X, y = rng.normal(size=(6, 20)), rng.integers(0, 5, size=6)
        model = mx.FenchelYoungMultilabel(kind, potential=strength, solver=solver)
        model.fit(X, np.eye(5)[y])  # a ConvergenceWarning is an error here
        assert model.gap_ <= model.tol


@pytest.mark.parametrize("kind", ["one-vs-all", "sparse", "cube", "cone", "k-subsets"])
def test_the_gap_certifies_on_every_domain(kind):
    X, Y = indicators()
    if kind == "k-subsets":
        Y = np.eye(4, dtype=int)[Y.sum(axis=1) % 4] + np.eye(4, dtype=int)[(Y.sum(axis=1) + 1) % 4]
    fine = multilabel(kind, potential=0.01, tol=1e-9).fit(X, Y)
    assert fine.gap_ < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.ConvergenceWarning)
        rough = multilabel(kind, potential=0.01, solver="fista", max_iter=3).fit(X, Y)
    assert rough.objective_ - fine.objective_ <= rough.gap_ < np.inf
    free = multilabel(kind, potential=0.01, fit_intercept=False).fit(X, Y)
    assert free.gap_ <= 1e-10
    assert free.objective_ > fine.objective_


def with_an_empty_label(kind):
    if kind in (1.0, 1.5, 2.0):
        X, Y = proportions()
        return X, np.hstack([Y, np.zeros((len(Y), 1))])
    X, Y = indicators()
    if kind == "k-subsets":
        Y = np.eye(4, dtype=int)[Y.sum(axis=1) % 4]
        return X, np.hstack([Y, np.ones((len(Y), 1)), np.zeros((len(Y), 1))])
    return X, np.hstack([Y, np.zeros((len(Y), 1)), np.ones((len(Y), 1))])


def fitted_to(kind, X, Y, **settings):
    if kind in (1.0, 1.5, 2.0):
        return regressor(alpha=kind, **settings).fit(X, Y)
    return multilabel(kind, **settings).fit(X, Y)


DOMAINS = [1.0, 1.5, 2.0, "one-vs-all", "sparse", "cube", "cone", "k-subsets"]


@pytest.mark.parametrize("kind", DOMAINS)
def test_a_label_that_never_occurs_leaves_the_gap_small(kind):
    X, Y = with_an_empty_label(kind)
    model = fitted_to(kind, X, Y, potential=0.01, tol=1e-6)
    assert model.gap_ <= 1e-6


@pytest.mark.parametrize("potential", [mx.Quadratic(0.01), mx.Box(0.02)])
@pytest.mark.parametrize("kind", DOMAINS[:-1])
def test_the_gap_with_an_empty_label_is_never_below_the_suboptimality(kind, potential):
    X, Y = with_an_empty_label(kind)
    best = fitted_to(kind, X, Y, potential=potential, tol=1e-9)
    gaps = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.ConvergenceWarning)
        for steps in (1, 2, 4, 8, 16, 64, 256):
            rough = fitted_to(kind, X, Y, potential=potential, solver="fista", max_iter=steps)
            assert rough.objective_ - best.objective_ <= rough.gap_ < np.inf
            gaps.append(rough.gap_)
    assert gaps[-1] < 1e-2 * gaps[0]


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array])
def test_solvers_stop_on_the_gap_with_an_intercept_too(alpha, classes, made):
    X, y = samples(classes)
    model = classifier(alpha=alpha, potential=0.01, tol=1e-3).fit(made(X + 5), y)
    best = classifier(alpha=alpha, potential=0.01, tol=1e-12).fit(X + 5, y)
    assert model.objective_ - best.objective_ <= model.gap_ <= 1e-3
    assert best.gap_ <= 1e-12
    assert model.n_iter_ <= best.n_iter_


def test_loss_and_objective():
    X, Y = proportions()
    model = regressor(alpha=1.5, potential=0.1).fit(X, Y)
    theta = X @ model.coef_.T + model.intercept_
    loss = mx.FenchelYoungLoss(mx.Tsallis(1.5)).value(theta, Y).mean()
    assert model.loss_ == pytest.approx(loss, rel=1e-9)
    assert model.objective_ == pytest.approx(loss + 0.05 * np.sum(model.coef_**2), rel=1e-9)


# -- probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_have_exact_zeros(classes):
    X, y = samples(classes, n=200)
    for alpha in (1.5, 2.0):
        p = classifier(alpha=alpha).fit(X, y).predict_proba(3 * X)
        assert p.shape == (200, classes)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
        assert (p == 0).any()
        assert (p >= 0).all()
    assert (classifier(alpha=1).fit(X, y).predict_proba(X) > 0).all()


def test_temperature():
    X, y = samples(n=100)
    model = classifier(alpha=2).fit(X, y)
    theta = model.decision_function(X)
    hot = clone(model).set_params(temperature=4.0).fit(X, y)
    np.testing.assert_allclose(hot.coef_, model.coef_, atol=1e-9)
    expected = mx.Tsallis(2.0).conjugate(theta / 4)[1]
    np.testing.assert_allclose(hot.predict_proba(X), expected, atol=1e-8)
    np.testing.assert_array_equal(hot.predict(X), model.predict(X))
    cold = model.set_params(temperature=1e-6).predict_proba(X)
    np.testing.assert_array_equal(cold, np.eye(3)[np.argmax(theta, axis=1)])
    uniform = model.set_params(temperature=1e6).predict_proba(X)
    np.testing.assert_allclose(uniform, 1 / 3, atol=1e-4)


@pytest.mark.parametrize("t", [0.3, 4.0])
def test_temperature_and_strength_are_redundant_in_training(t):
    """§8.1: t L(W x / t; y) + lambda/2 ||W||^2 is least at W = t W', W' that of lambda t."""
    X, y = samples(n=60)
    entropy, strength = mx.Tsallis(1.5), 0.05
    settings = {"fit_intercept": False, "tol": 1e-11}
    hot = mx.FenchelYoungClassifier(mx.Scaled(entropy, t), potential=strength, **settings)
    plain = mx.FenchelYoungClassifier(entropy, potential=strength * t, **settings)
    np.testing.assert_allclose(hot.fit(X, y).coef_, t * plain.fit(X, y).coef_, atol=1e-4)
    zeros = [
        int((plain.set_params(temperature=s).predict_proba(X) == 0).sum()) for s in (0.3, 1.0, 3.0)
    ]
    assert zeros[0] > zeros[1] > zeros[2]  # the colder, the sparser


def test_labels_of_any_kind():
    X, y = samples()
    names = np.array(["ash", "birch", "cedar"])[y]
    model = classifier().fit(X, names)
    assert model.classes_.tolist() == ["ash", "birch", "cedar"]
    np.testing.assert_array_equal(
        model.predict(X), np.array(["ash", "birch", "cedar"])[classifier().fit(X, y).predict(X)]
    )


def test_sparse_tables_give_the_same_model():
    X, y = samples(n=80)
    X[np.abs(X) < 0.7] = 0
    Y = np.eye(3)[y]
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.csr_array):
        S = kind(X)
        for make, target in ((classifier, y), (regressor, Y), (multilabel, Y)):
            dense = make().fit(X, target)
            model = make().fit(S, target, np.ones(len(y)))
            np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-7)
            np.testing.assert_allclose(model.predict(S), dense.predict(X), atol=1e-6)
        weight = np.arange(len(y)) % 3
        np.testing.assert_allclose(
            classifier().fit(S, y, weight).coef_, classifier().fit(X, y, weight).coef_, atol=1e-7
        )


# -- potentials ----------------------------------------------------------------------------------


def test_a_number_is_a_strength_and_zero_is_none():
    X, y = samples(n=200, seed=4)
    same = classifier(potential=mx.Quadratic(0.3)).fit(X, y)
    np.testing.assert_array_equal(classifier(potential=0.3).fit(X, y).coef_, same.coef_)
    free = classifier("shannon", potential=0, tol=1e-9).fit(X, y)
    peer = LogisticRegression(C=1e20, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(free.predict_proba(X), peer.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_penalty_for_each_group_of_columns(classes):
    X, y = samples(classes, d=6)
    model = classifier(potential={(0, 3, 5): mx.Quadratic(0.01), (1, 2, 4): mx.Ball(10.0)})
    model.fit(X, y)
    assert not model.coef_[:, [1, 2, 4]].any()
    assert model.coef_[:, [0, 3, 5]].all()
    alone = classifier(potential=0.01).fit(X[:, [0, 3, 5]], y)
    np.testing.assert_allclose(model.coef_[:, [0, 3, 5]], alone.coef_, atol=1e-5)
    outputs = 1 if classes == 2 else classes
    order = [0, 3, 5, 1, 2, 4]
    families = mx.Families([mx.Quadratic(0.01), mx.Ball(0.02)], [3 * outputs, 3 * outputs])
    groups = {(0, 3, 5): 0.01, (1, 2, 4): mx.Ball(0.02)}
    np.testing.assert_allclose(
        classifier(potential=groups).fit(X, y).coef_[:, order],
        classifier(potential=families).fit(X[:, order], y).coef_,
        atol=1e-6,
    )


def test_groups_by_name():
    X, y = samples()
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    by_name = classifier(potential={("a", "d"): 0.1, "b": 0.2, "c": mx.Box(1.0)}).fit(frame, y)
    by_place = classifier(potential={(0, -1): 0.1, 1: 0.2, 2: mx.Box(1.0)}).fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, by_place.coef_)


def test_a_strength_for_each_weight_lies_row_by_row():
    X, y = samples()
    strength = np.full((4, 3), 0.01)
    strength[1, 2] = 1e6
    model = classifier(potential=mx.Quadratic(strength.ravel())).fit(X, y)
    assert abs(model.coef_[2, 1]) < 1e-5 < np.abs(model.coef_[0, 1])


# -- warm starts, solvers, Ctrl-C ------------------------------------------------------------------


def test_warm_starts_save_steps():
    X, y = make_classification(400, 40, n_informative=20, n_classes=4, random_state=0)
    model = classifier(potential=0.01, solver="lbfgs", warm_start=True, tol=1e-6).fit(X, y)
    cold = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ <= 1
    model.set_params(potential=0.008).fit(X, y)
    assert model.n_iter_ < cold
    fresh = classifier(potential=0.008, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), fresh.predict_proba(X), atol=1e-2)
    model.fit(X[:, :10], y)  # other columns: no start
    assert model.coef_.shape == (4, 10)
    shifted = model.fit(X[:, :10], y + 1)  # other classes
    assert shifted.classes_.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("solver", ["lbfgs", "fista", mx.ProxNewton(), "auto"])
def test_solvers_agree(solver):
    X, y = samples()
    model = classifier(solver=solver, potential=0.01, tol=1e-9).fit(X, y)
    best = classifier(potential=0.01, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_dual_solvers_draw_samples_by_the_random_state(classes, kernel):
    X, y = samples(classes)
    settings = {"alpha": 2, "potential": 0.05, "fit_intercept": False, "kernel": kernel}
    found = [
        classifier(solver="dual-coordinate", random_state=seed, tol=1e-8, **settings).fit(X, y)
        for seed in (1, 1, 2)
    ]
    best = classifier(**settings).fit(X, y)
    np.testing.assert_array_equal(found[0]._scores(X), found[1]._scores(X))
    assert (found[0]._scores(X) != found[2]._scores(X)).any()
    np.testing.assert_allclose(found[2]._scores(X), best._scores(X), atol=1e-2)


def test_an_interrupted_fit_keeps_the_last_point(monkeypatch):
    X, y = samples()
    solve = mx.LBFGS._iterate

    def iterate(self, problem, state):
        for count, new in enumerate(solve(self, problem, state)):
            if count == 3:
                raise KeyboardInterrupt
            yield new

    monkeypatch.setattr(mx.LBFGS, "_iterate", iterate)
    model = classifier(solver="lbfgs")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 3
    assert 1e-10 < model.gap_ < np.inf
    assert model.predict_proba(X).shape == (60, 3)


def test_a_fit_that_stops_early_warns():
    X, y = samples()
    with pytest.warns(mx.ConvergenceWarning, match="raise max_iter") as caught:
        classifier(solver="fista", max_iter=2).fit(X, y)
    assert [w.filename for w in caught] == [__file__]


# -- kernels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_linear_kernel_is_the_linear_model(alpha, classes, intercept):
    X, y = samples(classes, n=80)
    settings = {"alpha": alpha, "potential": 0.05, "fit_intercept": intercept}
    linear = classifier(**settings).fit(X, y)
    kernel = classifier(kernel="linear", **settings).fit(X, y)
    new = np.random.default_rng(9).normal(size=(30, 4))
    np.testing.assert_allclose(kernel.predict_proba(new), linear.predict_proba(new), atol=1e-4)
    np.testing.assert_allclose(kernel.objective_, linear.objective_, atol=1e-8)
    np.testing.assert_allclose(kernel.dual_coef_ @ kernel.X_fit_, linear.coef_, atol=1e-4)
    assert kernel.gap_ < 1e-7
    assert not hasattr(kernel, "coef_")
    assert kernel.dual_coef_.shape == (1 if classes == 2 else 3, len(kernel.support_))
    given = classifier(kernel="precomputed", **settings).fit(X @ X.T, y)
    np.testing.assert_allclose(given.predict_proba(new @ X.T), kernel.predict_proba(new), atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_rows_of_weight_zero_are_not_in_a_kernel_model(kernel):
    X, y = samples(n=60)
    weight = (np.arange(60) % 3 > 0).astype(float)
    rows = np.flatnonzero(weight)
    settings = {"alpha": 2, "potential": 0.05, "tol": 1e-8}
    alone = classifier(kernel="rbf", gamma=0.3, **settings).fit(X[rows], y[rows])
    K = np.exp(-0.3 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    given = X if kernel == "rbf" else K
    model = classifier(kernel=kernel, gamma=0.3, **settings).fit(given, y, weight)
    np.testing.assert_array_equal(model.support_, rows[alone.support_])
    np.testing.assert_allclose(model.predict_proba(given), alone.predict_proba(X), atol=1e-6)


def test_kernels_see_what_lines_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = (np.hypot(*X.T) < 0.7).astype(int)
    assert classifier(potential=0.001).fit(X, y).score(X, y) < 0.8
    for kernel, more in (("rbf", {}), ("poly", {"degree": 2, "coef0": 1.0})):
        model = classifier(kernel=kernel, potential=1e-4, tol=1e-8, **more).fit(X, y)
        assert model.score(X, y) > 0.97
        assert model.gap_ < 1e-6

    def gaussian(A, B):
        return np.exp(-2 * np.sum((A[:, None] - B[None]) ** 2, axis=2))

    own = classifier(kernel=gaussian, potential=1e-3).fit(X, y)
    named = classifier(kernel="rbf", gamma=2.0, potential=1e-3).fit(X, y)
    np.testing.assert_allclose(own.decision_function(X), named.decision_function(X), atol=1e-4)


def test_sparse_losses_keep_few_rows():
    X, y = make_classification(300, 5, class_sep=2.0, flip_y=0.0, random_state=1)
    kept = [
        len(classifier(alpha=alpha, kernel="rbf", potential=1e-4, tol=1e-8).fit(X, y).support_)
        for alpha in (1.0, 1.5, 2.0)
    ]
    assert kept[0] == 300
    assert kept[2] < kept[1] < 300


def test_the_dual_coefficients_are_the_residuals():
    X, y = samples(n=50)
    model = classifier(alpha=2, kernel="rbf", potential=0.01, fit_intercept=False, tol=1e-13)
    p = model.fit(X, y).predict_proba(X)
    expected = (np.eye(3)[y] - p) / (50 * 0.01)
    found = np.zeros((50, 3))
    found[model.support_] = model.dual_coef_.T
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_kernels_for_proportions_and_sparse_tables():
    X, Y = proportions()
    model = regressor(kernel="rbf", potential=1e-4, tol=1e-8).fit(X, Y)
    assert model.score(X, Y) > regressor(potential=1e-4).fit(X, Y).score(X, Y)
    sparse_model = regressor(kernel="rbf", potential=1e-4, tol=1e-8).fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(
        sparse_model.predict(sparse.csr_array(X)), model.predict(X), atol=1e-4
    )


# -- proportions, sets of labels -------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_proportions(alpha):
    X, Y = proportions(n=200)
    model = regressor(alpha=alpha).fit(X, Y)
    P = model.predict(X)
    assert P.shape == Y.shape
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-12)
    assert (P >= 0).all()
    np.testing.assert_allclose(P.mean(axis=0), Y.mean(axis=0), atol=1e-6)  # the free intercept
    labels = np.argmax(Y, axis=1)
    np.testing.assert_allclose(
        regressor(alpha=alpha).fit(X, np.eye(4)[labels]).coef_,
        classifier(alpha=alpha).fit(X, labels).coef_,
        atol=1e-6,
    )


@pytest.mark.parametrize("kind", ["one-vs-all", "sparse", "cube", "cone"])
def test_kinds_of_label_sets(kind):
    X, Y = indicators(n=300)
    model = multilabel(kind).fit(X, Y)
    p, theta = model.predict_proba(X), model.decision_function(X)
    expected = {
        "one-vs-all": 1 / (1 + np.exp(-theta)),
        "sparse": np.clip((1 + theta) / 2, 0, 1),
        "cube": np.clip(theta, 0, 1),
        "cone": np.maximum(theta, 0),
    }[kind]
    np.testing.assert_allclose(p, expected, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), (p > 0.5).astype(int))
    assert np.mean(model.predict(X) == Y) > 0.75
    assert model.score(X, Y) > 0.25


def test_sets_of_k_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    scores = X @ rng.normal(size=(5, 6)) + 0.3 * rng.normal(size=(200, 6))
    Y = np.asarray(mx.KSubset(2).argmax(scores)).astype(int)
    model = multilabel("k-subsets").fit(X, Y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 2, atol=1e-9)
    assert ((p >= 0) & (p <= 1)).all()
    assert (p == 0).any()
    assert (p == 1).any()
    found = model.predict(X)
    np.testing.assert_array_equal(found.sum(axis=1), 2)
    assert np.mean(found == Y) > 0.9
    same = multilabel(mx.SquaredNorm(domain=mx.KSubset(2))).fit(X, Y)
    np.testing.assert_allclose(same.coef_, model.coef_, atol=1e-6)
    with pytest.raises(ValueError, match=r"exactly k labels each, and y has 1 to 2"):
        multilabel("k-subsets").fit(X, np.vstack([Y[:-1], [[1, 0, 0, 0, 0, 0]]]))
    with pytest.raises(ValueError, match="exactly k labels each"):
        multilabel("k-subsets", k=3).fit(X, Y)
    with pytest.raises(ValueError, match="k must be an integer from 1"):
        multilabel("k-subsets", k=1.5).fit(X, Y)


def test_an_entropy_of_the_cube_as_kind():
    X, Y = indicators()
    own = multilabel(mx.OneVsAll(mx.Tsallis(2.0)), potential=0.01, tol=1e-9).fit(X, Y)
    named = multilabel("sparse", potential=0.01, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(own.coef_, named.coef_, atol=1e-4)


# -- cross-validation ----------------------------------------------------------------------------


def cv_classifier(*args, **settings):
    return mx.FenchelYoungClassifierCV(*args, **{**QUIET, **settings})


def test_cv_chooses_and_refits():
    X, y = load_iris(return_X_y=True)
    model = cv_classifier(
        [1, 1.5, 2], [1e-4, 1e-2, 10.0], cv=KFold(4, shuffle=True, random_state=0)
    )
    model.fit(X, y)
    table = pd.DataFrame({k: v for k, v in model.cv_results_.items() if np.ndim(v) == 1})
    assert len(table) == 9
    best = table.sort_values(["mean_accuracy", "mean_brier"], ascending=[False, True]).iloc[0]
    assert model.best_params_ == {"alpha": best["alpha"], "strength": best["strength"]}
    assert model.best_score_ == best["mean_accuracy"] > 0.95
    assert model.best_params_["strength"] < 10
    alone = mx.FenchelYoungClassifier(
        alpha=model.best_params_["alpha"], potential=model.best_params_["strength"], verbose=0
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    assert model.cv_results_["accuracy"].shape == (9, 4)


def test_cv_scores_are_those_of_separate_fits():
    X, y = samples(n=90)
    folds = list(KFold(3).split(X))
    model = cv_classifier([1.5], [0.1, 0.001], cv=folds, tol=1e-10).fit(X, y)
    for row, strength in enumerate(model.cv_results_["strength"]):
        for column, (train, test) in enumerate(folds):
            one = classifier(potential=strength).fit(X[train], y[train])
            brier = np.mean(np.sum((one.predict_proba(X[test]) - np.eye(3)[y[test]]) ** 2, axis=1))
            assert model.cv_results_["brier"][row, column] == pytest.approx(brier, abs=1e-5)
            accuracy = one.score(X[test], y[test])
            assert model.cv_results_["accuracy"][row, column] == pytest.approx(accuracy)


def test_cv_with_a_scorer_threads_costs_and_a_class_that_a_fold_lacks():
    X, y = samples(n=60)
    one = cv_classifier([1, 2], [0.01], cv=2, scoring="neg_log_loss", n_jobs=2)
    one.set_params(alphas=[1, 1.2]).fit(X, y)
    assert set(one.cv_results_) >= {"mean_score", "score"}
    y = np.sort(y)
    folds = [(np.flatnonzero(y < 2), np.flatnonzero(y == 2)), (np.arange(60), np.arange(60))]
    lacking = cv_classifier([2], [0.01], cv=folds, cost=1 - np.eye(3)).fit(X, y)
    assert lacking.cv_results_["accuracy"][0, 0] == 0
    assert 1 <= lacking.cv_results_["brier"][0, 0] <= 3
    assert lacking.coef_.shape[0] == 3


def test_cv_scales_any_potential():
    X, y = samples(n=90, d=6)
    noisy = {(0, 1, 2): mx.Quadratic(1.0), (3, 4, 5): mx.Box(1.0)}
    model = cv_classifier([1.5], [0.01], noisy, cv=3).fit(X, y)
    alone = classifier(potential={(0, 1, 2): 0.01, (3, 4, 5): mx.Box(0.01)}, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-8)
    same = cv_classifier([1.5], [0.01], mx.Box(2.0), cv=3).fit(X, y)
    alone = classifier(potential=mx.Box(0.02), tol=1e-6).fit(X, y)
    np.testing.assert_allclose(same.coef_, alone.coef_, atol=1e-8)


# -- odd input -----------------------------------------------------------------------------------

X0, Y0 = samples()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"entropy": "softmax"}, ValueError, 'entropy must be "tsallis", "shannon" or'),
        ({"entropy": mx.FermiDirac()}, ValueError, "Entropy of the simplex"),
        ({"alpha": -0.5}, ValueError, "alpha > 0, got -0.5"),
        ({"alpha": "2"}, TypeError, "alpha must be a single number"),
        ({"potential": -1.0}, ValueError, "potential must be a Potential"),
        ({"potential": "l2"}, ValueError, "potential must be a Potential"),
        ({"potential": mx.Box(np.ones(5))}, ValueError, "4 columns x 3 outputs"),
        ({"potential": {(0, 1): 1.0}}, ValueError, r"columns \[2, 3\] are in no group"),
        ({"potential": {(0, 1, 2, 3): 1.0, 3: 1.0}}, ValueError, r"\[3\] are in several groups"),
        ({"potential": {"a": 1.0}}, ValueError, "X has no names"),
        ({"potential": {(0, 9): 1.0}}, ValueError, "column 9 of a group, and X has 4"),
        ({"cost": np.zeros((2, 2))}, ValueError, r"each of 3 classes \[0, 1, 2\]"),
        ({"cost": np.ones((3, 3))}, ValueError, "0 on the diagonal"),
        ({"cost": np.eye(3) - 1}, ValueError, "not negative"),
        ({"kernel": "cosine"}, ValueError, "kernel must be None, a function"),
        ({"kernel": "rbf", "potential": mx.Box(0.1)}, ValueError, "its penalty is Quadratic"),
        ({"kernel": "rbf", "potential": {(0, 1, 2, 3): 1.0}}, ValueError, "Potential"),
        ({"kernel": "rbf", "gamma": -1.0}, ValueError, "gamma must be a positive number"),
        ({"kernel": "rbf", "gamma": "best"}, ValueError, 'gamma must be "scale"'),
        ({"kernel": "precomputed"}, ValueError, "square, got shape"),
        ({"kernel": lambda A, B: -A @ B.T}, ValueError, "not positive semi-definite"),
        ({"kernel": lambda A, B: A}, ValueError, "must give a matrix"),
        ({"class_weight": "even"}, ValueError, 'None, "balanced" or a dict'),
        ({"class_weight": {0: 0.0, 1: 1.0, 2: 1.0}}, ValueError, "positive for every class"),
        ({"temperature": 0.0}, ValueError, "temperature must be a positive number"),
        ({"tol": -1.0}, ValueError, "tol must be a number >= 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be an integer >= 1"),
        ({"solver": "newton"}, ValueError, "unknown solver 'newton'"),
        ({"entropy": mx.Zero()}, ValueError, "set fit_intercept=False"),
    ],
)
def test_wrong_settings(settings, error, message):
    with pytest.raises(error, match=message):
        classifier(**settings).fit(X0, Y0)


def test_wrong_samples():
    for bad in (np.nan, np.inf):
        X = X0.copy()
        X[3, 2] = bad
        for make, target in ((classifier, Y0), (regressor, np.eye(3)[Y0])):
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                make().fit(X, target)
    with pytest.raises(ValueError, match="every sample is of one class, 7"):
        classifier().fit(X0, np.full(len(X0), 7))
    with pytest.raises(ValueError, match="of one class"):
        classifier().fit(X0, Y0, Y0 == 1)
    with pytest.raises(ValueError, match="all sample weights are zero"):
        classifier().fit(X0, Y0, np.zeros(len(X0)))
    with pytest.raises(ValueError, match="sample_weight must be finite and non-negative"):
        classifier().fit(X0, Y0, -np.ones(len(X0)))
    with pytest.raises(ValueError, match=r"one entry per row, shape \(60,\)"):
        classifier().fit(X0, Y0, np.ones(3))
    with pytest.raises(ValueError, match=r"[Ii]nconsistent numbers of samples"):
        classifier().fit(X0, Y0[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X0, Y0 + 0.5)
    with pytest.raises(ValueError, match="4 features"):
        classifier().fit(X0, Y0).predict(X0[:, :3])
    with pytest.raises(ValueError, match="target y is None"):
        classifier().fit(X0, None)
    with pytest.raises(TypeError, match="must be dense"):
        classifier(kernel="precomputed").fit(sparse.csr_array(X0 @ X0.T), Y0)
    with pytest.raises(ValueError, match="symmetric"):
        classifier(kernel="precomputed").fit(np.triu(np.ones((60, 60))), Y0)


def test_wrong_proportions():
    X, Y = proportions()
    with pytest.raises(ValueError, match=r"row 0 has smallest entry 0 and sum 2\. Divide counts"):
        regressor().fit(X, 2 * Y)
    negative = Y.copy()
    negative[5, :2] += [-1.5, 1.5]
    with pytest.raises(ValueError, match="1 are not: row 5 has smallest entry -"):
        regressor().fit(X, negative)
    with pytest.raises(ValueError, match="two labels or more"):
        regressor().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="NaN"):
        regressor().fit(X, np.where(np.arange(4) == 1, np.nan, Y))
    with pytest.raises(ValueError, match="target y is None"):
        regressor().fit(X, None)


def test_wrong_label_sets():
    X, Y = indicators()
    with pytest.raises(ValueError, match="kind must be one of one-vs-all"):
        multilabel("softmax").fit(X, Y)
    with pytest.raises(ValueError, match="kind must be one of"):
        multilabel(mx.Shannon()).fit(X, Y)
    with pytest.raises(ValueError, match=r"0 and 1 only, got \[2.0\]"):
        multilabel().fit(X, 2 * Y)
    with pytest.raises(ValueError, match="for one class per sample use FenchelYoungClassifier"):
        multilabel().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="target y is None"):
        multilabel().fit(X, None)


def test_wrong_grids():
    with pytest.raises(ValueError, match="alphas is empty"):
        cv_classifier([]).fit(X0, Y0)
    with pytest.raises(ValueError, match="strengths must be a positive number, got -1"):
        cv_classifier(strengths=[-1]).fit(X0, Y0)


# -- scikit-learn, saving ------------------------------------------------------------------------


def one_column(y):
    """y as a column of floats, None where it is none."""
    if y is None or np.asarray(y).dtype.kind == "c":
        return None
    try:
        column = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        return None
    usable = column.ndim and column.size == len(column) and np.isfinite(column).all()
    return column.reshape(-1, 1) if usable else None


class AnyProportions(mx.FenchelYoungRegressor):
    """Any numbers as y become the proportions of two labels, as the checks know no simplex."""

    def fit(self, X, y, sample_weight=None):
        column = one_column(y)
        if column is not None:
            self.low_, self.width_ = column.min(), np.ptp(column) or 1.0
            share = (column - self.low_) / self.width_
            y = np.hstack([share, 1 - share])
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        share = super().predict(X)[:, :1]
        return self.low_ + self.width_ * share


class AnyIndicators(mx.FenchelYoungMultilabel):
    """Any y of one column becomes a 0/1 label: whether it is the smallest value."""

    def fit(self, X, y, sample_weight=None):
        column = one_column(y)
        y = y if column is None else (column == column.min())
        return super().fit(X, y, sample_weight)


MATRIX = "predictions are a matrix of 0/1 labels, the check wants one class a sample"
NOT_A_KERNEL = "the check's X is no kernel's matrix"
EXPECTED = {
    "AnyProportions": {
        "check_regressor_multioutput": "the check's y has several columns, not of sum 1",
    },
    "AnyIndicators": dict.fromkeys(
        [
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
            "check_classifiers_one_label",
            "check_classifiers_classes",
            "check_classifiers_train",
            "check_classifiers_regression_target",
            "check_decision_proba_consistency",
            "check_classifier_not_supporting_multiclass",
        ],
        MATRIX,
    ),
    "precomputed": {
        "check_positive_only_tag_during_fit": NOT_A_KERNEL,
        "check_estimators_dtypes": NOT_A_KERNEL,
        "check_decision_proba_consistency": NOT_A_KERNEL,
    },
}


def expected_failures(estimator):
    precomputed = estimator.kernel == "precomputed"
    return EXPECTED.get("precomputed" if precomputed else type(estimator).__name__, {})


@pytest.mark.slow
@parametrize_with_checks(
    [
        mx.FenchelYoungClassifier(tol=1e-12, **QUIET),
        mx.FenchelYoungClassifier(kernel="rbf", potential=0.1, tol=1e-12, **QUIET),
        mx.FenchelYoungClassifier(kernel="precomputed", **QUIET),
        mx.FenchelYoungClassifierCV([2], [0.01], cv=2, tol=1e-12, **QUIET),
        AnyProportions("shannon", tol=1e-12, **QUIET),  # the checks set alpha to 0.01
        AnyIndicators(tol=1e-12, **QUIET),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_compatible(estimator, check):
    check(estimator)


def test_in_a_pipeline_and_a_grid():
    X, y = load_iris(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), mx.FenchelYoungClassifier(kernel="rbf", **QUIET))
    name = "fenchelyoungclassifier__potential"
    search = GridSearchCV(pipe, {name: [1e-3, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_[name] == 1e-3
    assert search.best_score_ > 0.9


@pytest.mark.parametrize(
    "model",
    [
        mx.FenchelYoungClassifier(potential={(0, 1): 0.1, (2, 3): mx.Box(0.01)}, **QUIET),
        mx.FenchelYoungClassifier(mx.NormEntropy(2.0), cost=1 - np.eye(3), **QUIET),
        mx.FenchelYoungClassifier(kernel="rbf", alpha=2, **QUIET),
        mx.FenchelYoungClassifierCV([1, 2], [0.01], cv=2, **QUIET),
        mx.FenchelYoungRegressor(kernel="poly", **QUIET),
        mx.FenchelYoungMultilabel("k-subsets", **QUIET),
    ],
    ids=lambda model: type(model).__name__,
)
def test_saved_copied_and_pickled_models_predict_the_same(model, tmp_path):
    target = Y0
    if isinstance(model, mx.FenchelYoungRegressor | mx.FenchelYoungMultilabel):
        target = np.eye(3)[Y0]
    elif model.cost is not None:
        target = np.array(["a", "b", "c"])[Y0]
    model = clone(model).fit(X0, target)
    mx.save(model, tmp_path / "model.json")
    for other in (mx.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(X0), model.predict(X0))
        np.testing.assert_array_equal(other._scores(X0), model._scores(X0))
        assert other.gap_ == model.gap_
        assert repr(other) == repr(model)
        again = clone(other).fit(X0, target)
        np.testing.assert_array_equal(again.predict(X0), model.predict(X0))


def test_a_function_as_kernel_is_not_saved(tmp_path):
    model = classifier(kernel=lambda A, B: A @ B.T, tol=1e-6).fit(X0, Y0)
    with pytest.raises(TypeError, match="a model file holds numbers, never code"):
        mx.save(model, tmp_path / "model.json")


@pytest.mark.parametrize("alpha", [1, 1.5, 2])
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_a_shift_of_the_columns_changes_the_intercept_alone(alpha, kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(80, 3))).argmax(axis=1)
    here = mx.FenchelYoungClassifier(alpha=alpha, kernel=kernel, tol=1e-9).fit(X, y)
    there = mx.FenchelYoungClassifier(alpha=alpha, kernel=kernel, tol=1e-9)
    there.fit(X + 1e4 * (kernel is None) + 10, y)
    assert there.objective_ == pytest.approx(here.objective_, abs=1e-7)
    assert there.gap_ < 1e-6
    if kernel is None:
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-3)


def test_gamma_auto_is_one_over_the_number_of_columns():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 2
    auto = mx.FenchelYoungClassifier(kernel="rbf", gamma="auto").fit(X, y)
    number = mx.FenchelYoungClassifier(kernel="rbf", gamma=0.25).fit(X, y)
    np.testing.assert_array_equal(auto.predict_proba(X), number.predict_proba(X))
    with pytest.raises(ValueError, match='"scale", "auto" or a positive number'):
        mx.FenchelYoungClassifier(kernel="rbf", gamma="wide").fit(X, y)


def test_rows_without_labels_are_no_k_subsets():
    Y = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]])
    with pytest.raises(ValueError, match="row 1 of Y has none"):
        mx.FenchelYoungMultilabel("k-subsets").fit(np.eye(3), Y)


def test_columns_of_any_size_are_certified():
    rng = np.random.default_rng(0)
    X, y = 1e6 * rng.normal(size=(60, 3)), np.arange(60) % 3
    model = mx.FenchelYoungClassifier(alpha=1).fit(X, y)
    assert model.gap_ <= 1e-6


@pytest.mark.parametrize("classes", [2, 3])
def test_log_probabilities(classes):
    X, y = samples(classes)
    model = classifier(alpha=2).fit(X, y)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(X), rtol=1e-12)
    assert np.isneginf(logs).any()


def test_fits_are_silent_unless_asked():
    for kind in (
        mx.FenchelYoungClassifier,
        mx.FenchelYoungRegressor,
        mx.FenchelYoungMultilabel,
        mx.FenchelYoungClassifierCV,
        mx.StructMaxentClassifier,
    ):
        assert kind().get_params()["verbose"] == 0
