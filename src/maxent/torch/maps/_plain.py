"""The maps in plain torch operations: any device, exact, no gradient of their own.

Rows are (rows, size) in float32 or float64; a parameter is a number or a (rows, 1) tensor. As in
the compiled kernels a row is measured from its largest score, v_i = s_i - max s <= 0, and the
threshold sigma is that of the excess z_i = 1 + v_i - sigma, which keeps its digits as alpha -> 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

_Solve = Callable[[Tensor, float | Tensor], tuple[Tensor, Tensor]]
LOWEST = -1e30  # stands for -inf where a product with 0 must be 0


def recording() -> bool:
    """Whether operations are being recorded for another program, which has none of our own."""
    if torch.compiler.is_compiling():
        return torch.onnx.is_in_onnx_export()
    return torch.jit.is_tracing()


def ignored(target: Tensor, ignore: int) -> Tensor:
    """Which labels, or rows of probabilities filled with it, are ``ignore``."""
    same = target == ignore
    return same.all(dim=1) if target.is_floating_point() else same


def conjugate(x: Tensor, kind: str, parameter: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The map p, the largest score of each row and what the conjugate exceeds it by.

    Rows that are -inf everywhere give zeros; rows with NaN, +inf or a parameter out of range (alpha
    below 1, q not above 1) give NaN.
    """
    top = x.amax(dim=1, keepdim=True)
    bad = ~top.isfinite()
    if isinstance(parameter, Tensor):
        bad = bad | ~(parameter > 1 if kind == "norm" else parameter >= 1)
    v = torch.where(bad, LOWEST, x - top).clamp_min_(LOWEST)
    v[:, :1] = torch.where(bad, 0, v[:, :1])  # something to solve, thrown away below
    if kind == "norm":
        p, excess = _on_candidates(_norm, v, parameter, 1.0)
    elif not isinstance(parameter, Tensor) and parameter == 1:
        p, excess = _softmax(v, parameter)
    else:
        p, excess = _on_candidates(_tsallis, v, parameter, 1 / (parameter - 1))
    fill = torch.where(top == -math.inf, 0.0, math.nan).to(x.dtype)
    return torch.where(bad, fill, p), top[:, 0], torch.where(bad, fill, excess)[:, 0]


def _on_candidates(
    solve: _Solve, v: Tensor, parameter: float | Tensor, reach: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Solve for the scores within reach of the largest: the others have p = 0."""
    inside = v > -reach
    count = inside.sum(dim=1)
    width = max(int(count.max()), 1)
    if 2 * width > v.shape[1]:
        return solve(v, parameter)
    row, column = inside.nonzero(as_tuple=True)
    place = torch.arange(len(row), device=v.device) - (count.cumsum(0) - count)[row]
    few = v.new_full((len(v), width), LOWEST)
    few[row, place] = v[row, column]
    some, excess = solve(few, parameter)
    p = torch.zeros_like(v)
    p[row, column] = some[row, place]
    return p, excess


def _tsallis(v: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(alpha, Tensor):
        return _regime(alpha)(v, alpha)
    p, excess = torch.zeros_like(v), torch.zeros_like(v[:, :1])
    column = alpha[:, 0]
    for example, rows in (
        (1.0, column == 1),
        (2.0, (column > 1) & (column <= 2)),
        (3.0, column > 2),
    ):
        if bool(rows.any()):
            p[rows], excess[rows] = _regime(example)(v[rows], alpha[rows])
    return p, excess


def _regime(alpha: float) -> _Solve:
    if alpha == 1:
        return _softmax
    return _climb if alpha <= 2 else _descend


def _softmax(v: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    p = v.exp()
    total = p.sum(dim=1, keepdim=True)
    return p.div_(total), total.log()


def _climb(v: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """1 < alpha <= 2: p = z^k with k = 1 / (alpha - 1)."""
    a = alpha - 1
    k = 1 / a
    v = v * a
    sigma = _threshold(v, k)
    p, _ = powers(v - sigma, k)
    p = p / p.sum(dim=1, keepdim=True)
    return p, ((p * v).sum(dim=1, keepdim=True) + sigma / a) / alpha


def _norm(v: Tensor, q: float | Tensor) -> tuple[Tensor, Tensor]:
    """p proportional to z^(k - 1) with k = q / (q - 1), the threshold that of z^k."""
    k = 1 / (1 - 1 / q)
    sigma = _threshold(v, k)
    _, p = powers(v - sigma, k)
    return p / p.sum(dim=1, keepdim=True), sigma


def powers(u: Tensor, k: float | Tensor) -> tuple[Tensor, Tensor]:
    """z_+^k and z_+^(k - 1) for z = 1 + u, k >= 1."""
    if isinstance(k, float) and k in (1.0, 2.0):
        z = (1 + u).clamp_min_(0)
        return (z, (z > 0).to(z.dtype)) if k == 1 else (z * z, z)
    inside = u > -1
    z = torch.where(inside, 1 + u, 1)
    # log1p keeps the digits of a tiny u under a huge k
    power = torch.where(inside, (k * torch.log1p(torch.where(inside, u, 0))).exp(), 0)
    return power, power / z


def _threshold(v: Tensor, k: float | Tensor) -> Tensor:
    """The root of sum z_+^k = 1, k >= 1, by Newton's method on the k-norm of z_+.

    The norm is convex and decreasing, so the iterates climb to the root from sigma = 0.
    """
    sigma = torch.zeros_like(v[:, :1])
    eps = 64 * torch.finfo(v.dtype).eps
    for _ in range(200):
        power, lower = powers(v - sigma, k)
        total = power.sum(dim=1, keepdim=True)
        step = -torch.expm1(-total.log() / k) * total / lower.sum(dim=1, keepdim=True)
        sigma = sigma + step
        if not bool((step > eps * (1 / k + sigma)).any()):
            break
    return sigma


def _descend(v: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """alpha > 2, where the sum of powers is not convex in the threshold.

    The support ends at the smallest score from which the sum is still under 1; with y the
    probability of that score every other is the a-norm of (constant, y), convex in y.
    """
    a = alpha - 1
    k = 1 / a
    v = (v * a).clamp_min(LOWEST)
    scores = v.sort(dim=1, descending=True).values
    low = torch.zeros_like(v[:, :1], dtype=torch.int64)
    high = torch.full_like(low, v.shape[1])
    while bool((high - low > 1).any()):
        middle = (low + high) // 2
        under = (scores - scores.gather(1, middle)).clamp_min_(0).pow(k).sum(1, keepdim=True) < 1
        low, high = torch.where(under, middle, low), torch.where(under, high, middle)
    last = scores.gather(1, low)
    inside = v >= last
    constant = (v - last).clamp_min_(0).pow(k)
    y = 1 / inside.sum(dim=1, keepdim=True).to(v.dtype)
    for _ in range(200):
        p, slope = _pair_norms(constant, y, a)
        excess = (p * inside).sum(dim=1, keepdim=True) - 1
        step = excess / (slope * inside).sum(dim=1, keepdim=True)
        y = torch.where(step > 0, y - step, y)
        if not bool((step > 2 * torch.finfo(v.dtype).eps * y).any()):
            break
    p = _pair_norms(constant, y, a)[0] * inside
    p = p / p.sum(dim=1, keepdim=True)
    sigma = 1 + last - y**a
    return p, ((p * v).sum(dim=1, keepdim=True) + sigma / a) / alpha


def _pair_norms(c: Tensor, y: Tensor, a: float | Tensor) -> tuple[Tensor, Tensor]:
    """The a-norm of (c, y) and its derivative in y."""
    large = torch.maximum(c, y)
    ratio = (torch.minimum(c, y) / large) ** a
    power = (torch.log1p(ratio) / a).exp()
    return large * power, power / (1 + ratio) * torch.where(c > y, ratio * c / y, 1)


def budget(x: Tensor, k: float | Tensor) -> Tensor:
    """The projection on {0 <= p <= 1, sum p = k}: clip(x - tau, 0, 1) with the right tau.

    The sum is piecewise linear in tau with kinks at x and x - 1: find the piece by bisection over
    the sorted kinks, solve the linear equation there. Where no more than k scores are finite all
    of them get 1.
    """
    total = torch.zeros_like(x[:, :1]) + k
    usable = x > -math.inf
    full = usable.sum(dim=1, keepdim=True) <= total
    bad = ~((x < math.inf).all(dim=1, keepdim=True) & (total >= 0))
    # tau lies within 1 of the ceil(k)-th largest score: measured from there, huge scores are exact
    rank = (total.ceil().long() - 1).clamp(0, x.shape[1] - 1)
    centre = torch.where(full | bad, 0, x.sort(dim=1, descending=True).values.gather(1, rank))
    v = torch.where(bad, 0, x - centre).clamp_(-4, 4)
    kinks = torch.cat([v, v - 1], dim=1).sort(dim=1).values
    low = torch.zeros_like(rank)
    high = torch.full_like(rank, kinks.shape[1] - 1)

    def mass(tau: Tensor) -> Tensor:
        return (v - tau).clamp_(0, 1).sum(dim=1, keepdim=True)

    for _ in range(32 if recording() else kinks.shape[1].bit_length()):
        middle = (low + high) // 2
        above = (mass(kinks.gather(1, middle)) >= total) | (middle == low)
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    left, right = kinks.gather(1, low), kinks.gather(1, high)
    centre = left + (right - left) / 2
    slope = ((v > centre) & (v - 1 < centre)).sum(dim=1, keepdim=True)
    tau = left + torch.where(slope > 0, (mass(left) - total) / slope.clamp_min(1), 0)
    p = torch.where(full, usable.to(x.dtype), (v - tau).clamp_(0, 1))
    return p.masked_fill_(bad, math.nan)
