"""Coordinate descent on small quadratic models."""

import numpy as np

from maxent._support.compiling.kernels import njit, twin


@njit(cache=True, nogil=True)
def elastic_quadratic(gram, slope, w, l1, l2, d, max_passes, tol):
    """min_d <g, d> + 1/2 d'Gd + sum l1 |w + d| + l2/2 (w + d)^2 by coordinate descent.

    Alternates full passes with passes over the coordinates that are not at zero. Changes d and
    ``slope``, g + G d, in place; returns whether a full pass moved nothing by more than ``tol``
    (in slope).
    """
    n = w.size
    full = True
    for _ in range(max_passes):
        worst = 0.0
        for j in range(n):
            x = w[j] + d[j]
            if not full and x == 0.0:
                continue
            h = gram[j, j] + l2[j]
            if h <= 0.0:
                continue
            v = gram[j, j] * x - slope[j]
            if v > l1[j]:
                new = (v - l1[j]) / h
            elif v < -l1[j]:
                new = (v + l1[j]) / h
            else:
                new = 0.0
            step = new - x
            if step != 0.0:
                d[j] += step
                for k in range(n):
                    slope[k] += step * gram[k, j]
                worst = max(worst, abs(step) * h)
        if worst <= tol:
            if full:
                return True
            full = True
        else:
            full = False
    return False


@twin(elastic_quadratic)
def elastic_quadratic_at_once(gram, slope, w, l1, l2, d, max_passes, tol):
    """The same with numpy's loops over the slope."""
    curved = np.diagonal(gram)
    sizes, full = (curved + l2).tolist(), True
    free = [j for j, h in enumerate(sizes) if not h <= 0.0]
    for _ in range(max_passes):
        worst = 0.0
        for j in free:
            x = w[j] + d[j]
            if not full and x == 0.0:
                continue
            v, h = curved[j] * x - slope[j], sizes[j]
            new = (v - l1[j]) / h if v > l1[j] else (v + l1[j]) / h if v < -l1[j] else 0.0
            step = new - x
            if step != 0.0:
                d[j] += step
                slope += step * gram[:, j]
                worst = max(worst, abs(step) * h)
        if worst <= tol and full:
            return True
        full = worst <= tol
    return False


@njit(cache=True, nogil=True)
def simplex_quadratic(gram, linear, weights, max_steps, tol):
    """min 1/2 a'Qa + <c, a> over the simplex by steepest pairs, in place; returns the last gap."""
    n = weights.size
    slope = linear.copy()
    for i in range(n):
        if weights[i] != 0.0:
            for k in range(n):
                slope[k] += weights[i] * gram[k, i]
    gap = np.inf
    for _ in range(max_steps):
        best = 0
        worst = -1
        for i in range(n):
            if slope[i] < slope[best]:
                best = i
            if weights[i] > 0.0 and (worst < 0 or slope[i] > slope[worst]):
                worst = i
        gap = slope[worst] - slope[best]
        if gap <= tol:
            break
        bend = gram[best, best] + gram[worst, worst] - 2 * gram[best, worst]
        step = weights[worst]
        if bend > 0.0:
            step = min(step, gap / bend)
        weights[best] += step
        weights[worst] = weights[worst] - step if step < weights[worst] else 0.0
        for k in range(n):
            slope[k] += step * (gram[k, best] - gram[k, worst])
    return gap
