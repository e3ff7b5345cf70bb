"""How much sources should count, by how well they predict held-out rows of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from maxent.density.sources.intensity import further_score
from maxent.density.sources.source import Source
from maxent.density.sources.task import SourcesTask
from maxent.rows.arrays import Array

GRID = (0.0, 0.03, 0.1, 0.3, 1.0)
_TOLERANCE = 1e-5  # of fits that are compared alone


@dataclass(frozen=True)
class WeightChoice:
    """Held-out deviances, and what had the least.

    Attributes
    ----------
    weight : float
        The best weight of the other sources; 0 leaves them out.
    deviation : float
        Their best deviation, see ``Source``.
    deviances : dict of (float, float) to float
        The deviance of the held-out rows of the source, by weight and deviation.
    """

    weight: float
    deviation: float
    deviances: dict[tuple[float, float], float]

    def of(self, sources: Sequence[Source], target: str) -> list[Source]:
        """The sources with these weights and deviations."""
        if not self.weight:
            return [source for source in sources if source.name == target]
        return _standing(sources, target, self.weight, self.deviation)


def _standing(
    sources: Sequence[Source], target: str, weight: float, deviation: float
) -> list[Source]:
    return [
        source
        if source.name == target
        else replace(source, weight=weight * source.weight, deviation=deviation)
        for source in sources
    ]


def held_out_weights(
    task: SourcesTask,
    target: str,
    *,
    grid: Sequence[float | tuple[float, float]] = GRID,
    folds: int = 5,
    seed: int = 0,
    fold: Array | None = None,
) -> WeightChoice:
    """How all other sources are to count, to predict held-out rows of ``target`` best.

    Only rows of the task are looked at.

    Parameters
    ----------
    task : SourcesTask
        The sources, with their features.
    target : str
        The name of a survey or of counts.
    grid : sequence of float or (float, float), default (0.0, 0.03, 0.1, 0.3, 1.0)
        Weights, or pairs of a weight and a deviation (see ``Source``).
    folds : int, default 5
        Number of folds.
    seed : int, default 0
        Seed of the folds.
    fold : array, default None
        The fold of each row of the target; dealt at random by default, rows with records and rows
        without by themselves.

    Examples
    --------
    >>> from maxent.density import Recipe
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> wrong = Source("presences", X, np.arange(60) < 20)
    >>> right = Source("counts", X, np.arange(60) // 10)
    >>> held_out_weights(SourcesTask.of([wrong, right], Recipe("l")), "counts").weight < 0.1
    True
    """
    names = [source.name for source in task.sources]
    if target not in names:
        raise ValueError(f"no source is called {target!r}: there are {', '.join(names)}")
    place = names.index(target)
    source = task.sources[place]
    if not source.knows_scale and source.kind == "presences":
        raise ValueError("presences have no rows to hold out: choose by a survey or by counts")
    fold = _dealt(source, folds, seed) if fold is None else np.asarray(fold)
    pairs = [c if isinstance(c, tuple) else (float(c), 0.0) for c in grid]
    found = dict.fromkeys(sorted(pairs), 0.0)
    used = [k for k in np.unique(fold) if source.take(np.flatnonzero(fold != k)).one_sided is None]
    if not used:
        raise ValueError(
            f"source {target!r} has too few records ({source.n_records:g}) to hold some of them out"
        )
    for k in used:
        kept: list[Array | None] = [np.ones(s.n_rows, bool) for s in task.sources]
        kept[place] = fold != k
        start = None
        made: dict[bool, SourcesTask] = {}  # the same rows for each weight above 0
        for weight, deviation in found:
            used_all = weight > 0
            if used_all not in made:
                made[used_all] = task.among(
                    [rows if used_all or i == place else None for i, rows in enumerate(kept)]
                )
            told = _standing(made[used_all].sources, target, weight, deviation)
            train = replace(made[used_all], sources=tuple(told))
            size = train.problem.features.n_features
            w0: Array | None = start if start is not None and start.size == size else None
            start = train.solve(w0, tol=_TOLERANCE).w
            found[weight, deviation] += _held_out(task, train, start, place, fold == k)
    weight, deviation = min(found, key=lambda pair: found[pair])
    return WeightChoice(weight, deviation, found)


def _held_out(task: SourcesTask, train: SourcesTask, w: Array, place: int, out: Array) -> float:
    """The deviance of rows of a source of the task at weights of a part of it."""
    source = task.sources[place]
    parts, kept = train.parts_of(w), out[task.entries[place].row]
    entries = task.entries[place].take(kept)
    k = [s.name for s in train.sources].index(source.name)
    shift = further_score(source, entries, parts.efforts[k], parts.offsets[k], parts.log_scale)
    theta = task.features.restrict(train.posed.chosen).scores(parts.features)
    return source.deviance(entries, theta[task.slices[place]][kept] + shift)


def _dealt(source: Source, folds: int, seed: int) -> Array:
    """A fold for each row, records and rows without in equal shares."""
    rng, fold = np.random.default_rng(seed), np.empty(source.n_rows, dtype=np.intp)
    for rows in (np.flatnonzero(source.y > 0), np.flatnonzero(source.y == 0)):
        fold[rng.permutation(rows)] = np.arange(rows.size) % folds
    return fold
