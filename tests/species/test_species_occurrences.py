"""Records of species: reading, bringing to a grid, cleaning, thinning, and samples with data."""

import json
import re

import numpy as np
import pytest

from maxent import load
from maxent.species.input.crs import is_geographic
from maxent.species.input.layers.grid import Grid
from maxent.species.input.records.cleaning import clean, thin
from maxent.species.input.records.locating import located
from maxent.species.input.records.occurrences import Occurrences, read_occurrences
from maxent.species.input.records.swd import read_swd, swd_sample, write_swd
from tools import needs

DEGREES = Grid("EPSG:4326", (1.0, 0.0, -80.0, 0.0, -1.0, 10.0), width=40, height=40)
METRES = Grid("EPSG:32719", (1e4, 0.0, 0.0, 0.0, -1e4, 9.9e6), width=100, height=300)


@pytest.fixture(autouse=True)
def _geographic_libraries():
    for module in ("rasterio", "geopandas"):
        needs(module)


def _projected(x, y, source, target):
    transformer = needs("pyproj").Transformer.from_crs(source, target, always_xy=True)
    return transformer.transform(x, y)


def _file(folder, text, name="records.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
    return path


def _records(x, y, crs=None, species=None):
    names = np.array(["a"] * len(x) if species is None else species, dtype=object)
    x, y = np.asarray(x, float), np.asarray(y, float)
    return Occurrences(names, x, y, crs, np.arange(2, len(x) + 2), "records.csv")


def _everywhere(cells):
    return np.ones(len(cells), dtype=bool)


# -- recognising columns -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "crs"),
    [
        ("species,longitude,latitude", "EPSG:4326"),
        ("Species,Long,Lat", "EPSG:4326"),
        ("SCIENTIFIC_NAME,LON,LAT", "EPSG:4326"),
        ("scientificName,decimalLongitude,decimalLatitude", "EPSG:4326"),
        ("species,dd long,dd lat", "EPSG:4326"),
        ("taxon,x,y", None),
        ("name,Easting,Northing", None),
        ("one,two,three", None),
        ('"species","lon","lat"', "EPSG:4326"),
        (" species , lon , lat ", "EPSG:4326"),
    ],
)
def test_columns_are_recognised(tmp_path, header, crs):
    path = _file(tmp_path, f"{header}\nb,-65.25,-10.5\na,-64,3\nb,1e1,0\n")
    records = read_occurrences(path)
    assert records.species.tolist() == ["b", "a", "b"]
    assert records.x.tolist() == [-65.25, -64.0, 10.0]
    assert records.y.tolist() == [-10.5, 3.0, 0.0]
    assert records.row.tolist() == [2, 3, 4]
    assert (records.crs, records.source, records.notes) == (crs, "records.csv", ())
    assert records.names() == ["b", "a"]
    assert records.of_species("b").x.tolist() == [-65.25, 10.0]
    assert records.of_species("b").row.tolist() == [2, 4]
    assert len(records.take(np.array([1]))) == 1


def test_degrees_go_before_other_coordinates_and_species_before_names(tmp_path):
    path = _file(
        tmp_path,
        "name,x,y,lat,lon,scientificName,species\nn,500000,9000000,-9,-75,S L.,s\n",
    )
    records = read_occurrences(path)
    assert (records.species[0], records.x[0], records.y[0]) == ("s", -75.0, -9.0)
    named = read_occurrences(path, species="name", x="X", y="y", crs="EPSG:32718")
    assert (named.species[0], named.x[0], named.y[0]) == ("n", 5e5, 9e6)
    assert named.crs == "EPSG:32718"


@pytest.mark.parametrize("name", ["gbif.csv", "gbif.txt", "gbif.tsv"])
def test_gbif_tables_are_separated_by_tabs_and_do_not_quote(tmp_path, name):
    text = (
        "gbifID\tspecies\tlocality\tdecimalLatitude\tdecimalLongitude\n"
        '1\tBradypus torquatus\t"the bay, north\t-14.5\t-39.25\n'
        "2\tBradypus torquatus\t\t\t\n"
    )
    records = read_occurrences(_file(tmp_path, text, name))
    assert records.species.tolist() == ["Bradypus torquatus"] * 2
    np.testing.assert_array_equal(records.x, [-39.25, np.nan])
    np.testing.assert_array_equal(records.y, [-14.5, np.nan])


def test_quoted_tabs_commas_and_line_breaks(tmp_path):
    text = 'species\tlocality\tlon\tlat\n"a"\t"x\ty"\t"1"\t"2"\n'
    quoted = read_occurrences(_file(tmp_path, '"species"' + text[7:]))
    assert (quoted.species[0], quoted.x[0], quoted.y[0]) == ("a", 1.0, 2.0)
    text = '"species, in full",note,lon,lat\n"a, b","two\nlines",1,2\n\n,,,\nc,,3,4\n'
    records = read_occurrences(_file(tmp_path, text), species="species, in full")
    assert records.species.tolist() == ["a, b", "c"]
    assert records.row.tolist() == [2, 6]


def test_semicolons_with_decimal_commas(tmp_path):
    records = read_occurrences(
        _file(tmp_path, "art;lon;lat\na;-65,25;-10,5\nb;1.5;NA\n"), species="art"
    )
    np.testing.assert_array_equal(records.x, [-65.25, 1.5])
    np.testing.assert_array_equal(records.y, [-10.5, np.nan])
    three = read_occurrences(_file(tmp_path, "art;o;n\na;-65,25;-10,5\n"))
    assert (three.species[0], three.x[0], three.y[0]) == ("a", -65.25, -10.5)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_names_outside_ascii(tmp_path, encoding):
    path = _file(tmp_path, "species,lon,lat\nÄhre 草,1,2\n", encoding=encoding)
    records = read_occurrences(path)
    assert records.species.tolist() == ["Ähre 草"]
    assert records.notes == ()


@pytest.mark.parametrize(
    ("names", "encoding"),
    [
        (["Ähre"], "cp1252"),  # the same bytes in latin-1
        (["Žižkov", "Œuvre", "“Aus” bus", "Plzeňská".replace("ň", "n")], "cp1252"),
        (["Côte d’Ivoire", "L’Aquila", "Nord–Sud", "Hawai’i"], "cp1252"),
        (["São Paulo", "Ñuñoa", "Ålesund", "QUÉBEC", "12° N"], "cp1252"),
        (["São Paulo", "Ñuñoa", "Ålesund", "QUÉBEC", "12° N"], "mac-roman"),
        (["Émile"], "mac-roman"),
        (["Türkiye", "“Aus” bus", "Müller’s"], "mac-roman"),
        (["Zürich \x81", "Göteborg", "Malmö"], "latin-1"),  # a byte that Windows-1252 has not
    ],
)
def test_single_bytes_are_read_in_the_likeliest_encoding(tmp_path, names, encoding):
    text = "".join(f"{name},1,2\n" for name in names)
    records = read_occurrences(_file(tmp_path, f"species,lon,lat\n{text}", encoding=encoding))
    assert records.species.tolist() == names
    (note,) = records.notes
    assert note.startswith("records.csv: not UTF-8; read as ")
    assert f"({encoding}), with words such as " in note
    assert located(records, DEGREES)[1][0] == note


def test_without_a_species_column_the_file_names_the_species(tmp_path):
    records = read_occurrences(_file(tmp_path, "lon,lat\n1,2\n3,4\n", "Puma concolor.csv"))
    assert records.species.tolist() == ["Puma concolor"] * 2


def test_records_without_a_name_are_left_out_with_a_note(tmp_path):
    records = read_occurrences(_file(tmp_path, "species,lon,lat\na,1,2\n,3,4\na,5,6\n"))
    assert records.x.tolist() == [1.0, 5.0]
    assert records.row.tolist() == [2, 4]
    assert records.notes == (
        "records.csv: 1 records without a species name left out, the first in row 3",
    )


# -- coordinate reference systems of files -------------------------------------------------------


@pytest.mark.parametrize(
    ("datum", "crs"),
    [
        ("WGS84", "EPSG:4326"),
        ("EPSG:4326", "EPSG:4326"),
        ("NAD27", "EPSG:4267"),
        ("4269", "EPSG:4269"),
        ("not recorded", "EPSG:4326"),
        ("", "EPSG:4326"),
        ("WGS_1984", "EPSG:4326"),
    ],
)
def test_the_datum_sets_the_crs(tmp_path, datum, crs):
    header = "species,decimalLongitude,decimalLatitude,geodeticDatum"
    path = _file(tmp_path, f"{header}\na,-90,40,{datum}\n")
    assert read_occurrences(path).crs == crs
    assert read_occurrences(path, crs="EPSG:4258").crs == "EPSG:4258"


def test_a_datum_does_not_make_metres_degrees(tmp_path):
    metres = "species,x,y,geodeticDatum\na,500000,4100000,WGS84\n"
    assert read_occurrences(_file(tmp_path, metres)).crs is None
    longitudes = "species,longitude,latitude\na,500000,4100000\n"
    assert read_occurrences(_file(tmp_path, longitudes)).crs is None
    stated = "species,x,y,crs\na,500000,4100000,EPSG:32633\n"
    assert read_occurrences(_file(tmp_path, stated)).crs == "EPSG:32633"


def test_records_of_several_datums_are_brought_to_the_commonest(tmp_path):
    path = _file(
        tmp_path,
        "species,longitude,latitude,geodeticDatum\n"
        "a,-90,40,WGS84\na,-91,41,NAD27\na,-92,42,WGS84\na,-93,43,\n",
    )
    records = read_occurrences(path)
    expected = _projected(-91, 41, "EPSG:4267", "EPSG:4326")
    assert records.crs == "EPSG:4326"
    assert records.x.tolist() == [-90.0, expected[0], -92.0, -93.0]
    assert records.y.tolist() == [40.0, expected[1], 42.0, 43.0]
    assert abs(expected[0] + 91) > 1e-5
    assert records.notes == (
        "records.csv: 1 records reprojected from EPSG:4267 to the commonest datum, EPSG:4326",
    )


# -- frames and vector files ---------------------------------------------------------------------


def test_frames():
    pandas = needs("pandas")
    frame = pandas.DataFrame(
        {"Species": ["a", None, "b"], "lon": [1.5, 2, None], "lat": ["2.5", "3", "NA"]},
        index=[7, 7, 9],
    )
    records = Occurrences.from_frame(frame)
    assert records.species.tolist() == ["a", "b"]
    np.testing.assert_array_equal(records.x, [1.5, np.nan])
    np.testing.assert_array_equal(records.y, [2.5, np.nan])
    assert records.row.tolist() == [0, 2]
    assert (records.crs, records.source) == ("EPSG:4326", "frame")
    plain = Occurrences.from_frame(pandas.DataFrame([["a", 1, 2]], columns=["k", "l", "m"]))
    assert (plain.species[0], plain.x[0], plain.y[0], plain.crs) == ("a", 1.0, 2.0, None)
    with pytest.raises(ValueError, match=r"frame, row 1: 'lat' is 'north', expected a number"):
        Occurrences.from_frame(frame.assign(lat=["1", "north", "2"]))


def test_geopandas_in_and_out():
    records = _records([300000, 310000, np.nan], [8.9e6, 8.8e6, np.nan], "EPSG:32719")
    frame = records.to_geopandas()
    assert frame.crs.to_epsg() == 32719
    assert frame["species"].tolist() == ["a"] * 3
    assert frame.geometry[0].coords[0] == (300000.0, 8.9e6)
    back = Occurrences.from_frame(frame)
    np.testing.assert_array_equal(back.x, records.x)
    np.testing.assert_array_equal(back.y, records.y)
    assert back.crs == "EPSG:32719"
    assert Occurrences.from_frame(frame, crs="EPSG:32718").crs == "EPSG:32718"
    other = Occurrences.from_frame(frame.assign(p=[1, 2, 3], q=[4, 5, 6]), x="p", y="q")
    assert (other.x.tolist(), other.y.tolist()) == ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    moved = records.to_crs("EPSG:4326")
    expected = frame.iloc[:2].to_crs("EPSG:4326").geometry
    np.testing.assert_allclose(moved.x[:2], expected.x, rtol=1e-12)
    np.testing.assert_allclose(moved.y[:2], expected.y, rtol=1e-12)
    assert np.isnan(moved.x[2])
    assert moved.crs == "EPSG:4326"
    with pytest.raises(ValueError, match="reference system of the records is not known"):
        _records([1], [2]).to_crs("EPSG:4326")


@pytest.mark.parametrize("name", ["a.gpkg", "a.geojson", "a.json", "a.shp"])
def test_vector_files(tmp_path, name):
    geopandas = needs("geopandas")
    frame = geopandas.GeoDataFrame(
        {"species": ["Ähre", "b"]},
        geometry=geopandas.points_from_xy([-65.25, 3.0], [-10.5, 4.0]),
        crs="EPSG:4326",
    )
    path = tmp_path / name
    frame.to_file(path, driver="GeoJSON" if name.endswith("json") else None)
    records = read_occurrences(path)
    assert records.species.tolist() == ["Ähre", "b"]
    assert (records.x.tolist(), records.y.tolist()) == ([-65.25, 3.0], [-10.5, 4.0])
    assert (records.crs, records.source) == ("EPSG:4326", name)


def test_vector_files_without_species_with_gaps_and_with_several_layers(tmp_path):
    geopandas = needs("geopandas")
    frame = geopandas.GeoDataFrame(
        {"kept": [1, 2]}, geometry=[_point(1.0, 2.0), None], crs="EPSG:4326"
    )
    frame.to_file(tmp_path / "lynx.gpkg", layer="first")
    records = read_occurrences(tmp_path / "lynx.gpkg")
    assert records.species.tolist() == ["lynx", "lynx"]
    np.testing.assert_array_equal(records.x, [1.0, np.nan])
    frame.to_file(tmp_path / "lynx.gpkg", layer="second")
    (note,) = read_occurrences(tmp_path / "lynx.gpkg").notes
    assert note == "lynx.gpkg: More than one layer; 'first' was read, not 'second'"


def _point(x, y):
    geopandas = needs("geopandas")
    return geopandas.points_from_xy([x], [y])[0]


def test_other_geometries_name_the_first_row(tmp_path):
    geopandas = needs("geopandas")
    point = _point(0.0, 0.0)
    frame = geopandas.GeoDataFrame(
        {"species": ["a", "b"]}, geometry=[point, point.buffer(1.0)], crs="EPSG:4326"
    )
    frame.to_file(tmp_path / "a.gpkg")
    with pytest.raises(ValueError, match=r"a\.gpkg, row 1: geometry Polygon, expected a Point"):
        read_occurrences(tmp_path / "a.gpkg")


# -- files that cannot be read -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"records\.csv: the file is empty \(0 bytes\)"),
        ("\n \n", r"records\.csv: the file is blank"),
        ("species,lon,lat\n", r"records\.csv: only a header and no records"),
        ("species,lon,lat\n\n,,\n", r"records\.csv: only a header and no records"),
        (
            "species,where,when\na,b,c\n",
            r"records\.csv: no column recognised for x \(--x\) and y \(--y\); the "
            r"columns are 'species', 'where', 'when'",
        ),
        ("species,lon,north\na,1,2\n", r"for y \(--y\); the columns are 'species'"),
        ("p,q,r\na,b,3\n", r"no column recognised for x"),
        ("p,q,r,s\na,1,2,3\n", r"no column recognised for x"),
        (
            "species,lon,lat\na,1,2\nb,12W,3\n",
            r"records\.csv, line 3: 'lon' is '12W', expected a number",
        ),
        ("species,lon,lat\na,1,inf\n", r"line 2: 'lat' is 'inf', expected a number"),
        ('species,lon,lat\na,"1,5",2\n', r"line 2: 'lon' is '1,5', expected a number"),
        ("species,lon,lat\na,1,2\na, b,3,4\n", r"line 3: 4 fields, the header has 3"),
        ('species,lon,lat\na,1,2\n"b,3,4\nc,5,6\n', r"line 3: cannot be read as a table"),
        ("a,1.5,2.5\na,3,4\n", r"the first line \(a,1\.5,2\.5\) holds numbers where names"),
        ("species,lon,lat\n,1,2\n", r"the column of species is blank in every record"),
        (b"PK\x03\x04\x00\x00", r"records\.csv: not a text table but a binary file"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_occurrences(_file(tmp_path, text))


def test_wrong_options_are_named(tmp_path):
    path = _file(tmp_path, "species,lon,lat\na,1,2\n")
    for option, flag in (("species", "species-column"), ("x", "x"), ("y", "y")):
        message = rf"records\.csv: no column 'foo', as {option}= \(--{flag}\) says; the columns"
        with pytest.raises(ValueError, match=message):
            read_occurrences(path, **{option: "foo"})
    with pytest.raises(
        ValueError, match=r"crs='EPSG:1' \(--crs\) is not a known coordinate reference"
    ):
        read_occurrences(path, crs="EPSG:1")
    with pytest.raises(ValueError, match=r"no record of 'b'; it has 'a'"):
        read_occurrences(path).of_species("b")


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv: no such file"):
        read_occurrences(tmp_path / "nothing.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_occurrences(tmp_path)
    for name in ("a.gpkg", "a.geojson", "a.shp"):
        with pytest.raises(OSError, match=rf"{re.escape(name)}: not a vector file"):
            read_occurrences(_file(tmp_path, "garbage", name))
    empty = {"type": "FeatureCollection", "features": []}
    with pytest.raises(ValueError, match=r"a\.json: only a header and no records"):
        read_occurrences(_file(tmp_path, json.dumps(empty), "a.json"))


# -- onto a grid ---------------------------------------------------------------------------------


def test_records_of_another_crs_are_reprojected():
    x, y = np.array([-70.0, -69.5, np.nan]), np.array([-12.0, -13.25, -12.0])
    records, notes = located(_records(x, y, "EPSG:4326"), METRES)
    expected = _projected(x[:2], y[:2], 4326, 32719)
    np.testing.assert_array_equal(records.x[:2], expected[0])
    np.testing.assert_array_equal(records.y[:2], expected[1])
    assert np.isnan(records.x[2])
    assert records.crs == "EPSG:32719"
    assert notes == [
        "records.csv: 3 records reprojected from EPSG:4326 to EPSG:32719, the CRS of the layers"
    ]
    back, _ = located(records, DEGREES)
    np.testing.assert_allclose(back.x[:2], x[:2], atol=1e-9)
    np.testing.assert_allclose(back.y[:2], y[:2], atol=1e-9)


def test_degrees_without_a_crs_on_a_projected_grid_are_reprojected():
    records, notes = located(_records([-70.0, -69.5], [-12.0, -13.25]), METRES)
    expected = _projected(-70.0, -12.0, 4326, 32719)
    assert (records.x[0], records.y[0]) == expected
    assert notes == [
        "records.csv: wrong CRS detected and reprojected: the records are in degrees, the layers "
        "in EPSG:32719; taken as EPSG:4326"
    ]
    world = Grid("EPSG:8857", (1e5, 0.0, -1.7e7, 0.0, -1e5, 8.4e6), width=340, height=168)
    around_origin, _ = located(_records([-70.0, 30.0], [-12.0, 50.0]), world)
    expected = _projected(30.0, 50.0, 4326, 8857)
    assert (around_origin.x[1], around_origin.y[1]) == expected


def test_records_on_the_grid_are_taken_as_they_are():
    metres = _records([15e3, 25e3, -5.0], [9.8e6, 9.7e6, 9.7e6])
    records, notes = located(metres, METRES)
    np.testing.assert_array_equal(records.x, metres.x)
    assert records.crs == "EPSG:32719"
    assert notes == [
        "records.csv: no coordinate reference system given, taken to be that of the layers, "
        "EPSG:32719"
    ]
    unknown = Grid(None, DEGREES.transform, DEGREES.width, DEGREES.height)
    records, notes = located(_records([-70.5], [0.5], "EPSG:4326"), unknown)
    assert (records.x[0], records.crs, notes) == (-70.5, None, [])
    blank, notes = located(_records([np.nan], [1.0]), METRES)
    assert np.isnan(blank.x[0])
    assert notes == []


def test_longitudes_are_turned_onto_the_grid():
    records, notes = located(_records([290.5, -60.0, 100.0], [0.5, 1.5, 2.5], "EPSG:4326"), DEGREES)
    assert records.x.tolist() == [-69.5, -60.0, 100.0]
    assert notes == ["records.csv: 1 longitudes turned by 360 degrees onto the grid"]
    pacific = Grid("EPSG:4326", (1.0, 0.0, 0.0, 0.0, -1.0, 90.0), width=360, height=180)
    records, _ = located(_records([-170.0, 170.0, 360.0], [5.0, 5.0, 5.0], "EPSG:4326"), pacific)
    assert records.x.tolist() == [190.0, 170.0, 0.0]


@pytest.mark.parametrize("crs", [None, "EPSG:4326"])
def test_swapped_longitude_and_latitude_are_refused(crs):
    records = _records([-12.0, 5.5, np.nan, -20.0], [-70.0, -60.0, 0.0, -55.5], crs)
    message = (
        r"longitude and latitude \(x and y\) look swapped: records\.csv, row 2: \(-12, -70\) lies "
        r"outside the layers \(x -80 to -40, y -30 to 10\).*x= \(--x\).*y= \(--y\)"
    )
    with pytest.raises(ValueError, match=message):
        located(records, DEGREES)
    unknown = Grid(None, DEGREES.transform, DEGREES.width, DEGREES.height)
    with pytest.raises(ValueError, match="look swapped"):
        located(records, unknown)
    with pytest.raises(ValueError, match="look swapped"):
        located(_records([-12.0, -13.0], [-70.0, -69.5], crs), METRES)


def test_the_example_of_swapped_coordinates_is_one_outside():
    x, y = [-70.0] + [-12.0] * 12, [-12.0] + [-70.0] * 12
    with pytest.raises(ValueError, match=r"look swapped: records\.csv, row 3: \(-12, -70\)"):
        located(_records(x, y), DEGREES)


def test_swapped_beyond_ninety_degrees_is_refused_on_any_grid():
    records = _records([-25.0, -30.0], [135.0, 140.0])
    australia = Grid("EPSG:4326", (1.0, 0.0, 110.0, 0.0, -1.0, -10.0), width=45, height=35)
    with pytest.raises(ValueError, match="look swapped"):
        located(records, australia)
    albers = Grid("EPSG:3577", (1e4, 0.0, -2e6, 0.0, -1e4, -1e6), width=400, height=400)
    with pytest.raises(ValueError, match="look swapped"):
        located(records, albers)


def test_half_of_the_records_swapped_is_no_reason_to_refuse():
    records, _ = located(_records([-12.0, -70.0], [-70.0, -12.0], "EPSG:4326"), DEGREES)
    assert records.x.tolist() == [-12.0, -70.0]


def test_metres_on_a_grid_in_degrees_are_refused():
    records = _records([500000.0, 510000.0], [9.1e6, 9.2e6])
    message = r"row 2: \(500000, 9100000\): not degrees.*look like metres.*crs= \(--crs\)"
    with pytest.raises(ValueError, match=message):
        located(records, DEGREES)
    typing_error, _ = located(_records([-70.0, -60.0, 9999.0], [0.0, 1.0, 9999.0]), DEGREES)
    assert typing_error.x.tolist() == [-70.0, -60.0, 9999.0]


def test_a_grid_without_a_crs_in_another_unit_is_refused():
    metres = Grid(None, METRES.transform, METRES.width, METRES.height)
    with pytest.raises(
        ValueError, match=r"the records are in degrees, the layers seem.*--layers-crs"
    ):
        located(_records([-70.0], [-12.0], "EPSG:4326"), metres)
    with pytest.raises(
        ValueError, match=r"the records are in degrees, the layers seem.*--layers-crs"
    ):
        located(_records([-70.0], [-12.0]), metres)
    degrees = Grid(None, DEGREES.transform, DEGREES.width, DEGREES.height)
    with pytest.raises(
        ValueError, match="the records are in metres, the layers seem to be in degr"
    ):
        located(_records([5e5], [9.1e6], "EPSG:32719"), degrees)


def test_is_geographic():
    assert is_geographic("EPSG:4326", (0, 0, 9e6, 9e6))
    assert not is_geographic("EPSG:32719", (0, 0, 1, 1))
    assert is_geographic(None, (-180.2, -90.0, 180.2, 90.0))
    assert is_geographic(None, (0.0, -90.0, 360.0, 90.0))
    assert not is_geographic(None, (0.0, 0.0, 100.0, 92.0))


# -- cleaning ------------------------------------------------------------------------------------


def _messy():
    x = [-79.5, np.nan, -79.2, 12.0, -70.5, -60.5, -79.9, -55.5, -55.4]
    y = [9.5, 1.0, 9.1, 1.0, 0.5, 0.5, 9.2, -20.5, -20.6]
    return _records(x, y, "EPSG:4326")


def _no_sea(cells):
    sea = DEGREES.cells_at([-60.5], [0.5])
    return ~np.isin(cells, sea)


def test_cleaning_counts_each_reason_and_names_records():
    cleaned = clean(_messy(), DEGREES, _no_sea)
    assert cleaned.occurrences.row.tolist() == [2, 6, 9]
    assert cleaned.cell.tolist() == [0, 9 * 40 + 9, 30 * 40 + 24]
    assert [(s.what, s.records, s.examples) for s in cleaned.steps] == [
        ("missing coordinates", 1, ("records.csv, row 3: (missing, 1)",)),
        ("outside the layers", 1, ("records.csv, row 5: (12, 1)",)),
        ("in the sea or under nodata", 1, ("records.csv, row 7: (-60.5, 0.5)",)),
        (
            "duplicates in a cell",
            3,
            (
                "records.csv, row 4: (-79.2, 9.1)",
                "records.csv, row 8: (-79.9, 9.2)",
                "records.csv, row 10: (-55.4, -20.6)",
            ),
        ),
    ]
    assert cleaned.notes == []


def test_duplicates_can_be_kept():
    cleaned = clean(_messy(), DEGREES, _no_sea, keep_duplicates=True)
    assert cleaned.occurrences.row.tolist() == [2, 4, 6, 8, 9, 10]
    assert np.bincount(cleaned.cell)[[0, 369, 1224]].tolist() == [3, 1, 2]
    assert [s.what for s in cleaned.steps] == [
        "missing coordinates",
        "outside the layers",
        "in the sea or under nodata",
    ]


def test_at_most_five_examples_and_no_step_without_records():
    records = _records(np.append(np.full(9, 50.0), [-70.0, -60.0, -50.0]), np.zeros(12))
    cleaned = clean(records, DEGREES, _everywhere)
    (step,) = cleaned.steps
    assert (step.records, len(step.examples)) == (9, 5)
    assert cleaned.cell.tolist() == DEGREES.cells_at([-70, -60, -50], [0, 0, 0]).tolist()


def test_cleaning_thins_last():
    # 29.9 and 69.7 km between neighbours along a meridian
    y = np.array([0.0, 0.27, 0.9, 5.0])
    fine = Grid("EPSG:4326", (0.1, 0.0, -80.0, 0.0, -0.1, 10.0), width=100, height=200)
    cleaned = clean(_records(np.full(4, -75.05), y), fine, _everywhere, thin_km=40)
    assert cleaned.occurrences.y.tolist() in ([0.0, 0.9, 5.0], [0.27, 0.9, 5.0])
    (step,) = cleaned.steps
    assert (step.what, step.records) == ("closer than 40 km to another", 1)


@pytest.mark.parametrize(
    ("crs", "unit", "notes"),
    [
        ("EPSG:32719", 1.0, []),
        ("EPSG:2263", 1200 / 3937, []),
        (None, 1.0, ["the layers do not state their unit: thinned as if 2 km were 2000"]),
    ],
)
def test_thinning_on_a_projected_grid_is_in_km(crs, unit, notes):
    x = np.array([0.0, 1990.0, 3995.0, 9000.0, 9000.0, 20000.0]) / unit
    grid = Grid(crs, (100 / unit, 0.0, -50 / unit, 0.0, -100 / unit, 5000 / unit), 300, 100)
    cleaned = clean(_records(x, np.zeros(6)), grid, _everywhere, thin_km=2.0, minimum=1)
    np.testing.assert_array_equal(cleaned.occurrences.x, x[[0, 2, 3, 5]])
    assert cleaned.notes == notes


def test_no_record_left_says_where_they_went():
    records = _records([np.nan, 50.0, 51.0], [0.0, 0.0, 0.0])
    message = (
        r"a: none of 3 records can be used: 1 missing coordinates \(records\.csv, row 2: \(missing,"
        r" 0\)\); 2 outside the layers \(records\.csv, row 3: \(50, 0\)\)\. Check the coordinate "
        r"reference system \(--crs\)"
    )
    with pytest.raises(ValueError, match=message):
        clean(records, DEGREES, _everywhere)
    sea = r"2 in the sea or under nodata \(records\.csv, row 2: \(-70, 0\)\)\. Check the nodata"
    with pytest.raises(ValueError, match=sea):
        clean(_records([-70.0, -60.0], [0.0, 0.0]), DEGREES, lambda cells: cells < 0)


def test_too_few_records():
    records = _records([-70.0, -60.0, -60.1, 50.0], [0.0, 0.5, 0.4, 0.0])
    message = r"a: 3 of 4 records can be used, at least 4 are needed: 1 outside the layers"
    with pytest.raises(ValueError, match=message):
        clean(records, DEGREES, _everywhere, keep_duplicates=True, minimum=4)
    assert len(clean(records, DEGREES, _everywhere).cell) == 3
    with pytest.raises(ValueError, match=r"a: 1 of 1 records .* are needed\. Add records"):
        clean(_records([-70.0], [0.0]), DEGREES, _everywhere)
    near = _records([-70.0, -60.0, -50.0, -50.1], np.zeros(4))
    message = r"a: 1 of 4 .* 3 closer than 9000 km to another \(.*\)\. Thin to a smaller distance"
    with pytest.raises(ValueError, match=message):
        clean(near, DEGREES, _everywhere, thin_km=9000)
    with pytest.raises(ValueError, match=r"a: 2 of 4 .*\. Add records from other cells"):
        clean(_records([-70.0, -60.0, -60.0, -60.0], np.zeros(4)), DEGREES, _everywhere)


@pytest.mark.parametrize("keep", [False, True])
def test_all_records_in_one_cell(keep):
    records = _records([-70.1, -70.2, -70.3, -70.4], [0.1, 0.2, 0.3, 0.4])
    message = r"a: all 4 records lie in one cell of 1 x 1 \(records\.csv, row 2: \(-70\.1, 0\.1\)\)"
    with pytest.raises(ValueError, match=message):
        clean(records, DEGREES, _everywhere, keep_duplicates=keep)
    one = clean(records, DEGREES, _everywhere, keep_duplicates=keep, minimum=1)
    assert len(one.cell) == (4 if keep else 1)


# -- thinning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857", "EPSG:3413", None])
@pytest.mark.parametrize("distance", [30.0, 400.0, 40000.0])
def test_thinning_is_maximal(crs, distance):
    pyproj = needs("pyproj")
    rng = np.random.default_rng(3)
    if crs is None:
        x, y = rng.uniform(0, 2000, (2, 300))
        between = np.hypot(x[:, None] - x, y[:, None] - y)
    else:  # across the date line and near the pole
        longitude, latitude = rng.uniform(170, 190, 300), rng.uniform(60, 85, 300)
        pairs = [np.tile(v, 300) for v in (longitude, latitude)]
        pairs += [np.repeat(v, 300) for v in (longitude, latitude)]
        between = np.reshape(pyproj.Geod(ellps="WGS84").inv(*pairs)[2], (300, 300)) / 1e3
        to_map = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
        x, y = to_map.transform(longitude, latitude)
    kept = thin(x, y, distance, crs=crs, seed=1)
    assert np.array_equal(kept, np.unique(kept))
    among = between[np.ix_(kept, kept)] + np.where(np.eye(len(kept)) > 0, np.inf, 0)
    assert among.min() >= distance * (1 - 1e-7)
    others = np.setdiff1d(np.arange(300), kept)
    assert (between[np.ix_(others, kept)].min(axis=1) < distance * (1 + 1e-7)).all()
    assert np.array_equal(kept, thin(x, y, distance, crs=crs, seed=1))


def test_thinning_is_exact_at_the_limit():
    """A hundredth of a km on either side of the geodesic, where chords cannot tell."""
    pyproj = needs("pyproj")
    for latitude in (0.0, 60.0):
        _, _, metres = pyproj.Geod(ellps="WGS84").inv(178.0, latitude, -176.5, latitude)
        for off, left in ((-0.01, 2), (0.01, 1)):
            km = metres / 1e3 + off
            kept = thin([178.0, -176.5], [latitude] * 2, km, crs="EPSG:4326")
            assert kept.size == left


def test_thinning_tries_several_orders():
    # a star: its middle alone, or the ends of its five arms
    angle = np.arange(5) * 2 * np.pi / 5
    x, y = np.append(0, np.cos(angle)), np.append(0, np.sin(angle))
    for seed in range(20):
        assert thin(x, y, 1.1, seed=seed).tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="must be positive, got 0"):
        thin(x, y, 0.0)


def test_points_at_the_distance_itself_stay():
    assert thin([0.0, 1.0, 2.0], [0.0] * 3, 1.0).tolist() == [0, 1, 2]
    assert thin([0.0, 0.0], [0.0, 0.0], 1.0).size == 1


# -- samples with data ---------------------------------------------------------------------------

SAMPLES = "species,dd long,dd lat,rain,soil\nb,-65.25,-10.5,1.5,1\na,-64,-11,2,3\nb,-63,-12,4,1\n"
BACKGROUND = "species,dd long,dd lat,rain,soil\nbackground,1,2,0.5,2\nbackground,3,4,0.75,1\n"


def test_reading_samples_with_data(tmp_path):
    table = read_swd(_file(tmp_path, SAMPLES), categorical=["soil"])
    assert table.species.tolist() == ["b", "a", "b"]
    assert table.coordinates.tolist() == [[-65.25, -10.5], [-64.0, -11.0], [-63.0, -12.0]]
    assert list(table.X.columns) == ["rain", "soil"]
    assert table.X["rain"].tolist() == [1.5, 2.0, 4.0]
    assert table.X["soil"].tolist() == [1, 3, 1]
    assert table.X["soil"].dtype == np.int64
    assert (table.source, table.notes) == ("records.csv", ())
    unknown = _file(tmp_path, "taxa;e;n;v\na;1,5;2;3\n")
    named = read_swd(unknown, x="e", y="n")
    assert named.coordinates.tolist() == [[1.5, 2.0]]
    assert named.X.to_dict("list") == {"v": [3.0]}
    without = read_swd(unknown)
    assert without.coordinates is None
    assert without.X.to_dict("list") == {"e": [1.5], "n": [2.0], "v": [3.0]}
    assert without.columns == (
        "species from column 'taxa', no coordinates (name them with --x and --y), variables 'e', "
        "'n', 'v'"
    )
    by_name = read_swd(_file(tmp_path, "v,lat,lon,species\n3,2,1,a\n"))
    assert by_name.coordinates.tolist() == [[1.0, 2.0]]
    assert (by_name.species[0], by_name.X["v"][0]) == ("a", 3.0)


def test_rows_with_missing_variables_are_left_out(tmp_path):
    text = "species,x,y,v,c\na,1,1,1,1\na,2,2,,1\na,3,3,-9999,1\na,4,4,NA,1\na,5,5,2,\na,6,6,3,2\n"
    table = read_swd(_file(tmp_path, text), categorical=["c"])
    assert table.X.to_dict("list") == {"v": [1.0, 3.0], "c": [1, 2]}
    assert table.coordinates.tolist() == [[1.0, 1.0], [6.0, 6.0]]
    assert table.notes == ("records.csv: 4 of 6 rows left out, a variable is missing there",)
    blank = read_swd(_file(tmp_path, "species,x,y,v\na,,,1\na,,,2\n"))
    assert (blank.coordinates, blank.notes) == (None, ())
    partly = read_swd(_file(tmp_path, "species,x,y,v\na,,,1\na,5,5,2\n"))
    assert partly.coordinates is None
    assert partly.notes == ("records.csv: 1 rows without coordinates, so places are not used",)


@pytest.mark.parametrize(
    ("text", "categorical", "message"),
    [
        ("", (), r"records\.csv: the file is empty"),
        ("species,x,y,v\n", (), r"records\.csv: only a header and no records"),
        (
            "species,x,y\na,1,2\n",
            (),
            r"columns are 'species', 'x', 'y'; expected at least one variable beside",
        ),
        (
            "species,x,y,v\na,1,2,3\na,1,2,clay\n",
            (),
            r"records\.csv, line 3: 'v' is 'clay', expected a number; .*\(--categorical\)",
        ),
        (
            "species,x,y,v\na,1,2,3\n",
            ["w"],
            r"'w' \(--categorical\) is not among the variables 'v'",
        ),
        (
            "species,x,y,v,w\na,1,2,3,\na,1,2,,-9999\n",
            (),
            r"every row lacks a variable .* with the most gaps, which is 'w'",
        ),
    ],
)
def test_samples_that_cannot_be_read(tmp_path, text, categorical, message):
    with pytest.raises(ValueError, match=message):
        read_swd(_file(tmp_path, text), categorical=categorical)


def test_background_and_presences_make_a_sample(tmp_path):
    samples = read_swd(_file(tmp_path, SAMPLES, "s.csv"), categorical=["soil"])
    background = read_swd(_file(tmp_path, BACKGROUND, "b.csv"), categorical=["soil"])
    sample = swd_sample(samples, background, "b", ["soil"])
    assert sample.X.to_dict("list") == {"rain": [0.5, 0.75, 1.5, 4.0], "soil": [2, 1, 1, 1]}
    assert sample.X["soil"].dtype == np.int64
    assert sample.counts.tolist() == [0, 0, 1, 1]
    assert sample.background.tolist() == [True, True, False, False]
    assert sample.coordinates.tolist() == [[1, 2], [3, 4], [-65.25, -10.5], [-63, -12]]
    with pytest.raises(ValueError, match=r"s\.csv: no row of 'c'; it has 'b', 'a'"):
        swd_sample(samples, background, "c")


def test_variables_must_be_the_same(tmp_path):
    samples = read_swd(_file(tmp_path, SAMPLES, "s.csv"))
    lacking = read_swd(_file(tmp_path, "species,x,y,rain\nq,1,2,0.5\n", "b.csv"))
    with pytest.raises(ValueError, match=r"b\.csv has no column 'soil', which s\.csv has"):
        swd_sample(samples, lacking, "b")
    more = read_swd(_file(tmp_path, "species,x,y,tide,soil,rain\nq,1,2,9,2,0.5\n", "b.csv"))
    with pytest.raises(ValueError, match=r"s\.csv has no column 'tide', which b\.csv has"):
        swd_sample(samples, more, "b")
    turned = read_swd(_file(tmp_path, "species,x,y,soil,rain\nq,1,2,2,0.5\n", "b.csv"))
    assert swd_sample(samples, turned, "b").X["rain"].tolist() == [0.5, 1.5, 4.0]


def test_categories_are_text_in_both_tables_or_numbers_in_both(tmp_path):
    samples = read_swd(_file(tmp_path, SAMPLES, "s.csv"), categorical=["soil"])
    text = BACKGROUND.replace("0.5,2", "0.5,clay")
    background = read_swd(_file(tmp_path, text, "b.csv"), categorical=["soil"])
    mixed = swd_sample(samples, background, "b", ["soil"]).X["soil"]
    assert mixed.tolist() == ["clay", "1", "1", "1"]
    halves = BACKGROUND.replace("0.5,2", "0.5,2.5")
    background = read_swd(_file(tmp_path, halves, "b.csv"), categorical=["soil"])
    assert swd_sample(samples, background, "b", ["soil"]).X["soil"].tolist() == [2.5, 1, 1, 1]


def test_samples_are_written_as_they_are_read(tmp_path):
    pandas = needs("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {"v": rng.normal(size=4), "c": ["é", "a, b", "c", "d"]}, index=[3, 3, 1, 0]
    )
    places = rng.normal(size=(4, 2))
    path = tmp_path / "out.csv"
    write_swd(path, ["Ähre", "a", "b", "c"], places, X)
    back = read_swd(path, categorical=["c"])
    assert back.species.tolist() == ["Ähre", "a", "b", "c"]
    assert np.array_equal(back.coordinates, places)
    assert back.X.to_dict("list") == X.to_dict("list")
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    write_swd(path, np.array(["a", "b"]), None, pandas.DataFrame({"v": [1.0, np.nan]}))
    assert path.read_text() == "species,x,y,v\na,,,1.0\nb,,,-9999\n"
    assert read_swd(path).X["v"].tolist() == [1.0]
    assert read_swd(path).coordinates is None


# -- test records without a column of species ------------------------------------------------------


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A small landscape, records of one and of two species, and test records without names."""
    from maxent.datasets.landscape import virtual_landscape, write_landscape

    folder = tmp_path_factory.mktemp("tests")
    made = virtual_landscape(20, 26, n_occurrences=40, seed=1)
    write_landscape(made, folder)
    for name, species in (("one", ["Aa bb"] * 40), ("two", ["Aa bb", "Cc dd"] * 20)):
        rows = [f"{s},{x},{y}" for s, x, y in zip(species, made.x, made.y, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["species,lon,lat", *rows]) + "\n")
    rows = [f"{x},{y}" for x, y in zip(made.x[:9], made.y[:9], strict=True)]
    for name in ("new places.csv", "Cc dd.csv"):
        (folder / name).write_text("\n".join(["lon,lat", *rows]) + "\n")
    (folder / "other.csv").write_text("species,lon,lat\nEe ff,75,-30\n")
    return folder


def _fit(run, places, records, test, out, *typed):
    fast = ["-f", "l", "--cv", "none", "--bootstrap", "0", "--permutations", "0", "--no-jackknife"]
    layers = [places / "layers" / f"{name}.tif" for name in ("temperature", "precipitation")]
    asked = ["--test", places / test, "--no-maps", "-o", out, *typed]
    done = run("fit", places / records, *layers, *fast, *asked)
    return done, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("records", "test", "typed", "folder"),
    [
        ("one.csv", "new places.csv", (), "."),
        ("two.csv", "new places.csv", ("-s", "Cc dd"), "."),
        ("two.csv", "Cc dd.csv", (), "Cc_dd"),  # named after the file
    ],
)
def test_test_records_without_names_are_of_the_only_species(
    run, places, tmp_path, records, test, typed, folder
):
    done, words = _fit(run, places, records, test, tmp_path / "out", *typed)
    assert done.exit_code == 0, done.output
    assert ("no test records of 'Aa bb'" in words) == (folder != ".")
    lines = (places / test).read_text().split()[1:]
    cells = {tuple(float(v) // 0.5 for v in line.split(",")) for line in lines}  # 13 / 26 degrees
    result = load(tmp_path / "out" / folder / "result.json")
    assert result.evaluation.test_scores["n"] == len(cells)


@pytest.mark.parametrize(
    ("records", "test", "said"),
    [
        ("two.csv", "new places.csv", "has no column of species, so its records could be of any"),
        ("one.csv", "other.csv", "(--test) has no record of 'Aa bb'; it has 'Ee ff'"),
    ],
)
def test_test_records_of_nobody_are_refused(run, places, tmp_path, records, test, said):
    done, words = _fit(run, places, records, test, tmp_path / "out")
    assert done.exit_code == 1
    assert said in words
    assert not list((tmp_path / "out").glob("*"))
