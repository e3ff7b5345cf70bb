"""Which records of a file are used: presences, by their basis, certain enough of their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.layers.geodesy import cell_metres
from maxent.species.input.layers.grid import Grid
from maxent.species.input.records.columns import (
    ABSENT,
    NO_COLUMN,
    PRESENCE_OPTION,
    PRESENT,
    bare,
    listed,
)
from maxent.species.input.records.text_table import MISSING, is_number

PRESENCE, ABSENCE, UNKNOWN = 1, 0, -1
LEFT_OUT = "records left out"  # in every note on records that are not read
# how the note on absences ends
OFFERED = "; `maxent evaluate` compares with them, and `maxent fit --kind survey` fits them too"


def statuses(values: Sequence[str], column: str, where: str) -> Array:
    """PRESENCE, ABSENCE or UNKNOWN of each entry of a column.

    A count above 0 is a presence. A blank entry is unknown among numbers; among words, as GBIF
    writes them, it is a presence.
    """
    entries = [value.strip().casefold() for value in values]
    codes = {entry: _status(entry) for entry in set(entries) - MISSING}
    wrong = [entry for entry, code in codes.items() if code is None]
    if wrong:
        raise ValueError(
            f"{where}: {column!r} is {wrong[0]!r}, expected presence or absence, as 1 and 0 or in "
            f"words; name the column with {PRESENCE_OPTION}, {NO_COLUMN!r} for no such column"
        )
    blank = UNKNOWN if all(map(is_number, codes)) else PRESENCE
    return np.array([codes.get(entry, blank) for entry in entries], dtype=np.int64)


def _status(entry: str) -> int | None:
    if entry in PRESENT or entry in ABSENT:
        return PRESENCE if entry in PRESENT else ABSENCE
    if is_number(entry) and float(entry) >= 0:
        return PRESENCE if float(entry) > 0 else ABSENCE
    return None


def zero_counts(values: Sequence[str], column: str, source: str) -> tuple[Array, tuple[str, ...]]:
    """ABSENCE where a column of individuals says 0, PRESENCE elsewhere; and what to say of it."""
    zero = np.array([is_number(v.strip()) and float(v) == 0 for v in values])
    status = np.where(zero, ABSENCE, PRESENCE)
    if not zero.any():
        return status, ()
    if zero.all():
        raise ValueError(
            f"{source}: none of {len(zero)} records is a presence, as column {column!r} is 0; give "
            f"records of presence, or {NO_COLUMN!r} for no such column with {PRESENCE_OPTION}"
        )
    return status, (
        f"{source}: {int(zero.sum())} of {len(zero)} {LEFT_OUT}, as column {column!r} counts 0 "
        f"there; `maxent fit --kind counts` fits them too, and {NO_COLUMN!r} with "
        f"{PRESENCE_OPTION} takes all as presences",
    )


def status_notes(status: Array, column: str, source: str) -> tuple[str, ...]:
    """What to say of records that are no presences; refuses a file without any presence."""
    absent, unknown = int((status == ABSENCE).sum()), int((status == UNKNOWN).sum())
    if absent + unknown == len(status):
        raise ValueError(
            f"{source}: none of {len(status)} records is a presence, by column {column!r}; give "
            f"records of presence, or another column with {PRESENCE_OPTION}"
        )
    notes = []
    if absent:
        notes.append(
            f"{source}: {absent} of {len(status)} {LEFT_OUT} as absences, by column "
            f"{column!r}{OFFERED}"
        )
    if unknown:
        notes.append(f"{source}: {unknown} of {len(status)} {LEFT_OUT}, column {column!r} is blank")
    return tuple(notes)


def marked_absences(status: Array, column: str, source: str) -> tuple[Array, tuple[str, ...]]:
    """The absences of a file of absences as what is asked for, and what to say of the others."""
    absent = status == ABSENCE
    if not absent.any():
        return np.full(len(status), PRESENCE), (
            f"{source}: column {column!r} marks no absence, so all records are taken as absences",
        )
    others = int((~absent).sum())
    left = (f"{source}: {others} of {len(status)} {LEFT_OUT}, no absences by column "
            f"{column!r}",) if others else ()  # fmt: skip
    return np.where(absent, PRESENCE, UNKNOWN), left


def of_basis(
    values: Sequence[str] | None, wanted: Sequence[str], source: str, asked: Array
) -> tuple[Array | None, tuple[str, ...]]:
    """Which records have one of these bases of record (None: all), and what to say of those asked.

    ``asked`` are the presences (or absences) that are read: others are not counted.
    """
    if values is None:
        if wanted:
            raise ValueError(f"{source}: no column basisOfRecord, which basis= (--basis) asks for")
        return None, ()
    entries = [value.strip() or "blank" for value in values]
    found = Counter(entry for entry, one in zip(entries, asked, strict=True) if one)
    shown = ", ".join(f"{count} {name}" for name, count in found.most_common())
    if not wanted:
        if len(found) < 2:
            return None, ()
        return None, (f"{source}: bases of record: {shown}; choose with basis= (--basis)",)
    lacking = [name for name in wanted if bare(name) not in {bare(other) for other in found}]
    if lacking:
        raise ValueError(
            f"{source}: no record of basis {lacking[0]!r} (--basis); it has {listed(list(found))}"
        )
    chosen = {bare(name) for name in wanted}
    kept = np.array([bare(entry) in chosen for entry in entries])
    return kept, (
        f"{source}: {int((asked & ~kept).sum())} of {int(asked.sum())} {LEFT_OUT} by their "
        f"basis (of all: {shown})",
    )


def certain(
    uncertainty: Array | None, limit: float | None, source: str, asked: Array
) -> tuple[Array | None, tuple[str, ...]]:
    """Which records are not known to be off by more than ``limit`` metres (None: all).

    Those asked for are counted, as by :func:`of_basis`.
    """
    if limit is None:
        return None, ()
    if uncertainty is None:
        raise ValueError(
            f"{source}: no column coordinateUncertaintyInMeters, which max_uncertainty= "
            "(--max-uncertainty) asks for"
        )
    kept = ~(uncertainty > limit)
    unsaid = int((asked & np.isnan(uncertainty)).sum())
    return kept, (
        f"{source}: {int((asked & ~kept).sum())} of {int(asked.sum())} {LEFT_OUT}, uncertain "
        f"by more than {limit:g} m; {unsaid} do not say how certain they are and stay",
    )


def uncertainty_hint(uncertainty: Array | None, grid: Grid, source: str) -> tuple[str, ...]:
    """How many records may lie in another cell."""
    metres = cell_metres(grid)
    if uncertainty is None or metres is None:
        return ()
    loose = int((uncertainty > metres).sum())
    if not loose:
        return ()
    return (
        f"{source}: the places of {loose} of {len(uncertainty)} records are uncertain by more than "
        f"a cell ({metres:.0f} m); leave them out with max_uncertainty= (--max-uncertainty "
        f"{metres:.0f})",
    )
