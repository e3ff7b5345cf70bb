"""Distributions over the structures of any domain: entropies, divergences, best ones and draws.

All are of `p(v) = exp<theta, v> / Z` for scores theta (..., size) of a domain. The domain's own
programmes run on the CPU, which CUDA tensors make the way to and back. Entropies and divergences
are differentiable; what lists structures is not: score them with `(structures * theta).sum(-1)`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import torch
from maxent.core.domains import Domain, KBestDomain, StructuredDomain, SumProductDomain
from maxent.structured.distinct import check_distinct, draw_distinct
from maxent.structured.max_marginals import (
    best_with_each,
    check_zeros_and_ones,
    structures_with_each,
)
from maxent.torch._operators import Operation, eager
from maxent.torch.structured._divergences import cross_entropy_of, kl_of
from maxent.torch.structured._domains import domain_argument, domain_of
from maxent.torch.structured._lengths import check_generator
from maxent.torch.structured.oracles import arrays, as_rows, beside, sums_of
from torch import Tensor


def entropy(domain: SumProductDomain, theta: Tensor) -> Tensor:
    """Shannon's entropy `-sum_v p(v) log p(v)` of the structures, (...); differentiable.

    Parameters
    ----------
    domain : Domain
        A domain with a log-partition.
    theta : tensor (..., size)
        Scores.

    Examples
    --------
    >>> import torch
    >>> from maxent import Tree
    >>> entropy(Tree([(0, 1), (0, 2)], 2), torch.zeros(14)).exp().round()
    tensor(8.)
    """
    return cross_entropy(domain, theta, theta)


def cross_entropy(domain: SumProductDomain, theta: Tensor, other: Tensor) -> Tensor:
    """`-sum_v p(v) log q(v)`, p of the scores and q of others, (...); differentiable in both.

    It is infinite where the others forbid what the scores allow.

    Parameters
    ----------
    domain : Domain
        A domain with a log-partition.
    theta : tensor (..., size)
        Scores.
    other : tensor (..., size)
        Scores of the second distribution.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> cross_entropy(KSubset(1), torch.tensor([0.0, 0.0]), torch.tensor([0.0, 1.0]))
    tensor(0.8133)
    """
    rows, others = _both(domain, theta, other)
    value = cross_entropy_of(partial(_sums, domain), [rows], [others])
    return value.to(rows.dtype).reshape(theta.shape[:-1])


def kl(domain: SumProductDomain, theta: Tensor, other: Tensor) -> Tensor:
    """`KL(p || q) = sum_v p(v) log(p(v) / q(v))`, p of the scores, q of others, (...).

    Differentiable in both. It is infinite where the others forbid what the scores allow.

    Parameters
    ----------
    domain : Domain
        A domain with a log-partition.
    theta : tensor (..., size)
        Scores.
    other : tensor (..., size)
        Scores of the second distribution.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> kl(KSubset(1), torch.tensor([0.0, 0.0]), torch.tensor([0.0, 1.0]))
    tensor(0.1201)
    """
    rows, others = _both(domain, theta, other)
    value = kl_of(partial(_sums, domain), [rows], [others])
    return value.to(rows.dtype).reshape(theta.shape[:-1])


def kbest(domain: KBestDomain, theta: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores (..., k) of the k best structures, falling, and the structures (..., k, size).

    Where there are fewer, the rest score -inf and are zeros.

    Parameters
    ----------
    domain : Domain
        A domain with the k best structures.
    theta : tensor (..., size)
        Scores.
    k : int
        How many.

    Examples
    --------
    >>> import torch
    >>> from maxent import Tree
    >>> scores, best = kbest(Tree([(0, 1)], 2), torch.tensor([0.0, 1.0, 0.0, 3.0, 0, 0, 0, 0]), 2)
    >>> scores, best[0]
    (tensor([4., 3.]), tensor([0., 1., 0., 1., 0., 0., 0., 1.]))
    """
    rows = as_rows(theta, domain)
    if not hasattr(domain, "kbest"):
        raise TypeError(f"{domain} has no list of its best structures: argmax gives the best one")
    _check_count(k, "kbest", "k")
    scores, best = _KBest.apply(rows.detach(), k, domain_argument(domain, rows))
    shape = (*theta.shape[:-1], k)
    return scores.reshape(shape), best.reshape(*shape, theta.shape[-1])


def sample(
    domain: StructuredDomain, theta: Tensor, n: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """n independent structures (n, ..., size), each drawn with probability `exp<theta, v> / Z`.

    Parameters
    ----------
    domain : Domain
        A domain with draws.
    theta : tensor (..., size)
        Scores.
    n : int, default 1
        How many.
    generator : torch.Generator, default None
        Generator of the CPU; None is torch's own.

    Examples
    --------
    >>> import torch
    >>> from maxent import Arborescence
    >>> sample(Arborescence(), torch.zeros(9), n=4).sum(-1)  # two arcs each
    tensor([2., 2., 2., 2.])
    """
    rows = as_rows(theta, domain)
    if not hasattr(domain, "sample"):
        raise TypeError(f"{domain} has no draws")
    return _drawn(_Sample, domain, rows, theta, n, generator, "sample")


def sample_without_replacement(
    domain: StructuredDomain, theta: Tensor, n: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """n different structures (n, ..., size), one after the other by what is left of `p`.

    The v-th has probability `p(v) / (1 - p(those before it))`, exactly, however small that rest:
    what remains is kept as disjoint sets of structures (those that share the first decisions with a
    drawn one and differ in the next), whose masses are log-partitions. Where there are fewer
    structures, the rest are zeros.

    Parameters
    ----------
    domain : Domain
        ``Simplex``, ``KSubset``, ``Alignment``, ``Chain``, ``SemiMarkov``, ``Lattice``,
        ``Automaton``, ``Tree``, ``Arborescence``, ``ProjectiveTree`` or ``ConstituencyTree``.
    theta : tensor (..., size)
        Scores.
    n : int, default 1
        How many.
    generator : torch.Generator, default None
        Generator of the CPU; None is torch's own.

    Examples
    --------
    >>> import torch
    >>> from maxent import Arborescence
    >>> drawn = sample_without_replacement(Arborescence(), torch.zeros(9), n=3)
    >>> drawn.sum(-1), drawn.sum(0).reshape(3, 3)  # the two trees, and nothing
    (tensor([2., 2., 0.]), tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 1., 0.]]))
    """
    rows = as_rows(theta, domain)
    if eager(rows):  # compiled code is told of a domain that has none when it runs
        check_distinct(domain, theta.shape[-1])
    return _drawn(_Distinct, domain, rows, theta, n, generator, "sample_without_replacement")


def max_marginals(domain: Domain, theta: Tensor) -> Tensor:
    """The best score of a structure with each entry, `max {<theta, v> : v_i = 1}`, (..., size).

    It is -inf where no structure has the entry. The gradient of each is the best structure with it.
    One best structure is looked for per entry; ``chain_max_marginals`` takes two sweeps.

    Parameters
    ----------
    domain : Domain
        A domain with a log-partition, or ``Birkhoff``: its vertices are zeros and ones.
    theta : tensor (..., size)
        Scores.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> max_marginals(KSubset(2), torch.tensor([3.0, 1.0, 2.0]))
    tensor([5., 4., 5.])
    """
    rows = as_rows(theta, domain)
    check_zeros_and_ones(domain)
    best: Tensor = _MaxMarginals.apply(rows, domain_argument(domain, rows))
    return best.reshape(theta.shape)


def _sums(domain: SumProductDomain, rows: Tensor) -> tuple[Tensor, tuple[Tensor]]:
    value, mean = sums_of(domain, rows)
    return value, (mean,)


def _both(domain: SumProductDomain, theta: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    rows, others = as_rows(theta, domain), as_rows(other, domain)
    if theta.shape != other.shape:
        raise ValueError(
            f"both distributions have scores of one shape, got {tuple(theta.shape)} and "
            f"{tuple(other.shape)}"
        )
    return rows, others


def _check_count(n: int, name: str, symbol: str) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"{name} needs an integer {symbol} >= 1, got {n!r}")


def _drawn(
    draw: type[Operation],
    domain: Domain,
    rows: Tensor,
    theta: Tensor,
    n: int,
    generator: torch.Generator | None,
    name: str,
) -> Tensor:
    _check_count(n, name, "n")
    check_generator(generator)
    seeds = torch.randint(2**62, (rows.shape[0], 1), generator=generator)
    drawn: Tensor = draw.apply(rows.detach(), seeds, n, domain_argument(domain, rows))
    return drawn.movedim(1, 0).reshape(n, *theta.shape)


class _KBest(Operation, name="domain_kbest"):
    """Scores (B, k) and structures (B, k, size) of the best."""

    @staticmethod
    def run(theta: Tensor, k: int, domain: str) -> tuple[Tensor, Tensor]:
        scores, best = domain_of(domain).kbest(*arrays(theta), k)
        return beside(scores, theta), beside(np.stack(best, 1), theta)

    @staticmethod
    def fake(theta: Tensor, k: int, domain: str) -> tuple[Tensor, Tensor]:
        rows, size = theta.shape
        return theta.new_empty(rows, k), theta.new_empty(rows, k, size)


class _Sample(Operation, name="domain_sample"):
    """Draws (B, n, size)."""

    @staticmethod
    def run(theta: Tensor, seeds: Tensor, n: int, domain: str) -> Tensor:
        drawn = domain_of(domain).sample(*arrays(theta), n, seeds.flatten().tolist())
        return beside(np.stack(drawn, 1), theta)

    @staticmethod
    def fake(theta: Tensor, seeds: Tensor, n: int, domain: str) -> Tensor:
        return theta.new_empty(theta.shape[0], n, theta.shape[1])


class _Distinct(Operation, name="domain_sample_without_replacement"):
    """Different draws (B, n, size)."""

    @staticmethod
    def run(theta: Tensor, seeds: Tensor, n: int, domain: str) -> Tensor:
        found, out = domain_of(domain), np.zeros((theta.shape[0], n, theta.shape[1]))
        (scores,) = arrays(theta.double())
        for i, (row, seed) in enumerate(zip(out, seeds.tolist(), strict=True)):
            draw_distinct(found, scores[i], n, np.random.default_rng(seed), row, i)
        return beside(out, theta)

    @staticmethod
    def fake(theta: Tensor, seeds: Tensor, n: int, domain: str) -> Tensor:
        return theta.new_empty(theta.shape[0], n, theta.shape[1])


class _AlongBest(Operation, name="domain_max_marginals_vjp"):
    """Sums of the best structures with each entry, times v: linear in v."""

    @staticmethod
    def run(theta: Tensor, v: Tensor, domain: str) -> Tensor:
        out = np.zeros(theta.shape)
        for i, (scores, along) in enumerate(zip(*arrays(theta, v), strict=True)):
            for entries, best in structures_with_each(domain_of(domain), scores, i):
                out[i] += along[entries] @ best
        return beside(out, theta)

    @staticmethod
    def fake(theta: Tensor, v: Tensor, domain: str) -> Tensor:
        return theta.new_empty(theta.shape)


class _MaxMarginals(Operation, name="domain_max_marginals"):
    """The best scores with each entry."""

    @staticmethod
    def run(theta: Tensor, domain: str) -> Tensor:
        found = domain_of(domain)
        out = np.empty(theta.shape)
        for i, scores in enumerate(*arrays(theta)):
            out[i] = best_with_each(found, scores, i)
        return beside(out, theta)

    @staticmethod
    def fake(theta: Tensor, domain: str) -> Tensor:
        return theta.new_empty(theta.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        theta, ctx.domain = inputs
        ctx.save_for_backward(theta)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return _AlongBest.apply(ctx.saved_tensors[0], g, ctx.domain), None
