"""Blocks of one size, from the data or given, and groups of like conditions."""

import csv
import re

import numpy as np
import pytest
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import pdist

import maxent as mx
from maxent import species
from maxent.datasets import virtual_landscape, write_landscape
from maxent.evaluation import variogram
from maxent.species.judging.replicates import split_records
from maxent.species.judging.spatial_folds import block_size, residuals
from tools import needs

pandas = needs("pandas")
pyproj = needs("pyproj")
pytestmark = pytest.mark.usefixtures("sketches")

GEOD = pyproj.Geod(ellps="WGS84")
FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--no-maps"]


# -- variograms ------------------------------------------------------------------------------------


def test_variograms_are_half_mean_squares_of_differences():
    rng = np.random.default_rng(0)
    places, values = rng.uniform(0, 90, (60, 2)), rng.normal(size=60)
    made = variogram(values, pdist(places), reach=30.0, n_lags=6)
    for i in range(6):
        inside = [
            (np.hypot(*(places[a] - places[b])), (values[a] - values[b]) ** 2 / 2)
            for a in range(60)
            for b in range(a)
            if 5 * i <= np.hypot(*(places[a] - places[b])) < 5 * (i + 1)
        ]
        assert made.pairs[i] == len(inside)
        assert (made.distance[i], made.semivariance[i]) == pytest.approx(np.mean(inside, axis=0))


@pytest.mark.parametrize(("shape", "within"), [("spherical", 0.02), ("exponential", 0.02)])
def test_curves_are_found_again(shape, within):
    """From a curve itself: places on a line, differences as the curve says."""
    f = {
        "spherical": lambda u: np.where(u < 1, 1.5 * u - 0.5 * u**3, 1),
        "exponential": lambda u: 1 - np.exp(-3 * u),
    }[shape]
    from maxent.evaluation.variograms import _fitted

    h = np.linspace(1, 50, 15)
    found = _fitted(h, 0.2 + 0.8 * f(h / 22), np.full(15, 100), 50.0)
    assert found[0] == shape
    assert found[1:] == pytest.approx((0.2, 1.0, 22.0), rel=within, abs=0.02)


def test_ranges_of_noise_and_of_a_slope():
    rng = np.random.default_rng(1)
    places = rng.uniform(0, 100, (300, 2))
    assert variogram(rng.normal(size=300), pdist(places)).range == 0
    assert variogram(places[:, 0], pdist(places)).range == np.inf
    assert variogram(np.ones(300), pdist(places)).range == 0
    with pytest.raises(ValueError, match="have 3 pairs"):
        variogram([1.0, 2.0, 3.0], [1.0])


# -- environment -----------------------------------------------------------------------------------


def test_groups_are_those_of_k_means():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 0.3, (60, 2)) for m in (0.0, 5.0, 9.0)]) * [1.0, 400.0]
    y = np.tile([1, 0, 0], 60)
    fold = mx.EnvironmentalBlocks(X, n_splits=3).folds(y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    centres, _ = kmeans2(scaled[y > 0], scaled[[0, 60, 120]], minit="matrix")
    nearest = np.argmin(((scaled[:, None] - centres) ** 2).sum(axis=2), axis=1)
    assert np.array_equal(fold, nearest)
    assert np.array_equal(fold, np.repeat([0, 1, 2], 60))
    for train, test in mx.EnvironmentalBlocks(None, n_splits=3).split(None, y, X):
        assert set(fold[train]).isdisjoint(fold[test])
    with pytest.raises(ValueError, match="too few different environments"):
        mx.EnvironmentalBlocks(np.ones((9, 2)), n_splits=2).folds(np.ones(9))


# -- samples ---------------------------------------------------------------------------------------


def _sample(crs="EPSG:4326", wave=3.0, seed=0):
    """Places at 60 degrees north and a layer that changes over so many degrees of latitude."""
    rng = np.random.default_rng(seed)
    places = np.column_stack([rng.uniform(0, 20, 900), rng.uniform(55, 65, 900)])
    heat = np.sin(2 * np.pi * places[:, 1] / wave) * np.cos(2 * np.pi * places[:, 0] / 2 / wave)
    counts = np.where(np.arange(900) < 80, 1.0, 0.0)
    X = pandas.DataFrame({"heat": heat, "flat": np.ones(900), "soil": rng.integers(3, size=900)})
    x, y = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(*places.T)
    coordinates = np.column_stack([x, y])
    return species.Sample(X, counts, coordinates, background=counts == 0, crs=crs), places


def test_the_size_is_the_range_of_the_layers():
    sizes = []
    for crs in ("EPSG:4326", "EPSG:3857", "EPSG:3035"):
        sample, places = _sample(crs)
        size = block_size(sample, "layers", ["heat", "flat"], seed=1)
        assert list(size.variograms) == ["heat"]
        sizes.append(size.km)
    assert sizes == pytest.approx([sizes[0]] * 3, rel=1e-6)  # km on the ground
    # half a wave along the meridian is where values are most unlike
    half = GEOD.inv(10, 60, 10, 61.5)[2] / 1e3
    assert 0.4 * half < sizes[0] < 1.1 * half
    # against geodesic distances of the very rows, class by class
    drawn = np.sort(np.random.default_rng(1).choice(np.arange(80, 900), 700, replace=False))
    one, other = (drawn[i] for i in np.triu_indices(700, 1))
    km = np.array(GEOD.inv(*places[one].T, *places[other].T)[2]) / 1e3
    heat = sample.X["heat"].to_numpy()[drawn]
    made = variogram(heat / heat.std(), km, reach=km.max() / 3)
    assert size.km == pytest.approx(made.range, rel=1e-6)


def test_blocks_are_so_many_km_wide():
    sample, places = _sample()
    size = block_size(sample, "200")
    splits = split_records(sample, "blocks", 4, seed=3, blocks=size)
    middle = places[:80]
    plane = pyproj.Proj(
        proj="laea", lon_0=_middle(middle)[0], lat_0=_middle(middle)[1], ellps="WGS84"
    )
    flat = np.column_stack(plane(*places.T)) / 1e3
    blocks = mx.SpatialBlocks(flat, n_splits=4, size=200.0, random_state=3)
    expected = blocks.folds(sample.counts)
    for k, split in enumerate(splits):
        assert np.array_equal(split.test > 0, (expected == k) & (sample.counts > 0))
        assert np.array_equal(split.domain, expected != k)
    assert np.bincount(expected[:80]).tolist() == [20] * 4
    with pytest.raises(ValueError, match="lie in 1 blocks of size"):
        split_records(sample, "blocks", 4, blocks=block_size(sample, "5000"))
    edges = np.concatenate(size.edges)
    assert np.nanmin(edges[:, 0]) <= places[:, 0].min()
    assert np.nanmax(edges[:, 1]) >= places[:, 1].max()


def _middle(places):
    """Of places, by the mean of their points in space (pyproj's geocentric CRS)."""
    to_space = pyproj.Transformer.from_crs("EPSG:4979", "EPSG:4978", always_xy=True)
    points = np.column_stack(to_space.transform(*places.T, np.zeros(len(places))))
    x, y, z = points.mean(axis=0)
    ratio = (GEOD.a / GEOD.b) ** 2
    return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(ratio * z, np.hypot(x, y)))


def test_residuals_are_what_the_fit_leaves():
    sample, _ = _sample()
    model = species.Settings(features="l").recipe().task(sample.X[["heat"]], sample.counts).fit()
    part = species.Sample(
        sample.X[["heat"]], sample.counts, sample.coordinates, None, sample.background, sample.crs
    )
    raw = model.density.predict(part.X, "raw")
    expected = 80 * raw / raw[80:].sum()
    np.testing.assert_allclose(
        residuals(model.density, part), (part.counts - expected) / np.sqrt(expected), rtol=1e-9
    )


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def island(tmp_path_factory):
    """Rasters and records of a virtual island."""
    made = virtual_landscape(height=36, width=40, n_occurrences=70, n_group=50, seed=4)
    return write_landscape(made, tmp_path_factory.mktemp("an island, über all"))


@pytest.mark.parametrize("how", ["layers", "residuals", "120"])
def test_fits_are_tested_in_blocks_of_a_size(run, island, tmp_path, how):
    out = tmp_path / "out"
    args = ["fit", island["occurrences"], island["layers"], "-c", "biome", *FAST]
    done = run(*args, "--cv", "blocks", "--block-size", how, "-o", out)
    said = " ".join(done.output.split())
    assert done.exit_code == 0, done.output
    result = mx.load(out / "result.json")
    (made,) = result.replicates
    assert made.kind == "blocks"
    assert made.blocks.rule == ("given" if how == "120" else how)
    assert f"blocks of {made.blocks.km:.4g} km" in said
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "cut into blocks of one size" in page
    assert ("Variograms of" in page) == (how != "120")
    if how == "layers":
        assert "biome" not in made.blocks.variograms
        ranges = [
            min(v.range, made.blocks.reach) for v in made.blocks.variograms.values() if v.range
        ]
        assert made.blocks.km == pytest.approx(np.median(ranges))
        odmap = (out / "tables" / "odmap.csv").read_text(encoding="utf-8")
        assert f"blocks of {made.blocks.km:.4g} km, the median range" in odmap


def test_fits_and_tunings_are_tested_in_groups_of_conditions(run, island, tmp_path):
    args = [island["occurrences"], island["layers"], "-c", "biome"]
    out = tmp_path / "out"
    done = run("fit", *args, *FAST, "--cv", "environment", "--folds", "3", "-o", out)
    assert done.exit_code == 0, done.output
    (made,) = mx.load(out / "result.json").replicates
    assert [row["name"] for row in made.table] == ["group 1", "group 2", "group 3"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "groups of like conditions" in page
    # they are no places: neither the first screen nor ODMAP calls them spatial
    tiles = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    auc = [row["test_auc"] for row in made.table]
    mean, sd = np.mean(auc), np.std(auc, ddof=1)
    assert f"AUC, environmental cross-validation {mean:.3f} ± {sd:.3f} on conditions kept" in tiles
    assert "spatial cross-validation" not in page.lower()
    with open(out / "tables" / "odmap.csv", newline="", encoding="utf-8") as file:
        odmap = {row["element"]: row["Value"] for row in csv.DictReader(file)}
    assert odmap["Spatial autocorrelation"].startswith("not accounted for: cross-validation holds")
    assert odmap["Validation data"] == "groups of like conditions, 3 folds"
    assert f"AUC {mean:.4g}" in odmap["Performance on validation data"]
    tuned = tmp_path / "tuned"
    done = run("tune", *args, "-f", "l", "-m", "1,2", "--partition", "environment", "-o", tuned)
    assert done.exit_code == 0, done.output
    (page,) = tuned.glob("*_tuning.html")
    assert "by k-means of the variables" in page.read_text(encoding="utf-8")


def test_tunings_take_the_size_of_blocks_from_the_layers(run, island, tmp_path):
    args = ["tune", island["occurrences"], island["layers"], "-c", "biome", "-f", "l", "-m", "1,2"]
    done = run(*args, "--block-size", "layers", "-o", tmp_path / "tuned")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    km = float(re.search(r"folds: blocks of ([\d.]+) km, the median range", said)[1])
    (path,) = (tmp_path / "tuned").glob("*_tuning.html")
    page = path.read_text(encoding="utf-8")
    assert f"and a line at {km:.4g} km" in page
    assert "Blocks of one size" in page


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [
        ("fit", ["--block-size", "50"], "--block-size has no effect on cv auto; give --cv blocks"),
        ("fit", ["--cv", "blocks", "--block-size", "wide"], "km up to 20000, layers or residuals"),
        ("tune", ["--partition", "random", "--block-size", "5"], "has no effect on random"),
        ("tune", ["--block-size", "0"], "km up to 20000, layers or residuals, got '0'"),
    ],
)
def test_sizes_without_sense_are_refused(run, island, tmp_path, command, options, says):
    args = [island["occurrences"], island["layers"], "-o", tmp_path / "out"]
    done = run(command, *args, *options)
    assert done.exit_code == 2
    assert says in " ".join(done.output.replace("│", " ").split())
