"""BlockPoints: the cells of a density in blocks, where they stay; the records alone come together.

A fit is the in-memory one: the same features, penalties, problem and steps. The rows are read three
times before it: for counts and records, for ranges, levels and values, and to keep each block's
cells as the bins of the features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxent.core.entropies import Entropy
from maxent.core.potentials import Potential
from maxent.core.problem import Problem
from maxent.core.solvers.base import Solution
from maxent.density.evidence import RecordWeights
from maxent.density.intervals import check_method
from maxent.density.link import DensityLink
from maxent.density.model import Certificate, FittedDensity
from maxent.density.origin import Origin
from maxent.density.points import CountFacts, Points, Table, check_ranges
from maxent.density.sums import DensitySums
from maxent.density.task import DensityTask
from maxent.features import Cells, FeatureClass, Operator, OperatorMap, Schema, bind, part_of
from maxent.features.cells import is_frame
from maxent.features.summary import TableSummary, fit_from_summary, summary_options
from maxent.rows.arrays import Array
from maxent.rows.blocks import Blocks, CellBlock, CellBlockMap, InBlocks
from maxent.rows.blocks.table import BlockTable, Part
from maxent.rows.blocks.weights import SparseWeights


class Counted(NamedTuple):
    """What a first pass tells: facts of the counts, masses, and the rows with records.

    Records without weight are among them: folds count them too.
    """

    facts: CountFacts
    default: float
    prior: tuple[float, float]
    records: dict[int, Table]  # by the number of their block

    def all_records(self) -> Table:
        """The rows with records, in their order."""
        return stacked([self.records[number] for number in sorted(self.records)])

    def merge(self, other: Counted) -> Counted:
        """Of two parts."""
        (low, high), (least, most) = self.prior, other.prior
        return Counted(
            self.facts.merge(other.facts),
            self.default + other.default,
            (min(low, least), max(high, most)),
            self.records | other.records,
        )


class Reading(NamedTuple):
    """Which rows of the parts of a table are read, and how: missing values, rows left out.

    ``without`` has the rows of some blocks, by the block's number, that are to have no weight.
    """

    missing: str = "error"
    without: dict[int, Array] = {}  # noqa: RUF012 (never written to)

    def checked_rows(self, part: Part) -> Table:
        """The checked rows of a part."""
        columns = {"sample_weight": None, "prior": None} | part.columns
        table = Table.from_rows(
            part.X, columns["y"], columns["sample_weight"], columns["prior"], self.missing
        )
        if part.number not in self.without:
            return table
        weight = np.where(np.isin(table.rows, self.without[part.number]), 0.0, table.weight)
        return table._replace(weight=weight)


def _counted(part: Part, rows: Reading) -> Counted | None:
    table = rows.checked_rows(part)
    if not len(table.y):
        return None
    default = table.weight * table.prior
    prior = table.prior[default > 0]
    records = table.take(np.flatnonzero(table.y > 0))
    Schema.from_table(records.X).read(records.X)  # what is wrong with a record shows in its block
    return Counted(
        CountFacts.from_table(table),
        float(default.sum()),
        (float(prior.min(initial=np.inf)), float(prior.max(initial=-np.inf))),
        {part.number: records} if records.y.size else {},
    )


def _summarised(
    part: Part, rows: Reading, categorical: Sequence[Any], wanted: dict[str, bool]
) -> TableSummary:
    table = rows.checked_rows(part)
    weight = np.where(table.prior > 0, table.weight, 0.0)
    return TableSummary.from_rows(table.X, categorical, weight, **wanted)


@dataclass(eq=False)
class PointBlock:
    """The points of one block."""

    number: int
    cells: Cells
    counts: Array
    mass: Array
    prior: Array

    @classmethod
    def from_part(cls, part: Part, rows: Reading, schema: Schema) -> PointBlock:
        """The points with mass under the default density."""
        table = rows.checked_rows(part)
        cells, counts = schema.read(table.X), table.y * table.weight
        used = table.weight * table.prior > 0
        if not used.all():
            cells, counts = cells.take(used), counts[used]
        return cls(
            part.number, cells, counts, _short(table.weight[used]), _short(table.prior[used])
        )

    def bound(self, operators: Sequence[Operator], default: float, presences: float) -> CellBlock:
        """Features bound to the cells; ``default`` and ``presences`` are the sums over all."""
        occupied = np.flatnonzero(self.counts)
        return CellBlock(
            self.number,
            bind(operators, self.cells),
            _short(self.mass * self.prior / default),
            occupied,
            self.counts[occupied] / presences,
            self.mass,
        )


def _short(values: Array) -> Array:
    """The same numbers; where all are equal they take no memory."""
    if values.size and (values == values[0]).all():
        return np.broadcast_to(values[0], values.shape)
    return values


def _density_sums(
    block: CellBlock, weights: SparseWeights, link: DensityLink
) -> DensitySums | None:
    if not block.default.size:
        return None
    return DensitySums.from_points(block.scores(weights), link, block.mass)


@dataclass(frozen=True, eq=False)
class SummarisedPoints:
    """What is small of points in blocks.

    ``records`` are the points with occurrences, in the order of the rows; ``summary`` is of all.
    """

    records: Points
    summary: TableSummary

    @property
    def schema(self) -> Schema:
        """Columns and levels."""
        return self.summary.schema

    @property
    def constant(self) -> list[str]:
        """Columns that tell nothing, as they have one value."""
        return self.summary.constant

    @property
    def n_cells(self) -> int:
        """Number of points, however often each counts."""
        return self.summary.n_rows

    @property
    def n_presences(self) -> float:
        """m, the number of occurrences."""
        return self.records.n_presences

    @property
    def record_weights(self) -> RecordWeights:
        """The weights of the occurrences."""
        return self.records.record_weights

    def operators(self, classes: Sequence[FeatureClass]) -> list[Operator]:
        """The features of these classes; those of an in-memory fit."""
        return fit_from_summary(classes, self.summary, self.records.cells)


@dataclass(frozen=True, eq=False)
class BlockPoints(SummarisedPoints):
    """Points in blocks; what is small of them is here.

    ``blocks`` hold :class:`PointBlock`; ``default`` is the mass of all under the default density.
    """

    blocks: Blocks
    default: float
    biased: bool
    merged: bool = False

    @classmethod
    def from_table(
        cls,
        table: BlockTable,
        classes: Callable[[Points], Sequence[FeatureClass]],
        categorical: Iterable[Any] = (),
        rows: Reading | None = None,
    ) -> BlockPoints:
        """The points of a table in blocks with a column y.

        ``classes`` says which features will be fitted, from what is known of the records.
        """
        return cls.looked_at(
            table, lambda known: summary_options(classes(known)), categorical, rows
        )

    @classmethod
    def looked_at(
        cls,
        table: BlockTable,
        wanted: Callable[[Points], dict[str, bool]],
        categorical: Iterable[Any] = (),
        rows: Reading | None = None,
    ) -> BlockPoints:
        """The points of a table in blocks with a column y.

        ``wanted`` says what ``TableSummary.from_rows`` is to look at, from what is known of the
        records.
        """
        table.names()
        rows = rows or Reading()
        counted = count_rows(table, rows)
        first = counted.all_records()
        first = first.take(first.weight * first.prior > 0)
        known = Points.of_records(first, Schema.from_table(first.X, categorical))
        summary = table.blocks.reduce(
            _summarised, rows, tuple(categorical), wanted(known), merge=TableSummary.merge
        )
        check_ranges(summary.schema, *summary.ranges)
        records = Points.of_records(first, summary.schema)
        blocks = table.blocks.map(PointBlock.from_part, rows, summary.schema)
        low, high = counted.prior
        return cls(records, summary, blocks, counted.default, low != high)

    def features(self, operators: Sequence[Operator]) -> CellBlockMap:
        """The map of the operators, bound to the cells where they are."""
        at_records = bind(operators, self.records.cells)
        blocks = self.blocks.map("bound", list(operators), self.default, self.n_presences)
        return CellBlockMap(blocks, at_records.n_features, self.n_cells, at_records)


@dataclass(frozen=True, eq=False)
class BlockDensityTask(DensityTask):
    """A density over points in blocks, to be fitted; see ``DensityTask``."""

    points: Any
    features: Any

    @cached_property
    def at_records(self) -> tuple[OperatorMap, Array]:
        """The features at the records, and the share of each."""
        records = self.points.records
        return bind(self.operators, records.cells), records.observed

    def _problem(self, features: Any, potential: Potential) -> Problem:
        return Problem(self.entropy, features, potential, observed=InBlocks())

    def with_intervals(
        self, density: FittedDensity, w: Array, method: str, **settings: Any
    ) -> FittedDensity:
        """Refuses all but "none": curvature and refits are over points in memory."""
        check_method(method)
        if method != "none":
            raise ValueError(
                f"intervals={method!r} are of tables in memory: fit without, and take "
                "DensityTask.with_laplace of a sample of the rows"
            )
        return density

    def _fitted(
        self, problem: Problem, solution: Solution, beta: Array, origin: Origin
    ) -> FittedDensity:
        return fitted_in_blocks(
            self.points, self.posed.operators, beta, problem, solution, origin, self.prevalence
        )


def fitted_in_blocks(
    points: BlockPoints,
    operators: Sequence[Operator],
    beta: Array,
    problem: Problem,
    solution: Solution,
    origin: Origin,
    prevalence: float,
    family_gap: float | None = None,
) -> FittedDensity:
    """The density of a solution, as ``FittedDensity.from_solution``, over points in blocks."""
    features, entropy = problem.features, problem.entropy
    link = _link(entropy, *features.threshold(entropy, solution.w))
    sums = features.blocks.reduce(
        _density_sums, features.sparse(solution.w), link, merge=DensitySums.merge
    )
    used = np.flatnonzero(solution.w)
    return FittedDensity.from_sums(
        sums,
        points.summary,
        link,
        operators=tuple(part_of(operators, used)),
        weights=solution.w[used],
        beta=beta[used],
        entropy=entropy,
        n_features=features.n_features,
        origin=origin,
        certificate=Certificate.from_solution(problem, solution, family_gap),
        prevalence=prevalence,
        n_presences=points.n_presences,
        biased=points.biased,
        merged=points.merged,
        evidence=points.record_weights.evidence(),
    )


def _link(entropy: Entropy, tau: float, top: float) -> DensityLink:
    """exp(theta - top), or [1 + (alpha - 1)(theta - tau)]^(1/(alpha - 1))."""
    power = entropy.link_power
    assert power is not None
    return DensityLink(power, tau - 1 / power, power) if power else DensityLink(0.0, top)


def count_rows(table: BlockTable, rows: Reading) -> Counted:
    """Masses and records of a table in blocks; an error where no density can be fitted to it."""
    counted: Counted | None = table.blocks.reduce(_counted, rows, merge=Counted.merge)
    if counted is None:
        raise ValueError("X has no row that could be used: every block is empty")
    counted.facts.check()
    return counted


def stacked(tables: Sequence[Table]) -> Table:
    """The rows of several tables, one below the other."""
    X: Any
    if is_frame(tables[0].X):
        import pandas as pd

        X = pd.concat([table.X for table in tables], ignore_index=True)
    else:
        X = np.concatenate([table.X for table in tables])
    columns = (np.concatenate(parts) for parts in zip(*(t[1:5] for t in tables), strict=True))
    y, weight, prior, rows = columns
    return Table(X, y, weight, prior, rows, True)
