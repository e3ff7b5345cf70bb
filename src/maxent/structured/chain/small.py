"""Recursions over all sequences of a small batch at once, position by position, in plain numpy.

Kernels take seconds to compile, more than a small fit takes by itself. Sequences are packed: the
first positions of all of them, the longest sequence first, then the second positions of those that
have one, and so on, so that no entry is wasted on padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxent._support.compiling import switches
from maxent.rows.arrays import Array

FEW = 100_000  # scores up to which kernels gain less than compiling them costs
_LONG = 500  # positions from which on a loop over them takes Python too long
_TINY = 1e-100  # a scaled pass is trusted while no scale falls below it, see ``kernels.marginals``


def few(lengths: Array, size: int) -> bool:
    """Whether plain numpy serves sequences with ``size`` scores for each position."""
    small = lengths.sum() * size <= FEW and lengths.max(initial=0) <= _LONG
    return bool(small) and switches.spare_small_problems


@dataclass(frozen=True, eq=False)
class Marginals:
    """Of packed sequences, one row for each position.

    value : the log-partition of each sequence, -inf where it has no path. mean : of the states.
    before, onward, weight : the probability of state i and then j is before[i] weight[i, j]
        onward[j], with the exponentials of the block that leads here.
    far, joint : places where that product is 0, because scores are too far apart for it, and the
        probabilities there, (places, from, to).
    """

    value: Array
    mean: Array
    before: Array
    onward: Array
    weight: Array
    far: Array
    joint: Array


@dataclass(frozen=True, eq=False)
class Packed:
    """Where the positions of sequences lie, packed.

    token[i] is the position, counted over all sequences, that comes i-th, sequence[i] its
    sequence's number in ``row``, which holds the sequences, the longest first. Positions of
    number t in their sequence lie at start[t] to start[t + 1].

    >>> Packed.from_lengths(np.array([1, 3])).token
    array([1, 0, 2, 3])
    """

    row: Array
    sequence: Array
    token: Array
    start: Array

    @classmethod
    def from_lengths(cls, lengths: Array) -> Packed:
        """Of sequences of these lengths, one after another."""
        row = np.argsort(-lengths, kind="stable")
        rank = np.empty_like(row)
        rank[row] = np.arange(row.size)
        sequence, first = np.repeat(rank, lengths), np.cumsum(lengths) - lengths
        number = np.arange(sequence.size) - np.repeat(first, lengths)
        token = np.lexsort((sequence, number))
        start = np.concatenate([[0], np.cumsum(np.bincount(number))])
        return cls(row, sequence[token], token, start)

    @cached_property
    def _steps(self) -> list[tuple[slice, slice]]:
        """Positions of number t = 1, 2, ..., and the same sequences at t - 1."""
        ends = self.start[1:-1], self.start[2:], self.start[:-2]
        return [(slice(a, b), slice(c, c + b - a)) for a, b, c in zip(*ends, strict=True)]

    def marginals(self, unary: Array, blocks: Array, which: Array) -> Marginals:
        """From scores (places, states) and (blocks, from, to); block which[i] leads to place i."""
        top = unary.max(axis=1).astype(np.float64)
        highest = blocks.max(axis=(1, 2)).astype(np.float64)
        with np.errstate(all="ignore"):  # what is not finite is found below
            node = np.exp(unary - top[:, None])
            weight = np.exp(blocks - highest[:, None, None])
            forward, mass = node.copy(), np.empty(len(node))
            first = slice(0, self.row.size)
            mass[first] = forward[first].sum(axis=1)
            forward[first] /= mass[first, None]
            for here, last in self._steps:
                forward[here] *= _product(forward[last], weight, which[here])
                mass[here] = forward[here].sum(axis=1)
                forward[here] /= mass[here, None]
            back, onward, before = np.ones_like(node), np.zeros_like(node), np.zeros_like(node)
            turned = weight.transpose(0, 2, 1)
            for here, last in reversed(self._steps):
                onward[here] = node[here] * back[here] / mass[here, None]
                before[here] = forward[last]
                back[last] = _product(onward[here], turned, which[here])
            far = ~(mass >= _TINY) | ~(back.max(axis=1) <= 1 / _TINY)
            terms = top + np.log(mass)
            terms[self.row.size :] += highest[which[self.row.size :]]
            value = np.bincount(self.sequence, terms, self.row.size)
            mean = np.minimum(forward * back, 1.0)
        unsound = np.bincount(self.sequence, far, self.row.size) > 0
        for entries in (before, onward):
            entries[unsound[self.sequence]] = 0.0
        places = np.flatnonzero(unsound[self.sequence])
        joint = np.empty((0, *weight.shape[1:]))
        if places.size:
            scores = unary[places], blocks[which[places]]
            value[unsound], mean[places], joint = self._take(unsound)._by_logs(*scores)
        return Marginals(value, mean, before, onward, weight, places, joint)

    def _take(self, chosen: Array) -> Packed:
        """Some of the sequences."""
        number = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        mine = chosen[self.sequence]
        start = np.concatenate([[0], np.cumsum(np.bincount(number[mine]))])
        sequence = (np.cumsum(chosen) - 1)[self.sequence[mine]]
        return Packed(self.row[chosen], sequence, self.token[mine], start)

    def _by_logs(self, unary: Array, blocks: Array) -> tuple[Array, Array, Array]:
        """Log-partitions and marginals in logarithms, for any range of scores.

        Marginals are products of the probabilities P(state i at t - 1 | state j at t), so that
        nothing cancels.
        """
        forward, joint = unary.astype(np.float64), np.zeros(blocks.shape)
        for here, last in self._steps:
            reach, joint[here] = _normalised(forward[last, :, None] + blocks[here])
            forward[here] += reach[:, 0]
        total, mean = _normalised(forward)
        for here, last in reversed(self._steps):
            joint[here] *= mean[here, None, :]
            mean[last] = np.minimum(joint[here].sum(axis=2), 1.0)
        ends = np.zeros(self.row.size, np.int64)
        np.maximum.at(ends, self.sequence, np.arange(self.sequence.size))
        return total[ends, 0], mean, joint


def _normalised(logs: Array) -> tuple[Array, Array]:
    """log sum exp over the second axis, which is kept, and the shares; 0 where there are none."""
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - np.where(top > -np.inf, top, 0.0))
    mass = share.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return top + np.log(mass), share / np.where(mass > 0, mass, 1.0)


def _product(x: Array, weight: Array, which: Array) -> Array:
    """Row i of x times the matrix which[i]."""
    if len(weight) == 1:
        return x @ weight[0]
    return np.matmul(x[:, None, :], weight[which])[:, 0]
