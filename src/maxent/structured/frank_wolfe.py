"""Frank-Wolfe methods: minimise a smooth convex function over a domain known by its argmax.

Fenchel-Young paper, §8.3. All variants keep the point as a mixture of vertices and stop on the
Frank-Wolfe gap  max_v <-gradient, v - p>,  which bounds how far the value is above the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from maxent.core.domains import Domain
from maxent.rows.arrays import Array

Objective = Callable[[Array], tuple[float, Array]]
Variant = Literal["plain", "away", "pairwise", "corrective"]
_VARIANTS = ("plain", "away", "pairwise", "corrective")
_NOTHING = 1e-15  # a weight this small is 0
_CORRECTIONS = 10_000  # steps within a hull at most, before the next vertex


@dataclass(frozen=True, eq=False)
class FrankWolfeResult:
    """The point, the vertices and weights that mix to it, and the certificate.

    Attributes
    ----------
    p : array (size,)
        The point.
    vertices : array (n_vertices, size)
        Vertices that mix to it.
    weights : array (n_vertices,)
        Their weights, of sum 1.
    value : float
        Objective at p.
    gap : float
        Frank-Wolfe gap: the objective is at most this far above the minimum.
    n_iter : int
        Number of iterations.
    history : list of float
        The gap of each iteration.
    converged : bool
        Whether the gap is at most tol.
    """

    p: Array
    vertices: Array
    weights: Array
    value: float
    gap: float
    n_iter: int
    history: list[float]
    converged: bool


def frank_wolfe(
    domain: Domain,
    objective: Objective | Any,
    start: Any = None,
    *,
    size: int | None = None,
    variant: Variant = "pairwise",
    tol: float = 1e-9,
    max_iter: int = 10_000,
) -> FrankWolfeResult:
    """Minimise over a bounded domain by calls of its argmax alone.

    Parameters
    ----------
    domain : Domain
        A bounded domain with ``argmax``.
    objective : callable or array (size,)
        A function p -> (value, gradient), smooth and convex; or a row theta, for the projection
        `1/2 ||p - theta||^2` (SparseMAP), whose line searches are exact formulas.
    start : array (size,), default None
        Vertex to start from; None is the best one for the gradient at 0.
    size : int, default None
        Entries of a row, where neither theta nor start tells.
    variant : "plain", "away", "pairwise" or "corrective", default "pairwise"
        "plain" moves towards the best vertex; "away" also away from the worst active one;
        "pairwise" moves weight from the worst to the best; "corrective" minimises over the hull of
        the active vertices, until half of tol is to gain there, before it asks for another one.
    tol : float, default 1e-9
        Gap at which to stop.
    max_iter : int, default 10000
        Iterations at most.

    Examples
    --------
    >>> from maxent.structured import Simplex
    >>> result = frank_wolfe(Simplex(), [0.5, 0.25, -1.0])
    >>> result.p.round(6), result.converged
    (array([0.625, 0.375, 0.   ]), True)
    """
    if variant not in _VARIANTS:
        raise ValueError(f"variant is one of {', '.join(_VARIANTS)}, got {variant!r}")
    if not domain.bounded:
        raise ValueError(f"{domain} is not bounded, so it has no best vertex for every direction")
    if callable(objective):
        function, exact = objective, False
    else:
        theta = np.asarray(domain.check_scores(objective, "points to project"), dtype=np.float64)
        if theta.ndim != 1:
            raise ValueError(f"frank_wolfe takes one row at a time, got shape {theta.shape}")
        size, exact = theta.size, True

        def function(p: Array) -> tuple[float, Array]:
            return 0.5 * float(np.sum((p - theta) ** 2)), p - theta

    mixture = _Mixture(_first_vertex(domain, function, start, size), function, exact)
    history: list[float] = []
    for _ in range(max_iter):
        best = np.asarray(domain.argmax(-mixture.gradient), dtype=np.float64)
        history.append(mixture.gap(best))
        if history[-1] <= tol:
            break
        if not mixture.step(best, variant, tol / 2):
            break  # rounding: no weight moves any more
    return FrankWolfeResult(
        mixture.p,
        np.array(mixture.vertices),
        np.array(mixture.weights),
        mixture.value,
        history[-1],
        len(history),
        history,
        history[-1] <= tol,
    )


def _first_vertex(domain: Domain, function: Objective, start: Any, size: int | None) -> Array:
    if start is not None:
        vertex = np.asarray(start, dtype=np.float64)
        domain.require(vertex[None], "start")
        return vertex
    if size is None:
        raise ValueError("give the size of a row, or a vertex to start from")
    return np.asarray(domain.argmax(-function(np.zeros(size))[1]), dtype=np.float64)


class _Mixture:
    """A point as a mixture of vertices, with the value and the gradient there."""

    def __init__(self, vertex: Array, function: Objective, exact: bool) -> None:
        self.function, self.exact = function, exact
        self.vertices, self.weights = [vertex], [1.0]
        self.known = {vertex.tobytes(): 0}
        self._set(vertex.copy())

    def _set(self, p: Array) -> None:
        self.p = p
        self.value, self.gradient = self.function(p)

    def gap(self, best: Array) -> float:
        """<-gradient, best - p>, at least the distance of the value from the optimum."""
        return max(float(self.gradient @ (self.p - best)), 0.0)

    def step(self, best: Array, variant: str, enough: float) -> bool:
        """One step of a variant; whether anything moved. ``enough`` : gap within the hull."""
        target = self._index(best)
        if variant == "plain":
            return self._move(target, None, 1.0)
        if variant == "corrective":
            moved = self._pairwise(target)
            for _ in range(_CORRECTIONS):
                scores = self._scores()
                inside = scores.max() - self._mean(scores)
                if inside <= enough or not self._pairwise(int(scores.argmax())):
                    break
                moved = True
            return moved
        scores = self._scores()
        worst = self._worst(scores)
        if variant == "pairwise":
            return self._move(target, worst, self.weights[worst])
        if scores[target] - self._mean(scores) >= self._mean(scores) - scores[worst]:
            return self._move(target, None, 1.0)
        weight = self.weights[worst]
        return self._move(None, worst, weight / (1 - weight) if weight < 1 else np.inf)

    def _pairwise(self, target: int) -> bool:
        worst = self._worst(self._scores())
        return self._move(target, worst, self.weights[worst])

    def _scores(self) -> Array:
        return -(np.array(self.vertices) @ self.gradient)

    def _mean(self, scores: Array) -> float:
        return float(scores @ self.weights)

    def _worst(self, scores: Array) -> int:
        """The active vertex with the lowest score."""
        active = np.array(self.weights) > 0
        return int(np.argmin(np.where(active, scores, np.inf)))

    def _index(self, vertex: Array) -> int:
        place = self.known.setdefault(vertex.tobytes(), len(self.vertices))
        if place == len(self.vertices):
            self.vertices.append(vertex)
            self.weights.append(0.0)
        return place

    def _move(self, to: int | None, away: int | None, longest: float) -> bool:
        """Towards ``to`` (from the point), away from ``away``, or weight from one to the other."""
        ahead = self.p if to is None else self.vertices[to]
        behind = self.p if away is None else self.vertices[away]
        direction = ahead - behind
        length = self._line_search(direction, longest)
        if not length > 0:
            return False
        weights = np.array(self.weights)
        if away is None:
            weights *= 1 - length
        elif to is None:
            weights *= 1 + length
        if to is not None:
            weights[to] += length
        if away is not None:
            weights[away] = 0.0 if length == longest else weights[away] - length
        self._keep(weights)
        vertices = np.array(self.vertices)
        point = np.array(self.weights) @ vertices
        self._set(np.clip(point, vertices.min(axis=0), vertices.max(axis=0)))  # rounding
        return True

    def _keep(self, weights: Array) -> None:
        active = np.flatnonzero(weights > _NOTHING)
        self.vertices = [self.vertices[a] for a in active]
        self.weights = list(np.minimum(weights[active] / weights[active].sum(), 1.0))
        self.known = {vertex.tobytes(): i for i, vertex in enumerate(self.vertices)}

    def _line_search(self, direction: Array, longest: float) -> float:
        """The best step along a direction: where the slope vanishes, or the longest."""
        slope = float(self.gradient @ direction)
        if slope >= 0:
            return 0.0
        if self.exact:
            return min(-slope / float(direction @ direction), longest)

        def slope_at(length: float) -> float:
            return float(self.function(self.p + length * direction)[1] @ direction)

        far = min(longest, 1.0)
        while slope_at(far) < 0:
            if far >= longest:
                return longest
            far = min(2 * far, longest)
        return float(scipy.optimize.brentq(slope_at, 0.0, far, xtol=1e-15, rtol=1e-12))
