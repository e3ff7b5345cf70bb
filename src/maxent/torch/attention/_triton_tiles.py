"""Attention tile by tile, for wide supports and short sequences, 1 < alpha <= 2.

Once the threshold tau of a query is known its weights p = (z - tau)_+^k are pointwise: no maximum,
no sum to wait for. A program holds a block of queries: a pass over the keys bounds their thresholds
from below (see ``_triton_candidates``), more passes improve them by Newton's steps on the k-norm,
and the last gathers the sums of p v and w v, w = p^(2 - alpha). Backward, ds = w (dp - c) with
c = g.(sum w v) / sum w; gradients of queries and of keys are two kernels, so that nothing is added
in an order that changes from run to run.
"""

from __future__ import annotations

import triton
import triton.language as tl

import torch
from maxent.torch.attention import _triton_scores as scores
from maxent.torch.attention._kept import Kept, room

_PASSES = 24  # at most; one or two where supports are small
_NEAR = {torch.float32: 1e-4}  # of a mass to 1, before the last step
_NEAR_ROUNDED = 0.05  # in 16 bits: the step that follows leaves less than 1e-3


@triton.jit
def _dot(a, b):
    """A product that keeps what float32 has."""
    if scores.INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32))
    if a.dtype == tl.float32:
        return tl.dot(a, b, input_precision="tf32x3")
    return tl.dot(a, b)


@triton.jit
def _forward(
    Q, K, V, FIRST, STOP, ALPHA, SLOPES, TAU, OUT, MEAN, MASS,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, b_span, heads, group, queries, keys, scale, near,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SPANS: tl.constexpr, SLOPED: tl.constexpr,
    KIND: tl.constexpr, PASSES: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Thresholds and outputs of a block of queries; NaN for a query with a score of NaN or inf."""
    pair, m = tl.program_id(0), tl.num_programs(1) - 1 - tl.program_id(1)
    b, h = pair // heads, pair % heads
    EVEN: tl.constexpr = WIDTH == D
    r, d, c = m * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    q = scores.load_rows(
        Q + b.to(tl.int64) * qb + h.to(tl.int64) * qh, r, qn, d, queries, WIDTH, EVEN
    )
    K += b.to(tl.int64) * kb + (h // group).to(tl.int64) * kh
    V += b.to(tl.int64) * vb + (h // group).to(tl.int64) * vh
    a = tl.load(ALPHA + h) - 1
    k, factor = 1 / a, scale * a
    slope = 0.0
    if SLOPED:
        slope = tl.load(SLOPES + h) / scale
    first, stop, begin, whole, after, end = scores.seen(
        FIRST, STOP, b * b_span, r, queries, keys, SPANS, BN
    )
    largest = tl.full((BM, BN), float("-inf"), tl.float32)
    for part in tl.static_range(3):
        if SPANS or part > 0:
            low, high = scores.part_of(begin, whole, after, end, part)
            for s0 in range(low, high, BN):
                s = _dot(q, scores.turned_tile(K, s0, c, d, kn, keys, WIDTH, EVEN, part != 1))
                s = scores.limited(s, s0, r, c, slope, first, stop, SLOPED, part != 1)
                largest = tl.maximum(largest, s, propagate_nan=tl.PropagateNan.ALL)
    z = largest * factor
    top = tl.max(z, 1)
    finite = (tl.sum((z != z).to(tl.int32), 1) == 0) & (top < float("inf"))
    some = finite & (top > float("-inf"))
    tau = tl.where(some, top - 1, float("inf"))
    for _ in range(8):
        mass, weight = scores.powers(tl.maximum(z - tau[:, None], 0.0), k, KIND)
        tau += scores.newton_step(tl.sum(mass, 1), tl.sum(weight, 1), k, KIND)
    far = tl.max(some.to(tl.float32), 0)
    passes = 0
    while (far > near) & (passes < PASSES):
        mass, weight = tl.zeros((BM,), tl.float32), tl.zeros((BM,), tl.float32)
        for part in tl.static_range(3):
            if SPANS or part > 0:
                low, high = scores.part_of(begin, whole, after, end, part)
                for s0 in range(low, high, BN):
                    s = _dot(q, scores.turned_tile(K, s0, c, d, kn, keys, WIDTH, EVEN, part != 1))
                    s = scores.limited(s, s0, r, c, slope, first, stop, SLOPED, part != 1)
                    p, w = scores.powers(tl.maximum(s * factor - tau[:, None], 0.0), k, KIND)
                    mass += tl.sum(p, 1)
                    weight += tl.sum(w, 1)
        tau += scores.newton_step(mass, weight, k, KIND)
        far = tl.max(tl.where(some, tl.abs(mass - 1), 0.0), 0)
        passes += 1
    e = tl.arange(0, DV)
    mass, weight = tl.zeros((BM,), tl.float32), tl.zeros((BM,), tl.float32)
    out, mean = tl.zeros((BM, DV), tl.float32), tl.zeros((BM, DV), tl.float32)
    for part in tl.static_range(3):
        if SPANS or part > 0:
            low, high = scores.part_of(begin, whole, after, end, part)
            for s0 in range(low, high, BN):
                s = _dot(q, scores.turned_tile(K, s0, c, d, kn, keys, WIDTH, EVEN, part != 1))
                s = scores.limited(s, s0, r, c, slope, first, stop, SLOPED, part != 1)
                v = scores.load_rows(V, s0 + c, vn, e, keys, WIDE, WIDE == DV)
                p, w = scores.powers(tl.maximum(s * factor - tau[:, None], 0.0), k, KIND)
                mass += tl.sum(p, 1)
                weight += tl.sum(w, 1)
                out += _dot(p.to(v.dtype), v)
                if KEEP:
                    mean += _dot(w.to(v.dtype), v)
    # the last step moves p by -k step w, to first order
    step = scores.newton_step(mass, weight, k, KIND)
    if KEEP:
        out -= (k * step)[:, None] * mean
    out *= (1 / tl.maximum(mass - (k * step * weight if KEEP else 0.0), 1e-30))[:, None]
    tau, out = tau + step, tl.where(finite[:, None], out, float("nan"))
    row = pair.to(tl.int64) * queries + r
    at = row[:, None] * WIDE + e[None, :]
    inside = (r < queries)[:, None] & (e < WIDE)[None, :]
    tl.store(OUT + at, out.to(OUT.dtype.element_ty), mask=inside)
    if KEEP:
        mean = tl.where(finite[:, None], mean, float("nan"))
        tl.store(MEAN + at, mean.to(MEAN.dtype.element_ty), mask=inside)
        tl.store(MASS + row, weight, mask=r < queries)
        tl.store(TAU + row, tl.where(some, tau, float("inf")), mask=r < queries)


@triton.jit
def _queries(
    Q, K, V, GRAD, FIRST, STOP, ALPHA, SLOPES, TAU, MEAN, MASS, CENTRE, DQ, BY_ALPHA,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, gb, gh, gn, b_span, heads, group, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SPANS: tl.constexpr, SLOPED: tl.constexpr,
    KIND: tl.constexpr, LEARNS: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of queries, their c, and a^2 times what alpha gets from them."""
    pair, m = tl.program_id(0), tl.num_programs(1) - 1 - tl.program_id(1)
    b, h = pair // heads, pair % heads
    EVEN: tl.constexpr = WIDTH == D
    EVEN_WIDE: tl.constexpr = WIDE == DV
    r, c = m * BM + tl.arange(0, BM), tl.arange(0, BN)
    d, e = tl.arange(0, D), tl.arange(0, DV)
    q = scores.load_rows(
        Q + b.to(tl.int64) * qb + h.to(tl.int64) * qh, r, qn, d, queries, WIDTH, EVEN
    )
    g = scores.load_rows(
        GRAD + b.to(tl.int64) * gb + h.to(tl.int64) * gh, r, gn, e, queries, WIDE, EVEN_WIDE
    )
    K += b.to(tl.int64) * kb + (h // group).to(tl.int64) * kh
    V += b.to(tl.int64) * vb + (h // group).to(tl.int64) * vh
    row = pair.to(tl.int64) * queries + r
    mean = scores.load_rows(
        MEAN + pair.to(tl.int64) * queries * WIDE, r, WIDE, e, queries, WIDE, EVEN_WIDE
    )
    weight = tl.load(MASS + row, mask=r < queries, other=1.0)
    centre = tl.sum(g.to(tl.float32) * mean.to(tl.float32), 1) / tl.where(weight > 0, weight, 1.0)
    tl.store(CENTRE + row, centre, mask=r < queries)
    tau = tl.load(TAU + row, mask=r < queries, other=float("inf"))
    a = tl.load(ALPHA + h) - 1
    k, factor = 1 / a, scale * a
    slope = 0.0
    if SLOPED:
        slope = tl.load(SLOPES + h) / scale
    first, stop, begin, whole, after, end = scores.seen(
        FIRST, STOP, b * b_span, r, queries, keys, SPANS, BN
    )
    dq, by_alpha = tl.zeros((BM, D), tl.float32), tl.zeros((BM,), tl.float32)
    for part in tl.static_range(3):
        if SPANS or part > 0:
            low, high = scores.part_of(begin, whole, after, end, part)
            for s0 in range(low, high, BN):
                kt = scores.turned_tile(K, s0, c, d, kn, keys, WIDTH, EVEN, part != 1)
                vt = scores.turned_tile(V, s0, c, e, vn, keys, WIDE, EVEN_WIDE, part != 1)
                s = scores.limited(_dot(q, kt), s0, r, c, slope, first, stop, SLOPED, part != 1)
                root = tl.maximum(s * factor - tau[:, None], 0.0)
                _, w = scores.powers(root, k, KIND)
                ds = w * (_dot(g, vt) - centre[:, None])
                dq += _dot(ds.to(q.dtype), tl.trans(kt))
                if LEARNS:
                    by_alpha -= tl.sum(scores.moved_by_alpha(root) * ds, 1)
    inside = (r < queries)[:, None] & (d < WIDTH)[None, :]
    at = row[:, None] * WIDTH + d[None, :]
    tl.store(DQ + at, (dq * scale).to(DQ.dtype.element_ty), mask=inside)
    if LEARNS:
        tl.store(BY_ALPHA + row, by_alpha, mask=r < queries)


@triton.jit
def _first_beyond(SPAN, b, limit, queries):
    """The first query whose end of what it sees is beyond a key: ends rise with the queries."""
    SPAN += b.to(tl.int64) * queries
    low, high = 0, queries
    while low < high:
        middle = (low + high) // 2
        beyond = tl.load(SPAN + middle) > limit
        low, high = tl.where(beyond, low, middle + 1), tl.where(beyond, middle, high)
    return low


@triton.jit
def _keys(
    Q, K, V, GRAD, FIRST, STOP, ALPHA, SLOPES, TAU, CENTRE, DK, DV_OUT,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, gb, gh, gn, b_span, heads, group, queries, keys, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SPANS: tl.constexpr, SLOPED: tl.constexpr,
    KIND: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys and their values, from all queries that see one of them."""
    shared = heads // group
    pair, j0 = tl.program_id(0), tl.program_id(1) * BN
    b, kept = pair // shared, pair % shared
    EVEN: tl.constexpr = WIDTH == D
    EVEN_WIDE: tl.constexpr = WIDE == DV
    j, x = j0 + tl.arange(0, BN), tl.arange(0, BM)
    d, e = tl.arange(0, D), tl.arange(0, DV)
    key = scores.load_rows(
        K + b.to(tl.int64) * kb + kept.to(tl.int64) * kh, j, kn, d, keys, WIDTH, EVEN
    )
    value = scores.load_rows(
        V + b.to(tl.int64) * vb + kept.to(tl.int64) * vh, j, vn, e, keys, WIDE, EVEN_WIDE
    )
    begin, whole, after, end = 0, 0, queries // BM * BM, queries
    if SPANS:
        last = tl.minimum(j0 + BN, keys) - 1
        begin = _first_beyond(STOP, b * b_span, j0, queries) // BM * BM
        end = _first_beyond(FIRST, b * b_span, last, queries)
        whole = tl.cdiv(_first_beyond(STOP, b * b_span, last, queries), BM) * BM
        whole = tl.maximum(tl.minimum(whole, tl.cdiv(end, BM) * BM), begin)
        after = tl.minimum(_first_beyond(FIRST, b * b_span, j0, queries), queries) // BM * BM
        after = tl.maximum(after, whole)
    FIRST += b.to(tl.int64) * b_span * queries
    STOP += b.to(tl.int64) * b_span * queries
    dk, dv = tl.zeros((BN, D), tl.float32), tl.zeros((BN, DV), tl.float32)
    for member in range(group):
        h = kept * group + member
        row0 = (b * heads + h).to(tl.int64) * queries
        queries_of = Q + b.to(tl.int64) * qb + h.to(tl.int64) * qh
        gradients_of = GRAD + b.to(tl.int64) * gb + h.to(tl.int64) * gh
        a = tl.load(ALPHA + h) - 1
        k, factor = 1 / a, scale * a
        slope = 0.0
        if SLOPED:
            slope = tl.load(SLOPES + h) / scale
        for part in tl.static_range(3):
            if SPANS or part > 0:
                low, high = scores.part_of(begin, whole, after, end, part)
                for i0 in range(low, high, BM):
                    i = i0 + x
                    qt = scores.turned_tile(
                        queries_of, i0, x, d, qn, queries, WIDTH, EVEN, part != 1
                    )
                    gt = scores.turned_tile(
                        gradients_of, i0, x, e, gn, queries, WIDE, EVEN_WIDE, part != 1
                    )
                    tau = tl.load(TAU + row0 + i, mask=i < queries, other=float("inf"))
                    centre = tl.load(CENTRE + row0 + i, mask=i < queries, other=0.0)
                    s = _dot(key, qt)
                    if SLOPED:
                        s -= slope * tl.abs(j[:, None] - i[None, :]).to(tl.float32)
                    if SPANS and part != 1:
                        first = tl.load(FIRST + i, mask=i < queries, other=0)
                        stop = tl.load(STOP + i, mask=i < queries, other=0)
                        sees = (j[:, None] >= first[None, :]) & (j[:, None] < stop[None, :])
                        s = tl.where(sees, s, float("-inf"))
                    root = tl.maximum(s * factor - tau[None, :], 0.0)
                    p, w = scores.powers(root, k, KIND)
                    dv += _dot(p.to(gt.dtype), tl.trans(gt))
                    ds = w * (_dot(value, gt) - centre[None, :])
                    dk += _dot(ds.to(qt.dtype), tl.trans(qt))
    row = pair.to(tl.int64) * keys + j
    inside = (j < keys)[:, None]
    at = row[:, None] * WIDTH + d[None, :]
    tl.store(DK + at, (dk * scale).to(DK.dtype.element_ty), mask=inside & (d < WIDTH)[None, :])
    at = row[:, None] * WIDE + e[None, :]
    tl.store(DV_OUT + at, dv.to(DV_OUT.dtype.element_ty), mask=inside & (e < WIDE)[None, :])


def blocks(width, dtype):
    """Queries and keys of a tile of each kernel, warps and stages: what was fastest."""
    if width > 128 or dtype == torch.float32:
        return {"forward": (64, 32, 4, 2), "queries": (64, 32, 4, 2), "keys": (32, 64, 4, 2)}
    if width > 64:
        return {"forward": (128, 64, 8, 3), "queries": (128, 64, 8, 3), "keys": (32, 64, 4, 3)}
    return {"forward": (64, 64, 4, 3), "queries": (64, 64, 4, 3), "keys": (32, 128, 4, 3)}


def settings(shape, dtype, keeps):
    """Of each kernel its grid, constants, warps and stages."""
    common = shape.both | shape.seen | shape.kind
    own = {
        "forward": {"PASSES": _PASSES, "KEEP": keeps},
        "queries": {"LEARNS": shape.learns},
        "keys": {},
    }
    made = {}
    for name, (rows, keys, *how) in blocks(max(shape.both["D"], shape.both["DV"]), dtype).items():
        grid = shape.pairs, -(-shape.queries // rows)
        if name == "keys":
            grid = shape.shared_pairs, -(-shape.keys // keys)
        made[name] = grid, common | {"BM": rows, "BN": keys} | own[name], how
    return made


def forward(given, shape, q, k, v, limits):
    """The output; and thresholds, means and masses for backward."""
    out = v.new_empty(*q.shape[:3], shape.wide)
    tau = mass = mean = out  # nothing is written to them
    if given.keeps:
        tau, mass, mean = room(given, "tau"), room(given, "mass"), room(given, "mean")
    places = *q.stride()[:3], *k.stride()[:3], *v.stride()[:3]
    grid, constants, how = shape.tiles["forward"]
    shape.launch(
        _forward, grid,
        (q, k, v, *limits, tau, out, mean, mass, *places, shape.b_span, *shape.sizes, given.scale,
         _NEAR.get(q.dtype, _NEAR_ROUNDED)),
        constants, *how,
    )  # fmt: skip
    if not given.keeps:
        return out, Kept("tiles")
    return out, Kept("tiles", mean=mean, mass=mass, tau=tau)


def backward(given, shape, kept, q, k, v, g, limits):
    """Gradients of query, key and value, and what alpha gets from every query."""
    tau, mean, mass = kept.tau, kept.mean, kept.mass
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    centre, by_alpha = torch.empty_like(mass), torch.empty_like(mass) if shape.learns else mass
    places = *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *g.stride()[:3]
    sizes = shape.b_span, *shape.sizes, given.scale
    grid, constants, how = shape.tiles["queries"]
    shape.launch(
        _queries, grid,
        (q, k, v, g, *limits, tau, mean, mass, centre, dq, by_alpha, *places, *sizes),
        constants, *how,
    )  # fmt: skip
    grid, constants, how = shape.tiles["keys"]
    shape.launch(
        _keys, grid, (q, k, v, g, *limits, tau, centre, dk, dv, *places, *sizes), constants, *how
    )
    return dq, dk, dv, by_alpha
