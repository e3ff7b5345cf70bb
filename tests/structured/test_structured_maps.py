"""Frank-Wolfe, smoothed dynamic programmes and sparse distributions over structures."""

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent.core.domains.kl_by_argmax import project_kl_row
from maxent.structured import frank_wolfe, sparse_distribution
from maxent.testing import check_entropy
from tools import needs

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


@pytest.mark.parametrize(("domain", "size"), STRUCTURES, ids=str)
def test_fully_corrective_steps_leave_nothing_within_the_hull(domain, size):
    """After any number of vertices p is the projection onto the hull of those it has."""
    theta = 0.2 * np.random.default_rng(3).normal(size=size)  # so small that many vertices mix
    calls = {v: frank_wolfe(domain, theta, variant=v).n_iter for v in ("pairwise", "corrective")}
    assert calls["corrective"] < calls["pairwise"]
    for max_iter in (2, 3, 4):
        found = frank_wolfe(domain, theta, variant="corrective", tol=1e-12, max_iter=max_iter)
        scores = found.vertices @ (theta - found.p)
        assert len(scores) > 1
        assert scores.max() - found.weights @ scores <= 1e-12


@pytest.mark.parametrize(
    ("domain", "size"),
    [
        (mx.Chain(2), 14),
        (mx.Tree([(0, 1), (0, 2)], (2, 3, 2)), 17),
        (mx.Alignment(3, 3), 9),
        (mx.Arborescence(), 9),
        (mx.KSubset(2), 5),
    ],
    ids=str,
)
def test_the_entropy_of_the_mean_from_the_argmax_alone(domain, size):
    """§7.2, against mixtures of all vertices in a convex programme, and Newton's own optimum."""
    cp = needs("cvxpy")
    vertices = domain.vertices(size)
    theta = np.random.default_rng(4).normal(size=(2, size)) * np.array([[0.3], [2.0]])
    oracle = [project_kl_row(domain._argmax, row) for row in theta]
    for row, p in zip(theta, oracle, strict=True):
        w = cp.Variable(len(vertices), nonneg=True)
        mean = vertices.T @ w
        used = np.flatnonzero(vertices.any(axis=0))
        objective = row @ mean + cp.sum(cp.entr(mean[used]))
        best = cp.Problem(cp.Maximize(objective), [cp.sum(w) == 1]).solve(cp.CLARABEL)
        value = row @ p - np.sum(special.xlogy(p, p))
        assert value == pytest.approx(best, abs=1e-7)
        on = p > 0
        slope = np.where(on, row - np.log(np.where(on, p, 1)) - 1, 0)
        gap = np.max(vertices[~vertices[:, ~on].any(axis=1)] @ slope) - slope @ p
        assert gap <= 1e-8  # of Frank and Wolfe, over all vertices
    p = np.array(oracle)
    if isinstance(domain, mx.KSubset):  # which has a projection of its own
        np.testing.assert_allclose(p, domain.project_kl(theta), atol=1e-12)
    else:
        np.testing.assert_array_equal(mx.MeanEntropy(domain).conjugate(theta)[1], p)


@pytest.mark.slow
@pytest.mark.parametrize(
    "entropy",
    [
        mx.MeanEntropy(mx.Arborescence()),
        mx.DistributionEntropy(mx.Tsallis(1.5), mx.Chain(2)),
        mx.DistributionEntropy(mx.Tsallis(2.0), mx.Alignment(2, 2)),
    ],
    ids=repr,
)
def test_entropies_by_oracles_pass_the_checks(entropy):
    check_entropy(entropy, 8 if isinstance(entropy.domain, mx.Chain) else 4)


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


@pytest.mark.parametrize("band", [None, 1])
def test_the_k_best_alignments_by_enumeration(band):
    domain = mx.Alignment(3, 4, band)
    theta = np.random.default_rng(8).normal(size=(4, 12))
    vertices = domain.vertices(12)
    scores, batches = domain.kbest(theta, len(vertices) + 2)
    np.testing.assert_allclose(scores[:, :-2], -np.sort(-(theta @ vertices.T)), atol=1e-13)
    assert (scores[:, -2:] == -np.inf).all()
    assert not np.any(batches[-1])
    for rank in (0, 3, len(vertices) - 1):
        np.testing.assert_allclose(np.sum(batches[rank] * theta, axis=1), scores[:, rank])
    ragged = mx.Ragged.from_rows([theta[0], theta[1, :6]])
    both, _ = mx.Alignment((3, 2), (4, 3), band).kbest(ragged, 3)
    np.testing.assert_allclose(both[0], scores[0, :3])
    np.testing.assert_allclose(both[1], mx.Alignment(2, 3, band).kbest(theta[1, :6], 3)[0])
    with pytest.raises(ValueError, match="no alignment"):
        mx.Alignment(2, 2).kbest([1.0, 0.0, 0.0, -np.inf], 2)


@pytest.mark.parametrize(
    ("structure", "size"),
    [
        (mx.Chain(2), 14),
        (mx.Tree([(0, 1)], 3), 15),
        (mx.Alignment(3, 3), 9),
        (mx.Arborescence(), 9),
    ],
    ids=str,
)
def test_structured_sparsemax_by_enumeration(structure, size):
    """§7.1: the map, (25) as a programme over all distributions of a mean, and the derivative."""
    cp = needs("cvxpy")
    entropy, vertices = (
        mx.DistributionEntropy(mx.Tsallis(2.0), structure, k=2),
        structure.vertices(size),
    )
    theta = np.random.default_rng(5).normal(size=(3, size)) * 0.7
    value, p = entropy.conjugate(theta)
    exact, q = mx.Tsallis(2.0).conjugate(theta @ vertices.T)
    np.testing.assert_allclose(value, exact, atol=1e-13)
    np.testing.assert_allclose(p, q @ vertices, atol=1e-13)
    inner = 0.5 * p[:1] + 0.5 * p[1:2]
    w = cp.Variable(len(vertices), nonneg=True)
    least = cp.Problem(
        cp.Minimize((cp.sum_squares(w) - 1) / 2), [cp.sum(w) == 1, vertices.T @ w == inner[0]]
    ).solve(cp.CLARABEL)
    assert float(entropy.value(inner)[0]) == pytest.approx(least, abs=1e-7)
    assert float(entropy.value(vertices[0])) == 0.0
    v = np.random.default_rng(6).normal(size=theta.shape)
    along = mx.Tsallis(2.0).hvp(theta @ vertices.T, q, v @ vertices.T)
    jacobian = along @ vertices
    np.testing.assert_allclose(entropy.hvp(theta, p, v), jacobian, atol=1e-12)


def test_the_hessian_is_a_covariance_for_shannon_alone():
    """§7.1: cov(Y) under p* is the derivative of the mean, but not for structured sparsemax."""
    chain = mx.Chain(2)
    vertices, rng = chain.vertices(14), np.random.default_rng(11)
    theta, v = 0.5 * rng.normal(size=(3, 14)), rng.normal(size=(3, 14))
    sparse = mx.DistributionEntropy(mx.Tsallis(2.0), chain, k=2)
    for outer, inner, same in (
        (mx.Shannon(domain=chain), mx.Shannon(), True),
        (sparse, mx.Tsallis(2.0), False),
    ):
        q = inner.conjugate(theta @ vertices.T)[1]
        along = v @ vertices.T
        covariance = (q * (along - np.sum(q * along, axis=1, keepdims=True))) @ vertices
        found = outer.hvp(theta, outer.conjugate(theta)[1], v)
        assert np.allclose(found, covariance, atol=1e-10) == same
        assert same or np.abs(found - covariance).max() > 0.1


def test_structured_sparsemax_learns():
    """Estimators reach their optimum, and the loss is that of all enumerated paths."""
    rng = np.random.default_rng(9)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    entropy = mx.DistributionEntropy(mx.Tsallis(2.0), mx.Chain(2))
    model = mx.ChainClassifier(entropy, 0.1, tol=1e-7).fit(X, y)
    assert model.gap_ <= 1e-7
    loss = mx.FenchelYoungLoss(entropy)
    chain, vertices, scores = mx.Chain(2), mx.Chain(2).vertices(14), rng.normal(size=(5, 14))
    target = vertices[rng.integers(len(vertices), size=5)]
    sparsemax = mx.Tsallis(2.0).conjugate(scores @ vertices.T)[0]
    expected = sparsemax - np.sum(scores * target, axis=1)
    np.testing.assert_allclose(loss.value(scores, target), expected, atol=1e-12)
    assert chain.contains(loss.predict(scores)).all()


def test_structured_sparsemax_aligns():
    rng = np.random.default_rng(10)
    pairs, paths = [], []
    for n in (4, 5, 4, 6):
        x = np.cumsum(rng.uniform(0.5, 1.5, size=n))
        pairs.append((x, np.repeat(x, 1) + 0.05 * rng.normal(size=n)))
        paths.append([(i, i) for i in range(n)])
    model = mx.Aligner("squared", mx.Tsallis(2.0), 0.1).fit(pairs, paths)
    assert model.gap_ <= 1e-6
    assert model.score(pairs, paths) == 1.0
    marginals = model.predict_marginals(pairs)
    assert sum(int((p == 0).sum()) for p in marginals) > 0  # most cells, exactly
