"""Layers chosen and named by the user: NAME=FILE[:BAND], one by one or in a table."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from maxent.species.input.file_access import check_inside
from maxent.species.input.layers.remote import Address, as_file, is_address

if TYPE_CHECKING:
    from maxent.species.input.layers.sources import FileSource


@dataclass(frozen=True)
class Named:
    """A layer's name, its file, and its band: a number, the name it has there, or "" for one."""

    name: str
    path: str
    band: str = ""

    @classmethod
    def from_text(cls, text: str) -> Named:
        """Read NAME=FILE or NAME=FILE:BAND.

        >>> Named.from_text("bio5=future.tif:5")
        Named(name='bio5', path='future.tif', band='5')
        """
        name, _, rest = (part.strip() for part in text.partition("="))
        if not name or not rest:
            raise ValueError(f"layer must be NAME=FILE or NAME=FILE:BAND, got {text!r}")
        path, _, band = rest.rpartition(":")
        # the colon of a drive, as in C:\\bio.tif, is followed by a path
        if os.path.exists(rest) or not path or not band or band[0] in "/\\":
            return cls(name, rest)
        if is_address(rest) and "/" in band:  # the colon is that of a port
            return cls(name, rest)
        return cls(name, path, band)


def named_layers(texts: Sequence[str]) -> list[Named]:
    """Read every NAME=FILE[:BAND], and the rows of tables (.csv) of name, file and band."""
    found: list[Named] = []
    for text in texts:
        if "=" not in text and text.lower().endswith(".csv"):
            found += _table(Path(text))
        else:
            found.append(Named.from_text(text))
    names = [named.name for named in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"layer {twice!r} is named twice; give every layer a name of its own")
    return found


def _table(path: Path) -> list[Named]:
    """Files are looked for from the folder of the table."""
    if not path.is_file():
        raise ValueError(f"layer table {path} is not there; expected a .csv of name, file and band")
    check_inside(path)
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"name", "file"} <= rows[0].keys():
        raise ValueError(
            f"layer table {path} must have rows under the headings name, file and (for files of "
            "several bands) band"
        )
    return [
        Named(row["name"].strip(), beside(path, row["file"].strip()), (row.get("band") or ""))
        for row in rows
    ]


def beside(table: Path, file: str) -> str:
    """A file that a table names, from where the table is; an address stays what it is."""
    return str(as_file(file) if is_address(file) else table.parent / file)


def files_of(files: Sequence[Path | Address], named: Sequence[Named]) -> list[Path | Address]:
    """The files, and those of named layers, each once whatever path leads to it."""
    every = [*files, *(as_file(one.path) for one in named)]
    return list({os.path.realpath(path): path for path in reversed(every)}.values())[::-1]


def renamed(
    sources: Sequence[FileSource], path: Path | Address, named: Sequence[Named]
) -> list[FileSource]:
    """The layers of a file: those that were named, or all of them where none of the file was."""
    mine = [one for one in named if os.path.realpath(one.path) == os.path.realpath(path)]
    if not mine:
        return list(sources)
    return [replace(_band(sources, one), name=one.name, remark="") for one in mine]


def _band(sources: Sequence[FileSource], named: Named) -> FileSource:
    band = named.band.strip()
    fits = [s for s in sources if not band or s.name == band or str(s.band) == band]
    if len(fits) == 1:
        return fits[0]
    known = ", ".join(f"{s.band} ({s.name})" for s in sources)
    asked = f"no band {band!r}" if band and not fits else "several bands"
    raise ValueError(
        f"{named.path}: {asked} for the layer {named.name!r} in this file; it has {known}: say "
        f"{named.name}={named.path}:BAND"
    )
