"""Entropies, divergences, best structures and draws in torch, beside all structures listed."""

import numpy as np
import pytest

import maxent as mx
from tools import needs

torch = needs("torch")

import maxent.torch.structured as ms  # noqa: E402

INF = float("inf")
# domains with a size of rows
SUMS = {
    "simplex": (mx.Simplex(), 4),
    "subset": (mx.KSubset(2), 4),
    "chain": (mx.Chain(2), 14),
    "tree": (mx.Tree([(0, 1), (2, 1)], (2, 3, 2)), 19),
    "segments": (mx.SemiMarkov(2, 2), 20),
    "lattice": (mx.Lattice([(0, 1), (0, 2), (1, 2), (2, 3), (1, 3), (0, 1), (0, 3)]), 7),
    "automaton": (mx.Automaton(2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=(0, 1)), 6),
    "alignment": (mx.Alignment(2, 3), 6),
    "arborescence": (mx.Arborescence(), 16),
    "projective": (mx.ProjectiveTree(root="multi"), 16),
    "constituency": (mx.ConstituencyTree(), 16),
}
BEST = SUMS | {  # vertices are listed where no log-partition is known, too
    "permutahedron": (mx.Permutahedron([3.0, 2.0, 2.0, 0.5]), 4),
    "birkhoff": (mx.Birkhoff(), 9),
}
LISTED = set(BEST) - {"simplex"}
DRAWN = set(SUMS) - {"simplex"}
DECIDED = set(SUMS)
over_sums = pytest.mark.parametrize("name", sorted(SUMS))


def normal(*shape, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, dtype=torch.float64, generator=generator)


def listed(domain, theta):
    """All structures of a row, their scores and their log-probabilities."""
    v = torch.as_tensor(np.asarray(domain.vertices(theta.shape[-1])), dtype=torch.float64)
    scores = torch.where(v > 0, theta * v, 0.0).sum(1)
    return v, scores, scores.log_softmax(0)


@over_sums
def test_entropies_and_divergences_are_those_of_all_structures(name) -> None:
    domain, size = SUMS[name]
    theta, other = normal(3, size, scale=2.0), normal(3, size, seed=1)
    found = ms.entropy(domain, theta), ms.cross_entropy(domain, theta, other)
    divergence = ms.kl(domain, theta, other)
    for i in range(3):
        p, q = listed(domain, theta[i])[2], listed(domain, other[i])[2]
        assert found[0][i] == pytest.approx(-float(p.exp() @ p), abs=1e-10)
        assert found[1][i] == pytest.approx(-float(p.exp() @ q), abs=1e-10)
        assert divergence[i] == pytest.approx(float(p.exp() @ (p - q)), abs=1e-10)
    torch.testing.assert_close(ms.kl(domain, theta, theta), torch.zeros(3, dtype=torch.float64))


@over_sums
def test_their_gradients_are_their_differences(name) -> None:
    domain, size = SUMS[name]
    rows = normal(1, size).requires_grad_(), normal(1, size, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: ms.cross_entropy(domain, x, y), rows)
    assert torch.autograd.gradcheck(lambda x, y: ms.kl(domain, x, y), rows)
    assert torch.autograd.gradcheck(lambda x: ms.entropy(domain, x), rows[:1])


def test_what_is_forbidden_has_no_part_in_entropies_and_gradients() -> None:
    domain, theta = mx.Chain(2), normal(14)
    theta[0] = -INF
    theta.requires_grad_()
    ms.entropy(domain, theta).backward()
    assert theta.grad.isfinite().all()
    assert theta.grad[0] == 0
    p = listed(domain, theta.detach())[2].exp()
    assert ms.entropy(domain, theta).item() == pytest.approx(float(-(torch.xlogy(p, p)).sum()))
    # the others forbid what the first allow, and the other way around
    free = normal(14, seed=1)
    assert ms.kl(domain, free, theta).item() == INF
    assert ms.cross_entropy(domain, free, theta).item() == INF
    assert ms.kl(domain, theta, free).isfinite()


def test_forbidden_spans_leave_the_gradient_of_an_entropy_finite() -> None:
    scores = normal(4, 4)
    scores[0, 2] = -INF
    scores.requires_grad_()
    ms.ProjectiveScores(scores).entropy().backward()
    assert scores.grad.isfinite().all()


@over_sums
def test_max_marginals_are_those_of_all_structures(name) -> None:
    domain, size = SUMS[name]
    theta = normal(2, size).requires_grad_()
    found = ms.max_marginals(domain, theta)
    for i in range(2):
        v, scores, _ = listed(domain, theta[i].detach())
        right = torch.where(v > 0, scores[:, None], -INF).amax(0)
        torch.testing.assert_close(found[i].detach(), right)
    some = int(right.isfinite().nonzero()[0])
    (slope,) = torch.autograd.grad(found[1, some], theta)
    best = v[torch.where(v[:, some] > 0, scores, -INF).argmax()]
    torch.testing.assert_close(slope, torch.stack([torch.zeros_like(best), best]))


@pytest.mark.parametrize("name", sorted(LISTED))
def test_best_structures_are_those_of_the_list(name) -> None:
    domain, size = BEST[name]
    theta = normal(size)
    v, scores, _ = listed(domain, theta)
    values, best = ms.kbest(domain, theta, len(v) + 1)
    torch.testing.assert_close(values[:-1], scores.sort(descending=True).values)
    torch.testing.assert_close(best[:-1], v[scores.argsort(descending=True)])
    assert values[-1] == -INF
    assert not best[-1].any()


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_draws_follow_the_marginals_and_the_generator(name) -> None:
    domain, size = SUMS[name]
    theta = normal(2, size)
    drawn = [ms.sample(domain, theta, 2000, torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*drawn)
    assert drawn[0].shape == (2000, 2, size)
    assert (drawn[0].mean(0) - ms.marginals(domain, theta)).abs().max() < 6 * 0.5 / 2000**0.5


@pytest.mark.parametrize("name", sorted(DECIDED))
def test_draws_without_replacement_take_every_structure_once(name) -> None:
    domain, size = SUMS[name]
    theta = normal(size, scale=30.0)  # most have a probability that no draw would find
    before = theta.clone()
    v = listed(domain, theta)[0]
    drawn = ms.sample_without_replacement(domain, theta, len(v) + 1)
    assert torch.equal(theta, before)
    assert sorted(drawn[:-1].tolist()) == sorted(v.tolist())
    assert not drawn[-1].any()


PAIRS = {
    "chain": (mx.Chain(2), 8),
    "subset": (mx.KSubset(2), 4),
    "alignment": (mx.Alignment(2, 3), 6),
    "projective": (mx.ProjectiveTree(), 9),
    "labels": (mx.ConstituencyTree(2), 8),  # 8 labellings of one tree over two words
    "constituency": (mx.ConstituencyTree(), 16),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_pairs_without_replacement_have_their_probabilities(name) -> None:
    domain, size = PAIRS[name]
    theta = normal(size)
    v, _, log_p = listed(domain, theta)
    p, rows = log_p.exp(), theta.expand(600, size)
    drawn = ms.sample_without_replacement(domain, rows, 2, torch.Generator().manual_seed(0))
    which = (drawn @ v.T - v.sum(1) / 2).argmax(-1)  # the nearest
    counts = torch.zeros(len(v), len(v), dtype=torch.float64).index_put_(
        tuple(which), torch.ones(600, dtype=torch.float64), accumulate=True
    )
    right = p[:, None] * p / (1 - p[:, None])
    right.fill_diagonal_(0)
    noise = 6 * (right / 600).sqrt() + 4 / 600 * (right > 0)
    assert ((counts / 600 - right).abs() <= noise).all()


def test_alignments_of_several_sizes_without_replacement() -> None:
    domain, rows = mx.Alignment((2, 3), (3, 2)), normal(2, 6)
    drawn = ms.sample_without_replacement(domain, rows, 6)
    for i, alone in enumerate((mx.Alignment(2, 3), mx.Alignment(3, 2))):
        assert sorted(drawn[:5, i].tolist()) == sorted(alone.vertices(6).tolist())
    assert not drawn[5].any()
    with pytest.raises(ValueError, match="no alignment"):
        ms.sample_without_replacement(mx.Alignment(2, 2), torch.tensor([0.0, 0.0, 0.0, -INF]))


def test_chains_with_lengths_have_the_numbers_of_each_alone() -> None:
    lengths = torch.tensor([3, 1])
    shapes = (2, 3, 2), (2, 2), (2,), (2,)
    first, second = ([normal(*s, seed=i + j) for i, s in enumerate(shapes)] for j in (0, 9))
    first[0][1, 1:] = second[0][1, 1:] = torch.nan  # behind the end
    p, q = (ms.ChainScores(x[0], x[1], lengths, *x[2:]) for x in (first, second))
    for i, n in enumerate(lengths.tolist()):
        domain = mx.Chain(2)
        rows = []
        for nodes, steps, start, end in (first, second):
            own = nodes[i, :n].clone()
            own[0] += start
            own[-1] += end
            rows.append(torch.cat([own.ravel(), steps.ravel().repeat(n - 1)]))
        torch.testing.assert_close(p.entropy()[i], ms.entropy(domain, rows[0]))
        torch.testing.assert_close(p.kl(q)[i], ms.kl(domain, *rows))
        torch.testing.assert_close(p.cross_entropy(q)[i], ms.cross_entropy(domain, *rows))
        best = ms.max_marginals(domain, rows[0])[: 2 * n].reshape(n, 2)
        torch.testing.assert_close(p.max_marginals()[i, :n], best)
    assert (p.max_marginals()[1, 1:] == -INF).all()

    def all_three(nodes, steps):
        mine = ms.ChainScores(nodes, steps, lengths)
        return mine.entropy(), mine.kl(q), q.kl(mine), mine.max_marginals()[0]

    assert torch.autograd.gradcheck(
        all_three, (normal(2, 3, 2).requires_grad_(), normal(2, 2).requires_grad_())
    )


def test_what_cannot_be_asked_is_refused() -> None:
    theta, chain = torch.zeros(8), mx.Chain(2)
    with pytest.raises(TypeError, match="no list of its best"):
        ms.kbest(mx.Transport([1.0, 1.0], [0.5] * 4), theta, 2)
    with pytest.raises(TypeError, match="no draws"):
        ms.sample(mx.Permutahedron(range(8, 0, -1)), theta)
    with pytest.raises(TypeError, match="not zeros and ones"):
        ms.max_marginals(mx.Permutahedron(range(8, 0, -1)), theta)
    with pytest.raises(TypeError, match="do not fall apart into decisions"):
        ms.sample_without_replacement(mx.Permutahedron(range(8, 0, -1)), theta)
    with pytest.raises(TypeError, match="intractable"):
        ms.entropy(mx.Birkhoff(), torch.zeros(9))
    for ask in (ms.sample, ms.sample_without_replacement, ms.kbest):
        with pytest.raises(ValueError, match=r"needs an integer . >= 1, got 0"):
            ask(chain, theta, 0)
    with pytest.raises(ValueError, match=r"one shape, got \(8,\) and \(2, 8\)"):
        ms.kl(chain, theta, torch.zeros(2, 8))
    mine = ms.ChainScores(torch.zeros(1, 3, 2), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="nodes of one shape"):
        mine.kl(ms.ChainScores(torch.zeros(1, 2, 2), torch.zeros(2, 2)))
    with pytest.raises(ValueError, match=r"the same lengths, got \[3\] and \[2\]"):
        mine.kl(ms.ChainScores(torch.zeros(1, 3, 2), torch.zeros(2, 2), torch.tensor([2])))
    with pytest.raises(TypeError, match="ChainScores as well"):
        mine.kl(theta)


@pytest.mark.parametrize("draw", [ms.sample, ms.sample_without_replacement])
@pytest.mark.filterwarnings("ignore")  # of the compiler's own modules
def test_draws_within_a_compiled_function(draw) -> None:
    domain, theta = mx.Chain(2), normal(2, 8)
    drawn = torch.compile(lambda x: draw(domain, x, 3), fullgraph=True, backend="aot_eager")(theta)
    assert domain.contains(drawn.flatten(0, 1).numpy()).all()
