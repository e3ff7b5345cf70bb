"""A download of GBIF, brought to the page as it is."""

import re
import zipfile

import pytest
from app_server import served
from test_app_browser import Tab

from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs

for name in ("starlette", "uvicorn", "rio_tiler"):
    needs(name)
needs("playwright.sync_api")

_GBIF = (
    "id,species,decimalLongitude,decimalLatitude,coordinateUncertaintyInMeters,basisOfRecord,"
    "occurrenceStatus"
)
_META = """<?xml version="1.0"?>
<archive xmlns="http://rs.tdwg.org/dwc/text/" metadata="eml.xml">
 <core encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" ignoreHeaderLines="1"
  rowType="http://rs.tdwg.org/dwc/terms/Occurrence">
  <files><location>occurrence.txt</location></files><id index="0"/>
  <field index="1" term="http://rs.tdwg.org/dwc/terms/scientificName"/>
  <field index="2" term="http://rs.tdwg.org/dwc/terms/decimalLongitude"/>
  <field index="3" term="http://rs.tdwg.org/dwc/terms/decimalLatitude"/>
 </core>
</archive>
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Layers in a folder, and records in an archive elsewhere."""
    place = tmp_path_factory.mktemp("archive")
    landscape = virtual_landscape(height=20, width=25, n_occurrences=40, seed=8)
    write_landscape(landscape, place / "study")
    (place / "study" / "occurrences.csv").unlink()
    rows = zip(landscape.x.tolist(), landscape.y.tolist(), strict=True)
    lines = [f"{i}\tArbor fictus\t{x!r}\t{y!r}" for i, (x, y) in enumerate(rows)]
    with zipfile.ZipFile(place / "0001234-210914110416597.zip", "w") as archive:
        archive.writestr("meta.xml", _META)
        archive.writestr("occurrence.txt", "\n".join(["id\tname\tx\ty", *lines]) + "\n")
    return place, len(lines)


def test_an_archive_is_brought_to_the_page(study, browser):
    place, count = study
    with served(place / "study") as client:
        one = Tab(browser, client)
        page = one.page
        page.get_by_text("Where to get records").wait_for()
        (archive,) = place.glob("*.zip")
        page.locator(".chooser input[type=file]").first.set_input_files(archive)
        page.get_by_text("What becomes of the records").wait_for()
        (species,) = client.get("/api/records")["species"]
        assert species["name"] == "Arbor fictus"
        assert len(species["x"]) == count
        assert "--" not in page.locator(".words pre").inner_text()
        listed = client.get("/api/files?folder=uploads/records")["files"]
        assert [file["name"] for file in listed] == [archive.name]
        one.sound()
        one.context.close()


@pytest.fixture
def messy(tmp_path):
    """A download with blank, absent, fossil, uncertain and doubtful records, in the home folder."""
    folder = tmp_path / "estudio ñ 1"
    landscape = virtual_landscape(height=20, width=25, n_occurrences=40, seed=8)
    write_landscape(landscape, folder)
    (folder / "occurrences.csv").unlink()
    places = [
        f"{x!r},{y!r}" for x, y in zip(landscape.x.tolist(), landscape.y.tolist(), strict=True)
    ]
    rows = [f"Arbor fictus,{place},10,HUMAN_OBSERVATION,PRESENT" for place in places]
    rows += ["Arbor fictus,0.0,0.0,,HUMAN_OBSERVATION,PRESENT"] * 2
    rows += ["Arbor fictus,,,,HUMAN_OBSERVATION,PRESENT"]
    rows += [f"Arbor fictus,{places[0]},10,FOSSIL_SPECIMEN,PRESENT"] * 3
    rows += [f"Arbor fictus,{places[1]},90000,HUMAN_OBSERVATION,PRESENT"] * 4
    rows += [f"Arbor fictus,{places[2]},10,HUMAN_OBSERVATION,ABSENT"]
    lines = "\n".join([_GBIF, *(f"{i},{row}" for i, row in enumerate(rows))]).replace(",", "\t")
    with zipfile.ZipFile(folder / "0001234.zip", "w") as archive:
        archive.writestr("0001234.csv", lines + "\n")
    return folder


def test_doubtful_records_are_seen_and_left_out(messy, browser):
    """What a download holds is told in words of the page, and every way to clean it is a field."""
    with served(messy) as client:
        client.draft(records={"path": "0001234.zip"}, layers={"sources": ["layers"]})
        one = Tab(browser, client)
        page = one.page
        notes = page.locator(".notes", has_text="Doubtful records")
        notes.get_by_text("2 records at 0, 0 (row ").wait_for()
        assert notes.get_by_text("leave them out with “Leave out doubtful places”").count() == 1
        read = page.locator(".notes", has_text="How the file was read")
        assert "48 HUMAN_OBSERVATION, 3 FOSSIL_SPECIMEN" not in read.inner_text()
        assert "47 HUMAN_OBSERVATION, 3 FOSSIL_SPECIMEN; choose with “Kinds of" in read.inner_text()
        assert "--" not in read.inner_text()

        def fates():
            rows = page.locator("#records tbody tr").all_inner_texts()
            return {row.split("\t")[1].strip(): int(row.split("\t")[0]) for row in rows}

        assert fates()["outside the layers"] == 2
        page.get_by_label("Leave out doubtful places").check()
        page.locator("#records td", has_text="at 0, 0").wait_for()
        assert fates()["at 0, 0"] == 2
        page.get_by_label("Leave out places less certain").fill("5000")
        page.get_by_label("Kinds of record to use").fill("HUMAN_OBSERVATION")
        page.get_by_label("Keep records so many km apart").focus()
        page.get_by_text("3 of 50 records left out by their basis").wait_for()
        page.get_by_text("4 of 50 records left out, uncertain by more than 5000 m").wait_for()
        assert sum(fates().values()) == 50 - 3 - 4
        page.get_by_role("button", name="it holds categories").click()
        page.locator(".words pre", has_text="-c biome").wait_for()
        command = page.locator(".words pre").inner_text()
        words = "--basis HUMAN_OBSERVATION --max-uncertainty 5000 -c biome --clean"
        assert words in command
        assert words in client.get("/api/state")["draft"]["tuning"]["command"]
        page.locator("#region > summary").click()
        page.get_by_label("convex hull of the records").check()
        page.get_by_text(re.compile(r"the convex hull of \d+ records, [\d,]+ km²")).wait_for()
        one.sound()
        one.context.close()


def test_a_map_that_cannot_be_drawn_says_why(messy, browser):
    with served(messy) as client:
        client.draft(layers={"sources": ["layers"]})
        one = Tab(browser, client)
        said = {"status": 400, "content_type": "application/json", "body": '{"error": "no bytes"}'}
        one.page.route("**/api/tile/**", lambda route: route.fulfill(**said))
        one.page.reload()
        one.page.get_by_text("Part of this map cannot be drawn: no bytes").wait_for()
        one.page.unroute("**/api/tile/**")
        one.page.get_by_role("button", name="temperature", exact=True).click()
        one.page.get_by_text("Part of this map cannot be drawn").wait_for(state="hidden")
        one.context.close()
