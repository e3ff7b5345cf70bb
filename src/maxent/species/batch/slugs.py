"""Names of species as names of files, on any system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_OURS = ("index.html", "maxentResults.csv", "tuning.json")  # beside the species
_MAX_BYTES = 120  # of a name: with what is appended it stays below the 255 that file systems allow


def slug(name: str) -> str:
    """A file name for a species on any system: letters, digits, ".", "_" and "-".

    Letters of all scripts stay; runs of anything else become "_".

    >>> slug("Bradypus variegatus"), slug("Picea abies (L.) H.Karst."), slug("Ñandú: pampa/sur")
    ('Bradypus_variegatus', 'Picea_abies_L._H.Karst', 'Ñandú_pampa_sur')
    >>> slug("con"), slug("..")
    ('con_', 'species')
    """
    text = "".join(
        c if c in "._-" or unicodedata.category(c)[0] in "LMN" else " "
        for c in unicodedata.normalize("NFC", name)
    )
    text = "_".join(text.split())
    text = text.encode()[:_MAX_BYTES].decode(errors="ignore")
    # a leading dot hides a file, a leading dash looks like an option; Windows drops final dots
    text = text.lstrip(".-").rstrip(".") or "species"
    stem, dot, rest = text.partition(".")
    return f"{stem}_{dot}{rest}" if _DEVICES.fullmatch(text) else text


def slugs(names: Iterable[str]) -> dict[str, str]:
    """A file name for each species, no two alike even where case makes no difference.

    >>> slugs(["Acer sp.", "acer sp", "Acer sp. 2"])
    {'Acer sp.': 'Acer_sp', 'acer sp': 'acer_sp_2', 'Acer sp. 2': 'Acer_sp._2'}
    >>> slugs(["index.html"])
    {'index.html': 'index.html_2'}
    """
    taken = {name.casefold() for name in _OURS}
    chosen: dict[str, str] = {}
    for name in dict.fromkeys(names):
        stem = free = slug(name)
        number = 1
        while free.casefold() in taken:
            number += 1
            free = f"{stem}_{number}"
        taken.add(free.casefold())
        chosen[name] = free
    return chosen
