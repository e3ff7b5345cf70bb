"""Grids, rasters of every kind on one grid, and the background drawn from them."""

import sys
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from maxent import load, save
from maxent.species.input.crs import same_crs, short_crs
from maxent.species.input.layers.grid import OUTSIDE, Grid, Window
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.naming import Named
from maxent.species.input.layers.placement import same_grid
from maxent.species.input.layers.sources import raster_files
from maxent.species.libraries import geo
from maxent.species.study.background import _keys, _lowest, draw_background
from tools import needs

rasterio = needs("rasterio")
pyproj = needs("pyproj")
needs("pandas")
needs("rasterio.warp")

DEGREES = (0.5, 0.0, -10.0, 0.0, -0.5, 50.0)  # half-degree cells from 10 W, 50 N
HEIGHT, WIDTH = 24, 30
WHOLE = Window(0, 0, HEIGHT, WIDTH)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def write(path, bands, transform=DEGREES, crs="EPSG:4326", names=None, mask=None, **profile):
    bands = np.asarray(bands)
    bands = bands[None] if bands.ndim == 2 else bands
    count, height, width = bands.shape
    shape = {"count": count, "height": height, "width": width, "dtype": bands.dtype}
    place = {"crs": crs, "transform": rasterio.Affine(*transform)}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", driver="GTiff", **shape, **place, **profile) as file,
    ):
        file.write(bands)
        if names is not None:
            file.descriptions = names
        if mask is not None:
            file.write_mask(mask)
    return path


def ramp(shape=(HEIGHT, WIDTH), dtype="int16"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def whole(layers):
    return layers.read(Window(0, 0, layers.grid.height, layers.grid.width))


def check(layers, name, expected, known):
    """One layer is as expected where it is known, and known where expected."""
    values, valid = next(s for s in layers.sources if s.name == name).read(
        Window(0, 0, layers.grid.height, layers.grid.width)
    )
    np.testing.assert_array_equal(valid, known)
    np.testing.assert_array_equal(values[known], np.asarray(expected)[known])


# -- grids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [DEGREES, (0.5, 0.0, -10.0, 0.0, 0.5, 40.0), (0.4, 0.3, 5.0, 0.3, -0.4, 7.0)],
    ids=["north up", "south up", "rotated"],
)
def test_points_are_found_in_their_cells(transform, rng):
    grid = Grid(None, transform, 7, 5)
    affine = rasterio.Affine(*transform)
    columns, rows = rng.uniform(-2, 9, 500), rng.uniform(-2, 7, 500)
    x, y = affine.a * columns + affine.b * rows, affine.d * columns + affine.e * rows
    x, y = x + affine.c, y + affine.f
    inside = (columns >= 0) & (columns < 7) & (rows >= 0) & (rows < 5)
    expected = np.where(inside, np.floor(rows) * 7 + np.floor(columns), OUTSIDE)
    np.testing.assert_array_equal(grid.cells_at(x, y), expected)
    np.testing.assert_allclose(grid.positions(x, y), [rows, columns], atol=1e-9)
    np.testing.assert_array_equal(grid.cells_at(*grid.centres(np.arange(35))), np.arange(35))


def test_points_without_a_place_are_outside():
    grid = Grid(None, DEGREES, 7, 5)
    assert grid.cells_at([np.nan, np.inf, -9.9], [49.9, 49.9, -np.inf]).tolist() == [OUTSIDE] * 3


def test_bounds_crop_and_description(tmp_path):
    grid = Grid("EPSG:4326", DEGREES, 7, 5)
    assert grid.bounds == (-10.0, 47.5, -6.5, 50.0)
    assert grid.size == 35
    assert Grid(None, (0.4, 0.3, 5.0, 0.3, -0.4, 7.0), 7, 5).cell_size == (0.5, 0.5)
    part = grid.crop(Window(2, 3, 2, 4))
    assert part == Grid("EPSG:4326", (0.5, 0.0, -8.5, 0.0, -0.5, 49.0), 4, 2)
    np.testing.assert_array_equal(part.centres([5]), grid.centres([3 * 7 + 4]))
    metres = Grid(None, (30.0, 0.0, 4649776.22, 0.0, -60.0, 3210000.5), 2, 2)
    assert metres.describe() == (
        "2 x 2 cells of 30 x 60, x 4649776.22 to 4649836.22, y 3209880.5 to 3210000.5"
    )
    save(grid, tmp_path / "grid.json")
    assert load(tmp_path / "grid.json") == grid


# -- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "profile",
    [
        {},
        {"compress": "deflate", "blockysize": 5},
        {"tiled": True, "blockxsize": 16, "blockysize": 16},
    ],
    ids=["striped", "strips of 5", "tiled"],
)
def test_geotiff(tmp_path, profile):
    write(tmp_path / "bio1.tif", ramp(), nodata=7, **profile)
    with Layers.open(tmp_path) as layers:
        assert layers.names == ("bio1",)
        assert layers.labels() == {"bio1": str(tmp_path / "bio1.tif")}
        assert layers.grid == Grid("EPSG:4326", DEGREES, WIDTH, HEIGHT)
        block = layers.read(Window(3, 4, 6, 17))
        np.testing.assert_array_equal(block.values["bio1"], ramp()[3:9, 4:21])
        assert block.values["bio1"].dtype == np.int16
        assert block.valid.all()
        check(layers, "bio1", ramp(), ramp() != 7)
        frame = whole(layers).frame()
        assert frame["bio1"].tolist() == [v for v in range(HEIGHT * WIDTH) if v != 7]


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_bands_are_named_by_description_or_number(tmp_path, interleave):
    bands = np.stack([ramp(), ramp() + 1, ramp() + 2])
    write(tmp_path / "a.tif", bands, interleave=interleave)
    write(tmp_path / "b.tif", bands, names=("temp", "regen ü", ""), interleave=interleave)
    write(tmp_path / "c.tif", ramp(), names=("described",))
    with Layers.open([tmp_path / "b.tif", tmp_path / "a.tif", tmp_path / "c.tif"]) as layers:
        assert layers.names == ("temp", "regen ü", "b_3", "a_1", "a_2", "a_3", "c")
        assert layers.labels()["regen ü"] == f"{tmp_path / 'b.tif'}, band 2"
        for name, add in zip(layers.names, (0, 1, 2, 0, 1, 2, 0), strict=True):
            check(layers, name, ramp() + add, np.ones((HEIGHT, WIDTH), bool))


ASC = "ncols 3\nnrows 2\nxllcorner -10\nyllcorner 40\ncellsize 0.5\nNODATA_value {}\n{}\n"


@pytest.mark.parametrize(
    ("nodata", "text", "values", "known"),
    [
        ("-9999", "1 -9999 3\n4 5 -9999", [[1, 0, 3], [4, 5, 0]], [[1, 0, 1], [1, 1, 0]]),
        ("-9999", "1.5 -9999 3\n4 5 6", [[1.5, 0, 3], [4, 5, 6]], [[1, 0, 1], [1, 1, 1]]),
        ("-3.4e+38", "1.5 -3.4e+38 3\n4 5 6", [[1.5, 0, 3], [4, 5, 6]], [[1, 0, 1], [1, 1, 1]]),
        (
            "-3.4e+38",
            "1.5 -3.39999995214436425e+38 3\n4 5 6",
            [[1.5, 0, 3], [4, 5, 6]],
            [[1, 0, 1], [1, 1, 1]],
        ),
        (
            "-3.40282347e+38",
            "1.5 -3.4028234663852886e+38 3\n4 5 6",
            [[1.5, 0, 3], [4, 5, 6]],
            [[1, 0, 1], [1, 1, 1]],
        ),
        ("0.1", "0.1 0.5 3\n4 5 6", [[0, 0.5, 3], [4, 5, 6]], [[0, 1, 1], [1, 1, 1]]),
        ("nan", "1.5 nan 3\n4 5 6", [[1.5, 0, 3], [4, 5, 6]], [[1, 0, 1], [1, 1, 1]]),
    ],
)
def test_esri_grid(tmp_path, nodata, text, values, known):
    (tmp_path / "dry.asc").write_text(ASC.format(nodata, text))
    with Layers.open(tmp_path / "dry.asc") as layers:
        assert layers.grid == Grid(None, (0.5, 0.0, -10.0, 0.0, -0.5, 41.0), 3, 2)
        assert layers.notes == ()
        check(layers, "dry", values, np.array(known, bool))
    with Layers.open(tmp_path / "dry.asc", crs="OGC:CRS84") as layers:
        assert same_crs(layers.grid.crs, "EPSG:4326")


GRD = """[general]
creator=R package 'raster'
[georeference]
nrows=2
ncols=3
xmin=-10
ymin=40
xmax=-8.5
ymax=41
projection=+proj=longlat +datum=WGS84 +no_defs
[data]
datatype={kind}
byteorder=little
nbands={bands}
bandorder=BIL
minvalue=0
maxvalue=9
nodatavalue={nodata}
[description]
layername={names}
"""


def test_r_raster(tmp_path):
    floats = np.array([[1.5, -3.4e38, 3], [4, 5, 6]], "<f4")
    (tmp_path / "sun.grd").write_text(
        GRD.format(kind="FLT4S", bands=1, nodata="-3.4e+38", names="whatever")
    )
    floats.tofile(tmp_path / "sun.gri")
    integers = np.array([[[1, 2, 3], [-32768, 5, 6]], [[7, 8, -32768], [1, 1, 1]]], "<i2")
    (tmp_path / "two.grd").write_text(
        GRD.format(kind="INT2S", bands=2, nodata="-32768", names="soil:rain")
    )
    integers.transpose(1, 0, 2).tofile(tmp_path / "two.gri")  # BIL: a row of each band in turn
    with Layers.open(tmp_path) as layers:
        assert layers.names == ("sun", "soil", "rain")
        assert same_crs(layers.grid.crs, "EPSG:4326")
        assert layers.grid.transform == (*DEGREES[:5], 41.0)
        check(layers, "sun", floats, floats > 0)
        check(layers, "soil", integers[0], integers[0] > 0)
        check(layers, "rain", integers[1], integers[1] > 0)


def test_variables_of_a_netcdf_file(tmp_path):
    xarray = needs("xarray")
    x, y = -9.75 + 0.5 * np.arange(WIDTH), 49.75 - 0.5 * np.arange(HEIGHT)
    coordinates = {
        "lat": ("lat", y, {"units": "degrees_north", "standard_name": "latitude"}),
        "lon": ("lon", x, {"units": "degrees_east", "standard_name": "longitude"}),
    }
    data = {n: (("lat", "lon"), ramp(dtype="float32") * k) for n, k in (("wet", 1), ("dry", 2))}
    xarray.Dataset(data, coordinates).to_netcdf(tmp_path / "c.nc", engine="scipy")
    with Layers.open(tmp_path / "c.nc") as layers:
        assert layers.names == ("wet", "dry")
        assert layers.labels()["dry"] == f"{tmp_path / 'c.nc'}, dry"
        np.testing.assert_allclose(layers.grid.transform, DEGREES, atol=1e-12)
        check(layers, "dry", ramp() * 2, np.ones((HEIGHT, WIDTH), bool))


def _in_time(units, calendar, times, levels=None):
    """Temperature at some times (and heights), its values those of a ramp and of the band."""
    xarray = needs("xarray")
    x, y = -9.75 + 0.5 * np.arange(WIDTH), 49.75 - 0.5 * np.arange(HEIGHT)
    coordinates = {
        "time": ("time", times, {"units": units, "calendar": calendar}),
        "lat": ("lat", y, {"units": "degrees_north", "standard_name": "latitude"}),
        "lon": ("lon", x, {"units": "degrees_east", "standard_name": "longitude"}),
    }
    shape = (len(times),) if levels is None else (len(times), len(levels))
    if levels is not None:
        coordinates["height"] = ("height", levels)
    values = ramp(dtype="float32") + 1000 * np.arange(np.prod(shape)).reshape(*shape, 1, 1)
    dims = ("time", *(() if levels is None else ("height",)), "lat", "lon")
    return xarray.Dataset({"tas": (dims, values.astype("float32"))}, coordinates)


@pytest.mark.parametrize(
    ("units", "times", "names"),
    [
        ("days since 2050-01-01", [14.0, 45.0, 75.0], ["2050-01", "2050-02", "2050-03"]),
        ("days since 1850-01-01", [73232.0, 80537.0], ["2050", "2070"]),
        ("hours since 2050-01-01", [0.0, 24.0], ["2050-01-01", "2050-01-02"]),
        ("hours since 2050-01-01", [0.0, 6.0], ["2050-01-01T00", "2050-01-01T06"]),
    ],
)
def test_times_of_a_netcdf_are_layers_with_dates(tmp_path, units, times, names):
    data = _in_time(units, "proleptic_gregorian", times)
    data.to_netcdf(tmp_path / "tas.nc", engine="scipy")
    with Layers.open(tmp_path / "tas.nc") as layers:
        assert layers.names == tuple(f"tas_{name}" for name in names)
        (note,) = (note for note in layers.notes if "times" in note)
        assert f"tas.nc: its times became {len(names)} layers: tas_{names[0]}" in note
        for i, name in enumerate(layers.names):
            check(layers, name, ramp() + 1000 * i, np.ones((HEIGHT, WIDTH), bool))
    last = Named("warmth", str(tmp_path / "tas.nc"), f"tas_{names[-1]}")
    with Layers.open([], named=[last]) as layers:
        assert layers.names == ("warmth",)
        assert not any("times" in note for note in layers.notes)
        check(layers, "warmth", ramp() + 1000 * (len(names) - 1), np.ones((HEIGHT, WIDTH), bool))
    xarray = needs("xarray")
    needs("rioxarray")
    told = Layers.from_xarray(xarray.decode_cf(data))
    assert told.names == tuple(f"tas_{name}" for name in names)
    assert "its times became" in told.notes[0]


def test_times_and_heights_of_a_netcdf(tmp_path):
    data = _in_time("days since 2050-01-01", "standard", [0.0, 40.0], [2.0, 10.0])
    data.to_netcdf(tmp_path / "tas.nc", engine="scipy")
    names = ("tas_2050-01_2", "tas_2050-01_10", "tas_2050-02_2", "tas_2050-02_10")
    with Layers.open(tmp_path / "tas.nc") as layers:
        assert layers.names == names


def test_times_that_cannot_be_read_are_numbered_and_said(tmp_path, monkeypatch):
    from maxent.species.input.layers import sources

    monkeypatch.setattr(sources, "decoded", lambda *time: None)  # as without cftime
    data = _in_time("days since 2050-01-01", "360_day", [0.0, 30.0])
    data.to_netcdf(tmp_path / "tas.nc", engine="scipy")
    with Layers.open(tmp_path / "tas.nc") as layers:
        assert layers.names == ("tas_1", "tas_2")
        assert any("calendar 360_day" in note and "cftime" in note for note in layers.notes)


@pytest.mark.parametrize(
    ("dtype", "nodata", "unknown"),
    [
        ("uint8", 255, [255]),
        ("uint8", None, []),
        ("int16", -9999, [-9999]),
        ("uint16", 65535, [65535]),
        ("int32", -2147483648, [-2147483648]),
        ("float32", np.nan, [np.nan, np.inf, -np.inf]),
        ("float32", None, [np.nan, np.inf]),
        ("float32", -3.4e38, [np.float32(-3.4e38), np.nan, np.inf]),
        ("float32", -9999, [-9999, np.nan]),
        ("float64", -1.7976931348623157e308, [-1.7976931348623157e308, np.nan]),
        # a float64 file made of a float32 one, with the rounded value in its header
        ("float64", -3.4e38, [-3.4e38, float(np.float32(-3.4e38))]),
    ],
)
def test_nodata(tmp_path, dtype, nodata, unknown):
    values = (ramp() % 200).astype(dtype)
    known = np.ones(values.shape, bool)
    values.ravel()[: len(unknown)] = unknown
    known.ravel()[: len(unknown)] = False
    write(tmp_path / "a.tif", values, nodata=nodata)
    with Layers.open(tmp_path / "a.tif") as layers:
        check(layers, "a", values, known)
        assert whole(layers).values["a"].dtype == dtype


def test_nodata_that_the_type_cannot_hold_hides_nothing(tmp_path):
    (tmp_path / "a.vrt").write_text(
        f"""<VRTDataset rasterXSize="{WIDTH}" rasterYSize="{HEIGHT}">
        <GeoTransform>-10, 0.5, 0, 50, 0, -0.5</GeoTransform>
        <VRTRasterBand dataType="Byte" band="1"><NoDataValue>-9999</NoDataValue>
        <SimpleSource><SourceFilename relativeToVRT="1">b.tif</SourceFilename>
        <SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"""
    )
    write(tmp_path / "b.tif", ramp(dtype="uint8"))
    with Layers.open(tmp_path / "a.vrt") as layers:
        check(layers, "a", ramp(dtype="uint8"), np.ones((HEIGHT, WIDTH), bool))


def test_scale_and_offset(tmp_path):
    stored = ramp(dtype="uint16")
    with rasterio.open(write(tmp_path / "t.tif", stored, nodata=3), "r+") as file:
        file.scales, file.offsets = (0.1,), (-273.15,)
    with Layers.open(tmp_path / "t.tif") as layers:
        check(layers, "t", stored * 0.1 - 273.15, stored != 3)


def test_masks_and_alpha_bands(tmp_path):
    hidden = np.zeros((HEIGHT, WIDTH), bool)
    hidden[4:9, 10:] = True
    opaque = np.where(hidden, 0, 255).astype("uint8")
    write(tmp_path / "masked.tif", ramp(), mask=opaque)
    write(tmp_path / "clear.tif", np.stack([ramp(dtype="uint8"), opaque]), alpha="YES")
    with Layers.open(tmp_path) as layers:
        assert layers.names == ("clear", "masked")
        check(layers, "masked", ramp(), ~hidden)
        check(layers, "clear", ramp(dtype="uint8"), ~hidden)
        np.testing.assert_array_equal(whole(layers).valid, ~hidden)
        # and the same through a warp: half the resolution, a block of four is known if one is
        coarse = Grid("EPSG:4326", (1.0, 0.0, -10.0, 0.0, -1.0, 50.0), WIDTH // 2, HEIGHT // 2)
    with Layers.open(tmp_path, like=coarse, resampling="max") as layers:
        quarters = (~hidden).reshape(HEIGHT // 2, 2, WIDTH // 2, 2).any((1, 3))
        np.testing.assert_array_equal(whole(layers).valid, quarters)


def test_a_cell_is_valid_where_every_layer_is(tmp_path):
    write(tmp_path / "a.tif", ramp(), nodata=0)
    write(tmp_path / "b.tif", ramp(), nodata=5)
    with Layers.open(tmp_path) as layers:
        block = whole(layers)
        np.testing.assert_array_equal(block.valid, (ramp() != 0) & (ramp() != 5))
        assert block.frame(ramp() < 8)["b"].tolist() == list(range(8))


# -- xarray --------------------------------------------------------------------------------------


def axes(x="x", y="y", down=True):
    north = 49.75 - 0.5 * np.arange(HEIGHT)
    return {y: north if down else north[::-1], x: -9.75 + 0.5 * np.arange(WIDTH)}


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("names", [("x", "y"), ("lon", "lat"), ("longitude", "latitude")])
def test_xarray_dataset(down, names):
    xarray = needs("xarray")
    needs("rioxarray")
    values = ramp(dtype="float32")
    values[2, 3] = np.nan
    stored = values if down else values[::-1]
    x, y = names
    data = xarray.Dataset(
        {"a": ((y, x), stored), "wet": ((x, y), stored.T > 100), "number": 3.0},
        axes(x, y, down),
    ).rio.write_crs("EPSG:4326")
    layers = Layers.from_xarray(data, categorical=["wet"])
    assert layers.names == ("a", "wet")
    assert layers.categorical == ("wet",)
    assert layers.grid == Grid("EPSG:4326", DEGREES, WIDTH, HEIGHT)
    check(layers, "a", values, np.isfinite(values))
    check(layers, "wet", values > 100, np.ones(values.shape, bool))
    assert layers.read(Window(0, 0, 1, 1)).values["wet"].dtype == np.uint8


def test_xarray_of_bands_is_what_the_file_is(tmp_path):
    rioxarray = needs("rioxarray")
    bands = np.stack([ramp(), ramp() + 1])
    write(tmp_path / "a.tif", bands, nodata=4, names=("warm", "wet"))
    with rasterio.open(tmp_path / "a.tif", "r+") as file:
        file.scales, file.offsets = (0.1, 0.1), (5, 5)
    for options in ({}, {"masked": True}, {"mask_and_scale": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)  # of rioxarray's own code
            data = rioxarray.open_rasterio(tmp_path / "a.tif", **options)
        with data:
            layers = Layers.from_xarray(data)
            assert layers.names == ("warm", "wet")
            assert layers.grid == Grid("EPSG:4326", DEGREES, WIDTH, HEIGHT)
            for name, stored in zip(layers.names, bands, strict=True):
                values, known = next(s for s in layers.sources if s.name == name).read(WHOLE)
                np.testing.assert_array_equal(known, stored != 4)
                np.testing.assert_allclose(values[known], (stored * 0.1 + 5)[known], rtol=1e-6)


def test_xarray_bands_without_names():
    xarray = needs("xarray")
    needs("rioxarray")
    bands = np.stack([ramp(), ramp() + 1])
    plain = xarray.DataArray(bands, axes(), ("band", "y", "x"), name="bio")
    assert Layers.from_xarray(plain).names == ("bio_1", "bio_2")
    assert Layers.from_xarray(plain).grid.crs is None
    check(Layers.from_xarray(plain), "bio_2", bands[1], np.ones(bands[1].shape, bool))
    named = plain.assign_coords(band=["warm", "wet"])
    assert Layers.from_xarray(named).names == ("warm", "wet")
    assert Layers.from_xarray(plain[:1]).names == ("bio",)


def test_xarray_that_cannot_be_used():
    xarray = needs("xarray")
    needs("rioxarray")
    plain = xarray.DataArray(ramp(), axes(), ("y", "x"), name="a")
    cases = [
        (ramp(), "expected an xarray Dataset or DataArray, got ndarray"),
        (plain.rename(x="column"), "'a' has dimensions y, column; expected one of x, longitude"),
        (plain.expand_dims(["time", "band"]), "dimensions time, band besides x and y"),
        (plain.astype(str), "'a' holds <U.*expected numbers"),
        (plain[:1], "'a' needs at least two rows"),
        (plain.isel(x=[0, 1, 5]), "'a': its coordinates are not evenly spaced"),
        (xarray.Dataset({"n": 1}), "no layer with two dimensions"),
    ]
    for data, message in cases:
        with pytest.raises(ValueError, match=message):
            Layers.from_xarray(data)
    shifted = plain.rename("b", x="lon", y="lat").assign_coords(lon=plain.x.values + 0.25)
    with pytest.raises(ValueError, match=r"'b' is not on the grid .* rio.reproject_match"):
        Layers.from_xarray(xarray.Dataset({"a": plain, "b": shifted}))


# -- what cannot be opened -----------------------------------------------------------------------


def test_files_of_folders(tmp_path):
    for name in ("b.tif", "a.asc", "B.TIF", "notes.txt", ".hidden.tif", "x.aux.xml"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder.tif").mkdir()
    files = raster_files([tmp_path / "b.tif", str(tmp_path)])
    assert [f.name for f in files] == ["b.tif", "B.TIF", "a.asc"]


def test_bad_files(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.tif").write_text("not a raster")
    (tmp_path / "nothing.tif").write_bytes(b"")
    cases = [
        ([], ValueError, "no layers given"),
        (tmp_path / "empty", ValueError, "empty: no raster in this folder; expected files ending"),
        (tmp_path / "gone.tif", FileNotFoundError, r"gone.tif: no such file"),
        (tmp_path / "text.tif", OSError, r"text.tif: not a raster that can be read .*GeoTIFF"),
        (tmp_path / "nothing.tif", OSError, r"nothing.tif: not a raster that can be read"),
    ]
    for sources, kind, message in cases:
        with pytest.raises(kind, match=message):
            Layers.open(sources)


def test_a_file_without_a_place(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(tmp_path / "nowhere.tif", ramp(), transform=(1, 0, 0, 0, 1, 0), crs=None)
    message = "does not say where its cells lie"
    with pytest.raises(ValueError, match=rf"nowhere.tif: the file {message}"):
        Layers.open(tmp_path / "nowhere.tif")
    (tmp_path / "picture.png").write_bytes(_picture(ramp()))
    unplaced = pytest.warns(rasterio.errors.NotGeoreferencedWarning)
    with unplaced, pytest.raises(ValueError, match=rf"picture.png: the file {message}"):
        Layers.open(tmp_path / "picture.png")


def _picture(values):
    from io import BytesIO

    buffer = BytesIO()
    needs("PIL.Image").fromarray(values.astype(np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("warped", [False, True])
def test_files_cut_short(tmp_path, rng, capfd, warped):
    noise = rng.integers(0, 30000, (300, 200)).astype("int16")
    path = write(tmp_path / "half.tif", noise, compress="deflate", blockysize=10)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    like = Grid("EPSG:4326", (0.7, 0.0, -10.0, 0.0, -0.7, 50.0), 140, 210) if warped else None
    with Layers.open(path, like=like) as layers:
        with pytest.raises(OSError, match=r"half.tif: rows 0 to \d+ cannot be read .*cut short"):
            whole(layers)
        with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match=r"half.tif: rows"):
            pool.submit(whole, layers).result()
    assert capfd.readouterr() == ("", "")


def test_other_formats_cut_short(tmp_path):
    (tmp_path / "a.asc").write_text(ASC.format("-9999", "1 2 3\n4"))
    with Layers.open(tmp_path / "a.asc") as layers, pytest.raises(OSError, match=r"a.asc: rows 0"):
        whole(layers)
    header = GRD.format(kind="INT2S", bands=1, nodata="-9", names="b")
    (tmp_path / "b.grd").write_text(header.replace("rows=2", "rows=11000"))
    np.zeros(30000, dtype="<i2").tofile(tmp_path / "b.gri")
    with pytest.raises(OSError, match=r"b.grd: the file is cut short, 60000 bytes of 66000; copy"):
        Layers.open(tmp_path / "b.grd")


def test_names(tmp_path):
    (tmp_path / "other").mkdir()
    paths = [write(tmp_path / name, ramp()) for name in ("a.tif", "b.tif", "other/a.tif")]
    with pytest.raises(
        ValueError, match=r"two layers are called 'a': .*/a.tif and .*other/a.tif; rename one"
    ):
        Layers.open(paths)
    with pytest.raises(ValueError, match="categorical layer 'soil' is not among the layers: a, b"):
        Layers.open(paths[:2], categorical=["soil"])
    with pytest.raises(ValueError, match="no layer 'c', 'd' among a, b: layers are known by"):
        Layers.open(paths[:2], only=["a", "c", "d"])
    with pytest.raises(ValueError, match="no layers given"):
        Layers.open(paths[:2], only=[])
    with Layers.open(paths, only=["b"]) as layers:  # the clash is not in the way
        assert layers.names == ("b",)
    with Layers.open(paths[:2], only=["b", "a"], categorical=["a"]) as layers:
        assert layers.names == ("b", "a")
        assert layers.categorical == ("a",)
        assert repr(layers).startswith("Layers(b, a; 30 x 24 cells of 0.5")


def test_settings_that_are_not_known(tmp_path):
    path = write(tmp_path / "a.tif", ramp())
    with pytest.raises(ValueError, match=r"align must be one of refuse, .*got 'yes'"):
        Layers.open(path, align="yes")
    with pytest.raises(ValueError, match=r"resampling must be one of nearest, .*got 'gauss'"):
        Layers.open(path, resampling="gauss")
    with pytest.raises(ValueError, match="'EPSG:abc' is not a coordinate reference system"):
        Layers.open(path, crs="EPSG:abc")


def test_missing_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(ImportError, match=r"this needs rasterio: pip install maxent\[geo\]"):
        geo("rasterio")


# -- alignment -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("EPSG:4326", "OGC:CRS84", True),
        ("EPSG:4326", "+proj=longlat +datum=WGS84 +no_defs", True),
        ("EPSG:4326", "+proj=longlat +ellps=WGS84 +towgs84=0,0,0 +no_defs", True),
        (
            "EPSG:4326",
            'GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137,298.257223563]],'
            'PRIMEM["Greenwich",0],UNIT["Degree",0.017453292519943295]]',
            True,
        ),
        ("EPSG:32633", "+proj=utm +zone=33 +datum=WGS84", True),
        ("ESRI:54009", "+proj=moll +datum=WGS84", True),
        ("EPSG:4326", None, True),
        ("EPSG:4326", "EPSG:4267", False),  # the datum of 1927 is 100 m off
        ("EPSG:32633", "EPSG:32634", False),
        ("EPSG:3857", "EPSG:3395", False),
        ("EPSG:4326", "EPSG:3857", False),
    ],
)
def test_same_crs(one, other, same):
    assert same_crs(one, other) is same
    assert same_crs(other, one) is same


def test_short_crs():
    assert short_crs("+proj=longlat +datum=WGS84 +no_defs") == "EPSG:4326"
    assert short_crs("+proj=laea +lat_0=1 +lon_0=2") == "unknown"
    assert short_crs(None) == "unknown"


def test_same_grid():
    grid = Grid("EPSG:4326", DEGREES, 7, 5)
    assert same_grid(grid, Grid(None, (0.5, 0.0, -10.001, 0.0, -0.5, 50.001), 7, 5))
    others = [
        Grid("EPSG:4326", (0.5, 0.0, -10.1, 0.0, -0.5, 50.0), 7, 5),
        Grid("EPSG:4326", (0.51, 0.0, -10.0, 0.0, -0.5, 50.0), 7, 5),
        Grid("EPSG:4326", (0.5, 0.0, -10.0, 0.0, 0.5, 47.5), 7, 5),  # upside down
        Grid("EPSG:4326", DEGREES, 5, 7),
        Grid("EPSG:3857", DEGREES, 7, 5),
    ]
    assert not any(same_grid(grid, other) for other in others)


ODD = {
    "crs": ({"crs": "EPSG:3857"}, r"it is in EPSG:3857, .*good.tif in EPSG:4326"),
    "extent": (
        {"transform": (0.5, 0.0, -9.0, 0.0, -0.5, 50.0)},
        r"x -9 to 6, .*good.tif has .* x -10 to 5",
    ),
    "offset": ({"transform": (0.5, 0.0, -9.75, 0.0, -0.5, 50.0)}, r"x -9.75 to 5.25, "),
    "resolution": (
        {"transform": (0.25, 0.0, -10.0, 0.0, -0.25, 50.0)},
        r"cells of 0.25, .*cells of 0.5,",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_other_grids_are_refused_by_name(tmp_path, what):
    place, message = ODD[what]
    good = [write(tmp_path / name, ramp()) for name in ("good.tif", "fine.tif")]
    odd = write(tmp_path / "odd.tif", ramp(), **place)
    with pytest.raises(ValueError, match=r"odd.tif is not on the grid of the other.*" + message):
        Layers.open([*good, odd])


def test_the_file_that_differs_from_most_is_named(tmp_path):
    odd = write(tmp_path / "a.tif", ramp(), transform=(0.5, 0.0, -9.0, 0.0, -0.5, 50.0))
    good = [write(tmp_path / name, ramp()) for name in ("b.tif", "c.tif")]
    with pytest.raises(ValueError, match=r"a.tif is not on the grid of the other layers: .*b.tif"):
        Layers.open([odd, *good])


def reprojected(array, source, target, how, nodata=None):
    """rasterio's own warp of a whole array, NaN where nothing is known."""
    out = np.full((target.height, target.width), np.nan)
    values = array.astype(np.float64)
    if nodata is not None:
        values[array == nodata] = np.nan
    rasterio.warp.reproject(
        values,
        out,
        src_transform=rasterio.Affine(*source.transform),
        dst_transform=rasterio.Affine(*target.transform),
        src_crs=source.crs or "EPSG:4326",
        dst_crs=target.crs or "EPSG:4326",
        src_nodata=np.nan,
        dst_nodata=np.nan,
        resampling=rasterio.enums.Resampling[how],
        UNIFIED_SRC_NODATA="NO",
    )
    return out


TARGETS = {
    "mercator": Grid("EPSG:3857", (45000.0, 0.0, -1300000.0, 0.0, -45000.0, 6500000.0), 45, 42),
    "utm": Grid("EPSG:32630", (40000.0, 0.0, 0.0, 0.0, -40000.0, 5600000.0), 30, 36),
    "mollweide": Grid("ESRI:54009", (50000.0, 0.0, -900000.0, 0.0, -50000.0, 5900000.0), 30, 30),
    "half a cell": Grid("EPSG:4326", (0.5, 0.0, -9.75, 0.0, -0.5, 50.25), WIDTH, HEIGHT),
    "finer": Grid("EPSG:4326", (0.2, 0.0, -10.0, 0.0, -0.2, 50.0), 80, 60),
    "coarser": Grid("EPSG:4326", (1.3, 0.0, -11.0, 0.0, -1.3, 50.0), 14, 11),
    "upside down": Grid("EPSG:4326", (0.5, 0.0, -10.0, 0.0, 0.5, 38.0), WIDTH, HEIGHT),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "nodata"), [("int16", -1), ("uint8", None), ("float32", np.nan), ("int32", None)]
)
def test_values_on_another_grid(tmp_path, rng, target, dtype, nodata):
    grid, source = TARGETS[target], Grid("EPSG:4326", DEGREES, WIDTH, HEIGHT)
    array = rng.integers(1, 200, (HEIGHT, WIDTH)).astype(dtype)
    if nodata is not None:
        array[5:9, 6:20] = nodata
    write(tmp_path / "a.tif", array, nodata=nodata)
    write(tmp_path / "soil.tif", array, nodata=nodata)
    with Layers.open(tmp_path, like=grid, categorical=["soil"]) as layers:
        assert layers.grid == grid
        assert layers.notes == (
            f"{tmp_path / 'a.tif'} resampled (bilinear) to {grid.describe()}",
            f"{tmp_path / 'soil.tif'} resampled (nearest) to {grid.describe()}",
        )
        bilinear, known = layers.sources[0].read(Window(0, 0, grid.height, grid.width))
        expected = reprojected(array, source, grid, "bilinear", nodata)
        np.testing.assert_array_equal(known, np.isfinite(expected))
        np.testing.assert_allclose(bilinear[known], expected[known], rtol=1e-5)
        expected = reprojected(array, source, grid, "nearest", nodata)
        check(layers, "soil", expected, np.isfinite(expected))
        block = layers.read(Window(3, 4, 5, 6))
        assert block.values["soil"].dtype == dtype
        np.testing.assert_array_equal(block.values["a"], bilinear[3:8, 4:10])
        assert known.any()
        assert not known.all() or (target == "upside down" and nodata is None)
        if nodata is None:  # cells beyond the source are not known, whatever they hold
            x, y = grid.centres(np.arange(grid.size))
            if grid.crs != "EPSG:4326":
                to_degrees = pyproj.Transformer.from_crs(grid.crs, "EPSG:4326", always_xy=True)
                x, y = to_degrees.transform(x, y)
            inside = source.cells_at(x, y) != OUTSIDE
            assert np.mean(known.ravel() != inside) < 0.02  # the edge, where a warp is approximate


@pytest.mark.parametrize("target", ["mercator", "utm", "mollweide", "half a cell", "finer"])
def test_places_stay_where_they_are(tmp_path, target):
    """A plane over longitude and latitude is the same plane on every grid."""
    source, grid = Grid("EPSG:4326", DEGREES, WIDTH, HEIGHT), TARGETS[target]
    x, y = source.centres(np.arange(source.size))
    write(tmp_path / "plane.tif", (x + 3 * y).reshape(HEIGHT, WIDTH))
    with Layers.open(tmp_path, like=grid) as layers:
        values, known = layers.sources[0].read(Window(0, 0, grid.height, grid.width))
    known[[0, -1]] = known[:, [0, -1]] = False
    x, y = grid.centres(np.flatnonzero(known))
    if grid.crs != "EPSG:4326":
        x, y = pyproj.Transformer.from_crs(grid.crs, "EPSG:4326", always_xy=True).transform(x, y)
    inner = (x > -9.75) & (x < 4.75) & (y > 38.25) & (y < 49.75)  # no values beyond to lean on
    assert inner.sum() > 300
    # GDAL may be off by an eighth of a cell
    assert np.abs(values[known] - (x + 3 * y))[inner].max() < 4 * 0.5 / 8


def test_nodata_of_one_band_is_not_mixed_into_its_values(tmp_path, rng):
    """Values of a band come from its own known neighbours, whatever the other band holds."""
    bands = np.stack([np.full((HEIGHT, WIDTH), 100), np.full((HEIGHT, WIDTH), 7)]).astype("int16")
    bands[0, 5:9] = -9999
    write(tmp_path / "a.tif", bands, nodata=-9999)
    grid = TARGETS["finer"]
    with Layers.open(tmp_path, like=grid) as layers:
        _, y = grid.centres(np.arange(grid.size))
        inside = (np.arange(grid.size) % grid.width < 75).reshape(60, 80)  # 15 degrees of 0.2
        hidden = ((y < 47.5) & (y > 45.5)).reshape(60, 80)
        check(layers, "a_2", np.full((60, 80), 7), inside)
        values, known = layers.sources[0].read(Window(0, 0, 60, 80))
        assert (values[known] == 100).all()
        assert known[inside & ~hidden].all()
        assert not known[~inside].any()
        assert (known & hidden).sum() <= 2 * 75  # a row at either edge leans on known neighbours


def test_scale_and_offset_of_a_warped_file(tmp_path, rng):
    stored = rng.integers(0, 500, (HEIGHT, WIDTH)).astype("uint16")
    with rasterio.open(write(tmp_path / "t.tif", stored, nodata=3), "r+") as file:
        file.scales, file.offsets = (0.1,), (-273.15,)
    source, grid = Grid("EPSG:4326", DEGREES, WIDTH, HEIGHT), TARGETS["finer"]
    expected = reprojected(stored, source, grid, "bilinear", 3) * 0.1 - 273.15
    with Layers.open(tmp_path / "t.tif", like=grid) as layers:
        block = whole(layers)
        np.testing.assert_array_equal(block.valid, np.isfinite(expected))
        np.testing.assert_allclose(block.values["t"][block.valid], expected[block.valid], rtol=1e-5)


def test_the_grid_of_the_first_finest_or_coarsest(tmp_path):
    middle = write(tmp_path / "middle.tif", ramp())
    fine = write(tmp_path / "fine.tif", ramp((30, 30)), (0.2, 0.0, -9.0, 0.0, -0.2, 48.0))
    rough = write(tmp_path / "rough.tif", ramp((8, 8)), (2.0, 0.0, -12.0, 0.0, -2.0, 52.0))
    files = [middle, fine, rough]
    # what all cover: x -9 to -3, y 42 to 48
    expected = {
        "first": ((0.5, 0.0, -9.0, 0.0, -0.5, 48.0), 12, 12),
        "finest": ((0.2, 0.0, -9.0, 0.0, -0.2, 48.0), 30, 30),
        "coarsest": ((2.0, 0.0, -10.0, 0.0, -2.0, 48.0), 4, 3),
    }
    for align, (transform, width, height) in expected.items():
        with Layers.open(files, align=align) as layers:
            assert layers.grid == Grid("EPSG:4326", transform, width, height)
            reference = {"first": "middle", "finest": "fine", "coarsest": "rough"}[align]
            resampled = [n for n in layers.notes if "resampled" in n]
            assert len(resampled) == 2
            assert not any(reference in n for n in resampled)
            cut = f"layers cut to what all of them cover: {layers.grid.describe()}"
            assert (cut in layers.notes) is (align != "finest")
    with Layers.open(files, align="first") as layers:  # the first is cut, its values are its own
        check(layers, "middle", ramp()[4:16, 2:14], np.ones((12, 12), bool))


def test_cell_sizes_are_compared_on_the_ground(tmp_path):
    degrees = write(tmp_path / "degrees.tif", ramp())  # 0.5 degrees: some 40 x 55 km
    metres = write(
        tmp_path / "metres.tif",
        ramp((150, 150)),
        (10000.0, 0.0, -1100000.0, 0.0, -10000.0, 6200000.0),
        "EPSG:3857",
    )
    for align, name in (("finest", "metres"), ("coarsest", "degrees")):
        for files in ([degrees, metres], [metres, degrees]):
            with Layers.open(files, align=align) as layers:
                (note,) = [n for n in layers.notes if "resampled" in n]
                assert f"{name}.tif" not in note
                assert (layers.grid.crs == "EPSG:3857") is (name == "metres")


def test_same_cells_of_another_extent_are_read_as_they_are(tmp_path):
    write(tmp_path / "a.tif", ramp(), nodata=100)
    write(tmp_path / "b.tif", ramp(), transform=(0.5, 0.0, -8.0, 0.0, -0.5, 49.0), nodata=100)
    with Layers.open(tmp_path, align="first") as layers:
        assert layers.grid == Grid("EPSG:4326", (0.5, 0.0, -8.0, 0.0, -0.5, 49.0), 26, 22)
        (note,) = layers.notes
        assert note.startswith("layers cut to what all of them cover")
        assert whole(layers).values["a"].dtype == np.int16
        check(layers, "a", ramp()[2:, 4:], ramp()[2:, 4:] != 100)
        check(layers, "b", ramp()[:22, :26], ramp()[:22, :26] != 100)


WORLD = ("EPSG:4326", (2.0, 0.0, -180.0, 0.0, -2.0, 90.0))


@pytest.mark.parametrize(
    ("big_crs", "big", "small_crs", "small"),
    [
        (*WORLD, "EPSG:32633", (3e4, 0.0, 3e5, 0.0, -3e4, 5.6e6)),
        (*WORLD, "EPSG:27700", (1e4, 0.0, 2e5, 0.0, -1e4, 4e5)),
        (
            *("ESRI:54009", (2e5, 0.0, -1.8e7, 0.0, -2e5, 9e6)),
            *("EPSG:4326", (0.2, 0.0, 10.0, 0.0, -0.2, 50.0)),
        ),
    ],
    ids=["utm in degrees", "british in degrees", "degrees in mollweide"],
)
def test_a_small_layer_in_a_world_map(tmp_path, big_crs, big, small_crs, small):
    world = write(tmp_path / "world.tif", ramp((90, 180)), big, big_crs)
    place = write(tmp_path / "place.tif", ramp((10, 12)), small, small_crs)
    with Layers.open([place, world], align="first") as layers:
        assert layers.grid == Grid(layers.grid.crs, small, 12, 10)
        assert whole(layers).valid.all()
    with Layers.open([world, place], align="first") as layers:
        west, south, east, north = layers.grid.bounds
        to_big = pyproj.Transformer.from_crs(small_crs, big_crs, always_xy=True)
        corners = Grid(None, small, 12, 10).coordinates([0, 0, 10, 10], [0, 12, 0, 12])
        x, y = to_big.transform(*corners)
        assert west <= min(x) <= max(x) <= east
        assert south <= min(y) <= max(y) <= north
        assert layers.grid.size < 100  # of 16200: the place alone


def test_layers_that_do_not_overlap(tmp_path):
    here = write(tmp_path / "here.tif", ramp())
    near = write(tmp_path / "near.tif", ramp(), (0.5, 0.0, 5.0, 0.0, -0.5, 50.0))
    far = write(tmp_path / "far.tif", ramp(), (1e4, 0.0, 3e6, 0.0, -1e4, -2e6), "EPSG:3857")
    for odd in (near, far):
        with pytest.raises(ValueError, match=rf"{odd.name} does not overlap the layers before it"):
            Layers.open([here, odd], align="first")
        grid = Grid("EPSG:4326", DEGREES, 10, 10)
        with pytest.raises(ValueError, match=rf"{odd.name} does not overlap the grid asked for"):
            Layers.open(odd, like=grid)


def test_files_that_do_not_say_their_crs(tmp_path):
    said = write(
        tmp_path / "said.tif", ramp(), crs="EPSG:32630", transform=(1e3, 0, 5e5, 0, -1e3, 4e6)
    )
    silent = write(tmp_path / "silent.tif", ramp(), crs=None, transform=(1e3, 0, 5e5, 0, -1e3, 4e6))
    with Layers.open([silent, said]) as layers:
        assert layers.grid.crs == "EPSG:32630"
        (note,) = layers.notes
        assert note.startswith(f"{silent}: no coordinate reference system in the file; taken to be")
        assert note.endswith("that of the other layers (EPSG:32630)")
    with pytest.raises(ValueError, match=r"silent.tif is not on the grid .* is in EPSG:3857"):
        Layers.open([said, silent], crs="EPSG:3857")
    # the assumed CRS, not that of the target, is warped from
    grid = Grid("EPSG:4326", (0.02, 0.0, -2.99, 0.0, -0.02, 36.1), 12, 8)
    with Layers.open([said, silent], like=grid) as layers:
        block = whole(layers)
        assert block.valid.sum() > 50
        np.testing.assert_array_equal(block.values["said"], block.values["silent"])
    # no CRS at all: coordinates alone
    grid = Grid(None, (2e3, 0.0, 5e5, 0.0, -2e3, 4e6), WIDTH // 2, HEIGHT // 2)
    with Layers.open(silent, like=grid, resampling="average") as layers:
        assert layers.grid.crs is None
        check(
            layers,
            "silent",
            ramp().reshape(HEIGHT // 2, 2, WIDTH // 2, 2).mean((1, 3)),
            np.ones((HEIGHT // 2, WIDTH // 2), bool),
        )
    grid = Grid("EPSG:32630", *[getattr(grid, k) for k in ("transform", "width", "height")])
    with Layers.open(silent, like=grid) as layers:
        assert "that of the grid asked for (EPSG:32630)" in layers.notes[0]


# -- windows, threads, single cells --------------------------------------------------------------


@pytest.mark.parametrize("shape", [(24, 30), (1, 1), (3, 200), (200, 3), (100, 130)])
@pytest.mark.parametrize(
    "profile",
    [{"blockysize": 1}, {"blockysize": 7}, {"tiled": True, "blockxsize": 64, "blockysize": 32}],
    ids=["rows", "strips", "tiles"],
)
def test_windows_cover_every_cell_once(tmp_path, shape, profile):
    write(tmp_path / "a.tif", ramp(shape, "int32"), compress="deflate", **profile)
    with Layers.open(tmp_path) as layers:
        for cells in (20, 1000, 5000, 1 << 19) if len(layers.windows(1)) > 1000 else (1, 10, 1000):
            seen = np.zeros(shape, int)
            for block in layers.blocks(cells):
                row, column, height, width = block.window
                assert height * width <= cells
                seen[row : row + height, column : column + width] += 1
                np.testing.assert_array_equal(
                    block.values["a"],
                    ramp(shape, "int32")[row : row + height, column : column + width],
                )
            assert (seen == 1).all()


def test_windows_go_along_blocks(tmp_path):
    write(tmp_path / "a.tif", ramp((100, 130)), blockysize=1)
    write(tmp_path / "b.tif", ramp((100, 130)), tiled=True, blockxsize=64, blockysize=32)
    with Layers.open(tmp_path) as layers:
        assert {(w.row % 32, w.column) for w in layers.windows(9000)} == {(0, 0)}
    with Layers.open(tmp_path / "b.tif") as layers:
        windows = layers.windows(2 * 64 * 32)
        assert {(w.row % 32, w.column % 128) for w in windows} == {(0, 0)}
        assert max(w.width for w in windows) == 128


def test_single_cells(tmp_path, rng):
    shape = (300, 400)
    whole_a = rng.integers(0, 1000, shape).astype("int16")
    whole_b = rng.normal(size=shape).astype("float32")
    write(tmp_path / "a.tif", whole_a, nodata=5)
    write(tmp_path / "b.tif", whole_b, tiled=True, blockxsize=64, blockysize=64)
    index = rng.integers(0, whole_a.size, 3000)
    index[:50] = index[50:100]
    with Layers.open(tmp_path) as layers:
        table, known = layers.read_cells(index)
        np.testing.assert_array_equal(table["a"], whole_a.ravel()[index])
        np.testing.assert_array_equal(table["b"], whole_b.ravel()[index])
        np.testing.assert_array_equal(known, whole_a.ravel()[index] != 5)
        assert 0 < known.sum() < known.size
        table, known = layers.read_cells(np.array([], dtype=int))
        assert list(table.columns) == ["a", "b"]
        assert len(table) == known.size == 0
        for cell in (OUTSIDE, whole_a.size):
            with pytest.raises(IndexError, match=f"cell {cell} is outside the grid, 400 x 300"):
                layers.read_cells([3, cell])


def test_single_cells_of_a_huge_raster(tmp_path, rng, monkeypatch):
    place = {"driver": "GTiff", "crs": "EPSG:4326", "transform": rasterio.Affine(*DEGREES)}
    tiles = {"tiled": True, "blockxsize": 256, "blockysize": 256, "sparse_ok": True}
    shape = {"count": 1, "height": 20000, "width": 30000, "dtype": "uint8"}
    with rasterio.open(tmp_path / "a.tif", "w", **place, **tiles, **shape) as file:
        file.write(
            np.full((1, 256, 256), 7, "uint8"), window=rasterio.windows.Window(0, 0, 256, 256)
        )
    sizes = []
    read = Layers.read
    monkeypatch.setattr(
        Layers, "read", lambda self, w: sizes.append(w.height * w.width) or read(self, w)
    )
    index = np.append(rng.integers(0, 20000 * 30000, 50), [3, 30000 * 200 + 100])
    with Layers.open(tmp_path / "a.tif") as layers:
        table, _ = layers.read_cells(index)
    assert table["a"].tolist() == [0] * 50 + [7, 7]
    assert len(sizes) <= 51
    assert max(sizes) <= 1 << 16


@pytest.mark.parametrize("like", [None, TARGETS["utm"]], ids=["as it is", "warped"])
def test_threads_read_what_one_reads(tmp_path, rng, like):
    write(tmp_path / "a.tif", rng.normal(size=(3, HEIGHT, WIDTH)), compress="deflate")
    write(tmp_path / "b.tif", ramp(), nodata=4)
    with Layers.open(tmp_path, like=like, categorical=["b"]) as layers:
        windows = layers.windows(50) * 3
        serial = [layers.read(w) for w in windows]
        with ThreadPoolExecutor(4) as pool:
            threads = list(pool.map(layers.read, windows))
        for one, other in zip(serial, threads, strict=True):
            np.testing.assert_array_equal(one.valid, other.valid)
            for name in layers.names:
                np.testing.assert_array_equal(
                    one.values[name][one.valid], other.values[name][one.valid]
                )
        files = {s.file for s in layers.sources}
        assert len(files) == 2  # the bands of a file share it
        opened = [dataset for file in files for dataset in file._open]
        assert not any(dataset.closed for dataset in opened)
    assert len(opened) >= 2
    assert all(dataset.closed for dataset in opened)
    assert layers.read(windows[0]).valid.shape == serial[0].valid.shape  # opens them again
    layers.close()


# -- background ----------------------------------------------------------------------------------


@pytest.fixture
def landscape(tmp_path, rng):
    """Two layers of 40 x 50 cells, a third of them unknown, and a raster of effort."""
    shape = (40, 50)
    a, b = rng.integers(1, 1000, shape).astype("int16"), rng.normal(size=shape).astype("float32")
    a[rng.random(shape) < 0.2], b[rng.random(shape) < 0.2] = 0, np.nan
    effort = rng.integers(0, 4, shape).astype("float32")
    effort[7] = np.nan
    (tmp_path / "env").mkdir()
    write(tmp_path / "env/a.tif", a, nodata=0, blockysize=3)
    write(tmp_path / "env/b.tif", b, tiled=True, blockxsize=16, blockysize=16)
    write(tmp_path / "effort.tif", effort)
    with Layers.open(tmp_path / "env") as layers, Layers.open(tmp_path / "effort.tif") as bias:
        yield layers, bias, a.ravel(), b.ravel(), effort.ravel()


def test_all_cells(landscape):
    layers, bias, a, b, effort = landscape
    known = np.flatnonzero((a > 0) & np.isfinite(b))
    for n in (None, known.size, known.size + 1, 10**6):
        drawn = draw_background(layers, n)
        np.testing.assert_array_equal(drawn.cell, known)
        assert drawn.background.all()
        assert drawn.n_known == known.size
        assert drawn.bias is None
        np.testing.assert_array_equal(drawn.X["a"], a[known])
        np.testing.assert_array_equal(drawn.X["b"], b[known])
    drawn = draw_background(layers, None, bias=bias)
    known = known[np.isfinite(effort[known])]
    np.testing.assert_array_equal(drawn.cell, known)
    np.testing.assert_array_equal(drawn.bias, effort[known])
    drawn = draw_background(layers, None, bias=bias, weighted=True)
    assert drawn.n_known == known.size
    np.testing.assert_array_equal(drawn.cell, known[effort[known] > 0])


@pytest.mark.parametrize("weighted", [False, True])
def test_drawn_cells_with_those_asked_for(landscape, weighted):
    layers, bias, a, b, effort = landscape
    known = (a > 0) & np.isfinite(b) & np.isfinite(effort)
    at = np.array([3, 3, 1999, OUTSIDE, 700, 42, 350, 5, 1203])  # 350 to 399: effort unknown
    drawn = draw_background(layers, 100, at=at, bias=bias, weighted=weighted, seed=5)
    alone = draw_background(layers, 100, bias=bias, weighted=weighted, seed=5)
    np.testing.assert_array_equal(drawn.cell[drawn.background], alone.cell)
    assert alone.cell.size == 100
    assert known[alone.cell].all()
    assert (np.diff(drawn.cell) > 0).all()
    asked = [c for c in np.unique(at) if c >= 0 and known[c]]
    assert 350 not in asked
    assert set(drawn.cell) == set(alone.cell) | set(asked)
    assert not drawn.background.all()
    np.testing.assert_array_equal(drawn.X["a"], a[drawn.cell])
    np.testing.assert_array_equal(drawn.X["b"], b[drawn.cell])
    np.testing.assert_array_equal(drawn.bias, effort[drawn.cell])
    if weighted:
        assert (effort[alone.cell] > 0).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", [7, 60, 333])
def test_the_draw_does_not_depend_on_the_windows(landscape, monkeypatch, weighted, cells):
    layers, bias, *_ = landscape
    options = {"at": np.arange(0, 2000, 90), "bias": bias, "weighted": weighted, "seed": 8}
    expected = draw_background(layers, 30, **options)
    blocks = Layers.blocks
    monkeypatch.setattr(Layers, "blocks", lambda self: blocks(self, cells))
    drawn = draw_background(layers, 30, **options)
    np.testing.assert_array_equal(drawn.cell, expected.cell)
    np.testing.assert_array_equal(drawn.background, expected.background)
    np.testing.assert_array_equal(drawn.X, expected.X)
    np.testing.assert_array_equal(drawn.bias, expected.bias)


@pytest.mark.parametrize("n", [1, 5, 300])
def test_the_lowest_keys_are_drawn(landscape, monkeypatch, n):
    layers, bias, a, b, effort = landscape
    blocks = Layers.blocks
    monkeypatch.setattr(Layers, "blocks", lambda self: blocks(self, 60))
    known = np.flatnonzero((a > 0) & np.isfinite(b))
    searched = known[effort[known] > 0]
    for seed in range(8):
        best = known[np.argsort(_keys(known, seed, None))[:n]]
        np.testing.assert_array_equal(draw_background(layers, n, seed=seed).cell, np.sort(best))
        best = searched[np.argsort(_keys(searched, seed, effort[searched]))[:n]]
        drawn = draw_background(layers, n, bias=bias, weighted=True, seed=seed)
        np.testing.assert_array_equal(drawn.cell, np.sort(best))


def test_of_equal_keys_the_first_cells_are_drawn():
    key, cell = np.array([2.0, 1.0, 1.0, np.inf, 1.0, 0.5]), np.array([9, 5, 3, 0, 4, 8])
    assert set(cell[_lowest(key, cell, 3)]) == {8, 3, 4}
    assert set(cell[_lowest(key, cell, 10)]) == {9, 5, 3, 4, 8}


def test_seeds(landscape):
    layers, *_ = landscape
    first = [draw_background(layers, 50, seed=s).cell for s in (0, 0, 1, -1, 2**70 + 1)]
    np.testing.assert_array_equal(first[0], first[1])
    overlap = [np.isin(first[0], other).sum() for other in first[2:]]
    assert max(overlap) < 15  # 2.0 are expected of 1280 cells


def test_every_cell_is_as_likely(tmp_path):
    values = ramp((5, 6))
    write(tmp_path / "a.tif", values, nodata=7)
    seeds, n = 300, 8
    count = np.zeros(30)
    with Layers.open(tmp_path) as layers:
        for seed in range(seeds):
            cell = draw_background(layers, n, seed=seed).cell
            assert np.unique(cell).size == n
            count[cell] += 1
    assert count[7] == 0
    p = n / 29
    others = np.delete(count, 7)
    assert np.abs(others - seeds * p).max() < 4 * np.sqrt(seeds * p * (1 - p))
    # and not by being too even: the variance of hypergeometric counts
    assert 0.4 < others.var() / (seeds * p * (1 - p)) < 2


def test_the_draw_is_even_over_the_map(tmp_path):
    stats = needs("scipy.stats")
    height, width, n = 400, 500, 20000
    write(tmp_path / "a.tif", np.ones((height, width), "uint8"))
    with Layers.open(tmp_path) as layers:
        cell = draw_background(layers, n, seed=3).cell
    drawn = np.zeros((height, width))
    drawn.ravel()[cell] = 1
    blocks = drawn.reshape(20, 20, 25, 20).sum((1, 3))
    p = n / drawn.size
    statistic = ((blocks - 400 * p) ** 2).sum() / (400 * p * (1 - p))
    assert 1e-4 < stats.chi2(blocks.size - 1).sf(statistic) < 1 - 1e-4
    for neighbours in (drawn[1:] * drawn[:-1], drawn[:, 1:] * drawn[:, :-1]):
        expected = neighbours.size * p**2
        assert abs(neighbours.sum() - expected) < 4 * np.sqrt(expected)


def test_weighted_draws_are_in_proportion(tmp_path):
    weight = np.array([[1, 2, 0], [3, 4, 10]], "float32")
    write(tmp_path / "a.tif", ramp((2, 3)))
    write(tmp_path / "effort.tif", weight)
    seeds = 400
    first, second = np.zeros(6), np.zeros(6)
    with Layers.open(tmp_path / "a.tif") as layers, Layers.open(tmp_path / "effort.tif") as bias:
        for seed in range(seeds):
            one = draw_background(layers, 1, bias=bias, weighted=True, seed=seed).cell
            two = draw_background(layers, 2, bias=bias, weighted=True, seed=seed).cell
            assert one[0] in two
            first[one] += 1
            second[two] += 1
    p = weight.ravel() / weight.sum()
    # successive draws: i first, or i second after another j
    pairs = p[:, None] * p / (1 - p[:, None])
    np.fill_diagonal(pairs, 0)
    for count, share in ((first, p), (second, p + pairs.sum(0))):
        spread = np.sqrt(seeds * share * (1 - share))
        assert (np.abs(count - seeds * share) <= 4 * spread).all()


def test_keys_are_exponential_over_weight():
    stats = needs("scipy.stats")
    index = np.arange(50000)
    uniform = _keys(index, 1, None)
    assert np.unique(uniform).size == index.size
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    weight = 10.0 ** np.linspace(-300, 300, index.size)
    keys = _keys(index, 1, weight)
    assert stats.kstest(np.exp(keys + np.log(weight)), "expon").pvalue > 1e-3


def test_memory_is_constant(tmp_path):
    peaks = []
    for height in (1500, 4500):
        write(
            tmp_path / f"a{height}.tif",
            np.ones((height, 1500), "uint8"),
            compress="deflate",
            blockysize=16,
        )
        with Layers.open(tmp_path / f"a{height}.tif") as layers:
            tracemalloc.start()
            drawn = draw_background(layers, 500)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert drawn.n_known == height * 1500
    assert peaks[1] < 1.1 * peaks[0]


def test_no_background(tmp_path):
    left, right = ramp() % WIDTH < 10, ramp() % WIDTH >= 10
    write(tmp_path / "left.tif", left.astype("uint8"), nodata=0)
    write(tmp_path / "right.tif", right.astype("uint8"), nodata=0)
    write(tmp_path / "bare.tif", np.zeros((2, HEIGHT, WIDTH), "uint8"), nodata=0)
    write(tmp_path / "zero.tif", np.zeros((HEIGHT, WIDTH), "uint8"))
    write(tmp_path / "minus.tif", -ramp())
    write(tmp_path / "wide.tif", ramp((5, 5)))
    for other, message in (
        ("bare.tif", r"bare.tif, band 1: every cell is nodata, so no cell has all layers"),
        ("right.tif", "no cell has a value in all 2 layers: they cover different places"),
    ):
        files = [tmp_path / "left.tif", tmp_path / other]
        with Layers.open(files) as layers, pytest.raises(ValueError, match=message):
            draw_background(layers)
    with Layers.open(tmp_path / "left.tif") as layers:
        cases = {
            "zero.tif": r"zero.tif: the bias raster is 0 wherever the layers are known",
            "right.tif": "no cell has a value in all 2 layers",
            "minus.tif": r"minus.tif: the bias raster has negative values, down to -719; expected",
            "bare.tif": r"bare.tif, band 1: the bias raster must be one layer, got bare_1, bare_2",
            "wide.tif": r"wide.tif: the bias raster has 5 x 5 cells .*like=layers.grid",
        }
        for name, message in cases.items():
            with Layers.open(tmp_path / name) as bias, pytest.raises(ValueError, match=message):
                draw_background(layers, bias=bias, weighted=True, at=np.array([3]))
        with pytest.raises(ValueError, match="background must be at least 1 cell, got 0"):
            draw_background(layers, 0)
        with pytest.raises(ValueError, match="weighted=True needs a bias raster"):
            draw_background(layers, weighted=True)


# -- layers that begin at another meridian -------------------------------------------------------


def _earth(rng, name, folder, west, step=5.0, lost=()):
    """A layer of the whole earth that begins at ``west``; its values by longitude from 0."""
    height, width = int(180 / step), int(360 / step)
    by_longitude = rng.normal(size=(height, width)).astype(np.float32)
    for cell in lost:
        by_longitude[cell] = np.nan
    longitude = west + step * (np.arange(width) + 0.5)
    columns = np.rint((longitude % 360) / step - 0.5).astype(int)
    transform = (step, 0.0, west, 0.0, -step, 90.0)
    write(folder / f"{name}.tif", by_longitude[:, columns], transform, nodata=np.nan)
    return by_longitude


@pytest.mark.parametrize("wests", [(-180.0, 0.0), (0.0, -180.0), (-180.0, 20.0)])
def test_a_layer_of_0_to_360_beside_one_of_180_to_180(tmp_path, rng, wests):
    one = _earth(rng, "a", tmp_path, wests[0])
    other = _earth(rng, "b", tmp_path, wests[1], lost=[(3, 0), (4, 71), (5, 36)])
    with Layers.open(tmp_path) as layers:
        assert layers.grid.bounds == (wests[0], -90.0, wests[0] + 360, 90.0)  # nothing is cut
        (note,) = layers.notes
        ends = f"x {wests[1]:g} to {wests[1] + 360:g} is read as {wests[0]:g} to {wests[0] + 360:g}"
        assert f"b: {ends}" in note.replace(".tif", "")
        x, _ = layers.grid.centres(np.arange(72))
        columns = np.rint((x % 360) / 5 - 0.5).astype(int)
        block = whole(layers)
        np.testing.assert_array_equal(block.values["a"], one[:, columns])
        np.testing.assert_array_equal(block.valid, np.isfinite(other[:, columns]))
        valid = block.valid
        np.testing.assert_array_equal(block.values["b"][valid], other[:, columns][valid])
        # windows on both sides of the seam of the file, and across it
        for column, width in ((0, 20), (30, 12), (35, 1), (36, 36), (70, 2)):
            part = layers.read(Window(2, column, 5, width))
            np.testing.assert_array_equal(part.valid, valid[2:7, column : column + width])
            expected = other[2:7, columns[column : column + width]]
            np.testing.assert_array_equal(part.values["b"][part.valid], expected[part.valid])


def test_a_layer_of_the_pacific_beside_one_of_the_earth(tmp_path, rng):
    _earth(rng, "earth", tmp_path, -180.0)
    sea = rng.normal(size=(8, 10)).astype(np.float32)
    write(tmp_path / "sea.tif", sea, (5.0, 0.0, 155.0, 0.0, -5.0, 20.0))
    with Layers.open(tmp_path, align="first") as layers:
        assert layers.grid.bounds == (155.0, -20.0, 205.0, 20.0)  # not cut at the date line
        np.testing.assert_array_equal(whole(layers).values["sea"], sea)
        assert not any("resampled" in note for note in layers.notes)
    east = rng.normal(size=(8, 4)).astype(np.float32)
    other = tmp_path / "apart"
    other.mkdir()
    write(other / "east.tif", east, (5.0, 0.0, -175.0, 0.0, -5.0, 20.0))
    write(other / "same.tif", 2 * east, (5.0, 0.0, 185.0, 0.0, -5.0, 20.0))
    finer = np.repeat(np.repeat(east, 2, axis=0), 2, axis=1)
    write(other / "z_finer.tif", finer, (2.5, 0.0, 185.0, 0.0, -2.5, 20.0))
    with Layers.open(other, align="first", resampling="average") as layers:
        assert layers.grid.bounds == (-175.0, -20.0, -155.0, 20.0)
        values = whole(layers).values
        np.testing.assert_array_equal(values["same"], 2 * values["east"])
        np.testing.assert_allclose(values["z_finer"], east, rtol=1e-6)


def test_other_cells_on_the_other_side_are_refused_in_words(tmp_path, rng):
    _earth(rng, "a", tmp_path, -180.0)
    _earth(rng, "b", tmp_path, 2.5)
    with pytest.raises(ValueError, match=r"b\.tif is not on the grid of the other layers"):
        Layers.open(tmp_path)
    with pytest.raises(ValueError, match=r"b\.tif reaches around the earth .* CENTER_LONG 0"):
        Layers.open(tmp_path, align="first")


def test_records_on_both_sides_of_the_date_line(tmp_path, rng):
    from typer.testing import CliRunner

    from maxent import cli

    folder = tmp_path / "Fidschi und Samoa"
    folder.mkdir()
    values = {"heat": _earth(rng, "heat", folder, -180.0), "rain": _earth(rng, "rain", folder, 0.0)}
    longitude = np.array([172.5, 177.5, -177.5, -172.5, -167.5, 12.5, -12.5])
    latitude = np.array([-17.5, -12.5, -17.5, -12.5, -7.5, 2.5, 2.5])
    lines = [f"Aa bb,{x},{y}" for x, y in zip(longitude, latitude, strict=True)]
    (folder / "records.csv").write_text("\n".join(["species,longitude,latitude", *lines]) + "\n")
    options = ["-f", "l", "--multiplier", "0.01", "--cv", "none", "--bootstrap", "0"]
    typed = ["fit", folder / "records.csv", folder, "-o", tmp_path / "out", "--background", "all"]
    done = CliRunner().invoke(cli.main, [str(word) for word in [*typed, *options]])
    assert done.exit_code == 0, done.output
    result = load(tmp_path / "out" / "result.json")
    assert len(result.records["x"]) == 7
    # means of the records, reckoned by hand, are those of the fit
    row = ((90 - latitude) // 5).astype(int)
    column = ((longitude % 360) // 5).astype(int)
    density = result.model
    X = np.column_stack([values[name].ravel() for name in density.schema.names])
    raw = density.predict(X, "raw")
    assert raw.sum() == pytest.approx(1, abs=1e-9)
    for j, name in enumerate(density.schema.names):
        mean = float(values[name][row, column].mean())
        slack = 0.03 * float(np.ptp(X[:, j]))  # of the small penalty
        assert raw @ X[:, j] == pytest.approx(mean, abs=slack)
    with rasterio.open(tmp_path / "out" / "maps" / "cloglog.tif") as file:
        drawn = np.array([v[0] for v in file.sample(zip(longitude, latitude, strict=True))])
    cloglog = density.predict(X, "cloglog").reshape(values["heat"].shape)
    np.testing.assert_allclose(drawn, cloglog[row, column], rtol=1e-5)
