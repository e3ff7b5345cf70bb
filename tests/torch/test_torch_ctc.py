"""CTC: torch's own loss and the automaton's words as references; the sparse loss by projections."""

import numpy as np
import pytest

from tools import needs

torch = needs("torch")

import maxent as mx  # noqa: E402
import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402
from maxent.torch.structured._ctc import load_engine  # noqa: E402

B, T, V, S = 5, 12, 6, 4
LENGTHS, SIZES = torch.tensor([12, 9, 8, 12, 10]), torch.tensor([4, 1, 0, 3, 2])


def _case(seed=0):
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(B, T, V, generator=g, dtype=torch.float64).requires_grad_()
    targets = torch.randint(1, V, (B, S), generator=g)
    targets[0, 1] = targets[0, 0]  # a repeat
    return scores, targets


@pytest.mark.parametrize("backend", ["numba", "plain"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_values_and_gradients_are_torchs(backend, reduction):
    scores, targets = _case()
    rows = scores.log_softmax(2).transpose(0, 1)
    expected = torch.nn.functional.ctc_loss(rows, targets, LENGTHS, SIZES, reduction=reduction)
    with mt.backend(backend):
        loss = ms.ctc_loss(scores, targets, LENGTHS, SIZES, reduction=reduction)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    (slope,) = torch.autograd.grad(loss.sum(), scores)
    (wanted,) = torch.autograd.grad(expected.sum(), scores)
    torch.testing.assert_close(slope, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-2, 1e2, 1e4])
@pytest.mark.parametrize("backend", ["numba", "plain"])
def test_marginals_at_any_scale_are_those_of_the_automaton(scale, backend):
    scores, targets = _case(1)
    theta = scale * scores.detach()
    with mt.backend(backend):
        p = ms.ctc_marginals(theta, targets, LENGTHS, SIZES)
        value = ms.ctc_log_partition(theta, targets, LENGTHS, SIZES)
    assert float(p.min()) >= 0
    assert float(p.max()) <= 1
    best, labels = ms.ctc_argmax(theta, targets, LENGTHS, SIZES)
    for i, (n, size) in enumerate(zip(LENGTHS.tolist(), SIZES.tolist(), strict=True)):
        automaton = mx.Automaton.ctc(targets[i, :size].tolist(), V)
        row = theta[i, :n].flatten().numpy()
        expected, mean = automaton.softmax(row)
        assert float(value[i]) == pytest.approx(float(expected), rel=1e-13)
        np.testing.assert_allclose(p[i, :n].flatten(), mean, atol=1e-11 * (1 + scale / 10))
        assert not p[i, n:].any()
        assert float(best[i]) == pytest.approx(float(automaton.argmax(row) @ row), rel=1e-13)
        assert mx.collapse(labels[i, :n]) == targets[i, :size].tolist()


def _hard_cases(positions=300, dtype=torch.float64):
    """Scores of all ranges: far apart, forbidden, of no alignment; lengths and sizes of all kinds.

    Row 0 is long, row 1 one position, row 2 has an empty target, row 3 no alignment by its scores,
    row 4 none by its length, row 5 a single one, row 6 scores of 1e4.
    """
    g = torch.Generator().manual_seed(7)
    scores = 8 * torch.randn(8, positions, V, generator=g, dtype=torch.float64)
    targets = torch.randint(1, V, (8, 9), generator=g)
    targets[4] = targets[4, 0]
    lengths = torch.tensor([positions, 1, 7, 8, 16, 9, positions, positions - 1])
    sizes = torch.tensor([9, 1, 0, 3, 9, 9, 5, 8])
    targets[5] = torch.tensor([1, 2] * 4 + [1])
    scores[0, :, 1:] -= 40.0  # of 2^-n, n in the thousands, where the target is begun late
    scores[2, 3, 1:] = -torch.inf
    scores[3, 2] = -torch.inf
    scores[6] *= 1e3
    scores[7, ::3, 0] = -torch.inf
    return scores.to(dtype), targets, lengths, sizes


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_compiled_sums_are_those_of_logarithms(dtype):
    scores, *given = _hard_cases(dtype=dtype)
    found = []
    for backend in ("numba", "plain"):
        x = scores.clone().requires_grad_()
        with mt.backend(backend):
            loss = ms.ctc_loss(x, *given, reduction="none", zero_infinity=True)
            (slope,) = torch.autograd.grad(loss.sum(), x)
        found.append((loss.detach(), slope))
    (loss, slope), (right, expected) = found
    assert not loss[[3, 4]].any()
    assert not slope[[3, 4]].any()
    assert loss[6] > 1e6
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(loss, right, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(slope, expected, rtol=0, atol=max(tolerance, 1e-9))


def test_sums_without_an_alignment():
    scores, *given = _hard_cases()
    scores, *given = (x[[0, 3, 5]] for x in (scores, *given))
    for backend in ("numba", "plain"):
        with mt.backend(backend):
            functions = (ms.ctc_loss, ms.ctc_log_partition, ms.ctc_marginals, ms.ctc_argmax)
            for function in functions:
                with pytest.raises(ValueError, match="target 1 has no alignment: scores of -inf"):
                    function(scores, *given)
            loss = ms.ctc_loss(scores, *given, reduction="none", zero_infinity=True)
            assert loss.isfinite().tolist() == [True] * 3
            assert loss[1] == 0
        value, p = load_engine(backend).sums(scores, *given, 0)
        assert value[1] == -torch.inf
        assert not p[1].any()
        places = torch.arange(9)
        assert float(value[2]) == pytest.approx(float(scores[2, places, given[0][2]].sum()))
        assert (p[2, places, given[0][2]] == 1).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_broken_scores_are_refused_where_they_are_read(bad):
    scores, targets = torch.zeros(2, 5, 3), torch.ones(2, 2, dtype=torch.int64)
    lengths = torch.tensor([5, 3])
    scores[1, 3] = bad
    assert ms.ctc_loss(scores, targets, lengths).isfinite()
    for row in ([-torch.inf, -torch.inf, bad], [0.0, bad, 1.0]):
        scores[1, 2] = torch.tensor(row)
        for function in (ms.ctc_loss, ms.ctc_marginals, ms.ctc_argmax):
            with pytest.raises(ValueError, match="NaN"):
                function(scores, targets, lengths)


def test_second_derivatives():
    scores = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores.requires_grad_()
    targets = torch.tensor([[1, 2], [1, 1]])
    assert torch.autograd.gradgradcheck(lambda x: ms.ctc_loss(x, targets), scores)
    assert torch.autograd.gradcheck(lambda x: ms.ctc_marginals(x, targets), scores)
    (first,) = torch.autograd.grad(ms.ctc_loss(scores, targets), scores, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="third derivatives of CTC"):
        torch.autograd.grad(second.square().sum(), scores)


def test_the_sparse_loss_is_a_difference_of_squared_distances():
    scores, targets = _case(2)
    loss = ms.sparse_ctc_loss(scores, targets, LENGTHS, SIZES, reduction="none")
    aligned = ms.ctc_sparsemap(scores, targets, LENGTHS, SIZES)
    found = ms.ctc_sparsemap_support(scores, targets, LENGTHS, SIZES)
    (slope,) = torch.autograd.grad(loss.sum(), scores)
    for i, (n, size) in enumerate(zip(LENGTHS.tolist(), SIZES.tolist(), strict=True)):
        automaton = mx.Automaton.ctc(targets[i, :size].tolist(), V)
        theta = scores[i, :n].detach().numpy()
        p = automaton.project(theta.ravel())
        q = mx.Product(mx.Simplex(), n).project(theta.ravel())
        apart = np.sum((p - theta.ravel()) ** 2) - np.sum((q - theta.ravel()) ** 2)
        assert float(loss[i].detach()) == pytest.approx(apart / 2, rel=1e-10)
        np.testing.assert_allclose(aligned[i, :n].detach().flatten(), p, atol=1e-10)
        np.testing.assert_allclose(slope[i, :n].flatten(), q - p, atol=1e-10)
        mixed = sum(w * automaton.encode([word]).values for w, word in found[i])
        np.testing.assert_allclose(mixed, p, atol=1e-10)
        # far fewer alignments than there are
        assert len(found[i]) <= n * V
    assert torch.autograd.gradcheck(
        lambda x: ms.ctc_sparsemap(x, targets[:1, :2]), scores[:1, :5].detach().requires_grad_()
    )


def test_training_by_the_sparse_loss_ends_where_sparsemax_is_a_mixture_of_alignments():
    scores = torch.zeros(1, 6, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[2, 2, 1]])
    descent = torch.optim.SGD([scores], 1.0)
    for _ in range(40):
        descent.zero_grad()
        loss = ms.sparse_ctc_loss(scores, targets)
        loss.backward()
        descent.step()
    assert loss.item() < 1e-12
    p = mt.sparsemax(scores.detach()).numpy().reshape(-1)
    assert mx.Automaton.ctc([2, 2, 1], 4).contains(p, atol=1e-6)
    assert p.reshape(6, 4)[:, 3].max() < 1e-6  # a label that the target does not have


def test_targets_that_do_not_fit():
    scores = torch.zeros(2, 3, 3)
    targets = torch.tensor([[1, 2, 1], [1, 1, 2]])
    with pytest.raises(ValueError, match="target 1 has 3 labels and 1 repeats, which need 4"):
        ms.ctc_loss(scores, targets)
    loss = ms.ctc_loss(scores, targets, reduction="none", zero_infinity=True)
    assert loss[1] == 0
    assert loss[0] == pytest.approx(3 * np.log(3))


def test_bad_input_is_refused():
    scores, targets = torch.zeros(2, 5, 3), torch.ones(2, 2, dtype=torch.int64)
    for arguments, error, match in [
        ((scores[0], targets), ValueError, "scores have the shape"),
        ((scores.long(), targets), TypeError, "tensor of floats"),
        ((scores, targets[0]), ValueError, "targets are integers of shape"),
        ((scores, targets.double()), ValueError, "targets are integers of shape"),
        ((scores, targets * 3), ValueError, "labels from 0 to 2"),
        ((scores, targets * 0), ValueError, "target 0 has the blank 0"),
        ((scores, targets, torch.tensor([6, 1])), ValueError, "from 1 to 5"),
        ((scores, targets, None, torch.tensor([3, 1])), ValueError, "from 0 to 2"),
        ((scores, targets, None, None, 3), ValueError, "the blank is a label"),
        ((scores * torch.nan, targets), ValueError, "NaN"),
    ]:
        with pytest.raises(error, match=match):
            ms.ctc_log_partition(*arguments)
    with pytest.raises(ValueError, match="reduction"):
        ms.ctc_loss(scores, targets, reduction="all")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_losses_of_short_floats_are_float32(dtype):
    scores, targets = _case(4)
    loss = ms.ctc_loss(scores.detach().to(dtype), targets, LENGTHS, SIZES)
    assert loss.dtype == torch.float32
    exact = ms.ctc_loss(scores.detach().to(dtype).double(), targets, LENGTHS, SIZES)
    assert loss.item() == pytest.approx(exact.item(), rel=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("backend", ["triton", "plain"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cuda_is_the_cpu(dtype, backend):
    scores, *given = _hard_cases(dtype=dtype)
    found = []
    for device in ("cpu", "cuda"):
        x = scores.to(device).requires_grad_()
        there = [each.to(device) for each in given]
        with mt.backend("numba" if device == "cpu" else backend):
            loss = ms.ctc_loss(x, *there, reduction="none", zero_infinity=True)
            (slope,) = torch.autograd.grad(loss.sum(), x)
            if device == "cpu":
                there = [each[[0, 1, 2, 5, 6, 7]] for each in there]
                x = x[[0, 1, 2, 5, 6, 7]]
            parts = ms.ctc_log_partition(x, *there), ms.ctc_marginals(x, *there)
        if device == "cuda":
            assert (parts[0][[3, 4]] == -torch.inf).all()
            assert not parts[1][[3, 4]].any()
            parts = [each[[0, 1, 2, 5, 6, 7]] for each in parts]
        found.append([each.detach().cpu() for each in (loss, slope, *parts)])
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    for i, (right, ours) in enumerate(zip(*found, strict=True)):
        relative = 0 if i % 2 else tolerance
        torch.testing.assert_close(ours, right, rtol=relative, atol=max(tolerance, 1e-9))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(
    ("positions", "labels", "size"),
    [(1, 1, 0), (1, 2, 1), (40, 5, 31), (300, 2000, 140), (2100, 4, 1024)],
)
def test_cuda_of_all_sizes_is_the_same_in_every_run(positions, labels, size):
    g = torch.Generator().manual_seed(0)
    scores = torch.randn(3, positions, labels, generator=g, dtype=torch.float64)
    targets = torch.randint(min(1, labels - 1), labels, (3, size), generator=g)
    runs = []
    for device in ("cpu", "cuda", "cuda"):
        x = scores.to(device).requires_grad_()
        loss = ms.ctc_loss(x, targets.to(device), reduction="none", zero_infinity=True)
        runs.append((loss.detach().cpu(), torch.autograd.grad(loss.sum(), x)[0].cpu()))
    for right, ours, again in zip(*runs, strict=True):
        assert torch.equal(ours, again)
        torch.testing.assert_close(ours, right, rtol=1e-11, atol=1e-11)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_second_derivatives_on_cuda():
    g = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 4, 3, dtype=torch.float64, generator=g).cuda().requires_grad_()
    targets = torch.tensor([[1, 2], [1, 1]]).cuda()
    assert torch.autograd.gradgradcheck(lambda x: ms.ctc_loss(x, targets), scores)
    assert torch.autograd.gradcheck(lambda x: ms.ctc_marginals(x, targets), scores)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_broken_scores_on_cuda_are_nan():
    scores, targets = torch.zeros(2, 5, 3, device="cuda"), torch.ones(2, 2, dtype=torch.int64)
    scores[0, 1, 2] = torch.nan
    loss = ms.ctc_loss(scores, targets.cuda(), reduction="none")
    assert loss.isnan().tolist() == [True, False]
