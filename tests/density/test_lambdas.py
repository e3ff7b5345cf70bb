"""Files of the Maxent program: a model comes back the same, broken files say where and why."""

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from maxent import (
    Categorical,
    Hinge,
    Interaction,
    Linear,
    MaxentDensity,
    Square,
    Threshold,
    Tsallis,
    read_lambdas,
    write_lambdas,
)
from tools import needs

pd = needs("pandas")
OUTPUTS = ("raw", "log", "logistic", "cloglog")
TRAILER = "linearPredictorNormalizer, 1.5\ndensityNormalizer, 40.0\nnumBackgroundPoints, 60\n"
TRAILER += "entropy, 3.5\n"


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "temp": rng.normal(8, 6, n).round(2),
            "soil": rng.integers(1, 6, n),
            "rain": rng.gamma(2, 300, n).round(1),
            "slope": rng.uniform(1, 40, n),
        }
    )


def occurrences(X):
    rng = np.random.default_rng(1)
    eta = 0.9 * (X.temp > 10) + 0.002 * np.maximum(X.rain - 500, 0) - 0.004 * (X.temp - 8) ** 2
    eta += 0.001 * X.rain * X.temp / 10 + 1.2 * (X.soil == 3)
    return rng.poisson(40 * np.exp(eta) / np.exp(eta).sum())


@pytest.fixture(scope="module")
def fitted():
    X = table()
    classes = [Linear(), Square(), Interaction(), Hinge(12), Threshold(12), Categorical()]
    # the square puts weight on all features
    model = MaxentDensity(classes, "quadratic", categorical=["soil"], verbose=0)
    model.fit(X, occurrences(X))
    assert set(model.density_.kinds) == set("lqpthc")
    return model, X


@pytest.fixture
def read(tmp_path):
    """Read a file with this text."""

    def reader(text, **more):
        path = tmp_path / "species.lambdas"
        path.write_text(text)
        return read_lambdas(path, **more)

    return reader


def outside(X):
    """Rows beyond the ranges of all variables, on both sides."""
    far = table(200, seed=5)
    for name in ("temp", "rain", "slope"):
        far[name] += np.resize([-1, 0, 1], 200) * 0.5 * (X[name].max() - X[name].min())
    return far


# -- round trip ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("output", OUTPUTS)
def test_round_trip(fitted, tmp_path, output, clamp):
    model, X = fitted
    write_lambdas(model, tmp_path / "m.lambdas")
    again = read_lambdas(tmp_path / "m.lambdas")
    for rows in (X, outside(X)):
        expected = model.predict(rows, output, clamp=clamp)
        assert again.predict(rows, output, clamp=clamp) == pytest.approx(expected, rel=1e-12)


def test_round_trip_keeps_what_the_file_holds(fitted, tmp_path):
    model, X = fitted
    write_lambdas(model, tmp_path / "m.lambdas")
    again = read_lambdas(tmp_path / "m.lambdas")
    assert again.schema.names == tuple(X.columns)
    assert again.schema.levels == model.schema_.levels
    assert sorted(again.coef.values()) == sorted(model.coef_.values())
    assert again.n_points == model.n_points_
    assert again.raw_entropy == model.entropy_
    assert again.log_partition == pytest.approx(model.log_partition_, rel=1e-14)
    assert again.profile("rain").y == pytest.approx(model.profile("rain").y, rel=1e-12, abs=1e-12)
    write_lambdas(again, tmp_path / "again.lambdas")
    lines, others = ((tmp_path / f"{n}.lambdas").read_text().split("\n") for n in ("m", "again"))
    value, other = (float(text[-4].split(",")[1]) for text in (lines, others))
    assert other == pytest.approx(value, rel=1e-14)  # a logarithm and back
    assert sorted(lines[:-4] + lines[-3:]) == sorted(others[:-4] + others[-3:])


@pytest.mark.parametrize("features", ["h", "t", "q", "p", "qph", "lth"])
def test_round_trip_of_some_classes(tmp_path, features):
    X = table()[["temp", "rain"]].to_numpy()
    y = occurrences(table())
    model = MaxentDensity(features, multiplier=0.2, verbose=0).fit(X, y)
    write_lambdas(model, tmp_path / "m.lambdas")
    again = read_lambdas(tmp_path / "m.lambdas")
    rows = outside(table())[["temp", "rain"]].to_numpy()
    for clamp in (True, False):
        expected = model.predict(rows, "log", clamp=clamp)
        assert again.predict(rows, "log", clamp=clamp) == pytest.approx(expected, abs=1e-11)


def test_presets_priors_and_weights(tmp_path):
    X, rng = table(), np.random.default_rng(2)
    model = MaxentDensity("lqh", preset="maxnet", categorical=["soil"], verbose=0)
    model.fit(X, occurrences(X), sample_weight=rng.random(300), prior=rng.random(300))
    write_lambdas(model, tmp_path / "m.lambdas")
    again = read_lambdas(tmp_path / "m.lambdas")
    assert again.n_points == model.n_points_
    assert again.predict(X, "cloglog") == pytest.approx(model.predict(X, "cloglog"), rel=1e-12)


def test_cumulative_needs_the_background(fitted, tmp_path):
    model, X = fitted
    write_lambdas(model, tmp_path / "m.lambdas")
    with pytest.raises(ValueError, match=r"cumulative.*background="):
        read_lambdas(tmp_path / "m.lambdas").predict(X, "cumulative")
    again = read_lambdas(tmp_path / "m.lambdas", background=X)
    expected = model.predict(X, "cumulative")
    assert again.predict(X, "cumulative") == pytest.approx(expected, rel=1e-9)


# -- the format ----------------------------------------------------------------------------------


def test_written_lines(fitted, tmp_path):
    model, X = fitted
    write_lambdas(model, tmp_path / "m.lambdas")
    lines = (tmp_path / "m.lambdas").read_text().splitlines()
    names = [line.split(", ")[0] for line in lines]
    levels = [f"(soil={level}.0)" for level in range(1, 6)]
    assert names[:8] == ["temp", *levels, "rain", "slope"]  # also with weight 0
    assert names[-4:] == [line.split(",")[0] for line in TRAILER.splitlines()]
    assert lines[-2] == "numBackgroundPoints, 300"
    for name in ("temp", "rain", "slope"):
        low, high = map(float, lines[names.index(name)].split(", ")[2:])
        assert (low, high) == (X[name].min(), X[name].max())
    reverse = next(line.split(", ") for line in lines if line.startswith("`"))
    assert float(reverse[2]) == X[reverse[0][1:]].min() < float(reverse[3])
    forward = next(line.split(", ") for line in lines if line.startswith("'"))
    assert float(forward[2]) < float(forward[3]) == X[forward[0][1:]].max()


# A file as the program writes it, variables by name, features in the order of their choice.
PROGRAM = f"""\
(soil=1.0), 0.0, 0.0, 1.0
(soil=3.0), 0.75, 0.0, 1.0
rain, 2.0, 100.0, 500.0
temp, 0.0, -10.0, 30.0
temp^2, -1.0, 0.0, 900.0
rain*temp, 0.5, -4000.0, 12000.0
(12.5<temp), 0.25, 0.0, 1.0
'rain, -0.5, 300.0, 500.0
`temp, 1.5, -10.0, 10.0
{TRAILER}"""


def by_hand(soil, rain, temp, clamp):
    if clamp:
        rain, temp = min(max(rain, 100.0), 500.0), min(max(temp, -10.0), 30.0)
    product = (rain * temp + 4000.0) / 16000.0
    if clamp:
        product = min(max(product, 0.0), 1.0)
    return (
        0.75 * (soil == 3)
        + 2.0 * (rain - 100.0) / 400.0
        - temp**2 / 900.0
        + 0.5 * product
        + 0.25 * (temp > 12.5)
        - 0.5 * max(rain - 300.0, 0.0) / 200.0
        + 1.5 * max(10.0 - temp, 0.0) / 20.0
    )


@pytest.mark.parametrize("clamp", [True, False])
def test_a_file_by_hand(read, clamp):
    model = read(PROGRAM)
    rows = [(1, 100, -10), (3, 400, 15), (3, 250, 10), (1, 900, 40), (3, 0, -30), (1, 900, -20)]
    X = pd.DataFrame(rows, columns=["soil", "rain", "temp"]).astype({"rain": float, "temp": float})
    theta = np.array([by_hand(*row, clamp) for row in rows])
    raw = np.exp(theta - 1.5) / 40
    v = raw * math.exp(3.5)
    assert model.predict(X, clamp=clamp) == pytest.approx(raw, rel=1e-13)
    assert model.predict(X, "log", clamp=clamp) == pytest.approx(np.log(raw), rel=1e-13)
    assert model.predict(X, "logistic", clamp=clamp) == pytest.approx(v / (1 + v), rel=1e-13)
    assert model.predict(X, "cloglog", clamp=clamp) == pytest.approx(1 - np.exp(-v), rel=1e-12)
    assert model.log_partition == pytest.approx(1.5 + math.log(40))
    assert model.n_points == 60


def test_levels_without_a_line_have_no_effect(read):
    X = pd.DataFrame({"soil": [2], "rain": [100.0], "temp": [0.0]})
    with pytest.warns(UserWarning, match="no effect"):
        log = read(PROGRAM).predict(X, "log")
    assert log == pytest.approx(by_hand(2, 100.0, 0.0, True) - 1.5 - math.log(40))


def test_numbers_as_java_writes_them(read):
    model = read(f"x, 1.0E-5, -1.5E10, 4.9E-5\r\n\n{TRAILER}")
    assert model.coef == {"x": 1e-5}
    assert model.low[0] == -1.5e10


def test_hinges_with_a_range_of_their_own(read):
    model = read(f"x, 0.0, 0.0, 10.0\n'x, 1.0, 4.0, 8.0\n`x, 2.0, 2.0, 6.0\n{TRAILER}")
    x = np.array([0.0, 3.0, 5.0, 9.0])
    theta = np.maximum(x - 4, 0) / 4 + 2 * np.maximum(6 - x, 0) / 4
    log = model.predict(pd.DataFrame({"x": x}), "log")
    assert log == pytest.approx(theta - 1.5 - math.log(40), rel=1e-13)


def test_variables_without_a_line_of_their_own(read):
    """Hinges alone clamp where they end; a square alone at its largest value."""
    lines = "'a, 1.0, 4.0, 8.0\n`a, 2.0, 2.0, 6.0\nb^2, 1.0, 0.0, 9.0\n(5.0<c), 1.0, 0.0, 1.0\n"
    model = read(lines + "c*d, 1.0, 0.0, 10.0\n(1.0<e), 0.5, 0.0, 1.0\n" + TRAILER)
    X = pd.DataFrame(
        {"a": [9.0, 1.0], "b": [-4.0, 1.5], "c": [6.0, 2.0], "d": [3.0, 2.0], "e": [2.0, -9.0]}
    )
    base = -1.5 - math.log(40)
    clamped = np.array([1 + 1 + 1 + 1 + 0.5, 2 + 0.25 + 0.4])
    assert model.predict(X, "log") == pytest.approx(clamped + base, rel=1e-13)
    free = np.array([5 / 4 + 16 / 9 + 1 + 1.8 + 0.5, 2.5 + 0.25 + 0.4])
    assert model.predict(X, "log", clamp=False) == pytest.approx(free + base, rel=1e-13)


def test_constant_variables_and_no_weights(read, tmp_path):
    model = read(f"x, 0.0, 3.0, 3.0\ny, 0.0, 0.0, 1.0\n{TRAILER}")
    assert model.coef == {}
    X = pd.DataFrame({"x": [1.0, 3.0], "y": [0.5, 9.0]})
    assert model.predict(X) == pytest.approx(np.full(2, math.exp(-1.5) / 40))
    write_lambdas(model, tmp_path / "again.lambdas")
    assert (tmp_path / "again.lambdas").read_text().startswith("x, 0.0, 3.0, 3.0\ny, 0.0")


# -- a model whose fit is not known --------------------------------------------------------------


def test_what_the_file_does_not_say(read):
    model = read(PROGRAM)
    for name in ("gain", "unregularized_gain", "gap", "optimality"):
        assert math.isnan(getattr(model.certificate, name))
    assert math.isnan(model.n_presences)
    assert model.certificate.status is None
    assert np.isnan(model.beta).all()
    assert "60 points, 7 of 9 features" in model.summary()
    with pytest.raises(ValueError, match="lambdas file does not hold"):
        model.bound()


def test_fitting_it_again(read):
    X = table()[["soil", "rain", "temp"]]
    letters = "".join(dict.fromkeys(read(PROGRAM).kinds))
    model = MaxentDensity(letters, verbose=0).fit(X, occurrences(table()))
    assert set(letters) == set("lqpthc")
    assert model.bound().bound > 0
    assert "gain" in model.summary()
    assert model.predict(X, "cumulative").max() == pytest.approx(100)


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x^p, 1.0, 0.0, 1.0", r"line 2: found the feature 'x\^p'.*polyhedral"),
        ("x*y*z, 1.0, 0.0, 1.0", "line 2: found the feature"),
        ("(x>3.0), one, 0.0, 1.0", "line 2: found 'one', expected a finite number"),
        ("x, NaN, 0.0, 1.0", "line 2: found 'NaN'"),
        ("(x=red), 1.0, 0.0, 1.0", "line 2: found 'red', expected a finite number"),
        ("(1,5<x), 1.0, 0.0, 1.0", "line 2: .*expected 'name, weight, min, max'"),
        ("x, 1.0", "line 2: .*expected 'name, weight, min, max'"),
        ("entropy, 1.0, 2.0", "line 2: .*expected 'entropy, value'"),
        (", 1.0, 0.0, 1.0", "line 2: found the feature ''"),
        ("x, 1.0, 2.0, 2.0", "line 2: found min 2.0 and max 2.0"),
        ("first, 2.0, 0.0, 1.0", "line 2: found the feature of line 1 again"),
        ("(first=2.0), 2.0, 0.0, 1.0", "line 1: .*categorical one, as in line 2"),
    ],
)
def test_broken_lines(read, line, said):
    with pytest.raises(ValueError, match=said) as error:
        read(f"first, 1.0, 0.0, 1.0\n{line}\n{TRAILER}")
    assert "species.lambdas" in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "x, 1.0, 0.0, 1.0\n" + TRAILER.split("num")[0],
            "found no line numBackgroundPoints, entropy",
        ),
        ("", "found no line linearPredictorNormalizer"),
        (TRAILER, "found no feature"),
        ("x, 1.0, 0.0, 1.0\n" + TRAILER.replace("40.0", "0.0"), "densityNormalizer 0.0"),
    ],
)
def test_incomplete_files(read, text, said):
    with pytest.raises(ValueError, match=said):
        read(text)


def test_no_text_and_no_file(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ValueError, match="found no UTF-8 text"):
        read_lambdas(tmp_path / "binary")
    with pytest.raises(FileNotFoundError):
        read_lambdas(tmp_path / "nothing")


def small(names=("a", "b"), **settings):
    X = pd.DataFrame(np.random.default_rng(0).random((40, 2)), columns=list(names))
    return MaxentDensity("l", multiplier=0.1, verbose=0, **settings).fit(X, X.iloc[:, 0] > 0.6)


@pytest.mark.parametrize("name", ["a,b", "a*b", "a^2", "a=b", "a<b", "'a", "`a", 'a"', " a", ""])
def test_names_the_format_cannot_hold(tmp_path, name):
    with pytest.raises(ValueError, match="cannot hold variables named"):
        write_lambdas(small(("b", name)), tmp_path / "m.lambdas")
    assert not list(tmp_path.iterdir())


def test_models_the_format_cannot_hold(tmp_path):
    path = tmp_path / "m.lambdas"
    with pytest.raises(ValueError, match="cannot hold variables named 'entropy'"):
        write_lambdas(small(("b", "entropy")), path)
    with pytest.raises(NotFittedError):
        write_lambdas(MaxentDensity(), path)
    with pytest.raises(TypeError, match=r"a FittedDensity or a fitted estimator.*got \{\}"):
        write_lambdas({}, path)
    with pytest.raises(ValueError, match="Shannon"):
        write_lambdas(small(entropy=Tsallis(1.5)), path)
    for levels in (["red", "green"], [0.1, 0.2], [1, 2**24 + 1]):
        X = pd.DataFrame({"a": np.arange(20.0), "kind": np.resize(levels, 20)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MaxentDensity("lc", categorical=["kind"], verbose=0).fit(X, X.a > 12)
        with pytest.raises(ValueError, match="levels of 'kind' must be numbers that single"):
            write_lambdas(model, path)
    with pytest.raises(FileNotFoundError, match="create it first"):
        write_lambdas(small(), tmp_path / "none" / "m.lambdas")
    assert not list(tmp_path.iterdir())
