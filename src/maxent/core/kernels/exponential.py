"""exp that loops over arrays can compute several at a time."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490  # 33 bits, so that multiples of it are exact
_LN2_LOW = 1.90821492927058770002e-10
_SHIFT = 6755399441055744.0  # 1.5 2^52: adding it rounds to a whole number, kept in the last bits
_LEAST = -708.0


@njit(cache=True, helper=True, nogil=True, fastmath={"contract"})
def exponential(x):
    """exp of a float64 up to 709, to 2 units in the last place; 0 below -708.

    2^n times a polynomial on |r| <= log(2) / 2, in operations without a branch or a call, which
    the compiler turns into vectors where libm's exp would be called entry by entry.
    """
    y = _LEAST if x < _LEAST else x
    shifted = y * _LOG2_E + _SHIFT
    n = shifted - _SHIFT
    p = _polynomial((y - n * _LN2_HIGH) - n * _LN2_LOW)
    bits = (np.float64(shifted).view(np.int64) << 52) + (1023 << 52)
    value = p * np.int64(bits).view(np.float64)
    return 0.0 if x < _LEAST else value


@njit(cache=True, helper=True, nogil=True, fastmath={"contract"})
def exponential_parts(x):
    """(p, n) with exp(x) = p 2^n for any x below infinity: p is near 1, or 0 for -inf.

    n is a whole float64, and may be far from what 2^n could be.
    """
    if x == -np.inf:
        return 0.0, -np.inf
    n = (x * _LOG2_E + _SHIFT) - _SHIFT
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    return _polynomial(min(max(r, -1.0), 1.0)), n  # of a huge x, r is a rounding of x


@njit(cache=True, helper=True, nogil=True, fastmath={"contract"})
def _polynomial(r):
    """exp on |r| <= log(2) / 2: Taylor's, in pairs: short chains of products, several at once."""
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + (0.5 + r * (1.0 / 6.0)) * r2
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + (1.0 / 720.0 + r * (1.0 / 5040.0)) * r2
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) * r2
    return low + (middle + (high + r4 * (1.0 / 479001600.0)) * r4) * r4
