"""Text tables on disk: encoding, delimiter and header are detected, rows read in batches."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.file_access import check_inside
from maxent.species.input.records.encodings import one_byte, utf8

MISSING = {"", "na", "n/a", "nan", "null", "none", "\\n"}
_BATCH = 1 << 16  # rows of a table that are held as text at one time


@dataclass(frozen=True)
class Table:
    """A text table on disk, or in an archive: its header, and how rows are written.

    Attributes
    ----------
    path : path
        The file.
    header : list of str
        Names of the columns.
    delimiter : str
        What separates fields.
    quoting : int
        Whether fields are quoted, of the module csv.
    encoding : str
        Encoding of the text.
    notes : tuple of str
        What was assumed.
    member : str or None
        The table within an archive; None for the file itself.
    header_lines : int
        Lines before the first row.
    quote : str
        The mark around quoted fields.
    added : tuple of str
        The last columns of the header that the file does not hold: one entry for all rows.
    lookup : tuple or None
        Further columns: the column of keys, their entries by key, and how many they are.
    """

    path: Path
    header: list[str]
    delimiter: str
    quoting: Any
    encoding: str
    notes: tuple[str, ...] = ()
    member: str | None = None
    header_lines: int = 1
    quote: str = '"'
    added: tuple[str, ...] = ()
    lookup: tuple[int, dict[str, tuple[str, ...]], int] | None = None

    @classmethod
    def open(cls, path: Path, member: str | None = None) -> Table:
        """Detect encoding, delimiter and header of a file, or of one in an archive."""
        encoding, notes = cls.encoding_of(path, member)
        with _opened(path, member, encoding) as file:
            first = next((line for line in file if line.strip()), "")
        if not first:
            raise ValueError(f"{path}: the file is blank; expected a header line and records")
        delimiter = _delimiter(first)
        # GBIF writes tabs and never quotes: a quotation mark there is a character like any other
        quoted = delimiter != "\t" or first.lstrip().startswith('"')
        quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        table = cls(path, [], delimiter, quoting, encoding, notes, member)
        header = [name.strip() for name in table.head(1)[0]]
        if sum(is_number(name) for name in header[:3]) > 1:
            raise ValueError(
                f"{path}: the first line ({first.strip():.80}) holds numbers where names of "
                "columns are expected; add a header line such as species,longitude,latitude"
            )
        return replace(table, header=header).checked()

    @staticmethod
    def encoding_of(
        path: Path, member: str | None = None, stated: str | None = None
    ) -> tuple[str, tuple[str, ...]]:
        """The encoding of a table, that which is ``stated`` if it is not UTF-8; what to say."""
        return (stated, ()) if stated is not None else _encoding(path, member)

    def checked(self) -> Table:
        """The table itself, if it has a row."""
        first = list(islice(self._lines(), self.header_lines, self.header_lines + 1))
        check_records(len(first), str(self.path))
        self._fitted(*first[0])
        return self

    def head(self, n: int) -> list[list[str]]:
        """The first rows, header lines among them, as they are."""
        return [row for _, row in islice(self._lines(), n)]

    def batches(self, wanted: Sequence[int]) -> Iterator[tuple[list[int], list[list[str]]]]:
        """Line numbers and some of the columns, one batch of rows at a time."""
        lines: list[int] = []
        rows: list[list[str]] = []
        width = len(self.header)
        for line, row in islice(self._lines(), self.header_lines, None):
            fitted = row if len(row) == width else self._fitted(line, row)
            lines.append(line)
            rows.append([fitted[j] for j in wanted])
            if len(rows) == _BATCH:
                yield lines, [list(column) for column in zip(*rows, strict=True)]
                lines, rows = [], []
        if rows:
            yield lines, [list(column) for column in zip(*rows, strict=True)]

    def peek(self, column: int) -> list[str]:
        """The entries of a column in the first batch of rows."""
        _, (values,) = next(self.batches([column]))
        return [value.strip() for value in values]

    def numbers(self, values: list[str]) -> tuple[Array, int | None]:
        """Numbers, NaN where there are none, and where the first entry is that is not a number."""
        return _numbers(values, decimal_comma=self.delimiter != ",")

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not blank, with the line each begins on."""
        with _opened(self.path, self.member, self.encoding) as file:
            reader = csv.reader(
                file,
                delimiter=self.delimiter,
                quotechar=self.quote,
                quoting=self.quoting,
                strict=True,
            )
            line = 1
            try:
                for row in reader:
                    if any(row) and "".join(row).strip():
                        yield line, row
                    line = reader.line_num + 1
            except csv.Error as error:
                raise ValueError(
                    f"{self.path}, line {line}: cannot be read as a table ({error}); check its "
                    "quotation marks"
                ) from error
            except (*_DAMAGED, UnicodeDecodeError) as error:
                raise _packing(self.path, error) from error

    def _fitted(self, line: int, row: list[str]) -> list[str]:
        further = 0 if self.lookup is None else self.lookup[2]
        width = len(self.header) - len(self.added) - further
        if any(field.strip() for field in row[width:]):
            raise ValueError(
                f"{self.path}, line {line}: {len(row)} fields, the header has {width}; put fields "
                f"that hold the separator {self.delimiter!r} in quotation marks"
            )
        fitted = [*row[:width], *[""] * (width - len(row)), *self.added]
        if self.lookup is None:
            return fitted
        key, entries, _ = self.lookup
        return [*fitted, *entries.get(fitted[key], [""] * further)]


def check_file(path: Path) -> None:
    """Refuse what is not a file, or an empty one."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; give a table or vector file of records")
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder; give a table or vector file of records")
    check_inside(path)
    if not path.stat().st_size:
        raise ValueError(f"{path}: the file is empty (0 bytes); expected a header line and records")


def check_records(records: int, where: str) -> None:
    """Refuse a table without rows."""
    if not records:
        raise ValueError(f"{where}: only a header and no records; expected at least one")


_DAMAGED = (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error)


def _packing(path: Path, error: Exception) -> ValueError:
    if isinstance(error, UnicodeDecodeError):
        return ValueError(f"{path}: not in the encoding that it states ({error}); save it as UTF-8")
    kind = ".gz file" if path.suffix.lower() == ".gz" else "archive"
    return ValueError(f"{path}: not a whole {kind} ({error}); pack or copy it again")


def _unpacked(path: Path, member: str | None) -> Any:
    if member is not None:
        return zipfile.ZipFile(path).open(member)
    return gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")


def _opened(path: Path, member: str | None, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(_unpacked(path, member), encoding=encoding, newline="")


def _encoding(path: Path, member: str | None) -> tuple[str, tuple[str, ...]]:
    """UTF-8, UTF-16 with its mark, else the likeliest encoding of single bytes, with a note."""
    try:
        head = next(_chunks(path, member), b"")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16", ()
        if b"\0" in head:
            raise ValueError(
                f"{path}: not a text table but a binary file; unpack an archive, export a "
                "spreadsheet as CSV"
            )
        if utf8(_chunks(path, member)):
            return "utf-8-sig", ()
        encoding, note = one_byte(_chunks(path, member))
    except _DAMAGED as error:
        raise _packing(path, error) from error
    return encoding, (f"{path.name}: {note}",)


def _chunks(path: Path, member: str | None) -> Iterator[bytes]:
    with _unpacked(path, member) as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _delimiter(line: str) -> str:
    """The separator that is commonest outside quotation marks."""
    bare = re.sub(r'"[^"]*"', "", line)
    return max(("\t", ";", ","), key=bare.count) if re.search("[\t;,]", bare) else ","


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    with suppress(ValueError):
        return bool(np.isfinite(float(text)))
    return False


def _numbers(values: list[str], decimal_comma: bool) -> tuple[Array, int | None]:
    with suppress(ValueError):
        numbers = np.array(values, dtype=np.float64)
        if not np.isinf(numbers).any():
            return numbers, None
    numbers = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        text = value.strip()
        if text.lower() in MISSING:
            continue
        if decimal_comma and "." not in text:
            text = text.replace(",", ".", 1)
        if not is_number(text):
            return numbers, i
        numbers[i] = float(text)
    return numbers, None


def most_decimals(x: Sequence[str], y: Sequence[str]) -> Array:
    """The decimals that numbers are written with, of each pair the more.

    >>> most_decimals(["12.50", "3", "1e-7"], ["7", "-4,1", "2"])
    array([ 2,  1, 99], dtype=int8)
    """
    return np.maximum(*(np.array([_decimals(v) for v in part], np.int8) for part in (x, y)))


def _decimals(text: str) -> int:
    _, point, rest = text.strip().replace(",", ".").partition(".")
    if "e" in text.lower():  # as precise as can be
        return 99
    return min(len(rest), 99) if point else 0


def frame_numbers(values: Array, row: Array, column: str, source: str) -> Array:
    """A column of a frame as numbers, NaN where missing or infinite."""
    with suppress(TypeError, ValueError):
        numbers = values.astype(np.float64)
        return np.where(np.isinf(numbers), np.nan, numbers)
    written = texts(values)
    numbers, wrong = _numbers(written, decimal_comma=False)
    if wrong is not None:
        raise no_number(f"{source}, row {row[wrong]}", column, written[wrong])
    return numbers


def texts(values: Array) -> list[str]:
    """Values as texts, missing ones blank."""
    return ["" if _is_missing(v) else str(v).strip() for v in values]


def _is_missing(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ == "NAType"


def no_number(where: str, column: str, value: str) -> ValueError:
    """The error for a coordinate or value that is not a number."""
    return ValueError(
        f"{where}: {column!r} is {value!r}, expected a number in decimal notation such as -65.38; "
        "correct it, or leave it blank to have the record left out"
    )
