"""FittedDensity: stored files of version 1, the format of today, explanations."""

import json
import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent.density import FittedDensity, MeanPlace, Points, fitted_density
from maxent.features import Cells, bind, variables_used

VERSION_1 = Path(__file__).parents[1] / "data" / "version1"
EXPECTED = json.loads((VERSION_1 / "expected.json").read_text())


def numbers(values):
    return np.array([float(v) for v in values])


def table(n=160):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "rain": rng.normal(1000, 300, n).round(1),
            "heat": rng.normal(15, 6, n).round(2),
            "soil": rng.choice(["clay", "sand", "peat"], n),
        }
    )


def occurrences(X):
    score = -(((X.rain - 900) / 250) ** 2) + 0.1 * X.heat + (X.soil == "clay")
    return (np.random.default_rng(0).uniform(size=len(X)) < 1 / (1 + np.exp(-score))).astype(int)


@pytest.fixture(scope="module")
def fitted():
    X = table()
    return mx.MaxentDensity("lqpthc", multiplier=0.3, verbose=0).fit(X, occurrences(X))


@pytest.fixture(scope="module")
def grown():
    X = table()
    families = [mx.Monomials(3), mx.Trees(4)]
    return mx.StructMaxent(families, 0.001, 0.005, verbose=0).fit(X, occurrences(X))


# -- files of version 1 ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(EXPECTED["files"]))
def test_a_file_of_version_1_loads_and_says_the_same(name, tmp_path):
    model = mx.load(VERSION_1 / f"{name}.json")
    density = fitted_density(getattr(model, "density", model))
    expected, new = EXPECTED["files"][name], pd.DataFrame(EXPECTED["table"])
    for output, values in expected["outputs"].items():
        np.testing.assert_allclose(density.predict(new, output), numbers(values), rtol=1e-12)
    unclamped = density.predict(new, "log", clamp=False)
    np.testing.assert_allclose(unclamped, numbers(expected["unclamped"]), rtol=1e-12)
    assert density.coef == expected["coef"]
    assert density.summary() == expected["summary"]
    known = {
        "gap": density.certificate.gap,
        "gain": density.certificate.gain,
        "entropy": density.raw_entropy,
        "log_partition": density.log_partition,
        "n_points": density.n_points,
    }
    for key, value in expected["numbers"].items():
        assert known[key] == float(value), key
    if expected["bound"] is not None:
        assert str(density.bound()) == expected["bound"]
    if "features" in expected:
        assert model.features_ == expected["features"]
    mx.save(model, tmp_path / "again.json")
    again = mx.load(tmp_path / "again.json")
    again = fitted_density(getattr(again, "density", again))
    np.testing.assert_array_equal(again.predict(new), density.predict(new))


def test_estimators_of_version_1_have_the_attributes_of_a_fit():
    model = mx.load(VERSION_1 / "MaxentDensity.json")
    assert list(model.feature_names_in_) == ["rain", "heat", "soil"]
    assert model.n_features_in_ == 3
    assert model.multiplier == 0.5
    assert model.gap_ < 1e-7
    search = mx.load(VERSION_1 / "MaxentDensityCV.json")
    assert sorted(search.best_params_) == ["entropy", "features", "multiplier", "potential"]
    assert search.cv_results_["mean_score"].shape == (4,)


# -- the format of today ---------------------------------------------------------------------------


def test_a_saved_density_is_written_again_byte_for_byte(fitted, grown, tmp_path):
    X = table()
    search = mx.MaxentDensityCV(["lc", "lqc"], multipliers=[1.0], cv=2, verbose=0)
    for model in (fitted, fitted.density_, grown, grown.density_, search.fit(X, occurrences(X))):
        mx.save(model, tmp_path / "one.json")
        again = mx.load(tmp_path / "one.json")
        mx.save(again, tmp_path / "two.json")
        assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
        np.testing.assert_array_equal(again.predict(X, "log"), model.predict(X, "log"))


def changed(path, change):
    """The stored density with its fields changed, and accepted as such."""
    document = json.loads(path.read_text())
    del document["digest"]
    change(document["model"]["state"])
    path.write_text(json.dumps(document))
    return path


def add_a_field(state):
    state["colour"] = "green"


def drop_weights(state):
    del state["weights"]


def cut_weights(state):
    state["weights"] = {"array": "", "dtype": "<f8", "shape": [0]}


def cut_ranges(state):
    state["low"] = {"array": "", "dtype": "<f8", "shape": [0]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (add_a_field, "invalid FittedDensity: unknown arguments \\['colour'\\], expected"),
        (drop_weights, "invalid FittedDensity:.*weights"),
        (cut_weights, "weights has shape \\(0,\\), expected"),
        (cut_ranges, "low has shape \\(0,\\), expected \\(2,\\)"),
    ],
)
def test_a_density_that_it_does_not_understand_is_refused(fitted, tmp_path, change, said):
    mx.save(fitted.density_, tmp_path / "m.json")
    with pytest.raises(ValueError, match=said):
        mx.load(changed(tmp_path / "m.json", change))


def test_an_estimator_with_unknown_fields_is_refused(fitted, tmp_path):
    mx.save(fitted, tmp_path / "m.json")
    with pytest.raises(ValueError, match="'colour'"):
        mx.load(changed(tmp_path / "m.json", add_a_field))


def test_a_density_without_its_estimator_says_the_same(fitted):
    X, density = table(), fitted.density_
    assert isinstance(density, FittedDensity)
    for output in ("raw", "log", "cloglog", "logistic", "cumulative"):
        np.testing.assert_array_equal(density.predict(X, output), fitted.predict(X, output))
    assert density.summary() == fitted.summary()
    gap = X.assign(rain=X.rain.where(X.rain > 800))
    assert (np.isnan(density.predict(gap, missing="drop")) == gap.rain.isna()).all()
    with pytest.raises(ValueError, match='missing must be "error" or "drop"'):
        density.predict(X, missing="skip")


# -- which variables a feature uses ----------------------------------------------------------------


@pytest.mark.parametrize("model", ["fitted", "grown"])
def test_a_feature_changes_with_the_variables_it_uses_alone(model, request):
    density = request.getfixturevalue(model).density_
    schema, rng = density.schema, np.random.default_rng(1)
    cells = schema.read(table())
    before = bind(density.operators, cells).columns()
    uses = variables_used(density.operators, schema.names)
    assert uses.shape == (3, density.weights.size)
    for v, name in enumerate(schema.names):
        order = rng.permutation(cells.n_cells)
        values, codes = cells.values.copy(), cells.codes.copy()
        if name in schema.categorical:
            codes[0] = codes[0, order]
        else:
            row = schema.continuous.index(name)
            values[row] = values[row, order]
        moved = (bind(density.operators, Cells(values, codes)).columns() != before).any(axis=0)
        np.testing.assert_array_equal(moved, uses[v])


# -- explanations ----------------------------------------------------------------------------------


def mean_exponent(density, place, row, members):
    """theta with the members at the row and the others at the mean place, level by level."""
    total = 0.0
    schema = density.schema
    levels = [(1.0, row["soil"])]
    if "soil" not in members:
        levels = list(zip(place.shares[0], schema.levels[0], strict=True))
    for share, level in levels:
        at = {"soil": level}
        for v, name in enumerate(schema.continuous):
            at[name] = row[name] if name in members else place.values[v]
        total += share * density.scores(pd.DataFrame([at])[list(schema.names)])[0]
    return total


@pytest.mark.parametrize("model", ["fitted", "grown"])
def test_shares_are_shapley_values(model, request):
    density = request.getfixturevalue(model).density_
    X, names = table(4), density.schema.names
    X.loc[0, "rain"] = 5000.0  # beyond the range of the fit
    told = density.explain(X)
    for i, row in X.iterrows():
        expected = dict.fromkeys(names, 0.0)
        for order in permutations(names):
            members, before = set(), mean_exponent(density, density.mean_place, row, set())
            for name in order:
                members.add(name)
                after = mean_exponent(density, density.mean_place, row, members)
                expected[name] += (after - before) / math.factorial(len(names))
                before = after
        np.testing.assert_allclose(told.shares[i], [expected[n] for n in names], atol=1e-9)


@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("model", ["fitted", "grown"])
def test_shares_add_up(model, clamp, request):
    estimator = request.getfixturevalue(model)
    X = table(60).assign(rain=lambda t: t.rain * 1.5)
    told = estimator.explain(X, clamp=clamp)
    theta = estimator.density_.scores(X, clamp=clamp)
    assert told.variables == ("rain", "heat", "soil")
    np.testing.assert_allclose(told.exponent, theta, atol=1e-9)
    np.testing.assert_allclose(told.shares.sum(axis=1), theta - told.base, atol=1e-9)


def test_half_of_a_product_goes_to_each_of_its_variables():
    """c (x_a x_b - z_a z_b): c (x_a - z_a) (z_b + x_b) / 2 to a (docs/density.md)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 2, size=(300, 2))
    y = X[:, 0] * X[:, 1] > 1
    density = mx.MaxentDensity("p", multiplier=0.1, verbose=0).fit(X, y).density_
    (operator,), (w,) = density.operators, density.weights
    c = w / (operator.most[0] - operator.least[0])
    z = X.mean(axis=0)
    shares = density.explain(X, clamp=False).shares
    expected = c * (X - z) * (z + X)[:, ::-1] / 2
    np.testing.assert_allclose(shares, expected, atol=1e-10)


def test_shares_of_an_additive_model_are_profiles():
    X = np.random.default_rng(0).normal(size=(200, 2))
    model = mx.MaxentDensity("lqh", verbose=0).fit(X, X.sum(axis=1) > 1)
    told = model.explain(X)
    for v in range(2):
        profile = model.profile(v, n=2000)
        curve = np.interp(X[:, v], profile.x, profile.y) - np.interp(
            X[:, v].mean(), profile.x, profile.y
        )
        np.testing.assert_allclose(told.shares[:, v], curve, atol=1e-4)


def test_unknown_levels_no_rows_and_no_features():
    X = table()
    model = mx.MaxentDensity("lc", verbose=0).fit(X, occurrences(X))
    odd = X.iloc[:2].assign(soil="lava")
    with pytest.warns(UserWarning, match="'lava' were not there at the fit"):
        told = model.explain(odd)
    with pytest.warns(UserWarning, match="'lava'"):
        np.testing.assert_allclose(told.exponent, model.density_.scores(odd), atol=1e-12)
    assert model.density_.explain(X.iloc[:0]).shares.shape == (0, 3)
    flat = mx.MaxentDensity("l", multiplier=1e6, verbose=0).fit(X[["rain"]], occurrences(X))
    assert not flat.explain(X[["rain"]]).shares.any()
    assert flat.explain(X[["rain"]]).base == 0.0


def test_a_model_without_a_mean_place_needs_one():
    density = mx.load(VERSION_1 / "SpeciesModel.json").density
    X = pd.DataFrame(EXPECTED["table"])
    with pytest.raises(ValueError, match="does not know its mean place"):
        density.explain(X)
    place = MeanPlace(*Points.from_table(X, np.arange(len(X)) < 5).mean_place())
    np.testing.assert_allclose(density.explain(X, place=place).exponent, density.scores(X))


def test_too_many_variables_in_one_feature():
    X = np.random.default_rng(0).uniform(size=(50, 13))
    features = mx.StructMaxent([mx.Monomials(13)], 0.0, 0.0001, rounds=1, proof_budget=0)
    model = features.fit(X, X[:, 0] > 0.5)
    operator = model.density_.operators[0]
    wide = type(operator)(
        **{
            **vars(operator),
            "cuts": np.array([0, 13], dtype=np.int32),
            "power": np.ones(13, dtype=np.int32),
            "factor": np.arange(13, dtype=operator.factor.dtype),
        }
    )
    density = model.density_
    fields = {name: getattr(density, name) for name in FittedDensity.__dataclass_fields__}
    wide = FittedDensity(
        **{**fields, "operators": (wide,), "weights": np.ones(1), "beta": np.ones(1)}
    )
    with pytest.raises(ValueError, match="uses 13 variables and can be explained with at most 12"):
        wide.explain(X)


def test_columns_in_another_order_are_read_by_name():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=80), "soil": rng.integers(0, 3, 80).astype(str)})
    X["b"] = 10 * rng.uniform(size=80)
    y = rng.poisson(np.exp(X["a"] - X["b"] / 5))
    density = mx.MaxentDensity("lqc").fit(X, y).density_
    expected = density.predict(X, "raw")
    np.testing.assert_array_equal(density.predict(X[["soil", "b", "a"]], "raw"), expected)
    named_otherwise = X.set_axis(["u", "v", "w"], axis=1)  # by place, as an array
    np.testing.assert_array_equal(density.predict(named_otherwise, "raw"), expected)
