"""Euclidean plans: the constants of the kernel beside those it had first, on problems of their own.

    python -m benchmarks.transport_levels

The constants were chosen on the four problems of benchmarks.structured_transport, which come first;
then sizes, seeds and masses are others. Gains are ratios of seconds of the processor, first to now.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain, product
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.structured_transport import SIZE, costs
from benchmarks.structured_transport import STRENGTHS as BENCHED
from benchmarks.timing import in_turns, median
from maxent.structured.transport.kernels import couplings

FIRST = "_EASY, _GROWTH, _LOOSE = 100.0, 4.0, 1e-3"
SIZES = ((64, 64), (128, 128), (256, 256), (300, 200), (400, 400))
SEEDS, STRENGTHS, MASSES = (1, 2, 3), (1.0, 0.1), ("equal", "drawn")


def with_first_constants(folder: Path) -> Callable[..., None]:
    """The kernel, compiled from a copy of its module with the constants it had first."""
    source = Path(couplings.__file__).read_text()
    copy, changes = re.subn(r"^_EASY, _GROWTH, _LOOSE = .*$", FIRST, source, flags=re.MULTILINE)
    assert changes == 1
    path = folder / "first_couplings.py"
    path.write_text(copy.replace("cache=True", "cache=False"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.project_rows


def chosen_on() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """The same of benchmarks.structured_transport."""
    mass = np.full(SIZE, 1 / SIZE)
    for (name, cost), strength in product(costs(SIZE).items(), BENCHED["euclidean"]):
        yield f"{name}, strength {strength:g}", -cost / strength, mass, mass


def problems(m: int, n: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """The kind, the scores and the two masses of each problem of a size."""
    for seed, strength, mass in product(SEEDS, STRENGTHS, MASSES):
        rng = np.random.default_rng(seed)
        here, there = rng.random((m, 2)), rng.random((n, 2))
        squares = np.square(here[:, None] - there).sum(axis=-1)
        drawn_costs = {"points": squares / squares.max(), "noise": rng.random((m, n))}
        drawn = mass == "drawn"
        a, b = (rng.dirichlet(np.ones(k)) if drawn else np.full(k, 1 / k) for k in (m, n))
        for name, cost in drawn_costs.items():
            yield f"{name}, strength {strength:g}, {mass} masses", -cost / strength, a, b


def seconds(kernels: dict[str, Callable[..., None]], theta, a, b) -> dict[str, float]:
    """The median of each kernel; both must find the same plan."""
    m, n = theta.shape
    plans = {name: np.empty(m * n) for name in kernels}
    left = np.empty(1)

    def run(name: str) -> None:
        size = np.array([m]), np.array([n])
        ends = np.array([0, m * n])
        kernels[name](theta.ravel(), ends, *size, False, a, b, plans[name], left, 0, 1)

    times = in_turns({name: lambda name=name: run(name) for name in kernels}, 3, clock=process_time)
    first, now = plans.values()
    assert np.abs(first - now).sum() < 1e-9
    return {name: median(spent) for name, spent in times.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kernels = {"first": with_first_constants(Path(folder)), "now": couplings.project_rows}
        others = (problems(*size) for size in SIZES)
        for name, some in {"chosen on": chosen_on(), "others": chain(*others)}.items():
            gains: list[float] = []
            for kind, *problem in some:
                spent = seconds(kernels, *problem)
                gains.append(spent["first"] / spent["now"])
                print(f"{problem[0].shape}, {kind:<40}{gains[-1]:6.2f} x", flush=True)
            print(f"{name}: {len(gains)} problems, median {median(gains):.2f} x,", end=" ")
            print(f"{min(gains):.2f} to {max(gains):.2f}; slower: {sum(g < 1 for g in gains)}")


if __name__ == "__main__":
    main()
