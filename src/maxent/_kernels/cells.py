"""Piecewise-linear features of the cells: histograms, cumulative sums and table look-ups.

Features of one variable are given by (kind, knot): with u the variable scaled to [0, 1] and
``codes`` the number of knots strictly below it,
    LINEAR u,  QUADRATIC c0 + c1 u + c2 u^2,  FORWARD (u - t)_+ / (1 - t),
    REVERSE (t - u)_+ / t,  THRESHOLD [u > t].
"""

import numpy as np
from numba import njit

LINEAR, QUADRATIC, FORWARD, REVERSE, THRESHOLD = 0, 1, 2, 3, 4
_SUM = {"reassoc", "contract"}  # sums in any order, so that they run in vector registers


@njit(cache=True, nogil=True)
def histogram(x, codes, low, scale, p, h0, h1, powers):
    """Sums of p and p u in each bin, and of p u^k, k = 2, in ``powers[2]``."""
    second = 0.0
    for i in range(x.size):
        mass = p[i]
        if mass != 0.0:
            u = (x[i] - low) * scale
            c = codes[i]
            mu = mass * u
            h0[c] += mass
            h1[c] += mu
            second += mu * u
    powers[2] += second


@njit(cache=True, nogil=True)
def histogram_squares(x, codes, low, scale, p, h0, h1, h2, powers):
    """As ``histogram`` with the second powers in each bin and powers up to 4 in all."""
    for i in range(x.size):
        mass = p[i]
        if mass != 0.0:
            u = (x[i] - low) * scale
            c = codes[i]
            h0[c] += mass
            h1[c] += mass * u
            h2[c] += mass * u * u
            powers[2] += mass * u * u
            powers[3] += mass * u * u * u
            powers[4] += mass * u * u * u * u


@njit(cache=True, nogil=True)
def curve_moments(kind, position, knots, h0, h1, powers, c0, c1, c2, out):
    """Means of the features of one variable from its histograms, which become sums.

    On return h0[c], h1[c] are the sums over the bins >= c.
    """
    bins = h0.size
    for c in range(bins - 2, -1, -1):
        h0[c] += h0[c + 1]
        h1[c] += h1[c + 1]
    total0, total1 = h0[0], h1[0]
    for j in range(kind.size):
        k = position[j]
        if kind[j] == LINEAR:
            out[j] = total1
        elif kind[j] == QUADRATIC:
            out[j] = c0 * total0 + c1 * total1 + c2 * powers[2]
        elif kind[j] == THRESHOLD:
            out[j] = h0[k + 1]
        elif kind[j] == FORWARD:
            t = knots[k]
            out[j] = (h1[k + 1] - t * h0[k + 1]) / (1.0 - t)
        else:
            t = knots[k]
            out[j] = (t * (total0 - h0[k + 1]) - (total1 - h1[k + 1])) / t


@njit(cache=True, nogil=True)
def curve_squares(kind, position, knots, h0, h1, h2, powers, c0, c1, c2, out):
    """Means of the squared features of one variable from its histograms, which become sums."""
    bins = h0.size
    for c in range(bins - 2, -1, -1):
        h0[c] += h0[c + 1]
        h1[c] += h1[c + 1]
        h2[c] += h2[c + 1]
    total0, total1, total2 = h0[0], h1[0], h2[0]
    for j in range(kind.size):
        k = position[j]
        if kind[j] == LINEAR:
            out[j] = total2
        elif kind[j] == QUADRATIC:
            out[j] = (
                c0 * c0 * total0
                + 2.0 * c0 * c1 * total1
                + (c1 * c1 + 2.0 * c0 * c2) * powers[2]
                + 2.0 * c1 * c2 * powers[3]
                + c2 * c2 * powers[4]
            )
        elif kind[j] == THRESHOLD:
            out[j] = h0[k + 1]
        elif kind[j] == FORWARD:
            t = knots[k]
            s = 1.0 - t
            out[j] = (h2[k + 1] - 2.0 * t * h1[k + 1] + t * t * h0[k + 1]) / (s * s)
        else:
            t = knots[k]
            below0, below1 = total0 - h0[k + 1], total1 - h1[k + 1]
            out[j] = (t * t * below0 - 2.0 * t * below1 + total2 - h2[k + 1]) / (t * t)


@njit(cache=True, nogil=True)
def curve_tables(kind, position, knots, w, c0, c1, c2, intercept, slope):
    """The curve sum_j w_j f_j of one variable: intercept + slope u + bend u^2 in each bin.

    Fills the two tables (one entry a bin) and returns the bend.
    """
    bins = intercept.size
    base0, base1, bend = 0.0, 0.0, 0.0
    intercept[:] = 0.0
    slope[:] = 0.0
    for j in range(kind.size):
        weight = w[j]
        if weight == 0.0:
            continue
        k = position[j]
        if kind[j] == LINEAR:
            base1 += weight
        elif kind[j] == QUADRATIC:
            base0 += weight * c0
            base1 += weight * c1
            bend += weight * c2
        elif kind[j] == THRESHOLD:
            intercept[k + 1] += weight
        elif kind[j] == FORWARD:
            t = knots[k]
            intercept[k + 1] -= weight * t / (1.0 - t)
            slope[k + 1] += weight / (1.0 - t)
        else:  # (t - u)_+ = (t - u) + (u - t)_+
            t = knots[k]
            base0 += weight
            base1 -= weight / t
            intercept[k + 1] -= weight
            slope[k + 1] += weight / t
    intercept[0] += base0
    slope[0] += base1
    for c in range(1, bins):
        intercept[c] += intercept[c - 1]
        slope[c] += slope[c - 1]
    return bend


@njit(cache=True, nogil=True)
def add_curve(x, codes, low, scale, intercept, slope, bend, theta):
    """theta += the curve of one variable at every cell."""
    for i in range(x.size):
        u = (x[i] - low) * scale
        c = codes[i]
        theta[i] += intercept[c] + u * (slope[c] + bend * u)


@njit(cache=True, nogil=True)
def write_curves(values, variable, kind, knot, raw, low, scale, c0, c1, c2, root, start, stop, out):
    """out[j, i] = root_i f_j(cell i), one row a feature; knots in [0, 1] and in units of x."""
    for j in range(kind.size):
        v = variable[j]
        lo, sc, t = low[v], scale[v], knot[j]
        x = values[v]
        row = out[j]
        if kind[j] == LINEAR:
            for i in range(start, stop):
                row[i - start] = root[i] * ((x[i] - lo) * sc)
        elif kind[j] == QUADRATIC:
            a, b, c = c0[v], c1[v], c2[v]
            for i in range(start, stop):
                u = (x[i] - lo) * sc
                row[i - start] = root[i] * (a + u * (b + c * u))
        elif kind[j] == THRESHOLD:
            edge = raw[j]  # the comparison that the codes were made with
            for i in range(start, stop):
                row[i - start] = root[i] if x[i] > edge else 0.0
        elif kind[j] == FORWARD:
            inverse = 1.0 / (1.0 - t)
            for i in range(start, stop):
                above = ((x[i] - lo) * sc - t) * inverse
                row[i - start] = root[i] * above if above > 0.0 else 0.0
        else:
            inverse = 1.0 / t
            for i in range(start, stop):
                below = (t - (x[i] - lo) * sc) * inverse
                row[i - start] = root[i] * below if below > 0.0 else 0.0


@njit(cache=True, nogil=True)
def add_products(values, first, second, low, scale, pair_weight, edge, theta, start, stop):
    """theta += sum of pair_weight u_i u_j over pairs, plus edge_v u_v over variables."""
    for v in range(edge.size):
        if edge[v] != 0.0:
            x, lo, a = values[v], low[v], edge[v] * scale[v]
            for i in range(start, stop):
                theta[i] += a * (x[i] - lo)
    for k in range(first.size):
        a = pair_weight[k]
        if a != 0.0:
            x, y = values[first[k]], values[second[k]]
            lx, ly = low[first[k]], low[second[k]]
            a *= scale[first[k]] * scale[second[k]]
            for i in range(start, stop):
                theta[i] += a * (x[i] - lx) * (y[i] - ly)


@njit(cache=True, nogil=True)
def write_products(
    values, first, second, low, scale, c0, ci, cj, cij, root, start, stop, clamp, out
):
    """out[k, i] = root_i (c0 + ci u_i + cj u_j + cij u_i u_j), held within [0, 1] by ``clamp``."""
    for k in range(first.size):
        x, y = values[first[k]], values[second[k]]
        lx, ly, sx, sy = low[first[k]], low[second[k]], scale[first[k]], scale[second[k]]
        a, b, c, e = c0[k], ci[k], cj[k], cij[k]
        row = out[k]
        for i in range(start, stop):
            u = (x[i] - lx) * sx
            v = (y[i] - ly) * sy
            row[i - start] = a + b * u + (c + e * u) * v
        if clamp:
            for i in range(stop - start):
                row[i] = min(max(row[i], 0.0), 1.0)
        for i in range(start, stop):
            row[i - start] *= root[i]


@njit(cache=True, nogil=True, fastmath=_SUM)
def product_moments(values, first, second, low, scale, p, start, stop, ends, pairs):
    """Adds sum p u_v to ``ends`` and sum p u_i u_j to ``pairs`` over some cells."""
    for v in range(ends.size):
        x, lo, total = values[v], low[v], 0.0
        for i in range(start, stop):
            total += p[i] * (x[i] - lo)
        ends[v] += total * scale[v]
    for k in range(first.size):
        x, y = values[first[k]], values[second[k]]
        lx, ly, total = low[first[k]], low[second[k]], 0.0
        for i in range(start, stop):
            total += p[i] * (x[i] - lx) * (y[i] - ly)
        pairs[k] += total * scale[first[k]] * scale[second[k]]


@njit(cache=True, nogil=True)
def product_range(x, y):
    """Smallest and largest x y over the cells."""
    least, most = np.inf, -np.inf
    for i in range(x.size):
        value = float(x[i]) * float(y[i])
        least = min(least, value)
        most = max(most, value)
    return least, most


@njit(cache=True, nogil=True)
def add_levels(codes, w, theta):
    """theta += w[level], nothing for an unknown level (code -1)."""
    for i in range(codes.size):
        if codes[i] >= 0:
            theta[i] += w[codes[i]]


@njit(cache=True, nogil=True)
def sum_levels(codes, p, out):
    """out[level] += p."""
    for i in range(codes.size):
        if codes[i] >= 0:
            out[codes[i]] += p[i]
