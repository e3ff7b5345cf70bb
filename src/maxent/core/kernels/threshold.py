"""Rows of p from rows of theta where p is a power of the excess over a threshold.

Every map here needs the root t of ``sum_i q_i (s_i - t)_+^k = 1``. A row is stored relative to
its largest score: ``v_i = s_i - max s <= 0`` and ``sigma = t + 1 - max s``, so that the excess is
``z_i = 1 + (v_i - sigma)``; both terms keep their relative precision when k is huge and they are
tiny (alpha -> 1).

For k >= 1 the norm ``h(t) = (sum_i q_i z_i^k)^{1/k}`` is convex and decreasing, nearly linear, and
Newton's method on h(t) = 1 from a lower bound climbs monotonically (k = 1: Michelot 1986). Every
iterate is a lower bound, so scores under it are dropped on the way. The first bound comes from
the maxima of blocks of the row: the root of a subset of the scores is below the root of all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from maxent._support.compiling.kernels import njit

Array = NDArray[Any]

BLOCK = 32
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_SHIFT = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, kept in the low bits
_SHIFT_BITS = 0x4338000000000000
_LOOSE = 1e-8  # log of the sum from which one linear correction is exact, for powers >= 2
_TIGHT = 2.5e-16  # step, relative to the terms of z, that rounding hides
_NEAR = 3e-3  # excess of the sum from which Halley's step replaces Newton's


@intrinsic
def block_maximum(typing_context: Any, row: Any, start: Any) -> Any:
    """Largest of row[start : start + BLOCK], NaN if any is NaN: one pass finds both."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type = signature.args[0]
        element = context.get_value_type(array_type.dtype)
        vector = ir.VectorType(element, BLOCK)
        data = context.make_array(array_type)(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
        block = builder.load(pointer, align=array_type.dtype.bitwidth // 8)
        name = f"llvm.vector.reduce.fmaximum.v{BLOCK}f{array_type.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(element, [vector]), name
        )
        return builder.call(function, [block])

    return row.dtype(row, types.intp), codegen


@intrinsic
def _bits(typing_context: Any, x: Any) -> Any:
    """The bits of a float64 as an int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _from_bits(typing_context: Any, n: Any) -> Any:
    """The float64 with these bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _power(z: float, x: float, k: float) -> tuple[float, float]:
    """z^k, to a few ulp, and 1 / z, for z = 1 + x > 0: the caller knows which is the exact one.

    Only operations that vectorise, which libm's pow is not; polynomials in Estrin's order,
    because the latency of Horner's is what limits a short loop.
    """
    exponent = (_bits(z) - _SQRT_HALF_BITS) >> 52
    f = x if exponent == 0 else _from_bits(_bits(z) - (exponent << 52)) - 1.0
    reciprocal = 1.0 / (z * (2.0 + f))
    s = f * z * reciprocal
    # log2((1 + s) / (1 - s)) / s on |s| <= 3 - 2 sqrt(2), a Chebyshev fit
    y = s * s
    y2 = y * y
    c01 = 0.9617966939259898 * y + 2.8853900817779268
    c23 = 0.4121985858422942 * y + 0.577078016345514
    c45 = 0.26233436060329546 * y + 0.3205985347650481
    c67 = 0.21366122502798326 * y + 0.22091286734180157
    c = (c67 * y2 + c45) * (y2 * y2) + (c23 * y2 + c01)
    e = k * ((_from_bits(_SHIFT_BITS + exponent) - _SHIFT) + s * c)
    e = e if e > -1022.0 else -1022.0
    e = e if e < 1023.0 else 1023.0
    # 2^e = 2^r shifted, |r| <= 1/2, a Chebyshev fit
    shifted = e + _SHIFT
    r = e - (shifted - _SHIFT)
    r2 = r * r
    r4 = r2 * r2
    c01 = 0.6931471805599453 * r + 1.0
    c23 = 0.055504108664821625 * r + 0.24022650695910158
    c45 = 0.001333355814640647 * r + 0.009618129107587256
    c67 = 1.5252733841556773e-05 * r + 0.00015403530463724353
    c89 = 1.0178057087733941e-07 * r + 1.3215432535912375e-06
    cab = 4.4558179083360645e-10 * r + 7.074194297288521e-09
    c = ((cab * r2 + c89) * r4 + (c67 * r2 + c45)) * r4 + (c23 * r2 + c01)
    power = _from_bits(_bits(c) + (_bits(shifted) << 52))
    return power, (2.0 + f) * reciprocal


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _moments(
    v: Array, q: Array, w: Array, n: int, k: float, sigma: float
) -> tuple[float, float, float]:
    """Fill w = q z^k; return the sums of q z^k, q z^(k-1) and q z^(k-2). Every z > 0."""
    padded = n + (-n & 3)  # whole vectors: the scalar remainder would cost as much as they do
    for j in range(n, padded):
        v[j], q[j] = sigma, 0.0
    total, slope, bend = 0.0, 0.0, 0.0
    for j in range(padded):
        x = v[j] - sigma
        power, reciprocal = _power(1.0 + x, x, k)
        w[j] = q[j] * power
        lower = w[j] * reciprocal
        total += w[j]
        slope += lower
        bend += lower * reciprocal
    return total, slope, bend


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _rough_moments(v: Array, q: Array, n: int, k: float, sigma: float) -> tuple[float, float]:
    """Bounds without powers: under sum q z^k, over sum q z^(k-1), for 1 <= k < 9.

    z^k is the geometric mean of z^m and z^(m+1), m = floor(k); the harmonic mean is below it
    and, for the slope, the arithmetic mean above.
    """
    m = int(k)
    f = k - m
    b0, b1, b2 = float((m - 1) & 1), float(((m - 1) >> 1) & 1), float(((m - 1) >> 2) & 1)
    total, slope = 0.0, 0.0
    for j in range(n):
        z = 1.0 + (v[j] - sigma)
        z2 = z * z
        lower = q[j] * (b0 * z + (1.0 - b0)) * (b1 * z2 + (1.0 - b1)) * (b2 * z2 * z2 + (1.0 - b2))
        total += lower * z2 / ((1.0 - f) * z + f)
        slope += lower * ((1.0 - f) + f * z)
    return total, slope


@njit(cache=True, nogil=True, error_model="numpy")
def _compact(
    v: Array, q: Array, index: Array, n: int, sigma: float
) -> tuple[int, float, float, float]:
    """Drop what is under the threshold; return the number kept and the sums of q, q z, q z^2."""
    kept = 0
    mass, first, second = 0.0, 0.0, 0.0
    for j in range(n):
        x, weight = v[j], q[j]
        z = 1.0 + (x - sigma)
        v[kept] = x
        q[kept] = weight
        index[kept] = index[j]
        kept += z > 0.0
        weight = weight if z > 0.0 else 0.0
        mass += weight
        first += weight * z
        second += weight * z * z
    return kept, mass, first, second


@njit(cache=True, nogil=True, error_model="numpy")
def _climb(
    v: Array,
    q: Array,
    w: Array,
    index: Array,
    n: int,
    k: float,
    sigma: float,
    rough: bool,
    steps: int,
    tol: float,
) -> tuple[int, float, float]:
    """Newton's method on the k-norm of the excess, k > 1, from a lower bound sigma.

    Drops what falls under the threshold from v, q and index. Returns the number kept, sigma
    and the step from there that was not taken.
    """
    step = 0.0
    for _ in range(steps):
        sigma += step
        n, _, _, _ = _compact(v, q, index, n, sigma)
        bend = 0.0
        if rough:
            total, slope = _rough_moments(v, q, n, k, sigma)
        else:
            total, slope, bend = _moments(v, q, w, n, k, sigma)
        step = -math.expm1(-math.log(total) / k) * total / slope
        if rough and total - 1.0 <= tol:
            break
        if abs(total - 1.0) <= tol or abs(step) <= _TIGHT * (1.0 + abs(sigma)):
            break
        # Halley's step may pass the root, by so little that what it drops has no weight
        if k >= 2.0 and total - 1.0 < _NEAR and not rough:
            step /= 1.0 - 0.5 * (k - 1.0) * step * (bend / slope - slope / total)
    return n, sigma, step


@njit(cache=True, nogil=True, error_model="numpy")
def _climb_without_powers(
    v: Array, q: Array, index: Array, n: int, k: float, sigma: float, steps: int, tol: float
) -> tuple[int, float, float]:
    """The same for k = 1 and k = 2, whose sums come with the dropping."""
    step = 0.0
    for _ in range(steps):
        sigma += step
        n, mass, first, second = _compact(v, q, index, n, sigma)
        step, off = _plain_step(mass, first, second, k, tol)
        if off <= tol or abs(step) <= _TIGHT * (1.0 + abs(sigma)):
            break
    return n, sigma, step


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _plain_step(
    mass: float, first: float, second: float, k: float, tol: float
) -> tuple[float, float]:
    """The next step for k = 1 and k = 2, and how far the sum is from 1."""
    if k == 1.0:
        return (first - 1.0) / mass, abs(first - 1.0)
    step = (1.0 - 1.0 / math.sqrt(second)) * second / first
    off = abs(second - 1.0)
    if tol < off and second - 1.0 < _NEAR:
        step /= 1.0 - 0.5 * step * (mass / first - first / second)
    return step, off


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _sum_above(v: Array, q: Array, n: int, k: float, pivot: float) -> float:
    """Sum of q (v - pivot)_+^k."""
    total = 0.0
    for j in range(n):
        above = v[j] > pivot
        z = v[j] - pivot if above else 1.0
        power, _ = _power(z, z - 1.0, k)
        total += q[j] * power if above else 0.0
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _norms(q: Array, w: Array, n: int, a: float, y: float, fill: bool) -> tuple[float, float]:
    """Sum of q times the a-norms of (w_j, y), and its derivative in y; fill puts the terms in w."""
    total, slope = 0.0, 0.0
    for j in range(n):
        c = w[j]
        large, small = (c, y) if c > y else (y, c)
        x = (small / large) ** a
        power = math.exp(math.log1p(x) / a)
        term = q[j] * large * power
        total += term
        slope += q[j] * power / (1.0 + x) * (x * c / y if c > y else 1.0)
        if fill:
            w[j] = term
    return total, slope


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(v: Array, q: Array, w: Array, index: Array, n: int, k: float) -> tuple[int, float]:
    """The root for k < 1, where neither the sum nor its norm is convex in the threshold.

    With a = 1/k and the smallest score of the support as origin, each term is the a-norm of
    (constant, y) in y, the density p/q of that smallest score: convex, so Newton's method
    descends monotonically from 1 / sum q. Keeps every digit of p however large a is.
    """
    # The support ends at the smallest score where the sum is still under 1: search by pivots.
    low, high = -np.inf, 0.0
    while True:
        between = 0
        for j in range(n):
            between += low < v[j] < high
        if between == 0:
            break
        rank = between // 2
        pivot = high
        for j in range(n):
            if low < v[j] < high:
                if rank == 0:
                    pivot = v[j]
                    break
                rank -= 1
        if _sum_above(v, q, n, k, pivot) < 1.0:
            high = pivot
        else:
            low = pivot
    kept = 0
    mass = 0.0
    for j in range(n):
        if v[j] >= high:
            v[kept], q[kept], index[kept] = v[j], q[j], index[j]
            w[kept] = (v[j] - high) ** k
            mass += q[j]
            kept += 1
    y = 1.0 / mass
    for _ in range(200):
        total, slope = _norms(q, w, kept, 1.0 / k, y, False)
        step = (total - 1.0) / slope
        if not step > 2e-16 * y:
            break
        if step >= y:  # only rounding takes a step so far: the root is below it
            y *= 2e-16
            break
        y -= step
    _norms(q, w, kept, 1.0 / k, y, True)
    return kept, 1.0 + high - y ** (1.0 / k)


@njit(cache=True, nogil=True, error_model="numpy")
def _survey(row: Array, maxima: Array) -> tuple[int, float]:
    """Fill the maxima of blocks; return their number and the largest score, NaN if any is NaN.

    The scores after the last whole block stand for themselves.
    """
    blocks = row.size // BLOCK
    groups = blocks + row.size % BLOCK
    for b in range(blocks):
        maxima[b] = block_maximum(row, b * BLOCK)
    for i in range(row.size % BLOCK):
        maxima[blocks + i] = row[blocks * BLOCK + i]
    top = -np.inf
    for b in range(0, groups, BLOCK):
        largest = np.float64(block_maximum(maxima, b))
        if math.isnan(largest):
            return groups, largest
        top = max(top, largest)
    return groups, top


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(
    scores: Array,
    maxima: Array,
    groups: int,
    top: float,
    scale: float,
    sigma: float,
    v: Array,
    q: Array,
    index: Array,
) -> int:
    """Collect the scores above the threshold, from the blocks whose maximum is; return how many.

    Compares in the type of the scores, so a little generously. With groups = 0 the scores are
    taken one by one.
    """
    cut64 = top + (sigma - 1.0) / scale
    slack = 3e-7 if scores.itemsize == 4 else 5e-16
    cut = scores.dtype.type(cut64 - slack * abs(top) - slack * abs(cut64))
    blocks = scores.size // BLOCK if groups > 0 else 0
    n = 0
    for b in range(blocks):
        if maxima[b] >= cut:
            for i in range(b * BLOCK, (b + 1) * BLOCK):
                index[n] = i
                n += scores[i] >= cut
    for i in range(blocks * BLOCK, scores.size):
        index[n] = i
        n += scores[i] >= cut
    for j in range(n):
        v[j] = scale * (np.float64(scores[index[j]]) - top)
        q[j] = 1.0
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _gather_weighted(
    row: Array, weights: Array, scale: float, k: float, v: Array, q: Array, index: Array
) -> tuple[int, float, float]:
    """Collect the finite scores of positive weight.

    Returns their number, the largest score and a lower bound of sigma; the number is 0 when
    there is none, or a NaN or +inf in the row.
    """
    n = 0
    top = -np.inf
    for i in range(row.size):
        if not row[i] < np.inf:
            return 0, np.nan, 0.0
        if row[i] > -np.inf and weights[i] > 0.0:
            top = max(top, np.float64(row[i]))
            q[n] = weights[i]
            index[n] = i
            n += 1
    kept = 0
    sigma = -np.inf
    for j in range(n):
        v[kept] = scale * (np.float64(row[index[j]]) - top)
        q[kept] = q[j]
        index[kept] = index[j]
        # no single term exceeds 1
        sigma = max(sigma, v[kept] - math.expm1(-math.log(q[kept]) / k))
        kept += v[kept] > -np.inf
    return kept, top, sigma


@njit(cache=True, helper=True, nogil=True, error_model="numpy")
def solve_row(
    row: Array,
    scale: float,
    k: float,
    weights: Array,
    power: float,
    v: Array,
    q: Array,
    w: Array,
    index: Array,
    maxima: Array,
) -> tuple[int, float, float]:
    """Fill w with q z^power on the support; return its size (0: bad row), the top and sigma."""
    plain = k == 1.0 or k == 2.0
    if plain and weights.size == 0:
        return solve_plain_row(row, scale, k, power, v, q, w, index, maxima)
    rough = k < 9.0 and not plain  # bounds without powers are worth it
    if weights.size == 0:
        groups, top = _survey(row, maxima)
        if not -np.inf < top < np.inf:
            return 0, top, 0.0
        sigma = 0.0
        if row.size > 2 * BLOCK:
            n = _gather(maxima[:groups], maxima, 0, top, scale, 0.0, v, q, index)
            if k < 1.0:
                n, sigma, _ = _climb_without_powers(v, q, index, n, 1.0, 0.0, 4, 0.1)
            else:
                n, sigma, _ = _climb(v, q, w, index, n, k, 0.0, rough, 4, 0.1)
        n = _gather(row, maxima, groups, top, scale, sigma, v, q, index)
    else:
        n, top, sigma = _gather_weighted(row, weights, scale, k, v, q, index)
    if n == 0:
        return 0, top, sigma
    if plain:
        n, sigma = _finish_without_powers(v, q, w, index, n, k, power, sigma)
        return n, top, sigma
    if k < 1.0:
        n, sigma = _descend(v, q, w, index, n, k)
        return n, top, sigma
    if rough:
        n, sigma, _ = _climb(v, q, w, index, n, k, sigma, True, 8, 0.01)
    tol = _LOOSE if power >= 2.0 else 0.0
    n, sigma, step = _climb(v, q, w, index, n, k, sigma, False, 200, tol)
    for j in range(n):
        reciprocal = 1.0 / (1.0 + (v[j] - sigma))
        corrected = 1.0 - power * step * reciprocal
        w[j] *= (corrected if corrected > 0.0 else 0.0) * (1.0 if power == k else reciprocal)
    return n, top, sigma + step


@njit(cache=True, helper=True, nogil=True, error_model="numpy")
def solve_plain_row(
    row: Array,
    scale: float,
    k: float,
    power: float,
    v: Array,
    q: Array,
    w: Array,
    index: Array,
    maxima: Array,
) -> tuple[int, float, float]:
    """``solve_row`` for k = 1 and k = 2 without weights: a fifth of the code to compile."""
    groups, top = _survey(row, maxima)
    if not -np.inf < top < np.inf:
        return 0, top, 0.0
    sigma = 0.0
    if row.size > 2 * BLOCK:
        n = _gather(maxima[:groups], maxima, 0, top, scale, 0.0, v, q, index)
        n, sigma, _ = _climb_without_powers(v, q, index, n, k, 0.0, 4, 0.1)
    n = _gather(row, maxima, groups, top, scale, sigma, v, q, index)
    if n == 0:
        return 0, top, sigma
    n, sigma = _finish_without_powers(v, q, w, index, n, k, power, sigma)
    return n, top, sigma


@njit(cache=True, nogil=True, error_model="numpy")
def _finish_without_powers(
    v: Array, q: Array, w: Array, index: Array, n: int, k: float, power: float, sigma: float
) -> tuple[int, float]:
    """Climb to the root for k = 1 and k = 2, fill w; return the size of the support and sigma."""
    tol = _LOOSE if power >= 2.0 else 0.0
    n, sigma, step = _climb_without_powers(v, q, index, n, k, sigma, 200, tol)
    sigma += step
    for j in range(n):
        z = 1.0 + (v[j] - sigma)
        density = z * z if power == 2.0 else z if power == 1.0 else 1.0
        w[j] = q[j] * density if z > 0.0 else 0.0
    return n, sigma


@njit(cache=True, helper=True, nogil=True, error_model="numpy")
def scatter(v: Array, w: Array, index: Array, n: int, p: Array) -> float:
    """Put w, scaled to sum 1, into p, a row of zeros; return the mean of v under it."""
    total, mean = 0.0, 0.0
    for j in range(n):
        total += w[j]
        mean += w[j] * v[j]
    inverse = 1.0 / total
    for j in range(n):
        p[index[j]] = w[j] * inverse
    return mean / total


@njit(cache=True, nogil=True, error_model="numpy")
def tsallis_rows(
    theta: Array, alpha: float, weights: Array, p: Array, value: Array, start: int, stop: int
) -> int:
    """Maximiser p and conjugate value of the Tsallis entropy, alpha > 1, of rows start to stop.

    p comes in as zeros, so that the pages it leaves at zero are never written.
    p_i = q_i [1 + (alpha - 1)(theta_i - tau)]_+^{1 / (alpha - 1)} with tau such that p sums to 1;
    ``weights`` is (0, 0) for q = 1, (1, d) or (rows, d). Returns -1, or the first row without a
    solution (NaN, +inf, or nothing finite of positive weight).
    """
    a = alpha - 1.0
    k = 1.0 / a
    size = theta.shape[1]
    v, q, w = np.empty(size + 4), np.empty(size + 4), np.empty(size + 4)
    index = np.empty(size + 4, np.int64)
    maxima = np.empty(size // BLOCK + 2 * BLOCK, theta.dtype)
    for b in range(maxima.size):
        maxima[b] = -np.inf
    none = np.empty(0)
    for r in range(start, stop):
        rows = weights.shape[0]
        weight = none if rows == 0 else weights[0 if rows == 1 else r]
        n, top, sigma = solve_row(theta[r], a, k, weight, k, v, q, w, index, maxima)
        if n == 0:
            return r
        mean = scatter(v, w, index, n, p[r])
        # <theta, p> - Omega(p), in which p_i^(alpha - 1) = 1 + v_i - sigma
        value[r] = top + (mean + sigma / a) / alpha
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _sums_above(v: Array, n: int, sigma: float) -> tuple[float, float, float]:
    """How many z = 1 + v - sigma are positive, their sum and that of their squares."""
    count, first, second = 0.0, 0.0, 0.0
    for j in range(n):
        z = 1.0 + (v[j] - sigma)
        z = z if z > 0.0 else 0.0
        count += 1.0 if z > 0.0 else 0.0
        first += z
        second += z * z
    return count, first, second


@njit(cache=True, nogil=True, error_model="numpy")
def _short_row(
    row: Array, scale: float, k: float, v: Array, w: Array, p: Array
) -> tuple[float, float, float]:
    """k = 1 and k = 2 on a row so short that dropping scores costs more than it saves.

    Writes p; returns the mean of v under it, the top (not finite: a bad row) and sigma.
    """
    n, top = row.size, -np.inf
    for j in range(n):
        x = np.float64(row[j])
        if not x < np.inf:  # also NaN
            return 0.0, np.nan, 0.0
        top = x if x > top else top
    if top == -np.inf:
        return 0.0, top, 0.0
    for j in range(n):
        v[j] = scale * (np.float64(row[j]) - top)
    sigma = _climb_short(v, n, k)
    total, mean = 0.0, 0.0
    for j in range(n):
        z = 1.0 + (v[j] - sigma)
        w[j] = 0.0 if not z > 0.0 else z * z if k == 2.0 else z
        total += w[j]
        mean += w[j] * v[j] if w[j] > 0.0 else 0.0
    inverse = 1.0 / total
    for j in range(n):
        p[j] = w[j] * inverse
    return mean / total, top, sigma


@njit(cache=True, nogil=True, error_model="numpy")
def _climb_short(v: Array, n: int, k: float) -> float:
    """The root sigma, as ``_climb_without_powers`` finds it."""
    sigma, step = 0.0, 0.0
    tol = _LOOSE if k == 2.0 else 0.0
    for _ in range(200):
        sigma += step
        count, first, second = _sums_above(v, n, sigma)
        step, off = _plain_step(count, first, second, k, tol)
        if off <= tol or abs(step) <= _TIGHT * (1.0 + abs(sigma)):
            break
    return sigma + step


@njit(cache=True, nogil=True, error_model="numpy")
def plain_tsallis_rows(
    theta: Array, alpha: float, weights: Array, p: Array, value: Array, start: int, stop: int
) -> int:
    """``tsallis_rows`` for alpha = 3/2 and alpha = 2 without weights (which are not looked at)."""
    a = alpha - 1.0
    k = 1.0 / a
    size = theta.shape[1]
    v, q, w = np.empty(size + 4), np.empty(size + 4), np.empty(size + 4)
    if size <= BLOCK:
        for r in range(start, stop):
            mean, top, sigma = _short_row(theta[r], a, k, v, w, p[r])
            if not -np.inf < top < np.inf:
                return r
            value[r] = top + (mean + sigma / a) / alpha
        return -1
    index = np.empty(size + 4, np.int64)
    maxima = np.empty(size // BLOCK + 2 * BLOCK, theta.dtype)
    for b in range(maxima.size):
        maxima[b] = -np.inf
    for r in range(start, stop):
        n, top, sigma = solve_plain_row(theta[r], a, k, k, v, q, w, index, maxima)
        if n == 0:
            return r
        mean = scatter(v, w, index, n, p[r])
        value[r] = top + (mean + sigma / a) / alpha
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def norm_rows(
    theta: Array, qn: float, weights: Array, p: Array, value: Array, start: int, stop: int
) -> int:
    """Maximiser and conjugate value of Omega(p) = ||p||_qn - 1, 1 < qn <= inf; see tsallis_rows.

    p_i is proportional to q_i (theta_i - t)_+^{k - 1}, k = qn / (qn - 1), and Omega* = t + 1.
    """
    k = 1.0 if qn == np.inf else qn / (qn - 1.0)
    size = theta.shape[1]
    v, q, w = np.empty(size + 4), np.empty(size + 4), np.empty(size + 4)
    index = np.empty(size + 4, np.int64)
    maxima = np.empty(size // BLOCK + 2 * BLOCK, theta.dtype)
    for b in range(maxima.size):
        maxima[b] = -np.inf
    none = np.empty(0)
    for r in range(start, stop):
        rows = weights.shape[0]
        weight = none if rows == 0 else weights[0 if rows == 1 else r]
        n, top, sigma = solve_row(theta[r], 1.0, k, weight, k - 1.0, v, q, w, index, maxima)
        if n == 0:
            return r
        scatter(v, w, index, n, p[r])
        value[r] = top + sigma
    return -1
