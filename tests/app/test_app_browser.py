"""The app in a real browser: from an empty page to a map that says why, and what can go wrong."""

import json
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from app_server import served, typed

import maxent as mx
from maxent.app.example import open_example
from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs, needs_node_modules
from waiting import LIMIT, until

for name in ("starlette", "uvicorn", "rio_tiler"):
    needs(name)
needs("playwright.sync_api")
rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("quick_jobs")
QUICK = {"features": "lq", "jackknife": False, "bootstrap": 0, "permutations": 0, "cv": "none"}
CORNERS = "t => { const b = t.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] }"
PRESENT = """() => {
  const tile = document.querySelector(".numbers canvas");
  const pixels = tile.getContext("2d").getImageData(0, 0, 256, 256).data;
  let n = 0;
  for (let i = 0; i < pixels.length; i += 4) n += pixels[i] === 15 && pixels[i + 3] === 255;
  return n;
}"""
DRAWN = """() => {
  let n = 0;
  for (const canvas of document.querySelectorAll(".leaflet-lines-pane canvas")) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 3; i < data.length; i += 4) n += data[i] > 0;
  }
  return n;
}"""
WAIT = LIMIT * 1000  # ms: states and events are waited for, however busy the machine is
# resolves once the maps have stood still for a while, counted in frames of the page itself
STILL = """() => new Promise((done) => {
  let last = "", same = 0;
  const look = () => {
    const maps = [...document.querySelectorAll(".map canvas")].map((canvas) => {
      const b = canvas.getBoundingClientRect();
      return [b.x, b.y, b.width];
    });
    const now = JSON.stringify([maps, document.querySelectorAll(".leaflet-zoom-anim").length]);
    same = maps.length && now === last ? same + 1 : 0;
    last = now;
    if (same > 20) done(true);
    else requestAnimationFrame(look);
  };
  look();
})"""


@pytest.fixture(scope="module")
def landscape(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    write_landscape(virtual_landscape(height=60, width=90, n_occurrences=60, seed=8), folder)
    return folder


@pytest.fixture(scope="module")
def finished(landscape, tmp_path_factory, quick_jobs, sketches):
    """A folder with a fit of everything, and another of less."""
    folder = tmp_path_factory.mktemp("finished") / "study"
    shutil.copytree(landscape, folder)
    with served(folder) as client:
        for out, settings in (
            ("whole", {**QUICK, "replicates": 3}),
            ("lines", {**QUICK, "features": "l"}),
        ):
            said = client.draft(
                records={"path": "occurrences.csv"},
                layers={"sources": ["layers"], "categorical": ["biome"]},
                projections=["future"] if out == "whole" else [],
                settings=settings,
                out=out,
            )
            if out == "whole":
                typed(said["command"], folder)
            else:
                assert client.ended(client.send("/api/fit")["number"])["status"] == "done"
    return folder


@pytest.fixture
def study(landscape, tmp_path):
    """A folder of one's own with records and layers."""
    folder = tmp_path / "study"
    shutil.copytree(landscape, folder)
    return folder


class Tab:
    """A page that notes what goes wrong in it, and every address it asks."""

    def __init__(self, browser, client, place="", **how):
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **how)
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.errors, self.asked = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(client.link)
        if place:
            self.page.goto(f"http://127.0.0.1:{client.port}/#{place}")
        self.base = f"http://127.0.0.1:{client.port}/"

    def choose(self, label, *names):
        """Go through folders to a file, or to the rasters of a folder."""
        self.page.get_by_role("button", name=label).click()
        for name in names[:-1]:
            self.page.locator("dialog").get_by_role("button", name=f"📁 {name}").click()
        last = self.page.locator("dialog li", has_text=names[-1])
        use = last.get_by_role("button", name="rasters")
        (use if label.endswith(("layers", "map")) else last.get_by_role("button")).first.click()

    def click_map(self, x=0.5, y=0.5, number=0):
        box = self.page.locator(".map").nth(number).bounding_box()
        self.page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])

    def click_land(self, folder, number=0):
        """A record's place: there are data."""
        record = mx.load(folder / "result.json").records
        with rasterio.open(folder / "maps" / "cloglog.tif") as raster:
            row, column = raster.index(record["x"][0], record["y"][0])
            shape = raster.shape
        self.page.evaluate("window.scrollTo(0, 0)")
        tile = self.page.locator(".map .numbers canvas").first  # not the canvas of the records
        tile.wait_for()
        self.page.evaluate(STILL)
        box = tile.evaluate(CORNERS)
        at = (column + 0.5) / 256 * box[2], (row + 0.5) / 256 * box[3]
        assert shape[0] <= 256
        self.page.mouse.click(box[0] + at[0], box[1] + at[1])

    def sound(self):
        """Nothing was complained of, and nobody else was asked."""
        assert not self.errors
        local = ("data:", "blob:", self.base)
        assert not [url for url in self.asked if not url.startswith(local)]


@pytest.fixture
def tab(browser):
    opened = []

    def make(client, place="", **how):
        opened.append(Tab(browser, client, place, **how))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()


def test_from_an_empty_page_to_why(study, tab, real_jobs):
    """The whole path, as someone would go it who has never typed a command."""
    with served(study) as client:
        client.draft(settings=QUICK)
        one = tab(client)
        page = one.page
        one.choose("Choose a file of records", "occurrences.csv")
        page.get_by_text("What becomes of the records").wait_for()
        one.choose("Choose a folder of layers", "layers")
        page.get_by_label("biome holds categories").check()
        page.get_by_role("row", name=re.compile("duplicates|used")).first.wait_for()
        page.locator("summary", has_text="Study region").click()
        page.get_by_label("convex hull of the records").check()
        page.get_by_label("Buffer in km").fill("100")
        page.get_by_label("Buffer in km").press("Tab")
        page.locator(".words pre", has_text="--hull --buffer 100").wait_for()
        page.get_by_label("Name of the results' folder").fill("mine")
        page.get_by_label("Name of the results' folder").press("Tab")
        page.locator(".words pre", has_text="-o mine").wait_for()
        words = page.locator(".words pre").inner_text()
        page.get_by_role("button", name="Fit", exact=True).click()
        page.get_by_role("button", name="See the result").click()
        page.locator(".map canvas").first.wait_for()
        page.evaluate(STILL)
        one.click_land(study / "mine")
        page.locator(".why table").wait_for()
        assert "suitability" in page.locator(".why").inner_text()
        assert page.locator(".why tbody tr").count() == 6
        result = mx.load(study / "mine" / "result.json")
        assert result.command == words
        assert result.study is not None
        one.sound()


def test_what_is_being_typed_stays(study, tab):
    """While another tab changes the draft."""
    with served(study) as client:
        one = tab(client)
        page = one.page
        entry = page.get_by_label("Name of the results' folder")
        entry.fill("half")
        client.draft(study={"hull": True})
        page.wait_for_function(
            """() => [...document.querySelectorAll("[name=study]:checked")]
                .some((button) => button.parentElement.textContent.includes("hull"))"""
        )
        assert entry.input_value() == "half"
        with page.expect_response("**/api/draft"):
            entry.press("Enter")
        assert client.get("/api/state")["draft"]["choices"]["out"] == "half"
        one.sound()


def test_points_are_left_out_and_brought_back(study, tab):
    with served(study) as client:
        client.draft(records={"path": "occurrences.csv"}, layers={"sources": ["layers"]})
        one = tab(client)
        page = one.page
        page.locator(".map canvas").first.wait_for()
        page.evaluate(STILL)
        page.get_by_role("button", name="leave out all in a rectangle").click()
        one.click_map(0.02, 0.02)
        one.click_map(0.98, 0.6)
        page.locator("tr", has_text="left out by hand").wait_for()
        assert "--leave-out" in page.locator(".words pre").inner_text()
        (species,) = client.get("/api/records")["species"]
        lost = [y for y, fate in zip(species["y"], species["fate"], strict=True) if "hand" in fate]
        kept = [y for y, fate in zip(species["y"], species["fate"], strict=True) if fate == "used"]
        assert min(lost) >= min(kept)
        page.get_by_role("button", name="bring all records back").click()
        page.locator("tr", has_text="left out by hand").wait_for(state="detached")
        one.sound()


def test_a_point_is_clicked_out_and_in(study, tab):
    with served(study) as client:
        client.draft(records={"path": "occurrences.csv"}, layers={"sources": ["layers"]})
        one = tab(client)
        page = one.page
        page.locator(".map .numbers canvas").first.wait_for()
        page.evaluate(STILL)
        (species,) = client.get("/api/records")["species"]
        with rasterio.open(study / "layers" / "temperature.tif") as raster:
            row, column = raster.index(species["x"][0], species["y"][0])
            east, north = ~raster.transform * (species["x"][0], species["y"][0])
        assert (int(north), int(east)) == (row, column)
        page.evaluate("window.scrollTo(0, 0)")
        box = page.locator(".map .numbers canvas").first.evaluate(CORNERS)
        place = box[0] + east / 256 * box[2], box[1] + north / 256 * box[3]
        page.mouse.click(*place)
        page.locator(".words pre", has_text="--leave-out").wait_for()
        page.locator("tr", has_text="left out by hand").wait_for()
        page.wait_for_timeout(700)  # sooner, two clicks would be a double one
        page.mouse.click(*place)
        page.locator("tr", has_text="left out by hand").wait_for(state="detached")
        one.sound()


def test_layers_that_repeat_others_are_left_out(study, tab):
    shutil.copy(study / "layers" / "elevation.tif", study / "layers" / "height.tif")
    with served(study) as client:
        one = tab(client)
        page = one.page
        one.choose("Choose a folder of layers", "layers")
        page.locator(".hint", has_text="say nearly the same").get_by_role("button").click()
        assert (
            not page.get_by_label("use height").is_checked()
            or not page.get_by_label("use elevation").is_checked()
        )
        one.choose("Choose a file of records", "occurrences.csv")
        page.locator(".words pre", has_text="--without").wait_for()
        one.sound()


def test_the_command_is_copied(finished, tab):
    with served(finished) as client:
        one = tab(client, "result=lines", permissions=["clipboard-read", "clipboard-write"])
        page = one.page
        page.get_by_role("button", name="copy command").click()
        page.get_by_text("copied").wait_for()
        copied = page.evaluate("() => navigator.clipboard.readText()")
        assert copied == mx.load(finished / "lines" / "result.json").command
        page.get_by_role("button", name="copy Python script").click()
        until(lambda: "fit_files(" in page.evaluate("() => navigator.clipboard.readText()"))
        one.sound()


def test_curves_are_read_under_the_pointer(finished, tab):
    with served(finished) as client:
        one = tab(client, "result=whole")
        page = one.page
        curve = page.locator(".curve", has_text="temperature").first
        over = curve.locator(".u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        told = curve.locator(".reading", has_text=re.compile(r"temperature [\d.-]+"))
        told.wait_for()
        assert re.search(r"suitability [01]\.?\d*", told.inner_text())


def test_a_region_is_drawn(study, tab):
    with served(study) as client:
        client.draft(records={"path": "occurrences.csv"}, layers={"sources": ["layers"]})
        one = tab(client)
        page = one.page
        page.locator(".map canvas").first.wait_for()
        page.locator("summary", has_text="Study region").click()
        page.get_by_role("button", name="draw a rectangle").click()
        page.evaluate("window.scrollTo(0, 0)")
        one.click_map(0.3, 0.3)
        one.click_map(0.7, 0.7)
        page.locator(".words pre", has_text="--region region-").wait_for()
        page.locator("tr", has_text="outside the study region").wait_for()
        one.sound()


def test_where_maps_are_drawn(study, tab):
    """All of the layers, the study region or the polygons of a file; guesses are left out."""
    with rasterio.open(study / "layers" / "elevation.tif") as raster:
        west, south, east, north = raster.bounds
    low = (south + north) / 2
    ring = [[west, low], [east, low], [east, north], [west, north], [west, low]]
    (study / "north.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    with served(study) as client:
        client.draft(
            records={"path": "occurrences.csv"},
            layers={"sources": ["layers"], "categorical": ["biome"]},
            settings=QUICK,
            out="cut",
        )
        one = tab(client)
        page, words = one.page, one.page.locator(".words pre")
        page.locator("#settings > summary").click()
        where = page.get_by_label("Where maps are drawn")
        where.select_option(label="in the study region alone")
        page.get_by_text("There is no study region yet").wait_for()
        page.get_by_text("Before a fit: maps of the study region alone need one").wait_for()
        assert page.get_by_role("button", name="Fit", exact=True).is_disabled()
        page.evaluate(STILL)
        before = page.evaluate(DRAWN)
        where.select_option(label="inside the polygons of a file")
        one.choose("Choose the polygons", "north.geojson")
        words.filter(has_text="--extent north.geojson").wait_for()
        page.get_by_text("On the map, dashed").wait_for()
        page.wait_for_function(f"() => ({DRAWN})() > {before}")
        unlike = page.get_by_label("Places unlike all that the fit has seen")
        unlike.select_option(label="left out where a variable is beyond its range")
        words.filter(has_text="--mask mess --extent north.geojson").wait_for()
        page.get_by_role("button", name="Fit", exact=True).click()
        page.get_by_role("button", name="See the result").click()
        page.locator("summary", has_text="Map this model on other layers").click()
        # further maps are cut as the first
        inside = page.locator(".chosen", has_text="Maps inside")
        inside.locator("code", has_text=re.compile(r"^north\.geojson$")).wait_for()
        with rasterio.open(study / "cut" / "maps" / "cloglog.tif") as raster:
            rows, _ = np.nonzero(raster.read_masks(1))
            assert raster.transform.f + (rows.max() + 0.5) * raster.transform.e > low
        one.sound()


def test_stop_and_go_on(study, tab, real_jobs):
    with served(study) as client:
        client.draft(
            records={"path": "occurrences.csv"},
            layers={"sources": ["layers"], "categorical": ["biome"]},
            settings={"bootstrap": 100, "replicates": 30, "permutations": 100},
        )
        one = tab(client)
        page = one.page
        page.get_by_role("button", name="Fit", exact=True).click()
        page.locator(".progress").wait_for()
        (number,) = (job["number"] for job in client.get("/api/state")["jobs"])
        until(
            lambda: any(e["kind"] == "stage" for e in client.get(f"/api/jobs/{number}")["events"])
        )
        page.reload()  # in the middle of a fit
        stop = page.get_by_role("button", name="Stop")
        stopped = page.get_by_text("Nothing was lost")
        stop.click()
        stopped.wait_for()
        assert not (study / "maxent-results").exists()
        page.get_by_role("button", name="Go on").click()
        stop.click()
        stopped.wait_for()
        assert client.get("/api/state")["jobs"][0]["command"].endswith(" --resume")
        client.draft(settings=QUICK)
        stopped.wait_for(state="hidden")  # it is of other choices
        page.get_by_role("button", name="Fit", exact=True).click()
        page.get_by_role("button", name="See the result").wait_for()
        one.sound()


def test_two_tabs_show_the_same(study, tab):
    with served(study) as client:
        first, second = tab(client), tab(client)
        first.choose("Choose a file of records", "occurrences.csv")
        second.page.locator(".chosen", has_text="occurrences.csv").wait_for()
        second.page.get_by_label("Name of the results' folder").fill("from-two")
        second.page.get_by_label("Name of the results' folder").press("Tab")
        first.page.wait_for_function(
            "() => [...document.querySelectorAll('input')].some(i => i.value === 'from-two')"
        )
        first.sound()
        second.sound()


def test_a_wrong_file_is_told(study, tab):
    with served(study) as client:
        one = tab(client)
        page = one.page
        held = page.locator("input[type=file]").first
        held.set_input_files({"name": "photo.png", "mimeType": "image/png", "buffer": b"\x89PNG"})
        page.locator(".trouble", has_text="neither a table of records nor a raster").wait_for()
        noise = bytes(np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8))
        held.set_input_files({"name": "noise.csv", "mimeType": "text/csv", "buffer": noise})
        page.locator(".trouble").last.wait_for()
        table = (study / "occurrences.csv").read_bytes()
        held.set_input_files({"name": "my own.csv", "mimeType": "text/csv", "buffer": table})
        page.locator(".chosen", has_text="uploads/records/my own.csv").wait_for()
        page.get_by_text("What becomes of the records").wait_for()


def test_surveys_and_counts_are_dropped_below_the_records(study, landscape, tab):
    from maxent.datasets import virtual_visits

    island = virtual_landscape(height=60, width=90, n_occurrences=60, seed=8)
    visits = virtual_visits(island, 60, 30, 2.0, seed=1)
    survey, counts = (path.read_bytes() for path in visits.write(study))
    with served(study) as client:
        client.draft(records={"path": "occurrences.csv"}, layers={"sources": ["layers"]})
        one = tab(client)
        page = one.page
        below = page.get_by_role("region", name="surveys and counts")
        files = [("my sites.csv", survey), ("my counts.csv", counts)]
        below.locator("input[type=file]").set_input_files(
            [{"name": name, "mimeType": "text/csv", "buffer": held} for name, held in files]
        )
        below.get_by_text("60 visits").wait_for()
        below.get_by_text("30 visits").wait_for()
        below.get_by_text("areas in ha, from column 'area_ha'").wait_for()
        page.locator(".words pre", has_text="--counts 'uploads/records/my counts.csv'").wait_for()
        below.get_by_label("what uploads/records/my sites.csv is").select_option("counts")
        below.locator(".trouble", has_text="no column of counts recognised").wait_for()
        below.get_by_label("what uploads/records/my sites.csv is").select_option("survey")
        below.locator("summary", has_text="Columns, units and weights").click()
        below.get_by_label("Area that probabilities are for").fill("0.5")
        below.get_by_label("Area that probabilities are for").press("Tab")
        page.locator(".words pre", has_text="--area 0.5").wait_for()
        for _ in files:
            below.get_by_role("button", name="remove").first.click()
        below.get_by_text("30 visits").wait_for(state="detached")
        page.wait_for_function(
            "() => !/survey|counts|area/.test(document.querySelector('.words pre').textContent)"
        )
        one.sound()


def test_layers_that_do_not_match_are_mended(study, tab):
    path = study / "layers" / "elevation.tif"
    with rasterio.open(path) as raster:
        values, profile = raster.read(1)[:-4], raster.profile
    profile["height"] -= 4
    with rasterio.open(path, "w", **profile) as raster:
        raster.write(values, 1)
    with served(study) as client:
        one = tab(client)
        page = one.page
        one.choose("Choose a folder of layers", "layers")
        page.locator(".trouble", has_text="elevation").wait_for()
        page.get_by_role("button", name="the first layer").click()
        page.get_by_text("are resampled to the first one").wait_for()
        page.locator(".words pre", has_text="choose a file of records").wait_for()


def test_no_records_left_and_a_fit_that_fails(study, tab):
    with served(study) as client:
        client.draft(
            records={"path": "occurrences.csv"},
            layers={"sources": ["layers"], "categorical": ["biome"]},
            settings={**QUICK, "minimum": 5000},
        )
        one = tab(client)
        one.page.get_by_role("button", name="Fit", exact=True).click()
        one.page.locator(".trouble", has_text="at least 5000 are needed").wait_for()
        (study / "far.csv").write_text("species,longitude,latitude\na,170.5,80.1\na,170.6,80.2\n")
        client.draft(records={"path": "far.csv"})
        one.page.locator("tr", has_text="outside the layers").wait_for()


def test_names_are_never_run(study, tab):
    """A species and a layer whose names are HTML."""
    evil = "<img src=x onerror=window.hacked=1>"
    table = pd.read_csv(study / "occurrences.csv").assign(scientificName=evil)
    table.to_csv(study / "evil.csv", index=False)
    shutil.copy(
        study / "layers" / "elevation.tif", study / "layers" / f"{evil.replace('=', '-')}.tif"
    )
    with served(study) as client:
        client.draft(
            records={"path": "evil.csv"},
            layers={"sources": ["layers"], "categorical": ["biome"]},
            settings=QUICK,
            out="evil",
        )
        one = tab(client)
        page = one.page
        page.locator("th", has_text="onerror").first.wait_for()
        page.get_by_role("button", name="Fit", exact=True).click()
        page.get_by_role("button", name="See the result").click()
        page.locator("h2", has_text="<img").wait_for()
        page.evaluate(STILL)
        one.click_land(study / "evil")
        page.locator(".why table").wait_for()
        assert page.evaluate("window.hacked") is None
        page.goto((study / "evil" / "report.html").as_uri())
        page.locator("#interactive-map canvas").first.wait_for()
        assert page.evaluate("window.hacked") is None


RUN = "document.documentElement.setAttribute('data-hacked', '1')"
HACKED = "() => document.documentElement.hasAttribute('data-hacked')"
ELEMENT = {"type": "script", "props": {"src": "/results/run/x.js"}, "key": None}
ELEMENT |= {"ref": None, "__k": None, "__": None, "__b": 0, "__e": None, "__c": None, "__v": 1}


@pytest.fixture
def strangers(tmp_path):
    """A folder of results whose texts are elements of a page, with a script beside them."""
    folder = tmp_path / "strangers" / "run"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{}")
    (folder / "x.js").write_text(RUN)
    (folder / "summary.json").write_text(json.dumps({"row": {"species": ELEMENT}}))
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{RUN}</script></svg>'
    page = f"<html xmlns='http://www.w3.org/1999/xhtml'><script>{RUN}</script></html>"
    for name in ("x.svg", "x.xml"):
        (folder / name).write_text(svg)
    for name in ("x.html", "x.xhtml"):
        (folder / name).write_text(page)
    return folder.parent


def test_a_strangers_folder_runs_nothing(strangers, tab):
    with served(strangers) as client:
        one = tab(client, "result=run")
        one.page.locator(".trouble").first.wait_for()
        assert one.page.get_by_label("Result").locator("option").all_inner_texts() == ["run · run"]
        assert one.page.locator("#app script").count() == 0
        assert not one.page.evaluate(HACKED)


@pytest.mark.parametrize("name", ["x.svg", "x.xml", "x.html", "x.xhtml"])
def test_files_of_results_run_nothing(strangers, tab, name):
    with served(strangers) as client:
        one = tab(client)
        address = f"{one.base}results/run/{name}"
        if name.endswith(("svg", "html")) and not name.endswith("xhtml"):
            one.page.goto(address)
            assert not one.page.evaluate(HACKED)
        else:  # saved, not shown
            with one.page.expect_download():
                one.page.evaluate("address => { location.href = address }", address)


def test_a_script_of_a_folder_is_none_of_the_page(strangers, tab):
    """Even if an element got into the page, its script would have the wrong address and kind."""
    with served(strangers) as client:
        one = tab(client)
        failed = """() => new Promise((done) => {
            const script = document.createElement("script");
            script.onload = () => done(false);
            script.onerror = () => done(true);
            script.src = "/results/run/x.js";
            document.body.append(script);
        })"""
        assert one.page.evaluate(failed)
        assert not one.page.evaluate(HACKED)


@pytest.mark.parametrize("place", ["runs", "notes", "folders", "version"])
def test_the_page_refuses_what_does_not_fit(strangers, tab, place):
    """Whatever the server let through."""
    with served(strangers) as client:

        def changed(route):
            told = route.fetch().json()
            if place == "runs":
                told["runs"][0]["species"] = ELEMENT
            else:
                told[place] = ELEMENT if place == "version" else [ELEMENT]
            route.fulfill(json=told)

        one = tab(client)
        one.page.route("**/api/state", changed)
        one.page.reload()
        one.page.locator(".trouble", has_text=f"answer.{place}").wait_for()
        assert not one.page.evaluate(HACKED)


def test_damaged_files_are_told_and_the_page_goes_on(study, tab):
    (study / ".maxent-app").mkdir()
    (study / ".maxent-app" / "draft.json").write_text("{")
    with served(study) as client:
        one = tab(client)
        one.page.get_by_text("draft.json is damaged").wait_for()
        one.choose("Choose a file of records", "occurrences.csv")
        one.page.get_by_text("What becomes of the records").wait_for()
        one.sound()


def test_a_stopped_server_is_told_and_found_again(study, tab):
    with served(study) as client:
        one = tab(client)
        one.page.get_by_role("button", name="Choose a file of records").wait_for()
        port = client.port
    one.page.get_by_text("The server was stopped").wait_for()
    with served(study, port=port):
        one.page.get_by_text("The server was stopped").wait_for(state="detached")
        one.choose("Choose a file of records", "occurrences.csv")
        one.page.get_by_text("What becomes of the records").wait_for()


def test_coasts_and_a_scale_under_the_map(tmp_path, tab):
    """Lines of the real world, and a bar that is as long on the ground as it says."""
    pyproj = needs("pyproj")
    profile = {"driver": "GTiff", "dtype": "float32", "count": 1, "width": 80, "height": 60}
    transform = rasterio.transform.from_origin(-10.0, 60.0, 0.25, 0.25)
    (tmp_path / "layers").mkdir()
    for name in ("a", "b"):
        path = tmp_path / "layers" / f"{name}.tif"
        with rasterio.open(path, "w", crs="EPSG:4326", transform=transform, **profile) as file:
            file.write(np.random.default_rng(0).random((60, 80), np.float32), 1)
    with served(tmp_path) as client:
        client.draft(layers={"sources": ["layers"]})
        one = tab(client)
        page = one.page
        page.locator(".numbers canvas").first.wait_for()
        page.locator("path.world.coast.line").first.wait_for(state="attached")
        page.evaluate(STILL)
        assert page.locator("path.world.borders.line").count() > 3
        assert page.locator(".degree").first.inner_text().endswith(("°", "°E", "°W", "°N"))
        tile = page.locator(".numbers canvas").first.evaluate(CORNERS)  # 256 cells of 0.25 degrees
        frame = page.locator(".map").evaluate(CORNERS)
        down = (frame[1] + frame[3] / 2 - tile[1]) / tile[3] * 256 * 0.25
        degree = tile[2] / 64  # pixels
        metres = pyproj.Geod(ellps="WGS84").inv(0, 60 - down, 1, 60 - down)[2] / degree
        said, width = page.locator(".scale").evaluate(
            "bar => [bar.textContent, parseFloat(bar.style.width)]"
        )
        assert width * metres == pytest.approx(1000 * float(said.removesuffix(" km")), rel=0.02)
        page.locator(".leaflet-control-layers").hover()
        page.get_by_label("coasts").uncheck()
        assert page.locator("path.world.coast").count() == 0
        one.sound()


def test_a_first_visit_shows_how(tmp_path, tab):
    """From nothing to data on the map in one click; Fit and See the result are the other two."""
    with served(tmp_path) as client:
        one = tab(client)
        page = one.page
        page.get_by_role("region", name="how it goes").wait_for()
        page.get_by_role("button", name="Try it with example data").click()
        page.get_by_text("The example is chosen").wait_for()
        page.locator(".map .numbers canvas").first.wait_for()
        page.locator("tr", has_text="used").first.wait_for()
        words = page.locator(".words pre").inner_text()
        assert words == (
            "maxent fit maxent-demo/occurrences.csv maxent-demo/layers -c biome "
            "--background-records maxent-demo/target_group.csv -o example-results"
        )
        assert page.get_by_role("button", name="Fit", exact=True).is_enabled()
        page.get_by_role("button", name="Put this away").click()
        page.reload()
        page.get_by_role("button", name="How it goes").click()
        page.get_by_text("The example is chosen").wait_for()
        one.sound()


@pytest.fixture
def after_a_fit(finished, tmp_path):
    """A folder of one's own whose last fit is that of the choices."""
    folder = tmp_path / "study"
    shutil.copytree(finished, folder)
    shutil.copy(folder / "occurrences.csv", folder / "others.csv")
    return folder


def test_what_is_done_is_in_sight_and_goes_with_its_file(after_a_fit, tab):
    with served(after_a_fit) as client:
        client.draft(settings={**QUICK, "features": "l"}, out="lines")
        one = tab(client)
        page = one.page
        button = page.get_by_role("button", name="See the result")
        covered = "b => { const r = b.getBoundingClientRect(); return document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2) !== b }"  # noqa: E501
        page.get_by_text("What the program assumed").wait_for()

        def in_sight():  # the page may still grow, and move the button
            page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            button.scroll_into_view_if_needed()
            return not button.evaluate(covered)

        until(in_sight)
        one.choose("Choose a file of records", "others.csv")
        page.locator(".words pre", has_text="others.csv").wait_for()
        button.wait_for(state="detached")
        assert page.get_by_text("fit is done").count() == 0
        assert page.get_by_text("What the program assumed").count() == 0
        one.sound()


def test_notes_of_another_file_do_not_stay(study, tab):
    """While the next file is read, what was said of the last one is gone."""
    lines = (study / "occurrences.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (study / "others.csv").write_text("".join(lines[:-1]), encoding="utf-8")
    with served(study) as client:
        client.draft(records={"path": "occurrences.csv"})
        one = tab(client)
        page = one.page
        page.get_by_text("60 records of 1 species").wait_for()
        held = []
        page.route("**/api/records", lambda route: held.append(route))  # is not answered
        one.choose("Choose a file of records", "others.csv")
        page.get_by_text("Reading records").wait_for()
        page.get_by_text("60 records of 1 species").wait_for(state="detached")
        until(lambda: held)
        held[0].continue_()
        page.get_by_text("59 records of 1 species").wait_for()
        one.sound()


@pytest.mark.parametrize("number", [1, 6])
def test_notes_are_open_few_or_many(study, tab, number):
    with served(study) as client:
        client.draft(records={"path": "occurrences.csv"})

        def more(route):
            told = route.fetch().json()
            told["notes"] = [f"note {i}" for i in range(number)]
            route.fulfill(json=told)

        one = tab(client)
        one.page.route("**/api/records", more)
        one.page.reload()
        one.page.get_by_text(f"note {number - 1}").wait_for()
        assert one.page.get_by_text(f"How the file was read ({number})").is_visible()


def test_a_map_without_layers_is_of_the_records(study, tab):
    """Its caption tells of them, not of cells that nobody gave."""
    with served(study) as client:
        client.draft(records={"path": "occurrences.csv"})
        one = tab(client)
        told = one.page.locator(".under")
        told.wait_for()
        assert "no layers yet; records from x" in told.inner_text()
        assert "cells" not in told.inner_text()
        table = pd.read_csv(study / "occurrences.csv")
        assert f"{table.decimalLongitude.min():.6g} to" in told.inner_text()
        one.sound()


def test_records_on_both_sides_of_the_date_line_are_side_by_side(tmp_path, tab):
    """The middle of three records lies in the middle of the map, and can be left out there."""
    (tmp_path / "fiji.csv").write_text("name,lon,lat\na,177.9,-15\na,-179.9,-17\na,-177.7,-19\n")
    with served(tmp_path) as client:
        client.draft(records={"path": "fiji.csv"})
        one = tab(client)
        told = one.page.locator(".under")
        told.wait_for()
        assert "records from x 177.9 to 182.3" in told.inner_text()
        one.page.locator(".map canvas").first.wait_for()
        one.page.evaluate(STILL)
        one.click_map()
        one.page.locator(".words pre", has_text="# choose").wait_for()
        until(lambda: client.get("/api/state")["draft"]["choices"]["records"].get("leave_out"))
        assert client.get("/api/state")["draft"]["choices"]["records"]["leave_out"] == ["3"]
        one.sound()


def test_the_command_does_not_cover_the_map_of_a_phone(finished, tab):
    with served(finished) as client:
        one = tab(client, "result=whole")
        page = one.page
        page.set_viewport_size({"width": 390, "height": 800})
        page.locator(".map canvas").first.wait_for()
        frame = page.locator(".map").first
        frame.evaluate("m => m.scrollIntoView({ block: 'end' })")
        corner = "m => { const r = m.getBoundingClientRect(); return m.contains(document.elementFromPoint(r.x + r.width / 2, r.bottom - 5)) }"  # noqa: E501
        assert frame.evaluate(corner)


@pytest.fixture(scope="module")
def several(landscape, tmp_path_factory, quick_jobs):
    """A run of three species, one of which has no record on the layers."""
    folder = tmp_path_factory.mktemp("several") / "study"
    shutil.copytree(landscape, folder)
    table = pd.read_csv(folder / "occurrences.csv")
    table["scientificName"] = np.where(np.arange(len(table)) % 2, "Aus bus", "Cus dus")
    table.loc[len(table)] = ["Nowhere rarus", -140.0, 20.0]
    table.to_csv(folder / "all.csv", index=False)
    with served(folder) as client:
        client.draft(
            records={"path": "all.csv"},
            layers={"sources": ["layers"], "categorical": ["biome"]},
            settings={**QUICK, "features": "l"},
            out="many",
        )
        assert client.ended(client.send("/api/fit")["number"])["status"] == "done"
    return folder


def test_many_species_have_colours_and_states(several, tab):
    with served(several) as client:
        one = tab(client)
        page = one.page
        page.locator(".map .numbers canvas").first.wait_for()
        page.locator(".species .dot").nth(2).wait_for()
        dots = page.locator(".species .dot").evaluate_all("all => all.map(d => d.style.background)")
        assert len(dots) == len(set(dots)) == 3
        states = page.get_by_role("group", name="species", exact=True).locator("tr")
        said = {row.locator("th").inner_text(): row.inner_text() for row in states.all()}
        assert sorted(said) == ["Aus bus", "Cus dus", "Nowhere rarus"]
        for name in ("Aus bus", "Cus dus"):
            row = json.loads(
                (several / "many" / name.replace(" ", "_") / "summary.json").read_text()
            )
            assert f"done, AUC {row['row']['auc']:.3f}" in said[name]
        assert "✗" in said["Nowhere rarus"]
        one.sound()


def test_richness_of_many_species(several, tab):
    """From a result to the run's list and maps; the colours are those of the sums."""
    with served(several) as client:
        one = tab(client, "result=many%2FAus_bus")
        page = one.page
        page.get_by_role("link", name="All species of this run").click()
        page.locator(".numbers canvas").first.wait_for()
        with rasterio.open(several / "many" / "richness_suitability.tif") as raster:
            most = float(raster.read(1, masked=True).max())
        page.locator(".legend", has_text="sum of suitabilities").wait_for()
        shown = float(page.locator(".legend .n").last.inner_text())
        assert shown == pytest.approx(max(most, 1), rel=1e-3)
        page.get_by_label("Show").select_option(label="species present · training layers")
        page.locator(".legend", has_text="species present").wait_for()
        assert "failed" in page.locator("tr", has_text="Nowhere rarus").inner_text()
        page.get_by_role("link", name="Cus dus").click()
        page.get_by_role("heading", name="Cus dus").wait_for()
        one.sound()


@pytest.mark.parametrize("place", ["", "result=whole"])
def test_a_phone_has_no_sideways_scrolling(finished, tab, place):
    with served(finished) as client:
        one = tab(client, place)
        one.page.set_viewport_size({"width": 390, "height": 800})
        one.page.locator(".map canvas").first.wait_for()
        for scheme in ("light", "dark"):
            one.page.emulate_media(color_scheme=scheme)
            wide = one.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0
        one.sound()


@pytest.mark.parametrize("place", ["", "result=whole"])
def test_everyone_can_use_it(finished, tab, place):
    """No fault that axe finds: names of controls, contrast, order of headings, landmarks."""
    axe = needs_node_modules() / "axe-core" / "axe.min.js"
    with served(finished) as client:
        one = tab(client, place, bypass_csp=True)
        page = one.page
        page.locator(".map canvas").first.wait_for()
        for summary in page.locator(".steps summary").all():
            if not summary.evaluate("s => s.parentElement.open"):
                summary.click()
        if place:
            one.click_land(finished / "whole")
            page.locator(".why table").wait_for()
        page.evaluate(STILL)
        assert not faults(page, axe)


def faults(page, axe, schemes=("light", "dark")):
    """What axe finds in the light and in the dark, with the first places of each."""
    page.add_script_tag(path=axe)
    found = []
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        found += [(scheme, one) for one in page.evaluate("() => axe.run()")["violations"]]
    return [
        (scheme, one["id"], [n["html"][:120] for n in one["nodes"][:3]]) for scheme, one in found
    ]


def check(page):
    """Usable by everyone, wide and on a phone, in the light and in the dark."""
    axe = needs_node_modules() / "axe-core" / "axe.min.js"
    for width, scheme in ((1280, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        assert not faults(page, axe, [scheme]), width
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (width, scheme)
    page.set_viewport_size({"width": 1280, "height": 900})


def test_everyone_can_use_guide_and_richness(several, tab):
    axe = needs_node_modules() / "axe-core" / "axe.min.js"
    with served(several) as client:
        one = tab(client, bypass_csp=True)
        page = one.page
        page.get_by_role("button", name="How it goes").click()
        page.get_by_role("region", name="how it goes").wait_for()
        page.locator(".map canvas").first.wait_for()
        assert not faults(page, axe)
        page.goto(f"{one.base}#richness=many")
        page.locator(".legend", has_text="sum of suitabilities").wait_for()
        assert not faults(page, axe)


def test_maps_of_a_result(finished, tab):
    """Every map is drawn; the threshold colours what lies above it."""
    with served(finished) as client:
        one = tab(client, "result=whole")
        page = one.page
        page.locator(".map canvas").first.wait_for()
        choice = page.get_by_label("Show")
        options = choice.locator("option").all_inner_texts()
        assert any("MESS" in text for text in options)
        assert any("range change" in text for text in options)
        assert any("SD of suitability" in text for text in options)
        for text in options:
            choice.select_option(label=text)
            page.locator(".legend", has_text=text.split(" · ")[0]).wait_for()
        choice.select_option(label=options[0])
        with rasterio.open(finished / "whole" / "maps" / "cloglog.tif") as raster:
            values = raster.read(1, masked=True)
        for threshold in (0.2, 0.7):
            page.get_by_label("threshold", exact=True).fill(str(threshold))
            present = int((values.filled(-1) >= np.float32(threshold)).sum())
            page.wait_for_function(f"() => ({PRESENT})() === {present}")
        one.sound()


def test_a_range_of_a_curve_is_marked_on_the_map(finished, tab):
    with served(finished) as client:
        one = tab(client, "result=whole")
        page = one.page
        page.locator(".map canvas").first.wait_for()
        curve = page.locator(".curve", has_text="temperature").locator(".u-over").first
        curve.scroll_into_view_if_needed()
        box = curve.bounding_box()
        page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 30, steps=5)
        page.mouse.up()
        page.get_by_text(re.compile("Marked on the map: temperature from")).wait_for()
        page.wait_for_function("() => document.querySelectorAll('.numbers').length === 2")
        page.get_by_role("button", name="clear").click()
        page.wait_for_function("() => document.querySelectorAll('.numbers').length === 1")
        one.sound()


def test_why_by_keyboard_and_in_the_future(finished, tab):
    with served(finished) as client:
        one = tab(client, "result=whole")
        page = one.page
        page.locator(".map canvas").first.wait_for()
        button = page.get_by_role("button", name="ask at the middle of the map")
        button.focus()
        page.keyboard.press("Enter")
        page.locator(".said").wait_for()
        label = next(t for t in page.get_by_label("Show").locator("option").all_inner_texts()
                     if t.startswith("suitability") and "future" in t)  # fmt: skip
        page.get_by_label("Show").select_option(label=label)
        page.evaluate(STILL)
        with page.expect_response(lambda answer: "/api/why" in answer.url) as told:
            one.click_land(finished / "whole")
        assert "of=future" in told.value.url
        assert told.value.json()["known"]
        one.sound()


def test_two_runs_side_by_side(finished, tab):
    with served(finished) as client:
        one = tab(client, "result=whole")
        page = one.page
        page.get_by_label("Beside it").select_option("lines")
        page.wait_for_function("() => document.querySelectorAll('.map').length === 2")
        page.locator("caption", has_text="Side by side").wait_for()
        page.evaluate(STILL)
        page.locator(".leaflet-control-zoom-in").first.click()
        page.evaluate(STILL)
        places = page.evaluate(
            """() => [...document.querySelectorAll(".map")].map(map => {
            const m = map.getBoundingClientRect();
            const t = map.querySelector(".numbers canvas").getBoundingClientRect();
            return [t.x - m.x, t.y - m.y, t.width].map(Math.round); })"""
        )
        np.testing.assert_allclose(places[0], places[1], atol=2)
        assert places[0][2] > 700  # it was enlarged
        one.sound()


def test_results_alone(finished, tab):
    """`maxent app out/` shows the result, and says what it would need to explain places."""
    with served(finished / "whole") as client:
        one = tab(client)
        one.page.locator(".map canvas").first.wait_for()
        one.page.get_by_text("The layers of this fit are not in the opened folders").wait_for()
        assert one.page.get_by_text("New run").count() == 0
        one.sound()
    assert not (finished / "whole" / ".maxent-app").exists()


def test_projections_from_the_page(finished, tab):
    with served(finished) as client:
        one = tab(client, "result=lines")
        page = one.page
        page.locator("summary", has_text="Map this model on other layers").click()
        one.choose("Choose a folder of layers to map", "future")
        page.get_by_text("project is done").wait_for()
        page.get_by_role("button", name=re.compile("what is lost, kept and gained")).click()
        page.get_by_text("change is done").wait_for()
        page.locator("caption", has_text="Range change").wait_for()
        rows = page.locator(".changes tbody tr").all_inner_texts()
        one.sound()
    # once more from the maps: with all cells, and without those that extrapolate now or then
    maps = [finished / "lines" / "maps", finished / "projections" / "lines" / "future"]
    now, then, like, alike = (
        rasterio.open(folder / f"{name}.tif").read(1, masked=True).filled(np.nan)
        for name in ("cloglog", "mess")
        for folder in maps
    )
    rules = mx.load(finished / "lines" / "result.json").evaluation.thresholds
    (cut,) = [rule["value"] for rule in rules if rule["name"].startswith("10 percentile")]
    here, there = (values >= np.float32(cut) for values in (now, then))
    known, inside = ~np.isnan(now) & ~np.isnan(then), (like >= 0) & (alike >= 0)
    n = int((known & ~inside).sum())
    assert f"without the {n:,} cells ({100 * n / known.sum():.1f} %) that extrapolate" in rows[1]
    for row, cells in zip(rows, (known, known & inside), strict=True):
        counts = [(cells & part).sum() for part in (here & ~there, here & there, ~here & there)]
        assert row.split("\t")[-3:] == [f"{count:,}" for count in counts]
        assert re.fullmatch(r"[+−][\d.]+ %", row.split("\t")[4])


def test_layers_in_other_units_are_told_of_loudly(finished, tab):
    """Also where a map is made after the fit; what is said of one result is not said of another."""
    shutil.copytree(finished / "future", finished / "kelvin")
    with rasterio.open(finished / "kelvin" / "temperature.tif", "r+") as raster:
        values = raster.read(1, masked=True)
        raster.write((values + 273.15).filled(raster.nodata), 1)
    with served(finished) as client:
        one = tab(client, "result=lines")
        page = one.page
        page.locator("summary", has_text="Map this model on other layers").click()
        one.choose("Choose a folder of layers to map", "kelvin")
        loud = page.locator(".trouble", has_text="kelvin: temperature lies outside its range")
        loud.filter(has_text="Are its units others?").wait_for()
        page.locator("p", has_text="kelvin:").get_by_role("button", name="what is lost").click()
        page.locator(".changes .within", has_text="nothing to compare").wait_for()
        page.get_by_label("Result").select_option("whole")
        loud.wait_for(state="hidden")
        one.sound()


def test_the_report_explains_places(finished, browser):
    """The page alone, from the disk: the same numbers as the command's."""
    folder = finished / "whole"
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((folder / "report.html").as_uri())
    page.locator("#interactive-map canvas").first.wait_for()
    page.locator("#interactive-map .map").scroll_into_view_if_needed()
    page.evaluate(STILL)
    record = mx.load(folder / "result.json").records
    x, y = float(record["x"][0]), float(record["y"][0])
    with rasterio.open(folder / "maps" / "cloglog.tif") as raster:
        row, column = raster.index(x, y)
        value = float(raster.read(1)[row, column])
    box = page.locator("#interactive-map canvas").first.evaluate(CORNERS)
    page.mouse.click(box[0] + (column + 0.5) / 256 * box[2], box[1] + (row + 0.5) / 256 * box[3])
    page.locator(".why table").wait_for()
    assert f"{value:.3f}" in page.locator(".why .value").inner_text()
    model = mx.species.load_model(folder)
    layers = mx.species.LayerFiles((str(finished / "layers"),), categorical=("biome",))
    with layers.open() as opened:
        told = mx.species.explain_place(model, opened, x, y)
    rows = page.locator(".why tbody tr").all_inner_texts()
    factors = {r.split("\t")[0].strip(): float(r.split("×")[1]) for r in rows}
    for part in told.shares:
        assert factors[part.variable] == pytest.approx(np.exp(part.share), rel=2e-3, abs=1e-3)
    assert not errors
    context.close()


def test_a_large_grid_has_its_picture_alone(finished, monkeypatch):
    from maxent.species.batch.job import rewrite_report
    from maxent.species.report import interactive

    monkeypatch.setattr(interactive, "NUMBERS", 100)
    text = rewrite_report(finished / "lines").read_text()
    assert "map-data" not in text
    assert "A map to be clicked is left out" in text
    assert 'class="map"' in text


@contextmanager
def page_of_the_command(browser, folder, *options):
    """What `maxent app` serves in a folder, opened by the link that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "maxent.cli", "app", *options, "--no-browse"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        page = browser.new_page()
        page.goto(re.search(r"http\S+", process.stdout.readline())[0])
        yield page
        page.close()
    finally:
        process.terminate()
        process.wait(timeout=LIMIT)
        process.stdout.close()


def test_the_command_opens_the_example(tmp_path, browser):
    """`maxent app --demo`: data in a folder of their own, everything chosen; a second time too."""
    with page_of_the_command(browser, tmp_path, "--demo") as page:
        page.get_by_text("The example is chosen").wait_for()
        fit = page.get_by_role("button", name="Fit", exact=True)
        page.locator(".words pre", has_text="maxent fit occurrences.csv layers").wait_for()
        assert fit.is_enabled()
    layer = tmp_path / "maxent-demo" / "layers" / "biome.tif"
    written = layer.stat().st_mtime_ns
    with served(*open_example(tmp_path / "maxent-demo").roots) as client:
        draft = client.get("/api/state")["draft"]
    assert draft["example"]
    assert draft["command"].startswith("maxent fit occurrences.csv layers")
    assert layer.stat().st_mtime_ns == written


def test_the_command_opens_a_page_that_draws_maps(study, browser):
    """From the command to the first button; the benchmark has the time.

    Maps under the limits of the command, which are not those of a server in a test's own process.
    """
    with page_of_the_command(browser, study) as page:
        page.get_by_role("button", name="Choose a file of records").wait_for()
        assert json.loads((study / ".maxent-app" / "server.json").read_text())["port"]
        told = page.evaluate(
            "fetch('/api/tile/0/0/0?file=layers/temperature.tif')"
            ".then(async (said) => [said.status, [...new Float32Array(await said.arrayBuffer())]])"
        )
    assert told[0] == 200
    with rasterio.open(study / "layers" / "temperature.tif") as raster:
        expected = raster.read(1, masked=True).filled(np.nan)
    tile = np.array([np.nan if v is None else v for v in told[1]]).reshape(256, 256)
    np.testing.assert_array_equal(tile[: expected.shape[0], : expected.shape[1]], expected)
