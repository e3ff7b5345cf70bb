"""Exponentials of a whole row in plain arithmetic, so that the compiler does several at once."""

import numpy as np

from maxent._kernels.compiling import njit

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: added to a number, its last bits are the nearest integer
_LOWEST = -708.0  # exp is 0 below, which is where its result would lose digits


@njit(cache=True, nogil=True, fastmath={"contract"})
def exponentials(x, shift, out, powers, bits):
    """out = exp(x - shift) for x <= shift, to rounding; ``bits`` is ``powers`` seen as integers.

    exp(t) = 2^k exp(r) with |r| <= log(2) / 2, and exp(r) by its series.
    """
    for j in range(x.size):
        t = x[j] - shift
        t = t if t > _LOWEST else _LOWEST
        rounded = t * _LOG2E + _ROUND
        powers[j] = rounded
        k = rounded - _ROUND
        r = (t - k * _LN2_HIGH) - k * _LN2_LOW
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        out[j] = (series * r + 1.0) * r + 1.0
    for j in range(x.size):
        bits[j] = (bits[j] << np.int64(52)) + (np.int64(1023) << np.int64(52))
    for j in range(x.size):
        out[j] = out[j] * powers[j] if x[j] - shift > _LOWEST else 0.0
