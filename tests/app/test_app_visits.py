"""Surveys and counts in the app: recognised, told and fitted as the command does."""

import pytest
from app_server import served

import maxent as mx
from maxent.datasets import virtual_landscape, virtual_visits, write_landscape
from tools import needs

for name in ("starlette", "uvicorn", "rio_tiler"):
    needs(name)
rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("quick_jobs")
QUICK = {"features": "lq", "permutations": 0, "cv": "none"}
RECORDS = {"path": "occurrences.csv"}
LAYERS = {"sources": ["layers"], "categorical": ["biome"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    island = virtual_landscape(height=30, width=40, n_occurrences=60, seed=2)
    write_landscape(island, folder)
    virtual_visits(island, 120, 40, 2.0, seed=3).write(folder)
    (folder / "wrong.csv").write_text("species,x,y,count\nArbor fictus,72.5,-30.5,-3\n")
    return folder


@pytest.fixture
def client(folder):
    with served(folder) as client:
        client.draft(
            records=RECORDS, layers=LAYERS, settings=QUICK, surveys=[], counts=[], sources={}
        )
        yield client


def _added(client, *paths):
    for path in paths:
        draft = client.send("/api/visits", {"path": path})
    return draft


def test_files_are_recognised_by_their_columns(client, folder):
    draft = _added(client, "sites.csv", "transects.csv", "sites.csv")
    assert draft["choices"]["surveys"] == ["sites.csv"]
    assert draft["choices"]["counts"] == ["transects.csv"]
    assert "--survey sites.csv --counts transects.csv" in draft["command"]
    assert "surveys=[RecordFile('sites.csv')]" in draft["script"]
    compile(draft["script"], "script", "exec")
    survey, counts = client.get("/api/visits")["files"]
    assert (survey["kind"], survey["visits"], counts["kind"], counts["visits"]) == (
        *("survey", 120, "counts", 40),
    )
    assert survey["finds"] == sum(survey["found"])
    assert "presence from 'presence'" in survey["columns"]
    assert survey["notes"] == ["sites.csv: areas in ha, from column 'area_ha'"]
    assert "without surveys and counts" in draft["tuning"]["notes"][0]


def test_what_is_wrong_with_a_file_is_told_beside_it(client, folder):
    _added(client, "wrong.csv", "sites.csv")
    survey, counts = client.get("/api/visits")["files"]
    assert "a count is -3, below 0" in counts["error"]
    assert survey["error"] == ""
    client.draft(surveys=["transects.csv"], counts=["sites.csv"])
    survey, counts = client.get("/api/visits")["files"]
    assert "its counts tell more" in survey["columns"]
    assert "“Column of individuals counted”" in counts["error"]
    assert str(folder) not in counts["error"]


@pytest.mark.parametrize("path", ["sites.csv", "transects.csv"])
def test_visits_given_as_records_are_told_where_they_belong(client, path):
    client.draft(records={"path": path})
    notes = " ".join(client.get("/api/records")["notes"])
    assert "records left out" in notes
    assert "“Surveys and counts”, below, fits them too" in notes


def test_files_elsewhere_are_refused(client):
    client.send("/api/visits", {"path": "/etc/passwd"}, status=403)
    client.send("/api/visits", {"path": "none.csv"}, status=404)
    client.send("/api/draft", {"surveys": ["../x.csv"]}, "PUT", 403)
    assert client.get("/api/state")["draft"]["choices"]["surveys"] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"replicates": 3}}, "draws presences anew"),
        ({"test": "sites.csv", "settings": {"joint": True}}, "fits presences of many species"),
        ({"sources": {"area_unit": "acre"}}, "Unit of areas"),
        ({"surveys": ["occurrences.csv"]}, "given as presences and as visits"),
    ],
)
def test_what_does_not_go_together_is_lacking(client, changes, words):
    draft = client.draft(**({"surveys": ["sites.csv"], "test": None} | changes))
    client.draft(test=None)
    assert draft["command"] == ""
    assert words in draft["lacks"]


def test_the_kind_of_the_records_is_no_choice(client):
    said = client.send("/api/draft", {"sources": {"kind": "survey"}}, "PUT", 400)
    assert "are presences" in said["error"]


@pytest.mark.slow
def test_the_run_is_of_all_kinds(client, folder):
    _added(client, "sites.csv", "transects.csv")
    client.draft(sources={"area": 0.25}, out="all")
    assert client.ended(client.send("/api/fit")["number"])["status"] == "done"
    result = mx.load(folder / "all" / "result.json")
    assert [file.name for file in result.kinds.files] == ["presences", "sites.csv", "transects.csv"]
    assert "--area 0.25" in result.command
    told = {one["kind"]: one["label"] for one in client.get("/api/result?run=all")["maps"]}
    assert told["probability"] == "probability of presence"
    assert told["apart_sites_csv"] == "sites.csv alone against together (log2)"
