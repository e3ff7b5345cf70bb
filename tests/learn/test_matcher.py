"""Matcher: learned matchings, certified; and what it refuses."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

import maxent as mx


def drawn(count=30, seed=0, noise=0.3):
    """Sets of 3 to 6 vectors; two features carry the match, one is noise."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        n = int(rng.integers(3, 7))
        A, order = rng.normal(size=(n, 3)), rng.permutation(n)
        B = np.empty_like(A)
        B[order] = A + noise * rng.normal(size=A.shape)
        B[:, 2] = rng.normal(size=n)
        X.append((A, B))
        y.append(order)
    return X, y


@pytest.mark.parametrize("entropy", ["l2", "kl"])
def test_it_learns_what_matters(entropy):
    X, y = drawn()
    model = mx.Matcher(entropy, tol=1e-8).fit(X, y)
    assert model.gap_ <= 1e-8
    assert model.score(*drawn(seed=1)) > 0.85
    assert model.coef_[:2].min() > 5 * abs(model.coef_[2])
    soft = model.predict_proba(X)
    assert all(mx.Birkhoff().contains(p.ravel(), 1e-7) for p in soft)
    assert (soft[0] == 0).any() == (entropy == "l2")


def test_loss_and_objective_are_those_of_the_loss():
    X, y = drawn(8)
    model = mx.Matcher("kl", potential=0.1, tol=1e-10).fit(X, y)
    loss = mx.FenchelYoungLoss(mx.MeanEntropy(mx.Birkhoff()))
    theta = model.decision_function(X)
    vertices = mx.Birkhoff().encode(y).rows()
    mean = np.mean([loss.value(t.ravel(), v) for t, v in zip(theta, vertices, strict=True)])
    assert model.loss_ == pytest.approx(mean, rel=1e-9)
    assert model.objective_ == pytest.approx(mean + 0.05 * model.coef_ @ model.coef_, rel=1e-9)


def test_weights_are_repetitions():
    X, y = drawn(6)
    weight = np.array([2, 0, 1, 1, 3, 1])
    weighted = mx.Matcher(tol=1e-12).fit(X, y, sample_weight=weight)
    rows = np.repeat(np.arange(6), weight)
    repeated = mx.Matcher(tol=1e-12).fit([X[i] for i in rows], [y[i] for i in rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


def test_pair_features():
    X, y = drawn(10)
    own = mx.Matcher(pair_features=lambda A, B: -np.square(A[:, None] - B)).fit(X, y)
    blocks = [-np.square(A[:, None] - B) for A, B in X]
    given = mx.Matcher(pair_features="precomputed").fit(blocks, y)
    by_name = mx.Matcher().fit(X, y)
    np.testing.assert_array_equal(own.coef_, by_name.coef_)
    np.testing.assert_array_equal(given.coef_, by_name.coef_)
    assert mx.Matcher(pair_features="product").fit(X, y).score(X, y) > 0.5


def test_one_member_sets_have_nothing_to_learn():
    model = mx.Matcher().fit([([[1.0]], [[2.0]])], [[0]])
    assert model.coef_[0] == 0
    assert model.loss_ == 0


def test_saved_and_cloned(tmp_path):
    X, y = drawn(5)
    model = mx.Matcher("kl").fit(X, y)
    mx.save(model, tmp_path / "matcher.json")
    again = mx.load(tmp_path / "matcher.json")
    np.testing.assert_array_equal(
        np.concatenate(again.predict(X)), np.concatenate(model.predict(X))
    )
    assert not hasattr(clone(model), "coef_")


X1, Y1 = [(np.zeros((2, 1)), np.ones((2, 1)))], [[0, 1]]
BAD = [
    (lambda: mx.Matcher("l1").fit(X1, Y1), 'entropy must be "l2", "kl"'),
    (lambda: mx.Matcher(mx.Shannon()).fit(X1, Y1), "Birkhoff"),
    (lambda: mx.Matcher(pair_features="sum").fit(X1, Y1), "pair_features must be"),
    (lambda: mx.Matcher().fit([], []), "one or more"),
    (lambda: mx.Matcher().fit(X1, None), "requires y"),
    (lambda: mx.Matcher().fit(X1, [[0, 1], [1, 0]]), "1 pairs of sets, y 2 matchings"),
    (lambda: mx.Matcher().fit(X1, [[0, 0]]), "permutation"),
    (lambda: mx.Matcher().fit(X1, [[0, 1, 2]]), "has 3 partners, and its sets 2"),
    (lambda: mx.Matcher().fit([(np.zeros((2, 1)), np.zeros((3, 1)))], Y1), "two sets of n vectors"),
    (lambda: mx.Matcher().fit([(np.full((2, 1), np.nan), np.ones((2, 1)))], Y1), "NaN"),
    (lambda: mx.Matcher().fit(X1, Y1, sample_weight=[0.0]), "0 everywhere"),
    (lambda: mx.Matcher().fit(X1, Y1).predict([(np.eye(2), np.eye(2))]), "expecting 1 features"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# X is a sequence of pairs of sets: of scikit-learn's checks those apply that need no table
CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)


@pytest.mark.parametrize("name", CHECKS)
def test_sklearn_compatible(name):
    getattr(estimator_checks, name)("Matcher", mx.Matcher())


def test_a_fit_that_is_interrupted_leaves_the_model_as_it_was(monkeypatch):
    X, y = drawn(4)
    model = mx.Matcher().fit(X, y)
    before = model.predict_proba(X)
    fresh = clone(model)

    def interrupt(*_args, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(mx.Matcher, "_solve", interrupt)
    wide = [(np.tile(A, 2), np.tile(B, 2)) for A, B in X]
    for estimator in (model.set_params(entropy="kl"), fresh):
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(wide, y)
    np.testing.assert_array_equal(model.predict_proba(X)[0], before[0])
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_sets_whose_vectors_differ_in_width_are_refused():
    """They would be stretched over one another."""
    A = np.random.default_rng(0).normal(size=(3, 2))
    for kind in ("squared_difference", "product"):
        with pytest.raises(ValueError, match=r"pair 0 of X has vectors of 2 and of 1 features"):
            mx.Matcher(pair_features=kind).fit([(A, A[:, :1])], [[0, 1, 2]])
    model = mx.Matcher(pair_features=lambda a, b: a[:, None] * b).fit([(A, A[:, :1])], [[0, 1, 2]])
    assert model.n_features_in_ == 2


def test_what_predictions_and_scores_refuse():
    A = np.random.default_rng(0).normal(size=(2, 3, 2))
    X, y = list(zip(A, A, strict=True)), [[0, 1, 2]] * 2
    model = mx.Matcher().fit(X, y)
    for use in (model.predict, model.predict_proba, lambda X: model.fit(X, y)):
        with pytest.raises(ValueError, match="pair 1 of X contains NaN"):
            use([X[0], (np.nan * A[1], A[1])])
    with pytest.raises(ValueError, match="matching 1 of y has 2 partners, and its sets 3 members"):
        model.score(X, [[0, 1, 2], [0, 1]])
    with pytest.raises(ValueError, match="a matching is a permutation"):
        model.score(X, [[0, 1, 2], [0, 0, 1]])
