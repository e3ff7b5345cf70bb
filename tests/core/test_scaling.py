"""SUMMET, PLUMMET and BallSearch against other solvers, textbook steps and enumeration."""

import itertools

import numpy as np
import pytest
from scipy import optimize, sparse

import maxent as mx
from catalogue import POTENTIALS
from maxent.core.maps import FeatureMap
from tools import needs

INF = float("inf")
SOLVERS = [mx.SUMMET(), mx.PLUMMET()]

DECOMPOSABLE = [
    mx.Box(0.02),
    mx.Box([0.0, 0.05, 0.3, 0.001]),
    mx.Quadratic(0.1),
    mx.Quadratic([0.02, 0.1, 1.0, 5.0]),
    mx.ElasticNet(0.02, 0.1),
    mx.SmoothBox(0.15, 0.5),
    mx.LaplacePrior(0.5),
    mx.Families([mx.Box(0.1), mx.Quadratic(0.3)], [2, 2]),
    mx.Families([mx.LaplacePrior(0.5), mx.Quadratic(0.3)], [1, 3]),
    mx.Families([mx.SmoothBox(0.2, 1.0), mx.Box(0.15)], [1, 3]),
    mx.ScaledPotential(mx.ElasticNet(0.2, 1.0), 0.1),
    mx.ScaledPotential(mx.LaplacePrior(2.0), 0.3),
    mx.ShiftedPotential(mx.Quadratic(0.3), [0.1, -0.1, 0.2, 0.0]),
    mx.ShiftedPotential(mx.Box(0.2), [0.05, -0.02, 0.03, 0.0]),
]


def density(potential, entropy=None, seed=0, cells=30, units=(1.0, 20.0, 1.0, 0.1), **given):
    """Features of several units, none of them in [0, 1] by itself."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(cells, 4)) * units + [0.0, 3.0, -5.0, 0.0]
    given = given or {"observed": rng.dirichlet(np.full(cells, 0.5))}
    return mx.Problem(entropy or mx.Shannon(), X, potential, **given)


def unit(problem):
    """The features scaled to [0, 1] and the observed moments in that scale."""
    X = problem.features.X
    low, size = X.min(axis=0), np.ptp(X, axis=0)
    return (X - low) / size, (problem.target - low) / size, size


def softmax(theta):
    p = np.exp(theta - theta.max())
    return p / p.sum()


@pytest.mark.slow
@pytest.mark.parametrize("potential", DECOMPOSABLE, ids=repr)
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_objective_agrees_with_fista_on_every_decomposable_potential(solver, potential):
    problem = density(potential, units=(1.0, 2.0, 1.0, 0.5))
    reference = mx.FISTA(tol=1e-11).solve(problem)
    solution = solver.solve(problem)
    assert solution.status.reached
    assert abs(solution.objective - reference.objective) < 1e-8
    np.testing.assert_allclose(solution.p, reference.p, atol=1e-4)


@pytest.mark.parametrize("name", ["summet", "plummet"])
def test_prior_shift_sparse_features_and_units_make_no_difference(name):
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(25, 3)) * (rng.uniform(size=(25, 3)) < 0.4)
    q0, observed = rng.dirichlet(np.ones(25)), rng.dirichlet(np.ones(25))
    reference = mx.Problem(
        mx.Relative(mx.Shannon(), q0), X, mx.Box(0.03), observed=observed
    ).solve()
    for entropy, features, beta in (
        (mx.Relative(mx.Shannon(), q0), sparse.csr_array(X), 0.03),
        (mx.Shifted(mx.Shannon(), np.log(q0)), 1e6 * X, 0.03e6),
        (mx.Relative(mx.Shannon(), q0), 1e-9 * X, 0.03e-9),
    ):
        problem = mx.Problem(entropy, features, mx.Box(beta), observed=observed)
        np.testing.assert_allclose(problem.solve(name, tol=1e-10).p, reference.p, atol=1e-5)


def test_plummet_with_equality_is_generalized_iterative_scaling():
    problem = density(mx.Equality())
    f, mu, size = unit(problem)
    largest = f.sum(axis=1).max()
    states = []
    mx.PLUMMET(tol=1e-6).solve(problem, callback=lambda k, state: states.append(state.w))
    assert len(states) > 50
    weights = np.zeros(4)
    for w in states:  # Darroch and Ratcliff (1972)
        p = softmax(f @ weights)
        weights += np.log(mu / (p @ f)) / largest
        np.testing.assert_allclose(w * size, weights, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.05, [0.0, 0.4, 0.01, 0.9]], ids=str)
def test_a_selective_step_is_the_brute_force_maximum_of_the_bound(beta):
    problem = density(mx.Box(np.broadcast_to(beta, 4) * np.array([2.0, 4.0, 2.0, 1.0])))
    f, mu, size = unit(problem)
    beta = problem.potential.beta / size
    w0 = np.array([0.3, -0.2, 0.0, 2.0]) / size
    states = []
    with pytest.warns(mx.ConvergenceWarning):
        mx.SUMMET(tol=0, max_iter=12, sweep=1).solve(
            problem, w0, callback=lambda k, state: states.append(state.w)
        )
    for old, new in zip([w0, *states[:-1]], states, strict=True):
        lam = old * size
        q = softmax(f @ lam) @ f

        def bound(delta, j, lam=lam, q=q):
            change = beta[j] * (abs(lam[j] + delta) - abs(lam[j]))
            return -np.log1p(np.expm1(delta) * q[j]) + delta * mu[j] - change

        found = []
        for j in range(4):
            grid = np.append(np.linspace(-20, 20, 4001), -lam[j])
            start = grid[np.argmax([bound(d, j) for d in grid])]
            fine = optimize.minimize_scalar(
                lambda d, j=j: -bound(d, j),
                bounds=(start - 0.01, start + 0.01),
                method="bounded",
                options={"xatol": 1e-12},
            ).x
            best = max((start, fine), key=lambda d, j=j: bound(d, j))
            found.append((bound(best, j), j, best))
        gain, j, delta = max(found)
        moved = np.flatnonzero(new != old)
        if gain > 1e-10:
            assert list(moved) == [j]
            np.testing.assert_allclose((new - old)[j] * size[j], delta, atol=1e-5)


@pytest.mark.parametrize(
    "potential",
    [mx.Equality(), mx.Box(0.05), mx.Quadratic(0.5), mx.SmoothBox(0.3, 0.5), mx.LaplacePrior(5.0)],
    ids=repr,
)
@pytest.mark.parametrize("solver", [mx.SUMMET(1e-7, sweep=1), mx.PLUMMET(1e-7)], ids=repr)
def test_the_bound_holds_at_every_step_and_the_auxiliary_function_vanishes(solver, potential):
    problem = density(potential, seed=1, units=np.ones(4))
    states = []
    solution = solver.solve(problem, callback=lambda k, state: states.append(state))
    auxiliary = np.array([record["auxiliary"] for record in solution.history])
    objective = np.array([record["objective"] for record in solution.history])
    assert (auxiliary >= 0).all()
    assert auxiliary[0] > 0.01
    assert auxiliary[-1] < 1e-6
    # SUMMET takes the largest F_j, PLUMMET the sum of all
    gains = auxiliary[:-1] if isinstance(solver, mx.PLUMMET) else auxiliary[:-1] / 4
    assert (objective[:-1] - objective[1:] >= gains - 1e-14).all()
    if isinstance(solver, mx.SUMMET):
        largest = np.array([state.gains.max() for state in states])
        assert (objective[1:-1] - objective[2:] >= largest[:-1] - 1e-14).all()
        assert (largest >= auxiliary[1:] / 4).all()


def test_the_auxiliary_function_in_its_primal_form():
    # Theorem 20: sum_j min_a D(a || q_j) + U_j(a) + lambda_j a + U_j*(-lambda_j)
    problem = density(mx.Quadratic([0.5, 40.0, 0.5, 0.05]), seed=2)
    f, mu, size = unit(problem)
    w = np.array([0.4, -0.1, 0.2, -3.0])
    with pytest.warns(mx.ConvergenceWarning):
        record = mx.SUMMET(max_iter=1).solve(problem, w).history[0]
    strength = problem.potential.strength / size**2
    lam, q = w * size, softmax(f @ (w * size)) @ f
    total = 0.0
    for j in range(4):
        a = np.linspace(1e-9, 1 - 1e-9, 200_001)
        kl = a * np.log(a / q[j]) + (1 - a) * np.log((1 - a) / (1 - q[j]))
        conjugate = strength[j] / 2 * lam[j] ** 2 - lam[j] * mu[j]
        total += np.min(kl + (a - mu[j]) ** 2 / (2 * strength[j]) + lam[j] * a + conjugate)
    assert abs(record["auxiliary"] - total) < 1e-7


def test_sweeps_change_the_number_of_records_only():
    problem = density(mx.Box(0.02))
    single, several = (mx.SUMMET(tol=1e-9, sweep=k).solve(problem) for k in (1, 7))
    assert single.gap <= 1e-9
    assert several.n_iter == -(-single.n_iter // 7)
    np.testing.assert_allclose(several.w, single.w, atol=1e-6)
    with pytest.raises(ValueError, match="sweep must be >= 1"):
        mx.SUMMET(sweep=0)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("end", ["low", "high"])
def test_a_mean_at_the_end_of_its_range_restricts_the_cells(solver, end):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20, 3))
    X[:, 0] = np.where(np.arange(20) < 8, 3.0, np.linspace(0, 2.9, 20))
    X[:, 0] *= 1 if end == "high" else -1
    X[:2, 1:] = [[-1.0], [1.0]]  # the ranges of the other features are those among the kept cells
    observed = np.where(np.arange(20) < 8, 1 / 8, 0.0) + np.where(np.arange(20) < 8, 0.01, 0)
    observed[0] -= 0.08
    problem = mx.Problem(mx.Shannon(), X, mx.Equality(), observed=observed)
    solution = solver.solve(problem)
    assert solution.status.reached
    assert solution.optimality <= 1e-8
    assert np.isfinite(solution.w).all()
    assert solution.p[8:].sum() < 1e-15
    restricted = mx.Problem(mx.Shannon(), X[:8, 1:], mx.Equality(), target=problem.target[1:])
    inside = restricted.solve()
    np.testing.assert_allclose(solution.p[:8], inside.p, atol=1e-6)
    np.testing.assert_allclose(solution.w[1:], inside.w, atol=1e-5)
    assert abs(solution.objective - inside.objective) < 1e-8
    same = solver.solve(restricted).history
    for record, other in zip(solution.history[:5], same[:5], strict=True):
        np.testing.assert_allclose(record["auxiliary"], other["auxiliary"], rtol=1e-6, atol=1e-15)
    # from any start, also one that favours the excluded cells
    again = solver.solve(problem, w0=[-50.0 * np.sign(X[0, 0]), 1.0, -1.0])
    np.testing.assert_allclose(again.p[:8], inside.p, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_restricted_cells_agree_with_a_cone_programme(solver):
    cp = needs("cvxpy")
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.integers(0, 3, 15) / 2, rng.uniform(size=15)])
    q0 = rng.dirichlet(np.ones(15))
    target, beta = np.array([1.2, 0.4]), np.array([0.2, 0.05])  # the first mean must be 1
    problem = mx.Problem(mx.Relative(mx.Shannon(), q0), X, mx.Box(beta), target=target)
    p = cp.Variable(15, nonneg=True)
    kept = X[:, 0] == 1
    rules = [cp.sum(p) == 1, p[~kept] == 0, cp.abs(X[:, 1] @ p - target[1]) <= beta[1]]
    value = cp.Problem(cp.Minimize(cp.sum(cp.kl_div(p, q0))), rules).solve()
    solution = solver.solve(problem)
    assert solution.status is mx.Status.CONVERGED
    assert solution.p[~kept].sum() < 1e-15
    assert abs(solution.objective + value) < 1e-6
    np.testing.assert_allclose(solution.p, p.value, atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_constant_features_are_left_alone(solver):
    X = np.column_stack([np.full(10, 0.3), np.linspace(0, 1, 10), np.zeros(10), np.full(10, 1.0)])
    observed = np.arange(10.0) / 45
    problem = mx.Problem(mx.Shannon(), X, mx.Equality(), observed=observed)
    solution = solver.solve(problem, w0=[3.0, 0.0, -2.0, 0.0])
    assert solution.status.reached
    alone = mx.Problem(mx.Shannon(), X[:, [1]], mx.Equality(), observed=observed).solve()
    np.testing.assert_array_equal(solution.w[[0, 2, 3]], 0)
    np.testing.assert_allclose(solution.w[1], alone.w[0], rtol=1e-6)
    # with a quadratic and a target off the constant, a weight is part of the optimum
    away = mx.Problem(mx.Shannon(), X, mx.Quadratic(0.5), target=[0.5, 0.6, 0.1, 1.0])
    fit, reference = solver.solve(away), mx.FISTA(tol=1e-12).solve(away)
    assert fit.gap <= 1e-8
    assert abs(fit.objective - reference.objective) < 1e-8
    np.testing.assert_allclose(fit.w[[0, 2, 3]], [0.4, 0.2, 0.0], atol=1e-3)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_targets_out_of_reach_are_reported_as_unbounded(solver):
    X = np.random.default_rng(0).uniform(size=(20, 3))
    high = X[:, 0].max()
    conflict = np.column_stack([np.arange(6) == 0, np.arange(6) == 1, np.ones(6)])
    cases = [
        mx.Problem(mx.Shannon(), X, mx.Box(0.05), target=[9.0, 0.5, 0.5]),
        mx.Problem(mx.Shannon(), X, mx.Box(0.05), target=[0.5, -2.0, 0.5]),
        mx.Problem(mx.Shannon(), X, mx.SmoothBox(0.05, 0.1), target=[high + 0.06, 0.5, 0.5]),
        mx.Problem(mx.Shannon(), conflict, mx.Equality(), target=[1.0, 1.0, 1.0]),
        mx.Problem(mx.Shannon(), conflict, mx.Equality(), target=[0.2, 0.2, 0.9]),
    ]
    for problem in cases:
        with pytest.warns(mx.ConvergenceWarning, match="unbounded"):
            solution = solver.solve(problem)
        assert solution.status is mx.Status.UNBOUNDED
        assert solution.optimality > 1e-3
        assert solution.history[-1]["auxiliary"] == INF


def test_a_target_beyond_the_range_is_fine_for_a_quadratic():
    problem = density(mx.Quadratic(0.5), units=np.ones(4), target=[1.2, 3.0, -6.2, 0.5])
    reference = mx.FISTA(tol=1e-12).solve(problem)
    for solver in SOLVERS:
        solution = solver.solve(problem)
        assert solution.gap <= 1e-8
        assert abs(solution.objective - reference.objective) < 1e-8


@pytest.mark.parametrize(
    ("inner", "known"),
    [
        ("auto", "observed"),
        ("auto", "target"),
        (mx.LBFGS(), "target"),
        ("summet", "observed"),
        ("plummet", "target"),
    ],
    ids=str,
)
def test_ball_search_agrees_with_fista(inner, known):
    problem = density(mx.Ball(0.3), units=np.ones(4))
    if known == "target":
        problem = density(mx.Ball(0.3), units=np.ones(4), target=problem.target)
    reference = mx.FISTA(tol=1e-11).solve(problem)
    solution = problem.solve(mx.BallSearch(inner=inner))
    assert solution.status is mx.Status.CONVERGED
    assert solution.gap <= 1e-8
    assert solution.n_iter <= 10
    assert abs(solution.objective - reference.objective) < 1e-8
    np.testing.assert_allclose(solution.w, reference.w, atol=1e-5)
    residual = problem.features.X.T @ solution.p - problem.target
    assert abs(np.linalg.norm(residual) - 0.3) < 1e-7


@pytest.mark.parametrize("name", ["summet", "plummet"])
def test_quadratic_and_ball_by_the_algorithms_of_the_paper_against_a_cone_programme(name):
    """§6 and §7 on the squared l2 norm, and §6's search over it for l2."""
    cp = needs("cvxpy")
    rng = np.random.default_rng(8)
    X, observed = rng.random((20, 3)), rng.dirichlet(np.full(20, 0.3))
    for potential, solver in (
        (mx.Quadratic(0.05), name),
        (mx.Ball(0.05), mx.BallSearch(inner=name)),
    ):
        problem = mx.Problem(mx.Shannon(), X, potential, observed=observed)
        solution = problem.solve(solver)
        assert solution.status is mx.Status.CONVERGED
        assert solution.gap <= 1e-8
        p = cp.Variable(20, nonneg=True)
        residual, rules = X.T @ (p - observed), [cp.sum(p) == 1]
        if isinstance(potential, mx.Ball):
            price = 0
            rules.append(cp.norm(residual, 2) <= 0.05)
        else:
            price = cp.sum_squares(residual) / 0.1
        best = cp.Problem(cp.Minimize(price - cp.sum(cp.entr(p))), rules).solve(solver="CLARABEL")
        assert solution.objective == pytest.approx(-best, abs=1e-6)
        np.testing.assert_allclose(solution.p, p.value, atol=1e-4)


def test_ball_search_of_a_wide_ball_and_of_one_out_of_reach():
    wide = density(mx.Ball(100.0)).solve("ball-search")
    assert wide.n_iter == 0
    assert not wide.w.any()
    far = density(mx.Ball(0.1), target=[9.0, 3.0, -5.0, 0.0])
    with pytest.warns(mx.ConvergenceWarning):
        solution = far.solve("ball-search")
    assert solution.optimality > 1e-3


def test_what_is_missing_is_named():
    X = np.random.default_rng(0).normal(size=(12, 2))
    rows = mx.Problem(
        mx.Shannon(), mx.SampleMap(X, 3), mx.Quadratic(0.1), observed=np.arange(12) % 3
    )

    class Opaque(FeatureMap):
        n_features = 4

        def __init__(self, inside):
            self.scores, self.moments = inside.scores, inside.moments

        scores = moments = None

    plain = density(mx.Box(0.1))
    opaque = mx.Problem(mx.Shannon(), Opaque(plain.features), mx.Box(0.1), target=plain.target)
    for problem, message in (
        (rows, r"one distribution over cells, SampleMap.* has rows; use ProxNewton"),
        (density(mx.Box(0.1), mx.Tsallis(1.5)), r"Shannon entropy of the simplex.*Tsallis"),
        (density(mx.Box(0.1), mx.Scaled(mx.Shannon(), 2.0)), "Shannon entropy.*Scaled"),
        (density(mx.Ball(0.1)), r"Ball\(radius=0.1\) is not .*sum over the features.*BallSearch"),
        (density(mx.NormBall(0.1, 1)), "sum over the features.*use FISTA"),
        (opaque, "does not know the ranges"),
    ):
        for solver in SOLVERS:
            with pytest.raises(TypeError, match=message):
                solver.solve(problem)
    for potential, message in (
        (mx.Box(0.1), r"needs the potential Ball\(radius\), got Box"),
        (mx.Ball(0.0), r"radius 0 is Equality\(\)"),
    ):
        with pytest.raises(TypeError, match=message):
            mx.BallSearch().solve(density(potential))
    with pytest.raises(TypeError, match=r"SUMMET cannot be the inner solver: .*Tsallis"):
        mx.BallSearch(inner="summet").solve(density(mx.Ball(0.1), mx.Tsallis(2.0)))
    with pytest.raises(NotImplementedError, match=r"overrides FeatureMap\.ranges"):
        opaque.features.ranges()


def test_ranges_of_dense_sparse_and_identity_maps():
    X = np.array([[0.0, -1.0, 2.0], [3.0, 0.0, 2.0], [0.0, -4.0, 2.0]])
    for features in (X, X.astype(np.float32), sparse.csr_array(X)):
        low, high = mx.MatrixMap(features).ranges()
        assert low.dtype == high.dtype == np.float64
        np.testing.assert_array_equal(low, [0.0, -4.0, 2.0])
        np.testing.assert_array_equal(high, [3.0, 0.0, 2.0])
    part = mx.MatrixMap(X).restrict(np.array([1]))
    np.testing.assert_array_equal(part.ranges(), [[-4.0], [0.0]])
    np.testing.assert_array_equal(mx.IdentityMap(3).ranges(), [[0.0] * 3, [1.0] * 3])
    np.testing.assert_array_equal(mx.IdentityMap(1).ranges(), [[1.0], [1.0]])


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_features_in_single_precision(solver):
    problem = density(mx.Box([0.02, 0.02, 0.02, 0.002]))
    single = mx.Problem(
        mx.Shannon(), problem.features.X.astype(np.float32), problem.potential, problem.target
    )
    coarse = single.solve(solver, tol=1e-4)
    assert coarse.status.reached
    np.testing.assert_allclose(coarse.p, problem.solve().p, atol=1e-3)


@pytest.mark.parametrize("potential", POTENTIALS, ids=repr)
def test_terms_of_a_decomposable_penalty(potential):
    v = np.random.default_rng(0).normal(size=3)
    if not potential.decomposable:
        with pytest.raises(TypeError, match="not a sum over the features"):
            potential.conjugate_terms(v)
        return
    values, slopes = potential.conjugate_terms(v)
    np.testing.assert_allclose(values.sum(), potential.conjugate(v), rtol=1e-12)
    for j in range(3):
        for step in (0.5, -0.5, 1e-6, -1e-6):
            moved = v + step * np.eye(3)[j]
            change = potential.conjugate_terms(moved)[0] - values
            assert not change[np.arange(3) != j].any()  # each term sees its own weight only
            rise = potential.conjugate(moved) - potential.conjugate(v)
            assert rise >= slopes[j] * step - 1e-12 * (1 + abs(rise))


def test_overrelaxed_steps_gain_what_the_bound_promises_and_need_fewer_of_them():
    problem = density(mx.Box(0.02))
    plain = problem.solve(mx.PLUMMET(1e-6))
    longer = problem.solve(mx.PLUMMET(1e-6, overrelax=1.2))
    assert longer.n_iter < plain.n_iter / 2
    assert longer.objective == pytest.approx(plain.objective, abs=1e-6)
    for before, after in itertools.pairwise(longer.history):
        assert after["objective"] <= before["objective"] - before["auxiliary"] + 1e-12
    with pytest.raises(ValueError, match="overrelax must be >= 1"):
        mx.PLUMMET(overrelax=0.5)
