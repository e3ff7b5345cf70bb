"""Frank-Wolfe, smoothed dynamic programmes and sparse distributions over structures."""

import numpy as np
import pytest

import maxent as mx
from maxent.structured import frank_wolfe, sparse_distribution

STRUCTURES = [
    (mx.Chain(3), 27),
    (mx.Tree([(0, 1), (0, 2)], (2, 3, 2)), 17),
    (mx.Alignment(3, 4), 12),
]


@pytest.mark.parametrize("variant", ["plain", "away", "pairwise", "corrective"])
@pytest.mark.parametrize(("domain", "size"), STRUCTURES, ids=str)
def test_every_variant_projects(domain, size, variant):
    theta = np.random.default_rng(0).normal(size=size)
    tol = 1e-4 if variant == "plain" else 1e-9
    result = frank_wolfe(domain, theta, variant=variant, tol=tol, max_iter=20_000)
    assert result.converged
    assert result.gap <= tol
    best = 0.5 * np.sum((domain.project(theta) - theta) ** 2)
    assert -1e-12 <= result.value - best <= result.gap + 1e-12
    np.testing.assert_allclose(result.weights @ result.vertices, result.p, atol=1e-12)
    assert result.weights.sum() == pytest.approx(1)
    assert len(result.history) == result.n_iter


@pytest.mark.parametrize("variant", ["away", "pairwise", "corrective"])
def test_any_smooth_objective(variant):
    rng = np.random.default_rng(1)
    A, b = rng.normal(size=(8, 5)), rng.normal(size=8)

    def objective(p):
        residual = A @ p - b
        return float(np.sum(np.log(np.cosh(residual)))), A.T @ np.tanh(residual)

    result = frank_wolfe(mx.KSubset(2), objective, size=5, variant=variant, tol=1e-8)
    assert result.converged
    again = frank_wolfe(mx.KSubset(2), objective, start=[0, 0, 1, 0, 1], tol=1e-8)
    assert again.value == pytest.approx(result.value, abs=2e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((mx.Simplex(), [0.0, 1.0], None, {"variant": "fast"}), "variant is one of"),
        ((mx.NonNegative(), [0.0, 1.0], None, {}), "not bounded"),
        ((mx.Simplex(), np.zeros((2, 2)), None, {}), "one row at a time"),
        ((mx.Simplex(), lambda p: (0.0, p), None, {}), "give the size"),
        ((mx.Simplex(), [0.0, 1.0], [0.3, 0.3], {}), "row 0 of the start"),
    ],
)
def test_frank_wolfe_refuses(arguments, message):
    domain, objective, start, more = arguments
    with pytest.raises(ValueError, match=message):
        frank_wolfe(domain, objective, start, **more)


@pytest.mark.parametrize(("domain", "size"), STRUCTURES, ids=str)
def test_shannon_smoothing_is_the_log_partition(domain, size):
    theta = 3 * np.random.default_rng(2).normal(size=(4, size))
    smoothed, exact = (
        entropy.conjugate(theta)
        for entropy in (mx.SmoothedMax(mx.Shannon(), domain), mx.Shannon(domain=domain))
    )
    np.testing.assert_allclose(smoothed[0], exact[0], atol=1e-12)
    np.testing.assert_allclose(smoothed[1], exact[1], atol=1e-12)


@pytest.mark.parametrize(("domain", "size"), STRUCTURES, ids=str)
def test_sparse_smoothing_is_inside_and_between(domain, size):
    theta = 2 * np.random.default_rng(3).normal(size=(6, size))
    value, p = mx.SmoothedMax(mx.Tsallis(2.0), domain).conjugate(theta)
    best = np.sum(domain.argmax(theta) * theta, axis=1)
    assert domain.contains(p).all()
    assert (value >= best - 1e-12).all()
    assert (p == 0).sum() > (domain.softmax(theta)[1] == 0).sum()


def test_smoothing_respects_forbidden_scores_and_bands():
    theta = np.zeros(9)
    theta[4] = -np.inf
    for domain in (mx.Alignment(3, 3), mx.Alignment(3, 3, band=1)):
        value, p = mx.SmoothedMax(mx.Shannon(), domain).conjugate(theta)
        assert value == pytest.approx(domain.softmax(theta)[0])
        np.testing.assert_allclose(p, domain.softmax(theta)[1], atol=1e-12)
    chain = mx.Chain(2, forbidden=((0, 1),))
    value, _ = mx.SmoothedMax(mx.Shannon(), chain).conjugate(np.zeros(14))
    assert value == pytest.approx(np.log(4))  # 000, 100, 110, 111
    with pytest.raises(ValueError, match="no structure"):
        mx.SmoothedMax(mx.Shannon(), mx.Alignment(2, 2)).conjugate([0.0, 0, 0, -np.inf])
    with pytest.raises(TypeError, match="knows the recursions"):
        mx.SmoothedMax(mx.Shannon(), mx.Cube())


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_sparse_distributions_by_enumeration(alpha):
    chain = mx.Chain(3)
    theta = np.random.default_rng(0).normal(size=(5, chain.size(4)))
    found = sparse_distribution(chain, theta, mx.Tsallis(alpha), k=2)
    vertices = chain.vertices(theta.shape[1])
    value, q = mx.Tsallis(alpha).conjugate(theta @ vertices.T)
    assert found.exact.all()
    np.testing.assert_allclose(found.value, value, atol=1e-12)
    np.testing.assert_allclose(found.mean, q @ vertices, atol=1e-12)
    assert (np.sum(found.probabilities > 0, axis=1) == np.sum(q > 0, axis=1)).all()


def test_a_distribution_that_is_cut_off_says_so():
    chain = mx.Chain(2)
    found = sparse_distribution(chain, np.zeros((1, chain.size(5))), mx.Tsallis(2.0), k=2, max_k=4)
    assert not found.exact.any()
