"""A demonstration without files: a density, a sparse density and a sparse classifier.

The density is that of a virtual species on a generated landscape, so the truth is known; the
classifier reads the handwritten digits that scikit-learn embeds.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy import ndimage

from maxent._version import __version__
from maxent.core.entropies import Entropy, Relative, Shannon, Tsallis
from maxent.core.losses import FenchelYoungLoss
from maxent.core.maps import SampleMap
from maxent.core.potentials import Box, ElasticNet
from maxent.core.problem import Problem
from maxent.core.solvers import Solution
from maxent.io import save, write_atomically
from maxent.rows.arrays import Array

_SIDE = 60  # cells along an edge of the landscape
_PRESENCES = 500
_TESTED = 500  # digits held out
_CLASSES = 10


@dataclass(frozen=True)
class _Landscape:
    features: Array  # (cells, features), each in [0, 1]
    truth: Array  # probability of each cell
    observed: Array  # share of the presences in each cell


@dataclass(frozen=True)
class _Digits:
    train: Array
    labels: Array
    test: Array
    test_labels: Array


def run(out: str | os.PathLike[str], seed: int = 0, quiet: bool = False) -> dict[str, Any]:
    """Fit, save the solutions and one figure to the folder ``out``; return a summary.

    ``quiet`` prints nothing. The summary holds one record per fit (status, seconds, n_iter, gap,
    guarantees and what was measured) and is also written, as ``summary.json``.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the demo draws a figure and needs matplotlib: pip install maxent[plot]"
        ) from error
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    landscape, digits = _landscape(seed), _digits(seed)

    fits, solutions = [], {}
    for key, name, entropy in (
        ("density_shannon", "density, Shannon", Shannon()),
        ("density_tsallis", "density, Tsallis 1.5", Tsallis(1.5)),
    ):
        solutions[key], record = _fit_density(landscape, entropy)
        fits.append({"key": key, "name": name} | record)
    key = "digits_sparsemax"
    solutions[key], record, p = _fit_digits(digits)
    fits.append({"key": key, "name": "digits, sparsemax"} | record)

    files = [folder / f"{key}.json" for key in solutions]
    for path, solution in zip(files, solutions.values(), strict=True):
        save(solution, path)
    files.append(folder / "demo.png")
    write_atomically(files[-1], _figure(landscape, digits, solutions, fits, p))
    files.append(folder / "summary.json")
    summary = {
        "maxent_version": __version__,
        "seed": seed,
        "fits": fits,
        "files": [str(path) for path in files],
    }
    write_atomically(files[-1], (json.dumps(summary, indent=1, allow_nan=False) + "\n").encode())
    if not quiet:
        for fit in fits:
            print(f"{fit['name']}: {fit['result']}; gap {fit['gap']:.1e}, {fit['guarantee']}")
        print(f"see {files[-2]}")
    return summary


# -- data ----------------------------------------------------------------------------------------


def _landscape(seed: int) -> _Landscape:
    """Four smooth variables, their squares and products; presences drawn from a known niche."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(4, _SIDE, _SIDE))
    smooth = [
        ndimage.gaussian_filter(layer, width, mode="reflect").ravel()
        for layer, width in zip(noise, (10, 8, 6, 5), strict=True)
    ]
    variables = _unit(np.stack(smooth, axis=1))
    first, second = np.triu_indices(4)
    features = _unit(np.hstack([variables, variables[:, first] * variables[:, second]]))
    a, b, c, _ = variables.T  # the species is indifferent to the fourth
    suitability = -0.5 * ((a - 0.65) / 0.15) ** 2 - 0.5 * ((b - 0.4) / 0.13) ** 2 + 1.5 * c
    truth = np.exp(suitability)
    truth /= truth.sum()
    return _Landscape(features, truth, rng.multinomial(_PRESENCES, truth) / _PRESENCES)


def _unit(x: Array) -> Array:
    """Each column scaled to [0, 1]."""
    low, high = x.min(axis=0), x.max(axis=0)
    return (x - low) / (high - low)


def _digits(seed: int) -> _Digits:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = np.hstack([X / 16, np.ones((len(X), 1))])
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = order[:_TESTED], order[_TESTED:]
    return _Digits(X[train], y[train], X[test], y[test])


# -- fits ----------------------------------------------------------------------------------------


def _fit_density(landscape: _Landscape, entropy: Entropy) -> tuple[Solution, dict[str, Any]]:
    features, observed = landscape.features, landscape.observed
    deviation = np.sqrt(np.maximum(observed @ features**2 - (observed @ features) ** 2, 1e-6))
    problem = Problem(
        Relative(entropy, np.ones(len(features))),
        features,
        Box(0.3 * deviation / np.sqrt(_PRESENCES)),
        observed=observed,
    )
    solution, record = _timed(problem)
    correlation = float(np.corrcoef(np.asarray(solution.p), landscape.truth)[0, 1])
    zeros = float(np.mean(solution.p == 0))
    measured = {"correlation_with_truth": correlation, "share_of_zero_cells": zeros}
    result = f"correlation with the truth {correlation:.3f}, {zeros:.0%} of the cells exactly 0"
    return solution, record | {"result": result} | measured


def _fit_digits(digits: _Digits) -> tuple[Solution, dict[str, Any], Array]:
    entropy = Tsallis(2.0)
    problem = Problem(
        entropy,
        SampleMap(digits.train, _CLASSES),
        ElasticNet(1e-3, 1e-4),
        observed=np.eye(_CLASSES)[digits.labels],
    )
    solution, record = _timed(problem)
    p = np.asarray(
        FenchelYoungLoss(entropy).predict(digits.test @ solution.w.reshape(-1, _CLASSES))
    )
    measured = {
        "held_out_accuracy": float(np.mean(p.argmax(axis=1) == digits.test_labels)),
        "mean_classes_above_zero": float(np.mean(np.sum(p > 0, axis=1))),
        "nonzero_weights": int(np.count_nonzero(solution.w)),
        "weights": solution.w.size,
    }
    result = (
        "held-out accuracy {held_out_accuracy:.3f}, {mean_classes_above_zero:.2f} classes above 0, "
        "{nonzero_weights} of {weights} weights"
    ).format(**measured)
    return solution, record | {"result": result} | measured, p


def _timed(problem: Problem) -> tuple[Solution, dict[str, Any]]:
    start = perf_counter()
    solution = problem.solve()
    record = {
        "status": solution.status.value,
        "seconds": perf_counter() - start,
        "n_iter": solution.n_iter,
        "gap": solution.gap,
        "guarantees": dict(solution.guarantees),
        "guarantee": _strongest(solution.guarantees),
    }
    return solution, record


def _strongest(guarantees: dict[str, float]) -> str:
    """The guarantee that says most, in words."""
    words = {
        "kl": "KL(p* || p) <= {:.0e}",
        "l2": "||p* - p||_2 <= {:.0e}",
        "rms_l2": "rms ||p* - p||_2 <= {:.0e}",
    }
    for name, text in words.items():
        if name in guarantees:
            return text.format(guarantees[name])
    return f"loss within {guarantees['fenchel_young']:.0e}"


# -- the figure ----------------------------------------------------------------------------------


def _figure(
    landscape: _Landscape,
    digits: _Digits,
    solutions: dict[str, Solution],
    fits: list[dict[str, Any]],
    p: Array,
) -> bytes:
    """All of it in one PNG, without the global state of pyplot."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(13.5, 9.6), dpi=130, layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.25, 1], hspace=0.03)
    _draw_maps(top, landscape, solutions, fits)
    left, right = bottom.subfigures(1, 2, width_ratios=[1, 2])
    _draw_convergence(left, solutions, fits)
    _draw_digits(right, digits, p, fits[2])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _draw_maps(
    figure: Any, landscape: _Landscape, solutions: dict[str, Solution], fits: list[dict[str, Any]]
) -> None:
    shannon, tsallis = (np.asarray(solutions[f"density_{k}"].p) for k in ("shannon", "tsallis"))
    cells = _SIDE * _SIDE
    ceiling = cells * max(x.max() for x in (landscape.truth, shannon, tsallis))
    titles = (
        f"Truth, and {_PRESENCES} presences drawn from it",
        "Fitted, Shannon entropy",
        "Fitted, Tsallis entropy, alpha = 1.5",
    )
    notes = (
        "the size of a dot is the number of presences in its cell",
        f"correlation with the truth {fits[0]['correlation_with_truth']:.3f}, no zeros",
        f"correlation {fits[1]['correlation_with_truth']:.3f}; hatched: exactly 0, "
        f"{fits[1]['share_of_zero_cells']:.0%} of the cells",
    )
    axes = figure.subplots(1, 3)
    densities = (landscape.truth, shannon, tsallis)
    for ax, title, note, density in zip(axes, titles, notes, densities, strict=True):
        grid = (cells * density).reshape(_SIDE, _SIDE)
        image = ax.imshow(grid, cmap="viridis", vmin=0, vmax=ceiling, origin="lower")
        ax.set_title(title, fontsize=11)
        ax.set_xlabel(note, fontsize=9.5)
        ax.set(xticks=[], yticks=[])
    zero = (tsallis == 0).reshape(_SIDE, _SIDE)
    axes[2].imshow(np.where(zero, 1.0, np.nan), cmap="Greys", vmin=0, vmax=6, origin="lower")
    marked = axes[2].contourf(zero, levels=[0.5, 1.5], colors="none", hatches=["////"])
    marked.set(edgecolor="0.55", linewidth=0)
    row, column = np.divmod(np.flatnonzero(landscape.observed), _SIDE)
    size = 9 * _PRESENCES * landscape.observed[landscape.observed > 0]
    axes[0].scatter(column, row, s=size, c="white", edgecolors="black", linewidths=0.4)
    bar = figure.colorbar(image, ax=axes, shrink=0.75, pad=0.015)
    bar.set_label("density (uniform = 1)")


def _draw_convergence(
    figure: Any, solutions: dict[str, Solution], fits: list[dict[str, Any]]
) -> None:
    ax = figure.subplots()
    styles = zip(fits, ("#3b528b", "#21918c", "#d1495b"), ("o", "s", "^"), strict=True)
    for fit, color, marker in styles:
        gaps = np.array([step["gap"] for step in solutions[fit["key"]].history])
        gaps = np.maximum(gaps, 1e-16)  # a gap of 0 has no logarithm
        ax.semilogy(gaps, color=color, marker=marker, markersize=5, label=fit["name"])
    ax.axhline(1e-8, color="0.4", linestyle="--", linewidth=1)
    ax.text(0.02, 1.6e-8, "tolerance", transform=ax.get_yaxis_transform(), fontsize=9, color="0.3")
    ax.set_title("Duality gap: how far from the optimum at most", fontsize=11)
    ax.set(xlabel="iteration", ylabel="gap")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=9, loc="upper right")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_digits(figure: Any, digits: _Digits, p: Array, fit: dict[str, Any]) -> None:
    support = np.sum(p > 0, axis=1)
    # from certain to torn: one digit of each size of support
    chosen = [int(np.flatnonzero(support == k)[0]) for k in np.unique(support)[:6]]
    figure.suptitle(
        f"Class probabilities of held-out digits (green: the true class): "
        f"{fit['held_out_accuracy']:.1%} right, "
        f"{fit['mean_classes_above_zero']:.1f} of {_CLASSES} classes above 0 on average",
        fontsize=11,
    )
    axes = figure.subplots(2, len(chosen), height_ratios=[1, 1.15], squeeze=False)
    for (picture, bars), i in zip(axes.T, chosen, strict=True):
        picture.imshow(digits.test[i, :64].reshape(8, 8), cmap="gray_r")
        picture.set(xticks=[], yticks=[])
        picture.set_title(f"a {digits.test_labels[i]}", fontsize=10)
        right = np.arange(_CLASSES) == digits.test_labels[i]
        bars.bar(np.arange(_CLASSES), p[i], color=np.where(right, "#21918c", "#d1495b"))
        bars.set(ylim=(0, 1.05), xticks=range(_CLASSES), yticks=[0, 0.5, 1])
        bars.tick_params(labelsize=8, labelleft=bars is axes[1, 0], length=2)
        bars.spines[["top", "right"]].set_visible(False)
        bars.set_xlabel(f"{support[i]} above 0", fontsize=9)
    axes[1, 0].set_ylabel("probability", fontsize=9)
