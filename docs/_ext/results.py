"""Numbers on pages come from results: a role and a directive read csv files when the site is built.

    {result}`experiments/ocr_folds.csv; model=M3N; folds=1; accuracy; .3f`

reads ``experiments/results/ocr_folds.csv``: the one row whose columns have these values, the column
named next, and the format of the number. A row that is missing, or two that match, is a warning,
and so an error of the build. A table has one row of the csv in each line,

    ```{results-table} experiments/dependency_parsing.csv
    caption: Unlabelled attachment, in percent
    where: language = en | vi
    column: {language} as Language
    column: {loss} as Loss
    column: {test:.2f} as Here
    paper column: The paper's (Table 5)
    paper: en = 87.02
    name: en as English
    ```

or one cell of it for every pair of a line and a value of the column named by ``across``:

    ```{results-table} experiments/label_proportions_summary.csv
    where: refit = True
    column: {set} as Data set
    across: method
    cell: {js:.3f} ({js_paper:.3f})
    ```

``where`` selects rows and gives the order of its values; ``name`` replaces the text of a cell or
heading; ``mean by: COLUMN; COLUMN`` first averages rows that agree in these columns, and adds
``NAME_se``, the standard error of each mean. A field without an entry leaves its cell empty. The
paper's numbers are typed in, one for each first cell of a line. Captions, headings and names may
have markup.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).parents[2]
_FIELD = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")
_INSIDE = re.compile(r"(?<=\d) (?=[±(])|(?<=±) ")  # where a number must not be cut in two
Row = dict[str, str]


@cache
def rows(name: str) -> tuple[Row, ...]:
    """The rows of ``experiments/FILE`` or ``benchmarks/FILE``."""
    folder, file = name.split("/", 1)
    with open(ROOT / folder / "results" / file, newline="", encoding="utf-8") as source:
        return tuple(csv.DictReader(source))


def cell(name: str, where: dict[str, str], column: str) -> str:
    """The entry of the one row that has these values."""
    found = [row for row in rows(name) if all(row.get(k) == v for k, v in where.items())]
    if len(found) != 1:
        raise ValueError(f"{name}: {len(found)} rows have {where}, one was expected")
    if column not in found[0]:
        raise ValueError(f"{name}: no column {column!r}; there are {', '.join(found[0])}")
    return found[0][column]


def shown(text: str) -> str:
    """``FILE; COLUMN=VALUE; ...; COLUMN; FORMAT`` as the number it stands for."""
    name, *conditions, column, form = (part.strip() for part in text.split(";"))
    where = dict(condition.split("=", 1) for condition in conditions)
    value = cell(name, where, column)
    return format(float(value), form) if form else value


def filled(template: str, row: Row) -> str:
    """``{COLUMN:FORMAT}`` in a text replaced by the entries of a row; empty where one is."""
    fields = [match[1] for match in _FIELD.finditer(template)]
    if missing := [field for field in fields if field not in row]:
        raise ValueError(f"no column {', '.join(missing)}; there are {', '.join(row)}")
    if any(row[field] in ("", "nan") for field in fields):
        return ""
    return _FIELD.sub(lambda f: format(float(row[f[1]]), f[2]) if f[2] else row[f[1]], template)


def selected(found: Iterable[Row], column: str, values: list[str]) -> list[Row]:
    """Rows with one of these values in a column, in the order of the values."""
    found = list(found)
    for value in values:
        if not any(row.get(column) == value for row in found):
            raise ValueError(f"no row has {column} = {value}")
    chosen = [row for row in found if row[column] in values]
    return sorted(chosen, key=lambda row: values.index(row[column]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def averaged(found: Iterable[Row], keys: list[str]) -> list[Row]:
    """One row for each combination of keys, with means and standard errors of the numbers."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in found:
        if missing := [key for key in keys if key not in row]:
            raise ValueError(f"no column {', '.join(missing)}; there are {', '.join(row)}")
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    means = []
    for values, group in groups.items():
        mean = dict(zip(keys, values, strict=True))
        for column in group[0].keys() - set(keys):
            entries = [row[column] for row in group]
            if all(map(_is_number, entries)):
                numbers = [float(entry) for entry in entries]
                mean[column] = repr(fmean(numbers))
                known = len(numbers) > 1 and all(map(isfinite, numbers))  # a gap may be inf
                error = stdev(numbers) / len(numbers) ** 0.5 if known else float("nan")
                mean[f"{column}_se"] = repr(error)
        means.append(mean)
    return means


@dataclass(frozen=True)
class Table:
    """What is shown: a caption, headings, and lines of as many cells."""

    caption: str
    headings: list[str]
    lines: list[list[str]]
    names: frozenset[str]  # texts that may have markup


def _pair(text: str, separator: str) -> tuple[str, str]:
    left, found, right = text.partition(separator)
    if not found:
        raise ValueError(f"{text!r} has no {separator!r}")
    return left.strip(), right.strip()


def table(name: str, text: Iterable[str]) -> Table:
    """The table that the lines of a directive describe."""
    said: dict[str, list[str]] = {}
    known = ("caption", "where", "mean by", "column", "across", "cell", "name")
    for line in filter(str.strip, text):
        key, value = _pair(line, ":")
        if key not in (*known, "paper column", "paper"):
            raise ValueError(f"{key!r} is none of {', '.join(known)}, paper column and paper")
        said.setdefault(key, []).append(value)
    found = list(rows(name))
    for condition in said.get("where", []):
        column, values = _pair(condition, "=")
        found = selected(found, column, [value.strip() for value in values.split("|")])
    for keys in said.get("mean by", []):
        found = averaged(found, [key.strip() for key in keys.split(";")])
    columns = [_pair(column, " as ") for column in said["column"]]
    headings = [heading for _, heading in columns]
    labels = [tuple(filled(template, row) for template, _ in columns) for row in found]
    if "across" in said:
        (across,), (template,) = said["across"], said["cell"]
        values = list(dict.fromkeys(row[across] for row in found))
        headings += values
        lines = []
        for label in dict.fromkeys(labels):
            line = list(label)
            for value in values:
                rows_of_cell = [
                    row
                    for row, other in zip(found, labels, strict=True)
                    if other == label and row[across] == value
                ]
                if len(rows_of_cell) != 1:
                    raise ValueError(f"{name}: {len(rows_of_cell)} rows for {label} and {value}")
                line.append(filled(template, rows_of_cell[0]))
            lines.append(line)
    else:
        lines = [list(label) for label in labels]
    if "paper column" in said:
        printed = dict(entry.rsplit(" = ", 1) for entry in said.get("paper", []))
        if unknown := printed.keys() - {line[0] for line in lines}:
            raise ValueError(f"{name}: no line begins with {', '.join(sorted(unknown))}")
        headings += said["paper column"]
        lines = [[*line, printed.get(line[0], "")] for line in lines]
    if not lines:
        raise ValueError(f"{name}: no row")
    names = dict(_pair(entry, " as ") for entry in said.get("name", []))
    used = {text for line in [headings, *lines] for text in line}
    if unknown := names.keys() - used:
        raise ValueError(f"{name}: nothing is called {', '.join(sorted(unknown))}")
    return Table(
        " ".join(said.get("caption", [])),
        [names.get(heading, heading) for heading in headings],
        [[names.get(text, text) for text in line] for line in lines],
        frozenset(names.values()),
    )


class Result(SphinxRole):
    """One number of a csv of results."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The number, or a message that fails the build."""
        try:
            return [nodes.inline(self.rawtext, shown(self.text), classes=["result"])], []
        except (ValueError, OSError) as error:
            message = self.inliner.reporter.error(f"result: {error}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]


class ResultsTable(SphinxDirective):
    """Rows of a csv of results as a table."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The table, or an error of the build."""
        name = self.arguments[0]
        self.env.note_dependency(str(ROOT / name.replace("/", "/results/", 1)))
        try:
            made = table(name, self.content)
        except (ValueError, KeyError, OSError) as error:
            raise self.error(f"results-table: {error}") from error
        group = nodes.tgroup(cols=len(made.headings))
        group += [nodes.colspec(colwidth=1) for _ in made.headings]
        group += nodes.thead("", self._line(made.headings, frozenset(made.headings)))
        group += nodes.tbody("", *(self._line(line, made.names) for line in made.lines))
        result = nodes.table("", classes=["colwidths-auto", "results"])
        if made.caption:
            result += nodes.title("", "", *self.parse_inline(made.caption)[0])
        result += group
        return [result]

    def _line(self, texts: list[str], with_markup: frozenset[str]) -> nodes.row:
        line = nodes.row()
        for text in texts:
            text = _INSIDE.sub("\u00a0", text)
            content = self.parse_inline(text)[0] if text in with_markup else [nodes.Text(text)]
            line += nodes.entry("", nodes.paragraph("", "", *content))
        return line


def setup(app: Any) -> dict[str, bool]:
    """Register the role and the directive."""
    app.add_role("result", Result())
    app.add_directive("results-table", ResultsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
