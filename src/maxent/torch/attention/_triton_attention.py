"""Exact sparse attention as Triton kernels, 1 < alpha <= 2.

With z = (alpha - 1) scale q.k the weights are p = (z - tau)_+^k, k = 1 / (alpha - 1).

1. ``_bound``: a pass over the keys keeps for each query the largest score at each place of the
   tile. The threshold of these heads is below that of all scores, as that of some always is.
2. ``_mark``: a second pass marks the scores above the bound, less what rounding can do: the
   candidates, few more than the support. Words of marks are kept where a bit is set.
3. ``_attend``: scores of candidates in float32, the threshold by Newton's steps from the bound,
   which never pass it, and the values' rows.
4. Backward gathers the same rows: ds = w (dp - c) with w = p^(2 - alpha) and c the mean of dp under
   w. The forward pass keeps u = sum_j w_j v_j, so that c = g.u / sum w. The lists are turned by
   counting in blocks of queries; those of keys are put in order before they are summed, and sums
   over very long ones are of whole numbers, so that the order in which programs run changes no bit.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache, partial

import triton
import triton.language as tl

import torch
from maxent.torch.attention import _plain_attention, _triton_tiles
from maxent.torch.attention import _triton_scores as scores
from maxent.torch.attention._kept import Kept, room
from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.maps._launching import Plan

_ROWS = 128  # queries of a tile
_KEYS = tl.constexpr(128)  # keys of a tile of marks: four words of 32 bits
_HEADS = 64  # keys of a tile of heads
_HELD = 1 << 27  # bytes of marked words held at a time
_EXPECTED = 32  # candidates of a query for which there is room at first
_WORDS = 16  # marked words of a query held at first in each of four lists
_KEPT = 64  # candidates of a query held in registers
_BLOCKS = tl.constexpr(32)  # of the queries that share a head of keys: each counts a key's alone
_LIGHT = tl.constexpr(512)  # queries of a key beyond which several programs share them
_SHORT = 4096  # keys up to which tiles are faster: no lists to wait for
_SHORT_POWERS = 1024  # where every weight of a tile needs a logarithm
_DENSE = 160  # candidates of a query, on average, from which on tiles are faster
_BAD = tl.constexpr(2147483647)  # stands for the candidates of a query with NaN or inf
_STEPS = 24
_PROGRAMS = 1024  # that share the pieces of long lists
_TYPES = (torch.float16, torch.bfloat16, torch.float32)
_WIDEST = 256
_MOST_SHAPES = 1024
_shapes = {}  # of calls, by what their kernels are compiled for


# whole numbers that differ between launches of the same shapes
_VARYING = ("head0", "tile0", "tile1", "row0", "marked_rows", "held", "entries")


# -- forward ---------------------------------------------------------------------------------------


@triton.jit
def _norms(
    K, V, NORMS, kb, kh, kn, vb, vh, vn, heads, keys,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The largest norms of heads' keys, then of values, NaN if any is; as bits, which sort."""
    pair, b = tl.program_id(0), tl.program_id(0) // heads
    h = pair % heads
    at = tl.program_id(1) * BN + tl.arange(0, BN)
    k = scores.load_rows(
        K + b.to(tl.int64) * kb + h.to(tl.int64) * kh, at, kn, tl.arange(0, D), keys, WIDTH, False
    ).to(tl.float32)
    v = scores.load_rows(
        V + b.to(tl.int64) * vb + h.to(tl.int64) * vh, at, vn, tl.arange(0, DV), keys, WIDE, False
    ).to(tl.float32)
    k, v = tl.sqrt(tl.sum(k * k, 1)), tl.sqrt(tl.sum(v * v, 1))
    tl.atomic_max(NORMS + pair, tl.max(k.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 0))
    NORMS += tl.num_programs(0)
    tl.atomic_max(NORMS + pair, tl.max(v.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 0))


@triton.jit
def _bound(
    Q, K, FIRST, STOP, ALPHA, SLOPES, NORMS, TAU, qb, qh, qn, kb, kh, kn, b_span,
    heads, group, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    SPANS: tl.constexpr, SLOPED: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """A lower bound of every threshold, from the largest score at each place of a tile."""
    pair, m = tl.program_id(0), tl.num_programs(1) - 1 - tl.program_id(1)
    b, h = pair // heads, pair % heads
    EVEN: tl.constexpr = WIDTH == D
    r, d, c = m * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    q = scores.load_rows(
        Q + b.to(tl.int64) * qb + h.to(tl.int64) * qh, r, qn, d, queries, WIDTH, EVEN
    )
    K += b.to(tl.int64) * kb + (h // group).to(tl.int64) * kh
    a = tl.load(ALPHA + h) - 1
    wide = q.to(tl.float32)
    norm = tl.sqrt(tl.sum(wide * wide, 1))
    shared = tl.num_programs(0) // group
    tl.atomic_max(
        NORMS + 2 * shared + pair, tl.max(norm.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 0)
    )
    # |rounding| <= |q| |k| times this: sums of products, and operands where they are rounded
    slack: tl.constexpr = D * 2.0**-22 + (2.0**-7 if q.dtype == tl.float32 else 0.0)
    q = scores.rounded(q)
    slope = 0.0
    if SLOPED:
        slope = tl.load(SLOPES + h) / scale
    first, stop, begin, whole, after, end = scores.seen(
        FIRST, STOP, b * b_span, r, queries, keys, SPANS, BN
    )
    heads_of = tl.full((BM, BN), float("-inf"), tl.float32)
    for part in tl.static_range(3):
        if SPANS or part > 0:
            low, high = scores.part_of(begin, whole, after, end, part)
            for s0 in range(low, high, BN):
                k = scores.turned_tile(K, s0, c, d, kn, keys, WIDTH, EVEN, part != 1)
                s = tl.dot(q, scores.rounded(k))
                s = scores.limited(s, s0, r, c, slope, first, stop, SLOPED, part != 1)
                heads_of = tl.maximum(heads_of, s)
    z = heads_of * (scale * a)
    top = tl.max(z, 1)
    tau = tl.where(top > float("-inf"), top - 1, 0.0)
    for _ in range(6):
        mass, slopes = scores.powers(tl.maximum(z - tau[:, None], 0.0), 1 / a, KIND)
        tau += scores.newton_step(tl.sum(mass, 1), tl.sum(slopes, 1), 1 / a, KIND)
    reach = norm * tl.load(NORMS + pair // heads * (heads // group) + h // group).to(
        tl.float32, bitcast=True
    )
    if SLOPED:
        reach += tl.abs(slope) * keys
    margin = 2 * slack * reach * (scale * a) + 2e-6
    tau = tl.where(top > float("-inf"), tau - margin, float("inf"))
    # NaN or inf among the numbers, or an alpha that is not for these kernels
    limit = tl.where(a > 0, tl.where(a <= 1, 1e30, -1.0), -1.0)
    tau = tl.where(margin < limit, tau, float("nan"))
    tl.store(TAU + pair.to(tl.int64) * queries + r, tau, mask=r < queries)


@triton.jit
def _packed(hit, BM: tl.constexpr):
    """128 marks of a row as four words: a thread packs what it holds, so columns are permuted."""
    c = tl.arange(0, _KEYS)
    w = tl.where(hit, (1 << (2 * (c // 8 % 16) + c % 2))[None, :], 0)
    w = tl.permute(tl.reshape(w, (BM, 16, 4, 2)), (0, 2, 1, 3))
    return tl.sum(tl.reshape(w, (BM, 4, 32)), 2)


@triton.jit
def _ones(w):
    """How many bits of a word are set."""
    if scores.INTERPRETED:
        n = w - ((w >> 1) & 0x55555555)
        n = (n & 0x33333333) + ((n >> 2) & 0x33333333)
        n = (n + (n >> 4)) & 0x0F0F0F0F
        return ((n * 0x01010101) >> 24) & 0x3F
    return tl.inline_asm_elementwise(
        "popc.b32 $0, $1;", "=r,r", [w], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def _put(WORDS, used, w, tile, held):
    """Add the words of a tile to their lists where a bit is set, and room left.

    From where the words are: Triton's own store would move them to other threads first.
    """
    some = w != 0
    word = ((tl.zeros_like(w) + tile).to(tl.int64) << 32) | (w.to(tl.int64) & 0xFFFFFFFF)
    to = WORDS + 4 * used
    if scores.INTERPRETED:
        tl.store(to, word, mask=some & (used < held))
    else:
        tl.inline_asm_elementwise(
            "{ .reg .pred p; setp.ne.s32 p, $3, 0; @p st.global.b64 [$1], $2; mov.b32 $0, 0; }",
            "=r,l,l,r", [to.to(tl.int64), word, (some & (used < held)).to(tl.int32)],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
    return used + some.to(tl.int32)


@triton.jit(do_not_specialize=_VARYING)
def _mark(
    Q, K, FIRST, STOP, ALPHA, SLOPES, TAU, WORDS, COUNT, USED, MOST, qb, qh, qn, kb, kh, kn, b_span,
    head0, tile0, tile1, held, heads, group, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
    SPANS: tl.constexpr, SLOPED: tl.constexpr,
):  # fmt: skip
    """Words with the bits of scores above the bound, in four lists for each query.

    Each has the number of its tile above it. How many bits and words there are is right where not
    all words could be held.
    """
    pair, m = head0 + tl.program_id(0), tile1 - 1 - tl.program_id(1)
    b, h = pair // heads, pair % heads
    EVEN: tl.constexpr = WIDTH == D
    r, d, c, y = m * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, _KEYS), tl.arange(0, 4)
    q = scores.load_rows(
        Q + b.to(tl.int64) * qb + h.to(tl.int64) * qh, r, qn, d, queries, WIDTH, EVEN
    )
    q = scores.rounded(q)
    K += b.to(tl.int64) * kb + (h // group).to(tl.int64) * kh
    row = pair.to(tl.int64) * queries + r
    bound = tl.load(TAU + row, mask=r < queries, other=float("inf"))
    tau = bound / (scale * (tl.load(ALPHA + h) - 1))
    slope = 0.0
    if SLOPED:
        slope = tl.load(SLOPES + h) / scale
    first, stop, begin, whole, after, end = scores.seen(
        FIRST, STOP, b * b_span, r, queries, keys, SPANS, _KEYS
    )
    local = tl.program_id(0).to(tl.int64) * (tile1 - tile0) * BM + (r - tile0 * BM)
    WORDS += local[:, None] * (4 * held) + y[None, :]
    count, used = tl.zeros((BM, 4), tl.int32), tl.zeros((BM, 4), tl.int32)
    w, tile = tl.zeros((BM, 4), tl.int32), 0
    for part in tl.static_range(3):
        if SPANS or part > 0:
            low, high = scores.part_of(begin, whole, after, end, part)
            for s0 in range(low, high, _KEYS):
                k = scores.turned_tile(K, s0, c, d, kn, keys, WIDTH, EVEN, part != 1)
                s = tl.dot(q, scores.rounded(k))
                # words of the tile before: there is time until the next tile waits for stores
                used = _put(WORDS, used, w, tile, held)
                s = scores.limited(s, s0, r, c, slope, first, stop, SLOPED, part != 1)
                w, tile = _packed(s > tau[:, None], BM), s0 // _KEYS
                count += _ones(w)
    used = _put(WORDS, used, w, tile, held)
    total = tl.where(bound == bound, tl.sum(count, 1), _BAD)
    tl.store(COUNT + row, total, mask=r < queries)
    tl.store(USED + local[:, None] * 4 + y[None, :], used)
    tl.atomic_max(MOST, tl.max(tl.max(used, 1), 0).to(tl.int64))


@triton.jit
def _keys_of_marks(WORDS, USED, COL, ROOT, held, n):
    """Write the n keys of a query's marked words; none where not all words are there."""
    x = tl.arange(0, 32)
    y = x % 4
    used = tl.load(USED + y)
    most = tl.max(used, 0)
    if most > held:
        for x0 in range(0, n, 32):
            tl.store(ROOT + x0 + x, 0.0, mask=x0 + x < n)
        n = 0
    if n == 0:
        most = 0
    done = 0
    for x0 in range(0, most, 8):
        at = x0 + x // 4
        word = tl.load(WORDS + 4 * at + y, mask=at < used, other=0)
        first = (word >> 32).to(tl.int32) * 128 + 2 * y
        w = word.to(tl.int32)
        ones = _ones(w)
        to = done + tl.cumsum(ones, 0) - ones
        for _ in range(tl.max(ones, 0)):
            bit = _ones((w & -w) - 1)  # the lowest
            tl.store(COL + to, first + bit // 2 * 8 + bit % 2, mask=w != 0)
            to += (w != 0).to(tl.int32)
            w = w & (w - 1)
        done += tl.sum(ones, 0)
    return n


@triton.jit
def _gathered(X, at, stride, d, WIDTH: tl.constexpr, D: tl.constexpr):
    """Rows of a matrix: all of them are there."""
    where = X + at.to(tl.int64)[:, None] * stride + d[None, :]
    return tl.load(where) if WIDTH == D else tl.load(where, mask=(d < WIDTH)[None, :], other=0.0)


@triton.jit
def _partly(x, R: tl.constexpr):
    """Sums of every R-th row: those that one thread holds, so that none waits for another."""
    return tl.sum(tl.reshape(x, (x.shape[0] // R, R, x.shape[1])), 0)


@triton.jit(do_not_specialize=_VARYING)
def _attend(
    Q, K, V, ALPHA, SLOPES, TAU, WORDS, USED, ENDS, COL, ROOT, PLACE, COUNTS,
    OUT, MEAN, MASS, qb, qh, qn, kb, kh, kn, vb, vh, vn,
    head0, row0, marked_rows, held, entries, heads, group, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    KEPT: tl.constexpr, G: tl.constexpr, R: tl.constexpr, STEPS: tl.constexpr,
    SLOPED: tl.constexpr, KIND: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """One query: its candidates' scores, threshold and output, and what backward needs."""
    i, pair = row0 + tl.program_id(0), head0 + tl.program_id(1)
    b, h = pair // heads, pair % heads
    row = pair.to(tl.int64) * queries + i
    start = tl.load(ENDS + row)
    n = (tl.load(ENDS + row + 1) - start).to(tl.int32)
    COL += start
    ROOT += start
    PLACE += start
    marked = tl.program_id(1).to(tl.int64) * marked_rows + tl.program_id(0)
    n = _keys_of_marks(
        WORDS + marked * (4 * held), USED + marked * 4, COL, ROOT, held,
        tl.where(start + n <= entries, n, 0),
    )  # fmt: skip
    tl.debug_barrier()
    d, e, x = tl.arange(0, D), tl.arange(0, DV), tl.arange(0, KEPT)
    a = tl.load(ALPHA + h) - 1
    k = 1 / a
    Q += b.to(tl.int64) * qb + h.to(tl.int64) * qh + i.to(tl.int64) * qn
    K += b.to(tl.int64) * kb + (h // group).to(tl.int64) * kh
    V += b.to(tl.int64) * vb + (h // group).to(tl.int64) * vh
    q = tl.load(Q + d, mask=d < WIDTH, other=0.0).to(tl.float32)
    slope = 0.0
    if SLOPED:
        slope = tl.load(SLOPES + h) * a
    for g0 in range(0, n, G):
        g = g0 + tl.arange(0, G)
        j = tl.load(COL + g, mask=g < n, other=0)
        z = tl.sum(_gathered(K, j, kn, d, WIDTH, D).to(tl.float32) * q[None, :], 1)
        z *= scale * a
        if SLOPED:
            z -= slope * tl.abs(i - j).to(tl.float32)
        tl.store(ROOT + g, z, mask=g < n)
    tl.debug_barrier()
    tau = tl.load(TAU + row)
    z = tl.load(ROOT + x, mask=x < n, other=float("-inf"))
    step = tl.where(n > 0, 1.0, 0.0)
    steps = 0
    while (step > 1e-7 * (1 + tl.abs(tau))) & (steps < STEPS):
        mass, slopes = scores.powers(tl.maximum(z - tau, 0.0), k, KIND)
        total, weight = tl.sum(mass, 0), tl.sum(slopes, 0)
        for x0 in range(KEPT, n, KEPT):
            more = tl.load(ROOT + x0 + x, mask=x0 + x < n, other=float("-inf"))
            mass, slopes = scores.powers(tl.maximum(more - tau, 0.0), k, KIND)
            total += tl.sum(mass, 0)
            weight += tl.sum(slopes, 0)
        step = scores.newton_step(total, weight, k, KIND)
        tau += tl.maximum(step, 0.0)
        steps += 1
    total, weight = 0.0, 0.0
    COUNTS += (b * (heads // group) + h // group).to(tl.int64) * keys * _BLOCKS
    COUNTS += 1 + (h % group * queries + i) // tl.cdiv(group * queries, _BLOCKS)  # after a zero
    for x0 in range(0, n, KEPT):
        some = x0 + x < n
        r = tl.maximum(tl.load(ROOT + x0 + x, mask=some, other=float("-inf")) - tau, 0.0)
        mass, slopes = scores.powers(r, k, KIND)
        total += tl.sum(mass, 0)
        weight += tl.sum(slopes, 0)
        tl.store(ROOT + x0 + x, r, mask=some)
        if KEEP:
            j = tl.load(COL + x0 + x, mask=some, other=0)
            place = tl.atomic_add(COUNTS + j * _BLOCKS, 1, mask=some & (r > 0), sem="relaxed")
            tl.store(PLACE + x0 + x, place, mask=some)
    tl.debug_barrier()
    out, mean = tl.zeros((R, DV), tl.float32), tl.zeros((R, DV), tl.float32)
    for g0 in range(0, n, G):
        g = g0 + tl.arange(0, G)
        r = tl.load(ROOT + g, mask=g < n, other=0.0)
        j = tl.load(COL + g, mask=g < n, other=0)
        v = _gathered(V, j, vn, e, WIDE, DV).to(tl.float32)
        mass, slopes = scores.powers(r, k, KIND)
        out += _partly(v * mass[:, None], R)
        if KEEP:
            mean += _partly(v * slopes[:, None], R)
    at = row * WIDE + e
    out, mean = tl.sum(out, 0) / tl.maximum(total, 1e-30), tl.sum(mean, 0)
    tl.store(OUT + at, out.to(OUT.dtype.element_ty), mask=e < WIDE)
    if KEEP:
        tl.store(MEAN + at, mean.to(MEAN.dtype.element_ty), mask=e < WIDE)
        tl.store(MASS + row, weight)


@triton.jit
def _tally(BEGINS, TALLY, all_keys, BLOCK: tl.constexpr):
    """What is summed along the keys: queries, and in the upper half the pieces of long lists."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n = _many(BEGINS, at, at < all_keys)
    pieces = tl.where(n > _LIGHT, (n + _LIGHT - 1) // _LIGHT, 0)
    tl.store(TALLY + 1 + at, (pieces.to(tl.int64) << 32) + n, mask=at < all_keys)
    tl.store(TALLY + at, tl.zeros_like(at), mask=at == 0)


@triton.jit
def _many(BEGINS, key, some):
    """The queries of a key."""
    BEGINS += key * _BLOCKS
    return tl.load(BEGINS + _BLOCKS, mask=some, other=0) - tl.load(BEGINS, mask=some, other=0)


@triton.jit
def _list_of(TALLY, key):
    """Where the list of a key begins, and how long it is."""
    start, end = tl.load(TALLY + key) & 0xFFFFFFFF, tl.load(TALLY + key + 1) & 0xFFFFFFFF
    return start, (end - start).to(tl.int32)


@triton.jit
def _rows_of_some(CROW, entries, heads, group, queries, keys, BLOCK: tl.constexpr):
    """Some queries: rows, where their lists begin and end, first keys, blocks for counting."""
    pair, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = pair.to(tl.int64) * queries + i
    start = tl.load(CROW + row, mask=i < queries, other=0)
    stop = tl.load(CROW + row + 1, mask=i < queries, other=0)
    stop = tl.where(stop <= entries, stop, start)
    first = (pair // heads * (heads // group) + pair % heads // group).to(tl.int64) * keys
    block = (pair % heads % group * queries + i) // tl.cdiv(group * queries, _BLOCKS)
    return row, start, stop, first, block


@triton.jit(do_not_specialize=_VARYING)
def _turn(
    CROW, COL, ROOT, PLACE, BEGINS, LIST, entries, heads, group, queries, keys,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Entries of some queries go to the lists of their keys: slots, rows in the upper half.

    In any order, but those of one block of queries before those of the next.
    """
    row, start, stop, first, block = _rows_of_some(
        CROW, entries, heads, group, queries, keys, BLOCK
    )
    for x0 in range(0, tl.max((stop - start).to(tl.int32), 0), 32):
        slot = start[:, None] + x0 + tl.arange(0, 32)[None, :]
        some = slot < stop[:, None]
        some = some & (tl.load(ROOT + slot, mask=some, other=0.0) > 0)
        key = first + tl.load(COL + slot, mask=some, other=0)
        at = tl.load(BEGINS + key * _BLOCKS + block[:, None], mask=some, other=0)
        at += tl.load(PLACE + slot, mask=some, other=0)
        tl.store(LIST + at, (row << 32)[:, None] | slot, mask=some)


@triton.jit(do_not_specialize=_VARYING)
def _order(
    CROW, COL, ROOT, PLACE, BEGINS, LIST, ORDERED, entries, heads, group, queries, keys,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Entries of some queries at their ranks in the lists of their keys; long ones as they are."""
    row, start, stop, first, block = _rows_of_some(
        CROW, entries, heads, group, queries, keys, BLOCK
    )
    for x0 in range(0, tl.max((stop - start).to(tl.int32), 0), 32):
        slot = start[:, None] + x0 + tl.arange(0, 32)[None, :]
        some = slot < stop[:, None]
        some = some & (tl.load(ROOT + slot, mask=some, other=0.0) > 0)
        key = first + tl.load(COL + slot, mask=some, other=0)
        at = key * _BLOCKS + block[:, None]
        begin = tl.load(BEGINS + at, mask=some, other=0)
        n = tl.load(BEGINS + at + 1, mask=some, other=0) - begin  # of the block alone
        long = _many(BEGINS, key, some & (n > _LIGHT // _BLOCKS)) > _LIGHT
        n = tl.where(long, 0, n)
        one, rank = (row << 32)[:, None] | slot, tl.zeros_like(n)
        for y in range(0, tl.max(tl.max(n, 1), 0)):
            other = tl.load(LIST + begin + y, mask=y < n, other=1 << 62)
            rank += (other < one).to(tl.int32)
        place = tl.load(PLACE + slot, mask=some & long, other=0)
        tl.store(ORDERED + begin + tl.where(long, place, rank), one, mask=some)


# -- backward --------------------------------------------------------------------------------------


@triton.jit
def _centre(
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
    grad = _gathered(GRAD, row, WIDE, tl.arange(0, DV), WIDE, DV).to(tl.float32)
    q = _gathered(Q, row, WIDTH, tl.arange(0, D), WIDTH, D).to(tl.float32)
    k = 1.0
    if KIND == 0:
        k = 1 / (tl.load(ALPHA + row // queries % heads) - 1)
    p, w = scores.powers(r, k, KIND)
    return slot, q, grad, p, w * (tl.sum(grad * v[None, :], 1) - tl.load(CENTRE + row))


@triton.jit
def _columns(
    Q, V, GRAD, ALPHA, ROOT, CENTRE, LIST, TALLY, DS, DK, DV_OUT,
    vb, vh, vn, heads, shared_heads, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Gradients of one key and its value, from the queries that attend to it, in their order."""
    j, pair = tl.program_id(0), tl.program_id(1)
    row = pair.to(tl.int64) * keys + j
    start, n = _list_of(TALLY, row)
    if n <= _LIGHT:
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
            dv += _partly(grad * p[:, None], R)
            dk += _partly(q * ds[:, None], R)
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
def _shared_columns(
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
        first, n = _list_of(TALLY, row)
        own = tl.load(TALLY + row) >> 32  # the first of its pieces
        start = (piece - own.to(tl.int32)) * _LIGHT
        pair, j = row // keys, row % keys
        b, h = pair // shared_heads, pair % shared_heads
        d, e = tl.arange(0, D), tl.arange(0, DV)
        v = tl.load(V + b * vb + h * vh + j * vn + e, mask=e < WIDE, other=0.0).to(tl.float32)
        for_k, for_v = _units(NORMS, GMAX, pair, all_keys // keys, shared_heads, heads, queries)
        dk, dv = tl.zeros((D,), tl.int64), tl.zeros((DV,), tl.int64)
        for g0 in range(start, tl.minimum(start + _LIGHT, n), G):
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
def _finish_shared(
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
            _, n = _list_of(TALLY, row)
            if n > _LIGHT:
                for_k, for_v = _units(
                    NORMS, GMAX, row // keys, all_keys // keys, shared_heads, heads, queries
                )
                SUM = SUMS + (tl.load(TALLY + row) >> 32) * (D + DV)
                dk = tl.load(SUM + d).to(tl.float32) * tl.exp2(-for_k) * scale
                dv = tl.load(SUM + D + e).to(tl.float32) * tl.exp2(-for_v)
                tl.store(DK + row * WIDTH + d, dk.to(DK.dtype.element_ty), mask=d < WIDTH)
                tl.store(DV_OUT + row * WIDE + e, dv.to(DV_OUT.dtype.element_ty), mask=e < WIDE)


@triton.jit
def _queries(
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
        dq += _partly(_gathered(K, j, kn, d, WIDTH, D).to(tl.float32) * ds[:, None], R)
        if LEARNS:
            by_alpha -= tl.sum(scores.moved_by_alpha(r) * ds, 0)
    dq = tl.sum(dq, 0) * scale
    tl.store(DQ + row * WIDTH + d, dq.to(DQ.dtype.element_ty), mask=d < WIDTH)
    if LEARNS:
        tl.store(BY_ALPHA + row, by_alpha)


# -- what is launched ------------------------------------------------------------------------------


def takes(given):
    """Whether these kernels are for these tensors; a look at an alpha would wait for the device."""
    q, v = given.query, given.value
    small = max(q.shape[3], v.shape[3]) <= _WIDEST and q.shape[:3].numel() < 1 << 31
    alpha = given.alpha
    right = isinstance(alpha, torch.Tensor) or 1 < alpha <= 2
    return q.dtype in _TYPES and small and right and given.bias is None and given.scale > 0


class _Shape(Plan):
    """Sizes, constants and compiled kernels for tensors of the same shapes and kinds."""

    def __init__(self, given):
        super().__init__()
        self.batch, self.heads, self.queries, width = given.query.shape
        self.shared, self.keys = given.key.shape[1:3]
        self.group, self.wide = given.group, given.value.shape[3]
        self.pairs, self.shared_pairs = self.batch * self.heads, self.batch * self.shared
        self.all_keys = self.shared_pairs * self.keys
        self.held = _WORDS  # grows where a query needs more
        self.entries = _EXPECTED * self.pairs * self.queries  # follows what was needed
        self.crowded = False  # whether there were too many the last time
        self.sizes = self.heads, self.group, self.queries, self.keys
        self.b_span = int(given.first is not None and len(given.first) > 1)
        alpha = 0.0 if isinstance(given.alpha, torch.Tensor) else given.alpha
        widths = {"WIDTH": width, "D": _padded(width)}
        self.wides = {"WIDE": self.wide, "DV": _padded(self.wide)}
        self.both = widths | self.wides
        self.learns = isinstance(given.alpha, torch.Tensor)
        self.seen = {"SPANS": given.first is not None, "SLOPED": given.slopes is not None}
        self.kind = {"KIND": {1.5: 2, 2.0: 1}.get(alpha, 0)}
        seen, kind = self.seen, self.kind
        most = max(widths["D"], self.wides["DV"])
        of_a_load = 32 * 16 // (most * given.query.element_size())  # 16 bytes for each thread
        gathered = {"G": 8 if most > 64 else 16, "R": max(of_a_load, 1)}
        self.warps = 8 if seen["SPANS"] else 4
        self.bound = widths | {"BM": _ROWS, "BN": _HEADS} | seen | kind
        self.mark = widths | {"BM": _ROWS} | seen
        kept = {"KEPT": _KEPT, "STEPS": _STEPS, "KEEP": given.keeps}
        sloped = {"SLOPED": seen["SLOPED"]}
        self.attend = self.both | kept | gathered | sloped | kind
        self.columns = self.both | gathered | kind
        self.by_query = widths | gathered | {"LEARNS": self.learns}
        self.centre = self.wides | {"BM": 16}
        self.norms = self.both | {"BN": 64}
        self.finish = self.both | {"BLOCK": 64}
        self.tiles = _triton_tiles.settings(self, given.query.dtype, given.keeps)

    def chunks(self, held):
        """Heads and tiles of queries whose marks are held at a time, in the order of rows."""
        tiles = _blocks(self.queries, _ROWS)
        most = max(_HELD // (_ROWS * held * 32), 1)  # tiles
        if tiles <= most:
            step = most // tiles
            return [(a, min(a + step, self.pairs), 0, tiles) for a in range(0, self.pairs, step)]
        cuts = range(0, tiles, most)
        return [(a, a + 1, b, min(b + most, tiles)) for a in range(self.pairs) for b in cuts]


def _blocks(number, size):
    return -(-number // size)


def _padded(width):
    return max(1 << (width - 1).bit_length(), 16)


def _changed_by_tests():
    """Settings that differ from call to call in the interpreter alone."""
    if not scores.INTERPRETED.value:
        return ()
    return _ROWS, _HEADS, _KEPT, _HELD, _EXPECTED, _WORDS, _BLOCKS.value, _LIGHT.value


def _shape_of(given, *tensors):
    """The shape of a call: one for all of the same kind."""
    alpha, first = given.alpha, given.first
    learns = isinstance(alpha, torch.Tensor)
    key = (
        alpha if not learns and alpha in (1.5, 2.0) else 0.0, learns,
        0 if first is None else first.shape[0], given.slopes is None, given.keeps,
        tensors[0].dtype, tensors[0].get_device(),
        *[(x.shape, x.stride(), x.data_ptr() & 15) for x in tensors],
        *_changed_by_tests(),
    )  # fmt: skip
    known = _shapes.get(key)
    if known is None:
        if len(_shapes) > _MOST_SHAPES:
            _shapes.clear()
        known = _shapes[key] = _Shape(given)
    return known


def rows_last(x):
    """Rows without gaps between their numbers."""
    return x if x.stride(-1) == 1 else x.contiguous()


@lru_cache(maxsize=256)
def _known_alphas(alpha, heads, device):
    """Nothing writes to them."""
    return torch.full((heads,), alpha, dtype=torch.float32, device=device)


def _limits(given):
    """What a query sees, alphas and slopes; the last are tensors of their own: they are aligned."""
    if isinstance(given.alpha, torch.Tensor):
        alphas = given.alphas()
        alphas = alphas.clone() if alphas.data_ptr() & 15 else alphas
    else:
        alphas = _known_alphas(given.alpha, given.query.shape[1], given.query.device)
    slopes = alphas if given.slopes is None else given.slopes.detach().float()
    slopes = slopes.clone() if slopes.data_ptr() & 15 else slopes
    spans = (alphas, alphas) if given.first is None else (given.first, given.stop)
    return *spans, alphas, slopes


def _in_range(alpha):
    """Whether alphas that learn are for these kernels; this waits for the device."""
    return not isinstance(alpha, torch.Tensor) or bool(((alpha > 1) & (alpha <= 2)).all())


def forward(given):
    """The output, and lists or, on short sequences and where supports are wide, what tiles keep.

    Tiles are also for numbers that are not finite.
    """
    if not _in_range(given.alpha):
        return _plain_attention.forward(given)
    q, k, v = map(rows_last, (given.query, given.key, given.value))
    with on_device_of(q):
        shape, limits = _shape_of(given, q, k, v), _limits(given)
        if shape.keys > (_SHORT if shape.kind["KIND"] else _SHORT_POWERS):
            made = _by_lists(given, shape, (q, k, v), limits, _DENSE)
            if made is not None:
                return made
        return _triton_tiles.forward(given, shape, q, k, v, limits)


def _by_lists(given, shape, tensors, limits, most):
    """The output and lists; None where there are more entries than asked for, or no finite ones.

    Everything is launched with room for as many entries as the last time and some more, and done
    again where they were too many: nothing waits for the number in between.
    """
    most = min(most * shape.pairs * shape.queries, _BAD.value - 1)
    if shape.crowded:  # the last time: first how many there are
        if _tried(given, shape, tensors, limits, None, shape.held)[1]()[0] > most:
            return None
        shape.crowded = False
    while True:
        entries, held = min(shape.entries, most), shape.held
        made, found = _tried(given, shape, tensors, limits, entries, held)
        total, used = found()
        if total > most:
            shape.crowded = True
            return None
        shape.entries = max(total * 9 // 8, shape.entries * 7 // 8) + 1024
        if used > held:
            shape.held = 1 << (used - 1).bit_length()
        elif total <= entries:
            break
    out, kept = made[0], made[1:]
    if not given.keeps:
        return out, Kept("lists")
    crow, col, root, turned, *rest = kept
    return out, Kept("lists", crow, col[:total], root[:total], turned[:total], *rest)


def _tried(given, shape, tensors, limits, entries, held):
    """The output and lists, if there is room; and what tells how much was needed.

    With entries None, how much is needed alone.
    """
    q, k, v = tensors
    tau, norms = room(given, "tau"), room(given, "norms").zero_()
    mean, mass = (room(given, "mean"), room(given, "mass")) if given.keeps else (tau, tau)
    count = norms.new_empty(len(tau))
    counts = norms.new_zeros(shape.all_keys * _BLOCKS.value + 1 if given.keeps else 0)
    out = v.new_empty(*q.shape[:3], shape.wide)
    places = *q.stride()[:3], *k.stride()[:3]
    shape.launch(
        _norms, (shape.shared_pairs, _blocks(shape.keys, 64)),
        (k, v, norms, *k.stride()[:3], *v.stride()[:3], shape.shared, shape.keys),
        shape.norms, 4,
    )  # fmt: skip
    shape.launch(
        _bound, (shape.pairs, _blocks(shape.queries, _ROWS)),
        (q, k, *limits, norms, tau, *places, shape.b_span, *shape.sizes, given.scale),
        shape.bound, shape.warps,
    )  # fmt: skip
    wide = partial(torch.empty, dtype=torch.int64, device=q.device)
    ends = wide(len(tau) + 2)  # behind the first, which is of what was used
    ends[:2] = 0
    needed, ends = ends[:1], ends[1:]
    if entries is not None:
        col, root = count.new_empty(entries), tau.new_empty(entries)
        place = torch.empty_like(col)
    chunks = shape.chunks(held)
    for x, (head0, head1, tile0, tile1) in enumerate(chunks):
        grid = head1 - head0, tile1 - tile0
        marked = grid[0] * grid[1] * _ROWS
        words, used = wide(marked * 4 * held), count.new_empty(marked * 4)
        row0, row1 = tile0 * _ROWS, min(tile1 * _ROWS, shape.queries)
        begin, end = head0 * shape.queries + row0, (head1 - 1) * shape.queries + row1
        shape.launch(
            _mark, grid,
            (q, k, *limits, tau, words, count, used, needed, *places, shape.b_span, head0, tile0,
             tile1, held, *shape.sizes, given.scale),
            shape.mark, 4 if shape.seen["SPANS"] else 8, 2,
        )  # fmt: skip
        own = ends[begin + 1 : end + 1]
        torch.cumsum(count[begin:end], 0, out=own)
        if begin:
            own += ends[begin]
        if x == len(chunks) - 1:
            found = _asked(ends[-1:], needed)
        if entries is None:
            continue
        shape.launch(
            _attend, (row1 - row0, grid[0]),
            (q, k, v, *limits[2:], tau, words, used, ends, col, root, place, counts, out, mean,
             mass, *places, *v.stride()[:3], head0, row0, grid[1] * _ROWS, held, entries,
             *shape.sizes, given.scale),
            shape.attend, 1,
        )  # fmt: skip
        del words, used  # before the next ones are made
    if entries is None or not given.keeps:
        return (out,), found
    turned = _turned(shape, counts, ends, col, root, place)
    return (out, ends, col, root, *turned, norms, mean, mass), found


def _asked(*numbers):
    """Whole numbers that are on their way from the device: a call waits for them alone."""
    if numbers[0].device.type != "cuda":
        return lambda: [int(x) for x in numbers]
    here = torch.empty(len(numbers), dtype=torch.int64, pin_memory=True)
    for x, number in enumerate(numbers):
        here[x : x + 1].copy_(number, non_blocking=True)
    there = torch.cuda.Event()
    there.record()

    def arrived():
        there.synchronize()
        return here.tolist()

    return arrived


def _turned(shape, counts, crow, col, root, place):
    """For each key its entries in the order of their rows; where they begin."""
    begins, tally = torch.cumsum(counts, 0, dtype=torch.int32), crow.new_empty(shape.all_keys + 1)
    shape.launch(
        _tally, (_blocks(shape.all_keys, 1024),), (begins, tally, shape.all_keys),
        {"BLOCK": 1024}, 4,
    )  # fmt: skip
    torch.cumsum(tally[1:], 0, out=tally[1:])
    found, ordered = crow.new_empty(len(col)), crow.new_empty(len(col))
    grid, given = (_blocks(shape.queries, 4), shape.pairs), (crow, col, root, place, begins, found)
    sizes = len(col), *shape.sizes
    shape.launch(_turn, grid, (*given, *sizes), {"BLOCK": 4}, 1)
    shape.launch(_order, grid, (*given, ordered, *sizes), {"BLOCK": 4}, 1)
    return ordered, tally


def on_device_of(x):
    """Kernels are launched on the current device."""
    there = x.get_device()
    if there < 0 or there == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(there)


def backward(given, kept, g):
    """Gradients of query, key, value and, one for each head, of alpha."""
    q, k, v, g = map(rows_last, (given.query, given.key, given.value, g))
    with on_device_of(q):
        shape, limits = _shape_of(given, q, k, v, g), _limits(given)
        if kept.by == "tiles":
            *made, by_alpha = _triton_tiles.backward(given, shape, kept, q, k, v, g, limits)
        else:
            q, g = q.contiguous(), g.contiguous()  # rows are found by their number alone
            *made, by_alpha = _backward(given, kept, shape, limits[2], q, k, v, g)
        if not shape.learns:
            return *made, None
        by_head = by_alpha.double().view(shape.batch, shape.heads, -1).sum((0, 2))
        return *made, by_head / (limits[2].double() - 1) ** 2


def _backward(given, kept, shape, alphas, q, k, v, g):
    crow, col, root, turned, tally, norms, mean, mass = kept[1:9]
    gmax = torch.zeros(shape.pairs, dtype=torch.int32, device=q.device)
    centre, ds, total = torch.empty_like(mass), torch.empty_like(root), len(col)
    shape.launch(
        _centre, (shape.pairs, _blocks(shape.queries, 16)),
        (g, mean, mass, centre, gmax, *g.stride()[:3], shape.heads, shape.queries),
        shape.centre, 2,
    )  # fmt: skip
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    lists = alphas, root, centre, turned, tally
    sizes = shape.heads, shape.shared, shape.queries, shape.keys
    shape.launch(
        _columns, (shape.keys, shape.shared_pairs),
        (q, v, g, *lists, ds, dk, dv, *v.stride()[:3], *sizes, given.scale),
        shape.columns, 1,
    )  # fmt: skip
    if shape.queries * shape.group > _LIGHT.value:
        room_for = max(2 * total // _LIGHT.value, 1) * (shape.both["D"] + shape.both["DV"])
        sums = torch.zeros(room_for, dtype=torch.int64, device=q.device)
        shape.launch(
            _shared_columns, (_PROGRAMS,),
            (q, v, g, *lists, ds, sums, norms, gmax, *v.stride()[:3], *sizes, shape.all_keys),
            shape.columns, 1,
        )  # fmt: skip
        shape.launch(
            _finish_shared, (_blocks(shape.all_keys, 64),),
            (tally, sums, norms, gmax, dk, dv, *sizes, shape.all_keys, given.scale),
            shape.finish, 1,
        )  # fmt: skip
    by_alpha = torch.empty_like(mass) if shape.learns else mass
    shape.launch(
        _queries, (shape.queries, shape.pairs),
        (k, crow, col, root, ds, dq, by_alpha, *k.stride()[:3], *shape.sizes, given.scale),
        shape.by_query, 1,
    )  # fmt: skip
    return dq, dk, dv, by_alpha


def support(given, kept, shape):
    """The weights: entries of the lists that are in the support, keys in rising order."""
    if kept.by == "tiles":
        q, k, v = map(rows_last, (given.query, given.key, given.value))
        with on_device_of(q):
            known = _shape_of(given, q, k, v)
            made = _by_lists(given, known, (q, k, v), _limits(given), known.keys)
        if made is None:  # NaN or inf
            return _plain_attention.support(given, kept, shape)
        kept = made[1]
    crow, col, root = kept[1:4]
    owner = torch.arange(len(crow) - 1, device=col.device).repeat_interleave(crow.diff())
    on = root > 0
    order = torch.argsort(owner[on] * given.key.shape[2] + col[on])
    col, root, owner = (x[on][order] for x in (col, root, owner))
    heads = owner // given.query.shape[2] % given.query.shape[1]
    value = root.double() ** (1 / (given.alphas(torch.float64)[heads] - 1))
    begins = torch.zeros_like(crow)
    torch.cumsum(torch.bincount(owner, minlength=len(crow) - 1), 0, out=begins[1:])
    total = torch.zeros(len(crow) - 1, dtype=torch.float64, device=col.device)
    value /= total.index_add_(0, owner, value)[owner]
    return AttentionSupport(begins, col, value.float(), shape)
