"""CoNLL column files: one token per line, blank lines between sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from maxent.tagging.conllu import conllu_sentences, is_word
from maxent.tagging.textfile import (
    decoded,
    is_blank,
    is_blank_bytes,
    opened,
    read_bytes,
    unpacking,
)

COLUMNS, CONLLU = "columns", "conllu"  # the forms of files

_BEGINS, _ENDS, _ALL = set("BSU"), set("ESLU"), set("BIESLU")


class TypeScores(NamedTuple):
    """Precision, recall and F1 of the phrases of one type.

    Attributes
    ----------
    precision : float
        Share of the predicted phrases that are right.
    recall : float
        Share of the given phrases that are found.
    f1 : float
        Harmonic mean of both.
    correct : int
        Phrases that are right.
    predicted : int
        Phrases predicted.
    given : int
        Phrases given.
    """

    precision: float
    recall: float
    f1: float
    correct: int
    predicted: int
    given: int


class PhraseScores(NamedTuple):
    """Phrases as conlleval counts them: right in their ends and their type.

    Attributes
    ----------
    precision : float
        Share of the predicted phrases that are right.
    recall : float
        Share of the given phrases that are found.
    f1 : float
        Harmonic mean of both.
    accuracy : float
        Share of the tags that are right.
    correct : int
        Phrases that are right.
    predicted : int
        Phrases predicted.
    given : int
        Phrases given.
    types : dict of TypeScores
        Scores of each type.
    """

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

    All lines have the same number of columns. A malformed line raises a ValueError with the file
    and the number of the line.

    Parameters
    ----------
    path : path
        The file.
    separator : str, default None
        Between columns; None is tabs in lines that have one, else spaces.
    comments : bool, default False
        Whether lines that begin with # are left out, as in Universal Dependencies.
    """
    path = Path(path)
    sequences = list(_sequences(decoded(read_bytes(path), path), path, separator, comments))
    if not sequences:
        raise ValueError(f"{path} has no tokens")
    return sequences


def has_tabs(path: Path) -> bool:
    """Whether columns are separated by tabs in the first line that is not blank."""
    with unpacking(path), opened(path) as file:
        told = (line for line in file if not is_blank_bytes(line) and line[:1] != b"#")
        return b"\t" in next(told, b"")


class Span(NamedTuple):
    """A piece of a file between sequences: its bytes, unpacked, and the number of its first line.

    With how many sequences and tokens it has.
    """

    start: int
    stop: int
    line: int
    sequences: int
    tokens: int


def conll_spans(
    path: str | Path, size: int, comments: bool = False, form: str = COLUMNS
) -> list[Span]:
    """A file cut between sequences, into pieces of ``size`` bytes or a little more.

    One line at a time is in memory.
    """
    spans = list(iterate_spans(path, size, comments, form))
    if not any(span.tokens for span in spans):
        raise ValueError(f"{path} has no tokens")
    return spans


def iterate_spans(
    path: str | Path, size: int, comments: bool = False, form: str = COLUMNS
) -> Iterator[Span]:
    """The pieces of ``conll_spans`` one after another."""
    start = at = 0
    line = first = 1
    sequences = tokens = inside = 0
    with unpacking(Path(path)), opened(Path(path)) as file:
        for text in file:
            at, line = at + len(text), line + 1
            if not is_blank_bytes(text):
                counted = (
                    is_word(text) if form == CONLLU else not (comments and text.startswith(b"#"))
                )
                inside, tokens = inside + counted, tokens + counted
                continue
            sequences, inside = sequences + (inside > 0), 0
            if at - start >= size:
                yield Span(start, at, first, sequences, tokens)
                start, first, sequences, tokens = at, line, 0, 0
    if at > start:
        yield Span(start, at, first, sequences + (inside > 0), tokens)


def read_conll_span(
    path: str | Path, span: Span, width: int = 0, comments: bool = False, form: str = COLUMNS
) -> list[list[tuple[str, ...]]]:
    """The sequences of a piece of a file, see ``read_conll``; ``width`` is that of its lines."""
    path = Path(path)
    with unpacking(path), opened(path) as file:
        file.seek(span.start)
        content = file.read(span.stop - span.start)
    lines = decoded(content, path, span.line)
    if form == CONLLU:
        read = conllu_sentences(lines, path, span.line)
        return [sentence.words for sentence in read if sentence.places]
    return list(_sequences(lines, path, None, comments, span.line, width))


def _sequences(
    lines: Iterable[str],
    path: Path,
    separator: str | None,
    comments: bool,
    first: int = 1,
    width: int = 0,
) -> Iterator[list[tuple[str, ...]]]:
    current: list[tuple[str, ...]] = []
    hashes: int | None = None  # the first line that begins with #
    known: dict[str, str] = {}  # words and tags come again and again: one text each
    for number, line in enumerate(lines, start=first):
        line = line.rstrip("\r")
        if is_blank(line):
            if current:
                yield current
                current = []
            continue
        if comments and line.startswith("#"):
            continue
        if hashes is None and line.startswith("#"):
            hashes = number
        columns = _columns(line, separator)
        width = width or len(columns)
        if len(columns) != width:
            raise ValueError(
                f"{path}, line {number}: {len(columns)} columns where the lines before have "
                f"{width}: {line[:80]!r}{_about_comments(hashes)}"
            )
        if "" in columns:
            raise ValueError(
                f"{path}, line {number}: column {columns.index('')} is empty: {line[:80]!r}"
            )
        current.append(tuple([known.setdefault(text, text) for text in columns]))
    if current:
        yield current


def _about_comments(line: int | None) -> str:
    if line is None:
        return ""
    return (
        f"; line {line} begins with #: if that is a comment, `tag train --comments` makes a model "
        "that leaves such lines out (comments=True in Python)"
    )


def _columns(line: str, separator: str | None) -> tuple[str, ...]:
    if separator is not None:
        return tuple(line.split(separator))
    if "\t" in line:
        return tuple(line.split("\t"))
    return tuple(filter(None, line.split(" ")))


def are_phrase_tags(labels: set[str]) -> bool:
    """Whether all labels are O or PREFIX-TYPE with a prefix of ``phrases``, and one has a type.

    Parameters
    ----------
    labels : set of str
        The labels.
    """
    typed = labels - {"O"}
    return bool(typed) and all(
        prefix in _ALL and kind for prefix, _, kind in (label.partition("-") for label in typed)
    )


def phrases(tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(first, end, type) of the phrases of B- / I- / O tags, by the rules of conlleval.

    A B- tag begins a phrase. An I- tag goes on with a phrase of its type, and begins one after O or
    another type; so the older form, which has B- between two phrases of one type alone, is read by
    the same rule. Prefixes of single tokens (S-, U-) and of ends (E-, L-) are read as well.

    Parameters
    ----------
    tags : sequence of str
        Tags of a sequence.

    Examples
    --------
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

    Parameters
    ----------
    given : sequence of sequences of str
        Tags of each sequence.
    predicted : sequence of sequences of str
        Predicted tags of each.

    Examples
    --------
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
