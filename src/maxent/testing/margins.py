"""Random max-margin models of sequences, so small that their labels can be listed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import maxent as mx  # estimators, and with them scikit-learn, are imported when a case is drawn
from maxent.core import potentials
from maxent.core.maps import ChainMap
from maxent.core.potentials import Potential
from maxent.rows.arrays import Array
from maxent.structured import Chain
from maxent.testing.draws import pick, positive

if TYPE_CHECKING:
    from maxent.learn.structured.chain import ChainModel

Rng = np.random.Generator

_ORDERS = (1.0, 1.5, 2.0, 3.0, float("inf"))  # of norms


@dataclass(frozen=True)
class MarginCase:
    """A model and the sequences to fit it to."""

    model: ChainModel
    X: list[Array]
    y: list[Array]
    sample_weight: Array | None

    def fit(self) -> ChainModel:
        """The fitted model."""
        return self.model.fit(self.X, self.y, self.sample_weight)

    def recipe(self) -> tuple[Potential, str, float]:
        """Its potential, and the function of its slacks with its rate."""
        weight = np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight
        return self.model.penalties(float(weight.sum()))

    def planes(self) -> list[tuple[float, Array, Array]]:
        """Of every sequence that counts: its weight, f(x, y') - f(x, y) and the cost of all y'."""
        states = np.unique(np.concatenate(self.y))
        chain = Chain(len(states))
        weight = np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight
        out = []
        for x, labels, a in zip(self.X, self.y, weight / weight.sum(), strict=True):
            if a > 0:
                right = np.searchsorted(states, labels)
                paths = np.array(list(itertools.product(range(len(states)), repeat=len(x))))
                one = ChainMap([x], len(states))
                images = [one.moments(chain.encode(path[None], tied=True)) for path in paths]
                observed = one.moments(chain.encode(right[None], tied=True))
                out.append((float(a), np.array(images) - observed, np.sum(paths != right, axis=1)))
        return out

    def objective(self, w: Array) -> float:
        """The mean slack function and the penalty at w, over the listed labels; +inf outside."""
        potential, slack, rate = self.recipe()
        penalty, mean = potential.conjugate(-w), 0.0
        for weight, images, cost in self.planes():
            xi = float((images @ w + cost).max())
            if slack == "squared":
                xi = max(xi, 0.0) ** 2 / 2
            elif slack == "kl":
                xi = max(xi, 1 / rate)
                xi -= (1 + np.log(rate * xi)) / rate
            mean += weight * xi
        return mean + penalty


def draw_margin_case(rng: Rng, composed: float = 0.2) -> MarginCase:
    """Slacks of all kinds under potentials of all kinds, with and without sample weights.

    ``composed`` is the share of chain models whose potential is made of others.
    """
    count, states, width = (int(rng.integers(low, high)) for low, high in ((1, 7), (2, 4), (1, 5)))
    scale = positive(rng, 0.1, 8)
    X = [rng.normal(size=(int(rng.integers(1, 5)), width)) * scale for _ in range(count)]
    if rng.random() < 0.3:
        X = [np.round(x) for x in X]  # ties
    X.append(rng.normal(size=(2, width)))
    y = [rng.integers(0, states, len(x)) for x in X]
    y[-1] = np.array([0, 1])  # at least two labels
    weight = None
    if rng.random() < 0.5:
        weight = rng.exponential(size=len(X))
        weight[:-1] *= rng.random(count) < 0.9  # some do not count
    s, C = positive(rng, 1e-3, 3), positive(rng, 1e-2, 1e2)
    slack = pick(rng, "linear", "squared", "kl")
    rate = positive(rng, 0.3, 3) if slack == "kl" else None
    potential = pick(
        rng,
        potentials.Quadratic(s),
        potentials.Box(s),
        potentials.Equality(),
        potentials.ElasticNet(s, s),
        potentials.DualBall(1 / s, pick(rng, *_ORDERS)),
        potentials.NormBall(s, pick(rng, *_ORDERS)),
        potentials.SquaredNormPotential(s, pick(rng, *_ORDERS)),
        potentials.NormPlusSquare(s, s, pick(rng, *_ORDERS)),
        potentials.SmoothBox(s, positive(rng, 1e-2, 1)),
        potentials.ScaledPotential(potentials.LaplacePrior(1 / s), s),
    )
    model: Any = pick(
        rng,
        mx.ChainClassifier("hinge", potential, slack=slack, slack_rate=rate),
        mx.ChainClassifier("hinge", potential, slack=slack, slack_rate=rate),
        mx.M3N(C),
        pick(rng, mx.L1M3N(C), mx.L1M3N(None, 1 / s), mx.LaplaceMEDN(C, positive(rng, 1, 100))),
    )
    model.set_params(tol=pick(rng, 1e-4, 1e-6))
    if isinstance(model, mx.ChainClassifier) and rng.random() < composed:
        K = len(np.unique(np.concatenate(y)))
        model.set_params(potential=_composed(rng, potential, K * (width + K), s))
    return MarginCase(model, X, y, weight)


def _composed(rng: Rng, potential: Potential, size: int, s: float) -> Potential:
    """The potential beside another one, or with a centre or a reference other than 0."""
    free = isinstance(potential, potentials.Equality)
    kind = pick(rng, "families", "centred", "families" if free else "shifted")
    if kind == "centred":
        return potentials.Centred(potential, rng.normal(size=size))
    if kind == "shifted":  # so little that the penalty still grows everywhere
        return potentials.ShiftedPotential(potential, 0.1 * s * rng.uniform(-1, 1, size) / size)
    other = pick(
        rng,
        potentials.Quadratic(s),
        potentials.Box(s),
        potentials.DualBall(1 / s, pick(rng, *_ORDERS)),
        potentials.NormBall(s, pick(rng, *_ORDERS)),
        potentials.NormPlusSquare(s, s, pick(rng, *_ORDERS)),
    )
    first = int(rng.integers(1, size))
    return potentials.Families([potential, other], [first, size - first])
