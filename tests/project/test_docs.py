"""The documentation tells the truth: its code runs, its examples pass, every name is described."""

import doctest
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import maxent
from maxent import io
from tools import docs_extension, needs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("[a-z]*/*.md")])
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
_BLOCK = re.compile(r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def name(page):
    """A page as the tests call it."""
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).with_suffix("").as_posix()


def blocks(page):
    """(language, line of its first row, code) of every fenced block."""
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        yield block["language"], text.count("\n", 0, block.start("code")), block["code"]


def commands(page):
    """Every line of the blocks of shell commands."""
    for language, _, code in blocks(page):
        if language == "sh":
            yield from code.splitlines()


@pytest.fixture(autouse=True)
def _forget_what_examples_register():
    known = set(io._REGISTRY)
    yield
    for name, entry in list(io._REGISTRY.items()):
        if name not in known and not entry.cls.__module__.startswith("maxent."):
            del io._REGISTRY[name]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_on_pages(page, capsys):
    """Block after block in one namespace; lines of a failure are those of the page."""
    names: dict = {}
    report: list[str] = []
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for language, line, code in blocks(page):
        if language == "python":
            exec(compile("\n" * line + code, str(page), "exec"), names)
        elif language == "pycon":
            test = parser.get_doctest(code, names, page.name, str(page), line)
            runner.run(test, out=report.append, clear_globs=False)
            names = test.globs
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name)
def test_blocks_say_what_they_are(page):
    """python, pycon and the maxent command are run; text is no code; {directives} are Sphinx's."""
    for language, line, _ in blocks(page):
        known = language in ("python", "pycon", "sh", "text") or language.startswith("{")
        assert known, f"{page.name}, line {line}: {language!r} would not be run"
    for command in commands(page):
        # `make release` does what pip is asked for here
        tried = command.startswith(
            ("maxent ", "make ", 'pip install "maxent[', "pip install maxent")
        )
        known = tried or "not run by the tests" in command
        assert known, f"{page.name}: {command!r} would not be run"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_pass_their_checks(example, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(example)])
    for package in ("sklearn", "torch", "transformers"):
        if f"import {package}" in example.read_text() or f"from {package}" in example.read_text():
            needs(package)
    runpy.run_path(str(example), run_name="__main__")


def test_the_entropy_example_is_short():
    source = (DOCS / "gallery" / "contributor" / "plot_01_own_entropy.py").read_text()
    body = source[source.index("@dataclass") :].partition("# %%")[0].strip()
    assert len(body.splitlines()) < 20


def test_the_estimator_example_saves_and_loads(tmp_path):
    classifier = runpy.run_path(str(DOCS / "examples" / "own_estimator.py"))["LinearClassifier"]
    X = np.random.default_rng(0).normal(size=(30, 3))
    fitted = classifier(potential=maxent.ElasticNet(0.01, 0.1)).fit(X, np.sign(X[:, 0]).astype(int))
    maxent.save(fitted, tmp_path / "model.json")
    again = maxent.load(tmp_path / "model.json")
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.gap_ <= 1e-8


def test_every_public_name_is_in_the_reference():
    described = docs_extension("reference").reference()
    assert {f"maxent.{name}" for name in maxent.__all__} - {"maxent.__version__"} <= set(described)
    assert len(described) == len(set(described))


def test_links_to_references_lead_to_one():
    titles = re.findall(r"^### (.+)$", (DOCS / "references.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    for page in PAGES:
        assert set(re.findall(r"references\.md#([\w-]+)", page.read_text())) <= anchors, page
