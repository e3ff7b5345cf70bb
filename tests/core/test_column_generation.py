"""Hinges of few rows to the last digit: slacks, norms and balls by interior points."""

import dataclasses
import itertools

import numpy as np
import pytest

import maxent as mx
from maxent.core import solvers
from maxent.rows.evaluator import Evaluation
from tools import needs

K, D = 2, 4


def _sequences(seed, count=4):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), D)) for _ in range(count)]
    y = [rng.integers(0, K, len(x)) for x in X]
    y[0][0], y[1][0] = 0, 1
    return X, y


def _problem(potential, seed=0, count=6, cost=1.0, **settings):
    X, y = _sequences(seed, count)
    chain = mx.Chain(K)
    costs = chain.scores([cost * (1 - np.eye(K)[path]) for path in y], np.zeros((K, K)))
    hinge = mx.Shifted(mx.Zero(chain), costs)
    observed = chain.encode(y, tied=True)
    return mx.Problem(hinge, mx.ChainMap(X, K), potential, observed=observed, **settings)


@pytest.mark.parametrize("slack", ["squared", "kl"])
@pytest.mark.parametrize("seed", range(3))
def test_curved_slacks_of_four_sequences_close_the_gap(slack, seed):
    """Planes of all rows at once ended at a gap of 4e-3 for 1e-4."""
    model = mx.ChainClassifier("hinge", slack=slack, tol=1e-8).fit(*_sequences(seed))
    assert model.gap_ <= 1e-8


@pytest.mark.parametrize("p", [1.5, 3.0])
@pytest.mark.parametrize("kind", ["DualBall", "NormBall", "SquaredNormPotential"])
@pytest.mark.parametrize("slack", ["linear", "squared", "kl"])
def test_norms_of_every_order_under_every_slack(slack, kind, p):
    """Curved slacks had no solver for them; smoothing took minutes and ended above 1e-6."""
    from maxent.testing.margins import MarginCase

    potential = getattr(mx, kind)(0.3, p)
    X, y = _sequences(2, 3)
    model = mx.ChainClassifier("hinge", potential, slack=slack, tol=1e-8, solver="auto").fit(X, y)
    assert model.gap_ <= 1e-8
    case = MarginCase(model, X, y, None)
    assert case.objective(model.weights_) == pytest.approx(model.objective_, abs=1e-9)


def test_a_radius_is_a_linear_programme():
    """Smoothing ended above it, after seconds."""
    from scipy import optimize

    X, y = _sequences(1, 6)
    radius, chain, maps = 0.5, mx.Chain(K), mx.ChainMap(X, K)
    rows, bounds = [], []
    for i, path in enumerate(y):
        one = maps.take(np.array([i]))
        vertices = chain.vertices(chain.size(len(path)))
        images = [one.moments(chain.tie(v[None])) for v in vertices]
        images -= one.moments(chain.encode(path[None], tied=True))
        slacks = np.zeros((len(images), len(X)))
        slacks[:, i] = -1
        rows.append(np.hstack([images, -np.array(images), slacks]))
        bounds.append([-np.sum(p != path) for p in chain.decode(vertices)])
    n = maps.n_features
    ball = np.concatenate([np.ones(2 * n), np.zeros(len(X))])
    best = optimize.linprog(
        np.concatenate([np.zeros(2 * n), np.full(len(X), 1 / len(X))]),
        np.vstack([*rows, ball]),
        np.concatenate([*bounds, [radius]]),
        method="highs",
    )
    model = mx.L1M3N(None, radius=radius, tol=1e-8).fit(X, y)
    assert model.gap_ <= 1e-8
    assert model.objective_ == pytest.approx(best.fun, abs=1e-8)
    assert np.abs(model.weights_).sum() <= radius * (1 + 1e-12)


POTENTIALS = [
    mx.Quadratic(np.linspace(0.01, 0.1, D * K + K * K)),
    mx.Box(0.02),
    mx.ElasticNet(0.02, 0.03),
    mx.QuadraticForm(0.05 * (np.eye(D * K + K * K) + 1)),
    mx.ScaledPotential(mx.LaplacePrior(4.0), 0.05),
    mx.ScaledPotential(mx.Ball(2.0), 0.05),
    mx.NormPlusSquare(0.05, 0.02, np.inf),
    mx.NormPlusSquare(0.05, 0.02, 2.0),
    *(mx.SquaredNormPotential(0.05, p) for p in (1.0, 1.5, 2.0, 3.0, np.inf)),
    *(mx.NormBall(0.1, p) for p in (1.0, 1.2, 1.5, 3.0, 8.0, np.inf)),
    *(mx.DualBall(0.7, p) for p in (1.0, 1.2, 1.5, 2.0, 3.0, 8.0, np.inf)),
    *(mx.NormPlusSquare(0.05, 0.02, p) for p in (1.5, 3.0)),
    *(mx.NormPlusSquare(0.05, 0.02, p, s) for p, s in ((np.inf, 1.0), (2.0, 3.0), (1.5, np.inf))),
    mx.ScaledPotential(mx.NormBall(2.0, 3.0), 0.05),
    mx.Families([mx.Box(0.02), mx.Quadratic(0.1)], [D * K, K * K]),
]


@pytest.mark.parametrize("potential", POTENTIALS, ids=lambda p: repr(p)[:30])
def test_every_penalty_to_nine_digits(potential):
    problem = _problem(potential, weights=np.array([0.0, 0.3, 0.1, 0.2, 1.0, 0.5]))
    solution = problem.solve(mx.ColumnGeneration(tol=1e-9))
    assert solution.gap <= 1e-9
    assert problem.gap(solution.w, solution.p) == pytest.approx(solution.gap, abs=1e-9)
    assert problem.entropy.domain.contains(solution.p).all()


@pytest.mark.parametrize("cost", [1e-6, 1e6])
def test_the_scale_of_the_costs_does_not_matter(cost):
    for potential in (mx.Quadratic(0.01), mx.DualBall(cost, 1), mx.Ball(0.1)):
        problem = _problem(potential, cost=cost)
        solution = problem.solve(mx.ColumnGeneration(tol=1e-9 * cost))
        assert solution.gap <= 1e-9 * cost


def test_planes_of_single_classes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 4, 30)
    hinge = mx.Shifted(mx.Zero(), 1 - np.eye(4)[y])
    problem = mx.Problem(hinge, mx.SampleMap(X, 4), mx.Quadratic(0.1), observed=np.eye(4)[y])
    other = problem.solve(mx.CuttingPlane())
    assert problem.solve("column-generation").objective == pytest.approx(other.objective, abs=2e-8)


def test_many_weights_are_solved_in_the_space_of_the_planes(monkeypatch):
    from maxent.core.solvers import _interior

    problem = _problem(mx.Quadratic(0.05), count=3)
    usual = problem.solve(mx.ColumnGeneration(tol=1e-9))
    monkeypatch.setattr(_interior, "_MANY", 1)
    other = problem.solve(mx.ColumnGeneration(tol=1e-9))
    np.testing.assert_allclose(other.w, usual.w, atol=1e-6)


class _Whole(mx.maps.FeatureMap):
    """Two rows that cannot be taken apart."""

    n_features, n_rows = 3, 2

    def scores(self, w):
        return np.tile(w, (2, 1))

    def moments(self, p):
        return p.sum(axis=0)


_LIMITS = mx.Ball(0.1), mx.DualBall(0.5, p=3.0), mx.NormBall(0.2, p=1), mx.SmoothBox(0.1, 0.1)


@pytest.mark.parametrize("slack", ["linear", "squared", "kl"])
@pytest.mark.parametrize("pair", list(itertools.combinations(_LIMITS, 2)), ids=repr)
def test_families_of_norms(pair, slack):
    """Linear slacks ended at a gap of 1e-5 after ten seconds, curved ones had no solver."""
    families = mx.Families(pair, [D * K, K * K])
    model = mx.ChainClassifier("hinge", families, slack=slack, tol=1e-6).fit(*_sequences(3))
    assert model.gap_ <= 1e-6


@pytest.mark.parametrize("inside", [*_LIMITS, mx.Quadratic(0.1), mx.Box(0.1)], ids=repr)
def test_penalties_with_a_centre_and_a_reference(inside):
    """V*(-w) = U*(-(w - c)) - <w, r>: the loss at w = c + u is a hinge whose costs moved."""
    rng = np.random.default_rng(4)
    centre, reference = rng.normal(size=K * (D + K)), 0.01 * rng.normal(size=K * (D + K))
    centred = mx.ShiftedPotential(mx.Centred(inside, -centre), reference)
    problem = _problem(centred, seed=3)
    solution = problem.run("column-generation", tol=1e-7)
    assert solution.status is mx.Status.CONVERGED
    moved = dataclasses.replace(
        problem,
        entropy=mx.Shifted(problem.entropy, problem.features.scores(centre)),
        potential=inside,
        observed=None,
        target=problem.target + reference,
    )
    other = moved.run("column-generation", tol=1e-7)
    assert other.objective - centre @ moved.target == pytest.approx(solution.objective, abs=2e-7)


class _Unknown(mx.LaplacePrior):
    """A smooth penalty without a Hessian."""

    def conjugate_hessian(self, v):
        return None


def test_it_says_what_it_needs():
    problem = _problem(_Unknown(0.1))
    with pytest.raises(TypeError, match="a Hessian, or norms, got _Unknown"):
        problem.solve("column-generation")
    smooth = dataclasses.replace(problem, entropy=mx.Shannon(domain=mx.Chain(K)), target=None)
    with pytest.raises(TypeError, match="has a gradient"):
        smooth.solve("column-generation")
    with pytest.raises(TypeError, match="no separate rows"):
        mx.Problem(mx.Zero(), _Whole(), mx.Box(0.1), np.ones(3)).solve("column-generation")


@pytest.mark.parametrize(
    "potential",
    [mx.Box(0.1), mx.NormBall(0.05, 1.5), mx.Ball(0.05), mx.SmoothBox(0.1, 1.0), mx.Quadratic(0.1)],
    ids=repr,
)
def test_target_moments_without_observed_rows(potential):
    """They ended as stationary, without a gap: nothing pulls the mixture into the potential."""
    problem = _problem(potential)
    bare = mx.Problem(problem.entropy, problem.features, potential, target=problem.target)
    solution = bare.run(tol=1e-8)
    assert solution.status is mx.Status.CONVERGED
    assert solution.objective == pytest.approx(problem.solve(tol=1e-8).objective, abs=1e-7)


def test_a_start_at_the_optimum_is_certified():
    """A rounding beside the target it ended before the first mixture, without a gap."""
    F, cost = np.array([[0.3], [1.0], [-1.0]]), np.array([1.0, 0.0, 0.0])
    hinge = mx.Shifted(mx.Zero(), cost)
    solution = mx.Problem(hinge, F, mx.Equality(), np.array([0.1 * 3])).run()
    assert solution.status is mx.Status.CONVERGED
    assert solution.objective == pytest.approx(1.0, abs=1e-8)


def test_cells_that_hold_next_to_nothing():
    """HiGHS at 1e-7 leaves their mass out; interior points ended 2e-6 above the optimum."""
    F = np.array([
        [-0.41402505, -0.16942072, -0.29025001],
        [-1.2739179, -0.17166328, 0.259209],
        [-1.8107581, 0.05724795, 0.83220102],
        [0.65508045, -0.95232108, 0.46902345],
    ])  # fmt: skip
    cost = np.array([-6.04041949, 34.26107932, 87.21111658, -52.08404711])
    shares = np.array([0.936877034, 0.051355078, 0.01176788741, 5.9e-10])  # all the moments leave
    shares[0] += 1 - shares.sum()
    problem = mx.Problem(mx.Shifted(mx.Zero(), cost), F, mx.Equality(), F.T @ shares)
    solution = problem.run(tol=1e-6)
    assert solution.status is mx.Status.CONVERGED
    assert solution.objective == pytest.approx(cost @ shares, abs=1e-8)


@pytest.mark.parametrize("seed", [495, 598, 2468, 15694, 1806942997, 1820943000])
def test_smoothed_boxes_of_any_sharpness(seed):
    """Newton's steps on slopes that have levelled off went astray, up to weights of 1e11."""
    from maxent.testing.margins import draw_margin_case

    case = draw_margin_case(np.random.default_rng(seed), composed=0)
    assert isinstance(case.model.potential, mx.SmoothBox)
    assert case.fit().gap_ <= case.model.tol


@pytest.mark.parametrize("sharpness", [1e-3, 1e-2, 0.1, 10.0])
def test_smoothed_boxes_without_observed_rows(sharpness):
    rng = np.random.default_rng(3)
    F, cost = rng.normal(size=(24, 2)), rng.normal(size=24)
    target = rng.dirichlet(np.ones(24)) @ F
    hinge = mx.Shifted(mx.Zero(), cost)
    solution = mx.Problem(hinge, F, mx.SmoothBox(0.1, sharpness), target).run(tol=1e-8)
    assert solution.status is mx.Status.CONVERGED
    box = mx.Problem(hinge, F, mx.Box(0.1), target).run(tol=1e-8)
    below = box.objective - solution.objective  # a b log cosh(w / a) >= b |w| - a b log 2
    assert 0 <= below + 1e-7 <= 2 * 0.1 * sharpness * np.log(2) + 2e-7


@pytest.mark.parametrize("slack", ["linear", "squared", "kl"])
@pytest.mark.parametrize("seed", range(3))
def test_weights_without_a_price_have_a_finite_gap(slack, seed):
    """They ended as stationary with an infinite gap, and curved slacks were refused."""
    from maxent.testing.margins import MarginCase

    X, y = _sequences(seed, 12)
    model = mx.ChainClassifier("hinge", mx.Equality(), slack=slack, tol=1e-7).fit(X, y)
    assert model.gap_ <= 1e-7
    case = MarginCase(model, X, y, None)
    assert case.objective(model.weights_) == pytest.approx(model.objective_, abs=1e-9)
    assert model.objective_ > 0.01  # not separable: the optimum is inside


def test_some_weights_without_a_price():
    beta = np.full(D * K + K * K, 0.1)
    beta[:K] = 0
    problem = _problem(mx.Box(beta), weights=np.array([0.0, 0.3, 0.1, 0.2, 1.0, 0.5]))
    solution = problem.solve(tol=1e-9)
    assert solution.status is mx.Status.CONVERGED
    residual = problem.moments(solution.p) - problem.target
    assert np.abs(residual[:K]).max() <= 1e-12 * problem.unit
    assert solution.objective <= problem.with_potential(mx.Box(0.1)).solve(tol=1e-9).objective


def test_moments_out_of_reach_are_told():
    cells = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    hinge = mx.Shifted(mx.Zero(), np.array([0.3, 0.2, 0.9]))
    outside = mx.Problem(hinge, cells, mx.Equality(), target=np.array([0.2, 0.2]))
    solution = outside.run()
    assert solution.status is mx.Status.UNBOUNDED
    assert (cells @ solution.w).max() < outside.target @ solution.w  # w separates them
    inside = mx.Problem(hinge, cells, mx.Equality(), target=np.array([0.6, 0.6]))
    solution = inside.run()
    assert solution.status is mx.Status.CONVERGED
    np.testing.assert_allclose(solution.p, [0.4, 0.4, 0.2], atol=1e-9)
    assert -solution.objective == pytest.approx(-0.4 * 0.3 - 0.4 * 0.2 - 0.2 * 0.9, abs=1e-8)


@pytest.mark.parametrize(
    "potential",
    [
        mx.Equality(),
        mx.NormBall(0.05, 1.5),
        mx.NormBall(0.05, 3.0),
        mx.DualBall(1.0, 3.0),
        mx.ElasticNet(0.05, 0.1),
        mx.SmoothBox(0.05, 0.1),
    ],
    ids=repr,
)
def test_one_row_to_nine_digits(potential):
    rng = np.random.default_rng(3)
    F, observed = rng.normal(size=(7, 3)), rng.dirichlet(np.ones(7))
    hinge = mx.Shifted(mx.Zero(), rng.normal(size=7))
    problem = mx.Problem(hinge, F, potential, observed=observed)
    chosen = solvers.choose("auto", problem)
    assert isinstance(chosen, mx.ColumnGeneration)
    solution = problem.solve(tol=1e-9)
    assert solution.status is mx.Status.CONVERGED
    assert solution.p.shape == (7,)
    if not isinstance(potential, mx.Equality):
        assert problem.gap(solution.w, solution.p) <= 1e-8


def test_a_solver_that_stalls_hands_over():
    problem = _problem(mx.Quadratic(0.001))
    seen = []
    first = mx.BlockFrankWolfe(tol=1e-10, max_iter=2)
    handed = dataclasses.replace(first, then=mx.ColumnGeneration())
    solution = handed.run(problem, callback=lambda count, state: seen.append(count))
    assert solution.gap <= 1e-10 < first.run(problem).gap
    assert seen == list(range(1, solution.n_iter + 1))
    assert len(solution.history) == solution.n_iter + 1
    times = [record["seconds"] for record in solution.history]
    assert times == sorted(times)
    with pytest.raises(TypeError, match="then must be a solver"):
        mx.FISTA(then="column-generation")


def test_auto_goes_on_where_a_hinge_has_few_rows(monkeypatch):
    squared = _problem(mx.Quadratic(0.1))
    exact = mx.ColumnGeneration(then=mx.Smoothing())
    assert solvers.choose("auto", squared) == exact  # at once: very few sequences
    monkeypatch.setattr(solvers, "_FEW_PATHS", 0)
    assert solvers.choose("auto", squared).then == exact
    assert solvers.choose("auto", squared, max_iter=3).then is None  # steps of that solver
    assert isinstance(solvers.choose("auto", _problem(mx.DualBall(1.0))), mx.ColumnGeneration)
    monkeypatch.setattr(solvers, "_FEW_PLANES", 10)
    assert solvers.choose("auto", squared).then is None
    assert isinstance(solvers.choose("auto", _problem(mx.DualBall(1.0))), mx.Smoothing)


def test_a_penalty_may_be_nearly_straight_at_the_weights():
    """Weights a hundred times as large as the bend: there curvature is 0 to all digits."""
    problem = _problem(mx.SmoothBox(0.01, 0.01), count=5)
    solution = problem.run(mx.ColumnGeneration(tol=1e-2))
    assert solution.status is mx.Status.CONVERGED
    assert np.abs(solution.w).max() > 1


def test_smoothing_goes_on_where_interior_points_end(monkeypatch):
    problem = _problem(mx.SmoothBox(0.1, 0.1), count=2)
    assert solvers.choose("auto", problem) == mx.ColumnGeneration(then=mx.Smoothing())
    monkeypatch.setattr("maxent.core.solvers._interior._STEPS", 1)
    assert mx.ColumnGeneration(tol=1e-2).run(problem).gap > 1e-2
    solution = problem.run(tol=1e-2)
    assert solution.status is mx.Status.CONVERGED
    assert solution.gap <= 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_auto_closes_the_gap_of_listed_labels(seed):
    needs("cvxpy")
    from maxent.testing.margins import draw_margin_case

    case = draw_margin_case(np.random.default_rng(seed))
    model = case.fit()
    assert model.gap_ <= model.tol, model


def test_planes_found_far_away_promise_nothing_false():
    """Their entropies were differences of numbers of 1e7: a gap of 2e-15, 1e-9 above the best."""
    from maxent.testing.margins import draw_margin_case

    case = draw_margin_case(np.random.default_rng(200359), composed=0)
    exact = case.model.set_params(solver=mx.ColumnGeneration(), tol=1e-13)
    best = case.objective(exact.fit(case.X, case.y, case.sample_weight).weights_)
    model = case.model.set_params(solver="cutting-plane", tol=1e-6)
    model.fit(case.X, case.y, case.sample_weight)
    assert model.objective_ - model.gap_ <= best + 1e-15


@pytest.mark.parametrize("far", [1.0, 1e4, 1e8])
def test_the_entropy_of_an_answer_from_sums_says_its_rounding(far):
    problem = _problem(mx.Box(0.1))
    evaluation = problem.evaluate(
        far * np.random.default_rng(0).normal(size=problem.features.n_features)
    )
    exact = problem.total(problem.entropy.value_inside(evaluation.p))
    assert evaluation.answer_value == (pytest.approx(exact, abs=1e-15), 0.0)
    value, rounding = Evaluation.answer_value.fget(evaluation)
    assert abs(value - exact) <= rounding <= 1e-12 * far


@pytest.mark.parametrize("seed", [204315, 205081, 205935, 1798964448])
def test_composed_potentials_close_the_gap(seed):
    """No plane above the least slack at the start; a linear programme that stalls, to HiGHS.

    The last one ended at a border before its slopes were right.
    """
    from maxent.testing.margins import draw_margin_case

    case = draw_margin_case(np.random.default_rng(seed))
    assert isinstance(case.model.potential, mx.Families | mx.Centred | mx.ShiftedPotential)
    assert case.fit().gap_ <= case.model.tol
