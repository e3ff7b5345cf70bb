"""The `maxent` command on files: outputs, batches, bad input, nothing half-written."""

import ast
import csv
import graphlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, io, species
from maxent._support.native_lines import native_lines_held_back
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.batch import job, outputs
from maxent.species.fitting import one_species as fitting
from maxent.species.fitting.settings import RULES
from tools import few_refits, lacking, needs
from waiting import LIMIT, until

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
CATEGORY = ["-c", "biome"]


@pytest.fixture(scope="module")
def landscape():
    return virtual_landscape(height=50, width=64, n_occurrences=80, n_group=500, seed=3)


@pytest.fixture(scope="module")
def data(landscape, tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    write_landscape(landscape, folder)
    return folder


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    """A fit with everything on, made once."""
    out = tmp_path_factory.mktemp("fitted") / "out"
    args = ["fit", data / "occurrences.csv", data / "layers", *CATEGORY, "-o", out]
    args += ["--project", data / "future", "--bootstrap", "2", "--permutations", "2"]
    args += ["--test-share", "0.25", "--output", "raw", "--threshold", "10 percentile"]
    args += ["--replicates", "2", "--lambdas", "--background", "1500", "--buffer", "5000"]
    args += ["--select", "vif=1000"]
    result = CliRunner().invoke(cli.main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return out, result.output


def _layers(data):
    return sorted((data / "layers").glob("*.tif"))


def _write_records(path, rows, header="species,longitude,latitude"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# -- a fit ---------------------------------------------------------------------------------------


def test_fit_writes_everything(fitted):
    out, printed = fitted
    assert "report.html" in printed
    names = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert {
        "report.html",
        "map.png",
        "model.json",
        "result.json",
        "summary.json",
        "maps/cloglog.tif",
        "maps/raw.tif",
        "maps/presence.tif",
        "maps/replicates_mean.tif",
        "maps/replicates_sd.tif",
        "projections/future/cloglog.tif",
        "projections/future/clamping.tif",
        "projections/future/mess.tif",
        "projections/future/mod.tif",
        "tables/maxentResults.csv",
        "Arbor_fictus.lambdas",
    } <= names
    assert not [p for p in out.parent.iterdir() if p != out]  # no lock, no partial folder


def test_fit_is_certified_and_its_map_is_the_model(fitted, data):
    out, _ = fitted
    model = species.load_model(out / "model.json")
    assert model.species == "Arbor fictus"
    assert model.density.certificate.gap < 1e-7
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        block = next(layers.blocks(cells=10**9))
    expected = model.density.predict(block.frame(), output="cloglog")
    with rasterio.open(out / "maps" / "cloglog.tif") as file:
        drawn = file.read(1, masked=True)
    assert np.array_equal(~np.ma.getmaskarray(drawn), block.valid)
    np.testing.assert_allclose(drawn[block.valid], expected, atol=1e-6)
    threshold = model.threshold("10 percentile")
    with rasterio.open(out / "maps" / "presence.tif") as file:
        present = file.read(1)
    assert np.array_equal(present[block.valid], expected >= threshold)


def test_result_is_data_and_makes_the_report_again(fitted, run, tmp_path):
    out, _ = fitted
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    (copy / "report.html").unlink()
    result = run("report", copy)
    assert result.exit_code == 0, result.output
    assert "Arbor fictus" in (copy / "report.html").read_text(encoding="utf-8")
    loaded = mx.load(copy / "result.json")
    assert isinstance(loaded, species.SpeciesResult)
    assert loaded.records["test"].sum() == round(0.25 * len(loaded.records["test"]))
    assert loaded.evaluation.test_scores["auc"] > 0.5
    assert {r.kind for r in loaded.replicates} == {"blocks", "bootstrap"}
    empty = run("report", tmp_path)
    assert empty.exit_code == 1
    assert "give a folder that" in empty.output


@pytest.mark.slow
def test_the_command_to_repeat_repeats(data, tmp_path, run):
    """In a process of its own, so that the command line is the real one."""
    first, second = tmp_path / "one", tmp_path / "two"
    command = [sys.executable, "-m", "maxent.cli", "fit", str(data / "occurrences.csv")]
    command += [str(data / "layers"), *CATEGORY, *FAST, "--background", "800", "-o", str(first)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = mx.load(first / "result.json").command
    assert told.startswith("maxent fit ")
    again = told.split()[1:]
    again[again.index(str(first))] = str(second)
    assert run(*again).exit_code == 0
    one, two = (species.load_model(f / "model.json").density.coef for f in (first, second))
    assert one == two


def test_project_evaluate_and_lambdas(fitted, data, run, tmp_path):
    out, _ = fitted
    target = tmp_path / "future.tif"
    result = run("project", out / "model.json", data / "future", "-o", target)
    assert result.exit_code == 0, result.output
    with (
        rasterio.open(target) as one,
        rasterio.open(out / "projections" / "future" / "cloglog.tif") as other,
    ):
        assert np.array_equal(one.read(1), other.read(1), equal_nan=True)
    assert (tmp_path / "future_mess.tif").exists()
    again = run("project", out / "model.json", data / "future", "-o", target)
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    lambdas = run(
        "project",
        out / "Arbor_fictus.lambdas",
        data / "future",
        "-o",
        tmp_path / "jar.tif",
        "--no-clamp",
        "--no-similarity",
        "-q",
    )
    assert lambdas.exit_code == 0, lambdas.output
    scores = tmp_path / "scores.csv"
    result = run(
        "evaluate", out / "model.json", data / "occurrences.csv", data / "layers", "-o", scores
    )
    assert result.exit_code == 0, result.output
    (row,) = _rows(scores)
    fit = mx.load(out / "result.json")
    assert int(row["n_presences"]) == 80
    assert abs(float(row["auc"]) - fit.evaluation.scores["auc"]) < 0.05
    # absences instead of background, against a direct computation
    absences = data / "target_group.csv"
    result = run(
        "evaluate",
        out / "model.json",
        data / "occurrences.csv",
        data / "layers",
        "-o",
        scores,
        "--absences",
        absences,
        "--overwrite",
    )
    assert result.exit_code == 0, result.output
    (row,) = _rows(scores)
    model = fit.model
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        values = []
        for path in (data / "occurrences.csv", absences):
            at = species.read_occurrences(path)
            X, known = layers.read_cells(layers.grid.cells_at(at.x, at.y))
            values.append(model.predict(X[known]))
    assert float(row["auc"]) == pytest.approx(mx.evaluation.auc(*values), abs=1e-12)


def test_tune(data, run, tmp_path):
    out = tmp_path / "tuning"
    result = run(
        "tune",
        data / "occurrences.csv",
        data / "layers",
        *CATEGORY,
        "-f",
        "l,lq",
        "-m",
        "1,4",
        "--background",
        "800",
        "-o",
        out,
        "-q",
    )
    assert result.exit_code == 0, result.output
    (table,) = out.glob("*_tuning.csv")
    rows = _rows(table)
    assert {(r["features"], float(r["multiplier"])) for r in rows} == {
        (f, m) for f in ("lc", "lqc") for m in (1.0, 4.0)
    }
    means = [float(r["test_log_density"]) for r in rows]
    assert means == sorted(means, reverse=True)
    (by_fold,) = out.glob("*_folds.csv")
    scores = np.array([float(r["test_log_density"]) for r in _rows(by_fold)])
    np.testing.assert_allclose(means, scores.reshape(len(rows), 4).mean(axis=1))
    assert list(out.glob("*_tuning.png"))
    assert list(out.glob("*_tuning.html"))


def test_swd(data, run, tmp_path):
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        records = species.read_occurrences(data / "occurrences.csv")
        X, known = layers.read_cells(layers.grid.cells_at(records.x, records.y))
        drawn = species.draw_background(layers, 600)
        places = np.column_stack(layers.grid.centres(drawn.cell))
    points = np.column_stack([records.x, records.y])[known]
    species.write_swd(tmp_path / "samples.csv", ["Arbor fictus"] * len(points), points, X[known])
    species.write_swd(tmp_path / "bg.csv", ["background"] * len(places), places, drawn.X)
    result = run(
        "fit",
        "--swd",
        tmp_path / "samples.csv",
        tmp_path / "bg.csv",
        *CATEGORY,
        *FAST,
        "--project",
        data / "layers",
        "-o",
        tmp_path / "out",
    )
    assert result.exit_code == 0, result.output
    model = species.load_model(tmp_path / "out" / "model.json").density
    X_all = drawn.X.iloc[:0]
    import pandas as pd

    X_all = pd.concat([drawn.X, X[known]], ignore_index=True)
    counts = np.repeat([0.0, 1.0], [len(drawn.X), int(known.sum())])
    direct = mx.MaxentDensity("lqc", categorical=["biome"]).fit(X_all, counts)
    assert model.certificate.gain == pytest.approx(direct.gain_, abs=1e-6)
    assert (tmp_path / "out" / "projections" / "layers" / "cloglog.tif").exists()


def test_presets_agree_with_the_estimator_everywhere(data, tmp_path, run):
    out = tmp_path / "out"
    result = run(
        "fit",
        data / "occurrences.csv",
        data / "layers",
        *CATEGORY,
        "--preset",
        "maxnet",
        "--cv",
        "none",
        "--bootstrap",
        "0",
        "--permutations",
        "0",
        "--no-jackknife",
        "-o",
        out,
        "--background",
        "all",
    )
    assert result.exit_code == 0, result.output
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        block = next(layers.blocks(cells=10**9))
        records = species.read_occurrences(data / "occurrences.csv")
        cell = np.unique(layers.grid.cells_at(records.x, records.y))
    counts = np.zeros(block.valid.size)
    counts[cell] = 1
    model = mx.MaxentDensity(preset="maxnet", categorical=["biome"])
    model.fit(block.frame(), counts[block.valid.ravel()])
    with rasterio.open(out / "maps" / "cloglog.tif") as file:
        drawn = file.read(1)[block.valid]
    expected = model.predict(block.frame(), output="cloglog")
    np.testing.assert_allclose(drawn, expected, atol=1e-6)


def test_background_choices(data, tmp_path, run, landscape):
    base = ["fit", data / "occurrences.csv", data / "layers", *CATEGORY, *FAST, "--no-maps"]
    options = {
        "group": ["--background-records", data / "target_group.csv"],
        "bias": ["--bias", data / "effort.tif", "--background", "500"],
        "prior": ["--bias", data / "effort.tif", "--bias-as", "prior", "--background", "all"],
        "all": ["--background", "all"],
    }
    results = {}
    for name, extra in options.items():
        result = run(*base, *extra, "-o", tmp_path / name)
        assert result.exit_code == 0, result.output
        results[name] = mx.load(tmp_path / name / "result.json")
    land = int(np.isfinite(landscape.truth).sum())
    assert results["all"].n_background == results["prior"].n_background == land
    assert results["bias"].n_background == 500
    group = species.read_occurrences(data / "target_group.csv")
    cells = landscape.grid.cells_at(group.x, group.y)
    assert results["group"].n_background == np.unique(cells).size
    # the effort taken out: the same as the estimator with that prior
    records = species.read_occurrences(data / "occurrences.csv")
    counts = np.zeros(landscape.truth.size)
    counts[landscape.grid.cells_at(records.x, records.y)] = 1
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        block = next(layers.blocks(cells=10**9))
    with rasterio.open(data / "effort.tif") as file:
        effort = file.read(1)[block.valid]
    model = mx.MaxentDensity("lqc", categorical=["biome"])
    model.fit(block.frame(), counts[block.valid.ravel()], prior=effort)
    assert results["prior"].model.certificate.gain == pytest.approx(model.gain_, abs=1e-7)


@pytest.mark.slow
def test_the_demonstration_of_several_kinds_knows_its_truth(tmp_path, run, monkeypatch):
    small = partial(virtual_landscape, height=40, width=50, n_occurrences=60, n_group=300)
    monkeypatch.setattr("maxent.demo.species.virtual_landscape", small)
    result = run("demo", "--kinds", "-o", tmp_path / "kinds")
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "kinds" / "summary.json").read_text())
    shapes = {name: scores["pearson"] for name, scores in summary["agreement"].items()}
    assert set(shapes) == {"all kinds", "visits alone", "presences alone"}
    assert shapes["all kinds"] > shapes["visits alone"] - 0.05
    expected = summary["expected"]
    assert expected["all kinds"] == pytest.approx(expected["truth"], rel=0.4)
    assert "--survey" in summary["command"]
    assert "--counts" in summary["command"]
    assert (tmp_path / "kinds" / "truth_and_maps.png").exists()
    assert "how many there are" in result.output


@pytest.mark.slow
def test_the_demonstration_knows_its_truth(tmp_path, run, monkeypatch):
    few_refits(monkeypatch)
    out = tmp_path / "demo"
    result = run("demo", "-o", out)
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "summary.json").read_text())
    corrected = summary["agreement"]["target-group background"]
    plain = summary["agreement"]["random background"]
    # measured with seed 0: correlation 0.957 and 0.818, KL 0.037 and 0.134
    assert corrected["pearson"] > 0.94
    assert corrected["kl"] < 0.05 < 0.1 < plain["kl"]
    assert summary["row"]["gap"] < 1e-7
    for name in ("report.html", "map.png", "maps/cloglog.tif", "tables/maxentResults.csv"):
        assert (out / "results" / name).exists()
        assert name.split("/")[0] in result.output
    # again, into the same folder, which needs no large landscape
    small = partial(virtual_landscape, height=40, width=50, n_occurrences=60, n_group=300)
    monkeypatch.setattr("maxent.demo.species.virtual_landscape", small)
    before = (out / "summary.json").read_bytes()
    assert run("demo", "-o", out, "-q").output == ""
    assert (out / "summary.json").read_bytes() != before


def test_what_a_fit_warns_of_is_a_note(data, landscape, tmp_path, run):
    shutil.copytree(data / "layers", tmp_path / "layers")
    with rasterio.open(data / "effort.tif") as file:
        profile, effort = file.profile, file.read(1)
    with rasterio.open(tmp_path / "layers" / "flat.tif", "w", **profile) as file:
        file.write(np.where(np.isfinite(effort), np.float32(7), np.float32(np.nan)), 1)
    out, said = tmp_path / "out", "constant columns are not used: flat"
    args = ["fit", data / "occurrences.csv", tmp_path / "layers", *CATEGORY, *FAST, "--no-maps"]
    result = run(*args, "--background", "500", "-o", out)
    assert result.exit_code == 0, result.output
    assert f"note: {said}" in result.stderr
    assert said in mx.load(out / "result.json").notes
    assert said in (out / "report.html").read_text(encoding="utf-8")
    assert run(*args, "--background", "500", "-o", out, "--overwrite", "-q").output == ""


def test_remarks_on_a_fit():
    import pandas as pd

    X = pd.DataFrame({"warm": np.linspace(0, 1, 60), "flat": 1.0, "soil": np.tile([1, 2], 30)})
    sample = species.Sample(X, np.where(np.arange(60) > 45, 1.0, 0.0))
    test = species.Sample(X.assign(soil=np.repeat([2, 3, 4], 20)), np.repeat([1.0, 1.0, 0.0], 20))
    with pytest.warns(UserWarning, match="constant columns"):
        model = mx.MaxentDensity("lc", categorical=["soil"]).fit(X, sample.counts)
    constant = "constant columns are not used: flat"
    new = "soil: levels 3 of the test records were not there at the fit; they get no effect"
    density = model.density_
    assert fitting._remarks(density, sample, None) == [constant]
    assert fitting._remarks(density, sample, test) == [constant, new]
    told = replace(density.certificate, status=mx.Status.STALLED, n_iter=7, gap=0.00123)
    density = replace(density, certificate=told)
    stuck = "the fit did not converge (stalled after 7 iterations): its duality gap is 1.2e-03"
    assert fitting._remarks(density, sample, None) == [constant, stuck]


# -- many species --------------------------------------------------------------------------------


@pytest.fixture
def several(data, tmp_path):
    records = species.read_occurrences(data / "occurrences.csv")
    rows = [f"Árbol ñandú,{x},{y}" for x, y in zip(records.x[:40], records.y[:40], strict=True)]
    rows += [f"Arbor fictus,{x},{y}" for x, y in zip(records.x[40:], records.y[40:], strict=True)]
    rows += [f"Rara avis,{x},{y}" for x, y in zip(records.x[:2], records.y[:2], strict=True)]
    return _write_records(tmp_path / "several.csv", rows)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_batch_reports_failures_and_resumes(several, data, tmp_path, run, jobs):
    out = tmp_path / "batch"
    args = ["fit", several, data / "layers", *CATEGORY, *FAST, "--background", "600", "-o", out]
    result = run(*args, "-j", jobs)
    assert result.exit_code == 3, result.output
    assert "Rara avis" in result.output
    assert "fewer than 3" in result.output or "2 " in result.output
    folders = {p.name for p in out.iterdir() if p.is_dir()}
    assert folders == {"Árbol_ñandú", "Arbor_fictus"}
    assert {r["Species"] for r in _rows(out / "maxentResults.csv")} == {
        "Árbol ñandú",
        "Arbor fictus",
    }
    page = (out / "index.html").read_text(encoding="utf-8")
    for words in ("Árbol ñandú", "Arbor fictus", "Rara avis", "failed"):
        assert words in page
    if jobs == 2:  # what follows asks for one process
        return
    refused = run(*args)
    assert refused.exit_code == 1
    assert "--resume" in refused.output
    # one species lost: only that one is fitted again
    shutil.rmtree(out / "Arbor_fictus")
    before = (out / "Árbol_ñandú" / "report.html").stat().st_mtime_ns
    resumed = run(*args, "--resume")
    assert resumed.exit_code == 3
    assert "(kept)" in resumed.output
    assert (out / "Árbol_ñandú" / "report.html").stat().st_mtime_ns == before
    assert (out / "Arbor_fictus" / "report.html").exists()
    # other settings: refused, or all are fitted again
    changed = run(*args, "--resume", "-m", "3")
    assert changed.exit_code == 1
    assert "2 of 3 species come from other settings" in changed.output
    assert (out / "Árbol_ñandú" / "report.html").stat().st_mtime_ns == before
    changed = run(*args, "--resume", "--overwrite", "-m", "3")
    assert "(kept)" not in changed.output
    assert (out / "Árbol_ñandú" / "report.html").stat().st_mtime_ns > before


def test_one_species_of_many(several, data, tmp_path, run):
    result = run(
        "fit",
        several,
        data / "layers",
        *FAST,
        *CATEGORY,
        "-s",
        "Arbor fictus",
        "-o",
        tmp_path / "one",
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "one" / "report.html").exists()
    wrong = run("fit", several, data / "layers", "-s", "Nemo nullus", "-o", tmp_path / "no")
    assert wrong.exit_code == 1
    assert "no species 'Nemo nullus'" in wrong.output
    assert not (tmp_path / "no").exists()


# -- bad input -----------------------------------------------------------------------------------


def _bad_records(name, tmp_path, data):
    path = tmp_path / "records.csv"
    records = species.read_occurrences(data / "occurrences.csv")
    x, y = records.x[:10], records.y[:10]
    pairs = list(zip(x, y, strict=True))
    if name == "empty":
        path.write_text("")
    elif name == "header only":
        _write_records(path, [])
    elif name == "missing columns":
        _write_records(path, ["a,1"], header="species,height")
    elif name == "swapped":
        _write_records(path, [f"a,{b},{a}" for a, b in pairs])
    elif name == "sea":
        west, south, _, _ = rasterio.open(_layers(data)[0]).bounds
        _write_records(path, [f"a,{west + 0.001 * i},{south + 0.001}" for i in range(5)])
    elif name == "one cell":
        _write_records(path, [f"a,{x[0]},{y[0]}"] * 5)
    elif name == "two":
        _write_records(path, [f"a,{a},{b}" for a, b in pairs[:2]])
    elif name == "text":
        _write_records(path, [f"a,{x[0]},{y[0]}", "a,north,3"])
    return path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty", ["records.csv", "empty"]),
        ("header only", ["records.csv", "no record"]),
        ("missing columns", ["records.csv", "species", "height", "--x"]),
        ("swapped", ["swapped", "--x"]),
        ("sea", ["5 records", "records.csv"]),
        ("one cell", ["one cell"]),
        ("two", ["2 records"]),
        ("text", ["records.csv, line 3", "north"]),
    ],
)
def test_bad_records(name, words, data, tmp_path, run):
    path = _bad_records(name, tmp_path, data)
    args = ["--keep-duplicates"] if name == "one cell" else []
    result = run("fit", path, data / "layers", *CATEGORY, *FAST, *args, "-o", tmp_path / "out")
    assert result.exit_code == 1, result.output
    for word in words:
        assert word in result.output
    (error,) = [line for line in result.output.splitlines() if not line.startswith("note: ")]
    assert error.startswith("error: ")
    assert not (tmp_path / "out").exists()


def _rewrite(source, target, change=lambda values: values, **profile):
    with rasterio.open(source) as file:
        values, meta = file.read(), file.profile | profile
    with rasterio.open(target, "w", **meta) as file:
        file.write(change(values).astype(meta["dtype"]))


def _bad_layers(name, data, folder):
    shutil.copytree(data / "layers", folder)
    victim = next(p for p in sorted(folder.glob("*.tif")) if p.stem != "biome")
    if name == "truncated":
        content = victim.read_bytes()
        victim.write_bytes(content[: len(content) // 2])
    elif name == "not a raster":
        victim.write_text("hello")
    elif name == "all nodata":
        _rewrite(victim, victim, lambda v: np.full_like(v, np.nan), nodata=np.nan)
    elif name in ("elsewhere", "coarser"):
        with rasterio.open(victim) as file:
            step = 40.0 if name == "elsewhere" else 0.0
            scale = 1.0 if name == "elsewhere" else 2.0
            transform = rasterio.Affine.translation(step, 0) @ file.transform
            transform = transform @ rasterio.Affine.scale(scale)
        _rewrite(victim, victim, transform=transform)
    return folder, victim


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("truncated", [], ["cut short or damaged"]),
        ("not a raster", [], ["not a raster"]),
        ("all nodata", [], ["nodata"]),
        ("elsewhere", [], ["does not overlap"]),
        ("elsewhere", ["--align", "first"], ["does not overlap"]),
        ("coarser", [], ["not on the grid", "--align"]),
    ],
)
def test_bad_layers(name, args, words, data, tmp_path, run):
    folder, victim = _bad_layers(name, data, tmp_path / "layers")
    result = run(
        "fit", data / "occurrences.csv", folder, *CATEGORY, *FAST, *args, "-o", tmp_path / "out"
    )
    assert result.exit_code == 1, result.output
    named = result.output if name != "elsewhere" or not args else victim.name
    for word in [*words, victim.name]:
        assert word in result.output or word in named
    (error,) = [line for line in result.output.splitlines() if not line.startswith("note: ")]
    assert error.startswith("error: ")
    assert not (tmp_path / "out").exists()


def test_other_bad_arguments(data, tmp_path, run):
    base = ["fit", data / "occurrences.csv", data / "layers", "-o", tmp_path / "out"]
    for extra, code, word in (
        (["-c", "soil"], 1, "'soil' is not among the layers"),
        (["--lambdas", "--entropy", "tsallis:1.5"], 1, "--lambdas"),
        (["--cv", "circles"], 2, "--cv must be one of"),
        (["--entropy", "tsallis"], 2, "tsallis:ALPHA"),
        (["--align", "middle"], 2, "--align must be one of"),
        (["--replicate-type", "x"], 2, "--replicate-type must be one of"),
        (["-f", "xyz"], 2, "--features must be"),
        (["-m", "-1"], 2, "--multiplier must be"),
        (["--threshold", "best"], 2, "--threshold must be a number from 0 to 1"),
    ):
        result = run(*base, *extra)
        assert result.exit_code == code, result.output
        words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())
        assert word in words
    assert run(*base, "--background", "-3").exit_code == 2
    assert run("fit", data / "occurrences.csv", "-o", tmp_path / "out").exit_code == 2
    assert run("fit", tmp_path / "none.csv", data / "layers").exit_code == 1
    assert not (tmp_path / "out").exists()


def test_a_category_unseen_in_training(fitted, data, tmp_path, run):
    out, _ = fitted
    folder = tmp_path / "future"
    shutil.copytree(data / "future", folder)

    def new_level(values):
        land = values != 255
        return np.where(land & (np.arange(values.shape[2]) < 32), 77, values)

    _rewrite(folder / "biome.tif", folder / "biome.tif", new_level)
    result = run("project", out / "model.json", folder, "-o", tmp_path / "map.tif")
    assert result.exit_code == 0, result.output
    assert "note: " in result.output
    assert "77" in result.output
    quiet = run("project", out / "model.json", folder, "-o", tmp_path / "quiet.tif", "-q")
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert re.search(r"[1-9]\d* with an unseen category", result.output)


def test_names_of_any_script(data, tmp_path, run):
    folder = tmp_path / "capas ñ"
    shutil.copytree(data / "layers", folder)
    (folder / "temperature.tif").rename(folder / "température <°C>.tif")
    records = species.read_occurrences(data / "occurrences.csv")
    rows = [f'"<b>树木 & ""x""</b>",{x},{y}' for x, y in zip(records.x, records.y, strict=True)]
    path = _write_records(tmp_path / "données.csv", rows)
    out = tmp_path / "résultats"
    result = run("fit", path, folder, *CATEGORY, *FAST, "-o", out)
    assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;树木 &amp;" in page
    assert "<b>树木" not in page
    assert "température &lt;°C&gt;" in page


# -- files ---------------------------------------------------------------------------------------


def _described(node):
    """Every instance that a model file describes."""
    if isinstance(node, dict) and "class" in node:
        yield node
    if isinstance(node, dict | list):
        for part in node.values() if isinstance(node, dict) else node:
            yield from _described(part)


@pytest.mark.parametrize("name", ["model.json", "result.json"])
def test_a_file_without_one_of_its_fields_is_refused(name, fitted, tmp_path):
    document = json.loads((fitted[0] / name).read_text())
    path, seen = tmp_path / name, set()
    for instance in _described(document["model"]):
        if instance["class"] in seen:
            continue
        seen.add(instance["class"])
        # by itself: what it is a part of asks for the same
        header = {key: document[key] for key in ("format", "version")}
        for field in instance["state"]:
            state = {key: value for key, value in instance["state"].items() if key != field}
            path.write_text(json.dumps({**header, "model": {**instance, "state": state}}))
            with pytest.raises(ValueError, match=rf"invalid {instance['class']}: .*{field}"):
                io.load(path)
    assert len(seen) > 10


# -- folders -------------------------------------------------------------------------------------


def test_folders_are_not_written_over(fitted, data, tmp_path, run):
    args = ["fit", data / "occurrences.csv", data / "layers", *CATEGORY, *FAST, "--no-maps", "-o"]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    result = run(*args, mine)
    assert result.exit_code == 1
    assert "holds other files" in result.output
    assert run(*args, mine, "--overwrite").exit_code == 1
    assert [p.name for p in mine.iterdir()] == ["thesis.txt"]
    assert run(*args, mine / "thesis.txt").exit_code == 1
    out = tmp_path / "out"
    assert run(*args, out).exit_code == 0
    before = (out / "report.html").stat().st_mtime_ns
    result = run(*args, out)
    assert result.exit_code == 1
    assert "--overwrite" in result.output
    assert run(*args, out, "--overwrite").exit_code == 0
    assert (out / "report.html").stat().st_mtime_ns > before


def test_two_runs_into_one_folder(data, tmp_path, run):
    out = tmp_path / "out"
    args = ["fit", data / "occurrences.csv", data / "layers", *CATEGORY, *FAST, "--no-maps"]
    with outputs.locked(out):
        result = run(*args, "-o", out)
    assert result.exit_code == 1
    assert f"process {os.getpid()}" in result.output
    lock = tmp_path / ".out.lock"
    import socket

    lock.write_text(f"{socket.gethostname()} 999999999")  # of a run that was killed
    assert run(*args, "-o", out).exit_code == 0
    assert not lock.exists()


def test_staged_folders(tmp_path):
    folder = tmp_path / "a" / "b"
    with outputs.staged(folder) as place:
        (place / outputs.RESULT).write_text("1")
        assert not folder.exists()
    assert (folder / outputs.RESULT).read_text() == "1"

    def interrupted():
        with outputs.staged(folder, overwrite=True) as place:
            (place / outputs.RESULT).write_text("2")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (folder / outputs.RESULT).read_text() == "1"
    with outputs.staged(folder, overwrite=True) as place:
        (place / outputs.RESULT).write_text("3")
    assert (folder / outputs.RESULT).read_text() == "3"
    assert [p.name for p in folder.parent.iterdir()] == ["b"]


def test_folder_that_cannot_be_made(data, tmp_path, run):
    (tmp_path / "file").write_text("")
    args = ["fit", data / "occurrences.csv", data / "layers", *CATEGORY, *FAST, "--no-maps"]
    result = run(*args, "-o", tmp_path / "file" / "out")
    assert result.exit_code == 1
    assert "-o" in result.output or "is a file" in result.output
    result = run(*args, "-o", "/proc/maxent/out")
    assert result.exit_code == 1
    assert "/proc/maxent" in result.output


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 300 kB, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        lacking("a full and a read-only disk need the right to mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_disk(tiny_disk, data, run):
    out = tiny_disk / "out"
    result = run("fit", data / "occurrences.csv", data / "layers", *CATEGORY, *FAST, "-o", out)
    assert result.exit_code == 1, result.output
    assert "space" in result.output
    assert list(tiny_disk.iterdir()) == []


def test_a_map_on_a_full_disk_is_one_error_and_nothing_else(fitted, tiny_disk, data, run, capfd):
    free = shutil.disk_usage(tiny_disk).free
    (tiny_disk / "mine.bin").write_bytes(bytes(free - (1 << 14)))
    result = run("project", fitted[0] / "model.json", data / "layers", "-o", tiny_disk / "maps")
    assert result.exit_code == 1, result.output
    assert result.output.count("no space left on the disk") == 1
    assert capfd.readouterr().err == ""  # where libtiff writes by itself
    assert [p.name for p in tiny_disk.iterdir()] == ["mine.bin"]


def test_native_lines_are_held_back_and_others_pass(capfd):
    with native_lines_held_back(), native_lines_held_back():
        for part in (b"\rmap: 1 of 3_tiffWri", b"teProc: No space left.\n", b"a_t", b"rue word\n"):
            os.write(2, part)
        os.write(2, b"ERROR 3: of GDAL\nTIFFAppendToStrip: Write error\nERRATA\n_")
    os.write(2, b" end\n")
    assert capfd.readouterr().err == "\rmap: 1 of 3a_true word\nERRATA\n_ end\n"


def test_read_only_folder(tiny_disk, data, run):
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    out = tiny_disk / "out"
    result = run("fit", data / "occurrences.csv", data / "layers", *CATEGORY, *FAST, "-o", out)
    assert result.exit_code == 1, result.output
    assert "cannot write to" in result.output


@pytest.mark.slow
def test_interrupt_leaves_nothing(data, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "maxent.cli", "fit", str(data / "occurrences.csv")]
    command += [str(data / "layers"), *CATEGORY, "--bootstrap", "3000", "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: list(tmp_path.glob(".out.*.partial")), process)
    time.sleep(1.0)  # in the middle of it
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, errors
    assert b"interrupted" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_interrupted_batch_stops_and_resumes(several, data, tmp_path, run):
    out = tmp_path / "batch"
    command = [sys.executable, "-m", "maxent.cli", "fit", str(several), str(data / "layers")]
    command += [*CATEGORY, "--bootstrap", "3000", "-o", str(out), "-j", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: list(out.glob(".*.partial")), process)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    left = [p.name for p in out.iterdir()] if out.exists() else []
    assert left == []
    # what a killed run leaves does not stand in the way of the next one
    (out / ".Arbor_fictus.0123abcd.partial").mkdir(parents=True, exist_ok=True)
    done = run(*command[3:6], *CATEGORY, *FAST, "-o", out, "--resume", "--no-maps", "-q")
    assert done.exit_code == 3, done.output
    assert not list(out.glob(".*"))


def test_earlier_results_come_back_after_a_kill_between_two_renames(tmp_path):
    folder = tmp_path / "out"
    (tmp_path / ".out.0123abcd.old").mkdir()
    (tmp_path / ".out.0123abcd.old" / outputs.RESULT).write_text("1")
    (tmp_path / ".out.89abcdef.partial").mkdir()
    with outputs.locked(folder):
        assert (folder / outputs.RESULT).read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_the_rules_of_thresholds_are_those_of_the_table():
    rng = np.random.default_rng(0)
    table = mx.evaluation.thresholds(rng.random(9), rng.random(50), rng.random(5))
    assert {row.name for row in table} == set(RULES)


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"test_share": 1.0}, "test_share"),
        ({"folds": 1}, "folds"),
        ({"bias": "both"}, "bias"),
        ({"preset": "jar"}, "preset"),
        ({"prevalence": 0.0}, "prevalence"),
        ({"entropy": "gini"}, "entropy"),
    ],
)
def test_bad_settings(settings, word):
    with pytest.raises(ValueError, match=word):
        species.Settings(**settings)


def test_fingerprint_sees_what_matters(data, tmp_path):
    records = species.read_occurrences(data / "occurrences.csv")
    task = job.Job("a", tmp_path, False, records)
    shared = job.Shared(species.Settings())
    same = job.fingerprint(task, replace(shared, command="other words"))
    assert job.fingerprint(task, shared) == same
    moved = replace(records, x=records.x + 1e-9)
    for other in (
        job.fingerprint(replace(task, records=moved), shared),
        job.fingerprint(task, replace(shared, settings=species.Settings(multiplier=2.0))),
    ):
        assert other != same


def test_every_class_of_the_results_is_in_the_files(fitted):
    """What is written is read again above; here: nothing registered goes untested."""
    out, _ = fitted
    text = (out / "result.json").read_text() + (out / "model.json").read_text()
    written = set(re.findall(r'"class": "(\w+)"', text))
    homes = {name: entry.cls.__module__ for name, entry in mx.io._REGISTRY.items()}
    own = {name for name, home in homes.items() if home.startswith("maxent.species.")}
    # test_species_sharing.py, _joint.py, _units.py, _blocks.py, _dates.py, _kinds.py
    elsewhere = {"CleaningStep", "Sharing", "Borrowing", "UnlikeUnits", "BlockSize"}
    elsewhere |= {"Timing", "MapsInTime", "KindsOfRecords", "SourceFile"}
    assert own - elsewhere <= written
    step = species.CleaningStep("lost", 2, ("a, row 3",))
    mx.save(step, out.parent / "step.json")
    assert mx.load(out.parent / "step.json") == step
    (out.parent / "step.json").unlink()


def test_summary_file_is_plain(fitted):
    out, _ = fitted
    summary = json.loads(Path(out / "summary.json").read_text(encoding="utf-8"))
    assert summary["row"]["status"] == "ok"
    assert summary["row"]["gap"] < 1e-7


# -- the house -----------------------------------------------------------------------------------


ROOMS = ("species", "datasets", "demo", "cli")


def _room(module):
    return module.split(".")[1] if "." in module else ""


def _imports():
    """(module, imported module, name) of every import, those in functions and for types too."""
    root = Path(mx.__file__).parents[1]
    files = {}
    for path in root.glob("maxent/**/*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    for module, path in files.items():
        if _room(module) in ROOMS:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                    full = f"{node.module}.{alias.name}"
                    yield module, full if full in files else node.module, alias.name


def test_modules_stand_above_those_they_import():
    imports = list(_imports())
    needed = {}
    for module, other, _ in imports:
        needed.setdefault(module, set()).add(other)
    assert len(needed) > 50
    graphlib.TopologicalSorter(needed).prepare()  # raises where there is a circle
    below = {module: {_room(other) for other in others} for module, others in needed.items()}
    for module, rooms in below.items():
        if _room(module) == "species":
            assert not rooms & {"datasets", "demo", "cli"}, module
        if _room(module) == "datasets":
            assert not rooms & {"demo", "cli"}, module
    private = [i for i in imports if _room(i[1]) in ROOMS and i[2].startswith("_")]
    assert private == []
