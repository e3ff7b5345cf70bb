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
writes zeros and heads, and a second solves for the heads and then for the entries at the few places
whose head is above that solution, and writes their p.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_STEPS = 40  # at most
_RESIDENT = 32768  # columns of a row held in registers by one program
_LONG = (16, 512, 4, 4)  # R and C of the pieces of longer rows, warps of the two kernels
_FEW, _MANY = 128, 1024  # places that a long row may keep
_STREAM = 4096  # columns of a long row read at a time where more must be kept
_BLOCK = 4096  # numbers that a program rescales
LONGEST = 1 << 20  # columns
_TYPES = (torch.float16, torch.bfloat16, torch.float32)

SPARSEMAX, ENTMAX15, POWER, ANY = 2, 1, 3, 0  # kinds of entries: POWER for 1.1 <= alpha <= 2


@triton.jit
def _add2(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


@triton.jit
def _log1p(y):
    w = 1.0 + y
    return tl.where(w == 1.0, y, tl.log(w) * (y / tl.where(w == 1.0, 1.0, w - 1.0)))


@triton.jit
def _entries(u, t, alpha, KIND: tl.constexpr):
    """p and p^(2 - alpha) of the entries."""
    # entries are compared so that a NaN stays one: it reaches the sums, t and the whole row
    if KIND == 2:
        d = 1.0 + (u - t)
        p = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        s = tl.where(d <= 0.0, 0.0, 1.0)
    elif KIND == 1:
        d = 1.0 + 0.5 * (u - t)
        s = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        p = s * s
    elif KIND == 3:
        d = 1.0 + (alpha - 1.0) * (u - t)
        d = tl.maximum(d, 0.0, propagate_nan=tl.PropagateNan.ALL)
        s = tl.exp2((2.0 - alpha) / (alpha - 1.0) * tl.log2(d))
        p = s * d
    else:
        y = (alpha - 1.0) * (u - t)
        off = y <= -1.0
        safe = tl.where(off, 0.0, y)
        scale = tl.where(alpha == 1.0, 1.0, alpha - 1.0)
        log_p = tl.where(alpha == 1.0, u - t, _log1p(safe) / scale)
        p = tl.where(off, 0.0, tl.exp(log_p))
        s = tl.where(off, 0.0, tl.exp((2.0 - alpha) * log_p))
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
def _sums(u, t, alpha, KIND: tl.constexpr):
    """A and B over a tile whose first axis lies within threads, or over a vector."""
    p, s = _entries(u, t, alpha, KIND)
    if len(u.shape) == 2:
        p, s = tl.reduce((p, s), 0, _add2)
    return tl.reduce((p, s), 0, _add2)


@triton.jit
def _bracket(t, alpha, KIND: tl.constexpr):
    """Bounds of t: what it starts from, and 1 / (alpha - 1)."""
    high = t + 1e30
    if KIND == 0:
        high = t * 0.0 + tl.where(alpha > 1.0, 1.0 / tl.where(alpha > 1.0, alpha - 1.0, 1.0), 1e30)
    return t, high


@triton.jit
def _advance(t, low, high, a, b, alpha, KIND: tl.constexpr, WIDE: tl.constexpr):
    """t after a step, its bracket, and whether more steps are needed."""
    new = t + _step(a, b, alpha, KIND)
    # the error left after a step is about its square
    rough = 1e-7 if KIND == 2 else 1e-4 if KIND == 3 else 3e-5
    if KIND == 0:
        low = tl.where(a >= 1.0, t, low)
        high = tl.where(a >= 1.0, high, t)
        inside = ((new > low) & (new < high)) | (alpha <= 2.0)
        new = tl.where(inside, new, 0.5 * (low + high))
    new = tl.where(b == 0.0, t, tl.where(a == a, new, a))  # NaN ends the steps and stays
    if WIDE:
        go = tl.abs(new - t) > 1e-15
    elif KIND == 0:
        go = tl.where(alpha > 2.0, tl.abs(new - t) > 1e-7, new - t > rough)
    else:
        go = new - t > rough
    return new, low, high, go


@triton.jit
def _solve(u, t, alpha, KIND: tl.constexpr, STEPS: tl.constexpr, WIDE: tl.constexpr):
    """Newton's steps from t, which is not above the solution, until they are rounding."""
    low, high = _bracket(t, alpha, KIND)
    go = True
    count = 0
    while go:
        a, b = _sums(u, t, alpha, KIND)
        t, low, high, more = _advance(t, low, high, a, b, alpha, KIND, WIDE)
        count += 1
        go = more & (count < STEPS)
    return t


@triton.jit
def _score(x_ptr, target, n_cols):
    """The label's own score; NaN for a label that is none of the columns."""
    inside = (target >= 0) & (target < n_cols)
    return tl.load(x_ptr + target, mask=inside, other=float("nan")).to(tl.float32)


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
def _resident(
    x_ptr, out_ptr, loss_ptr, target_ptr, share_ptr, alpha_ptr, alpha, n_cols,
    R: tl.constexpr, C: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr,
    LOSS: tl.constexpr, SHARED: tl.constexpr, PER_ROW: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A row a program, held in registers."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    inside = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=float("-inf"))
    z = x.to(tl.float64 if WIDE else tl.float32)
    if PER_ROW:
        alpha = tl.load(alpha_ptr + row)
    heads = tl.max(z, 0)
    top = tl.max(heads, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    u = z - base
    t = base * 0.0
    if R > 1:
        t = _solve(heads - base, t, alpha, KIND, STEPS, WIDE)
    t = _solve(u, t, alpha, KIND, STEPS, WIDE)
    p, _ = _entries(u, t, alpha, KIND)
    if LOSS:
        target = tl.load(target_ptr + row)
        used = (target >= 0) & (top != float("-inf"))
        sums = tl.reduce((p, p * tl.where(p > 0.0, u, 0.0)), 0, _add2)
        mass, gain = tl.reduce(sums, 0, _add2)
        own = _score(x_ptr + row * n_cols, target, n_cols) - base
        loss = _loss(mass, gain, own, t, alpha, KIND)
        share = tl.load(share_ptr + row) if SHARED else 1.0
        tl.store(loss_ptr + row, tl.where(used, loss * share, 0.0))
        p = tl.where(used, (p - tl.where(cols == target, 1.0, 0.0)) * share, 0.0)
    tl.store(out_ptr + row * n_cols + cols, p.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _stream(
    x_ptr, out_ptr, loss_ptr, target, share, alpha, n_cols,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr,
    LOSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Solve a row that is read again in every step: heads first, then all of it."""
    lane = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float64 if WIDE else tl.float32)
    for k in range(BLOCKS):
        cols = k * BLOCK + lane
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=float("-inf"))
        best = tl.maximum(best, x.to(best.dtype))
    top = tl.max(best, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    t = _solve(best - base, base * 0.0, alpha, KIND, STEPS, WIDE)
    low, high = _bracket(t, alpha, KIND)
    go = True
    count = 0
    while go:
        p_lane = tl.zeros((BLOCK,), best.dtype)
        s_lane = tl.zeros((BLOCK,), best.dtype)
        for k in range(BLOCKS):
            cols = k * BLOCK + lane
            x = tl.load(x_ptr + cols, mask=cols < n_cols, other=float("-inf"))
            p, s = _entries(x.to(best.dtype) - base, t, alpha, KIND)
            p_lane += p
            s_lane += s
        a, b = tl.reduce((p_lane, s_lane), 0, _add2)
        t, low, high, moved = _advance(t, low, high, a, b, alpha, KIND, WIDE)
        count += 1
        go = moved & (count < STEPS)
    p_lane = tl.zeros((BLOCK,), best.dtype)
    gain_lane = tl.zeros((BLOCK,), best.dtype)
    used = (target >= 0) & (top != float("-inf"))
    for k in range(BLOCKS):
        cols = k * BLOCK + lane
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=float("-inf"))
        u = x.to(best.dtype) - base
        p, _ = _entries(u, t, alpha, KIND)
        if LOSS:
            p_lane += p
            gain_lane += p * tl.where(p > 0.0, u, 0.0)
            p = tl.where(used, (p - tl.where(cols == target, 1.0, 0.0)) * share, 0.0)
        tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=cols < n_cols)
    if LOSS:
        mass, gain = tl.reduce((p_lane, gain_lane), 0, _add2)
        own = _score(x_ptr, target, n_cols) - base
        loss = _loss(mass, gain, own, t, alpha, KIND)
        tl.store(loss_ptr, tl.where(used, loss * share, 0.0))


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
def _gather(
    x_ptr, out_ptr, loss_ptr, place_ptr, count, target, share, alpha, n_cols,
    R: tl.constexpr, C: tl.constexpr, KEPT: tl.constexpr, KIND: tl.constexpr,
    STEPS: tl.constexpr, LOSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Solve a row for the entries at the places kept, and write their p."""
    number = tl.arange(0, KEPT)
    place = tl.load(place_ptr + number, mask=number < count, other=0)
    cols = (place // C * (R * C) + place % C)[:, None] + tl.arange(0, R)[None, :] * C
    kept = (number < count)[:, None] & (cols < n_cols)
    z = tl.load(x_ptr + cols, mask=kept, other=float("-inf"))
    z = z.to(tl.float64 if WIDE else tl.float32)
    top = tl.max(tl.max(z, 0), 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    u = z - base
    t = _solve(u, base * 0.0, alpha, KIND, STEPS, WIDE)
    p, _ = _entries(u, t, alpha, KIND)
    if LOSS:
        used = (target >= 0) & (top != float("-inf"))
        sums = tl.reduce((p, p * tl.where(p > 0.0, u, 0.0)), 0, _add2)
        mass, gain = tl.reduce(sums, 0, _add2)
        own = _score(x_ptr, target, n_cols) - base
        loss = _loss(mass, gain, own, t, alpha, KIND)
        tl.store(loss_ptr, tl.where(used, loss * share, 0.0))
        mine = kept & (cols == target)
        p = tl.where(used, (p - tl.where(mine, 1.0, 0.0)) * share, 0.0)
        # a label at no place kept has p = 0
        lost = used & (tl.sum(tl.sum(mine.to(tl.int32), 0), 0) == 0)
        minus = tl.full((), -1.0, tl.float32) * share
        minus = minus.to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + target, minus, mask=lost & (target < n_cols))
    tl.store(out_ptr + cols, p.to(out_ptr.dtype.element_ty), mask=kept)


@triton.jit
def _assemble(
    x_ptr, out_ptr, head_ptr, place_ptr, loss_ptr, target_ptr, share_ptr, alpha_ptr, alpha,
    n_cols, n_places,
    PLACES: tl.constexpr, R: tl.constexpr, C: tl.constexpr, FEW: tl.constexpr, MANY: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr,
    LOSS: tl.constexpr, SHARED: tl.constexpr, PER_ROW: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Solve a long row from its heads, and write p at the places that matter."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    out_ptr += row * n_cols
    loss_ptr += row
    if PER_ROW:
        alpha = tl.load(alpha_ptr + row)
    target = tl.full((), -1, tl.int64)
    share = 1.0
    if LOSS:
        target = tl.load(target_ptr + row)
    if SHARED:
        share = tl.load(share_ptr + row)
    number = tl.arange(0, PLACES)
    heads = tl.load(head_ptr + row * n_places + number, mask=number < n_places, other=float("-inf"))
    z = heads.to(tl.float64 if WIDE else tl.float32)
    top = tl.max(z, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    t = _solve(z - base, base * 0.0, alpha, KIND, STEPS, WIDE)
    # steps that end in rounding may end a little above the solution
    p, _ = _entries(z - base, t - 1e-5, alpha, KIND)
    kept = p > 0.0
    ones = kept.to(tl.int32)
    position = tl.cumsum(ones, 0) - ones
    count = tl.sum(ones, 0)
    place_ptr += row * MANY
    tl.store(place_ptr + position, number, mask=kept & (position < MANY))
    tl.debug_barrier()
    if (count > MANY) | (t != t):
        _stream(
            x_ptr, out_ptr, loss_ptr, target, share, alpha, n_cols,
            BLOCKS, BLOCK, KIND, STEPS, LOSS, WIDE,
        )  # fmt: skip
    elif count > FEW:
        _gather(
            x_ptr, out_ptr, loss_ptr, place_ptr, count, target, share, alpha, n_cols,
            R, C, MANY, KIND, STEPS, LOSS, WIDE,
        )  # fmt: skip
    else:
        _gather(
            x_ptr, out_ptr, loss_ptr, place_ptr, count, target, share, alpha, n_cols,
            R, C, FEW, KIND, STEPS, LOSS, WIDE,
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
    share: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss (rows,) in float32 and its gradient p - y, both times ``share`` (rows,) if given.

    Negative labels and rows of -inf alone give zeros, a label beyond the columns a loss of NaN.
    """
    out, loss = _launch(x, alpha, target, share)
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
    share: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows, cols = x.shape
    out = torch.empty_like(x)
    loss = torch.empty(rows if target is not None else 0, dtype=torch.float32, device=x.device)
    if rows == 0:
        return out, loss
    per_row = isinstance(alpha, torch.Tensor)
    value = 0.0 if per_row else float(alpha)
    kind = {2.0: SPARSEMAX, 1.5: ENTMAX15}.get(value, POWER if 1.1 <= value <= 2 else ANY)
    settings = {"KIND": kind, "STEPS": _STEPS, "PER_ROW": per_row}
    settings |= {"LOSS": target is not None, "SHARED": share is not None}
    settings["WIDE"] = value > 2  # p = d^(1/(alpha - 1)) of a small d needs its digits
    # a pointer that no kernel follows stands for what is not given
    given = [x if part is None else part for part in (target, share)]
    given.append(alpha if per_row else x)
    if cols <= _RESIDENT:
        (r, c), warps, limits = _tile(cols, x.element_size(), kind)
        _resident[(rows,)](
            x, out, loss, *given, value, cols, r, c, num_warps=warps, **limits, **settings
        )
        return out, loss
    r, c, warps, solvers = _LONG
    pieces = triton.cdiv(cols, r * c)
    heads = torch.empty((rows, pieces * c), dtype=x.dtype, device=x.device)
    places = torch.empty((rows, _MANY), dtype=torch.int32, device=x.device)
    _heads[(rows, pieces)](x, out, heads, cols, pieces, r, c, num_warps=warps)
    _assemble[(rows,)](
        x, out, heads, places, loss, *given, value, cols, pieces * c,
        triton.next_power_of_2(pieces * c), r, c, _FEW, _MANY,
        triton.cdiv(cols, _STREAM), _STREAM, num_warps=solvers, **settings,
    )  # fmt: skip
    return out, loss


def _tile(cols: int, size: int, kind: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """(R, C) with as many places as threads take in one access of 16 bytes, warps, limits.

    Powers need registers beside the row; a short type leaves room for two programs at once where
    they are told to keep to half of the registers.
    """
    block = max(triton.next_power_of_2(cols), 32)
    warps = min(max(block // 1024, 1), 8 if kind in (SPARSEMAX, ENTMAX15) else 16)
    places = min(block, warps * 32 * (16 // size))
    limits = {"maxnreg": 128} if kind == ENTMAX15 and size == 2 and warps == 8 else {}
    return (block // places, places), warps, limits
