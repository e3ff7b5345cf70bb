"""StructMaxent on tables in blocks: equal to the fit in memory, over files and on a cluster."""

import os
import pickle
import signal
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent.core.solvers.base import Status
from maxent.families import Family, Monomials, Splines, Trees
from maxent.families.blocked import BlockGrowth, Chosen, GrownBlocks, GrowthBlock, Residual
from maxent.families.growth import DensityGrowth
from maxent.families.plans import CellView, PlannedFamily, SummaryView
from maxent.features import OperatorMap, Schema, TableSummary
from maxent.rows.blocks import BlocksLost, CellBlockMap, FileBlocks, MemoryBlocks
from maxent.rows.blocks.row_laws import law_of
from maxent.rows.blocks.table import BlockTable, Part
from maxent.rows.blocks.weights import SparseWeights

N = 1200
CUTS = (0, 300, 300, 450, 900, 1150, N)  # one of six blocks is empty


def table(dtype=np.float64):
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(N, 5))
    X[:, 3] = rng.integers(0, 30, N)  # ties
    X[:, 4] = rng.integers(0, 4, N)  # categories
    X = X.astype(dtype)
    score = 3 * X[:, 0] * X[:, 1] - 2 * np.abs(X[:, 2] - 0.5) + (X[:, 4] == 2) + (X[:, 3] > 20)
    p = np.exp(score - score.max())
    return X, rng.multinomial(150, p / p.sum())


def parts(X, cuts=CUTS):
    rows = X.iloc if hasattr(X, "iloc") else X
    return [Part(i, rows[a:b], {}) for i, (a, b) in enumerate(pairwise(cuts))]


def in_blocks(X, cuts=CUTS):
    return BlockTable(MemoryBlocks(parts(X, cuts)))


def assert_same(blocked, whole, atol=1e-8):
    """The same features with the same weights and certificates."""
    assert list(blocked.coef_) == list(whole.coef_)
    np.testing.assert_allclose(
        list(blocked.coef_.values()), list(whole.coef_.values()), rtol=0, atol=atol
    )
    assert blocked.features_[0]["family"] == whole.features_[0]["family"]
    np.testing.assert_array_equal(blocked.beta_, whole.beta_)
    for name in ("gap_", "family_gap_", "violation_", "gain_", "entropy_", "log_partition_"):
        assert getattr(blocked, name) == pytest.approx(getattr(whole, name), abs=1e-10), name
    np.testing.assert_allclose(blocked.objective_, whole.objective_, rtol=0, atol=1e-10)
    assert (blocked.status_, blocked.n_rounds_) == (whole.status_, whole.n_rounds_)
    for name, bound in whole.guarantees_.items():
        assert blocked.guarantees_[name] == pytest.approx(bound, rel=1e-6, abs=1e-10)


FAMILIES = {
    "monomials": [Monomials(3)],
    "splines": [Splines(2, knots=20)],
    "trees": [Trees(5, bins=100)],
    "default": None,
}


@pytest.mark.parametrize("entropy", ["shannon", mx.Tsallis(1.5)], ids=["shannon", "tsallis"])
@pytest.mark.parametrize("families", FAMILIES.values(), ids=FAMILIES)
def test_blocks_give_the_fit_in_memory(families, entropy):
    X, y = table()
    budget = {} if families else {"proof_budget": 1e7}
    model = mx.StructMaxent(families, rounds=6, entropy=entropy, categorical=[4], **budget)
    whole = mx.StructMaxent(**model.get_params()).fit(X, y)
    assert whole.n_rounds_ >= 3
    blocked = model.fit(in_blocks(X), y)
    assert_same(blocked, whole)
    np.testing.assert_allclose(blocked.predict(in_blocks(X)), whole.predict(X), atol=1e-12)
    np.testing.assert_allclose(blocked.predict(X, "cumulative"), whole.predict(X, "cumulative"))


def test_weights_and_a_prior_of_the_rows():
    X, y = table(np.float32)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, N).astype(float)
    prior = np.where(y > 0, 1.0, rng.uniform(0, 2, N).round(1))
    settings = {"families": [Monomials(2), Splines(1), Trees(3)], "rounds": 5, "beta": 0.02}
    settings["proof_budget"] = 1e7
    whole = mx.StructMaxent(**settings).fit(X, y, weight, prior)
    blocked = mx.StructMaxent(**settings).fit(in_blocks(X), y, weight, prior)
    assert_same(blocked, whole)
    assert blocked.n_points_ == whole.n_points_ < N
    assert blocked.density_.biased


def test_frames_whose_blocks_have_other_levels():
    X, y = table()
    frame = pd.DataFrame(X[:, :3], columns=["rain", "heat", "flat"])
    frame["flat"] = 2.5
    frame["soil"] = np.array(["clay", "loam", "peat", "sand"])[X[:, 4].astype(int)]
    frame.loc[frame.index[:450], "soil"] = "clay"
    frame["realm"] = "north"  # a level that all rows have is no feature
    settings = {"families": [Monomials(3), Trees(4)], "rounds": 5, "proof_budget": 1e7}
    with pytest.warns(UserWarning, match="constant columns are not used: flat, realm"):
        whole = mx.StructMaxent(**settings).fit(frame, y)
    with pytest.warns(UserWarning, match="constant columns are not used: flat, realm"):
        blocked = mx.StructMaxent(**settings).fit(in_blocks(frame), y)
    assert_same(blocked, whole)
    assert any("soil" in name for name in whole.coef_)
    assert list(blocked.feature_names_in_) == list(frame.columns)


def test_the_problem_of_a_fit_certifies_its_weights():
    X, y = table()
    model = mx.StructMaxent([Monomials(2), Trees(3)], rounds=6, proof_budget=0)
    blocked, whole = model.problem(in_blocks(X), y), model.problem(X, y)
    w = model.fit(in_blocks(X), y).density_.weights
    assert blocked.dual(w) == pytest.approx(whole.dual(w), abs=1e-13)
    assert blocked.gap(w) == pytest.approx(whole.gap(w), abs=1e-13)
    assert whole.gap(w) < 1e-6


def test_weights_that_make_the_same_density(monkeypatch):
    # With A, B, C and D sets of cells, the features of A + C, A + D, B + C and B + D cost the same
    # and depend on each other: where several come in at once, rounding decides between weights.
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 3))
    truth = np.exp(4 * X[:, 0] * X[:, 1] - 2 * X[:, 2])
    y = rng.multinomial(200, truth / truth.sum())
    chosen, real = [], DensityGrowth.add

    def add(self, candidate):
        chosen[-1].append(candidate.proposal.operator)
        return real(self, candidate)

    monkeypatch.setattr(DensityGrowth, "add", add)
    models = []
    for cells in (X, in_blocks(X, (0, 150, 300))):
        chosen.append([])
        models.append(mx.StructMaxent([Monomials(2), Trees(3)], proof_budget=1e7).fit(cells, y))
    whole, blocked = models
    names, in_memory = ([name for one in part for name in one.names()] for part in chosen)
    assert names == in_memory
    features = OperatorMap([one.bind(Schema.from_table(X).read(X)) for one in chosen[0]], 300)
    columns = np.array([features.moments(cell) for cell in np.eye(300)])
    assert np.linalg.matrix_rank(columns) < len(set(names))  # what this test is about
    np.testing.assert_allclose(blocked.predict(X), whole.predict(X), rtol=1e-10)
    for name in ("objective_", "gap_", "family_gap_", "violation_", "entropy_"):
        np.testing.assert_allclose(getattr(blocked, name), getattr(whole, name), atol=1e-10)
    assert (blocked.status_, blocked.n_rounds_) == (whole.status_, whole.n_rounds_)


# -- moves ---------------------------------------------------------------------------------------


def test_blocks_that_forget_everything_between_two_calls(tmp_path):
    X, y = table()
    settings = {"families": [Monomials(2), Splines(2, knots=9), Trees(3)], "rounds": 2}
    settings["proof_budget"] = 1e6
    files = BlockTable(FileBlocks(iter(parts(X)), tmp_path))
    assert_same(
        mx.StructMaxent(**settings).fit(files, y), mx.StructMaxent(**settings).fit(X, y), 1e-10
    )


def growth_block(families):
    """All rows as one block, and their cells."""
    from maxent.density.blocked import PointBlock

    X, y = table()
    schema = Schema.from_table(X, categorical=[4])
    cells = schema.read(X)
    plans = [family.plan(CellView(cells, schema)) for family in families]
    block = PointBlock(0, cells, y.astype(float), np.ones(N), np.ones(N))
    return GrowthBlock.from_points(block, plans, float(N), float(y.sum())), cells, schema


@pytest.mark.parametrize(
    ("family", "moves"),
    [
        (Monomials(3), (1, 5, 4)),
        (Splines(3, knots=5), (7, 2, 2)),
        (Trees(4), ((0, 0, bytes([1] * 100 + [0] * 155)), (2, 4, bytes([0, 1, 1, 0, 0])))),
    ],
    ids=["monomials", "splines", "trees"],
)
def test_an_answer_depends_on_nothing_but_the_question(family, moves):
    block, cells, schema = growth_block([family])
    search = family.search(cells, schema)
    first = search.propose(np.linspace(-1, 1, N))[0].operator
    chosen = Chosen((tuple(first.names()),), (first,))
    law = law_of(mx.Shannon())
    features = CellBlockMap(GrownBlocks(MemoryBlocks([block]), chosen), 1, N)
    residuals = [
        Residual(chosen, law, features.sparse(w), features.threshold(mx.Shannon(), w)[0])
        for w in (np.array([1.5]), np.array([-0.5]))
    ]
    expected = {}
    for i, residual in enumerate(residuals):
        for count in range(len(moves) + 1):
            fresh = pickle.loads(pickle.dumps(block))
            expected[i, count] = fresh.answer(residual, 0, moves[:count])
    assert not np.array_equal(expected[0, 0], expected[1, 0])
    for i, count in [(0, 0), (0, 1), (0, 1), (0, 2), (1, 2), (1, 1), (0, 2), (0, 0), (1, 2)]:
        found = block.answer(residuals[i], 0, moves[:count])
        np.testing.assert_array_equal(found, expected[i, count])


def test_blocks_with_features_are_blocks():
    block, cells, schema = growth_block([Monomials(1)])
    operator = Monomials(1).search(cells, schema).propose(cells.values[2] - 0.5)[0].operator
    grown = GrownBlocks(MemoryBlocks([block]), Chosen((("x2",),), (operator,)))
    assert len(grown) == 1
    theta = grown.map("scores", SparseWeights.from_vector(np.array([2.0]))).reduce(
        np.sum, merge=max
    )
    low, high = cells.values[2].min(), cells.values[2].max()
    assert theta == pytest.approx(2 * ((cells.values[2] - low) / (high - low)).sum())
    scaled = grown.apply(lambda b, share: b.observed_moments(None) * share, [3.0])
    mean = scaled.reduce(np.sum, merge=max)
    assert mean == pytest.approx(3 * grown.reduce("observed_moments", None, merge=max)[0])


class Counting(MemoryBlocks):
    """Blocks that note what they are asked."""

    def __init__(self, blocks, asked):
        super().__init__(blocks)
        self.asked = asked

    def reduce(self, work, *args, merge, ordered=False):
        self.asked.append(work if isinstance(work, str) else work.__name__)
        return super().reduce(work, *args, merge=merge)

    def map(self, work, *args):
        return Counting(super().map(work, *args)._blocks, self.asked)

    def apply(self, function, others):
        return Counting(super().apply(function, others)._blocks, self.asked)


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        # the values of all raw features and each level of products; the root and all cells at once
        ({}, (1 + 3) + (1 + 1)),
        # without a budget products of one factor and trees of one node alone
        ({"proof_budget": 0}, (1 + 1) + 1),
    ],
    ids=["bounds", "no budget"],
)
def test_one_pass_for_each_move(settings, bounds):
    X, y = table()
    asked = []
    model = mx.StructMaxent([Monomials(3), Trees(5)], rounds=1, **settings)
    model.fit(BlockTable(Counting(parts(X), asked)), y)
    # two searches, each the values of all raw features and three factors, the root and four splits;
    # the first looks into some bins for a better threshold, and then no bin may have one
    assert asked.count("answer") == 2 * (4 + 5) + 1 + bounds


# -- knots and thresholds ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plans_from_a_summary_are_those_of_all_cells(dtype):
    X, _ = table(dtype)
    X[:, 1] = X[:, 1] > 0.9  # knots between values
    wanted = {"categorical": [4], "values": True}
    summaries = [TableSummary.from_rows(part.X, **wanted) for part in parts(X)]
    summary = summaries[0]
    for other in summaries[1:]:
        summary = summary.merge(other)
    schema = Schema.from_table(X, categorical=[4])
    whole, merged = CellView(schema.read(X), schema), SummaryView(summary)
    for bins in (2, 17, 255):
        one, two = (Trees(2, bins).plan(view).thresholds for view in (whole, merged))
        for mine, theirs in zip(one, two, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for knots in (1, 7, 64):
        one, two = (Splines(2, knots).plan(view).hinges for view in (whole, merged))
        assert one.names() == two.names()


def test_beyond_the_sketch_knots_keep_to_the_stated_error():
    x = np.random.default_rng(0).normal(size=(20_000, 1))
    summary = TableSummary.from_rows(x[:10_000], values=True, size=256).merge(
        TableSummary.from_rows(x[10_000:], values=True, size=256)
    )
    assert 0 < summary.rank_error < 0.02
    shares = np.arange(1, 65) / 65
    found = SummaryView(summary).quantiles(0, shares)
    ranks = np.searchsorted(np.sort(x[:, 0]), found) / len(x)
    step = 2 / 255  # the mass of a value that the sketch kept
    assert np.abs(ranks - shares).max() <= summary.rank_error + step


# -- what is refused -----------------------------------------------------------------------------


class Unread(MemoryBlocks):
    """Blocks that must not be read."""

    def reduce(self, work, *args, merge, ordered=False):
        raise AssertionError("the rows were read")


class OwnFamily(Family):
    letter = "o"

    def complexity(self, level, d, m):
        return 1.0

    def search(self, cells, schema):
        raise AssertionError("cells are in blocks")


class OwnMonomials(Monomials):
    def search(self, cells, schema):
        return super().search(cells, schema)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rule": "structmaxent2"}, "rule='structmaxent2' steps along"),
        ({"complexity": "empirical"}, 'use complexity="bound", or fit in memory'),
        ({"entropy": mx.SquaredNorm()}, "cells in blocks need the entropy Shannon or Tsallis"),
        ({"families": [Trees(2), OwnFamily()]}, "OwnFamily searches all cells at once"),
        ({"families": [OwnMonomials(2)]}, "OwnMonomials searches all cells at once"),
    ],
)
def test_what_blocks_cannot_do_is_said_before_the_rows_are_read(settings, said):
    X, y = table()
    with pytest.raises((TypeError, ValueError), match=said):
        mx.StructMaxent(**settings).fit(BlockTable(Unread(parts(X))), y)


def test_the_search_over_lambda_and_beta_wants_memory():
    X, y = table()
    with pytest.raises(TypeError, match="choose lam and beta on a sample"):
        mx.StructMaxentCV().fit(in_blocks(X), y)


def test_few_records_and_a_bad_block_are_told():
    X, y = table()
    few = np.zeros(N)
    few[:3] = 1
    with pytest.raises(ValueError, match="3 records, and growing features needs at least 5"):
        mx.StructMaxent().fit(in_blocks(X), few)
    X[300 + np.flatnonzero(y[300:450] == 0)[0], 1] = np.nan
    with pytest.raises(ValueError, match=r"block 2: .*NaN.* in x1"):
        mx.StructMaxent().fit(in_blocks(X), y)
    X[:] = 1.0
    with (
        pytest.warns(UserWarning, match="constant"),
        pytest.raises(ValueError, match="propose no feature at all"),
    ):
        mx.StructMaxent().fit(in_blocks(X), y)


def test_a_family_with_plans_is_one_with_a_search():
    assert issubclass(Trees, PlannedFamily)
    assert all(family.search is PlannedFamily.search for family in (Monomials, Splines, Trees))


@pytest.mark.parametrize("at_the_end", [False, True])
def test_interrupted_growth_keeps_what_it_has(monkeypatch, at_the_end):
    X, y = table()
    rounds, real = [], BlockGrowth.proposals

    def proposals(self):
        rounds.append(self)
        if len(rounds) == 4:
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(BlockGrowth, "proposals", proposals)
    model = mx.StructMaxent([Trees(4)], rounds=3 if at_the_end else 500)
    with pytest.raises(KeyboardInterrupt):
        model.fit(in_blocks(X), y)
    assert (model.status_, len(model.coef_)) == (Status.INTERRUPTED, 3)
    assert 0 < model.gap_ < 1e-5
    assert model.family_gap_ == np.inf


class Failing(Counting):
    """Blocks whose scheduler is gone at the n-th question of a kind."""

    def reduce(self, work, *args, merge, ordered=False):
        kind, count = self.asked[0]
        named = work if isinstance(work, str) else work.__name__
        if named == kind and self.asked.count(kind) == count:
            raise BlocksLost("the scheduler is gone, and the blocks with it.")
        return super().reduce(work, *args, merge=merge)

    def map(self, work, *args):
        return Failing(super().map(work, *args)._blocks, self.asked)

    def apply(self, function, others):
        return Failing(super().apply(function, others)._blocks, self.asked)


@pytest.mark.parametrize("where", [("answer", 12), ("_with_features", 20)])
def test_the_loss_of_a_scheduler_is_told_without_options_that_are_not_there(where):
    X, y = table()
    model = mx.StructMaxent([Trees(4)])
    said = r"scheduler is gone, and the blocks with it\. The [1-9] features .* are lost: fit again$"
    with pytest.raises(BlocksLost, match=said):
        model.fit(BlockTable(Failing(parts(X), [where])), y)
    assert not hasattr(model, "density_")


# -- a cluster -----------------------------------------------------------------------------------


def test_a_cluster_gives_the_fit_in_memory_though_a_worker_is_killed(client, monkeypatch):
    import dask.array

    X, y = table()
    settings = {"families": [Monomials(2), Trees(3)], "rounds": 3, "proof_budget": 0, "searches": 0}
    killed, real = [], BlockGrowth.set_weights

    def set_weights(self, w):
        real(self, w)
        if len(w) == 2 and not killed:
            held = client.has_what()
            worker = max(held, key=lambda address: len(held[address]))
            assert len(held[worker]) >= 2
            killed.append(client.run(os.getpid)[worker])
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(BlockGrowth, "set_weights", set_weights)
    lazy = dask.array.from_array(X, chunks=(300, 2))
    blocked = mx.StructMaxent(**settings).fit(lazy, y)
    assert len(killed) == 1
    assert killed[0] not in client.run(os.getpid).values()
    assert_same(blocked, mx.StructMaxent(**settings).fit(X, y))
    predicted = blocked.predict(lazy)
    assert predicted.chunks == ((300, 300, 300, 300),)
    np.testing.assert_allclose(predicted.compute(), blocked.predict(X), rtol=1e-12)
