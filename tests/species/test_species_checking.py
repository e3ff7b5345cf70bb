"""Files looked at before a fit, records and layers left out by hand, and places explained."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent.cli import main
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species import (
    LayerFiles,
    RecordFile,
    Settings,
    StudyFiles,
    check_layers,
    check_records,
    explain_place,
    load_model,
)
from maxent.species.fitting.options import typed
from maxent.species.input.records.rows import in_words, rows_named
from maxent.species.judging.explaining import NoDataError
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")
QUICK = ["--no-jackknife", "--bootstrap", "0", "--permutations", "0", "--cv", "none", "-q"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    write_landscape(virtual_landscape(height=60, width=80, n_occurrences=60, seed=4), folder)
    return folder


@pytest.fixture(scope="module")
def fitted(data):
    run("fit", data / "occurrences.csv", data / "layers", "-c", "biome", *QUICK, "-f", "lqph",
        "-o", data / "out")  # fmt: skip
    return data / "out"


def run(*words, code=0):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def files(data, **others):
    return LayerFiles((str(data / "layers"),), categorical=("biome",), **others)


# -- records -------------------------------------------------------------------------------------


def awkward(data, path):
    """Records of every fate: the first three of the landscape, and five that cannot be used."""
    table = pd.read_csv(data / "occurrences.csv")
    x, y, name = table["decimalLongitude"], table["decimalLatitude"], table["scientificName"][0]
    rows = [(name, x[i], y[i]) for i in range(3)]
    rows += [(name, x[0], y[0])]  # again
    rows += [(name, "", "")]
    rows += [(name, x.min() - 50, y[0])]
    sea = sea_of(data)
    rows += [(name, *sea)]
    pd.DataFrame(rows, columns=["species", "longitude", "latitude"]).to_csv(path, index=False)
    return RecordFile(str(path))


def sea_of(data):
    with rasterio.open(data / "layers" / "temperature.tif") as raster:
        row, column = np.argwhere(raster.read_masks(1) == 0)[0]
        return raster.xy(row, column)


def test_every_record_has_a_fate(data, tmp_path):
    (one,), notes = check_records(awkward(data, tmp_path / "records.csv"), files(data))
    fate = dict(zip(one.row.tolist(), one.fate.tolist(), strict=True))
    assert fate == {
        **dict.fromkeys((2, 3, 4), "used"),
        5: "duplicates in a cell",
        6: "missing coordinates",
        7: "outside the layers",
        8: "in the sea or under nodata",
    }
    assert one.counts["used"] == 3
    assert "7 records of 1 species" in notes[0]


def test_fates_are_those_of_a_fit(data):
    records = RecordFile(str(data / "occurrences.csv"))
    settings = Settings(thin=20.0, verbose=0)
    (one,), _ = check_records(records, files(data), settings, study=StudyFiles(hull=True))
    result = mx.species.fit(
        records, files(data), settings, features="l", bootstrap=0, cv="none", jackknife=False
    )
    used = one.fate == "used"
    assert sorted(one.x[used]) == sorted(result.records["x"])
    assert one.study is not None


def test_none_left_is_told_not_raised(data, tmp_path):
    path = tmp_path / "far.csv"
    path.write_text("species,longitude,latitude\na,170.5,80.1\na,170.6,80.2\n")
    (one,), _ = check_records(RecordFile(str(path)), files(data))
    assert one.counts == {"outside the layers": 2}


@pytest.mark.parametrize("words", ["0-", "x", "5-3", "", "1,,2", "-4"])
def test_rows_that_are_none(words):
    with pytest.raises(ValueError, match="leave_out takes rows of the file"):
        RecordFile("a.csv", leave_out=(words,))


def test_rows_in_words_are_read_back():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = sorted(set(rng.integers(1, 40, 12).tolist()))
        assert rows_named([in_words(rows)]) == rows


def test_records_left_out_by_hand(data, tmp_path):
    out = tmp_path / "out"
    common = [
        data / "occurrences.csv",
        data / "layers",
        "-c",
        "biome",
        *QUICK,
        "-f",
        "l",
        "-o",
        out,
    ]
    run("fit", *common, "--leave-out", "2,4-5")
    result = mx.load(out / "result.json")
    table = pd.read_csv(data / "occurrences.csv")
    lost = table.iloc[[0, 2, 3]]["decimalLongitude"]
    assert not np.isin(lost, result.records["x"]).any()
    assert any("3 records left out by hand, rows 2,4,5" in note for note in result.notes)
    told = run("fit", *common, "--overwrite", "--leave-out", "999", code=1)
    assert "row 999 holds no record that would be used" in " ".join(told.split())
    table = data / "occurrences.csv"
    swd = run("fit", "--swd", table, table, "--leave-out", "3", code=2)
    assert "has no effect with --swd" in " ".join(swd.split())


def test_rows_to_leave_out_are_of_their_own_file(data, tmp_path):
    """Those of the test records stay, though they have the same columns."""
    (tmp_path / "test.csv").write_bytes((data / "occurrences.csv").read_bytes())
    run("fit", data / "occurrences.csv", data / "layers", "-c", "biome", *QUICK, "-f", "l",
        "--leave-out", "2-9", "--test", tmp_path / "test.csv", "-o", tmp_path / "a")  # fmt: skip
    result = mx.load(tmp_path / "a" / "result.json")
    assert result.records["test"].sum() > (~result.records["test"]).sum()


# -- layers --------------------------------------------------------------------------------------


def test_layers_side_by_side(data):
    found = check_layers(files(data))
    facts = {fact.name: fact for fact in found.layers}
    assert found.fits
    assert facts["biome"].categorical
    assert facts["biome"].levels > 2
    assert np.isnan(facts["biome"].vif)
    assert facts["temperature"].vif > 1
    np.testing.assert_allclose(np.diag(found.collinearity.correlation), 1)


def test_a_twin_is_suggested_to_go(data, tmp_path):
    for path in (data / "layers").glob("*.tif"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "twin.tif").write_bytes((data / "layers" / "elevation.tif").read_bytes())
    found = check_layers(LayerFiles((str(tmp_path),), categorical=("biome",)))
    dropped = [fact.name for fact in found.layers if fact.drop]
    assert "twin" in dropped
    assert "VIF infinite" in next(fact.drop for fact in found.layers if fact.name == "twin")


def test_a_grid_that_differs_is_named(data, tmp_path):
    for path in (data / "layers").glob("*.tif"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with rasterio.open(tmp_path / "elevation.tif") as raster:
        values, profile = raster.read(1)[:-5], raster.profile
    profile.update(height=values.shape[0])
    with rasterio.open(tmp_path / "elevation.tif", "w", **profile) as raster:
        raster.write(values, 1)
    odd = LayerFiles((str(tmp_path),), categorical=("biome",))
    found = check_layers(odd)
    assert not found.fits
    assert [fact.name for fact in found.layers if fact.difference] == ["elevation"]
    assert check_layers(replace(odd, align="first")).fits
    told = " ".join(run("check", data / "occurrences.csv", tmp_path, code=1).split())
    assert "elevation is not on the grid of the other layers" in told


def test_layers_left_out(data, tmp_path):
    run("fit", data / "occurrences.csv", data / "layers", "-c", "biome", *QUICK, "-f", "l",
        "--without", "elevation", "--without", "seasonality", "-o", tmp_path / "out")  # fmt: skip
    names = mx.load(tmp_path / "out" / "model.json").density.schema.names
    assert not {"elevation", "seasonality"} & set(names)
    assert "temperature" in names
    told = run("check", data / "occurrences.csv", data / "layers", "--without", "altitude", code=1)
    assert "no layer 'altitude' to leave out" in " ".join(told.split())
    with pytest.raises(ValueError, match="every layer is left out"):
        files(data, without=files(data).open().names).open()


def test_check_writes_the_fate_of_every_record(data, tmp_path):
    awkward(data, tmp_path / "records.csv")
    table = tmp_path / "fates.csv"
    told = run("check", tmp_path / "records.csv", data / "layers", "-c", "biome", "-o", table)
    assert "duplicates in a cell" in told
    read = pd.read_csv(table)
    assert read["fate"].value_counts()["used"] == 3
    assert len(read) == 7
    again = run("check", tmp_path / "records.csv", data / "layers", "-o", table, code=1)
    assert "is there already" in again


# -- why -----------------------------------------------------------------------------------------


def test_shares_add_up_to_the_prediction(data, fitted):
    model = load_model(fitted)
    record = mx.load(fitted / "result.json").records
    with files(data).open() as layers:
        told = explain_place(model, layers, float(record["x"][0]), float(record["y"][0]))
        table, _ = layers.read_cells(np.array([told.cell]))
    assert told.base + sum(part.share for part in told.shares) == pytest.approx(told.exponent)
    assert told.exponent == pytest.approx(float(model.density.scores(table)[0]))
    assert told.outputs["cloglog"] == pytest.approx(
        float(model.density.predict(table, "cloglog")[0])
    )
    with rasterio.open(fitted / "maps" / "cloglog.tif") as raster:
        shown = raster.read(1).ravel()[told.cell]
    assert told.outputs["cloglog"] == pytest.approx(float(shown), abs=1e-6)
    sizes = [abs(part.share) for part in told.shares]
    assert sizes == sorted(sizes, reverse=True)


def test_a_place_without_data_says_so(data, fitted):
    model = load_model(fitted)
    with files(data).open() as layers:
        with pytest.raises(NoDataError, match=r"no data there in .*temperature"):
            explain_place(model, layers, *sea_of(data))
        with pytest.raises(NoDataError, match="lies outside the layers"):
            explain_place(model, layers, 1e4, 1e4)


def test_a_place_beyond_the_fit_is_marked(data, fitted, tmp_path):
    """Hotter than anything the model has seen."""
    (tmp_path / "hot").mkdir()
    for path in (data / "layers").glob("*.tif"):
        with rasterio.open(path) as raster:
            values, profile = raster.read(1), raster.profile
        if path.stem == "temperature":
            values = np.where(values == profile["nodata"], values, values + np.float32(40))
        with rasterio.open(tmp_path / "hot" / path.name, "w", **profile) as raster:
            raster.write(values, 1)
    record = mx.load(fitted / "result.json").records
    at = f"--at={record['x'][0]},{record['y'][0]}"
    told = json.loads(run("explain", fitted / "model.json", tmp_path / "hot", at, "--json"))[0]
    outside = [part["variable"] for part in told["shares"] if part["outside"]]
    assert outside == ["temperature"]
    assert told["mess"] < 0
    assert told["most_dissimilar"] == "temperature"
    assert told["exdet"] < 0
    words = run("explain", fitted / "model.json", tmp_path / "hot", at)
    assert "it extrapolates in temperature" in words


def test_explain_takes_another_crs(data, fitted):
    record = mx.load(fitted / "result.json").records
    x, y = float(record["x"][0]), float(record["y"][0])
    import pyproj

    move = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:3857", always_xy=True)
    east, north = move.transform(x, y)
    common = ["explain", fitted / "model.json", data / "layers", "--json"]
    here = json.loads(run(*common, f"--at={x},{y}"))[0]
    there = json.loads(run(*common, f"--at={east},{north}", "--crs", "EPSG:3857"))[0]
    assert here["cell"] == there["cell"]
    assert "takes two numbers" in run(*common, "--at=1;2", code=2)


# -- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        Settings(),
        Settings(background=None, jackknife=False, outputs=("cloglog", "raw"), multiplier=2.5),
        Settings(entropy="tsallis:1.5", threshold="10 percentile", thin=0.1, replicates=3),
        LayerFiles(("layers",), ("a", "b"), nodata=None, align="finest", without=("x",)),
        LayerFiles(("layers",), nodata=(-9999.0, 0.5), crs="EPSG:3857", resampling="nearest"),
        RecordFile("a b.csv", x="lon", basis=("HUMAN",), max_uncertainty=500.0, leave_out=("3-9",)),
        StudyFiles(hull=True, buffer=12.5),
        StudyFiles(polygons="region.geojson"),
    ],
)
def test_what_is_typed_is_what_was_meant(made, monkeypatch):
    """The words of a dataclass, read by the command, give the same dataclass."""
    from maxent.species.batch import workflow

    seen = {}

    def listen(records, layers, out, settings, **others):
        seen.update(records=records, layers=layers, settings=settings, **others)
        return []

    monkeypatch.setattr(workflow, "fit_files", listen)
    monkeypatch.setattr("maxent.cli.species.fitting.check_there", lambda *a, **k: None)
    path = made.path if isinstance(made, RecordFile) else "records.csv"
    words = ["fit", path, "layers", *typed(made)]
    run(*shlex.split(shlex.join(words)), "-q")
    which = {Settings: "settings", LayerFiles: "layers", RecordFile: "records", StudyFiles: "study"}
    assert seen[which[type(made)]] == made


def test_a_target_group_of_one_species_is_told(data, tmp_path):
    told = run("fit", data / "occurrences.csv", data / "layers", "-c", "biome", *QUICK,
               "--target-group", "-o", tmp_path / "out", code=1)  # fmt: skip
    assert "a target group needs records of other species too" in " ".join(told.split())
