"""Archives of records as they are downloaded: Darwin Core, GBIF's tables, citation and licences."""

import io
import zipfile

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species import read_occurrences
from maxent.species.input.records.occurrences import read_column
from tools import needs

needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

TERMS = "http://rs.tdwg.org/dwc/terms/"
CITED = "GBIF.org (03 May 2024) GBIF Occurrence Download https://doi.org/10.15468/dl.abc123"
CITATIONS = f"""When using this dataset please use the following citation:

{CITED}

Data from some individual datasets included in this download may be licensed under less
restrictive terms.
Someone (2020): Fishes. https://doi.org/10.5555/other
"""
EML = """<eml:eml xmlns:eml="eml://ecoinformatics.org/eml-2.1.1" packageId="10.15468/dl.abc123">
<dataset><title>GBIF Occurrence Download 0001-24</title>
<intellectualRights><para>This work is licensed under a
<ulink url="http://creativecommons.org/licenses/by-nc/4.0/legalcode"><citetitle>Creative Commons
Attribution Non Commercial (CC-BY-NC) 4.0 License</citetitle></ulink>.</para></intellectualRights>
</dataset>
<additionalMetadata><metadata><gbif><citation>Short form 10.15468/dl.abc123</citation></gbif>
</metadata></additionalMetadata></eml:eml>"""
COLUMNS = [
    *("gbifID", "species", "decimalLongitude", "decimalLatitude", "license", "datasetKey"),
    *("issue", "basisOfRecord", "occurrenceStatus", "locality"),
]
ROWS = [
    ["1", "Arbor fictus", "77.38", "-32.8", "CC_BY_4_0", "k1", "", "HUMAN_OBSERVATION", "PRESENT",
     'near "the hut"'],
    ["2", "Arbor fictus", "78.98", "-29.2", "CC_BY_4_0", "k1", "COORDINATE_ROUNDED;ZERO_COORDINATE",
     "HUMAN_OBSERVATION", "PRESENT", "it's 5' away"],
    ["3", "Arbor fictus", "72.5", "-32", "CC0_1_0", "k2", "COORDINATE_ROUNDED",
     "PRESERVED_SPECIMEN", "PRESENT", "Žižkov"],
    ["4", "Arbor fictus", "74.5", "-31", "CC0_1_0", "k3", "TYPE_STATUS_INVALID",
     "PRESERVED_SPECIMEN", "ABSENT", ""],
]  # fmt: skip


def _meta(columns, *, kind="Occurrence", header_lines=1, delimiter="\\t", quote="",
          encoding="UTF-8", location="occurrence.txt", element="core", key="id",
          defaults=()):  # fmt: skip
    fields = "".join(
        f'<field index="{i}" term="{TERMS}{name}"/>' for i, name in enumerate(columns) if name
    )
    fields += "".join(f'<field default="{v}" term="{TERMS}{k}"/>' for k, v in defaults)
    return (
        f'<{element} encoding="{encoding}" fieldsTerminatedBy="{delimiter}" '
        f'linesTerminatedBy="\\n" fieldsEnclosedBy="{quote}" ignoreHeaderLines="{header_lines}" '
        f'rowType="{TERMS}{kind}"><files><location>{location}</location></files>'
        f'<{key} index="0"/>{fields}</{element}>'
    )


def _archive(*parts, metadata="metadata.xml"):
    head = f'<archive xmlns="http://rs.tdwg.org/dwc/text/" metadata="{metadata}">'
    return f"{head}{''.join(parts)}</archive>"


def _text(rows, delimiter="\t", header=COLUMNS):
    return "".join(delimiter.join(row) + "\n" for row in ([header] if header else []) + list(rows))


def _zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def download(tmp_path):
    """As GBIF gives it: tabs, no quotes, and files about the data."""
    members = {
        "occurrence.txt": _text(ROWS),
        "verbatim.txt": "gbifID\tx\n",
        "meta.xml": _archive(
            _meta(COLUMNS), _meta(["x"], kind="Multimedia", element="extension", key="coreid",
                                  location="multimedia.txt")),
        "metadata.xml": EML,
        "citations.txt": CITATIONS,
        "rights.txt": "Dataset: a\nRights as supplied: Not supplied\n",
        "dataset/k1.xml": "<a/>",
        "__MACOSX/meta.xml": "junk",
    }  # fmt: skip
    return _zipped(tmp_path / "0001-24 download.zip", members)


def test_a_download_of_gbif(download):
    records = read_occurrences(download)
    assert records.species.tolist() == ["Arbor fictus"] * 3
    assert records.x.tolist() == [77.38, 78.98, 72.5]
    assert records.row.tolist() == [2, 3, 4]
    assert len(records.absences) == 1
    origin = records.origin
    assert (origin.source, origin.citation) == (download.name, CITED)
    assert origin.licences == {"CC BY 4.0": 2, "CC0 1.0": 1}  # of the presences
    assert origin.licence.startswith("This work is licensed under a Creative Commons Attribution")
    assert origin.flags == {"COORDINATE_ROUNDED": 2, "ZERO_COORDINATE": 1}
    assert origin.datasets == 2
    notes = "\n".join(records.notes)
    for words in (
        "a Darwin Core archive, records of occurrence.txt",
        f"cite as: {CITED}",
        "2 datasets; licences: 2 CC BY 4.0, 1 CC0 1.0",
        "flagged by the publisher: 2 COORDINATE_ROUNDED, 1 ZERO_COORDINATE",
        "1 of 4 records left out as absences",
    ):
        assert f"{download.name}: {words}" in notes
    assert records.flags.tolist() == ["", "ZERO_COORDINATE", ""]
    assert read_column(str(download), "locality")[2] == 'near "the hut"'


@pytest.mark.parametrize("folder", ["", "dwca-x/"])
@pytest.mark.parametrize("header_lines", [0, 1])
def test_the_description_says_how_to_read(tmp_path, folder, header_lines):
    """Quoted commas in Windows-1252, names and constants by meta.xml, a header or none."""
    rows = [
        ["1", '"Aus bus, 1900"', "1.5", "2.5", '"Žižkov, ""x"""'],
        ["2", '"Aus bus, 1900"', "3.5", "4.5", "y"],
    ]
    columns = ["", "scientificName", "decimalLongitude", "decimalLatitude", "locality"]
    text = _text(rows, ",", ["a", "b", "c", "d", "e"] if header_lines else None)
    meta = _meta(columns, delimiter=",", quote="&quot;", header_lines=header_lines,
                 encoding="windows-1252", location="data/occ.csv",
                 defaults=[("occurrenceStatus", "present"), ("license", "CC0_1_0")])  # fmt: skip
    members = {
        f"{folder}data/occ.csv": text.encode("cp1252"),
        f"{folder}meta.xml": _archive(meta, metadata="eml.xml"),
        f"{folder}eml.xml": "\n " + EML.replace("<gbif>", "<other>").replace("</gbif>", "</other>"),
    }
    path = _zipped(tmp_path / "ipt.zip", members)
    records = read_occurrences(path)
    assert records.species.tolist() == ["Aus bus, 1900"] * 2
    assert records.y.tolist() == [2.5, 4.5]
    assert records.row.tolist() == [1 + header_lines, 2 + header_lines]
    assert records.origin.licences == {"CC0 1.0": 2}
    title = "GBIF Occurrence Download 0001-24 https://doi.org/10.15468/dl.abc123"
    assert records.origin.citation == title
    assert read_column(str(path), "locality")[1 + header_lines] == 'Žižkov, "x"'


def test_places_of_events(tmp_path):
    events = [["e1", "10.5", "50.5"], ["e2", "11.5", "51.5"]]
    found = [["e2", "Aus bus"], ["e1", "Aus bus"], ["e9", "Aus bus"]]
    meta = _archive(
        _meta(["eventID", "decimalLongitude", "decimalLatitude"], kind="Event",
              location="event.txt"),
        _meta(["eventID", "scientificName"], element="extension", key="coreid"),
    )  # fmt: skip
    members = {
        "event.txt": _text(events, header=["id", "lon", "lat"]),
        "occurrence.txt": _text(found, header=["id", "name"]),
        "meta.xml": meta,
    }
    records = read_occurrences(_zipped(tmp_path / "survey.zip", members))
    np.testing.assert_array_equal(records.x, [11.5, 10.5, np.nan])
    np.testing.assert_array_equal(records.y, [51.5, 50.5, np.nan])
    assert "survey.zip: places from the 2 events of event.txt" in records.notes
    assert records.origin.citation == ""


def test_a_simple_download(tmp_path):
    """One table of tabs, whose name is the key of the download."""
    key = "0012345-240506114902167"
    path = _zipped(tmp_path / f"{key}.zip", {f"{key}.csv": _text(ROWS)})
    records = read_occurrences(path)
    assert len(records) == 3
    assert records.origin.citation == (
        f"GBIF Occurrence Download https://www.gbif.org/occurrence/download/{key}"
    )
    plain = tmp_path / "plain.csv"
    plain.write_text(_text(ROWS), encoding="utf-8")
    assert "no citation in the file, whose records are from 2 datasets" in (
        "\n".join(read_occurrences(plain).notes)
    )


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a.shp": "", "a.dbf": ""}, "no meta.xml and no tables of text .* holds 'a.shp', 'a.dbf'"),
        ({"a.csv": "x", "b.csv": "y"}, "no meta.xml and 2 tables"),
        ({"meta.xml": "<a"}, "meta.xml is no XML that can be read"),
        ({"meta.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a/>'}, "defines entities"),
        ({"meta.xml": _archive(_meta(["a"]))}, "names 'occurrence.txt', which is not in the arch"),
        ({"meta.xml": _archive(_meta(["a"], location="../../x.txt"))}, "which is not in the arch"),
        ({"meta.xml": _archive(_meta(["a"], kind="Taxon"))}, "archive of 'taxon', without occurr"),
        (
            {"meta.xml": _archive(_meta(COLUMNS)), "occurrence.txt": _text([])},
            "only a header and no records",
        ),
        (
            {"meta.xml": _archive(_meta(COLUMNS, delimiter="||")), "occurrence.txt": "a"},
            r"separated by '\|\|'",
        ),
    ],
)
def test_archives_that_cannot_be_read(tmp_path, members, words):
    with pytest.raises(ValueError, match=words):
        read_occurrences(_zipped(tmp_path / "a.zip", members))


def test_damaged_archives_and_spreadsheets(download, tmp_path):
    content = bytearray(download.read_bytes())
    half = tmp_path / "half.zip"
    half.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"half\.zip: not an archive that can be read"):
        read_occurrences(half)
    start = content.index(b"occurrence.txt") + 60  # within the packed table
    content[start : start + 20] = bytes(20)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.zip: not an? (whole )?archive"):
        read_occurrences(broken)
    book = _zipped(tmp_path / "book.xlsx", {"[Content_Types].xml": "<a/>", "b.xml": "<b/>"})
    with pytest.raises(ValueError, match="export a spreadsheet as CSV"):
        read_occurrences(book)
    damaged = {"occurrence.txt": _text(ROWS), "meta.xml": _archive(_meta(COLUMNS)),
               "metadata.xml": "<eml", "citations.txt": CITATIONS}  # fmt: skip
    records = read_occurrences(_zipped(tmp_path / "odd.zip", damaged))
    assert records.origin.citation == CITED
    assert any("metadata.xml is no XML that can be read" in note for note in records.notes)


def test_from_an_archive_to_the_report(run, tmp_path):
    """Citation, licences and flags in the report and in ODMAP; --clean leaves out the flagged."""
    write_landscape(virtual_landscape(height=26, width=32, n_occurrences=40, seed=3), tmp_path)
    table = pd.read_csv(tmp_path / "occurrences.csv")
    flags = np.where(
        np.arange(len(table)) == 5, "COUNTRY_COORDINATE_MISMATCH", "COORDINATE_ROUNDED"
    )
    table = table.assign(license="CC_BY_NC_4_0", datasetKey="k", issue=flags)
    fossils = table[:2].assign(basisOfRecord="FOSSIL_SPECIMEN")
    table = pd.concat([table.assign(basisOfRecord="HUMAN_OBSERVATION"), fossils])
    text = io.StringIO()
    table.to_csv(text, sep="\t", index=False)
    members = {"occurrence.txt": text.getvalue(), "meta.xml": _archive(_meta(list(table.columns))),
               "metadata.xml": EML, "citations.txt": CITATIONS}  # fmt: skip
    path = _zipped(tmp_path / "GBIF März.zip", members)
    quick = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
    args = ["fit", path, tmp_path / "layers", "-c", "biome", *quick, "--no-maps", "--clean"]
    args += ["--basis", "HUMAN_OBSERVATION"]
    table = table[:-2]
    done = run(*args, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert f"cite as: {CITED}" in " ".join(done.output.split())
    result = mx.load(tmp_path / "out" / "result.json")
    (origin,) = result.origins
    assert (origin.citation, origin.licences) == (CITED, {"CC BY-NC 4.0": len(table)})
    assert {step.what: step.records for step in result.cleaning}["flagged by GBIF"] == 1
    odmap = pd.read_csv(tmp_path / "out" / "tables" / "odmap.csv", keep_default_na=False)
    mine = odmap[(odmap.section == "Data") & (odmap.subsection == "Biodiversity data")]
    value = mine.set_index("element").Value
    assert value["Data sources"] == (f"GBIF März.zip: {CITED}; licences: {len(table)} CC BY-NC 4.0")
    assert f"{len(table) - 1} COORDINATE_ROUNDED" in value["Errors and biases"]
    left = f"2 of {len(table) + 2} records left out by their basis"
    assert value["Cleaning"].startswith(f"GBIF März.zip: {left}")
    assert "flagged by GBIF: 1" in value["Cleaning"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for words in ("Where the records come from", CITED, "CC BY-NC 4.0", "COORDINATE_MISMATCH"):
        assert words in page
    assert run("report", tmp_path / "out").exit_code == 0
