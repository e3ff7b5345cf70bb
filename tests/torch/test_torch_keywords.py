"""A keyword means the same wherever a loss or a head takes it: one table of doors."""

import inspect
import re

import pytest

from tools import needs

torch = needs("torch")

from torch.nn.functional import linear, one_hot  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.head._lazy_scores import LazyLinear  # noqa: E402

ROWS, CLASSES, FEATURES, ALPHA = 9, 12, 5, 1.5


def unfused(given, settings):
    return mt.fenchel_young_loss(given.scores(), given.labels, ALPHA, dim=-1, **settings)


def unfused_module(given, settings):
    return mt.FenchelYoungLoss(ALPHA, **settings)(given.scores(), given.labels)


def head(given, settings):
    return mt.linear_fenchel_young_loss(given.hidden, given.weight, given.labels, ALPHA, **settings)


def head_module(given, settings):
    made = mt.LinearFenchelYoungLoss(FEATURES, CLASSES, ALPHA, dtype=torch.float64, **settings)
    made.weight = torch.nn.Parameter(given.weight)
    return made(given.hidden, given.labels)


def statistics(given, settings):
    return mt.linear_statistics(given.hidden, given.weight, given.labels, ALPHA, **settings).loss


def causal(given, settings):
    return mt.CausalLoss(ALPHA, **settings)(given.scores(), None, shift_labels=given.labels)


def causal_head(given, settings):
    """As a model of transformers asks, whose head leaves its scores to the loss."""
    layer = torch.nn.Linear(FEATURES, CLASSES, bias=False, dtype=torch.float64)
    layer.__class__ = LazyLinear
    layer.weight = torch.nn.Parameter(given.weight)
    return mt.CausalLoss(ALPHA, **settings)(layer(given.hidden), None, shift_labels=given.labels)


def chunks(given, settings):
    made = mt.ChunkedLoss(ALPHA, 2, **settings)
    layer = torch.nn.Linear(FEATURES, CLASSES, bias=False)
    layer.weight = torch.nn.Parameter(given.weight)
    made.set_lm_head(layer)
    return made(given.hidden, given.labels)[0]


def distillation(given, settings):
    """From a teacher that is sure of the labels."""
    used = given.labels != -100
    sure = 1e3 * one_hot(given.labels.clamp_min(0), CLASSES).double()
    eye = torch.eye(CLASSES, dtype=torch.float64)
    return mt.linear_distillation_loss(
        given.hidden, given.weight, sure, eye, ALPHA, mask=used, **settings
    )


SCALES = {"temperature", "soft_cap"}
LOSS = {"label_smoothing", "z_loss", *SCALES}
ALL = {"ignore_index", "reduction", "label_weight", *LOSS}
# what each takes, and what it does where nothing is said
DOORS = {
    unfused: (ALL, "mean"),
    unfused_module: (ALL, "mean"),
    head: (ALL, "mean"),
    head_module: (ALL, "mean"),
    statistics: (ALL - {"reduction"}, "none"),
    causal: (LOSS, "mean"),
    causal_head: (LOSS, "mean"),
    chunks: (LOSS | {"ignore_index"}, "sum"),
    distillation: (SCALES | {"reduction"}, "mean"),
}
UNFUSED_NAMES = {"label_weight": "weight"}  # as in torch's cross_entropy


class Given:
    """Hidden vectors, a weight, labels; one does not count."""

    def __init__(self, dtype=torch.float64, ignored=-100):
        torch.manual_seed(0)
        self.hidden = torch.randn(ROWS, FEATURES, dtype=torch.float64).to(dtype)
        self.weight = (2 * torch.randn(CLASSES, FEATURES, dtype=torch.float64)).to(dtype)
        self.labels = torch.randint(CLASSES, (ROWS,))
        self.labels[self.labels == ignored] = 1
        self.labels[3] = ignored

    def scores(self):
        return linear(self.hidden, self.weight)


def written_out(
    given, label_smoothing=0.0, temperature=1.0, soft_cap=None, z_loss=0.0, ignore_index=-100,
    label_weight=None, reduction="mean",
):  # fmt: skip
    """The definition, class by class."""
    x = given.scores()
    x = (x if soft_cap is None else soft_cap * torch.tanh(x / soft_cap)) / temperature
    p = mt.entmax(x, ALPHA)
    conjugate = (x * p).sum(1) - ((p**ALPHA).sum(1) - 1) / (ALPHA * (ALPHA - 1))
    every = conjugate[:, None] - x  # the loss of each class
    weights = torch.ones(CLASSES, dtype=x.dtype) if label_weight is None else label_weight
    used = given.labels != ignore_index
    own = given.labels.clamp(0, CLASSES - 1)
    label = weights[own] * every.gather(1, own[:, None])[:, 0]
    loss = (1 - label_smoothing) * label + label_smoothing * (weights * every).mean(1)
    counts = (1 - label_smoothing) * weights[own] + label_smoothing * weights.mean()
    loss = (loss + z_loss * counts * conjugate.square()) * used
    if reduction == "none":
        return loss
    return loss.sum() / (weights[own] * used).sum() if reduction == "mean" else loss.sum()


VALUES = [
    {},
    {"label_smoothing": 0.3},
    {"temperature": 0.6},
    {"soft_cap": 2.5},
    {"z_loss": 0.05},
    {"ignore_index": 4},
    {"label_weight": torch.linspace(0.5, 2, CLASSES, dtype=torch.float64)},
    {"reduction": "sum"},
    {"reduction": "none"},
]
VALUES.append({name: x for settings in VALUES[:-2] for name, x in settings.items()})


def cases(listed):
    """Doors with what they take of each of these settings."""
    made = []
    for door, (taken, _) in DOORS.items():
        for settings in listed:
            own = {name: x for name, x in settings.items() if name in taken}
            if own or not settings:
                made.append(pytest.param(door, own, id=f"{door.__name__}-{'+'.join(own)}"))
    return made


@pytest.mark.parametrize(("door", "settings"), cases(VALUES))
def test_a_keyword_means_the_same(door, settings):
    default = DOORS[door][1]
    given = Given(ignored=settings.get("ignore_index", -100))
    names = UNFUSED_NAMES if door in (unfused, unfused_module) else {}
    found = door(given, {names.get(name, name): x for name, x in settings.items()})
    right = written_out(given, **{"reduction": default, **settings})
    torch.testing.assert_close(found.detach(), right, rtol=1e-9, atol=1e-10)


FUNCTIONS = {
    unfused: mt.fenchel_young_loss,
    unfused_module: mt.FenchelYoungLoss,
    head: mt.linear_fenchel_young_loss,
    head_module: mt.LinearFenchelYoungLoss,
    statistics: mt.linear_statistics,
    causal: mt.CausalLoss,
    causal_head: mt.set_causal_loss,
    chunks: mt.ChunkedLoss,
    distillation: mt.linear_distillation_loss,
}
OTHERS = (mt.linear_log_probabilities, mt.linear_entmax, mt.EntmaxLogitsProcessor)


def test_every_keyword_is_in_the_table_and_has_one_default():
    defaults = {}
    for door, (taken, _) in DOORS.items():
        parameters = inspect.signature(FUNCTIONS[door]).parameters
        names = UNFUSED_NAMES if door in (unfused, unfused_module) else {}
        assert {name for name in ALL if names.get(name, name) in parameters} == taken, door
        for name in taken:
            defaults.setdefault(name, set()).add(parameters[names.get(name, name)].default)
    for other in OTHERS:
        parameters = inspect.signature(other).parameters
        for name in ALL & parameters.keys():
            defaults[name].add(parameters[name].default)
    assert all(len(values) == 1 for values in defaults.values()), defaults


@pytest.mark.parametrize("settings", [{"temperature": 0.6}, {"soft_cap": 2.5}], ids="+".join)
def test_probabilities_are_of_the_same_scores(settings):
    given = Given()
    given.labels[3] = 0
    x = given.scores()
    cap = settings.get("soft_cap")
    x = (x if cap is None else cap * torch.tanh(x / cap)) / settings.get("temperature", 1.0)
    p = mt.entmax(x, ALPHA)
    layer = (given.hidden, given.weight)
    torch.testing.assert_close(mt.linear_entmax(*layer, ALPHA, **settings).to_dense(), p)
    log, _ = mt.linear_log_probabilities(*layer, given.labels, ALPHA, **settings)
    torch.testing.assert_close(log, p.gather(1, given.labels[:, None])[:, 0].log())
    if cap is None:
        processor = mt.EntmaxLogitsProcessor(ALPHA, **settings)
        torch.testing.assert_close(processor(None, given.scores()).exp(), p)


REFUSED = {
    "label_smoothing=1.5": "label_smoothing must be a number from 0 to 1, got 1.5",
    "temperature=0.0": "needs a finite temperature > 0, got 0.0",
    "temperature=-1.0": "needs a finite temperature > 0, got -1.0",
    "soft_cap=0.0": "needs a finite soft_cap > 0",
    "z_loss=-0.1": "z_loss must be a finite number >= 0, got -0.1",
    "reduction=7": 'reduction must be "none", "mean" or "sum", got 7',
}


@pytest.mark.parametrize(
    ("door", "wrong"),
    [
        (door, wrong)
        for door, (taken, _) in DOORS.items()
        for wrong in REFUSED
        if wrong.split("=")[0] in taken
    ],
)
def test_what_is_refused_is_refused_in_the_same_words(door, wrong):
    name, value = wrong.split("=")
    with pytest.raises(ValueError, match=re.escape(REFUSED[wrong])):
        door(Given(), {name: int(value) if value == "7" else float(value)})


def test_a_cap_that_no_half_reaches():
    given = Given(torch.float16)
    for door in (unfused, head, statistics):
        with pytest.raises(ValueError, match=r"no score of torch\.float16 reaches soft_cap=1"):
            door(given, {"soft_cap": 1e5})
