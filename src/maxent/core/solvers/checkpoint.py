"""Checkpoints: the weights and the history of a solver on disk after each step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from maxent import io
from maxent.core.problem import Problem
from maxent.rows.arrays import Array

_MARKS = 2  # random sums of the target and the penalty by which a problem is known again
_SAME = 1e-8  # relative difference of marks: sums over other blocks round differently


@io.register
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a solver was: weights other than 0 and their places, the history, and marks of what it
    solved.
    """

    size: int
    index: Array
    values: Array
    history: list[dict[str, float]]
    marks: Array

    def __post_init__(self) -> None:
        fits = self.index.shape == self.values.shape and self.index.ndim == 1
        inside = (self.index >= 0) & (self.index < self.size)
        if not fits or not inside.all():
            raise ValueError("the places of the weights must lie within their number")

    @property
    def w(self) -> Array:
        """All weights."""
        w = np.zeros(self.size)
        w[self.index] = self.values
        return w


@dataclass(frozen=True, eq=False)
class CheckpointFile:
    """A file with the last checkpoint of a problem."""

    path: str
    problem: Problem

    def write(self, w: Array, history: list[dict[str, float]]) -> None:
        """Put weights and history in the place of the last ones, whole or not at all."""
        index = np.flatnonzero(w)
        io.save(Checkpoint(int(w.size), index, w[index], history, self._marks), self.path)

    def read(self) -> Checkpoint | None:
        """What an earlier run of the same problem left; None where it left nothing."""
        if not Path(self.path).exists():
            return None
        found = io.load(self.path)
        if not isinstance(found, Checkpoint):
            raise ValueError(
                f"{self.path} holds a {type(found).__name__}, no checkpoint: give another path"
            )
        same = found.size == self.problem.features.n_features and np.allclose(
            found.marks, self._marks, rtol=_SAME, atol=_SAME * self.problem.unit
        )
        if not same:
            raise ValueError(
                f"the checkpoint {self.path} is of another problem: other records, features or "
                "penalty. Remove the file to begin anew, or give another path"
            )
        return found

    @cached_property
    def _marks(self) -> Array:
        """A few numbers that another target or penalty would change."""
        rng, size = np.random.default_rng(0), self.problem.features.n_features
        probes = [rng.uniform(-1, 1, size) for _ in range(_MARKS)]
        penalty = self.problem.penalty(0.5 * probes[0])
        sums = [float(probe @ self.problem.target) for probe in probes]
        return np.array([*sums, penalty if np.isfinite(penalty) else -1.0])
