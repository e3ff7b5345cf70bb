"""Other units, other places: what maps say of layers that are unlike those of the fit."""

import csv
import json
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from maxent import cli
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species import Reference, load_model, unlike_units
from maxent.species.fitting.results import read_result
from tools import needs

rasterio = needs("rasterio")
pyproj = needs("pyproj")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
BOX = (74.0, -31.0, 79.5, -26.0)  # west, south, east, north: the study region
LAYERS = ("coast_distance", "elevation", "precipitation", "seasonality", "temperature")


def _run(*args):
    return CliRunner().invoke(cli.main, [str(a) for a in args])


def _polygon(path, west, south, east, north):
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "properties": {}, "geometry": shape}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    return path


def _read(path):
    """Values with NaN for no data, and the tags."""
    with rasterio.open(path) as file:
        values = file.read(1, masked=True).astype(float).filled(np.nan)
        return values, file.tags()


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _words(text):
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def _scaled(folder, copy, layer, change):
    """A copy of a folder of layers with one of them in other units."""
    shutil.copytree(folder, copy)
    with rasterio.open(copy / f"{layer}.tif") as file:
        values, profile = file.read(1, masked=True), file.profile
    profile |= {"dtype": "float32", "nodata": -1e30}
    with rasterio.open(copy / f"{layer}.tif", "w", **profile) as file:
        file.write(change(values.astype("float32")).filled(-1e30), 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("units of measure")
    write_landscape(virtual_landscape(height=30, width=40, n_occurrences=120, seed=3), folder)
    _scaled(folder / "future", folder / "in tenths", "temperature", lambda values: 10 * values)
    _polygon(folder / "box.geojson", *BOX)
    return folder


@pytest.fixture(scope="module")
def fitted(place):
    """With a study region, a projection in the units of the fit and one in others."""
    layers = (place / "occurrences.csv", place / "layers", "-c", "biome", *FAST)
    projections = ("--project", place / "future", "--project", place / "in tenths")
    out = place / "out"
    region = ("--region", place / "box.geojson", "--threshold", "minimum training")
    done = _run("fit", *layers, *projections, *region, "-o", out)
    assert done.exit_code == 0, done.output
    return out, done.output


@pytest.fixture(scope="module")
def known(place):
    """Layers as arrays, where all are known, and which cells have their centre in the box."""
    values = {name: _read(place / "layers" / f"{name}.tif")[0] for name in (*LAYERS, "biome")}
    with rasterio.open(place / "layers" / "biome.tif") as file:
        a, _, west, _, e, north = tuple(file.transform)[:6]
    land = ~np.any([np.isnan(v) for v in values.values()], axis=0)
    rows, columns = np.indices(land.shape)
    x, y = west + a * (columns + 0.5), north + e * (rows + 0.5)
    inside = (x > BOX[0]) & (x < BOX[2]) & (y > BOX[1]) & (y < BOX[3]) & land
    edges = north + e * np.arange(land.shape[0] + 1)
    geod = pyproj.Geod(ellps="WGS84")
    areas = [
        abs(geod.polygon_area_perimeter([0, a, a, 0], [n, n, s, s])[0]) / 1e6
        for n, s in pairwise(edges)
    ]
    return values, land, inside, np.broadcast_to(np.array(areas)[:, None], land.shape)


# -- units -----------------------------------------------------------------------------------------


def test_fit_project_and_check_say_that_units_are_others(place, fitted, tmp_path):
    out, said = fitted
    temperature, _ = _read(place / "in tenths" / "temperature.tif")
    model = load_model(out)
    at = model.density.schema.continuous.index("temperature")
    low, high = model.density.low[at], model.density.high[at]
    land = ~np.isnan(temperature)
    outside = int(((temperature < low) | (temperature > high))[land].sum())
    assert outside > 0.9 * land.sum()
    words = (
        f"caution: in tenths: temperature lies outside its range at the fit in {outside:,} of "
        f"{land.sum():,} cells"
    )
    guess = "Divided by 10, its values would agree with those of the fit"
    for text in (said, (out / "report.html").read_text(encoding="utf-8")):
        assert words in _words(text)
        assert guess in _words(text)
        assert "caution: future" not in text
    (novel,) = (
        r for r in _rows(out / "tables" / "odmap.csv") if r["element"] == "Novel environments"
    )
    assert guess in novel["Value"]
    (unlike,) = read_result(out).maps[2].unlike
    assert (unlike.outside, unlike.cells) == (outside, land.sum())
    assert unlike.fitted == pytest.approx((low, high))
    done = _run("project", out, place / "in tenths", "-o", tmp_path / "map.tif")
    assert done.exit_code == 0, done.output
    assert guess in _words(done.output)
    fine = _run("project", out, place / "future", "-o", tmp_path / "fine.tif")
    assert "caution" not in fine.output
    layers = (place / "occurrences.csv", place / "layers", "-c", "biome")
    done = _run("check", *layers, "-p", place / "in tenths", "-p", place / "future")
    assert done.exit_code == 0, done.output
    assert done.output.count("caution:") == 1
    assert guess in _words(done.output)
    now, _ = _read(place / "layers" / "temperature.tif")
    beyond = (temperature < np.nanmin(now)) | (temperature > np.nanmax(now))
    assert f"{beyond[land].mean():.1%}" in done.output


@pytest.mark.parametrize("against", ["background", "absences", "tables"])
def test_evaluate_says_that_units_are_others(place, fitted, tmp_path, against):
    """Of presences and of what they are compared with; nothing is said in the units of the fit."""
    model, _ = fitted
    ends = load_model(model).density
    at = ends.schema.continuous.index("temperature")
    table = _rows(place / "occurrences.csv")
    places = [(float(row["decimalLongitude"]), float(row["decimalLatitude"])) for row in table]
    names = sorted({*LAYERS, "biome"})
    for folder in ("in tenths", "layers"):
        layers = {name: _read(place / folder / f"{name}.tif")[0] for name in names}
        heat = layers["temperature"]
        with rasterio.open(place / folder / "temperature.tif") as file:
            cells = [file.index(x, y) for x, y in places]
        land = ~np.any([np.isnan(values) for values in layers.values()], axis=0)
        if against == "background":
            values = np.array([*(heat[cell] for cell in cells), *heat[land]])
            given = (place / "occurrences.csv", place / folder, "--background", "all")
        else:
            values = np.array([heat[cell] for cell in cells] * 2)
            given = (place / "occurrences.csv", place / folder)
            given += ("--absences", place / "occurrences.csv")
        if against == "tables":
            lines = [",".join(["species", *names])]
            lines += [
                ",".join(["Arbor fictus", *(f"{layers[name][cell]:.6g}" for name in names)])
                for cell in cells
            ]
            (tmp_path / "rows.csv").write_text("\n".join(lines))
            given = ("--swd", tmp_path / "rows.csv", "--absences", tmp_path / "rows.csv")
        done = _run("evaluate", model, *given)
        assert done.exit_code == 0, done.output
        if folder == "layers":
            assert "caution" not in done.output
            continue
        outside = int(((values < ends.low[at]) | (values > ends.high[at])).sum())
        words = f"temperature lies outside its range at the fit in {outside:,} of {len(values):,}"
        assert f"{words} cells" in _words(done.output)
        guess = "Divided by 10, its values would agree with those of the fit. Until they do, these"
        if against == "background":  # the records alone are not spread like the layers
            assert f"{guess} scores mean nothing" in _words(done.output)


def test_check_says_what_a_scenario_lacks(place, tmp_path):
    shutil.copytree(place / "future", tmp_path / "part")
    (tmp_path / "part" / "elevation.tif").unlink()
    done = _run(
        "check", place / "occurrences.csv", place / "layers", "-c", "biome", "-p", tmp_path / "part"
    )
    assert done.exit_code == 0, done.output
    assert "part has no layer elevation" in _words(done.output)


FITTED = np.random.default_rng(0).gamma(4.0, 4.0, 3000)  # all above 0, as rain or warmth is
KELVIN = FITTED + 273.15


@pytest.mark.parametrize(
    ("there", "here", "words"),
    [
        (FITTED, 10 * FITTED + 20, "divided by 10"),
        (FITTED, FITTED / 10, "multiplied by 10"),
        (FITTED, 1000 * FITTED, "divided by 1000"),
        (FITTED, KELVIN + 2, "minus 273.15"),
        (KELVIN, FITTED, "plus 273.15"),
        (FITTED, 10 * KELVIN, "tenths of kelvin to degrees Celsius"),
        (FITTED, 1.8 * FITTED + 32, "Fahrenheit to Celsius"),
        (100 * FITTED, 100 * FITTED / 0.3048, "feet to metres"),
        (100 * FITTED, 30.48 * FITTED, "metres to feet"),
    ],
)
def test_one_constant_is_proposed(there, here, words):
    reference = Reference.from_table(there[:, None])
    (found,) = unlike_units({"x0": here}, {"x0": (there.min(), there.max())}, [reference])
    assert words in found.guess
    assert found.outside == ((here < there.min()) | (here > there.max())).sum()
    assert f"{found.guess[0].upper()}{found.guess[1:]}" in found.describe("there")
    (unknown,) = unlike_units({"x0": 1e6 + here}, {"x0": (there.min(), there.max())})
    assert not unknown.guess  # nothing is known but the range
    assert "extrapolates nearly everywhere" in unknown.describe("there")


@pytest.mark.parametrize(
    "here",
    [
        FITTED,
        FITTED + 3,  # warmer
        FITTED[FITTED < 12],  # a part
        0.7 * FITTED,  # drier
        np.full(50, FITTED.mean()),
        np.array([]),
    ],
)
def test_another_climate_is_not_another_unit(here):
    reference = Reference.from_table(FITTED[:, None])
    assert not unlike_units({"x0": here}, {"x0": (FITTED.min(), FITTED.max())}, [reference])


def test_a_place_that_is_all_new_is_said_without_a_guess():
    reference = Reference.from_table(FITTED[:, None])
    there = np.random.default_rng(1).normal(90, 1, 500)
    (found,) = unlike_units({"x0": there}, {"x0": (FITTED.min(), FITTED.max())}, [reference])
    assert (found.guess, found.outside) == ("", 500)


def test_rows_of_a_table_in_other_units(place, fitted, known, tmp_path):
    values, land, _, _ = known
    names = [*LAYERS, "biome"]
    lines = [",".join(["species", *names])]
    for cell in np.flatnonzero(land):
        row = {name: values[name].ravel()[cell] for name in names}
        row["elevation"] /= 0.3048
        lines.append(",".join(["somewhere", *(str(row[name]) for name in names)]))
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    done = _run("project", fitted[0], "--swd", tmp_path / "rows.csv", "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert "rows.csv: elevation" in _words(done.output)
    assert "Multiplied by 0.3048 (feet to metres)" in done.output


# -- range change ----------------------------------------------------------------------------------


def _extrapolates(values, levels, known):
    """Cells with a variable outside its range in the box, or a category that is not there."""
    fitted, _, inside, _ = known
    beyond = np.zeros(inside.shape, bool)
    for name in LAYERS:
        low, high = fitted[name][inside].min(), fitted[name][inside].max()
        beyond |= (values[name] < low) | (values[name] > high)
    return beyond | ~np.isin(levels, np.unique(fitted["biome"][inside]))


@pytest.mark.parametrize("scenario", ["future", "in tenths"])
def test_range_change_with_and_without_cells_that_extrapolate(place, fitted, known, scenario):
    out, said = fitted
    fitted_values, land, _, areas = known
    folder = scenario.replace(" ", "_")
    later = {name: _read(place / scenario / f"{name}.tif")[0] for name in (*LAYERS, "biome")}
    new = _extrapolates(fitted_values, fitted_values["biome"], known)
    new |= _extrapolates(later, later["biome"], known)
    now, then = (_read(out / path / "cloglog.tif")[0] for path in ("maps", f"projections/{folder}"))
    (row,) = (r for r in _rows(out / "change" / "range_change.csv") if r["scenario"] == scenario)
    cut = np.float32(float(row["threshold"]))
    here, there = now >= cut, then >= cut
    assert int(row["cells"]) == land.sum()
    assert int(row["extrapolating_cells"]) == (new & land).sum()
    assert float(row["extrapolating_percent"]) == pytest.approx(100 * new[land].mean())
    for name, where in (("lost", here & ~there), ("kept", here & there), ("gained", ~here & there)):
        assert int(row[f"{name}_cells"]) == (where & land).sum()
        assert int(row[f"{name}_cells_within"]) == (where & land & ~new).sum()
        within = areas[where & land & ~new].sum()
        assert float(row[f"{name}_km2_within"]) == pytest.approx(within, rel=0.01)
    old, late = (areas[where & land & ~new].sum() for where in (here, there))
    words = "no range" if not old and not late else f"{late / old - 1:+.1%}"
    words = words if (land & ~new).any() else "nothing to compare"
    share = f"{(new & land).sum():,} of {land.sum():,} cells ({new[land].mean():.0%})"
    assert f"{share} extrapolate; without them {words}" in said
    page = _words((out / "report.html").read_text(encoding="utf-8"))
    assert f"{new[land].mean():.1%} {words}" in page


def test_change_finds_the_similarity_beside_maps(place, fitted, tmp_path):
    out, _ = fitted
    done = _run("project", out, place / "future", "-o", tmp_path / "later.tif")
    assert done.exit_code == 0, done.output
    shutil.copy(tmp_path / "later.tif", tmp_path / "alone.tif")
    maps = [tmp_path / "later.tif", tmp_path / "alone.tif"]
    done = _run("change", out / "maps" / "cloglog.tif", *maps, "-t", "0.4", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "how many cells of alone extrapolate is not known" in _words(done.output)
    later, alone = _rows(tmp_path / "out" / "range_change.csv")
    (expected,) = (
        r for r in _rows(out / "change" / "range_change.csv") if r["scenario"] == "future"
    )
    assert later["extrapolating_cells"] == expected["extrapolating_cells"]
    assert alone["extrapolating_cells"] == alone["change_percent_within"] == ""


def test_tags_name_maps_that_are_there(fitted):
    out, _ = fitted
    for path in (out / "change").glob("*.tif"):
        _, tags = _read(path)
        assert (path.parent / tags["PRESENT"]).resolve() == (out / "maps" / "cloglog.tif").resolve()
        if path.name.startswith("change_"):
            scenario = path.stem.removeprefix("change_")
            expected = out / "projections" / scenario / "cloglog.tif"
            assert (path.parent / tags["FUTURE"]).resolve() == expected.resolve()


# -- how far maps reach ----------------------------------------------------------------------------


def test_the_map_of_the_training_layers_says_where_it_extrapolates(fitted, known):
    out, said = fitted
    values, land, inside, areas = known
    new = _extrapolates(values, values["biome"], known) & land
    assert 0 < new.sum() < land.sum()
    mess, _ = _read(out / "maps" / "mess.tif")
    np.testing.assert_array_equal(mess[land] < 0, new[land])
    exdet, _ = _read(out / "maps" / "exdet.tif")
    trained = inside.copy()  # and cells of records, one of which has its centre outside of the box
    records = read_result(out).records
    with rasterio.open(out / "maps" / "exdet.tif") as file:
        for place in zip(records["x"], records["y"], strict=True):
            trained[file.index(*place)] = True
    assert trained.sum() > inside.sum()
    X = np.column_stack([values[name][trained] for name in LAYERS])
    centred = np.column_stack([values[name][land] for name in LAYERS]) - X.mean(axis=0)
    inverse = np.linalg.inv(np.cov(X.T))
    distance = np.einsum("ij,jk,ik->i", centred, inverse, centred)
    furthest = np.einsum("ij,jk,ik->i", X - X.mean(axis=0), inverse, X - X.mean(axis=0)).max()
    beyond = np.any([(values[n] < values[n][trained].min()) | (values[n] > values[n][trained].max())
                     for n in LAYERS], axis=0)[land]  # fmt: skip
    np.testing.assert_array_equal(exdet[land] < 0, beyond)
    found = exdet[land][~beyond]
    np.testing.assert_allclose(found, distance[~beyond] / furthest, rtol=1e-4, atol=1e-5)
    first, *_ = _rows(out / "tables" / "maps.csv")
    assert first["extent"] == "all of the layers"
    cut = np.float32(read_result(out).maps[0].presence["threshold"])
    present = _read(out / "maps" / "cloglog.tif")[0] >= cut
    counted = {
        "cells": land,
        "extrapolating_cells": new,
        "present_cells": present,
        "region_cells": inside,
        "region_extrapolating_cells": new & inside,
        "region_present_cells": present & inside,
    }
    assert {name: int(first[name]) for name in counted} == {
        name: where.sum() for name, where in counted.items()
    }
    km2 = {"km2": land, "region_km2": inside, "present_km2": present}
    km2["region_present_km2"] = present & inside
    for name, where in km2.items():
        assert float(first[name]) == pytest.approx(areas[where].sum(), rel=0.01)
    page = _words((out / "report.html").read_text(encoding="utf-8"))
    for name, where in (("Map", land), ("Study region", inside)):
        (told,) = re.findall(rf"{name} ([\d,]+) km² {where.sum():,} cells with data", page)
        assert float(told.replace(",", "")) == pytest.approx(areas[where].sum(), rel=0.01)
    in_words = f"in the study region {inside.sum():,} cells"
    assert in_words in said
    rows = {(r["subsection"], r["element"]): r["Value"] for r in _rows(out / "tables/odmap.csv")}
    assert in_words in rows["Scale of Analysis", "Boundary"]
    assert in_words in rows["Transfer data", "Spatial extent"]
    assert "in the study region" in rows["Prediction output", "Post-processing"]
    assert (
        f"{new.sum()} with a variable" in rows["Uncertainty quantification", "Novel environments"]
    )


def test_mask_and_extent_hold_for_the_training_layers(place, known, tmp_path):
    values, land, inside, _ = known
    new = _extrapolates(values, values["biome"], known)
    layers = (place / "occurrences.csv", place / "layers", "-c", "biome", *FAST)
    region = ("--region", place / "box.geojson")
    done = _run("fit", *layers, *region, "--mask", "mess", "-o", tmp_path / "masked")
    assert done.exit_code == 0, done.output
    drawn, tags = _read(tmp_path / "masked" / "maps" / "cloglog.tif")
    np.testing.assert_array_equal(~np.isnan(drawn), land & ~new)
    assert tags["MASK"] == "mess"
    assert f"{(new & land).sum()} of {land.sum()} cells extrapolate and are left out" in done.output
    cut = tmp_path / "cut"
    done = _run(
        "fit", *layers, *region, "--extent", "region", "-p", place / "future", "-o", cut
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    for path in ("maps", "projections/future"):
        drawn, _ = _read(cut / path / "cloglog.tif")
        np.testing.assert_array_equal(~np.isnan(drawn), inside)
    assert "the study region (the polygon of" in done.output
    drawn, _ = _read(cut / "change" / "change_future.tif")
    np.testing.assert_array_equal(~np.isnan(drawn), inside)
    wide = _polygon(tmp_path / "west.geojson", 70, -40, 76, -20)
    with rasterio.open(place / "layers" / "biome.tif") as file:
        x = file.transform.c + file.transform.a * (np.indices(land.shape)[1] + 0.5)
    out = tmp_path / "west.tif"
    done = _run("project", cut, place / "layers", "-o", out, "--extent", wide)
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(~np.isnan(_read(out)[0]), land & (x < 76))
    done = _run("project", cut, place / "layers", "-o", tmp_path / "in.tif", "--extent", "region")
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(~np.isnan(_read(tmp_path / "in.tif")[0]), inside)


def test_an_extent_without_effect_is_refused(place, tmp_path):
    layers = (place / "occurrences.csv", place / "layers", "-c", "biome", *FAST)
    for args, message in (
        (("--extent", "region"), "needs a study region"),
        (("--extent", place / "box.geojson", "--no-maps"), "no effect without maps"),
        (("--mask", "mess", "--no-maps"), "no effect without maps"),
    ):
        done = _run("fit", *layers, *args, "-o", tmp_path / "out")
        assert done.exit_code == 2, done.output
        assert message in _words(done.output)
    done = _run("fit", *layers, "--extent", tmp_path / "no.gpkg", "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "no.gpkg: no such file" in _words(done.output)
    far = _polygon(tmp_path / "far.geojson", 0, 0, 5, 5)
    done = _run("fit", *layers, "--extent", far, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "no part of the layers" in _words(done.output)
    assert not (tmp_path / "out").exists()
