"""Maps of the report: rasters read through their overviews, drawn in map coordinates."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from maxent.io import write_atomically
from maxent.rows.arrays import Array
from maxent.species.fitting.record_kinds import APART
from maxent.species.fitting.results import MapFiles, SpeciesResult
from maxent.species.input.crs import is_geographic
from maxent.species.input.file_access import open_raster
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Grid
from maxent.species.libraries import geo
from maxent.species.report.figures import Picture, drawing
from maxent.species.report.world import world
from maxent.species.study.study_region import StudyRegion

NODATA = "#d9dddb"
SIDE = 1000  # pixels along the longer side of a map
BOX = 4.8  # inches along it
SMALL = 600  # pixels along the longer side of maps that stand in pairs
DPI = 208
_PIXELS = 4.5e6  # of all maps that stand in pairs
_PAGE_PIXELS_PER_INCH = 135
TRAIN_DOT, TEST_DOT = "#ffffff", "#d946ef"  # lighter than violet lines, to stand out on dark
STUDY_LINE = "#ffffff"
LINE = "#1c2421"  # of coasts, borders and graticules
CLASS_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f"),
    *("#ff9da7", "#1f4e79", "#8cd17d", "#7f3b08", "#d4a6c8", "#2b6b66", "#b6992d", "#79706e"),
)
PRESENCE_COLOURS = ("#f2e3bc", "#0f766e")  # below the threshold, and at or above it
LABELS = {
    "cloglog": "suitability (cloglog)",
    "logistic": "suitability (logistic)",
    "cumulative": "suitability (cumulative, %)",
    "raw": "raw density",
    "log": "log density",
    "intensity": "intensity",
    "intensity_lower": "lower end of the intensity",
    "intensity_upper": "upper end of the intensity",
    APART: "alone against together (log2)",
    "probability": "probability of presence",
    "count": "expected count",
    "replicates_mean": "mean suitability (cloglog)",
    "replicates_sd": "SD of suitability",
    "environment": "log factor of the environment",
    "space": "log factor of space",
    "cloglog_lower": "lower end of suitability",
    "cloglog_upper": "upper end of suitability",
    "clamping": "change by clamping",
    "mess": "similarity (MESS)",
    "mod": "most dissimilar variable",
    "exdet": "novelty (ExDet)",
    "effort": "sampling effort",
    "scenarios_mean": "mean suitability (cloglog)",
    "scenarios_sd": "SD of suitability",
    "scenarios_agreement": "scenarios with presence",
    "richness_suitability": "sum of suitabilities",
    "richness_presences": "species present",
    "survey_gain": "gain of a visit (share of the variance)",
    "suitability_sd": "SD of suitability",
    "trend": "change of suitability a year",
}
CHANGE_COLOURS = ("#f2e3bc", "#c2410c", "#0f766e", "#60a5fa")  # neither, lost, kept, gained
_LIMITS = dict.fromkeys(
    (
        *("cloglog", "cloglog_lower", "cloglog_upper", "logistic"),
        *("replicates_mean", "scenarios_mean", "effort"),
    ),
    (0.0, 1.0),
)
_LIMITS["probability"] = (0.0, 1.0)
_LIMITS["cumulative"] = (0.0, 100.0)
_NOVELTY = (-1.0, 2.0)  # of ExDet: what is like the fit is the middle third
_SUITABILITY = ("cloglog", "logistic", "cumulative", "raw", "log")


@dataclass(frozen=True, eq=False)
class Raster:
    """A map in few pixels: ``values`` (masked where nothing is known) on ``grid``.

    ``unit`` is that of its coordinates: "degree", the name of a length, or None if not known.
    """

    values: Any
    grid: Grid
    unit: str | None


def read_raster(path: Path, side: int = SIDE, categorical: bool = False) -> Raster:
    """The first band with at most ``side`` rows and columns: averages, or cells of classes."""
    rasterio = geo("rasterio")
    if not path.is_file():
        raise FileNotFoundError(
            f"the report shows the map {path}, which is not there; write it first"
        )
    with open_raster(path) as source:
        shrink = max(1.0, max(source.shape) / side)
        shape = tuple(max(1, round(n / shrink)) for n in source.shape)
        how = (
            rasterio.enums.Resampling.nearest if categorical else rasterio.enums.Resampling.average
        )
        values = source.read(1, out_shape=shape, masked=True, resampling=how)
        a, b, c, d, e, f = tuple(source.transform)[:6]
        down, across = source.height / shape[0], source.width / shape[1]
        transform = (a * across, b * down, c, d * across, e * down, f)
        crs = source.crs
    unit = None
    if crs is not None:
        unit = "degree" if crs.is_geographic else str(crs.linear_units)
    grid = Grid(None if crs is None else crs.to_wkt(), transform, shape[1], shape[0])
    return Raster(np.ma.masked_invalid(values.astype(np.float32)), grid, unit)


def training_map(result: SpeciesResult) -> MapFiles | None:
    """The maps on the layers of the fit, if they were written."""
    return next((m for m in result.maps if m.training), None)


def projections(result: SpeciesResult) -> list[MapFiles]:
    """The maps on other layers."""
    return [m for m in result.maps if not m.training]


def suitability_kind(files: MapFiles) -> str | None:
    """Which of the written outputs to show: cloglog where there is a choice."""
    return next((kind for kind in _SUITABILITY if kind in files.files), None)


def shared_dpi(n: int) -> float:
    """Dots per inch of ``n`` maps that stand in pairs, so that the page stays small."""
    inches = max(n, 1) * BOX * (BOX + 1.5)
    return float(np.clip(np.sqrt(_PIXELS / inches), 60, SMALL / BOX))


def picture(
    raster: Raster, kind: str, dpi: float = DPI, result: SpeciesResult | None = None
) -> Picture:
    """A map of ``kind`` with its colour bar, and the records where ``result`` is given."""
    figure, ax, colours = _map(raster, kind)
    if result is not None:
        _outline(ax, result.study)
        _records(ax, result, size=1.0)
    return _png(figure, dpi, _palette(colours(np.linspace(0, 1, 218))[:, :3]))


def class_picture(
    raster: Raster, classes: dict[int, str], dpi: float, palette: Sequence[str] = CLASS_COLOURS
) -> tuple[Picture, list[tuple[str, str]]]:
    """A map of classes; and the colour and name of each class on it, for a legend."""
    from matplotlib.colors import ListedColormap

    seen = [int(code) for code in np.unique(raster.values.compressed())]
    order = sorted(classes.keys() | set(seen))
    colours = [palette[order.index(code) % len(palette)] for code in seen]
    place = np.searchsorted(seen, raster.values.filled(seen[0] if seen else 0))
    shown = np.ma.masked_array(place, mask=np.ma.getmaskarray(raster.values))
    figure, ax = _frame(raster, BOX)
    if seen:
        _image(ax, raster, shown, ListedColormap(colours), (0, max(len(seen) - 1, 1)), "nearest")
    names = [classes.get(code, f"class {code}") for code in seen]
    return _png(figure, dpi, _class_palette(palette)), list(zip(colours, names, strict=True))


def steps(number: int) -> list[str]:
    """Colours from that of absence to that of presence.

    >>> steps(2) == list(PRESENCE_COLOURS)
    True
    """
    ends = [np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in PRESENCE_COLOURS]
    shares = np.linspace(0, 1, number)[:, None]
    colours = np.rint((1 - shares) * ends[0] + shares * ends[1]).astype(int)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in colours.tolist()]


def fold_picture(
    coordinates: Array,
    fold: Array,
    names: dict[int, str],
    backdrop: Raster | None,
    dpi: float,
    study: StudyRegion | None = None,
    lines: Sequence[Array] = (),
    crs: str | None = None,
) -> tuple[Picture, list[tuple[str, str]]]:
    """The records, coloured by fold, on the region, with lines; and the colour of each fold.

    Without a region, those on both sides of the date line are neighbours; ``crs`` is theirs.
    """
    from matplotlib.colors import ListedColormap

    region = backdrop
    if region is None:
        coordinates, study, lines = _side_by_side(coordinates, study, lines, crs)
        edges = [] if study is None else [ring for part in study.polygons for ring in part]
        region = _around(np.concatenate([coordinates, *edges]), crs)
    figure, ax = _frame(region, BOX)
    if backdrop is not None:
        known = np.ma.masked_array(
            np.zeros(backdrop.values.shape), np.ma.getmaskarray(backdrop.values)
        )
        _image(ax, backdrop, known, ListedColormap(["#ffffff"]), (0, 1), "nearest")
    _outline(ax, study)
    for line in lines:
        ax.plot(*line.T, color="#7d8783", linewidth=0.6)
    folds, place = np.unique(fold, return_inverse=True)
    colours = [CLASS_COLOURS[i % len(CLASS_COLOURS)] for i in range(len(folds))]
    chosen = np.array(colours)[place]
    ax.scatter(
        *coordinates.T, s=2 * _dot(len(fold)), c=chosen, edgecolors="#333b38", linewidths=0.3
    )
    labels = [names.get(int(number), f"fold {number}") for number in folds]
    return _png(figure, dpi, _class_palette(CLASS_COLOURS)), list(zip(colours, labels, strict=True))


def write_map_png(result: SpeciesResult, folder: Path) -> Path:
    """Write ``map.png``: the suitability map with the records and a legend, for a slide.

    Parameters
    ----------
    result : SpeciesResult
        The result of a fit.
    folder : path
        Folder to write to.
    """
    written = training_map(result) or next(iter(result.maps), None)
    kind = None if written is None else suitability_kind(written)
    if written is None or kind is None:
        raise ValueError(
            f"{result.species}: no suitability map was written, so there is none to draw; ask for "
            f"one of the outputs {', '.join(_SUITABILITY)}"
        )
    raster = read_raster(folder / written.files[kind], side=2 * SIDE)
    sizes = dict.fromkeys(("font.size", "axes.labelsize", "legend.fontsize"), 12)
    sizes |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 11)
    with drawing(sizes):
        figure, ax, _ = _map(raster, kind, box=7.5, scale=1.4, head=0.45, foot=0.35)
        if written.training:
            _outline(ax, result.study)
            _records(ax, result, size=2.0)
            for mark in figure.legend(loc="lower left", ncols=3).legend_handles:
                if hasattr(mark, "set_sizes"):
                    mark.set_sizes([40])
        _write_title(figure, result.species)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=200)
    path = folder / "map.png"
    write_atomically(path, buffer.getvalue())
    return path


def write_sites_png(
    folder: Path,
    kind: str,
    places: Sequence[tuple[float, float]],
    title: str,
    study: StudyRegion | None = None,
    visited: tuple[Array, Array] | None = None,
) -> Path:
    """Write ``sites.png``: places in their order on the map of ``kind``, for a walk or a slide.

    Parameters
    ----------
    folder : path
        Folder with the map, to write to.
    kind : str
        Which map lies below.
    places : sequence of pairs of float
        x and y of each, the first to be visited first.
    title : str
        What it is of.
    study : StudyRegion, default None
        Region to outline.
    visited : pair of array, default None
        x and y of places that were visited before.
    """
    raster = read_raster(folder / f"{kind}.tif", side=2 * SIDE)
    sizes = dict.fromkeys(("font.size", "axes.labelsize", "legend.fontsize"), 12)
    sizes |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 11)
    with drawing(sizes):
        figure, ax, _ = _map(raster, kind, box=7.5, scale=1.4, head=0.45, foot=0.35)
        _outline(ax, study)
        if visited is not None:
            ax.scatter(*visited, s=30, marker="x", c="#ffffff", linewidths=3)
            ax.scatter(*visited, s=22, marker="x", c=LINE, linewidths=1.2, label="visited")
        letters = float(np.clip(60 / np.sqrt(len(places)), 6, 9))
        for rank, (x, y) in reversed(list(enumerate(places, start=1))):  # the first on top
            circle = {"boxstyle": "circle,pad=0.22", "facecolor": "#ffffff", "edgecolor": LINE}
            ax.text(x, y, str(rank), fontsize=letters, ha="center", va="center", bbox=circle)
        if visited is not None:
            figure.legend(loc="lower left", ncols=1)
        _write_title(figure, title)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=200)
    path = folder / "sites.png"
    write_atomically(path, buffer.getvalue())
    return path


# -- pieces ----------------------------------------------------------------------------------------


def _map(raster: Raster, kind: str, box: float = BOX, **margins: float) -> tuple[Any, Any, Any]:
    import matplotlib

    figure, ax = _frame(raster, box, **margins)
    values = raster.values
    name, limits = _scale(kind, values.compressed())
    colours = _novelty_colours() if name == "novelty" else matplotlib.colormaps[name]
    image = _image(ax, raster, values, colours, limits, "auto")
    left, bottom, width, height = ax.get_position().bounds
    inch = 1 / figure.get_figwidth()
    rise = min(height, 3.6 / BOX * box / figure.get_figheight())
    side: Any = figure.add_axes(
        (left + width + 0.12 * inch, bottom + (height - rise) / 2, 0.13 * inch, rise)
    )
    ends = (values.min(), values.max()) if values.count() else limits
    slack = 1e-6 * (limits[1] - limits[0])
    below, above = bool(ends[0] < limits[0] - slack), bool(ends[1] > limits[1] + slack)
    extend = ("neither", "min", "max", "both")[below + 2 * above]
    bar = figure.colorbar(image, cax=side, extend=extend)
    bar.set_label(LABELS.get(kind, kind))
    bar.outline.set_visible(False)
    return figure, ax, colours


def _novelty_colours() -> Any:
    """Orange where a variable is outside, yellow within 0 to 1, violet for new combinations."""
    from matplotlib.colors import LinearSegmentedColormap

    third = 1 / 3
    ends = [(0.0, "#7f2704"), (third, "#fdae6b"), (third, "#fffbe3"), (2 * third, "#f0e6a8")]
    ends += [(2 * third, "#bcaee0"), (1.0, "#3f007d")]
    return LinearSegmentedColormap.from_list("novelty", ends, N=512)


def _scale(kind: str, values: Array) -> tuple[str, tuple[float, float]]:
    """A colour map and the values at its ends."""
    if kind in _LIMITS:
        return "viridis", _LIMITS[kind]
    if kind == "exdet":
        return "novelty", _NOVELTY
    if not values.size:
        return "viridis", (0.0, 1.0)
    if kind == "mess":
        end = float(np.clip(np.percentile(np.abs(values), 98), 10, 100))
        return "RdBu", (-end, end)
    if kind in ("environment", "space"):
        end = float(np.clip(np.percentile(np.abs(values), 98), 0.1, 20))
        return "PiYG", (-end, end)
    if kind == "trend":
        end = max(float(np.percentile(np.abs(values), 98)), 1e-6)
        return "BrBG", (-end, end)
    if kind == APART:
        end = float(np.clip(np.percentile(np.abs(values), 98), 0.5, 6))
        return "RdBu", (-end, end)
    if kind in ("intensity", "intensity_lower", "intensity_upper", "count"):
        return "viridis", (0.0, max(float(np.percentile(values, 99)), 1e-12))
    if kind in ("clamping", "replicates_sd", "scenarios_sd"):
        return "magma_r", (0.0, max(float(values.max()), 0.01))
    if kind.startswith("richness"):
        return "viridis", (0.0, max(float(values.max()), 1.0))
    low, high = (float(v) for v in np.percentile(values, [2, 98]))
    return "viridis", (low, high if high > low else low + 1)


def _frame(
    raster: Raster,
    box: float,
    scale: float = 1.0,
    head: float = 0.0,
    foot: float = 0.0,
) -> tuple[Any, Any]:
    """Axes whose longer side is ``box`` inches, with map coordinates along them."""
    from matplotlib.figure import Figure

    west, south, east, north = raster.grid.bounds
    stretch = 1.0
    if raster.unit == "degree":  # a degree of longitude is shorter away from the equator
        stretch = 1 / max(np.cos(np.radians((south + north) / 2)), 0.2)
    width, height = east - west, (north - south) * stretch
    unit = box / max(width, height)
    width, height = max(width * unit, 0.2 * box), max(height * unit, 0.2 * box)
    left, base, top = 0.68 * scale, 0.5 * scale + foot, 0.12 * scale + head
    across, up = left + width + 0.95 * scale, base + height + top
    figure = Figure(figsize=(across, up))
    ax: Any = figure.add_axes((left / across, base / up, width / across, height / up))
    ax.set(xlim=(west, east), ylim=(south, north), facecolor=NODATA)
    ax.grid(False)
    ax.spines[:].set_visible(True)
    _label_axes(ax, raster, width, height)
    _draw_world(ax, raster)
    return figure, ax


def _draw_world(ax: Any, raster: Raster) -> None:
    """Coasts, borders, graticule and a scale bar, above the map and below its records."""
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import withStroke

    under = world(raster.grid)
    if under is None:
        return
    light = [withStroke(linewidth=1.8, foreground="#ffffff", alpha=0.45)]
    for lines, width, alpha in ((under.borders, 0.5, 0.75), (under.coast, 0.7, 0.9)):
        style = {"colors": LINE, "linewidths": width, "alpha": alpha, "path_effects": light}
        ax.add_collection(LineCollection(lines, zorder=0.8, **style), autolim=False)
    if raster.unit == "degree":
        ax.grid(True, color=LINE, alpha=0.25, linewidth=0.4)
        ax.set_axisbelow(False)
    else:
        lines = [line for _, line in under.graticule]
        ax.add_collection(
            LineCollection(lines, colors=LINE, linewidths=0.4, alpha=0.3, zorder=0.7), autolim=False
        )
        for label, line in under.graticule:
            _label_line(ax, label, line)
    bar = under.bar()
    if bar is not None:
        _draw_bar(ax, *bar)


def _label_line(ax: Any, label: str, line: Array) -> None:
    """The name of a meridian or parallel where it enters the map, turned to the inside."""
    from matplotlib.patheffects import withStroke

    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    x, y = (line[0] - (left, low)) / (right - left, high - low)
    if not label or not (0.03 < x < 0.97 or 0.03 < y < 0.97):
        return
    side = {"ha": "center", "va": "bottom" if y < 0.5 else "top"}
    if min(x, 1 - x) < min(y, 1 - y):
        side = {"ha": "left" if x < 0.5 else "right", "va": "center"}
    light = [withStroke(linewidth=1.5, foreground="white", alpha=0.8)]
    ax.text(*line[0], f" {label} ", fontsize=6, clip_on=True, path_effects=light, **side)


def _draw_bar(ax: Any, length: float, words: str) -> None:
    """A scale bar in the lower left corner."""
    left, right = ax.get_xlim()
    share = length / (right - left)
    edge, height = 0.025, 4 / (72 * ax.figure.get_figheight() * ax.get_position().height)
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 2.5}
    ax.text(
        *(edge + 0.01, edge + 2.5 * height),
        *(words,),
        transform=ax.transAxes,
        fontsize=7,
        va="bottom",
        bbox=box,
    )
    for width, colour in ((4.5, "white"), (2.2, "#1c2421")):
        ax.plot(
            *([edge, edge + share], [edge + height] * 2),
            transform=ax.transAxes,
            color=colour,
            linewidth=width,
            solid_capstyle="butt",
            zorder=2.5,
        )


def _label_axes(ax: Any, raster: Raster, width: float, height: float) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    names, unit, divide = ("x", "y"), raster.unit, 1.0
    sign = ""
    if unit == "degree":
        names, unit, sign = ("longitude", "latitude"), None, "°"
    elif unit == "metre":
        unit, divide = "km", 1000.0
    for axis, name, length in zip((ax.xaxis, ax.yaxis), names, (width, height), strict=True):
        axis.set_major_locator(MaxNLocator(int(np.clip(length * 1.3, 2, 6))))
        axis.set_major_formatter(
            FuncFormatter(lambda v, _: f"{v / divide:,.8g}{sign}".replace("-", "\N{MINUS SIGN}"))
        )
        axis.set_label_text(name if unit is None else f"{name} ({unit})")


def _image(
    ax: Any, raster: Raster, values: Any, colours: Any, limits: tuple[float, float], smooth: str
) -> Any:
    from matplotlib.transforms import Affine2D

    a, b, c, d, e, f = raster.grid.transform
    rows, columns = values.shape
    limits_before = ax.get_xlim(), ax.get_ylim()
    image = ax.imshow(
        values,
        cmap=colours.with_extremes(bad=NODATA),
        vmin=limits[0],
        vmax=limits[1],
        extent=(0, columns, rows, 0),
        interpolation=smooth,
        aspect="auto",
    )
    image.set_transform(Affine2D(np.array([[a, b, c], [d, e, f], [0, 0, 1]])) + ax.transData)
    ax.set(xlim=limits_before[0], ylim=limits_before[1])
    return image


def _outline(ax: Any, study: StudyRegion | None) -> None:
    """That of a study region: a light line on a dark one, to be seen on any map."""
    from matplotlib.patheffects import withStroke

    if study is None:
        return
    edge = [withStroke(linewidth=2.2, foreground="black")]
    rings = [ring for polygon in study.polygons for ring in polygon]
    for ring, label in zip(rings, ["study region", *[None] * len(rings)], strict=False):
        ax.plot(*ring.T, color=STUDY_LINE, linewidth=1.0, path_effects=edge, label=label)


def _records(ax: Any, result: SpeciesResult, size: float) -> None:
    x, y = result.records["x"], result.records["y"]
    test = np.asarray(result.records["test"], bool)
    dot = size * _dot(len(x))
    for chosen, label, colour, edge in (
        (~test, "training records", TRAIN_DOT, "black"),
        (test, "test records", TEST_DOT, "white"),
    ):
        if chosen.any():
            line = 0.15 * np.sqrt(_dot(len(x)))
            style = {"c": colour, "edgecolors": edge, "linewidths": line, "label": label}
            ax.scatter(x[chosen], y[chosen], s=dot, **style)


def _dot(n: int) -> float:
    return float(np.clip(2500 / max(n, 1), 2.5, 11))


def _side_by_side(
    coordinates: Array, study: StudyRegion | None, lines: Sequence[Array], crs: str | None
) -> tuple[Array, StudyRegion | None, list[Array]]:
    """Records, region and lines of a map without a raster, with no jump at the date line."""
    rings = [] if study is None else [ring for part in study.polygons for ring in part]
    places = np.concatenate([coordinates, *rings])
    drawn = [coordinates, *rings, *lines]
    x = np.concatenate([part[:, 0] for part in drawn])
    earth = Earth.of(crs, (*places.min(axis=0), *places.max(axis=0)))
    if np.ptp(earth.side_by_side(places[:, 0])) == np.ptp(places[:, 0]):
        return coordinates, study, list(lines)
    x = earth.unrolled(x, np.arange(x.size) < len(places))
    ends = np.cumsum([len(part) for part in drawn])[:-1]
    moved = [
        np.column_stack([at, part[:, 1]]) for at, part in zip(np.split(x, ends), drawn, strict=True)
    ]
    if study is not None:
        own = iter(moved[1 : 1 + len(rings)])
        polygons = tuple(tuple(next(own) for _ in part) for part in study.polygons)
        study = replace(study, polygons=polygons)
    return moved[0], study, moved[1 + len(rings) :]


def _around(coordinates: Array, crs: str | None) -> Raster:
    """An empty map that holds the points."""
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    edge = 0.05 * float((high - low).max()) or 1.0
    width, height = high - low + 2 * edge
    transform = (width, 0.0, low[0] - edge, 0.0, -height, high[1] + edge)
    grid = Grid(crs, transform, 1, 1)
    unit = "degree" if crs is not None and is_geographic(crs, grid.bounds) else None
    return Raster(np.ma.masked_all((1, 1)), grid, unit)


def _write_title(figure: Any, text: str) -> None:
    """A title above the map, as large as fits; none where the font lacks a letter."""
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.textpath import TextPath

    style = FontProperties(style="italic")
    font = get_font(findfont(style))
    if not text.strip() or not all(font.get_char_index(ord(letter)) for letter in text):
        return
    width, height = 72 * figure.get_size_inches()
    plain = text.replace("$", "S")  # a name is no formula
    wanted = TextPath((0, 0), plain, size=16, prop=style).get_extents().width
    size = 16 * min(1.0, 0.94 * width / wanted)
    figure.text(0.5, 1 - 14 / height, text, style="italic", fontsize=size, ha="center", va="top")


def _png(figure: Any, dpi: float, colours: Array) -> Picture:
    """With a palette of these colours (rows of red, green, blue), a third of the size."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = Image.fromarray(np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[..., :3]))
    palette = Image.new("P", (1, 1))
    palette.putpalette((255 * colours).round().astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    drawn.quantize(palette=palette, dither=Image.Dither.NONE).save(buffer, format="PNG")
    width, height = _PAGE_PIXELS_PER_INCH * figure.get_size_inches()
    return Picture("png", buffer.getvalue(), width, height)


def _class_palette(colours: Sequence[str]) -> Array:
    """The colours of classes, and lighter and darker ones for the edges between them."""
    from matplotlib.colors import to_rgb

    full = np.array([to_rgb(colour) for colour in colours])
    shades = [t * full + (1 - t) * end for end in (1.0, 0.2) for t in (0.3, 0.6, 0.8)]
    return _palette(np.concatenate([full, *shades]))


def _palette(colours: Any) -> Array:
    """Colours of a map and those of dots, axes and letters; each shaded to its neighbours."""
    from matplotlib.colors import to_rgb

    marks = [to_rgb(c) for c in (TRAIN_DOT, TEST_DOT, NODATA)]
    greys = np.repeat(np.linspace(0, 1, 32)[:, None], 3, axis=1)
    blends = [np.array(marks[1]) * t + (1 - t) for t in (0.25, 0.5, 0.75)]
    rest = np.concatenate([marks, greys, blends])
    return np.concatenate([np.asarray(colours)[: 256 - len(rest)], rest])
