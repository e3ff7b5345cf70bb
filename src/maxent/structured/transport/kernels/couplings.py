"""Projections on couplings, matrices P >= 0 with row sums a and column sums b, and derivatives.

Euclidean:          P = [theta + g - tau]_+      one threshold tau per row
Kullback-Leibler:   P = exp(theta + g - tau)     (Sinkhorn's scaling form)

For given potentials g of the columns the thresholds make the row sums exact. What is left, the
semi-dual of Blondel, Seguy and Rolet (Smooth and sparse optimal transport, 2018), is convex in g:
its gradient is the column sums less b, its Hessian the Laplacian of a graph of columns with the
weights sum_i q_ij q_ik / sum_j q_ij, where q is the support of P or P itself (Fenchel-Young paper,
§7.3). Newton's method on it, damped while far away; where scores are large beside what a
projection can move, at growing multiples of the scores, each start being the last solution.
"""

import math

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential
from maxent.core.kernels.largest import largest, where_at_least
from maxent.structured.transport.kernels.laplacian import ADD, solve

# Scores are multiplied by the growth from one problem to the next; the first has scores that spread
# over easy, of which the Euclidean one counts in the largest row sum; all but the last are solved
# to loose. The Euclidean ones suit the problems they were chosen on, not others: see
# benchmarks/transport_levels.py.
_EASY, _GROWTH, _LOOSE = 30.0, 10.0, 5e-2
_EASY_KL, _GROWTH_KL, _LOOSE_KL = 20.0, 4.0, 1e-3
_LEVELS = 40
_STEPS, _HALVINGS, _ROUNDS = 1000, 40, 10
_SHORT = 1e-3  # share of a step that decides where the value is flat to rounding
_SCALING = 200.0  # scores that spread over less never leave the range of numbers when scaled
_SWEEPS = 100_000
_FARTHEST = 1e8  # to which the spread of larger scores is cut down: beyond, P keeps no digits
_VIOLATION = 1e-12  # of the column sums, in the 1-norm, as a share of the mass
_NEAR = 1e-6  # a violation up to which Sinkhorn's projection is near enough to be taken once more
_EPS = 2.220446049250313e-16
_LEAST = 5e-324  # the least number above 0
_FEW = 0.25  # share of the columns in the support of a row up to which it is listed
_ROUNDED = 16 * _EPS  # a violation that is nothing but rounding


@njit(cache=True, nogil=True, fastmath=ADD)
def _length(x):
    """The 1-norm."""
    total = 0.0
    for value in x:
        total += abs(value)
    return total


@njit(cache=True, nogil=True)
def _assign(x, y, factor):
    """x = factor y, all entries."""
    for i in range(x.size):
        x[i] = factor * y[i]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _threshold(x, mass, tau):
    """tau with sum [x - tau]_+ = mass, by Newton's method from any start (NaN for none)."""
    top = largest(x)
    tau = min(max(tau, top - mass), top - mass / x.size) if tau == tau else top - mass
    for _ in range(x.size + 2):
        total, count = 0.0, 0.0
        for j in range(x.size):
            over = x[j] - tau
            total += over if over > 0.0 else 0.0
            count += 1.0 if over > 0.0 else 0.0
        new = tau + (total - mass) / max(count, 1.0)
        if abs(new - tau) <= _EPS * mass:
            break
        tau = new
    return tau


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _evaluate(theta, scale, kl, a, b, g, tau, p, excess, x):
    """The semi-dual at g; leaves tau, P and its column sums less b.

    A threshold is at most the row sum below the largest score: what is less is 0 in P.
    """
    value = 0.0
    index, kept = np.empty(b.size, np.int64), np.empty(b.size)
    for j in range(b.size):
        excess[j] = -b[j]
        value -= b[j] * g[j]
    for i in range(a.size):
        row, out = theta[i], p[i]
        for j in range(b.size):
            x[j] = scale * row[j] + g[j]
        top = largest(x)
        if kl:
            for j in range(x.size):
                out[j] = exponential(x[j] - top)
            total = 0.0
            for j in range(b.size):
                total += out[j]
            share = a[i] / total
            for j in range(b.size):
                out[j] *= share
                excess[j] += out[j]
            tau[i] = top + math.log(total / a[i])
            value += a[i] * tau[i]
            continue
        count = where_at_least(x, top - a[i], index)
        for c in range(count):
            kept[c] = x[index[c]]
        level = _threshold(kept[:count], a[i], tau[i])
        square = 0.0
        out[:] = 0.0
        for c in range(count):
            over, j = kept[c] - level, index[c]
            over = over if over > 0.0 else 0.0
            out[j] = over
            excess[j] += over
            square += over * over
        tau[i] = level
        value += a[i] * level + 0.5 * square
    return value


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _graph(p, kl, weights, q):
    """The lower triangle of the weights between columns."""
    weights[:] = 0.0
    index = np.empty(q.size, np.int64)
    for i in range(len(p)):
        row = p[i]
        if not kl:
            count = where_at_least(row, _LEAST, index)
            if count <= _FEW * q.size:
                share = 1.0 / count
                for r in range(count):
                    out = weights[index[r]]
                    for c in range(r):
                        out[index[c]] += share
                continue
        total = 0.0
        for j in range(row.size):
            q[j] = row[j] if kl else (1.0 if row[j] > 0.0 else 0.0)
            total += q[j]
        for j in range(row.size):
            if q[j] == 0.0:
                continue
            share = q[j] / total
            out = weights[j]
            for k in range(j):
                out[k] += share * q[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _sweeps(kernel, a, b, x, limit):
    """Sinkhorn's scalings of a positive matrix, in place; the violation that is left.

    Stops where it is within the tolerance, or where at the pace of the last sweep the rest would
    cost more than a few steps of Newton's method.
    """
    m, n = kernel.shape
    u, v = np.ones(m), np.ones(n)
    mass = _length(b)
    patience = 5 * (m * n * (n / 2 + 20.0) + n**3 / 6) / (2 * m * n)
    size = np.inf
    for sweep in range(limit):
        for j in range(n):
            x[j] = 0.0
        for i in range(m):
            row = kernel[i]
            total = 0.0
            for j in range(n):
                total += row[j] * v[j]
            factor = a[i] / total
            u[i] = factor
            for j in range(n):
                x[j] += factor * row[j]
        before, size = size, 0.0
        for j in range(n):
            size += abs(x[j] * v[j] - b[j])
            v[j] = b[j] / x[j]
        size /= mass
        if not _VIOLATION < size < np.inf:
            break
        if sweep % 10 == 9:
            pace = math.log(size / before) if size < before else 0.0
            if pace == 0.0 or math.log(_VIOLATION / size) / pace > patience:
                break
    if size < np.inf:
        for i in range(m):
            for j in range(n):
                kernel[i, j] *= u[i] * v[j]
    return size, v


@njit(cache=True, nogil=True, error_model="numpy")
def _centre(theta):
    """Take the largest score from each row, then from each column; how far the rest spreads.

    Neither changes a projection, and large scores keep their digits.
    """
    m, n = theta.shape
    tops = np.full(n, -np.inf)
    for i in range(m):
        row, top = theta[i], -np.inf
        for j in range(n):
            top = row[j] if row[j] > top else top
        for j in range(n):
            row[j] -= top
            tops[j] = row[j] if row[j] > tops[j] else tops[j]
    lowest = 0.0
    for i in range(m):
        row = theta[i]
        for j in range(n):
            row[j] -= tops[j]
            lowest = row[j] if -np.inf < row[j] < lowest else lowest
    return -lowest


@njit(cache=True, nogil=True)
def _starved(excess, b):
    """Whether a column lacks half of its sum, which no 1-norm tells where that sum is tiny."""
    starved = False
    for j in range(b.size):
        starved = starved or excess[j] < -0.5 * b[j]
    return starved


@njit(cache=True, nogil=True, error_model="numpy")
def _newton(theta, kl, a, b, g, p, scale, tolerance):
    """Minimise the semi-dual from g, at scale, scale * growth, ..., 1."""
    m, n = theta.shape
    trial, tau, trial_tau = np.empty(n), np.full(m, np.nan), np.empty(m)
    excess, trial_excess = np.empty(n), np.empty(n)
    x, rhs, ground, step = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    other, weights = np.empty((m, n)), np.empty((n, n))
    mass = _length(b)
    loose = _LOOSE_KL if kl else _LOOSE
    growth = max(_GROWTH_KL if kl else _GROWTH, scale ** (-1.0 / _LEVELS))
    while True:
        value = _evaluate(theta, scale, kl, a, b, g, tau, p, excess, x)
        size = _length(excess) / mass
        damping = 0.1 if kl else 1.0
        for _ in range(_STEPS):
            if size <= (loose if scale < 1.0 else tolerance) and not (kl and _starved(excess, b)):
                break
            _graph(p, kl, weights, x)
            for j in range(n):
                # columns that no row links yet must not move without bound, nor on rounding alone
                ground[j] = max(damping * size, 1e-14) * (b[j] if kl else 1.0)
                rhs[j] = -excess[j]
            solve(weights, ground, rhs, step)
            mean = 0.0
            for j in range(n):
                mean += step[j] / n
            slope, length, lower = 0.0, 1.0, False
            for j in range(n):
                step[j] -= mean  # the one direction that changes nothing
                slope += excess[j] * step[j]
            for _ in range(_HALVINGS):
                for j in range(n):
                    trial[j] = g[j] + length * step[j]
                _assign(trial_tau, tau, 1.0)
                new = _evaluate(theta, scale, kl, a, b, trial, trial_tau, other, trial_excess, x)
                new_size = _length(trial_excess) / mass
                # near the optimum the value is flat to rounding: there a smaller violation decides
                flat = abs(new - value) <= 1e-13 * (1 + abs(value))
                lower = new <= value + 1e-4 * length * slope or (flat and new_size < size)
                if lower or (flat and length < _SHORT):
                    break
                length *= 0.5
            if not lower:
                break
            damping = damping / 4 if length == 1.0 else min(2 * damping / length, 1.0)
            value, size = new, new_size
            _assign(g, trial, 1.0)
            _assign(tau, trial_tau, 1.0)
            _assign(excess, trial_excess, 1.0)
            for i in range(m):
                _assign(p[i], other[i], 1.0)
        if scale == 1.0:
            return
        factor = min(growth, 1.0 / scale)
        _assign(g, g, factor)
        _assign(tau, tau, factor)
        scale = 1.0 if factor < growth else scale * growth


@njit(cache=True, nogil=True)
def _lack(p, a, b, rows, columns):
    """Write what the sums of rows and columns lack; the larger of the two, as a share of the mass.

    Either is a 1-norm.
    """
    for j in range(b.size):
        columns[j] = b[j]
    for i in range(a.size):
        total = 0.0
        for j in range(b.size):
            total += p[i, j]
            columns[j] -= p[i, j]
        rows[i] = a[i] - total
    return max(_length(rows) / _length(a), _length(columns) / _length(b))


@njit(cache=True, nogil=True, error_model="numpy")
def _feed(theta, b, g, p):
    """Give a column without any mass, as Newton's method may leave a tiny one, its nearest row.

    That is the row whose entry is the first to be positive as the column's potential grows.
    """
    for j in range(b.size):
        nearest, row = -np.inf, 0
        for i in range(len(p)):
            if p[i, j] > 0.0:
                nearest = np.inf
                break
            top = 0
            for k in range(1, b.size):
                top = k if p[i, k] > p[i, top] else top
            below = theta[i, j] - (theta[i, top] + g[top] - p[i, top])  # less the row's threshold
            if below > nearest:
                nearest, row = below, i
        if nearest < np.inf:
            p[row, j] = b[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _balance(p, a, b, rounding):
    """Remove what rounding of large scores left in a Euclidean projection and in its sums.

    Without entries that are nothing but rounding the support is right, so the correction is the
    nearest point with the right sums on it. Return the violation that is left.
    """
    n = b.size
    for row in p:
        for j in range(n):
            if row[j] <= rounding:
                row[j] = 0.0
    weights, q, lack, step = np.empty((n, n)), np.empty(n), np.empty(a.size), np.empty(n)
    rhs, before = np.empty(n), np.inf
    for _ in range(_ROUNDS):
        left = _lack(p, a, b, lack, rhs)
        if left <= _ROUNDED or not left < 0.5 * before:
            return left
        before = left
        for i in range(a.size):  # a row's lack is shared by its support, the rest is the columns'
            count = np.count_nonzero(p[i])
            lack[i] /= max(count, 1)
            for j in range(n):
                rhs[j] -= lack[i] if p[i, j] > 0.0 else 0.0
        _graph(p, False, weights, q)
        solve(weights, np.zeros(n), rhs, step)
        for i in range(a.size):
            row, total, count = p[i], 0.0, 0
            for j in range(n):
                if row[j] > 0.0:
                    total += step[j]
                    count += 1
            for j in range(n):
                if row[j] > 0.0:
                    row[j] = max(row[j] + lack[i] + step[j] - total / count, 0.0)
    return _lack(p, a, b, lack, rhs)


@njit(cache=True, nogil=True, error_model="numpy")
def _project(theta, kl, a, b, p):
    """Write the projection of one matrix, columns not more than rows; the violation left."""
    n = b.size
    g, x, spread = np.zeros(n), np.empty(n), _centre(theta)
    if kl and spread > _FARTHEST:
        for i in range(a.size):
            _assign(theta[i], theta[i], _FARTHEST / spread)
        spread = _FARTHEST
    scaling = kl and spread <= _SCALING
    left = np.inf
    if scaling:
        excess, tau = np.empty(n), np.empty(a.size)
        _evaluate(theta, 1.0, kl, a, b, g, tau, p, excess, x)
        left, v = _sweeps(p, a, b, x, _SWEEPS)
        for j in range(n):
            g[j] = math.log(v[j]) if left < np.inf else 0.0
    if not left <= _VIOLATION:
        easy = _EASY_KL if kl else _EASY * max(a)
        scale = 1.0 if scaling or spread <= easy else easy / spread
        tolerance = max(_VIOLATION if kl else 1e-14, 8 * _EPS * spread * (1 if kl else n))
        _newton(theta, kl, a, b, g, p, scale, tolerance)
    if not kl:
        _feed(theta, b, g, p)
        return _balance(p, a, b, 8 * _EPS * (spread + max(b)))
    if not scaling:
        _sweeps(p, a, b, x, 20)  # what rounding of large scores left in the sums
    return _lack(p, a, b, np.empty(a.size), x)


@njit(cache=True, nogil=True, error_model="numpy")
def _again(p, kl, theta):
    """Take a projection for the scores, as which it has all its digits; -inf stays."""
    for i in range(len(p)):
        for j in range(p.shape[1]):
            if theta[i, j] > -np.inf:
                theta[i, j] = math.log(p[i, j]) if kl else p[i, j]


@njit(cache=True, nogil=True)
def _within(p, a, b):
    """No entry exceeds the sum of its row or column, not even by a rounding."""
    for i in range(a.size):
        for j in range(b.size):
            p[i, j] = min(p[i, j], a[i], b[j])


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(values, m, n):
    """A flat matrix in float64, transposed where it has more columns than rows."""
    matrix = np.empty((max(m, n), min(m, n)))
    for i in range(m):
        for j in range(n):
            if n > m:
                matrix[j, i] = values[i * n + j]
            else:
                matrix[i, j] = values[i * n + j]
    return matrix


@njit(cache=True, nogil=True, error_model="numpy")
def _write(matrix, out, m, n):
    """Undo ``_copy``."""
    for i in range(m):
        for j in range(n):
            out[i * n + j] = matrix[j, i] if n > m else matrix[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def project_rows(values, offsets, m, n, kl, a, b, out, left, start, stop):
    """Project the matrices (m[r], n[r]) of rows start .. stop - 1 on sums a[:m], b[:n].

    ``left`` gets the violation of their sums, as a share of the mass.
    """
    for row in range(start, stop):
        theta = _copy(values[offsets[row] : offsets[row + 1]], m[row], n[row])
        p = np.empty_like(theta)
        rows, columns = a[: m[row]], b[: n[row]]
        if n[row] > m[row]:
            rows, columns = columns, rows
        left[row] = _project(theta, kl, rows, columns, p)
        low, high = (4 * _VIOLATION, _NEAR) if kl else (_ROUNDED, _VIOLATION)
        if low < left[row] <= high:
            _again(p, kl, theta)  # the projection of what rounding moved off the polytope
            left[row] = _project(theta, kl, rows, columns, p)
        _within(p, rows, columns)
        _write(p, out[offsets[row] : offsets[row + 1]], m[row], n[row])


@njit(cache=True, nogil=True, error_model="numpy")
def jvp_rows(values, offsets, m, n, kl, tangent, out, start, stop):
    """The derivative of either projection, from its result: q (v - y_j - mean of its row).

    The means are weighted with q (1 on the support, or P), and y makes the column sums 0.
    """
    for row in range(start, stop):
        part = slice(offsets[row], offsets[row + 1])
        p, v = _copy(values[part], m[row], n[row]), _copy(tangent[part], m[row], n[row])
        size = p.shape[1]
        weights, q, y = np.empty((size, size)), np.empty(size), np.empty(size)
        _graph(p, kl, weights, q)
        if not kl:
            for i in range(len(p)):
                for j in range(size):
                    p[i, j] = 1.0 if p[i, j] > 0.0 else 0.0
        rhs = np.zeros(size)
        for i in range(len(p)):
            mean = _mean(p[i], v[i])
            for j in range(size):
                v[i, j] -= mean
                rhs[j] += p[i, j] * v[i, j]
        solve(weights, np.zeros(size), rhs, y)
        for i in range(len(p)):
            for j in range(size):
                v[i, j] -= y[j]
            mean = _mean(p[i], v[i])
            for j in range(size):
                v[i, j] = (v[i, j] - mean) * p[i, j]
        _write(v, out[part], m[row], n[row])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _mean(q, v):
    """The mean of v with weights q; 0 without any."""
    total, mass = 0.0, 0.0
    for j in range(q.size):
        total += q[j] * v[j]
        mass += q[j]
    return total / mass if mass > 0.0 else 0.0
