"""LabelRanker: limit cases, certificates, rankings with ties, scikit-learn's conventions."""

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxent as mx


def rankings(labels=4, n=60, d=5, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    theta = X @ rng.normal(size=(d, labels)) + noise * rng.gumbel(size=(n, labels))
    return X, stats.rankdata(-theta, axis=1).astype(int)


@pytest.mark.parametrize(("entropy", "alpha"), [("l2", 2.0), ("kl", 1.0)])
@pytest.mark.parametrize("intercept", [True, False])
def test_points_for_the_first_place_alone_are_a_classifier(entropy, alpha, intercept):
    X, ranks = rankings(3)
    settings = {"potential": 0.01, "fit_intercept": intercept, "tol": 1e-10}
    ranker = mx.LabelRanker(entropy, [1, 0, 0], **settings).fit(X, ranks)
    peer = mx.FenchelYoungClassifier(alpha=alpha, **settings).fit(X, ranks.argmin(axis=1))
    np.testing.assert_allclose(ranker.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(ranker.predict_points(X), peer.predict_proba(X), atol=1e-4)
    assert ranker.objective_ == pytest.approx(peer.objective_, abs=1e-9)
    assert ranker.gap_ < 1e-9


@pytest.mark.parametrize("entropy", ["l2", "kl"])
def test_fits_are_certified_and_rank(entropy):
    X, ranks = rankings(noise=0.1)
    model = mx.LabelRanker(entropy, potential=1e-3, tol=1e-8).fit(X, ranks)
    assert model.gap_ <= 1e-8
    assert model.score(X, ranks) > 0.9
    np.testing.assert_array_equal(np.sort(model.predict(X), axis=1), [[1, 2, 3, 4]] * len(X))
    taus = [stats.kendalltau(a, b)[0] for a, b in zip(model.predict(X), ranks, strict=True)]
    assert model.score(X, ranks) == pytest.approx(np.mean(taus))
    points = model.predict_points(X)
    assert model.entropy_.domain.contains(points).all()
    np.testing.assert_allclose(points.mean(axis=0), 5 - ranks.mean(axis=0), atol=1e-4)
    other = mx.LabelRanker(entropy, potential=1e-3, tol=1e-8, solver="lbfgs").fit(X, ranks)
    assert abs(other.objective_ - model.objective_) <= 2e-8


def test_weights_are_repetitions():
    X, ranks = rankings()
    weight = np.random.default_rng(1).integers(0, 3, len(X))
    weighted = mx.LabelRanker(tol=1e-10).fit(X, ranks, weight)
    repeated = mx.LabelRanker(tol=1e-10).fit(np.repeat(X, weight, 0), np.repeat(ranks, weight, 0))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    assert weighted.score(X, ranks, weight) == pytest.approx(
        repeated.score(np.repeat(X, weight, 0), np.repeat(ranks, weight, 0))
    )


def test_a_label_that_is_always_first():
    """The mean of the rankings lies on a face of the permutahedron, and so do the predictions."""
    X, ranks = rankings(3)
    ranks = np.hstack([np.ones((len(X), 1)), ranks + 1])
    model = mx.LabelRanker("l2", potential=0.01).fit(X, ranks)
    assert model.gap_ <= 1e-6
    assert (model.predict(X)[:, 0] == 1).all()
    np.testing.assert_allclose(model.predict_points(X)[:, 0], 4)


def test_any_numbers_rank_and_ties_share():
    X, ranks = rankings()
    plain = mx.LabelRanker().fit(X, ranks)
    np.testing.assert_allclose(mx.LabelRanker().fit(X, np.exp(ranks)).coef_, plain.coef_)
    tied = np.tile([1, 1, 2, 2], (len(X), 1))
    model = mx.LabelRanker().fit(X, tied)
    np.testing.assert_allclose(model.predict_points(X), [[3.5, 3.5, 1.5, 1.5]] * len(X), atol=1e-3)
    assert mx.kendall_tau(tied[0], ranks[0]) == pytest.approx(
        stats.kendalltau(tied[0], ranks[0])[0]
    )
    assert mx.kendall_tau([1, 1], [1, 2]) == 0


@pytest.mark.parametrize("entropy", ["l2", "kl"])
def test_kernels_and_files(entropy, tmp_path):
    X, ranks = rankings()
    model = mx.LabelRanker(entropy, kernel="rbf", potential=0.01, tol=1e-7).fit(X, ranks)
    assert model.gap_ < 1e-6
    mx.save(model, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.entropy_.domain.w, [4, 3, 2, 1])


def test_in_a_grid():
    X, ranks = rankings(noise=0.1)
    search = GridSearchCV(mx.LabelRanker(), {"potential": [1e-3, 1e3]}, cv=3).fit(X, ranks)
    assert search.best_params_["potential"] == 1e-3


def test_reach_ends_on_the_boundary():
    rng = np.random.default_rng(0)
    domain = mx.Permutahedron([5, 3, 3, 1, 0, 0])
    for _ in range(20):
        point = domain.project(rng.normal(size=6))
        direction = rng.normal(size=6)
        direction -= direction.mean()
        t = domain.reach(point, direction)
        assert domain.contains(point + t * direction)
        assert not domain.contains(point + (t + 1e-3) * direction)
    assert domain.reach(point, np.zeros(6)) == np.inf


BAD = [
    (lambda X, y: mx.LabelRanker("l1").fit(X, y), 'entropy must be "l2", "kl"'),
    (lambda X, y: mx.LabelRanker(mx.Shannon()).fit(X, y), "an Entropy on a Permutahedron"),
    (lambda X, y: mx.LabelRanker(weights=[2, 1]).fit(X, y), "2 weights, and y ranks 4 labels"),
    (lambda X, y: mx.LabelRanker(weights=[1, 2, 3, 4]).fit(X, y), "must not increase"),
    (
        lambda X, y: mx.LabelRanker(
            mx.SquaredNorm(domain=mx.Permutahedron([4, 3, 2, 1])), [4, 3, 2, 1]
        ).fit(X, y),
        "brings its own",
    ),
    (lambda X, y: mx.LabelRanker().fit(X, None), "requires y to be passed"),
    (lambda X, y: mx.LabelRanker().fit(X, y[:, 0]), "matrix .* of ranks"),
    (lambda X, y: mx.LabelRanker().fit(X, y[:, :1]), "two labels or more"),
    (lambda X, y: mx.LabelRanker().fit(X, np.where(y == 1, np.nan, y)), "NaN"),
    (lambda X, y: mx.LabelRanker().fit(X, y[1:]), "inconsistent"),
    (lambda X, y: mx.kendall_tau(y, y[:, :2]), "one shape"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call(*rankings())


class AnyRanking(mx.LabelRanker):
    """Any y of one column becomes a ranking of two labels, as the checks know no rankings."""

    def _ranks(self, X, y):
        column = None if y is None else np.asarray(y)
        if column is not None and column.ndim == 2 and column.shape[1] == 1:
            y = np.hstack([column, -column])
        return super()._ranks(X, y)


EXACT = {"tol": 1e-14, "solver": "newton-cg"}  # the checks compare the last digits
EXPECTED = dict.fromkeys(
    ["check_estimator_sparse_array", "check_estimator_sparse_matrix"],
    "predictions are the ranks of two labels, the check wants one column",
)


@pytest.mark.slow
@parametrize_with_checks(
    [AnyRanking(entropy, potential=1.0, **EXACT) for entropy in ("l2", "kl")],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_sklearn_compatible(estimator, check):
    check(estimator)
