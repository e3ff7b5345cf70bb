"""Where the features of a density come from: what a bound on its loss has to pay for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import bounds, io
from maxent._rows import Array
from maxent.features.letters import MONOTONE


@io.register
@dataclass(frozen=True)
class Offered:
    """Features that were all on the table from the start.

    n_not_monotone : how many of them are not monotone in one variable.
    """

    n_not_monotone: int

    def deviations(self, kinds: Array, n_variables: int, m: int, delta: float) -> Array:
        """How far the mean of each feature in use may be from the truth, with m occurrences.

        By the inequality of Dvoretzky, Kiefer and Wolfowitz for monotone features and by that of
        Hoeffding for the others; all hold at once with probability 1 - delta.
        """
        monotone = np.isin(kinds, MONOTONE)
        others = self.n_not_monotone - int((~monotone).sum())
        flags = np.concatenate([monotone, np.zeros(others, dtype=bool)])
        if not flags.size:
            return np.zeros(0)
        return bounds.mixed_beta(flags, n_variables, m, delta)[: kinds.size]


@io.register
@dataclass(frozen=True, eq=False)
class FromFamilies:
    """Features that were grown one by one from families (structural paper).

    families : the name of each family; n_sets : how many sets H_k they have in all.
    family, level, complexity : of each feature in use, which family, k and B_k >= R_m(H_k).
    """

    families: tuple[str, ...]
    n_sets: int
    family: Array
    level: Array
    complexity: Array

    def __post_init__(self) -> None:
        sizes = {self.family.shape, self.level.shape, self.complexity.shape}
        if len(sizes) != 1 or not ((self.family >= 0) & (self.family < len(self.families))).all():
            raise ValueError("family, level and complexity need one entry per feature in use")

    def deviations(self, kinds: Array, n_variables: int, m: int, delta: float) -> Array:
        """2 B_k + sqrt(log(2 p / delta) / (2 m)), p the sets H_k in all."""
        # structural paper, eq. 1, with R_m(H_k) <= B_k of eq. 15
        return bounds.structural_beta(self.complexity, self.n_sets, m, delta)

    def described(self, coef: dict[str, float], beta: Array) -> list[dict[str, str | float | int]]:
        """Name, weight, family, level and beta of every feature, largest weight first."""
        rows = zip(coef.items(), self.family, self.level, beta, strict=True)
        features: list[dict[str, str | float | int]] = [
            {
                "name": name,
                "weight": weight,
                "family": self.families[family],
                "level": int(level),
                "beta": float(price),
            }
            for (name, weight), family, level, price in rows
        ]
        return sorted(features, key=lambda row: -abs(float(row["weight"])))


Origin = Offered | FromFamilies
