"""Aligner: optima by other means, weights, predictions, bad input, saving, scikit-learn."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import optimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils import estimator_checks

import maxent as mx
from maxent.evaluation import alignment_deviation, alignment_overlap
from maxent.learn.structured.pair_features import pair_features
from sklearn_checks import WITHOUT_TABLES


def warped(seed=0, count=6, channels=2):
    """Pairs of a sequence and a copy whose elements are repeated, with a channel of noise."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        n = int(rng.integers(3, 7))
        first = np.cumsum(rng.normal(size=(n, channels)), axis=0)
        partner = np.sort(np.concatenate([np.arange(n), rng.integers(0, n, 3)]))
        second = first[partner] + 0.2 * rng.normal(size=(n + 3, channels))
        second[:, -1] = rng.normal(size=n + 3)
        X.append((first, second))
        y.append(np.column_stack([partner, np.arange(n + 3)]))
    return X, y


def aligner(*args, **settings):
    return mx.Aligner(*args, **{"potential": 0.1, "tol": 1e-9, **settings})


def _rows(model, X, y):
    """Features scaled as in the fit, observed vertices and all vertices of each pair."""
    for (first, second), path in zip(X, y, strict=True):
        n, m = len(first), len(second)
        table = pair_features(model.features, first, second) / model.scale_
        vertex = np.zeros((n, m))
        vertex[tuple(np.transpose(path))] = 1
        yield table, vertex.ravel(), mx.Alignment(n, m).vertices(n * m)


LOSSES = {
    "shannon": (lambda s, v: np.logaddexp.reduce(v @ s), 0.0),
    "zero": (lambda s, v: np.max(v @ s), 1.0),
}


@pytest.mark.parametrize("entropy", sorted(LOSSES))
def test_the_optimum_by_enumeration(entropy):
    conjugate, cost = LOSSES[entropy]
    X, y = warped(count=4)
    model = aligner(entropy=entropy, cost=cost, tol=1e-7).fit(X, y)
    rows = list(_rows(model, X, y))

    def objective(w):
        losses = []
        for table, vertex, vertices in rows:
            scores = table @ w + cost * (1 - 2 * vertex)
            losses.append(conjugate(scores, vertices) - vertex @ (table @ w) + cost * vertex.sum())
        return np.mean(losses) + 0.05 * w @ w

    w = model.coef_ * model.scale_
    assert objective(w) == pytest.approx(model.objective_, rel=1e-9)
    assert 0 <= model.gap_ < 1e-6
    best = optimize.minimize(objective, w + 0.01, method="Powell", options={"xtol": 1e-6})
    assert model.objective_ <= best.fun + 2 * model.gap_


@pytest.mark.parametrize("entropy", ["shannon", "squared-norm"])
def test_weights_are_repetitions(entropy):
    X, y = warped(count=3)
    weighted = aligner(entropy=entropy).fit(X, y, [2.0, 0.0, 1.0])
    repeated = aligner(entropy=entropy).fit([X[0], X[0], X[2]], [y[0], y[0], y[2]])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"entropy": "squared-norm"},
        {"entropy": "zero", "cost": 1.0},
        {"entropy": "shannon", "cost": 0.5},
        {"potential": mx.Box(0.01)},
        {"potential": mx.ElasticNet(0.01, 0.01)},
        {"features": "absolute"},
        {"band": 2},
    ],
    ids=str,
)
def test_learned_alignments_of_new_pairs(settings):
    X, y = warped(count=6)
    model = aligner(**{"tol": 1e-5, "features": ("squared", "length"), **settings}).fit(X, y)
    assert model.gap_ <= 1e-5
    new, true = warped(seed=1, count=10)
    found = model.predict(new)
    plain = [mx.Alignment(len(a), len(b)).argmax(-_cost(a, b)) for a, b in new]
    plain = [mx.Alignment(len(a), len(b)).path(p)[0] for (a, b), p in zip(new, plain, strict=True)]
    overlaps = [alignment_overlap(a, b) for a, b in zip(found, true, strict=True)]
    assert model.score(new, true) == pytest.approx(np.mean(overlaps))
    assert np.mean(overlaps) > 0.05 + np.mean(
        [alignment_overlap(a, b) for a, b in zip(plain, true, strict=True)]
    )
    for (a, b), p in zip(new, model.predict_marginals(new), strict=True):
        assert mx.Alignment(len(a), len(b)).contains(p.ravel(), atol=1e-6)


def _cost(first, second):
    return np.sum((first[:, None] - second) ** 2, axis=2).ravel()


def test_paths_and_matrices_are_alignments():
    X, y = warped(count=2)
    matrices = [row.reshape(len(a), len(b)) for (_, row, _), (a, b) in zip(
        _rows(aligner().fit(X, y), X, y), X, strict=True
    )]  # fmt: skip
    np.testing.assert_array_equal(aligner().fit(X, matrices).coef_, aligner().fit(X, y).coef_)
    two = [(np.arange(2.0), np.arange(2.0))]  # where a path and a matrix have one shape
    assert aligner().fit(two, [[[0, 0], [1, 1]]]).score(two, [np.eye(2)]) == 1


def test_a_function_of_features():
    X, y = warped(count=2)

    def same(first, second):
        return pair_features(("squared",), first, second).reshape(len(first), len(second), -1)

    own, named = aligner(same).fit(X, y), aligner("squared").fit(X, y)
    np.testing.assert_allclose(own.coef_, named.coef_)


def test_single_elements():
    X = [(np.ones((1, 2)), np.zeros((3, 2))), (np.ones((1, 2)), np.ones((1, 2)))]
    y = [[(0, 0), (0, 1), (0, 2)], [(0, 0)]]
    model = aligner().fit(X, y)
    assert model.score(X, y) == 1
    assert model.loss_ == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("entropy", ["shannon", "zero"])
def test_saved_and_pickled(entropy, tmp_path):
    X, y = warped(count=2)
    model = aligner(entropy=entropy, cost=1.0, tol=1e-4).fit(X, y)
    mx.save(model, tmp_path / "model.json")
    for again in (mx.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        assert again.get_params() == model.get_params()
        for before, after in zip(model.predict(X), again.predict(X), strict=True):
            np.testing.assert_array_equal(before, after)
        assert again.gap_ == model.gap_


def test_grid_search():
    X, y = warped(count=4)
    search = GridSearchCV(aligner(tol=1e-4), {"features": ["squared", "diagonal"]}, cv=KFold(2))
    search.fit(X, y)
    assert search.best_params_ == {"features": "squared"}


PAIR = (np.zeros((2, 1)), np.zeros((3, 1)))
PATH = [(0, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("settings", "X", "y", "message"),
    [
        ({"entropy": "tsallis"}, [PAIR], [PATH], "entropy must be one of 'shannon'"),
        ({"entropy": "zero"}, [PAIR], [PATH], "give a cost > 0"),
        ({"cost": -1.0}, [PAIR], [PATH], "cost must be"),
        ({"tol": -1}, [PAIR], [PATH], "tol must be"),
        ({"max_iter": 0}, [PAIR], [PATH], "max_iter must be"),
        ({"features": "cosine"}, [PAIR], [PATH], "features must be"),
        ({"features": ("squared", "squared")}, [PAIR], [PATH], "each once"),
        ({"features": lambda a, b: np.zeros((2, 2))}, [PAIR], [PATH], r"shape \(2, 3, count\)"),
        ({"features": lambda a, b: np.full((2, 3, 1), np.nan)}, [PAIR], [PATH], "finite"),
        ({"band": 0}, [PAIR], [[(0, 0), (0, 1), (0, 2), (1, 2)]], "leaves the band"),
        ({"band": 0}, [(np.zeros(3), np.zeros(3))], [[(0, 0), (0, 1), (1, 2), (2, 2)]], "band of"),
        ({"band": -1}, [PAIR], [PATH], "band is an integer"),
        ({}, [], [], "no pairs"),
        ({}, [PAIR], None, "requires y"),
        ({}, [PAIR], [PATH, PATH], "y 2 alignments"),
        ({}, [(*PAIR, PAIR[0])], [PATH], "3 parts"),
        ({}, [PAIR, (np.zeros((2, 1)), np.zeros((3, 2)))], [PATH, PATH], "pair 1 .* 2 channels"),
        ({}, [(np.array([0.0, np.nan]), np.zeros(3))], [PATH], "pair 0 contains NaN"),
        ({}, [(np.array(["a", "b"]), np.zeros(3))], [PATH], "sequences of numbers"),
        ({}, [(np.zeros((0, 1)), np.zeros(3))], [PATH], "sequences of numbers"),
        ({}, [PAIR], [[(0, 0), (1, 2)]], r"by steps \(1, 0\)"),
        ({}, [PAIR], [[(0, 0), (1, 1)]], r"from \(0, 0\) to \(1, 2\)"),
        ({}, [PAIR], [[(0, 0), (1, 3)]], "i < 2 and j < 3"),
        ({}, [PAIR], [np.ones((2, 3))], "by steps"),
    ],
)
def test_bad_input_is_refused(settings, X, y, message):
    with pytest.raises(ValueError, match=message):
        mx.Aligner(**settings).fit(X, y)


def test_zero_weights_and_other_channels_are_refused():
    with pytest.raises(ValueError, match="all sample weights"):
        mx.Aligner().fit([PAIR], [PATH], [0.0])
    with pytest.raises(NotFittedError):
        mx.Aligner().predict([PAIR])
    model = mx.Aligner().fit([PAIR], [PATH])
    with pytest.raises(ValueError, match="2 channels, expected 1"):
        model.predict([(np.zeros((2, 2)), np.zeros((2, 2)))])


def test_measures_of_alignments():
    straight, bent = [(0, 0), (1, 1), (2, 2)], [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)]
    assert alignment_overlap(straight, straight) == 1
    assert alignment_overlap(straight, bent) == pytest.approx(2 / 6)
    assert alignment_deviation(straight, straight) == 0
    assert alignment_deviation(straight, bent) == pytest.approx((1 + 1 + 0) / 3)
    with pytest.raises(ValueError, match="3 and of 2 elements"):
        alignment_deviation(straight, [(0, 0), (1, 1)])
    with pytest.raises(ValueError, match=r"shape \(length, 2\)"):
        alignment_overlap([0, 1], straight)


@pytest.mark.parametrize("check", WITHOUT_TABLES, ids=lambda check: check.__name__)
def test_scikit_learn(check):
    check("Aligner", mx.Aligner())


def test_scikit_learn_knows_that_x_is_no_table():
    """Its other checks skip themselves: they fit tables, and X is a list of pairs of sequences."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(estimator_checks.estimator_checks_generator(mx.Aligner(), legacy=True))
    assert any("Can't test estimator Aligner" in str(w.message) for w in caught)


def test_parameters_survive_a_fit():
    X, y = warped(count=2)
    model = aligner(band=5)
    before = model.get_params()
    assert model.fit(X, y) is model
    assert model.get_params() == before
    copy = clone(model)
    assert not hasattr(copy, "coef_")
    assert copy.get_params() == before


def test_cutting_planes_stop_where_a_plane_adds_nothing():
    """Planes that were dropped came back for ever, at a gap that was all rounding."""
    solver = mx.CuttingPlane(tol=1e-14)
    for seed in (2, 5):
        X, y = warped(seed)
        model = mx.Aligner(entropy="zero", potential=1e-3, cost=1.0, tol=1e-14, solver=solver)
        with pytest.warns(mx.ConvergenceWarning, match="stalled after"):
            model.fit(X, y)
        assert model.n_iter_ < 100
        assert model.gap_ < 1e-11
