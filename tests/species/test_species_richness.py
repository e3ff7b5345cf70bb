"""Richness of a run of many species: sums that numpy makes again from their maps."""

import csv

import numpy as np
import pytest

import maxent as mx
from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs

rasterio = needs("rasterio")
needs("matplotlib")

pytestmark = pytest.mark.usefixtures("sketches")


class Heard:
    """A listener that keeps the notes."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def begin(self, species):
        pass

    def stage(self, species, name):
        pass

    def done(self, row):
        pass


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Two species, one of a single record, and one that is called as the files are."""
    folder = tmp_path_factory.mktemp("many")
    landscape = virtual_landscape(height=24, width=30, n_occurrences=60, seed=3)
    write_landscape(landscape, folder)
    names = np.where(np.arange(60) % 2, "Aus bus", "richness_suitability")
    with open(folder / "all.csv", "w", encoding="utf-8") as file:
        file.write("species,decimalLongitude,decimalLatitude\n")
        for name, x, y in zip(names, landscape.x, landscape.y, strict=True):
            file.write(f"{name},{x},{y}\n")
        file.write("Nowhere rarus,-140.0,20.0\n")
    quick = mx.species.Settings(
        features="l", cv="none", bootstrap=0, permutations=0, jackknife=False, verbose=0
    )
    heard = Heard()
    layers = mx.species.LayerFiles((str(folder / "layers"),), categorical=("biome",))
    future = mx.species.LayerFiles((str(folder / "future"),), categorical=("biome",))
    mx.species.fit_files(
        mx.species.RecordFile(str(folder / "all.csv")),
        layers,
        folder / "out",
        quick,
        projections=[future],
        listener=heard,
    )
    return folder / "out", heard.notes


def read(path):
    with rasterio.open(path) as file:
        return file.read(1), file.nodata


@pytest.mark.parametrize(("within", "end"), [("maps", ""), ("projections/future", "_future")])
def test_sums_of_the_maps(many, within, end):
    out, _ = many
    with open(out / "richness.csv", newline="", encoding="utf-8") as file:
        table = {row["species"]: row for row in csv.DictReader(file)}
    folders = [table[name]["folder"] for name in ("Aus bus", "richness_suitability")]
    total, present = 0.0, 0
    for folder in folders:
        values = read(out / folder / within / "cloglog.tif")[0]
        model = mx.species.load_model(out / folder)
        cut = np.float32(model.thresholds["10 percentile training presence"])
        total, present = total + values.astype(float), present + (values >= cut)
    suitability, _ = read(out / f"richness_suitability{end}.tif")
    presences, nodata = read(out / f"richness_presences{end}.tif")
    known = np.isfinite(total)
    assert 0 < known.sum() < known.size
    np.testing.assert_allclose(suitability[known], total[known], rtol=1e-6)
    assert np.isnan(suitability[~known]).all()
    np.testing.assert_array_equal(presences, np.where(known, present, nodata))
    assert set(np.unique(present[known])) == {0, 1, 2}


def test_what_was_summed_is_told(many):
    out, notes = many
    with open(out / "richness.csv", newline="", encoding="utf-8") as file:
        table = {row["species"]: row for row in csv.DictReader(file)}
    assert {name: row["summed"] for name, row in table.items()} == {
        "Aus bus": "yes",
        "richness_suitability": "yes",
        "Nowhere rarus": "no",
    }
    assert table["Nowhere rarus"]["said"].startswith("failed: ")
    (note,) = (note for note in notes if note.startswith("richness_suitability.tif"))
    assert "sum 2 of 3 species" in note
    assert "10 percentile training presence" in note


def test_the_index_shows_them(many):
    out, _ = many
    page = (out / "index.html").read_text(encoding="utf-8")
    for file in ("richness_suitability.tif", "richness_presences_future.tif"):
        assert f'href="{file}"' in page
    assert page.count("<figure>") == 4


def test_maps_that_are_not_made_again_go(many, tmp_path):
    """Sums of an earlier run beside other species would be wrong."""
    from maxent.species.batch.richness import write_richness

    (tmp_path / "richness_presences_past.tif").write_bytes(b"")
    (tmp_path / "richness.csv").write_text("")
    rows = [{"species": name, "status": "failed", "error": "none"} for name in "ab"]
    assert write_richness(rows, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
