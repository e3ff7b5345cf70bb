"""The head of a language model: the same losses and gradients as a linear layer and a loss."""

import math

import pytest

from tools import needs

torch = needs("torch")

from torch.nn.functional import linear  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.head import _dense, _rows  # noqa: E402
from maxent.torch.head import loss as head_loss  # noqa: E402

ALPHAS = (1.0, 1.05, 1.3, 1.5, 2.0, 3.0)
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
PLACES = [
    pytest.param(("plain", "cpu"), id="plain"),
    pytest.param(("numba", "cpu"), id="numba"),
    pytest.param(("triton", "cuda"), marks=cuda, id="triton"),
]
ROUNDING = {torch.float64: 1e-12, torch.float32: 5e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


@pytest.fixture(params=PLACES)
def device(request, monkeypatch):
    """Each backend, on its device; few rows are solved as many are."""
    name, kind = request.param
    monkeypatch.setattr(head_loss, "FEW", {})
    with mt.backend(name):
        yield kind


def layer(rows=20, features=8, classes=50, spread=3.0, dtype=torch.float32, device="cpu"):
    """Hidden states, weight and bias whose scores have this standard deviation."""
    hidden = torch.randn(rows, features, dtype=torch.float64)
    weight = torch.randn(classes, features, dtype=torch.float64) * spread / features**0.5
    bias = 0.1 * torch.randn(classes, dtype=torch.float64)
    return [x.to(device, dtype).requires_grad_() for x in (hidden, weight, bias)]


def proportions(rows, classes, width, device="cpu"):
    """Distinct classes of each row and their portions."""
    index = torch.stack([torch.randperm(classes)[:width] for _ in range(rows)])
    portion = torch.rand(rows, width, dtype=torch.float64)
    return index.to(device), (portion / portion.sum(1, keepdim=True)).to(device)


def reference(given, target, entropy, **settings):
    """Loss and inputs in float64, by the layer and the loss one after the other."""
    wide = [x.detach().cpu().double().requires_grad_() for x in given]
    if isinstance(target, tuple):
        index, portion = (x.cpu() for x in target)
        target = torch.zeros(len(index), len(given[1]), dtype=torch.float64)
        target.scatter_(1, index, portion)
    with mt.backend("plain"):
        loss = mt.fenchel_young_loss(linear(*wide), target.cpu(), entropy, **settings)
    return loss, wide


def assert_same(loss, given, right, wide, dtype, seed=None):
    """Losses agree, and so do gradients after backward on both."""
    back = torch.rand(loss.shape, dtype=torch.float64) + 0.5 if seed is None else seed
    loss.backward(back.to(loss.device, loss.dtype))
    right.backward(back)
    torch.testing.assert_close(
        loss.detach().cpu().double(), right.detach(), rtol=ROUNDING[dtype], atol=ROUNDING[dtype]
    )
    for ours, theirs in zip(given, wide, strict=True):
        gradient = ours.grad.to_dense() if ours.grad.is_sparse else ours.grad
        error = (gradient.cpu().double() - theirs.grad).norm()
        assert error <= ROUNDING[dtype] * theirs.grad.norm() + 1e-30


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("width", [1, 3])
def test_as_a_layer_and_a_loss(alpha, reduction, width, device):
    given = layer(device=device)
    target = torch.randint(50, (20,), device=device)
    if width > 1:
        target = proportions(20, 50, width, device)
    weights = torch.rand(50) + 0.5
    loss = mt.linear_fenchel_young_loss(
        *given[:2], target, alpha, given[2], reduction=reduction, label_weight=weights.to(device)
    )
    assert loss.shape == (() if reduction != "none" else (20,))
    right, wide = reference(given, target, alpha, reduction=reduction, weight=weights.double())
    assert_same(loss, given, right, wide, torch.float32)


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("spread", [6.0, 0.5, 0.01])
def test_types(dtype, spread, device):
    given = layer(classes=300, spread=spread, dtype=dtype, device=device)
    target = torch.randint(300, (20,), device=device)
    loss = mt.linear_fenchel_young_loss(*given[:2], target, "entmax15", given[2])
    assert loss.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    right, wide = reference(given, target, 1.5)
    assert_same(loss, given, right, wide, dtype)


def test_norm_entropies(device):
    given = layer(device=device)
    target = torch.randint(50, (20,), device=device)
    entropy = mt.NormEntropy(2.0)
    loss = mt.linear_fenchel_young_loss(*given[:2], target, entropy, given[2])
    right, wide = reference(given, target, entropy)
    assert_same(loss, given, right, wide, torch.float32)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 2.5])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradcheck(alpha, reduction):
    given = layer(4, 3, 7, spread=1.0, dtype=torch.float64)
    target = torch.tensor([1, -100, 6, 0])

    def loss(*given):
        return mt.linear_fenchel_young_loss(
            *given[:2], target, alpha, given[2], reduction=reduction
        )

    assert torch.autograd.gradcheck(loss, given)


def test_rows_of_small_and_large_support_together(device):
    """The first rows have scores that hardly differ: all classes count."""
    hidden, weight, bias = layer(12, 16, 3000, spread=4.0, device=device)
    with torch.no_grad():
        hidden[:5] *= 1e-3
        bias.zero_()
    given, target = (hidden, weight, bias), torch.randint(3000, (12,), device=device)
    for reduction in ("mean", "none"):
        for x in given:
            x.grad = None
        loss = mt.linear_fenchel_young_loss(
            hidden, weight, target, "entmax15", bias, reduction=reduction
        )
        right, wide = reference(given, target, 1.5, reduction=reduction)
        assert_same(loss, given, right, wide, torch.float32)


@pytest.mark.parametrize("entropy", ["shannon", 1.5, mt.NormEntropy(2.0)])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_few_rows(entropy, reduction, monkeypatch):
    """All their scores at once, as on CUDA: the same losses, gradients and errors."""
    monkeypatch.setattr(head_loss, "FEW", {"cpu": 20})
    given = layer()
    for x in given:
        x.data = x.data.bfloat16()
    hidden, weight, bias = given
    target = torch.randint(50, (4, 5))
    target[1, 3] = -100
    asked = []
    whole = head_loss.fenchel_young_loss
    monkeypatch.setattr(
        head_loss, "fenchel_young_loss", lambda *a, **k: asked.append(a) or whole(*a, **k)
    )
    loss = mt.linear_fenchel_young_loss(
        hidden.reshape(4, 5, 8), weight, target, entropy, bias, reduction=reduction
    )
    assert len(asked) == 1
    right, wide = reference(given, target.flatten(), entropy, reduction=reduction)
    assert loss.dtype == torch.float32
    assert_same(loss.flatten() if loss.ndim else loss, given, right, wide, torch.bfloat16)
    with pytest.raises(IndexError, match="label 50"):
        mt.linear_fenchel_young_loss(hidden, weight, torch.full((20,), 50), entropy)
    with pytest.raises(ValueError, match="needs labels of shape"):
        mt.linear_fenchel_young_loss(hidden, weight, target, entropy)
    smoothed = mt.linear_fenchel_young_loss(
        hidden, weight, target.flatten(), 1.5, reduction=reduction, label_smoothing=0.1
    )
    assert smoothed.isfinite().all()
    assert len(asked) == 2  # that with the label out of range, and not this one


@cuda
@pytest.mark.parametrize("classes", [3001, 33001])  # rows in registers, and longer ones
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("flat", [0, 40, 300])
def test_odd_class_counts(classes, alpha, flat, monkeypatch):
    """Products in parts, columns to spare, residuals in the place of scores."""
    monkeypatch.setattr(_dense, "ROOM", 128 * 2 * classes)
    hidden, weight, bias = layer(300, 64, classes)
    hidden.data[:flat] *= 1e-3
    bias.data *= 1e-3
    given = [x.detach().to("cuda", torch.bfloat16).requires_grad_() for x in (hidden, weight, bias)]
    target = torch.randint(classes, (300,), device="cuda")
    target[7] = -100
    loss = mt.linear_fenchel_young_loss(*given[:2], target, alpha, given[2])
    right, wide = reference(given, target, alpha)
    assert_same(loss, given, right, wide, torch.bfloat16)
    target[3], target[299] = classes, classes + 1
    each = mt.linear_fenchel_young_loss(*given[:2], target, alpha, given[2], reduction="none")
    assert each.isnan().nonzero()[:, 0].tolist() == [3, 299]


@pytest.mark.parametrize("spread", [3.0, 1e-3])
def test_in_blocks(spread, monkeypatch, device):
    monkeypatch.setattr(_rows, "ROWS", 7)
    for name, value in {"ROOM": 7 * 3000, "ROOM_ON_CPU": 7 * 3000, "FEWEST": 2}.items():
        monkeypatch.setattr(_dense, name, value)
    given = layer(20, 8, 3000, spread=spread, device=device)
    target = torch.randint(3000, (20,), device=device)
    loss = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2])
    right, wide = reference(given, target, 1.5)
    assert_same(loss, given, right, wide, torch.float32)


@pytest.mark.parametrize("ignored", [[3], list(range(15)), list(range(20))])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_ignored_labels(ignored, reduction, device):
    given = layer(device=device)
    target = torch.randint(50, (20,))
    target[ignored] = -1
    loss = mt.linear_fenchel_young_loss(
        *given[:2], target.to(device), 1.5, given[2], ignore_index=-1, reduction=reduction
    )
    right, wide = reference(given, target, 1.5, ignore_index=-1, reduction=reduction)
    assert_same(loss, given, right, wide, torch.float32)
    if reduction == "none":
        assert not loss[ignored].any()
    assert not given[0].grad[ignored].any()


def test_proportions_with_places_to_spare(device):
    given = layer(4, device=device)
    index = torch.tensor([[3, 7, -100], [9, -100, -100], [-100, -100, -100], [0, 1, 2]])
    portion = torch.tensor([[0.25, 0.75, 9.0], [1.0, 0, 0], [0.5, 0.5, 0.5], [0.2, 0.3, 0.5]])
    loss = mt.linear_fenchel_young_loss(
        *given[:2], (index.to(device), portion.to(device)), 1.5, given[2], reduction="none"
    )
    dense = torch.zeros(4, 50).scatter_(1, index.clamp(min=0), portion.where(index >= 0, 0))
    dense[2] = -100
    right, wide = reference(given, dense.double(), 1.5, reduction="none")
    assert_same(loss, given, right, wide, torch.float32)
    assert loss[2] == 0


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_shift(shift, device):
    hidden, weight, _ = layer(24, device=device)
    sequences = hidden.detach().reshape(3, 8, 8).requires_grad_()
    target = torch.randint(50, (3, 8), device=device)
    loss = mt.linear_fenchel_young_loss(
        sequences, weight, target, 1.5, shift=shift, reduction="none"
    )
    assert loss.shape == (3, 8)
    right = mt.fenchel_young_loss(
        linear(sequences[:, : 8 - shift], weight).movedim(-1, 1),
        target[:, shift:],
        1.5,
        reduction="none",
    )
    torch.testing.assert_close(loss[:, : 8 - shift], right, rtol=1e-5, atol=1e-5)
    assert not loss[:, 8 - shift :].any()
    mean = mt.linear_fenchel_young_loss(sequences, weight, target, 1.5, shift=shift)
    torch.testing.assert_close(mean, right.mean(), rtol=1e-5, atol=1e-6)


def test_any_shape_and_memory(device):
    hidden, weight, bias = layer(24, device=device)
    target = torch.randint(50, (24,), device=device, dtype=torch.int32)
    flat = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias, reduction="none")
    turned = hidden.detach().T.contiguous().T.reshape(2, 3, 4, 8)
    wide = torch.empty(8, 50, device=device).T.copy_(weight.detach())
    again = mt.linear_fenchel_young_loss(
        turned, wide, target.reshape(2, 3, 4), 1.5, bias, reduction="none"
    )
    torch.testing.assert_close(again.reshape(-1), flat.detach())
    alone = mt.linear_fenchel_young_loss(hidden[0], weight, target[0], 1.5, bias, reduction="none")
    assert alone.shape == ()
    torch.testing.assert_close(alone, flat[0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_no_tokens(reduction, device):
    hidden, weight, bias = layer(0, device=device)
    target = torch.zeros(0, dtype=torch.int64, device=device)
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias, reduction=reduction)
    loss.sum().backward()
    assert loss.shape == ((0,) if reduction == "none" else ())
    assert loss.sum() == 0
    assert not weight.grad.any()
    assert not bias.grad.any()


@pytest.mark.parametrize("spread", [3.0, 1e-3])
def test_backward_twice(spread, device):
    given = layer(20, 8, 3000, spread=spread, device=device)
    target = torch.randint(3000, (20,), device=device)
    loss = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2])
    loss.backward(retain_graph=True)
    first = [x.grad.clone() for x in given]
    loss.backward()
    for x, once in zip(given, first, strict=True):
        torch.testing.assert_close(x.grad, 2 * once, rtol=1e-5, atol=1e-7)
    once_more = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2])
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(once_more, given[0], create_graph=True)


def test_gradients_of_some_inputs(device):
    hidden, weight, _ = layer(device=device)
    target = torch.randint(50, (20,), device=device)
    mt.linear_fenchel_young_loss(hidden.detach(), weight, target, 1.5).backward()
    assert weight.grad.any()
    with torch.no_grad():
        assert not mt.linear_fenchel_young_loss(hidden, weight, target, 1.5).requires_grad


@pytest.mark.parametrize("spread", [3.0, 1e-3])
def test_sparse_gradients(spread, device):
    """Row by row what the dense gradient has, and optimizers take them."""
    given = layer(20, 8, 3000, spread=spread, device=device)
    target = torch.randint(3000, (20,), device=device)
    mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2], sparse_grad=True).backward()
    sparse = given[1].grad
    assert sparse.is_sparse
    assert len(sparse._indices()[0].unique()) == len(sparse._indices()[0])
    if spread > 1 and _rows.kernels(given[0], 3000, "tsallis", 1.5) is not None:
        assert len(sparse._indices()[0]) < 1000
    dense = [x.detach().clone().requires_grad_() for x in given]
    mt.linear_fenchel_young_loss(*dense[:2], target, 1.5, dense[2]).backward()
    torch.testing.assert_close(sparse.to_dense(), dense[1].grad)
    torch.testing.assert_close(given[2].grad, dense[2].grad)
    torch.optim.SparseAdam([given[1]]).step()


def test_tied_embeddings(device):
    embedding = torch.nn.Embedding(50, 8, device=device)
    head = mt.LinearFenchelYoungLoss(8, 50, "entmax15", device=device)
    head.weight = embedding.weight
    tokens = torch.randint(50, (4, 6), device=device)
    head(embedding(tokens), tokens).backward()
    ours = embedding.weight.grad.clone()
    embedding.weight.grad = None
    scores = linear(embedding(tokens), embedding.weight)
    mt.fenchel_young_loss(scores.reshape(-1, 50), tokens.reshape(-1)).backward()
    torch.testing.assert_close(ours, embedding.weight.grad, rtol=1e-4, atol=1e-6)


def test_autocast(device):
    hidden, weight, bias = layer(device=device)
    target = torch.randint(50, (20,), device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias)
    loss.backward()
    assert loss.dtype is hidden.grad.dtype is weight.grad.dtype is torch.float32
    narrow = [x.detach().bfloat16() for x in (hidden, weight, bias)]
    right = mt.linear_fenchel_young_loss(*narrow[:2], target, 1.5, narrow[2])
    torch.testing.assert_close(loss.detach(), right)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "none"])
# torch.compile's own tracing of autograd functions, and its guards under Python 3.13.0
@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated", "ignore:Guards may run slower:RuntimeWarning"
)
def test_compiled(reduction, device):
    given = layer(device=device)
    target = torch.randint(50, (20,), device=device)

    def loss(hidden, weight, bias):
        loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias, reduction=reduction)
        return 3 * loss.sum()

    again = [x.detach().clone().requires_grad_() for x in given]
    whole = torch.compile(loss, fullgraph=True, backend="aot_eager")(*again)
    whole.backward()
    right = loss(*given)
    right.backward()
    torch.testing.assert_close(whole.detach(), right.detach())
    for a, b in zip(again, given, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_a_bad_row_is_bad_alone(device):
    hidden, weight, bias = layer(classes=700, device=device)
    target = torch.randint(700, (20,), device=device)
    right = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias, reduction="none")
    with torch.no_grad():
        hidden[3, 2], hidden[7, 0] = math.nan, math.inf
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias, reduction="none")
    bad = torch.zeros(20, dtype=torch.bool, device=device)
    bad[[3, 7]] = True
    assert loss[bad].isnan().all()
    torch.testing.assert_close(loss[~bad], right[~bad])


def test_classes_that_cannot_be(device):
    """-inf in the bias: never chosen, and no gradient; a row without any class has loss 0."""
    hidden, weight, bias = layer(device=device)
    target = torch.randint(10, 50, (20,), device=device)
    with torch.no_grad():
        bias[:10] = -math.inf
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias)
    loss.backward()
    assert loss.isfinite()
    assert not weight.grad[:10].any()
    nothing = torch.full_like(bias, -math.inf)
    none = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, nothing, reduction="none")
    assert not none.any()


# -- distributions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.05, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("spread", [3.0, 1e-3])
def test_distributions(alpha, spread, device):
    hidden, weight, bias = layer(20, 8, 900, spread=spread, device=device)
    found = mt.linear_entmax(hidden.reshape(4, 5, 8), weight, alpha, bias)
    p = mt.entmax(linear(hidden, weight, bias).detach().double(), alpha)
    assert found.support.shape == (4, 5)
    assert found.indices.shape == found.probabilities.shape
    width = found.indices.shape[-1]
    dense = torch.zeros_like(p).scatter_add_(
        1, found.indices.reshape(-1, width), found.probabilities.reshape(-1, width).double()
    )
    torch.testing.assert_close(dense, p, rtol=0, atol=2e-6)
    assert (found.probabilities.diff(dim=-1) <= 0).all()
    assert (found.probabilities > 0).sum(-1).equal(found.support)
    drawn = found.sample(50)
    assert drawn.shape == (4, 5, 50)
    assert (p.gather(1, drawn.reshape(20, 50)) > 0).all()
    best = found.indices[..., 0]
    torch.testing.assert_close(found.log_prob(best), found.probabilities[..., 0].log())


def test_a_bad_row_makes_distributions_no_wider(device):
    hidden, weight, bias = (x.detach() for x in layer(4, 8, 900, device=device))
    width = mt.linear_entmax(hidden, weight, 1.5, bias).indices.shape[-1]
    hidden[1, 0] = math.nan
    found = mt.linear_entmax(hidden, weight, 1.5, bias)
    assert found.indices.shape[-1] <= width
    assert found.probabilities[1, 0].isnan()
    assert found.support[1] == 1


def test_no_distributions_of_nothing(device):
    hidden, weight, _ = layer(0, device=device)
    found = mt.linear_entmax(hidden, weight)
    assert found.support.shape == (0,)
    with pytest.raises(ValueError, match="alpha > 1"):
        mt.linear_entmax(hidden, weight, 1.0)


def test_module():
    head = mt.LinearFenchelYoungLoss(8, 50, 1.5, bias=True, label_weight=torch.ones(50))
    assert "in_features=8, num_classes=50, Tsallis(alpha=1.5), bias=True" in repr(head)
    assert set(head.state_dict()) == {"weight", "bias", "label_weight"}
    hidden = torch.randn(3, 8)
    p = head.predict(hidden)
    torch.testing.assert_close(p.probabilities.sum(-1), torch.ones(3))
    with pytest.raises(NotImplementedError, match="NormEntropy"):
        mt.LinearFenchelYoungLoss(8, 50, mt.NormEntropy(2.0)).predict(hidden)


def shards_have_the_whole_solution(device):
    """Two shards of the classes tell each other a few candidates of each row."""
    from maxent.torch.head import _triton_head

    hidden, weight, bias = (x.detach() for x in layer(6, 20, 300, device=device))
    told = [
        _triton_head.candidates(hidden, weight[a:b], bias[a:b], 1.5, first=a)[0]
        for a, b in ((0, 130), (130, 300))
    ]
    assert max(int(part.count.max()) for part in told) < 20
    joined = _triton_head.Candidates.joined(told)
    _triton_head.finish(joined, 1.5)
    p = mt.entmax(linear(hidden, weight, bias).double(), 1.5)
    ours = torch.zeros_like(p)
    for row, count in enumerate(joined.count.tolist()):
        ours[row, joined.index[row, :count].long()] = joined.score[row, :count].double()
    torch.testing.assert_close(ours, p, rtol=0, atol=3e-6)


@cuda
def test_shards_of_the_classes():
    shards_have_the_whole_solution("cuda")


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"target": torch.tensor([0, 50])}, IndexError, "label 50 is out of range for 50 classes"),
        ({"target": torch.tensor([0.0, 1.0])}, TypeError, "labels must be integers"),
        ({"target": torch.tensor([0, 1, 2])}, ValueError, "needs labels of shape"),
        ({"target": [0, 1, 2]}, TypeError, "labels or a pair"),
        ({"weight": torch.zeros(50, 7)}, ValueError, "features"),
        ({"weight": torch.zeros(50, 8, dtype=torch.float64)}, TypeError, "torch.autocast"),
        ({"weight": torch.zeros(0, 8)}, ValueError, "one class or more"),
        ({"weight": torch.zeros(50, 8, dtype=torch.int64)}, TypeError, "floating"),
        ({"bias": torch.zeros(49)}, ValueError, "50 classes"),
        ({"label_weight": torch.zeros(49)}, ValueError, r"50 classes, got \(49,\)"),
        ({"shift": 1}, ValueError, "shift"),
        ({"reduction": "max"}, ValueError, "reduction"),
        ({"entropy": 0.5}, ValueError, "alpha >= 1"),
        (
            {"target": (torch.tensor([[0, 1], [2, 3]]), torch.tensor([[0.5, 0.5], [0.5, 0.6]]))},
            ValueError,
            "row 1 of the proportions",
        ),
        (
            {"target": (torch.tensor([[0, 1], [2, 3]]), torch.tensor([[0.5, 0.5]]))},
            ValueError,
            "classes and portions",
        ),
    ],
)
def test_bad_input(change, error, said):
    given = {"hidden": torch.zeros(2, 8), "weight": torch.zeros(50, 8)}
    given |= {"target": torch.tensor([0, 1])} | change
    if "shift" in change:
        given |= {"hidden": torch.zeros(8), "target": torch.tensor(0)}
    with pytest.raises(error, match=said):
        mt.linear_fenchel_young_loss(**given)


def test_labels_out_of_range_unchecked(device):
    """As on CUDA by default: NaN for the loss of the row, nothing written anywhere else."""
    hidden, weight, _ = layer(4, device=device)
    target = torch.tensor([0, 77, -3, 1], device=device)
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, reduction="none", check=False)
    assert loss.isnan().tolist() == [False, True, True, False]
    loss[[0, 3]].sum().backward()
    assert weight.grad.isfinite().all()
