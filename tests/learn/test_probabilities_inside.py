"""What estimators call a probability lies in [0, 1], however large their scores are."""

import numpy as np
import pytest

import maxent as mx
from maxent.species.judging.importance import _percent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
FAR = X * 10.0 ** RNG.uniform(-3, 12, size=(30, 1))
Y = np.arange(30) % 3


def _require(p, total=None):
    p = np.asarray(p)
    assert ((p >= 0) & (p <= 1)).all()
    if total is not None:
        np.testing.assert_allclose(p.sum(axis=-1), total, rtol=1e-14)


@pytest.mark.parametrize("loss", ["logistic", "sparsemax", 1.5])
@pytest.mark.parametrize("classes", [2, 3])
def test_classes(loss, classes):
    alpha = {"logistic": 1.0, "sparsemax": 2.0}.get(loss, loss)
    model = mx.FenchelYoungClassifier(mx.Tsallis(alpha)).fit(X, Y % classes)
    _require(model.predict_proba(FAR), 1.0)


@pytest.mark.parametrize("kind", ["one-vs-all", "sparse", "cube", "k-subsets"])
def test_sets_of_labels(kind):
    labels = np.eye(3, dtype=int)[Y] + np.eye(3, dtype=int)[(Y + 1) % 3]
    model = mx.FenchelYoungMultilabel(kind).fit(X, labels)
    _require(model.predict_proba(FAR), 2.0 if kind == "k-subsets" else None)


@pytest.mark.parametrize("loss", ["crf", "sparsemap"])
def test_labels_of_sequences(loss):
    model = mx.ChainClassifier(loss, 1.0, tol=1e-2).fit(
        list(X.reshape(10, 3, 3)), list(Y.reshape(10, 3))
    )
    for p in model.predict_proba(list(FAR.reshape(10, 3, 3))):
        _require(p, 1.0)


@pytest.mark.parametrize("loss", ["crf", mx.Tsallis(2.0)], ids=["crf", "sparse"])
def test_labels_of_trees(loss):
    parents = [-1, 0, 0]
    trees, far = ([(x, parents) for x in rows.reshape(10, 3, 3)] for rows in (X, FAR))
    model = mx.TreeClassifier(loss, 1.0, tol=1e-2).fit(trees, list(Y.reshape(10, 3)))
    for p in model.predict_proba(far):
        _require(p, 1.0)


@pytest.mark.parametrize("entropy", ["kl", "l2"])
def test_matchings_and_alignments(entropy):
    groups, far = X.reshape(10, 3, 3), FAR.reshape(10, 3, 3)
    model = mx.Matcher(entropy, tol=1e-2).fit(
        list(zip(groups, groups[:, ::-1], strict=True)), np.tile([2, 1, 0], (10, 1))
    )
    for p in model.predict_proba(list(zip(far, far[:, ::-1], strict=True))):
        assert ((p >= 0) & (p <= 1)).all()
        np.testing.assert_allclose([p.sum(axis=0), p.sum(axis=1)], 1.0, rtol=1e-10)
    path = [(0, 0), (1, 1), (2, 2)]
    aligner = mx.Aligner(tol=1e-2).fit([(x, x) for x in groups], [path] * 10)
    for p in aligner.predict_marginals([(x, x[::-1]) for x in far]):
        _require(p)


def test_classes_of_grown_features():
    model = mx.StructMaxentClassifier(rounds=3, tol=1e-2).fit(X, Y)
    _require(model.predict_proba(FAR), 1.0)


def test_all_of_the_importance_is_100_percent():
    alone = 10.0 ** RNG.uniform(-9, 0, size=(2000, 1))
    assert (_percent(np.hstack([alone, -alone])) <= 100).all()
    assert (_percent(alone) == 100).all()
