"""Automata: every oracle by enumeration, the chain as a limit, alignments of CTC, bad input."""

import itertools

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent import Automaton, Ragged, collapse
from maxent.testing import check_domain

NO_TWO_ONES = Automaton(2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=(0, 1))
CASES = [
    (NO_TWO_ONES, 6),
    (Automaton.ctc([1, 1, 2], 3), 12),
    (Automaton.ctc([], 2), 4),
    (Automaton(2, [(3, 1, 3)], final=(3,), initial=3), 4),
    (Automaton(2, [(0, 0, 0), (0, 0, 1), (1, 1, 1)], final=(1,), scores="arcs"), 9),
]


@pytest.mark.parametrize(("automaton", "size"), CASES, ids=str)
def test_oracles(automaton, size):
    check_domain(automaton, size)


@pytest.mark.parametrize("target", [[], [1], [1, 1], [2, 1, 2]])
@pytest.mark.parametrize("blank", [0, 2])
def test_the_words_of_ctc_are_those_that_collapse_to_the_target(target, blank):
    target = [label if label != blank else 0 for label in target]
    automaton = Automaton.ctc(target, 3, blank)
    for length in (3, 4, 5):
        wanted = {
            word
            for word in itertools.product(range(3), repeat=length)
            if collapse(word, blank) == target
        }
        found = automaton.decode(automaton.vertices(3 * length)) if wanted else []
        assert {tuple(word.tolist()) for word in found} == wanted


def test_an_automaton_of_all_words_is_a_product_of_simplices():
    free = Automaton(3, [(0, label, 0) for label in range(3)], final=(0,))
    theta = np.random.default_rng(0).normal(size=(4, 15))
    product = mx.Product(mx.Simplex(), 5)
    np.testing.assert_allclose(free.project(theta), product.project(theta), atol=1e-12)
    np.testing.assert_allclose(free.softmax(theta)[1], product.softmax(theta)[1], atol=1e-13)


def test_arcs_of_a_weighted_automaton_are_transitions_of_a_chain():
    """States that remember the last label, with a weight for each change."""
    rng, k, length = np.random.default_rng(1), 3, 5
    change, nodes = rng.normal(size=(k, k)), rng.normal(size=(length, k))
    arcs = [(0, j, 1 + j) for j in range(k)]
    arcs += [(1 + i, j, 1 + j) for i in range(k) for j in range(k)]
    automaton = Automaton(k, arcs, final=(1, 2, 3), scores="arcs")
    theta = automaton.arc_scores(nodes, np.append(np.zeros(k), change.ravel()))
    value, p = automaton.softmax(theta)
    chain = mx.Chain(k).scores(nodes[None], change)
    expected, mean = mx.Chain(k).softmax(chain)
    assert value == pytest.approx(expected[0], rel=1e-13)
    emitted = np.zeros((length, k))
    for a, (_, label, _) in enumerate(automaton.arcs):
        emitted[:, label] += p.reshape(length, -1)[:, a]
    np.testing.assert_allclose(emitted, mean.own.values.reshape(length, k), atol=1e-13)
    (best,) = mx.Chain(k).decode(mx.Chain(k).argmax(chain))
    np.testing.assert_array_equal(automaton.decode(automaton.argmax(theta))[0], best)


def test_sequences_of_different_lengths():
    rng = np.random.default_rng(2)
    rows = Ragged.from_rows([rng.normal(size=2 * n) for n in (4, 1, 3, 4)])
    value, p = NO_TWO_ONES.softmax(rows)
    for i, row in enumerate(rows.rows()):
        alone, mean = NO_TWO_ONES.softmax(row)
        assert value[i] == pytest.approx(float(alone), rel=1e-14)
        np.testing.assert_allclose(p.rows()[i], mean, atol=1e-14)
    scores, batches = NO_TWO_ONES.kbest(rows, 3)
    assert scores.shape == (4, 3)
    assert scores[1, 2] == -np.inf  # a single position has two words
    words = NO_TWO_ONES.decode(batches[0])
    np.testing.assert_array_equal(NO_TWO_ONES.encode(words).values, batches[0].values)
    drawn = NO_TWO_ONES.sample(rows, 3000, random_state=0)
    np.testing.assert_allclose(np.mean([x.values for x in drawn], axis=0), p.values, atol=0.04)


def test_entropy_and_divergence_of_words():
    theta = np.random.default_rng(3).normal(size=8)
    vertices = NO_TWO_ONES.vertices(8)
    chance = special.softmax(vertices @ theta)
    _, p = NO_TWO_ONES.softmax(theta)
    assert NO_TWO_ONES.negentropy(p[None])[0] == pytest.approx(
        -special.entr(chance).sum(), abs=1e-9
    )
    loss = mx.FenchelYoungLoss(mx.Shannon(domain=NO_TWO_ONES))
    target = NO_TWO_ONES.encode([[0, 1, 0, 1]]).rows()[0]
    own = np.flatnonzero((vertices == target).all(axis=1))
    assert loss.value(theta, target) == pytest.approx(-np.log(chance[own[0]]), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: Automaton(0, [(0, 0, 0)], (0,)), ValueError, "n_labels >= 1"),
        (lambda: Automaton(2, [(0, 0)], (0,)), ValueError, "triples"),
        (lambda: Automaton(2, [(0, 0, 0)], ()), ValueError, "some are final"),
        (lambda: Automaton(2, [(0, 2, 0)], (0,)), ValueError, "labels run from 0 to 1"),
        (lambda: Automaton(2, [(0, 0, 0), (0, 0, 1)], (1,)), ValueError, "deterministic"),
        (lambda: Automaton(2, [(0, 0, 0)], (0,), scores="words"), ValueError, '"labels" or'),
        (lambda: Automaton.ctc([0], 2), ValueError, "not the blank 0"),
        (lambda: Automaton.ctc([1, 1], 2).argmax(np.zeros(4)), ValueError, "no word of 2 labels"),
        (lambda: NO_TWO_ONES.argmax(np.zeros(5)), ValueError, "2 scores for each position"),
        (lambda: NO_TWO_ONES.encode([[1, 1]]), ValueError, "word 0 is not accepted"),
        (lambda: CASES[4][0].encode([[0]]), TypeError, "several paths"),
        (lambda: NO_TWO_ONES.arc_scores(np.zeros((2, 3)), [0, 0, 0]), ValueError, "arc_scores"),
    ],
)
def test_bad_input_is_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()
