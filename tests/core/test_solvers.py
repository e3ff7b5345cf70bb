import dataclasses
import warnings

import numpy as np
import pytest
from scipy import optimize

import maxent as mx
from catalogue import SOLVERS
from maxent.testing import check_solver
from maxent.testing.solvers import known_problems


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_every_solver_reaches_its_certificate(solver):
    check_solver(solver)


@pytest.mark.parametrize("solver", [mx.FISTA, mx.LBFGS, mx.ProxNewton])
def test_tight_tolerance_and_agreement_with_the_known_weights(solver):
    tight = solver(tol=1e-11)
    for known in known_problems(1):
        if known.w is None or solver.missing(known.problem):
            continue
        solution = tight.solve(known.problem)
        assert solution.status.reached, f"{known.name}: {solution}"
        assert abs(solution.objective - known.problem.dual(known.w)) < 1e-10, known.name
        # weights need not be unique (a constant added to all classes), predictions are
        np.testing.assert_allclose(solution.p, known.problem.state(known.w).p, atol=1e-4)


def test_check_solver_catches_a_solver_that_stops_too_early():
    @dataclasses.dataclass(frozen=True)
    class Lazy(mx.FISTA):
        def _done(self, state):
            return True

    with pytest.raises(AssertionError, match="certificate"):
        check_solver(Lazy())


def _density(potential, entropy=None, cells=40, features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(cells, features))
    observed = rng.dirichlet(np.full(cells, 0.3))
    return mx.Problem(entropy or mx.Shannon(), X, potential, observed=observed)


@pytest.mark.parametrize("name", ["auto", "prox-newton", "fista", "lbfgs"])
def test_solvers_by_name(name):
    solution = _density(mx.Quadratic(0.1)).solve(name)
    assert solution.status is mx.Status.CONVERGED
    assert solution.gap <= 1e-8


def test_unknown_solver_names_are_refused():
    with pytest.raises(ValueError, match=r"unknown solver 'newton'.*'auto'"):
        _density(mx.Quadratic(0.1)).solve("newton")


@pytest.mark.parametrize(
    ("solver", "potential", "entropy", "message"),
    [
        (mx.LBFGS(), mx.Box(0.1), mx.Shannon(), "kinks; use FISTA or ProxNewton"),
        (mx.ProxNewton(), mx.Ball(0.1), mx.Shannon(), "not a sum of l1 and squared l2"),
        (mx.ProxNewton(), mx.Box(0.1), mx.NormEntropy(2.0), "no simple Jacobian"),
        (mx.FISTA(), mx.Quadratic(0.1), mx.Zero(), "not differentiable.*CuttingPlane"),
        (mx.CuttingPlane(), mx.ElasticNet(0.1, 0.1), mx.Zero(), "Quadratic .* or Box"),
    ],
)
def test_an_incompatible_solver_says_what_is_missing(solver, potential, entropy, message):
    with pytest.raises(TypeError, match=message):
        solver.solve(_density(potential, entropy))


class _Unknown(mx.CumulantPrior):
    """Means that end, and a curvature that nobody knows."""

    def conjugate_hessian(self, v):
        return None


def test_no_solver_fits_lists_every_reason():
    ranks = mx.Zero(domain=mx.Permutahedron([2.0, 1.0, 0.0]))
    fair_coin = _Unknown(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh)
    problem = mx.Problem(ranks, np.eye(3), fair_coin, np.ones(3))
    with pytest.raises(TypeError, match=r"prox-newton[\s\S]*lbfgs[\s\S]*fista[\s\S]*cutting-plane"):
        problem.solve()


def test_bad_settings_and_starts_are_refused():
    with pytest.raises(ValueError, match="tol must be >= 0"):
        mx.FISTA(tol=-1.0)
    with pytest.raises(ValueError, match="max_iter must be >= 1"):
        mx.FISTA(max_iter=0)
    with pytest.raises(ValueError, match=r"w0 must be a finite vector of shape \(4,\)"):
        _density(mx.Quadratic(0.1)).solve(w0=[1.0, 2.0])
    with pytest.raises(ValueError, match="w0 must be a finite"):
        _density(mx.Quadratic(0.1)).solve(w0=[1.0, np.nan, 0.0, 0.0])


def test_history_callback_and_warm_start():
    problem = _density(mx.Box(0.01))
    seen = []
    cold = mx.FISTA().solve(problem, callback=lambda k, state: seen.append((k, state.dual)))
    assert [k for k, _ in seen] == list(range(1, cold.n_iter + 1))
    assert len(cold.history) == cold.n_iter + 1
    assert set(cold.history[0]) == {"seconds", "objective", "gap", "optimality"}
    assert cold.history[-1]["gap"] == cold.gap <= 1e-8
    warm = mx.FISTA().solve(problem, w0=cold.w)
    assert warm.n_iter == 0
    assert warm.status is mx.Status.CONVERGED


def test_max_iter_is_reported():
    with pytest.warns(mx.ConvergenceWarning, match=r"max_iter after 2 .* raise max_iter or tol"):
        solution = mx.FISTA(max_iter=2, tol=1e-14).solve(_density(mx.Box(0.01)))
    assert solution.status is mx.Status.MAX_ITER
    assert solution.n_iter == 2


def test_run_returns_the_status_and_never_warns():
    problem, hasty = _density(mx.Box(0.01)), mx.FISTA(max_iter=2, tol=1e-14)
    with pytest.warns(mx.ConvergenceWarning):
        warned = hasty.solve(problem)
    quiet = hasty.run(problem)  # a warning would be an error here
    assert quiet.status is warned.status is mx.Status.MAX_ITER
    np.testing.assert_array_equal(quiet.w, warned.w)
    again = problem.run("fista", max_iter=2, tol=1e-14)
    assert again.status is mx.Status.MAX_ITER
    np.testing.assert_array_equal(again.w, warned.w)
    path = list(mx.solution_path(problem, [2.0, 1.0], hasty, warn=False))
    assert [s.status for _, _, s in path] == [mx.Status.MAX_ITER] * 2


def test_the_warning_points_at_the_line_that_asked():
    problem, hasty = _density(mx.Box(0.01)), mx.FISTA(max_iter=2, tol=1e-14)
    calls = (
        lambda: hasty.solve(problem),
        lambda: problem.solve(hasty),
        lambda: list(mx.solution_path(problem, [1.0], hasty)),
    )
    for call in calls:
        with pytest.warns(mx.ConvergenceWarning) as caught:
            call()
        assert [w.filename for w in caught] == [__file__]


def test_interruption_keeps_the_best_point():
    def stop(count, state):
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(mx.Interrupted) as caught:
        mx.FISTA(tol=0.0).solve(_density(mx.Box(0.01)), callback=stop)
    solution = caught.value.solution
    assert isinstance(caught.value, KeyboardInterrupt)
    assert solution.status is mx.Status.INTERRUPTED
    assert solution.n_iter == 3
    assert np.isfinite(solution.w).all()


class Restless(mx.LBFGS):
    """Goes to the optimum, and then for ever to and fro by a few last bits."""

    def _iterate(self, problem, state):
        for reached in super()._iterate(problem, state):
            yield reached
            if reached.gap < 1e-13:
                break
        w, sign = reached.w, 1
        while True:
            sign = -sign
            yield problem.state(w * (1 + sign * 4e-16))


@pytest.mark.parametrize("potential", [mx.Quadratic(0.1), mx.Equality()], ids=repr)
def test_last_bits_that_never_settle_are_no_progress(potential):
    solution = Restless(tol=0.0).run(_density(potential))
    assert solution.status is mx.Status.STALLED
    assert solution.n_iter < 300


def test_a_tolerance_below_rounding_stalls_instead_of_looping():
    for solver in (mx.ProxNewton(tol=0.0), mx.LBFGS(tol=0.0)):
        with pytest.warns(mx.ConvergenceWarning, match="stalled"):
            solution = solver.solve(_density(mx.Quadratic(0.1)))
        assert solution.status is mx.Status.STALLED
        assert 0 < solution.gap < 1e-12  # never reported below its own rounding


def test_solution_prints_its_guarantee():
    text = str(_density(mx.Quadratic(0.1)).solve())
    assert "converged after" in text
    assert "KL(p* || p) <=" in text


def test_l1_logistic_regression_agrees_with_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    y = (X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0).astype(float)
    beta = 0.02
    problem = mx.Problem(mx.FermiDirac(), mx.SampleMap(X), mx.Box(beta), observed=y[:, None])
    solution = problem.solve()
    peer = LogisticRegression(
        l1_ratio=1,
        C=1 / (300 * beta),
        solver="liblinear",
        fit_intercept=False,
        tol=1e-10,
        max_iter=5000,
    ).fit(X, y)
    np.testing.assert_allclose(solution.w, peer.coef_.ravel(), atol=1e-5)
    assert solution.objective <= problem.dual(peer.coef_.ravel()) + 1e-12


def test_multinomial_logistic_regression_agrees_with_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(0, 3, 200)
    problem = mx.Problem(
        mx.Shannon(), mx.SampleMap(X, 3), mx.Quadratic(0.01), observed=np.eye(3)[y]
    )
    peer = LogisticRegression(C=1 / (200 * 0.01), fit_intercept=False, tol=1e-10, max_iter=5000)
    peer.fit(X, y)
    solution = mx.ProxNewton(tol=1e-13).solve(problem)
    np.testing.assert_allclose(solution.w.reshape(4, 3).T, peer.coef_, atol=1e-5)


def test_squared_loss_is_ridge_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    problem = mx.Problem(
        mx.SquaredNorm(domain=mx.Euclidean()),
        mx.SampleMap(X),
        mx.Quadratic(0.3),
        observed=y[:, None],
    )
    w = np.linalg.solve(X.T @ X / 50 + 0.3 * np.eye(4), X.T @ y / 50)
    np.testing.assert_allclose(problem.solve(mx.LBFGS(tol=1e-14)).w, w, atol=1e-6)


def test_crammer_singer_hinge_agrees_with_a_linear_programme():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    labels = np.eye(3)[y]
    beta = 0.05
    problem = mx.Problem(
        mx.Shifted(mx.Zero(), 1 - labels), mx.SampleMap(X, 3), mx.Box(beta), observed=labels
    )
    solution = problem.solve()
    assert solution.gap <= 1e-8
    # variables w+, w-, slack: min beta |w| + mean slack, slack_i >= 1[k != y] + theta_k - theta_y
    rows, limits = [], []
    for i in range(30):
        for k in range(3):
            f = np.outer(X[i], np.eye(3)[k] - labels[i]).ravel()
            slack = np.zeros(30)
            slack[i] = -1
            rows.append(np.concatenate([f, -f, slack]))
            limits.append(-float(k != y[i]))
    cost = np.concatenate([np.full(18, beta), np.full(30, 1 / 30)])
    found = optimize.linprog(cost, np.array(rows), limits, method="highs")
    # the dual objective leaves out <c, y> = 0 and Omega(y) = 0, so both are the same number
    assert abs(solution.objective - found.fun) < 1e-8


def test_sampled_hessian_reaches_the_certificate_on_many_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 12))
    y = (X[:, :3].sum(axis=1) + rng.logistic(size=50_000) > 0).astype(float)
    problem = mx.Problem(mx.FermiDirac(), mx.SampleMap(X), mx.Box(0.01), observed=y[:, None])
    solution = mx.ProxNewton(tol=1e-10).solve(problem)
    assert solution.status is mx.Status.CONVERGED
    assert solution.gap <= 1e-10
    reference = mx.FISTA(tol=1e-9).solve(problem)
    np.testing.assert_allclose(solution.w, reference.w, atol=1e-7)


@pytest.mark.parametrize("unit", [1e-100, 1e-20, 1e-8, 1.0, 1e8, 1e20])
@pytest.mark.parametrize("solver", [mx.ProxNewton(), mx.FISTA()], ids=lambda s: type(s).__name__)
def test_the_unit_of_the_features_does_not_matter(unit, solver):
    X = np.random.default_rng(0).uniform(size=(20, 3))
    observed = np.bincount([0, 1, 1, 2], minlength=20) / 4
    plain = solver.solve(mx.Problem(mx.Shannon(), X, mx.Box(0.01), observed=observed))
    scaled = solver.solve(
        mx.Problem(mx.Shannon(), unit * X, mx.Box(0.01 * unit), observed=observed)
    )
    assert scaled.status is mx.Status.CONVERGED
    np.testing.assert_allclose(scaled.p, plain.p, atol=1e-6)


def test_features_beyond_any_unit_stall_with_an_honest_gap():
    X = 1e-200 * np.random.default_rng(0).uniform(size=(20, 3))
    observed = np.bincount([0, 1, 1, 2], minlength=20) / 4
    with pytest.warns(mx.ConvergenceWarning, match="stalled"):
        solution = mx.Problem(mx.Shannon(), X, mx.Box(1e-202), observed=observed).solve()
    assert solution.status is mx.Status.STALLED
    assert solution.gap > 1


def test_progress_appears_after_a_while_and_can_be_silenced(monkeypatch, capsys):
    import maxent._support.progress as progress

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_LOG_PAUSE", 0.0)
    mx.FISTA(verbose=0).solve(_density(mx.Box(0.01)))
    assert capsys.readouterr().err == ""
    mx.FISTA().solve(_density(mx.Box(0.01)))
    assert "FISTA: iteration 1, gap" in capsys.readouterr().err


@pytest.mark.parametrize("potential", [mx.Box(0.05), mx.Equality()], ids=repr)
@pytest.mark.parametrize("solver", ["prox-newton", "fista"])
def test_moments_out_of_reach_are_never_called_converged(potential, solver):
    X = np.random.default_rng(0).uniform(size=(20, 3))
    problem = mx.Problem(mx.Shannon(), X, potential, target=[9.0, 9.0, 9.0])
    with pytest.warns(mx.ConvergenceWarning, match="check that the target can be reached"):
        solution = problem.solve(solver, max_iter=50)
    assert solution.status is not mx.Status.CONVERGED
    assert solution.optimality > 0.1


OUT_OF_REACH = [
    ([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], [0.7, -0.02]),
    ([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], [2.05, 0.0]),
    (np.random.default_rng(0).normal(size=(6, 3)), [3.0, 0.0, 0.0]),
]


@pytest.mark.parametrize(("cells", "target"), OUT_OF_REACH, ids=["off the line", "far", "space"])
@pytest.mark.parametrize("entropy", [mx.Shannon(), mx.Tsallis(1.5), mx.Tsallis(2.0), mx.Renyi(0.5)])
@pytest.mark.parametrize("solver", ["newton-cg", "prox-newton", "lbfgs", "fista", "ball-search"])
def test_moments_out_of_reach_are_unbounded_after_a_few_steps(solver, entropy, cells, target):
    potential = mx.Ball(0.01) if solver == "ball-search" else mx.Equality()
    if solver == "prox-newton" and not entropy.has_curvature:
        pytest.skip("not a problem for it")
    solution = mx.Problem(entropy, cells, potential, target=target).run(solver)
    assert solution.status is mx.Status.UNBOUNDED
    assert solution.n_iter <= {"fista": 200}.get(solver, 10)
    with pytest.warns(mx.ConvergenceWarning, match="unbounded after"):
        mx.Problem(entropy, cells, potential, target=target).solve(solver)


@pytest.mark.parametrize("solver", ["newton-cg", "prox-newton", "lbfgs", "fista"])
def test_targets_on_the_border_are_in_reach(solver):
    rng = np.random.default_rng(1)
    for size in (2, 5, 20):
        X = rng.normal(size=(size, 2))
        for face in (X[0], 0.5 * (X[0] + X[1]), X[:2].T @ [0.3, 0.7]):
            problem = mx.Problem(mx.Shannon(), X, mx.Equality(), target=face)
            assert problem.run(solver, max_iter=200).status is not mx.Status.UNBOUNDED
    far = mx.Problem(mx.Shannon(), 1e6 + X, mx.Equality(), target=1e6 + X[:2].mean(axis=0))
    assert far.run(solver, max_iter=200).status is not mx.Status.UNBOUNDED


@pytest.mark.parametrize("entropy", [mx.Renyi(0.5), mx.Shannon(), mx.Tsallis(1.2)], ids=repr)
@pytest.mark.parametrize("solver", ["auto", "fista"])
def test_an_optimum_at_infinity_is_never_called_converged(solver, entropy):
    """The mean of the last cell leaves the vertex alone, where the least primal is 0."""
    cells = np.arange(5.0)[:, None]
    for potential, target in ((mx.Equality(), 4.0), (mx.Box(0.5), 4.5)):
        problem = mx.Problem(entropy, cells, potential, target=[target])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the tolerance was reached: no warning
            solution = problem.solve(solver, tol=1e-5)
        assert solution.status is mx.Status.STATIONARY
        assert solution.status.reached
        assert solution.optimality <= 1e-5
    renyi = mx.Problem(mx.Renyi(0.5), cells, mx.Equality(), target=[4.0]).solve(solver, tol=1e-5)
    assert renyi.objective > 1e-4  # far above the tolerance
    assert str(renyi).startswith("stationary after")


def test_every_status_says_whether_the_tolerance_was_reached():
    reached = {status.value for status in mx.Status if status.reached}
    assert reached == {"converged", "stationary"}


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1.0, 1e6])
def test_moments_alone_are_matched_in_any_unit(unit):
    rng = np.random.default_rng(0)
    X, observed = rng.uniform(size=(20, 3)), rng.dirichlet(np.ones(20))
    problem = mx.Problem(mx.Shannon(), unit * X, mx.Equality(), target=unit * (observed @ X))
    solution = problem.solve()
    assert solution.status is mx.Status.STATIONARY
    np.testing.assert_allclose(solution.p @ X, observed @ X, atol=1e-7)


def test_settings_labels_and_classes_as_people_try_them():
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = np.arange(12) % 3
    labels, rows = (
        mx.Problem(mx.Shannon(), mx.SampleMap(X, 3), mx.Quadratic(0.1), observed=observed)
        for observed in (y, np.eye(3)[y])
    )
    assert labels.solve(tol=1e-4, verbose=0).gap <= 1e-4
    np.testing.assert_array_equal(labels.observed, rows.observed)
    with pytest.raises(TypeError, match=r"give an instance, FISTA\(\)"):
        rows.solve(mx.FISTA)
    assert repr(rows) == (
        "Problem(Shannon(domain=Simplex()), SampleMap(12 samples, 6 weights, 3 outputs), "
        "Quadratic(strength=0.1))"
    )
    assert repr(rows.solve()).startswith("<Solution: converged after")
    assert mx.Box(0.1) == mx.Box(0.1) != mx.Box(0.2)
