"""What no tree exceeds: branch and bound over questions, with the sums of both signs as bounds.

Splits of a region with positive parts P and negative parts N of r gain at most min(P, N) together,
one split the best there is, and k splits the gain of the first with the bounds of both sides, one
of the ways to share k - 1 among them. First questions with the largest bound are looked into first;
when the visits of cells are used up, what is open counts with its bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from maxent.families.base import of_sums
from maxent.families.resplits import BinnedTree
from maxent.rows.arrays import Array

_SUBSETS = 6  # levels of a category of which all sets are tried; of more the sides are bounded
_OVERHEAD = 5e5  # visits that the questions on one variable of a region count for, however small
_PAIRS = 3e7  # sums by pair of bins that are held at once at most
_MERGING = 30  # visits for each cell and variable that telling equal cells apart counts for


@dataclass(eq=False)
class Visits:
    """How many visits of cells are left, and what is rounding: it must not change the order."""

    left: float
    rounding: float

    def take(self, count: float) -> bool:
        """Whether there are as many, which are then gone."""
        if count > self.left:
            return False
        self.left -= count
        return True


class Sketch(NamedTuple):
    """A tree by its first question; None for a leaf."""

    variable: int
    goes_left: Array
    left: Sketch | None
    right: Sketch | None


class Gained(NamedTuple):
    """No splits gain more than ``at_most``; those of ``sketch`` gain ``found``."""

    at_most: float
    found: float = 0.0
    sketch: Sketch | None = None


def tree_ceiling(
    codes: Array, r: Array, firsts: Array, n_continuous: int, prices: Array, budget: float
) -> tuple[Array, list[BinnedTree]]:
    """At most |value| of trees of k nodes over cells in bins, for each price; trees on the way."""
    visits = Visits(budget, 1e-10 * float(np.abs(r).sum()))
    codes, r = _merged(codes, r, visits)
    root = Region(codes, r, firsts, n_continuous, visits)
    base = abs(float(r.sum()))  # the value of a single leaf, of one of the signs
    size = float(np.abs(r).sum())
    rounding = 1e-12 * size
    most, trees = np.full(len(prices), of_sums(size, base) + rounding), []
    width = int(np.diff(firsts).max())
    for k, price in enumerate(prices):
        gained = root.gained(k + 1, float(price) - base)
        most[k] = min(most[k], gained.at_most + base + rounding)
        if gained.sketch is not None:
            trees.append(_binned(gained.sketch, width))
    return most, trees


def _merged(codes: Array, r: Array, visits: Visits) -> tuple[Array, Array]:
    """Cells in the same bins as one, whose weights may cancel."""
    if not visits.take(_MERGING * codes.size):
        return codes, r
    rows = np.ascontiguousarray(codes)
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return rows[first], np.bincount(place.ravel(), weights=r, minlength=first.size)


def _binned(sketch: Sketch, width: int) -> BinnedTree:
    variable: list[int] = []
    goes_left: list[Array] = []
    links: list[list[int]] = []

    def visit(at: Sketch | None) -> int:
        if at is None:
            return -1
        node = len(variable)
        variable.append(at.variable)
        bins = np.zeros(width, dtype=np.uint8)
        bins[: at.goes_left.size] = at.goes_left
        goes_left.append(bins)
        links.append([-1, -1])
        links[node][0] = visit(at.left)
        links[node][1] = visit(at.right)
        return node

    visit(sketch)
    left, right = np.ascontiguousarray(np.array(links, dtype=np.int32).T)
    return BinnedTree(np.array(variable, np.int32), np.array(goes_left), left, right)


class Questions(NamedTuple):
    """The splits of a region, one entry each.

    ``goes_left`` are the bins that do, ``gain`` what the split itself gains; the most that one
    split of each side gains, ``one``, and any number of them, ``many``, are (2, splits).
    """

    variable: Array
    goes_left: list[Array]
    gain: Array
    one: Array
    many: Array

    def bounds(self, k: int) -> Array:
        """Gains with the bounds of both sides, over all ways to share k - 1 splits among them."""
        side = (np.zeros_like(self.one), self.one, self.many)
        shares = {(min(a, 2), min(k - 1 - a, 2)) for a in range(k)}
        return self.gain + np.max([side[a][0] + side[b][1] for a, b in shares], axis=0)


class Region:
    """Some cells, and what splits of them gain."""

    def __init__(
        self, codes: Array, r: Array, firsts: Array, n_continuous: int, visits: Visits
    ) -> None:
        self._codes, self._r, self._firsts = codes, r, firsts
        self._n_continuous, self._visits = n_continuous, visits
        total, size = float(r.sum()), float(np.abs(r).sum())
        self.total, self.many = total, max((size - abs(total)) / 2, 0.0)  # min(P, N)
        self._questions: Questions | None = None
        self._wide: list[tuple[float, float]] = []  # see _sets_bound
        self._sides: dict[int, tuple[Region, Region]] = {}
        self._known: dict[int, Gained] = {}

    def gained(self, k: int, enough: float) -> Gained:
        """What k splits gain; bounds up to ``enough`` are not looked into further."""
        if k == 0 or self.many <= 0:
            return Gained(0.0)
        known = self._known.get(k, Gained(self.many))
        if known.at_most > max(enough, known.found) + self._visits.rounding:
            known = self._known[k] = self._looked_into(k, enough)
        return known

    def _looked_into(self, k: int, enough: float) -> Gained:
        """Questions with the largest bounds first, until what is left is known or no matter."""
        found = self._one_split
        if k == 1 or not self._asked():
            return found if k == 1 else Gained(self.many, found.found, found.sketch)
        assert self._questions is not None
        bounds = self._questions.bounds(k)
        looked = max(found.found, self._sets_bound(k))  # the most of what cannot be known better
        rounding = self._visits.rounding
        for s in np.argsort(-np.round(bounds / max(rounding, 1e-300)), kind="stable"):
            if bounds[s] <= max(enough, looked) + rounding or self._visits.left <= 0:
                return Gained(min(max(looked, float(bounds[s])), self.many), *found[1:])
            gained = self._look(int(s), k, enough)
            looked = max(looked, gained.at_most)
            found = max(found, gained, key=lambda one: one.found)
        return Gained(min(looked, self.many), *found[1:])

    def _look(self, s: int, k: int, enough: float) -> Gained:
        """What a question gains with its sides looked into."""
        q = self._questions
        assert q is not None
        if s not in self._sides:
            self._sides[s] = self._parted(int(q.variable[s]), q.goes_left[s])
        left, right = self._sides[s]
        gain, variable, goes_left = float(q.gain[s]), int(q.variable[s]), q.goes_left[s]
        most, best = gain, Gained(gain, gain, Sketch(variable, goes_left, None, None))
        for a in range(k):
            b = k - 1 - a
            right_most = right.gained(b, np.inf).at_most  # as far as it is known
            one = left.gained(a, max(enough, best.found) - gain - right_most)
            two = right.gained(b, max(enough, best.found) - gain - one.at_most)
            most = max(most, gain + one.at_most + two.at_most)
            found = gain + one.found + two.found
            if found > best.found:
                best = Gained(found, found, Sketch(variable, goes_left, one.sketch, two.sketch))
        return Gained(most, best.found, best.sketch)

    # -- the splits ----------------------------------------------------------------------------

    @cached_property
    def _one_split(self) -> Gained:
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import best_split, sum_bins

        sums = np.zeros(self._firsts[-1])
        order = np.arange(self._r.size, dtype=np.int32)
        add = exact(sum_bins, self._codes.size)
        add(self._codes, order, self._r, self._firsts, sums)
        self._visits.left -= self._codes.size + sums.size + _OVERHEAD
        goes_left = np.zeros(int(np.diff(self._firsts).max()), dtype=np.uint8)
        find = exact(best_split, sums.size)
        found = find(sums, self._firsts, self._n_continuous, self.total, 0.0, goes_left)
        gain, variable = float(found[0]), int(found[1])
        if variable < 0:
            return Gained(0.0)
        return Gained(gain, gain, Sketch(variable, goes_left, None, None))

    def _parted(self, variable: int, goes_left: Array) -> tuple[Region, Region]:
        goes = goes_left[self._codes[:, variable]] > 0
        shared = (self._firsts, self._n_continuous, self._visits)
        left, right = (Region(self._codes[side], self._r[side], *shared) for side in (goes, ~goes))
        return left, right

    def _asked(self) -> bool:
        """Whether all questions that part the cells are known; not where it takes too long."""
        if self._questions is None:
            present = [np.unique(column) for column in self._codes.T]
            bins, variables = sum(map(len, present)), len(present)
            if max(map(len, present)) * bins > _PAIRS:
                return False
            visits = self._codes.size * variables + 2 * bins**2 + _OVERHEAD * variables
            if self._visits.take(visits):
                self._questions = self._all_questions(present)
        return self._questions is not None

    def _all_questions(self, present: list[Array]) -> Questions:
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import row_gains, set_value, sum_pairs

        firsts = np.concatenate([[0], np.cumsum([len(bins) for bins in present])])
        local = np.empty(self._codes.shape, dtype=np.int32)
        for v, bins in enumerate(present):
            local[:, v] = np.searchsorted(bins, self._codes[:, v])
        none = np.empty((2, 0))
        parts = [Questions(np.empty(0, np.intp), [], np.empty(0), none, none)]
        for v, bins in enumerate(present):
            pairs = np.zeros((len(bins), firsts[-1]))
            exact(sum_pairs, local.size)(local, self._r, v, firsts, pairs)
            size = np.bincount(local[:, v], weights=np.abs(self._r), minlength=len(bins))
            mine, every = slice(firsts[v], firsts[v + 1]), np.arange(np.diff(self._firsts)[v])
            if v >= self._n_continuous and len(bins) > _SUBSETS:
                totals = pairs[:, mine].sum(axis=1)
                many = np.maximum((size - np.abs(totals)) / 2, 0.0)
                whole = max(self.total, 0.0)
                two = set_value(pairs, firsts, self._n_continuous) - whole
                more = float((np.maximum(totals, 0.0) + many).sum()) - whole
                self._wide.append((two, more))
                continue
            if v < self._n_continuous:
                left, left_size = np.cumsum(pairs, axis=0)[:-1], np.cumsum(size)[:-1]
                goes_left = [every <= last for last in bins[:-1]]
            else:
                chosen = _sets(len(bins))
                left, left_size = chosen @ pairs, chosen @ size
                goes_left = [np.isin(every, bins[row > 0]) for row in chosen]
            sums = left[:, mine].sum(axis=1)
            totals = np.array([sums, self.total - sums])
            sizes = np.array([left_size, size.sum() - left_size])
            one = np.empty(totals.shape)
            measure = exact(row_gains, 2 * left.size)
            measure(left, firsts, self._n_continuous, totals[0], one[0])
            measure(pairs.sum(axis=0) - left, firsts, self._n_continuous, totals[1], one[1])
            many = np.maximum((sizes - np.abs(totals)) / 2, 0.0)
            apart = np.minimum(np.abs(totals[0]), np.abs(totals[1]))
            gain = np.where((totals[0] > 0) != (totals[1] > 0), apart, 0.0)
            parts.append(Questions(np.full(len(gain), v), goes_left, gain, one, many))
        return Questions(
            np.concatenate([part.variable for part in parts]),
            [goes.astype(np.uint8) for part in parts for goes in part.goes_left],
            *(
                np.concatenate([getattr(part, name) for part in parts], axis=-1)
                for name in ("gain", "one", "many")
            ),
        )

    def _sets_bound(self, k: int) -> float:
        """At most what a first question on many levels gains.

        The best of two splits; of more, every level has any number of its own.
        """
        most = [two if k == 2 else more for two, more in self._wide]
        return min(max(most, default=0.0), self.many)


def _sets(count: int) -> Array:
    """All sets of bins that part the cells, (sets, bins); complements part them alike."""
    sets = [s for n in range(1, count) for s in combinations(range(count), n) if 0 in s]
    chosen = np.zeros((len(sets), count))
    for row, members in zip(chosen, sets, strict=True):
        row[list(members)] = 1.0
    return chosen
