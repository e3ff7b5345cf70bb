"""Answers of a model for a dask bag of sequences: a bag with the same partitions."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted


def lazily(model: Any, method: str, X: Any, *args: Any) -> Any:
    """model.method(sequences, *args) of each partition, when it is asked for."""
    check_is_fitted(model)
    if not type(X).__module__.startswith("dask.bag"):
        raise TypeError(
            f"{method} takes sequences, or a dask bag of them, got {type(X).__name__}; of other "
            "blocks, call it with the sequences of one after another"
        )
    from maxent.rows.dask.bags import answers

    return answers(X, model, method, *args)
