"""Steps of coordinate descent against brute force, and the solver against the others."""

import itertools
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from scipy import optimize, sparse

import maxent as mx
from maxent.core.solvers import steps
from maxent.features import Schema, bind, fit_operators
from maxent.testing import check_solver

RULES = ("structmaxent2", "structmaxent1", "line-search")


def softmax(theta):
    p = np.exp(theta - theta.max())
    return p / p.sum()


# -- steps ---------------------------------------------------------------------------------------


def change(eta, w, f, p, mu, beta):
    """(7): what a step changes the objective by, for a vector of steps."""
    scores = np.multiply.outer(np.atleast_1d(eta), f)
    top = scores.max(axis=1)
    cumulant = top + np.log(np.exp(scores - top[:, None]) @ p)
    return beta * (np.abs(w + eta) - abs(w)) - eta * mu + cumulant


def hoeffding_bound(eta, w, f, p, mu, beta):
    half = np.ptp(f) / 2
    return beta * (np.abs(w + eta) - abs(w)) + eta * (p @ f - mu) + (eta * half) ** 2 / 2


def scaling_bound(eta, w, f, p, mu, beta):
    low, high = f.min(), f.max()
    q = (p @ f - low) / (high - low)
    cumulant = np.logaddexp(np.log1p(-q) + eta * low, np.log(q) + eta * high)
    return beta * (np.abs(w + eta) - abs(w)) - eta * mu + cumulant


def hoeffding(w, f, p, mu, beta):
    return steps.hoeffding_step(w, p @ f - mu, beta, np.ptp(f) / 2)


def scaling(w, f, p, mu, beta):
    return steps.scaling_step(w, p @ f, mu, beta, f.min(), f.max())


STEPS = {
    "hoeffding": (hoeffding, hoeffding_bound),
    "scaling": (scaling, scaling_bound),
    "line search": (steps.line_search_step, change),
}


def cases(count=60, seed=0):
    """(w, f, p, mu, beta) with conditions (8) in force, of any shift and of several units."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        unit = (1.0, 0.1, 30.0)[k % 3]
        f = unit * (rng.beta(0.4, 1.0, size=40) + rng.normal())
        p = rng.dirichlet(np.full(40, 0.3))
        low, high = f.min(), f.max()
        w = (0.0, 1.0, -1.0)[(k // 3) % 3] * rng.exponential() / unit
        beta = (0.0, rng.uniform(0, 0.05), rng.uniform(0.2, 0.45))[(k // 9) % 3] * (high - low)
        mu = rng.uniform(low + beta, high - beta)
        yield w, f, p, mu, beta


def brute_force(function, w, width):
    """The minimiser of a convex function with a kink at -w: a grid, then golden sections."""
    grid = np.append(np.linspace(-60, 60, 4801) / width, -w)
    grid.sort()
    values = function(grid)
    k = int(np.argmin(values))
    ends = np.unique(np.clip([grid[k - 1], -w, grid[k], grid[k + 1]], grid[k - 1], grid[k + 1]))
    found = [-w, grid[k]]
    for low, high in itertools.pairwise(ends):
        found.append(
            optimize.minimize_scalar(
                lambda x: float(np.ravel(function(np.array([x])))[0]),
                bounds=(low, high),
                method="bounded",
                options={"xatol": 1e-13 / width},
            ).x
        )
    return min(found, key=lambda x: float(np.ravel(function(np.array([x])))[0]))


@pytest.mark.parametrize("name", STEPS)
def test_each_step_minimises_its_own_bound(name):
    step_of, bound = STEPS[name]
    sides = []
    for case in cases():
        w, f = case[:2]
        step, width = float(step_of(*case)), np.ptp(f)

        def objective(eta, case=case):
            return bound(eta, *case)

        best = brute_force(objective, w, width)
        here, there = objective(np.array([step, best]))
        assert here <= there + 1e-12
        # a minimum is flat: values that agree to 1e-15 leave 1e-7 of the place
        assert abs(step - best) * width < 1e-5
        sides.append(float(np.sign(w + step)) if step != -w else 0.0)
        assert here <= 1e-14  # never worse than no step
    assert min(sides.count(side) for side in (-1.0, 0.0, 1.0)) >= 5


def test_the_bounds_lie_above_the_objective_and_above_each_other():
    for case in cases(20, seed=1):
        width = np.ptp(case[1])
        eta = np.linspace(-8, 8, 161) / width
        exact, close, wide = (b(eta, *case) for b in (change, scaling_bound, hoeffding_bound))
        assert (close >= exact - 1e-12).all()
        assert (wide >= close - 1e-12).all()
        assert (wide[[0, -1]] > exact[[0, -1]] + 1e-3).all()


def test_the_steps_of_the_figures():
    # Fig. 1 and Fig. 2 as printed, the latter corrected as in Appendix C
    for w, f, p, mu, beta in cases():
        low, high = f.min(), f.max()
        half, middle = (high - low) / 2, (high + low) / 2
        epsilon = p @ f - mu
        if abs(w * half**2 - epsilon) <= beta:
            expected = -w
        elif w * half**2 - epsilon > beta:
            expected = (-beta - epsilon) / half**2
        else:
            expected = (beta - epsilon) / half**2
        np.testing.assert_allclose(hoeffding(w, f, p, mu, beta), expected, rtol=1e-9, atol=1e-12)
        p_up, p_down = p @ f - middle + half, p @ f - middle - half
        s_up, s_down = mu - middle + half, mu - middle - half
        decay = np.exp(-2 * w * half)
        test = (p_up * s_down * decay - s_up * p_down) / (p_up * decay - p_down)
        if abs(test) <= beta:
            expected = -w
        elif test > beta:
            expected = np.log(p_down * (beta - s_up) / (p_up * (beta - s_down))) / (2 * half)
        else:
            expected = np.log(p_down * (beta + s_up) / (p_up * (beta + s_down))) / (2 * half)
        np.testing.assert_allclose(scaling(w, f, p, mu, beta), expected, rtol=1e-8, atol=1e-10)


def test_line_search_solves_its_equation_to_twelve_digits():
    for w, f, p, mu, beta in cases(seed=2):
        width = np.ptp(f)
        step = steps.line_search_step(w, f, p, mu, beta)
        if step == -w:
            tilted = softmax(np.log(p) - w * f)
            assert abs(tilted @ f - mu) <= beta * (1 + 1e-12)
            continue
        goal = mu - np.sign(w + step) * beta

        def slope(eta, f=f, p=p, goal=goal):
            return softmax(np.log(p) + eta * f) @ f - goal

        exact = optimize.brentq(slope, step - 1 / width, step + 1 / width, xtol=1e-300)
        curvature = softmax(np.log(p) + step * f) @ (f - goal) ** 2 / width**2
        assert abs(step - exact) * width < 1e-12 + 1e-14 / curvature


def test_a_feature_with_two_values_makes_the_scaling_step_exact():
    rng = np.random.default_rng(3)
    for w, beta in itertools.product([0.0, 0.7, -2.0], [0.0, 0.02, 0.2]):
        f = np.where(rng.uniform(size=50) < 0.3, 2.0, -1.0)
        p, mu = rng.dirichlet(np.ones(50)), rng.uniform(-0.3, 1.3)
        exact = steps.line_search_step(w, f, p, mu, beta)
        np.testing.assert_allclose(scaling(w, f, p, mu, beta), exact, rtol=1e-12, atol=1e-14)


def test_steps_of_many_features_at_once():
    rng = np.random.default_rng(4)
    w, q, s = rng.normal(size=30), rng.uniform(size=30), rng.uniform(size=30)
    beta, low = rng.uniform(0, 0.3, size=30), rng.normal(size=30)
    high = low + rng.uniform(0.5, 2, size=30)
    p_mean, s_mean = low + q * (high - low), low + s * (high - low)
    scaled = steps.scaling_step(w, p_mean, s_mean, beta, low, high)
    assert 0 < np.isnan(scaled).sum() < 30
    for j in range(30):
        one = steps.scaling_step(w[j], p_mean[j], s_mean[j], beta[j], low[j], high[j])
        np.testing.assert_array_equal(one, scaled[j])
        one = steps.hoeffding_step(w[j], (p_mean - s_mean)[j], beta[j], (high - low)[j] / 2)
        every = steps.hoeffding_step(w, p_mean - s_mean, beta, (high - low) / 2)
        np.testing.assert_array_equal(one, every[j])


def test_the_violation_is_the_slope_of_the_objective():
    rng = np.random.default_rng(5)
    X, observed = rng.uniform(size=(30, 6)), rng.dirichlet(np.full(30, 0.2))
    beta = np.array([0.0, 0.01, 0.3, 0.01, 0.3, 0.02])
    w = np.array([0.0, 0.0, 0.0, 1.5, -0.4, -2.0])
    problem = mx.Problem(mx.Shannon(), X, mx.Box(beta), observed=observed)
    d = steps.violation(w, problem.state(w).gradient, beta)
    size = 1e-6
    for j in range(6):
        ends = [problem.dual(w + size * sign * np.eye(6)[j]) for sign in (-1, 1)]
        left, right = (problem.dual(w) - ends[0]) / size, (ends[1] - problem.dual(w)) / size
        # the slope of the side that goes down; 0 where both go up
        expected = right if right < 0 else left if left > 0 else 0.0
        assert abs(d[j] - expected) < 1e-5
    assert d[2] == 0
    assert np.count_nonzero(d) == 5


@pytest.mark.parametrize(
    ("p_mean", "s_mean", "beta", "high"),
    [
        (0.0, 0.5, 0.1, 1.0),
        (1.0, 0.5, 0.1, 1.0),
        (0.4, 0.1, 0.1, 1.0),
        (0.4, 0.05, 0.1, 1.0),
        (0.4, 0.95, 0.1, 1.0),
        (0.4, 0.5, 0.5, 1.0),
        (0.0, 0.0, 0.1, 0.0),
    ],
)
def test_no_scaling_step_without_conditions_8(p_mean, s_mean, beta, high):
    for w in (0.0, 1.0, -1.0):
        assert np.isnan(steps.scaling_step(w, p_mean, s_mean, beta, 0.0, high))


def test_steps_without_a_best_length():
    p = np.array([0.2, 0.3, 0.5])
    f = np.array([1.0, 3.0, 1.0])
    line = steps.line_search_step
    # no mean of f reaches the goal: the scores move by 50, whatever the weight
    assert line(0.0, f, p, 3.0, 0.0) == 25.0
    assert line(-7.0, f, p, 3.5, 0.2) == 25.0
    assert line(0.0, f, p, 1.0, 0.0) == -25.0
    assert line(2.0, f, p, 0.5, 0.5) == -25.0
    # cells without mass do not count, whatever the feature is there
    masked = np.array([0.4, 0.6, 0.0])
    high = np.array([1.0, 3.0, 1e6])
    for outlier in (high, -high + 4):
        exact = line(0.0, outlier[:2], masked[:2], 2.5, 0.1)
        np.testing.assert_allclose(line(0.0, outlier, masked, 2.5, 0.1), exact, rtol=1e-12)
        end = outlier[:2].min()
        assert line(0.0, outlier, masked, end, 0.0) == -25.0
    # constant features can only cost
    assert line(1.5, np.full(3, 0.7), p, 0.7, 0.0) == -1.5
    assert line(1.5, np.array([0.7, 0.7, 9.0]), masked, 0.9, 0.1) == -1.5
    assert steps.hoeffding_step(1.5, 0.05, 0.1, 0.0) == -1.5
    assert steps.hoeffding_step(1.5, 0.2, 0.1, 0.0) == -np.inf
    assert steps.hoeffding_step(1.5, -0.2, 0.1, 0.0) == np.inf


@pytest.mark.parametrize("tiny", [1e-20, 1e-200])
def test_line_search_finds_steps_from_far_away(tiny):
    rng = np.random.default_rng(6)
    f = np.append(rng.uniform(0, 0.5, size=200), 1.0)
    p = np.append(np.full(200, (1 - tiny) / 200), tiny)
    for w, sign in itertools.product([0.0, -300.0, 300.0], [1, -1]):
        step = steps.line_search_step(sign * w, sign * f, p, sign * 0.8, 0.05)
        eta = sign * step
        goal = 0.8 - np.sign(w + eta) * 0.05
        assert step == -sign * w or abs(softmax(np.log(p) + eta * f) @ f - goal) < 1e-12


def test_line_search_with_masses_of_any_size():
    # flat stretches between steep ones, where Newton alone runs in circles
    rng = np.random.default_rng(9)
    for k in range(300):
        f = rng.uniform(size=5) * rng.choice([1, 0.1, 0.01], size=5)
        p = softmax(rng.normal(size=5) * (1, 10, 40)[k % 3])
        w, mu = rng.normal() * 20, rng.uniform(f.min(), f.max())
        step = steps.line_search_step(w, f, p, mu, 0.0)
        assert abs(softmax(np.log(p) + step * f) @ f - mu) < 1e-12 * np.ptp(f)


# -- the solver ----------------------------------------------------------------------------------


@contextmanager
def ignored_fall_back():
    """For rare features, where conditions (8) fail."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "conditions .8. of StructMaxent1 fail", UserWarning)
        yield


def unit_features(seed=0, cells=60, features=5):
    """Correlated features with smallest value 0 and largest 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(cells, features)) + rng.normal(size=(cells, 1))
    return (X - X.min(axis=0)) / np.ptp(X, axis=0), rng.dirichlet(np.full(cells, 0.3))


def problem_of(kind):
    X, observed = unit_features()
    rng = np.random.default_rng(1)
    prior = rng.dirichlet(np.ones(60))
    if kind == "unit":
        return mx.Problem(mx.Shannon(), X, mx.Box(0.01), observed=observed)
    if kind == "signed":
        Z = (X - 0.4) * [1.0, -5.0, 0.2, 3.0, -1.0]
        return mx.Problem(
            mx.Shannon(), Z, mx.Box([0.02, 0.03, 0.001, 0.0, 0.01]), observed=observed
        )
    if kind == "duplicated":
        Z = np.column_stack([X, X[:, 0], 1 - X[:, 1], np.full(60, 0.3)])
        return mx.Problem(mx.Shannon(), Z, mx.Box(0.01), observed=observed)
    if kind == "operators":
        places = rng.normal(size=(60, 2))
        operators = fit_operators([mx.Linear(), mx.Square(), mx.Hinge(4)], places)
        features = bind(operators, Schema.from_table(places).read(places))
        return mx.Problem(mx.Shannon(), features, mx.Box(0.02), observed=observed)
    if kind == "prior":
        entropy = mx.Relative(mx.Shannon(), prior)
        return mx.Problem(entropy, sparse.csr_array(X * (X > 0.5)), mx.Box(0.01), observed=observed)
    if kind == "shifted":
        entropy = mx.Shifted(mx.Shannon(), np.log(prior))
        potential = mx.ScaledPotential(mx.Box([0.1, 0.2, 0.0, 0.3, 0.1]), 0.03)
        return mx.Problem(entropy, X, potential, target=observed @ X)
    if kind == "families":
        families = mx.Families([mx.Box(0.001), mx.Box(0.02)], [2, 3])
        return mx.Problem(mx.Shannon(), X, families, observed=observed)
    if kind == "cells":
        return mx.Problem(mx.Shannon(), mx.IdentityMap(60), mx.Box(0.01), observed=observed)
    return mx.Problem(mx.Shannon(), X, mx.Equality(), observed=observed)


KINDS = (
    *("unit", "signed", "duplicated", "operators", "prior", "shifted", "families", "cells"),
    "equality",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_reaches_the_optimum_of_proximal_newton(rule, kind):
    problem = problem_of(kind)
    reference = mx.ProxNewton(tol=1e-12).solve(problem)
    solver = mx.CoordinateDescent(rule=rule)
    with ignored_fall_back() if kind in ("operators", "cells", "prior") else nullcontext():
        solution = solver.solve(problem)
    assert solution.status.reached
    assert abs(solution.objective - reference.objective) < 1e-8
    np.testing.assert_allclose(solution.p, reference.p, atol=1e-4)
    objectives = [record["objective"] for record in solution.history]
    assert (np.diff(objectives) <= 1e-14).all()


@pytest.mark.parametrize("rule", RULES)
def test_check_solver_passes(rule):
    with ignored_fall_back():
        check_solver(mx.CoordinateDescent(rule=rule))


@pytest.mark.parametrize("rule", RULES)
def test_the_steps_taken_are_those_of_the_paper(rule):
    X, observed = unit_features(seed=2)
    beta, mu = 0.02, observed @ X
    problem = mx.Problem(mx.Shannon(), X, mx.Box(beta), observed=observed)
    names = {"structmaxent2": "hoeffding", "structmaxent1": "scaling", "line-search": "line search"}
    step_of = STEPS[names[rule]][0]
    found, w = [], np.zeros(5)
    with pytest.warns(mx.ConvergenceWarning):
        mx.CoordinateDescent(tol=0, max_iter=40, rule=rule, sweep=1).solve(
            problem, callback=lambda k, state: found.append(state.w)
        )
    for new in found:
        p = softmax(X @ w)
        epsilon = p @ X - mu
        used = np.sign(w) * beta + epsilon
        unused = np.sign(epsilon) * np.maximum(np.abs(epsilon) - beta, 0)
        j = int(np.argmax(np.abs(np.where(w == 0, unused, used))))
        w[j] += step_of(w[j], X[:, j], p, mu[j], beta)
        np.testing.assert_allclose(new, w, rtol=0, atol=1e-12)


def test_the_steepest_coordinate_may_gain_less_than_22_asks():
    """Structural paper, (22): said to hold for all coordinates, and Theorem 3 holds without it."""
    X = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
    w, beta, width = np.array([0.01, 0.0]), 0.1, 0.5
    p = softmax(X @ w)
    mu = p @ X - [0.0, 0.18]  # slopes 0.1 and 0.08
    problem = mx.Problem(mx.Shannon(), X, mx.Box(beta), target=mu)
    slopes = steps.violation(w, problem.state(w).gradient, beta)
    np.testing.assert_allclose(slopes, [0.1, 0.08], rtol=1e-12)
    found = []
    with pytest.warns(mx.ConvergenceWarning):
        mx.CoordinateDescent(tol=0, max_iter=1, rule="structmaxent2", sweep=1).solve(
            problem, w, callback=lambda k, state: found.append(state.w)
        )
    np.testing.assert_array_equal(found[0], [0.0, 0.0])  # the steeper one, to its best place
    asked = slopes[1] ** 2 / (2 * width**2)  # what the bound falls by along the other
    assert 0 < problem.dual(w) - problem.dual(found[0]) < asked / 10
    solution = mx.CoordinateDescent(rule="structmaxent2").solve(problem, w)
    assert solution.objective == pytest.approx(problem.solve(tol=1e-12).objective, abs=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_the_gap_falls_exponentially(rule):
    X, observed = unit_features(seed=3, cells=200, features=12)
    problem = mx.Problem(mx.Shannon(), X, mx.Box(0.01), observed=observed)
    solution = mx.CoordinateDescent(tol=1e-11, rule=rule, sweep=1).solve(problem)
    gaps = np.log([record["gap"] for record in solution.history])
    late = gaps[gaps.size // 4 :]
    rounds = np.arange(late.size)
    slope, start = np.polyfit(rounds, late, 1)
    assert slope < -0.01
    # a straight line over many orders of magnitude: no slowing down
    assert late[0] - late[-1] > 12
    assert np.abs(late - start - slope * rounds).max() < 0.25 * (late[0] - late[-1])


def test_features_are_compared_by_the_width_of_their_ranges():
    X, observed = unit_features()
    units = np.array([1e6, 30.0, 1e-9, 0.1, 1.0])
    for rule in RULES:
        solver = mx.CoordinateDescent(rule=rule, tol=1e-9)
        plain = solver.solve(mx.Problem(mx.Shannon(), X, mx.Box(0.01), observed=observed))
        scaled = mx.Problem(
            mx.Shannon(), X * units + units, mx.Box(0.01 * units), observed=observed
        )
        again = solver.solve(scaled)
        assert again.n_iter == plain.n_iter
        np.testing.assert_allclose(again.w * units, plain.w, rtol=1e-6, atol=1e-8)


def test_failing_conditions_are_named_once_and_the_fit_converges():
    rng = np.random.default_rng(7)
    X = (rng.uniform(size=(80, 4)) < [0.5, 0.3, 0.05, 0.04]).astype(float)
    X[0] = 1
    observed = rng.dirichlet(np.full(80, 0.2))
    target = observed @ X
    beta = np.array([0.02, 0.02, target[2] + 0.01, target[3] + 0.01])
    problem = mx.Problem(mx.Shannon(), X, mx.Box(beta), target=target)
    w0 = [0.0, 0.0, 3.0, -2.0]
    with pytest.warns(UserWarning, match="conditions") as caught:
        solution = problem.solve(mx.CoordinateDescent(rule="structmaxent1"), w0=w0)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "fail for feature 2: low + beta < mu < high - beta with mu = " in text
    assert f"mu = {target[2]:.6g}, beta = {beta[2]:.6g}, in the range [0, 1]" in text
    assert "the step is that of StructMaxent2" in text
    assert caught[0].filename == __file__
    assert solution.status.reached
    assert abs(solution.objective - problem.solve(tol=1e-12).objective) < 1e-8
    np.testing.assert_array_equal(solution.w[2:], 0)
    # a density that sits where the feature is largest
    X = np.linspace(0, 1, 20)[:, None]
    with pytest.warns(UserWarning, match="conditions") as caught:
        solution = mx.CoordinateDescent(rule="structmaxent1").solve(
            mx.Problem(mx.Shannon(), X, mx.Box(0.01), target=[0.6]), w0=[800.0]
        )
    (text,) = [str(w.message) for w in caught]
    assert solution.status is mx.Status.CONVERGED
    assert abs(solution.p @ X[:, 0] - 0.59) < 1e-8
    assert "feature 0: low < E_p[f] < high with E_p[f] = 1, in the range [0, 1]" in text


def test_a_rule_that_falls_back_can_be_quiet():
    at = steps.Coordinate(w=0.0, beta=0.3, p_mean=0.5, s_mean=0.1, low=0.0, high=1.0)
    column, p = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    rule = steps.StepRule("structmaxent1")
    with pytest.warns(UserWarning, match=r"conditions \(8\) of StructMaxent1 fail for f: low"):
        loud = rule(lambda: "f", column, p, at)
    assert rule(lambda: "f", column, p, at) == loud  # it has been said
    quiet = steps.StepRule("structmaxent1", warn=False)(lambda: "f", column, p, at)
    assert quiet == loud == steps.hoeffding_step(0.0, 0.4, 0.3, 0.5)


def test_a_step_costs_one_pass_over_all_features():
    X, observed = unit_features(seed=3, cells=200, features=12)

    class Counted(mx.MatrixMap):
        passes = columns = 0

        def moments(self, p):
            Counted.passes += 1
            return super().moments(p)

        def scores(self, w):
            Counted.columns += w.size
            return super().scores(w)

    problem = mx.Problem(mx.Shannon(), Counted(X), mx.Box(0.01), observed=observed)
    Counted.passes = Counted.columns = 0
    with pytest.warns(mx.ConvergenceWarning):
        mx.CoordinateDescent(max_iter=20, sweep=10).solve(problem)
    assert Counted.passes <= 200 + 20 + 3
    assert Counted.columns <= 200 + 12 * (20 + 3)


def test_sweeps_change_the_number_of_records_only():
    problem = problem_of("unit")
    single, several = (mx.CoordinateDescent(tol=1e-10, sweep=k).solve(problem) for k in (1, 7))
    for key in ("objective", "gap"):
        every = [record[key] for record in single.history[::7]]
        some = [record[key] for record in several.history[: len(every)]]
        np.testing.assert_allclose(some, every, rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(several.w, single.w, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_constant_features_and_means_at_the_end_of_a_range(rule):
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(20, 3))
    X[:, 0] = np.arange(20) < 8
    X[:2, 1:] = [[0.0], [1.0]]
    observed = np.where(np.arange(20) < 8, rng.uniform(size=20), 0.0)
    observed /= observed.sum()
    problem = mx.Problem(
        mx.Shannon(), np.column_stack([X, np.full(20, 0.3)]), mx.Equality(), observed=observed
    )
    solver = mx.CoordinateDescent(rule=rule)
    inside = mx.Problem(mx.Shannon(), X[:8, 1:], mx.Equality(), observed=observed[:8]).solve()
    for w0 in (np.zeros(4), [-30.0, 1.0, -1.0, 5.0]):
        solution = solver.solve(problem, w0)
        assert solution.status.reached
        assert solution.p[8:].sum() < 1e-15
        assert solution.w[3] == 0
        np.testing.assert_allclose(solution.p[:8], inside.p, atol=1e-6)
    # down to rounding: the slopes along constants are nothing else
    Z = np.column_stack([X[:, 1:], np.full((20, 3), [0.3, 0.7, 1e3 / 7])])
    with pytest.warns(mx.ConvergenceWarning):
        rounded = mx.CoordinateDescent(tol=0, max_iter=100, rule=rule).solve(
            mx.Problem(mx.Shannon(), Z, mx.Equality(), observed=np.arange(20) / 190)
        )
    assert rounded.optimality < 1e-14
    np.testing.assert_array_equal(rounded.w[2:], 0)
    for target in ([9.0, 0.5, 0.5], [0.5, 0.5, -2.0]):
        far = mx.Problem(mx.Shannon(), X, mx.Box(0.05), target=target)
        with pytest.warns(mx.ConvergenceWarning, match="unbounded"):
            assert solver.solve(far).status is mx.Status.UNBOUNDED


@pytest.mark.parametrize("rule", RULES)
def test_features_in_single_precision(rule):
    double = problem_of("unit")
    X = double.features.X.astype(np.float32)
    single = mx.Problem(mx.Shannon(), X, double.potential, double.target)
    solution = mx.CoordinateDescent(tol=1e-5, rule=rule).solve(single)
    assert solution.status.reached
    np.testing.assert_allclose(solution.p, double.solve().p, atol=1e-4)


def test_what_is_missing_or_wrong_is_named():
    X, observed = unit_features()
    for potential in (mx.Quadratic(0.1), mx.ElasticNet(0.1, 0.1), mx.Ball(0.1), mx.SmoothBox(1, 1)):
        problem = mx.Problem(mx.Shannon(), X, potential, observed=observed)
        with pytest.raises(TypeError, match=r"is not the l1 penalty of a Box, nor Equality; use"):
            problem.solve("coordinate-descent")
    sparse_density = mx.Problem(mx.Tsallis(1.5), X, mx.Box(0.1), observed=observed)
    with pytest.raises(TypeError, match=r"needs the Shannon entropy of the simplex"):
        sparse_density.solve("coordinate-descent")
    rows = mx.Problem(mx.Shannon(), mx.SampleMap(X, 3), mx.Box(0.1), observed=np.arange(60) % 3)
    with pytest.raises(TypeError, match=r"for one distribution over cells"):
        rows.solve("coordinate-descent")
    with pytest.raises(ValueError, match=r"rule must be one of 'structmaxent2', .* got 'newton'"):
        mx.CoordinateDescent(rule="newton")
    with pytest.raises(ValueError, match="sweep must be >= 1, got 0"):
        mx.CoordinateDescent(sweep=0)
