"""The sigmoid and the logistic loss, entry by entry."""

import math

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential

_NEAR = 700.0  # scores up to here have an exponential that is no denormal number


@njit(cache=True, nogil=True, fastmath={"contract"})
def _log_one_plus(s):
    """log(1 + s) for 0 <= s <= 1: twice the series of artanh(s / (2 + s)), without a branch."""
    z = s / (2.0 + s)
    y = z * z
    y2 = y * y
    y4 = y2 * y2
    a = (1.0 + y * (1 / 3)) + (1 / 5 + y * (1 / 7)) * y2
    b = (1 / 9 + y * (1 / 11)) + (1 / 13 + y * (1 / 15)) * y2
    c = (1 / 17 + y * (1 / 19)) + (1 / 21 + y * (1 / 23)) * y2
    d = (1 / 25 + y * (1 / 27)) + (1 / 29 + y * (1 / 31)) * y2
    return 2.0 * z * (a + (b + (c + d * y4) * y4) * y4)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _far(theta):
    """How many scores are far from 0, or NaN."""
    count = 0
    for i in range(theta.size):
        count += 0 if abs(theta[i]) <= _NEAR else 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _any_score(x):
    """The sigmoid and log(1 + exp x) of any number."""
    small = math.exp(-abs(x))  # never overflows
    near_one = 1.0 / (1.0 + small)
    value = _log_one_plus(small) + (x if x > 0.0 else 0.0) if x == x else math.nan
    return near_one if x >= 0.0 else small * near_one, value


@njit(cache=True, nogil=True, error_model="numpy")
def sigmoid_rows(theta, p, value, start, stop):
    """p = 1/(1 + exp(-theta)) and value = sum log(1 + exp theta) of rows start to stop."""
    for i in range(start, stop):
        total = 0.0
        for j in range(theta.shape[1]):
            p[i, j], soft = _any_score(float(theta[i, j]))
            total += soft
        value[i] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def sigmoid_column(theta, p, value, start, stop):
    """``sigmoid_rows`` of vectors, several entries at a time where none is far from 0."""
    scores, out, soft = theta[start:stop], p[start:stop], value[start:stop]
    if _far(scores) > 0:
        for i in range(scores.size):
            out[i], soft[i] = _any_score(float(scores[i]))
        return
    for i in range(scores.size):
        x = float(scores[i])
        small = exponential(-abs(x))
        near_one = 1.0 / (1.0 + small)
        out[i] = near_one if x >= 0.0 else small * near_one
        soft[i] = _log_one_plus(small) + (x if x > 0.0 else 0.0)
