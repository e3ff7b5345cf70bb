"""Forward-backward of chains as a Triton kernel: one program per sequence, in logarithms.

The functions of ``_chain_plain``; what has no kernel of its own is taken from there. Weights are
kept with their largest at 0 and what is taken off is summed in float64, so that no range of scores
overflows; marginals are products of P(state i at t | state j at t + 1).
"""

from __future__ import annotations

import triton
import triton.language as tl

import torch
from maxent.torch.structured import _chain_plain
from maxent.torch.structured._chain_plain import add_paths, covariance, viterbi
from maxent.torch.structured._triton_logs import finite
from torch import Tensor

__all__ = ["add_paths", "covariance", "softmax", "viterbi"]

_MOST_STATES = 128  # a block of transitions stays in the registers of a program


@triton.jit
def _load_block(edges, t, inner, states, n_states, STEP: tl.constexpr):
    """Scores [from, to] of the transitions from t to t + 1; -inf beyond the states."""
    at = edges + t * STEP + states[:, None] * n_states + states[None, :]
    return tl.load(at, mask=inner[:, None] & inner[None, :], other=-float("inf"))


@triton.jit
def _forward_backward(
    nodes, edges, lengths, value, weights, mean, mean_edge, n_positions, n_states, edge_row,
    K: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Log-partition and marginals of one sequence; ``weights`` is room for (T, K) numbers."""
    row = tl.program_id(0).to(tl.int64)
    states = tl.arange(0, K)
    inner = states < n_states
    nodes += row * n_positions * n_states
    weights += row * n_positions * n_states
    mean += row * n_positions * n_states
    edges += row * edge_row
    if STEP == 0:
        mean_edge += row * n_states * n_states
    else:
        mean_edge += row * edge_row
    length = tl.load(lengths + row).to(tl.int32)
    if STEP == 0:  # the transitions serve all positions: they are read once
        block = _load_block(edges, 0, inner, states, n_states, STEP)

    reach = tl.load(nodes + states, mask=inner, other=-float("inf"))
    top = tl.max(reach, 0)
    taken = top.to(tl.float64)
    reach = reach - finite(top)
    tl.store(weights + states, reach, mask=inner)
    for t in range(1, length):
        if STEP != 0:
            block = _load_block(edges, t - 1, inner, states, n_states, STEP)
        scores = reach[:, None] + block
        largest = finite(tl.max(scores, 0))
        into = largest + tl.log(tl.sum(tl.exp(scores - largest[None, :]), 0))
        own = tl.load(nodes + t * n_states + states, mask=inner, other=-float("inf"))
        reach = into + own
        top = tl.max(reach, 0)
        taken += top.to(tl.float64)
        reach = reach - finite(top)
        tl.store(weights + t * n_states + states, reach, mask=inner)
    after = tl.exp(reach)
    mass = tl.sum(after, 0)
    total = taken + tl.log(mass).to(tl.float64)
    tl.store(value + row, total)
    after = after / tl.where(mass > 0.0, mass, 1.0)
    tl.store(mean + (length - 1) * n_states + states, after, mask=inner)

    tl.debug_barrier()  # the weights are read by other threads than wrote them
    counts = tl.zeros((K, K), dtype=reach.dtype)
    place = states[:, None] * n_states + states[None, :]
    both = inner[:, None] & inner[None, :]
    for back in range(1, length):
        t = length - 1 - back
        if STEP != 0:
            block = _load_block(edges, t, inner, states, n_states, STEP)
        before = tl.load(weights + t * n_states + states, mask=inner, other=-float("inf"))
        scores = before[:, None] + block
        largest = finite(tl.max(scores, 0))
        parts = tl.exp(scores - largest[None, :])
        share = tl.sum(parts, 0)
        joint = tl.minimum(parts * (after / tl.where(share > 0.0, share, 1.0))[None, :], 1.0)
        if STEP == 0:
            counts += joint
        else:
            tl.store(mean_edge + t * STEP + place, joint, mask=both)
        after = tl.minimum(tl.sum(joint, 1), 1.0)
        tl.store(mean + t * n_states + states, after, mask=inner)
    if STEP == 0:
        tl.store(mean_edge + place, tl.minimum(counts, length - 1.0), mask=both)


def softmax(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-partitions, marginals of states and of transitions (summed where they are tied)."""
    batch, length, k = nodes.shape
    if k > _MOST_STATES or not batch:
        return _chain_plain.softmax(nodes, edges, lengths)
    mean = torch.zeros_like(nodes)
    mean_edge = nodes.new_zeros(edges.shape if edges.ndim == 4 else (batch, k, k))
    value = torch.empty(batch, dtype=torch.float64, device=nodes.device)
    weights = torch.empty_like(nodes)
    step = k * k if edges.ndim == 4 else 0
    edge_row = {2: 0, 3: k * k, 4: (length - 1) * k * k}[edges.ndim]
    padded = max(16, triton.next_power_of_2(k))
    warps = 1 if padded <= 16 else 4 if padded <= 64 else 8
    _forward_backward[(batch,)](
        nodes, edges, lengths, value, weights, mean, mean_edge, length, k, edge_row,
        K=padded, STEP=step, num_warps=warps, enable_fp_fusion=True,
    )  # fmt: skip
    return value.to(nodes.dtype), mean, mean_edge
