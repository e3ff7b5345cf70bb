"""odmap.csv: the protocol of Zurell et al. 2020, filled from what a fit knows."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli
from maxent.species.fitting.results import read_result
from maxent.species.report.tables.odmap import odmap_rows
from tools import needs

needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--no-jackknife"]


def _run(*args):
    return CliRunner().invoke(cli.main, [str(a) for a in args])


def _table(path):
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row["section"], row["subsection"], row["element"]): row for row in rows}


@pytest.fixture(scope="module")
def fitted(data):
    out = data / "out"
    args = ["fit", data / "occurrences.csv", data / "layers", "-c", "biome", *FAST, "-o", out]
    args += ["--project", data / "future", "--mask", "mess", "--threshold", "10 percentile"]
    args += ["--thin", "5", "--test-share", "0.2", "--permutations", "2", "--buffer", "200"]
    done = _run(*args)
    assert done.exit_code == 0, done.output
    return out


def test_the_table_is_the_protocol(fitted):
    told = _table(fitted / "tables" / "odmap.csv")
    result = read_result(fitted)
    assert len(told) == 84
    sections = [section for section, _, _ in told]
    order = ["Overview", "Data", "Model", "Assessment", "Prediction"]
    assert list(dict.fromkeys(sections)) == order
    assert all((row["filled by"] == "maxent") == bool(row["Value"]) for row in told.values())
    mine = {key: row["Value"] for key, row in told.items()}
    assert mine["Overview", "Focal Taxon", "Focal Taxon"] == result.species
    north = result.grid.bounds[3]
    assert (
        f"to {north:.8g} (units of EPSG:4326)"
        in mine["Overview", "Scale of Analysis", "Spatial extent"]
    )
    assert result.study.describe() == mine["Data", "Biodiversity data", "Clipping"]
    held = int(np.sum(result.records["test"]))
    n = int(result.model.n_presences)
    size = mine["Data", "Biodiversity data", "Sample size"]
    assert size == f"{n} presences to fit, {held} to test"
    assert "5 km apart" in mine["Data", "Biodiversity data", "Scaling"]
    for step in result.cleaning:
        assert f"{step.what}: {step.records}" in mine["Data", "Biodiversity data", "Cleaning"]
    used = mine["Data", "Predictor variables", "Predictor variables"]
    assert "biome (categorical)" in used
    assert mine["Data", "Predictor variables", "Coordinate reference system"] == "EPSG:4326"
    folds = np.mean([row["test_auc"] for row in result.replicates[0].table])
    validated = mine["Assessment", "Performance statistics", "Performance on validation data"]
    assert f"AUC {folds:.4g}" in validated
    tested = mine["Assessment", "Performance statistics", "Performance on test data"]
    assert f"AUC {result.evaluation.test_scores['auc']:.4g}" in tested
    cut = mine["Model", "Threshold selection", "Threshold selection"]
    assert cut.startswith("10 percentile training presence: cloglog")
    _, future = result.maps
    novelty = mine["Data", "Transfer data", "Quantification of Novelty"]
    assert f"{future.n_extrapolated} with a variable outside" in novelty
    assert f"{future.n_novel} with a new combination" in novelty
    processed = mine["Prediction", "Prediction output", "Post-processing"]
    assert f"{future.n_masked} cells that extrapolate left out" in processed
    software = mine["Overview", "Software", "Software"]
    assert software.startswith(f"maxent {mx.__version__}, Python 3.")
    assert f"numpy {np.__version__}" in software
    settings = mine["Model", "Model settings", "Model settings (fitting)"]
    assert "features (lq)" in settings
    correlation = np.abs(result.collinearity.correlation - np.eye(5)).max()
    assert f"{correlation:.2f}" in mine["Model", "Multicollinearity", "Multicollinearity"]
    for element in ("Study title", "Author names", "Contact", "Study link"):
        assert told["Overview", "Authorship", element]["filled by"] == "author"
    assert "odmap.csv" in (fitted / "report.html").read_text(encoding="utf-8")


def test_what_was_not_done_is_not_claimed(data, tmp_path):
    samples, background = tmp_path / "samples.csv", tmp_path / "background.csv"
    rng = np.random.default_rng(0)
    for path, n, mean in ((samples, 30, 1.0), (background, 200, 0.0)):
        rows = [f"one,{a:.5f},{b:.5f}" for a, b in rng.normal(mean, size=(n, 2))]
        path.write_text("\n".join(["species,heat,rain", *rows]) + "\n")
    out = tmp_path / "out"
    args = [*FAST, "--permutations", "0", "--cv", "none", "-o", out]
    done = _run("fit", "--swd", samples, background, *args)
    assert done.exit_code == 0, done.output
    told = _table(out / "tables" / "odmap.csv")
    by = {key: row["filled by"] for key, row in told.items()}
    assert by["Overview", "Scale of Analysis", "Spatial extent"] == "author"
    assert by["Data", "Transfer data", "Quantification of Novelty"] == "not applicable"
    assert (
        by["Prediction", "Uncertainty quantification", "Scenario uncertainty"] == "not applicable"
    )
    for element in ("validation", "test"):
        key = "Assessment", "Performance statistics", f"Performance on {element} data"
        assert told[key]["Value"] == ""
    assert len(odmap_rows(read_result(out))) == len(told)
