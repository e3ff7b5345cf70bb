"""The documentation tells the truth: its code runs, its examples pass, every name is described."""

import doctest
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maxent
from conftest import needs
from maxent import io

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.glob("*.md"))
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
_BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """Classes that examples register are forgotten afterwards."""
    monkeypatch.setattr(io, "_REGISTRY", dict(io._REGISTRY))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_code_on_pages(page):
    text = page.read_text()
    # blank lines instead of prose keep the line numbers of a failure right
    code = re.sub(r"[^\n]+", "", text)
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        rows = code.split("\n")
        rows[line : line + block[1].count("\n")] = block[1].split("\n")[:-1]
        code = "\n".join(rows)
    test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report = []
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_pass_their_checks(example):
    if "sklearn" in example.read_text():
        needs("sklearn")
    runpy.run_path(str(example), run_name="__main__")


def test_the_entropy_example_is_short():
    source = (DOCS / "examples" / "own_entropy.py").read_text()
    body = source[source.index("@dataclass") : source.index("if __name__")].strip()
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
    settings = runpy.run_path(str(DOCS / "conf.py"))
    described = settings["described"](settings["write_out"]((DOCS / "api.md").read_text()))
    assert {f"maxent.{name}" for name in maxent.__all__} - {"maxent.__version__"} <= set(described)
    assert len(described) == len(set(described))


def test_pages_build_without_warnings(tmp_path):
    for module in ("sphinx", "myst_parser", "furo"):
        needs(module)
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "-d", tmp_path / "trees"]
    result = subprocess.run([*command, DOCS, tmp_path / "html"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "html" / "index.html").exists()
