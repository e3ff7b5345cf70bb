"""Range change between the training layers and projections on the same grid."""

from __future__ import annotations

from collections.abc import Sequence

from maxent.species.comparing.records import CLASSES, ENSEMBLE, Comparison, RangeChange
from maxent.species.report import maps
from maxent.species.report.figures import Picture
from maxent.species.report.markup import (
    PERCENT,
    Html,
    count,
    element,
    joined,
    key,
    link,
    paragraph,
    table,
)
from maxent.species.report.sections.base import Context, figure

_ENSEMBLE = {
    "scenarios_mean": ("Mean of the scenarios", "The suitability on average over the scenarios."),
    "scenarios_sd": (
        "Spread of the scenarios",
        "Standard deviation over the scenarios: where it is large, they disagree.",
    ),
    "scenarios_agreement": (
        "Agreement",
        "How many scenarios call a place suitable, at the same threshold.",
    ),
}


def range_change(context: Context) -> Html | None:
    """Maps and areas of what is lost, kept and gained."""
    found = context.result.change
    if found is None:
        return None
    threshold = f"{found.changes[0].threshold:.4g}" + (f" ({found.rule})" if found.rule else "")
    says = (
        f"Suitable is a cloglog value of at least {threshold}. Only cells that both maps know "
        "count; areas are those on the ellipsoid of their CRS. `maxent change` repeats this with "
        "another threshold."
    )
    if any(change.within is not None for change in found.changes):
        says += (
            " Where a variable lies outside its range at the fit, now or then, the map is a guess "
            "(MESS below 0): the last columns say how many of the cells that is, and what the "
            "change is without them."
        )
    if any(change.intervals for change in found.changes):
        says += (
            f" In brackets intervals of 90{PERCENT}: those of maps drawn at random from what the "
            "records leave open, each with the same weights now and then."
        )
    pictures = [_map(context, found, change.scenario) for change in found.changes]
    pictures += [_ensemble(context, found, what) for what in ENSEMBLE if what in found.files]
    return joined(
        [
            paragraph(says),
            _ranges(found),
            element("div", *pictures, class_="pair"),
            _files(found),
        ]
    )


def _ranges(found: Comparison) -> Html:
    head = ["Projection", "Present", "Future", "Lost", "Kept", "Gained", "Change"]
    head += ["Cells that extrapolate", "Change without them"]
    rows = [
        [
            change.scenario,
            *(_range(change, name) for name in change.ranges()),
            change.change_in_words(),
            *_without(change),
        ]
        for change in found.changes
    ]
    return table(f"Suitable range in {found.unit()}", head, rows, right=range(1, 9))


def _range(change: RangeChange, name: str) -> str:
    """One of the ranges with its interval, where it is known."""
    if not change.cells:
        return ""
    said = count(round(change.ranges()[name]))
    if name in change.intervals:
        low, high = change.intervals[name]
        said += f" ({count(round(low))} to {count(round(high))})"
    return said


def _without(change: RangeChange) -> tuple[str, str]:
    """The share of cells that extrapolate, and the change without them."""
    if change.within is None:
        return "not known", "not known"
    return f"{change.share:.1%}", change.within.change_in_words()


def _files(found: Comparison) -> Html:
    rows = [
        [what.replace("change:", "change, "), link(f"change/{name}")]
        for what, name in found.files.items()
    ]
    return table("Files of the comparison", ["Holds", "File"], rows, class_="settings")


def _map(context: Context, found: Comparison, scenario: str) -> Html:
    path = context.folder / "change" / found.files[f"change:{scenario}"]
    raster = maps.read_raster(path, maps.SMALL, categorical=True)
    picture, colours = maps.class_picture(raster, CLASSES, context.dpi, maps.CHANGE_COLOURS)
    alt = f"Map of range change from the training layers to {scenario}."
    return _figure(picture, alt, scenario, "What is lost, kept and gained.", colours)


def _ensemble(context: Context, found: Comparison, what: str) -> Html:
    path = context.folder / "change" / found.files[what]
    title, says = _ENSEMBLE[what]
    colours: list[tuple[str, str]] = []
    if what == "scenarios_agreement":
        most = len(found.changes)
        votes = {n: f"{n} of {most}" for n in range(most + 1)}
        raster = maps.read_raster(path, maps.SMALL, categorical=True)
        picture, colours = maps.class_picture(raster, votes, context.dpi, maps.steps(most + 1))
    else:
        picture = maps.picture(maps.read_raster(path, maps.SMALL), what, context.dpi)
    return _figure(picture, f"Map. {title}.", title, says, colours)


def _figure(
    picture: Picture, alt: str, title: str, says: str, colours: Sequence[tuple[str, str]]
) -> Html:
    legend = key([*colours, (maps.NODATA, "no data")]) if colours else None
    caption = joined([element("strong", f"{title}. "), says, legend])
    return figure(picture, alt, caption, "map")
