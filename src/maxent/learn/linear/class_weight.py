"""``class_weight``: factors of the sample weights, as scikit-learn has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from maxent.rows.arrays import Array


def class_factors(given: Any, classes: Array, labels: Array, weight: Array) -> Array:
    """The factor of each sample; ``labels`` are positions."""
    totals = np.bincount(labels, weight, minlength=classes.size)
    return factors_of_classes(given, classes, totals, weight.sum())[labels]


def factors_of_classes(given: Any, classes: Array, totals: Array, whole: float) -> Array:
    """The factor of each class: None, "balanced" or {class: weight}.

    "balanced" gives every class the same total weight; ``totals`` are those of the samples, whose
    sum is ``whole``.
    """
    if isinstance(given, str) and given == "balanced":
        return np.asarray(whole / (classes.size * totals))
    if not (given is None or isinstance(given, Mapping)):
        raise ValueError(
            f'class_weight must be None, "balanced" or a dict {{class: weight}}, got {given!r}'
        )
    factors = compute_class_weight(given, classes=classes, y=classes)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(
            f"class_weight must be positive for every class, got {given!r}; leave out the samples "
            "of a class instead"
        )
    return np.asarray(factors)


def label_factors(given: Any, Y: Array, weight: Array) -> Array:
    """The factor of each row of 0/1 labels: the product of those of its labels, each a class 0, 1.

    ``given`` is None, "balanced", a dict for all labels or a list of one dict per label.
    """
    if given is None:
        return np.ones(len(Y))
    total = row_logs(log_factors(given, label_totals(Y, weight), weight.sum()), Y)
    return np.asarray(np.exp(total - total.max()))  # up to a constant, which changes nothing


def label_totals(Y: Array, weight: Array) -> Array:
    """The weight of the rows with a 0 and with a 1 of each label, (2, labels)."""
    return np.column_stack(
        [np.bincount(column, weight, minlength=2) for column in Y.T.astype(np.intp)]
    )


def row_logs(logs: Array, Y: Array) -> Array:
    """The sum of what ``logs`` (2, labels) has for the 0 and 1 of each row."""
    total = np.zeros(len(Y))
    for one, column in zip(logs.T, Y.T.astype(np.intp), strict=True):
        total += one[column]
    return total


def log_factors(given: Any, totals: Array, whole: float) -> Array:
    """The logarithms of the factors of the 0 and the 1 of each label, (2, labels)."""
    count = totals.shape[1]
    logs = np.zeros((2, count))
    if isinstance(given, str | Mapping):
        given = [given] * count
    if not isinstance(given, list | tuple) or len(given) != count:
        raise ValueError(
            f'class_weight must be None, "balanced", a dict {{0: weight, 1: weight}} or a list of '
            f"{count} such dicts, one per label, got {given!r}"
        )
    for label, one in enumerate(given):
        classes = np.flatnonzero(totals[:, label])
        known = one
        if isinstance(one, Mapping):
            known = {key: value for key, value in one.items() if key in classes}
            strange = set(one) - {0, 1}
            if strange:
                raise ValueError(
                    f"class_weight of a label has the classes 0 and 1, got {sorted(strange)!r}"
                )
        logs[classes, label] = np.log(
            factors_of_classes(known, classes, totals[classes, label], whole)
        )
    return logs
