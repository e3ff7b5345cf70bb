"""The page as it is shipped: its bundles are those of the sources, and they call nobody."""

import re
import subprocess
from pathlib import Path

import pytest

import maxent
from tools import needs_node_modules, needs_program

WEB = Path(__file__).parents[2] / "web"
PACKAGE = Path(maxent.__file__).parent
PLACES = {"page": PACKAGE / "app" / "page", "bundle": PACKAGE / "species" / "report" / "bundle"}


def test_the_bundles_are_those_of_the_sources(tmp_path):
    """Built again from web/, with the versions of its lock file: the same bytes."""
    if not WEB.is_dir():
        pytest.skip("the sources of the page are not in an installed package")
    modules, node = needs_node_modules(), needs_program("node")
    subprocess.run([node, str(modules / ".bin" / "tsc"), "--noEmit"], cwd=WEB, check=True)
    subprocess.run([node, "build.mjs", str(tmp_path)], cwd=WEB, check=True)
    for name, shipped in PLACES.items():
        made = {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()}
        assert sorted(made) == sorted(p.name for p in shipped.iterdir())
        stale = [file for file, content in made.items() if content != (shipped / file).read_bytes()]
        assert not stale, f"make page: {stale} are not those of web/src"


@pytest.mark.parametrize("name", PLACES)
def test_nothing_is_loaded_from_elsewhere(name):
    """Addresses in the bundles are names of standards and projects, never loaded."""
    known = {"www.w3.org", "leafletjs.com", "github.com", "geoman.io"}
    known |= {"sketch.com", "www.bohemiancoding.com"}  # who drew the pictures of buttons
    for path in PLACES[name].glob("*.*"):
        if path.name == "LICENCES.txt":
            continue
        hosts = set(re.findall(r"https?://([\w.-]+)", path.read_text("utf-8")))
        assert hosts <= known


def test_licences_travel_with_the_bundles():
    for shipped in PLACES.values():
        text = (shipped / "LICENCES.txt").read_text("utf-8")
        for library in ("leaflet 1.9.4", "uplot", "preact", "@geoman-io/leaflet-geoman-free"):
            assert library in text
        assert "Copyright" in text
