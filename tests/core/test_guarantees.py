"""What models promise in print: bounds, certificates and the counts that they rest on."""

import csv
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import maxent as mx
from maxent._support import progress
from maxent.core.bounds import structural_beta
from maxent.families import Monomials, Trees, empirical_complexity
from maxent.families.trees import log_growth
from maxent.features import Schema
from maxent.learn.linear import base as linear
from maxent.rows.blocks import MemoryBlocks
from maxent.rows.blocks.table import BlockTable, Part


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 3))
    intensity = np.exp(3 * X[:, 0] * X[:, 1] - 2 * X[:, 2])
    return X, rng.multinomial(80, intensity / intensity.sum())


# -- the number of records -------------------------------------------------------------------------


def test_sums_of_weights_are_rounded_to_a_number_of_records(cells):
    X, y = cells
    weight = np.full(len(X), 0.999)
    assert 79 < float((y * weight).sum()) < 80
    families = [Monomials(2), Trees(2)]
    model = mx.StructMaxent(families, 0.1, 0.01).fit(X, y, sample_weight=weight)
    for feature in model.features_:
        family = families[feature["family"] == "Trees"]
        assert feature["beta"] == 0.1 * family.complexity(feature["level"], 3, 80) + 0.01
    chance = np.sqrt(np.log(2 * 4 / 0.05) / (2 * 80))
    expected = sum(
        abs(feature["weight"]) * (2 * (feature["beta"] - 0.01) / 0.1 + chance)
        for feature in model.features_
    )
    assert model.bound().deviation == pytest.approx(expected)
    plain = mx.MaxentDensity("l").fit(X, y, sample_weight=weight)
    expected = mx.bounds.dkw_beta(3, 80, 0.05) * np.abs(plain.density_.weights).sum()
    assert plain.bound().deviation == pytest.approx(expected)


def radius_of(model):
    """What one unit of weight adds to the bound."""
    return model.bound().deviation / np.abs(model.density_.weights).sum()


def test_the_scale_of_weights_promises_nothing(cells):
    X, y = cells
    for scale in (0.5, 1.0, 100.0):
        model = mx.MaxentDensity("l").fit(X, y, sample_weight=np.full(len(X), scale))
        assert radius_of(model) == pytest.approx(mx.bounds.dkw_beta(3, 80, 0.05))
        assert model.bound().assumes == "the records are independent"


def test_weighted_records_count_by_their_shares(cells):
    X, y = cells
    weight = (1 + np.random.default_rng(2).pareto(1.5, len(X))) / 3
    of_records = np.repeat(weight, y)
    model = mx.MaxentDensity("l").fit(X, y, sample_weight=weight)
    number = mx.bounds.half_line_number(of_records)
    assert radius_of(model) == pytest.approx(mx.bounds.weighted_dkw_beta(3, number, 0.05))
    effective = mx.bounds.effective_number(of_records)
    assert f"(80 weigh as much as {effective:.1f} equal ones)" in model.summary()
    assert "if the records are independent and their weights were set without" in model.summary()
    levels = X.round(1)[:, :1]
    by_level = mx.MaxentDensity("c", categorical=[0]).fit(levels, y, sample_weight=weight)
    n_levels = np.unique(levels).size
    expected = mx.bounds.hoeffding_beta(n_levels, effective, 0.05)
    assert radius_of(by_level) == pytest.approx(expected)


def test_grown_features_pay_for_weighted_records(cells):
    X, y = cells
    weight = np.where(np.arange(len(X)) % 3, 1.0, 4.0)
    model = mx.StructMaxent([Trees(2)], 0.0, 0.05).fit(X, y, sample_weight=weight)
    heavy = int(y @ (weight > 1))
    share = heavy * 3 / (y @ weight)  # of the mean over the heavy ones; the rest is over all 80
    effective = (y @ weight) ** 2 / (y @ weight**2)
    expected = sum(
        abs(feature["weight"])
        * (
            2 * share * Trees(2).complexity(feature["level"], 3, heavy)
            + 2 * (1 - share) * Trees(2).complexity(feature["level"], 3, 80)
            + np.sqrt(np.log(2 * 2 / 0.05) / (2 * effective))
        )
        for feature in model.features_
    )
    assert model.bound().deviation == pytest.approx(expected)


def test_evidence_is_the_same_in_blocks_and_in_files(cells, tmp_path):
    X, y = cells
    weight = np.linspace(0.5, 3, len(X))
    thirds = np.array_split(np.arange(len(X)), 3)
    parts = [
        Part(number, X[rows], {"y": y[rows], "sample_weight": weight[rows]})
        for number, rows in enumerate(thirds)
    ]
    table = BlockTable(MemoryBlocks(parts), ("y", "sample_weight"))
    for model in (mx.MaxentDensity("l"), mx.StructMaxent([Monomials(2)], 0.01, 0.01)):
        whole = model.fit(X, y, sample_weight=weight).density_
        mx.save(whole, tmp_path / "model.json")
        blocked = model.fit(table, None).density_
        assert whole.evidence == mx.load(tmp_path / "model.json").evidence == blocked.evidence
        assert whole.evidence.n_records == 80 > whole.evidence.effective
        assert str(blocked.bound()) == str(whole.bound())


def test_a_file_that_does_not_know_its_weights_says_so(cells):
    X, y = cells
    density = mx.MaxentDensity("l").fit(X, y).density_
    old = replace(density, evidence=None)
    assert old.bound().assumes == "the records are independent and none was given a weight"
    assert old.bound().deviation == density.bound().deviation
    with pytest.raises(ValueError, match=r"weights that add up to 80\.5, .* fit the model again"):
        replace(old, n_presences=80.5).bound()


# -- complexity ------------------------------------------------------------------------------------


def _labellings(schema, X, level):
    """All ways in which trees of at most ``level`` nodes label the rows of X, by enumeration."""
    points, m = schema.read(X), len(X)
    questions = set()
    for values in points.values:
        questions |= {tuple(values <= t) for t in [-np.inf, *values]}
    for codes, levels in zip(points.codes, schema.levels, strict=True):
        for chosen in product([False, True], repeat=len(levels)):
            questions.add(tuple(np.array(chosen)[codes]))
    found = {(label,) * m for label in (0, 1)}
    grown = {0: found}
    for size in range(1, level + 1):
        grown[size] = {
            tuple(np.where(question, left, right))
            for question in questions
            for first in range(size)
            for left in grown[first]
            for right in grown[size - 1 - first]
        }
    return set().union(*grown.values())


@pytest.mark.parametrize("level", [1, 2])
def test_growth_function_of_trees_is_at_least_the_labellings_of_records(level):
    rng = np.random.default_rng(1)
    for _ in range(5):
        X = np.column_stack([rng.normal(size=(5, 2)), rng.integers(3, size=5)])
        schema = Schema.from_table(X, categorical=[2])
        count = len(_labellings(schema, X, level))
        assert count <= np.exp(log_growth(level, schema, m=5)) * (1 + 1e-12)
        # the mean over all signs of the largest sum: what sqrt(log Pi / 2m) bounds
        labels = np.array(sorted(_labellings(schema, X, level)), dtype=float)
        signs = np.array(list(product([-1.0, 1.0], repeat=5)))
        complexity = (signs @ labels.T).max(axis=1).mean() / 5
        assert complexity <= np.sqrt(np.log(count) / 10)


def test_complexity_of_trees_covers_sets_of_levels():
    levels, m = 8000, 16_000
    X = np.repeat(np.arange(levels), 2)[:, None].astype(float)
    schema = Schema.from_table(X, categorical=[0])
    family = Trees(1)
    search = family.search(schema.read(X), schema)
    found = empirical_complexity(search, np.full(len(X), 1), 1, draws=2)
    assert found > 0.24  # one sign out of two records per level
    assert found <= family.complexity_of(1, schema, m)


def test_complexity_of_trees_is_that_of_the_paper_for_thresholds_and_few_levels():
    numbers = Schema(("a", "b", "c"))
    some = Schema(("a", "b"), ("b",), (tuple("uvw"),))
    for level, m in product((1, 3, 8), (5, 100, 100_000)):
        assert Trees().complexity_of(level, numbers, m) == Trees().complexity(level, 3, m)
        assert Trees().complexity_of(level, some, m) == Trees().complexity(level, 4, m)


def test_bound_of_trees_on_many_levels_pays_for_the_sets_of_levels():
    X = np.arange(4000)[:, None].astype(float)
    y = np.bincount(np.random.default_rng(0).integers(4000, size=4000), minlength=4000)
    model = mx.StructMaxent([Trees(1)], lam=0.0, beta=0.1, categorical=[0]).fit(X, y)
    growth = 2 * np.log(2) + 4000 * np.log(2)
    radius = 2 * np.sqrt(growth / 8000) + np.sqrt(np.log(2 / 0.05) / 8000)
    assert model.bound().deviation == pytest.approx(radius * abs(model.density_.weights).sum())


def test_features_with_a_sign_deviate_by_their_whole_range():
    # one feature of values -1 and 1: R_m = 0, and (1) with Lambda = 1 fails in 17 % of the samples
    rng = np.random.default_rng(0)
    m, delta = 400, 0.05
    deviation = np.abs(rng.choice([-1.0, 1.0], size=(4000, m)).mean(axis=1))
    assert np.mean(deviation > structural_beta(0.0, 1, m, delta)) > 0.1
    assert np.mean(deviation > structural_beta(0.0, 1, m, delta, diameter=2.0)) <= delta


# -- the certificate of grown features -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:conditions .8. of StructMaxent1")
@pytest.mark.parametrize("rule", ["corrective", "structmaxent2", "structmaxent1", "line-search"])
@pytest.mark.parametrize("rounds", [1, 3, 500])
def test_the_gap_of_the_family_covers_features_that_did_not_come_in(cells, rule, rounds):
    X, y = np.round(cells[0], 2), cells[1]
    family = Trees(1)  # its search goes through all thresholds, 100 of each variable
    model = mx.StructMaxent([family], 0.02, 0.01, rule=rule, rounds=rounds).fit(X, y)
    beta = 0.02 * family.complexity(1, 3, 80) + 0.01
    whole = mx.MaxentDensity(
        [mx.Threshold()], regularization=lambda kinds, mean, sd, m: np.full(len(kinds), beta)
    )
    best = whole.set_params(tol=1e-12).fit(X, y).gain_
    above = best - model.gain_
    assert -1e-9 < above <= model.family_gap_ + 1e-9
    assert model.gap_ <= model.family_gap_ < np.inf
    assert model.guarantees_["kl"] == model.family_gap_
    assert np.sum(whole.predict(X) * (whole.predict(X, "log") - model.predict(X, "log"))) <= (
        model.family_gap_ + 1e-9
    )
    if rounds == 1:
        assert above > 1e-3  # the gap of the chosen feature alone would not show it
    told = f"{model.gap_:.1e} over the features chosen, {model.family_gap_:.1e} over all"
    assert told in model.summary()


def test_the_status_of_grown_features_names_the_rule_that_ended_the_fit(cells):
    X, y = cells
    fit = mx.StructMaxent([Trees(1)], 0.02, 0.01, rule="structmaxent2")
    assert fit.fit(X, y).status_ is mx.Status.SMALL_CHANGE
    assert fit.family_gap_ > 1e-4
    assert fit.set_params(rounds=2).fit(X, y).status_ is mx.Status.MAX_ITER
    done = mx.StructMaxent([Monomials(1)], 0.0, 0.01).fit(X, y)
    assert done.status_ is mx.Status.CONVERGED
    assert done.family_gap_ < 1e-5


def test_the_gap_of_the_family_is_kept_in_files(cells, tmp_path):
    X, y = cells
    model = mx.StructMaxent([Trees(2)], 0.0, 0.02, rounds=3).fit(X, y)
    mx.save(model, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    assert again.family_gap_ == model.family_gap_ > model.gap_
    assert again.summary() == model.summary()


def test_the_path_of_a_search_pays_for_all_feature_sets(cells):
    X, y = cells
    search = mx.MaxentDensityCV(["lq", "lp"], multipliers=[1.0, 4.0], cv=3).fit(X, y)
    assert search.density_.origin.n_not_monotone == 6
    for model in search.path(X, y, n_multipliers=4):
        assert model.density_.origin == search.density_.origin


# -- kernels ---------------------------------------------------------------------------------------


def test_a_kernel_model_whose_certificate_is_useless_says_why(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    labels = X[:, 0] * X[:, 1] > 0
    model = mx.FenchelYoungClassifier(mx.Tsallis(1.5), mx.Quadratic(0.1), kernel="rbf")
    fine = model.fit(X, labels)  # no warning
    assert fine.gap_ < fine.objective_
    monkeypatch.setattr(linear.Fit, "gap", lambda *_: 1e3)  # as of a singular matrix
    with pytest.warns(
        mx.ConvergenceWarning,
        match=r"meets tol, but .* duality gap is 1e\+03, larger than the objective .*, and "
        r"certifies nothing: the kernel's matrix is nearly singular; give a stronger potential",
    ):
        model.fit(X, labels)
    mx.FenchelYoungClassifier(mx.Tsallis(1.5), mx.Quadratic(0.1)).fit(X, labels)  # no kernel


# -- silence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        mx.MaxentDensity("lq"),
        mx.MaxentDensityCV(["l"], multipliers=[1.0, 2.0], cv=2),
        mx.StructMaxent([Monomials(2)]),
        mx.StructMaxentCV([Monomials(1)], lams=[0.1], betas=[0.01, 0.1]),
    ],
)
def test_estimators_are_silent_unless_asked(model, cells, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_LOG_PAUSE", 0.0)
    assert model.fit(*cells).verbose == 0
    assert capsys.readouterr().err == ""
    model.set_params(verbose=1).fit(*cells)
    assert capsys.readouterr().err != ""


# -- simulation ------------------------------------------------------------------------------------


def test_every_promise_of_the_experiment_held():
    table = Path(__file__).parents[2] / "experiments" / "results" / "printed_bounds.csv"
    with table.open() as file:
        rows = list(csv.DictReader(file))
    kinds = {"loss": 25, "assumption": 4, "radius": 16, "certificate": 5}
    assert Counter(row["kind"] for row in rows) == kinds
    assumed = {row["design"]: float(row["held"]) for row in rows if row["kind"] == "assumption"}
    assert assumed["every record four times in y"] < 0.5  # what the bound assumes is needed
    assert assumed["blocks of five records"] < 0.5
    assert assumed["weights by the values of a column"] < 0.5
    for row in rows:
        if row["kind"] == "assumption":
            continue
        promised, held, repeats = (float(row[key]) for key in ("promised", "held", "repeats"))
        noise = 2 * np.sqrt(promised * (1 - promised) / repeats)
        assert held >= promised - noise, row["design"]
