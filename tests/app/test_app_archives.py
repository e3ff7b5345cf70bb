"""A download of GBIF, brought to the page as it is."""

import zipfile

import pytest
from app_server import served
from test_app_browser import Tab

from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs

for name in ("starlette", "uvicorn", "rio_tiler"):
    needs(name)
needs("playwright.sync_api")

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
