"""Timing on a shared, noisy machine: competitors take turns, medians and ratios are reported."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter

BUDGET = 20.0  # seconds a competitor may take in all its repeats


def once(function: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    begin = clock()
    function()
    return clock() - begin


def in_turns(
    competitors: dict[str, Callable[[], object]],
    repeats: int = 9,
    warm_up: bool = True,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each competitor; one repeat of all before the next, so that noise is shared.

    ``clock=process_time`` counts the work of all threads, whatever else the machine is doing.
    """
    first = {name: once(run, clock) for name, run in competitors.items()} if warm_up else {}
    times: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(repeats):
        for name, run in competitors.items():
            spent = sum(times[name]) + first.get(name, 0.0)
            if not times[name] or spent + first.get(name, 0.0) < BUDGET:
                times[name].append(once(run, clock))
    return times


def median(times: list[float]) -> float:
    return statistics.median(times)
