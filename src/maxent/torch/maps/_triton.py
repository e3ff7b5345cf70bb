"""Tsallis maps and losses as Triton kernels: one read of the scores, one write of the result.

A row of scores x has p_j = [1 + (alpha - 1)(u_j - t)]_+^(1/(alpha - 1)) with u = x - max x. At
t = 0 the largest entry is 1, so that the sum of p is at least 1; t grows from there. With A = sum p
and B = sum p^(2 - alpha) = -dA/dt, Newton's step on the norm A^(alpha - 1) is

    A (1 - A^(1 - alpha)) / ((alpha - 1) B)

The norm is convex in t for alpha <= 2, so that t never passes the solution; at alpha = 2 the steps
are Michelot's and end exactly, at alpha = 1 one step, log A, is softmax. For alpha > 2 see
_steep_step. On the support p^(alpha - 1) = 1 + (alpha - 1)(u - t), so that
Omega(p) = sum p (u - t) / alpha and the loss needs no further powers.

Rows are read as tiles (R, C) of R entries at each of C places, and the largest entry of a place is
its head. The solution for some entries is below that for all, so steps that see the heads alone
make a start close to the end. Rows that fit are held in registers. For longer rows a first kernel
writes zeros and heads, and a second solves for the heads and then for the entries at the places
whose head is above that solution, or for all where these are many, and writes their p.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import triton
import triton.language as tl

import torch
from maxent.torch.maps._launching import again, launch

_STEPS = 40  # at most
_RESIDENT = 32768  # columns of a row held in registers
_LONG = (16, 512, 4)  # R and C of the pieces of longer rows, warps
_LONGER, _LONGER_FROM = (32, 512, 4), 131072  # from so many columns on, without powers
_LONG_POWERS = {"num_warps": 8, "maxnreg": 128}  # where powers are taken
_FEW, _SOME = 128, 512  # places that a long row keeps; with more it is read as a whole
_BLOCK = 4096  # numbers that a program rescales
LONGEST = 1 << 20  # columns
_short_maps: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}  # how they are launched again
_TYPES = (torch.float16, torch.bfloat16, torch.float32)

# how entries are computed: alpha = 2, 1.5, from 1.1 to 2, below, above
SPARSEMAX, ENTMAX15, POWER, FLAT, STEEP = map(tl.constexpr, range(5))
_POWER_FROM = tl.constexpr(1.1)
_TWO_FROM = 1.25  # from here on the second largest of a place saves a step that sees all
# instructions of the device itself; Triton's interpreter and other devices have none of them
_NVIDIA = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)
# reduced over all axes at once, threads begin with what they hold; not in the interpreter
_ALL_AXES = tl.constexpr(not triton.knobs.runtime.interpret)


@triton.jit
def _larger(a, b):
    """The larger of two; NaN stays."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _add2(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


@triton.jit
def _add2_min(a0, a1, a2, b0, b1, b2):
    return a0 + b0, a1 + b1, tl.minimum(a2, b2)


@triton.jit
def _add3(a0, a1, a2, b0, b1, b2):
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def _sum2(x, y):
    """Sums over two tiles or vectors."""
    if len(x.shape) == 2 and _ALL_AXES:
        a, b = tl.reduce((x, y), None, _add2)
    else:
        a, b = _sum2_by_axis(x, y)
    return a, b


@triton.jit
def _sum2_by_axis(x, y):
    """The same in fewer registers."""
    if len(x.shape) == 2:
        x, y = tl.reduce((x, y), 0, _add2)
    return tl.reduce((x, y), 0, _add2)


@triton.jit
def _sum3(x, y, z):
    """Sums over three."""
    if len(x.shape) == 2 and _ALL_AXES:
        a, b, c = tl.reduce((x, y, z), None, _add3)
    else:
        if len(x.shape) == 2:
            x, y, z = tl.reduce((x, y, z), 0, _add3)
        a, b, c = tl.reduce((x, y, z), 0, _add3)
    return a, b, c


@triton.jit
def _sum2_least(x, y, z):
    """Sums over two and the least of a third."""
    if len(x.shape) == 2 and _ALL_AXES:
        a, b, c = tl.reduce((x, y, z), None, _add2_min)
    else:
        if len(x.shape) == 2:
            x, y, z = tl.reduce((x, y, z), 0, _add2_min)
        a, b, c = tl.reduce((x, y, z), 0, _add2_min)
    return a, b, c


@triton.jit
def _log2(x):
    """log2 by the device's own instruction: good to 2^-22, a tenth of the work."""
    if _NVIDIA:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.log2(x)


@triton.jit
def _exp2(x):
    """2^x, likewise."""
    if _NVIDIA:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def _inverse(x):
    """1 / x, likewise."""
    if _NVIDIA:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def _widened(x):
    """x in float32; x itself stays as it is in registers between two uses."""
    # not pure, or the compiler would move it out of loops and hold the wider numbers
    if _NVIDIA and x.dtype == tl.bfloat16 and x.numel >= 2048:
        return tl.inline_asm_elementwise(
            "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;", "=&f,=&f,r", [x],
            dtype=tl.float32, is_pure=False, pack=2,
        )  # fmt: skip
    return x.to(tl.float32)


@triton.jit
def _magnified(alpha):
    """log2 of the number by which STEEP multiplies offsets and divides slopes.

    p = 1e-6 is an offset of 1e-6^(alpha - 1), which float32 does not have for alpha > 7.
    """
    return tl.floor(tl.minimum(tl.maximum(20.0 * (alpha - 1.0) - 126.0, 0.0), 110.0))


@triton.jit
def _steep_gap(x, ref, off, alpha):
    """What x is above STEEP's threshold ref + off."""
    return (x - ref) * tl.exp2(_magnified(alpha)) - off


@triton.jit
def _entries(x, ref, off, alpha, KIND: tl.constexpr):
    """p and p^(2 - alpha) of the entries x, at t = off above ref; of STEEP at ref + off."""
    # entries are compared so that a NaN stays one: it reaches the sums, off and the whole row
    u = x - ref
    if KIND == SPARSEMAX:
        d = u + (1.0 - off)
        p = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        s = tl.where(d <= 0.0, 0.0, 1.0)
    elif KIND == ENTMAX15:
        d = 0.5 * u + (1.0 - 0.5 * off)
        s = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        p = s * s
    elif KIND == POWER:
        d = (alpha - 1.0) * u + (1.0 - (alpha - 1.0) * off)
        d = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        power = tl.maximum((2.0 - alpha) / (alpha - 1.0), 1e-30)  # at alpha = 2 still 0 for d = 0
        s = _exp2(power * _log2(d))
        p = s * d
    elif KIND == STEEP:
        m = alpha - 1.0
        magnified = _magnified(alpha)
        g = _steep_gap(x, ref, off, alpha)
        power = 1.0 / m - 1.0
        s = _exp2(power * _log2(g) + (power * (tl.log2(m) - magnified) - magnified))
        s = tl.where(g <= 0.0, 0.0, s)
        p = s * tl.maximum(g, 0.0, propagate_nan=tl.PropagateNan.ALL) * m
    else:
        v, y, w = _flat_parts(x, ref, off, alpha)
        # log1p(y) / y on [-1/4, 0]: log2 has no digits left there
        series = -0.0902812853 + 0.3330788612 * y
        series = 0.2139826268 + series * y
        series = -0.2487364560 + series * y
        series = 0.3333858550 + series * y
        series = -0.4999992251 + series * y
        series = v + v * y * series
        inverse_m = 1.0 / tl.maximum(alpha - 1.0, 1e-7)
        p = _exp2(tl.where(y > -0.25, series * 1.4426950409, _log2(w) * inverse_m))
        s = p * _inverse(w)
    return p, s


@triton.jit
def _flat_parts(x, ref, off, alpha):
    """v = x - ref - off, y = (alpha - 1) v and 1 + y of FLAT, tiny where it should be 0."""
    v = (x - ref) - off
    y = tl.maximum(alpha - 1.0, 1e-7) * v  # 1e-7 is softmax to the last digit
    return v, y, tl.maximum(1.0 + y, 1e-30, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _third(x, s, ref, off, alpha):
    """p^(3 - 2 alpha) of FLAT from s = p^(2 - alpha)."""
    _, _, w = _flat_parts(x, ref, off, alpha)
    return s * _inverse(w)


@triton.jit
def _step(a, b, alpha, KIND: tl.constexpr):
    """Newton's step on the norm of the entries."""
    b = tl.where(b > 0.0, b, 1.0)
    if KIND == SPARSEMAX:
        step = (a - 1.0) / b
    elif KIND == ENTMAX15:
        step = 2.0 * (a - tl.sqrt(a)) / b
    else:
        m = alpha - 1.0
        e = a - 1.0
        # (1 - (1 + e)^-m) / m, by its series where it cancels
        near = e * (
            1.0 - (m + 1.0) * e * (0.5 - (m + 2.0) * e * (1.0 / 6.0 - (m + 3.0) * e / 24.0))
        )
        log_a = _log2(a)
        far = (1.0 - _exp2(-m * log_a)) * (1.0 / tl.maximum(m, 1e-7))
        if KIND == FLAT:
            g = 0.6931471806 * m * log_a
            series = 0.6931471806 * log_a * (1.0 - g * (0.5 - g * (1.0 / 6.0 - g / 24.0)))
            far = tl.where(tl.abs(g) < 0.1, series, far)
        step = a * tl.where(tl.abs(e) < 0.03, near, far) * _inverse(b)
    return step


@triton.jit
def _start(base, alpha, KIND: tl.constexpr):
    """ref and off where the largest entry alone is 1."""
    off = base * 0.0
    if KIND == STEEP:
        off = off - tl.exp2(_magnified(alpha)) / (alpha - 1.0)
    return base, off


@triton.jit
def _memory(base, alpha, KIND: tl.constexpr):
    """What the steps keep: a bracket of STEEP's threshold, else the last step."""
    one, two = base * 0.0, base * 0.0
    if KIND == STEEP:
        one, two = base - 1.0 / (alpha - 1.0), base
    return one, two


@triton.jit
def _advance(ref, off, one, two, a, b, third, alpha, KIND: tl.constexpr, DIGITS: tl.constexpr):
    """ref, off and what the steps keep after a step, and whether more steps are needed.

    DIGITS : 0 for a start from some of the entries, 1 for a result of 16 bits, 2 for float32.
    """
    if KIND == STEEP:
        ref, off, one, two, go = _steep_step(ref, off, one, two, a, b, third, alpha, DIGITS)
    elif KIND == FLAT:
        step = _step(a, b, alpha, KIND)
        # Halley's: the norm has half its second derivative over its first, measured
        bend = (1.0 - 0.5 * alpha) * (third * _inverse(b) - b * _inverse(a))
        step = step * _inverse(1.0 - tl.minimum(tl.maximum(bend * step, -0.5), 0.5))
        new = tl.where(b == 0.0, off, tl.where(a == a, off + step, a))
        error = 6.0 * (alpha - 1.0) * tl.abs(bend * step * step * step)  # at most, of ln p
        largest = _exp2(-1.442695 * new)  # no p is above it
        go = error > (1e-2 if DIGITS == 0 else 2e-4)
        if DIGITS == 2:
            go = (error > 1e-5) | (error * largest > 5e-8)
        go = go & (b > 0.0)
        off = new
    else:
        step = _step(a, b, alpha, KIND)
        # the error left after a step is about its square, unless p is nearly linear at its end
        rough = 1e-7 if KIND == SPARSEMAX else 1e-3 if DIGITS == 1 else 3e-5
        if KIND == POWER:
            rough = tl.where(alpha > 1.75, 1e-6, tl.where(alpha < 1.2, 6e-5 / (alpha - 1.0), 1e-4))
            if DIGITS < 2:
                rough = 30.0 * rough
        # NaN ends the steps and stays
        new = tl.where(b == 0.0, off, tl.where(a == a, off + step, a))
        go = new - off > rough
        if KIND == POWER:
            # two steps tell how fast their squares become small
            close = (alpha < 1.25) & (step < 2e-3) & (step * step * step < 1e-7 * one * one)
            go = go & (close == 0)
        off, one = new, step
    return ref, off, one, two, go


@triton.jit
def _steep_step(ref, off, low, high, a, b, least, alpha, DIGITS: tl.constexpr):
    """The same for alpha > 2: Newton's step in the smallest positive p.

    With z that p, at x = least, all others are (z^m + m (x - least))^(1/m), m = alpha - 1: convex
    in z, so that z stays above the solution, and known to all digits where ref + off is not.
    """
    m = alpha - 1.0
    magnified = _magnified(alpha)
    scale = tl.exp2(magnified)
    over = a - 1.0
    now = ref + off * (1.0 / scale)
    low = tl.where(over >= 0.0, tl.maximum(low, now), low)
    high = tl.where(over < 0.0, tl.minimum(high, now), high)
    gap = (least - ref) * scale - off
    z = _exp2((_log2(gap) + (tl.log2(m) - magnified)) * (1.0 / m))
    new_z = z - over * z * _inverse(b * gap * m)
    near = new_z >= 0.0
    # where it would be negative its entry leaves, and others with it
    far = off + tl.maximum(over * _inverse(b), gap)
    moved = -_exp2(m * _log2(tl.where(near, new_z, 0.0)) + (magnified - tl.log2(m)))
    to, by = tl.where(near, least, ref), tl.where(near, moved, far)
    new = to + by * (1.0 / scale)
    # float32 may not tell the bracket's ends apart: the steps in z do
    beyond = tl.where(over < 0.0, (new <= low) & (low < high), (near == 0) & (new >= high))
    lost = (b == 0.0) | beyond
    middle = tl.where(b == 0.0, low, 0.5 * (low + high))
    to, by = tl.where(lost, middle, to), tl.where(lost, 0.0, by)
    there = tl.abs(over) <= (3e-7 if DIGITS == 2 else 3e-5)
    close = near & (lost == 0) & (over * over < (1e-7 if DIGITS == 2 else 1e-5) * z)
    ref, off = tl.where(there, ref, to), tl.where(there, off, by)
    go = (a == a) & (there == 0) & (close == 0)
    go = go & ((b > 0.0) | (low < high))  # a row of -inf alone has nothing to find
    return ref, tl.where(a == a, off, a), low, high, go


@triton.jit
def _sums(x, second, ref, off, alpha, KIND: tl.constexpr):
    """A, B and a third over a tile or vectors: of STEEP the least entry whose p is not 0, of FLAT
    the sum of p^(3 - 2 alpha)."""
    x = _widened(x)
    p, s = _entries(x, ref, off, alpha, KIND)
    if second is not None:
        more_p, more_s = _entries(second, ref, off, alpha, KIND)
        p += more_p
        s += more_s
    if KIND == STEEP:
        third = tl.where(_steep_gap(x, ref, off, alpha) <= 0.0, float("inf"), x)
        a, b, third = _sum2_least(p, s, third)
    elif KIND == FLAT:
        third = _third(x, s, ref, off, alpha)
        a, b, third = _sum3(p, s, third)
    elif KIND == POWER:
        a, b = _sum2(p, s)
        third = a
    else:
        a, b = _sum2_by_axis(p, s)
        third = a
    return a, b, third


@triton.jit
def _solve(
    x, second, ref, off, base, alpha,
    KIND: tl.constexpr, STEPS: tl.constexpr, DIGITS: tl.constexpr,
):  # fmt: skip
    """Newton's steps from ref, off, not above the solution, until they are rounding.

    second : more entries, or None.
    """
    one, two = _memory(base, alpha, KIND)
    go = True
    count = 0
    while go:
        a, b, third = _sums(x, second, ref, off, alpha, KIND)
        ref, off, one, two, more = _advance(ref, off, one, two, a, b, third, alpha, KIND, DIGITS)
        count += 1
        go = more & (count < STEPS)
    return ref, off


@triton.jit
def _loss(mass, gain, own, t, alpha, KIND: tl.constexpr):
    """Omega*(x) - x_y from the sums of p and p u, and u at the label."""
    if KIND == SPARSEMAX:
        alpha = 2.0
    if KIND == ENTMAX15:
        alpha = 1.5
    loss = gain - mass * own - (gain - mass * t) / alpha
    return tl.where(loss < 0.0, 0.0, loss)  # NaN stays


@triton.jit
def _mass_and_gain(p, u):
    """Sums of p and p u over a tile."""
    return _sum2(p, p * tl.where(p > 0.0, u, 0.0))


@triton.jit
def _share(share_ptr, row, SHARED: tl.constexpr):
    """What a row's loss is multiplied by."""
    if SHARED == 1:
        share = tl.load(share_ptr + row)
    elif SHARED == 2:
        share = 1.0 / tl.maximum(tl.load(share_ptr).to(tl.float32), 1.0)
    else:
        share = 1.0
    return share


@triton.jit
def _own(x_ptr, target, used, n_cols):
    """The score of a row's label, NaN for one that is none of the columns."""
    column = tl.where(used, target, -1) + tl.arange(0, 1)
    inside = (column >= 0) & (column < n_cols)
    return _widened(tl.load(x_ptr + column, mask=inside, other=float("nan")))


@triton.jit
def _label(
    own, out_ptr, loss_ptr, target, used, mass, gain, base, ref, off, share, alpha, n_cols,
    KIND: tl.constexpr,
):  # fmt: skip
    """The loss of a row, NaN for a label that is none of the columns, and the gradient there."""
    one = tl.arange(0, 1)
    column = tl.where(used, target, -1) + one
    inside = (column >= 0) & (column < n_cols)
    t = off
    if KIND == STEEP:
        t = (ref - base) + off / tl.exp2(_magnified(alpha)) + 1.0 / (alpha - 1.0)
    loss = _loss(mass, gain, own - base, t, alpha, KIND)
    tl.store(loss_ptr + one, tl.where(used, loss * share, 0.0))
    p, _ = _entries(own, ref, off, alpha, KIND)
    tl.debug_barrier()  # p itself has been written there before
    tl.store(out_ptr + column, ((p - 1.0) * share).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _short_row(
    x, heads, base, x_ptr, out_ptr, cols, inside, loss_ptr, target, used, share, alpha, n_cols,
    R: tl.constexpr, KIND: tl.constexpr, TWO: tl.constexpr, STEPS: tl.constexpr,
    LOSS: tl.constexpr, DIGITS: tl.constexpr, IN_PLACE: tl.constexpr,
):  # fmt: skip
    """Solve a row held in registers, and write p or the gradient and the loss."""
    if IN_PLACE:
        own = _own(x_ptr, target, used, n_cols)
    ref, off = _start(base, alpha, KIND)
    if R > 1:
        second = None
        if TWO:  # powers are dear: with the second largest of a place fewer steps see all
            z = _widened(x)
            second = tl.max(tl.where(z == heads[None, :], float("-inf"), z), 0)
        ref, off = _solve(heads, second, ref, off, base, alpha, KIND, STEPS, 0)
    ref, off = _solve(x, None, ref, off, base, alpha, KIND, STEPS, DIGITS)
    p, _ = _entries(_widened(x), ref, off, alpha, KIND)
    if LOSS:
        mass, gain = _mass_and_gain(p, _widened(x) - base)
        p = tl.where(used, p * share, 0.0)
    tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=inside)
    if LOSS:
        if not IN_PLACE:
            own = _own(x_ptr, target, used, n_cols)
        _label(
            own, out_ptr, loss_ptr, target, used, mass, gain, base, ref, off, share, alpha,
            n_cols, KIND,
        )  # fmt: skip


@triton.jit
def _kind_of(alpha):
    """How the entries of a row with an alpha of its own are computed."""
    return tl.where(alpha > 2.0, STEEP, tl.where(alpha >= _POWER_FROM, POWER, FLAT))


@triton.jit
def _resident(
    x_ptr, out_ptr, loss_ptr, target_ptr, share_ptr, alpha_ptr, alpha, ignore, n_cols,
    R: tl.constexpr, C: tl.constexpr, KIND: tl.constexpr, TWO: tl.constexpr, STEPS: tl.constexpr,
    LOSS: tl.constexpr, DIGITS: tl.constexpr, SHARED: tl.constexpr, PER_ROW: tl.constexpr,
    IN_PLACE: tl.constexpr,
):  # fmt: skip
    """One row per program, held in registers."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    out_ptr += row * n_cols
    cols = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    inside = cols < n_cols
    x = tl.load(x_ptr + cols, mask=inside, other=float("-inf"))
    # NaN stays in both: a row of nothing else is not one of -inf
    heads = tl.reduce(_widened(x), 0, _larger)
    top = tl.reduce(heads, 0, _larger)
    base = tl.where(top == float("-inf"), 0.0, top)
    target = tl.load(target_ptr + row) if LOSS else 0
    used = (target != ignore) & (top != float("-inf"))
    share = _share(share_ptr, row, SHARED)
    loss_ptr += row
    kind = KIND
    if PER_ROW:
        alpha = tl.load(alpha_ptr + row)
        kind = _kind_of(alpha)
    for EACH in tl.static_range(POWER if PER_ROW else KIND, (STEEP if PER_ROW else KIND) + 1):
        if kind == EACH:
            _short_row(
                x, heads, base, x_ptr, out_ptr, cols, inside, loss_ptr, target, used, share,
                alpha, n_cols, R, EACH, TWO and EACH == POWER, STEPS, LOSS, DIGITS, IN_PLACE,
            )  # fmt: skip


@triton.jit
def _heads(
    x_ptr, out_ptr, head_ptr, n_cols, n_pieces,
    R: tl.constexpr, C: tl.constexpr, IN_PLACE: tl.constexpr,
):  # fmt: skip
    """Zeros for a piece of a row, and the largest entry of each place."""
    row = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1)
    cols = piece * R * C + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    inside = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=float("-inf"))
    if not IN_PLACE:
        zero = tl.zeros((R, C), dtype=out_ptr.dtype.element_ty)
        tl.store(out_ptr + row * n_cols + cols, zero, mask=inside)
    z = x.to(tl.float32)
    # a head that is NaN tells of any NaN at its place
    heads = tl.max(z, 0)
    broken = tl.max((z != z).to(tl.int32), 0) > 0
    heads = tl.where(broken, float("nan"), heads)
    tl.store(head_ptr + (row * n_pieces + piece) * C + tl.arange(0, C), heads.to(x.dtype))


@triton.jit
def _gather(
    x_ptr, out_ptr, place_ptr, count, base, ref, off, used, share, alpha, n_cols,
    R: tl.constexpr, C: tl.constexpr, KEPT: tl.constexpr, WIDTH: tl.constexpr,
    KIND: tl.constexpr, STEPS: tl.constexpr, LOSS: tl.constexpr, DIGITS: tl.constexpr,
    IN_PLACE: tl.constexpr,
):  # fmt: skip
    """Solve a row for the entries at the places kept, from ref, off on, and write their p.

    Returns ref, off and the sums of p and p u.
    """
    number = tl.arange(0, KEPT)
    place = tl.load(place_ptr + number, mask=number < count, other=0)
    cols = (place // C * (R * C) + place % C)[None, :] + tl.arange(0, R)[:, None] * C
    kept = (number < count)[None, :] & (cols < n_cols)
    x = tl.load(x_ptr + cols, mask=kept, other=float("-inf"))
    ref, off = _solve(x, None, ref, off, base, alpha, KIND, STEPS, DIGITS)
    x = _widened(x)
    p, _ = _entries(x, ref, off, alpha, KIND)
    mass, gain = off, off
    if LOSS:
        mass, gain = _mass_and_gain(p, x - base)
        p = tl.where(used, p * share, 0.0)
    if IN_PLACE:  # all that is needed of the scores has been read
        zero = tl.zeros((WIDTH,), dtype=out_ptr.dtype.element_ty)
        tl.debug_barrier()
        first = 0
        while first < n_cols:
            other = first + tl.arange(0, WIDTH)
            tl.store(out_ptr + other, zero, mask=other < n_cols)
            first += WIDTH
        tl.debug_barrier()
    tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=kept)
    return ref, off, mass, gain


@triton.jit
def _stream(
    x_ptr, out_ptr, base, ref, off, used, share, alpha, n_cols,
    R: tl.constexpr, WIDTH: tl.constexpr, KIND: tl.constexpr,
    STEPS: tl.constexpr, LOSS: tl.constexpr, DIGITS: tl.constexpr,
):  # fmt: skip
    """As _gather for all of a row, which is read again in each step."""
    one, two = _memory(base, alpha, KIND)
    tile = tl.arange(0, R)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    zero = tl.zeros((WIDTH,), tl.float32)
    go = True
    steps = 0
    while go:
        a, b, third = zero, zero, zero
        if KIND == STEEP:
            third = zero + float("inf")
        first = 0
        while first < n_cols:
            cols = first + tile
            x = _widened(tl.load(x_ptr + cols, mask=cols < n_cols, other=float("-inf")))
            p, s = _entries(x, ref, off, alpha, KIND)
            a += tl.sum(p, 0)
            b += tl.sum(s, 0)
            if KIND == STEEP:
                least = tl.where(_steep_gap(x, ref, off, alpha) <= 0.0, float("inf"), x)
                third = tl.minimum(third, tl.min(least, 0))
            if KIND == FLAT:
                third += tl.sum(_third(x, s, ref, off, alpha), 0)
            first += R * WIDTH
        third = tl.min(third, 0) if KIND == STEEP else tl.sum(third, 0)
        ref, off, one, two, more = _advance(
            ref, off, one, two, tl.sum(a, 0), tl.sum(b, 0), third, alpha, KIND, DIGITS
        )
        steps += 1
        go = more & (steps < STEPS)
    mass, gain = zero, zero
    first = 0
    while first < n_cols:
        cols = first + tile
        x = _widened(tl.load(x_ptr + cols, mask=cols < n_cols, other=float("-inf")))
        p, _ = _entries(x, ref, off, alpha, KIND)
        if LOSS:
            mass += tl.sum(p, 0)
            gain += tl.sum(p * tl.where(p > 0.0, x - base, 0.0), 0)
            p = tl.where(used, p * share, 0.0)
        tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=cols < n_cols)
        first += R * WIDTH
    return ref, off, tl.sum(mass, 0), tl.sum(gain, 0)


@triton.jit
def _long_row(
    heads, base, x_ptr, out_ptr, place_ptr, loss_ptr, target, used, share, alpha, n_cols,
    PLACES: tl.constexpr, R: tl.constexpr, C: tl.constexpr, FEW: tl.constexpr,
    SOME: tl.constexpr, WIDTH: tl.constexpr, KIND: tl.constexpr,
    STEPS: tl.constexpr, LOSS: tl.constexpr, DIGITS: tl.constexpr, IN_PLACE: tl.constexpr,
):  # fmt: skip
    """Solve a row from its heads, and write p at the places that matter, and the loss."""
    if IN_PLACE:
        own = _own(x_ptr, target, used, n_cols)
    ref, off = _start(base, alpha, KIND)
    ref, off = _solve(heads, None, ref, off, base, alpha, KIND, STEPS, 0)
    # rounding may end a little above the solution; a NaN stays
    if KIND == STEEP:
        loose = off - 1e-5 * tl.exp2(_magnified(alpha))
    else:
        off = tl.where(off <= 1e-5, off * 0.0, off - 1e-5)
        loose = off
    p, _ = _entries(heads, ref, loose, alpha, KIND)
    kept = p > 0.0
    number = tl.arange(0, PLACES)
    ones = kept.to(tl.int32)
    position = tl.cumsum(ones, 0) - ones
    count = tl.sum(ones, 0)
    tl.store(place_ptr + position, number, mask=kept & (position < SOME))
    tl.debug_barrier()
    if (count > SOME) | (off != off):
        ref, off, mass, gain = _stream(
            x_ptr, out_ptr, base, ref, off, used, share, alpha, n_cols,
            R * SOME // WIDTH, WIDTH, KIND, STEPS, LOSS, DIGITS,
        )  # fmt: skip
    elif count > FEW:
        ref, off, mass, gain = _gather(
            x_ptr, out_ptr, place_ptr, count, base, ref, off, used, share, alpha, n_cols,
            R, C, SOME, WIDTH, KIND, STEPS, LOSS, DIGITS, IN_PLACE,
        )  # fmt: skip
    else:
        ref, off, mass, gain = _gather(
            x_ptr, out_ptr, place_ptr, count, base, ref, off, used, share, alpha, n_cols,
            R, C, FEW, WIDTH, KIND, STEPS, LOSS, DIGITS, IN_PLACE,
        )  # fmt: skip
    if LOSS:
        if not IN_PLACE:
            own = _own(x_ptr, target, used, n_cols)
        _label(
            own, out_ptr, loss_ptr, target, used, mass, gain, base, ref, off, share, alpha,
            n_cols, KIND,
        )  # fmt: skip


@triton.jit
def _assemble(
    x_ptr, out_ptr, head_ptr, place_ptr, loss_ptr, target_ptr, share_ptr, alpha_ptr, alpha, ignore,
    n_cols, n_places,
    PLACES: tl.constexpr, R: tl.constexpr, C: tl.constexpr, FEW: tl.constexpr,
    SOME: tl.constexpr, WIDTH: tl.constexpr, KIND: tl.constexpr,
    STEPS: tl.constexpr, LOSS: tl.constexpr, DIGITS: tl.constexpr, SHARED: tl.constexpr,
    PER_ROW: tl.constexpr, IN_PLACE: tl.constexpr,
):  # fmt: skip
    """One long row per program."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    out_ptr += row * n_cols
    place_ptr += row * SOME
    loss_ptr += row
    number = tl.arange(0, PLACES)
    heads = tl.load(head_ptr + row * n_places + number, mask=number < n_places, other=float("-inf"))
    heads = heads.to(tl.float32)
    top = tl.reduce(heads, 0, _larger)
    base = tl.where(top == float("-inf"), 0.0, top)
    target = tl.load(target_ptr + row) if LOSS else 0
    used = (target != ignore) & (top != float("-inf"))
    share = _share(share_ptr, row, SHARED)
    kind = KIND
    if PER_ROW:
        alpha = tl.load(alpha_ptr + row)
        kind = _kind_of(alpha)
    for EACH in tl.static_range(POWER if PER_ROW else KIND, (STEEP if PER_ROW else KIND) + 1):
        if kind == EACH:
            _long_row(
                heads, base, x_ptr, out_ptr, place_ptr, loss_ptr, target, used, share, alpha,
                n_cols, PLACES, R, C, FEW, SOME, WIDTH, EACH, STEPS, LOSS, DIGITS, IN_PLACE,
            )  # fmt: skip


def supported(x: torch.Tensor) -> bool:
    """Whether the kernels take this tensor."""
    return x.dtype in _TYPES and 0 < x.shape[-1] <= LONGEST


def tsallis_map(x: torch.Tensor, alpha: float | torch.Tensor) -> torch.Tensor:
    """p of each row of a contiguous (rows, columns) tensor; rows of -inf alone give zeros.

    alpha : one number, or one per row (float32), at least 1.
    """
    if isinstance(alpha, torch.Tensor):
        return _launch(x, alpha, None)[0]
    cols, device = x.shape[-1], x.get_device()
    key = (x.dtype, cols, alpha, x.data_ptr() & 15, device)
    known = _short_maps.get(key)
    if known is None:
        return _launch(x, alpha, None, key=key)[0]
    out = torch.empty_like(x)
    again(known[0], x.numel() // cols, device, (x, out, x, x, x, x), known[1])
    return out


def tsallis_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    alpha: float | torch.Tensor,
    ignore: int = -100,
    share: torch.Tensor | None = None,
    in_place: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss (rows,) in float32 and its gradient p - y, both times ``share``.

    share : one number per row, or a single one by which all are divided (where it is not 0).
    in_place : whether the gradient takes the place of the scores.

    Labels to ignore and rows of -inf alone give zeros, a label that is no column a loss of NaN.
    """
    out, loss = _launch(x, alpha, target, ignore, share, in_place=in_place)
    return loss, out


def rescale(x: torch.Tensor, factor: torch.Tensor) -> None:
    """x times a number on the device, in place; x is not even read where that is 1."""
    size = x.numel()
    grid = (triton.cdiv(size, _BLOCK), 1, 1)
    launch(_rescale, grid, (x, factor, size), {"BLOCK": _BLOCK}, {"num_warps": 4})


@triton.jit
def _rescale(x_ptr, factor_ptr, size, BLOCK: tl.constexpr):
    factor = tl.load(factor_ptr).to(tl.float32)
    if factor != 1.0:
        index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + index, mask=index < size)
        tl.store(x_ptr + index, (x.to(tl.float32) * factor).to(x.dtype), mask=index < size)


def _launch(
    x: torch.Tensor,
    alpha: float | torch.Tensor,
    target: torch.Tensor | None,
    ignore: int = 0,
    share: torch.Tensor | None = None,
    key: tuple[Any, ...] | None = None,
    in_place: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    cols = x.shape[-1]
    rows = x.numel() // cols
    out = x if in_place else torch.empty_like(x)
    loss = x if target is None else torch.empty(rows, dtype=torch.float32, device=x.device)
    if rows == 0:
        return out, loss
    per_row = isinstance(alpha, torch.Tensor)
    value = 0.0 if per_row else float(alpha)
    kind = _kind(value)
    digits = 2 if x.element_size() == 4 or target is not None else 1
    shared = 0 if share is None else 1 if share.ndim else 2
    # a pointer that no kernel follows stands for what is not given
    given = (x if target is None else target, x if share is None else share)
    given += (alpha if per_row else x, value, ignore, cols)
    constants = {"KIND": kind.value, "STEPS": _STEPS, "LOSS": target is not None}
    constants |= {"DIGITS": digits, "SHARED": shared, "PER_ROW": per_row, "IN_PLACE": in_place}
    if cols <= _RESIDENT:
        (r, c), warps, limits = _tile(cols, x.element_size())
        two = digits == 2 and (per_row or (kind is POWER and value >= _TWO_FROM))
        constants |= {"R": r, "C": c, "TWO": two}
        known = launch(
            _resident, (rows, 1, 1), (x, out, loss, *given), constants,
            {"num_warps": warps, **limits},
        )  # fmt: skip
        if key is not None and known is not None:
            _short_maps[key] = known[0], (value, ignore, cols, *known[1])
        return out, loss
    plain = kind is SPARSEMAX or kind is ENTMAX15
    r, c, warps = _LONGER if plain and cols > _LONGER_FROM else _LONG
    c = min(c, triton.next_power_of_2(cols) // r)
    pieces = triton.cdiv(cols, r * c)
    heads = torch.empty((rows, pieces * c), dtype=x.dtype, device=x.device)
    places = torch.empty((rows, _SOME), dtype=torch.int32, device=x.device)
    launch(
        _heads, (rows, pieces, 1), (x, out, heads, cols, pieces),
        {"R": r, "C": c, "IN_PLACE": in_place}, {"num_warps": warps},
    )  # fmt: skip
    limits = {"num_warps": warps} if plain else _LONG_POWERS
    constants |= {"PLACES": triton.next_power_of_2(pieces * c), "R": r, "C": c, "FEW": _FEW}
    width = min(r * _SOME, limits["num_warps"] * 32 * (16 // x.element_size()))
    constants |= {"SOME": _SOME, "WIDTH": width}
    launch(
        _assemble,
        (rows, 1, 1),
        (x, out, heads, places, loss, *given, pieces * c),
        constants,
        limits,
    )
    return out, loss


def _kind(alpha: float) -> tl.constexpr:
    """How entries are computed at some alpha."""
    if alpha in (1.5, 2.0):
        return ENTMAX15 if alpha == 1.5 else SPARSEMAX
    return STEEP if alpha > 2 else POWER if alpha >= _POWER_FROM.value else FLAT


@cache
def _tile(cols: int, size: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """(R, C) with as many places as threads take in one access of 16 bytes, warps, limits.

    A short type leaves room for two programs at once on a multiprocessor, one loading while the
    other computes, where they are told to keep to half of the registers.
    """
    block = max(triton.next_power_of_2(cols), 32)
    warps = min(max(block // 1024, 1), 8)
    places = min(block, warps * 32 * (16 // size))
    half = size == 2 and warps == 8
    return (block // places, places), warps, {"maxnreg": 128} if half else {}
