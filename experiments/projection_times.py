"""Figure 9 of the Fenchel-Young paper: time to compute the map of the 1.5-Tsallis entropy.

Projected gradient (FISTA), bisection, Brent's method and the map of this package, until
||p - p*||_2 < 1e-5, for scores drawn from N(0, sigma I), log sigma uniform on [-4, 4] (§9.1). The
distance to p* is looked at after every step, off the clock. FISTA stops at 2000 steps or ten
seconds (then its time is a lower bound, counted in ``unreached``) and has fewer samples where d is
large.

python -m experiments.projection_times
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy import optimize, stats

import maxent as mx

SIZES = (10, 100, 1_000, 10_000, 100_000)
SAMPLES, CLOSE = 200, 1e-5
FISTA_SECONDS = 60.0  # in all, at each size
ENTROPY = mx.Tsallis(1.5)


class Reached(Exception):
    """The point is close enough."""


class Watch:
    """A stopwatch that stands still while the distance to the answer is looked at."""

    def __init__(self, answer: np.ndarray) -> None:
        self.answer, self.seconds, self.start = answer, 0.0, perf_counter()

    def look(self, p: np.ndarray) -> None:
        self.seconds += perf_counter() - self.start
        if np.linalg.norm(p - self.answer) < CLOSE:
            raise Reached
        self.start = perf_counter()


def point(theta: np.ndarray, tau: float) -> np.ndarray:
    """p(tau) = [1 + (theta - tau)/2]_+^2 (Prop. 9)."""
    return np.maximum(1 + (theta - tau) / 2, 0.0) ** 2


def bracket(theta: np.ndarray) -> tuple[float, float]:
    """tau between max theta and where d equal entries have sum 1."""
    return float(theta.max()), float(theta.max() + 2 * (1 - theta.size**-0.5))


def bisection(theta: np.ndarray, watch: Watch) -> None:
    low, high = bracket(theta)
    while True:
        tau = (low + high) / 2
        p = point(theta, tau)
        low, high = (tau, high) if p.sum() > 1 else (low, tau)
        watch.look(p)


def brent(theta: np.ndarray, watch: Watch) -> None:
    def excess(tau: float) -> float:
        p = point(theta, tau)
        watch.look(p)
        return float(p.sum() - 1)

    low, high = bracket(theta)
    # the ends are the root itself where one entry has all or all have the same
    optimize.brentq(excess, low - 1e-12, high + 1e-12, xtol=1e-15, maxiter=200)


def fista(theta: np.ndarray, watch: Watch) -> None:
    """min Omega(p) - <theta, p> over the simplex, steps by backtracking."""
    simplex = mx.Simplex()

    def objective(p: np.ndarray) -> tuple[float, np.ndarray]:
        root = np.sqrt(p)
        return float(p @ (4 / 3 * root - theta)), 2 * root - theta

    p = ahead = np.full(theta.size, 1 / theta.size)
    momentum, step = 1.0, 1.0
    for _ in range(2_000):
        value, gradient = objective(ahead)
        while True:
            new = np.asarray(simplex.project(ahead - step * gradient))
            move = new - ahead
            bound = value + gradient @ move + move @ move / (2 * step)
            if objective(new)[0] <= bound + 1e-14 * max(1.0, abs(value)) or step < 1e-12:
                break
            step /= 2
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = np.maximum(new + (momentum - 1) / following * (new - p), 0.0)
        p, momentum, step = new, following, 1.2 * step
        watch.look(p)
        if watch.seconds > 10:
            return


def ours(theta: np.ndarray, watch: Watch) -> None:
    watch.look(ENTROPY.conjugate(theta)[1])


METHODS: dict[str, Callable[[np.ndarray, Watch], None]] = {
    "projected gradient (FISTA)": fista,
    "bisection": bisection,
    "Brent (scipy)": brent,
    "maxent.Tsallis(1.5)": ours,
}


def time_one(method: Callable[[np.ndarray, Watch], None], theta: np.ndarray) -> tuple[float, bool]:
    """Seconds, and whether the answer was reached."""
    watch = Watch(np.asarray(ENTROPY.conjugate(theta)[1]))
    watch.start = perf_counter()
    try:
        method(theta, watch)
    except Reached:
        return watch.seconds, True
    return watch.seconds, False


def scores(size: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    sigma = np.exp(rng.uniform(-4, 4, size=count))
    return [np.sqrt(s) * rng.normal(size=size) for s in sigma]


def median_interval(seconds: np.ndarray) -> tuple[float, float]:
    """99% confidence interval of the median, by order statistics."""
    ordered, n = np.sort(seconds), len(seconds)
    low = int(stats.binom.ppf(0.005, n, 0.5))
    return float(ordered[max(low - 1, 0)]), float(ordered[min(n - low, n - 1)])


def run(results: Path) -> list[Path]:
    """Time, write and draw."""
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        samples = scores(size, SAMPLES)
        for name, method in METHODS.items():
            time_one(method, samples[0])  # compiled and in cache
            found: list[tuple[float, bool]] = []
            for theta in samples:
                found.append(time_one(method, theta))
                if method is fista and sum(t for t, _ in found) > FISTA_SECONDS and len(found) > 15:
                    break
            seconds = np.array([t for t, _ in found])
            low, high = median_interval(seconds)
            rows.append(
                {
                    "d": size,
                    "method": name,
                    "median_s": float(np.median(seconds)),
                    "low_s": low,
                    "high_s": high,
                    "samples": len(found),
                    "unreached": sum(not reached for _, reached in found),
                }
            )
            print(rows[-1], flush=True)
    table = results / "projection_times.csv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [table, draw(results / "projection_times.png", rows)]


def draw(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Median seconds against d, with 99% intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 4.5), constrained_layout=True)
    for name in METHODS:
        part = [row for row in rows if row["method"] == name]
        x, y = [row["d"] for row in part], np.array([row["median_s"] for row in part])
        ends = np.array([[row["low_s"], row["high_s"]] for row in part]).T
        axis.errorbar(x, y, np.abs(ends - y), label=name, marker="o", capsize=3, linewidth=1.6)
    for row in rows:
        if row["unreached"]:
            note = f"{row['unreached']} of {row['samples']} not reached"
            place = (row["d"], row["median_s"])
            axis.annotate(
                note, place, (-10, -3), textcoords="offset points", ha="right", fontsize=8
            )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("dimension d")
    axis.set_ylabel("seconds to a distance of 1e-5 (median, 99% interval)")
    axis.set_title("Map of the 1.5-Tsallis entropy")
    axis.legend()
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


if __name__ == "__main__":
    from experiments.run import RESULTS

    for written in run(RESULTS):
        print(f"written: {written}")
