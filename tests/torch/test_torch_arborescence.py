"""Dependency trees in torch: the numbers of the core, derivatives of any order, both ways."""

import numpy as np
import pytest

from maxent.structured import Arborescence
from tools import needs

torch = needs("torch")

import maxent.torch.structured as mts  # noqa: E402
from maxent.torch.structured import _arborescence_plain  # noqa: E402

ROOTS = ["single", "multi"]
LENGTHS = torch.tensor([5, 2, 4])


def normal(*shape, scale=1.0, dtype=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(0)
    x = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_(grad)


def heads_of(root, n, rows):
    trees = Arborescence(root=root)
    drawn = trees.sample(np.zeros((rows, n * n)), random_state=0)[0]
    return torch.from_numpy(np.array(trees.decode(drawn)))


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_numbers_of_the_core(root, dtype) -> None:
    trees = Arborescence(root=root)
    scores = normal(3, 5, 5, dtype=dtype)
    log_partition = mts.arborescence_log_partition(scores, LENGTHS, root)
    p = mts.arborescence_marginals(scores, LENGTHS, root)
    sparse = mts.arborescence_sparsemap(scores, LENGTHS, root)
    best = mts.arborescence_argmax(scores, LENGTHS, root)
    assert log_partition.dtype == p.dtype == dtype
    for i, n in enumerate(LENGTHS.tolist()):
        row = scores[i, :n, :n].numpy().ravel()
        value, mean = trees.softmax(row)
        assert float(log_partition[i]) == pytest.approx(float(value), rel=1e-6)
        np.testing.assert_array_equal(p[i, :n, :n].numpy().ravel(), mean)
        np.testing.assert_array_equal(sparse[i, :n, :n].numpy().ravel(), trees.project(row))
        np.testing.assert_array_equal(best[i, 1:n], trees.decode(trees.argmax(row))[0])
        assert not p[i, n:].any()
        assert not p[i, :, n:].any()
        assert not best[i, n:].any()
    whole = mts.arborescence_marginals(scores, root=root)
    np.testing.assert_array_equal(
        whole.flatten(1).numpy(), trees.softmax(scores.flatten(1).numpy())[1]
    )


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("lengths", [None, torch.tensor([4, 2])])
def test_derivatives(root, lengths) -> None:
    scores = normal(2, 4, 4, grad=True)
    for function in (mts.arborescence_log_partition, mts.arborescence_marginals):
        call = lambda x, f=function: f(x, lengths, root)  # noqa: E731
        assert torch.autograd.gradcheck(call, scores)
        assert torch.autograd.gradgradcheck(call, scores, fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda x: mts.arborescence_sparsemap(x, lengths, root), scores, atol=1e-4
    )


@pytest.mark.parametrize("root", ROOTS)
def test_derivatives_of_flat_scores(root) -> None:
    """Words that are heads of all others, as before training: many cuts, and very many trees."""
    scores = (0.3 * normal(2, 12, 1) + 0.05 * normal(2, 12, 12)).requires_grad_()
    lengths = torch.tensor([12, 9])
    assert torch.autograd.gradcheck(
        lambda x: mts.arborescence_sparsemap(x, lengths, root), scores, eps=1e-6, atol=1e-8
    )
    heads = torch.zeros(2, 12, dtype=torch.long)
    heads[:, 2:] = 1
    assert torch.autograd.gradcheck(
        lambda x: mts.arborescence_sparsemap_loss(x, heads, lengths, root), scores
    )


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("kind", ["crf", "sparsemap", "hinge", "perceptron"])
def test_losses(root, kind) -> None:
    """0 at the least, with the gradient of their differences; 0 far on the side of the tree."""
    heads = heads_of(root, 5, 3)
    heads = torch.cat([torch.zeros(3, 1, dtype=torch.int64), heads], dim=1)
    loss = mts.ArborescenceLoss(kind, root, "none")
    scores = normal(3, 5, 5, grad=True)
    values = loss(scores, heads)
    assert values.shape == (3,)
    assert (values >= 0).all()
    assert torch.autograd.gradcheck(lambda x: loss(x, heads), scores)
    if kind in ("crf", "sparsemap"):
        assert torch.autograd.gradgradcheck(
            lambda x: loss(x, heads), scores, atol=1e-4, fast_mode=True
        )
    gold = torch.zeros(3, 5, 5, dtype=torch.float64).scatter_(1, heads[:, None], 1.0)
    gold[:, :, 0] = 0
    assert loss(100 * gold, heads) == pytest.approx([0, 0, 0], abs=1e-12)
    mean = mts.ArborescenceLoss(kind, root)(scores, heads)
    torch.testing.assert_close(mean, values.mean())


def test_crf_loss_of_large_scores_in_float32() -> None:
    heads = torch.tensor([[0, 0, 1, 2]])
    scores = torch.full((1, 4, 4), -3e4)
    scores[0, 0, 1] = scores[0, 1, 2] = scores[0, 2, 3] = 3e4
    scores.requires_grad_()
    loss = mts.arborescence_crf_loss(scores, heads)
    loss.backward()
    assert loss == 0
    assert torch.isfinite(scores.grad).all()


def test_hinge_by_enumeration() -> None:
    trees = Arborescence()
    vertices = trees.vertices(16)
    scores, heads = normal(1, 4, 4), torch.tensor([[0, 2, 0, 1]])
    gold = np.asarray(trees.encode(heads[:, 1:].numpy()))[0]
    row = scores.numpy().ravel()
    wrong = 3 - vertices @ gold
    for cost in (1.0, 0.3):
        expected = (vertices @ row + cost * wrong).max() - gold @ row
        value = mts.arborescence_hinge_loss(scores, heads, cost=cost)
        assert float(value) == pytest.approx(expected)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("scale", [1.0, 10.0, 1e4])
def test_plain_torch_agrees_with_the_kernels(root, scale) -> None:
    """What CUDA tensors take, here on the CPU."""
    for lengths in (None, torch.tensor([9, 1, 5, 2])):
        scores = normal(4, 9, 9, scale=scale)
        scores[0, 3, 4] = -np.inf
        value, p = _arborescence_plain.softmax(scores, lengths, root == "single")
        expected = mts.arborescence_log_partition(scores, lengths, root)
        torch.testing.assert_close(value, expected, rtol=1e-13, atol=1e-12)
        marginals = mts.arborescence_marginals(scores, lengths, root)
        torch.testing.assert_close(p, marginals, rtol=0, atol=1e-13 * max(10, scale))


def test_plain_torch_with_forbidden_arcs() -> None:
    """A node that only the root reaches decides where a single root hangs; no tree is NaN."""
    scores = normal(2, 4, 4)
    scores[0, 1:, 2] = -np.inf
    scores[1, 1:, 2:] = -np.inf
    value, p = _arborescence_plain.softmax(scores, None, True)
    assert value[1].isnan()
    assert p[1].isnan().all()
    expected, mean = Arborescence().softmax(scores[0].numpy().ravel())
    assert float(value[0]) == pytest.approx(float(expected))
    np.testing.assert_allclose(p[0].numpy().ravel(), mean, atol=1e-14)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("root", ROOTS)
def test_cuda_agrees_with_the_cpu(root) -> None:
    scores = normal(4, 12, 12, grad=True)
    lengths = torch.tensor([12, 3, 1, 7])
    heads = torch.cat([torch.zeros(4, 1, dtype=torch.int64), heads_of("single", 3, 4)], dim=1)
    heads = torch.nn.functional.pad(heads, (0, 9))
    for function in (
        mts.arborescence_log_partition,
        mts.arborescence_marginals,
        mts.arborescence_argmax,
        mts.arborescence_sparsemap,
    ):
        here = function(scores, lengths, root)
        there = function(scores.cuda(), lengths.cuda(), root).cpu()
        torch.testing.assert_close(here, there)
    for kind in ("crf", "hinge", "sparsemap"):
        loss = mts.ArborescenceLoss(kind, root)
        (here,) = torch.autograd.grad(loss(scores, heads, torch.full((4,), 3)), scores)
        (there,) = torch.autograd.grad(
            loss(scores.cuda(), heads.cuda(), torch.full((4,), 3).cuda()), scores
        )
        torch.testing.assert_close(here, there.cpu())


def test_empty_batch_and_one_node() -> None:
    assert mts.arborescence_marginals(torch.empty(0, 4, 4)).shape == (0, 4, 4)
    assert mts.arborescence_log_partition(torch.zeros(2, 1, 1)).tolist() == [0, 0]
    assert mts.arborescence_argmax(torch.zeros(2, 1, 1)).tolist() == [[0], [0]]
    value, p = _arborescence_plain.softmax(torch.zeros(2, 1, 1), None, True)
    assert value.tolist() == [0, 0]
    assert not p.any()


ZERO = torch.zeros(2, 3, 3)
GAP = torch.tensor([[True, True, False], [True, False, True]])
BAD = [
    (lambda: mts.arborescence_marginals(torch.zeros(2, 3)), ValueError, r"\(\.\.\., n, n\)"),
    (lambda: mts.arborescence_marginals(ZERO.long()), TypeError, "floating"),
    (lambda: mts.arborescence_marginals(ZERO, torch.tensor([3])), ValueError, "one per graph"),
    (lambda: mts.arborescence_argmax(ZERO, torch.tensor([3, 4])), ValueError, "from 1 to 3"),
    (lambda: mts.arborescence_argmax(ZERO, ZERO[:, 0] == 0, "x"), ValueError, "root"),
    (lambda: mts.ArborescenceLoss("crf", cost=1.0), ValueError, "not in 'crf'"),
    (lambda: mts.ArborescenceLoss("hinge", cost=-1.0), ValueError, "finite number >= 0"),
    (lambda: mts.arborescence_marginals(ZERO, GAP), ValueError, "row 1 has a gap"),
    (lambda: mts.arborescence_marginals(ZERO, GAP[0]), ValueError, "one per graph, or a bool mask"),
    (
        lambda: mts.arborescence_argmax(ZERO, torch.tensor([3, 0])),
        ValueError,
        "root included, got 0 to 3",
    ),
    (lambda: mts.arborescence_marginals(ZERO * torch.nan), ValueError, "NaN"),
    (
        lambda: mts.arborescence_log_partition(ZERO.masked_fill(torch.eye(3) == 0, -np.inf)),
        ValueError,
        "row 0 has no tree",
    ),
    (lambda: mts.arborescence_crf_loss(ZERO, torch.zeros(2, 2)), ValueError, "heads are integers"),
    (
        lambda: mts.arborescence_crf_loss(ZERO, torch.tensor([[0, 0, 1], [0, 2, 1]])),
        ValueError,
        r"\[2, 1\] of graph 1 are no tree",
    ),
    (
        lambda: mts.arborescence_hinge_loss(ZERO, torch.tensor([[0, 0, 1], [0, 0, 0]])),
        ValueError,
        "one dependent",
    ),
    (
        lambda: mts.arborescence_crf_loss(ZERO, torch.tensor([[0, 0, 1]] * 2), reduction="max"),
        ValueError,
        "reduction",
    ),
    (lambda: mts.ArborescenceLoss("svm"), ValueError, "kind must be"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_input_is_explained(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


# -- second derivatives of marginals, 16 bits, masks, costs ----------------------------------------


def enumerated(scores, root):
    """Marginals of one graph as a mean over all trees: differentiable as often as one likes."""
    n = len(scores)
    trees = torch.from_numpy(Arborescence(root=root).vertices(n * n)).reshape(-1, n * n)
    p = torch.softmax(trees @ scores.reshape(-1), 0)
    return (p @ trees).reshape(n, n)


def bends(marginals, scores):
    """A second derivative of every entry of the marginals."""
    scores = scores.clone().requires_grad_()
    n = scores.shape[-1]
    weights = torch.arange(n * n, dtype=scores.dtype).reshape(n, n).cos()
    (slope,) = torch.autograd.grad((marginals(scores) * weights).sum(), scores, create_graph=True)
    (bend,) = torch.autograd.grad((slope * weights.sin()).sum(), scores)
    return bend


@pytest.mark.parametrize("root", ["single", "multi"])
@pytest.mark.parametrize("far", [0.0, 30.0, 1000.0, 1e5])
def test_second_derivatives_of_marginals_at_every_scale(root, far):
    scores = torch.randn(2, 4, 4, dtype=torch.float64)
    scores[0, 0, 1:] -= far  # the other nodes hold each other by far more than the root does
    scores[1, 1:, 2] += far
    right = torch.stack([bends(lambda x: enumerated(x, root), each) for each in scores])
    mine = bends(lambda x: mts.arborescence_marginals(x, root=root), scores)
    torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-9)


def test_second_derivatives_of_the_shortest_graphs():
    scores, lengths = torch.randn(3, 4, 4, dtype=torch.float64), torch.tensor([1, 4, 2])
    mine = bends(lambda x: mts.arborescence_marginals(x, lengths), scores)
    assert (mine[0] == 0).all()
    assert (mine[2].abs() < 1e-12).all()
    torch.testing.assert_close(mine[1], bends(lambda x: enumerated(x, "single"), scores[1]))
    one = bends(mts.arborescence_marginals, torch.randn(2, 1, 1, dtype=torch.float64))
    assert torch.equal(one, torch.zeros(2, 1, 1, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["crf", "sparsemap", "hinge", "perceptron"])
def test_losses_of_16_bits_are_float32(dtype, kind):
    scores = (20 * torch.randn(2, 6, 6)).to(dtype).requires_grad_()
    heads = torch.tensor([[0, 0, 1, 2, 3, 4]] * 2)
    loss = mts.ArborescenceLoss(kind, reduction="none")(scores, heads)
    exact = mts.ArborescenceLoss(kind, reduction="none")(scores.detach().double(), heads)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), exact, rtol=1e-6, atol=1e-5)
    loss.sum().backward()
    assert scores.grad.dtype == dtype
    assert mts.arborescence_log_partition(scores).dtype == torch.float32
    assert mts.arborescence_marginals(scores).dtype == dtype


def test_masks_are_lengths():
    scores, lengths = torch.randn(2, 4, 4), torch.tensor([4, 2])
    mask = torch.arange(4) < lengths[:, None]
    for function in (mts.arborescence_marginals, mts.arborescence_argmax):
        assert torch.equal(function(scores, mask), function(scores, lengths))


def test_the_cost_of_a_wrong_head():
    scores, heads = torch.randn(2, 4, 4), torch.tensor([[0, 0, 1, 1], [0, 2, 0, 2]])
    loss = mts.ArborescenceLoss("hinge", cost=2.5)
    right = mts.arborescence_hinge_loss(scores, heads, cost=2.5)
    assert torch.equal(loss(scores, heads), right)
    assert "cost=2.5" in repr(loss)
    trees = torch.from_numpy(Arborescence().vertices(16)).reshape(-1, 4, 4).float()
    gold = torch.zeros(2, 4, 4).scatter_(1, heads[:, None], 1.0)
    gold[:, :, 0] = 0
    costs = 2.5 * (3 - torch.einsum("thd,bhd->bt", trees, gold))
    best = (torch.einsum("thd,bhd->bt", trees, scores) + costs).amax(1)
    torch.testing.assert_close(right, (best - (scores * gold).sum((1, 2))).mean())
