"""Dynamic programmes on the paths of an acyclic graph, all rows with the same one.

``net`` lists the arcs by the node that they enter: those of node u are first[u], ..., first[u+1]-1;
``tail`` is the node that an arc leaves, ``entry`` the score that it takes. Nodes are in an order in
which arcs lead forwards, paths lead from node 0 to the last one, and every arc is on some path. An
entry may serve several arcs, of which no path has two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.active_set import OPTIMAL, advance, hull, larger, resume


class Network(NamedTuple):
    """The arcs of an acyclic graph, by the node that they enter."""

    first: Any
    tail: Any
    entry: Any


@njit(cache=True, nogil=True)
def _best_forward(scores, net, best, arrival):
    """best[u]: the best score of a path to u, which arrives by ``arrival[u]``."""
    best[0] = 0.0
    for u in range(1, len(best)):
        top, choice = -np.inf, -1
        for a in range(net.first[u], net.first[u + 1]):
            score = best[net.tail[a]] + scores[net.entry[a]]
            if score > top:
                top, choice = score, a
        best[u], arrival[u] = top, choice
    return best[len(best) - 1]


@njit(cache=True, nogil=True)
def argmax_rows(theta, net, out, start, stop):
    """Write the best path of each row; return -1, or the first row without one."""
    nodes = len(net.first) - 1
    best, arrival = np.empty(nodes), np.empty(nodes, np.int64)
    for row in range(start, stop):
        if _best_forward(theta[row], net, best, arrival) == -np.inf:
            return row
        for i in range(out.shape[1]):
            out[row, i] = 0
        u = nodes - 1
        while u > 0:
            out[row, net.entry[arrival[u]]] = 1
            u = net.tail[arrival[u]]
    return -1


@njit(cache=True, nogil=True)
def project_row(theta, net, width, index, used, weights, max_steps):
    """The active set of the point nearest to one row.

    ``width`` is the number of arcs of the longest path; ``index`` (paths, width), of which ``used``
    count, and ``weights`` start it, none or those of a similar row. Return how many paths are
    active (0 if there is no path, -1 after too many steps) and their hull.
    """
    nodes = len(net.first) - 1
    best, arrival = np.empty(nodes), np.empty(nodes, np.int64)
    n = len(weights)
    room = hull(max(16, 2 * n), width, theta.size)
    direction = theta.astype(np.float64)
    shift = np.float64(width)
    for a in range(n):
        for i in range(used[a]):
            room.index[a, i], room.value[a, i] = index[a, i], 1.0
        room.used[a], room.weights[a] = used[a], weights[a]
    if n:
        n = resume(theta, direction, room, shift, n)
    for _ in range(max_steps):
        if _best_forward(direction, net, best, arrival) == -np.inf:
            return 0, room
        if n == len(room.weights):
            room = larger(room, 2 * n, width)
        count, u = 0, nodes - 1
        while u > 0:
            room.index[n, count] = net.entry[arrival[u]]
            room.value[n, count] = 1.0
            count += 1
            u = net.tail[arrival[u]]
        room.used[n] = count
        left = advance(theta, direction, room, shift, n)
        if left == OPTIMAL:
            return n, room
        n = left
    return -1, room


@njit(cache=True, nogil=True)
def _forward(scores, net, total):
    """total[u]: log of the sum over paths to u."""
    total[0] = 0.0
    for u in range(1, len(total)):
        top, mass = -np.inf, 0.0
        for a in range(net.first[u], net.first[u + 1]):
            top = max(top, total[net.tail[a]] + scores[net.entry[a]])
        if top > -np.inf:
            for a in range(net.first[u], net.first[u + 1]):
                mass += np.exp(total[net.tail[a]] + scores[net.entry[a]] - top)
            top += np.log(mass)
        total[u] = top
    return total[len(total) - 1]


@njit(cache=True, nogil=True)
def _arrivals(scores, net, total, u, share):
    """Write the probabilities of the arcs by which a path through u arrives there."""
    low = net.first[u]
    # divided by their sum: a logarithm of it would be lost beside large scores
    top, mass = -np.inf, 0.0
    for a in range(low, net.first[u + 1]):
        top = max(top, total[net.tail[a]] + scores[net.entry[a]])
    for a in range(low, net.first[u + 1]):
        score = total[net.tail[a]] + scores[net.entry[a]]
        share[a - low] = np.exp(score - top) if score > -np.inf else 0.0
        mass += share[a - low]
    for a in range(low, net.first[u + 1]):
        share[a - low] /= mass


@njit(cache=True, nogil=True)
def _widest(net):
    """The largest number of arcs into a node."""
    most = 1
    for u in range(len(net.first) - 1):
        most = max(most, net.first[u + 1] - net.first[u])
    return most


@njit(cache=True, nogil=True)
def softmax_rows(theta, net, certain, out, value, start, stop):
    """Write marginals and log-partitions; return -1, or the first row without a path.

    ``certain`` are the entries that every path has, whatever the sums of probabilities round to.
    """
    nodes = len(net.first) - 1
    total, flow, share = np.empty(nodes), np.empty(nodes), np.empty(_widest(net))
    mean = np.empty(theta.shape[1])
    for row in range(start, stop):
        scores = theta[row]
        value[row] = _forward(scores, net, total)
        if value[row] == -np.inf:
            return row
        for i in range(mean.size):
            mean[i] = 0.0
        for u in range(nodes):
            flow[u] = 0.0
        flow[nodes - 1] = 1.0
        for u in range(nodes - 1, 0, -1):
            here = min(flow[u], 1.0)
            if here > 0.0:
                _arrivals(scores, net, total, u, share)
                for a in range(net.first[u], net.first[u + 1]):
                    joint = here * share[a - net.first[u]]
                    flow[net.tail[a]] += joint
                    mean[net.entry[a]] += joint
        for i in certain:
            mean[i] = 1.0
        for i in range(mean.size):
            out[row, i] = min(mean[i], 1.0)
    return -1


@njit(cache=True, nogil=True)
def covariance_rows(theta, net, v, out, start, stop):
    """Write the derivative of the marginals along v: the covariance of the vertex times v.

    gain[u] is the expected sum of v on the way to u; a probability of arriving by an arc changes by
    itself times the arc's gain above the average.
    """
    nodes = len(net.first) - 1
    total, gain, share = np.empty(nodes), np.empty(nodes), np.empty(_widest(net))
    flow, slope = np.empty(nodes), np.empty(nodes)
    for row in range(start, stop):
        scores, along = theta[row], v[row]
        _forward(scores, net, total)
        gain[0] = 0.0
        for u in range(1, nodes):
            gain[u] = 0.0
            if total[u] > -np.inf:
                _arrivals(scores, net, total, u, share)
                gain[u] = _expected(along, net, gain, share, u)
        for u in range(nodes):
            flow[u] = slope[u] = 0.0
        flow[nodes - 1] = 1.0
        for i in range(out.shape[1]):
            out[row, i] = 0.0
        for u in range(nodes - 1, 0, -1):
            if flow[u] > 0.0:
                _arrivals(scores, net, total, u, share)
                for a in range(net.first[u], net.first[u + 1]):
                    part = share[a - net.first[u]]
                    if part > 0.0:
                        own = gain[net.tail[a]] + along[net.entry[a]] - gain[u]
                        moved = part * (slope[u] + flow[u] * own)
                        flow[net.tail[a]] += part * flow[u]
                        slope[net.tail[a]] += moved
                        out[row, net.entry[a]] += moved


@njit(cache=True, nogil=True)
def _expected(along, net, gain, share, u):
    total = 0.0
    for a in range(net.first[u], net.first[u + 1]):
        if share[a - net.first[u]] > 0.0:
            total += share[a - net.first[u]] * (gain[net.tail[a]] + along[net.entry[a]])
    return total


@njit(cache=True, nogil=True)
def sample_rows(theta, net, uniform, out, start, stop):
    """Write paths (draw, row, entry), each from its end; -1, or the first row without one."""
    nodes = len(net.first) - 1
    total, share = np.empty(nodes), np.empty(_widest(net))
    for row in range(start, stop):
        if _forward(theta[row], net, total) == -np.inf:
            return row
        for draw in range(len(out)):
            for i in range(out.shape[2]):
                out[draw, row, i] = 0
            u, step = nodes - 1, 0
            while u > 0:
                _arrivals(theta[row], net, total, u, share)
                left, pick = uniform[draw, row, step], net.first[u]
                for a in range(net.first[u], net.first[u + 1]):
                    part = share[a - net.first[u]]
                    if part > 0.0 and left >= 0.0:
                        pick = a
                        left -= part
                out[draw, row, net.entry[pick]] = 1
                u, step = net.tail[pick], step + 1
    return -1


@njit(cache=True, nogil=True)
def kbest_rows(theta, net, value, out, start, stop):
    """Write scores (row, rank) and paths (rank, row, entry) of the best of each row.

    best[u] lists the best scores of paths to u: the lists of the nodes before, each sorted, are
    merged, ``taken`` of each arc's so far.
    """
    nodes, count = len(net.first) - 1, value.shape[1]
    best = np.empty((nodes, count))
    arrival = np.empty((nodes, count), np.int64)
    place = np.empty((nodes, count), np.int64)
    taken = np.empty(_widest(net), np.int64)
    for row in range(start, stop):
        scores = theta[row]
        for k in range(count):
            best[0, k] = -np.inf
        best[0, 0] = 0.0
        for u in range(1, nodes):
            low, high = net.first[u], net.first[u + 1]
            for a in range(high - low):
                taken[a] = 0
            for k in range(count):
                top, choice = -np.inf, -1
                for a in range(low, high):
                    if taken[a - low] < count:
                        score = best[net.tail[a], taken[a - low]] + scores[net.entry[a]]
                        if score > top:
                            top, choice = score, a
                best[u, k], arrival[u, k] = top, choice
                if choice >= 0:
                    place[u, k] = taken[choice - low]
                    taken[choice - low] += 1
        for k in range(count):
            value[row, k] = best[nodes - 1, k]
            for i in range(out.shape[2]):
                out[k, row, i] = 0
            if value[row, k] > -np.inf:
                u, rank = nodes - 1, k
                while u > 0:
                    a = arrival[u, rank]
                    out[k, row, net.entry[a]] = 1
                    u, rank = net.tail[a], place[u, rank]
