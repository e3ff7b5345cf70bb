"""A tree of its own for every row: what a function of single trees needs instead of one forest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent.core.domains import Domain
from maxent.rows.arrays import Array, Ragged, Rows
from maxent.structured.trees.tree import Tree


@dataclass(frozen=True)
class TreeRows(Domain):
    """The assignments of one tree per row, in the order of the trees.

    Parameters
    ----------
    trees : tuple of Tree
        The tree of each row.

    Examples
    --------
    >>> rows = TreeRows((Tree([(0, 1)], 2), Tree((), (2,))))
    >>> best = rows.argmax(Ragged.from_rows([[0.0, 1.0, 0, 0, 0, 0, 0, 0], [2.0, 1.0]]))
    >>> best.rows()[1]
    array([1., 0.])
    """

    trees: tuple[Tree, ...]
    ragged = True
    rows_alike = False

    def __post_init__(self) -> None:
        if not self.trees or not all(isinstance(tree, Tree) for tree in self.trees):
            raise TypeError("TreeRows needs a Tree for every row, and at least one")
        object.__setattr__(self, "trees", tuple(self.trees))

    def vertices(self, size: int) -> Array:
        """Of the only tree with rows of that size."""
        fitting = [tree for tree in self.trees if tree.size == size]
        if len(fitting) != 1:
            raise ValueError(f"{len(fitting)} trees have rows of {size} entries: take one of them")
        return fitting[0].vertices(size)

    def _each(self, rows: Rows) -> list[tuple[Tree, Array]]:
        if not isinstance(rows, Ragged):
            rows = Ragged.from_rows(list(rows))
        if len(rows) != len(self.trees):
            raise ValueError(f"TreeRows has {len(self.trees)} trees, got {len(rows)} rows")
        return list(zip(self.trees, (row[None] for row in rows.rows()), strict=True))

    def _argmax(self, theta: Rows) -> Rows:
        return Ragged.from_rows([tree._argmax(row)[0] for tree, row in self._each(theta)])

    def _contains(self, p: Rows, atol: float) -> Array:
        return np.array([tree._contains(row, atol)[0] for tree, row in self._each(p)])
