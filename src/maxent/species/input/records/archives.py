"""Archives of records as they are downloaded: Darwin Core archives, and GBIF's zipped tables.

``open_table`` opens a table of records, in an archive or not, with what is known of its origin.
Nothing is unpacked: the table is read from within the archive.
"""

from __future__ import annotations

import codecs
import csv
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.results import Origin, counts_in_words
from maxent.species.input.records.columns import bare, listed
from maxent.species.input.records.text_table import Table, check_records

_META = "meta.xml"
_OCCURRENCE, _EVENT = "occurrence", "event"
_LARGEST = 32 << 20  # bytes of a description
_OF_EVENTS = (  # that records take from their event, where they lack them
    *("decimalLongitude", "decimalLatitude", "geodeticDatum"),
    *("coordinateUncertaintyInMeters", "coordinatePrecision"),
)
_DOI = re.compile(r"10\.\d{4,9}/[^\s\"'<>]+")
_DOWNLOAD = re.compile(r"\d{7}-\d{15,}")  # the key of a download of GBIF
_OF_DOWNLOAD = "GBIF Occurrence Download"
_TEXT = (".csv", ".txt", ".tsv", ".tab")


def open_table(path: Path) -> tuple[Table, Origin]:
    """A table of records and its origin, from a text table or an archive that holds one."""
    if not is_archive(path) and path.suffix.lower() != ".zip":
        return Table.open(path), Origin(path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                name
                for name in archive.namelist()
                if not name.startswith("__MACOSX/") and not name.endswith("/")
            ]
            described = sorted(
                (name for name in members if PurePosixPath(name).name.lower() == _META), key=len
            )
            if described:
                return _darwin_core(path, archive, described[0], members)
            return _lone_table(path, members)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError) as error:
        raise ValueError(
            f"{path}: not an archive that can be read ({error}); download it again"
        ) from error


def is_archive(path: Path) -> bool:
    """Whether a file is a zip archive; spreadsheets are too, but hold no tables of text."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "[Content_Types].xml" not in archive.namelist()


def _lone_table(path: Path, members: list[str]) -> tuple[Table, Origin]:
    """The one table of an archive without a description, such as GBIF's simple download."""
    tables = [name for name in members if PurePosixPath(name).suffix.lower() in _TEXT]
    if len(tables) != 1:
        raise ValueError(
            f"{path}: no {_META} and {len(tables) or 'no'} tables of text in the archive, which "
            f"holds {listed(members, 5) or 'nothing'}; expected a Darwin Core archive, or one "
            "table: unpack it and give the table of records"
        )
    table = Table.open(path, tables[0])
    note = f"{path.name}: the records are those of {tables[0]}, within the archive"
    key = _DOWNLOAD.search(PurePosixPath(tables[0]).stem)
    citation = ""
    if key is not None:
        citation = f"{_OF_DOWNLOAD} https://www.gbif.org/occurrence/download/{key[0]}"
    return replace(table, notes=(note, *table.notes)), Origin(path.name, citation)


# -- Darwin Core -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A table as its archive describes it: names by position, None for those that have none."""

    kind: str
    member: str
    names: dict[int, str]
    defaults: dict[str, str]
    key: int | None
    delimiter: str
    quote: str
    encoding: str
    header_lines: int


def _darwin_core(
    path: Path, archive: zipfile.ZipFile, meta: str, members: list[str]
) -> tuple[Table, Origin]:
    root = _parsed(path, archive, meta)
    folder = posixpath.dirname(meta)
    parts = [part for part in root if _tag(part) in ("core", "extension")]
    files = [_described(path, part, folder) for part in parts]
    ours = next((file for file in files if file.kind == _OCCURRENCE), None)
    if ours is None:
        kinds = listed([file.kind for file in files]) or "no table"
        raise ValueError(
            f"{path}: a Darwin Core archive of {kinds}, without occurrences; give one that holds "
            "records with their places"
        )
    for file in files:
        if file.kind in (_OCCURRENCE, _EVENT) and file.member not in members:
            raise ValueError(
                f"{path}: {_META} names {file.member!r}, which is not in the archive (it holds "
                f"{listed(members, 5)}); download it again"
            )
    table = _opened(path, ours)
    notes = [f"{path.name}: a Darwin Core archive, records of {ours.member}", *table.notes]
    events = next((file for file in files if file.kind == _EVENT), None)
    if events is not None and ours is not files[0] and ours.key is not None:
        table, joined = _with_events(path, table, ours.key, events)
        notes += joined
    about, said = _metadata(path, archive, root.get("metadata"), folder, members)
    return replace(table, notes=(*notes, *said)), about


def _described(path: Path, part: Any, folder: str) -> _File:
    """The table of a core or an extension."""
    places = [(found.text or "").strip() for found in part.iter() if _tag(found) == "location"]
    if len(places) != 1:
        raise ValueError(
            f"{path}: {_META} names {len(places)} files for one table; expected one: give the "
            "table of records itself"
        )
    names, defaults, key = {}, {}, None
    for field in part:
        if _tag(field) == "field":
            name = str(field.get("term", "")).rstrip("/").rpartition("/")[2].rpartition("#")[2]
            if field.get("index") is not None:
                names[int(field.get("index"))] = name
            elif field.get("default") is not None:
                defaults[name] = str(field.get("default"))
        elif _tag(field) in ("id", "coreid") and field.get("index") is not None:
            key = int(field.get("index"))
    kind = str(part.get("rowType", "")).rpartition("/")[2].casefold()
    return _File(
        kind,
        posixpath.normpath(posixpath.join(folder, places[0])),
        names,
        defaults,
        key,
        _unescaped(part.get("fieldsTerminatedBy", ",")),
        _unescaped(part.get("fieldsEnclosedBy", '"')),
        str(part.get("encoding", "UTF-8")),
        int(part.get("ignoreHeaderLines") or 0),
    )


def _unescaped(text: str) -> str:
    return text.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r")


def _opened(path: Path, file: _File) -> Table:
    """The table, by what the archive says of it rather than by its first line."""
    encoding, notes = Table.encoding_of(path, file.member, _known_encoding(file.encoding))
    delimiter = file.delimiter or "\t"
    if len(delimiter) > 1 or len(file.quote) > 1:
        raise ValueError(
            f"{path}: {file.member} is separated by {delimiter!r} and quoted by {file.quote!r}; "
            "expected single characters"
        )
    table = Table(
        path,
        [],
        delimiter,
        csv.QUOTE_MINIMAL if file.quote else csv.QUOTE_NONE,
        encoding,
        notes,
        member=file.member,
        header_lines=file.header_lines,
        quote=file.quote or '"',
    )
    width = max((len(row) for row in table.head(file.header_lines + 1)), default=0)
    header = [file.names.get(j, f"column {j + 1}") for j in range(width)]
    constants = {k: v for k, v in file.defaults.items() if k not in header}
    whole = replace(table, header=[*header, *constants], added=tuple(constants.values()))
    return whole.checked()


def _known_encoding(name: str) -> str | None:
    """The codec of an encoding that is stated, None where UTF-8 is, or none that is known."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return None if found == "utf-8" else found


def _with_events(path: Path, table: Table, key: int, file: _File) -> tuple[Table, list[str]]:
    """The records with the places of their events, where they have none of their own."""
    have = {bare(name) for name in table.header}
    if {"decimallongitude", "decimallatitude"} <= have or file.key is None:
        return table, []
    events = _opened(path, file)
    wanted = [j for j, n in enumerate(events.header) if n in _OF_EVENTS and bare(n) not in have]
    lookup: dict[str, tuple[str, ...]] = {}
    for _, (ids, *columns) in events.batches([file.key, *wanted]):
        lookup |= zip(ids, zip(*columns, strict=True), strict=True)
    check_records(len(lookup), str(path))
    header = [*table.header, *(events.header[j] for j in wanted)]
    note = f"{path.name}: places from the {len(lookup)} events of {file.member}"
    return replace(table, header=header, lookup=(key, lookup, len(wanted))), [note]


# -- citation and licence --------------------------------------------------------------------------


def _metadata(
    path: Path, archive: zipfile.ZipFile, named: str | None, folder: str, members: list[str]
) -> tuple[Origin, list[str]]:
    """Citation and licence, from the metadata of an archive and from GBIF's own files."""
    notes = []
    texts = {
        name: _read(path, archive, posixpath.join(folder, name)).decode("utf-8", "replace")
        for name in ("citations.txt", "rights.txt")
        if posixpath.join(folder, name) in members
    }
    names = [posixpath.join(folder, n) for n in (named, "eml.xml", "metadata.xml") if n]
    described = next((name for name in names if name in members), None)
    root = None
    if described is not None:
        try:
            root = _parsed(path, archive, described)
        except ValueError as error:
            notes.append(f"{error}; citation and licence may be missing")
    citation = _citation(root, texts.get("citations.txt", ""))
    return Origin(path.name, citation, _licence(root, texts.get("rights.txt", ""))), notes


def _citation(root: Any, text: str) -> str:
    """That of the download, else that of the dataset, else its title."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = next((line for line in lines if _OF_DOWNLOAD in line and _DOI.search(line)), "")
    if not found and root is not None:
        found = _first(root, "gbif", "citation")
    if not found:
        found = " ".join(lines).partition(":")[2].strip()
    if not found and root is not None:
        found = _first(root, "dataset", "title")
    if root is None or _DOI.search(found):
        return found
    texts = [str(root.get("packageId", "")), *_all(root, "dataset", "alternateIdentifier")]
    doi = next((match[0] for match in map(_DOI.search, texts) if match), "")
    return f"{found} https://doi.org/{doi.rstrip('.,;)')}".strip() if doi else found


def _licence(root: Any, text: str) -> str:
    if root is not None:
        for names in (("dataset", "intellectualRights"), ("licensed", "licenseName")):
            found = _first(root, *names)
            if found:
                return found
    prefix = "rights as supplied:"
    rights = [x.strip()[len(prefix) :] for x in text.splitlines() if x.lower().startswith(prefix)]
    known = [right for right in rights if right.strip().lower() not in ("", "not supplied")]
    return "; ".join(dict.fromkeys(map(licence_name, known)))


def licence_name(text: str) -> str:
    """A licence by its short name where it is one of Creative Commons.

    >>> licence_name("http://creativecommons.org/licenses/by-nc/4.0/legalcode")
    'CC BY-NC 4.0'
    >>> licence_name("CC0_1_0"), licence_name("all rights reserved")
    ('CC0 1.0', 'all rights reserved')
    """
    plain = text.strip()
    address = re.search(r"creativecommons\.org/(licenses|publicdomain)/([a-z-]+)/(\d\.\d)", plain)
    if address:
        kind = address[2].upper()
        return f"CC0 {address[3]}" if kind == "ZERO" else f"CC {kind} {address[3]}"
    code = re.fullmatch(r"(CC0|CC_BY(?:_[A-Z]{2})*)_(\d)_(\d)", plain.upper())
    if code:
        kind = code[1].replace("CC_BY", "CC BY").replace("_", "-")
        return f"{kind} {code[2]}.{code[3]}"
    return plain


# -- XML -------------------------------------------------------------------------------------------


def _read(path: Path, archive: zipfile.ZipFile, member: str) -> bytes:
    if archive.getinfo(member).file_size > _LARGEST:
        raise ValueError(f"{path}: {member} has more than {_LARGEST >> 20} MB; it is damaged")
    return archive.read(member)


def _parsed(path: Path, archive: zipfile.ZipFile, member: str) -> Any:
    """A description; entities, which could grow without end, are refused."""
    content = _read(path, archive, member)
    try:
        if b"<!ENTITY" in content:
            raise ElementTree.ParseError("it defines entities")
        return ElementTree.fromstring(content.strip())
    except ElementTree.ParseError as error:
        raise ValueError(
            f"{path}: {member} is no XML that can be read ({error}): download the archive again"
        ) from error


def _tag(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _all(root: Any, parent: str, child: str) -> Iterator[str]:
    """The texts of all elements of a name within those of another."""
    for outer in root.iter():
        if _tag(outer) == parent:
            for inner in outer.iter():
                if _tag(inner) == child:
                    yield " ".join("".join(inner.itertext()).split())


def _first(root: Any, parent: str, child: str) -> str:
    return next(filter(None, _all(root, parent, child)), "")


# -- what records say themselves -------------------------------------------------------------------

# GBIF's word for them is geospatial issues
_SERIOUS = {
    *("ZERO_COORDINATE", "COORDINATE_INVALID", "COORDINATE_OUT_OF_RANGE"),
    "COUNTRY_COORDINATE_MISMATCH",
}
_FLAG = re.compile(r"[A-Z][A-Z0-9_]+")


def told_by_records(
    origin: Origin, licences: list[str], datasets: list[str], flags: list[str]
) -> Origin:
    """The origin with what columns of the records say: licences, datasets, flags."""
    return replace(
        origin,
        licences=_counted(licence_name(value) for value in licences if value.strip()),
        datasets=len({value for value in datasets if value.strip()}),
        flags=_counted(flag for value in flags for flag in _FLAG.findall(value)),
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())


def serious_flags(values: list[str] | None) -> Array | None:
    """What is wrong with the place of each record, None where no flags are known."""
    if values is None or not any(map(_FLAG.search, values)):
        return None
    told = {v: ", ".join(f for f in _FLAG.findall(v) if f in _SERIOUS) for v in set(values)}
    return np.array([told[value] for value in values], dtype=object)


def origin_notes(origin: Origin) -> tuple[str, ...]:
    """How to cite the records, their licences, and what their publisher flagged."""
    notes = []
    if origin.citation:
        notes.append(f"{origin.source}: cite as: {origin.citation}")
    elif origin.datasets:
        word = "dataset" if origin.datasets == 1 else "datasets"
        notes.append(
            f"{origin.source}: no citation in the file, whose records are from {origin.datasets} "
            f"{word}; cite them, or the DOI of the download"
        )
    known = replace(origin, citation="").describe()
    notes += [f"{origin.source}: {known}"] if known else []
    if origin.flags:
        notes.append(f"{origin.source}: flagged by the publisher: {counts_in_words(origin.flags)}")
    return tuple(notes)
