"""Observed paths of chains, written out as rows of zeros and ones only where they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent import io
from maxent._support.checks import indices
from maxent.rows.arrays import Array, Ragged, Tied


@io.register
class TiedPaths(Tied):
    """The rows of ``Chain.encode(paths, tied=True)``, kept as states and made when asked for.

    T positions take 2 T bytes instead of `8 (T K + K^2)`. The arrays that ``own`` and ``tied``
    write are no part of the rows, so nothing may be written into them.

    Parameters
    ----------
    states : array (n_positions,)
        States of all paths, one path after another.
    lengths : array (n_paths,)
        Positions of each path.
    n_states : int
        Number of states K.

    Examples
    --------
    >>> TiedPaths(np.array([0, 1, 1]), np.array([2, 1]), 2).rows()
    [array([1., 0., 0., 1., 0., 1., 0., 0.]), array([0., 1., 0., 0., 0., 0.])]
    """

    n_states: int
    states: Array
    lengths: Array
    cuts: Array

    def __init__(self, states: Array, lengths: Array, n_states: int) -> None:
        indices("states", states, np.size(states), n_states)
        known = vars(self)  # Tied is frozen
        known["n_states"] = int(n_states)
        known["states"] = np.asarray(states).astype(np.int16 if n_states < 1 << 15 else np.int64)
        known["lengths"] = np.asarray(lengths, np.int64)
        known["cuts"] = np.concatenate([[0], np.cumsum(known["lengths"])])
        if self.cuts[-1] != self.states.size or self.lengths.min(initial=1) < 1:
            raise ValueError(
                f"the lengths add up to {self.cuts[-1]} positions, there are {self.states.size} "
                "states, and no path is empty"
            )

    def unary(self, first: int, last: int) -> Array:
        """What the positions from first to last are: (last - first, K), one 1 in each row."""
        marks = np.zeros((last - first, self.n_states))
        marks[np.arange(last - first), self.states[first:last]] = 1.0
        return marks

    @property
    def own(self) -> Ragged:
        """The states of each path, written out."""
        values = self.unary(0, self.states.size).reshape(-1)
        values.flags.writeable = False
        return Ragged(values, self.cuts * self.n_states)

    @property
    def tied(self) -> Array:
        """How often each path takes each transition, written out."""
        counts = np.zeros((len(self), self.n_states**2))
        row, transition = self._steps()
        np.add.at(counts, (row, transition), 1.0)
        counts.flags.writeable = False
        return counts

    def transitions(self, weights: Array) -> Array:
        """How often all paths together take each transition, each path with its weight."""
        row, transition = self._steps()
        return np.bincount(transition, weights[row], self.n_states**2)

    def _steps(self) -> tuple[Array, Array]:
        """The path and the transition of each step."""
        row = np.repeat(np.arange(len(self)), self.lengths)
        inside = row[1:] == row[:-1]
        transition = self.states[:-1].astype(np.int64) * self.n_states + self.states[1:]
        return row[1:][inside], transition[inside]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries as they are written."""
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return len(self.lengths)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc is np.maximum and method == "__call__" and not kwargs:
            one, other = inputs
            if one is self and np.ndim(other) == 0 and other == 0:
                return self  # no entry is negative
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __getmodel__(self) -> dict[str, Any]:
        return {"states": self.states, "lengths": self.lengths, "n_states": self.n_states}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        self.__init__(state["states"], state["lengths"], state["n_states"])  # type: ignore[misc]
