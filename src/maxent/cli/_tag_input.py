"""What a file for tag train is: its form, its columns, the labels, and a template that fits."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import typer


class Format(StrEnum):
    """Of files with one token per line."""

    auto = "auto"
    columns = "columns"
    conllu = "conllu"


class Layout(NamedTuple):
    """How a training file is read; see ``Tagger`` for the fields."""

    form: str
    template: Any
    columns: tuple[int, ...]
    label: int
    width: int
    comments: bool


def told_form(path: Path, given: Format) -> tuple[str, list[str]]:
    """ "columns" or "conllu", and a note where it was recognised."""
    from maxent.tagging.conll import COLUMNS, CONLLU
    from maxent.tagging.conllu import is_conllu

    if given is not Format.auto:
        return given.value, []
    if path.exists() and not path.is_file():  # a pipe can be read once
        return COLUMNS, [f"{path} is no plain file: read as columns; give --format to say so"]
    if not is_conllu(path):
        return COLUMNS, []
    return CONLLU, [f"{path} is read as CoNLL-U (--format columns reads it as plain columns)"]


def layout_of(
    path: Path,
    form: str,
    width: int,
    comments: bool,
    label_column: str | None,
    columns: str | None,
    template: str | None,
) -> tuple[Layout, list[str]]:
    """The layout by what was typed, and notes about what was guessed.

    ``width`` is the number of columns of the file.
    """
    from maxent.tagging.conll import CONLLU
    from maxent.tagging.conllu import FIELDS

    names = FIELDS if form == CONLLU else ()
    notes = []
    if label_column is None and names:
        label_column = "UPOS"
        notes.append("the labels are UPOS (--label-column takes others)")
    label = _column(label_column or "-1", width, names, "--label-column")
    if names and label == 0:
        raise typer.BadParameter("--label-column is the ID: it numbers the words, and is no label")
    lines = _lines_of(template)
    if columns is not None:
        used = _columns(columns, width, names, label)
    elif names:
        notes += _told_numbers(lines)
        used = _named(lines, label) or (_other_than(label, "FORM"),)
    else:
        used = tuple(c for c in range(width) if c != label)
    chosen, guessed = _template(template, lines, used, names)
    if chosen.n_columns > len(used):
        asked = "--columns has" if columns is not None or names else f"{path} has"
        raise typer.BadParameter(
            f"the template uses {chosen.n_columns} columns, counted from 0, and {asked} "
            f"{len(used)} beside the labels"
        )
    notes += [] if guessed is None else [guessed]
    return Layout(form, chosen, used, label, width, comments), notes


def _told_numbers(lines: Sequence[str] | None) -> list[str]:
    """What the numbers of a template for CoNLL-U are taken for."""
    from maxent.tagging.template import counts_columns, names_of_columns

    if lines is None or not counts_columns(lines):
        return []
    if names_of_columns(lines):
        raise typer.BadParameter(
            "the template calls columns by numbers and by names: name them all, as in "
            "%x[0,FORM], or say what 0, 1 ... are with --columns"
        )
    return ["column 0 of the template is FORM (--columns takes others)"]


def _other_than(label: int, name: str) -> int:
    from maxent.tagging.conllu import field_number

    number = field_number(name)
    if number == label:
        raise typer.BadParameter(f"the labels are {name}: give other --columns for the template")
    return number


def _named(lines: Sequence[str] | None, label: int) -> tuple[int, ...]:
    """The columns of CoNLL-U that a template calls by name."""
    from maxent.tagging.conllu import field_number
    from maxent.tagging.template import names_of_columns

    used = tuple(field_number(name) for name in names_of_columns(lines or ()))
    if label in used:
        raise typer.BadParameter("the template uses the column of the labels")
    return used


def _column(text: str, width: int, names: Sequence[str], flag: str) -> int:
    if text.upper() in names:
        return list(names).index(text.upper())
    try:
        number = int(text)
    except ValueError:
        known = f"or one of {', '.join(names)}" if names else "and names in CoNLL-U alone"
        raise typer.BadParameter(f"{flag} takes a number, {known}; got {text!r}") from None
    if not -width <= number < width:
        raise typer.BadParameter(f"{flag} is {number}, but the file has {width} columns")
    return number % width


def _columns(text: str, width: int, names: Sequence[str], label: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not names and not all(part.removeprefix("-").isdecimal() for part in parts):
        raise typer.BadParameter(
            f"--columns are numbers such as 0,1 (or names, in CoNLL-U), got {text!r}"
        )
    used = tuple(_column(part, width, names, "--columns") for part in parts)
    if label in used:
        raise typer.BadParameter(f"--columns has column {label}, which holds the labels")
    return used


def _lines_of(template: str | None) -> list[str] | None:
    """The lines of a template's file; None where it is none."""
    from maxent.tagging import TEMPLATES
    from maxent.tagging.template import lines_of

    if template is None or (template in TEMPLATES and not Path(template).exists()):
        return None
    if not Path(template).is_file():
        raise typer.BadParameter(
            f"--template {template}: no such file, and no template of that name "
            f"({', '.join(TEMPLATES)})"
        )
    return lines_of(Path(template))


def _template(
    text: str | None, lines: Sequence[str] | None, used: tuple[int, ...], names: Sequence[str]
) -> tuple[Any, str | None]:
    """The template, and what was guessed."""
    from maxent.tagging import TEMPLATES, Template

    own = [names[c] for c in used] if names else []
    if lines is not None:
        return Template(lines, str(text), own), None
    if text is not None:
        return TEMPLATES[text], None
    if not used:
        raise typer.BadParameter("the file has one column, which holds the labels")
    if names:
        made = Template([*TEMPLATES["words"].lines, *_lines_for(own)], columns=own)
        more = "".join(f", {name} of it and its neighbours" for name in own[1:])
        return made, f"the template is words, of {own[0]}{more} (--columns, --template choose)"
    name = "chunking" if len(used) == 2 else "words"
    said = f"{len(used)} column{'s' if len(used) > 1 else ''} beside the labels"
    return TEMPLATES[name], f"{said}: the template is {name} (--template chooses another)"


def _lines_for(names: Sequence[str]) -> list[str]:
    """Lines for the columns after the first: of a token and its two neighbours."""
    return [
        f"{name}[{offset}]=%x[{offset},{name}{':each' if name == 'FEATS' else ''}]"
        for name in names[1:]
        for offset in (-1, 0, 1)
    ]
