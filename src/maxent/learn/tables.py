"""Tables of cells as estimators take them: frames with their columns, or arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from maxent.features.cells import is_frame


def checked_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A table of the right shape: frames stay frames, the rest becomes an array."""
    from sklearn.utils.validation import _check_feature_names, _check_n_features

    _check_feature_names(estimator, X, reset=reset)
    if not is_frame(X):
        text = np.asarray(X).dtype.kind in "UO" if not hasattr(X, "tocsr") else False
        X = check_array(
            X,
            dtype=object if text and _has_text(X) else "numeric",
            ensure_all_finite=False,
            ensure_min_samples=1,
            estimator=estimator,
            input_name="X",
        )
    elif not len(X) or not len(X.columns):
        raise ValueError(f"X is empty: {len(X)} rows, {len(X.columns)} columns")
    _check_n_features(estimator, X, reset=reset)
    return X


def _has_text(X: Any) -> bool:
    array = np.asarray(X)
    return array.ndim == 2 and any(isinstance(v, str) for v in array.ravel()[:1000])
