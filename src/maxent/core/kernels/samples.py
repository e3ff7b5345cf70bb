"""Products of samples with sparse rows: only what is not zero is visited.

X'P where few entries of P are not zero, and X' J X with J the Jacobians of a map, one a row:
J_i = diag(d_i) - u_i u_i' on the support of d_i, kept as compressed rows with the weight of the
row in d and its root in u. A row of the simplex at a vertex has no curvature and is left out.
"""

import math

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True, error_model="numpy")
def count_support(diagonal, spike, counts, start, stop):
    """Entries of the Jacobian's support in each row; ``spike`` has no columns where J = diag(d)."""
    for i in range(start, stop):
        n, last = 0, 0
        for j in range(diagonal.shape[1]):
            if diagonal[i, j] > 0.0:
                n += 1
                last = j
        if n == 1 and spike.shape[1] > 0:
            d, u = diagonal[i, last], spike[i, last]
            n = 0 if d - u * u <= 1e-12 * d else 1
        counts[i] = n


@njit(cache=True, nogil=True, error_model="numpy")
def fill_support(diagonal, spike, weights, offsets, index, d, u, start, stop):
    """The entries of the support, with the rows' weights."""
    for i in range(start, stop):
        at = offsets[i]
        if at == offsets[i + 1]:
            continue
        root = math.sqrt(weights[i])
        for j in range(diagonal.shape[1]):
            if diagonal[i, j] > 0.0:
                index[at] = j
                d[at] = weights[i] * diagonal[i, j]
                u[at] = root * spike[i, j] if spike.shape[1] > 0 else 0.0
                at += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def sparse_product(X, offsets, index, d, u, V, start, stop):
    """sum_i (J_i V x_i) x_i' over rows start to stop; V and the result are (outputs, features)."""
    total = np.zeros(V.shape, V.dtype)
    z = np.empty(V.shape[0], V.dtype)
    width = V.shape[1]
    for i in range(start, stop):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        if n == 0:
            continue
        x = X[i]
        along = V.dtype.type(0.0)
        for j in range(n):
            v = V[index[first + j]]
            dot = V.dtype.type(0.0)
            for k in range(width):
                dot += v[k] * x[k]
            z[j] = dot
            along += u[first + j] * dot
        for j in range(n):
            row = total[index[first + j]]
            y = d[first + j] * z[j] - u[first + j] * along
            for k in range(width):
                row[k] += y * x[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def one_output_product(X, d, v, start, stop):
    """sum_i d_i (x_i'v) x_i over rows start to stop: each row is read once."""
    total = np.zeros(v.size, v.dtype)
    for i in range(start, stop):
        x, dot = X[i], v.dtype.type(0.0)
        for k in range(v.size):
            dot += x[k] * v[k]
        dot *= d[i]
        for k in range(v.size):
            total[k] += dot * x[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def weighted_squares(X, weight, start, stop):
    """sum_i weight_i x_i^2' in float64 over rows start to stop, (outputs, features)."""
    total = np.zeros((weight.shape[1], X.shape[1]))
    for i in range(start, stop):
        x = X[i]
        for j in range(weight.shape[1]):
            line, factor = total[j], weight[i, j]
            for k in range(x.size):
                value = np.float64(x[k])
                line[k] += factor * (value * value)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def sparse_moments(X, P, start, stop):
    """sum_i p_i x_i' over rows start to stop, (outputs, features)."""
    total = np.zeros((P.shape[1], X.shape[1]), X.dtype)
    for i in range(start, stop):
        for j in range(P.shape[1]):
            p = P[i, j]
            if p != 0.0:
                for k in range(X.shape[1]):
                    total[j, k] += p * X[i, k]
    return total
