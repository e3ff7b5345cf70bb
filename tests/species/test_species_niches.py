"""Tests of niche overlap on the map and in the space of the environment, against loops by hand."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.species.comparing.niches.comparison import compare_niches
from maxent.species.comparing.niches.environment import EnvironmentSpace, NicheDensity
from maxent.species.comparing.niches.files import comparison_figure
from maxent.species.comparing.niches.null_tests import NullTest, check_null
from maxent.species.comparing.overlap import overlap_of
from maxent.species.fitting.results import read_result
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

HEIGHT, WIDTH = 14, 20
TRANSFORM = rasterio.Affine(0.5, 0.0, 10.0, 0.0, -0.5, 50.0)
FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]


def _layers():
    """Three layers of smooth noise, one of them with a hole."""
    rng = np.random.default_rng(5)
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    heat = column / WIDTH * 4 + 0.3 * rng.normal(size=row.shape)
    rain = 100 + 30 * np.sin(row / 4) + 5 * rng.normal(size=row.shape)
    slope = rng.gamma(2, 3, size=row.shape)
    slope[:2, :3] = np.nan
    return {"heat": heat, "rain": rain, "slope": slope}


def _write_layers(folder, layers):
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in layers.items():
        with rasterio.open(
            folder / f"{name}.tif", "w", driver="GTiff", height=HEIGHT, width=WIDTH, count=1,
            dtype="float32", nodata=float("nan"), crs="EPSG:4326", transform=TRANSFORM,
        ) as file:  # fmt: skip
            file.write(values.astype(np.float32), 1)


def _records():
    """Cells of three species: in the warm east, in the cold west, and east again."""
    rng = np.random.default_rng(1)
    heat = _layers()["heat"]
    known = ~np.isnan(_layers()["slope"])
    found = {}
    for name, centre, n in (("Warm", 3.6, 16), ("Cold", 0.3, 12), ("Mild", 3.3, 14)):
        odds = np.where(known, np.exp(-8 * (heat - centre) ** 2), 0).ravel()
        found[name] = rng.choice(odds.size, n, replace=False, p=odds / odds.sum())
    return found


def _write_records(path, records):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["species", "longitude", "latitude"])
        for name, cells in records.items():
            for row, column in zip(*np.divmod(cells, WIDTH), strict=True):
                writer.writerow([name, *(TRANSFORM @ (column + 0.5, row + 0.5))])


def _run(*args):
    done = CliRunner().invoke(cli.main, [str(a) for a in args])
    done.words = " ".join(done.output.split())
    return done


def _fit(folder, out, *more, layers="layers"):
    done = _run("fit", folder / "records.csv", folder / layers, *FAST, "-o", out, *more)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Layers, records, and a folder of results with one per species."""
    folder = tmp_path_factory.mktemp("niches")
    _write_layers(folder / "layers", _layers())
    _write_records(folder / "records.csv", _records())
    _fit(folder, folder / "out")
    return folder


@pytest.fixture(scope="module")
def table():
    """All known cells, as float32 rasters hold them, and the rows of each species' records."""
    layers = {name: v.astype(np.float32).ravel() for name, v in _layers().items()}
    known = np.flatnonzero(~np.isnan(layers["slope"]))
    X = pd.DataFrame({name: v[known] for name, v in layers.items()})
    return X, {name: np.searchsorted(known, cells) for name, cells in _records().items()}


def _suitability(X, rows):
    counts = np.bincount(rows, minlength=len(X))
    return mx.MaxentDensity("lq", tol=1e-8).fit(X, counts).predict(X, output="cloglog")


def _d_and_i(p, q):
    p, q = p / p.sum(), q / q.sum()
    return 1 - np.abs(p - q).sum() / 2, 1 - ((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2


def _streams(seed, n):
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n)]


# -- arithmetic ------------------------------------------------------------------------------------


def test_overlap_of_arrays_is_that_of_the_formulas():
    rng = np.random.default_rng(0)
    one, other = rng.gamma(1, size=50), rng.gamma(1, size=50)
    np.testing.assert_allclose(overlap_of(one, other), _d_and_i(one, other))
    assert overlap_of(one, 3 * one) == pytest.approx((1, 1))


def test_p_counts_the_observed_overlap_among_the_null_models():
    null = np.array([0.2, 0.4, 0.4, 0.6, 0.8] * 8)[:39]
    identity = NullTest("identity", "schoener_d", "", 0.4, null, 0.05)
    assert identity.p_different == (1 + (null <= 0.4).sum()) / 40
    assert identity.p_similar == (1 + (null >= 0.4).sum()) / 40
    assert identity.p_value == identity.p_different
    least = NullTest("identity", "schoener_d", "", 0.1, null, 0.05)
    assert least.p_value == 1 / 40
    assert "not identical" in least.describe()
    assert "no sign that the niches differ" in identity.describe()
    two_sided = NullTest("background", "warren_i", "a against b at random", 0.1, null, 0.05)
    assert two_sided.p_value == 2 / 40
    assert "less similar than by chance, I = 0.100" in two_sided.describe()
    above = replace(two_sided, observed=0.9)
    assert (above.p_similar, above.p_value) == (1 / 40, 2 / 40)
    assert "more similar" in above.describe()
    assert replace(two_sided, observed=0.4).p_value == 1.0
    row = two_sided.row()
    assert row["null_mean"] == pytest.approx(null.mean())
    assert row["null_sd"] == pytest.approx(null.std(ddof=1))
    assert row["null_2.5%"] == pytest.approx(np.quantile(null, 0.025))


def test_null_models_that_could_never_tell_are_refused():
    for test, few, least in (("identity", 18, 19), ("background", 38, 39)):
        with pytest.raises(ValueError, match=f"at least {least} "):
            check_null(test, few, 0.05)
        check_null(test, least, 0.05)
    check_null("identity", 9, 0.1)
    with pytest.raises(ValueError, match="identity, background"):
        check_null("similarity", 99, 0.05)
    with pytest.raises(ValueError, match="between 0 and 1"):
        check_null("identity", 99, 5)


# -- on the map ------------------------------------------------------------------------------------


def test_the_identity_test_is_a_loop_over_shuffled_records(data, table):
    X, rows = table
    n = 20
    found = compare_niches(
        data / "out/Warm", data / "out/Mild", test="identity", n_null=n, seed=7, verbose=0
    )
    first, second = rows["Warm"], rows["Mild"]
    observed = _d_and_i(_suitability(X, first), _suitability(X, second))
    null = []
    for rng in _streams(7, n):
        dealt = rng.permutation(np.concatenate([np.sort(first), np.sort(second)]))
        parts = dealt[: first.size], dealt[first.size :]
        null.append(_d_and_i(*(_suitability(X, part) for part in parts)))
    by_d, by_i = found.tests
    assert (by_d.statistic, by_i.statistic) == ("schoener_d", "warren_i")
    np.testing.assert_allclose([by_d.observed, by_i.observed], observed, atol=2e-3)
    np.testing.assert_allclose(by_d.null, np.array(null)[:, 0], atol=2e-3)
    np.testing.assert_allclose(by_i.null, np.array(null)[:, 1], atol=2e-3)
    # every cell is background, so that the refits are the fits, and the judged cells the map
    assert found.maps.d == pytest.approx(by_d.observed, abs=2e-3)
    assert found.n_judged == found.maps.cells == len(X)
    assert found.n_records == (16, 14)


def test_the_background_test_is_a_loop_over_random_places_in_both_directions(data, table):
    X, rows = table
    n = 39
    found = compare_niches(
        data / "out/Warm", data / "out/Cold", test="background", n_null=n, seed=3, verbose=0
    )
    streams = _streams(3, 2 * n)
    for fixed, moved, part, tests in (
        ("Warm", "Cold", streams[:4], found.tests[:2]),
        ("Cold", "Warm", streams[n : n + 4], found.tests[2:]),
    ):
        kept = _suitability(X, rows[fixed])
        null = [
            _d_and_i(kept, _suitability(X, rng.choice(len(X), rows[moved].size, replace=False)))
            for rng in part
        ]
        assert [test.direction for test in tests] == [f"{fixed} against {moved} at random"] * 2
        np.testing.assert_allclose(tests[0].null[:4], np.array(null)[:, 0], atol=2e-3)
        np.testing.assert_allclose(tests[1].null[:4], np.array(null)[:, 1], atol=2e-3)
        assert tests[0].null.size == n


def test_refits_are_the_same_whatever_the_threads(data):
    args = (data / "out/Warm", data / "out/Cold")
    how = {"test": "identity", "n_null": 19, "verbose": 0}
    one, two = (compare_niches(*args, **how, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_allclose(one.tests[0].null, two.tests[0].null, atol=2e-3)
    other = compare_niches(*args, **how, seed=1)
    assert not np.allclose(one.tests[0].null, other.tests[0].null, atol=1e-2)


@pytest.mark.parametrize("space", ["geography", "environment"])
def test_limits_of_the_identity_test(data, space):
    same = compare_niches(
        data / "out/Warm", data / "out/Warm", test="identity", space=space, n_null=19, verbose=0
    )
    assert (same.d, same.i) == pytest.approx((1, 1))
    assert [test.p_value for test in same.tests] == [1, 1]
    apart = compare_niches(
        data / "out/Warm", data / "out/Cold", test="identity", space=space, n_null=19, verbose=0
    )
    assert apart.d < 0.1
    assert [test.p_value for test in apart.tests] == [1 / 20, 1 / 20]


def test_hinges_categories_and_settings_of_their_own(data, tmp_path):
    layers = _layers()
    layers["soil"] = np.where(np.isnan(layers["slope"]), np.nan, layers["rain"] // 20)
    _write_layers(tmp_path / "layers", layers)
    shutil.copy(data / "records.csv", tmp_path)
    rich = ["-c", "soil", "-f", "lqh"]
    _fit(tmp_path, tmp_path / "one", *rich, "-s", "Warm")
    _fit(tmp_path, tmp_path / "two", *rich, "-s", "Mild", "-m", "2", "--no-clamp")
    found = compare_niches(
        tmp_path / "one", tmp_path / "two", test="identity", n_null=19, verbose=0
    )
    assert "the two fits have different 'multiplier'" in " ".join(found.notes)
    assert found.tests[0].observed == pytest.approx(found.maps.d, abs=5e-3)
    assert found.tests[1].observed == pytest.approx(found.maps.i, abs=5e-3)
    jar = ["-c", "soil", "--preset", "maxent", "--overwrite"]
    _fit(tmp_path, tmp_path / "one", *jar, "-s", "Warm")
    _fit(tmp_path, tmp_path / "two", *jar, "-s", "Mild")
    found = compare_niches(
        tmp_path / "one", tmp_path / "two", test="identity", n_null=19, verbose=0
    )
    assert found.tests[0].observed == pytest.approx(found.maps.d, abs=5e-3)


def test_backgrounds_of_regions_of_their_own(data, tmp_path):
    for name in ("Warm", "Mild"):
        _fit(data, tmp_path / name, "-s", name, "--hull", "--buffer", "100", "--background", "90")
    folders = tmp_path / "Warm", tmp_path / "Mild"
    found = compare_niches(*folders, test="background", n_null=39, verbose=0)
    assert found.n_background == tuple(read_result(f).n_background for f in folders)
    assert found.n_background[0] != found.n_background[1]
    assert found.tests[0].observed == pytest.approx(found.maps.d, abs=5e-3)
    pooled = compare_niches(*folders, test="identity", n_null=19, verbose=0)
    assert 0 < pooled.tests[0].observed < 1


# -- in the space of the environment ---------------------------------------------------------------


def _kernel(points, size):
    """Gaussian, reference bandwidth, cut below the least dense point: cell by cell."""
    n = len(points)
    h = np.sqrt((points[:, 0].var(ddof=1) + points[:, 1].var(ddof=1)) / 2) * n ** (-1 / 6)
    centre = (np.arange(size) + 0.5) / size
    grid = np.stack(np.meshgrid(centre, centre, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(-(cdist(grid, points) ** 2) / (2 * h**2)).sum(axis=1).reshape(size, size)
    at = density[tuple(np.minimum((points * size).astype(int), size - 1).T)]
    return np.where(density < at.min(), 0, density)


def _occupancy(there, found):
    ratio = np.zeros_like(there)
    for index in np.ndindex(there.shape):
        if there[index] > 0:
            ratio[index] = found[index] / there[index]
    return ratio


def _unit_scores(backgrounds, records):
    pooled = np.concatenate(backgrounds)
    mean, sd = pooled.mean(axis=0), pooled.std(axis=0)
    _, values, axes = np.linalg.svd((pooled - mean) / sd, full_matrices=False)
    parts = [((part - mean) / sd) @ axes[:2].T for part in (*backgrounds, *records)]
    every = np.concatenate(parts)
    low, high = every.min(axis=0), every.max(axis=0)
    return [(part - low) / (high - low) for part in parts], values**2 / (values**2).sum()


@pytest.fixture(scope="module")
def regions():
    """Two regions that differ, and records of two species in them."""
    rng = np.random.default_rng(2)
    names = ["heat", "rain", "slope", "soil"]
    mix = rng.normal(size=(4, 4))
    one, other = rng.normal(size=(300, 4)) @ mix, rng.normal(0.5, 1.2, size=(250, 4)) @ mix
    found = one[one[:, 0] > 0.5][:40], other[other[:, 0] > 0][:30]
    return [pd.DataFrame(part, columns=names) for part in (one, other, *found)]


def test_overlap_in_the_environment_is_that_of_numpy_and_scipy(regions):
    size = 100
    space = EnvironmentSpace.from_tables(regions[:2], regions[2:])
    (a, b, c, d), share = _unit_scores(
        [x.to_numpy() for x in regions[:2]], [x.to_numpy() for x in regions[2:]]
    )
    np.testing.assert_allclose(space.axes.explained, share[:2])
    one, other = (_occupancy(_kernel(x, size), _kernel(y, size)) for x, y in ((a, c), (b, d)))
    # axes may point the other way, which turns the grid round
    np.testing.assert_allclose([space.d, space.i], _d_and_i(one, other), rtol=1e-6)
    niche = space.niches[0]
    assert niche.available.shape == (size, size)
    for part in (niche.available, niche.records, niche.occupancy):
        assert part.sum() == pytest.approx(1)
    half = niche.available[niche.available >= niche.level(0.5)]
    assert 0.5 <= half.sum() < 0.5 + half.min() + 1e-9
    assert (space.axes.loadings[np.abs(space.axes.loadings).argmax(axis=0), [0, 1]] > 0).all()


def test_tests_in_the_environment_are_loops_by_hand(regions):
    space = EnvironmentSpace.from_tables(regions[:2], regions[2:], resolution=20)
    points = [space.axes.unit(part) for part in space.records]
    there = [_kernel(space.axes.unit(space.axes.scores(part)), 20) for part in regions[:2]]
    names = ("a", "b")
    n = 39
    how = {"n_null": n, "level": 0.05, "seed": 4, "verbose": 0}
    tests = space.tests(names, "identity", **how)
    pooled = np.concatenate(points)
    expected = []
    for rng in _streams(4, n):
        dealt = rng.permutation(pooled)
        parts = dealt[: len(points[0])], dealt[len(points[0]) :]
        made = [_occupancy(z, _kernel(p, 20)) for z, p in zip(there, parts, strict=True)]
        expected.append(_d_and_i(*made))
    np.testing.assert_allclose(
        np.column_stack([test.null for test in tests]), expected, rtol=1e-6, atol=1e-9
    )
    tests = space.tests(names, "background", **how)
    own = [_occupancy(z, _kernel(p, 20)) for z, p in zip(there, points, strict=True)]
    for fixed, first in ((0, 0), (1, n)):
        moved = 1 - fixed
        z, found = there[moved], _kernel(points[moved], 20) * (there[moved] > 0)
        top = np.unravel_index(found.argmax(), found.shape)
        for k, rng in enumerate(_streams(4, 2 * n)[first : first + 5]):
            to = np.divmod(rng.choice(400, p=(z / z.sum()).ravel()), 20)
            shifted = np.zeros_like(z)
            for i, j in np.ndindex(z.shape):
                row, column = i + to[0] - top[0], j + to[1] - top[1]
                if 0 <= row < 20 and 0 <= column < 20:
                    shifted[row, column] = found[i, j]
            d, i = _d_and_i(own[fixed], _occupancy(z, shifted))
            assert tests[2 * fixed].null[k] == pytest.approx(d, rel=1e-6, abs=1e-9)
            assert tests[2 * fixed + 1].null[k] == pytest.approx(i, rel=1e-6, abs=1e-9)
    assert [test.direction for test in tests[::2]] == [
        "a against b at random",
        "b against a at random",
    ]


def test_an_environment_without_two_dimensions_is_refused(regions):
    one, other, here, there = regions
    with pytest.raises(ValueError, match="at least two variables"):
        EnvironmentSpace.from_tables([one[["heat"]]] * 2, [here[["heat"]]] * 2)
    twice = [part[["heat"]].assign(warmth=2 * part["heat"] + 1) for part in regions]
    with pytest.raises(ValueError, match="one dimension"):
        EnvironmentSpace.from_tables(twice[:2], twice[2:])
    with pytest.raises(ValueError, match="at least 5 of them, got 4"):
        EnvironmentSpace.from_tables([one, other], [here, there[:4]])
    even = [part.assign(height=3.0, kind=1) for part in regions]
    space = EnvironmentSpace.from_tables(even[:2], even[2:], categorical=["kind"])
    assert space.axes.variables == ("heat", "rain", "slope", "soil")
    assert "'height'" in " ".join(space.notes)
    assert "'kind'" in " ".join(space.notes)


def test_a_niche_that_leaves_its_environment_is_empty_and_overlaps_nothing():
    rng = np.random.default_rng(0)
    corner = NicheDensity.from_scores(rng.uniform(0, 0.3, (200, 2)), rng.uniform(0, 0.3, (20, 2)))
    gone = corner.with_records(rng.uniform(0.9, 1, (20, 2)))
    assert not gone.occupancy.any()
    assert corner.overlap(gone).tolist() == [0, 0]
    with pytest.raises(ValueError, match="no record lies in an environment"):
        NicheDensity.from_scores(rng.uniform(0, 0.3, (200, 2)), rng.uniform(0.9, 1, (20, 2)))


def test_species_of_different_regions(data, tmp_path):
    """Each with layers of its own region: comparable in the environment, not on a map."""
    for name, part in (("Warm", slice(8, WIDTH)), ("Cold", slice(0, 12))):
        folder = tmp_path / name
        folder.mkdir()
        layers = {}
        for layer, values in _layers().items():
            layers[layer] = np.full(values.shape, np.nan)
            layers[layer][:, part] = values[:, part]
        _write_layers(folder / "whole", layers)
        (folder / "layers").mkdir()
        for path in (folder / "whole").iterdir():
            window = rasterio.windows.Window(part.start, 0, part.stop - part.start, HEIGHT)
            with rasterio.open(path) as file:
                profile = file.profile | {
                    "width": window.width,
                    "transform": file.window_transform(window),
                }
                values = file.read(1, window=window)
            with rasterio.open(folder / "layers" / path.name, "w", **profile) as file:
                file.write(values, 1)
        _write_records(folder / "records.csv", {name: _records()[name]})
        _fit(folder, folder / "out")
    folders = tmp_path / "Warm/out", tmp_path / "Cold/out"
    found = compare_niches(*folders, test="identity", space="environment", n_null=19, verbose=0)
    layers = {name: v.astype(np.float32) for name, v in _layers().items()}
    known = ~np.isnan(layers["slope"])
    column = np.arange(WIDTH) * np.ones((HEIGHT, 1))
    backgrounds = [
        np.column_stack([v[known & where].astype(float) for v in layers.values()])
        for where in (column >= 8, column < 12)
    ]
    records = [
        np.column_stack([v.ravel()[_records()[name]].astype(float) for v in layers.values()])
        for name in ("Warm", "Cold")
    ]
    (a, b, c, d), _ = _unit_scores(backgrounds, records)
    one, other = (_occupancy(_kernel(x, 100), _kernel(y, 100)) for x, y in ((a, c), (b, d)))
    assert (found.d, found.i) == pytest.approx(_d_and_i(one, other), rel=1e-4, abs=1e-6)
    assert found.n_background == tuple(len(part) for part in backgrounds)
    done = _run("overlap", *folders, "--test", "identity")
    assert done.exit_code == 1
    assert "is on another grid than" in done.words


# -- the command -----------------------------------------------------------------------------------


def test_the_command_writes_table_null_distribution_picture_and_json(data, tmp_path):
    out, facts = tmp_path / "warm & cold.csv", tmp_path / "all.json"
    folders = data / "out/Warm", data / "out/Cold"
    args = ["overlap", *folders, "--test", "identity", "--null", "19", "--seed", "5", "-o", out]
    done = _run(*args, "--json", facts, "-j", "2")
    assert done.exit_code == 0, done.output
    found = compare_niches(*folders, test="identity", n_null=19, seed=5, verbose=0)
    table = pd.read_csv(out)
    assert table["statistic"].tolist() == ["schoener_d", "warren_i"]
    np.testing.assert_allclose(table["p_value"], [t.p_value for t in found.tests])
    np.testing.assert_allclose(table["observed"], [t.observed for t in found.tests], atol=2e-3)
    null = pd.read_csv(tmp_path / "warm & cold_null.csv")
    np.testing.assert_allclose(null["schoener_d"], found.tests[0].null, atol=2e-3)
    np.testing.assert_allclose(null["warren_i"], found.tests[1].null, atol=2e-3)
    assert (tmp_path / "warm & cold.png").is_file()
    told = json.loads(facts.read_text())
    assert told["maps"]["d"] == pytest.approx(found.maps.d)
    assert told["environment"] is None
    assert told["tests"][0]["sentence"] in done.output
    again = _run(*args)
    assert again.exit_code == 1
    assert "--overwrite" in again.output


def test_the_command_in_the_environment(data, tmp_path):
    out, facts = tmp_path / "env.csv", tmp_path / "env.json"
    folders = data / "out/Warm", data / "out/Cold"
    how = ["--space", "environment", "--test", "background", "--null", "39"]
    done = _run("overlap", *folders, *how, "-o", out, "--json", facts)
    assert done.exit_code == 0, done.output
    found = compare_niches(*folders, test="background", space="environment", n_null=39, verbose=0)
    table = pd.read_csv(out)
    assert table["statistic"].tolist() == ["schoener_d", "warren_i"] * 2
    assert table.loc[0, "direction"] == "Warm against Cold at random"
    null = pd.read_csv(tmp_path / "env_null.csv")
    assert len(null) == 2 * 39
    second = null[null["direction"] == "Cold against Warm at random"]
    np.testing.assert_allclose(second["schoener_d"], found.tests[2].null)
    told = json.loads(facts.read_text())
    assert told["species"] == ["Warm", "Cold"]
    assert told["tests"][0]["sentence"] == found.tests[0].describe()
    assert len(told["tests"][3]["null"]) == 39
    assert np.shape(told["environment"]["niches"][1]["occupancy"]) == (100, 100)
    assert told["maps"] is None
    for test in found.tests[::2]:
        assert test.describe() in done.output


def test_the_environment_without_a_test(data, tmp_path):
    out = tmp_path / "env.csv"
    done = _run(
        "overlap", data / "out/Warm", data / "out/Mild", "--space", "environment", "-o", out
    )
    assert done.exit_code == 0, done.output
    with out.open() as file:
        (row,) = csv.DictReader(file)
    found = compare_niches(data / "out/Warm", data / "out/Mild", space="environment", verbose=0)
    assert float(row["schoener_d"]) == pytest.approx(found.d)
    assert f"{found.i:.4f}" in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env.csv", "env.png"]


def test_two_fits_to_the_same_records_say_so(data, tmp_path):
    """Their niche is one, whatever the settings."""
    shutil.copytree(data / "out" / "Warm", tmp_path / "again")
    told = _run("overlap", data / "out" / "Warm", tmp_path / "again", "--space", "environment")
    assert told.exit_code == 0, told.output
    assert "both results are of the same records" in " ".join(told.output.split())
    other = _run("overlap", *(data / "out" / n for n in ("Warm", "Mild")), "--space", "environment")
    assert "of the same records" not in other.output


def test_plain_overlap_as_json(data, tmp_path):
    done = _run(
        "overlap", data / "out/Warm", data / "out/Mild", "-q", "--json", tmp_path / "d.json"
    )
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "d.json").read_text())
    maps = [data / f"out/{name}/maps/cloglog.tif" for name in ("Warm", "Mild")]
    assert told["schoener_d"] == pytest.approx(species.niche_overlap(*maps).d)


def test_the_picture_has_the_niches_and_the_null_distributions(data):
    found = compare_niches(
        data / "out/Warm",
        data / "out/Cold",
        test="background",
        space="environment",
        n_null=39,
        verbose=0,
    )
    figure = comparison_figure(found)
    axes = [ax for part in figure.subfigs for ax in part.axes]
    assert len(axes) == 2 + 4
    for ax, niche, name in zip(axes, found.environment.niches, found.species, strict=False):
        np.testing.assert_array_equal(ax.images[0].get_array(), niche.occupancy.T)
        assert ax.get_title().startswith(name)
        levels = [float(drawn.levels[0]) for drawn in ax.collections]
        least = niche.available[niche.available > 0].min()
        assert levels == pytest.approx([least / 2, niche.level(0.5)])
    for ax, test in zip(axes[2:], found.tests, strict=True):
        assert ax.lines[0].get_xdata()[0] == test.observed
        assert sum(bar.get_height() for bar in ax.patches) == 39


def test_options_that_do_nothing_or_do_not_exist_are_wrong_usage(data, tmp_path):
    both = [data / "out/Warm", data / "out/Cold"]
    for args, message in (
        (["--null", "50"], "--null has no effect without --test"),
        (["--space", "environment", "--seed", "1"], "--seed has no effect without --test"),
        (["--test", "similarity"], "identity, background"),
        (["--space", "niche"], "geography, environment"),
        (["--quiet", "--test", "identity"], "--out or --json"),
        (["-o", tmp_path / "a.json", "--json", tmp_path / "a.json"], "the same file"),
        (["--test", "identity", "-o", tmp_path / "a.png"], "ends in .csv"),
    ):
        done = _run("overlap", *both, *args)
        assert done.exit_code == 2, done.output
        assert message in done.words.replace("│ ", "").replace(" │", "")
    for args, message in (
        (["--test", "identity", "--null", "9"], "at least 19 (--null)"),
        (["--test", "identity", "-o", tmp_path / "none" / "a.csv"], "there is no folder"),
    ):
        done = _run("overlap", *both, *args)
        assert done.exit_code == 1, done.output
        assert message in done.words


def test_fits_that_cannot_be_compared_say_why(data, tmp_path):
    warm = data / "out/Warm"
    few = {"Few": _records()["Warm"][:4]}
    (tmp_path / "few").mkdir()
    _write_records(tmp_path / "few" / "records.csv", few)
    shutil.copytree(data / "layers", tmp_path / "few" / "layers")
    few = _fit(tmp_path / "few", tmp_path / "few" / "out")
    other = _fit(data, tmp_path / "other", "-s", "Cold", "--without", "slope")
    group = _fit(data, tmp_path / "group", "-s", "Cold", "--target-group")
    effort = _fit(data, tmp_path / "effort", "-s", "Cold", "--bias-kernel", "100")
    for args, message in (
        ((few,), "Few has 4 records to fit"),
        ((other,), "different variables"),
        ((other,), "'slope'"),
        ((group,), "is the cells with records of a group (--target-group or"),
        ((group,), "to new folders without --target-group or --background-records and test those"),
        ((effort,), "was drawn by sampling effort (--bias or --bias-kernel)"),
        ((effort,), "to new folders without --bias or --bias-kernel and test those"),
        ((effort,), "D and I of the maps as they are need no --test"),
        ((warm / "maps/cloglog.tif",), "is no folder"),
        ((tmp_path / "nowhere",), "is no folder"),
    ):
        for space in ("geography", "environment"):
            done = _run("overlap", warm, *args, "--test", "identity", "--space", space)
            assert done.exit_code == 1, done.output
            assert message in done.words, done.output
    for folder in (group, effort):  # what the message promises
        done = _run("overlap", warm, folder)
        assert done.exit_code == 0, done.output


def test_layers_that_changed_or_went_are_refused(data, tmp_path):
    shutil.copy(data / "records.csv", tmp_path)
    shutil.copytree(data / "layers", tmp_path / "layers")
    fitted = _fit(tmp_path, tmp_path / "out", "-s", "Warm")
    layers = _layers()
    layers["rain"] = layers["rain"] + 1
    _write_layers(tmp_path / "layers", layers)
    args = ["overlap", fitted, data / "out/Cold", "--test", "identity"]
    done = _run(*args)
    assert done.exit_code == 1
    assert "its layers have changed since the fit" in done.words
    fitted = _fit(tmp_path, tmp_path / "out", "-s", "Warm", "--overwrite")
    done = _run(*args)
    assert done.exit_code == 1
    assert "layer 'rain' of the two fits has other values" in done.words
    shutil.rmtree(tmp_path / "layers")
    done = _run(*args)
    assert done.exit_code == 1
    assert "are not there" in done.words


def test_a_fit_to_tables_has_no_layers_to_compare(data, tmp_path, table):
    X, rows = table
    X.assign(species="background", x=0.0, y=0.0).to_csv(tmp_path / "background.csv", index=False)
    samples = X.iloc[rows["Warm"]].assign(species="Warm", x=0.0, y=0.0)
    samples.to_csv(tmp_path / "samples.csv", index=False)
    swd = ["fit", "--swd", tmp_path / "samples.csv", tmp_path / "background.csv", *FAST]
    done = _run(*swd, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    done = _run("overlap", tmp_path / "out", data / "out/Cold", "--space", "environment")
    assert done.exit_code == 1
    assert "names no layers" in done.words
