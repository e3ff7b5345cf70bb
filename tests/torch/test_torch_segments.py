"""Semi-Markov functions of tensors: the domain as reference, derivatives, engines, bad input."""

import numpy as np
import pytest

from tools import needs

torch = needs("torch")

import maxent as mx  # noqa: E402
import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402
from maxent.rows.arrays import row_dot  # noqa: E402

B, T, C, K = 3, 6, 2, 4
LENGTHS = torch.tensor([6, 1, 4])
DOMAIN = mx.SemiMarkov(C, K)


def _scores(dtype=torch.float64, grad=False, seed=0):
    """content, durations, transitions, lengths, begins, ends."""
    g = torch.Generator().manual_seed(seed)
    shapes = [(B, T, C), (K, C), (C, C), (B, T, C), (B, T, C)]
    made = [torch.randn(s, generator=g, dtype=torch.float64).to(dtype) for s in shapes]
    made = [x.requires_grad_(grad) for x in made]
    return (*made[:3], LENGTHS, *made[3:])


def _rows(scores):
    """The same scores for the domain."""
    content, durations, transitions, lengths, begins, ends = scores
    cut = [
        [x[i, :n].numpy() for i, n in enumerate(lengths.tolist())] for x in (content, begins, ends)
    ]
    return DOMAIN.sums(cut[0], durations.numpy(), transitions.numpy(), cut[1], cut[2])


@pytest.mark.parametrize("backend", ["numba", "plain"])
def test_sums_are_those_of_the_domain(backend):
    scores = _scores()
    with mt.backend(backend):
        value, p = ms.segment_log_partition(*scores), ms.segment_marginals(*scores)
    expected, mean = DOMAIN.softmax(_rows(scores))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for i, (own, tied) in enumerate(zip(mean.own.rows(), mean.tied, strict=True)):
        own, n = own.reshape(-1, 3, C), len(own) // (3 * C)
        for part, x in enumerate((p.labels, p.begins, p.ends)):
            np.testing.assert_allclose(x[i, :n], own[:, part], atol=1e-12)
            assert not x[i, n:].any()
        np.testing.assert_allclose(p.durations[i].flatten(), tied[: K * C], atol=1e-12)
        np.testing.assert_allclose(p.transitions[i].flatten(), tied[K * C :], atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("backend", ["triton", "plain"])
@pytest.mark.parametrize("shape", [(3, 70, 24, 50), (2, 40, 3, 7), (2, 33, 1, 100), (1, 5, 70, 4)])
def test_cuda_agrees_with_the_cpu(shape, backend):
    batch, length, labels, longest = shape
    g = torch.Generator().manual_seed(0)
    shapes = [shape[:3], (longest, labels), (labels, labels), shape[:3], shape[:3]]
    here = [torch.randn(s, generator=g, dtype=torch.float64) for s in shapes]
    here[0] *= 30
    here[1][0, 0] = here[2][0, labels - 1] = here[3][0, 2, 0] = here[4][0, 3, 0] = -np.inf
    lengths = torch.tensor([length, length - 3, 1][:batch])
    there = [x.cuda().requires_grad_() for x in here]
    here = [x.requires_grad_() for x in here]
    expected = ms.segment_log_partition(*here[:3], lengths, *here[3:])
    with mt.backend(backend):
        value = ms.segment_log_partition(*there[:3], lengths.cuda(), *there[3:])
    torch.testing.assert_close(value.cpu(), expected, rtol=1e-12, atol=0)
    for x, y in zip(
        torch.autograd.grad(value.sum(), there, create_graph=True),
        torch.autograd.grad(expected.sum(), here, create_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(x.cpu(), y, atol=1e-11, rtol=0)
    slopes = (
        torch.autograd.grad(x.square().sum(), there[0]),
        torch.autograd.grad(y.square().sum(), here[0]),
    )
    torch.testing.assert_close(slopes[0][0].cpu(), slopes[1][0], atol=1e-9, rtol=1e-9)


def test_derivatives():
    scores = _scores(grad=True)
    inputs = [x for x in scores if x is not LENGTHS]

    def value(content, durations, transitions, begins, ends):
        return ms.segment_log_partition(content, durations, transitions, LENGTHS, begins, ends)

    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs)
    p = ms.segment_marginals(*scores)
    expected = p.labels, p.durations.sum(0), p.transitions.sum(0), p.begins, p.ends
    for x, y in zip(torch.autograd.grad(value(*inputs).sum(), inputs), expected, strict=True):
        torch.testing.assert_close(x, y)
    (first,) = torch.autograd.grad(value(*inputs).sum(), inputs[:1], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="third derivatives"):
        torch.autograd.grad(second.square().sum(), inputs[:1])


def test_tables_of_each_sequence():
    scores = list(_scores())
    scores[1] = scores[1] + torch.arange(B)[:, None, None]
    scores[2] = scores[2] * torch.tensor([1.0, -1.0, 2.0]).double()[:, None, None]
    together = ms.segment_log_partition(*scores)
    for i in range(B):
        alone = [x[i : i + 1] if x.ndim == 3 or x is LENGTHS else x for x in scores]
        torch.testing.assert_close(ms.segment_log_partition(*alone), together[i : i + 1])


def test_best_and_loss_are_those_of_the_domain():
    scores = _scores(grad=True)
    plain = [x.detach() for x in scores]
    value, labels, first = ms.segment_argmax(*scores)
    rows = _rows(plain)
    best = DOMAIN.argmax(rows)
    for i, segments in enumerate(DOMAIN.decode(best)):
        for start, end, label in segments:
            assert (labels[i, start:end] == label).all()
            assert first[i, start:end].tolist() == [True] + [False] * (end - start - 1)
    given = *scores[:3], labels, first, *scores[3:]
    torch.testing.assert_close(ms.segment_score(*given), value)
    np.testing.assert_allclose(value.detach(), row_dot(best, rows + 0 * best), rtol=1e-12)
    loss = ms.segment_crf_loss(*given, reduction="none")
    torch.testing.assert_close(loss, ms.segment_log_partition(*scores) - value)
    assert ms.segment_crf_loss(*given).item() == pytest.approx(loss.mean().item())
    young = mx.FenchelYoungLoss(mx.Shannon(domain=DOMAIN))
    np.testing.assert_allclose(loss.detach(), young.value(rows, best), atol=1e-12)
    (slope,) = torch.autograd.grad(value.sum(), scores[1])
    np.testing.assert_allclose(slope.flatten(), best.tied[:, : K * C].sum(axis=0))


def test_draws():
    scores = _scores()
    labels, first = ms.segment_sample(*scores, n=4000, generator=torch.Generator().manual_seed(0))
    p = ms.segment_marginals(*scores)
    begun = torch.stack([(first & (labels == c)).double().mean(0) for c in range(C)], 2)
    torch.testing.assert_close(begun, p.begins, atol=0.03, rtol=0)
    with pytest.raises(ValueError, match="n >= 1"):
        ms.segment_sample(*scores, n=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_results_of_short_floats_are_float32(dtype):
    scores = _scores(dtype)
    value = ms.segment_log_partition(*scores)
    assert value.dtype == torch.float32
    exact = ms.segment_log_partition(*[x.double() if x is not LENGTHS else x for x in scores])
    torch.testing.assert_close(value.double(), exact, rtol=1e-6, atol=0)


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_lengths():
    content, kept = torch.zeros(1, 800, C, dtype=torch.float64, requires_grad=True), []

    def keep(x):
        kept.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        ms.segment_log_partition(content, torch.zeros(300, C), torch.zeros(C, C))
    assert 0 < max(kept) <= 800 * C


def test_bad_input_is_refused():
    content, durations, transitions, _, begins, _ = _scores()
    first = torch.ones(B, T, dtype=torch.bool)
    labels = torch.zeros(B, T, dtype=torch.int64)
    for arguments, error, match in [
        ((content[0], durations, transitions), ValueError, "content has the shape"),
        ((content.long(), durations, transitions), TypeError, "content must be a tensor of floats"),
        ((content, durations[:, :1], transitions), ValueError, "durations have the shape"),
        ((content, durations, transitions[:1]), ValueError, "needs transitions of shape"),
        ((content, durations, transitions, LENGTHS + 5), ValueError, "lengths run from 1 to 6"),
        ((content, durations, transitions, LENGTHS, begins[:1]), ValueError, "begins have"),
        ((content - torch.inf, durations, transitions), ValueError, "not finite"),
        ((content, durations * torch.nan, transitions), ValueError, "durations"),
        (
            (content, durations - torch.inf, transitions),
            ValueError,
            "sequence 0 has no segmentation",
        ),
    ]:
        with pytest.raises(error, match=match):
            ms.segment_log_partition(*arguments)
    for own, start, match in [
        (labels[:1], first, "labels are integers of shape"),
        (labels, labels, "first are booleans of shape"),
        (labels + 2, first, "labels run from 0 to 1"),
        (labels, ~first, "first\\[0, 0\\] is False"),
        (labels + torch.arange(T) % 2, first & (torch.arange(T) == 0), "changes at position 1"),
        (labels, first & (torch.arange(T) == 0), "segment of 6 positions, the longest"),
    ]:
        with pytest.raises(ValueError, match=match):
            ms.segment_score(content, durations, transitions, own, start)
    with pytest.raises(ValueError, match="reduction"):
        ms.segment_crf_loss(content, durations, transitions, labels, first, reduction="all")


def test_a_mask_is_as_good_as_lengths():
    content, durations, transitions, lengths, _, ends = _scores()
    mask = torch.arange(T) < lengths[:, None]
    by_mask = ms.segment_log_partition(content, durations, transitions, mask, None, ends)
    behind = torch.where(mask[:, :, None], content, torch.nan)
    by_lengths = ms.segment_log_partition(behind, durations, transitions, lengths, None, ends)
    torch.testing.assert_close(by_mask, by_lengths)


def test_an_empty_batch():
    none = torch.zeros(0, 3, 2)
    assert ms.segment_log_partition(none, torch.zeros(2, 2), torch.zeros(2, 2)).shape == (0,)
