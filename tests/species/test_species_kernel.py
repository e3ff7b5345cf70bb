"""`maxent fit -f k`: the whole of a fit with a kernel, on files."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit with everything on, made once."""
    data = tmp_path_factory.mktemp("landscape")
    write_landscape(virtual_landscape(height=50, width=64, n_occurrences=80, seed=3), data)
    out = tmp_path_factory.mktemp("fitted") / "out"
    args = ["fit", data / "occurrences.csv", data / "layers", "-c", "biome", "-o", out, "-f", "LK"]
    args += ["--project", data / "future", "--bootstrap", "2", "--permutations", "2"]
    args += ["--background", "800"]
    result = CliRunner().invoke(cli.main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return data, out


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tables_and_report(fitted):
    _, out = fitted
    told = rows(out / "tables" / "coefficients.csv")
    assert {"kernel 1", "kernel 2"} <= {row["feature"] for row in told}
    importance = rows(out / "tables" / "importance.csv")
    assert sum(float(row["contribution"]) for row in importance) == pytest.approx(100)
    jackknife = rows(out / "tables" / "jackknife.csv")
    assert all(float(r["only"]) < float(r["all"]) for r in jackknife if r["score"] == "train_gain")
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "landmarks stand for all cells" in report
    result = mx.load(out / "result.json")
    assert result.model.certificate.gap <= 1e-7
    assert result.settings["features"] == "lk"


def test_maps_are_the_model(fitted):
    """Of the layers, and of other ones, where variables are clamped and MESS tells of it."""
    data, out = fitted
    density = mx.load(out / "result.json").model
    for layers, folder in ((data / "layers", "maps"), (data / "future", "projections/future")):
        with species.Layers.open(layers, categorical=["biome"]) as source:
            X, known = source.read_cells(np.arange(source.grid.size))
        with rasterio.open(out / folder / "cloglog.tif") as file:
            drawn = file.read(1).ravel()[known]
        np.testing.assert_allclose(drawn, density.predict(X[known], "cloglog"), atol=1e-5)
        assert (out / folder / "mess.tif").exists()
