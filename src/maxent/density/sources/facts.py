"""SourceFacts: what a problem of several sources needs to know of the rows of one of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from maxent.density.sources.source import Source, check_contrast, one_sided


class Effort(NamedTuple):
    """Number, mean, variance and range of an effort column."""

    n_rows: int
    mean: float
    variance: float
    low: float
    high: float

    def merge(self, other: Effort) -> Effort:
        """Of the rows of both."""
        total = self.n_rows + other.n_rows
        share, apart = other.n_rows / total, other.mean - self.mean
        within = (1 - share) * self.variance + share * other.variance
        return Effort(
            total,
            self.mean + share * apart,
            within + share * (1 - share) * apart**2,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def is_constant(self) -> bool:
        """Whether it has one value."""
        return not self.high > self.low

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)


class SourceFacts(NamedTuple):
    """Sums over the rows of a source, or of a part of it.

    ``finds`` is the sum of y and ``largest`` the most of it, ``searched`` that of area times
    visits, ``n_empty`` and ``n_full`` count the rows without finds and those with one at every
    visit, ``low`` and ``high`` are the least and the largest area.
    """

    n_rows: int
    n_records: float
    n_empty: int
    n_full: int
    finds: float
    largest: float
    searched: float
    low: float
    high: float
    efforts: dict[str, Effort]

    @classmethod
    def of(cls, source: Source) -> SourceFacts:
        """Of the rows of a source."""
        y, area = source.y, source.area
        return cls(
            source.n_rows,
            source.n_records,
            int((y == 0).sum()),
            int((y == source.visits).sum()),
            float(y.sum()),
            float(y.max()),
            float((area * source.visits).sum()),
            float(area.min()),
            float(area.max()),
            {
                name: Effort(
                    x.size, float(x.mean()), float(x.var()), float(x.min()), float(x.max())
                )
                for name, x in source.effort.items()
            },
        )

    def merge(self, other: SourceFacts) -> SourceFacts:
        """Of the rows of both."""
        return SourceFacts(
            self.n_rows + other.n_rows,
            self.n_records + other.n_records,
            self.n_empty + other.n_empty,
            self.n_full + other.n_full,
            self.finds + other.finds,
            max(self.largest, other.largest),
            self.searched + other.searched,
            min(self.low, other.low),
            max(self.high, other.high),
            {name: x.merge(other.efforts[name]) for name, x in self.efforts.items()},
        )

    @property
    def rate(self) -> float:
        """Finds per area, roughly: where the scale starts."""
        return (self.finds + 0.5) / self.searched

    def one_sided(self, kind: str) -> str | None:
        """What a survey or counts found everywhere, where they tell nothing of the scale."""
        return one_sided(kind, not self.finds, self.n_full == self.n_rows)

    def check(self, source: Source) -> None:
        """Refuse presences without any, or without background."""
        if source.kind == "presences":
            check_contrast(f"source {source.name!r}", self.finds > 0, self.n_empty > 0)


def checked(sources: Sequence[Source]) -> list[Source]:
    """One or more sources with different names."""
    given: list[Source] = [sources] if isinstance(sources, Source) else list(sources)
    wrong = [s for s in given if not isinstance(s, Source)]
    if wrong or not given:
        raise TypeError(f"expected a list of Source, got {sources!r:.60}")
    names = [source.name for source in given]
    if len(set(names)) < len(names):
        raise ValueError(f"sources need different names, got {', '.join(names)}: give name=")
    return given


def telling(sources: Sequence[Source], facts: Sequence[SourceFacts]) -> list[int]:
    """Which of the sources tell something; warnings of what does not."""
    sides = [known.one_sided(s.kind) for s, known in zip(sources, facts, strict=True)]
    others = [
        s for s, side in zip(sources, sides, strict=True) if s.kind != "presences" and side is None
    ]
    told = []
    for k, (source, known, side) in enumerate(zip(sources, facts, sides, strict=True)):
        constant = [name for name, effort in known.efforts.items() if effort.is_constant]
        if constant:
            same = (
                "an effort that is the same everywhere changes nothing"
                if source.kind == "presences"
                else "that is a scale of its own: own_scale=True"
            )
            warnings.warn(
                f"source {source.name!r}: effort {', '.join(constant)} is constant and left out; "
                f"{same}",
                stacklevel=3,
            )
        if side is None or not (source.own_scale or not others):
            told.append(k)
        elif any(s.kind == "presences" for s in sources) or others:
            warnings.warn(
                f"source {source.name!r} found {side}, so the best scale of it is "
                f"{'0' if 'nothing' in side else 'infinite'} whatever the map: it "
                "is left out, and tells no scale",
                stacklevel=3,
            )
        else:
            raise ValueError(
                f"source {source.name!r} found {side}, and no other source tells where "
                "the species is and where it is not: nothing can be fitted"
            )
    return told
