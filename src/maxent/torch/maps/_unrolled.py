"""The maps in a fixed sequence of differentiable operations, for what records operations.

``torch.jit.trace`` and ONNX know nothing of our kernels and of loops that end when they are done.
The threshold is found by bisection without a derivative; a last Newton step that has one gives the
map its exact Jacobian. Rows and parameters as in the plain operations.
"""

from __future__ import annotations

import math

import torch
from maxent.torch.maps import _plain
from maxent.torch.maps._dispatch import compute_type, entropy_value
from torch import Tensor


def as_map(x: Tensor, kind: str, parameter: float, parameters: Tensor | None) -> Tensor:
    """p of each row, as that of ``_dispatch``."""
    rows = x.to(compute_type(x))
    given = parameter if parameters is None else parameters.to(rows.dtype)[:, None]
    return _map(rows, kind, given).to(x.dtype)


def loss(x: Tensor, target: Tensor, kind: str, parameter: float, ignore: int) -> Tensor:
    """The loss of each row: <x, p - y> - Omega(p) + Omega(y), with p a constant of the gradient."""
    rows = x.to(compute_type(x))
    void = (rows == -math.inf).all(dim=1)
    p = _map(rows, kind, parameter).detach()
    void = void | _plain.ignored(target, ignore)
    if target.is_floating_point():
        y = torch.where(void[:, None], torch.zeros_like(rows), target.to(rows.dtype))
    else:
        columns = torch.ones_like(rows).cumsum(1) - 1
        y = (columns == target[:, None]).to(rows.dtype)
    residual = p - y
    # a score of -inf has p = 0: it counts only where y says so
    slope = torch.where(residual == 0, torch.zeros_like(rows), rows) * residual
    value = slope.sum(1) - entropy_value(p, kind, parameter) + entropy_value(y, kind, parameter)
    return torch.where(void, torch.zeros_like(value), value.clamp_min(0))


def _map(rows: Tensor, kind: str, parameter: float | Tensor) -> Tensor:
    if kind == "budget":
        return _plain.budget(rows, parameter)
    top = rows.amax(dim=1, keepdim=True)
    bad = ~top.isfinite()
    v = torch.where(bad, torch.zeros_like(rows), rows - top).clamp_min(_plain.LOWEST)
    if kind == "norm":
        k = 1 / (1 - 1 / parameter)
        p = _plain.powers(v - _threshold(v, k), k)[1] + 0 * v  # a gradient of 0 at q = inf
    elif isinstance(parameter, Tensor):
        soft = parameter == 1
        a = torch.where(soft, torch.ones_like(parameter), parameter - 1)
        p = torch.where(soft, torch.softmax(v, 1), _tsallis(v, a))
    else:
        p = torch.softmax(v, 1) if parameter == 1 else _tsallis(v, parameter - 1)
    p = p / p.sum(dim=1, keepdim=True)
    fill = torch.where(top == -math.inf, 0.0, math.nan).to(p.dtype)
    return torch.where(bad, fill, p)


def _tsallis(v: Tensor, a: float | Tensor) -> Tensor:
    k = 1 / a
    v = v * a
    return _plain.powers(v - _threshold(v, k), k)[0]


def _threshold(v: Tensor, k: float | Tensor) -> Tensor:
    """The root of sum (1 + v - sigma)_+^k = 1 in [0, 1]."""
    fixed = v.detach()
    power = k.detach() if isinstance(k, Tensor) else k
    low = torch.zeros_like(fixed[:, :1])
    width = torch.ones_like(low)
    for _ in range(53 if v.dtype == torch.float64 else 24):
        width = width / 2
        above = _plain.powers(fixed - low - width, power)[0].sum(dim=1, keepdim=True) >= 1
        low = torch.where(above, low + width, low)
    masses = _plain.powers(v - low, k)[0].sum(dim=1, keepdim=True)
    slope = power * _plain.powers(fixed - low, power)[1].sum(dim=1, keepdim=True)
    return low + (masses - 1) / slope
