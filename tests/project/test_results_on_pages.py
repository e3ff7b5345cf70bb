"""Numbers on pages are those of the results, and the pages of the papers name what exists."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from tools import docs_extension, needs

needs("sphinx")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("[a-z]*/*.md")])
PAPERS = sorted((DOCS / "papers").glob("*.md"))
_TABLE = re.compile(r"^```\{results-table\} (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r"\{result\}`([^`]+)`")
_FILE = re.compile(r"`((?:src|tests|experiments|benchmarks|docs)/[\w./-]+)`")
_NAME = re.compile(r"\{py:(?:class|func|meth)\}`~?(maxent\.[\w.]+)`")


@pytest.fixture(scope="module")
def results():
    return docs_extension("results")


@pytest.fixture
def trees(results, monkeypatch):
    """Two kinds of trees in two years, one not counted."""
    lines = [
        ("oak", "1", "4", "a"),
        ("oak", "2", "6", "b"),
        ("ash", "1", "1", ""),
        ("ash", "2", "", ""),
    ]
    rows = tuple(dict(zip(("kind", "year", "count", "note"), line, strict=True)) for line in lines)
    monkeypatch.setattr(results, "rows", lambda name: rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_number_is_one_cell(results, page):
    text = page.read_text()
    for role in _ROLE.findall(text):
        assert results.shown(role)
    for name, lines in _TABLE.findall(text):
        table = results.table(name, lines.splitlines())
        assert table.caption, f"{page.name}: a table of {name} says nothing"
        assert all(len(line) == len(table.headings) for line in table.lines)
        assert any(any(line[1:]) for line in table.lines)
    assert text.count("{results-table} ") == len(_TABLE.findall(text)), page


@pytest.mark.parametrize("page", PAPERS, ids=lambda path: path.stem)
def test_files_and_names_of_the_pages_exist(page):
    text = page.read_text()
    missing = [file for file in _FILE.findall(text) if not (ROOT / file).exists()]
    missing += [
        file
        for file in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
        if not (page.parent / file).exists()
    ]
    assert not missing
    for name in _NAME.findall(text):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


@pytest.mark.parametrize("page", PAPERS, ids=lambda path: path.stem)
def test_pictures_are_explained(page):
    """Every picture has words in its place, and is followed by how to read it."""
    text = page.read_text()
    pictures = re.findall(r"^!\[([^\]]*)\]\([^)]+\)\n\n(.*)", text, re.MULTILINE)
    assert len(pictures) == text.count("![")
    for alternative, following in pictures:
        assert len(alternative) > 20
        assert following.startswith("**How to read this.**"), alternative


def test_every_paper_has_a_page_in_the_table(results):
    index = (DOCS / "papers" / "index.md").read_text()
    for page in PAPERS:
        assert page.stem == "index" or f"]({page.name})" in index


def test_a_missing_row_is_an_error(results, trees):
    assert results.shown("trees.csv; kind=oak; year=2; count; .1f") == "6.0"
    assert results.shown("trees.csv; kind=oak; year=2; note;") == "b"
    with pytest.raises(ValueError, match=r"0 rows have .*elm"):
        results.shown("trees.csv; kind=elm; count; .1f")
    with pytest.raises(ValueError, match="2 rows have"):
        results.shown("trees.csv; kind=oak; count; .1f")
    with pytest.raises(ValueError, match="no column 'height'"):
        results.shown("trees.csv; kind=oak; year=1; height; .1f")


def test_a_missing_file_is_an_error(results):
    with pytest.raises(OSError, match="nothing"):
        results.shown("experiments/nothing.csv; kind=oak; count; .1f")


def test_a_table_line_by_line(results, trees):
    table = results.table(
        "trees.csv",
        [
            "caption: Trees",
            "where: year = 2 | 1",
            "column: {kind} as Kind",
            "column: {count:.1f} ({note}) as Count",
            "paper column: Printed",
            "paper: oak = 5",
            "name: ash as *ash*",
        ],
    )
    assert table.caption == "Trees"
    assert table.headings == ["Kind", "Count", "Printed"]
    assert table.lines == [
        ["oak", "6.0 (b)", "5"],
        ["*ash*", "", ""],
        ["oak", "4.0 (a)", "5"],
        ["*ash*", "", ""],
    ]
    assert table.names == {"*ash*"}


def test_a_table_of_pairs(results, trees):
    table = results.table("trees.csv", ["column: {kind} as Kind", "across: year", "cell: {count}"])
    assert table.headings == ["Kind", "1", "2"]
    assert table.lines == [["oak", "4", "6"], ["ash", "1", ""]]


def test_means_and_their_errors(results, trees):
    table = results.table(
        "trees.csv",
        [
            "where: kind = oak",
            "mean by: kind",
            "column: {kind} as Kind",
            "column: {count:.1f} ± {count_se:.1f} as Mean",
        ],
    )
    assert table.lines == [["oak", "5.0 ± 1.0"]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["where: kind = elm", "column: {kind} as Kind"], "no row has kind = elm"),
        (["column: {height:.1f} as Height"], "no column height"),
        (["mean by: region", "column: {kind} as Kind"], "no column region"),
        (["column: {kind} as Kind", "across: note", "cell: {count}"], "0 rows for"),
        (["column: Trees as All", "across: kind", "cell: {count}"], "2 rows for"),
        (["column: {kind} as Kind", "colour: green"], "'colour' is none of"),
        (["column: {kind}"], "has no ' as '"),
        (
            ["column: {kind} as Kind", "paper column: Printed", "paper: elm = 3"],
            "no line begins with elm",
        ),
        (["column: {kind} as Kind", "name: elm as Elm"], "nothing is called elm"),
    ],
)
def test_a_table_that_cannot_be_made_is_an_error(results, trees, lines, message):
    with pytest.raises(ValueError, match=message):
        results.table("trees.csv", lines)
