"""Best spanning trees of a directed graph, and cuts: one graph per row.

A row of n nodes holds n n scores [head, dependent]; node 0 is the root, the diagonal and column 0
are not read. All kernels take the flat values of a batch, where its rows are cut (offsets) and
their numbers of nodes, and work on the rows start, ..., stop - 1. With ``single`` the root has
exactly one dependent. Kernels that search return -1, or the first row without a tree.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.copying import copy
from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def _largest(nodes, start, stop):
    largest = 1
    for row in range(start, stop):
        largest = max(largest, nodes[row])
    return largest


@njit(cache=True, nogil=True)
def _workspace(n):
    """What ``_best_tree`` writes to: entering scores and nodes, and ten vectors."""
    return np.empty((n, n)), np.empty((n, n), np.int32), np.empty((10, 2 * n), np.int64)


@njit(cache=True, nogil=True)
def _transpose(score, into):
    """into[dependent, head] in float64; arcs that are not there are -inf."""
    n = len(score)
    for j in range(1, n):
        for i in range(n):
            into[j, i] = score[i, j]
        into[j, j] = -np.inf


@njit(cache=True, nogil=True)
def _best_tree(n, single, into, enter, vectors, value, head):
    """Chu-Liu-Edmonds on a dense graph in O(n^2); False where there is no tree.

    A path is grown backwards along best entering arcs; where it closes a cycle, the cycle becomes
    one node whose entering scores are those of its members less what the members give up. The root
    ends a path. With ``single`` an arc of the root is taken only where no other arc enters, which
    orders trees by their number of root arcs first: no large constant, hence no rounding.
    """
    comp, place, path, name = vectors[0], vectors[1], vectors[2], vectors[3]
    parent, tail, tip, covered, finished = (
        vectors[4],
        vectors[5],
        vectors[6],
        vectors[7],
        vectors[8],
    )
    for j in range(n):
        comp[j], place[j], name[j], finished[j] = j, -1, j, 0
        for i in range(n):
            enter[j, i] = j
    finished[0] = 1
    names, root_arcs = n, 0
    for begin in range(1, n):
        if finished[comp[begin]]:
            continue
        depth = 1
        path[0] = comp[begin]
        place[path[0]] = 0
        while True:
            c = path[depth - 1]
            u, top = -1, -np.inf
            for i in range(1 if single else 0, n):
                if into[c, i] > top:
                    u, top = i, into[c, i]
            if u < 0 and single and into[c, 0] > top:
                u, top = 0, into[c, 0]
            if u < 0:
                return False
            tail[name[c]], tip[name[c]], value[c] = u, enter[c, u], top
            if finished[comp[u]]:
                root_arcs += u == 0
                break
            if place[comp[u]] < 0:
                place[comp[u]] = depth
                path[depth] = comp[u]
                depth += 1
                continue
            first = place[comp[u]]
            c = path[first]
            for i in range(n):
                into[c, i] -= value[c]
            for t in range(first, depth):
                member = path[t]
                parent[name[member]] = names
                if t > first:
                    given_up = value[member]
                    for i in range(n):
                        if into[member, i] - given_up > into[c, i]:
                            into[c, i] = into[member, i] - given_up
                            enter[c, i] = enter[member, i]
            for i in range(1, n):
                if place[comp[i]] >= first:
                    comp[i] = c
                    into[c, i] = -np.inf
            name[c] = names
            names += 1
            depth = first + 1
        for t in range(depth):
            finished[path[t]] = 1
            place[path[t]] = -1
    if single and root_arcs > 1:
        return False
    # the arc that enters a cycle replaces the arc of the member it enters, the others stay
    for c in range(names):
        covered[c] = 0
    for c in range(names - 1, 0, -1):
        if covered[c]:
            continue
        node = tip[c]
        head[node] = tail[c]
        while node != c:
            covered[node] = 1
            node = parent[node]
    return True


@njit(cache=True, nogil=True)
def _write_tree(head, n, vertex):
    for i in range(vertex.size):
        vertex[i] = 0
    for j in range(1, n):
        vertex[head[j] * n + j] = 1


@njit(cache=True, nogil=True)
def argmax_rows(theta, offsets, nodes, single, out, start, stop):
    """Write the best tree of each row."""
    largest = _largest(nodes, start, stop)
    into, enter, vectors = _workspace(largest)
    value, head = np.empty(largest), np.empty(largest, np.int64)
    for row in range(start, stop):
        n = nodes[row]
        _transpose(theta[offsets[row] : offsets[row + 1]].reshape(n, n), into)
        if not _best_tree(n, single, into, enter, vectors, value, head):
            return row
        _write_tree(head, n, out[offsets[row] : offsets[row + 1]])
    return -1


@njit(cache=True, nogil=True)
def kbest_rows(theta, offsets, nodes, single, k, scores, out, start, stop):
    """Write the k best trees of each row into out[:k], their scores falling.

    Lawler's partition: what is left after a tree T falls into the trees that agree with T on the
    nodes before b and differ on b, for each b. The best tree of each part waits in a list of k.
    """
    largest = _largest(nodes, start, stop)
    into, enter, vectors = _workspace(largest)
    value, head = np.empty(largest), np.empty(largest, np.int64)
    heads = np.empty((k, largest), np.int64)  # the trees that wait, ...
    barred = np.empty((k, largest), np.bool_)  # ... the heads their parts forbid to ...
    branch = np.empty(k, np.int64)  # ... the first node that is not fixed
    waiting = np.empty(k)
    tree, forbidden = np.empty(largest, np.int64), np.empty(largest, np.bool_)
    for row in range(start, stop):
        n = nodes[row]
        score = theta[offsets[row] : offsets[row + 1]].reshape(n, n)
        waiting[:] = -np.inf
        _transpose(score, into)
        if not _best_tree(n, single, into, enter, vectors, value, head):
            return row
        waiting[0], branch[0] = _total(score, head), 1
        copy(head[:n], heads[0])
        barred[0, :n] = False
        for found in range(k):
            best = np.argmax(waiting)
            scores[row, found] = waiting[best]
            vertex = out[found, offsets[row] : offsets[row + 1]]
            if waiting[best] == -np.inf:
                vertex[:] = 0
                continue
            first = branch[best]
            copy(heads[best, :n], tree)
            copy(barred[best, :n], forbidden)
            waiting[best] = -np.inf
            _write_tree(tree, n, vertex)
            # no more trees can be asked for than are still to be found
            for b in range(first, n):
                if b > first:
                    forbidden[:n] = False
                forbidden[tree[b]] = True
                _transpose(score, into)
                for j in range(1, b):
                    kept = into[j, tree[j]]
                    into[j, :n] = -np.inf
                    into[j, tree[j]] = kept
                for i in range(n):
                    if forbidden[i]:
                        into[b, i] = -np.inf
                if not _best_tree(n, single, into, enter, vectors, value, head):
                    continue
                total = _total(score, head)
                worst = np.argmin(waiting)
                if total > waiting[worst]:
                    waiting[worst], branch[worst] = total, b
                    copy(head[:n], heads[worst])
                    copy(forbidden[:n], barred[worst])
    return -1


@njit(cache=True, nogil=True)
def _total(score, head):
    total = 0.0
    for j in range(1, len(score)):
        total += score[head[j], j]
    return total


@njit(cache=True, nogil=True)
def violation_rows(p, offsets, nodes, single, atol, out, start, stop):
    """Write how far each row is from satisfying the inequalities of the polytope.

    Entries >= 0, those of no arc 0, columns that sum to 1, a flow of 1 from the root to every node
    (the cuts), and a sum of 1 over the arcs of a single root.
    """
    largest = _largest(nodes, start, stop)
    residual, vectors = np.empty((largest, largest)), np.empty((2, largest), np.int64)
    for row in range(start, stop):
        n = nodes[row]
        mean = p[offsets[row] : offsets[row + 1]].reshape(n, n)
        worst, root = 0.0, 0.0
        for i in range(n):
            worst = _larger(worst, abs(np.float64(mean[i, i])))
            worst = _larger(worst, abs(np.float64(mean[i, 0])))
        for j in range(1, n):
            total = 0.0
            for i in range(n):
                worst = _larger(worst, -np.float64(mean[i, j]))
                total += mean[i, j]
            worst = _larger(worst, abs(total - 1.0))
            root += mean[0, j]
        if single and n > 1:
            worst = _larger(worst, abs(root - 1.0))
        for sink in range(1, n):
            if worst > atol:  # the cuts are looked at only where the rest holds
                break
            worst = _larger(worst, 1.0 - flow_to(mean, sink, atol, residual, vectors))
        out[row] = worst


@njit(cache=True, helper=True, nogil=True)
def flow_to(capacity, sink, atol, residual, vectors):
    """A flow from node 0 to the sink by shortest augmenting paths, largest up to atol or >= 1.

    Where it is below 1, the nodes beyond a smallest cut are left with a negative ``vectors[0]``.
    """
    n = len(capacity)
    origin, queue = vectors[0], vectors[1]
    for i in range(n):
        for j in range(n):
            residual[i, j] = capacity[i, j]
    total, negligible = 0.0, atol / (n * n)
    while total < 1.0 - atol:
        origin[:n] = -1
        origin[0], queue[0] = 0, 0
        seen, read = 1, 0
        while read < seen and origin[sink] < 0:
            i = queue[read]
            read += 1
            for j in range(n):
                if origin[j] < 0 and residual[i, j] > negligible:
                    origin[j] = i
                    queue[seen] = j
                    seen += 1
        if origin[sink] < 0:
            return total
        step, j = np.inf, sink
        while j != 0:
            step = min(step, residual[origin[j], j])
            j = origin[j]
        j = sink
        while j != 0:
            residual[origin[j], j] -= step
            residual[j, origin[j]] += step
            j = origin[j]
        total += step
    return 1.0


@njit(cache=True, nogil=True)
def _larger(x, y):
    """The larger of the two; inf if y is NaN."""
    return max(x, y) if y == y else np.inf
