"""Presences, surveys and counts in one fit: what each tells, the scale, and whether they agree."""

from __future__ import annotations

from itertools import islice

from maxent.species.fitting.record_kinds import APART, WHAT, KindsOfRecords
from maxent.species.fitting.results import MapFiles
from maxent.species.report import maps
from maxent.species.report.markup import (
    Html,
    count,
    element,
    fixed,
    joined,
    paragraph,
    plain,
    table,
)
from maxent.species.report.sections.base import Context, figure

IS = (
    "One intensity was fitted to all kinds of records at once: presences tell where there are "
    "more, thinned by an effort that is not known; a survey with absences tells how often a visit "
    "of its area finds the species, 1 - exp(-area x intensity); counts tell how many there are in "
    "an area. An individual that visits overlook is not part of it: probabilities and counts are "
    "of finds."
)
_MOST = 12  # maps of single sources at most


def kinds(context: Context) -> Html | None:
    """The sources, the scale with its maps, and where sources disagree."""
    told = context.result.kinds
    if told is None:
        return None
    written = maps.training_map(context.result)
    return joined(
        [
            paragraph(IS),
            _sources(told),
            paragraph(element("strong", told.scale_in_words())),
            None if written is None else _absolute(context, told, written),
            paragraph(told.weights_in_words()) if len(told.files) > 1 else None,
            _agreement(told),
            None if written is None else _apart(context, told, written),
        ]
    )


def _sources(told: KindsOfRecords) -> Html:
    fits = {fit.name: fit for fit in told.fits}
    rows = []
    for file in told.files:
        fit = fits.get(file.name)
        used = "left out: " + file.left_out if file.left_out else "left out by its weight"
        if fit is not None:
            own = fit.kind != "presences" and fit.own_scale
            used = "where there are more" if own or fit.kind == "presences" else "and how many"
            used += "".join(f"; effort {n} {g:+.3g} per unit" for n, g in fit.effort.items())
        rows.append(
            [
                file.name,
                WHAT[file.kind],
                count(file.n_rows),
                count(file.n_records),
                file.size_in_words(),
                "0" if fit is None else plain(fit.weight),
                used,
            ]
        )
    head = ["Source", "Kind", "Places or visits", "With a find", "Area or effort", "Weight",
            "Tells"]  # fmt: skip
    return table("The records, by source", head, rows, right=[2, 3, 5])


def _agreement(told: KindsOfRecords) -> Html | None:
    found = told.agreement
    if found is None:
        return None
    rows = [
        [name, fixed(joint, 1), fixed(alone, 1), fixed(joint - alone, 1)]
        for name, joint, alone in zip(found.names, found.joint, found.separate, strict=True)
    ]
    head = ["Source", "Deviance, together", "Deviance, alone", "Difference"]
    says = (
        "Deviance is twice the log likelihood that a perfect description has more. Where sources "
        "tell the same story, each loses little by being described together with the others. "
        "Under penalties the p-value is a guide to the maps, not a verdict."
    )
    return joined(
        [
            element("h3", "Do the sources agree?"),
            paragraph(element("strong", told.agreement_in_words())),
            table("Each source described by the fit of all, and by one of its own", head, rows,
                  right=[1, 2, 3]),
            paragraph(says, class_="says"),
        ]
    )  # fmt: skip


def _absolute(context: Context, told: KindsOfRecords, written: MapFiles) -> Html | None:
    area = told.area_in_words()
    words = {
        "intensity": (
            "Intensity",
            f"How many per {told.per}. The colours end at the 99th percentile.",
        ),
        "intensity_lower": (
            "Intensity, lower end",
            "How low it may be at each place: nine of ten such intervals should hold the truth, "
            "each place by itself.",
        ),
        "intensity_upper": ("Intensity, upper end", "How high it may be."),
        "probability": (
            "Probability of presence",
            f"That {area} {'finds' if not told.unit else 'holds'} the species (--area).",
        ),
        "count": ("Expected count", f"In {area} (--area)."),
    }
    shown = []
    for kind, (title, says) in words.items():
        if kind not in written.files:
            continue
        raster = maps.read_raster(context.folder / written.files[kind], maps.SMALL)
        caption = joined([element("strong", f"{title}. "), says])
        alt = f"Map of {title.lower()} of {context.result.species}."
        shown.append(figure(maps.picture(raster, kind, context.dpi), alt, caption, "map"))
    if not shown:
        return None
    said = None
    if written.expected is not None:
        said = paragraph(
            f"Over the {count(written.n_cells)} cells of the map that is "
            f"{written.expected_in_words()} in all."
        )
    return joined([element("div", *shown, class_="pair"), said])


def _apart(context: Context, told: KindsOfRecords, written: MapFiles) -> Html | None:
    apart = told.apart(written.files)
    if not apart:
        return None
    shown = []
    for kind, name in islice(apart.items(), _MOST):
        raster = maps.read_raster(context.folder / written.files[kind], maps.SMALL)
        caption = joined([
            element("strong", f"{name} alone. "),
            "Blue: it says more there than all sources together; red: less. 1 is twice as many, "
            "-1 half as many (a tenth of the mean is added to both, so that places with hardly any "
                "do not count).",
        ])  # fmt: skip
        alt = f"Map of how many times more {name} alone says than all sources together."
        shown.append(figure(maps.picture(raster, APART, context.dpi), alt, caption, "map"))
    return element("div", *shown, class_="pair")
