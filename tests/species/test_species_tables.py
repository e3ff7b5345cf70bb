"""The tables of a fit: names as maxent.jar 3.4.4 writes them, values as the result has them."""

import csv
import math
from dataclasses import replace

import numpy as np
import pandas
import pytest

from maxent import MaxentDensity
from maxent.species.batch.slugs import slug, slugs
from maxent.species.fitting.results import (
    Evaluation,
    Importance,
    Jackknife,
    Replicates,
    Response,
    Sample,
    SpeciesResult,
)
from maxent.species.input.layers.grid import Grid
from maxent.species.judging import evaluate
from maxent.species.report.tables import results_row, results_rows, write_results, write_tables

VARIABLES = ("bio1", "eco")
GRID = Grid(None, (0.1, 0.0, 0.0, 0.0, -0.1, 2.0), width=20, height=20)
TESTED = {"#Test samples", "Test gain", "Test AUC", "AUC Standard Deviation"}

# read off a run of maxent.jar 3.4.4 with random test points and jackknife
JAR_SUMMARY = [
    "Species",
    "#Training samples",
    "Regularized training gain",
    "Unregularized training gain",
    "Iterations",
    "Training AUC",
    "#Test samples",
    "Test gain",
    "Test AUC",
    "AUC Standard Deviation",
    "#Background points",
    "bio1 contribution",
    "eco contribution",
    "bio1 permutation importance",
    "eco permutation importance",
    "Training gain without bio1",
    "Training gain without eco",
    "Training gain with only bio1",
    "Training gain with only eco",
    "Test gain without bio1",
    "Test gain without eco",
    "Test gain with only bio1",
    "Test gain with only eco",
    "AUC without bio1",
    "AUC without eco",
    "AUC with only bio1",
    "AUC with only eco",
    "Entropy",
    "Prevalence (average probability of presence over background sites)",
]
JAR_RULES = [
    "Fixed cumulative value 1",
    "Fixed cumulative value 5",
    "Fixed cumulative value 10",
    "Minimum training presence",
    "10 percentile training presence",
    "Equal training sensitivity and specificity",
    "Maximum training sensitivity plus specificity",
    "Equal test sensitivity and specificity",
    "Maximum test sensitivity plus specificity",
    "Balance training omission, predicted area and threshold value",
    "Equate entropy of thresholded and original distributions",
]
JAR_OF_A_RULE = [
    "cumulative threshold",
    "Cloglog threshold",
    "area",
    "training omission",
    "test omission",
    "binomial probability",
]
JAR_COLUMNS = JAR_SUMMARY + [f"{rule} {what}" for rule in JAR_RULES for what in JAR_OF_A_RULE]


@pytest.fixture(scope="module")
def data():
    """One cell in each row of a grid's 400; two test records share a cell."""
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {"bio1": rng.uniform(size=GRID.size), "eco": rng.integers(1, 5, size=GRID.size)}
    )
    p = np.exp(3 * X["bio1"].to_numpy()) * np.where(X["eco"] == 2, 3.0, 1.0)
    places = np.column_stack(GRID.centres(np.arange(GRID.size)))
    train = rng.multinomial(40, p / p.sum())
    test = rng.multinomial(15, p / p.sum())
    test[np.flatnonzero(test)[0]] += 1
    background = np.ones(GRID.size, bool)
    sample = Sample(X, train, places, background=background)
    return sample, Sample(X, test, places, background=~background)


@pytest.fixture(scope="module")
def model(data):
    sample, _ = data
    return MaxentDensity(categorical=["eco"], verbose=0).fit(sample.X, sample.counts)


def records(sample, test):
    """Records off the middle of their cells."""
    rng = np.random.default_rng(1)
    parts = [np.repeat(part.coordinates, part.counts, axis=0) for part in (sample, test)]
    held = np.repeat([False, True], [len(part) for part in parts])
    places = np.concatenate(parts) + rng.uniform(-0.04, 0.04, size=(held.size, 2))
    order = rng.permutation(held.size)
    return {"x": places[order, 0], "y": places[order, 1], "test": held[order]}


@pytest.fixture(scope="module")
def result(data, model):
    sample, test = data
    rng = np.random.default_rng(2)
    score = {"all": 0.7, "only": rng.uniform(size=2), "without": rng.uniform(size=2)}
    scores = {
        key: {k: v + i for k, v in score.items()}
        for i, key in enumerate(("train_gain", "auc", "test_gain", "test_auc"))
    }
    return SpeciesResult(
        species="Ñandú (Rhea) americana, ssp. x",
        model=model,
        settings={},
        command="",
        created="",
        version="",
        layers={name: name for name in VARIABLES},
        categorical=("eco",),
        grid=GRID,
        records=records(sample, test),
        n_background=400,
        cleaning=[],
        notes=[],
        evaluation=evaluate(model, sample, test),
        replicates=[],
        importance=Importance(VARIABLES, *rng.uniform(size=(5, 2))),
        jackknife=Jackknife(VARIABLES, scores),
        responses=[
            Response("bio1", "marginal", False, *rng.uniform(size=(4, 7))),
            Response("eco", "single", True, np.array([1, 2, 3, 4]), rng.uniform(size=4)),
        ],
        maps=[],
        tables={},
        bound="",
        seconds={"fit": 0.25, "evaluation": 0.5},
    )


def replicated(kind, n=3):
    rng = np.random.default_rng(n)
    names = ("train_auc", "test_auc", "auc_difference", "test_gain", "boyce")
    names += ("omission_minimum", "omission_10_percentile", "gain", "gap")
    table = [
        {"name": f"fold {i + 1}", "n_train": 30 + i, "n_test": 10}
        | dict(zip(names, rng.uniform(size=len(names)), strict=True))
        for i in range(n)
    ]
    table[1]["boyce"] = math.nan
    table[1]["error"] = "too few"
    return Replicates(kind, table)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def assert_same(text, value):
    """What stands in a file is the value, to ten digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        assert text == ""
    elif isinstance(value, str):
        assert text == value
    else:
        assert float(text) == pytest.approx(float(value), rel=1e-9, abs=1e-300)


# -- maxentResults.csv ---------------------------------------------------------------------------


def test_columns_begin_with_those_of_the_jar(result):
    assert list(results_row(result))[: len(JAR_COLUMNS)] == JAR_COLUMNS


def test_columns_without_test_records_are_those_of_the_jar(data, model, result):
    sample, _ = data
    gains = {"train_gain": result.jackknife.scores["train_gain"]}
    alone = replace(
        result, evaluation=evaluate(model, sample), jackknife=Jackknife(VARIABLES, gains)
    )
    untested = [
        name
        for name in JAR_COLUMNS
        if name not in TESTED
        and not name.startswith(("Test gain", "AUC with", "Equal test", "Maximum test"))
        and not name.endswith(("test omission", "binomial probability"))
    ]
    assert list(results_row(alone))[: len(untested)] == untested


def test_values_of_the_row(data, result, tmp_path):
    sample, test = data
    assert write_tables(result, sample, test, tmp_path)["results"] == "maxentResults.csv"
    (row,) = read(tmp_path / "maxentResults.csv")
    model, scores = result.model, result.evaluation.scores
    tests, jackknife = result.evaluation.test_scores, result.jackknife.scores
    expected = {
        "Species": result.species,
        "#Training samples": 40,
        "Regularized training gain": model.certificate.gain,
        "Unregularized training gain": model.certificate.unregularized_gain,
        "Iterations": model.certificate.n_iter,
        "Training AUC": scores["auc"],
        "#Test samples": 16,
        "Test gain": tests["gain"],
        "Test AUC": tests["auc"],
        "AUC Standard Deviation": tests["auc_sd"],
        "#Background points": 400,
        "Entropy": model.raw_entropy,
        "Prevalence (average probability of presence over background sites)": model.predict(
            sample.X, "cloglog"
        ).mean(),
        "Training AUC standard deviation": scores["auc_sd"],
        "Training Boyce index": scores["boyce"],
        "Training maximum TSS": scores["max_tss"],
        "Training maximum TSS Cloglog threshold": scores["tss_threshold"],
        "Training log loss": scores["log_loss"],
        "AICc": scores["aicc"],
        "Nonzero weights": len(model.coef),
        "AUC expected if the model is right": scores["max_auc"],
        "Test Boyce index": tests["boyce"],
        "Test maximum TSS": tests["max_tss"],
        "Test maximum TSS Cloglog threshold": tests["tss_threshold"],
        "Test log loss": tests["log_loss"],
        "Duality gap": model.certificate.gap,
        "Seconds": 0.75,
    }
    titles = {"train_gain": "Training gain", "test_gain": "Test gain", "test_auc": "AUC"}
    for i, name in enumerate(VARIABLES):
        expected[f"{name} contribution"] = result.importance.contribution[i]
        expected[f"{name} permutation importance"] = result.importance.permutation[i]
        for key, title in (titles | {"auc": "Training AUC"}).items():
            expected[f"{title} without {name}"] = jackknife[key]["without"][i]
            expected[f"{title} with only {name}"] = jackknife[key]["only"][i]
    for rule in result.evaluation.thresholds:
        keys = ("cumulative", "value", "area", "training_omission", "test_omission", "p_value")
        for key, title in zip(keys, JAR_OF_A_RULE, strict=True):
            expected[f"{rule['name']} {title}"] = rule[key]
    assert set(row) == set(expected)
    for name, value in expected.items():
        assert_same(row[name], value)


def test_replicates_are_rows_and_so_is_their_average(data, result, model, tmp_path):
    sample, _ = data
    part = replicated("random")
    alone = replace(result, evaluation=evaluate(model, sample), replicates=[part])
    files = write_tables(alone, sample, None, tmp_path)
    rows = read(tmp_path / files["results"])
    name = result.species
    assert [row["Species"] for row in rows] == [
        name,
        *(f"{name}_{i}" for i in range(3)),
        f"{name} (average)",
    ]
    columns = {
        "#Training samples": "n_train",
        "Regularized training gain": "gain",
        "Training AUC": "train_auc",
        "#Test samples": "n_test",
        "Test gain": "test_gain",
        "Test AUC": "test_auc",
        "Minimum training presence test omission": "omission_minimum",
        "10 percentile training presence test omission": "omission_10_percentile",
        "Test Boyce index": "boyce",
        "AUC difference": "auc_difference",
        "Duality gap": "gap",
    }
    for column, key in columns.items():
        values = [entry[key] for entry in part.table]
        for row, value in zip(rows[1:4], values, strict=True):
            assert_same(row[column], value)
        assert_same(rows[4][column], np.nanmean(values))
    assert rows[0]["Test AUC"] == ""
    assert rows[1]["Entropy"] == ""
    jar = [name for name in rows[0] if name in JAR_COLUMNS]
    assert jar == [name for name in JAR_COLUMNS if name in jar]  # in the order of the jar
    table = read(tmp_path / files["replicates"])
    assert list(table[0]) == ["kind", *part.table[0], "error"]
    for row, entry in zip(table, part.table, strict=True):
        assert row["kind"] == "random"
        for key in part.table[1]:
            assert_same(row[key], entry.get(key))


def test_replicates_of_two_kinds_are_told_apart(result):
    twice = replace(result, replicates=[replicated("blocks", 2), replicated("bootstrap")])
    name = result.species
    assert [row["Species"] for row in results_rows(twice)] == [
        name,
        f"{name}_blocks_0",
        f"{name}_blocks_1",
        f"{name} (blocks average)",
        *(f"{name}_bootstrap_{i}" for i in range(3)),
        f"{name} (bootstrap average)",
    ]


def test_an_average_of_nothing_is_empty(result):
    part = replicated("random", 2)
    for row in part.table:
        row["test_auc"] = math.nan
    rows = results_rows(replace(result, replicates=[part]))
    assert rows[-1]["Test AUC"] is None
    assert rows[-1]["Test gain"] == np.mean([row["test_gain"] for row in part.table])


def test_rows_of_several_species_have_the_union_of_columns(tmp_path):
    path = tmp_path / "all.csv"
    rows = [{"Species": "a", "x": 1 / 3}, {"Species": "é,\n", "y": None, "x": 2, "z": True}]
    write_results(rows, path)
    assert path.read_bytes().decode() == 'Species,x,y,z\na,0.3333333333,,\n"é,\n",2,,true\n'
    write_results([], path)
    assert read(path) == []


def test_a_failure_leaves_the_file_as_it_was(tmp_path):
    class Broken:
        def __str__(self):
            raise RuntimeError("no text")

    path = tmp_path / "all.csv"
    write_results([{"Species": "a"}], path)
    with pytest.raises(RuntimeError, match="no text"):
        write_results([{"Species": "b"}, {"Species": Broken()}], path)
    assert [row["Species"] for row in read(path)] == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["all.csv"]


# -- the other tables ----------------------------------------------------------------------------


def test_file_names(data, result, tmp_path):
    sample, test = data
    files = write_tables(replace(result, replicates=[replicated("blocks")]), sample, test, tmp_path)
    assert files == {
        "results": "maxentResults.csv",
        "omission": "Ñandú_Rhea_americana_ssp._x_omission.csv",
        "sample_predictions": "Ñandú_Rhea_americana_ssp._x_samplePredictions.csv",
        "sample_averages": "Ñandú_Rhea_americana_ssp._x_sampleAverages.csv",
        "thresholds": "thresholds.csv",
        "responses": "responses.csv",
        "importance": "importance.csv",
        "jackknife": "jackknife.csv",
        "replicates": "replicates.csv",
        "odmap": "odmap.csv",
        "coefficients": "coefficients.csv",
    }
    assert {path.name for path in tmp_path.iterdir()} == set(files.values())


def test_parts_left_out_have_no_file(data, result, tmp_path):
    sample, test = data
    bare = replace(result, importance=None, jackknife=None, responses=[])
    files = write_tables(bare, sample, test, tmp_path)
    assert set(files) == {
        "results",
        "omission",
        "sample_predictions",
        "sample_averages",
        "thresholds",
        "odmap",
        "coefficients",
    }


@pytest.mark.parametrize("tested", [True, False])
def test_omission(data, model, result, tmp_path, tested):
    sample, test = data if tested else (data[0], None)
    result = replace(result, evaluation=evaluate(model, sample, test))
    table = read(tmp_path / write_tables(result, sample, test, tmp_path)["omission"])
    keys = ("raw", "cumulative", "threshold", "area", "training_omission", "test_omission")
    header = "Raw value,Corresponding cumulative value,Corresponding Cloglog value,"
    header += "Fractional area,Training omission,Test omission"
    assert list(table[0]) == header.split(",")
    curve = result.evaluation.omission
    assert len(table) == curve["raw"].size > 100
    for i, row in enumerate(table):
        for key, text in zip(keys, row.values(), strict=True):
            assert_same(text, curve[key][i] if key in curve else None)
    assert (table[5]["Test omission"] != "") == tested


def test_sample_predictions_are_at_the_places_of_the_records(data, model, result, tmp_path):
    sample, test = data
    table = read(tmp_path / write_tables(result, sample, test, tmp_path)["sample_predictions"])
    header = "X,Y,Test or train,Raw prediction,Cumulative prediction,Cloglog prediction"
    assert list(table[0]) == header.split(",")
    held = result.records["test"]
    order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
    assert [row["Test or train"] for row in table] == ["train"] * 40 + ["test"] * 16
    x, y = result.records["x"][order], result.records["y"][order]
    X = sample.X.iloc[GRID.cells_at(x, y)]
    columns = [x, y, *(model.predict(X, output) for output in ("raw", "cumulative", "cloglog"))]
    names = [name for name in table[0] if name != "Test or train"]
    for name, values in zip(names, columns, strict=True):
        np.testing.assert_allclose([float(row[name]) for row in table], values, rtol=1e-9)


@pytest.mark.parametrize("where", ["no grid", "nowhere"])
def test_sample_predictions_without_records_on_a_grid(data, model, result, tmp_path, where):
    sample, _ = data
    result = replace(result, grid=None)
    if where == "nowhere":
        sample = replace(sample, coordinates=None)
    table = read(tmp_path / write_tables(result, sample, None, tmp_path)["sample_predictions"])
    row = np.repeat(np.arange(GRID.size), sample.counts)
    assert len(table) == 40
    for text, i in zip(table, row, strict=True):
        place = (None, None) if sample.coordinates is None else sample.coordinates[i]
        assert_same(text["X"], place[0])
        assert_same(text["Y"], place[1])
        assert_same(text["Raw prediction"], model.predict(sample.X.iloc[[i]])[0])


def test_sample_averages(data, result, tmp_path):
    sample, test = data
    table = read(tmp_path / write_tables(result, sample, test, tmp_path)["sample_averages"])
    seen = sample.X.loc[sample.X.index.repeat(sample.counts)]
    assert [row["Predictor variable"] for row in table] == list(VARIABLES)
    assert [row["Categorical"] for row in table] == ["false", "true"]
    assert_same(table[0]["Sample average"], seen["bio1"].mean())
    assert table[1]["Sample average"] == str(seen["eco"].mode()[0])


def test_sample_averages_of_names(data, model, result):
    from maxent.species.report.tables.fit_tables import _averages

    sample, _ = data
    names = sample.X.assign(eco=sample.X["eco"].map(dict(zip(range(1, 5), "dcba", strict=True))))
    seen = names.loc[names.index.repeat(sample.counts)]
    for eco in (names["eco"], names["eco"].astype("category")):
        (_, _, average) = _averages(result, replace(sample, X=names.assign(eco=eco)))[1]
        assert average == seen["eco"].mode()[0]


def test_thresholds(data, result, tmp_path):
    sample, test = data
    table = read(tmp_path / write_tables(result, sample, test, tmp_path)["thresholds"])
    columns = {
        "Description": "name",
        "Cumulative threshold": "cumulative",
        "Cloglog threshold": "value",
        "Raw threshold": "raw",
        "Fractional predicted area": "area",
        "Training omission rate": "training_omission",
        "Test omission rate": "test_omission",
        "P-value": "p_value",
    }
    assert [row["Description"] for row in table] == JAR_RULES
    for row, rule in zip(table, result.evaluation.thresholds, strict=True):
        assert list(row) == list(columns)
        for column, key in columns.items():
            assert_same(row[column], rule[key])


def test_responses(data, result, tmp_path):
    sample, test = data
    table = read(tmp_path / write_tables(result, sample, test, tmp_path)["responses"])
    first, second = result.responses
    assert len(table) == 11
    for i, row in enumerate(table[:7]):
        assert list(row) == ["variable", "kind", "x", "y", "low", "high"]
        assert (row["variable"], row["kind"]) == ("bio1", "marginal")
        for key in ("x", "y", "low", "high"):
            assert_same(row[key], getattr(first, key)[i])
    for i, row in enumerate(table[7:]):
        assert (row["variable"], row["kind"], row["x"]) == ("eco", "single", str(i + 1))
        assert_same(row["y"], second.y[i])
        assert row["low"] == row["high"] == ""


def test_importance_jackknife_and_coefficients(data, model, result, tmp_path):
    sample, test = data
    files = write_tables(result, sample, test, tmp_path)
    table = read(tmp_path / files["importance"])
    assert [row["variable"] for row in table] == list(VARIABLES)
    for i, row in enumerate(table):
        measures = [name for name in row if name != "variable"]
        assert len(measures) == 5
        for name in measures:
            assert_same(row[name], getattr(result.importance, name)[i])
    table = read(tmp_path / files["jackknife"])
    expected = [(key, i) for key in result.jackknife.scores for i in range(2)]
    for row, (key, i) in zip(table, expected, strict=True):
        score = result.jackknife.scores[key]
        assert (row["score"], row["variable"]) == (key, VARIABLES[i])
        assert_same(row["only"], score["only"][i])
        assert_same(row["without"], score["without"][i])
        assert_same(row["all"], score["all"])
    table = read(tmp_path / files["coefficients"])
    assert [row["feature"] for row in table] == list(model.coef_)
    for row, weight, beta in zip(table, model.coef_.values(), model.beta_, strict=True):
        assert_same(row["weight"], weight)
        assert_same(row["beta"], beta)


def test_pandas_reads_them(data, result, tmp_path):
    sample, test = data
    files = write_tables(result, sample, test, tmp_path)
    table = pandas.read_csv(tmp_path / files["results"])
    assert table["Species"].tolist() == [result.species]
    column = "Balance training omission, predicted area and threshold value area"
    assert table[column].tolist() == pytest.approx([result.evaluation.thresholds[9]["area"]])


def test_a_saved_result_gives_the_same_tables(data, result, tmp_path):
    from maxent import load, save

    sample, test = data
    save(result, tmp_path / "result.json")
    again = load(tmp_path / "result.json")
    assert isinstance(again.evaluation, Evaluation)
    for name, folder in ((result, "one"), (again, "two")):
        (tmp_path / folder).mkdir()
        write_tables(name, sample, test, tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


# -- names of files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Bradypus variegatus", "Bradypus_variegatus"),
        ("  a \t b ", "a_b"),
        ("a/b\\c:d*e?f\"g<h>i|j\n'k", "a_b_c_d_e_f_g_h_i_j_k"),
        ("x=1; rm -rf ~", "x_1_rm_-rf"),
        ("Ñandú", "Ñandú"),
        ("N\u0303andu\u0301", "Ñandú"),
        ("川獺", "川獺"),
        ("हिन्दी", "हिन्दी"),
        ("Acer sp.", "Acer_sp"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("-o", "o"),
        ("", "species"),
        ("...", "species"),
        ("???", "species"),
        ("NUL", "NUL_"),
        ("con.tif", "con_.tif"),
        ("COM7", "COM7_"),
        ("console", "console"),
        ("a" * 300, "a" * 120),
        ("é" * 300, "é" * 60),
        ("x" + "é" * 300, "x" + "é" * 59),
    ],
)
def test_slug(name, expected, tmp_path):
    assert slug(name) == expected
    (tmp_path / f"{expected}_samplePredictions.csv").write_text("")


def test_slugs_do_not_collide():
    names = ["A b", "a B", "A?b", "a_b_2", "A b", "straße", "STRASSE", "", "?"]
    files = slugs(names)
    assert list(files) == list(dict.fromkeys(names))
    assert files["A b"] == "A_b"
    assert files["a B"] == "a_B_2"
    assert files["A?b"] == "A_b_3"
    assert files["a_b_2"] == "a_b_2_2"
    assert len({file.casefold() for file in files.values()}) == len(files)
