"""Values for "not known" in rasters that do not say so: recognised and told, or named."""

import csv
import warnings

import numpy as np
import pytest

import maxent as mx
from maxent.species import Layers
from maxent.species.input.layers import missing
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

SHAPE = (12, 16)
TRANSFORM = rasterio.Affine(0.5, 0, -10, 0, -0.5, 50)
FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]


def write(path, values, dtype="float32", **profile):
    height, width = values.shape
    with rasterio.open(
        path, "w", driver="GTiff", height=height, width=width, count=1, dtype=dtype,
        crs="EPSG:4326", transform=TRANSFORM, **profile,
    ) as file:  # fmt: skip
        file.write(values.astype(dtype), 1)
    return path


def some(low, high, dtype="float64"):
    values = np.linspace(low, high, SHAPE[0] * SHAPE[1]).reshape(SHAPE)
    return np.rint(values).astype(dtype) if np.dtype(dtype).kind in "iu" else values


SEA = np.zeros(SHAPE, bool)
SEA[:3, :5] = True


@pytest.mark.parametrize(
    ("values", "value", "dtype"),
    [
        (some(0, 30), -9999, "float32"),
        (some(0, 11400), -9999, "float32"),  # a yearly rainfall: further than its nodata value
        (some(-400, 500, "int16"), -32768, "int16"),
        (some(-50, 8000, "int16"), -9999, "int16"),
        (some(0, 30), np.float32(-3.4e38), "float32"),
        (some(0, 30), -3.4028234663852886e38, "float32"),
        (some(0, 30), -1.7976931348623157e308, "float64"),
        (some(0, 30), 1e20, "float32"),
        (some(-30, 30), -999, "float32"),
        (some(0, 100, "uint8"), 255, "uint8"),
        (some(0, 2000, "uint16"), 65535, "uint16"),
        (some(1, 1), -9999, "float32"),
    ],
)
def test_usual_values_that_stand_apart_are_recognised(tmp_path, values, value, dtype):
    stored = np.where(SEA, value, values).astype(dtype)
    write(tmp_path / "a.tif", stored, dtype)
    with Layers.open(tmp_path / "a.tif") as layers:
        block = next(layers.blocks())
        np.testing.assert_array_equal(block.valid, ~SEA)
        np.testing.assert_array_equal(block.values["a"][~SEA], stored[~SEA])
        (note,) = layers.notes
    assert f"a.tif: the file has no nodata value; {float(value):g} (15 cells) is taken" in note
    with Layers.open(tmp_path / "a.tif", nodata=None) as layers:
        assert layers.notes == ()
        assert next(layers.blocks()).valid.all()


@pytest.mark.parametrize(
    ("values", "odd", "dtype"),
    [
        (some(-11000, 8000, "int16"), -9999, "int16"),  # the bottom of the sea
        (some(0, 255, "uint8"), 255, "uint8"),
        (some(0, 0, "uint8"), 255, "uint8"),  # a mask
        (some(0, 30), -7777, "float32"),  # nobody's value for "not known"
        (some(-32768, 32767, "int16"), -32768, "int16"),
    ],
)
def test_other_values_are_data(tmp_path, values, odd, dtype):
    write(tmp_path / "a.tif", np.where(SEA, odd, values), dtype)
    with Layers.open(tmp_path / "a.tif") as layers:
        assert layers.notes == ()
        assert next(layers.blocks()).valid.all()


def test_two_values_and_a_file_that_states_one(tmp_path):
    values = some(0, 30)
    values[0, :4], values[1, :4] = -9999, -3.4e38
    write(tmp_path / "a.tif", values)
    with Layers.open(tmp_path / "a.tif") as layers:
        assert next(layers.blocks()).valid.sum() == values.size - 8
        assert "-3.4e+38 (4 cells) and -9999 (4 cells)" in layers.notes[0]
    write(tmp_path / "a.tif", values, nodata=-3.4e38)  # what a file states is believed
    with Layers.open(tmp_path / "a.tif") as layers:
        assert layers.notes == ()
        assert next(layers.blocks()).valid.sum() == values.size - 4
    with Layers.open(tmp_path / "a.tif", nodata=[-9999]) as layers:  # and more can be said
        assert next(layers.blocks()).valid.sum() == values.size - 8
    with Layers.open(tmp_path / "a.tif", nodata=[-1.0]) as layers:
        assert layers.notes == ("nodata -1 (--nodata): no cell of the layers has this value",)


def test_a_recognised_value_is_not_mixed_into_resampled_ones(tmp_path):
    fine = some(0, 30).repeat(2, 0).repeat(2, 1)
    write(tmp_path / "fine.tif", some(5, 9))
    with Layers.open(tmp_path / "fine.tif") as layers:
        grid = layers.grid
    sea = SEA.repeat(2, 0).repeat(2, 1)
    with rasterio.open(write(tmp_path / "odd.tif", np.where(sea, -9999, fine)), "r+") as file:
        file.transform = TRANSFORM @ rasterio.Affine.scale(0.5)
    with Layers.open(tmp_path / "odd.tif", like=grid, resampling="average") as layers:
        block = next(layers.blocks())
    np.testing.assert_array_equal(block.valid, ~SEA)
    np.testing.assert_allclose(block.values["odd"][~SEA], some(0, 30)[~SEA], rtol=1e-6)
    with rasterio.open(tmp_path / "odd.tif", "r+") as file:
        file.nodata = 3.0
    with pytest.raises(ValueError, match=r"3 and -9999 mean no data.*one such value only"):
        Layers.open(tmp_path / "odd.tif", like=grid, nodata=[-9999])


def test_large_bands_are_looked_at_in_windows(tmp_path, monkeypatch):
    monkeypatch.setattr(missing, "_WHOLE", 100)
    monkeypatch.setattr(missing, "_SIDE", 4)
    write(tmp_path / "a.tif", np.where(SEA, -9999, some(0, 30)))
    with Layers.open(tmp_path / "a.tif") as layers:
        assert next(layers.blocks()).valid.sum() == (~SEA).sum()
        assert "cells) of those looked at is taken" in layers.notes[0]


# -- through the command ---------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """Two layers with a sea of -9999 that no file states, records on land."""
    rng = np.random.default_rng(0)
    (tmp_path / "layers").mkdir()
    (tmp_path / "right").mkdir()
    land = rng.random(SHAPE) * 20 + np.arange(SHAPE[1])
    for name, values in (("warm", land), ("wet", rng.random(SHAPE) * 900)):
        stored = np.where(SEA, -9999, values)
        write(tmp_path / "layers" / f"{name}.tif", stored)
        write(tmp_path / "right" / f"{name}.tif", stored, nodata=-9999)
    rows, columns = np.nonzero(~SEA & (land > 22))
    lines = ["species,longitude,latitude"]
    lines += [
        f"Acer,{-9.75 + 0.5 * c},{49.75 - 0.5 * r}" for r, c in zip(rows, columns, strict=True)
    ]
    (tmp_path / "records.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def _map(path):
    with rasterio.open(path) as file:
        return file.read(1)


def test_a_fit_without_the_tag_is_the_fit_with_it(files, run):
    for name in ("layers", "right"):
        done = run("fit", files / "records.csv", files / name, *FAST, "-o", files / f"{name}-out")
        assert done.exit_code == 0, done.output
        assert ("warm.tif: the file has no nodata value" in done.stderr) == (name == "layers")
    found, right = (_map(files / f"{name}-out/maps/cloglog.tif") for name in ("layers", "right"))
    assert np.isnan(found[SEA]).all()
    np.testing.assert_array_equal(found, right)
    assert any("-9999 (15 cells)" in n for n in mx.load(files / "layers-out/result.json").notes)
    assert "-9999 (15 cells)" in (files / "layers-out/report.html").read_text(encoding="utf-8")
    args = ["fit", files / "records.csv", files / "layers", *FAST, "-o", files / "data"]
    assert run(*args, "--nodata", "none").exit_code == 0
    assert not np.isnan(_map(files / "data/maps/cloglog.tif")).any()
    said = run(*args, "--nodata", "soon")
    assert said.exit_code == 2
    assert "--nodata is a number, or none, got soon" in " ".join(said.output.split())


@pytest.mark.parametrize("named", [True, False])
def test_project_evaluate_and_tune_know_it_too(files, run, named):
    model = files / "out" / "model.json"
    given = ["--nodata", "-9999"] if named else []
    assert (
        run("fit", files / "records.csv", files / "right", *FAST, "-o", model.parent).exit_code == 0
    )
    said = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = ["-o", files / "map.tif"]
        said["project"] = run("project", model, files / "layers", *out, *given)
        out = ["-o", files / "scores.csv"]
        said["evaluate"] = run(
            "evaluate", model, files / "records.csv", files / "layers", *out, *given
        )
        args = ["-f", "l", "-m", "1,2", "-o", files / "tuned", *given]
        said["tune"] = run("tune", files / "records.csv", files / "layers", *args)
    for name, done in said.items():
        assert done.exit_code == 0, (name, done.output)
        assert ("warm.tif: the file has no nodata value" in done.output) == (not named)
    assert np.isnan(_map(files / "map.tif")[SEA]).all()
    with open(files / "scores.csv", newline="") as file:
        (scores,) = csv.DictReader(file)
    assert int(scores["n_background"]) == (~SEA).sum()
