"""Optimal transport by the network simplex method: an exact vertex of the transport polytope.

Nodes are the m sources, the n sinks and a root; the first tree joins the root to each of them by
an artificial arc that costs more than any path. The tree stays strongly feasible (the leaving arc
is the last one that blocks, seen from the join), so that no sequence of pivots repeats itself.
"""

import numpy as np

from maxent._support.compiling.copying import copy
from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def _reduced(theta, potential, i, j, m):
    return theta[i, j] - potential[i] - potential[m + j]


@njit(cache=True, nogil=True)
def _entering(theta, potential, m, n, first, tolerance):
    """An arc whose score exceeds its potentials, the best of a block of rows; -1 if there is none.

    Scans on from row ``first``; gives the row to go on with as well.
    """
    best, chosen, scanned = tolerance, -1, 0
    for offset in range(m):
        i = (first + offset) % m
        for j in range(n):
            gain = _reduced(theta, potential, i, j, m)
            if gain > best:
                best, chosen = gain, i * n + j
        scanned += n
        if chosen >= 0 and scanned >= 2 * (m + n):
            return chosen, (i + 1) % m
    return chosen, first


@njit(cache=True, nogil=True)
def _join(parent, depth, u, v):
    while u != v:
        if depth[u] < depth[v]:
            v = parent[v]
        else:
            u = parent[u]
    return u


@njit(cache=True, nogil=True)
def _hang(node, above, parent, first, after, before):
    """Add a node to the children of ``above`` (doubly linked lists)."""
    parent[node] = above
    after[node], before[node] = first[above], -1
    if first[above] >= 0:
        before[first[above]] = node
    first[above] = node


@njit(cache=True, nogil=True)
def _cut(node, parent, first, after, before):
    """Take a node from the children of its parent."""
    if before[node] >= 0:
        after[before[node]] = after[node]
    else:
        first[parent[node]] = after[node]
    if after[node] >= 0:
        before[after[node]] = before[node]


@njit(cache=True, nogil=True)
def best_coupling(theta, a, b, p):
    """Write the best coupling of finite scores (-inf: none) of about unit size.

    False where those of -inf leave no coupling with these sums.
    """
    m, n = theta.shape
    root, size = m + n, m + n + 1
    penalty = 2.0 * size
    parent, depth = np.full(size, root), np.ones(size, np.int64)
    first, after, before = np.full(size, -1), np.full(size, -1), np.full(size, -1)
    flow, potential, upward = np.zeros(size), np.zeros(size), np.zeros(size, np.bool_)
    parent[root], depth[root] = -1, 0
    for node in range(m + n):
        # mass goes up from sources and down to sinks; the flow of a node is that of its arc up
        source = node < m
        flow[node] = a[node] if source else b[node - m]
        upward[node] = source
        potential[node] = -penalty
        _hang(node, root, parent, first, after, before)
    stack = np.empty(size, np.int64)
    row, tolerance = 0, 1e-15 * size * size  # rounding of potentials
    for _ in range(1000 * size * size):
        arc, row = _entering(theta, potential, m, n, row, tolerance)
        if arc < 0:
            break
        u, v = arc // n, m + arc % n
        join = _join(parent, depth, u, v)
        # the cycle runs join -> u, then u -> v, then v -> join; arcs against it lose flow
        step, leave, from_u = np.inf, -1, True
        node = u
        while node != join:  # nearest to u comes last before the entering arc
            if upward[node] and flow[node] < step:
                step, leave, from_u = flow[node], node, True
            node = parent[node]
        node = v
        while node != join:  # later arcs of the cycle win ties
            if not upward[node] and flow[node] <= step:
                step, leave, from_u = flow[node], node, False
            node = parent[node]
        node = u
        while node != join:
            flow[node] += -step if upward[node] else step
            node = parent[node]
        node = v
        while node != join:
            flow[node] += step if upward[node] else -step
            node = parent[node]
        # turn the path from the entering arc to the leaving one upside down
        node, above = (u, v) if from_u else (v, u)
        carried, direction = step, node < m
        while True:
            old_parent, old_flow, old_direction = parent[node], flow[node], upward[node]
            _cut(node, parent, first, after, before)
            _hang(node, above, parent, first, after, before)
            flow[node], upward[node] = carried, direction
            if node == leave:
                break
            carried, direction = old_flow, not old_direction
            node, above = old_parent, node
        # depths and potentials below the new arc
        stack[0], count = (u if from_u else v), 1
        while count:
            count -= 1
            node = stack[count]
            above = parent[node]
            depth[node] = depth[above] + 1
            if above == root:
                potential[node] = -penalty
            else:
                i, j = (node, above - m) if node < m else (above, node - m)
                potential[node] = theta[i, j] - potential[above]
            child = first[node]
            while child >= 0:
                stack[count] = child
                count += 1
                child = after[child]
    return _flows(a, b, parent, first, after, p)


@njit(cache=True, nogil=True)
def _flows(a, b, parent, first, after, p):
    """The flow of a spanning tree from the sums alone, leaves first; False if the root has any."""
    m, n = p.shape
    root = m + n
    order, count = np.empty(root + 1, np.int64), 1
    order[0] = root
    for place in range(root + 1):
        child = first[order[place]]
        while child >= 0:
            order[count] = child
            count += 1
            child = after[child]
    mass = np.empty(root + 1)
    copy(a, mass)
    copy(b, mass[m:])
    mass[root] = 0.0
    p[:] = 0.0
    total = 0.0
    for i in range(m):
        total += a[i]
    slack = 1e-11 * total
    possible = True
    for place in range(root, 0, -1):
        node = order[place]
        above = parent[node]
        if above == root:
            # only one tree hangs at the root, or several that balance
            possible &= abs(mass[node]) <= slack
            continue
        i, j = (node, above - m) if node < m else (above, node - m)
        p[i, j] = max(mass[node], 0.0)
        mass[above] -= mass[node]
    return possible
