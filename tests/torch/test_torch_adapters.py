"""Losses and log-probabilities in the forms that torchtitan and TRL ask for."""

import pytest

from tools import needs

torch = needs("torch")

from torch.nn.functional import cross_entropy, linear, log_softmax  # noqa: E402

import maxent.torch as mt  # noqa: E402

# -- torchtitan ------------------------------------------------------------------------------------


def layer(rows=13, classes=40, bias=True):
    hidden = torch.randn(rows, 6, dtype=torch.float64, requires_grad=True)
    head = torch.nn.Linear(6, classes, bias).double()
    with torch.no_grad():
        head.weight.mul_(8)
    labels = torch.randint(classes, (rows,))
    labels[[2, 7]] = -100
    return hidden, head, labels


def chunked(head, *given, **settings):
    loss = mt.ChunkedLoss(*given, **settings)
    loss.set_lm_head(head)
    return loss


@pytest.mark.parametrize("chunks", [1, 4, 13, 50])
@pytest.mark.parametrize("entropy", ["entmax15", "shannon"])
@pytest.mark.parametrize("bias", [True, False])
def test_chunks_are_one_loss(chunks, entropy, bias):
    hidden, head, labels = layer(bias=bias)
    settings = {"label_smoothing": 0.1, "temperature": 0.8, "z_loss": 0.01}
    loss, metrics = chunked(head, entropy, chunks, **settings)(hidden, labels, torch.tensor(11))
    right = mt.fenchel_young_loss(head(hidden), labels, entropy, "sum", **settings) / 11
    assert metrics == {}
    torch.testing.assert_close(loss, right)
    inputs = (hidden, *head.parameters())
    for a, b in zip(*(torch.autograd.grad(3 * x, inputs) for x in (loss, right)), strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_of_batches_are_added_up():
    hidden, head, labels = layer()
    loss = chunked(head, "sparsemax", 3)
    for part in (slice(0, 5), slice(5, 13)):
        loss(hidden[part], labels[part], global_valid_tokens=11)[0].backward()
    right = mt.fenchel_young_loss(head(hidden.detach()), labels, "sparsemax")
    torch.testing.assert_close(head.weight.grad, torch.autograd.grad(right, head.weight)[0])


def test_sequences_judging_and_frozen_heads():
    hidden, head, labels = layer(12)
    loss = chunked(head, num_chunks=5)
    long = loss(hidden.reshape(2, 6, 6), labels.reshape(2, 6), positions=None)[0]
    right = mt.fenchel_young_loss(head(hidden), labels, reduction="sum")
    torch.testing.assert_close(long, right)
    with torch.no_grad():
        torch.testing.assert_close(loss(hidden, labels)[0], right)
    head.requires_grad_(False)
    loss(hidden, labels)[0].backward()
    torch.testing.assert_close(hidden.grad, torch.autograd.grad(right, hidden)[0])
    assert loss(hidden.detach(), labels)[0].requires_grad is False
    assert loss(hidden[:0], labels[:0])[0] == 0
    torch.testing.assert_close(head(hidden), linear(hidden, head.weight, head.bias))


def test_chunks_in_words():
    hidden, head, labels = layer()
    loss = mt.ChunkedLoss("entmax15", 2, temperature=0.5)
    assert repr(loss) == "ChunkedLoss(Tsallis(alpha=1.5), num_chunks=2, temperature=0.5)"
    with pytest.raises(RuntimeError, match="set_lm_head first"):
        loss(hidden, labels)
    with pytest.raises(TypeError, match=r"a torch\.nn\.Linear, got Identity"):
        loss.set_lm_head(torch.nn.Identity())
    loss.set_lm_head(head)
    with pytest.raises(ValueError, match=r"labels of shape \(13,\)"):
        loss(hidden, labels[:5])
    with pytest.raises(IndexError, match="label 40 is out of range"):
        loss(hidden, labels.clamp_min(0) * 0 + 40)
    torch.testing.assert_close(head(hidden), linear(hidden, head.weight, head.bias))
    for given in ({"num_chunks": 0}, {"temperature": 0.0}, {"z_loss": -1}, {"label_smoothing": 2}):
        with pytest.raises(ValueError, match=r"must be|needs"):
            mt.ChunkedLoss(**given)
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.autograd.grad(loss(hidden, labels)[0], hidden, create_graph=True)


# -- TRL -------------------------------------------------------------------------------------------


def entropy_of(logits):
    """Of softmax, as TRL writes it."""
    log_p = log_softmax(logits, -1)
    return -(log_p.exp() * log_p).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_as_the_trainers_of_policies_compute_them(temperature):
    hidden = torch.randn(3, 7, 6, dtype=torch.float64, requires_grad=True)
    weight = (3 * torch.randn(40, 6, dtype=torch.float64)).requires_grad_()
    tokens = torch.randint(40, (3, 8))
    chosen = tokens[:, 1:]
    logits = linear(hidden, weight) / temperature
    right = log_softmax(logits, -1).gather(-1, chosen[..., None])[..., 0], entropy_of(logits)
    found = mt.linear_log_probabilities(hidden, weight, chosen, temperature=temperature)
    advantage = torch.randn(3, 7, dtype=torch.float64)
    for ours, theirs in zip(found, right, strict=True):
        assert ours.shape == (3, 7)
        torch.testing.assert_close(ours, theirs)
        weighed = [(advantage * x).sum() for x in (ours, theirs)]
        made = [torch.autograd.grad(x, (hidden, weight), retain_graph=True) for x in weighed]
        for a, b in zip(*made, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("entropy", [1.0, 1.5, 2.0])
def test_probabilities_of_entmax(entropy, epsilon):
    hidden = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    weight, bias = torch.randn(2, 9, 6, dtype=torch.float64).unbind()
    bias = bias[:, 0].clone()
    settings = {"bias": bias, "temperature": 1.4, "soft_cap": 5.0}
    x = 5 * torch.tanh(linear(hidden, weight, bias) / 5) / 1.4
    p = mt.entmax(x, entropy)
    chosen = p.argmax(1)
    chosen[0], chosen[1] = p[0].argmin(), -100
    log, entropies = mt.linear_log_probabilities(
        hidden, weight, chosen, entropy, epsilon=epsilon, **settings
    )
    own = p.gather(1, chosen.clamp_min(0)[:, None])[:, 0]
    right = ((1 - epsilon) * own + epsilon / 9).log() * (torch.arange(5) != 1)
    torch.testing.assert_close(log, right.nan_to_num(nan=0.0, neginf=-torch.inf))
    tsallis = entropy_of(x) if entropy == 1 else (p - p**entropy).sum(1) / entropy / (entropy - 1)
    torch.testing.assert_close(entropies, tsallis * (torch.arange(5) != 1))
    first = 2 if epsilon == 0 else 0
    a, b = (torch.autograd.grad(x[first:].sum(), hidden)[0] for x in (log, right))
    torch.testing.assert_close(a, b)


def test_ratios_of_words_that_are_ruled_out_are_finite():
    hidden, weight = torch.tensor([[4.0, 0.0]]), torch.eye(3, 2)
    hidden.requires_grad_()
    new, _ = mt.linear_log_probabilities(hidden, weight, torch.tensor([2]), 2.0, epsilon=1e-3)
    ratio = (new - new.detach()).exp()
    ratio.sum().backward()
    assert ratio == 1
    assert not hidden.grad.any()
    with pytest.raises(ValueError, match="epsilon from 0 to below 1"):
        mt.linear_log_probabilities(hidden, weight, torch.tensor([2]), epsilon=1.0)


def test_a_chunk_of_cross_entropy_is_that_of_torch():
    hidden, head, labels = layer()
    loss = chunked(head, "shannon", 4)(hidden, labels)[0]
    torch.testing.assert_close(loss, cross_entropy(head(hidden), labels, reduction="sum"))
