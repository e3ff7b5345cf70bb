"""Scores, similarities and level codes of many cells: a few look-ups in flat tables per cell."""

import numpy as np

from maxent._support.compiling.kernels import njit, twin

_TILE = 512  # cells whose scores and scaled variables stay in cache


@njit(cache=True, nogil=True)
def _bin(x, begin, per_unit, last):
    """The bin of x among equal ones, 0 to ``last``; NaN is in the first."""
    t = (x - begin) * per_unit
    t = t if t > 0.0 else 0.0
    return int(t if t < last else last)


@njit(cache=True, nogil=True)
def fill_guide(knots, begin, per_unit, guide):
    """guide[b] = number of knots in bins before b.

    ``_bin`` never falls as x grows, so that they are below any x of bin b, to the last digit.
    """
    bins = guide.size - 1
    guide[:] = 0
    for k in range(knots.size):
        guide[_bin(knots[k], begin, per_unit, float(bins - 1)) + 1] += 1
    for b in range(bins):
        guide[b + 1] += guide[b]


@twin(fill_guide)
def fill_guide_at_once(knots, begin, per_unit, guide):
    """The same in numpy."""
    t = (knots - begin) * per_unit
    t = np.minimum(np.where(t > 0.0, t, 0.0), float(guide.size - 2))
    guide[0] = 0
    guide[1:] = np.cumsum(np.bincount(t.astype(np.int64), minlength=guide.size - 1))


@njit(cache=True, nogil=True)
def _place(x, b, knots, guide):
    """Number of knots strictly below x, which is in bin b."""
    one = np.uint64(1)  # unsigned: an index that might be negative costs a test
    first, last = np.uint64(guide[b]), np.uint64(guide[b + one])
    while first < last:
        middle = (first + last) >> one
        if knots[middle] < x:
            first = middle + one
        else:
            last = middle
    return first


@njit(cache=True, nogil=True)
def _held(x, low, high):
    return low if x < low else (high if x > high else x)


@njit(cache=True, nogil=True)
def _add_curve(value, knots, begin, per_unit, guide, pieces, bend, scale, bins, theta):
    """theta += intercept + slope (x - origin) of the piece that x lies in, + bend u^2.

    u = scale (x - begin), the variable scaled to [0, 1].
    """
    last = float(guide.size - 2)
    for i in range(theta.size):  # apart from the look-ups, so that it runs in vector registers
        bins[i] = _bin(value[i], begin, per_unit, last)
    for i in range(theta.size):
        x = value[i]
        piece = pieces[_place(x, np.uint64(bins[i]), knots, guide)]
        u = (x - begin) * scale
        theta[i] += piece[0] + piece[1] * (x - piece[2]) + bend * u * u


@njit(cache=True, nogil=True)
def _lift_square(value, begin, scale, parabola, weight, theta):
    """Hold a square at 0 or above: a value may be nearer to 0 than that of any cell was."""
    a, b, c = parabola
    for i in range(theta.size):
        u = (value[i] - begin) * scale
        square = a + u * (b + c * u)
        theta[i] -= weight * square if square < 0.0 else 0.0


@njit(cache=True, nogil=True)
def add_scores(
    values, codes, low, high, clamp,
    curve, numbers, knot_cuts, knots, guide_cuts, guide, pieces,
    unit, unit_numbers, first, second, products,
    category, level_cuts, levels,
    start, stop, theta,
):  # fmt: skip
    """theta[start:stop] += curves, products and levels; ``clamp`` holds variables and features.

    A row of ``numbers`` is begin, per_unit, bend, scale, three coefficients and the weight of a
    square; of ``unit_numbers`` low and scale of a variable in products; of ``products`` the
    coefficients of 1, u, v and u v and a weight. ``low`` and ``high`` are infinite where not to
    clamp. Codes below 0 have no effect.
    """
    scaled = np.empty((unit.size, _TILE))
    held, bins = np.empty(_TILE), np.empty(_TILE, dtype=np.int32)
    for begin in range(start, stop, _TILE):
        end = min(begin + _TILE, stop)
        out = theta[begin:end]
        for k in range(curve.size):
            x, lo, hi = values[curve[k], begin:end], low[curve[k]], high[curve[k]]
            for i in range(x.size):
                held[i] = _held(np.float64(x[i]), lo, hi)
            a, b = knot_cuts[k], knot_cuts[k + 1]
            _add_curve(
                held, knots[a:b], numbers[k, 0], numbers[k, 1],
                guide[guide_cuts[k] : guide_cuts[k + 1]], pieces[a + k : b + k + 1],
                numbers[k, 2], numbers[k, 3], bins, out,
            )  # fmt: skip
            if clamp and numbers[k, 7] != 0.0:
                _lift_square(
                    held, numbers[k, 0], numbers[k, 3],
                    (numbers[k, 4], numbers[k, 5], numbers[k, 6]), numbers[k, 7], out,
                )  # fmt: skip
        for k in range(unit.size):
            x, lo, hi = values[unit[k], begin:end], low[unit[k]], high[unit[k]]
            u, origin, scale = scaled[k], unit_numbers[k, 0], unit_numbers[k, 1]
            for i in range(x.size):
                u[i] = (_held(np.float64(x[i]), lo, hi) - origin) * scale
        for k in range(first.size):
            u, v = scaled[first[k]], scaled[second[k]]
            a, b, c, e, w = products[k]
            if clamp:
                for i in range(out.size):
                    out[i] += w * _held(a + b * u[i] + (c + e * u[i]) * v[i], 0.0, 1.0)
            else:
                for i in range(out.size):
                    out[i] += w * (a + b * u[i] + (c + e * u[i]) * v[i])
        for k in range(category.size):
            code = codes[category[k], begin:end]
            weight = levels[level_cuts[k] : level_cuts[k + 1]]
            for i in range(code.size):
                if code[i] >= 0:
                    out[i] += weight[code[i]]


@twin(add_scores)
def add_scores_at_once(
    values, codes, low, high, clamp,
    curve, numbers, knot_cuts, knots, guide_cuts, guide, pieces,
    unit, unit_numbers, first, second, products,
    category, level_cuts, levels,
    start, stop, theta,
):  # fmt: skip
    """The same in numpy."""
    part = slice(start, stop)
    out = theta[part]

    def held(v):
        x = values[v, part].astype(np.float64, copy=False)
        return np.where(x < low[v], low[v], np.where(x > high[v], high[v], x))

    for k, v in enumerate(curve):
        x, (origin, _, bend, scale, a, b, c, weight) = held(v), numbers[k]
        first_piece, own = knot_cuts[k] + k, knots[knot_cuts[k] : knot_cuts[k + 1]]
        lift, slope, where = pieces[first_piece + np.searchsorted(own, x)].T
        u = (x - origin) * scale
        out += lift + slope * (x - where) + bend * u * u
        if clamp and weight != 0.0:
            square = a + u * (b + c * u)
            out -= np.where(square < 0.0, weight * square, 0.0)
    scaled = [
        (held(v) - origin) * scale for v, (origin, scale) in zip(unit, unit_numbers, strict=True)
    ]
    for i, j, (a, b, c, e, weight) in zip(first, second, products, strict=True):
        u, v = scaled[i], scaled[j]
        product = a + b * u + (c + e * u) * v
        if clamp:
            product = np.where(product < 0.0, 0.0, np.where(product > 1.0, 1.0, product))
        out += weight * product
    for k, v in enumerate(category):
        code, own = codes[v, part], levels[level_cuts[k] : level_cuts[k + 1]]
        known = code >= 0
        out[known] += own[code[known]]


@njit(cache=True, nogil=True)
def count_outside(values, low, high):
    """Number of cells with a variable below ``low`` or above ``high``."""
    outside = np.zeros(values.shape[1], dtype=np.bool_)
    for v in range(values.shape[0]):
        x, lo, hi = values[v], low[v], high[v]
        for i in range(x.size):
            outside[i] |= (x[i] < lo) | (x[i] > hi)
    count = 0
    for i in range(outside.size):
        count += outside[i]
    return count


@njit(cache=True, nogil=True)
def level_codes(values, levels, codes):
    """codes = the place of each value among the sorted ``levels``, -1 where it is none of them."""
    for i in range(values.size):
        x = np.float64(values[i])
        first, last = 0, levels.size
        while first < last:
            middle = (first + last) >> 1
            if levels[middle] < x:
                first = middle + 1
            else:
                last = middle
        codes[i] = first if first < levels.size and levels[first] == x else -1


@njit(cache=True, nogil=True)
def lower_similarity(x, values, below, begin, per_unit, guide, variable, least, which):
    """least = min(least, similarity of x), and ``which`` variable that was.

    ``below`` are the percents of reference points strictly below each of ``values``, and 100.
    """
    lowest, highest = values[0], values[values.size - 1]
    width = highest - lowest
    for i in range(x.size):
        p = np.float64(x[i])
        if p != p:
            least[i] = np.nan
            continue
        b = _bin(p, begin, per_unit, float(guide.size - 2))
        f = below[_place(p, np.uint64(b), values, guide)]
        if width == 0.0:
            similarity = 100.0 if p == lowest else -100.0
        elif p <= lowest:
            similarity = (p - lowest) / width * 100.0
        elif p > highest:
            similarity = (highest - p) / width * 100.0
        elif f <= 50.0:
            similarity = 2.0 * f
        else:
            similarity = 2.0 * (100.0 - f)
        if similarity < least[i]:
            least[i] = similarity
            which[i] = variable
