"""An interior-point method for the programmes of planes: a few weights, many inequalities.

    min_{a, t}  f(a) + sum_i U_i(t_i)    subject to   J a - t_row <= h,   s a_j <= l,   g_k(a) <= 0

Each inequality has one t or none. Most Hessians are diagonal, so that Newton's equations shrink to
the size of a, or to that of the inequalities where those are fewer. Steps are Mehrotra's predictor
and corrector (1992), with one length for both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy
from scipy import linalg

from maxent.rows.arrays import Array

_STEPS = 1_000
_TURN = 2.0  # factor by which a step may change a curvature: Newton's model holds that far
_BACK = 0.995  # share of the way to the border that a step may go
_SHORT = 1e-10  # a step that makes no difference
_MANY = 1_000  # entries of a from which on the smaller of the two sides pays for its rounding
_PROXIMAL = 1e-10  # curvature of a step's own price, in units of t and J
_CALM, _PAYS = 0.2, 0.01  # along a bent inequality: the target of a step, what it must bring
_SMALL = 4_000_000  # entries of a matrix that is decomposed for a last correction
_PACES = (4.0, 0.3), (4.0, 0.1), (16.0, 0.5)  # of Levelling, tried in turn: steps may cycle
_BEHIND = 0.1, 0.5  # along bent inequalities alone, where steps ended at a border
_REFINED = 2  # times that a direction is improved
_NEAR, _PATIENCE = 1e-4, 10  # share of the first error below which so many steps may bring nothing
_TOUCHING = 1e-12  # share of what an inequality is made of that counts as no room
_RIDGE = 1e-15  # of the diagonal, where rounding left a matrix indefinite

Curve = Callable[[Array], tuple[Array, Array]]  # slopes and curvatures at a point
Bulge = Callable[[Array], tuple[float, Array, Array]]  # g, its gradient, its Hessian (or diagonal)


@dataclass(frozen=True)
class Levelling:
    """Slopes f'(a) = base + s(a) that level off: s is odd and tends to -steepest and steepest.

    ``steepest`` is inf where slopes do not level off: there curvatures are f''.
    Newton's method on them goes far astray. With a copy g of s, and h(a) = a / s(a), the equation
    g h(a) = a is nearly linear in both (Chan, Golub & Mulet 1999, for s(a) = a / |a|).
    """

    base: Array
    steepest: Array
    stride: float = np.inf  # times its size that an entry of a may move by where slopes are level

    @property
    def levels(self) -> Array:
        return np.isfinite(self.steepest)

    def curvature(self, at: _Place, slopes: Array, bends: Array, wrong: Array) -> Array:
        """dg / da on that equation, f'' where g = s; ``wrong`` are the residuals of the slopes.

        Not so little that a residual alone takes an entry many times its size away.
        """
        s = slopes - self.base
        change = 1 / s - at.a * bends / s**2  # of h
        curved = np.maximum((1 - at.copy * change) * s / at.a, np.abs(wrong / (self.stride * at.a)))
        slower = np.isfinite(curved) & (curved > bends) & self.levels
        return np.where(slower, curved, bends)

    def followed(self, slopes: Array, copy: Array, change: Array, length: float) -> Array:
        """The copy after a step, ``change`` being the curvature times da."""
        moved = copy + length * (change + slopes - self.base - copy)
        return np.clip(moved, -self.steepest, self.steepest)


@dataclass(frozen=True)
class Programme:
    """See the module; ``row`` is the number of the t of an inequality, -1 for none."""

    price: Curve  # of a
    slack: Curve  # of t
    J: Array
    h: Array
    row: Array
    index: Array  # of the simple bounds: sign a[index] <= limit
    sign: Array
    limit: Array
    size: float = 1.0  # of t, in the units of the value
    bulges: tuple[Bulge, ...] = ()
    levelling: Levelling | None = None
    linear: bool = False
    behind: float = 0.0  # share of what slopes are off by that borders keep


@dataclass(frozen=True)
class Point:
    """A point with room on all sides, and the multipliers of its inequalities."""

    a: Array
    t: Array
    y: Array  # of J a - t <= h, and of g_k <= 0 as the last
    v: Array  # of the simple bounds


@dataclass(frozen=True)
class _Place(Point):
    """A point with the room that steps have left it, which is not below 0."""

    z: Array  # of J a - t <= h and g_k <= 0
    room: Array  # of the simple bounds
    copy: Array  # of slopes that level off

    def moved(self, step: _Place, length: float) -> _Place:
        a, t, y, v, z, room = (x + length * d for x, d in self.with_steps(step))
        return _Place(a, t, y, v, z, room, self.copy)

    def with_steps(self, step: _Place) -> list[tuple[Array, Array]]:
        return [(getattr(self, name), getattr(step, name)) for name in _PARTS]

    @property
    def complementarity(self) -> float:
        return float(self.y @ self.z + self.v @ self.room)

    def longest(self, step: _Place) -> float:
        """How far the step can go before a multiplier or the room for something is gone."""
        pairs = self.with_steps(step)[2:]
        return min(float(np.min(-x[d < 0] / d[d < 0], initial=np.inf)) for x, d in pairs)


_PARTS = ("a", "t", "y", "v", "z", "room")


def solve(programme: Programme, start: Point, tol: float) -> Point:
    """The optimum to an error of tol, or as near as rounding lets it come."""
    planes = programme.J @ start.a - programme.h
    tied = programme.row >= 0
    planes[tied] -= start.t[programme.row[tied]]
    z = -np.append(planes, [bulge(start.a)[0] for bulge in programme.bulges])
    room = programme.limit - programme.sign * start.a[programme.index]
    place = _Place(start.a, start.t, start.y, start.v, z, room, np.zeros(start.a.size))
    with np.errstate(all="ignore"):
        best: _Look | None = None
        for way in _ways(programme):
            look = _followed(way, place, tol)
            best = look if best is None else min(best, look, key=_error)
            if best.error <= tol:
                break
        assert best is not None
        if best.error > tol and programme.linear:
            best = min(best, _vertex(programme, place) or best, key=_error)
    return best.at


def _vertex(programme: Programme, place: _Place) -> _Look | None:
    """The optimum of a linear programme by HiGHS; None where it finds none."""
    count, size, bounds = place.t.size, place.a.size, programme.index.size
    tied = np.flatnonzero(programme.row >= 0)
    matrix = np.zeros((len(programme.J) + bounds, size + count))
    matrix[: len(programme.J), :size] = programme.J
    matrix[tied, size + programme.row[tied]] = -1.0
    matrix[len(programme.J) + np.arange(bounds), programme.index] = programme.sign
    cost = np.concatenate([programme.price(place.a)[0], programme.slack(place.t)[0]])
    limits = np.concatenate([programme.h, programme.limit])
    finest = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), 1e-10)
    answer = scipy.optimize.linprog(
        cost, matrix, limits, bounds=(None, None), method="highs", options=finest
    )
    if answer.status != 0:
        return None
    room = np.maximum(limits - matrix @ answer.x, 0.0)
    a, t = np.split(answer.x, [size])
    z, beside = np.split(room, [len(programme.J)])
    touched = room <= _TOUCHING * (np.abs(limits) + np.abs(matrix) @ np.abs(answer.x))
    # the prices of HiGHS are off by 1e-10, which times a large a is much
    exact = np.zeros(room.size)
    exact[touched] = scipy.optimize.nnls(matrix[touched].T, -cost)[0]
    looks = []
    for prices in (exact, np.maximum(-answer.ineqlin.marginals, 0.0)):
        y, v = np.split(prices, [len(programme.J)])
        looks.append(_Look(programme, _Place(a, t, y, v, z, beside, place.copy)))
    return min(looks, key=_error)


def _ways(programme: Programme) -> Iterator[Programme]:
    """The programme with slopes that level off followed in other ways, where there are any."""
    level = programme.levelling
    if level is None or programme.bulges:  # copies of slopes disturb the steps along what is bent
        yield replace(programme, levelling=None)
    if level is not None:
        for stride, behind in _PACES:
            yield replace(programme, levelling=replace(level, stride=stride), behind=behind)
    elif programme.bulges:
        for behind in _BEHIND:
            yield replace(programme, behind=behind)


def _followed(programme: Programme, place: _Place, tol: float) -> _Look:
    """The best look on the way from a place."""
    look, length, since = _Look(programme, place), 1.0, 0
    best, first = look, look.error
    for _ in range(_STEPS):
        patience = _PATIENCE if best.error < _NEAR * first else _STEPS
        if best.error <= tol or length < _SHORT or since > patience:
            break
        look, length = look.next()
        since += 1
        if not np.isfinite(look.error):
            break
        if look.error < best.error:
            best, since = look, 0
    return best.polished() if best.error > tol else best


def _error(look: _Look) -> float:
    return look.error


class _Look:
    """What is known at a place: residuals of the optimality conditions, and the next step."""

    def __init__(self, given: Programme, at: _Place) -> None:
        self.given, self.at = given, at
        self.J, self.row = given.J, given.row
        self.slopes, self.bends = given.price(at.a)
        self.rises, self.curves = given.slack(at.t)
        excess = given.J @ at.a - given.h
        bent: list[Array] = []
        for bulge, y in zip(given.bulges, at.y[len(given.row) :], strict=True):
            # its tangent is one more inequality, without a t
            value, gradient, hessian = bulge(at.a)
            self.J, self.row = np.vstack([self.J, gradient]), np.append(self.row, -1)
            excess = np.append(excess, value)
            bent.append(y * hessian)
        self.tied = self.row >= 0
        excess[self.tied] -= at.t[self.row[self.tied]]
        self.r_p = excess + at.z
        self.r_a = self.slopes + self.J.T @ at.y
        np.add.at(self.r_a, given.index, given.sign * at.v)
        self.r_t = self.rises - self.per_t(at.y)
        level = given.levelling
        bends = self.bends
        if level is not None:
            bends = level.curvature(at, self.slopes, bends, self.r_a)
        self.H = _sum([bends, *bent])
        self.unit = given.size / (float(np.abs(given.J).max(initial=0.0)) or 1.0)
        self.error = self.error_in(self)

    def error_in(self, other: _Look) -> float:
        """What the residuals would change the value by, as prices of the a and t of another."""
        at = other.at
        slipped = np.abs(self.r_a) @ (self.unit + np.abs(at.a)) + np.abs(self.r_t) @ np.abs(at.t)
        return self.at.complementarity + float(slipped + np.abs(self.r_p) @ at.y)

    def per_t(self, y: Array) -> Array:
        return np.bincount(self.row[self.tied], y[self.tied], self.at.t.size)

    def next(self) -> tuple[_Look, float]:
        """The look at the next place, and the length of the step there."""
        at, given = self.at, self.given
        newton = self._newton()
        count = at.y.size + at.v.size
        mean = at.complementarity / count
        if not given.bulges and given.levelling is None:
            ahead = self._direction(newton, np.zeros(at.y.size), np.zeros(at.v.size))
            far = at.moved(ahead, min(1.0, at.longest(ahead))).complementarity / count
            centre = (far / mean) ** 3 * mean if mean > 0 else 0.0
            step = self._direction(
                newton, centre - ahead.y * ahead.z, centre - ahead.v * ahead.room
            )
        else:  # a prediction says little of what is bent: shorter steps that must pay
            # slopes may follow more slowly: borders must not be reached before
            late = given.behind * (self.error - at.complementarity)
            centre = max(_CALM * mean, late / count)
            step = self._direction(newton, np.full(at.y.size, centre), np.full(at.v.size, centre))
        length = min(1.0, _BACK * at.longest(step))
        while True:
            new = _Look(given, self._reached(step, length))
            good = self._bends_alike(new) and _alike(self.curves, new.curves)
            if given.bulges:
                good = good and new.error_in(new if new.error < self.error else self) <= (
                    (1 - _PAYS * length) * self.error
                )
            if good or length < _SHORT:
                return new, length
            length /= 2

    def _bends_alike(self, new: _Look) -> bool:
        level, before, after = self.given.levelling, self.bends, new.bends
        if self.given.bulges:  # steps must pay, which tells more
            return True
        if level is not None:
            before, after = before[~level.levels], after[~level.levels]
        return _alike(before, after, self._nearby)

    def _reached(self, step: _Place, length: float) -> _Place:
        at, level = self.at, self.given.levelling
        place = at.moved(step, length)
        if level is None:
            return place
        copy = level.followed(self.slopes, at.copy, self.H * step.a, length)
        return replace(place, copy=copy)

    def polished(self) -> _Look:
        """The look with multipliers that add up as they must to all digits, then with room so."""
        at = self.at
        rows, bounds = np.flatnonzero(at.y > at.z), np.flatnonzero(at.v > at.room)
        if (at.a.size + at.t.size) * (rows.size + bounds.size) > _SMALL:
            return self
        busy = self._gradients(rows, bounds)
        prices = np.concatenate([at.y[rows], at.v[bounds]])
        wrong = -np.concatenate([self.r_a, self.r_t])
        change = linalg.lstsq((busy * prices[:, None]).T, wrong, check_finite=False)[0]
        y, v = at.y.copy(), at.v.copy()
        y[rows] *= np.maximum(1 + change[: rows.size], 0.0)  # in proportion
        v[bounds] *= np.maximum(1 + change[rows.size :], 0.0)
        added = _Look(self.given, replace(at, y=y, v=v))
        return min(self, added, added._touching(busy, rows, bounds), key=_error)

    def _gradients(self, rows: Array, bounds: Array) -> Array:
        """Of some inequalities and simple bounds, with respect to a and t."""
        given, size = self.given, self.at.a.size
        matrix = np.zeros((rows.size + bounds.size, size + self.at.t.size))
        matrix[: rows.size, :size] = self.J[rows]
        tied = np.flatnonzero(self.tied[rows])
        matrix[tied, size + self.row[rows[tied]]] = -1.0
        matrix[rows.size + np.arange(bounds.size), given.index[bounds]] = given.sign[bounds]
        return matrix

    def _touching(self, busy: Array, rows: Array, bounds: Array) -> _Look:
        """The look where nothing is left between a and t and what holds them."""
        at, given = self.at, self.given
        left = np.concatenate([at.z[rows] - self.r_p[rows], at.room[bounds]])
        moved = linalg.lstsq(busy, left, check_finite=False)[0]
        a, t = at.a + moved[: at.a.size], at.t + moved[at.a.size :]
        room = np.maximum(given.limit - given.sign * a[given.index], 0.0)
        z = given.h - given.J @ a
        tied = given.row >= 0
        z[tied] += t[given.row[tied]]
        z = np.maximum(np.append(z, [-bulge(a)[0] for bulge in given.bulges]), 0.0)
        z[rows], room[bounds] = 0.0, 0.0
        return _Look(given, replace(at, a=a, t=t, z=z, room=room))

    @property
    def _nearby(self) -> float:
        """The curvature of a step's own price."""
        return _PROXIMAL * self.given.size / self.unit**2

    def _newton(self) -> _Newton:
        extra = np.zeros(self.at.a.size)
        np.add.at(extra, self.given.index, self.at.v / self.at.room)
        # weights that no inequality holds would move for ever: steps are proximal
        H = self.H + self._nearby * (np.eye(extra.size) if self.H.ndim == 2 else 1.0)
        return _Newton(H, extra, self.curves, self.J, self.at.y / self.at.z, self.row, self.tied)

    def _direction(self, newton: _Newton, c_y: Array, c_v: Array) -> _Place:
        """Towards complementarities y z = c_y and v room = c_v, to first order."""
        at, given = self.at, self.given
        q = (at.y * self.r_p + c_y - at.y * at.z) / at.z
        bound = (c_v - at.v * at.room) / at.room
        left_a = -self.r_a - self.J.T @ q
        np.add.at(left_a, given.index, -given.sign * bound)
        left_t = -self.r_t + self.per_t(q)
        da, dt = np.zeros(at.a.size), np.zeros(at.t.size)
        for _ in range(1 + _REFINED):
            more_a, more_t = newton.solve(left_a, left_t)
            da, dt = da + more_a, dt + more_t
            moved = self.J @ da
            moved[self.tied] -= dt[self.row[self.tied]]
            room = -given.sign * da[given.index]
            dy, dv = q + newton.D * moved, bound - at.v / at.room * room
            # what is left of the conditions on the multipliers
            left_a = -self.r_a - newton.bend(da) - self.J.T @ dy
            np.add.at(left_a, given.index, -given.sign * dv)
            left_t = -self.r_t - self.curves * dt + self.per_t(dy)
        return _Place(da, dt, dy, dv, -self.r_p - moved, room, at.copy)


class _Newton:
    """[H + J'DJ, -J'DE; -E'DJ, C + E'DE], E telling which t an inequality has."""

    def __init__(
        self, given: Array, extra: Array, C: Array, J: Array, D: Array, row: Array, tied: Array
    ) -> None:
        self.given = given
        H = given + (np.diag(extra) if given.ndim == 2 else extra)
        self.J, self.D, self.row, self.tied, self.C = J, D, row, tied, C
        self.H, count = H, C.size
        self.few = H.ndim == 1 and H.size > _MANY and len(J) < H.size
        if self.few:  # in the space of the inequalities
            self.core = _factor((J / H) @ J.T + np.diag(1 / D))
            E = np.zeros((len(J), count))
            E[np.flatnonzero(tied), row[tied]] = 1
            self.E = E
            self.spread = _solve(self.core, E)
            self.last = _factor(np.diag(C) + E.T @ self.spread)
            return
        # J'DJ less what t takes of it is a covariance in each row: no difference of squares
        total = np.bincount(row[tied], D[tied], count)
        cross = np.zeros((count, J.shape[1]))
        np.add.at(cross, row[tied], D[tied, None] * J[tied])
        mean = cross / total[:, None]
        centred = J.copy()
        centred[tied] -= mean[row[tied]]
        self.own, self.cross = C + total, cross
        whole = (centred * D[:, None]).T @ centred + (H if H.ndim == 2 else np.diag(H))
        self.core = _factor(whole + (mean * (C * total / self.own)[:, None]).T @ mean)

    def bend(self, da: Array) -> Array:
        """The Hessian of f and g times a step."""
        return self.given @ da if self.given.ndim == 2 else self.given * da

    def solve(self, right_a: Array, right_t: Array) -> tuple[Array, Array]:
        if self.few:
            b = self.J @ (right_a / self.H)
            dt = _solve(self.last, right_t + self.spread.T @ b)
            q = _solve(self.core, b) - self.spread @ dt
            return (right_a - self.J.T @ q) / self.H, dt
        # the cross block of the matrix is -J'DE
        da = _solve(self.core, right_a + self.cross.T @ (right_t / self.own))
        return da, (right_t + self.cross @ da) / self.own


def _solve(factor: tuple[Array, bool], right: Array) -> Array:
    return linalg.cho_solve(factor, right, check_finite=False)


def _sum(hessians: list[Array]) -> Array:
    """Of matrices, some given by their diagonals."""
    if any(hessian.ndim == 2 for hessian in hessians):
        hessians = [np.diag(x) if x.ndim == 1 else x for x in hessians]
    return sum(hessians[1:], hessians[0])


def _alike(before: Array, after: Array, least: float = 0.0) -> bool:
    """Whether curvatures, ``least`` added to them, differ by a small factor at most."""
    if before is after:
        return True
    if before.ndim == 2:
        before, after = np.diag(before), np.diag(after)
    before, after = before + least, after + least
    return bool(((after <= _TURN * before) & (before <= _TURN * after)).all())


def _factor(matrix: Array) -> tuple[Array, bool]:
    """Cholesky's, with the smallest ridge that lets it through."""
    diagonal = np.diag(matrix)
    ridge = 0.0
    while True:
        try:
            return linalg.cho_factor(matrix + np.diag(ridge * diagonal), check_finite=False)
        except linalg.LinAlgError:
            ridge = max(10 * ridge, _RIDGE)
            if not ridge < 1:
                return np.eye(len(matrix)), False
