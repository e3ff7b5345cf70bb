"""MatrixBlockMap: a matrix of the cells' features in blocks, such as a dask array."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent._support.threads import all_finite
from maxent.features.base import FeatureRows, OperatorMap
from maxent.rows.arrays import Array
from maxent.rows.blocks.cells import CellBlock
from maxent.rows.blocks.map import BlockMap, CellBlockMap, InBlocks, wider
from maxent.rows.blocks.table import BlockTable, Part, block_table

if TYPE_CHECKING:
    from maxent.core.domains import Domain

_SUM = 1e-9  # by which an observed distribution may miss 1


class MatrixBlockMap(CellBlockMap):
    """Features of the cells of one row, F' = X with X (cells, features) in blocks.

    What ``make_map`` makes of a dask array: ``Problem(Shannon(), X, Box(0.1), observed=p)`` is
    solved where X lies. Every cell has the base measure 1.
    """

    source: Any

    @classmethod
    def from_table(cls, X: Any, observed: Any = None) -> MatrixBlockMap:
        """The map of a table in blocks; ``observed`` is a distribution over its cells."""
        table = (
            X
            if isinstance(X, BlockTable) and observed is None
            else block_table(X, observed=observed)
        )
        names = table.names()
        blocks = table.blocks.map(_matrix_block)
        lengths = table.lengths()
        if not sum(lengths):
            raise ValueError(
                "X has no rows in any of its blocks: a problem needs at least one cell"
            )
        features = cls(blocks, names if isinstance(names, int) else len(names), sum(lengths))
        features.source = X
        if observed is not None:
            total = float(blocks.reduce(_observed_mass, merge=add))
            if abs(total - 1) > _SUM:
                raise ValueError(f"the observed distribution must sum to 1, got {total:.10g}")
        return features

    def evaluator(self, domain: Domain, weights: Array | None, observed: Any) -> BlockMap:
        """The map whose blocks have this observed distribution."""
        if observed is None or isinstance(observed, InBlocks):
            return super().evaluator(domain, weights, observed)
        seeing = MatrixBlockMap.from_table(self.source, observed)
        return seeing.evaluator(domain, weights, InBlocks())

    def ranges(self) -> tuple[Array, Array]:
        """Column minima and maxima."""
        low, high = self.blocks.reduce(_ranges, merge=wider)
        return (low, high) if self.index is None else (low[self.index], high[self.index])


make_block_map = MatrixBlockMap.from_table


def _matrix_block(part: Part) -> CellBlock:
    X = np.asarray(part.X)
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    if not all_finite(X):
        raise ValueError("X contains NaN or infinity; impute or drop those rows first")
    observed = np.asarray(part.columns.get("observed", np.zeros(0)), dtype=np.float64)
    if not np.isfinite(observed).all() or (observed < 0).any():
        raise ValueError("the observed distribution must be finite and not negative")
    occupied, ones = np.flatnonzero(observed), np.broadcast_to(1.0, len(X))
    features = OperatorMap([FeatureRows(np.ascontiguousarray(X.T))], len(X))
    return CellBlock(part.number, features, ones, occupied, observed[occupied], ones)


def _observed_mass(block: CellBlock) -> float:
    return float(block.share.sum())


def _ranges(block: CellBlock) -> tuple[Array, Array] | None:
    (part,) = block.features.parts
    assert isinstance(part, FeatureRows)
    if not part.rows.shape[1]:
        return None
    return part.rows.min(axis=1), part.rows.max(axis=1)
