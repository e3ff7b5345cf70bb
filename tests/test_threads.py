"""Library calls leave the settings of the process as they found them."""

import threading

import matplotlib
import scipy.linalg  # noqa: F401 - loads its own BLAS
from threadpoolctl import threadpool_info

from maxent._threads import one_blas_thread
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
