"""The CRF loss, SparseMAP and the structured hinge fall out of the generic classes."""

import itertools

import numpy as np
import pytest
from scipy import special

import maxent as mx

K = 3


@pytest.fixture(scope="module")
def tagging():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 4)) for n in (1, 2, 4, 6, 3, 5, 4, 2)]
    W = 2 * rng.normal(size=(4, K))
    labels = [np.argmax(x @ W + 0.5 * rng.gumbel(size=(len(x), K)), axis=1) for x in sequences]
    chain = mx.Chain(K)
    observed = chain.encode(labels)
    cost = np.concatenate(
        [
            np.concatenate([1 - row[: len(y) * K], np.zeros(row.size - len(y) * K)])
            for row, y in zip(observed.rows(), labels, strict=True)
        ]
    )
    return sequences, labels, observed, mx.Ragged(cost, observed.offsets)


def _scores_of_paths(theta, length):
    """Score of every path of one sequence, by brute force."""
    unary = theta[: length * K].reshape(length, K)
    transition = theta[length * K :].reshape(length - 1, K, K)
    paths = list(itertools.product(range(K), repeat=length))
    scores = [
        sum(unary[t, s] for t, s in enumerate(path))
        + sum(transition[t, path[t], path[t + 1]] for t in range(length - 1))
        for path in paths
    ]
    return np.array(paths), np.array(scores)


def _loss(kind, theta, y, length, cost_row):
    paths, scores = _scores_of_paths(theta, length)
    right = int(np.flatnonzero((paths == y).all(axis=1))[0])
    if kind == "crf":
        return special.logsumexp(scores) - scores[right]
    hamming = (paths != y).sum(axis=1)
    return np.max(scores + hamming) - scores[right]


@pytest.mark.parametrize("kind", ["crf", "hinge"])
def test_losses_against_enumeration(kind, tagging):
    sequences, labels, observed, cost = tagging
    chain = mx.Chain(K)
    entropy = mx.Shannon(domain=chain) if kind == "crf" else mx.Shifted(mx.Zero(domain=chain), cost)
    w = np.random.default_rng(1).normal(size=4 * K + K * K)
    scores = mx.ChainMap(sequences, K, tied=False).scores(w)
    values = mx.FenchelYoungLoss(entropy).value(scores, observed)
    tied = mx.ChainMap(sequences, K).scores(w)
    np.testing.assert_allclose(mx.FenchelYoungLoss(entropy).value(tied, observed), values, 1e-12)
    expected = [
        _loss(kind, row, y, len(y), c)
        for row, y, c in zip(scores.rows(), labels, cost.rows(), strict=True)
    ]
    np.testing.assert_allclose(values, expected, atol=1e-10)


def test_sparsemap_loss_is_the_distance_to_the_polytope(tagging):
    sequences, _, observed, _ = tagging
    entropy = mx.SquaredNorm(domain=mx.Chain(K))
    w = np.random.default_rng(1).normal(size=4 * K + K * K)
    scores = mx.ChainMap(sequences, K, tied=False).scores(w)
    p = mx.FenchelYoungLoss(entropy).predict(scores)
    values = mx.FenchelYoungLoss(entropy).value(scores, observed)
    # Table 1: 1/2 ||y - theta||^2 - 1/2 ||p - theta||^2
    for value, theta, y, point in zip(
        values, scores.rows(), observed.rows(), p.rows(), strict=True
    ):
        expected = 0.5 * np.sum((y - theta) ** 2) - 0.5 * np.sum((point - theta) ** 2)
        assert value == pytest.approx(expected, abs=1e-9)
    used = [np.sum(row > 1e-9) for row in p.rows()]
    assert max(used) < max(row.size for row in p.rows())  # sparse


POTENTIALS = [mx.Quadratic(0.05), mx.Box(0.02), mx.ElasticNet(0.01, 0.05), mx.LaplacePrior(0.1)]


@pytest.mark.slow
@pytest.mark.parametrize("potential", POTENTIALS, ids=repr)
@pytest.mark.parametrize("kind", ["crf", "sparsemap"])
def test_smooth_chain_models_solve_to_a_certified_gap(kind, potential, tagging):
    sequences, _, observed, _ = tagging
    chain = mx.Chain(K)
    entropy = mx.Shannon(domain=chain) if kind == "crf" else mx.SquaredNorm(domain=chain)
    chains = mx.ChainMap(sequences, K, tied=kind == "crf")
    problem = mx.Problem(entropy, chains, potential, observed=observed)
    solution = problem.solve()
    assert solution.status is mx.Status.CONVERGED
    assert solution.gap <= 1e-8
    other = mx.FISTA(tol=1e-8).solve(problem, w0=np.full(problem.features.n_features, 0.1))
    assert abs(other.objective - solution.objective) <= 2e-8


@pytest.mark.parametrize("potential", [mx.Quadratic(0.05), mx.Box(0.02)], ids=repr)
def test_max_margin_chains_solve_to_a_certified_gap(potential, tagging):
    sequences, labels, observed, cost = tagging
    chain = mx.Chain(K)
    problem = mx.Problem(
        mx.Shifted(mx.Zero(domain=chain), cost),
        mx.ChainMap(sequences, K),
        potential,
        observed=observed,
    )
    solution = problem.solve()
    assert solution.status is mx.Status.CONVERGED
    assert solution.gap <= 1e-8
    # the trained model tags better than chance
    predicted = chain.decode(chain.argmax(problem.features.scores(solution.w)))
    right = np.mean(np.concatenate(predicted) == np.concatenate(labels))
    assert right > 0.6


def test_without_transitions_a_chain_is_independent_rows(tagging):
    sequences, labels, observed, _ = tagging
    X, y = np.concatenate(sequences), np.concatenate(labels)
    # a huge penalty keeps the transitions at 0; weights: each sequence counts once, 1/8
    potential = mx.Families([mx.Quadratic(0.1), mx.Box(1e3)], [4 * K, K * K])
    chain = mx.Problem(
        mx.Shannon(domain=mx.Chain(K)), mx.ChainMap(sequences, K), potential, observed=observed
    ).solve(mx.FISTA(tol=1e-10))
    rows = mx.Problem(
        mx.Shannon(),
        mx.SampleMap(X, K),
        mx.Quadratic(0.1),
        weights=np.full(len(y), 1 / 8),
        observed=np.eye(K)[y],
    ).solve(mx.ProxNewton(tol=1e-12))
    assert not chain.w[4 * K :].any()
    np.testing.assert_allclose(chain.w[: 4 * K], rows.w, atol=1e-4)


def test_ragged_sequences_that_do_not_fit_are_refused(tagging):
    sequences, _, observed, _ = tagging
    with pytest.raises(ValueError, match="shape of the scores"):
        mx.Problem(
            mx.Shannon(domain=mx.Chain(K)),
            mx.ChainMap(sequences[:-1], K),
            mx.Quadratic(1.0),
            observed=observed,
        )
    with pytest.raises(ValueError, match="different numbers of features"):
        mx.ChainMap([np.ones((2, 3)), np.ones((2, 4))], 2)
    with pytest.raises(ValueError, match="at least one sequence"):
        mx.ChainMap([], 2)
