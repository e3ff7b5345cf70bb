"""Templates: attributes of tokens from the columns of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from maxent import io
from maxent.tagging.textfile import decoded

Columns = Sequence[str]  # of one token

_MACRO = re.compile(r"%x\[\s*(-?\d+)\s*,\s*(\d+)\s*(?::\s*([a-z]+\d*)\s*)?\]")
_NAMED = re.compile(r"(%x\[\s*-?\d+\s*,\s*)([A-Za-z_]\w*)")
_EACH = "each"  # a change that makes an attribute of each part
_TOGETHER = 64  # sequences whose attributes are made together
_FARTHEST = 100  # tokens that a line looks away

CHUNKING = """\
w[-2]=%x[-2,0]
w[-1]=%x[-1,0]
w[0]=%x[0,0]
w[1]=%x[1,0]
w[2]=%x[2,0]
w[-1]|w[0]=%x[-1,0]|%x[0,0]
w[0]|w[1]=%x[0,0]|%x[1,0]
pos[-2]=%x[-2,1]
pos[-1]=%x[-1,1]
pos[0]=%x[0,1]
pos[1]=%x[1,1]
pos[2]=%x[2,1]
pos[-2]|pos[-1]=%x[-2,1]|%x[-1,1]
pos[-1]|pos[0]=%x[-1,1]|%x[0,1]
pos[0]|pos[1]=%x[0,1]|%x[1,1]
pos[1]|pos[2]=%x[1,1]|%x[2,1]
pos[-2]|pos[-1]|pos[0]=%x[-2,1]|%x[-1,1]|%x[0,1]
pos[-1]|pos[0]|pos[1]=%x[-1,1]|%x[0,1]|%x[1,1]
pos[0]|pos[1]|pos[2]=%x[0,1]|%x[1,1]|%x[2,1]
first: __BOS__
last: __EOS__
"""

WORDS = """\
w[-2]=%x[-2,0]
w[-1]=%x[-1,0]
w[0]=%x[0,0]
w[1]=%x[1,0]
w[2]=%x[2,0]
w[-1]|w[0]=%x[-1,0]|%x[0,0]
w[0]|w[1]=%x[0,0]|%x[1,0]
lower[0]=%x[0,0:lower]
shape[-1]=%x[-1,0:shape]
shape[0]=%x[0,0:shape]
shape[1]=%x[1,0:shape]
prefix1=%x[0,0:prefix1]
prefix2=%x[0,0:prefix2]
prefix3=%x[0,0:prefix3]
suffix1=%x[0,0:suffix1]
suffix2=%x[0,0:suffix2]
suffix3=%x[0,0:suffix3]
suffix4=%x[0,0:suffix4]
first: __BOS__
last: __EOS__
"""


class _Part(NamedTuple):
    """A macro %x[offset, column:change]."""

    offset: int
    column: int
    change: str


@dataclass(frozen=True)
class _Line:
    texts: tuple[str, ...]  # around the parts, one more than there are parts
    parts: tuple[_Part, ...]

    @property
    def reach(self) -> tuple[int, int]:
        """The smallest and the largest offset."""
        offsets = [0, *(part.offset for part in self.parts)]
        return min(offsets), max(offsets)

    def everywhere(self, columns: dict[tuple[int, str], list[str]], size: int) -> list[str]:
        """The attribute at each of the joined tokens, whatever lies beyond the ends."""
        if not self.parts:
            return list(self.texts) * size
        shifted = [_shift(columns[part.column, part.change], part.offset) for part in self.parts]
        if len(shifted) == 1:
            (p, q), (one,) = self.texts, shifted
            return [f"{p}{a}{q}" for a in one]
        if len(shifted) == 2:  # as below, in half the time
            p, q, r = self.texts
            return [f"{p}{a}{q}{b}{r}" for a, b in zip(*shifted, strict=True)]
        pattern = "%s".join(text.replace("%", "%%") for text in self.texts)
        return list(map(pattern.__mod__, zip(*shifted, strict=True)))


@io.register
class Template:
    """Lines that say which attributes a token has, in the style of CRF++ and CRFsuite.

    ``w[-1]=%x[-1,0]`` is the text ``w[-1]=`` and column 0 of the token before; a line may hold any
    number of such macros, ``w[-1]|w[0]=%x[-1,0]|%x[0,0]``. Columns count from 0. A line that looks
    past an end of the sequence is left out there. ``first: NAME`` is an attribute of the first
    token, ``last: NAME`` of the last one, a line without a macro one of all tokens. After a colon,
    ``%x[0,0:suffix3]`` takes the last three characters, ``prefix2`` the first two, ``lower`` the
    word in lower case, and ``shape`` has X for capitals, x for small letters and 0 for digits, runs
    cut to two; ``each`` makes an attribute of each part of Case=Nom|Number=Sing and none of ``_``,
    in a line with one macro. ``#`` begins a comment line; ``B`` alone, which asks CRF++ for
    transitions, is allowed: they are always there.

    Parameters
    ----------
    lines : iterable of str
        The lines.
    name : str, default "template"
        Name for messages.
    columns : sequence of str, default ()
        Names of columns 0, 1 ..., by which macros may call them: ``%x[0,FORM]``.

    Examples
    --------
    >>> template = Template(["w=%x[0,0]", "w[-1]|w=%x[-1,0]|%x[0,0]", "first: BOS"])
    >>> list(template.tokens([[("He", "PRP"), ("runs", "VBZ")]]))
    [[['w=He', 'BOS'], ['w=runs', 'w[-1]|w=He|runs']]]
    >>> template = Template(["w=%x[0,FORM]", "%x[0,FEATS:each]"], columns=["FORM", "FEATS"])
    >>> list(template.tokens([[("He", "Case=Nom|Person=3"), ("runs", "_")]]))
    [[['w=He', 'Case=Nom', 'Person=3'], ['w=runs']]]
    """

    def __init__(
        self, lines: Iterable[str], name: str = "template", columns: Sequence[str] = ()
    ) -> None:
        self.lines = tuple(_numbered(line, columns, name) for line in lines)
        self._plain: list[_Line] = []
        self._spread: list[_Line] = []  # with the change _EACH
        self._ends: dict[str, list[str]] = {"first": [], "last": []}
        for number, line in enumerate(self.lines, start=1):
            self._add(line.strip(), f"{name}, line {number}")
        if not self._plain and not self._spread:
            raise ValueError(f"{name} has no line with an attribute, such as w=%x[0,0]")
        self._reach = [line.reach for line in self._plain]
        # tokens that some line looks past an end from, and those that first: and last: are for
        self._near_first = max([1, *(-low for low, _ in self._reach)])
        self._near_last = max([1, *(high for _, high in self._reach)])

    @classmethod
    def read(cls, path: str | Path, columns: Sequence[str] = ()) -> Template:
        """The lines of a file."""
        return cls(lines_of(Path(path)), str(path), columns)

    def __repr__(self) -> str:
        count = len(self._plain) + len(self._spread)
        return f"Template({count} lines, {self.n_columns} columns)"

    def __getmodel__(self) -> dict[str, Any]:
        return {"lines": list(self.lines)}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        lines = state["lines"]
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise ValueError("the lines of a template are a list of texts")
        self.__init__(lines)  # type: ignore[misc]

    @property
    def n_columns(self) -> int:
        """Columns that a token needs."""
        lines = (*self._plain, *self._spread)
        return 1 + max((part.column for line in lines for part in line.parts), default=-1)

    def _add(self, line: str, place: str) -> None:
        if not line or line.startswith("#") or line == "B":
            return
        where, colon, name = line.partition(":")
        if colon and where in self._ends:
            if not name.strip() or "%x" in name:
                raise ValueError(f"{place}: {line!r} needs a name without %x after {where}:")
            self._ends[where].append(name.strip())
            return
        if line.startswith("B") and "%x" in line and ":" in line.partition("%x")[0]:
            raise ValueError(
                f"{place}: {line!r} asks for transitions that depend on the words, which a "
                "template does not make; leave the line out"
            )
        texts, parts, begin = [], [], 0
        for match in _MACRO.finditer(line):
            texts.append(line[begin : match.start()])
            part = _Part(int(match[1]), int(match[2]), match[3] or "")
            if abs(part.offset) > _FARTHEST:
                raise ValueError(f"{place}: {match[0]} looks more than {_FARTHEST} tokens away")
            if part.change and part.change != _EACH:
                _change(part.change, place)
            parts.append(part)
            begin = match.end()
        texts.append(line[begin:])
        if any("%x" in text for text in texts):
            raise ValueError(
                f"{place}: {line!r} has a macro that is not of the form %x[offset,column], "
                "for instance %x[-1,0] or %x[0,0:suffix3]"
            )
        each = any(part.change == _EACH for part in parts)
        if each and len(parts) > 1:
            raise ValueError(f"{place}: {line!r} has more than one macro, and one of them is :each")
        (self._spread if each else self._plain).append(_Line(tuple(texts), tuple(parts)))

    def tokens(self, sequences: Iterable[Sequence[Columns]]) -> Iterator[list[Any]]:
        """The attributes of the tokens of each sequence; a few dozen sequences are held."""
        rest, done = iter(sequences), 0
        while batch := list(islice(rest, _TOGETHER)):
            joined = list(chain.from_iterable(batch))
            widths = set(map(len, joined))
            if joined and min(widths) < self.n_columns:
                s = next(i for i, tokens in enumerate(batch) for token in tokens
                         if len(token) < self.n_columns)  # fmt: skip
                raise ValueError(
                    f"the template uses column {self.n_columns - 1}, but tokens of sequence "
                    f"{done + s} have {min(widths)} columns, counted from 0"
                )
            yield from self._batch(batch, joined)
            done += len(batch)

    def _batch(self, batch: list[Any], joined: list[Columns]) -> Iterator[list[Any]]:
        columns: dict[tuple[int, str], list[str]] = {}
        for part in {part for line in self._plain for part in line.parts}:
            if (part.column, part.change) not in columns:
                values = [token[part.column] for token in joined]
                if part.change:
                    values = list(map(_change(part.change), values))
                columns[part.column, part.change] = values
        features = [line.everywhere(columns, len(joined)) for line in self._plain]
        whole: list[Any] = list(zip(*features, strict=True)) if features else [()] * len(joined)
        begin = 0
        for sequence in batch:
            n = len(sequence)
            tokens = whole[begin : begin + n]
            early, late = range(min(self._near_first, n)), range(max(n - self._near_last, 0), n)
            for t in {*early, *late}:
                tokens[t] = self._at_end(tokens[t], t, n)
            for line in self._spread:
                tokens = _with_each(line, sequence, tokens)
            yield tokens
            begin += n

    def _at_end(self, names: tuple[str, ...], t: int, n: int) -> list[str]:
        """The attributes of a token near an end of its sequence."""
        inside = [
            name
            for (low, high), name in zip(self._reach, names, strict=True)
            if low + t >= 0 and high + t < n
        ]
        first, last = self._ends["first"], self._ends["last"]
        return inside + (first if t == 0 else []) + (last if t == n - 1 else [])


def _with_each(line: _Line, sequence: Sequence[Columns], tokens: list[Any]) -> list[Any]:
    """The tokens with an attribute more for each part of a column."""
    (before, after), (part,), n = line.texts, line.parts, len(sequence)
    return [
        [*names, *(f"{before}{one}{after}" for one in _parts(sequence[at][part.column]))]
        if 0 <= at < n
        else names
        for at, names in enumerate(tokens, start=part.offset)
    ]


def _parts(text: str) -> list[str]:
    return [] if text == "_" else text.split("|")


def _numbered(line: str, columns: Sequence[str], name: str) -> str:
    """A line whose macros have numbers in place of names of columns."""

    def number(match: re.Match[str]) -> str:
        if match[2] not in columns:
            known = f"the columns are {', '.join(columns)}" if columns else "give its number"
            raise ValueError(f"{name}: {line!r} names the column {match[2]}, and {known}")
        return f"{match[1]}{list(columns).index(match[2])}"

    return line if line.lstrip().startswith("#") else _NAMED.sub(number, line)


def lines_of(path: Path) -> list[str]:
    """The lines of a template's file."""
    lines = decoded(path.read_bytes(), path)
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]


def counts_columns(lines: Iterable[str]) -> bool:
    """Whether macros of a template call columns by their numbers."""
    return any(_MACRO.search(line) for line in lines if not line.lstrip().startswith("#"))


def names_of_columns(lines: Iterable[str]) -> list[str]:
    """The columns that the macros of a template call by name, in order."""
    kept = (line for line in lines if not line.lstrip().startswith("#"))
    return list(dict.fromkeys(match[2] for line in kept for match in _NAMED.finditer(line)))


def _shift(values: list[str], offset: int) -> list[str]:
    """values[t + offset] at t; anything beyond the ends."""
    size = len(values)
    if offset >= 0:
        return values[offset:] + [""] * min(offset, size)
    return [""] * min(-offset, size) + values[:offset]


def _shape(word: str) -> str:
    kinds = "".join(
        "X" if c.isupper() else "x" if c.islower() else "0" if c.isdigit() else c for c in word
    )
    return re.sub(r"(.)\1{2,}", r"\1\1", kinds)


def _change(name: str, place: str = "template") -> Callable[[str], str]:
    """What a macro does to its column."""
    if name == "lower":
        return str.lower
    if name == "shape":
        return _shape
    match = re.fullmatch(r"(prefix|suffix)([1-9]\d?)", name)
    if match is None:
        raise ValueError(
            f"{place}: {name!r} is no change of a column; there are each, lower, shape, prefixN "
            "and suffixN with a number N of characters"
        )
    count = int(match[2])
    return (lambda word: word[:count]) if match[1] == "prefix" else (lambda word: word[-count:])


TEMPLATES = {"chunking": Template(CHUNKING.splitlines()), "words": Template(WORDS.splitlines())}
