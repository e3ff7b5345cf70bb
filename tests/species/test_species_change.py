"""Range change, ensembles of scenarios and niche overlap, through the command and by hand."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

from maxent import cli
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.comparing.overlap import niche_overlap
from maxent.species.fitting.results import read_result
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.grid import Grid, Window
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

DEGREES = (0.5, 0.0, -70.0, 0.0, -0.5, 10.0)
NOW = np.array([[0.9, 0.8, 0.1], [0.2, np.nan, 0.6]])
WARM = np.array([[0.7, 0.3, 0.9], [0.1, 0.9, np.nan]])
HOT = np.array([[0.1, 0.2, 0.8], [0.9, 0.9, 0.9]])


def _write(path, values, transform=DEGREES, crs="EPSG:4326"):
    path.parent.mkdir(parents=True, exist_ok=True)
    profile = {"driver": "GTiff", "count": 1, "dtype": "float32", "nodata": float("nan")}
    height, width = values.shape
    with rasterio.open(
        path, "w", height=height, width=width, crs=crs, transform=rasterio.Affine(*transform),
        **profile,
    ) as file:  # fmt: skip
        file.write(values.astype(np.float32), 1)
    return path


def _read(path):
    with rasterio.open(path) as file:
        return file.read(1), file.tags()


@pytest.fixture
def maps(tmp_path):
    values = {"now": NOW, "warm": WARM, "hot": HOT}
    return {name: _write(tmp_path / f"{name}.tif", v) for name, v in values.items()}


def test_change_of_two_scenarios(run, maps, tmp_path):
    out = tmp_path / "out"
    result = run("change", maps["now"], maps["warm"], maps["hot"], "-t", "0.5", "-o", out)
    assert result.exit_code == 0, result.output
    code, tags = _read(out / "change_warm.tif")
    assert code.tolist() == [[2, 1, 3], [0, 255, 255]]
    assert tags["THRESHOLD"] == "0.5"
    assert [tags[f"CLASS_{i}"] for i in range(4)] == ["absent in both", "lost", "kept", "gained"]
    code, _ = _read(out / "change_hot.tif")
    assert code.tolist() == [[1, 1, 3], [3, 255, 2]]
    upper, lower = cell_areas(Grid("EPSG:4326", DEGREES, 3, 2)).read(Window(0, 0, 2, 3))[:, 0]
    with (out / "range_change.csv").open() as file:
        warm, hot = csv.DictReader(file)
    assert warm["scenario"] == "warm"
    assert float(warm["lost_km2"]) == pytest.approx(upper)
    assert (warm["cells"], warm["lost_cells"], warm["kept_cells"]) == ("4", "1", "1")
    assert float(warm["kept_km2"]) == pytest.approx(upper)
    assert float(hot["gained_km2"]) == pytest.approx(upper + lower)
    assert float(hot["kept_km2"]) == pytest.approx(lower)
    change = (upper + 2 * lower) / (2 * upper + lower) - 1
    assert float(hot["change_percent"]) == pytest.approx(100 * change)
    both = np.array([WARM, HOT])
    mean, _ = _read(out / "scenarios_mean.tif")
    np.testing.assert_allclose(mean, both.mean(axis=0), rtol=1e-6)
    spread, _ = _read(out / "scenarios_sd.tif")
    np.testing.assert_allclose(spread, both.std(axis=0, ddof=1), rtol=1e-6)
    votes, _ = _read(out / "scenarios_agreement.tif")
    assert votes.tolist() == [[1, 0, 2], [1, 2, 255]]


def test_without_a_crs_cells_are_counted(run, tmp_path):
    for name, values in {"now": NOW, "hot": HOT}.items():
        _write(tmp_path / f"{name}.tif", values, crs=None)
    out = tmp_path / "out"
    args = [tmp_path / "now.tif", tmp_path / "hot.tif", "-t", "0.5", "-o", out]
    result = run("change", *args)
    assert result.exit_code == 0, result.output
    assert "areas are not known without a CRS" in " ".join(result.output.split())
    with (out / "range_change.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["lost_cells"], row["kept_cells"], row["gained_cells"]) == ("2", "1", "2")
    assert row["lost_km2"] == "nan"
    assert float(row["change_percent"]) == 0


def test_a_threshold_of_another_scale_is_pointed_out(run, maps, tmp_path):
    result = run("change", maps["now"], maps["hot"], "-t", "50", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "the first map is below 50 in every cell" in said
    assert "hot is below 50 in every cell" in said
    fine = run("change", maps["now"], maps["hot"], "-t", "0.5", "-o", tmp_path / "fine")
    assert "in every cell" not in fine.output


def test_maps_that_have_no_cell_in_common_say_so(run, maps, tmp_path):
    """As where a mask left out all of a scenario; it is known by its folder, not as cloglog."""
    (tmp_path / "2070 °C").mkdir()
    none = _write(tmp_path / "2070 °C" / "cloglog.tif", np.full_like(HOT, np.nan))
    result = run("change", maps["now"], none, maps["hot"], "-t", "0.5", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "2070 °C has no cell with a value in common with the first map" in said
    assert "nothing to compare" in said
    assert "in every cell" not in said
    with (tmp_path / "out" / "range_change.csv").open(encoding="utf-8") as file:
        assert [row["scenario"] for row in csv.DictReader(file)] == ["2070 °C", "hot"]


def test_bad_comparisons(run, maps, tmp_path):
    moved = _write(tmp_path / "moved.tif", WARM, (0.5, 0.0, -71.0, 0.0, -0.5, 10.0))
    small = _write(tmp_path / "small.tif", WARM[:1])
    text = tmp_path / "text.tif"
    text.write_text("no raster")
    out = ["-t", "0.5", "-o", tmp_path / "out"]
    for args, message in (
        ([maps["now"], moved, *out], "x -71 to -69.5"),
        ([maps["now"], small, *out], "3 x 1 cells of 0.5"),
        ([maps["now"], text, *out], "no raster"),
        ([maps["now"], tmp_path / "none.tif", *out], "no such map"),
        ([tmp_path, *out], "result.json"),
    ):
        result = run("change", *args)
        assert result.exit_code == 1, args
        assert message in result.output
        assert not (tmp_path / "out").exists()
    for args, message in (
        ([maps["now"]], "one or more maps"),
        ([maps["now"], maps["hot"]], "--threshold VALUE and --out"),
        ([maps["now"], maps["hot"], "-t", "maximum", "-o", tmp_path / "out"], "is a number"),
        ([tmp_path, maps["hot"]], "its own projections"),
    ):
        result = run("change", *args)
        assert result.exit_code == 2, args
        assert message in result.output
    assert run("change", maps["now"], maps["hot"], *out).exit_code == 0
    again = run("change", maps["now"], maps["hot"], *out)
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    onto = run("change", maps["now"], tmp_path / "out" / "change_hot.tif", "-t", "1", *out[2:])
    assert onto.exit_code == 1


def test_overlap_is_that_of_the_formulas(run, maps, tmp_path):
    known = ~np.isnan(NOW) & ~np.isnan(WARM)
    p, q = (values[known].astype(np.float32).astype(float) for values in (NOW, WARM))
    p, q = p / p.sum(), q / q.sum()
    found = niche_overlap(maps["now"], maps["warm"])
    assert found.d == pytest.approx(1 - np.abs(p - q).sum() / 2)
    assert found.i == pytest.approx(1 - ((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2)
    assert found.correlation == pytest.approx(np.corrcoef(p, q)[0, 1])
    assert found.cells == 4
    same = niche_overlap(maps["now"], maps["now"])
    assert (same.d, same.i) == (pytest.approx(1), pytest.approx(1))
    out = tmp_path / "overlap.csv"
    result = run("overlap", maps["now"], maps["warm"], "-o", out)
    assert result.exit_code == 0, result.output
    assert f"{found.d:.4f}" in result.output
    with out.open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["warren_i"]) == found.i
    _write(tmp_path / "log.tif", np.log(HOT))
    for other, message in (("log", "not of logarithms"), ("nowhere", "no such map")):
        result = run("overlap", maps["now"], tmp_path / f"{other}.tif")
        assert result.exit_code == 1
        assert message in result.output


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    data = tmp_path_factory.mktemp("landscape")
    write_landscape(virtual_landscape(height=30, width=40, n_occurrences=60, seed=3), data)
    fast = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
    out = data / "out"
    args = ["fit", data / "occurrences.csv", data / "layers", "-c", "biome", *fast, "-o", out]
    args += ["--project", data / "future"]
    result = CliRunner().invoke(cli.main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return out


def test_a_fit_with_a_projection_reports_its_range_change(fitted, run):
    result = read_result(fitted)
    (change,) = result.change.changes
    assert change.scenario == "future"
    rule = "10 percentile training presence"
    (threshold,) = (r["value"] for r in result.evaluation.thresholds if r["name"] == rule)
    assert change.threshold == pytest.approx(threshold)
    now, _ = _read(fitted / "maps" / "cloglog.tif")
    future, _ = _read(fitted / "projections" / "future" / "cloglog.tif")
    code, _ = _read(fitted / "change" / result.change.files["change:future"])
    cut = np.float32(threshold)  # a presence sets it, and must not fall below by rounding
    expected = 1 * (now >= cut) + 3 * (future >= cut)
    expected[expected == 4] = 2
    np.testing.assert_array_equal(code[code != 255], expected[~np.isnan(now + future)])
    page = (fitted / "report.html").read_text()
    assert "Range change" in page
    assert f"{round(change.lost_km2):,}" in page
    assert "change/range_change.csv" in page


def test_a_folder_is_compared_again_at_another_threshold(fitted, run, tmp_path):
    out = tmp_path / "again"
    result = run("change", fitted, "-t", "minimum training presence", "-o", out)
    assert result.exit_code == 0, result.output
    assert "Minimum training presence" in result.output
    with (out / "range_change.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["threshold"]) < read_result(fitted).change.changes[0].threshold
    assert run("overlap", fitted, fitted).exit_code == 0


def test_overlap_says_of_which_output_it_is(fitted, run, tmp_path):
    assert "of the cloglog output" in " ".join(run("overlap", fitted, fitted).output.split())
    missing = run("overlap", fitted, fitted, "--output", "raw")
    assert missing.exit_code == 1
    assert "fit again with --output raw" in " ".join(missing.output.split())
    for name, layers in (("now", "layers"), ("later", "future")):
        args = ["project", fitted, fitted.parent / layers, "--output", "raw", "--output", "cloglog"]
        assert run(*args, "-o", tmp_path / name).exit_code == 0
    out = tmp_path / "raw.csv"
    result = run("overlap", tmp_path / "now/raw.tif", tmp_path / "later/raw.tif", "-o", out)
    assert "of the raw output" in " ".join(result.output.split())
    p, q = (_read(tmp_path / name / "raw.tif")[0].astype(float) for name in ("now", "later"))
    both = ~np.isnan(p + q)
    p, q = p[both] / p[both].sum(), q[both] / q[both].sum()
    with out.open() as file:
        (row,) = csv.DictReader(file)
    assert row["output"] == "raw"
    assert float(row["schoener_d"]) == pytest.approx(1 - np.abs(p - q).sum() / 2)
    assert float(row["warren_i"]) == pytest.approx(np.sqrt(p * q).sum())
    mixed = run("overlap", tmp_path / "now/raw.tif", tmp_path / "later/cloglog.tif")
    assert mixed.exit_code == 1
    assert "like with like" in " ".join(mixed.output.split())
    foreign = run("overlap", _write(tmp_path / "a.tif", NOW), _write(tmp_path / "b.tif", WARM))
    assert "do not say of which output" in " ".join(foreign.output.split())
    for args, message in (
        ([tmp_path / "a.tif", tmp_path / "b.tif", "--output", "raw"], "is for folders"),
        ([fitted, fitted, "--output", "log"], "must be cloglog, raw"),
    ):
        result = run("overlap", *args)
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())
