"""How much the variables say the same: correlations and variance inflation factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.results import Collinearity, Sample

_SINGULAR = 1e-12  # a share of variance of its own below it is rounding


def collinearity(sample: Sample, categorical: tuple[str, ...] = ()) -> Collinearity:
    """Correlations and VIF of the continuous variables over the background rows.

    Parameters
    ----------
    sample : Sample
        Records and background with their environment.
    categorical : sequence of str, default ()
        Names of the variables that hold categories.
    """
    X = sample.X[sample.at_background]
    names = tuple(name for name in X.columns if name not in categorical and X[name].nunique() > 1)
    columns = {name: np.asarray(X[name], dtype=np.float64) for name in names}
    return Collinearity(names, correlations(columns), vif(columns))


def correlations(columns: dict[str, Any]) -> Array:
    """Pearson correlations, one row and one column per variable."""
    if not columns:
        return np.empty((0, 0))
    return np.corrcoef(np.array(list(columns.values()))).reshape(len(columns), -1)


def vif(columns: dict[str, Any]) -> Array:
    """Variance inflation factors 1 / (1 - R^2), R^2 of each variable regressed on all others.

    They are the diagonal of the inverse of the correlations; infinite where a variable is a sum of
    others.

    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> vif({"x": x, "y": np.array([1.0, -1.0, -1.0, 1.0])})
    array([1., 1.])
    >>> vif({"x": x, "y": 2 * x})
    array([inf, inf])
    """
    if len(columns) < 2:
        return np.ones(len(columns))
    table = np.array(list(columns.values()))
    table = table - table.mean(axis=1, keepdims=True)
    table /= np.sqrt((table**2).mean(axis=1, keepdims=True))
    factors = np.empty(len(table))
    for i, column in enumerate(table):
        others = np.delete(table, i, axis=0)
        weights, *_ = np.linalg.lstsq(others.T, column, rcond=None)
        own = float(((column - weights @ others) ** 2).mean())  # of a variance of 1
        factors[i] = 1 / own if own > _SINGULAR else np.inf
    return factors
