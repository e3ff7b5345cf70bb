"""The virtual landscape: its records follow the truth it states, and its files hold it."""

import csv
import math
from time import process_time

import numpy as np
import pytest
from scipy.stats import chisquare, entropy, pearsonr, spearmanr

from maxent.datasets import agreement, virtual_landscape, write_landscape
from maxent.datasets.landscape import _noise, _way
from maxent.species.input.layers.grid import Grid
from tools import needs

FLOATS = ["elevation", "temperature", "seasonality", "precipitation", "coast_distance"]


@pytest.fixture(scope="module")
def landscape():
    return virtual_landscape()


def test_layers_lie_on_one_grid_and_know_the_same_cells(landscape):
    assert landscape.grid == Grid("EPSG:4326", (0.05, 0.0, 70.0, 0.0, -0.05, -25.0), 260, 200)
    assert list(landscape.layers) == [*FLOATS, "biome"]
    assert landscape.categorical == ("biome",)
    land = landscape.land
    assert 0.4 < land.mean() < 0.8
    edge = np.concatenate([land[0], land[-1], land[:, 0], land[:, -1]])
    assert not edge.any()  # an island
    for name in FLOATS:
        layer = landscape.layers[name]
        assert layer.dtype == np.float32
        assert layer.shape == (200, 260)
        np.testing.assert_array_equal(np.isfinite(layer), land)
    np.testing.assert_array_equal(np.isfinite(landscape.effort), land)
    biome = landscape.layers["biome"]
    assert biome.dtype == np.uint8
    np.testing.assert_array_equal(biome != 255, land)
    share = np.bincount(biome[land], minlength=7)[1:] / land.sum()
    assert share.sum() == 1.0  # classes 1 to 6 and no other
    assert share.min() > 0.02


def test_the_place_makes_sense(landscape):
    land = landscape.land
    value = {name: landscape.layers[name][land].astype(float) for name in FLOATS}
    row, column = np.nonzero(land)
    # temperature: lower on mountains (six degrees per kilometre) and in the south (0.85 per degree)
    A = np.column_stack([np.ones(row.size), value["elevation"] / 1000, row * 0.05])
    (_, lapse, southward), *_ = np.linalg.lstsq(A, value["temperature"], rcond=None)
    assert lapse == pytest.approx(-5.8, abs=0.3)
    assert southward == pytest.approx(-0.85, abs=0.1)
    # rain: the wind comes from the east, the west lies behind the mountains
    crest = np.argmax(np.where(land, landscape.layers["elevation"], 0).mean(axis=0))
    rain = value["precipitation"]
    assert rain[column > crest + 20].mean() > 2 * rain[column < crest - 20].mean()
    assert rain.min() > 100
    assert value["elevation"].min() >= 1
    assert 1500 < value["elevation"].max() < 5000


def test_distance_to_the_coast_is_that_to_the_nearest_cell_of_sea(landscape):
    km = np.array([111.2 * 0.05, 111.2 * 0.05 * math.cos(math.radians(-30))])
    sea = np.argwhere(~landscape.land)
    inland = np.argwhere(landscape.land)
    for cell in inland[:: len(inland) // 20]:
        expected = np.sqrt((((sea - cell) * km) ** 2).sum(axis=1)).min()
        assert landscape.layers["coast_distance"][tuple(cell)] == pytest.approx(expected, rel=1e-5)


def test_biomes_are_patches(landscape):
    biome, land = landscape.layers["biome"], landscape.land
    beside = land[:, 1:] & land[:, :-1]
    same = (biome[:, 1:] == biome[:, :-1])[beside].mean()
    share = np.bincount(biome[land]) / land.sum()
    assert same > 0.93 > 2 * (share**2).sum()  # of independent cells: the sum of squares


def test_the_truth_is_the_niche_that_is_stated(landscape):
    land = landscape.land
    truth = landscape.truth[land]
    assert truth.sum() == pytest.approx(1, abs=1e-12)
    assert truth.min() > 0
    T, P, biome = (landscape.layers[k][land] for k in ("temperature", "precipitation", "biome"))
    weight = np.exp(-0.5 * ((T.astype(float) - 17) / 1.8) ** 2)
    weight /= 1 + np.exp(-(P.astype(float) - 700) / 120)
    weight *= np.array([0, 1, 4, 1, 1, 3, 1])[biome]
    np.testing.assert_allclose(truth, weight / weight.sum(), rtol=1e-4)


def test_records_follow_truth_times_effort():
    landscape = virtual_landscape(n_occurrences=5000, n_group=20_000, seed=3)
    land, effort = landscape.land, landscape.effort.astype(float)
    drawn = {
        "species": (landscape.x, landscape.y, landscape.truth * effort),
        "group": (landscape.group_x, landscape.group_y, effort),
    }
    for x, y, density in drawn.values():
        cell = landscape.grid.cells_at(x, y)
        assert land.ravel()[cell].all()
        row, column = np.divmod(cell, landscape.grid.width)
        counted = np.bincount(row // 10 * 26 + column // 10, minlength=20 * 26)
        coarse = np.nan_to_num(density / np.nansum(density)).reshape(20, 10, 26, 10)
        expected = x.size * coarse.sum(axis=(1, 3)).ravel()
        order = np.argsort(expected)  # rare squares together, so that each bin has ten
        bins = np.cumsum(expected[order]) // 10
        observed, wanted = (np.bincount(bins.astype(int), v[order]) for v in (counted, expected))
        keep = wanted > 0
        assert keep.sum() > 50
        assert chisquare(observed[keep], wanted[keep]).pvalue > 0.01
    # the effort shows: without it the same test would fail
    truth = np.nan_to_num(landscape.truth).reshape(20, 10, 26, 10).sum(axis=(1, 3)).ravel()
    cell = landscape.grid.cells_at(landscape.x, landscape.y)
    row, column = np.divmod(cell, landscape.grid.width)
    counted = np.bincount(row // 10 * 26 + column // 10, minlength=20 * 26)
    common = truth * 5000 > 5
    wanted = truth[common] / truth[common].sum() * counted[common].sum()
    assert chisquare(counted[common], wanted).pvalue < 1e-50


def test_records_lie_anywhere_in_their_cells(landscape):
    for x, y in ((landscape.x, landscape.y), (landscape.group_x, landscape.group_y)):
        centre_x, centre_y = landscape.grid.centres(landscape.grid.cells_at(x, y))
        for offset in ((x - centre_x) / 0.05, (y - centre_y) / 0.05):
            assert np.abs(offset).max() <= 0.4901
            assert offset.std() == pytest.approx(0.98 / math.sqrt(12), rel=0.15)
        assert np.unique(np.column_stack([x, y]), axis=0).shape[0] == x.size
    assert landscape.x.size == 250
    assert landscape.group_x.size == 4000


def test_effort_is_highest_at_cities_and_positive_everywhere(landscape):
    effort = landscape.effort[landscape.land]
    assert effort.min() == pytest.approx(0.02, abs=0.002)
    assert effort.max() == pytest.approx(2.52, abs=1e-6)  # at a city: 0.02 + 1 + 1.5
    assert (landscape.effort == effort.max()).sum() == 7


def test_a_seed_says_all():
    first = virtual_landscape(60, 80, seed=5)
    again = virtual_landscape(60, 80, seed=5)
    other = virtual_landscape(60, 80, seed=6)
    more = virtual_landscape(60, 80, n_occurrences=300, seed=5)
    for name in ("truth", "effort", "x", "y", "group_x", "group_y"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    for name, layer in first.layers.items():
        np.testing.assert_array_equal(layer, again.layers[name])
        np.testing.assert_array_equal(layer, more.layers[name])
    np.testing.assert_array_equal(first.group_x, more.group_x)
    assert not np.array_equal(first.land, other.land)
    assert more.x.size == 300


@pytest.mark.parametrize(("height", "width"), [(20, 20), (30, 90), (90, 30)])
def test_any_shape_and_seed_is_an_island(height, width):
    for seed in range(4):
        landscape = virtual_landscape(height, width, n_occurrences=20, n_group=30, seed=seed)
        assert landscape.truth.shape == (height, width)
        assert 0.2 < landscape.land.mean() < 0.9
        assert np.nansum(landscape.truth) == pytest.approx(1)
        assert landscape.land.ravel()[landscape.grid.cells_at(landscape.x, landscape.y)].all()


def test_too_small_is_refused():
    with pytest.raises(ValueError, match="at least 20 x 20 cells, got 19 x 40"):
        virtual_landscape(19, 40)


def test_it_is_made_within_a_second():
    start = process_time()  # of this process: other work on the machine does not count
    virtual_landscape()
    assert process_time() - start < 1.0


def test_noise_is_standard_and_smooth():
    noise = _noise(np.random.default_rng(0), 100, 120, 0.05, 0.02)
    assert noise.mean() == pytest.approx(0, abs=1e-12)
    assert noise.std() == pytest.approx(1, abs=1e-12)
    assert np.corrcoef(noise[:, 1:].ravel(), noise[:, :-1].ravel())[0, 1] > 0.9


def test_a_way_leads_from_one_city_to_the_other():
    start, end = np.array([3, 40]), np.array([70, 8])
    row, column = _way(np.random.default_rng(1), start, end, (80, 60))
    assert (row[0], column[0], row[-1], column[-1]) == (3, 40, 70, 8)
    assert max(np.abs(np.diff(row)).max(), np.abs(np.diff(column)).max()) <= 1  # no gaps


def test_the_future_is_warmer_and_drier_and_partly_novel(landscape):
    land = landscape.land
    future = landscape.future()
    assert list(future) == list(landscape.layers)
    warmer = future["temperature"][land].astype(float) - landscape.layers["temperature"][land]
    np.testing.assert_allclose(warmer, 2.5, atol=1e-5)
    drier = future["precipitation"][land] / landscape.layers["precipitation"][land]
    np.testing.assert_allclose(drier, 0.9, atol=1e-6)
    novel = future["temperature"][land] > np.nanmax(landscape.layers["temperature"])
    assert 0.01 < novel.mean() < 0.5
    for name in ("elevation", "seasonality", "coast_distance", "biome"):
        np.testing.assert_array_equal(future[name], landscape.layers[name])


def test_files_read_back_equal(tmp_path):
    rasterio = needs("rasterio")
    landscape = virtual_landscape(50, 65, n_occurrences=40, n_group=70)
    files = write_landscape(landscape, tmp_path / "data")
    assert sorted(files) == ["effort", "future", "layers", "occurrences", "target_group", "truth"]
    rasters = {files["effort"]: landscape.effort, files["truth"]: landscape.truth}
    for part, layers in (("layers", landscape.layers), ("future", landscape.future())):
        assert sorted(p.stem for p in files[part].iterdir()) == sorted(layers)
        rasters |= {files[part] / f"{name}.tif": layer for name, layer in layers.items()}
    assert len(rasters) == 14
    for path, expected in rasters.items():
        with rasterio.open(path) as file:
            assert file.crs.to_epsg() == 4326
            assert tuple(file.transform)[:6] == pytest.approx(landscape.grid.transform)
            assert file.profile["compress"] == "deflate"
            if path.stem == "biome":
                assert (file.dtypes, file.nodata) == (("uint8",), 255)
            else:
                assert file.dtypes == ("float32",)
                assert math.isnan(file.nodata)
            np.testing.assert_array_equal(file.read(1), expected.astype(file.dtypes[0]))
            np.testing.assert_array_equal(file.read_masks(1) > 0, landscape.land)
    for part, x, y in (
        ("occurrences", landscape.x, landscape.y),
        ("target_group", landscape.group_x, landscape.group_y),
    ):
        with open(files[part], newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["scientificName", "decimalLongitude", "decimalLatitude"]
        assert [float(row["decimalLongitude"]) for row in rows] == x.tolist()
        assert [float(row["decimalLatitude"]) for row in rows] == y.tolist()
        names = {row["scientificName"] for row in rows}
        assert (names == {"Arbor fictus"}) == (part == "occurrences")
        assert ("Arbor fictus" in names) == (part == "occurrences")


def test_agreement_is_what_scipy_says():
    rng = np.random.default_rng(0)
    truth, drawn = rng.uniform(size=(2, 6, 7))
    truth[0, :3], drawn[2, :2] = np.nan, np.nan
    both = np.isfinite(truth) & np.isfinite(drawn)
    p, q = truth[both] / truth[both].sum(), drawn[both] / drawn[both].sum()
    measured = agreement(drawn, truth)
    assert measured == {
        "pearson": pytest.approx(pearsonr(p, q).statistic),
        "spearman": pytest.approx(spearmanr(p, q).statistic),
        "kl": pytest.approx(entropy(p, q)),
        "total_variation": pytest.approx(0.5 * np.abs(p - q).sum()),
    }
    assert agreement(17 * drawn, truth) == pytest.approx(measured)


def test_agreement_with_itself_and_with_its_absence():
    truth = np.array([[0.2, 0.3], [0.5, np.nan]])
    same = {"pearson": 1.0, "spearman": 1.0, "kl": 0.0, "total_variation": 0.0}
    assert agreement(2 * truth, truth) == pytest.approx(same, abs=1e-12)
    nowhere = agreement(np.array([[1.0, 0.0], [0.0, 0.0]]), truth)
    assert nowhere["kl"] == math.inf
    assert nowhere["total_variation"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        (np.ones((2, 3)), r"one shape, got \(2, 3\) and \(2, 2\)"),
        (np.zeros((2, 2)), "must be densities"),
        (np.array([[1.0, -1.0], [3.0, 1.0]]), "must be densities"),
        (np.full((2, 2), np.nan), "must be densities"),
    ],
)
def test_agreement_refuses_what_is_no_density(drawn, message):
    with pytest.raises(ValueError, match=message):
        agreement(drawn, np.full((2, 2), 0.25))


def test_taking_the_effort_out_brings_a_fit_closer_to_the_truth(landscape):
    from maxent import MaxentDensity

    land = landscape.land
    X = np.column_stack([landscape.layers[name][land] for name in landscape.layers])
    place = np.cumsum(land.ravel()) - 1
    cell = landscape.grid.cells_at(landscape.x, landscape.y)
    counts = np.bincount(place[cell], minlength=len(X))
    truth = landscape.truth[land]

    def fitted(prior):
        model = MaxentDensity("lqhc", categorical=[5], tol=1e-5, verbose=0)
        return agreement(model.fit(X, counts, prior=prior).predict(X), truth)

    biased, corrected = fitted(None), fitted(landscape.effort[land])
    assert corrected["kl"] < 0.5 * biased["kl"]
    assert corrected["spearman"] > 0.9
