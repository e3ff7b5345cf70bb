"""Densities of many species at once: limits, borrowing, values taken out, bad input, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import maxent as mx
from maxent.density import Recipe
from maxent.density.joint_recipe import related
from maxent.density.posterior import Posterior
from maxent.features import Kernel, Linear, Square

PLACES, SPECIES = 250, 6
_RNG = np.random.default_rng(1)
X = pd.DataFrame(_RNG.normal(size=(PLACES, 3)), columns=["heat", "rain", "slope"])
RESPONSE = np.array([[2.0, 1.9, 0.0, 0.1, -2.0, 2.0], [0.0, 0.1, 2.0, 1.9, 0.0, 0.2]])
TRUTH = np.exp(X[["heat", "rain"]].to_numpy() @ RESPONSE)
TRUTH /= TRUTH.sum(axis=0)
NUMBERS = (200, 150, 120, 90, 60, 3)
Y = np.column_stack([_RNG.multinomial(n, p) for n, p in zip(NUMBERS, TRUTH.T, strict=True)])
NAMES = ["fir", "larch", "rush", "reed", "cactus", "rare"]


@pytest.fixture(scope="module")
def joint():
    return mx.JointRecipe().fit(X, Y, NAMES)


def test_each_density_sums_to_one_and_the_gap_is_small(joint):
    raw = joint.predict(X)
    assert raw.shape == (PLACES, SPECIES)
    assert np.allclose(raw.sum(axis=0), 1, atol=1e-5)
    assert 0 <= joint.certificate.gap <= 1e-6
    assert joint.certificate.status.reached
    assert "6 species, 623 records, 3 to 200 each, 250 places" in joint.summary()


def test_a_rare_species_borrows_from_those_alike(joint):
    alone = mx.JointRecipe(relation="none").fit(X, Y, NAMES)
    rare = NAMES.index("rare")

    def lost(density):  # KL from the truth
        return float(TRUTH[:, rare] @ (np.log(TRUTH[:, rare]) - density.predict(X, "log")[:, rare]))

    assert lost(joint) < 0.8 * lost(alone)
    assert [name for name, _ in joint.lenders("rare", 2)] == ["fir", "larch"]
    r = joint.correlations(["fir", "larch", "cactus", "rush"])
    assert r[0, 1] > 0.9
    assert r[0, 2] < -0.5
    assert abs(r[0, 3]) < 0.5
    tree = joint.linkage()
    assert tree.shape == (SPECIES - 1, 4)
    assert set(tree[0, :2]) <= {0, 1, 2, 3, 5}  # the first to join respond alike


def test_a_density_taken_out_is_the_column_and_does_what_densities_do(joint):
    for s, name in enumerate(NAMES):
        one = joint.density(name)
        assert isinstance(one, mx.FittedDensity)
        for output in ("raw", "log", "cloglog", "logistic", "cumulative"):
            mine, column = one.predict(X, output), joint.predict(X, output)[:, s]
            # the cumulative one jumps by the steps of its table
            assert np.allclose(mine, column, 1e-4, 0.5 if output == "cumulative" else 1e-6), output
        assert one.raw_entropy == pytest.approx(
            -float(mine_raw @ np.log(mine_raw)) if (mine_raw := one.predict(X)).size else 0,
            rel=1e-4,
        )
        assert one.n_presences == NUMBERS[s]
    fir = joint.density("fir")
    records = Y[:, 0] @ fir.predict(X, "log") / NUMBERS[0] + np.log(PLACES)
    assert fir.certificate.unregularized_gain == pytest.approx(records, abs=1e-5)
    assert fir.certificate.gap == pytest.approx(joint.certificate.gap * sum(NUMBERS) / NUMBERS[0])
    told = fir.explain(X.iloc[:4])
    assert np.allclose(told.exponent, fir.scores(X.iloc[:4]), atol=1e-4)
    assert fir.profile("heat").x.size == 200
    assert fir.bound().bound > -records
    assert "duality gap" in fir.summary()
    mean = sum(n * joint.density(s).certificate.gain for s, n in enumerate(NUMBERS)) / sum(NUMBERS)
    assert mean == pytest.approx(joint.certificate.gain, abs=1e-5)


def test_without_coupling_it_is_the_fit_of_each_species(joint):
    alone = mx.JointRecipe(relation="none", tol=1e-10).fit(X, Y, NAMES)
    # the same kernel, penalty 1/2m ||w||^2, by the solver of one density
    one = Recipe(features=[Kernel()], potential=mx.Quadratic(1 / NUMBERS[1]), tol=1e-10)
    single = one.task(X, Y[:, 1]).fit().density
    assert np.allclose(alone.predict(X, "log")[:, 1], single.predict(X, "log"), atol=1e-3)


def test_rounds_are_the_reweighting_that_is_stated():
    recipe = mx.JointRecipe(rounds=2, tol=1e-9)
    task = recipe.pose(recipe.read(X, Y, NAMES))
    relation, solution, rounds = task.solve()
    assert rounds == 2
    W = solution.w.reshape(-1, SPECIES)
    unit = W / np.sqrt((W**2).sum(axis=0))
    once_more = related(W, 0.5).dense()
    assert np.allclose(once_more, 0.5 * np.eye(SPECIES) + 0.5 * unit.T @ unit, atol=1e-5)
    assert np.abs(once_more - relation.dense()).max() < 0.05  # nearly still
    given = mx.JointRecipe(relation=relation, tol=1e-9).fit(X, Y, NAMES)
    learned = recipe.fit(X, Y, NAMES)
    assert np.allclose(given.predict(X), learned.predict(X), rtol=1e-3)


def test_the_first_rounds_see_a_sample_of_many_places():
    rng = np.random.default_rng(3)
    places = rng.normal(size=(6_000, 3))
    likely = np.exp(places[:, :2] @ RESPONSE)
    likely /= likely.sum(axis=0)
    counts = np.column_stack(
        [rng.multinomial(n, p) for n, p in zip(NUMBERS, likely.T, strict=True)]
    )
    whole = mx.JointRecipe(Kernel(landmarks=60))
    recipe = replace(whole, memory=2_000 * 4 * SPECIES)
    task = recipe.pose(recipe.read(places, counts))
    chosen, mass = task._sample
    assert 1_000 < len(chosen) <= 2_000
    assert mass.sum() == pytest.approx(len(places), rel=0.1)  # a sample that stands for all
    sampled, full = recipe.fit(places, counts), whole.fit(places, counts)
    assert sampled.certificate.gap <= 1e-6  # of the problem over all places
    apart = sampled.correlations() - full.correlations()
    assert 0 < np.abs(apart).max() < 0.15
    logs = (joint.predict(places, "log") for joint in (sampled, full))
    for a, b in zip(*(log.T for log in logs), strict=True):
        assert np.corrcoef(a, b)[0, 1] > 0.98


def test_a_hessian_of_a_small_sample_still_ends_at_the_gap():
    # steps that are shortened for each species by itself went uphill here, and the fit stalled
    rng = np.random.default_rng(4)
    n_places, n_species = 2_000, 100
    places = rng.normal(size=(n_places, 3))
    likely = np.exp(1.5 * places[:, :2] @ rng.normal(size=(2, n_species)))
    likely /= likely.sum(axis=0)
    numbers = np.geomspace(3, 300, n_species).astype(int)
    counts = np.column_stack(
        [rng.multinomial(n, p) for n, p in zip(numbers, likely.T, strict=True)]
    )
    made = mx.JointRecipe(Kernel(landmarks=60), memory=100 * 4 * n_species).fit(places, counts)
    assert made.certificate.gap <= 1e-6


def test_sparse_counts_frames_and_integers_are_the_same(joint):
    for other in (
        sparse.csr_array(Y),
        sparse.coo_matrix(Y),
        pd.DataFrame(Y, columns=NAMES),
        Y.astype(np.int8 if Y.max() < 128 else np.int16),
    ):
        made = mx.JointRecipe().fit(X, other, None if hasattr(other, "columns") else NAMES)
        assert made.species == joint.species
        assert np.allclose(made.weights, joint.weights)


def test_other_features_are_scaled_by_their_spread():
    narrow = mx.JointRecipe([Linear(), Square()]).fit(X, Y)
    wide = mx.JointRecipe([Linear(), Square()]).fit(1000 * X, Y)
    assert narrow.predict(X).shape == (PLACES, SPECIES)
    assert np.allclose(narrow.predict(X), wide.predict(1000 * X), rtol=1e-3)


def test_the_mean_with_own_densities():
    both = mx.JointRecipe(own=0.25).fit(X, Y, NAMES)
    plain = mx.JointRecipe().fit(X, Y, NAMES)
    own = Recipe().task(X, Y[:, 2]).fit().density
    expected = 0.75 * plain.predict(X, "log")[:, 2] + 0.25 * own.predict(X, "log")
    expected -= np.log(np.exp(expected).sum())
    assert np.allclose(both.predict(X, "log")[:, 2], expected, atol=1e-4)
    taken = both.density("rush")
    assert np.allclose(taken.predict(X, "log"), expected, atol=1e-4)
    assert len(taken.certificate.parts) == 2
    assert "25%" in both.summary()


def test_clamping_and_missing_values():
    lacking = X.copy()
    lacking.iloc[3, 1] = np.nan
    joint = mx.JointRecipe(missing="drop").fit(lacking, Y)
    assert joint.n_points == PLACES - 1
    assert joint.n_presences.tolist() == (Y.sum(axis=0) - Y[3]).tolist()
    far = X.iloc[[0, 1]] * 100
    low, high = joint.low, joint.high
    held = far.clip(low, high, axis=1)
    assert np.allclose(joint.predict(far), joint.predict(held))
    holed = X.iloc[:3].copy()
    holed.iloc[1, 0] = np.nan
    answer = joint.predict(holed, missing="drop")
    assert np.isnan(answer[1]).all()
    assert np.isfinite(answer[[0, 2]]).all()
    with pytest.raises(ValueError, match="NaN"):
        joint.predict(holed)


def test_a_file_holds_all_of_it(joint, tmp_path):
    path = tmp_path / "joint.json"
    for value in (joint, mx.JointRecipe(own=0.25).fit(X, Y[:, 2:4])):
        mx.save(value, path)
        again = mx.load(path)
        assert np.array_equal(again.predict(X, "cloglog"), value.predict(X, "cloglog"))
        assert again.relation == value.relation
        assert again.certificate.gap == value.certificate.gap


def test_some_species_alone_are_predicted_the_same(joint):
    some = joint.predict(X, "log", species=["rare", 0])
    assert np.allclose(some, joint.predict(X, "log")[:, [5, 0]], atol=1e-5)
    assert len(joint) == SPECIES
    assert [one.n_presences for one in joint] == list(NUMBERS)


# -- limits ----------------------------------------------------------------------------------------


def test_a_species_without_records_is_even():
    counts = np.column_stack([Y, np.zeros(PLACES, dtype=int)])
    with pytest.warns(UserWarning, match="1 of 7 species have no record: none"):
        made = mx.JointRecipe().fit(X, counts, [*NAMES, "none"])
    assert np.allclose(made.predict(X)[:, 6], 1 / PLACES)
    with_them = mx.JointRecipe().fit(X, Y, NAMES)
    assert np.allclose(made.predict(X)[:, :6], with_them.predict(X), rtol=0.05)
    one = made.density("none")
    assert one.n_presences == 0
    assert np.isinf(one.certificate.gap)
    assert np.allclose(one.predict(X), 1 / PLACES)


def test_one_record_and_all_records_at_one_place_are_finite():
    counts = np.zeros((PLACES, 3), dtype=int)
    counts[7, 0] = 1
    counts[9, 1] = 40
    counts[:, 2] = Y[:, 0]
    made = mx.JointRecipe().fit(X, counts)
    raw = made.predict(X)
    assert np.isfinite(raw).all()
    assert raw[:, 1].argmax() == 9
    assert raw[9, 1] > raw[7, 0] > 1 / PLACES  # forty say more than one
    own = mx.JointRecipe(own=0.25).fit(X, counts)
    assert np.isfinite(own.predict(X)).all()


def test_two_identical_species_have_one_density():
    counts = np.column_stack([Y[:, :2], Y[:, 0]])
    made = mx.JointRecipe(tol=1e-9).fit(X, counts)
    raw = made.predict(X)
    assert np.allclose(raw[:, 0], raw[:, 2], rtol=1e-3)
    assert made.correlations()[0, 2] == pytest.approx(1, abs=1e-6)


def test_a_group_of_one_is_a_kernel_density():
    made = mx.JointRecipe(tol=1e-9).fit(X, Y[:, :1])
    alone = mx.JointRecipe(relation="none", tol=1e-9).fit(X, Y[:, :1])
    assert np.allclose(made.predict(X), alone.predict(X), rtol=1e-4)
    assert made.lenders(0) == []
    with pytest.raises(ValueError, match="two species at least"):
        made.linkage()


def test_fewer_places_than_landmarks():
    made = mx.JointRecipe([Kernel(landmarks=300)]).fit(X.iloc[:20], Y[:20, :5])
    assert len(made.weights) <= 20
    assert np.allclose(made.predict(X.iloc[:20]).sum(axis=0), 1, atol=1e-5)


def test_categories_unseen_at_the_fit_have_no_effect():
    table = X.assign(kind=pd.Categorical(np.where(X["heat"] > 0, "a", "b")))
    made = mx.JointRecipe().fit(table, Y)
    other = table.assign(kind="c")
    with pytest.warns(UserWarning, match="were not there at the fit"):
        assert np.isfinite(made.predict(other)).all()


# -- bad input -------------------------------------------------------------------------------------


def _changed(value):
    counts = Y.astype(float)
    counts[3, 2] = value
    return counts


@pytest.mark.parametrize(
    ("table", "counts", "message"),
    [
        (X, _changed(-1.0), "cannot be negative: got -1"),
        (X, _changed(0.5), "expected integers, got 0.5"),
        (X, _changed(np.nan), "holds NaN or infinity; no record is 0"),
        (X, sparse.csr_array(_changed(0.5)), "expected integers, got 0.5"),
        (X, Y.astype(str), "expected numbers"),
        (
            X,
            Y[:, 0],
            r"a column for each species, got shape \(250,\); of one species: Y\[:, None\]",
        ),
        (X, Y[:, :0], "a column for each species"),
        (X, Y[:-1], "X has 250 places and Y 249 rows"),
        (X, 0 * Y, "no record of any species"),
        (X.iloc[:1], Y[:1], "one sample: a density needs several"),
        (0 * X, Y, "no feature varies"),
        (X.mask(X > 2), Y, "NaN"),
        (X.to_numpy()[:, 0], Y, "2 dimensions"),
    ],
)
def test_bad_tables_are_refused(table, counts, message):
    with pytest.raises(ValueError, match=message):
        mx.JointRecipe().fit(table, counts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mix": 1.0}, r"mix must lie in \[0, 1\)"),
        ({"own": -0.1}, r"own must lie in \[0, 1\)"),
        ({"rounds": -1}, "rounds must be an integer"),
        ({"rounds": 1.5}, "rounds must be an integer"),
        ({"strength": 0}, "strength"),
        ({"tol": 0}, "tol must be > 0"),
        ({"relation": "phylogeny"}, "relation must be"),
        ({"relation": np.eye(3)}, "relation is of 3 species, Y has 6"),
        ({"features": "lq"}, "features must be feature classes"),
        ({"missing": "ignore"}, "missing must be"),
        ({"features": Kernel(spatial=0.3)}, "needs the columns of the coordinates"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        mx.JointRecipe(**settings).fit(X, Y)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"], "6 columns, and there are 1 species"), (["a", "a", *"bcde"], "a have several")],
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        mx.JointRecipe().fit(X, Y, names)


def test_unknown_species_are_named(joint):
    with pytest.raises(ValueError, match="no species 'oak' among 6: fir, larch"):
        joint.density("oak")
    with pytest.raises(ValueError, match="species 6 is not in 0"):
        joint.density(6)


def test_a_bound_pays_for_all_features_that_the_own_part_could_have():
    """Not for those alone that its l1 penalty left in."""
    mixed = mx.JointRecipe(own=0.25, own_recipe=Recipe("lqp", multiplier=5.0)).fit(X, Y, NAMES)
    plain = mx.JointRecipe().fit(X, Y, NAMES)
    own = mixed.own[0]
    assert own is not None
    assert len(own.weights) < 9  # of 3 linear, 3 quadratic, 3 products
    kernels = plain.density("fir").origin.n_not_monotone
    assert mixed.density("fir").origin.n_not_monotone == kernels + 6


def test_a_posterior_of_a_mean_has_the_priors_of_both_parts():
    """Weights times a share a have the prior deviation times a: the precision over a^2."""
    mixed = mx.JointRecipe(own=0.25).fit(X, Y, NAMES)
    one, alone = mixed.density("rare"), mx.JointRecipe().fit(X, Y, NAMES).density("rare")
    size = len(alone.weights)
    np.testing.assert_allclose(one.beta[:size], alone.beta / 0.75)
    own = mixed.own[NAMES.index("rare")]
    assert own is not None
    np.testing.assert_allclose(one.beta[size:], own.beta / 0.25)
    deviation = Posterior.from_density(one, X).deviation(X)
    assert np.isfinite(deviation).all()
    assert deviation.min() > 0
