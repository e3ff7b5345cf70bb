"""Blocks of a column file that are read where they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxent.rows.blocks.sequences import SequenceBlock
from maxent.tagging.conll import (
    COLUMNS,
    CONLLU,
    Span,
    conll_spans,
    iterate_spans,
    read_conll_span,
)
from maxent.tagging.tagger import Sentence, check_annotated, pick
from maxent.tagging.template import Template

_FIRST = 1 << 16  # bytes from which the columns are told


class TemplateTokens:
    """Sentences as the tokens that a template makes, a few hundred at a time."""

    def __init__(self, template: Template, sentences: Sequence[Sentence]) -> None:
        self._template, self._sentences = template, sentences

    def __len__(self) -> int:
        return len(self._sentences)

    def __iter__(self) -> Iterator[Any]:
        return self._template.tokens(self._sentences)


@dataclass(frozen=True, eq=False)
class ColumnBlock:
    """A piece of a column file, to be read by whoever needs it; see ``Tagger`` for the columns."""

    number: int
    path: Path
    span: Span
    template: Template
    columns: tuple[int, ...]
    label_column: int
    n_columns: int
    comments: bool
    hash_bits: int | None
    form: str = COLUMNS

    def load(self) -> SequenceBlock:
        """Its sentences with their labels."""
        try:
            sentences = read_conll_span(
                self.path, self.span, self.n_columns, self.comments, self.form
            )
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.path} is not there for a worker: put it where all workers see it"
            ) from None
        labels = [[token[self.label_column] for token in tokens] for tokens in sentences]
        if self.form == CONLLU:
            check_annotated(self.path, sentences, self.label_column)
        tokens = TemplateTokens(self.template, pick(sentences, self.columns))
        return SequenceBlock(self.number, tokens, labels, hash_bits=self.hash_bits)


def first_sentences(path: Path, comments: bool, form: str = COLUMNS) -> list[Sentence]:
    """A few sentences from the beginning of a file, which tell its columns."""
    spans = iterate_spans(path, _FIRST, comments, form)
    first = next((span for span in spans if span.tokens), None)
    if first is None:
        raise ValueError(f"{path} has no tokens")
    return list(read_conll_span(path, first, comments=comments, form=form))


def column_blocks(
    path: Path,
    template: Template,
    columns: tuple[int, ...],
    label_column: int,
    n_columns: int,
    size: int,
    *,
    comments: bool,
    hash_bits: int | None,
    form: str = COLUMNS,
) -> list[ColumnBlock]:
    """A file in blocks of ``size`` bytes or a little more."""
    told = template, columns, label_column, n_columns, comments, hash_bits, form
    path = Path(path).absolute()
    return [
        ColumnBlock(number, path, span, *told)
        for number, span in enumerate(conll_spans(path, size, comments, form))
    ]
