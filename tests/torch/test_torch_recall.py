"""The experiment on associative recall: its task, and what it measures of attention."""

import csv
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from tools import needs

torch = needs("torch")
sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments import associative_recall  # noqa: E402
from experiments.run import write_rows  # noqa: E402

RECALL = associative_recall.example()
TINY = associative_recall.Sizes(
    keys=24, width=16, heads=2, layers=2, length=16, batch=4, steps=3, lengths=(16, 32),
    sequences=3, tokens=32,
)  # fmt: skip


def test_keys_come_back_with_their_values():
    tokens, first = RECALL.draw(5, 32, 24, torch.Generator().manual_seed(0))
    assert tokens.shape == (5, 32)
    asked = 0
    for row, found in zip(tokens.tolist(), first.tolist(), strict=True):
        keys, values = row[::2], row[1::2]
        assert max(keys) < 24 <= min(values) < 24 + RECALL.VALUES
        assert found == [keys.index(key) for key in keys]
        assert all(values[i] == values[j] for i, j in enumerate(found))
        assert len(set(keys)) <= 8
        asked += sum(j < i for i, j in enumerate(found))
    scores, right = RECALL.asked(RECALL.Model(1.0, keys=24), tokens, first)
    assert scores.shape == (asked, RECALL.VALUES)
    assert right.shape == (asked,)


def test_what_a_key_asks_for_is_not_seen():
    """The value of a key, and what follows, leave its scores unchanged."""
    tokens, _ = RECALL.draw(2, 32, 24, torch.Generator().manual_seed(0))
    model = RECALL.Model("learned", True, keys=24, layers=2)
    other = tokens.clone()
    other[:, 21:] = other[:, 21:].flip(1)
    with torch.no_grad():
        assert torch.allclose(model(tokens)[:, :11], model(other)[:, :11], atol=1e-5)
        assert not torch.allclose(model(tokens)[:, 11:], model(other)[:, 11:], atol=1e-3)


@pytest.mark.parametrize("method", ["softmax", "entmax 1.5", "softmax, log n", "entmax 1.5, log n"])
def test_weights_on_earlier_values(method):
    """Beside thresholds by bisection, key by key."""
    torch.manual_seed(0)
    alpha, scaled = associative_recall.methods(RECALL)[method]
    attention = RECALL.Attention(16, 2, alpha, scaled).requires_grad_(False)
    tokens, first = RECALL.draw(2, 24, 24, torch.Generator().manual_seed(1))
    x = 4 * torch.randn(2, 24, 16)
    found = associative_recall.weights_on(attention, x, tokens, first).numpy()
    projected = attention.project(x).double().numpy().reshape(2, 24, 3, 2, 8)
    expected = []
    for b, i in np.argwhere((first < torch.arange(12)).numpy()):
        for h in range(2):
            factor = 0.2 * math.log(2 * i + 1) if scaled else 1.0
            seen = slice(0, 2 * i + 1)
            query, keys = projected[b, 2 * i, 0, h], projected[b, seen, 1, h]
            p = _entmax(factor * keys @ query / math.sqrt(8), alpha)
            own = [2 * j + 1 for j in range(i) if tokens[b, 2 * j] == tokens[b, 2 * i]]
            expected.append((p[own].sum(), (p > 0).sum()))
    assert np.allclose(found.transpose(2, 1, 0).reshape(-1, 2), expected, atol=1e-4)


def _entmax(x, alpha):
    """Softmax or 1.5-entmax of one row."""
    if alpha == 1:
        p = np.exp(x - x.max())
        return p / p.sum()
    low, high = x.max() / 2 - 1, x.max() / 2
    for _ in range(100):
        middle = (low + high) / 2
        total = (np.maximum(x / 2 - middle, 0) ** 2).sum()
        low, high = (middle, high) if total > 1 else (low, middle)
    return np.maximum(x / 2 - low, 0) ** 2


def test_rows_of_the_table(tmp_path):
    names = ("softmax", "entmax, learned")
    made = associative_recall.rows(TINY, 1, math.inf, names, "cpu")
    path = write_rows(tmp_path / "recall.csv", made)
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["method"], row["length"]) for row in table] == [
        (name, length) for name in names for length in ("16", "32")
    ]
    for row in table:
        assert 0 <= float(row["accuracy"]) <= 1
        assert 1 <= float(row["keys"]) <= int(row["length"])
        assert float(row["ms_step"]) > 0
        assert len(row["alphas"].split()) == (4 if "learned" in row["method"] else 0)


def test_no_training_begins_after_the_time():
    assert not list(associative_recall.rows(TINY, 2, -1, (), "cpu"))
