"""Files that lead elsewhere: nothing outside is read and nobody is asked, unless it is allowed."""

import base64
import http.server
import json
import os
import struct
import subprocess
import sys
import threading
import zlib
from contextlib import suppress

import numpy as np
import pytest

from maxent.species.input.crs import check_crs, parsed_crs
from maxent.species.input.file_access import Reach, ReachError, current, limited, open_raster
from maxent.species.input.hdf5_links import names_others
from maxent.species.input.layers.layers import Layers
from maxent.species.input.records.occurrences import read_occurrences
from tools import needs

rasterio = needs("rasterio")
needs("geopandas")

VRT = """<VRTDataset rasterXSize="4" rasterYSize="4"><GeoTransform>0,1,0,4,0,-1</GeoTransform>
<VRTRasterBand dataType="Byte" band="1">{source}</VRTRasterBand></VRTDataset>"""
SIMPLE = (
    "<SimpleSource><SourceFilename>{0}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>"
)
RAW = """<VRTDataset rasterXSize="4" rasterYSize="4"><GeoTransform>0,1,0,4,0,-1</GeoTransform>
<VRTRasterBand dataType="Byte" band="1" subClass="VRTRawRasterBand"><SourceFilename>{0}
</SourceFilename><ImageOffset>0</ImageOffset><PixelOffset>1</PixelOffset><LineOffset>4</LineOffset>
</VRTRasterBand></VRTDataset>"""
WMS = """<GDAL_WMS><Service name="TMS"><ServerUrl>{0}/${{z}}/${{x}}/${{y}}.png</ServerUrl></Service>
<DataWindow><UpperLeftX>-10</UpperLeftX><UpperLeftY>10</UpperLeftY><LowerRightX>10</LowerRightX>
<LowerRightY>-10</LowerRightY><TileLevel>1</TileLevel><YOrigin>top</YOrigin></DataWindow>
<Projection>EPSG:4326</Projection><BandsCount>1</BandsCount></GDAL_WMS>"""
OGR = """<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>{0}</SrcDataSource></OGRVRTLayer>
</OGRVRTDataSource>"""


def raster(path, value=1, **more):
    profile = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "uint8"}
    profile |= {"transform": rasterio.transform.from_origin(0, 4, 1, 1), "crs": "EPSG:4326"}
    with rasterio.open(path, "w", **{**profile, **more}) as file:
        file.write(np.full((4, 4), value, np.uint8), 1)
    return path


@pytest.fixture
def folders(tmp_path):
    """A folder that is opened, and one beside it."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    raster(outside / "secret.tif", 77)
    raster(inside / "a.tif", 1)
    return inside, outside


@pytest.fixture
def asked():
    """The addresses that were asked for, after the server's own."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *words):
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


def test_limits_are_those_of_the_innermost(tmp_path):
    assert current() is None
    with limited(folders=[tmp_path]):
        assert current() == Reach(folders=(os.path.realpath(tmp_path),))
        with limited(vrt=True), limited(network=True):
            assert current() == Reach(True, True, (os.path.realpath(tmp_path),))
        assert not current().vrt
    assert current() is None
    assert "GDAL_HTTP_PROXY" not in os.environ


@pytest.mark.parametrize("name", ["m.vrt", "m.tif"])
def test_a_mosaic_is_refused_and_the_flag_named(folders, name):
    inside, outside = folders
    path = inside / name
    path.write_text(VRT.format(source=SIMPLE.format(outside / "secret.tif")))
    with limited(), pytest.raises(ReachError, match="--allow-vrt"):
        Layers.open(path)
    with limited(vrt=True), Layers.open(path) as layers:
        assert layers.read_cells(np.array([0]))[0].iloc[0, 0] == 77
    with Layers.open(path) as layers:  # in Python the caller decides
        assert layers.read_cells(np.array([0]))[0].iloc[0, 0] == 77


def test_bytes_of_any_file_are_no_raster(folders):
    inside, outside = folders
    (outside / "notes.txt").write_text("sixteen letters.")
    (inside / "m.tif").write_text(RAW.format(outside / "notes.txt"))
    with limited(), pytest.raises(ReachError):
        open_raster(inside / "m.tif")


@pytest.mark.parametrize("beside", ["a.tif.ovr", "a.tif.msk", "a.ovr", "a.msk"])
def test_masks_and_overviews_are_rasters_themselves(folders, beside):
    inside, outside = folders
    (inside / beside).write_text(VRT.format(source=SIMPLE.format(outside / "secret.tif")))
    with limited(), pytest.raises(ReachError, match="GeoTIFF"):
        open_raster(inside / "a.tif")


@pytest.mark.parametrize("within", [True, False])
def test_overviews_in_other_files(folders, within):
    """By the file beside a raster, or by its own tags."""
    inside, outside = folders
    if within:
        with rasterio.open(inside / "a.tif", "r+") as file:
            file.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(outside / "secret.tif"))
    else:
        (inside / "a.tif.aux.xml").write_text(
            '<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">'
            f"{outside / 'secret.tif'}</MDI></Metadata></PAMDataset>"
        )
    with limited(), pytest.raises(ReachError):
        open_raster(inside / "a.tif")


def test_links_lead_nowhere(folders):
    inside, outside = folders
    (inside / "b.tif").symlink_to(outside / "secret.tif")
    (inside / "c.asc").write_text("ncols 1\nnrows 1\nxllcorner 0\nyllcorner 0\ncellsize 1\n1\n")
    (outside / "c.prj").write_text("GEOGCS")
    (inside / "c.prj").symlink_to(outside / "c.prj")
    (outside / "r.csv").write_text("species,x,y\na,1,2\n")
    (inside / "r.csv").symlink_to(outside / "r.csv")
    with limited(folders=[inside]):
        for name in ("b.tif", "c.asc"):
            with pytest.raises(ReachError, match="leads out"):
                open_raster(inside / name)
        with pytest.raises(ReachError, match="leads out"):
            read_occurrences(inside / "r.csv")
        with open_raster(inside / "a.tif") as file:
            assert file.read(1)[0, 0] == 1
    with limited(), open_raster(inside / "b.tif") as file:  # a link of one's own
        assert file.read(1)[0, 0] == 77


def test_nobody_is_asked(folders, asked):
    inside, _ = folders
    address, seen = asked
    (inside / "curl.tif").write_text(VRT.format(source=SIMPLE.format(f"/vsicurl/{address}/y.tif")))
    (inside / "wms.tif").write_text(WMS.format(address))
    for name in ("o.json", "o.geojson", "o.gpkg", "o.shp"):
        (inside / name).write_text(OGR.format(f"/vsicurl/{address}/z.geojson"))
    linked = {"type": "link", "properties": {"href": f"{address}/crs", "url": f"{address}/crs"}}
    point = {"type": "Point", "coordinates": [1, 2]}
    point = {"type": "Feature", "properties": {"species": "a"}, "geometry": point}
    (inside / "link.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "crs": linked, "features": [point]})
    )
    with limited():
        for name in ("curl.tif", "wms.tif"):
            with pytest.raises(ReachError):
                Layers.open(inside / name)
        for name in ("o.json", "o.geojson", "o.gpkg", "o.shp"):
            with pytest.raises(ReachError):
                read_occurrences(inside / name)
        read_occurrences(inside / "link.geojson")
        for check in (check_crs, parsed_crs):
            with pytest.raises(ReachError, match="--network"):
                check(f"{address}/crs")
    with limited(vrt=True), suppress(OSError):  # mosaics, but no network
        Layers.open(inside / "curl.tif").read_cells(np.array([0]))
    assert not seen


@pytest.mark.parametrize(
    "text", ["/etc/hosts", "./a.prj", "+init=/tmp/x:1", "+proj=longlat +nadgrids=/tmp/x.gsb"]
)
def test_a_crs_of_the_page_names_no_file(tmp_path, text):
    with limited(folders=[tmp_path]), pytest.raises(ReachError, match="names a file"):
        parsed_crs(text)


def test_formats_that_hold_their_data_are_read(folders):
    inside, _ = folders
    raster(inside / "a.img", 5, driver="HFA")
    (inside / "a.asc").write_text("ncols 1\nnrows 1\nxllcorner 0\nyllcorner 0\ncellsize 1\n5\n")
    with limited(folders=[inside]):
        for name in ("a.img", "a.asc"):
            with open_raster(inside / name) as file:
                assert file.read(1)[0, 0] == 5


# -- netCDF ----------------------------------------------------------------------------------------

# whole files of HDF5's own library, packed: their values are those of /etc/passwd or /tmp/other.nc
HDF5 = {
    "external data, old": (
        "c-rgqaB<`1lHy_j0S*oZ76t(ZWbhvfHn5`dVe$!3nh{EOK<O1sFmXn(oCH){5NbZUx{x4OSCH!eXaHtU1`CA"
        "dU>F4>5qP*d27u@YC?A$ePcWgXD?>|<9u(Tk$iN0MixI}xfY3}30XC>QX!6A1GXq`92z4(bQVM1T(jYz)6T~"
        "2Ppt+1tHJ}`0fFr%b@(~A=#morHDH3QZ185o#5@_KZz=EnyKeZ%TzaX)=xI6{S5BBqS0r?B&9|h*oG))cw0F"
        "0PAv;"
    ),
    "external data": (
        "c-rgqaB<`1lHy|K;9!7(|4{Iq5yCfsiZ9I(_4W5~31VWXU=l)B2m@S93_vYxJPbgJv1~KUJP!t{fwmI0J76a"
        "OEnrk(U|?cmWMqTNu|R2bJ~IykqW}ZQO(4L*zzTFFGZ(uC&;+n3Bg1~EM>)`JlYr73K;JSm!h8u6WvF2oQ1H"
        "W{`lE-dV*s*Cp&ntl&xop4KeZ%TzaX)=xI6{S2LKKsHOK"
    ),
    "external link, old": (
        "c-rgqaB<`1lHy_j0S*oZ76t(ZWbhvfDwt9EF!=;1%?PDCp!5nRm^ceqP68?}05x9$YF-3XJS51~71?}rdq%;"
        "?1|F`C0m$iv14^G@LRAM#hXGWwmkFM7v8PNfpi3B$)Uz=tK-|IMz*r{4z@T4}TcDp`l95`ZmzT_-Uj|bL0EK"
        "NnwE"
    ),
    "external link": (
        "c-rgqaB<`1lHy|K;9!7(|4^_Q$~S=0Q$xeL{XJZQm>4RUgpd`&02dPjBLf4QBm)B@hXZ37P>p^`Zh?M&Nk(d"
        "sUS2YTei;LUH3KE!f17JO07F|Q(f"
    ),
    "virtual dataset": (
        "c-rgqaB<`1lHy|K;9!7(|4_gn0pS}!#T`34+5J6Sf|wX8n1qlO!T=W&10w?i8xI4JVl3MXGtYy8YM`w|?GD%"
        "piY{V*vXC(YBclof0}~S?BO6pL3zSCZGxIPo3NV1&2m%}otUy;Yb93+kRWLI^Ljf$ehG9s7@*VL}45MHajDk"
        "@x3Pu4jz}?y32VB_+AXR)o;0;p%6VNZoEzr*|$w)2I%S&b`V_-&-0|6#b%?c7@VuI>p1lPPEnuQ_9V9Fd6dn"
        "fRZhW#iQ1*2dTjDk@x3P!;w7zLwX6pVsVKra9QHGnl%"
    ),
}
HEAD = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0" + bytes(48)
PLAIN = HEAD + bytes(64) + b"HEAP\0\0\0\0" + struct.pack("<QQ", 4096, 128) + b"\x01\x08\x40\x01v"


@pytest.mark.parametrize("name", HDF5)
def test_hdf5_that_takes_values_from_elsewhere(tmp_path, name):
    path = tmp_path / "a.nc"
    path.write_bytes(zlib.decompress(base64.b85decode(HDF5[name])))
    assert names_others(path)
    with limited(), pytest.raises(ReachError, match="--allow-vrt"):
        open_raster(path)


@pytest.mark.parametrize("content", [PLAIN, b"CDF\x01", b"", b"\x89HDF"], ids=range(4))
def test_hdf5_that_holds_its_values(tmp_path, content):
    (tmp_path / "a.nc").write_bytes(content)
    assert not names_others(tmp_path / "a.nc")


# -- the command ----------------------------------------------------------------------------------


def test_a_process_of_our_own_does_without_the_formats(folders):
    """GDAL itself, once loaded by the command, does not know them."""
    code = """
import maxent.species.input.file_access as reach
reach.own_process()
with reach.limited():
    import pyogrio, rasterio
    with rasterio.Env() as env:
        known = set(env.drivers()) | set(pyogrio.list_drivers())
assert not known & {"VRT", "WMS", "HTTP", "OGR_VRT", "WFS", "GTI"}, known
assert {"GTiff", "AAIGrid", "netCDF", "GPKG", "GeoJSON", "ESRI Shapefile"} <= known, known
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_names_its_flag(folders, tmp_path):
    inside, outside = folders
    (inside / "m.vrt").write_text(VRT.format(source=SIMPLE.format(outside / "secret.tif")))
    (tmp_path / "r.csv").write_text("species,x,y\n" + "a,1,1\na,2,2\na,3,3\n")
    words = [
        sys.executable,
        "-m",
        "maxent",
        "check",
        str(tmp_path / "r.csv"),
        str(inside / "m.vrt"),
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "--allow-vrt" in done.stderr
    done = subprocess.run([*words, "--allow-vrt"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
