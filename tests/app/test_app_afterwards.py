"""What the page makes of results: scores on other records, overlap of two, sites to visit."""

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from app_server import served, typed
from pyproj import Geod
from test_app_browser import Tab, check

from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs

for name in ("starlette", "uvicorn", "rio_tiler"):
    needs(name)
needs("playwright.sync_api")
rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("quick_jobs")
QUICK = {"jackknife": False, "bootstrap": 0, "permutations": 0, "cv": "none", "background": 400}


def run(client, address, **given):
    job = client.ended(client.send(address, given)["number"])
    assert job["status"] == "done", job
    return job


@pytest.fixture(scope="module")
def project(tmp_path_factory, sketches):
    """Two fits, and a file of presences and absences."""
    folder = tmp_path_factory.mktemp("afterwards") / "my study"
    write_landscape(virtual_landscape(height=40, width=50, n_occurrences=60, seed=8), folder)
    with served(folder) as client:
        for out, features in (("one", "lq"), ("two", "l")):
            said = client.draft(
                records={"path": "occurrences.csv"},
                layers={"sources": ["layers"], "categorical": ["biome"]},
                settings={**QUICK, "features": features},
                out=out,
            )
            typed(said["command"], folder)
    with rasterio.open(folder / "one" / "maps" / "cloglog.tif") as raster:
        rows, columns = np.nonzero(raster.read_masks(1))
        few = np.random.default_rng(1).choice(rows.size, 80, replace=False)
        x, y = raster.xy(rows[few], columns[few])
        seen = (raster.read(1)[rows[few], columns[few]] > 0.4).astype(int)
    table = pd.DataFrame({"x": x, "y": y, "seen": seen, "species": "Arbor fictus"})
    table.to_csv(folder / "surveyed places.csv", index=False)
    return folder


@pytest.fixture
def client(project):
    with served(project) as client:
        yield client


def test_scores_on_presences_and_absences(client, project):
    """AUC by counting pairs, of the map's own values."""
    job = run(client, "/api/evaluate", run="one", records="surveyed places.csv", presence="seen")
    assert job["command"] == (
        "maxent evaluate one/model.json 'surveyed places.csv' layers --presence-column seen "
        "-o 'evaluations/one/surveyed places/scores.csv'"
    )
    (told,) = client.get("/api/afterwards?run=one")["evaluations"]
    table = pd.read_csv(project / "surveyed places.csv")
    with rasterio.open(project / "one" / "maps" / "cloglog.tif") as raster:
        value = np.array([v[0] for v in raster.sample(zip(table.x, table.y, strict=True))])
    here, there = value[table.seen == 1], value[table.seen == 0]
    wins = (here[:, None] > there).mean() + 0.5 * (here[:, None] == there).mean()
    assert told["scores"]["auc"] == pytest.approx(wins, abs=1e-6)
    assert told["scores"]["n_absences"] == len(there)
    assert sum(part["n"] for part in told["calibration"]) == len(table)
    assert client.ask(f"/results/{told['file'].replace(' ', '%20')}")[0] == 200


def test_scores_against_the_background(client):
    run(client, "/api/evaluate", run="one", records="occurrences.csv")
    told = client.get("/api/afterwards?run=one")["evaluations"]
    (mine,) = [one for one in told if one["name"] == "occurrences"]
    assert "boyce" in mine["scores"]
    assert mine["calibration"] == []


@pytest.mark.parametrize(
    ("address", "given", "status"),
    [
        ("/api/evaluate", {"run": "one", "records": "nothing.csv"}, 404),
        ("/api/evaluate", {"run": "one", "records": "../secret.csv"}, 403),
        ("/api/evaluate", {"run": "layers", "records": "occurrences.csv"}, 404),
        ("/api/overlap", {"one": "one", "other": "layers"}, 404),
        ("/api/overlap", {"one": "one", "other": "two", "test": "both"}, 400),
        ("/api/sites", {"run": "one", "count": 0}, 400),
        ("/api/sites", {"run": "one", "visited": "/etc/passwd"}, 403),
    ],
)
def test_what_cannot_be_done_is_refused(client, project, address, given, status):
    before = sorted(project.rglob("*"))
    assert client.send(address, given, status=status)["error"]
    assert sorted(project.rglob("*")) == before


def test_overlap_of_two_maps(client, project):
    """Schoener's D of the maps, by its formula."""
    run(client, "/api/overlap", one="one", other="two")
    (told,) = client.get("/api/overlaps?one=two&other=one")  # either way round
    maps = []
    for name in ("one", "two"):
        with rasterio.open(project / name / "maps" / "cloglog.tif") as raster:
            values = raster.read(1, masked=True).compressed().astype(float)
        maps.append(values / values.sum())
    assert told["schoener_d"] == pytest.approx(1 - np.abs(maps[0] - maps[1]).sum() / 2, abs=1e-6)
    assert told["tests"] == []


def test_a_test_in_the_space_of_the_environment(client, project):
    run(
        client,
        "/api/overlap",
        one="two",
        other="one",
        space="environment",
        test="identity",
        null=19,
    )
    told = client.get("/api/overlaps?one=two&other=one")[0]
    assert told["space"] == "environment"
    assert told["schoener_d"] == pytest.approx(1, abs=1e-6)  # the same records
    assert [len(test["null"]) for test in told["tests"]] == [19, 19]
    for test in told["tests"]:
        count = sum(value <= test["observed"] + 1e-12 for value in test["null"])
        assert test["p_value"] == pytest.approx((1 + count) / 20)
    assert len(told["environment"]["niches"]) == 2


def test_sites_to_visit(client, project):
    job = run(client, "/api/sites", run="one", count=4, apart=30)
    (told,) = client.get("/api/afterwards?run=one")["surveys"]
    sites = told["sites"]
    assert [site["rank"] for site in sites] == [1, 2, 3, 4]
    geod = Geod(ellps="WGS84")
    for i, a in enumerate(sites):
        for b in sites[:i]:
            ends = (a["longitude"], a["latitude"], b["longitude"], b["latitude"])
            assert geod.inv(*ends)[2] >= 30e3 - 1
    (gpx,) = [name for name in told["files"] if name.endswith(".gpx")]
    status, headers, content = client.ask(f"/results/{gpx}")
    assert status == 200
    assert headers["content-disposition"].startswith("attachment")
    points = ElementTree.fromstring(content).findall("{*}wpt")
    assert [float(p.get("lat")) for p in points] == pytest.approx([s["latitude"] for s in sites])
    kinds = [one["kind"] for one in client.get("/api/result?run=one")["maps"]]
    assert {"survey_gain", "suitability_sd"} <= set(kinds)
    with open(project / job["out"] / "sites.csv", newline="") as file:
        assert [float(row["gain"]) for row in csv.DictReader(file)] == [s["gain"] for s in sites]


def test_what_fails_leaves_no_empty_folder(client, project):
    before = {path.name for path in (project / "surveys").rglob("*")}
    given = {"run": "one", "count": 3, "apart": 5000, "visited": "occurrences.csv"}
    job = client.ended(client.send("/api/sites", given)["number"])
    assert job["status"] == "failed"
    assert "km from all 60 records; lower “At least so many km apart”" in job["error"]
    assert {path.name for path in (project / "surveys").rglob("*")} <= before | {"one"}


def test_a_damaged_overlap_is_told(client, project):
    place = project / "overlaps" / "one" / "two-7"
    place.mkdir(parents=True)
    facts = {"output": {"type": "script"}, "schoener_d": 1.0, "warren_i": 1.0}
    (place / "overlap.json").write_text(json.dumps(facts))
    try:
        assert "expected a text" in client.get("/api/overlaps?one=one&other=two", 400)["error"]
    finally:
        (place / "overlap.json").unlink()
        place.rmdir()


# -- in a browser ----------------------------------------------------------------------------------


def test_from_a_result_to_scores_sites_and_overlap(client, project, browser):
    one = Tab(browser, client, "result=two", bypass_csp=True)
    page = one.page
    page.locator(".map canvas").first.wait_for()
    page.locator("summary", has_text="Test it on other records").click()
    one.choose("Choose records to test with", "surveyed places.csv")
    page.get_by_label("Column of presence and absence").fill("seen")
    page.get_by_label("Column of presence and absence").press("Tab")
    page.get_by_role("button", name="Test the model").click()
    page.locator("caption", has_text="presences against absences").wait_for()
    (told,) = client.get("/api/afterwards?run=two")["evaluations"]
    row = page.locator("tr", has_text="AUC").first.inner_text()
    assert float(row.split()[-1]) == pytest.approx(told["scores"]["auc"], abs=1e-4)
    page.get_by_text("evaluate is done").wait_for()
    page.evaluate("location.hash = 'result=one'")
    page.get_by_text("evaluate is done").wait_for(state="detached")  # it is about the other one
    page.evaluate("location.hash = 'result=two'")
    page.locator("summary", has_text="Where to survey next").click()
    page.get_by_label("How many sites").fill("3")
    page.get_by_role("button", name="Choose sites").click()
    page.locator("caption", has_text="most telling first").wait_for()
    with page.expect_download() as got:
        page.get_by_role("link", name="GPX").click()
    assert got.value.suggested_filename == "sites.gpx"
    check(page)
    one.sound()
    page.get_by_label("Beside it").select_option("one")
    page.locator(".analysis select").nth(0).select_option("environment")
    page.locator(".analysis select").nth(1).select_option("background")
    page.get_by_role("spinbutton", name="Null models").fill("39")
    page.get_by_role("spinbutton", name="Null models").press("Tab")
    page.get_by_role("button", name="Compute overlap").click()
    page.locator(".found", has_text="background test").locator(".histogram").nth(3).wait_for()
    check(page)
    one.sound()
    one.context.close()
