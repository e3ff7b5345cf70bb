"""The permutahedron: rankings, partial rankings and sets as permutations of one vector."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains import KBestDomain
from maxent.rows.arrays import Array, Rows
from maxent.structured.ranking.isotonic import argmax_map, project_jvp, project_map


@io.register
@dataclass(frozen=True, eq=False)
class Permutahedron(KBestDomain):
    """All permutations of w and what lies between them (Fenchel-Young paper, §7.3).

    The j-th entry of w is what the j-th best score is worth:

    - [1, 0, ..., 0]: the simplex;
    - [1, ..., 1, 0, ..., 0]: sets of k entries, as ``KSubset(k)``;
    - [d, d-1, ..., 1]: rankings;
    - [k, ..., 1, 0, ..., 0]: rankings of the best k.

    By Rado's theorem p belongs to it where the sums of its j largest entries are at most those of
    w, and the sums of all are the same. ``argmax`` sorts; the projections are isotonic regressions
    of the sorted scores, O(d log d), and ``kbest`` swaps neighbours. A log-partition over
    permutations is #P-hard (a permanent), so there is no softmax. A score of -inf takes a weight
    of 0.

    Parameters
    ----------
    w : array (d,)
        The vector to permute; it does not increase.

    Examples
    --------
    >>> Permutahedron([3.0, 2.0, 1.0]).argmax([0.1, 5.0, 0.2])
    array([1., 3., 2.])
    >>> Permutahedron([3.0, 2.0, 1.0]).project([0.0, 5.0, 0.5])  # two scores close to one another
    array([1.25, 3.  , 1.75])
    """

    w: Any
    constant_norm = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "w", _weights(self.w))

    @property
    def size(self) -> int:
        """Entries of a row."""
        return int(self.w.size)

    @property
    def largest_entry(self) -> float:
        """The first weight, in size."""
        return float(np.abs(self.w).max())

    def check_rows(self, rows: Rows) -> Rows:
        """Rows of the size of w."""
        rows = super().check_rows(rows)
        if rows.shape[1] != self.size:
            raise ValueError(
                f"the permutahedron of {self.size} weights has rows of {self.size} entries, got "
                f"{rows.shape[1]}"
            )
        return rows

    def may_be_empty(self, size: int) -> bool:
        """Where all weights are 0."""
        return not self.w.any()

    def vertices(self, size: int) -> Array:
        """All different permutations of w."""
        self.check_rows(np.empty((0, size)))
        return np.unique(list(itertools.permutations(self.w)), axis=0)

    def _argmax(self, theta: Rows) -> Rows:
        self.require_enough(theta)
        return argmax_map(theta, self.w)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.ranking.kernels.orders import kbest_rows

        self.require_enough(theta)
        order = np.argsort(-theta, axis=1, kind="stable")
        ranked = np.take_along_axis(theta, order, axis=1).astype(np.float64)
        scores, found = np.empty((len(theta), k)), np.empty((k, *theta.shape), theta.dtype)
        search = exact(kbest_rows, 4 * found.size)

        def work(start: int, stop: int) -> None:
            search(ranked, order, self.w, scores, found, start, stop)

        over_rows(work, len(theta), 4 * k * self.size)
        by_score = np.argsort(-scores, axis=1, kind="stable")  # losses and scores round apart
        batches = np.take_along_axis(found, by_score.T[:, :, None], axis=0)
        return np.take_along_axis(scores, by_score, axis=1), list(batches)

    def points(self, theta: Any) -> Array:
        """The weights in the order of the scores, as ``argmax``, but tied scores share theirs.

        >>> Permutahedron([3.0, 2.0, 1.0]).points([0.5, 7.0, 0.5])
        array([1.5, 3. , 1.5])
        """
        theta = self.check_scores(theta)
        rows = self.check_rows(theta)
        self.require_enough(rows)
        return np.reshape(project_map(rows, self.w, "hard")[0], np.shape(theta))

    def _project(self, theta: Rows) -> Rows:
        self.require_enough(theta)
        return project_map(theta, self.w)[0]

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v less its mean over each block of entries that move together."""
        return project_jvp(project_map(theta, self.w)[1], p, v)

    def _project_kl(self, theta: Rows) -> Rows:
        if self.w[-1] < 0:
            raise ValueError(
                "a Kullback-Leibler projection is for points that are not negative, and w has the "
                f"weight {self.w[-1]:g}; add a constant to w"
            )
        self.require_enough(theta)
        return project_map(theta, self.w, "kl")[0]

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """p (v less its mean under p) in each block of entries that move together."""
        return project_jvp(project_map(theta, self.w, "kl")[1], p, v, "kl")

    def require_enough(self, theta: Array) -> None:
        """Refuse rows with more scores of -inf than there are weights of 0."""
        forbidden = np.isneginf(theta).sum(axis=1)
        zeros = self.size if not self.w.any() else self.size - 1 - np.flatnonzero(self.w)[-1]
        wrong = np.flatnonzero(forbidden > zeros)
        if wrong.size:
            raise ValueError(
                f"row {wrong[0]} has {forbidden[wrong[0]]} scores of -inf, which take a weight of "
                f"0 each, and w ends with {zeros} zeros; give finite scores or more zeros"
            )

    def _contains(self, p: Rows, atol: float) -> Array:
        excess = self._excess(p)
        # rounding grows with the size of the weights and the root of their number
        limit = atol * max(1.0, self.largest_entry) * self.size**0.5
        inside = (excess.max(axis=1) <= limit) & (np.abs(excess[:, -1]) <= limit)
        return np.asarray(inside)

    def reach(self, point: Array, direction: Array) -> float:
        """The largest t for which point + t direction is inside, up to rounding; inf if all are.

        ``point`` is inside and ``direction`` sums to 0. Each sum of j entries is at most that of
        the j first weights; the sums that bind at t are those of the order there, so t falls to
        the exact value as the order is taken again.

        >>> centre, direction = np.full(3, 2.0), np.array([2.0, -2.0, 0.0])
        >>> round(Permutahedron([3.0, 2.0, 1.0]).reach(centre, direction), 9)
        0.5
        """
        slack = 1e-12 * (1 + self.largest_entry)
        most = np.cumsum(self.w)[:-1]
        t, order = np.inf, np.argsort(-direction)
        while True:
            slope = np.cumsum(direction[order])[:-1]
            room = np.maximum(most - np.cumsum(point[order])[:-1], 0) + slack
            found = float(np.min(room[slope > 0] / slope[slope > 0], initial=np.inf))
            if not found < t:
                return t
            t = found
            order = np.argsort(-(point + t * direction))

    def _excess(self, p: Array) -> Array:
        """What the sum of the j largest entries exceeds that of w by, j = 1, ..., d."""
        falling = -np.sort(-p.astype(np.float64), axis=1)
        return np.cumsum(falling - self.w, axis=1)

    def _why_outside(self, row: Array) -> str:
        if not np.isfinite(row).all():
            return super()._why_outside(row)
        excess = self._excess(row[None])[0]
        if abs(excess[-1]) > 1e-5 * np.abs(self.w).sum():
            return f"it sums to {row.sum():.6g}, not to {self.w.sum():.6g} as the weights do"
        j = int(excess.argmax())
        most = self.w[: j + 1].sum()
        return (
            f"its {j + 1} largest entries sum to {most + excess[j]:.6g}, more than {most:.6g}, "
            "the sum of as many weights"
        )


def _weights(given: Any) -> Array:
    """w as a vector that does not increase, protected from changes."""
    w = np.array(given, dtype=np.float64)
    if w.ndim != 1 or w.size == 0:
        raise ValueError(f"w must be a vector of one weight or more, got shape {w.shape}")
    if not np.isfinite(w).all():
        raise ValueError("the weights w must be finite")
    rises = np.flatnonzero(np.diff(w) > 0)
    if rises.size:
        j = int(rises[0])
        raise ValueError(
            f"the weights w must not increase, and w[{j + 1}] = {w[j + 1]:g} is over w[{j}] = "
            f"{w[j]:g}; sort them: np.sort(w)[::-1]"
        )
    w.flags.writeable = False
    return w
