"""Jacobians of the maps as functions of p alone, in differentiable torch operations.

Rows are (rows, size); a parameter is a number or a (rows, 1) tensor. Rows of zeros (nothing to
choose from) have derivative 0, rows of NaN have NaN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def vjp(kind: str, p: Tensor, g: Tensor, parameter: float | Tensor) -> Tensor:
    """The (symmetric) Jacobian of the map times g."""
    if kind == "budget":
        free = (p > 0) & (p < 1)
        weights = torch.where(p.isnan(), p, free.to(p.dtype))
        return weights * (g - _mean(weights, g))
    if kind == "norm":
        return _norm_vjp(p, g, parameter)
    weights = _weights(p, 2 - parameter)
    return weights * (g - _mean(weights, g))


def alpha_vjp(p: Tensor, g: Tensor, alpha: Tensor) -> Tensor:
    """<g, dp/dalpha> of each row, (rows, 1), finite at alpha = 1.

    With a = alpha - 1 and m = -a log p: dp = b - s (sum b / sum s), s = p^(2 - alpha) and
    b = -p log(p)^2 (e^m - 1 - m) / m^2, which is -p log(p)^2 / 2 at alpha = 1.
    """
    b = _alpha_slope(p, alpha)
    weights = _weights(p, 2 - alpha)
    return (g * b).sum(1, keepdim=True) - _mean(weights, g) * b.sum(1, keepdim=True)


def alpha_jvp(p: Tensor, change: Tensor, alpha: Tensor) -> Tensor:
    """dp/dalpha times the change of alpha, (rows, 1)."""
    b, weights = _alpha_slope(p, alpha), _weights(p, 2 - alpha)
    total = weights.sum(dim=1, keepdim=True)
    return change * (b - weights * b.sum(1, keepdim=True) / torch.where(total == 0, 1, total))


def _alpha_slope(p: Tensor, alpha: Tensor) -> Tensor:
    """b of ``alpha_vjp``."""
    a = alpha - 1
    on = p > 0
    base = torch.where(on, p, 1)
    log_p = base.log()
    m = -a * log_p
    small = m < 0.5
    near = torch.where(small, m, 0)
    series = torch.zeros_like(near)
    for k in range(14, 1, -1):
        series = series * near + 1 / math.factorial(k)
    # p e^m as one power: e^m alone overflows
    far = (base ** (1 - a) - base * (1 + m)) / torch.where(a == 0, 1, a) ** 2
    return -torch.where(on, torch.where(small, base * log_p**2 * series, far), 0)


def _norm_vjp(p: Tensor, g: Tensor, q: float | Tensor) -> Tensor:
    """N/(q-1) (I - p 1') diag((p/N)^(2-q)) (I - 1 p') g with N the q-norm; 0 for q = inf."""
    flat = torch.as_tensor(q == math.inf, device=p.device)
    q = torch.where(flat, 2.0, torch.as_tensor(q, dtype=p.dtype, device=p.device))
    on = p > 0
    largest = p.amax(dim=1, keepdim=True).detach()
    ratio = torch.where(on, p, largest) / torch.where(largest > 0, largest, 1)
    norm = (torch.where(on, ratio, 0) ** q).sum(dim=1, keepdim=True) ** (1 / q)
    r = _weights(torch.where(on, ratio / norm, p), 2 - q) * (g - (p * g).sum(1, keepdim=True))
    return torch.where(flat, p * 0, largest * norm / (q - 1) * (r - p * r.sum(1, keepdim=True)))


def _weights(p: Tensor, exponent: float | Tensor) -> Tensor:
    """p^exponent on the support, 0 off it, NaN in rows of NaN."""
    on = p > 0
    return torch.where(on, torch.where(on, p, 1) ** exponent, p.detach())


def _mean(weights: Tensor, g: Tensor) -> Tensor:
    total = weights.sum(dim=1, keepdim=True)
    return (weights * g).sum(dim=1, keepdim=True) / torch.where(total == 0, 1, total)
