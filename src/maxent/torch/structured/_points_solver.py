"""Sinkhorn's potentials of two clouds of points, by passes over a plan that is never written out.

With masses that sum to 1, `P_ij = a_i b_j E_ij`, and potentials g of the columns, f makes the sums
of the rows right. What is left is the semi-dual of ``maxent.structured.transport``, here

1. at falling strengths, each start being the last solution;
2. by Anderson's acceleration of Sinkhorn's iteration, which the dual value keeps in check;
3. by Newton's method as soon as the entries that matter are few enough to be listed: a pass over
   all pairs for a step, whose linear system needs no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import torch
from maxent._support.progress import Progress
from maxent.torch.maps._dispatch import compiled
from torch import Tensor

DIRECT = 16  # dimensions up to which compiled loops are faster than matrix products
_FALL = 4.0  # factor of one strength to the next
_LOOSE = 1e-2  # violation at which the strength falls
_DEPTH = 12  # steps that Anderson's acceleration looks back
_CUT = np.log(1e-8)  # entries of a row that are listed, which sum to 1
_LISTED = 64  # entries per point that are listed at most
_STEPS, _HALVINGS, _PRODUCTS = 60, 20, 1000


@dataclass(frozen=True)
class Found:
    """Potentials, what the sums are off by as a share of the mass, a gap, the iterations."""

    f: Tensor
    g: Tensor
    violation: float
    gap: float
    iterations: int


def clouds(x: Tensor, y: Tensor) -> tuple[Any, Any, Any]:
    """The clouds as the faster engine keeps them, and its class of plans."""
    if compiled(x) and x.shape[1] <= DIRECT:
        from maxent.torch.structured import _points_compiled as engine
    else:
        from maxent.torch.structured import _points_plain as engine  # type: ignore[no-redef]
    first = engine.Cloud(x)
    return first, first if y is x else engine.Cloud(y), engine.Plan


def solve(
    x: Tensor,
    y: Tensor,
    a: Tensor,
    b: Tensor,
    strength: float,
    tolerance: float,
    limit: int,
    verbose: int,
) -> Found:
    """Potentials for masses that sum to 1; x, y, a and b are float64."""
    search = _Search(x, y, a, b, limit, Progress("sinkhorn_points", verbose))
    same = x is y and a is b
    level = 0.5 * float((_radius(x) + _radius(y)) ** 2)
    while level > strength and search.iterations < limit:
        search.at(level)
        search.balance(_LOOSE) if same else search.accelerate(_LOOSE)
        level /= _FALL
    search.at(strength)
    if same:
        search.balance(tolerance)
    else:
        search.accelerate(max(_LOOSE, tolerance))
        search.newton(tolerance)
        search.accelerate(tolerance)
    search.progress.close()
    return Found(search.f, search.g, search.violation, search.gap(), search.iterations)


def _radius(x: Tensor) -> Tensor:
    return x.square().sum(1).max().sqrt()


class _Search:
    """The state of the search: potentials whose rows have the right sums, and the violation."""

    def __init__(
        self, x: Tensor, y: Tensor, a: Tensor, b: Tensor, limit: int, progress: Progress
    ) -> None:
        self.a, self.b, self.limit, self.progress = a, b, limit, progress
        self.x, self.y = x, y
        self._x, self._y, self._make = clouds(x, y)
        self.f, self.g = torch.zeros_like(a), torch.zeros_like(b)
        self._shares = torch.ones_like(b)  # of the columns' sums, when they were last computed
        self.violation, self.iterations = float("inf"), 0

    def at(self, strength: float) -> None:
        """Go on at another strength."""
        self.strength = strength
        self.plan = self._make(self._x, self._y, strength)
        self.back = self.plan.transposed()

    def rows(self, f: Tensor, g: Tensor) -> Tensor:
        """The sums of the rows as shares of what they should be."""
        return self.plan.sums(f, g, self.b[:, None])[:, 0]

    def columns(self, f: Tensor, g: Tensor) -> Tensor:
        """The sums of the columns as shares of what they should be."""
        return self.back.sums(g, f, self.a[:, None])[:, 0]

    def _fitted(self, f: Tensor, g: Tensor) -> Tensor:
        """f with which the rows are right."""
        return f - self.strength * self.rows(f, g).clamp(min=1e-300).log()

    def _measured(self, columns: Tensor) -> float:
        self.iterations += 1
        self._shares = columns
        self.violation = float((self.b * (columns - 1).abs()).sum())
        self.progress.update(
            f"strength {self.strength:.3g}, violation {self.violation:.2g} after "
            f"{self.iterations} iterations"
        )
        return self.violation

    def _dual(self, f: Tensor, g: Tensor) -> float:
        return float(self.a @ f + self.b @ g)

    def balance(self, tolerance: float) -> None:
        """Means of f and its update: contracts by a half where both sides are the same."""
        while self.iterations < self.limit:
            rows = self.rows(self.f, self.f)
            if self._measured(rows) <= tolerance:
                break
            self.f = self.f - 0.5 * self.strength * rows.clamp(min=1e-300).log()
        self.g = self.f
        self.f = self._fitted(self.f, self.g)
        self._measured(self.columns(self.f, self.g))

    def accelerate(self, tolerance: float) -> None:
        """Anderson's acceleration of Sinkhorn's iteration."""
        f, g, best = self._fitted(self.f, self.g), self.g, -np.inf
        residuals: list[Tensor] = []
        images: list[Tensor] = []
        safe: tuple[Tensor, Tensor] | None = None
        while True:
            dual = self._dual(f, g)
            if safe is not None and not dual >= best - 1e-12 * abs(best):
                f, g = safe  # the step went astray
                f, residuals, images, safe, best = self._fitted(f, g), [], [], None, -np.inf
                continue
            best = dual
            columns = self.columns(f, g)
            self.f, self.g = f, g
            if self._measured(columns) <= tolerance or self.iterations >= self.limit:
                return
            move = -self.strength * columns.clamp(min=1e-300).log()
            image = g + move
            safe = (f, image)
            residuals, images = [*residuals, move][-_DEPTH - 1 :], [*images, image][-_DEPTH - 1 :]
            g = _extrapolated(residuals, images, self.b)
            f = self._fitted(f, g)

    def newton(self, tolerance: float) -> None:
        """Newton's method on the semi-dual, where the entries that matter can be listed."""
        if not hasattr(self.plan, "entries"):
            return
        damping, mass = 0.1, self.b.numpy()
        for _ in range(_STEPS):
            if self.violation <= tolerance or self.iterations >= self.limit:
                return
            height = self.g + self.strength * self.b.log()
            most = _LISTED * (len(self.a) + len(self.b))
            listed = self.plan.entries(self.f, height, _CUT, most)
            if listed is None:
                return
            ground = max(damping * self.violation, 1e-14) * mass
            gradient = mass * (1 - self._shares.numpy())
            step = _newton_step(listed, self.a.numpy(), gradient, ground, self.violation)
            move = torch.from_numpy(self.strength * step)
            slope, dual = float(gradient @ step) * self.strength, self._dual(self.f, self.g)
            length = 1.0
            for _ in range(_HALVINGS):
                g = self.g + length * move
                f = self._fitted(self.f, g)
                if self._dual(f, g) >= dual + 1e-4 * length * slope - 1e-13 * abs(dual):
                    break
                length /= 2
            else:
                return
            damping = damping / 4 if length == 1 else min(2 * damping / length, 10.0)
            before = self.violation
            self.f, self.g = f, g
            if self._measured(self.columns(f, g)) > before and length < 1e-3:
                return

    def gap(self) -> float:
        """What the value may be off by: a plan with the right sums costs more than the least.

        Columns and rows that have too much are scaled down, and what they all lack is moved by a
        plan of rank one; the entropy of the sum of both is at most the sum of theirs.
        """
        a, b, strength = self.a, self.b, self.strength
        share = 1 / self._shares.clamp(min=1.0)
        rows = self.plan.sums(self.f, self.g, (b * share)[:, None])[:, 0]
        factor = 1 / rows.clamp(min=1.0)
        columns = share * self.back.sums(self.g, self.f, (a * factor)[:, None])[:, 0]
        left, right = a * factor * rows, b * columns
        lacking_left, lacking_right = (a - left).clamp(min=0), (b - right).clamp(min=0)
        rest = float(lacking_left.sum())
        value = float(left @ (self.f + strength * factor.log()))
        value += float(right @ (self.g + strength * share.log()))
        if rest > 0:
            value += self._of_rank_one(lacking_left, lacking_right, rest)
            value -= strength * (1 - rest) * float(np.log1p(-rest))
        # the dual value is below the least by as much as the mass of the plan is above 1: where
        # all entries of a row are too small to be numbers, f does not make its sum right
        above = strength * (float(b @ self._shares) - 1)
        return max(value - self._dual(self.f, self.g), above, 0.0)

    def _of_rank_one(self, left: Tensor, right: Tensor, rest: float) -> float:
        """Cost and entropy of left right' / rest, beside the share ``rest`` of what is possible."""
        x, y = self.x, self.y
        squares = float(left @ x.square().sum(1) + right @ y.square().sum(1)) / 2
        cost = squares - float((left @ x) @ (right @ y)) / rest
        entropy = float(torch.special.xlogy(left, left / (rest * self.a)).nan_to_num(0.0).sum())
        entropy += float(torch.special.xlogy(right, right / (rest * self.b)).nan_to_num(0.0).sum())
        return cost + self.strength * entropy


def _extrapolated(residuals: list[Tensor], images: list[Tensor], b: Tensor) -> Tensor:
    """The combination of the last images whose combined residuals are least (Anderson, 1965)."""
    if len(images) < 2:
        return images[-1]
    moves = torch.stack(residuals).diff(dim=0)
    moves = moves - (moves @ b)[:, None]  # a constant changes no plan
    gram = (moves * b) @ moves.T
    ground = 1e-10 * gram.trace() / len(gram)
    if not float(ground) > 0:
        return images[-1]
    gram = gram + ground * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    share = torch.linalg.solve(gram, (moves * b) @ residuals[-1])
    return images[-1] - share @ torch.stack(images).diff(dim=0)


def _newton_step(listed: Any, a: Any, gradient: Any, ground: Any, violation: float) -> Any:
    """The Newton step of the semi-dual by conjugate gradients on the entries that are listed."""
    across = listed.T.tocsr()
    share = a / np.maximum(np.asarray(listed.sum(axis=1)).ravel(), 1e-300)
    diagonal = across @ a + ground
    diagonal[diagonal == 0] = 1.0

    def product(s: Any) -> Any:
        return diagonal * s - across @ (share * (listed @ s))

    step, rest = np.zeros_like(gradient), gradient.copy()
    small = min(0.1, violation**0.5) * np.abs(gradient).sum()
    direction = scaled = rest / diagonal
    size = rest @ scaled
    for _ in range(_PRODUCTS):
        if np.abs(rest).sum() <= small:
            break
        image = product(direction)
        length = size / (direction @ image)
        step, rest = step + length * direction, rest - length * image
        scaled = rest / diagonal
        before, size = size, rest @ scaled
        direction = scaled + size / before * direction
    return step


def adjoint(
    x: Tensor,
    y: Tensor,
    a: Tensor,
    b: Tensor,
    f: Tensor,
    g: Tensor,
    u: Tensor,
    w: Tensor,
    strength: float,
    tolerance: float = 1e-12,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The derivative of the potentials backwards: from cotangents u of f, w of g.

    The conditions `sum_j b_j E_ij = 1` and `sum_i a_i E_ij = 1` are solved for (p, q) by conjugate
    gradients, two passes a step: p + a E q = u and q + b E' p = w, where q = w + b s.
    """
    first, second, make = clouds(x, y)
    plan = make(first, second, strength)
    back = plan.transposed()

    def over(v: Tensor) -> Tensor:
        return plan.sums(f, g, v.reshape(len(g), -1)).reshape(len(f), *v.shape[1:])

    def under(v: Tensor) -> Tensor:
        return back.sums(g, f, v.reshape(len(f), -1)).reshape(len(g), *v.shape[1:])

    rest = under(a * over(w) - u)
    rest = rest - b @ rest
    s, direction = torch.zeros_like(rest), rest
    size = float(b @ rest.square())
    small, stalled = tolerance**2 * float(b @ under(a * over(w).abs() + u.abs()).square()), size
    for step in range(_PRODUCTS):
        if size <= small:
            break
        if step == _PRODUCTS - 1 and size > 1e-8 * stalled:
            _warn_of_slow_gradients((size / stalled) ** 0.5)
        image = direction - under(a * over(b * direction))
        curvature = float(b @ (direction * image))
        if not curvature > 0:
            break
        length = size / curvature
        s, rest = s + length * direction, rest - length * image
        rest = rest - b @ rest
        before, size = size, float(b @ rest.square())
        direction = rest + size / before * direction
    q = w + b * s
    p = u - a * over(q)
    sums = over(torch.cat([q[:, None], b[:, None] * y, q[:, None] * y], 1))
    eq, mean, moved = sums[:, 0], sums[:, 1 : 1 + y.shape[1]], sums[:, 1 + y.shape[1] :]
    dx = p[:, None] * (x - mean) + a[:, None] * (x * eq[:, None] - moved)
    sums = under(torch.cat([p[:, None], a[:, None] * x, p[:, None] * x], 1))
    ep, mean, moved = sums[:, 0], sums[:, 1 : 1 + x.shape[1]], sums[:, 1 + x.shape[1] :]
    dy = q[:, None] * (y - mean) + b[:, None] * (y * ep[:, None] - moved)
    return dx, dy, -strength * eq, -strength * ep


def _warn_of_slow_gradients(left: float) -> None:
    import warnings

    from maxent.core.solvers import ConvergenceWarning

    warnings.warn(
        f"the gradient of a transport plan is off by about {left:.1g} of itself after {_PRODUCTS} "
        "steps of conjugate gradients: take a larger strength",
        ConvergenceWarning,
        stacklevel=2,
    )
