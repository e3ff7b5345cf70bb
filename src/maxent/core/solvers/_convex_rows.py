"""The programme of planes of single rows under many potentials and slacks, by interior points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent.core.entropies import Slack
from maxent.core.potentials import (
    DualBall,
    NormBall,
    NormPlusSquare,
    Potential,
    ScaledPotential,
    SquaredNormPotential,
)
from maxent.core.potentials.balls import dual_order
from maxent.core.problem import Problem, State
from maxent.core.solvers._interior import Bulge, Curve, Levelling, Point, Programme, solve
from maxent.core.solvers._row_planes import RowMaster
from maxent.rows.arrays import Array, Rows, row_dot

_REACH, _WIDER, _FARTHEST = 100.0, 10.0, 1e12  # times the weights' unit: a box, and wider ones
_NEAR = 0.5  # share of the way to its sides
_FAR, _STEEP = 1e100, 1e50  # a weight, and a slope there that does not level off
_ROUNDS = 3  # of corrections to the last digits
_ROUND = 1e-12  # share of a norm's power by which that of a weight is rounded off at 0


@dataclass(frozen=True)
class Penalty:
    """V*(-w) as l1'|w| + l2'w^2 / 2, or a smooth function, or by a norm of all weights.

    ``order`` is that of a norm ||w||: at most ``radius``, and priced price ||w|| +
    square/2 ||w||^2.
    """

    l1: Array
    l2: Array
    smooth: Potential | None = None
    order: float | None = None
    radius: float = np.inf
    price: float = 0.0
    square: float = 0.0

    @property
    def free(self) -> Array:
        """Which weights have no price at all: their moments must be equal."""
        none = self.smooth is None and self.order is None
        return (self.l1 + self.l2 == 0) & none


def penalty_of(potential: Potential, n: int) -> Penalty | None:
    """What interior points can do with a potential; None where that is nothing."""
    zero = np.zeros(n)
    elastic = potential.elastic(n)
    if elastic is not None:
        l1, l2 = (np.array(x) for x in elastic)
        return Penalty(l1, l2)
    if potential.smooth_conjugate and potential.conjugate_hessian(zero) is not None:
        return Penalty(zero, zero, potential)
    inside: Any = potential
    times = 1.0
    while isinstance(inside, ScaledPotential):
        inside, times = inside.potential, times * inside.multiplier
    if isinstance(inside, DualBall):
        return Penalty(zero, zero, order=inside.p, radius=inside.radius)
    if not isinstance(inside, NormBall | NormPlusSquare | SquaredNormPotential):
        return None
    order = dual_order(inside.p)
    if isinstance(inside, SquaredNormPotential):
        return Penalty(zero, zero, order=order, square=times * inside.strength)
    l2 = zero + (times * inside.strength if isinstance(inside, NormPlusSquare) else 0.0)
    if inside.radius == 0:
        return Penalty(zero, l2)
    return Penalty(zero, l2, order=order, price=times * inside.radius)


def may_fall_for_ever(problem: Problem, penalty: Penalty) -> bool:
    """Whether few planes may leave the programme without a lowest point."""
    potential = problem.potential
    held = potential.strong_convexity() > 0 or isinstance(potential, DualBall)
    return bool(penalty.free.any()) or (problem.observed is None and not held)


class ConvexRows(RowMaster):
    """min V*(-w) - <w, mu> + sum a_i U(t_i), t_i above the planes of row i.

    U is linear for an entropy without slacks, else that of ``Slack``, whose planes are those of the
    hinge inside; t_i then has a least value, where U begins to grow. Where weights have no price
    all are held in a box, which is widened while they come near its sides.
    """

    def __init__(self, problem: Problem, penalty: Penalty) -> None:
        super().__init__(problem)
        self.penalty = penalty
        self.reach, self.times = np.inf, _REACH if may_fall_for_ever(problem, penalty) else np.inf
        self.slack = problem.entropy if isinstance(problem.entropy, Slack) else None
        if self.slack is not None:
            self.floor = 0.0 if self.slack.kind == "squared" else 1 / self.slack.rate
        elif problem.observed is not None:  # bounds the programme from below, whatever the penalty
            observed = self.rows_of(problem.observed)
            omega = problem.entropy.value_inside(observed)
            self._keep(observed, omega, np.arange(self.weights.size))

    def answer_at(self, state: State) -> tuple[Rows, Array, Array]:
        """The vertex of the hinge less the observed one, where slacks are a function of it."""
        if self.slack is None:
            return super().answer_at(state)
        hinge, right = self.slack.entropy, self.rows_of(self.slack.observed)
        theta = self.rows_of(state.theta)
        values, vertex = hinge.conjugate(theta)
        return vertex - right, hinge.value_inside(vertex), values - row_dot(theta, right)

    def solve(self, tol: float) -> Array:
        """The best weights, and the mixture from the multipliers of the planes."""
        counted = self.weights > 0
        kept = counted[self.row]
        weights = self.weights[counted]
        number = np.cumsum(counted) - 1
        row = number[self.row[kept]]
        share = self.weights[self.row[kept]]
        planes = self.planes[kept].toarray() / share[:, None]
        programme, start, fold = self._programme(planes, self.entropies[kept] / share, row, weights)
        answer = solve(programme, start, tol)
        shares = np.maximum(answer.y[: row.size], 0.0) / weights[row]
        if self.slack is None:
            shares /= np.bincount(row, shares, weights.size)[row]
        if self.penalty.free.any():
            room = programme.h[: row.size] + answer.t[row] - programme.J[: row.size] @ answer.a
            # planes that are not touched, or that only seem so where a share is small
            busy = np.where(shares * programme.size < room, 0.0, shares)
            system = self._conditions(planes * share[:, None], row)
            shares = min((_evened(x, *system) for x in (busy, shares)), key=lambda x: x[1])[0]
        self.mixture[kept] = shares
        w = fold(answer.a)
        return w if np.isfinite(self.problem.penalty(w)) else self.problem.prox(w, 1.0)

    def _conditions(self, planes: Array, row: Array) -> tuple[Array, Array]:
        """A, b: A shares = b where moments without a price are equal, and rows sum to 1."""
        free = self.penalty.free
        sums = np.zeros((0 if self.slack else int(row.max()) + 1, row.size))
        if self.slack is None:
            sums[row, np.arange(row.size)] = 1.0
        moments, target = planes[:, free].T, self.problem.target[free]
        unit = float(np.abs(moments).max(initial=0.0)) or 1.0
        matrix = np.vstack([moments / unit, sums])
        return matrix, np.concatenate([target / unit, np.ones(len(sums))])

    def widen(self, w: Array) -> bool:
        """Widen the box of the weights where they have come near its sides; whether they have."""
        near = bool(np.abs(w).max(initial=0.0) > _NEAR * self.reach) and self.times < _FARTHEST
        self.times *= _WIDER if near else 1.0
        return near

    def _programme(
        self, planes: Array, entropies: Array, row: Array, weights: Array
    ) -> tuple[Programme, Point, _Fold]:
        penalty, n, rows = self.penalty, planes.shape[1], weights.size
        fold = _Fold(n, bool(penalty.l1.any()) or penalty.order == 1)
        J, h = fold.columns(planes), np.array(entropies)
        mu = self.problem.target
        # a priced norm is one more t, above |w_j| or, where it is round, one more a in a cone
        priced = bool(penalty.price or penalty.square)
        size = max(float(np.abs(h).max(initial=0.0)), self.floor, 0.0) or 1.0
        unit = size / (float(np.abs(planes).max(initial=0.0)) or 1.0)
        self.reach = self.times * unit
        reach = min(unit, penalty.radius / (4 * n))
        # orders above 2 have no curvature at 0
        bent = penalty.order is not None and 2 < penalty.order < np.inf
        a = np.full(fold.size, reach if fold.split else reach / (4 * n) if bent else 0.0)
        index, sign = np.arange(a.size if fold.split else 0), -np.ones(a.size if fold.split else 0)
        limit, slope = np.zeros(index.size), fold.signed(-mu)
        bends, above = fold.both(penalty.l2), None
        bulge: Bulge | None = None
        if fold.split:
            slope = slope + fold.both(penalty.l1)
        if self.floor > -np.inf:  # a plane of its own for every t
            J = np.vstack([J, np.zeros((rows, a.size))])
            h, row = np.append(h, np.full(rows, -self.floor)), np.append(row, np.arange(rows))
        if penalty.order == 1:
            bound = np.ones((1, a.size))
            J = np.vstack([J, bound])
            h = np.append(h, 0.0 if priced else penalty.radius)
            row = np.append(row, rows if priced else -1)
        elif penalty.order == np.inf and priced:
            J = np.vstack([J, np.eye(n), -np.eye(n)])
            h, row = np.append(h, np.zeros(2 * n)), np.append(row, np.full(2 * n, rows))
        elif penalty.order == np.inf:
            index, sign = np.tile(np.arange(n), 2), np.repeat([1.0, -1.0], n)
            limit = np.full(2 * n, penalty.radius)
        elif penalty.order is not None and penalty.order > 1 and priced:
            a, above = np.append(a, reach), n
            slope, bends = np.append(slope, penalty.price), np.append(bends, penalty.square)
            J = np.hstack([J, np.zeros((len(J), 1))])
            index, sign, limit = np.array([n]), np.array([-1.0]), np.zeros(1)
            bulge = _cone(penalty.order)
        elif penalty.order is not None:
            bulge = _ball(penalty.radius, penalty.order)
        if np.isfinite(self.reach):
            sides = np.array([1.0]) if fold.split else np.array([1.0, -1.0])
            index = np.append(index, np.tile(np.arange(a.size), sides.size))
            sign = np.append(sign, np.repeat(sides, a.size))
            limit = np.append(limit, np.full(sides.size * a.size, self.reach))
        extra = priced and above is None
        slack = self._slack_curve(weights, (penalty.price, penalty.square) if extra else None)
        price, level = _price(slope, bends, penalty.smooth), _levelling(slope, penalty.smooth)
        programme = Programme(price, slack, J, h, row, index, sign, limit, size, bulge, level)
        return programme, _inside(programme, a, rows + extra, weights), fold

    def _slack_curve(self, weights: Array, norm: tuple[float, float] | None) -> Curve:
        """Slopes and curvatures of sum a_i U(t_i), and of the price of a norm as the last t."""
        kind = None if self.slack is None else self.slack.kind
        rate = 1.0 if self.slack is None else self.slack.rate
        count = weights.size

        def curve(t: Array) -> tuple[Array, Array]:
            own = t[:count]
            if kind is None:
                first, second = weights, np.zeros(count)
            elif kind == "squared":
                first, second = weights * own, weights
            else:
                first, second = weights * (1 - 1 / (rate * own)), weights / (rate * own**2)
            if norm is None:
                return first, second
            return np.append(first, norm[0] + norm[1] * t[-1]), np.append(second, norm[1])

        return curve


def _evened(shares: Array, A: Array, b: Array) -> tuple[Array, float]:
    """Shares with A shares = b, each changed as little as can be in proportion; what is left."""
    if not np.isfinite(shares).all():
        return shares, np.inf
    for _ in range(_ROUNDS):
        change = np.linalg.lstsq(A * shares, b - A @ shares, rcond=1e-13)[0]
        shares = shares * np.maximum(1 + change, 0.0)
    return shares, float(np.abs(A @ shares - b).max(initial=0.0))


class _Fold:
    """Weights as they are, or as differences of two parts >= 0."""

    def __init__(self, n: int, split: bool) -> None:
        self.n, self.split, self.size = n, split, 2 * n if split else n

    def __call__(self, a: Array) -> Array:
        return a[: self.n] - a[self.n : 2 * self.n] if self.split else a[: self.n]

    def columns(self, J: Array) -> Array:
        return np.hstack([J, -J]) if self.split else J

    def signed(self, x: Array) -> Array:
        return np.concatenate([x, -x]) if self.split else x

    def both(self, x: Array) -> Array:
        return np.tile(x, 2) if self.split else x


def _price(slope: Array, bends: Array, smooth: Potential | None) -> Curve:
    def curve(a: Array) -> tuple[Array, Array]:
        if smooth is None:
            return slope + bends * a, bends
        hessian = smooth.conjugate_hessian(-a)
        assert hessian is not None
        return slope - smooth.conjugate_gradient(-a), hessian

    return curve


def _levelling(slope: Array, smooth: Potential | None) -> Levelling | None:
    """What slopes of a smooth penalty tend to, where they do."""
    if smooth is None:
        return None
    near, far = np.zeros(slope.size), np.full(slope.size, _FAR)
    up, down = smooth.conjugate_gradient(far), smooth.conjugate_gradient(-far)
    if (up > _STEEP).any() or (up + down != 0).any() or smooth.conjugate_gradient(near).any():
        return None
    return Levelling(slope, up)


def _ball(radius: float, order: float) -> Bulge:
    """radius (sum phi(w / radius) - 1) / order <= 0, phi(x) being |x|^order."""

    def bulge(a: Array) -> tuple[float, Array, Array]:
        value, first, second = _power(a / radius, order)
        return radius * (value.sum() - 1) / order, first / order, second / (order * radius)

    return bulge


def _cone(order: float) -> Bulge:
    """As ``_ball``, the radius s > 0 being the last entry of a: jointly convex."""

    def bulge(a: Array) -> tuple[float, Array, Array]:
        s = float(a[-1])
        x = a[:-1] / s
        value, first, second = _power(x, order)
        hessian = np.diag(np.append(second, second @ x**2)) / (order * s)
        hessian[-1, :-1] = hessian[:-1, -1] = -second * x / (order * s)
        rest = float(value.sum()) - 1
        gradient = np.append(first, rest - first @ x) / order
        return s * rest / order, gradient, hessian

    return bulge


def _power(x: Array, order: float) -> tuple[Array, Array, Array]:
    """|x|^order and two derivatives, below order 2 rounded off where they would be infinite."""
    if order >= 2:
        size = np.abs(x)
        second = order * (order - 1) * size ** (order - 2)
        return size**order, order * size ** (order - 1) * np.sign(x), second
    square = x**2 + _ROUND ** (2 / order)
    first = order * square ** (order / 2 - 1)
    second = first * (1 + (order - 2) * x**2 / square)
    return square ** (order / 2) - _ROUND, first * x, second


def _inside(programme: Programme, a: Array, count: int, weights: Array) -> Point:
    """A point with room on all sides, and multipliers that add up to the weights of the rows."""
    tied = programme.row >= 0
    below = programme.J[tied] @ a - programme.h[tied]
    t = np.full(count, -np.inf)
    np.maximum.at(t, programme.row[tied], below)
    t += programme.size + 0.1 * np.abs(t)
    per_row = np.bincount(programme.row[tied], minlength=count)
    total = np.ones(count)
    total[: weights.size] = weights
    y = np.full(programme.row.size, float(weights.mean()))
    y[tied] = (total / per_row)[programme.row[tied]]
    room = programme.limit - programme.sign * a[programme.index]
    mean = float(np.mean(y))
    v = mean * programme.size / room
    if programme.bulge is not None:
        y = np.append(y, mean)
    return Point(a, t, y, v)
