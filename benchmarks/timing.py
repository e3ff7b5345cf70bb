"""Timing on a shared, noisy machine: competitors take turns, medians and ratios are reported."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter

BUDGET = 20.0  # seconds a competitor may take in all its repeats


def once(function: Callable[[], object]) -> float:
    begin = perf_counter()
    function()
    return perf_counter() - begin


def in_turns(
    competitors: dict[str, Callable[[], object]], repeats: int = 9, warm_up: bool = True
) -> dict[str, list[float]]:
    """Seconds of each competitor; one repeat of all before the next, so that noise is shared."""
    first = {name: once(run) for name, run in competitors.items()} if warm_up else {}
    times: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(repeats):
        for name, run in competitors.items():
            spent = sum(times[name]) + first.get(name, 0.0)
            if not times[name] or spent + first.get(name, 0.0) < BUDGET:
                times[name].append(once(run))
    return times


def median(times: list[float]) -> float:
    return statistics.median(times)
