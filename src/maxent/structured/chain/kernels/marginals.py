"""Dynamic programmes on chains, one sequence per row.

A layout says where the scores of a row lie: T K unary entries [t, state] from ``node_start[row]``
on in ``nodes``, and blocks of K K transition entries [from, to] in ``edges``, the first at
``edge_start[row]`` and each ``step`` entries after the one before: step = K K where every position
has transitions of its own, 0 where one block serves all positions. A point has a layout too; with
step 0 its block holds the sum over positions. Kernels work on the rows start, ..., stop - 1, with
sums in float64, and need no room beyond a few (T, K) arrays where step is 0.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.copying import copy_block
from maxent._support.compiling.kernels import njit
from maxent.core.kernels.active_set import OPTIMAL, advance, hull, larger, resume
from maxent.core.kernels.exponential import exponential
from maxent.core.kernels.largest import largest

# A scaled pass is trusted while no scale falls below TINY and no sum of backward weights exceeds
# 1 / TINY: what underflows (below 1e-300) then moves no marginal by more than 1e-90.
TINY = 1e-100
_ALMOST = 0.999  # pairs of a state less likely than this are too, whatever rounding does


@njit(cache=True, nogil=True)
def _unary(nodes, first, length, k):
    """View (T, K) of the unary entries of one row."""
    return nodes[first : first + length * k].reshape(length, k)


@njit(cache=True, nogil=True)
def _blocks(edges, first, step, length, k):
    """View (T-1 or 1, K, K) of the transition entries of one row."""
    count = length - 1 if step else 1
    return edges[first : first + count * k * k].reshape(count, k, k)


@njit(cache=True, nogil=True)
def _longest(lengths, start, stop):
    longest = 0
    for row in range(start, stop):
        longest = max(longest, lengths[row])
    return longest


@njit(cache=True, helper=True, nogil=True)
def write_path(path, length, node, passage, step):
    """Mark a path as a vertex: ones at its states, ones (or counts) at its transitions."""
    node[:] = 0
    passage[:] = 0
    for t in range(length):
        node[t, path[t]] = 1
    for t in range(length - 1):
        passage[t if step else 0, path[t], path[t + 1]] += 1


@njit(cache=True, nogil=True)
def write_paths(paths, lengths, k, step, out, out_start, out_edges, out_edge_start):
    """Mark the path of each row as a vertex."""
    for row in range(len(lengths)):
        length = lengths[row]
        vertex = _unary(out, out_start[row], length, k)
        passage = _blocks(out_edges, out_edge_start[row], step, length, k)
        write_path(paths[row], length, vertex, passage, step)


@njit(cache=True, nogil=True)
def add_paths(paths, lengths, k, amount, step, out, out_start, out_edges, out_edge_start):
    """Add a number at the states and transitions of a path in each row."""
    for row in range(len(lengths)):
        length = lengths[row]
        node = _unary(out, out_start[row], length, k)
        passage = _blocks(out_edges, out_edge_start[row], step, length, k)
        for t in range(length):
            node[t, paths[row, t]] += amount
        for t in range(length - 1):
            passage[t if step else 0, paths[row, t], paths[row, t + 1]] += amount


@njit(cache=True, nogil=True)
def viterbi_rows(nodes, node_start, edges, edge_start, step, lengths, k, value, paths, start, stop):
    """Write the score and the states of the best path of each row; -inf where there is none."""
    longest = _longest(lengths, start, stop)
    best = np.empty((longest, k))
    for row in range(start, stop):
        length = lengths[row]
        unary = _unary(nodes, node_start[row], length, k)
        edge = _blocks(edges, edge_start[row], step, length, k)
        if best_path(unary, edge, step, best, paths[row]):
            value[row] = best[length - 1, paths[row, length - 1]]


@njit(cache=True, nogil=True)
def argmax_rows(
    nodes, node_start, edges, edge_start, step, lengths, k,
    out, out_start, out_edges, out_edge_start, start, stop,
):  # fmt: skip
    """Write the best path of each row (Viterbi); return -1, or the first row without a path."""
    longest = _longest(lengths, start, stop)
    best = np.empty((longest, k))
    path = np.empty(longest, np.int64)
    for row in range(start, stop):
        length = lengths[row]
        unary = _unary(nodes, node_start[row], length, k)
        edge = _blocks(edges, edge_start[row], step, length, k)
        if not best_path(unary, edge, step, best, path):
            return row
        vertex = _unary(out, out_start[row], length, k)
        passage = _blocks(out_edges, out_edge_start[row], step, length, k)
        write_path(path, length, vertex, passage, step)
    return -1


@njit(cache=True, helper=True, nogil=True)
def best_path(unary, edge, step, best, path):
    """Write the best path; False if there is none."""
    length, k = unary.shape
    for j in range(k):
        best[0, j] = unary[0, j]
    for t in range(1, length):
        block, reach = edge[t - 1 if step else 0], best[t]
        for j in range(k):
            reach[j] = -np.inf
        for i in range(k):
            score = best[t - 1, i]
            for j in range(k):
                through = score + block[i, j]
                reach[j] = through if through > reach[j] else reach[j]
        for j in range(k):
            reach[j] += unary[t, j]
    state = 0
    for j in range(k):
        if best[length - 1, j] > best[length - 1, state]:
            state = j
    if best[length - 1, state] == -np.inf:
        return False
    path[length - 1] = state
    # predecessors are found again on the way back: K sums per position, nothing to store
    for t in range(length - 2, -1, -1):
        block = edge[t if step else 0]
        origin, top = 0, -np.inf
        for i in range(k):
            score = best[t, i] + block[i, state]
            if score > top:
                origin, top = i, score
        path[t] = state = origin
    return True


@njit(cache=True, nogil=True)
def project_row(theta, length, k, index, weights, max_steps):
    """The active set of the point nearest to one row with a block per position.

    ``index`` (paths, 2 T - 1) and ``weights`` start it, none or those of a similar row. Return how
    many paths are active (0 if there is no path, -1 after too many steps) and their hull.
    """
    width = 2 * length - 1
    room = hull(max(16, 2 * len(weights)), width, theta.size)
    direction = theta.astype(np.float64)
    unary = _unary(direction, 0, length, k)
    edge = _blocks(direction, length * k, k * k, length, k)
    best = np.empty((length, k))
    path = np.empty(length, np.int64)
    n = len(weights)
    for a in range(n):
        for i in range(width):
            room.index[a, i], room.value[a, i] = index[a, i], 1.0
        room.used[a], room.weights[a] = width, weights[a]
    shift = np.float64(width)
    if n:
        n = resume(theta, direction, room, shift, n)
    for _ in range(max_steps):
        if not best_path(unary, edge, 1, best, path):
            return 0, room
        if n == len(room.weights):
            room = larger(room, 2 * n, width)
        for t in range(length):
            room.index[n, t] = t * k + path[t]
            room.value[n, t] = 1.0
        for t in range(length - 1):
            room.index[n, length + t] = length * k + (t * k + path[t]) * k + path[t + 1]
            room.value[n, length + t] = 1.0
        room.used[n] = width
        count = advance(theta, direction, room, shift, n)
        if count == OPTIMAL:
            return n, room
        n = count
    return -1, room


@njit(cache=True, nogil=True)
def softmax_rows(
    nodes, node_start, edges, edge_start, step, lengths, k,
    out, out_start, out_edges, out_edge_start, value, start, stop,
):  # fmt: skip
    """Write marginals and log-partitions; return -1, or the first row without a path."""
    longest = _longest(lengths, start, stop)
    forward = np.empty((longest, k))
    node = np.empty((longest, k))
    scale = np.empty(longest)
    top_edge = np.empty(longest)
    link = np.empty((max(longest - 1, 1) if step else 1, k, k))
    turned = np.empty(link.shape)
    onwards = np.empty((longest, k))
    total_edge = np.empty((k, k))
    known = -1  # where the exponentials in link come from
    for row in range(start, stop):
        length = lengths[row]
        unary = _unary(nodes, node_start[row], length, k)
        edge = _blocks(edges, edge_start[row], step, length, k)
        mean = _unary(out, out_start[row], length, k)
        mean_edge = _blocks(out_edges, out_edge_start[row], step, length, k)
        if step or known != edge_start[row]:
            known = edge_start[row]
            for t in range(min(len(edge), length - 1) if step else 1):
                top_edge[t] = exponentials(edge[t].reshape(k * k), link[t].reshape(k * k))
                copy_block(link[t].T, turned[t])
        total = _scaled_forward(unary, link, top_edge, step, forward, node, scale)
        if np.isnan(total) or not _scaled_backward(
            forward, node, link, turned, scale, step, mean, mean_edge, onwards
        ):
            total = log_pass(unary, edge, step, forward, mean, mean_edge, total_edge)
            if total == -np.inf:
                return row
        value[row] = total
    return -1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _add_product(x, t, links, block, out, s):
    """out[s] += x[t]' links[block], four rows at a time."""
    k, matrix = out.shape[1], links[block]
    whole = k - k % 4
    for i in range(0, whole, 4):
        a, b, c, d = x[t, i], x[t, i + 1], x[t, i + 2], x[t, i + 3]
        one, two, three, four = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for j in range(k):
            out[s, j] += a * one[j] + b * two[j] + c * three[j] + d * four[j]
    for i in range(whole, k):
        a, one = x[t, i], matrix[i]
        for j in range(k):
            out[s, j] += a * one[j]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _scaled_forward(unary, link, top_edge, step, forward, node, scale):
    """Log-partition from exp(score - largest of its block); NaN where that underflows.

    forward[t] sums to 1; scale[t] is what it summed to; link[t or 0] leads from t to t + 1.
    """
    length, k = unary.shape
    total = 0.0
    if not exponential_rows(unary, node[:length], scale):
        return np.nan
    for t in range(length):
        top = scale[t]
        if t == 0:
            for j in range(k):
                forward[0, j] = 1.0
        else:
            block = t - 1 if step else 0
            if top_edge[block] == -np.inf:
                return np.nan
            top += top_edge[block]
            for j in range(k):
                forward[t, j] = 0.0
            _add_product(forward, t - 1, link, block, forward, t)
        mass = 0.0
        for j in range(k):
            reach = forward[t, j] * node[t, j]
            forward[t, j] = reach
            mass += reach
        if not mass >= TINY:
            return np.nan
        scale[t] = mass
        share = 1.0 / mass
        for j in range(k):
            forward[t, j] *= share
        total += top + np.log(mass)
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _scaled_backward(forward, node, link, turned, scale, step, mean, mean_edge, onwards):
    """Write the marginals; False where a backward weight is too large to trust the scaling.

    ``turned`` holds the links [to, from], ``onwards`` is room for (T, K) numbers.
    """
    length, k = mean.shape
    backward = np.ones((1, k))
    for j in range(k):
        mean[length - 1, j] = min(forward[length - 1, j], 1.0)
    for t in range(length - 2, -1, -1):
        share = 1.0 / scale[t + 1]
        for j in range(k):
            onwards[t, j] = node[t + 1, j] * backward[0, j] * share
            backward[0, j] = 0.0
        _add_product(onwards, t, turned, t if step else 0, backward, 0)
        total = 0.0
        for i in range(k):
            total += backward[0, i]
            value = forward[t, i] * backward[0, i]
            mean[t, i] = value if value < 1.0 else 1.0
        if not total <= 1.0 / TINY:
            return False
        if step:
            joint = mean_edge[t]
            for i in range(k):
                before = forward[t, i]
                for j in range(k):
                    joint[i, j] = before * link[t, i, j] * onwards[t, j]
                if mean[t, i] > _ALMOST:
                    _at_most(joint[i], 1.0)
    if not step:  # the weights are the same at all positions: one product for all of them
        pairs = np.dot(forward[: length - 1].T, onwards[: length - 1])
        for i in range(k):
            for j in range(k):
                value = pairs[i, j] * link[0, i, j]
                mean_edge[0, i, j] = value if value < length - 1.0 else length - 1.0
    return True


@njit(cache=True, nogil=True)
def _at_most(x, largest):
    """Take back what rounding has added beyond the largest value there is."""
    for j in range(x.size):
        x[j] = min(x[j], largest)


@njit(cache=True, nogil=True, helper=True)
def exponential_rows(scores, out, tops):
    """Write exp(scores - largest of the row) and the largest; False if a row is -inf everywhere."""
    length, k = scores.shape
    for t in range(length):
        tops[t] = largest(scores[t])
        if tops[t] == -np.inf:
            return False
        for j in range(k):
            out[t, j] = scores[t, j] - tops[t]
    flat = out.reshape(length * k)
    for i in range(flat.size):  # all rows in one loop, as vectors
        flat[i] = exponential(flat[i])
    return True


@njit(cache=True, nogil=True, helper=True)
def exponentials(scores, out):
    """Write exp(scores - largest) and return the largest."""
    top = largest(scores)
    if top == -np.inf:
        out[:] = 0.0
        return top
    for j in range(scores.size):
        out[j] = exponential(scores[j] - top)
    return top


@njit(cache=True, nogil=True, helper=True)
def log_pass(unary, edge, step, forward, mean, mean_edge, total_edge):
    """Forward-backward in logarithms, for any range of scores; -inf if there is no path.

    The marginals are products of the probabilities P(state i at t | state j at t + 1), so that
    nothing cancels.
    """
    length, k = unary.shape
    total = _log_forward(unary, edge, step, forward)
    if total == -np.inf:
        return total
    back = np.empty(k)
    after = np.empty(k)
    mass = 0.0
    for j in range(k):
        after[j] = np.exp(forward[length - 1, j])
        mass += after[j]
    for j in range(k):
        after[j] /= mass
        mean[length - 1, j] = after[j]
    total_edge[:] = 0
    before = np.empty(k)
    for t in range(length - 2, -1, -1):
        block = edge[t if step else 0]
        before[:] = 0
        for j in range(k):
            _normalise(forward[t], block, j, back)
            for i in range(k):
                joint = back[i] * after[j]
                before[i] += joint
                if step:
                    mean_edge[t, i, j] = joint
                else:
                    total_edge[i, j] += joint
        for i in range(k):
            after[i] = min(before[i], 1.0)
            mean[t, i] = after[i]
    if not step:
        for i in range(k):
            _at_most(total_edge[i], length - 1.0)
        copy_block(total_edge, mean_edge[0])
    return total + np.log(mass)


@njit(cache=True, nogil=True)
def _log_forward(unary, edge, step, forward):
    """Write log forward weights, the largest of each position 0; the sum of what was taken off."""
    length, k = unary.shape
    back = np.empty(k)
    total = 0.0
    for t in range(length):
        for j in range(k):
            reach = _normalise(forward[t - 1], edge[t - 1 if step else 0], j, back) if t else 0.0
            forward[t, j] = reach + unary[t, j]
        top = largest(forward[t])
        if top == -np.inf:
            return top
        for j in range(k):
            forward[t, j] -= top
        total += top
    return total


@njit(cache=True, nogil=True)
def _normalise(forward, edge, j, back):
    """Write exp(forward[i] + edge[i, j]) as probabilities of i; return the log of their sum."""
    top, mass = -np.inf, 0.0
    for i in range(forward.size):
        back[i] = forward[i] + edge[i, j]
        top = max(top, back[i])
    for i in range(forward.size):
        back[i] = np.exp(back[i] - top) if top > -np.inf else 0.0
        mass += back[i]
    if top == -np.inf:
        return top
    for i in range(forward.size):
        back[i] /= mass
    return top + np.log(mass)


@njit(cache=True, nogil=True)
def covariance_rows(
    nodes, node_start, edges, edge_start, step, lengths, k,
    v, v_start, v_edges, v_edge_start, out, out_start, out_edges, out_edge_start, start, stop,
):  # fmt: skip
    """Write the covariance of the vertex X times v, of the chain with these scores.

    Cov(X, <X, v>) = E[X g] with g = <X, v> - E<X, v>; given the states at t and t + 1, g is the
    sum of what is expected before, between and after, by one recursion either way.
    """
    longest = _longest(lengths, start, stop)
    logs = np.empty((2, longest, k))  # of the weights of what comes before and after a state
    weights = np.empty((2, longest, k))
    link = np.empty((max(longest - 1, 1) if step else 1, k, k))
    before = np.empty((longest, k))
    after = np.empty((longest, k))
    gains = np.empty((longest, k))  # v less its mean, position by position
    centre = np.empty(longest)  # mean of v over the transitions
    joint = np.empty((k, k))
    for row in range(start, stop):
        length = lengths[row]
        gain = gains[:length]
        unary = _unary(nodes, node_start[row], length, k)
        edge = _blocks(edges, edge_start[row], step, length, k)
        along = _unary(v, v_start[row], length, k)
        along_edge = _blocks(v_edges, v_edge_start[row], step, length, k)
        tangent = _unary(out, out_start[row], length, k)
        tangent_edge = _blocks(out_edges, out_edge_start[row], step, length, k)
        _log_forward(unary, edge, step, logs[0])
        _log_onward(unary, edge, step, logs[1])
        for t in range(length):
            exponentials(logs[0, t], weights[0, t])
            exponentials(logs[1, t], weights[1, t])
        for block in range(len(edge)):
            exponentials(edge[block].reshape(k * k), link[block].reshape(k * k))
        _centre_states(logs, unary, along, tangent, gain)
        _expected_before(logs, weights, edge, link, step, gain, along_edge, joint, before, centre)
        _expected_after(logs, weights, edge, link, step, gain, along_edge, joint, after, centre)
        for t in range(length):
            for j in range(k):
                tangent[t, j] *= before[t, j] + after[t, j] - gain[t, j]
        tangent_edge[:] = 0
        for t in range(length - 1):
            block = t if step else 0
            _joint(logs, weights, edge[block], link[block], t, joint)
            for i in range(k):
                for j in range(k):
                    if joint[i, j] > 0:
                        g = before[t, i] + along_edge[block, i, j] - centre[t] + after[t + 1, j]
                        tangent_edge[block, i, j] += joint[i, j] * g


@njit(cache=True, nogil=True)
def _centre_states(logs, unary, along, marginal, gain):
    """Write the marginals of the states, and v less its mean at each position."""
    length, k = unary.shape
    for t in range(length):
        top, mass, total = -np.inf, 0.0, 0.0
        for j in range(k):
            if unary[t, j] > -np.inf:  # it counts in both logs
                top = max(top, logs[0, t, j] + logs[1, t, j] - unary[t, j])
        for j in range(k):
            weight = 0.0
            if unary[t, j] > -np.inf:
                weight = np.exp(logs[0, t, j] + logs[1, t, j] - unary[t, j] - top)
            marginal[t, j] = weight
            mass += weight
            total += weight * along[t, j] if weight > 0 else 0.0
        for j in range(k):
            marginal[t, j] /= mass
            gain[t, j] = along[t, j] - total / mass


@njit(cache=True, nogil=True)
def _log_onward(unary, edge, step, onward):
    """Write log weights of what follows, the state's own score included; the largest is 0."""
    length, k = unary.shape
    for t in range(length - 1, -1, -1):
        for i in range(k):
            reach = 0.0
            if t < length - 1:
                reach = _log_sum(onward[t + 1], edge[t if step else 0], i)
            onward[t, i] = reach + unary[t, i]
        top = largest(onward[t])
        for i in range(k):
            onward[t, i] -= top


@njit(cache=True, nogil=True)
def _log_sum(onward, edge, i):
    """log sum_j exp(edge[i, j] + onward[j])."""
    top = -np.inf
    for j in range(onward.size):
        top = max(top, edge[i, j] + onward[j])
    if top == -np.inf:
        return top
    mass = 0.0
    for j in range(onward.size):
        mass += np.exp(edge[i, j] + onward[j] - top)
    return top + np.log(mass)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _joint(logs, weights, edge, link, t, joint):
    """Write the probabilities of all transitions from t to t + 1."""
    k = joint.shape[0]
    forward, onward = weights[0, t], weights[1, t + 1]
    mass = 0.0
    for i in range(k):
        for j in range(k):
            joint[i, j] = forward[i] * link[i, j] * onward[j]
            mass += joint[i, j]
    if not mass >= TINY:
        mass = _joint_by_logs(logs[0, t], logs[1, t + 1], edge, joint)
    for i in range(k):
        for j in range(k):
            joint[i, j] /= mass


@njit(cache=True, nogil=True)
def _joint_by_logs(forward, onward, edge, joint):
    """The same before the division, where the product of the weights underflows."""
    k = joint.shape[0]
    top, mass = -np.inf, 0.0
    for i in range(k):
        for j in range(k):
            top = max(top, forward[i] + edge[i, j] + onward[j])
    for i in range(k):
        for j in range(k):
            joint[i, j] = np.exp(forward[i] + edge[i, j] + onward[j] - top)
            mass += joint[i, j]
    return mass


@njit(cache=True, nogil=True)
def _expected_before(logs, weights, edge, link, step, gain, along_edge, joint, before, centre):
    """before[t, j]: expected sum of gains up to t, given state j at t; centre of v at each step."""
    length, k = gain.shape
    mass = np.empty(k)
    for j in range(k):
        before[0, j] = gain[0, j]
    for t in range(1, length):
        block = t - 1 if step else 0
        _joint(logs, weights, edge[block], link[block], t - 1, joint)
        centre[t - 1] = _mean(joint, along_edge[block])
        for j in range(k):
            mass[j] = before[t, j] = 0.0
        for i in range(k):
            for j in range(k):
                if joint[i, j] > 0:
                    mass[j] += joint[i, j]
                    between = along_edge[block, i, j] - centre[t - 1]
                    before[t, j] += joint[i, j] * (before[t - 1, i] + between)
        for j in range(k):
            reached = before[t, j] / mass[j] if mass[j] > 0 else 0.0
            before[t, j] = reached + gain[t, j]


@njit(cache=True, nogil=True)
def _expected_after(logs, weights, edge, link, step, gain, along_edge, joint, after, centre):
    """after[t, i]: expected sum of gains from t on, given state i at t."""
    length, k = gain.shape
    for j in range(k):
        after[length - 1, j] = gain[length - 1, j]
    for t in range(length - 2, -1, -1):
        block = t if step else 0
        _joint(logs, weights, edge[block], link[block], t, joint)
        for i in range(k):
            mass, total = 0.0, 0.0
            for j in range(k):
                if joint[i, j] > 0:
                    mass += joint[i, j]
                    between = along_edge[block, i, j] - centre[t]
                    total += joint[i, j] * (between + after[t + 1, j])
            after[t, i] = gain[t, i] + (total / mass if mass > 0 else 0.0)


@njit(cache=True, nogil=True)
def _mean(weights, values):
    total = 0.0
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            if weights[i, j] > 0:
                total += weights[i, j] * values[i, j]
    return total


@njit(cache=True, nogil=True)
def kbest_rows(
    nodes, node_start, edges, edge_start, step, lengths, k, count, value, paths, start, stop
):
    """Write scores (row, rank) and paths (row, rank, t) of the best paths of each row.

    Each state keeps its ``count`` best beginnings; those of the next state merge the sorted lists
    of its predecessors. Where there are fewer paths, scores are -inf.
    """
    longest = _longest(lengths, start, stop)
    best = np.empty((longest, k, count))
    origin = np.empty((longest, k, count), np.int64)  # predecessor state
    place = np.empty((longest, k, count), np.int64)  # and its rank there
    taken = np.empty(k, np.int64)
    for row in range(start, stop):
        length = lengths[row]
        unary = _unary(nodes, node_start[row], length, k)
        edge = _blocks(edges, edge_start[row], step, length, k)
        for j in range(k):
            best[0, j, :] = -np.inf
            best[0, j, 0] = unary[0, j]
        for t in range(1, length):
            block = edge[t - 1 if step else 0]
            for j in range(k):
                taken[:] = 0
                for rank in range(count):
                    top, state = -np.inf, -1
                    for i in range(k):
                        if taken[i] < count and best[t - 1, i, taken[i]] + block[i, j] > top:
                            top, state = best[t - 1, i, taken[i]] + block[i, j], i
                    best[t, j, rank] = top + unary[t, j] if state >= 0 else -np.inf
                    if state >= 0:
                        origin[t, j, rank], place[t, j, rank] = state, taken[state]
                        taken[state] += 1
        taken[:] = 0
        for rank in range(count):
            top, state = -np.inf, -1
            for j in range(k):
                if taken[j] < count and best[length - 1, j, taken[j]] > top:
                    top, state = best[length - 1, j, taken[j]], j
            value[row, rank] = top
            if state < 0:
                continue
            where = taken[state]
            taken[state] += 1
            for t in range(length - 1, -1, -1):
                paths[row, rank, t] = state
                if t:
                    state, where = origin[t, state, where], place[t, state, where]


@njit(cache=True, nogil=True)
def sample_rows(
    nodes, node_start, edges, edge_start, step, lengths, k, uniform, paths, start, stop
):
    """Write paths (draw, row, t) drawn from the chain: forwards by sums, backwards by draws.

    Return -1, or the first row without a path.
    """
    forward = np.empty((_longest(lengths, start, stop), k))
    weights = np.empty((k, 1))
    back = np.empty(k)
    for row in range(start, stop):
        length = lengths[row]
        unary = _unary(nodes, node_start[row], length, k)
        edge = _blocks(edges, edge_start[row], step, length, k)
        if _log_forward(unary, edge, step, forward) == -np.inf:
            return row
        for draw in range(len(paths)):
            weights[:] = 0
            _normalise(forward[length - 1], weights, 0, back)
            state = _pick(back, uniform[draw, row, length - 1])
            paths[draw, row, length - 1] = state
            for t in range(length - 2, -1, -1):
                _normalise(forward[t], edge[t if step else 0], state, back)
                state = _pick(back, uniform[draw, row, t])
                paths[draw, row, t] = state
    return -1


@njit(cache=True, nogil=True)
def _pick(probabilities, uniform):
    """The index at which the sum of probabilities passes a number of [0, 1)."""
    last = 0
    for i in range(probabilities.size):
        if probabilities[i] > 0:
            last = i
            uniform -= probabilities[i]
            if uniform < 0:
                return i
    return last  # rounding left a little of the number


@njit(cache=True, nogil=True)
def violation_rows(nodes, node_start, edges, edge_start, step, lengths, k, out, start, stop):
    """Write by how much each row breaks a constraint of the local polytope; inf for NaN.

    Where transitions are summed over positions, so are the constraints that tie them to states.
    """
    into = np.empty(k)
    from_states = np.empty(k)
    to_states = np.empty(k)
    for row in range(start, stop):
        length = lengths[row]
        mean = _unary(nodes, node_start[row], length, k)
        mean_edge = _blocks(edges, edge_start[row], step, length, k)
        worst = 0.0
        for t in range(length):
            total = 0.0
            for i in range(k):
                total += mean[t, i]
                worst = _larger(worst, -np.float64(mean[t, i]))
            worst = _larger(worst, abs(total - 1.0))
        for block in range(mean_edge.shape[0]):
            for j in range(k):
                into[j] = from_states[j] = to_states[j] = 0.0
            for t in range(block if step else 0, block + 1 if step else length - 1):
                for j in range(k):
                    from_states[j] += mean[t, j]
                    to_states[j] += mean[t + 1, j]
            for i in range(k):
                onward = 0.0
                for j in range(k):
                    joint = np.float64(mean_edge[block, i, j])
                    worst = _larger(worst, -joint)
                    onward += joint
                    into[j] += joint
                worst = _larger(worst, abs(onward - from_states[i]))
            for j in range(k):
                worst = _larger(worst, abs(into[j] - to_states[j]))
        out[row] = worst


@njit(cache=True, nogil=True)
def _larger(x, y):
    """The larger of the two; inf if y is NaN."""
    return max(x, y) if y == y else np.inf
