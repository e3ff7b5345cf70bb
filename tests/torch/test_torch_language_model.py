"""The experiment on heads of language models: its text, its measures, and that it can go on."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from tools import needs

torch = needs("torch")
sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments import _language_model as model  # noqa: E402
from experiments import _language_text as text  # noqa: E402
from experiments import language_head  # noqa: E402

import maxent.torch as mt  # noqa: E402

SMALL = language_head.small_text()
SMALL = language_head.Text(SMALL.train[:5000], SMALL.validation[:600], SMALL.words)
SMALL.validation[::100] = 0  # short pages


def plan(loss, **others):
    return language_head.Plan(loss, tokens=6 * 8 * 32, every=3, judged=4, quick=True, **others)


def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert language_head.train(plan("learned"), SMALL, whole, tmp_path)
    assert not language_head.train(plan("learned", minutes=0), SMALL, parts, tmp_path)
    with pytest.raises(ValueError, match=r"run with rate 0\.001"):
        language_head.train(plan("learned", rate=0.1), SMALL, parts, tmp_path, resume=True)
    assert language_head.train(plan("learned"), SMALL, parts, tmp_path, resume=True)
    (a, b) = (language_head.read(x / "language_head_learned_0.csv") for x in (whole, parts))
    assert [row["step"] for row in a] == [row["step"] for row in b] == ["0", "3", "6"]
    for column in ("alpha", "own_loss", "train_loss", "bits_smoothed"):
        known, found = ([float(row[column]) for row in rows] for rows in (a, b))
        assert np.allclose(known, found, rtol=1e-3, equal_nan=True)
    assert float(a[2]["own_loss"]) < float(a[0]["own_loss"])
    assert float(a[2]["alpha"]) != 1.5


def test_merged_tables(tmp_path):
    for loss in ("softmax", "sparsemax"):
        language_head.train(plan(loss), SMALL, tmp_path / "runs" / loss, tmp_path)
    names = [path.name for path in language_head.merge(tmp_path / "runs", tmp_path)]
    ends = ("", "_samples", "_summary")
    assert names == [*(f"language_head{end}.csv" for end in ends), "language_head_samples.txt"]
    rows = language_head.read(tmp_path / "language_head.csv")
    assert [row["loss"] for row in rows] == ["softmax"] * 3 + ["sparsemax"] * 3
    assert [float(row["inside"]) for row in rows[:3]] == [1, 1, 1]
    assert all(1 <= float(row["support_mean"]) < 256 for row in rows[3:])
    first = [float(row["own_loss"]) for row in rows if row["step"] == "0"]
    assert first[0] == pytest.approx(math.log(256), abs=0.3)  # nearly flat scores
    drawn = language_head.read(tmp_path / "language_head_samples.csv")
    assert [row["loss"] for row in drawn] == ["softmax", "sparsemax", "text"]
    assert language_head.plot(tmp_path)[0].exists()


def test_what_fails_or_is_done_leaves_the_others_alone(tmp_path, monkeypatch):
    """Each loss is a process, gone on with where it has a checkpoint."""
    asked = []

    class Ended:
        def __init__(self, returncode):
            self.returncode = returncode

    def process(command, **_):
        loss = command[command.index("--loss") + 1]
        asked.append((loss, "--resume" in command, "--compile" in command))
        if loss == "learned":
            return Ended(1)
        plan = language_head.Plan(loss)
        (tmp_path / f"language_head_{plan.name}.csv").write_text("step,steps\n6,6\n")
        (tmp_path / f"language_head_samples_{plan.name}.txt").write_text("text")
        return Ended(0)

    monkeypatch.setattr(language_head.subprocess, "run", process)
    (tmp_path / "sparsemax_0.pt").touch()
    given = tmp_path, tmp_path, math.inf, ["--compile"]
    assert not language_head.train_all(language_head.LOSSES, *given)
    first = [(loss, loss == "sparsemax", True) for loss in language_head.LOSSES]
    assert asked == first
    assert not language_head.train_all(language_head.LOSSES, *given)
    assert asked == [*first, ("learned", False, True)]
    assert language_head.train_all(("softmax", "sparsemax"), *given)
    late = tmp_path, tmp_path, language_head.START / 2, []
    assert not language_head.train_all(("learned",), *late)
    assert len(asked) == len(first) + 1


def test_all_losses_see_the_same_tokens_each_once():
    starts = np.concatenate([model.windows(32, 1000, 3, step, 5) for step in range(6)])
    again = np.concatenate([model.windows(32, 1000, 3, step, 10) for step in range(3)])
    assert (starts == again).all()
    assert len(set(starts)) == 30  # an epoch
    assert starts.min() >= 0
    assert starts.max() + 33 <= 1000
    assert not (starts[:5] == model.windows(32, 1000, 4, 0, 5)).all()


def test_what_follows_is_not_seen():
    gpt = model.GPT(model.Sizes(40, 16, 2, 2, 12))
    tokens = torch.randint(40, (2, 12), generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[:, 7] = (other[:, 7] + 1) % 40
    with torch.no_grad():
        a, b = gpt(tokens), gpt(other)
    assert torch.allclose(a[:, :7], b[:, :7], atol=1e-5)
    assert not torch.allclose(a[:, 8:], b[:, 8:], atol=1e-4)


def test_the_loss_cannot_choose_alpha():
    """It falls as alpha grows, for any scores and targets."""
    x = 3 * torch.randn(50, 20, generator=torch.Generator().manual_seed(0))
    y = torch.arange(50) % 20
    losses = torch.stack(
        [mt.fenchel_young_loss(x, y, a, "none") for a in (1.0, 1.25, 1.5, 1.75, 2.0)]
    )
    assert (losses.diff(dim=0) <= 1e-5).all()


def test_alpha_follows_the_smoothed_likelihood():
    torch.manual_seed(0)
    alpha = model.Alpha()
    hidden, weight, y = torch.randn(40, 8), torch.randn(12, 8), torch.arange(40) % 12
    alpha(hidden, weight, y).backward()

    def value(raw):
        p = mt.entmax(hidden @ weight.T, 1 + 1 / (1 + math.exp(-raw)))
        own = p.gather(1, y[:, None])[:, 0].double()
        return model.smoothed(own, model.SMOOTHING, 12)

    assert float(alpha.raw.grad) == pytest.approx((value(1e-2) - value(-1e-2)) / 2e-2, rel=0.05)


def test_best_temperature():
    random = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(300, 6, generator=random), torch.randn(9, 6, generator=random)
    y = torch.multinomial((hidden @ weight.T / 2.5).softmax(1), 1, generator=random)[:, 0]
    found = model.best_temperature(hidden, y, weight)

    def loss(t):
        return float(torch.nn.functional.cross_entropy((hidden @ weight.T).double() / t, y))

    assert loss(found) <= min(loss(found * factor) for factor in (0.98, 1.02))
    assert found == pytest.approx(2.5, rel=0.3)


def test_measures_of_sparse_distributions():
    """Beside their definitions, with whole distributions."""
    p = torch.tensor([[0.5, 0.3, 0.2, 0.0]] * 4, dtype=torch.float64)
    y = torch.arange(4)
    e = torch.eye(4, dtype=torch.float64)
    middle = (p + e) / 2
    js = sum(torch.xlogy(q, q / middle.clamp(min=1e-9)).sum(1) / 2 for q in (p, e))
    own = p[y, y]
    assert torch.allclose(model.divergence(own), js)
    both = own + (1 - p.square().sum(1)) / 2
    assert torch.allclose(1 - (p - e).square().sum(1) / 2, both)  # 1 - the sparsemax loss at p
    assert model.smoothed(own, 0.01, 4) == pytest.approx(
        float(-((own + 0.01) / 1.04).log().mean()), rel=1e-12
    )


def test_repetitions():
    tokens = torch.randint(6, (3, 41), generator=torch.Generator().manual_seed(0))
    guess = torch.randint(6, (3, 40), generator=torch.Generator().manual_seed(1))
    expected = []
    for reach in model.REACHES:
        pairs = [
            (
                guess[i, t] in tokens[i, max(t - reach + 1, 0) : t + 1],
                guess[i, t] != tokens[i, t + 1],
            )
            for i in range(3)
            for t in range(40)
        ]
        expected.append(
            [np.mean([a for a, _ in pairs]), np.mean([a and bool(b) for a, b in pairs])]
        )
    assert model.repeated(guess, tokens) == pytest.approx(tuple(np.mean(expected, 0)))
    found = model.variety(np.array([[1, 2, 1, 2, 1, 2], [3, 4, 5, 6, 7, 8]]))
    assert found["distinct_1"] == 8 / 12
    assert found["distinct_2"] == 7 / 10
    assert found["rep_w"] == 4 / 10
    assert found["seq_rep_4"] == pytest.approx((1 / 3 + 0) / 2)


def test_tokens_come_back_as_text(tmp_path):
    needs("tokenizers")
    page = "Größe: the size of a file, in bytes.\n" * 3
    tokenizer = text.tokenizer_of(iter([page]), 300)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    words = text.vocabulary(tmp_path / "tokenizer.json")
    ids = tokenizer.encode(page).ids
    assert b"".join(words[i] for i in [*ids, 0]).decode() == page
    assert json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"][0]["id"] == 0
    both = np.array([*ids, 0], "<u2"), np.arange(5, dtype="<u2")
    streams = [text.stream(tokens.tobytes()) for tokens in both]
    text.packed(tmp_path / "t.npy.xz", sum(map(len, both)), streams)
    assert (text.unpacked(tmp_path / "t.npy.xz") == np.concatenate(both)).all()


def test_text_of_pages():
    pytest.importorskip("lxml")
    page = b"""<html><head><title>no</title></head><body><div class="sphinxsidebar">no</div>
    <h1>Files<a class="headerlink">no</a></h1><p>A <b>file</b>
    has bytes.</p><pre>x = 1
  y = 2</pre></body></html>"""
    lines = text.lines_of("a/page.html", page)
    assert lines == [
        ("Files", True), ("A file has bytes.", True), ("x = 1", False), ("  y = 2", False)
    ]  # fmt: skip


def test_navigation_and_second_copies_are_dropped():
    words = "the rest of it is not in another page at all "
    pages = [[("Next page", True), (f"{i} " + 20 * words, True)] for i in range(30)]
    found = list(text.texts([*pages, pages[0]], set()))
    assert len(found) == 30
    assert not any("Next page" in page for page in found)
