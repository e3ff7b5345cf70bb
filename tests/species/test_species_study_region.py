"""Study regions: where background is drawn from, through the command and in Python."""

import itertools

import numpy as np
import pytest

import maxent as mx
from maxent import species
from maxent.species.input.layers.geodesy import area_km2
from maxent.species.input.layers.outlines import buffered, on_grid
from tools import needs

rasterio = needs("rasterio")
geopandas = needs("geopandas")
shapely = needs("shapely")
pyproj = needs("pyproj")

pytestmark = pytest.mark.usefixtures("sketches")

DEGREES = species.Grid("EPSG:4326", (0.5, 0.0, -10.0, 0.0, -0.5, 10.0), width=40, height=30)
FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
HEADER = "species,longitude,latitude"
# of the first species; the last is off the others' side of the region of most tests
PLACES = [(-6.1, 6.2), (-5.2, 4.1), (-3.9, 5.3), (-4.4, 7.7), (-2.2, 6.6), (8.2, -3.3)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two layers in degrees, records of two species, and three polygons."""
    folder = tmp_path_factory.mktemp("region")
    (folder / "layers").mkdir()
    rng = np.random.default_rng(0)
    for name in ("heat", "rain"):
        shape = (DEGREES.height, DEGREES.width)
        values = np.cumsum(rng.normal(size=shape), axis=1).astype("float32")
        values[:, 38:] = -9999  # the sea
        with rasterio.open(
            folder / "layers" / f"{name}.tif",
            "w",
            driver="GTiff",
            count=1,
            dtype="float32",
            crs=DEGREES.crs,
            nodata=-9999,
            width=DEGREES.width,
            height=DEGREES.height,
            transform=rasterio.Affine(*DEGREES.transform),
        ) as file:
            file.write(values, 1)
    first = [f"Una prima,{x},{y}" for x, y in PLACES]
    second = [f"Una secunda,{x + 9},{y - 6}" for x, y in PLACES[:5]]
    (folder / "one.csv").write_text("\n".join([HEADER, *first]) + "\n")
    (folder / "two.csv").write_text("\n".join([HEADER, *first[:5], *second]) + "\n")
    boxes = [shapely.box(-8, 3, -1, 9), shapely.box(7, -4.5, 9, -2), shapely.box(0, 0, 3, 3)]
    frame = geopandas.GeoDataFrame({"name": list("abc")}, geometry=boxes, crs=DEGREES.crs)
    frame.to_file(folder / "boxes.gpkg")
    frame.iloc[:1].to_crs("EPSG:3857").to_file(folder / "first.gpkg")
    return folder


def _fit(run, data, out, *options, records="one.csv"):
    return run("fit", data / records, data / "layers", "-o", out, *FAST, *options)


def _background(out, data):
    """Cells of the grid with the values of the training points, and the stored result."""
    result = mx.load(out / "result.json")
    model = species.load_model(out / "model.json")
    return result, model


def _centres():
    x, y = DEGREES.centres(np.arange(DEGREES.size))
    return x, y, x < 9  # without the sea


def _km(x, y, to_x, to_y):
    """Lengths of geodesics, from each of some places to each of others."""
    pairs = (
        np.repeat(x, len(to_x)),
        np.repeat(y, len(to_x)),
        np.tile(to_x, len(x)),
        np.tile(to_y, len(x)),
    )
    return np.reshape(pyproj.Geod(ellps="WGS84").inv(*pairs)[2], (len(x), len(to_x))) / 1e3


# -- the command -----------------------------------------------------------------------------------


def test_polygons_bound_the_background(run, data, tmp_path):
    out = tmp_path / "out"
    done = _fit(run, data, out, "--region", data / "first.gpkg")
    assert done.exit_code == 0, done.output
    result, model = _background(out, data)
    x, y, land = _centres()
    inside = (x > -8) & (x < -1) & (y > 3) & (y < 9) & land
    assert result.n_background == inside.sum()
    assert result.model.n_points == inside.sum()  # all records in use lie in there
    (step,) = [s for s in result.cleaning if s.what == "outside the study region"]
    assert step.records == 1
    assert "8.2, -3.3" in step.examples[0]
    assert len(result.records["x"]) == 5
    said = " ".join(done.output.split())
    assert "1 records outside the study region are left out" in said
    assert said.count("study region: ") == 1
    assert model.study.kind == "polygons"
    exact = pyproj.Geod(ellps="WGS84").geometry_area_perimeter(
        shapely.segmentize(shapely.box(-8, 3, -1, 9), 0.05)
    )[0]
    assert model.study.area == pytest.approx(abs(exact) / 1e6, rel=1e-4)
    assert any("reprojected from EPSG:3857" in note for note in result.notes)
    assert any(f"{inside.sum()} cells with data" in note for note in result.notes)
    page = (out / "report.html").read_text()
    assert "White line with a dark edge: the study region" in page
    again = run("report", out)
    assert again.exit_code == 0, again.output


def test_a_buffer_is_geodesic_and_of_each_species(run, data, tmp_path):
    """Cells within 150 km along geodesics, of every species alone."""
    out = tmp_path / "out"
    done = _fit(run, data, out, "--buffer", "150", records="two.csv")
    assert done.exit_code == 0, done.output
    x, y, land = _centres()
    counts = []
    for name in ("Una_prima", "Una_secunda"):
        result, model = _background(out / name, data)
        km = _km(x, y, result.records["x"], result.records["y"]).min(axis=1)
        # circles are polygons
        sure, possible = ((km < 150 * f) & land for f in (0.999, 1.0001))
        cells = model.study.cells(DEGREES, species.Window(0, 0, DEGREES.height, DEGREES.width))
        cells = cells.ravel() & land
        assert not (sure & ~cells).any()
        assert not (cells & ~possible).any()
        assert result.n_background == cells.sum()
        assert model.study.kind == "buffer"
        counts.append(cells)
    assert not np.array_equal(*counts)


def _geodesic_hull(places):
    """Corners of the hull in degrees, joined by geodesics: right where it is a small one."""
    corners = shapely.MultiPoint(places).convex_hull.exterior.coords
    geod, ring = pyproj.Geod(ellps="WGS84"), []
    for one, other in itertools.pairwise(corners):
        ring += [one, *geod.npts(*one, *other, 200)]
    return shapely.Polygon(ring)


def test_a_hull_holds_its_records(run, data, tmp_path):
    out = tmp_path / "out"
    done = _fit(run, data, out, "--hull")
    assert done.exit_code == 0, done.output
    result, model = _background(out, data)
    assert len(result.records["x"]) == len(PLACES)  # corners are inside
    hull = _geodesic_hull(PLACES)
    x, y, land = _centres()
    assert result.n_background == (shapely.contains_xy(hull, x, y) & land).sum()
    assert model.study.shape.symmetric_difference(hull).area < 1e-4 * hull.area
    exact = abs(pyproj.Geod(ellps="WGS84").geometry_area_perimeter(hull)[0]) / 1e6
    assert model.study.area == pytest.approx(exact, rel=1e-4)


def test_ecoregions_are_those_with_records(run, data, tmp_path):
    out = tmp_path / "out"
    done = _fit(run, data, out, "--ecoregions", data / "boxes.gpkg")
    assert done.exit_code == 0, done.output
    result, model = _background(out, data)
    assert len(model.study.polygons) == 2
    assert "the 2 of 3 polygons" in model.study.description
    x, y, land = _centres()
    assert not model.study.contains([1.0], [1.0])[0]  # the box without records
    assert result.n_background == (model.study.contains(x, y) & land).sum()


def test_a_target_group_is_bounded_too(run, data, tmp_path):
    out = tmp_path / "out"
    box, group = data / "first.gpkg", tmp_path / "group.csv"
    inside = [f"Quaevis,{x},4.4" for x in (-7.2, -6.2, -2.7)]
    group.write_text("\n".join([(data / "two.csv").read_text().strip(), *inside]) + "\n")
    done = _fit(run, data, out, "--region", box, "--background-records", group)
    assert done.exit_code == 0, done.output
    result, _ = _background(out, data)
    assert result.n_background == 5 + 3  # of 13 places, without those of the second species


def test_tune_takes_the_same_region(run, data, tmp_path):
    out = tmp_path / "out"
    args = ["tune", data / "one.csv", data / "layers", "-f", "l", "-m", "1,2", "--folds", "2"]
    done = run(*args, "-o", out, "--region", data / "first.gpkg")
    assert done.exit_code == 0, done.output
    assert "1 records outside the study region are left out" in " ".join(done.output.split())


def test_resume_sees_another_region(run, data, tmp_path):
    out = tmp_path / "out"
    assert _fit(run, data, out, "--buffer", "150").exit_code == 0
    kept = _fit(run, data, out, "--buffer", "150", "--resume")
    assert "(kept)" in kept.output
    other = _fit(run, data, out, "--buffer", "160", "--resume")
    assert other.exit_code == 1
    assert "other settings, files or records" in " ".join(other.output.split())


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--hull", "--region", "boxes.gpkg"], 2, "--region and --hull are different"),
        (["--hull", "--ecoregions", "boxes.gpkg"], 2, "--ecoregions and --hull are different"),
        (["--buffer", "0"], 2, "--buffer must lie between 0 and 5000 km, got 0"),
        (["--region", "none.gpkg"], 1, "no such file"),
        (["--region", "one.csv"], 1, "expected polygons"),
        (["--region", "far.gpkg"], 1, "no part of the layers"),
        (["--region", "lines.gpkg"], 1, "expected polygons, got LineString"),
        (["--ecoregions", "empty_box.gpkg"], 1, "none of its 1 polygons holds one of the 6"),
        (["--region", "speck.gpkg"], 1, "no cell of the layers that has its centre there"),
    ],
)
def test_bad_regions_are_refused(run, data, tmp_path, options, code, says):
    for name, shape in {
        "far": shapely.box(100, 40, 110, 50),
        "lines": shapely.LineString([(0, 0), (1, 1)]),
        "empty_box": shapely.box(0, 0, 3, 3),
        "speck": shapely.box(0.01, 0.01, 0.02, 0.02),
    }.items():
        if not (data / f"{name}.gpkg").exists():
            geopandas.GeoDataFrame(geometry=[shape], crs=DEGREES.crs).to_file(data / f"{name}.gpkg")
    typed = [data / part if "." in part else part for part in options]
    out = tmp_path / "out"
    done = _fit(run, data, out, *typed)
    assert done.exit_code == code, done.output
    shown = " ".join(done.output.replace("│", " ").split())
    assert says in shown
    assert not out.exists()


def test_swd_has_no_cells_to_choose(run, data, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("species,x,y,heat\na,0,0,1\n")
    done = run("fit", "--swd", table, table, "--hull", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "--hull has no effect with --swd" in " ".join(done.output.replace("│", " ").split())


def test_a_record_at_sea_does_not_widen_the_region(run, data, tmp_path):
    records = tmp_path / "sea.csv"
    records.write_text((data / "one.csv").read_text() + "Una prima,9.7,-4.7\n")
    out = tmp_path / "out"
    done = run("fit", records, data / "layers", "-o", out, *FAST, "--hull")
    assert done.exit_code == 0, done.output
    study = species.load_model(out / "model.json").study
    hull = _geodesic_hull(PLACES)
    assert study.shape.symmetric_difference(hull).area < 1e-4 * hull.area


# -- the earth -------------------------------------------------------------------------------------


def _world(step=2.0):
    return species.Grid(
        "EPSG:4326", (step, 0.0, -180.0, 0.0, -step, 90.0), int(360 / step), int(180 / step)
    )


@pytest.mark.parametrize("place", [(0.0, 0.0), (179.5, -17.0), (-150.0, 88.0), (30.0, -89.0)])
def test_circles_hold_what_is_near(place):
    """Over the date line and the poles, beside Geod.inv from every cell of a coarse world."""
    grid, km = _world(), 1200.0
    circle = on_grid(buffered(shapely.MultiPoint([place]), km, grid), grid)
    x, y = grid.centres(np.arange(grid.size))
    geod = pyproj.Geod(ellps="WGS84")
    far = geod.inv(x, y, np.full(x.size, place[0]), np.full(x.size, place[1]))[2] / 1e3
    clear = np.abs(far - km) > 0.002 * km
    assert np.array_equal(shapely.contains_xy(circle, x, y)[clear], (far < km)[clear])
    ring = geod.fwd(*np.repeat([place], 720, axis=0).T, np.arange(720) / 2, [1e3 * km] * 720)[:2]
    cap = abs(geod.polygon_area_perimeter(*ring)[0]) / 1e6
    assert area_km2(circle, grid) == pytest.approx(cap, rel=0.002)


def test_outlines_widen_evenly():
    grid, km = _world(), 300.0
    box = shapely.box(10, 55, 25, 65)
    wide = buffered(box, km, grid)
    x, y = grid.centres(np.arange(grid.size))
    edge = shapely.get_coordinates(shapely.segmentize(box.boundary, 0.5))
    far = _km(x, y, *edge.T).min(axis=1)
    near = (far < km * 0.99) | shapely.contains_xy(box, x, y)
    inside = shapely.contains_xy(wide, x, y)
    assert not (near & ~inside).any()
    assert not (inside & ~shapely.contains_xy(box, x, y) & (far > km * 1.01)).any()


def test_the_area_of_the_earth():
    whole = shapely.box(-180, -90, 180, 90)
    assert area_km2(whole, _world()) == pytest.approx(510_065_622, rel=1e-6)  # of WGS 84


def test_a_region_is_stored_as_data(tmp_path):
    ring = shapely.Point(0, 0).buffer(4).difference(shapely.Point(0, 0).buffer(2))
    study = species.StudyRegion.from_shape("polygons", "a ring", ring, DEGREES)
    mx.save(study, tmp_path / "ring.json")
    loaded = mx.load(tmp_path / "ring.json")
    assert shapely.equals(loaded.shape, study.shape)
    assert loaded.contains([0.0, 3.0], [0.0, 0.0]).tolist() == [False, True]
    assert loaded.area == study.area
