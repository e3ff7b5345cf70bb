"""maxent.torch.structured: matchings and transport plans against the core, and their gradients."""

import numpy as np
import pytest

from tools import needs

torch = needs("torch")

import maxent as mx  # noqa: E402
import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402

RNG = np.random.default_rng(0)
A, B = RNG.dirichlet(np.ones(3)), RNG.dirichlet(np.ones(5))
BACKENDS = ["numba", "plain"]


def scores(*shape, scale=1.0, dtype=torch.float64):
    return torch.tensor(scale * RNG.normal(size=shape), dtype=dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kl", [False, True])
def test_plans_are_those_of_the_core(backend, kl):
    domain = mx.Transport(A, B)
    x = scores(6, 3, 5)
    x *= torch.tensor([0.01, 1.0, 10.0, 100.0, 1e3, 1e4])[:, None, None]
    rows = x.reshape(6, 15).numpy()
    with mt.backend(backend):
        p = ms.transport(x, A, B, strength=0.5, regularization="kl" if kl else "l2")
    expected = (domain.project_kl if kl else domain.project)(rows / 0.5)
    np.testing.assert_allclose(p.reshape(6, 15), expected, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("regularization", ["l2", "kl"])
def test_gradients(backend, regularization):
    x = scores(2, 3, 5, scale=0.3).requires_grad_()
    target = ms.transport(scores(2, 3, 5), A, B)

    def plan(x):
        return ms.transport(x, A, B, 0.7, regularization)

    def loss(x):
        return ms.transport_loss(x, target, A, B, 0.7, regularization, "none")

    with mt.backend(backend):
        for function in (plan, loss):
            assert torch.autograd.gradcheck(function, x)
            if regularization == "kl" or function is loss:
                assert torch.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types_and_shapes(dtype):
    x = scores(2, 3, 4, 4, dtype=dtype).requires_grad_()
    for p in (ms.sinkhorn(x), ms.matching(x), ms.matching(x, strength=0.0)):
        assert p.shape == x.shape
        assert p.dtype == dtype
        ones = torch.ones(2, 3, 4, dtype=torch.float64)
        torch.testing.assert_close(p.double().sum(-1), ones, atol=2e-2, rtol=0)
    loss = ms.matching_loss(x, torch.arange(4).expand(2, 3, 4))
    loss.backward()
    assert x.grad.dtype == dtype


@pytest.mark.parametrize("regularization", ["l2", "kl"])
def test_lengths(regularization):
    x, lengths = scores(3, 4, 4), torch.tensor([4, 2, 3])
    x.requires_grad_()
    p = ms.matching(x, 0.5, regularization, lengths)
    partners = torch.stack(
        [torch.randperm(4), torch.tensor([1, 0, 9, 9]), torch.tensor([2, 0, 1, 3])]
    )
    losses = ms.matching_loss(x, partners, 0.5, regularization, lengths, "none")
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    for i, n in enumerate(lengths.tolist()):
        alone = ms.matching(x[i, :n, :n], 0.5, regularization)
        torch.testing.assert_close(p[i, :n, :n], alone)
        one = ms.matching_loss(x[i, :n, :n], partners[i, :n], 0.5, regularization)
        torch.testing.assert_close(losses[i], one)
        assert not p[i, n:].any()
        assert not gradient[i, n:].any()


def test_hard_matching_is_the_limit():
    x = scores(4, 5, 5)
    torch.testing.assert_close(ms.matching(x, strength=1e-6), ms.matching(x, strength=0.0))


def test_modules():
    x = scores(2, 3, 3)
    torch.testing.assert_close(ms.Sinkhorn(0.3)(x), ms.sinkhorn(x, strength=0.3))
    torch.testing.assert_close(ms.Matching(0.3)(x), ms.matching(x, 0.3))
    partners = torch.tensor([[0, 1, 2], [2, 1, 0]])
    torch.testing.assert_close(
        ms.MatchingLoss(0.3, "kl")(x, partners), ms.matching_loss(x, partners, 0.3, "kl")
    )


BAD = [
    (lambda: ms.matching(torch.zeros(2, 3)), "square matrices, got 2 x 3"),
    (lambda: ms.transport(torch.zeros(2, 2), [1.0, 0.0], [0.5, 0.4]), "one total, got 1 and 0.9"),
    (lambda: ms.transport(torch.zeros(2, 2), [1.0]), "both sums"),
    (lambda: ms.transport(torch.zeros(2, 2), [1.0], [1.0]), "sums of shapes"),
    (lambda: ms.sinkhorn(torch.zeros(3)), "needs matrices"),
    (lambda: ms.matching(torch.zeros(1, 2, 2), lengths=torch.tensor([3])), "from 0 to 2"),
    (lambda: ms.matching(torch.zeros(2, 2), strength=-1.0), "strength"),
    (lambda: ms.matching(torch.zeros(2, 2), regularization="l1"), "'l2', 'kl', got 'l1'"),
    (lambda: ms.matching_loss(torch.zeros(2, 2), torch.zeros(3)), "targets of the scores' shape"),
    (lambda: ms.matching_loss(torch.zeros(2, 2), torch.tensor([0])), "partners of shape"),
    (lambda: ms.sinkhorn(torch.full((2, 2), torch.nan)), "NaN"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@cuda
@pytest.mark.parametrize("regularization", ["l2", "kl"])
def test_cuda(regularization):
    x = scores(8, 20, 20, scale=10.0).requires_grad_()
    there = x.detach().cuda().requires_grad_()
    p, q = ms.matching(x, 0.3, regularization), ms.matching(there, 0.3, regularization)
    torch.testing.assert_close(q.cpu(), p, atol=1e-9, rtol=0)
    v = scores(8, 20, 20)
    (g,) = torch.autograd.grad(p, x, v)
    (h,) = torch.autograd.grad(q, there, v.cuda())
    torch.testing.assert_close(h.cpu(), g, atol=1e-7, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_huge_scores(backend):
    x = scores(3, 4, 4, scale=1e30)
    with mt.backend(backend):
        for regularization in ("l2", "kl"):
            p = ms.matching(x, 1.0, regularization)
            torch.testing.assert_close(p, ms.matching(x, 0.0), atol=1e-5, rtol=0)
