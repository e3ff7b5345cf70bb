"""SourcesTask: the one convex problem of several sources, and its fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import logsumexp

from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.core.entropies import DirectSum
from maxent.core.potentials import Potential, Quadratic
from maxent.core.problem import Problem
from maxent.core.solvers.base import Solution
from maxent.density.intervals import Laplace, Refits, inverse, prior_precision
from maxent.density.link import DensityLink
from maxent.density.model import Certificate
from maxent.density.origin import Offered
from maxent.density.points import Points, check_ranges
from maxent.density.recipe import Recipe
from maxent.density.regularization import spread
from maxent.density.sources.columns import SomeCells
from maxent.density.sources.facts import SourceFacts, checked, telling
from maxent.density.sources.intensity import FittedIntensity, density_over
from maxent.density.sources.posed import Column, Posed, PosedSources, check_recipe
from maxent.density.sources.resampling import Draw
from maxent.density.sources.source import Entries, Source, check_common, columns_of
from maxent.features import Cells, Operator, OperatorMap, Schema, bind, part_of
from maxent.features.base import FeatureRows
from maxent.features.cells import missing_rows
from maxent.rows.arrays import Array

_REFIT_TOL = 1e-5  # duality gap of refits


@dataclass(frozen=True, eq=False)
class SourcesTask(PosedSources):
    """One intensity of several sources, to be fitted.

    `min_w sum_k c_k [Omega_k*(F_k'w) - <F_k'w, y_k>] + V*(-w)`, with ``Omega_k`` of source k and
    `c_k = v_k / m`, v the weights of the sources and m the number of their records. The direct sum
    of the Omega_k is an entropy of one long row, so that this is the one problem: its dual and its
    gap are those of ``Problem``, and presences alone are ``DensityTask``.

    Parameters
    ----------
    sources : sequence of Source
        The records.
    recipe : Recipe
        Features, potential and solver.
    points : Points
        The rows of all sources, one after another.
    operators : sequence of Operator
        All features to choose from.
    features : OperatorMap
        The same, bound to the points.
    entries : tuple of Entries
        The terms of each source; their rows follow one another in ``points``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> found = (np.arange(40) % 3 > 0) & (X[:, 0] > 0.3)
    >>> task = SourcesTask.of([Source("survey", X, found)], Recipe(features="l"))
    >>> fit = task.fit()
    >>> bool(fit.density.certificate.gap < 1e-6), fit.is_absolute
    (True, True)
    """

    sources: tuple[Source, ...]
    recipe: Recipe
    points: Points
    operators: Sequence[Operator]
    features: OperatorMap
    entries: tuple[Entries, ...]

    @classmethod
    def of(cls, sources: Sequence[Source], recipe: Recipe | None = None) -> SourcesTask:
        """The task of checked sources; one that cannot tell anything is left out with a warning."""
        recipe = Recipe() if recipe is None else recipe
        check_recipe(recipe)
        given = checked(sources)
        told = tuple(given[k] for k in telling(given, [SourceFacts.of(s) for s in given]))
        if recipe.missing == "drop":
            told = tuple(source.take(np.flatnonzero(~missing_rows(source.X))) for source in told)
        entries = tuple(source.entries() for source in told)
        schema, cells = _stacked(told, entries, recipe)
        counts = np.concatenate([s.found(e) for s, e in zip(told, entries, strict=True)])
        mass = np.concatenate(
            [
                e.area if s.kind == "presences" else np.ones(e.y.size)
                for s, e in zip(told, entries, strict=True)
            ]
        )
        points = Points(schema, cells, counts, np.ones(counts.size), mass)
        check_ranges(schema, *points.ranges)
        operators = recipe.operators(points)
        for note in recipe.notes(points):
            warnings.warn(note, stacklevel=3)
        return cls(told, recipe, points, operators, points.features(operators), entries)

    # -- other tasks ---------------------------------------------------------------------------

    def with_sources(self, sources: Sequence[Source]) -> SourcesTask:
        """The same rows and features with other records, weights or efforts."""
        told = tuple(sources)
        entries = tuple(source.entries() for source in told)
        if [e.row.size for e in entries] != [e.row.size for e in self.entries]:
            raise ValueError("other records need the rows and visits of those of before")
        counts = np.concatenate([s.found(e) for s, e in zip(told, entries, strict=True)])
        points = self.points.with_counts(counts)
        return replace(self, sources=told, points=points, entries=entries)

    def among(self, kept: Sequence[Array | None]) -> SourcesTask:
        """Some rows of each source (a mask; None leaves the source out), the same features."""
        return self._of_rows(
            [
                None if rows is None else (source.take(np.flatnonzero(rows)), np.flatnonzero(rows))
                for source, rows in zip(self.sources, kept, strict=True)
            ]
        )

    def _of_rows(self, drawn: Sequence[tuple[Source, Array] | None]) -> SourcesTask:
        """The task of sources made of rows of these, each row as often as it is named."""
        known = [one for one in drawn if one is not None]
        entries = tuple(source.entries() for source, _ in known)
        index = []
        for own, where, one in zip(self.entries, self.slices, drawn, strict=True):
            if one is not None:
                source, rows = one
                first = np.zeros(int(own.row.max()) + 1, np.intp)  # an entry of each row
                first[own.row] = np.arange(own.row.size)
                index.append(where.start + first[rows[source.entries().row]])
        place = np.concatenate(index)
        counts = [s.found(e) for (s, _), e in zip(known, entries, strict=True)]
        points = self.points
        parts = (np.concatenate(counts), points.mass[place], points.prior[place])
        some = Points(points.schema, points.cells.take(place), *parts)
        features = OperatorMap([part.take(place) for part in self.features.parts], place.size)
        sources = tuple(source for source, _ in known)
        return SourcesTask(sources, self.recipe, some, self.operators, features, entries)

    # -- the problem ---------------------------------------------------------------------------

    @property
    def n_records(self) -> float:
        """m, the records of all sources, by which the loss is divided."""
        return self.points.n_presences

    @property
    def slices(self) -> list[slice]:
        """Where the entries of each source are."""
        cuts = np.cumsum([0, *(e.row.size for e in self.entries)])
        return [slice(a, b) for a, b in pairwise(cuts.tolist())]

    @cached_property
    def facts(self) -> tuple[SourceFacts, ...]:
        """What is known of the rows of each source."""
        return tuple(SourceFacts.of(source) for source in self.sources)

    @cached_property
    def posed(self) -> Posed:
        """The convex problem of the features that the rule leaves in."""
        m, features = self.n_records, self.features
        chosen = self._chosen(self.operators, *spread(features, self.points.observed, m), m)
        if chosen.kept.size < features.n_features:
            features = features.restrict(chosen.kept)
        columns, rates = self._columns(), self._rates()
        problem = self._problem(features, chosen.potential, columns, rates)
        return Posed(chosen.kept, chosen.operators, chosen.beta, columns, rates, problem)

    def _problem(
        self, features: OperatorMap, own: Potential, columns: list[Column], rates: list[float]
    ) -> Problem:
        m, parts = self.n_records, [*features.parts]
        for source, where in zip(self.sources, self.slices, strict=True):
            if source.deviation:
                place = np.arange(where.start, where.stop)
                parts += [SomeCells(x.take(place), place, features.n_cells) for x in features.parts]
        if columns:
            parts.append(FeatureRows(np.array([self._everywhere(column) for column in columns])))
        blocks = []
        for source, entries, rate in zip(self.sources, self.entries, rates, strict=True):
            y, times = source.observed(entries)
            blocks.append((source.entropy(entries, rate), y, source.weight * times / m))
        entropies, observed, weights = zip(*blocks, strict=True)
        return Problem(
            DirectSum(entropies, [y.size for y in observed], weights),
            OperatorMap(parts, features.n_cells),
            self._potential(own, features.n_features, columns, m),
            observed=np.concatenate([c * y for c, y in zip(weights, observed, strict=True)]),
        )

    def _everywhere(self, column: Column) -> Array:
        """The values of a column at the entries of all sources."""
        row = np.zeros(self.points.n_cells)
        known = zip(self.sources, self.entries, self.slices, strict=True)
        for k, (source, entries, where) in enumerate(known):
            if column.is_of(k, source):
                row[where] = column.at(source, entries)
        return row

    # -- intervals -----------------------------------------------------------------------------

    def with_intervals(
        self, intensity: FittedIntensity, w: Array, method: str, **settings: Any
    ) -> FittedIntensity:
        """The intensity with what its intervals are made of: see ``fit``."""
        if method == "laplace":
            return self.with_laplace(intensity, w)
        return self.with_refits(intensity, w, **settings) if method == "bootstrap" else intensity

    def with_laplace(self, intensity: FittedIntensity, w: Array) -> FittedIntensity:
        """An intensity of weights w of the problem, with the curvature its intervals are made of.

        The covariance of all weights in use, those of efforts, deviations and scales among them, is
        `K (J + P) K` with `K = (H + P)^-1`, H the Hessian of the losses, P the precision of the
        penalty and J the variance of the gradient: that of the losses with the squares of the
        sources' weights, H itself where all of them are 1.
        """
        problem, m = self.problem, self.n_records
        if not problem.entropy.has_curvature:
            raise ValueError(
                "intervals by laplace need one source of presences at most: join their records, or "
                "take intervals by bootstrap"
            )
        n_features = self.posed.chosen.size
        precision = prior_precision(problem.potential, w.size, m)
        used = np.flatnonzero(w)
        scale = n_features + sum(n_features for s in self.sources if s.deviation)
        shared = [
            scale + j for j, c in enumerate(self.posed.columns) if c.is_scale and c.source is None
        ]
        used = np.union1d(used, shared).astype(np.intp)
        hessian = m * _hessian(problem, used, w)
        told = inverse(hessian + np.diag(precision[used]))
        if any(source.weight != 1 for source in self.sources):
            squared = [replace(s, weight=s.weight**2) for s in self.sources]
            varied = m * _hessian(self.with_sources(squared).problem, used, w)
            told = told @ (varied + np.diag(precision[used])) @ told
        own = np.flatnonzero(used < n_features)
        density = intensity.density
        theta = self.features.restrict(self.posed.chosen).scores(w[:n_features])
        over = self._place()
        q = self.points.mass[over] * np.exp(theta[over] - theta[over].max())
        q /= q.sum()
        features = bind(density.operators, self.points.cells.take(over))
        known = Laplace(
            told[np.ix_(own, own)],
            features.moments(q),
            features.gram(q, q) @ density.weights,
        )
        if shared:
            place = int(np.flatnonzero(used == shared[0])[0])
            known = replace(known, scale=np.append(told[own, place], told[place, place]))
        return replace(intensity, density=replace(density, uncertainty=known))

    def with_refits(
        self,
        intensity: FittedIntensity,
        w: Array | None = None,
        *,
        n: int = 100,
        blocks: Sequence[Array] | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> FittedIntensity:
        """An intensity with refits to resampled records, which its intervals are made of.

        Of presences the records are drawn with replacement, over the same background; of a survey
        and of counts the rows. A source whose draw found nothing, or the species at every visit, is
        drawn again.

        Parameters
        ----------
        intensity : FittedIntensity
            The intensity.
        w : array, default None
            Weights of the problem, where refits start.
        n : int, default 100
            How many refits.
        blocks : sequence of array, default None
            The block of each row of each source, by numbers that all of them share: whole blocks
            are drawn, of all sources at once. None draws single records and rows.
        seed : int, default 0
            Seed of the draws; the same for any number of threads.
        n_jobs : int, default None
            Threads.
        verbose : int, default 0
            1 shows a progress line.
        """
        if n < 2:
            raise ValueError(f"intervals need 2 refits or more, got {n!r}")
        draw = Draw.of(self.sources, blocks)
        seeds = np.random.SeedSequence(seed).spawn(n)
        tol = max(self.recipe.tol, _REFIT_TOL)

        def refit(sequence: np.random.SeedSequence) -> tuple[Array, float | None]:
            task = self._of_rows(draw.drawn(np.random.default_rng(sequence)))
            start = w if w is not None and w.size == task.problem.features.n_features else None
            parts = task.parts_of(task.solve(start, tol=tol, verbose=0, checkpoint=None).w)
            whole = np.zeros(self.features.n_features)
            whole[task.posed.chosen] = parts.features
            return whole, parts.log_scale

        with one_blas_thread():
            fits = in_threads("bootstrap", refit, seeds, n_jobs, verbose)
        weights = np.array([one for one, _ in fits]).T
        used = np.flatnonzero(weights.any(axis=1))
        over = self._place()
        part = self.features.restrict(used)
        theta = np.array([part.scores(one[used])[over] for one, _ in fits])
        mass = self.points.mass[over]
        log_partition = np.logaddexp.reduce(theta + np.log(mass), axis=1)
        log_q = theta - log_partition[:, None]
        scales = [scale for _, scale in fits if scale is not None]
        refits = Refits(
            tuple(part_of(self.operators, used)),
            weights[used],
            log_partition,
            -np.sum(mass * np.exp(log_q) * log_q, axis=1),
            np.array(scales) if scales else None,
            draw.n_blocks,
        )
        density = replace(intensity.density, uncertainty=refits)
        return replace(intensity, density=density)

    def deviances(self, w: Array) -> list[float]:
        """That of each source at the weights of the problem."""
        theta, rates = self.problem.features.scores(w), self.posed.rates
        parts = zip(self.sources, self.entries, self.slices, rates, strict=True)
        return [s.deviance(e, theta[where], rate) for s, e, where, rate in parts]

    def degrees_of_freedom(self, w: Array) -> float:
        """`trace (H + R)^-1 H`, H and R the Hessians of the losses and of the penalty at w.

        Over the weights in use; NaN for several sources of presences or a penalty with kinks
        other than at 0.
        """
        problem = self.problem
        terms = problem.potential.elastic(w.size)
        if terms is None or not problem.entropy.has_curvature:
            return float("nan")
        used = np.flatnonzero((w != 0) | (terms[1] > 0))
        ridge = np.diag(terms[1][used])
        hessian = _hessian(problem, used, w)
        damp = 1e-12 * (np.trace(hessian) / max(used.size, 1) + 1e-300) * np.eye(used.size)
        return float(np.trace(np.linalg.solve(hessian + ridge + damp, hessian)))

    def intensity(self, solution: Solution) -> FittedIntensity:
        """The intensity of a solution of the problem."""
        posed, parts = self.posed, self.parts_of(solution.w)
        w, size = parts.features, parts.features.size
        used = np.flatnonzero(w)
        over = self._place()
        theta = self.features.restrict(posed.chosen).scores(w)[over]
        known = {
            "operators": tuple(part_of(posed.operators, used)),
            "weights": w[used],
            "beta": posed.beta[used],
            "n_features": size,
            "origin": Offered.from_operators(self.operators, self.points.schema),
            "certificate": self._certificate(solution, theta, over),
            "prevalence": self.recipe.prevalence,
        }
        points = self.points
        rows = (points.counts[over], points.mass[over], points.prior[over])
        place = Points(points.schema, points.cells.take(over), *rows)
        return FittedIntensity(
            density_over(place, theta, DensityLink(0.0, float(theta.max())), known),
            parts.log_scale,
            self._fits(solution.w, parts),
        )

    def _certificate(self, solution: Solution, theta: Array, over: Array) -> Certificate:
        """That of the problem, with the gain of the density: log likelihoods of others are none."""
        told = Certificate.from_solution(self.problem, solution)
        if len(self.sources) == 1 and self.sources[0].kind == "presences":
            return told
        counts, mass = self.points.counts[over], self.points.mass[over]
        gain = counts @ theta / counts.sum() - logsumexp(theta, b=mass / mass.sum())
        return replace(told, gain=math.nan, unregularized_gain=float(gain))

    def _place(self) -> Array:
        """The rows that a density is over: those of presences, else all."""
        parts = [
            np.arange(where.start, where.stop)
            for where, used in zip(self.slices, self.in_place, strict=True)
            if used
        ]
        return np.concatenate(parts)


def _hessian(problem: Problem, used: Array, w: Array) -> Array:
    """That of the losses in some weights."""
    part = problem.restrict(used, Quadratic(1.0))
    return np.asarray(part.state(w[used]).evaluation.hessian())


def _stacked(
    sources: Sequence[Source], entries: Sequence[Entries], recipe: Recipe
) -> tuple[Schema, Cells]:
    """The cells of all entries, by one schema whose levels are those of all sources."""
    check_common([source.name for source in sources], [columns_of(s.X) for s in sources])
    schemas = [Schema.from_table(source.X, recipe.categorical) for source in sources]
    categorical = {name for schema in schemas for name in schema.categorical}
    if any(set(schema.categorical) != categorical for schema in schemas):
        schemas = [Schema.from_table(source.X, categorical) for source in sources]
    schema = schemas[0]
    levels = []
    for name in schema.categorical:
        of = [dict(zip(s.categorical, s.levels, strict=True))[name] for s in schemas]
        whole = of[0] if all(o == of[0] for o in of) else tuple(sorted({v for o in of for v in o}))
        levels.append(whole)
    schema = Schema(schema.names, schema.categorical, tuple(levels))
    parts = [schema.read(s.X).take(e.row) for s, e in zip(sources, entries, strict=True)]
    kind = np.result_type(*(part.values.dtype for part in parts))
    values = np.concatenate([part.values for part in parts], axis=1, dtype=kind)
    return schema, Cells(values, np.concatenate([part.codes for part in parts], axis=1))
