"""What a fit of several kinds of records is told, beside what every fit is."""

from __future__ import annotations

from dataclasses import dataclass

from maxent.species.fitting.options import BACKGROUND, DATA, MODEL, OUTPUT, check_options, option

NOT_IN_TIME = (
    "surveys and counts take one value of each layer, and dates (--date-column) give records the "
    "layers of their own time; leave out the dates, or the surveys and counts"
)
PRESENCES, SURVEY, COUNTS = "presences", "survey", "counts"
LIKELIHOOD, HELD_OUT = "likelihood", "held-out"


@dataclass(frozen=True)
class SourceSettings:
    """How surveys and counts are read, and how much each kind of records tells.

    Parameters
    ----------
    kind : "presences", "survey" or "counts", default "presences"
        What the records are that the fit begins with.
    count_column : str, default None
        Name of the column of individuals counted; None recognises individualCount, count and other
        common ones.
    visits_column : str, default None
        Name of the column of visits to a site, of which that of presence says how many found the
        species; None recognises visits and other common ones.
    area_column : str, default None
        Name of the column of areas, or of effort; None recognises area_km2, hours and other common
        ones.
    area_unit : "km2", "ha" or "m2", default None
        Unit of areas whose column does not say it, and of ``site_area``.
    site_area : float, default None
        Area of every visit, in files without such a column.
    count_size : float, default None
        Size k of counts that vary more than Poisson's, `mean + mean^2 / k`.
    effort_layers : tuple of str, default ()
        Layers that tell where people looked, not where the species is: they are taken out of the
        presences and are no part of the map.
    weigh : "likelihood" or "held-out", default "likelihood"
        What sources count: their likelihood, or all others as much as predicts held-out visits of
        the survey, or counts, with most records best.
    area : float, default None
        Area (in the unit of the intensity) that probabilities and counts are for; None is that of
        the median visit.
    """

    kind: str = option(
        PRESENCES,
        "What the first file holds: presences, a survey with absences, or counts.",
        DATA,
        choices=(PRESENCES, SURVEY, COUNTS),
    )
    count_column: str | None = option(None, "Read individuals counted from this column.", DATA)
    visits_column: str | None = option(
        None, "Read the number of visits to a site from this column.", DATA
    )
    area_column: str | None = option(
        None, "Read areas, or effort, of visits from this column.", DATA
    )
    area_unit: str | None = option(
        None,
        "Take areas without a unit in km2, ha or m2.",
        DATA,
        choices=(None, "km2", "ha", "m2"),
    )
    site_area: float | None = option(
        None, "Take this area for every visit of files without a column of areas.", DATA
    )
    count_size: float | None = option(
        None,
        "Let counts vary more than Poisson's: mean + mean^2 / this.",
        MODEL,
    )
    effort_layers: tuple[str, ...] = option(
        (),
        "This layer tells where people looked, and is no part of the map; repeat for more.",
        BACKGROUND,
        "--effort-layer",
    )
    weigh: str = option(
        LIKELIHOOD,
        "Weigh kinds of records by their likelihood, or by held-out visits.",
        MODEL,
        "--weigh-sources",
        choices=(LIKELIHOOD, HELD_OUT),
    )
    area: float | None = option(
        None,
        "Map the probability of presence, and expected counts, in this area (km2, or the unit of "
        "effort) [default: that of the median visit].",
        OUTPUT,
    )

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("site_area", "count_size", "area"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a number above 0, got {value!r}")
