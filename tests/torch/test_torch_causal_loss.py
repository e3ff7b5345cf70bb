"""Models of transformers that are trained without scores, beside the same with all of them."""

import copy
import os

import pytest

from tools import needs

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
torch = needs("torch")
transformers = needs("transformers")
safetensors = needs("safetensors.torch")

from test_torch import tracing_warns  # noqa: E402
from torch.nn.functional import cross_entropy, pad  # noqa: E402
from watching import Watch  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.head import _dense  # noqa: E402
from maxent.torch.head._lazy_scores import LazyLinear, LazyScores  # noqa: E402

WORDS, TOKENS = 50, 7
SIZES = {
    "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32,
    "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
KINDS = {
    "llama": ("Llama", {}),
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "gemma": ("Gemma2", {"final_logit_softcapping": 2.0, "head_dim": 8}),
    "cohere": ("Cohere", {"logit_scale": 3.0}),
    "granite": ("Granite", {"logits_scaling": 0.25}),
}


def made(kind="llama", **options):
    """A model with spread scores."""
    name, own = KINDS[kind]
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **own, **options})
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    return model.train()


def words(batch=2, tokens=TOKENS):
    return torch.randint(1, WORDS, (batch, tokens), generator=torch.Generator().manual_seed(0))


def labelled(batch=2):
    """Labels, some of which do not count."""
    labels = words(batch)
    labels[0, :3] = -100
    labels[-1, -2:] = -100
    return labels


def gradients(model):
    return {name: x.grad for name, x in model.named_parameters()}


# -- the loss --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entropy", ["entmax15", "shannon"])
@pytest.mark.parametrize("count", [None, 37])
def test_as_with_all_scores(kind, entropy, count, monkeypatch):
    dense = made(kind)
    model = mt.set_causal_loss(copy.deepcopy(dense), entropy)
    labels, given = labelled(), {} if count is None else {"num_items_in_batch": count}
    x = dense(words()).logits
    reduction = "mean" if count is None else "sum"
    right = mt.fenchel_young_loss(x[:, :-1], labels[:, 1:], entropy, reduction, dim=-1)
    right = right if count is None else right / count
    right.backward()
    monkeypatch.setattr(LazyScores, "_computed", lambda self: pytest.fail("scores were computed"))
    loss = model(words(), labels=labels, **given).loss
    loss.backward()
    torch.testing.assert_close(loss, right)
    for name, g in gradients(model).items():
        torch.testing.assert_close(g, gradients(dense)[name], rtol=1e-4, atol=1e-6)


def test_shannon_is_the_loss_of_transformers():
    own = made()
    model = mt.set_causal_loss(copy.deepcopy(own), "shannon")
    for given in ({}, {"num_items_in_batch": torch.tensor(11)}):
        losses = [m(words(), labels=labelled(), **given).loss for m in (own, model)]
        torch.testing.assert_close(losses[1], losses[0])
    shifted = pad(labelled(), (0, 1), value=-100)[:, 1:]
    right = own(words(), labels=labelled()).loss
    for later in (shifted, shifted.reshape(1, -1)):
        loss = model(words(), labels=words(), shift_labels=later).loss
        torch.testing.assert_close(loss, right)


def test_settings_reach_the_loss():
    settings = {"label_smoothing": 0.1, "temperature": 0.7, "z_loss": 0.01}
    for kind, more in (("llama", {"soft_cap": 3.0}), ("gemma", {}), ("granite", {"soft_cap": 3.0})):
        dense = made(kind)
        model = mt.set_causal_loss(copy.deepcopy(dense), 1.3, **settings, **more)
        x = dense(words()).logits[:, :-1]
        right = mt.fenchel_young_loss(x, words()[:, 1:], 1.3, dim=-1, **settings, **more)
        torch.testing.assert_close(model(words(), labels=words()).loss, right)


def test_two_caps():
    """That of the model and that of the loss, of which the head takes one."""
    dense = made("gemma")
    model = mt.set_causal_loss(copy.deepcopy(dense), soft_cap=1.0)
    x = dense(words()).logits[:, :-1]
    right = mt.fenchel_young_loss(x, words()[:, 1:], dim=-1, soft_cap=1.0)
    loss = model(words(), labels=words()).loss
    torch.testing.assert_close(loss, right)
    right.backward()
    loss.backward()
    torch.testing.assert_close(model.model.norm.weight.grad, dense.model.norm.weight.grad)


def test_scores_that_are_given():
    model = made().eval()
    model.loss_function = mt.CausalLoss("sparsemax")
    out = model(words(), labels=labelled())
    right = mt.fenchel_young_loss(out.logits[:, :-1], labelled()[:, 1:], "sparsemax", dim=-1)
    torch.testing.assert_close(out.loss, right)


def test_without_training_nothing_is_left_out():
    dense = made().eval()
    model = mt.set_causal_loss(copy.deepcopy(dense), "shannon")
    found, right = (m(words(), labels=labelled()) for m in (model, dense))
    assert type(found.logits) is torch.Tensor
    torch.testing.assert_close(found.logits, right.logits, rtol=0, atol=0)
    torch.testing.assert_close(found.loss, right.loss)


def test_training_makes_no_scores(monkeypatch):
    """No tensor of a step is as large as they would be."""
    monkeypatch.setattr(_dense, "ROOM_ON_CPU", 1)
    monkeypatch.setattr(_dense, "FEWEST", 16)
    long = words(8, 30)
    for prepare, small in ((mt.set_causal_loss, True), (lambda model: model, False)):
        model = prepare(made())
        with Watch() as watch, mt.backend("plain"), torch.autocast("cpu", torch.bfloat16):
            model(long, labels=long).loss.backward()
        assert (watch.largest < 8 * 29 * WORDS) == small


@pytest.mark.slow
@tracing_warns
def test_a_compiled_model_computes_its_scores():
    model = mt.set_causal_loss(made())
    right = model(words(), labels=words()).loss
    out = torch.compile(model, backend="eager")(words(), labels=words())
    assert type(out.logits) is torch.Tensor
    torch.testing.assert_close(out.loss, right)


def test_autocast_and_narrow_types():
    for cast in (True, False):
        dense = made()
        model = mt.set_causal_loss(copy.deepcopy(dense))
        if not cast:
            dense, model = dense.bfloat16(), model.bfloat16()
        with torch.autocast("cpu", torch.bfloat16, cast):
            x = dense(words()).logits[:, :-1].float()
            right = mt.fenchel_young_loss(x, words()[:, 1:], dim=-1)
            out = model(words(), labels=words())
        assert out.logits.dtype == torch.bfloat16
        assert out.loss.dtype == torch.float32
        torch.testing.assert_close(out.loss, right, rtol=2e-2, atol=2e-2)


# -- scores that are looked at after all -----------------------------------------------------------


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.log_softmax(-1)[..., 0].sum(),
        lambda x: x[:, :-1].div_(0.7).logsumexp(-1).sum(),
        lambda x: torch.tanh(3 * x.double() / 2).square().sum(),
        lambda x: x.mul_(2.0).square().sum(),
        lambda x: x.detach().requires_grad_().square().sum() + x.sum(),
        lambda x: torch.cat([x, x], 1).flatten(0, 1)[:, 3].sum(),
    ],
)
def test_scores_are_there_when_they_are_wanted(look):
    dense = torch.nn.Linear(5, 9)
    lazy = copy.deepcopy(dense)
    lazy.__class__ = LazyLinear
    found = []
    for layer in (dense, lazy):
        torch.manual_seed(2)
        hidden = torch.randn(2, 3, 5, requires_grad=True)
        value = look(layer(hidden))
        value.backward()
        found.append([value.detach(), hidden.grad, layer.weight.grad, layer.bias.grad])
    for ours, theirs in zip(*found[::-1], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_loss_of_changed_scores_is_that_of_the_changed():
    lazy = torch.nn.Linear(5, 9)
    lazy.__class__ = LazyLinear
    hidden, labels = torch.randn(2, 3, 5), torch.randint(9, (2, 3))
    loss = mt.CausalLoss("shannon")
    plain = torch.nn.functional.linear(hidden, lazy.weight, lazy.bias)

    def right(x):
        return cross_entropy(x[:, :-1].flatten(0, 1), labels[:, 1:].flatten())

    scores = lazy(hidden)
    scores.mul_(2.0)
    torch.testing.assert_close(loss(scores, labels), right(2 * plain))
    torch.testing.assert_close(loss(-lazy(hidden), labels), right(-plain))
    torch.testing.assert_close(loss(lazy(hidden) * -2, labels), right(-2 * plain))
    torch.testing.assert_close(loss(lazy(hidden) + 0.5 * plain, labels), right(1.5 * plain))
    twice = torch.tanh(torch.tanh(lazy(hidden)))
    torch.testing.assert_close(loss(twice, labels), right(plain.tanh().tanh()))
    leaf = lazy(hidden).detach().requires_grad_()
    loss(leaf, labels).backward()
    assert leaf.grad.abs().sum() > 0


# -- Trainer, files, errors ------------------------------------------------------------------------


class Rows(torch.utils.data.Dataset):
    """Sentences with different numbers of labels that count."""

    def __init__(self, n=4):
        self.words = words(n)
        self.labels = self.words.clone()
        for k in range(n):
            self.labels[k, : 1 + k] = -100

    def __len__(self):
        return len(self.words)

    def __getitem__(self, k):
        return {"input_ids": self.words[k], "labels": self.labels[k]}


def test_gradients_that_are_added_up_are_those_of_one_batch():
    """What Trainer does: the labels of all batches are counted, each loss is divided by them."""
    data, model = Rows(), mt.set_causal_loss(made())
    count = (data.labels[:, 1:] != -100).sum()
    whole = copy.deepcopy(model)
    whole(data.words, labels=data.labels).loss.backward()
    for part in (slice(0, 2), slice(2, 4)):
        given = {"labels": data.labels[part], "num_items_in_batch": count}
        model(data.words[part], **given).loss.backward()
    for name, g in gradients(model).items():
        torch.testing.assert_close(g, gradients(whole)[name], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_trainer(tmp_path, monkeypatch):
    needs("accelerate")
    monkeypatch.setattr(LazyScores, "_computed", lambda self: pytest.fail("scores were computed"))
    weights = []
    for batch, steps in ((4, 1), (2, 2)):  # the same words in one batch, and gradients added up
        given = transformers.TrainingArguments(
            str(tmp_path / str(steps)), per_device_train_batch_size=batch, max_steps=2,
            gradient_accumulation_steps=steps, learning_rate=0.1, optim="sgd", use_cpu=True,
            report_to="none", save_strategy="no", disable_tqdm=True, max_grad_norm=0.0,
            lr_scheduler_type="constant", per_device_eval_batch_size=2, data_seed=0,
        )  # fmt: skip
        trainer = transformers.Trainer(mt.set_causal_loss(made()), given, train_dataset=Rows())
        trainer.train()
        weights.append(trainer.model.lm_head.weight.detach().clone())
        found = trainer.evaluate(Rows())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-5)
    assert not torch.equal(weights[0], made().lm_head.weight)
    model = trainer.model.eval()
    data, losses = Rows(), []
    with torch.no_grad():
        for part in (slice(0, 2), slice(2, 4)):
            losses.append(model(data.words[part], labels=data.labels[part]).loss.item())
    assert found["eval_loss"] == pytest.approx(sum(losses) / 2, rel=1e-3)


@pytest.mark.parametrize("kind", ["llama", "tied"])
def test_files_are_those_of_the_model(kind, tmp_path):
    dense = made(kind)
    model = mt.set_causal_loss(copy.deepcopy(dense))
    model.save_pretrained(tmp_path)
    assert list(safetensors.load_file(tmp_path / "model.safetensors")) == sorted(
        name for name in dense.state_dict() if kind != "tied" or name != "lm_head.weight"
    )
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).train()
    assert type(again) is type(dense)
    torch.testing.assert_close(again(words()).logits, dense(words()).logits)
    out = mt.set_causal_loss(again)(words(), labels=words())
    torch.testing.assert_close(out.loss, model(words(), labels=words()).loss)


def test_a_head_in_a_file(tmp_path):
    head = mt.LinearFenchelYoungLoss(4, 9, "sparsemax", bias=True, label_weight=torch.rand(9))
    safetensors.save_model(head, tmp_path / "head.safetensors")
    other = mt.LinearFenchelYoungLoss(4, 9, "sparsemax", bias=True, label_weight=torch.ones(9))
    safetensors.load_model(other, tmp_path / "head.safetensors")
    hidden, labels = torch.randn(3, 4), torch.tensor([1, 8, 0])
    assert torch.equal(head(hidden, labels), other(hidden, labels))


def test_errors_in_words():
    with pytest.raises(TypeError, match=r"a model of transformers, got Linear.*get_base_model"):
        mt.set_causal_loss(torch.nn.Linear(2, 3))
    model = made()
    model.lm_head = torch.nn.Sequential(model.lm_head)
    with pytest.raises(ValueError, match=r"a torch.nn.Linear, LlamaForCausalLM has Sequential"):
        mt.set_causal_loss(model)
    model = made()
    model.loss_function = lambda **given: 0
    with pytest.raises(ValueError, match="LlamaForCausalLM has another"):
        mt.set_causal_loss(model)
    with pytest.raises(ValueError, match="z_loss must be"):
        mt.set_causal_loss(made(), z_loss=-1)
    for given, said in (
        ({"entropy": "cubic"}, "cubic"),
        ({"temperature": 0.0}, "a finite temperature > 0"),
        ({"soft_cap": -1.0}, "a finite soft_cap > 0"),
        ({"label_smoothing": 2.0}, "label_smoothing must be"),
    ):
        with pytest.raises(ValueError, match=said):
            mt.CausalLoss(**given)
    with pytest.raises(ValueError, match="needs labels or shift_labels"):
        mt.CausalLoss()(torch.zeros(1, 2, 3), None)
    with pytest.raises(IndexError, match="label 50 is out of range"):
        mt.set_causal_loss(made())(words(), labels=words() + 50 - words())


def test_other_losses_are_refused():
    encoder = {"d_model": 8, "d_ff": 8, "d_kv": 4, "num_layers": 1, "num_heads": 2}
    t5 = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=20, **encoder))
    with pytest.raises(ValueError, match="T5ForConditionalGeneration"):
        mt.set_causal_loss(t5)
    masked = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8,
    ))  # fmt: skip
    with pytest.raises(ValueError, match="BertForMaskedLM has a"):
        mt.set_causal_loss(masked)


# -- decoding --------------------------------------------------------------------------------------


def test_sampling_is_from_the_sparse_distribution():
    model, processor = made().eval(), mt.EntmaxLogitsProcessor(1.5, temperature=0.8)
    start = words(1, 3)
    p = mt.entmax15(model(start).logits[0, -1] / 0.8).detach()
    assert 1 < (p > 0).sum() < 20
    given = {"do_sample": True, "logits_processor": [processor], "top_k": 0, "pad_token_id": 0}
    many = model.generate(start.expand(2000, -1), max_new_tokens=1, **given)[:, -1]
    counts = torch.bincount(many, minlength=WORDS) / 2000
    assert not counts[p == 0].any()
    assert (counts - p).abs().max() < 0.05
    longer = model.generate(start.expand(20, -1), max_new_tokens=4, **given)
    for k in range(3, 7):
        q = mt.entmax15(model(longer[:, :k]).logits[:, -1] / 0.8)
        assert (q.gather(1, longer[:, k : k + 1]) > 0).all()


def test_greedy_search_and_beams():
    model, processor = made().eval(), mt.EntmaxLogitsProcessor()
    given = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(words(2, 3), **given)
    assert torch.equal(model.generate(words(2, 3), logits_processor=[processor], **given), plain)
    beams = model.generate(words(2, 3), num_beams=3, logits_processor=[processor], **given)
    for k in range(3, 7):
        q = mt.entmax15(model(beams[:, :k]).logits[:, -1])
        assert (q.gather(1, beams[:, k : k + 1]) > 0).all()


def test_processor():
    scores = torch.tensor([[1.0, 0.5, -3.0, -torch.inf]])
    for alpha in (1.0, 1.5, 2.0):
        found = mt.EntmaxLogitsProcessor(alpha)(None, scores)
        torch.testing.assert_close(found.softmax(1), mt.entmax(scores, alpha))
    assert (
        repr(mt.EntmaxLogitsProcessor(2.0)) == "EntmaxLogitsProcessor(alpha=2.0, temperature=1.0)"
    )
    assert mt.EntmaxLogitsProcessor()(None, scores.bfloat16()).dtype == torch.float32
    for given in ({"alpha": 0.5}, {"alpha": mt.NormEntropy(2.0)}, {"temperature": 0.0}):
        with pytest.raises(ValueError, match=r"needs|alpha"):
            mt.EntmaxLogitsProcessor(**given)
