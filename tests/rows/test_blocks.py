"""Problems whose rows stay in blocks: the same numbers as in memory, whatever keeps the blocks."""

import os
from operator import add

import numpy as np
import pytest

from maxent import (
    L2CRF,
    M3N,
    FenchelYoungClassifier,
    FenchelYoungMultilabel,
    FenchelYoungRegressor,
    LaplaceMEDN,
    MaxentDensity,
    MaxentDensityCV,
)
from maxent.core.entropies import Renyi, Shannon, Tsallis
from maxent.core.maps import SampleMap
from maxent.core.potentials import Box, ElasticNet, Quadratic
from maxent.core.problem import Problem
from maxent.core.solvers import FISTA, LBFGS, NewtonCG, ProxNewton
from maxent.features import Hinge, Interaction, Linear, Square, Threshold
from maxent.rows.blocks import (
    BlockError,
    BlocksLost,
    FileBlocks,
    InBlocks,
    MemoryBlocks,
    SampleBlock,
    SampleBlockMap,
    SourceBlocks,
    open_table,
)
from maxent.rows.blocks.sources import in_bytes
from maxent.rows.blocks.table import BlockTable, Part, block_table
from maxent.rows.merging import merged
from tools import needs

N = 4000


@pytest.fixture(scope="module")
def cells():
    """X, counts, weights (some 0) and a prior."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    X[:, 2] = np.round(X[:, 2], 1)
    y = (rng.uniform(size=N) < 0.03 * np.exp(X[:, 0] - X[:, 1] ** 2)).astype(float)
    weight = rng.integers(0, 3, N).astype(float)
    return X, y, weight, rng.uniform(0.5, 2, N)


def parts_of(X, n=5, empty=2):
    """Some blocks, one of them empty."""
    cuts = np.array_split(np.arange(len(X)), n - 1)
    cuts.insert(empty, np.arange(0))
    return [Part(i, X[rows], {}) for i, rows in enumerate(cuts)]


def engines(X, tmp_path):
    """One table in every place that keeps blocks in this process."""
    parts = parts_of(X)
    np.save(tmp_path / "X.npy", X)
    yield "memory", BlockTable(MemoryBlocks(parts))
    yield "files", BlockTable(FileBlocks(parts, str(tmp_path)))
    readers = [lambda part=part: part for part in parts]
    yield "sources", BlockTable(SourceBlocks(readers, str(tmp_path)))
    yield "disk", open_table(tmp_path / "X.npy", memory="400.25MB", scratch=str(tmp_path))


def same_density(one, other, coefficients=1e-8, same_steps=True):
    """Both fits agree in everything that a user sees."""
    assert one.coef_.keys() == other.coef_.keys()
    for name, weight in one.coef_.items():
        assert other.coef_[name] == pytest.approx(weight, abs=coefficients)
    mine, theirs = one.density_, other.density_
    if same_steps:
        assert theirs.certificate.gap == pytest.approx(mine.certificate.gap, rel=1e-2, abs=1e-12)
    for name in ("log_total", "raw_entropy", "n_points", "n_presences", "n_features", "biased"):
        assert getattr(theirs, name) == pytest.approx(getattr(mine, name), abs=1e-8), name
    np.testing.assert_allclose(theirs.low, mine.low)
    np.testing.assert_allclose(theirs.high, mine.high)
    np.testing.assert_allclose(theirs.mean_place.values, mine.mean_place.values, atol=1e-12)
    assert one.gain_ == pytest.approx(other.gain_, abs=1e-10)
    assert str(one.bound()) == str(other.bound()) if mine.entropy == Shannon() else True


# -- engines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 64, 65, 200])
def test_answers_merge_in_order(count):
    answers = [f"{i}," if i % 5 else None for i in range(count)]
    joined = "".join(a for a in answers if a is not None)
    assert (merged(iter(answers), add) or "") == joined


def test_an_error_names_the_block():
    class Broken:
        def work(self):
            raise ValueError("no good")

    with pytest.raises(BlockError, match="block 0: no good"):
        MemoryBlocks([Broken()]).reduce("work", merge=add)


def test_scratch_folders_are_gone_with_their_blocks(tmp_path):
    blocks = FileBlocks([Part(0, np.ones((2, 1)), {})], str(tmp_path))
    others = blocks.map("n_rows")
    assert len(list(tmp_path.iterdir())) == 2
    del blocks, others
    assert not list(tmp_path.iterdir())


# -- densities -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"features": "lqpht"},
        {"features": [Linear(), Square(), Hinge(20), Threshold(7), Interaction()]},
        {"entropy": Tsallis(1.5)},
        {"entropy": Tsallis(2.0), "features": "lq"},
        {"entropy": Tsallis(1.2)},
        {"entropy": Tsallis(0.6)},
        {"potential": "quadratic"},
        {"potential": "elastic", "multiplier": 2.0},
    ],
    ids=str,
)
def test_density_in_blocks_is_that_in_memory(cells, settings):
    X, y, weight, prior = cells
    table = BlockTable(MemoryBlocks(parts_of(X)))
    one = MaxentDensity(**settings).fit(X, y, weight, prior)
    other = MaxentDensity(**settings).fit(table, y, weight, prior)
    same_density(one, other)
    assert other.n_iter_ == one.n_iter_
    # cells at the edge of a support change places with rounding: 1e-3 of 100 for the cumulative
    for output, off in (("raw", 1e-9), ("cloglog", 1e-9), ("cumulative", 1e-3)):
        np.testing.assert_allclose(
            other.predict(table, output), one.predict(X, output), rtol=1e-7, atol=off
        )


def test_density_is_the_same_wherever_blocks_are(cells, tmp_path):
    X, y, _, _ = cells
    one = MaxentDensity("lqh").fit(X, y)
    for name, table in engines(X, tmp_path):
        assert len(table.blocks) >= 4, name
        same_density(one, MaxentDensity("lqh").fit(table, y))


def test_solvers_agree_in_blocks(cells):
    X, y, _, _ = cells
    table = BlockTable(MemoryBlocks(parts_of(X)))
    exact = MaxentDensity("lq", tol=1e-12).fit(X, y)
    for solver in (ProxNewton(), FISTA()):
        other = MaxentDensity("lq", solver=solver, tol=1e-12).fit(table, y)
        same_density(exact, other, 1e-6, same_steps=False)
    smooth = {"features": "lq", "potential": "quadratic", "tol": 1e-12}
    exact = MaxentDensity(**smooth).fit(X, y)
    for solver in (LBFGS(), NewtonCG()):
        other = MaxentDensity(**smooth, solver=solver).fit(table, y)
        same_density(exact, other, 1e-5, same_steps=False)


def test_products_with_the_hessian_of_cells_in_blocks(cells):
    X, y, _, _ = cells
    table = BlockTable(MemoryBlocks(parts_of(X)))
    for entropy in (Shannon(), Tsallis(1.5)):
        problem = MaxentDensity("lq", entropy=entropy).task(table, y).problem
        rng = np.random.default_rng(0)
        w, v = rng.normal(size=(2, problem.features.n_features)) * 0.1
        at = problem.evaluate(w)
        np.testing.assert_allclose(at.hessian_product(v), at.hessian() @ v, atol=1e-12)
    # more weights than a Hessian is written out for
    many = MaxentDensity([Hinge(30)], potential="quadratic")
    problem = many.task(table, y).problem
    assert problem.features.n_features > 100
    solution = problem.solve(NewtonCG(tol=1e-10))
    assert solution.gap <= 1e-10
    exact = many.task(X, y).problem.solve(tol=1e-10)
    assert solution.objective == pytest.approx(exact.objective, abs=1e-9)


def test_rows_in_blocks_are_not_handed_out(cells):
    X, y, _, _ = cells
    problem = MaxentDensity("lq").task(BlockTable(MemoryBlocks(parts_of(X))), y).problem
    state = problem.state(np.zeros(problem.features.n_features))
    for part in ("theta", "p"):
        with pytest.raises(TypeError, match="stay with its blocks"):
            getattr(state, part)
    with pytest.raises(TypeError, match="stay with its blocks"):
        problem.state(state.w, theta=np.zeros(3))
    with pytest.raises(TypeError, match="stay with its blocks"):
        state.gap_at(np.zeros(3))


def test_certificate_bounds_the_distance(cells):
    X, y, _, _ = cells
    table = BlockTable(MemoryBlocks(parts_of(X)))
    task = MaxentDensity("lqh").task(table, y)
    best = task.problem.solve(tol=1e-12).objective
    for step in task.problem.solve(tol=1e-3).history:
        assert step["objective"] - best <= step["gap"] + 1e-12


def test_cross_validation_in_blocks(cells):
    X, y, weight, prior = cells
    table = BlockTable(MemoryBlocks(parts_of(X)))
    search = {"features": ("l", "lq"), "multipliers": (1.0, 3.0), "cv": 3}
    one = MaxentDensityCV(**search).fit(X, y, weight, prior)
    other = MaxentDensityCV(**search).fit(table, y, weight, prior)
    np.testing.assert_allclose(other.cv_results_["scores"], one.cv_results_["scores"], rtol=1e-8)
    assert other.best_params_ == one.best_params_
    same_density(one, other)
    with pytest.raises(ValueError, match="folds of the records"):
        MaxentDensityCV(scoring="auc").fit(table, y)
    with pytest.raises(ValueError, match="coordinates"):
        MaxentDensityCV().fit(table, y, coordinates=X[:, :2])


def test_categories_of_other_blocks(cells):
    pd = needs("pandas")
    X, y, _, _ = cells
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["soil"] = np.where(np.arange(N) < N // 2, "clay", np.where(X[:, 0] > 0, "sand", "peat"))
    cuts = np.array_split(np.arange(N), 4)
    table = BlockTable(MemoryBlocks([Part(i, frame.iloc[r], {}) for i, r in enumerate(cuts)]))
    one, other = (MaxentDensity("lqc").fit(data, y) for data in (frame, table))
    same_density(one, other)
    assert other.schema_.levels == (("clay", "peat", "sand"),)
    assert list(other.feature_names_in_) == ["a", "b", "c", "soil"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: (X, -y), "cannot be negative"),
        (lambda X, y: (X, y / 2), "expected integers"),
        (lambda X, y: (X, 0 * y), "no presence"),
        (lambda X, y: (X, 0 * y + 1), "nothing to tell presences from"),
        (lambda X, y: (X, y[1:]), "one entry per row"),
        (lambda X, y: (X[:0], y[:0]), "every block is empty"),
        (lambda X, y: (np.where(np.arange(N)[:, None] == N - 1, np.nan, X), y), "block 4: .*NaN"),
        (lambda X, y: (np.where(np.arange(N)[:, None] == 0, np.inf, X), y), "block 0: .*infinity"),
        (lambda X, y: (np.where((y > 0)[:, None], np.nan, X), y), "block 0: .*NaN"),
    ],
)
def test_bad_counts_and_cells(cells, change, said):
    X, y = change(*cells[:2])
    table = BlockTable(MemoryBlocks(parts_of(X)))
    with pytest.raises(ValueError, match=said):
        MaxentDensity("lq").fit(table, y)


def test_missing_values_in_blocks_can_be_dropped(cells):
    X, y, _, _ = cells
    X = np.where(np.arange(N)[:, None] % 7 == 0, np.nan, X)
    table = BlockTable(MemoryBlocks(parts_of(X)))
    one, other = (MaxentDensity("lq", missing="drop").fit(data, y) for data in (X, table))
    same_density(one, other)


def test_blocks_with_other_columns(cells):
    X, y, _, _ = cells
    parts = [Part(0, X[:10], {}), Part(1, X[10:20, :2], {})]
    with pytest.raises(ValueError, match="block 1 has the columns 2 columns, block 0 has 3"):
        MaxentDensity().fit(BlockTable(MemoryBlocks(parts)), y[:20])


def test_what_needs_all_rows_says_so(cells):
    X, y, _, _ = cells
    table = BlockTable(MemoryBlocks(parts_of(X)))
    with pytest.raises(ValueError, match="one point of equal rows"):
        MaxentDensity(preset="maxent").fit(table, y)
    with pytest.raises(TypeError, match="Shannon or Tsallis"):
        MaxentDensity(entropy=Renyi(0.5)).fit(table, y)
    solution = MaxentDensity("lq").task(table, y).solve()
    with pytest.raises(TypeError, match="stay with its blocks"):
        _ = solution.p


@pytest.mark.parametrize("entropy", [Shannon(), *map(Tsallis, (0.5, 1.5, 2.0, 3.0))], ids=str)
@pytest.mark.parametrize("potential", [Box(0.02), Quadratic(0.1), ElasticNet(0.01, 0.1)], ids=str)
def test_a_problem_takes_a_dask_array(entropy, potential):
    da = needs("dask.array")
    rng = np.random.default_rng(0)
    X, p = rng.normal(size=(300, 4)), rng.dirichlet(np.full(300, 0.1))
    lazy = da.from_array(X, chunks=80)
    one = Problem(entropy, X, potential, observed=p)
    for observed in (p, da.from_array(p, chunks=100)):
        other = Problem(entropy, lazy, potential, observed=observed)
        np.testing.assert_allclose(other.target, one.target, atol=1e-14)
        w = rng.normal(size=4)
        assert other.dual(w) == pytest.approx(one.dual(w), abs=1e-12)
        np.testing.assert_allclose(other.smooth(w)[1], one.smooth(w)[1], atol=1e-12)
        assert other.gap(w) == pytest.approx(one.gap(w), rel=1e-9)
        a, b = one.solve(tol=1e-10), other.solve(tol=1e-10)
        np.testing.assert_allclose(b.w, a.w, atol=1e-6)
        assert b.gap <= 1e-10
    for wrong, said in (
        (2 * p, "must sum to 1"),
        (-p, "not negative"),
        (p[1:], "one entry per row"),
    ):
        with pytest.raises(ValueError, match=said):
            Problem(entropy, lazy, potential, observed=wrong)


# -- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("entropy", [Shannon(), Tsallis(1.5), Tsallis(2.0)], ids=str)
@pytest.mark.parametrize("potential", [Quadratic(1e-3), ElasticNet(1e-3, 1e-3), Box(2e-3)], ids=str)
def test_samples_in_blocks(entropy, potential):
    rng = np.random.default_rng(1)
    n, d, k = 900, 12, 4
    X = rng.normal(size=(n, d))
    Y = np.eye(k)[np.argmax(X @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k)), axis=1)]
    weights = rng.uniform(0.5, 1.5, n)
    weights /= weights.sum()
    whole = Problem(entropy, SampleMap(X, k), potential, observed=Y, weights=weights)
    cuts = np.array_split(np.arange(n), 4)
    blocks = [
        SampleBlock(i, entropy, SampleMap(X[r], k), weights[r], Y[r]) for i, r in enumerate(cuts)
    ]
    blocks.append(SampleBlock(4, entropy, None, weights[:0], Y[:0]))
    features = SampleBlockMap(MemoryBlocks(blocks), d * k, n, k)
    cut = Problem(entropy, features, potential, observed=InBlocks())
    np.testing.assert_allclose(cut.target, whole.target, atol=1e-14)
    w = rng.normal(size=d * k) * 0.1
    one, other = whole.state(w), cut.state(w)
    assert other.dual == pytest.approx(one.dual, abs=1e-13)
    np.testing.assert_allclose(other.gradient, one.gradient, atol=1e-14)
    np.testing.assert_allclose(other.evaluation.hessian(), one.evaluation.hessian(), atol=1e-14)
    assert other.gap == pytest.approx(one.gap, rel=1e-9)
    a, b = whole.solve(tol=1e-11), cut.solve(tol=1e-11)
    assert b.status is a.status
    assert b.guarantees.keys() == a.guarantees.keys()
    np.testing.assert_allclose(
        whole.state(b.w).theta - whole.state(b.w).theta.mean(axis=1, keepdims=True),
        whole.state(a.w).theta - whole.state(a.w).theta.mean(axis=1, keepdims=True),
        atol=2e-5,
    )


# -- checkpoints ---------------------------------------------------------------------------------


def test_a_fit_goes_on_from_its_checkpoint(cells, tmp_path):
    X, y, _, _ = cells
    path = str(tmp_path / "fit.json")
    table = BlockTable(MemoryBlocks(parts_of(X)))
    task = MaxentDensity("lqh").task(table, y)
    whole = task.problem.solve(tol=1e-9)
    with pytest.warns(match="max_iter"):
        first = task.problem.solve(ProxNewton(max_iter=2), tol=1e-9, checkpoint=path)
    model = MaxentDensity("lqh", tol=1e-9, checkpoint=path).fit(table, y)
    assert model.n_iter_ > first.n_iter
    assert model.history_[:2] == first.history[:2]
    seconds = [step["seconds"] for step in model.history_]
    assert seconds == sorted(seconds)
    np.testing.assert_allclose(list(model.coef_.values()), whole.w[whole.w != 0], atol=1e-8)
    again = MaxentDensity("lqh", tol=1e-9, checkpoint=path).fit(table, y)
    assert again.n_iter_ == model.n_iter_


def test_a_checkpoint_of_another_problem_is_refused(cells, tmp_path):
    X, y, _, _ = cells
    path = str(tmp_path / "fit.json")
    MaxentDensity("lq", checkpoint=path).fit(X, y)
    for other in (MaxentDensity("lqh"), MaxentDensity("lq", multiplier=2.0)):
        with pytest.raises(ValueError, match="of another problem"):
            other.set_params(checkpoint=path).fit(X, y)
    with pytest.raises(ValueError, match="of another problem"):
        MaxentDensity("lq", checkpoint=path).fit(X, np.roll(y, 1))
    model = MaxentDensity("lq").fit(X, y)
    from maxent import io

    io.save(model, path)
    with pytest.raises(ValueError, match="holds a MaxentDensity, no checkpoint"):
        MaxentDensity("lq", checkpoint=path).fit(X, y)


def test_checkpoints_of_other_estimators(tmp_path):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(200, 3)), rng.integers(3, size=200)
    path = str(tmp_path / "fit.json")
    for model in (FenchelYoungClassifier(), FenchelYoungRegressor(), FenchelYoungMultilabel()):
        y = labels if isinstance(model, FenchelYoungClassifier) else np.eye(3)[labels]
        model.set_params(checkpoint=path)
        first = model.fit(X, y).n_iter_
        assert first > 0
        assert model.fit(X, y).n_iter_ == first  # nothing is left to do
        os.remove(path)
    sequences, tags = [X[:5], X[5:9]], [labels[:5].tolist(), labels[5:9].tolist()]
    tagger = L2CRF(checkpoint=path)
    assert tagger.fit(sequences, tags).n_iter_ == tagger.fit(sequences, tags).n_iter_
    os.remove(path)
    with pytest.raises(ValueError, match="moves the distributions of rows"):
        M3N(checkpoint=path, solver="block-frank-wolfe").fit(sequences, tags)
    with pytest.raises(ValueError, match="rounds of Algorithm 1 are a series"):
        LaplaceMEDN(method="variational", checkpoint=path).fit(sequences, tags)
    hidden = [[None, *tags[0][1:]], tags[1]]
    with pytest.raises(ValueError, match="hidden labels are a series"):
        L2CRF(checkpoint=path).fit(sequences, hidden)
    assert not os.path.exists(path)


class Fails(MemoryBlocks):
    """Blocks that are lost after a while."""

    left = 10**9

    def reduce(self, work, *args, merge, ordered=False):
        Fails.left -= 1
        if Fails.left < 0:
            raise BlocksLost("the scheduler at tcp://nowhere is gone, and the blocks with it.")
        return super().reduce(work, *args, merge=merge)

    def map(self, work, *args):
        return Fails(super().map(work, *args)._blocks)


def test_lost_blocks_say_the_way_back(cells, tmp_path, monkeypatch):
    X, y, _, _ = cells
    path = str(tmp_path / "fit.json")
    table = block_table(BlockTable(Fails(parts_of(X))), y=y)
    table = BlockTable(Fails(table.blocks._blocks), ("y",))
    monkeypatch.setattr(Fails, "left", 14)
    with pytest.raises(BlocksLost, match=r"last of \d+ steps is in the checkpoint .*fit\.json"):
        MaxentDensity("lqh", tol=1e-14, checkpoint=path).task(table, None).solve()
    monkeypatch.setattr(Fails, "left", 14)
    with pytest.raises(BlocksLost, match="give checkpoint=PATH"):
        MaxentDensity("lqh", tol=1e-14).task(table, None).solve()


# -- tables on disk ------------------------------------------------------------------------------


def test_sizes_of_memory():
    assert in_bytes("2GB") == in_bytes("2g") == in_bytes(2_000_000_000)
    assert in_bytes("2 GiB") == 2**31
    for wrong in ("much", "", "2 apples", "1.2.3GB"):
        with pytest.raises(ValueError, match="a number and a unit"):
            in_bytes(wrong)
    with pytest.raises(ValueError, match="too little"):
        open_table(np.ones((2, 1)), memory="100MB")


def test_parquet(cells, tmp_path):
    pd, pq = needs("pandas"), needs("pyarrow.parquet")
    X, y, _, _ = cells
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(seen=y)
    frame.to_parquet(tmp_path / "cells.parquet", row_group_size=500)
    table = open_table(tmp_path / "cells.parquet", memory="400.25MB", y="seen")
    assert pq.ParquetFile(tmp_path / "cells.parquet").num_row_groups == 8
    model = MaxentDensity("lq").fit(table, None)
    same_density(MaxentDensity("lq").fit(frame.drop(columns="seen"), y), model)
    with pytest.raises(ValueError, match="no column 'nobody'"):
        open_table(tmp_path / "cells.parquet", y="nobody")
    (tmp_path / "bad.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"bad\.parquet is no parquet file"):
        open_table(tmp_path / "bad.parquet")
    with pytest.raises(FileNotFoundError, match="is not there"):
        open_table(tmp_path / "nowhere.npy")
