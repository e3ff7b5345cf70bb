"""How large a visit was: the column of areas or of effort, and its unit.

>>> size_column(["plot", "area_ha"])
SizeColumn(position=1, unit='km2', factor=0.01, known=True)
>>> size_column(["site", "Duration (min)"])
SizeColumn(position=1, unit='hours', factor=0.016666666666666666, known=True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxent.species.input.records.columns import bare, recognised

KM2 = "km2"
AREA_UNITS = {"km2": 1.0, "ha": 1e-2, "m2": 1e-6}  # in km2
_AREA_WORDS = {
    **dict.fromkeys(("km2", "km²", "sqkm", "squarekm", "squarekilometre", "squarekilometer"), 1.0),
    **dict.fromkeys(("squarekilometres", "squarekilometers"), 1.0),
    **dict.fromkeys(("ha", "hectare", "hectares"), 1e-2),
    **dict.fromkeys(("m2", "m²", "sqm", "squarem", "squaremetre", "squaremeter"), 1e-6),
    **dict.fromkeys(("squaremetres", "squaremeters"), 1e-6),
}
_EFFORT_WORDS: dict[str, tuple[str, float]] = {  # and what they are in the unit
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), ("hours", 1.0)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), ("hours", 1 / 60)),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometers"), ("km", 1.0)),
    **dict.fromkeys(("m", "metre", "metres", "meters"), ("km", 1e-3)),
    **dict.fromkeys(("night", "nights", "trapnights", "netnights"), ("nights", 1.0)),
    **dict.fromkeys(("day", "days", "trapdays", "cameradays"), ("days", 1.0)),
}
_OF = "(?:plot|site|survey|surveyed|sampled|sampling|searched|search|transect|quadrat|sample)?"
_AREA = re.compile(rf"{_OF}(?:area|size)(?:in)?({'|'.join(_AREA_WORDS)})?")
_EFFORT = re.compile(
    rf"{_OF}(?:effort|duration|time|length|distance)(?:in)?({'|'.join(_EFFORT_WORDS)})?"
)
_BARE_EFFORT = tuple(word for word in _EFFORT_WORDS if len(word) > 3)
_VALUE, _UNIT = ("samplesizevalue",), ("samplesizeunit",)  # of Darwin Core


class SizeColumn(NamedTuple):
    """Where sizes stand, their unit (that they have after ``factor``), and whether it is known.

    Of Darwin Core's sampleSizeValue the unit stands in a column of its own, ``unit`` is "" then.
    """

    position: int
    unit: str
    factor: float = 1.0
    known: bool = True


def size_column(header: Sequence[str]) -> SizeColumn | None:
    """The column of areas, else that of effort, by its name."""
    return next(size_columns(header), None)


def size_columns(header: Sequence[str]) -> Iterator[SizeColumn]:
    """All columns that could be it, the likeliest first."""
    value = recognised(header, _VALUE)
    if value is not None and recognised(header, _UNIT) is not None:
        yield SizeColumn(value, "")
    for understood in (_as_area, _as_effort):
        for position, name in enumerate(header):
            found = understood(position, name)
            if found is not None:
                yield found


def named_size(header: Sequence[str], position: int) -> SizeColumn:
    """What a column that was named holds."""
    name = header[position]
    found = _as_area(position, name) or _as_effort(position, name)
    if found is None and bare(name) in _VALUE and recognised(header, _UNIT) is not None:
        found = SizeColumn(position, "")
    return found or SizeColumn(position, name, 1.0, known=False)


def unit_column(header: Sequence[str]) -> int | None:
    """Darwin Core's sampleSizeUnit."""
    return recognised(header, _UNIT)


def unit_in_words(text: str) -> tuple[str, float] | None:
    """A unit that is written out, and its factor; None where it is none that is known.

    >>> unit_in_words("square metre"), unit_in_words("hours"), unit_in_words("dozen")
    (('km2', 1e-06), ('hours', 1.0), None)
    """
    word = bare(text)
    if word in _AREA_WORDS:
        return KM2, _AREA_WORDS[word]
    return _EFFORT_WORDS.get(word)


def _as_area(position: int, name: str) -> SizeColumn | None:
    found = _AREA.fullmatch(bare(name))
    if found is None:
        return None
    if found[1] is None:
        return SizeColumn(position, name, 1.0, known=False)
    return SizeColumn(position, KM2, _AREA_WORDS[found[1]])


def _as_effort(position: int, name: str) -> SizeColumn | None:
    word = bare(name)
    if word in _BARE_EFFORT:
        return SizeColumn(position, *_EFFORT_WORDS[word])
    found = _EFFORT.fullmatch(word)
    if found is None:
        return None
    if found[1] is None:
        return SizeColumn(position, name, 1.0, known=False)
    return SizeColumn(position, *_EFFORT_WORDS[found[1]])
