"""Weighted soft ranks, soft quantiles and the soft choice of k, beside what they stand for."""

import pytest

import maxent as mx
from tools import needs

torch = needs("torch")

import maxent.torch.structured as ms  # noqa: E402

COUNTS = torch.tensor([[1, 3, 2, 1, 2], [2, 1, 1, 4, 1]])


def scores(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("strength", [None, 0, 0.3, 2.0, 1e-200])
def test_weights_count_copies(strength) -> None:
    x = scores(2, 5)
    x[1, 0] = x[1, 3]  # a tie
    found = ms.soft_rank(x, strength, weights=COUNTS)
    for row, counts, ranks in zip(x, COUNTS, found, strict=True):
        copies = ms.soft_rank(row.repeat_interleave(counts), strength)
        if strength != 0:  # there copies of one score share their mean rank
            torch.testing.assert_close(ranks.repeat_interleave(counts), copies)
        total = float(counts.sum())
        assert float(ranks @ counts.double()) == pytest.approx(total * (total + 1) / 2)
    one = ms.soft_rank(x, strength, weights=torch.ones(5))
    torch.testing.assert_close(one, ms.soft_rank(x, strength))


def test_weighted_ranks_become_hard_and_have_their_gradients() -> None:
    x, weights = scores(2, 5), scores(2, 5, seed=1).exp()
    torch.testing.assert_close(
        ms.soft_rank(x, 1e-6, weights=weights), ms.soft_rank(x, 0, weights=weights)
    )
    below = (weights[:, None] * (x[:, None] < x[:, :, None])).sum(2)
    torch.testing.assert_close(ms.soft_rank(x, 0, weights=weights), below + (weights + 1) / 2)
    for strength in (None, 0.7):
        assert torch.autograd.gradcheck(
            lambda x, s=strength: ms.soft_rank(x, s, descending=True, weights=weights, dim=0),
            x.clone().requires_grad_(),
        )
    assert ms.soft_rank(torch.tensor([0.0, torch.nan]), weights=torch.ones(2)).isnan().all()


def test_wrong_weights_are_refused() -> None:
    x = scores(2, 5)
    with pytest.raises(ValueError, match="finite numbers > 0"):
        ms.soft_rank(x, weights=torch.zeros(5))
    with pytest.raises(ValueError, match=r"shape \(2, 5\), got the shape \(4,\)"):
        ms.soft_rank(x, weights=torch.ones(4))
    with pytest.raises(ValueError, match='for the regularization "l2"'):
        ms.soft_rank(x, regularization="kl", weights=torch.ones(5))
    with pytest.raises(TypeError, match="not differentiated"):
        ms.soft_rank(x, weights=torch.ones(5, requires_grad=True))


def test_soft_quantiles_become_quantiles() -> None:
    x, shares = scores(3, 6), [0.0, 0.1, 0.5, 0.77, 1.0]
    right = torch.quantile(x, torch.tensor(shares, dtype=torch.float64), dim=1)
    torch.testing.assert_close(ms.soft_quantile(x, shares, strength=0), right)
    torch.testing.assert_close(ms.soft_quantile(x, shares, strength=1e-4), right)
    # as soft as can be, every quantile is the mean
    flat = ms.soft_quantile(x, shares, strength=1e6) - x.mean(1)
    assert flat.abs().max() < 1e-5
    assert ms.soft_quantile(x, 0.3, dim=0).shape == (6,)
    assert ms.soft_quantile(x[:, :1], 0.3).shape == (3,)
    for kind in ("l2", "kl"):
        assert torch.autograd.gradcheck(
            lambda x, k=kind: ms.soft_quantile(x, [0.3, 0.5], 0.5, k), x.clone().requires_grad_()
        )
    for wrong in (1.5, [0.2, -0.1], "half"):
        with pytest.raises(ValueError, match="a share from 0 to 1"):
            ms.soft_quantile(x, wrong)


def test_the_soft_choice_is_the_projection_onto_subsets_and_sparse() -> None:
    x = scores(3, 8)
    p = ms.soft_topk(x, 2, strength=0.5)
    torch.testing.assert_close(p, ms.sparsemap(mx.KSubset(2), x / 0.5))
    assert (p == 0).any(1).all()
    hard = ms.soft_topk(x, 2, strength=0)
    torch.testing.assert_close(ms.soft_topk(x, 2, strength=1e-6), hard)
    assert torch.equal(hard, ms.argmax(mx.KSubset(2), x))
