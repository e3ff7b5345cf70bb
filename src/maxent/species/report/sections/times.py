"""Time: how records, background and layers go together, and what changes over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxent.species.fitting.results import MapsInTime
from maxent.species.input.times.timing import Timing
from maxent.species.report import figures, maps
from maxent.species.report.markup import Html, count, element, fixed, joined, link, paragraph, table
from maxent.species.report.sections.base import Context, figure

_SHOWN = 60  # times in the table
_DRAWN = {
    "records": "The background is drawn at the times of the records, as many cells at each as its "
    "share of them: that years with more observers have more records says nothing of the species.",
    "uniform": "The background is drawn alike at all times of the layers. Where observers became "
    "more over the years, that is taken for the climate of later years being liked better.",
    "target group": "The background is the cells of the target group, each at the time of its own "
    "record.",
}
_TREND = (
    "The change of suitability (cloglog) a year, the slope of a straight line through all times. "
    "Brown falls, green rises."
)
_TRENDS = {
    "trend": "the map of the trend",
    "trend_lower": "the lower ends of the trend",
    "trend_upper": "its upper ends",
}
_NOT = (
    "It is the trend of the climate as this species is fitted to like it, not of the species: "
    "records were not counted, and places it has not reached or has left are not known."
)


def over_time(context: Context) -> Html | None:
    """How time was treated; area by time, and the map of the trend."""
    timing, found = context.result.timing, context.result.over_time
    if timing is None:
        return None
    said = timing.describe()
    return joined(
        [
            paragraph(f"{said[0].upper()}{said[1:]}."),
            paragraph(f"{_DRAWN[timing.background]}{_lost(timing)}"),
            None if found is None else _trend(context, found),
            _times(timing, found),
            None if found is None else _files(found),
        ]
    )


def _lost(timing: Timing) -> str:
    undated, outside = timing.left.get("undated", 0), timing.left.get("outside", 0)
    if not undated + outside:
        return ""
    return (
        f" {count(undated)} records without a date and {count(outside)} outside the times of the "
        "layers, of all species, are left out."
    )


def _trend(context: Context, found: MapsInTime) -> Html:
    shown = [
        figure(
            figures.over_time(found),
            f"Suitable area in {found.unit} at each time, with its trend.",
            f"Where suitability is at least {found.threshold:.4g} ({found.rule}). "
            f"{found.describe()[0].upper()}{found.describe()[1:]}.",
        )
    ]
    if "trend" in found.files:
        raster = maps.read_raster(context.folder / found.files["trend"], maps.SMALL)
        caption = joined([element("strong", "Trend. "), _TREND])
        shown.append(
            figure(maps.picture(raster, "trend", context.dpi), "Map of the trend.", caption, "map")
        )
    return joined([element("div", *shown, class_="pair"), paragraph(_NOT, class_="says")])


def _times(timing: Timing, found: MapsInTime | None) -> Html:
    used = {step["label"]: step for step in timing.steps}
    drawn = {} if found is None else {row["time"]: row for row in found.rows}
    head = ["Time", "Records of all species", "Background cells"]
    head += [] if found is None else [f"Suitable {found.unit}", "Mean suitability",
                                   "Cells that extrapolate"]  # fmt: skip
    years = {label: step["year"] for label, step in used.items()}
    years |= {label: row["year"] for label, row in drawn.items()}
    labels = sorted(years, key=lambda label: (years[label], label))
    caption = "Times in use"
    if len(labels) > _SHOWN:
        caption += f", the first and last {_SHOWN // 2} of {len(labels)}"
        labels = [*labels[: _SHOWN // 2], *labels[-(_SHOWN // 2) :]]
    rows = []
    for label in labels:
        step, row = used.get(label, {}), drawn.get(label)
        cells = [label, count(step.get("records", 0)), count(step.get("background", 0))]
        if found is not None and row is not None:
            beyond = row["extrapolated"]
            cells += [_area(row, found.area), fixed(row["mean"])]
            cells.append("not known" if beyond is None else count(beyond))
        elif found is not None:
            cells += ["", "", ""]
        rows.append(cells)
    return table(caption, head, rows, right=range(1, len(head)), class_="settings")


def _area(row: Mapping[str, Any], name: str) -> str:
    """The suitable area of a time, with its interval where it is known."""
    said = count(round(row[name]))
    if f"{name}_low" in row:
        low, high = (count(round(row[f"{name}_{end}"])) for end in ("low", "high"))
        said += f" ({low} to {high})"
    return said


def _files(found: MapsInTime) -> Html:
    drawn = [name for what, name in found.files.items() if what.startswith("map:")]
    rows = [["the table of times", link(found.files["table"])]]
    for what, words in _TRENDS.items():
        rows += [[words, link(found.files[what])]] if what in found.files else []
    rows += [["map of the first time", link(drawn[0])], ["map of the last time", link(drawn[-1])]]
    return table("Files over time", ["Holds", "File"], rows, class_="settings")
