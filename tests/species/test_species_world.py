"""What lies under maps: Natural Earth's lines where pyproj and shapely put them."""

from importlib import resources

import numpy as np
import pytest

from maxent.species.input.layers.grid import Grid
from maxent.species.report import maps
from maxent.species.report.world import world
from tools import needs

shapely, pyproj = needs("shapely"), needs("pyproj")


def degrees(west, south, east, north, size=0.1):
    width, height = round((east - west) / size), round((north - south) / size)
    return Grid("EPSG:4326", (size, 0.0, west, 0.0, -size, north), width, height)


def nearest(lines, x, y):
    return min(float(np.hypot(*(line - (x, y)).T).min()) for line in lines)


def test_the_lines_are_small():
    size = len(resources.files(maps.__package__).joinpath("bundle/world.json").read_bytes())
    assert size < 400_000


@pytest.mark.parametrize(
    ("place", "x", "y"),
    [("Land's End", -5.72, 50.07), ("Cape Saint Vincent", -9.0, 37.02), ("Skagen", 10.6, 57.74)],
)
def test_coasts_are_where_they_are(place, x, y):
    found = world(degrees(-15.0, 35.0, 15.0, 60.0))
    assert nearest(found.coast, x, y) < 0.15, place


def test_borders_are_where_they_are():
    found = world(degrees(-15.0, 35.0, 15.0, 60.0))
    assert nearest(found.borders, 7.59, 47.56) < 0.15  # Basel, where three countries meet
    assert nearest(found.borders, -1.78, 43.37) < 0.15  # the Bidasoa at Irun


def test_across_the_date_line():
    """The same islands at 170 to 190 as at -190 to -170, in one piece on both sides."""
    east, west = (
        world(degrees(170.0, -20.0, 190.0, -10.0)),
        world(degrees(-190.0, -20.0, -170.0, -10.0)),
    )
    there, back = (np.concatenate(found.coast) for found in (east, west))
    np.testing.assert_allclose(there - (360.0, 0.0), back, atol=1e-9)
    assert there[:, 0].min() < 179 < 181 < there[:, 0].max()
    assert max(np.abs(np.diff(line[:, 0])).max() for line in east.coast) < 5
    assert {"175°E", "180°", "175°W", "15°S"} <= {label for label, _ in east.graticule}


@pytest.mark.parametrize("crs", ["EPSG:3035", "EPSG:3857", "EPSG:32628"])
def test_in_projected_systems(crs):
    """Iceland: each corner of its coast lies on the projected line of the degrees."""
    lines = world(degrees(-26.0, 62.5, -12.0, 67.5)).coast
    move = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform
    dense = [
        shapely.get_coordinates(shapely.segmentize(shapely.LineString(line), 0.02))
        for line in lines
    ]
    coast = shapely.MultiLineString([np.stack(move(*line.T), axis=1) for line in dense])
    west, south, east, north = shapely.bounds(coast)
    size = (east - west) / 100
    grid = Grid(crs, (size, 0.0, west, 0.0, -size, north), 100, int((north - south) // size))
    found = np.concatenate(world(grid).coast)
    assert len(found) > 100
    assert shapely.distance(shapely.points(found), coast).max() < 0.002 * (east - west)


def test_no_line_runs_across_a_world_map():
    """Projections that cut the earth at 150 degrees east break the lines there."""
    grid = Grid("+proj=robin +lon_0=-30", (1e5, 0.0, -1.7e7, 0.0, -1e5, 8.6e6), 340, 172)
    found = world(grid)
    longest = max(
        np.hypot(*np.diff(line, axis=0).T).max() for line in (*found.coast, *found.borders)
    )
    assert longest < 5e5
    assert len(found.coast) > 100


@pytest.mark.parametrize(
    ("grid", "x", "y"),
    [
        (degrees(0.0, 50.0, 20.0, 70.0), 10.0, 60.0),
        (Grid("EPSG:3857", (1e4, 0.0, 0.0, 0.0, -1e4, 9e6), 200, 200), 1e6, 8e6),
        (Grid("EPSG:2263", (1e4, 0.0, 9e5, 0.0, -1e4, 3e5), 30, 30), 1.05e6, 1.5e5),  # feet
    ],
)
def test_a_kilometre_is_a_kilometre(grid, x, y):
    """The bar's length, walked along the map from its middle, on the ellipsoid."""
    found = world(grid)
    length, words = found.bar()
    back = pyproj.Transformer.from_crs(grid.crs, "EPSG:4326", always_xy=True).transform
    here, there = back(x, y), back(x + length, y)
    metres = pyproj.Geod(ellps="WGS84").inv(*here, *there)[2]
    number, unit = words.split()[:2]
    assert metres == pytest.approx(float(number) * {"m": 1, "km": 1000}[unit], rel=0.01)
    west, _, east, _ = grid.bounds
    assert 0.05 < length / (east - west) <= 0.2
    assert ("at the middle" in words) == (grid.crs != "EPSG:2263")


def test_unknown_places_have_no_coasts():
    assert world(Grid(None, (1e3, 0.0, 5e5, 0.0, -1e3, 5e6), 50, 50)) is None
    assert world(Grid(None, (1.0, 0.0, 0.0, 0.0, -1.0, 50.0), 20, 10)) is not None  # as degrees


def test_pictures_have_them(monkeypatch):
    needs("matplotlib")
    drawn = []
    monkeypatch.setattr(maps, "_png", lambda figure, dpi, colours: drawn.append(figure))
    grid = degrees(-10.0, 36.0, 4.0, 44.0)
    values = np.ma.masked_invalid(np.full((grid.height, grid.width), 0.5))
    maps.picture(maps.Raster(values, grid, "degree"), "cloglog")
    (figure,) = drawn
    ax = figure.axes[0]
    borders, coast = (len(one.get_segments()) for one in ax.collections[:2])
    found = world(grid)
    assert (borders, coast) == (len(found.borders), len(found.coast))
    assert "200 km" in [text.get_text().removesuffix(" at the middle") for text in ax.texts]
