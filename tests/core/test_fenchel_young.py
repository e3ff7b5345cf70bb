"""The statements of "Learning with Fenchel-Young losses" (Blondel, Martins, Niculae), as tests."""

import numpy as np
import pytest
from scipy import integrate, optimize, special

import maxent as mx

INF = float("inf")
RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(8, 4)) * np.repeat([0.3, 1.0, 2.5, 8.0], 2)[:, None]
POINTS = np.concatenate([np.eye(4), RNG.dirichlet(np.full(4, 0.7), size=8)])

# symmetric entropies of the simplex (Omega = -H), strictly convex but for the last ones
STRICT = [
    mx.Shannon(),
    *(mx.Tsallis(a) for a in (0.5, 1.2, 1.5, 2.0, 3.0)),
    *(mx.NormEntropy(q) for q in (1.5, 2.0, 5.0)),
    *(mx.SquaredNorm(q) for q in (1.3, 2.0, 4.0)),
    mx.Renyi(0.5),
    mx.PairwiseHinge("smooth", 4),
    mx.PairwiseHinge("squared", 4),
]
CONVEX = [*STRICT, mx.NormEntropy(INF), mx.PairwiseHinge("hinge", 4), mx.Zero()]
SYMMETRIC = [*CONVEX, mx.Renyi(3.0)]


def each(name, values):
    return pytest.mark.parametrize(name, values, ids=lambda x: repr(x)[:50])


def loss_of(entropy, theta, y):
    return mx.FenchelYoungLoss(entropy).value(theta, y)


def predict(entropy, theta):
    return entropy.conjugate(theta)[1]


def pairs(theta, points):
    """Every score with every point."""
    return np.repeat(theta, len(points), axis=0), np.tile(points, (len(theta), 1))


def bayes(entropy, p):
    """H(p) = Omega(e_1) - Omega(p), which is 0 at the vertices."""
    return entropy.value(np.eye(p.shape[-1])[0]) - entropy.value(p)


# Proposition 1


@each("entropy", SYMMETRIC)
def test_prop_1_1_permutation(entropy):
    order = np.array([2, 0, 3, 1])
    np.testing.assert_allclose(
        predict(entropy, THETA[:, order]), predict(entropy, THETA)[:, order], atol=1e-12
    )


@each("entropy", SYMMETRIC)
def test_prop_1_2_order_preservation(entropy):
    p = predict(entropy, THETA)
    higher = THETA[:, :, None] > THETA[:, None, :]
    assert np.all((p[:, :, None] - p[:, None, :])[higher] >= -1e-12)
    assert np.all(higher[p[:, :, None] - p[:, None, :] > 1e-9])


# entropy, strong convexity in the 2-norm, least and greatest Omega on the simplex of 4
BOUNDED = [
    (mx.Shannon(), 1.0, -np.log(4), 0.0),
    (mx.Tsallis(1.5), 1.0, (4**-0.5 - 1) / 0.75, 0.0),
    (mx.Tsallis(2.0), 1.0, -3 / 8, 0.0),
    (mx.SquaredNorm(2.0), 1.0, 1 / 8, 1 / 2),
    (mx.SquaredNorm(1.5), 0.5, 0.5 * 4 ** (4 / 3 - 2), 1 / 2),
]


@each(("entropy", "gamma", "low", "high"), BOUNDED)
def test_prop_1_3_approximation_error(entropy, gamma, low, high):
    values = entropy.value(POINTS)
    assert np.all((low - 1e-12 <= values) & (values <= high + 1e-12))
    assert abs(float(entropy.value(np.full(4, 0.25))) - low) < 1e-12
    assert entropy.smoothness == pytest.approx(1 / gamma)
    for t in (1.0, 0.1):
        gap = predict(mx.Zero(), THETA) - predict(mx.Scaled(entropy, t), THETA)
        assert np.all(0.5 * np.sum(gap**2, axis=1) <= (high - low) / gamma + 1e-12)


@each("entropy", STRICT)
def test_prop_1_4_temperature(entropy):
    for t in (0.1, 3.0):
        np.testing.assert_allclose(
            predict(mx.Scaled(entropy, t), THETA), predict(entropy, THETA / t), atol=1e-14
        )
    np.testing.assert_allclose(
        predict(mx.Scaled(entropy, 1e-3), THETA), predict(mx.Zero(), THETA), atol=2e-2
    )


def test_prop_1_5_and_2_6_constant_invariance():
    """Tsallis(2) = SquaredNorm(2) - 1/2, Tsallis(1) = Shannon: same predictions, same losses."""
    theta, points = pairs(THETA, POINTS)
    for one, other in ((mx.Tsallis(2.0), mx.SquaredNorm(2.0)), (mx.Tsallis(1.0), mx.Shannon())):
        np.testing.assert_allclose(predict(one, THETA), predict(other, THETA), atol=1e-14)
        np.testing.assert_allclose(
            loss_of(one, theta, points), loss_of(other, theta, points), atol=1e-13
        )


# Proposition 2


@each("entropy", SYMMETRIC)
def test_prop_2_1_non_negative(entropy):
    theta, points = pairs(THETA, POINTS)
    raw = entropy.conjugate(theta)[0] + entropy.value(points) - np.sum(theta * points, axis=1)
    assert np.all(raw >= -1e-12)
    assert np.all(loss_of(entropy, theta, points) >= 0)


@each("entropy", STRICT)
def test_prop_2_2_zero_iff_predicted(entropy):
    p = predict(entropy, THETA)
    np.testing.assert_allclose(loss_of(entropy, THETA, p), 0, atol=1e-12)
    away = 0.9 * p + 0.1 * POINTS[5]
    distance = np.linalg.norm(away - p, axis=1)
    losses = loss_of(entropy, THETA, away)
    assert np.all(losses[distance > 0.01] > 1e-9)


def test_prop_2_2_zero_on_the_whole_subdifferential():
    """Ties of the perceptron: every mixture of the best classes has loss 0, nothing else has."""
    theta = np.array([1.0, 1.0, 0.0, 1.0])
    for y, expected in (
        ([0.2, 0.5, 0, 0.3], 0.0),
        ([0, 1, 0, 0], 0.0),
        ([0.2, 0.5, 0.1, 0.2], 0.1),
    ):
        assert float(loss_of(mx.Zero(), theta, np.array(y))) == pytest.approx(expected, abs=1e-15)


@each("entropy", SYMMETRIC)
def test_prop_2_3_convex_and_residuals_are_subgradients(entropy):
    left, right = THETA, THETA[::-1] * 1.3
    y = np.broadcast_to(POINTS[6], left.shape)
    at_left, at_right = loss_of(entropy, left, y), loss_of(entropy, right, y)
    for s in (0.1, 0.5, 0.8):
        between = loss_of(entropy, (1 - s) * left + s * right, y)
        assert np.all(between <= (1 - s) * at_left + s * at_right + 1e-11)
    residual = mx.FenchelYoungLoss(entropy).gradient(left, y)
    assert np.all(at_right >= at_left + np.sum(residual * (right - left), axis=1) - 1e-11)


@each("entropy", STRICT)
def test_prop_2_4_gradient_is_the_residual(entropy):
    y = np.broadcast_to(POINTS[6], THETA.shape)
    values, gradient = mx.FenchelYoungLoss(entropy).value_and_gradient(THETA, y)
    np.testing.assert_array_equal(values, loss_of(entropy, THETA, y))
    h = 1e-5
    for j in range(4):
        step = h * np.eye(4)[j]
        slope = (loss_of(entropy, THETA + step, y) - loss_of(entropy, THETA - step, y)) / (2 * h)
        np.testing.assert_allclose(gradient[:, j], slope, atol=2e-5)


@each("entropy", [entropy for entropy in STRICT if np.isfinite(entropy.smoothness)])
def test_prop_2_4_smoothness(entropy):
    theta = RNG.normal(size=(400, 4))
    other = theta + RNG.normal(size=theta.shape) * RNG.choice([1e-3, 0.1, 1.0], size=(400, 1))
    moved = np.linalg.norm(predict(entropy, theta) - predict(entropy, other), axis=1)
    assert np.all(moved <= entropy.smoothness * np.linalg.norm(theta - other, axis=1) * (1 + 1e-9))


@each("entropy", SYMMETRIC)
def test_prop_2_5_temperature(entropy):
    theta, points = pairs(THETA, POINTS)
    for t in (0.1, 3.0):
        np.testing.assert_allclose(
            loss_of(mx.Scaled(entropy, t), theta, points),
            t * loss_of(entropy, theta / t, points),
            atol=1e-11,
        )


# Proposition 3, with Psi = 1/2 ||.||^2 on R^d and Psi = sum mu log mu - mu on the positive cone


def squared_divergence(y, mu):
    return 0.5 * np.sum((y - mu) ** 2, axis=-1)


def generalized_kl(y, mu):
    return np.sum(special.rel_entr(y, mu) - y + mu, axis=-1)


LEGENDRE = [
    (mx.Tsallis(2.0), squared_divergence, lambda theta: theta),
    (mx.Shannon(), generalized_kl, np.exp),
]


@pytest.mark.parametrize(("entropy", "divergence", "dual"), LEGENDRE)
def test_prop_3_bregman(entropy, divergence, dual):
    p = predict(entropy, THETA)
    for point in POINTS:  # 1: a projection
        assert np.all(divergence(p, dual(THETA)) <= divergence(point, dual(THETA)) + 1e-10)
    theta, points = pairs(THETA, POINTS)
    losses = loss_of(entropy, theta, points)
    p = np.repeat(p, len(POINTS), axis=0)
    difference = divergence(points, dual(theta)) - divergence(p, dual(theta))  # 2
    np.testing.assert_allclose(losses, difference, rtol=1e-9, atol=1e-10)
    assert np.all(divergence(points, p) <= losses + 1e-10)  # 3: a bound


def test_prop_3_4_composite_form():
    """Shannon: L = KL(y || softmax). On all of R^d: the squared loss."""
    theta, points = pairs(THETA, POINTS)
    np.testing.assert_allclose(
        loss_of(mx.Shannon(), theta, points),
        generalized_kl(points, special.softmax(theta, axis=1)),
        atol=1e-12,
    )
    sparse = mx.Tsallis(2.0)
    composite = squared_divergence(points, predict(sparse, theta))
    assert np.max(loss_of(sparse, theta, points) - composite) > 0.5  # not so for sparsemax


# Proposition 4


@each("entropy", CONVEX[:-1])
def test_prop_4_entropy_is_non_negative_and_greatest_at_uniform(entropy):
    uniform = float(bayes(entropy, np.full(4, 0.25)))
    values = bayes(entropy, POINTS)
    np.testing.assert_allclose(values[:4], 0, atol=1e-14)
    assert np.all(values >= -1e-14)
    assert np.all(values[4:] < uniform)
    np.testing.assert_allclose(predict(entropy, np.zeros(4)), 0.25, atol=1e-12)
    assert float(entropy.conjugate(np.zeros(4))[0]) == pytest.approx(
        uniform - float(entropy.value(np.eye(4)[0])), abs=1e-12
    )


# Table 1, each loss written out


def test_table_1_squared():
    y = RNG.normal(size=THETA.shape)
    found = loss_of(mx.SquaredNorm(domain=mx.Euclidean()), THETA, y)
    np.testing.assert_allclose(found, 0.5 * np.sum((y - THETA) ** 2, axis=1), atol=1e-12)


@pytest.mark.parametrize("k", range(4))
def test_table_1_multiclass(k):
    right = THETA[:, k]
    others = np.array([i != k for i in range(4)], float)
    textbook = {
        mx.Zero(): THETA.max(axis=1) - right,
        mx.Shannon(): np.log(np.sum(np.exp(THETA), axis=1)) - right,
        mx.Shifted(mx.Zero(), others): np.max(others + THETA, axis=1) - right,
        mx.Shifted(mx.Shannon(), others): np.log(np.sum(np.exp(THETA + others), axis=1)) - right,
        mx.Tsallis(2.0): _sparsemax_loss(THETA, np.eye(4)[k]),
    }
    for entropy, expected in textbook.items():
        labels = np.full(len(THETA), k)
        np.testing.assert_allclose(loss_of(entropy, THETA, labels), expected, atol=1e-12)


def _sparsemax(theta):
    """Martins and Astudillo's sort."""
    z = np.sort(theta)[::-1]
    support = 1 + np.arange(z.size)
    k = support[1 + support * z > np.cumsum(z)][-1]
    return np.maximum(theta - (np.cumsum(z)[k - 1] - 1) / k, 0)


def _sparsemax_loss(theta, y):
    p = np.array([_sparsemax(row) for row in theta])
    return 0.5 * np.sum((y - theta) ** 2, axis=1) - 0.5 * np.sum((p - theta) ** 2, axis=1)


def test_table_1_one_vs_all_logistic():
    y = (RNG.random(THETA.shape) < 0.5).astype(float)
    expected = np.sum(np.log1p(np.exp(-(2 * y - 1) * THETA)), axis=1)
    for entropy in (mx.FermiDirac(), mx.Shannon(domain=mx.Cube()), mx.OneVsAll(mx.Shannon())):
        np.testing.assert_allclose(loss_of(entropy, THETA, y), expected, atol=1e-12)


def test_table_1_structured():
    chain = mx.Chain(2)
    paths = chain.vertices(14)
    theta = RNG.normal(size=(5, 14))
    y = paths[[0, 3, 5, 6, 7]]
    scores, right = theta @ paths.T, np.sum(theta * y, axis=1)
    hamming = np.zeros((5, 14))
    hamming[:, :6] = 1 - y[:, :6]  # a wrong state costs 1
    textbook = {
        mx.Zero(domain=chain): scores.max(axis=1) - right,
        mx.Shifted(mx.Zero(domain=chain), hamming): np.max(scores + hamming @ paths.T, axis=1)
        - right,
        mx.Shannon(domain=chain): special.logsumexp(scores, axis=1) - right,
        mx.Shifted(mx.Shannon(domain=chain), hamming): special.logsumexp(
            scores + hamming @ paths.T, axis=1
        )
        - right,
        mx.SquaredNorm(domain=chain): _sparse_map_loss(theta, y, paths),
    }
    for entropy, expected in textbook.items():
        np.testing.assert_allclose(loss_of(entropy, theta, y), expected, atol=1e-6)


def _sparse_map_loss(theta, y, vertices):
    """1/2 ||y - theta||^2 - 1/2 ||p - theta||^2 with p nearest, by non-negative least squares."""
    heavy = 1e4  # weight of the row that makes the mixture sum to one
    out = []
    for row, target in zip(theta, y, strict=True):
        a = np.vstack([vertices.T, heavy * np.ones(len(vertices))])
        w = optimize.nnls(a, np.append(row, heavy))[0]
        p = vertices.T @ (w / w.sum())
        out.append(0.5 * np.sum((target - row) ** 2) - 0.5 * np.sum((p - row) ** 2))
    return np.array(out)


# Sections 3.3, 3.4 and 4.2


@each("entropy", SYMMETRIC)
def test_eq_14_and_15_the_loss_of_a_label(entropy):
    """Omega*(theta) - theta_k = Omega*(theta - theta_k), and not below the perceptron's."""
    constant = float(entropy.value(np.eye(4)[0]))
    for k in range(4):
        right = THETA[:, k]
        found = loss_of(entropy, THETA, np.full(len(THETA), k))
        plain = entropy.conjugate(THETA)[0] - right + constant
        shifted = entropy.conjugate(THETA - right[:, None])[0] + constant
        np.testing.assert_allclose(found, plain, atol=1e-11)
        np.testing.assert_allclose(found, shifted, atol=1e-11)
        assert np.all(found >= THETA.max(axis=1) - right - 1e-12)


@each("entropy", STRICT)
def test_eq_12_and_16_expected_loss(entropy):
    eye = np.eye(4)
    for p in POINTS[4:]:
        expected = sum(p[i] * loss_of(entropy, THETA, np.full(len(THETA), i)) for i in range(4))
        information = p @ entropy.value(eye) - float(entropy.value(p))  # Bregman information
        to_mean = loss_of(entropy, THETA, np.broadcast_to(p, THETA.shape))
        np.testing.assert_allclose(expected, to_mean + information, atol=1e-11)
        assert information == pytest.approx(float(bayes(entropy, p)), abs=1e-13)
        constant = float(entropy.value(eye[0]))  # (16), for entropies that are not 0 at e_1
        np.testing.assert_allclose(
            expected, entropy.conjugate(THETA)[0] - THETA @ p + constant, atol=1e-11
        )


@each("entropy", [e for e in STRICT if not isinstance(e, mx.PairwiseHinge)])
def test_eq_13_and_17_bayes_risk_and_fisher_consistency(entropy):
    """Minimising the expected loss over theta gives H(p), at a theta that predicts p."""
    loss = mx.FenchelYoungLoss(entropy)
    p = np.array([0.45, 0.3, 0.15, 0.1])
    labels, eye = np.arange(4), np.eye(4)

    def risk(theta):
        rows = np.tile(theta, (4, 1))
        values, gradients = loss.value_and_gradient(rows, labels)
        return p @ values, p @ gradients

    found = optimize.minimize(
        risk, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 500}
    )
    assert found.fun == pytest.approx(p @ entropy.value(eye) - float(entropy.value(p)), abs=1e-8)
    np.testing.assert_allclose(loss.predict(found.x), p, atol=1e-6)


@each("entropy", [mx.Zero(), mx.Shannon(), mx.Tsallis(2.0), mx.NormEntropy(2.0)])
def test_section_3_4_cost_sensitive(entropy):
    k = 2
    cost = 1 - np.eye(4)[k]
    y = np.full(len(THETA), k)
    shifted = mx.Shifted(entropy, cost)
    np.testing.assert_allclose(
        loss_of(shifted, THETA, y), loss_of(entropy, THETA + cost, y), atol=1e-12
    )
    np.testing.assert_allclose(predict(shifted, THETA), predict(entropy, THETA + cost), atol=1e-14)
    chosen = predict(shifted, THETA).argmax(axis=1) == k
    assert np.all(predict(entropy, THETA).argmax(axis=1)[chosen] == k)


# Sections 4.4 and 6.1: two classes

S = np.linspace(-4, 4, 81)


def modified_huber(u):
    return np.where(u <= -1, 0, np.where(u >= 1, u, (u + 1) ** 2 / 4))


def smoothed_hinge(u):
    return np.where(u <= -1, 0, np.where(u >= 0, u + 0.5, (u + 1) ** 2 / 2))


@pytest.mark.parametrize(
    ("entropy", "phi_star"),
    [(mx.Shannon(), lambda u: np.log1p(np.exp(u))), (mx.Tsallis(2.0), modified_huber)],
)
def test_section_4_4_binary(entropy, phi_star):
    theta = np.stack([S, 0 * S], axis=1)
    np.testing.assert_allclose(loss_of(entropy, theta, 0 * S.astype(int)), phi_star(-S), atol=1e-13)
    np.testing.assert_allclose(loss_of(entropy, theta, np.ones(81, int)), phi_star(S), atol=1e-13)


@pytest.mark.parametrize(
    ("cube", "phi_star", "simplex"),
    [
        (mx.FermiDirac(), lambda u: np.log1p(np.exp(u)), mx.Shannon()),
        (mx.BinaryGini(), modified_huber, mx.Tsallis(2.0)),
    ],
)
def test_section_6_1_one_vs_all(cube, phi_star, simplex):
    y = (RNG.random(THETA.shape) < 0.5).astype(float)
    expected = np.sum(phi_star(-(2 * y - 1) * THETA), axis=1)
    np.testing.assert_allclose(loss_of(cube, THETA, y), expected, atol=1e-12)
    split = mx.OneVsAll(simplex)
    for found, wanted in zip(split.conjugate(THETA), cube.conjugate(THETA), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    inside = RNG.random((5, 4))
    np.testing.assert_allclose(split.value(inside), cube.value(inside), atol=1e-13)
    # theta = [s, -s]: twice the loss of §4.4
    both = np.stack([S, -S], axis=1)
    first = np.broadcast_to([1.0, 0.0], both.shape)
    plain = np.stack([S, 0 * S], axis=1)
    np.testing.assert_allclose(
        loss_of(cube, both, first), 2 * loss_of(simplex, plain, np.zeros(81, int)), atol=1e-12
    )


def test_section_4_4_smoothed_hinge():
    """phi(p) = p^2/2 - p on [0, 1]: a projection on the cube, shifted by a cost of 1."""
    entropy = mx.Shifted(mx.SquaredNorm(domain=mx.Cube()), [1.0])
    np.testing.assert_allclose(entropy.conjugate(S[:, None])[0], smoothed_hinge(S), atol=1e-13)


def test_section_6_2_relu():
    y = RNG.random(THETA.shape)
    expected = np.sum(0.5 * np.maximum(THETA, 0) ** 2 + 0.5 * y**2 - THETA * y, axis=1)
    cone = mx.SquaredNorm(domain=mx.NonNegative())
    np.testing.assert_allclose(predict(cone, THETA), np.maximum(THETA, 0))
    np.testing.assert_allclose(loss_of(cone, THETA, y), expected, atol=1e-12)


# Section 5: margins

MARGINS = [
    *((mx.Tsallis(a), 1 / (a - 1)) for a in (1.2, 1.5, 2.0, 3.0)),
    *((mx.NormEntropy(q), 1.0) for q in (1.3, 2.0, 5.0, INF)),
    *((mx.SquaredNorm(q), 1.0) for q in (1.3, 2.0, 4.0)),
    (mx.PairwiseHinge("hinge", 4), 4.0),
    (mx.PairwiseHinge("smooth", 4), 3.5),
    (mx.PairwiseHinge("squared", 4), 8.0),
    (mx.Scaled(mx.Tsallis(1.5), 3.0), 6.0),
]


@each(("entropy", "margin"), MARGINS)
def test_prop_5_margin_by_definition_and_by_eq_22(entropy, margin):
    assert entropy.margin == pytest.approx(margin)
    label = np.zeros(1, int)
    for others in (np.zeros(3), np.array([-5.0, 0.0, -1.0])):
        theta = np.append(margin, others)[None]
        assert float(loss_of(entropy, theta, label)[0]) < 1e-12
        np.testing.assert_allclose(predict(entropy, theta)[0], np.eye(4)[0], atol=1e-9)
    close = np.append(0.95 * margin, np.zeros(3))[None]
    assert float(loss_of(entropy, close, label)[0]) > 1e-9
    # (22): the supremum over p, reached near a vertex or inside
    near = np.concatenate([RNG.dirichlet(np.ones(3), size=100), np.full((1, 3), 1 / 3), np.eye(3)])
    best = 0.0
    for mass in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        p = np.concatenate([np.full((len(near), 1), 1 - mass), mass * near], axis=1)
        best = max(best, np.max(bayes(entropy, p) / mass))
    p = RNG.dirichlet(np.ones(4), size=2000)
    best = max(best, np.max(bayes(entropy, p) / (1 - p.max(axis=1))))
    assert best <= margin * (1 + 1e-8)
    slow = isinstance(entropy, mx.Tsallis | mx.NormEntropy | mx.SquaredNorm | mx.Scaled)
    assert best >= margin * (0.9 if slow else 0.999)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_prop_7_margin_by_derivatives(alpha):
    """(24): h'(0) - h'(1) = -int h'', also below 2, where h'' has no limit at 0."""

    def slope(t):
        return (1 - alpha * t ** (alpha - 1)) / (alpha * (alpha - 1))

    entropy = mx.Tsallis(alpha)
    assert entropy.margin == pytest.approx(slope(0.0) - slope(1.0))
    assert entropy.margin == pytest.approx(integrate.quad(lambda t: t ** (alpha - 2), 0, 1)[0])


@each(
    "entropy",
    [mx.Tsallis(1.5), mx.Tsallis(3.0), mx.NormEntropy(1.5), mx.NormEntropy(4.0), mx.SquaredNorm(3)],
)
def test_prop_7_margin_by_the_gradient_at_a_vertex(entropy):
    """(23), for norms too, which are not separable: the rise of H along e_j - e_k."""
    step = 1e-7
    rise = float(bayes(entropy, np.array([1 - step, step, 0.0]))) / step
    assert rise == pytest.approx(entropy.margin, rel=2e-3)


def test_no_margin_for_essentially_smooth_entropies():
    """Prop. 5: Shannon's loss is positive however far the scores; H/(1 - max p) is unbounded."""
    for entropy in (mx.Shannon(), mx.Tsallis(1.0), mx.Renyi(0.5), mx.FermiDirac()):
        assert entropy.margin is None
    heavy = mx.Tsallis(0.5)  # the loss falls as a power of the score
    assert heavy.margin is None
    far = np.array([[1e2, 0.0, 0.0], [1e4, 0.0, 0.0]])
    np.testing.assert_allclose(loss_of(heavy, far, np.zeros(2, int)), 8 / far[:, 0], rtol=0.05)
    theta = np.array([[30.0, 0.0, 0.0]])
    assert float(loss_of(mx.Shannon(), theta, np.zeros(1, int))[0]) > 1e-14
    masses = np.array([1e-2, 1e-5, 1e-8])
    p = np.stack([1 - masses, masses], axis=1)
    ratio = bayes(mx.Shannon(), p) / masses
    np.testing.assert_allclose(ratio, 1 - np.log(masses), rtol=1e-2)


@pytest.mark.parametrize("alpha", [1.0, 1.2, 1.5, 2.0, 3.0])
def test_prop_6_sparse_iff_margin(alpha):
    """Separable entropies: the map reaches faces of the simplex iff the loss has a margin."""
    entropy = mx.Tsallis(alpha)
    face = np.array([0.6, 0.4, 0.0])
    theta = np.array([0.6, 0.4, 0.0]) ** (alpha - 1) / (alpha - 1) if alpha > 1 else None
    if theta is None:
        assert entropy.margin is None
        assert np.all(predict(entropy, RNG.normal(size=(100, 3)) * 20) > 0)
    else:
        assert entropy.margin is not None
        np.testing.assert_allclose(predict(entropy, theta), face, atol=1e-10)


@pytest.mark.parametrize("domain", [mx.Chain(2), mx.KSubset(2), mx.Simplex()])
def test_prop_8_sparse_map_has_margin_1(domain):
    entropy = mx.SquaredNorm(domain=domain)
    assert entropy.margin == 1
    vertices = domain.vertices(8)
    y = vertices[1]
    for factor, zero in ((1.0, True), (0.9, False)):  # my is in the subdifferential from m = 1 on
        theta = factor * y
        slack = theta @ y - vertices @ theta - 0.5 * factor * np.sum((vertices - y) ** 2, axis=1)
        np.testing.assert_allclose(slack, 0, atol=1e-12)  # (27) with m = factor holds tightly
        assert (float(loss_of(entropy, theta, y)) < 1e-10) == zero
    # (28) along t y' + (1 - t) y
    other, t = vertices[2], 1e-6
    mu = t * other + (1 - t) * y
    ratio = (entropy.value(y) - entropy.value(mu)) / (y @ y - y @ mu)
    assert float(ratio) == pytest.approx(1, abs=1e-5)


def test_hinge_has_margin_1():
    hinge = mx.Shifted(mx.Zero(), 1 - np.eye(4)[1])
    for gap, expected in ((1.0, 0.0), (2.0, 0.0), (0.75, 0.25)):
        theta = np.array([0.0, gap, -1.0, 0.0])
        assert float(loss_of(hinge, theta, 1)) == pytest.approx(expected, abs=1e-15)


# Proposition 10

PHI = {
    "hinge": lambda t: np.maximum(1 + t, 0),
    "smooth": smoothed_hinge,
    "squared": lambda t: 0.5 * np.maximum(1 + t, 0) ** 2,
}


@pytest.mark.parametrize("kind", sorted(PHI))
def test_prop_10_entropy_is_the_sum_to_zero_risk(kind):
    """H(p) = min over sum theta = 0 of sum_j (1 - p_j) phi(theta_j), the loss of Lemma 3."""
    phi, points = PHI[kind], POINTS[4:8]
    found = bayes(mx.PairwiseHinge(kind, 4), points)
    for p, entropy in zip(points, found, strict=True):
        starts = [np.zeros(3), *(4 * np.eye(4)[:, :3] - 1)]

        def risk(free, p=p):
            return (1 - p) @ phi(np.append(free, -np.sum(free)))

        options = {"xatol": 1e-8, "fatol": 1e-11, "maxiter": 2000}
        best = min(
            optimize.minimize(risk, s, method="Nelder-Mead", options=options).fun for s in starts
        )
        assert float(entropy) == pytest.approx(best, abs=2e-6)


def test_prop_10_is_not_about_the_pairwise_loss_itself():
    """sum_{j != k} [1 + theta_j - theta_k]_+ is not its sum-to-zero form for d > 2.

    At d = 3, p = (1/2, 1/2, 0) its least risk is 1, at theta = (0, 0, -1): Prop. 10 says 3/2.
    """
    p = np.array([0.5, 0.5, 0.0])

    def risk(theta):
        gaps = 1 + theta[None, :] - theta[:, None]
        return p @ (np.maximum(gaps, 0).sum(axis=1) - 1)

    grid = np.linspace(-4, 4, 33)
    least = min(risk(np.array([a, b, 0.0])) for a in grid for b in grid)
    assert least == pytest.approx(1.0)
    assert risk(np.array([0.0, 0.0, -1.0])) == pytest.approx(1.0)
    assert float(bayes(mx.PairwiseHinge("hinge", 3), p)) == pytest.approx(1.5)


# Targets


@each("entropy", SYMMETRIC)
def test_labels_are_one_hot_rows_are_proportions(entropy):
    labels = np.arange(8) % 4
    rows = np.eye(4)[labels]
    loss = mx.FenchelYoungLoss(entropy)
    for method in (loss.value, loss.gradient):
        expected = method(THETA, rows)
        np.testing.assert_array_equal(method(THETA, labels), expected)
        np.testing.assert_array_equal(method(THETA, rows.astype(int)), expected)
        np.testing.assert_array_equal(method(THETA, labels.astype(np.uint8)), expected)


def test_cross_entropy_of_proportions_is_kl():
    theta, points = pairs(THETA, POINTS)
    p = special.softmax(theta, axis=1)
    expected = np.sum(special.rel_entr(points, p), axis=1)
    np.testing.assert_allclose(loss_of(mx.Shannon(), theta, points), expected, atol=1e-12)
    q0 = np.array([0.1, 0.2, 0.3, 0.4])
    prior = mx.Relative(mx.Shannon(), q0)
    np.testing.assert_allclose(
        loss_of(prior, theta, points), loss_of(mx.Shannon(), theta + np.log(q0), points), atol=1e-12
    )


# Continuity in the parameters


@pytest.mark.parametrize("step", [1e-4, 1e-7, 1e-10, 1e-13])
def test_tsallis_tends_to_shannon(step):
    near, limit = mx.Tsallis(1 + step), mx.Tsallis(1.0)
    room = 100 * step + 1e-12
    theta, points = pairs(THETA, POINTS)
    np.testing.assert_allclose(predict(near, THETA), predict(limit, THETA), atol=room)
    np.testing.assert_allclose(near.conjugate(THETA)[0], limit.conjugate(THETA)[0], atol=room)
    np.testing.assert_allclose(near.value(POINTS), limit.value(POINTS), atol=room)
    np.testing.assert_allclose(
        loss_of(near, theta, points), loss_of(limit, theta, points), atol=room
    )
    for tau in (0.3, 4.0):
        np.testing.assert_allclose(near.prox(THETA, tau), limit.prox(THETA, tau), atol=room + 1e-9)


@pytest.mark.parametrize("alpha", [1.0, 1.2, 1.5, 2.0, 2.5])
def test_derivative_of_tsallis_with_respect_to_alpha(alpha):
    theta = THETA[:6]
    entropy, h = mx.Tsallis(alpha), 1e-5
    p = predict(entropy, theta)
    found = entropy.alpha_gradient(theta, p)
    ahead = predict(mx.Tsallis(alpha + h), theta)
    if alpha == 1:  # one side only: three points, error h^2
        further = predict(mx.Tsallis(alpha + 2 * h), theta)
        difference = (4 * ahead - further - 3 * p) / (2 * h)
    else:
        difference = (ahead - predict(mx.Tsallis(alpha - h), theta)) / (2 * h)
    np.testing.assert_allclose(found, difference, atol=2e-5)
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-13)


def test_derivative_with_respect_to_alpha_has_its_limit_at_1():
    """dp = -p/2 (u^2 - E u^2) with u = log p, the limit of the formula."""
    p = predict(mx.Tsallis(1.0), THETA)
    square = np.log(p) ** 2
    expected = -0.5 * p * (square - np.sum(p * square, axis=1, keepdims=True))
    np.testing.assert_allclose(mx.Tsallis(1.0).alpha_gradient(THETA, p), expected, atol=1e-13)
    for step in (1e-3, 1e-6, 1e-9):
        entropy = mx.Tsallis(1 + step)
        near = entropy.alpha_gradient(THETA, predict(entropy, THETA))
        np.testing.assert_allclose(near, expected, atol=200 * step + 1e-11)


def test_norm_entropy_tends_to_berger_parker():
    # the map jumps at q = inf: scores whose sparsemax support is clear
    limit = mx.NormEntropy(INF)
    limit_values, limit_p = limit.conjugate(THETA)
    for q in (100.0, 1000.0):
        near = mx.NormEntropy(q)
        values, p = near.conjugate(THETA)
        np.testing.assert_allclose(values, limit_values, atol=5 / q)
        np.testing.assert_allclose(near.value(POINTS), limit.value(POINTS), atol=5 / q)
        np.testing.assert_allclose(p, limit_p, atol=20 / q)


@pytest.mark.parametrize("step", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12, 3e-16])
@pytest.mark.parametrize("side", [-1, 1])
def test_renyi_tends_to_shannon(step, side):
    near, limit = mx.Renyi(1 + side * step), mx.Shannon()
    room = 50 * step + 1e-13
    np.testing.assert_allclose(near.value(POINTS), limit.value(POINTS), atol=room)
    np.testing.assert_allclose(near.conjugate(THETA)[0], limit.conjugate(THETA)[0], atol=room)
    np.testing.assert_allclose(predict(near, THETA), predict(limit, THETA), atol=room)
    p, v = predict(limit, THETA), np.random.default_rng(1).normal(size=THETA.shape)
    if side < 0:  # beyond 1 by differences
        np.testing.assert_allclose(near.hvp(THETA, p, v), limit.hvp(THETA, p, v), atol=room)


# Relative entropies

INTEGRALS = [
    mx.Shannon(),
    *(mx.Tsallis(a) for a in (1.0, 1.2, 1.5, 2.0, 3.0)),
    *(mx.NormEntropy(q) for q in (1.5, 2.0, 5.0, INF)),
    *(mx.SquaredNorm(q) for q in (1.3, 2.0)),
    *(mx.Renyi(b) for b in (0.5, 1.0, 3.0)),
]
Q0 = np.array([0.1, 0.4, 0.3, 0.2])


@each("entropy", INTEGRALS)
def test_relative_at_zero_is_the_default_distribution(entropy):
    relative = mx.Relative(entropy, 7 * Q0)
    for constant in (0.0, 3.0):
        np.testing.assert_allclose(predict(relative, np.full(4, constant)), Q0, atol=1e-12)
    assert np.all(relative.value(POINTS) >= relative.value(Q0) - 1e-14)


@each("entropy", INTEGRALS)
def test_relative_does_not_see_a_split_cell(entropy):
    whole = mx.Relative(entropy, Q0)
    parts = mx.Relative(entropy, np.concatenate([Q0[:3], [0.1, 0.1]]))
    values, p = whole.conjugate(THETA)
    split_values, split_p = parts.conjugate(THETA[:, [0, 1, 2, 3, 3]])
    np.testing.assert_allclose(split_values, values, atol=1e-10)
    np.testing.assert_allclose(split_p[:, :3], p[:, :3], atol=1e-9)
    np.testing.assert_allclose(split_p[:, 3:], p[:, 3:] / 2 * np.ones(2), atol=1e-9)
    divided = np.concatenate([POINTS[:, :3], POINTS[:, 3:] / 2, POINTS[:, 3:] / 2], axis=1)
    np.testing.assert_allclose(parts.value(divided), whole.value(POINTS), atol=1e-13)


@pytest.mark.parametrize("width", [1.0, 10.0])
def test_fenchel_youngization_does_not_see_the_scale_of_the_scores(width):
    """App. A.2: a hinge of margin ``width`` gives margin 2; the larger one is not 0 where L is."""

    def hinge(theta):
        slack = 1 + (theta[::-1] - theta) / width
        slope = np.array([[-1.0, 1.0], [1.0, -1.0]]) / width
        return np.maximum(slack, 0), slope * (slack > 0)[:, None]

    loss = mx.FenchelYoungLoss(mx.fenchel_youngize(hinge, 2))
    assert loss.margin(2) == pytest.approx(2.0, rel=1e-6)
    lead = np.array([5.0, 0.0])
    assert float(loss.value(lead, 0)) == pytest.approx(0, abs=1e-9)
    assert hinge(lead)[0][0] == max(0, 1 - 5 / width)


def test_fenchel_youngization_of_the_logistic_loss_gives_shannon_back():
    def logistic(theta):
        p = np.exp(theta - theta.max())
        p /= p.sum()
        return -np.log(p), p[None, :] - np.eye(theta.size)

    entropy = mx.fenchel_youngize(logistic, 3)
    theta = np.random.default_rng(0).normal(size=(3, 3))
    values, p = entropy.conjugate(theta)
    expected_values, expected_p = mx.Shannon().conjugate(theta)
    np.testing.assert_allclose(values, expected_values, atol=1e-8)
    np.testing.assert_allclose(p, expected_p, atol=1e-6)
    points = np.random.default_rng(1).dirichlet(np.ones(3), size=3)
    np.testing.assert_allclose(entropy.value(points), mx.Shannon().value(points), atol=1e-8)


def _ramp(t):
    """The hinge of a margin, cut at 2: flat on both sides."""
    margin = np.array([t[0] - t[1], t[1] - t[0]])
    slope = np.array([[-1.0, 1.0], [1.0, -1.0]]) * (np.abs(margin) < 1)[:, None]
    return np.clip(1 - margin, 0, 2), slope


WRONG_TANGENTS = {
    "wrong sign": lambda t: ((t - 1) ** 2, -2 * np.diag(t - 1)),
    "concave": lambda t: (-((t - 1) ** 2), -2 * np.diag(t - 1)),
    "ramp": _ramp,  # cutting planes alone would end with an entropy of 1, twice its value
}


@pytest.mark.parametrize("name", WRONG_TANGENTS)
def test_a_loss_that_is_not_convex_is_refused(name):
    with pytest.raises(ValueError, match=r"class \d is not convex, or the jacobian is not"):
        mx.fenchel_youngize(WRONG_TANGENTS[name], 2)


def test_a_loss_that_is_no_number_is_refused_and_one_that_overflows_is_not():
    with pytest.raises(ValueError, match="the loss is NaN at"):
        mx.fenchel_youngize(lambda t: (np.where(t > 1, np.nan, t), np.eye(2)), 2)
    with np.errstate(over="ignore"):
        entropy = mx.fenchel_youngize(lambda t: (np.exp(-t), -np.diag(np.exp(-t))), 2, radius=800.0)
    assert isinstance(entropy, mx.Youngized)


@pytest.mark.parametrize("name", ["wrong sign", "concave"])
def test_a_loss_with_wrong_tangents_gets_no_certificate(name):
    with pytest.raises(ArithmeticError, match="is the loss convex"):
        mx.Youngized(WRONG_TANGENTS[name], 2).conjugate([0.5, 0.1])


@pytest.mark.parametrize(
    ("entropy", "size"),
    [
        (mx.Tsallis(1.2), 4),
        (mx.Tsallis(1.5), 3),
        (mx.Tsallis(3.3), 5),
        (mx.NormEntropy(1.2), 4),
        (mx.NormEntropy(np.inf), 3),
        (mx.SquaredNorm(1.5), 4),
        (mx.PairwiseHinge("smooth", 3), 3),
        (mx.PairwiseHinge("squared", 3), 3),
        (mx.Scaled(mx.Tsallis(1.5), 3.0), 4),
        (mx.SquaredNorm(domain=mx.KSubset(2)), 4),
        (mx.SquaredNorm(domain=mx.Permutahedron([3.0, 2.0, 1.0])), 3),
    ],
    ids=repr,
)
def test_margins_by_the_formula_are_those_that_classes_state(entropy, size):
    found = mx.FenchelYoungLoss(entropy).margin(size)
    assert found == pytest.approx(entropy.margin, rel=1e-5)


def _crammer_singer(theta):
    others = [max((j for j in range(3) if j != i), key=lambda j: theta[j]) for i in range(3)]
    slack = np.array([1 + theta[j] - theta[i] for i, j in enumerate(others)])
    slope = np.eye(3)[others] - np.eye(3)
    return np.maximum(slack, 0), slope * (slack > 0)[:, None]


@pytest.mark.parametrize(
    ("entropy", "size", "margin"),
    [
        (mx.Renyi(2.0), 2, 2.0),  # beta / (beta - 1), towards the vertex
        (mx.Renyi(np.inf), 2, 2 * np.log(2)),  # H / (1 - max p) at the uniform distribution
        (mx.Renyi(np.inf), 5, 1.25 * np.log(5)),
        (mx.Tsallis(0.5), 4, np.inf),
        (mx.MeanEntropy(domain=mx.Permutahedron([3.0, 2.0, 1.0])), 3, np.log(2)),
        (mx.fenchel_youngize(_crammer_singer, 3), 3, 2.0),
        (mx.Shannon(), 4, np.inf),
        (mx.Renyi(0.5), 4, np.inf),
        (mx.MeanEntropy(domain=mx.KSubset(2)), 4, np.inf),
    ],
    ids=lambda x: repr(x)[:50],
)
def test_margins_that_no_class_states(entropy, size, margin):
    assert mx.FenchelYoungLoss(entropy).margin(size) == pytest.approx(margin, rel=1e-6)


def test_the_margin_of_renyi_beyond_1_grows_with_the_classes():
    """Eq. (22) over a grid of distributions of three classes, and what the loss shows of it."""
    loss = mx.FenchelYoungLoss(mx.Renyi(2.0))
    a, b = np.meshgrid(np.linspace(0, 1, 801), np.linspace(0, 1, 801))
    p = np.stack([a, b, 1 - a - b], axis=-1)[(a + b <= 1)]
    p = p[p.max(axis=1) < 1 - 1e-9]
    ratio = -np.log(np.sum(p**2, axis=1)) / (p.max(axis=1) - 1)
    found = loss.margin(3)
    assert found == pytest.approx(np.max(-ratio), rel=1e-4)
    assert found < loss.margin(4) < loss.margin(6)
    assert loss.value([found * 1.001, 0.0, 0.0], 0) <= 1e-9
    assert loss.value([found * 0.99, 0.0, 0.0], 0) > 1e-4


def test_the_margin_of_one_vertex_and_domains_that_have_none():
    y = np.array([0.0, 1.0, 0.0])
    assert mx.FenchelYoungLoss(mx.Shifted(mx.Zero(), 1 - y)).margin(3, y) == 1.0
    with pytest.raises(ValueError, match="vertices of several lengths"):
        mx.FenchelYoungLoss(mx.SquaredNorm(domain=mx.Cube())).margin(3)
