"""Trees made better: one question at a time is asked anew, the rest of the tree kept.

A cell that comes to a node gets the label a_i if it goes left and b_i if it goes right, so that
the tree's value is a constant plus the sum of r_i (a_i - b_i) over those that go left: the best
question is read off the sums of these weights by bin. A node that costs more than it brings goes.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from maxent.rows.arrays import Array

_SWEEPS = 10  # over all nodes of a tree at most; two or three are enough for most
_LITTLE = 1e-4  # of its worth: what a sweep must bring for another one


class BinnedTree(NamedTuple):
    """A tree over bins; nodes as in ``TreeTerms``, ``goes_left`` (nodes, bins) the bins that do."""

    variable: Array
    goes_left: Array
    left: Array
    right: Array

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self.variable.size)

    def path(self, node: int) -> tuple[Array, Array]:
        """The nodes from the root to a node, and the sides that lead there."""
        above, sides = [node], list[int]()
        while above[0]:
            on_left = np.flatnonzero(self.left == above[0])
            sides.insert(0, int(not on_left.size))
            above.insert(0, int((on_left if on_left.size else self._right_to(above[0]))[0]))
        return np.array(above, dtype=np.int32), np.array(sides, dtype=np.int32)

    def _right_to(self, node: int) -> Array:
        return np.flatnonzero(self.right == node)

    def without(self, node: int, keep: int) -> BinnedTree | None:
        """The tree with a node replaced by its left (0) or right (1) child; None for a leaf."""
        links = (self.left, self.right)
        order: list[int] = []
        left: list[int] = []
        right: list[int] = []

        def visit(n: int) -> int:
            if n == node:
                return visit(int(links[keep][n]))
            if n < 0:
                return n
            place = len(order)
            order.append(n)
            left.append(0)
            right.append(0)
            left[place] = visit(int(self.left[n]))
            right[place] = visit(int(self.right[n]))
            return place

        visit(0)
        if not order:
            return None
        ends = (np.array(side, dtype=np.int32) for side in (left, right))
        return BinnedTree(self.variable[order], self.goes_left[order], *ends)

    def asking(self, node: int, variable: int, goes_left: Array) -> BinnedTree:
        """The tree with another question at a node."""
        variables, bins = self.variable.copy(), self.goes_left.copy()
        variables[node] = variable
        bins[node, :] = 0
        bins[node, : goes_left.size] = goes_left
        return self._replace(variable=variables, goes_left=bins)


class LeafAnswers(Protocol):
    """The sums over the cells that labels ask for."""

    def leaves(self, tree: BinnedTree) -> Array:
        """Sums of r over the cells of each leaf, (nodes, 2); 0 where a side leads to a node."""


class TreeAnswers(LeafAnswers, Protocol):
    """The sums over the cells that better trees ask for."""

    def resplit(self, tree: BinnedTree, node: int) -> Array:
        """Sums of r_i (a_i - b_i) by bin of every variable, over the cells that reach a node."""


class Better(NamedTuple):
    """A tree and its value."""

    tree: BinnedTree
    value: float


class Resplitter:
    """Better trees over variables in bins; prices[k - 1] is the price of k nodes.

    ``firsts`` is the number of each variable's first bin, of which the first ``n_continuous`` are
    ordered; ``sign`` is that of the values that count.
    """

    def __init__(self, firsts: Array, n_continuous: int, prices: Array, sign: float) -> None:
        self._firsts, self._n_continuous = firsts, n_continuous
        self._prices, self._sign = prices, sign

    def better(self, sums: TreeAnswers, tree: BinnedTree) -> Better:
        """The tree after sweeps over its nodes, none of which makes value - price less."""
        found = self.labelled(sums, tree)
        for _ in range(_SWEEPS):
            before = self._worth(found)
            found = self.labelled(sums, self._swept(sums, found.tree))
            if self._worth(found) - before <= _LITTLE * abs(before):
                break
        return found

    def _worth(self, found: Better) -> float:
        return self._sign * found.value - float(self._prices[found.tree.size - 1])

    def labelled(self, sums: LeafAnswers, tree: BinnedTree) -> Better:
        """The tree with the best labels of its leaves, less nodes that tell nothing apart."""
        totals = sums.leaves(tree)
        label = np.where(self._sign * totals > 0, -2, -1)
        left = np.where(tree.left < 0, label[:, 0], tree.left).astype(np.int32)
        right = np.where(tree.right < 0, label[:, 1], tree.right).astype(np.int32)
        value = float(totals[self._sign * totals > 0].sum())
        tree, node = tree._replace(left=left, right=right), tree.size - 1
        while node >= 0 and tree.size > 1:
            if tree.left[node] == tree.right[node]:
                tree = tree.without(node, 0) or tree
                node = tree.size
            node -= 1
        return Better(tree, value)

    def _swept(self, sums: TreeAnswers, tree: BinnedTree) -> BinnedTree:
        node = 0
        while node < tree.size:
            kept = self._asked_anew(sums, tree, node)
            node += kept.size == tree.size  # a smaller tree has another node in this place
            tree = kept
        return tree

    def _asked_anew(self, sums: TreeAnswers, tree: BinnedTree, node: int) -> BinnedTree:
        """The best question at a node, or one of its children in its place."""
        gain = self._sign * sums.resplit(tree, node)
        mine = self._bins(gain, int(tree.variable[node]))
        now = float(mine[tree.goes_left[node, : mine.size] > 0].sum())
        best, choice = now, tree
        noise = 1e-12 * float(np.abs(mine).sum())
        for variable in range(self._firsts.size - 1):
            value, goes_left = self._question(self._bins(gain, variable), variable)
            if value > best + noise:
                best, choice = value, tree.asking(node, variable, goes_left)
        price = self._prices[tree.size - 1]
        for keep, value in ((0, float(mine.sum())), (1, 0.0)):  # all go left, or none
            smaller = tree.without(node, keep)
            if smaller is not None:
                saved = float(price - self._prices[smaller.size - 1])
                if value + saved >= best:  # of equal ones the smaller tree
                    best, choice = value + saved, smaller
        return choice

    def _bins(self, sums: Array, variable: int) -> Array:
        return sums[self._firsts[variable] : self._firsts[variable + 1]]

    def _question(self, gain: Array, variable: int) -> tuple[float, Array]:
        """The best bins of a variable to go left, and what they bring."""
        if variable >= self._n_continuous:
            goes_left = gain > 0
            goes_left[-1] = False  # unknown levels are in no set
            return float(gain[goes_left].sum()), goes_left
        upto = np.cumsum(gain[:-1])
        if not upto.size:
            return 0.0, np.zeros(1, dtype=bool)
        cut = int(np.argmax(upto))
        return float(upto[cut]), np.arange(gain.size) <= cut
