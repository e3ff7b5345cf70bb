"""SequenceBlock: some of the sequences of a training set, with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class SequenceBlock:
    """Sequences X and the labels y of each; without y, pairs (sequence, labels).

    A block that reads a file when it is asked has a ``load`` of its own.

    Parameters
    ----------
    number : int
        Number of the block.
    X : sequences
        The sequences, or pairs (sequence, labels).
    y : sequences, default None
        Labels of each sequence.
    sample_weight : array (n_sequences,), default None
        One number per sequence, None for ones.
    hash_bits : int, default None
        Number the names of attributes by a hash, see ``maxent.tagging.Attributes``.
    """

    number: int
    X: Any
    y: Any = None
    sample_weight: Any = None
    hash_bits: int | None = None

    def load(self) -> SequenceBlock:
        """The block with its sequences in memory."""
        return self
