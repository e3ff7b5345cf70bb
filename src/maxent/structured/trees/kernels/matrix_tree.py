"""Sums over spanning trees of a directed graph without a subtraction, one graph per row.

The determinant of the Matrix-Tree theorem (Koo et al. 2007; McDonald and Satta 2007) by
eliminating nodes as in the algorithm of Grassmann, Taksar and Heyman: node k with total entering
weight t_k leaves the graph, the arc from i to j gains a(i, k) a(k, j) / t_k, and Z is the product
of the totals. Nothing is subtracted, so every digit is right however far apart the weights are.
A root with a single dependent is the limit of root arcs of weight epsilon a(0, j), epsilon -> 0:
they count in a total only where nothing else does.

Marginals: the arc from h to d has probability proportional to a(h, d) e_d(h), where e_d(h) is the
chance that a walk from h along random heads reaches the root without meeting d (Wilson 1996). It
needs an elimination that ends at d; halving the nodes again and again shares the work of all d, in
O(n^3). Derivatives follow every step; they are averages, hence as accurate as the sums.

A graph has m = n - 1 nodes beside the root; its matrix holds weights [dependent, head], (m, m + 2),
with the root arcs in column m, and those of order epsilon in column m + 1. Weights are plain
numbers where these do not underflow, logarithms elsewhere.
"""

from __future__ import annotations

import math

import numpy as np

from maxent._support.compiling.kernels import njit

# Plain weights are trusted while the product of the totals below 1 is above _TINY: what underflows
# (below 1e-300) then moves no marginal by more than 1e-100.
_TINY = 1e-200
_NEGLIGIBLE = -40.0  # exp of it does not move a sum


@njit(cache=True, nogil=True)
def _room(m):
    """Entries of the matrices of all depths of the recursion."""
    room = 0
    while m > 1:
        room += m * (m + 2)
        m = (m + 1) // 2
    return room + 1


@njit(cache=True, nogil=True)
def _largest(nodes, start, stop):
    largest = 2
    for row in range(start, stop):
        largest = max(largest, nodes[row])
    return largest


@njit(cache=True, nogil=True)
def read_weights(theta, single, weight):
    """Write log weights, each column of the scores less its largest; return what was taken off.

    Where the root is single its arcs are apart, less their own largest. NaN where a node has no
    head but the single root, or none at all: the weights are then the scores as they are.
    """
    m = len(theta) - 1
    taken, top_root = 0.0, -np.inf
    for j in range(m):
        top = -np.inf
        for i in range(m):
            weight[j, i] = theta[i + 1, j + 1]
            if i != j:
                top = max(top, weight[j, i])
        weight[j, j] = -np.inf
        weight[j, m], weight[j, m + 1] = -np.inf, -np.inf
        weight[j, m + single] = theta[0, j + 1]
        if not single:
            top = max(top, weight[j, m])
        elif m == 1:
            top = 0.0
        if top > -np.inf:
            for i in range(m + 2):
                weight[j, i] -= top
        taken += top
        top_root = max(top_root, weight[j, m + 1])
    if taken == -np.inf:
        for j in range(m):
            for i in range(m):
                if i != j:
                    weight[j, i] = theta[i + 1, j + 1]
            weight[j, m + single] = theta[0, j + 1]
        return np.nan
    if single and top_root > -np.inf:
        for j in range(m):
            weight[j, m + 1] -= top_root
        taken += top_root
    return taken


@njit(cache=True, nogil=True, fastmath={"contract"})
def _exp(x, y, scale):
    """Write exp(x), x <= 0, to y, 0 below -700; vectorised, which calls of exp are not.

    exp(x) = 2^k exp(r) with |r| <= log(2) / 2 and a polynomial for exp(r). Adding 1.5 2^52 rounds
    to k and leaves it in the last bits, from where it moves to the exponent.
    """
    for i in range(x.size):
        z = x[i] if x[i] > -708.0 else -708.0
        shifted = z * 1.4426950408889634 + 6755399441055744.0
        scale[i] = shifted
        k = shifted - 6755399441055744.0
        r = (z - k * 0.6931471803691238) - k * 1.9082149292705877e-10  # log 2 in two parts
        r2 = r * r
        r4 = r2 * r2
        low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6))
        middle = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040))
        high = (1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800))
        top = 1.0 / 479001600 + r * (1.0 / 6227020800)
        y[i] = low + r4 * (middle + r4 * (high + r4 * top))
    bits = scale.view(np.int64)
    for i in range(x.size):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(x.size):
        y[i] = y[i] * scale[i] if x[i] > -700.0 else 0.0


@njit(cache=True, nogil=True)
def _log_add(x, dx, y, dy):
    """log(e^x + e^y) and its derivative."""
    if x < y:
        x, dx, y, dy = y, dy, x, dx
    if not y - x > _NEGLIGIBLE:
        return x, dx
    share = math.exp(y - x)
    return x + math.log1p(share), (dx + share * dy) / (1.0 + share)


# --- elimination --------------------------------------------------------------------------
# A block of s nodes lies in ``work`` from ``base`` on, rows of ``width`` entries: its nodes, then
# the two root columns. The first ``count`` nodes go; their rows keep the chances of their heads.


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _eliminate(work, base, width, s, count, single):
    """Plain weights; return the product of the totals below 1 and the log of all, (0, .) at a 0."""
    lost, gained = 1.0, 0.0
    for k in range(count):
        here = base + k * (width + 1)  # slices from the diagonal on: loops from 0 are vectorised
        out = work[here + 1 : here + s + 2 - k]
        total = 0.0
        for i in range(out.size - 1 - single):
            total += out[i]
        if not total > 0.0:
            return 0.0, 0.0
        lost *= min(1.0, total)
        gained += math.log(total)
        inverse = 1.0 / total
        for i in range(out.size):
            out[i] *= inverse
        for j in range(k + 1, s):
            there = base + j * width + k
            through = work[there]
            into = work[there + 1 : there + s + 2 - k]
            for i in range(out.size):
                into[i] += through * out[i]
    return lost, gained


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _eliminate_tangent(work, slope, base, width, s, count, single):
    """``_eliminate`` with the derivatives of the weights in ``slope``; returns the product."""
    lost = 1.0
    for k in range(count):
        here = base + k * (width + 1)
        out, d_out = work[here + 1 : here + s + 2 - k], slope[here + 1 : here + s + 2 - k]
        total, d_total = 0.0, 0.0
        for i in range(out.size - 1 - single):
            total += out[i]
            d_total += d_out[i]
        if not total > 0.0:
            return 0.0
        lost *= min(1.0, total)
        inverse = 1.0 / total
        for i in range(out.size):
            out[i] *= inverse
            d_out[i] = (d_out[i] - out[i] * d_total) * inverse
        for j in range(k + 1, s):
            there = base + j * width + k
            through, d_through = work[there], slope[there]
            into, d_into = work[there + 1 : there + s + 2 - k], slope[there + 1 : there + s + 2 - k]
            for i in range(out.size):
                into[i] += through * out[i]
                d_into[i] += d_through * out[i] + through * d_out[i]
    return lost


@njit(cache=True, nogil=True)
def _eliminate_log(work, slope, base, width, s, count):
    """Log weights and their derivatives; return the order of epsilon and the log of the totals."""
    order, gained = 0, 0.0
    for k in range(count):
        out, d_out = base + k * width, slope[base + k * width : base + k * width + s + 2]
        total, d_total = -np.inf, 0.0
        for i in range(k + 1, s + 1):
            total, d_total = _log_add(total, d_total, work[out + i], d_out[i])
        if total == -np.inf:
            order += 1
            gained += work[out + s + 1]
            work[out + s], d_out[s] = 0.0, 0.0
            work[out + s + 1] = -np.inf
        else:
            gained += total
            for i in range(k + 1, s + 2):
                work[out + i] -= total
                d_out[i] -= d_total
        for j in range(k + 1, s):
            into = base + j * width
            through = work[into + k]
            if through == -np.inf:
                continue
            d_into = slope[into : into + s + 2]
            for i in range(k + 1, s + 2):
                work[into + i], d_into[i] = _log_add(
                    work[into + i], d_into[i], through + work[out + i], d_into[k] + d_out[i]
                )
    return order, gained


@njit(cache=True, nogil=True)
def _copy_block(source, base, width, s, low, high, target, target_base):
    """Copy a block with its nodes low, ..., high - 1 last, rows of s + 2 entries."""
    row = target_base
    for part in range(2):
        for j in range(s):
            if (low <= j < high) == (part == 1):
                old = base + j * width
                column = row
                for i in range(low):
                    target[column] = source[old + i]
                    column += 1
                for i in range(high, s):
                    target[column] = source[old + i]
                    column += 1
                for i in range(low, high):
                    target[column] = source[old + i]
                    column += 1
                target[column] = source[old + s]
                target[column + 1] = source[old + s + 1]
                row += s + 2


# --- chances of escape --------------------------------------------------------------------
# chance[h, d] = e_d(h). A block of nodes first, ..., first + s - 1, the others eliminated, is
# halved: one half is eliminated for the sake of the other, and its chances are read off those.
# What is to be done depends on m alone and is written down as a list of steps.

_LEAVE, _END, _READ = 0, 1, 2


@njit(cache=True, nogil=True)
def step_numbers(m):
    """Steps (kind, depth, base, width, s, half, part, place, pitch, first) for m nodes.

    _LEAVE eliminates the second half of a block (part 0, from a copy at ``place``) or the first
    (part 1, where it lies, as it is not needed again), _END finds one node left, _READ reads the
    chances of those eliminated.
    """
    steps = np.empty((6 * m, 10), np.int64)
    frames = np.empty((70, 6), np.int64)  # base, width, s, free, first, parts done
    frames[0] = (0, m + 2, m, m * (m + 2), 0, 0)
    depth, count = 0, 0
    while depth >= 0:
        base, width, s, free, first, done = frames[depth]
        half = s // 2
        if s == 1:
            steps[count] = (_END, depth, base, width, s, 0, 0, base, width, first)
            count += 1
            depth -= 1
            continue
        for kind in (_READ, _LEAVE):
            part = done - 1 if kind == _READ else done
            if 0 <= part < 2:
                place, pitch = (free, s + 2) if part == 0 else (base, width)
                steps[count] = (kind, depth, base, width, s, half, part, place, pitch, first)
                count += 1
        if done == 2:
            depth -= 1
            continue
        frames[depth, 5] += 1
        depth += 1
        if done == 0:
            gone = s - half
            frames[depth] = (free + gone * (s + 3), s + 2, half, free + s * (s + 2), first, 0)
        else:
            frames[depth] = (base + half * (width + 1), width, s - half, free, first + half, 0)
    return steps[:count]


@njit(cache=True, nogil=True)
def _places(s, half, part, first):
    """Nodes eliminated, nodes kept, and where in the graph either begin."""
    if part == 0:
        return s - half, half, first + half, first
    return half, s - half, first, first + half


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _add(x, here, there, weight, size):
    """x[here:] += weight x[there:]; unsigned places, which need no look for negative ones."""
    for i in range(size):
        x[here + i] += weight * x[there + i]


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _add_four(x, here, a, b, c, d, w, size):
    """x[here:] += w_0 x[a:] + w_1 x[b:] + w_2 x[c:] + w_3 x[d:]: fewer loads than one by one."""
    for i in range(size):
        x[here + i] += w[0] * x[a + i] + w[1] * x[b + i] + (w[2] * x[c + i] + w[3] * x[d + i])


@njit(cache=True, nogil=True)
def _escape(work, steps, single, chance):
    """Plain weights; return log Z, or NaN where they are not to be trusted."""
    lost, gained = np.ones(70), np.zeros(70)
    value = np.nan
    m, flat = chance.shape[1], chance.reshape(-1)
    for kind, depth, base, width, s, half, part, place, pitch, first in steps:
        if kind == _END:
            total = work[base + 1 + single]
            if not lost[depth] * min(1.0, total) > _TINY:
                return np.nan
            value = gained[depth] + math.log(total)
            chance[first, first] = 0.0
            continue
        gone, kept, outside, inside = _places(s, half, part, first)
        if kind == _LEAVE:
            if part == 0:
                _copy_block(work, base, width, s, 0, half, work, place)
            product, more = _eliminate(work, place, pitch, s, gone, single)
            lost[depth + 1], gained[depth + 1] = lost[depth] * product, gained[depth] + more
            if not lost[depth + 1] > _TINY:
                return np.nan
            continue
        for k in range(gone - 1, -1, -1):
            heads = work[place + k * pitch : place + k * pitch + s + 2]
            here, size = np.uint64((outside + k) * m + inside), np.uint64(kept)
            for d in range(size):
                flat[here + d] = heads[s + single]
            for i in range(k + 1, gone):
                _add(flat, here, np.uint64((outside + i) * m + inside), heads[i], size)
            i, node = gone, inside * (m + 1)
            while i + 4 <= s:
                _add_four(
                    flat,
                    here,
                    np.uint64(node),
                    np.uint64(node + m),
                    np.uint64(node + 2 * m),
                    np.uint64(node + 3 * m),
                    (heads[i], heads[i + 1], heads[i + 2], heads[i + 3]),
                    size,
                )
                i, node = i + 4, node + 4 * m
            while i < s:
                _add(flat, here, np.uint64(node), heads[i], size)
                i, node = i + 1, node + m
    return value


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _escape_tangent(work, slope, steps, single, chance, d_chance):
    """``_escape`` with derivatives; return whether plain weights can be trusted."""
    lost = np.ones(70)
    for kind, depth, base, width, s, half, part, place, pitch, first in steps:
        if kind == _END:
            if not lost[depth] * min(1.0, work[base + 1 + single]) > _TINY:
                return False
            chance[first, first], d_chance[first, first] = 0.0, 0.0
            continue
        gone, kept, outside, inside = _places(s, half, part, first)
        if kind == _LEAVE:
            if part == 0:
                _copy_block(work, base, width, s, 0, half, work, place)
                _copy_block(slope, base, width, s, 0, half, slope, place)
            product = _eliminate_tangent(work, slope, place, pitch, s, gone, single)
            lost[depth + 1] = lost[depth] * product
            if not lost[depth + 1] > _TINY:
                return False
            continue
        for k in range(gone - 1, -1, -1):
            heads = work[place + k * pitch : place + k * pitch + s + 2]
            d_heads = slope[place + k * pitch : place + k * pitch + s + 2]
            here = chance[outside + k, inside : inside + kept]
            d_here = d_chance[outside + k, inside : inside + kept]
            for d in range(kept):
                here[d], d_here[d] = heads[s + single], d_heads[s + single]
            for i in range(k + 1, s):
                node = outside + i if i < gone else inside + i - gone
                there = chance[node, inside : inside + kept]
                d_there = d_chance[node, inside : inside + kept]
                share, d_share = heads[i], d_heads[i]
                for d in range(kept):
                    here[d] += share * there[d]
                    d_here[d] += d_share * there[d] + share * d_there[d]
    return True


@njit(cache=True, nogil=True)
def _escape_log(work, slope, steps, chance, d_chance):
    """Log chances of orders 0 and 1 (first axis); return the order of Z and its log."""
    orders, gained = np.zeros(70, np.int64), np.zeros(70)
    order, value = 0, 0.0
    for kind, depth, base, width, s, half, part, place, pitch, first in steps:
        if kind == _END:
            for level in range(2):
                chance[level, first, first], d_chance[level, first, first] = -np.inf, 0.0
            late = work[base + 1] == -np.inf
            order, value = orders[depth] + late, gained[depth] + work[base + 1 + late]
            continue
        gone, kept, outside, inside = _places(s, half, part, first)
        if kind == _LEAVE:
            if part == 0:
                _copy_block(work, base, width, s, 0, half, work, place)
                _copy_block(slope, base, width, s, 0, half, slope, place)
            more, product = _eliminate_log(work, slope, place, pitch, s, gone)
            orders[depth + 1], gained[depth + 1] = orders[depth] + more, gained[depth] + product
            continue
        for k in range(gone - 1, -1, -1):
            heads = place + k * pitch
            for level in range(2):
                for d in range(inside, inside + kept):
                    total, d_total = work[heads + s + level], slope[heads + s + level]
                    for i in range(k + 1, s):
                        node = outside + i if i < gone else inside + i - gone
                        total, d_total = _log_add(
                            total,
                            d_total,
                            work[heads + i] + chance[level, node, d],
                            slope[heads + i] + d_chance[level, node, d],
                        )
                    chance[level, outside + k, d] = total
                    d_chance[level, outside + k, d] = d_total
    return order, value


# --- log-partition, marginals, their derivatives ------------------------------------------


@njit(cache=True, nogil=True)
def softmax_rows(theta, offsets, nodes, single, value, unsure, p, start, stop):
    """Write marginals and log-partitions; return -1, or the first row without a tree.

    Marginals from logarithms of large weights, which keep fewer digits, are marked as ``unsure``.
    """
    largest = _largest(nodes, start, stop) - 1
    weights, numbers = np.empty(largest * (largest + 2)), np.empty(largest * (largest + 2))
    work, scale = np.empty(_room(largest) + weights.size), np.empty(weights.size)
    chance = np.empty((largest, largest))
    steps = step_numbers(1)[:0]
    for row in range(start, stop):
        n = nodes[row]
        m = n - 1
        score = theta[offsets[row] : offsets[row + 1]].reshape(n, n)
        mean = p[offsets[row] : offsets[row + 1]].reshape(n, n)
        for h in range(n):
            mean[h, 0] = 0.0
        value[row] = 0.0
        if m == 0:
            continue
        if len(steps) == 0 or steps[0, 4] != m:
            steps = step_numbers(m)
        entries = m * (m + 2)
        weight = weights[:entries].reshape(m, m + 2)
        plain = numbers[:entries].reshape(m, m + 2)
        taken = read_weights(score, single, weight)
        total = np.nan
        if taken == taken:
            _exp(weights[:entries], numbers, scale)
            for i in range(entries):
                work[i] = numbers[i]
            total = taken + _escape(work, steps, single, chance)
        if total == total:
            _plain_means(plain, chance, single, m, mean)
        else:
            unsure[row] = True
            total = log_pass(
                weight, np.zeros((m, m + 2)), steps, single, m, mean, np.empty((m, m + 2))
            )
            if total == -np.inf:
                return row
            total += 0.0 if taken != taken else taken
        value[row] = total
    return -1


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _plain_means(plain, chance, single, m, mean):
    for d in range(m):
        total = plain[d, m + single]
        mean[0, d + 1] = total
        for h in range(m):
            total += plain[d, h] * chance[h, d]
        inverse = 1.0 / total
        mean[0, d + 1] = min(plain[d, m + single] * inverse, 1.0)
        for h in range(m):
            mean[h + 1, d + 1] = min(plain[d, h] * chance[h, d] * inverse, 1.0)


@njit(cache=True, nogil=True)
def log_pass(weight, slope, steps, single, m, mean, d_mean):
    """Marginals [head, dependent] and their derivatives [dependent, head], the root last.

    From log weights and their derivatives; return log Z, -inf where there is no tree.
    """
    work = np.empty(_room(m) + m * (m + 2))
    d_work = np.zeros(work.size)
    for j in range(m):
        for i in range(m + 2):
            work[j * (m + 2) + i] = weight[j, i]
            d_work[j * (m + 2) + i] = slope[j, i]
    chance, d_chance = np.empty((2, m, m)), np.empty((2, m, m))
    order, value = _escape_log(work, d_work, steps, chance, d_chance)
    if order > single or value == -np.inf:
        return -np.inf
    log_mean, d_log = np.empty(m + 1), np.empty(m + 1)
    for d in range(m):
        total, d_total = -np.inf, 0.0
        level = 0
        while total == -np.inf and level < 2:  # order 1 counts where order 0 has nothing
            for h in range(m):
                log_mean[h] = weight[d, h] + chance[level, h, d]
                d_log[h] = slope[d, h] + d_chance[level, h, d]
            log_mean[m], d_log[m] = weight[d, m + level], slope[d, m + level]
            for h in range(m + 1):
                total, d_total = _log_add(total, d_total, log_mean[h], d_log[h])
            level += 1
        mass = 0.0  # 1 but for the rounding of ``total``, which grows with the scores
        for h in range(m + 1):
            mass += math.exp(log_mean[h] - total)
        for h in range(m + 1):
            share = math.exp(log_mean[h] - total) / mass
            mean[(h + 1) % (m + 1), d + 1] = share
            d_mean[d, h] = share * (d_log[h] - d_total) if share > 0.0 else 0.0
    return value


@njit(cache=True, nogil=True)
def covariance_rows(theta, offsets, nodes, single, v, out, start, stop):
    """Write the derivative of the marginals along v; rows without a tree get zeros."""
    largest = _largest(nodes, start, stop) - 1
    weights, numbers = np.empty(largest * (largest + 2)), np.empty(largest * (largest + 2))
    work, scale = np.empty(_room(largest) + weights.size), np.empty(weights.size)
    slope = np.empty((largest, largest + 2))
    d_work = np.empty(work.size)
    chance, d_chance = np.empty((largest, largest)), np.empty((largest, largest))
    steps = step_numbers(1)[:0]
    for row in range(start, stop):
        n = nodes[row]
        m = n - 1
        score = theta[offsets[row] : offsets[row + 1]].reshape(n, n)
        tangent = v[offsets[row] : offsets[row + 1]].reshape(n, n)
        change = out[offsets[row] : offsets[row + 1]].reshape(n, n)
        for h in range(n):
            for d in range(n):
                change[h, d] = 0.0
        if m == 0:
            continue
        if len(steps) == 0 or steps[0, 4] != m:
            steps = step_numbers(m)
        entries = m * (m + 2)
        weight = weights[:entries].reshape(m, m + 2)
        plain = numbers[:entries].reshape(m, m + 2)
        taken = read_weights(score, single, weight)
        for j in range(m):
            for i in range(m):
                slope[j, i] = tangent[i + 1, j + 1]
            slope[j, j], slope[j, m], slope[j, m + 1] = 0.0, 0.0, 0.0
            slope[j, m + single] = tangent[0, j + 1]
        trusted = False
        if taken == taken:
            _exp(weights[:entries], numbers, scale)
            for j in range(m):
                for i in range(m + 2):
                    work[j * (m + 2) + i] = plain[j, i]
                    d_work[j * (m + 2) + i] = plain[j, i] * slope[j, i]
            trusted = _escape_tangent(work, d_work, steps, single, chance, d_chance)
        if trusted:
            for d in range(m):
                total = plain[d, m + single]
                d_total = total * slope[d, m + single]
                for h in range(m):
                    part = plain[d, h] * chance[h, d]
                    total += part
                    d_total += part * slope[d, h] + plain[d, h] * d_chance[h, d]
                inverse, mean_slope = 1.0 / total, d_total / total
                change[0, d + 1] = (
                    plain[d, m + single] * inverse * (slope[d, m + single] - mean_slope)
                )
                for h in range(m):
                    change[h + 1, d + 1] = (
                        plain[d, h]
                        * inverse
                        * (chance[h, d] * (slope[d, h] - mean_slope) + d_chance[h, d])
                    )
        else:
            mean, d_mean = np.empty((n, n)), np.empty((m, m + 2))
            if log_pass(weight, slope, steps, single, m, mean, d_mean) > -np.inf:
                for d in range(m):
                    for h in range(m + 1):
                        change[(h + 1) % n, d + 1] = d_mean[d, h]


# --- sampling -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def sample_rows(theta, offsets, nodes, single, p, uniform, out, start, stop):
    """Draw one tree for each row of ``uniform`` (samples, total nodes); p are the marginals.

    Heads are drawn one after another, each from its marginals given those before. The dependent
    of a single root comes first: after that the arcs of the root have order 0.
    """
    largest = _largest(nodes, start, stop) - 1
    weight, current = np.empty((largest, largest + 2)), np.empty((largest, largest + 2))
    work, slope = np.empty(largest * (largest + 2)), np.zeros(largest * (largest + 2))
    law, chance = np.empty(largest + 1), np.empty(largest)
    first = 0
    for row in range(start):
        first += nodes[row]
    for row in range(start, stop):
        n = nodes[row]
        m = n - 1
        score = theta[offsets[row] : offsets[row + 1]].reshape(n, n)
        mean = p[offsets[row] : offsets[row + 1]].reshape(n, n)
        if m:
            read_weights(score, single, weight)
        for sample in range(len(uniform)):
            chosen = out[sample, offsets[row] : offsets[row + 1]]
            for i in range(chosen.size):
                chosen[i] = 0.0
            if m == 0:
                continue
            for j in range(m):
                for i in range(m + 2):
                    current[j, i] = weight[j, i]
            below = -1
            if single:
                for d in range(m):
                    law[d] = mean[0, d + 1]
                below = _draw(law[:m], uniform[sample, first])
                for j in range(m):
                    current[j, m + 1] = -np.inf
                _fix(current, m, below, m)
                chosen[below + 1] = 1.0
            for d in range(m):
                if d == below:
                    continue
                _law(current, m, d, work, slope, chance, law)
                head = _draw(law[: m + 1], uniform[sample, first + d + 1])
                _fix(current, m, d, head)
                chosen[(head + 1) % n * n + d + 1] = 1.0
        first += n


@njit(cache=True, nogil=True)
def _fix(weight, m, node, head):
    for i in range(m + 2):
        weight[node, i] = -np.inf
    weight[node, head] = 0.0


@njit(cache=True, nogil=True)
def _draw(law, uniform):
    """An index with chances in proportion to the law."""
    total = 0.0
    for i in range(law.size):
        total += law[i]
    rest, last = uniform * total, 0
    for i in range(law.size):
        if law[i] > 0.0:
            last = i
            rest -= law[i]
            if rest < 0.0:
                break
    return last


@njit(cache=True, nogil=True)
def _law(weight, m, node, work, slope, chance, law):
    """Write what the marginals of the heads of one node, the root last, are proportional to."""
    width = m + 2
    flat = weight.reshape(-1)
    _copy_block(flat, 0, weight.shape[1], m, node, node + 1, work, 0)
    for i in range(m * width):
        work[i] = math.exp(work[i])
    product, _ = _eliminate(work, 0, width, m, m - 1, False)
    plain = product * min(1.0, work[(m - 1) * width + m]) > _TINY
    if not plain:
        _copy_block(flat, 0, weight.shape[1], m, node, node + 1, work, 0)
        _eliminate_log(work, slope, 0, width, m, m - 1)
    chance[m - 1] = 0.0 if plain else -np.inf
    for k in range(m - 2, -1, -1):
        total = work[k * width + m]
        for i in range(k + 1, m):
            if plain:
                total += work[k * width + i] * chance[i]
            else:
                total, _ = _log_add(total, 0.0, work[k * width + i] + chance[i], 0.0)
        chance[k] = total
    top = -np.inf
    for h in range(m):  # the node itself is the last of the chances
        escape = chance[m - 1 if h == node else h - (h > node)]
        law[h] = math.exp(weight[node, h]) * escape if plain else weight[node, h] + escape
        top = max(top, law[h])
    law[m] = math.exp(weight[node, m]) if plain else weight[node, m]
    top = max(top, law[m])
    for h in range(m + 1):
        law[h] = law[h] / top if plain else math.exp(law[h] - top)
