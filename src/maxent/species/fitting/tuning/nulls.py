"""Null models: the chosen settings fitted to places drawn at random, scored on the real records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.rows.arrays import Array
from maxent.species.fitting.tuning.candidates import Trial, summary
from maxent.species.fitting.tuning_settings import STATISTICS
from maxent.species.judging.refits import REFIT_TOL

COMPARED = (
    *("train_auc", "train_boyce", "test_auc", "auc_difference", "test_boyce"),
    *("omission_minimum", "omission_10_percentile", "test_log_density"),
)
_LOW_IS_GOOD = {column for column, sign in STATISTICS.values() if sign < 0}


def null_models(
    trial: Trial, chosen: dict[str, Any], n: int, *, seed: int = 0, jobs: int = 1, verbose: int = 0
) -> tuple[list[dict[str, float]], list[dict[str, Any]]]:
    """Statistics of ``n`` null models, and for each how far the chosen model is from them.

    As many places as there are records are drawn from the background (and the cells of records)
    without replacement: in each block as many as it holds where folds are blocks, else anywhere.
    The null models of the folds are tested with the real records of the fold (Bohl, Kass and
    Anderson, 2019). A row holds the value of the chosen model, mean and standard deviation of the
    null models, z = (value - mean) / sd, its one-sided p-value under a normal distribution, and
    the share (1 + null models at least as good) / (1 + n).
    """
    streams = np.random.SeedSequence(seed).spawn(n)

    def work(stream: np.random.SeedSequence) -> dict[str, float]:
        return _null(trial, chosen, np.random.default_rng(stream))

    with one_blas_thread():
        drawn = in_threads("null models", work, streams, jobs, verbose)
    return drawn, [_compared(name, chosen, drawn) for name in COMPARED]


def _null(trial: Trial, chosen: dict[str, Any], rng: np.random.Generator) -> dict[str, float]:
    sample, sizes = trial.sample, [int(trial.sample.counts[f.test].sum()) for f in trial.folds]
    parts = _draw(trial, sizes, rng)
    counts = np.sum(parts, axis=0)
    whole = _fit(trial, chosen, counts, np.ones(counts.size, bool))
    scores = trial.whole_scores(whole, counts)
    by_fold: list[dict[str, float]] = []
    for fold, own in zip(trial.folds, parts, strict=True):
        train = counts - own
        domain = sample.at_background | (train > 0) if fold.block is None else ~fold.block
        model = _fit(trial, chosen, train, domain)
        by_fold.append(trial.fold_scores(model, fold, train, domain))
    means = summary(by_fold)
    return {name: scores[name] if name in scores else means[name] for name in COMPARED}


def _draw(trial: Trial, sizes: list[int], rng: np.random.Generator) -> list[Array]:
    """Null records of each fold, as counts of rows."""
    sample = trial.sample
    rows = np.arange(len(sample.counts))
    parts = [np.zeros(rows.size) for _ in sizes]
    if trial.folds[0].block is None:
        places = rng.choice(rows, min(sum(sizes), rows.size), replace=False)
        for part, mine in zip(parts, np.split(places, np.cumsum(sizes)[:-1]), strict=True):
            part[mine] = 1
    else:
        for part, size, fold in zip(parts, sizes, trial.folds, strict=True):
            assert fold.block is not None
            inside = np.flatnonzero(fold.block)
            part[rng.choice(inside, min(size, inside.size), replace=False)] = 1
    return parts


def _fit(trial: Trial, chosen: dict[str, Any], counts: Array, domain: Array) -> Any:
    (model,) = trial.along(
        chosen["features"],
        chosen["potential"],
        [chosen["multiplier"]],
        counts,
        domain,
        REFIT_TOL,
    )
    return model


def _compared(name: str, chosen: dict[str, Any], drawn: list[dict[str, float]]) -> dict[str, Any]:
    values = np.array([row[name] for row in drawn])
    known = values[np.isfinite(values)]
    value, sign = float(chosen[name]), -1 if name in _LOW_IS_GOOD else 1
    row = {"statistic": name, "value": value, "null_mean": math.nan, "null_sd": math.nan}
    row |= {"z": math.nan, "p_value": math.nan, "share_as_good": math.nan, "n_null": known.size}
    if known.size:
        row["null_mean"] = float(known.mean())
        if math.isfinite(value):
            good = int((sign * known >= sign * value).sum())
            row["share_as_good"] = (1 + good) / (1 + known.size)
    sd = float(known.std(ddof=1)) if known.size > 1 else 0.0
    if sd > 0:
        z = (value - float(known.mean())) / sd
        row |= {"null_sd": sd, "z": z, "p_value": float(ndtr(-sign * z))}
    return row
