"""Bregman divergences from a default distribution: the definition, peers, problems, bad input."""

import numpy as np
import pytest

import maxent as mx
from maxent.testing import check_entropy
from tools import needs

P0 = np.array([0.5, 0.2, 0.2, 0.07, 0.03])
ENTROPIES = [
    mx.Shannon(),
    mx.Tsallis(1.5),
    mx.Tsallis(2.0),
    mx.Tsallis(3.0),
    mx.SquaredNorm(1.6),
    mx.NormEntropy(2.5),
]


@pytest.mark.parametrize("entropy", ENTROPIES, ids=repr)
def test_it_is_the_definition(entropy):
    rng = np.random.default_rng(0)
    bregman = mx.Bregman(entropy, 3 * P0)  # p0 is normalised
    step = 1e-6
    tangents = np.eye(5) - 1 / 5  # along the simplex, where the gradient is known
    gradient = [
        (entropy.value(P0 + step * t) - entropy.value(P0 - step * t)) / (2 * step) for t in tangents
    ]
    for p in rng.dirichlet(np.ones(5), size=20):
        expected = entropy.value(p) - entropy.value(P0) - np.dot(gradient, p - P0)
        assert bregman.value(p) == pytest.approx(expected, abs=1e-8)
        assert bregman.value(p) > 0
    assert bregman.value(P0) == pytest.approx(0, abs=1e-15)
    value, p = bregman.conjugate(np.zeros(5))
    np.testing.assert_allclose(p, P0, atol=1e-12)
    assert value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("entropy", ENTROPIES, ids=repr)
def test_generic_checks(entropy):
    check_entropy(mx.Bregman(entropy, P0), 5)


def test_two_of_them_have_names():
    p = np.random.default_rng(1).dirichlet(np.ones(5), size=7)
    kl = mx.Relative(mx.Shannon(), P0).value(p)
    np.testing.assert_allclose(mx.Bregman(mx.Shannon(), P0).value(p), kl, atol=1e-14)
    half = np.sum((p - P0) ** 2, axis=1) / 2
    np.testing.assert_allclose(mx.Bregman(mx.Tsallis(2.0), P0).value(p), half, atol=1e-15)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 2.7])
def test_from_a_uniform_default_the_csiszar_divergence_is_a_multiple(alpha):
    rng, n = np.random.default_rng(2), 6
    p, theta = rng.dirichlet(np.ones(n), size=9), rng.normal(size=(9, n))
    uniform, factor = np.full(n, 1 / n), n ** (alpha - 1)
    relative = mx.Relative(mx.Tsallis(alpha), uniform)
    bregman = mx.Scaled(mx.Bregman(mx.Tsallis(alpha), uniform), factor)
    np.testing.assert_allclose(relative.value(p), bregman.value(p), atol=1e-12)
    np.testing.assert_allclose(relative.conjugate(theta)[1], bregman.conjugate(theta)[1], atol=1e-9)
    skew = P0 @ np.eye(5, n) + 0.01
    one, two = mx.Relative(mx.Tsallis(alpha), skew), mx.Bregman(mx.Tsallis(alpha), skew)
    ratio = one.value(p) / two.value(p)
    assert ratio.max() > 1.2 * ratio.min()  # from another one it is not


def test_structural_problem_is_that_of_another_program():
    """(2) with half the squared distance from p0 in place of the relative entropy."""
    cp = needs("cvxpy")
    rng = np.random.default_rng(3)
    n = 30
    features = rng.uniform(size=(n, 6))
    p0 = rng.dirichlet(np.ones(n))
    observed = rng.multinomial(40, np.full(n, 1 / n)) / 40
    beta = np.repeat([0.02, 0.05], 3)  # two families
    box = mx.Box(beta)
    fit = mx.Problem(mx.Bregman(mx.Tsallis(2.0), p0), features, box, observed=observed).solve(
        tol=1e-10
    )
    p = cp.Variable(n, nonneg=True)
    near = [cp.sum(p) == 1, cp.abs(features.T @ (p - observed)) <= beta]
    program = cp.Problem(cp.Minimize(cp.sum_squares(p - p0) / 2), near)
    program.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(fit.p, p.value, atol=1e-6)
    assert fit.gap <= 1e-10
    other = mx.Problem(mx.Relative(mx.Tsallis(2.0), p0), features, box, observed=observed).solve()
    assert np.abs(other.p - fit.p).max() > 1e-3


@pytest.mark.parametrize(
    ("entropy", "p0", "error", "message"),
    [
        (mx.Zero(), P0, TypeError, "with a link_power"),
        (mx.Shannon(domain=mx.Cube()), P0, TypeError, "entropy of the simplex"),
        (mx.Tsallis(2.0), [0.5, 0.5, 0.0], ValueError, "positive masses"),
        (mx.Tsallis(2.0), [[0.5, 0.5]], ValueError, "positive masses"),
        (mx.Tsallis(2.0), [0.5, np.nan], ValueError, "positive masses"),
    ],
)
def test_what_is_not_possible_is_refused(entropy, p0, error, message):
    with pytest.raises(error, match=message):
        mx.Bregman(entropy, p0)


def test_saved_and_loaded(tmp_path):
    mx.save(mx.Bregman(mx.Tsallis(1.5), P0), tmp_path / "bregman.json")
    again = mx.load(tmp_path / "bregman.json")
    assert again.value([0.2] * 5) == mx.Bregman(mx.Tsallis(1.5), P0).value([0.2] * 5)
