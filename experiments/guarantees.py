"""Coverage of the density paper's guarantees (section 5) where the truth is known.

A landscape of 3,000 cells, four smooth variables, 174 features in [0, 1] (linear, quadratic,
product, threshold) and a truth pi that is a Gibbs distribution of a few of them. For each sample
size, repeated samples are fitted with each theoretical parameter and with the practical beta. Three
questions: does the deviation stay in its region, does the guarantee hold, and how far is its value
from the excess loss that happened? A guarantee that is stated for every w* is taken at its best,
the minimum over w* of L_pi(w*) + excess(w*). Corollary 9 and Theorems 8, 13 and 15 are told the
norms of the true weights; Corollary 6 has the 160 thresholds alone, which are binary. Guarantees in
expectation are held against the mean over the samples.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import maxent as mx
from maxent.core import bounds

DELTA = 0.05
SIZES = (10, 30, 100, 300, 1000)
REPEATS, FEW = 50, 10  # the few are for smoothed l1, whose fits take ten times as long
THRESHOLDS = 40
VC_DIMENSION = 3  # of thresholds of four variables: 2^d <= 4 (d - 1) + 2
EPSILON = 0.1  # by which smoothing may loosen the guarantee of l1


@dataclass(frozen=True)
class Landscape:
    """Features, the truth and which features are monotone in one variable."""

    X: np.ndarray
    monotone: np.ndarray
    n_variables: int
    w: np.ndarray
    pi: np.ndarray

    def problem(self, potential: mx.Potential, observed: np.ndarray) -> mx.Problem:
        return mx.Problem(mx.Shannon(), self.X, potential, observed=observed)

    @cached_property
    def diameter(self) -> float:
        return bounds.l2_diameter_bound(self.X)

    @cached_property
    def smallest(self) -> float:
        """The loss of the truth."""
        return float(-np.sum(self.pi * np.log(self.pi)))

    @cached_property
    def binary(self) -> Landscape:
        """The same truth with the features that are 0 or 1 alone."""
        kept = np.isin(self.X, (0.0, 1.0)).all(axis=0)
        return Landscape(
            self.X[:, kept], self.monotone[kept], self.n_variables, self.w[kept], self.pi
        )

    def loss(self, w: np.ndarray, p: np.ndarray | None = None) -> float:
        """L_p(w) = -sum p log q_w, of the truth by default."""
        theta = self.X @ w
        top = theta.max()
        log_partition = top + np.log(np.sum(np.exp(theta - top)))
        return float(log_partition - (self.pi if p is None else p) @ theta)


def landscape(rows: int = 50, columns: int = 60, seed: int = 0) -> Landscape:
    """Sums of random waves, scaled to [0, 1] by rank so that thresholds split the cells evenly."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : rows * 1j, 0 : 1 : columns * 1j]
    variables = []
    for _ in range(4):
        waves = rng.normal(scale=5, size=(6, 2)), rng.uniform(0, 6.3, 6), rng.normal(size=6)
        field = sum(
            size * np.cos(a * x + b * y + phase) for (a, b), phase, size in zip(*waves, strict=True)
        )
        ranks = np.argsort(np.argsort(np.ravel(field)))
        variables.append(ranks / (ranks.size - 1))
    v = np.stack(variables, axis=1)
    products = [v[:, i] * v[:, j] for i in range(4) for j in range(i)]
    knots = np.arange(1, THRESHOLDS + 1) / (THRESHOLDS + 1)
    steps = [(v[:, [j]] > knots) for j in range(4)]
    X = np.column_stack([v, *steps, v**2, *products]).astype(float)
    monotone = np.arange(X.shape[1]) < 4 + 4 * THRESHOLDS
    w = np.zeros(X.shape[1])
    w[[0, 4 + 20, 4 + THRESHOLDS + 10, -6]] = [4.0, 2.0, -2.0, 4.0]
    pi = mx.Shannon().conjugate(X @ w)[1]
    return Landscape(X, monotone, 4, w, np.asarray(pi))


Excess = Callable[[Landscape, mx.Potential, int], float]


@dataclass(frozen=True)
class Method:
    """How to fit a sample, and what is guaranteed of the fit: None where nothing is."""

    name: str
    potential: Callable[[Landscape, np.ndarray, int], mx.Potential]
    guarantee: Excess | None
    colour: str
    binary: bool = False
    expected: bool = False
    repeats: int = REPEATS


def _sd(land: Landscape, observed: np.ndarray, m: int) -> np.ndarray:
    variance = observed @ land.X**2 - (observed @ land.X) ** 2
    return np.sqrt(np.maximum(variance, 0) * m / (m - 1))


def _best(land: Landscape, region: mx.Potential, l2_norm: float = np.inf) -> float:
    """min over w* of L_pi(w*) + 2 V*(w*), ||w*||_2 <= l2_norm, less the smallest L_pi."""
    rival = land.problem(mx.ScaledPotential(region, 2.0), land.pi).solve(tol=1e-6)
    w = rival.w if np.linalg.norm(rival.w) <= l2_norm else land.w
    return land.loss(w) + bounds.region_excess(region, w) - land.smallest


def _region(land: Landscape, region: mx.Potential, m: int) -> float:
    """Theorem 4."""
    return _best(land, region)


def _smooth_box(land: Landscape, potential: mx.Potential, m: int) -> float:
    """Theorem 8."""
    assert isinstance(potential, mx.SmoothBox)
    nothing = np.zeros(land.X.shape[1])
    more = bounds.smooth_region_excess(potential.beta, potential.smoothing, nothing)
    return _best(land, mx.Box(potential.beta)) + more


def _smoothing(land: Landscape, observed: np.ndarray, m: int) -> mx.SmoothBox:
    """alpha_j of section 5.2."""
    beta = bounds.mixed_beta(land.monotone, land.n_variables, m, DELTA)
    size = float(beta @ np.abs(land.w))
    return mx.SmoothBox(beta, EPSILON * size / (beta.size * beta * np.log(2)))


def methods(land: Landscape) -> list[Method]:
    n, diameter = land.X.shape[1], land.diameter
    l1_norm, l2_norm = (float(np.linalg.norm(land.w, ord)) for ord in (1, 2))
    s = 1 + np.sqrt(np.log(1 / DELTA))

    def elastic(land: Landscape, potential: mx.Potential, m: int, expected: bool) -> float:
        """Theorem 15: the best w*, and what does not depend on it."""
        bound = bounds.elastic_expected_excess if expected else bounds.elastic_excess
        more = bound(0.0, l2_norm, diameter, n, m, DELTA)
        return _best(land, mx.Box(bounds.hoeffding_beta(n, m, DELTA)), l2_norm) + more

    def elastic_net(land: Landscape, observed: np.ndarray, m: int) -> mx.ElasticNet:
        return mx.ElasticNet(*bounds.elastic_parameters(l2_norm, diameter, n, m, DELTA))

    return [
        Method(
            "Corollary 5 (Hoeffding)",
            lambda _, p, m: mx.Box(np.full(n, bounds.hoeffding_beta(n, m, DELTA))),
            _region,
            "tab:blue",
        ),
        Method(
            "Corollary 6 (VC, thresholds alone)",
            lambda _, p, m: mx.Box(bounds.vc_beta(VC_DIMENSION, m, DELTA)),
            _region,
            "tab:cyan",
            binary=True,
        ),
        Method(
            "Corollary 7 (Bernstein)",
            lambda land, p, m: mx.Box(bounds.bernstein_beta(_sd(land, p, m), n, m, DELTA)),
            _region,
            "tab:orange",
        ),
        Method(
            "DKW and Hoeffding (mixed)",
            lambda land, p, m: mx.Box(bounds.mixed_beta(land.monotone, land.n_variables, m, DELTA)),
            _region,
            "tab:green",
        ),
        Method("Theorem 8 (smoothed l1)", _smoothing, _smooth_box, "tab:olive", repeats=FEW),
        Method(
            "Corollary 9 (smoothed l1)",
            lambda _, p, m: mx.SmoothBox(
                *bounds.smooth_box_parameters(l1_norm, EPSILON, n, m, DELTA)
            ),
            lambda _, v, m: bounds.smooth_box_excess(l1_norm, EPSILON, n, m, DELTA),
            "tab:brown",
            repeats=FEW,
        ),
        Method(
            "Theorem 11 (l2)",
            lambda _, p, m: mx.Ball(bounds.ball_beta(diameter, m, DELTA)),
            _region,
            "tab:red",
        ),
        Method(
            "Theorem 13 (l2 squared)",
            lambda _, p, m: mx.Quadratic(bounds.quadratic_strength(l2_norm, diameter, m, s)),
            lambda _, v, m: bounds.quadratic_excess(l2_norm, diameter, m, DELTA, s),
            "tab:purple",
        ),
        Method(
            "Theorem 13 in expectation",
            lambda _, p, m: mx.Quadratic(bounds.quadratic_strength(l2_norm, diameter, m)),
            lambda _, v, m: bounds.quadratic_expected_excess(l2_norm, diameter, m),
            "mediumpurple",
            expected=True,
        ),
        Method(
            "Theorem 15 (l1 + l2 squared)",
            elastic_net,
            lambda land, v, m: elastic(land, v, m, expected=False),
            "tab:pink",
        ),
        Method(
            "Theorem 15 in expectation",
            elastic_net,
            lambda land, v, m: elastic(land, v, m, expected=True),
            "hotpink",
            expected=True,
        ),
        Method(
            "practical beta (no theory)",
            # what one record in m varies by: constant features would have no penalty at all
            lambda land, p, m: mx.Box(
                bounds.practical_beta(np.maximum(_sd(land, p, m), m**-0.5), m)
            ),
            None,
            "black",
        ),
    ]


def _share(land: Landscape, potential: mx.Potential, deviation: np.ndarray, m: int) -> float:
    """The deviation in units of the region that the guarantee supposes it in: at most 1."""
    if isinstance(potential, mx.Quadratic):
        potential = mx.Ball(bounds.ball_beta(land.diameter, m, DELTA))
    elif isinstance(potential, mx.SmoothBox | mx.ElasticNet):
        potential = mx.Box(potential.beta)
    return potential.gauge(deviation)


def _measure(
    whole: Landscape, method: Method, m: int, draws: np.ndarray, fits: dict[object, np.ndarray]
) -> dict[str, float]:
    """Means over the samples ``draws`` of size m; ``fits`` holds the weights of earlier methods."""
    land, known = whole.binary if method.binary else whole, {}
    theory = bounds.mixed_beta(land.monotone, land.n_variables, m, DELTA)
    rows, w = [], None
    for number, observed in enumerate(draws):
        potential = method.potential(land, observed, m)
        if potential not in known:  # most do not depend on the sample
            guarantee = method.guarantee
            known[potential] = np.nan if guarantee is None else guarantee(land, potential, m)
        key = method.binary, potential, number
        if key not in fits:
            fits[key] = land.problem(potential, observed).solve(tol=1e-6, w0=w).w
        w = fits[key]
        loss, sample_loss = land.loss(w), land.loss(w, observed)
        printed = bounds.printable_bound(sample_loss, w, theory, DELTA, n_cells=len(land.pi))
        share = _share(land, potential, (observed - land.pi) @ land.X, m)
        rows.append((share, known[potential], loss - land.smallest, printed.bound, loss))
    share, guaranteed, excess, printed_bound, loss = np.array(rows).T
    held = np.mean(excess) <= guaranteed[0] if method.expected else np.mean(excess <= guaranteed)
    uniform = np.log(len(land.pi)) - land.smallest
    return {
        "deviation_inside": np.mean(share <= 1),
        "deviation_quantile": np.quantile(share, 1 - DELTA),
        "guarantee_held": held if method.guarantee else np.nan,
        "guaranteed_excess": np.mean(guaranteed),
        "excess": np.mean(excess),
        "uniform_excess": uniform,
        "share_of_uniform": np.mean(guaranteed) / uniform,
        "printed_bound_held": np.mean(loss <= printed_bound),
        "printed_bound": np.mean(printed_bound),
        "loss": np.mean(loss),
    }


def measure(land: Landscape) -> list[dict[str, float | str | int]]:
    """One record a method and sample size."""
    records: list[dict[str, float | str | int]] = []
    rng = np.random.default_rng(1)
    for m in SIZES:
        draws = rng.multinomial(m, land.pi, size=REPEATS) / m
        fits: dict[object, np.ndarray] = {}
        for method in methods(land):
            measured = _measure(land, method, m, draws[: method.repeats], fits)
            found = {k: round(float(v), 4) for k, v in measured.items()}
            records.append({"method": method.name, "m": m, "repeats": method.repeats, **found})
    return records


def draw(land: Landscape, records: list[dict[str, float | str | int]], picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    uniform, smallest = np.log(len(land.pi)), land.smallest
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), constrained_layout=True)
    for method in methods(land):
        mine = [r for r in records if r["method"] == method.name]
        column = {key: np.array([r[key] for r in mine]) for key in records[0] if key != "method"}
        style = {"color": method.colour, "marker": "o", "markersize": 4, "linewidth": 1.5}
        # Theorems 11 and 13 suppose the same region: one line below the other
        wide = {"linewidth": 5} if method.name.startswith("Theorem 11") else {}
        if method.expected:  # the same fit, or one that differs by its strength alone
            axes[1].plot(column["m"], column["guaranteed_excess"], **style, alpha=0.5)
            continue
        axes[0].plot(column["m"], column["deviation_quantile"], label=method.name, **style | wide)
        axes[1].plot(column["m"], column["guaranteed_excess"], **style)
        axes[1].plot(column["m"], column["excess"], linestyle="--", **style)
        axes[2].plot(column["m"], column["printed_bound"], **style)
        axes[2].plot(column["m"], column["loss"], linestyle="--", **style)
    marks = (
        (0, 1, "the region"),
        (1, uniform - smallest, "uniform distribution"),
        (2, uniform, "uniform, log N"),
        (2, smallest, "the truth"),
    )
    for k, height, text in marks:
        axes[k].axhline(height, color="grey", linewidth=1, linestyle=":")
        axes[k].annotate(
            text,
            (SIZES[0], height),
            (0, 3),
            textcoords="offset points",
            color="dimgrey",
            fontsize=9,
        )
    axes[0].set(title=f"deviation / region, {100 * (1 - DELTA):.0f} % quantile", yscale="log")
    ticks = (0.2, 0.5, 1, 2, 5)
    axes[0].set(yticks=ticks, yticklabels=ticks)
    axes[0].legend(fontsize=9, loc="center right", bbox_to_anchor=(1, 0.65))
    axes[1].set(title="excess loss: guaranteed (solid), found (dashed)", yscale="log")
    axes[2].set(title="log loss: printed bound (solid), true (dashed)")
    for axis in axes:
        axis.set(xscale="log", xlabel="sample size m", xticks=SIZES, xticklabels=SIZES)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def run(out: Path) -> list[Path]:
    """Write the table and the figure."""
    land = landscape()
    records = measure(land)
    table, picture = out / "guarantees.csv", out / "guarantees.png"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    draw(land, records, picture)
    return [table, picture]
