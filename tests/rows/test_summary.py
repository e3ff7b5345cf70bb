"""Operators from merged summaries of blocks against those of the whole table in memory."""

import itertools
import pickle
from dataclasses import fields

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxent.density import Points
from maxent.features import (
    Categorical,
    FeatureClass,
    Hinge,
    Interaction,
    Linear,
    Schema,
    Square,
    TableSummary,
    Threshold,
    additive,
    fit_from_summary,
    fit_operators,
    merge_all,
    summary_options,
)
from maxent.features.cells import take_rows

CLASSES = {
    "linear": [Linear()],
    "square": [Square()],
    "hinge": [Hinge()],
    "hinge20": [Hinge(20)],
    "threshold": [Threshold()],
    "threshold10": [Threshold(10)],
    "interaction": [Interaction()],
    "levels": [Categorical()],
    "occupied": [Categorical(occupied=True)],
    "all": [Linear(), Square(), Hinge(), Threshold(10), Interaction(), Categorical(occupied=True)],
}
EASY = settings(max_examples=25, deadline=None, derandomize=True)


def column(rng, kind, n):
    """A column whose values are of one kind: ties, signs, constants and sizes of all sorts."""
    if kind == "gamma32":
        return rng.gamma(1.0, 30.0, n).astype(np.float32)
    if kind == "int16":
        return rng.integers(-20, 20, n).astype(np.int16)
    if kind == "int64":
        return rng.integers(-(2**40), 2**40, n)
    if kind == "bool":
        return rng.random(n) < 0.3
    if kind == "constant":
        return np.full(n, 4.0)
    if kind == "huge":
        return rng.normal(size=n) * 10.0 ** rng.uniform(-5, 250, n)
    if kind == "tiny":
        return rng.normal(size=n) * 1e-200
    if kind == "positive":
        return rng.uniform(3, 9, n)
    if kind == "text":
        return rng.choice(["wet", "dry", "mixed", "rock"], n, p=[0.6, 0.3, 0.08, 0.02])
    if kind == "category":
        return pd.Categorical(rng.integers(3, 8, n))
    return rng.normal(size=n)


KINDS = ["normal", "gamma32", "int16", "int64", "bool", "constant", "huge", "tiny", "positive"]
KINDS += ["text", "category"]


def cut(rng, X, parts):
    """Blocks of rows, some of them empty."""
    edges = np.sort(rng.integers(0, len(X) + 1, parts - 1))
    edges = [0, *edges, edges[-1] if len(edges) else 0, len(X)]
    return [take_rows(X, slice(a, b)) for a, b in itertools.pairwise(edges)]


def same(one, other):
    assert [type(o) for o in one] == [type(o) for o in other]
    for mine, theirs in zip(one, other, strict=True):
        for field in fields(mine):
            a, b = getattr(mine, field.name), getattr(theirs, field.name)
            if isinstance(a, np.ndarray):
                assert a.dtype == b.dtype, field.name
                assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), field.name
            else:
                assert a == b, field.name


def from_blocks(classes, blocks, presences, categorical=(), **options):
    options = summary_options(classes) | options
    merged = merge_all(TableSummary.from_rows(X, categorical, **options) for X in blocks)
    merged = pickle.loads(pickle.dumps(merged))
    return fit_from_summary(classes, merged, merged.schema.read(presences)), merged


@pytest.mark.parametrize("name", CLASSES)
@EASY
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), st.integers(0, 10**6))
def test_operators_of_frames_are_those_of_the_whole_table(name, kinds, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 120))
    X = pd.DataFrame({f"c{j}": column(rng, kind, n) for j, kind in enumerate(kinds)})
    categorical = ["c0"] if kinds[0] == "int16" else []
    rows = rng.choice(n, min(n, 9), replace=False)
    whole = fit_operators(CLASSES[name], X, rows, categorical)
    blocks = cut(rng, X, int(rng.integers(1, 8)))
    found, merged = from_blocks(CLASSES[name], blocks, X.iloc[rows], categorical)
    same(found, whole)
    schema = Schema.from_table(X, categorical)
    assert merged.schema == schema
    assert merged.n_rows == n
    assert merged.dtype == schema.read(X).values.dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int32])
@EASY
@given(st.integers(0, 10**6))
def test_operators_of_arrays_are_those_of_the_whole_table(dtype, seed):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(int(rng.integers(2, 300)), 3)) * 30).astype(dtype)
    rows = rng.integers(0, len(X), 7)
    whole = fit_operators(CLASSES["all"], X, rows, [2])
    found, merged = from_blocks(CLASSES["all"], cut(rng, X, 5), X[rows], [2])
    same(found, whole)
    assert merged.dtype == Schema.from_table(X, [2]).read(X).values.dtype


def test_all_values_up_to_the_most_knots_are_exact():
    rng = np.random.default_rng(0)
    X = rng.permutation(additive.MAX_KNOTS + 1)[:, None] ** 1.5
    blocks = np.array_split(np.repeat(X, 2, axis=0), 7)
    found, merged = from_blocks([Hinge(), Threshold()], blocks, X[:50])
    assert merged.rank_error == 0
    same(found, fit_operators([Hinge(), Threshold()], X, np.arange(50)))
    assert found[0].n_features == 3 * additive.MAX_KNOTS


@pytest.mark.parametrize("kind", [Hinge(), Threshold()], ids=["hinge", "threshold"])
@pytest.mark.parametrize("draw", ["normal", "gamma32", "int16"])
def test_with_more_values_ranks_of_knots_are_within_the_stated_error(monkeypatch, kind, draw):
    rng = np.random.default_rng(1)
    x = np.unique(column(rng, draw, 40_000))
    if draw == "int16":
        x = np.arange(-4000, 4000, dtype=np.int16)
    X, size = rng.permutation(x)[:, None], 200
    rows = rng.choice(len(X), 30, replace=False)
    monkeypatch.setattr(additive, "MAX_KNOTS", size - 1)
    (whole,) = fit_operators([kind], X, rows)
    (found,), merged = from_blocks([kind], np.array_split(X, 9), X[rows], size=size)
    error = merged.rank_error
    assert 0 < error <= 5 / (size - 1)
    assert found.low == whole.low
    assert found.high == whole.high
    assert found.n_features <= 2 * (size - 1)

    def ranks(knots):
        return np.searchsorted(np.sort(X[:, 0]), knots) / len(X)

    # a knot of the whole table has one of the summary within the error and a step of the sketch
    mine, theirs = ranks(found.knot), ranks(whole.knot)
    nearest = np.abs(mine[:, None] - theirs).min(axis=0)
    assert nearest.max() <= error + 1 / (size - 1)
    # there is a knot on either side of each presence, with no other presence between
    for value in np.unique(X[rows, 0].astype(float)):
        place = np.searchsorted(np.unique(found.knot), value)
        around = np.unique(found.knot)[max(place - 1, 0) : place + 1]
        assert np.abs(ranks(around) - ranks(value)).max() <= error + 1 / (size - 1)


def test_means_and_shares_are_those_of_points():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({k: column(rng, k, 500) for k in ("normal", "int16", "text", "category")})
    weight = rng.gamma(1.0, size=500) * (rng.random(500) < 0.8)
    weight[-60:] = 0.0  # a block without any mass
    points = Points.from_table(X, np.arange(500) < 5, weight)
    cuts = [0, 0, 100, 400, 440, 500]
    parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    merged = merge_all(TableSummary.from_rows(X.iloc[p], weight=weight[p]) for p in parts)
    values, shares = merged.mean_place()
    expected_values, expected_shares = points.mean_place()
    np.testing.assert_allclose(values, expected_values, rtol=1e-12)
    for found, expected in zip(shares, expected_shares, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert merged.mass == pytest.approx(points.n_points, rel=1e-14)
    assert (merged.n_read, merged.n_rows) == (500, points.cells.n_cells)
    np.testing.assert_array_equal((merged.low, merged.high), points.ranges)
    assert merged.constant == points.constant


def test_levels_that_differ_between_blocks_become_the_union():
    blocks = [["b", "a"], [], ["c"], ["a", "d"]]
    frames = [pd.DataFrame({"soil": pd.Series(b, dtype=object)}) for b in blocks]
    merged = merge_all(TableSummary.from_rows(X) for X in frames)
    assert merged.schema.levels == (("a", "b", "c", "d"),)
    np.testing.assert_array_equal(merged.level_mass[0], [2, 1, 1, 1])
    numbers = [pd.DataFrame({"k": [1, 2]}), pd.DataFrame({"k": [2.5, 1.0]})]
    merged = merge_all(TableSummary.from_rows(X, ["k"]) for X in numbers)
    assert merged.schema == Schema.from_table(pd.concat(numbers), ["k"])
    assert all(type(level) is float for level in merged.schema.levels[0])


def test_polars_frames():
    X = pl.DataFrame({"x": [1.0, 3.0, 2.0, 7.0], "soil": ["a", "b", "c", "a"]})
    found, _ = from_blocks(CLASSES["all"], [X[:0], X[:3], X[3:]], X[1:2])
    same(found, fit_operators(CLASSES["all"], X, [1]))


def test_a_column_of_two_types_is_named():
    text, numbers = pd.DataFrame({"x": [1.0], "soil": ["a"]}), pd.DataFrame({"x": [1.0], "soil": 2})
    one, two = TableSummary.from_rows(text, block=0), TableSummary.from_rows(numbers, block=7)
    with pytest.raises(ValueError, match=r"column 'soil' holds .* \(block 0 and block 7\)"):
        one.merge(two)
    one, two = (TableSummary.from_rows(X, ["soil"]) for X in (text, numbers))
    with pytest.raises(ValueError, match=r"'soil' mixes types .* int, str; use one type"):
        two.merge(one)


def test_empty_blocks_say_nothing_of_types():
    full = pd.DataFrame({"x": np.float32([1, 2]), "soil": ["a", "b"]})
    empty = pd.DataFrame({"x": pd.Series(dtype=np.float64), "soil": pd.Series(dtype=np.float64)})
    for blocks in ([empty, full], [full, empty], [empty, full, empty]):
        merged = merge_all(TableSummary.from_rows(X, values=True, products=True) for X in blocks)
        assert merged.schema == Schema.from_table(full)
        assert merged.dtype == np.float32
    nothing = TableSummary.from_rows(empty).merge(TableSummary.from_rows(empty))
    assert nothing.n_read == nothing.n_rows == 0
    with pytest.raises(ValueError, match="has no row"):
        fit_from_summary([Linear()], nothing, nothing.schema.read(empty))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (np.zeros((2, 3)), r"2 columns \(x0, x1\), and 3 columns"),
        (pd.DataFrame({"x1": [1.0], "x0": [2.0]}), r"\(x0, x1\), and 2 columns \(x1, x0\)"),
        (np.zeros((0, 3)), "3 columns"),
    ],
)
def test_different_columns_are_told_with_the_blocks(other, words):
    first = TableSummary.from_rows(np.zeros((2, 2)), block=3)
    with pytest.raises(ValueError, match=f"block 3 and block 5 have different columns.*{words}"):
        first.merge(TableSummary.from_rows(other, block=5))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_counted_and_named(bad):
    X = np.ones((6, 3))
    X[[1, 4], 2] = bad
    with pytest.raises(ValueError, match=r"^block 8: Input X contains .*2 rows, in x2"):
        TableSummary.from_rows(X, block=8)
    with pytest.raises(ValueError, match=r"^Input X contains .*2 rows, in x2"):
        TableSummary.from_rows(X)
    frame = pd.DataFrame({"soil": ["a", None]})
    with pytest.raises(ValueError, match=r"^block north: column 'soil' .* 1 rows"):
        TableSummary.from_rows(frame, block="north")


class OnlyFit(FeatureClass):
    def fit(self, cells, schema, presences):
        return Linear().fit(cells, schema, presences)


class OwnHinge(Hinge):
    def fit(self, cells, schema, presences):
        return Linear().fit(cells, schema, presences)


@pytest.mark.parametrize("kind", [OnlyFit(), OwnHinge()])
def test_a_class_that_needs_all_cells_is_named(kind):
    X = np.arange(6.0)[:, None]
    same(fit_operators([kind], X), fit_operators([Linear()], X))
    summary = TableSummary.from_rows(X, values=True)
    for attempt in (
        lambda: summary_options([Linear(), kind]),
        lambda: fit_from_summary([kind], summary, summary.schema.read(X)),
    ):
        with pytest.raises(TypeError, match=f"{type(kind).__name__} is fitted to all cells"):
            attempt()


def test_what_was_not_asked_for_is_told():
    X = np.arange(6.0).reshape(3, 2)
    summary = TableSummary.from_rows(X)
    for kind, name in ((Hinge(), "values"), (Interaction(), "products")):
        with pytest.raises(ValueError, match=f"need the {name} .* {name}=True"):
            fit_from_summary([kind], summary, summary.schema.read(X))
        with pytest.raises(ValueError, match=f"one summary has {name}"):
            summary.merge(TableSummary.from_rows(X, **{name: True}))


def test_presences_must_be_rows_of_the_table():
    X = pd.DataFrame({"x": [1.0, 2.0], "soil": ["a", "b"]})
    summary = TableSummary.from_rows(X)
    strange = pd.DataFrame({"x": [3.0], "soil": ["z"]})
    with pytest.warns(UserWarning, match="levels 'z' were not there"):
        cells = summary.schema.read(strange)
    with pytest.raises(ValueError, match="values of x, soil that no row of the table has"):
        fit_from_summary([Linear()], summary, cells)
    other = np.ones((1, 3))
    with pytest.raises(ValueError, match="3 continuous and 0 categorical columns"):
        fit_from_summary([Linear()], summary, Schema.from_table(other).read(other))
