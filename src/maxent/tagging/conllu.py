"""CoNLL-U, the format of Universal Dependencies: words, multiword ranges, empty nodes, comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxent import io
from maxent.tagging.textfile import (
    decoded,
    is_blank,
    is_blank_bytes,
    opened,
    packed,
    read_bytes,
    unpacking,
)

FIELDS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
MAY_BE_NOTHING = ("FEATS", "DEPS", "MISC")  # _ is a value there: the word has none

_MARK = b"\xef\xbb\xbf"  # that some editors begin UTF-8 files with
_RANGE = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)")
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]*)\.[1-9][0-9]*")


@dataclass(frozen=True)
class ConlluSentence:
    """The lines of a sentence, and which of them are its words.

    Attributes
    ----------
    lines : tuple of str
        As in the file, without their ends: comments, words, multiword ranges such as 2-3, empty
        nodes such as 8.1.
    places : tuple of int
        Which lines are words.

    Examples
    --------
    >>> lines = ["# text = im Haus", "1-2\\tim" + "\\t_" * 8, "1\\tin\\t_\\tADP" + "\\t_" * 6]
    >>> lines += ["2\\tdem\\t_\\tDET" + "\\t_" * 6, "3\\tHaus\\t_\\tNOUN" + "\\t_" * 6]
    >>> sentence = ConlluSentence(tuple(lines), (2, 3, 4))
    >>> sentence.column("FORM"), sentence.column("UPOS")
    (['in', 'dem', 'Haus'], ['ADP', 'DET', 'NOUN'])
    >>> sentence.with_column("UPOS", ["X", "X", "X"]).lines[:2] == sentence.lines[:2]
    True
    """

    lines: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The ten columns of each word."""
        return [tuple(self.lines[place].split("\t")) for place in self.places]

    @property
    def comments(self) -> list[str]:
        """The lines that begin with #."""
        return [line for line in self.lines if line.startswith("#")]

    def column(self, name: str) -> list[str]:
        """One column of all words, by its name such as UPOS."""
        number = field_number(name)
        return [word[number] for word in self.words]

    def with_column(self, name: str, values: Sequence[str]) -> ConlluSentence:
        """The sentence with other values in one column of its words, all else as it was."""
        if len(values) != len(self.places):
            raise ValueError(f"{len(values)} values for the {len(self.places)} words of a sentence")
        number, lines = field_number(name), list(self.lines)
        for place, value in zip(self.places, values, strict=True):
            if not isinstance(value, str) or not value or "\t" in value or "\n" in value:
                raise ValueError(
                    f"{value!r} cannot stand in a column: give a text without tabs and ends of "
                    "lines, _ for nothing"
                )
            fields = lines[place].split("\t")
            fields[number] = value
            lines[place] = "\t".join(fields)
        return ConlluSentence(tuple(lines), self.places)

    def with_comment(self, line: str) -> ConlluSentence:
        """The sentence with a comment more, before its first line that is none."""
        at = next((i for i, own in enumerate(self.lines) if own[:1] != "#"), len(self.lines))
        lines = (*self.lines[:at], line, *self.lines[at:])
        return ConlluSentence(lines, tuple(place + (place >= at) for place in self.places))

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (*self.lines, ""))


def field_number(name: str) -> int:
    """The place of a column, from 0, by its name."""
    if name not in FIELDS:
        raise ValueError(f"CoNLL-U has no column {name!r}: its columns are {', '.join(FIELDS)}")
    return FIELDS.index(name)


def features(text: str) -> dict[str, str]:
    """Names and values of a FEATS or MISC column; part of a token as estimators take it.

    Parameters
    ----------
    text : str
        Such as Case=Nom|Number=Sing; _ for none.

    Examples
    --------
    >>> features("Case=Nom|Number=Sing"), features("_")
    ({'Case': 'Nom', 'Number': 'Sing'}, {})
    """
    pairs = (part.partition("=") for part in text.split("|") if part != "_")
    return {name: value for name, _, value in pairs}


def with_entry(name: str, text: str, value: str) -> str:
    """A FEATS or MISC column with name=value, in place of an earlier one of that name."""
    parts = [p for p in text.split("|") if p != "_" and p.partition("=")[0] != name]
    return "|".join([*parts, f"{name}={value}"])


def read_conllu(path: str | Path) -> list[ConlluSentence]:
    """The sentences of a CoNLL-U file; .gz files are unpacked.

    Words are numbered 1, 2 ... in each sentence. A line of another kind than words, ranges, empty
    nodes and comments, or in the wrong place, raises a ValueError with the file and the number of
    the line. Comments between blank lines are a sentence without words.

    Parameters
    ----------
    path : path
        The file.
    """
    path = Path(path)
    sentences = list(conllu_sentences(decoded(read_bytes(path), path), path))
    if not any(sentence.places for sentence in sentences):
        raise ValueError(f"{path} has no words")
    return sentences


def write_conllu(sentences: Iterable[ConlluSentence], path: str | Path) -> None:
    """Write sentences to a file, packed where it ends in .gz; it is replaced at the very end.

    Parameters
    ----------
    sentences : iterable of ConlluSentence
        The sentences.
    path : path
        The file.
    """
    data = "".join(map(str, sentences)).encode()
    io.write_atomically(path, packed(data, Path(path)))


def is_conllu(path: str | Path) -> bool:
    """Whether a file is CoNLL-U: by its name, or by its first line that is no comment.

    Parameters
    ----------
    path : path
        The file.
    """
    path = Path(path)
    if path.name.removesuffix(".gz").endswith(".conllu"):
        return True
    with unpacking(path), opened(path) as file:
        for raw in file:
            line = raw.removeprefix(_MARK)
            if not is_blank_bytes(line) and not line.startswith(b"#"):
                fields = line.decode("utf-8", "replace").rstrip("\r\n").split("\t")
                return len(fields) == len(FIELDS) and _begins(fields[0])
    return False


def _begins(number: str) -> bool:
    """Whether a sentence may begin with this ID."""
    kind = _RANGE.fullmatch(number)
    return number == "1" or number.startswith("0.") or (kind is not None and kind[1] == "1")


def is_word(line: bytes) -> bool:
    """Whether a line is a word, rather than a comment, a range or an empty node."""
    return line.split(b"\t", 1)[0].removeprefix(_MARK).isdigit()


def conllu_sentences(lines: Iterable[str], path: Path, first: int = 1) -> Iterator[ConlluSentence]:
    """The sentences of lines, the first of which has the number ``first`` in its file."""
    inside = _Inside()
    number = first
    for number, raw in enumerate(lines, start=first):
        line = raw.rstrip("\r")
        try:
            if not is_blank(line):
                inside.add(line)
            elif inside.lines:
                yield inside.finished()
                inside = _Inside()
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    if inside.lines:
        try:
            yield inside.finished()
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None


class _Inside:
    """A sentence that is being read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.places: list[int] = []
        self._covered = 0  # last word of the last range

    def add(self, line: str) -> None:
        if not line.startswith("#"):
            self._check(line)
        self.lines.append(line)

    def _check(self, line: str) -> None:
        fields, last = line.split("\t"), len(self.places)
        if len(fields) != len(FIELDS):
            raise ValueError(
                f"{len(fields)} columns, and CoNLL-U has {len(FIELDS)}, separated by tabs: "
                f"{line[:80]!r}"
            )
        if "" in fields:
            raise ValueError(
                f"{FIELDS[fields.index('')]} is empty, expected _ there: {line[:80]!r}"
            )
        number = fields[0]
        if number == str(last + 1):
            self.places.append(len(self.lines))
            return
        if number.isascii() and number.isdigit():
            raise ValueError(
                f"the ID is {number}, expected {last + 1}: words are numbered 1, 2 ..."
            )
        many, empty = _RANGE.fullmatch(number), _EMPTY_NODE.fullmatch(number)
        if many:
            begin, end = int(many[1]), int(many[2])
            if begin != last + 1 or end <= begin or begin <= self._covered:
                raise ValueError(
                    f"the range {number} is out of place: expected to stand before its first word, "
                    f"beside no other range; the word before it is {last}"
                )
            self._covered = end
        elif not empty:
            raise ValueError(
                f"the ID is {number!r}, expected a word (4), a range (4-5) or an empty node (4.1)"
            )
        elif int(empty[1]) != last:
            raise ValueError(
                f"the empty node {number} is out of place: the word before it is {last}"
            )

    def finished(self) -> ConlluSentence:
        if self._covered > len(self.places):
            raise ValueError(
                f"the sentence ends with word {len(self.places)}, and a range goes on to word "
                f"{self._covered}"
            )
        return ConlluSentence(tuple(self.lines), tuple(self.places))
