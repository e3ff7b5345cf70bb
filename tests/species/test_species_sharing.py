"""Strength lent between species: the mean of log densities, how it is chosen, and the command."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent.density import Points, Recipe, Table, log_pool
from maxent.features import Schema, bind, with_weights
from maxent.features.summing import joint_schema, summed
from maxent.species.fitting import sharing
from maxent.species.fitting.results import Sample
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

WIDTH, HEIGHT = 40, 30
ALIKE = ["Alba prima", "Alba secunda", "Alba tertia", "Alba quarta"]
FEW, UNLIKE = "Alba rara", "Nigra contraria"


def landscape():
    """Heat, rain and two layers of no use; and where each species lives."""
    rng = np.random.default_rng(5)
    x, y = np.meshgrid(np.linspace(0, 1, WIDTH), np.linspace(0, 1, HEIGHT))
    waves = {
        "heat": np.sin(7 * x + 2 * y) + 0.3 * np.cos(9 * y),
        "rain": np.cos(5 * y - 3 * x) + 0.3 * np.sin(8 * x),
        "odd": np.sin(11 * x * y + 1) + 0.2 * x,
        "slope": np.cos(13 * x + 5 * y),
    }
    X = pd.DataFrame(
        {name: (v + 0.1 * rng.normal(size=v.shape)).ravel() for name, v in waves.items()}
    )
    fit = 2.5 * X["heat"] - 1.5 * (X["rain"] - 0.4) ** 2
    truth = {name: fit + 0.3 * rng.normal() * X["odd"] for name in [*ALIKE, FEW]}
    truth[UNLIKE] = -2.5 * X["heat"] + 2.0 * X["slope"]
    shares = {name: np.exp(v - v.max()) / np.exp(v - v.max()).sum() for name, v in truth.items()}
    sizes = dict.fromkeys(ALIKE, 80) | {FEW: 10, UNLIKE: 120}
    cells = {
        name: rng.choice(WIDTH * HEIGHT, sizes[name], replace=False, p=share.to_numpy())
        for name, share in shares.items()
    }
    places = np.column_stack([x.ravel(), y.ravel()])
    return X, places, shares, cells


X, PLACES, TRUTH, CELLS = landscape()


def sample_of(name):
    counts = np.bincount(CELLS[name], minlength=len(X)).astype(float)
    return Sample(X, counts, PLACES)


@pytest.fixture(scope="module")
def fitted():
    recipe = Recipe(verbose=0)
    made = {name: recipe.task(X, sample_of(name).counts).fit().density for name in CELLS}
    return recipe, made


def others(made, name):
    return {other: density for other, density in made.items() if other != name}


# -- sums of features ------------------------------------------------------------------------------


def member(features, rows, seed):
    """A density of some of the rows of a table with categories."""
    rng = np.random.default_rng(seed)
    frame = TABLE.iloc[rows].reset_index(drop=True)
    y = rng.random(len(frame)) < 1 / (1 + np.exp(-2 * frame["a"] - (frame["kind"] == "wet")))
    return Recipe(features, categorical=["kind"], multiplier=0.1).task(frame, y).fit().density


TABLE = pd.DataFrame(
    {
        "a": np.random.default_rng(1).normal(size=300),
        "b": np.random.default_rng(2).normal(size=300) - 1,
        "kind": np.random.default_rng(3).choice(["dry", "mid", "wet"], 300),
    }
)
ROWS = np.arange(300)


def members():
    no_mid = np.flatnonzero(TABLE["kind"] != "mid")
    return [
        member("lqpthc", ROWS[:200], 1),
        member("lqphc", ROWS[120:], 2),
        member("lqtc", no_mid, 3),
    ]


def test_a_sum_of_features_scores_as_its_parts():
    made = members()
    schema = joint_schema([m.schema for m in made])
    assert schema.levels == (("dry", "mid", "wet"),)
    parts = [part for m in made for part in with_weights(m.operators, m.weights)]
    operators, weights = summed(parts, schema)
    assert len(operators) == 3  # one of curves, one of products, one of levels
    names = [name for operator in operators for name in operator.names()]
    assert len(set(names)) == len(names) < sum(len(m.weights) for m in made)
    # each at cells read by its own schema; a level it does not know has no effect
    total = np.zeros(300)
    for m in made:
        known = np.isin(TABLE["kind"], m.schema.levels[0])
        frame = TABLE.assign(kind=np.where(known, TABLE["kind"], m.schema.levels[0][0]))
        levels = {k: w for k, w in m.coef.items() if k.startswith("kind=")}
        effect = [levels.get(f"kind={k}", 0.0) for k in frame["kind"]]
        total += m.scores(frame, clamp=False) - np.where(known, 0.0, effect)
    difference = bind(operators, schema.read(TABLE)).scores(weights) - total
    assert np.ptp(difference) < 1e-10 * max(1, np.abs(total).max())


def test_a_sum_of_features_of_huge_and_tiny_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80) * 1e150, "b": rng.normal(size=80) * 1e-150})
    y = rng.random(80) < 0.3
    one, two = (
        Recipe("lqph", multiplier=0.01).task(frame[part], y[part]).fit().density
        for part in (slice(0, 60), slice(20, 80))
    )
    schema = one.schema
    parts = [part for m in (one, two) for part in with_weights(m.operators, m.weights)]
    operators, weights = summed(parts, schema)
    total = sum(m.scores(frame, clamp=False) for m in (one, two))
    assert np.ptp(bind(operators, schema.read(frame)).scores(weights) - total) < 1e-9


def test_members_need_the_same_columns():
    with pytest.raises(ValueError, match="all members need the columns a, b"):
        joint_schema([Schema(("a", "b")), Schema(("a", "c"))])


# -- the mean of log densities ---------------------------------------------------------------------


@pytest.mark.parametrize("biased", [False, True])
def test_a_pool_is_the_mean_of_the_logs_renormalised(biased):
    whole = [member("lqpthc", ROWS, 1), member("lqphc", ROWS, 2)]
    prior = np.exp(TABLE["b"].to_numpy()) if biased else None
    y = (TABLE["a"] > 1).to_numpy()
    points = Points.from_table(TABLE, y, prior=prior, categorical=["kind"])
    shares = [0.5, 0.3]
    made = log_pool(whole, shares, points, [m.certificate for m in whole])
    logs = sum(s * m.predict(TABLE, "log") for s, m in zip(shares, whole, strict=True))
    expected = logs - np.log(np.exp(logs).sum())
    np.testing.assert_allclose(made.predict(TABLE, "log"), expected, rtol=0, atol=1e-10)
    # the gain is against the default density: the prior
    default = np.ones(300) / 300 if prior is None else prior / prior.sum()
    density = default * np.exp(logs) / (default @ np.exp(logs))
    gain = np.log(density / default)[y].mean()
    assert made.certificate.unregularized_gain == pytest.approx(gain, abs=1e-10)
    assert made.raw_entropy == pytest.approx(-(np.exp(expected) @ expected), abs=1e-10)


def test_a_pool_is_a_density_like_any_other(tmp_path):
    whole = members()
    schema = joint_schema([m.schema for m in whole])
    y = (TABLE["a"] > 1).to_numpy()
    points = Points.of_table(Table.from_rows(TABLE, y), schema=schema)
    made = log_pool(whole, [0.5, 0.2, 0.3], points, [m.certificate for m in whole[:2]])
    mx.save(made, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    for output in ("raw", "cloglog", "cumulative"):
        np.testing.assert_array_equal(again.predict(TABLE, output), made.predict(TABLE, output))
    assert [part.gap for part in again.certificate.parts] == [m.certificate.gap for m in whole[:2]]
    told = made.explain(TABLE[:5])
    np.testing.assert_allclose(told.exponent, made.scores(TABLE[:5]), atol=1e-10)
    assert "a mean of 2 densities, each solved by itself" in made.summary()
    assert "regularized gain nan" not in made.summary()
    assert np.isnan(made.certificate.gain)
    # all squares, products and levels are paid for, whichever of them a member was offered
    told = made.bound()
    assert told.sample_loss == pytest.approx(-made.predict(TABLE, "log")[y].mean(), abs=1e-10)
    events = 2 + (2 + 1 + 3)  # continuous columns; squares, product, levels
    worst = np.sqrt(np.log(2 * events / 0.05) / (2 * y.sum()))
    assert told.deviation == pytest.approx(worst * np.abs(made.weights).sum(), rel=1e-10)


def test_a_pool_refuses_what_has_no_exponent_to_add():
    one = member("lc", ROWS, 1)
    other = replace(one, entropy=mx.Tsallis(1.5))
    points = Points.from_table(TABLE, TABLE["a"] > 1, categorical=["kind"])
    with pytest.raises(ValueError, match="entropy Shannon alone"):
        log_pool([one, other], [0.5, 0.5], points, [one.certificate])
    with pytest.raises(ValueError, match="as many shares"):
        log_pool([one], [0.5, 0.5], points, [one.certificate])


# -- the choice ------------------------------------------------------------------------------------


def test_a_species_with_few_records_is_helped(fitted):
    recipe, made = fitted
    own = made[FEW]
    got = sharing.share(recipe, sample_of(FEW), own, others(made, FEW), verbose=0)
    assert got.sharing.chosen
    assert got.sharing.shared["gain"] > got.sharing.own["gain"]
    # the mean log density of new records, by the truth
    truth = TRUTH[FEW].to_numpy()
    shared, alone = (truth @ d.predict(X, "log") for d in (got.density, own))
    assert shared > alone
    # half its own log density, half that of the others with the weights that are told
    weights = got.sharing.lenders
    logs = own.predict(X, "log") + sum(
        weights[name] * density.predict(X, "log", clamp=False)
        for name, density in others(made, FEW).items()
    )
    expected = logs / 2 - np.log(np.exp(logs / 2).sum())
    np.testing.assert_allclose(got.density.predict(X, "log"), expected, rtol=0, atol=1e-10)


def test_the_weights_of_the_others_are_a_ridge_optimum(fitted):
    recipe, made = fitted
    sample = sample_of(FEW)
    borrower = sharing.Borrower.from_sample(recipe, sample, others(made, FEW))
    weights, told = borrower.others(borrower.points(sample), 1e-10)
    columns = np.column_stack([d.scores(X) for d in others(made, FEW).values()])
    m, k = sample.counts.sum(), columns.shape[1]
    theta = columns @ weights
    p = np.exp(theta - theta.max())
    p /= p.sum()
    gradient = columns.T @ (p - sample.counts / m) + sharing.STRENGTH * k / m * weights
    assert np.abs(gradient).max() < 1e-4
    assert told.gap < 1e-9


def test_a_species_unlike_the_others_stays_alone(fitted):
    recipe, made = fitted
    got = sharing.share(recipe, sample_of(UNLIKE), made[UNLIKE], others(made, UNLIKE), verbose=0)
    assert not got.sharing.chosen
    assert got.density is made[UNLIKE]
    assert got.sharing.shared["gain"] <= got.sharing.own["gain"]
    assert "not shared" in got.sharing.describe()


def test_a_held_out_block_is_held_out_of_both_parts(fitted, monkeypatch):
    recipe, made = fitted
    sample = sample_of(FEW)
    seen = {"own": [], "others": []}
    fit, weigh = sharing.Plain.fit, sharing.Borrower.others
    monkeypatch.setattr(sharing.Plain, "fit", lambda self, p: seen["own"].append(p) or fit(self, p))
    monkeypatch.setattr(
        sharing.Borrower, "others", lambda self, p, t: seen["others"].append(p) or weigh(self, p, t)
    )
    sharing.share(recipe, sample, made[FEW], others(made, FEW), n_jobs=1, verbose=0)
    blocks = list(mx.evaluation.SpatialBlocks(PLACES, 4).split(None, sample.counts))
    for k, (train, test) in enumerate(blocks):
        for points in (seen["own"][k], seen["others"][k]):
            # neither records nor background of the block
            np.testing.assert_array_equal(points.cells.values.T, X.to_numpy()[train])
            assert points.n_presences == sample.counts.sum() - sample.counts[test].sum()
    assert len(seen["own"]) == 4  # the fit to all records is given


def test_held_out_scores_are_those_of_an_independent_computation(fitted):
    recipe, made = fitted
    sample, lent = sample_of(FEW), others(made, FEW)
    got = sharing.share(recipe, sample, made[FEW], lent, verbose=0).sharing
    gains = []
    for train, test in mx.evaluation.SpatialBlocks(PLACES, 4).split(None, sample.counts):
        model = mx.MaxentDensity(verbose=0, tol=1e-5).fit(X.iloc[train], sample.counts[train])
        log = model.predict(X, output="log")
        tested = np.repeat(log[test], sample.counts[test].astype(int))
        gains += (tested - np.log(np.exp(log).mean())).tolist()
    assert got.own["gain"] == pytest.approx(np.mean(gains), abs=1e-10)


def test_too_few_records_for_the_folds_and_nobody_who_lends(fitted):
    recipe, made = fitted
    sample = sample_of(FEW)
    rows = np.flatnonzero(sample.counts)
    sample.counts[rows[3:]] = 0
    got = sharing.share(recipe, sample, made[FEW], others(made, FEW), kind="random", verbose=0)
    assert not got.sharing.chosen
    assert got.sharing.reason == "3 records are too few for 4 folds"
    got = sharing.share(recipe, sample, made[FEW], {}, verbose=0)
    assert got.sharing.reason == "no other species could lend"
