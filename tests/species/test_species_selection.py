"""Collinearity of layers, and which of them are used."""

import csv
import re

import numpy as np
import pytest

import maxent as mx
from maxent.species import Settings, judging
from maxent.species.judging.collinearity import vif
from maxent.species.study.selection import by_vif, forward
from tools import needs

rasterio = needs("rasterio")
pd = needs("pandas")

pytestmark = pytest.mark.usefixtures("sketches")

SHAPE = (20, 30)
NAMES = ("a", "b", "c", "d")
FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]


@pytest.fixture
def columns():
    """c is nearly a + b, d is noise."""
    a, b, e, d = np.random.default_rng(5).normal(size=(4, SHAPE[0] * SHAPE[1]))
    return {"a": a, "b": b, "c": a + b + 0.2 * e, "d": d}


@pytest.fixture
def sample(columns):
    """The species lives where a is high."""
    odds = np.exp(2 * columns["a"])
    rows = np.random.default_rng(6).choice(odds.size, 80, replace=False, p=odds / odds.sum())
    counts = np.bincount(rows, minlength=odds.size).astype(float)
    y, x = np.divmod(np.arange(odds.size), SHAPE[1])
    return mx.species.Sample(pd.DataFrame(columns), counts, np.column_stack([x, y]).astype(float))


@pytest.fixture
def files(tmp_path, columns, sample):
    (tmp_path / "layers").mkdir()
    for name, values in columns.items():
        with rasterio.open(
            tmp_path / "layers" / f"{name}.tif", "w", driver="GTiff", height=SHAPE[0],
            width=SHAPE[1], count=1, dtype="float64", crs="EPSG:4326",
            transform=rasterio.Affine(1, 0, 0, 0, -1, 30),
        ) as file:  # fmt: skip
            file.write(values.reshape(SHAPE), 1)
    lines = [
        f"Acer,{x + 0.5},{29.5 - y}"
        for (x, y), n in zip(sample.coordinates, sample.counts, strict=True)
        if n
    ]
    (tmp_path / "records.csv").write_text("\n".join(["species,longitude,latitude", *lines]) + "\n")
    return tmp_path


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _words(path):
    return " ".join(re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8")).split())


def test_vif_is_the_inverse_of_the_correlations(columns):
    expected = np.diag(np.linalg.inv(np.corrcoef(list(columns.values()))))
    np.testing.assert_allclose(vif(columns), expected, rtol=1e-8)
    r2 = needs("sklearn.linear_model").LinearRegression()
    others = np.column_stack([columns[n] for n in ("a", "b", "d")])
    share = r2.fit(others, columns["c"]).score(others, columns["c"])
    assert vif(columns)[2] == pytest.approx(1 / (1 - share), rel=1e-8)
    assert np.isinf(vif(columns | {"c": columns["a"] - 3 * columns["b"]})[:3]).all()
    assert vif({"a": columns["a"]}).tolist() == [1.0]


def test_collinearity_leaves_categories_and_constants_out(sample):
    soil = np.tile([1, 2, 3], sample.counts.size // 3)
    found = judging.collinearity(
        mx.species.Sample(sample.X.assign(soil=soil, flat=1.0), sample.counts), ("soil",)
    )
    assert found.variables == NAMES
    np.testing.assert_allclose(found.correlation, sample.X.corr().to_numpy(), atol=1e-12)


def test_by_vif_drops_the_worst_until_none_is_above(sample):
    dropped = by_vif(sample, NAMES, 10)
    assert list(dropped) == ["c"]
    largest = vif({n: sample.X[n].to_numpy() for n in NAMES}).max()
    assert dropped["c"] == f"VIF {largest:.1f}, above 10, among the 4 variables then left"
    assert by_vif(sample, NAMES, 1e6) == {}
    same = mx.species.Sample(sample.X.assign(e=sample.X["d"]), sample.counts)
    assert list(by_vif(same, [*NAMES, "e"], 10)) == ["e", "c"]


def test_forward_is_the_greedy_choice(sample):
    settings = Settings(features="l", select="forward", verbose=0)

    def score(names):
        part = mx.species.Sample(sample.X[list(names)], sample.counts, sample.coordinates)
        made, _ = judging.replicate(settings.recipe(), part, kind="blocks", n=4, verbose=0)
        return np.mean([row["test_gain"] for row in made.table])

    dropped, steps = forward(sample, settings)
    chosen, best = [], -np.inf
    while len(chosen) < 4:
        tried = {n: score([*chosen, n]) for n in NAMES if n not in chosen}
        name = max(tried, key=tried.get)
        if tried[name] <= best:
            break
        best = tried[name]
        chosen.append(name)
    assert [step["variable"] for step in steps] == chosen
    assert chosen[0] == "a"
    assert steps[-1]["test_gain"] == pytest.approx(best, abs=1e-9)
    assert set(dropped) == set(NAMES) - set(chosen)
    assert dropped
    for name, why in dropped.items():
        assert why == f"held-out gain of blocks {tried[name]:.4f} with it, {best:.4f} without"


@pytest.mark.parametrize("rule", ["vif", "vif=1.5", "forward"])
def test_the_command_selects(files, run, rule):
    out = files / "out"
    args = ["fit", files / "records.csv", files / "layers", *FAST, "--select", rule, "-o", out]
    done = run(*args, "--test-share", "0.2")
    assert done.exit_code == 0, done.output
    model, result = mx.species.load_model(out / "model.json"), mx.load(out / "result.json")
    kept = model.density.schema.names
    assert "a" in kept
    assert model.selection.kept == result.selection.kept == kept
    assert set(model.selection.dropped) == set(NAMES) - set(kept) != set()
    lost = ", ".join(f"{name} ({why})" for name, why in model.selection.dropped.items())
    assert f"Acer: --select {rule} leaves out {lost} and uses {', '.join(kept)}" in " ".join(
        done.output.split()
    )
    rows = {row["variable"]: row for row in _rows(out / "tables/selection.csv")}
    assert {n for n, row in rows.items() if row["used"] == "kept"} == set(kept)
    assert {n: row["why"] for n, row in rows.items() if row["why"]} == model.selection.dropped
    report = _words(out / "report.html")
    assert f"Selected by {rule}: {len(kept)} of 4 variables are used." in report
    for why in model.selection.dropped.values():
        assert why in report
    # a map of the model needs the layers that were kept alone
    alone = [files / "layers" / f"{name}.tif" for name in kept]
    assert run("project", out, *alone, "-o", files / "map.tif").exit_code == 0
    with rasterio.open(files / "map.tif") as one, rasterio.open(out / "maps/cloglog.tif") as two:
        np.testing.assert_array_equal(one.read(1), two.read(1))


def test_the_report_shows_collinearity(files, run, columns):
    out = files / "out"
    args = ["fit", files / "records.csv", files / "layers", *FAST, "--no-maps", "-o", out]
    assert run(*args).exit_code == 0
    table = {row["variable"]: row for row in _rows(out / "tables/collinearity.csv")}
    for name, factor in zip(NAMES, vif(columns), strict=True):
        assert float(table[name]["vif"]) == pytest.approx(factor, rel=1e-6)
    expected = np.corrcoef(columns["a"], columns["c"])[0, 1]
    assert float(table["a"]["c"]) == pytest.approx(expected, rel=1e-6)
    report = _words(out / "report.html")
    assert "Variance inflation of all variables given" in report
    assert f"{vif(columns)[2]:.1f}" in report
    assert "Selected by" not in report
    assert mx.species.load_model(out / "model.json").selection is None


@pytest.mark.parametrize("wrong", ["aic", "vif=0.5", "vif=x", "forward=3", "vif="])
def test_rules_that_are_not_known(run, wrong):
    done = run("fit", "records.csv", "layers", "--select", wrong)
    assert done.exit_code == 2
    assert "--select must be vif, vif=LIMIT" in " ".join(done.output.replace("│", " ").split())
