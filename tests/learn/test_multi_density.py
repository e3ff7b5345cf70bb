"""MultiDensity: the thin face of JointRecipe for scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxent as mx
from maxent.features import Linear
from tools import needs

_RNG = np.random.default_rng(2)
X = pd.DataFrame(_RNG.normal(size=(120, 2)), columns=["heat", "rain"])
P = np.exp(2 * X.to_numpy() @ np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]]))
Y = pd.DataFrame(
    {name: _RNG.multinomial(40, p / p.sum()) for name, p in zip("abc", P.T, strict=True)}
)


@parametrize_with_checks([mx.MultiDensity(Linear())])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_it_is_the_recipe():
    model = mx.MultiDensity(rounds=2, own=0.25).fit(X, Y)
    joint = mx.JointRecipe(rounds=2, own=0.25).fit(X, Y)
    assert model.species_ == ("a", "b", "c")
    assert np.array_equal(model.predict(X), joint.predict(X))
    assert model.gap_ == joint.certificate.gap <= 1e-6
    assert model.status_.reached
    assert model.n_iter_ == joint.certificate.n_iter
    assert model.summary() == joint.summary()
    assert np.array_equal(model.density("b").predict(X), joint.density("b").predict(X))
    assert np.allclose(model.predict(X, "log", species=["c"])[:, 0], model.predict(X, "log")[:, 2])
    assert list(model.feature_names_in_) == ["heat", "rain"]
    log = model.score_samples(X)
    expected = float((Y.to_numpy() * log).sum() / Y.to_numpy().sum())
    assert model.score(X, Y) == pytest.approx(expected)
    assert clone(model).get_params() == model.get_params()


def test_unfitted_and_wrong_tables_are_refused(tmp_path):
    model = mx.MultiDensity()
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X, None)
    model.fit(X, Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"heat": "cold"}))
    with pytest.raises(ValueError, match="counts of shape"):
        model.score(X, Y.iloc[:, :2])
    mx.save(model, tmp_path / "m.json")
    again = mx.load(tmp_path / "m.json")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.species_ == model.species_


def test_dask_tables_are_predicted_block_by_block():
    dd = needs("dask.dataframe")
    model = mx.MultiDensity().fit(X, Y)
    lazy = model.predict(dd.from_pandas(X, npartitions=3), "log")
    assert np.allclose(lazy.compute(), model.predict(X, "log"))
