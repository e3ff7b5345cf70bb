"""A virtual landscape: an island with climate, and a species whose true distribution is known.

The island lies in an empty part of the Indian Ocean, 70 to 83 degrees east and south of 25 degrees
south. Trade winds from the east bring rain, which falls before a mountain range; most records come
from near the roads.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage
from scipy.special import rel_entr

from maxent.rows.arrays import Array
from maxent.species.input.layers.grid import Grid
from maxent.species.libraries import geo

SPECIES = "Arbor fictus"
_GROUP = ("Arbor socius", "Frutex imaginatus", "Herba commentata", "Palma nusquam")
_WEST, _NORTH, _EXTENT = 70.0, -25.0, 13.0  # degrees
_KM = 111.2  # in a degree of latitude
_SEA = 255  # nodata of the categories
_WARMING, _DRYING = 2.5, 0.9

# (temperature, log precipitation) in standard deviations from the mean: where each of the biomes
# 1 to 6 is at home
_BIOMES = np.array(
    [[-1.6, 0.3], [-0.5, 0.9], [0.6, 1.0], [0.9, -0.1], [-0.3, -0.4], [0.6, -1.5]], dtype=float
)
_HOME = {2: 4.0, 5: 3.0}  # biomes that the species prefers, and how many times as much


@dataclass(frozen=True, eq=False)
class VirtualLandscape:
    """Layers, the true distribution of a species, sampling effort and records.

    Attributes
    ----------
    grid : Grid
        Where the cells lie.
    layers : dict of array (height, width)
        Values of each layer, at sea NaN or, of categories, 255.
    categorical : tuple of str
        Names of the layers of categories.
    truth : array (height, width)
        Probability of each cell, sums to 1 over land, NaN at sea.
    effort : array (height, width)
        Sampling effort, positive on land, NaN at sea.
    x : array (n_records,)
        x of the records of the species, drawn in proportion to truth x effort.
    y : array (n_records,)
        y of these.
    group_x : array (n_group,)
        x of records of other species of its group, drawn in proportion to effort.
    group_y : array (n_group,)
        y of these.
    """

    grid: Grid
    layers: dict[str, Array]
    categorical: tuple[str, ...]
    truth: Array
    effort: Array
    x: Array
    y: Array
    group_x: Array
    group_y: Array

    @property
    def land(self) -> Array:
        """(height, width) which cells are land."""
        return np.isfinite(self.truth)

    def future(self) -> dict[str, Array]:
        """The layers after 2.5 degrees of warming, with a tenth less rain."""
        return self.layers | {
            "temperature": self.layers["temperature"] + np.float32(_WARMING),
            "precipitation": self.layers["precipitation"] * np.float32(_DRYING),
        }


def virtual_landscape(
    height: int = 200,
    width: int = 260,
    n_occurrences: int = 250,
    n_group: int = 4000,
    seed: int = 0,
) -> VirtualLandscape:
    """Make an island, its climate, a species and records of it.

    The species has its optimum at 17 degrees, needs rain, is commoner in two of six biomes and
    indifferent to elevation, seasonality and the distance to the coast.

    Parameters
    ----------
    height : int, default 200
        Rows of the grid.
    width : int, default 260
        Columns of the grid.
    n_occurrences : int, default 250
        Records of the species; changes the records alone.
    n_group : int, default 4000
        Records of other species of its group; changes these alone.
    seed : int, default 0
        Seed of everything random.

    Examples
    --------
    >>> landscape = virtual_landscape(50, 65)
    >>> list(landscape.layers)
    ['elevation', 'temperature', 'seasonality', 'precipitation', 'coast_distance', 'biome']
    >>> landscape.x.size, round(float(landscape.truth[landscape.land].sum()), 12)
    (250, 1.0)
    """
    if min(height, width) < 20:
        raise ValueError(f"a landscape has at least 20 x 20 cells, got {height} x {width}")
    terrain, here, group = np.random.default_rng(seed).spawn(3)
    cell = _EXTENT / width
    grid = Grid("EPSG:4326", (cell, 0.0, _WEST, 0.0, -cell, _NORTH), width, height)
    land = _island(terrain, height, width)
    layers = _climate(terrain, grid, land)
    biome = _biomes(terrain, layers, land)
    truth = np.where(land, _niche(layers, biome), np.nan)
    truth /= np.nansum(truth)
    effort = np.where(land, _effort(terrain, grid, layers["elevation"], land), np.nan)
    visible = {name: _on_land(layer, land) for name, layer in layers.items()}
    visible["biome"] = np.where(land, biome, _SEA).astype(np.uint8)
    x, y = drawn_records(here, grid, truth * effort, n_occurrences)
    group_x, group_y = drawn_records(group, grid, effort, n_group)
    effort = effort.astype(np.float32)
    return VirtualLandscape(grid, visible, ("biome",), truth, effort, x, y, group_x, group_y)


# -- the island ----------------------------------------------------------------------------------


def _noise(rng: np.random.Generator, height: int, width: int, *scales: float) -> Array:
    """Smooth noise of unit variance; scales are shares of the width, the first weighs most."""
    total = np.zeros((height, width))
    for octave, scale in enumerate(scales):
        white = rng.standard_normal((height, width))
        smooth = ndimage.gaussian_filter(white, max(scale * width, 0.5), mode="reflect")
        total += 0.5**octave * smooth / smooth.std()
    return (total - total.mean()) / total.std()


def _island(rng: np.random.Generator, height: int, width: int) -> Array:
    row, column = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    falloff = 1.0 - 1.7 * (np.abs(row) ** 2.5 + np.abs(column) ** 2.5)
    height_above_sea = falloff + 0.38 * _noise(rng, height, width, 0.1, 0.045, 0.02, 0.008)
    inside = np.maximum(np.abs(row), np.abs(column)) < 0.97  # sea all around
    land = ndimage.binary_fill_holes((height_above_sea > 0) & inside)
    labels, _ = ndimage.label(land)
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    return sizes[labels] >= max(4, sizes.max() // 1000)


def _climate(rng: np.random.Generator, grid: Grid, land: Array) -> dict[str, Array]:
    height, width = land.shape
    inland = _distance(~land, grid)
    row, column = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    axis = 0.42 + 0.12 * np.sin(2.2 * np.pi * row + 0.6) - 0.1 * (row - 0.5)
    range_ = np.exp(-(((column - axis) / 0.09) ** 2))
    ridges = (1 - np.abs(_noise(rng, height, width, 0.035, 0.016, 0.007)) / 2.2).clip(0, 1) ** 2
    hills = _noise(rng, height, width, 0.06, 0.025, 0.01)
    rise = 1 - np.exp(-inland / 60)
    elevation = rise * (3300 * range_ * (0.35 + 0.65 * ridges) + 420 * ridges + 130 * hills + 120)
    elevation = np.maximum(elevation, 1.0) * land
    latitude = _NORTH - row * height * _EXTENT / width
    warmth = 23.5 - 0.85 * (_NORTH - latitude) + 0.5 * _noise(rng, height, width, 0.08, 0.03)
    rain = _rain(elevation, land) * np.exp(0.16 * _noise(rng, height, width, 0.08, 0.03, 0.01))
    continental = 1 - np.exp(-inland / 150)
    season = 2.0 + 0.2 * (_NORTH - latitude) + 2.0 * continental + 1.5 * (1 - column)
    return {
        "elevation": elevation,
        "temperature": warmth - 0.0058 * elevation,
        "seasonality": season + 0.15 * _noise(rng, height, width, 0.1, 0.04),
        "precipitation": 140 + 2600 * rain,
        "coast_distance": inland,
    }


def _distance(sea: Array, grid: Grid) -> Array:
    """Kilometres from each cell to the nearest one of ``sea``."""
    dx, dy = grid.cell_size
    _, south, _, north = grid.bounds
    narrowing = np.cos(np.radians((south + north) / 2))
    return ndimage.distance_transform_edt(~sea, sampling=(_KM * dy, _KM * dx * narrowing))


def _rain(elevation: Array, land: Array) -> Array:
    """Air from the east takes up water over the sea and loses it over land, most where it rises."""
    _, width = land.shape
    step = 260 / width
    air = ndimage.gaussian_filter(elevation, 0.012 * width)
    rain = np.zeros_like(air)
    moisture = np.ones(len(air))
    for column in range(width - 2, -1, -1):
        rise = np.maximum(air[:, column] - air[:, column + 1], 0.0) / 1000
        lost = moisture * np.minimum(0.006 * step + 0.75 * rise, 0.5)
        over_land = land[:, column]
        moisture = np.where(over_land, moisture - lost, moisture + 0.04 * step * (1 - moisture))
        rain[:, column] = lost / step
    rain = ndimage.gaussian_filter(rain, 0.02 * width)
    return np.sqrt(rain / np.quantile(rain[land], 0.995)).clip(0, 1.3)


def _biomes(rng: np.random.Generator, layers: Mapping[str, Array], land: Array) -> Array:
    """Patches of the nearest of six climates, with borders that wander."""
    place = [layers["temperature"], np.log(layers["precipitation"])]
    place = [(value - value[land].mean()) / value[land].std() for value in place]
    height, width = land.shape
    far = [
        (place[0] - warm) ** 2 + (place[1] - wet) ** 2
        + 0.45 * _noise(rng, height, width, 0.05, 0.02)
        for warm, wet in _BIOMES
    ]  # fmt: skip
    return 1 + np.argmin(far, axis=0)


# -- species and records -------------------------------------------------------------------------


def _niche(layers: Mapping[str, Array], biome: Array) -> Array:
    """Relative suitability: Gaussian in temperature, saturating in rain, two biomes preferred."""
    warmth = np.exp(-0.5 * ((layers["temperature"] - 17.0) / 1.8) ** 2)
    rain = 1 / (1 + np.exp(-(layers["precipitation"] - 700) / 120))
    home = np.select([biome == b for b in _HOME], list(_HOME.values()), 1.0)
    return warmth * rain * home


def _effort(rng: np.random.Generator, grid: Grid, elevation: Array, land: Array) -> Array:
    """Falls with the distance from roads, which join cities of the lowlands."""
    cities = _cities(rng, elevation, land)
    road = np.zeros(land.shape, dtype=bool)
    joined = [cities[0]]
    for city in cities[1:]:
        nearest = min(joined, key=lambda other: float(np.hypot(*(other - city))))
        road[_way(rng, nearest, city, land.shape)] = True
        joined.append(city)
    towns = np.zeros(land.shape, dtype=bool)
    towns[tuple(np.array(cities).T)] = True
    return (
        0.02
        + np.exp(-_distance(road & land | towns, grid) / 14)
        + 1.5 * np.exp(-_distance(towns, grid) / 25)
    )


def _cities(rng: np.random.Generator, elevation: Array, land: Array, n: int = 7) -> list[Array]:
    """Cells far from each other, in the lowlands."""
    low = np.argwhere(land & (elevation <= np.quantile(elevation[land], 0.6)))
    candidates = low[rng.choice(len(low), size=min(25, len(low)), replace=False)]
    chosen = [candidates[0]]
    for _ in range(n - 1):
        gaps = [min(np.hypot(*(c - other)) for other in chosen) for c in candidates]
        chosen.append(candidates[int(np.argmax(gaps))])
    return chosen


def _way(
    rng: np.random.Generator, start: Array, end: Array, shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """Cells of a winding line."""
    length = float(np.hypot(*(end - start))) + 1
    t = np.linspace(0, 1, int(3 * length))
    wind = sum(
        rng.normal(0, 0.07 / k) * np.sin(k * np.pi * t) for k in range(1, 6)
    )  # 0 at both ends
    across = np.array([end[1] - start[1], start[0] - end[0]])
    line = start[:, None] + np.outer(end - start, t) + np.outer(across, wind)
    row, column = np.rint(line).astype(int)
    return row.clip(0, shape[0] - 1), column.clip(0, shape[1] - 1)


def drawn_records(
    rng: np.random.Generator, grid: Grid, density: Array, n: int
) -> tuple[Array, Array]:
    """Places drawn in proportion to a density, anywhere within their cells."""
    p = np.nan_to_num(density.ravel())
    cell = rng.choice(p.size, size=n, p=p / p.sum())
    x, y = grid.centres(cell)
    # away from the very edge, so that rounding to six decimals leaves a record in its cell
    jitter = rng.uniform(-0.49, 0.49, size=(2, n))
    dx, dy = grid.cell_size
    return np.round(x + dx * jitter[0], 6), np.round(y + dy * jitter[1], 6)


def _on_land(layer: Array, land: Array) -> Array:
    return np.where(land, layer, np.nan).astype(np.float32)


# -- files ---------------------------------------------------------------------------------------


def write_landscape(landscape: VirtualLandscape, folder: Path | str) -> dict[str, Path]:
    """Write rasters and records as a user would have them; returns where each part is.

    ``layers`` and ``future`` are folders of GeoTIFFs, ``effort`` and ``truth`` GeoTIFFs,
    ``occurrences`` and ``target_group`` CSV files with columns of Darwin Core.

    Parameters
    ----------
    landscape : VirtualLandscape
        The landscape.
    folder : path
        Folder to write to.
    """
    folder = Path(folder)
    written = {
        "layers": folder / "layers",
        "future": folder / "future",
        "effort": folder / "effort.tif",
        "truth": folder / "truth.tif",
        "occurrences": folder / "occurrences.csv",
        "target_group": folder / "target_group.csv",
    }
    for part, layers in (("layers", landscape.layers), ("future", landscape.future())):
        written[part].mkdir(parents=True, exist_ok=True)
        for name, layer in layers.items():
            _write_raster(written[part] / f"{name}.tif", layer, landscape.grid)
    _write_raster(written["effort"], landscape.effort, landscape.grid)
    _write_raster(written["truth"], landscape.truth.astype(np.float32), landscape.grid)
    names = [SPECIES] * landscape.x.size
    _write_records(written["occurrences"], names, landscape.x, landscape.y)
    names = [_GROUP[i % len(_GROUP)] for i in range(landscape.group_x.size)]
    _write_records(written["target_group"], names, landscape.group_x, landscape.group_y)
    return written


def _write_raster(path: Path, layer: Array, grid: Grid) -> None:
    rasterio = geo("rasterio")
    categories = layer.dtype == np.uint8
    profile: dict[str, Any] = {
        "driver": "GTiff",
        "dtype": layer.dtype.name,
        "count": 1,
        "height": grid.height,
        "width": grid.width,
        "crs": grid.crs,
        "transform": grid.transform,
        "nodata": _SEA if categories else np.nan,
        "compress": "deflate",
        "predictor": 2 if categories else 3,
    }
    with rasterio.open(path, "w", **profile) as file:
        file.write(layer, 1)


def _write_records(path: Path, names: Iterable[str], x: Array, y: Array) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["scientificName", "decimalLongitude", "decimalLatitude"])
        writer.writerows(zip(names, x.tolist(), y.tolist(), strict=True))


# -- comparing with the truth --------------------------------------------------------------------


def agreement(map: Array, truth: Array) -> dict[str, float]:
    """How close a density is to the true one, both scaled to sum to 1 where both are known.

    ``pearson`` and ``spearman`` correlate cells; ``kl`` is `KL(truth || map)` in nats, infinite
    where the map is 0 and the truth is not; ``total_variation`` is the mass to be moved, 0 to 1.

    Parameters
    ----------
    map : array
        The density.
    truth : array
        The true one, of the same shape.

    Examples
    --------
    >>> agreement(np.array([1.0, 1.0, 2.0]), np.array([0.25, 0.25, 0.5]))["total_variation"]
    0.0
    """
    from scipy.stats import spearmanr

    map, truth = np.asarray(map, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if map.shape != truth.shape:
        raise ValueError(f"map and truth must have one shape, got {map.shape} and {truth.shape}")
    known = np.isfinite(map) & np.isfinite(truth)
    q, p = map[known], truth[known]
    if not (p.sum() > 0 and q.sum() > 0 and min(p.min(), q.min()) >= 0):
        raise ValueError(
            "map and truth must be densities: nonnegative, with a positive cell where both are "
            "known; give the raw output"
        )
    p, q = p / p.sum(), q / q.sum()
    return {
        "pearson": float(np.corrcoef(q, p)[0, 1]),
        "spearman": float(spearmanr(q, p).statistic),
        "kl": float(rel_entr(p, q).sum()),
        "total_variation": float(np.abs(p - q).sum() / 2),
    }
