import subprocess
import sys
import textwrap

import numpy as np
import pytest

import maxent as mx
from tools import long_tests


def _run(code):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    ).stdout


def test_import_is_fast_and_light():
    code = """
    import sys, time
    begin = time.perf_counter()
    import maxent
    print(time.perf_counter() - begin)
    heavy = {"sklearn", "pandas", "torch", "dask", "rasterio", "matplotlib", "numba", "rich"}
    print(sorted(heavy & set(sys.modules)))
    """
    best = 9.0
    for _ in range(3):
        seconds, loaded = _run(code).splitlines()
        assert loaded == "[]"
        best = min(best, float(seconds))
    assert best < 1.0


def test_every_file_keeps_a_fast_test():
    costs = {"a.py::x": 9.0, "a.py::y[1::2]": 0.5, "b.py::x": 0.001, "b.py::y": 0.5, "b.py::z": 1.0}
    assert long_tests(costs) == {"a.py::x": 9.0, "b.py::y": 0.5, "b.py::z": 1.0}


def test_workers_and_commands_of_tests_keep_bytecode():
    code = "import sys; print(sys.dont_write_bytecode)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == str(sys.dont_write_bytecode) == "False"


def test_first_kernel_call_is_fast_once_cached():
    code = """
    import time
    import numpy as np
    import maxent as mx
    theta = np.random.default_rng(0).normal(size=(4, 10))
    begin = time.process_time()  # busy neighbours do not count
    mx.Tsallis(1.5).conjugate(theta)
    print(time.process_time() - begin)
    """
    _run(code)
    assert any(float(_run(code)) < 2.0 for _ in range(5))


BAD_ENTROPIES = [
    (lambda: mx.Tsallis(0.0), "alpha > 0, got 0.0"),
    (lambda: mx.Tsallis(float("nan")), "alpha > 0"),
    (lambda: mx.NormEntropy(1.0), "q > 1"),
    (lambda: mx.SquaredNorm(1.0), "finite q > 1"),
    (lambda: mx.SquaredNorm(1.5, domain=mx.Cube()), "simplex only"),
    (lambda: mx.Renyi(0.0), "beta must be a finite number > 0"),
    (lambda: mx.PairwiseHinge("soft", 3), "kind must be one of"),
    (lambda: mx.PairwiseHinge("hinge", 1), "n_classes must be an integer >= 2"),
    (lambda: mx.PairwiseHinge("hinge", 3).conjugate([1.0, 2.0]), "made for 3 classes"),
    (lambda: mx.Scaled(mx.Shannon(), 0.0), "temperature must be a finite number > 0"),
    (lambda: mx.Shifted(mx.Zero(), [np.nan, 1.0]), "cost must be finite"),
    (lambda: mx.Shifted(mx.Zero(), [0.0, 1.0]).conjugate([1.0, 2.0, 3.0]), "do not fit a cost"),
    (lambda: mx.Relative(mx.Shannon(), [0.0, 0.0]), "no mass"),
    (lambda: mx.Relative(mx.Shannon(), [-1.0, 2.0]), "non-negative"),
    (lambda: mx.Relative(mx.Shannon(), [0.5, 0.5]).conjugate([1.0]), "q0 has 2 entries"),
    (lambda: mx.Shannon().prox([1.0, 2.0], 0.0), "tau > 0"),
    (lambda: mx.Renyi(3.0).prox([1.0, 2.0], 1.0), "not convex"),
    (lambda: mx.KSubset(0), "k >= 1"),
    (lambda: mx.KSubset(3).argmax([1.0, 2.0]), "at least 3 finite scores"),
    (lambda: mx.Product(mx.Simplex(), 2).argmax([1.0, 2.0, 3.0]), "cannot be cut into 2"),
    (lambda: mx.NonNegative().argmax([1.0]), "unbounded"),
    (lambda: mx.Euclidean().argmax([1.0]), "unbounded"),
]


@pytest.mark.parametrize(("make", "message"), BAD_ENTROPIES, ids=[m for _, m in BAD_ENTROPIES])
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: mx.Shannon(domain=mx.Euclidean()),
        lambda: mx.Relative(mx.FermiDirac(), [0.5, 0.5]),
        lambda: mx.Relative(mx.PairwiseHinge("hinge", 2), [0.5, 0.5]),
        lambda: mx.OneVsAll(mx.FermiDirac()),
        lambda: mx.Shannon().conjugate(mx.Ragged.from_rows([[1.0], [2.0, 3.0]])),
    ],
)
def test_incompatible_parts_are_refused(make):
    with pytest.raises(TypeError, match="needs"):
        make()


SCORES = [
    ([1.0, np.nan], "contain NaN"),
    ([1.0, np.inf], r"contain \+inf"),
    ([[1.0, 2.0], [-np.inf, -np.inf]], "row 1 of the scores is -inf everywhere"),
    ([[], []], "empty row"),
    (3.0, "at least one axis"),
    (["a", "b"], "expected numbers"),
]


@pytest.mark.parametrize(("theta", "message"), SCORES, ids=[m for _, m in SCORES])
@pytest.mark.parametrize(
    "entropy",
    [mx.Shannon(), mx.Tsallis(1.5), mx.Tsallis(3.0), mx.NormEntropy(2.0), mx.Renyi(0.5), mx.Zero()],
    ids=repr,
)
def test_bad_scores_are_refused(entropy, theta, message):
    with pytest.raises(ValueError, match=message):
        entropy.conjugate(theta)


@pytest.mark.parametrize("y", [3, -1, [0, 1], 0.5, [0.5, 0.6, 0.2], [[1, 0, 0]]])
def test_bad_targets_are_refused(y):
    with pytest.raises(ValueError, match=r"label|target|need"):
        mx.FenchelYoungLoss(mx.Shannon()).value([0.0, 1.0, 2.0], y)


def test_labels_need_the_simplex():
    with pytest.raises(ValueError, match="labels are for the simplex"):
        mx.FenchelYoungLoss(mx.FermiDirac()).value(np.zeros((2, 3)), [0, 1])


def test_ragged_arithmetic_keeps_the_cuts():
    rows = mx.Ragged.from_rows([[1.0], [2.0, 3.0]])
    np.testing.assert_array_equal((2 * rows - rows).values, rows.values)
    with pytest.raises(ValueError, match="same sizes"):
        rows + mx.Ragged.from_rows([[1.0, 2.0], [3.0]])
    with pytest.raises(ValueError, match="one-dimensional"):
        mx.Ragged.from_rows([[[1.0]]])


def test_number_of_threads_is_one_setting(monkeypatch):
    from maxent._support.threads import num_threads

    monkeypatch.setenv("MAXENT_NUM_THREADS", "3")
    assert num_threads() == 3
    monkeypatch.setenv("MAXENT_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="MAXENT_NUM_THREADS must be a positive integer"):
        num_threads()


@pytest.mark.parametrize(
    "make",
    [
        lambda: mx.Tsallis("2"),
        lambda: mx.Tsallis([1.5, 2.0]),
        lambda: mx.Tsallis(True),
        lambda: mx.NormEntropy("inf"),
        lambda: mx.Renyi(None),
        lambda: mx.Scaled(mx.Shannon(), [1.0]),
    ],
)
def test_parameters_that_are_no_numbers_are_named(make):
    with pytest.raises(TypeError, match="must be a single number, got"):
        make()


def test_file_errors_name_the_users_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*; create it first"):
        mx.save(mx.Shannon(), tmp_path / "nowhere" / "model.json")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        mx.save(mx.Shannon(), tmp_path)
    (tmp_path / "notes.txt").write_text("not a model")
    with pytest.raises(ValueError, match=r"not JSON, or cut short .* written by maxent\.save"):
        mx.load(tmp_path / "notes.txt")
