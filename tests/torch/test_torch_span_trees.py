"""Projective and constituency trees in torch: the core's numbers, derivatives of any order."""

import numpy as np
import pytest

from maxent.structured import ConstituencyTree, ProjectiveTree
from tools import needs

torch = needs("torch")

import maxent.torch.structured as mts  # noqa: E402
from maxent.torch.structured import _spans, _spans_plain  # noqa: E402

LENGTHS = torch.tensor([5, 2, 4])
# (scores of a batch, what asks them, the domain)
KINDS = {
    "single": ((5, 5), mts.ProjectiveScores, ProjectiveTree()),
    "multi": (
        (5, 5),
        lambda scores, lengths=None: mts.ProjectiveScores(scores, lengths, "multi"),
        ProjectiveTree(root="multi"),
    ),
    "binary": ((5, 5, 1), mts.ConstituencyScores, ConstituencyTree()),
    "labelled": ((5, 5, 2), mts.ConstituencyScores, ConstituencyTree(2)),
}
over_kinds = pytest.mark.parametrize("kind", KINDS)


def normal(*shape, scale=1.0, dtype=torch.float64, grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_(grad)


def trees_of(kind, n, rows, seed=0):
    """Random trees as targets."""
    shape, ask, _ = KINDS[kind]
    return ask(torch.zeros(rows, n, n, *shape[2:])).sample(1, torch.Generator().manual_seed(seed))[
        0
    ]


@over_kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_numbers_of_the_core(kind, dtype) -> None:
    shape, ask, domain = KINDS[kind]
    scores = normal(3, *shape, dtype=dtype)
    other = normal(3, *shape, dtype=dtype, seed=1)
    trees, others = ask(scores, LENGTHS), ask(other, LENGTHS)
    values, best = trees.kbest(3)
    for i, n in enumerate(LENGTHS.tolist()):
        row, second = (x[i, :n, :n].numpy().ravel() for x in (scores, other))
        value, mean = domain.softmax(row)
        assert float(trees.log_partition()[i]) == pytest.approx(float(value), rel=1e-6)
        assert trees.marginals().dtype == dtype
        for found, expected in (
            (trees.marginals(), mean),
            (trees.sparsemap(), domain.project(row)),
        ):
            np.testing.assert_allclose(
                found[i, :n, :n].numpy().ravel(),
                expected,
                atol=1e-12 if dtype is torch.float64 else 1e-6,
            )
            assert not found[i, n:].any()
            assert not found[i, :, n:].any()
        if isinstance(domain, ProjectiveTree):
            expected = domain.decode(domain.argmax(row))[0]
            np.testing.assert_array_equal(trees.argmax()[i, 1:n], expected)
            np.testing.assert_array_equal(best[i, 0, 1:n], expected)
        else:
            expected = np.asarray(domain.argmax(row))
            np.testing.assert_array_equal(trees.argmax()[i, :n, :n].numpy().ravel(), expected)
            np.testing.assert_array_equal(best[i, 0, :n, :n].numpy().ravel(), expected)
        np.testing.assert_allclose(values[i], domain.kbest(row, 3)[0], rtol=1e-6)
        for name in ("kl", "cross_entropy"):
            expected = getattr(domain, name)(row.astype(float), second.astype(float))
            found = float(getattr(trees, name)(others)[i])
            assert found == pytest.approx(float(expected), rel=1e-5, abs=1e-6)
        entropy = float(domain.entropy(row.astype(float)))
        assert float(trees.entropy()[i]) == pytest.approx(entropy, rel=1e-5, abs=1e-6)


@over_kinds
@pytest.mark.parametrize("lengths", [None, torch.tensor([4, 2])])
def test_derivatives(kind, lengths) -> None:
    shape, ask, _ = KINDS[kind]
    scores = normal(2, 4, 4, *shape[2:], grad=True)
    for name in ("log_partition", "marginals"):
        call = lambda x, name=name: getattr(ask(x, lengths), name)()  # noqa: E731
        assert torch.autograd.gradcheck(call, scores, fast_mode=True)
        assert torch.autograd.gradgradcheck(call, scores, fast_mode=True)
    assert torch.autograd.gradcheck(lambda x: ask(x, lengths).sparsemap(), scores, atol=1e-5)
    other = normal(2, 4, 4, *shape[2:], grad=True, seed=3)
    assert torch.autograd.gradcheck(lambda x: ask(x, lengths).entropy(), scores, fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda x, y: ask(x, lengths).kl(ask(y, lengths)), (scores, other), fast_mode=True
    )


@over_kinds
@pytest.mark.parametrize("loss", ["crf", "sparsemap", "hinge", "perceptron"])
def test_losses(kind, loss) -> None:
    """0 at the least, with the gradient of their differences; 0 far on the side of the tree."""
    shape, _, domain = KINDS[kind]
    module = (
        mts.ProjectiveLoss(loss, kind, "none")
        if isinstance(domain, ProjectiveTree)
        else mts.ConstituencyLoss(loss, "none")
    )
    target = trees_of(kind, 5, 3)
    scores = normal(3, *shape, grad=True)
    values = module(scores, target)
    assert values.shape == (3,)
    assert (values >= 0).all()
    assert torch.autograd.gradcheck(lambda x: module(x, target), scores, fast_mode=True)
    if loss in ("crf", "sparsemap"):
        assert torch.autograd.gradgradcheck(
            lambda x: module(x, target), scores, atol=1e-4, fast_mode=True
        )
    marks = np.asarray(
        domain.encode(target[:, 1:].numpy())
        if isinstance(domain, ProjectiveTree)
        else target.flatten(1)
    )
    vertices = domain.vertices(marks.shape[1])
    flat = scores.detach().flatten(1).numpy()
    if loss in ("hinge", "perceptron"):
        cost = float(loss == "hinge")
        wrong = marks.sum(1)[:, None] - marks @ vertices.T
        expected = (flat @ vertices.T + cost * wrong).max(1) - (flat * marks).sum(1)
        np.testing.assert_allclose(values.detach(), expected, atol=1e-12)
    far = torch.from_numpy(100 * marks).reshape(scores.shape)
    assert module(far, target).numpy() == pytest.approx([0, 0, 0], abs=1e-12)


@over_kinds
@pytest.mark.parametrize("scale", [1.0, 10.0, 1e4])
def test_plain_torch_agrees_with_the_kernels(kind, scale) -> None:
    """What CUDA tensors take, here on the CPU."""
    shape, ask, _ = KINDS[kind]
    for lengths in (torch.tensor([9, 9, 9, 9]), torch.tensor([9, 1, 5, 2])):
        scores = normal(4, 9, 9, *shape[2:], scale=scale)
        scores[0, 2, 4] = -np.inf
        trees = ask(scores, lengths)
        known = trees._rows, trees._lengths, trees._kind
        value, slopes = _spans.derivatives(*known, [torch.ones_like(trees._rows)])
        torch.testing.assert_close(value, trees.log_partition(), rtol=1e-13, atol=1e-12)
        mean = trees.marginals().reshape(slopes[0].shape)
        torch.testing.assert_close(slopes[0], mean, rtol=0, atol=1e-13 * max(100, scale))


def test_plain_torch_without_a_tree() -> None:
    scores = torch.zeros(2, 3, 3, dtype=torch.float64)
    scores[0, :, 2] = -np.inf
    for single, count in ((True, 2.0), (False, 3.0)):
        value = _spans_plain.dependency_log_partition(scores, torch.tensor([3, 3]), single)
        assert value[0].isnan()
        assert float(value[1].exp()) == pytest.approx(count)
    spans = torch.zeros(2, 3, 3, 1, dtype=torch.float64)
    spans[0, 1, 1] = -np.inf
    value = _spans_plain.constituency_log_partition(spans, torch.tensor([3, 3]))
    assert value[0].isnan()
    assert float(value[1].exp()) == pytest.approx(2.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@over_kinds
def test_cuda_agrees_with_the_cpu(kind) -> None:
    shape, ask, _ = KINDS[kind]
    scores, lengths = normal(4, 12, 12, *shape[2:]), torch.tensor([12, 3, 1, 7])
    here, there = ask(scores, lengths), ask(scores.cuda(), lengths.cuda())
    for name in ("log_partition", "marginals", "argmax", "sparsemap", "entropy"):
        torch.testing.assert_close(getattr(there, name)().cpu(), getattr(here, name)())
    x, y = scores.clone().requires_grad_(), scores.cuda().requires_grad_()
    for tensor, at in ((x, lengths), (y, lengths.cuda())):
        (ask(tensor, at).marginals() ** 2).sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad)


def test_draws_follow_the_marginals() -> None:
    scores = normal(2, 6, 6)
    trees = mts.ProjectiveScores(scores, torch.tensor([6, 4]))
    drawn = trees.sample(3000, torch.Generator().manual_seed(0))
    assert drawn.shape == (3000, 2, 6)
    again = trees.sample(3000, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)
    for i, n in enumerate((6, 4)):
        shares = torch.nn.functional.one_hot(drawn[:, i, 1:n], 6).double().mean(0).T
        torch.testing.assert_close(shares, trees.marginals()[i, :, 1:n], atol=0.04, rtol=0)


def test_the_functions_are_the_methods() -> None:
    scores, lengths = normal(2, 3, 6, 6), torch.tensor([[6, 2, 1], [3, 4, 5]])
    for name in ("log_partition", "marginals", "argmax", "sparsemap"):
        one = getattr(mts, f"projective_{name}")(scores, lengths, "multi")
        assert torch.equal(one, getattr(mts.ProjectiveScores(scores, lengths, "multi"), name)())
        two = getattr(mts, f"constituency_{name}")(scores[..., None], lengths)
        assert torch.equal(two, getattr(mts.ConstituencyScores(scores[..., None], lengths), name)())
        assert one.shape[:2] == two.shape[:2] == (2, 3)


def test_masks_are_lengths() -> None:
    scores = normal(3, 5, 5)
    mask = torch.arange(5) < LENGTHS[:, None]
    for kind in (mts.ProjectiveScores, lambda x, at: mts.ConstituencyScores(x[..., None], at)):
        assert torch.equal(kind(scores, mask).marginals(), kind(scores, LENGTHS).marginals())


# besides the functions, which test_torch_compile.py has
COMPILED = {
    "draws": lambda x: x.sum((1, 2)) + mts.ProjectiveScores(x).kbest(2)[0].sum(1),
    "entropy": lambda x: mts.ProjectiveScores(x).entropy(),
    "divergence": lambda x: mts.ProjectiveScores(x).kl(mts.ProjectiveScores(2 * x)),
    "loss": lambda x: mts.ProjectiveLoss("crf", "multi")(x, torch.tensor([[0, 0, 1, 2]] * 2)),
    "sparse loss": lambda x: mts.ProjectiveLoss("sparsemap")(x, torch.tensor([[0, 0, 1, 2]] * 2)),
    "hinge": lambda x: mts.ProjectiveLoss("hinge")(x, torch.tensor([[0, 0, 1, 2]] * 2)),
    "constituency loss": lambda x: mts.ConstituencyLoss()(
        x[..., None], torch.eye(4)[None, :, :, None].repeat(2, 1, 1, 1) + UPPER
    ),
}
UPPER = torch.zeros(1, 4, 4, 1)
UPPER[0, [0, 0, 0], [1, 2, 3]] = 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_without_a_break(name) -> None:
    function, scores = COMPILED[name], normal(2, 4, 4, grad=True)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    expected, found = function(scores), compiled(scores)
    torch.testing.assert_close(found, expected)
    weights = torch.arange(1.0, expected.numel() + 1).reshape(expected.shape).double()
    (g,) = torch.autograd.grad((expected * weights).sum(), scores)
    (h,) = torch.autograd.grad((found * weights).sum(), scores)
    torch.testing.assert_close(h, g)


@pytest.mark.parametrize("name", ["loss", "sparse loss", "entropy", "divergence"])
def test_functions_of_functions(name) -> None:
    """torch.func's gradient is autograd's; a batch of batches has more rows."""
    function, scores = COMPILED[name], normal(2, 4, 4, grad=True)
    (expected,) = torch.autograd.grad(function(scores).square().sum(), scores)
    found = torch.func.grad(lambda x: function(x).square().sum())(scores.detach())
    torch.testing.assert_close(found, expected)
    batches = normal(3, 2, 4, 4)
    together = torch.func.vmap(function)(batches)
    torch.testing.assert_close(together, torch.stack([function(x) for x in batches]))


def test_16_bit_scores_have_losses_of_32() -> None:
    scores = normal(2, 30, 30).to(torch.bfloat16)
    target = trees_of("single", 30, 2)
    loss = mts.ProjectiveLoss(reduction="none")(scores, target)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, mts.ProjectiveLoss(reduction="none")(scores.float(), target))


def test_empty_batch_and_one_node() -> None:
    assert mts.projective_marginals(torch.empty(0, 4, 4)).shape == (0, 4, 4)
    assert mts.projective_log_partition(torch.zeros(2, 1, 1)).tolist() == [0, 0]
    assert mts.projective_argmax(torch.zeros(2, 1, 1)).tolist() == [[0], [0]]
    assert mts.constituency_marginals(torch.empty(0, 4, 4, 2)).shape == (0, 4, 4, 2)
    assert mts.constituency_marginals(torch.zeros(1, 1, 2)).flatten().tolist() == [0.5, 0.5]


ZERO = torch.zeros(2, 3, 3)
BAD = [
    (lambda: mts.projective_marginals(torch.zeros(2, 3)), ValueError, r"\(\.\.\., n, n\)"),
    (lambda: mts.projective_marginals(ZERO.long()), TypeError, "floating"),
    (lambda: mts.projective_marginals(ZERO, torch.tensor([3])), ValueError, "one per tree"),
    (lambda: mts.projective_argmax(ZERO, torch.tensor([3, 4])), ValueError, "from 1 to 3"),
    (lambda: mts.projective_marginals(ZERO * torch.nan), ValueError, "NaN"),
    (
        lambda: mts.projective_log_partition(ZERO.masked_fill(torch.eye(3) == 0, -np.inf)),
        ValueError,
        "row 0 has no tree",
    ),
    (lambda: mts.ProjectiveLoss()(ZERO, torch.zeros(2, 2)), ValueError, "heads are integers"),
    (
        lambda: mts.ProjectiveLoss()(ZERO, torch.tensor([[0, 0, 1], [0, 2, 1]])),
        ValueError,
        "the targets of row 1 .* are no tree",
    ),
    (
        lambda: mts.ProjectiveLoss()(torch.zeros(1, 5, 5), torch.tensor([[0, 3, 0, 2, 2]])),
        ValueError,
        "are no tree of ProjectiveTree",
    ),
    (
        lambda: mts.ProjectiveLoss()(ZERO, torch.tensor([[0, 0, 7], [0, 2, 1]])),
        ValueError,
        "from 0, the root, to 2",
    ),
    (lambda: mts.ProjectiveLoss("svm"), ValueError, "kind must be"),
    (lambda: mts.ConstituencyLoss(reduction="max"), ValueError, "reduction"),
    (lambda: mts.constituency_marginals(torch.zeros(3, 3)), ValueError, "first word, last word"),
    (
        lambda: mts.ConstituencyLoss()(torch.zeros(1, 3, 3, 1), torch.ones(1, 3, 3, 1)),
        ValueError,
        "the targets of row 0 .* are no tree",
    ),
    (
        lambda: mts.ConstituencyLoss()(torch.zeros(1, 3, 3, 2), torch.ones(1, 3, 3, 1)),
        ValueError,
        "in the shape of the scores",
    ),
    (
        lambda: mts.ProjectiveScores(ZERO).kl(mts.ProjectiveScores(ZERO, root="multi")),
        ValueError,
        "same kind and shape",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_input_is_explained(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
