"""The models of the discrimination paper: theorems as tests, hidden labels, bad input, files."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks

import maxent as mx
from maxent.core.bounds import margin_bound
from sklearn_checks import WITHOUT_TABLES
from tools import needs

cp = needs("cvxpy")

RNG = np.random.default_rng(0)
MODELS = [
    mx.CRF(),
    mx.L1CRF(0.3),
    mx.L2CRF(0.1),
    mx.M3N(1.0),
    mx.L1M3N(1.0),
    mx.L1M3N(None, 2.0),
    mx.LaplaceMEDN(1.0, 4.0),
    mx.LaplaceMEDN(1.0, 4.0, "variational"),
]
IDS = [str(m) for m in MODELS]


def _data(n=12, seed=0, noise=0.6, features=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), features)) for _ in range(n)]
    y = [(x[:, 0] - x[:, 1] + noise * rng.normal(size=len(x)) > 0).astype(int) for x in X]
    return X, y


X, Y = _data()


def _slacks(X, y, w):
    """max_y' cost - <w, f(x, y) - f(x, y')> of every chain over two labels, by enumeration."""
    chain, terms = mx.Chain(2), []
    for x, path in zip(X, y, strict=True):
        features = mx.ChainMap([x], 2)
        vertices = chain.vertices(chain.size(len(x)))
        images = np.array([features.moments(chain.tie(v[None])) for v in vertices])
        right = features.moments(chain.encode([path], tied=True))
        cost = np.array([np.sum(p != path) for p in chain.decode(vertices)])
        terms.append(cp.max(cost + (images - right) @ w))
    return terms


def test_m3n_is_problem_p0():
    w = cp.Variable(3 * 2 + 4)
    C = 0.7
    reference = cp.Problem(
        cp.Minimize(cp.sum_squares(w) / 2 + C * cp.sum(cp.hstack(_slacks(X, Y, w))))
    )
    value = reference.solve(solver=cp.CLARABEL)
    model = mx.M3N(C, tol=1e-7).fit(X, Y)
    assert model.objective_ * C * len(X) == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.weights_, w.value, atol=1e-4)


def test_laplace_network_is_corollary_6():
    lam, C = 4.0, 0.7
    model = mx.LaplaceMEDN(C, lam, tol=1e-9).fit(X, Y)
    mean, slack = model.weights_, model.loss_ * len(X)
    root = np.sqrt(lam * mean**2 + 1)
    norm = np.sum(root - np.log((root + 1) / 2)) - mean.size  # less its value at 0
    assert model.kl_norm_ == pytest.approx(norm, rel=1e-9)
    assert model.objective_ * C * len(X) == pytest.approx(norm + C * slack, rel=1e-9)
    # Corollary 7: the mean as a function of eta, and the variance as the slope of that function
    eta = mx.LaplacePrior(lam).conjugate_gradient(mean)
    np.testing.assert_allclose(model.shrinkage(eta), mean, rtol=1e-9)
    slope = (model.shrinkage(eta + 1e-6) - model.shrinkage(eta - 1e-6)) / 2e-6
    np.testing.assert_allclose(model.variance_, slope, rtol=1e-6)


def _bound_of_section_5(model, lam):
    """min_q L(p, q) at the normal posterior p, by Jensen's inequality above KL(p || p_0)."""
    root = np.sqrt(lam * (model.variance_ + model.weights_**2))
    entropy = 0.5 * np.log(2 * np.pi * np.e * model.variance_)
    return np.sum(root - entropy - np.log(np.sqrt(lam) / 2))


def test_the_divergence_of_the_normal_posterior_is_that_of_its_integral():
    lam = 3.0
    model = mx.LaplaceMEDN(0.4, lam, "variational", 2, tol=1e-8).fit(X, Y)
    w = np.linspace(-60, 60, 400_001)
    prior = 0.5 * np.log(lam) - np.log(2) - np.sqrt(lam) * np.abs(w)
    total = 0.0
    for mean, variance in zip(model.weights_, model.variance_, strict=True):
        log_p = -0.5 * ((w - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        total += np.trapezoid(np.exp(log_p) * (log_p - prior), w)
    assert model.kl_norm_ == pytest.approx(total, rel=1e-7)


def test_algorithm_1_converges_to_the_exact_model_with_twice_c_and_four_times_lambda():
    C, lam = 0.4, 3.0
    exact = mx.LaplaceMEDN(2 * C, 4 * lam, tol=1e-10).fit(X, Y)
    variational = mx.LaplaceMEDN(C, lam, "variational", 60, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(variational.weights_, exact.weights_, atol=2e-4)
    early = mx.LaplaceMEDN(C, lam, "variational", tol=1e-9).fit(X, Y)
    assert np.abs(early.weights_ - exact.weights_).max() > 1e-3
    # the bound that each round minimises falls, and irrelevant weights keep a variance of 1 / lam
    rounds = [mx.LaplaceMEDN(C, lam, "variational", k, tol=1e-10).fit(X, Y) for k in (1, 3, 9)]
    totals = [_bound_of_section_5(m, lam) + C * m.loss_ * len(X) for m in rounds]
    assert totals[0] >= totals[1] >= totals[2] - 1e-9
    for m in rounds:
        assert 0 <= m.kl_norm_ <= _bound_of_section_5(m, lam)
    small = np.abs(variational.weights_) < 1e-3
    assert small.any()
    np.testing.assert_allclose(variational.variance_[small], 1 / lam, rtol=1e-2)


def test_the_gaussian_network_is_the_m3n():
    model = mx.ChainClassifier(
        "hinge", mx.ScaledPotential(mx.gaussian_prior(), 1 / len(X)), tol=1e-9
    )
    np.testing.assert_allclose(
        model.fit(X, Y).weights_, mx.M3N(1.0, tol=1e-9).fit(X, Y).weights_, atol=1e-4
    )


def test_one_node_networks_are_crammer_and_singers_machine():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(60, 4))
    classes = np.argmax(points[:, :3] + 0.7 * rng.normal(size=(60, 3)), axis=1)
    machine = LinearSVC(
        C=0.5, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=100_000
    )
    machine.fit(points, classes)
    chain = mx.M3N(0.5, tol=1e-9).fit([p[None] for p in points], [[c] for c in classes])
    node = mx.MED(0.5, tol=1e-8).fit(points, classes)
    np.testing.assert_allclose(chain.coef_, machine.coef_, atol=1e-3)
    np.testing.assert_allclose(node.coef_, machine.coef_, atol=1e-3)
    assert (node.predict(points) == machine.predict(points)).all()


def _eta(model, X, y):
    """sum alpha (f(x, y_i) - f(x, y)) of the attributes' weights, from the multipliers."""
    alpha = model.multipliers_.toarray()
    labels = np.concatenate(y)
    right = np.eye(2)[labels] * alpha.sum(axis=1, keepdims=True)
    return np.concatenate(X).T @ (right - alpha)


@pytest.mark.parametrize("C", [0.02, 0.5])
def test_multipliers_of_networks_give_their_means(C):
    """Theorems 2, 3, 5 and Corollary 7: the posterior mean from eta alone."""
    m3n = mx.M3N(C, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(_eta(m3n, X, Y), m3n.coef_.T, atol=1e-4)
    np.testing.assert_array_equal(m3n.variance_, np.ones(10))
    laplace = mx.LaplaceMEDN(C, 4.0, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(laplace.shrinkage(_eta(laplace, X, Y)), laplace.coef_.T, atol=1e-3)
    l1 = mx.L1M3N(C, tol=1e-9).fit(X, Y)
    eta = _eta(l1, X, Y)
    assert np.abs(eta).max() <= 0.5 + 1e-6  # appendix A
    used = np.abs(l1.coef_.T) > 1e-6
    np.testing.assert_allclose(eta[used], 0.5 * np.sign(l1.coef_.T[used]), atol=1e-4)
    for model in (m3n, laplace, l1):
        mass = model.multipliers_.sum(axis=1)
        assert mass.max() <= C * (1 + 1e-9)
        # complementary slackness: multipliers but where a margin is violated or just kept
        slack = np.array([term.value for term in _slacks(X, Y, cp.Constant(model.weights_))])
        beyond = np.setdiff1d(np.arange(len(X)), model.support_)
        np.testing.assert_allclose(slack[beyond], 0, atol=1e-4)
    assert len(mx.M3N(C, tol=1e-9).fit(X, Y, sample_weight=np.arange(12) % 2).support_) <= 6


def test_easy_sequences_are_not_in_the_support():
    """Dual sparsity: rows far beyond their margin have no multiplier, and can be left out."""
    far = [10 * x for x in X[:6]]
    easy = [(x[:, 0] - x[:, 1] > 0).astype(int) for x in far]
    model = mx.M3N(1.0, tol=1e-9).fit(X + far, Y + easy)
    outside = np.setdiff1d(np.arange(18), model.support_)
    assert outside.size >= 3
    keep = [i for i in range(18) if i not in outside]
    again = mx.M3N(1.0, tol=1e-9).fit([(X + far)[i] for i in keep], [(Y + easy)[i] for i in keep])
    np.testing.assert_allclose(again.weights_, model.weights_, atol=1e-4)


def test_multipliers_that_sum_to_c_are_another_model():
    """Theorem 3 prints = C, where the conjugate over slacks of at least 0 is <= C."""
    points, classes, C = np.array([[1.0, 0.2], [-1.0, 0.3], [4.0, -1.0]]), np.array([0, 1, 0]), 2.0
    model = mx.MED(C, tol=1e-9).fit(points, classes)
    signs = np.where(classes == 0, 1.0, -1.0)
    means = []
    for equal in (False, True):
        alpha = cp.Variable(3, nonneg=True)
        eta = (signs[:, None] * points).T @ alpha  # of class 0, and minus that of class 1
        limits = [alpha == C if equal else alpha <= C]
        cp.Problem(cp.Maximize(cp.sum(alpha) - cp.sum_squares(eta)), limits).solve(
            solver=cp.CLARABEL
        )
        means.append(np.array([eta.value, -eta.value]))
    np.testing.assert_allclose(model.coef_, means[0], atol=1e-4)
    assert np.abs(model.coef_ - means[1]).max() > 1
    assert model.multipliers_.sum(axis=1).min() < 1e-6 * C  # the third is far beyond its margin


def test_a_laplace_prior_sets_no_weight_to_0():
    laplace, l1 = mx.LaplaceMEDN(0.4, 3.0, tol=1e-9).fit(X, Y), mx.L1M3N(1.0, tol=1e-9).fit(X, Y)
    assert np.abs(laplace.weights_).min() > 1e-3
    assert (np.abs(l1.weights_) < 1e-6).any()
    assert laplace.sparsity(0.05) > 0


@pytest.mark.parametrize("kind", ["linear", "squared", "kl"])
@pytest.mark.parametrize(
    ("prior", "mean", "cumulant"),
    [
        ("gaussian", lambda eta: eta, lambda eta: eta**2 / 2),
        ("laplace", lambda eta: 2 * eta / (1 - eta**2), lambda eta: -np.log(1 - eta**2)),
        (
            mx.CumulantPrior(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh),
            np.tanh,
            lambda eta: np.log(np.cosh(eta)),
        ),
    ],
    ids=["gaussian", "laplace", "coins"],
)
def test_multipliers_of_classes_solve_the_dual_of_theorem_2(kind, prior, mean, cumulant):
    rng, C, n = np.random.default_rng(3), 0.7, 14
    points = rng.normal(size=(n, 3))
    classes = np.argmax(points + 0.8 * rng.normal(size=(n, 3)), axis=1)
    rate = {"slack_rate": 3.0} if kind == "kl" else {}
    model = mx.MED(C, prior, slack=kind, tol=1e-9, solver="column-generation", **rate)
    model.fit(points, classes)
    alpha = model.multipliers_
    assert (alpha >= 0).all()
    assert not alpha[np.arange(n), classes].any()
    if kind == "linear":
        assert alpha.sum(axis=1).max() <= C * (1 + 1e-9)
    right = np.eye(3)[classes] * alpha.sum(axis=1, keepdims=True)
    eta = (points.T @ (right - alpha)).T
    np.testing.assert_allclose(mean(eta), model.coef_, atol=1e-4)
    # D1 at the multipliers is the smallest value of P1; U*(m) of C U is C U*(m / C)
    mass = alpha.sum(axis=1) / C
    price = 0.0
    if kind != "linear":
        price = np.sum(mass**2 / 2 if kind == "squared" else -np.log1p(-mass) / 3.0)
    dual = alpha.sum() - cumulant(eta).sum() - C * price
    assert model.objective_ * C * n == pytest.approx(dual, abs=1e-5)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(mass > 0))


def test_algorithm_1_as_printed():
    """The recursion of section 5 by CVXPY; printed, a T counts rounds from 1 to T - 1."""
    C, lam = 0.7, 3.0
    mean, variance = np.zeros(10), np.ones(10)
    for rounds in (1, 2, 3):
        w = cp.Variable(10)
        step_1 = cp.sum(cp.multiply(1 / variance, cp.square(w))) / 2
        slacks = cp.sum(cp.hstack(_slacks(X, Y, w)))
        cp.Problem(cp.Minimize(step_1 + C * slacks)).solve(solver=cp.CLARABEL)
        mean, used = w.value, variance
        variance = np.sqrt((variance + mean**2) / lam)  # step 2, (11)
        model = mx.LaplaceMEDN(C, lam, "variational", rounds, tol=1e-9).fit(X, Y)
        np.testing.assert_allclose(model.weights_, mean, atol=2e-4)
        np.testing.assert_allclose(model.variance_, used, atol=2e-4)


def test_large_lambda_tends_to_the_l1_network():
    lam = 1e8
    laplace = mx.LaplaceMEDN(2 * np.sqrt(lam), lam, tol=1e-7).fit(
        X, Y
    )  # sqrt(lam) (|w| + 2 sum xi)
    l1 = mx.L1M3N(1.0, tol=1e-9).fit(X, Y)
    assert l1.loss_ == pytest.approx(laplace.loss_, abs=2e-3)
    assert np.abs(l1.weights_).sum() == pytest.approx(np.abs(laplace.weights_).sum(), rel=1e-2)


def test_radius_and_price_of_the_l1_network_agree():
    priced = mx.L1M3N(1.0, tol=1e-9).fit(X, Y)
    radius = float(np.abs(priced.weights_).sum())
    bounded = mx.L1M3N(None, radius, tol=1e-5).fit(X, Y)
    assert bounded.loss_ == pytest.approx(priced.loss_, abs=2e-5)


@pytest.mark.filterwarnings("ignore::maxent.learn.structured.chain.SeparableWarning")
@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_models_fit_predict_and_keep(model, tmp_path):
    model = clone(model).fit(X, Y)
    assert model.score(X, Y) > 0.8
    assert model.gap_ <= 1e-4 or isinstance(model, mx.CRF)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(np.concatenate(proba).sum(axis=1), 1)
    best = model.predict_kbest(X, 2)
    for path, ranked in zip(model.predict(X), best, strict=True):
        assert (ranked[0][1] == path).all()
        assert ranked[0][0] >= ranked[-1][0]
    mx.save(model, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    assert type(again) is type(model)
    assert again.log_loss(X, Y) == model.log_loss(X, Y)


@pytest.mark.parametrize("kind", ["dense", "sparse", "names", "mappings"])
def test_kinds_of_input_agree(kind):
    binary = [(x > 0).astype(float) for x in X]
    given = {
        "dense": binary,
        "sparse": [sparse.csr_array(x) for x in binary],
        "names": [[[f"f{j}" for j in np.flatnonzero(row)] for row in x] for x in binary],
        "mappings": [[{f"f{j}": bool(v) for j, v in enumerate(row)} for row in x] for x in binary],
    }
    dense = mx.L2CRF(0.5, tol=1e-10).fit(binary, Y)
    other = mx.L2CRF(0.5, all_pairs=True, tol=1e-10).fit(given[kind], Y)
    assert other.objective_ == pytest.approx(dense.objective_, abs=1e-8)
    for a, b in zip(dense.predict_proba(binary), other.predict_proba(given[kind]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_transitions_that_depend_on_the_input():
    rng = np.random.default_rng(5)
    X, y = [], []
    for _ in range(60):  # the label changes where the feature says so, and only there
        change = rng.integers(0, 2, size=6)
        X.append(np.column_stack([change, np.ones(6)]).astype(float))
        y.append(np.cumsum(change) % 2)
    for path in y:
        path[:] = (path - path[0]) % 2
    constant, free = (mx.ChainClassifier(transitions=t).fit(X, y) for t in ("constant", "input"))
    assert free.score(X, y) > 0.99
    assert constant.score(X, y) < 0.9
    with pytest.raises(ValueError, match="transitions must be"):
        mx.ChainClassifier(transitions="free").fit(X, y)


@pytest.mark.parametrize("loss", ["crf", "hinge", "sparsemap", "softmax-margin"])
def test_hidden_labels(loss):
    hidden = [row.astype(object) for row in Y]
    hidden[0][0] = hidden[3][-1] = None
    hidden[4][:] = None
    with pytest.warns(UserWarning, match="not convex.*gap_ is inf"):
        model = mx.ChainClassifier(loss, 0.05).fit(X, hidden)
    assert model.gap_ == np.inf
    assert model.score(X, Y) > 0.8
    full = mx.ChainClassifier(loss, 0.05).fit(X, Y)
    assert model.objective_ < full.objective_ + 1e-3


def test_hidden_labels_of_a_crf_are_summed_over():
    hidden = [row.astype(object) for row in Y]
    hidden[1][0] = None
    with pytest.warns(UserWarning, match="not convex"):
        model = mx.ChainClassifier("crf", 0.05, tol=1e-8).fit(X, hidden)
    chain, losses = mx.Chain(2), []
    for x, path in zip(X, hidden, strict=True):
        scores = mx.ChainMap([x], 2).scores(model.weights_)
        vertices = chain.vertices(chain.size(len(x)))
        paths = np.array(chain.decode(vertices))
        values = np.array(
            [np.sum(scores.rows()[0] * chain.tie(v[None]).rows()[0]) for v in vertices]
        )
        known = np.array([v is not None for v in path])
        fits = (paths[:, known] == path[known].astype(int)).all(axis=1)
        losses.append(np.logaddexp.reduce(values) - np.logaddexp.reduce(values[fits]))
    assert model.loss_ == pytest.approx(np.mean(losses), abs=1e-9)


def test_separable_data_without_a_penalty():
    X, y = _data(20, noise=0.0)
    with pytest.warns(mx.SeparableWarning, match="separable.*Give a penalty"):
        model = mx.CRF().fit(X, y)
    assert np.isfinite(model.weights_).all()
    assert model.score(X, y) == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.CRF().fit([[[1.0]], [[1.0]]], [[0], [1]])


def test_costs_change_the_margin():
    costly = np.array([[0.0, 5.0], [1.0, 0.0]])
    cautious = mx.ChainClassifier("hinge", 0.05, cost=costly).fit(X, Y)
    plain = mx.ChainClassifier("hinge", 0.05).fit(X, Y)
    count = lambda model: sum(np.sum(row) for row in model.predict(X))  # noqa: E731
    assert count(cautious) < count(plain)
    with pytest.raises(ValueError, match=r"0 on the diagonal"):
        mx.ChainClassifier("hinge", cost=np.ones((2, 2))).fit(X, Y)
    with pytest.raises(ValueError, match=r"shape \(2, 2\), got \(3, 3\)"):
        mx.ChainClassifier("hinge", cost=np.zeros((3, 3))).fit(X, Y)


@pytest.mark.parametrize("kind", ["squared", "kl"])
def test_slack_functions(kind):
    w, t, strength, rate = cp.Variable(10), cp.Variable(len(X)), 0.05, 3.0
    slacks = cp.hstack(_slacks(X, Y, w))
    if kind == "squared":
        loss, limits = cp.sum_squares(cp.pos(slacks)) / 2, []
    else:
        loss, limits = cp.sum(t - (1 + cp.log(rate * t)) / rate), [t >= slacks, t >= 1 / rate]
    penalty = strength / 2 * cp.sum_squares(w)
    value = cp.Problem(cp.Minimize(loss / len(X) + penalty), limits).solve(solver=cp.CLARABEL)
    given = {"slack_rate": rate} if kind == "kl" else {}
    model = mx.ChainClassifier("hinge", strength, slack=kind, tol=1e-6, **given).fit(X, Y)
    assert model.objective_ == pytest.approx(value, abs=2e-6)
    assert model.gap_ <= 1e-6
    points, classes = np.concatenate(X), np.concatenate(Y)
    node = mx.MED(10.0, slack=kind, tol=1e-5).fit(points, classes)
    single = mx.ChainClassifier("hinge", 0.1 / len(points), slack=kind, tol=1e-5)
    single.fit([p[None] for p in points], [[c] for c in classes])
    assert node.objective_ == pytest.approx(single.objective_, abs=2e-5)
    with pytest.raises(ValueError, match='is for loss="hinge"'):
        mx.ChainClassifier("crf", slack=kind).fit(X, Y)


@pytest.mark.parametrize("kind", ["squared", "kl"])
def test_slack_entropies_are_conjugate(kind):
    rng = np.random.default_rng(4)
    right = np.eye(4)[rng.integers(0, 4, size=30)]
    entropy = mx.Slack(mx.Shifted(mx.Zero(), 1 - right), right, kind, 2.5)
    theta = rng.normal(size=right.shape)
    value, p = entropy.conjugate(theta)
    assert entropy.domain.contains(p).all()
    np.testing.assert_allclose(entropy.value(p), np.sum(theta * p, axis=1) - value, atol=1e-12)
    other = rng.uniform(0, 0.9, size=(30, 1)) * (rng.dirichlet(np.ones(4), size=30) - right)
    slack = value + entropy.value(other) - np.sum(theta * other, axis=1)
    assert slack.min() >= -1e-12  # Fenchel and Young
    assert (entropy.value(-other)[np.abs(other).sum(axis=1) > 0] == np.inf).all()
    step = 1e-6 * rng.normal(size=theta.shape)
    ahead, behind = (entropy.conjugate(theta + s * step)[0] for s in (1, -1))
    np.testing.assert_allclose((ahead - behind) / 2, np.sum(p * step, axis=1), atol=1e-10)
    with pytest.raises(ValueError, match="unbounded on a cone"):
        entropy.domain.argmax(theta)
    with pytest.raises(TypeError, match="Simplex, Chain and Tree"):
        mx.Slack(mx.Zero(domain=mx.Cube()), right)


def test_sample_weights_are_repetitions():
    weights = np.arange(len(X)) % 3
    repeated = [i for i, k in enumerate(weights) for _ in range(k)]
    for model in (mx.L2CRF(0.2, tol=1e-10), mx.M3N(0.5, tol=1e-10)):
        one = clone(model).fit(X, Y, sample_weight=weights)
        many = clone(model).fit([X[i] for i in repeated], [Y[i] for i in repeated])
        assert one.objective_ == pytest.approx(many.objective_, abs=1e-8)


def test_grid_search():
    search = GridSearchCV(mx.L2CRF(), {"c2": [0.01, 1.0]}, cv=3).fit(
        np.array(X, dtype=object), np.array(Y, dtype=object)
    )
    assert search.best_params_["c2"] in (0.01, 1.0)


def test_constant_features_change_nothing():
    wide = [np.column_stack([x, np.zeros(len(x))]) for x in X]
    for model in (mx.M3N(1.0, tol=1e-9), mx.L1CRF(0.2, tol=1e-9)):
        assert clone(model).fit(wide, Y).objective_ == pytest.approx(
            clone(model).fit(X, Y).objective_, abs=1e-8
        )


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], [], "no sequences"),
        ([np.zeros((0, 2))], [[]], "sequence 0 is empty"),
        ([[["a"]], []], [[0], []], "sequence 1 is empty"),
        ([np.ones((2, 1))], [[0, 1], [1]], "X has 1 sequences, y has 2"),
        ([np.ones((2, 1)), np.ones((3, 1))], [[0, 1], [1, 0]], r"sequence 1 has 3 positions in X"),
        ([np.ones((2, 1))], [[1, 1]], "all labels are"),
        ([np.ones((2, 1))], [[None, None]], "all labels are hidden"),
        ([np.ones((2, 1))], None, "y to be passed"),
        ([np.ones((2, 1))], [[0.5, 1.5]], "expected texts, integers"),
        ([np.array([[np.nan], [1.0]])], [[0, 1]], "NaN"),
        ([np.ones((2, 1)), [["a"]]], [[0, 1], [0]], "do not mix kinds"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        mx.ChainClassifier().fit(X, y)


def test_bad_input_to_a_fitted_model():
    model = mx.L2CRF().fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but L2CRF is expecting 3"):
        model.predict([np.ones((2, 2))])
    with pytest.raises(ValueError, match="fitted to matrices"):
        model.predict([[["a"]]])
    with pytest.raises(ValueError, match=r"labels that training did not have: 7"):
        model.log_loss(X[:1], [np.full(len(X[0]), 7)])
    assert model.score(X[:1], [np.full(len(X[0]), 7)]) == 0.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (mx.M3N(C=0), "C must be a finite number > 0"),
        (mx.L1CRF(c1=-1), "c1 must be"),
        (mx.L2CRF(c2=np.inf), "c2 must be"),
        (mx.LaplaceMEDN(lam=0), "lam must be"),
        (mx.LaplaceMEDN(method="fast"), 'method must be "exact"'),
        (mx.LaplaceMEDN(rounds=3), 'no effect with method="exact"'),
        (mx.LaplaceMEDN(method="variational", rounds=0), "rounds must be"),
        (mx.L1M3N(C=3.0, radius=1.0), "has no effect"),
        (mx.ChainClassifier("logistic"), "loss must be one of"),
        (mx.ChainClassifier(mx.Shannon(domain=mx.Chain(3))), "3 states, y has 2 labels"),
        (mx.ChainClassifier(least=0), "least must be"),
        (mx.ChainClassifier(tol=-1), "tol must be"),
        (mx.ChainClassifier("hinge", slack="cubic"), "slack must be one of"),
        (mx.ChainClassifier("hinge", slack_rate=2.0), "slack_rate=2.0 has no effect"),
    ],
)
def test_bad_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_margin_bound_has_the_constants_of_theorem_8():
    """By hand: 4 e^(-100 0.25/32) and sqrt((50 + ln 1000 + 3 ln 2020 + 2) / 1999), m = 100."""
    margins = np.repeat([0.4, 0.9], [100, 900])
    bound = margin_bound(
        margins, 0.5, gamma=0.5, scale=1.0, log_outputs=np.log(4), delta=0.05, copies=100
    )
    assert bound.margin_error == 0.1
    assert bound.copies_term == pytest.approx(1.831333, abs=1e-6)
    assert bound.divergence_term == pytest.approx(0.202214, abs=1e-6)
    assert bound.error == pytest.approx(0.1 + 1.831333 + 0.202214, abs=2e-6)


def test_margin_bound_says_something_for_a_prior_of_coins():
    """Weights of +-1: |F| <= ||x||_1 <= 1, the condition of Theorem 8."""
    rng = np.random.default_rng(2)

    def draw(n):
        classes = rng.integers(2, size=n)
        right = rng.random(n) < 0.98
        points = 0.02 * rng.choice([-1.0, 1.0], size=(n, 5))
        points[:, 0] = 0.9 * np.where(right, 2 * classes - 1, 1 - 2 * classes)
        return points, classes

    points, classes = draw(20_000)
    coins = mx.CumulantPrior(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh)
    model = mx.MED(C=0.1, prior=coins, tol=1e-3).fit(points, classes)
    assert (np.abs(model.coef_) <= 1 + 1e-9).all()
    margins = (2 * classes - 1) * model.decision_function(points)
    fresh, answers = draw(100_000)
    error = np.mean(model.predict(fresh) != answers)
    for gamma in (0.5, 0.8):
        given = {"gamma": gamma, "scale": 1.0, "log_outputs": np.log(2)}
        bound = margin_bound(margins, model.divergence_, **given)
        assert error <= bound.error < 0.12
        fixed = margin_bound(margins, model.divergence_, copies=bound.copies * 2, **given)
        assert bound.error <= fixed.error


@pytest.mark.parametrize("check", WITHOUT_TABLES, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "model",
    [*(mx.CRF(), mx.L1CRF(), mx.L2CRF(), mx.M3N(), mx.L1M3N(), mx.LaplaceMEDN()),
     *(mx.L2CRFCV(), mx.M3NCV(), mx.ChainClassifier(), mx.TreeClassifier())],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_scikit_learn(check, model):
    check(type(model).__name__, clone(model))


@estimator_checks.parametrize_with_checks([mx.MED(), mx.MED(prior="laplace")])
def test_scikit_learn_checks_of_med(estimator, check):
    check(estimator)
