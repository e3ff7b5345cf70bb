"""What the kernels of attention have in common: scores of tiles, what rows see, powers."""

from __future__ import annotations

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def powers(r, k, KIND: tl.constexpr):
    """r^k and r^(k - 1) of r >= 0; 0 at 0."""
    if KIND == 2:
        return r * r, r
    if KIND == 1:
        return r, tl.where(r > 0, 1.0, 0.0)
    log = tl.log2(tl.where(r > 0, r, 1.0))
    return tl.where(r > 0, tl.exp2(k * log), 0.0), tl.where(r > 0, tl.exp2((k - 1) * log), 0.0)


@triton.jit
def newton_step(mass, slope, k, KIND: tl.constexpr):
    """Newton's step on the k-norm of r, which never passes the threshold from below."""
    if KIND == 1:
        step = (mass - 1) / slope
    elif KIND == 2:
        norm = tl.sqrt(mass)
        step = (mass - 1) * norm / ((1 + norm) * slope)
    else:
        step = (1 - tl.exp2(-tl.log2(tl.maximum(mass, 1e-30)) / k)) * mass / slope
    return tl.where(slope > 0, step, 0.0)


@triton.jit
def load_rows(X, at, stride, d, n, WIDTH: tl.constexpr, EVEN: tl.constexpr):
    """Rows of a matrix, zeros beyond its ends."""
    keep = (at < n)[:, None]
    if not EVEN:
        keep = keep & (d < WIDTH)[None, :]
    return tl.load(X + at.to(tl.int64)[:, None] * stride + d[None, :], mask=keep, other=0.0)


@triton.jit
def rounded(x):
    """For a product that need not be exact: float32 to bfloat16, which the interpreter lacks."""
    if INTERPRETED:
        return x.to(tl.float32)
    return x.to(tl.bfloat16) if x.dtype == tl.float32 else x


@triton.jit
def turned_tile(
    X, s0, c, d, stride, n, WIDTH: tl.constexpr, EVEN: tl.constexpr, EDGE: tl.constexpr
):
    """Rows s0 + c of a matrix as columns."""
    where = X + (s0 + c).to(tl.int64)[None, :] * stride + d[:, None]
    if EDGE:
        keep = (s0 + c < n)[None, :]
        if not EVEN:
            keep = keep & (d < WIDTH)[:, None]
        return tl.load(where, mask=keep, other=0.0)
    if EVEN:
        return tl.load(where)
    return tl.load(where, mask=(d < WIDTH)[:, None], other=0.0)


@triton.jit
def limited(
    s, s0, r, c, slope, first, stop, SLOPED: tl.constexpr, EDGE: tl.constexpr
):  # fmt: skip
    """Products less the slope's share; at an edge -inf where a query does not see a key."""
    j = (s0 + c)[None, :]
    if SLOPED:
        s -= slope * tl.abs(r[:, None] - j).to(tl.float32)
    if EDGE:
        s = tl.where((j >= first[:, None]) & (j < stop[:, None]), s, float("-inf"))
    return s


@triton.jit
def seen(FIRST, STOP, b, r, queries, keys, SPANS: tl.constexpr, BN: tl.constexpr):
    """What rows see, and the tiles that some of them, and all of them, see."""
    if SPANS:
        at = b.to(tl.int64) * queries + tl.minimum(r, queries - 1)
        first, stop = tl.load(FIRST + at), tl.minimum(tl.load(STOP + at), keys)
    else:
        first, stop = tl.zeros_like(r), tl.zeros_like(r) + keys
    begin = tl.maximum(tl.min(first, 0), 0) // BN * BN
    end = tl.max(stop, 0)
    whole = tl.minimum(tl.cdiv(tl.max(first, 0), BN) * BN, tl.cdiv(end, BN) * BN)
    whole = tl.maximum(whole, begin)
    after = tl.maximum(tl.min(stop, 0) // BN * BN, whole)
    return first, stop, begin, whole, after, end


@triton.jit
def part_of(begin, whole, after, end, PART: tl.constexpr):
    """Where the tiles of a part begin and end: those before, among and after the whole ones."""
    if PART == 0:
        return begin, whole
    if PART == 1:
        return whole, after
    return after, end


@triton.jit
def moved_by_alpha(r):
    """1 - r + r log r: a^2 w times it, less its mean under w, is how p moves with alpha."""
    m = -tl.log(tl.where(r > 0, r, 1.0))
    near = tl.exp(-m) * m * m * (0.5 + m * (1 / 6 + m * (1 / 24 + m / 120)))
    return tl.where(m < 0.1, near, 1 - r * (1 + m))


@triton.jit
def gathered_rows(X, at, stride, d, WIDTH: tl.constexpr, D: tl.constexpr):
    """Rows of a matrix: all of them are there."""
    where = X + at.to(tl.int64)[:, None] * stride + d[None, :]
    return tl.load(where) if WIDTH == D else tl.load(where, mask=(d < WIDTH)[None, :], other=0.0)


@triton.jit
def partial_sums(x, R: tl.constexpr):
    """Sums of every R-th row: those that one thread holds, so that none waits for another."""
    return tl.sum(tl.reshape(x, (x.shape[0] // R, R, x.shape[1])), 0)
