"""SequenceBlock: some of the sequences of a training set, with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class SequenceBlock:
    """Sequences X and the labels y of each; without y, pairs (sequence, labels).

    ``sample_weight`` is one number per sequence, None for ones. ``hash_bits`` numbers the names of
    attributes by a hash, see ``maxent.tagging.Attributes``. A block that reads a file when it is
    asked has a ``load`` of its own.
    """

    number: int
    X: Any
    y: Any = None
    sample_weight: Any = None
    hash_bits: int | None = None

    def load(self) -> SequenceBlock:
        """The block with its sequences in memory."""
        return self
