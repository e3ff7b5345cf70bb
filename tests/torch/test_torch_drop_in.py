"""FenchelYoungLoss in the place of torch.nn.CrossEntropyLoss: its arguments, shapes and speed."""

import threading

import pytest

from tools import needs

torch = needs("torch")

import maxent.torch as mt  # noqa: E402
from maxent.torch.maps import _compiled  # noqa: E402

ENTROPIES = ["shannon", "sparsemax", "entmax15", 1.3, mt.NormEntropy(2.0)]
each_entropy = pytest.mark.parametrize("entropy", ENTROPIES, ids=str)
each_backend = pytest.mark.parametrize("backend", ["plain", "numba"])
each_reduction = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
weighted = pytest.mark.parametrize("weighted", [False, True])


def scores(*shape):
    return (2 * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def same(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)


def value_and_gradient(loss, x):
    value = loss(x)
    return value, torch.autograd.grad(value.sum(), x)[0]


# Label smoothing


@weighted
@each_reduction
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3)])
def test_smoothed_shannon_is_smoothed_cross_entropy(shape, reduction, weighted):
    x, y = scores(*shape), torch.randint(5, (shape[0], *shape[2:]))
    y.view(-1)[1] = -100
    weight = torch.rand(5, dtype=torch.float64) if weighted else None
    expected = torch.nn.CrossEntropyLoss(weight, reduction=reduction, label_smoothing=0.2)
    ours = mt.FenchelYoungLoss("shannon", reduction, weight=weight, label_smoothing=0.2)
    for found, known in zip(
        value_and_gradient(lambda x: ours(x, y), x),
        value_and_gradient(lambda x: expected(x, y), x),
        strict=True,
    ):
        same(found, known)
    # and without torch's own function, which transforms do not reach
    rows = torch.func.grad(lambda x: ours(x, y).sum())(x.detach())
    same(rows, known)


@weighted
@each_backend
@each_entropy
def test_smoothing_mixes_the_losses_of_all_classes(entropy, backend, weighted):
    x, y = scores(6, 4), torch.tensor([0, 3, -100, 1, 2, 2])
    weight = torch.rand(4, dtype=torch.float64) if weighted else torch.ones(4, dtype=torch.float64)
    with mt.backend(backend):

        def loss(x, y):
            return mt.fenchel_young_loss(x, y, entropy, "none", weight=weight)

        def mixed(x):
            every = sum(loss(x, torch.full_like(y, c)) for c in range(4)) / 4
            return (0.9 * loss(x, y) + 0.1 * every).masked_fill(y == -100, 0)

        for target in (y, one_hot(y, 4)):
            found = value_and_gradient(
                lambda x, target=target: mt.fenchel_young_loss(
                    x, target, entropy, "none", weight=weight, label_smoothing=0.1
                ),
                x,
            )
            for ours, known in zip(found, value_and_gradient(mixed, x), strict=True):
                same(ours, known)
    criterion = mt.FenchelYoungLoss(entropy, weight=weight, label_smoothing=0.1)
    divisor = weight[y.clamp_min(0)].masked_fill(y == -100, 0).sum()
    same(criterion(x, y), mixed(x).sum() / divisor)


def one_hot(y, size, ignore=-100):
    rows = torch.nn.functional.one_hot(y.clamp_min(0), size).double()
    return rows.masked_fill((y == ignore)[:, None], ignore)


@each_entropy
def test_smoothing_keeps_the_rules_at_the_edges(entropy):
    x = scores(4, 3).detach()
    x[0], x[1, 0], x[2] = -torch.inf, torch.nan, torch.nan
    x.requires_grad_()
    loss = mt.fenchel_young_loss(
        x, torch.tensor([1, 1, -100, 2]), entropy, "none", label_smoothing=0.1
    )
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    assert loss[0] == 0
    assert loss[1].isnan()
    assert loss[2] == 0
    assert (gradient[[0, 2]] == 0).all()
    assert loss[3] > 0
    assert gradient[3].isfinite().all()
    with pytest.raises(IndexError, match="label 3 is out of range"):
        mt.fenchel_young_loss(
            x, torch.tensor([1, 1, 3, 2]), entropy, label_smoothing=0.1, check=True
        )
    unchecked = mt.fenchel_young_loss(
        x, torch.tensor([1, 1, 3, 5]), entropy, "none", label_smoothing=0.1, check=False
    )
    assert unchecked[3].isnan()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # torch.compile's own tracing
@pytest.mark.filterwarnings("ignore:Guards may run slower:RuntimeWarning")  # under Python 3.13.0
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_smoothed_losses_are_compiled_and_traced():
    x, y = scores(4, 5), torch.tensor([0, 4, -100, 2])
    criterion = mt.FenchelYoungLoss("entmax15", label_smoothing=0.1)
    expected = value_and_gradient(lambda x: criterion(x, y), x)
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    traced = torch.jit.trace(criterion, (scores(4, 5), torch.tensor([1, -100, 0, 0])))
    for recorded in (compiled, traced):
        found = value_and_gradient(lambda x, recorded=recorded: recorded(x, y), x)
        for ours, known in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, known, atol=1e-8, rtol=1e-8)


def test_smoothing_is_a_share():
    for wrong in (-0.1, 1.5, float("nan"), "0.1"):
        with pytest.raises(ValueError, match="label_smoothing must be a number from 0 to 1"):
            mt.FenchelYoungLoss(label_smoothing=wrong)
    assert "label_smoothing=0.1" in repr(mt.FenchelYoungLoss(label_smoothing=0.1))


# Rows of probabilities that do not count


@weighted
@each_backend
@pytest.mark.parametrize("ignore_index", [-100, 0, 255])
@each_entropy
def test_rows_of_probabilities_are_ignored_like_labels(entropy, ignore_index, backend, weighted):
    x, kept = scores(6, 4), torch.tensor([True, False, True, True, False, True])
    y = torch.softmax(torch.randn(6, 4, dtype=torch.float64), 1)
    y = torch.where(kept[:, None], y, ignore_index)
    weight = torch.rand(4, dtype=torch.float64) if weighted else None
    options = {"ignore_index": ignore_index, "weight": weight}
    with mt.backend(backend):
        loss = mt.fenchel_young_loss(x, y, entropy, **options)
        same(loss, mt.fenchel_young_loss(x[kept], y[kept], entropy, **options))
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        assert (gradient[~kept] == 0).all()
        (second,) = torch.autograd.grad(gradient.square().sum(), x)
        assert (second[~kept] == 0).all()
        assert second.isfinite().all()
        rows = mt.fenchel_young_loss(x, y, entropy, "none", **options)
        assert (rows[~kept] == 0).all()
        assert (rows[kept] > 0).all()


def test_a_row_without_a_target_is_refused_unless_it_says_so():
    x, y = scores(2, 3), torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"row 1 .* fill rows to be ignored with ignore_index"):
        mt.fenchel_young_loss(x, y)
    mt.fenchel_young_loss(x, y, ignore_index=0)


# Where the classes are


@each_entropy
def test_classes_are_where_cross_entropy_has_them(entropy):
    criterion = mt.FenchelYoungLoss(entropy, "none")
    for shape in ((5,), (4, 5), (2, 5, 3), (2, 5, 5), (2, 5, 3, 4)):
        dim = 0 if len(shape) == 1 else 1
        x = scores(*shape)
        y = torch.randint(5, (*shape[:dim], *shape[dim + 1 :]))
        soft = torch.softmax(torch.randn(shape, dtype=torch.float64), dim)
        for target in (y, soft):
            expected = mt.fenchel_young_loss(
                x.movedim(dim, -1),
                target if target is y else soft.movedim(dim, -1),
                entropy,
                "none",
                dim=-1,
            )
            same(criterion(x, target), expected)
        same(criterion.predict(x).sum(dim), torch.ones(y.shape, dtype=torch.float64))
        if entropy == "shannon":
            same(criterion(x, y), torch.nn.functional.cross_entropy(x, y, reduction="none"))


def test_classes_that_are_last_need_a_word():
    x, y = scores(2, 7, 5), torch.randint(5, (2, 7))
    with pytest.raises(ValueError, match=r"shape \(2, 5\) .* pass dim=-1 if the classes are last"):
        mt.fenchel_young_loss(x, y)
    assert mt.fenchel_young_loss(x, y, reduction="none", dim=-1).shape == (2, 7)


# One kernel


@each_entropy
def test_the_fused_loss_is_the_plain_one(entropy):
    x, y = scores(40, 30), torch.randint(30, (40,))
    y[3] = -100
    with torch.no_grad():
        x[5], x[6, 2], x[7, y[7]] = -torch.inf, -torch.inf, -torch.inf
    weight = torch.rand(30, dtype=torch.float64)
    x[7].data[y[7]] = 0.0
    for w in (None, weight):
        for reduction in ("mean", "sum", "none"):
            found = []
            for backend in ("plain", "numba"):
                with mt.backend(backend):
                    loss = mt.fenchel_young_loss(x, y, entropy, reduction, weight=w)
                    total = (3 * loss).sum()
                    first = torch.autograd.grad(total, x, retain_graph=True)[0]
                    again = torch.autograd.grad(2 * total, x)[0] / 2
                    found.append((loss, first, again))
            for plain, fused in zip(*found, strict=True):
                same(fused, plain)


@each_entropy
def test_second_derivatives_of_a_sum(entropy):
    x, y = scores(3, 4), torch.tensor([0, 3, -100])
    assert torch.autograd.gradgradcheck(lambda x: mt.fenchel_young_loss(x, y, entropy), x)


@each_reduction
@each_entropy
def test_batches_of_gradients(entropy, reduction):
    x, y = scores(3, 4), torch.tensor([0, 3, -100])
    loss = mt.fenchel_young_loss(x, y, entropy, reduction)
    g = torch.randn(5, *loss.shape, dtype=torch.float64)
    (batched,) = torch.autograd.grad(loss, x, g, is_grads_batched=True, retain_graph=True)
    for one, expected in zip(g, batched, strict=True):
        same(torch.autograd.grad(loss, x, one, retain_graph=True)[0], expected)


def test_shannon_is_torchs_own_function():
    x, y = scores(4, 5), torch.tensor([0, 4, -100, 2])
    loss = mt.fenchel_young_loss(x, y, "shannon")
    assert "NllLoss" in type(loss.grad_fn).__name__
    assert torch.equal(loss, torch.nn.functional.cross_entropy(x, y))


def test_kernels_take_the_threads_of_torch(monkeypatch):
    monkeypatch.setenv("MAXENT_NUM_THREADS", "2")
    used = set()
    for name in ("conjugate_rows", "loss_rows", "vjp_rows"):
        kernel = getattr(_compiled, name)

        def watched(*args, kernel=kernel):
            used.add(threading.current_thread().name)
            threading.Event().wait(0.002)  # leaves the others time to come
            return kernel(*args)

        monkeypatch.setattr(_compiled, name, watched)

    def work():
        used.clear()
        x = torch.randn(2000, 50, requires_grad=True)
        mt.entmax15(x).square().sum().backward()
        mt.fenchel_young_loss(x, torch.randint(50, (2000,))).backward()
        return len(used)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert work() == 1
        torch.set_num_threads(2)
        assert work() > 1
    finally:
        torch.set_num_threads(before)
