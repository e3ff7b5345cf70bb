"""Entropies, divergences and max-marginals of domains with sums, beside all structures listed."""

import numpy as np
import pytest
from scipy.special import log_softmax

import maxent as mx

DOMAINS = {
    "simplex": (mx.Simplex(), 4),
    "cube": (mx.Cube(), 3),
    "subset": (mx.KSubset(2), 4),
    "chain": (mx.Chain(2), 14),
    "tree": (mx.Tree([(0, 1), (2, 1)], (2, 3, 2)), 19),
    "alignment": (mx.Alignment(2, 3), 6),
    "arborescence": (mx.Arborescence(), 9),
    "segments": (mx.SemiMarkov(2, 2), 20),
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("name", sorted(DOMAINS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_they_are_those_of_all_structures(name, dtype) -> None:
    domain, size = DOMAINS[name]
    theta, other = normal(2, size).astype(dtype), normal(2, size, seed=1).astype(dtype)
    v = np.asarray(domain.vertices(size), np.float64)
    for i in range(2):
        scores = v @ theta[i]
        p, q = log_softmax(scores), log_softmax(v @ other[i])
        near = {"rel": 1e-6, "abs": 1e-6} if dtype == np.float32 else {"rel": 1e-9, "abs": 1e-9}
        assert domain.entropy(theta)[i] == pytest.approx(-np.exp(p) @ p, **near)
        assert domain.kl(theta[i], other[i]) == pytest.approx(np.exp(p) @ (p - q), **near)
        assert domain.cross_entropy(theta, other)[i] == pytest.approx(-np.exp(p) @ q, **near)
        right = np.where(v > 0, scores[:, None], -np.inf).max(0)
        found = mx.max_marginals(domain, theta)
        assert found.dtype == dtype
        np.testing.assert_allclose(found[i], right, rtol=1e-5, atol=1e-5)


def test_rows_of_many_lengths_and_tied_ones() -> None:
    chain, rng = mx.Chain(2), np.random.default_rng(0)
    nodes = [rng.normal(size=(n, 2)) for n in (3, 1)]
    tied = chain.scores(nodes, rng.normal(size=(2, 2)))
    others = chain.scores([2 * x for x in nodes], rng.normal(size=(2, 2)))
    rows, second = chain.untie(tied), chain.untie(others)
    for i, (row, other) in enumerate(zip(rows.rows(), second.rows(), strict=True)):
        for batch, against in ((rows, second), (tied, others)):
            assert chain.entropy(batch)[i] == pytest.approx(float(chain.entropy(row)))
            assert chain.kl(batch, against)[i] == pytest.approx(float(chain.kl(row, other)))
        np.testing.assert_allclose(
            mx.max_marginals(chain, rows).rows()[i], mx.max_marginals(chain, row)
        )
    with pytest.raises(ValueError, match="untie"):
        mx.max_marginals(chain, tied)
    with pytest.raises(ValueError, match="as many rows of the same sizes"):
        chain.kl(rows, rows.rows()[0][None])


def test_forbidden_structures() -> None:
    chain, theta, free = mx.Chain(2), normal(8), normal(8, seed=1)
    theta[0] = -np.inf
    assert chain.kl(free, theta) == chain.cross_entropy(free, theta) == np.inf
    assert np.isfinite(chain.kl(theta, free))
    assert np.exp(chain.entropy(np.where(np.isinf(theta), theta, 0.0))) == pytest.approx(2)
    assert (mx.max_marginals(chain, theta) == -np.inf).tolist() == [
        True,
        *[False] * 3,
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(TypeError, match="not zeros and ones"):
        mx.max_marginals(mx.Permutahedron([2.0, 1.0]), [0.0, 1.0])
