"""Smoothed dynamic programmes: every max of a recursion smoothed by an entropy.

Fenchel-Young paper, §7.1. With Shannon as the smoothing the result is the log-partition; a sparse
entropy (Tsallis with alpha > 1) makes most structures impossible, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy

from maxent import io
from maxent.core.domains import Domain, Simplex
from maxent.core.domains.base import each_row
from maxent.core.entropies.base import Entropy
from maxent.rows.arrays import Array, Ragged, Rows, Tied
from maxent.structured.alignment.domain import Alignment
from maxent.structured.chain.domain import Chain
from maxent.structured.trees.forest import Forest
from maxent.structured.trees.tree import Tree


@io.register
@dataclass(frozen=True)
class SmoothedMax(Entropy):
    """The entropy whose conjugate is a dynamic programme with `max_Omega` in place of max.

    `max_Omega(x) = Omega*(x)`, so that `Omega*(theta)` of a chain is the last of
    `a_t(j) = theta_t(j) + Omega*(a_{t-1} + theta_t(., j))`. The gradient is the mean of the random
    walk backwards whose steps are the local maximisers, and the value at it the sum of the local
    entropies of those steps: `Omega(p) = sum_s P(s) Omega(step_s)`.

    Parameters
    ----------
    entropy : Entropy
        Any differentiable entropy of the simplex.
    structure : Chain, Tree or Alignment
        The structure whose dynamic programme is smoothed.

    Examples
    --------
    >>> from maxent.core.entropies import Shannon, Tsallis
    >>> chain, theta = Chain(2), np.zeros(8)
    >>> float(SmoothedMax(Shannon(), chain).conjugate(theta)[0].round(6))  # log of 4 paths
    1.386294
    >>> SmoothedMax(Tsallis(2.0), chain).conjugate([2.0, 0, 0, 0, 0, 0, 0, 0])[1][:2]
    array([1., 0.])
    """

    entropy: Entropy
    structure: Domain

    def __post_init__(self) -> None:
        if not isinstance(self.structure, Chain | Tree | Alignment):
            raise TypeError(
                f"SmoothedMax knows the recursions of Chain, Tree and Alignment, got "
                f"{self.structure!r}"
            )
        if not isinstance(self.entropy.domain, Simplex) or not self.entropy.differentiable:
            raise TypeError(
                f"the smoothing is a differentiable entropy of the simplex, got {self.entropy!r}"
            )

    @property
    def domain(self) -> Domain:
        """The structure's domain."""
        return self.structure

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        return self._by_size(theta, lambda rows, shape: self._programme(rows, shape))

    def _value(self, p: Rows) -> Array:
        if isinstance(self.structure, Alignment):  # cells alone do not tell the steps
            return np.array([self._value_by_conjugate(i, row) for i, row in enumerate(each_row(p))])
        return self._by_size(p, lambda rows, forest: (self._local_entropies(rows, forest), rows))[0]

    def _by_size(self, rows: Rows, solve: Any) -> tuple[Array, Rows]:
        """Solve groups of rows of one shape together."""
        if isinstance(rows, Tied):
            raise TypeError("smoothed programmes need scores for every position; write them out")
        vectors = each_row(rows)
        groups: dict[Any, list[int]] = {}
        for i, row in enumerate(vectors):
            groups.setdefault(self._shape(i, row.size), []).append(i)
        values, points = np.empty(len(vectors)), [np.empty(0)] * len(vectors)
        for shape, members in groups.items():
            batch = np.array([vectors[i] for i in members], dtype=np.float64)
            values[members], found = solve(batch, shape)
            for i, point in zip(members, found, strict=True):
                points[i] = point.astype(rows.dtype)
        if isinstance(rows, Ragged):
            return values, Ragged.from_rows(points)
        return values, np.array(points, dtype=rows.dtype).reshape(rows.shape)

    def _shape(self, row: int, size: int) -> Any:
        """What the recursion of a row depends on: a rooted forest, or n and m."""
        structure = self.structure
        if isinstance(structure, Alignment):
            return structure.shape(row)
        if isinstance(structure, Tree):
            return structure.rooted
        assert isinstance(structure, Chain)
        return _path(structure.length(size), structure.n_states)

    def _programme(self, theta: Array, shape: Any) -> tuple[Array, Array]:
        structure = self.structure
        if isinstance(structure, Alignment):
            return self._align(theta, *shape)
        if isinstance(structure, Chain) and structure.forbidden:
            theta = structure.allowed(theta)
        return self._collect(theta, shape)

    def _smooth(self, scores: Array) -> tuple[Array, Array]:
        """Omega* and its gradient along the last axis; -inf and 0 where nothing is left."""
        dead = np.asarray(np.isneginf(scores).all(axis=-1))
        value, p = self.entropy.conjugate(np.where(dead[..., None], 0.0, scores))
        return np.where(dead, -np.inf, value), np.where(dead[..., None], 0.0, p)

    def _collect(self, theta: Array, forest: Forest) -> tuple[Array, Array]:
        """From the leaves to the roots, and the flow back down."""
        up = [theta[:, a:b].copy() for a, b in forest.nodes]
        steps: dict[int, Array] = {}
        for u in forest.order[::-1]:
            if forest.parent[u] >= 0:
                table = forest.table(theta, u)
                smoothed, steps[u] = self._smooth(up[u][:, None, :] + table)
                up[forest.parent[u]] += smoothed
        total, point = np.zeros(len(theta)), np.zeros_like(theta)
        for u in forest.order:
            a, b = forest.nodes[u]
            if forest.parent[u] < 0:
                value, point[:, a:b] = self._smooth(up[u])
                total += value
            else:
                c, d = forest.nodes[forest.parent[u]]
                flow = point[:, c:d, None] * steps[u]
                forest.table(point, u)[...] = flow
                point[:, a:b] = np.minimum(flow.sum(axis=1), 1.0) if b - a > 1 else 1.0
        _require_structure(total)
        return total, point

    def _local_entropies(self, p: Array, forest: Forest) -> Array:
        """sum over parents' states of their probability times Omega of the step from there."""
        total = np.zeros(len(p))
        for u in forest.order:
            a, b = forest.nodes[u]
            if forest.parent[u] < 0:
                total += self.entropy.value_inside(p[:, a:b])
                continue
            table = np.maximum(forest.table(p, u), 0)
            mass = table.sum(axis=2)
            steps = table / np.where(mass > 0, mass, 1.0)[:, :, None]
            local = self.entropy.value_inside(steps.reshape(-1, steps.shape[2]))
            total += np.sum(np.where(mass > 0, mass * local.reshape(mass.shape), 0.0), axis=1)
        return total

    def _align(self, theta: Array, n: int, m: int) -> tuple[Array, Array]:
        """Anti-diagonal by anti-diagonal: each depends on the two before it."""
        rows = len(theta)
        scores = theta.reshape(rows, n, m)
        assert isinstance(self.structure, Alignment)
        inside = self.structure.inside(n, m)
        value = np.full((rows, n + 1, m + 1), -np.inf)
        value[:, 0, 0] = 0.0
        steps = np.zeros((rows, n, m, 3))
        rows_of = [np.arange(max(0, d - m + 1), min(n, d + 1)) for d in range(n + m - 1)]
        diagonals = [(i, d - i) for d, i in enumerate(rows_of)]
        for i, j in diagonals:
            before = np.stack([value[:, i, j], value[:, i, j + 1], value[:, i + 1, j]], axis=-1)
            smoothed, steps[:, i, j] = self._smooth(before)
            value[:, i + 1, j + 1] = np.where(inside[i, j], smoothed + scores[:, i, j], -np.inf)
        _require_structure(value[:, n, m])
        flow = np.zeros((rows, n + 1, m + 1))
        flow[:, n, m] = 1.0
        for i, j in diagonals[::-1]:
            here = flow[:, i + 1, j + 1] = np.minimum(flow[:, i + 1, j + 1], 1.0)
            sent = here[:, :, None] * steps[:, i, j]
            flow[:, i, j] += sent[..., 0]
            flow[:, i, j + 1] += sent[..., 1]
            flow[:, i + 1, j] += sent[..., 2]
        point = flow[:, 1:, 1:]
        alone = (inside.sum(axis=1, keepdims=True) == 1) | (inside.sum(axis=0) == 1)
        point[:, inside & alone] = 1.0  # cells of all alignments, as both ends are
        point[:, 0, 0] = 1.0
        return value[:, n, m], point.reshape(rows, -1)

    def _value_by_conjugate(self, row: int, p: Array) -> float:
        """Omega(p) = max_theta <theta, p> - Omega*(theta)."""
        shape = self._shape(row, p.size)
        return value_by_conjugate(lambda theta: self._programme(theta, shape), p)


def value_by_conjugate(conjugate: Callable[[Array], tuple[Array, Any]], p: Array) -> float:
    """max_theta <theta, p> - Omega*(theta), from the conjugate of a batch of one row."""

    def negative(theta: Array) -> tuple[float, Array]:
        value, point = conjugate(theta[None])
        return float(value[0] - theta @ p), np.asarray(point)[0] - p

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 20_000}
    start = np.zeros(p.size)
    best = scipy.optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
    return -float(best.fun)


def _require_structure(values: Array) -> None:
    dead = np.flatnonzero(np.isneginf(values))
    if dead.size:
        raise ValueError(
            "a row has no structure: scores of -inf forbid every one of them; leave one finite"
        )


@cache
def _path(length: int, n_states: int) -> Forest:
    """A chain as a tree whose root is the last position: the recursion runs forwards."""
    starts = np.arange(length) * n_states
    nodes = [(int(a), int(a + n_states)) for a in starts]
    block = n_states * n_states
    tables = [(length * n_states + t * block, True) for t in range(length - 1)]
    parent = [*range(1, length), -1]
    return Forest(tuple(range(length - 1, -1, -1)), tuple(parent), tuple(nodes), tuple(tables))
