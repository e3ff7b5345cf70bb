"""The campaign of benchmarks/faults.py: a few cases of each kind, and the table of the docs."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tools import lacking, needs

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks import faults

    return faults


CASES = {"entropies": 4, "potentials": 8, "domains": 6, "problems": 8, "fractions": 30}
CASES |= {"programmes": 4, "margins": 6, "weights": 8, "chunkings": 8, "mutations": 20}
CASES |= {"given_moments": 24}


@pytest.mark.parametrize("kind", CASES)
def test_random_mathematics_and_files(kind, faults):
    if kind in ("programmes", "margins"):
        needs("cvxpy")
    for seed in range(CASES[kind]):
        faults.replay(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), [("bad_inputs", 12), ("kills", 2), ("full_disks", 2)])
def test_commands_under_attack(kind, number, faults):
    needs("rasterio")
    if kind not in faults.available():
        lacking("full disks need the right to mount a small one: run as root")
    for seed in range(number):
        faults.replay(kind, seed)


def test_harm_is_counted_and_can_be_replayed(faults, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(faults, "LOG", tmp_path / "out" / "faults.log")
    monkeypatch.setattr(
        "maxent.species.batch.workers.in_processes",
        lambda work, jobs, common, processes: ((job, work(job)) for job in jobs),
    )

    def case(seed, folder):
        assert folder.is_dir()
        assert seed != 3, "three"

    monkeypatch.setitem(faults.KINDS, "threes", faults.Kind(case, 5, "threes", "none"))
    tally = {"threes": [0, 0]}
    faults.campaign([("threes", seed) for seed in range(5)], 1, tally, float("inf"))
    assert tally == {"threes": [5, 1]}
    (line,) = faults.LOG.read_text().splitlines()
    logged = json.loads(line)
    assert (logged["kind"], logged["seed"]) == ("threes", 3)
    with pytest.raises(AssertionError, match="three"):
        faults.replay(logged["kind"], logged["seed"])


def test_the_table_of_the_docs_is_that_of_the_results_and_has_no_harm(faults):
    text = faults.DOCS.read_text()
    assert faults.updated(text) == text
    rows = faults.table().splitlines()[2:]
    assert len(rows) == len(faults.KINDS)
    assert all(row.endswith("| 0 |") for row in rows)
    rows = faults.faults_app.table().splitlines()[2:]
    assert len(rows) == len(faults.faults_app.KINDS)
    assert all(row.endswith("| 0 | 0 | 0 | 0 | 0 |") for row in rows)


@pytest.fixture
def against(faults, monkeypatch, tmp_path):
    """The campaign against the app, with results of a fit that are made up."""
    for package in ("starlette", "uvicorn", "rio_tiler", "pydantic", "rasterio"):
        needs(package)
    from maxent.datasets.landscape import virtual_landscape, write_landscape

    app = faults.faults_app
    study = tmp_path / "study"
    small = virtual_landscape(height=24, width=30, n_occurrences=30, n_group=20, seed=3)
    write_landscape(small, study)
    (study / "run" / "maps").mkdir(parents=True)
    shutil.copy(study / "layers" / "temperature.tif", study / "run" / "maps" / "cloglog.tif")
    for name in ("summary.json", "result.json", "model.json"):
        (study / "run" / name).write_text(json.dumps({"row": {"species": "a", "auc": 0.9}}))
    monkeypatch.setattr(app, "_study", lambda: study)
    return app


def test_the_app_under_attack(against):
    done = against.run(["requests"], 60 / against.KINDS["requests"].number, 0)
    done |= against.run(["folders", "pointers"], 0.1, 0)
    done |= against.run(["uploads"], 0.05, 0)
    assert done["requests"]["cases"] == 60
    assert not any(counted[harm] for counted in done.values() for harm in against.HARMS)


def test_the_campaign_against_the_app_sees_harm(against, monkeypatch):
    """Without the limits on what files lead to, and on what folders hold, there is some."""
    kinds = [against.replay("pointers", seed) for seed in (0, 5)]
    assert not any(harm[kind] for harm in kinds for kind in against.HARMS)
    monkeypatch.setattr("maxent.species.input.file_access.current", lambda: None)
    monkeypatch.setattr("maxent.species.input.file_access._OFFLINE", {})
    kinds = [against.replay("pointers", seed) for seed in (0, 5)]
    assert kinds[0]["outside"]
    assert kinds[1]["asked"]
    answer = 200, {"content-type": "image/svg+xml"}, b"<svg/>"
    assert against.harm_of(answer, "/results/run/x.svg")["ran"]
    told = 200, {"content-type": "application/json"}, json.dumps(against.ELEMENT).encode()
    assert against.harm_of(told, "/api/state")["ran"]
    assert against.harm_of((303, {"location": "//evil.example"}, b""), "/")["outside"]
