"""StructMaxentCV: lambda and beta of StructMaxent chosen on held-out records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from maxent import io
from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.density import Table
from maxent.evaluation import PresenceKFold
from maxent.families import Family
from maxent.learn.density.base import COLUMNS
from maxent.learn.structural.base import LEAST_CHANGE, PROOF_BUDGET
from maxent.learn.structural.density import GrownDensity, StructMaxent
from maxent.rows.arrays import Array
from maxent.rows.blocks.table import is_blocked
from maxent.typing import ArrayLike, EntropyLike, SplitterLike, TableLike

PAPER_GRID = (0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 2.0)  # of lambda and beta, §4


@io.register
class StructMaxentCV(GrownDensity):
    """StructMaxent with lambda and beta chosen on held-out records (structural paper, §4.1).

    Every pair of ``lams`` and ``betas`` is fitted to the training rows of every split; the best
    mean held-out log loss wins and is fitted to all rows. Bounds may take longer than a fit,
    so that only the last fit has them: those of the splits are as with ``proof_budget=0``.

    Parameters
    ----------
    families : list of Family, default None
        Families of features; None for ``[Monomials(4), Trees(8)]``.
    lams : sequence of float, default (1e-4, 0.001, 0.01, 0.1, 0.5, 1.0, 2.0)
        Values of lam to choose from; the paper's grid by default.
    betas : sequence of float, default (1e-4, 0.001, 0.01, 0.1, 0.5, 1.0, 2.0)
        Values of beta to choose from; the paper's grid by default.
    cv : int, splitter or list of splits, default None
        None for the paper's single split (a share ``validation`` of the records held out at
        random), a number of folds of the presences, or a splitter.
    validation : float, default 0.3
        Share of the records held out where ``cv`` is None.
    seed : int, default 0
        Seed of the split.
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
    n_jobs : int, default None
        Threads.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    best_params_ : dict
        The lam and beta chosen.
    best_score_ : float
        Their mean held-out score.
    cv_results_ : dict
        Columns lam, beta, mean_score, n_features.
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
    >>> from maxent.families import Monomials
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
        cv: SplitterLike = None,
        validation: float = 0.3,
        seed: int = 0,
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
        n_jobs: int | None = None,
        verbose: int = 0,
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
        self.feature_bound = feature_bound
        self.least_change = least_change
        self.searches = searches
        self.proof_budget = proof_budget
        self.entropy = entropy
        self.categorical = categorical
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.n_jobs = n_jobs
        self.verbose = verbose

    _fitted_fields: ClassVar[tuple[str, ...]] = (
        *COLUMNS,
        *("best_params_", "best_score_", "cv_results_"),
        *("density_", "violation_", "violation_found_", "family_bounds_"),
        *("n_rounds_", "objective_"),
    )

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> StructMaxentCV:
        """Choose lambda and beta, then fit to all rows."""
        if is_blocked(X):
            raise TypeError(
                "StructMaxentCV holds all rows in memory, and this table is in blocks: choose lam "
                "and beta on a sample of its rows, then fit StructMaxent to the blocks"
            )
        table = Table.from_rows(*self._table(X, y), sample_weight, prior)
        pairs = [(float(lam), float(beta)) for lam in self.lams for beta in self.betas]
        if not pairs:
            raise ValueError("lams and betas: give at least one value of each")
        splits = self._splits(table.X, table.y)
        jobs = [(pair, split) for pair in pairs for split in splits]

        def run(job: tuple[tuple[float, float], tuple[Array, Array]]) -> tuple[float, int]:
            pair, (train, test) = job
            counted = (table.X, train, table.weight, table.prior)
            model = self._estimator(*pair)._fit(*counted, quiet=True)
            return -model.log_loss(table.X, test, table.weight), len(model.density_.weights)

        with one_blas_thread():
            scores = in_threads("StructMaxentCV", run, jobs, self.n_jobs, self.verbose, "fits")
        means = np.array(scores).reshape(len(pairs), len(splits), 2).mean(axis=1)
        best = int(np.argmax(np.nan_to_num(means[:, 0], nan=-np.inf)))
        self.best_params_ = dict(zip(("lam", "beta"), pairs[best], strict=True))
        self.best_score_ = float(means[best, 0])
        self.cv_results_ = {
            "lam": [lam for lam, _ in pairs],
            "beta": [beta for _, beta in pairs],
            "mean_score": means[:, 0],
            "n_features": means[:, 1],
        }
        model = self._estimator(*pairs[best]).fit(table.X, table.y, table.weight, table.prior)
        self.density_ = model.density_
        self.violation_, self.violation_found_ = model.violation_, model.violation_found_
        self.family_bounds_, self.n_rounds_ = model.family_bounds_, model.n_rounds_
        self.objective_ = model.objective_
        return self

    @property
    def lam(self) -> float:
        """The chosen lambda."""
        return float(self.best_params_["lam"])

    @property
    def beta(self) -> float:
        """The chosen beta."""
        return float(self.best_params_["beta"])

    def _estimator(self, lam: float, beta: float) -> StructMaxent:
        shared = (
            *("families", "rule", "complexity", "rounds", "entropy", "categorical", "tol"),
            *("missing", "prevalence", "verbose", "searches", "proof_budget"),
            *("least_change", "feature_bound"),
        )
        return StructMaxent(lam=lam, beta=beta, **{name: getattr(self, name) for name in shared})

    def _splits(self, X: Any, y: Array) -> list[tuple[Array, Array]]:
        """Counts of the training and of the held-out records, for each split."""
        if self.cv is None:
            return [held_out(y, self.validation, self.seed)]
        splitter: Any = PresenceKFold(int(self.cv)) if isinstance(self.cv, int) else self.cv
        splits = []
        for train, test in splitter.split(X, y):
            counts = np.zeros((2, len(y)))
            counts[0, train], counts[1, test] = y[train], y[test]
            splits.append((counts[0], counts[1]))
        return splits


def held_out(counts: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Records drawn at random for testing: the counts that stay, and those held out."""
    if not 0 < share < 1:
        raise ValueError(f"validation must lie between 0 and 1, got {share!r}")
    places = np.repeat(np.arange(len(counts)), np.asarray(counts).astype(np.int64))
    drawn = np.random.default_rng(seed).permutation(places)[: round(share * places.size)]
    test = np.bincount(drawn, minlength=len(counts)).astype(np.float64)
    return np.asarray(counts) - test, test
