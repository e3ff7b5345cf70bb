"""``class_weight``: factors of the sample weights, as scikit-learn has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from maxent._rows import Array


def class_factors(given: Any, classes: Array, labels: Array, weight: Array) -> Array:
    """The factor of each sample: None, "balanced" or {class: weight}; ``labels`` are positions.

    "balanced" gives every class the same total weight.
    """
    if isinstance(given, str) and given == "balanced":
        totals = np.bincount(labels, weight, minlength=classes.size)
        return np.asarray(weight.sum() / (classes.size * totals))[labels]
    if not (given is None or isinstance(given, Mapping)):
        raise ValueError(
            f'class_weight must be None, "balanced" or a dict {{class: weight}}, got {given!r}'
        )
    factors = compute_class_weight(given, classes=classes, y=classes[labels])
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(
            f"class_weight must be positive for every class, got {given!r}; leave out the samples "
            "of a class instead"
        )
    return np.asarray(factors)[labels]


def label_factors(given: Any, Y: Array, weight: Array) -> Array:
    """The factor of each row of 0/1 labels: the product of those of its labels, each a class 0, 1.

    ``given`` is None, "balanced", a dict for all labels or a list of one dict per label.
    """
    count = Y.shape[1]
    if given is None:
        return np.ones(len(Y))
    if isinstance(given, str | Mapping):
        given = [given] * count
    if not isinstance(given, list | tuple) or len(given) != count:
        raise ValueError(
            f'class_weight must be None, "balanced", a dict {{0: weight, 1: weight}} or a list of '
            f"{count} such dicts, one per label, got {given!r}"
        )
    total = np.zeros(len(Y))
    for one, column in zip(given, Y.T, strict=True):
        classes, labels = np.unique(column, return_inverse=True)
        known = one
        if isinstance(one, Mapping):
            known = {key: value for key, value in one.items() if key in classes}
            strange = set(one) - {0, 1}
            if strange:
                raise ValueError(
                    f"class_weight of a label has the classes 0 and 1, got {sorted(strange)!r}"
                )
        total += np.log(class_factors(known, classes, labels, weight))
    return np.asarray(np.exp(total - total.max()))  # up to a constant, which changes nothing
