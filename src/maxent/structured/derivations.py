"""Structures as derivations: one choice after the other, with chances that a recursion knows.

A state is a derivation so far. ``options`` lists the logarithms of the chances of the next choice
and the states that it leads to, none where the structure is complete; different derivations are
different structures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxent.core.domains import KSubset
from maxent.core.prediction_maps import subset_walk
from maxent.rows.arrays import Array
from maxent.structured.alignment.domain import Alignment
from maxent.structured.trees.spans import SpanDomain


class Derivation(Protocol):
    """The choices of one row of scores."""

    def begin(self) -> Any:
        """The state in which nothing is chosen."""

    def options(self, state: Any) -> tuple[list[float], list[Any]]:
        """Log-chances of the choices, and the states after them."""

    def write(self, state: Any, out: Array) -> None:
        """Mark the entries of a complete structure in a row of zeros."""


class _Chosen(NamedTuple):
    """A list that begins with what was added last."""

    entry: Any
    rest: _Chosen | None


def _log_shares(scores: Sequence[float]) -> list[float]:
    """Logarithms of the shares in the sum of the exponentials."""
    top = max(scores)  # few numbers, for which numpy takes longer
    mass = math.log(sum(math.exp(x - top) for x in scores))
    return [x - top - mass for x in scores]


def _mark(chosen: _Chosen | None, out: Array) -> None:
    while chosen is not None:
        out[chosen.entry] = 1
        chosen = chosen.rest


class Path:
    """An alignment, cell by cell from its end."""

    def __init__(self, domain: Alignment, theta: Array) -> None:
        from maxent.structured.alignment.kernels.alignments import log_forward

        n, m = self.shape = domain.shape(0)
        self.forward = np.empty((n + 1, m + 1))
        log_forward(theta.reshape(n, m), domain.reach, self.forward)

    def begin(self) -> _Chosen:
        """At the last cell."""
        n, m = self.shape
        return _Chosen(n * m - 1, None)

    def options(self, state: _Chosen) -> tuple[list[float], list[_Chosen]]:
        """The cells from which a path comes."""
        i, j = divmod(state.entry, self.shape[1])
        if not i and not j:
            return [], []
        cells = [(a, b) for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if a >= 0 and b >= 0]
        sums = [self.forward.item(a + 1, b + 1) for a, b in cells]
        return _log_shares(sums), [_Chosen(a * self.shape[1] + b, state) for a, b in cells]

    def write(self, state: _Chosen, out: Array) -> None:
        """The cells of the path."""
        _mark(state, out)


class _Some(NamedTuple):
    """Of the first ``entries`` so many are ``left`` to take."""

    entries: int
    left: int
    chosen: _Chosen | None


class Subset:
    """A subset, entry by entry from the last one."""

    def __init__(self, domain: KSubset, theta: Array) -> None:
        self.k, self.scores = int(domain.k), theta - theta.max()
        self.sums = subset_walk(self.scores[None], self.k)[0][:, 0]

    def begin(self) -> _Some:
        """All are left."""
        return _Some(self.scores.size, self.k, None)

    def options(self, state: _Some) -> tuple[list[float], list[_Some]]:
        """Whether to take the last entry, unless all that are left must be."""
        last, left, chosen = state
        if not left or last == left:
            return [], []
        last -= 1
        above = self.sums.item(last, left - 1) + self.scores.item(last)
        sums = self.sums.item(last, left), above
        taken = _Some(last, left - 1, _Chosen(last, chosen))
        return _log_shares(sums), [_Some(last, left, chosen), taken]

    def write(self, state: _Some, out: Array) -> None:
        """The entries that are taken, and all of the first ones where as many are left."""
        _mark(state.chosen, out)
        out[: state.left] = 1


class _Grown(NamedTuple):
    """Items to be taken apart, by their address, and the entries that are chosen.

    An item whose label is chosen is its number in the chart less that of all: below 0.
    """

    waiting: _Chosen | None
    chosen: _Chosen | None


class SpanTree:
    """A tree of spans, from the whole tree down: the label of an item, then its parts."""

    def __init__(self, domain: SpanDomain, theta: Array) -> None:
        from maxent.structured.trees.kernels.spans import log_inside

        self.theta = theta
        self.n, self.labels, self.chart = domain.chart_of(theta.size)
        self.inside = np.empty(self.chart.item.size)
        log_inside(theta, self.n, self.labels, self.chart, np.empty(self.n * self.n), self.inside)

    def begin(self) -> _Grown:
        """The whole tree."""
        return _Grown(_Chosen(int(self.chart.target[self.chart.goals[self.n] - 1]), None), None)

    def options(self, state: _Grown) -> tuple[list[float], list[_Grown]]:
        """The labels, or the ways to take apart, the first item with several."""
        chart, (waiting, chosen) = self.chart, state
        while waiting is not None:
            address, rest = waiting
            if not address:
                waiting = rest
                continue
            v = chart.item[address] if address > 0 else address + chart.item.size
            if address > 0 and chart.head[v] >= 0:
                cell = int(chart.head[v] * self.n + chart.dependent[v]) * self.labels
                after = _Chosen(int(v) - chart.item.size, rest)
                if self.labels > 1:
                    shares = _log_shares(self.theta[cell : cell + self.labels].tolist())
                    labels = range(cell, cell + self.labels)
                    return shares, [_Grown(after, _Chosen(label, chosen)) for label in labels]
                chosen = _Chosen(cell, chosen)
            left, right, ways = int(chart.left[v]), int(chart.right[v]), int(chart.ways[v])
            parts = [(left + t, right + t * chart.pitch) for t in range(ways)]
            if ways > 1:
                sums = [self.inside.item(a) + self.inside.item(b) for a, b in parts]
                states = [_Grown(_Chosen(a, _Chosen(b, rest)), chosen) for a, b in parts]
                return _log_shares(sums), states
            waiting = _Chosen(left, _Chosen(right, rest))
        if state.waiting is None:
            return [], []
        return [0.0], [_Grown(None, chosen)]

    def write(self, state: _Grown, out: Array) -> None:
        """The labelled cells."""
        _mark(state.chosen, out)


def derivable(domain: Any) -> bool:
    """Whether there are derivations of a domain here."""
    return isinstance(domain, KSubset | SpanDomain | Alignment)


def derivation(domain: Any, theta: Array, row: int = 0) -> Derivation:
    """The derivations of a row of scores.

    ``row`` is its number in a batch whose rows the domain tells apart.
    """
    if isinstance(domain, Alignment):
        domain = domain.alone(row)
    domain.argmax(theta)  # refuses a row without any structure
    if isinstance(domain, KSubset):
        return Subset(domain, theta)
    if isinstance(domain, SpanDomain):
        return SpanTree(domain, theta)
    return Path(domain, theta)
