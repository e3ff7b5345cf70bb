"""Projections on couplings in batched torch operations: what CUDA tensors use.

The same semi-dual and the same damped Newton method as the compiled kernels of
``maxent.structured.transport``, all matrices of a batch at once, in float64. Sinkhorn's sweeps in
the log domain come first where the projection is his.
"""

from __future__ import annotations

import torch
from torch import Tensor

_EASY, _EASY_KL, _GROWTH, _LOOSE = 100.0, 20.0, 4.0, 1e-3
_STEPS, _HALVINGS, _SWEEPS = 1000, 40, 20
_FARTHEST = 1e7
_FAR = 1e3  # scores that spread further lose digits of the sums
_EPS = torch.finfo(torch.float64).eps


def project(theta: Tensor, a: Tensor, b: Tensor, kl: bool) -> Tensor:
    """The projection of each matrix of (rows, m, n); columns are eliminated where they are more."""
    if theta.shape[2] > theta.shape[1]:
        return project(theta.mT, b, a, kl).mT
    if theta.numel() == 0:
        return torch.zeros_like(theta)
    theta = theta.double()
    p, spread = _project(theta, a, b, kl)
    far = spread > _FAR
    if bool(far.any()):  # the projection of what rounding of large scores moved off the polytope
        again = torch.where(theta[far] > -torch.inf, p[far].log() if kl else p[far], -torch.inf)
        p[far] = _project(again, a, b, kl)[0]
    return torch.minimum(p, torch.minimum(a[:, None], b))


def _project(theta: Tensor, a: Tensor, b: Tensor, kl: bool) -> tuple[Tensor, Tensor]:
    """The projections, and how far the scores spread, not counting what changes none."""
    theta = theta - theta.amax(2, keepdim=True)
    theta = theta - theta.amax(1, keepdim=True)
    spread = -torch.where(theta > -torch.inf, theta, 0).amin((1, 2))
    farthest = _FARTHEST * (1.0 if kl else float(a.max()))  # beyond, P keeps no digits
    theta = theta * (farthest / spread.clamp(min=farthest))[:, None, None]
    spread = spread.clamp(max=farthest)
    easy = _EASY_KL if kl else _EASY * float(a.max())
    scale = (easy / spread.clamp(min=1e-300)).clamp(max=1.0)
    tolerance = (8 * _EPS * spread * (1 if kl else len(b))).clamp(min=1e-12 if kl else 1e-14)
    g = theta.new_zeros(len(theta), len(b))
    if kl:
        g = _sweeps(theta * scale[:, None, None], a, b, g)
    return _newton(theta, a, b, kl, g, scale, tolerance), spread


def _sweeps(theta: Tensor, a: Tensor, b: Tensor, g: Tensor) -> Tensor:
    """Sinkhorn's iteration on the potentials of the columns, in the log domain."""
    for _ in range(_SWEEPS):
        f = a.log() - torch.logsumexp(theta + g[:, None], 2)
        g = b.log() - torch.logsumexp(theta + f[:, :, None], 1)
    return g - g.mean(1, keepdim=True)


def _evaluate(x: Tensor, a: Tensor, b: Tensor, g: Tensor, kl: bool) -> tuple[Tensor, ...]:
    """The semi-dual, P and its column sums less b, at the scores x = theta + g."""
    if kl:
        level = torch.logsumexp(x, 2, keepdim=True)
        p = a[:, None] * torch.exp(x - level)
        value = (a * level[..., 0]).sum(1)
    else:
        ranked = x.sort(2, descending=True).values
        count = torch.arange(1, x.shape[2] + 1, device=x.device, dtype=x.dtype)
        levels = (torch.where(ranked > -torch.inf, ranked, 0).cumsum(2) - a[:, None]) / count
        inside = (ranked > levels).sum(2, keepdim=True)
        level = levels.gather(2, (inside - 1).clamp(min=0))
        p = (x - level).clamp(min=0)
        value = (a * level[..., 0]).sum(1) + 0.5 * p.square().sum((1, 2))
    return value - g @ b, p, p.sum(1) - b


def _newton(
    theta: Tensor, a: Tensor, b: Tensor, kl: bool, g: Tensor, scale: Tensor, tolerance: Tensor
) -> Tensor:
    mass = b.sum()
    start = 0.1 if kl else 1.0
    damping = torch.full_like(scale, start)

    def at(g: Tensor) -> tuple[Tensor, ...]:
        value, p, excess = _evaluate(theta * scale[:, None, None] + g[:, None], a, b, g, kl)
        return value, p, excess, excess.abs().sum(1) / mass

    value, p, excess, size = at(g)
    for _ in range(_STEPS):
        grow = (scale < 1) & (size <= _LOOSE)
        if bool(grow.any()):
            factor = torch.where(grow, (1 / scale).clamp(max=_GROWTH), 1.0)
            scale, g = (scale * factor).clamp(max=1.0), g * factor[:, None]
            scale = torch.where(grow & (factor < _GROWTH), 1.0, scale)
            damping = torch.where(grow, start, damping)
            value, p, excess, size = at(g)
        going = (scale < 1) | (size > tolerance)
        if not bool(going.any()):
            break
        ground = (damping * size).clamp(min=1e-14)[:, None] * (b if kl else torch.ones_like(b))
        step = -_solve(p, excess, kl, ground)
        slope = (excess * step).sum(1)
        length = going.to(g.dtype)
        for _ in range(_HALVINGS):
            trial = g + length[:, None] * step
            new = at(trial)
            flat = (new[0] - value).abs() <= 1e-13 * (1 + value.abs())
            lower = (new[0] <= value + 1e-4 * length * slope) | (flat & (new[3] < size)) | ~going
            if bool(lower.all()):
                break
            length = torch.where(lower, length, length / 2)
        moved = going & lower
        if not bool(moved.any()):
            break
        damping = next_damping(damping, length, moved)
        g = torch.where(lower[:, None], trial, g)
        value, p, excess, size = at(g)
    return p


def next_damping(damping: Tensor, length: Tensor, moved: Tensor) -> Tensor:
    """Less after whole steps, more after shorter ones, the same where nothing moved."""
    more = (2 * damping / length.clamp(min=1e-12)).clamp(max=1.0)
    return torch.where(moved, torch.where(length == 1, damping / 4, more), damping)


def _solve(p: Tensor, rhs: Tensor, kl: bool, ground: Tensor) -> Tensor:
    """(L + diag(ground)) y = rhs up to constants, L the Laplacian of the graph of columns."""
    q = p if kl else (p > 0).to(p.dtype)
    total = q.sum(2, keepdim=True)
    weights = q.mT @ (q / torch.where(total > 0, total, 1))
    weights = weights - torch.diag_embed(weights.diagonal(dim1=1, dim2=2))
    laplacian = torch.diag_embed(weights.sum(2) + ground) - weights
    # a rank one for the constants, which change nothing
    unit = laplacian.diagonal(dim1=1, dim2=2).mean(1)[:, None, None] / rhs.shape[1]
    y = torch.linalg.solve(laplacian + unit, rhs[..., None])[..., 0]
    return y - y.mean(1, keepdim=True)


def jvp(p: Tensor, v: Tensor, kl: bool) -> Tensor:
    """The derivative of either projection times v, in operations that can be differentiated."""
    if p.shape[2] > p.shape[1]:
        return jvp(p.mT, v.mT, kl).mT
    q = p.double() if kl else (p > 0).double()
    total = q.sum(2, keepdim=True)
    total = torch.where(total > 0, total, 1)
    v = v.double()
    v = v - (q * v).sum(2, keepdim=True) / total
    scale = q.sum(1)
    ground = 1e-14 * torch.where(scale > 0, scale, 1.0).detach()
    y = _solve(q, (q * v).sum(1), True, ground)[:, None]
    v = v - y
    return (q * (v - (q * v).sum(2, keepdim=True) / total)).to(p.dtype)
