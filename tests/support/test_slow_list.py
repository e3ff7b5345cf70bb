"""Which tests `make test-fast` leaves out: the list of slow ones, many sets of one test."""

from tools import LONG, SHARED_LONG, is_slow, renewed, spread


def test_a_run_of_some_tests_leaves_what_is_known_of_others():
    known = {"a.py::old": 2.0, "a.py::gone": 3.0, "b.py::x": 9.0, "b.py::y": 1.0}
    costs = {"a.py::new": 5.0, "a.py::quick": LONG / 2}
    found = renewed(known, costs, left_out={"a.py::old"})
    assert found == {"b.py::x": 9.0, "b.py::y": 1.0, "a.py::old": 2.0, "a.py::new": 5.0}
    # after a run of everything nothing is left of before
    whole = costs | {"b.py::x": 4.0, "b.py::z": LONG / 2}
    assert renewed(known, whole, set()) == {"a.py::new": 5.0, "b.py::x": 4.0}


def test_a_test_is_as_slow_as_what_it_shares():
    known = {"t/a.py::x": 1.0, "t/a.py::@fit": 2.0, "t::@cluster": 3.0}
    assert is_slow("t/a.py::x", (), known)
    assert is_slow("t/a.py::y[1::2]", ("tmp_path", "fit"), known)
    assert is_slow("t/b/c.py::y", ("cluster",), known)
    assert not is_slow("t/b/c.py::y", ("fit",), known)
    assert not is_slow("u/a.py::y", ("cluster",), known)


def test_a_run_of_some_tests_leaves_what_is_known_of_fixtures():
    known = {"a.py::@fit": 2.0, "a.py::@map": 3.0, "a.py::x": 1.0}
    costs = {"a.py::y": LONG, "a.py::z": LONG / 2, "a.py::@map": SHARED_LONG / 2}
    found = renewed(known, costs, left_out={"a.py::x"})
    assert found == {"a.py::@fit": 2.0, "a.py::x": 1.0, "a.py::y": LONG}
    assert renewed(known, costs, set()) == {"a.py::y": LONG}


def test_a_few_are_taken_from_the_whole():
    assert spread([1, 2], 3) == [1, 2]
    assert spread(list(range(9)), 3) == [1, 4, 7]
    assert spread(list(range(100)), 4) == [12, 37, 62, 87]
