"""Dynamic programmes on monotone alignments, one pair of sequences per row.

A row holds n m scores [i, j]. A path leads from (0, 0) to (n-1, m-1) by steps down, right or both
at once, inside the band  -b + min(0, m-n) <= j - i <= max(0, m-n) + b.  Kernels work on the rows
start, ..., stop - 1 of a batch: the flat values, where each row begins, and its n and m.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential
from maxent.core.kernels.largest import largest

# A scaled pass is trusted while no weight that it divides by is below _TINY and no sum of backward
# weights exceeds 1 / _TINY: what underflows (below 1e-300) moves no marginal by more than 1e-90.
_TINY = 1e-100


@njit(cache=True, nogil=True)
def _columns(i, n, m, band):
    """The first column of row i inside the band, and the one after the last."""
    return max(0, i + min(0, m - n) - band), min(m, i + max(0, m - n) + band + 1)


@njit(cache=True, nogil=True)
def argmax_rows(theta, starts, ns, ms, band, out, start, stop):
    """Write the best alignment of each row; return -1, or the first row without one."""
    for row in range(start, stop):
        n, m = ns[row], ms[row]
        cut = slice(starts[row], starts[row] + n * m)
        scores, vertex = theta[cut].reshape(n, m), out[cut].reshape(n, m)
        best = np.full((n + 1, m + 1), -np.inf)  # best[i + 1, j + 1]: ending at (i, j)
        best[0, 0] = 0.0
        for i in range(n):
            low, high = _columns(i, n, m, band)
            for j in range(low, high):
                top = max(best[i, j], best[i, j + 1], best[i + 1, j])
                best[i + 1, j + 1] = top + scores[i, j]
        if best[n, m] == -np.inf:
            return row
        vertex[:] = 0
        i, j = n - 1, m - 1
        vertex[i, j] = 1
        while i or j:
            # the diagonal first: of equally good alignments a short one
            if best[i, j] >= best[i, j + 1] and best[i, j] >= best[i + 1, j]:
                i, j = i - 1, j - 1
            elif best[i, j + 1] >= best[i + 1, j]:
                i -= 1
            else:
                j -= 1
            vertex[i, j] = 1
    return -1


@njit(cache=True, nogil=True)
def softmax_rows(theta, starts, ns, ms, band, out, value, start, stop):
    """Write marginals and log-partitions; return -1, or the first row without an alignment."""
    tallest, widest = 0, 0
    for row in range(start, stop):
        tallest, widest = max(tallest, ns[row]), max(widest, ms[row])
    weight = np.empty((tallest, widest + 1))
    forward = np.empty((tallest, widest + 1))
    for row in range(start, stop):
        n, m = ns[row], ms[row]
        cut = slice(starts[row], starts[row] + n * m)
        scores, mean = theta[cut].reshape(n, m), out[cut].reshape(n, m)
        top = 0.0
        for i in range(n):
            top = max(top, largest(scores[i]))
        total = _scaled_pass(scores, top, band, weight, forward, mean)
        if np.isnan(total):
            total = _log_pass(scores, band, mean)
            if total == -np.inf:
                return row
        _put_certain(mean, band)
        value[row] = total
    return -1


@njit(cache=True, nogil=True)
def _put_certain(mean, band):
    """Write 1 for the cells of all alignments: the ends, and those alone in their row or column."""
    n, m = mean.shape
    mean[0, 0] = mean[n - 1, m - 1] = 1.0
    for i in range(n):
        low, high = _columns(i, n, m, band)
        if high - low == 1:
            mean[i, low] = 1.0
    for j in range(m):
        low, high = _columns(j, m, n, band)
        if high - low == 1:
            mean[low, j] = 1.0


@njit(cache=True, nogil=True)
def soft_dtw_rows(x, y, ns, ms, band, sharpness, value, slope_x, slope_y, start, stop):
    """Write the log-partition of -sharpness |x_i - y_j|^2 and the gradients of minus it, per pair.

    x (pairs, n, d) and y (pairs, m, d) are padded. No matrix of costs or marginals is kept: those
    of a pair lie in room that the next one uses again. Return -1, or a pair without a finite value.
    """
    tallest, widest = x.shape[1], y.shape[1]
    room = np.empty(tallest * widest)
    weight = np.empty((tallest, widest + 1))
    forward = np.empty((tallest, widest + 1))
    for row in range(start, stop):
        n, m = ns[row], ms[row]
        cells = room[: n * m].reshape(n, m)
        _affinities(x[row], y[row], sharpness, cells)
        # no score is above 0; the marginals replace the costs
        total = _scaled_pass(cells, 0.0, band, weight, forward, cells)
        if np.isnan(total):
            _affinities(x[row], y[row], sharpness, cells)
            costs = cells.copy()
            total = _log_pass(costs, band, cells)
            if not np.isfinite(total):
                return row
        value[row] = total
        _affinity_slopes(x[row], y[row], sharpness, cells, slope_x[row], slope_y[row])
    return -1


@njit(cache=True, nogil=True, fastmath={"contract"})
def _affinities(x, y, sharpness, cells):
    """Write -sharpness |x_i - y_j|^2."""
    n, m = cells.shape
    for i in range(n):
        line = cells[i]
        for j in range(m):
            line[j] = 0.0
        for k in range(x.shape[1]):
            here = np.float64(x[i, k])
            for j in range(m):
                apart = here - np.float64(y[j, k])
                line[j] -= sharpness * (apart * apart)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _affinity_slopes(x, y, sharpness, cells, slope_x, slope_y):
    """Write the gradients of sum_ij cells_ij sharpness |x_i - y_j|^2 in x and y."""
    n, m = cells.shape
    for k in range(x.shape[1]):
        for i in range(n):
            line, here, total = cells[i], np.float64(x[i, k]), 0.0
            for j in range(m):
                pull = 2.0 * sharpness * line[j] * (here - np.float64(y[j, k]))
                total += pull
                slope_y[j, k] -= pull
            slope_x[i, k] = total


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _sum(x):
    total = 0.0
    for value in x:
        total += value
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _to_the_right(line, own, right):
    """line[j] += right own[j] line[j - 1] in turn; four at a time wait for one product alone."""
    left = 0.0
    whole = line.size - line.size % 4
    for j in range(0, whole, 4):
        a, b, c, d = right * own[j], right * own[j + 1], right * own[j + 2], right * own[j + 3]
        two, ab = line[j + 1] + b * line[j], b * a
        four, cd = line[j + 3] + d * line[j + 2], d * c
        second = two + ab * left
        line[j] += a * left
        line[j + 1] = second
        line[j + 2] += c * second
        left = (four + cd * two) + (cd * ab) * left
        line[j + 3] = left
    for j in range(whole, line.size):
        left = line[j] + (right * own[j]) * left
        line[j] = left


@njit(cache=True, nogil=True, fastmath={"contract"})
def _to_the_left(line, own, right):
    """line[j] += right own[j] line[j + 1] in turn, from the end."""
    onward = 0.0
    size = line.size
    rest = size % 4
    for i in range(0, size - rest, 4):
        j = size - 4 - i
        a, b, c, d = right * own[j + 3], right * own[j + 2], right * own[j + 1], right * own[j]
        two, ab = line[j + 2] + b * line[j + 3], b * a
        four, cd = line[j] + d * line[j + 1], d * c
        second = two + ab * onward
        line[j + 3] += a * onward
        line[j + 2] = second
        line[j + 1] += c * second
        onward = (four + cd * two) + (cd * ab) * onward
        line[j] = onward
    for j in range(rest - 1, -1, -1):
        onward = line[j] + (right * own[j]) * onward
        line[j] = onward


@njit(cache=True, nogil=True, fastmath={"contract"})
def _scaled_pass(scores, top, band, weight, forward, mean):
    """Log-partition and marginals without logarithms; NaN where weights under- or overflow.

    forward[i, j + 1] is the sum over paths that end at (i, j) of exp(score - top j), where top >= 0
    and no score is larger, so that steps to the right do not overflow; a row takes that of the row
    above divided by its sum. What a row takes from its neighbour comes first, as vectors, so that
    little is left to do in turn. ``weight`` and ``forward`` are room for n rows of m + 1 numbers.
    Loops run over cuts of rows from 0 on: one that could begin below 0 is not made of vectors.
    """
    n, m = scores.shape
    if top > 500.0:
        return np.nan
    right = np.exp(-top)
    scale = np.empty(n)
    total = top * (m - 1)
    for i in range(n):
        low, high = _columns(i, n, m, band)
        weight[i, :low] = 0.0
        weight[i, high : m + 1] = 0.0
        forward[i, : low + 1] = 0.0
        forward[i, high + 1 : m + 1] = 0.0
        line, own, here = scores[i, low:high], weight[i, low:high], forward[i, low + 1 : high + 1]
        for j in range(line.size):
            own[j] = exponential(np.float64(line[j]))
        if i == 0:
            here[:] = 0.0
            here[0] = own[0]
        else:
            above, corner = forward[i - 1, low + 1 : high + 1], forward[i - 1, low:high]
            share = 1.0 / scale[i - 1]
            across = right * share
            for j in range(own.size):
                here[j] = own[j] * (share * above[j] + across * corner[j])
        _to_the_right(here, own, right)
        mass = _sum(here)
        if not (mass >= _TINY and mass <= 1.0 / _TINY):
            return np.nan
        scale[i] = mass
        total += np.log(mass)
    end = forward[n - 1, m] / scale[n - 1]
    if not end >= _TINY:
        return np.nan
    after = np.zeros(m + 1)  # weights of the row below, times its backward weights
    backward = np.zeros(m)
    for i in range(n - 1, -1, -1):
        low, high = _columns(i, n, m, band)
        own, here, line = weight[i, low:high], forward[i, low + 1 : high + 1], mean[i, low:high]
        back, below, corner = backward[low:high], after[low:high], after[low + 1 : high + 1]
        for j in range(back.size):
            back[j] = below[j] + right * corner[j]
        if i == n - 1:
            back[back.size - 1] = 1.0 / end
        _to_the_left(back, weight[i, low + 1 : high + 1], right)
        if not _sum(back) <= 1.0 / _TINY:
            return np.nan
        share = 1.0 / scale[i]
        for j in range(back.size):
            onward = back[j] * share
            value = here[j] * onward
            line[j] = value if value < 1.0 else 1.0
            below[j] = own[j] * onward
        mean[i, :low] = 0
        mean[i, high:] = 0
        after[:low] = 0.0
        after[high:] = 0.0
    return total + np.log(end)


@njit(cache=True, nogil=True)
def log_forward(scores, band, forward):
    """forward[i + 1, j + 1]: log of the sum over paths that end at (i, j)."""
    n, m = scores.shape
    forward[:] = -np.inf
    forward[0, 0] = 0.0
    for i in range(n):
        low, high = _columns(i, n, m, band)
        for j in range(low, high):
            a, b, c = forward[i, j], forward[i, j + 1], forward[i + 1, j]
            top = max(a, b, c)
            if top > -np.inf:
                mass = np.exp(a - top) + np.exp(b - top) + np.exp(c - top)
                forward[i + 1, j + 1] = top + np.log(mass) + scores[i, j]
    return forward[n, m]


@njit(cache=True, nogil=True)
def _origins(forward, i, j):
    """Probabilities that a path through (i, j) comes from the diagonal, above and the left."""
    a, b, c = forward[i, j], forward[i, j + 1], forward[i + 1, j]
    top = max(a, b, c)
    if top == -np.inf:
        return 0.0, 0.0, 0.0
    a, b, c = np.exp(a - top), np.exp(b - top), np.exp(c - top)
    mass = a + b + c
    return a / mass, b / mass, c / mass


@njit(cache=True, nogil=True)
def _log_pass(scores, band, mean):
    """The same for any range of scores: marginals as products of probabilities."""
    n, m = scores.shape
    forward = np.empty((n + 1, m + 1))
    total = log_forward(scores, band, forward)
    if total == -np.inf:
        return total
    flow = np.zeros((n + 1, m + 1))
    flow[n, m] = 1.0
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            here = min(flow[i + 1, j + 1], 1.0)
            mean[i, j] = here
            if here > 0.0:
                a, b, c = _origins(forward, i, j)
                flow[i, j] += a * here
                flow[i, j + 1] += b * here
                flow[i + 1, j] += c * here
    return total


@njit(cache=True, nogil=True)
def covariance_rows(theta, starts, ns, ms, band, v, out, start, stop):
    """Write the derivative of the marginals along v: the covariance of the vertex times v.

    gain[i, j] is the derivative of the forward logarithm, the expected sum of v up to (i, j); a
    probability of coming from there changes by itself times its gain above the average.
    """
    for row in range(start, stop):
        n, m = ns[row], ms[row]
        cut = slice(starts[row], starts[row] + n * m)
        scores, along = theta[cut].reshape(n, m), v[cut].reshape(n, m)
        tangent = out[cut].reshape(n, m)
        forward = np.empty((n + 1, m + 1))
        log_forward(scores, band, forward)
        gain = np.zeros((n + 1, m + 1))
        for i in range(n):
            low, high = _columns(i, n, m, band)
            for j in range(low, high):
                if forward[i + 1, j + 1] > -np.inf:
                    a, b, c = _origins(forward, i, j)
                    before = a * gain[i, j] + b * gain[i, j + 1] + c * gain[i + 1, j]
                    gain[i + 1, j + 1] = before + along[i, j]
        flow = np.zeros((n + 1, m + 1))
        slope = np.zeros((n + 1, m + 1))
        flow[n, m] = 1.0
        for i in range(n - 1, -1, -1):
            for j in range(m - 1, -1, -1):
                here, change = flow[i + 1, j + 1], slope[i + 1, j + 1]
                tangent[i, j] = change
                if here > 0.0:
                    a, b, c = _origins(forward, i, j)
                    x, y, z = gain[i, j], gain[i, j + 1], gain[i + 1, j]
                    average = a * x + b * y + c * z
                    flow[i, j] += a * here
                    flow[i, j + 1] += b * here
                    flow[i + 1, j] += c * here
                    slope[i, j] += a * (change + here * (x - average))
                    slope[i, j + 1] += b * (change + here * (y - average))
                    slope[i + 1, j] += c * (change + here * (z - average))


@njit(cache=True, nogil=True)
def sample_rows(theta, starts, ns, ms, band, uniform, first, out, start, stop):
    """Write alignments (draw, cell), each from its end; return -1, or the first row without one.

    Those of a row take the numbers of ``uniform`` (draw, number) from first[row] on.
    """
    for row in range(start, stop):
        n, m = ns[row], ms[row]
        cut = slice(starts[row], starts[row] + n * m)
        forward = np.empty((n + 1, m + 1))
        if log_forward(theta[cut].reshape(n, m), band, forward) == -np.inf:
            return row
        for draw in range(len(out)):
            path = out[draw, cut].reshape(n, m)
            path[:] = 0
            i, j, step = n - 1, m - 1, first[row]
            path[i, j] = 1
            while i or j:
                a, b, c = _origins(forward, i, j)
                at = uniform[draw, step]
                if c > 0.0 and at >= a + b:
                    j -= 1
                elif b > 0.0 and at >= a:
                    i -= 1
                else:
                    i, j = i - 1, j - 1
                path[i, j] = 1
                step += 1
    return -1


@njit(cache=True, nogil=True)
def kbest_rows(theta, starts, ns, ms, band, value, out, start, stop):
    """Write scores (row, rank) and alignments (rank, cell) of the best; -1, or a row without one.

    Every cell keeps its best paths, falling: those of the three cells before it, merged.
    """
    count = value.shape[1]
    for row in range(start, stop):
        n, m = ns[row], ms[row]
        cut = slice(starts[row], starts[row] + n * m)
        scores = theta[cut].reshape(n, m)
        best = np.full((n + 1, m + 1, count), -np.inf)  # best[i + 1, j + 1]: ending at (i, j)
        came = np.empty((n, m, count), np.int8)  # 0 from the diagonal, 1 above, 2 the left
        rank = np.empty((n, m, count), np.int32)  # in the list there
        best[0, 0, 0] = 0.0
        for i in range(n):
            low, high = _columns(i, n, m, band)
            for j in range(low, high):
                corner, above, left = best[i, j], best[i, j + 1], best[i + 1, j]
                a, b, c = 0, 0, 0
                for k in range(count):
                    x, y, z = corner[a], above[b], left[c]
                    top = max(x, y, z) + scores[i, j]
                    if top == -np.inf:
                        break
                    best[i + 1, j + 1, k] = top
                    # the diagonal first, as the best one has it
                    if x >= y and x >= z:
                        came[i, j, k], rank[i, j, k] = 0, a
                        a += 1
                    elif y >= z:
                        came[i, j, k], rank[i, j, k] = 1, b
                        b += 1
                    else:
                        came[i, j, k], rank[i, j, k] = 2, c
                        c += 1
        if best[n, m, 0] == -np.inf:
            return row
        for k in range(count):
            value[row, k] = best[n, m, k]
            path = out[k, cut].reshape(n, m)
            path[:] = 0
            if value[row, k] == -np.inf:
                continue
            i, j, at = n - 1, m - 1, k
            path[i, j] = 1
            while i or j:
                step, at = came[i, j, at], rank[i, j, at]
                i, j = i - (step != 2), j - (step != 1)
                path[i, j] = 1
    return -1


@njit(cache=True, nogil=True)
def path_rows(p, starts, ns, ms, band, out, start, stop):
    """Write whether each row is one of zeros and ones, and an alignment inside the band."""
    for row in range(start, stop):
        n, m = ns[row], ms[row]
        cells = p[starts[row] : starts[row] + n * m].reshape(n, m)
        count, whole = 0, True
        for i in range(n):
            for j in range(m):
                count += cells[i, j] == 1
                whole = whole and (cells[i, j] == 0 or cells[i, j] == 1)
        i, j, seen, inside = 0, 0, 1, whole and cells[0, 0] == 1
        while inside and (i < n - 1 or j < m - 1):
            if i < n - 1 and cells[i + 1, j] == 1:
                i += 1
            elif j < m - 1 and cells[i, j + 1] == 1:
                j += 1
            elif i < n - 1 and j < m - 1 and cells[i + 1, j + 1] == 1:
                i, j = i + 1, j + 1
            else:
                inside = False
            low, high = _columns(i, n, m, band)
            inside = inside and low <= j < high
            seen += 1
        out[row] = inside and seen == count
