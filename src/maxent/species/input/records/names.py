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


def one_spelling(
    species: Array, source: str, counted: Array | None = None
) -> tuple[Array, tuple[str, ...]]:
    """Each name in its commonest spelling, and notes: on several spellings, and on authors.

    ``counted`` are the records that a note counts, None for all of them.
    """
    counts = Counter((species if counted is None else species[counted]).tolist())
    spellings: dict[str, list[str]] = {}
    for name in dict.fromkeys(species.tolist()):
        spellings.setdefault(spelling_key(name), []).append(name)
    several = [names for names in spellings.values() if len(names) > 1]
    chosen = {name: max(names, key=counts.__getitem__) for names in several for name in names}
    merged = np.array([chosen.get(name, name) for name in species.tolist()], dtype=object)
    kept = [names for names in several if sum(counts[name] > 0 for name in names) > 1]
    notes = [_described(kept, counts, source)] if kept else []
    return merged, (*notes, *_authors(Counter(merged.tolist()), source))


def _authors(counts: Counter[str], source: str) -> list[str]:
    """A note on names that are there with an author and without."""
    plain = {spelling_key(name): name for name in counts}
    pairs = []
    for name in counts:
        words = name.replace("_", " ").split()
        base = plain.get(spelling_key(" ".join(words[:2])))
        if len(words) > 2 and base is not None and (words[2][0].isupper() or words[2][0] == "("):
            pairs.append(f"{base!r} and {name!r}")
    if not pairs:
        return []
    more = f"; and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
    return [
        f"{source}: names that differ by an author alone are taken as two species: "
        f"{'; '.join(pairs[:_SHOWN])}{more}. To make them one, write one name, or name a column "
        "without authors with species= (--species-column)"
    ]


def _described(several: Sequence[list[str]], counts: Counter[str], source: str) -> str:
    shown = []
    for names in several[:_SHOWN]:
        ordered = sorted((name for name in names if counts[name]), key=lambda n: -counts[n])
        shown.append(" = ".join(f"{name!r} ({counts[name]})" for name in ordered))
    more = f"; and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
    return (
        f"{source}: spellings of one name taken as one species, in the commonest spelling: "
        f"{'; '.join(shown)}{more}"
    )
