"""Evidence: how many independent records a density rests on, where some may weigh more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core import bounds
from maxent.rows.arrays import Array


@dataclass(frozen=True, eq=False)
class RecordWeights:
    """The weights of records: ``counts`` of them have each of ``values``.

    >>> RecordWeights.from_counts(y=[2, 0, 1], weight=[3.0, 5.0, 3.0]).evidence()
    Evidence(n_records=3, effective=3.0, half_line=3.0)
    """

    values: Array
    counts: Array

    @classmethod
    def from_counts(cls, y: Array, weight: Array) -> RecordWeights:
        """Of rows with y records each, every one of which has the weight of its row."""
        used = (np.asarray(y) > 0) & (np.asarray(weight) > 0)
        values, place = np.unique(np.asarray(weight)[used], return_inverse=True)
        return cls(values, np.bincount(place, np.asarray(y)[used]))

    @classmethod
    def alike(cls, number: float) -> RecordWeights:
        """That many records of equal weight."""
        return cls(np.ones(1), np.array([max(round(number), 1)], dtype=np.float64))

    def evidence(self) -> Evidence:
        """What a fit keeps of them."""
        return Evidence(
            int(self.counts.sum()),
            bounds.effective_number(self.values, self.counts),
            bounds.half_line_number(self.values, self.counts),
        )

    def complexity(self, of_records: Callable[[int], float]) -> float:
        """The Rademacher complexity of a set of features, from that for any number of records."""
        return bounds.weighted_complexity(of_records, self.values, self.counts)


@io.register
@dataclass(frozen=True)
class Evidence:
    """What a bound knows of the records.

    n_records : how many there are, several in one row counted as several.
    effective : (sum w)^2 / sum w^2 of their weights; half_line : the number that counts for all
        monotone features at once (``bounds.half_line_number``). Both are n_records where all
        weights are equal, whatever their scale.
    """

    n_records: int
    effective: float
    half_line: float

    @property
    def alike(self) -> bool:
        """Whether all records count the same."""
        return self.effective == self.n_records

    def radius(self, n_variables: int, n_others: int, delta: float) -> float:
        """beta of all monotone features of some variables and of other features, at once."""
        events = max(n_variables + n_others, 1)
        if self.alike or not n_variables:
            return bounds.hoeffding_beta(events, self.effective, delta)
        # larger than Hoeffding's for the others
        return bounds.weighted_dkw_beta(events, self.half_line, delta)

    def assumes(self) -> str:
        """What must be true of the records for a bound to hold."""
        if self.alike:
            return bounds.INDEPENDENT
        return (
            f"{bounds.INDEPENDENT} and their weights were set without regard to where they lie "
            f"({self.n_records:,} weigh as much as {self.effective:.1f} equal ones)"
        )
