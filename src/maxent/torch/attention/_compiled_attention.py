"""Attention on CPU: scores of a block of queries by torch's product, all else on the support."""

from __future__ import annotations

import math

import numpy as np

import torch
from maxent._support.compiling.kernels import njit
from maxent._support.threads import over_rows
from maxent.core.kernels.threshold import BLOCK, solve_row
from maxent.torch.attention._kept import Kept
from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.maps._dispatch import compute_type

_ENTRIES = 1 << 18  # scores of a block: they stay in the cache


def takes(given):
    """Whether this engine is for these tensors: any alpha above 1."""
    return bool((given.alphas(torch.float64) > 1).all())


def forward(given):
    """The output, and rows of lists: where they begin, keys and weights."""
    q, k, v = (_computed(x) for x in (given.query, given.key, given.value))
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    alphas = given.alphas(torch.float64).numpy()
    out = np.zeros((batch, heads, queries, v.shape[3]), v.numpy().dtype)
    crow = np.zeros(batch * heads * queries + 1, np.int64)
    first, after = _bounds(given)
    step = max(min(_ENTRIES // max(keys, 1), queries), 16)
    index = np.empty((step, keys), np.int32)
    cols, values = [np.empty(0, np.int32)], [np.empty(0, out.dtype)]
    row = 1
    for b, h in np.ndindex(batch, heads):
        shared = h // given.group
        for start in range(0, queries, step):
            stop = min(start + step, queries)
            seen = first[b, start:stop], after[b, start:stop]
            low = min(int(seen[0].min()), keys)
            high = max(int(seen[1].max()), low)
            scores = torch.mm(q[b, h, start:stop], k[b, shared, low:high].T).mul_(given.scale)
            _add(given, scores, b, h, start, low)
            sizes = crow[row : row + stop - start]
            shares = (
                scores.numpy(), *seen, low, alphas[h], v[b, shared].numpy(), index,
                sizes, out[b, h, start:stop],
            )  # fmt: skip
            _over_rows(lambda i, j, shares=shares: attend_rows(*shares, i, j), *scores.shape)
            col, value = np.empty(sizes.sum(), np.int32), np.empty(sizes.sum(), out.dtype)
            collect(shares[0], index, sizes, col, value)
            cols.append(col)
            values.append(value)
            row += stop - start
    np.cumsum(crow, out=crow)
    lists = crow, np.concatenate(cols), np.concatenate(values)
    out = torch.from_numpy(out).to(given.query.dtype)
    return out, Kept("numba", *map(torch.from_numpy, lists))


def backward(given, kept, g):
    """Gradients of query, key, value and, one for each head, of alpha."""
    q, k, v, g = (_computed(x) for x in (given.query, given.key, given.value, g))
    made = [torch.zeros_like(x) for x in (q, k, v)]
    by_alpha = torch.zeros(q.shape[:2], dtype=torch.float64)
    alphas = given.alphas(torch.float64)
    arrays = [x.numpy() for x in (q, k, v, g, *made, by_alpha, *kept[1:4], alphas)]
    shared = k.shape[0] * k.shape[1]  # heads of keys: each has gradients of its own
    size = 4 * len(kept.col) * q.shape[3] // max(shared, 1)
    _over_rows(lambda i, j: gradient_rows(*arrays, given.scale, i, j), shared, size)
    return *(x.to(given.query.dtype) for x in made), by_alpha.sum(0)


def support(given, kept, shape):
    """The weights as they are kept."""
    return AttentionSupport(*kept[1:4], shape)


def _over_rows(work, rows, size):
    over_rows(work, rows, size, torch.get_num_threads())


def _computed(x):
    """Contiguous, in the type of computation."""
    return x.detach().to(compute_type(x)).contiguous()


def _bounds(given):
    batch, _, queries, _ = given.query.shape
    if given.first is None:
        keys = given.key.shape[2]
        return np.zeros((batch, queries), np.int32), np.full((batch, queries), keys, np.int32)
    return tuple(x.expand(batch, queries).numpy() for x in (given.first, given.stop))


def _add(given, scores, b, h, start, low):
    """What is added to the scores of a block of queries of one head, from the key ``low`` on."""
    stop, high = start + scores.shape[0], low + scores.shape[1]
    if given.slopes is not None:
        away = (torch.arange(start, stop)[:, None] - torch.arange(low, high)).abs()
        scores.sub_(given.slopes.detach()[h].to(scores.dtype) * away)
    if given.bias is not None:
        bias = given.bias.detach()
        bias = bias[b if len(bias) > 1 else 0]
        bias = bias[h if len(bias) > 1 else 0]
        rows = slice(start, stop) if len(bias) > 1 else slice(None)
        columns = slice(low, high) if bias.shape[1] > 1 else slice(None)
        scores.add_(bias[rows, columns])


@njit(cache=True, nogil=True, error_model="numpy")
def attend_rows(scores, first, after, low, alpha, v, index, sizes, out, start, stop):
    """Output of queries; their keys go to ``index``, their weights to the front of the scores."""
    size = scores.shape[1]
    x, q, w = np.empty(size + 4), np.empty(size + 4), np.empty(size + 4)
    places = np.empty(size + 4, np.int64)
    maxima = np.full(size // BLOCK + 2 * BLOCK, -np.inf).astype(scores.dtype)
    none = np.empty(0)
    a = alpha - 1.0
    for r in range(start, stop):
        begin = max(first[r], low)
        if after[r] <= begin:
            continue
        row = scores[r, begin - low : after[r] - low]
        groups = row.size // BLOCK + row.size % BLOCK
        maxima[groups : groups + BLOCK] = -np.inf  # a longer row may have been there
        n, top, _ = solve_row(row, a, 1 / a, none, 1 / a, x, q, w, places, maxima)
        if n == 0:
            if top != -np.inf:
                out[r] = np.nan
            continue
        total = 0.0
        for j in range(n):
            total += w[j]
        kept = 0
        for j in range(n):
            p = w[j] / total
            if p > 0.0:
                key = begin + places[j]
                scores[r, kept] = p
                index[r, kept] = key
                kept += 1
        sizes[r] = kept
        for j in range(kept):
            p = scores[r, j]
            key = index[r, j]
            for d in range(v.shape[1]):
                out[r, d] += p * v[key, d]


@njit(cache=True, nogil=True, error_model="numpy")
def collect(scores, index, sizes, col, value):
    """The lists of a block of queries, one after the other."""
    to = 0
    for r in range(sizes.size):
        for j in range(sizes[r]):
            col[to] = index[r, j]
            value[to] = scores[r, j]
            to += 1


@njit(cache=True, helper=True, nogil=True, error_model="numpy")
def _alpha_slope(p, a):
    """b of ``_derivatives.alpha_vjp``."""
    log_p = math.log(p)
    m = -a * log_p
    if m >= 0.5:
        return -(p ** (1.0 - a) - p * (1.0 + m)) / (a * a)
    series, term = 0.0, 0.5
    for k in range(3, 16):
        series += term
        term *= m / k
    return -p * log_p * log_p * series


@njit(cache=True, nogil=True, error_model="numpy")
def gradient_rows(
    q, k, v, g, dq, dk, dv, by_alpha, crow, col, value, alphas, scale, start, stop
):  # fmt: skip
    """ds_j = w_j (dp_j - c) with w = p^(2 - alpha), c the mean of dp under w; for heads of keys."""
    heads, queries = q.shape[1], q.shape[2]
    group = heads // k.shape[1]
    dp, weights = np.empty(k.shape[2], q.dtype), np.empty(k.shape[2])
    for pair in range(start, stop):
        b, shared = pair // k.shape[1], pair % k.shape[1]
        for h in range(shared * group, (shared + 1) * group):
            a = alphas[h] - 1.0
            for i in range(queries):
                row = (b * heads + h) * queries + i
                begin, n = crow[row], crow[row + 1] - crow[row]
                mass, mean, slope, slopes = 0.0, 0.0, 0.0, 0.0
                for j in range(n):
                    key, p = col[begin + j], value[begin + j]
                    total = p * 0
                    for d in range(v.shape[3]):
                        total += g[b, h, i, d] * v[b, shared, key, d]
                        dv[b, shared, key, d] += p * g[b, h, i, d]
                    dp[j] = total
                    weights[j] = np.float64(p) ** (1.0 - a)
                    mass += weights[j]
                    mean += weights[j] * total
                    s = _alpha_slope(np.float64(p), a)
                    slope += s
                    slopes += s * total
                if n == 0:
                    continue
                mean /= mass
                by_alpha[b, h] += slopes - mean * slope
                for j in range(n):
                    key = col[begin + j]
                    ds = q.dtype.type(weights[j] * (dp[j] - mean) * scale)
                    for d in range(q.shape[3]):
                        dq[b, h, i, d] += ds * k[b, shared, key, d]
                        dk[b, shared, key, d] += ds * q[b, h, i, d]
