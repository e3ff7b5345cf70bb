"""Groups of species that are fitted together: who belongs to which, and the places of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maxent.species.input.records.columns import listed
from maxent.species.input.records.occurrences import Occurrences
from maxent.species.study.samples import Region


def groups_of(
    records: Occurrences, grouped: Occurrences | None, column: str | None, names: Sequence[str]
) -> dict[str, str]:
    """The group of each species, "" for all without a column.

    Parameters
    ----------
    records : Occurrences
        The records.
    grouped : Occurrences or None
        The same with their groups in place of the species; None for one group of all.
    column : str or None
        The column that names the group of each record.
    names : sequence of str
        The species that are fitted, each of which needs one group.
    """
    if grouped is None:
        return dict.fromkeys(records.names(), "")
    by_row = dict(zip(grouped.row.tolist(), grouped.species.tolist(), strict=True))
    found: dict[str, set[str]] = {name: set() for name in records.names()}
    for name, row in zip(records.species.tolist(), records.row.tolist(), strict=True):
        if row in by_row:
            found[name].add(by_row[row])
    lost = [name for name in names if not found[name]]
    if lost:
        raise ValueError(
            f"{records.source}: no entry of {column!r} (--group-column) for {listed(lost, 5)}; "
            "every species needs a group"
        )
    torn = [name for name in names if len(found[name]) > 1]
    if torn:
        raise ValueError(
            f"{records.source}: {torn[0]} is in several groups by {column!r} (--group-column): "
            f"{listed(sorted(found[torn[0]]), 5)}; a species needs one group"
        )
    return {name: min(groups) for name, groups in found.items() if groups}


def in_groups(of_species: Mapping[str, str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The species to be fitted by their groups, in the order of the file."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(of_species[name], []).append(name)
    return {group: tuple(members) for group, members in found.items()}


def regions_of_groups(
    shared: Region, records: Occurrences, of_species: Mapping[str, str]
) -> tuple[dict[str, Region], list[str]]:
    """By species, the places of its group: the cells with a record of any member; and notes.

    One group of all needs none of its own. A group of one would have no place without a record of
    it, and is compared with those of all.
    """
    groups: dict[str, list[str]] = {}
    for name, group in of_species.items():
        groups.setdefault(group, []).append(name)
    if len(groups) == 1:
        return {}, []
    notes: list[str] = []
    found: dict[str, Region] = {}
    for group, members in groups.items():
        region = shared
        if len(members) > 1:
            mine = np.isin(records.species.astype(str), members)
            region = shared.of_places(records.take(mine), group)
        else:
            notes.append(
                f"{group}: {members[0]} is its only species, so it is fitted by itself and "
                "compared with the places of all groups"
            )
        found |= dict.fromkeys(members, region)
    return found, notes
