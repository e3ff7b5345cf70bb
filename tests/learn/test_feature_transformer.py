"""FeatureTransformer: the features of densities as a matrix, in pipelines of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxent as mx


@parametrize_with_checks([mx.FeatureTransformer(), mx.FeatureTransformer("lqh")])
def test_scikit_learn(estimator, check):
    check(estimator)


def frame(n=150):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["warm", "wet"])
    return X.assign(soil=rng.choice(["clay", "loam"], n))


def test_columns_are_those_of_the_operators(tmp_path):
    X = frame()
    model = mx.FeatureTransformer("lqhck").fit(X)
    found = model.transform(X)
    names = model.get_feature_names_out()
    assert found.shape == (150, len(names))
    assert {"warm", "wet^2", "soil=clay", "kernel 1"} <= set(names)
    np.testing.assert_allclose(found[:, list(names).index("soil=loam")], X.soil == "loam")
    far = X.assign(warm=1e3)
    np.testing.assert_allclose(
        model.transform(far), model.transform(X.assign(warm=X.warm.max())), atol=1e-12
    )
    mx.save(model, tmp_path / "model.json")
    np.testing.assert_array_equal(mx.load(tmp_path / "model.json").transform(X), found)


def test_a_linear_model_of_the_features_is_one_of_the_kernel():
    """With all rows as landmarks: ridge regression is kernel ridge regression."""
    X = frame()[["warm", "wet"]].to_numpy()
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    kernel = mx.Kernel(linear=0.0, additive=0.0, joint=1.0, joint_scale=1.0)
    phi = mx.FeatureTransformer([kernel]).fit_transform(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    gram = Matern(length_scale=np.sqrt(2), nu=1.5)(Z)  # rms distance of two predictors
    expected = KernelRidge(alpha=0.1, kernel="precomputed").fit(gram, y).predict(gram)
    w = np.linalg.solve(phi.T @ phi + 0.1 * np.eye(phi.shape[1]), phi.T @ y)
    np.testing.assert_allclose(phi @ w, expected, atol=1e-4)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_classifiers_of_kernels(alpha):
    """Classes that no line parts, with sparse probabilities and a certificate."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    y = np.digitize(np.hypot(*X.T), [0.8, 1.5])
    model = make_pipeline(
        mx.FeatureTransformer([mx.Kernel(landmarks=100, choose="cholesky")]),
        mx.FenchelYoungClassifier(alpha=alpha),
    )
    model.fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.85
    assert mx.FenchelYoungClassifier(alpha=alpha).fit(X[:300], y[:300]).score(X, y) < 0.6
    assert model[-1].gap_ <= model[-1].tol
    assert (model.predict_proba(X) == 0).any() == (alpha > 1)


def test_wrong_input():
    for wrong in ("lx", "", [], [1]):
        with pytest.raises(ValueError, match="features must be letters"):
            mx.FeatureTransformer(wrong).fit(np.eye(3))
    with pytest.raises(ValueError, match="no feature of 'k' varies over X, which has 4 samples"):
        mx.FeatureTransformer().fit(np.ones((4, 2)))
    with pytest.raises(ValueError, match="contains NaN"):
        mx.FeatureTransformer().fit(np.array([[1.0, np.nan], [2.0, 3.0]]))
