"""Chains of padded tensors: linear-chain CRFs as functions with hand-written derivatives.

Conventions: B sequences of up to T positions over K states.

nodes : (B, T, K) scores of the states.
transitions : (K, K) scores [from, to] for all, (B, K, K) one block per sequence, or
    (B, T - 1, K, K) one block per position.
lengths : (B,) integers from 1 to T, or a mask (B, T); None for T. What lies behind is not looked
    at.
start, end : (K,) scores added to the first and the last state of each sequence.

A score of -inf forbids a state or a transition. CPU tensors are read in place by the compiled
programmes of ``maxent.structured.Chain``; CUDA tensors take a Triton kernel, or batched torch
operations where there is none. On the CPU, NaN, +inf and sequences without a path are refused; on
CUDA, where looking would wait for the device, the values of such sequences are NaN or -inf.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._chains import prepare
from maxent.torch.structured._divergences import cross_entropy_of, kl_of
from maxent.torch.structured._lengths import check_cost
from torch import Tensor

Divergence = Callable[..., Tensor]


class ChainScores:
    """Scores of B sequences, checked once and asked many times.

    The functions of this module are its methods on a bundle made for one call.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.

    Examples
    --------
    >>> import torch
    >>> chains = ChainScores(torch.zeros(1, 3, 2), torch.zeros(2, 2))
    >>> chains.log_partition().exp().round(), chains.argmax()[1].shape
    (tensor([8.]), torch.Size([1, 3]))
    """

    def __init__(
        self,
        nodes: Tensor,
        transitions: Tensor,
        lengths: Tensor | None = None,
        start: Tensor | None = None,
        end: Tensor | None = None,
    ) -> None:
        self._chains = prepare(nodes, transitions, lengths, start, end)

    def __repr__(self) -> str:
        sequences, positions, states = self._chains.nodes.shape
        return f"ChainScores({sequences} sequences, {positions} positions, {states} states)"

    def log_partition(self) -> Tensor:
        """log sum over paths of `exp(score)`, (B,), see ``chain_log_partition``."""
        return self._chains.log_partition()[0]

    def marginals(self) -> tuple[Tensor, Tensor]:
        """Probabilities of the states and of the transitions, see ``chain_marginals``."""
        _, mean, mean_edge = self._chains.log_partition()
        return mean, mean_edge

    def argmax(self) -> tuple[Tensor, Tensor]:
        """The scores and the states of the best paths, see ``chain_argmax``."""
        return self._chains.best()

    def kbest(self, k: int) -> tuple[Tensor, Tensor]:
        """The scores and the states of the k best paths, see ``chain_kbest``."""
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"kbest needs an integer k >= 1, got {k!r}")
        return self._chains.kbest(k)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """States of n paths drawn with probability `exp(score) / Z`, see ``chain_sample``."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"sample needs an integer n >= 1, got {n!r}")
        return self._chains.sample(n, generator)

    def max_marginals(self) -> Tensor:
        """The best score of a path through each state, (B, T, K), see ``chain_max_marginals``."""
        return self._chains.max_marginals()

    def entropy(self) -> Tensor:
        """Shannon's entropy of the paths, (B,); differentiable."""
        return self.cross_entropy(self)

    def cross_entropy(self, other: ChainScores) -> Tensor:
        """`-sum_v p(v) log q(v)` with p of these scores and q of ``other``, (B,).

        Differentiable in both; infinite where the others forbid what these allow.
        """
        return self._compared(cross_entropy_of, other)

    def kl(self, other: ChainScores) -> Tensor:
        """`KL(p || q) >= 0` of the paths of these scores from those of ``other``, (B,).

        Differentiable in both; infinite where the others forbid what these allow.
        """
        return self._compared(kl_of, other)

    def _compared(self, divergence: Divergence, other: ChainScores) -> Tensor:
        if not isinstance(other, ChainScores):
            raise TypeError(f"the other scores are ChainScores as well, got {other!r}")
        mine, others = self._chains, other._chains
        mine.check_alike(others)
        value = divergence(mine.sums, mine[:2], others[:2])
        return value.to(mine.nodes.dtype)

    def score(self, tags: Tensor) -> Tensor:
        """The scores of the paths ``tags``, see ``chain_score``."""
        return self._chains.score(self._chains.check_tags(tags))

    def crf_loss(self, tags: Tensor, reduction: str = "mean") -> Tensor:
        """log Z - score(tags), see ``crf_loss``."""
        check_reduction(reduction)
        return _reduced(self._chains.log_partition(self._chains.check_tags(tags))[0], reduction)

    def hinge_loss(self, tags: Tensor, cost: float = 1.0, reduction: str = "mean") -> Tensor:
        """The structured hinge, see ``chain_hinge_loss``."""
        check_reduction(reduction)
        check_cost(cost, "state")
        return _reduced(self._chains.margin(self._chains.check_tags(tags), float(cost)), reduction)

    def perceptron_loss(self, tags: Tensor, reduction: str = "mean") -> Tensor:
        """The structured perceptron, see ``chain_perceptron_loss``."""
        return self.hinge_loss(tags, 0.0, reduction)


def chain_log_partition(
    nodes: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """log sum over paths of `exp(score)`, (B,); its gradient is the marginals.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.

    Examples
    --------
    >>> import torch
    >>> chain_log_partition(torch.zeros(1, 3, 2), torch.zeros(2, 2)).exp().round()
    tensor([8.])
    """
    return ChainScores(nodes, transitions, lengths, start, end).log_partition()


def chain_marginals(
    nodes: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Probabilities of the states (B, T, K) and of the transitions.

    The latter are (B, T - 1, K, K) where each position has scores of its own; where one block
    serves all positions, their sums (B, K, K): how often each transition is expected.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.

    Examples
    --------
    >>> import torch
    >>> p, counts = chain_marginals(torch.zeros(1, 3, 2), torch.zeros(2, 2))
    >>> p[0, 0], counts[0]
    (tensor([0.5000, 0.5000]), tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]]))
    """
    return ChainScores(nodes, transitions, lengths, start, end).marginals()


def chain_argmax(
    nodes: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The scores (B,) and the states (B, T) of the best paths (Viterbi); 0 behind the end.

    The scores are differentiated: their gradient marks the best path.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.

    Examples
    --------
    >>> import torch
    >>> transitions = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    >>> chain_argmax(torch.tensor([[[0.0, 1.0], [2.0, 0.0]]]), transitions)
    (tensor([6.]), tensor([[1, 0]]))
    """
    return ChainScores(nodes, transitions, lengths, start, end).argmax()


def chain_kbest(
    nodes: Tensor,
    transitions: Tensor,
    k: int,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores (B, k), falling, and states (B, k, T) of the k best paths, on the CPU.

    Where there are fewer than k, the rest score -inf. Not differentiated: score the paths with
    ``chain_score``. CUDA tensors make the way to the CPU and back.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    k : int
        How many paths.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.

    Examples
    --------
    >>> import torch
    >>> chain_kbest(torch.tensor([[[0.0, 1.0], [0.25, 0.0]]]), torch.zeros(2, 2), k=2)
    (tensor([[1.2500, 1.0000]]), tensor([[[1, 0],
             [1, 1]]]))
    """
    return ChainScores(nodes, transitions, lengths, start, end).kbest(k)


def chain_sample(
    nodes: Tensor,
    transitions: Tensor,
    n: int = 1,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """States (n, B, T) of paths drawn with probability `exp(score) / Z`; 0 behind the end.

    CUDA tensors make the way to the CPU and back.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    n : int, default 1
        How many paths of each sequence.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.
    generator : torch.Generator, default None
        Generator of the CPU; None is torch's own.

    Examples
    --------
    >>> import torch
    >>> sure = torch.tensor([[[9.0, -90.0], [-90.0, 9.0]]])
    >>> chain_sample(sure, torch.zeros(2, 2), n=2).tolist()
    [[[0, 1]], [[0, 1]]]
    """
    return ChainScores(nodes, transitions, lengths, start, end).sample(n, generator)


def chain_max_marginals(
    nodes: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """The best score of a path through each state, (B, T, K); -inf behind the end.

    Two sweeps of torch operations on the tensors' device; the gradient marks the paths, and is
    shared where several are best.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.

    Examples
    --------
    >>> import torch
    >>> chain_max_marginals(torch.tensor([[[0.0, 1.0], [2.0, 0.0]]]), torch.zeros(2, 2))
    tensor([[[2., 3.],
             [3., 1.]]])
    """
    return ChainScores(nodes, transitions, lengths, start, end).max_marginals()


def chain_score(
    nodes: Tensor,
    transitions: Tensor,
    tags: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """The score (B,) of one path per sequence, tags (B, T).

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    tags : int tensor (B, T)
        States of a path; what lies behind the end is not read.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.

    Examples
    --------
    >>> import torch
    >>> transitions = torch.tensor([[0.0, 5.0], [0.0, 0.0]])
    >>> chain_score(torch.eye(2)[None], transitions, torch.tensor([[0, 1]]))
    tensor([7.])
    """
    return ChainScores(nodes, transitions, lengths, start, end).score(tags)


def crf_loss(
    nodes: Tensor,
    transitions: Tensor,
    tags: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log Z - score(tags), the negative log-likelihood of a linear-chain CRF.

    It is the Fenchel-Young loss of ``Shannon(domain=Chain(K))``, with gradient marginals - tags.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    tags : int tensor (B, T)
        States of a path; what lies behind the end is not read.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the sequences.

    Examples
    --------
    >>> import torch
    >>> crf_loss(torch.zeros(1, 3, 2), torch.zeros(2, 2), torch.tensor([[0, 1, 0]])).exp().round()
    tensor(8.)
    """
    return ChainScores(nodes, transitions, lengths, start, end).crf_loss(tags, reduction)


def chain_hinge_loss(
    nodes: Tensor,
    transitions: Tensor,
    tags: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
    cost: float = 1.0,
    reduction: str = "mean",
) -> Tensor:
    """max over paths of score(path) + cost * wrong states - score(tags): the structured hinge.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    tags : int tensor (B, T)
        States of a path; what lies behind the end is not read.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.
    cost : float, default 1.0
        Cost of each wrong state.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the sequences.

    Examples
    --------
    >>> import torch
    >>> chain_hinge_loss(torch.zeros(1, 3, 2), torch.zeros(2, 2), torch.tensor([[0, 1, 0]]))
    tensor(3.)
    """
    return ChainScores(nodes, transitions, lengths, start, end).hinge_loss(tags, cost, reduction)


def chain_perceptron_loss(
    nodes: Tensor,
    transitions: Tensor,
    tags: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max over paths of score(path) - score(tags): the structured perceptron.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    tags : int tensor (B, T)
        States of a path; what lies behind the end is not read.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    start : tensor (K,), default None
        Scores of the first state.
    end : tensor (K,), default None
        Scores of the last state.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the sequences.

    Examples
    --------
    >>> import torch
    >>> chain_perceptron_loss(torch.eye(2)[None], torch.zeros(2, 2), torch.tensor([[1, 1]]))
    tensor(1.)
    """
    return ChainScores(nodes, transitions, lengths, start, end).perceptron_loss(tags, reduction)


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return loss.sum() / max(loss.shape[0], 1) if reduction == "mean" else loss.sum()
