"""BlockSourcesTask: several sources whose rows stay where they are, fitted as one problem.

The rows of each source are read three times before the first step: for what there is to check and
for the records, for ranges, levels and values, and to keep each block's cells as the bins of the
features. A fit is the one in memory: the same features, penalties, problem and steps.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxent.core.entropies import (
    Detection,
    Entropy,
    OverdispersedCounts,
    Shannon,
    UnnormalisedRelativeEntropy,
)
from maxent.core.problem import Problem
from maxent.core.solvers.base import Solution
from maxent.density.blocked import SummarisedPoints, stacked
from maxent.density.link import DensityLink
from maxent.density.model import Certificate
from maxent.density.origin import Offered
from maxent.density.points import Points, Table, check_ranges
from maxent.density.recipe import Recipe
from maxent.density.regularization import spread
from maxent.density.sources.facts import SourceFacts, checked, telling
from maxent.density.sources.intensity import FittedIntensity, density_of_sums
from maxent.density.sources.posed import Column, Posed, PosedSources, check_recipe
from maxent.density.sources.source import Entries, Source, check_common
from maxent.density.sums import DensitySums
from maxent.features import Operator, OperatorMap, Schema, bind, part_of
from maxent.features.base import FeatureRows
from maxent.features.cells import missing_rows, take_rows
from maxent.features.summary import TableSummary, summary_options
from maxent.rows.arrays import Array
from maxent.rows.blocks import (
    BlockMap,
    CellBlock,
    CellBlockMap,
    InBlocks,
    MemoryBlocks,
    SampleBlock,
    SampleBlockMap,
)
from maxent.rows.blocks.table import BlockTable, Part, block_table
from maxent.rows.blocks.terms import Term, TermsBlockMap
from maxent.rows.blocks.weights import SparseWeights
from maxent.rows.merging import merged

_ROWS = ("y", "area", "visits")  # what belongs to the rows beside efforts
_DRAWN = 1_000  # rows of a block at least that a sampled Hessian is made of


class PartOfSource(Source):
    """The rows of one block, which may be background alone."""

    def _check_contrast(self) -> None:
        pass


class SourceReader(NamedTuple):
    """How the parts of a source's table become rows of it.

    ``settings`` are fields of ``Source`` that are one for all rows, ``columns`` the order of the
    columns, None where they have no names.
    """

    settings: dict[str, Any]
    columns: tuple[str, ...] | None
    missing: str

    def read(self, part: Part) -> Source | None:
        """The checked rows of a part; None where there is none."""
        if not part.n_rows():
            return None
        X, given = self.ordered(part.X), dict(part.columns)
        rows = {name: given.pop(name) for name in _ROWS if name in given}
        source: Source = PartOfSource(X=X, effort=given or None, **(self.settings | rows))
        if self.missing == "drop":
            lost = missing_rows(source.X)
            if lost.all():
                return None
            source = source.take(np.flatnonzero(~lost)) if lost.any() else source
        return source

    def ordered(self, X: Any) -> Any:
        """A table with its columns in the order of the first source."""
        if self.columns is None or tuple(map(str, X.columns)) == self.columns:
            return X
        place = {str(name): name for name in X.columns}
        return X[[place[name] for name in self.columns]]


class Counted(NamedTuple):
    """What a first pass tells of a source: its facts, and the rows with records of each block."""

    facts: SourceFacts
    records: dict[int, Table]

    def merge(self, other: Counted) -> Counted:
        """Of the rows of both."""
        return Counted(self.facts.merge(other.facts), self.records | other.records)

    def all_records(self) -> list[Table]:
        """The rows with records, in their order."""
        return [self.records[number] for number in sorted(self.records)]


def _counted(part: Part, reader: SourceReader) -> Counted | None:
    source = reader.read(part)
    if source is None:
        return None
    entries = source.entries()
    records = source.found(entries)
    kept = np.flatnonzero(records)
    ones = np.ones(kept.size)
    prior = entries.area[kept] if source.kind == "presences" else ones
    X = take_rows(source.X, entries.row[kept])
    Schema.from_table(X).read(X)  # what is wrong with a record shows in its block
    table = Table(X, records[kept], ones, prior, kept, True)
    return Counted(SourceFacts.of(source), {part.number: table} if kept.size else {})


def _summarised(
    part: Part, reader: SourceReader, categorical: Sequence[Any], wanted: dict[str, bool]
) -> TableSummary | None:
    source = reader.read(part)
    if source is None:
        return None
    row = source.entries().row
    X = source.X if row.size == source.n_rows else take_rows(source.X, row)
    return TableSummary.from_rows(X, categorical, **wanted)


@dataclass(frozen=True, eq=False)
class Binding:
    """What the blocks of a source are bound to: features, further columns, and sums of all rows."""

    reader: SourceReader
    operators: list[Operator]
    schema: Schema
    columns: list[Column]
    twice: bool  # whether the source adds a function of its own to the intensity
    rate: float
    area: float  # of presences: the sum of all areas
    finds: float

    def features(self, source: Source, entries: Entries) -> OperatorMap:
        """The features at the entries of a source."""
        cells = self.schema.read(source.X)
        bound = bind(self.operators, cells.take(entries.row)).parts
        parts = [*bound, *bound] if self.twice else list(bound)
        if self.columns:
            parts.append(FeatureRows(np.array([c.at(source, entries) for c in self.columns])))
        return OperatorMap(parts, entries.row.size)

    def _no_features(self) -> OperatorMap:
        """The features at no cells."""
        n_features = sum(operator.n_features for operator in self.operators)
        rows = np.empty((n_features * (1 + self.twice) + len(self.columns), 0))
        return OperatorMap([FeatureRows(rows)], 0)

    def cells(self, part: Part) -> CellBlock:
        """A block of presences and their background."""
        source = self.reader.read(part)
        if source is None:
            none, nowhere = np.empty(0), np.empty(0, np.intp)
            return CellBlock(part.number, self._no_features(), none, nowhere, none, none)
        entries = source.entries()
        occupied = np.flatnonzero(entries.y)
        return CellBlock(
            part.number,
            self.features(source, entries),
            entries.area / self.area,
            occupied,
            entries.y[occupied] / self.finds,
            np.ones(entries.y.size),
        )

    def records(self, part: Part) -> RecordBlock:
        """A block of a survey or of counts."""
        source = self.reader.read(part)
        if source is None:
            return RecordBlock(part.number, Shannon(), None, None, np.empty(0))
        entries = source.entries()
        entropy = source.entropy(entries, self.rate)
        return RecordBlock(part.number, entropy, self.features(source, entries), None, entries.y)


class ReadSource(NamedTuple):
    """The rows of a source where they are, how they are read, and what was read of them.

    ``place`` is the summary of all, ``records`` are those with records.
    """

    table: BlockTable
    reader: SourceReader
    facts: SourceFacts
    place: TableSummary
    records: Points


class RecordBlock(SampleBlock):
    """The records of a survey or of counts, which are one row of an entropy of their own."""

    def hessian(self, weights: SparseWeights, wanted: Array | None, every: int) -> Array | None:
        """F J F' of these records, from a sample of them that is not too small."""
        return super().hessian(weights, wanted, max(min(every, self.observed.size // _DRAWN), 1))


@dataclass(frozen=True, eq=False)
class BlockSourcesTask(PosedSources):
    """One intensity of several sources with rows in blocks, to be fitted; see ``SourcesTask``.

    Parameters
    ----------
    sources : sequence of Source
        The sources.
    recipe : Recipe
        Features, potential and solver.
    read : tuple of ReadSource
        What was read of each.
    points : SummarisedPoints
        What is small of the rows of all sources.
    operators : sequence of Operator
        All features to choose from.
    """

    sources: tuple[Source, ...]
    recipe: Recipe
    read: tuple[ReadSource, ...]
    points: SummarisedPoints
    operators: Sequence[Operator]

    @classmethod
    def of(cls, sources: Sequence[Source], recipe: Recipe | None = None) -> BlockSourcesTask:
        """The task of sources; one that cannot tell anything is left out with a warning."""
        recipe = Recipe() if recipe is None else recipe
        check_recipe(recipe)
        given = checked(sources)
        tables = [_table(source) for source in given]
        names = [table.names() for table in tables]
        check_common([source.name for source in given], names)
        order = None if isinstance(names[0], int) else names[0]
        readers = [SourceReader(_settings(source), order, recipe.missing) for source in given]
        counted = [
            _some(source, table.blocks.reduce(_counted, reader, merge=Counted.merge))
            for source, table, reader in zip(given, tables, readers, strict=True)
        ]
        for source, known in zip(given, counted, strict=True):
            known.facts.check(source)
        told = telling(given, [known.facts for known in counted])
        rows = [stacked(found) if (found := counted[k].all_records()) else None for k in told]
        first = stacked([table for table in rows if table is not None])
        at_first = Points.of_records(first, Schema.from_table(first.X, recipe.categorical))
        wanted = summary_options(recipe.classes(at_first))
        summaries = [
            tables[k].blocks.reduce(
                _summarised, readers[k], tuple(recipe.categorical), wanted, merge=TableSummary.merge
            )
            for k in told
        ]
        whole = merged(summaries, TableSummary.merge)
        assert whole is not None
        check_ranges(whole.schema, *whole.ranges)
        points = SummarisedPoints(Points.of_records(first, whole.schema), whole)
        operators = recipe.operators(points)
        for note in recipe.notes(points):
            warnings.warn(note, stacklevel=3)
        none = first.take(np.empty(0, np.intp))
        read = [
            ReadSource(
                tables[k],
                readers[k],
                counted[k].facts,
                summary.with_schema(whole.schema),
                Points.of_records(none if records is None else records, whole.schema),
            )
            for k, summary, records in zip(told, summaries, rows, strict=True)
        ]
        return cls(tuple(given[k] for k in told), recipe, tuple(read), points, operators)

    @property
    def facts(self) -> tuple[SourceFacts, ...]:
        """What is known of the rows of each source."""
        return tuple(read.facts for read in self.read)

    @property
    def n_records(self) -> float:
        """m, the records of all sources, by which the loss is divided."""
        return self.points.n_presences

    # -- the problem ---------------------------------------------------------------------------

    @cached_property
    def posed(self) -> Posed:
        """The convex problem of the features that the rule leaves in."""
        m, records = self.n_records, self.points.records
        at_records = bind(self.operators, records.cells)
        chosen = self._chosen(self.operators, *spread(at_records, records.observed, m), m)
        columns, rates = self._columns(), self._rates()
        features = self._features(chosen.operators, chosen.kept.size, columns, rates)
        problem = Problem(
            features.entropy,
            features,
            self._potential(chosen.potential, chosen.kept.size, columns, m),
            observed=InBlocks(),
        )
        return Posed(chosen.kept, chosen.operators, chosen.beta, columns, rates, problem)

    def _features(
        self, operators: list[Operator], size: int, columns: list[Column], rates: list[float]
    ) -> TermsBlockMap:
        own = np.cumsum([size, *(size if source.deviation else 0 for source in self.sources)])
        total, terms = int(own[-1]) + len(columns), []
        low, high = np.zeros(total), np.ones(total)
        for k, (source, facts) in enumerate(zip(self.sources, self.facts, strict=True)):
            seen = [j for j, column in enumerate(columns) if column.is_of(k, source)]
            index = [np.arange(size)]
            if source.deviation:
                index.append(np.arange(own[k], own[k + 1]))
            index.append(own[-1] + np.array(seen, dtype=np.intp))
            binding = Binding(
                self.read[k].reader,
                operators,
                self.points.schema,
                [columns[j] for j in seen],
                bool(source.deviation),
                rates[k],
                facts.searched,
                facts.finds,
            )
            terms.append(self._term(k, binding, np.concatenate(index)))
            for j in seen:
                if not columns[j].is_scale:
                    effort, column = facts.efforts[columns[j].name], columns[j]
                    place = own[-1] + j
                    low[place] = min((effort.low - column.mean) / column.spread, 0.0)
                    high[place] = max((effort.high - column.mean) / column.spread, 0.0)
        records = bind(operators, self.points.records.cells)
        further = FeatureRows(np.empty((total - size, 0)))  # no near copies among them
        return TermsBlockMap(
            terms, (low, high), OperatorMap([*records.parts, further], records.n_cells)
        )

    def _term(self, k: int, binding: Binding, index: Array) -> Term:
        source, (table, _, facts, place, _) = self.sources[k], self.read[k]
        blocks, n_rows, m = table.blocks, place.n_rows, self.n_records
        rows: BlockMap
        if source.kind == "presences":
            rows = CellBlockMap(blocks.map(binding.cells), index.size, n_rows)
            return Term(rows, Shannon(), source.weight * facts.finds / m, index)
        rows = SampleBlockMap(blocks.map(binding.records), index.size, n_rows)
        return Term(rows, _kind(source, facts), source.weight / m, index)

    # -- fitting -------------------------------------------------------------------------------

    def check_intervals(self, method: str) -> None:
        """Refuses all but "none": curvature and refits are of rows in memory."""
        super().check_intervals(method)
        if method != "none":
            raise ValueError(
                f"intervals={method!r} are of tables in memory: fit without, and take those of a "
                "sample of the rows"
            )

    def deviances(self, w: Array) -> list[float]:
        """That of each source at the weights of the problem."""
        features: TermsBlockMap = self.problem.features
        return [
            2 * (self.facts[k].finds if source.kind == "presences" else 1.0) * gap
            for k, (source, gap) in enumerate(
                zip(self.sources, features.mixture_gaps(w, 0.0), strict=True)
            )
        ]

    def intensity(self, solution: Solution) -> FittedIntensity:
        """The intensity of a solution of the problem."""
        posed, parts, features = self.posed, self.parts_of(solution.w), self.problem.features
        w = parts.features
        used, over = np.flatnonzero(w), np.flatnonzero(self.in_place)
        there = [self._at_features(features.terms[k], w) for k in over]
        top = max(rows.blocks.reduce(_top, weights, merge=max) for rows, weights in there)
        link = DensityLink(0.0, float(top))
        sums = merged(
            (
                rows.blocks.reduce(_density_sums, weights, link, merge=DensitySums.merge)
                for rows, weights in there
            ),
            DensitySums.merge,
        )
        place = merged((self.read[k].place for k in over), TableSummary.merge)
        assert sums is not None
        assert place is not None
        efforts = [self.facts[k] for k in over if self.sources[k].kind == "presences"]
        areas = {area for facts in efforts for area in (facts.low, facts.high)}
        gain = -(sums.log_total + link.shift - math.log(place.n_points))
        counts = sum(self.read[k].records.n_presences for k in over)
        for k in over:
            records = self.read[k].records
            theta = bind(part_of(posed.operators, used), records.cells).scores(w[used])
            gain += float(records.counts @ theta) / counts
        known = {
            "operators": tuple(part_of(posed.operators, used)),
            "weights": w[used],
            "beta": posed.beta[used],
            "n_features": w.size,
            "origin": Offered.from_operators(self.operators, self.points.schema),
            "certificate": self._certificate(solution, gain),
            "prevalence": self.recipe.prevalence,
            "n_presences": counts,
            "biased": len(areas) > 1,
        }
        density = density_of_sums(sums, place, link, known)
        return FittedIntensity(density, parts.log_scale, self._fits(solution.w, parts))

    @staticmethod
    def _at_features(term: Term, w: Array) -> tuple[BlockMap, SparseWeights]:
        """The rows of a term, and the weights of the intensity alone as they see them."""
        whole = np.zeros(term.rows.n_features)
        whole[: w.size] = w
        return term.rows, term.rows.sparse(whole)

    def _certificate(self, solution: Solution, gain: float) -> Certificate:
        told = Certificate.from_solution(self.problem, solution)
        if len(self.sources) == 1 and self.sources[0].kind == "presences":
            return told
        return replace(told, gain=math.nan, unregularized_gain=gain)


def _density_sums(
    block: CellBlock | SampleBlock, weights: SparseWeights, link: DensityLink
) -> DensitySums | None:
    theta = _scores(block, weights)
    return DensitySums.from_points(theta, link, np.ones(theta.size)) if theta.size else None


def _top(block: CellBlock | SampleBlock, weights: SparseWeights) -> float | None:
    theta = _scores(block, weights)
    return float(theta.max()) if theta.size else None


def _scores(block: Any, weights: SparseWeights) -> Array:
    features = block.features
    if features is None or not features.n_cells:
        return np.empty(0)
    return np.asarray(features.scores(weights.full()))


def _kind(source: Source, facts: SourceFacts) -> Entropy:
    """What is known of the entropy of a survey or counts without their rows."""
    if source.kind == "survey":
        return Detection([1.0])
    if np.isfinite(source.size):
        return OverdispersedCounts([facts.largest], float(source.size))
    return UnnormalisedRelativeEntropy(np.ones(1))


def _some(source: Source, counted: Counted | None) -> Counted:
    if counted is None:
        raise ValueError(
            f"source {source.name!r} has no row that could be used: every block is empty"
        )
    return counted


def _settings(source: Source) -> dict[str, Any]:
    """The fields that are one for all rows."""
    names = ("kind", "name", "size", "weight", "deviation", "own_scale", "area", "visits")
    return {name: x for name in names if np.ndim(x := getattr(source, name)) == 0}


def _table(source: Source) -> BlockTable:
    """The rows of a source with all that belongs to them."""
    given = {name: getattr(source, name) for name in _ROWS}
    rows = {name: x for name, x in given.items() if x is not None and np.ndim(x) > 0}
    efforts = source.named_efforts()
    taken = sorted({*efforts} & {*_ROWS})
    if taken:
        raise ValueError(
            f"source {source.name!r}: an effort cannot be called {taken[0]!r} where rows are in "
            "blocks: give it another name"
        )
    columns = rows | efforts
    if not source.in_blocks:
        return BlockTable(MemoryBlocks([Part(0, source.X, columns)]), tuple(columns))
    table = block_table(source.X, **columns)
    if "y" not in table.columns:
        raise ValueError(f"source {source.name!r} has no y: give a number for each row of X")
    return table
