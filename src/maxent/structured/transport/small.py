"""Projections of a few small matrices on couplings, all at once, in plain numpy.

Kernels take seconds to compile, more than a small fit takes by itself. This is the method of
``kernels.couplings`` without what hard problems need: a matrix whose sums come out with more than
rounding is left to the kernel, and so is one of large scores or with entries that are forbidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.rows.arrays import Array

_CALL, _ENTRY = 3000, 8  # millionths of a second of a call and of each score
_WIDEST = 64  # columns up to which dense linear algebra serves
# spreads of scores that are tried, the Euclidean one in the largest row sum; one beyond the first
# is solved at growing multiples of the scores, each start being the last solution
_EASY, _GROWTH, _HARDEST, _LOOSE = 30.0, 10.0, 1e5, 5e-2
_HARDEST_KL = 200.0
_STEPS, _HALVINGS, _SWEEPS, _ROUNDS = 60, 30, 500, 4
_GROUND = 1e-12  # least damping: columns that no row links must not move on rounding alone
_ROUNDED, _ROUNDED_KL = 16 * np.finfo(np.float64).eps, 4e-12  # violations that are taken


def few(kernel: Any, size: int, rows: int, columns: int) -> bool:
    """Whether to try numpy before a kernel, for ``size`` scores in matrices of this shape."""
    from maxent._support.compiling.kernels import spared

    small = min(rows, columns) <= _WIDEST
    return small and bool(spared(kernel, size, _CALL + _ENTRY * size))


def project_few(theta: Array, a: Array, b: Array, *, kl: bool) -> tuple[Array, Array]:
    """Projections of matrices (k, m, n) on row sums a and column sums b, and which are right."""
    if len(b) > len(a):
        p, right = project_few(theta.transpose(0, 2, 1), b, a, kl=kl)
        return p.transpose(0, 2, 1), right
    theta = theta - theta.max(axis=2, keepdims=True)
    theta -= theta.max(axis=1, keepdims=True)  # neither changes a projection
    p, spread = np.zeros(theta.shape), -theta.min(axis=(1, 2))
    easy = np.flatnonzero(spread <= (_HARDEST_KL if kl else _HARDEST * a.max()))
    project = _scaled if kl else _nearest
    with np.errstate(all="ignore"):  # what is not finite is not right
        found = project(theta[easy], a, b)
        p[easy] = np.minimum(np.minimum(found, a[:, None]), b)
        left = _lack(p, a, b)[2]
    right = np.isin(np.arange(len(p)), easy) & (left <= (_ROUNDED_KL if kl else _ROUNDED))
    return p, right


def _lack(p: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """What the sums of rows and of columns lack, and the larger 1-norm as a share of the mass."""
    rows, columns = a - p.sum(axis=2), b - p.sum(axis=1)
    left = (np.abs(x).sum(axis=1) / a.sum() for x in (rows, columns))
    return rows, columns, np.maximum(*left)


# -- Kullback-Leibler ------------------------------------------------------------------------------


def _scaled(theta: Array, a: Array, b: Array) -> Array:
    """Sinkhorn's scalings."""
    p = np.exp(theta)
    v = np.ones((len(p), len(b)))
    for _ in range(_SWEEPS):
        u = a / np.einsum("kij,kj->ki", p, v)
        x = np.einsum("kij,ki->kj", p, u)
        size = np.abs(x * v - b).sum(axis=1) / b.sum()
        v = b / x
        if not (size > 0.25 * _ROUNDED_KL).any():
            break
    return np.asarray(p * u[:, :, None] * v[:, None, :])


# -- Euclidean -------------------------------------------------------------------------------------


def _thresholds(x: Array, a: Array) -> Array:
    """tau with sum_j [x_ij - tau_i]_+ = a_i."""
    falling = -np.sort(-x, axis=2)
    level = (np.cumsum(falling, axis=2) - a[:, None]) / np.arange(1, x.shape[2] + 1)
    count = (falling > level).sum(axis=2, keepdims=True)
    return np.take_along_axis(level, np.maximum(count, 1) - 1, axis=2)[:, :, 0]


def _evaluated(theta: Array, a: Array, b: Array, g: Array) -> tuple[Array, Array, Array]:
    """The semi-dual at potentials g of the columns, P, and its column sums less b."""
    x = theta + g[:, None, :]
    tau = _thresholds(x, a)
    p = np.maximum(x - tau[:, :, None], 0.0)
    value = tau @ a - g @ b + 0.5 * (p * p).sum(axis=(1, 2))
    return value, p, p.sum(axis=1) - b


def _laplacian(support: Array) -> Array:
    """Of the graph of columns, which rows link by their supports."""
    share = support / np.maximum(support.sum(axis=2, keepdims=True), 1.0)
    links = np.einsum("kij,kil->kjl", share, support)
    index = np.arange(links.shape[1])
    diagonal = np.zeros_like(links)
    diagonal[:, index, index] = links.sum(axis=2)
    return diagonal - links


def _nearest(theta: Array, a: Array, b: Array) -> Array:
    """Newton's method at growing multiples of the scores; then rounding is taken out."""
    spread = np.abs(theta).max(axis=(1, 2))
    scale = np.minimum(_EASY * a.max() / np.maximum(spread, 1e-300), 1.0)
    tolerance = 8 * np.finfo(np.float64).eps * len(b) * (1 + spread)
    g = np.zeros((len(theta), len(b)))
    while True:
        goal = np.where(scale < 1.0, _LOOSE, tolerance)
        p = _minimised(scale[:, None, None] * theta, a, b, g, goal)
        if (scale == 1.0).all():
            return _balanced(p, a, b, (tolerance * b.max())[:, None, None])
        grown = np.minimum(scale * _GROWTH, 1.0)
        g *= (grown / scale)[:, None]
        scale = grown


def _minimised(theta: Array, a: Array, b: Array, g: Array, goal: Array) -> Array:
    """P where Newton's method on the semi-dual, damped while far away, ends; moves g there."""
    n, mass = len(b), b.sum()
    damping = np.ones(len(theta))
    value, p, excess = _evaluated(theta, a, b, g)
    size = np.abs(excess).sum(axis=1) / mass
    going = np.flatnonzero(size > goal)
    for _ in range(_STEPS):
        if not going.size:
            break
        curved = _laplacian((p[going] > 0.0).astype(np.float64))
        ground = np.maximum(damping[going] * size[going], _GROUND)
        # and against the one direction that changes nothing
        matrix = curved + ground[:, None, None] * np.eye(n) + 1.0 / n
        step = np.linalg.solve(matrix, -excess[going][:, :, None])[:, :, 0]
        step -= step.mean(axis=1, keepdims=True)
        slope = (excess[going] * step).sum(axis=1)
        lower, length = np.zeros(going.size, dtype=bool), np.ones(going.size)
        for _ in range(_HALVINGS):
            rest = np.flatnonzero(~lower)
            mine = going[rest]
            trial = g[mine] + length[rest, None] * step[rest]
            new, q, over = _evaluated(theta[mine], a, b, trial)
            new_size, old = np.abs(over).sum(axis=1) / mass, value[mine]
            # near the optimum the value is flat to rounding: there a smaller violation decides
            flat = np.abs(new - old) <= 1e-13 * (1 + np.abs(old))
            good = new <= old + 1e-4 * length[rest] * slope[rest]
            good |= flat & (new_size < size[mine])
            taken = mine[good]
            g[taken], value[taken], p[taken] = trial[good], new[good], q[good]
            excess[taken], size[taken] = over[good], new_size[good]
            lower[rest[good]] = True
            length[rest[~good]] *= 0.5
            if lower.all():
                break
        more = np.minimum(2 * damping[going] / length, 1.0)
        damping[going] = np.where(length == 1.0, damping[going] / 4, more)
        going = going[lower & (size[going] > goal[going])]  # the others go no further
    return p


def _balanced(p: Array, a: Array, b: Array, rounding: Array) -> Array:
    """The nearest points with the right sums on the supports, without what is only rounding."""
    p = np.where(p <= rounding, 0.0, p)
    best, least = p, np.full(len(p), np.inf)
    for _ in range(_ROUNDS):
        rows, columns, left = _lack(p, a, b)
        better = left < least
        best, least = np.where(better[:, None, None], p, best), np.minimum(left, least)
        if not (left > _ROUNDED / 4).any():
            break
        support = (p > 0.0).astype(np.float64)
        count = np.maximum(support.sum(axis=2), 1.0)
        rows = rows / count  # a row's lack is shared by its support, the rest is the columns'
        columns = columns - np.einsum("ki,kij->kj", rows, support)
        if not np.isfinite(columns).all():
            break
        inverse = np.linalg.pinv(_laplacian(support), rcond=1e-12, hermitian=True)
        step = np.einsum("kjl,kl->kj", inverse, columns)
        mean = np.einsum("kij,kj->ki", support, step) / count
        moved = p + (rows - mean)[:, :, None] + step[:, None, :]
        p = np.where(support > 0.0, np.maximum(moved, 0.0), 0.0)
    return best
