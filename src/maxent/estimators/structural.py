"""StructMaxent: a density with features grown from families of any complexity (Cortes et al.)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from maxent import bounds, io
from maxent._progress import Progress
from maxent._rows import Array
from maxent._threads import one_blas_thread
from maxent.bounds import LossBound
from maxent.entropies import Relative, Shannon
from maxent.estimators._density import (
    DensityLink,
    check_counts,
    domain_points,
    masses,
    positive,
    take_rows,
    warn_constant,
)
from maxent.estimators._structural import (
    CHANGE,
    FEWEST,
    OfLevel,
    bound_complexity,
    check_not_negative,
    check_rule,
    listed_families,
    n_variables,
    price,
)
from maxent.estimators.density import MaxentDensity, Profile, _Prepared
from maxent.evaluation import PresenceKFold
from maxent.families import Family, Monomials, Search, Trees, empirical_complexity
from maxent.families.growth import RULES, Candidate, Growth
from maxent.features import Cells, Schema, bind
from maxent.features.cells import missing_rows
from maxent.potentials import Box
from maxent.problem import Problem, State
from maxent.solvers._steps import StepRule
from maxent.solvers._steps import violation as violation_of
from maxent.solvers.base import Solution, Status

_LOOSE = 1e-6  # duality gap of the solves on the way
PAPER_GRID = (0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 2.0)  # of lambda and beta, §4


@io.register
class StructMaxent(MaxentDensity):
    """The density closest to the default one, with features from a union of families.

    min_w log loss(w) + sum_k beta_k ||w_k||_1, beta_k = lam B_k + beta (structural paper, (6) and
    §4): features of every H_k may be used, those of complex ones at a higher price. Features come
    in one a round, the one that violates optimality most among those that the families find.

    Parameters
    ----------
    families : families of features; by default ``[Monomials(4), Trees(8)]``.
    lam : lambda, the price of complexity; 0 is ordinary l1-maxent over the same features.
    beta : the price of every feature; with ``lam=0`` and ``beta=0`` unregularized maxent.
    rule : "corrective" (all weights are solved for again after each new feature, by the core's
        solver), "structmaxent2" and "structmaxent1" (the closed-form steps of Fig. 1 and Fig. 2
        along the worst feature, new or old), "line-search" (the exact step).
    complexity : "bound", B_k from (15), or "empirical", the Rademacher complexity of the records
        by simulation (an estimate from below for greedy families).
    rounds : at most; the paper's 500. A fit ends when a round changes the objective by less than
        1e-5 or no feature violates optimality.
    entropy : "shannon", or an Entropy with ``rule="corrective"`` (Bregman generalization, §5).
    categorical, tol, missing, prevalence, verbose : see ``MaxentDensity``.

    Attributes
    ----------
    features_ : a dict a feature in use: name, weight, family, level (k), beta.
    violation_ : by how much the best new feature found still violates optimality.
    gap_ : duality gap over the chosen features; n_rounds_; objective_ : one value a round.
    Others as for ``MaxentDensity``.

    >>> X = np.random.default_rng(0).uniform(size=(300, 3))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0.4, 1, 0)
    >>> model = StructMaxent([Monomials(2)], beta=0.05).fit(X, y)
    >>> model.features_[0]["name"], bool(model.gap_ < 1e-6)
    ('x0 * x1', True)
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
        entropy: Any = "shannon",
        categorical: Iterable[Any] = (),
        tol: float = 1e-7,
        missing: str = "error",
        prevalence: float = 0.5,
        verbose: int = 1,
    ) -> None:
        self.families = families
        self.lam = lam
        self.beta = beta
        self.rule = rule
        self.complexity = complexity
        self.rounds = rounds
        self.entropy = entropy
        self.categorical = categorical
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.verbose = verbose

    # -- fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, prior: Any = None) -> StructMaxent:
        """Fit to cells X with y occurrences in each (0: background); see ``MaxentDensity.fit``.

        After Ctrl-C the model is what has grown so far, with its gap.
        """
        families = self._families()
        self._check()
        with one_blas_thread():
            schema, cells, counts, mass, prior_mass = self._points(X, y, sample_weight, prior)
            m = float(counts.sum())
            searches = [family.search(cells, schema) for family in families]
            self._n_raw = n_variables(schema)
            complexity = self._complexity(families, searches, counts)
            entropy = Relative(self._entropy(), mass * prior_mass)
            growth = Growth(searches, price(self.lam, self.beta, complexity), entropy, counts / m)
            grown = _Grower(self, growth)
            try:
                grown.run()
            finally:
                if growth.operators():
                    problem, solution = grown.finished()
                    biased = bool((prior_mass != prior_mass[0]).any())
                    self._conclude(growth, schema, cells, mass, m, biased, problem, solution)
        return self

    def _conclude(
        self,
        growth: Growth,
        schema: Schema,
        cells: Cells,
        mass: Array,
        m: float,
        biased: bool,
        problem: Problem,
        solution: Solution,
    ) -> None:
        operators, beta = growth.operators(), growth.beta
        low = cells.values.min(axis=1, initial=np.inf).astype(np.float64)
        high = cells.values.max(axis=1, initial=-np.inf).astype(np.float64)
        prepared = _Prepared(schema, cells, operators, low, high, problem, beta, mass, m, biased)
        self._finish(prepared, problem, solution)
        used = np.flatnonzero(solution.w)
        self._family_of = growth.family[used]
        self._level_of = growth.levels[used]

    def problem(self, X: Any, y: Any, sample_weight: Any = None, prior: Any = None) -> Problem:
        """The convex problem of the features that a fit chooses."""
        model = clone(self).fit(X, y, sample_weight, prior)
        return model._posed_again(X, y, sample_weight, prior)

    def _posed_again(self, X: Any, y: Any, sample_weight: Any, prior: Any) -> Problem:
        _, cells, counts, mass, prior_mass = self._points(X, y, sample_weight, prior)
        entropy = Relative(self._entropy(), mass * prior_mass)
        features = bind(self._operators_, cells)
        return Problem(entropy, features, Box(self.beta_), observed=counts / counts.sum())

    def _points(
        self, X: Any, y: Any, sample_weight: Any, prior: Any
    ) -> tuple[Schema, Cells, Array, Array, Array]:
        X, y = self._table(X, y)
        weight = masses("sample_weight", sample_weight, len(y))
        prior_mass = masses("prior", prior, len(y))
        if self.missing == "drop":
            keep = ~missing_rows(X)
            X, y, weight, prior_mass = take_rows(X, keep), y[keep], weight[keep], prior_mass[keep]
        check_counts(y, weight, prior_mass)
        schema = Schema.of(X, self.categorical)
        cells, counts, mass, prior_mass = domain_points(
            schema.read(X), y * weight, weight, prior_mass, merge=False
        )
        if counts.sum() < FEWEST:
            raise ValueError(
                f"{counts.sum():g} records, and growing features needs at least {FEWEST}: use "
                "MaxentDensity with linear features, or collect more"
            )
        warn_constant(cells, schema)
        return schema, cells, counts, mass, prior_mass

    def _check(self) -> None:
        check_not_negative(lam=self.lam, beta=self.beta)
        check_rule(self.rule, RULES)
        if self.complexity not in ("bound", "empirical"):
            raise ValueError(f'complexity must be "bound" or "empirical", got {self.complexity!r}')
        positive("rounds", self.rounds)
        DensityLink.power_of(self._entropy())
        if self.rule != "corrective" and not isinstance(self._entropy(), Shannon):
            raise ValueError(
                f"the steps of {self.rule!r} rest on the log-partition of the Shannon entropy; use "
                f'rule="corrective" with {self._entropy()!r}'
            )

    def _families(self) -> list[Family]:
        return listed_families(self.families, [Monomials(4), Trees(8)])

    def _complexity(
        self, families: Sequence[Family], searches: Sequence[Search], counts: Array
    ) -> OfLevel:
        if self.complexity == "bound":
            return bound_complexity(families, self._n_raw, int(counts.sum()))
        return lambda family, level: empirical_complexity(searches[family], counts, level)

    def _multiplier(self) -> float:
        return 1.0

    # -- what the model says -------------------------------------------------------------------

    @property
    def features_(self) -> list[dict[str, Any]]:
        """The features in use, largest weight first."""
        names = [type(family).__name__ for family in self._families()]
        rows = zip(self.coef_.items(), self._family_of, self._level_of, self.beta_, strict=True)
        found = [
            {
                "name": name,
                "weight": weight,
                "family": names[family],
                "level": int(level),
                "beta": float(beta),
            }
            for (name, weight), family, level, beta in rows
        ]
        return sorted(found, key=lambda row: -abs(row["weight"]))

    def bound(self, delta: float = 0.05) -> LossBound:
        """An upper bound on the log loss on new occurrences, with probability 1 - delta.

        L_D(w) <= L_S(w) + sum_k ||w_k||_1 (2 R_m(H_k) + sqrt(log(2 p / delta) / (2 m))) for any w
        (structural paper, (1)), with R_m(H_k) <= B_k of (15) whatever ``lam`` and ``complexity``.
        """
        if not isinstance(self._entropy(), Shannon):
            raise ValueError(
                f"the bound is for the log loss: entropy Shannon, not {self._entropy()!r}"
            )
        beta = self._theory(delta)
        loss = float(np.log(self.n_points_)) - self.unregularized_gain_
        points = round(self.n_points_)
        cells = points if points == self.n_points_ and not self._biased else None
        loss -= 0.0 if cells else float(np.log(self.n_points_))
        return bounds.printable_bound(loss, self._weights_, beta, delta, cells)

    def _theory(self, delta: float) -> Array:
        """2 B_k + sqrt(log(2 p / delta) / (2 m)) of each feature in use, p the sets H_k in all."""
        families, m = self._families(), int(self.n_presences_)
        pairs = zip(self._family_of, self._level_of, strict=True)
        complexity = [families[f].complexity(int(k), self._n_raw, m) for f, k in pairs]
        n_sets = sum(family.max_level for family in families)
        return bounds.structural_beta(complexity, n_sets, m, delta)

    def profile(self, variable: str | int, n: int = 200) -> Profile:
        """Not for this model: its features are of several variables at once."""
        raise NotImplementedError(
            "features of several variables have no additive profile; predict along a variable "
            "with the others held fixed"
        )

    def path(self, *args: Any, **settings: Any) -> list[MaxentDensity]:
        """Not for this model: other penalties grow other features; see ``StructMaxentCV``."""
        raise NotImplementedError("other penalties grow other features; use StructMaxentCV")


class _Grower:
    """Rounds of growth under one rule."""

    def __init__(self, model: StructMaxent, growth: Growth) -> None:
        self.model, self.growth = model, growth
        self.step = StepRule(model.rule)
        self.history: list[dict[str, float]] = []
        self.begin = perf_counter()
        self.violation = np.inf
        self.status = Status.MAX_ITER

    def run(self) -> None:
        """Grow until nothing is gained."""
        progress = Progress("StructMaxent", self.model.verbose)
        objective = self._objective()
        try:
            for count in range(int(self.model.rounds)):
                if not self._round():
                    self.status = Status.CONVERGED
                    break
                before, objective = objective, self._objective()
                self._record(objective)
                progress.update(f"round {count + 1}, violation {self.violation:.1e}")
                if before - objective < CHANGE:
                    self.status = Status.CONVERGED
                    break
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
            raise
        finally:
            progress.close()

    def _round(self) -> bool:
        """One feature more, or one step more along an old one; False at the optimum."""
        growth = self.growth
        p = np.asarray(growth.entropy.conjugate(growth.theta)[1])
        r = p - growth.observed
        candidates = growth.candidates(r)
        if not candidates and not growth.w.size:
            raise ValueError(
                "the families propose no feature at all: every variable is constant over the cells"
            )
        best = candidates[0] if candidates else None
        self.violation = max(best.violation, 0.0) if best else 0.0
        if self.model.rule == "corrective":
            return self._correct(best)
        return self._descend(best, p, r)

    def _correct(self, best: Candidate | None) -> bool:
        growth = self.growth
        known = growth.w.size
        if best is None or (best.violation <= _LOOSE and known):
            return False
        growth.add(best)
        if growth.w.size == known:  # the best new feature is an old one: only rounding is left
            return False
        self._solve(_LOOSE)
        return best.violation > _LOOSE

    def _solve(self, tol: float) -> Solution:
        problem = self.growth.problem()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last solve of a fit speaks for itself
            solution = problem.solve("auto", self.growth.w, tol=tol, verbose=0)
        self.growth.set_weights(solution.w)
        return solution

    def _descend(self, best: Candidate | None, p: Array, r: Array) -> bool:
        """The step of Fig. 1 or 2 along the feature of the largest |d|, new or old."""
        growth = self.growth
        j, violation = -1, 0.0
        if growth.w.size:
            d = violation_of(growth.w, growth.features().moments(r), growth.beta)
            j = int(np.argmax(np.abs(d)))
            violation = float(abs(d[j]))
        if best is not None and (best.violation > violation or not growth.w.size):
            j, violation = growth.add(best), best.violation
        if violation <= 0:
            return False
        growth.descend(j, self.step, p)
        return True

    def _objective(self) -> float:
        growth = self.growth
        value = float(np.asarray(growth.entropy.conjugate(growth.theta)[0]))
        return value - float(growth.observed @ growth.theta) + float(growth.beta @ np.abs(growth.w))

    def _record(self, objective: float) -> None:
        self.history.append(
            {
                "seconds": perf_counter() - self.begin,
                "objective": objective,
                "violation": self.violation,
                "features": float(np.count_nonzero(self.growth.w)),
            }
        )

    def finished(self) -> tuple[Problem, Solution]:
        """The problem of the chosen features and the solution with its certificate."""
        model, growth = self.model, self.growth
        if model.rule == "corrective" and self.status is not Status.INTERRUPTED:
            problem = growth.problem()
            solution = problem.solve("auto", growth.w, tol=model.tol, verbose=0)
            growth.set_weights(solution.w)
        state: State = growth.state()
        model.violation_ = self.violation
        model.n_rounds_ = len(self.history)
        model.objective_ = np.array([row["objective"] for row in self.history])
        return state.problem, Solution(
            w=state.w,
            p=state.prediction,
            gap=state.gap,
            optimality=state.optimality,
            objective=state.dual,
            n_iter=len(self.history),
            status=self.status,
            history=self.history,
            guarantees=state.problem.guarantees(state.gap),
        )


@io.register
class StructMaxentCV(StructMaxent):
    """StructMaxent with lambda and beta chosen on held-out records (structural paper, §4.1).

    Every pair of ``lams`` and ``betas`` is fitted to the training rows of every split; the best
    mean held-out log loss wins and is fitted to all rows.

    Parameters
    ----------
    lams, betas : what to choose from; the paper's grid by default.
    cv : None for the paper's single split (a share ``validation`` of the records held out at
        random), a number of folds of the presences, or a splitter.
    seed : of the split. n_jobs : threads. Others as for ``StructMaxent``.

    Attributes
    ----------
    best_params_, best_score_; cv_results_ : columns lam, beta, mean_score, n_features; and all of
        ``StructMaxent``.

    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> y = np.where(X[:, 0] > 0.7, 1, 0)
    >>> search = StructMaxentCV([Monomials(1)], lams=[0.1], betas=[0.01, 1.0]).fit(X, y)
    >>> search.best_params_
    {'lam': 0.1, 'beta': 0.01}
    """

    def __init__(
        self,
        families: Sequence[Family] | None = None,
        lams: Sequence[float] = PAPER_GRID,
        betas: Sequence[float] = PAPER_GRID,
        *,
        cv: Any = None,
        validation: float = 0.3,
        seed: int = 0,
        rule: str = "corrective",
        complexity: str = "bound",
        rounds: int = 500,
        entropy: Any = "shannon",
        categorical: Iterable[Any] = (),
        tol: float = 1e-7,
        missing: str = "error",
        prevalence: float = 0.5,
        n_jobs: int | None = None,
        verbose: int = 1,
    ) -> None:
        self.families = families
        self.lams = lams
        self.betas = betas
        self.cv = cv
        self.validation = validation
        self.seed = seed
        self.rule = rule
        self.complexity = complexity
        self.rounds = rounds
        self.entropy = entropy
        self.categorical = categorical
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def lam(self) -> float:  # type: ignore[override]
        """The chosen lambda."""
        return float(self.best_params_["lam"])

    @property
    def beta(self) -> float:  # type: ignore[override]
        """The chosen beta."""
        return float(self.best_params_["beta"])

    def fit(self, X: Any, y: Any, sample_weight: Any = None, prior: Any = None) -> StructMaxentCV:
        """Choose lambda and beta, then fit to all rows."""
        X, y = self._table(X, y)
        weight = masses("sample_weight", sample_weight, len(y))
        prior_mass = masses("prior", prior, len(y))
        pairs = [(float(lam), float(beta)) for lam in self.lams for beta in self.betas]
        if not pairs:
            raise ValueError("lams and betas: give at least one value of each")
        splits = self._splits(X, y)
        progress = Progress("StructMaxentCV", self.verbose)
        done = 0

        def run(pair: tuple[float, float], train: Array, test: Array) -> tuple[float, int]:
            nonlocal done
            model = self._estimator(*pair).fit(X, train, weight, prior_mass)
            done += 1
            progress.update(f"{done} of {len(pairs) * len(splits)} fits")
            return -model.log_loss(X, test, weight), len(model._weights_)

        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            jobs = (delayed(run)(pair, *split) for pair in pairs for split in splits)
            try:
                found = Parallel(n_jobs=self.n_jobs, prefer="threads")(jobs)
            finally:
                progress.close()
        table = np.array(found).reshape(len(pairs), len(splits), 2).mean(axis=1)
        best = int(np.argmax(np.nan_to_num(table[:, 0], nan=-np.inf)))
        self.best_params_ = dict(zip(("lam", "beta"), pairs[best], strict=True))
        self.best_score_ = float(table[best, 0])
        self.cv_results_ = {
            "lam": [lam for lam, _ in pairs],
            "beta": [beta for _, beta in pairs],
            "mean_score": table[:, 0],
            "n_features": table[:, 1],
        }
        model = self._estimator(*pairs[best]).fit(X, y, weight, prior_mass)
        fitted = {k: v for k, v in vars(model).items() if k.startswith("_") or k.endswith("_")}
        self.__dict__.update(fitted)
        return self

    def _estimator(self, lam: float, beta: float) -> StructMaxent:
        shared = (
            *("families", "rule", "complexity", "rounds", "entropy", "categorical", "tol"),
            *("missing", "prevalence", "verbose"),
        )
        return StructMaxent(lam=lam, beta=beta, **{name: getattr(self, name) for name in shared})

    def _splits(self, X: Any, y: Array) -> list[tuple[Array, Array]]:
        """Counts of the training and of the held-out records, for each split."""
        if self.cv is None:
            return [held_out(y, self.validation, self.seed)]
        splitter = PresenceKFold(int(self.cv)) if isinstance(self.cv, int) else self.cv
        found = []
        for train, test in splitter.split(X, y):
            counts = np.zeros((2, len(y)))
            counts[0, train], counts[1, test] = y[train], y[test]
            found.append((counts[0], counts[1]))
        return found


def held_out(counts: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Records drawn at random for testing: the counts that stay, and those held out."""
    if not 0 < share < 1:
        raise ValueError(f"validation must lie between 0 and 1, got {share!r}")
    places = np.repeat(np.arange(len(counts)), np.asarray(counts).astype(np.int64))
    drawn = np.random.default_rng(seed).permutation(places)[: round(share * places.size)]
    test = np.bincount(drawn, minlength=len(counts)).astype(np.float64)
    return np.asarray(counts) - test, test
