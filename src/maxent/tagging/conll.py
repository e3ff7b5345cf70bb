"""CoNLL column files: one token per line, blank lines between sequences."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_BEGINS, _ENDS, _ALL = set("BSU"), set("ESLU"), set("BIESLU")


class TypeScores(NamedTuple):
    """Precision, recall and F1 of the phrases of one type."""

    precision: float
    recall: float
    f1: float
    correct: int
    predicted: int
    given: int


class PhraseScores(NamedTuple):
    """Phrases as conlleval counts them: right in their ends and their type."""

    precision: float
    recall: float
    f1: float
    accuracy: float  # of tokens
    correct: int
    predicted: int
    given: int
    types: dict[str, TypeScores]


def read_conll(
    path: str | Path, separator: str | None = None, comments: bool = False
) -> list[list[tuple[str, ...]]]:
    """Sequences of tokens, each a tuple of its columns; .gz files are unpacked.

    separator : between columns; by default tabs in lines that have one, else spaces.
    comments : whether lines that begin with # are left out, as in Universal Dependencies.

    All lines have the same number of columns. A malformed line raises a ValueError with the file
    and the number of the line.
    """
    path = Path(path)
    sequences: list[list[tuple[str, ...]]] = []
    current: list[tuple[str, ...]] = []
    width = 0
    for number, line in enumerate(_text(path).split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip():
            if current:
                sequences.append(current)
                current = []
            continue
        if comments and line.startswith("#"):
            continue
        columns = _columns(line, separator)
        width = width or len(columns)
        if len(columns) != width:
            raise ValueError(
                f"{path}, line {number}: {len(columns)} columns where the lines before have "
                f"{width}: {line[:80]!r}"
            )
        if "" in columns:
            raise ValueError(
                f"{path}, line {number}: column {columns.index('')} is empty: {line[:80]!r}"
            )
        current.append(columns)
    if current:
        sequences.append(current)
    if not sequences:
        raise ValueError(f"{path} has no tokens")
    return sequences


def _text(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is no gzip file, or cut short: {error}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from error


def _columns(line: str, separator: str | None) -> tuple[str, ...]:
    if separator is not None:
        return tuple(line.split(separator))
    if "\t" in line:
        return tuple(line.split("\t"))
    return tuple(filter(None, line.split(" ")))


def are_phrase_tags(labels: set[str]) -> bool:
    """Whether all labels are O or PREFIX-TYPE with a prefix of ``phrases``, and one has a type."""
    typed = labels - {"O"}
    return bool(typed) and all(
        prefix in _ALL and kind for prefix, _, kind in (label.partition("-") for label in typed)
    )


def phrases(tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(first, end, type) of the phrases of B- / I- / O tags, by the rules of conlleval.

    A B- tag begins a phrase. An I- tag goes on with a phrase of its type, and begins one after O or
    another type; so the older form, which has B- between two phrases of one type alone, is read by
    the same rule. Prefixes of single tokens (S-, U-) and of ends (E-, L-) are read as well.

    >>> list(phrases(["B-NP", "I-NP", "I-VP", "O", "I-NP"]))
    [(0, 2, 'NP'), (2, 3, 'VP'), (4, 5, 'NP')]
    >>> list(phrases(["B-NP", "E-NP", "S-NP"]))
    [(0, 2, 'NP'), (2, 3, 'NP')]
    """
    first, kind = 0, ""
    for t, tag in enumerate(tags):
        prefix, _, own = tag.partition("-")
        if tag != "O" and (prefix not in _ALL or not own):
            raise ValueError(f"tag {t} is {tag!r}, expected O, B-TYPE or I-TYPE")
        if kind and (tag == "O" or prefix in _BEGINS or own != kind):
            yield first, t, kind
            kind = ""
        if tag != "O":
            if not kind:
                first, kind = t, own
            if prefix in _ENDS:
                yield first, t + 1, kind
                kind = ""
    if kind:
        yield first, len(tags), kind


def phrase_scores(
    given: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> PhraseScores:
    """Precision, recall and F1 of phrases over all sequences, and of each type.

    >>> phrase_scores([["B-NP", "O"]], [["B-NP", "B-NP"]]).precision
    0.5
    """
    if len(given) != len(predicted):
        raise ValueError(f"{len(given)} sequences of tags, but {len(predicted)} predicted ones")
    right: Counter[str] = Counter()
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    same = total = 0
    for i, (truth, guess) in enumerate(zip(given, predicted, strict=True)):
        if len(truth) != len(guess):
            raise ValueError(f"sequence {i} has {len(truth)} tags, but {len(guess)} predicted ones")
        a, b = set(phrases(truth)), set(phrases(guess))
        for counter, found in ((right, a & b), (ours, b), (theirs, a)):
            counter.update(kind for _, _, kind in found)
        same += sum(x == y for x, y in zip(truth, guess, strict=True))
        total += len(truth)
    types = {
        kind: _scores(right[kind], ours[kind], theirs[kind]) for kind in sorted({*ours, *theirs})
    }
    whole = _scores(right.total(), ours.total(), theirs.total())
    return PhraseScores(*whole[:3], same / max(total, 1), *whole[3:], types)


def _scores(correct: int, predicted: int, given: int) -> TypeScores:
    precision, recall = correct / max(predicted, 1), correct / max(given, 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-300)
    return TypeScores(precision, recall, f1, correct, predicted, given)
