"""`--intervals`: maps, areas, range change, numbers and places, and what has none."""

import base64
import csv
import gzip
import json

import numpy as np
import pandas as pd
import pytest

from maxent import cli
from maxent.datasets import virtual_landscape, virtual_visits, write_landscape
from maxent.species.comparing.records import RangeChange
from maxent.species.fitting import kinds
from maxent.species.fitting.model import load_model
from maxent.species.fitting.results import read_result
from maxent.species.fitting.settings import Settings
from maxent.species.judging import bands
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
ENDS = ("lower", "upper")


@pytest.fixture(scope="module")
def call():
    from typer.testing import CliRunner

    def called(*args):
        done = CliRunner().invoke(cli.main, [str(a) for a in args], env={"COLUMNS": "250"})
        return done.exit_code, " ".join(done.output.replace("│", " ").split())

    return called


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records, a survey and counts on an island, and its layers now and later."""
    folder = tmp_path_factory.mktemp("island")
    island = virtual_landscape(height=24, width=30, n_occurrences=60, seed=3)
    write_landscape(island, folder)
    virtual_visits(island, 150, 50, 2.0, seed=3).write(folder)
    return folder


@pytest.fixture(scope="module")
def fitted(folder, call):
    """A fit with a projection, by curvature."""
    given = [folder / "occurrences.csv", folder / "layers", "--project", folder / "future"]
    asked = ["-c", "biome", "--intervals", "laplace", "--threshold", "0.4"]
    code, said = call("fit", *given, *asked, *FAST, "-o", folder / "out")
    assert code == 0, said
    return folder / "out", said


@pytest.fixture(scope="module")
def several(folder, call):
    """A fit of several kinds of records, by a few refits."""
    given = [folder / "occurrences.csv", folder / "layers", "--survey", folder / "sites.csv"]
    given += ["--counts", folder / "transects.csv", "-c", "biome", "--intervals", "bootstrap"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "REFITS", 6)
        code, said = call("fit", *given, *FAST, "-o", folder / "kinds")
    assert code == 0, said
    return folder / "kinds"


def _maps(folder, *names):
    values = []
    for name in names:
        with rasterio.open(folder / f"{name}.tif") as file:
            values.append(file.read(1).astype(float))
    known = np.isfinite(values[0])
    return [value[known] for value in values]


def _rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _around(low, value, high):
    return float(low) <= float(value) <= float(high) and float(low) < float(high)


# -- what there is ---------------------------------------------------------------------------------


def test_maps_lie_between_their_ends(fitted, several):
    for place in (fitted[0] / "maps", fitted[0] / "projections" / "future", several / "maps"):
        low, value, high = _maps(place, "cloglog_lower", "cloglog", "cloglog_upper")
        assert (low <= value).all()
        assert (value <= high).all()
        assert (low < high).mean() > 0.9


def _packed(values):
    return np.frombuffer(gzip.decompress(base64.b64decode(values["values"])), "<f4")


def test_the_report_knows_the_interval_of_each_place(fitted):
    page = (fitted[0] / "report.html").read_text()
    told = json.loads(page.split('id="map-data">')[1].split("</script>")[0])
    for end, packed in zip(ENDS, told["ends"], strict=True):
        with rasterio.open(fitted[0] / "maps" / f"cloglog_{end}.tif") as file:
            np.testing.assert_allclose(_packed(packed), file.read(1).ravel(), rtol=1e-5)


def test_curves_lie_in_their_bands(fitted, several):
    for place in (fitted[0], several):
        curves = [c for c in read_result(place).responses if c.kind == "marginal"]
        assert len(curves) == 6
        for curve in curves:
            assert (curve.low <= curve.y).all()
            assert (curve.y <= curve.high).all()
            assert (curve.low < curve.high).any()


def test_areas_have_intervals_in_every_table(fitted):
    out, said = fitted
    for row in _rows(out / "tables" / "maps.csv"):
        assert row["present_unit"] == "km2"
        assert _around(row["present_low"], row["present_km2"], row["present_high"])
    row = _rows(out / "tables" / "maxentResults.csv")[0]
    assert _around(row["Presence km2 lower"], row["Presence km2"], row["Presence km2 upper"])
    told = " ".join(row["Value"] for row in _rows(out / "tables" / "odmap.csv"))
    assert "intervals of 90% of curves, maps and areas from the curvature" in told
    assert "km2 (90% interval" in told
    assert "km2 (90% interval" in said


def test_range_change_has_intervals_at_any_threshold(folder, fitted, call, monkeypatch, tmp_path):
    tables = [fitted[0] / "change" / "range_change.csv"]
    code, said = call("change", fitted[0], "--threshold", "0.6", "-o", tmp_path / "strict")
    assert code == 0, said
    tables.append(tmp_path / "strict" / "range_change.csv")
    for (row,) in map(_rows, tables):
        present = float(row["lost_km2"]) + float(row["kept_km2"])
        assert _around(row["present_km2_low"], present, row["present_km2_high"])
        for what in ("lost_km2", "gained_km2", "change_percent"):
            low, high = float(row[f"{what}_low"]), float(row[f"{what}_high"])
            assert low <= float(row[what]) <= high
    (folder / "future").rename(tmp_path / "moved")
    try:
        code, said = call("change", fitted[0], "-o", tmp_path / "again")
    finally:
        (tmp_path / "moved").rename(folder / "future")
    assert code == 0, said
    assert "intervals of the change are not known" in said
    assert "change_percent_low" not in _rows(tmp_path / "again" / "range_change.csv")[0]


def test_intervals_hold_what_the_maps_say():
    change = RangeChange("wet", 0.5, 9, 1, 3, 5, 1.0, 3.0, 5.0)
    told = change.with_intervals({"present": (1.0, 3.5), "lost": (0.5, 2.0), "change": (1.5, 2.0)})
    assert told.intervals == {"present": (1.0, 4.0), "lost": (0.5, 2.0), "change": (1.0, 2.0)}


def test_places_and_rows_have_the_intervals_of_the_map(folder, fitted, call, tmp_path):
    out = fitted[0]
    record = pd.read_csv(folder / "occurrences.csv").iloc[0]
    at = f"--at={record.decimalLongitude},{record.decimalLatitude}"
    code, said = call("explain", out / "model.json", folder / "layers", at, "--json")
    assert code == 0, said
    (told,) = json.loads(said)
    with rasterio.open(out / "maps" / "cloglog_upper.tif") as file:
        ((upper,),) = file.sample([(told["x"], told["y"])])
    assert told["intervals"]["cloglog"][1] == pytest.approx(upper, rel=1e-5)
    row = {share["variable"]: share["value"] for share in told["shares"]}
    pd.DataFrame([{"species": "a", **row}]).to_csv(tmp_path / "rows.csv", index=False)
    given = ["--swd", out / "model.json", tmp_path / "rows.csv", "-o", tmp_path / "told.csv"]
    code, said = call("project", *given)
    assert code == 0, said
    (row,) = _rows(tmp_path / "told.csv")
    found = [float(row[f"cloglog_{end}"]) for end in ENDS]
    assert found == pytest.approx(told["intervals"]["cloglog"], rel=1e-6)


def test_projecting_without_intervals(folder, fitted, call, tmp_path):
    given = [fitted[0] / "model.json", folder / "future", "--no-similarity"]
    for flags, files in ((["--no-intervals"], 1), ([], 3)):
        place = tmp_path / str(files)
        code, said = call("project", *given, *flags, "-o", place)
        assert code == 0, said
        assert len(list(place.glob("*.tif"))) == files


# -- several kinds of records ----------------------------------------------------------------------


def test_intensities_have_intervals_of_all_sources(folder, several, call):
    place = several / "maps"
    for what in ("intensity", "probability"):
        low, value, high = _maps(place, f"{what}_lower", what, f"{what}_upper")
        assert (low <= value).all()
        assert (value <= high).all()
    model, written = load_model(several), read_result(several).maps[0]
    known = model.density.uncertainty
    assert known.weights.shape[1] == 6
    assert known.knows_scale
    assert known.blocks == 20
    assert _around(written.expected_ends[0], written.expected, written.expected_ends[1])
    row = _rows(several / "tables" / "maps.csv")[0]
    assert float(row["expected_low"]) == pytest.approx(written.expected_ends[0], rel=1e-6)
    assert "90% interval" in (several / "report.html").read_text()
    record = pd.read_csv(folder / "occurrences.csv").iloc[0]
    at = f"--at={record.decimalLongitude},{record.decimalLatitude}"
    code, said = call("explain", several / "model.json", folder / "layers", at, "--json")
    assert code == 0, said
    (told,) = json.loads(said)
    assert _around(
        told["intervals"]["count"][0], told["outputs"]["count"], told["intervals"]["count"][1]
    )


# -- what has none ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"entropy": "tsallis:1.5"}, "entropy shannon"),
        ({"joint": True, "intervals": "bootstrap"}, "take --intervals laplace"),
        ({"potential": "ball"}, "take --intervals bootstrap"),
        ({"intervals": "wald"}, "none, laplace, bootstrap"),
    ],
)
def test_what_has_no_intervals_is_refused(asked, why):
    with pytest.raises(ValueError, match=why):
        Settings(**{"intervals": "laplace"} | asked)


def test_words_of_refits_say_how_many():
    assert f"{bands.REFITS} refits to single records" in bands.of_refits("single records")
