"""Linear models on tables in blocks: rows are read where they are, and sums of them travel.

A plan says what targets become; a pass over the blocks gives the sums that all rows share (weights,
means of columns), and another makes the blocks of the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial, wraps
from numbers import Real
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from maxent._support.checks import masses
from maxent.core.entropies import Entropy
from maxent.core.problem import Problem, State
from maxent.core.solvers import Solution
from maxent.learn.linear.base import FLOATS, SPARSE, FenchelYoungModel, LinearFit
from maxent.learn.linear.class_weight import factors_of_classes, label_totals, log_factors, row_logs
from maxent.learn.linear.design import column_means, sample_map, with_ones
from maxent.learn.linear.two_classes import class_rows
from maxent.rows.arrays import Array
from maxent.rows.blocks import Blocks, InBlocks, SampleBlock, SampleBlockMap
from maxent.rows.blocks.lazy import lazy_rows
from maxent.rows.blocks.table import Part, block_table, is_blocked

if TYPE_CHECKING:
    from maxent.learn.linear.fenchel_young import (
        FenchelYoungClassifier,
        FenchelYoungMultilabel,
        FenchelYoungRegressor,
    )

ReadTarget = Callable[[Any, Any], Array]


# -- what targets become ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plan:
    """Targets that are rows of the entropy's domain already."""

    entropy: Entropy

    def weights(self, target: Array, weight: Array) -> Array:
        """The weights of rows in the fit."""
        return weight

    def rows(self, target: Array) -> tuple[Entropy, Array]:
        """The entropy of rows, with their costs, and the observed rows."""
        self.entropy.domain.require(target, "y")
        return self.entropy, target

    def trained(self) -> Entropy:
        """The entropy of the problem; where rows have costs, that of one of them."""
        return self.entropy


@dataclass(frozen=True, eq=False)
class ClassPlan(Plan):
    """Labels of classes, each with the factor of its weights; ``cost`` as the estimator has it."""

    classes: Array
    factors: Array
    cost: Array | None

    def weights(self, target: Array, weight: Array) -> Array:
        """Times the factors of the classes."""
        return weight * self.factors[np.searchsorted(self.classes, target)]

    def rows(self, target: Array) -> tuple[Entropy, Array]:
        """One-hot rows; two classes have one output."""
        labels = np.searchsorted(self.classes, target)
        return class_rows(self.entropy, self.cost, labels, self.classes.size)

    def trained(self) -> Entropy:
        """That of the first class."""
        return self.rows(self.classes[:1])[0]


@dataclass(frozen=True, eq=False)
class LabelPlan(Plan):
    """Rows of 0 and 1, whose weights have the factors exp(logs) of their labels over exp(top)."""

    logs: Array
    top: float

    def weights(self, target: Array, weight: Array) -> Array:
        """Times the factors of the labels."""
        return weight * np.exp(row_logs(self.logs, target) - self.top)


# -- blocks of rows --------------------------------------------------------------------------------


class Header(NamedTuple):
    """Names of the columns (or their number), labels in a row of y, and rows."""

    columns: tuple[Any, ...] | int
    widths: dict[int, int]
    n_rows: int

    def merge(self, other: Header) -> Header:
        """Of two pieces of a table whose columns are the same."""
        return Header(self.columns, self.widths | other.widths, self.n_rows + other.n_rows)


class ClassTotals(NamedTuple):
    """Classes, and the weight of the rows of each."""

    classes: Array
    totals: Array

    @classmethod
    def from_labels(cls, labels: Array, weight: Array) -> ClassTotals:
        """Of labels and their weights."""
        classes, position = np.unique(labels, return_inverse=True)
        return cls(classes, np.bincount(position, weight, minlength=classes.size))

    def merge(self, other: ClassTotals) -> ClassTotals:
        """Of two pieces."""
        return ClassTotals.from_labels(
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.totals, other.totals]),
        )


class SetSizes(NamedTuple):
    """Fewest and most labels per row, and ``where`` there are fewest; number of labels."""

    least: int
    most: int
    where: str
    n_labels: int

    @classmethod
    def from_rows(cls, Y: Array, where: str | None = None) -> SetSizes:
        """Of rows of 0 and 1."""
        counts = Y.sum(axis=1)
        where = f"row {int(counts.argmin())}" if where is None else where
        return cls(int(counts.min()), int(counts.max()), where, Y.shape[1])

    def merge(self, other: SetSizes) -> SetSizes:
        """Of two pieces."""
        fewest = min(self, other, key=lambda sizes: sizes.least)
        return fewest._replace(most=max(self.most, other.most))


class DesignSums(NamedTuple):
    """Number of rows, and sums with their weights: of 1, of columns, of observed rows.

    ``sparse`` is whether some block is; ``columns`` are 0 where no intercept asks for their means.
    """

    n_rows: int
    weight: float
    columns: Array
    observed: Array
    sparse: bool

    def merge(self, other: DesignSums) -> DesignSums:
        """Of two pieces."""
        return DesignSums(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.columns + other.columns,
            self.observed + other.observed,
            self.sparse or other.sparse,
        )


@dataclass(eq=False)
class TargetBlock:
    """The rows of a block with a weight above 0, X and y checked; X is None where there are none.

    ``header`` is that of all rows.
    """

    number: int
    header: Header
    X: Any
    target: Array
    weight: Array

    def headers(self) -> Header:
        """What the table has."""
        return self.header

    def class_totals(self) -> ClassTotals | None:
        """Of targets that are labels."""
        return None if self.X is None else ClassTotals.from_labels(self.target, self.weight)

    def label_totals(self) -> Array | None:
        """The weight of the rows with a 0 and a 1 of each label."""
        return None if self.X is None else label_totals(self.target, self.weight)

    def largest_log(self, logs: Array) -> float | None:
        """The largest sum of the logarithms of factors."""
        return None if self.X is None else float(row_logs(logs, self.target).max())

    def set_sizes(self) -> SetSizes | None:
        """Of targets that are 0 and 1."""
        if self.X is None:
            return None
        return SetSizes.from_rows(self.target, f"a row of block {self.number}")

    def sums(self, plan: Plan, means: bool) -> DesignSums | None:
        """What all rows share; ``means`` is whether those of the columns are asked for."""
        if self.X is None:
            return None
        weight = plan.weights(self.target, self.weight)
        _, observed = plan.rows(self.target)
        dense = means and not sparse.issparse(self.X)
        return DesignSums(
            len(weight),
            float(weight.sum()),
            column_means(self.X, weight) if dense else np.zeros(self.X.shape[1]),
            weight @ observed,
            sparse.issparse(self.X),
        )

    def samples(self, plan: Plan, whole: float, center: Array | None, order: Any) -> SampleBlock:
        """The rows of the problem; ``center`` is None without an intercept."""
        if self.X is None:
            return SampleBlock(self.number, plan.entropy, None, self.weight, self.target)
        trained, observed = plan.rows(self.target)
        X = self.X if order is None else self.X[:, order]
        X = X if center is None else with_ones(X, center)
        weight = plan.weights(self.target, self.weight) / whole
        features = sample_map(X, observed.shape[1])
        return SampleBlock(self.number, trained, features, weight, observed)


def read_rows(part: Part, read_target: ReadTarget) -> TargetBlock:
    """The rows of a block, checked as those of a table in memory are."""
    X, count = part.X, part.n_rows()
    names = getattr(X, "columns", None)
    columns = X.shape[1] if names is None else tuple(names)
    if not count:
        return TargetBlock(part.number, Header(columns, {}, 0), None, np.zeros(0), np.zeros(0))
    dtype = np.float64 if sparse.issparse(X) else FLOATS
    X = check_array(X, accept_sparse=SPARSE, dtype=dtype, input_name="X")
    target = read_target(X, part.columns["y"])
    widths = {part.number: target.shape[1]} if target.ndim == 2 else {}
    weight = masses("sample_weight", part.columns.get("sample_weight"), count)
    if not weight.all():
        rows = np.flatnonzero(weight)
        target, weight = target[rows], weight[rows]
        X = X[rows] if not sparse.issparse(X) else sparse.csr_array(X)[rows]
    X = X if weight.size else None
    return TargetBlock(part.number, Header(columns, widths, count), X, target, weight)


def read_labels(labels: ReadTarget, X: Any, y: Any) -> Array:
    """Labels of a block; each class is shown often enough that few rows look like no classes."""
    if y is None:
        return labels(X, y)  # says what is missing
    y = column_or_1d(y, warn=True)
    classes = np.repeat(np.unique(y), 4)
    labels(classes, classes)
    return y


def target_blocks(
    model: FenchelYoungModel, X: Any, y: Any, sample_weight: Any, read: ReadTarget
) -> Blocks:
    """The rows of a table in blocks; its columns become those of the model."""
    if model.kernel is not None:
        raise ValueError(
            f"kernel={model.kernel!r} compares every row with every other, which a table in blocks "
            "has too many of: leave kernel=None, or give rows that fit in memory"
        )
    if y is None:
        read(X, y)
    if isinstance(sample_weight, Real):  # the same for all rows: none
        masses("sample_weight", sample_weight, 1)
        sample_weight = None
    table = block_table(X, y=y, sample_weight=sample_weight)
    table.names()
    blocks = table.blocks.map(read_rows, read)
    header: Header = blocks.reduce("headers", merge=Header.merge)
    if not header.n_rows:
        raise ValueError("X has no rows in any of its blocks: a fit needs at least one")
    if len(set(header.widths.values())) > 1:
        raise ValueError(
            f"y must have as many columns in every block, got {header.widths} (by block)"
        )
    validate_data(model, _no_rows(header.columns), reset=True, skip_check_array=True)
    return blocks


def _no_rows(columns: tuple[Any, ...] | int) -> Any:
    """A table of these columns without rows, which tells scikit-learn of their names."""
    if isinstance(columns, int):
        return np.empty((0, columns))
    import pandas as pd

    return pd.DataFrame(columns=list(columns))


# -- the problem -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BlockFit(LinearFit):
    """Rows in blocks; ``sums`` has the columns in the order of the potential."""

    blocks: Blocks
    sums: DesignSums

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of the design without ones, and outputs."""
        return self.sums.columns.size, self.sums.observed.size

    @property
    def center(self) -> Array:
        """What is taken off the columns."""
        return center(self.sums)

    @property
    def observed_mean(self) -> Array:
        """The weighted mean of the observed rows."""
        return self.sums.observed / self.sums.weight

    def problem(self) -> Problem:
        """mean loss + V*(weights), with a free intercept for each output."""
        columns, outputs = self.shape
        size = (columns + self.intercept) * outputs
        features = SampleBlockMap(self.blocks, size, self.sums.n_rows, outputs)
        return self._problem(features, observed=InBlocks())

    def prediction(self, solution: Solution) -> None:
        """None: it stays in the blocks."""

    def gap(self, state: State, p: Array | None) -> float:
        """The certificate at p_w."""
        return state.gap


def center(sums: DesignSums) -> Array:
    """The means of the columns; 0 where some are sparse, or where they were not asked for."""
    return np.zeros_like(sums.columns) if sums.sparse else sums.columns / sums.weight


def block_fit(
    model: FenchelYoungModel, blocks: Blocks, plan: Plan
) -> tuple[BlockFit, Array | None]:
    """The problem of a model, and the order in which its potential takes the columns."""
    intercept = bool(model.fit_intercept)
    model._check_kinks(plan.entropy)
    trained = plan.trained()
    if not trained.differentiable:
        raise ValueError(
            f"{plan.entropy!r} gives a loss with kinks, whose solvers move single rows: for a "
            "table in blocks take a strictly convex entropy such as Tsallis(1.5), or rows in memory"
        )
    sums: DesignSums = _some(blocks.reduce("sums", plan, intercept, merge=DesignSums.merge))
    potential, order = model._laid_out(sums.columns.size, sums.observed.size)
    if order is not None:
        sums = sums._replace(columns=sums.columns[order])
    middle = center(sums) if intercept else None
    samples = blocks.map("samples", plan, sums.weight, middle, order)
    return BlockFit(trained, potential, intercept, samples, sums), order


def _some(found: Any) -> Any:
    """What the rows in use say, where there are some."""
    if found is None:
        raise ValueError("all sample weights are zero: give some rows a positive weight")
    return found


def fit_classes(model: FenchelYoungClassifier, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a classifier to a table in blocks."""
    entropy, read = model._entropy(), partial(read_labels, type(model)()._labels)
    blocks = target_blocks(model, X, y, sample_weight, read)
    found: ClassTotals = _some(blocks.reduce("class_totals", merge=ClassTotals.merge))
    classes, totals = found
    model._know(classes)
    factors = factors_of_classes(model.class_weight, classes, totals, totals.sum())
    plan = ClassPlan(entropy, classes, factors, model._cost())
    fit, order = block_fit(model, blocks, plan)
    del blocks  # the rows as they were read may leave the memory
    model._descend(fit, entropy, order)


def fit_proportions(model: FenchelYoungRegressor, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a model of proportions to a table in blocks."""
    entropy = model._entropy()
    blocks = target_blocks(model, X, y, sample_weight, type(model)()._proportions)
    fit, order = block_fit(model, blocks, Plan(entropy))
    del blocks  # the rows as they were read may leave the memory
    model._descend(fit, entropy, order)


def fit_labels(model: FenchelYoungMultilabel, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a model of several labels to a table in blocks."""
    blocks = target_blocks(model, X, y, sample_weight, type(model)()._indicators)
    sizes: SetSizes = _some(blocks.reduce("set_sizes", merge=SetSizes.merge))
    entropy = model._entropy(sizes)
    plan = Plan(entropy)
    if model.class_weight is not None:
        totals = blocks.reduce("label_totals", merge=add)
        logs = log_factors(model.class_weight, totals, float(totals[:, 0].sum()))
        plan = LabelPlan(entropy, logs, blocks.reduce("largest_log", logs, merge=max))
    model.classes_ = np.arange(sizes.n_labels)
    fit, order = block_fit(model, blocks, plan)
    del blocks  # the rows as they were read may leave the memory
    model._descend(fit, entropy, order)


# -- predictions -----------------------------------------------------------------------------------


def over_blocks(method: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Any]:
    """A method that answers for rows; of a table in blocks lazily, in the chunks of its rows."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        if is_blocked(X):
            return lazy_rows(X, partial(_prepared, self, method.__name__))
        return method(self, X)

    return answer


def _prepared(model: Any, name: str, head: Any) -> tuple[Callable[[Any], Array], Array]:
    check_is_fitted(model)
    validate_data(model, head, reset=False, skip_check_array=True)
    now, nameless = copy(model), copy(model)  # a later fit changes nothing
    if hasattr(model, "feature_names_in_"):
        del nameless.feature_names_in_
    none = getattr(nameless, name)(np.zeros((1, model.n_features_in_)))[:0]
    asked = now if hasattr(head, "columns") else nameless  # one warning of scikit-learn is enough
    return partial(_answer, asked, name, none), none


def _answer(model: Any, name: str, none: Array, rows: Any) -> Array:
    return getattr(model, name)(rows) if rows.shape[0] else none
