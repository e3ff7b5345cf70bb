"""What weights of sequences mean, and what fits that fail leave behind."""

import numpy as np
import pytest

from maxent import CRF, L1CRF, L2CRF, L2CRFCV, M3N, ChainClassifier, SegmentClassifier
from maxent.tagging import Attributes

X = [
    [["a"], ["b"], ["b"], ["b"]],
    [["a"], ["b"]],
    [["b", "common"], ["a"]],
    [["b"], ["a"], ["common"]],
    [["rare"], ["b", "common"]],
]
Y = [[2, 0, 0, 0], [0, 1], [1, 0], [1, 0, 0], [0, 1]]
WEIGHT = np.array([0.0, 1.0, 1.0, 2.0, 1.0])  # the first has a label, a length and pairs of its own
MODELS = [
    ChainClassifier(tol=1e-9),
    ChainClassifier("hinge", tol=1e-9),
    L1CRF(0.3, tol=1e-9),
    L2CRF(tol=1e-9),
    M3N(tol=1e-9),
    SegmentClassifier(tol=1e-9),
]


def same(a, b):
    assert a.classes_.tolist() == b.classes_.tolist()
    np.testing.assert_allclose(a.weights_, b.weights_, atol=1e-5)
    np.testing.assert_allclose(a.objective_, b.objective_, atol=1e-8)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_weights_are_repetitions_and_none_leaves_no_trace(model):
    rows = [1, 2, 3, 3, 4]
    repeated = type(model)(**model.get_params())
    repeated.fit([X[i] for i in rows], [Y[i] for i in rows])
    model.fit(X, Y, sample_weight=WEIGHT)
    assert model.attributes_.names == repeated.attributes_.names
    same(model, repeated)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_weights_of_zero_where_x_is_read_already(model):
    plain = type(model)(**model.get_params()).fit(X, Y, sample_weight=WEIGHT)
    same(model.fit(Attributes().fit(X), Y, sample_weight=WEIGHT), plain)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_attributes_are_counted_in_sequences_of_positive_weight(model):
    model = type(model)(**{**model.get_params(), "least": 4})
    model.fit(X, Y, sample_weight=WEIGHT)
    assert model.attributes_.names == ["b"]  # a is there four times with the first sequence


def test_multipliers_are_numbered_among_all_sequences():
    model = M3N(10.0, tol=1e-9).fit(X, Y, sample_weight=WEIGHT)
    alone = M3N(10.0, tol=1e-9).fit(X[1:], Y[1:], sample_weight=WEIGHT[1:])
    whole = model.multipliers_.toarray()
    assert len(whole) == sum(map(len, Y))
    assert not whole[:4].any()
    np.testing.assert_allclose(whole[4:], alone.multipliers_.toarray(), atol=1e-6)
    assert model.support_.tolist() == (alone.support_ + 1).tolist()


@pytest.mark.parametrize("model", [CRF(), *MODELS], ids=repr)
def test_weights_of_zero_alone_are_refused(model):
    with pytest.raises(ValueError, match="all sample weights are zero"):
        model.fit(X, Y, sample_weight=np.zeros(5))


@pytest.mark.parametrize("model", [L2CRFCV([0.1, 1.0], cv=2), *MODELS], ids=repr)
def test_a_fit_that_fails_leaves_the_model_as_it_was(model):
    model.fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="labels of shape"):
        model.fit([[["b"], ["a"]]], [[0]])
    for now, then in zip(model.predict(X), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_what_holds_no_sequences_is_refused_by_name(model):
    for given in (5, None):
        with pytest.raises(TypeError, match=r"X is \w+: expected a list of sequences"):
            model.fit(given, Y)
