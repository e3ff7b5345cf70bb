"""Files of records that are easily misread: which column is the species, absences, spellings."""

import csv
import gzip
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.species.input.records.occurrences import Occurrences, read_occurrences
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
QUICK = [*FAST, "--no-maps"]
SIDE = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two layers of 12 x 12 cells of one degree."""
    folder = tmp_path_factory.mktemp("grid")
    rng = np.random.default_rng(0)
    transform = rasterio.Affine(1, 0, 0, 0, -1, SIDE)
    for name in ("rain", "heat"):
        with rasterio.open(
            folder / f"{name}.tif",
            "w",
            driver="GTiff",
            width=SIDE,
            height=SIDE,
            count=1,
            dtype="float64",
            crs="EPSG:4326",
            transform=transform,
        ) as file:
            file.write(rng.normal(size=(SIDE, SIDE)), 1)
    return folder


def _places(n, seed=0):
    """Centres of different cells."""
    cells = np.random.default_rng(seed).permutation(SIDE * SIDE)[:n]
    return [(cell % SIDE + 0.5, cell // SIDE + 0.5) for cell in cells]


def _table(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def _notes(result):
    return [line for line in result.output.splitlines() if line.startswith("note: ")]


# -- the column of species -----------------------------------------------------------------------


@pytest.mark.parametrize("header", ["siteid,spid,lon,lat,group", "date,organism,lon,lat,rank"])
def test_names_under_an_unknown_column_are_taken_and_said(data, run, tmp_path, header):
    first = "2020-01-01" if header.startswith("date") else "17"
    rows = [f"{first},{'ab'[i % 2]}x,{x},{y},bird" for i, (x, y) in enumerate(_places(16))]
    path = _table(tmp_path / "records.csv", header, rows)
    result = run("fit", path, data, *QUICK, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    column = header.split(",")[1]
    assert {p.name for p in (tmp_path / "out").iterdir() if p.is_dir()} == {"ax", "bx"}
    said = "\n".join(_notes(result))
    assert f"taken is {column!r}, the first column of text (such as 'ax')" in said
    assert f"16 records of 2 species: species from column {column!r}, x from 'lon'" in said
    assert "other columns of text are" in said
    model = mx.load(tmp_path / "out" / "ax" / "result.json")
    assert any("16 records of 2 species" in note for note in model.notes)  # and in the report
    named = run("fit", path, data, *QUICK, "--species-column", "none", "-o", tmp_path / "one")
    assert named.exit_code == 0, named.output
    assert mx.load(tmp_path / "one" / "result.json").species == "records"


def test_the_column_is_always_printed(data, run, tmp_path):
    rows = [f"a,{x},{y}" for x, y in _places(8)]
    path = _table(tmp_path / "records.csv", "species,lon,lat", rows)
    result = run("fit", path, data, *QUICK, "-o", tmp_path / "out")
    note, region = _notes(result)
    assert region == "note: all 144 cells with data are background"
    assert note.endswith("8 records of 1 species: species from column 'species', x from 'lon', "
                         "y from 'lat'")  # fmt: skip
    quiet = run("fit", path, data, *QUICK, "-o", tmp_path / "quiet", "-q")
    assert (quiet.exit_code, quiet.output) == (0, "")


def test_a_shapefile_cuts_names():
    frame = {"decimalLon": [1.0, 2.0], "decimalLat": [3.0, 4.0], "scientific": ["a b", "c d"]}
    records = Occurrences.from_frame(frame)
    assert records.species.tolist() == ["a b", "c d"]
    assert (records.crs, records.notes) == ("EPSG:4326", ())


def test_text_that_is_no_name_leaves_one_species(tmp_path):
    rows = [f"{i},2020-01-0{i + 1},Peru,note {i},{i},{i}" for i in range(4)]
    path = _table(tmp_path / "Puma.csv", "id,seen,country,label,lon,lat", rows)
    records = read_occurrences(path)
    assert records.names() == ["Puma"]
    assert records.notes == ()
    assert "all of one species, named after the file, as no column of species was found" in (
        records.summary()
    )


# -- absences ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["individualCount", "count", "Abundance"])
def test_records_that_count_nothing_are_no_presences(tmp_path, name):
    counts = ["3", "0", "", "0.0", "many", "1"]
    rows = [f"a,{i},{i},{value}" for i, value in enumerate(counts)]
    path = _table(tmp_path / "counted.csv", f"species,lon,lat,{name}", rows)
    records = read_occurrences(path)
    assert records.x.tolist() == [0.0, 2.0, 4.0, 5.0]
    assert records.absences.x.tolist() == [1.0, 3.0]
    assert f"2 of 6 records left out, as column {name!r} counts 0 there" in records.notes[0]
    assert len(read_occurrences(path, presence="none")) == 6
    said = _table(tmp_path / "said.csv", f"species,lon,lat,{name},pa", [f"{r},1" for r in rows])
    assert len(read_occurrences(said)) == 6  # another column says what is a presence
    zeros = _table(tmp_path / "zeros.csv", f"species,lon,lat,{name}", ["a,1,1,0", "a,2,2,0"])
    with pytest.raises(ValueError, match=f"none of 2 records is a presence, as column '{name}'"):
        read_occurrences(zeros)


def test_a_column_that_may_number_the_rows_is_no_count(tmp_path):
    rows = [f"a,{i},{i},{i}" for i in range(4)]
    for name in ("n", "number"):
        path = _table(tmp_path / f"{name}.csv", f"species,lon,lat,{name}", rows)
        assert len(read_occurrences(path)) == 4


@pytest.mark.parametrize(
    ("header", "present", "absent"),
    [
        ("species,lon,lat,occurrenceStatus", "PRESENT", "ABSENT"),
        ("species,lon,lat,pr_ab", "1", "0"),
        ("species,lon,lat,Presence", "1.0", "0.0"),
        ("species,lon,lat,occurrence", "TRUE", "FALSE"),
    ],
)
def test_absences_are_left_out_and_offered(data, run, tmp_path, header, present, absent):
    places = _places(40)
    rows = [f"a,{x},{y},{present if i < 25 else absent}" for i, (x, y) in enumerate(places)]
    path = _table(tmp_path / "records.csv", header, rows)
    result = run("fit", path, data, *QUICK, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    column = header.split(",")[-1]
    assert f"15 of 40 records left out as absences, by column {column!r}" in result.output
    fitted = mx.load(tmp_path / "out" / "result.json")
    assert fitted.model.n_presences == 25
    assert sorted(zip(fitted.records["x"], fitted.records["y"], strict=True)) == sorted(places[:25])
    scores = tmp_path / "scores.csv"
    result = run("evaluate", tmp_path / "out", path, data, "-o", scores)
    assert result.exit_code == 0, result.output
    assert "presences are compared with its 15 absences" in result.output
    with open(scores, newline="") as file:
        (row,) = csv.DictReader(file)
    with species.Layers.open(data) as layers:
        x, y = np.array(places).T
        X, _ = layers.read_cells(layers.grid.cells_at(x, y))
    predicted = fitted.model.predict(X)
    above = (predicted[:25, None] > predicted[25:]) + 0.5 * (predicted[:25, None] == predicted[25:])
    assert float(row["auc"]) == pytest.approx(above.mean(), abs=1e-12)
    assert (row["n_presences"], row["n_absences"]) == ("25", "15")
    again = run("evaluate", tmp_path / "out", path, data, "--background", "50")
    assert "n_background" in again.output
    assert "n_absences" not in again.output


def test_a_species_column_of_zeros_and_ones_is_presence_and_absence(tmp_path):
    path = _table(tmp_path / "lynx.csv", "species,x,y", ["1,1,1", "0,2,2", "1,3,3"])
    records = read_occurrences(path)
    assert (records.names(), records.x.tolist()) == (["lynx"], [1.0, 3.0])
    assert records.absences.x.tolist() == [2.0]
    assert "column 'species' holds 0 and 1: taken as absence and presence" in records.notes[0]
    named = read_occurrences(path, species="species")
    assert named.names() == ["1", "0"]


def test_the_column_of_presence_can_be_named_or_denied(tmp_path):
    path = _table(
        tmp_path / "records.csv",
        "species,lon,lat,count,pa",
        ["a,1,1,0,1", "a,2,2,7,0", "a,3,3,,1", "a,4,4,2,"],
    )
    assert read_occurrences(path).x.tolist() == [1.0, 3.0]
    assert "1 of 4 records left out, column 'pa' is blank" in read_occurrences(path).notes[1]
    counted = read_occurrences(path, presence="count")
    assert (counted.x.tolist(), counted.absences.x.tolist()) == ([2.0, 4.0], [1.0])
    assert len(read_occurrences(path, presence="none")) == 4
    with pytest.raises(ValueError, match=r"'species' is 'a', expected presence or absence"):
        read_occurrences(path, presence="species")
    nothing = _table(tmp_path / "none.csv", "species,lon,lat,pa", ["a,1,1,0"])
    with pytest.raises(ValueError, match=r"none of 1 records is a presence, by column 'pa'"):
        read_occurrences(nothing)


def test_a_column_of_other_values_is_no_status(tmp_path):
    path = _table(tmp_path / "records.csv", "species,lon,lat,occurrence", ["a,1,1,x17", "a,2,2,0"])
    assert (len(read_occurrences(path)), read_occurrences(path).absences) == (2, None)


# -- evaluate ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    path = _table(folder / "a.csv", "species,lon,lat", [f"Aa bb,{x},{y}" for x, y in _places(30)])
    args = ["fit", path, data, *QUICK, "-o", folder / "out"]
    result = CliRunner().invoke(cli.main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return folder / "out"


def test_evaluate_does_not_pool_other_species(fitted, data, run, tmp_path):
    rows = [f"{'Cc dd' if i % 2 else 'Ee ff'},{x},{y}" for i, (x, y) in enumerate(_places(20, 5))]
    path = _table(tmp_path / "others.csv", "species,lon,lat", rows)
    result = run("evaluate", fitted, path, data)
    assert result.exit_code == 1
    assert "no record of 'Aa bb', the species of the model; name those to score" in result.output
    assert "of 'Ee ff', 'Cc dd'" in result.output
    chosen = run("evaluate", fitted, path, data, "-s", "Cc dd")
    assert chosen.exit_code == 0, chosen.output
    assert re.search(r"n_presences +10 ", chosen.output)
    one = _table(tmp_path / "one.csv", "species,lon,lat", [r for r in rows if r[0] == "C"])
    result = run("evaluate", fitted, one, data)
    assert "its records of 'Cc dd' score the model of 'Aa bb'" in result.output
    mine = _table(
        tmp_path / "mine.csv", "species,lon,lat", [*rows, "aa_bb,0.5,0.5", "Aa  bb,3.5,2.5"]
    )
    assert re.search(r"n_presences +2 ", run("evaluate", fitted, mine, data).output)


def test_options_without_effect_on_evaluate(fitted, data, run, tmp_path):
    path = _table(tmp_path / "a.csv", "species,lon,lat", ["Aa bb,0.5,0.5", "Aa bb,1.5,0.5"])
    for option in ("--background", "--seed"):
        result = run("evaluate", fitted, path, data, "--absences", path, option, "5")
        assert result.exit_code == 2
        assert f"{option} has no effect with --absences" in " ".join(result.output.split())


# -- spellings, packed files, GBIF's columns -------------------------------------------------------


def test_spellings_of_a_name_are_one_species(data, run, tmp_path):
    names = ["Bassaricyon alleni"] * 6 + ["bassaricyon alleni"] * 3 + ["Bassaricyon  alleni"] * 2
    rows = [f"{name},{x},{y}" for name, (x, y) in zip(names, _places(11), strict=True)]
    path = _table(tmp_path / "records.csv", "species,lon,lat", rows)
    result = run("fit", path, data, *QUICK, "-s", "BASSARICYON ALLENI", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert (
        "taken as one species, in the commonest spelling: 'Bassaricyon alleni' (6) = "
        "'bassaricyon alleni' (3) = 'Bassaricyon  alleni' (2)"
    ) in result.output
    fitted = mx.load(tmp_path / "out" / "result.json")
    assert (fitted.species, fitted.model.n_presences) == ("Bassaricyon alleni", 11)


def test_authors_make_two_species_and_a_note(tmp_path):
    """Absences are not counted; a subspecies is no author."""
    names = [
        "Aus bus",
        "AUS BUS",
        "Aus bus",
        "Aus bus Schinz, 1825",
        "Aus bus (L.)",
        "Aus bus minor",
    ]
    rows = [f"{name},{x},{y},1" for name, (x, y) in zip(names, _places(6), strict=True)]
    rows = [row.replace("Schinz, 1825", "Schinz 1825") for row in rows]
    path = _table(tmp_path / "a.csv", "species,lon,lat,presence", [*rows, "AUS BUS,1.5,1.5,0"])
    records = read_occurrences(path)
    assert records.names() == ["Aus bus", *[n.replace(",", "") for n in names[3:]]]
    (spelled,) = [note for note in records.notes if "spellings of one name" in note]
    assert "'Aus bus' (2) = 'AUS BUS' (1)" in spelled
    (authors,) = [note for note in records.notes if "by an author alone" in note]
    assert "'Aus bus' and 'Aus bus Schinz 1825'; 'Aus bus' and 'Aus bus (L.)'. To" in authors


def test_packed_tables_parquet_and_multipoints(tmp_path):
    geopandas, shapely = needs("geopandas"), needs("shapely")
    needs("pyarrow")
    text = "species,lon,lat\na,1,2\nb,3,4\n"
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(text.encode()))
    frame = needs("pandas").DataFrame({"species": ["a", "b"], "lon": [1.0, 3.0], "lat": [2.0, 4.0]})
    frame.to_parquet(tmp_path / "r.parquet")
    points = geopandas.points_from_xy(frame.lon, frame.lat)
    geopandas.GeoDataFrame(frame[["species"]], geometry=points, crs="EPSG:4326").to_parquet(
        tmp_path / "points.parquet"
    )
    for name in ("r.csv.gz", "r.parquet", "points.parquet"):
        records = read_occurrences(tmp_path / name)
        assert records.species.tolist() == ["a", "b"]
        assert (records.x.tolist(), records.y.tolist()) == ([1.0, 3.0], [2.0, 4.0])
        assert records.crs == "EPSG:4326"
    many = geopandas.GeoDataFrame(
        {"species": ["a", "b"]},
        geometry=[shapely.MultiPoint([(1, 2), (3, 4)]), shapely.Point(5, 6)],
        crs="EPSG:4326",
    )
    many.to_file(tmp_path / "many.gpkg")
    records = read_occurrences(tmp_path / "many.gpkg")
    assert records.species.tolist() == ["a", "a", "b"]
    assert (records.x.tolist(), records.row.tolist()) == ([1.0, 3.0, 5.0], [0, 0, 1])
    (tmp_path / "nameless.csv.gz").write_bytes(gzip.compress(b"lon,lat\n1,2\n"))
    assert read_occurrences(tmp_path / "nameless.csv.gz").names() == ["nameless"]
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(ValueError, match=r"cut\.csv\.gz: not a whole \.gz file"):
        read_occurrences(tmp_path / "cut.csv.gz")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(OSError, match=r"broken\.parquet: not a Parquet file"):
        read_occurrences(tmp_path / "broken.parquet")


GBIF = "species,decimalLongitude,decimalLatitude,coordinateUncertaintyInMeters,basisOfRecord"


def test_uncertain_places_and_bases_of_record(data, run, tmp_path):
    metres = [50, 200_000, "", 500] * 5
    bases = ["HUMAN_OBSERVATION"] * 14 + ["FOSSIL_SPECIMEN"] * 6
    rows = [f"a,{x},{y},{m},{b}" for (x, y), m, b in zip(_places(20), metres, bases, strict=True)]
    path = _table(tmp_path / "gbif.csv", GBIF, rows)
    hinted = run("fit", path, data, *QUICK, "-o", tmp_path / "hinted")
    assert hinted.exit_code == 0, hinted.output
    # that of the cell in the middle
    cell = needs("pyproj").Geod(ellps="WGS84").inv(6, 5.5, 7, 5.5)[2]
    assert f"5 of 20 records are uncertain by more than a cell ({cell:.0f} m)" in hinted.output
    assert "bases of record: 14 HUMAN_OBSERVATION, 6 FOSSIL_SPECIMEN; choose" in hinted.output
    args = ["--max-uncertainty", "1000", "--basis", "human observation"]
    chosen = run("fit", path, data, *QUICK, *args, "-o", tmp_path / "chosen")
    assert chosen.exit_code == 0, chosen.output
    assert "6 of 20 records left out by their basis" in chosen.output
    assert "5 of 20 records left out, uncertain by more than 1000 m; 5 do not say" in chosen.output
    kept = [i for i in range(20) if i < 14 and metres[i] != 200_000]
    assert mx.load(tmp_path / "chosen" / "result.json").model.n_presences == len(kept)
    wrong = run("fit", path, data, *QUICK, "--basis", "GUESS", "-o", tmp_path / "wrong")
    assert wrong.exit_code == 1
    assert "no record of basis 'GUESS' (--basis); it has 'HUMAN_OBSERVATION'" in wrong.output
    plain = _table(tmp_path / "plain.csv", "species,lon,lat", ["a,1,1"])
    status = ["ABSENT", *["PRESENT"] * 19]
    rows = [f"{row},{s}" for row, s in zip(rows, status, strict=True)]
    absent = _table(tmp_path / "absent.csv", f"{GBIF},occurrenceStatus", rows)
    told = run("check", absent, data)
    assert "bases of record: 13 HUMAN_OBSERVATION, 6 FOSSIL_SPECIMEN; choose" in told.output
    told = run("check", absent, data, *args)
    assert "6 of 19 records left out by their basis (of all: 13 HUMAN" in told.output
    assert "5 of 19 records left out, uncertain by more than 1000 m; 5 do not say" in told.output
    for option, value in (("--basis", "X"), ("--max-uncertainty", "5")):
        refused = run("fit", plain, data, option, value, "-o", tmp_path / "no")
        assert refused.exit_code == 1
        assert f"({option}) asks for" in refused.output
    assert run("fit", plain, data, "--max-uncertainty", "-1").exit_code == 2


def test_a_tiny_target_group_is_worth_a_word(data, run, tmp_path):
    rows = [f"{'ab'[i % 2]},{x},{y}" for i, (x, y) in enumerate(_places(20))]
    path = _table(tmp_path / "records.csv", "species,lon,lat", rows)
    args = ["-s", "a", "--target-group", "-o", tmp_path / "out"]
    result = run("fit", path, data, *QUICK, *args)
    assert result.exit_code == 0, result.output
    assert "a background of 20 cells says little of the region" in result.output


def test_letters_in_capitals_and_short_help(data, run, tmp_path):
    assert species.Settings(features="LQH").features == "lqh"
    assert run("fit", "-h").output == run("fit", "--help").output
    assert run("-h").exit_code == 0
    path = _table(tmp_path / "r.csv", "species,lon,lat", [f"a,{x},{y}" for x, y in _places(20)])
    args = ["-f", "L,LQ", "-m", "1", "--folds", "2", "-o", tmp_path / "tuned"]
    result = run("tune", path, data, *args)
    assert result.exit_code == 0, result.output
    assert "20 records of 1 species: species from column 'species'" in result.output
