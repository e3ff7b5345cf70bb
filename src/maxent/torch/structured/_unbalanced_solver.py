"""Unbalanced transport in batched torch operations: a semi-dual, by sweeps and Newton's method.

With potentials f, g the plan is `[x - f - g]_+ / s` or `exp((x - f - g) / s)`, and the dual
`s Omega*((x - f - g) / s) + D_a*(f) + D_b*(g)` is convex. The best f of given g is known exactly;
what is left is convex in g, with the Laplacian of a graph of columns as its Hessian, as in
``_transport_plain``. Strengths fall towards the one asked for. All in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from maxent.torch.maps._dispatch import compiled
from maxent.torch.structured._marginal_penalties import KullbackLeibler, MarginalPenalty, Squared
from maxent.torch.structured._transport_plain import next_damping
from maxent.torch.structured._unbalanced_interior import Interior
from maxent.torch.structured._unbalanced_system import System
from torch import Tensor

if TYPE_CHECKING:
    from maxent.torch.structured._unbalanced_compiled import Plans

_EASY, _FALL, _LOOSE = 20.0, 4.0, 1e-2
_SWEEPS, _STEPS, _HALVINGS = 60, 200, 40
_TURNS, _FAR = 10, 30.0  # of sweeps with one plan, and how far its logarithms may change
_SLOW = 0.2  # sweeps that leave more than this of the violation are slower than Newton's step
_EPS = torch.finfo(torch.float64).eps

Sides = tuple[MarginalPenalty, MarginalPenalty]
Three = tuple[Tensor, Tensor, Tensor]


def solve(x: Tensor, a: Tensor, b: Tensor, sides: Sides, strength: float, kl: bool) -> Three:
    """Plans (rows, m, n) and their potentials (rows, m) and (rows, n)."""
    if x.shape[2] > x.shape[1]:
        p, g, f = solve(x.mT.contiguous(), b, a, sides[::-1], strength, kl)
        return p.mT, f, g
    if x.numel() == 0:
        return torch.zeros_like(x), torch.zeros_like(a), torch.zeros_like(b)
    rows, columns = sides[0].closed(a), sides[1].closed(b)
    if bool(rows.any()) or bool(columns.any()):
        x = x.masked_fill(rows[:, :, None] | columns[:, None], -torch.inf)
    return (_Dual(x, a, b, sides) if kl else Interior(x, a, b, sides)).minimise(strength)


class _Dual:
    """The semi-dual of a batch; where nothing can be, scores are -inf and potentials fixed."""

    def __init__(self, x: Tensor, a: Tensor, b: Tensor, sides: Sides) -> None:
        self.x = x
        self.a, self.b = a, b
        self.of_rows, self.of_columns = sides
        top, least = x.amax((1, 2)), x.amin((1, 2))
        self.no_row = torch.zeros_like(a, dtype=torch.bool)
        self.no_column = torch.zeros_like(b, dtype=torch.bool)
        if not bool(least.isfinite().all()):
            self.no_row, self.no_column = x.amax(2) == -torch.inf, x.amax(1) == -torch.inf
            finite = torch.where(x > -torch.inf, x, 0)
            top, least = finite.amax((1, 2)), finite.amin((1, 2))
        self.largest, self.spread = torch.maximum(top, -least), top - least
        self.compiled: Plans | None = None
        # of a squared penalty, potentials are not known in closed form
        if compiled(x) and not any(isinstance(side, Squared) for side in sides):
            from maxent.torch.structured import _unbalanced_compiled as engine

            nothing = torch.where(self.no_row, self.of_rows.empty(a), 0)
            self.compiled = engine.Plans(x, a, b, sides, nothing)

    def minimise(self, strength: float) -> Three:
        """Through falling strengths: sweeps as long as they are fast, then Newton's method."""
        level = max(strength, float(self.spread.max()) / _EASY)
        g = self.of_columns.empty(self.b)
        g = torch.where(self.no_column, g, 0)
        while True:
            last = level <= strength
            loose = 0.0 if last else _LOOSE
            g, state = self._newton(*self._sweeps(g, level, loose), level, loose)
            if last:
                break
            level = level / _FALL if level > 2 * _FALL * strength else strength
        return state[0], state[1], g

    def _at(self, g: Tensor, s: float, room: Tensor | None = None) -> tuple[Tensor, ...]:
        """The plan, the potentials of rows, the semi-dual's gradient, and how large that is.

        As a share of the mass, and with what rounding makes of it.
        """
        if self.compiled is None:
            p, f, moved = self._plans(g, s)
        else:
            p, f, moved = self.compiled.at(g, s, room)
        return self._state(p, f, g, moved, s)

    def _state(
        self, p: Tensor, f: Tensor, g: Tensor, moved: Tensor, s: float
    ) -> tuple[Tensor, ...]:
        """What ``_at`` gives, of a plan with these column sums."""
        due = self.of_columns.sums(g, self.b)
        gradient = torch.where(self.no_column, 0, due - moved)
        bound = self.of_columns.bound
        if bound < torch.inf:
            held = ((g >= bound) & (gradient < 0)) | ((g <= -bound) & (gradient > 0))
            gradient = torch.where(held, 0, gradient)
        mass = torch.maximum(due.sum(1), moved.sum(1)).clamp(min=1e-300)
        return p, f, gradient, gradient.abs().sum(1) / mass, self._rounding(f, g, s)

    def _value(self, p: Tensor, f: Tensor, g: Tensor, s: float) -> Tensor:
        """The semi-dual, at its plan."""
        value = s * p.sum((1, 2)) + self.of_rows.conjugate(f, self.a).sum(1)
        return value + self.of_columns.conjugate(g, self.b).sum(1)

    def _rounding(self, f: Tensor, g: Tensor, s: float) -> Tensor:
        """What rounding makes of the sums of a plan, as a share of the mass."""
        f, g = f.masked_fill(self.no_row, 0), g.masked_fill(self.no_column, 0)
        farthest = torch.maximum(f.abs().amax(1), g.abs().amax(1)).clamp(min=self.largest) / s
        return 8 * _EPS * (1 + farthest)

    def _plans(self, g: Tensor, s: float) -> Three:
        """The plan with the best potentials of rows, these, and the sums of its columns."""
        p = self.x - g[:, None]
        top = torch.where(self.no_row, 0, p.amax(2))
        p.sub_(top[:, :, None]).div_(s).exp_()
        level = self.of_rows.of_level(top + s * p.sum(2).log(), self.a, s)
        f = torch.where(self.no_row, self.of_rows.empty(self.a), level)
        p.mul_(torch.where(self.no_row, 0, torch.exp((top - f) / s))[:, :, None])
        return p, f, p.sum(1)

    def _sweeps(self, g: Tensor, s: float, loose: float) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The best potentials of rows and columns in turns."""
        if self.compiled is None:
            state = self._at(g, s)
        else:
            p, f, _ = self.compiled.at(g, s)
            tolerance = self._rounding(f, g, s).clamp(min=loose)
            g, sums = self.compiled.turned(p, f, g, s, tolerance)
            state = self._at(g, s, p) if sums is None else self._state(p, f, g, sums, s)
        before = torch.inf
        for _ in range(_SWEEPS):
            p, f, _, size, rounding = state
            worst = float((size / rounding.clamp(min=loose)).max())
            if worst <= 1 or worst > _SLOW * before:
                break
            before = worst
            if self.compiled is not None:
                g, _ = self.compiled.turned(p, f, g, s, rounding.clamp(min=loose))
            else:
                g = self._swept(p, f, g, s)
            state = self._at(g, s)
        return g, state

    def _swept(self, p: Tensor, f: Tensor, g: Tensor, s: float) -> Tensor:
        """A few turns from the plan of f and g, by factors of its rows and columns."""
        rows, columns = torch.ones_like(f), g
        for _ in range(_TURNS):
            moved = (p.mT @ rows[:, :, None])[:, :, 0]
            level = self.of_columns.of_level(g + s * moved.log(), self.b, s)
            columns = torch.where(self.no_column | (moved == 0), g, level)
            moved = (p @ torch.exp((g - columns) / s)[:, :, None])[:, :, 0]
            level = self.of_rows.of_level(f + s * moved.log(), self.a, s)
            level = torch.where(self.no_row | (moved == 0), f, level)
            shift = self._shift(level, columns)
            columns = torch.where(self.no_column, columns, columns - shift)
            change = (f - level - torch.where(self.no_row, 0, shift)) / s
            if float(change.abs().max()) > _FAR:
                break
            rows = torch.exp(change)
        return columns

    def _shift(self, f: Tensor, g: Tensor) -> Tensor:
        """By what rows gain and columns lose where that is best: no entry of the plan changes.

        Séjourné, Vialard and Peyré (2022); turns alone would take long.
        """
        sides = self.of_rows, self.of_columns
        if not all(isinstance(side, KullbackLeibler) for side in sides):
            return torch.zeros_like(f[:, :1])
        rows, columns = self.of_rows.sums(f, self.a).sum(1), self.of_columns.sums(g, self.b).sum(1)
        both = 1 / (1 / sides[0].weight + 1 / sides[1].weight)
        ratio = torch.where((rows > 0) & (columns > 0), columns / rows, 1.0)
        return (both * ratio.log())[:, None]

    def _newton(
        self, g: Tensor, state: tuple[Tensor, ...], s: float, loose: float
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        p, f, gradient, size, rounding = state
        if not bool((size > rounding.clamp(min=loose)).any()):
            return g, state
        value = self._value(p, f, g, s)
        damping = torch.full_like(size, 0.1)
        # where penalties have bounds, a shift of all potentials may cost nothing but them
        bounded = min(side.bound for side in (self.of_rows, self.of_columns)) < torch.inf
        radius = self.largest.clamp(min=s) if bounded else torch.full_like(size, torch.inf)
        bound = self.of_columns.bound
        for _ in range(_STEPS):
            going = size > rounding.clamp(min=loose)
            if not bool(going.any()):
                break
            q = p / s
            moving = self.of_rows.moving(f) & ~self.no_row
            slopes = (
                self.of_rows.slope(p.sum(2)),
                self.of_columns.slope(self.of_columns.sums(g, self.b)),
            )
            held = (gradient == 0) & ((g.abs() >= bound) | self.no_column)
            system = System(q, slopes, (moving, ~held), damping * size)
            step = -system.columns(gradient)
            step = step * (radius / step.abs().amax(1).clamp(min=1e-300)).clamp(max=1.0)[:, None]
            length = going.to(g.dtype)
            for _ in range(_HALVINGS):
                trial = (g + length[:, None] * step).clamp(-bound, bound)
                new = self._at(trial, s)
                reached = self._value(new[0], new[1], trial, s)
                flat = (reached - value).abs() <= 1e-13 * (1 + value.abs())
                down = 1e-4 * (gradient * (trial - g)).sum(1).clamp(max=0)
                lower = (reached <= value + down) | (flat & (new[3] < size)) | ~going
                if bool(lower.all()):
                    break
                length = torch.where(lower, length, length / 2)
            moved = going & lower
            if not bool(moved.any()):
                break
            far = torch.where(length == 1, 4 * radius, length * step.abs().amax(1))
            radius = torch.where(moved, torch.minimum(far, 4 * radius), radius)
            damping = next_damping(damping, length, moved)
            g = torch.where(moved[:, None], trial, g)
            before = size
            # what did not go has not moved either
            state = new if bool(lower.all()) else self._at(g, s)
            p, f, gradient, size, rounding = state
            if bool((moved & (size > 0.25 * before)).any()):
                g = self._swept(p, f, g, s)
                state = self._at(g, s)
                p, f, gradient, size, rounding = state
            value = self._value(p, f, g, s)
        return g, state


def vjp(
    outputs: Three, given: Three, masses: tuple[Tensor, Tensor], sides: Sides, s: float, kl: bool
) -> Three:
    """The derivative of ``solve`` times what is given, in x, a and b, by operations of torch."""
    (p, f, g), (a, b) = outputs, masses
    if p.shape[2] > p.shape[1]:
        turned = (given[0].mT, given[2], given[1])
        x, of_b, of_a = vjp((p.mT, g, f), turned, (b, a), sides[::-1], s, kl)
        return x.mT, of_a, of_b
    r, c = p.sum(2), p.sum(1)
    q = p / s if kl else (p > 0).to(p.dtype) / s
    slopes = sides[0].slope(r), sides[1].slope(c)
    system = System(q, slopes, (sides[0].moving(f), sides[1].moving(g)))
    flow = q * given[0]
    u, v = system.solve(flow.sum(2) - given[1], flow.sum(1) - given[2])
    x = q * (given[0] - u[:, :, None] - v[:, None])
    return x, sides[0].sums_by_mass(r, a) * u, sides[1].sums_by_mass(c, b) * v
