"""The sigmoid and the logistic loss, entry by entry."""

import math

from maxent._kernels.compiling import njit


@njit(cache=True, nogil=True, error_model="numpy")
def sigmoid_rows(theta, p, value, start, stop):
    """p = 1/(1 + exp(-theta)) and value = sum log(1 + exp theta) of rows start to stop."""
    for i in range(start, stop):
        total = 0.0
        for j in range(theta.shape[1]):
            x = float(theta[i, j])
            small = math.exp(-abs(x))  # never overflows
            near_one = 1.0 / (1.0 + small)
            p[i, j] = near_one if x >= 0.0 else small * near_one
            # log(1 + small); the logarithm of near_one has no digits left where small is tiny
            soft = small * (1.0 - 0.5 * small) if small < 1e-5 else -math.log(near_one)
            total += soft + (x if x > 0.0 else 0.0) if x == x else math.nan
        value[i] = total
