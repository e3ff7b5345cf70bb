"""Feature operators against dense matrices written from the formulas in long doubles."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent.features import (
    Categorical,
    Cells,
    Hinge,
    Interaction,
    Linear,
    OperatorMap,
    Schema,
    Square,
    Threshold,
    additive,
    bind,
    fit_operators,
    joined,
    part_of,
)
from maxent.features.additive import BoundCurves
from maxent.features.categorical import BoundLevels
from maxent.features.cells import missing_rows
from maxent.features.product import BoundProducts


def unit(column):
    return (column - column.min()) / (column.max() - column.min())


def forward(x, t):
    return np.where(x > t, x - t, 0) / (x.max() - t)


def reverse(x, t):
    return np.where(x < t, t - x, 0) / (t - x.min())


def dense(classes, X):
    """The columns of these classes over X: one variable after the other, then the products."""
    X = np.asarray(X).astype(np.longdouble)
    varying = [v for v in range(X.shape[1]) if X[:, v].min() < X[:, v].max()]
    columns = []
    for v in varying:
        x = X[:, v]
        distinct = np.unique(x)
        middle = (distinct[:-1] + distinct[1:]) / 2
        found = []
        for kind in classes:
            if isinstance(kind, Linear):
                found.append((0, 0, unit(x)))
            elif isinstance(kind, Square):
                if np.unique(x * x).size > 1:
                    found.append((1, 0, unit(x * x)))
            elif isinstance(kind, Hinge):
                first = last = middle
                if kind.knots is not None:
                    even = np.linspace(x.min(), x.max(), kind.knots).astype(float)
                    first, last = even[:-1], even[1:]
                found += [(2, t, forward(x, t)) for t in first]
                found += [(3, t, reverse(x, t)) for t in last]
            elif isinstance(kind, Threshold):
                if kind.knots is None:
                    found += [(4, t, x > t) for t in middle]
                else:
                    even = np.linspace(float(x.min()), float(x.max()), kind.knots + 2)[1:-1]
                    found += [(4, t, x >= t) for t in even]
        columns += [column for _, _, column in sorted(found, key=lambda f: f[:2])]
    if any(isinstance(kind, Interaction) for kind in classes):
        pairs = [(i, j) for i in varying for j in varying if i < j]
        products = [X[:, i] * X[:, j] for i, j in pairs]
        columns += [unit(product) for product in products if product.min() < product.max()]
    return np.array(columns, dtype=np.float64).T


def table(name):
    rng = np.random.default_rng(4)
    normal = rng.normal(size=(60, 3))
    ties = rng.integers(-3, 4, size=(60, 3)).astype(float)
    return {
        "normal": normal,
        "ties": ties,
        "float32": (100 * normal).astype(np.float32),
        "int16": rng.integers(-32000, 32001, size=(60, 3)).astype(np.int16),
        "uint8": rng.integers(0, 256, size=(60, 3)).astype(np.uint8),
        "offset": 1e6 + rng.uniform(-1, 1, size=(60, 3)),
        "negative": -np.exp(normal),
        "skewed": np.exp(2 * normal),
        "two values": np.column_stack([ties[:, 0] > 0, ties[:, 1] > 1, normal[:, 0]]) * 1.0,
        "constant": np.column_stack([ties[:, 0], np.full(60, 7.0), normal[:, 0]]),
        "symmetric": np.column_stack([np.where(ties[:, 0] > 0, 2.0, -2.0), ties[:, 1]]),
    }[name]


TABLES = [
    "normal", "ties", "float32", "int16", "uint8", "offset", "negative", "skewed", "two values",
    "constant",
]  # fmt: skip
CLASSES = {
    "linear": [Linear()],
    "square": [Square()],
    "product": [Interaction()],
    "threshold": [Threshold()],
    "threshold 50": [Threshold(50)],
    "hinge": [Hinge()],
    "hinge 2": [Hinge(2)],
    "hinge 50": [Hinge(50)],
    "all": [Linear(), Square(), Hinge(), Threshold(), Interaction()],
    "given knots": [Hinge(20), Threshold(10), Interaction(), Linear()],
}


def make(classes, X, presences=None, categorical=()):
    operators = fit_operators(classes, X, presences, categorical)
    schema = Schema.from_table(X, categorical)
    cells = schema.read(X)
    return operators, bind(operators, cells)


def check_map(features, columns, atol=1e-11):
    """Every method of the map against the matrix."""
    cells, count = columns.shape
    rng = np.random.default_rng(1)
    assert isinstance(features, OperatorMap)
    assert features.n_features == count
    np.testing.assert_allclose(features.columns(), columns, atol=atol)
    np.testing.assert_allclose(features.columns(5, 17), columns[5:17], atol=atol)
    low, high = features.ranges()
    np.testing.assert_allclose(low, columns.min(axis=0), atol=atol)
    np.testing.assert_allclose(high, columns.max(axis=0), atol=atol)
    for share in (1.0, 0.1):
        w = np.where(rng.uniform(size=count) < share, rng.normal(size=count), 0.0)
        size = 1 + np.abs(w).sum()
        np.testing.assert_allclose(features.scores(w), columns @ w, atol=size * atol)
    np.testing.assert_array_equal(features.scores(np.zeros(count)), np.zeros(cells))
    p = rng.dirichlet(np.full(cells, 0.3)) * (np.arange(cells) % 3 > 0)
    np.testing.assert_allclose(features.moments(p), p @ columns, atol=atol)
    np.testing.assert_allclose(features.squares(p), p @ columns**2, atol=10 * atol)
    some = np.flatnonzero(rng.uniform(size=count) < min(1.0, 30 / count))
    if not some.size:
        some = np.array([count - 1])
    part, dense_part = features.restrict(some), columns[:, some]
    np.testing.assert_allclose(part.columns(), dense_part, atol=atol)
    np.testing.assert_allclose(part.moments(p), p @ dense_part, atol=atol)
    w = rng.normal(size=some.size)
    np.testing.assert_allclose(part.scores(w), dense_part @ w, atol=(1 + some.size) * atol)
    np.testing.assert_allclose(
        part.restrict(np.array([some.size - 1])).columns(), dense_part[:, [-1]], atol=atol
    )
    for diagonal, spike in ((p, None), (p, p), (rng.normal(size=cells), p)):
        exact = dense_part.T @ (diagonal[:, None] * dense_part)
        if spike is not None:
            exact -= np.outer(spike @ dense_part, spike @ dense_part)
        np.testing.assert_allclose(part.gram(diagonal, spike), exact, atol=100 * atol)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("classes", CLASSES.values(), ids=list(CLASSES))
def test_operators_are_the_dense_matrix(classes, name):
    X = table(name)
    operators, features = make(classes, X)
    columns = dense(classes, X)
    check_map(features, columns, atol=1e-9 if name == "offset" else 1e-11)
    assert sum(o.n_features for o in operators) == columns.shape[1]
    assert sum(len(o.names()) for o in operators) == columns.shape[1]


def test_squares_and_products_that_are_constant_are_left_out_or_harmless():
    """x = +-2 has a constant square: nothing may be divided by its range of 0."""
    X = table("symmetric")
    _, features = make([Linear(), Square(), Interaction()], X)
    values = features.columns()
    assert np.isfinite(values).all()
    assert values.min() >= 0
    assert values.max() <= 1
    fit = mx.MaxentDensity("lqp", verbose=0).fit(X, np.arange(60) < 20)
    assert fit.gap_ <= fit.tol


def test_dtypes_give_the_same_columns():
    whole = table("int16")
    classes = CLASSES["all"]
    reference = make(classes, whole.astype(np.float64))[1].columns()
    for kind in (np.int16, np.int32, np.int64, np.float32):
        found = make(classes, whole.astype(kind))[1].columns()
        np.testing.assert_allclose(found, reference, atol=1e-12, err_msg=str(kind))
    frame = pd.DataFrame(whole).astype({0: np.float32, 1: np.int64})
    np.testing.assert_allclose(make(classes, frame)[1].columns(), reference, atol=1e-12)
    np.testing.assert_array_equal(
        make(classes, np.asfortranarray(whole))[1].columns(), make(classes, whole)[1].columns()
    )


def test_maxnet_numbers_of_features():
    X = table("normal")[:, :1]
    assert make([Hinge(50)], X)[1].n_features == 49 + 49
    assert make([Threshold(50)], X)[1].n_features == 50
    kinds = make([Hinge(50)], X)[0][0].kind
    assert np.bincount(kinds)[2:].tolist() == [49, 49]


def test_a_threshold_with_given_knots_counts_equality_as_above():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])  # knots 1 and 2
    np.testing.assert_array_equal(
        make([Threshold(2)], X)[1].columns(), [[0, 0], [1, 0], [1, 1], [1, 1]]
    )


def test_names():
    X = pd.DataFrame({"rain": [1.0, 2.0, 4.0], "temp": [0.0, 1.0, 3.0], "kind": ["a", "b", "b"]})
    classes = [Linear(), Square(), Hinge(), Threshold(), Interaction(), Categorical()]
    curves, product, levels = fit_operators(classes, X)
    assert curves.names() == [
        "rain", "rain^2", "hinge(rain>1.5)", "hinge(rain>3)", "hinge(rain<1.5)", "hinge(rain<3)",
        "(rain>1.5)", "(rain>3)",
        "temp", "temp^2", "hinge(temp>0.5)", "hinge(temp>2)", "hinge(temp<0.5)", "hinge(temp<2)",
        "(temp>0.5)", "(temp>2)",
    ]  # fmt: skip
    assert "".join(curves.kinds()) == "lqhhhhttlqhhhhtt"
    assert product.names() == ["rain*temp"]
    assert product.kinds().tolist() == ["p"]
    assert levels.names() == ["kind=a", "kind=b"]
    assert levels.kinds().tolist() == ["c", "c"]


def test_operators_are_cut_and_joined():
    X = table("normal")
    curves, product = fit_operators([Linear(), Square(), Interaction()], X)
    cut = part_of([curves, product], np.array([1, 4, 6, 8]))
    assert [o.names() for o in cut] == [["x0^2", "x2"], ["x0*x1", "x1*x2"]]
    two = joined([*fit_operators([Square()], X), *fit_operators([Linear()], X)])
    assert [o.names() for o in two] == [curves.names()]
    assert part_of([curves, product], np.array([], dtype=int)) == []


@pytest.mark.parametrize("knots", [1, 0, -3, 2.5, "many"])
def test_bad_knots(knots):
    with pytest.raises(ValueError, match=r"knots must be None \(all\) or an integer >= 2"):
        Hinge(knots)
    if knots != 1:
        with pytest.raises(ValueError, match="integer >= 1"):
            Threshold(knots)


def test_too_many_given_knots():
    with pytest.raises(ValueError, match="at most 65535"):
        Hinge(70_000)


# -- working sets ------------------------------------------------------------------------------


def test_candidates_are_the_worst_peaks():
    X = table("normal")
    operators, features = make([Hinge(), Threshold(), Interaction()], X)
    rng = np.random.default_rng(3)
    violation = rng.uniform(size=features.n_features)
    violation[rng.uniform(size=violation.size) < 0.3] = 0.0
    curves = operators[0]
    group = np.concatenate([curves.variable * 10 + curves.kind, 1000 + np.arange(3)])
    peaks = [
        j
        for j in range(violation.size)
        if violation[j] > 0
        and all(
            violation[j] > violation[i]
            for i in (j - 1, j + 1)
            if 0 <= i < violation.size and group[i] == group[j]
        )
    ]
    assert 20 < len(peaks) < violation.size / 2
    np.testing.assert_array_equal(np.sort(features.candidates(violation, 10**6)), peaks)

    def value(j):  # halved with each better peak of the same curve
        better = [i for i in peaks if group[i] == group[j] and violation[i] > violation[j]]
        return violation[j] * 0.5 ** len(better)

    for count in (1, 7, 15):
        best = sorted(peaks, key=value)[-count:]
        np.testing.assert_array_equal(np.sort(features.candidates(violation, count)), np.sort(best))


def test_equal_neighbours_give_one_candidate():
    _, features = make([Threshold()], table("normal")[:, :1])
    violation = np.zeros(features.n_features)
    violation[10:20] = 1.0
    found = features.candidates(violation, 100)
    assert found.size == 1
    assert 10 <= found[0] < 20
    assert features.candidates(np.zeros(features.n_features), 5).size == 0


@pytest.mark.parametrize("every", [2, 5])
@pytest.mark.parametrize("sharp", [0.5, 3.0])
def test_the_sampled_gram_is_close(every, sharp):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    features = make([Linear(), Square(), Interaction(), Hinge(8)], X)[1]
    p = np.exp(sharp * X[:, 0])
    p /= p.sum()
    exact, sampled = features.gram(p, p), features.gram(p, p, every)
    error = np.abs(sampled - exact).max() / np.abs(exact).max()
    assert 0 < error < 0.05
    plain = features.gram(p, None, every)
    np.testing.assert_allclose(plain, features.gram(p, None), atol=0.02)


def test_number_of_threads_changes_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(40_000, 4)), 2)
    X = pd.DataFrame(X).assign(kind=rng.choice(["a", "b", "c"], 40_000))
    classes = [Linear(), Square(), Hinge(), Threshold(), Interaction(), Categorical()]
    p = rng.dirichlet(np.ones(len(X)))
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("MAXENT_NUM_THREADS", threads)
        operators, features = make(classes, X)
        w = np.random.default_rng(1).normal(size=features.n_features)
        few = features.restrict(np.arange(0, features.n_features, 150))
        names = [name for o in operators for name in o.names()]
        found.append(
            (names, features.scores(w), features.moments(p), features.squares(p), few.gram(p, p))
        )
    names, *numbers = found[0]
    for other_names, *others in found[1:]:
        assert other_names == names
        for value, other in zip(numbers, others, strict=True):
            np.testing.assert_allclose(other, value, rtol=1e-11, atol=1e-13)


def test_newton_writes_out_its_working_set_alone(monkeypatch):
    """Tens of thousands of features, and never their matrix: neither in parts nor at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = rng.uniform(size=1500) < 0.15 / (1 + np.exp(-3 * X[:, 0] + X[:, 1] ** 2))
    written = []
    for bound in (BoundCurves, BoundProducts, BoundLevels):

        def spy(self, *args, write=bound.write):
            written.append(self.n_features)
            return write(self, *args)

        monkeypatch.setattr(bound, "write", spy)

    def refuse(self, *args):
        raise AssertionError("the matrix of all features was asked for")

    monkeypatch.setattr(OperatorMap, "columns", refuse)
    mx.MaxentDensity("lqpht", verbose=0).fit(X[:100], y[:100])  # compiled before memory is traced
    tracemalloc.start()
    model = mx.MaxentDensity("lqpht", solver="prox-newton", verbose=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_features_ > 15_000
    assert model.gap_ <= model.tol
    assert 10 < max(written) < 300
    assert peak < 0.1 * 8 * model.n_features_ * len(X)


# -- many values -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    x = rng.permutation(70_000).astype(np.float64)[:, None]
    return x, np.sort(rng.choice(70_000, 40, replace=False))


def test_thresholds_of_many_values_are_those_next_to_presences(many):
    X, presences = many
    (thresholds,) = fit_operators([Threshold()], X, presences)
    at = X[presences, 0]
    expected = np.unique(np.concatenate([at - 0.5, at + 0.5]))
    expected = expected[(expected > 0) & (expected < 69_999)]
    np.testing.assert_array_equal(thresholds.knot, expected)


def test_hinges_of_many_values_are_capped_and_cover_the_range(many):
    X, presences = many
    (hinges,) = fit_operators([Hinge()], X, presences)
    knots = hinges.knot[hinges.kind == 2]
    np.testing.assert_array_equal(knots, hinges.knot[hinges.kind == 3])
    assert 60_000 < knots.size <= 65_535
    assert (np.diff(knots) > 0).all()
    assert np.diff(knots).max() <= 2
    at = X[presences, 0]
    near = np.concatenate([at - 0.5, at + 0.5])
    assert np.isin(near[(near > 0) & (near < 69_999)], knots).all()


def test_columns_of_many_values(many):
    X, presences = many
    x = X[:, 0]
    operators, features = make([Hinge(), Threshold()], X, presences)
    assert max(place.codes.itemsize for place in features.parts[0].places.values()) <= 2
    p = np.random.default_rng(0).dirichlet(np.ones(x.size))
    moments = features.moments(p)
    operator = operators[0]
    for j in np.random.default_rng(1).choice(features.n_features, 60, replace=False):
        t = operator.knot[j]
        column = {2: forward(x, t), 3: reverse(x, t), 4: x > t}[int(operator.kind[j])]
        np.testing.assert_allclose(moments[j], p @ column, atol=1e-12)
    j = np.array([3, features.n_features // 2, features.n_features - 1])
    w = np.zeros(features.n_features)
    w[j] = [1.0, -2.0, 0.5]
    np.testing.assert_allclose(
        features.scores(w), features.restrict(j).columns() @ w[j], atol=1e-10
    )


def test_presences_everywhere_still_fit_the_cap(monkeypatch):
    monkeypatch.setattr(additive, "MAX_KNOTS", 50)
    X = np.random.default_rng(0).normal(size=(200, 1))
    for kind in (Threshold(), Hinge()):
        (operator,) = fit_operators([kind], X)
        for which in np.unique(operator.kind):
            assert (operator.kind == which).sum() == 50


@pytest.mark.parametrize("seed", range(4))
def test_thresholds_next_to_presences_have_the_optimum_of_all(monkeypatch, seed):
    """The claim of Threshold: under a box that is equal between presences, no other one binds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 2))
    y = np.zeros(300)
    y[rng.choice(np.flatnonzero(X[:, 0] > -0.5), 12, replace=False)] = 1
    model = mx.MaxentDensity("t", multiplier=0.5, tol=1e-11, verbose=0)
    full = model.fit(X, y)
    full_gain, full_count, full_p = full.gain_, full.n_features_, full.predict(X)
    monkeypatch.setattr(additive, "MAX_KNOTS", 30)
    reduced = model.fit(X, y)
    assert reduced.n_features_ < 50 < full_count
    assert full_gain > 0.05
    assert abs(reduced.gain_ - full_gain) < 1e-8
    np.testing.assert_allclose(reduced.predict(X), full_p, atol=1e-5)


def test_hinges_around_presences_lose_little(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = (rng.uniform(size=400) < 0.2) & (X[:, 0] > 0)
    full = mx.MaxentDensity("h", verbose=0).fit(X, y).gain_
    monkeypatch.setattr(additive, "MAX_KNOTS", 150)
    fewer = mx.MaxentDensity("h", verbose=0).fit(X, y)
    assert fewer.n_features_ <= 300
    assert full - 1e-3 < fewer.gain_ <= full + 1e-7


# -- values next to each other -----------------------------------------------------------------


@pytest.mark.parametrize("end", ["low", "high", "both values"])
def test_values_one_rounding_apart(end):
    """0.3 and 0.1 + 0.2 at the end of the range: hinges there must not divide by 0."""
    rng = np.random.default_rng(0)
    others = {"low": 1 + rng.uniform(size=80), "high": 0.2 * rng.uniform(size=80)}
    twins = np.where(np.arange(40) % 2, 0.3, 0.1 + 0.2)
    x = np.concatenate([twins, others.get(end, twins)])
    y = np.arange(x.size) % 4 == 0
    assert np.unique(x)[1] > 0.3 or end == "high"
    features = make([Hinge()], x[:, None])[1]
    assert np.isfinite(features.columns()).all()
    assert np.isfinite(features.moments(np.full(x.size, 1 / x.size))).all()
    model = mx.MaxentDensity("lqh", solver=mx.ProxNewton(max_iter=20), verbose=0)
    assert model.fit(x[:, None], y).gap_ <= model.tol


@pytest.mark.parametrize("noise", [1e-15, 1e-13, 1e-11])
@pytest.mark.parametrize("end", [0.0, 1.0])
def test_rounding_noise_at_the_end_of_the_range(noise, end):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:, 0] = rng.uniform(size=200)
    X[30:90, 0] = end + noise * rng.integers(1, 9, size=60)
    X[100:120, 0] = end + (10 * noise if end else 0)
    model = mx.MaxentDensity("h", solver=mx.ProxNewton(max_iter=20), verbose=0)
    assert model.fit(X, np.arange(200) < 40).gap_ <= model.tol


def test_skewed_variables_lose_no_digits():
    """Hinges with knots near 1e-9 of the range: their large slopes must not be left behind."""
    X = np.exp(3.5 * np.random.default_rng(4).normal(size=(60, 3)))
    check_map(make([Hinge()], X)[1], dense([Hinge()], X), atol=1e-10)


# -- categories and schemas --------------------------------------------------------------------


def categories(form):
    rng = np.random.default_rng(2)
    text = rng.choice(["bog", "fen", "heath"], 50)
    x = rng.normal(size=50)
    return {
        "array": np.array(list(zip(x, text, strict=True)), dtype=object),
        "string": pd.DataFrame({"x": x, "soil": text}),
        "object": pd.DataFrame({"x": x, "soil": text.astype(object)}),
        "category": pd.DataFrame({"x": x, "soil": pd.Categorical(text)}),
    }[form], text


@pytest.mark.parametrize("form", ["array", "string", "object", "category"])
def test_text_and_categories_are_indicators(form):
    X, text = categories(form)
    operators, features = make([Linear(), Categorical()], X)
    x = np.asarray(X)[:, 0].astype(float)
    columns = np.column_stack([unit(x), *(text == level for level in ("bog", "fen", "heath"))])
    check_map(features, columns.astype(float))
    name = "x1" if form == "array" else "soil"
    assert operators[1].names() == [f"{name}={level}" for level in ("bog", "fen", "heath")]


@pytest.mark.parametrize("levels", [[3, 1, 7], [0.5, 2.0, 1.5], [True, False, True]])
def test_pandas_categories_of_numbers_are_categories(levels):
    codes = np.arange(30) % 3
    X = pd.DataFrame({"x": np.arange(30.0), "soil": pd.Categorical(np.array(levels)[codes])})
    schema = Schema.from_table(X)
    assert schema.categorical == ("soil",)
    assert schema.levels == (tuple(sorted(set(levels))),)


@pytest.mark.parametrize("kind", [np.int64, np.int16, np.float64, np.float32])
def test_numbers_named_as_categories(kind):
    codes = np.array([7, 3, 3, 11, 7, 7])
    X = np.column_stack([np.arange(6), codes]).astype(kind)
    for column in (1, -1, np.int64(1), "x1"):
        (levels,) = fit_operators([Categorical()], X, categorical=[column])
        assert levels.levels == ((3, 7, 11),)
    _, features = make([Linear(), Categorical()], X, categorical=[1])
    expected = np.column_stack([np.arange(6) / 5, *(codes == k for k in (3, 7, 11))])
    np.testing.assert_allclose(features.columns(), expected)


def test_occupied_levels_alone():
    X = np.array([["a"], ["b"], ["b"], ["c"]], dtype=object)
    (levels,) = fit_operators([Categorical(occupied=True)], X, presences=[0, 3])
    assert levels.names() == ["x0=a", "x0=c"]
    np.testing.assert_array_equal(
        make([Categorical(occupied=True)], X, [0, 3])[1].columns(),
        [[1, 0], [0, 0], [0, 0], [0, 1]],
    )
    assert fit_operators([Categorical()], np.array([["a"], ["a"]], dtype=object)) == []


def test_unseen_levels_warn_and_have_no_effect():
    X, _ = categories("string")
    schema = Schema.from_table(X)
    (levels,) = fit_operators([Categorical()], X)
    new = pd.DataFrame({"x": [0.0, 1.0, 2.0], "soil": ["fen", "lake", "moor"]})
    with pytest.warns(UserWarning, match=r"soil: levels 'lake', 'moor' were not there at the fit"):
        cells = schema.read(new)
    features = bind([levels], cells)
    np.testing.assert_array_equal(features.columns(), [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(features.scores(np.array([1.0, 2.0, 3.0])), [2, 0, 0])
    np.testing.assert_allclose(features.moments(np.full(3, 1 / 3)), [0, 1 / 3, 0])


def test_columns_that_are_not_there():
    X = pd.DataFrame({"rain": [1.0, 2.0], "temp": [0.0, 1.0]})
    for column in ("soil", 2, -3, 1.5, None):
        with pytest.raises(ValueError, match=r"categorical column .* is not in X; .* rain, temp"):
            Schema.from_table(X, [column])


def test_mixed_and_wrong_types():
    mixed = pd.DataFrame({"x": [1.0, 2.0, 3.0], "soil": np.array(["a", 1, "b"], dtype=object)})
    with pytest.raises(ValueError, match=r"'soil' mixes types: \['int', 'str'\]; use one type"):
        Schema.from_table(mixed)
    numbers = Schema.from_table(pd.DataFrame({"x": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=r"column 'x' holds .*wet.*; give numbers, or name it in"):
        numbers.read(pd.DataFrame({"x": np.array([1.0, "wet"], dtype=object)}))
    with pytest.raises(ValueError, match="column 'x' has dtype datetime64"):
        numbers.read(pd.DataFrame({"x": pd.to_datetime(["2020-01-01", "2020-01-02"])}))
    with pytest.raises(ValueError, match="X has 2 columns, the model was fitted with 1: x"):
        numbers.read(pd.DataFrame({"x": [1.0], "y": [2.0]}))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_values_are_named(bad):
    X = pd.DataFrame({"rain": [1.0, bad, 2.0], "temp": [0.0, 1.0, bad], "slope": [1.0, 2.0, 3.0]})
    schema = Schema.from_table(X)
    with pytest.raises(ValueError, match=r"(NaN|infinity): 2 rows, in rain, temp\. Drop them"):
        schema.read(X)
    if np.isinf(bad):  # a missing value is NaN
        with pytest.raises(ValueError, match="infinity"):
            schema.read(X, missing=True)
    else:
        assert schema.read(X, missing=True).n_cells == 3


def test_missing_rows():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0], "soil": ["a", "b", None, "c"]})
    assert missing_rows(frame).tolist() == [False, True, True, False]
    integers = pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64")})
    assert missing_rows(integers).tolist() == [False, True, False]


def test_missing_levels_are_missing_values():
    """None in a text column is no level: an error, as NaN in a number is."""
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0], "soil": ["a", None, "b"]})
    schema = Schema.from_table(X)
    assert schema.levels == (("a", "b"),)
    with pytest.raises(ValueError, match=r"soil"):
        schema.read(X)


def test_cells_and_the_fit_share_no_memory_with_the_input():
    X = np.random.default_rng(0).normal(size=(30, 2))
    kept = X.copy()
    operators = fit_operators(CLASSES["all"], X)
    cells = Schema.from_table(X).read(X)
    before = bind(operators, cells).columns()
    X[:] = 0
    np.testing.assert_array_equal(bind(operators, cells).columns(), before)
    np.testing.assert_array_equal(cells.values, kept.T)
    assert isinstance(cells.take(np.array([2, 3])), Cells)
    assert cells.take(np.array([2, 3])).n_cells == 2
