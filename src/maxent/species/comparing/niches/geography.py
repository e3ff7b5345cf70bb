"""Tests of overlap on the map: models fitted again to records that were shuffled or drawn.

Warren, Glor and Turelli (2008). Identity: the records of both species are pooled and dealt out
again in two parts of the same sizes. Background: one species keeps its model, the records of the
other are drawn at random from the background that the other was fitted with, in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent.density import DensityTask, Points, Recipe, Table
from maxent.density.recipe import auto_letters
from maxent.features import Cells, Schema
from maxent.rows.arrays import Array
from maxent.species.comparing.niches.data import Niche
from maxent.species.comparing.niches.null_tests import (
    BACKGROUND,
    IDENTITY,
    NullTest,
    simulate,
    tests_of,
)
from maxent.species.comparing.overlap import overlap_of
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.naming import Named
from maxent.species.judging.refits import KNOTS, coarse, fit_if_any
from maxent.species.libraries import geo
from maxent.species.study.background import draw_background


class Judged(NamedTuple):
    """Cells of two maps that overlap is computed over: all that both know, or a part of them."""

    cell: Array
    n_known: int


def judged_cells(one: Path, other: Path, n: int, seed: int, verbose: int) -> Judged:
    """At most ``n`` cells that two maps on one grid both know, drawn at random."""
    named = [Named("one", str(one)), Named("other", str(other))]
    if one == other:
        named = named[:1]
    with Layers.open([named_one.path for named_one in named], named=named) as maps:
        drawn = draw_background(maps, n, seed=seed, verbose=verbose)
    return Judged(drawn.cell[drawn.background], drawn.n_known)


def geographic_tests(
    one: Niche,
    other: Niche,
    judged: Array,
    test: str,
    *,
    n_null: int,
    level: float,
    output: str,
    seed: int,
    n_jobs: int | None,
    verbose: int,
) -> tuple[NullTest, ...]:
    """D and I of the species beside those of null models, over the cells ``judged``.

    Null model k of the first direction has the k-th child of ``SeedSequence(seed)``, that of the
    second the (n + k)-th.
    """
    ground = Ground.from_niches(one, other, judged, output)
    if test == IDENTITY:
        streams = np.random.SeedSequence(seed).spawn(n_null)
        return _identity(ground, streams, level, n_jobs, verbose)
    streams = np.random.SeedSequence(seed).spawn(2 * n_null)
    halves = (streams[:n_null], streams[n_null:])
    tests: tuple[NullTest, ...] = ()
    models = [ground.refits(k, ground.background[k] | (ground.counts[k] > 0)) for k in (0, 1)]
    for fixed, part in zip((0, 1), halves, strict=True):
        tests += _background(ground, models, fixed, part, level, n_jobs, verbose)
    return tests


def _identity(
    ground: Ground,
    streams: list[np.random.SeedSequence],
    level: float,
    n_jobs: int | None,
    verbose: int,
) -> tuple[NullTest, ...]:
    first, second = ground.counts
    # the same cells for both, whoever is which: only so can records change places
    domain = ground.background.any(axis=0) | (first + second > 0)
    models = [ground.refits(k, domain) for k in (0, 1)]
    pooled = np.concatenate([_row_of_each(first), _row_of_each(second)])
    n_first, n_rows = int(first.sum()), first.size

    def work(rng: np.random.Generator) -> Array:
        dealt = rng.permutation(pooled)
        parts = (np.bincount(p, minlength=n_rows) for p in (dealt[:n_first], dealt[n_first:]))
        maps = (model.suitability(part) for model, part in zip(models, parts, strict=True))
        return np.array(overlap_of(*maps))

    observed = np.array(overlap_of(models[0].own, models[1].own))
    null = simulate("identity test", work, streams, n_jobs, verbose)
    return tests_of(IDENTITY, "", observed, null, level)


def _background(
    ground: Ground,
    models: list[Refits],
    fixed: int,
    streams: list[np.random.SeedSequence],
    level: float,
    n_jobs: int | None,
    verbose: int,
) -> tuple[NullTest, ...]:
    moved = 1 - fixed
    places = np.flatnonzero(ground.background[moved])
    n_records, n_rows = int(ground.counts[moved].sum()), ground.counts[moved].size
    names = ground.species
    if n_records > places.size:
        raise ValueError(
            f"{names[moved]} has {n_records} records and {places.size} background cells to draw as "
            "many places from; fit it with a larger background (--background, or a wider region)"
        )

    def work(rng: np.random.Generator) -> Array:
        drawn = np.bincount(rng.choice(places, n_records, replace=False), minlength=n_rows)
        return np.array(overlap_of(models[fixed].own, models[moved].suitability(drawn)))

    observed = np.array(overlap_of(models[0].own, models[1].own))
    null = simulate(f"background test {fixed + 1} of 2", work, streams, n_jobs, verbose)
    return tests_of(BACKGROUND, direction(names, fixed), observed, null, level)


def direction(names: tuple[str, str], fixed: int) -> str:
    """Which species stays and which is put at random, in words."""
    moved = 1 - fixed
    if names[0] == names[1]:
        names = (f"{names[0]} (first)", f"{names[1]} (second)")
    return f"{names[fixed]} against {names[moved]} at random"


def _row_of_each(counts: Array) -> Array:
    return np.repeat(np.arange(counts.size), counts.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Ground:
    """The cells of two fits on one grid, in one table.

    Attributes
    ----------
    species : tuple of str
        Names of the two.
    recipes : tuple of Recipe
        How each is fitted.
    clamp : tuple of bool
        Whether their maps hold variables in their ranges.
    X : table
        Values of all cells.
    counts : array (2, n_rows)
        Records of each species.
    background : array (2, n_rows)
        Background of each.
    judged : array (n_judged,)
        Rows that overlap is computed over.
    output : str
        Of which output.
    """

    species: tuple[str, str]
    recipes: tuple[Recipe, Recipe]
    clamp: tuple[bool, bool]
    X: Any
    counts: Array
    background: Array
    judged: Array
    output: str

    @classmethod
    def from_niches(cls, one: Niche, other: Niche, judged: Array, output: str) -> Ground:
        """All cells of both; layers that both read must agree where they meet."""
        _check_agreement(one, other)
        cell, first = np.unique(np.concatenate([one.cell, other.cell]), return_index=True)
        columns = list(one.X.columns)
        both = geo("pandas").concat([one.X, other.X[columns]], ignore_index=True)
        counts, background = np.zeros((2, cell.size)), np.zeros((2, cell.size), dtype=bool)
        for k, niche in enumerate((one, other)):
            rows = np.searchsorted(cell, niche.cell)
            counts[k, rows], background[k, rows] = niche.counts, niche.background
        place = np.minimum(np.searchsorted(cell, judged), cell.size - 1)
        return cls(
            (one.species, other.species),
            (one.recipe, other.recipe),
            (one.clamp, other.clamp),
            both.iloc[first].reset_index(drop=True),
            counts,
            background,
            place[cell[place] == judged],
            output,
        )

    @cached_property
    def schema(self) -> Schema:
        """The columns, with all levels."""
        return Schema.from_table(self.X, tuple(self.recipes[0].categorical))

    @cached_property
    def judged_cells(self) -> Cells:
        """What maps are drawn over."""
        return self.schema.read(self.X.iloc[self.judged])

    def refits(self, k: int, domain: Array) -> Refits:
        """Models of species k over some of the rows."""
        return Refits.from_ground(self, k, np.flatnonzero(domain))


def _check_agreement(one: Niche, other: Niche) -> None:
    """Refuse layers of one name that hold different values."""
    _, mine, theirs = np.intersect1d(one.cell, other.cell, return_indices=True)
    for name in one.X.columns:
        a, b = (np.asarray(x[name]) for x in (one.X.iloc[mine], other.X.iloc[theirs]))
        if not np.array_equal(a, b):
            differ = int((a != b).sum())
            raise ValueError(
                f"layer {name!r} of the two fits has other values in {differ} of {mine.size} "
                "cells that both read; fit both species to the same layers"
            )


@dataclass(frozen=True, eq=False)
class Refits:
    """Models of one species' settings, fitted to other records on the same cells.

    Features are made once, with at most ``KNOTS`` knots of a curve and those beside the records of
    both species, and each fit starts from the model of the species' own records.

    Attributes
    ----------
    ground : Ground
        The cells.
    k : int
        Which species.
    rows : array (n_rows,)
        Rows of the ground that its density is over.
    task : DensityTask or None
        Points and features; None where equal rows are merged (presets), so that they depend on the
        records.
    start : array or None
        Weights to start from.
    own : array (n_judged,)
        Suitability by the model of the species' own records.
    """

    ground: Ground
    k: int
    rows: Array
    task: DensityTask | None
    start: Array | None
    own: Array

    @classmethod
    def from_ground(cls, ground: Ground, k: int, rows: Array) -> Refits:
        """Fit the species' own records."""
        made = cls(ground, k, rows, None, None, np.empty(0))
        recipe = made.recipe
        if not recipe.chosen_preset().merge:
            records = ground.counts.sum(axis=0)[rows]
            points = made._points(records)
            # all levels of categories, which the records of a refit may need
            task = coarse(recipe.task_of(points.with_counts(np.ones(rows.size))))
            task = task.with_counts(records)
            made = replace(made, task=task.thinned(np.zeros(task.features.n_features), KNOTS)[0])
        fitted = fit_if_any(made._posed(ground.counts[k]))
        start = None if fitted is None or made.task is None else fitted.w
        return replace(made, start=start, own=made._predicted(fitted))

    @property
    def recipe(self) -> Recipe:
        """That of the species, with the classes of features that its number of records asks for."""
        recipe = self.ground.recipes[self.k]
        if recipe.features != "auto":
            return recipe
        return replace(recipe, features=auto_letters(float(self.ground.counts[self.k].sum())))

    def suitability(self, counts: Array) -> Array:
        """Over the judged cells, by the model of these records of all rows of the ground."""
        return self._predicted(fit_if_any(self._posed(counts.astype(np.float64)), self.start))

    def _posed(self, counts: Array) -> DensityTask:
        mine = counts[self.rows]
        if self.task is None:
            return coarse(self.recipe.task_of(self._points(mine)))
        return self.task.with_counts(mine)

    def _points(self, counts: Array) -> Points:
        table = Table.from_rows(self.ground.X.iloc[self.rows], counts)
        return self.recipe.points(table, self.ground.schema)

    def _predicted(self, fitted: Any) -> Array:
        if fitted is None:  # no feature varies: an even map
            return np.ones(self.ground.judged.size)
        cells, clamp = self.ground.judged_cells, self.ground.clamp[self.k]
        return np.asarray(fitted.density.predict_cells(cells, self.ground.output, clamp=clamp))
