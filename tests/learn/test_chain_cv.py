"""M3NCV and L2CRFCV: the constant that folds choose, what it costs, and bad input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold
from test_discrimination import _data

import maxent as mx
from maxent.core import solvers
from maxent.learn.structured import chain_cv
from maxent.learn.structured.chain_cv import Fold
from maxent.rows.blocks import MemoryBlocks
from maxent.rows.blocks.table import BlockTable

X, Y = _data(n=36, noise=1.5, features=8)
TEST_X, _ = _data(n=30, seed=1, features=8)
SEARCHES = [
    (mx.M3NCV, mx.M3N, "C", [0.003, 0.01, 0.03, 0.1, 0.3]),
    (mx.L2CRFCV, mx.L2CRF, "c2", [30.0, 3.0, 0.3, 0.03, 0.003]),
]
pytestmark = pytest.mark.parametrize(
    ("search", "model", "constant", "grid"), SEARCHES, ids=["M3NCV", "L2CRFCV"]
)


def folds_by_hand(model, grid, cv):
    """The mean held-out accuracy of cold fits to a small gap."""
    scores = []
    for c in grid:
        fold = [
            model(c, tol=1e-5)
            .fit([X[i] for i in train], [Y[i] for i in train])
            .score([X[i] for i in test], [Y[i] for i in test])
            for train, test in cv.split(X)
        ]
        scores.append(np.mean(fold))
    return np.array(scores)


def test_the_constant_is_that_of_cold_fits_in_the_same_folds(
    search, model, constant, grid, monkeypatch
):
    monkeypatch.setattr(chain_cv, "_ROUGH", 1e-5)
    found = search(grid, tol=1e-5).fit(X, Y)
    by_hand = folds_by_hand(model, grid, KFold(3, shuffle=True, random_state=0))
    tried = [grid.index(c) for c in found.cv_results_[constant]]
    assert tried == sorted(tried)
    np.testing.assert_allclose(found.cv_results_["mean_score"], by_hand[tried], atol=2e-2)
    best = tried[int(np.argmax(found.cv_results_["mean_score"]))]
    assert found.best_params_ == {constant: grid[best]}
    assert found.best_score_ == pytest.approx(found.cv_results_["mean_score"].max())
    assert found.cv_results_["scores"].shape == (len(tried), 3)
    # both neighbours of the best were tried
    assert {best - 1, best + 1} & set(range(len(grid))) <= set(tried)


def test_the_model_is_that_of_the_constant(search, model, constant, grid, tmp_path):
    found = search(grid).fit(X, Y)
    plain = model(found.best_params_[constant]).fit(X, Y)
    np.testing.assert_array_equal(found.weights_, plain.weights_)
    assert found.gap_ == plain.gap_ <= 1e-4
    mx.save(found, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    assert again.best_params_ == found.best_params_
    np.testing.assert_array_equal(again.cv_results_["scores"], found.cv_results_["scores"])
    for mine, theirs in zip(again.predict_proba(TEST_X), plain.predict_proba(TEST_X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_names_and_weights_of_sequences_reach_the_folds(search, model, constant, grid):
    names = [[[f"x{j}" for j in np.flatnonzero(row > 0)] or ["none"] for row in x] for x in X]
    labels = [["no" if v == 0 else "yes" for v in y] for y in Y]
    weight = np.arange(len(X)) % 3
    found = search(grid).fit(names, labels, sample_weight=weight)
    plain = model(found.best_params_[constant]).fit(names, labels, sample_weight=weight)
    np.testing.assert_array_equal(found.weights_, plain.weights_)
    assert found.attributes_.names == plain.attributes_.names
    assert set(found.predict(names)[0]) <= {"no", "yes"}


def test_folds_follow_one_warm_path(search, model, constant, grid, monkeypatch):
    """Started from its neighbour, a model takes fewer iterations than from nothing."""
    warm = search([0.1, 0.102, 0.104])
    monkeypatch.setattr(solvers, "_FEW_PATHS", 0)  # exact programmes have no use for a start
    monkeypatch.setattr(chain_cv, "_ROUGH", 1e-4)
    steps = sum(warm.fit(X, Y).cv_results_["n_iter"])
    follow = Fold.follow

    def forgetful(self, *given):
        self.w = self.paths = None
        return follow(self, *given)

    monkeypatch.setattr(Fold, "follow", forgetful)
    assert steps < 0.8 * sum(warm.fit(X, Y).cv_results_["n_iter"])


def test_scores_of_a_user_decide(search, model, constant, grid):
    strong, weak = (
        search(grid, scoring=lambda m, X, y, sign=sign: sign * float(np.abs(m.weights_).sum()))
        for sign in (-1, 1)
    )
    assert strong.fit(X, Y).best_params_ == {constant: grid[0]}
    assert weak.fit(X, Y).best_params_ == {constant: grid[-1]}
    assert len(weak.cv_results_["n_iter"]) == 3 + 1  # from the middle, beside one neighbour
    alike = search(grid, scoring=lambda m, X, y: 0.5).fit(X, Y)
    assert alike.best_params_ == {constant: grid[0]}  # ties go to the strongest penalty


def test_bad_input(search, model, constant, grid):
    name = search.__name__
    given = [
        (search([]), X, Y, rf"{constant}s is empty"),
        (search([1.0, -1.0]), X, Y, rf"{constant}s must be a positive number, got -1.0"),
        (search(cv=100), X, Y, "n_splits=100"),
        (search(scoring="f1"), X, Y, r"scoring must be None, .* got 'f1'"),
        (search(scoring=lambda *_: np.nan), X, Y, "scoring must give finite numbers"),
        (search(least=0), X, Y, "least must be"),
        (search(checkpoint="a"), X, Y, "the paths of the folds are a series"),
        (search(), X, [[None, *y[1:]] for y in Y], f"{name} compares held-out labels"),
        (search(), X, None, f"{name} requires y"),
    ]
    for estimator, data, labels, message in given:
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(data, labels)
    with pytest.raises(ValueError, match="split 0 of cv has no sequence with a weight"):
        search(cv=[([0, 1, 2], [3])]).fit(X, Y, sample_weight=np.arange(len(X)) != 3)
    with pytest.raises(TypeError, match=f"{name} takes sequences in memory"):
        search().fit(BlockTable(MemoryBlocks([])))
