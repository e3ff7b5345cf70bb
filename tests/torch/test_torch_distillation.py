"""Distillation from a teacher's head, beside both heads' scores written out."""

import pytest

from tools import needs

torch = needs("torch")

from torch.nn.functional import cross_entropy, kl_div, linear  # noqa: E402
from watching import Watch  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.head import _dense, _teacher  # noqa: E402

ROWS, CLASSES, FEATURES, TEACHER = 11, 60, 6, 9


def heads(dtype=torch.float64, spread=2.0):
    """A student and a teacher with constants, as lists of hidden vectors, weights, constants."""
    made = []
    for features in (FEATURES, TEACHER):
        hidden = torch.randn(ROWS, features, dtype=torch.float64)
        hidden[::3] *= 1e-3  # rows with wide supports
        weight = spread * torch.randn(CLASSES, features, dtype=torch.float64)
        bias = 0.01 * torch.randn(CLASSES, dtype=torch.float64)
        made.append([x.to(dtype).requires_grad_() for x in (hidden, weight, bias)])
    return made


def scores(layer, temperature=1.0, soft_cap=None):
    x = linear(*layer)
    return (x if soft_cap is None else soft_cap * torch.tanh(x / soft_cap)) / temperature


def target(layer, entropy, **settings):
    """What the teacher says, all of it."""
    x = scores(layer, **settings).detach()
    if isinstance(entropy, mt.NormEntropy):
        return mt.normmax(x, 2.0)
    return mt.entmax(x, {"shannon": 1.0, "entmax15": 1.5}.get(entropy, entropy))


PAIRS = [
    ("entmax15", None), ("shannon", None), (2.0, "shannon"), ("shannon", 1.5),
    (1.5, mt.NormEntropy(2.0)), (mt.NormEntropy(2.0), 2.0),
]  # fmt: skip
TEMPERATURES = {"temperature": 0.7, "teacher_temperature": 1.6, "soft_cap": 3.0}


@pytest.mark.parametrize("backend", ["numba", "plain"])
@pytest.mark.parametrize("settings", [{}, TEMPERATURES], ids=["plain", "tempered"])
@pytest.mark.parametrize(("entropy", "taught"), PAIRS, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_as_with_all_scores(reduction, entropy, taught, settings, backend, monkeypatch):
    monkeypatch.setattr(_dense, "ROOM_ON_CPU", 1)  # some rows at a time
    monkeypatch.setattr(_dense, "FEWEST", 3)
    monkeypatch.setattr(_teacher, "KEPT", 12)  # rows of both kinds
    student, teacher = heads()
    mask = torch.arange(ROWS) != 4
    with mt.backend(backend):
        loss = mt.linear_distillation_loss(
            *student[:2], *teacher[:2], entropy, taught, student[2], teacher[2], mask, reduction,
            **settings,
        )  # fmt: skip
    x = scores(student, settings.get("temperature", 1.0), settings.get("soft_cap"))
    y = target(
        teacher, entropy if taught is None else taught,
        temperature=settings.get("teacher_temperature", 1.0),
    )  # fmt: skip
    right = mt.fenchel_young_loss(x, y, entropy, "none", dim=-1) * mask
    if reduction == "mean":
        right = right.sum() / (ROWS - 1)
    torch.testing.assert_close(loss, right, rtol=1e-10, atol=1e-12)
    weights = torch.rand(ROWS, dtype=torch.float64) if reduction == "none" else 3.0
    ours = torch.autograd.grad((weights * loss).sum(), student)
    theirs = torch.autograd.grad((weights * right).sum(), student)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_softmax_on_both_sides_is_the_divergence():
    student, teacher = heads()
    loss = mt.linear_distillation_loss(
        *student[:2], *teacher[:2], "shannon", bias=student[2], teacher_bias=teacher[2],
        reduction="sum", temperature=2.0,
    )  # fmt: skip
    p, q = (scores(layer, 2.0).log_softmax(1) for layer in (student, teacher))
    torch.testing.assert_close(loss, kl_div(p, q, reduction="sum", log_target=True))


def test_a_teacher_that_is_sure_is_a_label():
    hidden, weight, _ = heads()[0]
    sure = 1e4 * torch.nn.functional.one_hot(torch.arange(ROWS), CLASSES).double()
    loss = mt.linear_distillation_loss(hidden, weight, sure, torch.eye(CLASSES).double(), "shannon")
    torch.testing.assert_close(loss, cross_entropy(linear(hidden, weight), torch.arange(ROWS)))


def test_nothing_as_large_as_the_scores(monkeypatch):
    """The largest tensor that is made on the way has the weight's size or that of a few rows."""
    monkeypatch.setattr(_dense, "ROOM_ON_CPU", 1)
    monkeypatch.setattr(_dense, "FEWEST", 4)
    rows, classes = 64, 500
    hidden, weight = torch.randn(rows, 4, requires_grad=True), torch.randn(classes, 4)
    for entropy in ("shannon", "entmax15"):
        with Watch() as watch, mt.backend("plain"):
            mt.linear_distillation_loss(
                hidden, weight, hidden, weight, entropy, temperature=9.0
            ).backward()
        assert watch.largest <= 8 * classes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_other_types(dtype, reduction):
    student, teacher = heads(dtype)
    loss = mt.linear_distillation_loss(
        *student[:2], *teacher[:2], 1.5, bias=student[2], teacher_bias=teacher[2],
        reduction=reduction,
    )  # fmt: skip
    wide, theirs = ([x.detach().double().requires_grad_() for x in h] for h in (student, teacher))
    y = target(theirs, 1.5)
    right = mt.fenchel_young_loss(linear(*wide), y, 1.5, reduction, dim=-1)
    assert loss.dtype == torch.float32
    near = {"rtol": 3e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 5e-2, "atol": 0.1}
    torch.testing.assert_close(loss.double(), right, **near)
    for a, b in zip(
        torch.autograd.grad(1e-3 * loss.sum(), student),
        torch.autograd.grad(1e-3 * right.sum(), wide),
        strict=True,
    ):
        assert a.dtype == dtype
        assert (a.double() - b).norm() <= (1e-4 if dtype == torch.float32 else 2e-2) * b.norm()


def test_the_teacher_has_no_gradient():
    student, teacher = heads()
    mt.linear_distillation_loss(*student[:2], *teacher[:2]).backward()
    assert all(x.grad is not None for x in student[:2])
    assert all(x.grad is None for x in teacher)


def test_leading_dimensions_and_nothing_at_all():
    hidden, weight = torch.randn(2, 3, 4, requires_grad=True), torch.randn(7, 4)
    none = torch.zeros(2, 3, dtype=torch.bool)
    each = mt.linear_distillation_loss(hidden, weight, hidden + 1, weight, reduction="none")
    assert each.shape == (2, 3)
    loss = mt.linear_distillation_loss(hidden, weight, hidden + 1, weight, mask=none)
    loss.backward()
    assert loss == 0
    assert not hidden.grad.any()
    empty = torch.zeros(0, 4)
    assert mt.linear_distillation_loss(empty, weight, empty, weight, reduction="none").shape == (0,)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"teacher_weight": torch.zeros(5, 3)}, ValueError, "the same rows and classes"),
        ({"teacher_hidden": torch.zeros(3, 3)}, ValueError, "the same rows and classes"),
        ({"teacher_hidden": torch.zeros(4, 2)}, ValueError, "teacher needs hidden"),
        ({"mask": torch.ones(4)}, ValueError, "a mask of booleans of shape"),
        ({"mask": torch.ones(3, dtype=torch.bool)}, ValueError, "a mask of booleans of shape"),
        ({"temperature": 0.0}, ValueError, "a finite temperature > 0"),
        ({"teacher_temperature": -1.0}, ValueError, "teacher needs a finite temperature > 0"),
        ({"soft_cap": 0.0}, ValueError, "a finite soft_cap > 0"),
        ({"reduction": "all"}, ValueError, "reduction must be"),
        ({"entropy": "cubic"}, ValueError, "cubic"),
        ({"weight": torch.zeros(6, 3).double()}, TypeError, "convert one with"),
    ],
)
def test_errors_in_words(change, error, said):
    given = {"hidden": torch.zeros(4, 3), "weight": torch.zeros(6, 3)}
    given |= {"teacher_hidden": torch.zeros(4, 3), "teacher_weight": torch.zeros(6, 3)}
    with pytest.raises(error, match=said):
        mt.linear_distillation_loss(**given | change)


def test_no_second_derivative():
    student, teacher = heads()
    loss = mt.linear_distillation_loss(*student[:2], *teacher[:2], "shannon")
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.autograd.grad(loss, student[:1], create_graph=True)
