"""Unbalanced transport for torch: plans whose sums may differ from what is given, at a price."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, overload

import torch
from maxent.torch._operators import Operation
from maxent.torch.structured import _unbalanced_exact, _unbalanced_solver
from maxent.torch.structured._lengths import described
from maxent.torch.structured._marginal_penalties import PENALTIES, penalty_of
from maxent.torch.structured._unbalanced_solver import Sides
from torch import Tensor

_REGULARIZATIONS = ("l2", "kl")
_DOUBLE = torch.float64


@overload
def unbalanced_transport(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    penalty: float | tuple[float, float],
    strength: float = 1.0,
    regularization: str = "l2",
    divergence: str = "kl",
    return_gap: Literal[False] = False,
) -> Tensor: ...


@overload
def unbalanced_transport(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    penalty: float | tuple[float, float],
    strength: float = 1.0,
    regularization: str = "l2",
    divergence: str = "kl",
    *,
    return_gap: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def unbalanced_transport(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    penalty: float | tuple[float, float],
    strength: float = 1.0,
    regularization: str = "l2",
    divergence: str = "kl",
    return_gap: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`argmax_P <x, P> - strength Omega(P) - penalty D(P 1 | a) - penalty D(P^T 1 | b)`, P >= 0.

    Plans may move more or less than the masses a and b. All are differentiated: x, a and b, also
    twice. The gap bounds what a plan falls short of the best value by.

    Parameters
    ----------
    x : tensor (..., m, n)
        Scores, minus costs; -inf forbids an entry.
    a : tensor (m,) or (..., m)
        What the row sums should be, >= 0.
    b : tensor (n,) or (..., n)
        What the column sums should be, >= 0.
    penalty : float or pair of floats
        Factor of the divergences, > 0: one for both, or one of rows and one of columns. An infinite
        one keeps the sums; both are ``transport``.
    strength : float, default 1.0
        Factor of `Omega`; 0, with "l1" alone, is the best plan of the linear programme, without a
        gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P - P` ("kl"; for
        `KL(P | a b^T)` add `strength log(a_i b_j)` to the scores).
    divergence : "kl", "l1" or "l2", default "kl"
        `D(r | a)`: `sum r log(r / a) - r + a`, `sum |r - a|` or `1/2 sum (r - a)^2`.
    return_gap : bool, default False
        Whether the duality gap (...) comes with the plan, in float64.

    Examples
    --------
    >>> import torch
    >>> x = -torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> a, b = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 1.0])
    >>> unbalanced_transport(x, a, b, penalty=0.3, strength=0, divergence="l1")
    tensor([[1., 0.],
            [0., 1.]])
    >>> plan, gap = unbalanced_transport(x, a, b, 1.0, 0.1, return_gap=True)
    >>> plan, bool(gap < 1e-12)
    (tensor([[1.3236, 0.0000],
            [0.0000, 0.9534]]), True)
    """
    found = _Solved(x, a, b, penalty, strength, regularization, divergence, "unbalanced_transport")
    plan = found.p.to(x.dtype).reshape(x.shape)
    return (plan, found.gap().reshape(x.shape[:-2])) if return_gap else plan


def unbalanced_transport_value(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    penalty: float | tuple[float, float],
    strength: float = 1.0,
    regularization: str = "l2",
    divergence: str = "kl",
) -> Tensor:
    """What ``unbalanced_transport`` maximises, at its plan; minus it is the cost of transport.

    The gradient in x is the plan, also at strength 0.

    Parameters
    ----------
    x : tensor (..., m, n)
        Scores, minus costs; -inf forbids an entry.
    a : tensor (m,) or (..., m)
        What the row sums should be, >= 0.
    b : tensor (n,) or (..., n)
        What the column sums should be, >= 0.
    penalty : float or pair of floats
        Factor of the divergences, > 0: one for both, or one of rows and one of columns. An infinite
        one keeps the sums.
    strength : float, default 1.0
        Factor of `Omega`; 0, with "l1" alone, is the linear programme.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2") or `sum P log P - P` ("kl").
    divergence : "kl", "l1" or "l2", default "kl"
        `D(r | a)`: `sum r log(r / a) - r + a`, `sum |r - a|` or `1/2 sum (r - a)^2`.

    Examples
    --------
    >>> import torch
    >>> x = -torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> a, b = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 1.0])
    >>> unbalanced_transport_value(x, a, b, penalty=0.3, strength=0, divergence="l1")
    tensor(-0.3000)
    """
    name = "unbalanced_transport_value"
    found = _Solved(x, a, b, penalty, strength, regularization, divergence, name)
    return found.value().to(torch.promote_types(x.dtype, torch.float32)).reshape(x.shape[:-2])


class _Solved:
    """Plans (rows, m, n), their potentials, and what they attain."""

    def __init__(
        self,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        penalty: float | tuple[float, float],
        strength: float,
        regularization: str,
        divergence: str,
        name: str,
    ) -> None:
        self.x, self.a, self.b = _prepared(x, a, b, name)
        pair = _pair(penalty)
        _check_choice("regularization", regularization, _REGULARIZATIONS)
        _check_choice("divergence", divergence, tuple(PENALTIES))
        if not 0 <= strength < float("inf"):
            raise ValueError(f"strength must be a finite number >= 0, got {strength!r}")
        if strength == 0 and divergence != "l1":
            raise ValueError(
                f"strength 0 leaves a linear programme with the divergence 'l1' alone, got "
                f"{divergence!r}; take a small strength, or divergence='l1'"
            )
        self.settings = (*pair, float(strength), regularization == "kl", divergence)
        given = self.x, self.a, self.b
        if strength == 0:
            given = (self.x.detach(), self.a.detach(), self.b.detach())
        plan = _Plan if strength > 0 else _BestPlan
        self.p, self.f, self.g = plan.apply(*given, *self.settings)

    def value(self) -> Tensor:
        """What is maximised."""
        given = self.x, self.a, self.b, self.p, self.f, self.g
        value: Tensor = _Value.apply(*given, *self.settings)
        return value

    def gap(self) -> Tensor:
        """The Fenchel-Young gaps of `Omega` and of both divergences."""
        x, a, b = self.x.detach(), self.a.detach(), self.b.detach()
        p, f, g = self.p.detach(), self.f.detach(), self.g.detach()
        of_rows, of_columns, strength, kl, divergence = self.settings
        rows, columns = penalty_of(divergence, of_rows), penalty_of(divergence, of_columns)
        # the best potential of what has no mass is infinite
        closed = rows.closed(a)[:, :, None] | columns.closed(b)[:, None]
        open_ = (x > -torch.inf) & ~closed
        theta = torch.where(open_, x - f[:, :, None] - g[:, None], 0)
        if strength == 0:
            own = -p * theta
        elif kl:
            dual = torch.where(open_, torch.exp(theta / strength), 0)
            own = strength * (torch.special.xlogy(p, p) - p + dual) - p * theta
        else:
            dual = theta.clamp(min=0)
            own = (strength * p - dual).square() / (2 * strength) + p * (dual - theta)
        beside = rows.gap(p.sum(2), f, a).sum(1) + columns.gap(p.sum(1), g, b).sum(1)
        return (own.sum((1, 2)) + beside).clamp(min=0)


class _Plan(Operation, name="unbalanced_transport_plan"):
    """Plans of (rows, m, n) scores and their potentials; the derivative is a linear system."""

    @staticmethod
    def run(
        x: Tensor,
        a: Tensor,
        b: Tensor,
        of_rows: float,
        of_columns: float,
        strength: float,
        kl: bool,
        divergence: str,
    ) -> tuple[Tensor, Tensor, Tensor]:
        sides = penalty_of(divergence, of_rows), penalty_of(divergence, of_columns)
        _check_values(x, a, b, sides)
        p, f, g = _unbalanced_solver.solve(x, a, b, sides, strength, kl)
        if not bool(p.sum().isfinite()) and not bool(p.isfinite().all()):
            raise ValueError(
                "the masses of a plan are beyond the largest numbers: scores are up to "
                f"{float(x.max()):.3g}, for a strength of {strength:.3g} and penalties of "
                f"{of_rows:.3g} and {of_columns:.3g}; subtract a constant from the scores, or take "
                "larger ones"
            )
        return p.contiguous(), f, g

    @staticmethod
    def fake(
        x: Tensor,
        a: Tensor,
        b: Tensor,
        of_rows: float,
        of_columns: float,
        strength: float,
        kl: bool,
        divergence: str,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return torch.empty_like(x), torch.empty_like(a), torch.empty_like(b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.settings = inputs[3:]
        ctx.save_for_backward(*inputs[1:3], *output)

    @staticmethod
    def backward(ctx: Any, by_p: Tensor, by_f: Tensor, by_g: Tensor) -> tuple[Any, ...]:
        a, b, p, f, g = ctx.saved_tensors
        of_rows, of_columns, strength, kl, divergence = ctx.settings
        sides = penalty_of(divergence, of_rows), penalty_of(divergence, of_columns)
        found = _unbalanced_solver.vjp((p, f, g), (by_p, by_f, by_g), (a, b), sides, strength, kl)
        return *found, None, None, None, None, None


class _BestPlan(Operation, name="unbalanced_transport_best"):
    """The plans that nothing spreads, under absolute penalties."""

    @staticmethod
    def run(
        x: Tensor,
        a: Tensor,
        b: Tensor,
        of_rows: float,
        of_columns: float,
        strength: float,
        kl: bool,
        divergence: str,
    ) -> tuple[Tensor, Tensor, Tensor]:
        sides = penalty_of(divergence, of_rows), penalty_of(divergence, of_columns)
        _check_values(x, a, b, sides)
        if x.numel() and float(x.max()) > of_rows + of_columns:
            raise ValueError(
                f"a score of {float(x.max()):.6g} is worth more than the penalties of "
                f"{of_rows:.6g} and {of_columns:.6g} cost, so the best plan is infinite; take "
                "larger penalties, or a strength > 0"
            )
        p, f, g = _unbalanced_exact.solve(x.cpu(), a.cpu(), b.cpu(), of_rows, of_columns)
        return p.to(x), f.to(x), g.to(x)

    fake = _Plan.fake


class _Value(Operation, name="unbalanced_transport_value"):
    """The objective at the best plan, whose derivatives are the plan and those of `D*`."""

    @staticmethod
    def run(
        x: Tensor,
        a: Tensor,
        b: Tensor,
        p: Tensor,
        f: Tensor,
        g: Tensor,
        of_rows: float,
        of_columns: float,
        strength: float,
        kl: bool,
        divergence: str,
    ) -> Tensor:
        spread = torch.special.xlogy(p, p) - p if kl else 0.5 * p.square()
        moved = (torch.where(p > 0, x * p, 0) - strength * spread).sum((1, 2))
        rows, columns = penalty_of(divergence, of_rows), penalty_of(divergence, of_columns)
        return moved - rows.value(p.sum(2), a).sum(1) - columns.value(p.sum(1), b).sum(1)

    @staticmethod
    def fake(
        x: Tensor,
        a: Tensor,
        b: Tensor,
        p: Tensor,
        f: Tensor,
        g: Tensor,
        of_rows: float,
        of_columns: float,
        strength: float,
        kl: bool,
        divergence: str,
    ) -> Tensor:
        return x.new_empty(x.shape[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.settings = inputs[6:]
        ctx.save_for_backward(*inputs[3:6])

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Any, ...]:
        p, f, g = ctx.saved_tensors
        of_rows, of_columns, _, _, divergence = ctx.settings
        rows, columns = penalty_of(divergence, of_rows), penalty_of(divergence, of_columns)
        by_a, by_b = given[:, None] * rows.by_mass(f), given[:, None] * columns.by_mass(g)
        return given[:, None, None] * p, by_a, by_b, *(None,) * 8


def _prepared(x: Tensor, a: Tensor, b: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (rows, m, n) and masses (rows, m), (rows, n), all in float64 on one device."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(f"{name} needs a floating tensor of scores, got {described(x)}")
    if x.ndim < 2 or 0 in x.shape[-2:]:
        raise ValueError(f"{name} needs matrices (..., m, n) of scores, got shape {tuple(x.shape)}")
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    masses = []
    for letter, mass, size in (("a", a, m), ("b", b, n)):
        mass = torch.as_tensor(mass)
        if tuple(mass.shape) not in ((size,), (*batch, size)):
            raise ValueError(
                f"{name} of {m} x {n} scores needs masses {letter} of shape ({size},) or "
                f"{(*batch, size)}, got {tuple(mass.shape)}"
            )
        mass = mass.to(x.device, _DOUBLE).expand(*batch, size)
        masses.append(mass.reshape(-1, size))
    return x.reshape(-1, m, n).to(_DOUBLE), masses[0], masses[1]


def _check_values(x: Tensor, a: Tensor, b: Tensor, sides: Sides) -> None:
    if x.numel() and not bool(x.max() < torch.inf):
        raise ValueError("scores of unbalanced transport must not be NaN or +inf; -inf forbids")
    for letter, mass in (("a", a), ("b", b)):
        right = (mass >= 0) & mass.isfinite()
        if not bool(right.all()):
            row = int((~right).any(1).nonzero()[0])
            wrong = float(mass[row][~right[row]][0])
            raise ValueError(
                f"masses of unbalanced transport must be finite and >= 0, got {wrong:.6g} in "
                f"{letter} of matrix {row}"
            )
    for letter, mass, side, way in (("a", a, sides[0], 2), ("b", b, sides[1], 1)):
        if side.weight < torch.inf:
            continue
        closed = sides[0].closed(a)[:, :, None] | sides[1].closed(b)[:, None]
        lost = (mass > 0) & ~((x > -torch.inf) & ~closed).any(way)
        if bool(lost.any()):
            row, at = (int(i) for i in lost.nonzero()[0])
            raise ValueError(
                f"matrix {row} has no plan: an infinite penalty keeps the mass {letter}[{at}], and "
                "nothing is left of its row or column, by scores of -inf or masses of 0; take a "
                "finite penalty"
            )
    if sides[0].weight == sides[1].weight == torch.inf:
        totals = a.sum(1), b.sum(1)
        if not torch.allclose(*totals, rtol=1e-5, atol=0):
            row = int((totals[0] - totals[1]).abs().argmax())
            raise ValueError(
                "infinite penalties of rows and columns keep both sums, so these must have one "
                f"total, got {float(totals[0][row]):.6g} and {float(totals[1][row]):.6g}; make one "
                "penalty finite"
            )


def _pair(penalty: float | tuple[float, float]) -> tuple[float, float]:
    pair = penalty if isinstance(penalty, (tuple, list)) else (penalty, penalty)
    if len(pair) != 2 or not all(isinstance(each, Real) and each > 0 for each in pair):
        raise ValueError(
            f"penalty must be a number > 0 or a pair of them, for rows and columns, got {penalty!r}"
        )
    return float(pair[0]), float(pair[1])


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
