"""Similarities of cells to landmarks, one variable after the other.

A Matern kernel of one variable is (1 + a t + b t^2) exp(-t), t = rate |u - v|. Its exponential is
the smaller of exp(-rate u) exp(rate v) and exp(rate u) exp(-rate v), both products of numbers that
each cell and each landmark has by itself: no exponential for every pair.
"""

import numpy as np

from maxent._support.compiling.kernels import njit, twin


@njit(cache=True, nogil=True)
def add_terms(
    values, up, down, others, others_up, others_down, additive, distance, rate, a, b, similar, apart
):
    """Add the terms of single variables to ``similar``, and the squared distances to ``apart``."""
    for i in range(values.shape[1]):
        for v in range(values.shape[0]):
            weight, square = additive[v], distance[v]
            u, rise, fall = values[v, i], up[v, i], down[v, i]
            if weight != 0.0:
                for j in range(others.shape[1]):
                    t = abs(u - others[v, j]) * rate
                    one, two = rise * others_down[v, j], fall * others_up[v, j]
                    e = one if one < two else two
                    similar[i, j] += weight * ((1.0 + t * (a + t * b)) * e)
            if square != 0.0:
                for j in range(others.shape[1]):
                    gap = u - others[v, j]
                    apart[i, j] += square * (gap * gap)


@twin(add_terms)
def _add_terms(
    values, up, down, others, others_up, others_down, additive, distance, rate, a, b, similar, apart
):
    """The same steps, for all pairs of a variable at once."""
    for v in range(values.shape[0]):
        gap = values[v][:, None] - others[v]
        if additive[v] != 0.0:
            t = np.abs(gap) * rate
            one, two = up[v][:, None] * others_down[v], down[v][:, None] * others_up[v]
            e = np.where(one < two, one, two)
            similar += additive[v] * ((1.0 + t * (a + t * b)) * e)
        if distance[v] != 0.0:
            apart += distance[v] * (gap * gap)
