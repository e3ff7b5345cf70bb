"""Attention of new tokens to a paged cache as Triton kernels, 1 < alpha <= 2.

A step reads every key once, in its 8-bit copy where there is one, and the values of the support
alone. With z = (alpha - 1) scale q.k the weights are p = (z - tau)_+^k, k = 1 / (alpha - 1).

1. ``_scan``: all keys once. z is known up to a margin: the rounding of the products and, with the
   8-bit copy c of a key k, |q.(k - c)| <= |q| |k - c|, where the second norm was stored with the
   key. The largest upper bound of every eight keys is written, and the largest lower bound at each
   of 64 places of the tiles of a program.
2. ``_refine``: the threshold of those lower bounds is below the true one, as that of some scores
   never exceeds that of all. Of eight keys whose upper bound is above it the full keys are read;
   those whose score in float32 can be above it get their score in float64.
3. ``_finish``: the threshold by Newton's steps from below in float64, and the values' rows.

Lists have a place for every key, so that none is too short, and no number of the device is waited
for. There are no atomics: results do not change from run to run.
"""

from __future__ import annotations

from functools import cache

import triton
import triton.language as tl

import torch
from maxent.torch.attention import _triton_scores as scores
from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.attention._triton_attention import on_device_of, rows_last
from maxent.torch.maps._launching import Plan, alignment

_PLACES = tl.constexpr(64)  # of a tile, each with its largest lower bound
_NOTHING_LARGER = tl.constexpr(1e20)  # margins from here on say that nothing is known
_LEAST = tl.constexpr(2e-18)  # added to norms: squares below 1e-38 are lost
_STEPS = 40
_PROGRAMS = 4  # of the scan, for each multiprocessor
_PARTS = 8  # programs that share the candidates of a query
_REFINING = 4, 32  # warps, and keys at a time
_FINISHING = 8, 64  # warps, and values at a time
_KEPT = 256  # candidates of a query held in registers
_SCRATCH = 1 << 29  # bytes of lists at a time
_AHEAD = 100 << 10  # bytes of keys that a program of the scan loads ahead
_MOST_ROWS = 64  # queries that share the keys of a tile
MOST_TOKENS = 64  # new ones of a sequence that kernels take
_GRID = 65535  # programs along the second axis
_MOST_PLANS = 1024
_WIDEST = 256
_TYPES = (torch.float16, torch.bfloat16, torch.float32)
_plans: dict = {}  # by what kernels are compiled for

# whole numbers that differ between steps
_VARYING = ("window", "pages", "capacity", "groups", "pair0", "tokens")


# -- appending -------------------------------------------------------------------------------------


@triton.jit
def _upper_half(x):
    """x >= 0, and a little, as bfloat16 rounded up, in the upper half of a word; NaN is inf."""
    x = tl.where(x < 1e38, x + _LEAST, float("inf"))
    return (x.to(tl.int32, bitcast=True) + 0xFFFF) & 0x7FFF0000


@triton.jit(do_not_specialize=("pages", "capacity", "tokens"))
def _append(
    KEY, VALUE, K, V, BYTES, NOTES, TABLE, LENGTHS, COUNTS, kb, kh, kn, vb, vh, vn,
    heads, tokens, pages, capacity,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    PAGE: tl.constexpr, BN: tl.constexpr, EIGHT: tl.constexpr, COUNTED: tl.constexpr,
):  # fmt: skip
    """New keys and values to their pages, with the 8-bit copies and what is noted of each key."""
    blocks = tl.cdiv(tokens, BN)
    pair, i = tl.program_id(0) // blocks, tl.program_id(0) % blocks * BN + tl.arange(0, BN)
    b, h = pair // heads, pair % heads
    d, e = tl.arange(0, D), tl.arange(0, DV)
    count = tokens
    if COUNTED:
        count = tl.load(COUNTS + b)
    at = tl.load(LENGTHS + b) + i - (tokens - count)  # the last tokens are those that count
    some = (i < tokens) & (i >= tokens - count) & (at < capacity)
    page = tl.load(TABLE + b.to(tl.int64) * pages + at // PAGE, mask=some, other=0)
    to = (page.to(tl.int64) * heads + h) * PAGE + at % PAGE
    i = i.to(tl.int64)
    KEY += b.to(tl.int64) * kb + h.to(tl.int64) * kh
    VALUE += b.to(tl.int64) * vb + h.to(tl.int64) * vh
    keep = some[:, None] & (d < WIDTH)[None, :]
    k = tl.load(KEY + i[:, None] * kn + d[None, :], mask=keep, other=0.0)
    tl.store(K + to[:, None] * WIDTH + d[None, :], k, mask=keep)
    k = k.to(tl.float32)
    if EIGHT:
        top = tl.max(tl.abs(k), 1)
        norm = tl.sqrt(tl.sum(k * k, 1))
        unit = _upper_half(tl.where(norm < 1e30, top / 127 * (1 + 1e-6), float("nan")))
        step = unit.to(tl.float32, bitcast=True)
        x = tl.where((step < 1e30)[:, None], k / step[:, None], 0.0)
        x = tl.where(x < 0, -tl.floor(0.5 - x), tl.floor(x + 0.5))
        x = tl.minimum(tl.maximum(x, -127.0), 127.0)
        rest = k - x * step[:, None]
        # what float32 leaves of the norm, and of the difference
        error = tl.sqrt(tl.sum(rest * rest, 1)) * (1 + 1e-5) + 1e-6 * norm
        tl.store(BYTES + to[:, None] * D + d[None, :], x.to(tl.int8), mask=some[:, None])
        note = unit | ((_upper_half(error) >> 16) & 0x7FFF)
        note = tl.where(norm < 1e30, note, _upper_half(tl.zeros_like(top)) | 0x7F80)
    else:
        norm = tl.sqrt(tl.sum(k * k, 1)) * (1 + 1e-5)
        norm = tl.where(norm < 1e30, norm + _LEAST, float("inf"))
        note = norm.to(tl.int32, bitcast=True)
    tl.store(NOTES + to, note, mask=some)
    keep = some[:, None] & (e < WIDE)[None, :]
    v = tl.load(VALUE + i[:, None] * vn + e[None, :], mask=keep, other=0.0)
    tl.store(V + to[:, None] * WIDE + e[None, :], v, mask=keep)


# -- a step ----------------------------------------------------------------------------------------


@triton.jit
def _tiles(length, tokens, window, TILE: tl.constexpr):
    """The first tile that some new token sees, and how many there are from there on."""
    first = tl.maximum(length - tokens + 1 - window, 0) // TILE
    return first, tl.maximum(tl.cdiv(length, TILE) - first, 0)


@triton.jit
def _length(LENGTHS, b, capacity):
    """Of a sequence; 0 where more was appended than there is room for."""
    length = tl.load(LENGTHS + b)
    return tl.where(length <= capacity, length, 0)


@triton.jit(do_not_specialize=_VARYING)
def _scan(
    Q, K, NOTES, TABLE, LENGTHS, SETTINGS, HIGH, LOW, qb, qh, qn,
    window, pages, capacity, groups, pair0, tokens, heads, group,
    WIDTH: tl.constexpr, D: tl.constexpr, N: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr,
    EIGHT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Upper bounds of eight keys at a time, and lower bounds at 64 places, for a share of keys."""
    split, splits = tl.program_id(0), tl.num_programs(0)
    rows = group * tokens
    blocks = tl.cdiv(rows, N)
    local = tl.program_id(1) // blocks
    b, h = (pair0 + local) // heads, (pair0 + local) % heads
    r = tl.program_id(1) % blocks * N + tl.arange(0, N)
    c, d = tl.arange(0, TILE), tl.arange(0, D)
    head, token = h * group + r // tokens, r % tokens
    at = b.to(tl.int64) * qb + head.to(tl.int64) * qh + token.to(tl.int64) * qn
    keep = (r < rows)[:, None] & (d < WIDTH)[None, :]
    q = tl.load(Q + at[:, None] + d[None, :], mask=keep, other=0.0)
    a = tl.load(SETTINGS + 2 * head + 1, mask=r < rows, other=0.0).to(tl.float32)
    length = _length(LENGTHS, b, capacity)
    stop = tl.where(r < rows, length - (tokens - 1 - token), 0)
    first = stop - window
    wide = q.to(tl.float32)
    norm = tl.sqrt(tl.sum(wide * wide, 1)) * (1 + 1e-5)
    fine = norm < 1e30
    norm = tl.where(fine, norm + _LEAST, float("inf"))
    size = tl.abs(a) * (1 + 1e-6) + _LEAST
    if EIGHT:
        # the query as 16-bit whole numbers, two bytes each: their products are exact
        top = tl.maximum(tl.max(tl.abs(wide), 1), _LEAST)
        unit = top / 32639 * (1 + 1e-6)
        x = tl.where(fine[:, None], wide / unit[:, None], 0.0)
        x = tl.floor(x + 0.5)
        rest = tl.where(fine[:, None], wide - x * unit[:, None], 0.0)
        whole = tl.minimum(tl.maximum(x, -32639.0), 32639.0).to(tl.int32)
        upper = (whole + 128) >> 8
        high_byte = tl.trans(upper.to(tl.int8))
        low_byte = tl.trans((whole - upper * 256).to(tl.int8))
        factor = tl.where(fine, unit * a, 0.0)
        short = tl.sqrt(tl.sum(rest * rest, 1)) + 2.0**-20 * norm
        by_error, by_unit = norm * size, short * size * (127 * D**0.5)
    else:
        # |rounding| <= |q| |k| times this: sums of products, and operands where they are rounded
        slack: tl.constexpr = D * 2.0**-22 + (2.0**-8 if q.dtype == tl.float32 else 0.0)
        turned = tl.trans(q)
    tile0, tiles = _tiles(length, tokens, window, TILE)
    share = tl.cdiv(tiles, splits)
    begin, end = tile0 + split * share, tile0 + tl.minimum((split + 1) * share, tiles)
    row = local * rows + r
    TABLE += b.to(tl.int64) * pages
    T: tl.constexpr = TILE // 64
    L: tl.constexpr = 256 // TILE
    G: tl.constexpr = TILE // 8
    HIGH += row.to(tl.int64)[None, :] * groups + tl.arange(0, G)[:, None]
    best = tl.full((_PLACES, N), float("-inf"), tl.float32)
    page = tl.load(TABLE + begin * TILE // PAGE, mask=begin < end, other=0)
    for tile in tl.range(begin, end, num_stages=STAGES):
        place = (page.to(tl.int64) * heads + h) * PAGE + tile % (PAGE // TILE) * TILE
        # of the next tile: keys are loaded ahead if nothing else has to be loaded before
        page = tl.load(TABLE + tl.maximum(tl.minimum(tile + 1, end - 1), 0) * TILE // PAGE)
        note = tl.load(NOTES + place + c)
        if EIGHT:
            k = tl.load(K + place * D + (c[:, None] * D + d[None, :]))
            s = tl.dot(k, high_byte) * 256 + tl.dot(k, low_byte)
            step = (note & 0x7FFF0000).to(tl.float32, bitcast=True)
            error = (note << 16).to(tl.float32, bitcast=True)
            z = s.to(tl.float32) * factor[None, :] * step[:, None]
            margin = error[:, None] * by_error[None, :] + step[:, None] * by_unit[None, :]
        else:
            where = K + place * WIDTH + (c[:, None] * WIDTH + d[None, :])
            if WIDTH == D:
                k = tl.load(where)
            else:
                k = tl.load(where, mask=(d < WIDTH)[None, :], other=0.0)
            reach = note.to(tl.float32, bitcast=True)[:, None] * norm[None, :]
            z = tl.dot(k, turned) * a[None, :]
            margin = tl.where(reach < 1e30, reach * (slack * size)[None, :], float("inf"))
        j = tile * TILE + c
        seen = (j[:, None] >= first[None, :]) & (j[:, None] < stop[None, :])
        known = margin < _NOTHING_LARGER
        high = tl.where(known, z + margin, float("inf"))
        high = tl.where(seen, high, float("-inf"))
        low = tl.where(seen & known, z - margin, float("-inf"))
        best = tl.maximum(best, tl.max(tl.reshape(low, (T, _PLACES, N)), 0))
        high = tl.max(tl.reshape(high, (T, 4, 2, 8 // L, L, N)), 4)
        high = tl.reshape(tl.max(tl.max(high, 2), 0), (G, N))
        tl.store(HIGH + tile * G, high, mask=(r < rows)[None, :])
    LOW += (row.to(tl.int64) * splits + split)[None, :] * _PLACES
    tl.store(LOW + tl.arange(0, _PLACES)[:, None], best, mask=(r < rows)[None, :])


@triton.jit
def _members(group, e, TILE: tl.constexpr):
    """The keys that share an upper bound, as ``_scan`` reduces them: near ones of one thread."""
    L: tl.constexpr = 256 // TILE
    tile, g = group // (TILE // 8), group % (TILE // 8)
    return (
        tile * TILE + e // (2 * L) * 64 + g // (8 // L) * 16 + e // L % 2 * 8
        + g % (8 // L) * L + e % L
    )  # fmt: skip


@triton.jit
def _bound(LOW, many, a, HEADS: tl.constexpr, KIND: tl.constexpr):
    """A lower bound of the threshold: that of the lower bounds; -inf where nothing is known."""
    x = tl.arange(0, HEADS)
    low = tl.load(LOW + x, mask=x < many, other=float("-inf"))
    top = tl.max(low, 0)
    tau = tl.where(top > float("-inf"), top - 1, 0.0)
    for _ in range(8):
        mass, slopes = scores.powers(tl.maximum(low - tau, 0.0), 1 / a, KIND)
        tau += tl.maximum(scores.newton_step(tl.sum(mass, 0), tl.sum(slopes, 0), 1 / a, KIND), 0.0)
    tau -= 4e-6 * (1 + tl.abs(tau))
    return tl.where(top > float("-inf"), tau, float("-inf"))


@triton.jit
def _keys(K, TABLE, j, some, h, heads, d, WIDTH: tl.constexpr, PAGE: tl.constexpr):
    """Rows of keys or values, in full."""
    page = tl.load(TABLE + j // PAGE, mask=some, other=0).to(tl.int64)
    at = ((page * heads + h) * PAGE + j % PAGE) * WIDTH
    keep = some[:, None] & (d < WIDTH)[None, :]
    return tl.load(K + at[:, None] + d[None, :], mask=keep, other=0.0)


@triton.jit(do_not_specialize=_VARYING)
def _refine(
    Q, K, TABLE, LENGTHS, SETTINGS, HIGH, LOW, LIST, COL, Z, COUNTS, BOUNDS, qb, qh, qn,
    window, pages, capacity, groups, pair0, tokens, heads, group, many,
    WIDTH: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr,
    HEADS: tl.constexpr, CHUNK: tl.constexpr, BN: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Candidates of one query among a part of the keys, with their scores in float64."""
    part, parts, row = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    rows = group * tokens
    pair, r = pair0 + row // rows, row % rows
    b, h = pair // heads, pair % heads
    head, token = h * group + r // tokens, r % tokens
    a = tl.load(SETTINGS + 2 * head)
    factor = tl.load(SETTINGS + 2 * head + 1)
    bound = _bound(LOW + row.to(tl.int64) * many, many, a.to(tl.float32), HEADS, KIND)
    length = _length(LENGTHS, b, capacity)
    stop = length - (tokens - 1 - token)
    first = stop - window
    tile0, tiles = _tiles(length, tokens, window, TILE)
    share = tl.cdiv(tiles, parts)
    begin, end = tile0 + part * share, tile0 + tl.minimum((part + 1) * share, tiles)
    G: tl.constexpr = TILE // 8
    HIGH += row.to(tl.int64) * groups
    LIST += row.to(tl.int64) * groups + begin * G
    COL += row.to(tl.int64) * groups * 8 + begin * TILE
    Z += row.to(tl.int64) * groups * 8 + begin * TILE
    TABLE += b.to(tl.int64) * pages
    found = 0
    for x0 in range(begin * G, end * G, CHUNK):
        x = x0 + tl.arange(0, CHUNK)
        hit = tl.load(HIGH + x, mask=x < end * G, other=float("-inf")) > bound
        one = hit.to(tl.int32)
        tl.store(LIST + found + tl.cumsum(one, 0) - one, x, mask=hit)
        found += tl.sum(one, 0)
    tl.debug_barrier()
    d, m = tl.arange(0, D), tl.arange(0, BN)
    Q += b.to(tl.int64) * qb + head.to(tl.int64) * qh + token.to(tl.int64) * qn
    q = tl.load(Q + d, mask=d < WIDTH, other=0.0).to(tl.float32)
    near = factor.to(tl.float32)
    kept = 0
    for y0 in range(0, found, BN // 8):
        y = y0 + m // 8
        j = _members(tl.load(LIST + y, mask=y < found, other=0), m % 8, TILE)
        some = (y < found) & (j >= tl.maximum(first, 0)) & (j < stop)
        product = _keys(K, TABLE, j, some, h, heads, d, WIDTH, PAGE).to(tl.float32) * q[None, :]
        z, reach = tl.sum(product, 1) * near, tl.sum(tl.abs(product), 1) * tl.abs(near)
        # what is not known to be below stays, NaN too
        one = (some & ~(z + D * 2.0**-22 * reach + 1e-30 < bound)).to(tl.int32)
        tl.store(COL + kept + tl.cumsum(one, 0) - one, j, mask=one > 0)
        kept += tl.sum(one, 0)
    tl.debug_barrier()
    q = tl.load(Q + d, mask=d < WIDTH, other=0.0).to(tl.float32).to(tl.float64)
    m = tl.arange(0, BN // 2)
    for y0 in range(0, kept, BN // 2):
        some = y0 + m < kept
        j = tl.load(COL + y0 + m, mask=some, other=0)
        k = _keys(K, TABLE, j, some, h, heads, d, WIDTH, PAGE).to(tl.float32).to(tl.float64)
        tl.store(Z + y0 + m, tl.sum(k * q[None, :], 1) * factor, mask=some)
    tl.store(COUNTS + row * parts + part, kept)
    if part == 0:
        tl.store(BOUNDS + row, bound)


@triton.jit
def _sums(z, tau, k, KIND: tl.constexpr):
    """Of the weights of some scores, and of their slopes."""
    r = tl.maximum(z - tau, 0.0)
    if KIND == 1:
        mass, slopes = r, (r > 0).to(tl.float64)
    else:
        mass, slopes = scores.powers(r, k, KIND)
    return tl.sum(mass, 0), tl.sum(slopes, 0)


@triton.jit
def _mass(z, tau, k, KIND: tl.constexpr):
    """The weights, but for their sum."""
    mass = tl.maximum(z - tau, 0.0)
    if KIND != 1:
        mass, _ = scores.powers(mass, k, KIND)
    return mass


@triton.jit
def _slots(x, ends, offsets, PARTS: tl.constexpr):
    """Where in the lists of all parts the x-th candidate lies."""
    part = tl.sum((x[:, None] >= ends[None, :]).to(tl.int32), 1)
    own = part[:, None] == tl.arange(0, PARTS)[None, :]
    return x + tl.sum(tl.where(own, offsets[None, :], 0), 1)


@triton.jit(do_not_specialize=_VARYING)
def _finish(
    V, TABLE, LENGTHS, SETTINGS, COL, Z, COUNTS, BOUNDS, OUT,
    window, pages, capacity, groups, pair0, tokens, heads, group,
    WIDE: tl.constexpr, DV: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr,
    PARTS: tl.constexpr, KEPT: tl.constexpr, BN: tl.constexpr, STEPS: tl.constexpr,
    KIND: tl.constexpr, WEIGHTS: tl.constexpr,
):  # fmt: skip
    """The threshold of one query, and its output; the weights take the place of the scores."""
    row = tl.program_id(0)
    rows = group * tokens
    pair, r = pair0 + row // rows, row % rows
    b, h = pair // heads, pair % heads
    head, token = h * group + r // tokens, r % tokens
    a = tl.load(SETTINGS + 2 * head)
    k = 1 / a
    tile0, tiles = _tiles(_length(LENGTHS, b, capacity), tokens, window, TILE)
    p = tl.arange(0, PARTS)
    count = tl.load(COUNTS + row * PARTS + p)
    ends = tl.cumsum(count, 0)
    offsets = (tile0 + p * tl.cdiv(tiles, PARTS)) * TILE - (ends - count)
    n = tl.sum(count, 0)
    COL += row.to(tl.int64) * groups * 8
    Z += row.to(tl.int64) * groups * 8
    TABLE += b.to(tl.int64) * pages
    x = tl.arange(0, KEPT)
    z = tl.load(Z + _slots(x, ends, offsets, PARTS), mask=x < n, other=float("-inf"))
    top, bad = tl.max(z, 0), tl.max((~(z < float("inf"))).to(tl.int32), 0)
    for x0 in range(KEPT, n, KEPT):
        slot = _slots(x0 + x, ends, offsets, PARTS)
        more = tl.load(Z + slot, mask=x0 + x < n, other=float("-inf"))
        top = tl.maximum(top, tl.max(more, 0))
        bad = tl.maximum(bad, tl.max((~(more < float("inf"))).to(tl.int32), 0))
    any_key = top > float("-inf")
    tau = tl.maximum(tl.where(any_key, top - 1, 0.0), tl.load(BOUNDS + row).to(tl.float64))
    step = tl.where(any_key & (bad == 0), 1.0, 0.0).to(tl.float64)
    steps = 0
    while (step > 1e-15 * (1 + tl.abs(tau))) & (steps < STEPS):
        total, weight = _sums(z, tau, k, KIND)
        for x0 in range(KEPT, n, KEPT):
            slot = _slots(x0 + x, ends, offsets, PARTS)
            more = tl.load(Z + slot, mask=x0 + x < n, other=float("-inf"))
            mass, slopes = _sums(more, tau, k, KIND)
            total += mass
            weight += slopes
        step = tl.maximum(scores.newton_step(total, weight, k, KIND), 0.0)
        tau += step
        steps += 1
    y, e = tl.arange(0, BN), tl.arange(0, DV)
    out, total = tl.zeros((DV,), tl.float32), tl.zeros((BN,), tl.float64)
    for y0 in range(0, n, BN):
        slot = _slots(y0 + y, ends, offsets, PARTS)
        some = y0 + y < n
        own = tl.load(Z + slot, mask=some, other=float("-inf"))
        mass = _mass(own, tau, k, KIND)
        total += mass
        j = tl.load(COL + slot, mask=some, other=0)
        v = _keys(V, TABLE, j, some & (own > tau), h, heads, e, WIDE, PAGE).to(tl.float32)
        out += tl.sum(v * mass.to(tl.float32)[:, None], 0)
    mass = tl.sum(total, 0)
    wrong = (bad > 0) | ~((a > 0) & (a <= 1)) | (tl.load(LENGTHS + b) > capacity)
    out = out * tl.where(wrong, float("nan"), tl.where(mass > 0, 1 / mass, 0.0)).to(tl.float32)
    at = ((b.to(tl.int64) * (heads * group) + head) * tokens + token) * WIDE
    tl.store(OUT + at + e, out.to(OUT.dtype.element_ty), mask=e < WIDE)
    if WEIGHTS:
        tl.debug_barrier()  # all have read the scores
        for x0 in range(0, n, KEPT):
            slot = _slots(x0 + x, ends, offsets, PARTS)
            some = x0 + x < n
            own = _mass(tl.load(Z + slot, mask=some, other=float("-inf")), tau, k, KIND) / mass
            tl.store(Z + slot, tl.where(wrong, float("nan"), own), mask=some)


# -- launching -------------------------------------------------------------------------------------


def takes(dtype, *widths):
    """Whether there are kernels for this type and these widths."""
    return dtype in _TYPES and max(widths) <= _WIDEST


def padded(width):
    """The width of 8-bit copies."""
    return max(triton.next_power_of_2(width), 32)


def _blocks(n, size):
    return -(-n // size)


class _Appending(Plan):
    """Kernels and constants of ``append`` for tensors of one kind."""

    def __init__(self, pages, key, value, counted):
        super().__init__()
        width, wide = key.shape[3], value.shape[3]
        self.constants = {
            "WIDTH": width, "D": padded(width), "WIDE": wide, "DV": triton.next_power_of_2(wide),
            "PAGE": pages.page, "BN": 16, "EIGHT": pages.eight_bit, "COUNTED": counted,
        }  # fmt: skip


class _Step(Plan):
    """Kernels and constants of ``attend`` for tensors of one kind."""

    def __init__(self, pages, query, kind, weights):
        super().__init__()
        self.batch, self.all_heads, self.tokens, width = query.shape
        self.heads, self.wide = pages.key.shape[1], pages.value.shape[3]
        self.group = self.all_heads // self.heads
        self.rows = self.group * self.tokens
        self.tile, stages = _tile(pages)
        N = min(max(triton.next_power_of_2(self.rows), 8), _MOST_ROWS)
        self.blocks = _blocks(self.rows, N)
        paged = {"PAGE": pages.page, "TILE": self.tile}
        keys = paged | {"WIDTH": width, "D": padded(width)}
        self.scan = keys | {"N": N, "EIGHT": pages.eight_bit, "STAGES": stages}
        self.refine = keys | {"CHUNK": 1024, "BN": _REFINING[1], "KIND": kind}
        self.finish = paged | {
            "WIDE": self.wide, "DV": triton.next_power_of_2(self.wide), "PARTS": _PARTS,
            "KEPT": _KEPT, "BN": _FINISHING[1], "STEPS": _STEPS, "KIND": kind, "WEIGHTS": weights,
        }  # fmt: skip
        self.by_splits = {}

    def shared_by(self, splits):
        """The same for another number of programs that share the keys of a head."""
        plan = self.by_splits.get(splits)
        if plan is None:
            many = splits * _PLACES.value
            plan = self.by_splits[splits] = Plan()
            plan.refine = self.refine | {"HEADS": triton.next_power_of_2(many)}
        return plan


def _known(make, key, *given):
    known = _plans.get(key)
    if known is None:
        if len(_plans) > _MOST_PLANS:
            _plans.clear()
        known = _plans[key] = make(*given)
    return known


def _tile(pages):
    """Keys of a tile, and the stages of a loop over tiles that loads some ahead."""
    scanned = pages.copies if pages.eight_bit else pages.key
    row = triton.next_power_of_2(scanned.shape[3]) * scanned.element_size()
    tile = min(pages.page, 128 if row <= 512 else 64)
    return tile, max(min(_AHEAD // (tile * row), 3), 1) + 1


def append(pages, key, value, counts):
    """Write new tokens to their pages; ``pages.lengths`` are those before."""
    key, value = rows_last(key), rows_last(value)
    batch, heads, tokens, _ = key.shape
    kind = (
        "append", key.dtype, key.get_device(), key.shape, key.stride(), value.shape,
        value.stride(), alignment(key, value), pages.page, pages.eight_bit, counts is None,
    )  # fmt: skip
    plan = _known(_Appending, kind, pages, key, value, counts is not None)
    with on_device_of(key):
        plan.launch(
            _append, (batch * heads * _blocks(tokens, 16),),
            (key, value, pages.key, pages.value, pages.copies, pages.notes, pages.table,
             pages.lengths, pages.lengths if counts is None else counts, *key.stride()[:3],
             *value.stride()[:3], heads, tokens, pages.table.shape[1], pages.most),
            plan.constants, 4,
        )  # fmt: skip


def attend(pages, query, alpha, scale, window, longest, weights):
    """The output of new tokens and, if asked for, the lists of their keys and weights.

    ``longest`` is the number of tokens of the longest sequence, or more.
    """
    query = rows_last(query)
    kind = {1.5: 2, 2.0: 1}.get(alpha, 0) if isinstance(alpha, float) else 0
    key = (
        query.dtype, query.get_device(), query.shape, query.stride(), alignment(query),
        pages.key.shape[1], pages.value.shape[3], pages.page, pages.eight_bit, kind, weights,
    )  # fmt: skip
    step = _known(_Step, key, pages, query, kind, weights)
    with on_device_of(query):
        settings = _settings(alpha, scale, step.all_heads, query.device)
        return _attend(step, pages, query, settings, window, longest, weights)


@cache
def _multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


def _splits(device, programs, tiles):
    """Programs that share the keys of a head: they fill the device, each with some tiles."""
    return max(min(_PROGRAMS * _multiprocessors(device) // programs, _blocks(tiles, 4)), 1)


def _attend(step, pages, query, settings, window, longest, weights):
    device, rows, all_pairs = query.device, step.rows, step.batch * step.heads
    tiles = _blocks(longest, step.tile)
    groups = tiles * step.tile // 8
    pairs = max(min(_SCRATCH // (rows * groups * 104), all_pairs, _GRID // rows), 1)
    splits = _splits(device, pairs * step.blocks, tiles)
    plan = step.shared_by(splits)
    many = splits * _PLACES.value
    out = torch.empty(
        step.batch, step.all_heads, step.tokens, step.wide, dtype=query.dtype, device=device
    )
    where = pages.table, pages.lengths, settings
    strides = query.stride()[:3]
    lists = []
    for pair0 in range(0, all_pairs, pairs):
        here = min(pairs, all_pairs - pair0)
        n = here * rows
        low, high, bounds = torch.split_with_sizes(
            torch.empty(n * (many + groups + 1), dtype=torch.float32, device=device),
            (n * many, n * groups, n),
        )
        col, listed, counts = torch.split_with_sizes(
            torch.empty(n * (9 * groups + _PARTS), dtype=torch.int32, device=device),
            (n * groups * 8, n * groups, n * _PARTS),
        )
        z = torch.empty(n * groups * 8, dtype=torch.float64, device=device)
        sizes = (
            window, pages.table.shape[1], pages.most, groups, pair0, step.tokens, step.heads,
            step.group,
        )  # fmt: skip
        plan.launch(
            _scan, (splits, here * step.blocks),
            (query, pages.copies if pages.eight_bit else pages.key, pages.notes, *where, high, low,
             *strides, *sizes),
            step.scan, 4,
        )  # fmt: skip
        plan.launch(
            _refine, (_PARTS, n),
            (query, pages.key, *where, high, low, listed, col, z, counts, bounds, *strides, *sizes,
             many),
            plan.refine, _REFINING[0],
        )  # fmt: skip
        plan.launch(
            _finish, (n,), (pages.value, *where, col, z, counts, bounds, out, *sizes),
            step.finish, _FINISHING[0],
        )  # fmt: skip
        if weights:
            lists.append((pair0, col.view(n, -1), z.view(n, -1), counts.view(n, -1)))
    return out, lists


_known_settings: dict = {}


def _settings(alpha, scale, heads, device):
    """alpha - 1 and scale (alpha - 1) for each head, in float64."""
    if isinstance(alpha, torch.Tensor):
        above = alpha.detach().double().reshape(heads, 1) - 1
        return torch.cat((above, above * scale), 1)
    key = alpha, scale, heads, device
    known = _known_settings.get(key)
    if known is None:
        known = torch.empty(heads, 2, dtype=torch.float64, device=device)
        known[:, 0] = alpha - 1
        known[:, 1] = scale * (alpha - 1)
        if not (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
            if len(_known_settings) > _MOST_PLANS:
                _known_settings.clear()
            _known_settings[key] = known
    return known


def support(pages, lists, shape, window):
    """Keys and weights of the lists of ``attend``, keys in rising order."""
    batch, all_heads, tokens, keys = shape
    heads = pages.key.shape[1]
    rows = all_heads // heads * tokens
    tile, _ = _tile(pages)
    length = pages.lengths.long()
    first = (length - tokens + 1 - window).clamp(min=0) // tile
    tiles = (length + tile - 1) // tile - first
    found = []
    for pair0, col, z, counts in lists:
        row = torch.arange(len(col), device=col.device)
        sequence = (pair0 + row // rows) // heads
        part = torch.arange(counts.shape[1], device=col.device)
        share = (tiles[sequence] + len(part) - 1) // len(part)
        begin = (first[sequence][:, None] + part * share[:, None]) * tile
        most = int(counts.max()) if len(col) else 0
        slot = begin[:, :, None] + torch.arange(most, device=col.device)
        on = torch.arange(most, device=col.device) < counts[:, :, None]
        slot = slot.clamp(max=col.shape[1] - 1).flatten(1)
        weight = z.gather(1, slot)
        on = on.flatten(1) & (weight != 0)
        found.append(((row[:, None] + pair0 * rows).expand_as(slot)[on], col.gather(1, slot)[on],
                      weight[on]))  # fmt: skip
    owner, col, value = (torch.cat(x) for x in zip(*found, strict=True))
    order = torch.argsort(owner * keys + col)
    crow = torch.zeros(batch * all_heads * tokens + 1, dtype=torch.int64, device=col.device)
    torch.cumsum(torch.bincount(owner, minlength=len(crow) - 1), 0, out=crow[1:])
    return AttentionSupport(crow, col[order], value[order].float(), torch.Size(shape))
