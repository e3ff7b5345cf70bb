"""A background of all cells, read in windows: the density of a fit in memory, within a memory."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.batch.cluster import ClusterSettings
from maxent.species.judging import fit_sample
from maxent.species.study.all_cells import WholeLayers
from maxent.species.study.selection import selected
from maxent.species.study.study_region import StudyRegion
from tools import needs

rasterio = needs("rasterio")
shapely = needs("shapely")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
FAST += ["--no-maps"]
LITTLE = 403_000_000  # bytes, most of them for the program: windows of about 4,700 cells
CELLS = 13_810


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write_landscape(virtual_landscape(height=120, width=200, n_occurrences=80, seed=3), folder)
    return folder


def _run(*args):
    return CliRunner().invoke(cli.main, [str(a) for a in args])


def _fit(data, out, *args):
    given = [data / "occurrences.csv", data / "layers", "-c", "biome", "--background", "all"]
    done = _run("fit", *given, *FAST, *args, "-o", out)
    assert done.exit_code == 0, done.output
    return mx.load(out / "result.json"), done.output


def _said(output):
    return " ".join(output.replace("│", " ").split())


def _check_equal(found, expected):
    assert found.coef.keys() == expected.coef.keys()
    for name, weight in expected.coef.items():
        assert found.coef[name] == pytest.approx(weight, abs=1e-8)
    assert found.n_points == expected.n_points
    assert found.certificate.gain == pytest.approx(expected.certificate.gain, abs=1e-10)
    assert found.certificate.gap == pytest.approx(expected.certificate.gap, rel=1e-3, abs=1e-11)
    assert found.raw_entropy == pytest.approx(expected.raw_entropy, abs=1e-9)
    np.testing.assert_array_equal(found.low, expected.low)
    np.testing.assert_array_equal(found.high, expected.high)


CASES = {
    "plain": {},
    "hinges": {"features": "lqh"},
    "duplicates": {"keep_duplicates": True},
    "tsallis": {"entropy": "tsallis:1.5"},
    "fewer variables": {"select": "vif=3"},
    "test records": {"test_share": 0.3},
    "effort": {"bias": "prior"},
    "kernel": {"bias": "prior", "bias_kernel": "300"},
    "study region": {},
}


@pytest.mark.parametrize("case", CASES)
def test_the_density_is_that_of_a_fit_in_memory(data, case):
    settings = species.Settings(
        **{"features": "lq", "background": None, "verbose": 0} | CASES[case]
    )
    files = species.LayerFiles((str(data / "layers"),), ("biome",))
    bias = data / "effort.tif" if case == "effort" else None
    with files.open() as layers:
        records, _ = species.RecordFile(str(data / "occurrences.csv")).read(layers.grid)
        effort = None if bias is None else species.Layers.open(bias)
        study = None
        if case == "study region":  # whose edge leaves out the centre of a cell with a record
            west, _, east, _ = layers.grid.bounds
            _, north = layers.grid.centres(layers.grid.cells_at(records.x[:1], records.y[:1]))
            edge = (north[0] + records.y[0]) / 2
            inside = (edge, 0.0) if records.y[0] > north[0] else (-90.0, edge)
            box = shapely.box(west, inside[0], east, inside[1])
            study = StudyRegion.from_shape("polygons", "a part", box, layers.grid)
        how = {"bias": effort, "study": study}
        regions = [
            species.survey(layers, records, replace(settings, background=n), **how)
            for n in (None, 500)
        ]
        if effort is not None:
            effort.close()
    prepared = [species.prepare(region, records, settings) for region in regions]
    prepared = [selected(one, settings, ("biome",)) for one in prepared[:1]] + prepared[1:]
    kept = list(prepared[0].train.X.columns)
    assert (len(kept) < 6) == (case == "fewer variables")
    everything = prepared[0].train
    sample = replace(prepared[1].train, X=prepared[1].train.X[kept])
    assert len(sample.counts) < 600 < len(everything.counts)
    assert (everything.counts.max() > 1) == (case == "duplicates")
    assert (everything.at_background.all()) == (case != "study region")
    recipe = settings.recipe(("biome",))
    whole = WholeLayers(files, None if bias is None else str(bias), LITTLE)
    found, notes = whole.density(recipe, sample, regions[1])
    _check_equal(found, fit_sample(recipe, everything))
    assert not notes


def test_layers_with_many_values_are_told_of(tmp_path):
    path = tmp_path / "noise.tif"
    values = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    _write(path, values)
    rows, columns = np.nonzero(values > 3)
    records = pd.DataFrame({"species": "Aa bb", "x": columns + 0.5, "y": 300 - rows - 0.5})
    files = species.LayerFiles((str(path),))
    settings = species.Settings(features="h", background=500, verbose=0)
    with files.open() as layers:
        records = species.Occurrences.from_frame(records)
        region = species.survey(layers, records, settings)
    sample = species.prepare(region, records, settings).train
    recipe = settings.recipe()
    _, notes = WholeLayers(files, None, 420_000_000).density(recipe, sample, region)
    (note,) = notes
    assert "their knots lie next to those of a fit in memory, at most" in note


def _write(path, values):
    height, width = values.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        height=height,
        width=width,
        count=1,
        dtype=values.dtype,
        crs="EPSG:6933",
        nodata=-9999,
        transform=rasterio.Affine(1, 0, 0, 0, -1, height),
    ) as file:
        file.write(values, 1)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def in_memory(data):
    return _fit(data, data / "memory")[0]


def test_the_command_says_what_is_of_all_cells_and_what_of_a_sample(data, in_memory):
    out = data / "windows"
    result, said = _fit(data, out, "--memory", "403MB")
    model = mx.load(out / "model.json").density
    _check_equal(model, in_memory.model)
    assert in_memory.n_cells is None
    assert (result.n_cells, result.n_background, model.n_points) == (CELLS, 10_000, CELLS)
    told = (
        "the density is over all 13,810 cells; evaluation, thresholds, refits, response curves, "
        "importance and the similarity of projections (MESS, ExDet) use 10,000 of them"
    )
    assert told in _said(said)
    assert told in result.notes
    page = (out / "report.html").read_text(encoding="utf-8")
    assert told in page
    assert re.search(r"Cells.{0,80}13,810", page, re.DOTALL)
    assert "a sample of these cells" in page
    odmap = (out / "tables" / "odmap.csv").read_text(encoding="utf-8")
    assert "all 13810 cells; 10000 of them for evaluation" in odmap
    rows = pd.read_csv(out / "tables" / "maxentResults.csv")
    assert rows["#Background points"].tolist() == [CELLS]
    assert result.evaluation.scores["gain"] == model.certificate.gain
    assert result.evaluation.scores["auc"] != in_memory.evaluation.scores["auc"]
    assert result.evaluation.scores["auc"] == pytest.approx(
        in_memory.evaluation.scores["auc"], abs=0.01
    )
    drawn, _ = _fit(data, data / "drawn", "--background", "10000")  # the last one counts
    assert drawn.n_cells is None
    for other, same in ((drawn, True), (in_memory, False)):  # it is of the background points
        correlation = other.collinearity.correlation
        assert np.array_equal(correlation, result.collinearity.correlation) == same


def test_a_region_around_the_records_of_each_species(data):
    near = ["--buffer", "150"]
    expected, _ = _fit(data, data / "near-memory", *near)
    found, said = _fit(data, data / "near", *near, "--memory", "403MB", "-q")
    _check_equal(found.model, expected.model)
    assert found.model.n_points < CELLS
    assert said == ""


def test_workers_read_the_windows(data, in_memory, monkeypatch):
    needs("distributed")
    monkeypatch.chdir(data)  # paths may be relative
    args = ["occurrences.csv", "layers", "-c", "biome", "--background", "all", *FAST]
    done = _run("fit", *args, "--workers", "2", "--memory", "1GB", "-o", "workers")
    assert done.exit_code == 0, done.output
    result = mx.load(data / "workers" / "result.json")
    _check_equal(result.model, in_memory.model)
    assert result.n_cells == CELLS


def test_results_in_memory_are_others(data, tmp_path):
    out = tmp_path / "out"
    _fit(data, out, "--memory", "2GB")
    given = [data / "occurrences.csv", data / "layers", "-c", "biome", "--background", "all"]
    again = _run("fit", *given, *FAST, "-o", out, "--memory", "1GB", "--resume")
    assert again.exit_code == 0, again.output
    assert json.loads((out / "summary.json").read_text())["row"]["status"] == "ok"
    other = _run("fit", *given, *FAST, "-o", out, "--resume")
    assert other.exit_code == 1
    assert "come from other settings" in _said(other.output)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ["--background", "500"],
            "a background of 500 cells is drawn in one pass that takes little",
        ),
        (["--preset", "maxnet"], "--preset maxnet makes one point of equal cells"),
        (["--target-group"], "the cells of records are the background"),
        (["--bias", "effort.tif"], "take it out of the density with --bias-as prior"),
        (["--bias-kernel", "auto"], "take it out of the density with --bias-as prior"),
        (["--memory", "100MB"], "--memory='100MB' is too little: the program itself takes 400 MB"),
        (["--memory", "lots"], "--memory is a number and a unit, as 2GB, got 'lots'"),
        (["--dask", "tcp://nowhere:1"], "those of --dask have limits of their own"),
    ],
)
def test_a_memory_that_nothing_would_keep_to_is_wrong_usage(data, tmp_path, args, words):
    args = [data / arg if arg == "effort.tif" else arg for arg in args]
    given = [data / "occurrences.csv", data / "layers", "--background", "all", "--memory", "2GB"]
    done = _run("fit", *given, *args, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert words in _said(done.output)


def test_tables_and_tuning_have_none(data, tmp_path):
    swd = tmp_path / "swd.csv"
    swd.write_text("species,x,y,a\nAa bb,0,0,1\n")
    done = _run("fit", "--swd", swd, swd, "--memory", "2GB", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "the tables of --swd are read into memory" in _said(done.output)
    files = [data / "occurrences.csv", data / "layers"]
    done = _run("tune", *files, "--memory", "2GB", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "every candidate is fitted once for each fold, on cells in memory" in _said(done.output)
    cluster = ClusterSettings(memory="2GB")
    with pytest.raises(ValueError, match="tables are read into memory"):
        species.fit_swd(str(swd), str(swd), tmp_path / "out", cluster=cluster)


def test_a_cluster_says_what_it_keeps_in_memory(data):
    from maxent.species.study.all_cells import whole_layers

    told = []
    files = species.LayerFiles((str(data / "layers"),))
    how = {"bias": None, "grouped": False, "cluster": ClusterSettings(), "client": object()}
    settings = species.Settings(background=None, preset="maxnet")
    assert whole_layers(settings, files, **how, tell=told.append) is None
    assert told == [
        "each process that fits has all cells in memory: --preset maxnet makes one point of equal "
        "cells, which lie in several windows"
    ]
    drawn = whole_layers(species.Settings(), files, **how, tell=told.append)
    assert drawn is None
    assert len(told) == 1


def test_more_memory_than_given_is_told(data, tmp_path, monkeypatch):
    monkeypatch.setattr("maxent.cli.species.fitting.peak_memory", lambda: 700_000_000)
    files = [data / "occurrences.csv", data / "layers", "--background", "all"]
    monkeypatch.setattr("maxent.species.batch.workflow.fit_files", lambda *args, **others: [])
    done = _run("fit", *files, "--memory", "600MB", "-o", tmp_path / "out")
    assert "the peak was 700 MB, more than --memory 600MB; maps and their" in _said(done.output)
    done = _run("fit", *files, "--memory", "700MB", "-o", tmp_path / "out")
    assert "peak" not in done.output


PEAK = """
import sys
from maxent.cli import main
from maxent.cli._memory import peak_memory
try:
    main(sys.argv[1:], standalone_mode=False)
finally:
    print(peak_memory())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is that of Linux")
def test_a_fit_stays_within_its_memory(tmp_path):
    rng = np.random.default_rng(0)
    size = 1400
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    maps = {"a": np.sin(5 * x) + y, "b": np.cos(3 * y + x), "c": x * y}
    maps["d"] = rng.normal(size=(size, size)).astype(np.float32)
    (tmp_path / "layers").mkdir()
    for name, values in maps.items():
        _write(tmp_path / "layers" / f"{name}.tif", values)
    rows, columns = rng.integers(size, size=(2, 4000))
    likely = np.exp(2 * maps["a"] - maps["d"] ** 2)[rows, columns]
    chosen = rng.uniform(size=4000) < likely / 20
    rows, columns = rows[chosen], columns[chosen]
    table = pd.DataFrame({"species": "Aa bb", "x": columns + 0.5, "y": size - rows - 0.5})
    table.to_csv(tmp_path / "records.csv", index=False)
    args = ["fit", "records.csv", "layers", "--crs", "EPSG:6933", "--background", "all", *FAST]
    args += ["-q", "--memory", "600MB", "-o", "out"]  # in memory it takes 780
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *args], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    result = mx.load(tmp_path / "out" / "result.json")
    assert result.n_cells == size**2
    assert 0 < int(done.stdout.split()[-1]) < 600e6
