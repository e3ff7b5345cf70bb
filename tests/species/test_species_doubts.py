"""Doubtful places: what is hinted at, what is not, what --clean leaves out; too few records."""

import csv
from importlib import resources

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent import species
from maxent.species.input.layers.grid import Grid
from maxent.species.input.records import doubts
from maxent.species.input.records.occurrences import Occurrences, read_occurrences
from tools import needs

pyproj = needs("pyproj")
rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

WORLD = Grid("EPSG:4326", (1 / 12, 0.0, -180.0, 0.0, -1 / 12, 90.0), width=4320, height=2160)
FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
GEOD = pyproj.Geod(ellps="WGS84")


def _records(x, y, decimals=None):
    x, y = np.asarray(x, float), np.asarray(y, float)
    names = np.full(len(x), "Aus bus", dtype=object)
    row = np.arange(2, len(x) + 2)
    return Occurrences(names, x, y, "EPSG:4326", row, "r.csv", decimals=decimals)


def _kinds(x, y, grid=WORLD, **others):
    found = doubts.doubts(_records(x, y, **others), grid)
    return {i: doubt.kind for i, doubt in found.items()}


def _table():
    text = resources.files("maxent.species.input.records").joinpath("places.csv")
    lines = text.read_text(encoding="utf-8").splitlines()
    return pd.DataFrame(csv.DictReader(line for line in lines if not line.startswith("#"))).astype(
        {"longitude": float, "latitude": float}
    )


# -- the table of places ---------------------------------------------------------------------------


def test_the_table_of_places():
    table = _table()
    assert resources.files("maxent.species.input.records").joinpath("places.csv").stat().st_size < (
        60_000
    )
    assert set(table.kind) == {"capital", "country", "institution", "province"}
    assert table.longitude.between(-180, 180).all()
    assert table.latitude.between(-90, 90).all()
    assert not table.duplicated(["kind", "longitude", "latitude"]).any()
    at = table.set_index("name")[["longitude", "latitude"]]
    for name, x, y in (  # as gazetteers have them
        ("Paris, France", 2.3522, 48.8566),
        ("Quito, Ecuador", -78.4678, -0.1807),
        ("Wellington, New Zealand", 174.7762, -41.2866),
        ("GBIF Secretariat, Copenhagen", 12.5606, 55.7019),
        ("Royal Botanic Gardens, Kew", -0.2925, 51.4787),
        ("Texas, United States", -99.9018, 31.9686),
    ):
        assert GEOD.inv(x, y, *at.loc[name])[2] < 1500, name


def test_every_place_is_hinted_at_and_few_others_are():
    table = _table()
    found = doubts.doubts(_records(table.longitude, table.latitude), WORLD)
    kinds = pd.Series({i: d.kind for i, d in found.items()})
    assert len(kinds) == len(table)
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-180, 180, 50_000), np.degrees(np.arcsin(rng.uniform(-0.85, 0.95, 50_000)))
    assert len(doubts.doubts(_records(x, y), WORLD)) < 10


def test_the_radius_is_measured_on_the_earth():
    """Points around a capital, by geodesics: a sphere differs by half a percent."""
    azimuth = np.linspace(0, 360, 40)
    for km, inside in ((1.45, True), (1.55, False)):
        x, y, _ = GEOD.fwd(
            *(np.full(40, v) for v in (106.92, 47.92)), azimuth, np.full(40, 1e3 * km)
        )
        kinds = doubts.doubts(_records(x, y), WORLD)
        assert len(kinds) == (40 if inside else 0)
        assert all("km from Ulaanbaatar, Mongolia" in doubt.words for doubt in kinds.values())


# -- signs, zeros, decimals ------------------------------------------------------------------------


def _andes(n=60):
    rng = np.random.default_rng(1)
    return rng.uniform(-72, -64, n), rng.uniform(-24, -14, n)


@pytest.mark.parametrize("signs", [(-1, 1), (1, -1), (-1, -1)])
def test_lost_minus_signs(signs):
    x, y = _andes()
    x[:2] *= signs[0]
    y[:2] *= signs[1]
    assert _kinds(x, y) == dict.fromkeys([0, 1], doubts.SIGN)
    doubt = doubts.doubts(_records(x, y), WORLD)[0]
    far = min(GEOD.inv(x[0], y[0], a, b)[2] for a, b in zip(x[2:], y[2:], strict=True)) / 1e3
    told = float(doubt.words.split(" km")[0].replace(",", ""))
    assert told == pytest.approx(far, rel=0.006)
    what = {(-1, 1): "longitude", (1, -1): "latitude"}.get(signs, "longitude and latitude")
    assert f"sign of its {what} changed" in doubt.words


def test_the_sign_that_brings_a_record_nearest_is_named():
    """Of a species on both sides of the equator, a lost sign of longitude is not called both."""
    x, y = _andes()
    y[::2] *= -1
    x[0], y[0] = -x[1], y[1]
    doubt = doubts.doubts(_records(x, y), WORLD)[0]
    assert ", 0 km with the sign of its longitude changed" in doubt.words


def test_what_is_no_lost_sign():
    rng = np.random.default_rng(2)
    across = rng.uniform(-4, 4, 80), rng.uniform(44, 50, 80)  # both sides of Greenwich
    equator = rng.uniform(20, 30, 80), rng.uniform(-2, 2, 80)
    x, y = _andes()
    both = np.append(x, [20.0, 21.0]), np.append(y, [48.0, 47.0])  # elsewhere, not mirrored
    half = x * np.where(np.arange(60) % 2, -1, 1), y  # as many there as here
    for places in (across, equator, both, half, (x[:4] * [-1, 1, 1, 1], y[:4])):
        assert doubts.SIGN not in _kinds(*places).values()


def test_zeros_and_missing_places():
    assert _kinds([0.0, 0.0, np.nan, 0.0], [0.0, 30.0, 0.0, 1e-5]) == {
        0: doubts.ZERO,
        3: doubts.ZERO,
    }


@pytest.mark.parametrize(
    ("cell", "doubtful"),
    # half a unit of the last decimal against the cell: 55.6, 5.56, 0.556 and 0.0556 km
    [(0.25, [0]), (1 / 24, [0, 1, 2]), (1 / 240, [0, 1, 2, 3, 4])],
)
def test_few_decimals(tmp_path, cell, doubtful):
    written = [
        "12,47",
        "12.3,47",
        "12.3,47.0",
        "12.31,47",
        "12.3,47.00",
        "12.311,47.5",
        "1.23e1,47",
    ]
    path = tmp_path / "r.csv"
    path.write_text("species,lon,lat\n" + "".join(f"a,{w}\n" for w in written), encoding="utf-8")
    grid = Grid("EPSG:4326", (cell, 0.0, 0.0, 0.0, -cell, 60.0), width=40, height=40)
    found = doubts.doubts(read_occurrences(path), grid)
    assert [i for i, d in found.items() if d.kind == doubts.FEW_DECIMALS] == doubtful
    frame = {"species": ["a", "a"], "lon": [12.0, 12.3125], "lat": [47.5, 47.0]}
    found = doubts.doubts(Occurrences.from_frame(frame), grid)
    assert (0 in found) == (len(doubtful) > 1)
    assert 1 not in found


def test_records_on_a_projected_grid():
    """The same hints, and decimals of degrees; no decimals of metres."""
    grid = Grid("EPSG:3857", (5e3, 0.0, 0.0, 0.0, -5e3, 8e6), width=600, height=600)
    x, y = [2.3522, 12.4, 10.451], [48.8566, 47.0, 51.166]
    records = Occurrences.from_frame({"species": list("aaa"), "lon": x, "lat": y})
    placed, _ = species.located(records, grid)
    found = {i: d.kind for i, d in doubts.doubts(placed, grid).items()}
    assert found == {
        0: "at a capital",
        1: doubts.FEW_DECIMALS,
        2: "at the centroid of a country",
    }
    metres = Occurrences.from_frame(
        {"species": list("aaa"), "x": placed.x.round(), "y": placed.y.round()}, crs="EPSG:3857"
    )
    assert metres.decimals is None
    assert list(doubts.doubts(metres, grid)) == [0, 2]


# -- through the command ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def iberia(tmp_path_factory):
    """Two layers, and 30 records, of which some are doubtful: a row for each kind."""
    folder = tmp_path_factory.mktemp("iberia")
    (folder / "layers").mkdir()
    rng = np.random.default_rng(0)
    transform = rasterio.transform.from_origin(-10, 45, 0.04, 0.04)
    for name in ("warmth", "rain"):
        values = rng.normal(size=(250, 500)).cumsum(axis=0).cumsum(axis=1)
        how = {"height": 250, "width": 500, "count": 1, "dtype": "float32", "crs": "EPSG:4326"}
        path = folder / "layers" / f"{name}.tif"
        with rasterio.open(path, "w", "GTiff", transform=transform, **how) as file:
            file.write((values / values.std()).astype("float32"), 1)
    x, y = rng.uniform(-8, -4, 30), rng.uniform(38, 42, 30)
    lines = [f"Aus bus,{a:.5f},{b:.5f}" for a, b in zip(x, y, strict=True)]
    odd = {
        doubts.ZERO: "0,0",
        doubts.SIGN: f"{-x[0]:.5f},{y[0]:.5f}",
        "at an institution": "-3.6908,40.4111",
        "at a capital": "-9.1393,38.7223",
        "at the centroid of a country": "-4.0,40.0",
        "at the centroid of a province": "-4.7278,37.5443",
        doubts.FEW_DECIMALS: "-5.1,39.4",
    }
    lines += [f"Aus bus,{place}" for place in odd.values()]
    path = folder / "Fundorte.csv"
    path.write_text("\n".join(["species,lon,lat", *lines]) + "\n", encoding="utf-8")
    return folder, list(odd)


def test_check_tells_of_them_and_leaves_them_in(iberia, run, tmp_path):
    folder, kinds = iberia
    out = tmp_path / "fates.csv"
    told = run("check", folder / "Fundorte.csv", folder / "layers", "-o", out)
    assert told.exit_code == 0, told.output
    words = " ".join(told.output.split())
    for kind in kinds:
        assert f"note: Aus bus: 1 record {kind} (Fundorte.csv, row " in words
    assert "0.1 km from Real Jardín Botánico, Madrid" in words
    fates = pd.read_csv(out, keep_default_na=False)
    assert fates[fates.doubt != ""].row.tolist() == sorted(
        range(32, 39), key=fates.row.tolist().index
    )
    assert fates[fates.fate == "used"].row.isin(range(33, 39)).sum() == 6  # not that in the sea


def test_clean_leaves_them_out_and_counts_each(iberia, run, tmp_path):
    folder, kinds = iberia
    told = run("check", folder / "Fundorte.csv", folder / "layers", "--clean")
    for kind in kinds:
        assert kind in told.output
    assert "leave them out with --clean" not in " ".join(told.output.split())
    args = ["fit", folder / "Fundorte.csv", folder / "layers", *FAST, "--no-maps", "--clean"]
    done = run(*args, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    result = mx.load(tmp_path / "out" / "result.json")
    steps = {step.what: step.records for step in result.cleaning}
    assert [kind for kind in steps if kind in kinds] == kinds
    assert {steps[kind] for kind in kinds} == {1}
    assert result.model.n_presences == 30 - steps.get("duplicates in a cell", 0)
    assert any("0.1 km from Real Jardín" in e for step in result.cleaning for e in step.examples)
    table = (tmp_path / "out" / "tables" / "odmap.csv").read_text(encoding="utf-8")
    assert "at a capital: 1; " in table
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "at the centroid of a province" in page
    plain = run(*args[:-1], "-o", tmp_path / "plain")
    assert plain.exit_code == 0, plain.output
    assert "1 record at a capital" in " ".join(plain.output.split())
    tuned = run("tune", *args[1:3], "--clean", "-f", "l", "-m", "1", "-o", tmp_path / "tuned")
    assert tuned.exit_code == 0, tuned.output
    assert "--clean" in tuned.output  # of the fit that it advises
    assert "1 record at a capital" not in " ".join(tuned.output.split())


def test_what_is_left_out_does_not_widen_the_study_region(iberia, run, tmp_path):
    """The hull is that of the 30 records in their places, in `check` as in `fit`."""
    folder, _ = iberia
    shapely = needs("shapely")
    table = pd.read_csv(folder / "Fundorte.csv")
    good, odd = table[:-7], table[-6:]  # not that in the sea
    hull = shapely.MultiPoint(good[["lon", "lat"]].to_numpy()).convex_hull
    expected = abs(GEOD.geometry_area_perimeter(hull)[0]) / 1e6
    beyond = ~shapely.contains_xy(hull, odd.lon, odd.lat)
    assert beyond.sum() >= 4
    args = [folder / "Fundorte.csv", folder / "layers", "--hull", "--clean"]
    done = run("fit", *args, *FAST, "--no-maps", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    study = mx.load(tmp_path / "out" / "result.json").study
    assert "the convex hull of 30 records" in study.describe()
    assert study.area == pytest.approx(expected, rel=1e-3)
    assert not study.contains(odd.lon[beyond], odd.lat[beyond]).any()
    (fates,), _ = species.check_records(
        species.RecordFile(str(args[0])),
        species.LayerFiles((str(args[1]),)),
        species.Settings(clean=True),
        study=species.StudyFiles(hull=True),
    )
    assert fates.study.describe() == study.describe()
    assert fates.counts["used"] == mx.load(tmp_path / "out" / "result.json").model.n_presences


@pytest.mark.parametrize(("records", "typed"), [(1, []), (2, []), (4, ["--minimum", "9"])])
def test_check_agrees_with_fit(iberia, run, tmp_path, records, typed):
    folder, _ = iberia
    lines = (folder / "Fundorte.csv").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "few.csv"
    path.write_text("\n".join(lines[: records + 1]) + "\n", encoding="utf-8")
    told = run("check", path, folder / "layers", *typed)
    assert told.exit_code == 0, told.output
    assert "too few for a fit" in told.output
    done = run("fit", path, folder / "layers", *FAST, *typed, "-o", tmp_path / "out")
    assert done.exit_code != 0
    (refused,) = [x for x in done.output.splitlines() if x.startswith("error: ")]
    why = refused.removeprefix("error: ")
    assert f"a fit would refuse {why}" in " ".join(told.output.split())


def test_records_of_one_cell_are_no_fit_either(iberia, run, tmp_path):
    folder, _ = iberia
    path = tmp_path / "same.csv"
    lines = [f"Aus bus,-5.0{i}111,40.01111" for i in (1, 2, 3)]
    path.write_text("\n".join(["species,lon,lat", *lines]) + "\n", encoding="utf-8")
    told = run("check", path, folder / "layers", "--keep-duplicates")
    assert "too few for a fit" in told.output
    assert "all 3 records lie in one cell" in " ".join(told.output.split())


# -- no variable is used ---------------------------------------------------------------------------


def test_a_model_without_variables_says_why(iberia, run, tmp_path):
    folder, _ = iberia
    lines = (folder / "Fundorte.csv").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "three.csv"
    path.write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    args = ["fit", path, folder / "layers", *FAST, "--no-maps", "-m", "50"]
    done = run(*args, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "no variable is used: 3 records differ too little from the background" in words
    most = float(words.split("lower the multiplier (-m) below ")[1].split()[0])
    assert "no variable is used" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for factor, used in ((0.9, True), (1.1, False)):
        place = tmp_path / f"o{used}"
        done = run(*args[:-1], f"{factor * most:.6g}", "-o", place)
        assert (mx.load(place / "result.json").model.weights.size > 0) == used
        assert ("no variable is used" in done.output) != used
