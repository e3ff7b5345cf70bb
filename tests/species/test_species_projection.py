"""Fast scoring, similarity to the training region, and maps of a fitted model."""

import os
import re
import signal
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from maxent import MaxentDensity, Tsallis, load, save
from maxent.features import (
    Additive,
    Categorical,
    Cells,
    Hinge,
    Interaction,
    Linear,
    Schema,
    Square,
    Threshold,
    bind,
    fit_operators,
)
from maxent.features.base import Bound, Operator
from maxent.features.scoring import Scorer
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.similarity import Reference
from maxent.species.projecting import drawing, geotiff, plan, project, project_xarray
from tools import needs

rasterio = needs("rasterio")
pandas = needs("pandas")

TRANSFORM = (0.25, 0.0, -60.0, 0.0, -0.25, 10.0)
HEIGHT, WIDTH = 70, 90
OUTPUTS = ("raw", "log", "logistic", "cloglog", "cumulative")
STATISTICS = ("mean", "sd", "min", "max", "median")


# -- scoring -------------------------------------------------------------------------------------

CLASSES = {
    "linear": [Linear()],
    "square": [Square()],
    "product": [Interaction()],
    "few hinges": [Hinge(knots=6)],
    "every hinge": [Hinge()],
    "every threshold": [Threshold()],
    "categories": [Categorical()],
    "all": [Linear(), Square(), Interaction(), Threshold(5), Hinge(), Hinge(4), Categorical()],
}


def old_scores(operators, weights, low, high, cells, clamp):
    """Operators bound to the cells, as for a fit."""
    if clamp:
        clipped = np.clip(cells.values, low[:, None], high[:, None]).astype(cells.values.dtype)
        cells = Cells(clipped, cells.codes)
    return bind(operators, cells, clamp).scores(weights)


def fitted_operators(classes, dtype, rng):
    """Operators for a table with ties, squares around 0, one category and one skewed column."""
    x = np.column_stack(
        [
            rng.integers(-8, 9, 300),
            np.exp(rng.normal(size=300) * 2) * 10,
            rng.normal(size=300) * 50 + 200,
            rng.choice([1, 2, 5], 300),
        ]
    ).astype(dtype)
    schema = Schema.from_table(x, categorical=[3])
    cells = schema.read(x)
    operators = fit_operators(classes, x, categorical=[3])
    low, high = cells.values.min(axis=1).astype(float), cells.values.max(axis=1).astype(float)
    return operators, low, high


def new_cells(operators, low, high, dtype, rng):
    """Cells inside and outside of the ranges, and at the knots themselves."""
    values = rng.uniform(low - 0.3 * (high - low), high + 0.3 * (high - low), size=(900, 3))
    knots = [o.knot[o.kind >= 2] for o in operators if isinstance(o, Additive)]
    knots = np.concatenate([np.empty(0), *knots])
    if knots.size:
        values[:300] = rng.choice(knots, (300, 3))
    values[300:450] = np.round(values[300:450])
    codes = rng.integers(-1, 3, (1, 900)).astype(np.int32)
    return Cells(np.ascontiguousarray(values.T.astype(dtype)), codes)


@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", CLASSES)
def test_scores_are_those_of_the_operators(kind, dtype, clamp):
    rng = np.random.default_rng(len(kind))
    for fitted_with in ("float32", "float64"):
        operators, low, high = fitted_operators(CLASSES[kind], fitted_with, rng)
        weights = rng.normal(size=sum(o.n_features for o in operators))
        cells = new_cells(operators, low, high, dtype, rng)
        scores = Scorer.from_operators(operators, weights, low, high).scores(cells, clamp)
        expected = old_scores(operators, weights, low, high, cells, clamp)
        scale = np.abs(weights).sum() if clamp else np.abs(expected).max()
        assert np.ptp(expected) > 0.1
        np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-13 * scale)


def test_a_value_at_a_threshold_is_not_above_it():
    x = np.array([[0.0], [0.5], [0.5 + 2**-24], [1.0]], dtype=np.float32)
    operators = fit_operators([Threshold()], x)
    scorer = Scorer.from_operators(operators, np.array([1.0, 10.0, 100.0]), x.min(0), x.max(0))
    knots = operators[0].knot
    at = np.concatenate([knots, np.nextafter(knots, np.inf), np.nextafter(knots, -np.inf)])
    scores = scorer.scores(Cells(at[None], np.empty((0, 9), dtype=np.int32)))
    np.testing.assert_array_equal(scores, [0, 1, 11, 1, 11, 111, 0, 1, 11])
    np.testing.assert_array_equal(scorer.scores(Schema.from_table(x).read(x)), [0, 1, 11, 111])


def test_many_knots_in_a_small_part_of_the_range():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=4000) * 1e-6, [1e6, -1e6])[:, None]
    operators = fit_operators([Threshold()], x)
    weights = rng.normal(size=operators[0].n_features)
    at = np.sort(np.concatenate([x[:, 0], operators[0].knot]))
    scorer = Scorer.from_operators(operators, weights, x.min(0), x.max(0))
    scores = scorer.scores(Cells(at[None], np.empty((0, at.size), dtype=np.int32)))
    expected = ((at[:, None] > operators[0].knot) * weights).sum(axis=1)
    np.testing.assert_allclose(scores, expected, atol=1e-9)


@dataclass(frozen=True, eq=False)
class Ripples(Operator):
    """A kind of feature that the library does not know: sin^2 x, held at 1/2 when clamped."""

    n_features = 1

    def names(self):
        return ["ripples"]

    def kinds(self):
        return np.array(["l"])

    def restrict(self, index):
        return self

    def bind(self, cells, clamp=False):
        return BoundRipples(np.sin(cells.values[0].astype(float)) ** 2, clamp)


class BoundRipples(Bound):
    n_features = 1

    def __init__(self, feature, clamp):
        self.feature = np.minimum(feature, 0.5) if clamp else feature

    def add_scores(self, w, theta):
        theta += w[0] * self.feature

    moments = squares = restrict = take = write = None


@dataclass(frozen=True, eq=False)
class Doubled(Additive):
    """A subclass that scores in its own way."""

    def bind(self, cells, clamp=False):
        return super().bind(Cells(2 * cells.values, cells.codes), clamp)


def test_other_operators_score_themselves():
    rng = np.random.default_rng(1)
    operators, low, high = fitted_operators(CLASSES["all"], "float64", rng)
    (additive,) = [o for o in operators if type(o) is Additive]
    operators = [Ripples(), *operators, Doubled(**vars(additive))]
    weights = rng.normal(size=sum(o.n_features for o in operators))
    cells = new_cells(operators, low, high, "float64", rng)
    scorer = Scorer.from_operators(operators, weights, low, high)
    assert [type(o) for o, _ in scorer.others] == [Ripples, Doubled]
    for clamp in (True, False):
        expected = old_scores(operators, weights, low, high, cells, clamp)
        np.testing.assert_allclose(scorer.scores(cells, clamp), expected, rtol=1e-11, atol=1e-11)


def test_a_missing_value_has_no_score():
    rng = np.random.default_rng(2)
    operators, low, high = fitted_operators([Hinge()], "float64", rng)
    scorer = Scorer.from_operators(operators, np.ones(operators[0].n_features), low, high)
    values = np.array([[np.nan, 1.0], [3.0, 3.0], [200.0, 200.0]])
    scores = scorer.scores(Cells(values, np.zeros((1, 2), dtype=np.int32)))
    np.testing.assert_array_equal(np.isnan(scores), [True, False])


# -- similarity ----------------------------------------------------------------------------------


def brute_similarity(p, reference):
    """Elith et al. 2010, one value at a time."""
    low, high = min(reference), max(reference)
    if low == high:
        return 100.0 if p == low else -100.0
    f = 100 * sum(r < p for r in reference) / len(reference)
    if f == 0:
        return (p - low) / (high - low) * 100
    if f <= 50:
        return 2 * f
    return 2 * (100 - f) if f < 100 else (high - p) / (high - low) * 100


def brute_mess(values, table, categorical):
    """MESS and the most dissimilar variable of each row."""
    rows = []
    for i in range(len(next(iter(values.values())))):
        each = []
        for name, column in values.items():
            p, reference = column[i], table[name].tolist()
            if name in categorical:
                each.append(100.0 if p in reference else -100.0)
            else:
                each.append(brute_similarity(float(p), [float(r) for r in reference]))
        rows.append((min(each), int(np.argmin(each))))
    return np.array(rows).T


@pytest.fixture(scope="module")
def places():
    rng = np.random.default_rng(3)
    table = pandas.DataFrame(
        {
            "heat": rng.normal(20, 5, 200).astype(np.float32),
            "rain": rng.integers(0, 12, 200).astype(np.int16) * 100,
            "soil": rng.choice([1, 2, 4], 200).astype(np.uint8),
            "flat": np.full(200, 7.0),
        }
    )
    new = {
        "heat": np.concatenate([rng.normal(20, 10, 100), table["heat"][:50]]).astype(np.float32),
        "rain": rng.integers(-3, 15, 150).astype(np.int16) * 100,
        "soil": rng.choice([1, 2, 3, 4], 150, p=[0.3, 0.3, 0.1, 0.3]).astype(np.uint8),
        "flat": np.where(rng.random(150) < 0.9, 7.0, 8.0),
    }
    return table, new


def test_similarity_by_brute_force(places):
    table, new = places
    for columns in (["heat"], ["rain"], ["soil"], ["flat"], ["heat", "rain"], list(table)):
        reference = Reference.from_table(table[columns], [c for c in columns if c == "soil"])
        mess, variable = reference.similarity({name: new[name] for name in columns})
        least, first = brute_mess({n: new[n] for n in columns}, table, ["soil"])
        np.testing.assert_allclose(mess, least, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(variable, first)
        shaped = {name: new[name].reshape(10, 15) for name in columns}
        np.testing.assert_array_equal(reference.similarity(shaped)[0], mess.reshape(10, 15))
    assert (least < 0).any()
    assert (least > 0).any()


def test_similarity_of_missing_values_and_of_words(places):
    table, new = places
    heat = np.where(np.arange(150) < 5, np.nan, new["heat"])
    soil = new["soil"].astype(float)
    soil[5:8] = np.nan
    mess, variable = Reference.from_table(table[["soil", "heat"]], ["soil"]).similarity(
        {"heat": heat, "soil": soil}
    )
    np.testing.assert_array_equal(np.isnan(mess), np.arange(150) < 8)
    np.testing.assert_array_equal(variable == -1, np.arange(150) < 8)
    words = pandas.DataFrame({"soil": ["clay", "sand", "clay"]})
    similarity, _ = Reference.from_table(words).similarity(
        {"soil": np.array(["sand", "rock"], dtype=object)}
    )
    np.testing.assert_array_equal(similarity, [100, -100])


def test_a_long_reference_is_thinned():
    rng = np.random.default_rng(4)
    x = rng.normal(size=50_000)
    reference = Reference.from_table(x[:, None])
    assert reference.values["x0"].size <= 10_000
    assert (reference.values["x0"][[0, -1]] == [x.min(), x.max()]).all()
    at = np.concatenate([rng.normal(size=3000), [x.min() - 1, x.max() + 1, x.min(), x.max()]])
    below = 100 * np.searchsorted(np.sort(x), at) / x.size
    inside = 2 * np.minimum(below, 100 - below)
    width = x.max() - x.min()
    outside = np.minimum(at - x.min(), x.max() - at) / width * 100
    expected = np.where((below > 0) & (below < 100), inside, outside)
    np.testing.assert_allclose(reference.similarity({"x0": at})[0], expected, atol=0.03)
    few = Reference.from_table(x[:9000, None])
    assert few.values["x0"].size == 9000


def test_a_reference_is_saved(places, tmp_path):
    table, new = places
    reference = Reference.from_table(table, ["soil"])
    save(reference, tmp_path / "reference.json")
    again = load(tmp_path / "reference.json")
    assert again.variables == ("heat", "rain", "soil", "flat")
    for one, other in zip(again.similarity(new), reference.similarity(new), strict=True):
        np.testing.assert_array_equal(one, other)


def test_similarity_needs_every_variable_in_one_shape(places):
    table, new = places
    reference = Reference.from_table(table, ["soil"])
    with pytest.raises(ValueError, match="no values of rain: similarity needs all of heat, rain"):
        reference.similarity({n: v for n, v in new.items() if n != "rain"})
    with pytest.raises(ValueError, match=r"rain has the shape \(3,\), heat \(150,\)"):
        reference.similarity({**new, "rain": np.zeros(3)})


# -- maps ----------------------------------------------------------------------------------------


def write(path, values, nodata=None, crs="EPSG:4326", **profile):
    height, width = values.shape
    shape = {"count": 1, "height": height, "width": width, "dtype": values.dtype}
    place = {"crs": crs, "transform": rasterio.Affine(*TRANSFORM), "nodata": nodata}
    with rasterio.open(path, "w", driver="GTiff", **shape, **place, **profile) as file:
        file.write(values, 1)
    return path


def read(path):
    with rasterio.open(path) as file:
        return file.read(1)


@dataclass
class Scene:
    """Layers in files, where all are known, a model and the table it was fitted to."""

    folder: object
    known: np.ndarray
    columns: dict
    model: MaxentDensity
    table: object
    replicates: list

    @property
    def frame(self):
        return pandas.DataFrame({n: v[self.known] for n, v in self.columns.items()})

    def open(self, **options):
        return Layers.open(self.folder, categorical=["soil"], **options)

    def check(self, path, expected, **tolerance):
        """A map is as expected where every layer is known, and nodata elsewhere."""
        values = read(path)
        np.testing.assert_array_equal(np.isnan(values), ~self.known)
        np.testing.assert_allclose(values[self.known], expected, **tolerance)


def make_layers(rng):
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    heat = (25 - 0.2 * row + rng.normal(size=row.shape)).astype(np.float32)
    rain = (800 + 10 * column + rng.normal(size=row.shape) * 100).astype(np.int16)
    soil = rng.choice([1, 2, 4], row.shape).astype(np.uint8)
    known = np.ones(row.shape, dtype=bool)
    heat[:5, :7], rain[10:20, 30:45], soil[60:, 80:] = np.nan, -9999, 0
    heat[30, 30], heat[31, 31] = np.inf, -np.inf
    known[:5, :7] = known[10:20, 30:45] = known[60:, 80:] = known[30, 30] = known[31, 31] = False
    return {"heat": heat, "rain": rain, "soil": soil}, known


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layers")
    rng = np.random.default_rng(5)
    columns, known = make_layers(rng)
    write(folder / "heat.tif", columns["heat"], np.nan, tiled=True, blockxsize=32, blockysize=32)
    write(folder / "rain.tif", columns["rain"], -9999)
    write(folder / "soil.tif", columns["soil"], 0)
    frame = pandas.DataFrame({n: v[known] for n, v in columns.items()})
    inner = frame[(frame["heat"] > 14) & (frame["rain"] < 1500)]  # so that the rest is beyond
    table = inner.sample(1200, random_state=0).reset_index(drop=True)
    suitability = table["heat"] / 4 + table["rain"] / 300 + (table["soil"] == 2)
    y = (suitability + rng.normal(size=len(table)) > suitability.quantile(0.85)).astype(int)
    settings = {"features": "lqphc", "categorical": ["soil"], "verbose": 0, "multiplier": 0.5}
    model = MaxentDensity(**settings).fit(table, y)
    replicates = [
        MaxentDensity(**settings).fit(part, y[part.index])
        for part in (table.sample(800, random_state=i) for i in range(4))
    ]
    return Scene(folder, known, columns, model, table, replicates)


@pytest.mark.parametrize("clamp", [True, False])
def test_maps_are_the_predictions(scene, tmp_path, clamp):
    with scene.open() as layers:
        written = project(
            scene.model, layers, tmp_path, outputs=OUTPUTS, clamp=clamp, extras=("clamping",)
        )
    assert written.n_cells == scene.known.sum()
    assert written.files == {what: f"{what}.tif" for what in (*OUTPUTS, "clamping")}
    assert sorted(os.listdir(tmp_path)) == sorted(written.files.values())
    for output in OUTPUTS:
        expected = scene.model.predict(scene.frame, output, clamp=clamp)
        least = np.finfo(np.float32).tiny  # below it single precision has fewer digits
        scene.check(tmp_path / f"{output}.tif", expected, rtol=1e-6, atol=least)
    both = [scene.model.predict(scene.frame, "cloglog", clamp=c) for c in (True, False)]
    difference = np.abs(both[0] - both[1])
    assert difference.max() > 0.05
    scene.check(tmp_path / "clamping.tif", difference, rtol=1e-6, atol=1e-7)
    limits = scene.table.min(), scene.table.max()
    names = ["heat", "rain"]
    outside = (scene.frame < limits[0])[names] | (scene.frame > limits[1])[names]
    assert written.n_outside == outside.any(axis=1).sum() > 0
    assert written.n_clamped == (written.n_outside if clamp else 0)
    assert (written.n_unseen, written.n_extrapolated) == (0, None)  # without a reference
    assert written.seconds > 0


def test_similarity_maps(scene, tmp_path):
    reference = Reference.from_table(scene.table, ["soil"])
    with scene.open() as layers:
        written = project(
            scene.model, layers, tmp_path, reference=reference, extras=("mess", "mod"), name="now"
        )
    assert written.name == "now"
    assert written.classes == {1: "heat", 2: "rain", 3: "soil"}
    sample = np.random.default_rng(0).choice(int(scene.known.sum()), 400, replace=False)
    rows = {name: column.to_numpy()[sample] for name, column in scene.frame.items()}
    mess, variable = brute_mess(rows, scene.table, ["soil"])
    assert set(variable) == {0, 1}
    assert (mess < 0).any()
    values = read(tmp_path / "mess.tif")
    np.testing.assert_allclose(values[scene.known][sample], mess, rtol=1e-6)
    assert written.n_extrapolated == (values < 0).sum() > 0
    with rasterio.open(tmp_path / "mod.tif") as file:
        assert (file.dtypes[0], file.nodata) == ("uint8", 0)
        numbers, tags = file.read(1), file.tags()
    np.testing.assert_array_equal(numbers[scene.known][sample], variable + 1)
    np.testing.assert_array_equal(numbers == 0, ~scene.known)
    assert [tags[f"CLASS_{i}"] for i in (1, 2, 3)] == ["heat", "rain", "soil"]


def test_similarity_is_over_the_variables_of_the_model(scene, tmp_path):
    wider = Reference.from_table(
        scene.table.assign(other=1.0)[["other", "soil", "rain", "heat"]], ["soil"]
    )
    with scene.open() as layers:
        maps = [
            project_xarray(scene.model, layers, reference=reference)
            for reference in (wider, Reference.from_table(scene.table, ["soil"]))
        ]
        for what in ("mess", "mod"):
            np.testing.assert_array_equal(maps[0][what], maps[1][what])
        fewer = Reference.from_table(scene.table[["heat"]])
        with pytest.raises(ValueError, match="the reference does not have rain, soil; it has heat"):
            project(scene.model, layers, tmp_path, reference=fewer)


def test_presence_at_a_threshold(scene, tmp_path):
    expected = scene.model.predict(scene.frame, "cloglog")
    threshold = float(np.sort(expected)[len(expected) // 2])  # the value of a cell: it is present
    with scene.open() as layers:
        project(scene.model, layers, tmp_path, threshold=threshold, extras=())
    with rasterio.open(tmp_path / "presence.tif") as file:
        assert (file.dtypes[0], file.nodata) == ("uint8", 255)
        assert float(file.tags()["THRESHOLD"]) == threshold
        values = file.read(1)
    np.testing.assert_array_equal(values == 255, ~scene.known)
    np.testing.assert_array_equal(values[scene.known], expected >= threshold)


def test_statistics_of_replicates(scene, tmp_path):
    with scene.open() as layers:
        written = project(scene.model, layers, tmp_path, replicates=scene.replicates, extras=())
    each = np.array([m.predict(scene.frame, "cloglog") for m in scene.replicates])
    assert np.ptp(each, axis=0).max() > 0.01
    expected = {
        "mean": np.mean(each, axis=0),
        "sd": np.std(each, axis=0, ddof=1),
        "min": np.min(each, axis=0),
        "max": np.max(each, axis=0),
        "median": np.median(each, axis=0),
    }
    assert list(written.files) == ["cloglog", *(f"replicates_{s}" for s in STATISTICS)]
    for statistic, values in expected.items():
        path = tmp_path / f"replicates_{statistic}.tif"
        scene.check(path, values, rtol=1e-6, atol=1e-7)


def test_replicates_with_other_levels_and_columns(scene):
    frame = scene.table[["soil", "heat", "rain"]]
    part = frame[frame["soil"] != 4].reset_index(drop=True)
    y = (part["heat"] > part["heat"].quantile(0.9)).astype(int)
    other = MaxentDensity("lqc", categorical=["soil"], verbose=0).fit(part, y)
    with scene.open() as layers:
        maps = project_xarray(scene.model, layers, replicates=[other], extras=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # soil 4 is new to this replicate
        expected = other.predict(scene.frame[["soil", "heat", "rain"]], "cloglog")
    for statistic in ("mean", "min", "max", "median"):
        values = maps[f"replicates_{statistic}"].values[scene.known]
        np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert (maps["replicates_sd"].values[scene.known] == 0).all()
    assert maps.attrs["n_unseen"] == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cells", [700, 1 << 20])
def test_windows_and_threads_make_no_difference(scene, tmp_path, monkeypatch, cells, threads):
    options = {
        "outputs": ("raw", "cloglog"),
        "reference": Reference.from_table(scene.table, ["soil"]),
    }
    with scene.open() as layers:
        whole = project_xarray(scene.model, layers, **options)
        monkeypatch.setattr(drawing, "_CELLS", cells * threads)
        monkeypatch.setattr(plan, "_CHUNK", 300)
        windows = drawing._windows(layers, threads)
        assert len(windows) > 5 or cells > 700
        written = project(scene.model, layers, tmp_path, threads=threads, **options)
    assert written.n_cells == whole.attrs["n_cells"]
    assert written.n_extrapolated == whole.attrs["n_extrapolated"] > 0
    assert written.n_clamped == whole.attrs["n_clamped"] > 0
    for what, file in written.files.items():
        np.testing.assert_array_equal(read(tmp_path / file), whole[what].values)


def test_files_in_tiles_of_odd_sides(scene, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "_CELLS", 1000)
    expected = scene.model.predict(scene.frame, "cloglog")
    with scene.open() as layers:
        source = layers.sources[0]
        monkeypatch.setattr(type(source), "block_shape", lambda self: (23, 29))
        height, width = drawing._windows(layers, 1)[0][2:]
        assert height % 16 == width % 16 == 0
        project(scene.model, layers, tmp_path, threads=1, extras=())
    scene.check(tmp_path / "cloglog.tif", expected, rtol=1e-6)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Noise on a grid of several tiles, which no compression makes small."""
    folder = tmp_path_factory.mktemp("wide")
    rng = np.random.default_rng(6)
    values = rng.random((560, 1100)).astype(np.float32)
    values[:520, :600] = np.nan
    write(folder / "noise.tif", values, np.nan, crs="EPSG:32722")
    x = rng.random((500, 1)).astype(np.float32)
    table = pandas.DataFrame({"noise": x[:, 0]})
    model = MaxentDensity("lq", verbose=0).fit(table, x[:, 0] > 0.8)
    return folder, values, model


@pytest.mark.parametrize("cog", [True, False])
def test_files_are_cloud_optimized(wide, tmp_path, cog):
    folder, values, model = wide
    target = tmp_path / "new" / "map.tif"
    with Layers.open(folder) as layers:
        written = project(
            model, layers, target, outputs=("cloglog", "raw"), extras=(), cog=cog, tags={"A": "b"}
        )
    assert written.files == {"cloglog": "map.tif", "raw": "map_raw.tif"}
    assert sorted(os.listdir(target.parent)) == ["map.tif", "map_raw.tif"]
    known = ~np.isnan(values)
    with rasterio.open(target) as file:
        assert file.crs.to_epsg() == 32722
        assert tuple(file.transform)[:6] == TRANSFORM
        assert (file.shape, file.count, file.dtypes[0]) == ((560, 1100), 1, "float32")
        assert np.isnan(file.nodata)
        assert file.block_shapes == [(512, 512)]
        assert file.descriptions == ("cloglog",)
        assert file.tags()["A"] == "b"
        assert file.tags()["LAYERS"] == "training layers"
        structure = file.tags(ns="IMAGE_STRUCTURE")
        assert structure["COMPRESSION"] == "DEFLATE"
        assert structure.get("LAYOUT") == ("COG" if cog else None)
        assert file.overviews(1) == ([2, 4] if cog else [])
        drawn = file.read(1)
        half = file.read(1, out_shape=(280, 550))
    expected = model.predict(pandas.DataFrame({"noise": values[known]}), "cloglog")
    np.testing.assert_array_equal(np.isnan(drawn), ~known)
    np.testing.assert_allclose(drawn[known], expected, rtol=1e-6)
    if cog:  # an overview is the mean of the known cells under it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            mean = np.nanmean(drawn.reshape(280, 2, 550, 2), axis=(1, 3))
        np.testing.assert_allclose(half, mean, rtol=1e-5)


def test_empty_windows_are_not_scored(wide, tmp_path, monkeypatch):
    _, _, model = wide
    monkeypatch.setattr(drawing, "_CELLS", 1100 * 40)
    scored = []
    inner = plan.Plan._columns
    monkeypatch.setattr(
        plan.Plan,
        "_columns",
        lambda self, columns, tally: scored.append(1) or inner(self, columns, tally),
    )
    empty = np.full((560, 1100), np.nan, np.float32)
    empty[300:310] = 0.5
    write(tmp_path / "noise.tif", empty, np.nan)
    with Layers.open(tmp_path / "noise.tif") as layers:
        written = project(model, layers, tmp_path / "out", extras=(), threads=1)
    assert written.n_cells == 11_000
    assert 1 <= len(scored) <= 2
    np.testing.assert_array_equal(np.isnan(read(tmp_path / "out" / "cloglog.tif")), np.isnan(empty))


def test_layers_in_any_order_and_more_than_needed(scene, tmp_path):
    write(tmp_path / "atlas.tif", np.full((HEIGHT, WIDTH), -1, np.int16), -1)  # all nodata
    files = [scene.folder / f"{n}.tif" for n in ("soil", "rain", "heat")]
    with Layers.open([tmp_path / "atlas.tif", *files]) as layers:
        project(scene.model, layers, tmp_path / "out", extras=())
    expected = scene.model.predict(scene.frame, "cloglog")
    scene.check(tmp_path / "out" / "cloglog.tif", expected, rtol=1e-6)


def test_a_missing_layer_is_named(scene, tmp_path):
    with (
        Layers.open([scene.folder / "heat.tif", scene.folder / "soil.tif"]) as layers,
        pytest.raises(ValueError, match="needs 'rain'") as error,
    ):
        project(scene.model, layers, tmp_path / "out")
    assert f"heat ({scene.folder / 'heat.tif'})" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_unseen_category_has_no_effect(scene, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "_CELLS", 2000)
    soil = scene.columns["soil"].copy()
    new = scene.known & (np.arange(HEIGHT * WIDTH).reshape(soil.shape) % 7 == 0)
    soil[new] = 9
    soil[new & (np.arange(WIDTH) == 50)] = 3
    write(tmp_path / "soil.tif", soil, 0)
    files = [scene.folder / "heat.tif", scene.folder / "rain.tif", tmp_path / "soil.tif"]
    frame = scene.frame.assign(soil=soil[scene.known])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = scene.model.predict(frame, "cloglog")
    with Layers.open(files) as layers, pytest.warns(UserWarning, match="not there") as caught:
        written = project(scene.model, layers, tmp_path / "out", extras=())
    assert written.n_unseen == new.sum()
    (message,) = [str(w.message) for w in caught]
    assert f"{new.sum()} of {scene.known.sum()} cells" in message
    assert message.endswith("soil 3, 9")
    scene.check(tmp_path / "out" / "cloglog.tif", expected, rtol=1e-6)


def test_words_are_no_raster(scene, tmp_path):
    table = scene.table.assign(soil=np.where(scene.table["soil"] == 2, "clay", "sand"))
    model = MaxentDensity("lc", verbose=0).fit(table, table["heat"] > 20)
    with scene.open() as layers, pytest.raises(ValueError, match="'soil' with levels such as"):
        project(model, layers, tmp_path / "out")


def test_a_band_without_values_is_named(scene, tmp_path):
    write(tmp_path / "rain.tif", np.full((HEIGHT, WIDTH), -9999, np.int16), -9999)
    files = [scene.folder / "heat.tif", tmp_path / "rain.tif", scene.folder / "soil.tif"]
    message = f"{re.escape(str(tmp_path / 'rain.tif'))}: every cell is nodata"
    with Layers.open(files) as layers, pytest.raises(ValueError, match=message):
        project(scene.model, layers, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": ("cloglog", "linear")}, "outputs must be a list of raw.*'linear'"),
        ({"outputs": "cloglog"}, "outputs must be a list"),
        ({"outputs": ()}, "outputs is empty"),
        (
            {"extras": ("novelty",)},
            "extras must be a list of environment, space, clamping, mess, mod",
        ),
        ({"threshold": 1.5}, "threshold is a cloglog value between 0 and 1, got 1.5"),
    ],
)
def test_options_are_checked(scene, tmp_path, options, message):
    with scene.open() as layers, pytest.raises(ValueError, match=message):
        project(scene.model, layers, tmp_path, **options)
    assert not os.listdir(tmp_path)


def test_replicates_are_of_the_same_variables(scene, tmp_path):
    table = scene.table.rename(columns={"rain": "snow"})
    other = MaxentDensity("l", categorical=["soil"], verbose=0, preset="maxent")
    other.fit(table, table["heat"] > 20)
    with scene.open() as layers, pytest.raises(ValueError, match="replicate 1 has the variable"):
        project(scene.model, layers, tmp_path, replicates=[other])


def test_a_density_with_zeros(scene, tmp_path):
    table = scene.table[["heat", "rain"]]
    y = (table["heat"] > table["heat"].quantile(0.9)).astype(int)
    model = MaxentDensity("lq", entropy=Tsallis(1.5), verbose=0).fit(table, y)
    with scene.open() as layers:
        maps = project_xarray(model, layers, outputs=("log", "raw"), clamp=False)
    known = ~np.isnan(scene.columns["heat"]) & (scene.columns["rain"] != -9999)
    known &= np.isfinite(scene.columns["heat"])
    frame = pandas.DataFrame({n: scene.columns[n][known] for n in ("heat", "rain")})
    for output in ("log", "raw"):
        expected = model.predict(frame, output, clamp=False)
        np.testing.assert_allclose(maps[output].values[known], expected, rtol=1e-6)
    assert np.isneginf(maps["log"].values).any()


# -- what goes wrong -----------------------------------------------------------------------------


def interrupting(layers, at, stop):
    """Something happens while a window is read."""
    source = layers.sources[0]
    inner, seen = source.read, []

    def reading(window):
        seen.append(window)
        if len(seen) == at:
            stop()
        return inner(window)

    source.read = reading


def raising():
    raise KeyboardInterrupt


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("stop", [raising, lambda: signal.raise_signal(signal.SIGINT)])
def test_an_interrupt_leaves_nothing(scene, tmp_path, monkeypatch, threads, stop):
    monkeypatch.setattr(drawing, "_CELLS", 600)
    (tmp_path / "cloglog.tif").write_text("of before")
    for folder in (tmp_path, tmp_path / "new" / "maps"):
        with scene.open() as layers:
            interrupting(layers, 4, stop)
            with pytest.raises(KeyboardInterrupt):
                project(scene.model, layers, folder, threads=threads)
    assert os.listdir(tmp_path) == ["cloglog.tif"]
    assert (tmp_path / "cloglog.tif").read_text() == "of before"


def test_a_damaged_layer_leaves_nothing(scene, tmp_path):
    whole = (scene.folder / "heat.tif").read_bytes()
    (tmp_path / "heat.tif").write_bytes(whole[: len(whole) // 2])
    files = [tmp_path / "heat.tif", scene.folder / "rain.tif", scene.folder / "soil.tif"]
    with pytest.raises(OSError, match=r"heat\.tif"), Layers.open(files) as layers:
        project(scene.model, layers, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@contextmanager
def largest_file(size):
    """What a full disk is like: writing fails beyond a size."""
    resource = needs("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(wide, tmp_path):
    _, values, model = wide
    out = tmp_path / "out"
    values = np.where(np.isnan(values), values[::-1, ::-1], values)  # so that tiles are the larger
    with Layers.open(write(tmp_path / "noise.tif", values)) as layers:
        project(model, layers, tmp_path, extras=())
        size = (tmp_path / "cloglog.tif").stat().st_size
        assert size - 500 > values.nbytes
        # in the plain file; in the final one, where GDAL says so; and where it does not
        for limit in (100_000, size // 2, size - 500, size - 1):
            with (
                pytest.raises(OSError, match=r"cloglog\.tif cannot be written .* free space"),
                largest_file(limit),
            ):
                project(model, layers, out, extras=())
            assert not out.exists()
        with largest_file(size + 1):
            project(model, layers, out, extras=())
    np.testing.assert_array_equal(read(out / "cloglog.tif"), read(tmp_path / "cloglog.tif"))


def test_a_folder_that_cannot_be_written_to(scene, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with scene.open() as layers:
        with pytest.raises(OSError, match=r"file/maps cannot be written .* choose another"):
            project(scene.model, layers, tmp_path / "file" / "maps")

        def refuse(*args, **kwargs):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(geotiff.tempfile, "mkdtemp", refuse)
        with pytest.raises(OSError, match=r"Permission denied.*choose another folder"):
            project(scene.model, layers, tmp_path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_read_only_folder(scene, tmp_path):
    tmp_path.chmod(0o500)
    with scene.open() as layers, pytest.raises(OSError, match="cannot be written"):
        project(scene.model, layers, tmp_path)
    tmp_path.chmod(0o700)


# -- xarray --------------------------------------------------------------------------------------


def test_maps_in_memory_are_those_in_files(scene, tmp_path):
    needs("rioxarray")
    options = {
        "outputs": ("cloglog", "raw"),
        "reference": Reference.from_table(scene.table, ["soil"]),
        "threshold": 0.3,
        "replicates": scene.replicates[:2],
    }
    with scene.open() as layers:
        written = project(scene.model, layers, tmp_path, **options)
        maps = project_xarray(scene.model, layers, **options)
    assert list(maps.data_vars) == list(written.files)
    for what, file in written.files.items():
        with rasterio.open(tmp_path / file) as stored:
            np.testing.assert_array_equal(maps[what].values, stored.read(1))
            np.testing.assert_equal(maps[what].rio.nodata, stored.nodata)
            assert maps[what].rio.crs == stored.crs
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PendingDeprecationWarning)  # of rioxarray's code
                assert maps[what].rio.transform() == stored.transform
    np.testing.assert_allclose(maps["x"][:2], [-59.875, -59.625])
    np.testing.assert_allclose(maps["y"][:2], [9.875, 9.625])
    assert maps["mod"].attrs["classes"] == ["heat", "rain", "soil"]
    assert maps.attrs == {
        "n_cells": written.n_cells,
        "n_extrapolated": written.n_extrapolated,
        "n_outside": written.n_outside,
        "n_clamped": written.n_clamped,
        "n_unseen": 0,
        "n_masked": 0,
    }


def test_layers_from_xarray(scene):
    rioxarray = needs("rioxarray")
    xarray = needs("xarray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # of rioxarray's own code
        arrays = {
            n: rioxarray.open_rasterio(scene.folder / f"{n}.tif").squeeze("band", drop=True)
            for n in scene.columns
        }
    layers = Layers.from_xarray(xarray.Dataset(arrays), categorical=["soil"])
    maps = project_xarray(scene.model, layers)
    expected = scene.model.predict(scene.frame, "cloglog")
    np.testing.assert_array_equal(np.isnan(maps["cloglog"].values), ~scene.known)
    np.testing.assert_allclose(maps["cloglog"].values[scene.known], expected, rtol=1e-6)
