"""Sums of a density over blocks of points against those over all points at once."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxent as mx
from maxent.density import DensityLink, DensitySums, FittedDensity, Points
from maxent.density.sums import TABLE, cumulative_table
from maxent.features import TableSummary, merge_all

LINKS = [DensityLink(0.0, 3.0), DensityLink(0.0, -700.0), DensityLink(0.5, -0.4, 0.8)]
LINKS += [DensityLink(1.0, 0.3), DensityLink(-0.5, 9.0, -1.0)]


def raw_output(theta, link, mass):
    """By the formulas, in long doubles: raw values, log of the normalisation, entropy."""
    log = link.log(theta).astype(np.longdouble)
    density = np.exp(log - log.max())
    total = (mass * density).sum()
    raw = density / total
    inside = raw[raw > 0]
    entropy = -(mass[raw > 0] * inside * np.log(inside)).sum()
    return raw, float(log.max() + np.log(total)), float(entropy)


@pytest.mark.parametrize("link", LINKS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_merged_sums_are_those_of_all_points(link, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    theta = np.round(rng.normal(size=n) * 4, int(rng.integers(0, 6)))
    theta = np.minimum(theta, 8.0)
    if not (link.log(theta) > -np.inf).any():
        theta[0] = 1.0
    mass = rng.gamma(1.0, size=n) + 0.01
    raw, log_total, entropy = raw_output(theta, link, mass)
    edges = np.sort(rng.integers(0, n + 1, 4))
    blocks = zip(np.split(theta, edges), np.split(mass, edges), strict=True)
    parts = [DensitySums.from_points(t, link, m) for t, m in blocks]
    sums = merge_all([pickle.loads(pickle.dumps(part)) for part in parts])
    assert sums.log_total == pytest.approx(log_total, rel=1e-13, abs=1e-13)
    assert sums.raw_entropy == pytest.approx(entropy, rel=1e-11, abs=1e-12)
    assert sums.cumulative_error == 0
    np.testing.assert_allclose(
        sums.cumulative(), cumulative_table(raw.astype(float), mass), rtol=1e-12, atol=1e-14
    )


def test_a_sketch_of_the_cumulative_output_is_within_its_error():
    rng = np.random.default_rng(0)
    theta, link, size = rng.normal(size=40_000) * 2, DensityLink(0.0, 0.0), 300
    mass = np.ones(theta.size)
    parts = [
        DensitySums.from_points(t, link, np.ones(t.size), size) for t in np.array_split(theta, 16)
    ]
    sums = merge_all(parts)
    error = sums.cumulative_error
    assert 0 < error <= 5 / (size - 1)
    raw, *_ = raw_output(theta, link, mass)
    raw = np.sort(raw.astype(float))
    true = np.cumsum(raw)
    values, told = sums.cumulative()
    place = np.searchsorted(values, raw * (1 + 1e-12), side="right")
    below = np.append(0.0, told)[place]
    assert (below <= true + 1e-9).all()
    assert (true - below).max() <= error + 1e-9
    assert (true - below).max() > error / 20  # so the bound is of the right size


def test_the_table_of_many_points_in_memory_is_thinned_alone():
    rng = np.random.default_rng(1)
    theta = rng.normal(size=3 * TABLE)
    sums = DensitySums.from_points(
        theta, DensityLink(0.0, 0.0), np.ones(theta.size), size=theta.size
    )
    assert sums.cumulative_error == 0
    values, below = sums.cumulative()
    assert TABLE / 2 < values.size <= TABLE + 1
    assert below[-1] == 1.0


@pytest.mark.parametrize("entropy", ["shannon", mx.Tsallis(2.0)])
def test_a_density_from_blocks_is_that_of_the_whole(entropy):
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"x": rng.normal(size=400), "z": rng.gamma(2.0, size=400)})
    X["soil"] = rng.choice(["a", "b", "c"], 400)
    y = rng.random(400) < 0.1 + 0.2 * (X["x"] > 0.5)
    weight = rng.uniform(0.5, 2.0, 400)
    fitted = mx.MaxentDensity("lqc", entropy=entropy, verbose=0).fit(X, y, sample_weight=weight)
    density, points = fitted.density_, Points.from_table(X, y, weight)
    parts = [slice(0, 90), slice(90, 90), slice(90, 400)]
    theta = density.scores(X, clamp=False)
    sums = merge_all(DensitySums.from_points(theta[p], density.link, weight[p]) for p in parts)
    place = merge_all(TableSummary.from_rows(X.iloc[p], weight=weight[p]) for p in parts)
    names = ("operators", "weights", "beta", "entropy", "n_features", "origin", "certificate")
    names += ("prevalence", "n_presences", "biased", "merged")
    known = {name: getattr(density, name) for name in names}
    found = FittedDensity.from_sums(sums, place, density.link, **known)
    whole = FittedDensity.over(
        points, theta, density.link, **{name: known[name] for name in names[:-3]}
    )
    assert found.schema == whole.schema == density.schema
    for output in mx.density.OUTPUTS:
        expected = density.predict(X, output)
        np.testing.assert_allclose(found.predict(X, output), expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(whole.predict(X, output), expected, rtol=1e-10, atol=1e-12)
    assert found.n_points == pytest.approx(density.n_points)
    np.testing.assert_allclose(found.explain(X[:9]).shares, density.explain(X[:9]).shares, 1e-9)


def test_no_points_have_no_density():
    none = DensitySums.from_points(np.array([]), DensityLink(0.0, 0.0), np.array([]))
    zero = DensitySums.from_points(np.array([-1.0]), DensityLink(1.0, 0.0), np.ones(1))
    with pytest.raises(ValueError, match="no point has a density above 0"):
        _ = none.merge(zero).log_total
    some = DensitySums.from_points(np.array([2.0]), DensityLink(1.0, 0.0), np.ones(1))
    assert none.merge(zero).merge(some).log_total == pytest.approx(np.log(2))
    np.testing.assert_array_equal(zero.merge(some).cumulative(), [[0, 1], [0, 1]])
