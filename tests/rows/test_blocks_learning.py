"""Linear models on tables in blocks are those of the same rows in memory, certificate included."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from maxent import Box, ElasticNet, Quadratic, SquaredNorm, Zero
from maxent.learn import (
    FenchelYoungClassifier,
    FenchelYoungClassifierCV,
    FenchelYoungMultilabel,
    FenchelYoungRegressor,
    LabelRanker,
)
from maxent.rows.blocks import BlockError, FileBlocks, MemoryBlocks
from maxent.rows.blocks.table import BlockTable, Part
from tools import needs

dask = needs("dask")
da = needs("dask.array")
dd = needs("dask.dataframe")
distributed = needs("distributed")

ROWS, COLUMNS, CLASSES = 240, 5, 4
CUTS = (0, 60, 60, 75, 170, 240)  # the second block is empty
TOL = 1e-12
SAME = {"rtol": 0, "atol": 1e-8}

_draw = np.random.default_rng(20)
X = _draw.normal(loc=[3.0, -2.0, 0.0, 1.0, 0.5], size=(ROWS, COLUMNS))
NOISY = X[:, :CLASSES] - [3.0, -2.0, 0.0, 1.0] + _draw.normal(size=(ROWS, CLASSES))
LABELS = NOISY.argmax(axis=1)
PROPORTIONS = np.maximum(NOISY - NOISY.max(axis=1, keepdims=True) + 1, 0)
PROPORTIONS /= PROPORTIONS.sum(axis=1, keepdims=True)
INDICATORS = (NOISY[:, :3] > 0).astype(int)
PAIRS = (NOISY.argsort(axis=1).argsort(axis=1) >= CLASSES - 2).astype(int)
WEIGHTS = _draw.uniform(0.5, 2, ROWS)
WEIGHTS[::7] = 0
WEIGHTS[60:75] = 0  # a whole block of rows that do not count
COST = np.abs(np.subtract.outer(np.arange(CLASSES), np.arange(CLASSES)))


def blocks(rows, cuts=CUTS) -> BlockTable:
    parts = [Part(i, rows[a:b], {}) for i, (a, b) in enumerate(pairwise(cuts))]
    return BlockTable(MemoryBlocks(parts))


def assert_same(one, other, **same) -> None:
    for name in ("coef_", "intercept_", "loss_", "objective_", "gap_", "optimality_"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), err_msg=name, **(same or SAME)
        )
    assert min(one.gap_, one.optimality_) <= TOL  # without a penalty there is no gap
    assert one.n_features_in_ == other.n_features_in_
    assert repr(one.entropy_) == repr(other.entropy_)
    if hasattr(one, "classes_"):
        np.testing.assert_array_equal(one.classes_, other.classes_)


classifier, regressor = FenchelYoungClassifier, FenchelYoungRegressor
multilabel = FenchelYoungMultilabel
CASES = {
    "classes": (classifier(), LABELS),
    "names of classes": (classifier(alpha=2), np.array(list("dbca"))[LABELS]),
    "shannon, balanced": (classifier("shannon", class_weight="balanced"), LABELS),
    "weights of classes": (classifier(class_weight={0: 3.0, 2: 0.5, 1: 1, 3: 1}), LABELS),
    "cost": (classifier(cost=COST), LABELS),
    "two classes": (classifier(alpha=2), LABELS > 1),
    "two classes, balanced": (classifier("shannon", class_weight="balanced"), LABELS > 2),
    "two classes, cost": (classifier(cost=[[0, 1], [3, 0]]), LABELS > 1),
    "no curvature": (classifier(SquaredNorm(1.5), solver="newton-cg"), LABELS),
    "no intercept": (classifier(fit_intercept=False), LABELS),
    "elastic net": (classifier(potential=ElasticNet(0.01, 0.1)), LABELS),
    "no penalty": (classifier("shannon", potential=0), LABELS > 1),
    "groups": (classifier(potential={(4, 1): 0.1, (0, 2, 3): ElasticNet(0.01, 0.1)}), LABELS),
    "two classes, box": (classifier(potential=Box(0.02)), LABELS > 1),
    "lbfgs": (classifier(solver="lbfgs"), LABELS),
    "fista": (classifier("shannon", solver="fista", potential=0.1), LABELS),
    "proportions": (regressor(), PROPORTIONS),
    "proportions, elastic net": (regressor(alpha=2, potential=ElasticNet(0.01, 0.1)), PROPORTIONS),
    "one-vs-all": (multilabel("one-vs-all"), INDICATORS),
    "sparse": (multilabel("sparse", class_weight="balanced"), INDICATORS),
    "cube": (multilabel("cube", potential=ElasticNet(0.01, 0.1)), INDICATORS),
    "cone": (multilabel("cone", class_weight=[{0: 1, 1: 2}, {0: 3, 1: 1}, "balanced"]), INDICATORS),
    "k-subsets": (multilabel("k-subsets"), PAIRS),
    "k-subsets, box": (multilabel("k-subsets", k=2, potential=Box(0.02)), PAIRS),
}


APART = ("one-vs-all", "sparse", "cube", "cone")


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("case", CASES)
def test_blocks_give_the_model_of_the_same_rows_in_memory(case, weights):
    model, y = CASES[case]
    model = clone(model).set_params(tol=TOL)
    whole = clone(model).fit(X, y, weights)
    # outputs that have nothing to do with each other take steps of their own in memory alone
    apart = {"rtol": 0, "atol": 1e-6} if case in APART else {}
    assert_same(model.fit(blocks(X), y, weights), whole, **apart)


def test_many_weights_take_products_with_the_hessian_over_the_blocks():
    wide = np.random.default_rng(3).normal(size=(ROWS, 40))
    model = classifier(tol=TOL, potential=0.1)  # 164 weights
    assert_same(clone(model).fit(blocks(wide), LABELS), clone(model).fit(wide, LABELS))


def test_samples_in_float32_stay_float32():
    single = X.astype(np.float32)
    model = classifier(tol=TOL)
    assert_same(clone(model).fit(blocks(single), LABELS), clone(model).fit(single, LABELS))
    design = _designs(clone(model), blocks(single))
    assert {one.dtype for one in design} == {np.dtype(np.float32)}


def _designs(model, table) -> list[np.ndarray]:
    """The matrices of the problem's blocks."""
    seen = []
    descend = model._descend

    def look(fit, *rest):
        seen.extend(b.features.X for b in fit.blocks._blocks if b.features is not None)
        descend(fit, *rest)

    model._descend = look
    model.fit(table, LABELS)
    return seen


def test_sparse_blocks():
    rows = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    model = classifier(tol=TOL)
    assert_same(clone(model).fit(blocks(rows), LABELS), clone(model).fit(rows, LABELS))


def test_blocks_in_files_are_read_one_at_a_time(tmp_path):
    parts = (Part(i, X[a:b], {}) for i, (a, b) in enumerate(pairwise(CUTS)))
    table = BlockTable(FileBlocks(parts, tmp_path))
    model = classifier(tol=TOL, alpha=2)
    assert_same(clone(model).fit(table, LABELS, WEIGHTS), clone(model).fit(X, LABELS, WEIGHTS))


def test_a_warm_start_begins_at_the_last_weights():
    model = classifier(tol=1e-10, warm_start=True).fit(blocks(X), LABELS)
    assert model.n_iter_ > 0
    assert model.fit(blocks(X), LABELS).n_iter_ == 0
    assert model.fit(X, LABELS).n_iter_ == 0


def test_frames_in_blocks_keep_the_names_of_their_columns():
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    model = classifier(tol=TOL, potential={"w": 0.5, ("z", "v", "x", "y"): 0.1})
    whole = clone(model).fit(frame, LABELS)
    part = clone(model).fit(blocks(frame), pd.Series(LABELS))
    assert_same(part, whole)
    assert part.feature_names_in_.tolist() == list("vwxyz")
    numbered = classifier().fit(blocks(pd.DataFrame(X)), LABELS)
    assert not hasattr(numbered, "feature_names_in_")


# -- what is refused -----------------------------------------------------------------------------


def _with(rows, place, value) -> np.ndarray:
    other = np.array(rows, dtype=float)
    other[place] = value
    return other


@pytest.mark.parametrize(
    ("model", "rows", "y", "weights", "said"),
    [
        (classifier(), _with(X, (100, 2), np.nan), LABELS, None, "block 3: Input X contains NaN"),
        (classifier(), X, _with(LABELS, 65, np.nan), None, "block 2: Input y contains NaN"),
        (classifier(), X, _with(LABELS, 65, 0.5), None, "block 2: Unknown label type: continuous"),
        (classifier(), X, LABELS, _with(WEIGHTS, 200, -1), "block 4: sample_weight must be finite"),
        (classifier(), X, LABELS, np.zeros(ROWS), "all sample weights are zero"),
        (classifier(), X, np.zeros(ROWS, int), None, "every sample is of one class, 0"),
        (classifier(), X, LABELS[:-1], None, "y must have one entry per row of X, 240"),
        (classifier(), X, None, None, "requires y to be passed"),
        (classifier(kernel="rbf"), X, LABELS, None, "kernel='rbf' compares every row"),
        (classifier(Zero(), fit_intercept=False), X, LABELS, None, "loss with kinks"),
        (classifier(class_weight="equal"), X, LABELS, None, "class_weight must be None"),
        (classifier(potential=Quadratic(np.ones(3))), X, LABELS, None, "does not fit the weights"),
        (regressor(), X, _with(PROPORTIONS, (0, 0), 2), None, "block 0: rows of y must be prop"),
        (regressor(), X, LABELS, None, "block 0: y must be a matrix"),
        (multilabel(), X, _with(INDICATORS, (239, 0), 2), None, "block 4: y must hold 0 and 1"),
        (multilabel("k-subsets"), X, _with(PAIRS, 70, 0), None, "a row of block 2 of Y has none"),
        (multilabel("k-subsets"), X, INDICATORS + 0.0, None, "Y has none|exactly k labels each"),
        (multilabel(class_weight=[None]), X, INDICATORS, None, "one per label"),
    ],
)
def test_bad_input_is_told_with_its_block(model, rows, y, weights, said):
    with pytest.raises(ValueError, match=said):
        clone(model).fit(blocks(rows), y, weights)


def test_blocks_with_other_columns_or_none_are_refused():
    uneven = MemoryBlocks([Part(0, X[:100], {}), Part(1, X[100:, :3], {})])
    with pytest.raises(ValueError, match="block 1 has the columns 3 columns, block 0 has 5"):
        classifier().fit(BlockTable(uneven), LABELS)
    with pytest.raises(ValueError, match="no block"):
        classifier().fit(BlockTable(MemoryBlocks([])), LABELS[:0])
    with pytest.raises(ValueError, match="no rows in any of its blocks"):
        classifier().fit(blocks(X[:0], (0, 0, 0)), LABELS[:0])
    with pytest.raises(ValueError, match=r"as many columns in every block, got \{0: 4, 1: 3\}"):
        multilabel().fit(da.from_array(X, chunks=(120, -1)), _uneven_targets())


def _uneven_targets():
    """120 rows of four labels, then as many of three."""
    pieces = [dask.delayed(PAIRS[:120]), dask.delayed(INDICATORS[120:])]
    arrays = [da.from_delayed(piece, (120, CLASSES), int) for piece in pieces]
    return da.concatenate(arrays)


def test_models_of_tables_in_memory_refuse_blocks():
    lazy = da.from_array(X, chunks=(100, -1))
    for model in (FenchelYoungClassifierCV(), LabelRanker()):
        with pytest.raises(TypeError, match="takes tables in memory"):
            model.fit(lazy, PAIRS)


# -- dask ----------------------------------------------------------------------------------------


def test_without_a_client_dask_computes_the_blocks_here():
    rows = da.from_array(X, chunks=(60, -1))
    model = regressor(tol=TOL)
    part = clone(model).fit(rows, da.from_array(PROPORTIONS, chunks=(60, 2)))
    assert_same(part, clone(model).fit(X, PROPORTIONS))
    lazy = part.predict(rows)
    assert lazy.chunks == ((60,) * 4, (CLASSES,))
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), part.predict(X), **SAME)


def test_bad_collections_are_refused():
    rows = da.from_array(X, chunks=(60, -1))
    with pytest.raises(ValueError, match="chunks of unknown size"):
        classifier().fit(rows[rows[:, 0] > 0], LABELS)
    with pytest.raises(ValueError, match="no rows in any of its blocks"):
        classifier().fit(rows[:0], LABELS[:0])
    with pytest.raises(ValueError, match="matrix"):
        classifier().fit(rows[:, 0], LABELS)
    with pytest.raises(ValueError, match="3 features"):
        classifier().fit(X, LABELS).predict(rows[:, :3])
    model = classifier().fit(X, LABELS)
    np.testing.assert_array_equal(model.predict(blocks(X)), model.predict(X))


def test_dask_arrays_on_workers_give_the_model_of_memory_and_lazy_answers(client):
    rows = da.from_array(X, chunks=((60, 60, 60, 60), (2, 3)))
    y, weights = da.from_array(LABELS, chunks=100), da.from_array(WEIGHTS, chunks=ROWS)
    model = classifier(tol=TOL, class_weight="balanced")
    whole = clone(model).fit(X, LABELS, WEIGHTS)
    part = clone(model).fit(rows, y, weights)
    assert_same(part, whole)
    answers = {
        name: getattr(part, name)(rows)
        for name in ("predict", "predict_proba", "decision_function", "predict_log_proba")
    }
    part.fit(X, 1 - LABELS)  # what was asked before stays as it was
    computed = dask.compute(*answers.values())
    for (name, lazy), found in zip(answers.items(), computed, strict=True):
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == rows.chunks[0]
        expected = getattr(whole, name)(X)
        assert lazy.dtype == expected.dtype
        assert lazy.shape == expected.shape
        np.testing.assert_allclose(found, expected, **SAME)
    with pytest.raises(BlockError, match="block 2: Input X contains NaN"):
        classifier().fit(da.from_array(_with(X, (150, 1), np.nan), chunks=(60, -1)), y)


def test_dask_frames_on_workers_with_an_empty_partition(client):
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    targets = pd.DataFrame(INDICATORS, columns=["a", "b", "c"])
    pieces = [(0, 60), (60, 60), (60, 120), (120, 240)]

    def partitions(whole):
        return dd.from_delayed(
            [dask.delayed(whole.iloc[a:b]) for a, b in pieces], meta=whole.iloc[:0]
        )

    rows, y = partitions(frame), partitions(targets)
    model = multilabel("sparse", tol=TOL)
    whole = clone(model).fit(frame, targets)
    part = clone(model).fit(rows, y)
    assert_same(part, whole)
    assert part.feature_names_in_.tolist() == list("vwxyz")
    lazy = part.predict_proba(rows)
    assert lazy.numblocks == (4, 1)
    np.testing.assert_allclose(lazy.compute(), whole.predict_proba(frame), **SAME)
    with pytest.raises(ValueError, match="feature names"):
        part.predict(rows[list("wvxyz")])
