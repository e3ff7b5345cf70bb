"""Equivalences and equations of the density paper, each in numbers."""

from itertools import combinations_with_replacement, pairwise
from math import factorial, log, prod, sqrt

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import PoissonRegressor

import maxent as mx
from maxent.core import bounds
from maxent.core.maps import MatrixMap

INF = float("inf")
TOL = 1e-12


def density(potential, seed=0, cells=40, n=5):
    rng = np.random.default_rng(seed)
    X, observed = rng.random((cells, n)), rng.dirichlet(np.full(cells, 0.2))
    return mx.Problem(mx.Shannon(), X, potential, observed=observed)


# -- §4: duality -----------------------------------------------------------------------------------


@pytest.mark.parametrize("potential", [mx.Box(0.03), mx.Quadratic(0.2), mx.SmoothBox(0.05, 0.1)])
def test_the_dual_relative_to_any_distribution(potential):
    """(8) and (11): Q(w) = L_r(0) - L_r(w) - U_r*(w), the same for every r."""
    problem, rng = density(potential), np.random.default_rng(11)
    X, target = problem.features.X, problem.target
    absolute = mx.ShiftedPotential(potential, target)  # U(u), of the moments themselves
    for w in 3 * rng.normal(size=(3, 5)):
        theta = X @ w
        log_z = float(np.log(np.mean(np.exp(theta))))  # q0 is uniform
        dual = -log_z - absolute.conjugate(-w)
        log_q = theta - log_z - log(len(X))
        for r in rng.dirichlet(np.ones(len(X)), size=3):
            relative = mx.ShiftedPotential(absolute, r @ X).conjugate(w)  # (7)
            assert log(len(X)) + r @ log_q - relative == pytest.approx(dual, rel=1e-10)
            kl = float(r @ (np.log(r) - log_q))
            kl_0 = float(r @ (np.log(r) + log(len(X))))
            assert kl_0 - kl - relative == pytest.approx(dual, rel=1e-10)
        # the problem's dual is to be minimised, and counts Omega from 0 and not from -log N
        assert -problem.state(w).dual + log(len(X)) == pytest.approx(dual, rel=1e-10)


@pytest.mark.parametrize("potential", [mx.Box(0.03), mx.Quadratic(0.02), mx.Ball(0.05)])
def test_gibbs_distributions_tend_to_the_solution(potential):
    """Theorem 2: on the way to the maximum of Q, D(p_hat || q_t) is at most what Q lacks."""
    problem = density(potential)
    best = problem.solve(tol=TOL)
    lacking, divergences = [], []

    def look(step, state):
        lacking.append(state.dual - best.objective)
        divergences.append(float(np.sum(best.p * np.log(best.p / state.p))))

    mx.FISTA(tol=1e-10).solve(problem, callback=look)
    lacking, divergences = np.array(lacking), np.array(divergences)
    assert (divergences <= lacking + 1e-9).all()
    assert divergences[0] > 1e-3
    assert divergences[-1] < 1e-8


# -- §5: which weights are 0, and how smooth l1 becomes --------------------------------------------


def test_zero_weights_stay_zero_only_with_l1():
    """§5.1, §5.2, §5.5, §5.6: small changes of beta and of the sample's moments."""
    rng = np.random.default_rng(12)
    X, seen = rng.random((40, 8)), rng.dirichlet(np.full(40, 0.5))

    def zeros(make):
        found = []
        for change in (0.0, 1e-4, -1e-4):
            target = seen @ X + change * rng.choice([-1, 1], 8)
            problem = mx.Problem(mx.Shannon(), X, make(0.03 * (1 + change)), target=target)
            found.append(problem.solve(tol=1e-9).w == 0)
        return np.array(found)

    for sparse in (mx.Box, lambda beta: mx.ElasticNet(beta, 0.01)):
        pattern = zeros(sparse)
        assert 0 < pattern[0].sum() < 8
        assert (pattern == pattern[0]).all()
    for dense in (mx.Quadratic, mx.Ball, lambda beta: mx.SmoothBox(beta, 0.1)):
        assert not zeros(dense).any()
    assert zeros(lambda beta: mx.Ball(100 * beta)).all()  # all of them or none


def test_the_smoothed_box_is_within_its_bounds():
    """(17) and (18)."""
    beta, alpha = np.array([0.5, 0.1, 2.0]), np.array([0.2, 1.0, 0.01])
    smooth, rng = mx.SmoothBox(beta, alpha), np.random.default_rng(13)
    most = log(2) * float(alpha @ beta)
    for w in rng.normal(size=(50, 3)):
        assert 0 <= mx.Box(beta).conjugate(w) - smooth.conjugate(w) <= most
    for r in beta * rng.uniform(-1, 1, size=(50, 3)):
        assert smooth.value(r) <= most
    assert smooth.value(beta * [1, -1, 1]) == pytest.approx(most, rel=1e-12)


def test_a_sharper_smoothed_box_is_worse_conditioned_where_l1_has_zeros():
    """End of §5.2: the condition number of the Hessian at the optimum grows as alpha falls."""

    def condition(beta, alpha):
        problem = density(mx.SmoothBox(beta, alpha))
        fit = problem.solve(tol=TOL)
        X = problem.features.X - fit.p @ problem.features.X
        penalty = beta / alpha / np.cosh(fit.w / alpha) ** 2
        return float(np.linalg.cond((X * fit.p[:, None]).T @ X + np.diag(penalty)))

    assert not density(mx.Box(0.1)).solve().w.all()
    assert condition(0.1, 0.1) > 2 * condition(0.1, 1.0)
    assert condition(0.1, 0.01) > 10 * condition(0.1, 0.1)
    # without a zero the penalty is straight around every weight
    assert density(mx.Box(0.03)).solve().w.all()
    assert condition(0.03, 0.01) == pytest.approx(condition(0.03, 0.1), rel=1e-3)


@pytest.mark.parametrize("orders", [(2, 2), (1.5, 3), (INF, 1)])
def test_a_norm_plus_a_square_is_below_both(orders):
    """§5.7: U(u) <= min{I_B(u), ||u||^2 / (2 alpha)}."""
    p, squared_p = orders
    both = mx.NormPlusSquare(0.4, 0.8, p, squared_p)
    region, square = mx.NormBall(0.4, p), mx.SquaredNormPotential(0.8, squared_p)
    rng = np.random.default_rng(15)
    inside = 0
    for r in rng.normal(size=(40, 3)) * rng.choice([0.1, 0.5, 2.0], size=(40, 1)):
        assert both.value(r) <= min(region.value(r), square.value(r)) + 1e-12
        inside += region.value(r) == 0
    assert 5 < inside < 35


@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_quadratic_fits_move_no_further_than_their_moments(alpha):
    """(47): the stability that Lemma 12 rests on."""
    rng = np.random.default_rng(14)
    X, pi = rng.random((40, 5)), rng.dirichlet(np.ones(40))
    entropy = mx.Shannon()
    at_truth = mx.Problem(entropy, X, mx.Quadratic(alpha), target=pi @ X).solve(tol=TOL).w
    for seen in rng.dirichlet(np.ones(40), size=5):
        fit = mx.Problem(entropy, X, mx.Quadratic(alpha), target=seen @ X).solve(tol=TOL).w
        moved, apart = np.linalg.norm(fit - at_truth), np.linalg.norm((seen - pi) @ X)
        assert 0 < moved <= apart / alpha


COORDINATES = {
    "box": (mx.Box(0.3), 0.3),
    "quadratic": (mx.Quadratic(0.5), 3.0),
    "smooth box": (mx.SmoothBox(0.3, 0.2), 0.3),
    "elastic": (mx.ElasticNet(0.1, 0.4), 3.0),
    "Laplace": (mx.LaplacePrior(2.0), 1.4),
}


@pytest.mark.parametrize("name", COORDINATES)
def test_weights_of_bounded_penalty_rise_at_most_linearly(name):
    """Lemma 23, on which Lemma 18 rests: u v <= a |u| for psi(u) < inf and psi*(v) <= c."""
    psi, reach = COORDINATES[name]
    u = np.linspace(-reach, reach, 41)
    u = u[[np.isfinite(psi.value(x)) for x in u[:, None]]]
    for c in (0.05, 1.0):
        v = np.linspace(-50, 50, 20_001)
        v = v[[psi.conjugate(x) <= c for x in v[:, None]]]
        assert 2 < v.size < 20_001
        a = max(abs(psi.value(x) + c) / abs(x[0]) for x in (u[-1:], u[:1]))  # of the proof
        assert (np.outer(u, v) <= a * np.abs(u)[:, None] + 1e-12).all()


# -- §5.5: which regularizations have the same solutions -------------------------------------------

# name of a norm: penalties `beta ||w||`, `alpha/2 ||w||^2` and `||w|| <= 1/gamma`, and the norm
TRIOS = {
    "l2": (mx.Ball, mx.Quadratic, lambda size: mx.DualBall(size, 2), 2),
    "l1": (
        mx.Box,
        lambda alpha: mx.SquaredNormPotential(alpha, INF),
        lambda size: mx.DualBall(size, 1),
        1,
    ),
}


@pytest.mark.parametrize("beta", [0.003, 0.03])
@pytest.mark.parametrize("name", TRIOS)
def test_a_norm_its_square_and_its_ball_have_the_same_solutions(name, beta):
    """Theorem 14 and the remarks after it, from each of the three to the other two."""
    norm_penalty, square, ball, order = TRIOS[name]
    first = density(norm_penalty(beta)).solve(tol=TOL)
    size = float(np.linalg.norm(first.w, ord=order))
    assert first.gap <= TOL
    assert size > 0.5
    problems = [
        density(norm_penalty(beta)),
        density(square(beta / size)),  # alpha = beta / ||w||
        density(ball(size)),  # gamma = 1 / ||w||
    ]
    for problem in problems:
        again = problem.solve(tol=TOL)
        assert again.gap <= TOL
        np.testing.assert_allclose(again.w, first.w, atol=1e-4)
        assert np.linalg.norm(again.w, ord=order) == pytest.approx(size, rel=1e-5)
        # the weights of each are certified as a solution by the gap of the other two
        for other in problems:
            inside = again.w * min(1, size / float(np.linalg.norm(again.w, ord=order)))
            assert other.gap(inside) <= 1e-7


@pytest.mark.parametrize("name", TRIOS)
def test_another_strength_is_another_solution(name):
    """So that the test above cannot pass for any strength."""
    norm_penalty, square, ball, order = TRIOS[name]
    first = density(norm_penalty(0.03)).solve(tol=TOL)
    size = float(np.linalg.norm(first.w, ord=order))
    assert density(square(0.03 / size * 1.1)).gap(first.w) > 1e-5
    assert density(ball(size * 1.1)).gap(first.w) > 1e-5


def test_the_ends_of_the_paths_are_the_same():
    """Theorem 14 at alpha = beta = inf, where w = 0: from one radius on, but for no strength."""
    problem = density(mx.Ball(1.0))
    far = float(np.linalg.norm(problem.state(np.zeros(5)).gradient))
    assert not density(mx.Ball(far * (1 + 1e-9))).solve().w.any()
    assert density(mx.Ball(far * 0.999)).solve(tol=TOL).w.all()
    for alpha in (10.0, 100.0):
        weights = density(mx.Quadratic(alpha)).solve(tol=TOL).w
        assert weights.all()
        assert np.linalg.norm(weights) < far / alpha


# -- guarantees, over all samples of a tiny truth --------------------------------------------------


class Tiny:
    """Three cells, two features, and all samples of m records with their probabilities."""

    m = 4
    X = np.array([[0.0, 1.0], [1.0, 0.2], [0.3, 0.0]])
    pi = np.array([0.5, 0.3, 0.2])

    def __init__(self):
        cells = combinations_with_replacement(range(3), self.m)
        self.samples = [np.bincount(x, minlength=3) for x in cells]
        self.chances = [
            factorial(self.m) / prod(map(factorial, k)) * np.prod(self.pi**k) for k in self.samples
        ]
        self.moments = self.pi @ self.X
        centred = self.X - self.moments
        self.covariance = (centred * self.pi[:, None]).T @ centred

    def loss(self, w):
        theta = self.X @ w
        return float(np.log(np.exp(theta).sum()) - self.pi @ theta)

    def expected(self, f):
        """E f(observed distribution)."""
        return sum(c * f(k / self.m) for c, k in zip(self.chances, self.samples, strict=True))


@pytest.mark.parametrize("alpha", [0.05, 0.3, 2.0])
def test_expected_loss_of_a_quadratic_fit(alpha):
    """(19), and Lemma 12 in its place: exact expectations, no draws."""
    tiny = Tiny()
    assert sum(tiny.chances) == pytest.approx(1, abs=1e-12)
    deviation = tiny.expected(lambda p: np.sum((p @ tiny.X - tiny.moments) ** 2))
    trace = float(np.trace(tiny.covariance))
    assert deviation == pytest.approx(trace / tiny.m, rel=1e-12)

    def loss_of_fit(observed):
        problem = mx.Problem(mx.Shannon(), tiny.X, mx.Quadratic(alpha), observed=observed)
        return tiny.loss(problem.solve(tol=1e-11).w)

    found, potential = tiny.expected(loss_of_fit), mx.Quadratic(alpha)
    for w_star in ([0.0, 0.0], [-0.5, 1.0], [2.0, 2.0]):
        size = float(np.sum(np.square(w_star)))
        rough = trace / (alpha * tiny.m) + alpha * size  # (19)
        sharp = trace / (alpha * tiny.m) + alpha * size / 2  # Lemma 12
        assert tiny.expected(
            lambda p, w=w_star: bounds.potential_excess(potential, p @ tiny.X - tiny.moments, w)
        ) == pytest.approx(rough, rel=1e-12)
        assert tiny.expected(
            lambda p, w=w_star: bounds.quadratic_deviation_excess(
                alpha, p @ tiny.X - tiny.moments, w
            )
        ) == pytest.approx(sharp, rel=1e-12)
        assert found <= tiny.loss(np.array(w_star)) + sharp <= tiny.loss(np.array(w_star)) + rough


def test_the_trace_of_the_covariance():
    """Lemma 22: tr Sigma <= D^2 / 2, and no smaller factor would do."""
    rng = np.random.default_rng(1)

    def trace_and_distances(X, pi):
        trace = float(pi @ np.sum((X - pi @ X) ** 2, axis=1))
        return trace, np.linalg.norm(X[:, None] - X, axis=2)

    for cells in (2, 5, 20):
        pi = rng.dirichlet(np.ones(cells))
        trace, apart = trace_and_distances(rng.normal(size=(cells, 3)), pi)
        # half the mean squared distance of two draws, as in the proof
        assert trace == pytest.approx(pi @ apart**2 @ pi / 2, rel=1e-12)
        assert trace <= apart.max() ** 2 / 2
        # cells at equal distances have all of it but 1/N
        trace, apart = trace_and_distances(np.eye(cells), np.full(cells, 1 / cells))
        assert trace / (apart.max() ** 2 / 2) == pytest.approx(1 - 1 / cells, rel=1e-12)


def test_the_smoothing_of_each_feature():
    """§5.2: alpha_j = epsilon L / (n beta_j ln 2) gives 2 (1 + epsilon) L, L = sum beta_j |w_j|."""
    beta, w_star, epsilon = np.array([0.02, 0.1, 0.05]), np.array([3.0, -1.0, 0.4]), 0.25
    size = float(beta @ np.abs(w_star))
    alpha = epsilon * size / (beta.size * beta * log(2))
    stated = 2 * (1 + epsilon) * size
    assert bounds.smooth_region_excess(beta, alpha, w_star) == pytest.approx(stated, rel=1e-12)
    # with one beta it is the alpha of Corollary 9, with L = beta L_1
    radius, smoothing = bounds.smooth_box_parameters(4.4, epsilon, n=3, m=50, delta=0.1)
    assert smoothing == pytest.approx(epsilon * (radius * 4.4) / (3 * radius * log(2)), rel=1e-12)
    # it holds for a fit whose deviations fill the region
    rng = np.random.default_rng(2)
    X, pi = rng.random((30, 3)), rng.dirichlet(np.ones(30))
    target = pi @ X + beta * [1, -1, 1]
    fit = mx.Problem(mx.Shannon(), X, mx.SmoothBox(beta, alpha), target=target).solve(tol=1e-9)

    def loss(w):
        return float(np.log(np.exp(X @ w).sum()) - pi @ X @ w)

    assert loss(fit.w) <= loss(w_star) + stated


def test_irrelevant_features_cost_l2_their_root_and_l1_the_root_of_their_log():
    """End of §5.3: ||w*||, D_inf fixed, D_2 growing with n."""
    rng = np.random.default_rng(3)
    counts = [10, 100, 1_000, 10_000]
    bits = rng.integers(0, 2, size=(40, counts[-1])).astype(float)
    bits[:2] = [[0.0], [1.0]]  # the two cells that are furthest apart
    ball, box = [], []
    for n in counts:
        X = bits[:, :n]
        diameter = max(np.linalg.norm(X - x, axis=1).max() for x in X)
        assert diameter == pytest.approx(sqrt(n))
        assert bounds.l2_diameter_bound(X) == pytest.approx(diameter)
        ball.append(bounds.ball_excess(1.0, diameter, 100, 0.05))
        box.append(bounds.hoeffding_excess(1.0, n, 100, 0.05))
    for low, high in pairwise(ball):
        assert high / low == pytest.approx(sqrt(10))
    for (low, high), (few, many) in zip(pairwise(box), pairwise(counts), strict=True):
        assert high / low == pytest.approx(sqrt(log(2 * many / 0.05) / log(2 * few / 0.05)))
    assert ball[-1] / ball[0] > 31
    assert box[-1] / box[0] < 1.5
    assert ball[0] > box[0]  # with ||w*||_1 = ||w*||_2, one relevant feature


# -- §3: measures that need not add up to 1 --------------------------------------------------------


def test_unnormalised_relative_entropy_by_hand():
    entropy = mx.UnnormalisedRelativeEntropy([1.0, 2.0])
    assert entropy.value([2.0, 2.0]) == pytest.approx(2 * log(2) - 1)
    assert entropy.value([0.0, 2.0]) == 1.0
    assert entropy.value([-0.1, 2.0]) == INF
    assert mx.UnnormalisedRelativeEntropy().conjugate([0.5, -INF])[0] == pytest.approx(
        np.expm1(0.5) - 1
    )
    forbidden = mx.UnnormalisedRelativeEntropy([1.0, 0.0])
    np.testing.assert_array_equal(forbidden.conjugate([0.0, 800.0])[1], [1.0, 0.0])
    assert forbidden.conjugate([0.0, 800.0])[0] == 0
    assert forbidden.value([1.0, 1e-9]) == INF
    assert mx.UnnormalisedRelativeEntropy().conjugate([800.0])[0] == INF
    assert mx.Scaled(entropy, 0.5).largest_score == 350
    assert mx.Shifted(entropy, [1.0, 3.0]).largest_score == 697
    for bad in (-1.0, [1.0, np.nan], [], np.ones((2, 2))):
        with pytest.raises(ValueError, match="q0 must be a finite number >= 0"):
            mx.UnnormalisedRelativeEntropy(bad)
    with pytest.raises(ValueError, match="q0 has 2 entries, the rows have 3"):
        entropy.conjugate([0.0, 0.0, 0.0])


def test_with_a_mass_of_one_it_is_the_relative_entropy():
    rng = np.random.default_rng(6)
    X, q0, seen = rng.random((30, 3)), rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30))
    usual = mx.Problem(mx.Relative(mx.Shannon(), q0), X, mx.Box(0.02), observed=seen)
    potential = mx.Families([mx.Equality(), mx.Box(0.02)], [1, 3])
    problem = mx.Problem(
        mx.UnnormalisedRelativeEntropy(q0),
        np.column_stack([np.ones(30), X]),
        potential,
        observed=seen,
    )
    solution, reference = problem.solve(tol=1e-10), usual.solve(tol=1e-10)
    np.testing.assert_allclose(solution.p, reference.p, atol=1e-6)
    np.testing.assert_allclose(solution.w[1:], reference.w, atol=1e-3)
    # the weight of the constant is the log of the normalizing constant
    log_z = float(np.log(q0 @ np.exp(X @ reference.w)))
    assert solution.w[0] == pytest.approx(-log_z, abs=1e-3)


def test_poisson_regression_is_its_problem():
    rng = np.random.default_rng(7)
    X, exposure = rng.normal(size=(50, 3)), rng.uniform(0.5, 2.0, 50)
    counts = rng.poisson(exposure * np.exp(X @ [0.5, -0.3, 0.0])).astype(float)
    problem = mx.Problem(
        mx.UnnormalisedRelativeEntropy(exposure), X, mx.Quadratic(5.0), observed=counts
    )
    solution = problem.solve(tol=1e-9)
    assert solution.gap <= 1e-9
    # sklearn averages its deviances by sample weights, and halves the squares of the weights
    reference = PoissonRegressor(
        alpha=5.0 / exposure.sum(), fit_intercept=False, tol=1e-10, max_iter=1000
    ).fit(X, counts / exposure, sample_weight=exposure)
    np.testing.assert_allclose(solution.w, reference.coef_, atol=1e-5)


def test_newton_steps_over_many_cells_take_a_sample_of_them():
    rng = np.random.default_rng(3)
    X, exposure = rng.normal(size=(60_000, 4)), rng.uniform(0.5, 2.0, 60_000)
    w = np.array([0.5, -0.3, 0.0, 0.2])
    cells = MatrixMap(X)
    d = exposure * np.exp(X @ w)
    exact, spike = cells.gram(d, None), np.sqrt(d / d.sum())
    np.testing.assert_allclose(exact, X.T @ (d[:, None] * X), rtol=1e-9)
    sampled = cells.gram(d, None, every=3)
    assert 1e-4 < np.linalg.norm(sampled - exact) / np.linalg.norm(exact) < 0.1
    whole = cells.gram(d, spike)
    np.testing.assert_array_equal(cells.gram(d, spike, every=3), whole)  # never indefinite
    assert cells.restrict(np.arange(4)) is cells
    counts = rng.poisson(d).astype(float)
    problem = mx.Problem(
        mx.UnnormalisedRelativeEntropy(exposure), X, mx.Quadratic(5.0), observed=counts
    )
    solution = problem.solve("prox-newton", tol=1e-6)
    other = problem.solve("lbfgs", tol=1e-6)
    np.testing.assert_allclose(solution.w, other.w, atol=1e-5)


# -- the auxiliary function of the parallel update -------------------------------------------------

POTENTIALS = {
    "quadratic": (mx.Quadratic(0.3), lambda a, mu, size: (a - mu) ** 2 * size**2 / (2 * 0.3)),
    "box": (
        mx.Box(0.05),
        lambda a, mu, size: 0.0 if abs(a - mu) <= 0.05 / size * (1 + 1e-12) else INF,
    ),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_the_auxiliary_function_of_plummet_in_its_primal_form(name):
    """(43): inf_{a >= 0} D~(a || q[f]) + U(a) + lambda a + U*(-lambda), feature by feature."""
    potential, primal = POTENTIALS[name]
    rng = np.random.default_rng(5)
    X, observed = rng.random((25, 3)), rng.dirichlet(np.ones(25))
    problem = mx.Problem(mx.Shannon(), X, potential, observed=observed)
    w = np.array([0.7, -0.4, 0.2])
    with pytest.warns(mx.ConvergenceWarning):
        found = mx.PLUMMET(max_iter=1).solve(problem, w).history[0]["auxiliary"]
    low, size = X.min(axis=0), np.ptp(X, axis=0)
    size = size * ((X - low) / size).sum(axis=1).max()  # sum_j f_j <= 1
    f, mu, lam = (X - low) / size, (observed @ X - low) / size, w * size
    q = np.exp(f @ lam) / np.exp(f @ lam).sum() @ f
    total = 0.0
    for j in range(3):
        penalty = potential.conjugate_terms(-w)[0][j] - lam[j] * mu[j]  # U_j*(-lambda_j)

        def value(a, j=j, penalty=penalty):
            unnormalised = a * np.log(a / q[j]) - a + q[j]
            return unnormalised + primal(a, mu[j], size[j]) + lam[j] * a + penalty

        reach = 0.05 / size[j] if name == "box" else mu[j]
        ends = max(mu[j] - reach, 1e-12), mu[j] + reach
        best = optimize.minimize_scalar(
            value, bounds=ends, method="bounded", options={"xatol": 1e-13}
        ).x
        total += min(value(a) for a in (best, *ends))
    assert total > 1e-3
    assert found == pytest.approx(total, rel=1e-7)
