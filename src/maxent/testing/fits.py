"""Random fits of estimators that must not depend on how the same rows are written down.

A row of weight k is k rows; rows in blocks are the rows. Either way the problem is the same, so two
fits may differ by their duality gaps and by rounding, and by nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import maxent as mx  # estimators, and with them scikit-learn, are imported when a case is drawn
from maxent.core import entropies, potentials
from maxent.rows.arrays import Array
from maxent.rows.blocks import MemoryBlocks, SequenceBlock
from maxent.rows.blocks.table import BlockTable, Part
from maxent.testing.draws import pick, positive

Rng = np.random.Generator
Drawn = tuple[Any, Any, Any, int]  # model, rows, labels; how many rows have all labels among them


@dataclass(frozen=True)
class FitCase:
    """An estimator that is not fitted yet, its rows, and how often each of them counts."""

    model: Any
    X: Any
    y: Any
    count: Array

    @property
    def of_sequences(self) -> bool:
        """Whether a row is a sequence."""
        return isinstance(self.X, list)

    def fit(self, X: Any, y: Any, weight: Array | None) -> Any:
        """A fitted copy."""
        from sklearn.base import clone

        return clone(self.model).fit(X, y, weight)

    def rows(self, chosen: Array) -> tuple[Any, Any]:
        """Some rows, in any order and number."""
        if self.of_sequences:
            return [self.X[i] for i in chosen], [self.y[i] for i in chosen]
        return self.X[chosen], self.y[chosen]

    def blocks(self, cuts: Array) -> BlockTable:
        """The rows between one cut and the next, labels and weights of sequences with them."""
        if not self.of_sequences:
            parts = [Part(i, self.X[a:b], {}) for i, (a, b) in enumerate(pairwise(cuts))]
            return BlockTable(MemoryBlocks(parts))
        sequences = [
            SequenceBlock(i, self.X[a:b], self.y[a:b], self.count[a:b])
            for i, (a, b) in enumerate(pairwise(cuts))
        ]
        return BlockTable(MemoryBlocks(sequences))


def draw_fit(rng: Rng) -> FitCase:
    """A density, a linear model or a chain model over rows with ties, some of which count 0."""
    model, X, y, needed = pick(rng, _draw_density, _draw_linear, _draw_chain)(rng)
    count = rng.integers(0, 4, len(y)).astype(float)
    count[:needed] += 1
    return FitCase(model, X, y, count)


def check_weights(case: FitCase) -> None:
    """Weights that are whole numbers against rows that are repeated."""
    repeated = np.repeat(np.arange(len(case.y)), case.count.astype(int))
    _agree(case, case.fit(case.X, case.y, case.count), case.fit(*case.rows(repeated), None))


def check_chunking(case: FitCase, rng: Rng) -> None:
    """Blocks of any sizes, none included, against all rows at once."""
    inner = np.sort(rng.integers(0, len(case.y) + 1, rng.integers(0, 6)))
    cuts = np.concatenate([[0], inner, [len(case.y)]])
    y, weight = (None, None) if case.of_sequences else (case.y, case.count)
    blocked = case.fit(case.blocks(cuts), y, weight)
    _agree(case, case.fit(case.X, case.y, case.count), blocked)


def _agree(case: FitCase, one: Any, other: Any) -> None:
    values = [-m.gain_ if isinstance(m, mx.MaxentDensity) else m.objective_ for m in (one, other)]
    for model in (one, other):
        assert model.gap_ <= model.tol, f"{case.model!r}: gap {model.gap_:.1e}"
    apart, rounding = abs(values[0] - values[1]), 1e-9 * (1 + abs(values[0]))
    allowed = max(one.gap_, other.gap_) + rounding
    assert apart <= allowed, f"{case.model!r}: {apart:.1e} apart, {allowed:.1e} allowed"


def _draw_density(rng: Rng) -> Drawn:
    cells, width = int(rng.integers(20, 200)), int(rng.integers(1, 4))
    X = _table(rng, cells, width)
    y = rng.poisson(0.3, cells).astype(float)
    y[:2] += 1
    size = positive(rng, 1e-2, 1)
    model = mx.MaxentDensity(
        pick(rng, "l", "lq"),
        pick(rng, potentials.Box(size), potentials.Quadratic(size), potentials.Ball(size)),
        entropy=pick(rng, "shannon", entropies.Tsallis(1.5), entropies.Tsallis(2.0)),
        tol=pick(rng, 1e-5, 1e-8),
    )
    return model, X, y, 2


def _draw_linear(rng: Rng) -> Drawn:
    rows, width, classes = (
        int(rng.integers(8, 80)),
        int(rng.integers(1, 6)),
        int(rng.integers(2, 5)),
    )
    X = _table(rng, rows, width)
    labels = rng.integers(0, classes, rows)
    labels[:classes] = np.arange(classes)
    size = positive(rng, 1e-3, 3)
    settings: dict[str, Any] = {
        "potential": pick(rng, size, potentials.ElasticNet(size / 10, size)),
        "tol": pick(rng, 1e-5, 1e-8),
    }
    loss = pick(rng, "shannon", entropies.Tsallis(1.5), entropies.Tsallis(2.0))
    indicators = (rng.random((rows, classes)) < 0.5).astype(int)
    indicators[:2] = [[0], [1]]
    model, y = pick(
        rng,
        (mx.FenchelYoungClassifier(loss, **settings), labels),
        (mx.FenchelYoungRegressor(loss, **settings), rng.dirichlet(np.ones(classes), rows)),
        (mx.FenchelYoungMultilabel("sparse", **settings), indicators),
    )
    return model, X, y, classes


def _draw_chain(rng: Rng) -> Drawn:
    count, states, width = (int(rng.integers(low, high)) for low, high in ((2, 9), (2, 4), (1, 5)))
    X = [_table(rng, int(rng.integers(1, 5)), width) for _ in range(count)]
    X[0] = _table(rng, states, width)
    y = [rng.integers(0, states, len(x)) for x in X]
    y[0] = np.arange(states)
    C = positive(rng, 1e-2, 10)
    model = pick(
        rng,
        mx.L2CRF(C),
        mx.ChainClassifier("softmax-margin", 1 / C),
        mx.ChainClassifier("sparsemap", 1 / C),
        mx.ChainClassifier("crf", potentials.ElasticNet(0.01, 1 / C)),
    )
    return model.set_params(tol=pick(rng, 1e-5, 1e-8)), X, y, 1


def _table(rng: Rng, rows: int, width: int) -> Array:
    X = rng.normal(size=(rows, width))
    return (np.round(X) if rng.random() < 0.3 else X) * positive(rng, 0.1, 10)  # ties, scales
