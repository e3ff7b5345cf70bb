import math

import numpy as np
import pytest
from scipy import sparse

import maxent as mx
from maxent.core.solvers import choose, newton_cg
from maxent.core.solvers._outputs_apart import lie_apart
from maxent.core.solvers.hessian import Curvature, FullHessian, Samples, second_order
from maxent.rows.products import SampleProducts

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 30))
Y = RNG.integers(0, 6, size=150)
ENTROPIES = [mx.Shannon(), mx.Tsallis(1.5), mx.Tsallis(2.0), mx.Tsallis(2.7), mx.SquaredNorm()]


def _classifier(entropy, potential=None, X=X, classes=6, y=Y, **settings):
    potential = potential or mx.Quadratic(0.01)
    return mx.Problem(entropy, mx.SampleMap(X, classes), potential, observed=y, **settings)


@pytest.mark.parametrize("entropy", ENTROPIES, ids=repr)
@pytest.mark.parametrize(
    "potential",
    [
        mx.Quadratic(0.01),
        mx.Quadratic(np.linspace(0.005, 0.05, 180)),
        mx.LaplacePrior(0.02),
        mx.SmoothBox(0.02, 0.1),
        mx.QuadraticForm(0.01 * np.eye(180) + 0.001),
        mx.ScaledPotential(mx.Quadratic(0.01), 2.0),
        mx.Families([mx.Quadratic(0.01), mx.LaplacePrior(0.02)], [60, 120]),
    ],
    ids=lambda p: repr(p)[:12],
)
def test_it_agrees_with_lbfgs(entropy, potential):
    problem = _classifier(entropy, potential)
    mine = problem.solve(mx.NewtonCG(tol=1e-10))
    other = problem.solve(mx.LBFGS(tol=1e-9, max_iter=20_000))
    assert mine.gap <= 1e-10
    assert abs(mine.objective - other.objective) < 1e-8
    assert mine.n_iter < other.n_iter


@pytest.mark.parametrize("entropy", [mx.FermiDirac(), mx.BinaryGini()], ids=repr)
def test_one_vs_all_models(entropy):
    labels = np.eye(6)[Y]
    problem = mx.Problem(entropy, mx.SampleMap(X, 6), mx.Quadratic(0.01), observed=labels)
    mine, other = problem.solve(mx.NewtonCG(tol=1e-11)), problem.solve(mx.ProxNewton(tol=1e-11))
    np.testing.assert_allclose(mine.w, other.w, atol=1e-5)


def test_multinomial_logistic_regression_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    problem = _classifier(mx.Shannon())
    peer = LogisticRegression(
        C=1 / (150 * 0.01), solver="newton-cg", fit_intercept=False, tol=1e-10, max_iter=1000
    ).fit(X, Y)
    solution = problem.solve(mx.NewtonCG(tol=1e-13))
    np.testing.assert_allclose(solution.w.reshape(30, 6).T, peer.coef_, atol=1e-5)
    assert solution.objective <= problem.dual(peer.coef_.T.ravel()) + 1e-12


@pytest.mark.parametrize("entropy", ENTROPIES, ids=repr)
@pytest.mark.parametrize("rows", [150, 20], ids=["tall", "wide"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "fortran"])
def test_the_model_is_the_hessian(entropy, rows, kind):
    dense = np.where(RNG.random((rows, 30)) < 0.3, RNG.normal(size=(rows, 30)), 0.0)
    given = {
        "dense": dense,
        "sparse": sparse.csr_array(dense),
        "fortran": np.asfortranarray(dense),
    }[kind]
    weights = RNG.uniform(size=rows) / rows
    problem = _classifier(entropy, X=given, y=Y[:rows], weights=weights)
    state = problem.state(0.3 * RNG.normal(size=180))
    fast, plain = second_order(problem), Curvature(problem)
    assert type(fast) is Samples
    model, reference = fast.model_at(state), plain.model_at(state)
    v = RNG.normal(size=180)
    np.testing.assert_allclose(model.product(v), reference.product(v), rtol=1e-5, atol=1e-7)
    # symmetric and positive, as conjugate gradients need it
    u = RNG.normal(size=180)
    assert abs(u @ model.precondition(v) - v @ model.precondition(u)) < 1e-6 * abs(v @ v) * 100
    assert v @ model.precondition(v) > 0


def test_the_preconditioner_is_exact_where_all_rows_have_one_jacobian():
    problem = _classifier(mx.Shannon())  # at w = 0 every row is uniform
    model = second_order(problem).model_at(problem.state(np.zeros(180)))
    v = RNG.normal(size=180)
    np.testing.assert_allclose(model.precondition(model.product(v)), v, rtol=1e-4, atol=1e-4)


def test_many_columns_fall_back_to_the_diagonal():
    wide = sparse.random(600, 2000, 0.005, random_state=0, format="csr")
    y = RNG.integers(0, 3, size=600)
    problem = _classifier(mx.Tsallis(1.5), mx.Quadratic(1e-3), wide, 3, y)
    assert second_order(problem).spectrum is None
    mine, other = problem.solve(mx.NewtonCG(tol=1e-9)), problem.solve(mx.LBFGS(tol=1e-9))
    assert abs(mine.objective - other.objective) < 1e-8


@pytest.mark.parametrize("alike", [False, True], ids=["columns apart", "columns alike"])
def test_one_output_pays_for_a_spectrum_only_after_as_many_products(alike):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 120)) + (30 * rng.normal(size=(2000, 1)) if alike else 0)
    y = (X @ rng.normal(size=120) > 40 * rng.normal(size=2000)).astype(float)
    features = mx.SampleMap(X, 1)
    ridge = mx.QuadraticForm(1e-3 * np.eye(120)) if alike else mx.Quadratic(1e-3)
    problem = mx.Problem(mx.FermiDirac(), features, ridge, observed=y[:, None])
    curvature, state = second_order(problem), problem.origin()
    model = curvature.model_at(state)
    assert model.patience == math.ceil(curvature.price) > 4
    v = rng.normal(size=120)
    np.testing.assert_allclose(
        model.product(v), Curvature(problem).model_at(state).product(v), rtol=1e-4, atol=1e-4
    )
    assert curvature.model_at(state).patience == model.patience - 1
    assert "spectrum" not in vars(curvature)
    for _ in range(model.patience):
        model.product(v)
    assert curvature.model_at(state).patience == math.inf
    assert "spectrum" in vars(curvature)
    solution = problem.solve(mx.NewtonCG(tol=1e-8))
    assert abs(solution.objective - problem.solve(mx.LBFGS(tol=1e-9)).objective) < 1e-7


def test_few_features_are_written_out():
    cells = RNG.uniform(size=(40, 4))
    observed = RNG.dirichlet(np.full(40, 0.3))
    problem = mx.Problem(mx.Tsallis(1.5), cells, mx.LaplacePrior(0.1), observed=observed)
    curvature = second_order(problem)
    assert type(curvature) is FullHessian
    state = problem.state(RNG.normal(size=4))
    v = RNG.normal(size=4)
    expected = Curvature(problem).model_at(state).product(v)
    np.testing.assert_allclose(curvature.model_at(state).product(v), expected, rtol=1e-10)
    assert problem.solve(mx.NewtonCG()).n_iter < 10


def test_structured_models_and_entropies_without_a_simple_jacobian():
    rng = np.random.default_rng(1)
    chain = mx.ChainMap([rng.normal(size=(t, 3)) for t in (2, 4, 3)], 2)
    start = mx.Problem(
        mx.Shannon(domain=mx.Chain(2)), chain, mx.Quadratic(0.1), target=np.zeros(10)
    )
    target = start.state(rng.normal(size=10)).gradient
    crf = mx.Problem(mx.Shannon(domain=mx.Chain(2)), chain, mx.Quadratic(0.1), target=target)
    renyi = _classifier(mx.Renyi(0.7))
    for problem in (crf, renyi):
        mine, other = problem.solve(mx.NewtonCG()), problem.solve(mx.LBFGS())
        assert abs(mine.objective - other.objective) < 1e-8


def test_weights_are_repetitions_and_a_zero_weight_is_no_row():
    counts = RNG.integers(0, 4, size=150)
    weighted = _classifier(mx.Tsallis(1.5), weights=counts / counts.sum()).solve(mx.NewtonCG())
    repeated = _classifier(
        mx.Tsallis(1.5), X=np.repeat(X, counts, axis=0), y=np.repeat(Y, counts)
    ).solve(mx.NewtonCG())
    assert abs(weighted.objective - repeated.objective) < 1e-8


@pytest.mark.parametrize("unit", [1e-20, 1e-6, 1e6, 1e20])
def test_the_unit_of_the_features_does_not_matter(unit):
    plain = _classifier(mx.Tsallis(1.5)).solve(mx.NewtonCG())
    scaled = _classifier(mx.Tsallis(1.5), mx.Quadratic(0.01 * unit**2), unit * X)
    solution = scaled.solve(mx.NewtonCG())
    assert solution.status is mx.Status.CONVERGED
    np.testing.assert_allclose(solution.p, plain.p, atol=1e-4)


def test_a_steep_start_and_a_tolerance_below_rounding():
    problem = _classifier(mx.Tsallis(2.0), mx.Quadratic(1e-4))
    far = problem.solve(mx.NewtonCG(), w0=1e4 * RNG.normal(size=180))
    assert far.gap <= 1e-8
    with pytest.warns(mx.ConvergenceWarning, match="stalled"):
        solution = problem.solve(mx.NewtonCG(tol=0.0))
    assert solution.gap < 1e-11


def test_what_is_missing_is_said():
    with pytest.raises(TypeError, match="no second derivative; use ProxNewton or FISTA"):
        _classifier(mx.Shannon(), mx.Box(0.1)).solve(mx.NewtonCG())
    with pytest.raises(TypeError, match="not differentiable"):
        _classifier(mx.Zero()).solve(mx.NewtonCG())
    with pytest.raises(ValueError, match="accuracy must lie between 0 and 1"):
        mx.NewtonCG(accuracy=1.0)
    with pytest.raises(ValueError, match="cg_iter must be >= 1"):
        mx.NewtonCG(cg_iter=0)


def test_auto_takes_it_for_classifiers_with_many_weights():
    from maxent.core.solvers import choose

    assert isinstance(choose("auto", _classifier(mx.Tsallis(1.5))), mx.NewtonCG)
    assert isinstance(choose("auto", _classifier(mx.Shannon(), X=X[:, :9])), mx.ProxNewton)
    assert isinstance(choose("auto", _classifier(mx.Shannon(), mx.Box(0.1))), mx.ProxNewton)
    assert isinstance(choose("auto", _classifier(mx.Renyi(0.5))), mx.LBFGS)


def test_sparse_predictions_have_the_same_moments_as_dense_ones():
    dense = mx.SampleMap(X, 6)
    p = mx.Tsallis(2.0).conjugate(8 * RNG.normal(size=(150, 6)))[1]
    p[:100] = 0
    assert np.count_nonzero(p) < 0.15 * p.size
    np.testing.assert_allclose(dense.moments(p), (X.T @ p).ravel(), atol=1e-12)


@pytest.mark.parametrize("domain", [mx.Cube(), mx.NonNegative()])
@pytest.mark.parametrize("ridge", [1e-1, 1e-4])
def test_a_start_without_curvature(domain, ridge):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    Y = (X @ rng.standard_normal((5, 4)) > 0.5).astype(float)
    entropy = mx.SquaredNorm(domain=domain)  # at w = 0 every score is at an end of its interval
    problem = mx.Problem(entropy, mx.SampleMap(X, 4), mx.Quadratic(ridge), observed=Y)
    solution = problem.solve(mx.NewtonCG(tol=1e-9))
    assert solution.status is mx.Status.CONVERGED
    assert solution.objective == pytest.approx(problem.solve(mx.LBFGS(tol=1e-10)).objective)


def test_steps_beyond_kinks_are_damped(monkeypatch):
    """Nearly separable rows of sparsemax have little curvature left, and many kinks."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 20))
    y = (X @ rng.standard_normal((20, 6)) + 0.1 * rng.standard_normal((400, 6))).argmax(1)
    problem = mx.Problem(mx.Tsallis(2.0), mx.SampleMap(X, 6), mx.Quadratic(1e-6), observed=y)
    products = []
    product = SampleProducts.product

    def counted(*arguments):
        multiply = product(*arguments)
        return lambda v: products.append(0) or multiply(v)

    monkeypatch.setattr(SampleProducts, "product", counted)
    counts = []
    for cut in (newton_cg._CUT, 0.0):
        monkeypatch.setattr(newton_cg, "_CUT", cut)
        products.clear()
        solution = problem.solve(mx.NewtonCG(tol=1e-6))
        assert solution.status is mx.Status.CONVERGED
        counts.append(len(products))
    assert counts[0] < 0.75 * counts[1]


def _wide_sparsemax(strength):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(200, 500))
    scores = wide @ rng.normal(size=(500, 10)) / 10 + rng.gumbel(size=(200, 10))
    return _classifier(mx.Tsallis(2.0), mx.Quadratic(strength), wide, 10, np.argmax(scores, axis=1))


def test_steps_that_kinks_cut_again_and_again_make_way_for_lbfgs():
    problem = _wide_sparsemax(1e-4)
    solution = problem.run(mx.NewtonCG(tol=1e-8, max_iter=1000))
    assert solution.status is mx.Status.CONVERGED
    other = problem.solve(mx.LBFGS(tol=1e-8))
    assert abs(solution.objective - other.objective) < 1e-8
    assert solution.n_iter < 3 * other.n_iter


def test_auto_takes_lbfgs_for_a_sparse_map_with_fewer_samples_than_columns():
    assert isinstance(choose("auto", _wide_sparsemax(1e-3)), mx.LBFGS)
    shifted = mx.Shifted(mx.Tsallis(2.0), 0.1 * np.ones(6))
    for entropy in (mx.SquaredNorm(), shifted, mx.Scaled(mx.Tsallis(2.0), 0.5)):
        assert isinstance(choose("auto", _classifier(entropy, X=X[:20], y=Y[:20])), mx.LBFGS)
    for problem in (
        _classifier(mx.Tsallis(2.0)),  # many samples
        _classifier(mx.Tsallis(1.5), X=X[:20], y=Y[:20]),  # curvature without jumps
        _classifier(mx.Shannon(), X=X[:20], y=Y[:20]),
    ):
        assert isinstance(choose("auto", problem), mx.NewtonCG)


def _labelled(seed=0, samples=60, columns=90, labels=6):
    """Rare words and rare labels: most outputs are certain of most samples."""
    rng = np.random.default_rng(seed)
    X = (rng.random((samples, columns)) < 0.08).astype(float)
    X[:, -1] = 1.0
    Y = (X @ rng.normal(size=(columns, labels)) + rng.normal(size=labels) > 1.0).astype(float)
    Y[0], Y[1] = 1.0, 0.0
    return X, Y


APART = [
    mx.FermiDirac(),
    mx.BinaryGini(),
    mx.OneVsAll(mx.Tsallis(1.5)),
    mx.SquaredNorm(domain=mx.Cube()),
    mx.SquaredNorm(domain=mx.NonNegative()),
]


@pytest.mark.parametrize("entropy", APART, ids=repr)
def test_separable_entropies_are_sums_over_entries(entropy):
    theta = np.random.default_rng(0).normal(scale=2, size=(4, 3))
    assert entropy.separable
    values, p = entropy.conjugate(theta)
    single, q = entropy.conjugate(theta.reshape(-1, 1))
    np.testing.assert_allclose(values, single.reshape(4, 3).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(p.ravel(), q.ravel(), rtol=1e-13)
    assert not mx.Shannon().separable
    assert not mx.SquaredNorm().separable


@pytest.mark.parametrize("table", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("entropy", APART, ids=repr)
def test_outputs_apart_are_problems_of_their_own(entropy, table):
    """Together as alone, in few steps although each output meets kinks of its own."""
    X, Y = _labelled()
    columns, labels = X.shape[1], Y.shape[1]

    def problem(y, free):
        s = np.full((columns, y.shape[1]), 1e-3)
        s[-1] = 0.0 if free else 1e-3
        ridge = mx.ElasticNet(0.0, s.ravel()) if free else mx.Quadratic(1e-3)
        return mx.Problem(entropy, mx.SampleMap(table(X), y.shape[1]), ridge, observed=y)

    together = problem(Y, free=False)
    assert isinstance(choose("auto", together), mx.NewtonCG)
    solution = together.solve(mx.NewtonCG(tol=1e-9))
    assert solution.n_iter <= 40
    alone = [problem(Y[:, [j]], free=False).solve(mx.LBFGS(tol=1e-9)) for j in range(labels)]
    assert abs(solution.objective - sum(one.objective for one in alone)) < 1e-8
    p = np.hstack([one.p for one in alone])
    np.testing.assert_allclose(solution.p, p, atol=1e-3)


def test_outputs_apart_need_a_penalty_on_single_weights():
    X, Y = _labelled()
    features = mx.SampleMap(X, Y.shape[1])

    def apart(entropy, potential, observed=Y):
        return lie_apart(mx.Problem(entropy, features, potential, observed=observed))

    assert apart(mx.BinaryGini(), mx.Quadratic(0.1))
    assert not apart(mx.BinaryGini(), mx.Box(0.1))
    assert not apart(mx.BinaryGini(), mx.Ball(0.1))
    assert not apart(mx.Shannon(), mx.Quadratic(0.1), np.zeros(len(X), int))
