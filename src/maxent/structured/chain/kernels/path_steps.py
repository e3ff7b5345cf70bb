"""Frank-Wolfe steps of a hinge over chains, one row at a time.

Row i has ``count[i]`` active paths with shares that sum to 1, their costs, and the matrix of their
inner products <F y, F z> in the metric 1/l2. Moving a share d from path z to path y changes the
primal by -a_i d (s_y - s_z) + a_i^2 d^2 / 2 ||F y - F z||^2, s = <w, F y> + cost: the best d is
exact, and the scores of all active paths follow from the inner products.

``damp`` multiplies 1/l2: less than 1 where the weights are held back (a proximal term). ``tokens``,
``chains``, ``W`` and ``active`` are the tuples of ``solvers._chains``.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.copying import copy
from maxent._support.compiling.kernels import njit
from maxent.structured.chain.kernels.marginals import best_path
from maxent.structured.chain.kernels.token_weights import clear, push, score, write_scores

_ROUNDING = 4e-16
_STEPS = 20  # pairwise steps of a row at most: more would fit it to weights that others change
_ALIKE = 1e-3  # share of the row's gap by which the scores of its paths may differ
_JOINS = 0.1  # share of the row's gap that a path of known states must gain to join


@njit(cache=True, nogil=True)
def _passage(edges, barrier, walled):
    """The transition scores with the barriers."""
    if barrier.size == 0:
        return edges
    for i in range(len(edges)):
        for j in range(len(edges)):
            walled[i, j] = edges[i, j] + barrier[i, j]
    return walled


@njit(cache=True, nogil=True)
def _list_states(paths, length, n, k, at, states, number):
    """The states of the active paths at each position, and where a state stands among them."""
    for t in range(length):
        for s in range(k):
            at[t, s] = -1
        number[t] = 0
    for a in range(n):
        _note_states(paths[a], length, at, states, number)


@njit(cache=True, nogil=True)
def _note_states(path, length, at, states, number):
    for t in range(length):
        s = path[t]
        if at[t, s] < 0:
            at[t, s] = number[t]
            states[t, number[t]] = s
            number[t] += 1


@njit(cache=True, nogil=True)
def _write_path_scores(paths, length, n, at, table, edges, scores):
    """Sums along the active paths; ``table`` holds the scores of the listed states."""
    for a in range(n):
        path = paths[a]
        before = path[0]
        total = table[0, at[0, before]]
        for t in range(1, length):
            s = path[t]
            total += table[t, at[t, s]] + edges[before, s]
            before = s
        scores[a] = total


@njit(cache=True, nogil=True)
def _best_of_listed(length, states, number, table, edges, best, path):
    """Write the best path through the listed states alone, and return its score."""
    for j in range(number[0]):
        best[0, j] = table[0, j]
    for t in range(1, length):
        for j in range(number[t]):
            s, top = states[t, j], -np.inf
            for i in range(number[t - 1]):
                top = max(top, best[t - 1, i] + edges[states[t - 1, i], s])
            best[t, j] = top + table[t, j]
    last = length - 1
    here = 0
    for j in range(number[last]):
        if best[last, j] > best[last, here]:
            here = j
    path[last] = states[last, here]
    total = best[last, here]
    for t in range(last - 1, -1, -1):
        s, top, here = path[t + 1], -np.inf, 0
        for i in range(number[t]):
            through = best[t, i] + edges[states[t, i], s]
            if through > top:
                top, here = through, i
        path[t] = states[t, here]
    return total


@njit(cache=True, nogil=True)
def _kept(paths, length, n, path):
    """Whether a path is active already."""
    for a in range(n):
        t = 0
        while t < length and paths[a, t] == path[t]:
            t += 1
        if t == length:
            return True
    return False


@njit(cache=True, nogil=True)
def _write_products(
    values, attributes, offsets, start, state, k, W, paths, products, first, length, a,
    at, states, number, table, line,
):  # fmt: skip
    """The inner products of path a with those before it and with itself."""
    _, _, unary_scale, edge_scale, room, edge_room = W
    path = paths[a]
    for t in range(length):
        push(
            values, attributes, offsets, start, state, k, unary_scale, 1.0, first + t, path[t], room
        )
        if t > 0:
            edge_room[path[t - 1], path[t]] += edge_scale[path[t - 1], path[t]]
    for t in range(length):
        for j in range(number[t]):
            table[t, j] = score(
                values, attributes, offsets, start, state, k, room, first + t, states[t, j]
            )
    _write_path_scores(paths, length, a + 1, at, table, edge_room, line)
    for b in range(a + 1):
        products[a, b] = line[b]
        products[b, a] = line[b]
    for t in range(length):
        clear(attributes, offsets, start, state, k, first + t, path[t], room)
        if t > 0:
            edge_room[path[t - 1], path[t]] = 0.0


@njit(cache=True, nogil=True)
def write_costs_and_products(tokens, chains, W, active, longest):
    """Costs and inner products of all active paths, as a start needs them."""
    values, attributes, offsets, start, state = tokens
    k = chains.cost.shape[1]
    at, states = np.empty((longest, k), np.int64), np.empty((longest, k), np.int64)
    number, table = np.empty(longest, np.int64), np.empty((longest, k))
    for i in range(len(chains.lengths)):
        first, length, n = chains.first[i], chains.lengths[i], active.count[i]
        room = active.slot[i + 1] - active.slot[i]
        begin = active.path_at[i]
        paths = active.paths[begin : begin + room * length].reshape(room, length)
        begin = active.product_at[i]
        products = active.products[begin : begin + room * room].reshape(room, room)
        line = np.empty(n)
        _list_states(paths, length, n, k, at, states, number)
        for a in range(n):
            total = 0.0
            for t in range(length):
                total += chains.cost[first + t, paths[a, t]]
            active.cost[active.slot[i] + a] = total
            _write_products(
                values, attributes, offsets, start, state, k, W, paths, products, first, length, a,
                at, states, number, table, line,
            )  # fmt: skip


@njit(cache=True, nogil=True)
def _balance(share, products, scores, weight, n, tolerance):
    """Pairwise steps until the active paths that are in use score alike."""
    for _ in range(_STEPS):
        best, worst = 0, -1
        for a in range(n):
            if scores[a] > scores[best]:
                best = a
            if share[a] > 0.0 and (worst < 0 or scores[a] < scores[worst]):
                worst = a
        ahead = scores[best] - scores[worst]
        if not ahead > tolerance:
            return
        curved = weight * (
            products[best, best] + products[worst, worst] - 2.0 * products[best, worst]
        )
        mass = share[worst]
        if ahead < mass * curved:
            mass = ahead / curved
            share[worst] -= mass
        else:
            share[worst] = 0.0
        share[best] += mass
        mass *= weight
        for a in range(n):
            scores[a] -= mass * (products[best, a] - products[worst, a])


@njit(cache=True, nogil=True)
def _move_weights(
    values, attributes, offsets, start, state, k, W, paths, share, before, amount, first, length, n,
    at, states, number, table,
):  # fmt: skip
    """w follows the change of the shares."""
    unary, edges, unary_scale, edge_scale, _, _ = W
    for t in range(length):
        for j in range(number[t]):
            table[t, j] = 0.0
    for a in range(n):
        change = share[a] - before[a]
        if change == 0.0:
            continue
        path = paths[a]
        for t in range(length):
            s = path[t]
            table[t, at[t, s]] += change
            if t > 0:
                edges[path[t - 1], s] -= amount * change * edge_scale[path[t - 1], s]
    for t in range(length):
        for j in range(number[t]):
            if abs(table[t, j]) > _ROUNDING:
                push(
                    values, attributes, offsets, start, state, k, unary_scale,
                    -amount * table[t, j], first + t, states[t, j], unary,
                )  # fmt: skip


@njit(cache=True, nogil=True)
def _drop_idle(paths, share, cost, products, length, n):
    """Forget paths without share; how many are left."""
    kept = 0
    for a in range(n):
        if share[a] == 0.0:
            continue
        if kept < a:
            share[kept], cost[kept] = share[a], cost[a]
            copy(paths[a, :length], paths[kept])
            copy(products[a, :n], products[kept])
            copy(products[:n, a], products[:, kept])
        kept += 1
    share[kept:n] = 0.0
    return kept


@njit(cache=True, nogil=True)
def visit_rows(order, oracle, damp, tokens, chains, W, active, gaps, full, longest):
    """Steps of the rows in order; how many of them moved.

    With ``oracle`` the best of all paths joins the active ones of a row before it is moved, else
    the best of those whose states are in use. Write the gaps that the rows had, and mark those
    that had no slot left for a path.
    """
    values, attributes, offsets, start, state = tokens
    unary, edges = W.unary, W.edges
    cost = chains.cost
    k, room = cost.shape[1], 0
    for i in range(len(chains.lengths)):
        room = max(room, active.slot[i + 1] - active.slot[i])
    at, states = np.empty((longest, k), np.int64), np.empty((longest, k), np.int64)
    number, path = np.empty(longest, np.int64), np.empty(longest, np.int64)
    theta, table, best = np.empty((longest, k)), np.empty((longest, k)), np.empty((longest, k))
    scores, before = np.empty(room), np.empty(room)
    walled = np.empty((k, k))
    moved = 0
    for i in order:
        first, length, n = chains.first[i], chains.lengths[i], active.count[i]
        begin, end = active.slot[i], active.slot[i + 1]
        room = end - begin
        share, path_cost = active.share[begin:end], active.cost[begin:end]
        begin = active.path_at[i]
        paths = active.paths[begin : begin + room * length].reshape(room, length)
        begin = active.product_at[i]
        products = active.products[begin : begin + room * room].reshape(room, room)
        passage = _passage(edges, chains.barrier, walled)
        _list_states(paths, length, n, k, at, states, number)
        if oracle:
            write_scores(
                values, attributes, offsets, start, state, k, unary, first, first + length, theta
            )
            for t in range(length):
                for j in range(k):
                    theta[t, j] += cost[first + t, j]
                for j in range(number[t]):
                    table[t, j] = theta[t, states[t, j]]
            best_path(theta[:length], passage.reshape(1, k, k), 0, best, path)
            top = best[length - 1, path[length - 1]]
        else:
            for t in range(length):
                for j in range(number[t]):
                    s = states[t, j]
                    table[t, j] = cost[first + t, s] + score(
                        values, attributes, offsets, start, state, k, unary, first + t, s
                    )
            top = _best_of_listed(length, states, number, table, passage, best, path)
        _write_path_scores(paths, length, n, at, table, edges, scores)
        mean, highest = 0.0, -np.inf
        for a in range(n):
            mean += share[a] * scores[a]
            highest = max(highest, scores[a])
        gap = max(top - mean, 0.0)
        gaps[i] = gap
        if not gap > _ROUNDING * (abs(top) + abs(mean)):
            continue
        joins = top - highest > (0.0 if oracle else _JOINS * gap)
        if joins and not _kept(paths, length, n, path):
            if n == room:
                full[i] = True
            else:
                copy(path[:length], paths[n])
                _note_states(path, length, at, states, number)
                _write_products(
                    values, attributes, offsets, start, state, k, W, paths, products, first, length,
                    n, at, states, number, table, before,
                )  # fmt: skip
                total = 0.0
                for t in range(length):
                    total += cost[first + t, path[t]]
                share[n], path_cost[n], scores[n] = 0.0, total, top
                n += 1
        copy(share[:n], before)
        weight = damp * chains.weights[i]
        _balance(share, products, scores, weight, n, _ALIKE * gap)
        _move_weights(
            values, attributes, offsets, start, state, k, W, paths, share, before, weight, first,
            length, n, at, states, number, table,
        )  # fmt: skip
        active.count[i] = _drop_idle(paths, share, path_cost, products, length, n)
        moved += 1
    return moved


@njit(cache=True, nogil=True)
def write_points(active, lengths, first, unary, edges):
    """The marginals of the states (token, state), and the summed ones of the transitions."""
    unary[:] = 0.0
    edges[:] = 0.0
    for i in range(len(lengths)):
        length, begin = lengths[i], active.path_at[i]
        for a in range(active.count[i]):
            share = active.share[active.slot[i] + a]
            path = active.paths[begin + a * length : begin + (a + 1) * length]
            for t in range(length):
                unary[first[i] + t, path[t]] += share
                if t > 0:
                    edges[i, path[t - 1], path[t]] += share


@njit(cache=True, nogil=True)
def copy_slots(old, new, lengths):
    """The active paths of the rows in larger or smaller rooms."""
    for i in range(len(lengths)):
        n, length = old.count[i], lengths[i]
        new.count[i] = n
        copy(old.share[old.slot[i] : old.slot[i] + n], new.share[new.slot[i] :])
        copy(old.cost[old.slot[i] : old.slot[i] + n], new.cost[new.slot[i] :])
        size, to, at = n * length, new.path_at[i], old.path_at[i]
        copy(old.paths[at : at + size], new.paths[to:])
        wide, narrow = new.slot[i + 1] - new.slot[i], old.slot[i + 1] - old.slot[i]
        for a in range(n):
            to, at = new.product_at[i] + a * wide, old.product_at[i] + a * narrow
            copy(old.products[at : at + n], new.products[to:])


@njit(cache=True, nogil=True)
def frank_wolfe_rows(order, tokens, chains, W, point, edge_point, gaps, longest):
    """Plain block Frank-Wolfe: from each row's point towards its best path; how many moved.

    (Lacoste-Julien et al., 2013, Algorithm 4.) ``point`` (token, state) and ``edge_point``
    (row, from, to) are marginals.
    """
    values, attributes, offsets, start, state = tokens
    unary, edges, unary_scale, edge_scale, room, _ = W
    k = chains.cost.shape[1]
    theta, best = np.empty((longest, k)), np.empty((longest, k))
    path, walled = np.empty(longest, np.int64), np.empty((k, k))
    moved = 0
    for i in order:
        first, length = chains.first[i], chains.lengths[i]
        passage = _passage(edges, chains.barrier, walled)
        write_scores(
            values, attributes, offsets, start, state, k, unary, first, first + length, theta
        )
        mean = 0.0
        for t in range(length):
            for s in range(k):
                theta[t, s] += chains.cost[first + t, s]
                mean += theta[t, s] * point[first + t, s]
        for r in range(k):
            for s in range(k):
                mean += edges[r, s] * edge_point[i, r, s]
        best_path(theta[:length], passage.reshape(1, k, k), 0, best, path)
        top = best[length - 1, path[length - 1]]
        gap = max(top - mean, 0.0)
        gaps[i] = gap
        if not gap > _ROUNDING * (abs(top) + abs(mean)):
            continue
        # the direction: the path less the point, which is written where the scores were
        step, edge_step = theta, walled
        for t in range(length):
            for s in range(k):
                step[t, s] = -point[first + t, s]
            step[t, path[t]] += 1.0
        for r in range(k):
            for s in range(k):
                edge_step[r, s] = -edge_point[i, r, s]
        for t in range(1, length):
            edge_step[path[t - 1], path[t]] += 1.0
        for t in range(length):
            for s in range(k):
                if step[t, s] != 0.0:
                    push(
                        values, attributes, offsets, start, state, k, unary_scale, step[t, s],
                        first + t, s, room,
                    )  # fmt: skip
        curved = 0.0
        for t in range(length):
            for s in range(k):
                if step[t, s] != 0.0:
                    curved += step[t, s] * score(
                        values, attributes, offsets, start, state, k, room, first + t, s
                    )
        for r in range(k):
            for s in range(k):
                curved += edge_step[r, s] ** 2 * edge_scale[r, s]
        weight = chains.weights[i]
        reach = min(1.0, gap / (weight * curved)) if curved > 0.0 else 1.0
        for t in range(length):
            for s in range(k):
                if step[t, s] != 0.0:
                    clear(attributes, offsets, start, state, k, first + t, s, room)
                    point[first + t, s] += reach * step[t, s]
                    push(
                        values, attributes, offsets, start, state, k, unary_scale,
                        -weight * reach * step[t, s], first + t, s, unary,
                    )  # fmt: skip
        for r in range(k):
            for s in range(k):
                edge_point[i, r, s] += reach * edge_step[r, s]
                edges[r, s] -= weight * reach * edge_step[r, s] * edge_scale[r, s]
        moved += 1
    return moved
