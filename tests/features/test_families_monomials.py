"""Monomials and splines against enumeration and dense matrices written from the formulas."""

from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent.families import Monomials, Splines, Trees, empirical_complexity
from maxent.families.monomials import BoundFactors, MonomialTerms
from maxent.families.splines import SplineTerms
from maxent.features import Cells, OperatorMap, Schema, joined

N = 1300  # more than two tiles of the kernels


def frame(n=N, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    columns = {
        "temp": rng.normal(15, 8, n),
        "precip": rng.gamma(1.5, 400, n),
        "flat": np.full(n, 3.25),
        "slope": np.round(rng.gamma(0.5, 4, n)),
        "wet": rng.integers(0, 2, n),
        "rare": np.where(rng.random(n) < 0.02, rng.gamma(2, 1, n), 0),  # no quantile inside
    }
    X = pd.DataFrame({name: column.astype(dtype) for name, column in columns.items()})
    X["biome"] = pd.Categorical(rng.choice([3, 5, 7], n, p=[0.5, 0.3, 0.2]))
    X["soil"] = pd.Categorical(rng.choice(["clay", "sand"], n))
    X["world"] = pd.Categorical(["earth"] * n)
    return X


def read(X):
    schema = Schema.from_table(X)
    return schema.read(X), schema


def units(cells):
    """Every variable scaled to [0, 1] in long doubles; NaN columns for constants are left out."""
    x = cells.values.astype(np.longdouble)
    low, high = x.min(axis=1), x.max(axis=1)
    return {v: (x[v] - low[v]) / (high[v] - low[v]) for v in np.flatnonzero(high > low)}


def raw_features(cells, schema):
    """The raw features that are not constant: indicators first, then variables."""
    found = {}
    for row, (name, levels) in enumerate(zip(schema.categorical, schema.levels, strict=True)):
        for code, level in enumerate(levels):
            column = (cells.codes[row] == code).astype(np.longdouble)
            if 0 < column.sum() < column.size:
                found[f"{name}={level}"] = column
    return found | {schema.continuous[v]: u for v, u in units(cells).items()}


def quantile_knots(x, count):
    values = np.sort(x)
    knots = values[[round(k * (x.size - 1) / (count + 1)) for k in range(1, count + 1)]]
    knots = knots[(knots > x.min()) & (knots < x.max())]
    if not knots.size:
        values = np.unique(x).astype(float)
        middles = (values[1:] + values[:-1]) / 2
        place = [round(k * (middles.size - 1) / (count + 1)) for k in range(1, count + 1)]
        knots = middles[place]
    return np.unique([float(f"{t:.10g}") for t in knots])


def hinges(cells, schema, count):
    """Both hinges of every quantile knot of every variable."""
    found = {}
    for v in units(cells):
        x, name = cells.values[v].astype(np.longdouble), schema.continuous[v]
        for t in quantile_knots(cells.values[v], count):
            text = f"{t:.10g}"
            found[f"hinge({name}>{text})"] = np.maximum(x - t, 0) / (x.max() - t)
        for t in quantile_knots(cells.values[v], count):
            text = f"{t:.10g}"
            found[f"hinge({name}<{text})"] = np.maximum(t - x, 0) / (t - x.min())
    return found


def product_name(factors, order):
    powers = Counter(factors)
    ordered = sorted(powers, key=list(order).index)
    return " * ".join(f if powers[f] == 1 else f"{f}^{powers[f]}" for f in ordered)


def greedy(raw, r, levels):
    """The best product of each number of factors by enumeration: (name, value)."""
    m, factors, found = np.ones(r.size, dtype=np.longdouble), [], []
    for _ in range(levels):
        values = {
            name: float(r @ (m * psi))
            for name, psi in raw.items()
            if not factors or np.abs(r * m * (1 - psi)).sum() > 1e-12 * np.abs(r * m).sum()
        }
        best = max(values, key=lambda name: abs(values[name]), default=None)
        if best is None or abs(values[best]) <= 1e-12 * np.abs(r).sum():
            break
        factors.append(best)
        m = m * raw[best]
        found.append((product_name(factors, raw), values[best]))
    return found


def weights(n, kind, seed=1):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n))
    observed = np.bincount(rng.integers(0, n, 40), minlength=n) / 40
    return {
        "density": p - observed,
        "negative": observed - p,
        "noise": rng.normal(size=n),
        "shifted": rng.normal(0.3, 1, size=n),  # sums to anything
        "sparse": np.where(rng.random(n) < 0.02, rng.normal(size=n), 0.0),
    }[kind]


KINDS = ["density", "negative", "noise", "shifted", "sparse"]


def same(found, expected, scale):
    assert [p.operator.names() for p in found] == [[name] for name, _ in expected]
    assert [p.level for p in found] == list(range(1, len(expected) + 1))
    values = [value for _, value in expected]
    np.testing.assert_allclose([p.value for p in found], values, atol=1e-13 * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_monomials_are_those_of_the_enumeration(kind, dtype):
    for seed in range(4):
        cells, schema = read(frame(seed=seed, dtype=dtype))
        assert cells.values.dtype == dtype
        r = weights(N, kind, seed)
        found = Monomials(max_degree=5).search(cells, schema).propose(r)
        same(found, greedy(raw_features(cells, schema), r, 5), np.abs(r).sum())
        for p in found:
            assert p.operator.n_features == 1
            np.testing.assert_allclose(p.operator.bind(cells).moments(r), [p.value], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_splines_are_those_of_the_enumeration(kind, dtype):
    for seed in range(3):
        cells, schema = read(frame(seed=seed, dtype=dtype))
        r = weights(N, kind, seed)
        found = Splines(max_factors=3, knots=9).search(cells, schema).propose(r)
        same(found, greedy(hinges(cells, schema, 9), r, 3), np.abs(r).sum())
        for p in found:
            np.testing.assert_allclose(p.operator.bind(cells).moments(r), [p.value], atol=1e-12)


def test_r_is_not_changed_and_both_signs_give_the_same_features():
    cells, schema = read(frame())
    r = weights(N, "shifted")
    for family in (Monomials(), Splines()):
        search, before = family.search(cells, schema), r.copy()
        up, down = search.propose(r), search.propose(-r)
        assert [p.operator.names() for p in up] == [p.operator.names() for p in down]
        assert [p.value for p in up] == [-p.value for p in down]
        np.testing.assert_array_equal(r, before)


def test_an_indicator_is_taken_once():
    cells, schema = read(frame())
    inside = cells.codes[0] == 1
    r = np.where(inside, 1.0, -0.01)
    names = [
        p.operator.names()[0] for p in Monomials(max_degree=4).search(cells, schema).propose(r)
    ]
    assert names[0] == "biome=5"
    assert len(names) == 4
    assert all(name.startswith("biome=5 * ") and "biome=5^" not in name for name in names[1:])


def test_a_first_factor_may_be_1_wherever_there_is_weight():
    cells, schema = read(frame())
    r = np.where(cells.codes[0] == 1, 1.0, 0.0)
    first = Monomials(max_degree=1).search(cells, schema).propose(r)[0]
    assert first.operator.names() == ["biome=5"]
    assert first.value == r.sum()


def test_constants_are_left_out():
    n = 50
    flat = np.full(n, 2.0)
    X = pd.DataFrame({"a": flat, "b": pd.Categorical(["one"] * n)})
    for family in (Monomials(), Splines()):
        assert family.search(*read(X)).propose(np.ones(n)) == []
    X["c"] = np.arange(n)
    for family in (Monomials(3), Splines(3, knots=5)):
        found = family.search(*read(X)).propose(np.ones(n))
        assert len(found) == 3
        assert all(np.isfinite(p.value) for p in found)
        assert all("c" in p.operator.names()[0] for p in found)
        assert not any("a" in n or "b=" in n for p in found for n in p.operator.names())


@pytest.mark.parametrize("width", [1e-310, 5e-324, 1.7e308])
def test_ranges_beyond_all_measure_are_constants(width):
    X = np.column_stack([np.linspace(-1, 1, 20) * width, np.arange(20.0)])
    for family in (Monomials(), Splines()):
        for p in family.search(*read(X)).propose(np.ones(20)):
            assert np.isfinite(p.value)
            assert "x0" not in p.operator.names()[0]


def test_huge_degrees_stop_by_themselves():
    X = np.array([[0.0], [0.5], [1.0]])
    search = Monomials(max_degree=1000).search(*read(X))
    fading = search.propose(np.array([1.0, 1.0, 0.0]))  # 0.5^k against 1e-12 of the weights
    assert len(fading) == 38
    assert fading[-1].operator.names() == ["x0^38"]
    assert fading[-1].value == 0.5**38
    still = search.propose(np.array([0.0, 1.0, 1.0]))  # 1 + 0.5^k: no change in the end
    assert 38 <= len(still) <= 42
    assert search.propose(np.zeros(3)) == []


def test_categories_alone_and_variables_alone():
    X = frame()
    only = X[["biome", "soil"]]
    r = weights(N, "noise")
    cells, schema = read(only)
    same(
        Monomials().search(cells, schema).propose(r),
        greedy(raw_features(cells, schema), r, 4),
        np.abs(r).sum(),
    )
    assert Splines().search(cells, schema).propose(r) == []
    cells, schema = read(X[["temp", "precip"]])
    same(
        Monomials().search(cells, schema).propose(r),
        greedy(raw_features(cells, schema), r, 4),
        np.abs(r).sum(),
    )


def test_r_of_another_length_is_refused():
    search = Monomials().search(*read(frame()))
    with pytest.raises(ValueError, match=r"shape \(3,\), expected \(1300,\)"):
        search.propose(np.ones(3))


# -- chosen features ---------------------------------------------------------------------------


def monomials(cells, schema, count=23, seed=5):
    """Random products, their names and dense columns."""
    rng = np.random.default_rng(seed)
    raw = raw_features(cells, schema)
    names, columns, operators = list(raw), [], []
    offset = sum(map(len, schema.levels))
    number = {f"{n}={level}": i for i, (n, level) in enumerate(_levels(schema))}
    number |= {name: offset + v for v, name in enumerate(schema.continuous)}
    x = cells.values.astype(np.float64)
    for j in range(count):
        size = 11 if j == 2 else 1 + j % 5
        chosen = rng.choice(names, size)
        columns.append(np.prod([raw[name] for name in chosen], axis=0))
        factor, power = np.unique([number[name] for name in chosen], return_counts=True)
        cuts = np.array([0, factor.size], dtype=np.int32)
        operators.append(
            MonomialTerms(
                schema.continuous,
                x.min(axis=1),
                x.max(axis=1),
                cuts,
                power.astype(np.int32),
                schema.categorical,
                schema.levels,
                factor.astype(np.int32),
            )
        )
    return operators, np.array(columns, dtype=np.float64).T


def _levels(schema):
    pairs = zip(schema.categorical, schema.levels, strict=True)
    return [(name, level) for name, levels in pairs for level in levels]


def splines(cells, schema, count=23, seed=5):
    rng = np.random.default_rng(seed)
    x = cells.values.astype(np.float64)
    low, high = x.min(axis=1), x.max(axis=1)
    varying = np.flatnonzero(high > low)
    columns, operators = [], []
    for j in range(count):
        size = 1 + j % 3
        variable = rng.choice(varying, size).astype(np.int32)
        knot = low[variable] + (high - low)[variable] * rng.uniform(0.05, 0.95, size)
        rising = rng.random(size) < 0.5
        power = rng.integers(1, 4, size).astype(np.int32)
        column = np.ones(cells.n_cells)
        for v, t, up, e in zip(variable, knot, rising, power, strict=True):
            column *= hinge(x[v], t, up, low[v], high[v]) ** e
        columns.append(column)
        cuts = np.array([0, size], dtype=np.int32)
        operators.append(
            SplineTerms(schema.continuous, low, high, cuts, power, variable, knot, rising)
        )
    return operators, np.array(columns).T


def hinge(x, t, up, low, high):
    return np.maximum(x - t, 0) / (high - t) if up else np.maximum(t - x, 0) / (t - low)


def bound(make, dtype=np.float64, n=N, clamp=False):
    cells, schema = read(frame(n=n, dtype=dtype))
    operators, F = make(cells, schema)
    (operator,) = joined(operators)
    return operator.bind(cells, clamp), F


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [monomials, splines])
def test_bound_features_are_the_dense_matrix(make, dtype, clamp):
    terms, F = bound(make, dtype, clamp=clamp)
    rng = np.random.default_rng(2)
    n, k = F.shape
    assert terms.n_features == k == 23
    assert F.min() >= 0
    assert F.max() <= 1 + 1e-12
    p, w, theta = rng.random(n), rng.normal(size=k), rng.normal(size=n)
    expected = theta + F @ w
    terms.add_scores(w, theta)
    np.testing.assert_allclose(theta, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(terms.moments(p), p @ F, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(terms.squares(p), p @ F**2, rtol=1e-11, atol=1e-14)
    few = np.zeros(n)  # most tiles have no mass
    few[700] = 2.0
    np.testing.assert_allclose(terms.moments(few), 2 * F[700], rtol=1e-11, atol=1e-14)
    out = np.empty((k, 900))
    terms.write(p, 350, 1250, out)
    np.testing.assert_allclose(out, (p[:, None] * F)[350:1250].T, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("make", [monomials, splines])
def test_weights_of_zero_cost_nothing(make):
    terms, F = bound(make)
    w = np.zeros(F.shape[1])
    theta = np.zeros(N)
    terms.add_scores(w, theta)
    assert not theta.any()
    w[[1, 4]] = 0.5, -2.0
    terms.add_scores(w, theta)
    np.testing.assert_allclose(theta, F @ w, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("make", [monomials, splines])
def test_some_features_and_some_cells(make):
    terms, F = bound(make)
    index, rows = np.array([0, 2, 7, 8, 22]), np.random.default_rng(0).integers(0, N, 600)
    p = np.random.default_rng(1).random(600)
    for part in (terms.restrict(index).take(rows), terms.take(rows).restrict(index)):
        assert part.n_features == 5
        np.testing.assert_allclose(part.moments(p), p @ F[rows][:, index], rtol=1e-11)
        names = terms.operator().names()
        assert part.operator().names() == [names[j] for j in index]
        assert part.operator().kinds().tolist() == [terms.operator().letter] * 5
    assert terms.restrict(np.empty(0, dtype=np.intp)).moments(np.ones(N)).shape == (0,)


@pytest.mark.parametrize("make", [monomials, splines])
def test_gram_of_a_map_is_the_dense_one(make):
    terms, F = bound(make, n=2500)
    rng = np.random.default_rng(3)
    d, u = rng.dirichlet(np.ones(2500)), rng.dirichlet(np.ones(2500))
    features = OperatorMap([terms], 2500)
    expected = F.T @ (d[:, None] * F) - np.outer(F.T @ u, F.T @ u)
    np.testing.assert_allclose(features.gram(d, u), expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(features.columns(), F, rtol=1e-11, atol=1e-14)
    w = rng.normal(size=F.shape[1])
    np.testing.assert_allclose(features.scores(w), F @ w, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("make", [monomials, splines])
def test_threads_do_not_change_the_answer(make, monkeypatch):
    terms, F = bound(make, n=20_000)
    p, w = np.random.default_rng(0).random(20_000), np.arange(23.0) - 7.5
    for threads in ("1", "3"):
        monkeypatch.setenv("MAXENT_NUM_THREADS", threads)
        theta = np.zeros(20_000)
        terms.add_scores(w, theta)
        np.testing.assert_allclose(theta, F @ w, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(terms.moments(p), p @ F, rtol=1e-11)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_propose_the_same(threads, monkeypatch):
    monkeypatch.setenv("MAXENT_NUM_THREADS", threads)
    cells, schema = read(frame(n=20_000))
    r = weights(20_000, "shifted")
    found = Monomials().search(cells, schema).propose(r)
    same(found, greedy(raw_features(cells, schema), r, 4), np.abs(r).sum())


@pytest.mark.parametrize("make", [monomials, splines])
def test_features_are_appended_in_order(make):
    cells, schema = read(frame())
    operators, F = make(cells, schema, count=8)
    family = Monomials() if make is monomials else Splines()
    terms = family.search(cells, schema).terms()
    p = np.random.default_rng(0).random(N)
    assert terms.operator() is None
    assert terms.n_features == 0
    assert terms.moments(p).shape == terms.squares(p).shape == (0,)
    theta = np.zeros(N)
    terms.add_scores(np.empty(0), theta)
    assert not theta.any()
    assert terms.restrict(np.empty(0, dtype=np.intp)).take(np.arange(3)).operator() is None
    for j, operator in enumerate(operators):
        terms.append(operator)
        assert terms.n_features == j + 1
        np.testing.assert_allclose(terms.moments(p), p @ F[:, : j + 1], rtol=1e-11)
        assert terms.operator().names() == [o.names()[0] for o in operators[: j + 1]]


def test_features_of_another_fit_are_refused():
    cells, schema = read(frame())
    (mono, *_), _ = monomials(cells, schema)
    (spline, *_), _ = splines(cells, schema)
    wider, names = read(frame(seed=9))
    (other, *_), _ = monomials(wider, names)
    terms = BoundFactors(cells)
    terms.append(mono)
    for foreign in (spline, other, mx.features.fit_operators([mx.Linear()], frame())[0]):
        assert mono.join(foreign) is None
        with pytest.raises(ValueError, match="cannot append"):
            terms.append(foreign)
    assert terms.n_features == 1
    with pytest.raises(ValueError, match=r"cannot append temp, .*, of Additive"):
        BoundFactors(cells).append(mx.features.fit_operators([mx.Linear()], frame())[0])


def test_names():
    cells, schema = read(frame())
    low, high = cells.values.min(axis=1), cells.values.max(axis=1)
    cuts = np.array([0, 1, 3, 5], dtype=np.int32)
    terms = MonomialTerms(
        schema.continuous, low, high, cuts, np.array([1, 1, 2, 1, 1]), schema.categorical,
        schema.levels, np.array([6, 6, 7, 0, 6]),
    )  # fmt: skip
    assert terms.names() == ["temp", "temp * precip^2", "biome=3 * temp"]
    assert terms.kinds().tolist() == ["m", "m", "m"]
    spline = SplineTerms(
        schema.continuous, low, high, np.array([0, 2]), np.array([1, 3]), np.array([0, 1]),
        np.array([12.3, 800.0]), np.array([True, False]),
    )  # fmt: skip
    assert spline.names() == ["hinge(temp>12.3) * hinge(precip<800)^3"]
    assert spline.kinds().tolist() == ["s"]


def test_knots_that_10_digits_do_not_tell_apart_keep_their_names_apart():
    x = 1.7e9 + np.arange(200) / 1024
    cells, schema = read(x[:, None])
    search = Splines(max_factors=1, knots=20).search(cells, schema)
    r = np.where(np.arange(200) > 100, 1.0, -1.0)
    names = {search.propose(np.roll(r, k))[0].operator.names()[0] for k in range(0, 200, 20)}
    assert len(names) > 3
    assert max(map(len, names)) > len("hinge(x0>1700000000)")


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_new_cells_outside_the_range(clamp, dtype):
    cells, schema = read(frame(dtype=dtype))
    low, high = (f(cells.values.astype(float), axis=1) for f in (np.min, np.max))
    middle, reach = (low + high) / 2, high - low
    rng = np.random.default_rng(0)
    values = (middle[:, None] + reach[:, None] * rng.uniform(-2, 2, (low.size, 300))).astype(dtype)
    codes = rng.integers(-1, 2, (3, 300)).astype(np.int32)  # -1: a level that is new
    new = Cells(values, codes)
    x = values.astype(float)
    u = (x - low[:, None]) / np.where(reach > 0, reach, 1)[:, None]
    u = np.clip(u, 0, 1) if clamp else u
    cuts = np.array([0, 1, 3, 5], dtype=np.int32)
    terms = MonomialTerms(
        schema.continuous, low, high, cuts, np.array([3, 1, 2, 1, 1]), schema.categorical,
        schema.levels, np.array([6, 6, 7, 0, 6]),
    ).bind(new, clamp)  # fmt: skip
    F = np.array([u[0] ** 3, u[0] * u[1] ** 2, (codes[0] == 0) * u[0]])
    theta = np.zeros(300)
    terms.add_scores(np.array([1.0, -2.0, 0.5]), theta)
    np.testing.assert_allclose(theta, np.array([1, -2, 0.5]) @ F, rtol=1e-11, atol=1e-11)
    assert clamp == (F.min() >= 0)
    knot = np.array([middle[0], low[1] + 0.3 * reach[1]])
    spline = SplineTerms(
        schema.continuous, low, high, np.array([0, 2], dtype=np.int32), np.array([1, 2]),
        np.array([0, 1]), knot, np.array([True, False]),
    )  # fmt: skip
    rise = hinge(x[0], knot[0], True, low[0], high[0])
    fall = hinge(x[1], knot[1], False, low[1], high[1])
    if clamp:
        rise, fall = np.minimum(rise, 1), np.minimum(fall, 1)
    p = rng.random(300)
    np.testing.assert_allclose(spline.bind(new, clamp).moments(p), [p @ (rise * fall**2)])


# -- saving ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [monomials, splines])
def test_operators_are_saved(make, tmp_path):
    cells, schema = read(frame())
    (operator,) = joined(make(cells, schema)[0])
    mx.save(operator, tmp_path / "terms.json")
    again = mx.load(tmp_path / "terms.json")
    assert type(again) is type(operator)
    assert again.names() == operator.names()
    p = np.random.default_rng(0).random(N)
    # the first of two calls may run in numpy, which sums in another order
    moments = [terms.bind(cells).moments(p) for terms in (again, operator)]
    np.testing.assert_allclose(*moments, rtol=1e-13)
    assert again.join(operator).n_features == 46


@pytest.mark.parametrize("family", [Monomials(max_degree=7), Splines(max_factors=3, knots=11)])
def test_families_are_saved(family, tmp_path):
    mx.save(family, tmp_path / "family.json")
    assert mx.load(tmp_path / "family.json") == family


@pytest.mark.parametrize(
    ("cuts", "power", "factor"),
    [
        ([0, 2], [1], [0]),
        ([0, 0], [], []),
        ([1, 1], [1], [0]),
        ([0, 1], [0], [0]),
        ([0, 1], [1], [2]),
        ([0, 1], [1], [-1]),
        ([0, 1], [1], [0, 1]),
        ([], [], []),
    ],
)
def test_factors_that_do_not_fit_are_refused(cuts, power, factor):
    arrays = (np.array(a, dtype=np.int32) for a in (cuts, power, factor))
    ends = np.zeros(2), np.ones(2)
    cuts, power, factor = arrays
    with pytest.raises(ValueError, match="factors of a MonomialTerms do not fit together"):
        MonomialTerms(("a", "b"), *ends, cuts, power, (), (), factor)


@pytest.mark.parametrize(("variable", "knot"), [(1, 0.5), (-1, 0.5), (0, 0.0), (0, 1.0)])
def test_hinges_that_do_not_fit_are_refused(variable, knot):
    one = np.ones(1, dtype=np.int32)
    with pytest.raises(ValueError, match="factors of a SplineTerms do not fit together"):
        SplineTerms(
            ("a",), np.zeros(1), np.ones(1), np.array([0, 1]), one, np.array([variable]),
            np.array([knot]), np.ones(1, dtype=bool),
        )  # fmt: skip


# -- complexity --------------------------------------------------------------------------------


def test_complexities():
    assert Monomials().complexity(3, 14, 116) == np.sqrt(2 * 3 * np.log(14) / 116)
    assert Monomials().complexity(2, 1, 50) == np.sqrt(2 * 2 * np.log(2) / 50)
    expected = np.sqrt(2 * 2 * np.log(2 * 14 * 64) / 116)
    assert Splines().complexity(2, 14, 116) == pytest.approx(expected, rel=1e-15)
    assert (Monomials(9).max_level, Splines(7).max_level) == (9, 7)


def test_the_bounds_are_above_the_complexity_of_records():
    cells, schema = read(frame())
    counts = np.bincount(np.random.default_rng(0).integers(0, N, 100), minlength=N)
    for family in (Monomials(2), Splines(2, knots=16)):
        search = family.search(cells, schema)
        found = [empirical_complexity(search, counts, level) for level in (1, 2)]
        assert 0 < found[0] <= found[1]
        for level in (1, 2):
            assert found[level - 1] <= family.complexity(level, 11, 100)


def test_the_complexity_of_records_has_no_absolute_value():
    """E sup (1/m) sum_i sigma_i phi(x_i) over all signs, of one feature and of enumerated ones."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(8, 2))
    signs = np.array(list(product([-1.0, 1.0], repeat=8))) / 8
    schema = Schema.from_table(X[:, :1])
    alone = Monomials(1).search(schema.read(X[:, :1]), schema)
    assert empirical_complexity(alone, np.ones(8), 1) == pytest.approx(0, abs=1e-15)
    schema = Schema.from_table(X)
    cells = schema.read(X)
    scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    stumps = [X[:, v] <= t for v in (0, 1) for t in X[:, v]]
    stumps += [~below for below in stumps]
    cases = [(Monomials(1), list(scaled.T)), (Trees(1), stumps), (Trees(1, bins=3), stumps)]
    for family, features in cases:
        search = family.search(cells, schema)
        exact = np.max(signs @ np.transpose(features), axis=1)
        found = empirical_complexity(search, np.ones(8), 1, draws=4000)
        assert found == pytest.approx(exact.mean(), abs=4 * exact.std() / 4000**0.5)
        size = np.abs(signs @ np.transpose(features)).max(axis=1).mean()
        assert size > 1.15 * exact.mean()  # with one it would be larger


@pytest.mark.parametrize("wrong", [0, -1, 2.0, "4", None, True, np.nan])
def test_counts_that_are_none_are_refused(wrong):
    for make in (Monomials, Splines, lambda k: Splines(knots=k)):
        with pytest.raises(ValueError, match=r"must be an integer >= 1, got"):
            make(wrong)
    with pytest.raises(ValueError, match="knots must be at most 65535, got 65536"):
        Splines(knots=65536)
