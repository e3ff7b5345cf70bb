"""Layers that are far away: addresses of GeoTIFF and Zarr, read in windows; STAC; Zarr on disk."""

import http.server
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent import species
from maxent.species.input import file_access
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.naming import Named
from maxent.species.input.layers.stac import stac_layers
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

QUICK = {"features": "lq", "bootstrap": 0, "permutations": 0, "jackknife": False, "cv": "none"}
FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
H, W, SIDE = 40, 50, 0.1
YEARS = (2000, 2001, 2002)


def _heat(year=2000, height=H, width=W):
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    return (10 + row / 4 + np.sin(column / 5) + (year - 2000)).astype(np.float32)


def _write(path, values, west=10.0, **more):
    from rasterio.transform import from_origin

    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"driver": "GTiff", "dtype": "float32", "count": 1, "nodata": -9999.0}
    about |= {"height": values.shape[0], "width": values.shape[1], "crs": "EPSG:4326"} | more
    with rasterio.open(path, "w", **about, transform=from_origin(west, 50, SIDE, SIDE)) as file:
        file.write(values, 1)


def _zarr(folder, arrays, axes):
    """A Zarr store (version 2, no compression) with the metadata in one file too."""
    meta = {".zgroup": {"zarr_format": 2}}
    for name, (values, dims, attrs) in (arrays | axes).items():
        chunks = [1 if d == "time" and len(dims) > 1 else min(n, 25)
                  for d, n in zip(dims, values.shape, strict=True)]  # fmt: skip
        meta[f"{name}/.zarray"] = {
            "zarr_format": 2, "shape": values.shape, "chunks": chunks, "dtype": values.dtype.str,
            "compressor": None, "fill_value": "NaN", "order": "C", "filters": None,
        }  # fmt: skip
        meta[f"{name}/.zattrs"] = {"_ARRAY_DIMENSIONS": dims, **attrs}
        (folder / name).mkdir(parents=True)
        for at in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, chunks, strict=True))):
            whole = np.full(chunks, np.nan, values.dtype)
            part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunks, strict=True))]
            whole[tuple(slice(0, n) for n in part.shape)] = part
            (folder / name / ".".join(map(str, at))).write_bytes(whole.tobytes())
    for file, said in meta.items():
        (folder / file).write_text(json.dumps(said))
    (folder / ".zmetadata").write_text(
        json.dumps({"metadata": meta, "zarr_consolidated_format": 1})
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Layers of three years as GeoTIFFs, as a Zarr store and in a STAC file; dated records."""
    folder = tmp_path_factory.mktemp("far")
    rng = np.random.default_rng(0)
    rows = []
    for year in YEARS:
        _write(folder / "tif" / f"heat_{year}.tif", _heat(year))
        liked = np.exp(-0.5 * (_heat(year) - 15.0) ** 2).ravel().astype(float)
        for cell in rng.choice(H * W, 60, p=liked / liked.sum()):
            row, column = divmod(cell, W)
            rows.append(("Aa bb", 10 + SIDE * (column + 0.5), 50 - SIDE * (row + 0.5), year))
    pd.DataFrame(rows, columns=["species", "longitude", "latitude", "year"]).to_csv(
        folder / "records.csv", index=False
    )
    rain = (100 + _heat(height=H, width=W) ** 2 / 10).astype(np.float32)
    _write(folder / "rain.tif", rain)
    days = np.array([(year - 2000) * 366.0 + 180 for year in YEARS])
    axes = {
        "time": (days, ["time"], {"units": "days since 2000-01-01", "calendar": "standard"}),
        "lat": (50 - SIDE * (np.arange(H) + 0.5), ["lat"], {"units": "degrees_north"}),
        "lon": (10 + SIDE * (np.arange(W) + 0.5), ["lon"], {"units": "degrees_east"}),
    }
    heat = np.stack([_heat(year) for year in YEARS])
    arrays = {"heat": (heat, ["time", "lat", "lon"], {}), "rain": (rain, ["lat", "lon"], {})}
    _zarr(folder / "climate.zarr", arrays, axes)
    return folder


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """A server that answers requests for ranges of bytes, and counts what it sends."""

    sent = 0

    def do_GET(self):
        path = self.translate_path(self.path)
        if not os.path.isfile(path):
            self.send_error(404)
            return
        with open(path, "rb") as file:
            data = file.read()
        first, last, status = 0, len(data) - 1, 200
        if wanted := self.headers.get("Range"):
            start, _, end = wanted.removeprefix("bytes=").partition("-")
            first, last, status = int(start), min(int(end or last), last), 206
        part = data[first : last + 1]
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(part)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        self.wfile.write(part)
        type(self).sent += len(part)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="module")
def server(place):
    """The address of a server of that folder."""
    handler = partial(_Ranges, directory=str(place))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()


def _stac(folder, base):
    features = [
        {
            "type": "Feature",
            "id": str(year),
            "properties": {"start_datetime": f"{year}-01-01T00:00:00Z",
                           "end_datetime": f"{year}-12-31T23:59:59Z"},
            "assets": {
                "heat": {"href": f"{base}/tif/heat_{year}.tif", "roles": ["data"],
                         "type": "image/tiff; application=geotiff; profile=cloud-optimized"},
                "preview": {"href": "x.png", "type": "image/png", "roles": ["thumbnail"]},
            },
        }
        for year in YEARS
    ]  # fmt: skip
    path = folder / f"items-{'far' if '://' in base else 'near'}.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


# -- Zarr ------------------------------------------------------------------------------------------


def test_arrays_of_a_store_are_layers_and_its_times_are_in_their_names(place):
    with Layers.open(place / "climate.zarr") as layers:
        assert set(layers.names) == {"rain", *(f"heat_{year}" for year in YEARS)}
        block = layers.read(layers.windows()[0])
        np.testing.assert_array_equal(block.values["heat_2001"], _heat(2001))
        assert any("its times became 3 layers" in note for note in layers.notes)
        with Layers.open(place / "tif") as tifs:
            assert tifs.grid.describe() == layers.grid.describe()


def test_a_fit_of_a_store_is_that_of_its_files(place):
    expected = species.fit(
        place / "records.csv", [place / "tif", place / "rain.tif"], dates="auto",
        background=1000, **QUICK,
    )  # fmt: skip
    found = species.fit(
        place / "records.csv", place / "climate.zarr", dates="auto", background=1000, **QUICK
    )
    assert found.timing.series == {"heat": 3}
    assert found.model.coef == pytest.approx(expected.model.coef, rel=1e-6)


def test_the_page_opens_no_store(place):
    with (
        file_access.limited(folders=[place]),
        pytest.raises(file_access.ReachError, match="Zarr store is a folder of files"),
    ):
        Layers.open(place / "climate.zarr")


# -- addresses -------------------------------------------------------------------------------------


def test_an_address_needs_leave(place, server, run, tmp_path):
    url = f"{server}/tif/heat_2000.tif"
    done = run("fit", place / "records.csv", url, *FAST, "-o", tmp_path / "out")
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert f"{url} is an address, and nothing is fetched from the network" in said
    assert "--network" in said
    ftp = run("fit", place / "records.csv", "ftp://a.org/x.tif", "--network", "-o", tmp_path / "o")
    assert "addresses begin with http:// or https://" in " ".join(ftp.output.split())


def test_a_layer_by_its_address_is_that_of_the_file(place, server):
    near = species.fit(place / "records.csv", place / "tif" / "heat_2000.tif", **QUICK)
    far = species.fit(place / "records.csv", f"{server}/tif/heat_2000.tif", **QUICK)
    assert far.model.coef == near.model.coef
    assert list(far.layers) == ["heat_2000"]
    assert far.layers["heat_2000"] == f"{server}/tif/heat_2000.tif"


def _serve(place, ports):
    """The same server in a process of its own."""
    handler = partial(_Ranges, directory=str(place))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        ports.put(made.server_address[1])
        made.serve_forever()


@pytest.fixture
def server_apart(place):
    """GDAL asks of a store while it holds the interpreter: a server in here would never answer."""
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    process = context.Process(target=_serve, args=(place, ports), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{ports.get(timeout=120)}"
    process.terminate()
    process.join()


def test_times_far_away(place, server_apart):
    server = server_apart
    urls = [f"{server}/tif/heat_{year}.tif" for year in YEARS]
    near = species.fit(place / "records.csv", place / "tif", dates="auto", **QUICK)
    far = species.fit(place / "records.csv", urls, dates="auto", **QUICK)
    assert far.model.coef == near.model.coef
    store = species.fit(place / "records.csv", f"{server}/climate.zarr", dates="auto", **QUICK)
    assert store.timing.series == {"heat": 3}


def test_only_the_windows_that_are_needed_are_read(place, server):
    """A large raster of which a small region is used."""
    large = np.random.default_rng(0).normal(size=(2048, 4096)).astype(np.float32)
    large[:H, 512 : 512 + W] = _heat()
    _write(place / "large.tif", large, west=10 - 512 * SIDE, tiled=True, blockxsize=256,
           blockysize=256)  # fmt: skip
    size = (place / "large.tif").stat().st_size
    before = _Ranges.sent
    with Layers.open([place / "tif" / "heat_2000.tif", f"{server}/large.tif"],
                     align="first") as layers:  # fmt: skip
        block = layers.read(layers.windows()[0])
    np.testing.assert_array_equal(block.values["large"], _heat())
    read = _Ranges.sent - before
    assert 4 * H * W < read < size / 20


def test_the_command_reads_addresses_with_leave(place, server, tmp_path):
    """In a process of its own, where formats of GDAL are left out."""
    urls = [f"{server}/tif/heat_{year}.tif" for year in YEARS]
    command = [sys.executable, "-m", "maxent", "fit", place / "records.csv", *urls, "--network",
               "--date-column", "year", *FAST, "--no-maps", "-o", tmp_path / "out"]  # fmt: skip
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    near = species.fit(place / "records.csv", place / "tif", dates="year", **QUICK)
    assert mx.load(tmp_path / "out" / "result.json").model.coef == near.model.coef
    store = [*command[:5], f"{server}/climate.zarr", *command[8:-1], tmp_path / "store"]
    done = subprocess.run([str(c) for c in store], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_not_there_is_told(server):
    with pytest.raises(OSError, match=r"lost.tif: not a raster that can be read.*404"):
        Layers.open(f"{server}/tif/lost.tif")


@pytest.mark.parametrize(
    ("text", "path", "band"),
    [
        ("a=http://h.org/x.tif", "http://h.org/x.tif", ""),
        ("a=http://h.org/x.tif:3", "http://h.org/x.tif", "3"),
        ("a=http://127.0.0.1:8000/x.tif", "http://127.0.0.1:8000/x.tif", ""),
        ("a=http://127.0.0.1:8000/x.tif:B4", "http://127.0.0.1:8000/x.tif", "B4"),
    ],
)
def test_named_layers_may_be_addresses(text, path, band):
    assert Named.from_text(text) == Named("a", path, band)


# -- STAC ------------------------------------------------------------------------------------------


def test_items_are_layers_at_their_times(place, server, run, tmp_path):
    near = species.fit(place / "records.csv", place / "tif", dates="auto", **QUICK)
    for base in (".", server):
        found = species.fit(place / "records.csv", _stac(place, base), dates="auto", **QUICK)
        assert found.timing.series == {"heat": 3}
        assert found.model.coef == near.model.coef
    done = run("fit", place / "records.csv", _stac(place, server), *FAST, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "is an address, and nothing is fetched" in " ".join(done.output.split())
    done = run("fit", place / "records.csv", _stac(place, "."), "--date-column", "auto", *FAST,
               "--no-maps", "-o", tmp_path / "out")  # fmt: skip
    assert done.exit_code == 0, done.output


def test_a_collection_leads_to_its_items(place, tmp_path):
    about = json.loads(_stac(place, "..").read_text())["features"]
    (tmp_path / "items").mkdir()
    for year in YEARS:
        _write(tmp_path / "tif" / f"heat_{year}.tif", _heat(year))
    links = [{"rel": "license", "href": "x"}]
    for item in about:
        (tmp_path / "items" / f"{item['id']}.json").write_text(json.dumps(item))
        links.append({"rel": "item", "href": f"./items/{item['id']}.json"})
    (tmp_path / "c.json").write_text(json.dumps({"type": "Collection", "links": links}))
    found = stac_layers(tmp_path / "c.json")
    assert [one.name for one in found] == [f"heat_{year}" for year in YEARS]
    with Layers.open([tmp_path / "c.json"]) as layers:
        assert layers.names == tuple(f"heat_{year}" for year in YEARS)


def test_bands_of_an_asset_are_layers(tmp_path):
    asset = {"href": "b.tif", "type": "image/tiff", "eo:bands": [{"name": "red"}, {}]}
    item = {"type": "Feature", "properties": {"datetime": None}, "assets": {"b": asset}}
    (tmp_path / "i.json").write_text(json.dumps(item))
    assert [(one.name, one.band) for one in stac_layers(tmp_path / "i.json")] == [
        ("b_red", "1"), ("b_2", "2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{", "not JSON that can be read"),
        ([], "expected a STAC item or collection, got list"),
        ({"type": "Point"}, "expected a STAC item, ItemCollection or Collection"),
        ({"type": "Feature", "assets": {}}, "no asset that is a raster"),
        ({"type": "Catalog", "links": []}, "without items of its own"),
        ({"type": "Feature", "properties": {"datetime": "soon"},
          "assets": {"a": {"href": "a.tif"}}}, "'soon' is no datetime"),
        ({"type": "FeatureCollection", "features": [
            {"properties": {"datetime": "2020-01-01"}, "assets": {"a": {"href": "a.tif"}}},
            {"properties": {"datetime": "2020-01-01"}, "assets": {"a": {"href": "b.tif"}}},
        ]}, "is there twice, .*a.tif and .*b.tif: tiles of one time"),
    ],
)  # fmt: skip
def test_other_json_is_refused(tmp_path, value, why):
    (tmp_path / "x.json").write_text(value if isinstance(value, str) else json.dumps(value))
    with pytest.raises(ValueError, match=why):
        stac_layers(tmp_path / "x.json")
