"""The presets beside maxnet and maxent.jar, on what the two programs made of one small table."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import maxent as mx
from tools import needs

pd = needs("pandas")

DATA = Path(__file__).parents[1] / "data" / "parity"


def table(count):
    """All background cells and the first presences, as both programs were given them."""
    rows = pd.read_csv(DATA / "table.csv")
    rows = pd.concat([rows[rows["presence"] == 0], rows[rows["presence"] == 1][:count]])
    return rows.drop(columns="presence"), rows["presence"].to_numpy()


def density(preset):
    return mx.MaxentDensity("lqphc", preset=preset, categorical=["soil"], verbose=0)


def regularized_gain(model, X, y):
    """The definition in data/parity/README.md, from predictions and weights alone."""
    points = X[~X.duplicated()]
    loss = -model.predict(X, "log")[y > 0].mean()
    loss += special.logsumexp(model.predict(points, "log"))
    return np.log(len(points)) - loss - model.beta_ @ np.abs(list(model.coef_.values()))


def of_maxnet(feature, X):
    """(our way to write a feature of maxnet, the range of its values: ours are scaled to 1)."""
    if match := re.fullmatch(r"categorical\((\w+)\):(\w+)", feature):
        return f"{match[1]}={match[2]}", 1.0
    plain = feature.replace("I(", "").replace("^2)", "")
    parts = plain.split(":") if ":" in plain else [plain] * (1 + ("^2" in feature))
    values = X[parts].prod(axis=1)
    written = f"{plain}^2" if "^2" in feature else "*".join(sorted(parts))
    return written, values.max() - values.min()


def hinge_of_maxnet(feature, X):
    """(variable, direction, knot) of hinge(variable):low:high, falling where it ends below."""
    variable, low, high = re.fullmatch(r"hinge\((\w+)\):([^:]+):([^:]+)", feature).groups()
    rising = abs(float(high) - X[variable].max()) < 1e-9
    return variable, ">" if rising else "<", float(low if rising else high)


@pytest.mark.parametrize(("count", "least"), [(30, 0.938273), (150, 0.555621)])
def test_maxnet_preset_reaches_the_gain_of_maxnet(count, least):
    X, y = table(count)
    model = density("maxnet").fit(X, y)
    assert model.gap_ <= 1e-7
    assert least <= model.gain_ < least + 0.001
    assert abs(regularized_gain(model, X, y) - model.gain_) < 1e-9


@pytest.mark.parametrize("count", [30, 150])
def test_maxnet_preset_has_the_penalties_of_maxnet(count):
    X, y = table(count)
    peer = pd.read_csv(DATA / f"maxnet_{count}.csv")
    posed = density("maxnet").task(X, y).posed
    names = [name for operator in posed.operators for name in operator.names()]
    assert len(names) == len(peer) == 307
    penalties, knots = {}, {}
    for feature, penalty in zip(peer["feature"], peer["penalty"], strict=True):
        if not feature.startswith("hinge"):
            written, width = of_maxnet(feature, X)
            penalties[written] = penalty / width
            continue
        variable, direction, knot = hinge_of_maxnet(feature, X)
        if (variable, direction, knot) in knots:  # both run from end to end: one of them falls
            direction, knot = "<", X[variable].max()
        knots[variable, direction, knot] = penalty
    for written, beta in zip(names, posed.beta, strict=True):
        if match := re.fullmatch(r"hinge\((\w+)([<>])(.+)\)", written):
            known = {k: b for (v, d, k), b in knots.items() if (v, d) == (match[1], match[2])}
            near = min(known, key=lambda k: abs(k - float(match[3])))
            assert abs(near - float(match[3])) < 1e-6 * (1 + abs(near))
            assert abs(known[near] - beta) < 1e-8, written
        else:
            expected = penalties["*".join(sorted(written.split("*")))]
            assert abs(expected - beta) < 1e-8 * (1 + beta), written


@pytest.mark.parametrize(
    ("count", "gain", "unregularized"), [(30, 0.9432, 1.2278), (150, 0.5571, 0.6280)]
)
def test_maxent_preset_is_the_converged_jar(count, gain, unregularized):
    X, y = table(count)
    model = density("maxent").fit(X, y)
    assert model.gap_ <= 1e-7
    assert abs(model.gain_ - gain) <= 1e-4  # the jar prints four digits
    assert abs(model.unregularized_gain_ - unregularized) <= 1e-3
    assert abs(regularized_gain(model, X, y) - model.gain_) < 1e-9
    assert abs(model.predict(X[~X.duplicated()]).sum() - 1) < 1e-9
    jar = pd.read_csv(DATA / f"jar_{count}.csv")
    np.testing.assert_allclose(model.predict(X[y > 0]), jar["raw"], rtol=0.02)
    np.testing.assert_allclose(model.predict(X[y > 0], "cloglog"), jar["cloglog"], atol=0.005)


@pytest.mark.parametrize("count", [30, 150])
def test_a_model_of_the_jar_predicts_what_the_jar_predicts(count):
    X, y = table(count)
    model = mx.read_lambdas(DATA / f"jar_{count}.lambdas")
    presences = X[y > 0][list(model.schema.names)]
    jar = pd.read_csv(DATA / f"jar_{count}.csv")
    with pytest.warns(UserWarning, match="levels 3 were not there"):  # its weight is 0: not written
        raw = model.predict(presences)
    np.testing.assert_allclose(raw, jar["raw"], rtol=1e-6)
    with pytest.warns(UserWarning, match="levels 3 were not there"):
        cloglog = model.predict(presences, "cloglog")
    np.testing.assert_allclose(cloglog, jar["cloglog"], rtol=1e-6)
