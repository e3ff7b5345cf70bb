"""Products of raw features of the cells, computed on the fly a tile of cells at a time.

Raw feature k is given by a row of ``place``, (row of the values, -1) or (row of the codes, level),
and one of ``numbers``, (origin, scale, floor, ceiling):
    (x - origin) scale held within [floor, ceiling],   or   [code = level].
A factor is a raw feature to the power power[k]. Feature j is the product of the factors factor[e],
e from cuts[j] up to cuts[j + 1].
"""

import numpy as np

from maxent._support.compiling.copying import copy
from maxent._support.compiling.kernels import njit

_TILE = 512  # cells whose factors stay in cache
_SUM = {"reassoc", "contract"}  # sums in any order, so that they run in vector registers


# Rows are indexed, not sliced, in the inner functions: a slice is counted by the runtime, which
# takes as long as some hundred products.


@njit(cache=True, nogil=True)
def _raw(values, codes, place, numbers, k, start, stop, out):
    """out[k, i] = raw feature k at the cells from ``start`` to ``stop``."""
    row, level = place[k, 0], place[k, 1]
    if level >= 0:
        code = codes[row, start:stop]
        for i in range(code.size):
            out[k, i] = 1.0 if code[i] == level else 0.0
        return
    x = values[row, start:stop]
    origin, scale, floor, ceiling = numbers[k, 0], numbers[k, 1], numbers[k, 2], numbers[k, 3]
    if floor == -np.inf and ceiling == np.inf:
        for i in range(x.size):
            out[k, i] = (x[i] - origin) * scale
    else:
        for i in range(x.size):
            u = (x[i] - origin) * scale
            u = u if u > floor else floor
            out[k, i] = u if u < ceiling else ceiling


@njit(cache=True, nogil=True)
def _raise(tile, k, power, base):
    """Row k to a power: squared for every binary digit after the first, times u where it is 1."""
    digits = 0
    while power >> (digits + 1):
        digits += 1
    for i in range(base.size):
        base[i] = tile[k, i]
    for digit in range(digits - 1, -1, -1):
        if (power >> digit) & 1:
            for i in range(base.size):
                tile[k, i] *= tile[k, i] * base[i]
        else:
            for i in range(base.size):
                tile[k, i] *= tile[k, i]


@njit(cache=True, nogil=True)
def _fill(values, codes, place, numbers, power, start, stop, base, tile):
    """All factors of a tile."""
    for k in range(power.size):
        _raw(values, codes, place, numbers, k, start, stop, tile)
        if power[k] > 1:
            _raise(tile, k, power[k], base)


@njit(cache=True, nogil=True)
def _multiply(tile, factor, first, last, source, out):
    """out = source times the factors from ``first`` up to ``last``, the first two in one pass."""
    a = factor[first]
    if last == first + 1:
        for i in range(out.size):
            out[i] = source[i] * tile[a, i]
        return
    b = factor[first + 1]
    for i in range(out.size):
        out[i] = source[i] * tile[a, i] * tile[b, i]
    for e in range(first + 2, last):
        a = factor[e]
        for i in range(out.size):
            out[i] *= tile[a, i]


@njit(cache=True, nogil=True)
def add_terms(values, codes, place, numbers, power, cuts, factor, w, start, stop, theta):
    """theta += sum_j w_j f_j over some cells."""
    tile, base = np.empty((power.size, _TILE)), np.empty(_TILE)
    weight, line = np.empty(_TILE), np.empty(_TILE)
    for begin in range(start, stop, _TILE):
        out = theta[begin : min(begin + _TILE, stop)]
        row = line[: out.size]
        _fill(values, codes, place, numbers, power, begin, begin + out.size, base, tile)
        for j in range(w.size):
            weight[:] = w[j]
            _multiply(tile, factor, cuts[j], cuts[j + 1], weight, row)
            for i in range(out.size):
                out[i] += row[i]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _total(row):
    total = 0.0
    for i in range(row.size):
        total += row[i]
    return total


@njit(cache=True, nogil=True)
def _any(row):
    i = 0
    while i < row.size and row[i] == 0.0:
        i += 1
    return i < row.size


@njit(cache=True, nogil=True)
def term_moments(values, codes, place, numbers, power, cuts, factor, p, start, stop, out):
    """out[j] += sum_i p_i f_j(i) over some cells; tiles without mass are passed over."""
    tile, base, line = np.empty((power.size, _TILE)), np.empty(_TILE), np.empty(_TILE)
    for begin in range(start, stop, _TILE):
        mass = p[begin : min(begin + _TILE, stop)]
        if not _any(mass):
            continue
        row = line[: mass.size]
        _fill(values, codes, place, numbers, power, begin, begin + mass.size, base, tile)
        for j in range(out.size):
            _multiply(tile, factor, cuts[j], cuts[j + 1], mass, row)
            out[j] += _total(row)


@njit(cache=True, nogil=True)
def write_terms(values, codes, place, numbers, power, cuts, factor, root, start, stop, out):
    """out[j, i] = root_i f_j(i), one row per feature."""
    tile, base = np.empty((power.size, _TILE)), np.empty(_TILE)
    for begin in range(start, stop, _TILE):
        source = root[begin : min(begin + _TILE, stop)]
        _fill(values, codes, place, numbers, power, begin, begin + source.size, base, tile)
        for j in range(out.shape[0]):
            row = out[j, begin - start : begin - start + source.size]
            _multiply(tile, factor, cuts[j], cuts[j + 1], source, row)


@njit(cache=True, nogil=True, fastmath=_SUM)
def raw_sums(values, low, scale, q, start, stop, out):
    """out[v] += sum_i q_i (x_vi - low_v) scale_v over some cells, for every variable v."""
    for begin in range(start, stop, _TILE):
        mass = q[begin : min(begin + _TILE, stop)]
        for v in range(out.size):
            if scale[v] == 0.0:  # its range may not be finite
                continue
            x, lo, total = values[v, begin : begin + mass.size], low[v], 0.0
            for i in range(x.size):
                total += mass[i] * (x[i] - lo)
            out[v] += total * scale[v]


@njit(cache=True, nogil=True, fastmath=_SUM)
def shrink(values, codes, place, numbers, start, stop, q):
    """q *= the first raw feature over some cells; sums of |q| before and of what it lost."""
    tile, before, lost = np.empty((1, _TILE)), 0.0, 0.0
    for begin in range(start, stop, _TILE):
        row = q[begin : min(begin + _TILE, stop)]
        _raw(values, codes, place, numbers, 0, begin, begin + row.size, tile)
        for i in range(row.size):
            before += abs(row[i])
            lost += abs(row[i] * (1.0 - tile[0, i]))
            row[i] *= tile[0, i]
    return before, lost


@njit(cache=True, nogil=True, fastmath=_SUM)
def _two_dots(row, size, tile, k):
    signed, unsigned = 0.0, 0.0
    for i in range(row.size):
        signed += row[i] * tile[k, i]
        unsigned += size[i] * tile[k, i]
    return signed, unsigned


@njit(cache=True, nogil=True)
def extended_sums(values, codes, place, numbers, q, products, first, cuts, start, stop, out):
    """out[cuts[j] + k - first[j]] += sums of q phi_j psi_k and of |q| phi_j psi_k over some cells.

    phi_j is the product of the raw features in products[j], psi_k raw feature k >= first[j].
    """
    count = len(place)
    tile = np.empty((count, _TILE))
    line, sizes = np.empty(_TILE), np.empty(_TILE)
    for begin in range(start, stop, _TILE):
        mass = q[begin : min(begin + _TILE, stop)]
        if not _any(mass):
            continue
        row, size = line[: mass.size], sizes[: mass.size]
        for k in range(count):
            _raw(values, codes, place, numbers, k, begin, begin + mass.size, tile)
        for j in range(len(products)):
            copy(mass, row)
            for e in range(products.shape[1]):
                factor = products[j, e]
                for i in range(row.size):
                    row[i] *= tile[factor, i]
            some = False
            for i in range(row.size):
                size[i] = abs(row[i])
                some |= row[i] != 0.0
            if not some:  # an indicator of a level that is not here
                continue
            for k in range(first[j], count):
                signed, unsigned = _two_dots(row, size, tile, k)
                out[cuts[j] + k - first[j], 0] += signed
                out[cuts[j] + k - first[j], 1] += unsigned


# -- the same in numpy but for the order of sums, for few cells ------------------------------------


def _raw_at_once(values, codes, place, numbers, start, stop):
    """Every raw feature at some cells, one row each."""
    out, (row, level) = np.empty((len(place), stop - start)), place.T
    number, (origin, scale, floor, ceiling) = level < 0, numbers.T[:, :, None]
    x = values[row[number], start:stop].astype(np.float64, copy=False)
    scaled = (x - origin[number]) * scale[number]
    out[number] = np.minimum(np.maximum(scaled, floor[number]), ceiling[number])
    out[~number] = codes[row[~number], start:stop] == level[~number, None]
    return out


def term_moments_at_once(values, codes, place, numbers, power, cuts, factor, p, start, stop, out):
    """As ``term_moments``."""
    if out.size:
        raised = _raw_at_once(values, codes, place, numbers, start, stop) ** power[:, None]
        out += np.multiply.reduceat(raised[factor], cuts[:-1], axis=0) @ p[start:stop]


def raw_sums_at_once(values, low, scale, q, start, stop, out):
    """As ``raw_sums``."""
    used = np.flatnonzero(scale[: out.size])  # the range of the others may not be finite
    x = values[used, start:stop].astype(np.float64, copy=False)
    out[used] += ((x - low[used, None]) @ q[start:stop]) * scale[used]


def shrink_at_once(values, codes, place, numbers, start, stop, q):
    """As ``shrink``."""
    row, (feature,) = q[start:stop], _raw_at_once(values, codes, place, numbers, start, stop)
    before, lost = np.abs(row).sum(), np.abs(row * (1.0 - feature)).sum()
    row *= feature
    return before, lost


def extended_sums_at_once(
    values, codes, place, numbers, q, products, first, cuts, start, stop, out
):
    """As ``extended_sums``."""
    raw = _raw_at_once(values, codes, place, numbers, start, stop)
    row = q[start:stop] * raw[products].prod(axis=1)
    asked = np.arange(len(place)) >= first[:, None]
    out[:, 0] += (row @ raw.T)[asked]
    out[:, 1] += (np.abs(row) @ raw.T)[asked]
