"""What a fit of one species is made of: everything the report, the tables and the map show.

All of these are plain data that :func:`maxent.save` writes as JSON and arrays, so that a report
can be made again from a saved result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent.density import FittedDensity, fitted_density
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import RESULT
from maxent.species.comparing.records import Comparison
from maxent.species.input.layers.grid import Grid
from maxent.species.study.polygons import StudyRegion

TRAINING = "training layers"


@io.register
@dataclass(frozen=True)
class CleaningStep:
    """What happened to the records: how many were taken out (or moved), and examples of them."""

    what: str
    records: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Sample:
    """The points a species is fitted to, one row per cell: environment, counts and places.

    Attributes
    ----------
    X : a table, one column per layer.
    counts : occurrences in each row, 0 for background.
    coordinates : (rows, 2), None where the places are not known.
    prior : sampling effort, which the fit takes out again; None for even effort.
    background : which rows stand for the region (a presence outside the drawn background is a
        point of the domain, but no background point in evaluations).
    """

    X: Any
    counts: Array
    coordinates: Array | None = None
    prior: Array | None = None
    background: Array | None = None

    @property
    def at_background(self) -> Array:
        """Which rows are background points; all of them where nothing else was said."""
        return np.ones(len(self.counts), bool) if self.background is None else self.background

    def take(self, rows: Array) -> Sample:
        """Some of the rows."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[rows]

        return Sample(
            self.X[rows] if isinstance(rows, slice) else self.X.iloc[rows].reset_index(drop=True),
            self.counts[rows],
            part(self.coordinates),
            part(self.prior),
            part(self.background),
        )


@io.register
@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well a map tells presences from background.

    Attributes
    ----------
    scores : by name: auc, auc_sd, gain, log_loss, boyce, max_tss, aicc ...; of the training
        records, and the same of the test records where there are any (None without).
    roc : "train" and "test": false_positive_rate, true_positive_rate.
    omission : threshold (cloglog), raw, cumulative, area, training_omission, test_omission.
    thresholds : one row per rule: name, value (cloglog), raw, cumulative, area, training_omission,
        test_omission, p_value.
    calibration : predicted, observed, low, high: share of presences in bins of the prediction
        against what the model expects there.
    boyce_curve : prediction, ratio: predicted against expected, the curve behind the index.
    """

    scores: dict[str, float]
    test_scores: dict[str, float] | None
    roc: dict[str, dict[str, Array]]
    omission: dict[str, Array]
    thresholds: list[dict[str, Any]]
    calibration: dict[str, Array]
    boyce_curve: dict[str, Array]


@io.register
@dataclass(frozen=True, eq=False)
class Replicates:
    """The fit repeated on parts of the records and scored on the rest.

    Attributes
    ----------
    kind : "blocks", "checkerboard", "random", "bootstrap" or "subsample".
    table : one row per replicate: name, n_train, n_test, train_auc, test_auc,
        auc_difference, test_gain, boyce, omission_minimum, omission_10_percentile, gain, gap.
    roc : false_positive_rate, and mean and sd of the true positive rate over replicates.
    omission : cumulative, and mean and sd of the test omission.
    coordinates, fold : of the presences, for a picture of the blocks; None without places.
    """

    kind: str
    table: list[dict[str, Any]]
    roc: dict[str, Array] = field(default_factory=dict)
    omission: dict[str, Array] = field(default_factory=dict)
    coordinates: Array | None = None
    fold: Array | None = None


@io.register
@dataclass(frozen=True)
class Sharing:
    """Whether a species was given strength by the others of its group, and what decided it.

    Attributes
    ----------
    chosen : whether the density is the mean of its own log density and that of the others.
    n_others : species that lent; lenders : the weight of each one's exponent in the others' part.
    kind, folds : of the cross-validation: "blocks", "checkerboard" or "random".
    own, shared : scores of held-out records, by name: gain (mean log density against an even map,
        which decides) and auc; empty where nothing could be compared.
    reason : why, in words.
    """

    chosen: bool
    n_others: int
    lenders: dict[str, float]
    kind: str
    folds: int
    own: dict[str, float]
    shared: dict[str, float]
    reason: str

    def describe(self) -> str:
        """In one sentence."""
        if self.chosen:
            return f"shared with {self.n_others} other species: {self.reason}"
        return f"not shared with other species: {self.reason}"


@io.register
@dataclass(frozen=True, eq=False)
class Importance:
    """What each variable does for the fit.

    Attributes
    ----------
    variables : names, in the order of the layers.
    contribution : percent of the unregularized gain, its Aumann-Shapley share (adds up to 100;
        negative where a variable only makes up for others).
    permutation, permutation_sd : drop of training AUC when the variable is shuffled, as percent
        of all drops; over repeated shuffles.
    auc_drop, auc_drop_sd : the drop itself.
    """

    variables: tuple[str, ...]
    contribution: Array
    permutation: Array
    permutation_sd: Array
    auc_drop: Array
    auc_drop_sd: Array


@io.register
@dataclass(frozen=True, eq=False)
class Collinearity:
    """How much continuous variables say the same, over the background.

    Attributes
    ----------
    variables : names; correlation : Pearson's, (variables, variables).
    vif : variance inflation factor of each among all of them.
    """

    variables: tuple[str, ...]
    correlation: Array
    vif: Array


@io.register
@dataclass(frozen=True, eq=False)
class Selection:
    """Which variables were used, and why the others were not.

    Attributes
    ----------
    rule : "vif=10" or "forward", as asked for.
    kept : names; dropped : name -> why.
    steps : of a forward selection, the variables in the order in which they were added, with the
        held-out gain reached.
    """

    rule: str
    kept: tuple[str, ...]
    dropped: dict[str, str]
    steps: list[dict[str, Any]] = field(default_factory=list)


@io.register
@dataclass(frozen=True, eq=False)
class Jackknife:
    """Every variable alone and left out: regularized training gain, test gain and AUC.

    ``scores`` maps "train_gain", "auc" (of training records) and, with test records, "test_gain"
    and "test_auc" to {"all": number, "only": (variables,), "without": (variables,)}.
    """

    variables: tuple[str, ...]
    scores: dict[str, dict[str, Any]]


@io.register
@dataclass(frozen=True, eq=False)
class Response:
    """Prediction (cloglog) along one variable: values or levels ``x``, ``y``, and a 90 % band.

    ``kind`` is "marginal" (the others at the mean of the presences, categories at their commonest
    level) or "single" (a model of this variable alone).
    """

    variable: str
    kind: str
    categorical: bool
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


@io.register
@dataclass(frozen=True, eq=False)
class MapFiles:
    """Rasters written for one set of layers.

    Attributes
    ----------
    name : "training layers", or the folder projected to.
    files : by what they hold (cloglog, raw, logistic, cumulative, log, clamping, mess, mod, exdet,
        ...): file names beside the report.
    classes : the number written for each variable in the map of the most dissimilar one.
    n_cells, n_unseen : known cells; those with an unseen category.
    n_extrapolated : those with negative similarity to the fit, None where it was not looked at.
    presence : of the map of presence, rule, threshold, cells, and km2 of them and of all known
        cells (known_km2) where the CRS is known.
    n_outside, n_clamped : those with a variable outside its range at the fit; with one that was
        held at it, so none without clamping.
    n_novel : those with a new combination of variables (ExDet above 1); None where not known.
    mask, n_masked : what the cells left out of the maps of suitability were told by ("mess" or
        "exdet", None for none), and how many they are.
    """

    name: str
    files: dict[str, str]
    n_cells: int
    classes: dict[int, str] = field(default_factory=dict)
    n_extrapolated: int | None = None
    n_clamped: int = 0
    n_unseen: int = 0
    seconds: float = 0.0
    n_outside: int = 0
    presence: dict[str, Any] = field(default_factory=dict)
    n_novel: int | None = field(default=None, metadata=io.LATER)
    mask: str | None = field(default=None, metadata=io.LATER)
    n_masked: int = field(default=0, metadata=io.LATER)

    def presence_in_words(self) -> str:
        """Rule, value and area of the map of presence; "" without one."""
        if not self.presence:
            return ""
        said = self.presence
        area = "area not known, as the layers have no CRS"
        if "km2" in said:
            area = f"{said['km2']:,.0f} of {said['known_km2']:,.0f} km2"
        return (
            f"presence by {said['rule']}, cloglog {said['threshold']:.4f} or more: "
            f"{said['cells']} of {self.n_cells - self.n_masked} cells, {area}"
        )

    @property
    def training(self) -> bool:
        """Whether these are the layers of the fit."""
        return self.name == TRAINING


@io.register
@dataclass(frozen=True, eq=False)
class SpeciesResult:
    """All of one species' fit.

    Attributes
    ----------
    species : its name; model : the fitted density.
    settings : every setting, by name; command : what repeats this run.
    layers : file and band of each layer; categorical : which hold categories; grid : where.
    records : x, y and ``test`` (bool) of the records in use.
    n_background : background points.
    cleaning : what was done to the records; notes : what was assumed, resampled or warned of.
    evaluation, replicates, importance, jackknife, responses : see these; None where left out.
    maps : rasters written; tables : other files, by what they hold.
    bound : the guarantee of the fit in words; seconds : by stage.
    study : the region that background was drawn from, None for all of the layers.
    change : of the range between the training layers and projections on the same grid.
    collinearity, selection : of all variables given, and which of them were used; see these.
    sharing : whether the other species of the run lent strength, None where that was not asked.
    n_cells : cells that the density is over, where the background points are a sample of them.
    reading : how the layers were read, the fields of ``LayerFiles``; None for tables with data.
    """

    species: str
    model: FittedDensity = field(metadata=io.CONVERTED)
    settings: dict[str, Any]
    command: str
    created: str
    version: str
    layers: dict[str, str]
    categorical: tuple[str, ...]
    grid: Grid | None
    records: dict[str, Array]
    n_background: int
    cleaning: list[CleaningStep]
    notes: list[str]
    evaluation: Evaluation
    replicates: list[Replicates]
    importance: Importance | None
    jackknife: Jackknife | None
    responses: list[Response]
    maps: list[MapFiles]
    tables: dict[str, str]
    bound: str
    seconds: dict[str, float]
    study: StudyRegion | None = field(default=None, metadata=io.LATER)
    change: Comparison | None = field(default=None, metadata=io.LATER)
    collinearity: Collinearity | None = field(default=None, metadata=io.LATER)
    selection: Selection | None = field(default=None, metadata=io.LATER)
    sharing: Sharing | None = field(default=None, metadata=io.LATER)
    n_cells: int | None = field(default=None, metadata=io.LATER)
    reading: dict[str, Any] | None = field(default=None, metadata=io.LATER)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", fitted_density(self.model))

    def __repr__(self) -> str:
        scores, test = self.evaluation.scores, self.evaluation.test_scores
        held = "" if test is None else f" ({test['auc']:.3f} of test records)"
        return (
            f"<SpeciesResult: {self.species}, {int(self.model.n_presences)} records, "
            f"{self.n_background} background points, AUC {scores['auc']:.3f}{held}, "
            f"gain {self.model.certificate.gain:.3f}>"
        )


def read_result(folder: Path) -> SpeciesResult:
    """The result of one species, from the folder that ``maxent fit`` wrote."""
    path = folder / RESULT
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file; give a folder that `maxent fit` wrote (one species)"
        )
    result = io.load(path)
    if not isinstance(result, SpeciesResult):
        raise ValueError(f"{path} does not hold the result of `maxent fit`")
    return result
