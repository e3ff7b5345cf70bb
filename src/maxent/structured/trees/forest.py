"""Rooted forests as recursions walk them: where the scores of nodes and edges lie in a row."""

from __future__ import annotations

from dataclasses import dataclass

from maxent.rows.arrays import Array


@dataclass(frozen=True)
class Forest:
    """A rooted forest: nodes with parents first, the entries of their scores and of their tables.

    A table is (where it begins, whether it lies [own state, parent's state]).
    """

    order: tuple[int, ...]
    parent: tuple[int, ...]
    nodes: tuple[tuple[int, int], ...]
    tables: tuple[tuple[int, bool], ...]

    def table(self, rows: Array, u: int) -> Array:
        """The table of u and its parent as a view (rows, parent's states, own states)."""
        start, own_first = self.tables[u]
        own, other = (b - a for a, b in (self.nodes[u], self.nodes[self.parent[u]]))
        block = rows[:, start : start + own * other]
        if own_first:
            return block.reshape(-1, own, other).swapaxes(1, 2)
        return block.reshape(-1, other, own)
