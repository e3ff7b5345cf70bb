"""What structures are made of: each wrong part is named, and none is rounded or left out."""

import numpy as np
import pytest

import maxent as mx

NO_TWO_ONES = mx.Automaton(2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=(0, 1))
SEGMENTS = mx.SemiMarkov(2, 3)
ZEROS = np.zeros((2, 2))
REFUSED = {
    "word of floats": (lambda: NO_TWO_ONES.encode([[1.0, 0.0]]), "word 0 is a sequence of integer"),
    "table as a word": (lambda: NO_TWO_ONES.encode([[[1, 0]]]), "word 0 is a sequence of integer"),
    "empty word": (lambda: NO_TWO_ONES.encode([[]]), "word 0 is not accepted"),
    "half a state": (
        lambda: mx.Automaton(1, [(0, 0, 0)], final=(0,), initial=0.5),
        "states are integers",
    ),
    "target of floats": (lambda: mx.Automaton.ctc([1.7], 3), "target of CTC is a sequence of int"),
    "target as a text": (lambda: mx.Automaton.ctc("1", 3), "target of CTC is a sequence of int"),
    "alignment of floats": (lambda: mx.collapse([0.5, 1.7]), "alignment of CTC is a sequence"),
    "alignment table": (lambda: mx.collapse(ZEROS.astype(int)), "alignment of CTC is a sequence"),
    "segment of floats": (lambda: SEGMENTS.encode([[(0, 1.0, 0)]]), "three integers"),
    "segment without label": (lambda: SEGMENTS.encode([[(0, 1)]]), "three integers"),
    "too few begins": (
        lambda: SEGMENTS.sums([ZEROS, ZEROS], np.zeros((3, 2)), ZEROS, begins=[ZEROS]),
        "content is of 2 sequences, begins of 1",
    ),
    "too many ends": (
        lambda: SEGMENTS.sums([ZEROS], np.zeros((3, 2)), ZEROS, ends=[ZEROS, ZEROS]),
        "content is of 1 sequences, ends of 2",
    ),
    "edge of floats": (lambda: mx.Tree([(0.5, 1)], 2), "edges of a Tree are pairs"),
    "one flat edge": (lambda: mx.Tree((0, 1), 2), "edges of a Tree are pairs"),
    "half a state of a node": (lambda: mx.Tree([(0, 1)], (2.5, 2)), "n_states of a Tree is an int"),
    "half a state of all": (lambda: mx.Tree([(0, 1)], 2.5), "n_states of a Tree is an integer"),
    "row of another tree": (lambda: mx.Tree([(0, 1)], 2).decode(np.zeros((1, 5))), "got 5"),
    "row of another lattice": (lambda: mx.Lattice([(0, 1)]).decode(np.ones((1, 3))), "got 3"),
    "half an element": (lambda: mx.Alignment((2.5,), (3,)), "lengths of an Alignment are an int"),
    "length as a float": (lambda: mx.Alignment(2.0, 3), "lengths of an Alignment are an integer"),
    "label of a span": (lambda: mx.ConstituencyTree().encode([[(0, 0, 0.0)]]), "three integers"),
    "span without label": (lambda: mx.ConstituencyTree().encode([[(0, 0)]]), "three integers"),
    "no transitions": (lambda: mx.Chain(2).scores([ZEROS], []), "transitions over 2 states"),
    "no runs": (lambda: mx.HigherOrderChain(2, 1).scores([ZEROS], []), "transitions of order 1"),
    "half a structure": (
        lambda: mx.sparse_distribution(mx.KSubset(1), [1.0, 0.0], mx.Tsallis(2.0), k=1.5),
        "k and max_k are integers",
    ),
    "half of an entropy": (
        lambda: mx.DistributionEntropy(mx.Tsallis(2.0), mx.KSubset(1), k=1.5),
        "k and max_k are integers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_parts_are_named(name):
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_a_domain_without_a_list_of_the_best_is_named():
    with pytest.raises(TypeError, match=r"needs a domain with the k best .* got Cube"):
        mx.sparse_distribution(mx.Cube(), [1.0, 0.0], mx.Tsallis(2.0))


def test_begins_and_ends_may_be_an_array():
    parts = np.arange(8.0).reshape(2, 2, 2)
    durations = np.zeros((3, 2))
    listed = SEGMENTS.sums(list(parts), durations, ZEROS, list(parts), list(parts))
    stacked = SEGMENTS.sums(parts, durations, ZEROS, parts, parts)
    np.testing.assert_array_equal(listed.own.values, stacked.own.values)


@pytest.mark.parametrize(
    "domain",
    [mx.Chain(2), SEGMENTS, NO_TWO_ONES, mx.Arborescence(), mx.ProjectiveTree(), mx.Birkhoff()],
    ids=repr,
)
def test_batches_may_have_no_rows(domain):
    nothing = mx.Ragged(np.zeros(0), np.zeros(1, np.int64))
    scores, best = domain.kbest(nothing, 2)
    assert scores.shape == (0, 2)
    assert [len(batch) for batch in best] == [0, 0]
    assert len(domain.argmax(nothing)) == len(domain.project(nothing)) == 0
    if isinstance(domain, mx.StructuredDomain):
        assert [len(batch) for batch in domain.sample(nothing, 3)] == [0, 0, 0]
        assert domain.softmax(nothing)[0].shape == domain.entropy(nothing).shape == (0,)


@pytest.mark.parametrize(("scale", "mask"), [(1e-17, None), (1e-300, None), (1.0, -1e30)])
@pytest.mark.parametrize(
    ("domain", "size"),
    [
        (mx.Chain(3), 15 + 4 * 9),
        (mx.Arborescence(), 16),
        (mx.ConstituencyTree(), 16),
        (mx.KSubset(2), 6),
        (mx.Birkhoff(), 16),
        (mx.Alignment(3, 3), 9),
    ],
    ids=repr,
)
def test_max_marginals_of_small_scores_and_beside_large_ones(domain, size, scale, mask):
    """A bonus for each entry must not round its scores away."""
    rng = np.random.default_rng(1)
    vertices = domain.vertices(size)
    for _ in range(5):
        theta = scale * rng.normal(size=size)
        if mask is not None:
            theta[rng.random(size) < 0.4] = mask
        scores = vertices @ theta
        best = [np.max(scores[v > 0.5], initial=-np.inf) for v in vertices.T]
        unit = scale if np.max(scores) > -1e20 else -mask
        found = mx.max_marginals(domain, theta)
        right = np.isclose(found, best, rtol=1e-12, atol=1e-7 * unit) | (found == best)
        assert right.all(), (found, best)


def test_max_marginals_of_alignments_of_different_sizes():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=n * m) for n, m in ((1, 2), (3, 2))]
    domain = mx.Alignment((1, 3), (2, 2))
    found = mx.max_marginals(domain, mx.Ragged.from_rows(rows)).rows()
    for row, shape, best in zip(rows, ((1, 2), (3, 2)), found, strict=True):
        np.testing.assert_array_equal(best, mx.max_marginals(mx.Alignment(*shape), row))
