"""An observed overlap beside those of a null model: shares, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.rows.arrays import Array

IDENTITY, BACKGROUND = "identity", "background"
TESTS = (IDENTITY, BACKGROUND)
STATISTICS = {"schoener_d": "D", "warren_i": "I"}
_TIE = 1e-9  # overlaps closer than this are one value


@dataclass(frozen=True, eq=False)
class NullTest:
    """One statistic of overlap beside its null distribution.

    With B null models and the observed value among them, a share is
    `p = (1 + count) / (1 + B)`: never 0, and at least 1 / (B + 1).

    Attributes
    ----------
    test : "identity" or "background"
        Records shuffled between the species, or one species put at random into its background.
    statistic : "schoener_d" or "warren_i"
        What is compared.
    direction : str
        Which species is at random in a background test; "" for identity.
    observed : float
        Overlap of the two species.
    null : array (n_null,)
        Overlap in each null model.
    level : float
        Where p is called small.
    """

    test: str
    statistic: str
    direction: str
    observed: float
    null: Array
    level: float

    @property
    def p_different(self) -> float:
        """Share of the null models with at most the overlap observed, the observed one included."""
        return self._share(self.null <= self.observed + _TIE)

    @property
    def p_similar(self) -> float:
        """Share of the null models with at least the overlap observed."""
        return self._share(self.null >= self.observed - _TIE)

    @property
    def p_value(self) -> float:
        """Of niches that differ (identity), or are unlike chance in either way (background)."""
        if self.test == IDENTITY:
            return self.p_different
        return min(1.0, 2 * min(self.p_different, self.p_similar))

    def _share(self, extreme: Array) -> float:
        return (1 + int(np.count_nonzero(extreme))) / (1 + self.null.size)

    def describe(self) -> str:
        """What was found, in one sentence."""
        value = f"{STATISTICS[self.statistic]} = {self.observed:.3f}"
        p = f"p = {self.p_value:.3g}"
        if self.test == IDENTITY:
            if self.p_value <= self.level:
                return f"the niches are not identical: {value} is less than by chance ({p})"
            return f"no sign that the niches differ: {value} is as by chance ({p})"
        if self.p_value > self.level:
            return f"{self.direction}: {value} is as by chance ({p})"
        way = "less" if self.p_different < self.p_similar else "more"
        return f"{self.direction}: the niches are {way} similar than by chance, {value} ({p})"

    def row(self) -> dict[str, Any]:
        """As a line of a table."""
        low, high = np.quantile(self.null, [0.025, 0.975])
        return {
            "test": self.test,
            "direction": self.direction,
            "statistic": self.statistic,
            "observed": self.observed,
            "null_mean": float(self.null.mean()),
            "null_sd": float(self.null.std(ddof=1)) if self.null.size > 1 else math.nan,
            "null_2.5%": float(low),
            "null_97.5%": float(high),
            "p_different": self.p_different,
            "p_similar": self.p_similar,
            "p_value": self.p_value,
            "n_null": int(self.null.size),
        }


def check_null(test: str, n_null: int, level: float) -> None:
    """Refuse a test that does not exist, and one that could never come out small."""
    if test not in TESTS:
        raise ValueError(f"test must be one of {', '.join(TESTS)}, got {test!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    sides = 1 if test == IDENTITY else 2
    if n_null < 1 or sides / (n_null + 1) > level * (1 + 1e-12):
        least = math.ceil(sides / level * (1 - 1e-12)) - 1
        kind = "" if sides == 1 else "two-sided "
        raise ValueError(
            f"{n_null} null models give no {kind}p below {sides}/{n_null + 1}, so none could be "
            f"small at the level {level:g}; ask for at least {least} (--null), or a larger level"
        )


def simulate(
    name: str,
    work: Callable[[np.random.Generator], Array],
    streams: list[np.random.SeedSequence],
    n_jobs: int | None,
    verbose: int,
) -> Array:
    """(n, 2): D and I of null models, each with random numbers of its own, whatever the threads."""
    with one_blas_thread():
        found = in_threads(
            name, lambda stream: work(np.random.default_rng(stream)), streams, n_jobs, verbose
        )
    return np.array(found)


def tests_of(
    test: str, direction: str, observed: Array, null: Array, level: float
) -> tuple[NullTest, ...]:
    """One per statistic, of (2,) observed values and (n, 2) null ones."""
    return tuple(
        NullTest(test, name, direction, float(observed[k]), null[:, k], level)
        for k, name in enumerate(STATISTICS)
    )
