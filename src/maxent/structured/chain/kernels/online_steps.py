"""Gradient steps over chains, one sequence at a time, under a squared norm with one strength.

The weights are w = scale * v, so that the shrinking of all of them costs one product.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.structured.chain.kernels.marginals import best_path, softmax_rows
from maxent.structured.chain.kernels.token_weights import push_states, write_scores

_SMALL = 1e-9  # a scale below which v is rescaled


@njit(cache=True, nogil=True)
def _answer(kind, heat, theta, edges, length, best, path, p, p_edge, zero, one, value):
    """Write the best path as a vertex (kind 0), or the marginals at a temperature (kind 1)."""
    k = len(edges)
    if kind == 0:
        best_path(theta[:length], edges.reshape(1, k, k), 0, best, path)
        p[:length] = 0.0
        p_edge[:] = 0.0
        for t in range(length):
            p[t, path[t]] = 1.0
            if t > 0:
                p_edge[path[t - 1], path[t]] += 1.0
        return
    _divide(theta[:length], heat)
    _divide(edges, heat)
    one[0] = length
    softmax_rows(
        theta.reshape(-1), zero, edges.reshape(-1), zero, 0, one, k,
        p.reshape(-1), zero, p_edge.reshape(-1), zero, value, 0, 1,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _divide(x, heat):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] /= heat


@njit(cache=True, nogil=True)
def _add(amount, x, y):
    """y += amount x."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] += amount * x[i, j]


@njit(cache=True, nogil=True)
def online_pass(
    order, steps, shares, kind, heat, strength, tokens, chains, v, edge_v, scale, ones,
    goal, edge_goal, point, edge_point, mass, longest,
):  # fmt: skip
    """w <- (w - step g) / (1 + step strength) for each row, g the gradient of n a_i times its loss.

    ``goal`` and ``edge_goal`` are the observed marginals. The answers are added to ``point`` and
    ``edge_point`` with ``shares`` of the visits, and those to ``mass``, where these are not empty.
    Return the scale of the weights at the end.
    """
    values, attributes, offsets, start, state = tokens
    k, rows = chains.cost.shape[1], len(chains.lengths)
    theta, p = np.empty((longest, k)), np.empty((longest, k))
    edges, p_edge = np.empty((k, k)), np.empty((k, k))
    best, path = np.empty((longest, k)), np.empty(longest, np.int64)
    zero, one, value = np.zeros(1, np.int64), np.empty(1, np.int64), np.empty(1)
    for o in range(order.size):
        i, step = order[o], steps[o]
        first, length = chains.first[i], chains.lengths[i]
        last = first + length
        write_scores(values, attributes, offsets, start, state, k, v, first, last, theta)
        for t in range(length):
            for j in range(k):
                theta[t, j] = scale * theta[t, j] + chains.cost[first + t, j]
        for a in range(k):
            for b in range(k):
                edges[a, b] = scale * edge_v[a, b]
                if chains.barrier.size > 0:
                    edges[a, b] += chains.barrier[a, b]
        _answer(kind, heat, theta, edges, length, best, path, p, p_edge, zero, one, value)
        if mass.size > 0:
            _add(shares[o], p[:length], point[first:last])
            _add(shares[o], p_edge, edge_point[i])
            mass[i] += shares[o]
        amount = -step * chains.weights[i] * rows / scale
        for t in range(length):
            for j in range(k):
                p[t, j] -= goal[first + t, j]
            push_states(
                values, attributes, offsets, start, state, k, ones, amount, first + t, p[t], v
            )
        for a in range(k):
            for b in range(k):
                edge_v[a, b] += amount * (p_edge[a, b] - edge_goal[i, a, b])
        scale /= 1.0 + step * strength
        if scale < _SMALL:
            for a in range(v.size):
                v[a] *= scale
            for a in range(k):
                for b in range(k):
                    edge_v[a, b] *= scale
            scale = 1.0
    return scale
