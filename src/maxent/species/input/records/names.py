"""Names of species: spellings that differ in case, spaces or underscores are one name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from maxent.rows.arrays import Array

_SHOWN = 5  # species whose spellings a note lists


def spelling_key(name: str) -> str:
    """What spellings of one name share.

    >>> spelling_key("Bassaricyon  alleni") == spelling_key("bassaricyon_alleni ")
    True
    """
    return " ".join(name.replace("_", " ").casefold().split())


def file_species(name: str) -> str:
    """The species of a file without a column of them, by the name of the file.

    >>> file_species("Aus bus.csv.gz")
    'Aus bus'
    """
    path = Path(name)
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def find_name(name: str, present: Iterable[str]) -> str | None:
    """The name as it is spelled among those present: exactly so, or otherwise."""
    names = list(present)
    if name in names:
        return name
    return next((n for n in names if spelling_key(n) == spelling_key(name)), None)


def one_spelling(species: Array, source: str) -> tuple[Array, tuple[str, ...]]:
    """Each name in its commonest spelling, and a note where there were several."""
    counts = Counter(species.tolist())
    spellings: dict[str, list[str]] = {}
    for name in counts:
        spellings.setdefault(spelling_key(name), []).append(name)
    several = [names for names in spellings.values() if len(names) > 1]
    if not several:
        return species, ()
    chosen = {name: max(names, key=counts.__getitem__) for names in several for name in names}
    merged = np.array([chosen.get(name, name) for name in species.tolist()], dtype=object)
    return merged, (_described(several, counts, source),)


def _described(several: Sequence[list[str]], counts: Counter[str], source: str) -> str:
    shown = []
    for names in several[:_SHOWN]:
        ordered = sorted(names, key=lambda name: -counts[name])
        shown.append(" = ".join(f"{name!r} ({counts[name]})" for name in ordered))
    more = f"; and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
    return (
        f"{source}: spellings of one name taken as one species, in the commonest spelling: "
        f"{'; '.join(shown)}{more}"
    )
