"""Threads change neither the settings of the process nor a bit of any result."""

import threading

import matplotlib
import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - loads its own BLAS
from threadpoolctl import threadpool_info

import maxent as mx
from maxent._support.threads import blocks, one_blas_thread
from maxent.species.report.figures import drawing


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def overlapping(first, second):
    """Enter one, enter the other in a thread of its own, leave the first, then the second."""
    entered, left = threading.Event(), threading.Event()

    def other():
        with second():
            entered.set()
            left.wait(5)

    thread = threading.Thread(target=other)
    with first():
        thread.start()
        entered.wait(0.5)  # a lock may hold it back until the first has ended
    left.set()
    thread.join(5)
    assert not thread.is_alive()


def test_calls_that_overlap_restore_the_threads_of_blas():
    before = blas_threads()
    overlapping(one_blas_thread, one_blas_thread)
    assert blas_threads() == before
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_reports_that_overlap_restore_the_settings_of_matplotlib():
    before = dict(matplotlib.rcParams)
    overlapping(drawing, lambda: drawing({"font.size": 4}))
    assert dict(matplotlib.rcParams) == before


# -- the same bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "size"), [(0, 5), (1, 10**6), (3, 4), (70, 10**5), (10**6, 3)])
def test_blocks_cover_all_rows(rows, size):
    cut = blocks(rows, size)
    assert [start for start, _ in cut] == [0, *(stop for _, stop in cut[:-1])]
    assert cut[-1][1] == rows
    assert len(cut) <= 64


def _answers(X, wide, y):
    """Bytes of what is computed in blocks: products, sums, fits."""
    p = np.full(len(X), 1 / len(X))
    moments = mx.MatrixMap(X).moments(p), mx.MatrixMap(wide).scores(np.ones(wide.shape[1]))
    density = mx.MaxentDensity("lqph", verbose=0).fit(X[:, :3], (y == 0).astype(int))
    grown = mx.StructMaxent([mx.Monomials(2)], 0.0, 0.01, rounds=3, verbose=0)
    grown.fit(X[:, :3], (y == 0).astype(int))
    classifier = mx.FenchelYoungClassifier(mx.Tsallis(1.5)).fit(wide, y[: len(wide)])
    parts = [*moments, density.predict(X[:, :3]), grown.predict(X[:, :3]), classifier.coef_]
    return [np.asarray(part).tobytes() for part in parts]


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    rng = np.random.default_rng(0)
    X, wide, y = (
        rng.normal(size=(20000, 6)),
        rng.normal(size=(150, 1500)),
        rng.integers(3, size=20000),
    )
    answers = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("MAXENT_NUM_THREADS", threads)
        answers.append(_answers(X, wide, y))
    monkeypatch.setenv("MAXENT_NUM_THREADS", "2")
    worker = threading.Thread(target=lambda: answers.append(_answers(X, wide, y)))
    worker.start()
    worker.join()
    for other in answers[1:]:
        assert [a == b for a, b in zip(answers[0], other, strict=True)] == [True] * 5
