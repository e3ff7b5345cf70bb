"""Kernels of attention's forward pass by lists: bounds, marks, and each query's keys.

1. ``bound_kernel``: a pass over the keys keeps for each query the largest score at each place of
   the tile. The threshold of these heads is below that of all scores, as that of some always is.
2. ``mark_kernel``: a second pass marks the scores above the bound, less what rounding can do: the
   candidates, few more than the support. Words of marks are kept where a bit is set.
3. ``attend_kernel``: scores of candidates in float32, the threshold by Newton's steps from the
   bound, which never pass it, and the values' rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from maxent.torch.attention import _triton_scores as scores
from maxent.torch.attention._triton_turned import BLOCKS

KEYS = tl.constexpr(128)  # of a tile of marks: four words of 32 bits
BAD = tl.constexpr(2147483647)  # stands for the candidates of a query with NaN or inf

# whole numbers that differ between launches of the same shapes
VARYING = ("head0", "tile0", "tile1", "row0", "marked_rows", "held", "entries")


@triton.jit
def norms_kernel(
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
def bound_kernel(
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
    c = tl.arange(0, KEYS)
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


@triton.jit(do_not_specialize=VARYING)
def mark_kernel(
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
    r, d, c, y = m * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, KEYS), tl.arange(0, 4)
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
        FIRST, STOP, b * b_span, r, queries, keys, SPANS, KEYS
    )
    local = tl.program_id(0).to(tl.int64) * (tile1 - tile0) * BM + (r - tile0 * BM)
    WORDS += local[:, None] * (4 * held) + y[None, :]
    count, used = tl.zeros((BM, 4), tl.int32), tl.zeros((BM, 4), tl.int32)
    w, tile = tl.zeros((BM, 4), tl.int32), 0
    for part in tl.static_range(3):
        if SPANS or part > 0:
            low, high = scores.part_of(begin, whole, after, end, part)
            for s0 in range(low, high, KEYS):
                k = scores.turned_tile(K, s0, c, d, kn, keys, WIDTH, EVEN, part != 1)
                s = tl.dot(q, scores.rounded(k))
                # words of the tile before: there is time until the next tile waits for stores
                used = _put(WORDS, used, w, tile, held)
                s = scores.limited(s, s0, r, c, slope, first, stop, SLOPED, part != 1)
                w, tile = _packed(s > tau[:, None], BM), s0 // KEYS
                count += _ones(w)
    used = _put(WORDS, used, w, tile, held)
    total = tl.where(bound == bound, tl.sum(count, 1), BAD)
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


@triton.jit(do_not_specialize=VARYING)
def attend_kernel(
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
        z = tl.sum(scores.gathered_rows(K, j, kn, d, WIDTH, D).to(tl.float32) * q[None, :], 1)
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
    COUNTS += (b * (heads // group) + h // group).to(tl.int64) * keys * BLOCKS
    COUNTS += 1 + (h % group * queries + i) // tl.cdiv(group * queries, BLOCKS)  # after a zero
    for x0 in range(0, n, KEPT):
        some = x0 + x < n
        r = tl.maximum(tl.load(ROOT + x0 + x, mask=some, other=float("-inf")) - tau, 0.0)
        mass, slopes = scores.powers(r, k, KIND)
        total += tl.sum(mass, 0)
        weight += tl.sum(slopes, 0)
        tl.store(ROOT + x0 + x, r, mask=some)
        if KEEP:
            j = tl.load(COL + x0 + x, mask=some, other=0)
            place = tl.atomic_add(COUNTS + j * BLOCKS, 1, mask=some & (r > 0), sem="relaxed")
            tl.store(PLACE + x0 + x, place, mask=some)
    tl.debug_barrier()
    out, mean = tl.zeros((R, DV), tl.float32), tl.zeros((R, DV), tl.float32)
    for g0 in range(0, n, G):
        g = g0 + tl.arange(0, G)
        r = tl.load(ROOT + g, mask=g < n, other=0.0)
        j = tl.load(COL + g, mask=g < n, other=0)
        v = scores.gathered_rows(V, j, vn, e, WIDE, DV).to(tl.float32)
        mass, slopes = scores.powers(r, k, KIND)
        out += scores.partial_sums(v * mass[:, None], R)
        if KEEP:
            mean += scores.partial_sums(v * slopes[:, None], R)
    at = row * WIDE + e
    out, mean = tl.sum(out, 0) / tl.maximum(total, 1e-30), tl.sum(mean, 0)
    tl.store(OUT + at, out.to(OUT.dtype.element_ty), mask=e < WIDE)
    if KEEP:
        tl.store(MEAN + at, mean.to(MEAN.dtype.element_ty), mask=e < WIDE)
        tl.store(MASS + row, weight)
