"""Sequences of tokens: attributes, weights for the pairs seen, CoNLL files, chain models."""

import gzip
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import maxent as mx
from maxent import io
from maxent._support.compiling import switches
from maxent.learn.structured.chain import ChainClassifier
from maxent.tagging import Attributes, PairChainMap, phrase_scores, phrases, read_conll


def _stored(model, folder):
    """Written to a file and read again."""
    io.save(model, folder / "model.json")
    return io.load(folder / "model.json")


RNG = np.random.default_rng(0)
LENGTHS = np.array([3, 1, 5, 2])


@pytest.fixture
def tokens():
    """Sparse positions and labels of three states."""
    X = sparse.random_array((11, 6), density=0.5, rng=np.random.default_rng(1), format="csr")
    return X, np.array([0, 1, 2, 0, 1, 1, 2, 0, 0, 2, 1])


def test_attributes_number_names_in_the_order_of_training(tmp_path):
    names = Attributes()
    read = names.fit(
        [[{"word": "a", "upper": True, "lower": False, "length": 2}], [["word=a", "x"]]]
    )
    assert names.names == ["word=a", "upper", "length", "x"]
    np.testing.assert_array_equal(read.X.toarray(), [[1, 1, 2, 0], [1, 0, 0, 1]])
    again = names.transform([[{"word": "unknown", "length": 3.0}]])
    np.testing.assert_array_equal(again.X.toarray(), [[0, 0, 3, 0]])
    assert _stored(names, tmp_path).names == names.names


def test_rare_attributes_are_left_out():
    names = Attributes()
    read = names.fit([[["a", "b"], ["a"]], [["c", "a", "b"]]], least=2)
    assert names.names == ["a", "b"]
    np.testing.assert_array_equal(read.X.toarray(), [[1, 1], [1, 0], [1, 1]])


def test_names_of_any_text(tmp_path):
    sequences = [[["a\nb", "a", ""], ["b", "\u00e9", "\U0001f600"]], [["a", "b", "a\nb"], []]]
    names = Attributes()
    read = names.fit(sequences)
    assert names.names == ["a\nb", "a", "", "b", "\u00e9", "\U0001f600"]
    expected = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 0, 1, 0, 0], [0] * 6]
    np.testing.assert_array_equal(read.X.toarray(), expected)
    again = _stored(names, tmp_path)
    np.testing.assert_array_equal(again.transform(sequences).X.toarray(), expected)
    some = again.transform([[["x", "a"], ["y"]], [["\u00e9", "z", "b"]]])
    np.testing.assert_array_equal(
        some.X.toarray(), [[0, 1, 0, 0, 0, 0], [0] * 6, [0, 0, 0, 1, 1, 0]]
    )
    with pytest.raises(ValueError, match="20000 bytes, at most 10000"):
        names.transform([[["x" * 20_000]]])


def test_many_names_are_those_of_a_dictionary():
    rng = np.random.default_rng(5)
    sequences = [
        [[f"n{i}" for i in rng.integers(0, 3000, size=3)] for _ in range(1 + s % 4)]
        for s in range(1500)
    ]
    number = {}
    expected = [
        [number.setdefault(name, len(number)) for name in token]
        for sequence in sequences
        for token in sequence
    ]
    names = Attributes()
    X = names.fit(iter(sequences)).X
    assert names.names == list(number)
    counts = np.zeros(X.shape)
    for t, token in enumerate(expected):
        np.add.at(counts[t], token, 1)
    np.testing.assert_array_equal(X.toarray(), counts)
    np.testing.assert_array_equal(names.transform(sequences).X.toarray(), counts)


def test_hashed_attributes_need_no_names(tmp_path):
    sequences = [[["a", "b"], ["a"]], [["c", "a", "b"]]]
    plain, hashed = Attributes().fit(sequences), Attributes(hash_bits=16)
    read = hashed.fit(sequences)
    assert read.X.shape == (3, 1 << 16)
    assert hashed.names == []
    used = np.flatnonzero(read.X.sum(axis=0))
    assert used.size == 3
    for column in plain.X.toarray().T:  # each name has a column of its own
        assert (read.X[:, used].toarray() == column[:, None]).all(axis=0).any()
    again = _stored(hashed, tmp_path).transform([[["a", "never seen"]]]).X
    assert again[0, int(read.X.sum(axis=0).argmax())] == 1
    assert again.nnz == 2
    often = hashed.fit(sequences, least=2).X
    assert often.shape == read.X.shape
    np.testing.assert_array_equal(often.sum(axis=1), [2, 1, 2])
    few = Attributes(hash_bits=1).fit(sequences).X  # collisions add up
    np.testing.assert_array_equal(few.sum(axis=1), [2, 1, 3])
    for bits in (0, 31, 2.5):
        with pytest.raises(ValueError, match="hash_bits must be"):
            Attributes(hash_bits=bits)
    with pytest.raises(ValueError, match="no names"):
        Attributes(["a"], hash_bits=4)


def test_a_model_of_tokens_that_were_read_before():
    names = Attributes(hash_bits=12)
    model = ChainClassifier(potential=0.01).fit(names.fit(WORDS), TAGS)
    assert model.attributes_ is names
    assert model.score(WORDS, TAGS) == 1.0
    assert model.score(names.transform(WORDS), TAGS) == 1.0
    other = Attributes(hash_bits=10)
    with pytest.raises(ValueError, match="X has 1024 features"):
        model.predict(other.fit(WORDS))


@pytest.mark.parametrize(
    ("sequences", "error", "message"),
    [
        ([[["a"]], []], ValueError, "sequence 1 is empty"),
        ([["word"]], TypeError, "token 0 of sequence 0 must be a list"),
        ([[[1]]], TypeError, "no text"),
        ([[{"x": float("nan")}]], ValueError, "impute"),
        ([[{"x": None}]], TypeError, "expected a text"),
    ],
)
def test_tokens_that_are_none(sequences, error, message):
    with pytest.raises(error, match=message):
        Attributes().fit(sequences)


def test_a_map_of_all_pairs_is_a_chain_map(tokens):
    X, _ = tokens
    start, state = np.arange(7) * 3, np.tile(np.arange(3), 6)
    pairs = PairChainMap(X, LENGTHS, 3, start, state)
    ends = np.concatenate([[0], np.cumsum(LENGTHS)])
    whole = mx.ChainMap([X[a:b] for a, b in pairwise(ends)], 3)
    w = RNG.normal(size=whole.n_features)
    ours, theirs = pairs.scores(w), whole.scores(w)
    np.testing.assert_allclose(ours.own.values, theirs.own.values)
    _, p = mx.Chain(3).softmax(ours)
    np.testing.assert_allclose(pairs.moments(p), whole.moments(p))
    np.testing.assert_allclose(pairs.row_norms(), whole.row_norms())
    few = pairs.take(np.array([2, 0])).scores(w)
    np.testing.assert_allclose(few.own.rows()[0], ours.own.rows()[2])


def test_pairs_that_were_not_seen_score_nothing(tokens, tmp_path):
    X, labels = tokens
    pairs = PairChainMap.seen(X, LENGTHS, 3, labels)
    seen = {(a, labels[t]) for t, a in zip(*X.nonzero(), strict=True)}
    assert pairs.state.size == len(seen)
    unary = pairs.scores(np.ones(pairs.n_features)).own.values.reshape(-1, 3)
    dense = X.toarray()
    expected = [
        [sum(dense[t, a] for a in range(6) if (a, s) in seen) for s in range(3)] for t in range(11)
    ]
    np.testing.assert_allclose(unary, expected)
    w, r = RNG.normal(size=pairs.n_features), RNG.normal(size=11 * 3)
    theta = pairs.scores(w)
    p = mx.Tied(mx.Ragged(r, theta.own.offsets), np.zeros((4, 9)))
    assert np.dot(theta.own.values, r) == pytest.approx(np.dot(pairs.moments(p)[:-9], w[:-9]))
    again = _stored(pairs, tmp_path)
    np.testing.assert_array_equal(again.scores(w).own.values, theta.own.values)


def _many_sequences(n_states, n_attributes=40):
    """Sequences of 1 to 9 positions, more than one window of a kernel has."""
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 10, size=300)
    X = sparse.random_array((lengths.sum(), n_attributes), density=0.2, rng=rng, format="csr")
    labels = rng.integers(0, n_states, size=lengths.sum())
    return PairChainMap.seen(X, lengths, n_states, labels), labels, rng


@pytest.mark.parametrize("n_states", [2, 3, 8, 11])
@pytest.mark.parametrize("size", [1.0, 400.0])  # scores that a scaled recursion cannot hold
@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize("spare", [False, True], ids=["kernels", "numpy"])
def test_values_and_moments_in_one_pass_are_those_in_steps(
    n_states, size, costly, spare, monkeypatch
):
    monkeypatch.setattr(switches, "spare_small_problems", spare)
    chains, labels, rng = _many_sequences(n_states)
    chain = mx.Chain(n_states)
    observed = chain.encode(np.split(labels, chains._cuts[1:-1]), tied=True)
    entropy = mx.Shannon(domain=chain)
    if costly:
        entropy = mx.Shifted(entropy, mx.Tied(1 - observed.own, np.zeros((1, n_states**2))))
    weights = rng.random(chains.n_rows)
    w = size * rng.normal(size=chains.n_features)
    values, moments = chains.conjugate_and_moments(entropy, w, weights)
    expected, p = entropy.conjugate(chains.scores(w))
    scaled = mx.Tied(
        mx.Ragged(p.own.values * np.repeat(weights, np.diff(p.own.offsets)), p.own.offsets),
        p.tied * weights[:, None],
    )
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(moments, chains.moments(scaled), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("potential", [mx.Quadratic(0.1), mx.Box(0.01), mx.ElasticNet(0.02, 0.1)])
def test_the_certificate_needs_no_points(potential):
    chains, labels, rng = _many_sequences(3)
    chain = mx.Chain(3)
    observed = chain.encode(np.split(labels, chains._cuts[1:-1]), tied=True)
    problem = mx.Problem(mx.Shannon(domain=chain), chains, potential, observed=observed)
    w = rng.normal(size=chains.n_features)
    short, plain = problem.state(w), problem.state(w, chains.scores(w))
    assert not short.evaluation.written
    assert plain.evaluation.written
    assert short.dual == pytest.approx(plain.dual, rel=1e-12)
    assert short.gap == pytest.approx(plain.gap, rel=1e-9)
    assert "image" not in vars(short.evaluation)
    np.testing.assert_allclose(short.gradient, plain.gradient, atol=1e-12)
    np.testing.assert_allclose(problem.origin().gradient, problem.state(0 * w).gradient)


def test_the_best_paths_of_a_map_are_those_of_the_chain():
    chains, _, rng = _many_sequences(5)
    w = rng.normal(size=chains.n_features)
    chain = mx.Chain(5)
    expected = chain.decode(chain.argmax(chains.scores(w)))
    np.testing.assert_array_equal(chains.best_paths(w), np.concatenate(expected))


def test_a_map_that_the_short_cut_does_not_serve():
    chains, _, rng = _many_sequences(3)
    w, weights = rng.normal(size=chains.n_features), np.ones(chains.n_rows)
    forbidden = mx.Shannon(domain=mx.Chain(3, forbidden=((0, 1),)))
    assert chains.conjugate_and_moments(forbidden, w, weights) is None
    assert chains.conjugate_and_moments(mx.Zero(domain=mx.Chain(3)), w, weights) is None


def test_conll_files(tmp_path):
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(b"He PRP B-NP\nruns VBZ B-VP\n\n\n. . O\n"))
    assert read_conll(path) == [
        [("He", "PRP", "B-NP"), ("runs", "VBZ", "B-VP")],
        [(".", ".", "O")],
    ]
    path = tmp_path / "bad.txt"
    path.write_text("a b\nc\n")
    with pytest.raises(ValueError, match=r"bad\.txt, line 2: 1 columns"):
        read_conll(path)
    path.write_text("\n\n")
    with pytest.raises(ValueError, match="no tokens"):
        read_conll(path)


def test_phrases_as_conlleval_counts_them():
    assert list(phrases(["I-NP", "B-NP", "I-NP", "O", "I-VP", "I-NP"])) == [
        (0, 1, "NP"),
        (1, 3, "NP"),
        (4, 5, "VP"),
        (5, 6, "NP"),
    ]
    scores = phrase_scores([["B-A", "I-A", "O"], ["B-B"]], [["B-A", "O", "O"], ["B-B"]])
    assert (scores.correct, scores.predicted, scores.given) == (1, 2, 2)
    assert scores.f1 == 0.5
    assert scores.accuracy == 0.75
    with pytest.raises(ValueError, match="expected O, B-TYPE or I-TYPE"):
        list(phrases(["X-NP"]))


WORDS = [[["the"], ["cat"]], [["a"], ["dog"], ["barks"]], [["the"], ["dog"], ["sleeps"]]]
TAGS = [["D", "N"], ["D", "N", "V"], ["D", "N", "V"]]


@pytest.mark.parametrize("loss", ["crf", "softmax-margin", "hinge"])
def test_a_tagger_learns_and_is_certified(loss, tmp_path):
    model = ChainClassifier(loss, 0.01, tol=1e-7).fit(WORDS, TAGS)
    assert model.gap_ <= 1e-7
    assert model.score(WORDS, TAGS) == 1.0
    assert [p.tolist() for p in model.predict([[["a"], ["cat"], ["barks"]]])] == [["D", "N", "V"]]
    again = _stored(model, tmp_path)
    np.testing.assert_array_equal(again.predict(WORDS)[1], model.predict(WORDS)[1])
    best = model.predict_kbest(WORDS[:1], 2)[0]
    assert best[0][0] >= best[1][0]
    assert best[0][1].tolist() == ["D", "N"]
    for p in model.predict_proba(WORDS):
        np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("loss", ["crf", "hinge", "sparsemap"])
def test_dense_sequences_are_those_of_the_problem(loss):
    sequences = [RNG.normal(size=(n, 4)) for n in (2, 3, 4, 3)]
    labels = [RNG.integers(0, 3, len(x)) for x in sequences]
    model = ChainClassifier(loss, 0.1, tol=1e-8).fit(sequences, labels)
    assert model.gap_ <= 1e-8
    chain = mx.Chain(3)
    tied = loss != "sparsemap"
    observed = chain.encode(labels, tied=tied)
    if loss == "hinge":
        cost = mx.Tied(1 - observed.own, np.zeros((1, 9)))
        entropy = mx.Shifted(mx.Zero(domain=chain), cost)
    else:
        entropy = (mx.Shannon if loss == "crf" else mx.SquaredNorm)(domain=chain)
    problem = mx.Problem(
        entropy, mx.ChainMap(sequences, 3, tied=tied), mx.Quadratic(0.1), observed=observed
    )
    state = problem.state(model.weights_)
    assert model.objective_ - problem.solve().objective <= 1e-6 or state.gap <= 1e-7
    assert model.log_loss(sequences, labels) > 0


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], [], "no sequences"),
        (WORDS, TAGS[:2], "X has 3 sequences, y has 2"),
        (WORDS, [["D"], *TAGS[1:]], "sequence 0 has 2 positions"),
        (WORDS, [["D"] * len(t) for t in TAGS], "at least two different ones"),
        (WORDS, None, "requires y"),
        ([np.ones((2, 2)), np.ones((1, 3))], [[0, 1], [1]], "different numbers of features"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        ChainClassifier().fit(X, y)


def test_another_kind_of_sequence_is_refused():
    model = ChainClassifier().fit(WORDS, TAGS)
    with pytest.raises(ValueError, match="fitted to lists of tokens"):
        model.predict([np.ones((2, 3))])
    with pytest.raises(ValueError, match="labels that training did not have"):
        model.log_loss(WORDS[:1], [["D", "X"]])


def test_tokens_without_names_among_others():
    names = Attributes()
    tokens = names.fit([[[], ["a"], []], [["b", "a"], []]])
    assert tokens.X.toarray().tolist() == [[0, 0], [1, 0], [0, 0], [1, 1], [0, 0]]
    assert names.transform([[["", "a\nb", "a"], []]]).X.toarray().tolist() == [[1, 0], [0, 0]]


def test_the_distribution_of_a_solution_is_written_when_it_is_asked_for():
    X = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    chains = PairChainMap.seen(X, np.array([2, 1]), 2, np.array([0, 1, 1]))
    chain = mx.Chain(2)
    observed = chain.encode([np.array([0, 1]), np.array([1])], tied=True)
    problem = mx.Problem(mx.Shannon(domain=chain), chains, mx.Quadratic(0.1), observed=observed)
    solution = problem.solve()
    assert callable(vars(solution)["p"])
    expected = problem.state(solution.w).p
    np.testing.assert_array_equal(solution.p.own.values, expected.own.values)
    assert solution.p is solution.p


def test_an_empty_sequence_is_predicted_as_empty():
    named = ChainClassifier("crf", 0.1).fit(WORDS, TAGS)
    dense = ChainClassifier("crf", 0.1).fit([np.eye(3)[:2], np.eye(3)], [[0, 1], [0, 1, 2]])
    for model, some, empty in (
        (named, WORDS[1], []),
        (dense, np.eye(3), np.empty((0, 3))),
        (dense, np.eye(3), sparse.csr_array((0, 3))),
    ):
        mixed, alone = model.predict([empty, some, empty]), model.predict([some])
        assert [len(path) for path in mixed] == [0, 3, 0]
        np.testing.assert_array_equal(mixed[1], alone[0])
        assert mixed[0].dtype == mixed[1].dtype
        assert [p.shape for p in model.predict_proba([empty, some])] == [(0, 3), (3, 3)]
        (score, path), *others = model.predict_kbest([empty], 2)[0]
        assert (score, len(path), others) == (0.0, 0, [])
    assert named.score([[], WORDS[0]], [[], TAGS[0]]) == named.score(WORDS[:1], TAGS[:1])


def test_weights_that_an_l1_penalty_has_made_0_are_not_stored():
    model = ChainClassifier("crf", mx.Box(0.1)).fit(WORDS, TAGS)
    before = model.weights_.copy(), model.state_.copy(), model.start_.copy()
    used, size = model.coef_, model.state_.size
    assert used.nnz == np.count_nonzero(model.weights_[:size]) < size
    assert not (used.data == 0).any()
    for a, b in zip(before, (model.weights_, model.state_, model.start_), strict=True):
        np.testing.assert_array_equal(a, b)
    full = sparse.csr_array((before[0][:size], before[1], before[2]), shape=used.shape[::-1])
    np.testing.assert_array_equal(used.toarray(), full.toarray().T)


def test_a_callback_sees_the_model_and_can_stop_the_fit():
    seen = []

    def look(iteration, model):
        seen.append((iteration, model.objective_, model.score(WORDS, TAGS)))
        return iteration == 3

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who stops a fit is not warned
        model = ChainClassifier("crf", 1e-4, tol=1e-12).fit(WORDS, TAGS, callback=look)
    assert [iteration for iteration, _, _ in seen] == [1, 2, 3]
    assert (model.n_iter_, model.objective_) == (3, pytest.approx(seen[-1][1]))
    assert seen[0][1] > seen[-1][1]
    model.fit(WORDS, TAGS)
    assert model.n_iter_ > 3
    assert len(seen) == 3
    chosen = mx.L2CRFCV([1.0, 0.1], cv=2).fit(WORDS * 2, TAGS * 2, callback=look)
    assert chosen.n_iter_ <= 3
    with pytest.raises(ValueError, match="hidden labels are a series of them: leave it out"):
        model.fit(WORDS, [[None, "N"], *TAGS[1:]], callback=look)
