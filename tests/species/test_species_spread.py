"""Uncertainty of projections: spread of replicates, ExDet, and masks of what extrapolates."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.input.layers.extrapolation import Extrapolation
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]


def _run(*args):
    return CliRunner().invoke(cli.main, [str(a) for a in args])


def _read(path):
    with rasterio.open(path) as file:
        return file.read(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A landscape with two layers of numbers that go together, but not in the future."""
    folder = tmp_path_factory.mktemp("spread")
    write_landscape(virtual_landscape(height=30, width=40, n_occurrences=60, seed=3), folder)
    return folder


@pytest.fixture(scope="module")
def fitted(data):
    out = data / "out"
    args = ["fit", data / "occurrences.csv", data / "layers", "-c", "biome", *FAST, "-o", out]
    args += ["--project", data / "future", "--replicates", "3", "--background", "all"]
    done = _run(*args)
    assert done.exit_code == 0, done.output
    return out


def _tables(data):
    """The numbers of the layers and of the future, one column per variable."""
    found = []
    for name in ("layers", "future"):
        with species.Layers.open(data / name, categorical=["biome"]) as layers:
            block = next(layers.blocks(cells=10**9))
            found.append((block.frame(), block.valid))
    return found


def _exdet(training, places):
    """By numpy's own covariance, inverse and loops over places."""
    low, high = training.min(axis=0), training.max(axis=0)
    inverse = np.linalg.inv(np.cov(training, rowvar=False))
    mean = training.mean(axis=0)
    furthest = max((row - mean) @ inverse @ (row - mean) for row in training)
    values = []
    for row in places:
        outside = np.minimum(np.minimum(row - low, high - row), 0) / (high - low)
        values.append(outside.sum() or (row - mean) @ inverse @ (row - mean) / furthest)
    return np.array(values)


def test_exdet_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    training = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) * [1, 50, 0.01] + [0, 300, 1]
    places = np.concatenate(
        [training, 1.3 * training - 0.3 * training.mean(axis=0), training[::-1]]
    )
    places[400:, 1] = training[:, 1]  # each within its range, not together
    found = Extrapolation.from_table(training)
    values = found.novelty({f"x{i}": places[:, i] for i in range(3)})
    np.testing.assert_allclose(values, _exdet(training, places), rtol=1e-8, atol=1e-12)
    assert values[:200].max() == pytest.approx(1)
    assert (values[200:400] < 0).any()
    assert (values[400:] > 1).any()
    assert repr(found) == "<Extrapolation: ExDet of x0, x1, x2>"


def test_exdet_sees_what_leaves_a_line():
    line = np.linspace(0, 1, 50)
    training = np.column_stack([line, 2 * line, np.full(50, 7.0)])
    found = Extrapolation.from_table(training)
    places = {"x0": [0.5, 0.5, 0.5], "x1": [1.0, 1.001, 1.2], "x2": [7.0, 7.0, 7.0]}
    on, rounded, off = found.novelty(places)
    assert on < rounded < 1 < off
    assert found.novelty({"x0": [0.5], "x1": [1.0], "x2": [7.5]})[0] == pytest.approx(-0.5)


def test_a_projection_has_exdet_and_the_spread_of_replicates(fitted, data):
    folder = fitted / "projections" / "future"
    (now, _), (future, valid) = _tables(data)
    numbers = [name for name in now.columns if name != "biome"]
    expected = _exdet(now[numbers].to_numpy(float), future[numbers].to_numpy(float))
    exdet = _read(folder / "exdet.tif")
    assert np.isnan(exdet[~valid]).all()
    np.testing.assert_allclose(exdet[valid], expected, rtol=1e-4, atol=1e-5)
    (drawn,) = [m for m in mx.load(fitted / "result.json").maps if not m.training]
    assert drawn.n_novel == (exdet[valid] > 1).sum()
    mess = _read(folder / "mess.tif")[valid]
    assert ((exdet[valid] < 0) <= (mess < 0)).all()
    parts = [_read(folder / f"replicates_{name}.tif")[valid] for name in ("min", "mean", "max")]
    assert (parts[0] <= parts[1]).all()
    assert (parts[1] <= parts[2]).all()
    assert (_read(folder / "replicates_sd.tif")[valid] > 0).any()
    page = (fitted / "report.html").read_text(encoding="utf-8")
    assert page.count("<strong>Spread of the replicates. </strong>") == 2  # now and in the future
    assert "Novelty (ExDet)." in page
    assert "combination of variables that is new" in page


def test_the_spread_is_that_of_the_refits(data, tmp_path):
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        occurrences, _ = species.RecordFile(str(data / "occurrences.csv")).read(layers.grid)
        settings = species.Settings(
            features="l", replicates=4, cv="none", jackknife=False, bootstrap=0, permutations=0,
            verbose=0,
        )  # fmt: skip
        region = species.survey(layers, occurrences, settings)
        result, models = species.fit_species(
            species.prepare(region, occurrences, settings), settings, categorical=("biome",)
        )
    with species.Layers.open(data / "future", categorical=["biome"]) as layers:
        species.project(result.model, layers, tmp_path, replicates=models, verbose=0)
    (_, _), (future, valid) = _tables(data)
    each = np.array([model.predict(future, output="cloglog") for model in models])
    drawn = _read(tmp_path / "replicates_sd.tif")[valid]
    np.testing.assert_allclose(drawn, each.std(axis=0, ddof=1), atol=1e-6)


@pytest.mark.parametrize("mask", ["mess", "exdet"])
def test_masks_leave_out_what_extrapolates(fitted, data, tmp_path, mask):
    out = tmp_path / "map.tif"
    args = ["--threshold", "0.3", "--mask", mask, "-o", out]
    done = _run("project", fitted, data / "future", *args)
    assert done.exit_code == 0, done.output
    mess, exdet = (_read(fitted / "projections" / "future" / f"{m}.tif") for m in ("mess", "exdet"))
    outside = mess < 0 if mask == "mess" else (mess < 0) | (exdet < 0) | (exdet > 1)
    assert 0 < outside.sum() < outside.size
    whole = _read(fitted / "projections" / "future" / "cloglog.tif")
    np.testing.assert_array_equal(_read(out), np.where(outside, np.nan, whole))
    presence = _read(tmp_path / "map_presence.tif")
    assert (presence[outside] == 255).all()
    assert set(presence[~outside & ~np.isnan(whole)]) <= {0, 1}
    np.testing.assert_array_equal(_read(tmp_path / "map_mess.tif"), mess)
    assert f"{outside.sum()} left out" in " ".join(done.output.split())
    with rasterio.open(out) as file:
        assert file.tags()["MASK"] == mask


def test_a_fit_with_a_mask_says_what_it_left_out(data, tmp_path):
    out = tmp_path / "out"
    args = ["fit", data / "occurrences.csv", data / "layers", "-c", "biome", *FAST, "-o", out]
    done = _run(*args, "--project", data / "future", "--mask", "mess")
    assert done.exit_code == 0, done.output
    result = mx.load(out / "result.json")
    now, future = result.maps
    assert (now.mask, now.n_masked) == ("mess", 0)  # every cell of the layers was background
    lost = np.isnan(_read(out / "projections" / "future" / "cloglog.tif")).sum()
    lost -= np.isnan(_read(out / "projections" / "future" / "mess.tif")).sum()
    assert future.n_masked == future.n_extrapolated == lost > 0
    told = f"future: {lost} of {future.n_cells} cells extrapolate and are left out"
    assert any(note.startswith(told) for note in result.notes)
    assert "The map leaves out" in (out / "report.html").read_text(encoding="utf-8")


def _mess(training, places):
    """Smallest similarity over variables, by the four cases of the definition."""
    least = np.full(len(places), np.inf)
    for name in training:
        known, value = training[name].to_numpy(float), places[name].to_numpy(float)
        low, width = known.min(), np.ptp(known)
        f = 100 * (known[:, None] < value).mean(axis=0)
        inside = np.where(f <= 50, 2 * f, 2 * (100 - f))
        beyond = 100 * np.minimum(value - low, low + width - value) / width
        least = np.minimum(least, np.where((value <= low) | (f == 100), beyond, inside))
    return least


def test_records_belong_to_what_places_are_compared_with(data, tmp_path):
    out = tmp_path / "few cells"
    files = [data / "layers" / f"{name}.tif" for name in ("temperature", "precipitation")]
    args = ["fit", data / "occurrences.csv", *files, *FAST, "--background", "15", "-o", out]
    done = _run(*args, "--mask", "mess")
    assert done.exit_code == 0, done.output
    result = mx.load(out / "result.json")
    (now, valid), _ = _tables(data)
    now = now[["temperature", "precipitation"]]
    with species.Layers.open(files) as layers:
        known = species.draw_background(layers, 15, verbose=0).cell
    with rasterio.open(data / "layers" / "temperature.tif") as file:
        cells = [
            file.index(x, y) for x, y in zip(result.records["x"], result.records["y"], strict=True)
        ]
        known = [divmod(int(cell), file.width) for cell in known]
    rank = np.cumsum(valid.ravel()).reshape(valid.shape) - 1
    rows = sorted({int(rank[cell]) for cell in [*cells, *known]})
    training = now.iloc[rows]
    mess = _read(out / "maps" / "mess.tif")[valid]
    np.testing.assert_allclose(mess, _mess(training, now), rtol=1e-4, atol=1e-3)
    exdet = _read(out / "maps" / "exdet.tif")[valid]
    expected = _exdet(training.to_numpy(float), now.to_numpy(float))
    np.testing.assert_allclose(exdet, expected, rtol=1e-4, atol=1e-5)
    # no record is left out of the map, and what is clamped is what extrapolates
    drawn = _read(out / "maps" / "cloglog.tif")[valid]
    at_records = [int(rank[cell]) for cell in cells]
    assert np.isfinite(drawn[at_records]).all()
    assert (exdet[at_records] <= 1).all()
    outside = ((now < training.min()) | (now > training.max())).any(axis=1).to_numpy()
    np.testing.assert_array_equal(np.isnan(drawn), outside)
    (told,) = result.maps
    assert told.n_outside == told.n_extrapolated == told.n_masked == outside.sum() > 0
    beyond = now.iloc[at_records]
    alone = now.iloc[[int(rank[cell]) for cell in known]]
    assert ((beyond < alone.min()) | (beyond > alone.max())).any(axis=None)  # of the background


def test_where_every_cell_was_fitted_none_extrapolates():
    table = pd.DataFrame({"heat": [2.0, 3.0, 5.0], "soil": [1, 2, 2]})
    reference = species.Reference.from_table(table, ["soil"])
    wider = reference.reaching({"heat": 1.0}, {"heat": 9.0}, {"soil": (1, 4)})
    mess, _ = wider.similarity({"heat": np.array([1.0, 1.5, 3.0, 9.0, 9.5]), "soil": [4] * 5})
    # shares of points are as before, 1 / 3 of them below 3; the range is that of all cells
    np.testing.assert_allclose(mess, [0, 0, 200 / 3, 0, -100 * 0.5 / 8])
    exdet = Extrapolation.from_table(table[["heat"]]).reaching({"heat": 1.0}, {"heat": 9.0})
    found = exdet.novelty({"heat": np.array([0.0, 1.0, 9.0, 11.0])})
    np.testing.assert_allclose(found[[0, 3]], [-1 / 8, -2 / 8])
    assert (found[1:3] > 1).all()


def test_masks_without_effect_are_wrong_usage(fitted, data, tmp_path):
    out = ["-o", tmp_path / "map.tif"]
    records, layers = data / "occurrences.csv", data / "layers"
    bare = tmp_path / "bare.json"
    mx.save(species.load_model(fitted).density, bare)
    for args, message in (
        (["fit", records, layers, "-c", "biome", "--mask", "mess", "--no-maps", *out], "no effect"),
        (["project", bare, data / "future", "--mask", "exdet", *out], "does not hold"),
        (["project", fitted, data / "future", "--mask", "mop", *out], "--mask must be one of"),
    ):
        done = _run(*args)
        assert done.exit_code == 2, done.output
        assert message in " ".join(done.output.split())
        assert not (tmp_path / "map.tif").exists()


def test_rows_of_a_table_are_masked(fitted, data, tmp_path):
    (_, _), (future, _) = _tables(data)
    future.assign(species="place").to_csv(tmp_path / "future.csv", index=False)
    out = tmp_path / "rows.csv"
    args = ["--swd", "--mask", "exdet", "--threshold", "0.3", "-o", out]
    done = _run("project", fitted, tmp_path / "future.csv", *args)
    assert done.exit_code == 0, done.output
    rows = pd.read_csv(out)
    outside = (rows.mess < 0) | (rows.exdet < 0) | (rows.exdet > 1)
    assert 0 < outside.sum() < len(rows)
    assert (rows.cloglog.isna() == outside).all()
    assert (rows.presence.isna() == outside).all()
    assert f"{outside.sum()} of {len(rows)} rows extrapolate" in " ".join(done.output.split())


def test_model_files_keep_it(fitted):
    model = species.load_model(fitted)
    assert model.extrapolation.variables == tuple(
        name for name in model.density.schema.names if name != "biome"
    )
    assert len(repr(model)) < 200
