"""Sums over the plan of two clouds by compiled loops: what CPU tensors of few dimensions use."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

import torch
from maxent._support.threads import over_rows
from maxent.rows.arrays import Array
from maxent.structured.transport.kernels import points as kernels
from torch import Tensor

_CUT = -64.0  # exponents from here on are nothing beside sums of about 1, however many
_FIRST_ROOM = 64  # entries that a row gets room for before it is known how many there are


class Cloud:
    """Points in an order in which neighbours are near one another, in blocks with their boxes."""

    def __init__(self, x: Tensor) -> None:
        points = x.numpy()
        self.order = _near(points)
        self.points = np.ascontiguousarray(points[self.order])
        self.tiles = _tiles(self.points, 0.0)
        self.boxes = {size: _boxes(self.points, size) for size in (kernels.ROWS, kernels.COLUMNS)}

    def sorted(self, values: Tensor) -> Array:
        """Values of the points in the order of the cloud."""
        return np.ascontiguousarray(values.numpy()[self.order])


class Plan:
    """`E_ij = exp((f_i + g_j - |x_i - y_j|^2 / 2) / strength)`; each call brings f and g."""

    def __init__(self, x: Cloud, y: Cloud, strength: float) -> None:
        self.x, self.y, self.strength = x, y, strength

    def sums(self, f: Tensor, g: Tensor, values: Tensor) -> Tensor:
        """`sum_j E_ij v_jk` (n, k)."""
        level, height, place = self._prepared(f, g)
        tiles = _tiles(self.y.sorted(values), 0.0)
        found = np.empty((len(level), values.shape[1]))

        def work(begin: int, end: int) -> None:
            kernels.sums(*place, level, height, height.max(axis=1), tiles, _CUT, begin, end, found)

        over_rows(work, -(-len(level) // kernels.ROWS), kernels.ROWS * len(g))
        out = np.empty_like(found)
        out[self.x.order] = found
        return torch.from_numpy(out)

    def transposed(self) -> Plan:
        """The same with rows and columns exchanged."""
        return Plan(self.y, self.x, self.strength)

    def entries(self, f: Tensor, g: Tensor, cut: float, most: int) -> csr_matrix | None:
        """The entries above exp(cut); None where they are more than ``most``."""
        level, height, place = self._prepared(f, g)
        tops, lengths = height.max(axis=1), np.zeros(len(level), np.int64)
        parts: dict[int, tuple[Array, Array]] = {}
        taken: list[int] = []

        def work(begin: int, end: int) -> None:
            if sum(taken) > most:  # nor are those of other blocks needed
                parts.clear()
                return
            room = min(most, _FIRST_ROOM * kernels.ROWS * (end - begin))
            while True:
                index, value = np.empty(room, np.int32), np.empty(room)
                count = kernels.entries(
                    *place, level, height, tops, cut, begin, end, lengths, index, value
                )
                if count <= room or count > most:
                    taken.append(count)
                    parts[begin] = index[:count].copy(), value[:count].copy()
                    return
                room = count

        over_rows(work, -(-len(level) // kernels.ROWS), kernels.ROWS * len(g))
        if sum(taken) > most:
            return None
        found = [parts[begin] for begin in sorted(parts)]
        index = np.concatenate([part[0] for part in found])
        value = np.concatenate([part[1] for part in found])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shape = (len(level), len(self.y.order))
        matrix = csr_matrix((value, self.y.order[index], starts), shape=shape)
        back = np.empty_like(self.x.order)
        back[self.x.order] = np.arange(len(back))
        return matrix[back]

    def _prepared(self, f: Tensor, g: Tensor) -> tuple[Array, Array, tuple[Array, ...]]:
        scale = (0.5 / self.strength) ** 0.5
        rows, columns = self.x.boxes[kernels.ROWS], self.y.boxes[kernels.COLUMNS]
        place = (
            *(scale * part for part in (self.x.points, *rows)),
            *(scale * part for part in (self.y.tiles, *columns)),
        )
        height = _tiles(self.y.sorted(g)[:, None] / self.strength, -np.inf)[:, 0]
        return self.x.sorted(f) / self.strength, np.ascontiguousarray(height), place


def _near(points: Array) -> Array:
    """An order in which each block of rows, and of columns, is a part of a k-d tree."""
    order, leaf = np.arange(len(points)), kernels.ROWS
    stack = [(0, len(points))]
    while stack:
        begin, end = stack.pop()
        if end - begin <= leaf:
            continue
        part = points[order[begin:end]]
        widest = np.argmax(part.max(axis=0) - part.min(axis=0))
        half = max((end - begin) // 2 // leaf, 1) * leaf
        order[begin:end] = order[begin:end][np.argpartition(part[:, widest], half)]
        stack += [(begin, begin + half), (begin + half, end)]
    return order


def _boxes(points: Array, size: int) -> tuple[Array, Array]:
    starts = np.arange(0, len(points), size)
    return np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)


def _tiles(values: Array, fill: float) -> Array:
    """(m, k) as (tiles, k, columns of a tile)."""
    count = -(-len(values) // kernels.COLUMNS)
    room = np.full((count * kernels.COLUMNS, values.shape[1]), fill)
    room[: len(values)] = values
    return np.ascontiguousarray(room.reshape(count, kernels.COLUMNS, -1).transpose(0, 2, 1))
