"""Refits: the density of a sample on other counts or with fewer variables, quietly, in threads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from maxent._progress import Progress
from maxent._rows import Array
from maxent._threads import one_blas_thread
from maxent.entropies import Relative
from maxent.estimators import MaxentDensity
from maxent.estimators.density import _Prepared
from maxent.features import (
    Additive,
    Cells,
    Operator,
    OperatorMap,
    Products,
    Schema,
    bind,
    part_of,
)
from maxent.solvers.base import ConvergenceWarning
from maxent.species.results import Sample

REFIT_TOL = 1e-5  # duality gap of refits
KNOTS = 200  # of a curve, where features are thinned

Item = TypeVar("Item")
Result = TypeVar("Result")


def fit_sample(estimator: MaxentDensity, sample: Sample) -> MaxentDensity:
    """A fresh copy of the estimator, fitted to the sample with its sampling effort as prior."""
    return clone(estimator).fit(sample.X, sample.counts, prior=sample.prior)


def coarse(estimator: MaxentDensity) -> MaxentDensity:
    """The estimator as diagnostics use it: silent, with a gap of ``REFIT_TOL``."""
    return clone(estimator).set_params(tol=max(estimator.tol, REFIT_TOL), verbose=0)


class Refit(NamedTuple):
    """A model and the weights of all features, to start others from."""

    model: MaxentDensity
    w: Array


@dataclass(frozen=True, eq=False)
class Refits:
    """Fits to the cells of one sample: to other counts, or with some of the features.

    The table is read, knots are set and features bound once. All fits are over the same points,
    those with the records of the sample included.
    """

    estimator: MaxentDensity
    prepared: _Prepared
    operators: list[Operator]
    features: OperatorMap
    cells: Cells
    entropy: Relative
    observed: Array  # share of the occurrences in each cell

    @classmethod
    def of(cls, estimator: MaxentDensity, sample: Sample) -> Refits:
        """All features of the estimator on the cells of a sample."""
        estimator = coarse(estimator)
        with refitting():
            prepared = estimator._prepare(sample.X, sample.counts, None, sample.prior)
        problem = prepared.problem
        return cls(
            estimator,
            prepared,
            prepared.operators,
            problem.features,
            prepared.cells,
            problem.entropy,  # type: ignore[arg-type]
            problem.observed,
        )

    def only(self, variable: int) -> Refits:
        """The features of one variable, on its distinct values: the same fits, fewer cells."""
        schema = self.prepared.schema
        mine = variables_of(self.operators, schema) == variable
        operators = part_of(self.operators, np.flatnonzero(mine.all(axis=0)))
        name = schema.names[variable]
        if name in schema.categorical:
            column = self.cells.codes[schema.categorical.index(name)]
        else:
            column = self.cells.values[schema.continuous.index(name)]
        _, first, place = np.unique(column, return_index=True, return_inverse=True)
        cells = self.cells.take(first)
        return replace(
            self,
            prepared=replace(self.prepared, mass=np.bincount(place, self.prepared.mass)),
            operators=operators,
            features=bind(operators, cells),
            cells=cells,
            entropy=Relative(self.entropy.entropy, np.bincount(place, self.entropy.q0)),
            observed=np.bincount(place, self.observed),
        )

    def without(self, variable: int) -> tuple[Refits, Array]:
        """The features that do not use a variable, and their index."""
        mine = variables_of(self.operators, self.prepared.schema) == variable
        index = np.flatnonzero(~mine.any(axis=0))
        return self._restrict(index), index

    def thinned(self, w: Array) -> tuple[Refits, Array]:
        """Fewer features, which hold the density of the weights w, and their index.

        Of each curve ``KNOTS`` knots, even in rank, those on both sides of every record and those
        in use; with all products and levels.
        """
        index, start = [np.flatnonzero(w)], 0
        for operator in self.operators:
            chosen = (
                _thinned_knots(operator, self.cells.take(self.observed > 0))
                if isinstance(operator, Additive)
                else np.arange(operator.n_features)
            )
            index.append(start + chosen)
            start += operator.n_features
        kept = np.unique(np.concatenate(index))
        operators = part_of(self.operators, kept)
        return replace(self, operators=operators, features=bind(operators, self.cells)), kept

    def _restrict(self, index: Array) -> Refits:
        operators, features = part_of(self.operators, index), self.features.restrict(index)
        return replace(self, operators=operators, features=features)

    def resampled(self, n: int, seed: int) -> list[Array]:
        """``n`` times as many occurrences, drawn with replacement, as shares of the cells."""
        m, share = round(self.prepared.n_presences), self.observed / self.observed.sum()
        return list(np.random.default_rng(seed).multinomial(m, share, size=n) / m)

    def fit(self, observed: Array | None = None, start: Array | None = None) -> Refit | None:
        """The density of these occurrences, from the weights ``start``; None for no feature."""
        if not self.features.n_features:
            return None
        observed = self.observed if observed is None else observed
        estimator, m = clone(self.estimator), self.prepared.n_presences
        beta, off = estimator._beta(self.operators, self.features, observed, m)
        on = np.flatnonzero(~off)
        if not on.size:
            return None
        part, beta = self._restrict(on) if off.any() else self, beta[on]
        problem = estimator._posed(self.entropy, part.features, beta, observed)
        w0 = None if start is None else start[on]
        solution = problem.solve(estimator.solver, w0, tol=estimator.tol, verbose=0)
        prepared = replace(self.prepared, operators=part.operators, problem=problem, beta=beta)
        model = estimator._finish(prepared, problem, solution)
        model.feature_names_in_ = self.estimator.feature_names_in_
        w = np.zeros(off.size)
        w[on] = solution.w
        return Refit(model, w)


def _thinned_knots(operator: Additive, records: Cells) -> Array:
    """Some features of each curve: even in rank, and next to the records."""
    other = (np.diff(operator.variable) != 0) | (np.diff(operator.kind) != 0)
    edges = [0, *(np.flatnonzero(other) + 1).tolist(), operator.n_features]
    chosen = []
    for first, end in pairwise(edges):
        even = np.linspace(0, end - first - 1, min(KNOTS, end - first)).astype(np.intp)
        values = records.values[operator.variable[first]]
        above = np.searchsorted(operator.knot[first:end], values)
        near = np.concatenate([above - 1, above]).clip(0, end - first - 1)
        chosen.append(first + np.concatenate([even, near]))
    return np.concatenate(chosen)


def variables_of(operators: Sequence[Operator], schema: Schema) -> Array:
    """(2, features): the two variables of each product; the variable of the others, twice."""
    place = {name: i for i, name in enumerate(schema.names)}
    found = [np.empty((2, 0), dtype=np.intp)]
    for operator in operators:
        columns = np.array([place[name] for name in operator.variables])  # type: ignore[attr-defined]
        if isinstance(operator, Products):
            pair = np.stack([operator.first, operator.second])
        else:
            pair = np.stack([operator.variable] * 2)  # type: ignore[attr-defined]
        found.append(columns[pair])
    return np.concatenate(found, axis=1)


def run_all(
    name: str,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None,
    verbose: int,
) -> list[Result]:
    """``work`` on every item, in threads, without the warnings of refits."""
    progress = Progress(name, verbose)
    done = 0

    def run(item: Item) -> Result:
        nonlocal done
        result = work(item)
        done += 1
        progress.update(f"{done} of {len(items)}")
        return result

    with refitting():  # changes the whole process, so it is entered here and not in the threads
        try:
            return Parallel(n_jobs=n_jobs, prefer="threads")(delayed(run)(item) for item in items)
        finally:
            progress.close()


@contextmanager
def refitting() -> Iterator[None]:
    """No warnings about refits: the fit to all rows has said what is wrong with the data."""
    expected = "constant columns|.*levels .* were not there|categorical columns .* are not used"
    with warnings.catch_warnings(), one_blas_thread():
        warnings.filterwarnings("ignore", message=expected)
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        yield


def per_record(values: Array, counts: Array) -> Array:
    """The value of each occurrence: that of its row, as often as the row counts."""
    return np.repeat(values, np.asarray(counts).astype(np.int64))


def deviation(repeats: Array) -> Array:
    """Standard deviation over the first axis, NaN where there is one repeat alone."""
    if len(repeats) < 2:
        return np.full(repeats.shape[1:], np.nan)
    return np.asarray(repeats.std(axis=0, ddof=1))


def check_whole(name: str, value: Any, least: int) -> None:
    """An integer of at least ``least``."""
    if not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
