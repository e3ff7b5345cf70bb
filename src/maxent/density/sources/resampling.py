"""Resampled sources: records and rows, or whole blocks of them, drawn with replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from maxent.density.sources.source import Source
from maxent.rows.arrays import Array

_TRIES = 1000  # draws that tell nothing before giving up


@dataclass(frozen=True, eq=False)
class Draw:
    """How sources are drawn anew: ``blocks`` has the block of each row, None for single rows."""

    sources: tuple[Source, ...]
    blocks: tuple[Array, ...] | None
    n_blocks: int

    @classmethod
    def of(cls, sources: Sequence[Source], blocks: Sequence[Array] | None = None) -> Draw:
        """From the block of each row of each source, by numbers that all share."""
        if blocks is None:
            return cls(tuple(sources), None, 0)
        given = [np.asarray(block) for block in blocks]
        for source, block in zip(sources, given, strict=True):
            if block.shape != (source.n_rows,):
                raise ValueError(
                    f"source {source.name!r}: blocks needs one number per row, shape "
                    f"({source.n_rows},), got {block.shape}"
                )
        rows = [
            (block[source.y > 0] if source.kind == "presences" else block)
            for source, block in zip(sources, given, strict=True)
        ]
        known = np.unique(np.concatenate(rows))  # those with records or visits
        if known.size < 2:
            raise ValueError(
                "all records lie in one block, so no blocks of them can be drawn: make the blocks "
                "smaller"
            )
        numbers = []
        for block in given:
            place = np.minimum(np.searchsorted(known, block), known.size - 1)
            numbers.append(np.where(known[place] == block, place, known.size))
        return cls(tuple(sources), tuple(numbers), int(known.size))

    def drawn(self, rng: np.random.Generator) -> list[tuple[Source, Array]]:
        """Each source drawn anew, with the rows it was drawn from."""
        for _ in range(_TRIES):
            made = self._once(rng)
            if all(
                bool(new.any()) if source.kind == "presences" else _tells(source, rows)
                for source, (new, rows) in zip(self.sources, made, strict=True)
            ):
                return [
                    (
                        replace(source, y=new) if source.kind == "presences" else source.take(rows),
                        rows,
                    )
                    for source, (new, rows) in zip(self.sources, made, strict=True)
                ]
        raise ValueError(
            f"{_TRIES} draws in turn found nothing, or the species everywhere, in some source: it "
            "has too few records for a bootstrap; take intervals by laplace"
        )

    def _once(self, rng: np.random.Generator) -> list[tuple[Array, Array]]:
        """Counts of presences, and rows of the others."""
        if self.blocks is not None:
            times = rng.multinomial(self.n_blocks, np.full(self.n_blocks, 1 / self.n_blocks))
            times = np.append(times, 0)
            return [
                (s.y * times[b], np.arange(s.n_rows))
                if s.kind == "presences"
                else (s.y, np.repeat(np.arange(s.n_rows), times[b]))
                for s, b in zip(self.sources, self.blocks, strict=True)
            ]
        made = []
        for source in self.sources:
            total = source.y.sum()
            if source.kind == "presences":
                drawn = rng.multinomial(int(total), source.y / total).astype(np.float64)
                made.append((drawn, np.arange(source.n_rows)))
            else:
                made.append((source.y, np.sort(rng.integers(source.n_rows, size=source.n_rows))))
        return made


def _tells(source: Source, rows: Array) -> bool:
    """Whether these rows tell a scale, as far as all of them do."""
    return source.one_sided is not None or (rows.size > 0 and source.take(rows).one_sided is None)
