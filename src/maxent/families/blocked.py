"""Growth over cells in blocks: each move of a search, and each evaluation, is one pass over them.

A block may be lost with its worker and made again elsewhere, so that every call brings all that it
rests on: the features chosen, the weights, the moves of the search so far. What a block worked out
for the last call is kept and gone on from where the next one follows on from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import add
from typing import Any, NamedTuple

import numpy as np

from maxent.core.entropies import Entropy
from maxent.core.potentials import Box
from maxent.core.problem import Problem, State
from maxent.families.base import Ceiling, Proposal, Terms
from maxent.families.growth import DensityGrowth
from maxent.families.plans import Ask, Plan, Walk, Walked
from maxent.features import Cells, Operator, OperatorMap
from maxent.rows.arrays import Array
from maxent.rows.blocks import Blocks, CellBlock, CellBlockMap, InBlocks
from maxent.rows.blocks.engine import Merge, Work, call
from maxent.rows.blocks.row_laws import RowLaw, law_of
from maxent.rows.blocks.weights import SparseWeights


class Chosen(NamedTuple):
    """The features of each family: their names, by which they are told apart, and operator."""

    names: tuple[tuple[str, ...], ...]
    operators: tuple[Operator | None, ...]


class Residual(NamedTuple):
    """What makes the cell weights r = p - observed: the features, their weights, law and tau."""

    chosen: Chosen
    law: RowLaw
    weights: SparseWeights
    tau: float

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells two of them apart."""
        return self.chosen.names, self.law, self.weights.key, self.tau


class _Place(NamedTuple):
    """How far the last search of a block has come: of what, by which moves, with what answer."""

    key: tuple[Any, ...]
    moves: tuple[Any, ...]
    walk: Walk
    answer: Array


@dataclass(eq=False)
class GrowthBlock:
    """The cells of one block, the plans of all families on them, and the features chosen so far."""

    bare: CellBlock
    cells: Cells
    plans: Sequence[Plan]
    searched: list[Walked] = field(repr=False)
    _terms: list[Terms] = field(default_factory=list, repr=False)
    _names: tuple[tuple[str, ...], ...] = ()
    _grown: CellBlock | None = field(default=None, repr=False)
    _place: _Place | None = field(default=None, repr=False)

    @classmethod
    def from_points(
        cls, block: Any, plans: Sequence[Plan], default: float, presences: float
    ) -> GrowthBlock:
        """Of a ``PointBlock``; see ``PointBlock.bound``."""
        searched = [plan.bind(block.cells) for plan in plans]
        return cls(block.bound([], default, presences), block.cells, plans, searched)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_terms": [], "_names": (), "_grown": None, "_place": None}

    def grown(self, chosen: Chosen) -> CellBlock:
        """The cells with these features."""
        if self._grown is None or self._names != chosen.names:
            known, self._names = self._names, ()  # an interrupted change is made anew
            self._grown = self._place = None
            if not known:
                known = ((),) * len(self.plans)
                self._terms = [plan.terms(self.cells) for plan in self.plans]
            for family, names in enumerate(chosen.names):
                self._extend(family, known[family], names, chosen.operators[family])
            parts = [terms for terms in self._terms if terms.n_features]
            features = OperatorMap(parts, self.cells.n_cells)
            self._grown, self._names = replace(self.bare, features=features, _last={}), chosen.names
        return self._grown

    def _extend(
        self, family: int, known: tuple[str, ...], names: tuple[str, ...], operator: Operator | None
    ) -> None:
        """Append what is new of a family; begin anew where it is no longer what it was."""
        if names[: len(known)] != known:
            known, self._terms[family] = (), self.plans[family].terms(self.cells)
        if len(names) > len(known):
            assert operator is not None
            self._terms[family].append(operator.restrict(np.arange(len(known), len(names))))

    def answer(self, residual: Residual, family: int, moves: tuple[Any, ...]) -> Array | None:
        """The sums that a family's search has after these moves, with weights p - observed."""
        if not self.bare.default.size:
            return None
        key = (*residual.key, family)
        place, self._place = self._place, None
        if place is None or place.key != key or place.moves != moves[: len(place.moves)]:
            cells = self.grown(residual.chosen)
            r = cells.residual(residual.law, residual.weights, residual.tau)
            walk = self.searched[family].walk(r)
            place = _Place(key, (), walk, walk.first())
        for move in moves[len(place.moves) :]:
            answer = place.walk.step(move)
            place = place._replace(moves=(*place.moves, move), answer=answer)
        self._place = place
        return place.answer


def _with_features(block: GrowthBlock, chosen: Chosen, work: Work, args: Sequence[Any]) -> Any:
    grown = block.grown(chosen)
    return call(grown, grown.number, work, args)


class GrownBlocks(Blocks):
    """The blocks with chosen features, each a ``CellBlock`` where it is."""

    def __init__(self, blocks: Blocks, chosen: Chosen) -> None:
        self._blocks, self._chosen = blocks, chosen

    def __len__(self) -> int:
        return len(self._blocks)

    def reduce(self, work: Work, *args: Any, merge: Merge, ordered: bool = False) -> Any:
        """One pass; the features travel with the question."""
        question = _with_features, self._chosen, work, args
        return self._blocks.reduce(*question, merge=merge, ordered=ordered)

    def map(self, work: Work, *args: Any) -> Blocks:
        """The blocks work(block, *args)."""
        return self._blocks.map(_with_features, self._chosen, work, args)

    def apply(self, function: Callable[..., Any], others: Sequence[Any]) -> Blocks:
        """The blocks function(block, other)."""
        return self.map(replace).apply(function, others)


class BlockGrowth(DensityGrowth):
    """A density over cells in blocks, which hold ``GrowthBlock``."""

    def __init__(
        self,
        blocks: Blocks,
        n_cells: int,
        plans: Sequence[Plan],
        max_levels: Sequence[int],
        penalty: Callable[[int, int], float],
        entropy: Entropy,
    ) -> None:
        super().__init__(max_levels, penalty)
        self._blocks, self._n_cells, self._plans = blocks, n_cells, plans
        self.entropy = entropy
        self._now = Chosen(((),) * len(plans), (None,) * len(plans))
        self._features = self._mapped()
        self._posed: Problem | None = None

    def _mapped(self) -> CellBlockMap:
        count = sum(map(len, self._now.names))
        return CellBlockMap(GrownBlocks(self._blocks, self._now), count, self._n_cells)

    def operators(self) -> list[Operator]:
        """One for each family with features."""
        return [operator for operator in self._now.operators if operator is not None]

    def _append(self, family: int, operator: Operator) -> None:
        names, operators = list(self._now.names), list(self._now.operators)
        mine = operators[family]
        both = operator if mine is None else mine.join(operator)
        assert both is not None
        names[family], operators[family] = (*names[family], *operator.names()), both
        self._now = Chosen(tuple(names), tuple(operators))
        self._features, self._posed = self._mapped(), None

    def problem(self) -> Problem:
        """The convex problem of the chosen features."""
        if self._posed is None:
            self._posed = Problem(self.entropy, self._features, Box(self.beta), observed=InBlocks())
        return self._posed

    def state(self) -> State:
        """The problem at the weights."""
        return self.problem().state(self.w)

    def objective(self) -> float:
        """Omega*(F'w) - <w, mu> + sum_j beta_j |w_j|."""
        conjugate, w = self._features.conjugate(self.entropy, self.w), self.w
        if not w.size:
            return conjugate
        return conjugate - float(w @ self.problem().target) + float(self.beta @ np.abs(w))

    def proposals(self) -> list[list[Proposal]]:
        """One pass over the blocks for each move of each family's search."""
        return [plan.propose(sums) for plan, sums in self._sums()]

    def refinements(self) -> list[list[Proposal]]:
        """Many passes over the blocks."""
        return [
            plan.refine(sums, self.prices[family], self._in_use(family))
            for family, (plan, sums) in enumerate(self._sums())
        ]

    def ceilings(self, budget: float) -> list[Ceiling]:
        """From passes over the blocks."""
        pairs = zip(self._sums(), self.prices, strict=True)
        known = [plan.ceiling(sums, prices, budget) for (plan, sums), prices in pairs]
        # p and the observed distribution differ by 1 at most on any set of cells
        most = [Ceiling(np.ones(len(prices))) for prices in self.prices]
        return [m if k is None else k for k, m in zip(known, most, strict=True)]

    def _operator(self, family: int) -> Operator | None:
        return self._now.operators[family]

    def _sums(self) -> Iterator[tuple[Plan, Any]]:
        """Each plan with its sums over the blocks for the cell weights r = p - observed."""
        tau, _ = self._features.threshold(self.entropy, self.w)
        weights = self._features.sparse(self.w)
        residual = Residual(self._now, law_of(self.entropy), weights, tau)

        def asked(family: int) -> Ask:
            return lambda moves: self._blocks.reduce("answer", residual, family, moves, merge=add)

        for family, plan in enumerate(self._plans):
            yield plan, plan.over_blocks(asked(family))
