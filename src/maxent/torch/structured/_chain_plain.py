"""Chains in batched torch operations, position by position, on any device.

The same functions as ``_chain_compiled``, in logarithms throughout: the marginals are products of
the probabilities P(state i at t | state j at t + 1), so that no range of scores overflows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def block(edges: Tensor, t: int) -> Tensor:
    """The transition scores from t to t + 1, (1 or B, K, K)."""
    if edges.ndim == 4:
        return edges[:, t]
    return edges if edges.ndim == 3 else edges[None]


def _forward(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What was taken off in all (float64), and the log weights of each position, the largest 0.

    Behind its end a sequence keeps the weights of its last position.
    """
    taken = torch.zeros(len(nodes), dtype=torch.float64, device=nodes.device)
    weights: list[Tensor] = []
    for t in range(nodes.shape[1]):
        reach = nodes[:, 0]
        if t:
            reach = nodes[:, t] + torch.logsumexp(weights[-1][:, :, None] + block(edges, t - 1), 1)
        top = reach.amax(1, keepdim=True)
        reach = torch.where(top > -math.inf, reach - top, -math.inf)
        if t:
            inside = t < lengths
            reach = torch.where(inside[:, None], reach, weights[-1])
            top = torch.where(inside[:, None], top, 0)
        taken += top[:, 0]
        weights.append(reach)
    return taken, weights


def _origins(weights: Tensor, edges: Tensor) -> Tensor:
    """P(state i at t | state j at t + 1) as [b, i, j]; zeros where j cannot be reached."""
    scores = weights[:, :, None] + edges
    top = scores.amax(1, keepdim=True)
    back = torch.exp(scores - torch.where(top > -math.inf, top, 0))
    return back / back.sum(1, keepdim=True).clamp(min=1e-30)


def _last(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The mass of the last position and its probabilities; zeros where there is no path."""
    p = torch.exp(weights)
    mass = p.sum(1)
    return mass, p / mass.clamp(min=1e-30)[:, None]


def softmax(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-partitions, marginals of states and of transitions (summed where they are tied)."""
    batch, length, k = nodes.shape
    taken, weights = _forward(nodes, edges, lengths)
    mass, after = _last(weights[-1])
    tied = edges.ndim < 4
    mean = torch.zeros_like(nodes)
    mean_edge = nodes.new_zeros((batch, k, k) if tied else edges.shape)
    mean[:, -1] = after
    for t in range(length - 2, -1, -1):
        onward = (t + 1 < lengths)[:, None, None]  # else t + 1 is behind the end
        joint = _origins(weights[t], block(edges, t)) * (after[:, None] * onward)
        (mean_edge if tied else mean_edge[:, t]).add_(joint)
        after = torch.where(onward[:, 0], joint.sum(2).clamp_(max=1.0), after)
        mean[:, t] = after
    if tied:  # counts of transitions, which rounding may not add to
        mean_edge.clamp_(max=(lengths - 1).to(nodes.dtype)[:, None, None])
    inside = torch.arange(length, device=nodes.device) < lengths[:, None]
    return (taken + mass.log()).to(nodes.dtype), mean * inside[:, :, None], mean_edge


def covariance(
    nodes: Tensor, edges: Tensor, lengths: Tensor, v: Tensor, v_edge: Tensor
) -> tuple[Tensor, Tensor]:
    """The derivative of the marginals along v: that of each step of ``softmax``."""
    length = nodes.shape[1]
    _, weights = _forward(nodes, edges, lengths)
    back: list[Tensor] = []
    spread: list[Tensor] = []  # change of log P(i | j)
    slope = v[:, 0]
    for t in range(length - 1):
        onward = (t + 1 < lengths)[:, None]
        back.append(_origins(weights[t], block(edges, t)))
        change = slope[:, :, None] + block(v_edge, t)
        average = (back[t] * change).sum(1)
        spread.append(change - average[:, None])
        slope = torch.where(onward, average + v[:, t + 1], slope)
    _, after = _last(weights[-1])
    d_after = after * (slope - (after * slope).sum(1, keepdim=True))
    out, out_edge = torch.zeros_like(nodes), torch.zeros_like(v_edge)
    out[:, -1] = d_after
    for t in range(length - 2, -1, -1):
        onward = (t + 1 < lengths)[:, None, None]
        joint = back[t] * (after[:, None] * onward)
        change = joint * spread[t] + back[t] * (d_after[:, None] * onward)
        (out_edge[:, t] if edges.ndim == 4 else out_edge).add_(change)
        after = torch.where(onward[:, 0], joint.sum(2), after)
        d_after = torch.where(onward[:, 0], change.sum(2), d_after)
        out[:, t] = d_after
    inside = torch.arange(length, device=nodes.device) < lengths[:, None]
    return out * inside[:, :, None], out_edge


def viterbi(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and best paths (B, T), 0 behind the end; scores of -inf where there is no path."""
    batch, length, _ = nodes.shape
    best = nodes[:, 0].double()
    origins = []
    for t in range(1, length):
        reach, origin = (best[:, :, None] + block(edges, t - 1)).max(1)
        best = torch.where((t < lengths)[:, None], reach + nodes[:, t], best)
        origins.append(origin)
    value, state = best.max(1)
    paths = torch.zeros((batch, length), dtype=torch.int64, device=nodes.device)
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            before = origins[t].gather(1, state[:, None])[:, 0]
            state = torch.where(t + 1 < lengths, before, state)
        paths[:, t] = torch.where(t < lengths, state, 0)
    return value.to(nodes.dtype), paths


def add_paths(
    mean: Tensor, mean_edge: Tensor, paths: Tensor, lengths: Tensor, amount: float
) -> None:
    """Add a number at the states and transitions of a path in each row of a point, in place."""
    batch, length, k = mean.shape
    inside = torch.arange(length, device=mean.device) < lengths[:, None]
    mean.scatter_add_(2, paths[:, :, None], (amount * inside).to(mean.dtype)[:, :, None])
    pairs = paths[:, :-1] * k + paths[:, 1:]
    amounts = (amount * inside[:, 1:]).to(mean.dtype)
    if mean_edge.ndim == 4:
        mean_edge.view(batch, length - 1, k * k).scatter_add_(
            2, pairs[..., None], amounts[..., None]
        )
    else:
        mean_edge.view(batch, k * k).scatter_add_(1, pairs, amounts)
