"""The programme of planes of single rows under many potentials and slacks, by interior points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxent.core.entropies import Slack
from maxent.core.potentials import (
    Centred,
    DualBall,
    Families,
    NormBall,
    NormPlusSquare,
    Potential,
    ScaledPotential,
    ShiftedPotential,
    SquaredNormPotential,
)
from maxent.core.potentials.balls import dual_order
from maxent.core.potentials.wrappers import scaled
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
class Norm:
    """||w|| of some weights: at most ``radius``, and priced price ||w|| + square/2 ||w||^2."""

    where: Array
    order: float
    radius: float = np.inf
    price: float = 0.0
    square: float = 0.0

    @property
    def priced(self) -> bool:
        return bool(self.price or self.square)

    @property
    def round(self) -> bool:
        return 1 < self.order < np.inf


@dataclass(frozen=True)
class Smooth:
    """A potential of some weights whose penalty is smooth inside its domain."""

    where: Array
    potential: Potential

    @property
    def start(self) -> Array:
        """Weights inside the domain: 0, or where the penalty is least."""
        zero = np.zeros(self.where.size)
        return zero if self.potential.smooth_conjugate else -self.potential.grad(zero)

    def curve(self, v: Array) -> tuple[Array, Array]:
        """Slopes and curvatures of V* at v; no slope is a number outside its domain."""
        hessian = self.potential.conjugate_hessian(v)
        assert hessian is not None
        if self.potential.smooth_conjugate:
            return self.potential.conjugate_gradient(v), hessian
        slopes = self.potential.conjugate_terms(v)[1]
        return np.where(np.isfinite(hessian), slopes, np.nan), hessian


@dataclass(frozen=True)
class Penalty:
    """V*(-w) as linear'w + l1'|u| + l2'u^2 / 2, smooth functions and norms of u = w - centre."""

    l1: Array
    l2: Array
    linear: Array
    centre: Array
    split: Array  # weights that are differences of two parts >= 0
    smooth: tuple[Smooth, ...] = ()
    norms: tuple[Norm, ...] = ()

    @property
    def free(self) -> Array:
        """Which weights have no price at all: their moments must be equal."""
        free = self.l1 + self.l2 == 0
        for where in (part.where for parts in (self.smooth, self.norms) for part in parts):
            free[where] = False
        return free

    @property
    def polyhedral(self) -> bool:
        """Whether it is the lowest value of a linear programme."""
        flat = all(not norm.round and norm.square == 0 for norm in self.norms)
        return flat and not self.smooth and not self.l2.any()

    @property
    def held(self) -> bool:
        """Whether the penalty outgrows what is linear, in every direction."""
        held = self.l2 > 0
        for norm in self.norms:
            held[norm.where] |= bool(norm.square) or norm.radius < np.inf
        for part in self.smooth:
            held[part.where] |= part.potential.strong_convexity() > 0
        return bool(held.all())

    def times(self, c: float) -> Penalty:
        smooth = tuple(replace(s, potential=scaled(s.potential, c)) for s in self.smooth)
        norms = tuple(replace(n, price=c * n.price, square=c * n.square) for n in self.norms)
        l1, l2, linear = c * self.l1, c * self.l2, c * self.linear
        return replace(self, l1=l1, l2=l2, linear=linear, smooth=smooth, norms=norms)

    def mirrored(self) -> Penalty:
        """The penalty at -w."""
        smooth = tuple(
            replace(s, potential=ShiftedPotential(s.potential, np.zeros(s.where.size)))
            for s in self.smooth
        )
        return replace(self, linear=-self.linear, centre=-self.centre, smooth=smooth)


def penalty_of(potential: Potential, n: int) -> Penalty | None:
    """What interior points can do with a potential; None where that is nothing."""
    elastic = potential.elastic(n)
    if elastic is not None:
        l1, l2 = (np.array(x) for x in elastic)
        return _plain(n, l1=l1, l2=l2, split=np.full(n, l1.any()))
    if isinstance(potential, ScaledPotential):
        inside = penalty_of(potential.potential, n)
        return inside and inside.times(potential.multiplier)
    if isinstance(potential, Centred):
        inside = penalty_of(potential.potential, n)
        return inside and replace(inside, centre=inside.centre + potential.centre)
    if isinstance(potential, ShiftedPotential):
        inside = penalty_of(potential.potential, n)
        mirrored = inside and inside.mirrored()
        return mirrored and replace(mirrored, linear=mirrored.linear - potential.reference)
    everywhere = np.arange(n)
    curved = potential.smooth_conjugate or (potential.smooth and potential.decomposable)
    if curved and potential.conjugate_hessian(np.zeros(n)) is not None:
        return _plain(n, smooth=(Smooth(everywhere, potential),))
    if isinstance(potential, Families):
        parts = [
            penalty_of(*part) for part in zip(potential.potentials, potential.sizes, strict=True)
        ]
        return None if None in parts else _joined([part for part in parts if part])
    if isinstance(potential, DualBall):
        norm = Norm(everywhere, potential.p, radius=potential.radius)
        return _plain(n, split=np.full(n, norm.order == 1), norms=(norm,))
    if not isinstance(potential, NormBall | NormPlusSquare | SquaredNormPotential):
        return None
    norms = [Norm(everywhere, dual_order(potential.p))]
    l2 = np.zeros(n)
    if isinstance(potential, SquaredNormPotential):
        norms[0] = replace(norms[0], square=potential.strength)
    else:
        norms[0] = replace(norms[0], price=potential.radius)
    if isinstance(potential, NormPlusSquare) and potential.squared_p == 2:
        l2 += potential.strength
    elif isinstance(potential, NormPlusSquare):
        order = dual_order(potential.squared_p)
        norms.append(Norm(everywhere, order, square=potential.strength))
    priced = tuple(norm for norm in norms if norm.priced)
    split = np.full(n, any(norm.order == 1 for norm in priced))
    return _plain(n, l2=l2, split=split, norms=priced)


def _plain(n: int, **given: Any) -> Penalty:
    zero = np.zeros(n)
    nothing = {"l1": zero, "l2": zero, "linear": zero, "centre": zero, "split": zero > 0}
    return Penalty(**nothing | given)


def _joined(parts: list[Penalty]) -> Penalty:
    """The penalty of consecutive blocks of weights."""
    begins = np.cumsum([0, *(part.l1.size for part in parts)])
    smooth, norms = [], []
    for part, begin in zip(parts, begins[:-1], strict=True):
        smooth += [replace(s, where=begin + s.where) for s in part.smooth]
        norms += [replace(norm, where=begin + norm.where) for norm in part.norms]
    names = ("l1", "l2", "linear", "centre", "split")
    vectors = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
    return Penalty(**vectors, smooth=tuple(smooth), norms=tuple(norms))


def may_fall_for_ever(problem: Problem, penalty: Penalty) -> bool:
    """Whether few planes may leave the programme without a lowest point."""
    return bool(penalty.free.any()) or (problem.observed is None and not penalty.held)


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
        moments, target = planes[:, free].T, (self.problem.target - self.penalty.linear)[free]
        unit = float(np.abs(moments).max(initial=0.0)) or 1.0
        matrix = np.vstack([moments / unit, sums])
        return matrix, np.concatenate([target / unit, np.ones(len(sums))])

    def widen(self, w: Array) -> bool:
        """Widen the box of the weights where they have come near its sides; whether they have."""
        farthest = np.abs(w - self.penalty.centre).max(initial=0.0)
        near = bool(farthest > _NEAR * self.reach) and self.times < _FARTHEST
        self.times *= _WIDER if near else 1.0
        return near

    def _programme(
        self, planes: Array, entropies: Array, row: Array, weights: Array
    ) -> tuple[Programme, Point, _Fold]:
        penalty, n, rows = self.penalty, planes.shape[1], weights.size
        fold = _Fold(penalty)
        h = entropies - planes @ penalty.centre
        size = max(float(np.abs(h).max(initial=0.0)), self.floor, 0.0) or 1.0
        unit = size / (float(np.abs(planes).max(initial=0.0)) or 1.0)
        self.reach = self.times * unit
        reach = min([unit, *(norm.radius / (4 * n) for norm in penalty.norms)])
        a = np.where(fold.split, reach, 0.0)
        for part in penalty.smooth:
            a[part.where] = part.start
        slope = fold.signed(penalty.linear - self.problem.target)
        slope[fold.split] += fold.both(penalty.l1)[fold.split]
        draft = _Draft(fold.columns(planes), h, row, a, slope, fold.both(penalty.l2))
        draft.bound(np.flatnonzero(fold.split), -1.0, 0.0)
        if self.floor > -np.inf:  # a plane of its own for every t
            draft.planes(np.zeros((rows, fold.size)), -self.floor, np.arange(rows))
        prices: list[tuple[float, float]] = []  # of norms that are a t
        for norm in penalty.norms:
            draft.limit_norm(norm, fold.parts(norm.where), reach, rows + len(prices))
            if norm.priced and not norm.round:
                prices.append((norm.price, norm.square))
        if np.isfinite(self.reach):
            draft.bound(np.arange(draft.a.size), 1.0, self.reach)
            draft.bound(np.flatnonzero(~fold.split), -1.0, self.reach)
        curve = self._slack_curve(weights, prices)
        linear = self.slack is None and penalty.polyhedral
        programme = draft.programme(curve, size, penalty.smooth, linear)
        return programme, _inside(programme, draft.a, rows + len(prices), weights), fold

    def _slack_curve(self, weights: Array, norms: list[tuple[float, float]]) -> Curve:
        """Slopes and curvatures of sum a_i U(t_i), and of the prices of norms as the last t."""
        kind = None if self.slack is None else self.slack.kind
        rate = 1.0 if self.slack is None else self.slack.rate
        count = weights.size
        price, square = np.array(norms).reshape(-1, 2).T

        def curve(t: Array) -> tuple[Array, Array]:
            own = t[:count]
            if kind is None:
                first, second = weights, np.zeros(count)
            elif kind == "squared":
                first, second = weights * own, weights
            else:
                first, second = weights * (1 - 1 / (rate * own)), weights / (rate * own**2)
            return np.append(first, price + square * t[count:]), np.append(second, square)

        return curve


class _Draft:
    """A programme in the making."""

    def __init__(self, J: Array, h: Array, row: Array, a: Array, slope: Array, bends: Array):
        self.J, self.h, self.row = J, h, row
        self.a, self.slope, self.bends = a, slope, bends
        self.index, self.sign, self.limit = np.zeros(0, dtype=int), np.zeros(0), np.zeros(0)
        self.bulges: list[tuple[Array, Bulge]] = []

    def planes(self, J: Array, h: float, row: Array) -> None:
        """J a - t_row <= h, a t for each or none."""
        self.J, self.row = np.vstack([self.J, J]), np.append(self.row, row)
        self.h = np.append(self.h, np.full(len(J), h))

    def bound(self, index: Array, sign: float, limit: float) -> None:
        """sign a_j <= limit."""
        self.index = np.append(self.index, index)
        self.sign = np.append(self.sign, np.full(index.size, sign))
        self.limit = np.append(self.limit, np.full(index.size, limit))

    def limit_norm(self, norm: Norm, parts: Array, reach: float, t: int) -> None:
        """A norm of a[parts], which is ``t``, or the last entry of a where it is round."""
        most = 0.0 if norm.priced else norm.radius
        row = t if norm.priced else -1
        if norm.order == 1:
            total = np.zeros((1, self.a.size))
            total[0, parts] = 1.0
            self.planes(total, most, np.array([row]))
        elif norm.order == np.inf and norm.priced:
            single = np.eye(self.a.size)[parts]
            self.planes(np.vstack([single, -single]), most, np.full(2 * parts.size, row))
        elif norm.order == np.inf:
            self.bound(parts, 1.0, norm.radius)
            self.bound(parts, -1.0, norm.radius)
        else:
            if norm.order > 2:  # no curvature at 0
                self.a[parts] = reach / (4 * parts.size)
            if norm.priced:
                parts = np.append(parts, self.a.size)
                self.a, self.slope = np.append(self.a, reach), np.append(self.slope, norm.price)
                self.bends = np.append(self.bends, norm.square)
                self.J = np.hstack([self.J, np.zeros((len(self.J), 1))])
                self.bound(parts[-1:], -1.0, 0.0)
            shape = _cone(norm.order) if norm.priced else _ball(norm.radius, norm.order)
            self.bulges.append((parts, shape))

    def programme(
        self, slack: Curve, size: float, smooth: tuple[Smooth, ...], linear: bool
    ) -> Programme:
        price = _price(self.slope, self.bends, smooth)
        bulges = tuple(_placed(shape, where, self.a.size) for where, shape in self.bulges)
        level = _levelling(self.slope, smooth)
        simple = self.index, self.sign, self.limit
        return Programme(
            price, slack, self.J, self.h, self.row, *simple, size, bulges, level, linear
        )


def _evened(shares: Array, A: Array, b: Array) -> tuple[Array, float]:
    """Shares with A shares = b, each changed as little as can be in proportion; what is left."""
    if not np.isfinite(shares).all():
        return shares, np.inf
    for _ in range(_ROUNDS):
        change = np.linalg.lstsq(A * shares, b - A @ shares, rcond=1e-13)[0]
        shares = shares * np.maximum(1 + change, 0.0)
    return shares, float(np.abs(A @ shares - b).max(initial=0.0))


class _Fold:
    """Weights, less their centre, as they are or as differences of two parts >= 0."""

    def __init__(self, penalty: Penalty) -> None:
        n, twice = penalty.split.size, np.flatnonzero(penalty.split)
        self.centre = penalty.centre
        self.weight = np.append(np.arange(n), twice)
        self.sign = np.append(np.ones(n), np.full(twice.size, -1.0))
        self.split, self.size = penalty.split[self.weight], n + twice.size

    def __call__(self, a: Array) -> Array:
        return self.centre + np.bincount(self.weight, self.sign * a[: self.size])

    def columns(self, J: Array) -> Array:
        return J[:, self.weight] * self.sign

    def signed(self, x: Array) -> Array:
        return x[self.weight] * self.sign

    def both(self, x: Array) -> Array:
        return x[self.weight]

    def parts(self, where: Array) -> Array:
        """The entries of a that make these weights."""
        return np.flatnonzero(np.isin(self.weight, where))


def _price(slope: Array, bends: Array, smooth: tuple[Smooth, ...]) -> Curve:
    def curve(a: Array) -> tuple[Array, Array]:
        slopes, curved = slope + bends * a, bends.copy()
        for part in smooth:
            rises, hessian = part.curve(-a[part.where])
            slopes[part.where] -= rises
            if hessian.ndim > 1 and curved.ndim == 1:
                curved = np.diag(curved)
            if curved.ndim == 1:
                curved[part.where] += hessian
            else:
                curved[np.ix_(part.where, part.where)] += (
                    hessian if hessian.ndim > 1 else np.diag(hessian)
                )
        return slopes, curved

    return curve if smooth else lambda a: (slope + bends * a, bends)


def _levelling(slope: Array, smooth: tuple[Smooth, ...]) -> Levelling | None:
    """What slopes of smooth penalties tend to, where they do."""
    steepest = np.full(slope.size, np.inf)
    for part in smooth:
        if not part.potential.smooth_conjugate:  # slopes have no end
            continue
        near, far = np.zeros(part.where.size), np.full(part.where.size, _FAR)
        gradient = part.potential.conjugate_gradient
        up, down = gradient(far), gradient(-far)
        if (up <= _STEEP).all() and (up + down == 0).all() and not gradient(near).any():
            steepest[part.where] = up
    return Levelling(slope, steepest) if np.isfinite(steepest).any() else None


def _placed(shape: Bulge, where: Array, size: int) -> Bulge:
    """A function of some entries of a as one of all."""

    def bulge(a: Array) -> tuple[float, Array, Array]:
        value, gradient, hessian = shape(a[where])
        whole = np.zeros(size)
        whole[where] = gradient
        bent = np.zeros((size,) * hessian.ndim)
        bent[np.ix_(*(where,) * hessian.ndim)] = hessian
        return value, whole, bent

    return bulge


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
    return Point(a, t, np.append(y, np.full(len(programme.bulges), mean)), v)
