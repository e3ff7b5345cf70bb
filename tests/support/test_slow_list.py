"""The list of slow tests, renewed by a run of some of them."""

from tools import LONG, renewed


def test_a_run_of_some_tests_leaves_what_is_known_of_others():
    known = {"a.py::old": 2.0, "a.py::gone": 3.0, "b.py::x": 9.0, "b.py::y": 1.0}
    costs = {"a.py::new": 5.0, "a.py::quick": LONG / 2}
    found = renewed(known, costs, left_out={"a.py::old"})
    assert found == {"b.py::x": 9.0, "b.py::y": 1.0, "a.py::old": 2.0, "a.py::new": 5.0}
    # after a run of everything nothing is left of before
    whole = costs | {"b.py::x": 4.0, "b.py::z": LONG / 2}
    assert renewed(known, whole, set()) == {"a.py::new": 5.0, "b.py::x": 4.0}
