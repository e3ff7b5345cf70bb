"""Unbalanced transport with a squared norm: a primal-dual interior point, in torch operations.

The plan P > 0 and its slacks z > 0 have `s P - x + f + g = z`, and `P z` falls to 0 (Mehrotra's
predictor and corrector, all matrices of a batch at once, in float64). Penalties with bounds have
excess and lack of each sum as further positive numbers. Newton's method on the support ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from maxent.torch.structured._marginal_penalties import MarginalPenalty
from maxent.torch.structured._unbalanced_system import System
from torch import Tensor

_STEPS, _POLISH = 150, 12
_CLOSE = 1e-20  # sums of products: entries that are all but 0 are found as well
_SHORT = 0.995  # of the way to where a number is 0
_EPS = torch.finfo(torch.float64).eps

Three = tuple[Tensor, Tensor, Tensor]


class _Side:
    """Sums and potentials of the rows, or of the columns."""

    def __init__(
        self, penalty: MarginalPenalty, mass: Tensor, nothing: Tensor, mean: Tensor
    ) -> None:
        self.penalty, self.mass, self.nothing = penalty, mass, nothing
        self.f = torch.zeros_like(mass)
        self.bounded = 0 < penalty.bound < torch.inf
        # what is above and below the mass, and how far the potential is from its bounds
        start = (mean / penalty.bound)[:, None] if self.bounded else torch.zeros_like(mass[:, :1])
        self.excess = torch.stack([start + torch.zeros_like(mass)] * 2)
        self.room = torch.stack([torch.full_like(mass, penalty.bound)] * 2)

    def equation(self, r: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The slope of the sums in f, and what the sums r have too much.

        target : of excess times room, of which the second-order term was taken.
        """
        if self.bounded:
            shift = target / self.room - self.excess
            slope = (self.excess / self.room).sum(0)
            over = r - self.mass - self.excess[0] + self.excess[1] - shift[0] + shift[1]
        else:
            slope, over = self.penalty.slope(r), self.penalty.over(r, self.f, self.mass)
        return torch.where(self.nothing, 0, slope), torch.where(self.nothing, 0, over)

    def too_much(self, r: Tensor, f: Tensor) -> Tensor:
        """What the sums r exceed those of potentials f by, where these can move."""
        over, bound = r - self.penalty.sums(f, self.mass), self.penalty.bound
        held = ((f >= bound) & (over > 0)) | ((f <= -bound) & (over < 0)) | self.nothing
        return torch.where(held, 0, over)

    def change(self, df: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The changes of excess and room."""
        turn = torch.stack([-df, df])
        return (target - self.excess * turn) / self.room - self.excess, turn


@dataclass(frozen=True)
class _Step:
    p: Tensor
    z: Tensor
    f: Tensor
    g: Tensor
    sides: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]


class Interior:
    """A batch of problems; where nothing can be, scores are -inf."""

    def __init__(
        self, x: Tensor, a: Tensor, b: Tensor, sides: tuple[MarginalPenalty, MarginalPenalty]
    ) -> None:
        self.there = x > -torch.inf
        self.x = torch.where(self.there, x, 0)
        largest = self.x.abs().amax((1, 2))
        mass = torch.maximum(a.sum(1), b.sum(1))
        self.mass = torch.where(mass > 0, mass, 1.0)
        even = self.mass / self.there.sum((1, 2)).clamp(min=1)
        self.slack = torch.where(largest > 0, largest, 1.0)
        self.p = torch.where(self.there, even[:, None, None], 0)
        self.z = torch.where(self.there, self.slack[:, None, None], 1.0)
        mean = even * self.slack
        self.rows = _Side(sides[0], a, ~self.there.any(2), mean)
        self.columns = _Side(sides[1], b, ~self.there.any(1), mean)

    def minimise(self, strength: float) -> Three:
        """Plans and potentials."""
        for _ in range(_STEPS):
            mean = self._complementarity()
            if not bool(self._going(mean, strength).any()):
                break
            self._advance(strength, mean)
        f, g = self._polished(strength)
        return self._plan(f, g, strength), f, g

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        pairs = [(self.p, self.z)]
        for side in (self.rows, self.columns):
            if side.bounded:
                pairs += [(side.excess[i], side.room[i]) for i in (0, 1)]
        return pairs

    def _complementarity(self) -> Tensor:
        return _mean_product(self._pairs(), self.there)

    def _going(self, mean: Tensor, s: float) -> Tensor:
        over = self._lack(self.p, s)
        return (mean * self.there.sum((1, 2)) > _CLOSE * self.mass * self.slack) | (over > 1e-12)

    def _lack(self, p: Tensor, s: float) -> Tensor:
        """What equations lack, as a share of the mass."""
        rest = torch.zeros_like(self.mass)
        for side, r in ((self.rows, p.sum(2)), (self.columns, p.sum(1))):
            if not side.bounded:
                rest = rest + side.equation(r, side.excess)[1].abs().sum(1)
        return rest / self.mass

    def _advance(self, s: float, mean: Tensor) -> None:
        """A step by the second-order method of Mehrotra (1992)."""
        q = torch.where(self.there, self.p / (self.z + s * self.p), 0)
        nought = torch.zeros_like(self.rows.excess), torch.zeros_like(self.columns.excess)
        slopes = tuple(
            side.equation(r, t)[0]
            for side, r, t in zip(
                (self.rows, self.columns), (self.p.sum(2), self.p.sum(1)), nought, strict=True
            )
        )
        system = System(q, (slopes[0], slopes[1]), (~self.rows.nothing, ~self.columns.nothing))
        first = self._step(system, q, s, torch.zeros_like(self.p), nought)
        length = self._length(first, 1.0)
        after = _mean_product(self._moved(first, length), self.there)
        target = mean * (after / mean).clamp(max=1.0).pow(3)
        aims = tuple(target[:, None] - change[0] * change[1] for change in first.sides)
        step = self._step(
            system, q, s, target[:, None, None] - first.p * first.z, (aims[0], aims[1])
        )
        length = self._length(step, _SHORT)
        moved = iter(self._moved(step, length))
        self.p, self.z = next(moved)
        for side, change in ((self.rows, step.f), (self.columns, step.g)):
            side.f = side.f + length[:, None] * change
            if side.bounded:
                above, below = next(moved), next(moved)
                side.excess = torch.stack([above[0], below[0]])
                side.room = torch.stack([above[1], below[1]])

    def _step(
        self, system: System, q: Tensor, s: float, target: Tensor, targets: tuple[Tensor, Tensor]
    ) -> _Step:
        f, g = self.rows.f[:, :, None], self.columns.f[:, None]
        aim = self.x - f - g - s * self.p
        wanted = torch.where(self.there, target / torch.where(self.there, self.p, 1.0) + aim, 0)
        over = (
            self.rows.equation(self.p.sum(2), targets[0])[1],
            self.columns.equation(self.p.sum(1), targets[1])[1],
        )
        flow = q * wanted
        df, dg = system.solve(flow.sum(2) + over[0], flow.sum(1) + over[1])
        dp = q * (wanted - df[:, :, None] - dg[:, None])
        dz = s * dp + df[:, :, None] + dg[:, None] - aim - self.z
        dz = torch.where(self.there, dz, 0)
        changes = self.rows.change(df, targets[0]), self.columns.change(dg, targets[1])
        return _Step(dp, dz, df, dg, changes)

    def _changes(self, step: _Step) -> list[tuple[Tensor, Tensor]]:
        changes = [(step.p, step.z)]
        for side, (excess, room) in zip((self.rows, self.columns), step.sides, strict=True):
            if side.bounded:
                changes += [(excess[i], room[i]) for i in (0, 1)]
        return changes

    def _moved(self, step: _Step, length: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [
            (x + _along(length, x) * dx, y + _along(length, y) * dy)
            for (x, y), (dx, dy) in zip(self._pairs(), self._changes(step), strict=True)
        ]

    def _length(self, step: _Step, share: float) -> Tensor:
        """How far all stay positive, at most 1."""
        longest = torch.ones_like(self.mass)
        for pair, change in zip(self._pairs(), self._changes(step), strict=True):
            for x, dx in zip(pair, change, strict=True):
                way = torch.where(dx < 0, -share * x / torch.where(dx < 0, dx, 1.0), torch.inf)
                longest = torch.minimum(longest, way.flatten(1).amin(1))
        return longest

    def _plan(self, f: Tensor, g: Tensor, s: float) -> Tensor:
        theta = (self.x - f[:, :, None] - g[:, None]) / s
        return torch.where(self.there, theta.clamp(min=0), 0)

    def _polished(self, s: float) -> tuple[Tensor, Tensor]:
        """Newton's method on the support that was found, as long as the sums get better."""
        f, g = self._ends(self.rows), self._ends(self.columns)
        p = self._plan(f, g, s)
        size, lack = self._gradient(p, f, g)
        for _ in range(_POLISH):
            q = (p > 0).to(p.dtype) / s
            slopes = self.rows.penalty.slope(p.sum(2)), self.columns.penalty.slope(p.sum(1))
            moving = (
                self.rows.penalty.moving(f) & ~self.rows.nothing,
                self.columns.penalty.moving(g) & ~self.columns.nothing,
            )
            df, dg = System(q, slopes, moving).solve(*lack)
            bounds = self.rows.penalty.bound, self.columns.penalty.bound
            new = (f + df).clamp(-bounds[0], bounds[0]), (g + dg).clamp(-bounds[1], bounds[1])
            plan = self._plan(*new, s)
            least, rest = self._gradient(plan, *new)
            better = least < 0.5 * size
            if not bool(better.any()):
                break
            f, g, p = (
                torch.where(_along(better, x), x, y)
                for x, y in ((new[0], f), (new[1], g), (plan, p))
            )
            lack = (
                torch.where(better[:, None], rest[0], lack[0]),
                torch.where(better[:, None], rest[1], lack[1]),
            )
            size = torch.where(better, least, size)
        return f, g

    def _ends(self, side: _Side) -> Tensor:
        f = torch.where(side.nothing, side.penalty.empty(side.mass), side.f)
        if not side.bounded:
            return f
        bound = side.penalty.bound
        f = torch.where(side.excess[0] > side.room[0], bound, f)
        return torch.where(side.excess[1] > side.room[1], -bound, f).clamp(-bound, bound)

    def _gradient(self, p: Tensor, f: Tensor, g: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What sums of the plan have too much, where the potentials can move."""
        r, c = self.rows.too_much(p.sum(2), f), self.columns.too_much(p.sum(1), g)
        return r.abs().sum(1) + c.abs().sum(1), (r, c)


def _along(length: Tensor, x: Tensor) -> Tensor:
    return length.view(-1, *[1] * (x.ndim - 1))


def _mean_product(pairs: list[tuple[Tensor, Tensor]], there: Tensor) -> Tensor:
    """The mean product of all pairs that are there."""
    total = (pairs[0][0] * pairs[0][1]).sum((1, 2))
    count = there.sum((1, 2))
    for x, y in pairs[1:]:
        total, count = total + (x * y).sum(1), count + x.shape[1]
    return total / count.clamp(min=1)
