"""Several kinds of records whose rows stay in blocks: the fit in memory, wherever they are."""

import numpy as np
import pytest

from maxent import IntegratedDensity, Source
from maxent.core.potentials import Families, Quadratic
from maxent.core.solvers import FISTA
from maxent.density import Recipe
from maxent.density.sources import agreement
from maxent.density.sources.blocked import BlockSourcesTask, RecordBlock
from maxent.density.sources.task import SourcesTask
from maxent.rows.blocks import BlockError, CellBlock, MemoryBlocks, SourceBlocks, open_table
from maxent.rows.blocks.table import BlockTable, Part
from tools import needs

rng = np.random.default_rng(3)
N = 3_000
X = rng.normal(size=(N, 3))
LOG = 0.8 * X[:, 0] - 0.5 * X[:, 1] ** 2 - 1
AREA = rng.uniform(0.5, 2, N)
ROAD = rng.random(N)
RECORDS = rng.poisson(0.3 * np.exp(LOG)).astype(float)
FOUND = (rng.random(N) < -np.expm1(-AREA * np.exp(LOG))).astype(float)
COUNTS = rng.poisson(AREA * np.exp(LOG)).astype(float)
TOL = 1e-9


def in_blocks(rows, n=5, empty=2, **columns):
    """Some rows in blocks of this process, one of them empty."""
    cuts = np.array_split(np.arange(len(rows)), n - 1)
    cuts.insert(empty, np.arange(0))
    parts = [
        Part(i, rows[cut], {name: x[cut] for name, x in columns.items()})
        for i, cut in enumerate(cuts)
    ]
    return BlockTable(MemoryBlocks(parts), tuple(columns))


def presences(blocks=False, **more):
    columns = {"y": RECORDS, "area": AREA, "road": ROAD}
    if blocks:
        return Source("presences", in_blocks(X, **columns), **more)
    return Source("presences", X, RECORDS, area=AREA, effort={"road": ROAD}, **more)


def survey(blocks=False, **more):
    rows = slice(0, 700)
    if blocks:
        return Source("survey", in_blocks(X[rows], y=FOUND[rows], area=AREA[rows]), **more)
    return Source("survey", X[rows], FOUND[rows], area=AREA[rows], **more)


def counts(blocks=False, **more):
    rows = slice(700, 1200)
    table = in_blocks(X[rows], n=3) if blocks else X[rows]
    return Source("counts", table, COUNTS[rows], area=2.0, **more)


def assert_same(one, two, rtol=1e-7):
    """Coefficients, scale, sources, certificate and predictions of two fits."""
    assert one.coef_ == pytest.approx(two.coef_, rel=rtol, abs=rtol)
    assert one.is_absolute_ == two.is_absolute_
    if one.is_absolute_:
        assert one.log_scale_ == pytest.approx(two.log_scale_, rel=rtol)
    assert max(one.gap_, two.gap_) <= TOL
    gains = [m.density_.certificate.unregularized_gain for m in (one, two)]
    assert gains[0] == pytest.approx(gains[1], rel=rtol)
    for a, b in zip(one.sources_, two.sources_, strict=True):
        assert (a.name, a.n_rows, a.n_records) == (b.name, b.n_rows, b.n_records)
        assert a.deviance == pytest.approx(b.deviance, rel=rtol)
        assert a.effort == pytest.approx(b.effort, rel=1e-6)
        assert a.offset == pytest.approx(b.offset, rel=1e-6, abs=rtol)
        np.testing.assert_allclose(a.weights, b.weights, atol=1e-6)
    for name in ("log_total", "raw_entropy", "n_points", "n_presences", "biased"):
        assert getattr(one.density_, name) == pytest.approx(getattr(two.density_, name), rel=rtol)
    np.testing.assert_allclose(one.density_.low, two.density_.low)
    np.testing.assert_allclose(one.density_.mean_place.values, two.density_.mean_place.values)


def vain(blocks=False):
    """A survey that found nothing, whose scale is that of others."""
    rows = slice(1200, 1500)
    return Source("survey", in_blocks(X[rows]) if blocks else X[rows], np.zeros(300), area=0.1)


MIXES = {
    "all three": lambda b: [presences(b), survey(b), counts(b)],
    "weights and deviations": lambda b: [
        presences(b, weight=0.4),
        survey(b, deviation=0.5),
        counts(b, size=3.0, own_scale=True),
    ],
    "a survey alone": lambda b: [survey(b)],
    "presences alone": lambda b: [presences(b)],
    "two of presences": lambda b: [presences(b), presences(b, name="others"), counts(b)],
    "some in memory": lambda b: [presences(b), survey()],
    "a survey in vain": lambda b: [counts(b), vain(b)],
}


@pytest.mark.parametrize("mix", MIXES)
def test_blocks_are_the_fit_in_memory(mix):
    model = IntegratedDensity("lq", tol=TOL)
    one, two = (model.__class__("lq", tol=TOL).fit(MIXES[mix](b)) for b in (False, True))
    assert_same(one, two)
    if mix == "presences alone":
        assert two.log_scale_ is None
        ours, theirs = (m.density_.certificate.gain for m in (one, two))
        assert ours == pytest.approx(theirs, rel=1e-7)


def test_visits_hinges_and_every_potential():
    visits = rng.integers(1, 4, 700).astype(float)
    found = rng.binomial(visits.astype(int), -np.expm1(-np.exp(LOG[:700]))).astype(float)
    rows = in_blocks(X[:700], y=found, visits=visits)
    for features, potential in (("lqh", "box"), ("lq", "elastic"), ("l", "ball"), ("k", "box")):
        one = IntegratedDensity(features, potential, tol=TOL).fit(
            [Source("survey", X[:700], found, visits=visits)]
        )
        if features == "k":
            with pytest.raises(TypeError, match="fitted to all cells at once"):
                IntegratedDensity(features).fit([Source("survey", rows)])
            continue
        two = IntegratedDensity(features, potential, tol=TOL).fit([Source("survey", rows)])
        assert_same(one, two, rtol=1e-5)


def test_the_sums_of_the_terms_are_those_of_the_direct_sum():
    sources = [survey(True, deviation=0.5), presences(True), counts(True, size=3.0)]
    ours = BlockSourcesTask.of(sources, Recipe("lq")).problem
    theirs = SourcesTask.of(
        [survey(deviation=0.5), presences(), counts(size=3.0)], Recipe("lq")
    ).problem
    assert isinstance(ours.potential, Families)
    w = 0.1 * np.random.default_rng(0).normal(size=ours.features.n_features)
    one, two = ours.state(w), theirs.state(w)
    np.testing.assert_allclose(one.gradient, two.gradient, atol=1e-12)
    np.testing.assert_allclose(ours.target, theirs.target, atol=1e-12)
    assert one.dual == pytest.approx(two.dual, rel=1e-12)
    assert one.gap == pytest.approx(two.gap, rel=1e-9)
    assert one.largest_score == pytest.approx(two.largest_score, rel=1e-12)
    assert ours.observed_value == pytest.approx(theirs.observed_value, rel=1e-9, abs=1e-12)
    H = two.evaluation.hessian()
    np.testing.assert_allclose(one.evaluation.hessian(), H, atol=1e-12)
    np.testing.assert_allclose(one.evaluation.hessian_product(w), H @ w, atol=1e-12)
    index = np.array([0, 2, 5, 7, w.size - 1])
    part = ours.restrict(index, Quadratic(1.0)).state(w[index])
    other = theirs.restrict(index, Quadratic(1.0)).state(w[index])
    np.testing.assert_allclose(part.gradient, other.gradient, atol=1e-12)
    np.testing.assert_allclose(part.evaluation.hessian(), other.evaluation.hessian(), atol=1e-12)
    assert ours.entropy.has_curvature == theirs.entropy.has_curvature is True
    assert ours.entropy.smoothness == theirs.entropy.smoothness
    solution = FISTA(tol=1e-6).solve(ours.with_potential(Quadratic(0.1)))
    assert solution.gap <= 1e-6
    with pytest.raises(TypeError, match="stay with its blocks"):
        _ = one.p
    with pytest.raises(TypeError, match="stay with its blocks"):
        ours.moments(np.ones(3))


def test_ranges_hold_every_column():
    task = BlockSourcesTask.of([presences(True), survey(True)], Recipe("l"))
    low, high = task.problem.features.ranges()
    spread = (ROAD - ROAD.mean()) / ROAD.std()
    assert (low[:3].tolist(), high[:3].tolist()) == ([0.0] * 3, [1.0] * 3)
    assert (low[3], high[3]) == pytest.approx((spread.min(), spread.max()))
    assert (low[4], high[4]) == (0.0, 1.0)


def test_a_sampled_hessian_is_near_the_whole():
    features = BlockSourcesTask.of([presences(True), survey(True)], Recipe("lq")).problem
    w = np.zeros(features.features.n_features)
    whole = features.state(w).evaluation.hessian()
    sampled = features.state(w).evaluation.hessian(every=3)
    assert np.isfinite(sampled).all()
    assert np.abs(sampled - whole).max() < 0.05 * np.abs(whole).max()
    block = RecordBlock(0, None, None, None, np.empty(0))
    assert block.hessian(None, None, 3) is None  # a block without rows


def test_one_block_is_read_at_a_time():
    held, most = set(), []

    class Rows(np.ndarray):
        def __del__(self):
            held.discard(id(self))

    def read(number):
        rows = slice(number * 300, (number + 1) * 300)
        table = X[rows].copy().view(Rows)
        held.add(id(table))
        most.append(len(held))
        return Part(number, table, {"y": FOUND[rows], "area": AREA[rows]})

    readers = [lambda number=number: read(number) for number in range(10)]
    table = BlockTable(SourceBlocks(readers), ("y", "area"))
    two = IntegratedDensity("lq", tol=TOL).fit([Source("survey", table)])
    one = IntegratedDensity("lq", tol=TOL).fit([Source("survey", X, FOUND, area=AREA)])
    assert_same(one, two)
    assert len(most) >= 30  # three passes before the first step
    assert max(most) <= 2  # the next one is read while the name of the last still holds it


def test_files_of_arrays_and_parquet(tmp_path):
    pd = needs("pandas")
    needs("pyarrow")
    np.save(tmp_path / "cells.npy", X)
    frame = pd.DataFrame(X[:, ::-1], columns=["c", "b", "a"]).assign(found=FOUND, ha=AREA)
    frame.to_parquet(tmp_path / "sites.parquet", row_group_size=500)
    cells = open_table(tmp_path / "cells.npy", memory="401MB", y=RECORDS, road=ROAD)
    alone = IntegratedDensity("lq", tol=TOL).fit([Source("presences", cells, area=AREA)])
    assert_same(IntegratedDensity("lq", tol=TOL).fit([presences()]), alone)
    sites = open_table(tmp_path / "sites.parquet", memory="401MB", y="found", area="ha")
    assert len(sites.blocks) > 1
    names = pd.DataFrame(X, columns=list("abc"))
    two = IntegratedDensity("lq", tol=TOL).fit(
        [Source("presences", names, RECORDS), Source("survey", sites)]
    )
    one = IntegratedDensity("lq", tol=TOL).fit(
        [Source("presences", names, RECORDS), Source("survey", names, FOUND, area=AREA)]
    )
    assert_same(one, two)


def test_rows_with_missing_predictors_are_dropped_in_their_blocks():
    broken = X[:700].copy()
    broken[::50, 1] = np.nan
    table = in_blocks(broken, y=FOUND[:700], area=AREA[:700])
    with pytest.raises(BlockError, match=r"block 0: .*missing|NaN"):
        IntegratedDensity("l").fit([Source("survey", table)])
    model = IntegratedDensity("l", tol=TOL, missing="drop")
    one = model.fit([Source("survey", broken, FOUND[:700], area=AREA[:700])]).intensity_
    two = model.fit([Source("survey", table)]).intensity_
    assert one.density.coef == pytest.approx(two.density.coef, rel=1e-7)
    assert one.sources[0].n_rows == two.sources[0].n_rows == 700 - 14


Z = X[:60]
BAD = [
    (lambda: Source("survey", in_blocks(Z), COUNTS[:60] + 2), "block 0: .*survey has y = 0 or 1"),
    (lambda: Source("counts", in_blocks(Z), COUNTS[:60] - 9), "counts cannot be negative"),
    (lambda: Source("counts", in_blocks(Z), COUNTS[:60] + 0.5), "counts must be integers"),
    (lambda: Source("survey", in_blocks(Z), FOUND[:60], area=0.0), "area must be > 0"),
    (lambda: Source("presences", in_blocks(Z), np.zeros(60)), "has no presence"),
    (lambda: Source("presences", in_blocks(Z), np.ones(60)), "has no background"),
    (lambda: Source("survey", in_blocks(Z), np.zeros(60)), "found nothing anywhere"),
    (lambda: Source("survey", in_blocks(Z), np.ones(60)), "species at every visit"),
    (lambda: Source("survey", in_blocks(Z)), "has no y"),
    (lambda: Source("survey", in_blocks(Z), FOUND[:50]), "one entry per row"),
    (lambda: Source("survey", in_blocks(Z[:0]), FOUND[:0]), "every block is empty"),
    (lambda: Source("survey", in_blocks(Z), FOUND[:60], size=2.0), "size is for counts"),
    (lambda: Source("survey", in_blocks(Z), FOUND[:60], deviation=-1.0), "deviation must be"),
    (
        lambda: Source("survey", in_blocks(Z), FOUND[:60], effort={"y": ROAD[:60]}),
        "cannot be called 'y'",
    ),
    (
        lambda: Source("survey", in_blocks(Z), FOUND[:60], effort=np.ones((60, 1, 1))),
        "effort needs a row for each row of X",
    ),
]


@pytest.mark.parametrize(("make", "words"), BAD)
def test_bad_rows_say_what_is_wrong(make, words):
    with pytest.raises(ValueError, match=words):
        IntegratedDensity("l").fit([make()])


def test_constant_efforts_and_silent_surveys_are_told():
    flat = Source("survey", in_blocks(Z), FOUND[:60], effort={"road": np.ones(60)})
    with pytest.warns(UserWarning, match="effort road is constant and left out"):
        assert IntegratedDensity("l").fit([flat]).sources_[0].effort == {}
    silent = Source("survey", in_blocks(Z), np.zeros(60))
    with pytest.warns(UserWarning, match="found nothing anywhere"):
        model = IntegratedDensity("l").fit([presences(), silent])
    assert not model.is_absolute_


def test_what_needs_all_rows_at_once_is_refused():
    sources = [presences(True), survey(True)]
    with pytest.raises(ValueError, match=r"held-out.*of tables in memory"):
        IntegratedDensity("l", weights="held-out").fit(sources)
    for method in ("laplace", "bootstrap"):
        with pytest.raises(ValueError, match="tables in memory: fit without"):
            IntegratedDensity("l", intervals=method).fit(sources)
    with pytest.raises(TypeError, match="source 'presences' is in blocks"):
        agreement(sources)
    with pytest.raises(TypeError, match="is in blocks"):
        IntegratedDensity("l").fit([survey()]).intensity_.deviance(survey(True))
    with pytest.raises(ValueError, match="same columns: 'presences' has 3, 'survey' has 2"):
        IntegratedDensity("l").fit(
            [presences(True), Source("survey", in_blocks(Z[:, :2]), FOUND[:60])]
        )
    assert repr(survey(True)) == "Source('survey': rows in blocks)"


# -- collections of dask -------------------------------------------------------------------------


def lazily(values, chunk=400):
    return needs("dask.array").from_array(values, chunks=(chunk, *values.shape[1:]))


def of_dask(**more):
    return [
        Source("presences", lazily(X), lazily(RECORDS), area=lazily(AREA), effort={"road": ROAD}),
        Source("survey", lazily(X[:700]), FOUND[:700], area=lazily(AREA[:700], 300), **more),
    ]


@pytest.fixture(scope="module")
def both():
    return IntegratedDensity("lq", tol=TOL).fit([presences(), survey()])


def test_without_a_cluster(both, monkeypatch):
    needs("dask.array")
    from maxent.rows.dask.blocks import DaskBlocks

    monkeypatch.setattr(DaskBlocks, "current_client", lambda: None)
    model = IntegratedDensity("lq", tol=TOL).fit(of_dask())
    assert_same(both, model)
    predicted = model.predict(lazily(X), "probability", area=2.0)
    assert predicted.chunks == (lazily(X).chunks[0],)
    expected = both.predict(X, "probability", area=2.0)
    np.testing.assert_allclose(predicted.compute(), expected, rtol=1e-7)
    with pytest.raises(ValueError, match="area must be one number for a table in blocks"):
        model.predict(lazily(X), "count", area=AREA)
    with pytest.raises(ValueError, match="output must be one of"):
        model.predict(lazily(X), "nonsense")
    with pytest.raises(ValueError, match="X has 2 columns"):
        model.predict(lazily(X)[:, :2])


def test_partitions_with_other_levels(monkeypatch):
    dd, pd = needs("dask.dataframe"), needs("pandas")
    from maxent.rows.dask.blocks import DaskBlocks

    monkeypatch.setattr(DaskBlocks, "current_client", lambda: None)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["soil"] = np.where(np.arange(N) < 900, "clay", np.where(X[:, 2] > 0, "sand", "peat"))
    records = Source("presences", frame, RECORDS)
    sites = frame[["soil", "c", "b", "a"]].iloc[:800]
    one = IntegratedDensity("lqc", tol=TOL).fit(
        [records, Source("survey", sites, FOUND[:800], effort=frame[["c"]].iloc[:800])]
    )
    parts = dd.from_pandas(sites, npartitions=3)
    two = IntegratedDensity("lqc", tol=TOL).fit(
        [records, Source("survey", parts, FOUND[:800], effort=parts[["c"]])]
    )
    assert_same(one, two)
    np.testing.assert_allclose(two.predict(parts).compute(), one.predict(sites), rtol=1e-7)


def test_rasters_of_xarray(monkeypatch):
    xr = needs("xarray")
    pd = needs("pandas")
    needs("dask.array")
    from maxent.rows.dask.blocks import DaskBlocks

    monkeypatch.setattr(DaskBlocks, "current_client", lambda: None)
    grid = {name: (("y", "x"), X[:, j].reshape(60, 50)) for j, name in enumerate("abc")}
    layers = xr.Dataset(grid).chunk({"x": 20})
    records = xr.DataArray(RECORDS.reshape(60, 50), dims=("y", "x"))
    frame = pd.DataFrame(X, columns=list("abc"))
    sites = Source("survey", frame[:700], FOUND[:700], area=AREA[:700])
    two = IntegratedDensity("lq", tol=TOL).fit([Source("presences", layers, records), sites])
    one = IntegratedDensity("lq", tol=TOL).fit([Source("presences", frame, RECORDS), sites])
    assert_same(one, two)
    found = two.predict(layers, "count", area=3.0)
    np.testing.assert_allclose(found.to_numpy().ravel(), one.predict(frame, "count", area=3.0))


def cells_held(dask_worker):
    """Rows of the blocks that a worker holds."""
    blocks = [b for b in dask_worker.data.values() if isinstance(b, CellBlock | RecordBlock)]
    return sum(b.features.n_cells for b in blocks), max(b.features.n_cells for b in blocks)


@pytest.mark.slow
def test_rows_stay_with_their_workers(client, both):
    from maxent.rows.dask.blocks import DaskBlocks

    task = IntegratedDensity("lq", tol=TOL).task(of_dask())
    model = IntegratedDensity("lq", tol=TOL)
    model.intensity_ = task.intensity(task.solve())
    assert_same(both, model)
    held, largest = zip(*client.run(cells_held).values(), strict=True)
    assert sum(held) == N + 700
    assert max(largest) == 400
    assert {type(term.rows.blocks) for term in task.problem.features.terms} == {DaskBlocks}
