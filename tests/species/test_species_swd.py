"""Samples with data through the command: words as categories, no coordinates, options."""

import numpy as np
import pytest

import maxent as mx
from maxent import species
from tools import needs

pd = needs("pandas")
needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
SOILS = np.array(["clay", "sand", "é, loam"], dtype=object)


def _rows(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    rain, heat = rng.normal(shift, 1, n), rng.normal(size=n)
    soil = SOILS[np.searchsorted([0.3, 0.8], rng.random(n) + 0.2 * shift)]
    return pd.DataFrame({"rain": rain, "heat": heat, "soil": soil})


@pytest.fixture
def tables(tmp_path):
    """Samples of two species and a background, with places and a category in words."""
    samples = pd.concat([_rows(30, 1, 1.0), _rows(20, 2)], ignore_index=True)
    names = np.repeat(["Aa bb", "Cc dd"], [30, 20])
    places = np.random.default_rng(3).uniform(0, 9, (50, 2))
    background = _rows(200, 4)
    species.write_swd(tmp_path / "s.csv", names, places, samples)
    spread = np.random.default_rng(5).uniform(0, 9, (200, 2))
    species.write_swd(tmp_path / "b.csv", ["background"] * 200, spread, background)
    return tmp_path / "s.csv", tmp_path / "b.csv", samples[:30], background


def test_a_category_in_words_is_fitted_saved_and_loaded(tables, run, tmp_path):
    samples, background, present, points = tables
    out = tmp_path / "out"
    args = ["-c", "soil", "-s", "Aa bb", "--bootstrap", "2", "--permutations", "2", "-f", "lq"]
    result = run("fit", "--swd", samples, background, *args, "-o", out)
    assert result.exit_code == 0, result.output
    assert "coordinates from 'x' and 'y', variables 'rain', 'heat', 'soil'" in result.output
    loaded = mx.load(out / "result.json")
    X = pd.concat([points, present], ignore_index=True)
    counts = np.repeat([0.0, 1.0], [200, 30])
    direct = mx.MaxentDensity("lqc", categorical=["soil"]).fit(X, counts)
    assert loaded.model.certificate.gain == pytest.approx(direct.gain_, abs=1e-6)
    np.testing.assert_allclose(
        species.load_model(out).density.predict(X), direct.predict(X), rtol=1e-3
    )
    (curve,) = [r for r in loaded.responses if (r.variable, r.kind) == ("soil", "marginal")]
    assert curve.x.tolist() == sorted(SOILS)
    assert loaded.evaluation.scores["auc"] > 0.6
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "é, loam" in page
    assert run("report", out).exit_code == 0


def test_a_table_without_coordinates_keeps_all_its_variables(run, tmp_path):
    for name, rows in (("s", _rows(25, 1, 1.0)), ("b", _rows(120, 2))):
        label = "Aa bb" if name == "s" else "background"
        rows.drop(columns="soil").assign(wet=rows.rain**2).to_csv(tmp_path / f"{name}.csv")
        text = (tmp_path / f"{name}.csv").read_text().splitlines()
        named = [f"{label},{line.split(',', 1)[1]}" for line in text[1:]]
        (tmp_path / f"{name}.csv").write_text("\n".join(["species,rain,heat,wet", *named]))
    result = run(
        "fit", "--swd", tmp_path / "s.csv", tmp_path / "b.csv", *FAST, "-o", tmp_path / "o"
    )
    assert result.exit_code == 0, result.output
    assert "no coordinates (name them with --x and --y), variables 'rain', 'heat', 'wet'" in (
        result.output
    )
    assert species.load_model(tmp_path / "o").density.schema.names == ("rain", "heat", "wet")


@pytest.mark.parametrize(
    "typed",
    [
        ("--bias", "effort.tif"),
        ("--bias-as", "prior"),
        ("--thin", "5"),
        ("--background", "500"),
        ("--target-group",),
        ("--background-records", "group.csv"),
        ("--keep-duplicates",),
        ("--crs", "EPSG:4326"),
        ("--align", "first"),
        ("--resampling", "nearest"),
        ("--layers-crs", "EPSG:4326"),
        ("--output", "raw"),
        ("--no-clamp",),
        ("--threshold", "0.5"),
        ("--no-maps",),
        ("--basis", "FOSSIL"),
        ("--max-uncertainty", "500"),
    ],
)
def test_options_without_effect_are_wrong_usage(typed, tables, run, tmp_path):
    samples, background, *_ = tables
    result = run("fit", "--swd", samples, background, "-c", "soil", *typed, "-o", tmp_path / "out")
    assert result.exit_code == 2
    words = " ".join(result.output.replace("│", " ").split())
    assert f"{typed[0].replace('--no-', '--')} " in words
    assert "has no effect with --swd" in words
    assert not (tmp_path / "out").exists()


def test_options_that_work_there(tables, run, tmp_path):
    samples, background, *_ = tables
    base = ["fit", "--swd", samples, background, "-c", "soil", *FAST]
    held = run(*base, "-s", "aa_bb", "--test-share", "0.2", "-o", tmp_path / "held")
    assert held.exit_code == 0, held.output
    result = mx.load(tmp_path / "held" / "result.json")
    assert (result.model.n_presences, int(result.records["test"].sum())) == (24, 6)
    assert result.evaluation.test_scores is not None
    tested = run(*base, "--test", samples, "-o", tmp_path / "tested", "-s", "Aa bb")
    assert tested.exit_code == 0, tested.output
    scores = mx.load(tmp_path / "tested" / "result.json").evaluation
    assert scores.test_scores["auc"] == pytest.approx(scores.scores["auc"], abs=0.02)
    few = run(*base, "--minimum", "25", "-o", tmp_path / "few")
    assert few.exit_code == 3
    assert "Cc dd: 20 rows to fit (0 for testing), at least 25 are needed" in few.output
    renamed = tmp_path / "renamed.csv"
    text = samples.read_text(encoding="utf-8").replace("species,x,y", "rank,e,n", 1)
    renamed.write_text(text, encoding="utf-8")
    other = tmp_path / "other.csv"
    text = background.read_text(encoding="utf-8").replace("species,x,y", "rank,e,n", 1)
    other.write_text(text, encoding="utf-8")
    base = ["fit", "--swd", renamed, other, "-c", "soil", *FAST, "-s", "Aa bb"]
    named = run(*base, "--species-column", "rank", "--x", "e", "--y", "n", "-o", tmp_path / "named")
    assert named.exit_code == 0, named.output
    assert set(mx.load(tmp_path / "named" / "result.json").layers) == {"rain", "heat", "soil"}


def test_absences_of_a_table_are_no_presences(tables, run, tmp_path):
    samples, background, *_ = tables
    table = pd.read_csv(samples).assign(pr_ab=np.arange(50) % 2)
    table.to_csv(tmp_path / "pa.csv", index=False)
    args = ["-c", "soil", *FAST, "-s", "Aa bb", "-o", tmp_path / "out"]
    result = run("fit", "--swd", tmp_path / "pa.csv", background, *args)
    assert result.exit_code == 0, result.output
    assert "25 of 50 records left out as absences, by column 'pr_ab'" in result.output
    model = species.load_model(tmp_path / "out").density
    assert (model.n_presences, model.schema.names) == (15, ("rain", "heat", "soil"))


# -- evaluate and project --------------------------------------------------------------------------


@pytest.fixture
def fitted(tables, run, tmp_path):
    samples, background, *_ = tables
    args = ["-c", "soil", *FAST, "-s", "Aa bb", "-o", tmp_path / "out"]
    result = run("fit", "--swd", samples, background, *args)
    assert result.exit_code == 0, result.output
    return species.load_model(tmp_path / "out")


def test_evaluating_on_tables(tables, fitted, run, tmp_path):
    samples, background, present, points = tables
    out = tmp_path / "scores.csv"
    result = run("evaluate", tmp_path / "out", samples, background, "--swd", "-o", out)
    assert result.exit_code == 0, result.output
    row = pd.read_csv(out).iloc[0]
    inside, other = (fitted.density.predict(X, "cloglog") for X in (present, points))
    assert row["auc"] == pytest.approx(mx.evaluation.auc(inside, other), abs=1e-12)
    assert (row["n_presences"], row["n_background"]) == (30, 200)
    alone = run("evaluate", tmp_path / "out", samples, "--swd")
    assert alone.exit_code == 1
    assert "no absences to compare with" in alone.output
    refused = run("evaluate", tmp_path / "out", samples, background, "--swd", "--background", "9")
    assert refused.exit_code == 2
    assert "--background has no effect with --swd" in " ".join(refused.output.split())


def test_calibration_against_absences(tables, fitted, run, tmp_path):
    linear_model, metrics = needs("sklearn.linear_model"), needs("sklearn.metrics")
    samples, *_ = tables
    rows = pd.read_csv(samples)[:30].assign(pr_ab=np.arange(30) % 3 > 0)
    rows.pr_ab = rows.pr_ab.astype(int)
    rows.to_csv(tmp_path / "pa.csv", index=False)
    out = tmp_path / "scores.csv"
    result = run("evaluate", tmp_path / "out", tmp_path / "pa.csv", "--swd", "-o", out)
    assert result.exit_code == 0, result.output
    assert "calibration: presences by predicted probability" in result.output
    scores = pd.read_csv(out).iloc[0]
    assert (scores["n_presences"], scores["n_absences"]) == (20, 10)
    p = fitted.density.predict(rows[["rain", "heat", "soil"]], "cloglog")
    assert scores["brier"] == pytest.approx(metrics.brier_score_loss(rows.pr_ab, p), rel=1e-9)
    assert scores["log_loss"] == pytest.approx(metrics.log_loss(rows.pr_ab, p), rel=1e-9)
    line = linear_model.LogisticRegression(C=1e20, tol=1e-10).fit(
        np.log(p / (1 - p))[:, None], rows.pr_ab
    )
    assert scores["calibration_slope"] == pytest.approx(line.coef_[0, 0], rel=1e-4)
    assert scores["calibration_intercept"] == pytest.approx(line.intercept_[0], rel=1e-4)
    curve = pd.read_csv(tmp_path / "scores_calibration.csv")
    assert curve.n.sum() == 30
    assert (curve.observed * curve.n).sum() == pytest.approx(20)
    assert (curve.predicted * curve.n).sum() == pytest.approx(p.sum(), rel=1e-9)
    again = run("evaluate", tmp_path / "out", tmp_path / "pa.csv", "--swd", "-o", out)
    assert again.exit_code == 1


def test_calibration_in_limit_cases():
    stats = needs("scipy.stats")
    told = mx.evaluation.calibration([0.5, 0.5, 0.5], [0.5])
    assert (told.brier, told.observed.tolist(), told.n.tolist()) == (0.25, [0.75], [4])
    interval = stats.binomtest(3, 4).proportion_ci(method="wilson")
    np.testing.assert_allclose([told.low[0], told.high[0]], [interval.low, interval.high])
    assert np.isnan(told.slope)
    assert mx.evaluation.calibration([0.9, 1.0], [0.0, 0.1]).slope == np.inf
    with pytest.raises(ValueError, match="needs probabilities of presences and absences"):
        mx.evaluation.calibration([1.5], [0.2])


def test_projecting_to_a_table(tables, fitted, run, tmp_path):
    _, background, _, points = tables
    out = tmp_path / "predicted.csv"
    args = ["--output", "raw", "--output", "cloglog", "--threshold", "0.5"]
    result = run("project", tmp_path / "out", background, "--swd", *args, "-o", out)
    assert result.exit_code == 0, result.output
    written = pd.read_csv(out)
    names = ["row", "species", "x", "y", "raw", "cloglog", "presence", "mess", "mod", "exdet"]
    assert list(written.columns) == names
    for output in ("raw", "cloglog"):
        np.testing.assert_allclose(written[output], fitted.density.predict(points, output))
    assert (written.presence == (written.cloglog >= 0.5)).all()
    assert (written.mess >= 0).all()  # the environment of the fit itself
    for wrong in (["--align", "first", "-o", out], ["-o", tmp_path / "map.tif"]):
        assert run("project", tmp_path / "out", background, "--swd", *wrong).exit_code == 2
    lacking = pd.read_csv(background).drop(columns="heat")
    lacking.to_csv(tmp_path / "lacking.csv", index=False)
    result = run("project", tmp_path / "out", tmp_path / "lacking.csv", "--swd", "-o", out)
    assert result.exit_code == 1
    assert "--overwrite" in result.output
    result = run("project", tmp_path / "out", tmp_path / "lacking.csv", "--swd", "-o", out,
                 "--overwrite")  # fmt: skip
    assert "lacking.csv has no column 'heat', which the model needs" in result.output


def test_a_projected_table_can_be_joined_back(tables, fitted, run, tmp_path):
    """Every row and every column of the table, whatever they hold."""
    *_, points = tables
    sites = points.head(7).assign(
        plot=[f"P-{i}" for i in range(7)], cloglog="old", lon=[1.5, np.nan, *range(5)], lat=2.0
    )
    sites.loc[1, "rain"] = np.nan
    sites.loc[3, "heat"] = -9999
    sites.loc[5, "soil"] = ""
    columns = ["plot", "heat", "cloglog", "soil", "lon", "lat", "rain"]
    sites[columns].to_csv(tmp_path / "Orte übersicht.csv", index=False, sep=";")
    out = tmp_path / "predicted.csv"
    args = ["--threshold", "0.5", "--mask", "mess", "-o", out]
    result = run("project", tmp_path / "out", tmp_path / "Orte übersicht.csv", "--swd", *args)
    assert result.exit_code == 0, result.output
    assert "3 of 7 rows lack a variable; nothing is predicted there" in result.output
    assert "0 of 7 rows extrapolate" in result.output
    written = pd.read_csv(out)
    names = ["row", "x", "y", "plot", "given_cloglog", "cloglog", "presence", "mess", "mod"]
    assert list(written.columns) == [*names, "exdet"]
    assert written.row.tolist() == list(range(2, 9))
    assert written["plot"].tolist() == sites["plot"].tolist()
    assert (written.given_cloglog == "old").all()
    np.testing.assert_array_equal(written.x, sites.lon)
    lost = np.array([False, True, False, True, False, True, False])
    assert (written[["cloglog", "presence", "mess", "mod"]].isna().all(axis=1) == lost).all()
    expected = fitted.density.predict(points.head(7)[~lost], "cloglog")
    np.testing.assert_allclose(written.cloglog[~lost], expected)
    assert (written.presence[~lost] == (expected >= 0.5)).all()
    empty = tmp_path / "empty.csv"
    empty.write_text("rain,heat,soil\n1,,clay\n2,-9999,sand\n", encoding="utf-8")
    result = run("project", tmp_path / "out", empty, "--swd", "-o", tmp_path / "none.csv")
    assert result.exit_code == 1
    assert "the variable with the most gaps, which is 'heat'" in " ".join(result.output.split())


def _tables_at(folder, place, **columns):
    """Samples and background whose coordinates ``place`` gives for their number."""
    for name, rows in (("s", _rows(30, 1, 1.0)), ("b", _rows(120, 2))):
        made = rows.drop(columns="soil").assign(**place(len(rows)))
        made.insert(0, "species", "Aa bb" if name == "s" else "background")
        made.assign(**columns).to_csv(folder / f"{name}.csv", index=False)
    return folder / "s.csv", folder / "b.csv"


@pytest.mark.parametrize("spots", [0, 3])
def test_random_folds_stand_in_for_blocks(spots, run, tmp_path):
    """x = y = 0 throughout, as SWD tables have it, or records of three places alone."""

    def place(n):
        return {"x": np.arange(n) % spots if spots else 0, "y": 0}

    files = _tables_at(tmp_path, place)
    quick = [*FAST[:-2], "-o", tmp_path / "out"]
    result = run("fit", "--swd", *files, *quick)
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "cross-validation in random folds, not in spatial blocks: " in words
    result = mx.load(tmp_path / "out" / "result.json")
    (made,) = result.replicates
    assert (made.kind, [row["n_test"] for row in made.table]) == ("random", [8, 8, 7, 7])
    if spots:
        assert "30 records at 3 places cannot be cut into 4 blocks" in words
        assert len(result.records["x"]) == 30
    else:
        assert "s.csv: x and y are 0 in every row, so places are not used" in words
        assert len(result.records["x"]) == 0
    asked = run("fit", "--swd", *files, *FAST[:-2], "--cv", "blocks", "-o", tmp_path / "asked")
    assert asked.exit_code != 0  # what was asked for is not replaced


@pytest.mark.parametrize("typed", [(), ("--species-column", "none")])
def test_a_table_without_a_species_column(typed, run, tmp_path):
    rng = np.random.default_rng(0)
    samples, background = _tables_at(
        tmp_path, lambda n: dict(zip("xy", rng.random((2, n)), strict=True))
    )
    one = tmp_path / "Aus bus.csv"
    for path, target in ((samples, one), (background, background)):
        pd.read_csv(path).drop(columns="species").to_csv(target, index=False)
    # its test table has no such column either, or its column is not asked for
    test = ["--test", one if not typed else samples]
    args = ["fit", "--swd", one, background, *FAST, *typed, *test, "-o", tmp_path / "out"]
    if typed:
        pd.read_csv(samples).drop(columns="species").to_csv(samples, index=False)
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert "no test records" not in result.output
    assert mx.load(tmp_path / "out" / "result.json").evaluation.test_scores["n"] == 30
    assert "Aus bus.csv: 30 rows: all of one species, named after the file" in result.output
    model = species.load_model(tmp_path / "out")
    assert (model.species, model.density.n_presences) == ("Aus bus", 30)
    assert model.density.schema.names == ("rain", "heat")


def test_test_rows_without_names_beside_several_species_are_refused(run, tmp_path):
    rng = np.random.default_rng(0)
    samples, background = _tables_at(
        tmp_path, lambda n: dict(zip("xy", rng.random((2, n)), strict=True))
    )
    rows = pd.read_csv(samples)
    rows.drop(columns="species").to_csv(tmp_path / "new.csv", index=False)
    rows.assign(species=np.where(rows.index % 2, "Aa bb", "Cc dd")).to_csv(samples, index=False)
    args = ["fit", "--swd", samples, background, *FAST, "--test", tmp_path / "new.csv"]
    done = run(*args, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "new.csv (--test) has no column of species" in " ".join(done.output.split())
    alone = run(*args, "-s", "Cc dd", "-o", tmp_path / "alone")
    assert alone.exit_code == 0, alone.output
    assert mx.load(tmp_path / "alone" / "result.json").evaluation.test_scores["n"] == len(rows)
