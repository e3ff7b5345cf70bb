"""Tsallis maps and losses as Triton kernels: one read of the scores, one write of the result.

A row of scores x has p_j = [1 + (alpha - 1)(u_j - t)]_+^(1/(alpha - 1)) with u = x - max x. At
t = 0 the largest entry is 1, so that the sum of p is at least 1; t grows from there. With A = sum p
and B = sum p^(2 - alpha) = -dA/dt, Newton's step on the norm A^(alpha - 1) is

    A (1 - A^(1 - alpha)) / ((alpha - 1) B)

The norm is convex in t for alpha <= 2, so that t never passes the solution; at alpha = 2 the steps
are Michelot's and end exactly, at alpha = 1 one step, log A, is softmax. For alpha > 2 they are
kept in a bracket. On the support p^(alpha - 1) = 1 + (alpha - 1)(u - t), so that
Omega(p) = sum p (u - t) / alpha and the loss needs no further powers.

Rows are read as tiles (R, C) of R entries at each of C places, and the largest entry of a place is
its head. The solution for some entries is below that for all, so steps that see the heads alone
make a start close to the end. Rows that fit are held in registers. For longer rows a first kernel
writes zeros and heads, and a second solves for the heads and then for the entries at the places
whose head is above that solution, and writes their p.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_STEPS = 40  # at most
_RESIDENT, _RESIDENT_WIDE = 32768, 64  # columns of a row held in registers; as float64
_LONG = (16, 512, 4)  # R and C of the pieces of longer rows, warps
_FEW, _SOME, _MANY = 128, 512, 4096  # places that a long row keeps: in registers, or in a list
_BLOCK = 4096  # numbers that a program rescales
LONGEST = 1 << 20  # columns
_TYPES = (torch.float16, torch.bfloat16, torch.float32)

SPARSEMAX, ENTMAX15, POWER, ANY = 2, 1, 3, 0  # kinds of entries
_POWER_FROM = tl.constexpr(1.1)  # to 2; below, the device's log2 is not good enough
# instructions of the device itself; Triton's interpreter and other devices have none of them
_NVIDIA = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)


@triton.jit
def _add2(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


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
def _above(x, base, WIDE: tl.constexpr):
    """x - base in float32 or float64; x itself stays as it is in registers between two uses."""
    # not pure, or the compiler would move it out of loops and hold the wider numbers
    if _NVIDIA and x.dtype == tl.bfloat16 and x.numel >= 2048:
        z = tl.inline_asm_elementwise(
            "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;", "=&f,=&f,r", [x],
            dtype=tl.float32, is_pure=False, pack=2,
        )  # fmt: skip
    else:
        z = x.to(tl.float32)
    if WIDE and _NVIDIA:
        wide = tl.inline_asm_elementwise(
            "cvt.f64.f32 $0, $1;", "=d,f", [z], dtype=tl.float64, is_pure=False, pack=1
        )
    elif WIDE:
        wide = z.to(tl.float64)
    else:
        wide = z
    return wide - base


@triton.jit
def _entries(u, t, alpha, KIND: tl.constexpr):
    """p and p^(2 - alpha) of the entries."""
    # entries are compared so that a NaN stays one: it reaches the sums, t and the whole row
    if KIND == 2:
        d = u + (1.0 - t)
        p = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        s = tl.where(d <= 0.0, 0.0, 1.0)
    elif KIND == 1:
        d = 0.5 * u + (1.0 - 0.5 * t)
        s = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        p = s * s
    elif KIND == 3:
        d = (alpha - 1.0) * u + (1.0 - (alpha - 1.0) * t)
        d = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        power = tl.maximum((2.0 - alpha) / (alpha - 1.0), 1e-30)  # at alpha = 2 still 0 for d = 0
        s = _exp2(power * _log2(d))
        p = s * d
    else:
        scale = tl.where(alpha == 1.0, 1.0, alpha - 1.0)
        y = tl.where(alpha == 1.0, 0.0, scale * (u - t))
        w = 1.0 + y
        off = w <= 0.0
        w = tl.where(off, 1.0, w)
        inverse = 1.0 / w
        log_w = tl.log(w) + (y - (w - 1.0)) * inverse  # log1p
        log_p = tl.where(alpha == 1.0, u - t, log_w * (1.0 / scale))
        p = tl.where(off, 0.0, tl.exp(log_p))
        s = p * inverse
    return p, s


@triton.jit
def _step(a, b, alpha, KIND: tl.constexpr):
    """Newton's step on the norm of the entries."""
    b = tl.where(b > 0.0, b, 1.0)
    if KIND == 2:
        return (a - 1.0) / b
    if KIND == 1:
        return 2.0 * (a - tl.sqrt(a)) / b
    gain = (alpha - 1.0) * tl.log(tl.where(a > 0.0, a, 1.0))
    # -expm1(-gain) / (alpha - 1), by its series where it cancels
    small = tl.abs(gain) < 1e-2
    part = tl.where(
        small,
        gain * (1.0 - gain * (0.5 - gain * (1.0 / 6.0 - gain / 24.0))),
        1.0 - tl.exp(-gain),
    )
    scaled = tl.where(
        alpha == 1.0,
        tl.log(tl.where(a > 0.0, a, 1.0)),
        part / tl.where(alpha == 1.0, 1.0, alpha - 1.0),
    )
    return a * scaled / b


@triton.jit
def _sums(x, base, t, alpha, KIND: tl.constexpr, WIDE: tl.constexpr):
    """A and B over a tile whose first axis lies within threads, or over a vector."""
    p, s = _entries(_above(x, base, WIDE), t, alpha, KIND)
    if len(x.shape) == 2:
        p, s = tl.reduce((p, s), 0, _add2)
    return tl.reduce((p, s), 0, _add2)


@triton.jit
def _bracket(t, alpha, KIND: tl.constexpr):
    """Bounds of t: 0 and 1 / (alpha - 1), of use for alpha > 2 alone."""
    low, high = t, t + 1e30
    if KIND == 0:
        low = t * 0.0
        high = t * 0.0 + tl.where(alpha > 1.0, 1.0 / tl.where(alpha > 1.0, alpha - 1.0, 1.0), 1e30)
    return low, high


@triton.jit
def _advance(t, low, high, a, b, alpha, KIND: tl.constexpr, WIDE: tl.constexpr):
    """t after a step, its bracket, and whether more steps are needed."""
    new = t + _step(a, b, alpha, KIND)
    # the error left after a step is about its square, unless p is nearly linear at its end
    rough = 1e-7 if KIND == 2 else 3e-5
    if KIND == 3:
        rough = tl.where(alpha > 1.75, 1e-6, 1e-4)
    if KIND == 0:
        low = tl.where(a >= 1.0, t, low)
        high = tl.where(a >= 1.0, high, t)
        inside = ((new > low) & (new < high)) | (alpha <= 2.0)
        new = tl.where(inside, new, 0.5 * (low + high))
    new = tl.where(b == 0.0, t, tl.where(a == a, new, a))  # NaN ends the steps and stays
    if WIDE:
        go = tl.abs(new - t) > 1e-15
    elif KIND == 0:
        go = tl.where(alpha > 2.0, tl.abs(new - t) > 1e-6, new - t > rough)
    else:
        go = new - t > rough
    return new, low, high, go


@triton.jit
def _solve(x, base, t, alpha, KIND: tl.constexpr, STEPS: tl.constexpr, WIDE: tl.constexpr):
    """Newton's steps from t, which is not above the solution, until they are rounding."""
    low, high = _bracket(t, alpha, KIND)
    go = True
    count = 0
    while go:
        a, b = _sums(x, base, t, alpha, KIND, WIDE)
        t, low, high, more = _advance(t, low, high, a, b, alpha, KIND, WIDE)
        count += 1
        go = more & (count < STEPS)
    return t


@triton.jit
def _loss(mass, gain, own, t, alpha, KIND: tl.constexpr):
    """Omega*(x) - x_y from the sums of p and p u, and u at the label."""
    if KIND == 2:
        alpha = 2.0
    if KIND == 1:
        alpha = 1.5
    loss = gain - mass * own - (gain - mass * t) / alpha
    return tl.where(loss < 0.0, 0.0, loss)  # NaN stays


@triton.jit
def _mass_and_gain(p, u):
    """Sums of p and p u over a tile."""
    mass, gain = tl.reduce((p, p * tl.where(p > 0.0, u, 0.0)), 0, _add2)
    return tl.reduce((mass, gain), 0, _add2)


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
def _label(
    x_ptr, out_ptr, loss_ptr, target, used, mass, gain, base, t, share, alpha, n_cols,
    KIND: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The loss of a row, NaN for a label that is none of the columns, and the gradient there."""
    one = tl.arange(0, 1)
    column = tl.where(used, target, -1) + one
    inside = (column >= 0) & (column < n_cols)
    own = tl.load(x_ptr + column, mask=inside, other=float("nan"))
    own = _above(own, base, WIDE)
    loss = _loss(mass, gain, own, t, alpha, KIND)
    tl.store(loss_ptr + one, tl.where(used, loss * share, 0.0))
    p, _ = _entries(own, t, alpha, KIND)
    tl.debug_barrier()  # p itself has been written there before
    tl.store(out_ptr + column, ((p - 1.0) * share).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _held(
    x, heads, base, alpha,
    R: tl.constexpr, C: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """t and p of a row held in registers."""
    t = base * 0.0
    if R > 1:
        if KIND == 3:  # powers are dear: with the second largest of a place fewer steps see all
            z = _above(x, 0.0, False)
            second = tl.max(tl.where(z == heads[None, :], float("-inf"), z), 0)
            t = _solve(tl.trans(tl.join(heads, second)), base, t, alpha, KIND, STEPS, False)
        else:
            t = _solve(heads, base, t, alpha, KIND, STEPS, False)
    if WIDE:
        t = t.to(tl.float64)
    t = _solve(x, base, t, alpha, KIND, STEPS, WIDE)
    p, _ = _entries(_above(x, base, WIDE), t, alpha, KIND)
    return t, p


@triton.jit
def _resident(
    x_ptr, out_ptr, loss_ptr, target_ptr, share_ptr, alpha_ptr, alpha, ignore, n_cols,
    R: tl.constexpr, C: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr,
    LOSS: tl.constexpr, SHARED: tl.constexpr, PER_ROW: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A row a program, held in registers."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    out_ptr += row * n_cols
    cols = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    inside = cols < n_cols
    x = tl.load(x_ptr + cols, mask=inside, other=float("-inf"))
    if PER_ROW:
        alpha = tl.load(alpha_ptr + row)
    heads = tl.max(_above(x, 0.0, False), 0)
    top = tl.max(heads, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    if PER_ROW:
        if (alpha >= _POWER_FROM) & (alpha <= 2.0):
            t, p = _held(x, heads, base, alpha, R, C, 3, STEPS, WIDE)
        else:
            t, p = _held(x, heads, base, alpha, R, C, KIND, STEPS, WIDE)
    else:
        t, p = _held(x, heads, base, alpha, R, C, KIND, STEPS, WIDE)
    if LOSS:
        target = tl.load(target_ptr + row)
        used = (target != ignore) & (top != float("-inf"))
        share = _share(share_ptr, row, SHARED)
        mass, gain = _mass_and_gain(p, _above(x, base, WIDE))
        p = tl.where(used, p * share, 0.0)
    tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=inside)
    if LOSS:
        _label(
            x_ptr, out_ptr, loss_ptr + row, target, used, mass, gain, base, t, share, alpha,
            n_cols, KIND, WIDE,
        )  # fmt: skip


@triton.jit
def _heads(
    x_ptr, out_ptr, head_ptr, n_cols, n_pieces,
    R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Zeros for a piece of a row, and the largest entry of each place."""
    row = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1)
    cols = piece * R * C + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    inside = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=float("-inf"))
    zero = tl.zeros((R, C), dtype=out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * n_cols + cols, zero, mask=inside)
    z = x.to(tl.float32)
    # a head that is NaN tells of any NaN at its place
    heads = tl.max(z, 0)
    broken = tl.max((z != z).to(tl.int32), 0) > 0
    heads = tl.where(broken, float("nan"), heads)
    tl.store(head_ptr + (row * n_pieces + piece) * C + tl.arange(0, C), heads.to(x.dtype))


@triton.jit
def _columns(
    place_ptr, first, count, whole, n_cols, R: tl.constexpr, C: tl.constexpr, KEPT: tl.constexpr
):
    """Columns (R, KEPT) of the places kept, from number ``first`` on, and which of them exist."""
    number = first + tl.arange(0, KEPT)
    known = number < count
    listed = tl.where(whole, 0, count)
    place = tl.load(place_ptr + number, mask=number < listed, other=0)
    place = tl.where(number < listed, place, number)
    cols = (place // C * (R * C) + place % C)[None, :] + tl.arange(0, R)[:, None] * C
    return cols, known[None, :] & (cols < n_cols)


@triton.jit
def _gather(
    x_ptr, out_ptr, place_ptr, count, base, t, used, share, alpha, n_cols,
    R: tl.constexpr, C: tl.constexpr, KEPT: tl.constexpr, KIND: tl.constexpr,
    STEPS: tl.constexpr, LOSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Solve a row for the entries at the places kept, from t on, and write their p.

    Returns t and the sums of p and p u.
    """
    cols, kept = _columns(place_ptr, 0, count, False, n_cols, R, C, KEPT)
    x = tl.load(x_ptr + cols, mask=kept, other=float("-inf"))
    t = _solve(x, base, t, alpha, KIND, STEPS, WIDE)
    u = _above(x, base, WIDE)
    p, _ = _entries(u, t, alpha, KIND)
    mass, gain = t, t
    if LOSS:
        mass, gain = _mass_and_gain(p, u)
        p = tl.where(used, p * share, 0.0)
    tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=kept)
    return t, mass, gain


@triton.jit
def _visit(
    x_ptr, out_ptr, place_ptr, count, whole, base, t, used, share, alpha, n_cols,
    R: tl.constexpr, C: tl.constexpr, KEPT: tl.constexpr, KIND: tl.constexpr,
    STEPS: tl.constexpr, LOSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """As _gather for any number of places: entries are read again in every step."""
    low, high = _bracket(t, alpha, KIND)
    zero = tl.zeros((KEPT,), tl.float64 if WIDE else tl.float32)
    go = True
    steps = 0
    while go:
        a, b = zero, zero
        first = 0
        while first < count:
            cols, kept = _columns(place_ptr, first, count, whole, n_cols, R, C, KEPT)
            x = tl.load(x_ptr + cols, mask=kept, other=float("-inf"))
            p, s = _entries(_above(x, base, WIDE), t, alpha, KIND)
            a += tl.sum(p, 0)
            b += tl.sum(s, 0)
            first += KEPT
        t, low, high, more = _advance(
            t, low, high, tl.sum(a, 0), tl.sum(b, 0), alpha, KIND, WIDE
        )  # fmt: skip
        steps += 1
        go = more & (steps < STEPS)
    mass, gain = zero, zero
    first = 0
    while first < count:
        cols, kept = _columns(place_ptr, first, count, whole, n_cols, R, C, KEPT)
        x = tl.load(x_ptr + cols, mask=kept, other=float("-inf"))
        u = _above(x, base, WIDE)
        p, _ = _entries(u, t, alpha, KIND)
        if LOSS:
            mass += tl.sum(p, 0)
            gain += tl.sum(p * tl.where(p > 0.0, u, 0.0), 0)
            p = tl.where(used, p * share, 0.0)
        tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=kept)
        first += KEPT
    return t, tl.sum(mass, 0), tl.sum(gain, 0)


@triton.jit
def _assemble(
    x_ptr, out_ptr, head_ptr, place_ptr, loss_ptr, target_ptr, share_ptr, alpha_ptr, alpha, ignore,
    n_cols, n_places,
    PLACES: tl.constexpr, R: tl.constexpr, C: tl.constexpr, FEW: tl.constexpr,
    SOME: tl.constexpr, MANY: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr,
    LOSS: tl.constexpr, SHARED: tl.constexpr, PER_ROW: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Solve a long row from its heads, and write p at the places that matter."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    out_ptr += row * n_cols
    if PER_ROW:
        alpha = tl.load(alpha_ptr + row)
    number = tl.arange(0, PLACES)
    heads = tl.load(head_ptr + row * n_places + number, mask=number < n_places, other=float("-inf"))
    z = heads.to(tl.float32)
    top = tl.max(z, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    target = tl.load(target_ptr + row) if LOSS else 0
    used = (target != ignore) & (top != float("-inf"))
    share = _share(share_ptr, row, SHARED)
    t = _solve(z, base, base * 0.0, alpha, KIND, STEPS, False)
    # rounding may end a little above the solution; a NaN stays
    t = tl.where(t <= 1e-5, t * 0.0, t - 1e-5)
    p, _ = _entries(z - base, t, alpha, KIND)
    kept = p > 0.0
    if WIDE:
        t = t.to(tl.float64)
    ones = kept.to(tl.int32)
    position = tl.cumsum(ones, 0) - ones
    count = tl.sum(ones, 0)
    place_ptr += row * MANY
    tl.store(place_ptr + position, number, mask=kept & (position < MANY))
    tl.debug_barrier()
    whole = (count > MANY) | (t != t)
    # one way for float64: its powers are long, and would be compiled three times
    if WIDE | whole | (count > SOME):
        t, mass, gain = _visit(
            x_ptr, out_ptr, place_ptr, tl.where(whole, n_places, count), whole, base, t, used,
            share, alpha, n_cols, R, C, FEW if WIDE else SOME, KIND, STEPS, LOSS, WIDE,
        )  # fmt: skip
    elif count > FEW:
        t, mass, gain = _gather(
            x_ptr, out_ptr, place_ptr, count, base, t, used, share, alpha, n_cols,
            R, C, SOME, KIND, STEPS, LOSS, WIDE,
        )  # fmt: skip
    else:
        t, mass, gain = _gather(
            x_ptr, out_ptr, place_ptr, count, base, t, used, share, alpha, n_cols,
            R, C, FEW, KIND, STEPS, LOSS, WIDE,
        )  # fmt: skip
    if LOSS:
        _label(
            x_ptr, out_ptr, loss_ptr + row, target, used, mass, gain, base, t, share, alpha,
            n_cols, KIND, WIDE,
        )  # fmt: skip


def supported(x: torch.Tensor) -> bool:
    """Whether the kernels take this tensor."""
    return x.dtype in _TYPES and 0 < x.shape[-1] <= LONGEST


def tsallis_map(x: torch.Tensor, alpha: float | torch.Tensor) -> torch.Tensor:
    """p of each row of a contiguous (rows, columns) tensor; rows of -inf alone give zeros.

    alpha : one number, or one a row (float32), at least 1.
    """
    return _launch(x, alpha, None)[0]


def tsallis_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    alpha: float | torch.Tensor,
    ignore: int = -100,
    share: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss (rows,) in float32 and its gradient p - y, both times ``share``.

    share : one number a row, or a single one by which all are divided (where it is not 0).

    Labels to ignore and rows of -inf alone give zeros, a label that is no column a loss of NaN.
    """
    out, loss = _launch(x, alpha, target, ignore, share)
    return loss, out


def rescale(x: torch.Tensor, factor: torch.Tensor) -> None:
    """x times a number on the device, in place; x is not even read where that is 1."""
    size = x.numel()
    _rescale[(triton.cdiv(size, _BLOCK),)](x, factor, size, _BLOCK, num_warps=4)


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
) -> tuple[torch.Tensor, torch.Tensor]:
    rows, cols = x.shape
    out = torch.empty_like(x)
    loss = torch.empty(rows if target is not None else 0, dtype=torch.float32, device=x.device)
    if rows == 0:
        return out, loss
    per_row = isinstance(alpha, torch.Tensor)
    value = 0.0 if per_row else float(alpha)
    kind = {2.0: SPARSEMAX, 1.5: ENTMAX15}.get(
        value, POWER if _POWER_FROM.value <= value <= 2 else ANY
    )
    settings = {"KIND": kind, "STEPS": _STEPS, "PER_ROW": per_row, "enable_fp_fusion": True}
    settings |= {"LOSS": target is not None}
    settings["SHARED"] = 0 if share is None else 1 if share.ndim else 2
    wide = value > 2  # p = d^(1/(alpha - 1)) of a small d needs its digits
    settings["WIDE"] = wide
    # a pointer that no kernel follows stands for what is not given
    given = [x if part is None else part for part in (target, share)]
    given.append(alpha if per_row else x)
    if cols <= (_RESIDENT_WIDE if wide else _RESIDENT):
        (r, c), warps, limits = _tile(cols, x.element_size(), kind)
        _resident[(rows,)](
            x, out, loss, *given, value, ignore, cols, r, c, num_warps=warps, **limits, **settings
        )
        return out, loss
    r, c, warps = _LONG
    c = min(c, triton.next_power_of_2(cols) // r)
    pieces = triton.cdiv(cols, r * c)
    heads = torch.empty((rows, pieces * c), dtype=x.dtype, device=x.device)
    places = torch.empty((rows, _MANY), dtype=torch.int32, device=x.device)
    _heads[(rows, pieces)](x, out, heads, cols, pieces, r, c, num_warps=warps)
    _assemble[(rows,)](
        x, out, heads, places, loss, *given, value, ignore, cols, pieces * c,
        triton.next_power_of_2(pieces * c), r, c, _FEW, _SOME, _MANY, **settings,
        num_warps=warps if kind in (SPARSEMAX, ENTMAX15) else 2 * warps,
    )  # fmt: skip
    return out, loss


def _tile(cols: int, size: int, kind: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """(R, C) with as many places as threads take in one access of 16 bytes, warps, limits.

    A short type leaves room for two programs at once on a multiprocessor, one loading while the
    other computes, where they are told to keep to half of the registers.
    """
    block = max(triton.next_power_of_2(cols), 32)
    warps = min(max(block // 1024, 1), 16 if kind == ANY else 8)  # ANY needs registers of its own
    fewer_heads = kind == POWER and size == 2 and warps == 1  # they would cost more than they save
    places = min(block, warps * 32 * (2 if fewer_heads else 16 // size))
    half = size == 2 and warps == 8 and kind != ANY
    return (block // places, places), warps, {"maxnreg": 128} if half else {}
