"""Layers chosen, renamed and looked at; maps of presence with their rule and area."""

import re
import shlex

import numpy as np
import pytest

import maxent as mx
from maxent.species import Grid, Layers
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.naming import Named, named_layers
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

SHAPE = (30, 40)
TRANSFORM = rasterio.Affine(0.5, 0, -10, 0, -0.5, 50)
FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]


def write(path, *bands, dtype="float32", crs="EPSG:4326", names=None, **profile):
    height, width = bands[0].shape
    profile = {"driver": "GTiff", "transform": TRANSFORM, "crs": crs} | profile
    with rasterio.open(
        path, "w", height=height, width=width, count=len(bands), dtype=dtype, **profile
    ) as file:
        for i, values in enumerate(bands):
            file.write(values.astype(dtype), i + 1)
            if names:
                file.set_band_description(i + 1, names[i])
    return path


@pytest.fixture
def bands():
    return np.random.default_rng(2).normal(size=(3, *SHAPE))


@pytest.fixture
def files(tmp_path, bands):
    """One file of three bands, the same as single files, and records where the first is high."""
    write(tmp_path / "stack.tif", *bands, names=["a", "b", "c"])
    (tmp_path / "single").mkdir()
    for name, values in zip(("bio1", "bio2"), bands[[0, 2]], strict=True):
        write(tmp_path / "single" / f"{name}.tif", values)
    rows, columns = np.nonzero(bands[0] > 1.6)
    lines = [
        f"Acer,{-9.75 + 0.5 * c},{49.75 - 0.5 * r}" for r, c in zip(rows, columns, strict=True)
    ]
    (tmp_path / "records.csv").write_text("\n".join(["species,longitude,latitude", *lines]) + "\n")
    return tmp_path


# -- names -----------------------------------------------------------------------------------------


def test_names_files_and_bands(tmp_path):
    assert Named.from_text("a=b.tif") == Named("a", "b.tif")
    assert Named.from_text("a = b.tif:wet") == Named("a", "b.tif", "wet")
    assert Named.from_text(r"a=C:\b.tif") == Named("a", r"C:\b.tif")
    odd = tmp_path / "x:3"
    odd.write_text("")
    assert Named.from_text(f"a={odd}") == Named("a", str(odd))  # the name of a file that is there
    for wrong in ("a", "=b.tif", "a="):
        with pytest.raises(ValueError, match="NAME=FILE or NAME=FILE:BAND"):
            named_layers([wrong])
    with pytest.raises(ValueError, match="'a' is named twice"):
        named_layers(["a=b.tif", "a=c.tif"])


@pytest.mark.parametrize("how", ["options", "names", "table", "folder"])
def test_bands_are_chosen_and_renamed(files, bands, how):
    stack = files / "stack.tif"
    if how == "table":
        table = files / "layers.csv"
        table.write_text("name,file,band\nbio1,stack.tif,1\nbio2,stack.tif,c\n")
        named = named_layers([str(table)])
    else:
        first, second = ("a", "c") if how == "names" else ("1", "3")
        named = named_layers([f"bio1={stack}:{first}", f"bio2={stack}:{second}"])
    with Layers.open(files if how == "folder" else (), named=named) as layers:
        assert layers.names == ("bio1", "bio2")  # no other band of the file
        block = next(layers.blocks())
    for name, values in zip(("bio1", "bio2"), bands[[0, 2]], strict=True):
        np.testing.assert_array_equal(block.values[name], values.astype(np.float32))


def test_a_file_of_a_folder_is_renamed(files):
    with Layers.open(
        files / "single", named=[Named("wet", str(files / "single/bio2.tif"))]
    ) as some:
        assert some.names == ("bio1", "wet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x={}", r"stack\.tif: several bands for the layer 'x' in this file; it has 1 \(a\)"),
        ("x={}:9", r"stack\.tif: no band '9' for the layer 'x'"),
    ],
)
def test_bands_that_are_not_there(files, text, words):
    with pytest.raises(ValueError, match=words):
        Layers.open((), named=named_layers([text.format(files / "stack.tif")]))


def test_the_command_takes_named_layers(files, run):
    stack = files / "stack.tif"
    named = ["--layer", f"bio1={stack}:1", "--layer", f"bio2={stack}:3"]
    single = files / "single"
    for out, layers in (("one", [single]), ("two", named)):
        done = run("fit", files / "records.csv", *layers, *FAST, "-o", files / out)
        assert done.exit_code == 0, done.output
    one, two = (mx.load(files / out / "result.json") for out in ("one", "two"))
    assert two.model.coef == one.model.coef
    assert two.layers == {"bio1": f"{stack}, band 1", "bio2": f"{stack}, band 3"}
    model, maps = files / "one/model.json", [files / "a.tif", files / "b.tif"]
    for path, layers in zip(maps, ([single], named), strict=True):
        done = run("project", model, *layers, "-o", path)
        assert done.exit_code == 0, done.output
        done = run("evaluate", model, files / "records.csv", *layers, "-o", f"{path}.csv")
        assert done.exit_code == 0, done.output
    assert (
        maps[0].with_suffix(".tif.csv").read_text() == maps[1].with_suffix(".tif.csv").read_text()
    )
    drawn = [rasterio.open(path).read(1) for path in maps]
    np.testing.assert_array_equal(*drawn)
    for wrong in ("bio1", f"bio1={stack}:7"):
        assert run("project", model, "--layer", wrong, "-o", files / "c.tif").exit_code in (1, 2)
    assert run("project", model, "-o", files / "c.tif").exit_code == 2
    missing = run("project", model, "--layer", f"bio1={files / 'no.tif'}:1", "-o", files / "c.tif")
    assert "no.tif: no such file" in missing.output


def test_tune_prints_a_line_that_fits(files, run):
    stack = files / "stack.tif"
    args = ["--layer", f"bio1={stack}:1", "--layer", f"bio2={stack}:3", "--nodata", "-9999"]
    done = run("tune", files / "records.csv", *args, "-f", "l", "-m", "1", "-o", files / "tuned")
    assert done.exit_code == 0, done.output
    line = re.search(r"fit it with: maxent (.*)", done.output).group(1)
    words = shlex.split(line)
    assert words[-2:] == ["-o", str(files / "tuned-fit")]
    done = run(*words, *FAST[2:])
    assert done.exit_code == 0, done.output
    assert mx.load(files / "tuned-fit/result.json").model.schema.names == ("bio1", "bio2")


# -- hints -----------------------------------------------------------------------------------------


def test_what_looks_like_a_slip_is_told(files, bands, run):
    folder = files / "single"
    write(folder / "again.tif", bands[0])
    soil = np.random.default_rng(0).integers(1, 8, SHAPE)
    write(folder / "soil.tif", soil, dtype="uint8")
    write(folder / "protected.tif", soil > 3, dtype="uint8")  # yes and no
    args = ["fit", files / "records.csv", folder, *FAST, "--no-maps", "--overwrite"]
    done = run(*args, "-o", files / "out")
    said = " ".join(done.stderr.split())
    assert done.exit_code == 0, done.output
    assert "soil: whole numbers, 7 different ones; if they stand for categories" in said
    assert "again and bio1 are the same in all 1200 cells read; leave one of them out" in said
    assert "protected" not in said
    done = run(*args, "-c", "soil", "-o", files / "out")
    assert "whole numbers" not in done.stderr


def test_layers_without_a_crs(files, bands, run):
    (files / "asc").mkdir()
    header = "ncols 40\nnrows 30\nxllcorner -10\nyllcorner 35\ncellsize 0.5\nNODATA_value -9999\n"
    text = "\n".join(" ".join(f"{v:.6f}" for v in row) for row in bands[0])
    (files / "asc/bio1.asc").write_text(header + text + "\n")
    args = ["fit", files / "records.csv", files / "asc", *FAST, "--threshold", "0.5", "-o"]
    done = run(*args, files / "out")
    assert done.exit_code == 0, done.output
    assert "do not say their coordinate reference system" in done.stderr
    assert "area not known, as the layers have no CRS" in " ".join(done.output.split())
    done = run(*args, files / "known", "--layers-crs", "EPSG:4326")
    assert done.exit_code == 0, done.output
    assert "do not say" not in done.stderr
    assert "km2" in done.output


# -- presence --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["10 percentile", "0.4"])
def test_presence_maps_name_rule_value_and_area(files, run, rule):
    out, single = files / "out", files / "single"
    args = ["fit", files / "records.csv", single, *FAST, "--threshold", rule, "-o", out]
    done = run(*args)
    assert done.exit_code == 0, done.output
    model = mx.species.load_model(out / "model.json")
    value = model.threshold(rule)
    name = "value given" if rule == "0.4" else "10 percentile training presence"
    with rasterio.open(out / "maps/presence.tif") as file:
        present, tags = file.read(1) == 1, file.tags()
    grid = Grid("EPSG:4326", tuple(TRANSFORM)[:6], SHAPE[1], SHAPE[0])
    areas = cell_areas(grid).read(mx.species.Window(0, 0, *SHAPE))
    area = float((present * areas).sum())
    assert 0 < present.sum() < present.size
    assert (tags["RULE"], float(tags["THRESHOLD"])) == (name, value)
    assert int(tags["CELLS"]) == present.sum()
    assert float(tags["AREA_KM2"]) == pytest.approx(area, rel=1e-12)
    assert float(tags["KNOWN_AREA_KM2"]) == pytest.approx(areas.sum(), rel=1e-12)
    words = f"presence by {name}, cloglog {value:.4f} or more: {present.sum()} of 1200 cells, "
    words += f"{area:,.0f} of {areas.sum():,.0f} km2"
    assert words in " ".join(done.output.split())
    report = re.sub(r"<[^>]*>", " ", (out / "report.html").read_text(encoding="utf-8"))
    assert words[1:] in " ".join(report.split())
    done = run("project", out, single, "-o", files / "map.tif", "--threshold", rule)
    assert words in " ".join(done.output.split())
    with rasterio.open(files / "map_presence.tif") as file:
        assert file.tags()["RULE"] == name


def test_without_a_threshold_there_is_no_presence(files, run):
    done = run("fit", files / "records.csv", files / "single", *FAST, "-o", files / "out")
    assert done.exit_code == 0
    assert "presence" not in done.output
    (drawn,) = mx.load(files / "out/result.json").maps
    assert (drawn.presence, drawn.presence_in_words()) == ({}, "")
