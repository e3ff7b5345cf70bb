"""First small fits: what they do without compiled kernels is what the kernels do."""

import subprocess
import sys

import numpy as np
import pytest

import maxent as mx
from maxent._support.compiling import kernels as compiling
from maxent._support.compiling import switches
from maxent.demo.first_fits import FITS, fit_first
from maxent.tagging.attributes import Attributes

# on purpose, and kernels do so without a word
HASHES_OVERFLOW = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

COMPILED = """
import numba.core.event as event
from maxent.demo.first_fits import fit_first
import sys, warnings

class Told(event.Listener):
    def on_start(self, what):
        function = what.data["dispatcher"].py_func
        if function.__module__.startswith("maxent"):
            print(function.__name__)
    def on_end(self, what):
        pass

event.register("numba:compile", Told())
from maxent import SeparableWarning
warnings.simplefilter("error")
warnings.simplefilter("ignore", SeparableWarning)  # of CRF, which has no penalty
for name in sys.argv[1:]:
    fit_first(name)
"""


@pytest.mark.slow
def test_a_first_small_fit_compiles_nothing(tmp_path, monkeypatch):
    """Each kernel more is up to some seconds of somebody's first minute."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    names = [*FITS["tagging"], "LabelRanker", "Matcher", "Aligner", "MED"]
    names += ["FenchelYoungClassifier", "FenchelYoungRegressor", "StructMaxentClassifier"]
    names += ["MaxentDensity", "MaxentDensityCV"]
    command = [sys.executable, "-c", COMPILED, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.fixture
def both_ways(monkeypatch):
    """The answers of a function where kernels run, and where Python runs what they are made of."""

    def run(function):
        answers = []
        for choose in (
            lambda kernel, work, calls=20: kernel,
            lambda kernel, work, calls=20: compiling._interpreted(kernel),
            lambda kernel, work, calls=20: compiling._uncompiled(kernel),
        ):
            monkeypatch.setattr(compiling, "exact", choose)
            answers.append(function())
        return answers

    return run


@pytest.mark.parametrize(
    ("name", "fitted"),
    [
        ("MaxentDensity", "coef_"),
        ("MaxentDensityCV", "coef_"),
        ("LabelRanker", "coef_"),
        ("M3N", "weights_"),
        ("CRF", "weights_"),
    ],
)
@HASHES_OVERFLOW
@pytest.mark.filterwarnings("ignore::maxent.SeparableWarning")  # of CRF, which has no penalty
def test_python_fits_the_same_to_the_last_bit(name, fitted, both_ways):
    compiled, *others = both_ways(lambda: getattr(fit_first(name), fitted))
    for plain in others:
        np.testing.assert_array_equal(compiled, plain)


def test_python_grows_the_same_features_to_the_last_bit(both_ways, monkeypatch):
    X = np.random.default_rng(0).uniform(size=(20, 2))
    model = mx.StructMaxent(rounds=2, proof_budget=0)
    # sums that numpy takes in another order are the kernels' each time
    monkeypatch.setattr(compiling, "spared", lambda *asked: False)
    compiled, *others = both_ways(lambda: model.fit(X, X[:, 0] > 0.5).coef_)
    assert others == [compiled, compiled]


@HASHES_OVERFLOW
def test_python_numbers_names_as_kernels_do(both_ways):
    tokens = [[["a", "b" * 20], ["c", "a"], ["é\n", "a"]], [["d" * 8, "d" * 9]]]

    def read():
        attributes = Attributes()
        return attributes.fit(tokens, 1).X.toarray(), attributes.transform(tokens).X.toarray()

    compiled, *others = both_ways(read)
    for plain in others:
        for ours, theirs in zip(plain, compiled, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_few_products_have_the_moments_of_many(monkeypatch):
    from maxent.features import Schema, bind, fit_operators
    from maxent.features.product import Interaction

    X, p = np.random.default_rng(0).normal(size=(40, 4)) + 3, np.random.default_rng(1).random(40)
    features = bind(fit_operators([Interaction()], X), Schema.from_table(X).read(X))
    few = features.moments(p)
    np.testing.assert_allclose(few, features.columns().T @ p, rtol=1e-12)
    monkeypatch.setattr(switches, "spare_small_problems", False)
    np.testing.assert_allclose(few, features.moments(p), rtol=1e-12)


def _couplings():
    from maxent.structured.transport.domain import Transport

    rng = np.random.default_rng(4)
    a, b = rng.random(4) + 0.1, rng.random(7) + 0.1
    yield mx.Birkhoff(), rng.normal(size=(20, 25))
    yield mx.Birkhoff(), 0.01 * rng.normal(size=(3, 4))
    yield mx.Birkhoff(), 50 * rng.normal(size=(20, 144))
    yield mx.Birkhoff(), mx.Ragged.from_rows([rng.normal(size=n * n) for n in (1, 3, 6, 3)])
    yield mx.Birkhoff(), np.ones((2, 9))  # ties
    yield mx.Birkhoff(), np.array([[0.0, 1.0, -np.inf, 2.0]])
    for masses in ((a / a.sum(), b / b.sum()), (b / b.sum(), a / a.sum())):
        yield Transport(*masses), rng.normal(size=(10, 28))


@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", range(8))
def test_few_couplings_in_numpy_are_those_of_the_kernel(case, dtype, kl, monkeypatch):
    from maxent.structured.transport.kernels import couplings

    domain, theta = list(_couplings())[case]
    theta = theta.astype(dtype) if isinstance(theta, np.ndarray) else theta
    rounding = 1e-6 if dtype is np.float32 else 1e-10
    project = domain.project_kl if kl else domain.project
    served = []

    def counted(kernel, size, work):
        served.append(kernel)
        return True

    monkeypatch.setattr(compiling, "spared", counted)
    few = project(theta)
    assert served.count(couplings.project_rows) == len(served)
    monkeypatch.setattr(switches, "spare_small_problems", False)
    many = project(theta)
    for p, q in zip(_matrices(few), _matrices(many), strict=True):
        np.testing.assert_allclose(p, q, rtol=0, atol=rounding)
        assert p.min() >= 0
        assert p.max() <= domain.largest_entry
    assert domain.contains(few, rounding).all()


def _matrices(p):
    return p.rows() if isinstance(p, mx.Ragged) else list(p)


def test_many_small_projections_go_to_the_kernel(monkeypatch):
    kernel = type("Kernel", (), {"py_func": None, "overloads": {}})()
    asked = [compiling.spared(kernel, 1, 300_000) for _ in range(8)]
    assert asked == [True] * 6 + [False] * 2
    other = type("Kernel", (), {"py_func": None, "overloads": {}})()
    assert compiling.spared(other, 100, 1)
    assert not compiling.spared(other, 10**6, 1)
    other.overloads = {"of some types": None}
    assert not compiling.spared(other, 100, 1)
    monkeypatch.setattr(switches, "spare_small_problems", False)
    assert not compiling.spared(other, 100, 1)


def _chain_scores(kind, scale, dtype):
    rng, lengths = np.random.default_rng(1), (3, 1, 6, 2, 6)
    nodes = [(scale * rng.normal(size=(n, 3))).astype(dtype) for n in lengths]
    nodes[2][1, 0] = -np.inf
    if kind == "written":
        blocks = [(scale * rng.normal(size=(n - 1, 3, 3))).astype(dtype) for n in lengths]
    else:
        blocks = scale * rng.normal(size=(3, 3) if kind == "shared" else (5, 3, 3))
        blocks = blocks.astype(dtype)
    return mx.Chain(3, forbidden=((0, 1),)).scores(nodes, blocks)


@pytest.mark.parametrize("kind", ["shared", "own", "written"])
@pytest.mark.parametrize("scale", [1.0, 400.0])  # beyond what sums of exponentials hold
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_chains_in_numpy_have_the_marginals_of_the_kernel(kind, scale, dtype, monkeypatch):
    chain, theta = mx.Chain(3, forbidden=((0, 1),)), _chain_scores(kind, scale, dtype)
    value, p = chain.softmax(theta)
    assert chain.contains(p, 1e-5 if dtype is np.float32 else 1e-12).all()
    assert max(part.max() for part in p.rows()) <= (5 if kind != "written" else 1)
    assert p.dtype == dtype
    monkeypatch.setattr(switches, "spare_small_problems", False)
    expected, q = chain.softmax(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-13)
    atol = 1e-6 if dtype is np.float32 else 1e-13
    for ours, theirs in zip(p.rows(), q.rows(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=atol)


@pytest.mark.parametrize("band", [None, 0, 1])
@pytest.mark.parametrize("scale", [1.0, 400.0])  # beyond what sums of exponentials hold
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lengths", [((3, 1, 6, 3), (5, 4, 1, 5)), (4, 4)])
def test_few_alignments_in_numpy_are_those_of_the_kernel(lengths, band, scale, dtype, monkeypatch):
    domain, rng = mx.Alignment(*lengths, band), np.random.default_rng(2)
    if isinstance(lengths[0], int):
        theta = (scale * rng.normal(size=(6, lengths[0] * lengths[1]))).astype(dtype)
        theta[0, 1] = -np.inf
    else:
        sizes = [n * m for n, m in zip(*lengths, strict=True)]
        rows = [(scale * rng.normal(size=size)).astype(dtype) for size in sizes]
        theta = mx.Ragged.from_rows(rows)
    served = []
    monkeypatch.setattr(compiling, "spared", lambda *asked: served.append(asked) or True)
    value, p = domain.softmax(theta)
    assert len(served) == 1
    monkeypatch.setattr(compiling, "spared", lambda *asked: False)
    expected, q = domain.softmax(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    atol = 1e-6 if dtype is np.float32 else 1e-12
    for ours, theirs in zip(_matrices(p), _matrices(q), strict=True):
        assert ours.dtype == dtype
        assert ours.min() >= 0
        assert ours.max() <= 1
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


@pytest.mark.parametrize("spare", [True, False])
def test_alignments_without_a_path_are_named(spare, monkeypatch):
    monkeypatch.setattr(compiling, "spared", lambda *asked: spare)
    theta = np.zeros((3, 6))
    theta[1:, [2, 5]] = -np.inf
    with pytest.raises(ValueError, match="row 1 has no alignment"):
        mx.Alignment(2, 3).softmax(theta)


@pytest.mark.parametrize("alpha", [1.1, 1.25, 1.5, 1.9, 2.0])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1e12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_sparse_maps_in_numpy_are_those_of_the_kernel(alpha, scale, dtype, monkeypatch):
    from maxent.core.prediction_maps import tsallis_map

    rng, rounding = np.random.default_rng(5), 1e-7 if dtype is np.float32 else 2e-14
    for shape in ((50, 3), (1, 1), (4, 2), (7, 40), (2, 3000)):
        theta = (scale * rng.normal(size=shape)).astype(dtype)
        if shape[1] > 2:
            theta[0, 1], theta[1] = -np.inf, theta[1, 0]
        monkeypatch.setattr(compiling, "spared", lambda *asked: True)
        value, p = tsallis_map(theta, alpha)
        monkeypatch.setattr(compiling, "spared", lambda *asked: False)
        expected, q = tsallis_map(theta, alpha)
        np.testing.assert_allclose(value, expected, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(p, q, rtol=0, atol=rounding)
        assert p.dtype == dtype
        assert p.min() >= 0
        assert p.max() <= 1
        np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, rtol=0, atol=30 * rounding)


@pytest.mark.parametrize("spare", [True, False])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_without_a_sparse_map_are_named(spare, wrong, monkeypatch):
    from maxent.core.prediction_maps import tsallis_map

    monkeypatch.setattr(compiling, "spared", lambda *asked: spare)
    theta = np.zeros((3, 2))
    theta[2] = wrong
    with pytest.raises(ValueError, match=r"row 2|NaN|inf"):
        tsallis_map(theta, 1.5)


def _factors():
    """Cells, raw features, powers and products, as the kernels of ``terms`` take them."""
    rng, n = np.random.default_rng(3), 70
    values, codes = rng.normal(size=(3, n)), rng.integers(-1, 3, size=(2, n)).astype(np.int32)
    place = np.array([[0, -1], [1, -1], [2, -1], [0, 2], [1, 0]], np.int32)
    numbers = np.array(
        [[-3, 0.2, 0, 1], [0.5, 1, -np.inf, np.inf], [0, 2, -1, 1], *[[0.0] * 4] * 2]
    )
    q = rng.normal(size=n) * (rng.random(n) > 0.2)
    return rng, values, codes, place, numbers, q


def test_few_products_in_numpy_have_the_sums_of_kernels():
    from maxent.families.kernels import monomials as terms

    rng, values, codes, place, numbers, q = _factors()
    power = np.array([1, 2, 3, 1, 1], np.int32)
    cuts, factor = np.array([0, 1, 3, 6], np.int32), np.array([2, 0, 3, 1, 2, 4], np.int32)
    low, scale = rng.normal(size=3), rng.random(3)
    products, first = np.array([[0, 1], [3, 2]], np.int32), np.array([1, 3], np.int32)
    ends = np.array([0, 4, 6])
    for few, many, given, shape in (
        *((terms.term_moments_at_once, terms.term_moments, (power, cuts, factor, q), 3),),
        *((terms.extended_sums_at_once, terms.extended_sums, (q, products, first, ends), (6, 2)),),
    ):
        ours, theirs = np.ones(shape), np.ones(shape)
        for one, out in ((few, ours), (many, theirs)):
            one(values, codes, place, numbers, *given, 5, 66, out)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    ours, theirs = np.ones(3), np.ones(3)
    terms.raw_sums_at_once(values, low, scale, q, 5, 66, ours)
    terms.raw_sums(values, low, scale, q, 5, 66, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    for k in range(len(place)):
        mine, yours = q.copy(), q.copy()
        sums = [
            one(values, codes, place[[k]], numbers[[k]], 5, 66, part)
            for one, part in ((terms.shrink_at_once, mine), (terms.shrink, yours))
        ]
        np.testing.assert_allclose(*sums, rtol=1e-12)
        np.testing.assert_allclose(mine, yours, rtol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_twins_are_their_kernels_to_the_last_bit(seed):
    """Of curves: what fits do with them depends on few of their cases."""
    from maxent.features.kernels import cells
    from maxent.features.kernels import scores as score

    rng = np.random.default_rng(seed)
    n, count, m = int(rng.integers(1, 60)), seed % 6, int(rng.integers(1, 20))
    x = rng.uniform(-1, 2, size=n)
    low, high = x.min() - 0.1, x.max() + rng.choice([0.0, 0.2])
    knots = np.sort(rng.uniform(low + 0.01, high - 0.01, size=count))
    codes = np.searchsorted(knots, x).astype(np.uint16)
    unit, rest = (knots - low) / (high - low), (high - knots) / (high - low)
    upper = int(np.searchsorted(unit, 0.5)) + 1
    kind = np.sort(rng.integers(0, 5 if count else 2, size=m)).astype(np.int8)
    position = np.where(kind >= 2, rng.integers(0, max(count, 1), m), 0).astype(np.int32)
    p, parabola = rng.random(n) * (rng.random(n) > 0.2), rng.normal(size=3)
    w = rng.normal(size=m) * (rng.random(m) > 0.3)
    of_x, of_knots = (x, codes, low, high, upper), (kind, position, unit, rest)
    bins, line = 64 * max(count, 1), [np.empty(count + 1), np.empty(count + 1)]
    knot = np.where(kind >= 2, knots[position] if count else 0.0, 0.0)
    spans = np.array([low]), np.array([high]), parabola[:, None], p, 0, n
    written = x[None], np.zeros(m, np.int64), kind, knot, *spans
    _same(cells.mean_curves, (*of_x, p, *of_knots, parabola), np.empty(m))
    _same(cells.mean_squares, (*of_x, p, *of_knots, parabola), np.empty(m))
    _same(cells.curve_tables, (*of_knots, upper, w, parabola), *line)
    _same(cells.add_curve, (*of_x, *line, 0.3), rng.normal(size=n))
    _same(cells.write_curves, written, np.empty((m, n)))
    _same(score.fill_guide, (knots, low, bins / (high - low)), np.empty(bins + 1, np.int32))
    _same(cells.product_range, (x, p))
    pairs, (a, b) = np.array([[0, 1, 0], [1, 2, 2]]), rng.normal(size=(2, 3))
    table, (c0, ci, cj, cij) = rng.normal(size=(3, n)), rng.normal(size=(4, 3))
    b[1], given = 0.0, (table, *pairs, rng.normal(size=3), rng.random(3))
    theta = rng.normal(size=n)
    mine = theta.copy()
    cells.add_products(*given, a, b, theta, 0, n)
    cells.add_products_at_once(*given, a, b, mine, 0, n)
    np.testing.assert_array_equal(mine, theta)
    for clamp in (False, True):
        _same(cells.write_products, (*given, c0, ci, cj, cij, p, 0, n, clamp), np.empty((3, n)))
    levels = rng.integers(-1, 4, n).astype(np.int32)
    _same(cells.add_levels, (levels, rng.normal(size=4)), rng.normal(size=n))
    _same(cells.sum_levels, (levels, p), rng.normal(size=4))


@pytest.mark.parametrize("seed", range(6))
def test_twins_of_trees_are_their_kernels_to_the_last_bit(seed):
    from maxent.families.kernels import trees

    rng = np.random.default_rng(seed)
    n, firsts = int(rng.integers(1, 40)), np.array([0, 5, 9, 13])  # the last one has levels
    codes = np.column_stack([rng.integers(0, k, n) for k in (5, 4, 4)]).astype(np.uint8)
    r, order = rng.normal(size=n).round(1), rng.permutation(n)[: n // 2 + 1].astype(np.int32)
    sums = np.zeros(13)
    _same(trees.sum_bins, (codes, order, r, firsts), sums)
    for noise in (0.0, 0.3):
        _same(trees.best_split, (sums, firsts, 2, r[order].sum(), noise), np.zeros(5, np.uint8))
    goes = rng.integers(0, 2, 5).astype(np.uint8)
    _same(trees.partition, (codes, 1, goes), order, np.zeros(n, np.int32), shown=1)
    packed = rng.integers(0, 256, n).astype(np.uint8)
    _same(trees.sum_bytes, (packed, r), np.zeros(256))
    _same(trees.add_bytes, (packed, rng.normal(size=256)), rng.normal(size=n))
    bits, rows = np.array([0, 7, 3]), np.array([2, 0, 1])
    _same(trees.write_bits, (packed, bits, rows, r), np.empty((3, n)))
    pairs = rng.normal(size=(8, 13))
    _same(trees.row_gains, (pairs, firsts, 2, rng.normal(size=8)), np.empty(8))


@pytest.mark.parametrize("passes", [1, 3, 200])
def test_the_twin_of_coordinate_descent_is_its_kernel_to_the_last_bit(passes):
    from maxent.core.kernels.coordinate_descent import elastic_quadratic

    rng = np.random.default_rng(passes)
    factor, (slope, w) = rng.normal(size=(9, 7)), rng.normal(size=(2, 7))
    gram, l1, l2 = factor.T @ factor, rng.random(7), rng.random(7)
    gram[3], gram[:, 3], l2[3], w[5] = 0.0, 0.0, 0.0, 0.0  # nothing to be done, and a zero
    slopes, steps, ends = [], [], []
    for one in (elastic_quadratic, compiling._twins[elastic_quadratic]):
        slopes.append(slope.copy())
        steps.append(np.zeros(7))
        ends.append(one(gram, slopes[-1], w, l1, l2, steps[-1], passes, 1e-9))
    assert ends == [passes == 200] * 2
    np.testing.assert_array_equal(*slopes)
    np.testing.assert_array_equal(*steps)


def _same(kernel, given, *written, shown=None):
    """Run a kernel and its twin, which write to the last arguments; the first keep the answer."""
    copies = [part.copy() for part in written]
    answers = kernel(*given, *written), compiling._twins[kernel](*given, *copies)
    np.testing.assert_array_equal(*answers)
    for ours, theirs in list(zip(copies, written, strict=True))[:shown]:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("spare", [True, False])
def test_chains_without_a_path_are_named(spare, monkeypatch):
    monkeypatch.setattr(switches, "spare_small_problems", spare)
    theta = mx.Chain(2).scores(np.zeros((3, 2, 2)), np.zeros((3, 2, 2)))
    theta.own.values[4:6] = -np.inf
    for ask in (mx.Chain(2).softmax, mx.Chain(2).argmax):
        with pytest.raises(ValueError, match="row 1 has no path"):
            ask(theta)


def test_an_entropy_over_chains_keeps_its_laws_in_kernels(monkeypatch):
    from maxent.testing import check_entropy

    monkeypatch.setattr(switches, "spare_small_problems", False)
    check_entropy(mx.Shannon(domain=mx.Chain(2)), size=8)
