"""Tuning: statistics beside independent computation, rules, partitions, nulls, partial ROC."""

import csv
import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, evaluation, species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.fitting.tuning.choice import ranked
from maxent.species.fitting.tuning.partitions import partition
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

SMALL = ["-f", "l,lq", "-m", "1,4", "--background", "300"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    landscape = virtual_landscape(height=26, width=32, n_occurrences=40, n_group=100, seed=3)
    write_landscape(landscape, folder)
    lines = (folder / "occurrences.csv").read_text().splitlines()
    with_folds = [f"{line},{'abc'[i % 3]}" for i, line in enumerate(lines[1:])]
    (folder / "folds.csv").write_text("\n".join([f"{lines[0]},Deal", *with_folds]) + "\n")
    return folder


def _tune(run, data, out, *options, records="occurrences.csv"):
    args = ["tune", data / records, data / "layers", "-c", "biome", *SMALL, "-q", "-o", out]
    return run(*args, *options)


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _tables(out):
    return {path.stem.split("_", 2)[2]: _rows(path) for path in out.glob("*.csv")}


@pytest.fixture(scope="module")
def tuned(data, tmp_path_factory):
    """A comparison with null models and partial ROC, made once."""
    out = tmp_path_factory.mktemp("tuned") / "out"
    args = ["tune", data / "occurrences.csv", data / "layers", "-c", "biome", *SMALL]
    args += ["-o", out, "--null", "4", "--partial-roc", "40", "--scoring", "omission_10,auc"]
    done = CliRunner().invoke(cli.main, [str(a) for a in args])
    assert done.exit_code == 0, done.output
    return out, done.output


@pytest.fixture(scope="module")
def sample(data):
    """What the command fits, and all cells of the layers."""
    with species.Layers.open(data / "layers", categorical=["biome"]) as layers:
        records, _ = species.located(
            species.read_occurrences(data / "occurrences.csv"), layers.grid
        )
        settings = species.Settings(background=300, verbose=0)
        region = species.survey(layers, records, settings)
        ready = species.prepare(region, records, settings)
        block = next(layers.blocks(cells=10**9))
    return ready.train, block.frame()


# -- the table -----------------------------------------------------------------------------------


def test_aicc_is_that_of_the_study_area(tuned, sample):
    """ln L over all cells, not only over background; k weights that are not 0."""
    points, cells = sample
    table = _tables(tuned[0])["tuning"]
    expected = {}
    for row in table:
        model = mx.MaxentDensity(
            row["features"], multiplier=float(row["multiplier"]), categorical=["biome"]
        ).fit(points.X, points.counts)
        raw = model.predict(points.X[points.counts > 0]) / model.predict(cells).sum()
        k, n = len(model.coef_), int(points.counts.sum())
        assert int(row["n_weights"]) == k
        value = 2 * k - 2 * np.log(raw).sum() + 2 * k * (k + 1) / (n - k - 1)
        assert float(row["aicc"]) == pytest.approx(value, abs=1e-3)
        expected[row["rank"]] = value
    least = min(expected.values())
    weights = {rank: math.exp(-(v - least) / 2) for rank, v in expected.items()}
    for row in table:
        assert float(row["delta_aicc"]) == pytest.approx(expected[row["rank"]] - least, abs=2e-3)
        share = weights[row["rank"]] / sum(weights.values())
        assert float(row["aicc_weight"]) == pytest.approx(share, abs=2e-3)


def test_statistics_of_the_folds(tuned, sample):
    """Refits by the estimator on the rows of each block, scored by scikit-learn and by hand."""
    points, _ = sample
    blocks = evaluation.SpatialBlocks(points.coordinates, n_splits=4)
    presence, with_all = points.counts > 0, points.at_background
    tables = _tables(tuned[0])
    for number, (train, test) in enumerate(blocks.split(None, points.counts)):
        for row in tables["folds"]:
            if row["fold"] != f"block {number + 1}":
                continue
            model = mx.MaxentDensity(
                row["features"], multiplier=float(row["multiplier"]), categorical=["biome"]
            )
            model.fit(points.X.iloc[train], points.counts[train])
            raw = model.predict(points.X)
            held = np.isin(np.arange(presence.size), test) & presence
            kept = presence & ~held
            for name, mine in (("test_auc", held), ("train_auc", kept)):
                label = np.repeat([1, 0], [mine.sum(), with_all.sum()])
                auc = roc_auc_score(label, np.concatenate([raw[mine], raw[with_all]]))
                assert float(row[name]) == pytest.approx(auc, abs=2e-3)
            assert float(row["auc_difference"]) == pytest.approx(
                abs(float(row["train_auc"]) - float(row["test_auc"]))
            )
            log = np.log(raw[held] / raw.sum()).mean()
            assert float(row["test_log_density"]) == pytest.approx(log, abs=2e-3)
            below = (raw[held] < raw[kept].min()).mean()
            assert float(row["omission_minimum"]) == pytest.approx(below, abs=1e-9)
            predicted = model.predict(points.X, output="cloglog")
            boyce = evaluation.boyce(predicted[held], predicted[with_all]).index
            assert float(row["test_boyce"]) == pytest.approx(boyce, abs=0.05)
    for row in tables["tuning"]:
        mine = [r for r in tables["folds"] if r["rank"] == row["rank"]]
        for name in ("test_auc", "omission_10_percentile", "partial_roc"):
            values = [float(r[name]) for r in mine]
            assert float(row[name]) == pytest.approx(np.mean(values))
            assert float(row[f"{name}_sd"]) == pytest.approx(np.std(values, ddof=1))


def test_the_rule_and_the_page(tuned):
    out, printed = tuned
    table = _tables(out)["tuning"]
    keys = [(float(r["omission_10_percentile"]), -float(r["test_auc"])) for r in table]
    assert keys == sorted(keys)
    (page,) = out.glob("*_tuning.html")
    text = page.read_text(encoding="utf-8")
    for words in (
        "the lowest omission, 10 %, then the highest AUC, test",
        "Null models",
        "Partial ROC",
        'id="folds"',
        "_null_test.csv",
    ):
        assert words in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert f"-f {table[0]['features']} -m {float(table[0]['multiplier']):g}" in " ".join(
        printed.split()
    )


def test_background_of_the_partition(run, data, tmp_path, sample):
    done = _tune(run, data, tmp_path / "out", "--validation-background", "partition")
    assert done.exit_code == 0, done.output
    points, _ = sample
    row = _tables(tmp_path / "out")["folds"][0]
    blocks = evaluation.SpatialBlocks(points.coordinates, n_splits=4)
    train, test = next(blocks.split(None, points.counts))
    model = mx.MaxentDensity(
        row["features"], multiplier=float(row["multiplier"]), categorical=["biome"]
    ).fit(points.X.iloc[train], points.counts[train])
    raw, own = model.predict(points.X.iloc[test]), points.at_background[test]
    auc = evaluation.auc(raw[points.counts[test] > 0], raw[own])
    assert float(row["test_auc"]) == pytest.approx(auc, abs=2e-3)


# -- partitions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "folds"),
    [
        (["--partition", "blocks", "--folds", "3"], 3),
        (["--partition", "checkerboard"], 2),
        (["--partition", "checkerboard2", "--squares", "4"], 4),
        (["--partition", "random", "--folds", "5"], 5),
        (["--partition-column", "deal"], 3),
    ],
)
def test_partitions(run, data, tmp_path, options, folds):
    out = tmp_path / "out"
    done = _tune(run, data, out, *options, records="folds.csv")
    assert done.exit_code == 0, done.output
    tables = _tables(out)
    assert {int(row["n_folds"]) for row in tables["tuning"]} == {folds}
    assert len(tables["folds"]) == folds * len(tables["tuning"])


def test_a_column_deals_as_it_says(data, sample):
    points, _ = sample
    labels = np.array(list("xyz") * 40, dtype=object)[: int((points.counts > 0).sum())]
    folds = partition(points, species.TuningSettings(), labels=labels)
    rows = np.flatnonzero(points.counts > 0)
    assert [fold.name for fold in folds] == ["fold x", "fold y", "fold z"]
    assert np.array_equal(np.flatnonzero(folds[1].test), rows[1::3])
    counts, domain = folds[1].training(points)
    assert counts.sum() == points.counts.sum() - points.counts[folds[1].test].sum()
    assert domain[points.at_background].all()


def test_the_jackknife_holds_out_each_record(sample):
    points, _ = sample
    folds = partition(points, species.TuningSettings(partition="jackknife"))
    held = np.array([fold.test for fold in folds])
    assert np.array_equal(held.sum(axis=1), np.ones(len(folds)))
    assert np.array_equal(held.any(axis=0), points.counts > 0)


def test_squares_are_so_many_cells_wide(sample):
    points, _ = sample
    cell = 0.5, 0.5
    settings = species.TuningSettings(partition="checkerboard", squares=6)
    folds = partition(points, settings, cell_size=cell)
    low = points.coordinates.min(axis=0)
    place = np.floor((points.coordinates - low) / (6 * 0.5) + 1e-9).astype(int).sum(axis=1) % 2
    assert np.array_equal(folds[1].block, place == 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--partition", "jackknife", "--folds", "3"], "--folds has no effect on jackknife"),
        (["--squares", "3"], "--squares has no effect on blocks"),
        (["--partition", "random", "--partition-column", "deal"], "both name folds"),
        (["--partition", "random", "--validation-background", "partition"], "needs blocks"),
        (["--scoring", "kappa"], "--scoring must name log_loss, auc"),
        (["--scoring", "auc:2,boyce"], "--scoring by weights needs one for each part"),
        (["--scoring", "auc:-1"], "--scoring takes positive weights"),
        (["--scoring", "partial_roc"], "needs --partial-roc"),
        (["--partial-roc", "100"], "--partial-roc is a percentage"),
        (["--partial-roc", "0"], "at 0 no map could be worse than chance"),
    ],
)
def test_wrong_usage(run, data, tmp_path, options, says):
    done = _tune(run, data, tmp_path / "out", *options, records="folds.csv")
    assert done.exit_code == 2, done.output
    assert says in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("column", "says"),
    [("fold", "no column 'fold'; it has scientificName, "), ("half", "no fold is given there")],
)
def test_bad_columns(run, data, tmp_path, column, says):
    lines = (data / "folds.csv").read_text().splitlines()
    filled = [f"{line},{'a' if i < 20 else ''}" for i, line in enumerate(lines[1:])]
    (tmp_path / "half.csv").write_text("\n".join([f"{lines[0]},half", *filled]) + "\n")
    done = run(
        *("tune", tmp_path / "half.csv", data / "layers", "-c", "biome", *SMALL),
        *("-o", tmp_path / "out", "--partition-column", column),
    )
    assert done.exit_code == 1
    assert says in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


# -- rules ---------------------------------------------------------------------------------------


def _candidate(**values):
    start = {"multiplier": 1.0, "n_weights": 5, "test_auc": 0.8, "test_boyce": 0.5}
    return start | {"omission_10_percentile": 0.1, "aicc": math.nan} | values


def test_rules_in_turn_and_weighted():
    rows = [
        _candidate(name="a", omission_10_percentile=0.1, test_auc=0.7),
        _candidate(name="b", omission_10_percentile=0.1 + 1e-14, test_auc=0.9),
        _candidate(name="c", omission_10_percentile=0.3, test_auc=0.95, aicc=10.0),
        _candidate(name="d", omission_10_percentile=0.1, test_auc=0.9, n_weights=3),
    ]

    def order(scoring):
        best = ranked(rows, species.TuningSettings(scoring=scoring))
        assert [row["rank"] for row in best] == [1, 2, 3, 4]
        return "".join(row["name"] for row in best)

    assert order("omission_10,auc") == "dbac"  # rounding is no difference, fewer weights are
    assert order("auc") == "cdba"
    assert order("aicc")[0] == "c"  # the others have none
    weighted = ranked(rows, species.TuningSettings(scoring="auc:1,omission_10:3"))
    scores = {row["name"]: row["weighted_score"] for row in weighted}
    assert scores["b"] == pytest.approx((0.8 + 3) / 4)
    assert scores["c"] == pytest.approx(1 / 4)
    with pytest.raises(ValueError, match="no candidate has a value"):
        ranked(rows[:2], species.TuningSettings(scoring="aicc"))


# -- null models -----------------------------------------------------------------------------------


def test_null_models_are_summed_up(tuned):
    tables = _tables(tuned[0])
    drawn, best = tables["null_models"], tables["tuning"][0]
    assert len(drawn) == 4
    for row in tables["null_test"]:
        values = np.array([float(one[row["statistic"]]) for one in drawn])
        value = float(best[row["statistic"]])
        assert float(row["value"]) == pytest.approx(value)
        assert float(row["null_mean"]) == pytest.approx(values.mean())
        if values.std() == 0:
            continue
        z = (value - values.mean()) / values.std(ddof=1)
        assert float(row["z"]) == pytest.approx(z)
        low = row["statistic"].startswith(("omission", "auc_difference"))
        assert float(row["p_value"]) == pytest.approx(norm.cdf(z) if low else norm.sf(z))
    auc = next(row for row in tables["null_test"] if row["statistic"] == "test_auc")
    assert float(auc["z"]) > 0  # the records are not random places


@pytest.mark.parametrize("kind", ["blocks", "random"])
def test_null_records_are_as_many_and_in_place(sample, kind, monkeypatch):
    from maxent.species.fitting.tuning import candidates, nulls

    points, _ = sample
    settings = species.TuningSettings(partition=kind, null=1)
    folds = partition(points, settings)
    trial = candidates.Trial.from_sample(points, settings, folds, ["biome"], None)
    seen = []
    kept = candidates.Trial.along

    def along(self, features, potential, multipliers, counts, domain, tol):
        seen.append(counts)
        return kept(self, features, potential, multipliers, counts, domain, tol)

    monkeypatch.setattr(candidates.Trial, "along", along)
    chosen = {"features": "l", "potential": "box", "multiplier": 2.0}
    chosen |= dict.fromkeys(nulls.COMPARED, 0.5)
    nulls.null_models(trial, chosen, 1, seed=5)
    whole, *parts = seen
    assert whole.sum() == points.counts.sum()
    assert not np.array_equal(whole, points.counts)
    for fold, part in zip(folds, parts, strict=True):
        held = whole - part
        assert held.sum() == points.counts[fold.test].sum()
        if fold.block is not None:
            assert not held[~fold.block].any()


# -- partial ROC -----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [0.0, 0.05, 0.25])
def test_partial_roc_integrates_the_curve(error):
    """Beside a fine numerical integral of the step curve of the same resamples."""
    rng = np.random.default_rng(1)
    presence, background = rng.normal(0.7, 1, 30), rng.normal(0, 1, 400)
    test = evaluation.partial_roc(presence, background, error, repeats=6, seed=2)
    draws = np.random.default_rng(2).integers(30, size=(6, 15))
    a = (np.arange(200_000) + 0.5) / 200_000
    for ratio, draw in zip(test.ratios, draws, strict=True):
        needed = np.array([(background >= p).mean() for p in presence[draw]])
        y = np.searchsorted(np.sort(needed), a, "right") / 15
        part = y > 1 - error + 1e-12 if error else y >= 1
        assert ratio == pytest.approx(y[part].mean() / a[part].mean(), rel=1e-3)
    if 15 * error > 1:
        assert test.ratio == pytest.approx(test.ratios.mean())
        assert test.p_value == (1 + (test.ratios <= 1).sum()) / (1 + 6)
    else:  # none may be omitted: the curve is 1 throughout
        assert (test.ratios > 1).all()
        assert np.isnan([test.ratio, test.p_value]).all()


def test_partial_roc_of_a_random_map_is_one():
    rng = np.random.default_rng(0)
    test = evaluation.partial_roc(rng.random(4000), rng.random(4000), 0.05, repeats=20)
    assert test.ratio == pytest.approx(1, abs=0.03)
    with pytest.raises(ValueError, match="error"):
        evaluation.partial_roc([1.0], [0.0], error=1.0)


@pytest.mark.parametrize(("error", "share"), [(0.05, 0.5), (0.1, 0.5), (0.3, 0.5), (0.05, 1.0)])
def test_partial_roc_needs_enough_records(error, share):
    """The worst of all maps: every record below all of the background."""
    fewest = evaluation.fewest_presences(error, share)
    background = np.linspace(0.5, 1, 50)
    for n, told in ((1, False), (fewest - 1, False), (fewest, True)):
        # one record or two below the background, the others amid it
        worst = np.append(np.full(max(n - 2, 0), 0.51), [0.4, 0.4][: min(n, 2)])
        test = evaluation.partial_roc(worst, background, error, share, repeats=40)
        assert np.isfinite([test.ratio, test.p_value]).all() == told
        known = test.ratios[np.isfinite(test.ratios)]
        assert told or (known >= 1).all()  # even so
    assert (known < 1).any()
    assert math.ceil(share * fewest) * error > 1 >= math.ceil(share * (fewest - 1)) * error - 1e-9


def test_a_p_value_is_never_zero():
    test = evaluation.partial_roc(np.full(60, 0.9), np.linspace(0, 1, 300), repeats=99)
    assert (test.ratios > 1).all()
    assert test.p_value == 1 / 100


def test_small_folds_have_no_partial_roc(run, data, tmp_path):
    args = ["tune", data / "occurrences.csv", data / "layers", "-f", "l", "-m", "1"]
    done = run(*args, "--background", "300", "--partial-roc", "5", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    tables = _tables(tmp_path / "out")
    for row in (*tables["tuning"], *tables["folds"]):
        assert np.isnan([float(row["partial_roc"]), float(row["partial_roc_p"])]).all()
    words = "4 of 4 folds have no partial ROC: at 5 % omission it needs 41 records in a fold"
    assert words in " ".join(done.output.split())
    (page,) = (tmp_path / "out").glob("*_tuning.html")
    assert words in page.read_text(encoding="utf-8")
    done = _tune(run, data, tmp_path / "o", "--partial-roc", "5", "--scoring", "partial_roc")
    assert done.exit_code != 0
    assert "more records in a fold" in " ".join(done.output.split())
