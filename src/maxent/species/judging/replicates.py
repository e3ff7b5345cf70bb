"""The fit repeated on parts of the records and scored on the rest of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxent import evaluation as metrics
from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.density import FittedDensity, Points, Recipe, Table, as_recipe
from maxent.features import Cells, Schema
from maxent.rows.arrays import Array
from maxent.species.fitting.results import BlockSize, Replicates, Sample
from maxent.species.judging import spatial_folds
from maxent.species.judging.refits import check_whole, coarse, deviation, overfitting, per_record

_NAMES = {  # of a replicate, by kind
    "blocks": "block",
    "checkerboard": "squares",
    "environment": "group",
    "random": "fold",
    "subsample": "subsample",
    "bootstrap": "bootstrap",
}
_SPATIAL = ("blocks", "checkerboard")
_BLOCKED = (*_SPATIAL, "environment")  # with a background of their own
_FEW = 8  # records below which spatial blocks make no sense
_PARTITIONS = (*_BLOCKED, "random")  # every record is in one test set
_SCORES = (
    *("train_auc", "test_auc", "auc_difference", "test_gain", "boyce"),
    *("omission_minimum", "omission_10_percentile", "gain", "gap"),
)
_RATES = np.linspace(0, 1, 101)
_CUMULATIVE = np.linspace(0, 100, 101)


@dataclass(frozen=True, eq=False)
class Split:
    """Occurrences in each row to train on and to test with, and what goes with them."""

    train: Array
    test: Array
    domain: Array  # rows of the fit


class FittedSplit(NamedTuple):
    """A split, and the density of its training part where that was fitted already."""

    split: Split
    density: FittedDensity | None


class Refit(Protocol):
    """How a density is made of some of the points, which are read with the schema."""

    @property
    def recipe(self) -> Recipe:
        """What points are made by."""

    @property
    def schema(self) -> Schema:
        """The columns, with the levels of all points."""

    def fit(self, points: Points) -> FittedDensity:
        """The density, to the tolerance of diagnostics."""


class Plain(NamedTuple):
    """A recipe as it is."""

    recipe: Recipe
    schema: Schema

    @classmethod
    def from_sample(cls, recipe: Recipe, sample: Sample) -> Plain:
        """With the levels of all rows of a sample."""
        return cls(recipe, Schema.from_table(sample.X, recipe.categorical))

    def fit(self, points: Points) -> FittedDensity:
        """The density of the points."""
        return coarse(self.recipe.task_of(points)).fit().density


class _Scored(NamedTuple):
    row: dict[str, Any]
    true_positive_rate: Array
    omission: Array
    model: FittedDensity


def replicate(
    recipe: Any,
    sample: Sample,
    *,
    kind: str = "blocks",
    n: int = 4,
    test_share: float = 0.25,
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: int = 1,
    keep_models: bool = False,
    refit: Refit | None = None,
    blocks: BlockSize | None = None,
    fitted: Sequence[FittedSplit] | None = None,
) -> tuple[Replicates, list[FittedDensity]]:
    """Fit on some of the records and score on the others, ``n`` times; and the models if kept.

    Kinds:

    - "blocks": ``n`` contiguous blocks (:class:`maxent.evaluation.SpatialBlocks`);
      "checkerboard": 2 or 4 sets of squares, 4 to 8 squares along the records, whichever leaves
      most of them in the smallest set; "environment": ``n`` groups of records in like conditions
      (:class:`maxent.evaluation.EnvironmentalBlocks`). A block, or the places with conditions
      like those of a group, is left out of the fit with its background.
    - "random": ``n`` folds of the rows with records; "subsample": ``n`` times a share
      ``test_share`` of these rows; "bootstrap": records drawn with replacement, and tested with
      the rows that were not drawn. Background rows with held-out records stay, as background.

    Training and test records are compared with all background rows of the sample, those of the
    block left out among them, so that AUC, their difference and the Boyce index compare between
    replicates and kinds (what ENMeval calls the full background).

    In the table the omission rates are those of test records at two thresholds of the replicate's
    training records; auc_difference is the absolute difference of training and test AUC;
    test_gain is the mean of ln(N raw), raw normalised over all N background rows
    of the sample; boyce is of the test records. A replicate that cannot be fitted or scored has
    NaN for scores and the reason under "error", which is "" for the others.

    ROC curves are averaged vertically, with the largest true positive rate at each false positive
    rate. Omission is the share of test records below a value of the replicate's cumulative output.

    Parameters
    ----------
    recipe : Recipe
        Features, potential, entropy and solver of a density.
    sample : Sample
        Records and background with their environment.
    kind : str, default "blocks"
        How records are held out, see above.
    n : int, default 4
        How often.
    test_share : float, default 0.25
        Share of the rows held out by "subsample".
    seed : int, default 0
        Seed of everything random.
    n_jobs : int, default None
        Threads.
    verbose : int, default 1
        0 silences progress.
    keep_models : bool, default False
        Whether to return the models.
    refit : callable, default None
        Makes the density of some of the points in another way than ``recipe`` alone.
    blocks : BlockSize, default None
        The size of the blocks of "blocks"; None for equal numbers of records.
    fitted : sequence of FittedSplit, default None
        Splits of this kind with the densities that were fitted to them already, as where species
        are fitted together; None makes and fits ``n`` of them.
    """
    check_whole("n", n, 1)
    refit = Plain.from_sample(as_recipe(recipe), sample) if refit is None else refit
    how: dict[str, Any] = {"blocks": blocks, "variables": refit.schema.continuous}
    if fitted is None:
        made_here = split_records(sample, kind, n, test_share, seed, **how)
        fitted = [FittedSplit(split, None) for split in made_here]
    splits = [part.split for part in fitted]
    whole = _Whole(sample, refit.schema.read(sample.X))

    def run(item: tuple[int, FittedSplit]) -> _Scored | dict[str, Any]:
        number, (split, density) = item
        row = {
            "name": f"{_NAMES[kind]} {number + 1}",
            "n_train": int(split.train.sum()),
            "n_test": int(split.test.sum()),
        }
        try:
            return _scored(refit, whole, split, row, density)
        except ValueError as error:
            return row | dict.fromkeys(_SCORES, math.nan) | {"error": str(error)}

    with one_blas_thread():  # for all threads
        jobs = list(enumerate(fitted))
        parts = in_threads(f"{kind} replicates", run, jobs, n_jobs, verbose)
    scored = [part for part in parts if isinstance(part, _Scored)]
    presence = sample.counts > 0
    places = None if sample.coordinates is None else sample.coordinates[presence]
    fold = None
    if kind in _PARTITIONS and places is not None:
        fold = np.argmax([split.test[presence] > 0 for split in splits], axis=0)
    made = Replicates(
        kind=kind,
        table=[part.row if isinstance(part, _Scored) else part for part in parts],
        roc=_averaged("false_positive_rate", _RATES, [s.true_positive_rate for s in scored]),
        omission=_averaged("cumulative", _CUMULATIVE, [s.omission for s in scored]),
        coordinates=places,
        fold=fold,
        blocks=blocks if kind == "blocks" else None,
    )
    return made, [part.model for part in scored] if keep_models else []


# -- splits ------------------------------------------------------------------------------------


def suitable_kind(sample: Sample, n: int = 4) -> tuple[str, str]:
    """Spatial blocks, or random folds and why no ``n`` blocks can be made."""
    records = int((sample.counts > 0).sum())
    if sample.coordinates is None:
        return "random", "the places of the records are not known"
    if records < _FEW:
        return "random", f"blocks need {_FEW} records, there are {records}"
    try:
        _block_splits(sample, spatial_folds.blocks(sample, n))
    except ValueError:
        places = np.unique(sample.coordinates[sample.counts > 0], axis=0)
        return "random", (
            f"{records} records at {len(places)} places cannot be cut into {n} blocks that hold "
            "records, and leave background to train on"
        )
    return "blocks", ""


def split_records(
    sample: Sample,
    kind: str,
    n: int,
    test_share: float = 0.25,
    seed: int = 0,
    *,
    blocks: BlockSize | None = None,
    variables: Sequence[str] | None = None,
) -> list[Split]:
    """The splits of :func:`replicate`; ``variables`` are those that tell environments apart."""
    if kind not in _NAMES:
        raise ValueError(f"kind must be one of {', '.join(_NAMES)}, got {kind!r}")
    if kind == "environment":
        return _block_splits(sample, spatial_folds.environment(sample, n, variables, seed))
    if kind in _SPATIAL:
        return _block_splits(sample, _spatial(sample, kind, n, blocks, seed))
    counts = sample.counts
    rng = np.random.default_rng(seed)
    if kind == "random":
        folds = metrics.PresenceKFold(n, random_state=seed).split(None, counts)
        return [_record_split(sample, _only(counts, train)) for train, _ in folds]
    if kind == "bootstrap":
        drawn = rng.multinomial(int(counts.sum()), counts / counts.sum(), size=n)
        return [_record_split(sample, train) for train in drawn]
    rows = np.flatnonzero(counts > 0)
    if not 0 < test_share < 1:
        raise ValueError(f"test_share must be between 0 and 1, got {test_share!r}")
    if rows.size < 2:
        raise ValueError("a subsample needs two rows with records, the sample has one")
    kept = rows.size - min(max(round(test_share * rows.size), 1), rows.size - 1)
    return [_record_split(sample, _only(counts, rng.permutation(rows)[:kept])) for _ in range(n)]


def _only(counts: Array, rows: Array) -> Array:
    """The counts of these rows, 0 in the others."""
    kept = np.zeros_like(counts)
    kept[rows] = counts[rows]
    return kept


def _record_split(sample: Sample, train: Array) -> Split:
    test = np.where(train == 0, sample.counts, 0)
    return Split(train, test, (train > 0) | sample.at_background)


def _spatial(
    sample: Sample, kind: str, n: int, size: BlockSize | None, seed: int
) -> metrics.SpatialBlocks | metrics.Checkerboard:
    if sample.coordinates is None:
        raise ValueError(
            f'kind="{kind}" needs the places of the rows, and the sample has no coordinates; '
            'use kind="random"'
        )
    if kind == "blocks":
        return spatial_folds.blocks(sample, n, size, seed)
    return spatial_folds.checkerboard(sample, n)


def _block_splits(sample: Sample, splitter: Any) -> list[Split]:
    splits = []
    for train, test in splitter.split(None, sample.counts):
        domain, block = (np.isin(np.arange(len(sample.counts)), rows) for rows in (train, test))
        splits.append(Split(sample.counts * domain, sample.counts * block, domain))
    return splits


# -- scores ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Whole:
    """The whole sample, read once: replicates know the levels of all its rows."""

    sample: Sample
    cells: Cells


def _scored(
    refit: Refit,
    whole: _Whole,
    split: Split,
    row: dict[str, Any],
    density: FittedDensity | None,
) -> _Scored:
    if not split.test.any():
        raise ValueError("no record is left to test with")
    if not split.train.any():
        raise ValueError("no record is left to fit to")
    sample = whole.sample
    model = refit.fit(split_points(refit, sample, split)) if density is None else density
    log, cloglog = (model.predict_cells(whole.cells, output) for output in ("log", "cloglog"))
    trained, tested = (per_record(log, counts) for counts in (split.train, split.test))
    own, background = log[split.domain & sample.at_background], log[sample.at_background]
    rules = metrics.thresholds(trained, own, background_raw=np.exp(own))
    cut = {rule.name: rule.value for rule in rules}
    train_auc, test_auc = metrics.auc(trained, background), metrics.auc(tested, background)
    everywhere = np.exp(background)
    scores = {
        "train_auc": train_auc,
        "test_auc": test_auc,
        "auc_difference": overfitting(train_auc, test_auc),
        "test_gain": float(tested.mean() - np.log(everywhere.mean())),
        "boyce": metrics.boyce(
            per_record(cloglog, split.test), cloglog[sample.at_background]
        ).index,
        "omission_minimum": metrics.omission(tested, cut["Minimum training presence"]),
        "omission_10_percentile": metrics.omission(tested, cut["10 percentile training presence"]),
        "gain": model.certificate.gain,
        "gap": model.certificate.gap,
    }
    cumulative = per_record(model.predict_cells(whole.cells, "cumulative"), split.test)
    return _Scored(
        row | scores | {"error": ""},
        _true_positive_rate(tested, background),
        (cumulative[:, None] < _CUMULATIVE).mean(axis=0),
        model,
    )


def held_out(log: Array, sample: Sample, split: Split) -> dict[str, float]:
    """Gain and AUC of the test records of a split, from the log density at the rows of a sample.

    The gain is the mean of ln(N raw), raw normalised over all N background rows.
    """
    tested, everywhere = per_record(log, split.test), log[sample.at_background]
    top = everywhere.max()
    return {
        "gain": float(tested.mean() - top - np.log(np.exp(everywhere - top).mean())),
        "auc": metrics.auc(tested, everywhere),
    }


def split_points(refit: Refit, sample: Sample, split: Split) -> Points:
    """The training part of a split."""
    recipe = refit.recipe
    table = Table.from_rows(sample.X, split.train, prior=sample.prior, missing=recipe.missing)
    return recipe.points(table.take(np.flatnonzero(split.domain)), refit.schema)


def _true_positive_rate(presence: Array, background: Array) -> Array:
    """The largest at each of the false positive rates."""
    curve = metrics.roc_curve(presence, background)
    false = curve.false_positive_rate
    last = np.append(np.flatnonzero(np.diff(false)), false.size - 1)
    return np.interp(_RATES, false[last], curve.true_positive_rate[last])


def _averaged(name: str, grid: Array, curves: list[Array]) -> dict[str, Array]:
    if not curves:
        return {}
    return {name: grid, "mean": np.mean(curves, axis=0), "sd": deviation(np.array(curves))}
