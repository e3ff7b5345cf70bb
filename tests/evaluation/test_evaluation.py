"""Metrics against their definitions written out, splitters against what they promise."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

import maxent as mx
from maxent import evaluation as ev


def samples(seed, m=40, n=70, ties=False, shift=0.7):
    """Predictions at presences and background, with ties between and within where asked."""
    rng = np.random.default_rng(seed)
    presence, background = rng.normal(shift, 1, m), rng.normal(0, 1, n)
    return (presence.round(1), background.round(1)) if ties else (presence, background)


def labels(presence, background):
    y = np.repeat([1, 0], [len(presence), len(background)])
    return y, np.concatenate([presence, background])


CASES = [(seed, ties) for seed in range(3) for ties in (False, True)]


# -- AUC -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_auc_is_scikit_learns(seed, ties):
    presence, background = samples(seed, ties=ties)
    y, p = labels(presence, background)
    assert ev.auc(presence, background) == pytest.approx(sk.roc_auc_score(y, p), abs=1e-14)
    weights = np.random.default_rng(seed).random(y.size)
    ours = ev.auc(presence, background, weights[: presence.size], weights[presence.size :])
    assert ours == pytest.approx(sk.roc_auc_score(y, p, sample_weight=weights), abs=1e-13)


def test_weights_of_auc_are_repetitions():
    presence, background = samples(3, 10, 12, ties=True)
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 4, 10), rng.integers(0, 4, 12)
    repeated = ev.auc(np.repeat(presence, a), np.repeat(background, b))
    assert ev.auc(presence, background, a, b) == pytest.approx(repeated, abs=1e-14)


def test_auc_ranks_log_densities_of_minus_infinity():
    assert ev.auc([-np.inf, 1.0], [-np.inf, 0.0]) == (0.5 + 0 + 1 + 1) / 4


def components(presence, background):
    """V10 and V01 from all pairs, DeLong et al. (1988)."""
    psi = np.sign(presence[:, None] - background[None, :]) / 2 + 0.5
    return psi.mean(axis=1), psi.mean(axis=0)


def delong_covariance(first, second):
    a, b = components(*first), components(*second)
    return sum(np.cov(u, v, ddof=1) / u.size for u, v in zip(a, b, strict=True))


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_delong_is_the_formula_over_all_pairs(seed, ties):
    both = samples(seed, ties=ties)
    found = ev.auc_delong(*both)
    assert found.auc == pytest.approx(components(*both)[0].mean(), abs=1e-14)
    assert found.sd == pytest.approx(math.sqrt(delong_covariance(both, both)[0, 0]), abs=1e-14)


def test_delong_agrees_with_the_bootstrap():
    presence, background = samples(0, 150, 250)
    rng = np.random.default_rng(0)
    drawn = [ev.auc(rng.choice(presence, 150), rng.choice(background, 250)) for _ in range(1500)]
    assert ev.auc_delong(presence, background).sd == pytest.approx(np.std(drawn), rel=0.07)


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_paired_delong_is_the_formula_over_all_pairs(seed, ties):
    first, noise = samples(seed, ties=ties), samples(seed + 10, ties=ties, shift=0.0)
    second = tuple(a + b for a, b in zip(first, noise, strict=True))
    test = ev.auc_difference(*first, *second)
    covariance = delong_covariance(first, second)
    sd = math.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    difference = ev.auc(*first) - ev.auc(*second)
    assert test.difference == pytest.approx(difference, abs=1e-14)
    assert test.sd == pytest.approx(sd, abs=1e-13)
    assert test.z == pytest.approx(difference / sd, abs=1e-10)
    assert test.p_value == pytest.approx(2 * stats.norm.sf(abs(difference / sd)), abs=1e-12)


def test_paired_delong_of_equal_rankings():
    both = samples(0)
    assert ev.auc_difference(*both, *(np.exp(v) for v in both)) == (0.0, 0.0, 0.0, 1.0)
    perfect, reversed_ = ([1.0, 1.0], [0.0, 0.0]), ([0.0, 0.0], [1.0, 1.0])
    assert ev.auc_difference(*perfect, *reversed_) == (1.0, 0.0, math.inf, 0.0)


def test_a_million_points_need_no_table():
    presence, background = samples(1, 50_000, 1_000_000)
    found = ev.auc_delong(presence, background)
    assert found.auc == pytest.approx(stats.norm.cdf(0.7 / math.sqrt(2)), abs=5 * found.sd)


# -- information and correlation -------------------------------------------------------------------


def test_log_loss_and_gain():
    density = np.array([0.1, 0.2, 0.3, 0.4])
    assert ev.log_loss(np.log(density)) == pytest.approx(-np.log(density).mean())
    counts = [0, 2, 1, 0]
    repeated = np.log(np.repeat(density, counts))
    assert ev.log_loss(np.log(density), counts) == pytest.approx(-repeated.mean())
    assert ev.gain(np.log(density), 4, counts) == pytest.approx(np.log(4) + repeated.mean())
    assert ev.gain(np.full(5, -np.log(9)), 9) == pytest.approx(0.0, abs=1e-15)
    assert ev.log_loss([-np.inf, -1.0], [0, 1]) == 1.0
    assert ev.log_loss([-np.inf, -1.0]) == np.inf


def test_aicc():
    assert ev.aicc(-50.0, 0, 5) == 100.0
    assert ev.aicc(-50.0, 3, 10) == 6 + 100 + 2 * 3 * 4 / 6
    assert ev.aicc(-50.0, 3, 5) == 6 + 100 + 2 * 3 * 4
    assert math.isnan(ev.aicc(-50.0, 4, 5))
    assert math.isnan(ev.aicc(-50.0, 40, 5))


def test_correlation_is_pearsons():
    presence, background = samples(0)
    y, p = labels(presence, background)
    assert ev.correlation(presence, background) == pytest.approx(stats.pearsonr(p, y)[0], abs=1e-14)
    assert math.isnan(ev.correlation([0.3, 0.3], [0.3]))


# -- Boyce -----------------------------------------------------------------------------------------


def slow_boyce(presence, background, window, n_bins, duplicates):
    """One window after the other, whole numbers only, scipy's Spearman."""
    low, high = min(*presence, *background), max(*presence, *background)
    width = window * (high - low)
    curve = []
    for i in range(n_bins):
        start = low + i / (n_bins - 1) * (high - width - low)
        inside = [sum(start <= v <= start + width for v in w) for w in (presence, background)]
        if inside[1]:
            curve.append(round(inside[0] / len(presence) / (inside[1] / len(background)), 10))
    x = np.arange(len(curve))
    kept = [i for i in x if duplicates or i == 0 or curve[i] != curve[i - 1]]
    return stats.spearmanr(x[kept], np.array(curve)[kept])[0]


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize(("window", "n_bins"), [(0.1, 101), (0.25, 30)])
def test_boyce_is_its_definition(window, n_bins, duplicates):
    presence, background = samples(2, 60, 400)
    ours = ev.boyce(presence, background, window, n_bins, remove_duplicates=not duplicates)
    theirs = slow_boyce(presence, background, window, n_bins, duplicates)
    assert ours.index == pytest.approx(theirs, abs=1e-12)
    assert ours.suitability.shape == ours.ratio.shape == (n_bins,)


def test_boyce_of_right_reversed_and_random_models():
    rng = np.random.default_rng(0)
    suitability = rng.random(20_000)
    seen = rng.choice(suitability, 5000, p=suitability / suitability.sum())
    right = ev.boyce(seen, suitability)
    assert right.index > 0.99
    # a density proportional to suitability: F = suitability / mean suitability
    np.testing.assert_allclose(right.ratio, right.suitability / 0.5, atol=0.2)
    assert ev.boyce(1 - seen, 1 - suitability).index < -0.99
    indices = [
        ev.boyce(draw.random(300), draw.random(3000)).index
        for draw in (np.random.default_rng(seed) for seed in range(60))
    ]
    assert np.mean(indices) == pytest.approx(0, abs=3 * np.std(indices) / math.sqrt(60))


def test_boyce_of_few_values():
    assert math.isnan(ev.boyce([0.5, 0.5], [0.5, 0.5, 0.5]).index)
    # the windows between 0.1 and 0.9 hold no background
    found = ev.boyce([0.0, 1.0, 1.0], [0.0, 0.0, 1.0])
    assert found.index == 1.0
    np.testing.assert_array_equal(found.ratio[[0, -1]], [0.5, 2.0])
    assert np.isnan(found.ratio[1:-1]).all()
    assert ev.boyce([0.0, 1.0, 1.0], [0.0, 0.0, 1.0], method="pearson").index == pytest.approx(1)


# -- thresholds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_tss_by_brute_force(seed, ties):
    presence, background = samples(seed, ties=ties)
    cuts = np.unique(np.concatenate([presence, background]))
    table = [np.mean(presence >= t) + np.mean(background < t) - 1 for t in cuts]
    for cut, value in zip(cuts, table, strict=True):
        assert ev.tss(presence, background, cut) == pytest.approx(value, abs=1e-14)
    best = ev.max_tss(presence, background)
    assert best.tss == pytest.approx(max(table), abs=1e-14)
    assert ev.tss(presence, background, best.threshold) == pytest.approx(best.tss, abs=1e-14)


def test_max_tss_of_a_reversed_model_is_zero():
    assert ev.max_tss([0.0, 0.1], [0.5, 0.9]) == (0.0, 0.0)


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_roc_curve_is_scikit_learns(seed, ties):
    presence, background = samples(seed, ties=ties)
    ours = ev.roc_curve(presence, background)
    theirs = sk.roc_curve(*labels(presence, background), drop_intermediate=False)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    area = np.trapezoid(ours.true_positive_rate, ours.false_positive_rate)
    assert area == pytest.approx(ev.auc(presence, background), abs=1e-13)


def test_omission_with_weights():
    assert ev.omission([1, 2, 3, 4], 3) == 0.5
    assert ev.omission([1, 2, 3, 4], 3, [1, 0, 1, 2]) == 0.25


@pytest.mark.parametrize("n", [1, 7, 25, 26, 5000])
@pytest.mark.parametrize("area", [0.0, 0.03, 0.4, 1.0])
def test_binomial_p_value(n, area):
    for hits in {0, n // 3, n - 1, n}:
        exact = stats.binom.sf(hits - 1, n, area)
        assert ev.binomial_p_value(1 - hits / n, area, n) == pytest.approx(exact, rel=1e-9)


def test_cumulative():
    background = np.array([0.4, 0.1, 0.2, 0.2, 0.1])
    raw = np.array([0.05, 0.1, 0.15, 0.2, 0.39, 0.4, 2.0])
    by_hand = [0, 20, 20, 60, 60, 100, 100]
    np.testing.assert_allclose(ev.cumulative(raw, background), by_hand, atol=1e-12)
    np.testing.assert_allclose(ev.cumulative(raw, 7 * background / 7), by_hand, atol=1e-12)
    assert ev.cumulative([0.4], np.full(49, 0.4))[0] == 100


# ten cells with masses in percent; cumulative 1 3 6 11 18 27 39 54 74 100
BACKGROUND = np.array([1, 2, 3, 5, 7, 9, 12, 15, 20, 26]) / 100
TRAIN = np.array([3, 9, 15, 20, 26]) / 100
TEST = np.array([7, 12, 26]) / 100


def test_threshold_rules_by_hand():
    """Omission of 5, area and cumulative at each value:

    ====  ==  ==  ==  ==  ==  ==  ==  ==  ==  ===
    t      1   2   3   5   7   9  12  15  20   26
    cum    1   3   6  11  18  27  39  54  74  100
    area  10   9   8   7   6   5   4   3   2    1   tenths
    miss   0   0   0   1   1   1   2   2   3    4   fifths
    test   0   0   0   0   0   1   1   2   2    2   thirds
    cost  164 156 152 276 268 276 404 448 ...       6 miss + cum / 25 + 1.6 area, hundredths
    ====  ==  ==  ==  ==  ==  ==  ==  ==  ==  ===
    """
    table = {row.name: row for row in ev.thresholds(TRAIN, BACKGROUND, TEST)}
    expected = {
        "Fixed cumulative value 1": 1,
        "Fixed cumulative value 5": 3,
        "Fixed cumulative value 10": 5,
        "Minimum training presence": 3,
        "10 percentile training presence": 3,
        "Equal training sensitivity and specificity": 12,  # 2/5 and 4/10
        "Maximum training sensitivity plus specificity": 9,  # 1/5 + 5/10, as at 15
        "Equal test sensitivity and specificity": 12,  # 1/3 and 4/10
        "Maximum test sensitivity plus specificity": 7,  # 0 + 6/10
        "Balance training omission, predicted area and threshold value": 3,
        "Equate entropy of thresholded and original distributions": 5,  # exp(H) = 7.3 of 10 cells
    }
    assert list(table) == list(expected)
    assert {n: round(100 * row.value) for n, row in table.items()} == expected
    fixed = table["Fixed cumulative value 5"]
    assert (fixed.cumulative, fixed.training_omission) == (5, 0)
    equal = table["Equal training sensitivity and specificity"]
    assert equal.cumulative == pytest.approx(39)
    assert equal.area == pytest.approx(0.4)
    assert (equal.training_omission, equal.test_omission) == (0.4, pytest.approx(1 / 3))
    assert equal.p_value == pytest.approx(3 * 0.4**2 * 0.6 + 0.4**3)  # 2 hits of 3 or more


def test_thresholds_without_test_data_and_on_another_scale():
    raw = ev.thresholds(TRAIN, BACKGROUND)
    assert len(raw) == 9
    assert all(row.test_omission is row.p_value is None for row in raw)
    cloglog = ev.thresholds(
        -np.expm1(-7 * TRAIN), -np.expm1(-7 * BACKGROUND), background_raw=3 * BACKGROUND
    )
    for a, b in zip(raw, cloglog, strict=True):
        assert b.value == pytest.approx(-np.expm1(-7 * a.value))
        assert (a.name, a.area, a.training_omission) == (b.name, b.area, b.training_omission)
        assert a.cumulative == pytest.approx(b.cumulative)


@pytest.mark.parametrize("seed", range(5))
def test_threshold_rules_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    raw = rng.gamma(0.7, size=120).round(2) + 0.01
    raw /= raw.sum()
    train, test = rng.choice(raw, 31, p=raw), rng.choice(raw, 9, p=raw)
    cuts = np.unique(np.concatenate([raw, train, test]))
    area = np.array([np.mean(raw >= t) for t in cuts])
    missed = np.array([np.mean(train < t) for t in cuts])
    unseen = np.array([np.mean(test < t) for t in cuts])
    total = np.array([100 * raw[raw <= t].sum() for t in cuts])
    table = {row.name: row for row in ev.thresholds(train, raw, test)}
    costs = {
        "Equal training sensitivity and specificity": abs(missed - area),
        "Maximum training sensitivity plus specificity": missed + area,
        "Equal test sensitivity and specificity": abs(unseen - area),
        "Maximum test sensitivity plus specificity": unseen + area,
        "Balance training omission, predicted area and threshold value": (
            6 * missed + 0.04 * total + 1.6 * area
        ),
    }
    for name, cost in costs.items():
        at = np.searchsorted(cuts, table[name].value)
        assert cost[at] == pytest.approx(cost.min(), abs=1e-12)
    assert table["Minimum training presence"].value == train.min()
    assert table["10 percentile training presence"].value == np.sort(train)[3]
    spread = math.exp(stats.entropy(raw)) / raw.size
    equate = table["Equate entropy of thresholded and original distributions"]
    assert equate.value == min(t for t, a in zip(cuts, area, strict=True) if a < spread)
    for row in table.values():
        at = np.searchsorted(cuts, row.value)
        assert row.area == pytest.approx(area[at])
        assert row.training_omission == missed[at]
        assert row.test_omission == unseen[at]
        p = stats.binom.sf(round((1 - unseen[at]) * 9) - 1, 9, area[at])
        assert row.p_value == pytest.approx(p, rel=1e-9)
    for c in (1, 5, 10):
        row = table[f"Fixed cumulative value {c}"]
        assert row.value == cuts[total >= c][0]
        assert row.cumulative == c


def test_thresholds_of_uniform_models():
    assert {row.value for row in ev.thresholds([0.2], np.full(5, 0.2))} == {0.2}
    sparse = ev.thresholds([0.5], [0.5, 0.5, 0.0, 0.0])[-1]  # uniform on half of the cells
    assert (sparse.value, sparse.area) == (0.5, 0.5)


def test_omission_curve():
    curve = ev.omission_curve(TRAIN, BACKGROUND, TEST)
    np.testing.assert_allclose(curve.threshold, BACKGROUND)
    np.testing.assert_allclose(curve.cumulative, [1, 3, 6, 11, 18, 27, 39, 54, 74, 100])
    np.testing.assert_allclose(curve.area, np.arange(10, 0, -1) / 10)
    np.testing.assert_allclose(
        curve.training_omission, np.array([0, 0, 0, 1, 1, 1, 2, 2, 3, 4]) / 5
    )
    np.testing.assert_allclose(curve.test_omission, np.array([0, 0, 0, 0, 0, 1, 1, 2, 2, 2]) / 3)


BAD_METRICS = [
    (lambda: ev.auc([], [1.0]), "presence must be a vector with at least one"),
    (lambda: ev.auc([[1.0]], [1.0]), r"got shape \(1, 1\)"),
    (lambda: ev.auc([1.0], [np.nan, 1.0]), "background has 1 NaN among 2"),
    (lambda: ev.auc([1.0], [1.0], [1.0, 2.0]), "presence_weights must be a vector of 1"),
    (lambda: ev.auc([1.0], [1.0], [0.0]), "sum > 0"),
    (lambda: ev.auc([1.0], [1.0, 2.0], None, [1.0, -1.0]), "non-negative"),
    (lambda: ev.auc_delong([1.0], [1.0, 2.0]), "presence has one"),
    (lambda: ev.auc_difference([1, 2], [1, 2], [1, 2], [1, 2, 3]), "same points"),
    (lambda: ev.log_loss([np.inf]), "no density is infinite"),
    (lambda: ev.gain([0.0], 0), "n_cells must be at least 1"),
    (lambda: ev.aicc(0.0, -1, 5), "n_parameters >= 0"),
    (lambda: ev.boyce([1.0], [1.0], window=1.5), "between 0 and 1"),
    (lambda: ev.boyce([1.0], [1.0], n_bins=1), "at least 2"),
    (lambda: ev.boyce([1.0], [1.0], method="kendall"), "'spearman' or 'pearson'"),
    (lambda: ev.boyce([1.0], [-np.inf]), "finite predictions"),
    (lambda: ev.binomial_p_value(1.2, 0.5, 3), "between 0 and 1"),
    (lambda: ev.binomial_p_value(0.2, 0.5, 0), "at least 1 test presence"),
    (lambda: ev.cumulative([0.1], [-0.1, 0.2]), "background_raw must be finite and non-negative"),
    (lambda: ev.thresholds([0.1], [-1.0, 2.0]), "background_raw must be finite and non-negative"),
    (lambda: ev.thresholds([0.1], [0.1, 0.2], background_raw=[1.0]), "1 entries for 2"),
]


@pytest.mark.parametrize(("make", "message"), BAD_METRICS, ids=[m for _, m in BAD_METRICS])
def test_bad_predictions_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# -- splitters -------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
PLACES = RNG.random((400, 2)) * [10, 5]
COUNTS = np.where(RNG.random(400) < 0.15, RNG.integers(1, 4, 400), 0)
PRESENCE = COUNTS > 0

SPLITTERS = [
    mx.PresenceKFold(),
    mx.PresenceKFold(3, shuffle=False),
    mx.PresenceKFold(int(PRESENCE.sum())),
    mx.SpatialBlocks(PLACES),
    mx.SpatialBlocks(PLACES, n_splits=7),
    mx.SpatialBlocks(PLACES, n_splits=3, size=1.5),
    mx.SpatialBlocks(PLACES, n_splits=5, size=(1, 2), background="all"),
    mx.SpatialBlocks(PLACES, background="all"),
    mx.Checkerboard(PLACES, 1.0),
    mx.EnvironmentalBlocks(PLACES, n_splits=3),
    mx.Checkerboard(PLACES, (2.0, 0.7), levels=2),
    mx.Checkerboard(PLACES, 1.0, background="all"),
    mx.BufferedLeaveOneOut(PLACES, 0.8),
    mx.BufferedLeaveOneOut(PLACES, 0.0),
]
BLOCKED = [s for s in SPLITTERS if hasattr(s, "folds")]


@pytest.mark.parametrize("splitter", SPLITTERS, ids=repr)
def test_every_presence_is_tested_once_and_never_trained_on(splitter):
    splits = list(splitter.split(None, COUNTS))
    assert len(splits) == splitter.get_n_splits(None, COUNTS)
    tested = np.concatenate([test[PRESENCE[test]] for _, test in splits])
    np.testing.assert_array_equal(np.sort(tested), np.flatnonzero(PRESENCE))
    for train, test in splits:
        assert PRESENCE[train].any()
        assert not np.intersect1d(train[PRESENCE[train]], test).size
        for rows in (train, test):
            np.testing.assert_array_equal(rows, np.unique(rows))


@pytest.mark.parametrize("splitter", SPLITTERS, ids=repr)
def test_splits_repeat(splitter):
    for a, b in zip(splitter.split(None, COUNTS), splitter.split(PLACES, COUNTS), strict=True):
        for left, right in zip(a, b, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: mx.PresenceKFold(random_state=seed),
        lambda seed: mx.SpatialBlocks(PLACES, size=0.5, random_state=seed),
        lambda seed: mx.BufferedLeaveOneOut(PLACES, 0.1, n_splits=4, random_state=seed),
    ],
)
def test_seeds_matter(make):
    first, second = ([t.tolist() for _, t in make(s).split(None, COUNTS)] for s in (0, 1))
    assert first != second


def test_presence_folds_are_even_and_share_the_background():
    for train, test in mx.PresenceKFold(4).split(None, COUNTS):
        assert np.isin(np.flatnonzero(~PRESENCE), train).all()
        assert np.isin(np.flatnonzero(~PRESENCE), test).all()
        assert abs(PRESENCE[test].sum() - PRESENCE.sum() / 4) < 1


@pytest.mark.parametrize("splitter", BLOCKED, ids=repr)
def test_background_of_blocks(splitter):
    fold = splitter.folds(COUNTS)
    for k, (train, test) in enumerate(splitter.split(None, COUNTS)):
        np.testing.assert_array_equal(test, np.flatnonzero(fold == k))
        if splitter.background == "all":
            wanted = np.flatnonzero((fold != k) | ~PRESENCE)
        else:
            wanted = np.flatnonzero(fold != k)
        np.testing.assert_array_equal(train, wanted)


def test_halved_blocks_are_disjoint_rectangles_with_even_presences():
    for n_splits in (2, 3, 4, 7, 8):
        fold = mx.SpatialBlocks(PLACES, n_splits).folds(COUNTS)
        found = np.bincount(fold[PRESENCE], minlength=n_splits)
        assert np.ptp(found) <= 2
        for k in range(n_splits):
            own = PLACES[fold == k]
            inside = (np.clip(PLACES, own.min(axis=0), own.max(axis=0)) == PLACES).all(axis=1)
            np.testing.assert_array_equal(inside, fold == k)


def test_four_blocks_are_those_of_enmeval():
    """Lower latitudes ceil(n / 2), then western longitudes ceil of each half; cuts midway."""
    x = np.array([4.0, 1.0, 3.0, 2.0, 7.0, 5.0, 6.0])
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    background = np.array([[2.4, 3.4], [2.6, 3.4], [6.4, 3.6], [6.6, 3.6]])
    places = np.vstack([np.column_stack([x, y]), background])
    fold = mx.SpatialBlocks(places).folds([1] * 7 + [0] * 4)
    assert fold.tolist() == [1, 0, 1, 0, 3, 2, 2, 0, 1, 2, 3]


def test_equal_coordinates_stay_together():
    columns = np.column_stack([np.repeat([0.0, 1.0, 2.0], [5, 1, 2]), np.zeros(8)])
    fold = mx.SpatialBlocks(columns, n_splits=2).folds(np.ones(8))
    assert fold.tolist() == [0] * 5 + [1] * 3
    close = np.array([[1.0, 0.0], [np.nextafter(1.0, 2.0), 0.0]])
    assert mx.SpatialBlocks(close, n_splits=2).folds([1, 1]).tolist() == [0, 1]


def test_grid_blocks_are_whole_cells_with_balanced_presences():
    splitter = mx.SpatialBlocks(PLACES, n_splits=4, size=0.5)
    fold = splitter.folds(COUNTS)
    cells = np.floor((PLACES - PLACES.min(axis=0)) / 0.5).astype(int) @ [1, 1000]
    for cell in np.unique(cells):
        assert np.unique(fold[cells == cell]).size == 1
    assert np.ptp(np.bincount(fold[PRESENCE])) <= 1
    assert np.unique(fold[~PRESENCE]).size == 4


def test_checkerboard_squares():
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8)), axis=-1).reshape(-1, 2)
    y = np.ones(64)
    board = mx.Checkerboard(0.1 * grid, 0.1).folds(y).reshape(8, 8)  # centres up to rounding
    np.testing.assert_array_equal(board, np.indices((8, 8)).sum(axis=0) % 2)
    fine, coarse = np.divmod(mx.Checkerboard(grid, 1, levels=2).folds(y).reshape(8, 8), 2)
    np.testing.assert_array_equal(fine, board)
    np.testing.assert_array_equal(coarse, (np.indices((8, 8)) // 2).sum(axis=0) % 2)


@pytest.mark.parametrize("radius", [0.3, 1.0, 2.5])
def test_buffers_are_kept(radius):
    rows = np.flatnonzero(PRESENCE)
    splits = mx.BufferedLeaveOneOut(PLACES, radius).split(None, COUNTS)
    for row, (train, test) in zip(rows, splits, strict=True):
        distance = np.linalg.norm(PLACES - PLACES[row], axis=1)
        np.testing.assert_array_equal(train, np.flatnonzero(distance > radius))
        near = (distance <= radius) & (~PRESENCE | (np.arange(400) == row))
        np.testing.assert_array_equal(test, np.flatnonzero(near))


def test_some_presences_left_out():
    splitter = mx.BufferedLeaveOneOut(PLACES, 0.5, n_splits=6)
    tests = [test[PRESENCE[test]] for _, test in splitter.split(None, COUNTS)]
    assert splitter.get_n_splits() == len(tests) == len({tuple(t) for t in tests}) == 6


@pytest.mark.parametrize(
    "splitter",
    [mx.PresenceKFold(), mx.SpatialBlocks(PLACES), mx.SpatialBlocks(PLACES, size=1.0)],
    ids=repr,
)
def test_cross_val_score(splitter):
    y = PRESENCE.astype(int)
    scores = cross_val_score(LogisticRegression(), PLACES, y, cv=splitter, scoring="roc_auc")
    by_hand = []
    for train, test in splitter.split(PLACES, y):
        p = LogisticRegression().fit(PLACES[train], y[train]).decision_function(PLACES[test])
        by_hand.append(ev.auc(p[y[test] == 1], p[y[test] == 0]))
    np.testing.assert_allclose(scores, by_hand, atol=1e-12)


def test_coordinates_as_groups():
    y = PRESENCE.astype(int)
    for nested, made in [
        (mx.SpatialBlocks(None, 4), mx.SpatialBlocks(PLACES, 4)),
        (mx.Checkerboard(None, 1.0), mx.Checkerboard(PLACES, 1.0)),
        (mx.BufferedLeaveOneOut(None, 1.0), mx.BufferedLeaveOneOut(PLACES, 1.0)),
    ]:
        pairs = zip(nested.split(None, y, PLACES), made.split(None, y), strict=True)
        assert all(np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) for a, b in pairs)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=mx.SpatialBlocks(None))
    half = np.arange(200)
    search.fit(PLACES[half], y[half], groups=PLACES[half])
    assert search.n_splits_ == 4


def test_splitters_show_no_arrays():
    assert repr(mx.Checkerboard(PLACES, 2.0)) == (
        "Checkerboard(background='training-blocks', size=2.0, levels=1)"
    )


LINE = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
BAD_SPLITS = [
    (lambda: mx.PresenceKFold(1), "n_splits must be an integer >= 2"),
    (lambda: mx.PresenceKFold(2.5), "n_splits must be an integer >= 2"),
    (lambda: mx.PresenceKFold(3).split(None, [1, 1, 0]), "3 folds need as many .* y has 2"),
    (lambda: mx.PresenceKFold().split(None, None), "y is needed"),
    (lambda: mx.PresenceKFold(2).split(None, [1, -1, 1]), "finite and >= 0"),
    (lambda: mx.PresenceKFold(2).split(None, [1, np.nan, 1]), "finite and >= 0"),
    (lambda: mx.PresenceKFold(2).split(None, [[1], [1]]), "vector of occurrences"),
    (lambda: mx.PresenceKFold(2).split(None, ["a", "b"]), "vector of occurrences"),
    (lambda: mx.PresenceKFold(2).split([[1.0]], [1, 1]), "X has 1 rows, y has 2"),
    (lambda: mx.SpatialBlocks(np.ones(4)), r"shape \(rows, 2\), got \(4,\)"),
    (lambda: mx.SpatialBlocks([[0, 0], [np.nan, 1]]), "must be finite; row 1"),
    (lambda: mx.SpatialBlocks(LINE, size=0.0), "size must be a number > 0"),
    (lambda: mx.SpatialBlocks(LINE, background="none"), "'training-blocks' or 'all'"),
    (lambda: mx.SpatialBlocks(LINE).split(None, [1, 1]), "4 coordinates for 2 rows"),
    (lambda: mx.SpatialBlocks(None).split(None, [1, 1]), "SpatialBlocks needs coordinates"),
    (lambda: mx.SpatialBlocks(LINE).split(None, [1, 1, 0, 0]), "y has 2; lower n_splits"),
    (lambda: mx.SpatialBlocks(np.zeros((4, 2)), 2).split(None, [1] * 4), "too few distinct"),
    (lambda: mx.SpatialBlocks(LINE, 2, size=9).split(None, [1, 1, 0, 0]), "lie in 1 blocks"),
    (lambda: mx.SpatialBlocks(LINE, 2).split(None, [1, 1, 0, 0]), "fold 1 holds all of the"),
    (lambda: mx.Checkerboard(LINE, -1.0), "size must be a number > 0"),
    (lambda: mx.Checkerboard(LINE, 1.0, levels=3), "levels must be 1"),
    (lambda: mx.Checkerboard(LINE, 1.0).split(None, [1, 0, 1, 0]), "fold 1 has no presences"),
    (lambda: mx.BufferedLeaveOneOut(LINE, -1.0), "radius must be a finite number"),
    (lambda: mx.BufferedLeaveOneOut(LINE, 1.0, 3).split(None, [1, 0, 0, 1]), "y has 2"),
    (
        lambda: next(mx.BufferedLeaveOneOut(LINE, 5.0).split(None, [1, 0, 0, 1])),
        "within 5.0 of the one in row 0",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD_SPLITS, ids=[m for _, m in BAD_SPLITS])
def test_bad_splits_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_evaluation_needs_no_scikit_learn():
    code = "import sys, maxent.evaluation; print({'sklearn', 'pandas', 'numba'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
