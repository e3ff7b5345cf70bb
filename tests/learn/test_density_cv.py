"""MaxentDensityCV: the choice, its table, its splits and its scores."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxent as mx
from maxent.core import bounds
from maxent.evaluation import auc
from maxent.features import Hinge, Linear


def cv_model(features=("l",), potentials=("box",), **settings):
    settings = {"multipliers": (1.0,), "cv": 3, "verbose": 0, **settings}
    return mx.MaxentDensityCV(features, potentials, **settings)


def bump(n=400, seed=0):
    """Occurrences in the middle of the first variable: a straight line sees nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    y = rng.poisson(0.4 * np.exp(-12 * X[:, 0] ** 2))
    return X, y


def test_the_obviously_better_features_are_chosen():
    X, y = bump()
    model = cv_model(features=("l", "lq"), multipliers=(1.0, 50.0)).fit(X, y)
    assert model.best_params_ == {
        "features": "lq", "potential": "box", "entropy": "shannon", "multiplier": 1.0,
    }  # fmt: skip
    assert "x0^2" in model.coef_
    best = np.argmax(model.cv_results_["mean_score"])
    assert model.best_score_ == model.cv_results_["mean_score"][best]
    plain = mx.MaxentDensity("lq", verbose=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-6)
    assert abs(model.gain_ - plain.gain_) < 1e-7
    assert model.gap_ <= 1e-7


def test_too_little_and_too_much_regularization_lose():
    X, y = bump(200)
    model = cv_model(features=("lqh",), multipliers=(1e-3, 1.0, 1e4)).fit(X, y)
    assert model.best_params_["multiplier"] == 1.0


def test_the_table_of_results():
    X, y = bump(150)
    features, multipliers = ("l", "lq"), (0.5, 2.0, 1.0)
    model = cv_model(
        features=features, potentials=("box", "elastic"), multipliers=multipliers, cv=4
    ).fit(X, y)
    table = model.cv_results_
    assert np.shape(table["scores"]) == (12, 4)
    for name in ("features", "potential", "entropy", "multiplier", "mean_score", "sd_score"):
        assert len(table[name]) == 12, name
    np.testing.assert_allclose(table["mean_score"], np.mean(table["scores"], axis=1))
    np.testing.assert_allclose(table["sd_score"], np.std(table["scores"], axis=1))
    rows = set(zip(table["features"], table["potential"], table["multiplier"], strict=True))
    assert len(rows) == 12
    assert rows == {(f, v, c) for f in features for v in ("box", "elastic") for c in multipliers}
    # one cell of the table, by hand
    at = list(zip(table["features"], table["potential"], table["multiplier"], strict=True)).index(
        ("lq", "elastic", 0.5)
    )
    for k, (train, test) in enumerate(mx.PresenceKFold(4).split(X, y)):
        single = mx.MaxentDensity("lq", "elastic", multiplier=0.5, verbose=0)
        log_density = single.fit(X[train], y[train]).score_samples(X)
        log_density -= special.logsumexp(log_density)
        held_out = np.zeros(len(y))
        held_out[test] = y[test]
        score = held_out @ log_density / held_out.sum()
        assert abs(table["scores"][at][k] - score) < 1e-4


def test_auc_scores_are_those_of_the_test_rows():
    X, y = bump(150)
    model = cv_model(features=("lq",), scoring="auc").fit(X, y)
    for score, (train, test) in zip(
        model.cv_results_["scores"][0], mx.PresenceKFold(3).split(X, y), strict=True
    ):
        single = mx.MaxentDensity("lq", verbose=0).fit(X[train], y[train])
        p, counts = single.predict(X[test]), y[test]
        expected = auc(p[counts > 0], p[counts == 0], presence_weights=counts[counts > 0])
        assert abs(score - expected) < 1e-3
    assert 0.5 < model.best_score_ < 1


def test_a_scoring_function_decides():
    X, y = bump(100)
    seen = []

    def fewest(fitted, X_all, counts, test):
        assert isinstance(fitted, mx.MaxentDensity)
        assert len(X_all) == len(counts) == 100
        seen.append(test)
        return -len(fitted.coef_)

    model = cv_model(features=("l", "lqh"), multipliers=(0.1, 1.0, 100.0), scoring=fewest).fit(X, y)
    assert len(seen) == 2 * 3 * 3
    assert model.best_params_["multiplier"] == 100.0
    assert model.best_score_ == 0


def test_spatial_blocks_where_coordinates_are_given():
    X, y = bump(200)
    places = np.random.default_rng(5).uniform(size=(200, 2))
    by_place = cv_model(features=("l", "lq"), cv=None).fit(X, y, coordinates=places)
    blocks = mx.SpatialBlocks(places)
    explicit = cv_model(features=("l", "lq"), cv=blocks).fit(X, y)
    by_groups = cv_model(features=("l", "lq"), cv=mx.SpatialBlocks(None)).fit(X, y, groups=places)
    plain = cv_model(features=("l", "lq"), cv=None).fit(X, y)
    scores = by_place.cv_results_["scores"]
    assert np.shape(scores) == (2, 4)
    np.testing.assert_array_equal(scores, explicit.cv_results_["scores"])
    np.testing.assert_array_equal(scores, by_groups.cv_results_["scores"])
    assert np.shape(plain.cv_results_["scores"]) == (2, 5)
    train, test = next(blocks.split(X, y))
    single = mx.MaxentDensity("l", verbose=0).fit(X[train], y[train])
    log_density = single.score_samples(X)
    log_density -= special.logsumexp(log_density)
    expected = y[test] @ log_density[test] / y[test].sum()
    assert abs(scores[0][0] - expected) < 1e-4


def test_splitters_of_scikit_learn():
    X, y = bump(120)
    folds = KFold(3, shuffle=True, random_state=0)
    model = cv_model(cv=folds).fit(X, y)
    assert np.shape(model.cv_results_["scores"]) == (1, 3)
    given = cv_model(cv=list(folds.split(X))).fit(X, y)  # an iterable of splits, as everywhere
    np.testing.assert_array_equal(given.cv_results_["scores"], model.cv_results_["scores"])


def test_infinite_log_loss_of_sparse_densities_loses():
    """Held-out occurrences where a sparse density is 0: no warning, and never the choice."""
    X, y = bump(120)
    sparse = mx.Tsallis(2.0)
    model = cv_model(features=("lqh",), entropies=("shannon", sparse), multipliers=(0.01, 1.0)).fit(
        X, y
    )
    table = model.cv_results_
    lost = [
        e is sparse and c == 0.01
        for e, c in zip(table["entropy"], table["multiplier"], strict=True)
    ]
    assert np.isneginf(np.asarray(table["mean_score"])[lost]).all()
    assert np.isfinite(model.best_score_)
    assert not np.isnan(table["mean_score"]).any()
    with pytest.raises(ValueError, match=r"no candidate has a finite held-out.*scoring=\"auc\""):
        cv_model(features=("lqh",), entropies=(sparse,), multipliers=(0.01,)).fit(X, y)
    by_auc = cv_model(
        features=("lqh",), entropies=(sparse,), multipliers=(0.01, 1.0), scoring="auc"
    ).fit(X, y)
    assert by_auc.best_params_["entropy"] == sparse
    with pytest.raises(ValueError, match="the bound is for the log loss"):
        by_auc.bound()
    assert "duality gap" in by_auc.summary()


def test_threads_change_nothing():
    X, y = bump(150)
    one = cv_model(features=("l", "lq", "lqh"), multipliers=(0.5, 1.0, 4.0)).fit(X, y)
    two = cv_model(features=("l", "lq", "lqh"), multipliers=(0.5, 1.0, 4.0), n_jobs=2).fit(X, y)
    np.testing.assert_allclose(two.cv_results_["scores"], one.cv_results_["scores"], atol=1e-9)
    assert two.best_params_ == one.best_params_
    np.testing.assert_allclose(two.predict(X), one.predict(X), atol=1e-9)


def test_weights_and_priors_reach_the_fits():
    X, y = bump(150)
    bias = np.exp(X[:, 1])
    weight = np.where(np.arange(150) % 2, 2.0, 1.0)
    model = cv_model(features=("lq",), cv=3).fit(X, y, sample_weight=weight, prior=bias)
    plain = mx.MaxentDensity("lq", verbose=0).fit(X, y, sample_weight=weight, prior=bias)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-6)
    assert model.n_points_ == weight.sum()


def test_a_weight_of_two_scores_as_two_rows():
    """log_loss is normalised over all rows: a row of weight 2 is two of them."""
    X, y = bump(60)
    y = np.minimum(y, 1)
    times = np.where(y > 0, 1, np.where(X[:, 0] > 0, 3, 1))

    class Same:  # the same presences in each fold, whatever the number of background rows
        def split(self, X, y, groups=None):
            rows = np.flatnonzero(y > 0)
            for held_out in (rows[::2], rows[1::2]):
                train = np.setdiff1d(np.arange(len(y)), held_out)
                yield train, held_out

    weighted = cv_model(features=("l",), cv=Same()).fit(X, y, sample_weight=times)
    repeated = cv_model(features=("l",), cv=Same()).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    np.testing.assert_allclose(
        weighted.cv_results_["scores"], repeated.cv_results_["scores"], atol=1e-5
    )


def test_missing_rows():
    X, y = bump(150)
    X[[3, 50], [0, 1]] = np.nan
    whole = np.isfinite(X).all(axis=1)
    y[~whole] = 0
    model = cv_model(features=("l", "lq"), missing="drop").fit(X, y)
    fewer = cv_model(features=("l", "lq")).fit(X[whole], y[whole])
    assert model.best_params_ == fewer.best_params_
    assert np.isnan(model.predict(X)[~whole]).all()


def test_frames_and_levels_that_a_fold_misses():
    X, y = bump(150)
    frame = pd.DataFrame(X, columns=["rain", "temp"])
    frame["soil"] = np.where(np.arange(150) == 149, "rare", np.where(X[:, 1] > 0, "bog", "fen"))
    places = np.arange(300.0).reshape(150, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = cv_model(features=("lc", "lqc"), cv=None).fit(frame, y, coordinates=places)
    assert model.best_params_["features"] == "lqc"
    assert model.predict(frame).shape == (150,)


def test_the_bound_counts_the_features_of_every_candidate():
    X, y = bump(150)
    sets = ("l", "lq", "lqp")
    model = cv_model(features=sets, multipliers=(1.0,)).fit(X, y)
    k = X.shape[1]
    squares, products = k, k * (k - 1) // 2
    events = k + 0 + squares + (squares + products)
    weights = np.abs(list(model.coef_.values())).sum()
    beta = bounds.hoeffding_beta(events, int(y.sum()), 0.05)
    assert model.bound().deviation == pytest.approx(beta * weights)


def test_the_chosen_model_has_all_that_a_density_has(tmp_path):
    X, y = bump(150)
    model = cv_model(features=("lq", [Linear(), Hinge(5)]), multipliers=(0.5, 1.0)).fit(X, y)
    assert abs(model.predict(X).sum() - 1) < 1e-9
    assert model.profile(0).complete
    assert model.bound().bound > model.bound().sample_loss
    assert f"{y.sum()} presences, 150 points" in model.summary()
    path = model.path(X, y, n_multipliers=3)
    assert [type(m) for m in path] == [mx.MaxentDensity] * 3
    assert path[0].coef_ == {}
    assert abs(model.score(X, y) + model.log_loss(X, y)) < 1e-12
    mx.save(model, tmp_path / "cv.json")
    loaded = mx.load(tmp_path / "cv.json")
    assert type(loaded) is mx.MaxentDensityCV
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.best_params_["multiplier"] == model.best_params_["multiplier"]
    assert loaded.summary() == model.summary()
    assert not hasattr(clone(model), "best_params_")
    assert clone(model).get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "lq"}, r"features: give a list of choices, got 'lq'"),
        ({"features": ()}, "features: give a list of choices"),
        ({"potentials": "box"}, "potentials: give a list of choices, got 'box'"),
        ({"entropies": []}, "entropies: give a list of choices"),
        ({"multipliers": ()}, "multipliers is empty"),
        ({"multipliers": (1.0, -1.0)}, "multiplier must be a positive number, got -1"),
        ({"features": ("l", "x")}, 'letters from "lqpthck"'),
        ({"potentials": ("l1",)}, "potential must be a Potential or one of"),
        (
            {"cv": "blocks"},
            "cv must be a splitter, a number of folds or a list of splits, got 'blocks'",
        ),
        ({"cv": 1}, "n_splits must be an integer >= 2, got 1"),
        ({"cv": 1000}, "1000 folds need as many rows with presences"),
        ({"scoring": "tss"}, "scoring must be a function or one of log_loss, auc, got 'tss'"),
        ({"preset": "jar"}, "preset must be None"),
    ],
)
def test_bad_settings(settings, message):
    X, y = bump(60)
    with pytest.raises(ValueError, match=message):
        cv_model(**settings).fit(X, y)


def test_bad_data():
    X, y = bump(60)
    with pytest.raises(ValueError, match="y has 0"):
        cv_model().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match=r"shape \(60,\), got \(7,\)"):
        cv_model().fit(X, y[:7])
    with pytest.raises(ValueError, match="coordinates"):
        cv_model(cv=None).fit(X, y, coordinates=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        cv_model().fit(X, y, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match="background rows in every test set"):
        cv_model(cv=mx.BufferedLeaveOneOut(X, radius=0.0, n_splits=3), scoring="auc").fit(X, y)


def test_numpy_integers_are_numbers_of_folds():
    X, y = bump(60)
    assert cv_model(cv=np.int64(2)).fit(X, y).cv_results_["scores"].shape == (1, 2)


EXPECTED = {
    "check_fit2d_1sample": "one row cannot be split: the splitter's message is about folds",
}


@parametrize_with_checks(
    [mx.MaxentDensityCV(cv=2, features=("l",), multipliers=(1.0,), verbose=0)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constant columns|.*not used")
        check(estimator)
