"""Which variables a species is fitted to: those left by VIF, or chosen forward by blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxent._support.threads import num_threads
from maxent.rows.arrays import Array
from maxent.species import judging
from maxent.species.fitting.results import Sample, Selection
from maxent.species.fitting.settings import Settings
from maxent.species.judging.collinearity import vif
from maxent.species.judging.replicates import suitable_kind
from maxent.species.study.samples import Prepared


def selected(prepared: Prepared, settings: Settings, categorical: tuple[str, ...]) -> Prepared:
    """The species with the variables that ``settings.select`` leaves, and why the others went."""
    if settings.select is None or prepared.selection is not None:
        return prepared
    sample = prepared.train
    continuous = [name for name in sample.X.columns if name not in categorical]
    how, limit = settings.selection()
    if how == "vif":
        dropped = by_vif(sample, continuous, limit)
        steps: list[dict[str, Any]] = []
    else:
        dropped, steps = forward(sample, settings, categorical)
    kept = [name for name in sample.X.columns if name not in dropped]
    test = prepared.test
    chosen = Selection(settings.select, tuple(kept), dropped, steps)
    return replace(
        prepared,
        notes=[*prepared.notes, f"{prepared.species}: {chosen.describe()}"],
        train=replace(sample, X=sample.X[kept]),
        test=None if test is None else replace(test, X=test.X[kept]),
        selection=chosen,
    )


def by_vif(sample: Sample, names: Sequence[str], limit: float) -> dict[str, str]:
    """The variables to drop, one at a time: that of the largest VIF, until none is above the limit.

    Of equal ones the last goes. VIF are those of the background rows.
    """
    X = sample.X[sample.at_background]
    left = {n: np.asarray(X[n], np.float64) for n in names if X[n].nunique() > 1}
    dropped: dict[str, str] = {}
    while len(left) > 1:
        factors = vif(left)
        if factors.max() <= limit:
            break
        worst = list(left)[int(np.flatnonzero(factors == factors.max())[-1])]
        size = "infinite" if np.isinf(factors.max()) else f"{factors.max():.1f}"
        dropped[worst] = f"VIF {size}, above {limit:g}, among the {len(left)} variables then left"
        del left[worst]
    return dropped


def forward(
    sample: Sample, settings: Settings, categorical: tuple[str, ...] = ()
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Variables added one at a time, and which were not: by the held-out gain of blocks.

    The first is the variable whose model alone has the largest mean test gain over the blocks; then
    whichever raises it most, until none does. Random folds stand in where no blocks can be
    made: without places, with fewer than 8 records, or with too few places.
    """
    kind, _ = suitable_kind(sample, settings.folds)
    chosen: list[str] = []
    steps: list[dict[str, Any]] = []
    waiting = list(sample.X.columns)
    best, scores = 0.0, dict.fromkeys(waiting, np.nan)
    while waiting:
        scores = {
            name: _held_out_gain(sample, [*chosen, name], categorical, kind, settings)
            for name in waiting
        }
        name = max(waiting, key=lambda n: np.nan_to_num(scores[n], nan=-np.inf))
        if chosen and not scores[name] > best:
            break
        best = scores[name]
        chosen.append(name)
        waiting.remove(name)
        steps.append({"variable": name, "test_gain": best})
    word = "blocks" if kind == "blocks" else "random folds"
    dropped = {
        name: f"held-out gain of {word} {scores[name]:.4f} with it, {best:.4f} without"
        for name in waiting
    }
    return dropped, steps


def _held_out_gain(
    sample: Sample, names: list[str], categorical: tuple[str, ...], kind: str, settings: Settings
) -> float:
    """Mean test gain over the folds; NaN where one of them cannot be fitted."""
    made, _ = judging.replicate(
        settings.recipe(tuple(c for c in categorical if c in names)),
        replace(sample, X=sample.X[names]),
        kind=kind,
        n=settings.folds,
        seed=settings.seed,
        n_jobs=num_threads(),
        verbose=0,
    )
    gains: Array = np.array([row["test_gain"] for row in made.table])
    return float(gains.mean())
