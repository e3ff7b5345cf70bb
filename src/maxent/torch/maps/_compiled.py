"""The core's compiled threshold solver on rows, with the edge rules and parameters of torch.

Functions of numpy arrays; imported where numba is.
"""

from __future__ import annotations

import math

import numpy as np

import torch
from maxent._support.compiling.kernels import njit
from maxent._support.threads import over_rows
from maxent.core.kernels.threshold import BLOCK, block_maximum, scatter, solve_row


def _over_rows(work, rows, size):
    """The core's threads, no more than torch's own."""
    over_rows(work, rows, size, torch.get_num_threads())


def conjugate(x, kind, parameter, parameters):
    """The map p, the largest score of each row and what the conjugate exceeds it by."""
    rows, size = x.shape
    p, top, excess = np.zeros(x.shape, x.dtype), np.empty(rows, x.dtype), np.empty(rows)
    parameters = np.empty(0) if parameters is None else parameters

    def work(start, stop):
        conjugate_rows(x, kind == "norm", parameter, parameters, p, top, excess, start, stop)

    _over_rows(work, rows, size)
    return p, top, excess


def label_loss(x, labels, kind, parameter, ignore, shares, divisor):
    """Losses of labels and gradients p - y, times shares / divisor; whether a label is no column.

    Both are 0 for the label ``ignore`` and in rows that are -inf everywhere; the loss of a label
    that is no column is NaN.
    """
    rows, size = x.shape
    loss, gradient, wrong = np.zeros(rows, x.dtype), np.zeros(x.shape, x.dtype), np.zeros(1, bool)
    shares = np.empty(0) if shares is None else shares

    def work(start, stop):
        loss_rows(
            *(x, labels, kind == "norm", parameter, ignore, shares, divisor),
            *(loss, gradient, wrong, start, stop),
        )

    _over_rows(work, rows, size)
    return loss, gradient, wrong[0]


def budget(x, k, budgets):
    """The projection on {0 <= p <= 1, sum p = k}."""
    p = np.empty(x.shape, x.dtype)
    budgets = np.empty(0) if budgets is None else budgets
    _over_rows(lambda start, stop: budget_rows(x, k, budgets, p, start, stop), *x.shape)
    return p


def vjp(p, g, kind, parameter, parameters):
    """The Jacobian of the map at p times g."""
    out = np.zeros(p.shape, p.dtype)
    parameters = np.empty(0) if parameters is None else parameters
    rows = {"tsallis": vjp_rows, "norm": norm_vjp_rows, "budget": budget_vjp_rows}[kind]
    _over_rows(lambda start, stop: rows(p, g, parameter, parameters, out, start, stop), *p.shape)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _softmax_row(row, p):
    top = -np.inf
    for x in row:
        if not x < np.inf:
            return np.nan, np.nan
        top = max(top, np.float64(x))
    if top == -np.inf:
        return top, np.nan
    total = 0.0
    for i in range(row.size):
        total += math.exp(np.float64(row[i]) - top)
    for i in range(row.size):
        p[i] = math.exp(np.float64(row[i]) - top) / total
    return top, math.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _scratch(theta):
    size = theta.shape[1]
    v, q, w = np.empty(size + 4), np.empty(size + 4), np.empty(size + 4)
    maxima = np.full(size // BLOCK + 2 * BLOCK, -np.inf).astype(theta.dtype)
    return v, q, w, np.empty(size + 4, np.int64), maxima


@njit(cache=True, nogil=True, error_model="numpy")
def _conjugate_row(row, norm, parameter, p, scratch):
    """Fill p, a row of zeros; return the largest score and what the conjugate exceeds it by."""
    v, q, w, index, maxima = scratch
    none = np.empty(0)
    excess = np.nan
    if not norm and parameter == 1.0:
        largest, excess = _softmax_row(row, p)
        n = 0 if math.isnan(excess) else 1
    elif norm:
        k = 1.0 if parameter == np.inf else parameter / (parameter - 1.0)
        n, largest, sigma = solve_row(row, 1.0, k, none, k - 1.0, v, q, w, index, maxima)
        if n > 0:
            scatter(v, w, index, n, p)
            excess = sigma
    else:
        a = parameter - 1.0
        n, largest, sigma = solve_row(row, a, 1 / a, none, 1 / a, v, q, w, index, maxima)
        if n > 0:
            # see tsallis_rows of the core
            excess = (scatter(v, w, index, n, p) + sigma / a) / parameter
    if n == 0:
        excess = 0.0 if largest == -np.inf else np.nan
        for i in range(row.size):
            p[i] = excess
    return largest, excess


@njit(cache=True, nogil=True, error_model="numpy")
def conjugate_rows(theta, norm, parameter, parameters, p, top, excess, start, stop):
    scratch = _scratch(theta)
    for r in range(start, stop):
        value = parameters[r] if parameters.size > 0 else parameter
        top[r], excess[r] = _conjugate_row(theta[r], norm, value, p[r], scratch)


@njit(cache=True, nogil=True, error_model="numpy")
def loss_rows(
    theta, labels, norm, parameter, ignore, shares, divisor, loss, gradient, wrong, start, stop
):
    scratch = _scratch(theta)
    size = theta.shape[1]
    for r in range(start, stop):
        label = labels[r]
        if label == ignore:
            continue
        row, residual = theta[r], gradient[r]
        largest, excess = _conjugate_row(row, norm, parameter, residual, scratch)
        if largest == -np.inf:
            continue
        own = min(max(label, 0), size - 1)
        share = (shares[r] if shares.size > 0 else 1.0) / divisor
        residual[own] -= 1.0
        if share != 1.0:
            for i in range(size):
                residual[i] *= share
        value = excess + (largest - np.float64(row[own]))
        if own != label:
            wrong[0], value = 1, np.nan
        # rounding may make it negative; NaN stays
        loss[r] = share * (0.0 if value <= 0.0 else value)


@njit(cache=True, nogil=True, error_model="numpy")
def vjp_rows(p, g, alpha, alphas, out, start, stop):
    size = p.shape[1]
    index = np.empty(size + 1, np.int64)
    s = np.empty(size + 1)
    for r in range(start, stop):
        if math.isnan(p[r, 0]):
            for i in range(size):
                out[r, i] = np.nan
            continue
        exponent = 2.0 - (alphas[r] if alphas.size > 0 else alpha)
        n = 0
        # most blocks of a sparse row are zero: one comparison each
        for b in range(size // BLOCK):
            if block_maximum(p[r], b * BLOCK) > 0.0:
                for i in range(b * BLOCK, (b + 1) * BLOCK):
                    index[n] = i
                    n += p[r, i] > 0.0
        for i in range(size - size % BLOCK, size):
            index[n] = i
            n += p[r, i] > 0.0
        total, product = 0.0, 0.0
        for j in range(n):
            x = np.float64(p[r, index[j]])
            if exponent == 0.0:
                s[j] = 1.0
            elif exponent == 0.5:
                s[j] = math.sqrt(x)
            else:
                s[j] = x if exponent == 1.0 else x**exponent
            total += s[j]
            product += s[j] * g[r, index[j]]
        mean = product / total
        for j in range(n):
            out[r, index[j]] = s[j] * (g[r, index[j]] - mean)


@njit(cache=True, nogil=True, error_model="numpy")
def norm_vjp_rows(p, g, exponent, exponents, out, start, stop):
    """N/(q-1) (I - p 1') diag((p/N)^(2-q)) (I - 1 p') g with N the q-norm; 0 for q = inf."""
    size = p.shape[1]
    for r in range(start, stop):
        q = exponents[r] if exponents.size > 0 else exponent
        if math.isnan(p[r, 0]):
            out[r] = np.nan
            continue
        largest, product = 0.0, 0.0
        for i in range(size):
            x = np.float64(p[r, i])
            largest = max(largest, x)
            if x > 0.0:
                product += x * g[r, i]
        if q == np.inf or largest == 0.0:
            continue
        total = 0.0
        for i in range(size):
            x = np.float64(p[r, i]) / largest
            if x > 0.0:
                total += x * x if q == 2.0 else x**q
        norm = largest * total ** (1.0 / q)
        mass = 0.0
        for i in range(size):
            x = np.float64(p[r, i])
            if x > 0.0:
                weight = 1.0 if q == 2.0 else (x / norm) ** (2.0 - q)
                weight *= g[r, i] - product
                out[r, i] = weight
                mass += weight
        for i in range(size):
            if p[r, i] > 0.0:
                out[r, i] = norm / (q - 1.0) * (out[r, i] - p[r, i] * mass)


@njit(cache=True, nogil=True, error_model="numpy")
def budget_vjp_rows(p, g, k, budgets, out, start, stop):
    """g less its mean, over the entries between 0 and 1."""
    size = p.shape[1]
    for r in range(start, stop):
        if math.isnan(p[r, 0]):
            out[r] = np.nan
            continue
        free, total = 0, 0.0
        for i in range(size):
            if 0.0 < p[r, i] < 1.0:
                free += 1
                total += g[r, i]
        for i in range(size):
            if 0.0 < p[r, i] < 1.0:
                out[r, i] = g[r, i] - total / free


@njit(cache=True, nogil=True, error_model="numpy")
def budget_rows(theta, k, budgets, p, start, stop):
    """clip(x - tau, 0, 1); all usable scores get 1 where they are no more than k."""
    size = theta.shape[1]
    v = np.empty(size)
    for r in range(start, stop):
        total = budgets[r] if budgets.size > 0 else k
        usable, wrong = 0, not total >= 0.0
        for i in range(size):
            wrong = wrong or not theta[r, i] < np.inf
            if theta[r, i] > -np.inf:
                v[usable] = theta[r, i]
                usable += 1
        if wrong:
            p[r] = np.nan
        elif usable <= total:
            for i in range(size):
                p[r, i] = 1.0 if theta[r, i] > -np.inf else 0.0
        elif total == 0.0:
            p[r] = 0.0
        else:
            # tau lies within 1 of the ceil(k)-th largest score: from there huge scores are exact
            centre = _select(v, usable, math.ceil(total) - 1)
            tau = _budget_threshold(theta[r], centre, total)
            for i in range(size):
                p[r, i] = min(max((np.float64(theta[r, i]) - centre) - tau, 0.0), 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _select(v, n, rank):
    """The score of this rank, 0 for the largest; v[:n] is reordered."""
    low, high = 0, n - 1
    while low < high:
        pivot = v[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while v[i] > pivot:
                i += 1
            while v[j] < pivot:
                j -= 1
            if i <= j:
                v[i], v[j] = v[j], v[i]
                i, j = i + 1, j - 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return v[rank]


@njit(cache=True, nogil=True, error_model="numpy")
def _budget_threshold(row, centre, total):
    """The root of sum clip(x - centre - tau, 0, 1) = total, which lies in [-1, 0].

    The sum is piecewise linear: Newton's step within the last piece ends at the root. A step that
    would leave the bracket is replaced by a bisection, and so are all after a while.
    """
    low, high, tau = -1.0, 0.0, -0.5
    for i in range(120):
        mass, slope = 0.0, 0
        for x in row:
            z = (np.float64(x) - centre) - tau
            if z >= 1.0:
                mass += 1.0
            elif z > 0.0:
                mass += z
                slope += 1
        excess = mass - total
        if abs(excess) <= 2e-16 * (total + slope):
            break
        if excess > 0.0:
            low = tau
        else:
            high = tau
        new = tau + excess / slope if slope > 0 else np.inf
        if not low <= new <= high or i > 40:
            new = low + (high - low) / 2
        if new == tau:
            break
        tau = new
    return tau
