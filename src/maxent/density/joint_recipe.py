"""JointRecipe: how the densities of many species are fitted as one problem.

With places i, counts Y_is, n_s = sum_i Y_is, n = sum_s n_s and the features phi,

    min_W  sum_s n_s/n [ log sum_i exp(phi(x_i).w_s) - w_s.phibar_s ] + strength/2n tr(W A^-1 W'):

Shannon's entropy over one simplex of places per species, features (x) species, and the potential
``Coupled(A, Quadratic(strength / n))``. For its A that is one convex problem with a gap. A is not
known: it starts as the identity, and is taken anew from the weights a few times,

    A = (1 - mix) I + mix corr(W),       corr(W)_rs = <w_r, w_s> / ||w_r|| ||w_s||,

a reweighting, of which nothing is promised but that each of its problems is solved.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, special

from maxent import io
from maxent._support.checks import positive
from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.core.entropies import Entropy, Relative, Shannon
from maxent.core.maps import JointMap
from maxent.core.potentials import Coupled, Potential, Quadratic, Spiked
from maxent.core.problem import Problem
from maxent.core.solvers import JointNewton
from maxent.core.solvers.base import ConvergenceWarning, Solution
from maxent.core.solvers.joint_newton import drawn_cells
from maxent.density.explanation import MeanPlace
from maxent.density.joint import JointDensity, design
from maxent.density.model import Certificate, FittedDensity
from maxent.density.origin import kinds_of
from maxent.density.points import Points, check_missing, check_ranges
from maxent.density.recipe import Recipe
from maxent.features import FeatureClass, Kernel, Operator, Schema, bind, joined
from maxent.features.cells import is_frame, missing_rows, take_rows
from maxent.rows.arrays import Array

_ON_THE_WAY = 1e-3  # gap to which the rounds before the last are solved: A changes little by less
_LEAST_PLACES, _PLACES_PER_FEATURE = 2_000, 10  # of the sample that these rounds see
_TABLE = 257  # entries of the stored cumulative distribution of a species
_ROUNDED = 1e-5  # by which float32 may take a place below its own value
_WORDS = 5  # names that a message lists


class Sightings(NamedTuple):
    """Places with the records of every species: checked, without the rows that are left out."""

    points: Points
    counts: Any
    species: tuple[str, ...]

    @property
    def n_presences(self) -> Array:
        """Records of each species."""
        return np.asarray(self.counts.sum(axis=0), dtype=np.float64).ravel()

    def of(self, s: int) -> Array:
        """The records of a species at every place."""
        column = self.counts[:, [s]]
        return np.asarray(column.toarray() if sparse.issparse(column) else column).ravel()


@io.register
@dataclass(frozen=True, eq=False)
class JointRecipe:
    """Features, coupling and solver of the densities of a group; see the module for the problem.

    Parameters
    ----------
    features : FeatureClass or list of FeatureClass, default None
        None for ``Kernel()``. Features of a kernel have the size that the kernel gives them; those
        of each other class are scaled so that the class has the prior variance 1 in all.
    strength : float, default 1.0
        Factor of the penalty: 1 / strength multiplies the variances of the kernel.
    relation : "learned", "none", array or Spiked, default "learned"
        A: learned in rounds, the identity (species borrow nothing), or given, such as from a
        phylogeny, (n_species, n_species).
    mix : float, default 0.5
        Share of the correlations in A, in [0, 1).
    rounds : int, default 3
        How often A is taken from the weights.
    own : float, default 0.0
        Share of a species' own l1 density in the mean of logs, in [0, 1).
    own_recipe : Recipe, default None
        How that is fitted; None for ``Recipe()`` with the same categories.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type.
    tol : float, default 1e-6
        Duality gap at which to stop, in nats per record.
    memory : int, default 512 MiB
        Bytes of distributions that are kept for Newton's method. Where those of all places take
        more, the rounds before the last see a sample of the places; the last sees all.
    missing : "error" or "drop", default "error"
        What to do with rows that have a missing value.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    n_jobs : int, default None
        Threads of the species' own fits.
    verbose : int, default 0
        1 shows progress.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0.3, X[:, 0] > 0.5, X[:, 0] < -0.5]).astype(int)
    >>> joint = JointRecipe().fit(X, Y)
    >>> joint.correlations().round(1)[0].tolist()
    [1.0, 1.0, -0.9]
    """

    features: Any = None
    strength: float = 1.0
    relation: Any = "learned"
    mix: float = 0.5
    rounds: int = 3
    own: float = 0.0
    own_recipe: Recipe | None = None
    categorical: Iterable[Any] = ()
    tol: float = 1e-6
    memory: int = 1 << 29
    missing: str = "error"
    prevalence: float = 0.5
    n_jobs: int | None = None
    verbose: int = 0

    def check(self) -> None:
        """Refuse parameters that say nothing."""
        positive("strength", self.strength)
        check_missing(self.missing)
        for name in ("mix", "own"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value < 1):
                raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
        if not (isinstance(self.rounds, int | np.integer) and self.rounds >= 0):
            raise ValueError(f"rounds must be an integer >= 0, got {self.rounds!r}")
        if isinstance(self.relation, str) and self.relation not in ("learned", "none"):
            raise ValueError(
                f'relation must be "learned", "none" or a matrix, got {self.relation!r}'
            )
        if not self.tol > 0:
            raise ValueError(f"tol must be > 0, got {self.tol!r}")
        self._classes()

    def _classes(self) -> list[FeatureClass]:
        if self.features is None:
            return [Kernel()]
        listed = [self.features] if isinstance(self.features, FeatureClass) else self.features
        if isinstance(listed, str) or not all(isinstance(f, FeatureClass) for f in listed):
            raise ValueError(
                "features must be feature classes, such as Kernel() or [Linear(), Square()], got "
                f"{self.features!r}"
            )
        return list(listed)

    # -- the data ------------------------------------------------------------------------------

    def read(self, X: Any, Y: Any, species: Sequence[str] | None = None) -> Sightings:
        """Checked places and counts; X (places, variables), Y (places, species)."""
        X = X if is_frame(X) else np.asarray(X)
        if not is_frame(X) and X.ndim != 2:
            raise ValueError(f"X must have a row for each place, 2 dimensions, got {X.ndim}")
        counts, names = _counts(Y, species)
        if counts.shape[0] != len(X):
            raise ValueError(
                f"X has {len(X)} places and Y {counts.shape[0]} rows: Y needs a row for each place "
                "and a column for each species"
            )
        if self.missing == "drop":
            kept = ~missing_rows(X)
            if not kept.all():
                X, counts = take_rows(X, np.flatnonzero(kept)), counts[np.flatnonzero(kept)]
        if len(X) < 2:
            raise ValueError(
                "X has one sample: a density needs several places" if len(X) else "X has no place"
            )
        schema = Schema.from_table(X, self.categorical)
        ones = np.ones(len(X))
        sums = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
        points = Points(schema, schema.read(X), sums, ones, ones)
        check_ranges(schema, *points.ranges)
        found = Sightings(points, counts, names)
        number = found.n_presences
        if not number.any():
            raise ValueError("Y holds no record of any species")
        bare = [names[s] for s in np.flatnonzero(number == 0)]
        if bare:
            more = "" if len(bare) <= _WORDS else f" and {len(bare) - _WORDS} others"
            warnings.warn(
                f"{len(bare)} of {len(names)} species have no record: {', '.join(bare[:_WORDS])}"
                f"{more}; their densities are even",
                stacklevel=3,
            )
        return found

    def pose(self, data: Sightings) -> JointTask:
        """The features of the places, ready to be fitted."""
        points = data.points
        made = (kind.fit(points.cells, points.schema, points.presences) for kind in self._classes())
        operators = tuple(joined([operator for part in made for operator in part]))
        if not operators:
            raise ValueError("no feature varies over the places")
        Z = design(operators, points.cells)
        units = _units(operators, Z)
        mean = np.empty(Z.shape[1])
        for j in range(Z.shape[1]):  # in float64 without a copy of all
            column = Z[:, j].astype(np.float64) / units[j]
            mean[j] = column.mean()
            Z[:, j] = column - mean[j]
        return JointTask(self, data, operators, Z, units, mean * units)

    def fit(self, X: Any, Y: Any, species: Sequence[str] | None = None) -> JointDensity:
        """The densities of the species of Y, (places, species) counts, over the places X."""
        self.check()
        with one_blas_thread():
            return self.pose(self.read(X, Y, species)).fit()


@dataclass(frozen=True, eq=False)
class JointTask:
    """A joint problem to be solved: centred features Z of the places, in units of the penalty.

    ``Z = (phi - centre) / units``; the weights of phi are those of Z over the units.

    Parameters
    ----------
    recipe : JointRecipe
        What the user chose.
    data : Sightings
        Places and counts.
    operators : tuple of Operator
        The features.
    Z : array (n_places, n_features)
        The features at the places, float32.
    units : array (n_features,)
        What each is divided by.
    centre : array (n_features,)
        The mean of each.
    """

    recipe: JointRecipe
    data: Sightings
    operators: tuple[Operator, ...]
    Z: Array
    units: Array
    centre: Array

    @property
    def n(self) -> float:
        """All records."""
        return float(self.data.n_presences.sum())

    def problem(self, potential: Potential, exact: bool = False) -> Problem:
        """The problem with a potential of the flattened weights (features, species)."""
        return self._posed(Shannon(), self.Z, potential, exact)

    def _posed(self, entropy: Entropy, Z: Array, potential: Potential, exact: bool) -> Problem:
        target = np.asarray(self._sums / self.n).ravel()
        weights = self.data.n_presences / self.n
        features = JointMap(Z, len(self.data.species), exact)
        return Problem(entropy, features, potential, target=target, weights=weights)

    def _way_problem(self, potential: Potential) -> Problem:
        """The problem of a round before the last, over a sample of many places.

        Its sums over the places are weighted, and the means of the features at records are those
        of all of them: A has errors of the sample, the last round has none.
        """
        if self._sample is None:
            return self.problem(potential)
        chosen, mass = self._sample
        return self._posed(Relative(Shannon(), mass), self.Z[chosen], potential, exact=False)

    @cached_property
    def _sample(self) -> tuple[Array, Array] | None:
        """Places and their masses, half of them drawn evenly and half by records; None for all."""
        places, species = self.data.counts.shape
        most = self.recipe.memory // (species * self.Z.itemsize)
        most = max(int(most), _LEAST_PLACES, _PLACES_PER_FEATURE * self.Z.shape[1])
        if most >= places:
            return None
        records = np.asarray(self.data.counts.sum(axis=1), dtype=np.float64).ravel()
        return drawn_cells(records, most)

    @cached_property
    def _sums(self) -> Array:
        """`Z'Y` in float64."""
        total = np.zeros((self.Z.shape[1], len(self.data.species)))
        for start in range(0, len(self.Z), 1 << 12):
            rows = slice(start, start + (1 << 12))
            part = self.Z[rows].T.astype(np.float64)
            total += np.asarray(part @ self.data.counts[rows])
        return total

    def coupled(self, relation: Spiked) -> Coupled:
        """The potential for a relation."""
        return Coupled(relation, Quadratic(self.recipe.strength / self.n))

    def solve(self) -> tuple[Spiked, Solution, int]:
        """The last relation, the solution under it, and how many rounds there were."""
        recipe, size = self.recipe, len(self.data.species)
        learned = isinstance(recipe.relation, str) and recipe.relation == "learned"
        rounds = recipe.rounds if learned and recipe.mix and size > 1 else 0
        relation, w = self._first_relation(), None
        for left in range(rounds, -1, -1):
            tol = recipe.tol if not left else max(recipe.tol, _ON_THE_WAY)
            solver = JointNewton(tol, memory=recipe.memory, verbose=recipe.verbose)
            posed = self._way_problem if left else self.problem
            solution = solver.run(posed(self.coupled(relation)), w)
            w = solution.w
            if left:
                relation = related(w.reshape(-1, size), recipe.mix)
        return relation, solution, rounds

    def _first_relation(self) -> Spiked:
        given, size = self.recipe.relation, len(self.data.species)
        if isinstance(given, str):
            return Spiked.identity(size)
        relation = given if isinstance(given, Spiked) else Spiked.from_matrix(given)
        if relation.size != size:
            raise ValueError(f"relation is of {relation.size} species, Y has {size}")
        return relation

    def fit(self) -> JointDensity:
        """The densities, with the certificate of the joint problem in float64."""
        relation, solution, rounds = self.solve()
        recipe, size = self.recipe, len(self.data.species)
        exact = self.problem(self.coupled(relation), exact=True)
        state = exact.state(solution.w)
        solution = replace(
            solution, gap=state.gap, optimality=state.optimality, objective=state.dual
        )
        certificate = Certificate.from_solution(exact, solution)
        if not solution.status.reached:
            warnings.warn(f"the joint fit {solution}", ConvergenceWarning, stacklevel=4)
        W = solution.w.reshape(-1, size)
        own = self._own() if recipe.own else ()
        sums = self._summed(W, own)
        points, number = self.data.points, self.data.n_presences
        each = 0.5 * recipe.strength * (W * relation.times(W, -1.0)).sum(axis=0)
        joint = np.array(
            [1.0 if not own or own[s] is None else 1 - recipe.own for s in range(size)]
        )
        weights = W / self.units[:, None]
        low, high = points.ranges
        return JointDensity(
            schema=points.schema,
            species=self.data.species,
            operators=self.operators,
            weights=weights,
            relation=relation,
            strength=float(recipe.strength),
            rounds=rounds,
            own_share=float(recipe.own),
            own=own,
            shift=sums.shift + joint * (self.centre @ weights),
            log_total=sums.log_total,
            raw_entropy=sums.raw_entropy,
            cumulative=sums.cumulative,
            n_presences=number,
            gains=sums.gain,
            penalties=each / np.maximum(number, 1.0),
            low=low,
            high=high,
            mean_place=MeanPlace(*points.mean_place()),
            n_points=points.n_points,
            certificate=certificate,
            prevalence=recipe.prevalence,
        )

    # -- the species' own ----------------------------------------------------------------------

    def _own(self) -> tuple[FittedDensity | None, ...]:
        """Each species' own density; None where its records say nothing by themselves."""
        recipe = self.recipe.own_recipe
        if recipe is None:
            recipe = Recipe(categorical=tuple(self.data.points.schema.categorical))
        chosen = recipe

        def fit(s: int) -> FittedDensity | None:
            counts = self.data.of(s)
            if not counts.any() or (counts == counts[0]).all():
                return None
            try:
                return chosen.task_of(self.data.points.with_counts(counts)).fit().density
            except ValueError:  # no feature varies over its records
                return None

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            verbose = self.recipe.verbose
            every = range(len(self.data.species))
            return tuple(in_threads("own densities", fit, every, self.recipe.n_jobs, verbose))

    # -- sums over the places ------------------------------------------------------------------

    def _summed(self, W: Array, own: Sequence[FittedDensity | None]) -> _Sums:
        """What prediction needs of the scores at the places, species by species."""
        size, cells = len(self.data.species), self.data.points.cells
        sums = _Sums.empty(size)
        counts = sparse.csc_array(self.data.counts)
        number = self.data.n_presences
        share = self.recipe.own

        def use(rows: slice, q: Array, peak: Array, total: Array) -> None:
            for k, s in enumerate(range(rows.start, rows.stop)):
                theta = None
                alone = own[s] if own else None
                if alone is not None:
                    with np.errstate(divide="ignore"):
                        joint = np.log(q[k].astype(np.float64)) + peak[k]
                    mine = bind(alone.operators, cells).scores(alone.weights)
                    theta = (1 - share) * joint + share * mine
                    top = float(theta.max())
                    values = np.exp(theta - top)
                else:
                    top, values = float(peak[k]), q[k].astype(np.float64)
                column = slice(counts.indptr[s], counts.indptr[s + 1])
                at, records = counts.indices[column], counts.data[column]
                sums.put(s, top, values, at, records, float(number[s]))

        JointMap(self.Z, size).over_distributions(W.ravel(), None, use)
        return sums


class _Sums(NamedTuple):
    """Of every species: largest score, log of the sum relative to it, entropy, table, gain."""

    shift: Array
    log_total: Array
    raw_entropy: Array
    cumulative: Array
    gain: Array

    @classmethod
    def empty(cls, size: int) -> _Sums:
        """To be filled."""
        one, two, three, four = np.empty((4, size))
        return cls(one, two, three, np.empty((size, 2, _TABLE)), four)

    def put(
        self, s: int, top: float, values: Array, at: Array, records: Array, number: float
    ) -> None:
        """Those of one species, from `exp(theta - top)` at the places."""
        total = float(values.sum())
        p = values / total
        self.shift[s], self.log_total[s] = top, np.log(total)
        self.raw_entropy[s] = float(special.entr(p).sum())
        ordered = np.sort(p)
        below = np.cumsum(ordered)
        place = np.searchsorted(below, np.linspace(0, below[-1], _TABLE)).clip(0, p.size - 1)
        place[0], place[-1] = 0, p.size - 1
        self.cumulative[s] = (1 - _ROUNDED) * ordered[place], below[place] / below[-1]
        with np.errstate(divide="ignore"):
            logs = np.log(p[at]) + np.log(p.size)
        self.gain[s] = float(records @ logs) / number if number else 0.0


def related(W: Array, mix: float) -> Spiked:
    """`(1 - mix) I + mix corr(W)` of the columns of W; those without weights are like no other."""
    square = (W * W).sum(axis=0)
    size = np.sqrt(square + 1e-6 * square.mean() + 1e-300)
    return Spiked.from_factor(1 - mix, np.sqrt(mix) * (W / size))


def _units(operators: Sequence[Operator], Z: Array) -> Array:
    """What each feature is divided by: 1 for kernels, else sd sqrt(count) of its operator.

    So that all features of an operator have the prior variance 1 together.
    """
    kinds, units, start = kinds_of(operators), np.ones(Z.shape[1]), 0
    for operator in operators:
        mine = slice(start, start + operator.n_features)
        start = mine.stop
        if (kinds[mine] != "k").all():
            spread = Z[:, mine].std(axis=0, dtype=np.float64)
            units[mine] = np.where(spread > 0, spread, 1.0) * np.sqrt(operator.n_features)
    return units


def _counts(Y: Any, species: Sequence[str] | None) -> tuple[Any, tuple[str, ...]]:
    """Counts as float64, dense or CSR, and the names of the species."""
    named = species
    if is_frame(Y):
        named = list(Y.columns) if species is None else species
        Y = Y.to_numpy()
    if sparse.issparse(Y):
        Y = sparse.csr_array(Y)
        values = Y.data
    else:
        Y = np.asarray(Y)
        if Y.dtype.kind == "O":
            with suppress(TypeError, ValueError):
                Y = Y.astype(np.float64)
        values = Y
    if Y.ndim != 2 or not Y.shape[1]:
        raise ValueError(
            f"Y needs a row for each place and a column for each species, got shape {Y.shape}"
            + ("; of one species: Y[:, None]" if Y.ndim == 1 else "")
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(f"Y counts records: expected numbers, got {values.dtype}")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError("Y counts records: it holds NaN or infinity; no record is 0")
        broken = values[values != np.floor(values)]
        if broken.size:
            raise ValueError(f"Y counts records: expected integers, got {broken[0]:g}")
    if values.size and values.min() < 0:
        raise ValueError(f"Y counts records and cannot be negative: got {values.min():g}")
    names = tuple(map(str, range(Y.shape[1]) if named is None else named))
    if len(names) != Y.shape[1]:
        raise ValueError(f"Y has {Y.shape[1]} columns, and there are {len(names)} species")
    twice = (
        sorted({name for name in names if names.count(name) > 1})
        if len(set(names)) < len(names)
        else []
    )
    if twice:
        raise ValueError(f"the species {', '.join(twice[:_WORDS])} have several columns")
    return Y.astype(np.float64), names
