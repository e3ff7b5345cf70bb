"""Quantile sketches against numpy, merged in trees of any shape."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxent.features import QuantileSketch, merge_all

EASY = settings(max_examples=60, deadline=None, derandomize=True)
NUMBERS = st.one_of(
    st.integers(-6, 6).map(float), st.floats(-1e6, 1e6, allow_nan=False, width=32).map(float)
)
WEIGHTS = st.one_of(st.just(1.0), st.just(0.0), st.floats(0.0, 50.0))
BLOCK = st.lists(st.tuples(NUMBERS, WEIGHTS), max_size=60)


def at_or_below(values, weights, x):
    return np.array([weights[values <= t].sum() for t in x])


def merged_somehow(parts, data):
    """Neighbours made one until there is one: any tree over the parts."""
    parts = list(parts)
    while len(parts) > 1:
        i = data.draw(st.integers(0, len(parts) - 2))
        parts[i : i + 2] = [parts[i].merge(parts[i + 1])]
    return parts[0]


@EASY
@given(st.lists(BLOCK, min_size=1, max_size=7), st.integers(2, 40), st.data())
def test_ranks_are_within_the_stated_error_for_any_tree_of_merges(blocks, size, data):
    sample = np.array([row for block in blocks for row in block]).reshape(-1, 2)
    values, weights = sample.T
    parts = [QuantileSketch.from_values([v for v, _ in b], [w for _, w in b], size) for b in blocks]
    sketch = merged_somehow(parts, data)
    total, distinct = weights.sum(), np.unique(values)
    assert sketch.values.size <= size
    assert (np.diff(sketch.values) > 0).all()
    assert sketch.total == pytest.approx(total, rel=1e-12)
    if not values.size:
        return
    assert sketch.values[0] == values.min()
    assert sketch.values[-1] == values.max()
    if distinct.size <= size:
        assert sketch.rank_error == 0
        assert sketch.exact
        np.testing.assert_array_equal(sketch.values, distinct)
        each = [weights[values == x].sum() for x in distinct]
        np.testing.assert_allclose(sketch.mass, each, rtol=1e-12)
    if not total > 0:
        return
    around = np.concatenate([distinct, (distinct[:-1] + distinct[1:]) / 2])
    true = at_or_below(values, weights, around) / total
    told = at_or_below(sketch.values, sketch.mass, around) / total
    assert (told <= true + 1e-12).all()
    assert (true - sketch.rank_error - 1e-12 <= told).all()
    q = np.linspace(0.01, 1, 23)
    found = sketch.quantiles(q)
    below = np.array([weights[values < t].sum() for t in found]) / total
    assert (at_or_below(values, weights, found) / total >= q - 1e-12).all()
    assert (below <= q + sketch.rank_error + 1e-12).all()


@EASY
@given(st.lists(NUMBERS, min_size=1, max_size=80), st.integers(1, 6))
def test_exact_quantiles_are_those_of_numpy(values, parts):
    sketch = merge_all(QuantileSketch.from_values(block) for block in np.array_split(values, parts))
    q = np.arange(1, 9) / 8  # exact, so that no rank is on the edge by rounding
    np.testing.assert_array_equal(
        sketch.quantiles(q), np.quantile(values, q, method="inverted_cdf")
    )


def test_the_error_of_a_balanced_tree_grows_with_its_depth_alone():
    rng = np.random.default_rng(0)
    blocks, size = [rng.gamma(1.5, size=5000) for _ in range(64)], 500
    sketch = merge_all(QuantileSketch.from_values(block, size=size) for block in blocks)
    assert 0 < sketch.rank_error <= 7 / (size - 1)
    sample = np.sort(np.concatenate(blocks))
    told = np.cumsum(sketch.mass) / sketch.total
    true = np.searchsorted(sample, sketch.values, side="right") / sample.size
    assert 0 < (true - told).max() <= sketch.rank_error
    chain = QuantileSketch.from_values(blocks[0], size=size)
    for block in blocks[1:]:
        chain = chain.merge(QuantileSketch.from_values(block, size=size))
    assert chain.rank_error > 2 * sketch.rank_error


def test_a_heavy_value_keeps_its_mass():
    values = np.concatenate([np.zeros(10_000), np.arange(1, 1001)])
    sketch = QuantileSketch.from_values(values, size=20)
    assert sketch.mass[sketch.values == 0.0] == 10_000
    assert sketch.rank_error <= 1 / 19


def test_sketches_are_pickled_and_in_double_precision():
    sketch = QuantileSketch.from_values(np.arange(300, dtype=np.float32), size=50)
    again = pickle.loads(pickle.dumps(sketch))
    assert again.values.dtype == again.mass.dtype == np.float64
    np.testing.assert_array_equal(again.values, sketch.values)
    assert again.rank_error == sketch.rank_error > 0


def test_bad_sketches():
    with pytest.raises(ValueError, match="size must be an integer >= 2, got 1"):
        QuantileSketch.from_values([1.0], size=1)
    with pytest.raises(ValueError, match="2 of 3 are NaN or infinite"):
        QuantileSketch.from_values([1.0, np.nan, np.inf])
    with pytest.raises(ValueError, match="sizes 10 and 20 do not merge"):
        QuantileSketch.from_values([1.0], size=10).merge(QuantileSketch.from_values([1.0], size=20))
    with pytest.raises(ValueError, match="without mass"):
        QuantileSketch.from_values([]).quantiles([0.5])
    with pytest.raises(ValueError, match="from 0 to 1"):
        QuantileSketch.from_values([1.0]).quantiles([1.5])
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        QuantileSketch.from_values([[1.0, 2.0]])
    with pytest.raises(ValueError, match="weights must be finite"):
        QuantileSketch.from_values([1.0], [-1.0])
    with pytest.raises(ValueError, match="no blocks"):
        merge_all([])
