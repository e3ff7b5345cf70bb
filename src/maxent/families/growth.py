"""Growth: a density over cells whose features come in one by one (structural paper, §2.4, §4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxent.core.entropies import Relative
from maxent.core.potentials import Box
from maxent.core.problem import Problem, State
from maxent.core.solvers import steps
from maxent.families.base import Ceiling, Family, Proposal, Search
from maxent.features.base import Operator, OperatorMap
from maxent.rows.arrays import Array

RULES = ("corrective", *steps.RULES)
RANGE = (0.0, 1.0)  # of every feature


class Candidate(NamedTuple):
    """A proposal of a family with its penalty and by how much it violates optimality."""

    family: int
    proposal: Proposal
    beta: float
    violation: float


class Proof(NamedTuple):
    """What no feature of the families exceeds, found or not.

    ``at_most`` and ``prices`` have an array for each family, one number a level; ``found`` are
    the features that the proof came across, worst violation first.
    """

    at_most: list[Array]
    prices: list[Array]
    found: list[Candidate]

    @property
    def violation(self) -> float:
        """By how much any feature violates optimality at most."""
        pairs = zip(self.at_most, self.prices, strict=True)
        return max(0.0, *(float(np.max(most - price)) for most, price in pairs))

    def described(
        self, families: Sequence[Family], found: Sequence[Candidate]
    ) -> list[dict[str, Any]]:
        """A dict for every family and level: beta, the largest |value| found, and the bound."""
        rows = []
        for f, (family, most, prices) in enumerate(
            zip(families, self.at_most, self.prices, strict=True)
        ):
            for level, (bound, beta) in enumerate(zip(most, prices, strict=True), start=1):
                mine = (c.proposal for c in found if c.family == f)
                values = [abs(p.value) for p in mine if p.level == level]
                rows.append(
                    {
                        "family": type(family).__name__,
                        "level": level,
                        "beta": float(beta),
                        "found": max(values, default=0.0),
                        "bound": float(bound),
                    }
                )
        return rows

    @property
    def gauge(self) -> float:
        """The largest |value| / beta_k that any feature can have."""
        pairs = zip(self.at_most, self.prices, strict=True)
        return max(
            _ratio(float(value), float(beta))
            for most, price in pairs
            for value, beta in zip(most, price, strict=True)
        )


@dataclass(eq=False)
class _Chosen:
    """The chosen features of one family."""

    levels: list[int] = field(default_factory=list)
    beta: list[float] = field(default_factory=list)
    w: list[float] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)  # by name


class DensityGrowth(ABC):
    """Chosen features with their weights, and the density they make.

    ``penalty(family, level)`` is beta_k, ``max_levels`` the largest k of each family and ``prices``
    the beta_k of its levels. Features are numbered family by family.
    """

    def __init__(self, max_levels: Sequence[int], penalty: Callable[[int, int], float]) -> None:
        self.penalty = penalty
        self.prices = [
            np.array([penalty(family, level) for level in range(1, most + 1)])
            for family, most in enumerate(max_levels)
        ]
        self._chosen = [_Chosen() for _ in max_levels]

    # -- what there is -------------------------------------------------------------------------

    def _gathered(self, name: str) -> Array:
        return np.concatenate([np.array(getattr(c, name), dtype=np.float64) for c in self._chosen])

    @property
    def w(self) -> Array:
        """Weights of all features."""
        return self._gathered("w")

    @property
    def beta(self) -> Array:
        """Penalties of all features."""
        return self._gathered("beta")

    @property
    def levels(self) -> Array:
        """k of each feature."""
        return self._gathered("levels").astype(np.intp)

    @property
    def family(self) -> Array:
        """Which family each feature is of."""
        return np.repeat(np.arange(len(self._chosen)), [len(c.w) for c in self._chosen])

    @abstractmethod
    def operators(self) -> list[Operator]:
        """One for each family with features."""

    def names(self) -> list[str]:
        """Of all features."""
        return [name for operator in self.operators() for name in operator.names()]

    @abstractmethod
    def problem(self) -> Problem:
        """The convex problem of the chosen features."""

    @abstractmethod
    def state(self) -> State:
        """The problem at the weights."""

    @abstractmethod
    def objective(self) -> float:
        """What the problem minimises, at the weights; also without a feature."""

    @abstractmethod
    def proposals(self) -> list[list[Proposal]]:
        """What each family proposes for the cell weights r = p - observed."""

    @abstractmethod
    def refinements(self) -> list[list[Proposal]]:
        """What the longer search of each family finds for these weights."""

    @abstractmethod
    def ceilings(self, budget: float) -> list[Ceiling]:
        """What no feature of each family exceeds with these weights."""

    @abstractmethod
    def _operator(self, family: int) -> Operator | None:
        """The chosen features of a family."""

    def _in_use(self, family: int) -> list[Operator]:
        """Those of a family with a weight, as longer searches start from them."""
        operator, used = self._operator(family), np.flatnonzero(self._chosen[family].w)
        return [] if operator is None or not used.size else [operator.restrict(used)]

    # -- how it grows --------------------------------------------------------------------------

    def candidates(self) -> list[Candidate]:
        """What the families propose for cell weights r = p - observed, worst violation first."""
        return self._priced(self.proposals())

    def refined(self) -> list[Candidate]:
        """What longer searches of the families find, worst violation first."""
        return self._priced(self.refinements())

    def _priced(self, proposed: Sequence[Sequence[Proposal]]) -> list[Candidate]:
        candidates = []
        for family, proposals in enumerate(proposed):
            for proposal in proposals:
                beta = self.penalty(family, proposal.level)
                candidates.append(Candidate(family, proposal, beta, abs(proposal.value) - beta))
        return sorted(candidates, key=lambda c: -c.violation)

    def proof(self, budget: float) -> Proof:
        """What no feature of any family exceeds, with ``budget`` visits of cells for each."""
        ceilings = self.ceilings(budget)
        return Proof(
            [np.asarray(ceiling.at_most, dtype=np.float64) for ceiling in ceilings],
            self.prices,
            self._priced([ceiling.proposals for ceiling in ceilings]),
        )

    def add(self, candidate: Candidate) -> int:
        """Take a feature in with weight 0, unless it is there; its number."""
        chosen, operator = self._chosen[candidate.family], candidate.proposal.operator
        (name,) = operator.names()
        if name not in chosen.index:
            self._append(candidate.family, operator)
            chosen.index[name] = len(chosen.w)
            chosen.levels.append(candidate.proposal.level)
            chosen.beta.append(candidate.beta)
            chosen.w.append(0.0)
        before = sum(len(c.w) for c in self._chosen[: candidate.family])
        return before + chosen.index[name]

    @abstractmethod
    def _append(self, family: int, operator: Operator) -> None:
        """Keep a new feature of a family, as its last."""

    def set_weights(self, w: Array) -> None:
        """Replace all weights."""
        start = 0
        for chosen in self._chosen:
            stop = start + len(chosen.w)
            chosen.w, start = w[start:stop].tolist(), stop


class CellGrowth(DensityGrowth):
    """A density over cells in memory."""

    def __init__(
        self,
        searches: Sequence[Search],
        max_levels: Sequence[int],
        penalty: Callable[[int, int], float],
        entropy: Relative,
        observed: Array,
    ) -> None:
        super().__init__(max_levels, penalty)
        self.searches, self.entropy, self.observed = list(searches), entropy, observed
        self.terms = [search.terms() for search in searches]
        self._move(np.zeros(observed.size))

    def _move(self, theta: Array) -> None:
        """To other scores, with their Omega* and density."""
        value, p = self.entropy.conjugate(theta)
        self.theta, self._conjugate, self.p = theta, float(np.asarray(value)), np.asarray(p)

    def operators(self) -> list[Operator]:
        """One for each family with features."""
        return [o for o in (terms.operator() for terms in self.terms) if o is not None]

    def features(self) -> OperatorMap:
        """The feature map of what was chosen."""
        parts = [terms for terms in self.terms if terms.n_features]
        return OperatorMap(parts, self.observed.size)

    def problem(self) -> Problem:
        """The convex problem of the chosen features."""
        return Problem(self.entropy, self.features(), Box(self.beta), observed=self.observed)

    def state(self) -> State:
        """The problem at the weights."""
        return self.problem().state(self.w, self.theta)

    def objective(self) -> float:
        """Omega*(theta) - <observed, theta> + sum_j beta_j |w_j|."""
        penalty = float(self.beta @ np.abs(self.w))
        return self._conjugate - float(self.observed @ self.theta) + penalty

    def proposals(self) -> list[list[Proposal]]:
        """Of the searches."""
        r = self.p - self.observed
        return [search.propose(r) for search in self.searches]

    def refinements(self) -> list[list[Proposal]]:
        """Of the searches."""
        r = self.p - self.observed
        return [
            search.refine(r, self.prices[family], self._in_use(family))
            for family, search in enumerate(self.searches)
        ]

    def ceilings(self, budget: float) -> list[Ceiling]:
        """Of the searches."""
        r = self.p - self.observed
        pairs = zip(self.searches, self.prices, strict=True)
        return [search.ceiling(r, prices, budget) for search, prices in pairs]

    def _operator(self, family: int) -> Operator | None:
        return self.terms[family].operator()

    def _append(self, family: int, operator: Operator) -> None:
        self.terms[family].append(operator)

    def set_weights(self, w: Array, theta: Array | None = None) -> None:
        """Replace all weights; ``theta`` are the scores at them, where known."""
        super().set_weights(w)
        self._move(self.features().scores(w) if theta is None else theta)

    def violations(self) -> Array:
        """d of the steps of Fig. 1 and 2 along each feature."""
        return steps.violation(self.w, self.features().moments(self.p - self.observed), self.beta)

    def column(self, j: int) -> Array:
        """A feature at every cell."""
        out = np.empty((1, self.observed.size))
        one = self.features().restrict(np.array([j]))
        one.parts[0].write(np.ones(self.observed.size), 0, self.observed.size, out)
        return out[0]

    def descend(self, j: int, rule: steps.StepRule, within: tuple[float, float] = RANGE) -> None:
        """One step of coordinate descent along feature j (§2.4.2), for features in a range."""
        w, column = self.w, self.column(j)
        at = steps.Coordinate(
            w=float(w[j]),
            beta=float(self.beta[j]),
            p_mean=float(self.p @ column),
            s_mean=float(self.observed @ column),
            low=within[0],
            high=within[1],
        )
        step = rule(lambda: repr(self.names()[j]), column, self.p, at)
        w[j] += step
        self.set_weights(w, self.theta + step * column)


def family_gap(state: State, gauge: float) -> float:
    """The duality gap with every feature of the families in the problem, those not chosen at 0.

    ``gauge`` is at least every |value| / beta_k. p_s = s p + (1 - s) p~, 1/s = gauge, has
    |E_ps[phi] - E_S[phi]| <= beta_k for all features phi: it is feasible with all of them.
    """
    chosen = state.problem.potential.gauge(state.gradient)
    if gauge <= max(chosen, 1.0):
        return state.gap
    return state.mixture_gap(1 / gauge) if np.isfinite(gauge) else np.inf


def _ratio(value: float, beta: float) -> float:
    return value / beta if beta > 0 else np.inf if value > 0 else 0.0
