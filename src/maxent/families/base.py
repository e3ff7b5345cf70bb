"""Feature families of growing complexity, searched greedily (structural paper, §2 and §4).

A ``Family`` is a union of sets H_1, H_2 ... of features; on the cells of a fit it gives a
``Search``, which proposes the best feature it finds in each H_k for signed weights of the cells.
A family of your own needs ``complexity`` and ``search``, and its search needs ``propose``. What no
feature exceeds, found or not, is the search's ``ceiling``: certificates rest on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from maxent import io
from maxent.features.base import Bound, FeatureRows, Operator, part_of, variables_used
from maxent.features.cells import Cells, Schema
from maxent.rows.arrays import Array


class Proposal(NamedTuple):
    """A feature phi of H_k with values in [0, 1].

    ``operator`` holds this one feature, ``level`` is k, ``value`` is sum_i r_i phi(x_i).
    """

    operator: Operator
    level: int
    value: float


class Ceiling(NamedTuple):
    """What no feature of a family exceeds: at_most[k - 1] >= |sum_i r_i phi(x_i)|, all phi in H_k.

    ``proposals`` are features that the proof came across, among them the best where it is exact.
    """

    at_most: Array
    proposals: Sequence[Proposal] = ()


def mass_ceiling(r: Array) -> float:
    """max(sum_i [r_i]_+, sum_i [-r_i]_+), which no feature with values in [0, 1] exceeds.

    >>> mass_ceiling(np.array([0.5, -0.25, 0.25]))
    0.75
    """
    return of_sums(float(np.abs(r).sum()), float(np.sum(r)))


def of_sums(size: float, total: float) -> float:
    """The larger of the sums of positive and of negative parts, from sum |r_i| and sum r_i."""
    return (size + abs(total)) / 2


class Family(ABC):
    """A union of sets `H_1`, `H_2` ... of features with values in [0, 1].

    See docs/extending.md for one of your own.
    """

    letter: ClassVar[str]  # what ``Operator.kinds`` calls its features

    @property
    def max_level(self) -> int:
        """The k of the largest `H_k`: what a bound over all sets counts; 1 for a single set."""
        return 1

    @abstractmethod
    def complexity(self, level: int, d: int, m: int) -> float:
        """`B_k >= R_m(H_k)`: a bound on the Rademacher complexity for d raw features, m records."""

    def complexity_of(self, level: int, schema: Schema, m: int) -> float:
        """`B_k` for the columns of a table: by default d are its continuous ones and all levels."""
        return self.complexity(level, schema.n_raw, m)

    @abstractmethod
    def search(self, cells: Cells, schema: Schema) -> Search:
        """The family on given cells, ready to propose."""


class Search(ABC):
    """A family on given cells.

    ``exhaustive``: ``propose`` goes through every feature, so that what it finds are the best.
    """

    exhaustive: ClassVar[bool] = False

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    @abstractmethod
    def propose(self, r: Array) -> list[Proposal]:
        """The best feature found in each H_k, lowest k first: the one with the largest |value|.

        Greedy from level to level (structural paper, §4); a level is left out where nothing new
        is found. ``r`` (cells,) is any signed weight, such as p - observed.
        """

    def largest(self, r: Array) -> list[Proposal]:
        """As ``propose``, with the largest value in place of the largest |value|.

        What a Rademacher complexity asks for. By default what is proposed, whatever its sign.
        """
        return self.propose(r)

    def refine(self, r: Array, prices: Array, chosen: Sequence[Operator]) -> list[Proposal]:
        """Features of any H_k that ``propose`` may miss, for a good |value| - prices[k - 1].

        Asked where nothing that was proposed violates optimality; may take many times as long.
        ``chosen`` are features in use, to start from. By default none.
        """
        return []

    def ceiling(self, r: Array, prices: Array, budget: float) -> Ceiling:
        """What no feature of H_1, H_2 ..., one for each of ``prices``, exceeds.

        By default what is found where the search is ``exhaustive``, and else the larger of the sums
        of positive and of negative parts of r, as features lie in [0, 1]. A family that knows more
        proves it with about ``budget`` visits of cells at most; up to prices[k - 1] it is close
        enough, as features below their price violate nothing.
        """
        most = np.full(len(prices), mass_ceiling(r))
        if not self.exhaustive:
            return Ceiling(most)
        proposals = self.propose(r)
        most[:] = 0.0
        for found in proposals:
            most[found.level - 1] = abs(found.value)
        return Ceiling(most, proposals)

    def terms(self) -> Terms:
        """A place for chosen features of this family on the cells, empty at first."""
        return ListedTerms(self.cells)


class Terms(Bound):
    """Chosen features on given cells; the only bound that grows."""

    @abstractmethod
    def append(self, operator: Operator) -> None:
        """Take in the one feature of a proposal, as the last."""

    @abstractmethod
    def operator(self) -> Operator | None:
        """All features taken in, as one operator; None without any."""


@dataclass(frozen=True, eq=False)
class FunctionFeatures(Operator):
    """Features given by functions of the cells with values in [0, 1], by name.

    The quick way to a family of your own. Functions are not data, so such a model cannot be
    saved; write an ``Operator`` for that.
    """

    functions: dict[str, Callable[[Cells], Array]]
    letter: str

    @property
    def n_features(self) -> int:
        """Number of functions."""
        return len(self.functions)

    def names(self) -> list[str]:
        """The keys."""
        return list(self.functions)

    def kinds(self) -> Array:
        """The letter of the family."""
        return np.full(self.n_features, self.letter)

    def restrict(self, index: Array) -> FunctionFeatures:
        """Some of the functions."""
        names = self.names()
        return FunctionFeatures({names[j]: self.functions[names[j]] for j in index}, self.letter)

    def bind(self, cells: Cells, clamp: bool = False) -> FeatureRows:
        """The functions at every cell, held within [0, 1]."""
        rows = [np.clip(f(cells), 0.0, 1.0) for f in self.functions.values()]
        return FeatureRows(np.array(rows, dtype=np.float64).reshape(len(rows), cells.n_cells))


@io.register
@dataclass(frozen=True, eq=False)
class Several(Operator):
    """Operators one after the other, as one."""

    operators: tuple[Operator, ...]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return sum(o.n_features for o in self.operators)

    def names(self) -> list[str]:
        """Those of the operators."""
        return [name for o in self.operators for name in o.names()]

    def kinds(self) -> Array:
        """Those of the operators."""
        return np.concatenate([o.kinds() for o in self.operators])

    def matches(self, schema: Schema) -> bool:
        """Those of the operators."""
        return all(operator.matches(schema) for operator in self.operators)

    def uses_columns(self, names: Sequence[str]) -> Array:
        """Those of the operators."""
        return variables_used(self.operators, names)

    def restrict(self, index: Array) -> Several:
        """Some of the features."""
        return Several(tuple(part_of(self.operators, index)))

    def bind(self, cells: Cells, clamp: bool = False) -> ListedTerms:
        """All operators on given cells."""
        return ListedTerms(cells, self.operators, [o.bind(cells, clamp) for o in self.operators])


class ListedTerms(Terms):
    """Features of any kind, each by its own bound: what a family of your own gets for nothing."""

    def __init__(
        self, cells: Cells, operators: Sequence[Operator] = (), parts: Sequence[Bound] = ()
    ) -> None:
        self.cells, self._operators, self._parts = cells, list(operators), list(parts)
        self.n_features = sum(part.n_features for part in parts)

    def append(self, operator: Operator) -> None:
        """Bind it and keep it."""
        self._operators.append(operator)
        self._parts.append(operator.bind(self.cells))
        self.n_features += operator.n_features

    def operator(self) -> Operator | None:
        """All as one."""
        return Several(tuple(self._operators)) if self._operators else None

    def _slices(self) -> list[tuple[Bound, slice]]:
        cuts = np.cumsum([0, *(part.n_features for part in self._parts)])
        return [(p, slice(cuts[i], cuts[i + 1])) for i, p in enumerate(self._parts)]

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += sum_j w_j f_j."""
        for part, where in self._slices():
            if w[where].any():
                part.add_scores(w[where], theta)

    def moments(self, p: Array) -> Array:
        """sum_i p_i f_j(i)."""
        return np.concatenate([np.empty(0), *(part.moments(p) for part in self._parts)])

    def squares(self, p: Array) -> Array:
        """sum_i p_i f_j(i)^2."""
        return np.concatenate([np.empty(0), *(part.squares(p) for part in self._parts)])

    def restrict(self, index: Array) -> ListedTerms:
        """Some of the features."""
        operators, parts = [], []
        for operator, (part, where) in zip(self._operators, self._slices(), strict=True):
            mine = index[(index >= where.start) & (index < where.stop)] - where.start
            if mine.size:
                operators.append(operator.restrict(mine))
                parts.append(part.restrict(mine))
        return ListedTerms(self.cells, operators, parts)

    def take(self, cells: Array) -> ListedTerms:
        """The same features on some of the cells."""
        parts = [part.take(cells) for part in self._parts]
        return ListedTerms(self.cells.take(cells), self._operators, parts)

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """out[j, i] = root_i f_j(i)."""
        for part, where in self._slices():
            part.write(root, start, stop, out[where])


def empirical_complexity(
    search: Search, counts: Array, level: int, draws: int = 20, seed: int = 0
) -> float:
    """R_m(H_k) of the records, E_sigma sup_phi (1/m) sum_i sigma_i phi(x_i), by simulation.

    ``counts`` are records per cell, sigma fair signs of the records, each drawn with its opposite;
    the supremum is over levels up to k, and that of the greedy search, so from level 2 on this is
    an estimate from below.
    """
    counts = np.asarray(counts, dtype=np.int64)
    m, rng = int(counts.sum()), np.random.default_rng(seed)
    best = []
    for _ in range((draws + 1) // 2):
        signs = 2 * rng.binomial(counts, 0.5) - counts
        for r in (signs / m, -signs / m):
            values = [p.value for p in search.largest(r) if p.level <= level]
            best.append(max(values, default=0.0))
    return max(float(np.mean(best)), 0.0)
