"""Numbers on pages come from results: a role that reads one cell of a csv when the site is built.

    {result}`experiments/ocr_folds.csv; model=M3N; folds=1; accuracy; .3f`

reads ``experiments/results/ocr_folds.csv``: the one row whose columns have these values, the column
named next, and the format of the number. A row that is missing, or two that match, is a warning,
and so an error of the build.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxRole

ROOT = Path(__file__).parents[2]


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
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


class Result(SphinxRole):
    """One number of a csv of results."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The number, or a message that fails the build."""
        try:
            return [nodes.inline(self.rawtext, shown(self.text), classes=["result"])], []
        except (ValueError, OSError) as error:
            message = self.inliner.reporter.error(f"result: {error}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]


def setup(app: Any) -> dict[str, bool]:
    """Register the role."""
    app.add_role("result", Result())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
