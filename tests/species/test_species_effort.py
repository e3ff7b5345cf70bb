"""Sampling effort from the records themselves: kernel density, bandwidth, and what it is for."""

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.study.effort import RecordEffort
from tools import needs

rasterio = needs("rasterio")
pyproj = needs("pyproj")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]


def _run(*args):
    return CliRunner().invoke(cli.main, [str(a) for a in args])


def _read(path):
    with rasterio.open(path) as file:
        return file.read(1), file.tags()


def _arcs(x, y, other_x, other_y):
    """Lengths of geodesics in km, from each of some places to each of others."""
    pairs = np.repeat(x, len(other_x)), np.repeat(y, len(other_x))
    pairs += np.tile(other_x, len(x)), np.tile(other_y, len(x))
    metres = pyproj.Geod(ellps="WGS84").inv(*pairs)[2]
    return np.reshape(metres, (len(x), len(other_x))) / 1e3


def _fit(data, out, *options):
    args = ["fit", data / "occurrences.csv", data / "layers", "-c", "biome", *FAST, "-o", out]
    return _run(*args, *options)


def test_density_in_degrees_is_that_of_geodesics():
    grid = Grid("EPSG:4326", (0.5, 0.0, 170.0, 0.0, -0.5, 65.0), width=40, height=30)
    rng = np.random.default_rng(0)
    x, y = 180 + rng.normal(0, 2, 50), 58 + rng.normal(0, 2, 50)
    effort = RecordEffort.from_records(x, y, grid, "records", "auto")
    rows, columns = np.floor(grid.positions(x, y))
    inside = (rows >= 0) & (rows < 30) & (columns >= 0) & (columns < 40)
    x, y = grid.coordinates(rows[inside] + 0.5, columns[inside] + 0.5)  # at centres of cells
    centre_x, centre_y = grid.centres(np.arange(grid.size))
    h, n = effort.bandwidth, len(x)
    between = _arcs(x, y, x, y)
    # half of the mean squared distance of pairs is the variance
    scott = np.sqrt((between**2).sum() / (2 * n * (n - 1)) / 2) * n ** (-1 / 6)
    assert h == pytest.approx(scott, rel=1e-3)
    assert effort.rule == "Scott's rule"
    density = np.exp(-(_arcs(centre_x, centre_y, x, y) ** 2) / (2 * h**2)).sum(axis=1)
    largest = np.exp(-(between**2) / (2 * h**2)).sum(axis=1).max()
    found, known = effort.read(Window(0, 0, 30, 40))
    assert known.all()
    np.testing.assert_allclose(found.ravel(), np.maximum(density / largest, 1e-3), rtol=0.01)
    part, _ = effort.read(Window(3, 7, 5, 6))
    np.testing.assert_allclose(part, found[3:8, 7:13])


@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:2227", "EPSG:3995"])
def test_density_on_other_maps_is_that_of_geodesics(crs):
    """Also where a metre of the map is half a metre of ground, in feet, and near a pole."""
    corner = {"EPSG:3857": (1e6, 8.4e6), "EPSG:2227": (6e6, 2e6), "EPSG:3995": (-2e5, 1e5)}[crs]
    side = 3000.0
    grid = Grid(crs, (side, 0.0, corner[0], 0.0, -side, corner[1]), 30, 20)
    x, y = grid.centres(np.array([4 * 30 + 5, 9 * 30 + 20]))
    effort = RecordEffort.from_records(x, y, grid, "records", "6")
    values, _ = effort.read(Window(0, 0, 20, 30))
    to_degrees = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    cells = to_degrees.transform(*grid.centres(np.arange(grid.size)))
    km = _arcs(*map(np.array, cells), *to_degrees.transform(x, y))
    density = np.exp(-(km**2) / (2 * 6.0**2)).sum(axis=1).reshape(20, 30)
    largest = max(density[4, 5], density[9, 20])
    np.testing.assert_allclose(values, np.maximum(density / largest, 1e-3), rtol=1e-4)


def test_background_follows_the_records(data, tmp_path):
    done = _fit(data, tmp_path / "out", "--bias-kernel", "60", "--background", "150")
    assert done.exit_code == 0, done.output
    effort, tags = _read(tmp_path / "out" / "maps" / "effort.tif")
    result = mx.load(tmp_path / "out" / "result.json")
    said = [note for note in result.notes if note.startswith("effort: kernel density of")]
    assert "bandwidth 60 km (given)" in said[0]
    assert tags["EFFORT"] in said[0]
    suitability, _ = _read(tmp_path / "out" / "maps" / "cloglog.tif")
    np.testing.assert_array_equal(np.isnan(effort), np.isnan(suitability))
    with rasterio.open(tmp_path / "out" / "maps" / "effort.tif") as file:
        grid = Grid(file.crs.to_string(), tuple(file.transform)[:6], file.width, file.height)
    with (data / "occurrences.csv").open() as file:
        rows = [line.split(",") for line in file.read().splitlines()[1:]]
    x, y = (np.array([float(row[i]) for row in rows]) for i in (-2, -1))
    exact, _ = RecordEffort.from_records(x, y, grid, "", "60").read(
        Window(0, 0, grid.height, grid.width)
    )
    np.testing.assert_allclose(effort, np.where(np.isnan(effort), np.nan, exact), rtol=1e-6)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Sampling effort." in page
    # the background drawn has more effort than the region on average
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        records, _ = species.RecordFile(str(data / "occurrences.csv")).read(layers.grid)
        how = {"background": 150, "verbose": 0}
        drawn = species.survey(layers, records, species.Settings(bias_kernel="60", **how))
        even = species.survey(layers, records, species.Settings(**how))
    means = [exact.ravel()[r.cell[r.background]].mean() for r in (drawn, even)]
    assert means[0] > 1.2 * means[1]


def test_as_prior_it_is_taken_out(data, tmp_path):
    args = ["--bias-kernel", "auto", "--bias-as", "prior", "--background", "all"]
    done = _fit(data, tmp_path / "out", *args)
    assert done.exit_code == 0, done.output
    assert "Scott's rule" in " ".join(done.output.split())
    assert "as prior" in mx.load(tmp_path / "out" / "result.json").settings["bias"]
    # the same raster given as a file says the same
    again = _fit(
        data, tmp_path / "file", "--bias", tmp_path / "out" / "maps" / "effort.tif",
        "--bias-as", "prior", "--background", "all",
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    one, other = (_read(tmp_path / name / "maps" / "cloglog.tif")[0] for name in ("out", "file"))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_other_records_tell_of_effort(data, tmp_path):
    lines = (data / "occurrences.csv").read_text().splitlines()
    (tmp_path / "few.csv").write_text("\n".join(lines[:11]) + "\n")
    args = ["--bias-kernel", "80", "--background", "100"]
    done = _fit(data, tmp_path / "out", *args, "--background-records", tmp_path / "few.csv")
    assert done.exit_code == 0, done.output
    result = mx.load(tmp_path / "out" / "result.json")
    assert any("density of 10 records of" in note for note in result.notes)
    assert result.n_background == 100


def test_what_cannot_be_is_said(data, tmp_path):
    out = tmp_path / "out"
    effort = next((data / "layers").glob("*.tif"))
    for options, message in (
        (["--bias-kernel", "auto", "--bias", effort], "--bias-kernel and --bias are two ways"),
        (["--bias-kernel", "auto", "--target-group"], "--bias-kernel and --target-group"),
        (["--bias-kernel", "wide"], "--bias-kernel must be auto or a bandwidth"),
        (["--bias-kernel", "-3"], "--bias-kernel must be auto or a bandwidth"),
    ):
        done = _fit(data, out, *options)
        assert done.exit_code == 2, done.output
        assert message in " ".join(done.output.split())
        assert not out.exists()
    done = _fit(data, out, "--bias-kernel", "50", "--background", "all")
    assert done.exit_code == 0, done.output
    assert "the density of records changes nothing" in " ".join(done.output.split())
    done = _fit(data, out, "--bias", effort, "--background", "all", "--overwrite")
    assert done.exit_code == 0, done.output
    assert "sampling effort changes nothing" in " ".join(done.output.split())
    grid = Grid("EPSG:4326", (1.0, 0.0, 0.0, 0.0, -1.0, 3.0), 3, 3)
    with pytest.raises(ValueError, match="all records lie in one cell"):
        RecordEffort.from_records(np.array([0.2, 0.3]), np.array([0.2, 0.3]), grid, "two", "auto")


def test_tune_prints_the_same_effort(data, tmp_path):
    done = _run(
        "tune", data / "occurrences.csv", data / "layers", "-c", "biome", "-f", "l", "-m", "1,2",
        "--bias-kernel", "70", "--background", "200", "-o", tmp_path / "tuned",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "--bias-kernel 70 --background 200" in " ".join(done.output.split())
