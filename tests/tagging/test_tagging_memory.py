"""What training holds: observed paths as states, and no scores of all sequences at once."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from maxent import Box, ChainClassifier, ConvergenceWarning, Problem, Quadratic, Shannon
from maxent.rows.arrays import row_dot, row_scale
from maxent.structured import Chain
from maxent.structured.chain.observed import TiedPaths
from maxent.tagging import Attributes, PairChainMap, Tokens, read_conll

K = 40


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def paths_of(rng, lengths, n_states):
    return [rng.integers(n_states, size=n) for n in lengths]


def made_up(rng, n_sequences, length, n_attributes=50, each=4):
    """Tokens with so many attributes each, and states that lean on the first of them."""
    lengths = np.full(n_sequences, length)
    first = rng.integers(n_attributes, size=lengths.sum())
    others = rng.integers(n_attributes, size=(lengths.sum(), each - 1))
    columns = np.sort(np.column_stack([first, others]), axis=1)
    columns = (columns + n_attributes * np.arange(each)).astype(np.int32).reshape(-1)
    indptr = np.arange(0, columns.size + 1, each, dtype=np.int32)
    shape = (lengths.sum(), each * n_attributes)
    X = sparse.csr_array((np.ones(columns.size, np.int8), columns, indptr), shape=shape)
    states = np.where(rng.random(first.size) < 0.9, first % K, rng.integers(K, size=first.size))
    tokens = Tokens(X, lengths, Attributes([f"a{i}" for i in range(X.shape[1])]))
    return tokens, list(states.reshape(n_sequences, length))


@pytest.mark.parametrize("n_states", [1, 3, 5])
def test_observed_paths_are_the_rows_that_encode_writes(rng, n_states):
    lengths = np.array([1, 4, 2, 7])
    paths = paths_of(rng, lengths, n_states)
    written = Chain(n_states).encode(paths, tied=True)
    kept = TiedPaths(np.concatenate(paths), lengths, n_states)
    for row, other in zip(kept.rows(), written.rows(), strict=True):
        np.testing.assert_array_equal(row, other)
    weights = rng.random(4)
    np.testing.assert_allclose(kept.transitions(weights), weights @ written.tied, atol=1e-15)
    theta = written + 0.5
    np.testing.assert_array_equal(row_dot(theta, kept), row_dot(theta, written))
    np.testing.assert_array_equal(np.maximum(kept, 0).own.values, written.own.values)
    np.testing.assert_array_equal(np.maximum(kept, 0.5).tied, np.maximum(written.tied, 0.5))
    np.testing.assert_array_equal(Shannon(domain=Chain(n_states)).value_inside(kept), np.zeros(4))


def test_nothing_is_written_into_observed_paths():
    paths = TiedPaths(np.array([0, 1]), np.array([2]), 2)
    for array in (paths.own.values, paths.tied):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 2.0
    copy = paths.copy()
    copy.own.values[0] = 5.0
    assert paths.own.values[0] == 1.0


@pytest.mark.parametrize(
    ("states", "lengths", "message"),
    [
        ([0, 2], [2], "states must be from 0 to 1"),
        ([0, -1], [2], "states must be from 0 to 1"),
        ([0, 1], [3], "add up to 3 positions, there are 2"),
        ([0, 1], [2, 0], "no path is empty"),
    ],
)
def test_wrong_paths_are_refused(states, lengths, message):
    with pytest.raises(ValueError, match=message):
        TiedPaths(np.array(states), np.array(lengths), 2)


@pytest.mark.parametrize("potential", [0.1, "l1"])
def test_the_problem_of_paths_is_that_of_their_rows(rng, potential):
    tokens, y = made_up(rng, 30, 20)
    states = np.concatenate(y)
    chains = PairChainMap.seen(tokens.X, tokens.lengths, K, states)
    penalty = Box(0.02) if potential == "l1" else Quadratic(potential)
    kept = TiedPaths(states, tokens.lengths, K)
    written = Chain(K).encode(y, tied=True)
    entropy, weights = Shannon(domain=Chain(K)), rng.dirichlet(np.ones(30))
    one = Problem(entropy, chains, penalty, observed=kept, weights=weights)
    two = Problem(entropy, chains, penalty, observed=written, weights=weights)
    assert isinstance(one.observed, TiedPaths)
    np.testing.assert_allclose(one.target, two.target, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        one.target, chains.moments(row_scale(written, weights)), rtol=1e-12, atol=1e-15
    )
    w = 0.1 * rng.normal(size=chains.n_features)
    assert one.observed_value == two.observed_value == 0.0
    assert one.state(w).gap == pytest.approx(two.state(w).gap, rel=1e-9)
    assert one.state(w).row_gap == pytest.approx(two.state(w).row_gap, rel=1e-9)


def test_paths_that_do_not_fit_the_map_are_refused(rng):
    tokens, y = made_up(rng, 3, 5)
    chains = PairChainMap.seen(tokens.X, tokens.lengths, K, np.concatenate(y))
    other = TiedPaths(np.concatenate(y), np.array([15]), K)
    with pytest.raises(ValueError, match="must have the shape of the scores"):
        Problem(Shannon(domain=Chain(K)), chains, Quadratic(1.0), observed=other)


def test_a_fit_holds_less_than_one_array_of_scores(rng):
    model = ChainClassifier(potential=0.01, max_iter=3, tol=0.0, solver="lbfgs")
    tokens, y = made_up(rng, 500, 60)
    scores = 8 * K * tokens.X.shape[0]
    with pytest.warns(ConvergenceWarning):
        model.fit(tokens, y)  # loads the kernels
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            model.fit(tokens, y)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < scores


def test_a_file_is_read_into_one_text_for_each_word(tmp_path):
    (tmp_path / "train.txt").write_text("the D\ncat N\n\nthe D\ndog N\n")
    (one, two), (three, four) = read_conll(tmp_path / "train.txt")
    assert one == three == ("the", "D")
    assert one[0] is three[0]
    assert two[1] is four[1]
