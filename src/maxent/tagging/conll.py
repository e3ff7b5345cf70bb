"""CoNLL column files: one token per line, blank lines between sequences."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class PhraseScores(NamedTuple):
    """Phrases as conlleval counts them: right in their ends and their type."""

    precision: float
    recall: float
    f1: float
    accuracy: float  # of tokens
    correct: int
    predicted: int
    given: int


def read_conll(path: str | Path, separator: str | None = None) -> list[list[tuple[str, ...]]]:
    """Sequences of tokens, each a tuple of its columns; .gz files are unpacked.

    ``separator`` is any white space by default. All lines have the same number of columns.
    """
    path = Path(path)
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    sequences: list[list[tuple[str, ...]]] = []
    current: list[tuple[str, ...]] = []
    width = 0
    for number, line in enumerate(text.splitlines(), start=1):
        columns = tuple(line.split(separator)) if line.strip() else ()
        if not columns:
            if current:
                sequences.append(current)
                current = []
            continue
        width = width or len(columns)
        if len(columns) != width:
            raise ValueError(
                f"{path}, line {number}: {len(columns)} columns where the lines before have "
                f"{width}: {line!r}"
            )
        current.append(columns)
    if current:
        sequences.append(current)
    if not sequences:
        raise ValueError(f"{path} has no tokens")
    return sequences


def phrases(tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(first, end, type) of the phrases of B- / I- / O tags, by the rules of conlleval.

    An I- tag after another type, or after O, begins a phrase too.

    >>> list(phrases(["B-NP", "I-NP", "I-VP", "O", "I-NP"]))
    [(0, 2, 'NP'), (2, 3, 'VP'), (4, 5, 'NP')]
    """
    first, kind = 0, ""
    for t, tag in enumerate([*tags, "O"]):
        prefix, _, own = tag.partition("-")
        goes_on = prefix == "I" and own == kind and kind
        if kind and not goes_on:
            yield first, t, kind
            kind = ""
        if prefix in ("B", "I") and not goes_on:
            first, kind = t, own
            if not own:
                raise ValueError(f"tag {t} is {tag!r}, expected O, B-TYPE or I-TYPE")
        elif prefix not in ("B", "I", "O"):
            raise ValueError(f"tag {t} is {tag!r}, expected O, B-TYPE or I-TYPE")


def phrase_scores(
    given: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> PhraseScores:
    """Precision, recall and F1 of phrases over all sequences.

    >>> phrase_scores([["B-NP", "O"]], [["B-NP", "B-NP"]]).precision
    0.5
    """
    if len(given) != len(predicted):
        raise ValueError(f"{len(given)} sequences of tags, but {len(predicted)} predicted ones")
    right = ours = theirs = same = total = 0
    for i, (truth, guess) in enumerate(zip(given, predicted, strict=True)):
        if len(truth) != len(guess):
            raise ValueError(f"sequence {i} has {len(truth)} tags, but {len(guess)} predicted ones")
        a, b = set(phrases(truth)), set(phrases(guess))
        right, ours, theirs = right + len(a & b), ours + len(b), theirs + len(a)
        same += sum(x == y for x, y in zip(truth, guess, strict=True))
        total += len(truth)
    precision, recall = right / max(ours, 1), right / max(theirs, 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-300)
    return PhraseScores(precision, recall, f1, same / max(total, 1), right, ours, theirs)
