"""Dynamic programmes on chains, one sequence per row.

A row of T positions and K states holds T K unary entries, then (T-1) K K transition entries
[t, from, to]. All kernels take the flat values of a batch, where its rows are cut (offsets) and
their lengths T, and work on the rows start, ..., stop - 1. Sums are in float64.
"""

from __future__ import annotations

import numpy as np

from maxent._kernels.compiling import njit

# A scaled pass is trusted while no scale falls below _TINY and no backward weight exceeds
# 1 / _TINY: what underflows (below 1e-300) then moves no marginal by more than 1e-90.
_TINY = 1e-100


@njit(cache=True, nogil=True)
def _parts(x, length, k):
    """Views (T, K) of the unary and (T-1, K, K) of the transition entries of one row."""
    return x[: length * k].reshape(length, k), x[length * k :].reshape(length - 1, k, k)


@njit(cache=True, nogil=True)
def _longest(lengths, start, stop):
    longest = 0
    for row in range(start, stop):
        longest = max(longest, lengths[row])
    return longest


@njit(cache=True, nogil=True)
def _largest(x):
    top = np.float64(x[0])
    for i in range(1, x.size):
        top = max(top, np.float64(x[i]))
    return top


@njit(cache=True, nogil=True)
def argmax_rows(theta, offsets, lengths, k, out, start, stop):
    """Write the best path of each row (Viterbi); return -1, or the first row without a path."""
    best = np.empty((_longest(lengths, start, stop), k))
    for row in range(start, stop):
        length = lengths[row]
        unary, edge = _parts(theta[offsets[row] : offsets[row + 1]], length, k)
        vertex, passage = _parts(out[offsets[row] : offsets[row + 1]], length, k)
        for i in range(offsets[row], offsets[row + 1]):
            out[i] = 0
        for j in range(k):
            best[0, j] = unary[0, j]
        for t in range(1, length):
            for j in range(k):
                best[t, j] = -np.inf
            for i in range(k):
                score = best[t - 1, i]
                for j in range(k):
                    best[t, j] = max(best[t, j], score + edge[t - 1, i, j])
            for j in range(k):
                best[t, j] += unary[t, j]
        state = 0
        for j in range(k):
            if best[length - 1, j] > best[length - 1, state]:
                state = j
        if best[length - 1, state] == -np.inf:
            return row
        vertex[length - 1, state] = 1
        # predecessors are found again on the way back: K sums a position, nothing to store
        for t in range(length - 2, -1, -1):
            origin, top = 0, -np.inf
            for i in range(k):
                score = best[t, i] + edge[t, i, state]
                if score > top:
                    origin, top = i, score
            vertex[t, origin] = 1
            passage[t, origin, state] = 1
            state = origin
    return -1


@njit(cache=True, nogil=True)
def softmax_rows(theta, offsets, lengths, k, p, value, start, stop):
    """Write marginals and log-partitions; return -1, or the first row without a path."""
    longest = _longest(lengths, start, stop)
    forward = np.empty((longest, k))
    node = np.empty((longest, k))
    link = np.empty((longest, k, k))
    scale = np.empty(longest)
    source = np.empty(longest, np.int64)
    for row in range(start, stop):
        length = lengths[row]
        unary, edge = _parts(theta[offsets[row] : offsets[row + 1]], length, k)
        mean, mean_edge = _parts(p[offsets[row] : offsets[row + 1]], length, k)
        total = _scaled_forward(unary, edge, forward, node, link, scale, source)
        if np.isnan(total) or not _scaled_backward(
            forward, node, link, scale, source, mean, mean_edge
        ):
            total = _log_pass(unary, edge, forward, link, mean, mean_edge)
            if total == -np.inf:
                return row
        value[row] = total
    return -1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _scaled_forward(unary, edge, forward, node, link, scale, source):
    """Log-partition from exp(score - largest of its block); NaN where that underflows.

    forward[t] sums to 1; scale[t] is what it summed to; link[source[t]] leads from t to t + 1
    (a chain whose transition blocks repeat exponentiates them once).
    """
    length, k = unary.shape
    total, top_edge = 0.0, 0.0
    for t in range(length):
        top = _exponentials(unary[t], node[t])
        if top == -np.inf:
            return np.nan
        reach = forward[t]
        for j in range(k):
            reach[j] = 0.0 if t else node[0, j]
        if t > 0:
            if t > 1 and _equal(edge[t - 1], edge[t - 2]):
                source[t - 1] = source[t - 2]
            else:
                source[t - 1] = t - 1
                top_edge = _exponentials(edge[t - 1].reshape(k * k), link[t - 1].reshape(k * k))
                if top_edge == -np.inf:
                    return np.nan
            top += top_edge
            weight = link[source[t - 1]]
            for i in range(k):
                mass = forward[t - 1, i]
                for j in range(k):
                    reach[j] += mass * weight[i, j]
            for j in range(k):
                reach[j] *= node[t, j]
        mass = 0.0
        for j in range(k):
            mass += reach[j]
        if not mass >= _TINY:
            return np.nan
        scale[t] = mass
        for j in range(k):
            reach[j] /= mass
        total += top + np.log(mass)
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _scaled_backward(forward, node, link, scale, source, mean, mean_edge):
    """Write the marginals; False where a backward weight is too large to trust the scaling."""
    length, k = mean.shape
    backward = np.ones(k)
    onward = np.empty(k)
    for j in range(k):
        mean[length - 1, j] = forward[length - 1, j]
    for t in range(length - 2, -1, -1):
        weight = link[source[t]]
        for j in range(k):
            onward[j] = node[t + 1, j] * backward[j] / scale[t + 1]
        for i in range(k):
            before, total = forward[t, i], 0.0
            for j in range(k):
                joint = weight[i, j] * onward[j]
                mean_edge[t, i, j] = before * joint
                total += joint
            backward[i] = total
            mean[t, i] = before * total
        if not _largest(backward) <= 1.0 / _TINY:
            return False
    return True


@njit(cache=True, nogil=True)
def _exponentials(scores, out):
    """Write exp(scores - largest) and return the largest."""
    top = _largest(scores)
    for j in range(scores.size):
        out[j] = np.exp(scores[j] - top)
    return top


@njit(cache=True, nogil=True)
def _equal(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] != y[i, j]:
                return False
    return True


@njit(cache=True, nogil=True)
def _log_pass(unary, edge, forward, back, mean, mean_edge):
    """Forward-backward in logarithms, for any range of scores; -inf if there is no path.

    back[t, i, j] = P(state i at t | state j at t + 1), so that the marginals are products of
    probabilities and nothing cancels.
    """
    length, k = unary.shape
    total = 0.0
    for t in range(length):
        for j in range(k):
            reach = _normalise(forward[t - 1], edge[t - 1], j, back[t - 1]) if t else 0.0
            forward[t, j] = reach + unary[t, j]
        top = _largest(forward[t])
        if top == -np.inf:
            return top
        for j in range(k):
            forward[t, j] -= top
        total += top
    mass = 0.0
    for j in range(k):
        forward[length - 1, j] = np.exp(forward[length - 1, j])
        mass += forward[length - 1, j]
    for j in range(k):
        forward[length - 1, j] /= mass
        mean[length - 1, j] = forward[length - 1, j]
    total += np.log(mass)
    for t in range(length - 2, -1, -1):
        for i in range(k):
            mass = 0.0
            for j in range(k):
                joint = back[t, i, j] * forward[t + 1, j]
                mean_edge[t, i, j] = joint
                mass += joint
            forward[t, i] = mass
            mean[t, i] = mass
    return total


@njit(cache=True, nogil=True)
def _normalise(forward, edge, j, back):
    """Write exp(forward[i] + edge[i, j]) as probabilities into back[:, j]; log of their sum."""
    top, mass = -np.inf, 0.0
    for i in range(forward.size):
        back[i, j] = forward[i] + edge[i, j]
        top = max(top, back[i, j])
    for i in range(forward.size):
        back[i, j] = np.exp(back[i, j] - top) if top > -np.inf else 0.0
        mass += back[i, j]
    if top == -np.inf:
        return top
    for i in range(forward.size):
        back[i, j] /= mass
    return top + np.log(mass)


@njit(cache=True, nogil=True)
def covariance_rows(p, offsets, lengths, k, v, out, start, stop):
    """Write the covariance of the vertex X times v, of the chain with marginals p.

    Cov(X, <X, v>) = E[X g] with g = <X, v> - <p, v>; given the states at t and t + 1, g is the
    sum of what is expected before, between and after, by one recursion either way.
    """
    longest = _longest(lengths, start, stop)
    before = np.empty((longest, k))
    after = np.empty((longest, k))
    for row in range(start, stop):
        length = lengths[row]
        cut = slice(offsets[row], offsets[row + 1])
        mean, mean_edge = _parts(p[cut], length, k)
        unary, edge = _parts(v[cut], length, k)
        tangent, tangent_edge = _parts(out[cut], length, k)
        for t in range(length):
            centre = _mean(mean[t], unary[t])
            for j in range(k):
                tangent[t, j] = unary[t, j] - centre
        for t in range(length - 1):
            centre = _mean(mean_edge[t].reshape(k * k), edge[t].reshape(k * k))
            for i in range(k):
                for j in range(k):
                    tangent_edge[t, i, j] = edge[t, i, j] - centre
        _expected_before(mean_edge, tangent, tangent_edge, before)
        _expected_after(mean_edge, tangent, tangent_edge, after)
        for t in range(length):
            for j in range(k):
                g = before[t, j] + after[t, j] - tangent[t, j]
                tangent[t, j] = mean[t, j] * g
        for t in range(length - 1):
            for i in range(k):
                for j in range(k):
                    g = before[t, i] + tangent_edge[t, i, j] + after[t + 1, j]
                    tangent_edge[t, i, j] = mean_edge[t, i, j] * g


@njit(cache=True, nogil=True)
def _mean(weights, values):
    total, mass = 0.0, 0.0
    for i in range(weights.size):
        total += np.float64(weights[i]) * values[i]
        mass += weights[i]
    return total / mass


@njit(cache=True, nogil=True)
def _expected_before(mean_edge, node, edge, before):
    """before[t, j]: expected sum of node and edge up to t, given state j at t."""
    length, k = node.shape
    mass = np.empty(k)
    for j in range(k):
        before[0, j] = node[0, j]
    for t in range(1, length):
        for j in range(k):
            mass[j] = before[t, j] = 0.0
        for i in range(k):
            for j in range(k):
                weight = np.float64(mean_edge[t - 1, i, j])
                mass[j] += weight
                before[t, j] += weight * (before[t - 1, i] + edge[t - 1, i, j])
        for j in range(k):
            reached = before[t, j] / mass[j] if mass[j] > 0 else 0.0
            before[t, j] = reached + node[t, j]


@njit(cache=True, nogil=True)
def _expected_after(mean_edge, node, edge, after):
    """after[t, i]: expected sum of node and edge from t on, given state i at t."""
    length, k = node.shape
    for j in range(k):
        after[length - 1, j] = node[length - 1, j]
    for t in range(length - 2, -1, -1):
        for i in range(k):
            mass, total = 0.0, 0.0
            for j in range(k):
                weight = np.float64(mean_edge[t, i, j])
                mass += weight
                total += weight * (edge[t, i, j] + after[t + 1, j])
            after[t, i] = node[t, i] + (total / mass if mass > 0 else 0.0)


@njit(cache=True, nogil=True)
def violation_rows(p, offsets, lengths, k, out, start, stop):
    """Write by how much each row breaks a constraint of the local polytope; inf for NaN."""
    into = np.empty(k)
    for row in range(start, stop):
        length = lengths[row]
        mean, mean_edge = _parts(p[offsets[row] : offsets[row + 1]], length, k)
        worst = 0.0
        for t in range(length):
            total = 0.0
            for i in range(k):
                total += mean[t, i]
                worst = _larger(worst, -np.float64(mean[t, i]))
            worst = _larger(worst, abs(total - 1.0))
        for t in range(length - 1):
            for j in range(k):
                into[j] = 0.0
            for i in range(k):
                onward = 0.0
                for j in range(k):
                    joint = np.float64(mean_edge[t, i, j])
                    worst = _larger(worst, -joint)
                    onward += joint
                    into[j] += joint
                worst = _larger(worst, abs(onward - mean[t, i]))
            for j in range(k):
                worst = _larger(worst, abs(into[j] - mean[t + 1, j]))
        out[row] = worst


@njit(cache=True, nogil=True)
def _larger(x, y):
    """The larger of the two; inf if y is NaN."""
    return max(x, y) if y == y else np.inf
