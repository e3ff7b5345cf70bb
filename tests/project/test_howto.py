"""Questions of users: each has an answer with code that is run, and all are on the index."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "howto" / "index.md"
ANSWERS = sorted(set(INDEX.parent.glob("*.md")) - {INDEX})
_BLOCK = re.compile(r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^]]+)\]\((?P<file>[\w./]+\.md)(?:#(?P<anchor>[^)]+))?\)")


def slug(title):
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def headings(page, level="#+"):
    """Titles of a page; a # in code is no heading."""
    return re.findall(rf"^{level} (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)


def anchors(page):
    """What links to a page may end with: slugs of its headings, or their ids in HTML."""
    titles = headings(page)
    ids = [re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") for title in titles]
    return {*map(slug, titles), *ids}


def answers(page):
    """(question, text) of each section of level 2; a ## within code begins none."""
    text = page.read_text()
    hidden = _BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    starts = [match.start() for match in re.finditer("^## ", hidden, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        title, _, body = text[start:end].partition("\n")
        yield title.removeprefix("## "), body


QUESTIONS = [
    pytest.param(page, body, id=slug(question)[:60])
    for page in ANSWERS
    for question, body in answers(page)
]


def is_run(language, code):
    """Whether tests/project/test_docs.py runs a block."""
    if language in ("python", "pycon"):
        return True
    lines = code.splitlines() if language == "sh" else []
    return any(line.startswith("maxent ") and "not run" not in line for line in lines)


def test_there_are_enough_questions_and_none_twice():
    asked = [question for page in ANSWERS for question, _ in answers(page)]
    assert len(asked) >= 24
    assert len(set(map(slug, asked))) == len(asked)
    assert all(question.endswith("?") for question in asked)


@pytest.mark.parametrize(("page", "body"), QUESTIONS)
def test_an_answer_comes_first_then_code_then_a_caution_and_a_link(page, body):
    assert not body.lstrip().startswith("```"), "the answer in words comes first"
    assert any(is_run(block["language"], block["code"]) for block in _BLOCK.finditer(body))
    *_, last = _BLOCK.sub("", body).strip().split("\n\n")
    assert last.startswith("Watch out"), last
    assert "](../" in last or "{ref}`" in last, "the last paragraph leads to a guide"


def test_the_index_lists_every_question_with_its_anchor():
    listed = {
        (link["text"], link["file"], link["anchor"])
        for link in _LINK.finditer(INDEX.read_text())
        if link["anchor"]
    }
    asked = {
        (question, page.name, slug(question)) for page in ANSWERS for question, _ in answers(page)
    }
    assert listed == asked
    toctree = INDEX.read_text().split("```{toctree}")[1]
    assert all(f"\n{page.stem}\n" in toctree for page in ANSWERS)


@pytest.mark.parametrize("page", [INDEX, *ANSWERS], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in _LINK.finditer(_BLOCK.sub("", page.read_text())):
        target = (page.parent / link["file"]).resolve()
        assert target.exists(), link[0]
        assert link["anchor"] is None or link["anchor"] in anchors(target), link[0]
