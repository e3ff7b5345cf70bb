"""Conjugates of the smooth and squared hinge entropies (Fenchel-Young paper, Prop. 10).

With r_j = sqrt(2 [theta_j - nu]_+) the maximiser is p_j = [1 - t/r_j]_+ (at most 1 - t for the
smooth hinge), where t solves sum_j max(t, R_j) = d, R_j = r_j or, for the smooth hinge beyond
r_j = 1, (1 + r_j^2)/2; nu is the value at which p sums to one.
"""

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def _mass(theta, nu, smooth, p, r):
    """Fill p for this nu; return its sum (inf where even t = 0 is too large)."""
    d = theta.size
    fixed, free = 0.0, 0
    for j in range(d):
        gap = theta[j] - nu
        r[j] = np.sqrt(2 * gap) if gap > 0 else 0.0
    # sum max(t, R) = d: start with every entry below t, move those above it out
    t = 1.0
    for _ in range(d + 1):
        fixed, free = 0.0, 0
        for j in range(d):
            big = 0.5 * (1 + r[j] * r[j]) if smooth and r[j] > 1 else r[j]
            if big > t:
                fixed += big
            else:
                free += 1
        if fixed >= d:
            return np.inf
        if free == 0:
            break
        new = (d - fixed) / free
        if new >= t:
            break
        t = new
    return _fill(r, t, smooth, p)


@njit(cache=True, nogil=True)
def _fill(r, t, smooth, p):
    """p_j = [1 - t/r_j]_+, at most 1 - t for the smooth hinge; returns the sum."""
    total = 0.0
    for j in range(r.size):
        p[j] = 1 - t / r[j] if r[j] > t else 0.0
        if smooth and p[j] > 1 - t:
            p[j] = 1 - t
        total += p[j]
    return total


@njit(cache=True, nogil=True)
def hinge_rows(theta, smooth, margin, p, value):
    """Fill p and the conjugate values, row by row."""
    d = theta.shape[1]
    r = np.empty(d)
    x = np.empty(d)
    for i in range(theta.shape[0]):
        top = theta[i].max()
        second = -np.inf
        best = 0
        for j in range(d):
            x[j] = theta[i, j] - top
            if x[j] == 0.0:
                best = j
        for j in range(d):
            if j != best and x[j] > second:
                second = x[j]
        if -second >= margin:  # a separation margin: the vertex itself
            p[i, :] = 0.0
            p[i, best] = 1.0
            value[i] = top
            continue
        low, high = -margin, 0.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high:
                break
            if _mass(x, middle, smooth, p[i], r) > 1:
                low = middle
            else:
                high = middle
        _mass(x, low, smooth, p[i], r)
        # where every R_j exceeds t the first equation fixes nu alone and the second t
        low, high = 0.0, 1.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high:
                break
            if _fill(r, middle, smooth, p[i]) > 1:
                low = middle
            else:
                high = middle
        p[i] /= _fill(r, low, smooth, p[i])
        largest = p[i].max()
        tau = 1 - largest
        inverse = 0.0
        score = 0.0
        for j in range(d):
            inverse += 1 / max(1 - p[i, j], 1e-300)
            if p[i, j] > 0:
                score += p[i, j] * x[j]
        entropy = d * tau - 0.5 * tau * tau * inverse if smooth else 0.5 * d * d / inverse
        value[i] = top + score + entropy
