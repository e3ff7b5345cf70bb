"""Where to survey next: the places whose visit would make the map most certain.

The gain of a visit is what it is expected to take off the mean variance of suitability over the
study region (``Posterior``). Sites are chosen one after another, each with the posterior that is
expected after the visits to those before: two sites that tell the same are not both chosen. What
visits that were made are worth to the next fit is in ``visits.py``.
"""

from __future__ import annotations

import csv
import io as text
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from maxent import io
from maxent._support.progress import Progress
from maxent._support.threads import num_threads
from maxent.density.posterior import Places, Posterior
from maxent.rows.arrays import Array
from maxent.species.fitting.model import SpeciesModel
from maxent.species.input.crs import WGS84, complete, transformed
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Window
from maxent.species.input.layers.layers import Layers
from maxent.species.judging.visits import Visits, visit_effort
from maxent.species.libraries import geo
from maxent.species.projecting import geotiff
from maxent.species.projecting.plan import Map
from maxent.species.study.background import draw_background

CANDIDATES = 20_000  # cells that sites are chosen from, and that stand for the region
_CHUNK = 1 << 13  # cells whose features are written out at once
GAIN, DEVIATION, EFFORT = "survey_gain", "suitability_sd", "effort"
TABLE, WAYPOINTS, GEOJSON = "sites.csv", "sites.gpx", "sites.geojson"
PICTURE = "sites.png"


@dataclass(frozen=True)
class Site:
    """A place to visit.

    Attributes
    ----------
    rank : int
        1 for the first to be visited.
    x : float
        x of the centre of its cell, in the CRS of the layers.
    y : float
        y of the centre.
    longitude : float or None
        In degrees (WGS 84), None where the CRS of the layers is not known.
    latitude : float or None
        Likewise.
    suitability : float
        The cloglog output there.
    deviation : float
        Its standard deviation before any visit.
    gain : float
        Share of the mean variance of suitability over the region that this visit takes off, after
        the visits to the sites before.
    mess : float or None
        Similarity to the fit, negative where the place is beyond it; None where it is not known.
    """

    rank: int
    x: float
    y: float
    longitude: float | None
    latitude: float | None
    suitability: float
    deviation: float
    gain: float
    mess: float | None


@dataclass(frozen=True)
class SurveyPlan:
    """Sites to visit, and what is known before and after.

    Attributes
    ----------
    sites : tuple of Site
        In the order of their choice.
    deviation_before : float
        Root of the mean variance of suitability over the region.
    deviation_after : float
        What is expected of it after all visits.
    files : dict of str
        The files that were written.
    notes : tuple of str
        What the reader should know.
    """

    sites: tuple[Site, ...]
    deviation_before: float
    deviation_after: float
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """What the visits are worth, in a sentence."""
        taken = 1 - (self.deviation_after / self.deviation_before) ** 2
        return (
            f"{len(self.sites)} visits take {100 * taken:.0f} % off the mean variance of "
            f"suitability (standard deviation {self.deviation_before:.3f} -> "
            f"{self.deviation_after:.3f}, expected)"
        )


def choose_sites(
    posterior: Posterior,
    places: Places,
    count: int,
    *,
    apart: Callable[[int], Array] | None = None,
    free: Array | None = None,
    detection: float = 1.0,
) -> tuple[list[int], list[float]]:
    """Rows of the sites and the share of the mean variance that each takes off, one by one.

    Parameters
    ----------
    posterior : Posterior
        What is known before.
    places : Places
        The candidates, which also stand for the region.
    count : int
        How many sites.
    apart : function, default None
        From a chosen row to which rows are far enough from it.
    free : array of bool, default None
        Which rows may be chosen at first; None is all.
    detection : float, default 1.0
        Chance to find the species where it lives.
    """
    importance = places.importance()
    covariance = posterior.covariance
    whole = float(np.sum(importance * covariance))
    left = np.ones(len(places.exponent), dtype=bool) if free is None else free.copy()
    chosen: list[int] = []
    gains: list[float] = []
    while len(chosen) < count and left.any():
        gain = np.where(left, places.reduction(covariance, importance, detection), -np.inf)
        best = int(np.argmax(gain))
        chosen.append(best)
        gains.append(float(gain[best]) / whole if whole > 0 else 0.0)
        posterior = posterior.after(places.take([best]), detection)
        covariance = posterior.covariance
        left[best] = False
        if apart is not None:
            left &= apart(best)
    return chosen, gains


def plan_survey(
    model: SpeciesModel,
    layers: Layers,
    out: str | os.PathLike[str],
    *,
    count: int = 20,
    apart: float = 0.0,
    detection: float = 1.0,
    away: tuple[Array, Array] | None = None,
    visits: tuple[Array, Array] | None = None,
    bias: Layers | None = None,
    candidates: int = CANDIDATES,
    seed: int = 0,
    overwrite: bool = False,
    verbose: int = 1,
) -> SurveyPlan:
    """Choose sites for a survey, and write them, with maps of gain and of uncertainty.

    Parameters
    ----------
    model : SpeciesModel
        The fitted model; its study region, if it has one, is where sites lie.
    layers : Layers
        Layers with all variables of the model.
    out : path
        Folder to write to.
    count : int, default 20
        How many sites.
    apart : float, default 0.0
        Smallest distance between sites, and from ``away``, in km.
    detection : float, default 1.0
        Chance to find the species where it lives, in one visit.
    away : pair of array, default None
        x and y of places to keep away from.
    visits : pair of array, default None
        x and y of visits that were made since the fit, whether the species was found or not. Sites
        are chosen as if the fit knew of them, and ``effort.tif`` says what they are worth to the
        next fit.
    bias : Layers, default None
        With ``visits``, the effort that the fit allowed for, if it did, on the same grid.
    candidates : int, default 20000
        Sites are chosen from so many cells, drawn at random.
    seed : int, default 0
        Seed of the draw.
    overwrite : bool, default False
        Whether to replace earlier files.
    verbose : int, default 1
        0 silences progress.
    """
    density = model.density
    if count < 1:
        raise ValueError(f"count (--sites) must be at least 1, got {count}")
    if not 0 <= apart <= 5000:
        raise ValueError(f"apart (--apart) must lie between 0 and 5000 km, got {apart:g}")
    if not 0 < detection <= 1:
        raise ValueError(f"detection must lie above 0 and at most at 1, got {detection:g}")
    if not len(density.weights):
        raise ValueError(
            f"{model.species}: the model uses no variable, so that every place tells the same"
        )
    if model.kinds is not None:
        raise ValueError(
            f"{model.species} was fitted to surveys or counts too, and how certain its map is, is "
            "known of presences alone: plan visits with a model without --survey and --counts, or "
            "where the maps of the report disagree"
        )
    _check_effort(model, visits is not None, bias is not None)
    out = Path(out)
    maps = {what: Map(what) for what in (GAIN, DEVIATION, EFFORT)[: 2 if visits is None else 3]}
    targets = geotiff.targets(out, maps)
    geotiff.check_targets(targets.values(), layers, overwrite)
    for name in (TABLE, WAYPOINTS, GEOJSON, PICTURE):
        if (out / name).exists() and not overwrite:
            raise FileExistsError(f"{out / name} is there already; replace it with --overwrite")
    chosen = layers.select(density.schema.names)
    made = None if visits is None else Visits.on(chosen.grid, *visits)
    drawn = draw_background(
        chosen,
        candidates,
        at=None if made is None else made.cell,
        bias=bias,
        within=model.study,
        seed=seed,
        verbose=verbose,
    )
    region, cell = drawn.X[drawn.background], drawn.cell[drawn.background]
    posterior = Posterior.from_density(density, region)
    places = posterior.at(region)
    x, y = chosen.grid.centres(cell)
    earth = Earth.under(chosen.grid)
    notes = _notes(model, drawn.n_known, len(cell), apart, earth)
    free, effort = np.ones(len(x), dtype=bool), None
    if made is not None:
        made = made.known(drawn.cell)
        visited = drawn.X[np.isin(drawn.cell, made.cell)]
        known = None if drawn.bias is None else drawn.bias[drawn.background]
        added = visit_effort(
            density, visited, region, drawn.n_known, detection=detection, effort=known
        )
        effort = partial(_effort_in, made=made, added=added, layers=chosen, bias=bias)
        again = np.repeat(np.arange(len(visited)), made.counts)
        posterior = posterior.after(posterior.at(visited).take(again), detection)
        free &= ~np.isin(cell, made.cell)
        notes += _visit_notes(made)

    def far(to_x: float, to_y: float) -> Array:
        return earth.distances(np.full_like(x, to_x), np.full_like(y, to_y), x, y) >= apart

    if away is not None and apart > 0:
        known = complete(*away)
        if not known.all():
            notes.append(f"{int((~known).sum())} records to keep away from have no coordinates")
        for there in zip(away[0][known], away[1][known], strict=True):
            free &= far(*there)
        if not free.any():
            raise ValueError(
                f"no cell of the region is {apart:g} km from all {int(known.sum())} records; lower "
                "--apart"
            )
    rows, gains = choose_sites(
        posterior,
        places,
        count,
        apart=None if apart == 0 else lambda row: far(x[row], y[row]),
        free=free,
        detection=detection,
    )
    if not rows:
        raise ValueError("every cell of the region has been visited; there is no other to choose")
    if len(rows) < count:
        why = f"is {apart:g} km from all of them" if apart else "is left"
        notes.append(f"{len(rows)} sites instead of {count}: no other cell {why}")
    before = float(np.mean(places.variance(posterior.covariance)))
    after = posterior.after(places.take(rows), detection)
    left = float(np.mean(places.variance(after.covariance)))
    sites = _sites(model, region, places, posterior, earth, x, y, rows, gains)
    _draw_maps(posterior, places, chosen, model, targets, maps, detection, effort, verbose)
    files = {what: target.name for what, target in targets.items()}
    for name, content in (
        (TABLE, _table(sites)),
        (GEOJSON, _geojson(sites, model.species)),
        (WAYPOINTS, _gpx(sites, model.species)),
    ):
        if content is not None:
            io.write_atomically(out / name, content)
            files[name] = name
    _draw_picture(out, model, sites, None if made is None else chosen.grid.centres(made.cell))
    files[PICTURE] = PICTURE
    if sites[0].longitude is None:
        notes.append(
            f"the layers do not state their CRS, so that {WAYPOINTS} and {GEOJSON}, which are in "
            "degrees, are not written; give it with --layers-crs"
        )
    return SurveyPlan(tuple(sites), before**0.5, left**0.5, files, tuple(notes))


def _check_effort(model: SpeciesModel, visits: bool, bias: bool) -> None:
    """Refuse visits beside an effort that is not told, and an effort without effect."""
    if bias and not visits:
        raise ValueError("bias (--bias) has no effect without visits (--visits)")
    if visits and bias != model.density.biased:
        raise ValueError(
            f"{model.species}: the fit allowed for sampling effort (--bias-as prior), beside which "
            "visits are counted; give its raster with --bias"
            if model.density.biased
            else f"{model.species}: the fit allowed for no sampling effort; leave out --bias"
        )


def _visit_notes(made: Visits) -> list[str]:
    n = int(made.counts.sum())
    if not n:
        raise ValueError("none of the visits (--visits) lies on a cell with values in all layers")
    notes = [
        f"{n} visits to {made.cell.size} cells are counted as made; the next fit knows of them by "
        "--bias effort.tif --bias-as prior --background all"
    ]
    if made.n_lost:
        notes.append(f"{made.n_lost} visits lie on no cell with values and are left out")
    return notes


def _notes(
    model: SpeciesModel, n_known: int, n_drawn: int, apart: float, earth: Earth
) -> list[str]:
    where = "the layers" if model.study is None else f"the {model.study.describe()}"
    notes = [f"sites are chosen among {n_drawn:,} of the {n_known:,} cells of {where}"]
    if model.density.biased:
        notes.append(
            "the fit allowed for sampling effort; how well it is known is reckoned without that"
        )
    if apart and earth.is_plane:
        notes.append(f"the layers do not state their unit: {apart:g} km are {1e3 * apart:g} of it")
    return notes


def _effort_in(
    window: Window, made: Visits, added: Array, layers: Layers, bias: Layers | None
) -> Array:
    """The effort of the fit, 1 without any, and that of visits; NaN where it is not known."""
    visited = made.effort_in(window, layers.grid.width, added)
    if bias is None:
        return 1 + visited
    block = bias.read(window)
    (effort,) = block.values.values()
    return np.where(block.valid, effort + visited, np.nan)


def _sites(
    model: SpeciesModel,
    X: Any,
    places: Places,
    posterior: Posterior,
    earth: Earth,
    x: Array,
    y: Array,
    rows: Sequence[int],
    gains: Sequence[float],
) -> list[Site]:
    some = places.take(rows)
    deviation = np.sqrt(some.variance(posterior.covariance))
    suitability = some.suitability
    degrees = None
    if not earth.is_plane:
        degrees = transformed(x[rows], y[rows], earth.crs or WGS84, WGS84)
    mess = None
    if model.reference is not None:
        table = X.iloc[list(rows)]
        mess, _ = model.reference.similarity({n: np.asarray(table[n]) for n in table.columns})
    return [
        Site(
            rank + 1,
            float(x[row]),
            float(y[row]),
            None if degrees is None else float(degrees[0][rank]),
            None if degrees is None else float(degrees[1][rank]),
            float(suitability[rank]),
            float(deviation[rank]),
            gains[rank],
            None if mess is None else float(mess[rank]),
        )
        for rank, row in enumerate(rows)
    ]


def _draw_maps(
    posterior: Posterior,
    region: Places,
    layers: Layers,
    model: SpeciesModel,
    targets: dict[str, Path],
    maps: dict[str, Map],
    detection: float,
    effort: Callable[[Window], Array] | None,
    verbose: int,
) -> None:
    """Gain of one visit (a share of the mean variance), standard deviation and effort.

    Effort is known beyond the study region too: that of the next fit may be another one.
    """
    importance = region.importance()
    whole = float(np.sum(importance * posterior.covariance))
    folder = next(iter(targets.values())).parent
    known: Counter[str] = Counter()
    with (
        closing(Progress("map of the gain", verbose)) as progress,
        geotiff.workspace(folder, layers.grid, maps) as work,
    ):
        windows = layers.windows()
        stage = geotiff.Stage(layers.grid, maps, targets, work, windows[0])
        with stage.open({"SPECIES": model.species, "DETECTION": repr(float(detection))}):
            for done, window in enumerate(windows, start=1):
                block = layers.read(window)
                inside = block.valid
                if model.study is not None:
                    inside = inside & model.study.cells(layers.grid, window)
                where = np.flatnonzero(inside)
                drawn = {what: np.full(inside.size, np.nan, np.float32) for what in maps}
                for start in range(0, where.size, _CHUNK):
                    rows = where[start : start + _CHUNK]
                    columns = {name: v.ravel()[rows] for name, v in block.values.items()}
                    places = posterior.at(geo("pandas").DataFrame(columns))
                    gain = places.reduction(posterior.covariance, importance, detection)
                    drawn[GAIN][rows] = gain / whole if whole > 0 else 0.0
                    drawn[DEVIATION][rows] = np.sqrt(places.variance(posterior.covariance))
                if effort is not None:
                    drawn[EFFORT] = np.where(block.valid, effort(window), np.nan).astype(np.float32)
                known.update({what: int(np.isfinite(v).sum()) for what, v in drawn.items()})
                stage.write(window, {k: v.reshape(inside.shape) for k, v in drawn.items()})
                progress.update(f"{done} of {len(windows)} windows")
        for what in maps:
            stage.finish(what, known[what], True, num_threads())
        stage.publish()


def _draw_picture(
    out: Path, model: SpeciesModel, sites: Sequence[Site], visited: tuple[Array, Array] | None
) -> None:
    from maxent.species.report.maps import write_sites_png

    places = [(site.x, site.y) for site in sites]
    write_sites_png(out, GAIN, places, f"{model.species}: where to go", model.study, visited)


def _table(sites: Sequence[Site]) -> bytes:
    file = text.StringIO()
    writer = csv.DictWriter(file, list(asdict(sites[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(site) for site in sites)
    return file.getvalue().encode()


def _geojson(sites: Sequence[Site], species: str) -> bytes | None:
    if sites[0].longitude is None:
        return None
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [site.longitude, site.latitude]},
            "properties": {"species": species, **asdict(site)},
        }
        for site in sites
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1).encode()


def _gpx(sites: Sequence[Site], species: str) -> bytes | None:
    """Waypoints (GPX 1.1) for a receiver."""
    if sites[0].longitude is None:
        return None
    root = ElementTree.Element(
        "gpx", version="1.1", creator="maxent", xmlns="http://www.topografix.com/GPX/1/1"
    )
    for site in sites:
        point = ElementTree.SubElement(
            root, "wpt", lat=f"{site.latitude:.7f}", lon=f"{site.longitude:.7f}"
        )
        ElementTree.SubElement(point, "name").text = f"{site.rank:03d}"
        ElementTree.SubElement(point, "desc").text = (
            f"{species}: suitability {site.suitability:.3f}, standard deviation "
            f"{site.deviation:.3f}, gain {100 * site.gain:.2f} %"
        )
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
