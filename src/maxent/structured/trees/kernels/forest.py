"""Message passing on forests, one Markov network per row, all with the same graph.

``graph`` describes the forest: nodes in an order where parents come first, for each node its
parent (-1 for a root), the entry where the table of its edge to the parent begins and the strides
of that table along the parent's and the node's own state, its number of states and the entry where
its own scores begin. ``room`` is where messages lie, node by node, as the unary scores do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxent._support.compiling.copying import copy, copy_block
from maxent._support.compiling.kernels import njit


class Graph(NamedTuple):
    """A rooted forest over tables of scores."""

    order: Any
    parent: Any
    edge: Any
    parent_stride: Any
    own_stride: Any
    states: Any
    first: Any


@njit(cache=True, nogil=True)
def _total(counts):
    total = 0
    for count in counts:
        total += count
    return total


@njit(cache=True, nogil=True)
def _most(counts):
    most = counts[0]
    for count in counts:
        most = max(most, count)
    return most


@njit(cache=True, nogil=True)
def argmax_rows(theta, graph, out, start, stop):
    """Write the best assignment of each row; return -1, or the first row without one."""
    size = _total(graph.states)
    chosen = np.empty(len(graph.order), np.int64)
    for row in range(start, stop):
        scores, up = theta[row], np.empty(size)
        _collect_best(scores, graph, up)
        for u in graph.order:
            first, best = graph.first[u], 0
            top = -np.inf
            for s in range(graph.states[u]):
                score = up[first + s]
                if graph.parent[u] >= 0:
                    score += scores[_entry(graph, u, chosen[graph.parent[u]], s)]
                if score > top:
                    best, top = s, score
            if top == -np.inf:
                return row
            chosen[u] = best
        write_assignment(chosen, graph, out[row])
    return -1


@njit(cache=True, nogil=True)
def _entry(graph, u, parent_state, state):
    """Where the score of the edge from u to its parent lies."""
    return graph.edge[u] + parent_state * graph.parent_stride[u] + state * graph.own_stride[u]


@njit(cache=True, nogil=True)
def write_assignment(chosen, graph, vertex):
    """Mark states and pairs of states of an assignment with ones."""
    vertex[:] = 0
    for u in graph.order:
        vertex[graph.first[u] + chosen[u]] = 1
        if graph.parent[u] >= 0:
            vertex[_entry(graph, u, chosen[graph.parent[u]], chosen[u])] = 1


@njit(cache=True, nogil=True)
def _collect_best(scores, graph, up):
    """up[first[u] + s]: the best score of the subtree of u with u in state s."""
    for u in graph.order:
        for s in range(graph.states[u]):
            up[graph.first[u] + s] = scores[graph.first[u] + s]
    for u in graph.order[::-1]:
        parent = graph.parent[u]
        if parent < 0:
            continue
        for r in range(graph.states[parent]):
            top = -np.inf
            for s in range(graph.states[u]):
                top = max(top, up[graph.first[u] + s] + scores[_entry(graph, u, r, s)])
            up[graph.first[parent] + r] += top


@njit(cache=True, nogil=True)
def _collect(scores, graph, up):
    """up[first[u] + s]: log of the sum over the subtree of u with u in state s, largest 0.

    Return the sum of what was taken off, -inf where no assignment is left.
    """
    total = 0.0
    for u in graph.order:
        for s in range(graph.states[u]):
            up[graph.first[u] + s] = scores[graph.first[u] + s]
    for u in graph.order[::-1]:
        first = graph.first[u]
        top = -np.inf
        for s in range(graph.states[u]):
            top = max(top, up[first + s])
        if top == -np.inf:
            return top
        for s in range(graph.states[u]):
            up[first + s] -= top
        total += top
        parent = graph.parent[u]
        if parent >= 0:
            for r in range(graph.states[parent]):
                up[graph.first[parent] + r] += _log_sum(scores, graph, up, u, r)
    return total


@njit(cache=True, nogil=True)
def _log_sum(scores, graph, up, u, r):
    """Log of the sum over the states of u, the parent being in state r (-1 for a root)."""
    top, mass = -np.inf, 0.0
    for s in range(graph.states[u]):
        top = max(top, _score(scores, graph, up, u, r, s))
    if top == -np.inf:
        return top
    for s in range(graph.states[u]):
        mass += np.exp(_score(scores, graph, up, u, r, s) - top)
    return top + np.log(mass)


@njit(cache=True, nogil=True)
def _score(scores, graph, up, u, r, s):
    score = up[graph.first[u] + s]
    return score if r < 0 else score + scores[_entry(graph, u, r, s)]


@njit(cache=True, nogil=True)
def _conditional(scores, graph, up, u, r, out):
    """Write the probabilities of the states of u, given state r of the parent."""
    # divided by their sum: a logarithm of it would be lost beside large scores
    top, mass = -np.inf, 0.0
    for s in range(graph.states[u]):
        top = max(top, _score(scores, graph, up, u, r, s))
    for s in range(graph.states[u]):
        score = _score(scores, graph, up, u, r, s)
        out[s] = np.exp(score - top) if score > -np.inf else 0.0
        mass += out[s]
    for s in range(graph.states[u]):
        out[s] /= mass


@njit(cache=True, nogil=True)
def softmax_rows(theta, graph, out, value, start, stop):
    """Write marginals and log-partitions; return -1, or the first row without an assignment."""
    up = np.empty(_total(graph.states))
    given = np.empty(_most(graph.states))
    for row in range(start, stop):
        scores, mean = theta[row], out[row]
        total = _collect(scores, graph, up)
        if total == -np.inf:
            return row
        for u in graph.order:
            first, parent = graph.first[u], graph.parent[u]
            if parent < 0:
                total += _log_sum(scores, graph, up, u, -1)
                _conditional(scores, graph, up, u, -1, given)
                for s in range(graph.states[u]):
                    mean[first + s] = given[s]
                continue
            for s in range(graph.states[u]):
                mean[first + s] = 0
            for r in range(graph.states[parent]):
                weight = np.float64(mean[graph.first[parent] + r])
                if weight > 0:
                    _conditional(scores, graph, up, u, r, given)
                for s in range(graph.states[u]):
                    joint = weight * given[s] if weight > 0 else 0.0
                    mean[_entry(graph, u, r, s)] = joint
                    mean[first + s] += joint
            for s in range(graph.states[u]):
                mean[first + s] = min(mean[first + s], 1.0)
            if graph.states[u] == 1:  # certain, whatever the sum over the parent's states says
                mean[first] = 1
        value[row] = total
    return -1


@njit(cache=True, nogil=True)
def covariance_rows(theta, graph, v, out, start, stop):
    """Write the derivative of the marginals along v: the covariance of the vertex times v.

    gain[first[u] + s] is the expected sum of v over the subtree of u with u in state s.
    """
    size = _total(graph.states)
    up, gain, mean = np.empty(size), np.empty(size), np.empty(size)
    given = np.empty(_most(graph.states))
    for row in range(start, stop):
        scores, along, slope = theta[row], v[row], out[row]
        _collect(scores, graph, up)
        for u in graph.order:
            for s in range(graph.states[u]):
                gain[graph.first[u] + s] = along[graph.first[u] + s]
        for u in graph.order[::-1]:
            parent = graph.parent[u]
            if parent < 0:
                continue
            for r in range(graph.states[parent]):
                if up[graph.first[parent] + r] > -np.inf:
                    _conditional(scores, graph, up, u, r, given)
                    gain[graph.first[parent] + r] += _expected(along, graph, gain, given, u, r)
        for u in graph.order:
            first, parent = graph.first[u], graph.parent[u]
            for s in range(graph.states[u]):
                mean[first + s] = slope[first + s] = 0.0
            for r in range(graph.states[parent] if parent >= 0 else 1):
                weight, change = 1.0, 0.0
                if parent >= 0:
                    weight = mean[graph.first[parent] + r]
                    change = slope[graph.first[parent] + r]
                state = r if parent >= 0 else -1
                average = 0.0
                if weight > 0:
                    _conditional(scores, graph, up, u, state, given)
                    average = _expected(along, graph, gain, given, u, state)
                for s in range(graph.states[u]):
                    joint, moved = 0.0, 0.0
                    if weight > 0 and given[s] > 0:
                        own = gain[first + s]
                        if parent >= 0:
                            own += along[_entry(graph, u, r, s)]
                        joint = weight * given[s]
                        moved = given[s] * (change + weight * (own - average))
                    mean[first + s] += joint
                    slope[first + s] += moved
                    if parent >= 0:
                        slope[_entry(graph, u, r, s)] = moved


@njit(cache=True, nogil=True)
def _expected(along, graph, gain, given, u, r):
    """The expected gain of the subtree of u and its edge, given the parent's state."""
    total = 0.0
    for s in range(graph.states[u]):
        if given[s] > 0:
            own = gain[graph.first[u] + s]
            if r >= 0:
                own += along[_entry(graph, u, r, s)]
            total += given[s] * own
    return total


@njit(cache=True, nogil=True)
def sample_rows(theta, graph, uniform, chosen, start, stop):
    """Write assignments (draw, row, node), from the roots down; -1, or a row without one."""
    up = np.empty(_total(graph.states))
    given = np.empty(_most(graph.states))
    for row in range(start, stop):
        if _collect(theta[row], graph, up) == -np.inf:
            return row
        for draw in range(len(chosen)):
            states = chosen[draw, row]
            for u in graph.order:
                r = states[graph.parent[u]] if graph.parent[u] >= 0 else -1
                _conditional(theta[row], graph, up, u, r, given)
                left, pick = uniform[draw, row, u], 0
                for s in range(graph.states[u]):
                    if given[s] > 0 and left >= 0:
                        pick = s
                        left -= given[s]
                states[u] = pick
    return -1


@njit(cache=True, nogil=True)
def kbest_rows(theta, graph, count, value, chosen, start, stop):
    """Write scores (row, rank) and assignments (row, rank, node) of the best of each row.

    best[first[u] + s] lists the ``count`` best scores of the subtree of u in state s. A child adds
    the best of its states to each of them: two sorted lists of sums, whose best are found through
    the corner of each row; ``pick`` and ``place`` tell which states and ranks made them.
    """
    nodes, size = len(graph.order), _total(graph.states)
    best = np.empty((size, count))
    # for a child u and a state r of its parent: the child's state and rank, and the rank of the
    # list before the child came, of each sum
    width = _most(graph.states)
    pick = np.empty((nodes, width, count), np.int64)
    place = np.empty((nodes, width, count), np.int64)
    former = np.empty((nodes, width, count), np.int64)
    message, message_state, message_rank = (
        np.empty(count),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    merged = np.empty(count)
    taken = np.empty(max(width, count), np.int64)
    ranks = np.empty(nodes, np.int64)
    for row in range(start, stop):
        scores = theta[row]
        for i in range(size):
            best[i, :] = -np.inf
            best[i, 0] = 0.0
        for u in graph.order:
            for s in range(graph.states[u]):
                best[graph.first[u] + s, 0] = scores[graph.first[u] + s]
        for u in graph.order[::-1]:
            parent = graph.parent[u]
            if parent < 0:
                continue
            for r in range(graph.states[parent]):
                taken[:] = 0
                for k in range(count):
                    top, state = -np.inf, -1
                    for s in range(graph.states[u]):
                        if taken[s] < count:
                            score = best[graph.first[u] + s, taken[s]]
                            score += scores[_entry(graph, u, r, s)]
                            if score > top:
                                top, state = score, s
                    message[k] = top
                    if state >= 0:
                        message_state[k], message_rank[k] = state, taken[state]
                        taken[state] += 1
                mine = best[graph.first[parent] + r]
                taken[:] = 0
                for k in range(count):
                    top, source = -np.inf, -1
                    for a in range(count):
                        if taken[a] < count and mine[a] + message[taken[a]] > top:
                            top, source = mine[a] + message[taken[a]], a
                    merged[k] = top
                    if source >= 0:
                        former[u, r, k] = source
                        pick[u, r, k] = message_state[taken[source]]
                        place[u, r, k] = message_rank[taken[source]]
                        taken[source] += 1
                copy(merged, mine)
        _combine_roots(graph, best, count, value[row], chosen[row], former, pick, place, ranks)


@njit(cache=True, nogil=True)
def _combine_roots(graph, best, count, value, chosen, former, pick, place, ranks):
    """The best combinations over the trees of the forest, then each traced down."""
    nodes = len(graph.order)
    value[:] = -np.inf
    value[0] = 0.0
    roots = 0
    for u in graph.order:
        roots += graph.parent[u] < 0
    states = np.empty((roots, count), np.int64)
    places = np.empty((roots, count), np.int64)
    fresh = np.empty(count)
    kept_states = np.empty((roots, count), np.int64)
    kept_places = np.empty((roots, count), np.int64)
    root_of = np.empty(roots, np.int64)
    done = 0
    for u in graph.order:
        if graph.parent[u] >= 0:
            continue
        root_of[done] = u
        n_states = graph.states[u]
        taken = np.zeros((count, n_states), np.int64)  # of each combination, by state
        for k in range(count):
            top, source, state = -np.inf, -1, -1
            for a in range(count):
                for s in range(n_states):
                    if taken[a, s] < count:
                        score = value[a] + best[graph.first[u] + s, taken[a, s]]
                        if score > top:
                            top, source, state = score, a, s
            fresh[k] = top
            if source >= 0:
                for d in range(done):
                    kept_states[d, k], kept_places[d, k] = states[d, source], places[d, source]
                kept_states[done, k], kept_places[done, k] = state, taken[source, state]
                taken[source, state] += 1
        done += 1
        copy(fresh, value)
        copy_block(kept_states, states)
        copy_block(kept_places, places)
    children = graph.order[::-1]
    for k in range(count):
        if value[k] == -np.inf:
            continue
        for d in range(roots):
            chosen[k, root_of[d]], ranks[root_of[d]] = states[d, k], places[d, k]
        # children joined their parent's lists from the last to the first, so the ranks of a
        # parent are undone from the first child in the order to the last
        for position in range(nodes - 1, -1, -1):
            u = children[position]
            parent = graph.parent[u]
            if parent >= 0:
                r, rank = chosen[k, parent], ranks[parent]
                chosen[k, u], ranks[u] = pick[u, r, rank], place[u, r, rank]
                ranks[parent] = former[u, r, rank]
