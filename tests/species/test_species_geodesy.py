"""Distances and areas on the earth: every CRS, the date line, the poles; beside pyproj's Geod."""

import itertools

import numpy as np
import pytest

import maxent as mx
from maxent import species
from maxent.species import Grid, Window
from maxent.species.fitting.tuning.partitions import partition
from maxent.species.input.layers.geodesy import Earth, area_km2, cell_areas, cell_metres
from maxent.species.input.layers.outlines import buffered, hull, on_grid
from maxent.species.judging.replicates import split_records
from tools import needs

rasterio = needs("rasterio")
geopandas = needs("geopandas")
shapely = needs("shapely")
pyproj = needs("pyproj")

pytestmark = pytest.mark.usefixtures("sketches")

GEOD = pyproj.Geod(ellps="WGS84")
FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]

WORLD = 2 * np.pi * 6378137.0  # of Web Mercator, once around

# grids of Fiji and its neighbours, on both sides of the date line
PACIFIC = {
    "-180..180": Grid("EPSG:4326", (0.5, 0.0, -180.0, 0.0, -0.5, 0.0), 720, 80),
    "0..360": Grid("EPSG:4326", (0.5, 0.0, 0.0, 0.0, -0.5, 0.0), 720, 80),
    "170..190": Grid("EPSG:4326", (0.5, 0.0, 170.0, 0.0, -0.5, 0.0), 40, 80),
    "Mercator": Grid("EPSG:3857", (WORLD / 800, 0.0, -WORLD / 2, 0.0, -5e4, 0.0), 800, 90),
    "Mercator beyond": Grid("EPSG:3857", (5e4, 0.0, 1.9e7, 0.0, -5e4, 0.0), 42, 90),
    "UTM": Grid("EPSG:32701", (2e4, 0.0, -1e6, 0.0, -2e4, 9.5e6), 125, 125),
    "Mollweide": Grid("ESRI:54009", (5e4, 0.0, -18040000.0, 0.0, -5e4, 0.0), 722, 90),
    "Lambert": Grid("+proj=laea +lat_0=-17 +lon_0=180 +type=crs",
                    (2e4, 0.0, -2e6, 0.0, -2e4, 2e6), 200, 200),
}  # fmt: skip
FIJI = np.array(
    [(176.0, -16.0), (178.0, -19.0), (179.5, -14.0), (-179.0, -20.0), (-176.5, -15.0), (-176, -18)]
)
ARCTIC = {
    "degrees": Grid("EPSG:4326", (1.0, 0.0, -180.0, 0.0, -1.0, 90.0), 360, 60),
    "0..360": Grid("EPSG:4326", (1.0, 0.0, 0.0, 0.0, -1.0, 90.0), 360, 60),
    "stereographic": Grid("EPSG:3413", (5e4, 0.0, -4e6, 0.0, -5e4, 4e6), 160, 160),
    "Lambert": Grid("EPSG:3573", (5e4, 0.0, -4e6, 0.0, -5e4, 4e6), 160, 160),
    "Mollweide": Grid("ESRI:54009", (5e4, 0.0, -18040000.0, 0.0, -5e4, 9.02e6), 722, 100),
}
NORTH = np.array([(0.0, 75.0), (70.0, 70.0), (140.0, 80.0), (-150.0, 72.0), (-80.0, 68.0)])


def _placed(places, grid):
    """Coordinates of places in degrees on a grid, by pyproj alone."""
    x, y = pyproj.Transformer.from_crs("EPSG:4326", grid.crs, always_xy=True).transform(*places.T)
    around = {"EPSG:4326": 360.0, "EPSG:3857": WORLD}.get(grid.crs)
    west, _, east, _ = grid.bounds
    if around is not None:
        x = np.where(x < west, x + around, np.where(x > east, x - around, x))
    return x, y


def _degrees(x, y, grid):
    crs = pyproj.CRS(grid.crs)
    return pyproj.Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True).transform(x, y)


def _to_all(x, y, places):
    """km from each point to each place."""
    n = len(places)
    pairs = np.repeat(x, n), np.repeat(y, n), *(np.tile(v, len(x)) for v in places.T)
    return np.reshape(GEOD.inv(*pairs)[2], (len(x), n)) / 1e3


def _ring_area(longitude, latitude):
    return abs(GEOD.polygon_area_perimeter(longitude, latitude)[0]) / 1e6


# -- cells -----------------------------------------------------------------------------------------

GRIDS = {
    "degrees": Grid("EPSG:4326", (0.25, 0.0, -20.0, 0.0, -0.25, 60.0), 160, 400),
    "turned degrees": Grid("EPSG:4326", (0.2, 0.05, 10.0, -0.05, -0.2, 60.0), 100, 120),
    "Mercator": Grid("EPSG:3857", (9000.0, 0.0, 1e6, 0.0, -9000.0, 1.2e7), 60, 300),
    "turned Mercator": Grid("EPSG:3857", (900.0, 80.0, 1e6, 70.0, -900.0, 8.4e6), 70, 90),
    "UTM": Grid("EPSG:32633", (1000.0, 0.0, 2e5, 0.0, -1000.0, 7e6), 90, 700),
    "Lambert": Grid("EPSG:2154", (5e3, 0.0, 1e5, 0.0, -5e3, 7.1e6), 230, 220),
    "stereographic": Grid("EPSG:3413", (2e4, 0.0, -2e6, 0.0, -2e4, 2e6), 200, 200),
    "US feet": Grid("EPSG:2263", (3000.0, 0.0, 9e5, 0.0, -3000.0, 3e5), 40, 50),
    "grads of Paris": Grid("EPSG:4807", (0.1, 0.0, -3.0, 0.0, -0.1, 54.0), 60, 60),
    "another ellipsoid": Grid("EPSG:27700", (5e3, 0.0, 0.0, 0.0, -5e3, 1.2e6), 130, 240),
    "rotated pole": Grid("+proj=ob_tran +o_proj=longlat +o_lon_p=-162 +o_lat_p=39.25 +lon_0=180 "
                         "+to_meter=0.0174532925199433 +type=crs",
                         (0.2, 0.0, -28.0, 0.0, -0.2, 21.0), 200, 220),
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_areas_of_cells(name):
    """Beside the geodesic polygon of a cell, with vertices along its sides."""
    grid = GRIDS[name]
    areas = cell_areas(grid).read(Window(0, 0, grid.height, grid.width))
    crs = pyproj.CRS(grid.crs)
    base = crs.source_crs if crs.is_derived and crs.is_geographic else crs.geodetic_crs
    to_degrees = pyproj.Transformer.from_crs(crs, base, always_xy=True)
    unit = np.degrees(base.axis_info[0].unit_conversion_factor)
    t = np.linspace(0, 1, 100, endpoint=False)
    rows, columns = np.r_[0 * t, t, 0 * t + 1, 1 - t], np.r_[t, 0 * t + 1, 1 - t, 0 * t]
    rng = np.random.default_rng(0)
    for _ in range(12):
        row, column = rng.integers(grid.height), rng.integers(grid.width)
        x, y = grid.coordinates(row + rows, column + columns)
        ring = [unit * np.asarray(v) for v in to_degrees.transform(x, y)]
        exact = abs(crs.get_geod().polygon_area_perimeter(*ring)[0]) / 1e6
        assert areas[row, column] == pytest.approx(exact, rel=2e-6)
    part = Window(grid.height // 3, grid.width // 4, 30, 28)
    cut = areas[part.row : part.row + 30, part.column : part.column + 28]
    np.testing.assert_allclose(cell_areas(grid).read(part), cut, rtol=1e-5)


def test_areas_of_cells_where_the_map_ends():
    """All cells of the whole earth add up, and those beyond it have none."""
    grid = Grid("ESRI:54030", (1e5, 0.0, -1.72e7, 0.0, -1e5, 8.7e6), 344, 174)  # Robinson
    areas = cell_areas(grid).read(Window(0, 0, 174, 344))
    assert areas[0, 0] == 0
    assert areas.sum() == pytest.approx(510_065_622, rel=2e-3)
    assert cell_areas(Grid(None, grid.transform, 5, 4)) is None
    plan = 'LOCAL_CS["a plan",UNIT["metre",1]]'
    local = Grid(plan, (500.0, 0.0, 0.0, 0.0, -200.0, 0.0), 3, 2)
    np.testing.assert_allclose(cell_areas(local).read(Window(0, 0, 2, 3)), 0.1)


def test_the_largest_rasters_do_not_take_minutes():
    """A strip of a raster of 10,000 x 10,000 cells asks for few places of the ellipsoid."""
    grid = Grid("EPSG:3857", (1e3, 0.0, 1e6, 0.0, -1e3, 9e6), 10_000, 10_000)
    asked, scale = [], Earth.areal_scale
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Earth, "areal_scale", lambda self, x, y: asked.append(np.size(x)) or scale(self, x, y)
        )
        areas = cell_areas(grid).read(Window(5000, 0, 100, 10_000))
    assert sum(asked) < 10_000
    rows, columns = np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 1, 0])
    ring = _degrees(*grid.coordinates(5099 + rows, 7777 + columns), grid)
    assert areas[99, 7777] == pytest.approx(_ring_area(*ring), rel=1e-6)


def test_the_side_of_a_cell_is_on_the_ground():
    grid = Grid("EPSG:3857", (1000.0, 0.0, 0.0, 0.0, -1000.0, 8.4e6), 10, 10)
    ends = _degrees([5000.0, 6000.0], [8.3945e6, 8.3945e6], grid)
    metres = GEOD.inv(ends[0][0], ends[1][0], ends[0][1], ends[1][1])[2]
    assert cell_metres(grid) == pytest.approx(metres, rel=1e-6)
    assert metres < 510


# -- hulls and buffers -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", PACIFIC)
def test_regions_across_the_date_line_are_the_same_on_every_map(name):
    grid = PACIFIC[name]
    x, y = _placed(FIJI, grid)
    shape = on_grid(hull(x, y, grid), grid)
    assert shapely.intersects_xy(shape, x, y).all()
    corners = shapely.MultiPoint(np.column_stack([FIJI[:, 0] % 360, FIJI[:, 1]])).convex_hull
    exact = abs(GEOD.geometry_area_perimeter(corners)[0]) / 1e6
    assert area_km2(shape, grid) == pytest.approx(exact, rel=2e-5)
    circles = on_grid(buffered(shapely.MultiPoint(np.column_stack([x, y])), 50.0, grid), grid)
    centre_x, centre_y = grid.centres(np.arange(grid.size))
    known = np.isfinite(_degrees(centre_x, centre_y, grid)[0])
    centre_x, centre_y = centre_x[known], centre_y[known]
    longitude, latitude = _degrees(centre_x, centre_y, grid)
    far = _to_all(np.array(longitude), np.array(latitude), FIJI).min(axis=1)
    inside = shapely.contains_xy(circles, centre_x, centre_y)
    clear = np.abs(far - 50) > 0.1
    assert np.array_equal(inside[clear], far[clear] < 50)
    ring = [GEOD.fwd(*place, azimuth, 5e4)[:2] for place in FIJI for azimuth in range(0, 360, 4)]
    area = sum(_ring_area(*np.array(ring[i : i + 90]).T) for i in range(0, len(ring), 90))
    assert area_km2(circles, grid) == pytest.approx(area, rel=1e-4)
    wide = on_grid(buffered(hull(x, y, grid), 50.0, grid), grid)
    assert not (
        shapely.contains_xy(shape, centre_x, centre_y)
        & ~shapely.contains_xy(wide, centre_x, centre_y)
    ).any()
    assert area_km2(wide, grid) == pytest.approx(498_600, rel=1e-3)


@pytest.mark.parametrize("name", ARCTIC)
def test_hulls_hold_a_pole(name):
    grid = ARCTIC[name]
    x, y = _placed(NORTH, grid)
    shape = on_grid(hull(x, y, grid), grid)
    assert shapely.intersects_xy(shape, x, y).all()
    pole = _placed(np.array([(10.0, 89.9), (-170.0, 89.9)]), grid)
    assert shapely.contains_xy(shape, *pole).all()
    # sides are great ellipses, which are up to 100 m off the geodesic
    assert area_km2(shape, grid) == pytest.approx(_ring_area(*NORTH.T), rel=3e-4)
    wide = on_grid(buffered(hull(x, y, grid), 300.0, grid), grid)
    # within 300 km of a side: by points along the sides
    sides = [
        GEOD.npts(*one, *other, 150)
        for one, other in itertools.pairwise(np.concatenate([NORTH, NORTH[:1]]))
    ]
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-180, 180, 400), rng.uniform(62, 89, 400)])
    far = _to_all(*places.T, np.concatenate(sides)).min(axis=1)
    inside = shapely.contains_xy(shape, *_placed(places, grid))
    clear = np.abs(far - 300) > 3
    within = shapely.contains_xy(wide, *_placed(places, grid))
    assert np.array_equal(within[clear], (inside | (far < 300))[clear])


@pytest.mark.parametrize("name", ["UTM far north", "Mercator at 60", "Lambert conic", "US feet"])
def test_a_buffer_is_so_many_km_on_the_ground(name):
    crs, place = {
        "UTM far north": ("EPSG:32633", (17.0, 78.0)),
        "Mercator at 60": ("EPSG:3857", (10.0, 60.0)),
        "Lambert conic": ("EPSG:2154", (-1.0, 43.0)),
        "US feet": ("EPSG:2263", (-74.2, 40.5)),
    }[name]
    (x,), (y,) = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(
        [place[0]], [place[1]]
    )
    unit = pyproj.CRS(crs).axis_info[0].unit_conversion_factor
    side = 1e4 / unit
    grid = Grid(crs, (side, 0.0, x - 20 * side, 0.0, -side, y + 20 * side), 40, 40)
    edge = shapely.get_coordinates(buffered(shapely.Point(x, y), 50.0, grid))
    longitude, latitude = _degrees(*edge.T, grid)
    n = len(edge)
    far = GEOD.inv(longitude, latitude, [place[0]] * n, [place[1]] * n)[2]
    assert np.max(far) == pytest.approx(5e4, rel=1e-6)
    assert np.min(far) > 0.999 * 5e4  # between the vertices of a circle


def test_records_all_around_the_earth_have_a_hull_of_all_of_it():
    grid = PACIFIC["-180..180"]
    x, y = np.array([-150.0, -60.0, 30.0, 120.0]), np.full(4, -0.25)
    y[::2] = -30.0
    assert hull(np.append(x, 75.0), np.append(y, 40.0), grid) is None
    choice = species.StudyChoice("hull", np.empty(0, object), "", None)
    world = Grid("EPSG:4326", (2.0, 0.0, -180.0, 0.0, -2.0, 90.0), 180, 90)
    region = choice.around(np.append(x, 75.0), np.append(y, 40.0), world)
    assert "lie all around the earth" in region.description
    assert region.area == pytest.approx(510_065_622, rel=1e-6)


def test_a_hull_without_an_area_is_a_line():
    grid = PACIFIC["-180..180"]
    two = hull(np.array([178.0, -178.0]), np.array([-10.0, -10.0]), grid)
    assert two.area == 0
    assert two.length == pytest.approx(4.0, rel=1e-3)
    one = hull(np.array([178.0]), np.array([-10.0]), grid)
    assert one.geom_type == "Point"


# -- polygons --------------------------------------------------------------------------------------

VITI = [(177.0, -19.0), (-178.5, -19.0), (-178.5, -16.0), (177.0, -16.0)]
_TURNED = [(x % 360, y) for x, y in VITI]
DRAWN = {
    "beyond 180": (shapely.Polygon(_TURNED), "EPSG:4326", None),
    "jumping": (shapely.Polygon(VITI), "EPSG:4326", "taken to cross the date line"),
    "split": (
        shapely.MultiPolygon(
            [shapely.box(177, -19, 180, -16), shapely.box(-180, -19, -178.5, -16)]
        ),
        "EPSG:4326",
        None,
    ),
}


@pytest.mark.parametrize("name", ["-180..180", "0..360", "170..190", "Mercator", "UTM", "Lambert"])
@pytest.mark.parametrize("drawn", DRAWN)
def test_polygons_cross_the_date_line(tmp_path, name, drawn):
    grid, (shape, crs, said) = PACIFIC[name], DRAWN[drawn]
    path = tmp_path / "viti levu.gpkg"
    geopandas.GeoDataFrame(geometry=[shape], crs=crs).to_file(path)
    polygons, notes = species.read_polygons(str(path), grid)
    assert any(said in note for note in notes) if said else True
    region = species.StudyChoice("polygons", polygons, "", None).around(*np.empty((2, 0)), grid)
    ring = shapely.segmentize(shapely.Polygon(_TURNED), 0.02)
    exact = abs(GEOD.geometry_area_perimeter(ring)[0]) / 1e6
    assert region.area == pytest.approx(exact, rel=1e-4)
    x, y = _placed(np.array([(179.9, -17.0), (-179.9, -17.0), (176.5, -17.0), (0.0, -17.0)]), grid)
    reached = np.isfinite(x)
    assert (
        region.contains(x[reached], y[reached]).tolist()
        == [True, True, False, False][: reached.sum()]
    )


def test_a_polygon_around_a_pole_comes_from_another_map(tmp_path):
    shape = (
        shapely.Point(3e5, -2e5).buffer(2e6, quad_segs=64).difference(shapely.box(0, 0, 4e5, 4e5))
    )
    path = tmp_path / "ice.gpkg"
    geopandas.GeoDataFrame(geometry=[shape], crs="EPSG:3413").to_file(path)
    areas = []
    for name in ("degrees", "0..360", "Lambert", "stereographic", "Mollweide"):
        grid = ARCTIC[name]
        polygons, _ = species.read_polygons(str(path), grid)
        region = species.StudyChoice("polygons", polygons, "", None).around(*np.empty((2, 0)), grid)
        places = np.random.default_rng(1).uniform(-2.2e6, 2.2e6, (300, 2))
        inside = shapely.contains_xy(shape, *places.T)
        degrees = np.column_stack(_degrees(*places.T, ARCTIC["stereographic"]))
        x, y = _placed(degrees, grid)
        assert np.array_equal(region.contains(x, y), inside)
        areas.append(region.area)
    assert areas == pytest.approx([areas[0]] * 5, rel=1e-4)


def test_a_wide_polygon_is_taken_as_it_is_drawn(tmp_path):
    path = tmp_path / "no pacific.gpkg"
    geopandas.GeoDataFrame(geometry=[shapely.box(-130, -60, 150, 75)], crs="EPSG:4326").to_file(
        path
    )
    grid = Grid("EPSG:4326", (2.0, 0.0, -180.0, 0.0, -2.0, 90.0), 180, 90)
    polygons, notes = species.read_polygons(str(path), grid)
    assert any("280 degrees long: taken as it is drawn" in note for note in notes)
    region = species.StudyChoice("polygons", polygons, "", None).around(*np.empty((2, 0)), grid)
    assert region.contains([0.0, 180.0], [0.0, 0.0]).tolist() == [True, False]


# -- folds -----------------------------------------------------------------------------------------


def _sample(grid, seed=0):
    """Records on both sides of the date line and a background all around them."""
    pandas = needs("pandas")
    rng = np.random.default_rng(seed)
    places = np.column_stack([180 + rng.uniform(-8, 8, 240), rng.uniform(-25, -5, 240)])
    x, y = _placed(np.column_stack([(places[:, 0] + 180) % 360 - 180, places[:, 1]]), grid)
    counts = np.where(np.arange(240) < 60, 1.0, 0.0)
    X = pandas.DataFrame({"heat": rng.normal(size=240), "rain": rng.normal(size=240)})
    return species.Sample(X, counts, np.column_stack([x, y]), background=counts == 0, crs=grid.crs)


def test_blocks_do_not_stop_at_the_date_line():
    """Those of layers from -180 to 180 are those of layers from 170 to 190."""
    folds = {}
    for name in ("-180..180", "170..190", "0..360", "Mercator"):
        sample = _sample(PACIFIC[name])
        for kind in ("blocks", "checkerboard"):
            splits = split_records(sample, kind, 4)
            folds[name, kind] = [np.flatnonzero(split.test).tolist() for split in splits]
            tuning = species.TuningSettings(partition=kind.replace("board", "board2"))
            parts = partition(sample, tuning)
            assert [np.flatnonzero(fold.test).tolist() for fold in parts] == folds[name, kind]
    for kind in ("blocks", "checkerboard"):
        expected = folds["170..190", kind]
        assert all(folds[name, kind] == expected for name, k in folds if k == kind)
    x = _sample(PACIFIC["170..190"]).coordinates[:, 0]
    for rows in folds["-180..180", "blocks"]:
        assert np.ptp(x[rows]) < 12  # of 16 degrees


def test_a_picture_of_folds_has_no_gap_at_the_date_line():
    """Records, region and lines from -180 to 180 are drawn as those from 0 to 360."""
    needs("matplotlib")
    from maxent.species.report.maps import fold_picture

    pictures = []
    for name in ("-180..180", "0..360"):
        sample, earth = _sample(PACIFIC[name]), Earth(PACIFIC[name].crs)
        places = np.rint(64 * sample.coordinates[sample.counts > 0]) / 64  # exact sums
        line = np.array([[179.0, -20.0], [180.0, -15.0], [181.0, -10.0]])
        parts = [
            np.array([[a, -20.0], [a, -12.0], [b, -12.0]]) for a, b in ((178, 180), (180, 183))
        ]
        if name == "-180..180":
            line[2, 0] -= 360
            parts[1][:, 0] -= 360
        study = species.StudyRegion("polygons", "", earth.crs, ((parts[0],), (parts[1],)), 1.0)
        fold = np.arange(len(places)) % 3
        pictures.append(fold_picture(places, fold, {}, None, 60, study, [line], earth.crs)[0])
    assert pictures[0].data == pictures[1].data
    world = earth.side_by_side([-170.0, -60.0, 20.0, 100.0, 179.0])
    assert world.tolist() == [-170.0, -60.0, 20.0, 100.0, 179.0]  # no region: as it is


def test_squares_are_square_on_the_ground():
    """At 60 degrees north, twice as many degrees wide as high."""
    pandas = needs("pandas")
    rng = np.random.default_rng(2)
    places = np.column_stack([rng.uniform(0, 20, 400), rng.uniform(55, 65, 400)])
    X = pandas.DataFrame({"heat": rng.normal(size=400)})
    sample = species.Sample(X, np.ones(400), places, crs="EPSG:4326")
    plane = Earth("EPSG:4326").flat(*places.T)
    pairs = rng.integers(400, size=(2, 200))
    straight = np.linalg.norm(plane[pairs[0]] - plane[pairs[1]], axis=1)
    exact = np.array(GEOD.inv(*places[pairs[0]].T, *places[pairs[1]].T)[2]) / 1e3
    np.testing.assert_allclose(straight, exact, rtol=0.005)
    side = np.ptp(plane, axis=0).max()
    boards = [mx.evaluation.Checkerboard(plane, side / k, levels=1) for k in range(4, 9)]
    least = [np.bincount(board.folds(np.ones(400))).min() for board in boards]
    expected = boards[int(np.argmax(least))].folds(np.ones(400))
    first, _ = split_records(sample, "checkerboard", 2)
    assert np.array_equal(first.test > 0, expected == 0)


# -- the command -----------------------------------------------------------------------------------


def _layers(folder, grid):
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("heat", "rain"):
        values = np.cumsum(rng.normal(size=(grid.height, grid.width)), axis=1).astype("float32")
        with rasterio.open(
            folder / f"{name}.tif",
            "w",
            driver="GTiff",
            count=1,
            dtype="float32",
            crs=grid.crs,
            width=grid.width,
            height=grid.height,
            transform=rasterio.Affine(*grid.transform),
        ) as file:
            file.write(values, 1)
    return folder


def test_fits_across_the_date_line(run, tmp_path):
    """The same region on every map, where the records are in degrees."""
    records = tmp_path / "fidji & cie.csv"
    rows = [f"Avis fidjiensis,{x},{y}" for x, y in FIJI]
    records.write_text("\n".join(["species,longitude,latitude", *rows]) + "\n")
    areas = []
    for i, name in enumerate(("-180..180", "170..190", "Mercator beyond")):
        grid = PACIFIC[name]
        layers = _layers(tmp_path / f"layers {i}", grid)
        out = tmp_path / f"out {i}"
        done = run("fit", records, layers, *FAST, "--hull", "--buffer", "50", "-o", out)
        assert done.exit_code == 0, done.output
        study = species.load_model(out / "model.json").study
        result = mx.load(out / "result.json")
        assert len(result.records["x"]) == 6
        x, y = grid.centres(np.arange(grid.size))
        assert result.n_background == study.contains(x, y).sum()
        areas.append(study.area)
    assert areas == pytest.approx([498_600] * 3, rel=1e-3)


def test_areas_of_presence_are_on_the_ground(run, tmp_path):
    """A Web Mercator map at 60 N, whose squares are four times too large; and its change."""
    grid = Grid("EPSG:3857", (2e4, 0.0, 1e6, 0.0, -2e4, 8.8e6), 20, 24)
    layers = _layers(tmp_path / "layers", grid)
    x, y = grid.centres(np.arange(0, grid.size, 37))
    places = zip(*_degrees(x, y, grid), strict=True)
    rows = [f"a,{longitude:.6f},{latitude:.6f}" for longitude, latitude in places]
    (tmp_path / "records.csv").write_text("\n".join(["species,lon,lat", *rows]) + "\n")
    out = tmp_path / "out"
    args = ["--threshold", "10 percentile", "--thin", "30", "-o", out]
    done = run("fit", tmp_path / "records.csv", layers, *FAST, *args)
    assert done.exit_code == 0, done.output
    with rasterio.open(out / "maps" / "presence.tif") as file:
        present, tags = file.read(1) == 1, file.tags()
    exact = np.zeros(present.shape)
    for row in range(grid.height):  # all cells of a row are alike
        corners = grid.coordinates([row, row, row + 1, row + 1], [0, 1, 1, 0])
        exact[row] = _ring_area(*_degrees(*corners, grid))
    assert float(tags["AREA_KM2"]) == pytest.approx(exact[present].sum(), rel=1e-5)
    assert float(tags["KNOWN_AREA_KM2"]) == pytest.approx(exact.sum(), rel=1e-5)
    assert exact.sum() < 0.3 * 400 * grid.size
    kept = mx.load(out / "result.json").records
    degrees = np.column_stack(_degrees(kept["x"], kept["y"], grid))
    far = _to_all(*degrees.T, degrees)
    np.fill_diagonal(far, np.inf)
    assert far.min() >= 29.9
    change = run("change", out / "maps" / "presence.tif", out / "maps" / "cloglog.tif", "-t", "0.5",
                 "-o", tmp_path / "change")  # fmt: skip
    assert change.exit_code == 0, change.output
    table = (tmp_path / "change" / "range_change.csv").read_text().splitlines()
    row = dict(zip(*(line.split(",") for line in table), strict=True))
    total = float(row["lost_km2"]) + float(row["kept_km2"])
    assert total == pytest.approx(exact[present].sum(), rel=1e-5)
