"""Maps of the simplex and its neighbours on (rows, size) arrays: dispatch to kernels and threads.

Kernels (and with them numba) are imported at the first call, so that ``import maxent`` is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import special

from maxent._support.threads import over_rows
from maxent.rows.arrays import Array

_BLOCK = 1 << 15  # entries a numpy pass handles at once: stays in the second-level cache
_NONE = np.empty((0, 0))
_LEAST = 1.1  # alpha from which on plain Newton steps are few
_CERTAIN, _ABOUT = 800.0, 0.25  # a logit whose chance is 1; how far a mean number may be off
_STEPS, _TIGHT = 60, 4 * float(np.finfo(np.float64).eps)


def _weights(q: Array | None) -> Array:
    """Weights as the kernels take them: (0, 0) for none, else (1, size) or (rows, size)."""
    return _NONE if q is None else np.ascontiguousarray(np.atleast_2d(q), dtype=np.float64)


def _complain(row: int, theta: Array) -> None:
    """Say what is wrong with a row that a kernel refused."""
    from maxent.rows.arrays import check_scores

    check_scores(theta, "scores")
    raise ValueError(f"row {row} of the scores has no finite entry with positive weight")


def tsallis_map(theta: Array, alpha: float, q: Array | None = None) -> tuple[Array, Array]:
    """Conjugate value and maximiser of the (relative) Tsallis entropy, alpha > 1."""
    from maxent._support.compiling.kernels import spared
    from maxent.core.kernels.threshold import plain_tsallis_rows, tsallis_rows

    # what most people use is compiled in half the time
    kernel = plain_tsallis_rows if q is None and alpha in (1.5, 2.0) else tsallis_rows
    if q is None and _LEAST <= alpha <= 2.0 and spared(kernel, theta.size, 100 + theta.size // 5):
        found = _few_tsallis(theta, float(alpha))
        if found is not None:
            return found
    return _run(kernel, theta, float(alpha), q)


def _few_tsallis(theta: Array, alpha: float) -> tuple[Array, Array] | None:
    """The same in numpy, None where it did not come to an end: sum [x - sigma]_+^k = 1.

    k = 1 / (alpha - 1) is at least 1 and x = 1 + (theta - top) / k. The sum is convex and falls as
    sigma grows, so that Newton's method climbs to its root from 0, where the sum is 1 or more.
    """
    a = alpha - 1.0
    k = 1.0 / a
    top = theta.max(axis=1, keepdims=True, initial=-np.inf).astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(top))
    if wrong.size:
        _complain(int(wrong[0]), theta)
    with np.errstate(over="ignore"):
        shifted = np.maximum(a * (theta - top), -2.0)  # 0 <= sigma < 1: below -1 nothing has mass
    x, sigma = 1.0 + shifted, np.zeros_like(top)
    for _ in range(_STEPS):
        z = np.maximum(x - sigma, 0.0)
        power = z > 0.0 if k == 1.0 else z if k == 2.0 else z ** (k - 1.0)
        mass = (power * z).sum(axis=1, keepdims=True)
        step = (mass - 1.0) / (k * power.sum(axis=1, keepdims=True))
        sigma += step
        if not (np.abs(step) > _TIGHT).any():
            break
    else:
        return None
    w = np.maximum(x - sigma, 0.0)
    w = w if k == 1.0 else w * w if k == 2.0 else w**k
    w /= w.sum(axis=1, keepdims=True)
    value = top + ((w * shifted).sum(axis=1, keepdims=True) + k * sigma) / alpha
    return value[:, 0], w.astype(theta.dtype)


def dense_tsallis_map(theta: Array, alpha: float, q: Array | None = None) -> tuple[Array, Array]:
    """Conjugate value and maximiser of the (relative) Tsallis entropy, 0 < alpha < 1."""
    from maxent.core.kernels.dense_tsallis import dense_tsallis_rows

    return _run(dense_tsallis_rows, theta, float(alpha), q)


def norm_map(theta: Array, q_norm: float, q: Array | None = None) -> tuple[Array, Array]:
    """Conjugate value and maximiser of the (relative) norm entropy ||p||_q - 1."""
    from maxent.core.kernels.threshold import norm_rows

    return _run(norm_rows, theta, float(q_norm), q)


def squared_norm_map(theta: Array, q_norm: float, q: Array | None = None) -> tuple[Array, Array]:
    """Conjugate value and maximiser of the (relative) entropy ||p||_q^2 / 2, 1 < q <= 2."""
    from maxent.core.kernels.squared_norm import squared_norm_rows

    return _run(squared_norm_rows, theta, float(q_norm), q)


def renyi_map(theta: Array, beta: float, q: Array | None = None) -> tuple[Array, Array]:
    """Conjugate value and maximiser of the (relative) Renyi entropy, 0 < beta < 1."""
    from maxent.core.kernels.renyi import renyi_rows

    return _run(renyi_rows, theta, float(beta), q)


def _run(
    kernel: Callable[..., int], theta: Array, parameter: float, q: Array | None
) -> tuple[Array, Array]:
    rows, size = theta.shape
    p, value = np.zeros(theta.shape, dtype=theta.dtype), np.empty(rows)
    weights = _weights(q)
    bad: list[int] = []

    def work(start: int, stop: int) -> None:
        row = kernel(theta, parameter, weights, p, value, start, stop)
        if row >= 0:
            bad.append(row)

    over_rows(work, rows, size)
    if bad:
        _complain(min(bad), theta)
    return value, p


def _by_blocks(work: Callable[[slice], None], rows: int, size: int) -> None:
    """Run a numpy pass over blocks of rows that stay in cache."""
    step = max(1, _BLOCK // max(size, 1))

    def many(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            work(slice(first, min(first + step, stop)))

    over_rows(many, rows, size)


def softmax_map(theta: Array, q: Array | None = None) -> tuple[Array, Array]:
    """log sum_i q_i exp theta_i and its gradient, row by row."""
    p, value = np.empty_like(theta), np.empty(len(theta))
    weights = None if q is None else np.atleast_2d(q)

    def work(rows: slice) -> None:
        x = theta[rows]
        if weights is not None:
            w = weights if len(weights) == 1 else weights[rows]
            top = np.max(np.where(w > 0, x, -np.inf), axis=1, keepdims=True)
        else:
            top = x.max(axis=1, keepdims=True)
        y = p[rows]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            np.subtract(x, top, out=y)
            np.exp(y, out=y)
            if weights is not None:
                np.multiply(y, w, out=y)
                y[np.broadcast_to(w == 0, y.shape)] = 0
        total = y.sum(axis=1, dtype=np.float64)
        y /= total[:, None].astype(y.dtype)
        value[rows] = top[:, 0] + np.log(total)

    _by_blocks(work, *theta.shape)
    return value, p


def sigmoid_map(theta: Array) -> tuple[Array, Array]:
    """sum_j log(1 + exp theta_j) and the sigmoid, row by row."""
    from maxent.core.kernels.binary import sigmoid_column, sigmoid_rows

    if theta.shape[1] == 1 and theta.flags.c_contiguous:
        column, value = np.empty(len(theta), theta.dtype), np.empty(len(theta))
        over_rows(partial(sigmoid_column, theta.reshape(-1), column, value), *theta.shape)
        return value, column[:, None]
    p, value = np.empty_like(theta), np.empty(len(theta))
    over_rows(partial(sigmoid_rows, theta, p, value), *theta.shape)
    return value, p


def capped_map(theta: Array, total: float) -> Array:
    """Projection on {0 <= p <= 1, sum p = total}: clip(theta - tau, 0, 1) with the right tau.

    The sum is piecewise linear in tau with kinks at theta and theta - 1: sort the kinks, find
    the piece by bisection over them, solve the linear equation there.
    """
    x = theta.astype(np.float64)
    # tau lies within 1 of the k-th largest score: measured from there, huge scores stay exact
    centre = np.partition(x, -int(total), axis=1)[:, -int(total), None]
    x = np.clip(x - centre, -4.0, 4.0)
    kinks = np.sort(np.concatenate([x, x - 1], axis=1), axis=1)
    low, high = np.zeros(len(x), int), np.full(len(x), kinks.shape[1] - 1)
    rows = np.arange(len(x))
    while (high - low > 1).any():
        middle = (low + high) // 2
        mass = np.clip(x - kinks[rows, middle][:, None], 0, 1).sum(axis=1)
        low, high = np.where(mass >= total, middle, low), np.where(mass >= total, high, middle)
    left, right = kinks[rows, low], kinks[rows, high]
    at_left = np.clip(x - left[:, None], 0, 1).sum(axis=1)
    middle_point = left + (right - left) / 2
    inside = (x > middle_point[:, None]) & (x - 1 < middle_point[:, None])
    slope = inside.sum(axis=1)
    tau = left + np.where(slope > 0, (at_left - total) / np.maximum(slope, 1), 0.0)
    return np.clip(x - tau[:, None], 0, 1).astype(theta.dtype)


def capped_softmax(theta: Array, total: int) -> Array:
    """min(exp(theta - tau), 1) with the tau that makes each row sum to ``total``.

    The largest scores reach the cap: with c of them there, tau makes the others sum to total - c,
    and the right c is the smallest for which none of them exceeds 1.
    """
    x = theta.astype(np.float64)
    # tau lies near the k-th largest score: measured from there, huge scores stay exact
    x = np.clip(x - np.partition(x, -total, axis=1)[:, -total, None], -1e3, 1e3)
    order = np.argsort(-x, axis=1)
    ranked = np.take_along_axis(x, order, axis=1)
    # log of the sum of exp over the entries from each rank on
    rest = np.logaddexp.accumulate(ranked[:, ::-1], axis=1)[:, ::-1][:, :total]
    levels = rest - np.log(total - np.arange(rest.shape[1]))
    fits = ranked[:, :total] <= levels
    capped = np.where(fits.any(axis=1), fits.argmax(axis=1), total)
    whole = capped == total  # all mass at the cap, up to rounding
    tau = levels[np.arange(len(x)), np.minimum(capped, levels.shape[1] - 1)]
    with np.errstate(over="ignore"):
        p = np.where(whole[:, None], 0.0, np.minimum(np.exp(x - tau[:, None]), 1.0))
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(x.shape[1])[None], axis=1)
    return np.where(rank < capped[:, None], 1.0, p).astype(theta.dtype)


def subset_map(theta: Array, k: int) -> tuple[Array, Array]:
    """Log-partition and marginals over subsets of size k.

    A walk over the entries whose state is the number taken so far: elementary symmetric
    polynomials in logarithms forward, probabilities of each number backward.
    """
    x = theta.astype(np.float64)
    top = x.max(axis=1, initial=-np.inf)
    x -= top[:, None]
    forward, take = subset_walk(x, k)
    number = _all_taken(x, k)
    marginals = np.empty_like(x)
    for i in reversed(range(x.shape[1])):
        moved = number * take[i]
        marginals[:, i] = np.minimum(moved.sum(axis=1), 1.0)
        number -= moved
        number[:, :-1] += moved[:, 1:]
    return forward[-1, :, k] + k * top, marginals.astype(theta.dtype)


def independent_entries(theta: Array, k: int) -> tuple[Array, Array]:
    """Chances to take and to leave entries, `p / (1 - p)` in proportion to `exp(theta)`.

    Taken independently, about k of each row are. With the logarithm of the size added to the
    k-th score, or taken off the next one, they are at most and at least k: between is bisected.
    """
    x, size = theta.astype(np.float64), theta.shape[1]
    falling = -np.partition(-x, (k - 1, min(k, size - 1)), axis=1)
    x -= falling[:, k - 1, None]  # from there, huge scores stay exact
    following = falling[:, k] - falling[:, k - 1] if k < size else np.full(len(x), -np.inf)
    low = np.full(len(x), -np.log(size))
    high = np.minimum(-following, 2 * _CERTAIN) + np.log(size)
    while True:
        shift = low + (high - low) / 2
        excess = special.expit(x + shift[:, None]).sum(axis=1) - k
        if not (np.abs(excess) > _ABOUT).any():
            break
        low, high = np.where(excess < 0, shift, low), np.where(excess < 0, high, shift)
    return special.expit(x + shift[:, None]), special.expit(-x - shift[:, None])


def subset_jvp(theta: Array, k: int, v: Array) -> Array:
    """Derivative of those marginals along v: each step of the walk, differentiated."""
    x = theta.astype(np.float64)
    x -= x.max(axis=1, initial=-np.inf)[:, None]
    take = subset_walk(x, k)[1]
    slope = np.zeros((len(x), k + 1))  # of the sums so far
    bend = np.zeros_like(take)
    for i in range(x.shape[1]):
        gain = slope[:, :-1] + v[:, i, None] - slope[:, 1:]
        bend[i, :, 1:] = take[i, :, 1:] * (1 - take[i, :, 1:]) * gain
        slope[:, 1:] += take[i, :, 1:] * gain
    number, change = _all_taken(x, k), np.zeros((len(x), k + 1))
    out = np.empty_like(x)
    for i in reversed(range(x.shape[1])):
        moved = number * take[i]
        moved_change = change * take[i] + number * bend[i]
        out[:, i] = moved_change.sum(axis=1)
        number -= moved
        number[:, :-1] += moved[:, 1:]
        change -= moved_change
        change[:, :-1] += moved_change[:, 1:]
    return out.astype(theta.dtype)


def subset_walk(x: Array, k: int) -> tuple[Array, Array]:
    """Logarithms of the sums over subsets of the first i entries, [i, row, number], and shares.

    Those are take[i, row, number] = P(entry i is taken | so many of the first i + 1 are).
    """
    rows, size = x.shape
    forward = np.full((size + 1, rows, k + 1), -np.inf)
    forward[0, :, 0] = 0
    take = np.zeros((size, rows, k + 1))
    for i in range(size):
        taken = forward[i, :, :-1] + x[:, i, None]
        forward[i + 1] = forward[i]
        forward[i + 1, :, 1:] = np.logaddexp(forward[i, :, 1:], taken)
        possible = forward[i + 1, :, 1:] > -np.inf
        odds = np.subtract(taken, forward[i, :, 1:], out=np.zeros_like(taken), where=possible)
        take[i, :, 1:] = np.where(possible, special.expit(odds), 0)
    return forward, take


def _all_taken(x: Array, k: int) -> Array:
    """The end of the walk: k entries of each row are taken."""
    number = np.zeros((len(x), k + 1))
    number[:, k] = 1
    return number
