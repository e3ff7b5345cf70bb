"""First small fits: what they do without compiled kernels is what the kernels do."""

import subprocess
import sys

import numpy as np
import pytest

import maxent as mx
from maxent import _kernels
from maxent._kernels import compiling
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
    names = [*FITS["tagging"], "LabelRanker", "MED", "MaxentDensity"]
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
        ):
            monkeypatch.setattr(compiling, "exact", choose)
            answers.append(function())
        return answers

    return run


@pytest.mark.parametrize(
    ("name", "fitted"),
    [
        ("MaxentDensity", "coef_"),
        ("LabelRanker", "coef_"),
        ("M3N", "weights_"),
        ("CRF", "weights_"),
    ],
)
@HASHES_OVERFLOW
@pytest.mark.filterwarnings("ignore::maxent.SeparableWarning")  # of CRF, which has no penalty
def test_python_fits_the_same_to_the_last_bit(name, fitted, both_ways):
    compiled, plain = both_ways(lambda: getattr(fit_first(name), fitted))
    np.testing.assert_array_equal(compiled, plain)


def test_python_grows_the_same_features_to_the_last_bit(both_ways):
    X = np.random.default_rng(0).uniform(size=(20, 2))
    model = mx.StructMaxent(rounds=2, proof_budget=0)
    compiled, plain = both_ways(lambda: model.fit(X, X[:, 0] > 0.5).coef_)
    assert compiled == plain


@HASHES_OVERFLOW
def test_python_numbers_names_as_kernels_do(both_ways):
    tokens = [[["a", "b" * 20], ["c", "a"], ["é\n", "a"]], [["d" * 8, "d" * 9]]]

    def read():
        attributes = Attributes()
        return attributes.fit(tokens, 1).X.toarray(), attributes.transform(tokens).X.toarray()

    compiled, plain = both_ways(read)
    np.testing.assert_array_equal(compiled, plain)


def test_few_products_have_the_moments_of_many(monkeypatch):
    from maxent.features import Schema, bind, fit_operators
    from maxent.features.product import Interaction

    X, p = np.random.default_rng(0).normal(size=(40, 4)) + 3, np.random.default_rng(1).random(40)
    features = bind(fit_operators([Interaction()], X), Schema.of(X).read(X))
    few = features.moments(p)
    np.testing.assert_allclose(few, features.columns().T @ p, rtol=1e-12)
    monkeypatch.setattr(_kernels, "spare_small_problems", False)
    np.testing.assert_allclose(few, features.moments(p), rtol=1e-12)


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
    monkeypatch.setattr(_kernels, "spare_small_problems", False)
    expected, q = chain.softmax(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-13)
    atol = 1e-6 if dtype is np.float32 else 1e-13
    for ours, theirs in zip(p.rows(), q.rows(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=atol)


@pytest.mark.parametrize("spare", [True, False])
def test_chains_without_a_path_are_named(spare, monkeypatch):
    monkeypatch.setattr(_kernels, "spare_small_problems", spare)
    theta = mx.Chain(2).scores(np.zeros((3, 2, 2)), np.zeros((3, 2, 2)))
    theta.own.values[4:6] = -np.inf
    for ask in (mx.Chain(2).softmax, mx.Chain(2).argmax):
        with pytest.raises(ValueError, match="row 1 has no path"):
            ask(theta)


def test_an_entropy_over_chains_keeps_its_laws_in_kernels(monkeypatch):
    from maxent.testing import check_entropy

    monkeypatch.setattr(_kernels, "spare_small_problems", False)
    check_entropy(mx.Shannon(domain=mx.Chain(2)), size=8)
