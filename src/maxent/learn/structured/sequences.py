"""Sequences and their labels, as the estimators of structures read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from maxent.core.maps import ChainMap
from maxent.rows.arrays import Array

HIDDEN = -1  # the state of a position without a label
TWO_KINDS = "y has texts and numbers for labels: give one of the two"


@dataclass(frozen=True)
class Labels:
    """The states of all positions, one sequence after another; HIDDEN where y had None."""

    classes: Array
    states: Array
    lengths: Array

    @property
    def hidden(self) -> bool:
        """Whether some label is missing."""
        return bool((self.states == HIDDEN).any())

    def paths(self) -> list[Array]:
        """The states of each sequence."""
        return split(self.states, self.lengths)


def stack(sequences: list[Any]) -> tuple[Any, Array]:
    """Matrices of numbers, one below the other, and the length of each."""
    for i, sequence in enumerate(sequences):
        if not (sparse.issparse(sequence) or is_matrix(sequence)):
            raise ValueError(
                f"sequence {i} is {type(sequence).__name__}, the ones before are matrices "
                "(positions, features): do not mix kinds"
            )
        if np.ndim(sequence) == 2 and 0 in np.shape(sequence):
            raise ValueError(f"sequence {i} is empty, of shape {np.shape(sequence)}: leave it out")
    whole = ChainMap(sequences, 1)
    return whole.X, whole.lengths


def split(whole: Any, lengths: Array) -> list[Any]:
    """What belongs to each sequence."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return [whole[a:b] for a, b in pairwise(ends)]


def is_matrix(sequence: Any) -> bool:
    """Whether a sequence is an array, or nested numbers, rather than a list of tokens."""
    if isinstance(sequence, np.ndarray):
        return sequence.dtype.kind != "U" and (sequence.dtype.kind != "O" or sequence.ndim == 2)
    first = next(iter(sequence), None) if isinstance(sequence, Sequence) else None
    return isinstance(first, np.ndarray | list | tuple) and all(
        isinstance(value, Real) for value in first
    )


def read_labels(name: str, y: Any, lengths: Array) -> list[Array]:
    """The labels of each sequence, as many as it has positions."""
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None: give the labels of each "
            "sequence"
        )
    given = list(y)
    labels = [np.asarray(sequence) for sequence in given]
    check_count(labels, len(lengths))
    for i, (row, length) in enumerate(zip(labels, lengths, strict=True)):
        if row.shape != (length,):
            raise ValueError(
                f"sequence {i} has {length} positions in X, but labels of shape {row.shape} in y"
            )
        if row.size and row.dtype.kind not in "biuUO":
            raise ValueError(
                f"the labels of sequence {i} are {row.dtype}: expected texts, integers, or None "
                "where one is hidden"
            )
    if len({kind for row in given for kind in _kinds(row)}) > 1:
        raise ValueError(TWO_KINDS)
    return labels


def check_count(labels: list[Any], count: int) -> None:
    """Refuse labels that are not those of so many sequences."""
    if len(labels) != count:
        raise ValueError(
            f"X has {count} sequences, y has {len(labels)}: give one sequence of labels for each"
        )


def _kinds(row: Any) -> set[bool]:
    """Whether labels of a sequence are texts: of one that mixes them, True and False."""
    if isinstance(row, np.ndarray) and row.dtype.kind != "O":
        return {row.dtype.kind == "U"} if row.size else set()
    return {isinstance(label, str) for label in row if label is not None}


def number_labels(labels: list[Array]) -> Labels:
    """Numbers of the labels in the order of the sorted classes."""
    whole = np.concatenate(labels)
    known = whole != None if whole.dtype.kind == "O" else np.ones(whole.size, bool)  # noqa: E711
    if not known.any():
        raise ValueError("all labels are hidden (None): at least two different ones are needed")
    classes, numbers = sorted_classes(whole[known])
    check_classes(classes)
    states = np.full(whole.size, HIDDEN)
    states[known] = numbers
    return Labels(classes, states, np.array([row.size for row in labels], np.int64))


def sorted_classes(labels: Array) -> tuple[Array, Array]:
    """The different labels in order, and the number of each label."""
    given = labels if labels.dtype.kind == "U" else np.array(labels.tolist())
    if given.dtype.kind not in "biuU":
        raise ValueError(f"labels must be texts or integers, got {given.dtype}")
    classes, numbers = np.unique(given, return_inverse=True)
    return np.array(classes.tolist()), numbers


def check_classes(classes: Array) -> None:
    """Refuse a single one."""
    if len(classes) < 2:
        (only,) = classes.tolist()
        raise ValueError(f"all labels are {only!r}: at least two different ones are needed")


def look_up(labels: list[Array], classes: Array) -> list[Array]:
    """The numbers of labels; one that training did not have is refused."""
    order = {label: i for i, label in enumerate(classes.tolist())}
    unknown = sorted({str(v) for row in labels for v in row.tolist() if v not in order})
    if unknown:
        raise ValueError(
            f"y has labels that training did not have: {', '.join(unknown[:5])}; their loss is "
            "infinite. Use score, which counts them as wrong, or leave those sequences out"
        )
    return [np.array([order[v] for v in row.tolist()]) for row in labels]
