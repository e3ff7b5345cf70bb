"""Piecewise-linear features of the cells: histograms, cumulative sums and table look-ups.

Features of one variable are given by (kind, knot): with u = (x - low) / (high - low) and ``codes``
the number of knots strictly below x,
    LINEAR u,  QUADRATIC c0 + c1 u + c2 u^2,  FORWARD (u - t)_+ / (1 - t),
    REVERSE (t - u)_+ / t,  THRESHOLD [u > t].
Bins from ``upper`` on lie above knots >= 1/2. There 1 - u takes the place of u in every sum and
table: close to either end of the range, where hinges are steep, no digits cancel.
"""

import numpy as np

from maxent._support.compiling.kernels import njit, twin

LINEAR, QUADRATIC, FORWARD, REVERSE, THRESHOLD = 0, 1, 2, 3, 4
_SUM = {"reassoc", "contract"}  # sums in any order, so that they run in vector registers


@njit(cache=True, nogil=True)
def _curve_means(kind, position, knots, rest, upper, h0, h1, h2, powers, parabola, order, out):
    """Means of the features of one variable (``order`` 1) or of their squares (2).

    h0, h1, h2 are the sums in each bin of p, p v and p v^2, v = u and 1 - u in upper bins; ``rest``
    is 1 - knots, ``powers`` the sums of p u^k. Sums over the bins above a knot run from the
    right and below it from the left, so that each is as exact as its own terms.
    """
    bins = h0.size
    right = np.zeros((3, bins + 1))  # sums of 1, u and u^2; of 1 - u and its square in upper bins
    r0, r1, r2 = 0.0, 0.0, 0.0
    for c in range(bins - 1, -1, -1):
        if c == upper - 1:  # from 1 - u to u
            r2 = r0 - 2.0 * r1 + r2
            r1 = r0 - r1
        r0 += h0[c]
        r1 += h1[c]
        r2 += h2[c]
        right[0, c], right[1, c], right[2, c] = r0, r1, r2
    left = np.zeros((3, bins + 1))  # sums of 1, u and u^2
    for c in range(bins):
        left[0, c + 1] = left[0, c] + h0[c]
        if c < upper:
            left[1, c + 1] = left[1, c] + h1[c]
            left[2, c + 1] = left[2, c] + h2[c]
        else:
            left[1, c + 1] = left[1, c] + (h0[c] - h1[c])
            left[2, c + 1] = left[2, c] + (h0[c] - 2.0 * h1[c] + h2[c])
    a, b, e = parabola
    for j in range(kind.size):
        k = position[j]
        if kind[j] == LINEAR:
            out[j] = powers[order]
        elif kind[j] == QUADRATIC:
            if order == 1:
                out[j] = a * powers[0] + b * powers[1] + e * powers[2]
            else:
                out[j] = (
                    a * a * powers[0]
                    + 2.0 * a * b * powers[1]
                    + (b * b + 2.0 * a * e) * powers[2]
                    + 2.0 * b * e * powers[3]
                    + e * e * powers[4]
                )
        elif kind[j] == THRESHOLD:
            out[j] = right[0, k + 1]
        elif kind[j] == FORWARD:
            n, first, second, s = right[0, k + 1], right[1, k + 1], right[2, k + 1], rest[k]
            if k + 1 >= upper:  # 1 - (1 - u) / s
                out[j] = n - first / s if order == 1 else n - (2.0 * first - second / s) / s
            elif order == 1:
                out[j] = (first - knots[k] * n) / s
            else:
                out[j] = (second - knots[k] * (2.0 * first - knots[k] * n)) / (s * s)
        else:  # 1 - u / t
            n, first, second, t = left[0, k + 1], left[1, k + 1], left[2, k + 1], knots[k]
            out[j] = n - first / t if order == 1 else n - (2.0 * first - second / t) / t


@njit(cache=True, nogil=True)
def mean_curves(x, codes, low, high, upper, p, kind, position, knots, rest, parabola, out):
    """sum_i p_i f_j(i) of the features of one variable, into ``out``."""
    scale = 1.0 / (high - low)
    h0, h1 = np.zeros(knots.size + 1), np.zeros(knots.size + 1)
    powers = np.zeros(3)
    for i in range(x.size):
        mass = p[i]
        if mass != 0.0:
            u = (x[i] - low) * scale
            c = codes[i]
            h0[c] += mass
            h1[c] += mass * u if c < upper else mass * ((high - x[i]) * scale)
            powers[2] += mass * u * u
    for c in range(h0.size):
        powers[0] += h0[c]
        powers[1] += h1[c] if c < upper else h0[c] - h1[c]
    _curve_means(kind, position, knots, rest, upper, h0, h1, h1, powers, parabola, 1, out)


@njit(cache=True, nogil=True)
def mean_squares(x, codes, low, high, upper, p, kind, position, knots, rest, parabola, out):
    """sum_i p_i f_j(i)^2 of the features of one variable, into ``out``."""
    scale = 1.0 / (high - low)
    h0, h1, h2 = np.zeros(knots.size + 1), np.zeros(knots.size + 1), np.zeros(knots.size + 1)
    powers = np.zeros(5)
    for i in range(x.size):
        mass = p[i]
        if mass != 0.0:
            u = (x[i] - low) * scale
            c = codes[i]
            near = u if c < upper else (high - x[i]) * scale
            h0[c] += mass
            h1[c] += mass * near
            h2[c] += mass * near * near
            power = mass
            for k in range(5):
                powers[k] += power
                power *= u
    _curve_means(kind, position, knots, rest, upper, h0, h1, h2, powers, parabola, 2, out)


@twin(mean_curves)
def mean_curves_at_once(x, codes, low, high, upper, p, kind, position, knots, rest, parabola, out):
    """The same in numpy."""
    p, codes, u, near = _scaled(x, codes, low, high, upper, p)
    h0, h1 = _in_bins(codes, (p, p * near), knots.size + 1)
    ones = np.where(np.arange(h0.size) < upper, h1, h0 - h1)
    powers = [in_order(values) for values in (h0, ones, p * u * u)]
    _means_at_once(kind, position, knots, rest, upper, h0, h1, h1, powers, parabola, 1, out)


@twin(mean_squares)
def mean_squares_at_once(x, codes, low, high, upper, p, kind, position, knots, rest, parabola, out):
    """The same in numpy."""
    p, codes, u, near = _scaled(x, codes, low, high, upper, p)
    h0, h1, h2 = _in_bins(codes, (p, p * near, p * near * near), knots.size + 1)
    powers, power = [], p
    for _ in range(5):
        powers.append(in_order(power))
        power = power * u
    _means_at_once(kind, position, knots, rest, upper, h0, h1, h2, powers, parabola, 2, out)


def in_order(values):
    """The sum from first to last: numpy's own takes pairs, and has other last digits."""
    return np.cumsum(values)[-1] if values.size else 0.0


def _scaled(x, codes, low, high, upper, p):
    """Of the cells with mass: mass, codes, u, and 1 - u instead in upper bins."""
    x = x.astype(np.float64, copy=False)
    if not p.all():
        x, codes, p = (part[p != 0.0] for part in (x, codes, p))
    scale = 1.0 / (high - low)
    u = (x - low) * scale
    return p, codes, u, np.where(codes < upper, u, (high - x) * scale)


def _in_bins(codes, masses, size):
    return [np.bincount(codes, mass, size) for mass in masses]


def _means_at_once(kind, position, knots, rest, upper, h0, h1, h2, powers, parabola, order, out):
    """As ``_curve_means``."""
    a, b, e = parabola
    out[kind == LINEAR] = powers[order]
    if order == 1:
        square = a * powers[0] + b * powers[1] + e * powers[2]
    else:
        square = (
            a * a * powers[0]
            + 2.0 * a * b * powers[1]
            + (b * b + 2.0 * a * e) * powers[2]
            + 2.0 * b * e * powers[3]
            + e * e * powers[4]
        )
    out[kind == QUADRATIC] = square
    if not knots.size:
        return
    h = np.array([h0, h1, h2][: order + 1])
    bins, right, left = (
        h0.size,
        np.zeros((order + 1, h0.size + 1)),
        np.zeros((order + 1, h0.size + 1)),
    )
    right[:, upper:bins] = np.cumsum(h[:, upper:][:, ::-1], axis=1)[:, ::-1]
    whole = h[:, :upper][:, ::-1]
    before = _turned(right[:, upper, None])  # from 1 - u to u
    right[:, :upper] = np.cumsum(np.concatenate([before, whole], axis=1), axis=1)[:, :0:-1]
    own = np.concatenate([h[:, :upper], _turned(h[:, upper:])], axis=1)
    np.cumsum(own, axis=1, out=left[:, 1:])
    where = kind == THRESHOLD
    out[where] = right[0, position[where] + 1]
    where = kind == FORWARD
    k = position[where]
    (n, first, *second), s, t = right[:, k + 1], rest[k], knots[k]
    if order == 1:
        out[where] = np.where(k + 1 >= upper, n - first / s, (first - t * n) / s)
    else:
        far = n - (2.0 * first - second[0] / s) / s
        near = (second[0] - t * (2.0 * first - t * n)) / (s * s)
        out[where] = np.where(k + 1 >= upper, far, near)
    where = kind == REVERSE
    (n, first, *second), t = left[:, position[where] + 1], knots[position[where]]
    out[where] = n - first / t if order == 1 else n - (2.0 * first - second[0] / t) / t


def _turned(h):
    """Sums of 1, u and u^2 from those of 1, 1 - u and its square, or the other way round."""
    ones, first, *second = h
    return np.array([ones, ones - first, *(ones - 2.0 * first + square for square in second)])


@njit(cache=True, nogil=True)
def curve_tables(kind, position, knots, rest, upper, w, parabola, intercept, slope):
    """The curve sum_j w_j f_j of one variable in each bin: intercept + slope v + bend u^2.

    v is u, and 1 - u in upper bins. Fills the two tables and returns the bend.
    """
    bins = intercept.size
    forward, reverse, jump = np.zeros(bins), np.zeros(bins), np.zeros(bins)
    base, linear, bend = 0.0, 0.0, 0.0
    for j in range(kind.size):
        k = position[j]
        if kind[j] == LINEAR:
            linear += w[j]
        elif kind[j] == QUADRATIC:
            base += w[j] * parabola[0]
            linear += w[j] * parabola[1]
            bend += w[j] * parabola[2]
        elif kind[j] == THRESHOLD:
            jump[k] += w[j]
        elif kind[j] == FORWARD:
            forward[k] += w[j]
        else:
            reverse[k] += w[j]
    above, steep, lift = 0.0, 0.0, base  # sums over the knots below the bin
    for c in range(bins):
        if c > 0:
            lift += jump[c - 1]
            above += forward[c - 1]
            if forward[c - 1] != 0.0:
                steep += forward[c - 1] / rest[c - 1]
        if c < upper:  # (u - t) / s = 1 - 1 / s + u / s, as t = 1 - s
            intercept[c], slope[c] = lift + above - steep, linear + steep
        else:  # 1 - (1 - u) / s
            intercept[c], slope[c] = lift + above + linear, -linear - steep
    below, steep = 0.0, 0.0  # sums over the knots above the bin
    for c in range(bins - 1, -1, -1):
        if c < bins - 1 and reverse[c] != 0.0:
            below += reverse[c]
            steep += reverse[c] / knots[c]
        if c < upper:  # 1 - u / t
            intercept[c] += below
            slope[c] -= steep
        else:
            intercept[c] += below - steep
            slope[c] += steep
    return bend


@twin(curve_tables)
def curve_tables_at_once(kind, position, knots, rest, upper, w, parabola, intercept, slope):
    """The same in numpy."""
    bins = intercept.size
    kinds = (FORWARD, REVERSE, THRESHOLD)
    forward, reverse, jump = (np.bincount(position[kind == k], w[kind == k], bins) for k in kinds)
    square = w[kind == QUADRATIC]
    base, bend = (in_order(square * c) for c in (parabola[0], parabola[2]))
    plain = kind <= QUADRATIC
    linear = in_order(np.where(kind == LINEAR, w, w * parabola[1])[plain])
    lift = np.cumsum(np.concatenate([[base], jump[:-1]]))
    above = np.cumsum(np.concatenate([[0.0], forward[:-1]]))
    steps = np.divide(forward[:-1], rest, out=np.zeros(bins - 1), where=forward[:-1] != 0.0)
    steep = np.cumsum(np.concatenate([[0.0], steps]))
    low = np.arange(bins) < upper
    intercept[:] = np.where(low, lift + above - steep, lift + above + linear)
    slope[:] = np.where(low, linear + steep, -linear - steep)
    below = np.cumsum(np.concatenate([reverse[:-1], [0.0]])[::-1])[::-1]
    steps = np.divide(reverse[:-1], knots, out=np.zeros(bins - 1), where=reverse[:-1] != 0.0)
    steep = np.cumsum(np.concatenate([steps, [0.0]])[::-1])[::-1]
    intercept += np.where(low, below, below - steep)
    slope += np.where(low, -steep, steep)
    return bend


@njit(cache=True, nogil=True)
def add_curve(x, codes, low, high, upper, intercept, slope, bend, theta):
    """theta += the curve of one variable at every cell."""
    scale = 1.0 / (high - low)
    for i in range(x.size):
        c = codes[i]
        u = (x[i] - low) * scale
        v = u if c < upper else (high - x[i]) * scale
        theta[i] += intercept[c] + slope[c] * v + bend * u * u


@twin(add_curve)
def add_curve_at_once(x, codes, low, high, upper, intercept, slope, bend, theta):
    """The same in numpy."""
    x, scale = x.astype(np.float64, copy=False), 1.0 / (high - low)
    u = (x - low) * scale
    v = np.where(codes < upper, u, (high - x) * scale)
    theta += intercept[codes] + slope[codes] * v + bend * u * u


# Loops over a part of the cells run over slices from 0: an index that might be negative would keep
# them out of vector registers.


@njit(cache=True, nogil=True)
def write_curves(values, variable, kind, knot, low, high, parabola, root, start, stop, out):
    """out[j, i] = root_i f_j(cell i), one row per feature; knots in units of x."""
    r = root[start:stop]
    for j in range(kind.size):
        v = variable[j]
        lo, hi, t = low[v], high[v], knot[j]
        scale = 1.0 / (hi - lo)
        x = values[v, start:stop]
        row = out[j]
        if kind[j] == LINEAR:
            for i in range(x.size):
                row[i] = r[i] * ((x[i] - lo) * scale)
        elif kind[j] == QUADRATIC:
            a, b, c = parabola[0, v], parabola[1, v], parabola[2, v]
            for i in range(x.size):
                u = (x[i] - lo) * scale
                row[i] = r[i] * (a + u * (b + c * u))
        elif kind[j] == THRESHOLD:
            for i in range(x.size):
                row[i] = r[i] if x[i] > t else 0.0
        elif kind[j] == FORWARD:
            inverse = 1.0 / (hi - t)
            for i in range(x.size):
                above = (x[i] - t) * inverse
                row[i] = r[i] * (above if above > 0.0 else 0.0)
        else:
            inverse = 1.0 / (t - lo)
            for i in range(x.size):
                below = (t - x[i]) * inverse
                row[i] = r[i] * (below if below > 0.0 else 0.0)


@twin(write_curves)
def write_curves_at_once(values, variable, kind, knot, low, high, parabola, root, start, stop, out):
    """The same in numpy."""
    r = root[start:stop]
    for j in range(kind.size):
        v = variable[j]
        lo, hi, t = low[v], high[v], knot[j]
        x = values[v, start:stop].astype(np.float64, copy=False)
        u = (x - lo) * (1.0 / (hi - lo))
        if kind[j] == LINEAR:
            feature = u
        elif kind[j] == QUADRATIC:
            feature = parabola[0, v] + u * (parabola[1, v] + parabola[2, v] * u)
        elif kind[j] == THRESHOLD:
            out[j] = np.where(x > t, r, 0.0)
            continue
        else:
            over = (x - t) * (1.0 / (hi - t)) if kind[j] == FORWARD else (t - x) * (1.0 / (t - lo))
            feature = np.where(over > 0.0, over, 0.0)
        out[j] = r * feature


@njit(cache=True, nogil=True)
def add_products(values, first, second, low, scale, pair_weight, edge, theta, start, stop):
    """theta += sum of pair_weight u_i u_j over pairs, plus edge_v u_v over variables."""
    out = theta[start:stop]
    for v in range(edge.size):
        if edge[v] != 0.0:
            x, lo, a = values[v, start:stop], low[v], edge[v] * scale[v]
            for i in range(x.size):
                out[i] += a * (x[i] - lo)
    for k in range(first.size):
        a = pair_weight[k]
        if a != 0.0:
            x, y = values[first[k], start:stop], values[second[k], start:stop]
            lx, ly = low[first[k]], low[second[k]]
            a *= scale[first[k]] * scale[second[k]]
            for i in range(x.size):
                out[i] += a * (x[i] - lx) * (y[i] - ly)


@twin(add_products)
def add_products_at_once(values, first, second, low, scale, pair_weight, edge, theta, start, stop):
    """The same in numpy."""
    out = theta[start:stop]
    x = values[:, start:stop].astype(np.float64, copy=False) - low[:, None]
    for v in np.flatnonzero(edge):
        out += (edge[v] * scale[v]) * x[v]
    for k in np.flatnonzero(pair_weight):
        i, j = first[k], second[k]
        out += (pair_weight[k] * (scale[i] * scale[j])) * x[i] * x[j]


@njit(cache=True, nogil=True)
def write_products(
    values, first, second, low, scale, c0, ci, cj, cij, root, start, stop, clamp, out
):
    """out[k, i] = root_i (c0 + ci u_i + cj u_j + cij u_i u_j), held within [0, 1] by ``clamp``."""
    r = root[start:stop]
    for k in range(first.size):
        x, y = values[first[k], start:stop], values[second[k], start:stop]
        lx, ly, sx, sy = low[first[k]], low[second[k]], scale[first[k]], scale[second[k]]
        a, b, c, e = c0[k], ci[k], cj[k], cij[k]
        row = out[k]
        for i in range(x.size):
            u = (x[i] - lx) * sx
            v = (y[i] - ly) * sy
            row[i] = a + b * u + (c + e * u) * v
        if clamp:
            for i in range(x.size):
                row[i] = min(max(row[i], 0.0), 1.0)
        for i in range(x.size):
            row[i] *= r[i]


@twin(write_products)
def write_products_at_once(
    values, first, second, low, scale, c0, ci, cj, cij, root, start, stop, clamp, out
):
    """The same in numpy."""
    x = values[:, start:stop].astype(np.float64, copy=False)
    x = (x - low[:, None]) * scale[:, None]
    for k in range(first.size):
        u, v = x[first[k]], x[second[k]]
        row = c0[k] + ci[k] * u + (cj[k] + cij[k] * u) * v
        if clamp:
            row = np.minimum(np.maximum(row, 0.0), 1.0)
        out[k] = row * root[start:stop]


@njit(cache=True, nogil=True, fastmath=_SUM)
def product_moments(values, first, second, low, scale, p, start, stop, ends, pairs):
    """Adds sum p u_v to ``ends`` and sum p u_i u_j to ``pairs`` over some cells."""
    mass = p[start:stop]
    for v in range(ends.size):
        x, lo, total = values[v, start:stop], low[v], 0.0
        for i in range(x.size):
            total += mass[i] * (x[i] - lo)
        ends[v] += total * scale[v]
    for k in range(first.size):
        x, y = values[first[k], start:stop], values[second[k], start:stop]
        lx, ly, total = low[first[k]], low[second[k]], 0.0
        for i in range(x.size):
            total += mass[i] * (x[i] - lx) * (y[i] - ly)
        pairs[k] += total * scale[first[k]] * scale[second[k]]


@njit(cache=True, nogil=True)
def product_range(x, y):
    """Smallest and largest x y over the cells."""
    least, most = np.inf, -np.inf
    for i in range(x.size):
        value = np.float64(x[i]) * np.float64(y[i])
        least = min(least, value)
        most = max(most, value)
    return least, most


@twin(product_range)
def product_range_at_once(x, y):
    """The same in numpy."""
    product = x.astype(np.float64) * y.astype(np.float64)
    return product.min(initial=np.inf), product.max(initial=-np.inf)


@njit(cache=True, nogil=True)
def add_levels(codes, w, theta):
    """theta += w[level], nothing for an unknown level (code -1)."""
    for i in range(codes.size):
        if codes[i] >= 0:
            theta[i] += w[codes[i]]


@twin(add_levels)
def add_levels_at_once(codes, w, theta):
    """The same in numpy."""
    known = codes >= 0
    theta[known] += w[codes[known]]


@njit(cache=True, nogil=True)
def sum_levels(codes, p, out):
    """out[level] += p."""
    for i in range(codes.size):
        if codes[i] >= 0:
            out[codes[i]] += p[i]


@twin(sum_levels)
def sum_levels_at_once(codes, p, out):
    """The same in numpy."""
    known = codes >= 0
    np.add.at(out, codes[known], p[known])
