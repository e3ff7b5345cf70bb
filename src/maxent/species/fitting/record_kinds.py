"""KindsOfRecords: what a fit of presences, surveys and counts says beside the density."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from maxent import io
from maxent.density import FittedDensity, FittedIntensity
from maxent.density.intervals import quantile
from maxent.density.sources import Agreement, SourceFit
from maxent.features import Cells
from maxent.rows.arrays import Array

INTENSITIES = ("intensity", "probability", "count")
ENDS = ("lower", "upper")  # what names of maps of intervals end with
APART = "apart_"  # maps of what one source alone says
KM2 = "km2"
_ONE = {"hours": "hour", "nights": "night", "days": "day"}  # of units in the plural
_CLEAR, _HINT = 0.01, 0.1  # p-values
WHAT = {"presences": "presences", "survey": "survey with absences", "counts": "counts"}


@io.register
@dataclass(frozen=True)
class SourceFile:
    """Where a source comes from, and how large its visits were.

    Attributes
    ----------
    name : str
        The source.
    kind : "presences", "survey" or "counts"
        What it is.
    unit : str
        Unit of area or effort, "" where the file says nothing of it.
    least : float
        The smallest visit, in this unit; NaN where it is not known.
    median : float
        The median one.
    most : float
        The largest one.
    n_rows : int
        Visits, or places with and without presences.
    n_records : float
        Those with a find.
    left_out : str
        Why the fit does without it, "" where it does not.
    """

    name: str
    kind: str
    unit: str
    least: float
    median: float
    most: float
    n_rows: int
    n_records: float
    left_out: str = ""

    def size_in_words(self) -> str:
        """How large visits were."""
        if self.kind == "presences":
            return "not known"
        if not self.unit:
            return "every visit alike"
        if self.least == self.most:
            return f"{self.least:.4g} {self.unit}"
        return f"{self.least:.4g} to {self.most:.4g} {self.unit}, median {self.median:.4g}"


@io.register
@dataclass(frozen=True, eq=False)
class KindsOfRecords:
    """Several kinds of records behind one intensity: what each tells, and whether they agree.

    Attributes
    ----------
    files : tuple of SourceFile
        Every source that was given.
    fits : tuple of SourceFit
        What the fit says of those it used.
    log_scale : float or None
        Log of the intensity per unit less the score of the density, None where no source tells it.
    unit : str
        What the intensity is per: "km2", "hours" ...; "" for a visit.
    area : float or None
        How many units probabilities and counts are for, None without a scale.
    weigh : "likelihood" or "held-out"
        How sources were weighed.
    chosen : dict
        Where held-out visits decided: the source they are of, the weight of the others, and the
        held-out deviance by weight.
    agreement : Agreement or None
        The likelihood ratio of separate fits to the joint one; None for one source.
    alone : dict of FittedDensity
        The density of each source alone.
    levels : dict of float
        Log of the mean of each of these over the points of the fit, "" of the joint one.
    """

    files: tuple[SourceFile, ...]
    fits: tuple[SourceFit, ...]
    log_scale: float | None
    unit: str
    area: float | None
    weigh: str = "likelihood"
    chosen: dict[str, object] = field(default_factory=dict)
    agreement: Agreement | None = None
    alone: dict[str, FittedDensity] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)

    @property
    def per(self) -> str:
        """The unit of the intensity, in words."""
        return per(self.unit)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What a map is drawn of beside suitability."""
        return () if self.log_scale is None else ("intensity", "probability")

    def intensity(self, density: FittedDensity) -> FittedIntensity:
        """The intensity whose shape is a density."""
        return FittedIntensity(density, self.log_scale, self.fits)

    def check(self, outputs: Iterable[str]) -> None:
        """Refuse outputs that need a scale where there is none."""
        wrong = [output for output in outputs if output in INTENSITIES]
        if wrong and self.log_scale is None:
            used = ", ".join(fit.name for fit in self.fits)
            raise ValueError(
                f"output {wrong[0]} needs the absolute scale of the intensity, which {used} do not "
                "tell: a survey with visits in vain, or counts, would; without them only ratios "
                "are known (raw, log, cloglog)"
            )

    def drawn(self, theta: Array, outputs: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Intensity, probability and count at some scores."""
        wanted = [output for output in INTENSITIES if output in outputs]
        if not wanted:
            return
        assert self.log_scale is not None
        assert self.area is not None
        with np.errstate(over="ignore"):
            intensity = np.exp(theta.astype(np.float64) + self.log_scale)
        for output in wanted:
            yield output, _OF[output](intensity, self.area)

    def apart(self, files: Iterable[str]) -> dict[str, str]:
        """The source of each map among ``files`` that is of one alone."""
        return dict(zip((f for f in files if f.startswith(APART)), self.alone, strict=False))

    def ends(
        self,
        density: FittedDensity,
        cells: Cells,
        outputs: Iterable[str],
        level: float,
        clamp: bool,
    ) -> Iterator[tuple[str, Array]]:
        """Lower and upper ends of these, by the names of their maps."""
        theta = density.scorer.scores(cells, clamp).astype(np.float64)
        known = density.known_uncertainty()
        reach = quantile(level) * known.scaled_deviation(density, cells, clamp)
        wanted = set(outputs)
        for sign, end in zip((-1, 1), ENDS, strict=True):
            for output, values in self.drawn(theta + sign * reach, wanted):
                yield f"{output}_{end}", values

    def area_in_words(self) -> str:
        """What probabilities are for."""
        if self.area is None:
            return ""
        if not self.unit:
            return "one visit" if self.area == 1 else f"{self.area:.4g} visits"
        return f"{self.area:.4g} {self.unit}"

    def scale_in_words(self) -> str:
        """Whether the intensity is absolute, by which sources."""
        if self.log_scale is None:
            return (
                "The scale is not known: presences say where there are more, not how many. Maps "
                "are relative; a survey with absences, or counts, would tell the rest."
            )
        telling = [f.name for f in self.fits if f.kind != "presences" and not f.own_scale]
        others = [f.name for f in self.fits if f.kind == "presences" or f.own_scale]
        said = f"The intensity is absolute, per {self.per}, by {_listed(telling)}."
        if others:
            said += f" Of {_listed(others)} only where there are more is used, not how many."
        return said

    def agreement_in_words(self) -> str:
        """Whether the sources tell the same story, "" for one source."""
        told = self.agreement
        if told is None:
            return ""
        if told.statistic <= 0:
            return "The sources agree: separate fits describe the records no better."
        numbers = (
            f"separate fits describe the records better by a deviance of {told.statistic:.1f} on "
            f"{told.degrees:.1f} effective degrees of freedom, p {told.p_value:.2g}"
        )
        if not np.isfinite(told.p_value):
            return (
                f"Separate fits describe the records better by a deviance of {told.statistic:.1f}; "
                "how much of that is chance is not known for this penalty."
            )
        if told.p_value < _CLEAR:
            return (
                f"The sources disagree: {numbers}. One of them may be biased, of another time, or "
                "of another thing; the report maps where. A wrong source spoils the fit of all: "
                "look at it, weigh sources by held-out visits (--weigh-sources held-out), or leave "
                "it out."
            )
        if told.p_value < _HINT:
            return f"The sources may disagree: {numbers}. The report maps where."
        return f"The sources agree: {numbers}, as chance alone would make it."

    def weights_in_words(self) -> str:
        """How the sources were weighed."""
        if self.weigh == "likelihood" or not self.chosen:
            return "Every source counts by its likelihood: as much as it has records."
        target, weight = self.chosen["target"], float(str(self.chosen["weight"]))
        if not weight:
            return (
                f"Held-out visits of {target} are predicted best without the other sources, so "
                "these are left out."
            )
        return (
            f"Held-out visits of {target} are predicted best where the other sources count "
            f"{weight:g} times their likelihood."
        )

    def describe(self) -> str:
        """The sources, the scale and the agreement in a sentence or two."""
        parts = [f"{f.name} ({WHAT[f.kind]}, {f.n_records:g} of {f.n_rows})" for f in self.files]
        said = [f"fitted to {_listed(parts)}", self.scale_in_words(), self.agreement_in_words()]
        return ". ".join(part.rstrip(".") for part in said if part)


def per(unit: str) -> str:
    """One of a unit.

    >>> per("hours"), per("km2"), per("")
    ('hour', 'km2', 'visit')
    """
    return _ONE.get(unit, unit) or "visit"


_OF = {
    "intensity": lambda intensity, area: intensity,
    "probability": lambda intensity, area: -np.expm1(-area * intensity),
    "count": lambda intensity, area: area * intensity,
}


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
