"""Kernels of attention's backward pass by lists: the same rows are gathered again.

ds = w (dp - c) with w = p^(2 - alpha) and c the mean of dp under w; the forward pass keeps
u = sum_j w_j v_j, so that c = g.u / sum w. Sums over keys to which very many queries attend are of
whole numbers, so that the order in which programs run changes no bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

from maxent.torch.attention import _triton_scores as scores
from maxent.torch.attention._triton_turned import LIGHT, list_of


@triton.jit
def centre_kernel(
    GRAD, MEAN, MASS, CENTRE, GMAX, gb, gh, gn, heads, queries,
    WIDE: tl.constexpr, DV: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """c of every query, and the largest norm of a head's gradients."""
    pair, r, e = tl.program_id(0), tl.program_id(1) * BM + tl.arange(0, BM), tl.arange(0, DV)
    b, h = (pair // heads).to(tl.int64), (pair % heads).to(tl.int64)
    g = scores.load_rows(GRAD + b * gb + h * gh, r, gn, e, queries, WIDE, WIDE == DV)
    g = g.to(tl.float32)
    row = pair.to(tl.int64) * queries + r
    mean = scores.load_rows(
        MEAN + pair.to(tl.int64) * queries * WIDE, r, WIDE, e, queries, WIDE, WIDE == DV
    )
    mass = tl.load(MASS + row, mask=r < queries, other=1.0)
    c = tl.sum(g * mean.to(tl.float32), 1) / tl.where(mass > 0, mass, 1.0)
    tl.store(CENTRE + row, c, mask=r < queries)
    norm = tl.sqrt(tl.sum(g * g, 1))
    tl.atomic_max(GMAX + pair, tl.max(norm.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 0))


@triton.jit
def _entries(
    Q, GRAD, ROOT, CENTRE, LIST, ALPHA, g, n, v, heads, queries,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Some of a key's queries: their places, rows of queries and gradients, p and ds."""
    some = g < n
    entry = tl.load(LIST + g, mask=some, other=0)
    slot, row = entry.to(tl.int32), (entry >> 32).to(tl.int32)
    r = tl.where(some, tl.load(ROOT + slot), 0.0)
    grad = scores.gathered_rows(GRAD, row, WIDE, tl.arange(0, DV), WIDE, DV).to(tl.float32)
    q = scores.gathered_rows(Q, row, WIDTH, tl.arange(0, D), WIDTH, D).to(tl.float32)
    k = 1.0
    if KIND == 0:
        k = 1 / (tl.load(ALPHA + row // queries % heads) - 1)
    p, w = scores.powers(r, k, KIND)
    return slot, q, grad, p, w * (tl.sum(grad * v[None, :], 1) - tl.load(CENTRE + row))


@triton.jit
def columns_kernel(
    Q, V, GRAD, ALPHA, ROOT, CENTRE, LIST, TALLY, DS, DK, DV_OUT,
    vb, vh, vn, heads, shared_heads, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Gradients of one key and its value, from the queries that attend to it, in their order."""
    j, pair = tl.program_id(0), tl.program_id(1)
    row = pair.to(tl.int64) * keys + j
    start, n = list_of(TALLY, row)
    if n <= LIGHT:
        LIST += start
        b, h = (pair // shared_heads).to(tl.int64), (pair % shared_heads).to(tl.int64)
        d, e = tl.arange(0, D), tl.arange(0, DV)
        V += b * vb + h * vh + j.to(tl.int64) * vn
        v = tl.load(V + e, mask=e < WIDE, other=0.0).to(tl.float32)
        dk, dv = tl.zeros((R, D), tl.float32), tl.zeros((R, DV), tl.float32)
        for g0 in range(0, n, G):
            g = g0 + tl.arange(0, G)
            slot, q, grad, p, ds = _entries(
                Q, GRAD, ROOT, CENTRE, LIST, ALPHA, g, n, v, heads, queries,
                WIDTH, D, WIDE, DV, KIND,
            )  # fmt: skip
            tl.store(DS + slot, ds, mask=g < n)
            dv += scores.partial_sums(grad * p[:, None], R)
            dk += scores.partial_sums(q * ds[:, None], R)
        dk, dv = tl.sum(dk, 0), tl.sum(dv, 0)
        tl.store(DK + row * WIDTH + d, (dk * scale).to(DK.dtype.element_ty), mask=d < WIDTH)
        tl.store(DV_OUT + row * WIDE + e, dv.to(DV_OUT.dtype.element_ty), mask=e < WIDE)


@triton.jit
def _units(NORMS, GMAX, pair, all_pairs, shared_heads, heads, queries):
    """Powers of two that make sums of a key's gradients whole numbers below 2^62."""
    group = heads // shared_heads
    first = pair // shared_heads * heads + pair % shared_heads * group
    q, g = 0.0, 0.0
    for x in range(group):
        q = tl.maximum(q, tl.load(NORMS + 2 * all_pairs + first + x).to(tl.float32, bitcast=True))
        g = tl.maximum(g, tl.load(GMAX + first + x).to(tl.float32, bitcast=True))
    v = tl.load(NORMS + all_pairs + pair).to(tl.float32, bitcast=True)
    many = (queries * group).to(tl.float32)
    for_k = tl.floor(61 - tl.log2(tl.maximum(2 * g * v * q * many, 1e-30)))
    for_v = tl.floor(61 - tl.log2(tl.maximum(g * many, 1e-30)))
    return tl.minimum(for_k, 120.0), tl.minimum(for_v, 120.0)


@triton.jit
def shared_columns_kernel(
    Q, V, GRAD, ALPHA, ROOT, CENTRE, LIST, TALLY, DS, SUMS,
    NORMS, GMAX, vb, vh, vn, heads, shared_heads, queries, keys, all_keys,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """A piece of the queries of a key that many attend to: sums of whole numbers, in any order."""
    piece = tl.program_id(0)
    pieces = (tl.load(TALLY + all_keys) >> 32).to(tl.int32)
    while piece < pieces:
        low, high = 0, all_keys - 1  # the first key whose pieces end after this one
        while low < high:
            middle = (low + high) // 2
            after = (tl.load(TALLY + middle + 1) >> 32) > piece
            low, high = tl.where(after, low, middle + 1), tl.where(after, middle, high)
        row = low.to(tl.int64)
        first, n = list_of(TALLY, row)
        own = tl.load(TALLY + row) >> 32  # the first of its pieces
        start = (piece - own.to(tl.int32)) * LIGHT
        pair, j = row // keys, row % keys
        b, h = pair // shared_heads, pair % shared_heads
        d, e = tl.arange(0, D), tl.arange(0, DV)
        v = tl.load(V + b * vb + h * vh + j * vn + e, mask=e < WIDE, other=0.0).to(tl.float32)
        for_k, for_v = _units(NORMS, GMAX, pair, all_keys // keys, shared_heads, heads, queries)
        dk, dv = tl.zeros((D,), tl.int64), tl.zeros((DV,), tl.int64)
        for g0 in range(start, tl.minimum(start + LIGHT, n), G):
            g = g0 + tl.arange(0, G)
            slot, q, grad, p, ds = _entries(
                Q, GRAD, ROOT, CENTRE, LIST + first, ALPHA, g, n, v, heads, queries,
                WIDTH, D, WIDE, DV, KIND,
            )  # fmt: skip
            tl.store(DS + slot, ds, mask=g < n)
            dk += tl.sum((q * ds[:, None] * tl.exp2(for_k)).to(tl.int64), 0)
            dv += tl.sum((grad * p[:, None] * tl.exp2(for_v)).to(tl.int64), 0)
        SUM = SUMS + own * (D + DV)
        tl.atomic_add(SUM + d, dk, sem="relaxed")
        tl.atomic_add(SUM + D + e, dv, sem="relaxed")
        piece += tl.num_programs(0)


@triton.jit
def finish_shared_kernel(
    TALLY, SUMS, NORMS, GMAX, DK, DV_OUT, heads, shared_heads, queries, keys, all_keys,
    scale, WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of such keys from their sums."""
    begin = tl.program_id(0) * BLOCK
    end = tl.minimum(begin + BLOCK, all_keys)
    if (tl.load(TALLY + end) >> 32) > (tl.load(TALLY + begin) >> 32):  # there are pieces
        d, e = tl.arange(0, D), tl.arange(0, DV)
        for x in range(0, end - begin):
            row = begin.to(tl.int64) + x
            _, n = list_of(TALLY, row)
            if n > LIGHT:
                for_k, for_v = _units(
                    NORMS, GMAX, row // keys, all_keys // keys, shared_heads, heads, queries
                )
                SUM = SUMS + (tl.load(TALLY + row) >> 32) * (D + DV)
                dk = tl.load(SUM + d).to(tl.float32) * tl.exp2(-for_k) * scale
                dv = tl.load(SUM + D + e).to(tl.float32) * tl.exp2(-for_v)
                tl.store(DK + row * WIDTH + d, dk.to(DK.dtype.element_ty), mask=d < WIDTH)
                tl.store(DV_OUT + row * WIDE + e, dv.to(DV_OUT.dtype.element_ty), mask=e < WIDE)


@triton.jit
def queries_kernel(
    K, ENDS, COL, ROOT, DS, DQ, BY_ALPHA, kb, kh, kn, heads, group, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, G: tl.constexpr, R: tl.constexpr, LEARNS: tl.constexpr,
):  # fmt: skip
    """The gradient of a query: the rows of its keys times ds. And a^2 times what alpha gets."""
    i, pair = tl.program_id(0), tl.program_id(1)
    b, h, d = pair // heads, pair % heads, tl.arange(0, D)
    row = pair.to(tl.int64) * queries + i
    start = tl.load(ENDS + row)
    n = (tl.load(ENDS + row + 1) - start).to(tl.int32)
    K += b.to(tl.int64) * kb + (h // group).to(tl.int64) * kh
    dq, by_alpha = tl.zeros((R, D), tl.float32), 0.0
    for g0 in range(0, n, G):
        g = g0 + tl.arange(0, G)
        some = g < n
        r = tl.load(ROOT + start + g, mask=some, other=0.0)
        j = tl.load(COL + start + g, mask=some, other=0)
        ds = tl.where(r > 0, tl.load(DS + start + g, mask=some, other=0.0), 0.0)
        dq += scores.partial_sums(
            scores.gathered_rows(K, j, kn, d, WIDTH, D).to(tl.float32) * ds[:, None], R
        )
        if LEARNS:
            by_alpha -= tl.sum(scores.moved_by_alpha(r) * ds, 0)
    dq = tl.sum(dq, 0) * scale
    tl.store(DQ + row * WIDTH + d, dq.to(DQ.dtype.element_ty), mask=d < WIDTH)
    if LEARNS:
        tl.store(BY_ALPHA + row, by_alpha)
