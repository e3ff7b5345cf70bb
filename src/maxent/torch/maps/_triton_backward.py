"""Backward of the Tsallis maps as a Triton kernel: one read of p and g, one write of the product.

The Jacobian is diag(s) - s s' / sum s with s = p^(2 - alpha) on the support, so that a row of the
result is s (g - <s, g> / sum s).
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

import torch
from maxent.torch.maps._launching import again, launch
from maxent.torch.maps._triton import ENTMAX15, SPARSEMAX, _exp2, _kind, _log2, _sum2

_RESIDENT = 32768  # columns of a row held in registers; longer rows are read twice
_WARPS = 16
_vjps: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}  # how they are launched again


@triton.jit
def _weights(p, alpha, KIND: tl.constexpr):
    """p^(2 - alpha) on the support, 0 off it; a NaN stays."""
    off = p * 0.0
    if KIND == SPARSEMAX:
        s = tl.where(p > 0.0, 1.0, off)
    elif KIND == ENTMAX15:
        s = tl.sqrt(p)
    else:
        s = tl.where(p > 0.0, _exp2((2.0 - alpha) * _log2(p)), off)
    return s


@triton.jit
def _products(p_ptr, g_ptr, cols, n_cols, alpha, KIND: tl.constexpr):
    """s and g at some columns, 0 beyond the row's end."""
    p = tl.load(p_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    return _weights(p, alpha, KIND), g


@triton.jit
def _vjp(
    p_ptr, g_ptr, out_ptr, alpha_ptr, alpha, n_cols,
    R: tl.constexpr, C: tl.constexpr, KIND: tl.constexpr, PER_ROW: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """One row per program."""
    row = tl.program_id(0).to(tl.int64)
    p_ptr += row * n_cols
    g_ptr += row * n_cols
    out_ptr += row * n_cols
    if PER_ROW:
        alpha = tl.load(alpha_ptr + row)
    cols = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    s, g = _products(p_ptr, g_ptr, cols, n_cols, alpha, KIND)
    mass, gain = _sum2(s, s * g)
    if not WHOLE:
        first = R * C
        while first < n_cols:
            s, g = _products(p_ptr, g_ptr, first + cols, n_cols, alpha, KIND)
            more, much = _sum2(s, s * g)
            mass += more
            gain += much
            first += R * C
    mean = gain / tl.where(mass == 0.0, 1.0, mass)
    if WHOLE:
        out = (s * (g - mean)).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + cols, out, mask=cols < n_cols)
    else:
        first = 0
        while first < n_cols:
            s, g = _products(p_ptr, g_ptr, first + cols, n_cols, alpha, KIND)
            out = (s * (g - mean)).to(out_ptr.dtype.element_ty)
            tl.store(out_ptr + first + cols, out, mask=first + cols < n_cols)
            first += R * C


def tsallis_vjp(p: torch.Tensor, g: torch.Tensor, alpha: float | torch.Tensor) -> torch.Tensor:
    """The Jacobian of each row's map, at p, times g: contiguous (rows, columns), one type.

    alpha : one number, or one per row (float32).
    """
    cols = p.shape[-1]
    rows, device = p.numel() // cols, p.get_device()
    out = torch.empty_like(p)
    if rows == 0:
        return out
    per_row = isinstance(alpha, torch.Tensor)
    key = (p.dtype, cols, 0.0 if per_row else alpha, (p.data_ptr() | g.data_ptr()) & 15, device)
    known = None if per_row else _vjps.get(key)
    if known is not None:
        again(known[0], rows, device, (p, g, out, p), known[1])
        return out
    value = 0.0 if per_row else float(alpha)
    block = min(max(triton.next_power_of_2(cols), 32), _RESIDENT)
    warps = min(max(block // 1024, 1), _WARPS)
    places = min(block, warps * 32 * (16 // p.element_size()))
    constants = {"R": block // places, "C": places, "KIND": _kind(value).value}
    constants |= {"PER_ROW": per_row, "WHOLE": cols <= block}
    given = (p, g, out, alpha if per_row else p, value, cols)
    known = launch(_vjp, (rows, 1, 1), given, constants, {"num_warps": warps})
    if known is not None and not per_row:
        _vjps[key] = known[0], (value, cols, *known[1])
    return out
