"""Independent references: every conjugate and every prox against CVXPY, or against brute force.

Each entropy is written a second time as a convex programme (power, exponential and quadratic
cones; structures as mixtures of their enumerated vertices). What is not convex (Renyi beyond 1)
or is defined by another optimisation (``fenchel_youngize``) is compared with dense grids.
"""

import itertools
import warnings

import numpy as np
import pytest
from scipy import optimize

import maxent as mx
from tools import needs

INF = float("inf")
TAUS = (0.3, 1.0, 4.0)
Q0 = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
HOLED = np.array([0.5, 0.0, 0.3, 0.2])  # a default distribution with a cell of mass 0
COST = np.array([0.5, 1.0, 0.0, 2.0])


# Omega as a convex expression: (cp, p) -> (expression, constraints)


def simplex(omega):
    return lambda cp, p: (omega(cp, p), [p >= 0, cp.sum(p) == 1])


def cube(omega):
    return lambda cp, p: (omega(cp, p), [p >= 0, p <= 1])


def mixture(vertices, omega):
    """Omega(p, w) on the hull of the vertices, w the weights of the mixture."""

    def build(cp, p):
        w = cp.Variable(len(vertices))
        return omega(cp, p, w), [w >= 0, cp.sum(w) == 1, vertices.T @ w == p]

    return build


def shannon(cp, p):
    return -cp.sum(cp.entr(p))


def power_sum(cp, p, order, weights=1.0):
    return cp.sum(cp.multiply(weights, cp.power(p, order, approx=False)))


def tsallis(alpha, q=1.0):
    def omega(cp, p):
        weights = np.broadcast_to(np.asarray(q, float) ** (1 - alpha), p.shape)
        return (power_sum(cp, p, alpha, weights) - cp.sum(p)) / (alpha * (alpha - 1))

    return omega


def norm(order, q=1.0):
    """Norm of p/q in L^order(q)."""

    def omega(cp, p):
        weights = np.broadcast_to(np.asarray(q, float) ** (1 / order - 1), p.shape)
        return cp.pnorm(cp.multiply(weights, p), order, approx=False)

    return omega


def renyi(beta, q=1.0):
    def omega(cp, p):
        weights = np.broadcast_to(np.asarray(q, float) ** (1 - beta), p.shape)
        return -cp.log(power_sum(cp, p, beta, weights)) / (1 - beta)

    return omega


def pairwise_hinge(kind):
    """Prop. 10 as min_t t^2/2 sum 1/(1 - p_j) - d t, jointly convex in (p, t)."""

    def build(cp, p):
        d, constraints = p.size, [p >= 0, cp.sum(p) == 1]
        if kind == "hinge":
            return d * (cp.max(p) - 1), constraints
        t = cp.Variable(nonneg=True)
        if kind == "smooth":
            constraints.append(t <= 1 - cp.max(p))
        bend = sum(cp.quad_over_lin(t, 1 - p[j]) for j in range(d))
        return 0.5 * bend - d * t, constraints

    return build


def half_square(cp, p, *_):
    return 0.5 * cp.sum_squares(p)


def distribution(cp, p, w):
    return -cp.sum(cp.entr(w))


def holed(omega):
    """p is 0 where the default distribution is."""

    def build(cp, p):
        on = np.flatnonzero(HOLED)
        return omega(cp, p[on]), [p >= 0, cp.sum(p) == 1, p[HOLED == 0] == 0]

    return build


def plus(build, change):
    def changed(cp, p):
        expression, constraints = build(cp, p)
        return change(p, expression), constraints

    return changed


def case(entropy, size, build, accuracy=1e-5):
    return pytest.param(entropy, size, build, accuracy, id=repr(entropy)[:70])


SUBSETS = mx.KSubset(2).vertices(4)
PATHS = mx.Chain(2).vertices(14)
ON = HOLED[HOLED > 0]

CASES = [
    case(mx.Shannon(), 5, simplex(shannon)),
    case(mx.Tsallis(0.3), 4, simplex(tsallis(0.3)), 3e-5),
    *[
        case(mx.Tsallis(a), d, simplex(tsallis(a)))
        for a, d in ((0.8, 5), (1.1, 3), (1.33, 4), (1.5, 5), (2.0, 6), (2.7, 4), (4.0, 3))
    ],
    *[
        case(mx.NormEntropy(q), d, simplex(lambda cp, p, q=q: norm(q)(cp, p) - 1))
        for q, d in ((1.3, 4), (2.0, 5), (4.0, 3))
    ],
    case(mx.NormEntropy(INF), 5, simplex(lambda cp, p: cp.max(p) - 1)),
    *[
        case(mx.SquaredNorm(q), d, simplex(lambda cp, p, q=q: 0.5 * cp.square(norm(q)(cp, p))))
        for q, d in ((1.2, 4), (1.5, 5), (3.0, 5), (6.0, 4))
    ],
    case(mx.SquaredNorm(), 6, simplex(half_square)),
    case(mx.SquaredNorm(domain=mx.Cube()), 4, cube(half_square)),
    case(mx.SquaredNorm(domain=mx.NonNegative()), 4, lambda cp, p: (half_square(cp, p), [p >= 0])),
    case(
        mx.UnnormalisedRelativeEntropy([0.5, 2.0, 1.0, 0.1]),
        4,
        lambda cp, p: (cp.sum(cp.kl_div(p, np.array([0.5, 2.0, 1.0, 0.1]))), []),
    ),
    case(mx.SquaredNorm(domain=mx.Euclidean()), 3, lambda cp, p: (half_square(cp, p), [])),
    case(mx.SquaredNorm(domain=mx.KSubset(2)), 4, mixture(SUBSETS, half_square)),
    case(
        mx.SquaredNorm(domain=mx.ScaledDomain(mx.KSubset(2), 0.5)),
        4,
        mixture(SUBSETS / 2, half_square),
    ),
    case(mx.SquaredNorm(domain=mx.Chain(2)), 14, mixture(PATHS, half_square)),
    case(mx.Shannon(domain=mx.Cube()), 3, cube(lambda cp, p: shannon(cp, p) + shannon(cp, 1 - p))),
    case(mx.Shannon(domain=mx.KSubset(2)), 4, mixture(SUBSETS, distribution)),
    case(mx.Shannon(domain=mx.Chain(2)), 14, mixture(PATHS, distribution)),
    case(
        mx.Shannon(domain=mx.Product(mx.Simplex(), 2)),
        6,
        lambda cp, p: (shannon(cp, p), [p >= 0, cp.sum(p[:3]) == 1, cp.sum(p[3:]) == 1]),
    ),
    *[case(mx.Renyi(b), d, simplex(renyi(b))) for b, d in ((0.3, 3), (0.5, 5), (0.9, 4))],
    *[case(mx.PairwiseHinge(k, 4), 4, pairwise_hinge(k)) for k in ("hinge", "smooth", "squared")],
    case(mx.PairwiseHinge("squared", 3), 3, pairwise_hinge("squared")),
    case(mx.FermiDirac(), 4, cube(lambda cp, p: shannon(cp, p) + shannon(cp, 1 - p))),
    case(mx.BinaryGini(), 4, cube(lambda cp, p: cp.sum_squares(p) - cp.sum(p))),
    case(
        mx.OneVsAll(mx.Tsallis(1.5)),
        3,
        cube(lambda cp, p: tsallis(1.5)(cp, p) + tsallis(1.5)(cp, 1 - p)),
    ),
    case(mx.Zero(), 5, simplex(lambda cp, p: 0 * cp.sum(p))),
    case(mx.Zero(domain=mx.Chain(2)), 14, mixture(PATHS, lambda cp, p, w: 0 * cp.sum(p))),
    case(
        mx.Shifted(mx.Shannon(), COST), 4, plus(simplex(shannon), lambda p, omega: omega - COST @ p)
    ),
    case(
        mx.Shifted(mx.Zero(), COST),
        4,
        plus(simplex(lambda cp, p: 0 * cp.sum(p)), lambda p, omega: omega - COST @ p),
    ),
    case(
        mx.Shifted(mx.Tsallis(1.5), COST),
        4,
        plus(simplex(tsallis(1.5)), lambda p, omega: omega - COST @ p),
    ),
    case(
        mx.Shifted(mx.NormEntropy(INF), COST),
        4,
        plus(simplex(lambda cp, p: cp.max(p) - 1), lambda p, omega: omega - COST @ p),
    ),
    case(mx.Scaled(mx.Tsallis(1.5), 3.0), 5, plus(simplex(tsallis(1.5)), lambda p, o: 3 * o)),
    case(mx.Scaled(mx.Shannon(), 0.3), 5, plus(simplex(shannon), lambda p, o: 0.3 * o)),
    case(
        mx.Scaled(mx.BinaryGini(), 2.0), 3, cube(lambda cp, p: 2 * (cp.sum_squares(p) - cp.sum(p)))
    ),
    case(mx.Relative(mx.Shannon(), Q0), 5, simplex(lambda cp, p: cp.sum(cp.rel_entr(p, Q0)))),
    *[
        case(mx.Relative(mx.Tsallis(a), Q0), 5, simplex(tsallis(a, Q0)))
        for a in (0.5, 1.5, 2.0, 3.0)
    ],
    case(mx.Relative(mx.NormEntropy(2.0), Q0), 5, simplex(lambda cp, p: norm(2.0, Q0)(cp, p) - 1)),
    case(mx.Relative(mx.NormEntropy(INF), Q0), 5, simplex(lambda cp, p: cp.max(p / Q0) - 1)),
    *[
        case(
            mx.Relative(mx.SquaredNorm(q), Q0),
            5,
            simplex(lambda cp, p, q=q: 0.5 * cp.square(norm(q, Q0)(cp, p))),
        )
        for q in (1.5, 2.0, 4.0)
    ],
    case(mx.Relative(mx.Renyi(0.5), Q0), 5, simplex(renyi(0.5, Q0))),
    case(mx.Relative(mx.Shannon(), HOLED), 4, holed(lambda cp, p: cp.sum(cp.rel_entr(p, ON)))),
    *[case(mx.Relative(mx.Tsallis(a), HOLED), 4, holed(tsallis(a, ON))) for a in (0.5, 1.5)],
    case(mx.Relative(mx.NormEntropy(3.0), HOLED), 4, holed(lambda cp, p: norm(3.0, ON)(cp, p) - 1)),
    *[
        case(
            mx.Relative(mx.SquaredNorm(q), HOLED),
            4,
            holed(lambda cp, p, q=q: 0.5 * cp.square(norm(q, ON)(cp, p))),
        )
        for q in (1.5, 4.0)
    ],
    case(mx.Relative(mx.Renyi(0.5), HOLED), 4, holed(renyi(0.5, ON))),
]


WITHOUT_PROX = mx.Relative(mx.NormEntropy(INF), Q0)


def scores(size, rows=4, seed=0):
    rng = np.random.default_rng(seed + size)
    theta = rng.normal(size=(rows, size)) * np.array([0.3, 1.0, 2.0, 1.0])[:rows, None]
    theta[-1, 1] += 2  # the best score is where HOLED has no mass
    return theta


def solve(cp, size, build, objectives):
    """Minimise objective(p, Omega) for each of them in one programme; rows p and Omega(p)."""
    p = [cp.Variable(size) for _ in objectives]
    built = [build(cp, point) for point in p]
    total = sum(f(x, omega) for f, x, (omega, _) in zip(objectives, p, built, strict=True))
    problem = cp.Problem(cp.Minimize(total), [c for _, some in built for c in some])
    with np.errstate(all="ignore"):  # cvxpy evaluates powers at entries of -1e-12
        for goal in (1e-11, 1e-9, 1e-8):  # the tightest the solver reaches
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Solution may be inaccurate")
                problem.solve(cp.CLARABEL, tol_gap_abs=goal, tol_gap_rel=goal, tol_feas=goal)
            if problem.status == cp.OPTIMAL:
                break
        assert problem.status == cp.OPTIMAL, "the reference programme was not solved"
        for x in p:
            x.save_value(np.where(np.abs(x.value) < 1e-10, 0.0, x.value))
        return np.array([x.value for x in p]), np.array([float(o.value) for o, _ in built])


@pytest.mark.parametrize(("entropy", "size", "build", "accuracy"), CASES)
def test_conjugate_is_that_of_the_convex_programme(entropy, size, build, accuracy):
    cp = needs("cvxpy")
    theta = scores(size)
    found, p = entropy.conjugate(theta)
    reference, omega = solve(
        cp, size, build, [lambda x, omega, row=row: omega - row @ x for row in theta]
    )
    value = np.sum(theta * reference, axis=1) - omega
    np.testing.assert_allclose(found, value, rtol=0, atol=2e-8)
    np.testing.assert_allclose(entropy.value(p), np.sum(theta * p, axis=1) - found, atol=1e-12)
    np.testing.assert_allclose(p, reference, rtol=0, atol=accuracy)


@pytest.mark.slow
@pytest.mark.parametrize(("entropy", "size", "build", "accuracy"), CASES)
def test_prox_is_that_of_the_convex_programme(entropy, size, build, accuracy):
    cp = needs("cvxpy")
    eta = scores(size, rows=3, seed=9)
    if repr(entropy) == repr(WITHOUT_PROX):
        with pytest.raises(NotImplementedError, match="no closed proximity operator"):
            entropy.prox(eta, 1.0)
        return
    found = np.concatenate([entropy.prox(eta, tau) for tau in TAUS])
    objectives = [
        lambda x, omega, row=row, tau=tau: 0.5 * cp.sum_squares(x - row) + tau * omega
        for tau in TAUS
        for row in eta
    ]
    reference, _ = solve(cp, size, build, objectives)
    np.testing.assert_allclose(found, reference, rtol=0, atol=accuracy)


def grid_of_simplex(size, steps):
    """All points of the simplex with coordinates in 1/steps."""
    if size == 2:
        t = np.linspace(0, 1, steps + 1)
        return np.stack([t, 1 - t], axis=1)
    i, j = (x.ravel() for x in np.meshgrid(np.arange(steps + 1), np.arange(steps + 1)))
    keep = i + j <= steps
    return np.stack([i[keep], j[keep], steps - i[keep] - j[keep]], axis=1) / steps


def brute_force(objective, size, steps, zooms=12):
    """Maximum over the simplex: a dense grid, then ever smaller grids around the best points."""
    points = grid_of_simplex(size, steps)
    values = objective(points)
    best = points[np.argsort(values)[-3:]]
    local = np.array(list(itertools.product(np.linspace(-1, 1, 9), repeat=size - 1)))
    width = 2.0 / steps
    for _ in range(zooms):
        moves = np.concatenate([local, -local.sum(axis=1, keepdims=True)], axis=1) * width
        near = np.clip(best[:, None] + moves, 0, None).reshape(-1, size)
        near /= near.sum(axis=1, keepdims=True)
        near = np.concatenate([near, best])
        values = objective(near)
        best, width = near[np.argsort(values)[-3:]], width / 3
    return values.max(), best[-1]


def renyi_entropy(p, beta, q=None):
    q = np.ones(p.shape[-1]) if q is None else q
    if beta == INF:
        return -np.log(np.max(p / q, axis=1))
    return np.log(np.sum(q ** (1 - beta) * p**beta, axis=1)) / (1 - beta)


@pytest.mark.parametrize("beta", [0.3, 0.9, 1.5, 3.0, 5.0, 20.0, INF])
@pytest.mark.parametrize("size", [2, 3])
def test_renyi_is_the_global_maximum(beta, size):
    rng = np.random.default_rng(int(10 * min(beta, 1e3)))
    theta = rng.normal(size=(8, size)) * np.repeat([0.3, 1.0], 4)[:, None]
    values, p = mx.Renyi(beta).conjugate(theta)
    for row, value, point in zip(theta, values, p, strict=True):
        best, where = brute_force(
            lambda x, row=row: x @ row + renyi_entropy(x, beta), size, 20000 if size == 2 else 300
        )
        assert abs(value - best) < 1e-9
        if beta < 1.1:
            np.testing.assert_allclose(point, where, atol=1e-4)


@pytest.mark.parametrize("beta", [3.0, 5.0, 20.0])
def test_renyi_is_not_fooled_by_minima(beta):
    """Near the scores where a vertex and the interior tie, stationary points can be minima."""
    gaps = np.linspace(0, 3, 61)
    values, p = mx.Renyi(beta).conjugate(np.stack([gaps, 0 * gaps], axis=1))
    grid = grid_of_simplex(2, 200_000)
    entropy = renyi_entropy(grid, beta)
    best = np.array([np.max(grid @ [gap, 0.0] + entropy) for gap in gaps])
    assert np.all(values >= best - 1e-12)
    assert np.max(values - best) < 1e-9
    attained = np.sum(np.stack([gaps, 0 * gaps], axis=1) * p, axis=1) + renyi_entropy(p, beta)
    np.testing.assert_allclose(attained, values, atol=1e-12)


@pytest.mark.parametrize(("size", "limit"), [(2, 2.0), (3, 1.8092), (4, 1.6811)])
def test_renyi_is_concave_up_to_its_limit(size, limit):
    """H is concave iff sum p^beta sum p^(2 - beta) <= beta, by differences along random lines."""
    rng = np.random.default_rng(size)
    mass = np.logspace(-4, -0.3, 200)[:, None]
    near = np.concatenate([1 - mass, np.repeat(mass / (size - 1), size - 1, axis=1)], axis=1)
    p = np.concatenate([near, rng.dirichlet(np.full(size, 0.5), size=4000)])
    p = p[p.min(axis=1) > 1e-5]
    v = rng.normal(size=p.shape)
    v[: len(near)] = near[0] - near[1]  # towards the vertex
    v -= v.mean(axis=1, keepdims=True)
    step = 1e-2 * p.min(axis=1, keepdims=True) * v / np.abs(v).max(axis=1, keepdims=True)

    def bend(beta):
        ends = renyi_entropy(p + step, beta) + renyi_entropy(p - step, beta)
        return (ends - 2 * renyi_entropy(p, beta)) / np.sum(step**2, axis=1)

    def criterion(beta):
        return np.sum(p**beta, axis=1) * np.sum(p ** (2 - beta), axis=1) / beta

    assert bend(limit - 0.02).max() < 0
    assert criterion(limit - 0.02).max() < 1
    assert bend(limit + 0.02).max() > 0
    assert criterion(limit + 0.02).max() > 1


@pytest.mark.parametrize("beta", [0.5, 3.0, 20.0, INF])
def test_relative_renyi_is_the_global_maximum(beta):
    q = np.array([0.2, 0.5, 0.3])
    theta = np.random.default_rng(3).normal(size=(6, 3))
    values, _ = mx.Relative(mx.Renyi(beta), q).conjugate(theta)
    for row, value in zip(theta, values, strict=True):
        best, _ = brute_force(lambda x, row=row: x @ row + renyi_entropy(x, beta, q), 3, 300)
        assert abs(value - best) < 1e-9


@pytest.mark.parametrize("size", [2, 7, 40])
def test_the_min_entropy_is_a_linear_programme_at_every_largest_entry(size):
    """max_m (max <theta, p> over p <= m) - log m on a grid of m that has all 1/k."""
    rng = np.random.default_rng(size)
    theta = rng.normal(size=(5, size)) * np.array([0.01, 0.3, 1.0, 3.0, 10.0])[:, None]
    values, p = mx.Renyi(INF).conjugate(theta)
    largest = np.concatenate([1 / np.arange(1, size + 1), rng.uniform(1 / size, 1, 50)])
    for row, value, point in zip(-np.sort(-theta), values, p, strict=True):
        full = np.clip(1 - largest[:, None] * np.arange(size), 0, largest[:, None])
        assert value == pytest.approx(np.max(full @ row - np.log(largest)), abs=1e-12)
        assert np.ptp(point[point > 0]) <= 1e-15


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e9])
def test_tsallis_below_1_by_bisection(alpha, scale):
    """Prop. 9 with scipy's root of sum_i (1 + (1 - alpha)(tau - theta_i))^(-1/(1-alpha)) = 1."""
    theta = scale * np.random.default_rng(7).normal(size=(4, 30))
    values, p = mx.Tsallis(alpha).conjugate(theta)
    a = 1 - alpha
    top = theta.max(axis=1)
    for row, above, point in zip(theta - top[:, None], values - top, p, strict=True):

        def density(s, row=row):
            return (s - a * row) ** (-1 / a)

        s = optimize.brentq(lambda s: density(s).sum() - 1, 1.0, 30.0**a, xtol=1e-15, rtol=1e-15)
        np.testing.assert_allclose(point, density(s), rtol=1e-11)
        assert (point > 0).all()  # dense, with tails that fall as a power
        omega = np.sum(point**alpha - point) / (alpha * (alpha - 1))
        assert above == pytest.approx(point @ row - omega, rel=1e-9, abs=1e-15 * scale)


# losses for fenchel_youngize: theta -> (values, jacobian)


def separate_hinge(theta):
    return np.maximum(0, 1 - theta), -np.diag((theta < 1) * 1.0)


def squared_one_vs_all(theta):
    """(1 - theta_k)^2/2 + sum_{j != k} (1 + theta_j)^2/2."""
    signs = 2 * np.eye(theta.size) - 1
    return 0.5 * np.sum((1 - signs * theta) ** 2, axis=1), theta - signs


def skewed_hinge(theta):
    """Pairwise hinges with unequal costs, kinked and not symmetric."""
    d = theta.size
    cost = 1 + np.arange(d * d).reshape(d, d) / d
    values, jacobian = np.zeros(d), np.zeros((d, d))
    for k, j in itertools.permutations(range(d), 2):
        slack = cost[k, j] + theta[j] - theta[k]
        values[k] += max(slack, 0)
        jacobian[k] += (slack > 0) * (np.eye(d)[j] - np.eye(d)[k])
    return values, jacobian


def bayes_risk(loss, p):
    """inf_theta sum_i p_i loss_i(theta): Nelder-Mead from a few starts."""
    starts = [np.zeros(p.size), *np.eye(p.size), *(2 * np.eye(p.size) - 1)]
    options = {"xatol": 1e-8, "fatol": 1e-10}
    return min(
        optimize.minimize(
            lambda t: p @ loss(t)[0], start, method="Nelder-Mead", options=options
        ).fun
        for start in starts
    )


KINKED = [(loss, size) for loss in (separate_hinge, skewed_hinge) for size in (2, 3)]
# cutting planes are slow on smooth losses (seconds a row): one row of one size
SMOOTH = [(squared_one_vs_all, 2)]


@pytest.mark.parametrize(("loss", "size"), KINKED + SMOOTH)
def test_youngized_entropy_is_the_bayes_risk(loss, size):
    omega = mx.fenchel_youngize(loss, size)
    rows = 3 if (loss, size) in KINKED else 1
    for p in np.random.default_rng(size).dirichlet(np.ones(size), size=rows):
        assert abs(-float(omega.value(p)) - bayes_risk(loss, p)) < 1e-6


@pytest.mark.parametrize(("loss", "size"), KINKED)
def test_youngized_conjugate_is_its_definition(loss, size):
    """max_p <theta, p> + H(p), with H on a grid by its own definition: two bounds close in."""
    omega = mx.fenchel_youngize(loss, size)
    theta = 0.7 * np.random.default_rng(1).normal(size=(3, size))
    values, p = omega.conjugate(theta)
    grid = grid_of_simplex(size, 20 if size == 2 else 5)
    below = theta @ grid.T - omega.value(grid)
    assert np.all(values[:, None] >= below - 1e-8)
    attained = np.sum(theta * p, axis=1) - omega.value(p)
    np.testing.assert_allclose(attained, values, atol=1e-7)
    # App. A.2: every theta' bounds the value from above
    other = np.random.default_rng(2).normal(size=(200, size))
    for row, value in zip(theta, values, strict=True):
        assert value <= min(np.max(loss(s)[0] + row) for s in other) + 1e-8


def test_youngized_squared_loss_in_closed_form():
    """sum_i p_i loss_i is least at theta = 2 p - 1, so H = 2 sum p_i (1 - p_i)."""
    theta = np.array([0.3, -0.2])
    value, p = mx.fenchel_youngize(squared_one_vs_all, 2).conjugate(theta)
    expected = mx.Scaled(mx.Tsallis(2.0), 4.0).conjugate(theta)
    np.testing.assert_allclose(value, expected[0], atol=1e-6)
    np.testing.assert_allclose(p, expected[1], atol=1e-4)


@pytest.mark.parametrize("margin", [1.0, 30.0, 100.0, 1000.0])
def test_youngized_losses_of_any_margin_have_a_vertex_where_one_class_is_left(margin):
    """H(e_i) = inf loss_i = 0, however large the other losses are and however far the minimum."""

    def squared_hinge(s):
        signs = 2 * np.eye(s.size) - 1
        slack = np.maximum(margin - signs * s, 0)
        return np.sum(slack**2, axis=1), -2 * signs * slack

    for size in (2, 3):
        omega = mx.fenchel_youngize(squared_hinge, size)
        for allowed in range(size):
            theta = np.full(size, -np.inf)
            theta[allowed] = 2.0
            value, p = omega.conjugate(theta)
            assert abs(value - 2) < 1e-8
            np.testing.assert_array_equal(p, np.eye(size)[allowed])
    theta = np.array([0.5, -np.inf, 0.5])
    value, p = omega.conjugate(theta)
    # class j adds min_s p_j (m - s)^2 + (1 - p_j) (m + s)^2 = 4 m^2 p_j (1 - p_j) to H
    np.testing.assert_allclose(value, 0.5 + 2 * margin**2, rtol=1e-8)
    np.testing.assert_allclose(p, [0.5, 0, 0.5], atol=1e-4)


def test_a_loss_without_a_minimum_is_said_to_have_none():
    def slide(s):
        return s.sum() + np.zeros(2), np.ones((2, 2))

    with pytest.raises(ArithmeticError, match="bounded"):
        mx.fenchel_youngize(slide, 2).value([0.5, 0.5])
