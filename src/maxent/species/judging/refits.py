"""What refits share: the task of a sample, coarser than the fit itself, and repeated numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from maxent.density import DensityTask, Fit, FittedDensity, as_recipe
from maxent.rows.arrays import Array
from maxent.species.fitting.results import Sample

REFIT_TOL = 1e-5  # duality gap of refits
KNOTS = 200  # of a curve, where features are thinned


def fit_sample(recipe: Any, sample: Sample) -> FittedDensity:
    """The density of a sample, with its sampling effort as prior.

    Quiet: the certificate says how it went, and ``fit_species`` puts that into words.
    """
    return sample_task(recipe, sample).fit().density


def sample_task(recipe: Any, sample: Sample) -> DensityTask:
    """The density of a sample, to be fitted."""
    return as_recipe(recipe).task(sample.X, sample.counts, prior=sample.prior)


def coarse(task: DensityTask) -> DensityTask:
    """The task as diagnostics solve it: silent, with a gap of ``REFIT_TOL``."""
    return replace(task, tol=max(task.tol, REFIT_TOL), verbose=0)


def fit_if_any(task: DensityTask, w0: Array | None = None) -> Fit | None:
    """The fit of a task; None, for the uniform density, where no feature is left."""
    return None if task.is_empty else task.fit(w0)


def per_record(values: Array, counts: Array) -> Array:
    """The value of each occurrence: that of its row, as often as the row counts."""
    return np.repeat(values, np.asarray(counts).astype(np.int64))


def deviation(repeats: Array) -> Array:
    """Standard deviation over the first axis, NaN where there is one repeat alone."""
    if len(repeats) < 2:
        return np.full(repeats.shape[1:], np.nan)
    return np.asarray(repeats.std(axis=0, ddof=1))


def overfitting(train_auc: float, test_auc: float) -> float:
    """The AUC difference of every table: absolute, as ENMeval's auc.diff is by default."""
    return abs(train_auc - test_auc)


def check_whole(name: str, value: Any, least: int) -> None:
    """An integer of at least ``least``."""
    if not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
