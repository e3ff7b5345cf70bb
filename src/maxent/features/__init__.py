"""Feature operators over cells: curves, products, levels and the features of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.features.additive import Additive, Hinge, Linear, Square, Threshold
from maxent.features.base import (
    Among,
    Bound,
    FeatureClass,
    Operator,
    OperatorMap,
    ViewedClass,
    joined,
    part_of,
    variables_used,
    with_weights,
)
from maxent.features.categorical import Categorical, Levels
from maxent.features.cells import Cells, Schema
from maxent.features.kernel import Kernel, KernelFeatures
from maxent.features.product import Interaction, Products
from maxent.features.sketch import QuantileSketch, merge_all
from maxent.features.summary import TableSummary, fit_from_summary, summary_options
from maxent.features.views import CellsView

__all__ = [
    "Additive",
    "Among",
    "Bound",
    "Categorical",
    "Cells",
    "CellsView",
    "FeatureClass",
    "Hinge",
    "Interaction",
    "Kernel",
    "KernelFeatures",
    "Levels",
    "Linear",
    "Operator",
    "OperatorMap",
    "Products",
    "QuantileSketch",
    "Schema",
    "Square",
    "TableSummary",
    "Threshold",
    "ViewedClass",
    "bind",
    "fit_from_summary",
    "fit_operators",
    "joined",
    "merge_all",
    "part_of",
    "summary_options",
    "variables_used",
    "with_weights",
]


def fit_operators(
    classes: Sequence[FeatureClass],
    X: Any,
    presences: Any = None,
    categorical: Sequence[Any] = (),
) -> list[Operator]:
    """The operators of these feature classes for the rows of X.

    ``presences`` are the indices of the occupied rows (all by default).

    >>> linear, product = fit_operators([Linear(), Interaction()], [[1.0, 0], [2, 3], [4, 1]])
    >>> linear.names(), product.names()
    (['x0', 'x1'], ['x0*x1'])
    """
    X = X if hasattr(X, "columns") else np.asarray(X)
    schema = Schema.from_table(X, categorical)
    cells = schema.read(X)
    rows = np.arange(cells.n_cells) if presences is None else np.asarray(presences)
    return joined([o for kind in classes for o in kind.fit(cells, schema, rows)])


def bind(operators: Sequence[Operator], cells: Cells, clamp: bool = False) -> OperatorMap:
    """The feature map of these operators on given cells."""
    return OperatorMap([o.bind(cells, clamp) for o in operators], cells.n_cells)
