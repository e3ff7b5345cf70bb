"""Chains of higher order: every quantity by enumeration of the label sequences."""

import itertools

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent.rows.arrays import Tied, row_dot
from maxent.structured import Chain, HigherOrderChain


def _score(path, nodes, tables, start, end):
    """Of a sequence of labels, term by term; one table per position."""
    order = start.ndim
    runs = [path[t : t + order + 1] for t in range(len(path) - order)]
    own = sum(nodes[t, label] for t, label in enumerate(path))
    ends = start[path[:order]] + end[path[-order:]]
    return own + ends + sum(table[run] for table, run in zip(tables, runs, strict=True))


@pytest.mark.parametrize(
    ("labels", "order", "length"), [(2, 2, 5), (3, 2, 4), (2, 3, 5), (2, 3, 3)]
)
@pytest.mark.parametrize("tied", [True, False])
def test_by_enumeration_of_labels(labels, order, length, tied):
    rng = np.random.default_rng(order * length)
    model = HigherOrderChain(labels, order)
    nodes = rng.normal(size=(1, length, labels))
    tables = rng.normal(size=(length - order, *[labels] * (order + 1)))
    if tied:
        tables[:] = tables[:1]
    start, end = rng.normal(size=(2, *[labels] * order))
    shared = rng.normal(size=tables.shape[1:]) if not len(tables) else tables[0]
    theta = model.scores(nodes, shared if tied else tables[None], start, end)
    assert isinstance(theta, Tied) == tied
    paths = list(itertools.product(range(labels), repeat=length))
    scores = np.array([_score(path, nodes[0], tables, start, end) for path in paths])
    vertices = model.encode(np.array(paths), tied=tied)
    table = shared if tied else np.tile(tables, (len(paths), *[1] * tables.ndim))
    every = model.scores(np.tile(nodes, (len(paths), 1, 1)), table, start, end)
    np.testing.assert_allclose(row_dot(every, vertices), scores)
    assert model.chain.contains(vertices).all()
    log_partition, p = model.chain.softmax(theta)
    assert log_partition[0] == pytest.approx(special.logsumexp(scores))
    probability = special.softmax(scores)
    marginals = np.zeros((length, labels))
    counts = np.zeros(tables.shape[1:])
    for path, mass in zip(paths, probability, strict=True):
        marginals[np.arange(length), path] += mass
        for t in range(length - order):
            counts[path[t : t + order + 1]] += mass
    np.testing.assert_allclose(model.label_marginals(p)[0], marginals, atol=1e-12)
    np.testing.assert_allclose(model.run_marginals(p)[0], counts, atol=1e-12)
    assert tuple(model.decode(model.chain.argmax(theta))[0]) == paths[int(scores.argmax())]
    best, batches = model.chain.kbest(theta, 3)
    np.testing.assert_allclose(best[0], np.sort(scores)[::-1][:3])
    assert tuple(model.decode(batches[1])[0]) == paths[int(np.argsort(scores)[-2])]


def test_order_one_is_a_chain():
    rng = np.random.default_rng(0)
    model = HigherOrderChain(3, 1)
    assert model.chain == Chain(3)
    nodes, block = rng.normal(size=(2, 4, 3)), rng.normal(size=(3, 3))
    ours, theirs = model.scores(nodes, block), Chain(3).scores(nodes, block)
    assert [x.tolist() for x in ours.rows()] == [x.tolist() for x in theirs.rows()]


def test_ragged_sequences_and_a_block_per_sequence():
    rng = np.random.default_rng(0)
    model = HigherOrderChain(2, 2)
    nodes = [rng.normal(size=(n, 2)) for n in (2, 5, 3)]
    tables = rng.normal(size=(3, 2, 2, 2))
    value, p = model.chain.softmax(model.scores(nodes, tables))
    for i, (x, table) in enumerate(zip(nodes, tables, strict=True)):
        alone, q = model.chain.softmax(model.scores([x], table))
        assert value[i] == pytest.approx(alone[0])
        np.testing.assert_allclose(model.label_marginals(p)[i], model.label_marginals(q)[0])
    labels = [rng.integers(0, 2, n) for n in (2, 5, 3)]
    for tied in (True, False):
        decoded = model.decode(model.encode(labels, tied=tied))
        assert [x.tolist() for x in decoded] == [x.tolist() for x in labels]


@pytest.mark.parametrize("kind", [mx.Shannon, mx.SquaredNorm])
def test_losses_of_labels(kind):
    """The loss is 0 nowhere else than at its prediction, and its gradient is p - y."""
    rng = np.random.default_rng(0)
    model = HigherOrderChain(2, 2)
    theta = model.scores(rng.normal(size=(1, 4, 2)), rng.normal(size=(1, 2, 2, 2, 2)))
    y = model.encode(np.array([[0, 1, 1, 0]]))
    loss = mx.FenchelYoungLoss(kind(domain=model.chain))
    value, gradient = loss.value_and_gradient(theta, y)
    v, h = rng.normal(size=theta.shape), 1e-6
    slope = (loss.value(theta + h * v, y) - loss.value(theta - h * v, y)) / (2 * h)
    assert value[0] > 0
    assert np.sum(gradient * v) == pytest.approx(slope[0], rel=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HigherOrderChain(0, 2), "n_labels >= 1"),
        (lambda: HigherOrderChain(2, 1.5), "order >= 1"),
        (lambda: HigherOrderChain(100, 5), "more than the limit"),
        (lambda: HigherOrderChain(2, 3).encode([[0, 1]]), "2 labels, fewer than the order 3"),
        (lambda: HigherOrderChain(2, 2).encode([[0, 2]]), "labels run from 0 to 1"),
        (lambda: HigherOrderChain(2, 2).encode([[0.0, 1.0]]), "integer labels"),
        (lambda: HigherOrderChain(2, 2).scores([np.zeros((1, 2))], np.zeros((2, 2, 2))), "fewer"),
        (lambda: HigherOrderChain(2, 2).scores([np.zeros((3, 3))], np.zeros((2, 2, 2))), "matrix"),
        (lambda: HigherOrderChain(2, 2).scores([np.zeros((3, 2))], np.zeros((2, 2))), "of order 2"),
        (
            lambda: HigherOrderChain(2, 2).scores(
                [np.zeros((3, 2))], np.zeros((2, 2, 2)), start=[0.0, 0.0]
            ),
            "runs of 2 labels",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
