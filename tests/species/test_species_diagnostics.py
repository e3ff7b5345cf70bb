"""Diagnostics of a species' fit against brute force: pairs, loops, quadrature and direct fits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import maxent as mx
from maxent.features import Hinge, Interaction, Linear
from maxent.species.fitting.results import Sample
from maxent.species.judging import (
    REFIT_TOL,
    evaluate,
    fit_sample,
    gain_shares,
    importance,
    jackknife,
    replicate,
    responses,
)
from maxent.species.judging.refits import KNOTS, coarse, sample_task
from maxent.species.judging.replicates import split_records

SPATIAL = ("blocks", "checkerboard")
KINDS = (*SPATIAL, "random", "subsample", "bootstrap")


def make_sample(n=400, m=40, seed=0, twice=True, levels=4):
    """Background cells and presences outside of them, some with several records."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 10, size=(n + m, 2))
    wet = np.sin(places[:, 0]) + 0.2 * rng.normal(size=n + m)
    warm = places[:, 1] + 0.5 * rng.normal(size=n + m)
    wet[n:] = np.abs(wet[n:])  # presences like it wet
    warm[n:] = 5 + 0.4 * (warm[n:] - 5)
    X = pd.DataFrame(
        {
            "wet": wet,
            "warm": warm,
            "noise": rng.normal(size=n + m),
            "soil": (wet * levels / 2 + rng.normal(size=n + m)).round().clip(0, levels - 1) + 0.0,
        }
    )
    counts = np.repeat([0, 1], [n, m])
    if twice:
        counts[n : n + 5] = 3
    return Sample(X, counts, places, None, counts == 0)


def density(features="lqpc", **settings):
    settings = {"categorical": ["soil"], "verbose": 0, **settings}
    return mx.MaxentDensity(features, **settings)


@pytest.fixture(scope="module")
def sample():
    return make_sample()


@pytest.fixture(scope="module")
def held_out():
    """Records that no fit has seen."""
    other = make_sample(seed=5)
    return other.take(np.flatnonzero(other.counts > 0)[:11])


@pytest.fixture(scope="module")
def model(sample):
    return fit_sample(density(), sample)


def repeated(model, sample, output="raw"):
    """Predictions at the records, one each, and at the background."""
    values = model.predict(sample.X, output)
    return np.repeat(values, sample.counts), values[sample.at_background]


def pairwise_auc(presence, background):
    wins = (presence[:, None] > background) + 0.5 * (presence[:, None] == background)
    return wins.mean()


# -- evaluate ------------------------------------------------------------------------------------


def test_scores_of_the_training_records(sample, model):
    found = evaluate(model, sample).scores
    presence, background = repeated(model, sample)
    n = 50
    assert found["n"] == n == presence.size
    label = np.repeat([1, 0], [n, 400])
    both = np.concatenate([presence, background])
    assert found["auc"] == pytest.approx(roc_auc_score(label, both), abs=1e-12)
    wins = (presence[:, None] > background) + 0.5 * (presence[:, None] == background)
    variance = wins.mean(axis=1).var(ddof=1) / n + wins.mean(axis=0).var(ddof=1) / 400
    assert found["auc_sd"] == pytest.approx(np.sqrt(variance), rel=1e-10)
    assert found["gain"] == model.certificate.gain
    assert found["unregularized_gain"] == model.certificate.unregularized_gain
    log_loss = -np.log(presence).mean()
    assert found["log_loss"] == pytest.approx(log_loss, rel=1e-12)
    assert found["log_loss"] == pytest.approx(
        np.log(440) - model.certificate.unregularized_gain, abs=1e-6
    )
    skill = [(presence >= t).mean() - (background >= t).mean() for t in np.sort(both)]
    assert found["max_tss"] == pytest.approx(max(skill), abs=1e-12)
    best = np.sort(both)[int(np.argmax(skill))]
    cloglog = 1 - np.exp(-best * np.exp(model.raw_entropy))
    assert found["tss_threshold"] == pytest.approx(cloglog, abs=1e-12)
    k = len(model.coef)
    assert found["n_parameters"] == k
    assert found["aicc"] == pytest.approx(
        2 * k + 2 * n * log_loss + 2 * k * (k + 1) / (n - k - 1), rel=1e-10
    )
    assert found["entropy"] == model.raw_entropy
    at_background = repeated(model, sample, "cloglog")[1]
    assert found["prevalence"] == pytest.approx(at_background.mean(), rel=1e-12)
    boyce = mx.evaluation.boyce(*repeated(model, sample, "cloglog"))
    assert found["boyce"] == boyce.index


def test_the_largest_auc_is_that_of_records_drawn_from_the_model(sample, model):
    background = repeated(model, sample)[1]
    total = 0.0
    for value in background:  # a record here has probability in proportion to the value
        total += value * ((background < value).mean() + 0.5 * (background == value).mean())
    found = evaluate(model, sample).scores["max_auc"]
    assert found == pytest.approx(total / background.sum(), abs=1e-12)


def test_scores_of_test_records_are_against_the_background_of_the_sample(sample, held_out, model):
    found = evaluate(model, sample, held_out)
    presence = repeated(model, held_out)[0]
    background = repeated(model, sample)[1]
    scores = found.test_scores
    assert set(scores) == {
        "n", "auc", "auc_sd", "log_loss", "gain", "boyce", "max_tss", "tss_threshold",
    }  # fmt: skip
    assert scores["n"] == held_out.counts.sum()
    assert scores["auc"] == pytest.approx(pairwise_auc(presence, background), abs=1e-12)
    assert scores["gain"] == pytest.approx(np.log(440 * presence).mean(), abs=1e-10)
    assert scores["log_loss"] == pytest.approx(-np.log(presence).mean(), rel=1e-12)
    assert evaluate(model, sample).test_scores is None
    assert found.scores == evaluate(model, sample).scores


def test_one_test_record_has_an_auc_without_deviation(sample, held_out, model):
    scores = evaluate(model, sample, held_out.take(np.array([6]))).test_scores
    presence = repeated(model, held_out.take(np.array([6])))[0]
    assert scores["auc"] == pytest.approx(pairwise_auc(presence, repeated(model, sample)[1]))
    assert np.isnan(scores["auc_sd"])
    two = held_out.take(np.array([6, 7]))
    expected = mx.evaluation.auc_delong(repeated(model, two)[0], repeated(model, sample)[1])
    assert evaluate(model, sample, two).test_scores["auc_sd"] == pytest.approx(expected.sd)


def test_test_records_must_be_records(sample, model):
    with pytest.raises(ValueError, match="400 rows but no occurrence"):
        evaluate(model, sample, sample.take(np.arange(400)))


def test_thresholds_hold_on_the_map(sample, held_out, model):
    """Values are bit for bit those of the cloglog output, so >= on a map gives the same rates."""
    table = evaluate(model, sample, held_out).thresholds
    assert [row["name"] for row in table] == [
        t.name
        for t in mx.evaluation.thresholds(
            *repeated(model, sample, "cloglog"),
            repeated(model, held_out, "cloglog")[0],
            repeated(model, sample)[1],
        )
    ]
    presence, background = repeated(model, sample, "cloglog")
    test = repeated(model, held_out, "cloglog")[0]
    known = dict(
        zip(model.predict(sample.X, "cloglog"), model.predict(sample.X, "raw"), strict=True)
    ) | dict(zip(test, repeated(model, held_out)[0], strict=True))
    for row in table:
        assert row["area"] == pytest.approx((background >= row["value"]).mean(), abs=1e-12)
        omission = (presence < row["value"]).mean()
        assert row["training_omission"] == pytest.approx(omission, abs=1e-12)
        assert row["test_omission"] == pytest.approx((test < row["value"]).mean(), abs=1e-12)
        hits = int((test >= row["value"]).sum())
        p_value = stats.binom.sf(hits - 1, test.size, row["area"])
        assert row["p_value"] == pytest.approx(p_value, rel=1e-9)
        assert row["raw"] == pytest.approx(known[row["value"]], rel=1e-12)
    rows = {row["name"]: row for row in table}
    assert rows["Minimum training presence"]["value"] == presence.min()
    assert rows["10 percentile training presence"]["value"] == np.sort(presence)[5]
    raw = np.sort(repeated(model, sample)[1])
    ten = raw[np.searchsorted(np.cumsum(raw) / raw.sum(), 0.1)]
    assert rows["Fixed cumulative value 10"]["raw"] == pytest.approx(ten, rel=1e-12)


def test_omission_and_roc_curves_are_thinned_and_keep_their_ends():
    sample = make_sample(900)
    model = fit_sample(density("lqc"), sample)
    found = evaluate(model, sample, make_sample(50, seed=4).take(np.arange(50, 60)))
    presence, background = repeated(model, sample)
    curve = found.omission
    assert 300 < curve["raw"].size <= 500
    for raw, cloglog, cumulative, area, omission in zip(
        *(curve[k] for k in ("raw", "threshold", "cumulative", "area", "training_omission")),
        strict=True,
    ):
        value = raw * (1 - 1e-12)
        assert area == pytest.approx((background >= value).mean(), abs=1e-12)
        assert omission == pytest.approx((presence < value).mean(), abs=1e-12)
        mass = background[background <= raw * (1 + 1e-12)].sum() / background.sum()
        assert cumulative == pytest.approx(100 * mass, abs=1e-9)
        assert cloglog == pytest.approx(1 - np.exp(-raw * np.exp(model.raw_entropy)), abs=1e-12)
    assert curve["raw"][0] == pytest.approx(min(presence.min(), background.min()), rel=1e-12)
    assert curve["cumulative"][-1] == 100
    assert np.diff(curve["cumulative"]).max() < 1.0
    for name in ("train", "test"):
        roc = found.roc[name]
        assert 100 < roc["false_positive_rate"].size <= 500
        ends = [(rate[0], rate[-1]) for rate in roc.values()]
        assert ends == [(0, 1), (0, 1)]
    area = np.trapezoid(*(found.roc["train"][f"{k}_positive_rate"] for k in ("true", "false")))
    assert area == pytest.approx(found.scores["auc"], abs=1e-3)


def test_calibration_by_hand(sample, held_out, model):
    found = evaluate(model, sample, held_out).calibration
    presence, background = repeated(model, sample)
    test = repeated(model, held_out)[0]
    ordered = np.sort(background)
    assert found["predicted"].size == 10
    for b in range(10):
        low = -np.inf if b == 0 else ordered[40 * b]
        high = np.inf if b == 9 else ordered[40 * (b + 1)]

        def share(values, weights=None, low=low, high=high):
            return np.average((values >= low) & (values < high), weights=weights)

        assert found["predicted"][b] == pytest.approx(share(background, background), rel=1e-9)
        for records, prefix in ((presence, ""), (test, "test_")):
            hits = round(share(records) * records.size)
            interval = stats.binomtest(hits, records.size).proportion_ci(0.9, "wilson")
            assert found[f"{prefix}observed"][b] == pytest.approx(hits / records.size)
            assert found[f"{prefix}low"][b] == pytest.approx(interval.low, abs=1e-9)
            assert found[f"{prefix}high"][b] == pytest.approx(interval.high, abs=1e-9)


def test_the_boyce_curve_is_the_one_behind_the_index(sample, held_out, model):
    found = evaluate(model, sample, held_out).boyce_curve
    presence, background = repeated(model, sample, "cloglog")
    for records, prefix in (
        (presence, ""),
        (repeated(model, held_out, "cloglog")[0], "test_"),
    ):
        middle = found[f"{prefix}prediction"]
        low, high = (f(np.concatenate([records, background])) for f in (np.min, np.max))
        assert middle[[0, -1]] == pytest.approx(
            [low + 0.05 * (high - low), high - 0.05 * (high - low)]
        )
        for x, ratio in list(zip(middle, found[f"{prefix}ratio"], strict=True))[1:-1:7]:
            inside = [np.abs(v - x) <= 0.05 * (high - low) for v in (records, background)]
            if inside[1].any():
                assert ratio == pytest.approx(inside[0].mean() / inside[1].mean())
            else:
                assert np.isnan(ratio)


def test_a_constant_model_is_judged_too(sample):
    """With so much regularization no feature is in use."""
    model = fit_sample(density("lc", multiplier=1e4), sample)
    assert not model.coef
    found = evaluate(model, sample)
    assert found.scores["auc"] == found.scores["max_auc"] == 0.5
    assert found.scores["max_tss"] == 0
    assert np.isnan(found.scores["boyce"])
    assert found.calibration["predicted"] == found.calibration["observed"] == [1.0]
    assert found.omission["area"].tolist() == [1.0]
    assert all(row["value"] == pytest.approx(1 - np.exp(-1)) for row in found.thresholds)
    shares = importance(model, sample, repeats=2)
    assert not shares.contribution.any()
    assert not shares.permutation.any()


def test_a_density_with_exact_zeros(sample, held_out):
    model = fit_sample(density("lqc", entropy=mx.Tsallis(2.0)), sample)
    presence, background = repeated(model, sample)
    assert (background == 0).any()
    scores = evaluate(model, sample, held_out).scores
    assert scores["auc"] == pytest.approx(pairwise_auc(presence, background), abs=1e-12)
    far = held_out.take(np.arange(2))
    far.X["warm"] = sample.X["warm"].min()
    assert evaluate(model, sample, far).test_scores["gain"] == -np.inf


# -- replicates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_training_and_test_records_never_share_a_row(sample, kind):
    splits = split_records(sample, kind, 4, 0.25, seed=1)
    assert len(splits) == 4
    for split in splits:
        assert not ((split.train > 0) & (split.test > 0)).any()
        assert split.domain[split.train > 0].all()
        if kind == "bootstrap":
            assert split.train.sum() == sample.counts.sum()
            assert (split.test == np.where(split.train == 0, sample.counts, 0)).all()
        else:
            assert (split.train + split.test == sample.counts).all()
        if kind in SPATIAL:
            assert not split.domain[split.test > 0].any()
        else:
            assert (split.domain == (sample.at_background | (split.train > 0))).all()
        if kind == "subsample":
            assert (split.test > 0).sum() == 10
    if kind in (*SPATIAL, "random"):
        assert (sum(split.test for split in splits) == sample.counts).all()


@pytest.mark.parametrize("kind", SPATIAL)
def test_a_block_is_left_out_with_its_background(sample, kind):
    splitter = mx.evaluation.SpatialBlocks(sample.coordinates, n_splits=4)
    splits = split_records(sample, kind, 4, 0.25, seed=0)
    for k, split in enumerate(splits):
        own = ~split.domain & sample.at_background
        assert own.sum() >= 50
        if kind == "blocks":
            assert (split.domain == (splitter.folds(sample.counts) != k)).all()


@pytest.mark.parametrize(("seed", "along"), [(0, 5), (3, 4), (8, 8)])
def test_a_checkerboard_leaves_most_records_in_its_smallest_set(seed, along):
    sample = make_sample(seed=seed)
    side = np.ptp(sample.coordinates[400:], axis=0).max()
    least = {}
    for k in range(4, 9):
        board = mx.evaluation.Checkerboard(sample.coordinates, side / k, levels=2)
        least[k] = np.bincount(board.folds(sample.counts)[400:], minlength=4).min()
    assert along == min(k for k in least if least[k] == max(least.values()))
    board = mx.evaluation.Checkerboard(sample.coordinates, side / along, levels=2)
    splits = split_records(sample, "checkerboard", 4, 0.25, seed=0)
    fold = sum(k * (split.test[400:] > 0) for k, split in enumerate(splits))
    assert fold.tolist() == board.folds(sample.counts)[400:].tolist()


def test_blocks_are_compared_with_all_background(sample):
    """Whatever their size: scores of all blocks, of training and of test compare."""
    made, models = replicate(density("lqc"), sample, kind="blocks", n=4, keep_models=True)
    for row, split, model in zip(
        made.table, split_records(sample, "blocks", 4, 0.25, seed=0), models, strict=True
    ):
        raw = model.predict(sample.X)
        for name, counts in (("train_auc", split.train), ("test_auc", split.test)):
            expected = pairwise_auc(np.repeat(raw, counts), raw[sample.at_background])
            assert row[name] == pytest.approx(expected, abs=1e-12)


def test_background_cells_with_held_out_records_stay_background():
    """Rows are cells of a grid: a record held out leaves its cell in the region."""
    sample = make_sample()
    sample = replace(sample, background=None)
    for split in split_records(sample, "random", 4, 0.25, seed=0):
        assert split.domain.all()


@pytest.mark.parametrize("kind", ["blocks", "bootstrap"])
def test_a_replicate_is_the_fit_to_its_part(sample, kind):
    estimator = density("lqc")
    made, models = replicate(estimator, sample, kind=kind, n=3, seed=2, keep_models=True)
    assert made.kind == kind
    splits = split_records(sample, kind, 3, 0.25, seed=2)
    rates, omissions = [], []
    for row, split, kept in zip(made.table, splits, models, strict=True):
        part = replace(sample, counts=split.train).take(np.flatnonzero(split.domain))
        direct = fit_sample(clone(estimator).set_params(tol=REFIT_TOL), part)
        raw = direct.predict(sample.X)
        np.testing.assert_allclose(kept.predict(sample.X), raw, rtol=1e-10)
        train, test = np.repeat(raw, split.train), np.repeat(raw, split.test)
        background = reference = raw[sample.at_background]
        assert row["name"] == f"{'block' if kind == 'blocks' else kind} {len(rates) + 1}"
        assert row["n_train"] == split.train.sum()
        assert row["n_test"] == split.test.sum()
        assert row["train_auc"] == pytest.approx(pairwise_auc(train, background), abs=1e-12)
        assert row["test_auc"] == pytest.approx(pairwise_auc(test, reference), abs=1e-12)
        assert row["auc_difference"] == abs(row["train_auc"] - row["test_auc"])
        normalised = 400 * test / raw[:400].sum()
        assert row["test_gain"] == pytest.approx(np.log(normalised).mean(), abs=1e-10)
        assert row["omission_minimum"] == (test < train.min()).mean()
        tenth = np.sort(train)[train.size // 10]
        assert row["omission_10_percentile"] == (test < tenth).mean()
        cloglog = direct.predict(sample.X, "cloglog")
        boyce = mx.evaluation.boyce(np.repeat(cloglog, split.test), cloglog[sample.at_background])
        assert row["boyce"] == boyce.index
        assert row["gain"] == direct.certificate.gain
        assert row["gap"] == direct.certificate.gap <= REFIT_TOL
        assert row["error"] == ""
        rate = []
        cuts = np.unique(np.concatenate([[0, np.inf], reference, test]))
        points = [((reference >= t).mean(), (test >= t).mean()) for t in cuts]
        for false in np.linspace(0, 1, 101):  # the best points on either side, and between them
            left = max(p for p in points if p[0] <= false + 1e-12)
            right = min((p for p in points if p[0] > false + 1e-12), default=left)
            right = max(p for p in points if p[0] == right[0])
            step = 0 if right[0] == left[0] else (false - left[0]) / (right[0] - left[0])
            rate.append(left[1] + step * (right[1] - left[1]))
        rates.append(rate)
        cumulative = np.repeat(direct.predict(sample.X, "cumulative"), split.test)
        omissions.append([(cumulative < c).mean() for c in range(101)])
    for curve, direct in ((made.roc, rates), (made.omission, omissions)):
        np.testing.assert_allclose(curve["mean"], np.mean(direct, axis=0), atol=1e-9)
        np.testing.assert_allclose(curve["sd"], np.std(direct, axis=0, ddof=1), atol=1e-9)
    assert made.roc["false_positive_rate"].tolist() == np.linspace(0, 1, 101).tolist()
    assert made.omission["cumulative"].tolist() == list(range(101))


def test_the_picture_of_the_folds(sample):
    made, models = replicate(density("lc"), sample, kind="blocks", n=3)
    assert models == []
    assert (made.coordinates == sample.coordinates[400:]).all()
    folds = mx.evaluation.SpatialBlocks(sample.coordinates, n_splits=3).folds(sample.counts)
    assert made.fold.tolist() == folds[400:].tolist()
    nowhere = replace(sample, coordinates=None)
    made, _ = replicate(density("lc"), nowhere, kind="random", n=2)
    assert made.coordinates is None
    assert made.fold is None
    made, _ = replicate(density("lc"), sample, kind="bootstrap", n=1)
    assert made.fold is None
    assert np.isnan(made.roc["sd"]).all()


@pytest.mark.parametrize("kind", ["random", "subsample", "bootstrap"])
def test_the_seed_decides(sample, kind):
    def run(seed, n_jobs=None):
        return replicate(density("lc"), sample, kind=kind, n=2, seed=seed, n_jobs=n_jobs)[0].table

    assert run(3) == run(3) == run(3, n_jobs=2)
    assert run(3) != run(4)


def test_a_fold_that_cannot_be_fitted_is_reported():
    """The variable varies in the first block alone, so there is nothing to fit without it."""
    sample = make_sample()
    north = sample.coordinates[:, 1] > np.median(sample.coordinates[400:, 1])
    X = pd.DataFrame({"wet": np.where(north, 1.0, sample.X["wet"])})
    estimator = density("lc", categorical=())
    made, models = replicate(estimator, replace(sample, X=X), kind="blocks", n=2, keep_models=True)
    bad, good = made.table
    assert bad["error"].startswith("no feature of 'lc' varies")
    assert np.isnan([bad["test_auc"], bad["gain"], bad["boyce"]]).all()
    assert bad.keys() == good.keys()
    assert good["error"] == ""
    assert len(models) == 1
    assert (made.roc["mean"] >= 0).all()


def test_no_record_left_to_test_with():
    sample = make_sample(m=1, twice=False)
    made, _ = replicate(density("lc"), sample, kind="bootstrap", n=2)
    assert [row["error"] for row in made.table] == ["no record is left to test with"] * 2
    assert made.roc == {} == made.omission


def test_wrong_replicates(sample):
    with pytest.raises(
        ValueError, match="blocks, checkerboard, environment, random, subsample, bootstrap"
    ):
        replicate(density(), sample, kind="crossvalidate")
    with pytest.raises(ValueError, match=r'needs the places.*kind="random"'):
        replicate(density(), replace(sample, coordinates=None))
    with pytest.raises(ValueError, match="n = 2 or 4 replicates, got n=3"):
        replicate(density(), sample, kind="checkerboard", n=3)
    with pytest.raises(ValueError, match="n must be an integer >= 1, got 0"):
        replicate(density(), sample, n=0)
    with pytest.raises(ValueError, match="test_share must be between 0 and 1, got 1"):
        replicate(density(), sample, kind="subsample", test_share=1)
    one = make_sample(m=1)
    with pytest.raises(ValueError, match="needs two rows with records"):
        replicate(density(), one, kind="subsample")
    with pytest.raises(ValueError, match="all records are at one place"):
        replicate(density(), one, kind="checkerboard")


# -- importance ----------------------------------------------------------------------------------


def dense_features(model, X):
    """The features in use as a matrix, a column each, by their formulas."""
    columns = []
    for name in model.coef:
        if "=" in name:
            variable, level = name.split("=")
            columns.append((X[variable] == float(level)).to_numpy(float))
            continue
        if "^2" in name:
            column = X[name[:-2]] ** 2
        elif "*" in name:
            first, second = name.split("*")
            column = X[first] * X[second]
        else:
            column = X[name]
        columns.append(((column - column.min()) / (column.max() - column.min())).to_numpy())
    return np.column_stack(columns)


@pytest.mark.parametrize("entropy", ["shannon", mx.Tsallis(1.5)], ids=["shannon", "tsallis"])
def test_gain_shares_by_quadrature_on_a_dense_matrix(sample, entropy):
    """Each share is an integral along the ray of the weights, and they add up to the gain."""
    prior = np.random.default_rng(1).uniform(0.5, 2, size=440)
    sample = replace(sample, prior=prior)
    model = fit_sample(density(entropy=entropy), sample)
    assert any("*" in name for name in model.coef)
    assert any("=" in name for name in model.coef)
    F, w = dense_features(model, sample.X), np.array(list(model.coef.values()))
    mu = F.T @ sample.counts / sample.counts.sum()
    q0 = prior / prior.sum()
    relative = mx.Relative(mx.Shannon() if entropy == "shannon" else entropy, q0)

    def slope(t):
        return w * (mu - F.T @ relative.conjugate(t * (F @ w))[1])

    share = integrate.quad_vec(slope, 0, 1, epsabs=1e-9)[0]
    expected = dict.fromkeys(sample.X, 0.0)
    for name, value in zip(model.coef, share, strict=True):
        ends = name.split("=")[0].replace("^2", "").split("*")
        for end in ends:
            expected[end] += value / len(ends)
    found = gain_shares(model, sample)
    np.testing.assert_allclose(found, list(expected.values()), atol=3e-6)
    assert found.sum() == pytest.approx(model.certificate.unregularized_gain, abs=2e-6)
    percent = importance(model, sample, repeats=1).contribution
    np.testing.assert_allclose(percent, 100 * found / found.sum(), rtol=1e-12)


def test_gain_shares_add_up_where_densities_have_kinks(sample):
    model = fit_sample(density(entropy=mx.Tsallis(2.0)), sample)
    assert (model.predict(sample.X) == 0).any()
    assert gain_shares(model, sample).sum() == pytest.approx(
        model.certificate.unregularized_gain, abs=2e-6
    )


@pytest.mark.parametrize("preset", ["maxent", "maxnet"])
def test_gain_shares_of_merged_points_add_up(preset):
    """These presets merge presences with equal background rows, and the shares know."""
    sample = make_sample()
    sample.X.iloc[400:410] = sample.X.iloc[:10].to_numpy()
    model = fit_sample(density("lqph", preset=preset), sample)
    assert model.n_points == 430
    assert gain_shares(model, sample).sum() == pytest.approx(
        model.certificate.unregularized_gain, abs=2e-6
    )


def test_a_product_is_shared_by_halves(sample):
    two = replace(sample, X=sample.X[["wet", "warm"]])
    model = fit_sample(density([Interaction()], categorical=()), two)
    wet, warm = gain_shares(model, two)
    assert wet == warm == pytest.approx(model.certificate.unregularized_gain / 2, abs=1e-6)


def test_permutation_by_hand(sample, model):
    """The same shuffles of a table of records and background, predicted row by row."""
    found = importance(model, sample, repeats=3, seed=7)
    rows = np.concatenate([np.repeat(np.arange(440), sample.counts), np.arange(400)])
    X, label = sample.X.iloc[rows].reset_index(drop=True), np.repeat([1, 0], [50, 400])
    before = roc_auc_score(label, model.predict(X))
    rng = np.random.default_rng(7)
    drops = np.empty((3, 4))
    for repeat in range(3):
        for v, name in enumerate(X):
            order = rng.permutation(450)
            shuffled = X.assign(**{name: X[name].to_numpy()[order]})
            drops[repeat, v] = before - roc_auc_score(label, model.predict(shuffled))
    np.testing.assert_allclose(found.auc_drop, drops.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.auc_drop_sd, drops.std(axis=0, ddof=1), atol=1e-12)
    positive = np.maximum(drops, 0)
    percent = 100 * positive / positive.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.permutation, percent.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.permutation_sd, percent.std(axis=0, ddof=1), atol=1e-9)
    assert found.variables == ("wet", "warm", "noise", "soil")
    assert found.permutation.sum() == pytest.approx(100)
    assert found.permutation[:2].sum() > 90  # what presences were made from
    again = importance(model, sample, repeats=3, seed=8)
    assert (again.auc_drop != found.auc_drop).any()
    assert (again.contribution == found.contribution).all()


def test_a_variable_that_the_model_does_not_use_matters_nothing(sample):
    model = fit_sample(density("lc", multiplier=4.0), sample)
    assert "noise" not in model.coef
    found = importance(model, sample, repeats=2)
    place = found.variables.index("noise")
    for values in (found.contribution, found.permutation, found.auc_drop, found.auc_drop_sd):
        assert values[place] == 0
        assert values.any()


def test_permutations_of_a_density_with_exact_zeros(sample):
    """Cells without density are ties, however their scores differ."""
    model = fit_sample(density("lqc", entropy=mx.Tsallis(2.0)), sample)
    assert (model.predict(sample.X) == 0).sum() > 100
    found = importance(model, sample, repeats=1, seed=0)
    rows = np.concatenate([np.repeat(np.arange(440), sample.counts), np.arange(400)])
    X, label = sample.X.iloc[rows].reset_index(drop=True), np.repeat([1, 0], [50, 400])
    order = np.random.default_rng(0).permutation(450)
    shuffled = X.assign(wet=X["wet"].to_numpy()[order])
    drop = roc_auc_score(label, model.predict(X)) - roc_auc_score(label, model.predict(shuffled))
    assert found.auc_drop[0] == pytest.approx(drop, abs=1e-12)
    assert np.isnan(found.auc_drop_sd).all()


def test_wrong_repeats(sample, model):
    with pytest.raises(ValueError, match="repeats must be an integer >= 1, got 0"):
        importance(model, sample, repeats=0)


# -- jackknife -----------------------------------------------------------------------------------


def test_jackknife_against_direct_fits(sample, held_out):
    estimator = density("lqhpc")
    names = list(sample.X)
    found = jackknife(estimator, sample, held_out, n_jobs=2)
    assert found.variables == tuple(names)

    def check(where, columns):
        kept = [c for c in ["soil"] if c in columns]
        direct = clone(estimator).set_params(categorical=kept, tol=1e-9)
        direct = direct.fit(sample.X[columns], sample.counts)
        raw = direct.predict(sample.X[columns])
        test = np.repeat(direct.predict(held_out.X[columns]), held_out.counts)
        assert where("train_gain") == pytest.approx(direct.gain_, abs=REFIT_TOL)
        auc = pairwise_auc(np.repeat(raw, sample.counts), raw[:400])
        assert where("auc") == pytest.approx(auc, abs=2e-3)
        assert where("test_gain") == pytest.approx(np.log(440 * test).mean(), abs=5e-3)
        assert where("test_auc") == pytest.approx(pairwise_auc(test, raw[:400]), abs=2e-3)

    check(lambda score: found.scores[score]["all"], names)
    for v, name in enumerate(names):
        check(lambda score, v=v: found.scores[score]["only"][v], [name])
        rest = [other for other in names if other != name]
        check(lambda score, v=v: found.scores[score]["without"][v], rest)
    assert set(jackknife(density("lc"), sample).scores) == {"train_gain", "auc"}


def test_jackknife_with_sampling_effort_and_categories_by_position(sample):
    prior = np.random.default_rng(1).uniform(0.2, 2, size=440)
    sample = replace(sample, prior=prior)
    found = jackknife(density("lqc", categorical=[3]), sample).scores["train_gain"]
    soil = density("lqc", categorical=[0]).fit(sample.X[["soil"]], sample.counts, prior=prior)
    assert found["only"][3] == pytest.approx(soil.gain_, abs=REFIT_TOL)
    rest = density("lqc", categorical=[2]).fit(
        sample.X.drop(columns="wet"), sample.counts, prior=prior
    )
    assert found["without"][0] == pytest.approx(rest.gain_, abs=REFIT_TOL)


def test_jackknife_keeps_the_points_that_a_preset_has_merged():
    """Presences at background rows are one point with them, also where a variable is left out."""
    sample = make_sample()
    sample.X.iloc[400:410] = sample.X.iloc[:10].to_numpy()
    found = jackknife(density("lqc", preset="maxent"), sample).scores["train_gain"]
    counts = sample.counts.copy()
    counts[:10] += counts[400:410]
    points = np.delete(np.arange(440), np.arange(400, 410))
    for v, name in enumerate(sample.X):
        X = sample.X.iloc[points].drop(columns=name)
        kept = [c for c in ["soil"] if c in X]
        direct = density("lqc", categorical=kept, tol=1e-9).fit(X, counts[points])
        assert found["without"][v] == pytest.approx(direct.gain_, abs=REFIT_TOL)
    warm = sample.X[["warm"]].iloc[points]
    direct = density("lqc", categorical=(), tol=1e-9).fit(warm, counts[points])
    assert found["only"][1] == pytest.approx(direct.gain_, abs=REFIT_TOL)


def test_jackknife_of_one_variable(sample, held_out):
    one, test = (replace(part, X=part.X[["wet"]]) for part in (sample, held_out))
    found = jackknife(density("lqc", categorical=()), one, test).scores
    assert found["train_gain"]["without"].tolist() == [0.0]
    assert found["auc"]["without"].tolist() == [0.5]
    assert found["test_gain"]["without"].tolist() == [0.0]
    assert found["test_auc"]["without"].tolist() == [0.5]
    assert found["train_gain"]["only"][0] == pytest.approx(found["train_gain"]["all"], abs=1e-5)
    assert found["train_gain"]["all"] > 0.1


def test_a_constant_variable_alone_tells_nothing(sample):
    """Nor do its warnings show."""
    sample = replace(sample, X=sample.X.assign(flat=3.0))
    found = jackknife(density("lqc"), sample).scores
    assert found["train_gain"]["only"][4] == 0.0
    assert found["auc"]["only"][4] == 0.5
    assert found["train_gain"]["without"][4] == pytest.approx(found["train_gain"]["all"], abs=1e-5)


def test_failures_of_other_kinds_are_not_hidden(sample):
    estimator = density("lc", potential=mx.Box(np.full(3, 0.1)), categorical=())
    sample = replace(sample, X=sample.X[["wet", "warm", "noise"]])
    fit_sample(estimator, sample)
    with pytest.raises(ValueError, match="3"):
        jackknife(estimator, sample)


# -- responses -----------------------------------------------------------------------------------


def by_name(found, kind, name):
    return next(r for r in found if (r.kind, r.variable) == (kind, name))


def test_marginal_curves_are_predictions_at_typical_places(sample, model):
    found = responses(density(), model, sample, bootstrap=0, n=7)
    assert [(r.kind, r.variable) for r in found] == [
        (kind, name) for kind in ("marginal", "single") for name in sample.X
    ]
    presences = sample.X.iloc[np.repeat(np.arange(440), sample.counts)]
    typical = presences[["wet", "warm", "noise"]].mean().to_dict()
    typical["soil"] = presences["soil"].mode()[0]
    for name in sample.X:
        curve = by_name(found, "marginal", name)
        assert curve.categorical == (name == "soil")
        if name == "soil":
            assert curve.x.tolist() == [0.0, 1.0, 2.0, 3.0]
        else:
            ends = sample.X[name].min(), sample.X[name].max()
            np.testing.assert_allclose(curve.x, np.linspace(*ends, 7))
        for x, y in zip(curve.x, curve.y, strict=True):
            here = pd.DataFrame([typical | {name: x}])
            assert y == pytest.approx(model.predict(here, "cloglog")[0], rel=1e-12)
        assert curve.low is None
        assert curve.high is None


def test_single_curves_are_those_of_models_of_one_variable(sample, model):
    prior = np.random.default_rng(1).uniform(0.2, 2, size=440)
    found = responses(density(), model, replace(sample, prior=prior), bootstrap=0, n=9)
    for name in sample.X:
        direct = density(categorical=["soil"] if name == "soil" else [], tol=1e-9)
        direct = direct.fit(sample.X[[name]], sample.counts, prior=prior)
        curve = by_name(found, "single", name)
        expected = direct.predict(pd.DataFrame({name: curve.x}), "cloglog")
        np.testing.assert_allclose(curve.y, expected, atol=5e-3)


def test_bands_are_percentiles_of_bootstrap_fits(sample, model):
    found = responses(density(), model, sample, bootstrap=6, n=5, seed=11, n_jobs=2)
    m = 50
    drawn = np.random.default_rng(11).multinomial(m, sample.counts / m, size=6)
    presences = sample.X.iloc[np.repeat(np.arange(440), sample.counts)]
    typical = presences[["wet", "warm", "noise"]].mean().to_dict()
    typical["soil"] = presences["soil"].mode()[0]
    fits = [density(tol=1e-9).fit(sample.X, counts) for counts in drawn]
    for name in ("warm", "soil"):
        curve = by_name(found, "marginal", name)
        table = pd.DataFrame([typical | {name: x} for x in curve.x])
        direct = np.array([fit.predict(table, "cloglog") for fit in fits])
        low, high = np.percentile(direct, [5, 95], axis=0)
        np.testing.assert_allclose(curve.low, low, atol=5e-3)
        np.testing.assert_allclose(curve.high, high, atol=5e-3)
        assert (high - low).max() > 0.05
    order = np.argsort(sample.X["warm"].to_numpy())
    counts = sample.counts[order]
    drawn = np.random.default_rng(11).multinomial(m, counts / m, size=6)
    X = sample.X[["warm"]].iloc[order]
    curve = by_name(found, "single", "warm")
    direct = [
        density(categorical=(), tol=1e-9)
        .fit(X, counts)
        .predict(pd.DataFrame({"warm": curve.x}), "cloglog")
        for counts in drawn
    ]
    low, high = np.percentile(direct, [5, 95], axis=0)
    np.testing.assert_allclose(curve.low, low, atol=5e-3)
    np.testing.assert_allclose(curve.high, high, atol=5e-3)


def test_thinned_features_hold_the_fit_and_the_knots_next_to_records():
    sample = make_sample(900)
    task = coarse(sample_task(density("lqhc"), sample))
    whole = task.fit()
    thinned, index = task.thinned(whole.w, KNOTS)
    assert np.isin(np.flatnonzero(whole.w), index).all()
    assert index.size < whole.w.size / 2
    gain = thinned.fit().density.certificate.gain
    assert gain == pytest.approx(whole.density.certificate.gain, abs=REFIT_TOL)
    all_knots, knots = (
        o.knot[(o.variable == 1) & (o.kinds() == "h")]
        for o in (task.operators[0], thinned.operators[0])
    )
    for x in sample.X["warm"][900:]:
        assert all_knots[all_knots < x].max(initial=all_knots.min()) in knots
        assert all_knots[all_knots >= x].min(initial=all_knots.max()) in knots
    ranks = np.searchsorted(np.unique(all_knots), np.unique(knots))
    assert np.diff(ranks).max() <= 940 / 199 + 1


def test_bands_of_thinned_hinges_are_close_to_those_of_all():
    sample = make_sample(900)
    estimator = density("lqhc")
    model = fit_sample(estimator, sample)
    found = by_name(
        responses(estimator, model, sample, bootstrap=5, n=20, seed=3), "marginal", "warm"
    )
    drawn = np.random.default_rng(3).multinomial(50, sample.counts / 50, size=5)
    presences = sample.X.iloc[np.repeat(np.arange(940), sample.counts)]
    typical = presences.mean().to_dict() | {"soil": presences["soil"].mode()[0]}
    table = pd.DataFrame([typical | {"warm": x} for x in found.x])
    fits = (clone(estimator).fit(sample.X, counts) for counts in drawn)
    low, high = np.percentile([fit.predict(table, "cloglog") for fit in fits], [5, 95], axis=0)
    np.testing.assert_allclose(found.low, low, atol=0.02)
    np.testing.assert_allclose(found.high, high, atol=0.02)
    assert (high - low).max() > 0.2


def test_responses_of_text_categories_and_levels_lost_in_a_resample():
    """A level with one record is missing from some resamples: it has no effect there."""
    sample = make_sample(200, 12)
    soil = np.array(["clay", "loam", "peat", "sand"])[sample.X["soil"].astype(int)]
    soil[200:] = ["clay"] * 10 + ["loam", "sand"]
    sample = replace(sample, X=sample.X.assign(soil=pd.Categorical(soil)))
    estimator = density("lqc", categorical=())
    model = fit_sample(estimator, sample)
    found = responses(estimator, model, sample, bootstrap=3, n=3)
    curve = by_name(found, "marginal", "soil")
    assert curve.x.tolist() == ["clay", "loam", "peat", "sand"]
    assert (curve.low <= curve.high).all()
    clay = sample.X.iloc[200:201].assign(
        **{c: np.average(sample.X[c], weights=sample.counts) for c in ("wet", "warm", "noise")}
    )
    assert curve.y[0] == pytest.approx(model.predict(clay, "cloglog")[0], rel=1e-9)


def test_the_seed_decides_the_bands(sample, model):
    def run(seed, n_jobs=None):
        found = responses(density("lc"), model, sample, bootstrap=2, n=3, seed=seed, n_jobs=n_jobs)
        return np.concatenate([r.low for r in found])

    assert (run(0) == run(0)).all()
    np.testing.assert_allclose(run(0), run(0, n_jobs=2), rtol=1e-9)
    assert (run(0) != run(1)).any()


def test_responses_of_one_constant_variable_among_others(sample):
    sample = replace(sample, X=sample.X[["wet"]].assign(flat=3.0))
    estimator = density("lc", categorical=())
    model = fit_sample(estimator, sample)
    found = responses(estimator, model, sample, bootstrap=2, n=4)
    flat = by_name(found, "single", "flat")
    np.testing.assert_allclose(flat.y, 1 - np.exp(-1), rtol=1e-12)
    np.testing.assert_allclose(flat.low, flat.high)


def test_wrong_responses(sample, model):
    with pytest.raises(ValueError, match="bootstrap must be an integer >= 0, got -1"):
        responses(density(), model, sample, bootstrap=-1)
    with pytest.raises(ValueError, match="n must be an integer >= 2, got 1"):
        responses(density(), model, sample, n=1)


# -- all of it -----------------------------------------------------------------------------------


def test_everything_about_one_variable():
    sample = make_sample(120, 12)
    sample = replace(sample, X=sample.X[["warm"]])
    estimator = density([Linear(), Hinge(10)], categorical=())
    model = fit_sample(estimator, sample)
    assert evaluate(model, sample).scores["auc"] == pytest.approx(
        pairwise_auc(*repeated(model, sample)), abs=1e-12
    )
    shares = importance(model, sample, repeats=2)
    assert shares.contribution == pytest.approx([100.0])
    assert shares.permutation == pytest.approx([100.0])
    marginal, single = responses(estimator, model, sample, bootstrap=2, n=5)
    np.testing.assert_allclose(marginal.y, single.y, atol=5e-3)
    made, _ = replicate(estimator, sample, kind="random", n=2)
    assert [row["n_test"] for row in made.table] == [
        int(split.test.sum()) for split in split_records(sample, "random", 2, 0.25, 0)
    ]


def test_results_can_be_saved(tmp_path, sample, held_out, model):
    made, _ = replicate(density("lc"), sample, kind="random", n=2)
    found = {
        "evaluation": evaluate(model, sample, held_out),
        "replicates": made,
        "importance": importance(model, sample, repeats=1),
        "responses": responses(density("lc"), model, sample, bootstrap=2, n=3),
        "jackknife": jackknife(density("lc"), sample),
    }
    mx.save(found, tmp_path / "found")
    again = mx.load(tmp_path / "found")
    assert again["evaluation"].scores == found["evaluation"].scores
    assert again["replicates"].table == made.table
    assert (again["responses"][0].low == found["responses"][0].low).all()
