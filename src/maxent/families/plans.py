"""Plans: families that search cells by sums over them alone, so also cells that lie in blocks.

A ``Plan`` is a family on a table: ranges, thresholds and knots, and no cell. Its search makes moves
(a factor more, a leaf split), each of which asks for sums over the cells with signed weights r. A
``Walk`` answers for cells in memory; of cells in blocks each block has a walk, and answers add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from maxent.families.base import Ceiling, Family, Proposal, Search, Terms
from maxent.features.base import Operator
from maxent.features.cells import Cells, Schema
from maxent.features.summary import TableSummary
from maxent.rows.arrays import Array

Ask = Callable[[tuple[Any, ...]], Array]  # the answer after these moves, summed over the blocks


class Walk(ABC):
    """The sums of a search over given cells with weights r; it changes with every move."""

    @abstractmethod
    def first(self) -> Array:
        """The answer before any move."""

    @abstractmethod
    def step(self, move: Any) -> Array:
        """Make a move, a plain value; the answer after it. Answers of several cells add up."""


class Walked(Protocol):
    """A plan on given cells."""

    def walk(self, r: Array) -> Walk:
        """The sums over the cells with weights r, which the walk may change."""


class Plan(ABC):
    """A family on a table, and how it searches."""

    @abstractmethod
    def bind(self, cells: Cells) -> Walked:
        """What answers for given cells."""

    @abstractmethod
    def over_blocks(self, ask: Ask) -> Any:
        """The sums over cells in blocks, as ``propose`` takes them: those of a walk elsewhere."""

    @abstractmethod
    def propose(self, sums: Any) -> list[Proposal]:
        """The best feature found in each H_k, from sums over the cells; see ``Search.propose``."""

    def largest(self, sums: Any) -> list[Proposal]:
        """Those with the largest value; see ``Search.largest``."""
        return self.propose(sums)

    def refine(self, sums: Any, prices: Array, chosen: Sequence[Operator]) -> list[Proposal]:
        """Features that ``propose`` may miss; see ``Search.refine``."""
        return []

    def ceiling(self, sums: Any, prices: Array, budget: float) -> Ceiling | None:
        """What no feature exceeds, where it is known; see ``Search.ceiling``."""
        return None

    @abstractmethod
    def terms(self, cells: Cells) -> Terms:
        """A place for chosen features on given cells."""


class View(ABC):
    """What a plan is made from: v is the number of a continuous column."""

    schema: Schema

    @property
    @abstractmethod
    def length(self) -> int:
        """How many values of each column there are to go through."""

    @property
    @abstractmethod
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous column."""

    @abstractmethod
    def counted(self, v: int) -> tuple[Array, Array]:
        """The distinct values of a column, increasing, and how many cells have each."""

    @abstractmethod
    def quantiles(self, v: int, shares: Array) -> Array:
        """The values of a column at these shares of the cells, each of the nearest rank."""

    @abstractmethod
    def everywhere(self) -> Array:
        """Which levels, of one categorical column after the other, all cells have."""


@dataclass(frozen=True, eq=False)
class CellView(View):
    """All cells in one place."""

    cells: Cells
    schema: Schema

    @property
    def length(self) -> int:
        """Number of cells."""
        return self.cells.n_cells

    @property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous column."""
        return self.cells.ranges()

    def counted(self, v: int) -> tuple[Array, Array]:
        """Distinct values and their counts."""
        return np.unique(self.cells.values[v], return_counts=True)

    def quantiles(self, v: int, shares: Array) -> Array:
        """Values of the cells."""
        return np.quantile(self.cells.values[v], shares, method="nearest")

    def everywhere(self) -> Array:
        """Levels that all cells have."""
        pairs = zip(self.cells.codes, self.schema.levels, strict=True)
        counts = (
            np.bincount(code[code >= 0], minlength=len(levels)) == self.length
            for code, levels in pairs
        )
        return np.concatenate([np.empty(0, dtype=bool), *counts])


@dataclass(frozen=True, eq=False)
class SummaryView(View):
    """A table that was never in one place; the same as all cells as far as its sketches are exact.

    Beyond, ranks are off by at most ``TableSummary.rank_error``, as a share of the rows.
    """

    summary: TableSummary

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """Columns and levels."""
        return self.summary.schema

    @property
    def length(self) -> int:
        """Number of values in a sketch."""
        return max((sketch.values.size for sketch in self.summary.values or ()), default=0)

    @property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous column."""
        return self.summary.ranges

    def counted(self, v: int) -> tuple[Array, Array]:
        """Those of the sketch."""
        assert self.summary.values is not None
        sketch = self.summary.values[v]
        return sketch.values, sketch.mass

    def quantiles(self, v: int, shares: Array) -> Array:
        """Values of the sketch."""
        values, counts = self.counted(v)
        upto = np.cumsum(counts)
        ranks = np.around((upto[-1] - 1) * shares)
        return np.asarray(values[np.searchsorted(upto, ranks, side="right")])

    def everywhere(self) -> Array:
        """The level of each column with one level that has mass."""
        alone = [(mass > 0) & (np.count_nonzero(mass) == 1) for mass in self.summary.level_mass]
        return np.concatenate([np.empty(0, dtype=bool), *alone])


class PlannedFamily(Family):
    """A family that has plans: it writes ``plan`` in place of ``search``."""

    looks_at: ClassVar[frozenset[str]] = frozenset()  # "values": see TableSummary

    @abstractmethod
    def plan(self, view: View) -> Plan:
        """The family on the table of this view."""

    def search(self, cells: Cells, schema: Schema) -> PlannedSearch:
        """The family on given cells, ready to propose."""
        return PlannedSearch(self.plan(CellView(cells, schema)), cells)


def planned(family: Family) -> PlannedFamily:
    """The family, which can search cells in blocks; an error where it cannot."""
    if isinstance(family, PlannedFamily) and type(family).search is PlannedFamily.search:
        return family
    raise TypeError(
        f"{type(family).__name__} searches all cells at once, and these are in blocks: derive it "
        "from maxent.families.plans.PlannedFamily and write plan instead of search, leave it out, "
        "or fit a sample in memory"
    )


class PlannedSearch(Search):
    """A plan on cells in memory."""

    def __init__(self, plan: Plan, cells: Cells) -> None:
        super().__init__(cells)
        self.plan = plan
        self._bound = plan.bind(cells)

    def _walk(self, r: Array) -> Walk:
        r = np.array(r, dtype=np.float64)
        if r.shape != (self.cells.n_cells,):
            raise ValueError(
                f"r has shape {r.shape}, expected ({self.cells.n_cells},): one weight per cell"
            )
        return self._bound.walk(r)

    def propose(self, r: Array) -> list[Proposal]:
        """What the plan proposes."""
        return self.plan.propose(self._walk(r))

    def largest(self, r: Array) -> list[Proposal]:
        """What the plan finds with the largest value."""
        return self.plan.largest(self._walk(r))

    def refine(self, r: Array, prices: Array, chosen: Sequence[Operator]) -> list[Proposal]:
        """What the plan finds beyond what it proposes."""
        return self.plan.refine(self._walk(r), prices, chosen)

    def ceiling(self, r: Array, prices: Array, budget: float) -> Ceiling:
        """What the plan knows, or the default."""
        known = self.plan.ceiling(self._walk(r), prices, budget)
        return super().ceiling(r, prices, budget) if known is None else known

    def terms(self) -> Terms:
        """A place for chosen features."""
        return self.plan.terms(self.cells)
