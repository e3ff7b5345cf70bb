"""Densities on a real cluster: two worker processes, blocks that stay there, a worker that dies."""

import os
import signal
import tracemalloc

import numpy as np
import pytest

from maxent import MaxentDensity
from maxent.features import Linear, Square
from maxent.rows.blocks import BlockError, CellBlock
from tools import needs

da = needs("dask.array")
dd = needs("dask.dataframe")
delayed = needs("dask").delayed
distributed = needs("distributed")
pd = needs("pandas")

N, BLOCK = 1_000_000, 250_000
FEATURES = [Linear(), Square()]


def made(number):
    """The cells of a block and their records."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(BLOCK, 4)).astype(np.float32)
    y = rng.uniform(size=BLOCK) < 0.0006 * np.exp(X[:, 0] - X[:, 1].astype(float) ** 2)
    return X, y.astype(float)


def lazily():
    """All cells and records, made on the workers."""
    blocks = [delayed(made)(number) for number in range(N // BLOCK)]
    X = [da.from_delayed(block[0], (BLOCK, 4), np.float32) for block in blocks]
    y = [da.from_delayed(block[1], (BLOCK,), np.float64) for block in blocks]
    return da.concatenate(X), da.concatenate(y)


@pytest.fixture(scope="module")
def cells():
    blocks = [made(number) for number in range(N // BLOCK)]
    return tuple(np.concatenate(part) for part in zip(*blocks, strict=True))


@pytest.fixture(scope="module")
def in_memory(cells):
    return MaxentDensity(FEATURES).fit(*cells)


def largest_difference(one, other):
    assert one.coef_.keys() == other.coef_.keys()
    return max(abs(one.coef_[name] - other.coef_[name]) for name in one.coef_)


def cells_held(dask_worker):
    """Cells of the blocks that a worker holds."""
    return sum(b.default.size for b in dask_worker.data.values() if isinstance(b, CellBlock))


def test_equal_to_the_fit_in_memory(client, cells, in_memory):
    X, y = lazily()
    MaxentDensity("l").fit(X[: 2 * BLOCK], y[: 2 * BLOCK])  # what is imported is no part of it
    tracemalloc.start()
    task = MaxentDensity(FEATURES).task(X, y)
    solution = task.problem.solve(tol=1e-7)
    model = MaxentDensity(FEATURES)._hold(task.density(solution), in_memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest_difference(in_memory, model) < 1e-8
    assert model.gap_ == pytest.approx(in_memory.gap_, rel=1e-3)
    assert model.n_iter_ == in_memory.n_iter_
    held = client.run(cells_held).values()
    assert len(task.features.blocks) == 4
    assert sum(held) == N
    assert max(held) < N
    assert peak < 4 * BLOCK * X.shape[1] * X.dtype.itemsize  # of this client and its scheduler


def test_predictions_are_lazy_and_keep_the_chunks(client, cells, in_memory):
    X, y = lazily()
    model = MaxentDensity(FEATURES).fit(X.rechunk((BLOCK, 2)), y)
    predicted = model.predict(X, "cloglog")
    assert predicted.chunks == (X.chunks[0],)
    np.testing.assert_allclose(
        predicted.compute(), in_memory.predict(cells[0], "cloglog"), rtol=1e-7
    )


def test_a_worker_killed_in_the_middle(client, cells, in_memory):
    task = MaxentDensity(FEATURES).task(*lazily())
    killed = []

    def kill(step, state):
        if not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    from maxent.core.solvers import ProxNewton

    solution = ProxNewton(tol=1e-7).solve(task.problem, callback=kill)
    assert killed
    assert solution.n_iter == in_memory.n_iter_
    model = MaxentDensity(FEATURES)._hold(task.density(solution), in_memory)
    assert largest_difference(in_memory, model) < 1e-8
    assert killed[0] not in client.run(os.getpid).values()


def test_partitions_with_other_levels_and_none_at_all(client, cells):
    X, y = cells
    frame = pd.DataFrame(X[:2000], columns=list("abcd"))
    soils = np.where(X[:2000, 3] > 0, "sand", "peat")
    frame["soil"] = np.where(np.arange(2000) < 700, "clay", soils)
    parts = [frame.iloc[:700], frame.iloc[:0], frame.iloc[700:1500], frame.iloc[1500:]]
    lazy = dd.from_delayed([delayed(part) for part in parts], meta=frame[:0])
    one = MaxentDensity("lqc").fit(frame, y[:2000])
    other = MaxentDensity("lqc").fit(lazy, y[:2000])
    assert largest_difference(one, other) < 1e-8
    counts = dd.from_delayed(
        [delayed(pd.Series(y[part.index])) for part in parts],
        meta=pd.Series([0.0]),
    )
    assert largest_difference(one, MaxentDensity("lqc").fit(lazy, counts)) < 1e-8
    np.testing.assert_allclose(other.predict(lazy).compute(), one.predict(frame), rtol=1e-7)


def test_bad_collections(client, cells):
    X, y = cells[0][:3000], cells[1][:3000]
    lazy = da.from_array(X, chunks=1000)
    model = MaxentDensity("lq")
    with pytest.raises(ValueError, match=r"unknown size.*compute_chunk_sizes"):
        model.fit(lazy[lazy[:, 0] > 0], y)
    with pytest.raises(ValueError, match="one entry per row"):
        model.fit(lazy, da.from_array(y[1:], chunks=1000))
    broken = X.copy()
    broken[2500] = np.nan
    with pytest.raises(BlockError, match=r"block 2: .*NaN: 1 rows, in x0"):
        model.fit(da.from_array(broken, chunks=1000), y)
    with pytest.raises(ValueError, match="every block is empty"):
        model.fit(lazy[:0], y[:0])
    with pytest.raises(ValueError, match="must be a matrix"):
        model.fit(lazy[:, 0], y)
    frames = [pd.DataFrame(X[:5], columns=list("abcd")), pd.DataFrame(X[:5], columns=list("abce"))]
    parts = [delayed(frame) for frame in frames]
    differ = dd.from_delayed(parts, meta=frames[0][:0], verify_meta=False)
    with pytest.raises(ValueError, match="block 1 has the columns a, b, c, e, block 0 has"):
        model.fit(differ, y[:10])


def test_without_a_cluster(cells, in_memory, monkeypatch):
    from maxent.rows.dask.blocks import DaskBlocks

    monkeypatch.setattr(DaskBlocks, "current_client", lambda: None)
    model = MaxentDensity(FEATURES).fit(*lazily())
    assert largest_difference(in_memory, model) < 1e-8
