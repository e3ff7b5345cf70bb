"""Soft ranks, soft sorting and soft choices of the best k for torch, along any dimension.

The forward pass is the compiled one of ``maxent.structured``; backward is a pass over the blocks
of entries that move together, and can be differentiated again. CUDA tensors make a round trip
through the CPU: pooling walks along a row, entry after entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import torch
from maxent.rows.arrays import Array
from maxent.structured import Permutahedron
from maxent.structured.ranking import isotonic
from maxent.structured.ranking.soft import (
    check_regularization,
    check_strength,
    choices,
    factor,
    partial_rankings,
    rankings,
    ranks_spread,
    result_spread,
)
from maxent.torch._operators import Operation, eager
from torch import Tensor, nn


def soft_rank(
    x: Tensor,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    descending: bool = False,
    dim: int = -1,
    weights: Tensor | None = None,
) -> Tensor:
    """Ranks from 1 to d: the smallest score has rank 1, or the largest where ``descending``.

    Rows with NaN or an infinity become NaN. With weights a score counts that many times: its rank
    is the mean of its copies' ranks, hard or soft, for any weights > 0 (a weighted isotonic
    regression).

    Parameters
    ----------
    x : tensor
        Scores.
    strength : float, default None
        How soft: 0 is the hard operation. None gives the scores the spread of the result, so that
        their unit does not matter (it is differentiated too).
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    descending : bool, default False
        Whether the largest score has rank 1.
    dim : int, default -1
        Dimension along which to work.
    weights : tensor, default None
        Numbers > 0 that can be broadcast to the scores, for "l2"; not differentiated.

    Examples
    --------
    >>> import torch
    >>> soft_rank(torch.tensor([0.3, 5.0, 0.1]), strength=1.0)
    tensor([1.6000, 3.0000, 1.4000])
    >>> soft_rank(torch.tensor([0.3, 5.0, 0.1]), strength=0, weights=torch.tensor([2.0, 1.0, 1.0]))
    tensor([2.5000, 4.0000, 1.0000])
    """
    rows, back = _along(x, dim, "soft_rank")
    signed = -rows if descending else rows
    if weights is not None:
        masses = _masses(weights, x, dim)
        return back(_weighted(signed, masses, strength, regularization))
    return back(_soft(signed, "rankings", 0, strength, regularization))


def soft_topk(
    x: Tensor,
    k: int,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    dim: int = -1,
) -> Tensor:
    """A soft choice of the k largest scores: numbers from 0 to 1 of sum k.

    A score of -inf has no chance; rows with fewer than k others become NaN.

    Parameters
    ----------
    x : tensor
        Scores.
    k : int
        How many scores to choose.
    strength : float, default None
        How soft: 0 is the hard operation. None gives the scores the spread of the result, so that
        their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> import torch
    >>> soft_topk(torch.tensor([0.3, 1.0, 0.1, 4.0]), 2, strength=1.0)
    tensor([0.1500, 0.8500, 0.0000, 1.0000])
    """
    rows, back = _along(x, dim, "soft_topk")
    return back(_soft(rows, "choices", k, strength, regularization))


def soft_partial_rank(
    x: Tensor,
    k: int,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    dim: int = -1,
) -> Tensor:
    """Points of a ranking of the best k: k for the largest score, down to 1, and 0 for the rest.

    Parameters
    ----------
    x : tensor
        Scores.
    k : int
        How many places have points.
    strength : float, default None
        How soft: 0 is the hard operation. None gives the scores the spread of the result, so that
        their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> import torch
    >>> soft_partial_rank(torch.tensor([0.3, 5.0, 0.1, 4.0]), 2, strength=0)
    tensor([0., 2., 0., 1.])
    """
    rows, back = _along(x, dim, "soft_partial_rank")
    return back(_soft(rows, "partial_rankings", k, strength, regularization))


def soft_sort(
    x: Tensor,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    descending: bool = False,
    dim: int = -1,
) -> Tensor:
    """The scores in rising order (or falling: ``descending``), softly.

    Parameters
    ----------
    x : tensor
        Scores.
    strength : float, default None
        How soft: 0 is the hard operation. None follows the spread of the scores.
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    descending : bool, default False
        Whether the order falls.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> import torch
    >>> soft_sort(torch.tensor([0.3, 5.0, 0.1]), strength=1.0)
    tensor([0.8000, 1.8000, 2.8000])
    """
    check_regularization(regularization)
    rows, back = _along(x, dim, "soft_sort")
    if strength is None:
        unit = _spread(rows)
        step = 1 / ranks_spread(rows.shape[1])
        p = unit * _SoftSort.apply(rows / unit, step, regularization)[0]
    elif check_strength(strength):
        p = _SoftSort.apply(rows, factor(strength), regularization)[0]
    else:
        p = rows.sort(dim=1, descending=True)[0]
    return back(p if descending else p.flip(1))


def soft_quantile(
    x: Tensor,
    q: float | Sequence[float] | Tensor,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    dim: int = -1,
) -> Tensor:
    """Quantiles of the soft order: ``torch.quantile`` of ``soft_sort``, linear between places.

    Parameters
    ----------
    x : tensor
        Scores.
    q : float, or sequence or tensor of them
        Shares from 0 to 1. Several give results with a first dimension of its length.
    strength : float, default None
        How soft: 0 is the hard operation. None follows the spread of the scores.
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([0.3, 5.0, 0.1])
    >>> soft_quantile(x, 0.5, strength=0), soft_quantile(x, [0.0, 0.5], strength=1.0)
    (tensor(0.3000), tensor([0.8000, 1.8000]))
    """
    given: Any = q.tolist() if isinstance(q, Tensor | np.ndarray | np.generic) else q
    single = isinstance(given, int | float)
    shares = [given] if single else list(given)
    if not shares or not all(isinstance(s, int | float) and 0 <= s <= 1 for s in shares):
        raise ValueError(f"q is a share from 0 to 1, or a sequence of them, got {q!r}")
    order = soft_sort(x, strength, regularization, dim=dim).movedim(dim, -1)
    last = order.shape[-1] - 1
    found = []
    for share in shares:
        place = float(share) * last
        low = min(int(place), max(last - 1, 0))
        found.append(torch.lerp(order[..., low], order[..., min(low + 1, last)], place - low))
    return found[0] if single else torch.stack(found)


class _Soft(nn.Module):
    """A soft operation along ``dim``."""

    def __init__(
        self, strength: float | None = None, regularization: str = "l2", dim: int = -1
    ) -> None:
        super().__init__()
        if strength is not None:
            check_strength(strength)
        check_regularization(regularization)
        self.strength, self.regularization, self.dim = strength, regularization, dim

    def extra_repr(self) -> str:
        """Strength, regularization and dimension."""
        return f"strength={self.strength}, regularization={self.regularization!r}, dim={self.dim}"


class SoftRank(_Soft):
    """``soft_rank`` along ``dim``.

    Parameters
    ----------
    strength : float, default None
        How soft: 0 is the hard operation. None gives the scores the spread of the result, so that
        their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> SoftRank(strength=0.1)
    SoftRank(strength=0.1, regularization='l2', dim=-1)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Ranks along dim."""
        return soft_rank(x, self.strength, self.regularization, dim=self.dim)


class SoftSort(_Soft):
    """``soft_sort`` along ``dim``.

    Parameters
    ----------
    strength : float, default None
        How soft: 0 is the hard operation. None gives the scores the spread of the result, so that
        their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> SoftSort()
    SoftSort(strength=None, regularization='l2', dim=-1)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Scores in rising order along dim."""
        return soft_sort(x, self.strength, self.regularization, dim=self.dim)


class SoftTopK(_Soft):
    """``soft_topk`` along ``dim``.

    Parameters
    ----------
    k : int
        How many scores to choose.
    strength : float, default None
        How soft: 0 is the hard operation. None gives the scores the spread of the result, so that
        their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`, smoother.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> import torch
    >>> SoftTopK(1, strength=0)(torch.tensor([0.3, 5.0, 0.1]))
    tensor([0., 1., 0.])
    """

    def __init__(
        self, k: int, strength: float | None = None, regularization: str = "l2", dim: int = -1
    ) -> None:
        super().__init__(strength, regularization, dim)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"SoftTopK needs an integer k >= 1, got {k!r}")
        self.k = k

    def extra_repr(self) -> str:
        """How many, and the rest."""
        return f"k={self.k}, {super().extra_repr()}"

    def forward(self, x: Tensor) -> Tensor:
        """Numbers from 0 to 1 of sum k along dim."""
        return soft_topk(x, self.k, self.strength, self.regularization, dim=self.dim)


# -- maps on rows --------------------------------------------------------------------------------


def _soft(rows: Tensor, kind: str, k: int, strength: float | None, regularization: str) -> Tensor:
    """The projection onto the permutahedron of a kind: of rankings, or of choices of k."""
    check_regularization(regularization)
    p: Tensor
    if strength is None:
        unit = _Unit.apply(rows.detach(), kind, k, regularization) / _spread(rows)
        forbidden = rows == -torch.inf  # 0 times it would be NaN in backward
        scaled = rows.masked_fill(forbidden, 0) * unit
        scaled = scaled.masked_fill(forbidden, -torch.inf)
        p, _ = _Project.apply(scaled, kind, k, regularization, 1.0)
    elif check_strength(strength):
        p, _ = _Project.apply(rows, kind, k, regularization, factor(strength))
    else:
        p, _ = _Project.apply(rows, kind, k, "hard", 1.0)
    return p


def _weighted(rows: Tensor, masses: Tensor, strength: float | None, regularization: str) -> Tensor:
    """Ranks of scores that count several times."""
    if regularization != "l2":
        check_regularization(regularization)
        raise ValueError(f'weights are for the regularization "l2", got {regularization!r}')
    p: Tensor
    if strength is None:
        unit = _WeightedUnit.apply(rows.detach(), masses) / _spread(rows, masses)
        p, _ = _WeightedRank.apply(rows * unit, masses, 1.0, False)
    else:
        soft = check_strength(strength)
        p, _ = _WeightedRank.apply(rows, masses, factor(strength) if soft else 1.0, not soft)
    return p


def _masses(weights: Tensor, x: Tensor, dim: int) -> Tensor:
    """Weights as rows of float64."""
    if not isinstance(weights, Tensor) or weights.requires_grad:
        raise TypeError(f"weights are a tensor that is not differentiated, got {weights!r}")
    try:
        full = weights.to(x.device, torch.float64).broadcast_to(x.shape)
    except RuntimeError as error:
        raise ValueError(
            f"weights can be broadcast to the scores of shape {tuple(x.shape)}, got the shape "
            f"{tuple(weights.shape)}"
        ) from error
    moved = full.movedim(dim, -1)
    return moved.reshape(-1, moved.shape[-1]).contiguous()


def _domain(kind: str, k: int, size: int) -> Permutahedron:
    if kind == "rankings":
        return rankings(size)
    return choices(k, size) if kind == "choices" else partial_rankings(k, size)


def _spread(rows: Tensor, masses: Tensor | None = None) -> Tensor:
    """Standard deviation of each row's finite scores, as a column; 1 where all are the same."""
    finite = rows.isfinite()
    x = torch.where(finite, rows, 0)
    number = finite.sum(1, keepdim=True).clamp(min=1)
    if masses is not None:  # of mean 1, as those of scores that count once
        shares = torch.where(finite, masses, 0)
        total = shares.sum(1, keepdim=True)
        weights = (shares * (number / torch.where(total > 0, total, 1))).to(rows.dtype)
    else:
        weights = torch.ones_like(x)
    top = x.detach().abs().amax(1, keepdim=True)
    top = torch.where(top > 0, top, 1)  # squares of the ratios neither overflow nor vanish
    ratio = x / top
    deviation = torch.where(finite, ratio - (weights * ratio).sum(1, keepdim=True) / number, 0)
    square = (weights * deviation**2).sum(1, keepdim=True) / number
    # rounding of the mean is no spread
    same = square <= torch.finfo(x.dtype).eps ** 2
    return torch.where(same, 1, top * torch.where(same, 1, square).sqrt())


class _Unit(Operation, name="ranking_unit"):
    """The spread of the result, as a column."""

    @staticmethod
    def run(x: Tensor, kind: str, k: int, regularization: str) -> Tensor:
        spread = result_spread(_domain(kind, k, x.shape[1]), regularization)
        return x.new_full((x.shape[0], 1), spread)

    @staticmethod
    def fake(x: Tensor, kind: str, k: int, regularization: str) -> Tensor:
        return x.new_empty(x.shape[0], 1)


class _Project(Operation, name="ranking_projection"):
    """scale * x projected onto a permutahedron, and the block of each entry."""

    @staticmethod
    def run(
        x: Tensor, kind: str, k: int, regularization: str, scale: float
    ) -> tuple[Tensor, Tensor]:
        w = _domain(kind, k, x.shape[1]).w
        p, block = isotonic.project_map(_array(x), w, regularization, np.array([scale]))
        return _tensor(p, x), _tensor(block, x)

    @staticmethod
    def fake(
        x: Tensor, kind: str, k: int, regularization: str, scale: float
    ) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int32)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.kind, ctx.scale = inputs[3:]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: None) -> tuple[Tensor | None, ...]:
        p, block = ctx.saved_tensors
        if ctx.kind == "hard":
            slope = torch.zeros_like(p)
        elif torch.is_grad_enabled() or not _by_kernels(p):
            slope = ctx.scale * _blockwise(p, block, g, ctx.kind)
        else:
            arrays = (block.numpy(), p.numpy(), _array(g))
            slope = torch.from_numpy(isotonic.project_jvp(*arrays, ctx.kind, ctx.scale))
        return slope, None, None, None, None


class _WeightedUnit(Operation, name="weighted_rank_unit"):
    """The spread of weighted ranks, as a column; refuses what are no weights."""

    @staticmethod
    def run(x: Tensor, masses: Tensor) -> Tensor:
        _check_masses(masses)
        total = masses.sum(1, keepdim=True)
        order = x.argsort(1)
        sorted_masses = masses.gather(1, order)
        middle = sorted_masses.cumsum(1) - sorted_masses / 2
        away = middle - (sorted_masses * middle).sum(1, keepdim=True) / total
        between = (sorted_masses * away**2).sum(1, keepdim=True) / total
        # that of total copies, as far as there are any
        square = torch.maximum((total**2 - 1) / 12, between)
        return torch.where(square > 0, square.sqrt(), 1.0).to(x.dtype)

    @staticmethod
    def fake(x: Tensor, masses: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], 1)


class _WeightedRank(Operation, name="weighted_rank"):
    """Ranks of scale * x with weights, and the block of each entry."""

    @staticmethod
    def run(x: Tensor, masses: Tensor, scale: float, hard: bool) -> tuple[Tensor, Tensor]:
        _check_masses(masses)
        p, block = isotonic.weighted_rank_map(_array(x), _array(masses), scale, hard)
        return _tensor(p, x), _tensor(block, x)

    @staticmethod
    def fake(x: Tensor, masses: Tensor, scale: float, hard: bool) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int32)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _, masses, ctx.scale, ctx.hard = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(masses, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: None) -> tuple[Tensor | None, ...]:
        masses, block = ctx.saved_tensors
        if ctx.hard:
            return torch.zeros_like(g), None, None, None
        index, masses = block.long(), masses.to(g.dtype)
        total = torch.zeros_like(g).scatter_add(1, index, g)
        mass = torch.zeros_like(g).scatter_add(1, index, masses)
        mean = (total / torch.where(mass > 0, mass, 1)).gather(1, index)
        return ctx.scale * (g - masses * mean), None, None, None


def _check_masses(masses: Tensor) -> None:
    if not bool(((masses > 0) & masses.isfinite()).all()):
        raise ValueError(
            "weights are finite numbers > 0; leave scores that do not count out of the ranking"
        )


def _by_kernels(x: Tensor) -> bool:
    """Whether a derivative is taken by compiled loops: not where it is recorded, or a batch."""
    return eager(x) and x.device.type == "cpu"


def _blockwise(p: Tensor, block: Tensor, g: Tensor, kind: str) -> Tensor:
    """``isotonic.project_jvp`` in operations that can be differentiated."""
    free = block >= 0
    index = torch.where(free, block, 0).long()
    share = torch.where(free, p if kind == "kl" else torch.ones_like(p), 0)
    # block 0 also collects the forbidden entries, whose share is 0
    total = torch.zeros_like(p).scatter_add(1, index, torch.where(free, share * g, 0))
    mass = torch.zeros_like(p).scatter_add(1, index, share)
    mean = total / torch.where(mass > 0, mass, 1)
    return share * (torch.where(free, g, 0) - mean.gather(1, index))


class _SoftSort(Operation, name="soft_sort"):
    """The soft falling order of x, the entries in order, and the block of each place."""

    @staticmethod
    def run(x: Tensor, step: float, kind: str) -> tuple[Tensor, Tensor, Tensor]:
        p, order, block = isotonic.sort_map(_array(x), np.array([step]), kind)
        return _tensor(p, x), _tensor(order, x), _tensor(block, x)

    @staticmethod
    def fake(x: Tensor, step: float, kind: str) -> tuple[Tensor, Tensor, Tensor]:
        places = x.new_empty(x.shape, dtype=torch.int32)
        return x.new_empty(x.shape), places, torch.empty_like(places)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, _, ctx.kind = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: None) -> tuple[Tensor, None, None]:
        x, order, block = ctx.saved_tensors
        if torch.is_grad_enabled() or not _by_kernels(x):
            return _sorted_back(x, order, block, g, ctx.kind), None, None
        arrays = (_array(x), order.numpy(), block.numpy(), _array(g))
        return torch.from_numpy(isotonic.sort_vjp(*arrays, ctx.kind)), None, None


def _sorted_back(x: Tensor, order: Tensor, block: Tensor, g: Tensor, kind: str) -> Tensor:
    """``isotonic.sort_vjp`` in operations that can be differentiated."""
    order, block = order.long(), block.long()
    share = torch.ones_like(x)
    if kind == "kl":
        falling = x.gather(1, order)
        first = torch.full_like(x, -torch.inf).scatter_reduce(1, block, falling.detach(), "amax")
        share = (falling - first.gather(1, block)).exp()
    mass = torch.zeros_like(x).scatter_add(1, block, share)
    total = torch.zeros_like(x).scatter_add(1, block, g)
    mean = share * (total / torch.where(mass > 0, mass, 1)).gather(1, block)
    return torch.zeros_like(x).scatter(1, order, mean)


def _array(x: Tensor) -> Array:
    """The memory of a tensor on the CPU, a copy of another."""
    return x.detach().cpu().contiguous().numpy()


def _tensor(found: Array, like: Tensor) -> Tensor:
    return torch.from_numpy(found).to(like.device)


def _along(x: Tensor, dim: int, name: str) -> tuple[Tensor, Any]:
    """Scores as contiguous rows of float32 or float64, and what puts results back."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} needs a tensor, got {type(x).__name__}; use torch.as_tensor")
    if not x.is_floating_point():
        raise TypeError(f"{name} needs floating scores, got {x.dtype}; convert with x.float()")
    if x.ndim == 0:
        raise ValueError(f"{name} needs at least one dimension, got a scalar; use x.reshape(1)")
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(
            f"{name}: dim {dim} of scores of shape {tuple(x.shape)}; it must lie from {-x.ndim} "
            f"to {x.ndim - 1}"
        )
    if x.shape[dim] == 0:
        raise ValueError(f"{name} needs something to order: dim {dim} has size 0")
    moved = x.movedim(dim, -1)
    rows = moved.reshape(-1, moved.shape[-1]).contiguous()
    exact = rows if x.dtype in (torch.float32, torch.float64) else rows.float()
    return exact, lambda p: p.to(x.dtype).reshape(moved.shape).movedim(-1, dim)
