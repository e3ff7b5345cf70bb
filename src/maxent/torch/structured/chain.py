"""Chains of padded tensors: linear-chain CRFs as functions with hand-written derivatives.

Conventions: B sequences of up to T positions over K states.

nodes : (B, T, K) scores of the states.
transitions : (K, K) scores [from, to] for all, (B, K, K) one block per sequence, or
    (B, T - 1, K, K) one block per position.
lengths : (B,) integers from 1 to T; None for T. What lies behind is not looked at.
start, end : (K,) scores added to the first and the last state of each sequence.

A score of -inf forbids a state or a transition. CPU tensors are read in place by the compiled
programmes of ``maxent.structured.Chain``; CUDA tensors take a Triton kernel, or batched torch
operations where there is none. On the CPU, NaN, +inf and sequences without a path are refused; on
CUDA, where looking would wait for the device, the values of such sequences are NaN or -inf.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import torch
from maxent.torch.maps._dispatch import backend_of
from maxent.torch.maps.losses import check_reduction
from torch import Tensor

_ENGINES = {"numba": "_chain_compiled", "triton": "_triton_chain", "plain": "_chain_plain"}


def chain_log_partition(
    nodes: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """log sum over paths of exp(score), (B,); its gradient is the marginals.

    Parameters
    ----------
    nodes : tensor (B, T, K)
        Scores of the K states at each position.
    transitions : tensor (K, K), (B, K, K) or (B, T - 1, K, K)
        Scores of transitions [from, to]: one block for all sequences, one for each, or one for each
        position.
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    value: Tensor = _Softmax.apply(*_prepared(nodes, transitions, lengths, start, end), None)[0]
    return value


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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    arguments = _prepared(nodes, transitions, lengths, start, end)
    _, mean, mean_edge = _Softmax.apply(*arguments, None)
    return mean, mean_edge


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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    best: tuple[Tensor, Tensor] = _Best.apply(*_prepared(nodes, transitions, lengths, start, end))
    return best


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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"chain_kbest needs an integer k >= 1, got {k!r}")
    arguments = _on_cpu(_prepared(nodes, transitions, lengths, start, end))
    _check_scores(*arguments)
    scores, paths = _engine("numba").kbest(*arguments, k)
    _check_paths(scores[:, 0])
    return scores.to(nodes.device), paths.to(nodes.device)


def chain_sample(
    nodes: Tensor,
    transitions: Tensor,
    n: int = 1,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    end: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """States (n, B, T) of paths drawn with probability exp(score) / Z; 0 behind the end.

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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"chain_sample needs an integer n >= 1, got {n!r}")
    arguments = _on_cpu(_prepared(nodes, transitions, lengths, start, end))
    _check_scores(*arguments)
    shape = (n, *nodes.shape[:2])
    uniform = torch.rand(shape, dtype=torch.float64, generator=generator)
    row, paths = _engine("numba").sample(*arguments, uniform)
    if row >= 0:
        _refuse_row(row)
    return paths.to(nodes.device)


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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    nodes, transitions, lengths = _prepared(nodes, transitions, lengths, start, end)
    return _score(nodes, transitions, lengths, _check_tags(tags, nodes, lengths))


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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    check_reduction(reduction)
    nodes, transitions, lengths = _prepared(nodes, transitions, lengths, start, end)
    tags = _check_tags(tags, nodes, lengths)
    return _reduced(_Softmax.apply(nodes, transitions, lengths, tags)[0], reduction)


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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    check_reduction(reduction)
    if not cost >= 0:
        raise ValueError(f"the cost of a wrong state is at least 0, got {cost!r}")
    nodes, transitions, lengths = _prepared(nodes, transitions, lengths, start, end)
    tags = _check_tags(tags, nodes, lengths)
    return _reduced(_Margin.apply(nodes, transitions, lengths, tags, float(cost)), reduction)


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
    lengths : int tensor (B,), default None
        Positions of each sequence; None is T for all.
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
    return chain_hinge_loss(nodes, transitions, tags, lengths, start, end, 0.0, reduction)


class _Softmax(torch.autograd.Function):
    """Log-partitions less the scores of given paths, and the marginals less these paths.

    The second and third output are the gradient of the first; their own derivative is the
    covariance of the path, so that second derivatives are there.
    """

    @staticmethod
    def forward(
        ctx: Any, nodes: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        engine = _engine(backend_of(nodes))
        value, mean, mean_edge = engine.softmax(nodes, transitions, lengths)
        if nodes.device.type == "cpu" and not bool(value.isfinite().all()):
            _check_scores(nodes, transitions, lengths)
            _check_paths(value)
        if tags is not None:
            value = value - _score(nodes, transitions, lengths, tags)
            engine.add_paths(mean, mean_edge, tags, lengths, -1.0)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(nodes, transitions, lengths, mean, mean_edge)
        return value, mean, mean_edge

    @staticmethod
    def backward(
        ctx: Any, g: Tensor | None, g_mean: Tensor | None, g_edge: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        nodes, transitions, lengths, mean, mean_edge = ctx.saved_tensors
        d_nodes = d_edges = None
        if g is not None:
            d_nodes = g[:, None, None] * mean if ctx.needs_input_grad[0] else None
            if ctx.needs_input_grad[1]:
                d_edges = _scaled_edges(g, mean_edge, transitions)
        if g_mean is not None or g_edge is not None:
            v = torch.zeros_like(mean) if g_mean is None else g_mean
            v_edge = torch.zeros_like(mean_edge) if g_edge is None else g_edge
            more, more_edge = _Covariance.apply(nodes, transitions, lengths, v, v_edge)
            d_nodes = more if d_nodes is None else d_nodes + more
            more_edge = more_edge.sum(0) if transitions.ndim == 2 else more_edge
            d_edges = more_edge if d_edges is None else d_edges + more_edge
        return d_nodes, d_edges, None, None


class _Covariance(torch.autograd.Function):
    """The covariance of the path times v: symmetric and linear in v."""

    @staticmethod
    def forward(
        ctx: Any, nodes: Tensor, transitions: Tensor, lengths: Tensor, v: Tensor, v_edge: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(nodes, transitions, lengths)
        name = backend_of(nodes)
        engine = _engine("plain" if name == "triton" else name)
        product: tuple[Tensor, Tensor] = engine.covariance(nodes, transitions, lengths, v, v_edge)
        return product

    @staticmethod
    def backward(ctx: Any, g: Tensor, g_edge: Tensor) -> tuple[None, None, None, Tensor, Tensor]:
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            raise NotImplementedError(
                "third derivatives of a chain's log-partition are not there: second ones are the "
                "last (detach the scores in what is differentiated a third time)"
            )
        d_v, d_edge = _Covariance.apply(*ctx.saved_tensors, g, g_edge)
        return None, None, None, d_v, d_edge


class _Best(torch.autograd.Function):
    """Scores and states of the best paths."""

    @staticmethod
    def forward(
        ctx: Any, nodes: Tensor, transitions: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        value, paths = _best(nodes, transitions, lengths)
        ctx.mark_non_differentiable(paths)
        ctx.save_for_backward(nodes, transitions, lengths, paths)
        return value, paths

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: None) -> tuple[Tensor, Tensor, None]:
        nodes, transitions, lengths, paths = ctx.saved_tensors
        vertex, vertex_edge = _vertices(nodes, transitions, lengths, [(paths, 1.0)])
        d_edges = _scaled_edges(g, vertex_edge, transitions)
        return g[:, None, None] * vertex, d_edges, None


class _Margin(torch.autograd.Function):
    """The best score, costs added, less that of the tags; a subgradient is the difference."""

    @staticmethod
    def forward(
        ctx: Any, nodes: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor, cost: float
    ) -> Tensor:
        scores = nodes
        if cost:
            scores = nodes + cost
            scores.scatter_add_(2, tags[:, :, None], nodes.new_full((*tags.shape, 1), -cost))
        value, paths = _best(scores, transitions, lengths)
        ctx.save_for_backward(nodes, transitions, lengths, tags, paths)
        return value - _score(nodes, transitions, lengths, tags)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        nodes, transitions, lengths, tags, paths = ctx.saved_tensors
        pairs = [(paths, 1.0), (tags, -1.0)]
        residual, residual_edge = _vertices(nodes, transitions, lengths, pairs)
        d_edges = _scaled_edges(g, residual_edge, transitions)
        return g[:, None, None] * residual, d_edges, None, None, None


def _scaled_edges(g: Tensor, mean_edge: Tensor, transitions: Tensor) -> Tensor:
    """The transitions' gradient: each row times g, summed over rows that share a block."""
    if transitions.ndim == 2:
        return (g @ mean_edge.flatten(1)).reshape(transitions.shape)
    return mean_edge * g.reshape(-1, *[1] * (mean_edge.ndim - 1))


def _vertices(
    nodes: Tensor, transitions: Tensor, lengths: Tensor, paths: list[tuple[Tensor, float]]
) -> tuple[Tensor, Tensor]:
    """Sums of paths as points."""
    k = nodes.shape[2]
    engine = _engine(backend_of(nodes))
    mean = torch.zeros_like(nodes)
    mean_edge = nodes.new_zeros(transitions.shape if transitions.ndim == 4 else (len(nodes), k, k))
    for path, amount in paths:
        engine.add_paths(mean, mean_edge, path, lengths, amount)
    return mean, mean_edge


def _best(nodes: Tensor, transitions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    if nodes.device.type == "cpu":
        _check_scores(nodes, transitions, lengths)
    best: tuple[Tensor, Tensor] = _engine(backend_of(nodes)).viterbi(nodes, transitions, lengths)
    if nodes.device.type == "cpu":
        _check_paths(best[0])
    return best


def _score(nodes: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
    """Scores of paths, summed in float64."""
    batch, length, k = nodes.shape
    inside = _inside(lengths, length)
    own = nodes.gather(2, tags[:, :, None])[:, :, 0].masked_fill(~inside, 0)
    pairs = tags[:, :-1] * k + tags[:, 1:]
    if transitions.ndim == 2:
        moves = transitions.reshape(-1)[pairs]
    elif transitions.ndim == 3:
        moves = transitions.reshape(batch, k * k).gather(1, pairs)
    else:
        moves = transitions.flatten(2).gather(2, pairs[:, :, None])[:, :, 0]
    moves = moves.masked_fill(~inside[:, 1:], 0)
    total = own.sum(1, dtype=torch.float64) + moves.sum(1, dtype=torch.float64)
    return total.to(nodes.dtype)


def _inside(lengths: Tensor, length: int) -> Tensor:
    return torch.arange(length, device=lengths.device) < lengths[:, None]


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return loss.sum() / max(len(loss), 1) if reduction == "mean" else loss.sum()


def _engine(name: str) -> ModuleType:
    return importlib.import_module(f"maxent.torch.structured.{_ENGINES[name]}")


def _on_cpu(tensors: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    nodes, transitions, lengths = (x.detach().cpu() for x in tensors)
    return nodes, transitions, lengths


def _prepared(
    nodes: Tensor,
    transitions: Tensor,
    lengths: Tensor | None,
    start: Tensor | None,
    end: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Checked scores of one type, the start and end scores added, contiguous."""
    for name, x in (("nodes", nodes), ("transitions", transitions)):
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise TypeError(f"{name} must be a tensor of floats, got {_what(x)}")
    if nodes.ndim != 3 or 0 in nodes.shape[1:]:
        raise ValueError(
            "nodes have the shape (sequences, positions, states) with at least one position and "
            f"state, got {tuple(nodes.shape)}"
        )
    batch, length, k = nodes.shape
    if transitions.shape not in {(k, k), (batch, k, k), (batch, length - 1, k, k)}:
        raise ValueError(
            f"nodes of shape {tuple(nodes.shape)} need transitions of shape {(k, k)}, "
            f"{(batch, k, k)} or {(batch, length - 1, k, k)}, got {tuple(transitions.shape)}"
        )
    lengths = check_lengths(lengths, nodes, length)
    dtype = torch.promote_types(nodes.dtype, transitions.dtype)
    for extra in (start, end):
        if extra is not None and extra.shape != (k,):
            raise ValueError(
                f"start and end scores are vectors of {k} numbers, got {tuple(extra.shape)}"
            )
        dtype = dtype if extra is None else torch.promote_types(dtype, extra.dtype)
    dtype = torch.float64 if dtype == torch.float64 else torch.float32
    nodes, transitions = nodes.to(dtype), transitions.to(dtype)
    if start is not None or end is not None:
        at = torch.arange(length, device=nodes.device)[None, :, None]
        if start is not None:
            nodes = torch.where(at == 0, nodes + start.to(dtype), nodes)
        if end is not None:
            last = at == lengths[:, None, None] - 1
            nodes = torch.where(last, nodes + end.to(dtype), nodes)
    return nodes.contiguous(), transitions.contiguous(), lengths


def check_lengths(lengths: Tensor | None, scores: Tensor, longest: int) -> Tensor:
    """Lengths as int64 beside the scores; refused out of 1 .. longest, on the CPU."""
    batch = len(scores)
    if lengths is None:
        return torch.full((batch,), longest, device=scores.device)
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point() or lengths.dtype == torch.bool or lengths.shape != (batch,):
        raise ValueError(f"lengths are {batch} integers, one per sequence, got {_what(lengths)}")
    if lengths.device.type == "cpu":
        if batch and (int(lengths.min()) < 1 or int(lengths.max()) > longest):
            raise ValueError(
                f"lengths run from 1 to {longest}, the positions that there are, got "
                f"{int(lengths.min())} to {int(lengths.max())}"
            )
    else:
        lengths = lengths.clamp(1, longest)
    return lengths.to(scores.device, torch.int64).contiguous()


def _check_tags(tags: Tensor, nodes: Tensor, lengths: Tensor) -> Tensor:
    """Tags as int64, 0 behind the end; refused out of range, on the CPU."""
    if not isinstance(tags, Tensor) or tags.is_floating_point() or tags.shape != nodes.shape[:2]:
        raise ValueError(
            f"tags are integers of shape {tuple(nodes.shape[:2])}, one state per position, got "
            f"{_what(tags)}"
        )
    tags = tags.to(nodes.device, torch.int64)
    tags = tags.masked_fill(~_inside(lengths, nodes.shape[1]), 0)
    k = nodes.shape[2]
    if tags.device.type != "cpu":
        return tags.clamp(0, k - 1)
    if tags.numel() and (int(tags.min()) < 0 or int(tags.max()) >= k):
        raise ValueError(
            f"states run from 0 to {k - 1}, got tags from {int(tags.min())} to {int(tags.max())}"
        )
    return tags.contiguous()


def _check_scores(nodes: Tensor, transitions: Tensor, lengths: Tensor) -> None:
    """Refuse NaN and +inf where they count."""
    length = nodes.shape[1]
    inside = _inside(lengths, length)
    parts = [("nodes", nodes, inside), ("transitions", transitions, inside[:, 1:])]
    for name, x, counts in parts:
        if bool(x.sum().isfinite()):
            continue
        used = x if x.ndim in (2, 3) and name == "transitions" else x[counts]
        if bool(used.isnan().any()) or bool((used == torch.inf).any()):
            raise ValueError(
                f"{name} contain NaN or +inf; use -inf to forbid, finite scores otherwise"
            )


def _check_paths(values: Tensor) -> None:
    none = (values == -torch.inf).nonzero()
    if len(none):
        _refuse_row(int(none[0]))


def _refuse_row(row: int) -> None:
    raise ValueError(
        f"sequence {row} has no path: scores of -inf forbid every one of them; leave at least one "
        "path finite"
    )


def _what(x: Any) -> str:
    return f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
