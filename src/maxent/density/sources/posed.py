"""What tasks of several sources share: their weights, what each of them means, and the solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxent.core import potentials
from maxent.core.entropies import Shannon
from maxent.core.potentials import Families, Potential, Quadratic
from maxent.core.problem import Problem
from maxent.core.solvers.base import Solution
from maxent.density.intervals import check_method
from maxent.density.origin import kinds_of
from maxent.density.recipe import Recipe
from maxent.density.sources.facts import SourceFacts
from maxent.density.sources.intensity import FittedIntensity, SourceFit
from maxent.density.sources.source import Entries, Source
from maxent.features import Operator, part_of
from maxent.rows.arrays import Array

_SCALE_STRENGTH = 1e-6  # of the square of a log scale, so that a finite gap is there to certify
_EFFORT_VARIANCE = 10.0  # of the weight of an effort column in standard deviations


@dataclass(frozen=True, eq=False)
class Column:
    """A column that is no feature of the cells: an effort of one source, or a scale of some."""

    name: str
    source: int | None  # whose effort or scale it is; None: the scale that sources share
    mean: float = 0.0
    spread: float = 1.0
    is_scale: bool = False

    def is_of(self, number: int, source: Source) -> bool:
        """Whether it is not 0 for the source of this number."""
        return source.knows_scale if self.source is None else self.source == number

    def at(self, source: Source, entries: Entries) -> Array:
        """Its values at the entries of a source that it is of."""
        if self.is_scale:
            return np.ones(entries.row.size)
        return np.asarray((source.effort[self.name] - self.mean) / self.spread)[entries.row]


class Parts(NamedTuple):
    """Weights of the features left in, of the intensity and of what each source adds to it.

    Further the log scale, and effort and offset of each source.
    """

    features: Array
    deviations: list[Array | None]
    log_scale: float | None
    efforts: list[dict[str, float]]
    offsets: list[float]


class Chosen(NamedTuple):
    """The features that a rule leaves in, their penalties, and the potential of their weights."""

    kept: Array
    operators: list[Operator]
    beta: Array
    potential: Potential


@dataclass(frozen=True, eq=False)
class Posed:
    """The problem of a task: which features are left in, their penalties, the further columns."""

    chosen: Array
    operators: list[Operator]
    beta: Array
    columns: list[Column]
    rates: list[float]
    problem: Problem


class PosedSources(ABC):
    """The task of several sources, wherever their rows are."""

    sources: tuple[Source, ...]
    recipe: Recipe

    @property
    @abstractmethod
    def facts(self) -> tuple[SourceFacts, ...]:
        """What is known of the rows of each source."""

    @property
    @abstractmethod
    def posed(self) -> Posed:
        """The convex problem of the features that the rule leaves in."""

    @abstractmethod
    def deviances(self, w: Array) -> list[float]:
        """That of each source at the weights of the problem."""

    @abstractmethod
    def intensity(self, solution: Solution) -> FittedIntensity:
        """The intensity of a solution of the problem."""

    @property
    def problem(self) -> Problem:
        """What ``fit`` solves."""
        return self.posed.problem

    @property
    def is_absolute(self) -> bool:
        """Whether a source tells the scale."""
        return any(source.knows_scale for source in self.sources)

    @property
    def in_place(self) -> list[bool]:
        """Of which sources the rows are what a density is over: of presences, else of all."""
        kinds = [source.kind == "presences" for source in self.sources]
        return kinds if any(kinds) else [True] * len(kinds)

    # -- fitting -------------------------------------------------------------------------------

    def solve(self, w0: Array | None = None, **settings: Any) -> Solution:
        """The solution, quiet: its status says whether the tolerance was met."""
        return self.problem.run(self.recipe.solver, w0, **(self._settings() | settings))

    def fit(self, intervals: str = "none", **settings: Any) -> FittedIntensity:
        """The intensity, warning where the tolerance was missed.

        ``intervals`` : "none", "laplace" or "bootstrap"; ``settings`` are those of ``with_refits``.
        """
        self.check_intervals(intervals)
        solution = self.problem.solve(self.recipe.solver, **self._settings())
        return self.with_intervals(self.intensity(solution), solution.w, intervals, **settings)

    def check_intervals(self, method: str) -> None:
        """Refuse intervals that this task cannot give, before anything is solved."""
        check_method(method)

    def with_intervals(
        self, intensity: FittedIntensity, w: Array, method: str, **settings: Any
    ) -> FittedIntensity:
        """The intensity with what its intervals are made of."""
        return intensity

    def _settings(self) -> dict[str, Any]:
        recipe = self.recipe
        return {"tol": recipe.tol, "verbose": recipe.verbose, "checkpoint": recipe.checkpoint}

    # -- the weights ---------------------------------------------------------------------------

    def _chosen(
        self, operators: Sequence[Operator], mean: Array, spread: Array, m: float
    ) -> Chosen:
        """The features left in, by their means and deviations over the m records."""
        recipe = self.recipe
        beta, off = recipe.rule()(kinds_of(operators), mean, spread, m)
        index = np.flatnonzero(~off)
        if not index.size:
            raise ValueError(f"no feature of {recipe.features!r} varies over the {m:g} records")
        left, beta = part_of(operators, index), beta[index]
        own = potentials.scaled(recipe.potential_of(beta, kinds_of(left)), recipe.multiplier)
        return Chosen(index, left, beta, own)

    def _potential(self, own: Potential, size: int, columns: Sequence[Column], m: float) -> Any:
        """That of features, of what sources add to the intensity, and of further columns."""
        parts, sizes = [own], [size]
        for source in self.sources:
            if source.deviation:
                parts.append(potentials.scaled(own, 1 / source.deviation))
                sizes.append(size)
        if columns:
            strength = [
                _SCALE_STRENGTH if column.is_scale else 1 / (_EFFORT_VARIANCE * m)
                for column in columns
            ]
            parts.append(Quadratic(np.array(strength)))
            sizes.append(len(columns))
        return Families(parts, sizes) if len(sizes) > 1 else own

    def _rates(self) -> list[float]:
        """Finds per area of each source: of those that share a scale, of all together."""
        known = list(zip(self.sources, self.facts, strict=True))
        sharing = [facts for source, facts in known if source.knows_scale]
        finds = sum(facts.finds for facts in sharing) + 0.5
        shared = finds / sum(facts.searched for facts in sharing) if sharing else 1.0
        return [facts.rate if source.own_scale else shared for source, facts in known]

    def _columns(self) -> list[Column]:
        """Efforts in standard deviations, then scales."""
        columns = []
        for k, (source, facts) in enumerate(zip(self.sources, self.facts, strict=True)):
            for name, effort in facts.efforts.items():
                if not effort.is_constant:  # else a warning has told of it
                    columns.append(Column(name, k, effort.mean, effort.deviation or 1.0))
            if source.own_scale:
                columns.append(Column("scale", k, is_scale=True))
        if self.is_absolute:
            columns.append(Column("scale", None, is_scale=True))
        return columns

    def parts_of(self, w: Array) -> Parts:
        """The weights of the problem by what they mean."""
        posed, size = self.posed, self.posed.chosen.size
        deviations: list[Array | None] = []
        start = size
        for source in self.sources:
            deviations.append(w[start : start + size] if source.deviation else None)
            start += size if source.deviation else 0
        efforts: list[dict[str, float]] = [{} for _ in self.sources]
        offsets, log_scale = [0.0 for _ in self.sources], None
        for column, value in zip(posed.columns, w[start:].tolist(), strict=True):
            k = column.source
            if k is None:
                shared = next(i for i, s in enumerate(self.sources) if s.knows_scale)
                log_scale = value + float(np.log(posed.rates[shared]))
            elif column.is_scale:
                offsets[k] += value + float(np.log(posed.rates[k]))
            else:
                efforts[k][column.name] = value / column.spread
                offsets[k] -= value / column.spread * column.mean
        return Parts(w[:size], deviations, log_scale, efforts, offsets)

    def _fits(self, w: Array, parts: Parts) -> tuple[SourceFit, ...]:
        """What there is to say of each source at the weights of the problem."""
        fits = []
        for k, (source, facts, deviance) in enumerate(
            zip(self.sources, self.facts, self.deviances(w), strict=True)
        ):
            own = parts.deviations[k]
            turned = np.empty(0, np.intp) if own is None else np.flatnonzero(own)
            fits.append(
                SourceFit(
                    name=source.name,
                    kind=source.kind,
                    n_rows=facts.n_rows,
                    n_records=facts.n_records,
                    weight=source.weight,
                    own_scale=source.own_scale,
                    deviance=deviance,
                    effort=parts.efforts[k],
                    offset=parts.offsets[k],
                    operators=tuple(part_of(self.posed.operators, turned)),
                    weights=np.empty(0) if own is None else own[turned],
                )
            )
        return tuple(fits)


def check_recipe(recipe: Recipe) -> None:
    """Refuse what sources cannot share."""
    if recipe.chosen_entropy() != Shannon():
        raise ValueError(
            f"several kinds of records share an intensity exp(<w, f>), which is Shannon's "
            f"entropy, got {recipe.entropy!r}"
        )
    if recipe.chosen_preset().merge:
        raise ValueError(f"preset={recipe.preset!r} makes one point of equal rows: use None")
