"""Candidates: every combination of settings, fitted to all records and to those of each fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from maxent import evaluation as metrics
from maxent._support.jobs import in_threads
from maxent._support.progress import tell_event
from maxent._support.threads import one_blas_thread
from maxent.density import FittedDensity, Recipe, Table
from maxent.features import Cells, Schema
from maxent.rows.arrays import Array
from maxent.species.fitting.results import Sample
from maxent.species.fitting.tuning.partitions import Fold
from maxent.species.fitting.tuning_settings import TuningSettings
from maxent.species.judging.refits import REFIT_TOL, overfitting, per_record

Totals = Callable[[Sequence[FittedDensity]], Array]


@dataclass(frozen=True, eq=False)
class Trial:
    """A sample and what it is compared by; rows are read once for all fits."""

    sample: Sample
    settings: TuningSettings
    folds: Sequence[Fold]
    categorical: tuple[str, ...]
    preset: str | None
    schema: Schema
    cells: Cells

    @classmethod
    def from_sample(
        cls,
        sample: Sample,
        settings: TuningSettings,
        folds: Sequence[Fold],
        categorical: Sequence[str],
        preset: str | None,
    ) -> Trial:
        """Read the rows of the sample."""
        schema = Schema.from_table(sample.X, categorical)
        cells = schema.read(sample.X)
        return cls(sample, settings, folds, tuple(categorical), preset, schema, cells)

    def along(
        self,
        features: str,
        potential: str,
        multipliers: Sequence[float],
        counts: Array,
        domain: Array,
        tol: float,
    ) -> Iterator[FittedDensity]:
        """The densities of these occurrences, one by one, along multipliers that fall."""
        recipe = Recipe(
            features, potential, preset=self.preset, categorical=self.categorical, tol=tol
        )
        table = Table.from_rows(self.sample.X, counts, prior=self.sample.prior)
        points = recipe.points(table.take(np.flatnonzero(domain)), self.schema)
        for _, density in recipe.task_of(points).path(multipliers):
            yield density

    def fold_scores(
        self, model: FittedDensity, fold: Fold, counts: Array, domain: Array
    ) -> dict[str, float]:
        """Statistics of a model that was fitted to ``counts``, on the records of a fold."""
        sample = self.sample
        held = np.where(fold.test, sample.counts, 0)
        log, cloglog = (model.predict_cells(self.cells, output) for output in ("log", "cloglog"))
        trained, tested = per_record(log, counts), per_record(log, held)
        with_all = sample.at_background
        against, train_against = with_all, with_all
        if self.settings.validation == "partition" and fold.block is not None:
            against, train_against = with_all & fold.block, with_all & ~fold.block
            if not against.any():
                raise ValueError(f"{fold.name} has no background of its own to be compared with")
        train_auc = metrics.auc(trained, log[train_against])
        test_auc = metrics.auc(tested, log[against])
        known = log[domain & with_all]
        cut = {
            rule.name: rule.value
            for rule in metrics.thresholds(trained, known, background_raw=np.exp(known))
        }
        scores = {
            "test_log_density": float(tested.mean() - _log_sum(log)),
            "train_auc": train_auc,
            "test_auc": test_auc,
            "auc_difference": overfitting(train_auc, test_auc),
            "test_boyce": math.nan,
            "omission_minimum": metrics.omission(tested, cut["Minimum training presence"]),
            "omission_10_percentile": metrics.omission(
                tested, cut["10 percentile training presence"]
            ),
        }
        if tested.size > 1:  # one record has no trend
            predicted = per_record(cloglog, held)
            scores["test_boyce"] = metrics.boyce(predicted, cloglog[against]).index
        if self.settings.partial_roc is not None:
            part = metrics.partial_roc(tested, log[with_all], self.settings.partial_roc / 100)
            scores |= {"partial_roc": part.ratio, "partial_roc_p": part.p_value}
        return scores

    def whole_scores(self, model: FittedDensity, counts: Array) -> dict[str, float]:
        """AUC and Boyce index of the occurrences of a fit against all background."""
        log, cloglog = (model.predict_cells(self.cells, output) for output in ("log", "cloglog"))
        with_all = self.sample.at_background
        boyce = metrics.boyce(per_record(cloglog, counts), cloglog[with_all]).index
        return {
            "train_auc": metrics.auc(per_record(log, counts), log[with_all]),
            "train_boyce": boyce,
        }


def compare(
    trial: Trial,
    *,
    features: Sequence[str],
    multipliers: Sequence[float],
    potentials: Sequence[str],
    totals: Totals | None = None,
    jobs: int = 1,
    verbose: int = 0,
) -> list[dict[str, Any]]:
    """One row of statistics for every combination.

    Along the multipliers each fit starts from the one before. ``totals`` gives for densities the
    log of their sum over all cells of the study area, by which AICc normalises; without it they
    are normalised over the points of the fit.
    """
    falling = sorted({float(m) for m in multipliers}, reverse=True)
    kinds = list(product(features, potentials))
    sample = trial.sample
    everywhere = np.ones(len(sample.counts), dtype=bool)

    def work(job: tuple[tuple[str, str], Fold | None]) -> list[Any]:
        (letters, potential), fold = job
        counts, domain = (sample.counts, everywhere) if fold is None else fold.training(sample)
        tol = 1e-7 if fold is None else REFIT_TOL
        made: list[Any] = []
        for model in trial.along(letters, potential, falling, counts, domain, tol):
            if fold is None:
                made.append((model, trial.whole_scores(model, counts)))
            else:
                made.append(trial.fold_scores(model, fold, counts, domain))
            _tell(letters, potential, falling[len(made) - 1], 1, fits)
        return made

    fits = 1 + len(trial.folds)  # of every candidate
    for (letters, potential), multiplier in product(kinds, falling):
        _tell(letters, potential, multiplier, 0, fits)
    tasks = [(kind, fold) for kind in kinds for fold in (None, *trial.folds)]
    with one_blas_thread():
        done = in_threads("tuning", work, tasks, jobs, verbose, "paths")
    rows = []
    step = 1 + len(trial.folds)
    for i, (letters, potential) in enumerate(kinds):
        whole, *folds = done[i * step : (i + 1) * step]
        log_totals = [0.0] * len(falling)
        if totals is not None:
            log_totals = list(totals([model for model, _ in whole]))
        for j, multiplier in enumerate(falling):
            model, scores = whole[j]
            by_fold = [part[j] for part in folds]
            rows.append(
                {"features": letters, "potential": potential, "multiplier": multiplier}
                | {"n_weights": int(model.weights.size)}
                | scores
                | summary(by_fold)
                | {"aicc": _aicc(model, trial, float(log_totals[j]))}
                | {"n_folds": len(folds), "folds": by_fold}
            )
    return _with_delta(rows)


def _tell(letters: str, potential: str, multiplier: float, done: int, total: int) -> None:
    """Who watches: so many more of the fits of a candidate are done."""
    named = {"features": letters, "potential": potential, "multiplier": multiplier}
    tell_event("candidate", **named, done=done, total=total)


def summary(folds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean and deviation over folds of each statistic."""
    named = {}
    for name in folds[0]:
        if name == "train_auc":
            continue  # that of the whole fit is shown
        values = np.array([fold[name] for fold in folds])
        known = values[np.isfinite(values)]
        whole = known.size == values.size or name in ("test_boyce", "partial_roc", "partial_roc_p")
        named[name] = float(known.mean()) if known.size and whole else math.nan
        if name != "partial_roc_p":
            named[f"{name}_sd"] = float(known.std(ddof=1)) if known.size > 1 and whole else math.nan
    return named


def _aicc(model: FittedDensity, trial: Trial, log_total: float) -> float:
    log = per_record(model.predict_cells(trial.cells, "log"), trial.sample.counts)
    return metrics.aicc(float(log.sum()) - log.size * log_total, model.weights.size, log.size)


def _with_delta(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the difference to the least AICc, and Akaike weights."""
    values = np.array([row["aicc"] for row in rows])
    least = np.nanmin(values) if np.isfinite(values).any() else math.nan
    delta = values - least
    weight = np.exp(-delta / 2) / np.nansum(np.exp(-delta / 2))
    for row, d, w in zip(rows, delta, weight, strict=True):
        row |= {"delta_aicc": float(d), "aicc_weight": float(w)}
    return rows


def _log_sum(log: Array) -> float:
    top = float(log.max())
    return top + math.log(float(np.exp(log - top).sum()))
