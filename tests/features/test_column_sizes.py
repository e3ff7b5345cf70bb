"""Columns of any size give the same density: they are scaled before they are squared."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import maxent as mx

SIZES = [1e-289, 1e-200, 1e-160, 1e-130, 1e130, 1e154, 1e200, 1e300]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 2, 200), rng.uniform(1, 2, 200), rng.normal(size=200)])
    return X, (X[:, 0] > 1).astype(int) + (X[:, 2] > 1)


@pytest.fixture(scope="module")
def plain(table):
    """Of each choice of features, the density of columns of size 1."""
    return cache(lambda features: mx.MaxentDensity(features).fit(*table))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("features", ["l", "q", "p", "h", "t", "lqpht"])
def test_the_size_of_columns_does_not_matter(table, plain, features, size, tmp_path):
    X, y = table
    expected = plain(features).predict(X, "log")
    model = mx.MaxentDensity(features).fit(X * size, y)
    np.testing.assert_allclose(model.predict(X * size, "log"), expected, atol=1e-11)
    apart = X * [size, 1.0, 1e-280 if size > 1 else 1e300]  # side by side
    found = mx.MaxentDensity(features).fit(apart, y).predict(apart, "log")
    np.testing.assert_allclose(found, expected, atol=1e-11)
    far = np.array([[5.0, 0.2, 0.0], [-3.0, 1.5, 9.0]])  # beyond the cells, clamped and not
    for clamp in (True, False):
        there = model.predict(far * size, "log", clamp=clamp)
        np.testing.assert_allclose(
            there, plain(features).predict(far, "log", clamp=clamp), rtol=1e-10
        )
    mx.save(model, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json").predict(X * size)
    np.testing.assert_array_equal(again, model.predict(X * size))


GROWN = mx.StructMaxent([mx.Monomials(3), mx.Trees(3), mx.Splines(2)], rounds=12, proof_budget=0)


@pytest.fixture(scope="module")
def plainly_grown(table):
    return clone(GROWN).fit(*table)


@pytest.mark.parametrize("size", SIZES)
def test_the_size_of_columns_does_not_matter_to_grown_features(table, plainly_grown, size):
    X, y = table
    expected = plainly_grown.predict(X, "log")
    found = clone(GROWN).fit(X * size, y).predict(X * size, "log")
    np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("size", [1e-310, 1e-295, 5e307])
@pytest.mark.parametrize("model", [mx.MaxentDensity("lq"), mx.StructMaxent([mx.Monomials(2)])])
def test_columns_without_ordinary_differences_are_refused_in_words(table, model, size):
    X, y = table
    with pytest.raises(ValueError, match=r"column 'x1' has values from .* multiply the column"):
        model.fit(np.column_stack([X[:, 0], X[:, 1] * size]), y)


def test_a_lambdas_file_holds_no_squares_of_huge_columns(table, tmp_path):
    X, y = table
    model = mx.MaxentDensity("lq").fit(X * 1e200, y)
    with pytest.raises(ValueError, match=r"'x0' has values .* fit in other units"):
        mx.write_lambdas(model, tmp_path / "model.lambdas")
    path = tmp_path / "other.lambdas"
    path.write_text(
        "x, 0.0, 0.0, 1.0E200\nx^2, 1.0, 0.0, 1.0\nlinearPredictorNormalizer, 1.0\n"
        "densityNormalizer, 1.0\nnumBackgroundPoints, 10\nentropy, 1.0\n"
    )
    with pytest.raises(ValueError, match=r"'x' has values .* no lambdas file can hold"):
        mx.read_lambdas(path)
