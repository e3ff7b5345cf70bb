"""Probabilities, entropies and predictions of the head, with gradients, against dense ones."""

import math

import pytest
from test_torch_head import device, layer  # noqa: F401

from tools import needs

torch = needs("torch")

from torch.nn.functional import linear  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.head import _dense, _rows  # noqa: E402
from maxent.torch.maps._dispatch import entropy_value  # noqa: E402

SETTINGS = [
    {},
    {"temperature": 0.5},
    {"soft_cap": 2.0, "temperature": 0.7, "z_loss": 0.01},
    {"label_smoothing": 0.1, "temperature": 2.0},
]
each = pytest.mark.parametrize("settings", SETTINGS, ids=lambda given: "+".join(given) or "plain")


def dense(given, target, alpha, settings):
    """The same in float64 by whole rows of scores."""
    wide = [x.detach().cpu().double().requires_grad_() for x in given]
    s = linear(*wide)
    cap = settings.get("soft_cap", math.inf)
    x = (s if cap == math.inf else cap * torch.tanh(s / cap)) / settings.get("temperature", 1)
    with mt.backend("plain"):
        loss = mt.fenchel_young_loss(s, target.cpu(), alpha, "none", **settings)
        p = mt.entmax(x, alpha)
        entropy = -entropy_value(p, "tsallis", alpha)
    own = p.gather(1, target.cpu().clamp(0)[:, None])[:, 0]
    log = torch.where(own > 0, own, 1).log().masked_fill(own == 0, -math.inf)
    used = target.cpu() >= 0
    numbers = [loss, own * used, torch.where(used, log, 0), entropy * used]
    return numbers, p, wide


def labels(given, alpha, settings):
    """Half of them in the support."""
    target = torch.randint(len(given[1]), (len(given[0]),))
    _, p, _ = dense(given, target, alpha, settings)
    best = p.topk(2, dim=1).indices
    target[::2] = best[::2, 0]
    second = p.gather(1, best[:, 1:])[:, 0] > 1e-3  # whose logarithm is known to many digits
    target[1:6:2] = torch.where(second, best[:, 1], best[:, 0])[1:6:2]
    target[-1] = -100
    return target.to(given[0].device)


def compare(found, given, right, p, wide, target, tolerance):
    """Numbers, and gradients of all of them together."""
    names = ("loss", "probability", "log_probability", "entropy")
    numbers = [getattr(found, name) for name in names]
    back = torch.rand(4, len(target), dtype=torch.float64) + 0.5
    back[2] *= right[2].detach().isfinite()
    total = sum(
        (g.to(x.device, x.dtype) * x.nan_to_num(neginf=0)).sum()
        for g, x in zip(back, numbers, strict=True)
    )
    known = sum((g * x.nan_to_num(neginf=0)).sum() for g, x in zip(back, right, strict=True))
    for ours, theirs in zip(numbers, right, strict=True):
        torch.testing.assert_close(
            ours.detach().cpu().double(), theirs.detach(), rtol=tolerance, atol=tolerance
        )
    total.backward()
    with mt.backend("plain"):
        known.backward()
    for ours, theirs in zip(given, wide, strict=True):
        error = (ours.grad.cpu().double() - theirs.grad).norm()
        assert error <= tolerance * theirs.grad.norm()
    used = target.cpu() >= 0
    assert found.used.cpu().equal(used)
    assert found.correct.cpu().equal((p.argmax(1) == target.cpu()) & used)
    torch.testing.assert_close(
        found.accuracy().cpu(), (p.argmax(1) == target.cpu()).sum() / used.sum()
    )
    k = found.top_indices.shape[-1]
    best, index = p.detach().topk(k, dim=1)
    torch.testing.assert_close(
        found.top_probabilities.cpu().double()[used], best[used], rtol=0, atol=tolerance
    )
    clear = (best > 1e-4) & used[:, None]
    assert found.top_indices.cpu()[clear].equal(index[clear])
    assert (found.top_indices.cpu()[~used] == -1).all()


@each
@pytest.mark.parametrize("alpha", [1.0, 1.2, 1.5, 2.0, 2.6])
def test_as_whole_rows(alpha, settings, device):  # noqa: F811
    given = layer(13, 8, 300, dtype=torch.float64, device=device)
    target = labels(given, alpha, settings)
    found = mt.linear_statistics(*given[:2], target, alpha, given[2], top_k=3, **settings)
    compare(found, given, *dense(given, target, alpha, settings), target, 1e-8)
    assert found.probability[:-1:2].all()


@pytest.mark.parametrize("spread", [4.0, 1e-3])
def test_in_blocks_and_float32(spread, monkeypatch, device):  # noqa: F811
    monkeypatch.setattr(_rows, "ROWS", 5)
    for name, value in {"ROOM": 5 * 900, "ROOM_ON_CPU": 5 * 900, "FEWEST": 2}.items():
        monkeypatch.setattr(_dense, name, value)
    for settings in SETTINGS[:3]:
        given = layer(13, 8, 900, spread=spread, device=device)
        target = labels(given, 1.5, settings)
        found = mt.linear_statistics(*given[:2], target, 1.5, given[2], **settings)
        compare(found, given, *dense(given, target, 1.5, settings), target, 1e-4)


def test_the_module_and_shapes():
    head = mt.LinearFenchelYoungLoss(8, 50, 1.5, shift=1, temperature=0.5)
    hidden, target = torch.randn(2, 6, 8), torch.randint(50, (2, 6))
    found = head.statistics(hidden, target, top_k=4)
    assert found.top_indices.shape == (2, 6, 4)
    assert not found.used[:, -1].any()
    torch.testing.assert_close(found.loss.sum() / 10, head(hidden, target))
    p = head.predict(hidden)
    torch.testing.assert_close(found.top_probabilities[:, :-1, 0], p.probabilities[:, :-1, 0])
    torch.testing.assert_close(found.entropy[:, :-1], p.entropy(1.5)[:, :-1])
    half = mt.linear_statistics(hidden.bfloat16(), head.weight.bfloat16(), target)
    assert half.loss.dtype is half.entropy.dtype is torch.float32
    none = mt.linear_statistics(hidden[:0], head.weight, target[:0])
    assert none.loss.shape == (0, 6)


def test_what_does_not_count_and_what_is_no_label(device):  # noqa: F811
    hidden, weight, bias = layer(3, 8, 50, device=device)
    target = torch.tensor([-100, -100, -100], device=device)
    found = mt.linear_statistics(hidden, weight, target, 1.5, bias)
    (found.loss + found.entropy).sum().backward()
    assert not weight.grad.any()
    assert found.accuracy().isnan()
    target[1] = 50
    found = mt.linear_statistics(hidden, weight, target, 1.5, bias, check=False)
    assert found.loss.isnan().tolist() == [False, True, False]
    with pytest.raises(IndexError, match="label 50 is out of range for 50 classes"):
        mt.linear_statistics(hidden, weight, target, 1.5, bias, check=True)


def test_bad_input():
    hidden, weight, target = torch.zeros(2, 8), torch.zeros(50, 8), torch.tensor([0, 1])
    with pytest.raises(TypeError, match="one label for each row, got tuple"):
        mt.linear_statistics(hidden, weight, (target[:, None], torch.ones(2, 1)))
    with pytest.raises(NotImplementedError, match="NormEntropy"):
        mt.linear_statistics(hidden, weight, target, mt.NormEntropy(2.0))
    for wrong in (0, 51, 1.5):
        with pytest.raises(ValueError, match="top_k from 1 to 50"):
            mt.linear_statistics(hidden, weight, target, top_k=wrong)
    found = mt.linear_statistics(hidden.requires_grad_(), weight, target)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(found.entropy.sum(), hidden, create_graph=True)


# -- distributions ---------------------------------------------------------------------------------

in_beta = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")


@in_beta
@pytest.mark.parametrize("settings", SETTINGS[:3], ids=lambda given: "+".join(given) or "plain")
def test_distributions(settings, device):  # noqa: F811
    given = layer(6, 8, 300, device=device)
    target = torch.randint(300, (6,), device=device)
    _, p, _ = dense(given, target, 1.5, settings)
    scaling = {name: x for name, x in settings.items() if name != "z_loss"}
    found = mt.linear_entmax(given[0].reshape(2, 3, 8), given[1], 1.5, given[2], **scaling)
    whole = found.to_dense().cpu().double()
    torch.testing.assert_close(whole.reshape(6, 300), p.detach(), rtol=0, atol=2e-6)
    assert found.argmax().reshape(-1).cpu().equal(p.argmax(1))
    sparse = found.to_sparse_csr()
    assert sparse.shape == (6, 300)
    torch._validate_sparse_csr_tensor_args(
        sparse.crow_indices(), sparse.col_indices(), sparse.values(), sparse.shape
    )
    torch.testing.assert_close(sparse.to_dense().reshape(2, 3, 300), found.to_dense())
    shannon = -(p * torch.where(p > 0, p, 1).log()).sum(1).detach()
    torch.testing.assert_close(
        found.entropy().reshape(-1).cpu().double(), shannon, rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(
        found.log_prob(found.argmax()).reshape(-1).cpu().double(), p.amax(1).log().detach(),
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip


@in_beta
def test_a_distribution_of_nothing():
    impossible = torch.full((3,), -math.inf)
    found = mt.linear_entmax(torch.zeros(2, 4), torch.zeros(3, 4), 1.5, impossible)
    assert found.argmax().tolist() == [0, 0]
    assert not found.to_dense().any()
    assert found.to_sparse_csr().values().numel() == 0
    assert found.entropy().tolist() == [0, 0]
