"""The map of the training layers, and those of projections."""

from __future__ import annotations

from itertools import product

import numpy as np

from maxent.species.fitting.record_kinds import ENDS, INTENSITIES, KindsOfRecords
from maxent.species.fitting.results import MapFiles
from maxent.species.report import maps
from maxent.species.report.interactive import interactive_map
from maxent.species.report.markup import (
    Html,
    count,
    element,
    joined,
    key,
    link,
    paragraph,
    percent,
    table,
)
from maxent.species.report.sections.base import Context, figure, further

_FILES = {
    "cloglog": "suitability, cloglog scale (0 to 1)",
    "logistic": "suitability, logistic scale (0 to 1)",
    "cumulative": "suitability, cumulative scale (0 to 100)",
    "raw": "raw density (adds up to 1 over the points of the fit)",
    "log": "logarithm of the raw density",
    "presence": "presence (1) and absence (0) by the threshold asked for",
    "replicates_mean": "mean of the replicates' suitability",
    "replicates_sd": "standard deviation of the replicates' suitability",
    "replicates_min": "least of the replicates' suitability",
    "replicates_max": "largest of the replicates' suitability",
    "replicates_median": "median of the replicates' suitability",
    "environment": "what the environment makes of the log density",
    "space": "what space makes of the log density",
    "cloglog_lower": "lower end of the interval of suitability at each place",
    "cloglog_upper": "upper end of the interval of suitability at each place",
    "clamping": "what clamping changes",
    "mess": "multivariate environmental similarity (MESS)",
    "mod": "most dissimilar variable (MoD)",
    "effort": "sampling effort, the density of the records",
    "exdet": "novelty of variables (below 0) and of their combinations (above 1), ExDet",
}
_CLASSES = ("presence", "mod")
_PRESENCE = {0: "below the threshold", 1: "at or above it"}
_BESIDE = {
    "environment": (
        "Of the environment",
        "What the variables make of the log density, against the mean place: 0.69 doubles it, "
        "-0.69 halves it. Green: more than there, pink: less.",
    ),
    "space": (
        "Of space",
        "What places alone make of it (--spatial): where records are that the variables do not "
        "explain. This and the map of the environment add up to the log density.",
    ),
    "presence": ("Presence and absence", "The map cut at the threshold asked for."),
    "effort": (
        "Sampling effort",
        "The density of the records themselves, 1 at the record where it is largest: background "
        "is drawn in proportion to it, or it is taken out of the density.",
    ),
    "replicates_mean": ("Mean of the replicates", "The suitability on average over the refits."),
    "replicates_sd": (
        "Spread of the replicates",
        "Standard deviation over the refits: where it is large, the map depends on which records "
        "were used.",
    ),
    "cloglog_lower": (
        "Lower end",
        "How low suitability may be at each place: nine of ten such intervals, from this map to "
        "the upper one, should hold the truth, each place by itself.",
    ),
    "cloglog_upper": (
        "Upper end",
        "How high it may be. Where this map and the lower one differ much, the records say little.",
    ),
    "clamping": (
        "Change by clamping",
        "How much the suitability would differ if variables were not held within their ranges at "
        "the training points. Pale: no difference.",
    ),
    "mess": (
        "Similarity (MESS)",
        "Blue: within the range of the training points. Red, below 0: at least one variable is "
        "outside its range, so the map extrapolates.",
    ),
    "mod": (
        "Most dissimilar variable (MoD)",
        "The variable that is furthest from what the training points hold.",
    ),
    "exdet": (
        "Novelty (ExDet)",
        "Yellow, 0 to 1: a combination of variables like those of the training points. Violet, "
        "above 1: each variable is within its range, but not together with the others, which MESS "
        "cannot see. Orange, below 0: a variable is outside its range.",
    ),
}


def suitability_map(context: Context) -> Html | None:
    """The map of the training layers with the records."""
    result, written = context.result, maps.training_map(context.result)
    if written is None or context.region is None:
        return None
    kind = maps.suitability_kind(written)
    assert kind is not None
    picture = maps.picture(context.region, kind, result=result)
    test = np.asarray(result.records["test"], bool)
    dots = [(maps.TRAIN_DOT, "training records")] if len(result.records["x"]) else []
    dots += [(maps.TEST_DOT, "test records")] if test.any() else []
    alt = (
        f"Map of {maps.LABELS[kind]} of {result.species}, from dark (low) to yellow (high), with "
        f"{len(result.records['x'])} records as dots."
    )
    caption = joined(
        [
            "How to read it: the yellower a place, the more its environment is like that of the "
            "records. Grey: no data. It is a measure of relative suitability, and a probability of "
            "presence only under strong assumptions on how the records were collected.",
            None
            if result.kinds is None or not result.kinds.outputs
            else " How many there are, and the probability of presence, are mapped in the section "
            "on kinds of records.",
            key([*dots, (maps.NODATA, "no data")]),
        ]
    )
    study = result.study
    if study is not None:
        caption = joined([f"White line with a dark edge: the {study.describe()}. ", caption])
    others = [_beside(context, written, kind) for kind in further(written)]
    return joined(
        [
            interactive_map(result, context.folder),
            figure(picture, alt, caption, "map"),
            element("div", *others, class_="pair") if others else None,
            _extrapolation(written),
            _map_files(written, context.result.kinds),
        ]
    )


def projections(context: Context) -> Html | None:
    """The maps of other layers, and where they extrapolate."""
    parts = [_projection(context, written) for written in maps.projections(context.result)]
    if not parts:
        return None
    says = (
        "The model applied to other layers: another region, or another time. Where the environment "
        "is unlike any at the training points, the map is a guess; the maps beside it show where."
    )
    return joined([paragraph(says), *parts])


def _projection(context: Context, written: MapFiles) -> Html:
    shown = []
    kind = maps.suitability_kind(written)
    if kind is not None:
        raster = maps.read_raster(context.folder / written.files[kind], maps.SMALL)
        picture = maps.picture(raster, kind, context.dpi)
        alt = f"Map of {maps.LABELS[kind]} projected to {written.name}."
        says = "The yellower a place, the more its environment is like that of the records."
        caption = joined([element("strong", "Suitability. "), says])
        shown.append(figure(picture, alt, caption, "map"))
    shown += [_beside(context, written, kind) for kind in further(written)]
    return joined(
        [
            element("h3", written.name),
            element("div", *shown, class_="pair"),
            _extrapolation(written),
            _map_files(written, context.result.kinds),
        ]
    )


def _beside(context: Context, written: MapFiles, kind: str) -> Html:
    """One of the maps beside that of suitability."""
    path = context.folder / written.files[kind]
    if kind in _CLASSES:
        raster = maps.read_raster(path, maps.SMALL, categorical=True)
        if kind == "presence":
            picture, colours = maps.class_picture(
                raster, _PRESENCE, context.dpi, maps.PRESENCE_COLOURS
            )
        else:
            picture, colours = maps.class_picture(raster, written.classes, context.dpi)
        legend = key([*colours, (maps.NODATA, "no data")])
        shows = ": " + ", ".join(name for _, name in colours)
    else:
        picture = maps.picture(maps.read_raster(path, maps.SMALL), kind, context.dpi)
        legend, shows = None, ""
    title, says = _BESIDE[kind]
    if kind == "presence" and written.presence:
        words = written.presence_in_words()
        says = f"{words[0].upper()}{words[1:]}."
    caption = joined([element("strong", f"{title}. "), says, legend])
    return figure(picture, f"Map on {written.name}. {title}{shows}.", caption, "map")


def _extrapolation(written: MapFiles) -> Html | None:
    total = written.n_cells
    said = [
        (
            "mess",
            written.n_extrapolated,
            "have a variable outside its range at the training points, or a category without any",
        ),
        ("clamping", written.n_clamped, "have a variable that was held (clamped) at its range"),
        (
            "exdet",
            written.n_novel,
            "have a combination of variables that is new, each in its range",
        ),
    ]
    if written.n_outside and not written.n_clamped:
        words = "have a variable beyond its range at the fit that was not held at it (no clamping)"
        said[1] = ("clamping", written.n_outside, words)
    parts = [
        f"{count(n)} ({percent(n, total)}) {what}"
        for file, n, what in said
        if n or (n is not None and file in written.files and file != "clamping")
    ]
    if written.n_unseen:
        n = written.n_unseen
        parts.append(f"{count(n)} ({percent(n, total)}) have a category without training points")
    if not parts:
        return None
    left = "".join(f" {one.describe(written.name)}." for one in written.unlike)
    if written.mask is not None:
        told = {"mess": "MESS below 0", "exdet": "ExDet below 0 or above 1"}[written.mask]
        n = written.n_masked
        left += (
            f" The map leaves out {count(n)} ({percent(n, total)}) that extrapolate ({told}, or a "
            "category without training points)."
        )
    return paragraph(f"Of {count(total)} cells, {'; '.join(parts)}.{left}")


def _map_files(written: MapFiles, kinds: KindsOfRecords | None) -> Html:
    holds = dict(_FILES)
    if kinds is not None:
        holds |= {
            "intensity": f"intensity, how many per {kinds.per}",
            "probability": f"probability that {kinds.area_in_words()} holds the species",
            "count": f"expected count in {kinds.area_in_words()}",
        }
        for of, end in product(INTENSITIES, ENDS):
            holds[f"{of}_{end}"] = f"{end} end of the interval of the {holds[of]}"
        for kind, name in kinds.apart(written.files).items():
            holds[kind] = f"what {name} alone says against all together, as log2 (1: twice as many)"
    rows = [[holds.get(kind, kind), link(file)] for kind, file in written.files.items()]
    caption = f"Rasters of {written.name}: {written.extent_in_words()}"
    return table(caption, ["Holds", "File"], rows, class_="settings")
