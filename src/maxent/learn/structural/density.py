"""StructMaxent: a density with features grown from families of any complexity (Cortes et al.)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from maxent import io
from maxent._support.checks import positive
from maxent._support.progress import Progress
from maxent._support.threads import one_blas_thread
from maxent.core.entropies import Relative, Shannon
from maxent.core.potentials import Box
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solution, Status
from maxent.core.solvers.steps import StepRule
from maxent.density import FittedDensity, FromFamilies, Points
from maxent.density.blocked import BlockPoints, Reading, fitted_in_blocks
from maxent.density.evidence import RecordWeights
from maxent.density.link import required_power
from maxent.density.recipe import named_entropy
from maxent.families import Family, Monomials, Search, Trees, empirical_complexity
from maxent.families.blocked import BlockGrowth, GrowthBlock
from maxent.families.growth import (
    RANGE,
    RULES,
    Candidate,
    CellGrowth,
    DensityGrowth,
    Proof,
    family_gap,
)
from maxent.families.plans import SummaryView, planned
from maxent.features import Schema, bind
from maxent.features.cells import not_used
from maxent.learn.delegated import Delegated
from maxent.learn.density.base import COLUMNS, DensityEstimator
from maxent.learn.structural.base import (
    FEWEST,
    LEAST_CHANGE,
    PROOF_BUDGET,
    OfLevel,
    bound_complexity,
    check_not_negative,
    check_rule,
    check_searches,
    listed_families,
    price,
)
from maxent.rows.arrays import Array
from maxent.rows.blocks import BlocksLost, InBlocks
from maxent.rows.blocks.row_laws import law_of
from maxent.rows.blocks.table import is_blocked
from maxent.typing import ArrayLike, EntropyLike, TableLike

_LOOSE = 1e-6  # duality gap of the solves on the way, and the least violation that counts
_PROOFS = 2  # bounds that are looked into for features which searches miss; each takes seconds


def origin_of(
    families: Sequence[Family], family: Array, level: Array, schema: Schema, records: RecordWeights
) -> FromFamilies:
    """The complexity B_k of every feature in use, for the columns of a table and its records."""

    @cache
    def complexity(f: int, k: int) -> float:
        return records.complexity(partial(families[f].complexity_of, k, schema))

    pairs = zip(family, level, strict=True)
    return FromFamilies(
        families=tuple(type(one).__name__ for one in families),
        n_sets=sum(one.max_level for one in families),
        family=np.asarray(family),
        level=np.asarray(level),
        complexity=np.array([complexity(int(f), int(k)) for f, k in pairs]),
    )


class GrownDensity(DensityEstimator):
    """A density whose features come from families: what the estimator and its search share."""

    families: Sequence[Family] | None
    violation_: float
    violation_found_: float
    family_bounds_: list[dict[str, Any]]
    _fitted_fields: ClassVar[tuple[str, ...]] = (
        *COLUMNS,
        *("violation_", "violation_found_", "family_bounds_"),
        *("n_rounds_", "objective_", "density_"),
    )

    def _families(self) -> list[Family]:
        return listed_families(self.families, [Monomials(4), Trees(8)])

    family_gap_ = Delegated[float](
        "density_.certificate.family_gap",
        "Duality gap over all features of the families, found or not: at most this.",
    )

    @property
    def features_(self) -> list[dict[str, Any]]:
        """The features in use, largest weight first."""
        density = self._fitted()
        assert isinstance(density.origin, FromFamilies)
        return density.origin.described(density.coef, density.beta)

    def __setmodel__(self, state: dict[str, Any]) -> None:
        """A file without bounds has the violation found, and no gap over the whole families."""
        bounds = {"violation_found_", "family_bounds_"}
        older = "violation_" in state and bounds.isdisjoint(state)
        if older:
            found = state["violation_"]
            state = state | {
                "violation_": np.inf,
                "violation_found_": found,
                "family_bounds_": [],
            }
        super().__setmodel__(state)
        if not older:
            return
        known = self.density_.certificate
        if known.family_gap is not None:
            unknown = dict.fromkeys(known.guarantees, np.inf)
            certificate = replace(known, family_gap=np.inf, guarantees=unknown)
            self.density_ = replace(self.density_, certificate=certificate)

    def _from_version_1(self, state: dict[str, Any]) -> dict[str, Any]:
        self.families = state["families"]
        current = super()._from_version_1(state)
        chosen = state["_family_of"], state["_level_of"]
        records = RecordWeights.alike(state["n_presences_"])
        origin = origin_of(self._families(), *chosen, current["density_"].schema, records)
        return current | {"density_": replace(current["density_"], origin=origin)}


@io.register
class StructMaxent(GrownDensity):
    """The density closest to the default one, with features from a union of families.

    `min_w log loss(w) + sum_k beta_k ||w_k||_1`, `beta_k = lam B_k + beta` (structural paper, (6)
    and §4): features of every `H_k` may be used, those of complex ones at a higher price. Features
    come in one per round, the one that violates optimality most among those that the families
    propose. Where none does, longer searches look for more, and at the end bounds say what no
    feature of the families exceeds, found or not: the certificate is of the whole families.

    Parameters
    ----------
    families : list of Family, default None
        Families of features; None for ``[Monomials(4), Trees(8)]``.
    lam : float, default 0.1
        lambda, the price of complexity; 0 is ordinary l1-maxent over the same features.
    beta : float, default 0.01
        The price of every feature; with ``lam=0`` and ``beta=0`` unregularized maxent.
    rule : "corrective", "structmaxent2", "structmaxent1" or "line-search", default "corrective"
        "corrective" solves for all weights again after each new feature, by the core's solver;
        "structmaxent2" and "structmaxent1" take the closed-form steps of Fig. 1 and Fig. 2 along
        the worst feature, new or old; "line-search" takes the exact step.
    complexity : "bound" or "empirical", default "bound"
        "bound" takes `B_k` from (15), "empirical" the Rademacher complexity of the records by
        simulation (an estimate from below for greedy families), without absolute value.
    rounds : int, default 500
        Rounds at most; the paper's 500.
    feature_bound : float, default None
        `Lambda` of "structmaxent1" and "structmaxent2", whose features lie in `[-Lambda, Lambda]`:
        1 gives the steps as the figures print them. None takes [0, 1], where all features here lie;
        steps are up to four times as long.
    least_change : float, default 1e-5
        A round that changes the objective by less ends the fit; the paper's 1e-5. A smaller one
        follows steps further, 0 until nothing found violates optimality or rounds are used up.
    searches : int, default 5
        Longer searches at most, of the corrective rule where proposals bring no more; 0 is the
        paper's greedy search alone.
    proof_budget : float, default 5e8
        Visits of cells that the bounds may take, for each family; seconds at most for the default.
        More makes bounds closer, none makes them wrong.
    entropy : str or Entropy, default "shannon"
        "shannon", or with ``rule="corrective"`` an Entropy, relative to the default density (see
        ``Relative``). Where that is uniform it is the Bregman divergence of §5, times a constant.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type; those of type category or string always
        are.
    tol : float, default 1e-7
        Duality gap at which to stop.
    missing : "error" or "drop", default "error"
        What to do with rows that have a missing value.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    features_ : list of dict
        One dict for every feature in use: name, weight, family, level (k), beta.
    coef_ : dict
        Weight of every feature in use, by its name.
    density_ : FittedDensity
        The fitted density, a value that can be kept, saved and passed on without this class.
    n_features_ : int
        Number of features, in use or not.
    entropy_ : float
        Entropy of the raw output.
    objective_ : array (n_rounds_,)
        The objective after each round.
    gap_ : float
        Duality gap over the features that came in.
    family_gap_ : float
        Duality gap over all features of the families, found or not, from ``family_bounds_``. Large
        where a bound is loose, as for large trees on many cells. ``Trees`` of two nodes and more
        have the thresholds of their ``bins``, and no others.
    violation_ : float
        By how much any feature of the families, found or not, violates optimality at most.
    violation_found_ : float
        By how much the worst one found does.
    family_bounds_ : list of dict
        One dict for every family and level k: beta, the largest `|E_p[phi] - E_S[phi]|` found, and
        a bound that no feature exceeds.
    optimality_ : float
        Violation of the optimality conditions.
    guarantees_ : dict
        What ``family_gap_`` says of the distance to the optimum.
    status_ : Status
        Why the fit ended:

        - "converged": no feature violates optimality by more than 1e-6, or than those that came in
          do at ``tol``, proved for all;
        - "unproved": none is found, and ``violation_`` says what could not be ruled out;
        - "small_change": a round changed the objective by less than ``least_change``;
        - "max_iter": after all rounds, or after all searches where ``violation_found_`` says that
          more can be gained.
    n_iter_ : int
        Iterations of the solver.
    n_rounds_ : int
        Number of rounds.
    history_ : list of dict
        One record per iteration.
    gain_ : float
        Gain over the default density, less the penalty.
    unregularized_gain_ : float
        Gain over the default density.
    log_partition_ : float
        `log sum exp<w, f>` over the cells.
    beta_ : array
        Penalty of every feature in use.
    n_presences_ : float
        Number of occurrences.
    n_points_ : float
        Number of points that the density is over.
    schema_ : Schema
        Columns, categories and levels.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array (n_features_in_,)
        Names of the columns of X, where it has any.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(300, 3))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0.4, 1, 0)
    >>> model = StructMaxent([Monomials(2)], beta=0.05).fit(X, y)
    >>> model.features_[0]["name"], bool(model.family_gap_ < 1e-4), model.status_.value
    ('x0 * x1', True, 'converged')
    """

    def __init__(
        self,
        families: Sequence[Family] | None = None,
        lam: float = 0.1,
        beta: float = 0.01,
        *,
        rule: str = "corrective",
        complexity: str = "bound",
        rounds: int = 500,
        feature_bound: float | None = None,
        least_change: float = LEAST_CHANGE,
        searches: int = 5,
        proof_budget: float = PROOF_BUDGET,
        entropy: EntropyLike = "shannon",
        categorical: Iterable[Any] = (),
        tol: float = 1e-7,
        missing: str = "error",
        prevalence: float = 0.5,
        verbose: int = 0,
    ) -> None:
        self.families = families
        self.lam = lam
        self.beta = beta
        self.rule = rule
        self.complexity = complexity
        self.rounds = rounds
        self.feature_bound = feature_bound
        self.least_change = least_change
        self.searches = searches
        self.proof_budget = proof_budget
        self.entropy = entropy
        self.categorical = categorical
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.verbose = verbose

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> StructMaxent:
        """Fit to cells X with y occurrences in each (0: background); see ``MaxentDensity.fit``.

        A table in blocks (of dask, or a ``BlockTable``) is searched where it lies, for the same
        model, with ``rule="corrective"`` and ``complexity="bound"``. After Ctrl-C the model is what
        has grown so far, with its gap.
        """
        return self._fit(X, y, sample_weight, prior)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, prior: Any, quiet: bool = False
    ) -> StructMaxent:
        """Fit; ``quiet`` for one of many fits, of which only the last speaks."""
        families = self._families()
        self._check()
        with one_blas_thread():
            points = self._points(X, y, sample_weight, prior)
            if points.constant and not quiet:
                warnings.warn(not_used(points.constant), stacklevel=3)
            growth = self._growth(families, points)
            rounds = _Rounds(self, growth, quiet)
            try:
                rounds.run()
                self.density_ = self._density(points, growth, *rounds.finished())
            except KeyboardInterrupt:  # the model so far is there, with its gap
                rounds.status = Status.INTERRUPTED
                if growth.operators():
                    self.density_ = self._density(points, growth, *rounds.finished())
                raise
            except BlocksLost as lost:
                # a solver speaks of checkpoints, which growth has none of
                said = lost.__cause__ if isinstance(lost.__cause__, BlocksLost) else lost
                raise BlocksLost(
                    f"{said} The {growth.w.size} features that had come in are lost: fit again"
                ) from lost
        return self

    def _growth(self, families: Sequence[Family], points: Points | BlockPoints) -> DensityGrowth:
        if isinstance(points, BlockPoints):
            return self._growth_in_blocks(families, points)
        searches = [family.search(points.cells, points.schema) for family in families]
        complexity = self._complexity(families, searches, points)
        entropy = Relative(named_entropy(self.entropy), points.default)
        penalty = price(self.lam, self.beta, complexity)
        levels = [family.max_level for family in families]
        return CellGrowth(searches, levels, penalty, entropy, points.observed)

    def _growth_in_blocks(self, families: Sequence[Family], points: BlockPoints) -> DensityGrowth:
        view, m = SummaryView(points.summary), round(points.n_presences)
        plans = [planned(family).plan(view) for family in families]
        blocks = points.blocks.map(
            GrowthBlock.from_points, plans, points.default, points.n_presences
        )
        penalty = price(self.lam, self.beta, bound_complexity(families, points.schema, m))
        levels = [family.max_level for family in families]
        entropy = named_entropy(self.entropy)
        return BlockGrowth(blocks, points.n_cells, plans, levels, penalty, entropy)

    def _density(
        self,
        points: Points | BlockPoints,
        growth: DensityGrowth,
        problem: Problem,
        solution: Solution,
        family_gap: float,
    ) -> FittedDensity:
        used = np.flatnonzero(solution.w)
        chosen = growth.family[used], growth.levels[used]
        origin = origin_of(self._families(), *chosen, points.schema, points.record_weights)
        known = (problem, solution, origin, self.prevalence, family_gap)
        if isinstance(points, BlockPoints):
            return fitted_in_blocks(points, growth.operators(), growth.beta, *known)
        return FittedDensity.from_solution(points, growth.operators(), growth.beta, *known)

    def problem(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> Problem:
        """The convex problem of the features that a fit chooses."""
        model = clone(self).fit(X, y, sample_weight, prior)
        points = model._points(X, y, sample_weight, prior)
        density = model.density_
        if isinstance(points, BlockPoints):
            features = points.features(density.operators)
            return Problem(density.entropy, features, Box(density.beta), observed=InBlocks())
        return Problem(
            Relative(density.entropy, points.default),
            bind(density.operators, points.cells),
            Box(density.beta),
            observed=points.observed,
        )

    def _points(self, X: Any, y: Any, sample_weight: Any, prior: Any) -> Points | BlockPoints:
        points: Points | BlockPoints
        if is_blocked(X):
            wanted = self._wanted_of_blocks()
            table = self._block_table(X, y, sample_weight, prior)
            points = BlockPoints.looked_at(
                table, lambda _: wanted, self.categorical, Reading(self.missing)
            )
        else:
            rows = (*self._table(X, y), sample_weight, prior)
            points = Points.from_table(*rows, categorical=self.categorical, missing=self.missing)
        if points.n_presences < FEWEST:
            raise ValueError(
                f"{points.n_presences:g} records, and growing features needs at least {FEWEST}: "
                "use MaxentDensity with linear features, or collect more"
            )
        return points

    def _wanted_of_blocks(self) -> dict[str, bool]:
        """What to look at of a table in blocks; an error where it cannot be fitted to."""
        if self.rule != "corrective":
            raise ValueError(
                f"rule={self.rule!r} steps along columns of all cells, which are in blocks here: "
                'use rule="corrective", or fit in memory'
            )
        if self.complexity != "bound":
            raise ValueError(
                f"complexity={self.complexity!r} draws signs of the records at all cells, which "
                'are in blocks here: use complexity="bound", or fit in memory'
            )
        law_of(named_entropy(self.entropy))
        looks_at = [planned(family).looks_at for family in self._families()]
        return {"values": any("values" in names for names in looks_at), "products": False}

    def _check(self) -> None:
        names = ("lam", "beta", "least_change", "proof_budget")
        check_not_negative(**{name: getattr(self, name) for name in names})
        check_rule(self.rule, RULES)
        if self.complexity not in ("bound", "empirical"):
            raise ValueError(f'complexity must be "bound" or "empirical", got {self.complexity!r}')
        positive("rounds", self.rounds)
        check_searches(self.searches)
        if self.feature_bound is not None and not self.feature_bound >= 1:
            raise ValueError(
                f"feature_bound must be None or a number >= 1, got {self.feature_bound!r}: "
                "features lie in [0, 1], which [-Lambda, Lambda] must hold"
            )
        if self.feature_bound is not None and self.rule not in ("structmaxent1", "structmaxent2"):
            raise ValueError(
                f"feature_bound={self.feature_bound!r} has no effect with rule={self.rule!r}, "
                "whose steps are exact: leave it out"
            )
        entropy = named_entropy(self.entropy)
        required_power(entropy)
        if self.rule != "corrective" and not isinstance(entropy, Shannon):
            raise ValueError(
                f"the steps of {self.rule!r} rest on the log-partition of the Shannon entropy; use "
                f'rule="corrective" with {entropy!r}'
            )

    def _complexity(
        self, families: Sequence[Family], searches: Sequence[Search], points: Points
    ) -> OfLevel:
        if self.complexity == "bound":
            return bound_complexity(families, points.schema, round(points.n_presences))
        return lambda family, level: empirical_complexity(searches[family], points.counts, level)


class _Rounds:
    """Rounds of growth under one rule."""

    def __init__(self, model: StructMaxent, growth: DensityGrowth, quiet: bool) -> None:
        self.model, self.growth, self.quiet = model, growth, quiet
        self.step, bound = StepRule(model.rule), model.feature_bound
        self.range = RANGE if bound is None else (-float(bound), float(bound))
        self.history: list[dict[str, float]] = []
        self.begin = perf_counter()
        self.found = np.inf  # the largest violation found at the weights
        self.proof: Proof | None = None  # at the weights
        self.status = Status.MAX_ITER
        self.searches = int(model.searches)  # longer ones that are left
        self.proofs = 0 if quiet else min(self.searches, _PROOFS)  # to look for features in

    def run(self) -> None:
        """Grow until nothing is gained."""
        progress = Progress("StructMaxent", self.model.verbose)
        objective, longer = self.growth.objective(), False
        try:
            for count in range(int(self.model.rounds)):
                if not self._round(longer):
                    self.status = Status.UNPROVED
                    break
                before, objective = objective, self.growth.objective()
                self._record(objective)
                progress.update(f"round {count + 1}, violation {self.found:.1e}")
                little = before - objective < self.model.least_change
                if little and (longer or not self._may_search()):
                    self.status = Status.SMALL_CHANGE
                    break
                longer = little  # what is gained no more by proposals may be by longer searches
        finally:
            progress.close()

    def _round(self, longer: bool) -> bool:
        """One feature more, or one step more along an old one; False where nothing is found."""
        growth, self.proof = self.growth, None
        candidates = growth.candidates()
        self.found = _largest(candidates)
        first = not growth.w.size
        if self.model.rule != "corrective":
            self._check_some(candidates)
            return self._descend(candidates[0] if candidates else None)
        if longer or (self.found <= _LOOSE and not (first and candidates)):
            new = [c for c in self._searched_longer(candidates) if c.violation > _LOOSE]
            self._check_some(new)
            return self._correct(new)
        return self._correct(candidates[:1])

    def _check_some(self, candidates: Sequence[Candidate]) -> None:
        if not candidates and not self.growth.w.size:
            raise ValueError(
                "the families propose no feature at all: every variable is constant over the cells"
            )

    def _may_search(self) -> bool:
        return self.model.rule == "corrective" and self.searches > 0

    def _searched_longer(self, candidates: list[Candidate]) -> list[Candidate]:
        """What longer searches find as well, and where they find nothing, what the proof does."""
        if self.searches:
            self.searches -= 1
            candidates = _worst_first([*candidates, *self.growth.refined()])
        self.found = _largest(candidates)
        if self.found <= _LOOSE and self.proofs:
            self.proofs -= 1
            self._tighten()
            self.proof = self.growth.proof(self.model.proof_budget)
            candidates = _worst_first([*candidates, *self.proof.found])
            self.found = _largest(candidates)
        return candidates

    def _correct(self, new: Sequence[Candidate]) -> bool:
        """Take features in and solve for all weights; False where all are old."""
        growth, known = self.growth, self.growth.w.size
        for candidate in new:
            growth.add(candidate)
        if growth.w.size == known:  # what is left of old features is rounding
            return False
        growth.set_weights(growth.problem().run("auto", growth.w, tol=_LOOSE, verbose=0).w)
        self.proof = None
        return True

    def _descend(self, best: Candidate | None) -> bool:
        """The step of Fig. 1 or 2 along the feature of the largest |d|, new or old."""
        growth = self.growth
        assert isinstance(growth, CellGrowth)
        j, violation = -1, 0.0
        if growth.w.size:
            d = growth.violations()
            j = int(np.argmax(np.abs(d)))
            violation = float(abs(d[j]))
        if best is not None and (best.violation > violation or not growth.w.size):
            j, violation = growth.add(best), best.violation
        if violation <= 0:
            return False
        growth.descend(j, self.step, self.range)
        return True

    def _record(self, objective: float) -> None:
        self.history.append(
            {
                "seconds": perf_counter() - self.begin,
                "objective": objective,
                "violation": self.found,
                "features": float(np.count_nonzero(self.growth.w)),
            }
        )

    def _tighten(self) -> None:
        """Solve for the weights to the tolerance of the model."""
        growth = self.growth
        if not growth.w.size:
            return
        problem = growth.problem()
        solve = problem.run if self.quiet else problem.solve
        growth.set_weights(solve("auto", growth.w, tol=self.model.tol, verbose=0).w)

    def finished(self) -> tuple[Problem, Solution, float]:
        """The problem of the chosen features, the solution, and the gap over the families."""
        model, growth = self.model, self.growth
        whole = self.status is not Status.INTERRUPTED
        if model.rule == "corrective" and whole and self.proof is None:
            self._tighten()
        state: State = growth.state()
        gap = np.inf
        model.violation_ = model.violation_found_ = np.inf
        model.family_bounds_ = []
        if whole and not self.quiet:
            proof = self.proof or growth.proof(model.proof_budget)
            candidates = _worst_first([*growth.candidates(), *proof.found])
            gap = family_gap(state, proof.gauge)
            model.violation_, model.violation_found_ = proof.violation, _largest(candidates)
            model.family_bounds_ = proof.described(model._families(), candidates)
            if self.status is Status.UNPROVED:
                # weights are solved for to a gap, which leaves features in use some violation
                own = float(np.max(np.abs(state.gradient) - growth.beta, initial=_LOOSE))
                self.status = _told(proof.violation, model.violation_found_, own)
        model.n_rounds_ = len(self.history)
        model.objective_ = np.array([row["objective"] for row in self.history])
        solution = Solution(
            w=state.w,
            p=state.prediction_when_asked,
            gap=state.gap,
            optimality=state.optimality,
            objective=state.dual,
            n_iter=len(self.history),
            status=self.status,
            history=self.history,
            guarantees=state.problem.guarantees(gap),
        )
        return state.problem, solution, gap


def _told(violation: float, found: float, within: float) -> Status:
    """What is known where rounds ended as nothing more was found: the bound, and the last look."""
    within += 1e-9  # rounding of sums
    if violation <= within:
        return Status.CONVERGED
    return Status.UNPROVED if found <= within else Status.MAX_ITER


def _worst_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: -c.violation)


def _largest(candidates: Sequence[Candidate]) -> float:
    return max((0.0, *(c.violation for c in candidates)))
