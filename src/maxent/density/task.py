"""DensityTask: all that comes before the first step of a solver, and the fit itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxent._support.checks import positive
from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.core import potentials
from maxent.core.entropies import Entropy, Relative, Shannon
from maxent.core.path import multiplier_grid, solution_path
from maxent.core.potentials import Potential
from maxent.core.problem import Problem
from maxent.core.solvers.base import Solution
from maxent.density.intervals import (
    Refits,
    bound_features,
    check_method,
    curvature,
    prior_precision,
)
from maxent.density.model import FittedDensity
from maxent.density.origin import Offered, Origin, kinds_of
from maxent.density.points import Points
from maxent.density.regularization import Rule, spread
from maxent.features import Operator, OperatorMap, bind, part_of
from maxent.rows.arrays import Array

_KNOTS = 200  # of a curve, in refits
_REFIT_TOL = 1e-5  # duality gap of refits


class Fit(NamedTuple):
    """A density, and the weights of all features of its task: where another fit can start."""

    density: FittedDensity
    w: Array

    def start(self, index: Array) -> Array:
        """The weights of the features ``index``, 0 for those made anew (-1)."""
        return np.where(index >= 0, self.w[index], 0.0)


class Posed(NamedTuple):
    """The features that the rule leaves in: which, their operators, penalties and problem."""

    chosen: Array
    operators: list[Operator]
    beta: Array
    problem: Problem


@dataclass(frozen=True, eq=False)
class DensityTask:
    """A density to be fitted: points, features, how they are regularized, and how it is solved.

    Parameters
    ----------
    points : Points
        What the density is over, with the occurrences.
    operators : sequence of Operator
        All features to choose from.
    features : OperatorMap
        The same, bound to the points.
    rule : callable
        (kinds, mean, sd, m) -> penalties `beta_j` of all features and which are left out.
    entropy : Entropy
        `Omega`.
    potential : callable
        From beta and the letters of the features to V, before the multiplier.
    multiplier : float, default 1.0
        c in `V_c(r) = c V(r / c)`.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-7
        Duality gap at which to stop.
    verbose : int, default 0
        1 shows a progress line.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    notes : tuple of str, default ()
        What a user should know of the data, such as columns that are not used.
    checkpoint : path, default None
        File with the last step of ``solve`` and ``fit``, which go on from it.

    Notes
    -----
    A task is a value: ``only``, ``without``, ``resampled`` and ``thinned`` give others that share
    what they have in common, and ``fit`` changes nothing.
    """

    points: Points
    operators: Sequence[Operator]
    features: OperatorMap
    rule: Rule
    entropy: Entropy
    potential: Callable[[Array, Array], Potential]
    multiplier: float = 1.0
    solver: Any = "auto"
    tol: float = 1e-7
    verbose: int = 0
    prevalence: float = 0.5
    notes: tuple[str, ...] = ()
    checkpoint: str | None = None

    # -- the problem ---------------------------------------------------------------------------

    @cached_property
    def _rules(self) -> tuple[Array, Array]:
        """beta_j of every feature by the rule, and the index of those it leaves in."""
        m = self.points.n_presences
        kinds = kinds_of(self.operators)
        beta, off = self.rule(kinds, *spread(*self.at_records, m), m)
        return beta, np.flatnonzero(~off)

    @property
    def at_records(self) -> tuple[OperatorMap, Array]:
        """The features at some points with all records among them, and the share of each."""
        return self.features, self.points.observed

    @property
    def is_empty(self) -> bool:
        """Whether no feature is left to fit with."""
        return not self.features.n_features or not self._rules[1].size

    @cached_property
    def posed(self) -> Posed:
        """The convex problem of the features left in."""
        if self.is_empty:
            raise ValueError(f"no feature varies over the {self.points.n_presences:g} presences")
        beta, index = self._rules
        operators, features = list(self.operators), self.features
        if index.size < features.n_features:
            operators, features = part_of(operators, index), features.restrict(index)
        beta = beta[index]
        potential = potentials.scaled(self.potential(beta, kinds_of(operators)), self.multiplier)
        return Posed(index, operators, beta, self._problem(features, potential))

    def _problem(self, features: OperatorMap, potential: Potential) -> Problem:
        entropy = Relative(self.entropy, self.points.default)
        return Problem(entropy, features, potential, observed=self.points.observed)

    @property
    def problem(self) -> Problem:
        """`min_p Omega(p || q0) + V(F p - mu)`, as ``fit`` solves it."""
        return self.posed.problem

    # -- fitting -------------------------------------------------------------------------------

    def solve(self) -> Solution:
        """The solution, with a warning where it misses the tolerance."""
        return self.problem.solve(self.solver, **self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"tol": self.tol, "verbose": self.verbose, "checkpoint": self.checkpoint}

    def fit(self, w0: Array | None = None) -> Fit:
        """The density, from the weights w0 of all features.

        Quiet: ``certificate.status`` says whether the tolerance was met.
        """
        index = self.posed.chosen
        start = None if w0 is None else w0[index]
        solution = self.problem.run(self.solver, start, **self._settings)
        w = np.zeros(self.features.n_features)
        w[index] = solution.w
        return Fit(self.density(solution), w)

    def density(self, solution: Solution) -> FittedDensity:
        """The density of a solution of the problem."""
        return self._density(self.problem, solution, self.multiplier)

    def path(
        self, multipliers: Sequence[float] | None = None, *, n: int = 20, warn: bool = False
    ) -> Iterator[tuple[float, FittedDensity]]:
        """A density for every multiplier of V, largest first, each started from the one before.

        By default ``n`` of them equal ratios apart, from where every weight is 0.
        """
        if multipliers is None:
            multipliers = multiplier_grid(self.problem, n)
        multipliers = [positive("multiplier", c) for c in multipliers]
        path = solution_path(
            self.problem, multipliers, self.solver, warn=warn, tol=self.tol, verbose=self.verbose
        )
        for c, problem, solution in path:
            yield c, self._density(problem, solution, self.multiplier * c)

    def _density(self, problem: Problem, solution: Solution, multiplier: float) -> FittedDensity:
        # of features of kernels beta^2 is the strength of a square, which c multiplies
        kernel = kinds_of(self.posed.operators) == "k"
        beta = self.posed.beta * np.where(kernel, np.sqrt(multiplier), multiplier)
        return self._fitted(problem, solution, beta, self.offered)

    @property
    def offered(self) -> Offered:
        """What the features are chosen from: not ``posed``, whose rule looked at the presences."""
        return Offered.from_operators(self.operators, self.points.schema)

    def _fitted(
        self, problem: Problem, solution: Solution, beta: Array, origin: Origin
    ) -> FittedDensity:
        operators = self.posed.operators
        return FittedDensity.from_solution(
            self.points, operators, beta, problem, solution, origin, self.prevalence
        )

    # -- intervals -----------------------------------------------------------------------------

    def with_intervals(
        self, density: FittedDensity, w: Array, method: str, **settings: Any
    ) -> FittedDensity:
        """The density of weights w of the problem, with intervals by a method or by "none".

        ``settings`` are those of ``with_refits``.
        """
        check_method(method)
        if method == "none":
            return density
        if method == "laplace":
            return self.with_laplace(density)
        start = np.zeros(self.features.n_features)
        start[self.posed.chosen] = w
        return self.with_refits(density, start, **settings)

    def with_laplace(self, density: FittedDensity) -> FittedDensity:
        """A density of this task's records, with the curvature that its intervals are made of.

        Curvature is over the points of this task, which stand for those of the density where these
        are more. It is that of the features in use: the interval is one given their choice.
        """
        if not isinstance(self.entropy, Shannon):
            raise ValueError(
                f"intervals are of densities of Shannon's entropy, got {self.entropy!r}"
            )
        if not np.isfinite(density.beta).all():
            raise ValueError(
                "intervals by laplace need the penalties of the weights, which a mean of densities "
                "does not know: take intervals by bootstrap, or fit the species by itself"
            )
        points, c, size = self.points, self.multiplier, len(density.weights)
        # of features of kernels beta^2 is the strength of a square, which c multiplies
        beta = density.beta / np.where(density.kinds == "k", np.sqrt(c), c)
        potential = potentials.scaled(self.potential(beta, density.kinds), c)
        potential.check_size(size)
        n = points.record_weights.evidence().effective
        features = bound_features(density.operators, density, points.cells)
        theta = density.scorer.scores(points.cells)
        odds = np.exp(theta - theta.max(initial=-np.inf))
        fitted, predicted = (mass * odds / (mass @ odds) for mass in (points.default, points.mass))
        prior = prior_precision(potential, size, n)
        known = curvature(
            features, fitted, density.weights, n, prior, predicted if points.biased else None
        )
        return replace(density, uncertainty=known)

    def with_refits(
        self,
        density: FittedDensity,
        w: Array | None = None,
        *,
        n: int = 100,
        blocks: Array | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> FittedDensity:
        """A density of this task's records, with refits to resampled ones for its intervals.

        Refits start from the fit. They choose among the features it uses, those next to the records
        and 200 knots of each curve, and stop at a gap of 1e-5.

        Parameters
        ----------
        density : FittedDensity
            The density.
        w : array (n_features,), default None
            Weights of all features where refits start, such as ``Fit.w``.
        n : int, default 100
            How many refits.
        blocks : array (n_points,), default None
            The block of each point: whole blocks are drawn, so that records near one another come
            and go together. None draws single records.
        seed : int, default 0
            Seed of the draws; the same for any number of threads.
        n_jobs : int, default None
            Threads.
        verbose : int, default 0
            1 shows a progress line.
        """
        if not isinstance(self.entropy, Shannon):
            raise ValueError(
                f"intervals are of densities of Shannon's entropy, got {self.entropy!r}"
            )
        if n < 2:
            raise ValueError(f"intervals need 2 refits or more, got {n!r}")
        start = np.zeros(self.features.n_features) if w is None else w
        task, index = replace(self, tol=max(self.tol, _REFIT_TOL), verbose=0).thinned(start, _KNOTS)
        start = start[index]
        if blocks is None:
            drawn, n_blocks = self.resampled(n, seed), 0
        else:
            drawn, n_blocks = self._in_blocks(n, np.asarray(blocks), seed)

        def refit(counts: Array) -> tuple[Array, float, float]:
            other = task.with_counts(counts)
            if other.is_empty:  # no feature varies over these records: the default density
                even = float(np.log(self.points.n_points))
                return np.zeros(start.size), even, even
            found = other.fit(start)
            return found.w, found.density.log_partition, found.density.raw_entropy

        with one_blas_thread():
            fits = in_threads("bootstrap", refit, drawn, n_jobs, verbose)
        weights = np.array([one for one, _, _ in fits]).T
        # where the density is over more cells than the points that stand for them here
        more = np.log(density.n_points / self.points.n_points)
        used = np.flatnonzero(weights.any(axis=1))
        refits = Refits(
            tuple(part_of(task.operators, used)),
            weights[used],
            np.array([log_partition for _, log_partition, _ in fits]) + more,
            np.array([entropy for _, _, entropy in fits]) + more,
            blocks=n_blocks,
        )
        return replace(density, uncertainty=refits)

    def _in_blocks(self, n: int, blocks: Array, seed: int) -> tuple[list[Array], int]:
        """Counts of records whose blocks were drawn with replacement; and how many there are."""
        points = self.points
        if blocks.shape != (points.n_cells,):
            raise ValueError(
                f"blocks needs one number per point, shape ({points.n_cells},), got {blocks.shape}"
            )
        number = np.unique(blocks, return_inverse=True)[1]
        occupied = np.unique(number[points.counts > 0])
        if occupied.size < 2:
            raise ValueError(
                "all records lie in one block, so no blocks of them can be drawn: make the blocks "
                "smaller"
            )
        rng, drawn = np.random.default_rng(seed), []
        for _ in range(n):
            times = np.zeros(int(number.max()) + 1)
            times[occupied] = rng.multinomial(
                occupied.size, np.full(occupied.size, 1 / occupied.size)
            )
            drawn.append(points.counts * times[number])
        return drawn, int(occupied.size)

    # -- other tasks ---------------------------------------------------------------------------

    def only(self, variable: str) -> DensityTask:
        """The features of one variable, on its distinct values: the same fits, fewer cells."""
        points = self.points.at_values_of(variable)
        operators, _ = self._among([variable])
        features = bind(operators, points.cells)
        return replace(self, points=points, operators=operators, features=features)

    def without(self, variable: str) -> tuple[DensityTask, Array]:
        """The features that do not use a variable, and their index; -1 for one made anew."""
        names = self.points.schema.names
        operators, index = self._among([name for name in names if name != variable])
        if (index >= 0).all():
            features = self.features.restrict(index)
        else:
            features = bind(operators, self.points.cells)
        return replace(self, operators=operators, features=features), index

    def _among(self, names: Sequence[str]) -> tuple[list[Operator], Array]:
        """Operators that look at these variables alone, and the index of their features."""
        operators, index, start = [], [np.empty(0, dtype=np.intp)], 0
        for operator in self.operators:
            left = operator.among(names, self.points.schema.names, self.points.cells)
            if left is not None:
                operators.append(left.operator)
                index.append(np.where(left.index >= 0, left.index + start, -1))
            start += operator.n_features
        return operators, np.concatenate(index)

    def thinned(self, w: Array, knots: int) -> tuple[DensityTask, Array]:
        """Fewer features, which hold the density of the weights w, and their index.

        Of each curve that many knots, even in rank, those on both sides of every record and those
        in use; with all products and levels.
        """
        records = self.points.cells.take(self.points.counts > 0)
        index, start = [np.flatnonzero(w)], 0
        for operator in self.operators:
            index.append(start + operator.thinned(records, knots))
            start += operator.n_features
        kept = np.unique(np.concatenate(index))
        operators = part_of(self.operators, kept)
        features = bind(operators, self.points.cells)
        return replace(self, operators=operators, features=features), kept

    def resampled(self, n: int, seed: int) -> list[Array]:
        """``n`` times as many occurrences, drawn with replacement: counts for ``with_counts``."""
        observed = self.points.observed
        m, share = round(self.points.n_presences), observed / observed.sum()
        return list(np.random.default_rng(seed).multinomial(m, share, size=n).astype(np.float64))

    def with_counts(self, counts: Array) -> DensityTask:
        """The same points and features with other occurrences."""
        return replace(self, points=self.points.with_counts(counts))
