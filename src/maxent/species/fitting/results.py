"""What a fit of one species is made of: everything the report, the tables and the map show.

All of these are plain data that :func:`maxent.save` writes as JSON and arrays, so that a report
can be made again from a saved result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent.density import FittedDensity, fitted_density
from maxent.density.intervals import LEVEL
from maxent.evaluation import Variogram
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import RESULT
from maxent.species.comparing.records import Comparison
from maxent.species.fitting.record_kinds import KindsOfRecords
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.units import UnlikeUnits
from maxent.species.input.times.timing import Timing
from maxent.species.study.study_region import StudyRegion

TRAINING = "training layers"


@io.register
@dataclass(frozen=True)
class CleaningStep:
    """What happened to the records: how many were taken out (or moved), and examples of them.

    Attributes
    ----------
    what : str
        What happened.
    records : int
        How many were taken out (or moved).
    examples : tuple of str
        Some of them, in words.
    """

    what: str
    records: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Sample:
    """The points a species is fitted to, one row per cell: environment, counts and places.

    Attributes
    ----------
    X : table
        One column per layer.
    counts : array (n_rows,)
        Occurrences in each row, 0 for background.
    coordinates : array (n_rows, 2) or None
        x and y of each row, None where the places are not known.
    prior : array (n_rows,) or None
        Sampling effort, which the fit takes out again; None for even effort.
    background : array (n_rows,) or None
        Which rows stand for the region (a presence outside the drawn background is a point of the
        domain, but no background point in evaluations).
    crs : str or None
        CRS of the coordinates, None where it is not known.
    """

    X: Any
    counts: Array
    coordinates: Array | None = None
    prior: Array | None = None
    background: Array | None = None
    crs: str | None = None

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
            self.crs,
        )


@io.register
@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well a map tells presences from background.

    Attributes
    ----------
    scores : dict of float
        Scores of the training records by name: auc, auc_sd, gain, log_loss, boyce, max_tss, aicc
        ...
    test_scores : dict of float or None
        The same of the test records, None without any.
    roc : dict
        "train" and "test": false_positive_rate, true_positive_rate.
    omission : dict of array
        threshold (cloglog), raw, cumulative, area, training_omission, test_omission.
    thresholds : list of dict
        One row per rule: name, value (cloglog), raw, cumulative, area, training_omission,
        test_omission, p_value.
    calibration : dict of array
        predicted, observed, low, high: share of presences in bins of the prediction against what
        the model expects there.
    boyce_curve : dict of array
        prediction, ratio: predicted against expected, the curve behind the index.
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
class BlockSize:
    """How large the blocks of a cross-validation are, and how that was chosen.

    Attributes
    ----------
    km : float
        Side of a block on the ground.
    rule : "given", "layers" or "residuals"
        Where it comes from: the median range over which layers are alike, or that of the residuals
        of the fit.
    variograms : dict of Variogram
        By layer, or of the residuals; empty where the size was given.
    reach : float
        km up to which pairs of places were looked at, 0 where none were.
    edges : list of array (n, 2)
        Lines between blocks, in the coordinates of the layers.
    """

    km: float
    rule: str
    variograms: dict[str, Variogram] = field(default_factory=dict)
    reach: float = 0.0
    edges: list[Array] = field(default_factory=list)

    def describe(self) -> str:
        """What it is, in words."""
        if self.rule == "given":
            return f"blocks of {self.km:.4g} km"
        if self.rule == "residuals":
            return (
                f"blocks of {self.km:.4g} km, the range over which residuals of the fit are alike"
            )
        ranges = [v.range for v in self.variograms.values()]
        near = [r for r in ranges if 0 < r < np.inf]
        words = f"blocks of {self.km:.4g} km, the median range over which {len(ranges)} layers are"
        words += " alike"
        told = (
            [" to ".join(f"{r:.4g}" for r in sorted({min(near), max(near)})) + " km"]
            if near
            else []
        )
        endless, without = sum(r == np.inf for r in ranges), sum(r == 0 for r in ranges)
        if endless:
            told.append(f"{endless} beyond the {self.reach:.4g} km looked at, which they count as")
        if without:
            told.append(f"{without} without any")
        return f"{words} ({'; '.join(told)})"


@io.register
@dataclass(frozen=True, eq=False)
class Replicates:
    """The fit repeated on parts of the records and scored on the rest.

    Attributes
    ----------
    kind : "blocks", "checkerboard", "environment", "random", "bootstrap" or "subsample"
        How the records were split.
    table : list of dict
        One row per replicate: name, n_train, n_test, train_auc, test_auc, auc_difference
        (absolute), test_gain, boyce, omission_minimum, omission_10_percentile, gain, gap.
    roc : dict of array
        false_positive_rate, and mean and sd of the true positive rate over replicates.
    omission : dict of array
        cumulative, and mean and sd of the test omission.
    coordinates : array (n_presences, 2) or None
        Places of the presences, for a picture of the blocks; None without places.
    fold : array (n_presences,) or None
        Fold of each presence.
    blocks : BlockSize or None
        The size of its blocks, where they have one.
    """

    kind: str
    table: list[dict[str, Any]]
    roc: dict[str, Array] = field(default_factory=dict)
    omission: dict[str, Array] = field(default_factory=dict)
    coordinates: Array | None = None
    fold: Array | None = None
    blocks: BlockSize | None = field(default=None, metadata=io.LATER)


@io.register
@dataclass(frozen=True)
class Sharing:
    """Whether a species was given strength by the others of its group, and what decided it.

    Attributes
    ----------
    chosen : bool
        Whether the density is the mean of its own log density and that of the others.
    n_others : int
        Species that lent.
    lenders : dict of float
        Weight of each one's exponent in the others' part.
    kind : "blocks", "checkerboard", "environment" or "random"
        How the cross-validation split the records.
    folds : int
        Its number of folds.
    own : dict of float
        Scores of held-out records by the species alone: gain (mean log density against an even map,
        which decides) and auc; empty where nothing could be compared.
    shared : dict of float
        The same scores with the others.
    reason : str
        Why, in words.
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
class Borrowing:
    """The joint fit that a density was taken out of, and what the species had from the others.

    Attributes
    ----------
    group : str
        Name of the group, "" for all species of the run.
    n_species : int
        Species in the joint fit.
    n_records : int
        Their records, one per cell unless duplicates were kept.
    n_places : int
        Places that all densities are over.
    n_features : int
        Features that they share.
    rounds : int
        How often the relation between species was taken anew from their weights.
    own_share : float
        Share of the species' own density in the mean of logs.
    gap : float
        Duality gap of the joint problem for the last relation, in nats per record of the group.
    converged : bool
        Whether the solver reached its tolerance.
    alike : dict of float
        Correlation of its weights with those of the species most like it, the most like first.
    kind : str
        How the cross-validation split the places: "blocks", "checkerboard", "environment",
        "random" or "none".
    folds : int
        In how many of its folds the species was scored.
    own : dict of float
        Scores of held-out records under the species' own density: gain (mean log density against an
        even map) and auc; empty where nothing could be compared.
    joint : dict of float
        The same scores under the joint density.
    reason : str
        Why nothing was borrowed or compared, in words; "" where it was.
    spatial : bool
        Whether the features look at the coordinates too.
    """

    group: str
    n_species: int
    n_records: int
    n_places: int
    n_features: int
    rounds: int
    own_share: float
    gap: float
    converged: bool
    alike: dict[str, float]
    kind: str
    folds: int
    own: dict[str, float]
    joint: dict[str, float]
    reason: str = ""
    spatial: bool = False

    @property
    def whose(self) -> str:
        """The species of the joint fit, in words."""
        return f"{self.n_species} species" + (f" of {self.group}" if self.group else "")

    def scores_in_words(self) -> str:
        """Both held-out scores; "" where there are none."""
        if not self.own:
            return ""
        return (
            f"held-out gain {self.own['gain']:.3f} alone, {self.joint['gain']:.3f} joint; AUC "
            f"{self.own['auc']:.3f} alone, {self.joint['auc']:.3f} joint"
        )

    def describe(self) -> str:
        """In one sentence."""
        said = f"fitted jointly with {self.n_species - 1} other species"
        said += f" of {self.group}" if self.group else ""
        if self.n_species == 1:
            said = "fitted by itself"
        return "; ".join(part for part in (said, self.scores_in_words(), self.reason) if part)


@io.register
@dataclass(frozen=True, eq=False)
class Origin:
    """Where records come from, as their file says.

    Attributes
    ----------
    source : str
        Name of the file.
    citation : str
        How its publisher wants it cited, "" where it does not say.
    licence : str
        Its licence, "" where it does not say.
    licences : dict of int
        Licences of the single records, and how many have each.
    datasets : int
        Datasets that the records are from, 0 where they do not say.
    flags : dict of int
        What the publisher found wrong with records, such as GBIF's issues, and how often.

    Examples
    --------
    >>> Origin("r.zip", "GBIF.org Download", licences={"CC BY 4.0": 12}, datasets=3).describe()
    'GBIF.org Download; 3 datasets; licences: 12 CC BY 4.0'
    """

    source: str
    citation: str = ""
    licence: str = ""
    licences: dict[str, int] = field(default_factory=dict)
    datasets: int = 0
    flags: dict[str, int] = field(default_factory=dict)

    def describe(self) -> str:
        """Citation, datasets and licences, "" where nothing is known of them."""
        known = [self.citation] if self.citation else []
        if self.datasets > 1:
            known.append(f"{self.datasets} datasets")
        if self.licences:
            known.append("licences: " + counts_in_words(self.licences))
        elif self.licence:
            known.append(f"licence: {self.licence}")
        return "; ".join(known)


def counts_in_words(counts: Mapping[str, int], most: int = 8) -> str:
    """Counts as a list, the commonest first.

    >>> counts_in_words({"a": 1200, "b": 1})
    '1,200 a, 1 b'
    """
    shown = [f"{n:,} {name}" for name, n in list(counts.items())[:most]]
    more = f" and {len(counts) - most} more" if len(counts) > most else ""
    return ", ".join(shown) + more


@io.register
@dataclass(frozen=True, eq=False)
class Importance:
    """What each variable does for the fit.

    Attributes
    ----------
    variables : tuple of str
        Names, in the order of the layers.
    contribution : array (n_variables,)
        Percent of the unregularized gain, its Aumann-Shapley share (adds up to 100; negative where
        a variable only makes up for others).
    permutation : array (n_variables,)
        Drop of training AUC when the variable is shuffled, as percent of all drops.
    permutation_sd : array (n_variables,)
        Its deviation over repeated shuffles.
    auc_drop : array (n_variables,)
        The drop itself.
    auc_drop_sd : array (n_variables,)
        Its deviation over repeated shuffles.
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
    variables : tuple of str
        Names of the variables.
    correlation : array (n_variables, n_variables)
        Pearson's correlation.
    vif : array (n_variables,)
        Variance inflation factor of each among all of them.
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
    rule : str
        "vif=10" or "forward", as asked for.
    kept : tuple of str
        Names of the variables used.
    dropped : dict
        name -> why it was left out.
    steps : list of dict
        Of a forward selection, the variables in the order in which they were added, with the
        held-out gain reached.
    """

    rule: str
    kept: tuple[str, ...]
    dropped: dict[str, str]
    steps: list[dict[str, Any]] = field(default_factory=list)

    def describe(self) -> str:
        """What was left out and why, in one sentence.

        >>> Selection("vif", ("a", "b"), {"c": "VIF 12.0, above 10"}).describe()
        '--select vif leaves out c (VIF 12.0, above 10) and uses a, b'
        """
        lost = ", ".join(f"{name} ({why})" for name, why in self.dropped.items())
        return (
            f"--select {self.rule} leaves out {lost or 'nothing'} and uses {', '.join(self.kept)}"
        )


@io.register
@dataclass(frozen=True, eq=False)
class Jackknife:
    """Every variable alone and left out: regularized training gain, test gain and AUC.

    Attributes
    ----------
    variables : tuple of str
        Names of the variables.
    scores : dict
        From "train_gain", "auc" (of training records) and, with test records, "test_gain" and
        "test_auc" to {"all": number, "only": (variables,), "without": (variables,)}.
    """

    variables: tuple[str, ...]
    scores: dict[str, dict[str, Any]]


@io.register
@dataclass(frozen=True, eq=False)
class Response:
    """Prediction (cloglog) along one variable, with a 90 % band.

    Attributes
    ----------
    variable : str
        Name of the variable.
    kind : "marginal" or "single"
        "marginal" has the others at the mean of the presences, categories at their commonest level;
        "single" is a model of this variable alone.
    categorical : bool
        Whether it holds categories.
    x : array (n,)
        Values or levels.
    y : array (n,)
        Prediction at each.
    low : array (n,) or None
        Lower end of the band.
    high : array (n,) or None
        Upper end of the band.
    """

    variable: str
    kind: str
    categorical: bool
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


def _three_digits(value: float) -> str:
    """As no sum of an intensity is known better."""
    if not np.isfinite(value) or value <= 0:
        return f"{value:g}"
    last = int(np.floor(np.log10(value))) - 2
    return f"{round(value, -last):,.{max(0, -last)}f}"


def _cells(cells: int, km2: float | None) -> str:
    return f"{cells:,} cells" if km2 is None else f"{cells:,} cells, {km2:,.0f} km2"


@io.register
@dataclass(frozen=True, eq=False)
class MapFiles:
    """Rasters written for one set of layers.

    Attributes
    ----------
    name : str
        "training layers", or the folder projected to.
    files : dict
        File names beside the report by what they hold (cloglog, raw, logistic, cumulative, log,
        clamping, mess, mod, exdet, ...).
    n_cells : int
        Known cells.
    classes : dict
        The number written for each variable in the map of the most dissimilar one.
    n_extrapolated : int or None
        Cells with negative similarity to the fit, None where it was not looked at.
    n_clamped : int
        Cells with a variable that was held at its range, so none without clamping.
    n_unseen : int
        Cells with an unseen category.
    seconds : float
        Time taken.
    n_outside : int
        Cells with a variable outside its range at the fit.
    presence : dict
        Of the map of presence: rule, threshold, cells, and km2 of them and of all known cells
        (known_km2) where the CRS is known; of a density with intervals ``level``, and low_km2 and
        high_km2 (low_cells and high_cells).
    n_novel : int or None
        Cells with a new combination of variables (ExDet above 1); None where not known.
    mask : str or None
        What the cells left out of the maps of suitability were told by, "mess" or "exdet"; None for
        none.
    n_masked : int
        How many they are.
    km2 : float or None
        Area of the known cells, None where the CRS is not known.
    extent : str
        What the maps were cut to, in words; "" for all of the layers.
    region : dict
        Of the part inside the study region of the fit: cells, km2 of them, how many are
        ``extrapolated`` and, with a map of presence, ``present`` and ``judged`` (not masked) with
        ``present_km2`` and ``judged_km2``. Empty without a region.
    unlike : tuple of UnlikeUnits
        Variables that seem to be in other units than at the fit.
    quantiles : dict of array (101,)
        Of each variable of numbers its quantiles at 0, 1 ... 100 % over (a sample of) the cells.
    expected : float or None
        Of an intensity per km2 how many are expected over all cells drawn.
    expected_ends : tuple of float or None
        Lower and upper end of that, of 90 %; None where the model does not know.
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
    km2: float | None = field(default=None, metadata=io.LATER)
    extent: str = field(default="", metadata=io.LATER)
    region: dict[str, Any] = field(default_factory=dict, metadata=io.LATER)
    unlike: tuple[UnlikeUnits, ...] = field(default=(), metadata=io.LATER)
    quantiles: dict[str, Array] = field(default_factory=dict, metadata=io.LATER)
    expected: float | None = field(default=None, metadata=io.LATER)
    expected_ends: tuple[float, float] | None = field(default=None, metadata=io.LATER)

    def presence_in_words(self) -> str:
        """Rule, value and area of the map of presence, in all and in the region; "" without one."""
        if not self.presence:
            return ""
        said = self.presence
        area = "area not known, as the layers have no CRS"
        if "km2" in said:
            area = f"{said['km2']:,.0f} of {said['known_km2']:,.0f} km2"
        area += self._presence_interval()
        words = (
            f"presence by {said['rule']}, cloglog {said['threshold']:.4f} or more: "
            f"{said['cells']} of {self.n_cells - self.n_masked} cells, {area}"
        )
        inside = self.region
        if "present" not in inside or inside["cells"] == self.n_cells:
            return words
        words += f"; in the study region {inside['present']} of {inside['judged']} cells"
        if "present_km2" in inside:
            words += f", {inside['present_km2']:,.0f} of {inside['judged_km2']:,.0f} km2"
        return words

    def expected_in_words(self) -> str:
        """How many are expected, with its interval where it is known; "" where neither is."""
        if self.expected is None:
            return ""
        said = _three_digits(self.expected)
        if self.expected_ends is not None:
            low, high = map(_three_digits, self.expected_ends)
            said += f" ({LEVEL:.0%} interval {low} to {high})"
        return said

    def _presence_interval(self) -> str:
        """The interval of the area of presence, "" where it is not known."""
        ends = self.area_ends()
        if ends is None:
            return ""
        unit, low, high = ends
        return f" ({self.presence['level']:.0%} interval {low:,.0f} to {high:,.0f} {unit})"

    def extent_in_words(self) -> str:
        """Cells and area of the maps, beside those of the study region, and what extrapolates."""
        words = f"{self.extent or 'all of the layers'}, {_cells(self.n_cells, self.km2)}"
        if self.n_extrapolated is not None:
            words += f", of which {self.n_extrapolated:,} cells extrapolate (MESS below 0)"
        inside = self.region
        if not inside or inside["cells"] == self.n_cells:
            return words
        words += f"; in the study region {_cells(inside['cells'], inside.get('km2'))}"
        if "extrapolated" in inside:
            words += f", of which {inside['extrapolated']:,} cells extrapolate"
        return words

    def area_ends(self) -> tuple[str, float, float] | None:
        """Unit and ends of the area of presence, None where they are not known."""
        for unit in ("km2", "cells"):
            if f"low_{unit}" in self.presence:
                return unit, self.presence[f"low_{unit}"], self.presence[f"high_{unit}"]
        return None

    @property
    def training(self) -> bool:
        """Whether these are the layers of the fit."""
        return self.name == TRAINING


@io.register
@dataclass(frozen=True, eq=False)
class MapsInTime:
    """Maps of several times, the area at each, and how suitability changes from one to the next.

    The trend of a cell is the slope of the least-squares line of its suitability (cloglog) over
    years t, `sum_t (t - mean t) y_t / sum_t (t - mean t)^2` over the times at which it is known.

    Attributes
    ----------
    rows : list of dict
        One per time: time, year (its middle, with a fraction), start, end, cells, km2, suitable
        cells and suitable_km2 (of those at or above the threshold; of a density with intervals also
        suitable_km2_low and suitable_km2_high), mean (suitability) and extrapolated (cells with
        MESS below 0, None where not known).
    rule : str
        What the threshold is called.
    threshold : float
        The cloglog value from which on a cell counts as suitable.
    files : dict
        Files by what they hold, from the folder of the result: trend, table and, by
        ``map:<time>``, each map.
    slopes : dict of float
        Per year: suitable_km2 (or suitable, without a CRS) and mean; and rising and falling, the
        shares of cells whose trend is above or below 0. Of a density with intervals also
        surely_rising and surely_falling, where the whole interval of the trend is.
    known : int
        Cells known at two times or more.
    ends : dict of (float, float)
        The intervals of the slopes of area and mean, where they are known.

    Examples
    --------
    >>> found = MapsInTime([], "value given", 0.5, {}, {"suitable_km2": -12.4}, 0)
    >>> found.describe()
    'suitable area changes by -12 km2 a year'
    """

    rows: list[dict[str, Any]]
    rule: str
    threshold: float
    files: dict[str, str]
    slopes: dict[str, float]
    known: int
    ends: dict[str, tuple[float, float]] = field(default_factory=dict, metadata=io.LATER)

    @property
    def area(self) -> str:
        """The column of areas: in km2, or in cells without a CRS."""
        return "suitable_km2" if "suitable_km2" in self.slopes else "suitable"

    @property
    def unit(self) -> str:
        """Of areas."""
        return "km2" if self.area == "suitable_km2" else "cells"

    def describe(self) -> str:
        """How the area changes, in words."""
        if self.area not in self.slopes:
            return "one time, so no trend"
        said = f"suitable area changes by {self.slopes[self.area]:+,.0f} {self.unit} a year"
        if self.area in self.ends:
            low, high = self.ends[self.area]
            said += f" ({low:+,.0f} to {high:+,.0f})"
        if "rising" in self.slopes:
            sure = {
                what: f" ({self.slopes[f'surely_{what}']:.0%} by their whole interval)"
                if f"surely_{what}" in self.slopes
                else ""
                for what in ("rising", "falling")
            }
            said += (
                f"; suitability rises in {self.slopes['rising']:.0%} of the cells{sure['rising']} "
                f"and falls in {self.slopes['falling']:.0%}{sure['falling']}"
            )
        return said


@io.register
@dataclass(frozen=True, eq=False)
class SpeciesResult:
    """All of one species' fit.

    Attributes
    ----------
    species : str
        Name of the species.
    model : FittedDensity
        The fitted density.
    settings : dict
        Every setting, by name.
    command : str
        What repeats this run.
    created : str
        When it was made.
    version : str
        Version of maxent.
    layers : dict
        File and band of each layer.
    categorical : tuple of str
        Layers that hold categories.
    grid : Grid or None
        Where they are.
    records : dict of array
        x, y and ``test`` (bool) of the records in use, and their ``step`` where layers have times.
    n_background : int
        Background points.
    cleaning : list of CleaningStep
        What was done to the records.
    notes : list of str
        What was assumed, resampled or warned of.
    evaluation : Evaluation
        How well the map tells presences from background.
    replicates : list of Replicates
        The fit repeated on parts of the records.
    importance : Importance or None
        What each variable does for the fit; None where left out.
    jackknife : Jackknife or None
        Every variable alone and left out; None where left out.
    responses : list of Response
        Curves along each variable.
    maps : list of MapFiles
        Rasters written.
    tables : dict
        Other files, by what they hold.
    bound : str
        The guarantee of the fit in words.
    seconds : dict of float
        Time taken, by stage.
    study : StudyRegion or None
        The region that background was drawn from, None for all of the layers.
    change : Comparison or None
        Change of the range between the training layers and projections on the same grid.
    collinearity : Collinearity or None
        Of all variables given.
    selection : Selection or None
        Which of them were used.
    sharing : Sharing or None
        Of folders of `fit --share`, which ``--joint`` took the place of.
    borrowing : Borrowing or None
        The joint fit of the species of the run, None where each was fitted by itself.
    n_cells : int or None
        Cells that the density is over, where the background points are a sample of them.
    reading : dict or None
        How the layers were read, the fields of ``LayerFiles``; None for tables with data.
    projected : dict of dict
        The same of every projection, by its name.
    origins : list of Origin
        Where the records, and those for testing, come from: citation and licences.
    timing : Timing or None
        How time was treated, None where layers have none.
    over_time : MapsInTime or None
        The maps of all times, None where there are none.
    kinds : KindsOfRecords or None
        Surveys and counts that the fit is of too, None for presences alone.
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
    borrowing: Borrowing | None = field(default=None, metadata=io.LATER)
    n_cells: int | None = field(default=None, metadata=io.LATER)
    reading: dict[str, Any] | None = field(default=None, metadata=io.LATER)
    projected: dict[str, dict[str, Any]] = field(default_factory=dict, metadata=io.LATER)
    origins: list[Origin] = field(default_factory=list, metadata=io.LATER)
    timing: Timing | None = field(default=None, metadata=io.LATER)
    over_time: MapsInTime | None = field(default=None, metadata=io.LATER)
    kinds: KindsOfRecords | None = field(default=None, metadata=io.LATER)

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
