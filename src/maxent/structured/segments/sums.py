"""Rows of segmentations whose scores are sums: nothing of size T K C is written.

A row is a ``Tied``: T 3 C scores [t, part, label] of its own, where the parts are every position of
a segment, its first and its last one, and a block of K C scores [length - 1, label] and C^2 scores
[from, to]. A point holds probabilities of the first and expected counts of the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent._support.threads import over_rows
from maxent.rows.arrays import Array, Ragged, Tied

_TOGETHER = 256  # rows that are padded to one length at a time
PARTS = 3


@dataclass(frozen=True)
class Sums:
    """Programmes on tied rows of C labels and segments of up to K positions."""

    labels: int
    longest: int

    def lengths(self, rows: Tied) -> Array:
        """Positions of each row."""
        sizes, width = np.diff(rows.own.offsets), PARTS * self.labels
        block = self.labels * (self.longest + self.labels)
        if (sizes % width).any() or (sizes == 0).any() or rows.tied.shape[1] != block:
            raise ValueError(
                f"tied rows of {self.labels} labels and segments of up to {self.longest} positions "
                f"hold T {width} entries of their own and {block} tied ones, got {sizes[:3]} and "
                f"{rows.tied.shape[1]}"
            )
        return sizes // width

    def room(self, rows: Tied, dtype: Any = None) -> Tied:
        """Points of the rows' sizes, unwritten; a block for each."""
        dtype = rows.dtype if dtype is None else dtype
        own = Ragged(np.empty(rows.own.values.size, dtype), rows.own.offsets)
        return Tied(own, np.empty((len(rows), rows.tied.shape[1]), dtype))

    def softmax(self, theta: Tied) -> tuple[Array, Tied]:
        """Log-partitions and marginals."""
        from maxent.structured.segments.kernels.segments import softmax_rows

        value, out = np.empty(len(theta)), self.room(theta)

        def work(start: int, stop: int) -> None:
            scores, lengths = self._padded(theta, start, stop)
            means = [np.zeros(x.shape) for x in scores]
            softmax_rows(*scores, lengths, value[start:stop], *means, 0, stop - start)
            _refuse(value[start:stop], start)
            self._write(means, lengths, out, start, inside=True)

        self._over_rows(work, theta)
        return value, out

    def covariance(self, theta: Tied, v: Tied) -> Tied:
        """The derivative of the marginals along v."""
        from maxent.structured.segments.kernels.segments import covariance_rows

        out = self.room(theta, np.float64)

        def work(start: int, stop: int) -> None:
            scores, lengths = self._padded(theta, start, stop)
            along, _ = self._padded(v, start, stop)
            slopes = [np.zeros(x.shape) for x in scores]
            covariance_rows(*scores, lengths, *along, *slopes, 0, stop - start)
            self._write(slopes, lengths, out, start, inside=False)

        self._over_rows(work, theta)
        return out.astype(theta.dtype, copy=False)

    def argmax(self, theta: Tied) -> Tied:
        """The best segmentations as points."""
        from maxent.structured.segments.kernels.segments import viterbi_rows

        value, out = np.empty(len(theta)), self.room(theta)

        def work(start: int, stop: int) -> None:
            scores, lengths = self._padded(theta, start, stop)
            label = np.zeros((stop - start, lengths.max()), np.int64)
            first = np.zeros(label.shape, bool)
            viterbi_rows(*scores, lengths, value[start:stop], label, first, 0, stop - start)
            _refuse(value[start:stop], start)
            self.mark(label, first, lengths, out, start)

        self._over_rows(work, theta)
        return out

    def sample(self, theta: Tied, n: int, rng: np.random.Generator) -> list[Tied]:
        """n batches of drawn segmentations."""
        from maxent.structured.segments.kernels.segments import sample_rows

        value, batches = np.empty(len(theta)), [self.room(theta) for _ in range(n)]
        for start in range(0, len(theta), _TOGETHER):
            stop = min(start + _TOGETHER, len(theta))
            scores, lengths = self._padded(theta, start, stop)
            label = np.zeros((n, stop - start, lengths.max()), np.int64)
            first = np.zeros(label.shape, bool)
            uniform = rng.random((*label.shape, 2))
            found = value[start:stop], label, first
            sample_rows(*scores, lengths, uniform, *found, 0, stop - start)
            _refuse(value[start:stop], start)
            for batch, each_label, each_first in zip(batches, label, first, strict=True):
                self.mark(each_label, each_first, lengths, batch, start)
        return batches

    def mark(self, label: Array, first: Array, lengths: Array, out: Tied, start: int) -> None:
        """Write segmentations, labels and beginnings (rows, positions), as points."""
        inside = np.arange(label.shape[1]) < lengths[:, None]
        row, t = np.nonzero(inside)
        own, c = self._own(out, start, start + len(lengths)), label[inside]
        ends = np.append(first[:, 1:], np.ones((len(first), 1), bool), 1)
        ends[np.arange(len(lengths)), lengths - 1] = True
        own[:] = 0
        place = np.arange(c.size)
        for part, there in enumerate((np.ones(c.size, bool), first[inside], ends[inside])):
            own[place[there], part, c[there]] = 1
        begins, closes = np.flatnonzero(first[inside]), np.flatnonzero(ends[inside])
        block = out.tied[start : start + len(lengths)]
        block[:] = 0
        np.add.at(block, (row[begins], (closes - begins) * self.labels + c[begins]), 1)
        later = begins[t[begins] > 0]
        changes = self.longest * self.labels + c[later - 1] * self.labels + c[later]
        np.add.at(block, (row[later], changes), 1)

    def violation(self, p: Tied) -> Array:
        """By how much each row misses the equations between its sums, at the worst."""
        found = []
        k, c = self.longest, self.labels
        for own, block, length in zip(p.own.rows(), p.tied, self.lengths(p), strict=True):
            own, block = own.astype(np.float64).reshape(length, PARTS, c), block.astype(np.float64)
            inside, begins, ends = own.transpose(1, 0, 2)
            durations, changes = block[: k * c].reshape(k, c), block[k * c :].reshape(c, c)
            flow = inside - np.concatenate([np.zeros((1, c)), (inside - ends)[:-1]]) - begins
            apart = [
                np.abs(inside.sum(axis=1) - 1),
                np.abs(flow),
                np.abs(inside - ends)[-1],
                np.abs(durations.sum(axis=0) - begins.sum(axis=0)),
                np.abs(np.arange(1, k + 1) @ durations - inside.sum(axis=0)),
                np.abs(changes.sum(axis=0) - begins[1:].sum(axis=0)),
                np.abs(changes.sum(axis=1) - ends[:-1].sum(axis=0)),
                -own,
                -block,
            ]
            found.append(max(float(x.max()) for x in apart))
        return np.array(found)

    def _own(self, rows: Tied, start: int, stop: int) -> Array:
        """View (positions of the rows, part, label) of what rows have of their own."""
        cut = slice(rows.own.offsets[start], rows.own.offsets[stop])
        return rows.own.values[cut].reshape(-1, PARTS, self.labels)

    def _over_rows(self, work: Any, theta: Tied) -> None:
        lengths = self.lengths(theta)

        def some(start: int, stop: int) -> None:
            for first in range(start, stop, _TOGETHER):
                work(first, min(first + _TOGETHER, stop))

        steps = self.labels * (self.longest + self.labels)
        over_rows(some, len(lengths), int(lengths.mean() * steps) if lengths.size else 0)

    def _padded(self, rows: Tied, start: int, stop: int) -> tuple[list[Array], Array]:
        """What the kernels read, padded to the longest row, and the lengths."""
        lengths, c = self.lengths(rows)[start:stop], self.labels
        parts = np.zeros((stop - start, lengths.max(), PARTS, c))
        parts[np.arange(lengths.max()) < lengths[:, None]] = self._own(rows, start, stop)
        inside, begins, ends = np.moveaxis(parts, 2, 0)
        if not np.isfinite(inside).all():
            raise ValueError(
                "scores of the positions inside segments are sums, so they must be finite; forbid "
                "where segments begin and end, by durations and by changes"
            )
        sums = np.zeros((stop - start, lengths.max() + 1, c))
        np.cumsum(inside, axis=1, out=sums[:, 1:])
        shared = np.broadcast_to(rows.tied, (len(rows), rows.tied.shape[1]))[start:stop]
        shared = shared.astype(np.float64)
        durations = shared[:, : self.longest * c].reshape(-1, self.longest, c)
        scores = [begins - sums[:, :-1], ends + sums[:, 1:], durations[:, ::-1]]
        turned = [np.ascontiguousarray(x.transpose(0, 2, 1)) for x in scores]
        changes = np.ascontiguousarray(shared[:, self.longest * c :].reshape(-1, c, c))
        return [*turned, changes], lengths

    def _write(
        self, found: list[Array], lengths: Array, out: Tied, start: int, inside: bool
    ) -> None:
        """Write what kernels have found as points; ``inside`` keeps it within its range."""
        begins, ends, reverse, changes = found
        begins, ends = begins.transpose(0, 2, 1), ends.transpose(0, 2, 1)
        content = np.cumsum(begins, axis=1) - np.cumsum(ends, axis=1) + ends
        if inside:
            content = np.clip(content, 0.0, 1.0)
        there = np.arange(begins.shape[1]) < lengths[:, None]
        own = self._own(out, start, start + len(lengths))
        for part, x in enumerate((content, begins, ends)):
            own[:, part] = x[there]
        durations = reverse[:, :, ::-1].transpose(0, 2, 1)
        if inside:
            most = lengths[:, None] // np.arange(1, self.longest + 1)
            durations = np.minimum(durations, most[:, :, None])
            changes = np.minimum(changes, (lengths - 1)[:, None, None])
        cut = self.longest * self.labels
        block = out.tied[start : start + len(lengths)]
        block[:, :cut] = durations.reshape(len(lengths), -1)
        block[:, cut:] = changes.reshape(len(lengths), -1)


def _refuse(value: Array, first: int) -> None:
    none = np.flatnonzero(value == -np.inf)
    if none.size:
        raise ValueError(
            f"row {first + none[0]} has no segmentation: scores of -inf forbid every one of "
            "them; leave at least one finite"
        )
