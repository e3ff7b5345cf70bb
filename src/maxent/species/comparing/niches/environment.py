"""Niches in the space of the environment, as densities on its first two principal components.

Broennimann et al. (2012): the environment of both regions is put on two axes; on a grid of them the
density of a species' records is divided by that of the environment it could have been found in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.comparing.niches.data import LEAST_RECORDS, Niche
from maxent.species.comparing.niches.geography import direction
from maxent.species.comparing.niches.null_tests import (
    BACKGROUND,
    IDENTITY,
    NullTest,
    simulate,
    tests_of,
)
from maxent.species.comparing.overlap import overlap_of
from maxent.species.input.records.columns import listed
from maxent.species.libraries import geo

RESOLUTION = 100  # cells of the grid along each axis
_ROWS = 20_000  # of a kernel at a time


@dataclass(frozen=True, eq=False)
class EnvironmentAxes:
    """Two principal components of the environment of two regions, and a grid on them.

    The components are those of the correlation matrix of both backgrounds pooled, each row counting
    alike; of each component the loading that is largest in size is positive. The grid spans the
    backgrounds and the records.

    Attributes
    ----------
    variables : tuple of str
        Variables of the components.
    mean : array (n_variables,)
        Mean of each over both backgrounds.
    sd : array (n_variables,)
        Its standard deviation there.
    loadings : array (n_variables, 2)
        Weight of each standardised variable in the components.
    explained : array (2,)
        Share of the variance that each component has.
    low : array (2,)
        Least score on each.
    high : array (2,)
        Largest score on each.
    """

    variables: tuple[str, ...]
    mean: Array
    sd: Array
    loadings: Array
    explained: Array
    low: Array
    high: Array

    @classmethod
    def from_tables(cls, backgrounds: Sequence[Any], records: Sequence[Any]) -> EnvironmentAxes:
        """Of tables with the same columns, all of them numbers.

        Parameters
        ----------
        backgrounds : sequence of table
            The environment of each region.
        records : sequence of table
            The environment of the records of each species.
        """
        pooled = geo("pandas").concat(list(backgrounds), ignore_index=True)
        values = pooled.to_numpy(dtype=np.float64)
        mean, sd = values.mean(axis=0), values.std(axis=0)
        varies = sd > 1e-12 * np.maximum(np.abs(mean), 1e-300)
        names = tuple(str(n) for n, kept in zip(pooled.columns, varies, strict=True) if kept)
        if len(names) < 2:
            raise ValueError(
                "the environmental space needs at least two variables that are numbers and vary, "
                f"got {listed(names) if names else 'none'}"
            )
        mean, sd = mean[varies], sd[varies]
        z = (values[:, varies] - mean) / sd
        variance, vectors = np.linalg.eigh(z.T @ z / len(z))
        loadings = vectors[:, ::-1][:, :2]
        top = loadings[np.argmax(np.abs(loadings), axis=0), [0, 1]]
        loadings = loadings * np.sign(top)
        share = np.maximum(variance[::-1], 0.0) / variance.sum()
        flat = cls(names, mean, sd, loadings, share[:2], np.zeros(2), np.ones(2))
        scores = np.concatenate([flat.scores(part) for part in (pooled, *records)])
        low, high = scores.min(axis=0), scores.max(axis=0)
        if not (high - low > 1e-9 * np.abs(high).max()).all():
            raise ValueError(
                f"{listed(names)} tell the same: the environment has one dimension, not two; add a "
                "variable that differs from them"
            )
        return cls(names, mean, sd, loadings, share[:2], low, high)

    def scores(self, X: Any) -> Array:
        """(n_rows, 2): where the rows of a table lie on the two components."""
        z = (X[list(self.variables)].to_numpy(dtype=np.float64) - self.mean) / self.sd
        return np.asarray(z @ self.loadings)

    def unit(self, scores: Array) -> Array:
        """The same between 0 and 1, the ends of the grid."""
        return (scores - self.low) / (self.high - self.low)


@dataclass(frozen=True, eq=False)
class NicheDensity:
    """The niche of one species on the grid; the first axis of arrays is the first component.

    Attributes
    ----------
    available : array (resolution, resolution)
        Density Z of the environment, which adds up to 1.
    records : array (resolution, resolution)
        Density z of the records, which adds up to 1.
    occupancy : array (resolution, resolution)
        z / Z where there is environment, scaled to add up to 1.
    """

    available: Array
    records: Array
    occupancy: Array

    @classmethod
    def from_scores(
        cls, background: Array, records: Array, resolution: int = RESOLUTION
    ) -> NicheDensity:
        """Of points between 0 and 1, the ends of the grid.

        Parameters
        ----------
        background : array (n_background, 2)
            The environment that was there to be used.
        records : array (n_records, 2)
            The environment of the records.
        resolution : int, default 100
            Cells along each axis.
        """
        made = cls._of(kernel_density(background, resolution), kernel_density(records, resolution))
        if not made.occupancy.any():
            raise ValueError(
                "no record lies in an environment that its background has; is the background of "
                "the region where the records are?"
            )
        return made

    @classmethod
    def _of(cls, available: Array, records: Array) -> NicheDensity:
        there = available > 0
        inside = np.where(there, records, 0.0)
        ratio = np.divide(inside, available, out=np.zeros_like(inside), where=there)
        # of a null model all may lie outside: an empty niche
        return cls(available, *(part / (part.sum() or 1.0) for part in (inside, ratio)))

    def overlap(self, other: NicheDensity) -> Array:
        """Schoener's D and Warren's I of the two occupancies; 0 where one is empty."""
        if not (self.occupancy.any() and other.occupancy.any()):
            return np.zeros(2)
        return np.array(overlap_of(self.occupancy, other.occupancy))

    def with_records(self, points: Array) -> NicheDensity:
        """The same environment, with other records."""
        return self._of(self.available, kernel_density(points, len(self.available)))

    def shifted(self, rng: np.random.Generator) -> NicheDensity:
        """The density of the records with its peak at another environment that is there.

        The place is drawn in proportion to the environment available; what falls outside of it is
        lost.
        """
        size = len(self.available)
        to = np.unravel_index(rng.choice(size * size, p=self.available.ravel()), (size, size))
        peak = np.unravel_index(int(self.records.argmax()), (size, size))
        moved = np.zeros_like(self.records)
        source, target = [], []
        for axis in (0, 1):
            step = int(to[axis]) - int(peak[axis])
            source.append(slice(max(0, -step), size - max(0, step)))
            target.append(slice(max(0, step), size - max(0, -step)))
        moved[tuple(target)] = self.records[tuple(source)]
        return self._of(self.available, moved)

    def level(self, share: float) -> float:
        """The density of the environment above which this share of it lies."""
        falling = np.sort(self.available[self.available > 0])[::-1]
        place = int(np.searchsorted(np.cumsum(falling), share * falling.sum() * (1 - 1e-12)))
        return float(falling[min(place, falling.size - 1)])


def kernel_density(points: Array, resolution: int = RESOLUTION) -> Array:
    """Gaussian kernel density of points in the unit square, on a grid of it, adding up to 1.

    The bandwidth is the reference one, `h = sqrt((var x + var y) / 2) n^(-1/6)`. Cells with less
    density than that of any point are 0, so that there is an edge.

    Parameters
    ----------
    points : array (n_points, 2)
        Coordinates between 0 and 1.
    resolution : int, default 100
        Cells along each axis.

    Examples
    --------
    >>> density = kernel_density(np.array([[0.2, 0.2], [0.3, 0.2], [0.2, 0.3]]), 10)
    >>> np.unravel_index(density.argmax(), density.shape)
    (np.int64(2), np.int64(2))
    """
    n = len(points)
    width = float(np.sqrt(points.var(axis=0, ddof=1).mean())) * n ** (-1 / 6)
    # a grid cannot show a narrower one, and records of one environment have none
    width = max(width, 0.5 / resolution)
    centres = (np.arange(resolution) + 0.5) / resolution
    density = np.zeros((resolution, resolution))
    for start in range(0, n, _ROWS):
        part = points[start : start + _ROWS]
        along = (np.exp(-(((part[:, [k]] - centres) / width) ** 2) / 2) for k in (0, 1))
        first, second = along
        density += first.T @ second
    cell = np.clip((points * resolution).astype(np.intp), 0, resolution - 1)
    edge = density[cell[:, 0], cell[:, 1]].min()
    density[density < edge] = 0.0
    return density / density.sum()


@dataclass(frozen=True, eq=False)
class EnvironmentSpace:
    """Two species in the space of the environment.

    Attributes
    ----------
    axes : EnvironmentAxes
        The components.
    niches : tuple of NicheDensity
        The two niches.
    records : tuple of array
        Scores of the records of each, (n_records, 2).
    d : float
        Schoener's D of the two occupancies.
    i : float
        Warren's I of them.
    notes : tuple of str
        What was left out.
    """

    axes: EnvironmentAxes
    niches: tuple[NicheDensity, NicheDensity]
    records: tuple[Array, Array]
    d: float
    i: float
    notes: tuple[str, ...] = ()

    @classmethod
    def from_tables(
        cls,
        backgrounds: Sequence[Any],
        records: Sequence[Any],
        *,
        categorical: Sequence[str] = (),
        resolution: int = RESOLUTION,
    ) -> EnvironmentSpace:
        """Of two backgrounds and the records of two species, tables with the same columns.

        Parameters
        ----------
        backgrounds : sequence of table
            The environment of the region of each species.
        records : sequence of table
            The environment of the records of each.
        categorical : sequence of str, default ()
            Columns of categories, which are left out.
        resolution : int, default 100
            Cells of the grid along each axis.

        Examples
        --------
        >>> import pandas as pd
        >>> rng = np.random.default_rng(0)
        >>> land = pd.DataFrame(rng.normal(size=(2000, 3)), columns=["heat", "rain", "slope"])
        >>> hot, cold = land[land.heat > 1.2], land[land.heat < -1.2]
        >>> same = EnvironmentSpace.from_tables([land, land], [hot, hot])
        >>> apart = EnvironmentSpace.from_tables([land, land], [hot, cold])
        >>> round(same.d, 6), apart.d < 0.2
        (1.0, True)
        """
        names = [name for name in backgrounds[0].columns if name not in categorical]
        for part in records:
            if len(part) < LEAST_RECORDS:
                raise ValueError(
                    f"a density of records needs at least {LEAST_RECORDS} of them, got {len(part)}"
                )
        backgrounds = [part[names] for part in backgrounds]
        axes = EnvironmentAxes.from_tables(backgrounds, records)
        there = [axes.unit(axes.scores(part)) for part in backgrounds]
        found = [axes.scores(part) for part in records]
        one, other = (
            NicheDensity.from_scores(a, axes.unit(b), resolution)
            for a, b in zip(there, found, strict=True)
        )
        notes = []
        if categorical:
            notes.append(
                f"categories have no place in the components: without {listed(categorical)}"
            )
        constant = [name for name in names if name not in axes.variables]
        if constant:
            notes.append(f"constant in both regions, so left out: {listed(constant)}")
        d, i = one.overlap(other).tolist()
        return cls(axes, (one, other), (found[0], found[1]), d, i, tuple(notes))

    @classmethod
    def from_niches(cls, one: Niche, other: Niche) -> EnvironmentSpace:
        """Of two fits."""
        both = (one, other)
        return cls.from_tables(
            [n.X[n.background] for n in both],
            [n.X.iloc[n.record_rows] for n in both],
            categorical=one.categorical,
        )

    def tests(
        self,
        names: tuple[str, str],
        test: str,
        *,
        n_null: int,
        level: float,
        seed: int = 0,
        n_jobs: int | None = None,
        verbose: int = 1,
    ) -> tuple[NullTest, ...]:
        """D and I beside those of null models.

        Identity: the records of both are dealt out again, each part in its own environment.
        Background: the density of one species' records is moved as a whole to another place of its
        environment (``NicheDensity.shifted``), in both directions. Null model k of the first
        direction has the k-th child of ``SeedSequence(seed)``, that of the second the (n + k)-th.

        Parameters
        ----------
        names : tuple of str
            The two species.
        test : "identity" or "background"
            Which test.
        n_null : int
            Null models.
        level : float
            Where p is called small.
        seed : int, default 0
            Seed of the null models.
        n_jobs : int, default None
            Threads.
        verbose : int, default 1
            0 silences progress.
        """
        observed = np.array([self.d, self.i])
        if test == IDENTITY:
            streams = np.random.SeedSequence(seed).spawn(n_null)
            pooled = np.concatenate([self.axes.unit(part) for part in self.records])
            first = len(self.records[0])

            def dealt(rng: np.random.Generator) -> Array:
                points = rng.permutation(pooled)
                parts = (points[:first], points[first:])
                one, other = (n.with_records(p) for n, p in zip(self.niches, parts, strict=True))
                return one.overlap(other)

            null = simulate("identity test", dealt, streams, n_jobs, verbose)
            return tests_of(IDENTITY, "", observed, null, level)
        streams = np.random.SeedSequence(seed).spawn(2 * n_null)
        found: tuple[NullTest, ...] = ()
        for fixed, part in ((0, streams[:n_null]), (1, streams[n_null:])):
            kept, moved = self.niches[fixed], self.niches[1 - fixed]

            def shifted(
                rng: np.random.Generator, kept: NicheDensity = kept, moved: NicheDensity = moved
            ) -> Array:
                return kept.overlap(moved.shifted(rng))

            null = simulate(f"background test {fixed + 1} of 2", shifted, part, n_jobs, verbose)
            found += tests_of(BACKGROUND, direction(names, fixed), observed, null, level)
        return found
