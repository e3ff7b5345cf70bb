"""Tables of the papers' pages, item by item: the tests they name exist, the numbers are stored.

A page has one table under "## Item by item" with a row for each definition, theorem, algorithm,
table and figure: | in the paper | in the code | checked by | here, and in print | verdict |.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in (ROOT / "docs/papers").glob("*.md") if p.stem != "index")
TITLE = "## Item by item"
HEADINGS = ["in the paper", "in the code", "checked by", "here, and in print", "verdict"]
# "same" wants a number or a test, the next two a number; the others say why in words.
VERDICTS = ("same", "better", "worse", "not comparable: ", "differs: ", "left out: ", "ours")
CHECK = re.compile(r"`((?:tests|experiments|benchmarks)/[\w/]+\.py)(?:::(\w+))?`")
NUMBER = re.compile(r"\{result\}`[^`]+`")


def rows_of(text):
    """The rows of the table, as lists of cells."""
    lines = text.partition(TITLE)[2].partition("\n## ")[0].splitlines()
    table = [line for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


@cache
def functions_in(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def faults(rows):
    """What is wrong with a table."""
    wrong = []
    if [cell.strip() for cell in rows[0]] != HEADINGS:
        wrong.append(f"headings are {rows[0]}")
    for row in rows[2:]:
        if len(row) != len(HEADINGS):
            wrong.append(f"{row[0]}: {len(row)} cells")
            continue
        item, _, checked, numbers, verdict = row
        if not verdict.startswith(VERDICTS):
            wrong.append(f"{item}: the verdict is {verdict!r}")
        if verdict.startswith(("better", "worse")) and not NUMBER.search(numbers):
            wrong.append(f"{item}: {verdict} without a number")
        checks = CHECK.findall(checked)
        if not checks and not verdict.startswith(("left out: ", "not comparable: ")):
            wrong.append(f"{item}: nothing checks it")
        for path, name in checks:
            if not (ROOT / path).exists():
                wrong.append(f"{item}: there is no {path}")
            elif path.startswith("tests/") and name not in functions_in(path):
                wrong.append(f"{item}: there is no {path}::{name}")
        if "as in the paper" in " ".join(row) and not NUMBER.search(numbers):
            wrong.append(f"{item}: as in the paper, without a number")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_row_is_checked_and_judged(page):
    rows = rows_of(page.read_text())
    assert len(rows) > 8, f"{page.name} has no table under {TITLE!r}"
    assert not faults(rows)


GOOD = [
    *("**Theorem 1**", "`f`", "`tests/project/test_paper_tables.py::test_a_wrong_row_is_told`"),
    *("–", "same"),
]


@pytest.mark.parametrize(
    ("place", "cell", "told"),
    [
        (4, "same", None),
        (4, "fine", "the verdict is"),
        (4, "better", "without a number"),
        (2, "by eye", "nothing checks it"),
        (2, "`tests/project/test_nothing.py::test_it`", "there is no tests/project/test_nothing"),
        (2, "`tests/project/test_paper_tables.py::test_nothing`", "::test_nothing"),
        (3, "as in the paper", "without a number"),
    ],
)
def test_a_wrong_row_is_told(place, cell, told):
    row = [cell if i == place else good for i, good in enumerate(GOOD)]
    found = faults([HEADINGS, [], row])
    assert (told in found[0]) if told else not found
