"""Statements of the Fenchel-Young paper that need no code of their own, with independent numbers.

Infimal convolutions (8), projected gradient (33), proper losses (§10.1), Proposition 6 beyond
separable entropies, the supremum (28), Lemma 3, and the rates that §8.2 and §8.3 cite.
"""

import numpy as np
import pytest
from scipy import optimize, special

import maxent as mx
from maxent.structured import frank_wolfe

THETA = np.random.default_rng(0).normal(size=(4, 5)) * np.array([[0.3], [1.0], [2.0], [5.0]])


# (8): Omega = Psi + Phi


@pytest.mark.parametrize("theta", THETA, ids=str)
def test_eq_8_with_the_indicator_of_the_simplex_gives_sparsemax(theta):
    """inf_u sigma(u) + 1/2 ||theta - u||^2, a quadratic programme in (u, level), no projection."""

    def objective(z):
        u, level = z[:-1], z[-1]
        return level + 0.5 * np.sum((theta - u) ** 2), np.append(u - theta, 1.0)

    below = {"type": "ineq", "fun": lambda z: z[-1] - z[:-1]}
    found = optimize.minimize(
        objective,
        np.append(theta, theta.max()),
        jac=True,
        method="SLSQP",
        constraints=[below],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    value, p = mx.SquaredNorm().conjugate(theta)
    assert found.fun == pytest.approx(float(value), abs=1e-7)
    np.testing.assert_allclose(theta - found.x[:-1], p, atol=1e-5)  # grad Psi*(theta - u)


@pytest.mark.parametrize("theta", THETA, ids=str)
def test_eq_8_is_a_moreau_envelope_and_its_map_a_proximity_operator(theta):
    """Psi = 1/2 ||.||^2 and Phi = -H: inf_u logsumexp(u) + 1/2 ||theta - u||^2."""

    def objective(u):
        return special.logsumexp(u) + 0.5 * np.sum((theta - u) ** 2), special.softmax(u) + u - theta

    found = optimize.minimize(objective, theta, jac=True, method="BFGS", options={"gtol": 1e-9})
    p = mx.Shannon().prox(theta, 1.0)
    np.testing.assert_allclose(theta - found.x, p, atol=1e-8)
    assert found.fun == pytest.approx(theta @ p - special.xlogy(p, p).sum() - p @ p / 2, abs=1e-12)


# (33): projected gradient, which no closed form or root needs


@pytest.mark.parametrize(
    ("entropy", "gradient"),
    [
        (mx.Tsallis(2.0), lambda p: p),
        (mx.Tsallis(3.0), lambda p: p**2 / 2),
        (mx.Tsallis(4.5), lambda p: p**3.5 / 3.5),
        (mx.SquaredNorm(4.0), lambda p: p**3 / np.sum(p**4) ** 0.5),
    ],
    ids=["Tsallis 2", "Tsallis 3", "Tsallis 4.5", "squared norm 4"],
)
def test_projected_gradient_meets_the_map(entropy, gradient):
    """Omega is smooth for Tsallis's alpha >= 2 (constant 1): steps of 0.3 onto the simplex."""
    for theta in THETA:
        p = np.full(5, 0.2)
        for _ in range(20_000):
            p, last = mx.Simplex().project(p + 0.3 * (theta - gradient(p))), p
            if np.abs(p - last).max() < 1e-15:
                break
        value, exact = entropy.conjugate(theta)
        assert theta @ p - float(entropy.value(p)) == pytest.approx(float(value), abs=1e-9)
        np.testing.assert_allclose(p, exact, atol=3e-4)


# §10.1: proper losses


def brier(p, y):
    """l(p; y) = <grad Omega(p), p - y> - Omega(p) for Omega = ||p||^2 - 1 (in print: y - p)."""
    return np.sum(2 * p * (p - y), axis=-1) - (np.sum(p * p, axis=-1) - 1)


def test_the_gini_index_generates_the_brier_score():
    p = np.random.default_rng(1).dirichlet(np.ones(4), size=6)
    for k in range(4):
        expected = np.sum((np.eye(4)[k] - p) ** 2, axis=1)
        np.testing.assert_allclose(brier(p, np.eye(4)[k]), expected, atol=1e-14)
    printed = np.sum(2 * p * (np.eye(4)[0] - p), axis=1) - (np.sum(p * p, axis=1) - 1)
    assert np.abs(printed - brier(p, np.eye(4)[0])).max() > 0.5  # with y - p it is not the score
    # the same function generates the sparsemax loss, twice
    gini = mx.Scaled(mx.Tsallis(2.0), 2.0)
    np.testing.assert_allclose(gini.value(p), np.sum(p * p, axis=1) - 1, atol=1e-14)


def test_proper_losses_are_least_at_the_truth():
    """Also: l = B(y || p) - Omega(y), and Omega(y) = -l(y; y)."""
    grid = np.array([[i, j, 30 - i - j] for i in range(31) for j in range(31 - i)]) / 30
    for y in grid[::17]:
        losses = brier(grid, y)
        np.testing.assert_array_equal(grid[losses.argmin()], y)
        bregman = np.sum((y - grid) ** 2, axis=1)
        np.testing.assert_allclose(losses, bregman - (y @ y - 1), atol=1e-14)


def test_composite_form_for_legendre_entropies_and_only_a_bound_for_sparse_ones():
    """L(theta; y) = l(p(theta); y) + Omega(y) for Shannon; for sparsemax at least that."""
    rng = np.random.default_rng(2)
    theta, y = 3 * rng.normal(size=(20, 4)), rng.dirichlet(np.full(4, 0.5), size=20)
    p = special.softmax(theta, axis=1)
    log_score = np.sum((np.log(p) + 1) * (p - y), axis=1) - np.sum(special.xlogy(p, p), axis=1)
    loss = mx.FenchelYoungLoss(mx.Shannon()).value(theta, y)
    np.testing.assert_allclose(loss, log_score + special.xlogy(y, y).sum(axis=1), atol=1e-12)
    sparse = mx.FenchelYoungLoss(mx.Scaled(mx.Tsallis(2.0), 2.0))
    composite = brier(sparse.predict(theta), y) + np.sum(y * y, axis=1) - 1
    excess = sparse.value(theta, y) - composite
    assert excess.min() >= -1e-12
    assert excess.max() > 0.1


# Proposition 6 beyond separable entropies: the map covers the simplex, so there is a margin


@pytest.mark.parametrize("q", [1.3, 2.0, 4.0])
def test_prop_6_norm_entropies_reach_every_face(q):
    rng = np.random.default_rng(3)
    faces = rng.dirichlet(np.ones(4), size=30) * (rng.random((30, 4)) < 0.6)
    faces = np.concatenate([faces[faces.sum(axis=1) > 0], np.eye(4)])
    faces /= faces.sum(axis=1, keepdims=True)
    assert (faces == 0).any()
    norm = np.sum(faces**q, axis=1, keepdims=True) ** (1 / q)
    for entropy, theta in (
        (mx.NormEntropy(q), (faces / norm) ** (q - 1)),  # a subgradient of Omega at each
        (mx.SquaredNorm(q), norm ** (2 - q) * faces ** (q - 1)),
    ):
        np.testing.assert_allclose(entropy.conjugate(theta)[1], faces, atol=3e-5)
        assert mx.FenchelYoungLoss(entropy).margin(4) == pytest.approx(1.0, rel=1e-4)


def test_prop_6_an_entropy_that_reaches_no_face_has_no_margin():
    """Renyi below 1 is not separable either: p > 0 at all scores, and (22) has no bound."""
    theta = 30 * np.random.default_rng(4).normal(size=(200, 4))
    assert (mx.Renyi(0.5).conjugate(theta)[1] > 0).all()
    mass = np.array([1e-3, 1e-6, 1e-9])
    p = np.stack([1 - mass, mass / 3, mass / 3, mass / 3], axis=1)
    ratio = -mx.Renyi(0.5).value(p) / mass
    assert (np.diff(ratio) > 10 * ratio[:-1]).all()


# (28)


@pytest.mark.parametrize(
    ("entropy", "size", "margin"),
    [
        (mx.SquaredNorm(domain=mx.KSubset(2)), 4, 1.0),
        (mx.SquaredNorm(domain=mx.Chain(2)), 14, 1.0),
        (mx.SquaredNorm(domain=mx.Birkhoff()), 9, 1.0),
        (mx.SquaredNorm(domain=mx.Arborescence()), 9, 1.0),
        (mx.Scaled(mx.SquaredNorm(domain=mx.Permutahedron([3.0, 2.0, 1.0])), 2.5), 3, 2.5),
        (mx.MeanEntropy(domain=mx.Permutahedron([3.0, 2.0, 1.0])), 3, np.log(2)),
    ],
    ids=lambda x: repr(x)[:60],
)
def test_eq_28_is_a_supremum(entropy, size, margin):
    """No mixture has a larger ratio; along the edges of a vertex it comes as near as one likes."""
    rng = np.random.default_rng(5)
    vertices = entropy.domain.vertices(size)
    square = vertices[0] @ vertices[0]
    mixed = rng.dirichlet(np.full(len(vertices), 0.3), size=300) @ vertices
    best = 0.0
    for y in vertices:
        others = vertices[np.abs(vertices - y).max(axis=1) > 0]
        points = np.concatenate([mixed, *((1 - t) * y + t * others for t in (0.5, 1e-2, 1e-5))])
        points = points[square - points @ y > 1e-9]
        ratio = (float(entropy.value(y)) - entropy.value(points)) / (square - points @ y)
        best = max(best, ratio.max())
    assert best <= margin * (1 + 1e-6)
    assert best >= margin * (1 - 1e-4)


# Lemma 3, for any costs and any convex phi

PHI = {
    "exponential": (np.exp, lambda u: special.xlogy(u, u) - u, np.inf),
    "logistic": (
        lambda t: np.logaddexp(0, t),
        lambda u: special.xlogy(u, u) + special.xlogy(1 - u, 1 - u),
        1.0,
    ),
    "squared hinge": (lambda t: 0.5 * np.maximum(1 + t, 0) ** 2, lambda u: u * u / 2 - u, np.inf),
}


@pytest.mark.parametrize("name", PHI)
def test_lemma_3(name):
    """The least risk over theta of sum 0, sum_j (p'c_j) phi(theta_j), is the dual in tau = -u."""
    phi, conjugate, largest = PHI[name]
    rng = np.random.default_rng(6)
    for _ in range(5):
        cost, p = rng.uniform(0.2, 2.0, size=(4, 4)), rng.dirichlet(np.ones(4))
        mass = p @ cost
        basis = np.linalg.qr(np.ones((4, 1)), mode="complete")[0][:, 1:]  # theta of sum 0
        risk = optimize.minimize(
            lambda z, mass=mass, basis=basis: float(mass @ phi(basis @ z)),
            np.zeros(3),
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 5000, "maxfev": 5000},
        )
        end = min(largest * mass.min(), 20.0)
        dual = optimize.minimize_scalar(
            lambda u, mass=mass: float(mass @ conjugate(u / mass)),
            bounds=(0.0, end),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert risk.fun == pytest.approx(-dual.fun, abs=1e-8)


# the rates that §8.2 and §8.3 cite


def _gaps(entropy, passes):
    rng = np.random.default_rng(7)
    X, labels = rng.normal(size=(60, 4)), rng.integers(0, 3, size=60)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    strength = 0.1
    problem = mx.Problem(
        entropy, mx.SampleMap(X, 3), mx.Quadratic(strength), observed=np.eye(3)[labels]
    )
    solver = mx.DualCoordinateAscent(tol=1e-15, passes=1)
    return np.array([problem.run(solver, max_iter=int(k)).gap for k in passes]), 1 / (60 * strength)


@pytest.mark.parametrize("entropy", [mx.Tsallis(1.5), mx.Tsallis(2.0), mx.Shannon()], ids=repr)
def test_sdca_is_linear_where_omega_is_strongly_convex(entropy):
    """A pass shrinks the gap by exp(-1/(1 + R^2/(lambda n))) or more (Shalev-Shwartz, Zhang)."""
    passes = np.arange(2, 15, 2)
    gaps, sigma = _gaps(entropy, passes)
    rate = -np.polyfit(passes, np.log(gaps), 1)[0]
    assert rate >= 1 / (1 + sigma)
    assert gaps[-1] <= 1e-3 * gaps[0]


def _projection(variant):
    """Gaps on the way to a point within a face, from a vertex that is not of the face."""
    theta, start = np.append(np.linspace(0.3, 0.0, 6), np.full(4, -0.3)), np.eye(10)[-1]
    found = frank_wolfe(mx.Simplex(), theta, start, variant=variant, tol=1e-13, max_iter=2000)
    return np.minimum.accumulate(found.history)


def test_plain_frank_wolfe_is_sublinear():
    """Jaggi's bound 27/4 diameter^2 / (k + 2) at every k; the slope in logarithms is near -1."""
    gaps = _projection("plain")
    k = np.arange(gaps.size)
    assert (gaps <= 6.75 * 2 / (k + 2)).all()
    late = k >= 100
    assert -1.2 < np.polyfit(np.log(k[late]), np.log(gaps[late]), 1)[0] < -0.8


@pytest.mark.parametrize("variant", ["away", "pairwise"])
def test_away_and_pairwise_steps_are_linear(variant):
    """Lacoste-Julien and Jaggi: the logarithm of the gap falls along a line."""
    gaps = _projection(variant)
    assert gaps[-1] <= 1e-13
    k = np.arange(gaps.size)
    slope, level = np.polyfit(k, np.log(gaps), 1)
    assert slope < -0.2
    left = np.log(gaps) - (slope * k + level)
    assert 1 - left.var() / np.log(gaps).var() > 0.95


def test_fully_corrective_steps_end():
    """After finitely many vertices: the six of the face, the first one, and a call to see it."""
    gaps = _projection("corrective")
    assert gaps[-1] <= 1e-13
    assert gaps.size <= 8
