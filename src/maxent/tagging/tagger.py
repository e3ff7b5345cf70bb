"""A tagging model of column files: a template, and the classifier of what it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxent import io
from maxent.tagging.attributes import Tokens
from maxent.tagging.conll import COLUMNS, CONLLU, read_conll
from maxent.tagging.conllu import FIELDS, MAY_BE_NOTHING, ConlluSentence, read_conllu
from maxent.tagging.template import Template

Sentence = Sequence[Sequence[str]]  # the columns of each token


@io.register
@dataclass(frozen=True, eq=False)
class Tagger:
    """What ``maxent tag train`` writes.

    Attributes
    ----------
    template : Template
        Makes the attributes of a token from its columns.
    classifier : estimator
        A fitted ``ChainClassifier``, ``L2CRFCV`` or ``M3NCV``.
    columns : tuple of int
        Columns of the file that the template counts as 0, 1, 2 ...
    label_column : int
        Column of the labels in the training file, from 0.
    n_columns : int
        Number of columns of the training file.
    comments : bool
        Whether lines that begin with # were left out.
    form : "columns" or "conllu"
        What the training file was: columns, or CoNLL-U with its ten.
    """

    template: Template
    classifier: Any
    columns: tuple[int, ...]
    label_column: int
    n_columns: int
    comments: bool = field(default=False)
    form: str = field(default=COLUMNS, metadata=io.LATER)

    def __post_init__(self) -> None:
        if not hasattr(self.classifier, "predict_kbest"):
            raise TypeError(f"a Tagger needs a ChainClassifier, got {type(self.classifier)}")
        if self.form not in (COLUMNS, CONLLU):
            raise ValueError(f"form must be {COLUMNS!r} or {CONLLU!r}, got {self.form!r}")
        if self.form == CONLLU and self.n_columns != len(FIELDS):
            raise ValueError(f"CoNLL-U has {len(FIELDS)} columns, not {self.n_columns}")
        inside = all(0 <= c < self.n_columns for c in (*self.columns, self.label_column))
        if not inside or len(self.columns) < self.template.n_columns:
            raise ValueError(f"columns {self.columns} are not those of the template and the file")

    def read(self, path: str | Path) -> tuple[list[Sentence], list[list[str]] | None]:
        """Sentences of a file, and their labels; None where the file has no column of labels.

        Such a file has one column less than that of training, or, in CoNLL-U, _ for all words.
        """
        sentences = read_sentences(Path(path), self.comments, self.form)
        if self.form == CONLLU:
            return self.split(sentences)
        width = len(sentences[0][0])
        if width == self.n_columns:
            return self.split(sentences)
        if width == self.n_columns - 1:
            return sentences, None
        raise ValueError(
            f"{path} has {width} columns; the model was trained on {self.n_columns}, so give as "
            f"many, or {self.n_columns - 1} without the labels"
        )

    def read_whole(self, path: str | Path) -> list[ConlluSentence]:
        """Sentences of a CoNLL-U file with their comments, ranges and empty nodes."""
        return read_conllu(path)

    def split(self, sentences: list[Sentence]) -> tuple[list[Sentence], list[list[str]] | None]:
        """Sentences with a column of labels, and the labels; None where all are _ in CoNLL-U."""
        labels = [[token[self.label_column] for token in tokens] for tokens in sentences]
        absent = self.form == CONLLU and all(label == "_" for row in labels for label in row)
        return sentences, None if absent else labels

    def tokens(self, sentences: Sequence[Sentence]) -> Tokens:
        """The attributes of sentences, in the numbers of the classifier."""
        picked = pick(sentences, self._present(len(sentences[0][0])))
        tokens: Tokens = self.classifier.attributes_.transform(self.template.tokens(picked))
        return tokens

    def _present(self, width: int) -> tuple[int, ...]:
        """The template's columns in a file with labels or without them."""
        if width == self.n_columns:
            return self.columns
        return tuple(c - (c > self.label_column) for c in self.columns)


def read_sentences(path: Path, comments: bool, form: str) -> list[Sentence]:
    """The sequences of a file of either form; of CoNLL-U its words alone."""
    if form == CONLLU:
        return [sentence.words for sentence in read_conllu(path) if sentence.places]
    return list(read_conll(path, comments=comments))


def pick(sentences: Sequence[Sentence], columns: Sequence[int]) -> list[Sentence]:
    """Sentences with these columns alone."""
    return [[tuple(token[c] for c in columns) for token in tokens] for tokens in sentences]


def check_annotated(path: Path, sentences: Sequence[Sentence], column: int) -> None:
    """Refuse words of a CoNLL-U file without a label, where _ is none."""
    name = FIELDS[column]
    if name in MAY_BE_NOTHING:
        return
    lacking = [token[FIELDS.index("FORM")] for tokens in sentences for token in tokens
               if token[column] == "_"]  # fmt: skip
    if lacking:
        raise ValueError(
            f"{path}: {len(lacking)} words have no {name} (_), the first is {lacking[0]!r}: leave "
            "those sentences out, or take another --label-column"
        )


def load_tagger(path: str | Path) -> Tagger:
    """The tagging model of a file.

    Parameters
    ----------
    path : path
        The file.
    """
    import maxent.learn.structured.chain_cv  # noqa: F401 - registers the classifiers

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such model; make one with `maxent tag train`")
    loaded: Any = io.load(path)
    if not isinstance(loaded, Tagger):
        raise ValueError(
            f"{path} holds a {type(loaded).__name__}, which is no tagging model; expected a file "
            "written by `maxent tag train`"
        )
    return loaded
