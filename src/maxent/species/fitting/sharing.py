"""Strength lent between the species of one group, where held-out records say that it helps.

A species with few records says little of the variables; others of its group, with more, may say
what matters in the region and where people look. Their log densities, the exponents theta_k of
their own fits, are the columns of a second density of the species' records,

    theta_others = sum_k a_k theta_k,    a by ridge: strength K / (2 m) ||a||^2 for K others,

and the shared density is the mean of the logs of both: (theta_own + theta_others) / 2, normalised.
That is again a density of the exponential family, over the features of all (``log_pool``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.core.entropies import Relative, Shannon
from maxent.core.maps import MatrixMap
from maxent.core.potentials import Quadratic
from maxent.core.problem import Problem
from maxent.density import Certificate, FittedDensity, Points, Recipe, Table, as_recipe, log_pool
from maxent.features import Cells, Operator, Schema, bind, with_weights
from maxent.features.summing import joint_schema, summed
from maxent.rows.arrays import Array
from maxent.species.fitting.results import BlockSize, Sample, Sharing
from maxent.species.judging.refits import REFIT_TOL
from maxent.species.judging.replicates import (
    Plain,
    Split,
    held_out,
    split_points,
    split_records,
)

STRENGTH = 3.0  # of the ridge; chosen by blocked cross-validation of records, not of surveys
_OWN = 0.5  # share of the species' own log density in the mean


class Shared(NamedTuple):
    """The density of a species, why it is shared or not, and how to make it of other points."""

    density: FittedDensity
    sharing: Sharing
    refit: Borrower | None


@dataclass(frozen=True, eq=False)
class Borrower:
    """Makes shared densities: a species' recipe and the densities of the others of its group.

    ``schema`` has the levels that any of them knows. See the module for the formula.
    """

    recipe: Recipe
    lenders: Mapping[str, FittedDensity]
    schema: Schema

    @classmethod
    def from_sample(
        cls, recipe: Any, sample: Sample, lenders: Mapping[str, FittedDensity]
    ) -> Borrower:
        """For the records of a sample."""
        recipe = as_recipe(recipe)
        own = Schema.from_table(sample.X, recipe.categorical)
        return cls(recipe, lenders, joint_schema([own, *(d.schema for d in lenders.values())]))

    def points(self, sample: Sample) -> Points:
        """All of a sample."""
        table = Table.from_rows(
            sample.X, sample.counts, prior=sample.prior, missing=self.recipe.missing
        )
        return self.recipe.points(table, self.schema)

    def fit(self, points: Points) -> FittedDensity:
        """The shared density of points, to the tolerance of diagnostics."""
        own = Plain(self.recipe, self.schema).fit(points)
        return self.mean(own, points, *self.others(points, REFIT_TOL))

    def mean(
        self, own: FittedDensity, points: Points, weights: Array, told: Certificate
    ) -> FittedDensity:
        """The mean of ``own``, fitted to the points, and of the others with these weights."""
        return log_pool(
            [own, *self.lenders.values()],
            np.append(_OWN, (1 - _OWN) * weights),
            points,
            [own.certificate, told],
        )

    def others(self, points: Points, tol: float) -> tuple[Array, Certificate]:
        """The weight a_k of each lender, by ridge on the records of the points."""
        columns = self._exponents(points.cells)
        columns -= (points.mass / points.n_points) @ columns
        ridge = Quadratic(STRENGTH * columns.shape[1] / points.n_presences)
        default = Relative(Shannon(), points.default)
        problem = Problem(default, MatrixMap(columns), ridge, observed=points.observed)
        solution = problem.run(tol=tol, verbose=0)
        return solution.w, Certificate.from_solution(problem, solution)

    def _exponents(self, cells: Cells) -> Array:
        """(cells, lenders): theta_k of each, up to a constant, at cells read with the schema."""
        parts = (bind(operators, cells).scores(w) for operators, w in self._features)
        return np.column_stack(list(parts))

    @cached_property
    def _features(self) -> list[tuple[list[Operator], Array]]:
        """Of each lender, with the levels that any member knows."""
        parts = (list(with_weights(d.operators, d.weights)) for d in self.lenders.values())
        return [summed(part, self.schema) for part in parts]


def share(
    recipe: Any,
    sample: Sample,
    own: FittedDensity,
    lenders: Mapping[str, FittedDensity],
    *,
    kind: str = "blocks",
    n: int = 4,
    seed: int = 0,
    judged_on: Sample | None = None,
    n_jobs: int | None = None,
    verbose: int = 1,
    blocks: BlockSize | None = None,
) -> Shared:
    """The species' own density, or its mean with the others', whichever held-out records prefer.

    Both ways are fitted to ``n`` parts of the species' records (a held-out block is kept from the
    own part and from the weights of the lenders, whose own records are used whole) and the other
    records decide: the mean of their log density, normalised over all background.

    Parameters
    ----------
    recipe : Recipe
        Features, potential, entropy and solver of a density.
    sample : Sample
        Records and background with their environment.
    own : FittedDensity
        Density of the sample by ``recipe``.
    lenders : dict of FittedDensity
        Densities of the other species.
    kind : str, default "blocks"
        How records are held out, as in ``replicate``.
    n : int, default 4
        Number of parts.
    seed : int, default 0
        Seed of the parts.
    judged_on : Sample, default None
        A thinner sample of the same records, whose held-out records decide.
    n_jobs : int, default None
        Threads.
    verbose : int, default 1
        0 silences progress.
    blocks : BlockSize, default None
        The size of the blocks of "blocks"; None for equal numbers of records.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["heat", "rain", "slope"])
    >>> odds = np.exp(2 * X["heat"])
    >>> cells = [rng.choice(400, n, replace=False, p=odds / odds.sum()) for n in (60, 60, 6)]
    >>> counts = [np.bincount(found, minlength=400) for found in cells]
    >>> one, two, rare = (Recipe().task(X, y).fit().density for y in counts)
    >>> sample = Sample(X, counts[2], coordinates=rng.random((400, 2)))
    >>> made = share(Recipe(), sample, rare, {"one": one, "two": two}, verbose=0)
    >>> told = made.sharing
    >>> told.n_others, told.chosen == (told.shared["gain"] > told.own["gain"])
    (2, True)
    """
    if not lenders:
        return _alone(own, 0, kind, n, "no other species could lend")
    borrower = Borrower.from_sample(recipe, sample, lenders)
    judged = sample if judged_on is None else judged_on
    n_records = int((judged.counts > 0).sum())
    if n_records < n:
        return _alone(own, len(lenders), kind, n, f"{n_records} records are too few for {n} folds")
    cells = borrower.schema.read(judged.X)

    def run(split: Split) -> _Fold | None:
        try:
            return _fold(borrower, judged, cells, split)
        except ValueError:  # a part that nothing can be fitted to
            return None

    with one_blas_thread():
        how: dict[str, Any] = {"blocks": blocks, "variables": borrower.schema.continuous}
        splits = split_records(judged, kind, n, seed=seed, **how)
        made = in_threads("sharing", run, splits, n_jobs, verbose)
    folds = [fold for fold in made if fold is not None]
    if not folds:
        reason = f"no part of its {n_records} records could be fitted and tested"
        return _alone(own, len(lenders), kind, n, reason)
    size = np.array([fold.n_test for fold in folds], dtype=np.float64)
    alone, shared = (
        {name: float(np.average([way[name] for way in ways], weights=size)) for name in ways[0]}
        for ways in ([fold.own for fold in folds], [fold.shared for fold in folds])
    )
    chosen = shared["gain"] > alone["gain"]
    reason = (
        f"mean log density of held-out records ({kind}, {len(folds)} folds) against an even map: "
        f"{alone['gain']:.3f} alone, {shared['gain']:.3f} shared"
    )
    density, weights = own, np.empty(0)
    if chosen:
        points = borrower.points(sample)
        weights, certificate = borrower.others(points, borrower.recipe.tol)
        density = borrower.mean(own, points, weights, certificate)
    told = Sharing(
        chosen,
        len(lenders),
        dict(zip(lenders, weights.tolist(), strict=chosen)),
        kind,
        len(folds),
        alone,
        shared,
        reason,
    )
    return Shared(density, told, borrower if chosen else None)


def _alone(own: FittedDensity, n_others: int, kind: str, n: int, reason: str) -> Shared:
    return Shared(own, Sharing(False, n_others, {}, kind, n, {}, {}, reason), None)


class _Fold(NamedTuple):
    """Scores of the held-out records of a fold, alone and shared."""

    n_test: float
    own: dict[str, float]
    shared: dict[str, float]


def _fold(borrower: Borrower, sample: Sample, cells: Cells, split: Split) -> _Fold | None:
    if not split.test.any():
        return None
    points = split_points(borrower, sample, split)
    own = Plain(borrower.recipe, borrower.schema).fit(points)
    both = (own, borrower.mean(own, points, *borrower.others(points, REFIT_TOL)))
    scores = [held_out(density.predict_cells(cells), sample, split) for density in both]
    return _Fold(float(split.test.sum()), *scores)
