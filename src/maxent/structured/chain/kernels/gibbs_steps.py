"""Exponentiated gradient over chains: each row is the Gibbs distribution of scores of its own."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.copying import copy_block
from maxent._support.compiling.kernels import njit
from maxent.structured.chain.kernels.marginals import softmax_rows
from maxent.structured.chain.kernels.token_weights import push_states, write_scores

_TRIES = 6  # step sizes of a visit, each half of the one before
_GROWTH = 1.5  # of a step size that helped at once
_HUGE = 1e4  # scores this far apart leave nothing but rounding of the others


@njit(cache=True, nogil=True)
def _apply(tokens, W, weight, first, length, change, edge_change):
    """w follows a change of the marginals."""
    values, attributes, offsets, start, state = tokens
    k = len(edge_change)
    for t in range(length):
        push_states(
            values, attributes, offsets, start, state, k, W.unary_scale, -weight, first + t,
            change[t], W.unary,
        )  # fmt: skip
    for i in range(k):
        for j in range(k):
            W.edges[i, j] -= weight * W.edge_scale[i, j] * edge_change[i, j]


@njit(cache=True, nogil=True)
def _inner(x, y):
    """<x, y>, entries of y that are 0 counting as 0 whatever x is."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if y[i, j] != 0.0:
                total += x[i, j] * y[i, j]
    return total


@njit(cache=True, nogil=True)
def _inner_of_sum(x, z, y):
    """<x + z, y>, likewise."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if y[i, j] != 0.0:
                total += (x[i, j] + z[i, j]) * y[i, j]
    return total


@njit(cache=True, nogil=True)
def _add(x, y):
    """y += x, on the first rows of y."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] += x[i, j]


@njit(cache=True, nogil=True)
def _subtract(x, y, out):
    """Write x - y."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] - y[i, j]


@njit(cache=True, nogil=True)
def gibbs_visits(order, heat, tokens, chains, W, theta, edge_theta, point, edge_point, negentropy,
                 eta, longest):  # fmt: skip
    """theta_i <- (1 - eta heat) theta_i + eta (F_i'w + cost) for the rows in order; how many moved.

    ``heat`` is the temperature of Shannon's entropy, 0 for a hinge. The step eta of each row is
    halved until the primal falls, and grows after a success at once. ``point`` and ``edge_point``
    are the marginals of exp theta, ``negentropy`` their entropies.
    """
    values, attributes, offsets, start, state = tokens
    k = chains.cost.shape[1]
    s, after = np.empty((longest, k)), np.empty((longest, k))
    new, p = np.empty((longest, k)), np.empty((longest, k))
    new_edge, p_edge, edges = np.empty((k, k)), np.empty((k, k)), np.empty((k, k))
    change, edge_change = np.empty((longest, k)), np.empty((k, k))
    zero, one, value = np.zeros(1, np.int64), np.empty(1, np.int64), np.empty(1)
    moved = 0
    for i in order:
        first, length, weight = chains.first[i], chains.lengths[i], chains.weights[i]
        last = first + length
        one[0] = length
        write_scores(values, attributes, offsets, start, state, k, W.unary, first, last, s)
        _add(chains.cost[first:last], s)
        copy_block(W.edges, edges)
        for attempt in range(_TRIES):
            keep = 1.0 - eta[i] * heat
            top = -np.inf
            for t in range(length):
                for j in range(k):
                    new[t, j] = keep * theta[first + t, j] + eta[i] * s[t, j]
                    top = max(top, abs(new[t, j]))
            for a in range(k):
                for b in range(k):
                    barred = chains.barrier.size > 0 and chains.barrier[a, b] != 0.0
                    before = 0.0 if barred else edge_theta[i, a, b]
                    new_edge[a, b] = -np.inf if barred else keep * before + eta[i] * edges[a, b]
            if top > _HUGE:  # the marginals are settled: larger scores would only lose digits
                eta[i] *= 0.5
                continue
            softmax_rows(
                new.reshape(-1), zero, new_edge.reshape(-1), zero, 0, one, k,
                p.reshape(-1), zero, p_edge.reshape(-1), zero, value, 0, 1,
            )  # fmt: skip
            _subtract(p[:length], point[first:last], change)
            _subtract(p_edge, edge_point[i], edge_change)
            _apply(tokens, W, weight, first, length, change, edge_change)
            write_scores(values, attributes, offsets, start, state, k, W.unary, first, last, after)
            _add(chains.cost[first:last], after)
            # <s - s', change> = a ||F change||^2: the fall of the primal needs no other norm
            fall = 0.5 * _inner_of_sum(s[:length], after[:length], change[:length])
            fall += 0.5 * _inner_of_sum(edges, W.edges, edge_change)
            entropy = _inner(new[:length], p[:length]) + _inner(new_edge, p_edge) - value[0]
            fall -= heat * (entropy - negentropy[i])
            if fall > 0.0:
                copy_block(new[:length], theta[first:last])
                copy_block(new_edge, edge_theta[i])
                copy_block(p[:length], point[first:last])
                copy_block(p_edge, edge_point[i])
                negentropy[i] = entropy
                if attempt == 0:
                    eta[i] *= _GROWTH
                    if heat > 0.0:
                        eta[i] = min(eta[i], 1.0 / heat)
                moved += 1
                break
            _apply(tokens, W, -weight, first, length, change, edge_change)
            eta[i] *= 0.5
    return moved
