"""Soft matchings and transport plans for torch, and their losses.

Matrices are the last two dimensions. CPU tensors use the compiled kernels of ``maxent.structured``,
CUDA tensors batched torch operations on the device. Backward solves one linear system per matrix,
and can be differentiated again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import torch
from maxent.torch._operators import Operation, eager
from maxent.torch.maps._dispatch import compiled, compute_type
from maxent.torch.structured import _transport_plain
from maxent.torch.structured._lengths import check_lengths, described
from torch import Tensor, nn

_REGULARIZATIONS = ("l2", "kl")
_REDUCTIONS = ("none", "mean", "sum")
_DOUBLE = torch.float64
_OFF = 1e-2  # what sums of observed plans may be off by, which 16 bits round


def transport(
    x: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    strength: float = 1.0,
    regularization: str = "l2",
) -> Tensor:
    """`argmax_P <x, P> - strength Omega(P)` over plans P (m, n) with row sums a, column sums b.

    Without a and b all sums are 1, and x is square. The sums are those of every matrix, and not
    differentiated; ``unbalanced_transport`` with an infinite penalty takes sums for each matrix,
    and differentiates them.

    Parameters
    ----------
    x : tensor (..., m, n)
        Scores, minus costs; -inf forbids an entry.
    a : tensor (m,), default None
        Row sums; None is 1 each.
    b : tensor (n,), default None
        Column sums; None is 1 each.
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P` ("kl": Sinkhorn's).

    Examples
    --------
    >>> import torch
    >>> transport(torch.tensor([[1.0, 0.2], [0.4, 0.0]]))
    tensor([[0.6000, 0.4000],
            [0.4000, 0.6000]])
    """
    rows, a, b = _prepared(x, a, b, "transport")
    return _plans(rows, a, b, strength, regularization).to(x.dtype).reshape(x.shape)


def sinkhorn(
    x: Tensor, a: Tensor | None = None, b: Tensor | None = None, strength: float = 1.0
) -> Tensor:
    """``transport`` with "kl", to a violation of the sums of 1e-12 whatever the strength.

    Parameters
    ----------
    x : tensor (..., m, n)
        Scores, minus costs; -inf forbids an entry.
    a : tensor (m,), default None
        Row sums; None is 1 each.
    b : tensor (n,), default None
        Column sums; None is 1 each.
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.

    Examples
    --------
    >>> import torch
    >>> sinkhorn(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor([[0.7311, 0.2689],
            [0.2689, 0.7311]])
    """
    return transport(x, a, b, strength, "kl")


def matching(
    x: Tensor, strength: float = 1.0, regularization: str = "l2", lengths: Tensor | None = None
) -> Tensor:
    """Soft matchings of two sets of n: doubly stochastic matrices (..., n, n).

    Strength 0 is the assignment itself.

    Parameters
    ----------
    x : tensor (..., n, n)
        Scores, minus costs; -inf forbids an entry.
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P` ("kl": Sinkhorn's).
    lengths : int tensor (...) or bool tensor (..., n), default None
        How many of the n are there in each matrix, or a mask of them: only the leading block of
        that size is matched, the rest is 0. None is n for all.

    Examples
    --------
    >>> import torch
    >>> matching(torch.tensor([[1.0, 2.0], [2.0, 0.0]]), strength=0.0)
    tensor([[0., 1.],
            [1., 0.]])
    """
    rows, a, b = _prepared(x, None, None, "matching")
    inside = None
    if lengths is not None:
        there, rows = _leading_blocks(rows, lengths, tuple(x.shape[:-2]))
        inside = there[:, :, None] & there[:, None]
    p = _plans(rows, a, b, strength, regularization)
    return (p if inside is None else p * inside).to(x.dtype).reshape(x.shape)


def transport_loss(
    x: Tensor,
    target: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    strength: float = 1.0,
    regularization: str = "l2",
    reduction: str = "mean",
) -> Tensor:
    """The Fenchel-Young loss of scores against observed plans; its gradient is P - target.

    Parameters
    ----------
    x : tensor (..., m, n)
        Scores, minus costs; -inf forbids an entry.
    target : tensor (..., m, n)
        Observed plans, with these sums; not differentiated.
    a : tensor (m,), default None
        Row sums; None is 1 each.
    b : tensor (n,), default None
        Column sums; None is 1 each.
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P` ("kl": Sinkhorn's).
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the matrices.

    Examples
    --------
    >>> import torch
    >>> transport_loss(torch.tensor([[3.0, 0.0], [0.0, 3.0]]), torch.eye(2))
    tensor(0.)
    """
    rows, a, b = _prepared(x, a, b, "transport_loss")
    y = _Observed.apply(_targets(target, x, "transport_loss").to(rows), a, b, "transport_loss")
    return _reduced(_losses(rows, y, a, b, strength, regularization), x, reduction)


def matching_loss(
    x: Tensor,
    target: Tensor,
    strength: float = 1.0,
    regularization: str = "l2",
    lengths: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``transport_loss`` of matchings.

    Parameters
    ----------
    x : tensor (..., n, n)
        Scores, minus costs; -inf forbids an entry.
    target : tensor (..., n, n) or int tensor (..., n)
        A doubly stochastic matrix, or the partner of each; what is beyond the lengths is not looked
        at.
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P` ("kl": Sinkhorn's).
    lengths : int tensor (...) or bool tensor (..., n), default None
        How many of the n are there in each matrix, or a mask of them: only the leading block of
        that size is matched, the rest is 0. None is n for all.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the matrices.

    Examples
    --------
    >>> import torch
    >>> matching_loss(torch.zeros(2, 2), torch.tensor([1, 0]))
    tensor(0.5000)
    """
    rows, a, b = _prepared(x, None, None, "matching_loss")
    places = torch.arange(x.shape[-1], device=x.device)
    there = inside = None
    if lengths is not None:
        there, rows = _leading_blocks(rows, lengths, tuple(x.shape[:-2]))
        inside = there[:, :, None] & there[:, None]
    integers = isinstance(target, Tensor) and not (
        target.is_floating_point() or target.dtype == torch.bool
    )
    if integers:
        if tuple(target.shape) != tuple(x.shape[:-1]):
            raise ValueError(
                f"matching_loss of scores {tuple(x.shape)} needs partners of shape "
                f"{tuple(x.shape[:-1])} or a matrix of their own shape, got {tuple(target.shape)}"
            )
        partners = target.reshape(rows.shape[:2]).to(x.device, torch.int64)
        if there is not None:  # each of the rest is its own partner
            partners = torch.where(there, partners, places)
        y = (_Partners.apply(partners)[:, :, None] == places).to(rows.dtype)
    else:
        y = _targets(target, x, "matching_loss").to(rows)
        if inside is not None:
            itself = (places[:, None] == places).to(y.dtype)
            y = torch.where(inside, y, itself)
        y = _Observed.apply(y, a, b, "matching_loss")
    return _reduced(_losses(rows, y, a, b, strength, regularization), x, reduction)


class Sinkhorn(nn.Module):
    """``sinkhorn`` as a layer, with sums of 1.

    Parameters
    ----------
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.

    Examples
    --------
    >>> import torch
    >>> Sinkhorn(strength=0.1)(torch.eye(2)).round(decimals=3)
    tensor([[1., 0.],
            [0., 1.]])
    """

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        _check_strength(strength)
        self.strength = strength

    def forward(self, x: Tensor) -> Tensor:
        """Doubly stochastic matrices."""
        return sinkhorn(x, strength=self.strength)

    def extra_repr(self) -> str:
        """The strength."""
        return f"strength={self.strength}"


class Matching(nn.Module):
    """``matching`` as a layer.

    Parameters
    ----------
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P` ("kl": Sinkhorn's).

    Examples
    --------
    >>> Matching(strength=0.5)
    Matching(strength=0.5, regularization='l2')
    """

    def __init__(self, strength: float = 1.0, regularization: str = "l2") -> None:
        super().__init__()
        _check_strength(strength)
        _check_choice("regularization", regularization, _REGULARIZATIONS)
        self.strength, self.regularization = strength, regularization

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Soft matchings."""
        return matching(x, self.strength, self.regularization, lengths)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"strength={self.strength}, regularization={self.regularization!r}"


class MatchingLoss(Matching):
    """``matching_loss`` as a module.

    Parameters
    ----------
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P` ("kl": Sinkhorn's).
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the matrices.

    Examples
    --------
    >>> import torch
    >>> MatchingLoss()(torch.zeros(1, 2, 2), torch.tensor([[0, 1]]))
    tensor(0.5000)
    """

    def __init__(
        self, strength: float = 1.0, regularization: str = "l2", reduction: str = "mean"
    ) -> None:
        super().__init__(strength, regularization)
        _check_choice("reduction", reduction, _REDUCTIONS)
        self.reduction = reduction

    def forward(  # type: ignore[override]
        self, x: Tensor, target: Tensor, lengths: Tensor | None = None
    ) -> Tensor:
        """The loss."""
        return matching_loss(x, target, self.strength, self.regularization, lengths, self.reduction)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"{super().extra_repr()}, reduction={self.reduction!r}"


# -- inside --------------------------------------------------------------------------------------


_SUMS = {"a": 1, "b": 1}


class _Projection(Operation, name="transport_projection", whole=_SUMS):
    """The projection of (rows, m, n); the derivative is a symmetric linear map known from p."""

    @staticmethod
    def run(theta: Tensor, a: Tensor, b: Tensor, kl: bool) -> Tensor:
        if theta.shape[0] == 0:
            return torch.zeros_like(theta)
        if compiled(theta):
            p = _compiled_projection(theta, a, b, kl)
        else:
            p = _transport_plain.project(theta, a.to(theta.device), b.to(theta.device), kl)
        return p.to(theta.dtype)

    @staticmethod
    def fake(theta: Tensor, a: Tensor, b: Tensor, kl: bool) -> Tensor:
        return theta.new_empty(theta.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kl = inputs[3]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        (p,) = ctx.saved_tensors
        if torch.is_grad_enabled() or not eager(p) or not compiled(p) or p.shape[0] == 0:
            return _transport_plain.jvp(p, g, ctx.kl), None, None, None
        return _compiled_jvp(p, g, ctx.kl), None, None, None


class _Assignment(Operation, name="transport_argmax", whole=_SUMS):
    """The best plans, which no regularization spreads."""

    @staticmethod
    def run(theta: Tensor, a: Tensor, b: Tensor) -> Tensor:
        if theta.shape[0] == 0:
            return torch.zeros_like(theta)
        rows = theta.double().cpu().flatten(1).numpy()
        return torch.from_numpy(_domain(a, b).argmax(rows)).to(theta).reshape(theta.shape)

    @staticmethod
    def fake(theta: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return theta.new_empty(theta.shape)


class _Sums(Operation, name="transport_sums", whole=_SUMS):
    """Row and column sums of one total, in float64 on the CPU."""

    @staticmethod
    def run(a: Tensor, b: Tensor, name: str) -> tuple[Tensor, Tensor]:
        a, b = a.to("cpu", _DOUBLE, copy=True), b.to("cpu", _DOUBLE)
        if not torch.isclose(a.sum(), b.sum(), rtol=1e-5, atol=0):
            raise ValueError(
                f"the sums a and b of {name} must have one total, got {float(a.sum()):.6g} and "
                f"{float(b.sum()):.6g}; divide each by its own"
            )
        return a, b * (a.sum() / b.sum())

    @staticmethod
    def fake(a: Tensor, b: Tensor, name: str) -> tuple[Tensor, Tensor]:
        made = (torch.empty(x.shape, dtype=_DOUBLE, device="cpu") for x in (a, b))
        return next(made), next(made)


class _Partners(Operation, name="transport_partners"):
    """Partners (rows, n); on the CPU, what is no matching is refused."""

    @staticmethod
    def run(partners: Tensor) -> Tensor:
        n = partners.shape[1]
        if partners.device.type != "cpu":
            return partners.clamp(0, n - 1)
        wrong = (partners.sort(1).values != torch.arange(n)).any(1)
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            raise ValueError(
                f"the partners {partners[row].tolist()} of matrix {row} are no matching: each from "
                f"0 to {n - 1} is the partner of one"
            )
        return partners.clone()

    @staticmethod
    def fake(partners: Tensor) -> Tensor:
        return torch.empty_like(partners)


class _Observed(Operation, name="transport_observed", whole=_SUMS):
    """Observed plans; on the CPU, those whose sums are not a and b are refused."""

    @staticmethod
    def run(y: Tensor, a: Tensor, b: Tensor, name: str) -> Tensor:
        if y.device.type == "cpu" and y.shape[0]:
            exact = y.double()
            off = torch.maximum((exact.sum(2) - a).abs().amax(1), (exact.sum(1) - b).abs().amax(1))
            most = _OFF * torch.maximum(a.max(), b.max())
            wrong = ~((off <= most) & (exact >= -most).flatten(1).all(1))
            if bool(wrong.any()):
                row = int(wrong.nonzero()[0])
                raise ValueError(
                    f"the target of matrix {row} of {name} is no plan: entries are >= 0, and its "
                    f"sums are off by {float(off[row]):.3g} from those that plans have"
                )
        return y.clone()

    @staticmethod
    def fake(y: Tensor, a: Tensor, b: Tensor, name: str) -> Tensor:
        return torch.empty_like(y)


class _Loss(Operation, name="transport_loss"):
    """Omega*(theta) + Omega(y) - <theta, y> from the maximiser p, with the gradient p - y."""

    @staticmethod
    def run(theta: Tensor, p: Tensor, y: Tensor, kl: bool) -> Tensor:
        t, q, z = theta.double(), p.double(), y.double()
        score = torch.where(q == z, 0, t * (q - z)).sum((1, 2))
        return (score + _value(z, kl) - _value(q, kl)).clamp(min=0).to(theta.dtype)

    @staticmethod
    def fake(theta: Tensor, p: Tensor, y: Tensor, kl: bool) -> Tensor:
        return theta.new_empty(theta.shape[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:3])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        p, y = ctx.saved_tensors
        return g[:, None, None] * (p - y), None, None, None


def _value(p: Tensor, kl: bool) -> Tensor:
    terms = torch.special.xlogy(p, p) if kl else 0.5 * p.square()
    return terms.sum((1, 2))


def _compiled_projection(theta: Tensor, a: Tensor, b: Tensor, kl: bool) -> Tensor:
    domain = _domain(a, b)
    rows = theta.detach().reshape(theta.shape[0], -1).contiguous()
    array = (rows if rows.dtype == torch.float64 else rows.float()).numpy()
    found = domain.project_kl(array) if kl else domain.project(array)
    return torch.from_numpy(np.ascontiguousarray(found)).reshape(theta.shape)


def _compiled_jvp(p: Tensor, g: Tensor, kl: bool) -> Tensor:
    rows, m, n = p.shape
    domain = _domain(torch.ones(m), torch.full((n,), m / n))  # all that counts is their number
    dtype = torch.float64 if p.dtype == torch.float64 else torch.float32
    arrays = [x.detach().to(dtype).reshape(rows, m * n).contiguous().numpy() for x in (p, g)]
    jvp = domain.project_kl_jvp if kl else domain.project_jvp
    return torch.from_numpy(jvp(None, *arrays)).to(p.dtype).reshape(p.shape)


def _domain(a: Tensor, b: Tensor) -> Any:
    from maxent.structured import Birkhoff, Transport

    if len(a) == len(b) and bool((a == 1).all() and (b == 1).all()):
        return Birkhoff()
    return Transport(a.numpy(), b.numpy())


def _plans(rows: Tensor, a: Tensor, b: Tensor, strength: float, regularization: str) -> Tensor:
    _check_choice("regularization", regularization, _REGULARIZATIONS)
    _check_strength(strength)
    if strength == 0:
        best: Tensor = _Assignment.apply(rows.detach(), a, b)
        return best
    p: Tensor = _Projection.apply(rows / strength, a, b, regularization == "kl")
    return p


def _losses(
    rows: Tensor, y: Tensor, a: Tensor, b: Tensor, strength: float, regularization: str
) -> Tensor:
    if not strength > 0:
        raise ValueError(f"a loss needs a strength > 0, got {strength!r}")
    p = _plans(rows, a, b, strength, regularization)
    loss: Tensor = _Loss.apply(rows / strength, p, y, regularization == "kl")
    return strength * loss


def _prepared(
    x: Tensor, a: Tensor | None, b: Tensor | None, name: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (rows, m, n), and the sums in float64 on the CPU."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(f"{name} needs a floating tensor of scores, got {described(x)}")
    if x.ndim < 2 or 0 in x.shape[-2:]:
        raise ValueError(f"{name} needs matrices (..., m, n) of scores, got shape {tuple(x.shape)}")
    m, n = x.shape[-2:]
    rows = x.reshape(-1, m, n).to(compute_type(x))
    if (a is None) != (b is None):
        raise ValueError(f"{name} needs both sums a and b, or neither")
    if a is None or b is None:
        if m != n:
            raise ValueError(
                f"{name} matches square matrices, got {m} x {n}; give the sums a and b to "
                "transport(x, a, b) for rectangular ones"
            )
        return rows, torch.ones(m, dtype=_DOUBLE), torch.ones(n, dtype=_DOUBLE)
    a, b = torch.as_tensor(a).detach(), torch.as_tensor(b).detach()
    if tuple(a.shape) != (m,) or tuple(b.shape) != (n,):
        raise ValueError(
            f"{name} of {m} x {n} scores needs sums of shapes ({m},) and ({n},), got "
            f"{tuple(a.shape)} and {tuple(b.shape)}; for sums that differ between matrices, see "
            "unbalanced_transport with penalty=torch.inf"
        )
    return rows, *_Sums.apply(a, b, name)


def _leading_blocks(rows: Tensor, lengths: Tensor, batch: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Which (rows, n) are there, and scores that match the rest with itself."""
    n = rows.shape[-1]
    given = torch.as_tensor(lengths, device=rows.device)
    mask = (n,) if given.dtype == torch.bool else ()
    if tuple(given.shape) != (*batch, *mask):
        raise ValueError(
            f"lengths are integers of shape {batch}, one per matrix, or a bool mask of shape "
            f"{(*batch, n)}, got {described(given)}"
        )
    given = given.reshape(-1, *mask)
    count = check_lengths(given, rows, n, 0, "what there is to match")
    there = torch.arange(n, device=rows.device) < count[:, None]
    inside = there[:, :, None] & there[:, None]
    itself = torch.eye(n, dtype=torch.bool, device=rows.device)
    rest = torch.where(itself, 0.0, -torch.inf).to(rows.dtype)
    return there, torch.where(inside, rows, rest)


def _targets(target: Tensor, x: Tensor, name: str) -> Tensor:
    if not isinstance(target, Tensor) or tuple(target.shape) != tuple(x.shape):
        raise ValueError(
            f"{name} needs targets of the scores' shape {tuple(x.shape)}, got {described(target)}"
        )
    if target.requires_grad:
        raise ValueError("targets are not differentiated: pass target.detach()")
    return target.reshape(-1, *x.shape[-2:])


def _reduced(losses: Tensor, x: Tensor, reduction: str) -> Tensor:
    _check_choice("reduction", reduction, _REDUCTIONS)
    if reduction == "none":
        return losses.reshape(x.shape[:-2])
    return losses.sum() / max(losses.shape[0], 1) if reduction == "mean" else losses.sum()


def _check_strength(strength: float) -> None:
    if not 0 <= strength < float("inf"):
        raise ValueError(f"strength must be a finite number >= 0, got {strength!r}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
