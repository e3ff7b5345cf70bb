"""Comparing settings from the page: the command, how far it is, its table, and a fit of one."""

import csv
import shutil

import numpy as np
import pytest
from app_server import served
from test_app_browser import Tab, check

import maxent as mx
from maxent.app.jobs import _summed
from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs
from waiting import until

for name in ("starlette", "uvicorn", "rio_tiler"):
    needs(name)
needs("playwright.sync_api")

pytestmark = pytest.mark.usefixtures("quick_jobs")
QUICK = {"jackknife": False, "bootstrap": 0, "permutations": 0, "cv": "none", "background": 400}
COMPARED = {"features": ["l", "lq"], "multipliers": [1, 4], "folds": 3, "null": 4}
COMPARED |= {"partial_roc": 20, "scoring": "auc"}


@pytest.fixture(scope="module")
def project(tmp_path_factory, quick_jobs):
    """A folder with a comparison that the page made."""
    folder = tmp_path_factory.mktemp("tuning") / "study"
    write_landscape(virtual_landscape(height=40, width=50, n_occurrences=60, seed=8), folder)
    with served(folder) as client:
        client.draft(
            records={"path": "occurrences.csv"},
            layers={"sources": ["layers"], "categorical": ["biome"]},
            settings={**QUICK, "keep_duplicates": True},
            tuning=COMPARED,
        )
        job = client.ended(client.send("/api/tune")["number"])
        assert job["status"] == "done", job
        (folder / "job").write_text(str(job["number"]))
    return folder


@pytest.fixture
def client(project):
    with served(project) as client:
        yield client


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_command_of_a_comparison(client):
    said = client.get("/api/state")["draft"]["tuning"]
    assert said["command"] == (
        "maxent tune occurrences.csv layers -c biome --background 400 -f l,lq -m 1,4 --folds 3 "
        "--scoring auc --null 4 --partial-roc 20 -o maxent-results-tuning"
    )
    assert said["notes"] == [
        "Settings are compared without “keep duplicates”, which a fit alone knows."
    ]
    job = client.get("/api/jobs/1")
    assert job["command"] == said["command"]


def test_records_are_compared_as_they_are_fitted(tmp_path):
    """Every setting of the records and the background that both commands know goes to both."""
    (tmp_path / "r.csv").write_text("x,y\n1,2\n")
    (tmp_path / "layers").mkdir()
    settings = {"clean": True, "thin": 5.0, "background": 77, "seed": 3}
    with served(tmp_path) as client:
        client.draft(records={"path": "r.csv", "max_uncertainty": 5000.0, "basis": ["A", "B"]})
        said = client.draft(layers={"sources": ["layers"]}, settings=settings)
    for command in (said["command"], said["tuning"]["command"]):
        words = set(command.split(" --"))
        assert words >= {"basis A", "basis B", "max-uncertainty 5000", "clean", "thin 5"}
        assert "background 77" in words


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"features": []}, "choose feature classes"),
        ({"features": ["xyz"]}, "letters of lqphtck, got 'xyz'"),
        ({"multipliers": [0, 1]}, "above 0"),
        ({"partition": "jackknife", "folds": 4}, "folds has no effect on jackknife"),
        ({"scoring": "partial_roc"}, "needs “Partial ROC at this % of omission”"),
    ],
)
def test_what_a_comparison_lacks(tmp_path, given, why):
    (tmp_path / "r.csv").write_text("x,y\n1,2\n")
    (tmp_path / "layers").mkdir()
    with served(tmp_path) as client:
        client.draft(records={"path": "r.csv"}, layers={"sources": ["layers"]})
        said = client.draft(tuning=given)
        assert why in said["tuning"]["lacks"]
        assert said["lacks"] == ""  # a fit is possible all the same
        assert why in client.send("/api/tune", status=400)["error"]


def test_every_candidate_is_counted(client):
    """One fit to all records and one per fold, for each of four candidates."""
    events = client.get("/api/jobs/1")["events"]
    found = {
        (one["features"], one["multiplier"]): (one["done"], one["total"])
        for one in events
        if one["kind"] == "candidate"
    }
    assert found == {(f, m): (4, 4) for f in ("lc", "lqc") for m in (1.0, 4.0)}
    assert [one["species"] for one in events if one["kind"] in ("begin", "done")] == [
        ["Arbor fictus"],
        "Arbor fictus",
    ]


def test_candidates_are_of_the_species_at_work():
    step = {"kind": "candidate", "features": "l", "potential": "box", "multiplier": 1.0}
    events = [
        {"kind": "stage", "species": "a"},
        {**step, "done": 1, "total": 2},
        {"kind": "progress", "stage": "null models", "done": 3, "total": 9},
        {"kind": "stage", "species": "b"},
        {**step, "done": 0, "total": 2},
        {**step, "done": 1, "total": 2},
        {"kind": "progress", "stage": "null models", "done": 1, "total": 9},
        {"kind": "progress", "stage": "null models", "done": 2, "total": 9},
    ]
    assert _summed(events)[2:] == [{**step, "done": 1, "total": 2}, events[-1]]


def test_a_comparison_as_the_page_sees_it(client, project):
    (listed,) = client.get("/api/tunings")
    assert listed["tuning"] == "maxent-results-tuning"
    told = client.get("/api/tuning?tuning=maxent-results-tuning")
    assert told["known"]
    assert (told["grid"]["width"], told["grid"]["height"]) == (50, 40)
    (one,) = told["species"]
    place = project / "maxent-results-tuning"
    rows = table(place / "Arbor_fictus_tuning.csv")
    assert [row["test_auc"] for row in one["rows"]] == [float(row["test_auc"]) for row in rows]
    assert [row["rank"] for row in one["rows"]] == [1, 2, 3, 4]
    named = [column["name"] for column in one["columns"]]
    assert named[:3] == ["rank", "features", "multiplier"]
    assert {"partial_roc", "partial_roc_p", "aicc"} <= set(named)
    assert len(one["folds"]) == 4 * 3
    assert len(one["nulls"]) == 4
    assert {row["statistic"] for row in one["null_test"]} >= {"test_auc", "omission_minimum"}
    sizes = np.unique(one["places"]["fold"], return_counts=True)[1]
    assert sizes.sum() == len(one["places"]["x"])
    assert len(sizes) == 3
    assert sizes.min() > 8
    status, _, page = client.ask(f"/results/{one['report']}")
    assert status == 200
    assert b"All candidates" in page


def test_what_is_not_in_the_table_is_not_fitted(client):
    given = {"tuning": "maxent-results-tuning", "species": "Arbor fictus", "rank": 3}
    assert client.send("/api/tune/fit", {**given, "rank": 9}, status=404)
    assert client.send("/api/tune/fit", {**given, "species": "none"}, status=404)


def test_a_comparison_of_the_command_is_shown_too(project, tmp_path):
    """Its records and layers are not known to the page: its settings are taken over by hand."""
    shutil.copytree(project / "maxent-results-tuning", tmp_path / "odd näme" / "tuned")
    with served(tmp_path) as client:
        (listed,) = client.get("/api/tunings")
        told = client.get("/api/tuning?tuning=odd%20n%C3%A4me/tuned")
        assert not told["known"]
        x = told["species"][0]["places"]["x"]
        a, _, c = told["grid"]["transform"][:3]
        assert c < min(x) <= max(x) < c + a * told["grid"]["width"]
        given = {"tuning": listed["tuning"], "species": "Arbor fictus", "rank": 1}
        said = client.send("/api/tune/fit", given, status=400)["error"]
        assert "does not know its records" in said
        (tmp_path / "odd näme" / "tuned" / "tuning.json").write_text("{")
        assert client.get("/api/tunings") == []
        assert client.get("/api/tuning?tuning=..", 403)


def test_folds_on_both_sides_of_the_date_line_are_side_by_side(tmp_path):
    """On layers of the whole earth, and where the page does not know the layers any more."""
    rasterio = needs("rasterio")
    rng = np.random.default_rng(3)
    (tmp_path / "layers").mkdir()
    for name in ("heat", "rain"):
        values = np.cumsum(rng.normal(size=(60, 360)), axis=1).astype("float32")
        with rasterio.open(
            tmp_path / "layers" / f"{name}.tif",
            "w",
            driver="GTiff",
            count=1,
            dtype="float32",
            crs="EPSG:4326",
            width=360,
            height=60,
            transform=rasterio.Affine(1, 0, -180, 0, -1, 0),
        ) as file:
            file.write(values, 1)
    places = np.column_stack([180 + rng.uniform(-8, 8, 40), rng.uniform(-25, -5, 40)])
    places[:, 0] -= 360 * (places[:, 0] > 180)
    lines = [f"Aus bus,{x:.4f},{y:.4f}" for x, y in places]
    (tmp_path / "fiji.csv").write_text("\n".join(["species,lon,lat", *lines]))
    with served(tmp_path) as client:
        client.draft(
            records={"path": "fiji.csv"},
            layers={"sources": ["layers"]},
            settings={"background": 400},
            tuning={"features": ["l"], "multipliers": [1], "partition": "random"},
        )
        job = client.ended(client.send("/api/tune")["number"])
        assert job["status"] == "done", job
        shutil.copytree(tmp_path / "maxent-results-tuning", tmp_path / "copy")
        for name in ("maxent-results-tuning", "copy"):
            told = client.get(f"/api/tuning?tuning={name}")
            x = np.array(told["species"][0]["places"]["x"])
            assert x.min() < -175
            assert x.max() > 175
            a, _, west = told["grid"]["transform"][:3]
            around = np.where(x < 0, x + 360, x)
            assert west < around.min() < around.max() < west + a * told["grid"]["width"] < 200
            assert told["grid"]["turn"] == 360


# -- in a browser ----------------------------------------------------------------------------------


def test_settings_are_compared_in_the_page(client, browser):
    """Choices make the command; candidates are seen as they are done."""
    one = Tab(browser, client, bypass_csp=True)
    page = one.page
    page.locator("summary", has_text="Compare settings").click()
    page.locator(".map canvas").first.wait_for()
    check(page)
    page.get_by_label("lq lines, humps", exact=True).uncheck()
    page.get_by_label("Multipliers").fill("2; x")
    page.get_by_label("Multipliers").press("Tab")
    page.get_by_text("“x” is none").wait_for()
    page.get_by_label("Multipliers").fill("2, 3")
    page.get_by_label("Multipliers").press("Tab")
    page.locator(".options select").first.select_option("random")
    page.get_by_label("Null models").fill("0")
    page.get_by_label("Null models").press("Tab")
    page.get_by_text("2 candidates").wait_for()
    chosen = {"features": ["l"], "multipliers": [2, 3], "folds": 3, "partition": "random"}
    chosen |= {"partial_roc": 20, "scoring": "auc"}
    until(lambda: client.get("/api/state")["draft"]["choices"]["tuning"] == chosen)
    page.get_by_role("button", name="Compare settings").click()
    page.locator(".candidates").or_(page.get_by_text("See the comparison")).first.wait_for()
    page.get_by_role("link", name="See the comparison").click()
    page.get_by_text("Best of 2").wait_for()
    one.sound()
    one.context.close()
    client.draft(tuning=COMPARED)


def test_the_table_is_sorted_and_one_is_fitted(client, project, browser):
    one = Tab(browser, client, "tuning=maxent-results-tuning", bypass_csp=True)
    page = one.page
    (told,) = client.get("/api/tuning?tuning=maxent-results-tuning")["species"]
    heading = page.get_by_role("button", name="Weights")
    heading.click()
    page.locator("th[aria-sort=ascending]", has_text="Weights").wait_for()
    at = [column["name"] for column in told["columns"]].index("n_weights") + 1
    cells = page.locator(f".compared tbody tr td:nth-child({at + 1})").all_inner_texts()
    assert [int(cell) for cell in cells] == sorted(row["n_weights"] for row in told["rows"])
    assert page.locator(".histogram").count() >= 5
    assert page.locator(".tuned .curve").count() >= 7
    legend = page.locator(".legend").inner_text()
    held = told["places"]["fold"]
    folds = [f"block {k} ({held.count(f'block {k}')})" for k in (1, 2, 3)]
    assert " ".join(legend.split()).endswith(" ".join(folds))  # by their numbers
    check(page)
    before = client.get("/api/state")["draft"]
    page.get_by_role("button", name="fit this one: lqc, multiplier 4").click()
    page.get_by_role("button", name="See the result").click()
    page.locator("h2", has_text="Arbor fictus").wait_for()
    assert "-f lqc -m 4" in page.locator(".words pre").inner_text()
    job = client.get("/api/state")["jobs"][0]
    assert (job["status"], job["out"]) == ("done", "maxent-results-tuning-fit")
    settings = mx.load(project / job["out"] / "result.json").settings
    assert (settings["features"], settings["multiplier"]) == ("lqc", 4)
    assert settings["keep_duplicates"]
    assert client.get("/api/state")["draft"] == before  # what is being chosen stays
    one.sound()
    one.context.close()
