"""The server of the app: who may ask, what it may touch, and that it does what the command does."""

import base64
import hashlib
import itertools
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from app_server import TOKEN, served, typed

import maxent as mx
from maxent.app import runner
from maxent.app.draft import Draft, read_draft
from maxent.app.folders import Folders, OutsideError, fresh
from maxent.app.jobs import Jobs
from maxent.app.tiles import Tiles
from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs
from waiting import LIMIT, until

for name in ("starlette", "uvicorn", "rio_tiler"):
    needs(name)
rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("quick_jobs")
QUICK = {"features": "lq", "jackknife": False, "bootstrap": 0, "permutations": 0, "cv": "none"}


@pytest.fixture(scope="module")
def project(tmp_path_factory, sketches):
    """A folder with records, layers, a future, and a finished fit."""
    folder = tmp_path_factory.mktemp("project")
    write_landscape(virtual_landscape(height=50, width=70, n_occurrences=50, seed=6), folder)
    with served(folder) as client:
        said = client.draft(
            records={"path": "occurrences.csv"},
            layers={"sources": ["layers"], "categorical": ["biome"]},
            settings=QUICK,
            projections=["future"],
            out="first",
        )
    typed(said["command"], folder)
    return folder


@pytest.fixture
def client(project):
    with served(project) as client:
        yield client


@pytest.fixture
def empty(tmp_path):
    with served(tmp_path) as client:
        yield client


# -- who may ask ---------------------------------------------------------------------------------


def test_the_link_becomes_a_cookie(empty):
    status, headers, _ = empty.ask(f"/?token={TOKEN}&x=1", headers={"Cookie": None})
    assert status == 303
    assert headers["location"] == "/?x=1"
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    status, headers, content = empty.ask("/")
    assert status == 200
    assert b"<title>maxent</title>" in content
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert f"script-src http://127.0.0.1:{empty.port}/static/app.js;" in policy
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Cookie": None}, 403),
        ({"Cookie": "maxent-token=guess"}, 403),
        ({"Host": "evil.example"}, 421),  # a name made to point here: DNS rebinding
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/state", "/static/app.js", "/api/tile/0/0/0?file=x"])
def test_others_are_refused(empty, headers, status, path):
    given = {k: v and v.format(port=empty.port) for k, v in headers.items()}
    assert empty.ask(path, headers=given)[0] == status


def test_changes_need_the_mark_or_our_origin(empty):
    body = json.dumps({"out": "elsewhere"})
    assert empty.ask("/api/draft", "PUT", body, {"X-Maxent": None})[0] == 403
    ours = {"X-Maxent": None, "Origin": f"http://127.0.0.1:{empty.port}"}
    assert empty.ask("/api/draft", "PUT", body, ours)[0] == 200
    assert empty.ask("/api/fit", "GET")[0] == 405


def test_only_the_loopback_address(tmp_path):
    from maxent.app.serving import _listen

    listening = _listen(0)
    assert listening.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError, match="choose another with --port"):
        _listen(listening.getsockname()[1])
    listening.close()


def test_a_token_is_for_its_user_alone(tmp_path, monkeypatch):
    """Port and token are kept for the next start, readable by nobody else."""
    from maxent.app import serving

    told = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: sockets[0].close())
    for _ in range(2):
        serving.serve(Folders.opened([tmp_path]), browse=False, tell=told.append)
    assert told[0] == told[1]
    assert (tmp_path / ".maxent-app" / "server.json").stat().st_mode & 0o077 == 0


# -- what it may touch ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "link/passwd", "x\0y"])
def test_paths_stay_inside(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to("/etc")
    with pytest.raises(OutsideError):
        Folders.opened([inside]).find(name)


def test_nothing_outside_is_served(client):
    for path in ("/etc/passwd", "../x.tif", "/proc/self/environ"):
        assert client.get(f"/api/map?file={path}", 403)
        assert client.get(f"/api/files?folder={path}", 403)
        assert client.ask(f"/api/tile/0/0/0?file={path}")[0] == 403
    assert client.ask("/results/..%2f..%2fetc/passwd")[0] in (403, 404)
    said = client.ask("/results/occurrences.csv")
    assert said[0] == 403  # inside, but no file of a result
    assert client.send("/api/draft", {"records": {"path": "/etc/passwd"}}, "PUT", 403)
    assert client.send("/api/draft", {"out": "../elsewhere"}, "PUT", 403)
    assert client.send("/api/draft", {"projections": ["/etc"]}, "PUT", 403)


def test_no_path_of_the_machine_in_an_error(client, project):
    """Whatever goes wrong, the answer does not tell where the folder is."""
    client.draft(records={"path": "missing.csv"})
    client.draft(layers={"sources": ["nothing"]})
    answers = [client.get("/api/records", 404), client.get("/api/layers", 404)]
    answers += [client.get("/api/result?run=no", 404), client.get("/api/map?file=no.tif", 404)]
    for answer in answers:
        assert str(project) not in json.dumps(answer)
        assert answer["error"]


def test_uploads_are_bounded_and_harmless(tmp_path):
    with served(tmp_path, upload_limit=1000) as client:
        path = client.upload("records", "my records.csv", b"a,b\n")["path"]
        assert (tmp_path / path).read_bytes() == b"a,b\n"
        assert client.upload("records", "my records.csv", b"a,b\n")["path"] == path
        other = client.upload("records", "my records.csv", b"c,d\n")["path"]
        assert other == "uploads/records/my records-2.csv"
        assert (tmp_path / path).read_bytes() == b"a,b\n"
        path = client.upload("records", "..\\..\\evil<b>.csv", b"x")["path"]
        assert path == "uploads/records/evil_b_.csv"
        assert "neither a table" in client.upload("records", "run.py", b"x", 400)["error"]
        assert "neither a table" in client.upload("records", ".csv", b"x", 400)["error"]
        assert "1000" not in client.upload("records", "big.csv", b"x" * 1001, 413)["error"]
        assert not (tmp_path / "uploads/records/big.csv").exists()
        assert not list((tmp_path / "uploads").rglob("*.part"))


def test_folders_are_listed_by_kind(client):
    records = client.get("/api/files?folder=.&kind=records")
    assert "occurrences.csv" in [one["name"] for one in records["files"]]
    assert {one["name"]: one["rasters"] for one in records["folders"]}["layers"] == 6
    layers = client.get("/api/files?folder=layers&kind=layers")
    assert len(layers["files"]) == 6
    assert layers["above"] == "."


# -- the draft -----------------------------------------------------------------------------------


def test_choices_make_the_command(client, project):
    said = client.draft(
        records={"path": "occurrences.csv", "leave_out": ["3,5"]},
        layers={"sources": ["layers"], "categorical": ["biome"], "without": ["elevation"]},
        study={"hull": True, "buffer": 20},
        background="records",
        background_file="target_group.csv",
        settings={"multiplier": 2, "background": None},
    )
    assert said["command"].split()[:4] == ["maxent", "fit", "occurrences.csv", "layers"]
    for words in (
        *("--leave-out 3,5", "-c biome", "--without elevation", "--hull --buffer 20"),
        *("--background-records target_group.csv", "-m 2", "--background all"),
    ):
        assert words in said["command"]
    compile(said["script"], "script", "exec")
    assert read_draft(Folders.opened([project])).study == {"hull": True, "buffer": 20}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"colour": "red"}, "a draft has no 'colour'"),
        ({"records": {"color": 1}}, "records has no 'color'"),
        ({"records": 3}, "records must be fields by name"),
        ({"species": "a"}, "species must be a list"),
        ({"species": [3]}, "species must be a text"),
        ({"background": "none"}, "background must be one of"),
        ({"out": ""}, "out must be a text"),
        ({"out": "."}, "a folder of their own"),
    ],
)
def test_other_choices_are_refused(empty, given, why):
    assert why in empty.send("/api/draft", given, "PUT", 400)["error"]


@pytest.mark.parametrize("settings", [{"multiplier": -1}, {"cv": "maybe"}, {"features": "xyz"}])
def test_a_setting_that_is_none_is_told(empty, settings):
    empty.draft(records={"path": "r.csv"}, layers={"sources": ["layers"]})
    said = empty.draft(settings=settings)
    assert said["lacks"]
    assert said["command"] == ""


def test_a_file_named_like_an_option_is_a_file():
    draft = Draft.from_page({"records": {"path": "--help"}, "layers": {"sources": ["-x"]}})
    assert draft.argv()[:3] == ["fit", "./--help", "./-x"]


def test_a_damaged_draft_is_an_empty_one(tmp_path):
    (tmp_path / ".maxent-app").mkdir()
    (tmp_path / ".maxent-app" / "draft.json").write_text("{")
    assert read_draft(Folders.opened([tmp_path])) == Draft()


def test_the_script_does_the_same(client, project, tmp_path, monkeypatch):
    """The files of the printed script and of the printed command are those of the page."""
    said = client.draft(
        records={"path": "occurrences.csv"},
        layers={"sources": ["layers"], "categorical": ["biome"]},
        settings={**QUICK, "features": "l"},
        background="random",
        background_file=None,
        study={},
        projections=[],
        out="same",
    )
    job = client.send("/api/fit")
    assert client.ended(job["number"])["status"] == "done"
    (tmp_path / "script.py").write_text(said["script"].replace("Path('same')", "Path('by-script')"))
    monkeypatch.chdir(project)
    runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")
    typed(said["command"].removesuffix("same") + "by-command -q", project)
    first = mx.load(project / "same" / "result.json")
    assert first.command == said["command"]
    for other in ("by-script", "by-command"):
        names = [
            sorted(p.relative_to(project / f).as_posix() for p in (project / f).rglob("*.*"))
            for f in ("same", other)
        ]
        assert names[0] == names[1]
        models = [mx.load(project / f / "model.json").density for f in ("same", other)]
        np.testing.assert_array_equal(models[0].weights, models[1].weights)
        for name in ("maps/cloglog.tif", "tables/thresholds.csv"):
            assert (project / "same" / name).read_bytes() == (project / other / name).read_bytes()


# -- before a fit --------------------------------------------------------------------------------


def test_records_without_layers_have_a_map(empty, project, tmp_path):
    (tmp_path / "records.csv").write_bytes((project / "occurrences.csv").read_bytes())
    empty.draft(records={"path": "records.csv"})
    told = empty.get("/api/records")
    (one,) = told["species"]
    assert len(one["x"]) == 50
    assert told["grid"]["geographic"]


def test_records_left_out_are_marked(client):
    client.draft(
        records={"path": "occurrences.csv", "leave_out": ["2-4"]},
        layers={"sources": ["layers"], "categorical": ["biome"]},
    )
    (one,) = client.get("/api/records")["species"]
    fate = dict(zip(one["row"], one["fate"], strict=True))
    assert [row for row, what in fate.items() if what == "left out by hand"] == [2, 3, 4]
    assert len(fate) == 50


def test_all_records_left_out_are_marked_too(client):
    client.draft(
        records={"path": "occurrences.csv", "leave_out": ["2-51"]},
        layers={"sources": ["layers"], "categorical": ["biome"]},
    )
    (one,) = client.get("/api/records")["species"]
    assert one["counts"] == {"left out by hand": 50}


def test_a_file_that_is_no_table(empty, tmp_path):
    (tmp_path / "picture.csv").write_bytes(bytes(range(256)) * 10)
    empty.draft(records={"path": "picture.csv"})
    assert empty.get("/api/records", 400)["error"]


def test_layers_that_do_not_match_are_named(empty, project, tmp_path):
    (tmp_path / "layers").mkdir()
    for path in (project / "layers").glob("*.tif"):
        with rasterio.open(path) as raster:
            values, profile = raster.read(1), raster.profile
        if path.stem == "elevation":
            values = values[:-3]
            profile["height"] -= 3
        with rasterio.open(tmp_path / "layers" / path.name, "w", **profile) as raster:
            raster.write(values, 1)
    empty.draft(layers={"sources": ["layers"]})
    told = empty.get("/api/layers")
    assert not told["fits"]
    assert [one["name"] for one in told["layers"] if one["difference"]] == ["elevation"]
    empty.draft(layers={"sources": ["layers"], "align": "first"})
    assert empty.get("/api/layers")["fits"]


def test_a_region_is_drawn(client, project):
    with rasterio.open(project / "layers" / "elevation.tif") as raster:
        west, south, east, north = raster.bounds
    middle = (south + north) / 2
    ring = [[west, middle], [east, middle], [east, north], [west, north]]
    said = client.send("/api/region", {"rings": [ring], "crs": "EPSG:4326"})
    name = said["choices"]["study"]["polygons"]
    assert f"--region {name}" in said["command"]
    client.draft(records={"path": "occurrences.csv"})
    (one,) = client.get("/api/records")["species"]
    inside = np.array([fate == "used" for fate in one["fate"]])
    y = np.array(one["y"])
    assert (y[inside] >= middle).all()
    assert one["study"]
    assert "three corners" in client.send("/api/region", {"rings": [[[0, 0]]]}, status=400)["error"]


def north_of(project, name, middle=None):
    """A file with a box over the northern half of the layers; its lowest latitude."""
    with rasterio.open(project / "layers" / "elevation.tif") as raster:
        west, south, east, north = raster.bounds
    low = (south + north) / 2
    ring = [[west, low], [east, low], [east, north], [west, north], [west, low]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    (project / name).write_text(json.dumps(shape))
    return low, ring


def test_maps_are_drawn_where_they_were_asked_for(client, project):
    """All of the layers, the study region, or polygons: the command follows and says what lacks."""
    given = {
        "records": {"path": "occurrences.csv"},
        "layers": {"sources": ["layers"], "categorical": ["biome"]},
    }
    said = client.draft(**given, study={}, settings={"extent": "region"})
    assert "maps of the study region alone need one" in said["lacks"]
    assert said["command"] == ""
    assert said["tuning"]["lacks"] == ""  # a comparison draws no maps
    said = client.draft(study={"hull": True})
    assert "--hull --extent region" in said["command"]
    assert "extent='region'" in said["script"]
    _, ring = north_of(project, "the north.geojson")
    said = client.draft(settings={"extent": "the north.geojson", "mask": "mess"}, study={})
    assert "--mask mess --extent 'the north.geojson'" in said["command"]
    told = client.get("/api/extent")
    pyproj = needs("pyproj")
    corners = itertools.pairwise(ring)
    sides = np.concatenate([np.linspace(a, b, 400, endpoint=False) for a, b in corners])
    square_metres, _ = pyproj.Geod(ellps="WGS84").polygon_area_perimeter(*sides.T)
    shown = re.search(r"the north.geojson.*, ([\d,]+) km²", told["words"])[1]
    assert float(shown.replace(",", "")) == pytest.approx(abs(square_metres) / 1e6, rel=1e-3)
    np.testing.assert_allclose(
        np.sort(np.unique(np.concatenate(told["rings"]), axis=0), axis=0),
        np.sort(np.unique(ring, axis=0), axis=0),
    )
    points = {"type": "MultiPoint", "coordinates": ring}
    (project / "points.geojson").write_text(json.dumps(points))
    client.draft(settings={"extent": "points.geojson"})
    assert "expected polygons, got MultiPoint" in client.get("/api/extent", 400)["error"]
    client.draft(settings={"extent": "gone.geojson"})
    assert "gone.geojson" in client.get("/api/extent", 404)["error"]
    assert "gone.geojson: no such file" in client.send("/api/fit", status=404)["error"]
    client.draft(settings={})


# -- jobs ----------------------------------------------------------------------------------------


def slow(client, out):
    """A fit that takes long enough to be stopped."""
    client.draft(
        records={"path": "occurrences.csv"},
        layers={"sources": ["layers"], "categorical": ["biome"]},
        settings={"bootstrap": 100, "replicates": 30, "permutations": 100},
        study={},
        projections=[],
        background="random",
        background_file=None,
        out=out,
    )
    number = client.send("/api/fit")["number"]

    def begun():
        story = client.get(f"/api/jobs/{number}")
        assert story["status"] == "running", story
        return any(event["kind"] == "stage" for event in story["events"])

    until(begun)
    return number


def test_a_fit_outlives_its_server_and_leaves_nothing_when_stopped(project, real_jobs):
    with served(project) as client:
        before = sorted(p.name for p in project.iterdir())
        number = slow(client, "stopped")
        busy = client.send("/api/fit", status=409)
        assert "is running" in busy["error"]
        port = client.port
    with served(project, port=port) as client:
        state = client.get("/api/state")
        assert state["jobs"][0]["number"] == number
        assert state["jobs"][0]["status"] == "running"
        client.send(f"/api/jobs/{number}/stop")
        job = client.ended(number)
        assert job["status"] == "stopped"
        assert sorted(p.name for p in project.iterdir()) == before
        assert client.get("/api/state")["draft"]["choices"]["out"] == "stopped"


def test_a_fit_stopped_at_its_very_start_is_stopped(client, real_jobs):
    """Before Python has come so far as to write an exit code."""
    client.draft(records={"path": "occurrences.csv"}, layers={"sources": ["layers"]}, out="begun")
    for _ in range(3):
        number = client.send("/api/fit")["number"]
        client.send(f"/api/jobs/{number}/stop")
        assert client.ended(number)["status"] == "stopped"


def test_a_killed_fit_is_lost(client, project, real_jobs):
    number = slow(client, "killed")
    pid = int((project / ".maxent-app" / "jobs" / str(number) / "pid").read_text().split()[0])
    os.killpg(pid, 9)
    assert client.ended(number)["status"] == "lost"


def test_a_fit_that_fails_says_why(client):
    client.draft(
        records={"path": "occurrences.csv"},
        layers={"sources": ["layers"]},
        settings={**QUICK, "minimum": 1000},
        study={},
        out="failed",
    )
    job = client.ended(client.send("/api/fit")["number"])
    assert job["status"] == "failed"
    assert "at least 1000 are needed" in job["error"]


def test_results_are_never_replaced(project):
    assert fresh(project / "first") == project / "first-2"
    assert fresh(project / "nothing") == project / "nothing"


def test_an_unfinished_job_has_a_status(tmp_path):
    jobs = Jobs(Folders.opened([tmp_path]))
    folder = jobs.folder / "1"
    folder.mkdir(parents=True)
    (folder / runner.JOB).write_text(json.dumps({"argv": ["fit"], "out": "x", "started": 0.0}))
    (folder / "pid").write_text("999999999")
    assert jobs.find(1).status == "lost"
    (folder / runner.EXIT).write_text("3\n")
    assert jobs.find(1).status == "done"
    with pytest.raises(FileNotFoundError, match="no job 2"):
        jobs.find(2)


# -- results -------------------------------------------------------------------------------------


def test_a_result_as_the_page_sees_it(client, project):
    runs = {one["run"]: one for one in client.get("/api/state")["runs"]}
    assert runs["first"]["species"]
    told = client.get("/api/result?run=first")
    result = mx.load(project / "first" / "result.json")
    assert told["species"] == result.species
    assert told["evaluation"]["scores"]["auc"] == pytest.approx(result.evaluation.scores["auc"])
    assert told["layers_reachable"]
    kinds = {(one["kind"], one["of"]) for one in told["maps"]}
    assert {("cloglog", "training layers"), ("mess", "future"), ("change", "future")} <= kinds
    assert told["changes"][0]["lost_km2"] >= 0
    json.dumps(told, allow_nan=False)


def test_tiles_are_the_numbers_of_the_map(client, project):
    path = "first/maps/cloglog.tif"
    facts = client.get(f"/api/map?file={path}")
    with rasterio.open(project / path) as raster:
        expected = raster.read(1, masked=True).filled(np.nan)
    assert (facts["height"], facts["width"]) == expected.shape
    status, _, content = client.ask(f"/api/tile/{facts['zooms']}/0/0?file={path}")
    assert status == 200
    tile = np.frombuffer(content, "<f4").reshape(256, 256)
    np.testing.assert_array_equal(tile[: expected.shape[0], : expected.shape[1]], expected)
    assert np.isnan(tile[expected.shape[0] :]).all()
    beyond = client.ask(f"/api/tile/0/5/5?file={path}")[2]
    assert np.isnan(np.frombuffer(beyond, "<f4")).all()
    for zoom in (facts["zooms"] + 1, 10**9):
        assert client.ask(f"/api/tile/{zoom}/0/0?file={path}")[0] == 400


def test_pixels_lie_in_their_own_cells(tmp_path):
    """At every zoom a pixel is a cell of its own block, up to the edges; beyond is nothing."""
    height, width = 301, 705
    numbers = np.arange(height * width, dtype="f4").reshape(height, width)
    how = {"driver": "GTiff", "dtype": "float32", "crs": "EPSG:4326", "count": 1}
    how |= {"height": height, "width": width, "transform": rasterio.Affine(0.1, 0, 5, 0, -0.1, 50)}
    with rasterio.open(tmp_path / "a.tif", "w", **how) as raster:
        raster.write(numbers, 1)
    tiles = Tiles()
    deepest = tiles.facts(tmp_path / "a.tif")["zooms"]
    for zoom in range(deepest + 1):
        step = 2 ** (deepest - zoom)
        size = (-(-height // step), -(-width // step))
        for y in range(size[0] // 256 + 1):
            for x in range(size[1] // 256 + 1):
                content = tiles.tile(tmp_path / "a.tif", zoom, x, y)
                tile = np.frombuffer(content, "<f4").reshape(256, 256)
                rows, columns = np.indices(tile.shape) + np.array([y, x]).reshape(2, 1, 1) * 256
                there = (rows < size[0]) & (columns < size[1])
                np.testing.assert_array_equal(np.isfinite(tile), there)
                row, column = np.divmod(tile[there], width)
                np.testing.assert_array_equal(row // step, rows[there])
                np.testing.assert_array_equal(column // step, columns[there])
    tiles.close()


def test_any_thread_may_close_what_another_opened(project, tmp_path):
    """GDAL's settings belong to threads; a map that makes room for another must not end them."""
    source = project / "first" / "maps" / "cloglog.tif"
    paths = [shutil.copy(source, tmp_path / f"{number}.tif") for number in range(20)]
    tiles = Tiles()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for path in paths[:10]:
            one.submit(tiles.facts, path).result()
        for path in paths[10:]:
            assert other.submit(tiles.tile, path, 0, 0, 0).result()
        assert one.submit(tiles.facts, paths[0]).result()["zooms"] >= 0
    tiles.close()


def test_tiles_of_a_variable(client, project):
    told = client.ask("/api/tile/0/0/0?run=first&variable=temperature")
    with rasterio.open(project / "layers" / "temperature.tif") as raster:
        expected = raster.read(1, masked=True).filled(np.nan)
    tile = np.frombuffer(told[2], "<f4").reshape(256, 256)[: expected.shape[0], : expected.shape[1]]
    np.testing.assert_array_equal(tile, expected)
    assert client.get("/api/map?run=first&variable=altitude", 404)


@pytest.mark.parametrize("of", ["", "training layers", "future"])
def test_why_is_what_the_command_says(client, project, of):
    x, y = (mx.load(project / "first" / "result.json").records[name][0] for name in "xy")
    told = client.get(f"/api/why?run=first&of={of.replace(' ', '%20')}&x={x}&y={y}")
    layers = "future" if of == "future" else "layers"
    words = f"maxent explain first/model.json {layers} --at={x},{y} --json"
    said = json.loads(typed(words, project))[0]
    assert told["shares"] == said["shares"]
    assert told["outputs"] == said["outputs"]
    assert {one["variable"] for one in told["curves"]} == {
        one["variable"] for one in told["shares"]
    }


def test_why_without_clamping_is_what_the_map_shows(client, project):
    """In the future, beyond the ranges of the fit, where clamping matters."""
    said = client.draft(
        records={"path": "occurrences.csv", "leave_out": []},
        layers={"sources": ["layers"], "categorical": ["biome"]},
        settings={**QUICK, "clamp": False},
        study={},
        projections=["future"],
        background="random",
        background_file=None,
        out="free",
    )
    typed(said["command"], project)
    with rasterio.open(project / "free" / "projections" / "future" / "cloglog.tif") as raster:
        shown = raster.read(1, masked=True)
        density = mx.load(project / "free" / "model.json").density
        names = density.schema.continuous
        beyond = np.zeros(shown.shape, bool)
        for name, high in zip(names, density.high, strict=True):
            with rasterio.open(project / "future" / f"{name}.tif") as layer:
                beyond |= (layer.read(1, masked=True) > high).filled(False)
        row, column = np.argwhere(beyond & ~np.ma.getmaskarray(shown))[0]
        x, y = raster.xy(row, column)
    told = client.get(f"/api/why?run=free&of=future&x={x}&y={y}")
    assert any(part["outside"] for part in told["shares"])
    assert told["outputs"]["cloglog"] == pytest.approx(float(shown[row, column]), abs=1e-6)


def test_why_in_the_sea(client, project):
    with rasterio.open(project / "layers" / "temperature.tif") as raster:
        row, column = np.argwhere(raster.read_masks(1) == 0)[0]
        x, y = raster.xy(row, column)
    told = client.get(f"/api/why?run=first&x={x}&y={y}")
    assert not told["known"]
    assert "no data there" in told["said"]


def test_layers_elsewhere_are_asked_for(project):
    """A folder of results alone does not open the layers beside it."""
    with served(project / "first") as client:
        assert client.get("/api/state")["viewing"]
        told = client.get("/api/result?run=.")
        assert not told["layers_reachable"]
    with served(project / "first", project) as client:
        assert client.get("/api/result?run=.")["layers_reachable"] in (True, False)


def test_the_report_is_shown_without_our_rights(client):
    status, headers, content = client.ask("/results/first/report.html")
    assert status == 200
    policy = headers["content-security-policy"]
    assert "sandbox allow-scripts" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    scripts = re.findall(rb"<script>(.*?)</script>", content, re.DOTALL)
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert len(scripts) == 2


def test_projections_later_on(client, project):
    job = client.send("/api/project", {"run": "first", "layers": "future", "name": "later"})
    assert client.ended(job["number"])["status"] == "done"
    maps = client.get("/api/result?run=first")["maps"]
    future = next(one for one in maps if one["of"] == "later" and one["kind"] == "cloglog")
    job = client.send("/api/change", {"run": "first", "future": future["file"], "threshold": 0.4})
    assert client.ended(job["number"])["status"] == "done"
    told = client.get("/api/result?run=first")
    assert [change["scenario"] for change in told["changes"]] == ["future", "later"]
    assert client.send("/api/change", {"run": "first", "future": "x", "threshold": 2}, status=400)
    x, y = (mx.load(project / "first" / "result.json").records[name][0] for name in "xy")
    assert client.get(f"/api/why?run=first&of=later&x={x}&y={y}")["known"]


def test_later_projections_are_cut_as_asked(client, project):
    """The map holds the cells of the polygons that do not extrapolate, and no others."""
    low, _ = north_of(project, "half.geojson")
    given = {"run": "first", "layers": "future", "name": "cut", "mask": "mess"}
    job = client.send("/api/project", {**given, "extent": "half.geojson"})
    assert "--mask mess --extent half.geojson" in job["command"]
    assert client.ended(job["number"])["status"] == "done"
    maps = {
        one["kind"]: one["file"]
        for one in client.get("/api/result?run=first")["maps"]
        if one["of"] == "cut"
    }
    whole = project / "first" / "projections" / "future"
    with rasterio.open(next(whole.rglob("mess.tif"))) as raster:
        like = raster.read(1, masked=True).filled(-1) >= 0
        rows = np.arange(raster.height) + 0.5
        north = raster.transform.f + rows * raster.transform.e > low
    with rasterio.open(project / maps["cloglog"]) as raster:
        known = raster.read_masks(1) > 0
    assert known.any()
    np.testing.assert_array_equal(known, like & north[:, None])
    told = client.get("/api/result?run=first")
    assert (told["extent"], told["mask"]) == ("layers", None)
    client.send("/api/project", {**given, "extent": "gone.geojson"}, status=404)
    client.send("/api/project", {**given, "extent": "../half.geojson"}, status=403)
    client.send("/api/project", {**given, "mask": "all"}, status=400)
    job = client.send("/api/project", {**given, "extent": "region"})
    assert "fitted without a study region" in client.ended(job["number"])["error"]


def test_what_is_drawn_later_is_drawn_like_the_fit_and_says_what_is_odd(client, project):
    """A mask and ranges left open hold for later maps; layers in other units are told of."""
    said = client.draft(
        records={"path": "occurrences.csv"},
        layers={"sources": ["layers"], "categorical": ["biome"]},
        settings={**QUICK, "mask": "mess", "clamp": False},
        out="masked",
    )
    typed(said["command"], project)
    shutil.copytree(project / "future", project / "kelvin")
    with rasterio.open(project / "kelvin" / "temperature.tif", "r+") as raster:
        values = raster.read(1, masked=True)
        raster.write((values + 273.15).filled(raster.nodata), 1)
    job = client.send("/api/project", {"run": "masked", "layers": "kelvin"})
    ended = client.ended(job["number"])
    assert ended["status"] == "done"
    assert {"--mask", "mess", "--no-clamp"} <= set(ended["command"].split())
    said = [event["text"] for event in ended["events"] if event["kind"] == "note"]
    assert any(text.startswith("caution: kelvin: temperature lies outside") for text in said)
    out = project / ended["out"]
    with rasterio.open(out / "cloglog.tif") as raster, rasterio.open(out / "mess.tif") as mess:
        known, similar = (r.read(1, masked=True) for r in (raster, mess))
    assert known.mask[similar.filled(0) < 0].all()


def test_events_tell_of_changes(client):
    import http.client

    line = http.client.HTTPConnection("127.0.0.1", client.port, timeout=LIMIT)
    line.request("GET", "/api/events", headers={"Cookie": client.cookie})
    answer = line.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    seen = b""
    while b"event: runs" not in seen:
        seen += answer.readline()
    client.draft(out="told-of")
    while b"told-of" not in seen:
        seen += answer.readline()
    line.close()


def test_a_large_raster_takes_little_memory(tmp_path):
    """Of 200 million cells the server holds tiles alone."""
    path = tmp_path / "large.tif"
    profile = {"driver": "GTiff", "width": 16_000, "height": 12_500, "count": 1, "tiled": True}
    profile |= {"dtype": "float32", "sparse_ok": True, "blockxsize": 512, "blockysize": 512}
    profile |= {"nodata": -1.0, "crs": "EPSG:6933", "compress": "deflate"}
    with rasterio.open(
        path, "w", transform=rasterio.transform.from_origin(0, 0, 100, 100), **profile
    ) as raster:
        raster.write(np.ones((1, 512, 512), np.float32), window=((0, 512), (0, 512)))
        raster.build_overviews([2, 4, 8, 16, 32], rasterio.enums.Resampling.average)
    code = f"""
import sys
sys.path[:0] = {[str(place) for place in Path(__file__).parents[:2]]!r}
from app_server import served
from maxent.cli._memory import peak_memory
with served({str(tmp_path)!r}) as client:
    facts = client.get("/api/map?file=large.tif")
    for z in range(facts["zooms"] + 1):
        for x in range(4):
            assert client.ask(f"/api/tile/{{z}}/{{x}}/0?file=large.tif")[0] == 200
    print(peak_memory())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) < 1e9


def test_a_table_of_species_is_one_list(client, project):
    """Folders of many species are results, each by itself."""
    table = pd.read_csv(project / "target_group.csv")
    table.to_csv(project / "group.csv", index=False)
    said = client.draft(
        records={"path": "group.csv"},
        layers={"sources": ["layers"], "categorical": ["biome"]},
        settings=QUICK,
        study={},
        projections=[],
        background="target-group",
        background_file=None,
        out="many",
    )
    typed(said["command"], project)
    runs = [one["run"] for one in client.get("/api/state")["runs"]]
    assert sum(name.startswith("many/") for name in runs) == table.iloc[:, 0].nunique()


def test_what_lies_under_a_map(tmp_path):
    """In any CRS, null where a map may lie anywhere, and refused where the CRS names a file."""
    grid = {"transform": [1e4, 0, 0, 0, -1e4, 5e6], "width": 300, "height": 200}
    with served(tmp_path) as client:
        found = client.send("/api/world", {**grid, "definition": "+proj=laea +lat_0=50 +lon_0=10"})
        assert len(found["coast"]) > 5
        assert len(found["metres"]) == len(found["y"])
        assert client.send("/api/world", {**grid, "definition": None}) is None
        told = client.send("/api/world", {**grid, "definition": "/etc/passwd"}, status=400)
        assert "names a file" in told["error"]
        told = client.send("/api/world", {**grid, "width": 0, "definition": None}, status=400)
        assert "width" in told["error"]


def test_an_example_beside_other_files(tmp_path):
    """It is written once, and never over files of one's own."""
    with served(tmp_path) as client:
        first = client.send("/api/example")
        assert first["example"]
        assert first["lacks"] == ""
        kept = (tmp_path / "maxent-demo" / "occurrences.csv").stat().st_mtime_ns
        client.send("/api/example")
        assert (tmp_path / "maxent-demo" / "occurrences.csv").stat().st_mtime_ns == kept
        changed = client.draft(records={"path": "maxent-demo/target_group.csv"})
        assert not changed["example"]
    other = tmp_path / "other"
    (other / "maxent-demo").mkdir(parents=True)
    (other / "maxent-demo" / "thesis.txt").write_text("mine")
    with served(other) as client:
        told = client.send("/api/example", status=400)
        assert "holds other files" in told["error"]
    assert [p.name for p in (other / "maxent-demo").iterdir()] == ["thesis.txt"]


def test_the_example_has_one_folder(tmp_path):
    from typer.testing import CliRunner

    from maxent.cli.command import main

    told = CliRunner().invoke(main, ["app", "--demo", str(tmp_path / "a"), str(tmp_path / "b")])
    assert told.exit_code == 1
    assert "--demo writes its data to one folder, got 2" in told.output
    assert list(tmp_path.iterdir()) == []
