"""Sparse maps forward: ours beside entmax, with torch.softmax as the floor."""

from __future__ import annotations

import numpy as np

import maxent as mx
from benchmarks.peers import entmax, torch_softmax
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns

SHAPES = ((4096, 1000), (256, 50_000))
ALPHAS = (2.0, 1.5, 1.33)
OURS = "maxent"
TARGETS = {
    "entmax (default)": ("at least 20 x faster", 20.0),
    "entmax (k=100)": ("at least 5 x faster", 5.0),
}
FLOOR_TARGET = ("at most 4 x the time of torch.softmax on 4096 x 1000", 0.25)


def reference(theta: np.ndarray, alpha: float) -> np.ndarray:
    """The map by plain bisection in float64, independent of every competitor."""
    scores = (alpha - 1) * theta.astype(np.float64)
    top = scores.max(axis=1, keepdims=True)
    low, high = top - 1, top.copy()
    for _ in range(80):
        middle = (low + high) / 2
        mass = np.sum(np.maximum(scores - middle, 0) ** (1 / (alpha - 1)), axis=1, keepdims=True)
        low, high = np.where(mass > 1, middle, low), np.where(mass > 1, high, middle)
    p = np.maximum(scores - low, 0) ** (1 / (alpha - 1))
    return p / p.sum(axis=1, keepdims=True)


def run(quick: bool = False) -> list[Row]:
    """One row for every shape, type, alpha and competitor."""
    rows = []
    for shape in SHAPES:
        for dtype in (np.float32, np.float64):
            theta = np.random.default_rng(0).standard_normal(shape).astype(dtype)
            checked = slice(0, 64 if shape[0] > 1000 else 8)
            for alpha in ALPHAS[:1] if quick else ALPHAS:
                exact = reference(theta[checked], alpha)
                entropy = mx.Tsallis(alpha)
                competitors = {OURS: lambda e=entropy, t=theta: e.conjugate(t)[1]}
                problem = f"alpha={alpha:g} on {shape[0]} x {shape[1]} {np.dtype(dtype).name}"
                for peer in (torch_softmax, entmax):
                    try:
                        competitors |= peer.maps(theta, alpha)
                    except ImportError as error:
                        rows.append(missing("maps", problem, peer.NAME, str(error)))
                times = in_turns(competitors, repeats=15)
                errors, targets = {}, dict(TARGETS)
                for name in times:
                    is_map = "softmax" not in name
                    error = np.abs(competitors[name]()[checked] - exact).max() if is_map else np.nan
                    errors[name] = float(error)
                    if not is_map and shape == SHAPES[0]:
                        targets[name] = FLOOR_TARGET
                rows += compared("maps", problem, times, OURS, errors, targets)
    return rows
